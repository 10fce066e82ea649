//! The plant's confirmed tags: every `mx:` topic, its slot and its type.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_fanout::{Interest, Topic, TopicId};
use tidewire_lastvalue::{TagSlot, TagValue};
use tidewire_mx::value::{DataType, Value};

use super::PLANT_PREFIX;
use crate::text::QUALITY_WAITING;

/// All tags that the plant has confirmed. Tags are only added; their numbers are consecutive from
/// 0.
#[derive(Debug)]
pub struct TagBoard {
    numbers: RwLock<HashMap<Box<str>, u32, RandomState>>,
    tags: RwLock<Vec<Arc<Tag>>>,
    /// The existing lanes, one bit each.
    lanes: u64,
    tags_max: usize,
    sequence: AtomicU64,
}

/// A tag.
#[derive(Debug)]
pub struct Tag {
    /// The tag's number on the board.
    pub number: u32,
    /// The name that clients subscribe to: `mx:Tank1.Level`.
    pub channel: Box<[u8]>,
    /// The latest value, quality and times. The bytes are those of [`Value::from_wire`].
    pub slot: TagSlot,
    /// One bit per lane that may have a subscriber, as for a market topic.
    interest: Interest,
    /// The code of the type, and [`ARRAY`].
    data_type: AtomicU32,
}

impl TagBoard {
    /// Creates an empty board of at most `tags_max` tags, for the lanes of `lanes` (one bit
    /// each).
    pub(crate) fn new(tags_max: usize, lanes: u64) -> Self {
        debug_assert_ne!(lanes, 0, "there is a lane that may have a subscriber");
        Self {
            numbers: RwLock::default(),
            tags: RwLock::default(),
            lanes,
            tags_max: tags_max.min(u32::MAX as usize),
            sequence: AtomicU64::new(0),
        }
    }

    /// Returns the number of tags.
    pub fn len(&self) -> usize {
        self.tags.read().len()
    }

    /// Returns whether there is no tag.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tag with this number.
    pub fn tag(&self, number: u32) -> Option<Arc<Tag>> {
        self.tags.read().get(number as usize).cloned()
    }

    /// Returns the tag of this name, without the prefix.
    pub fn find(&self, name: &str) -> Option<Arc<Tag>> {
        let number = *self.numbers.read().get(name)?;
        self.tag(number)
    }

    /// Returns the tag of a channel name (`mx:Tank1.Level`).
    pub fn find_channel(&self, channel: &[u8]) -> Option<Arc<Tag>> {
        self.find(crate::plant::name_of(channel)?)
    }

    /// Shows the tags of these numbers, as far as they exist.
    pub(crate) fn with_tags(&self, numbers: Range<u32>, look: impl FnOnce(&[Arc<Tag>])) {
        let tags = self.tags.read();
        let numbers = numbers.start as usize..(numbers.end as usize).min(tags.len());
        look(tags.get(numbers).unwrap_or_default());
    }

    /// Returns whether a tag name begins with `prefix`.
    pub(crate) fn has_names_with(&self, prefix: &str) -> bool {
        let tags = self.tags.read();
        tags.iter().any(|tag| tag.name().starts_with(prefix))
    }

    /// Appends the channel name of a tag; returns false after the last one.
    pub(crate) fn channel(&self, position: usize, out: &mut Vec<u8>) -> bool {
        let tags = self.tags.read();
        let Some(tag) = tags.get(position) else {
            return false;
        };
        out.extend_from_slice(&tag.channel);
        true
    }

    /// Returns the tag of this name, and adds it if it is new; `None` if the board is full. Only
    /// the link calls this.
    pub(crate) fn define(&self, name: &str) -> Option<Arc<Tag>> {
        if let Some(tag) = self.find(name) {
            return Some(tag);
        }
        let mut tags = self.tags.write();
        if tags.len() >= self.tags_max {
            return None;
        }
        let tag = Arc::new(Tag {
            number: tags.len() as u32,
            channel: [PLANT_PREFIX, name.as_bytes()].concat().into(),
            slot: TagSlot::new(),
            // The lanes that wait for this name are unknown: every lane checks at the first
            // publication.
            interest: Interest::of(self.lanes),
            data_type: AtomicU32::new(0),
        });
        debug_assert!(
            crate::plant::is_name(name),
            "a plant has no tag of another form"
        );
        tags.push(tag.clone());
        drop(tags);
        let other = self.numbers.write().insert(name.into(), tag.number);
        debug_assert!(other.is_none(), "only the link defines tags, each once");
        Some(tag)
    }

    /// Returns the number of the next change of any tag, from 1.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the number of the latest change.
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }
}

impl Tag {
    /// Creates a tag that is on no board, with the channel name of one of another hub.
    pub(crate) fn remote(channel: &[u8]) -> Self {
        Self {
            number: 0,
            channel: channel.into(),
            slot: TagSlot::new(),
            interest: Interest::of(1),
            data_type: AtomicU32::new(0),
        }
    }

    /// Returns the name without the prefix.
    pub fn name(&self) -> &str {
        crate::plant::name_of(&self.channel).unwrap_or_default()
    }

    /// Returns a copy of the state. Before the first change the quality is "waiting".
    pub fn state(&self) -> TagValue {
        let mut state = self.slot.snapshot();
        debug_assert!(
            state.updates > 0 || state.sequence == 0,
            "a number comes with an update"
        );
        if state.updates == 0 {
            (state.quality, state.stale) = (QUALITY_WAITING, true);
        }
        state
    }

    /// Returns the type, and whether it is an array of that type.
    pub fn data_type(&self) -> (DataType, bool) {
        let word = self.data_type.load(Ordering::Relaxed);
        (DataType::from_code(word as u16), word & ARRAY != 0)
    }

    pub(crate) fn set_data_type(&self, data_type: DataType, is_array: bool) {
        let array = if is_array { ARRAY } else { 0 };
        let word = u32::from(data_type.code()) | array;
        debug_assert_eq!(word as u16, data_type.code(), "the mark is above the code");
        self.data_type.store(word, Ordering::Relaxed);
    }

    /// Returns the lanes that may have subscribers, one bit each.
    #[inline]
    pub fn interest(&self) -> u64 {
        self.interest.lanes()
    }
}

impl Topic for Tag {
    fn id(&self) -> TopicId {
        TopicId::Tag(self.number)
    }

    fn channel(&self) -> &[u8] {
        &self.channel
    }

    fn add_interest(&self, lane: usize) {
        self.interest.add(lane);
    }

    fn clear_interest(&self, lane: usize) {
        self.interest.clear(lane);
    }
}

/// Returns the value of a state.
pub(crate) fn value_of(state: &TagValue) -> Value<'_> {
    Value::from_wire(state.kind, state.bytes.as_slice())
}

/// Flag beside the code of a type: it is an array.
const ARRAY: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_keeps_its_number_and_there_are_no_more_than_there_may_be() {
        let board = TagBoard::new(2, 1);
        let first = board.define("Tank1.Level").unwrap();
        assert_eq!(board.define("Tank1.Level").unwrap().number, first.number);
        assert_eq!(board.define("Tank1.Count").unwrap().number, 1);
        assert!(board.define("Tank1.Name").is_none());
        assert_eq!(board.find_channel(b"mx:Tank1.Count").unwrap().number, 1);
        assert!(board.find_channel(b"Tank1.Count").is_none());
        assert_eq!((first.name(), board.len()), ("Tank1.Level", 2));
        let state = first.state();
        assert_eq!((state.quality, state.stale), (32, true), "waiting");
        assert_eq!(value_of(&state), Value::None);
    }

    #[test]
    fn a_type_is_kept_with_whether_it_is_an_array() {
        let tag = TagBoard::new(1, 1).define("A.B").unwrap();
        for data_type in [DataType::Boolean, DataType::Other(65_535)] {
            for is_array in [true, false] {
                tag.set_data_type(data_type, is_array);
                assert_eq!(tag.data_type(), (data_type, is_array));
            }
        }
    }
}
