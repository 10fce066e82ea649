//! Requests on the ROUTER port: `GET key`, `MGET key...`, `LIST prefix` and `SNAPSHOT prefix`,
//! after the envelope that REQ, DEALER or devices add.

use std::fmt;
use std::ops::Range;

/// A request that is being received, within limits.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Whether it is longer than the limit.
    is_too_long: bool,
}

impl Gathered {
    /// Adds the next frame.
    pub(crate) fn push(&mut self, body: &[u8]) {
        let is_within =
            self.ends.len() < FRAMES_MAX && self.bytes.len() + body.len() <= REQUEST_BYTES_MAX;
        if self.is_too_long || !is_within {
            self.is_too_long = true;
            return;
        }
        self.bytes.extend_from_slice(body);
        self.ends.push(self.bytes.len());
        debug_assert!(self.ends.len() <= FRAMES_MAX, "frames have their bound");
        debug_assert!(
            self.bytes.len() <= REQUEST_BYTES_MAX,
            "and so have their bytes"
        );
    }

    /// Parses the request. Returns the number of envelope frames, which the reply repeats, and the
    /// request.
    pub(crate) fn parse(&self) -> (usize, Result<Question<'_>, Flaw>) {
        let frames: Vec<&[u8]> = self.frames().collect();
        let (envelope, question) = parse(&frames);
        if self.is_too_long {
            return (envelope, Err(Flaw::TooLong));
        }
        (envelope, question)
    }

    /// Returns the frames that were kept.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let spans = starts.zip(&self.ends);
        spans.map(|(start, &end)| &self.bytes[Range { start, end }])
    }

    /// Clears the buffer for the next request, and frees unusually large memory.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX || self.ends.capacity() > KEPT_FRAMES_MAX {
            *self = Self::default();
        }
        self.bytes.clear();
        self.ends.clear();
        self.is_too_long = false;
    }
}

/// A peer's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question<'a> {
    /// The value of one name.
    Get(&'a [u8]),
    /// The values of several names.
    GetMany(Vec<&'a [u8]>),
    /// The names with this prefix.
    List(&'a [u8], Cursor),
    /// The names with this prefix and their values.
    Snapshot(&'a [u8], Cursor),
}

impl Question<'_> {
    /// Returns whether the request visits many names.
    pub(crate) fn is_walk(&self) -> bool {
        matches!(self, Question::List(..) | Question::Snapshot(..))
    }
}

/// The position at which a scan over names continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    Start,
    /// Among the keys.
    Keys(u64),
    /// At this position of a live source.
    Topics(usize),
}

impl Cursor {
    fn parse(text: &[u8]) -> Result<Self, Flaw> {
        fn number<N: std::str::FromStr>(digits: &[u8]) -> Result<N, Flaw> {
            let text = std::str::from_utf8(digits).ok();
            let is_number = digits.iter().all(u8::is_ascii_digit);
            text.filter(|_| is_number)
                .and_then(|text| text.parse().ok())
                .ok_or(Flaw::BadCursor)
        }
        match text {
            [] => Ok(Cursor::Start),
            [b'k', digits @ ..] => Ok(Cursor::Keys(number(digits)?)),
            [b't', digits @ ..] => Ok(Cursor::Topics(number(digits)?)),
            _ => Err(Flaw::BadCursor),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cursor::Start => Ok(()),
            Cursor::Keys(position) => write!(formatter, "k{position}"),
            Cursor::Topics(position) => write!(formatter, "t{position}"),
        }
    }
}

/// The reason why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Empty,
    Unknown(String),
    WrongCount(&'static str),
    BadCursor,
    TooLong,
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Empty => formatter.write_str("ERR the request is empty"),
            Flaw::Unknown(word) => write!(
                formatter,
                "ERR unknown request '{word}': there are GET, MGET, LIST and SNAPSHOT"
            ),
            Flaw::WrongCount(verb) => {
                write!(formatter, "ERR wrong number of frames for '{verb}'")
            }
            Flaw::BadCursor => formatter.write_str("ERR invalid cursor"),
            Flaw::TooLong => formatter.write_str("ERR the request is too long"),
        }
    }
}

/// Returns the number of frames in the envelope, and the request after it.
///
/// A message that begins with the name of a request has no envelope. Otherwise the envelope ends
/// with the first empty frame, as REQ makes it.
fn parse<'a>(frames: &[&'a [u8]]) -> (usize, Result<Question<'a>, Flaw>) {
    let begins = |frame: &&[u8]| {
        let word = frame.split(|&byte| byte == b' ').next();
        word.and_then(Verb::parse).is_some()
    };
    let envelope = match frames.first().is_some_and(begins) {
        true => 0,
        false => frames
            .iter()
            .take(ENVELOPE_FRAMES_MAX)
            .position(|frame| frame.is_empty())
            .map_or(0, |delimiter| delimiter + 1),
    };
    debug_assert!(envelope <= frames.len(), "an envelope is the first frames");
    let words = match &frames[envelope..] {
        [line] => {
            let words = line.split(|&byte| byte == b' ');
            words.filter(|word| !word.is_empty()).collect()
        }
        words => words.to_vec(),
    };
    (envelope, question(&words))
}

#[derive(Clone, Copy)]
enum Verb {
    Get,
    GetMany,
    List,
    Snapshot,
}

impl Verb {
    fn parse(word: &[u8]) -> Option<Self> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let verbs = [
            ("GET", Verb::Get),
            ("MGET", Verb::GetMany),
            ("LIST", Verb::List),
            ("SNAPSHOT", Verb::Snapshot),
        ];
        let found = verbs.into_iter().find(|(name, _)| is(name));
        found.map(|(_, verb)| verb)
    }
}

fn question<'a>(words: &[&'a [u8]]) -> Result<Question<'a>, Flaw> {
    let (word, arguments) = words.split_first().ok_or(Flaw::Empty)?;
    let verb = Verb::parse(word).ok_or_else(|| {
        let shown = &word[..word.len().min(SHOWN_BYTES_MAX)];
        Flaw::Unknown(String::from_utf8_lossy(shown).into_owned())
    })?;
    let walk = |name: &'static str| match arguments {
        [] => Ok((&b""[..], Cursor::Start)),
        [prefix] => Ok((*prefix, Cursor::Start)),
        [prefix, cursor] => Ok((*prefix, Cursor::parse(cursor)?)),
        _ => Err(Flaw::WrongCount(name)),
    };
    match (verb, arguments) {
        (Verb::Get, [key]) => Ok(Question::Get(key)),
        (Verb::Get, _) => Err(Flaw::WrongCount("GET")),
        (Verb::GetMany, []) => Err(Flaw::WrongCount("MGET")),
        (Verb::GetMany, keys) => Ok(Question::GetMany(keys.to_vec())),
        (Verb::List, _) => walk("LIST").map(|(prefix, cursor)| Question::List(prefix, cursor)),
        (Verb::Snapshot, _) => {
            walk("SNAPSHOT").map(|(prefix, cursor)| Question::Snapshot(prefix, cursor))
        }
    }
}

/// Parses the bytes as frames of a request, each after its length in one octet. The parsed parts
/// must lie in the request, after its envelope.
pub(crate) fn fuzz(data: &[u8]) {
    let mut gathered = Gathered::default();
    let mut rest = data;
    while let Some((&length, behind)) = rest.split_first() {
        let (frame, behind) = behind.split_at(behind.len().min(length.into()));
        gathered.push(frame);
        rest = behind;
    }
    let frames = gathered.frames().count();
    let (envelope, question) = gathered.parse();
    assert!(envelope <= frames);
    match question {
        Ok(Question::GetMany(keys)) => assert!(!keys.is_empty() && keys.len() <= data.len()),
        Ok(Question::List(_, cursor) | Question::Snapshot(_, cursor)) => {
            assert_eq!(Cursor::parse(cursor.to_string().as_bytes()), Ok(cursor));
        }
        Ok(Question::Get(_)) => {}
        Err(flaw) => assert!(flaw.to_string().len() < 300),
    }
    gathered.clear();
    assert_eq!(gathered.frames().count(), 0);
}

/// Maximum size of a whole request, and of one frame.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Maximum number of frames of a request, including its envelope.
const FRAMES_MAX: usize = 4_096;
/// Maximum number of frames in an envelope: a request passes few devices.
const ENVELOPE_FRAMES_MAX: usize = 16;
/// Maximum number of bytes of an unknown request that an error repeats.
const SHOWN_BYTES_MAX: usize = 32;
/// Memory that a session keeps between two requests.
const KEPT_BYTES_MAX: usize = 16 << 10;
const KEPT_FRAMES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<'a>(frames: &[&'a str]) -> (usize, Result<Question<'a>, Flaw>) {
        let frames: Vec<&[u8]> = frames.iter().map(|frame| frame.as_bytes()).collect();
        parse(&frames)
    }

    #[test]
    fn a_request_stands_in_frames_or_in_one_line_with_and_without_an_envelope() {
        let get = Ok(Question::Get(b"md:A"));
        assert_eq!(parsed(&["GET", "md:A"]), (0, get.clone()));
        assert_eq!(parsed(&["", "get", "md:A"]), (1, get.clone()));
        assert_eq!(
            parsed(&["id", "other", "", "GET", "md:A"]),
            (3, get.clone())
        );
        assert_eq!(parsed(&["GET md:A"]), (0, get.clone()));
        assert_eq!(parsed(&["", " get  md:A "]), (1, get));
        let blank = Ok(Question::Get(b"a b"));
        assert_eq!(parsed(&["GET", "a b"]), (0, blank), "keys may hold blanks");
        let empty = Ok(Question::Get(b""));
        assert_eq!(parsed(&["GET", ""]), (0, empty), "a key may be empty");
        let many = Ok(Question::GetMany(vec![b"a", b"", b"b"]));
        assert_eq!(parsed(&["MGET", "a", "", "b"]), (0, many));
    }

    #[test]
    fn walks_begin_and_go_on() {
        let list = |prefix, cursor| Ok(Question::List(prefix, cursor));
        assert_eq!(parsed(&["LIST"]).1, list(b"", Cursor::Start));
        assert_eq!(parsed(&["LIST", "md:"]).1, list(b"md:", Cursor::Start));
        assert_eq!(parsed(&["LIST", "", ""]).1, list(b"", Cursor::Start));
        assert_eq!(
            parsed(&["LIST", "a", "k17"]).1,
            list(b"a", Cursor::Keys(17))
        );
        let snapshot = Ok(Question::Snapshot(b"md:", Cursor::Topics(3)));
        assert_eq!(parsed(&["SNAPSHOT md: t3"]).1, snapshot);
    }

    #[test]
    fn what_is_no_request_says_why() {
        let flaw = |frames: &[&str]| parsed(frames).1.unwrap_err();
        assert_eq!(flaw(&[]), Flaw::Empty);
        assert_eq!(flaw(&[""]), Flaw::Empty);
        assert_eq!(flaw(&["", " "]), Flaw::Empty);
        assert_eq!(flaw(&["SET", "a", "b"]), Flaw::Unknown("SET".to_owned()));
        assert_eq!(flaw(&["GET"]), Flaw::WrongCount("GET"));
        assert_eq!(flaw(&["GET", "a", "b"]), Flaw::WrongCount("GET"));
        assert_eq!(flaw(&["", "MGET"]), Flaw::WrongCount("MGET"));
        assert_eq!(flaw(&["LIST", "a", "k1", "2"]), Flaw::WrongCount("LIST"));
        for cursor in ["1", "k", "k-1", "t+1", "k99999999999999999999", "x"] {
            assert_eq!(
                flaw(&["SNAPSHOT", "a", cursor]),
                Flaw::BadCursor,
                "{cursor}"
            );
        }
    }

    #[test]
    fn a_long_request_is_bounded_and_still_answered_to_its_sender() {
        let mut gathered = Gathered::default();
        gathered.push(b"peer");
        gathered.push(b"");
        gathered.push(b"MGET");
        for _ in 0..100_000 {
            gathered.push(&[b'k'; 100]);
        }
        assert_eq!(gathered.parse(), (2, Err(Flaw::TooLong)));
        assert!(gathered.bytes.len() <= REQUEST_BYTES_MAX);
        gathered.clear();
        assert!(gathered.bytes.capacity() <= KEPT_BYTES_MAX);
        gathered.push(b"LIST");
        assert_eq!(
            gathered.parse(),
            (0, Ok(Question::List(b"", Cursor::Start)))
        );
    }
}
