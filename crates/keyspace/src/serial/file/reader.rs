//! Reads a file of keys record by record as its bytes arrive.

use crate::key::DATABASES;
use std::borrow::Cow;

use super::super::crc64;
use super::super::{Dialect, form};
use super::extent::{Cursor, Stop, Walk};
use super::{FileError, LIVE_MARK, SIGNATURES, VERSION_CHECKSUM, kind};

/// A record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRecord<'a> {
    /// A field about the file, such as `redis-ver` or `repl-id`.
    Aux {
        /// Its name.
        name: Cow<'a, [u8]>,
        /// Its value.
        value: Cow<'a, [u8]>,
    },
    /// The text of a library of functions.
    Library(Cow<'a, [u8]>),
    /// A key.
    Key(KeyRecord<'a>),
    /// The end of the file.
    End,
}

/// A key with its value, which [`Keyspace::load`](crate::Keyspace::load) decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord<'a> {
    /// Database number, below [`DATABASES`](crate::DATABASES).
    pub database: usize,
    /// Its name.
    pub key: Cow<'a, [u8]>,
    /// When it expires, ms since the UNIX epoch.
    pub deadline_ms: Option<i64>,
    /// Seconds since its last use, if the file contains them.
    pub idle_seconds: Option<u64>,
    /// Its logarithmic frequency of use, if the file contains it.
    pub frequency: Option<u8>,
    /// Whether it is a live topic regardless of its name.
    pub is_live: bool,
    pub(crate) form: u8,
    pub(crate) value: &'a [u8],
}

/// A parser that receives bytes and returns records.
#[derive(Debug)]
pub struct FileReader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were already read.
    taken: usize,
    /// Number of bytes before those of the buffer.
    before: u64,
    /// Minimum number of unread bytes of the record: with fewer bytes, no search is made. Never
    /// more than the file has, because nothing may follow it.
    wanted: usize,
    /// A key whose value is incomplete.
    begun: Option<Begun>,
    is_last: bool,
    checks: bool,
    checksum: u64,
    /// 0 until the header is read.
    version: u32,
    dialect: Dialect,
    database: usize,
    has_ended: bool,
    next: Attributes,
}

/// Attributes of the next key.
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    deadline_ms: Option<i64>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
    is_live: bool,
}

impl FileReader {
    /// Creates a reader; `checks` enables the comparison of the checksum.
    pub fn new(checks: bool) -> Self {
        FileReader {
            buffer: Vec::new(),
            taken: 0,
            before: 0,
            wanted: 0,
            begun: None,
            is_last: false,
            checks,
            checksum: 0,
            version: 0,
            dialect: Dialect::Redis,
            database: 0,
            has_ended: false,
            next: Attributes::default(),
        }
    }

    /// Adds the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.is_last, "no bytes follow the end");
        self.before += self.taken as u64;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Reports that no more bytes will come.
    pub fn finish(&mut self) {
        self.is_last = true;
        self.wanted = 0;
    }

    /// Returns how many bytes have been read as records.
    pub fn position(&self) -> u64 {
        self.before + self.taken as u64
    }

    /// Returns the unread bytes. After the end record, they do not belong to the file.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Returns the next record; `None` if more bytes are needed first.
    pub fn next_record(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        loop {
            if self.has_ended {
                return Ok(Some(FileRecord::End));
            }
            if self.rest().len() < self.wanted {
                return Ok(None);
            }
            let at = self.position();
            let (found, length) = match self.look() {
                Ok(found) => found,
                Err(Stop::More(_)) if self.is_last => return Err(FileError::Truncated),
                Err(Stop::More(total)) => {
                    self.wanted = total;
                    return Ok(None);
                }
                Err(Stop::Length) => return Err(FileError::Length(at)),
                Err(Stop::Kind(kind)) => return Err(FileError::Kind { at, kind }),
                Err(Stop::Module) => return Err(FileError::Module(at)),
            };
            self.take(found, length);
            match found {
                NextRecord::Attribute => {}
                NextRecord::Header => self.read_version(length)?,
                NextRecord::Database(database) => {
                    self.database = usize::try_from(database)
                        .ok()
                        .filter(|&database| database < DATABASES)
                        .ok_or(FileError::Database { at, database })?;
                }
                NextRecord::EarlyLibrary => return Err(FileError::EarlyLibrary(at)),
                NextRecord::End(stored) => self.check_end(stored)?,
                NextRecord::Aux | NextRecord::Library | NextRecord::Key { .. } => {
                    let attributes = std::mem::take(&mut self.next);
                    let record = self.record(found, length, attributes);
                    return record.map(Some).map_err(|_| FileError::Length(at));
                }
            }
        }
    }

    /// Determines the next record and its length.
    fn look(&mut self) -> Result<(NextRecord, usize), Stop> {
        let mut cursor = Cursor::new(&self.buffer[self.taken..]);
        if self.version == 0 {
            cursor.array::<HEADER_BYTES>()?;
            return Ok((NextRecord::Header, HEADER_BYTES));
        }
        if let Some(begun) = &mut self.begun {
            let length = begun.walk.go_on(&self.buffer[self.taken..])?;
            return Ok((begun.found, length));
        }
        let mut next = self.next;
        let found = match cursor.byte()? {
            kind::DEADLINE_SECONDS => {
                let seconds = i32::from_le_bytes(cursor.array()?);
                next.deadline_ms = Some(i64::from(seconds) * 1_000);
                NextRecord::Attribute
            }
            kind::DEADLINE_MS => {
                next.deadline_ms = Some(i64::from_le_bytes(cursor.array()?));
                NextRecord::Attribute
            }
            kind::FREQUENCY => {
                next.frequency = Some(cursor.byte()?);
                NextRecord::Attribute
            }
            kind::IDLE => {
                next.idle_seconds = Some(cursor.number()?);
                NextRecord::Attribute
            }
            kind::SIZES => {
                cursor.pass_numbers(2)?;
                NextRecord::Attribute
            }
            kind::SLOT_SIZES => {
                cursor.pass_numbers(3)?;
                NextRecord::Attribute
            }
            kind::SELECT => NextRecord::Database(cursor.number()?),
            kind::AUX => {
                let is_mark = *cursor.text()? == *LIVE_MARK;
                cursor.pass_text()?;
                next.is_live |= is_mark;
                match is_mark {
                    true => NextRecord::Attribute,
                    false => NextRecord::Aux,
                }
            }
            kind::LIBRARY => {
                cursor.pass_text()?;
                NextRecord::Library
            }
            kind::LIBRARY_BEFORE_RELEASE => NextRecord::EarlyLibrary,
            kind::MODULE_AUX => return Err(Stop::Module),
            kind::END if self.version < VERSION_CHECKSUM => NextRecord::End(None),
            kind::END => NextRecord::End(Some(u64::from_le_bytes(cursor.array()?))),
            kind => {
                let form = form::of_number(kind, self.dialect);
                let form = form.ok_or(match kind::MODULE_VALUES.contains(&kind) {
                    true => Stop::Module,
                    false => Stop::Kind(kind),
                })?;
                cursor.pass_text()?;
                let value_at = cursor.position();
                let walk = Walk::new(form, value_at)?;
                let found = NextRecord::Key { form, value_at };
                let begun = self.begun.insert(Begun { found, walk });
                let length = begun.walk.go_on(&self.buffer[self.taken..])?;
                return Ok((found, length));
            }
        };
        self.next = next;
        Ok((found, cursor.position()))
    }

    /// Consumes the found record. The checksum then covers everything before it.
    fn take(&mut self, found: NextRecord, length: usize) {
        debug_assert!(length > 0 && length <= self.rest().len());
        let checked = match found {
            NextRecord::End(_) => 1,
            _ => length,
        };
        if self.checks {
            let bytes = &self.buffer[self.taken..self.taken + checked];
            self.checksum = crc64::extended(self.checksum, bytes);
        }
        self.taken += length;
        self.wanted = 0;
        self.begun = None;
    }

    fn read_version(&mut self, length: usize) -> Result<(), FileError> {
        let header = &self.buffer[self.taken - length..self.taken];
        let found = SIGNATURES
            .iter()
            .find_map(|&(signature, dialect)| Some((header.strip_prefix(signature)?, dialect)));
        let (digits, dialect) = found.ok_or(FileError::Signature)?;
        let version = std::str::from_utf8(digits).ok();
        let version = version.and_then(|digits| digits.parse().ok());
        let version = version.ok_or(FileError::Signature)?;
        if !dialect.versions().contains(&version) {
            return Err(FileError::Version(version));
        }
        (self.version, self.dialect) = (version, dialect);
        Ok(())
    }

    fn check_end(&mut self, stored: Option<u64>) -> Result<(), FileError> {
        let computed = self.checksum;
        match stored {
            // 0 means that the writer computed none.
            Some(stored) if self.checks && stored != 0 && stored != computed => {
                return Err(FileError::Checksum { stored, computed });
            }
            _ => self.has_ended = true,
        }
        Ok(())
    }

    /// Decodes the found record, which was consumed.
    fn record(
        &self,
        found: NextRecord,
        length: usize,
        attributes: Attributes,
    ) -> Result<FileRecord<'_>, Stop> {
        let bytes = &self.buffer[self.taken - length..self.taken];
        let mut cursor = Cursor::new(bytes);
        cursor.byte()?;
        let text = cursor.text()?;
        Ok(match found {
            NextRecord::Key { form, value_at } => FileRecord::Key(KeyRecord {
                database: self.database,
                key: text,
                deadline_ms: attributes.deadline_ms,
                idle_seconds: attributes.idle_seconds,
                frequency: attributes.frequency,
                is_live: attributes.is_live,
                form,
                value: &bytes[value_at..],
            }),
            NextRecord::Aux => FileRecord::Aux {
                name: text,
                value: cursor.text()?,
            },
            _ => FileRecord::Library(text),
        })
    }
}

/// A key with its value, and how much of the value has arrived.
#[derive(Debug)]
struct Begun {
    found: NextRecord,
    walk: Walk,
}

/// The kind of the next record.
#[derive(Clone, Copy, Debug)]
enum NextRecord {
    Header,
    /// An attribute of the next key, or a hint.
    Attribute,
    Database(u64),
    Aux,
    Library,
    EarlyLibrary,
    Key {
        form: u8,
        /// Start of the value.
        value_at: usize,
    },
    /// The end, with its checksum.
    End(Option<u64>),
}

const HEADER_BYTES: usize = 9;
