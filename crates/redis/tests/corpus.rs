//! The fuzzers' corpus, whole, cut and damaged: nothing in it panics.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use run_corpus::run;
use tidewire_redis::fuzzing::{fuzz_log, fuzz_manifest};

#[test]
fn no_manifest_panics() {
    assert!(run("manifest", fuzz_manifest) > 3);
}

#[test]
fn no_log_panics() {
    assert!(run("log", fuzz_log) > 3);
}
