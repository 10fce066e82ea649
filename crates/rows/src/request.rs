//! What a page asks for: one JSON object per message, whose first member is the verb and a number.

use crate::json::{NotJson, Scanner, decode_text, text_of};

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Follow topics.
    Subscribe {
        /// Names and glob patterns.
        topics: Vec<Vec<u8>>,
        /// The fields; `None` for all.
        fields: Option<Vec<Vec<u8>>>,
        /// Maximum batches per second.
        hz: f64,
        /// Whether fields have numbers in place of names.
        is_short: bool,
    },
    /// A page of many topics.
    View(View),
    /// The next batch of a subscription, a view or the log.
    Next,
    /// End a subscription, a view or the log.
    End,
    /// A Redis command.
    Do(Vec<Vec<u8>>),
    /// SET.
    Set {
        /// The key.
        topic: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// PUBLISH.
    Publish {
        /// The channel.
        topic: Vec<u8>,
        /// The message.
        value: Vec<u8>,
    },
    /// Log in.
    Login {
        /// The user's name.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// Live log lines.
    Log(Log),
}

/// Log lines as they come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The least grave level; `None` for all.
    pub level: Option<Vec<u8>>,
    /// How many of the newest lines come first.
    pub lines: usize,
}

/// A page of many topics: some of them, in an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Names and glob patterns.
    pub topics: Vec<Vec<u8>>,
    /// The field to sort by: `name`, `updates`, or a field of the topics.
    pub sort: Vec<u8>,
    /// Whether the greatest comes first.
    pub descending: bool,
    /// A text that the names have, without case.
    pub filter: Vec<u8>,
    /// Position of the first row.
    pub from: usize,
    /// Number of rows.
    pub rows: usize,
    /// The fields; `None` for all.
    pub fields: Option<Vec<Vec<u8>>>,
    /// Maximum pages per second.
    pub hz: f64,
    /// Whether fields have numbers in place of names.
    pub is_short: bool,
}

/// Why a message is no request: the number in it, 0 without one, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The request's number.
    pub number: u64,
    /// What is wrong.
    pub text: &'static str,
}

/// Reads a message. Returns the number of the request, and the request.
///
/// # Errors
/// It is not a request.
pub fn parse(text: &[u8]) -> Result<(u64, Request), Flaw> {
    let mut members = Vec::new();
    let mut scanner = Scanner::new(text);
    let read = scanner.expect(b'{').and_then(|()| {
        scanner.members(|scanner, name| {
            members.push((name, scanner.value()?));
            Ok(())
        })?;
        scanner.end()
    });
    let flaw = |number, text| Flaw { number, text };
    if read.is_err() {
        return Err(flaw(0, "a message is one JSON object"));
    }
    let Some((verb, number)) = members.first().copied() else {
        return Err(flaw(0, "the first member is the verb with its number"));
    };
    let number = number_of(number).ok_or(flaw(0, "the number of a request is from 1 to 2^53-1"))?;
    let members = Members(&members[1..]);
    let request = members.request(verb);
    request
        .map(|request| (number, request))
        .map_err(|text| flaw(number, text))
}

/// The members behind the verb.
struct Members<'t>(&'t [(&'t [u8], &'t [u8])]);

impl Members<'_> {
    fn request(&self, verb: &[u8]) -> Result<Request, &'static str> {
        Ok(match verb {
            b"\"sub\"" => Request::Subscribe {
                topics: self.topics()?,
                fields: self.fields()?,
                hz: self.hz(HZ)?,
                is_short: self.boolean("short")?,
            },
            b"\"view\"" => Request::View(View {
                topics: self.topics()?,
                sort: self.optional("sort")?.unwrap_or_else(|| b"name".to_vec()),
                descending: self.boolean("descending")?,
                filter: self.optional("filter")?.unwrap_or_default(),
                from: self.count("from", 0, usize::MAX)?,
                rows: self.count("rows", VIEW_ROWS, VIEW_ROWS_MAX)?,
                fields: self.fields()?,
                hz: self.hz(VIEW_HZ)?,
                is_short: self.boolean("short")?,
            }),
            b"\"next\"" => Request::Next,
            b"\"unsub\"" => Request::End,
            b"\"do\"" => {
                let command = self.list("command")?.unwrap_or_default();
                match command.is_empty() {
                    true => return Err("command is a list of texts and numbers, the name first"),
                    false => Request::Do(command),
                }
            }
            b"\"set\"" => Request::Set {
                topic: self.text("topic")?,
                value: self.text("value")?,
            },
            b"\"publish\"" => Request::Publish {
                topic: self.text("topic")?,
                value: self.text("value")?,
            },
            b"\"login\"" => Request::Login {
                user: self
                    .optional("user")?
                    .unwrap_or_else(|| b"default".to_vec()),
                password: self.text("password")?,
            },
            b"\"log\"" => Request::Log(Log {
                level: self.optional("level")?,
                lines: self.count("lines", LOG_LINES, LOG_LINES_MAX)?,
            }),
            _ => return Err("unknown verb"),
        })
    }

    fn find(&self, name: &str) -> Option<&[u8]> {
        let is_it = |known: &[u8]| known.get(1..known.len() - 1) == Some(name.as_bytes());
        let found = self.0.iter().rev().find(|(known, _)| is_it(known));
        found.map(|(_, value)| *value)
    }

    fn optional(&self, name: &str) -> Result<Option<Vec<u8>>, &'static str> {
        let value = self.find(name).map(argument).transpose();
        value.map_err(|NotJson| "a member is not a text or a number")
    }

    fn text(&self, name: &str) -> Result<Vec<u8>, &'static str> {
        self.optional(name)?.ok_or("a member is missing")
    }

    fn list(&self, name: &str) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        let Some(list) = self.find(name) else {
            return Ok(None);
        };
        let mut scanner = Scanner::new(list);
        let mut texts = Vec::new();
        let read = scanner.expect(b'[').and_then(|()| {
            scanner.elements(|scanner| {
                texts.push(argument(scanner.value()?)?);
                Ok(())
            })
        });
        match read {
            Ok(()) => Ok(Some(texts)),
            Err(NotJson) => Err("a member is not a list of texts"),
        }
    }

    fn topics(&self) -> Result<Vec<Vec<u8>>, &'static str> {
        let topics = self.list("topics")?.unwrap_or_default();
        match topics.is_empty() {
            true => Err("topics is a list of names and patterns"),
            false => Ok(topics),
        }
    }

    fn fields(&self) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        match self.find("fields") {
            Some(b"null") => Ok(None),
            _ => self.list("fields"),
        }
    }

    fn boolean(&self, name: &str) -> Result<bool, &'static str> {
        match self.find(name) {
            None | Some(b"false") => Ok(false),
            Some(b"true") => Ok(true),
            Some(_) => Err("a member is not true or false"),
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>, &'static str> {
        let Some(value) = self.find(name) else {
            return Ok(None);
        };
        let value = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        let value = value.filter(|value: &f64| value.is_finite());
        value.map(Some).ok_or("a member is not a number")
    }

    fn hz(&self, default: f64) -> Result<f64, &'static str> {
        let hz = self.number("hz")?.unwrap_or(default);
        match (0.01..=1000.0).contains(&hz) {
            true => Ok(hz),
            false => Err("hz is from 0.01 to 1000"),
        }
    }

    fn count(&self, name: &str, default: usize, most: usize) -> Result<usize, &'static str> {
        let Some(count) = self.number(name)? else {
            return Ok(default);
        };
        match (0.0..=NUMBER_MAX as f64).contains(&count) && count.fract() == 0.0 {
            true => Ok((count as usize).min(most)),
            false => Err("a position or count is not a whole number from 0"),
        }
    }
}

/// Returns the bytes of an argument: a text, or the text of a number.
fn argument(value: &[u8]) -> Result<Vec<u8>, NotJson> {
    match value.first() {
        Some(b'"') => decode_text(text_of(value)),
        Some(b'-' | b'0'..=b'9') => Ok(value.to_vec()),
        _ => Err(NotJson),
    }
}

fn number_of(text: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (1..=NUMBER_MAX).contains(&number).then_some(number)
}

/// The greatest whole number that a script counts with.
const NUMBER_MAX: u64 = (1 << 53) - 1;
const HZ: f64 = 60.0;
const VIEW_HZ: f64 = 10.0;
const VIEW_ROWS: usize = 60;
/// Lines that the log begins with, and the maximum.
const LOG_LINES: usize = 100;
const LOG_LINES_MAX: usize = 1_000;
/// Maximum rows of a view.
const VIEW_ROWS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests_are_read() {
        let text = br#"{"sub":1,"topics":["md:REL*","live:\u00e9"],"fields":["bid"],"hz":10}"#;
        let expected = Request::Subscribe {
            topics: texts(&["md:REL*", "live:é"]),
            fields: Some(texts(&["bid"])),
            hz: 10.0,
            is_short: false,
        };
        assert_eq!(parse(text), Ok((1, expected)));
        let text =
            br#" { "do" : 9007199254740991, "command": ["SET", "k", 1.50, "base64:/w=="] } "#;
        let mut command = texts(&["SET", "k", "1.50"]);
        command.push(vec![0xff]);
        assert_eq!(
            parse(text),
            Ok((9_007_199_254_740_991, Request::Do(command)))
        );
        assert_eq!(parse(br#"{"next":7}"#), Ok((7, Request::Next)));
        let log = Log {
            level: Some(b"warn".to_vec()),
            lines: 1_000,
        };
        let text = br#"{"log":8,"level":"warn","lines":5000}"#;
        assert_eq!(parse(text), Ok((8, Request::Log(log))));
        let view = parse(br#"{"view":2,"topics":["md:*"],"rows":5000,"descending":true}"#);
        let Ok((2, Request::View(view))) = view else {
            panic!("a view: {view:?}");
        };
        assert_eq!(
            (view.rows, view.descending, &view.sort[..]),
            (1_000, true, &b"name"[..])
        );
    }

    #[test]
    fn a_flaw_names_its_request_where_that_has_a_number() {
        for (text, number) in [
            (&b""[..], 0),
            (b"[]", 0),
            (b"{}", 0),
            (b"{\"sub\":1", 0),
            (b"{\"sub\":0,\"topics\":[\"a\"]}", 0),
            (b"{\"sub\":9007199254740992,\"topics\":[\"a\"]}", 0),
            (b"{\"sub\":\"1\"}", 0),
            (b"{\"sub\":1}", 1),
            (b"{\"sub\":1,\"topics\":[]}", 1),
            (b"{\"sub\":1,\"topics\":[{}]}", 1),
            (b"{\"sub\":1,\"topics\":[\"a\"],\"hz\":0}", 1),
            (b"{\"sub\":1,\"topics\":[\"a\"],\"hz\":1e999}", 1),
            (b"{\"do\":3,\"command\":[]}", 3),
            (b"{\"set\":4,\"topic\":\"a\"}", 4),
            (b"{\"view\":4,\"topics\":[\"a\"],\"from\":-1}", 4),
            (b"{\"other\":5}", 5),
        ] {
            let flaw = parse(text).unwrap_err();
            assert_eq!(flaw.number, number, "{}", text.escape_ascii());
        }
    }
}
