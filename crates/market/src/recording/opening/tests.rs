use std::path::PathBuf;

use super::*;
use tidewire_feed::recording::{
    BlockKind, begin_block, end_block, write_file_header, write_numbers,
};

/// Returns a recording of five blocks, and where each of them begins.
fn recording() -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut starts) = (Vec::new(), Vec::new());
    write_file_header(5, &mut file);
    for number in 0..5_u8 {
        let start = begin_block(&mut file);
        starts.push(start);
        file.extend_from_slice(&vec![number; 10_000]);
        end_block(BlockKind::Stream, 9, 11, start, &mut file);
    }
    (file, starts)
}

/// Opens a file with these bytes. Returns its length afterwards, or the error and that the bytes
/// are untouched.
fn opened(name: &str, bytes: &[u8]) -> Result<u64, String> {
    let path: PathBuf = std::env::temp_dir().join(format!(
        "tidewire-opening-{name}-{}.rec",
        std::process::id()
    ));
    std::fs::write(&path, bytes).unwrap();
    let result = open(&path).map(drop);
    let after = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    match result {
        Ok(()) => {
            assert_eq!(after, bytes[..after.len()]);
            Ok(after.len() as u64)
        }
        Err(error) => {
            assert_eq!(after, bytes, "a refused file is untouched");
            Err(error.to_string())
        }
    }
}

#[test]
fn good_blocks_behind_a_damaged_byte_are_not_removed() {
    let (file, starts) = recording();
    for (number, start) in starts.iter().enumerate().take(4) {
        for offset in [0, 5, 9, 24, 31, 32, 5_000, 10_031] {
            let mut damaged = file.clone();
            damaged[start + offset] ^= 1;
            let text = opened("behind", &damaged).unwrap_err();
            let next = starts[number + 1];
            let wanted =
                format!("damaged at byte {start}: a valid block follows at byte {next}; move");
            assert!(text.starts_with(&wanted), "{text}");
        }
    }
}

#[test]
fn a_torn_block_behind_a_damaged_one_counts_as_a_block() {
    let (mut file, starts) = recording();
    file[starts[3] + 40] ^= 1;
    file.truncate(starts[4] + 100);
    assert!(opened("twice", &file).is_err());
}

#[test]
fn of_a_torn_end_only_the_last_block_is_removed() {
    let (file, starts) = recording();
    let last = starts[4];
    for length in [1, 4, 31, 32, 33, 5_000, 10_031] {
        assert_eq!(
            opened("partial", &file[..last + length]),
            Ok(last as u64),
            "{length}"
        );
    }
    // The disk has stored the length, and none or some of the bytes.
    for stored in [0, 4, 32, 5_000] {
        let mut torn = file.clone();
        torn[last + stored..].fill(0);
        assert_eq!(opened("zeros", &torn), Ok(last as u64), "{stored}");
        torn.resize(last + (9 << 20), 0);
        assert_eq!(opened("long", &torn), Ok(last as u64), "{stored}");
    }
    let mut hole = file.clone();
    hole[last..last + 4_096].fill(0);
    assert_eq!(opened("hole", &hole), Ok(last as u64));
    assert_eq!(opened("whole", &file), Ok(file.len() as u64));
}

#[test]
fn more_bytes_than_a_block_has_are_not_removed() {
    let (mut file, _) = recording();
    let whole = file.len();
    file.resize(whole + TORN_BYTES_MAX as usize, b'x');
    assert_eq!(opened("most", &file), Ok(whole as u64));
    file.push(b'x');
    let text = opened("more", &file).unwrap_err();
    assert!(text.contains("more than one block follows"), "{text}");
}

/// A header that the search reads in two parts is found as well.
#[test]
fn a_block_header_across_two_reads_is_found() {
    let mut file = Vec::new();
    write_file_header(5, &mut file);
    let begin = file.len();
    for cut in [1, 16, 31] {
        file.truncate(begin);
        file.resize(begin + READ_BYTES as usize - cut, b'x');
        let next = file.len();
        write_numbers(BlockKind::End, 9, 11, &[1, 2], &mut file);
        let text = opened("across", &file).unwrap_err();
        assert!(text.contains(&format!("follows at byte {next};")), "{text}");
    }
}
