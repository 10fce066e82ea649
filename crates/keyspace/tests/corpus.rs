//! The fuzzers' corpus, whole, cut and damaged: nothing in it panics.

use tidewire_keyspace::fuzzing::{fuzz_commands, fuzz_hyperloglog, fuzz_rdb_file, fuzz_restore};

#[test]
fn no_file_of_commands_panics() {
    assert!(run("commands", fuzz_commands) > 15);
}

#[test]
fn no_file_of_a_hyperloglog_panics() {
    assert!(run("hyperloglog", fuzz_hyperloglog) > 5);
}

#[test]
fn no_file_of_a_serialised_value_panics() {
    assert!(run("restore", fuzz_restore) > 15);
}

#[test]
fn no_file_of_keys_panics() {
    assert!(run("rdb_file", fuzz_rdb_file) > 5);
}

/// Gives each file of a folder to a fuzzer's entry; how many there are.
fn run(name: &str, fuzz: fn(&[u8])) -> usize {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
    let mut files = 0;
    for file in std::fs::read_dir(format!("{corpus}{name}")).expect("part of the repository") {
        let data = std::fs::read(file.expect("a file").path()).expect("readable");
        files += 1;
        fuzz(&data);
        for length in 0..data.len() {
            fuzz(&data[..length]);
        }
        let mut damaged = data.clone();
        for at in 0..data.len() {
            for flip in [1, 0x20, 0xFF] {
                damaged[at] ^= flip;
                fuzz(&damaged);
                damaged[at] ^= flip;
            }
        }
    }
    files
}
