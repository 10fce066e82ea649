//! Generates random requests from a command's syntax in COMMAND DOCS. Options come in any order and
//! may repeat. Names may be words of the command itself.

use super::{Argument, ArgumentKind, arguments_of};
use crate::command::Command;

/// Generates a request of a command. `random` returns a number below its argument.
pub(in crate::commands) fn request(
    command: &Command,
    keys: &[&str],
    random: &mut dyn FnMut(usize) -> usize,
) -> Vec<String> {
    let mut generator = Generator {
        keys,
        words: command.full_name.split('|').map(str::to_owned).collect(),
        random,
    };
    if let Some(arguments) = arguments_of(command) {
        generator.list(&arguments);
    }
    generator.disturb();
    generator.words
}

struct Generator<'g> {
    keys: &'g [&'g str],
    words: Vec<String>,
    random: &'g mut dyn FnMut(usize) -> usize,
}

impl Generator<'_> {
    fn one_in(&mut self, count: usize) -> bool {
        (self.random)(count) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[(self.random)(choices.len())]
    }

    fn push(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    fn list(&mut self, arguments: &[Argument<'_>]) {
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let options = arguments[at..].iter().take_while(|next| is_option(next));
            let options = options.count();
            if options > 0 {
                // In any order; some come twice or more.
                for _ in 0..(self.random)(2 * options.min(3) + 1) {
                    let option = (self.random)(options);
                    self.argument(&arguments[at + option]);
                }
                at += options;
                continue;
            }
            match arguments.get(at + 1) {
                Some(counted) if is_count(argument) && counted.is_multiple => {
                    let count = 1 + (self.random)(3);
                    let number = if self.one_in(12) {
                        (self.random)(5)
                    } else {
                        count
                    };
                    self.push(number.to_string());
                    (0..count).for_each(|_| self.once(counted));
                    at += 2;
                }
                _ => {
                    if !argument.is_optional || !self.one_in(2) {
                        self.argument(argument);
                    }
                    at += 1;
                }
            }
        }
    }

    /// Adds an argument with its word, repeated if it may repeat.
    fn argument(&mut self, argument: &Argument<'_>) {
        let times = if argument.is_multiple {
            1 + (self.random)(3)
        } else {
            1
        };
        for time in 0..times {
            if let Some(token) = argument.token
                && (time == 0 || argument.repeats_token)
            {
                let is_small = self.one_in(3);
                self.push(if is_small {
                    token.to_lowercase()
                } else {
                    token.to_owned()
                });
            }
            self.once(argument);
        }
    }

    fn once(&mut self, argument: &Argument<'_>) {
        match argument.kind {
            ArgumentKind::Token => {}
            ArgumentKind::OneOf => {
                let choice = (self.random)(argument.parts.len());
                self.argument(&argument.parts[choice]);
            }
            ArgumentKind::Block => self.list(&argument.parts),
            ArgumentKind::Key => {
                let key = self.pick(self.keys);
                self.push(key);
            }
            kind => {
                let text = self.value(argument.name, kind);
                self.push(text);
            }
        }
    }

    fn value(&mut self, name: &str, kind: ArgumentKind) -> &'static str {
        match (name, kind) {
            ("timeout", _) => "0",
            ("milliseconds", _) => self.pick(&["0", "100"]),
            ("command", _) => self.pick(&["get", "mget"]),
            ("protover" | "destination-db" | "db", _) => self.pick(&["0", "1"]),
            ("subcommand", _) => self.pick(&["ENCODING", "GETREG"]),
            ("encoding", _) => self.pick(&["u8", "i5"]),
            ("bit" | "offset", _) => self.pick(&["0", "1"]),
            ("by-pattern", _) => self.pick(&["store", "nosort", "w_*", "STORE", "w_*->f"]),
            ("get-pattern", _) => self.pick(&["#", "store", "w_*", "STORE", "limit"]),
            ("group" | "consumer", _) => self.pick(&["streams", "group", "g"]),
            ("last-id", _) => self.pick(&["5-1", "9-9"]),
            ("max-deleted-id", _) => "1-1",
            ("id" | "lastid", _) => self.pick(&["0", "$", ">", "5-1", "1-1"]),
            ("start" | "end" | "stop" | "min" | "max", ArgumentKind::Text) => {
                self.pick(&["-", "+", "0", "1", "-1", "[a", "(b"])
            }
            ("threshold" | "min-idle-time", _) => self.pick(&["0", "1"]),
            (_, ArgumentKind::UnixTime) => "99999999999",
            (_, ArgumentKind::Integer) => self.pick(&["1", "2", "0", "-1", "100"]),
            (_, ArgumentKind::Double) => self.pick(&["1", "0", "10", "1.5"]),
            (_, ArgumentKind::Pattern) => self.pick(&["*", "a*", "STREAMS"]),
            _ => self.pick(&["1", "a", "2", "store", "streams", "get", "KEYS", "ten"]),
        }
    }

    /// Sometimes replaces, removes or repeats a word.
    fn disturb(&mut self) {
        if self.words.len() < 2 || !self.one_in(3) {
            return;
        }
        let at = 1 + (self.random)(self.words.len() - 1);
        match (self.random)(3) {
            0 => {
                let from = 1 + (self.random)(self.words.len() - 1);
                self.words[at] = self.words[from].clone();
            }
            1 => drop(self.words.remove(at)),
            _ => {
                let again = self.words[at..].to_vec();
                self.words.extend(again);
            }
        }
    }
}

/// Returns whether an argument is optional and has a word. Such arguments may come in any order.
fn is_option(argument: &Argument<'_>) -> bool {
    let begins_with_word = |part: &Argument<'_>| part.token.is_some();
    argument.is_optional
        && match argument.kind {
            ArgumentKind::OneOf => argument.parts.iter().all(begins_with_word),
            ArgumentKind::Block => {
                argument.token.is_some() || argument.parts.first().is_some_and(begins_with_word)
            }
            _ => argument.token.is_some(),
        }
}

fn is_count(argument: &Argument<'_>) -> bool {
    argument.kind == ArgumentKind::Integer && argument.name.starts_with("num")
}
