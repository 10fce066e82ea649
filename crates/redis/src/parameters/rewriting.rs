//! Parameters as the lines of a redis.conf.

use super::kinds::Kind;
use super::parameter::{Parameter, number_of};
use super::table::TABLE;
use super::{OutputLimits, Parameters};
use crate::redis_conf::{Directive, Line, quoted};
use tidewire_fanout::OutputLimit;

impl Parameters {
    /// Every parameter as it stands in a redis.conf.
    pub(crate) fn directives(&self) -> Vec<Directive> {
        let values = self.shown.lock();
        debug_assert!(
            values.len() == TABLE.len() && self.starting.len() == TABLE.len(),
            "every parameter is shown and has a default"
        );
        let rows = TABLE.iter().zip(&*values).zip(&self.starting);
        rows.map(|((parameter, value), starting)| Directive {
            name: parameter.name,
            lines: lines(parameter, value, starting),
        })
        .collect()
    }

    /// The name of a parameter that a directive means; itself if it is another directive; nothing
    /// if there is none such.
    pub(crate) fn directive_name(name: &str) -> Option<String> {
        match number_of(name.as_bytes()) {
            Some(number) => Some(TABLE[number].name.to_owned()),
            None => DIRECTIVES.contains(&name).then(|| name.to_owned()),
        }
    }

    /// Whether lines of a parameter add up, where of others the last one counts.
    pub(crate) fn adds_up(name: &str) -> bool {
        let kind = number_of(name.as_bytes()).map(|number| TABLE[number].kind);
        matches!(kind, Some(Kind::SavePoints | Kind::OutputLimits))
    }

    /// Whether a parameter's value may be several words of a line.
    pub(crate) fn takes_words(name: &str) -> bool {
        let kind = number_of(name.as_bytes()).map(|number| TABLE[number].kind);
        matches!(
            kind,
            Some(
                Kind::Words
                    | Kind::OutputLimits
                    | Kind::SavePoints
                    | Kind::Percentiles
                    | Kind::ScoreAdjustments
                    | Kind::Choices(_)
            )
        )
    }
}

fn lines(parameter: &Parameter, value: &[u8], starting: &[u8]) -> Vec<Line> {
    let text = String::from_utf8_lossy(value);
    let is_default = value == starting;
    let line = |shown: &[u8]| Line {
        text: [parameter.name.as_bytes(), b" ", shown].concat(),
        // A relative path means something else once the directory is another.
        is_default: is_default && !matches!(parameter.kind, Kind::Directory),
    };
    match parameter.kind {
        // What is not set has no line; Redis has it so as well.
        Kind::Text | Kind::Words if text.is_empty() && starting.is_empty() => Vec::new(),
        // Without a line `bind` would be the default: every address.
        Kind::Words if text.is_empty() => vec![line(b"\"\"")],
        Kind::Text | Kind::Events => vec![line(&quoted(value))],
        Kind::Memory(..) | Kind::MemoryOrPercent(..) => vec![line(&with_unit(&text).into_bytes())],
        Kind::SavePoints => {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            let pair = |pair: &[&str]| line(pair.join(" ").as_bytes());
            let lines = match words[..] {
                [] => vec![line(b"\"\"")],
                _ => words.chunks(2).map(pair).collect(),
            };
            let certain = |line| Line {
                is_default: false,
                ..line
            };
            lines.into_iter().map(certain).collect()
        }
        Kind::OutputLimits => output_limits(value, starting),
        _ => vec![line(value)],
    }
}

fn output_limits(value: &[u8], starting: &[u8]) -> Vec<Line> {
    let classes = OutputLimits::of(value)
        .0
        .into_iter()
        .zip(OutputLimits::of(starting).0);
    let line = |(name, (limit, default)): (&str, (OutputLimit, OutputLimit))| {
        let [hard, soft] =
            [limit.hard_bytes, limit.soft_bytes].map(|bytes| with_unit(&bytes.to_string()));
        let seconds = limit.soft_seconds;
        Line {
            text: format!("client-output-buffer-limit {name} {hard} {soft} {seconds}").into(),
            is_default: limit == default,
        }
    };
    ["normal", "replica", "pubsub"]
        .into_iter()
        .zip(classes)
        .map(line)
        .collect()
}

/// Bytes in the largest unit that fits; a percentage as it is.
fn with_unit(text: &str) -> String {
    let Ok(bytes) = text.parse::<u64>() else {
        return text.to_owned();
    };
    let mut units = [("gb", 30), ("mb", 20), ("kb", 10)].into_iter();
    match units.find(|(_, bits)| bytes != 0 && bytes.is_multiple_of(1 << bits)) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => text.to_owned(),
    }
}

/// Directives that are no parameters.
const DIRECTIVES: &[&str] = &[
    "include",
    "rename-command",
    "user",
    "loadmodule",
    "sentinel",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RedisConfig;

    #[test]
    fn only_what_is_not_as_at_the_start_needs_a_line() {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = RedisConfig {
            parameters: vec![
                own("maxmemory", "2gb"),
                own("save", "900 1 60 10"),
                own("client-output-buffer-limit", "pubsub 1mb 0 0"),
                own("requirepass", "a b"),
            ],
            ..RedisConfig::default()
        };
        let directives = Parameters::new(&config, std::sync::Arc::default()).directives();
        let changed: Vec<String> = directives
            .iter()
            .flat_map(|directive| &directive.lines)
            .filter(|line| !line.is_default && !line.text.starts_with(b"dir "))
            .map(|line| String::from_utf8(line.text.clone()).unwrap())
            .collect();
        let expected = [
            "client-output-buffer-limit pubsub 1mb 0 0",
            "maxmemory 2gb",
            "requirepass \"a b\"",
            "save 900 1",
            "save 60 10",
        ];
        assert_eq!(changed, expected);
    }
}
