//! Messages: one frame each, cheap to move, cheap to clone.

use std::alloc::{Layout, handle_alloc_error};
use std::collections::TryReserveError;
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::lent::Lent;
use crate::properties::Properties;
use crate::rooms::{self, Room};

/// One frame of a message.
///
/// Short bodies lie in the message itself; longer ones in one allocation, which clones share.
#[derive(Clone, Default)]
pub struct Message {
    body: Body,
    /// What is known of the peer that sent it, or the group of a RADIO message.
    pub(crate) properties: Option<Arc<Properties>>,
    routing_id: u32,
    more: bool,
}

enum Body {
    Short {
        length: u8,
        bytes: [u8; SHORT_ROOM_BYTES],
    },
    Owned(Room),
    Shared(Bytes),
}

impl Message {
    /// The longest name of a group, in bytes: `ZMQ_GROUP_MAX_LENGTH`.
    pub const GROUP_BYTES_MAX: usize = 255;

    /// The longest body that lies in the message itself, in bytes.
    pub const WITHIN_BYTES_MAX: usize = SHORT_ROOM_BYTES;

    /// An empty message.
    pub const fn new() -> Message {
        Message {
            body: Body::Short {
                length: 0,
                bytes: [0; SHORT_ROOM_BYTES],
            },
            properties: None,
            routing_id: 0,
            more: false,
        }
    }

    /// A message of `size` bytes, all zero, to be filled through
    /// [`as_mut_slice`](Self::as_mut_slice).
    #[inline]
    pub fn with_size(size: usize) -> Message {
        if size <= SHORT_ROOM_BYTES {
            debug_assert!(
                size <= usize::from(u8::MAX),
                "a short body's length is one octet"
            );
            return Message::of(Body::Short {
                length: size as u8,
                bytes: [0; SHORT_ROOM_BYTES],
            });
        }
        Message::of(Body::Owned(Room::of(vec![0; size])))
    }

    /// Copies the bytes.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Message {
        if bytes.len() <= SHORT_ROOM_BYTES {
            let mut short = [0; SHORT_ROOM_BYTES];
            short[..bytes.len()].copy_from_slice(bytes);
            return Message::of(Body::Short {
                length: bytes.len() as u8,
                bytes: short,
            });
        }
        match Message::copy_long(bytes) {
            Ok(message) => message,
            Err(_) => handle_alloc_error(Layout::for_value(bytes)),
        }
    }

    /// Copies bytes of which there may be more than memory for them.
    ///
    /// # Errors
    /// There is no memory for the copy.
    pub fn try_from_slice(bytes: &[u8]) -> Result<Message, TryReserveError> {
        match bytes.len() {
            ..=SHORT_ROOM_BYTES => Ok(Message::from_slice(bytes)),
            _ => Message::copy_long(bytes),
        }
    }

    #[inline]
    fn copy_long(bytes: &[u8]) -> Result<Message, TryReserveError> {
        let mut room = rooms::take(bytes.len()).unwrap_or_default();
        room.clear();
        room.try_reserve_exact(bytes.len())?;
        room.extend_from_slice(bytes);
        Ok(Message::of(Body::Owned(Room::of(room))))
    }

    /// Takes the bytes over without a copy.
    pub fn from_vec(bytes: Vec<u8>) -> Message {
        Message::of(Body::Owned(Room::of(bytes)))
    }

    /// A message of `size` bytes of any value, where an earlier one of such a size has left room:
    /// this costs less than to allocate it. `None`: there is none.
    #[inline]
    pub fn with_room(size: usize) -> Option<Message> {
        let mut room = rooms::take(size)?;
        room.resize(size, 0);
        Some(Message::from_vec(room))
    }

    /// Creates a message of static bytes, without a copy.
    pub fn from_static(bytes: &'static [u8]) -> Message {
        Message::of(Body::Shared(Bytes::from_static(bytes)))
    }

    /// Refers to bytes that `owner` holds; it is dropped with the last message that shares them.
    /// A message may go in any thread that works for a socket. The owner is dropped while none is
    /// locked, so that it may call any of them.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + 'static) -> Message {
        Message::of(Body::Shared(Bytes::from_owner(Lent::new(owner))))
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.body {
            Body::Short { length, bytes } => &bytes[..usize::from(*length)],
            Body::Owned(bytes) => bytes,
            Body::Shared(bytes) => bytes,
        }
    }

    /// The bytes, to be changed. Those that others share are copied first.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if let Body::Shared(shared) = &mut self.body {
            self.body = match std::mem::take(shared).try_into_mut() {
                Ok(own) => Body::Owned(Room::of(own.into())),
                Err(shared) => Body::Owned(Room::of(shared.to_vec())),
            };
        }
        debug_assert!(!self.is_shared(), "a body that is shared was copied");
        match &mut self.body {
            Body::Short { length, bytes } => &mut bytes[..usize::from(*length)],
            Body::Owned(bytes) => bytes,
            Body::Shared(_) => &mut [],
        }
    }

    /// Bytes in the body.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Short { length, .. } => usize::from(*length),
            Body::Owned(bytes) => bytes.len(),
            Body::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether further frames of the same message follow.
    #[inline]
    pub fn more(&self) -> bool {
        self.more
    }

    /// Whether the bytes lie where several messages may see them.
    pub fn is_shared(&self) -> bool {
        matches!(self.body, Body::Shared(_))
    }

    /// A property of the peer that the message came from, as libzmq names them: `Socket-Type`,
    /// `Routing-Id`, `User-Id`, `Peer-Address`, and what the peer announced itself.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.as_ref()?.list.value(name)
    }

    /// As [`property`](Self::property), with a closing zero, for as long as the message lives. A
    /// zero within ends it.
    pub fn property_text(&self, name: &str) -> Option<&CStr> {
        self.properties.as_ref()?.list.text(name)
    }

    /// The descriptor of the connection that the message came by.
    pub fn source_descriptor(&self) -> Option<i32> {
        self.properties.as_ref()?.descriptor
    }

    /// The peer of a SERVER or PEER socket; 0: none.
    pub fn routing_id(&self) -> u32 {
        self.routing_id
    }

    /// Names the peer that a SERVER or PEER socket sends this to.
    pub fn set_routing_id(&mut self, routing_id: u32) {
        self.routing_id = routing_id;
    }

    /// The group of a RADIO or DISH message.
    pub fn group(&self) -> &[u8] {
        self.group_text().to_bytes()
    }

    /// As [`group`](Self::group), with a closing zero, for as long as the message lives.
    pub fn group_text(&self) -> &CStr {
        let known = self.properties.as_ref();
        let group = known.and_then(|known| known.group.as_deref());
        group.unwrap_or_default()
    }

    /// Names the group that a RADIO sends this to.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than 255 bytes, or a zero among them.
    pub fn set_group(&mut self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        let group = group.as_ref();
        if group.len() > Self::GROUP_BYTES_MAX || group.contains(&0) {
            return Err(Error::InvalidArgument);
        }
        self.put_group(group);
        Ok(())
    }

    /// The same for bytes without a zero.
    pub(crate) fn put_group(&mut self, group: &[u8]) {
        debug_assert!(
            group.len() <= Self::GROUP_BYTES_MAX && !group.contains(&0),
            "a group's name"
        );
        let known = self.properties.get_or_insert_default();
        Arc::make_mut(known).group = CString::new(group).ok();
    }

    /// Returns a clone that shares its body with this one, for any size.
    #[inline]
    pub fn share(&mut self) -> Message {
        if let Body::Owned(bytes) = &mut self.body {
            self.body = Body::Shared(Bytes::from(std::mem::take(bytes).into_vec()));
        }
        self.clone()
    }

    /// Puts other bytes in the place of those before, and forgets all else. What it held is used
    /// again where it can be: a program that receives into one message over and over neither
    /// allocates nor counts references.
    #[inline]
    fn refill(&mut self, bytes: &[u8], properties: Option<&Arc<Properties>>) {
        match &mut self.body {
            Body::Owned(room) if fits_again(room, bytes.len()) => {
                room.clear();
                room.extend_from_slice(bytes);
            }
            Body::Short {
                length,
                bytes: short,
            } if bytes.len() <= SHORT_ROOM_BYTES => {
                short[..bytes.len()].copy_from_slice(bytes);
                *length = bytes.len() as u8;
            }
            body => *body = Message::from_slice(bytes).body,
        }
        let known = self.properties.as_ref().map(Arc::as_ptr);
        if known != properties.map(Arc::as_ptr) {
            self.properties = properties.cloned();
        }
        self.routing_id = 0;
        self.more = false;
    }

    /// Empties it. What it held is let go, which may call the program.
    #[inline]
    pub(crate) fn clear(&mut self) {
        match &mut self.body {
            Body::Short { length, .. } => *length = 0,
            body => *body = Body::default(),
        }
        self.properties = None;
        self.routing_id = 0;
        self.more = false;
    }

    /// The length of a body that lies in the message itself, and its room.
    #[inline]
    pub(crate) fn short(&self) -> Option<(u8, &[u8; SHORT_ROOM_BYTES])> {
        match &self.body {
            Body::Short { length, bytes } => Some((*length, bytes)),
            Body::Owned(_) | Body::Shared(_) => None,
        }
    }

    /// Whether there is nothing but bytes to it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.properties.is_none() && self.routing_id == 0
    }

    #[inline]
    pub(crate) fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    #[inline]
    pub(crate) fn set_properties(&mut self, properties: Option<&Arc<Properties>>) {
        self.properties = properties.cloned();
    }

    #[inline]
    const fn of(body: Body) -> Message {
        Message {
            body,
            properties: None,
            routing_id: 0,
            more: false,
        }
    }
}

impl Clone for Body {
    #[inline]
    fn clone(&self) -> Body {
        match self {
            Body::Short { length, bytes } => Body::Short {
                length: *length,
                bytes: *bytes,
            },
            Body::Owned(bytes) => Body::Owned(bytes.clone()),
            Body::Shared(bytes) => Body::Shared(bytes.clone()),
        }
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::Short {
            length: 0,
            bytes: [0; SHORT_ROOM_BYTES],
        }
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::ops::Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Message {
        Message::from_slice(bytes)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::from_slice(text.as_bytes())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message::from_vec(text.into_bytes())
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message::from_vec(bytes)
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Message {
        Message::of(Body::Shared(bytes))
    }
}

impl PartialEq<[u8]> for Message {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("bytes", &Bytes::copy_from_slice(self.as_slice()))
            .field("more", &self.more)
            .finish_non_exhaustive()
    }
}

/// Bodies up to this lie in the message itself: what makes it 56 bytes, which fit libzmq's
/// `zmq_msg_t` of 64.
pub(crate) const SHORT_ROOM_BYTES: usize = 38;

const _: () = assert!(size_of::<Message>() <= 56);

/// The last frame of a message to be sent.
#[derive(Debug)]
pub(crate) enum Last<'a> {
    /// Taken out or copied: the caller lets go what is left, without a lock.
    Message(&'a mut Message),
    Slice(&'a [u8]),
}

impl Last<'_> {
    pub(crate) fn into_message(self) -> Message {
        match self {
            Last::Message(message) => std::mem::take(message),
            Last::Slice(bytes) => Message::from_slice(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Last::Message(message) => message.as_slice(),
            Last::Slice(bytes) => bytes,
        }
    }
}

/// A message of one frame on its way to the program.
pub(crate) enum Single<'a> {
    Bytes(&'a [u8], Option<&'a Arc<Properties>>),
    Message(Message),
}

impl Single<'_> {
    #[inline]
    pub(crate) fn into_message(self) -> Message {
        match self {
            Single::Bytes(bytes, properties) => {
                let mut message = Message::from_slice(bytes);
                message.set_properties(properties);
                message
            }
            Single::Message(message) => message,
        }
    }

    /// Puts it in the place of another one, whose body no one else has lent.
    #[inline]
    pub(crate) fn replace(self, place: &mut Message) {
        debug_assert!(!place.is_shared(), "to let it go would call its owner");
        match self {
            Single::Bytes(bytes, properties) => place.refill(bytes, properties),
            Single::Message(message) => *place = message,
        }
    }

    /// Copies what fits into a buffer. Returns the message's length.
    #[inline]
    pub(crate) fn copy_to(self, buffer: &mut [u8]) -> usize {
        let whole;
        let bytes = match self {
            Single::Bytes(bytes, _) => bytes,
            Single::Message(message) => {
                whole = message;
                whole.as_slice()
            }
        };
        let fits = bytes.len().min(buffer.len());
        buffer[..fits].copy_from_slice(&bytes[..fits]);
        bytes.len()
    }
}

/// Whether a body of this length may take the room of another one: not much of it stays unused.
#[inline]
fn fits_again(room: &Vec<u8>, length: usize) -> bool {
    length > SHORT_ROOM_BYTES
        && (length..=length.max(REUSED_BYTES_MIN / 4) * 4).contains(&room.capacity())
}

/// Room up to this is used again for any shorter body.
const REUSED_BYTES_MIN: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Body, Message, Single};

    #[test]
    fn bodies_of_every_size_come_back() {
        for size in [0, 1, 38, 39, 255, 70_000] {
            let bytes: Vec<u8> = (0..size).map(|index| index as u8).collect();
            let mut message = Message::from_slice(&bytes);
            let clone = message.share();
            assert_eq!(message.as_slice(), bytes);
            assert_eq!(clone.as_slice(), bytes);
            assert_eq!(clone.len(), size);
        }
    }

    #[test]
    fn room_is_used_again_where_most_of_it_is_filled() {
        let mut message = Message::from_slice(&[1; 64]);
        let properties = Arc::default();
        for (size, is_kept) in [(64, true), (39, true), (3, false), (64, false), (65, false)] {
            let before = message.as_slice().as_ptr();
            Single::Bytes(&vec![2; size], Some(&properties)).replace(&mut message);
            assert_eq!(message.as_slice(), vec![2; size]);
            assert_eq!(message.as_slice().as_ptr() == before, is_kept, "{size}");
            assert_eq!(Arc::strong_count(&properties), 2);
        }
        message = Message::from_vec(vec![1; 100_000]);
        Single::Bytes(&[2; 64], None).replace(&mut message);
        assert_eq!(message.as_slice(), [2; 64]);
        assert_eq!(Arc::strong_count(&properties), 1);
        assert!(matches!(&message.body, Body::Owned(room) if room.capacity() < 1_000));
    }

    #[test]
    fn a_change_is_not_seen_by_a_clone() {
        let mut message = Message::from_vec(vec![7; 100]);
        let clone = message.share();
        message.as_mut_slice()[0] = 8;
        assert_eq!(clone.as_slice()[0], 7);
        assert_eq!(message.as_slice()[0], 8);
    }
}
