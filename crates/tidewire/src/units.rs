//! Parses and formats durations, rates and counts.

use std::time::Duration;

use tidewire_calendar::date_of_days;

/// Parses `500ms`, `10s`, `5m`, `1h`, or seconds without a unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number
        .parse()
        .map_err(|_| "a duration such as 10s is expected".to_owned())?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(format!("unknown unit '{unit}' (ms, s, m, h are known)")),
    };
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "a duration of less than 500 billion years is expected".to_owned())
}

/// Parses `100000`, `100k`, `2.5M`.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a number such as 100k is expected".to_owned())?;
    let count = number * factor;
    if !(1.0..=1e12).contains(&count) {
        return Err("a number from 1 to 1e12 is expected, such as 100k or 2.5M".to_owned());
    }
    Ok(count as u64)
}

/// Returns a parser for whole numbers from `least` to `most`.
pub fn whole<N>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: TryFrom<u64> + 'static,
{
    move |text| {
        let number = text.parse::<u64>().ok();
        let within = number.filter(|number| (least..=most).contains(number));
        within
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| match most {
                u64::MAX => format!("a whole number from {least} on is expected"),
                _ => format!("a whole number from {least} to {most} is expected"),
            })
    }
}

/// Formats a count as `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 source`, `2,000 sources`.
pub fn counted(count: u64, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {one}{ending}", grouped(count))
}

/// Formats a count in at most six characters: `999`, `12.3k`, `768.8M`, `1.2G`.
pub fn compact(count: u64) -> String {
    let (scale, letter) = match count {
        0..1_000 => return count.to_string(),
        1_000..999_950 => (1e3, 'k'),
        999_950..999_950_000 => (1e6, 'M'),
        999_950_000..999_950_000_000 => (1e9, 'G'),
        999_950_000_000..999_950_000_000_000 => (1e12, 'T'),
        _ => (1e15, 'P'),
    };
    format!("{:.1}{letter}", count as f64 / scale)
}

/// Formats a latency: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn latency(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Returns a text as a terminal may show it: characters that control it, that reverse or hide other
/// text, and combining ones are escaped, as `\u{202e}`. Different texts stay different.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

/// Formats a price in units of 1e-9 with two to four decimals; `-` for no price.
pub fn price(price: i64) -> String {
    if price == tidewire_lastvalue::PRICE_UNDEFINED {
        return "-".to_owned();
    }
    let decimals = if price % 10_000_000 == 0 { 2 } else { 4 };
    format!("{:.decimals$}", price as f64 / 1e9)
}

/// Formats nanoseconds since the UNIX epoch as UTC: `2023-12-24 23:00:00.000000000 UTC`.
pub fn timestamp(unix_ns: u64) -> String {
    let (seconds, ns) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of_days(days as i64);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ns:09} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_peer_neither_controls_a_terminal_nor_hides_in_it() {
        for plain in ["ESZ5", "it's \"q\"", "सेंसेक्स".get(..3).unwrap_or(""), "東京"]
        {
            assert_eq!(printable(plain), plain);
        }
        let shown = printable("\u{1b}[2J\u{202e}A\u{9b}\u{200b}\\");
        assert_eq!(shown, r"\u{1b}[2J\u{202e}A\u{9b}\u{200b}\\");
    }

    #[test]
    fn durations_and_counts_are_read_with_their_units() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("10 days").is_err() && parse_duration("").is_err());
        assert_eq!(parse_count("100k"), Ok(100_000));
        assert_eq!(parse_count("2.5M"), Ok(2_500_000));
        assert!(parse_count("0").is_err() && parse_count("many").is_err());
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123), "123");
        assert_eq!(compact(999), "999");
        assert_eq!(compact(999_949), "999.9k");
        assert_eq!(compact(999_950), "1.0M");
        assert_eq!(compact(768_812_400), "768.8M");
        assert_eq!(compact(u64::MAX), "18446.7P");
        assert_eq!(latency(12_345), "12.3 µs");
        assert_eq!(price(2_456_750_000_000), "2456.75");
        assert_eq!(
            timestamp(1_703_458_800_000_000_000),
            "2023-12-24 23:00:00.000000000 UTC"
        );
        assert_eq!(
            timestamp(951_782_400_000_000_001),
            "2000-02-29 00:00:00.000000001 UTC"
        );
    }
}
