//! Ids of entries.

use std::fmt;

/// An entry's id: a time and a sequence number. Ids only increase in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId {
    /// Milliseconds since the UNIX epoch, or any number that the writer chose.
    pub(crate) time_ms: u64,
    pub(crate) sequence: u64,
}

impl StreamId {
    /// The id 0-0, which no entry has.
    pub(crate) const MIN: StreamId = StreamId::new(0, 0);
    pub(crate) const MAX: StreamId = StreamId::new(u64::MAX, u64::MAX);

    pub(crate) const fn new(time_ms: u64, sequence: u64) -> Self {
        StreamId { time_ms, sequence }
    }

    pub(crate) fn is_zero(self) -> bool {
        self == StreamId::MIN
    }

    /// Returns the next id, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        match self.sequence.checked_add(1) {
            Some(sequence) => Some(StreamId::new(self.time_ms, sequence)),
            None => Some(StreamId::new(self.time_ms.checked_add(1)?, 0)),
        }
    }

    /// Returns the previous id, if there is one.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Some(StreamId::new(self.time_ms, sequence)),
            None => Some(StreamId::new(self.time_ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// Returns the id for `*` at this time, greater than the last one.
    pub(crate) fn generate(last: StreamId, now_ms: i64) -> Option<Self> {
        let next = match u64::try_from(now_ms) {
            Ok(now_ms) if now_ms > last.time_ms => Some(StreamId::new(now_ms, 0)),
            _ => last.next(),
        };
        debug_assert!(next.is_none_or(|next| next > last), "ids ascend");
        next
    }

    /// Parses `time-sequence`, or `time` alone with `missing_sequence`.
    pub(crate) fn parse(text: &[u8], missing_sequence: u64) -> Option<Self> {
        let text = as_c_string(text)?;
        let Some(dash) = text.iter().position(|&byte| byte == b'-') else {
            return Some(StreamId::new(parse_number(text)?, missing_sequence));
        };
        let sequence = parse_number(&text[dash + 1..])?;
        Some(StreamId::new(parse_number(&text[..dash])?, sequence))
    }

    /// Parses the same, and `-` and `+` as the least and the greatest id.
    pub(crate) fn parse_bound(text: &[u8], missing_sequence: u64) -> Option<Self> {
        match as_c_string(text)? {
            b"-" => Some(StreamId::MIN),
            b"+" => Some(StreamId::MAX),
            _ => StreamId::parse(text, missing_sequence),
        }
    }

    /// Parses `time-*` and returns the time.
    pub(crate) fn parse_open(text: &[u8]) -> Option<u64> {
        parse_number(as_c_string(text)?.strip_suffix(b"-*")?)
    }

    /// Returns the text in replies.
    pub(crate) fn text(self) -> IdText {
        let mut text = IdText {
            bytes: [0; IdText::BYTES_MAX],
            length: 0,
        };
        text.append(itoa::Buffer::new().format(self.time_ms).as_bytes());
        text.append(b"-");
        text.append(itoa::Buffer::new().format(self.sequence).as_bytes());
        text
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.time_ms, self.sequence)
    }
}

/// The text of an id, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdText {
    bytes: [u8; IdText::BYTES_MAX],
    length: u8,
}

impl IdText {
    /// Two numbers of up to 20 digits, and the dash.
    const BYTES_MAX: usize = 41;

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn append(&mut self, part: &[u8]) {
        debug_assert!(part.len() <= 20, "the greatest number has 20 digits");
        let start = usize::from(self.length);
        self.bytes[start..start + part.len()].copy_from_slice(part);
        self.length += part.len() as u8;
    }
}

/// Cuts the text like C: Redis reads ids up to a zero byte and refuses long ones.
fn as_c_string(text: &[u8]) -> Option<&[u8]> {
    (text.len() <= TEXT_BYTES_MAX)
        .then(|| text.split(|&byte| byte == 0).next())
        .flatten()
}

/// Parses an unsigned number like `strtoull`, but refuses negative numbers.
#[inline]
fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = match text {
        [b'0'..=b'9', ..] => text,
        _ => {
            let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
            let text = &text[blanks..];
            text.strip_prefix(b"+").unwrap_or(text)
        }
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(value))
    })
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

const TEXT_BYTES_MAX: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_in_redis() {
        for (text, id) in [
            ("5-3", Some((5, 3))),
            ("5", Some((5, 9))),
            ("0-0", Some((0, 0))),
            ("007-+1", Some((7, 1))),
            (
                "18446744073709551615-18446744073709551615",
                Some((u64::MAX, u64::MAX)),
            ),
            ("18446744073709551616", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("5-", None),
            ("-5", None),
            ("5-3-1", None),
            ("5-*", None),
            ("5 ", None),
            ("(5", None),
            ("x", None),
            ("5\0x", Some((5, 9))),
        ] {
            let wanted = id.map(|(time_ms, sequence)| StreamId::new(time_ms, sequence));
            assert_eq!(StreamId::parse(text.as_bytes(), 9), wanted, "{text}");
        }
        assert_eq!(StreamId::parse(&[b'1'; 128], 0), None);
        assert_eq!(StreamId::parse_bound(b"-", 9), Some(StreamId::MIN));
        assert_eq!(StreamId::parse_bound(b"+", 0), Some(StreamId::MAX));
        assert_eq!(StreamId::parse_open(b"12-*"), Some(12));
        assert_eq!(StreamId::parse_open(b"12"), None);
    }

    #[test]
    fn next_and_previous_end_at_the_limits() {
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
        let id = StreamId::new(4, u64::MAX);
        assert_eq!(id.next(), Some(StreamId::new(5, 0)));
        assert_eq!(StreamId::new(5, 0).previous(), Some(id));
        assert_eq!(StreamId::generate(id, 4), Some(StreamId::new(5, 0)));
        assert_eq!(StreamId::generate(id, 9), Some(StreamId::new(9, 0)));
        assert_eq!(StreamId::generate(StreamId::MAX, 9), None);
        assert_eq!(StreamId::new(0, u64::MAX).text().as_bytes().len(), 22);
        assert_eq!(StreamId::MAX.text().as_bytes().len(), 41);
    }
}
