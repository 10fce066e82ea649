//! Snapshots: a file contains the state of one moment, regardless of later changes. A real Redis
//! can read our files, and we can read its files.

mod common;
#[path = "common/redis.rs"]
mod redis;

use common::{NOW_MS, Random, Server};
use redis::Redis;
use tidewire_keyspace::{
    FileReader, FileRecord, Keyspace, LoadOptions, NullObserver, RecordedUse, SnapshotOptions,
    Usage, debug_command,
};
use tidewire_resp::{ArgumentList, Protocol, Writer};

fn options() -> SnapshotOptions {
    SnapshotOptions {
        compresses: true,
        checks: true,
        aux: vec![("redis-ver".into(), "8.0.6".into())],
        libraries: vec![b"#!lua name=l\n".to_vec()],
        ..SnapshotOptions::default()
    }
}

/// Returns a digest of all keys; nothing expires.
fn digest(keyspace: &Keyspace) -> Vec<u8> {
    let request = ArgumentList::from_slices(&[b"DEBUG", b"DIGEST"]);
    let command = debug_command("digest", 2).expect("a command");
    let mut reply = Vec::new();
    let mut writer = Writer::new(&mut reply, Protocol::Resp2);
    let arguments = request.as_arguments();
    let observer = &mut NullObserver;
    let _ = keyspace.execute(command, arguments, 0, 0, &mut writer, observer);
    reply
}

fn load(keyspace: &Keyspace, file: &[u8], chunk: usize) -> usize {
    let mut reader = FileReader::new(true);
    let mut chunks = file.chunks(chunk);
    let (mut keys, mut libraries) = (0, 0);
    let options = LoadOptions {
        now_ms: NOW_MS,
        ..LoadOptions::default()
    };
    keyspace.set_loading(true);
    loop {
        match reader.next_record().expect("our own file") {
            Some(FileRecord::Key(key)) => {
                keyspace.load(&key, options).expect("our own value");
                keys += 1;
            }
            Some(FileRecord::Library(_)) => libraries += 1,
            Some(FileRecord::End) => break,
            Some(_) => {}
            None => match chunks.next() {
                Some(bytes) => reader.push(bytes),
                None => reader.finish(),
            },
        }
    }
    keyspace.set_loading(false);
    assert_eq!(libraries, 1);
    keys
}

/// Returns a command that usually changes something.
fn change(random: &mut Random) -> Vec<String> {
    let key = format!("k{}", random.below(3000));
    let other = format!("k{}", random.below(3000));
    let number = random.below(40).to_string();
    let later = (NOW_MS + 5_000_000_000_000 + random.below(1_000_000) as i64).to_string();
    let line: &[&str] = match random.below(26) {
        0..4 => &["SET", &key, &number],
        4 => &[
            "SET",
            &key,
            "a longer text that is not packed",
            "PXAT",
            &later,
        ],
        5 => &["APPEND", &key, "more"],
        6 => &["DEL", &key],
        7 => &["RENAME", &key, &other],
        8 => &["COPY", &key, &other, "REPLACE"],
        9 => &["PEXPIREAT", &key, &later],
        10 => &["PERSIST", &key],
        11 => &["MOVE", &key, "1"],
        12 | 13 => &["RPUSH", &key, &number, "b", "c"],
        14 => &["LPOP", &key],
        15 | 16 => &["SADD", &key, &number, &other],
        17 => &["SREM", &key, &number],
        18 | 19 => &["HSET", &key, &number, &other, "f", "1"],
        20 => &["HPEXPIREAT", &key, &later, "FIELDS", "1", "f"],
        21 => &["HDEL", &key, &number],
        22 => &["ZADD", &key, &number, &other, "2", "b"],
        23 => &["ZREM", &key, &other],
        24 => &["XADD", &key, "*", "a", &number],
        _ => &["INCR", &key],
    };
    line.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_snapshot_contains_the_state_of_its_start() {
    for seed in 1..40 {
        let mut random = Random(seed * 0x9E37_79B9);
        let mut server = Server::new();
        for _ in 0..random.below(8000) {
            server.database = random.below(3);
            server.run(&change(&mut random));
        }
        let before = digest(&server.keyspace);
        let keys: usize = (0..16).map(|at| server.keyspace.keys(at)).sum();
        let begun = server.keyspace.begin_snapshot(options(), || 5);
        let (mut snapshot, noted) = begun.expect("there is none yet");
        assert_eq!(noted, 5);
        assert!(server.keyspace.begin_snapshot(options(), || ()).is_none());
        let mut file = Vec::new();
        let hurry = random.below(20);
        while snapshot.step(&mut file) {
            for _ in 0..hurry {
                let database = random.below(3);
                let words = match random.below(2000) {
                    0 => vec!["FLUSHDB".to_owned()],
                    1 => vec!["FLUSHALL".to_owned()],
                    2..5 => vec!["SWAPDB".to_owned(), "0".to_owned(), "1".to_owned()],
                    _ => change(&mut random),
                };
                let request: ArgumentList = words.iter().collect();
                let command = tidewire_keyspace::resolve(request.as_arguments());
                let mut reply = Vec::new();
                let _ = server.keyspace.execute(
                    command.expect("a command"),
                    request.as_arguments(),
                    database,
                    NOW_MS,
                    &mut Writer::new(&mut reply, Protocol::Resp2),
                    &mut NullObserver,
                );
            }
        }
        assert_eq!(snapshot.written(), keys as u64);
        drop(snapshot);
        let copy = Server::new();
        assert_eq!(load(&copy.keyspace, &file, 1 + random.below(5000)), keys);
        assert_eq!(digest(&copy.keyspace), before, "seed {seed}");
        // The marks are gone, so another snapshot gives the same result.
        let (mut snapshot, ()) = server
            .keyspace
            .begin_snapshot(options(), || ())
            .expect("one");
        let mut again = Vec::new();
        while snapshot.step(&mut again) {}
        copy.keyspace.clear(&mut NullObserver);
        load(&copy.keyspace, &again, 4096);
        assert_eq!(digest(&copy.keyspace), digest(&server.keyspace));
    }
}

#[test]
fn a_dropped_snapshot_leaves_no_marks() {
    let server = Server::new();
    for number in 0..5000 {
        server.line(&format!("SET k{number} v"));
    }
    for steps in [0, 1, 100] {
        let begun = server.keyspace.begin_snapshot(options(), || ());
        let (mut snapshot, ()) = begun.expect("there is none yet");
        let mut file = Vec::new();
        for _ in 0..steps {
            assert!(snapshot.step(&mut file));
        }
        assert!(server.keyspace.is_in_snapshot());
    }
    assert!(!server.keyspace.is_in_snapshot());
}

fn snapshot_of(keyspace: &Keyspace) -> Vec<u8> {
    let (mut snapshot, ()) = keyspace.begin_snapshot(options(), || ()).expect("one");
    let mut file = Vec::new();
    while snapshot.step(&mut file) {}
    file
}

/// Creates keys of every type, small and large.
fn fill(run: &mut dyn FnMut(&[String])) {
    let mut random = Random(7);
    for _ in 0..6000 {
        run(&change(&mut random));
    }
    let line = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for number in 0..700 {
        run(&line(&format!("SADD set-of-integers {}", number * 1000)));
        run(&line(&format!("SADD set m{number}")));
        run(&line(&format!("HSET hash f{number} {number}")));
        run(&line(&format!("ZADD sorted {number}.5 m{number}")));
        run(&line(&format!("RPUSH list element-{number}")));
        run(&line(&format!(
            "XADD stream {}-1 price {number} size 2",
            number + 1
        )));
    }
    let later = NOW_MS + 5_000_000_000_000;
    run(&line(&format!("HPEXPIREAT hash {later} FIELDS 2 f1 f2")));
    run(&line("XGROUP CREATE stream group 0 ENTRIESREAD 5"));
    run(&line(
        "XREADGROUP GROUP group consumer COUNT 7 STREAMS stream >",
    ));
    run(&line("XDEL stream 9-1 10-1"));
    run(&["SET".into(), "long".into(), "tide ".repeat(50_000)]);
}

#[test]
fn redis_reads_our_file_and_we_read_its_file() {
    if !Redis::is_at_hand_since_8() {
        eprintln!("skipped: there is no redis-server 8 on PATH or in REDIS_SERVER");
        return;
    }
    let directory = std::env::temp_dir().join(format!("tidewire-rdb-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary folder");
    let place = directory.display().to_string();
    let arguments = ["--dir", &place, "--enable-debug-command", "yes"];
    let server = Server::new();
    fill(&mut |words| {
        server.run(words);
    });
    let mut file = snapshot_of(&server.keyspace);
    // Redis accepts no library without a function.
    let library = b"#!lua name=l\nredis.register_function('f',function() return 1 end)";
    let begun = server.keyspace.begin_snapshot(
        SnapshotOptions {
            libraries: vec![library.to_vec()],
            ..options()
        },
        || (),
    );
    let (mut snapshot, ()) = begun.expect("one");
    file.clear();
    while snapshot.step(&mut file) {}
    std::fs::write(directory.join("dump.rdb"), &file).expect("written");
    if let Some(mut redis) = Redis::start_with(&arguments) {
        assert_eq!(redis.run(&["FCALL", "f", "0"]), b":1\r\n");
        assert_eq!(redis.run(&["DEBUG", "DIGEST"]), digest(&server.keyspace));
        assert_eq!(redis.run(&["SAVE"]), b"+OK\r\n");
        let theirs = std::fs::read(directory.join("dump.rdb")).expect("saved");
        let copy = Server::new();
        load(&copy.keyspace, &theirs, 10_000);
        assert_eq!(digest(&copy.keyspace), digest(&server.keyspace));
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_file_contains_the_use_of_keys() {
    for (usage, counts, ask, told) in [
        (Usage::IdleSeconds, false, "IDLETIME", ":300\r\n"),
        (Usage::Frequency, true, "FREQ", ":200\r\n"),
        (Usage::Untold, false, "IDLETIME", ":0\r\n"),
    ] {
        let (from, to) = (Server::new(), Server::new());
        for server in [&from, &to] {
            let recorded = match counts {
                true => RecordedUse::Frequency,
                false => RecordedUse::Time,
            };
            server.keyspace.set_access(recorded, 10, 0);
        }
        from.line("SET key value");
        if counts {
            let payload = from.run(&["DUMP", "key"]);
            let start = payload
                .iter()
                .position(|&byte| byte == b'\n')
                .expect("a line")
                + 1;
            let payload = &payload[start..payload.len() - 2];
            let head: [&[u8]; 3] = [b"RESTORE", b"key", b"0"];
            let tail: [&[u8]; 4] = [payload, b"REPLACE", b"FREQ", b"200"];
            assert_eq!(from.run(&[&head[..], &tail].concat()), b"+OK\r\n");
        }
        let options = SnapshotOptions {
            usage,
            now_ms: NOW_MS + 300_000,
            ..options()
        };
        let (mut snapshot, ()) = from.keyspace.begin_snapshot(options, || ()).expect("one");
        let mut file = Vec::new();
        while snapshot.step(&mut file) {}
        load(&to.keyspace, &file, 7);
        assert_eq!(to.line(&format!("OBJECT {ask} key")), told, "{usage:?}");
    }
}

#[test]
fn reading_a_key_does_not_write_it_to_the_snapshot_early() {
    let mut server = Server::new();
    for number in 0..100 {
        server.run(&["SET".into(), format!("key:{number}"), "value".into()]);
    }
    server.now_ms += 60_000;
    let begun = server.keyspace.begin_snapshot(options(), || ());
    let (mut snapshot, ()) = begun.expect("one");
    let mut file = Vec::new();
    snapshot.step(&mut file);
    for number in 0..100 {
        server.run(&["GET".into(), format!("key:{number}")]);
    }
    assert!(snapshot.step(&mut file));
    assert!(snapshot.written() < 100, "the walk has come to one shard");
    while snapshot.step(&mut file) {}
    assert_eq!(snapshot.written(), 100);
}
