//! Whole messages: one frame or several, which arrive all or not at all.

use std::ops::{Deref, DerefMut};

use crate::error::Error;
use crate::kind::SocketType;
use crate::message::Message;
use crate::socket::Socket;

/// A message of one or more frames.
///
/// ```
/// use tidewire_zmq::Multipart;
///
/// let quote = Multipart::from(["RELIANCE", "2914.55"]);
/// assert_eq!(quote.len(), 2);
/// for frame in &quote {
///     println!("{} bytes", frame.len());
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Multipart {
    frames: Vec<Message>,
}

impl Multipart {
    /// No frame yet; as it is it cannot be sent.
    pub const fn new() -> Multipart {
        Multipart { frames: Vec::new() }
    }

    /// Adds a frame at the end.
    pub fn push(&mut self, frame: impl Into<Message>) {
        self.frames.push(frame.into());
    }

    /// Takes the first frame out: a topic, a name.
    pub fn pop_front(&mut self) -> Option<Message> {
        (!self.frames.is_empty()).then(|| self.frames.remove(0))
    }

    /// The first frame as text, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.frames.first()?.as_slice()).ok()
    }
}

impl Deref for Multipart {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        &self.frames
    }
}

impl DerefMut for Multipart {
    fn deref_mut(&mut self) -> &mut [Message] {
        &mut self.frames
    }
}

impl IntoIterator for Multipart {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.frames.into_iter()
    }
}

impl<'m> IntoIterator for &'m Multipart {
    type Item = &'m Message;
    type IntoIter = std::slice::Iter<'m, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.frames.iter()
    }
}

impl<M: Into<Message>> FromIterator<M> for Multipart {
    fn from_iter<I: IntoIterator<Item = M>>(frames: I) -> Multipart {
        Multipart {
            frames: frames.into_iter().map(Into::into).collect(),
        }
    }
}

impl<M: Into<Message>, const N: usize> From<[M; N]> for Multipart {
    fn from(frames: [M; N]) -> Multipart {
        frames.into_iter().collect()
    }
}

impl<M: Into<Message>> From<Vec<M>> for Multipart {
    fn from(frames: Vec<M>) -> Multipart {
        frames.into_iter().collect()
    }
}

impl From<Message> for Multipart {
    fn from(frame: Message) -> Multipart {
        Multipart {
            frames: vec![frame],
        }
    }
}

impl From<&str> for Multipart {
    fn from(frame: &str) -> Multipart {
        Multipart::from(Message::from(frame))
    }
}

impl From<String> for Multipart {
    fn from(frame: String) -> Multipart {
        Multipart::from(Message::from(frame))
    }
}

impl From<&[u8]> for Multipart {
    fn from(frame: &[u8]) -> Multipart {
        Multipart::from(Message::from(frame))
    }
}

impl Socket {
    /// Sends a whole message. On failure it is as it was.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::InvalidArgument`] for a message without a frame, and to a
    /// DGRAM for one that is not of two.
    pub fn send_parts(&self, message: &mut Multipart, dont_wait: bool) -> Result<(), Error> {
        let last = message.len().checked_sub(1).ok_or(Error::InvalidArgument)?;
        debug_assert!(last < message.len(), "the last frame is one of them");
        if self.kind() == SocketType::Dgram && last != 1 {
            // A third frame would be refused when the first is taken already.
            return Err(Error::InvalidArgument);
        }
        self.send_frames(&mut message.frames, dont_wait)?;
        message.frames.clear();
        Ok(())
    }

    /// Receives a whole message.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_parts(&self, dont_wait: bool) -> Result<Multipart, Error> {
        let message = self.receive_with(dont_wait, |state| {
            let Some(first) = state.next_frame()? else {
                return Ok(None);
            };
            let mut more = first.more();
            let mut message = Multipart::from(first);
            // It has come as a whole: no other thread gets a part of it.
            while more && let Some(frame) = state.next_frame()? {
                more = frame.more();
                message.frames.push(frame);
            }
            Ok(Some(message))
        })?;
        debug_assert!(!message.is_empty(), "a message has a frame");
        Ok(message)
    }
}
