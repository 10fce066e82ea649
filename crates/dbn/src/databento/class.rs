//! What the form of an instrument's name says about it.

use crate::names::start_of_day_ns;
use crate::{UNDEFINED_PRICE, UNDEFINED_TIME};

/// Class, expiration and strike by the form of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form<'a> {
    /// Databento's letter of the class: `K` stock, `F` future, `S` spread of futures, `C` call, `P`
    /// put.
    pub(super) class: u8,
    /// Root of the name; empty for a stock.
    pub(super) root: &'a str,
    /// Year and month; 0 for a stock.
    pub(super) maturity: (u16, u8),
    /// End of the day or month that the name gives, ns since the UNIX epoch: the instrument cannot
    /// expire later. [`UNDEFINED_TIME`] for a stock.
    pub(super) expiration: u64,
    /// 1 unit = 1e-9; [`UNDEFINED_PRICE`] unless it is an option.
    pub(super) strike: i64,
}

impl<'a> Form<'a> {
    /// Reads a name: a future (`ESH4`), a spread (`ESH4-ESM4`), an option (`ESH4 C4800`,
    /// `AAPL  240119C00150000`), else a stock. A year of one digit is the one closest to `now_ns`.
    pub(super) fn of(name: &'a str, now_ns: u64) -> Self {
        let found = Self::dated_option(name).or_else(|| {
            match (name.split_once(' '), name.split_once('-')) {
                (Some((first, rest)), _) => Self::option(first, rest.trim_start(), now_ns),
                (None, Some((first, second))) => Self::future(first, now_ns)
                    .filter(|_| Self::future(second, now_ns).is_some())
                    .map(|future| Self {
                        class: b'S',
                        ..future
                    }),
                (None, None) => Self::future(name, now_ns),
            }
        });
        found.unwrap_or(Self {
            class: b'K',
            root: "",
            maturity: (0, 0),
            expiration: UNDEFINED_TIME,
            strike: UNDEFINED_PRICE,
        })
    }

    /// A root, a month's letter and one or two digits of a year.
    fn future(name: &'a str, now_ns: u64) -> Option<Self> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let month_place = name.len().checked_sub(digits + 1)?;
        let is_future = month_place > 0 && name.is_ascii() && is_expiry(&name[month_place..]);
        if !is_future {
            return None;
        }
        let letter = name.as_bytes()[month_place];
        let month = MONTHS.iter().position(|&month| month == letter)? as u32 + 1;
        let number: u32 = name[month_place + 1..].parse().ok()?;
        let year = match digits {
            1 => closest_year(number, now_ns),
            _ => 2_000 + number,
        };
        let next = match month {
            12 => (year + 1) * 10_000 + 101,
            _ => year * 10_000 + (month + 1) * 100 + 1,
        };
        Some(Self {
            class: b'F',
            root: &name[..month_place],
            maturity: (year as u16, month as u8),
            expiration: start_of_day_ns(next),
            strike: UNDEFINED_PRICE,
        })
    }

    /// CME's form: `ESH4 C4800`.
    fn option(first: &'a str, rest: &str, now_ns: u64) -> Option<Self> {
        let (class, strike) = split_option(rest)?;
        Some(Self {
            class,
            strike,
            ..Self::future(first, now_ns)?
        })
    }

    /// OCC's form: `AAPL  240119C00150000`.
    fn dated_option(name: &'a str) -> Option<Self> {
        let (root, rest) = split_dated(name)?;
        let date = 20_000_000 + rest[..6].parse::<u32>().ok()?;
        let month = date / 100 % 100;
        debug_assert!((1..=12).contains(&month), "it was checked");
        Some(Self {
            class: rest.as_bytes()[6],
            root,
            maturity: ((date / 10_000) as u16, month as u8),
            expiration: start_of_day_ns(date).saturating_add(DAY_NS),
            strike: rest[7..].parse::<i64>().ok()? * 1_000_000,
        })
    }
}

/// Returns whether `text` is a month's letter and one or two digits of a year.
pub(super) fn is_expiry(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_month = bytes.first().is_some_and(|month| MONTHS.contains(month));
    is_month && matches!(bytes.len(), 2 | 3) && bytes[1..].iter().all(u8::is_ascii_digit)
}

/// Splits the part of a name of CME's form behind the expiry, ` C4800`, into the class and the
/// strike, 1 unit = 1e-9.
pub(super) fn split_option(rest: &str) -> Option<(u8, i64)> {
    let rest = rest.trim_start_matches(' ');
    let (&class, _) = rest.as_bytes().split_first()?;
    if !matches!(class, b'C' | b'P') {
        return None;
    }
    let strike = &rest[1..];
    let (is_negative, number) = match strike.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, strike),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let whole = whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    let parts = format!("{decimals:0<DECIMALS_MAX$}").parse::<i64>().ok()?;
    let strike = whole.checked_add(parts)?;
    Some((class, if is_negative { -strike } else { strike }))
}

/// Splits a name of OCC's form into its root and the part behind it: the day, the class, and the
/// strike in thousandths with 8 digits.
pub(super) fn split_dated(name: &str) -> Option<(&str, &str)> {
    let (root, rest) = name.split_at_checked(name.len().checked_sub(DATED_LENGTH)?)?;
    let root = root.trim_end_matches(' ');
    let (bytes, class) = (rest.as_bytes(), rest.as_bytes()[6]);
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let has_root = !root.is_empty() && root.is_ascii() && !root.contains(' ');
    let is_month = matches!(
        &rest.as_bytes()[2..4],
        [b'0', b'1'..=b'9'] | [b'1', b'0'..=b'2']
    );
    let is_dated = digits == DATED_LENGTH - 1 && matches!(class, b'C' | b'P') && is_month;
    (has_root && is_dated).then_some((root, rest))
}

/// Returns the year that ends with `digit`, from 4 years before `now_ns` to 5 after it.
fn closest_year(digit: u32, now_ns: u64) -> u32 {
    let now = 1_970 + (now_ns / YEAR_NS) as u32;
    let first = now - 4;
    first + (digit + 10 - first % 10) % 10
}

/// Letters of the months in which futures expire.
const MONTHS: &[u8] = b"FGHJKMNQUVXZ";
/// Digits behind the point of a price.
const DECIMALS_MAX: usize = 9;
/// Bytes of OCC's form behind the root.
const DATED_LENGTH: usize = 15;
const DAY_NS: u64 = 86_400_000_000_000;
/// 365.2425 days.
const YEAR_NS: u64 = 31_556_952_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 1_780_000_000_000_000_000; // 2026-05

    #[test]
    fn the_form_of_a_name_gives_the_class() {
        for (name, class) in [
            ("AAPL", b'K'),
            ("BRK.B", b'K'),
            ("BF-B", b'K'),
            ("T", b'K'),
            ("H4", b'K'),
            ("ESH4", b'F'),
            ("6EZ24", b'F'),
            ("ESA4", b'K'),
            ("ESH2024", b'K'),
            ("ESH4-ESM4", b'S'),
            ("ESH4 C4800", b'C'),
            ("ESH4 P4800", b'P'),
            ("ESH4 C", b'K'),
            ("ESH4 CX", b'K'),
            ("ESH4 C4800@XCME", b'K'),
            ("ESH4 P4700 X", b'K'),
            ("ESH4 C4800.", b'K'),
            ("ESH4 C4800.5", b'C'),
            ("ESH4 P-10", b'P'),
            ("ESH4 é4800", b'K'),
            ("AAPL  240119C00150000", b'C'),
            ("AAPL  240119P00150000", b'P'),
            ("AAPL  249919P00150000", b'K'),
            ("ABCDEF240119C00150000", b'C'),
            ("  240119C00150000", b'K'),
            ("A B 240119C00150000", b'K'),
            ("AAPL 24C150", b'K'),
            ("ABC PR", b'K'),
            ("ABC 12345é12345678", b'K'),
            ("äH4", b'K'),
            ("", b'K'),
        ] {
            let form = Form::of(name, NOW_NS);
            assert_eq!(char::from(form.class), char::from(class), "{name}");
            let is_stock = class == b'K';
            assert_eq!(form.expiration == UNDEFINED_TIME, is_stock, "{name}");
            assert_eq!(form.root.is_empty(), is_stock, "{name}");
        }
    }

    #[test]
    fn the_form_of_a_name_gives_its_end_and_strike() {
        let future = Form::of("ESZ4", NOW_NS);
        assert_eq!((future.root, future.maturity), ("ES", (2024, 12)));
        assert_eq!(future.expiration, start_of_day_ns(20_250_101));
        assert_eq!(Form::of("ESH1", NOW_NS).maturity, (2031, 3));
        assert_eq!(Form::of("ESH30", NOW_NS).maturity, (2030, 3));
        let option = Form::of("ESH4 P4800", NOW_NS);
        assert_eq!(option.strike, 4_800_000_000_000);
        let strike = |name| Form::of(name, NOW_NS).strike;
        assert_eq!(strike("ESH4 C4800.25"), 4_800_250_000_000);
        assert_eq!(strike("ESH4 C-0.5"), -500_000_000);
        assert_eq!(strike("ESH4 C9223372037"), UNDEFINED_PRICE, "too large");
        let dated = Form::of("AAPL  240119C00150500", NOW_NS);
        assert_eq!((dated.root, dated.maturity), ("AAPL", (2024, 1)));
        assert_eq!(dated.strike, 150_500_000_000);
        assert_eq!(dated.expiration, start_of_day_ns(20_240_120));
    }
}
