//! The cardinality estimate: Otmar Ertl's estimator, arXiv:1702.01284, with the same steps as
//! Redis, so that both round alike.

use super::{RANK_MAX, REGISTERS};

/// The number of registers with each rank.
#[derive(Debug)]
pub(crate) struct Histogram([u32; RANKS]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram([0; RANKS])
    }

    pub(crate) fn add(&mut self, rank: u8, registers: usize) {
        self.0[usize::from(rank)] += registers as u32;
    }

    /// Counts registers two at a time, from words with a pair in each 16-bit lane. This halves the
    /// steps. Two alternating tables reduce waits between steps.
    pub(super) fn count_pairs(&mut self, words: impl Iterator<Item = u64>) {
        let mut tables = [[0u16; PAIRS]; 2];
        let [even, odd] = &mut tables;
        for word in words {
            even[word as usize % PAIRS] += 1;
            odd[(word >> 16) as usize % PAIRS] += 1;
            even[(word >> 32) as usize % PAIRS] += 1;
            odd[(word >> 48) as usize % PAIRS] += 1;
        }
        let mut low = [0; RANKS];
        for table in &tables {
            let (rows, _) = table.as_chunks::<RANKS>();
            for (high, row) in rows.iter().enumerate() {
                self.0[high] += u32::from(row.iter().sum::<u16>());
                low.iter_mut()
                    .zip(row)
                    .for_each(|(sum, count)| *sum += count);
            }
        }
        self.0
            .iter_mut()
            .zip(low)
            .for_each(|(sum, low)| *sum += u32::from(low));
    }

    pub(crate) fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let of_rank = |rank: u8| f64::from(self.0[usize::from(rank)]);
        let mut sum = registers * tau((registers - of_rank(RANK_MAX)) / registers);
        for rank in (1..RANK_MAX).rev() {
            sum = (sum + of_rank(rank)) * 0.5;
        }
        sum += registers * sigma(of_rank(0) / registers);
        let estimate = HALF_BY_LN_2 * registers * registers / sum;
        // Ranks that no hash has, set by a client, may have an infinite estimate.
        if estimate.is_finite() {
            estimate.round() as u64
        } else {
            1 << 63
        }
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// Number of values of 6 bits. Only clients write ranks above the highest one; these are ignored.
const RANKS: usize = 64;
const PAIRS: usize = RANKS * RANKS;
const HALF_BY_LN_2: f64 = 0.721_347_520_444_481_7;
