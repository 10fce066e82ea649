//! Frames after the handshake of an encrypting mechanism.

use std::ops::Range;

use super::traffic::Sign;
use super::{Audience, Connection, ConnectionPhase, Event, Step};
use crate::curve::{OVERHEAD_BYTES, Opened};
use crate::error::Error;
use crate::frame::Head;

/// The content of an encrypted frame; its bytes are in the cipher's buffer.
#[derive(Debug, Clone)]
struct Brought {
    consumed: usize,
    needed: usize,
    what: Option<(What, Range<usize>)>,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Frame { more: bool },
    Sign(Sign),
}

impl Connection {
    #[inline]
    pub(super) fn receive_encrypted<'b>(
        &'b mut self,
        input: &[u8],
        now_ns: u64,
    ) -> Result<Step<'b>, Error> {
        let brought = match self.open_next(input, now_ns) {
            Ok(brought) => brought,
            Err(error) => {
                self.phase = ConnectionPhase::Closed;
                return Err(error);
            }
        };
        self.seen = input.len() - brought.consumed;
        let mut step = Step {
            consumed: brought.consumed,
            event: None,
            needed: brought.needed,
        };
        if let (Some((what, range)), Some(cipher)) = (brought.what, &self.cipher) {
            let bytes = &cipher.opened(range.end)[range.start..];
            step.event = Some(match what {
                What::Frame { more } => Event::Frame { body: bytes, more },
                What::Sign(sign) => sign.event(bytes),
            });
        }
        Ok(step)
    }

    fn open_next(&mut self, input: &[u8], now_ns: u64) -> Result<Brought, Error> {
        let mut brought = Brought {
            consumed: 0,
            needed: 2,
            what: None,
        };
        let head = match Head::read(input, self.known_flags)? {
            Ok(head) => head,
            Err(needed) => {
                brought.needed = needed;
                return Ok(brought);
            }
        };
        // The outer frame does not show the kind of the inner one: libzmq sends all as messages.
        if head.more() {
            return Err(Error::CommandWithMore);
        }
        let limit = self.rules.limits.frame_bytes_max.max(self.command_limit());
        let total = head.total(limit.saturating_add(OVERHEAD_BYTES as u64))?;
        let Some(body) = input.get(head.size..total) else {
            brought.needed = total;
            return Ok(brought);
        };
        brought.consumed = total;
        if self.rules.websocket && head.is_command() && body == CLEAR_PONG {
            return Ok(brought);
        }
        let cipher = self.cipher.as_mut().ok_or(Error::Closed)?;
        let opened = cipher.open(body)?;
        brought.what = if opened.is_command {
            let is_last = input.len() == total;
            self.obey_opened(opened, is_last.then_some(now_ns))?
        } else {
            self.judge_opened(opened)?
        };
        Ok(brought)
    }

    #[cold]
    fn obey_opened(
        &mut self,
        opened: Opened,
        silent_from_ns: Option<u64>,
    ) -> Result<Option<(What, Range<usize>)>, Error> {
        let (length, limit) = (opened.length as u64, self.command_limit());
        if opened.more {
            return Err(Error::CommandWithMore);
        }
        if length > limit {
            return Err(Error::FrameTooLong { length, limit });
        }
        let cipher = self.cipher.as_mut().ok_or(Error::Closed)?;
        // A PING is answered through the cipher, which cannot keep its text meanwhile.
        let text = cipher.lend();
        let sign = self.obey(&text[1..1 + opened.length], silent_from_ns);
        if let Some(cipher) = &mut self.cipher {
            cipher.give_back(text);
        }
        let sign = sign?;
        Ok(sign.map(|(sign, range)| (What::Sign(sign), range)))
    }

    /// Returns a message or, on PUB and XPUB, a subscription in the old form.
    #[inline]
    fn judge_opened(&mut self, opened: Opened) -> Result<Option<(What, Range<usize>)>, Error> {
        let (length, more) = (opened.length, opened.more);
        let whole = (What::Frame { more }, 0..length);
        let limit = self.rules.limits.frame_bytes_max;
        if length as u64 > limit {
            let length = length as u64;
            return Err(Error::FrameTooLong { length, limit });
        }
        let Audience::Publisher { hears_messages, .. } = self.audience else {
            return Ok(Some(whole));
        };
        let verb = match &self.cipher {
            Some(cipher) => cipher.opened(length).first().copied(),
            None => return Err(Error::Closed),
        };
        let subscribes = self.is_subscription(verb);
        let is_part = self.is_part(more);
        self.pass_publishers_frame(subscribes, more);
        if !subscribes {
            return Ok(hears_messages.then_some(whole));
        }
        if is_part {
            return Ok(Some(whole));
        }
        let limit = self.rules.limits.subscription_bytes_max;
        if length as u64 - 1 > limit {
            let length = length as u64 - 1;
            return Err(Error::FrameTooLong { length, limit });
        }
        let sign = if verb == Some(1) {
            Sign::Subscribe
        } else {
            Sign::Cancel
        };
        Ok(Some((What::Sign(sign), 1..length)))
    }
}

/// A PONG of WebSocket only shows that the peer is alive.
const CLEAR_PONG: &[u8] = b"\x04PONG";
