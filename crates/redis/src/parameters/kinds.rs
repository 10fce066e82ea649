//! What values a parameter takes, and how Redis refuses others.

use tidewire_fanout::OutputLimit;
use tidewire_keyspace::EventClasses;

/// The values that a parameter takes. Each is kept as the text that CONFIG GET shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// yes or no.
    Switch,
    /// Any text.
    Text,
    /// Any text, which is several words of a redis.conf's line.
    Words,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these words; the first stands for none.
    Choices(&'static [&'static str]),
    /// A number in this range.
    Number(i128, i128),
    /// A number in this range, shown in octal.
    Octal(i128, i128),
    /// Bytes in this range; written also as `1k` (1000), `1kb` (1024), and so on.
    Memory(i128, i128),
    /// The same, or a percentage.
    MemoryOrPercent(i128, i128),
    /// `notify-keyspace-events`.
    Events,
    /// `client-output-buffer-limit`: changes the classes that it names.
    OutputLimits,
    /// `save`: pairs of seconds and changes.
    SavePoints,
    /// `latency-tracking-info-percentiles`.
    Percentiles,
    /// `oom-score-adj-values`.
    ScoreAdjustments,
    /// A file's name without folders.
    FileName,
    /// A folder that is there; kept whole, from the root on.
    Directory,
}

type Result = std::result::Result<Vec<u8>, String>;

impl Kind {
    /// The text to keep for `text`, or why there is none; `current` is kept now.
    pub(super) fn read(self, text: &[u8], current: &[u8]) -> Result {
        let value = self.read_once(text, current)?;
        // A folder may be gone by now.
        debug_assert!(
            matches!(self, Kind::Directory)
                || self.read_once(&value, current).as_ref() == Ok(&value),
            "CONFIG SET takes what CONFIG GET shows"
        );
        Ok(value)
    }

    fn read_once(self, text: &[u8], current: &[u8]) -> Result {
        if matches!(self, Kind::Text | Kind::Words) {
            return Ok(text.to_vec());
        }
        let text = std::str::from_utf8(text).unwrap_or("\u{fffd}");
        let words: Vec<&str> = text.split(' ').collect();
        match self {
            Kind::Text | Kind::Words => Ok(text.into()),
            Kind::Switch => read_switch(text),
            Kind::Choice(known) => read_choice(text, known),
            Kind::Choices(known) => read_choices(&words, known),
            Kind::Number(least, most) => {
                let number = tidewire_resp::number::parse_integer(text.as_bytes());
                let number = number.ok_or("argument couldn't be parsed into an integer")?;
                within(number.into(), least, most)
            }
            Kind::Octal(least, most) => {
                let number = i128::from_str_radix(text, 8)
                    .map_err(|_| "argument couldn't be parsed as an octal number")?;
                match (least..=most).contains(&number) {
                    true => Ok(format!("{number:o}").into()),
                    false => Err(format!(
                        "argument must be between {least:o} and {most:o} inclusive"
                    )),
                }
            }
            Kind::Memory(least, most) => {
                let bytes = read_memory(text).ok_or("argument must be a memory value")?;
                within(bytes, least, most)
            }
            Kind::MemoryOrPercent(least, most) => read_memory_or_percent(text, least, most),
            Kind::Events => match EventClasses::parse(text.as_bytes()) {
                Some(classes) => Ok(classes.text().into()),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            },
            Kind::OutputLimits => OutputLimits::of(current)
                .with(&words)
                .map(|limits| limits.text().into()),
            Kind::SavePoints => read_save_points(&words),
            Kind::Percentiles => read_percentiles(&words),
            Kind::ScoreAdjustments => read_score_adjustments(&words),
            Kind::FileName if text.contains('/') => {
                Err(format!("{text} can't be a path, just a filename"))
            }
            Kind::FileName if text.is_empty() => Err("a name is expected".to_owned()),
            Kind::FileName => Ok(text.into()),
            Kind::Directory => read_directory(text),
        }
    }
}

/// `client-output-buffer-limit`: of each class the bytes at which a client is cut off at once,
/// those at which it is cut off when it stays above them, and for how many seconds; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputLimits(pub(crate) [OutputLimit; 3]);

impl OutputLimits {
    /// Reads what [`OutputLimits::text`] wrote.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let words: Vec<&str> = text.split(' ').collect();
        OutputLimits::default().with(&words).unwrap_or_default()
    }

    /// As CONFIG GET shows it.
    pub(super) fn text(self) -> String {
        let class = |(name, limit): (&&str, &OutputLimit)| {
            let (hard, soft) = (limit.hard_bytes, limit.soft_bytes);
            format!("{name} {hard} {soft} {}", limit.soft_seconds)
        };
        let classes: Vec<_> = CLASSES.iter().zip(&self.0).map(class).collect();
        classes.join(" ")
    }

    fn with(mut self, words: &[&str]) -> std::result::Result<Self, String> {
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
        }
        for part in words.chunks(4) {
            let name = part[0].to_ascii_lowercase();
            let name = if name == "replica" { "slave" } else { &name };
            let class = CLASSES.iter().position(|class| *class == name);
            let class =
                class.ok_or("Invalid client class specified in buffer limit configuration.")?;
            let bytes = |text| read_memory(text).and_then(|bytes| u64::try_from(bytes).ok());
            self.0[class] = match (bytes(part[1]), bytes(part[2]), part[3].parse::<u32>()) {
                (Some(hard_bytes), Some(soft_bytes), Ok(seconds)) => OutputLimit {
                    hard_bytes,
                    soft_bytes,
                    soft_seconds: seconds.into(),
                },
                _ => {
                    return Err(
                        "Error in hard, soft or soft_seconds setting in buffer limit \
                                configuration."
                            .to_owned(),
                    );
                }
            };
        }
        Ok(self)
    }
}

/// Bytes with their unit.
pub(crate) fn read_memory(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let scale: i128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    // Without digits it is 0, as Redis has it.
    let number = match digits {
        "" if !unit.is_empty() => 0,
        _ => digits.parse::<u64>().ok()?,
    };
    Some(i128::from(number) * scale)
}

fn read_directory(text: &str) -> Result {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let whole = std::path::Path::new(text).canonicalize();
    let whole = whole.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        _ => error.to_string(),
    })?;
    match whole.is_dir() {
        true => Ok(whole.display().to_string().into()),
        false => Err("Not a directory".to_owned()),
    }
}

fn read_switch(text: &str) -> Result {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "yes" | "no" => Ok(text.into()),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    }
}

fn read_choice(text: &str, known: &[&str]) -> Result {
    let found = known.iter().find(|word| word.eq_ignore_ascii_case(text));
    match found {
        // The one word that has a synonym, of oom-score-adj.
        Some(&"relative") => Ok("yes".into()),
        Some(word) => Ok((*word).into()),
        None => Err(choices_text(known)),
    }
}

fn read_choices(words: &[&str], known: &[&str]) -> Result {
    let mut chosen = Vec::new();
    for text in words {
        let found = known
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text));
        chosen.push(found.ok_or_else(|| choices_text(known))?);
    }
    chosen.retain(|&word| word > 0);
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.is_empty() {
        return Ok(known[0].into());
    }
    let words: Vec<_> = chosen.into_iter().map(|word| known[word]).collect();
    if words.contains(&"save") && words.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    Ok(words.join(" ").into())
}

fn choices_text(known: &[&str]) -> String {
    format!(
        "argument(s) must be one of the following: {}",
        known.join(", ")
    )
}

fn within(number: i128, least: i128, most: i128) -> Result {
    if (least..=most).contains(&number) {
        return Ok(number.to_string().into());
    }
    Err(format!(
        "argument must be between {least} and {most} inclusive"
    ))
}

fn read_memory_or_percent(text: &str, least: i128, most: i128) -> Result {
    if let Some(bytes) = read_memory(text) {
        return within(bytes, 0, most);
    }
    let percent = text
        .strip_suffix('%')
        .and_then(|digits| digits.parse::<i64>().ok());
    match percent {
        Some(percent) if percent < 0 => {
            Err("argument must be a memory or percent value".to_owned())
        }
        Some(percent) if i128::from(percent) > -least => Err(format!(
            "percentage argument must be less or equal to {}",
            -least
        )),
        Some(percent) => Ok(format!("{percent}%").into()),
        None => Err("argument must be a memory or percent value".to_owned()),
    }
}

fn read_save_points(words: &[&str]) -> Result {
    if words == [""] {
        return Ok(Vec::new());
    }
    let invalid = || "Invalid save parameters".to_owned();
    if !words.len().is_multiple_of(2) {
        return Err(invalid());
    }
    for pair in words.chunks(2) {
        let numbers = (pair[0].parse::<i64>(), pair[1].parse::<i64>());
        if !matches!(numbers, (Ok(1..), Ok(0..))) {
            return Err(invalid());
        }
    }
    Ok(words.join(" ").into())
}

fn read_percentiles(words: &[&str]) -> Result {
    if words == [""] {
        return Ok(Vec::new());
    }
    let mut shown = Vec::new();
    for word in words {
        let number = word.parse::<f64>().ok().filter(|number| !number.is_nan());
        let number = number.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&number) {
            let text =
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
            return Err(text.to_owned());
        }
        let text = format!("{number:.6}");
        shown.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(shown.join(" ").into())
}

fn read_score_adjustments(words: &[&str]) -> Result {
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let valid = |word: &&str| matches!(word.parse::<i64>(), Ok(-2000..=2000));
    match words.iter().all(valid) {
        true => Ok(words.join(" ").into()),
        false => {
            Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned())
        }
    }
}

/// Classes of clients, in the order of [`OutputLimits`].
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> std::result::Result<String, String> {
        let read = kind.read(text.as_bytes(), b"normal 0 0 0 slave 1 1 1 pubsub 2 2 2");
        read.map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn memory_has_units_of_a_thousand_and_of_1024() {
        let memory = Kind::Memory(0, 1 << 40);
        for (text, bytes) in [
            ("5", "5"),
            ("2k", "2000"),
            ("2KB", "2048"),
            ("1gb", "1073741824"),
        ] {
            assert_eq!(read(memory, text).unwrap(), bytes);
        }
        for text in ["-1", "1kk", "", "99999999999999999999", "1 kb"] {
            assert_eq!(
                read(memory, text).unwrap_err(),
                "argument must be a memory value"
            );
        }
        let text = "argument must be between 0 and 1099511627776 inclusive";
        assert_eq!(read(memory, "1025gb").unwrap_err(), text);
        assert_eq!(read(Kind::MemoryOrPercent(-100, 9), "30%").unwrap(), "30%");
    }

    #[test]
    fn output_limits_change_only_the_classes_they_name() {
        let read = |text| read(Kind::OutputLimits, text);
        let changed = "normal 0 0 0 slave 1024 7 60 pubsub 2 2 2";
        assert_eq!(read("replica 1kb 7 60").unwrap(), changed);
        assert!(
            read("normal 1 2")
                .unwrap_err()
                .starts_with("Wrong number of arguments")
        );
        assert!(
            read("master 1 2 3")
                .unwrap_err()
                .starts_with("Invalid client class")
        );
        assert!(
            read("normal 1 2 -3")
                .unwrap_err()
                .starts_with("Error in hard")
        );
    }

    #[test]
    fn lists_are_shown_as_redis_does() {
        assert_eq!(
            read(Kind::Percentiles, "50.0 99.90 100").unwrap(),
            "50 99.9 100"
        );
        assert!(read(Kind::Percentiles, "101").is_err());
        assert_eq!(read(Kind::SavePoints, "").unwrap(), "");
        assert!(read(Kind::SavePoints, "60").is_err());
        assert!(read(Kind::SavePoints, "60 -1").is_err());
        let choices = Kind::Choices(&["default", "save", "nosave", "now"]);
        assert_eq!(read(choices, "NOW save").unwrap(), "save now");
        assert_eq!(read(choices, "default").unwrap(), "default");
        assert!(read(choices, "save nosave").is_err());
    }
}
