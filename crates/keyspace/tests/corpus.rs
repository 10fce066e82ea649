//! The fuzzers' corpus, whole, cut and damaged: nothing in it panics.

use tidewire_keyspace::fuzzing::fuzz_commands;

#[test]
fn no_file_of_the_corpus_panics() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/commands");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is part of the repository") {
        let data = std::fs::read(file.expect("a file").path()).expect("readable");
        files += 1;
        fuzz_commands(&data);
        for length in 0..data.len() {
            fuzz_commands(&data[..length]);
        }
        let mut damaged = data.clone();
        for at in 0..data.len() {
            for flip in [1, 0x20, 0xFF] {
                damaged[at] ^= flip;
                fuzz_commands(&damaged);
                damaged[at] ^= flip;
            }
        }
    }
    assert!(files > 15);
}
