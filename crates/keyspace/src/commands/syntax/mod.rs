//! The arguments of commands, as COMMAND DOCS shows them. redis-cli makes hints from them, and
//! clients find keys and options. The command table writes them in its own notation, which is
//! parsed on request.
//!
//! | notation | meaning |
//! |---|---|
//!
//! `name`
//! a text argument with that name
//!
//!
//! `name:i`
//! an integer; `:d` a double, `:t` a UNIX time, `:p` a pattern, `:k` a key
//!
//!
//! `name:k1`
//! a key of the command's second key specification; `:k` is one of the first
//!
//!
//! `name<text>:i`
//! users see the text in place of the name
//!
//!
//! `WORD`
//! a literal word; its name is the same in lower case
//!
//!
//! `WORD!name`
//! a literal word with another name; `'x'!name` if it is not upper case
//!
//!
//! `WORD=name:i`
//! an argument after a word
//!
//!
//! `name(a b)`
//! a group of arguments
//!
//! | `name(a \| b)` | one of several |
//!
//! `[a]`
//! an optional argument
//!
//!
//! `a+`
//! repeated one or more times; `a++` with its word each time
//!

#[cfg(test)]
pub(super) mod generator;

use std::collections::HashMap;
use std::sync::OnceLock;

use tidewire_resp::Writer;

use super::{Command, table};

/// Returns the arguments of a command; `None` if there are none.
pub(super) fn arguments_of(command: &Command) -> Option<Vec<Argument<'static>>> {
    match command.syntax {
        "" => None,
        syntax => parse(syntax),
    }
}

/// Replies the arguments.
pub(super) fn reply_arguments(reply: &mut Writer<'_>, arguments: &[Argument<'_>]) {
    reply.array(arguments.len());
    for argument in arguments {
        argument.write(reply);
    }
}

/// One argument, or a group of arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    name: &'a str,
    kind: ArgumentKind,
    /// The text shown to users, if it is not the name.
    shown: Option<&'a str>,
    /// Index of the key specification that finds it.
    key_spec: Option<i64>,
    /// The word before it, or the word that it is.
    token: Option<&'a str>,
    is_optional: bool,
    is_multiple: bool,
    repeats_token: bool,
    parts: Vec<Argument<'a>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentKind {
    #[default]
    Text,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    Token,
    OneOf,
    Block,
}

impl ArgumentKind {
    fn name(self) -> &'static str {
        match self {
            ArgumentKind::Text => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::Key => "key",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::Token => "pure-token",
            ArgumentKind::OneOf => "oneof",
            ArgumentKind::Block => "block",
        }
    }

    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'i' => ArgumentKind::Integer,
            'd' => ArgumentKind::Double,
            'k' => ArgumentKind::Key,
            'p' => ArgumentKind::Pattern,
            't' => ArgumentKind::UnixTime,
            _ => return None,
        })
    }
}

impl Argument<'_> {
    fn write(&self, reply: &mut Writer<'_>) {
        let has_parts = matches!(self.kind, ArgumentKind::OneOf | ArgumentKind::Block);
        let flags = [
            (self.is_optional, "optional"),
            (self.is_multiple, "multiple"),
            (self.repeats_token, "multiple_token"),
        ];
        let flags: Vec<&str> = flags
            .into_iter()
            .filter_map(|(is_set, name)| is_set.then_some(name))
            .collect();
        let optional = [
            self.key_spec.is_some(),
            self.token.is_some(),
            !flags.is_empty(),
        ];
        reply.map(3 + optional.into_iter().filter(|&is_there| is_there).count());
        let mut text = |name: &str, text: &str| {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        };
        text("name", self.name);
        text("type", self.kind.name());
        if !has_parts {
            text("display_text", self.shown.unwrap_or(self.name));
        }
        if let Some(number) = self.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(number);
        }
        if let Some(token) = self.token {
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        if has_parts {
            reply.bulk(b"arguments");
            reply_arguments(reply, &self.parts);
        }
    }
}

/// Parses the arguments of one command; `None` if they do not follow the notation.
fn parse(text: &'static str) -> Option<Vec<Argument<'static>>> {
    let mut parser = Parser { rest: text };
    let (parts, is_choice) = parser.list()?;
    (parser.rest.is_empty() && !is_choice).then_some(parts)
}

struct Parser {
    rest: &'static str,
}

impl Parser {
    /// Parses arguments up to a closing mark. Returns them and whether they are alternatives.
    fn list(&mut self) -> Option<(Vec<Argument<'static>>, bool)> {
        let mut parts = Vec::new();
        let mut is_choice = false;
        loop {
            self.rest = self.rest.trim_ascii_start();
            if self.takes('|') {
                is_choice = true;
            } else if self.rest.is_empty() || self.rest.starts_with([')', ']']) {
                return Some((parts, is_choice));
            } else {
                parts.push(self.argument()?);
            }
        }
    }

    fn argument(&mut self) -> Option<Argument<'static>> {
        if self.takes('[') {
            let argument = self.argument()?;
            return self.takes(']').then_some(Argument {
                is_optional: true,
                ..argument
            });
        }
        let token = self.token()?;
        let mut argument = match token {
            Some(token) if self.takes('!') => Argument {
                name: self.name()?,
                kind: ArgumentKind::Token,
                token: Some(token),
                ..Argument::default()
            },
            Some(token) if !self.takes('=') => Argument {
                name: small(token)?,
                kind: ArgumentKind::Token,
                token: Some(token),
                ..Argument::default()
            },
            _ => Argument {
                token,
                ..self.named()?
            },
        };
        argument.is_multiple = self.takes('+');
        argument.repeats_token = argument.is_multiple && self.takes('+');
        Some(argument)
    }

    /// Parses an argument that begins with its name.
    fn named(&mut self) -> Option<Argument<'static>> {
        let mut argument = Argument {
            name: self.name()?,
            ..Argument::default()
        };
        if self.takes('(') {
            let (parts, is_choice) = self.list()?;
            argument.parts = parts;
            argument.kind = match is_choice {
                true => ArgumentKind::OneOf,
                false => ArgumentKind::Block,
            };
            return self.takes(')').then_some(argument);
        }
        if self.takes('<') {
            let (shown, rest) = self.rest.split_once('>')?;
            (argument.shown, self.rest) = (Some(shown), rest);
        }
        if self.takes(':') {
            let letter = self.rest.chars().next()?;
            argument.kind = ArgumentKind::of(letter)?;
            self.rest = &self.rest[1..];
            let digits = self.while_all(|byte| byte.is_ascii_digit());
            argument.key_spec = match argument.kind {
                ArgumentKind::Key if digits.is_empty() => Some(0),
                _ => digits.parse().ok(),
            };
        }
        Some(argument)
    }

    /// Parses a word in upper case or in quotes, if there is one; `None` if a quote is not closed.
    fn token(&mut self) -> Option<Option<&'static str>> {
        if self.takes('\'') {
            let (token, rest) = self.rest.split_once('\'')?;
            self.rest = rest;
            return Some(Some(token));
        }
        if !self
            .rest
            .starts_with(|first: char| first.is_ascii_uppercase())
        {
            return Some(None);
        }
        Some(Some(self.while_all(|byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
        })))
    }

    fn name(&mut self) -> Option<&'static str> {
        let name = self.while_all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte));
        (!name.is_empty()).then_some(name)
    }

    fn while_all(&mut self, belongs: impl Fn(u8) -> bool) -> &'static str {
        let length = self.rest.bytes().take_while(|&byte| belongs(byte)).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn takes(&mut self, mark: char) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

/// Returns a word in lower case. Each one is allocated once and kept.
fn small(token: &'static str) -> Option<&'static str> {
    static SMALL: OnceLock<HashMap<&str, String>> = OnceLock::new();
    let words = SMALL.get_or_init(|| {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let texts = table::with_parts().iter().map(|command| command.syntax);
        let words = texts.flat_map(|text| text.split(|letter: char| !is_part(letter)));
        words
            .map(|word| (word, word.to_ascii_lowercase()))
            .collect()
    });
    words.get(token).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_of_every_command_parses() {
        let mut count = 0;
        for command in table::with_parts() {
            let arguments = arguments_of(command);
            let is_read = arguments.as_ref().is_some_and(|parts| !parts.is_empty());
            assert_eq!(is_read, !command.syntax.is_empty(), "{}", command.full_name);
            count += usize::from(is_read);
        }
        assert!(count > 270, "{count}");
    }

    #[test]
    fn commands_with_arguments_declare_a_syntax() {
        // DEBUG's arguments are undocumented: only tests use them.
        let all = table::with_parts().iter();
        for command in all.filter(|command| !command.is_container() && command.name != "debug") {
            let words = 1 + command.full_name.matches('|').count() as i16;
            let has = !command.syntax.is_empty();
            assert!(has || command.arity.abs() <= words, "{}", command.full_name);
        }
    }

    #[test]
    fn the_notation_means_what_its_table_says() {
        let parts = parse("key:k1 [WORD=at<when>:t] a(NX | 'x'!y | b(one:i COUNT))++").unwrap();
        let [key, at, choice] = parts.as_slice() else {
            panic!("{parts:?}");
        };
        assert_eq!((key.kind, key.key_spec), (ArgumentKind::Key, Some(1)));
        assert_eq!(
            (at.name, at.shown, at.token),
            ("at", Some("when"), Some("WORD"))
        );
        assert!(at.is_optional && !at.is_multiple && at.kind == ArgumentKind::UnixTime);
        assert_eq!(choice.kind, ArgumentKind::OneOf);
        assert!(choice.is_multiple && choice.repeats_token);
        let [nx, x, b] = choice.parts.as_slice() else {
            panic!("{choice:?}");
        };
        assert_eq!((nx.name, nx.token), ("nx", Some("NX")));
        assert_eq!((x.name, x.token), ("y", Some("x")));
        assert_eq!((b.kind, b.parts.len()), (ArgumentKind::Block, 2));
        for wrong in ["a(", "[a", "a)", "a:x", "a | b", "!", "'x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
