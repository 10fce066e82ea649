//! Random numbers: seeded, the same on every machine. Not for secrets.

use crate::guid::Guid;

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        let span = most.saturating_sub(least).saturating_add(1);
        least.saturating_add(self.below(span))
    }

    /// Returns true with the probability `share` (0 to 1); a share of 0 draws no number.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64) < share
    }

    /// Returns a nearly normal number: mean 0, standard deviation 1.
    pub(super) fn step(&mut self) -> f64 {
        (f64::from(self.next().count_ones()) - 32.0) / 4.0
    }

    pub(super) fn guid(&mut self) -> Guid {
        let (high, low) = (self.next(), self.next());
        Guid::from_parts((high >> 32) as u32, (high >> 16) as u16, high as u16, low)
    }
}
