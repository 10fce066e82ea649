//! How far a value reaches, found without making it.

use std::borrow::Cow;

use super::super::form;
use super::super::reader::{BYTE, COMPRESSED, LONG, Reader, TEXT_BYTES_MAX, WORD};
use super::kind;

/// Why a record cannot be taken yet, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There must be so many bytes at least, counted from the record's first one.
    More(usize),
    /// A length that cannot be.
    Length,
    /// A kind that is not known.
    Kind(u8),
    /// A module's.
    Module,
}

type Step<T = ()> = Result<T, Stop>;

/// Walks over what is there of a record.
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

    pub(super) fn bytes(&mut self, count: usize) -> Step<&'a [u8]> {
        let end = self.at.checked_add(count).ok_or(Stop::Length)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Stop::More(end))?;
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    pub(super) fn byte(&mut self) -> Step<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn number(&mut self) -> Step<u64> {
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

    /// A text, unpacked.
    pub(super) fn text(&mut self) -> Step<Cow<'a, [u8]>> {
        let start = self.at;
        self.pass_text()?;
        let whole = &self.bytes[start..self.at];
        Reader::new(whole).text().map_err(|_| Stop::Length)
    }

    pub(super) fn pass_text(&mut self) -> Step {
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

    fn length(&mut self) -> Step<usize> {
        let length = usize::try_from(self.number()?).ok();
        length
            .filter(|&length| length <= TEXT_BYTES_MAX)
            .ok_or(Stop::Length)
    }

    /// Passes a value of a form.
    pub(super) fn pass_value(&mut self, form: u8) -> Step {
        match form {
            form::STRING
            | form::HASH_ZIPMAP
            | form::LIST_ZIPLIST
            | form::SET_INTEGERS
            | form::SORTED_SET_ZIPLIST
            | form::HASH_ZIPLIST
            | form::HASH_LISTPACK
            | form::SORTED_SET_LISTPACK
            | form::SET_LISTPACK
            | form::HASH_LISTPACK_TIMED_EARLY => self.pass_text(),
            form::HASH_LISTPACK_TIMED => {
                self.bytes(TIME)?;
                self.pass_text()
            }
            form::LIST | form::SET | form::LIST_ZIPLISTS => self.each(Self::pass_text),
            form::LIST_CHUNKS => self.each(|own| {
                own.number()?;
                own.pass_text()
            }),
            form::HASH => self.each(Self::pass_pair),
            form::SORTED_SET => self.each(|own| {
                own.pass_text()?;
                own.bytes(8).map(|_| ())
            }),
            form::SORTED_SET_TEXT => self.each(|own| {
                own.pass_text()?;
                match own.byte()? {
                    253..=255 => Ok(()),
                    length => own.bytes(usize::from(length)).map(|_| ()),
                }
            }),
            form::HASH_TIMED | form::HASH_TIMED_EARLY => {
                if form == form::HASH_TIMED {
                    self.bytes(TIME)?;
                }
                self.each(|own| {
                    own.number()?;
                    own.pass_pair()
                })
            }
            form::STREAM | form::STREAM_2 | form::STREAM_3 => self.pass_stream(form),
            _ if kind::MODULE_VALUES.contains(&form) => Err(Stop::Module),
            _ => Err(Stop::Kind(form)),
        }
    }

    /// Passes as many things as a number says; each has a byte at least, so that a number that is
    /// too great ends with the bytes.
    fn each(&mut self, mut pass: impl FnMut(&mut Self) -> Step) -> Step {
        for _ in 0..self.number()? {
            pass(self)?;
        }
        Ok(())
    }

    fn pass_pair(&mut self) -> Step {
        self.pass_text()?;
        self.pass_text()
    }

    pub(super) fn pass_numbers(&mut self, count: usize) -> Step {
        (0..count).try_for_each(|_| self.number().map(|_| ()))
    }

    fn pass_stream(&mut self, form: u8) -> Step {
        self.each(Self::pass_pair)?;
        let is_old = form == form::STREAM;
        // Length and last id; then first id, greatest deleted id, and how many were added.
        self.pass_numbers(if is_old { 3 } else { 8 })?;
        self.each(|own| {
            own.pass_text()?;
            own.pass_numbers(if is_old { 2 } else { 3 })?;
            own.each(|own| {
                own.bytes(ID + TIME)?;
                own.number().map(|_| ())
            })?;
            own.each(|own| {
                own.pass_text()?;
                own.bytes(if form == form::STREAM_3 {
                    2 * TIME
                } else {
                    TIME
                })?;
                own.each(|own| own.bytes(ID).map(|_| ()))
            })
        })
    }
}

const TIME: usize = 8;
const ID: usize = 16;
