//! Runs the fuzzers' corpus: whole files, truncated files and damaged files. Nothing may panic.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use run_corpus::run;
use tidewire_keyspace::fuzzing::{fuzz_commands, fuzz_hyperloglog, fuzz_rdb_file, fuzz_restore};

#[test]
fn no_corpus_file_of_commands_panics() {
    assert!(run("commands", fuzz_commands) > 15);
}

#[test]
fn no_corpus_file_of_a_hyperloglog_panics() {
    assert!(run("hyperloglog", fuzz_hyperloglog) > 5);
}

#[test]
fn no_corpus_file_of_a_serialised_value_panics() {
    assert!(run("restore", fuzz_restore) > 15);
}

#[test]
fn no_corpus_file_of_keys_panics() {
    assert!(run("rdb_file", fuzz_rdb_file) > 5);
}
