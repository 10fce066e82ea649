//! Sparse registers: runs of equal ones.
//!
//! ```text
//!  00nnnnnn             n + 1 registers of zero
//!  01nnnnnn nnnnnnnn    n + 1 registers of zero
//!  1rrrrrnn             n + 1 registers of rank r + 1
//! ```

use std::ops::Range;

use super::{Fault, REGISTERS};

/// One encoded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The rank of its registers, or 0.
    pub(crate) rank: u8,
    pub(crate) registers: usize,
    /// Encoded bytes, 1 or 2; the second may be missing at the end.
    pub(crate) bytes: usize,
}

impl Operation {
    #[inline]
    fn at(bytes: &[u8], at: usize) -> Option<Operation> {
        let byte = *bytes.get(at)?;
        let low = usize::from(byte & 0x3F);
        let (rank, registers, bytes) = match byte >> 6 {
            0 => (0, low + 1, 1),
            // Redis reads a zero at the end of the string.
            1 => {
                let next = bytes.get(at + 1).copied().unwrap_or(0);
                (0, (low << 8 | usize::from(next)) + 1, 2)
            }
            _ => ((byte >> 2 & 0x1F) + 1, low % 4 + 1, 1),
        };
        Some(Operation {
            rank,
            registers,
            bytes,
        })
    }
}

/// Iterates over the runs, valid or not.
pub(crate) fn operations(bytes: &[u8]) -> impl Iterator<Item = Operation> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let operation = Operation::at(bytes, at)?;
        at += operation.bytes;
        Some(operation)
    })
}

/// Passes each run's rank and registers to `show`. Returns an error at a premature end or for too
/// many registers.
pub(super) fn walk(bytes: &[u8], mut show: impl FnMut(u8, Range<usize>)) -> Result<(), Fault> {
    let mut first = 0;
    for Operation {
        rank, registers, ..
    } in operations(bytes)
    {
        let end = first + registers;
        if end > REGISTERS {
            return Err(Fault::Runs);
        }
        show(rank, first..end);
        first = end;
    }
    if first == REGISTERS {
        Ok(())
    } else {
        Err(Fault::Runs)
    }
}

/// The effect of raising a register.
#[derive(Debug)]
pub(super) enum RunChange {
    /// It is already that high.
    None,
    Splice(Splice),
    /// The result cannot be encoded as runs, or not within the size limit.
    Dense,
}

/// New bytes that replace old ones.
#[derive(Debug)]
pub(super) struct Splice {
    pub(super) at: usize,
    pub(super) removed: usize,
    added: Bytes,
}

impl Splice {
    pub(super) fn added(&self) -> &[u8] {
        self.added.as_slice()
    }
}

/// Raises a register to a rank. The result has at most `bytes_max` bytes, unless they are already
/// more. It has the same bytes as in Redis.
pub(super) fn raise(
    bytes: &[u8],
    index: usize,
    rank: u8,
    bytes_max: usize,
) -> Result<RunChange, Fault> {
    if rank > RANK_MAX {
        return Ok(RunChange::Dense);
    }
    let found = find(bytes, index)?;
    let old = found.operation;
    debug_assert!(found.first <= index && index < found.first + old.registers);
    if old.rank >= rank {
        return Ok(RunChange::None);
    }
    let mut new = Bytes::default();
    new.push_run(old.rank, index - found.first);
    new.push_run(rank, 1);
    new.push_run(old.rank, found.first + old.registers - index - 1);
    let grown = bytes.len() + new.length - old.bytes;
    if new.length > old.bytes && grown > bytes_max {
        return Ok(RunChange::Dense);
    }
    // The previous run and some following ones, which may merge with the new runs.
    let at = found.previous.unwrap_or(found.at);
    let end = found.at + old.bytes;
    let behind = &bytes[end..bytes.len().min(end + MERGED_BYTES_MAX)];
    let mut merged = Bytes::default();
    for part in [&bytes[at..found.at], new.as_slice(), behind] {
        merged.push(part);
    }
    merged.merge_runs();
    Ok(RunChange::Splice(Splice {
        at,
        removed: end + behind.len() - at,
        added: merged,
    }))
}

/// Encodes registers of a byte each as runs. Returns false and writes nothing if `out` would exceed
/// `bytes_max` bytes, or if a rank is too high.
pub(super) fn encode(registers: &[u8; REGISTERS], out: &mut Vec<u8>, bytes_max: usize) -> bool {
    let start = out.len();
    for run in registers.chunk_by(|a, b| a == b) {
        let mut left = run.len();
        while left > 0 {
            let length = if run[0] == 0 { left } else { left.min(4) };
            let mut bytes = Bytes::default();
            bytes.push_run(run[0], length);
            out.extend_from_slice(bytes.as_slice());
            left -= length;
        }
        if run[0] > RANK_MAX || out.len() > bytes_max {
            out.truncate(start);
            return false;
        }
    }
    true
}

/// The run that contains a register.
struct FoundRun {
    operation: Operation,
    at: usize,
    /// Its first register.
    first: usize,
    /// Start of the previous run.
    previous: Option<usize>,
}

fn find(bytes: &[u8], index: usize) -> Result<FoundRun, Fault> {
    let (mut at, mut first, mut previous) = (0, 0, None);
    loop {
        while let Some(registers) = eight_runs(bytes, at) {
            if first + registers > index {
                break;
            }
            first += registers;
            at += 8;
            previous = Some(at - 1);
        }
        // One of the next few runs.
        for _ in 0..8 {
            let operation = Operation::at(bytes, at).ok_or(Fault::Runs)?;
            if first + operation.registers > index {
                // A run without its second byte cannot be replaced.
                let whole = at + operation.bytes <= bytes.len();
                return whole
                    .then_some(FoundRun {
                        operation,
                        at,
                        first,
                        previous,
                    })
                    .ok_or(Fault::Runs);
            }
            previous = Some(at);
            at += operation.bytes;
            first += operation.registers;
        }
    }
}

/// Returns how many registers the next eight bytes contain, if each is a run. Where there are many
/// runs, and so a search takes long, most have one byte.
#[inline]
fn eight_runs(bytes: &[u8], at: usize) -> Option<usize> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    let ranked = word >> 7 & EACH;
    if word >> 6 & !ranked & EACH != 0 {
        return None;
    }
    // Two bits contain the length of a run with a rank, six that of a run of zeros.
    let lengths = word & (0x3F * EACH) & !(ranked * 0x3C);
    let sums = (lengths & 0x00FF_00FF_00FF_00FF) + (lengths >> 8 & 0x00FF_00FF_00FF_00FF);
    Some((sums.wrapping_mul(0x0001_0001_0001_0001) >> 48) as usize + 8)
}

/// A few bytes of runs.
#[derive(Debug, Default)]
struct Bytes {
    bytes: [u8; 2 + RAISED_BYTES_MAX + MERGED_BYTES_MAX],
    length: usize,
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        debug_assert!(self.length + bytes.len() <= self.bytes.len());
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends a run of zeros of any length, or of at most four registers of a rank.
    fn push_run(&mut self, rank: u8, registers: usize) {
        let Some(more) = registers.checked_sub(1) else {
            return;
        };
        debug_assert!(more < if rank == 0 { REGISTERS } else { 4 });
        match rank {
            0 if more < 64 => self.push(&[more as u8]),
            0 => self.push(&[0x40 | (more >> 8) as u8, more as u8]),
            _ => self.push(&[0x80 | (rank - 1) << 2 | more as u8]),
        }
    }

    /// Merges neighbours of equal rank, in the five steps in which Redis looks for them.
    fn merge_runs(&mut self) {
        let mut at = 0;
        for _ in 0..5 {
            let Some(run) = Operation::at(self.as_slice(), at) else {
                return;
            };
            match Operation::at(self.as_slice(), at + 1) {
                Some(next)
                    if run.rank > 0
                        && next.rank == run.rank
                        && run.registers + next.registers <= 4 =>
                {
                    self.bytes.copy_within(at + 1..self.length, at);
                    self.length -= 1;
                    self.bytes[at] += run.registers as u8;
                }
                _ => at += run.bytes,
            }
        }
    }
}

const RANK_MAX: u8 = 32;
/// Bytes of a run of zeros, one register, and a run of zeros.
const RAISED_BYTES_MAX: usize = 5;
/// Five steps cover up to four two-byte runs after the new ones, and one more byte.
const MERGED_BYTES_MAX: usize = 9;
