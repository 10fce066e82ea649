//! Random numbers: fast, seeded, the same on every machine. Not for secrets.

/// A generator of 64-bit words: wyrand (one addition, one 128-bit product), period 2^64.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // One step of SplitMix64, so that seeds 1, 2, 3 … start differently.
        let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self {
            state: state ^ (state >> 31),
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0xA076_1D64_78BD_642F);
        let product = u128::from(self.state) * u128::from(self.state ^ 0xE703_7ED1_A0B4_28DB);
        (product >> 64) as u64 ^ product as u64
    }
}

/// Returns a nearly normal number of mean 0 and variance 1, from 64 random bits and 16 more.
///
/// The number of ones among 64 fair bits is binomial with variance 16. A uniform number fills the
/// gap to the next count, with variance 1/12. Mean and variance are exact, the skew is 0, the
/// excess kurtosis is −0.03 (a sum of twelve uniforms: −0.1), and the tails reach 8 σ. The
/// density is a staircase of steps 0.25 σ wide, which a price rounded to ticks does not show.
#[inline]
pub(super) fn normal(ones: u64, between: u16) -> f64 {
    const DEVIATION_INVERSE: f64 = 0.249_351_490_477_014_83; // 1 / sqrt(16 + 1/12)
    let ones = f64::from(ones.count_ones()) - 32.5;
    let between = (f64::from(between) + 0.5) / 65_536.0;
    (ones + between) * DEVIATION_INVERSE
}

/// Returns e^x by its series for |x| < 0.05, with an error below 3e-11. A larger |x| occurs only
/// for a step of hours, and is computed by squaring six times.
#[inline]
pub(super) fn exponential(x: f64) -> f64 {
    if x.abs() < 0.05 {
        return series(x);
    }
    exponential_far(x)
}

#[cold]
fn exponential_far(x: f64) -> f64 {
    let mut power = series(x.clamp(-3.0, 3.0) / 64.0);
    for _ in 0..6 {
        power *= power;
    }
    power
}

#[inline]
fn series(x: f64) -> f64 {
    1.0 + x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))))
}

/// Sizes 10^U(2, 5): 1,024 steps of the power, linear between them (error < 1e-5).
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    /// 10^(2 + 3 i / 1024), 1 unit = 2^-6.
    powers: Box<[u32; 1025]>,
}

impl Sizes {
    pub(super) fn new() -> Self {
        const RATIO: f64 = 1.006_768_659_292_722_3; // 10^(3 / 1024)
        let mut powers = Box::new([0; 1025]);
        let mut power = 100.0 * 64.0;
        for entry in powers.iter_mut() {
            *entry = (power + 0.5) as u32;
            power *= RATIO;
        }
        Self { powers }
    }

    /// Returns the size at `point` / 65,536 of the way from 100 to 100,000.
    #[inline]
    pub(super) fn at(&self, point: u16) -> u32 {
        let (step, part) = (usize::from(point >> 6), u64::from(point & 63));
        let (low, high) = (
            u64::from(self.powers[step]),
            u64::from(self.powers[step + 1]),
        );
        ((low * 64 + (high - low) * part) >> 12) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_has_the_moments_it_states() {
        let mut random = Random::new(7);
        let (mut sums, count) = ([0.0; 4], 1_000_000);
        let (mut beyond_3, mut beyond_4) = (0, 0);
        for _ in 0..count {
            let z = normal(random.next(), random.next() as u16);
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += z.powi(power as i32 + 1);
            }
            beyond_3 += u32::from(z.abs() > 3.0);
            beyond_4 += u32::from(z.abs() > 4.0);
        }
        let [mean, variance, skew, kurtosis] = sums.map(|sum| sum / f64::from(count));
        assert!(mean.abs() < 0.004, "{mean}");
        assert!((variance - 1.0).abs() < 0.005, "{variance}");
        assert!(skew.abs() < 0.012, "{skew}");
        assert!((kurtosis - 2.97).abs() < 0.03, "{kurtosis}");
        assert!(
            (2_200..3_000).contains(&beyond_3),
            "normal: 2,700 beyond 3σ, {beyond_3}"
        );
        assert!(
            (20..110).contains(&beyond_4),
            "normal: 63 beyond 4σ, {beyond_4}"
        );
    }

    #[test]
    fn the_exponential_agrees_with_the_library() {
        for step in -3_000..=3_000 {
            let x = f64::from(step) / 1_000.0;
            let error = exponential(x) / x.exp() - 1.0;
            assert!(error.abs() < 1e-9, "{x}: {error}");
        }
    }

    #[test]
    fn sizes_run_from_a_hundred_to_a_hundred_thousand_evenly_in_the_power() {
        let sizes = Sizes::new();
        assert_eq!(sizes.at(0), 100);
        assert!((99_900..=100_000).contains(&sizes.at(u16::MAX)));
        for point in (0..=u16::MAX).step_by(97) {
            let exact = 10f64.powf(2.0 + 3.0 * f64::from(point) / 65_536.0);
            assert!((f64::from(sizes.at(point)) - exact).abs() < exact * 1e-5 + 1.0);
        }
    }
}
