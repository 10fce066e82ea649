//! Scores in requests: the number formats that Redis accepts, and the limits of ranges.

use std::ops::Bound;

use tidewire_resp::number::parse_double;

use crate::sorted_set::TextLimit;

/// Parses a score or a weight: decimal, hexadecimal or infinite, never NaN, and within the range of
/// a double.
pub(in crate::commands) fn parse_score(text: &[u8]) -> Option<f64> {
    // Fast path: nearly all scores are short integers.
    if let [b'0'..=b'9', ..] = text
        && text.len() <= SHORT_DIGITS
        && text.iter().all(u8::is_ascii_digit)
    {
        let digits = text.iter();
        return Some(digits.fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0')) as f64);
    }
    let score = parse_double(text).or_else(|| parse_hexadecimal(text))?;
    let word = text.iter().any(|byte| matches!(byte, b'i' | b'I'));
    let too_big = score.is_infinite() && !word;
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next()?;
    let too_small = score == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    (!score.is_nan() && !too_big && !too_small).then_some(score)
}

/// Parses a limit of a score range: a number, with `(` before it if it is excluded.
pub(super) fn parse_bound(text: &[u8]) -> Option<Bound<f64>> {
    // Redis reads a C string; an empty one counts as zero.
    let text = text.split(|&byte| byte == 0).next()?;
    let number = |text: &[u8]| match text {
        [] => Some(0.0),
        _ => parse_double(text).filter(|score| !score.is_nan()),
    };
    match text {
        [b'(', rest @ ..] => number(rest).map(Bound::Excluded),
        _ => number(text).map(Bound::Included),
    }
}

/// Parses a limit of a text range.
pub(super) fn parse_text_limit(text: &[u8]) -> Option<TextLimit<'_>> {
    match text {
        [b'-'] => Some(TextLimit::First),
        [b'+'] => Some(TextLimit::Last),
        [b'[', rest @ ..] => Some(TextLimit::Included(rest)),
        [b'(', rest @ ..] => Some(TextLimit::Excluded(rest)),
        _ => None,
    }
}

/// Parses `0x`, hexadecimal digits with an optional point, and a binary exponent, as C does.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let [b'0', b'x' | b'X', rest @ ..] = rest else {
        return None;
    };
    let end = rest.iter().position(|byte| matches!(byte, b'p' | b'P'));
    let (digits, exponent) = match end {
        None => (rest, 0),
        Some(end) => (&rest[..end], parse_exponent(&rest[end + 1..])?),
    };
    let (mut mantissa, mut scale, mut seen, mut fraction) = (0u64, 0i32, false, false);
    for &byte in digits {
        if byte == b'.' && !fraction {
            fraction = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        seen = true;
        scale -= if fraction { 4 } else { 0 };
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | u64::from(digit);
        } else {
            // Bits below the last one only affect rounding.
            mantissa |= u64::from(digit != 0);
            scale = scale.saturating_add(4);
        }
    }
    let power = scale.saturating_add(exponent).clamp(-2_200, 2_200);
    // Multiplies in two steps, so that neither factor overflows.
    let half = power / 2;
    let value = mantissa as f64 * 2f64.powi(half) * 2f64.powi(power - half);
    let valid = seen && value.is_finite() && (value != 0.0 || mantissa == 0);
    valid.then_some(if negative { -value } else { value })
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let digits = text.strip_prefix(b"+").or(text.strip_prefix(b"-"));
    let digits = digits.unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i32, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i32::from(digit - b'0'))
    });
    Some(if text[0] == b'-' { -value } else { value })
}

const SHORT_DIGITS: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_numbers_that_redis_accepts() {
        for (text, value) in [
            ("5", 5.0),
            ("00012", 12.0),
            ("+5", 5.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("1E5", 1e5),
            ("123456789012345", 123_456_789_012_345.0),
            ("1234567890123456789", 1_234_567_890_123_456_789.0),
            ("-inf", f64::NEG_INFINITY),
            ("+infinity", f64::INFINITY),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x123456789abcdef01", 2.098_829_547_942_064_5e19),
            ("0x0", 0.0),
            ("0e10", 0.0),
        ] {
            let score = parse_score(text.as_bytes()).expect(text);
            assert!(
                (score - value).abs() <= value.abs() * 1e-8 || score == value,
                "{text}"
            );
        }
        for text in [
            "",
            " 5",
            "5 ",
            "nan",
            "-nan",
            "1e400",
            "-1e400",
            "1e-400",
            "1e",
            "0x",
            "0xg",
            "0x1p",
            "0x1p5000",
            "0x1p-5000",
            "inf5",
            "1_0",
            "--1",
            "-",
            ".",
        ] {
            assert_eq!(parse_score(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn limits_can_be_excluded_from_their_range() {
        assert_eq!(parse_bound(b"(5"), Some(Bound::Excluded(5.0)));
        assert_eq!(parse_bound(b"1e400"), Some(Bound::Included(f64::INFINITY)));
        assert_eq!(parse_bound(b""), Some(Bound::Included(0.0)));
        assert_eq!(parse_bound(b"(nan"), None);
        assert_eq!(parse_bound(b"0x1"), None);
        assert_eq!(parse_text_limit(b"[a"), Some(TextLimit::Included(b"a")));
        assert_eq!(parse_text_limit(b"+x"), None);
    }
}
