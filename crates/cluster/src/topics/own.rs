//! The topics that a hub publishes: their stream, and the records of their snapshot.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tidewire_feed::journal::{Everything, Journal};
use tidewire_feed::server::Relay;
use tidewire_feed::wire::{
    Deletion, Message, PacketWriter, TOPIC_NAME_LENGTH_MAX, TopicKind, TopicPart, TopicStamp,
};

use crate::reader::{Reader, Records};

use super::{BLOCK_LENGTH, BLOCK_PARTS};

/// Maximum slots: topics, and the further blocks of long values.
pub const SLOTS_MAX: usize = 1 << 20;
/// Messages that the journal keeps: 32 MiB.
const JOURNAL_MESSAGES: usize = 1 << 19;

/// The topics of a hub.
#[derive(Debug)]
pub struct OwnTopics {
    journal: Journal,
    ids: HashMap<Box<[u8]>, u32>,
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    left_out: u64,
    slots_max: usize,
}

/// A place among the records.
#[derive(Debug)]
struct Slot {
    /// Sequence of the newest message about what is or was here.
    changed: u64,
    holds: Holds,
}

#[derive(Debug)]
enum Holds {
    Nothing,
    Topic(Topic),
    /// A further block of the topic with this id.
    Block(u32, usize),
}

#[derive(Debug)]
struct Topic {
    name: Box<[u8]>,
    kind: TopicKind,
    value: Box<[u8]>,
    time_ns: u64,
    /// Sequence of the last part of the name.
    named: u64,
    /// Slots of further blocks.
    blocks: Vec<u32>,
}

impl OwnTopics {
    /// Creates a stream without topics.
    pub fn new(session: u32) -> OwnTopics {
        OwnTopics {
            journal: Journal::new(session, JOURNAL_MESSAGES),
            ids: HashMap::new(),
            slots: Vec::new(),
            free: BinaryHeap::new(),
            left_out: 0,
            slots_max: SLOTS_MAX,
        }
    }

    #[cfg(test)]
    pub(super) fn with_limits(session: u32, messages: usize, slots_max: usize) -> OwnTopics {
        OwnTopics {
            journal: Journal::new(session, messages),
            slots_max,
            ..OwnTopics::new(session)
        }
    }

    /// Returns the stream.
    pub fn relay(&self) -> Relay<'_, Everything> {
        Relay::new(&self.journal, &Everything)
    }

    /// Returns the number of topics.
    pub fn topics(&self) -> usize {
        self.ids.len()
    }

    /// Returns how many values had no room, or were too long.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the names of the topics.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.ids.keys().map(|name| &**name)
    }

    /// Returns a topic's value.
    pub fn get(&self, name: &[u8]) -> Option<(TopicKind, &[u8])> {
        let topic = self.topic(*self.ids.get(name)?)?;
        Some((topic.kind, &topic.value))
    }

    /// Publishes a topic's value. If it is too long, or there is no room for it, the topic is
    /// removed and counted: an old value must not look like the present one. Returns whether it is
    /// published.
    pub fn set(&mut self, name: &[u8], kind: TopicKind, value: &[u8], time_ns: u64) -> bool {
        let is_possible = (1..=TOPIC_NAME_LENGTH_MAX).contains(&name.len())
            && TopicPart::split(kind, 0, 0, value).next().is_some();
        let id = is_possible.then(|| self.id_with_room(name, value.len(), time_ns));
        let Some(id) = id.flatten() else {
            self.left_out += 1;
            self.remove(name, time_ns);
            return false;
        };
        for part in TopicPart::split(kind, id, time_ns, value) {
            self.journal.append(&Message::Topic(part));
        }
        let changed = self.journal.next_sequence() - 1;
        self.slots[id as usize].changed = changed;
        let mut blocks = Vec::new();
        if let Holds::Topic(topic) = &mut self.slots[id as usize].holds {
            (topic.kind, topic.value, topic.time_ns) = (kind, value.into(), time_ns);
            blocks = std::mem::take(&mut topic.blocks);
        }
        self.fit_blocks(id, &mut blocks, value.len(), changed);
        if let Holds::Topic(topic) = &mut self.slots[id as usize].holds {
            topic.blocks = blocks;
        }
        true
    }

    /// Publishes that a topic is gone. Returns whether it was there.
    pub fn remove(&mut self, name: &[u8], time_ns: u64) -> bool {
        let Some(id) = self.ids.remove(name) else {
            return false;
        };
        let gone = Deletion { topic: id, time_ns };
        let changed = self.journal.append(&Message::Deletion(gone));
        let slot = &mut self.slots[id as usize];
        let blocks = match std::mem::replace(&mut slot.holds, Holds::Nothing) {
            Holds::Topic(topic) => topic.blocks,
            Holds::Nothing | Holds::Block(..) => Vec::new(),
        };
        for slot in blocks.into_iter().chain([id]) {
            self.release(slot, changed);
        }
        true
    }

    /// Returns the id of a topic whose value will have this length; `None` if there is no room.
    fn id_with_room(&mut self, name: &[u8], length: usize, time_ns: u64) -> Option<u32> {
        let known = self.ids.get(name).copied();
        let wanted = length.div_ceil(BLOCK_LENGTH).max(1);
        let has = known.map_or(0, |id| {
            1 + self.topic(id).map_or(0, |found| found.blocks.len())
        });
        let room = self.free.len() + self.slots_max.saturating_sub(self.slots.len());
        if wanted > has + room {
            return None;
        }
        known.or_else(|| Some(self.define(name, time_ns)))
    }

    fn define(&mut self, name: &[u8], time_ns: u64) -> u32 {
        let id = self.take_slot();
        for part in TopicPart::split(TopicKind::Name, id, time_ns, name) {
            self.journal.append(&Message::Topic(part));
        }
        let named = self.journal.next_sequence() - 1;
        let topic = Topic {
            name: name.into(),
            kind: TopicKind::Value,
            value: Box::default(),
            time_ns,
            named,
            blocks: Vec::new(),
        };
        self.slots[id as usize] = Slot {
            changed: named,
            holds: Holds::Topic(topic),
        };
        self.ids.insert(name.into(), id);
        id
    }

    /// Gives a value of this length as many further blocks as it needs.
    fn fit_blocks(&mut self, id: u32, blocks: &mut Vec<u32>, length: usize, changed: u64) {
        let wanted = length.div_ceil(BLOCK_LENGTH).max(1) - 1;
        while blocks.len() > wanted {
            if let Some(slot) = blocks.pop() {
                self.release(slot, changed);
            }
        }
        while blocks.len() < wanted {
            let slot = self.take_slot();
            self.slots[slot as usize].holds = Holds::Block(id, blocks.len() + 1);
            blocks.push(slot);
        }
        for &slot in &*blocks {
            self.slots[slot as usize].changed = changed;
        }
    }

    fn take_slot(&mut self) -> u32 {
        if let Some(Reverse(slot)) = self.free.pop() {
            return slot;
        }
        debug_assert!(self.slots.len() < self.slots_max, "there is room");
        self.slots.push(Slot {
            changed: 0,
            holds: Holds::Nothing,
        });
        self.slots.len() as u32 - 1
    }

    fn release(&mut self, slot: u32, changed: u64) {
        self.slots[slot as usize] = Slot {
            changed,
            holds: Holds::Nothing,
        };
        self.free.push(Reverse(slot));
    }

    fn topic(&self, id: u32) -> Option<&Topic> {
        match &self.slots.get(id as usize)?.holds {
            Holds::Topic(topic) => Some(topic),
            Holds::Nothing | Holds::Block(..) => None,
        }
    }
}

impl Records for OwnTopics {
    fn len(&self) -> usize {
        self.slots.len()
    }

    fn changed(&self, index: usize) -> u64 {
        self.slots[index].changed
    }

    fn write(&self, index: usize, _reader: &impl Reader, writer: &mut PacketWriter<'_>) -> bool {
        let slot = &self.slots[index];
        let (id, block) = match slot.holds {
            Holds::Nothing => return false,
            Holds::Topic(_) => (index as u32, 0),
            Holds::Block(id, block) => (id, block),
        };
        let Some(topic) = self.topic(id) else {
            debug_assert!(false, "a block belongs to a topic");
            return false;
        };
        writer.push(&Message::TopicStamp(TopicStamp {
            topic: id,
            sequence: slot.changed,
            named: topic.named,
        }));
        if block == 0 {
            for part in TopicPart::split(TopicKind::Name, id, topic.time_ns, &topic.name) {
                writer.push(&Message::Topic(part));
            }
        }
        let numbers = block * BLOCK_PARTS..(block + 1) * BLOCK_PARTS;
        for part in TopicPart::range(topic.kind, id, topic.time_ns, &topic.value, numbers) {
            writer.push(&Message::Topic(part));
        }
        true
    }
}
