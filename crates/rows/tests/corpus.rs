//! Runs every file of the fuzz corpora, also cut at every length and with each byte changed.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use tidewire_rows::fuzzing::{fuzz_rows_request, fuzz_rows_table};

#[test]
fn no_request_panics() {
    assert!(run_corpus::run("rows_request", fuzz_rows_request) >= 6);
}

#[test]
fn no_value_panics() {
    assert!(run_corpus::run("rows_table", fuzz_rows_table) >= 3);
}
