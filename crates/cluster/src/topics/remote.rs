//! What an edge makes of another hub's topics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidewire_feed::wire::{
    Deletion, Flags, Header, Message, TopicJoin, TopicKind, TopicPart, TopicStamp,
};

use crate::frame::Packets;

use super::SLOTS_MAX;

/// What has happened to a topic of another hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicEvent<'a> {
    /// It has a value.
    Set {
        /// The topic's name.
        name: &'a Arc<[u8]>,
        /// What the value is.
        kind: TopicKind,
        /// The value.
        value: &'a [u8],
        /// Time of the change at its owner, nanoseconds since the UNIX epoch.
        time_ns: u64,
        /// Its sequence in the owner's stream.
        sequence: u64,
    },
    /// It is gone.
    Gone {
        /// The topic's name.
        name: &'a Arc<[u8]>,
    },
}

/// The receiver of a hub's topics: reads the bytes that an [`Edge`](crate::Edge) gives.
#[derive(Debug, Default)]
pub struct TopicClient {
    ids: HashMap<u32, Named>,
    topics: HashMap<Arc<[u8]>, Known>,
    /// Grows with each snapshot. What is of an earlier one when the join is complete is gone.
    generation: u64,
    join: TopicJoin,
    /// Sequence of the stream's next message: frames of the log and of the live subject overlap. 0
    /// behind a snapshot.
    next: u64,
    /// The block of a snapshot that is being read.
    stamp: Option<TopicStamp>,
    /// Values of a snapshot of which a part has come, by id and sequence.
    partial: HashMap<(u32, u64), Partial>,
    ignored: u64,
}

/// A topic by its id.
#[derive(Debug)]
struct Named {
    name: Arc<[u8]>,
    /// Messages up to this sequence are included.
    sequence: u64,
}

/// A topic by its name.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: u32,
    sequence: u64,
    generation: u64,
}

#[derive(Debug, Default)]
struct Partial {
    name: Option<Arc<[u8]>>,
    kind: Option<TopicKind>,
    time_ns: u64,
    length: usize,
    bytes: usize,
    parts: BTreeMap<usize, Box<[u8]>>,
}

impl TopicClient {
    /// Returns the number of topics.
    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    /// Returns how many messages made no sense, or had no room.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Reads whole packets.
    pub fn receive(&mut self, bytes: &[u8], tell: &mut dyn FnMut(TopicEvent<'_>)) {
        for packet in Packets::of(bytes) {
            let Ok(packet) = packet else {
                self.ignored += 1;
                return;
            };
            if packet.header.flags.contains(Flags::CONTROL) {
                continue;
            }
            let mut sequence = first_of(&packet.header);
            for message in packet.messages() {
                let Ok(message) = message else {
                    self.ignored += 1;
                    break;
                };
                let until = sequence.saturating_add(message.sequence_count());
                if packet.header.flags.contains(Flags::SNAPSHOT) {
                    self.snapshot_message(&message, tell);
                } else if until > self.next {
                    self.stream_message(&message, sequence, tell);
                    self.next = until;
                }
                sequence = until;
            }
        }
    }

    /// The join is complete: what the snapshot did not have is gone.
    pub fn joined(&mut self, tell: &mut dyn FnMut(TopicEvent<'_>)) {
        let generation = self.generation;
        self.partial.clear();
        self.topics.retain(|name, known| {
            let is_there = known.generation == generation;
            if !is_there {
                tell(TopicEvent::Gone { name });
            }
            is_there
        });
    }

    /// The source is not received any more: its topics are gone.
    pub fn end(&mut self, tell: &mut dyn FnMut(TopicEvent<'_>)) {
        for name in self.topics.keys() {
            tell(TopicEvent::Gone { name });
        }
        *self = TopicClient {
            ignored: self.ignored,
            ..TopicClient::default()
        };
    }

    fn snapshot_message(&mut self, message: &Message, tell: &mut dyn FnMut(TopicEvent<'_>)) {
        match message {
            Message::SnapshotBegin(_) => {
                self.generation += 1;
                self.ids.clear();
                self.partial.clear();
                self.join.clear();
                self.next = 0;
                self.stamp = None;
            }
            Message::TopicStamp(stamp) => {
                self.join.clear();
                self.stamp = Some(*stamp);
            }
            Message::Topic(part) => self.snapshot_part(part, tell),
            Message::SnapshotEnd(_) => {
                self.partial.clear();
                self.join.clear();
                self.stamp = None;
            }
            _ => {}
        }
    }

    fn snapshot_part(&mut self, part: &TopicPart, tell: &mut dyn FnMut(TopicEvent<'_>)) {
        let Some(stamp) = self.stamp.filter(|stamp| stamp.topic == part.topic) else {
            self.ignored += 1;
            return;
        };
        let key = (stamp.topic, stamp.sequence);
        if part.kind == TopicKind::Name {
            let Some(name) = self.join.push(part).map(Arc::<[u8]>::from) else {
                return;
            };
            let named = Named {
                name: name.clone(),
                sequence: stamp.named,
            };
            self.ids.insert(stamp.topic, named);
            self.partial.entry(key).or_default().name = Some(name);
            return;
        }
        let partial = self.partial.entry(key).or_default();
        if partial.kind.is_some_and(|kind| kind != part.kind) {
            self.ignored += 1;
            return;
        }
        partial.kind = Some(part.kind);
        (partial.time_ns, partial.length) = (part.time_ns, part.whole_length());
        let bytes = part.bytes();
        if partial.parts.insert(part.offset(), bytes.into()).is_none() {
            partial.bytes += bytes.len();
        }
        if partial.bytes == partial.length
            && let Some(name) = partial.name.clone()
            && let Some(partial) = self.partial.remove(&key)
        {
            if let Some(named) = self.ids.get_mut(&stamp.topic) {
                named.sequence = stamp.sequence;
            }
            let value = partial.parts.values().flat_map(|part| part.iter().copied());
            let value: Vec<u8> = value.collect();
            let of = (part.topic, stamp.sequence, part.time_ns);
            self.set(&name, (part.kind, &value), of, tell);
        }
    }

    fn stream_message(
        &mut self,
        message: &Message,
        sequence: u64,
        tell: &mut dyn FnMut(TopicEvent<'_>),
    ) {
        match message {
            Message::Topic(part) => self.stream_part(part, sequence, tell),
            Message::Deletion(deletion) => {
                self.join.clear();
                self.delete(deletion, sequence, tell);
            }
            Message::Skip(_) => self.join.clear(),
            _ => {}
        }
    }

    fn stream_part(
        &mut self,
        part: &TopicPart,
        sequence: u64,
        tell: &mut dyn FnMut(TopicEvent<'_>),
    ) {
        let mut join = std::mem::take(&mut self.join);
        if let Some(whole) = join.push(part) {
            let id = part.topic;
            let is_included = |named: &Named| sequence <= named.sequence;
            match (part.kind, self.ids.get_mut(&id)) {
                (_, Some(named)) if is_included(named) => {}
                (TopicKind::Name, _) => {
                    let name = whole.into();
                    self.ids.insert(id, Named { name, sequence });
                }
                (_, Some(named)) => {
                    named.sequence = sequence;
                    let name = named.name.clone();
                    self.set(
                        &name,
                        (part.kind, whole),
                        (id, sequence, part.time_ns),
                        tell,
                    );
                }
                // The snapshot is newer, and has nothing with this id.
                (_, None) => {}
            }
        }
        self.join = join;
    }

    fn delete(&mut self, deletion: &Deletion, sequence: u64, tell: &mut dyn FnMut(TopicEvent<'_>)) {
        let id = deletion.topic;
        let named = self.ids.get(&id);
        if named.is_none_or(|named| sequence <= named.sequence) {
            return;
        }
        let Some(named) = self.ids.remove(&id) else {
            return;
        };
        // The name may be another id's by now.
        let known = self.topics.get(&named.name);
        if known.is_some_and(|known| known.id == id || known.generation != self.generation) {
            self.topics.remove(&named.name);
            tell(TopicEvent::Gone { name: &named.name });
        }
    }

    fn set(
        &mut self,
        name: &Arc<[u8]>,
        (kind, value): (TopicKind, &[u8]),
        (id, sequence, time_ns): (u32, u64, u64),
        tell: &mut dyn FnMut(TopicEvent<'_>),
    ) {
        let generation = self.generation;
        let known = self.topics.get(name);
        // In a snapshot the pages are of different times: one may have the topic's former id.
        if known.is_some_and(|known| known.generation == generation && known.sequence > sequence) {
            return;
        }
        if known.is_none() && self.topics.len() >= SLOTS_MAX {
            self.ignored += 1;
            return;
        }
        let known = Known {
            id,
            sequence,
            generation,
        };
        self.topics.insert(name.clone(), known);
        tell(TopicEvent::Set {
            name,
            kind,
            value,
            time_ns,
            sequence,
        });
    }
}

/// Returns the sequence of a packet's first message.
fn first_of(header: &Header) -> u64 {
    header.first_sequence
}
