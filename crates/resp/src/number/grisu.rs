//! The digits of a double as Redis formats them: Grisu2, by Florian Loitsch ("Printing
//! Floating-Point Numbers Quickly and Accurately with Integers", 2010).
//!
//! They always read back to the same double. About three of 1,000 random doubles get one digit more
//! than the shortest text, or another last digit. The result is the same as in Redis in these cases
//! too.

/// A number `fraction` × 2^`exponent`.
#[derive(Clone, Copy)]
struct Float {
    fraction: u64,
    exponent: i32,
}

/// A number `digits` × 10^`scale`.
pub(super) struct Decimal {
    pub(super) digits: [u8; DIGITS_MAX],
    /// Number of digits, 1 to 18.
    pub(super) count: usize,
    pub(super) scale: i32,
}

impl Decimal {
    /// Computes the digits of `value`, which is finite and not zero; ignores the sign.
    pub(super) fn of(value: f64) -> Self {
        debug_assert!(value.is_finite() && value != 0.0);
        let exact = Float::of(value);
        let (lower, upper) = exact.neighbourhood();
        let (power, scale) = power_for(upper.exponent);
        let exact = exact.normalized().times(power);
        let (mut lower, mut upper) = (lower.times(power), upper.times(power));
        // The products are off by less than one: everything between these is safe.
        lower.fraction += 1;
        upper.fraction -= 1;
        let mut decimal = Decimal {
            digits: [0; DIGITS_MAX],
            count: 0,
            scale: -scale,
        };
        decimal.generate(exact, lower, upper);
        decimal
    }

    /// Generates digits of `upper` until the remainder no longer leads below `lower`. Then moves
    /// the last digit as close to `exact` as possible.
    fn generate(&mut self, exact: Float, lower: Float, upper: Float) {
        let shift = -upper.exponent;
        debug_assert!(
            (32..=60).contains(&shift),
            "the power of ten was chosen for this range"
        );
        let one = 1u64 << shift;
        let to_exact = upper.fraction - exact.fraction;
        let mut width = upper.fraction - lower.fraction;
        let mut whole = upper.fraction >> shift;
        let mut part = upper.fraction & (one - 1);
        let mut divisor = 1_000_000_000;
        for left in (0..10).rev() {
            self.push(whole / divisor);
            whole %= divisor;
            let rest = (whole << shift) + part;
            if rest <= width {
                self.scale += left;
                return self.approach(to_exact, width, rest, divisor << shift);
            }
            divisor /= 10;
        }
        let mut unit = 1u64;
        loop {
            part *= 10;
            width = width.wrapping_mul(10);
            unit = unit.wrapping_mul(10);
            self.scale -= 1;
            self.push(part >> shift);
            part &= one - 1;
            if part < width {
                return self.approach(to_exact.wrapping_mul(unit), width, part, one);
            }
        }
    }

    /// Appends a digit, except a leading zero.
    fn push(&mut self, digit: u64) {
        if digit != 0 || self.count > 0 {
            self.digits[self.count] = b'0' + digit as u8;
            self.count += 1;
        }
    }

    /// Decrements the last digit, which is worth `step`, while that moves closer to the exact
    /// value.
    fn approach(&mut self, to_exact: u64, width: u64, mut rest: u64, step: u64) {
        let is_nearer = |rest: u64| {
            let next = rest.wrapping_add(step);
            next < to_exact || to_exact - rest > next - to_exact
        };
        while rest < to_exact && width - rest >= step && is_nearer(rest) {
            self.digits[self.count - 1] -= 1;
            rest += step;
        }
    }
}

impl Float {
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let (fraction, exponent) = (bits & (HIDDEN_BIT - 1), (bits >> 52 & 0x7FF) as i32);
        match exponent {
            0 => Float {
                fraction,
                exponent: 1 - BIAS,
            },
            _ => Float {
                fraction: fraction | HIDDEN_BIT,
                exponent: exponent - BIAS,
            },
        }
    }

    /// Returns the same number with the highest bit set.
    fn normalized(self) -> Self {
        let shift = self.fraction.leading_zeros();
        Float {
            fraction: self.fraction << shift,
            exponent: self.exponent - shift as i32,
        }
    }

    /// Returns the midpoints to the next lower and higher doubles: the upper one normalized, the
    /// lower one with the same exponent.
    fn neighbourhood(self) -> (Self, Self) {
        let upper = Float {
            fraction: (self.fraction << 1) + 1,
            exponent: self.exponent - 1,
        };
        let upper = upper.normalized();
        // Below a power of two, doubles are twice as dense.
        let shift = if self.fraction == HIDDEN_BIT { 2 } else { 1 };
        let (fraction, exponent) = ((self.fraction << shift) - 1, self.exponent - shift);
        let lower = Float {
            fraction: fraction << (exponent - upper.exponent),
            exponent: upper.exponent,
        };
        (lower, upper)
    }

    /// Returns the upper half of the product, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction);
        Float {
            fraction: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// Returns the power of ten that brings a number of this exponent to one of -60 to -32, and the
/// power's exponent. If two powers qualify, it returns Redis's choice.
fn power_for(exponent: i32) -> (Float, i32) {
    let about = (f64::from(-(exponent + POWERS.len() as i32)) * LOG_2) as i32;
    let mut index = ((about - POWERS_FIRST) / POWERS_STEP) as usize;
    loop {
        let ten_to = POWERS_FIRST + POWERS_STEP * index as i32;
        // The logarithm to base two of a power of ten, rounded down.
        let power = Float {
            fraction: POWERS[index],
            exponent: ((ten_to * 1_741_647) >> 19) - 63,
        };
        match exponent + power.exponent + 64 {
            ..-60 => index += 1,
            -60..=-32 => return (power, ten_to),
            _ => index -= 1,
        }
    }
}

const DIGITS_MAX: usize = 18;
const HIDDEN_BIT: u64 = 1 << 52;
const BIAS: i32 = 1023 + 52;
const LOG_2: f64 = std::f64::consts::LOG10_2;
const POWERS_FIRST: i32 = -348;
const POWERS_STEP: i32 = 8;
/// The first 64 bits of each eighth power of ten, rounded: from 10^-348 to 10^340.
#[rustfmt::skip]
static POWERS: [u64; 87] = [
    0xFA8FD5A0081C0288, 0xBAAEE17FA23EBF76, 0x8B16FB203055AC76, 0xCF42894A5DCE35EA,
    0x9A6BB0AA55653B2D, 0xE61ACF033D1A45DF, 0xAB70FE17C79AC6CA, 0xFF77B1FCBEBCDC4F,
    0xBE5691EF416BD60C, 0x8DD01FAD907FFC3C, 0xD3515C2831559A83, 0x9D71AC8FADA6C9B5,
    0xEA9C227723EE8BCB, 0xAECC49914078536D, 0x823C12795DB6CE57, 0xC21094364DFB5637,
    0x9096EA6F3848984F, 0xD77485CB25823AC7, 0xA086CFCD97BF97F4, 0xEF340A98172AACE5,
    0xB23867FB2A35B28E, 0x84C8D4DFD2C63F3B, 0xC5DD44271AD3CDBA, 0x936B9FCEBB25C996,
    0xDBAC6C247D62A584, 0xA3AB66580D5FDAF6, 0xF3E2F893DEC3F126, 0xB5B5ADA8AAFF80B8,
    0x87625F056C7C4A8B, 0xC9BCFF6034C13053, 0x964E858C91BA2655, 0xDFF9772470297EBD,
    0xA6DFBD9FB8E5B88F, 0xF8A95FCF88747D94, 0xB94470938FA89BCF, 0x8A08F0F8BF0F156B,
    0xCDB02555653131B6, 0x993FE2C6D07B7FAC, 0xE45C10C42A2B3B06, 0xAA242499697392D3,
    0xFD87B5F28300CA0E, 0xBCE5086492111AEB, 0x8CBCCC096F5088CC, 0xD1B71758E219652C,
    0x9C40000000000000, 0xE8D4A51000000000, 0xAD78EBC5AC620000, 0x813F3978F8940984,
    0xC097CE7BC90715B3, 0x8F7E32CE7BEA5C70, 0xD5D238A4ABE98068, 0x9F4F2726179A2245,
    0xED63A231D4C4FB27, 0xB0DE65388CC8ADA8, 0x83C7088E1AAB65DB, 0xC45D1DF942711D9A,
    0x924D692CA61BE758, 0xDA01EE641A708DEA, 0xA26DA3999AEF774A, 0xF209787BB47D6B85,
    0xB454E4A179DD1877, 0x865B86925B9BC5C2, 0xC83553C5C8965D3D, 0x952AB45CFA97A0B3,
    0xDE469FBD99A05FE3, 0xA59BC234DB398C25, 0xF6C69A72A3989F5C, 0xB7DCBF5354E9BECE,
    0x88FCF317F22241E2, 0xCC20CE9BD35C78A5, 0x98165AF37B2153DF, 0xE2A0B5DC971F303A,
    0xA8D9D1535CE3B396, 0xFB9B7CD9A4A7443C, 0xBB764C4CA7A44410, 0x8BAB8EEFB6409C1A,
    0xD01FEF10A657842C, 0x9B10A4E5E9913129, 0xE7109BFBA19C0C9D, 0xAC2820D9623BF429,
    0x80444B5E7AA7CF85, 0xBF21E44003ACDD2D, 0x8E679C2F5E44FF8F, 0xD433179D9C8CB841,
    0x9E19DB92B4E31BA9, 0xEB96BF6EBADF77D9, 0xAF87023B9BF0EE6B,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let decimal = Decimal::of(value);
        let digits = std::str::from_utf8(&decimal.digits[..decimal.count]).unwrap();
        format!("{digits}e{}", decimal.scale)
    }

    #[test]
    fn digits_that_are_not_the_shortest_match_redis() {
        for (value, digits) in [
            (924_719.893_757_799, "9247198937577989e-10"),
            (1.0, "1e0"),
            (0.1, "1e-1"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "22250738585072014e-324"),
            (f64::MAX, "17976931348623157e292"),
            (9_007_199_254_740_993.0, "9007199254740992e0"),
        ] {
            assert_eq!(text(value), digits, "{value}");
        }
    }

    /// Returns the number of digits of the shortest text of `value`.
    fn shortest_count(value: f64) -> usize {
        let mut buffer = ryu::Buffer::new();
        let digits = buffer.format_finite(value).split('e').next();
        let digits = digits.unwrap_or_default();
        let digits = digits.trim_matches(|one| one == '0' || one == '.');
        digits.bytes().filter(u8::is_ascii_digit).count().max(1)
    }

    #[test]
    fn every_double_reads_back_and_few_are_longer_than_necessary() {
        let mut word = 1u64;
        let mut longer = 0;
        const COUNT: usize = 200_000;
        for number in 0..COUNT {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(number as u64 | 1);
            let bits = word ^ word >> 29;
            let value = match number % 3 {
                0 => f64::from_bits(bits & (u64::MAX >> 1)),
                1 => (bits >> 11) as f64 / 1e9,
                _ => f64::from_bits(bits >> (12 + bits % 48)),
            };
            if value == 0.0 || !value.is_finite() {
                continue;
            }
            let digits = text(value);
            assert_eq!(digits.parse::<f64>().unwrap(), value, "{digits}");
            longer += usize::from(Decimal::of(value).count > shortest_count(value));
        }
        assert!(longer < COUNT / 100, "{longer}");
    }
}
