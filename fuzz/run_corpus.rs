//! Runs a fuzzer's corpus as a test; included by the tests of the crates that have fuzz targets.

/// Gives each file of a folder to a fuzzer's entry, whole, cut at every length and damaged at every
/// place; how many files there are.
pub(crate) fn run(name: &str, fuzz: fn(&[u8])) -> usize {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
    let mut files = 0;
    for file in std::fs::read_dir(format!("{corpus}{name}")).expect("part of the repository") {
        let data = std::fs::read(file.expect("a file").path()).expect("readable");
        files += 1;
        fuzz(&data);
        for length in 0..data.len() {
            fuzz(&data[..length]);
        }
        let mut damaged = data.clone();
        for at in 0..data.len() {
            for flip in [1, 0x20, 0xFF] {
                damaged[at] ^= flip;
                fuzz(&damaged);
                damaged[at] ^= flip;
            }
        }
    }
    files
}
