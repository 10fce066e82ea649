//! Runs every file of the fuzz corpora, also truncated at every length and with each byte changed.

use std::fs;
use std::path::Path;

use tidewire_resp::fuzzing::{fuzz_resp_reply, fuzz_resp_request};

fn run(folder: &str, decoder: fn(&[u8])) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(folder);
    let mut files = 0;
    for entry in fs::read_dir(&path).expect("the corpus is part of the repository") {
        let data = fs::read(entry.unwrap().path()).unwrap();
        decoder(&data);
        (0..data.len()).for_each(|length| decoder(&data[..length]));
        let mut changed = data.clone();
        for at in 0..data.len() {
            for byte in [
                data[at] ^ 1,
                data[at] ^ 0x80,
                0,
                b'0',
                b'9',
                b'-',
                b'\r',
                b'\n',
                b'"',
            ] {
                changed[at] = byte;
                decoder(&changed);
            }
            changed[at] = data[at];
        }
        files += 1;
    }
    assert!(files >= 12, "{} holds {files} files", path.display());
}

#[test]
fn the_request_parser_keeps_its_guarantees_over_its_corpus() {
    run("resp_request", fuzz_resp_request);
}

#[test]
fn the_reply_parsers_keep_their_guarantees_over_their_corpus() {
    run("resp_reply", fuzz_resp_reply);
}
