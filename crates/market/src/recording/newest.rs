//! The time at which a recording ends.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tidewire_feed::recording::{
    BLOCK_BODY_LENGTH_MAX, BLOCK_HEADER_LENGTH, BlockKind, Decoder, Event, FILE_HEADER_LENGTH,
    find_block_header,
};
use tidewire_feed::wire::Message;

/// Returns the latest source time of the trades in the last blocks of a recording, ns since the
/// UNIX epoch; `None` if they have none.
pub(super) fn newest_trade_ns(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut input = vec![0; FILE_HEADER_LENGTH];
    if length < input.len() as u64 {
        return Ok(None);
    }
    file.read_exact(&mut input)?;
    let from = length.saturating_sub(TAIL_BYTES).max(input.len() as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let Some(first) = find_block_header(&tail) else {
        return Ok(None);
    };
    input.extend_from_slice(&tail[first..]);
    let (mut decoder, mut rest, mut newest_ns) = (Decoder::new(), &input[..], None);
    while let Ok(event) = decoder.decode(&mut rest) {
        match event {
            Event::NeedMore(_) => break,
            Event::Block(block) if block.kind == BlockKind::Stream => {
                for told in block.messages() {
                    if let Ok((_, Message::Trade(trade))) = told {
                        newest_ns = newest_ns.max(Some(trade.source_time_ns));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(newest_ns)
}

/// Bytes at the end of the file that are looked at: those of two blocks.
const TAIL_BYTES: u64 = 2 * (BLOCK_HEADER_LENGTH + BLOCK_BODY_LENGTH_MAX) as u64;
