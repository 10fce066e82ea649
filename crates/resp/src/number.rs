//! Parsing and formatting of numbers as in Redis.

mod grisu;

use std::fmt;

use grisu::Decimal;

/// Parses a signed decimal integer as strictly as Redis: an optional `-`, then digits without a
/// leading zero. It accepts no `+`, no blanks, no `-0`, and nothing outside the range of `i64`.
///
/// ```
/// use tidewire_resp::number::parse_integer;
///
/// assert_eq!(parse_integer(b"-42"), Some(-42));
/// assert_eq!(parse_integer(b"042"), None);
/// ```
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    match *text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        [b'-', ref digits @ ..] => {
            let magnitude = parse_magnitude(digits)?;
            0i64.checked_sub_unsigned(magnitude)
        }
        ref digits => i64::try_from(parse_magnitude(digits)?).ok(),
    }
}

/// The text of one double, on the stack.
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; DOUBLE_BYTES_MAX],
    length: usize,
}

impl DoubleText {
    /// Formats `value` as Redis 8 does: few digits that read back to the same double, `inf`,
    /// `-inf`, `nan`, integers without a point, exponents as in `1e+20` and `1.5e-7`.
    pub fn new(value: f64) -> Self {
        if value.abs() <= WHOLE_MAX && value.trunc() == value && value != 0.0 {
            let mut text = DoubleText::empty();
            text.append(itoa::Buffer::new().format(value as i64).as_bytes());
            return text;
        }
        DoubleText::shortest(value)
    }

    /// Formats `value` always by its digits, so that 100000000 is `1e+8`. Redis does this for texts
    /// that are not meant for people.
    pub fn shortest(value: f64) -> Self {
        let mut text = DoubleText::empty();
        if value.is_nan() {
            text.append(b"nan");
        } else if value.is_infinite() {
            text.append(if value > 0.0 { b"inf" } else { b"-inf" });
        } else if value == 0.0 {
            text.append(if value.is_sign_negative() {
                b"-0"
            } else {
                b"0"
            });
        } else {
            text.append_shortest(value);
        }
        text
    }

    fn empty() -> Self {
        DoubleText {
            bytes: [0; DOUBLE_BYTES_MAX],
            length: 0,
        }
    }

    /// Returns the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the digits by the rules of `fpconv_dtoa`, which Redis uses.
    fn append_shortest(&mut self, value: f64) {
        let decimal = Decimal::of(value);
        let digits = &decimal.digits[..decimal.count];
        let count = decimal.count as i32;
        let exponent = decimal.scale + count - 1;
        if value < 0.0 {
            self.append(b"-");
        }
        if decimal.scale >= 0 && exponent < count + 7 {
            self.append(digits);
            self.append(&ZEROS[..decimal.scale as usize]);
        } else if decimal.scale < 0 && (decimal.scale > -7 || exponent.abs() < 4) {
            let whole = count + decimal.scale;
            if whole <= 0 {
                self.append(b"0.");
                self.append(&ZEROS[..-whole as usize]);
                self.append(digits);
            } else {
                self.append(&digits[..whole as usize]);
                self.append(b".");
                self.append(&digits[whole as usize..]);
            }
        } else {
            let digits = &digits[..digits.len().min(18 - usize::from(value < 0.0))];
            self.append(&digits[..1]);
            if digits.len() > 1 {
                self.append(b".");
                self.append(&digits[1..]);
            }
            self.append(if exponent < 0 { b"e-" } else { b"e+" });
            self.append(itoa::Buffer::new().format(exponent.abs()).as_bytes());
        }
    }

    fn append(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
    }
}

impl AsRef<[u8]> for DoubleText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for DoubleText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.as_bytes().escape_ascii())
    }
}

/// Parses a double as in a RESP3 reply or a Redis command: decimal or exponent form, `inf`, `+inf`,
/// `-inf`, `infinity`, `nan`, in any case. It accepts no blanks and no hexadecimal digits.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a length of up to nine digits whose line is complete. Returns its value and the offset
/// after it. `None` means that the general parser must handle the line.
#[inline(always)]
pub(crate) fn short_length<const MARKER: u8>(
    input: &[u8],
    position: usize,
) -> Option<(usize, usize)> {
    let line = input.get(position..)?;
    // One digit: the four bytes differ from "$0\r\n" only in the second byte, by 0 to 9.
    let expected = u32::from_le_bytes([MARKER, b'0', b'\r', b'\n']);
    let difference = u32::from_le_bytes(*line.first_chunk()?) ^ expected;
    let digit = difference.rotate_right(8);
    if digit < 10 {
        return Some((digit as usize, position + 4));
    }
    // Two digits: the same with "00\r\n" after the marker, and no leading zero.
    let (&marker, digits) = line.split_first()?;
    let difference = u32::from_le_bytes(*digits.first_chunk()?) ^ u32::from_le_bytes(*b"00\r\n");
    let (tens, units) = (difference & 0xFF, difference >> 8);
    if marker == MARKER && tens.wrapping_sub(1) < 9 && units < 10 {
        return Some(((tens * 10 + units) as usize, position + 5));
    }
    if marker != MARKER {
        return None;
    }
    medium_length(digits).map(|(length, bytes)| (length, position + 1 + bytes))
}

/// Parses three to nine digits and CR LF. Returns the value and the number of bytes.
fn medium_length(digits: &[u8]) -> Option<(usize, usize)> {
    if digits[0] == b'0' {
        return None;
    }
    let mut length = 0;
    for (count, &byte) in digits.iter().enumerate().take(DIGITS_MEDIUM_MAX + 1) {
        match byte {
            b'0'..=b'9' => length = length * 10 + usize::from(byte - b'0'),
            b'\r' if count > 0 && digits.get(count + 1) == Some(&b'\n') => {
                return Some((length, count + 2));
            }
            _ => return None,
        }
    }
    None
}

#[inline]
fn parse_magnitude(digits: &[u8]) -> Option<u64> {
    // 19 digits always fit into a `u64`, and no `i64` has more.
    if digits.len() > 19 || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let units = digit.wrapping_sub(b'0');
        if units > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(units);
    }
    Some(magnitude)
}

/// Nine digits always fit into a `usize` of 32 bits.
const DIGITS_MEDIUM_MAX: usize = 9;

/// Redis formats integral doubles up to this value as integers (`LLONG_MAX / 2`).
const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;

/// Sign, 17 digits, point, and either 7 zeros or `e-308`, with spare room.
const DOUBLE_BYTES_MAX: usize = 40;

const ZEROS: [u8; 24] = [b'0'; 24];

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(value: f64) -> String {
        String::from_utf8(DoubleText::new(value).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn integers_are_parsed_as_strictly_as_in_redis() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("10", 10),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "-0",
            "00",
            "01",
            "-01",
            "1a",
            "0x1",
            "--1",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "100000000000000000000000",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles_are_formatted_as_in_redis_8() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.0, "-3"),
            (3.15, "3.15"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.5, "-0.5"),
            (100.25, "100.25"),
            (1e17, "100000000000000000"),
            (123456789012345678.0, "123456789012345680"),
            // Integers up to 2^62 are formatted as integers; beyond that, by their digits.
            (4611686018427387904.0, "4611686018427387904"),
            (-4611686018427387904.0, "-4611686018427387904"),
            (4611686018427389952.0, "4611686018427390000"),
            (1e18, "1000000000000000000"),
            (5e18, "5e+18"),
            (1e20, "1e+20"),
            (1.5e20, "1.5e+20"),
            (-1e20, "-1e+20"),
            (1.2345678901234568e22, "12345678901234568000000"),
            (1.2345678901234567e30, "1.2345678901234567e+30"),
            (0.0001, "0.0001"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (0.00001234, "1.234e-5"),
            (0.0012345678901234, "0.0012345678901234"),
            (1e-10, "1e-10"),
            (-2.5e-100, "-2.5e-100"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(printed(value), text, "{value:e}");
        }
    }

    #[test]
    fn the_fast_path_for_lengths_agrees_with_the_strict_parser() {
        let short = |text: &str| short_length::<b'$'>(format!("x${text}\r\n").as_bytes(), 1);
        for number in (0..2000).chain([99_999, 536_870_912, 999_999_999]) {
            let text = number.to_string();
            assert_eq!(short(&text), Some((number, text.len() + 4)), "{text}");
        }
        for text in [
            "",
            "-1",
            "00",
            "01",
            "001",
            "0123",
            "1a",
            "12a",
            ":",
            "1:",
            "/9",
            "1234567890",
        ] {
            assert_eq!(short(text), None, "{text}");
        }
        for line in [
            "$1", "$1\r", "$12\r", "$123\r", "$1\n\r\n", "*1\r\n", "*12\r\n", "*123\r\n",
        ] {
            assert_eq!(short_length::<b'$'>(line.as_bytes(), 0), None, "{line}");
        }
        assert_eq!(short_length::<b'$'>(b"", 0), None);
        assert_eq!(short_length::<b'$'>(b"$1\r\n", 9), None);
    }

    proptest::proptest! {
        #[test]
        fn every_double_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            let text = DoubleText::new(value);
            let back = parse_double(text.as_bytes()).unwrap();
            proptest::prop_assert!(back == value || value.is_nan() && back.is_nan());
            proptest::prop_assert!(text.as_bytes().len() <= 25);
        }

        #[test]
        fn every_integer_reads_back(value: i64) {
            proptest::prop_assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
    }
}
