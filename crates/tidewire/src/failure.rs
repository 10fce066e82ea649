//! How the program exits on an error.

use std::fmt;

use clap::error::ErrorKind;

/// One clear line, and an exit code: 2 for what the user can set right, 1 for the rest.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: i32,
    /// `--help` and `--version` are no failures: their text goes to the standard output.
    asked_for: bool,
}

impl Failure {
    /// A wrong option, file or address.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 2,
            asked_for: false,
        }
    }

    /// Something that failed while running.
    pub fn running(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
            asked_for: false,
        }
    }

    /// Says it, and ends the program.
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
            // The first paragraph says what is wrong; usage and tips are for --help.
            _ => {
                let paragraph: Vec<&str> = text
                    .lines()
                    .take_while(|line| !line.is_empty())
                    .map(str::trim)
                    .collect();
                let mut line = paragraph.join(" ");
                // Of the tips only those that correct a word: the others are for --help.
                let tips = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("tip: "));
                for tip in tips.filter(|tip| tip.contains("similar")) {
                    line.push_str("; ");
                    line.push_str(tip);
                }
                Self::usage(line.strip_prefix("error: ").unwrap_or(&line))
            }
        }
    }
}

/// A message of the reader of files, in the words of a user in place of Rust's.
pub fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 8] = [
        ("expected u16", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected usize", "expected a whole number"),
        ("expected a boolean", "expected true or false"),
        (
            "expected a sequence",
            "expected a list such as [\"a\", \"b\"]",
        ),
        ("expected a string", "expected a text in quotes"),
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
