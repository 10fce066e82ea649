use std::path::PathBuf;

use super::*;

fn folder(decoder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(decoder)
}

/// Runs every file of a corpus: whole, cut at every length, and with single bytes changed.
fn run_corpus(decoder: &str, fuzz: fn(&[u8])) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder(decoder)).expect("the corpus is in the repository") {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        fuzz(&data);
        (0..data.len()).for_each(|length| fuzz(&data[..length]));
        for index in 0..data.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = data.clone();
                changed[index] ^= change;
                fuzz(&changed);
            }
        }
    }
    assert!(files >= 8, "{decoder}: only {files} files");
}

#[test]
fn what_exchanges_send_is_survived() {
    run_corpus("itch", fuzz_itch);
    run_corpus("mold", fuzz_mold);
    run_corpus("soup", fuzz_soup);
}

#[test]
fn recordings_are_survived() {
    run_corpus("capture", fuzz_capture);
}
