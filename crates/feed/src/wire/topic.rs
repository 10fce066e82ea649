//! Topics beyond market data: their names, values, plant tags and removals.

use std::ops::Range;

use super::bytes::{put, u32_at, u64_at};
use super::message::prefix;
use super::{MESSAGE_LENGTH_MAX, MessageError, MessageKind};

/// Maximum bytes of a topic's name.
pub const TOPIC_NAME_LENGTH_MAX: usize = 1_024;
/// Maximum bytes of a topic's value, the head of a tag included.
pub const TOPIC_VALUE_LENGTH_MAX: usize = (1 << 20) + TagHead::LENGTH;
/// Maximum bytes of a name or value in one part.
pub const TOPIC_PART_LENGTH_MAX: usize = MESSAGE_LENGTH_MAX - HEAD_LENGTH;

/// What the bytes of a [`TopicPart`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicKind {
    /// The topic's name, as clients see it, such as `live:mode`. The id has no value from then on.
    Name,
    /// Its value: the bytes that subscribers get.
    Value,
    /// The value of a plant tag: a [`TagHead`], then the value.
    Tag,
}

impl TopicKind {
    const ALL: [TopicKind; 3] = [TopicKind::Name, TopicKind::Value, TopicKind::Tag];

    fn nibble(self) -> u8 {
        match self {
            TopicKind::Name => MessageKind::TOPIC_NAME,
            TopicKind::Value => MessageKind::TOPIC_VALUE,
            TopicKind::Tag => MessageKind::TOPIC_TAG,
        }
    }

    /// Returns the maximum bytes of all parts.
    pub fn length_max(self) -> usize {
        match self {
            TopicKind::Name => TOPIC_NAME_LENGTH_MAX,
            TopicKind::Value | TopicKind::Tag => TOPIC_VALUE_LENGTH_MAX,
        }
    }

    fn length_min(self) -> usize {
        match self {
            TopicKind::Name => 1,
            TopicKind::Value => 0,
            TopicKind::Tag => TagHead::LENGTH,
        }
    }
}

/// A part of a topic's name or value: 32 to 240 bytes.
///
/// The parts of a name or value have consecutive sequences, in the order of their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPart {
    /// What the bytes are.
    pub kind: TopicKind,
    /// The topic's id, as its name says.
    pub topic: u32,
    /// Time of the change, nanoseconds since the UNIX epoch; 0 if unknown.
    pub time_ns: u64,
    /// Bytes of the whole name or value.
    length: u32,
    /// Offset of this part in them.
    offset: u32,
    bytes: [u8; TOPIC_PART_LENGTH_MAX],
}

impl TopicPart {
    /// Returns the parts of a name or value, in order; none if it is too long or too short.
    pub fn split(
        kind: TopicKind,
        topic: u32,
        time_ns: u64,
        whole: &[u8],
    ) -> impl Iterator<Item = TopicPart> {
        TopicPart::range(kind, topic, time_ns, whole, 0..usize::MAX)
    }

    /// Returns the parts with these numbers, counted from 0.
    pub fn range(
        kind: TopicKind,
        topic: u32,
        time_ns: u64,
        whole: &[u8],
        numbers: Range<usize>,
    ) -> impl Iterator<Item = TopicPart> {
        let is_possible = (kind.length_min()..=kind.length_max()).contains(&whole.len());
        // An empty value has one part.
        let count = match is_possible {
            true => whole.len().div_ceil(TOPIC_PART_LENGTH_MAX).max(1),
            false => 0,
        };
        (numbers.start..numbers.end.min(count)).map(move |number| {
            let offset = number * TOPIC_PART_LENGTH_MAX;
            let part = &whole[offset..whole.len().min(offset + TOPIC_PART_LENGTH_MAX)];
            let mut bytes = [0; TOPIC_PART_LENGTH_MAX];
            bytes[..part.len()].copy_from_slice(part);
            TopicPart {
                kind,
                topic,
                time_ns,
                length: whole.len() as u32,
                offset: offset as u32,
                bytes,
            }
        })
    }

    /// Returns what a part of this type byte has; `None` for another message.
    pub(super) fn kind_of(kind: u8) -> Option<TopicKind> {
        let mut kinds = TopicKind::ALL.into_iter();
        let found = kinds.find(|known| known.nibble() == kind & 0x0f);
        found.filter(|_| kind >> 4 >= 2)
    }

    /// Returns the type byte, which depends on the length.
    pub(super) fn message_kind(&self) -> MessageKind {
        let units = (HEAD_LENGTH + self.bytes().len()).div_ceil(16);
        MessageKind((units as u8) << 4 | self.kind.nibble())
    }

    /// Returns the bytes of the whole name or value.
    pub fn whole_length(&self) -> usize {
        self.length as usize
    }

    /// Returns where this part stands in it.
    pub fn offset(&self) -> usize {
        self.offset as usize
    }

    /// Returns this part's bytes.
    pub fn bytes(&self) -> &[u8] {
        let rest = self.length.saturating_sub(self.offset) as usize;
        &self.bytes[..TOPIC_PART_LENGTH_MAX.min(rest)]
    }

    /// Decodes a part of this kind.
    pub(super) fn from_bytes(kind: TopicKind, bytes: &[u8]) -> Result<TopicPart, MessageError> {
        let (head, body) = bytes
            .split_first_chunk::<HEAD_LENGTH>()
            .ok_or(MessageError::Truncated)?;
        let mut part = TopicPart {
            kind,
            topic: u32_at(head, 4),
            time_ns: u64_at(head, 8),
            length: u32_at(head, 16),
            offset: u32_at(head, 20),
            bytes: [0; TOPIC_PART_LENGTH_MAX],
        };
        let lengths = kind.length_min()..=kind.length_max();
        let is_ordered = lengths.contains(&part.whole_length())
            && part.offset().is_multiple_of(TOPIC_PART_LENGTH_MAX)
            && (part.offset < part.length || part.offset == 0);
        if !is_ordered || part.message_kind() != MessageKind(bytes[0]) {
            return Err(MessageError::BadTopic);
        }
        let length = part.bytes().len();
        part.bytes[..length].copy_from_slice(&body[..length]);
        Ok(part)
    }

    /// Appends the encoded part.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let kind = self.message_kind();
        let mut head: [u8; HEAD_LENGTH] = prefix(kind.0, 0, self.topic, self.time_ns);
        put(&mut head, 16, self.length.to_le_bytes());
        put(&mut head, 20, self.offset.to_le_bytes());
        let end = out.len() + kind.encoded_length();
        out.extend_from_slice(&head);
        out.extend_from_slice(self.bytes());
        debug_assert!(out.len() <= end, "the type byte has the length");
        out.resize(end, 0);
    }
}

/// A topic is gone: 16 bytes. Its id means nothing until a name gives it another topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The topic's id.
    pub topic: u32,
    /// Time of the removal, nanoseconds since the UNIX epoch; 0 if unknown.
    pub time_ns: u64,
}

impl Deletion {
    /// Bytes on the wire.
    pub const LENGTH: usize = super::PREFIX_LENGTH;

    pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Deletion {
        Deletion {
            topic: u32_at(bytes, 4),
            time_ns: u64_at(bytes, 8),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        prefix(MessageKind::DELETION, 0, self.topic, self.time_ns)
    }
}

/// In a snapshot, before a block of a topic's name and value: 32 bytes. Blocks with the same id and
/// sequence belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicStamp {
    /// The topic's id.
    pub topic: u32,
    /// Sequence of the newest message about the topic that the block includes.
    pub sequence: u64,
    /// Sequence of the last part of its name: no message before it is about this topic.
    pub named: u64,
}

impl TopicStamp {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> TopicStamp {
        TopicStamp {
            topic: u32_at(bytes, 4),
            sequence: u64_at(bytes, 16),
            named: u64_at(bytes, 24),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = prefix(MessageKind::TOPIC_STAMP, 0, self.topic, 0);
        put(&mut bytes, 16, self.sequence.to_le_bytes());
        put(&mut bytes, 24, self.named.to_le_bytes());
        bytes
    }
}

/// What precedes the value of a plant tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagHead {
    /// The OPC quality word; 192 is good.
    pub quality: u16,
    /// The type of the value on the NMX wire.
    pub value_kind: u8,
    /// Whether the owner's link to the plant is lost, or the tag silent.
    pub is_stale: bool,
    /// The status of the plant, packed.
    pub status: u32,
    /// Time of the change at the plant, as a FILETIME.
    pub source_time: u64,
    /// When the owner has received it, nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// The code of the tag's type.
    pub data_type: u16,
    /// Whether the type is an array.
    pub is_array: bool,
}

impl TagHead {
    /// Bytes on the wire.
    pub const LENGTH: usize = 32;

    /// Decodes the head of a tag's value. Returns it and the value.
    pub fn decode(bytes: &[u8]) -> Option<(TagHead, &[u8])> {
        let (head, value) = bytes.split_first_chunk::<{ Self::LENGTH }>()?;
        let decoded = TagHead {
            quality: u16::from_le_bytes([head[0], head[1]]),
            value_kind: head[2],
            is_stale: head[3] & 1 != 0,
            status: u32_at(head, 4),
            source_time: u64_at(head, 8),
            receive_time_ns: u64_at(head, 16),
            data_type: u16::from_le_bytes([head[24], head[25]]),
            is_array: head[3] & 2 != 0,
        };
        Some((decoded, value))
    }

    /// Encodes the head.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        put(&mut bytes, 0, self.quality.to_le_bytes());
        bytes[2] = self.value_kind;
        bytes[3] = u8::from(self.is_stale) | u8::from(self.is_array) << 1;
        put(&mut bytes, 4, self.status.to_le_bytes());
        put(&mut bytes, 8, self.source_time.to_le_bytes());
        put(&mut bytes, 16, self.receive_time_ns.to_le_bytes());
        put(&mut bytes, 24, self.data_type.to_le_bytes());
        bytes
    }
}

/// Joins the parts of one name or value after another.
#[derive(Clone, Debug, Default)]
pub struct TopicJoin {
    of: Option<(TopicKind, u32, usize)>,
    whole: Vec<u8>,
}

impl TopicJoin {
    /// Takes the next part. Returns the whole name or value when it is complete. A part that does
    /// not continue the one before it drops what was kept; the first part always begins one.
    pub fn push(&mut self, part: &TopicPart) -> Option<&[u8]> {
        let of = Some((part.kind, part.topic, part.whole_length()));
        if part.offset() == 0 {
            self.whole.clear();
            self.of = of;
        }
        if self.of != of || part.offset() != self.whole.len() {
            self.whole.clear();
            self.of = None;
            return None;
        }
        self.whole.extend_from_slice(part.bytes());
        debug_assert!(
            self.whole.len() <= part.kind.length_max(),
            "every part has its place"
        );
        (self.whole.len() == part.whole_length()).then_some(&self.whole[..])
    }

    /// Drops what was kept: the next part does not continue it.
    pub fn clear(&mut self) {
        self.whole.clear();
        self.of = None;
    }
}

/// Bytes before those of the name or value: the prefix, the length and the offset.
const HEAD_LENGTH: usize = 24;
