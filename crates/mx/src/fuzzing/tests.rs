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
        // In a long stream, bytes at regular distances.
        for index in (0..data.len()).step_by(1 + data.len() / 400) {
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
fn messages_of_the_corpus_never_panic() {
    run_corpus("mx_message", fuzz_mx_message);
}

#[test]
fn sessions_survive_the_corpus() {
    run_corpus("mx_session", fuzz_mx_session);
}

#[test]
fn plants_survive_the_corpus() {
    run_corpus("mx_plant", fuzz_mx_plant);
}

/// An outdated corpus would test other messages than its names say.
#[test]
fn the_corpus_is_what_the_samples_are() {
    let corpora = [
        ("mx_message", sample_messages()),
        ("mx_session", sample_streams()),
        ("mx_plant", sample_streams()),
    ];
    for (decoder, samples) in corpora {
        for (name, bytes) in samples {
            let path = folder(decoder).join(&name);
            if std::env::var_os("TIDEWIRE_WRITE_CORPUS").is_some() {
                std::fs::create_dir_all(folder(decoder)).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            }
            let kept = std::fs::read(&path).unwrap_or_default();
            assert_eq!(
                kept, bytes,
                "{decoder}/{name}: TIDEWIRE_WRITE_CORPUS=1 writes it anew"
            );
        }
    }
}
