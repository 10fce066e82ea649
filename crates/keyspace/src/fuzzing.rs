//! Entry points for fuzzers: plain functions that must never panic.

use tidewire_resp::{Limits, Progress, Protocol, RequestParser, Writer};

use crate::{Keyspace, NullObserver, Options, resolve};

/// Runs the requests in `data` on a small keyspace.
pub fn fuzz_commands(data: &[u8]) {
    let keyspace = Keyspace::new(Options {
        hash_listpack_entries_max: 4,
        hash_listpack_value_bytes_max: 16,
        set_intset_entries_max: 3,
        set_listpack_entries_max: 4,
        set_listpack_value_bytes_max: 16,
        list_listpack_size: 3,
        string_bytes_max: 1 << 16,
        ..Options::default()
    });
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
            let _ = keyspace.execute(
                command,
                arguments,
                0,
                now_ms,
                &mut writer,
                &mut NullObserver,
            );
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
