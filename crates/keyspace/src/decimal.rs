//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Redis adds C's `long double`, which has a mantissa of 64 bits on x86, and prints 17 decimals
//! without trailing zeros. Clients compare these texts, so this module does the same arithmetic on
//! integers.

use std::cmp::Ordering;

/// A number `(-1)^negative × mantissa × 2^exponent`. The mantissa has its top bit set, or is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

impl Decimal {
    pub(crate) const ZERO: Decimal = Decimal {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// Infinity or NaN: no sum with it is finite.
    const NOT_FINITE: Decimal = Decimal {
        exponent: i32::MAX,
        ..Decimal::ZERO
    };

    pub(crate) fn is_finite(self) -> bool {
        self != Decimal::NOT_FINITE
    }

    /// Parses a decimal number with an optional exponent, or a word for a number that is not
    /// finite.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if NOT_FINITE
            .iter()
            .any(|word| word.eq_ignore_ascii_case(rest))
        {
            return Some(Decimal::NOT_FINITE);
        }
        if let [b'0', b'x' | b'X', rest @ ..] = rest {
            return Decimal::parse_hexadecimal(negative, rest);
        }
        let mut digits = Wide::default();
        let (mut scale, mut seen, mut fraction) = (0i32, false, false);
        let mut exponent = 0;
        for (at, &byte) in rest.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    digits.multiply_add(10, u32::from(byte - b'0'));
                    scale -= i32::from(fraction);
                }
                b'.' if !fraction => fraction = true,
                b'e' | b'E' if seen => {
                    exponent = parse_exponent(&rest[at + 1..])?;
                    break;
                }
                _ => return None,
            }
        }
        seen.then_some(())?;
        let power = scale + exponent;
        if digits.is_zero() {
            return Some(Decimal {
                negative,
                ..Decimal::ZERO
            });
        }
        if power.abs() > EXPONENT_MAX {
            return None;
        }
        Some(if power >= 0 {
            (0..power).for_each(|_| digits.multiply_add(10, 0));
            Decimal::rounded(negative, &digits, 0, false)
        } else {
            let mut divisor = Wide::one();
            (0..-power).for_each(|_| divisor.multiply_add(10, 0));
            // Enough bits for the mantissa, and some more for rounding.
            let shift = (divisor.bits() + 70).saturating_sub(digits.bits());
            digits.shift_left(shift);
            let (quotient, exact) = digits.divide(&divisor);
            Decimal::rounded(negative, &quotient, -(shift as i32), !exact)
        })
    }

    /// Parses the digits after `0x`: C accepts hexadecimal numbers wherever it accepts decimal
    /// ones.
    fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<Decimal> {
        let mut digits = Wide::default();
        let (mut scale, mut seen, mut fraction) = (0i32, false, false);
        let mut exponent = 0;
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b'.' if !fraction => fraction = true,
                b'p' | b'P' if seen => {
                    exponent = parse_exponent(&text[at + 1..])?;
                    break;
                }
                _ => {
                    seen = true;
                    digits.multiply_add(16, char::from(byte).to_digit(16)?);
                    scale -= 4 * i32::from(fraction);
                }
            }
        }
        seen.then_some(())?;
        if digits.is_zero() {
            return Some(Decimal {
                negative,
                ..Decimal::ZERO
            });
        }
        let top = digits.bits() as i32 + scale + exponent;
        let is_in_range = (BINARY_EXPONENT_MIN..=BINARY_EXPONENT_MAX + 64).contains(&top);
        is_in_range.then(|| Decimal::rounded(negative, &digits, scale + exponent, false))
    }

    /// Returns the sum, rounded to nearest; `None` if it is not finite.
    pub(crate) fn add(self, other: Decimal) -> Option<Decimal> {
        if !self.is_finite() || !other.is_finite() {
            return None;
        }
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let (high, low) = match self.exponent.cmp(&other.exponent) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        let distance = high.exponent - low.exponent;
        debug_assert!(distance >= 0);
        if distance > 130 {
            return Some(high);
        }
        let (mut a, mut b) = (Wide::from(high.mantissa), Wide::from(low.mantissa));
        a.shift_left(distance as usize);
        let negative;
        let sum = if high.negative == low.negative {
            negative = high.negative;
            a.add(&b);
            a
        } else if a.cmp(&b) == Ordering::Less {
            negative = low.negative;
            b.subtract(&a);
            b
        } else {
            negative = high.negative;
            a.subtract(&b);
            a
        };
        if sum.is_zero() {
            return Some(Decimal::ZERO);
        }
        let sum = Decimal::rounded(negative, &sum, low.exponent, false);
        (sum.exponent < BINARY_EXPONENT_MAX).then_some(sum)
    }

    /// Formats with 17 decimals, without trailing zeros; `None` if the text is longer than Redis
    /// prints.
    pub(crate) fn text(self) -> Option<Vec<u8>> {
        // value × 10^17, rounded half to even, as an integer.
        let mut digits = Wide::from(self.mantissa);
        (0..DECIMALS).for_each(|_| digits.multiply_add(10, 0));
        if self.exponent >= 0 {
            digits.shift_left(self.exponent as usize);
        } else {
            digits.round_off(self.exponent.unsigned_abs() as usize);
        }
        let mut text = digits.decimal_digits();
        while text.len() <= DECIMALS {
            text.insert(0, b'0');
        }
        debug_assert!(text.len() > DECIMALS, "there is a digit before the point");
        text.insert(text.len() - DECIMALS, b'.');
        while text.last() == Some(&b'0') {
            text.pop();
        }
        if text.last() == Some(&b'.') {
            text.pop();
        }
        if self.negative && text != b"0" {
            text.insert(0, b'-');
        }
        (text.len() <= TEXT_BYTES_MAX).then_some(text)
    }

    /// Rounds `wide × 2^exponent` to 64 bits, half to even. `sticky` means that the exact value is
    /// slightly greater than `wide`.
    fn rounded(negative: bool, wide: &Wide, exponent: i32, sticky: bool) -> Decimal {
        debug_assert!(!wide.is_zero(), "zero has no first bit");
        let bits = wide.bits();
        let mut wide = wide.clone();
        if bits <= 64 {
            wide.shift_left(64 - bits);
            debug_assert_eq!(wide.bits(), 64);
            return Decimal {
                negative,
                mantissa: wide.low_64(),
                exponent: exponent - (64 - bits) as i32,
            };
        }
        let dropped = bits - 64;
        if sticky {
            // Adds one bit below: it breaks ties upwards and changes nothing else.
            wide.shift_left(1);
            wide.multiply_add(1, 1);
            wide.round_off(dropped + 1);
        } else {
            wide.round_off(dropped);
        }
        // Rounding up may carry into a 65th bit; then all other bits are zero.
        let carry = wide.bits() - 64;
        wide.round_off(carry);
        debug_assert_eq!(wide.bits(), 64, "the mantissa's first bit is set");
        Decimal {
            negative,
            mantissa: wide.low_64(),
            exponent: exponent + (dropped + carry) as i32,
        }
    }
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let digits = text
        .strip_prefix(b"+")
        .or(text.strip_prefix(b"-"))
        .unwrap_or(text);
    let plain = !digits.is_empty() && digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
    let value: i32 = plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok())??;
    Some(if text[0] == b'-' { -value } else { value })
}

/// A natural number of any size, lowest limb first, without a zero limb at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wide {
    limbs: Vec<u32>,
}

impl Wide {
    fn one() -> Self {
        Wide { limbs: vec![1] }
    }

    fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |top| {
            self.limbs.len() * 32 - top.leading_zeros() as usize
        })
    }

    fn bit(&self, at: usize) -> bool {
        self.limbs
            .get(at / 32)
            .is_some_and(|limb| limb >> (at % 32) & 1 != 0)
    }

    fn low_64(&self) -> u64 {
        let limb = |at| u64::from(self.limbs.get(at).copied().unwrap_or(0));
        limb(0) | limb(1) << 32
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn add(&mut self, other: &Wide) {
        let mut carry = 0u64;
        for at in 0..self.limbs.len().max(other.limbs.len()) {
            if at == self.limbs.len() {
                self.limbs.push(0);
            }
            let addend = other.limbs.get(at).copied().unwrap_or(0);
            carry += u64::from(self.limbs[at]) + u64::from(addend);
            self.limbs[at] = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    /// Subtracts a number that is not greater.
    fn subtract(&mut self, other: &Wide) {
        let mut borrow = 0i64;
        for (at, limb) in self.limbs.iter_mut().enumerate() {
            borrow += i64::from(*limb) - i64::from(other.limbs.get(at).copied().unwrap_or(0));
            *limb = borrow as u32;
            borrow >>= 32;
        }
        debug_assert_eq!(borrow, 0, "the subtracted number is not greater");
        self.trim();
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        self.limbs.splice(0..0, std::iter::repeat_n(0, bits / 32));
        self.multiply_add(1 << (bits % 32), 0);
    }

    /// Divides by `2^bits`, half to even.
    fn round_off(&mut self, bits: usize) {
        if bits == 0 {
            return;
        }
        let half = self.bit(bits - 1);
        let below = (0..bits - 1).any(|at| self.bit(at));
        let odd = self.bit(bits);
        let limbs = bits / 32;
        self.limbs.drain(..limbs.min(self.limbs.len()));
        let shift = bits % 32;
        if shift > 0 {
            let mut upper = 0u32;
            for limb in self.limbs.iter_mut().rev() {
                let next = *limb << (32 - shift);
                *limb = *limb >> shift | upper;
                upper = next;
            }
        }
        self.trim();
        if half && (below || odd) {
            self.add(&Wide::one());
        }
    }

    /// Divides by schoolbook long division, bit by bit, for a quotient of about 70 bits. Returns
    /// the quotient and whether it is exact.
    fn divide(&self, divisor: &Wide) -> (Wide, bool) {
        debug_assert!(!divisor.is_zero());
        let mut quotient = Wide::default();
        let mut remainder = self.clone();
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        let mut part = divisor.clone();
        part.shift_left(steps.saturating_sub(1));
        for _ in 0..steps {
            quotient.multiply_add(2, 0);
            if remainder.cmp(&part) != Ordering::Less {
                remainder.subtract(&part);
                quotient.add(&Wide::one());
            }
            part.halve();
        }
        (quotient, remainder.is_zero())
    }

    /// Halves the number. It is even, except at the end of a division, when it is no longer needed.
    fn halve(&mut self) {
        let mut upper = 0;
        for limb in self.limbs.iter_mut().rev() {
            let next = *limb << 31;
            *limb = *limb >> 1 | upper;
            upper = next;
        }
        self.trim();
    }

    fn decimal_digits(&mut self) -> Vec<u8> {
        let mut digits = Vec::new();
        while !self.is_zero() {
            let mut rest = 0u64;
            for limb in self.limbs.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            self.trim();
            for _ in 0..9 {
                digits.push(b'0' + (rest % 10) as u8);
                rest /= 10;
            }
        }
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        digits.reverse();
        digits
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }
}

impl From<u64> for Wide {
    fn from(value: u64) -> Self {
        let mut wide = Wide {
            limbs: vec![value as u32, (value >> 32) as u32],
        };
        wide.trim();
        wide
    }
}

impl Wide {
    fn cmp(&self, other: &Wide) -> Ordering {
        let order = self.limbs.len().cmp(&other.limbs.len());
        order.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

const NOT_FINITE: &[&[u8]] = &[b"inf", b"infinity"];
const DECIMALS: usize = 17;
/// Size of Redis's buffer for the text of a number.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Decimal exponent beyond which a number cannot be printed or is zero.
const EXPONENT_MAX: i32 = 4_950;
const BINARY_EXPONENT_MAX: i32 = 16_384 - 63;
/// Smaller numbers are zero in a `long double`.
const BINARY_EXPONENT_MIN: i32 = -16_445;

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn sum(a: &str, b: &str) -> String {
        let parse = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
        String::from_utf8(parse(a).add(parse(b)).unwrap().text().unwrap()).unwrap()
    }

    #[test]
    fn sums_print_as_long_doubles_do() {
        assert_eq!(sum("3", "1.1"), "4.1");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("0", "-1.1"), "-1.1");
        assert_eq!(sum("1.1", "-1.1"), "0");
        assert_eq!(sum("17179869185", "1.5"), "17179869186.5");
        // A mantissa of 64 bits is visible here, as in Redis.
        assert_eq!(sum("12345.1", "0"), "12345.09999999999999964");
        assert_eq!(sum("1e17", "0.5"), "100000000000000000.5");
        assert_eq!(sum("-0.00000000000000001", "0"), "-0.00000000000000001");
        assert_eq!(sum("1e-30", "0"), "0");
    }

    #[test]
    fn hexadecimal_numbers_are_accepted_as_in_c() {
        assert_eq!(sum("0x10", "0"), "16");
        assert_eq!(sum("0X1P3", "1"), "9");
        assert_eq!(sum("-0x.8p1", "5"), "4");
        assert_eq!(sum("0xff.8", "0"), "255.5");
        assert_eq!(sum("0x1p-2", "0"), "0.25");
        assert_eq!(sum("+0xFFFFFFFFFFFFFFFF", "0"), "18446744073709551615");
    }

    #[test]
    fn texts_that_are_not_numbers_are_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "abc",
            "1e",
            ".",
            "-",
            "1.2.3",
            "1e999999",
            "nan",
            "0x",
            "0x.",
            "0xg",
            "0x1p",
            "0x1.2.3",
            "0x1p99999",
            "0x1p-99999",
            "x10",
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["1.", ".5", "+3", "1E2", "-0", "0x0p99999"] {
            assert!(Decimal::parse(text.as_bytes()).is_some(), "{text}");
        }
    }
}
