//! Frames on their way from one socket of the process to another, in order.

use std::collections::VecDeque;

use crate::message::{Message, SHORT_ROOM_BYTES, Single};
use crate::pressure;

/// What was written at one end and not yet taken out at the other.
///
/// Short frames lie one behind another in one run of bytes, each behind a mark: what the reader
/// frees then was never allocated, and two threads do not meet in the allocator. Everything else
/// lies in a queue; an empty mark stands for it among the bytes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Taken out up to here.
    at: usize,
    others: VecDeque<Item>,
    /// What the long bodies weigh that were put in or taken out since this was last asked.
    weight: usize,
    /// Times in a row that most of the room was not used.
    calm: u8,
}

/// What travels through a pipe.
#[derive(Debug)]
pub(crate) enum Item {
    Frame(Message),
    Subscribe(Vec<u8>),
    Cancel(Vec<u8>),
}

/// Goes before each frame: its length above two bits.
#[derive(Debug, Clone, Copy)]
struct Mark(u32);

impl Mark {
    const BYTES: usize = 4;
    const OTHER: Mark = Mark(1);
    const MORE: u32 = 2;
    const LENGTH_SHIFT: u32 = 2;

    #[inline]
    fn of_frame(length: usize, more: bool) -> Mark {
        Mark((length as u32) << Mark::LENGTH_SHIFT | if more { Mark::MORE } else { 0 })
    }

    #[inline]
    fn is_other(self) -> bool {
        self.0 & Mark::OTHER.0 != 0
    }

    #[inline]
    fn more(self) -> bool {
        self.0 & Mark::MORE != 0
    }

    #[inline]
    fn length(self) -> usize {
        (self.0 >> Mark::LENGTH_SHIFT) as usize
    }
}

impl Batch {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        debug_assert!(self.at <= self.bytes.len(), "what is taken out was put in");
        debug_assert!(
            self.at < self.bytes.len() || self.others.is_empty(),
            "a mark for each"
        );
        self.at == self.bytes.len()
    }

    /// Whole messages in here.
    pub(crate) fn messages(&self) -> usize {
        let mut others = self.others.iter();
        let (mut at, mut count) = (self.at, 0);
        while let Some((mark, _)) = self.bytes.get(at..).and_then(<[u8]>::split_first_chunk) {
            let mark = Mark(u32::from_ne_bytes(*mark));
            let more = match mark.is_other() {
                false => mark.more(),
                true => !matches!(others.next(), Some(Item::Frame(frame)) if !frame.more()),
            };
            count += usize::from(!more);
            at += Mark::BYTES + mark.length();
        }
        count
    }

    /// Drops everything. A buffer that grew large is halved when it stays mostly unused.
    pub(crate) fn clear(&mut self) {
        let (used, room) = (self.bytes.len(), self.bytes.capacity());
        self.bytes.clear();
        if room > KEPT_BYTES {
            self.calm = if used < room / 4 { self.calm + 1 } else { 0 };
            if self.calm == CALM_MAX {
                self.calm = 0;
                self.bytes.shrink_to(room / 2);
            }
        }
        self.at = 0;
        self.others.clear();
    }

    #[inline]
    pub(crate) fn is_short_slice(bytes: &[u8]) -> bool {
        bytes.len() <= SHORT_SLICE_BYTES_MAX
    }

    #[inline]
    pub(crate) fn push(&mut self, message: Message) {
        if message.len() <= SHORT_BYTES_MAX && message.is_plain() {
            self.push_short(&message, message.more());
        } else {
            self.push_item(Item::Frame(message));
        }
    }

    /// The last frame of a message. A short one is copied and stays where it is: the caller lets it
    /// go, without a lock.
    #[inline]
    pub(crate) fn push_from(&mut self, message: &mut Message) {
        match message.short() {
            Some((length, room)) if message.is_plain() => {
                self.push_room(usize::from(length), room, message.more());
            }
            _ if message.len() <= SHORT_BYTES_MAX && message.is_plain() => {
                self.push_short(message, message.more());
            }
            _ => self.push_item(Item::Frame(std::mem::take(message))),
        }
    }

    /// A frame in a room of fixed length, all of which is copied: this takes fewer instructions
    /// than to copy some bytes of it.
    #[inline]
    fn push_room(&mut self, length: usize, room: &[u8; SHORT_ROOM_BYTES], more: bool) {
        debug_assert!(length <= room.len(), "a frame lies in its room");
        let mut framed = [0; Mark::BYTES + SHORT_ROOM_BYTES];
        framed[..Mark::BYTES].copy_from_slice(&Mark::of_frame(length, more).0.to_ne_bytes());
        framed[Mark::BYTES..].copy_from_slice(room);
        let end = self.bytes.len() + Mark::BYTES + length;
        self.bytes.extend_from_slice(&framed);
        self.bytes.truncate(end);
    }

    /// The last frame of a message.
    #[inline]
    pub(crate) fn push_slice(&mut self, bytes: &[u8]) {
        if Batch::is_short_slice(bytes) {
            self.push_short(bytes, false);
        } else {
            self.push_item(Item::Frame(Message::from_slice(bytes)));
        }
    }

    #[inline]
    fn push_short(&mut self, bytes: &[u8], more: bool) {
        debug_assert!(
            bytes.len() <= SHORT_SLICE_BYTES_MAX,
            "a long frame is an item"
        );
        let mark = Mark::of_frame(bytes.len(), more);
        debug_assert_eq!(
            (mark.length(), mark.more()),
            (bytes.len(), more),
            "a mark has both"
        );
        self.bytes.reserve(Mark::BYTES + bytes.len());
        self.bytes.extend_from_slice(&mark.0.to_ne_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn push_item(&mut self, item: Item) {
        self.weight += weight_of(&item);
        self.bytes.extend_from_slice(&Mark::OTHER.0.to_ne_bytes());
        self.others.push_back(item);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Item> {
        let (mark, body) = self.next()?;
        if mark.is_other() {
            self.at += Mark::BYTES;
            debug_assert!(!self.others.is_empty(), "an empty mark stands for an item");
            return self.take_out();
        }
        let mut message = Message::from_slice(body);
        message.set_more(mark.more());
        self.at += Mark::BYTES + mark.length();
        Some(Item::Frame(message))
    }

    /// The next frame, if it is a whole message.
    #[inline]
    pub(crate) fn pop_single<T>(&mut self, take: impl FnOnce(Single<'_>) -> T) -> Option<T> {
        let (mark, body) = self.next()?;
        if mark.more() {
            return None;
        }
        if mark.is_other() {
            return Some(take(Single::Message(self.pop_other_single()?)));
        }
        let taken = take(Single::Bytes(body, None));
        self.at += Mark::BYTES + mark.length();
        Some(taken)
    }

    fn pop_other_single(&mut self) -> Option<Message> {
        match self.others.front() {
            Some(Item::Frame(message)) if !message.more() => {}
            _ => return None,
        }
        self.at += Mark::BYTES;
        match self.take_out() {
            Some(Item::Frame(message)) => Some(message),
            _ => None,
        }
    }

    fn take_out(&mut self) -> Option<Item> {
        let item = self.others.pop_front()?;
        self.weight += weight_of(&item);
        Some(item)
    }

    /// What the long bodies weigh that were put in or taken out since the last call.
    #[inline]
    pub(crate) fn take_weight(&mut self) -> usize {
        match self.weight {
            0 => 0,
            _ => std::mem::take(&mut self.weight),
        }
    }

    /// The next mark, and the frame's bytes if they are here.
    #[inline]
    fn next(&self) -> Option<(Mark, &[u8])> {
        let (mark, rest) = self.bytes.get(self.at..)?.split_first_chunk()?;
        let mark = Mark(u32::from_ne_bytes(*mark));
        Some((mark, rest.get(..mark.length())?))
    }
}

fn weight_of(item: &Item) -> usize {
    match item {
        Item::Frame(message) => pressure::weight_of(message),
        Item::Subscribe(_) | Item::Cancel(_) => 0,
    }
}

/// Messages up to this are copied in and out, which costs less than to allocate in one thread and
/// free in another.
const SHORT_BYTES_MAX: usize = 1024;
/// Limit for copying bytes that the program owns.
const SHORT_SLICE_BYTES_MAX: usize = 4096;
/// Small batches in a row after which half of the buffer is freed.
const CALM_MAX: u8 = 255;
/// Bytes that an empty batch always keeps for the next one.
const KEPT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: &[u8], more: bool) -> Message {
        let mut message = Message::from_slice(bytes);
        message.set_more(more);
        message
    }

    #[test]
    fn frames_of_all_kinds_keep_their_order() {
        let mut batch = Batch::default();
        let long = vec![7; SHORT_SLICE_BYTES_MAX + 1];
        batch.push(frame(b"", true));
        batch.push(frame(&long, true));
        batch.push_slice(b"end");
        batch.push_item(Item::Subscribe(b"topic".to_vec()));
        batch.push_slice(&long);
        assert_eq!(batch.messages(), 2);

        let mut next = || match batch.pop() {
            Some(Item::Frame(message)) => Some((message.to_vec(), message.more())),
            Some(Item::Subscribe(topic)) => Some((topic, false)),
            _ => None,
        };
        assert_eq!(next(), Some((Vec::new(), true)));
        assert_eq!(next(), Some((long.clone(), true)));
        assert_eq!(next(), Some((b"end".to_vec(), false)));
        assert_eq!(next(), Some((b"topic".to_vec(), false)));
        assert_eq!(next(), Some((long.clone(), false)));
        assert_eq!(next(), None);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_whole_message_is_taken_at_once_and_a_part_is_not() {
        let mut batch = Batch::default();
        batch.push_slice(b"whole");
        batch.push_slice(&[1; 1000]);
        batch.push(frame(b"head", true));
        batch.push_slice(b"tail");

        let mut room = [0; 4];
        let mut next = || batch.pop_single(|single| single.copy_to(&mut room));
        assert_eq!(next(), Some(5));
        assert_eq!(next(), Some(1000));
        assert_eq!(next(), None);
        assert_eq!(room, [1; 4]);
        assert!(batch.pop_single(|single| single.into_message()).is_none());
        assert!(matches!(batch.pop(), Some(Item::Frame(head)) if head.more()));
        let tail = batch.pop_single(|single| single.into_message());
        assert_eq!(tail.as_deref(), Some(&b"tail"[..]));
    }

    #[test]
    fn last_frames_of_every_length_come_back() {
        let mut batch = Batch::default();
        let bodies = || [0, 1, 37, 38, 39, 64, 1024, 1025].map(|length| vec![length as u8; length]);
        for body in bodies() {
            for mut message in [
                Message::from_slice(&body),
                Message::from_vec(body.clone()),
                Message::from_owner(body.clone()),
            ] {
                message.set_more(body.len() % 2 == 1);
                batch.push_from(&mut message);
                message.clear();
                assert!(message.is_empty() && !message.more());
            }
        }
        for body in bodies() {
            for _ in 0..3 {
                let Some(Item::Frame(message)) = batch.pop() else {
                    panic!("{} bytes are gone", body.len());
                };
                assert_eq!(message.as_slice(), body);
                assert_eq!(message.more(), body.len() % 2 == 1);
            }
        }
        assert!(batch.is_empty());
    }

    #[test]
    fn what_a_message_carries_beside_its_bytes_goes_with_it() {
        let mut batch = Batch::default();
        let mut message = Message::from_slice(b"to one");
        message.set_routing_id(9);
        batch.push(message);
        let got = batch.pop_single(|single| single.into_message().routing_id());
        assert_eq!(got, Some(9));
    }
}
