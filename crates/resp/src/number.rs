//! Numbers as Redis reads and prints them.

use std::fmt;

/// Reads a signed decimal integer as strictly as Redis does: an optional `-`, then digits without a
/// leading zero; no `+`, no blanks, no `-0`, nothing beyond the range of `i64`.
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

/// The text of one double, kept on the stack.
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; DOUBLE_BYTES_MAX],
    length: usize,
}

impl DoubleText {
    /// Prints `value` as Redis 8 does: the shortest digits that read back to the same double,
    /// `inf`, `-inf`, `nan`, whole numbers without a point, exponents as in `1e+20` and `1.5e-7`.
    pub fn new(value: f64) -> Self {
        let mut text = DoubleText {
            bytes: [0; DOUBLE_BYTES_MAX],
            length: 0,
        };
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
        } else if value.abs() < WHOLE_MAX && value.trunc() == value {
            text.append(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            text.append_shortest(value);
        }
        text
    }

    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Lays out the shortest digits by the rules of `fpconv_dtoa`, which Redis prints with.
    fn append_shortest(&mut self, value: f64) {
        let decimal = Decimal::shortest(value);
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
            self.append(&digits[..1]);
            if count > 1 {
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

/// Reads a double as it stands in a RESP3 reply or a Redis command: decimal or exponent form,
/// `inf`, `+inf`, `-inf`, `infinity`, `nan`, in any case; no blanks, no hexadecimal.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Digits without leading or trailing zeros, times ten to the `scale`.
struct Decimal {
    digits: [u8; 17],
    /// 1 to 17.
    count: usize,
    scale: i32,
}

impl Decimal {
    /// The shortest decimal that reads back to `value`, which is finite and not zero; without sign.
    fn shortest(value: f64) -> Self {
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(value.abs()).as_bytes();
        let mut decimal = Decimal {
            digits: [0; 17],
            count: 0,
            scale: 0,
        };
        let mut zeros = 0;
        let mut fraction = false;
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b'.' => fraction = true,
                b'e' => {
                    let exponent = parse_integer(&text[at + 1..]).unwrap_or(0);
                    decimal.scale += exponent as i32;
                    break;
                }
                digit => {
                    decimal.scale -= i32::from(fraction);
                    if digit == b'0' {
                        // Kept back until a digit follows: trailing zeros go into the scale.
                        zeros += usize::from(decimal.count > 0);
                        continue;
                    }
                    for _ in 0..zeros {
                        decimal.push(b'0');
                    }
                    zeros = 0;
                    decimal.push(digit);
                }
            }
        }
        decimal.scale += zeros as i32;
        decimal
    }

    fn push(&mut self, digit: u8) {
        self.digits[self.count] = digit;
        self.count += 1;
    }
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

/// Below this Redis prints whole doubles as integers (`LLONG_MAX / 2`).
const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;

/// Sign, 17 digits, point, and either 7 zeros or `e-308`; with room to spare.
const DOUBLE_BYTES_MAX: usize = 40;

const ZEROS: [u8; 24] = [b'0'; 24];

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(value: f64) -> String {
        String::from_utf8(DoubleText::new(value).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn integers_are_read_as_strictly_as_redis_does() {
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
}
