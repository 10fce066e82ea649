//! Formats fixed-point numbers as exact decimal text, without floating point.

/// Appends `price` (1 unit = 1e-9) as a decimal number without trailing zeros.
pub(crate) fn write_price(out: &mut Vec<u8>, price: i64) {
    write_fixed::<9>(out, price);
}

/// Appends parts per million as a percentage with up to four decimals.
pub(crate) fn write_per_cent(out: &mut Vec<u8>, parts_per_million: i64) {
    write_fixed::<4>(out, parts_per_million);
}

/// Appends an unsigned integer.
pub(crate) fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `value` / 10^`DECIMALS`.
fn write_fixed<const DECIMALS: usize>(out: &mut Vec<u8>, value: i64) {
    let scale = 10u64.pow(DECIMALS as u32);
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    write_unsigned(out, magnitude / scale);
    let mut fraction = magnitude % scale;
    if fraction == 0 {
        return;
    }
    let mut digits = [b'0'; DECIMALS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    debug_assert_eq!(fraction, 0, "a fraction has no more digits than the scale");
    let used = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(0, |last| last + 1);
    out.push(b'.');
    out.extend_from_slice(&digits[..used]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(value: i64) -> String {
        let mut out = Vec::new();
        write_price(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prices_are_exact_at_every_magnitude() {
        assert_eq!(price(0), "0");
        assert_eq!(price(2_456_750_000_000), "2456.75");
        assert_eq!(price(1), "0.000000001");
        assert_eq!(price(-250_000_000), "-0.25");
        assert_eq!(price(i64::MIN), "-9223372036.854775808");
        assert_eq!(price(100_000_000_000), "100");
    }

    #[test]
    fn per_cent_has_up_to_four_decimals() {
        let mut out = Vec::new();
        write_per_cent(&mut out, -12_340);
        assert_eq!(out, b"-1.234");
    }
}
