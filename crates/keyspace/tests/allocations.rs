//! Tests how much memory commands allocate, and that all of it is freed.

mod common;

use common::{NOW_MS, Random, Server};
use tidewire_keyspace::{Keyspace, NullObserver, Options, resolve};
use tidewire_memory::counting::{CountingAllocator, allocations_of, live_bytes};
use tidewire_resp::{ArgumentList, Protocol, Writer};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the number of allocations of one command, after a warm-up.
fn allocations(keyspace: &Keyspace, out: &mut Vec<u8>, words: &[&[u8]]) -> u64 {
    let request = ArgumentList::from_slices(words);
    out.clear();
    let allocations = allocations_of(|| {
        let command = resolve(request.as_arguments()).expect("a command");
        let mut reply = Writer::new(out, Protocol::Resp2);
        let arguments = request.as_arguments();
        if !keyspace.execute_directly(command, None, arguments, 0, NOW_MS, &mut reply) {
            let observer = &mut NullObserver;
            let _ = keyspace.execute(command, arguments, 0, NOW_MS, &mut reply, observer);
        }
        keyspace.expire_due(NOW_MS, 100, &mut NullObserver);
    });
    assert!(!out.starts_with(b"-"));
    allocations
}

#[test]
fn the_hot_commands_do_not_allocate() {
    let keyspace = Keyspace::new(Options::default());
    let mut out = Vec::with_capacity(4096);
    let mut run = |words: &[&[u8]]| allocations(&keyspace, &mut out, words);
    run(&[b"SET", b"key", b"a value of 20 bytes!"]);
    run(&[b"SET", b"counter", b"10"]);
    run(&[b"HSET", b"hash", b"f", b"1", b"g", b"two"]);
    run(&[b"SET", b"brief", b"x", b"EX", b"100"]);

    assert_eq!(run(&[b"GET", b"key"]), 0);
    assert_eq!(run(&[b"GET", b"missing"]), 0);
    assert_eq!(run(&[b"GET", b"counter"]), 0);
    assert_eq!(run(&[b"EXISTS", b"key"]), 0);
    assert_eq!(run(&[b"TTL", b"brief"]), 0);
    assert_eq!(run(&[b"SET", b"key", b"another 20 byte text"]), 0);
    assert_eq!(
        run(&[b"SET", b"brief", b"y", b"EX", b"200"]),
        0,
        "the deadline only moves"
    );
    assert_eq!(run(&[b"EXPIRE", b"brief", b"300"]), 0);
    assert_eq!(run(&[b"INCR", b"counter"]), 0);
    assert_eq!(run(&[b"INCRBY", b"counter", b"1000000000000"]), 0);
    assert_eq!(run(&[b"HGET", b"hash", b"g"]), 0);
    assert_eq!(run(&[b"HSET", b"hash", b"g", b"one"]), 0);
    assert_eq!(run(&[b"HGETALL", b"hash"]), 0);
    assert_eq!(run(&[b"HINCRBY", b"hash", b"f", b"1"]), 0);
    run(&[b"SADD", b"integers", b"1", b"2", b"3"]);
    run(&[b"SADD", b"members", b"one", b"2", b"three"]);
    for key in [&b"integers"[..], b"members"] {
        assert_eq!(run(&[b"SISMEMBER", key, b"2"]), 0);
        assert_eq!(run(&[b"SADD", key, b"2"]), 0);
        assert_eq!(run(&[b"SCARD", key]), 0);
        assert_eq!(run(&[b"SMEMBERS", key]), 0);
        assert_eq!(run(&[b"SRANDMEMBER", key]), 0);
        assert!(run(&[b"SADD", key, b"4"]) <= 1);
        assert!(run(&[b"SREM", key, b"4"]) <= 1);
    }
    run(&[b"RPUSH", b"short", b"one", b"2", b"three"]);
    for index in 0..2_000 {
        run(&[b"RPUSH", b"long", format!("element{index}").as_bytes()]);
    }
    for key in [&b"short"[..], b"long"] {
        assert_eq!(run(&[b"LLEN", key]), 0);
        assert_eq!(run(&[b"LINDEX", key, b"1"]), 0);
        assert_eq!(run(&[b"LRANGE", key, b"0", b"2"]), 0);
        assert_eq!(run(&[b"LPOS", key, b"element1000"]), 0);
        // A block is occasionally resized.
        let mut sum = 0;
        for _ in 0..100 {
            sum += run(&[b"RPUSH", key, b"element10000"]);
            sum += run(&[b"LPOP", key]);
        }
        let most = if key == b"short" { 400 } else { 10 };
        assert!(sum <= most, "{sum} allocations of {}", key.escape_ascii());
    }
    assert!(run(&[b"SET", b"key", b"a value of quite another length"]) <= 1);
    assert!(run(&[b"SET", b"key", b"7"]) <= 1);
    assert!(run(&[b"HSET", b"hash", b"new", b"field"]) <= 1);
}

#[test]
fn a_new_key_is_one_allocation_and_its_share_of_the_table() {
    let keyspace = Keyspace::new(Options::default());
    let mut out = Vec::with_capacity(4096);
    for index in 0..100_000 {
        allocations(
            &keyspace,
            &mut out,
            &[b"SET", format!("{index:016}").as_bytes(), b"value"],
        );
    }
    let before = live_bytes();
    let mut most = 0;
    let mut sum = 0;
    for index in 100_000..200_000 {
        let key = format!("{index:016}");
        let count = allocations(
            &keyspace,
            &mut out,
            &[b"SET", key.as_bytes(), b"16 bytes of text"],
        );
        most = most.max(count);
        sum += count;
    }
    // Occasionally a chunk of groups, or the chunks of two segments.
    assert!(
        most <= 16 && sum < 104_000,
        "at most {most}, {sum} together"
    );
    let bytes = (live_bytes() - before) as f64 / 100_000.0;
    assert!((40.0..58.0).contains(&bytes), "{bytes} bytes per key");
}

#[test]
fn members_take_little_more_than_their_bytes() {
    let keyspace = Keyspace::new(Options::default());
    let mut out = Vec::with_capacity(4096);
    let mut bytes_a_member = |count: usize, text: fn(usize) -> String| {
        let before = live_bytes();
        for index in 0..count {
            let member = text(index);
            allocations(&keyspace, &mut out, &[b"SADD", b"s", member.as_bytes()]);
        }
        let bytes = (live_bytes() - before) as f64 / count as f64;
        allocations(&keyspace, &mut out, &[b"DEL", b"s"]);
        bytes
    };
    let text = |index| format!("member{index:04}");
    let figures = [
        bytes_a_member(100, text),
        bytes_a_member(512, |index| index.to_string()),
        bytes_a_member(10_000, text),
    ];
    println!("bytes a member: {figures:?}");
    assert!(
        figures[0] < 16.0 && figures[1] < 4.0 && figures[2] < 40.0,
        "{figures:?}"
    );
}

#[test]
fn elements_take_little_more_than_their_bytes() {
    let keyspace = Keyspace::new(Options::default());
    let mut out = Vec::with_capacity(4096);
    let mut bytes_an_element = |count: usize, command: &[u8]| {
        let before = live_bytes();
        for index in 0..count {
            let element = format!("element{index:03}");
            allocations(&keyspace, &mut out, &[command, b"l", element.as_bytes()]);
        }
        let bytes = (live_bytes() - before) as f64 / count as f64;
        allocations(&keyspace, &mut out, &[b"DEL", b"l"]);
        bytes
    };
    let figures = [(100, b"RPUSH"), (1_000, b"RPUSH"), (1_000, b"LPUSH")]
        .map(|(count, command)| bytes_an_element(count, command));
    println!("bytes an element: {figures:?}");
    assert!(figures.iter().all(|&bytes| bytes < 16.0), "{figures:?}");
}

#[test]
fn all_memory_is_freed() {
    // A debug build allocates a list of the shards that a thread has locked.
    Server::new().line("FLUSHALL");
    let before = live_bytes();
    {
        let server = Server::new();
        let empty = live_bytes() - before;
        assert!(empty < 600_000, "an empty keyspace holds {empty} bytes");
        let mut random = Random(99);
        for _ in 0..60_000 {
            let key = format!("key:{}", random.below(3_000));
            let long = "v".repeat(random.below(400));
            let field = format!("field:{}", random.below(700));
            let other = format!("key:{}", random.below(3_000));
            let number = random.below(100_000).to_string();
            let set = format!("set:{}", random.below(40));
            let words: &[&str] = match random.below(26) {
                20 => &["RPUSH", &key, &number, &long],
                21 => &["LPUSH", "list", &long, &number],
                22 => &["LMOVE", "list", &key, "RIGHT", "LEFT"],
                23 => &["LINSERT", "list", "AFTER", &number, &long],
                24 => &["LREM", "list", "2", &long],
                25 => &["LTRIM", "list", "1", "2000"],
                14 => &["SADD", &set, &number, &field],
                15 => &["SADD", &set, &number],
                16 => &["SREM", &set, &number, &field],
                17 => &["SUNIONSTORE", &key, &set, "set:1"],
                18 => &["SINTERSTORE", &set, &set, "set:2"],
                19 => &["SPOP", &set, "2"],
                0 | 1 => &["SET", &key, &long],
                2 => &["SET", &key, "12", "PX", "50"],
                3 => &["DEL", &key],
                4 => &["APPEND", &key, &long],
                5 => &["RENAME", &key, &other],
                6 => &["COPY", &key, &other, "REPLACE"],
                7 => &["EXPIRE", &key, "100"],
                8 => &["INCR", &key],
                9 => &["HDEL", "hash", &field],
                10 => &["HSET", &key, &field, &long],
                11 => &["SETRANGE", &key, "100", &long],
                12 => &["MOVE", &key, "3"],
                _ => &["HSET", "hash", &field, &long],
            };
            server.run(words);
        }
        server
            .keyspace
            .expire_due(NOW_MS + 1_000_000, usize::MAX, &mut NullObserver);
        assert_eq!(server.keyspace.next_deadline_ms(), None);
        server.line("FLUSHALL");
        let left = live_bytes() - before;
        assert!(
            left <= empty + 1_000,
            "{left} bytes after FLUSHALL, {empty} at first"
        );
        for index in 0..20_000 {
            server.line(&format!("HSET key:{index} f v"));
            server.line(&format!("SET live:{index} v EX 10"));
        }
        for index in 0..20_000 {
            assert_eq!(
                server.line(&format!("DEL key:{index} live:{index}")),
                ":2\r\n"
            );
        }
        let left = live_bytes() - before;
        // The index of live names keeps its buckets.
        assert!(
            left <= empty + 2_000_000,
            "{left} bytes after DEL, {empty} at first"
        );
    }
    assert_eq!(live_bytes(), before);
}
