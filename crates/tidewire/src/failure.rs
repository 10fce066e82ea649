//! Errors that end the program.

use std::fmt;
use std::io;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A one-line message and an exit code: 2 for what the user can fix, 1 for everything else.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: i32,
    /// `--help` and `--version` are not failures: their text goes to standard output.
    asked_for: bool,
}

impl Failure {
    /// Returns a failure caused by a wrong option, file or address.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 2,
            asked_for: false,
        }
    }

    /// Returns a failure that happened while the program was running.
    pub fn running(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
            asked_for: false,
        }
    }

    /// Prints the message and ends the program.
    pub fn exit(self) -> ! {
        if self.asked_for {
            print!("{}", self.text);
        } else {
            eprintln!("tidewire: {}", self.text);
        }
        std::process::exit(self.code);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Self {
                text,
                code: 0,
                asked_for: true,
            },
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Self {
                text,
                code: 2,
                asked_for: true,
            },
            // The first paragraph names the mistake; usage and tips belong to --help.
            _ => {
                let paragraph: Vec<&str> = text
                    .lines()
                    .take_while(|line| !line.is_empty())
                    .map(str::trim)
                    .collect();
                let mut line = paragraph.join(" ");
                // Only tips that correct a typo are kept; the others belong to --help.
                let tips = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("tip: "));
                for tip in tips.filter(|tip| tip.contains("similar")) {
                    line.push_str("; ");
                    line.push_str(tip);
                }
                if let Some(variable) = variable(&error) {
                    line.push_str("; ");
                    line.push_str(&variable);
                }
                if let Some(hint) = hint(&error) {
                    line.push_str("; ");
                    line.push_str(hint);
                }
                Self::usage(line.strip_prefix("error: ").unwrap_or(&line))
            }
        }
    }
}

/// Returns a hint at the environment variable that has given an option its bad value.
fn variable(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    let value = text(ContextKind::InvalidValue)?;
    let option = argument.split_whitespace().next()?.strip_prefix("--")?;
    let name = format!("TIDEWIRE_{}", option.replace('-', "_").to_uppercase());
    let given = std::env::var(&name).ok()?;
    let is_part = given == value || given.split(',').any(|part| part == value);
    is_part.then(|| match given.is_empty() {
        true => format!("the environment variable {name} is empty: set it, or remove it"),
        false => format!("the value is from the environment variable {name}"),
    })
}

/// Returns what to write in place of an option of redis-server.
fn hint(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    match argument.as_str() {
        "--port" | "-p" | "--bind" => Some(
            "give the address of Redis clients with --resp 127.0.0.1:6380, or redis-server's own \
             options after --, as in 'tidewire serve -- --port 6380'",
        ),
        "--requirepass" | "--save" | "--appendonly" | "--maxmemory" | "--daemonize"
        | "--loglevel" | "--logfile" | "--maxclients" | "--replicaof" | "--databases" => Some(
            "redis-server's own options go after --, as in 'tidewire serve -- --appendonly yes'",
        ),
        path if path.ends_with(".conf") => Some("give a redis.conf with --redis-conf FILE"),
        path if path.ends_with(".toml") => Some("give a TOML file with --config FILE"),
        _ => None,
    }
}

/// Returns a failure that names an option, its address, and why it cannot be listened on.
pub fn cannot_listen(option: &str, address: impl fmt::Display, error: &io::Error) -> Failure {
    Failure::usage(format!("{option}: {}", listen_text(address, error)))
}

/// Returns why `address` cannot be listened on.
pub fn listen_text(address: impl fmt::Display, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "address already in use; stop the other server or choose another address".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "no such address on this machine".to_owned(),
        io::ErrorKind::Other | io::ErrorKind::InvalidInput => error.to_string(),
        kind => kind.to_string(),
    };
    format!("cannot listen on {address}: {reason}")
}

/// Replaces Rust's terms in a message of the TOML reader by plain words.
pub fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("unknown field ", "unknown key "),
        ("unknown variant ", "unknown value "),
        ("invalid value: ", "out of range: "),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected usize", "expected a whole number"),
        ("expected a boolean", "expected true or false"),
        (
            "expected a sequence",
            "expected a list such as [\"a\", \"b\"]",
        ),
        ("expected a string", "expected a text in quotes"),
        (
            "string values must be quoted, expected literal string",
            "no value; texts stand in quotes, numbers and true or false without them",
        ),
        ("invalid type: ", "found "),
    ];
    let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    WORDS.iter().fold(message.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn complaint(words: &[&str]) -> String {
        let arguments = std::iter::once("tidewire").chain(words.iter().copied());
        let error = Options::read(arguments).expect_err("it is wrong");
        Failure::from(error).text
    }

    #[test]
    fn a_mistyped_word_is_corrected_in_the_same_line() {
        for (words, wanted) in [
            (&["serv"][..], "'serve'"),
            (&["serve", "--rsep", "127.0.0.1:1"], "'--resp'"),
            (&["simulate", "--market", "bul"], "'bull'"),
        ] {
            let text = complaint(words);
            assert!(text.contains("similar") && text.contains(wanted), "{text}");
            assert!(!text.contains('\n'));
        }
    }

    #[test]
    fn an_argument_of_redis_server_is_answered_with_what_to_write() {
        for (words, wanted) in [
            (&["serve", "--port", "6380"][..], "--resp 127.0.0.1:6380"),
            (&["serve", "--appendonly", "yes"], "after --"),
            (&["serve", "redis.conf"], "--redis-conf"),
            (&["serve", "hub.toml"], "--config"),
        ] {
            let text = complaint(words);
            assert!(text.contains(words[1]) && text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn a_taken_address_is_named_with_what_to_do() {
        let error = io::Error::from(io::ErrorKind::AddrInUse);
        let text = cannot_listen("--listen", "127.0.0.1:1", &error).text;
        let wanted = "--listen: cannot listen on 127.0.0.1:1: address already in use; stop the";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn a_number_below_zero_is_a_value_out_of_range_and_no_option() {
        for words in [
            &["simulate", "--rate", "-5"][..],
            &["simulate", "--seed", "-1"],
            &["serve", "--lanes", "-1"],
        ] {
            let text = complaint(words);
            assert!(text.contains(words[2]) && text.contains(words[1]), "{text}");
            assert!(text.contains("is expected"), "{text}");
        }
    }

    #[test]
    fn no_option_answers_a_wrong_value_in_the_words_of_rust() {
        let mut command = <Options as clap::CommandFactory>::command();
        command.build();
        let mut count = 0;
        for part in command.get_subcommands() {
            for option in part.get_arguments() {
                let (Some(name), Some(values)) = (option.get_long(), option.get_num_args()) else {
                    continue;
                };
                if !values.takes_values() {
                    continue;
                }
                for wrong in [
                    "",
                    "x",
                    "-1",
                    "99999999999999999999999",
                    "1.5.5",
                    "\u{1F980}",
                ] {
                    let given = format!("--{name}={wrong}");
                    let words = ["tidewire", part.get_name(), &given];
                    let Err(error) = Options::read(words) else {
                        continue;
                    };
                    let text = Failure::from(error).text;
                    for phrase in RUST {
                        assert!(!text.contains(phrase), "{given}: {text}");
                    }
                    count += 1;
                }
            }
        }
        assert!(count > 50, "{count} were refused");
    }

    const RUST: [&str; 9] = [
        "invalid digit",
        "parse integer",
        "target type",
        "float literal",
        "u16",
        "u64",
        "usize",
        "..=",
        "socket address syntax",
    ];
}
