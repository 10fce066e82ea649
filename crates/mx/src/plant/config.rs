//! The settings of a plant.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Settings of a plant. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct PlantConfig {
    /// Number of tank tags, up to [`super::tags::TAGS_MAX`]; default 1,000.
    pub tags: usize,
    /// Seed; the same seed gives the same plant.
    pub seed: u64,
    /// Minimum and maximum delay between Advise and the first change; default 3 to 8 s.
    pub first_change_ns: (u64, u64),
    /// Interval of later changes, ± 10 %; default 100 ms.
    pub interval_ns: u64,
    /// Injected faults.
    pub faults: Faults,
    /// Whether an array can be read without `[]`; default no.
    pub bulk_arrays: bool,
    /// Nanoseconds since the UNIX epoch when `now_ns` is 0: the base of the values' times.
    pub unix_ns_at_zero: u64,
}

impl Default for PlantConfig {
    fn default() -> Self {
        Self {
            tags: 1_000,
            seed: 1,
            first_change_ns: (3_000_000_000, 8_000_000_000),
            interval_ns: 100_000_000,
            faults: Faults::default(),
            bulk_arrays: false,
            unix_ns_at_zero: 0,
        }
    }
}

/// Injected faults, as shares of 0 to 1.
///
/// Parsed from text such as
/// `refuse=1%,delay=5%,lose=1%,drop=0.01%,uncertain=1%,bad=0.5%,trouble=0.1%, delay-duration=2s`.
/// Unnamed faults do not happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Refused writes, with each category in turn.
    pub refuse: f64,
    /// Writes with a delayed completion.
    pub delay: f64,
    /// Delay in nanoseconds; default 2 s.
    pub delay_ns: u64,
    /// Writes without a completion; half of them are accepted.
    pub lose: f64,
    /// Messages after which the link is dropped.
    pub drop_link: f64,
    /// Changes of uncertain quality.
    pub uncertain: f64,
    /// Changes of bad quality.
    pub bad: f64,
    /// Changes replaced by a trouble status of the item.
    pub trouble: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            refuse: 0.0,
            delay: 0.0,
            delay_ns: 2_000_000_000,
            lose: 0.0,
            drop_link: 0.0,
            uncertain: 0.0,
            bad: 0.0,
            trouble: 0.0,
        }
    }
}

/// Why text is not a valid [`Faults`]: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultsError(String);

impl fmt::Display for FaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}': expected for example refuse=1%; known are refuse, delay, lose, drop, uncertain, \
             bad, trouble (0% to 100%) and delay-duration (such as 500ms or 2s)",
            self.0
        )
    }
}

impl core::error::Error for FaultsError {}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let mut faults = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let wrong = || FaultsError(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let target = match name.trim() {
                "refuse" => &mut faults.refuse,
                "delay" => &mut faults.delay,
                "lose" => &mut faults.lose,
                "drop" => &mut faults.drop_link,
                "uncertain" => &mut faults.uncertain,
                "bad" => &mut faults.bad,
                "trouble" => &mut faults.trouble,
                "delay-duration" => {
                    faults.delay_ns = duration_ns(value.trim()).ok_or_else(wrong)?;
                    continue;
                }
                _ => return Err(wrong()),
            };
            *target = share(value.trim()).ok_or_else(wrong)?;
        }
        Ok(faults)
    }
}

fn share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

fn duration_ns(text: &str) -> Option<u64> {
    let (number, unit_ns) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix('s')?, 1e9),
    };
    let ns = number.parse::<f64>().ok()? * unit_ns;
    (0.0..=3_600e9).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn faults_are_read_as_people_write_them() {
        let faults: Faults = "refuse=1%, lose=0.5, drop=0%,delay-duration=500ms"
            .parse()
            .unwrap();
        assert_eq!(
            (faults.refuse, faults.lose, faults.drop_link),
            (0.01, 0.5, 0.0)
        );
        assert_eq!(faults.delay_ns, 500_000_000);
        assert_eq!("".parse(), Ok(Faults::default()));
        for text in [
            "refuse",
            "refuse=101%",
            "refuse=x",
            "bend=1%",
            "delay-duration=2",
        ] {
            let error = text.parse::<Faults>().unwrap_err();
            assert!(error.to_string().starts_with(&std::format!("'{text}'")));
        }
    }
}
