//! The value of a key, as handlers and observers see it.

use std::fmt;

use tidewire_resp::Writer;

use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::fields::{self, Fields, TimedTable};
use crate::hash;
use crate::list::{self, List};
use crate::packed;
use crate::quicklist::Quicklist;
use crate::set::{self, Members};
use crate::sorted_set::{self, Scored, ScoredIter, SortedSet};
use crate::stream::{self, Stream};
use crate::table::Table;
use crate::text::Text;

/// A value that does not fit into its entry.
#[derive(Debug)]
pub(crate) enum Object {
    /// A hash: fields are keys of the table.
    Hash(Table),
    /// A hash with TTLs of fields. Boxed, so that other values do not become larger.
    TimedHash(Box<TimedTable>),
    /// A set: members are keys of the table, without values.
    Set(Table),
    /// Chunks of elements.
    List(Quicklist),
    /// Members indexed by name and by rank.
    SortedSet(SortedSet),
    /// Packed blocks of entries, and consumer groups.
    Stream(Stream),
}

impl Object {
    /// Prefetches the index slot for the element with this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        match self {
            Object::Hash(table) | Object::Set(table) => {
                if let Some(home) = table.home(hash) {
                    home.prefetch();
                }
            }
            Object::SortedSet(set) => set.prefetch_index(hash),
            Object::TimedHash(_) | Object::List(_) | Object::Stream(_) => {}
        }
    }

    /// Prefetches the element with this hash, some time after [`prefetch`](Self::prefetch), whose
    /// memory it reads. Returns true if another step, [`prefetch_passed`](Self::prefetch_passed),
    /// may be needed.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) -> bool {
        match self {
            Object::Hash(table) | Object::Set(table) => {
                table.home(hash).is_some_and(|home| home.prefetch_entry())
            }
            Object::SortedSet(set) => {
                set.prefetch_record(hash);
                false
            }
            Object::TimedHash(_) | Object::List(_) | Object::Stream(_) => false,
        }
    }

    /// Prefetches an element that is not in its home group.
    pub(crate) fn prefetch_passed(&self, hash: u64) {
        if let Object::Hash(table) | Object::Set(table) = self {
            table.prefetch_passed(hash);
        }
    }

    /// Returns its approximate number of allocations.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Object::Hash(table) | Object::Set(table) => table.len(),
            Object::TimedHash(table) => table.len(),
            Object::List(list) => list.chunks(),
            Object::SortedSet(set) => Scored::Large(set).len(),
            Object::Stream(stream) => stream.parts(),
        }
    }

    pub(crate) fn duplicate(&self) -> Object {
        match self {
            Object::Hash(fields) => Object::Hash(duplicate(fields)),
            Object::TimedHash(fields) => Object::TimedHash(Box::new(fields.duplicate())),
            Object::Set(members) => Object::Set(duplicate(members)),
            Object::List(list) => Object::List(list.clone()),
            Object::SortedSet(sorted_set) => Object::SortedSet(sorted_set.clone()),
            Object::Stream(stream) => Object::Stream(stream.clone()),
        }
    }
}

fn duplicate(table: &Table) -> Table {
    let mut copy = Table::new();
    for entry in table.iter() {
        let hash = hash::of(entry.key());
        copy.insert(hash, entry.duplicate(hash, entry.key()));
    }
    copy
}

/// The data types, as named by TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// Bytes or an integer.
    String,
    /// Fields with values.
    Hash,
    /// Unique members without order.
    Set,
    /// Elements in a sequence.
    List,
    /// Unique members in the order of their scores.
    SortedSet,
    /// Entries in the order of their ids.
    Stream,
}

impl ValueType {
    /// Returns the name in the reply of TYPE.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            ValueType::Hash => "hash",
            ValueType::Set => "set",
            ValueType::List => "list",
            ValueType::SortedSet => "zset",
            ValueType::Stream => "stream",
        }
    }
}

/// A read-only view of a value while its shard is locked.
#[derive(Clone, Copy)]
pub struct ValueRef<'a> {
    entry: &'a Entry,
    /// Fields with a deadline up to this time are hidden.
    now_ms: i64,
}

impl<'a> ValueRef<'a> {
    /// Views everything in the entry.
    #[inline]
    pub(crate) fn new(entry: &'a Entry) -> Self {
        ValueRef::at(entry, i64::MIN)
    }

    /// Views the entry's contents at this time.
    #[inline]
    pub(crate) fn at(entry: &'a Entry, now_ms: i64) -> Self {
        ValueRef { entry, now_ms }
    }

    /// Returns its data type.
    pub fn value_type(self) -> ValueType {
        match self.entry.kind() {
            Kind::Integer | Kind::Bytes => ValueType::String,
            Kind::PackedHash | Kind::PackedHashTimed => ValueType::Hash,
            Kind::Integers | Kind::PackedSet => ValueType::Set,
            Kind::Object => match self.entry.object() {
                Some(Object::Hash(_) | Object::TimedHash(_)) | None => ValueType::Hash,
                Some(Object::Set(_)) => ValueType::Set,
                Some(Object::List(_)) => ValueType::List,
                Some(Object::SortedSet(_)) => ValueType::SortedSet,
                Some(Object::Stream(_)) => ValueType::Stream,
            },
            Kind::PackedList => ValueType::List,
            Kind::PackedSortedSet => ValueType::SortedSet,
        }
    }

    /// Returns the encoding's name in the reply of OBJECT ENCODING.
    pub(crate) fn encoding(self) -> &'static str {
        match self.entry.kind() {
            Kind::Integer => "int",
            Kind::Bytes if self.entry.is_raw() => "raw",
            Kind::Bytes if self.entry.bytes().len() <= EMBEDDED_BYTES_MAX => "embstr",
            Kind::Bytes => "raw",
            Kind::Integers => "intset",
            Kind::PackedHashTimed => "listpackex",
            Kind::PackedHash | Kind::PackedSet | Kind::PackedList | Kind::PackedSortedSet => {
                "listpack"
            }
            Kind::Object => match self.entry.object() {
                Some(Object::List(_)) => "quicklist",
                Some(Object::SortedSet(_)) => "skiplist",
                Some(Object::Stream(_)) => "stream",
                _ => "hashtable",
            },
        }
    }

    /// Returns the number of a string that is stored as an integer.
    pub(crate) fn integer(self) -> Option<i64> {
        self.entry.integer()
    }

    pub(crate) fn duplicate(self, hash: u64, key: &[u8]) -> Entry {
        self.entry.duplicate(hash, key)
    }

    pub(crate) fn entry(self) -> &'a Entry {
        self.entry
    }

    /// Returns the text of a string; `None` for other types.
    #[inline]
    pub fn text(self) -> Option<Text<'a>> {
        match self.entry.kind() {
            Kind::Bytes => Some(Text::bytes(self.entry.bytes())),
            Kind::Integer => self.entry.integer().map(Text::integer),
            _ => None,
        }
    }

    /// Writes the text of a string as a reply. Returns false for other types, and writes nothing.
    #[inline]
    pub(crate) fn written_to(self, reply: &mut Writer<'_>) -> bool {
        match self.entry.kind() {
            Kind::Bytes => reply.bulk(self.entry.bytes()),
            Kind::Integer => match self.entry.integer() {
                Some(number) => reply.bulk_integer(number),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Returns the fields of a hash; `None` for other types.
    pub fn fields(self) -> Option<Fields<'a>> {
        Fields::of(self.entry, self.now_ms)
    }

    /// Returns the members of a set or the elements of a list; `None` for other types.
    pub fn items(self) -> Option<Items<'a>> {
        let members = self.members().map(ItemsKind::Set);
        members
            .or_else(|| self.list().map(ItemsKind::List))
            .map(Items)
    }

    /// Returns whether a collection has lost its last element and is about to be removed. An empty
    /// stream stays.
    pub(crate) fn is_emptied(self) -> bool {
        match self.value_type() {
            ValueType::String | ValueType::Stream => false,
            ValueType::Hash => fields::len(self.entry) == 0,
            ValueType::Set => set::len(self.entry) == 0,
            ValueType::List => list::len(self.entry) == 0,
            ValueType::SortedSet => sorted_set::len(self.entry) == 0,
        }
    }

    /// Returns the newest entry of a stream; `None` for other types, and for an empty stream.
    pub fn newest_entry(self) -> Option<StreamEntry<'a>> {
        let log = &self.stream()?.log;
        log.get(log.newest_id()?).map(StreamEntry)
    }

    pub(crate) fn has_newest_entry(self) -> bool {
        let newest_id = self.stream().and_then(|stream| stream.log.newest_id());
        newest_id.is_some()
    }

    pub(crate) fn list(self) -> Option<List<'a>> {
        List::of(self.entry)
    }

    pub(crate) fn members(self) -> Option<Members<'a>> {
        Members::of(self.entry)
    }

    pub(crate) fn stream(self) -> Option<&'a Stream> {
        Stream::of(self.entry)
    }

    /// Returns the members of a sorted set with their scores; `None` for other types.
    pub fn scored(self) -> Option<Scores<'a>> {
        self.sorted_set().map(Scores)
    }

    pub(crate) fn sorted_set(self) -> Option<Scored<'a>> {
        Scored::of(self.entry)
    }
}

/// An entry of a stream.
#[derive(Clone, Copy)]
pub struct StreamEntry<'a>(stream::Entry<'a>);

impl<'a> StreamEntry<'a> {
    /// Returns its id, as XRANGE replies it.
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Iterates over fields and values in the order of insertion; a field may occur several times.
    pub fn fields(&self) -> impl Iterator<Item = (Text<'a>, Text<'a>)> {
        let text = |(name, value)| (Text::bytes(name), value);
        self.0.fields().map(text)
    }
}

impl fmt::Debug for StreamEntry<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.id())?;
        formatter.debug_list().entries(self.fields()).finish()
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.text(), self.fields(), self.items()) {
            (Some(text), ..) => text.fmt(formatter),
            (_, Some(fields), _) => fields.fmt(formatter),
            (.., Some(items)) => items.fmt(formatter),
            _ => match (self.scored(), self.newest_entry()) {
                (Some(scores), _) => scores.fmt(formatter),
                (_, Some(entry)) => entry.fmt(formatter),
                _ => formatter.write_str("?"),
            },
        }
    }
}

/// The members of a set or the elements of a list.
#[derive(Clone, Copy)]
pub struct Items<'a>(ItemsKind<'a>);

#[derive(Clone, Copy)]
enum ItemsKind<'a> {
    Set(Members<'a>),
    List(List<'a>),
}

impl<'a> Items<'a> {
    /// Returns the number of elements.
    pub fn len(self) -> usize {
        match self.0 {
            ItemsKind::Set(members) => members.len(),
            ItemsKind::List(list) => list.len(),
        }
    }

    /// Returns whether there are no elements; never true for a value in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Iterates over the elements in order, or over the members in no particular order.
    pub fn iter(self) -> Box<dyn Iterator<Item = Text<'a>> + 'a> {
        match self.0 {
            ItemsKind::Set(members) => Box::new(members.iter()),
            ItemsKind::List(list) => Box::new(list.iter_from(0, false)),
        }
    }
}

impl<'a> IntoIterator for Items<'a> {
    type Item = Text<'a>;
    type IntoIter = Box<dyn Iterator<Item = Text<'a>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The members of a sorted set with their scores.
#[derive(Clone, Copy)]
pub struct Scores<'a>(Scored<'a>);

impl<'a> Scores<'a> {
    /// Returns the number of members.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no members; never true for a value in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Iterates over members and scores from the lowest score on.
    pub fn iter(self) -> ScoresIter<'a> {
        ScoresIter(self.0.iter())
    }
}

impl<'a> IntoIterator for Scores<'a> {
    type Item = (Text<'a>, f64);
    type IntoIter = ScoresIter<'a>;

    fn into_iter(self) -> ScoresIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Scores<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// Iterator over [`Scores`].
#[derive(Clone, Debug)]
pub struct ScoresIter<'a>(ScoredIter<'a>);

impl<'a> Iterator for ScoresIter<'a> {
    type Item = (Text<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// Converts a mounted topic's fields to an entry, so that every command can read it like a hash.
pub(crate) fn materialise(
    key: &[u8],
    scratch: &mut Vec<u8>,
    read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> bool,
) -> Option<Entry> {
    scratch.clear();
    scratch.extend_from_slice(packed::EMPTY);
    let mut count = 0;
    let found = read(&mut |field, value| {
        if count < packed::FIELDS_MAX {
            packed::push(scratch, field, value);
            count += 1;
        }
    });
    found.then(|| Entry::new(0, key, NewValue::Compact(Kind::PackedHash, scratch), false))
}

/// Returns the value that SET stores for these bytes: an integer if it formats to the same text.
#[inline]
pub(crate) fn string_value(bytes: &[u8]) -> NewValue<'_> {
    match bytes {
        [b'-' | b'0'..=b'9', ..] if bytes.len() <= INTEGER_BYTES_MAX => {
            match tidewire_resp::number::parse_integer(bytes) {
                Some(integer) => NewValue::Integer(integer),
                None => NewValue::Bytes(bytes),
            }
        }
        _ => NewValue::Bytes(bytes),
    }
}

/// OBJECT ENCODING returns `raw` for longer strings.
const EMBEDDED_BYTES_MAX: usize = 44;
const INTEGER_BYTES_MAX: usize = 20;
