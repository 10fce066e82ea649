//! Entry points for fuzzers, also called by the tests over the corpus. None may panic.

use crate::{Selection, Snapshot, Table, Version, json, msgpack, request};

/// Reads the bytes as a request, as JSON, as MessagePack, and as published values, and checks that
/// what is written of them is JSON.
pub fn fuzz_rows_request(data: &[u8]) {
    let is_json = json::is_json(data);
    if request::parse(data).is_ok() {
        assert!(is_json, "a request is JSON");
    }
    let mut text = Vec::new();
    if msgpack::decode(data, &mut text).is_ok() {
        assert!(json::is_json(&text), "MessagePack becomes JSON");
    }
    let mut packed = Vec::new();
    if is_json {
        let _ = msgpack::encode(data, &mut packed);
        text.clear();
        let _ = msgpack::decode(&packed, &mut text);
    }
}

/// Takes the lines as values of two topics, and checks that each message is JSON.
pub fn fuzz_rows_table(data: &[u8]) {
    let mut table = Table::new(|_, _| true);
    let fields = [b"a".to_vec()];
    for (number, fields, is_short) in [
        (1, None, false),
        (2, Some(&fields[..]), false),
        (3, None, true),
    ] {
        let selection = Selection::new([&b"*"[..]], fields, 1000.0).short(is_short);
        assert!(table.subscribe(0, number, selection).is_ok());
    }
    let mut now_ns = 1_000_000_000;
    for (version, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let name: &[u8] = if version % 2 == 0 { b"one" } else { b"t\"wo" };
        let row = match line {
            b"gone" => table.remove(name, Version::default()),
            _ => table.update(name, Version::default(), line),
        };
        table.mark(0, row);
        now_ns += 10_000_000;
        for number in [1, 2, 3] {
            let mut out = Vec::new();
            if table.write_snapshot((0, number), true, &mut out) == Snapshot::Nothing {
                table.next((0, number));
                table.collect_due(now_ns);
                while let Some(place) = table.take_ready() {
                    out.clear();
                    if table.write_batch(place, now_ns, &mut out) > 0 {
                        assert!(json::is_json(&out), "{}", out.escape_ascii());
                    }
                    if out.is_empty() {
                        break;
                    }
                }
            } else {
                assert!(json::is_json(&out), "{}", out.escape_ascii());
            }
        }
        table.sweep();
    }
    table.leave(0);
    while table.sweep() {}
    assert!(table.is_empty(), "without a page there is no topic");
    assert_eq!(table.memory_bytes(), 0, "no memory without a topic");
}
