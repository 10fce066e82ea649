//! Runs every file of the fuzz corpus, also cut at every length and with each byte changed.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use tidewire_tls::fuzzing::fuzz_tls_session;

#[test]
fn no_session_panics() {
    assert!(run_corpus::run("tls_session", fuzz_tls_session) >= 8);
}
