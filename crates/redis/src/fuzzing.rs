//! Entry points for fuzzers: plain functions that must never panic.

use crate::durability::log_files::{CommandReader, Manifest, Next};

/// Reads a manifest; what can be read is written as it reads.
pub fn fuzz_manifest(data: &[u8]) {
    if let Ok(manifest) = Manifest::parse(data) {
        let again = Manifest::parse(manifest.text().as_bytes());
        assert_eq!(again.expect("our own text"), manifest);
    }
}

/// Reads the commands of a log, all bytes at once and a few at a time: both find the same.
pub fn fuzz_log(data: &[u8]) {
    let read = |chunk: usize| {
        let mut reader = CommandReader::new();
        let mut chunks = data.chunks(chunk);
        let mut commands = Vec::new();
        loop {
            match reader.next_command() {
                Ok(Next::Command(arguments)) => commands.push(arguments.len()),
                Ok(Next::End) => return (commands, None),
                Ok(Next::More) => match chunks.next() {
                    Some(bytes) => reader.push(bytes),
                    None => reader.finish(),
                },
                Err(error) => return (commands, Some(error)),
            }
        }
    };
    assert_eq!(read(usize::MAX), read(5));
}
