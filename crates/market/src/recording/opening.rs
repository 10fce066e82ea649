//! Opens a recording to append to it: finds its last whole block, and removes a torn end.
//!
//! A crash leaves at most one block torn at the end, or, where the disk has stored the file's
//! length and not its bytes, zeros. Everything else behind the whole blocks is damage, and may have
//! good data behind it: the file is then left as it is.

use std::io::{self, Read};
use std::path::Path;

use tidewire_feed::recording::{
    BLOCK_BODY_LENGTH_MAX, BLOCK_HEADER_LENGTH, Decoder, Event, FILE_HEADER_LENGTH, MAGIC,
    RecordingError, find_block_header,
};
use tidewire_files::{AppendFile, Disk};
use tracing::warn;

/// Opens a new file, or an existing recording at the end of its last whole block.
pub(super) fn open(path: &Path) -> io::Result<AppendFile> {
    let disk = Disk::default();
    let mut file = disk.append(path)?;
    let (valid, length) = (valid_length(disk.read(path)?)?, file.length());
    assert!(valid <= length, "whole blocks are a part of the file");
    if length > valid {
        check_torn(disk.read(path)?, valid)?;
        let path = path.display();
        let removed = length - valid;
        warn!(%path, at = valid, removed, "removed an incomplete block at the end of a recording");
        file.cut(valid);
        file.mend()?;
    }
    Ok(file)
}

/// Returns the length of the whole blocks from the beginning; 0 for an empty file.
fn valid_length(mut file: impl Read) -> io::Result<u64> {
    let mut decoder = Decoder::new();
    let (mut input, mut is_over) = (Vec::new(), false);
    loop {
        let mut rest = &input[..];
        let failure = loop {
            match decoder.decode(&mut rest) {
                Ok(Event::NeedMore(_)) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        match failure {
            // The end of a file after a crash need not be the beginning of a block: a disk may have
            // stored the file's length and not its bytes.
            Some(RecordingError::BadHeader { at } | RecordingError::BadChecksum { at })
                if at >= FILE_HEADER_LENGTH as u64 =>
            {
                return Ok(decoder.position());
            }
            Some(error) => return Err(io::Error::other(error.to_string())),
            None if is_over => {
                let torn = decoder.position() == 0 && rest.len() >= MAGIC.len();
                return match decoder.position() {
                    0 if torn || rest.is_empty() => Ok(0),
                    0 => Err(io::Error::other("not a recording")),
                    position => Ok(position),
                };
            }
            None => {}
        }
        debug_assert!(rest.len() <= input.len(), "a decoder takes from the front");
        let used = input.len() - rest.len();
        input.drain(..used);
        is_over = Read::by_ref(&mut file)
            .take(READ_BYTES)
            .read_to_end(&mut input)?
            == 0;
    }
}

/// Checks that the bytes from `valid` on are what a crash leaves of one block: no block begins
/// behind them, and they are not longer than a block, apart from zeros at the end.
fn check_torn(mut file: impl Read, valid: u64) -> io::Result<()> {
    io::copy(&mut file.by_ref().take(valid), &mut io::sink())?;
    let refused = |found: String| {
        let advice = "move the file away, or replay its valid part";
        Err(io::Error::other(format!(
            "damaged at byte {valid}: {found}; {advice}"
        )))
    };
    // The header at `valid` itself may be whole and its body torn: the search begins behind it.
    let (mut input, mut input_at, mut from) = (Vec::new(), valid, 1);
    let mut data_end = valid;
    loop {
        let count = Read::by_ref(&mut file)
            .take(READ_BYTES)
            .read_to_end(&mut input)?;
        if let Some(last) = input.iter().rposition(|byte| *byte != 0) {
            data_end = data_end.max(input_at + last as u64 + 1);
        }
        if let Some(found) = input.get(from..).and_then(find_block_header) {
            let next = input_at + (from + found) as u64;
            return refused(format!("a valid block follows at byte {next}"));
        }
        if data_end - valid > TORN_BYTES_MAX {
            return refused("more than one block follows".to_owned());
        }
        if count == 0 {
            return Ok(());
        }
        // A header may continue in the next bytes.
        let used = input.len().saturating_sub(BLOCK_HEADER_LENGTH - 1);
        input.drain(..used);
        input_at += used as u64;
        from = from.saturating_sub(used);
    }
}

const READ_BYTES: u64 = 4 << 20;
/// Maximum number of bytes of one block.
const TORN_BYTES_MAX: u64 = (BLOCK_HEADER_LENGTH + BLOCK_BODY_LENGTH_MAX) as u64;

#[cfg(test)]
mod tests;
