//! Runs the fuzzers' corpus, whole, cut and damaged: nothing may panic.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use run_corpus::run;
use tidewire_hub::fuzzing::fuzz_zmq_request;

#[test]
fn no_request_on_the_router_port_panics() {
    assert!(run("zmq_request", fuzz_zmq_request) > 10);
}
