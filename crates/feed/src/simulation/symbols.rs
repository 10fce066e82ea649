//! The symbols of a simulated market: built in, generated, or from a user's CSV.

use std::collections::HashSet;

use thiserror::Error;

use super::instrument::{PRICE_MAX, PRICE_MIN};
use super::random::Random;
use crate::wire::PRICE_SCALE;

/// One symbol at the opening.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolSpec {
    /// Its name.
    pub name: Box<str>,
    /// Opening price, 1 unit = 1e-9.
    pub price: i64,
    /// Standard deviation of the price's logarithm over a year: 0.25 is 25 %.
    pub volatility: f64,
}

/// A market's symbols: from 1 to [`COUNT_MAX`](Self::COUNT_MAX), with distinct names.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbols {
    specs: Vec<SymbolSpec>,
}

/// A fault in a list of symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}{fault}", place(*line))]
pub struct SymbolsError {
    /// Line of the text, from 1; 0 for the whole text.
    pub line: usize,
    /// The fault.
    pub fault: SymbolsFault,
}

/// Returns the prefix of a message about a line; empty for the whole text.
fn place(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}: "),
    }
}

/// A fault in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SymbolsFault {
    /// The line does not have three fields.
    #[error("expected name,price,volatility")]
    FieldCount,
    /// An empty name, one longer than [`Symbols::NAME_LENGTH_MAX`] bytes, or one with a space or
    /// control character.
    #[error(
        "the name must have 1 to {} bytes and no space or control character",
        Symbols::NAME_LENGTH_MAX
    )]
    Name,
    /// An earlier line has the same name.
    #[error("the name was used before")]
    DuplicateName,
    /// Not a decimal number within the range.
    #[error(
        "the price must be a decimal number from 0.000002 to 1000000000, 9 digits after the point"
    )]
    Price,
    /// Not a number within the range.
    #[error("the volatility must be a number from 0 to 10 (0.25 is 25 % a year)")]
    Volatility,
    /// The list has no symbol.
    #[error("no symbols: a line name,price,volatility is expected for each")]
    Empty,
    /// More than [`Symbols::COUNT_MAX`] symbols.
    #[error("more than {} symbols", Symbols::COUNT_MAX)]
    TooMany,
}

impl Symbols {
    /// Maximum symbols of a market.
    pub const COUNT_MAX: usize = 1_000_000;
    /// Maximum bytes of a name: half the room of a definition in the native feed.
    pub const NAME_LENGTH_MAX: usize = 36;
    /// Number of built-in symbols with real names.
    pub const BUILT_IN: usize = 100;

    /// Returns the first `count` built-in symbols (1 to [`COUNT_MAX`](Self::COUNT_MAX), clamped).
    /// After the hundred with real names come generated ones from `SYM000101` on.
    pub fn first(count: usize) -> Self {
        let count = count.clamp(1, Self::COUNT_MAX);
        let mut specs = Self::parse(BUILT_IN_CSV).map_or_else(|_| Vec::new(), |own| own.specs);
        specs.truncate(count);
        let mut random = Random::new(GENERATED_SEED);
        for number in specs.len() + 1..=count {
            // 50.00 to 5,000.00, evenly distributed in the logarithm.
            let cents = 5_000
                + random.next()
                    % if random.next() & 1 == 0 {
                        45_000
                    } else {
                        495_000
                    };
            specs.push(SymbolSpec {
                name: format!("SYM{number:06}").into(),
                price: cents as i64 * (PRICE_SCALE / 100),
                volatility: 0.15 + (random.next() % 4_096) as f64 / 10_000.0,
            });
        }
        Self { specs }
    }

    /// Parses symbols from CSV text, one `name,price,volatility` per line. A header line with
    /// just these words, empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`SymbolsError`] names the first invalid line.
    pub fn parse(text: &str) -> Result<Self, SymbolsError> {
        let mut specs = Vec::new();
        let mut names = HashSet::new();
        let mut header_possible = true;
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let header = std::mem::take(&mut header_possible);
            if header
                && content
                    .replace(' ', "")
                    .eq_ignore_ascii_case("name,price,volatility")
            {
                continue;
            }
            let error = |fault| SymbolsError { line, fault };
            let spec = parse_line(content).map_err(error)?;
            if !names.insert(spec.name.clone()) {
                return Err(error(SymbolsFault::DuplicateName));
            }
            if specs.len() == Self::COUNT_MAX {
                return Err(error(SymbolsFault::TooMany));
            }
            specs.push(spec);
        }
        if specs.is_empty() {
            let fault = SymbolsFault::Empty;
            return Err(SymbolsError { line: 0, fault });
        }
        Ok(Self { specs })
    }

    /// Returns the number of symbols: at least one.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Returns the name of a symbol by its number.
    pub fn name(&self, symbol: u32) -> Option<&str> {
        self.specs.get(symbol as usize).map(|spec| &*spec.name)
    }

    /// Iterates over the symbols in order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, SymbolSpec> {
        self.specs.iter()
    }
}

impl Default for Symbols {
    /// Returns the hundred built-in symbols.
    fn default() -> Self {
        Self::first(Self::BUILT_IN)
    }
}

fn parse_line(content: &str) -> Result<SymbolSpec, SymbolsFault> {
    let mut fields = content.split(',').map(str::trim);
    let (Some(name), Some(price), Some(volatility), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(SymbolsFault::FieldCount);
    };
    let clean = !name.contains(|c: char| c.is_whitespace() || c.is_control());
    if !(1..=Symbols::NAME_LENGTH_MAX).contains(&name.len()) || !clean {
        return Err(SymbolsFault::Name);
    }
    let price = parse_price(price)
        .filter(|price| (PRICE_MIN..=PRICE_MAX).contains(price))
        .ok_or(SymbolsFault::Price)?;
    let volatility = volatility
        .parse::<f64>()
        .ok()
        .filter(|volatility| (0.0..=10.0).contains(volatility))
        .ok_or(SymbolsFault::Volatility)?;
    Ok(SymbolSpec {
        name: name.into(),
        price,
        volatility,
    })
}

/// Parses a decimal number in units of 1e-9, exactly.
fn parse_price(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 9 || !digits(whole) || !digits(part) {
        return None;
    }
    let mut units = whole.parse::<i64>().ok()?.checked_mul(PRICE_SCALE)?;
    if !part.is_empty() {
        units = units.checked_add(part.parse::<i64>().ok()? * 10i64.pow(9 - part.len() as u32))?;
    }
    Some(units)
}

/// Generated symbols are the same in every market, for any seed and size.
const GENERATED_SEED: u64 = 101;

const BUILT_IN_CSV: &str = include_str!("../../data/symbols.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_hundred_begin_with_reliance_and_are_real() {
        let symbols = Symbols::default();
        assert_eq!(symbols.len(), Symbols::BUILT_IN);
        assert_eq!(symbols.name(0), Some("RELIANCE"));
        assert!(symbols.iter().all(|spec| !spec.name.starts_with("SYM")));
        assert_eq!(symbols.iter().next().unwrap().price, 2_480_500_000_000);
    }

    #[test]
    fn further_names_are_generated_and_do_not_depend_on_the_count() {
        let (few, many) = (Symbols::first(103), Symbols::first(1_000_000));
        assert_eq!(many.len(), 1_000_000);
        assert_eq!(few.name(100), Some("SYM000101"));
        assert_eq!(many.name(999_999), Some("SYM1000000"));
        assert_eq!(few.specs[..], many.specs[..103]);
        assert_eq!(Symbols::first(2).len(), 2);
        assert_eq!(Symbols::first(0).len(), 1);
        assert_eq!(Symbols::first(usize::MAX).len(), Symbols::COUNT_MAX);
    }

    #[test]
    fn a_users_list_may_have_header_comments_and_blank_lines() {
        let text = "# mine\n\nName, Price, Volatility\n ACME , 12.5 , 0.3\r\nX,0.000002,0\n";
        let symbols = Symbols::parse(text).unwrap();
        assert_eq!(symbols.name(0), Some("ACME"));
        assert_eq!(symbols.specs[0].price, 12_500_000_000);
        assert_eq!(symbols.specs[1].price, 2_000);
    }

    #[test]
    fn every_fault_names_its_line() {
        let fault = |text: &str| Symbols::parse(text).map(|_| ()).unwrap_err();
        let cases = [
            ("A,1,0.1\nB,1", 2, SymbolsFault::FieldCount),
            ("A,1,0.1,9", 1, SymbolsFault::FieldCount),
            (",1,0.1", 1, SymbolsFault::Name),
            ("A B,1,0.1", 1, SymbolsFault::Name),
            ("A,1,0.1\n\nA,2,0.1", 3, SymbolsFault::DuplicateName),
            ("A,-1,0.1", 1, SymbolsFault::Price),
            ("A,0,0.1", 1, SymbolsFault::Price),
            ("A,1.0000000001,0.1", 1, SymbolsFault::Price),
            ("A,99999999999999999999,0.1", 1, SymbolsFault::Price),
            ("A,1e3,0.1", 1, SymbolsFault::Price),
            ("A,1,-0.1", 1, SymbolsFault::Volatility),
            ("A,1,NaN", 1, SymbolsFault::Volatility),
            ("A,1,11", 1, SymbolsFault::Volatility),
            ("# nothing\n", 0, SymbolsFault::Empty),
            ("name,price,volatility\n", 0, SymbolsFault::Empty),
        ];
        for (text, line, expected) in cases {
            let expected = SymbolsError {
                line,
                fault: expected,
            };
            assert_eq!(fault(text), expected, "{text:?}");
        }
        let message = fault("A,x,0.1").to_string();
        assert!(
            message.starts_with("line 1: the price must be"),
            "{message}"
        );
    }
}
