//! Runs the fuzzers' corpus, whole, cut and damaged: nothing may panic.

#[path = "../../../fuzz/run_corpus.rs"]
mod run_corpus;

use tidewire_rings::fuzzing;

#[test]
fn every_file_of_the_corpus_is_survived_truncated_and_flipped() {
    assert!(run_corpus::run("ring", fuzzing::fuzz_ring) > 0);
    assert!(run_corpus::run("ring_offer", fuzzing::fuzz_ring_offer) > 0);
}
