//! Addresses and numbers in digits, read as the C library reads them for libzmq.

use std::net::{IpAddr, Ipv4Addr};

/// Returns the address that a text gives in digits. As with `inet_aton`, one of IPv4 has one to
/// four parts, each decimal, octal (`0177`) or hexadecimal (`0x7f`), and the last part fills the
/// octets that are left: `127.1` and `2130706433` are 127.0.0.1.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| ipv4(text).map(IpAddr::V4))
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let (head, last) = match text.rsplit_once('.') {
        Some((head, last)) => (Some(head), last),
        None => (None, text),
    };
    let mut leading = 0;
    let mut bits_left = u32::BITS;
    for octet in head.into_iter().flat_map(|head| head.split('.')) {
        let octet = u8::try_from(part(octet)?).ok()?;
        bits_left -= u8::BITS;
        leading |= u32::from(octet) << bits_left;
        if bits_left == 0 {
            // The last part has no room.
            return None;
        }
    }
    let last = part(last)?;
    let fits = u64::from(last) >> bits_left == 0;
    fits.then(|| Ipv4Addr::from(leading | last))
}

/// One part of an IPv4 address.
fn part(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    // Rust also reads a sign, which is refused here.
    let is_number = digits.starts_with(|letter: char| letter.is_digit(radix));
    is_number.then(|| u32::from_str_radix(digits, radix).ok())?
}

/// Returns the number at the beginning of a text, as `strtol` does: 0 if there is none, and the
/// nearest number if it has too many digits.
pub(crate) fn leading_number(text: &str) -> i64 {
    let is_space = |letter: char| letter.is_ascii_whitespace() || letter == '\x0b';
    let text = text.trim_start_matches(is_space);
    let negative = text.strip_prefix('-');
    let digits = negative.or(text.strip_prefix('+')).unwrap_or(text).bytes();
    let digits = digits.take_while(u8::is_ascii_digit);
    digits.fold(0_i64, |number, digit| {
        let (number, digit) = (number.saturating_mul(10), i64::from(digit - b'0'));
        match negative {
            Some(_) => number.saturating_sub(digit),
            None => number.saturating_add(digit),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{ip, leading_number};

    #[test]
    fn an_address_has_all_forms_of_inet_aton() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0x7F.0X0.0.1", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0177.1", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("127.00000.0.01", "127.0.0.1"),
            ("0127.0.0.1", "87.0.0.1"),
            ("127.256", "127.0.1.0"),
            ("127.0.65535", "127.0.255.255"),
            ("127.16777215", "127.255.255.255"),
            ("4294967295", "255.255.255.255"),
            ("0", "0.0.0.0"),
            ("1", "0.0.0.1"),
            ("::1", "::1"),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            assert_eq!(ip(text), Some(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "",
            ".",
            "127.",
            ".1",
            "127..1",
            "127.0.0.1.",
            "127.0.0.1.5",
            "1.2.3.4.5.6.7.8.9",
            "127.0.0.256",
            "256.1",
            "127.0.65536",
            "127.16777216",
            "4294967296",
            "0x100000000",
            "0x",
            "0x.1",
            "127.0.0.08",
            "0x7fg",
            "127.1x",
            "+127.1",
            "127.+1",
            "127.0x+1",
            "127.0+1",
            "-1",
            " 127.1",
            "127.1 ",
            "1e3",
            "ffff",
            "::ffff:127.1",
            "::0x1",
            "\u{661}.1",
        ] {
            assert_eq!(ip(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_ends_at_the_first_letter_that_is_no_digit() {
        for (text, number) in [
            ("", 0),
            ("x", 0),
            ("12", 12),
            ("\x0b +12x", 12),
            ("-12.5", -12),
            ("- 1", 0),
            ("0x10", 0),
            ("99999999999999999999", i64::MAX),
            ("-99999999999999999999", i64::MIN),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }
}
