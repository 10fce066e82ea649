//! The date of an ITCH file.

use std::path::Path;

use tidewire_itch::{midnight_unix_ns, parse_midnight_unix_ns};

/// Parses `2019-01-30` and returns the midnight of that day at the exchange, ns since the UNIX
/// epoch.
pub(crate) fn parse_date(text: &str) -> Result<u64, String> {
    parse_midnight_unix_ns(text).ok_or_else(|| "a date such as 2019-01-30 is expected".to_owned())
}

/// Returns the date in a file's name: as Nasdaq writes it (`01302019.NASDAQ_ITCH50`,
/// `S013019-v50.txt`) or in another usual form (`20190130.itch`, `2019-01-30.pcap`).
pub(crate) fn date_of_name(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok();
    for start in name.char_indices().map(|(start, _)| start) {
        let rest = &name[start..];
        if let Some(text) = rest.get(..10)
            && let Ok(midnight) = parse_date(text)
        {
            return Some(midnight);
        }
        if let Some(text) = rest.get(..8).filter(|text| digits(text)) {
            let month_first = (
                number(&text[4..])?,
                number(&text[..2])?,
                number(&text[2..4])?,
            );
            let year_first = (
                number(&text[..4])?,
                number(&text[4..6])?,
                number(&text[6..])?,
            );
            for (year, month, day) in [month_first, year_first] {
                if (1990..2100).contains(&year)
                    && let Some(midnight) = midnight_unix_ns(year, month, day)
                {
                    return Some(midnight);
                }
            }
        }
        if let Some(text) = rest.strip_prefix('S').and_then(|rest| rest.get(..6))
            && digits(text)
        {
            let (month, day) = (number(&text[..2])?, number(&text[2..4])?);
            return midnight_unix_ns(2000 + number(&text[4..])?, month, day);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_their_day() {
        let day = midnight_unix_ns(2019, 1, 30);
        for name in [
            "01302019.NASDAQ_ITCH50",
            "/data/S013019-v50.txt",
            "20190130.itch",
            "mold-2019-01-30.pcapng",
        ] {
            assert_eq!(date_of_name(Path::new(name)), day, "{name}");
        }
        for name in ["day.itch", "99999999", "S999999", "2019-13-01", "-"] {
            assert_eq!(date_of_name(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_date_is_a_day_that_was() {
        assert!(parse_date("2024-02-29").is_ok());
        for text in ["2023-02-29", "2024-2", "x", "2024-02-29-1", ""] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
