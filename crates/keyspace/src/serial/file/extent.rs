//! Finds the end of a value without decoding it.

use std::borrow::Cow;

use super::super::form;
use super::super::reader::{BYTE, COMPRESSED, LONG, Reader, TEXT_BYTES_MAX, WORD};
use super::kind;

/// Why a record cannot be read, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Minimum number of bytes needed, counted from the record's first one.
    More(usize),
    /// An impossible length.
    Length,
    /// An unknown kind.
    Kind(u8),
    /// A module's data.
    Module,
}

type ExtentStep<T = ()> = Result<T, Stop>;

/// A cursor over the available bytes of a record.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn bytes(&mut self, count: usize) -> ExtentStep<&'a [u8]> {
        let end = self.at.checked_add(count).ok_or(Stop::Length)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Stop::More(end))?;
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> ExtentStep<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    pub(super) fn byte(&mut self) -> ExtentStep<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn number(&mut self) -> ExtentStep<u64> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3F);
        match first {
            0..0x40 => Ok(low),
            0x40..0x80 => Ok(low << 8 | u64::from(self.byte()?)),
            0x80 => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            0x81 => Ok(u64::from_be_bytes(self.array()?)),
            _ => Err(Stop::Length),
        }
    }

    /// Reads a text and decompresses it.
    pub(super) fn text(&mut self) -> ExtentStep<Cow<'a, [u8]>> {
        let start = self.at;
        self.pass_text()?;
        let whole = &self.bytes[start..self.at];
        Reader::new(whole).text().map_err(|_| Stop::Length)
    }

    pub(super) fn pass_text(&mut self) -> ExtentStep {
        let form = *self.bytes.get(self.at).ok_or(Stop::More(self.at + 1))?;
        let count = match form {
            0..0xC0 => self.length()?,
            _ => {
                self.at += 1;
                match form & 0x3F {
                    BYTE => 1,
                    WORD => 2,
                    LONG => 4,
                    COMPRESSED => {
                        let packed = self.length()?;
                        self.length()?;
                        packed
                    }
                    _ => return Err(Stop::Length),
                }
            }
        };
        self.bytes(count).map(|_| ())
    }

    fn length(&mut self) -> ExtentStep<usize> {
        let length = usize::try_from(self.number()?).ok();
        length
            .filter(|&length| length <= TEXT_BYTES_MAX)
            .ok_or(Stop::Length)
    }

    pub(super) fn pass_numbers(&mut self, count: usize) -> ExtentStep {
        (0..count).try_for_each(|_| self.number().map(|_| ()))
    }

    /// Skips one part; of a counted part, only the count.
    fn pass(&mut self, part: &Part) -> ExtentStep<u64> {
        match part {
            Part::Text => self.pass_text()?,
            Part::Bytes(count) => _ = self.bytes(*count)?,
            Part::Number => _ = self.number()?,
            Part::Double => match self.byte()? {
                253..=255 => {}
                length => _ = self.bytes(usize::from(length))?,
            },
            Part::Each(_) => return self.number(),
        }
        Ok(0)
    }
}

/// A walk over a value that is still being received. It resumes where it stopped, so each byte is
/// visited once. It never asks for more bytes than the value has.
#[derive(Debug)]
pub(super) struct Walk {
    /// Start of the next part, counted from the record's first byte.
    at: usize,
    /// Remaining parts; the innermost frame is last.
    frames: Vec<Frame>,
}

/// A sequence of parts, repeated a number of times.
#[derive(Debug)]
struct Frame {
    parts: &'static [Part],
    next: usize,
    /// Remaining rounds, including the current one.
    rounds: u64,
}

impl Walk {
    /// Starts a walk over a value of a form that begins at byte `at` of its record.
    pub(super) fn new(form: u8, at: usize) -> ExtentStep<Self> {
        let parts = parts_of(form).ok_or(match kind::MODULE_VALUES.contains(&form) {
            true => Stop::Module,
            false => Stop::Kind(form),
        })?;
        Ok(Walk {
            at,
            frames: vec![Frame {
                parts,
                next: 0,
                rounds: 1,
            }],
        })
    }

    /// Continues in the record's bytes, of which there may be more now. Returns the end of the
    /// value.
    pub(super) fn go_on(&mut self, bytes: &[u8]) -> ExtentStep<usize> {
        let mut cursor = Cursor { bytes, at: self.at };
        while let Some(frame) = self.frames.last_mut() {
            let Some(part) = frame.parts.get(frame.next) else {
                debug_assert!(frame.rounds > 0);
                frame.next = 0;
                frame.rounds -= 1;
                if frame.rounds == 0 {
                    self.frames.pop();
                }
                continue;
            };
            // Each round has at least one byte, so a count that is too great ends with the bytes.
            let rounds = cursor.pass(part)?;
            debug_assert!(cursor.at >= self.at, "no byte is skipped twice");
            frame.next += 1;
            self.at = cursor.at;
            if let Part::Each(parts) = part
                && rounds > 0
            {
                self.frames.push(Frame {
                    parts,
                    next: 0,
                    rounds,
                });
            }
        }
        Ok(self.at)
    }
}

/// A part of a value.
#[derive(Debug)]
enum Part {
    Text,
    Bytes(usize),
    Number,
    /// A double as text with a length, or one of three special values.
    Double,
    /// A count, and that many repetitions of these parts.
    Each(&'static [Part]),
}

/// Returns the parts of a value of a form.
fn parts_of(form: u8) -> Option<&'static [Part]> {
    use Part::{Bytes, Double, Each, Number, Text};
    const LISTPACKS: Part = Each(&[Text, Text]);
    const PENDING: Part = Each(&[Bytes(ID + TIME), Number]);
    const OWNED: Part = Each(&[Bytes(ID)]);
    const CONSUMERS: Part = Each(&[Text, Bytes(TIME), OWNED]);
    // A producer's name, and the entries it has added, with their ids.
    const PRODUCERS: Part = Each(&[Text, Each(&[Text, Number, Number])]);
    // Name, last id, entries read, pending entries, and the consumers with two times.
    const GROUPS: Part = Each(&[
        Text,
        Number,
        Number,
        Number,
        PENDING,
        Each(&[Text, Bytes(2 * TIME), OWNED]),
    ]);
    Some(match form {
        form::STRING
        | form::HASH_ZIPMAP
        | form::LIST_ZIPLIST
        | form::SET_INTEGERS
        | form::SORTED_SET_ZIPLIST
        | form::HASH_ZIPLIST
        | form::HASH_LISTPACK
        | form::SORTED_SET_LISTPACK
        | form::SET_LISTPACK
        | form::HASH_LISTPACK_TIMED_EARLY => &[Text],
        form::HASH_LISTPACK_TIMED => &[Bytes(TIME), Text],
        form::LIST | form::SET | form::LIST_ZIPLISTS => &[Each(&[Text])],
        form::LIST_CHUNKS => &[Each(&[Number, Text])],
        form::HASH => &[Each(&[Text, Text])],
        form::HASH_TIMED_VALKEY => &[Each(&[Text, Text, Bytes(TIME)])],
        form::HASH_TIMED_EARLY => &[Each(&[Number, Text, Text])],
        form::HASH_TIMED => &[Bytes(TIME), Each(&[Number, Text, Text])],
        form::SORTED_SET => &[Each(&[Text, Bytes(8)])],
        form::SORTED_SET_TEXT => &[Each(&[Text, Double])],
        // Length and last id. From the second form on, also first id, greatest deleted id, and
        // entries added.
        form::STREAM => &[
            LISTPACKS,
            Number,
            Number,
            Number,
            Each(&[Text, Number, Number, PENDING, CONSUMERS]),
        ],
        form::STREAM_2 => &[
            LISTPACKS,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Each(&[Text, Number, Number, Number, PENDING, CONSUMERS]),
        ],
        form::STREAM_3 => &[
            LISTPACKS, Number, Number, Number, Number, Number, Number, Number, Number, GROUPS,
        ],
        form::STREAM_4 => &[
            LISTPACKS, Number, Number, Number, Number, Number, Number, Number, Number, GROUPS,
            Number, Number, PRODUCERS, Number, Number,
        ],
        _ => return None,
    })
}

const TIME: usize = 8;
const ID: usize = 16;
