//! The record of a command, and the context of its handler. No handler is named here.

mod flags;

use std::fmt;
use std::ops::Range;

use tidewire_resp::{Arguments, Writer};

pub use flags::Flags;
pub(crate) use flags::is_same;

use crate::entry::Entry;
use crate::error::{CommandError, ECHOED_BYTES_MAX, printable};
use crate::hash;
use crate::key::Key;
use crate::keyspace::Direct;
use crate::observer::Event;
use crate::table::Place;
use crate::view::View;
use crate::waiting::Wait;

/// One command or subcommand, as the command table declares it. It drives dispatch, locking, the
/// refusal of writes to mounts, COMMAND and the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Name in lower case: `get`. Of a subcommand, only its own part: `encoding`.
    pub name: &'static str,
    /// Name with its container: `object
    /// encoding`.
    pub full_name: &'static str,
    /// Number of arguments, name included. Negative: the minimum number.
    pub arity: i16,
    /// Number in the table, from 0; [`NO_NUMBER`](Self::NO_NUMBER) for commands outside the table.
    pub number: u16,
    /// Properties that are needed before the command runs.
    pub flags: Flags,
    /// Where the keys are among the arguments.
    pub keys: &'static [KeySpec],
    /// ACL categories that do not follow from the flags, separated by blanks, without `@`.
    pub categories: &'static str,
    /// The first Redis version with this command.
    pub since: &'static str,
    /// The group in the documentation.
    pub group: Group,
    /// Summary, one sentence.
    pub summary: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// Tips for clients of clusters, separated by blanks.
    pub tips: &'static str,
    /// Arguments in the notation of `commands/syntax.rs`; empty if there are none.
    pub syntax: &'static str,
    /// Number of subcommands, which follow in the table.
    pub(crate) parts: u16,
    /// What runs the command.
    pub run: Run,
    /// What is locked while it runs.
    pub locks: Locks,
    /// Number of the argument that names the first element to look up in the first key's
    /// collection; 0 if there is none.
    pub element: u8,
    /// Handler for the case that one key's entry is all the command needs.
    pub(crate) direct: Option<Direct>,
}

/// What runs a command.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Run {
    /// [`Keyspace::execute`] runs it.
    Data(Handler),
    /// The session runs it: it has the connection and a handler for this command's number.
    Session,
    /// The request names a subcommand, which runs instead.
    Container,
}

/// A data command's handler. A handler that fails has written nothing.
pub type Handler = fn(&mut Call<'_, '_, '_>) -> Result<(), CommandError>;

/// What is locked while a data command runs.
#[derive(Clone, Copy, Debug)]
pub enum Locks {
    /// Locks nothing.
    None,
    /// Locks the shards of its keys.
    Keys,
    /// Locks every shard if the function says that the arguments name keys that are not known in
    /// advance, otherwise the shards of its keys.
    AllIf(fn(Arguments<'_>) -> bool),
    /// Locks nothing at the start. It visits the shards one by one, and other commands may run in
    /// between.
    Sweep,
    /// Locks every shard.
    All,
}

/// Positions of some of a command's keys: every `step`th argument from `first` to `last`, or as
/// many as an earlier argument says.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Number of the first key's argument.
    pub first: u16,
    /// The last key's distance from the first. Negative: counted from the end, -1 is the last
    /// argument.
    pub last: i16,
    /// Distance between keys.
    pub step: u16,
    /// Number of the argument with the number of keys; 0 if `last` tells where they end.
    pub count_at: u16,
    /// The word before the keys, in upper case, as COMMAND shows it; searched from `first`. Empty
    /// if the first key is at `first` itself.
    pub keyword: &'static str,
    /// Only the first half of the remaining arguments are keys; the second half has another
    /// meaning.
    pub half: bool,
    /// COMMAND does not show the keys' positions.
    pub hidden: bool,
    /// Finds keys that options name. The command uses this function for its own keys too, so that
    /// locks, access control and execution cannot disagree. `None` if the numbers above are
    /// enough, or if only the values of keys name further keys.
    pub found_by: Option<Finder>,
    /// What the command does to these keys, as COMMAND shows it, separated by blanks.
    pub flags: &'static str,
}

/// Returns the positions of the keys among a command's arguments; empty if there is none.
pub type Finder = fn(Arguments<'_>) -> Range<usize>;

impl KeySpec {
    /// Returns whether it always stands for one key, at [`first`](Self::first).
    #[inline]
    pub fn is_one_key(&self) -> bool {
        self.last == 0 && self.count_at == 0 && self.found_by.is_none() && !self.hidden
    }

    /// Returns the positions of the keys among these arguments. If there are too few arguments,
    /// missing keys have no position. The same holds if the number of keys is missing.
    #[inline]
    pub fn positions(&self, arguments: Arguments<'_>) -> impl Iterator<Item = usize> + use<> {
        let first = usize::from(self.first);
        let count = arguments.len();
        let range = match usize::try_from(self.last) {
            _ if self.hidden || self.found_by.is_some() => self.found(arguments),
            _ if self.count_at != 0 => {
                let keys = self.key_count(arguments).unwrap_or(0);
                first..first.saturating_add(keys.saturating_mul(usize::from(self.step)))
            }
            Ok(last) => first..first + last + 1,
            Err(_) => first..(count + 1).saturating_sub(usize::from(self.last.unsigned_abs())),
        };
        debug_assert!(
            range.is_empty() || range.start > 0,
            "the command's name is not a key"
        );
        (range.start..range.end.min(count)).step_by(usize::from(self.step))
    }

    /// Returns the positions of keys that options name.
    #[inline(never)]
    fn found(&self, arguments: Arguments<'_>) -> Range<usize> {
        self.found_by.map_or(0..0, |find| find(arguments))
    }

    /// Returns the number of keys in the argument at `count_at`, if it is valid.
    pub(crate) fn key_count(&self, arguments: Arguments<'_>) -> Option<usize> {
        let text = arguments.get(usize::from(self.count_at))?;
        let count = tidewire_resp::number::parse_integer(text)?;
        usize::try_from(count).ok().filter(|&count| count > 0)
    }
}

/// The command groups of COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Lists.
    List,
    /// Sorted sets.
    SortedSet,
    /// Geospatial positions, kept in sorted sets.
    Geo,
    /// Streams.
    Stream,
    /// Bits in strings.
    Bitmap,
    /// HyperLogLog: counting distinct elements.
    HyperLogLog,
    /// Transactions.
    Transactions,
    /// Publishing and subscribing.
    PubSub,
    /// Scripts and functions.
    Scripting,
    /// Cluster commands.
    Cluster,
    /// Connection commands.
    Connection,
    /// Server commands.
    Server,
}

impl Group {
    /// Returns the name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::Hash => "hash",
            Group::Set => "set",
            Group::List => "list",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Server => "server",
        }
    }
}

impl Command {
    /// The number of a command outside the table.
    pub const NO_NUMBER: u16 = u16::MAX;

    /// Returns whether it has any of these flags.
    #[inline]
    pub const fn has(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    /// Returns whether it is a subcommand.
    pub const fn is_part(&self) -> bool {
        self.full_name.len() != self.name.len()
    }

    /// Returns whether it has subcommands.
    #[inline]
    pub const fn is_container(&self) -> bool {
        self.parts != 0
    }

    /// Returns whether the first argument alone identifies the command.
    #[inline]
    pub fn is_named_alone(&self) -> bool {
        !self.is_part() && !self.is_container()
    }

    /// Returns whether it accepts this number of arguments.
    #[inline]
    pub(crate) fn has_arity(&self, arguments: Arguments<'_>) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        match self.arity {
            ..0 => arguments.len() >= wanted,
            _ => arguments.len() == wanted,
        }
    }

    /// Returns the positions of its keys. If there are too few arguments, missing keys have no
    /// position.
    pub fn key_positions<'a>(
        &'static self,
        arguments: Arguments<'a>,
    ) -> impl Iterator<Item = usize> + use<'a> {
        self.keys
            .iter()
            .flat_map(move |spec| spec.positions(arguments))
    }

    /// Returns the position of its only key, if its declaration guarantees that there is exactly
    /// one.
    #[inline]
    pub(crate) fn single_key(&self, arguments: Arguments<'_>) -> Option<usize> {
        match self.locks {
            Locks::Keys => self.only_key(arguments).map(|(_, at)| at),
            _ => None,
        }
    }

    /// Returns the position of the key, if another server that has this key can run the command by
    /// itself: it changes this key alone, never waits, and neither names a database nor brings a
    /// payload of DUMP, which only some versions can read.
    pub fn key_elsewhere(&'static self, arguments: Arguments<'_>) -> Option<usize> {
        let is_data = matches!(self.run, Run::Data(_)) && matches!(self.locks, Locks::Keys);
        let needs_more = Flags::BLOCKING.with(Flags::RESTORES);
        if !is_data || !self.has(Flags::WRITES_KEYS) || self.has(needs_more) || self.name == "move"
        {
            return None;
        }
        let mut positions = self.key_positions(arguments);
        let first = positions.next()?;
        (first < arguments.len() && positions.next().is_none()).then_some(first)
    }

    #[inline]
    pub(crate) fn only_key(&self, arguments: Arguments<'_>) -> Option<(&KeySpec, usize)> {
        let [spec] = self.keys else {
            return None;
        };
        let at = usize::from(spec.first);
        (spec.is_one_key() && at < arguments.len()).then_some((spec, at))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Run::Data(_) => formatter.write_str("Data"),
            Run::Session => formatter.write_str("Session"),
            Run::Container => formatter.write_str("Container"),
        }
    }
}

/// Checks the number of arguments.
#[inline]
pub fn check_arity(
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<(), CommandError> {
    if command.has_arity(arguments) {
        Ok(())
    } else {
        Err(CommandError::WrongArity(command.full_name))
    }
}

/// Returns the error text for an unknown subcommand.
pub fn unknown_subcommand_text(command: &Command, arguments: Arguments<'_>) -> String {
    format!(
        "ERR unknown subcommand '{}'. Try {} HELP.",
        printable(arguments.get(1).unwrap_or_default(), ECHOED_BYTES_MAX),
        command.name.to_ascii_uppercase()
    )
}

/// The context of a handler.
#[derive(Debug)]
pub struct Call<'c, 'k, 'w> {
    pub(crate) arguments: Arguments<'c>,
    pub(crate) reply: &'c mut Writer<'w>,
    pub(crate) view: View<'c, 'k>,
    pub(crate) command: &'static Command,
    /// The hash of one argument, which the dispatcher computed to find the shard.
    pub(crate) hint: Option<(usize, u64)>,
    /// Whether the client can block.
    pub(crate) waiting: bool,
    /// What the handler wants to wait for.
    pub(crate) wait: Option<Wait>,
    /// What is propagated if the command changes something.
    pub(crate) propagated: Propagated,
}

/// Hashes a key whose hash is not known yet. It is a separate function, so that a known hash costs
/// only a comparison.
#[inline(never)]
fn hashed(bytes: &[u8]) -> Key<'_> {
    Key {
        bytes,
        hash: hash::of(bytes),
    }
}

/// What is propagated for a command that changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagated {
    /// The request as received.
    Request,
    /// What the handler passed to [`Call::propagate`], or nothing.
    Other,
}

impl<'c> Call<'c, '_, '_> {
    /// Returns argument `index` as a key.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Key<'c> {
        let bytes = self.argument(index);
        match self.hint {
            Some((at, hash)) if at == index => Key { bytes, hash },
            _ => hashed(bytes),
        }
    }

    /// Returns an argument that the arity guarantees.
    #[inline]
    pub(crate) fn argument(&self, index: usize) -> &'c [u8] {
        self.arguments.get(index).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn integer(&self, index: usize) -> Result<i64, CommandError> {
        tidewire_resp::number::parse_integer(self.argument(index)).ok_or(CommandError::NotInteger)
    }

    pub(crate) fn rest(&self, from: usize) -> Range<usize> {
        from..self.arguments.len()
    }

    /// Finds the place of a key. Returns an error if `is_wanted` rejects the type of its value.
    #[inline]
    pub(crate) fn find_if(
        &mut self,
        key: Key<'_>,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Option<Place>, CommandError> {
        match self.view.find(key) {
            Some(place) if !is_wanted(self.view.entry(key, place)) => Err(CommandError::WrongType),
            place => Ok(place),
        }
    }

    /// Records that elements were removed from a collection. An empty collection is deleted.
    pub(crate) fn after_removal(
        &mut self,
        key: Key<'_>,
        place: Place,
        event: Event,
        len: fn(&Entry) -> usize,
    ) {
        self.view.changed(key, place, event);
        if len(self.view.entry(key, place)) == 0 {
            self.view.remove(key, place, Event::Delete);
        }
    }

    /// Stores a result under a key, or deletes the key if the result is empty. Replies its length.
    pub(crate) fn store_result(
        &mut self,
        to: Key<'_>,
        result: Entry,
        len: fn(&Entry) -> usize,
        event: Event,
    ) {
        let count = len(&result);
        if count == 0 {
            self.view.delete(to, Event::Delete);
        } else {
            let place = self.view.replace(to, result);
            self.view.changed(to, place, event);
        }
        self.reply.integer(count as i64);
    }

    /// Returns whether changes are propagated. Reads one flag.
    #[inline]
    pub(crate) fn is_propagated(&self) -> bool {
        self.view.propagates
    }

    /// Propagates this command instead of the request; several become a transaction.
    pub(crate) fn propagate<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        self.propagated = Propagated::Other;
        self.view.propagate(words);
    }

    /// Propagates only what [`propagate`](Self::propagate) is given.
    #[inline]
    pub(crate) fn propagate_no_request(&mut self) {
        self.propagated = Propagated::Other;
    }

    /// Propagates the request with one argument replaced.
    pub(crate) fn propagate_with(&mut self, index: usize, argument: &[u8]) {
        debug_assert!(index < self.arguments.len());
        let words = self.arguments.iter().enumerate();
        let words = words.map(|(at, word)| if at == index { argument } else { word });
        self.propagate(words);
    }

    /// Propagates the removal of these members by a command of this name instead of the request.
    pub(crate) fn propagate_members(&mut self, name: &[u8], key: Key<'_>, members: Arguments<'_>) {
        self.propagate_no_request();
        let members: Vec<&[u8]> = members.iter().collect();
        for some in members.chunks(MEMBERS_AT_ONCE) {
            let mut words = vec![name, key.bytes];
            words.extend(some);
            self.propagate(words);
        }
    }

    /// Propagates that the command has removed a key.
    pub(crate) fn propagate_removed(&mut self, key: Key<'_>) {
        if !self.is_propagated() {
            return;
        }
        let name = self.view.keyspace.propagation().removal_command();
        self.propagate([name, key.bytes]);
    }

    /// Propagates that a key has expired.
    pub(crate) fn propagate_expired(&mut self, key: Key<'_>) {
        if !self.is_propagated() {
            return;
        }
        let name = self.view.keyspace.propagation().expiry_command();
        self.propagate([name, key.bytes]);
    }

    /// Propagates the deadline of a key, ms since the UNIX epoch.
    pub(crate) fn propagate_deadline(&mut self, key: Key<'_>, deadline_ms: i64) {
        if !self.is_propagated() {
            return;
        }
        let mut digits = itoa::Buffer::new();
        let deadline = digits.format(deadline_ms).as_bytes();
        self.propagate([&b"PEXPIREAT"[..], key.bytes, deadline]);
    }

    /// Propagates the request, unless the handler propagated something else or changed nothing.
    #[inline]
    pub(crate) fn propagate_request(&mut self) {
        if self.view.propagates
            && self.view.is_dirty
            && self.propagated == Propagated::Request
            && self.command.has(Flags::WRITE | Flags::MAY_REPLICATE)
        {
            self.view.propagate(self.arguments);
        }
    }
}

/// Members that one propagated command removes at most.
const MEMBERS_AT_ONCE: usize = 1024;
