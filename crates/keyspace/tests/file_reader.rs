//! Tests that the file reader accepts bytes as a stream delivers them. It never waits for a byte
//! beyond the end of the file.

mod common;

use common::{NOW_MS, Server};
use tidewire_keyspace::{
    FileReader, FileRecord, FileVersion, Keyspace, LoadOptions, NullObserver, Options,
    SnapshotOptions, debug_command,
};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// Returns each type of value, small and large, with the commands that create it.
fn values() -> Vec<(&'static str, Vec<Vec<String>>)> {
    let numbers = |from: usize, count: usize| (from..from + count).map(|number| number.to_string());
    let command = |words: &[&str], more: Vec<String>| {
        let words = words.iter().map(|word| (*word).to_owned());
        vec![words.chain(more).collect::<Vec<String>>()]
    };
    let pairs = |count: usize| -> Vec<String> {
        numbers(0, count)
            .flat_map(|number| [number.clone(), format!("value {number}")])
            .collect()
    };
    let texts = |count: usize| {
        numbers(0, count)
            .map(|number| format!("text {number}"))
            .collect()
    };
    let scores = |count: usize| -> Vec<String> {
        numbers(0, count)
            .flat_map(|number| [number.clone(), format!("member {number}")])
            .collect()
    };
    let mut timed = command(&["HSET", "k"], pairs(600));
    timed.extend(command(
        &["HPEXPIREAT", "k", "4000000000000", "FIELDS", "300"],
        numbers(0, 300).collect(),
    ));
    let mut stream = Vec::new();
    for number in 1..400 {
        let id = format!("{number}-1");
        stream.extend(command(&["XADD", "k", &id, "field"], vec![id.clone()]));
    }
    stream.extend(command(&["XGROUP", "CREATE", "k", "group", "0"], vec![]));
    let read = [
        "XREADGROUP",
        "GROUP",
        "group",
        "consumer",
        "COUNT",
        "300",
        "STREAMS",
        "k",
        ">",
    ];
    stream.extend(command(&read, vec![]));
    vec![
        (
            "string",
            command(&["SET", "k", &"x y z ".repeat(9_000)], vec![]),
        ),
        ("noise", command(&["SET", "k", &noise()], vec![])),
        ("list", command(&["RPUSH", "k"], texts(3_000))),
        (
            "chunks",
            command(&["RPUSH", "k", &noise(), &noise()], vec![]),
        ),
        (
            "integers",
            command(&["SADD", "k"], numbers(0, 400).collect()),
        ),
        (
            "set of integers",
            command(&["SADD", "k"], numbers(0, 20_000).collect()),
        ),
        ("set", command(&["SADD", "k"], texts(3_000))),
        ("small hash", command(&["HSET", "k"], pairs(50))),
        ("hash", command(&["HSET", "k"], pairs(3_000))),
        ("hash with deadlines", timed),
        ("small sorted set", command(&["ZADD", "k"], scores(50))),
        ("sorted set", command(&["ZADD", "k"], scores(3_000))),
        ("stream", stream),
    ]
}

/// Returns text that does not compress.
fn noise() -> String {
    let mut state = 1u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 90)
    };
    (0..30_000).map(letter).collect()
}

fn file_of(server: &Server, version: FileVersion) -> Vec<u8> {
    let options = SnapshotOptions {
        version,
        compresses: true,
        checks: true,
        ..SnapshotOptions::default()
    };
    let (mut snapshot, ()) = server
        .keyspace
        .begin_snapshot(options, || ())
        .expect("alone");
    assert_eq!(snapshot.misfit(), None);
    let mut file = Vec::new();
    while snapshot.step(&mut file) {}
    file
}

/// Passes a file to the reader in pieces, with nothing after it, like an idle peer. All records
/// must be found, and the key as soon as its own bytes have arrived.
fn read(file: &[u8], piece: usize) -> Keyspace {
    let keyspace = Keyspace::new(Options::default());
    let options = LoadOptions {
        now_ms: NOW_MS,
        ..LoadOptions::default()
    };
    keyspace.set_loading(true);
    let mut reader = FileReader::new(true);
    let (mut given, mut has_key) = (0, false);
    loop {
        match reader.next_record().expect("our own file") {
            Some(FileRecord::Key(record)) => {
                keyspace.load(&record, options).expect("our own value");
                has_key = true;
                assert!(piece > 1 || given == file.len() - END, "the key came late");
            }
            Some(FileRecord::End) => break,
            Some(_) => {}
            None => {
                assert!(
                    given < file.len(),
                    "the reader waits for more than the file has"
                );
                let end = (given + piece).min(file.len());
                reader.push(&file[given..end]);
                given = end;
            }
        }
    }
    assert!(has_key);
    assert_eq!(given, file.len());
    keyspace.set_loading(false);
    keyspace
}

/// Returns a digest of all keys; nothing expires.
fn digest(keyspace: &Keyspace) -> Vec<u8> {
    let request = ArgumentList::from_slices(&[b"DEBUG", b"DIGEST"]);
    let command = debug_command("digest", 2).expect("a command");
    let mut reply = Vec::new();
    let mut writer = Writer::new(&mut reply, Protocol::Resp2);
    let observer = &mut NullObserver;
    let _ = keyspace.execute(command, request.as_arguments(), 0, 0, &mut writer, observer);
    reply
}

/// Bytes of the end record and the checksum.
const END: usize = 9;

#[test]
fn a_large_last_value_needs_no_byte_beyond_the_file() {
    for (name, commands) in values() {
        let server = Server::new();
        for words in &commands {
            let reply = server.run(words);
            assert!(!reply.starts_with(b"-"), "{name}: {reply:?}");
        }
        let expected = digest(&server.keyspace);
        for version in [FileVersion::Fitting, FileVersion::Valkey9] {
            let file = file_of(&server, version);
            // A bit over half of it, so that any byte needed twice would exceed the file.
            let pieces = [1, 777, file.len() / 2 + 100, file.len() - 1, file.len()];
            for piece in pieces {
                let other = read(&file, piece);
                assert_eq!(digest(&other), expected, "{name}, {version}, {piece}");
            }
        }
    }
}

#[test]
fn an_unsuitable_version_is_reported_and_leaves_no_mark() {
    let server = Server::new();
    server.run(&["HSET", "h", "f", "v"]);
    for (version, head) in [
        (FileVersion::Redis7, &b"REDIS0010"[..]),
        (FileVersion::Redis72, b"REDIS0011"),
        (FileVersion::Fitting, b"REDIS0011"),
        (FileVersion::Redis74, b"REDIS0012"),
        (FileVersion::Valkey9, b"VALKEY080"),
    ] {
        assert_eq!(&file_of(&server, version)[..9], head);
    }
    server.run(&["HPEXPIREAT", "h", "4000000000000", "FIELDS", "1", "f"]);
    for version in [FileVersion::Redis7, FileVersion::Redis72] {
        let options = SnapshotOptions {
            version,
            ..SnapshotOptions::default()
        };
        let (snapshot, ()) = server
            .keyspace
            .begin_snapshot(options, || ())
            .expect("alone");
        let misfit = snapshot.misfit().expect("a hash with a field's deadline");
        assert_eq!(misfit.hashes, 1);
    }
    assert_eq!(&file_of(&server, FileVersion::Fitting)[..9], b"REDIS0012");
    assert_eq!(&file_of(&server, FileVersion::Valkey9)[..9], b"VALKEY080");
}
