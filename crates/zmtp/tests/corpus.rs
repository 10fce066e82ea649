//! Every file of the fuzz corpus, also cut at every length and with each octet changed.

use std::fs;
use std::path::Path;

use tidewire_zmtp::fuzzing::{fuzz_zmtp_connection, fuzz_zmtp_prefixes};

fn run(corpus: &str, fuzz: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let mut data = fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        for cut in 0..=data.len() {
            fuzz(&data[..cut]);
        }
        for at in 0..data.len() {
            for flip in [0x01, 0x02, 0x04, 0x80, 0xff] {
                data[at] ^= flip;
                fuzz(&data);
                data[at] ^= flip;
            }
        }
    }
    assert!(files >= 8, "the corpus of {corpus} is there");
}

#[test]
fn no_connection_panics() {
    run("zmtp_connection", fuzz_zmtp_connection);
}

#[test]
fn no_prefix_table_panics() {
    run("zmtp_prefixes", fuzz_zmtp_prefixes);
}
