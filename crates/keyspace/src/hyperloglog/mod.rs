//! HyperLogLog: an estimate of the number of distinct elements, with a standard error of 0.81 %, in
//! at most 12 KiB.
//!
//! An element's hash chooses one of 16,384 registers. It stores the highest rank seen, which is the
//! position of the lowest set bit in the remaining hash bits. The value is a string that clients
//! may read and write, in Redis's format:
//!
//! ```text
//!  0        4          5          8                     16
//!  ┌────────┬──────────┬──────────┬─────────────────────┬───────────────────────────────────────┐
//!  │ "HYLL" │ encoding │ not used │ estimate, u64,      │ registers: 6 bits each (encoding 0),  │
//!  │        │ u8       │          │ top bit: outdated   │ or runs of them (encoding 1)          │
//!  └────────┴──────────┴──────────┴─────────────────────┴───────────────────────────────────────┘
//! ```
//!
//! Bytes written by a client may look like a HyperLogLog but have broken runs. A walk over the runs
//! detects that.

mod dense;
mod estimate;
mod sparse;

pub(crate) use estimate::Histogram;
pub(crate) use sparse::operations;

use crate::entry::{Entry, NewValue};

/// Why a string is not a HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The header is wrong, or the length does not match it.
    Header,
    /// The runs do not add up to all registers.
    Runs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Dense,
    Sparse,
}

/// A string whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyperLogLog<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> HyperLogLog<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let encoding = match bytes.get(..HEADER_BYTES) {
            Some([b'H', b'Y', b'L', b'L', DENSE, ..]) if bytes.len() == DENSE_BYTES => {
                Encoding::Dense
            }
            Some([b'H', b'Y', b'L', b'L', SPARSE, ..]) => Encoding::Sparse,
            _ => return Err(Fault::Header),
        };
        Ok(HyperLogLog { bytes, encoding })
    }

    pub(crate) fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Returns the header.
    pub(crate) fn header(self) -> [u8; HEADER_BYTES] {
        let header = self.bytes.first_chunk();
        header.copied().unwrap_or_default()
    }

    /// Returns the bytes after the header.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Returns the estimate in the header, if nothing has changed since.
    pub(crate) fn cached_estimate(self) -> Option<u64> {
        let (estimate, _) = self.bytes[ESTIMATE_AT..].split_first_chunk()?;
        let estimate = u64::from_le_bytes(*estimate);
        (estimate & OUTDATED == 0).then_some(estimate)
    }

    /// Estimates the number of distinct elements from the registers.
    pub(crate) fn estimate(self) -> Result<u64, Fault> {
        let mut histogram = Histogram::new();
        match self.encoding {
            Encoding::Dense => histogram.count_pairs(dense::pairs(self.body())),
            Encoding::Sparse => {
                sparse::walk(self.body(), |rank, run| histogram.add(rank, run.len()))?;
            }
        }
        Ok(histogram.estimate())
    }

    /// Returns an error if the runs are broken.
    pub(crate) fn check(self) -> Result<(), Fault> {
        match self.encoding {
            Encoding::Dense => Ok(()),
            Encoding::Sparse => sparse::walk(self.body(), |_, _| ()),
        }
    }
}

/// All registers, a byte each.
pub(crate) struct Registers([u8; REGISTERS]);

impl Registers {
    pub(crate) fn new() -> Self {
        Registers([0; REGISTERS])
    }

    pub(crate) fn of(hyperloglog: HyperLogLog<'_>) -> Result<Self, Fault> {
        let mut registers = Registers::new();
        registers.merge(hyperloglog)?;
        Ok(registers)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Keeps the higher rank of each register.
    pub(crate) fn merge(&mut self, other: HyperLogLog<'_>) -> Result<(), Fault> {
        match other.encoding {
            Encoding::Dense => {
                dense::merge(other.body(), &mut self.0);
                Ok(())
            }
            Encoding::Sparse => sparse::walk(other.body(), |rank, run| {
                if rank > 0 {
                    let registers = self.0[run].iter_mut();
                    registers.for_each(|register| *register = rank.max(*register));
                }
            }),
        }
    }

    pub(crate) fn estimate(&self) -> u64 {
        let mut histogram = Histogram::new();
        histogram.count_pairs(dense::pairs_of_bytes(&self.0));
        histogram.estimate()
    }

    /// Encodes the registers, as runs if `encoding` allows it and they are not too long.
    pub(crate) fn to_bytes(&self, encoding: Encoding, sparse_bytes_max: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        if encoding == Encoding::Sparse && sparse::encode(&self.0, &mut bytes, sparse_bytes_max) {
            write_header(&mut bytes, SPARSE);
        } else {
            bytes.resize(DENSE_BYTES, 0);
            dense::pack(&self.0, &mut bytes[HEADER_BYTES..]);
            write_header(&mut bytes, DENSE);
        }
        debug_assert!(
            HyperLogLog::new(&bytes).is_ok(),
            "the encoded registers decode"
        );
        bytes
    }
}

/// A HyperLogLog without elements.
pub(crate) const EMPTY: &[u8] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7F\xFF";

/// Adds an element to the HyperLogLog of an entry. Returns whether a register changed. If it fails,
/// nothing has changed.
pub(crate) fn add(
    entry: &mut Entry,
    element: &[u8],
    sparse_bytes_max: usize,
) -> Result<bool, Fault> {
    let (index, rank) = place(element);
    match HyperLogLog::new(entry.bytes())?.encoding {
        Encoding::Dense => Ok(dense::raise(
            &mut entry.bytes_mut()[HEADER_BYTES..],
            index,
            rank,
        )),
        Encoding::Sparse => raise_sparse(entry, index, rank, sparse_bytes_max),
    }
}

/// Marks the estimate in the header as outdated.
pub(crate) fn outdate(bytes: &mut [u8]) {
    if let Some(byte) = bytes.get_mut(HEADER_BYTES - 1) {
        *byte |= OUTDATED.to_le_bytes()[7];
    }
}

/// Restores an old header except its encoding, and marks the estimate as outdated.
pub(crate) fn keep_header(bytes: &mut [u8], header: [u8; HEADER_BYTES]) {
    if let Some(own) = bytes.get_mut(ENCODING_AT + 1..HEADER_BYTES) {
        own.copy_from_slice(&header[ENCODING_AT + 1..]);
        outdate(bytes);
    }
}

/// Stores the estimate in the header.
pub(crate) fn cache_estimate(bytes: &mut [u8], estimate: u64) {
    if let Some(cached) = bytes.get_mut(ESTIMATE_AT..HEADER_BYTES) {
        cached.copy_from_slice(&estimate.to_le_bytes());
    }
}

/// Converts the registers to 6 bits each. Returns whether they were runs. If it fails, nothing has
/// changed.
pub(crate) fn make_dense(entry: &mut Entry) -> Result<bool, Fault> {
    let old = HyperLogLog::new(entry.bytes())?;
    if old.encoding == Encoding::Dense {
        return Ok(false);
    }
    let mut bytes = Registers::of(old)?.to_bytes(Encoding::Dense, 0);
    let header = old.header();
    bytes[ENCODING_AT + 1..HEADER_BYTES].copy_from_slice(&header[ENCODING_AT + 1..]);
    entry.set_value(NewValue::Bytes(&bytes));
    entry.set_raw();
    Ok(true)
}

fn raise_sparse(
    entry: &mut Entry,
    index: usize,
    rank: u8,
    sparse_bytes_max: usize,
) -> Result<bool, Fault> {
    // Redis counts the header too.
    let bytes_max = sparse_bytes_max.saturating_sub(HEADER_BYTES);
    match sparse::raise(&entry.bytes()[HEADER_BYTES..], index, rank, bytes_max)? {
        sparse::RunChange::None => Ok(false),
        sparse::RunChange::Splice(splice) => {
            entry.splice(HEADER_BYTES + splice.at, splice.removed, &[splice.added()]);
            outdate(entry.bytes_mut());
            Ok(true)
        }
        sparse::RunChange::Dense => {
            make_dense(entry)?;
            Ok(dense::raise(
                &mut entry.bytes_mut()[HEADER_BYTES..],
                index,
                rank,
            ))
        }
    }
}

fn write_header(bytes: &mut [u8], encoding: u8) {
    bytes[..ENCODING_AT].copy_from_slice(b"HYLL");
    bytes[ENCODING_AT] = encoding;
    outdate(bytes);
}

/// Returns an element's register and its rank there, 1 to [`RANK_MAX`].
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let index = hash as usize % REGISTERS;
    // A bit above the remaining hash bits ends the search.
    let rest = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
    debug_assert!(rest.trailing_zeros() < u32::from(RANK_MAX));
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Computes MurmurHash64A, as Redis does.
fn murmur(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xC6A4_A793_5BD1_E995;
    const SEED: u64 = 0xADC8_3B19;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> 47;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let word = rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

const INDEX_BITS: u32 = 14;
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
/// The rank of a hash whose remaining bits are all zero.
const RANK_MAX: u8 = 64 - INDEX_BITS as u8 + 1;

const ENCODING_AT: usize = 4;
const ESTIMATE_AT: usize = 8;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
const _: () = assert!(RANK_MAX < 1 << 6, "a register has six bits");
const _: () = assert!(
    ESTIMATE_AT + size_of::<u64>() == HEADER_BYTES,
    "the header ends with the cached estimate"
);
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const OUTDATED: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(bytes: &[u8]) -> Entry {
        Entry::new(0, b"key", NewValue::Bytes(bytes), false)
    }

    fn registers(entry: &Entry) -> Vec<u8> {
        let hyperloglog = HyperLogLog::new(entry.bytes()).unwrap();
        Registers::of(hyperloglog).unwrap().as_bytes().to_vec()
    }

    #[test]
    fn hashes_match_the_reference() {
        for (text, hash) in [
            ("", 0xD8DF_EA65_85BC_9732),
            ("a", 0x53D2_470A_9B43_B1A7),
            ("12345678", 0x95EB_B863_8913_2953),
            ("hello world, hello", 0x388A_EF2B_B496_58E0),
        ] {
            assert_eq!(murmur(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn estimates_are_close_and_equal_in_both_encodings() {
        let mut sparse = entry(EMPTY);
        let mut dense = entry(EMPTY);
        assert_eq!(make_dense(&mut dense), Ok(true));
        for number in 1..=100_000u32 {
            let element = number.to_le_bytes();
            let raised = add(&mut sparse, &element, 3_000).unwrap();
            assert_eq!(add(&mut dense, &element, 3_000).unwrap(), raised);
            if [1, 10, 100, 1_000, 3_000, 10_000, 100_000].contains(&number) {
                let estimates = [&sparse, &dense]
                    .map(|entry| HyperLogLog::new(entry.bytes()).unwrap().estimate().unwrap());
                assert_eq!(estimates[0], estimates[1]);
                let error = estimates[0].abs_diff(u64::from(number));
                assert!(
                    error * 100 <= u64::from(number) * 3,
                    "{number}: {error} off"
                );
            }
        }
        assert_eq!(sparse.bytes()[ENCODING_AT], DENSE);
    }

    proptest! {
        #[test]
        fn registers_rise_as_in_a_plain_array(
            // Few registers close to each other, so that runs split and merge.
            rises in prop::collection::vec((0..REGISTERS, 1..=RANK_MAX), 1..300),
            spread in prop::sample::select(vec![8usize, 100, 5_000, REGISTERS]),
            bytes_max in prop::sample::select(vec![20usize, 60, 3_000]),
        ) {
            let mut entry = entry(EMPTY);
            let mut model = vec![0; REGISTERS];
            for (index, rank) in rises {
                let index = index % spread;
                // Few different ranks, so that neighbours are often equal; sometimes a high one.
                let rank = if rank % 16 == 0 { rank } else { rank % 3 + 1 };
                let raised = match HyperLogLog::new(entry.bytes()).unwrap().encoding {
                    Encoding::Dense => dense::raise(
                        &mut entry.bytes_mut()[HEADER_BYTES..], index, rank,
                    ),
                    Encoding::Sparse => raise_sparse(&mut entry, index, rank, bytes_max).unwrap(),
                };
                prop_assert_eq!(raised, model[index] < rank);
                model[index] = rank.max(model[index]);
            }
            prop_assert_eq!(&registers(&entry), &model);
            let mut all = Registers::new();
            all.merge(HyperLogLog::new(entry.bytes()).unwrap()).unwrap();
            for encoding in [Encoding::Dense, Encoding::Sparse] {
                let bytes = all.to_bytes(encoding, 100_000);
                let copy = HyperLogLog::new(&bytes).unwrap();
                let registers = Registers::of(copy).unwrap();
                prop_assert_eq!(registers.as_bytes(), &model[..]);
                prop_assert_eq!(copy.estimate().unwrap(), all.estimate());
                prop_assert_eq!(copy.cached_estimate(), None);
            }
        }

        #[test]
        fn broken_runs_change_nothing(
            runs in prop::collection::vec(any::<u8>(), 0..200),
            index in 0..REGISTERS,
            rank in 1..=RANK_MAX,
        ) {
            let bytes = [&EMPTY[..HEADER_BYTES], &runs].concat();
            let mut entry = entry(&bytes);
            let whole = HyperLogLog::new(&bytes).unwrap().check().is_ok();
            match raise_sparse(&mut entry, index, rank, 3_000) {
                Ok(_) if whole => prop_assert!(registers(&entry)[index] >= rank),
                Ok(_) => {}
                Err(fault) => {
                    prop_assert_eq!(fault, Fault::Runs);
                    prop_assert_eq!(entry.bytes(), &bytes[..]);
                }
            }
        }
    }
}
