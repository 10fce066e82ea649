//! Units: commands that are propagated together.

use std::cell::Cell;
use std::ops::Range;

use super::Audience;
use crate::key::DATABASES;
use crate::keyspace::Keyspace;

/// Commands that are propagated together, as RESP arrays.
#[derive(Debug, Default)]
pub struct Unit {
    bytes: Vec<u8>,
    commands: usize,
    /// The databases of the first and the last command; `bytes` contains the SELECTs between them.
    databases: Option<(usize, usize)>,
    /// Parts of `bytes` that an audience does not receive, by [`Audience`].
    withheld: [Vec<Range<usize>>; 2],
    withheld_commands: [usize; 2],
    /// Audiences that do not receive what is pushed now.
    withholds: [bool; 2],
    /// Whether the commands are independent: keys that a walk found expired.
    is_loose: bool,
    /// Number of commands that only remove expired keys or fields.
    expiries: usize,
}

impl Unit {
    /// Adds a command that runs in `database`.
    pub fn push<'a>(
        &mut self,
        database: usize,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        if self.withholds == [true; 2] {
            return;
        }
        debug_assert!(database < DATABASES);
        self.select(database);
        self.commands += 1;
        let start = self.bytes.len();
        write_command(&mut self.bytes, words);
        for audience in 0..self.withholds.len() {
            if self.withholds[audience] {
                self.withheld[audience].push(start..self.bytes.len());
                self.withheld_commands[audience] += 1;
            }
        }
    }

    /// Adds a command that removes an expired key or field.
    pub(crate) fn push_expiry<'a>(
        &mut self,
        database: usize,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        let before = self.commands;
        self.push(database, words);
        self.expiries += self.commands - before;
    }

    /// Returns whether it has more than expirations for the append-only file.
    pub(super) fn has_change_for_file(&self) -> bool {
        debug_assert!(self.expiries <= self.commands);
        self.commands > self.expiries && !self.is_silent(Audience::File)
    }

    /// Excludes audiences from the following commands, as a script requests with `redis.set_repl`.
    pub fn withhold(&mut self, from_replicas: bool, from_file: bool) {
        self.withholds[Audience::Replicas as usize] = from_replicas;
        self.withholds[Audience::File as usize] = from_file;
    }

    /// Adds a command that changes no key, such as PUBLISH: only replicas receive it.
    pub fn push_for_replicas<'a>(
        &mut self,
        database: usize,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        let before = self.withholds;
        self.withholds[Audience::File as usize] = true;
        self.push(database, words);
        self.withholds = before;
    }

    /// Propagates the commands one by one, not between MULTI and EXEC.
    pub fn loosen(&mut self) {
        self.is_loose = true;
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    pub(super) fn databases(&self) -> Option<(usize, usize)> {
        debug_assert_eq!(self.databases.is_some(), self.commands > 0);
        self.databases
    }

    /// Returns whether it is wrapped in MULTI and EXEC.
    pub(super) fn is_transaction(&self) -> bool {
        self.commands > 1 && !self.is_loose
    }

    /// Returns whether an audience receives none of it.
    pub(super) fn is_silent(&self, audience: Audience) -> bool {
        debug_assert!(self.withheld_commands[audience as usize] <= self.commands);
        self.commands == self.withheld_commands[audience as usize]
    }

    /// Returns the parts that an audience receives.
    pub(super) fn parts(&self, audience: Audience) -> impl Iterator<Item = &[u8]> {
        let mut left_out = self.withheld[audience as usize].iter();
        let mut at = Some(0);
        std::iter::from_fn(move || {
            let start = at?;
            let next = left_out.next();
            at = next.map(|range| range.end);
            let end = next.map_or(self.bytes.len(), |range| range.start);
            debug_assert!(start <= end, "withheld ranges ascend");
            Some(&self.bytes[start..end])
        })
    }

    fn select(&mut self, database: usize) {
        match &mut self.databases {
            None => self.databases = Some((database, database)),
            Some((_, last)) if *last == database => {}
            Some((_, last)) => {
                *last = database;
                write_select(&mut self.bytes, database);
            }
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.commands = 0;
        self.databases = None;
        self.withheld.iter_mut().for_each(Vec::clear);
        self.withheld_commands = [0; 2];
        self.withholds = [false; 2];
        self.is_loose = false;
        self.expiries = 0;
    }
}

/// The unit of commands that run under some locks. It is propagated when it is taken or dropped,
/// before the locks are released.
pub(crate) struct PendingUnit<'k> {
    keyspace: &'k Keyspace,
    unit: Option<Box<Unit>>,
}

impl<'k> PendingUnit<'k> {
    #[inline]
    pub(crate) fn new(keyspace: &'k Keyspace) -> Self {
        PendingUnit {
            keyspace,
            unit: None,
        }
    }

    /// Returns the unit, for adding to it.
    pub(crate) fn unit(&mut self) -> &mut Unit {
        self.unit
            .get_or_insert_with(|| SPARE.take().unwrap_or_default())
    }

    /// Returns the unit, if there is one.
    pub(crate) fn present(&mut self) -> Option<&mut Unit> {
        self.unit.as_deref_mut()
    }

    /// Propagates the unit.
    #[inline]
    pub(crate) fn propagate(&mut self) {
        if let Some(unit) = self.unit.take() {
            self.propagate_unit(unit);
        }
    }

    #[cold]
    fn propagate_unit(&self, mut unit: Box<Unit>) {
        self.keyspace.propagation().append(&unit);
        unit.clear();
        if unit.bytes.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(Some(unit));
        }
    }
}

impl Drop for PendingUnit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.propagate();
    }
}

thread_local! {
    /// The last unit, kept to reuse its memory.
    static SPARE: Cell<Option<Box<Unit>>> = const { Cell::new(None) };
}

/// A unit with more memory is freed after use.
const SPARE_BYTES_MAX: usize = 64 << 10;

pub(super) fn write_select(out: &mut Vec<u8>, database: usize) {
    let mut digits = [0; DIGITS_MAX];
    write_command(out, [&b"SELECT"[..], number(database, &mut digits)]);
}

/// Writes a command as a RESP array of bulk strings.
pub(super) fn write_command<'a>(
    out: &mut Vec<u8>,
    words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
) {
    let words = words.into_iter();
    write_count(out, b'*', words.len());
    for word in words {
        write_count(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_count(out: &mut Vec<u8>, mark: u8, count: usize) {
    out.push(mark);
    out.extend_from_slice(number(count, &mut [0; DIGITS_MAX]));
    out.extend_from_slice(b"\r\n");
}

fn number(mut number: usize, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

const DIGITS_MAX: usize = 20;
