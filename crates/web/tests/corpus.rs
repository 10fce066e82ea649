//! Runs every file of the fuzz corpora, also cut at every length and with each byte changed.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use tidewire_web::fuzzing::{fuzz_web_frames, fuzz_web_request, fuzz_web_server, fuzz_web_upgrade};

#[test]
fn no_upgrade_panics() {
    assert!(run_corpus::run("web_upgrade", fuzz_web_upgrade) >= 8);
}

#[test]
fn no_frame_panics() {
    assert!(run_corpus::run("web_frames", fuzz_web_frames) >= 8);
}

#[test]
fn no_server_panics() {
    assert!(run_corpus::run("web_server", fuzz_web_server) >= 4);
}

#[test]
fn no_request_panics() {
    assert!(run_corpus::run("web_request", fuzz_web_request) >= 8);
}
