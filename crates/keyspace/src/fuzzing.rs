//! Entry points for fuzzers: plain functions that must never panic.

use std::sync::LazyLock;

use tidewire_resp::{ArgumentList, Limits, Progress, Protocol, RequestParser, Writer};

use crate::key::Key;
use crate::serial::Dialect;
use crate::value::ValueRef;

use crate::{
    FileReader, FileRecord, Keyspace, LoadOptions, NullObserver, Options, SnapshotOptions, hash,
    resolve, serial,
};

/// Runs the requests in `data` on a small keyspace.
pub fn fuzz_commands(data: &[u8]) {
    let keyspace = Keyspace::new(small());
    let mut parser = RequestParser::new(Limits::default());
    let mut rest = data;
    let mut now_ms = 1_700_000_000_000;
    let mut reply = Vec::new();
    while let Ok(Progress::Complete { consumed }) = parser.parse(rest) {
        let arguments = parser.arguments(rest);
        if let Ok(command) = resolve(arguments) {
            let protocol = if now_ms % 2 == 0 {
                Protocol::Resp2
            } else {
                Protocol::Resp3
            };
            reply.clear();
            let mut writer = Writer::new(&mut reply, protocol);
            if !keyspace.execute_directly(command, None, arguments, 0, now_ms, &mut writer) {
                let observer = &mut NullObserver;
                let _ = keyspace.execute(command, arguments, 0, now_ms, &mut writer, observer);
            }
            assert!(!reply.is_empty() || !matches!(command.run, crate::Run::Data(_)));
            keyspace.expire_due(now_ms, 10, &mut NullObserver);
        }
        now_ms += 7;
        rest = &rest[consumed.max(1).min(rest.len())..];
        if rest.is_empty() {
            break;
        }
    }
}

/// Interprets `data` as a HyperLogLog, and as the runs of one; counts, adds and merges.
pub fn fuzz_hyperloglog(data: &[u8]) {
    let runs = [&crate::hyperloglog::EMPTY[..16], data].concat();
    for value in [data, &runs] {
        let keyspace = Keyspace::new(Options::default());
        let run = |words: &[&[u8]]| {
            let request = ArgumentList::from_slices(words);
            let arguments = request.as_arguments();
            let command = resolve(arguments).expect("a command");
            let mut reply = Vec::new();
            let mut writer = Writer::new(&mut reply, Protocol::Resp2);
            let _ = keyspace.execute(command, arguments, 0, 0, &mut writer, &mut NullObserver);
            reply
        };
        run(&[b"SET", b"h", value]);
        run(&[b"PFDEBUG", b"DECODE", b"h"]);
        run(&[b"PFADD", b"h", b"a"]);
        run(&[b"PFADD", b"h", b"b", b"c", b"d"]);
        run(&[b"PFCOUNT", b"h"]);
        let count = run(&[b"PFCOUNT", b"h", b"none"]);
        run(&[b"PFMERGE", b"to", b"h"]);
        run(&[b"PFDEBUG", b"TODENSE", b"h"]);
        let merged = run(&[b"PFCOUNT", b"none", b"to"]);
        if count.starts_with(b":") {
            assert_eq!(merged, count);
            assert_eq!(run(&[b"PFCOUNT", b"none", b"h"]), count);
        } else {
            assert_eq!(merged, b":0\r\n");
        }
    }
}

/// Restores a value from a DUMP payload without its footer. A restored value must read back equal.
pub fn fuzz_restore(data: &[u8]) {
    static KEYSPACE: LazyLock<Keyspace> = LazyLock::new(|| Keyspace::new(small()));
    let limits = KEYSPACE.value_limits();
    let bytes = &b"key"[..];
    let hash = hash::of(bytes);
    let key = Key { bytes, hash };
    let _ = serial::body(data, false);
    let made = [Dialect::Redis, Dialect::Valkey]
        .map(|dialect| serial::restore((data, dialect), key, limits));
    for entry in made.into_iter().flatten() {
        let value = ValueRef::new(&entry);
        let payload = serial::dump(value);
        let body = serial::body(&payload, false).expect("the footer is our own");
        let again = serial::restore(body, key, limits).expect("the value is our own");
        assert_eq!(ValueRef::new(&again).value_type(), value.value_type());
    }
}

/// Loads a file of keys, saves the keys, and loads that file. Both keyspaces must be equal.
pub fn fuzz_rdb_file(data: &[u8]) {
    let keyspace = Keyspace::new(small());
    let whole = load_file(&keyspace, data, usize::MAX);
    let piecewise = Keyspace::new(small());
    assert_eq!(load_file(&piecewise, data, 7), whole);
    let options = SnapshotOptions {
        checks: true,
        ..SnapshotOptions::default()
    };
    let begun = keyspace.begin_snapshot(options, || ());
    let (mut snapshot, ()) = begun.expect("no other snapshot runs");
    let mut file = Vec::new();
    while snapshot.step(&mut file) {}
    let again = Keyspace::new(small());
    assert!(load_file(&again, &file, 64), "the file is our own");
    for database in 0..crate::DATABASES {
        assert_eq!(again.keys(database), keyspace.keys(database));
    }
}

/// Returns whether the whole file could be loaded.
fn load_file(keyspace: &Keyspace, data: &[u8], chunk: usize) -> bool {
    keyspace.set_loading(true);
    let is_whole = load_records(keyspace, data, chunk);
    keyspace.set_loading(false);
    is_whole
}

fn load_records(keyspace: &Keyspace, data: &[u8], chunk: usize) -> bool {
    let mut reader = FileReader::new(true);
    let mut chunks = data.chunks(chunk);
    loop {
        match reader.next_record() {
            Ok(Some(FileRecord::End)) => return true,
            Ok(Some(FileRecord::Key(key))) => {
                if keyspace.load(&key, LoadOptions::default()).is_err() {
                    return false;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => match chunks.next() {
                Some(chunk) => reader.push(chunk),
                None => reader.finish(),
            },
            Err(_) => return false,
        }
    }
}

/// Returns limits that few bytes reach.
fn small() -> Options {
    Options {
        hash_listpack_entries_max: 4,
        hash_listpack_value_bytes_max: 16,
        set_intset_entries_max: 3,
        set_listpack_entries_max: 4,
        set_listpack_value_bytes_max: 16,
        zset_listpack_entries_max: 4,
        zset_listpack_value_bytes_max: 16,
        list_listpack_size: 3,
        string_bytes_max: 1 << 16,
        ..Options::default()
    }
}
