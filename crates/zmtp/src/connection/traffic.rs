//! Frames after the handshake.

use super::{Audience, Connection, Event, OUTGOING_BYTES_MAX, Phase, Step};
use crate::command::{
    CANCEL, Command, ERROR, GROUP_BYTES_MAX, JOIN, LEAVE, PING, PING_CONTEXT_BYTES_MAX, PONG,
    SUBSCRIBE, encode_command,
};
use crate::error::{CommandName, Error};
use crate::frame::Head;
use crate::socket_type::SocketType;

impl Connection {
    #[inline]
    pub(super) fn receive_traffic<'b>(
        &mut self,
        input: &'b [u8],
        now_ns: u64,
    ) -> Result<Step<'b>, Error> {
        if self.body_left > 0 {
            return Ok(self.receive_chunk(input));
        }
        let head = match Head::read(input, self.known_flags)? {
            Ok(head) => head,
            Err(needed) => return Ok(Step::wants(needed)),
        };
        if head.is_command() {
            return self.receive_command(head, input, now_ns);
        }
        let total = head.total(self.config.limits.frame_bytes_max)?;
        if self.audience != Audience::Receiver
            && let Some(step) = self.receive_as_publisher(head, total, input)?
        {
            return Ok(step);
        }
        let more = head.more();
        if let Some(body) = input.get(head.size..total) {
            return Ok(Step::of(total, Event::Frame { body, more }));
        }
        if self
            .config
            .stream_above_bytes
            .is_some_and(|threshold| head.length > threshold)
        {
            self.body_left = head.length;
            self.body_skipped = false;
            let event = Event::FrameStart {
                length: head.length,
                more,
            };
            return Ok(Step {
                consumed: head.size,
                event: Some(event),
                needed: 1,
            });
        }
        Ok(Step::wants(total))
    }

    /// A piece of a body that is too long to be gathered, or that nobody wants.
    fn receive_chunk<'b>(&mut self, input: &'b [u8]) -> Step<'b> {
        let left = usize::try_from(self.body_left).unwrap_or(usize::MAX);
        let bytes = &input[..left.min(input.len())];
        if bytes.is_empty() {
            return Step::wants(1);
        }
        self.body_left -= bytes.len() as u64;
        let last = self.body_left == 0;
        let event = (!self.body_skipped).then_some(Event::FrameChunk { bytes, last });
        Step {
            consumed: bytes.len(),
            event,
            needed: if last { 2 } else { 1 },
        }
    }

    /// On PUB and XPUB: a subscription in the older form, a frame nobody wants, or (`None`) a
    /// message for an XPUB.
    fn receive_as_publisher<'b>(
        &mut self,
        head: Head,
        total: usize,
        input: &'b [u8],
    ) -> Result<Option<Step<'b>>, Error> {
        let Audience::Publisher {
            hears_messages,
            amid_message,
            later_frames_subscribe,
        } = self.audience
        else {
            return Ok(None);
        };
        // What kind of frame it is stands in the body's first octet.
        let verb = match input.get(head.size) {
            _ if head.length == 0 => None,
            None => return Ok(Some(Step::wants(head.size + 1))),
            Some(&octet) => Some(octet),
        };
        let subscribes = matches!(verb, Some(0 | 1)) && (!amid_message || later_frames_subscribe);
        let limit = self.config.limits.subscription_bytes_max.saturating_add(1);
        let complete = input.len() >= total;
        if subscribes {
            head.total(limit)?;
        }
        // Nothing is remembered of a frame before it can be given up: it is looked at again.
        let streamed = self
            .config
            .stream_above_bytes
            .is_some_and(|least| head.length > least);
        if !complete && (subscribes || hears_messages && !streamed) {
            return Ok(Some(Step::wants(total)));
        }
        self.audience = Audience::Publisher {
            hears_messages,
            amid_message: head.more(),
            later_frames_subscribe: match amid_message {
                true => later_frames_subscribe,
                false => subscribes || !self.config.only_first_subscribe,
            },
        };
        if subscribes {
            let topic = &input[head.size + 1..total];
            let event = if verb == Some(1) {
                Event::Subscribe(topic)
            } else {
                Event::Cancel(topic)
            };
            return Ok(Some(Step::of(total, event)));
        }
        if hears_messages {
            return Ok(None);
        }
        let consumed = total.min(input.len());
        self.body_left = (total - consumed) as u64;
        self.body_skipped = true;
        Ok(Some(Step {
            consumed,
            event: None,
            needed: 1,
        }))
    }

    #[cold]
    fn receive_command<'b>(
        &mut self,
        head: Head,
        input: &'b [u8],
        now_ns: u64,
    ) -> Result<Step<'b>, Error> {
        if head.more() {
            return Err(Error::CommandWithMore);
        }
        let limits = &self.config.limits;
        let subscription_max = limits
            .subscription_bytes_max
            .saturating_add(SUBSCRIBE.len() as u64 + 1);
        let publishes = self.audience != Audience::Receiver;
        let limit = match publishes {
            true => limits.command_bytes_max.max(subscription_max),
            false => limits.command_bytes_max,
        };
        let total = head.total(limit)?;
        let Some(body) = input.get(head.size..total) else {
            return Ok(Step::wants(total));
        };
        let command = Command::parse(body)?;
        let event = match command.name {
            SUBSCRIBE | CANCEL if publishes => {
                let length = command.data.len() as u64;
                let limit = limits.subscription_bytes_max;
                if length > limit {
                    return Err(Error::FrameTooLong { length, limit });
                }
                let subscribes = command.name == SUBSCRIBE;
                let event = if subscribes {
                    Event::Subscribe
                } else {
                    Event::Cancel
                };
                Some(event(command.data))
            }
            JOIN | LEAVE if self.config.socket_type == SocketType::Radio => {
                let length = command.data.len() as u64;
                let limit = GROUP_BYTES_MAX as u64;
                if length > limit {
                    return Err(Error::FrameTooLong { length, limit });
                }
                Some(match command.name {
                    JOIN => Event::Join(command.data),
                    _ => Event::Leave(command.data),
                })
            }
            PING => {
                // Bytes behind the PING are the traffic that its time to live asks for.
                let is_last = input.len() == total;
                self.receive_ping(command.data, is_last.then_some(now_ns))?;
                None
            }
            ERROR => {
                let reason = command.error_reason()?;
                self.phase = Phase::Closed;
                Some(Event::PeerError(reason))
            }
            // PONG was a sign of life, which is all it is for; what else there may be belongs to
            // a later version and is read over, as libzmq does.
            _ => None,
        };
        Ok(Step {
            consumed: total,
            event,
            needed: 2,
        })
    }

    fn receive_ping(&mut self, data: &[u8], silent_from_ns: Option<u64>) -> Result<(), Error> {
        let malformed = Error::MalformedCommand(CommandName::Ping);
        let (ttl, context) = data.split_first_chunk::<2>().ok_or(malformed)?;
        if let Some(now_ns) = silent_from_ns {
            self.liveness.promised(u16::from_be_bytes(*ttl), now_ns);
        }
        // A peer that asks without reading the answers gets no more of them.
        if self.outgoing.len() < OUTGOING_BYTES_MAX {
            let context = &context[..context.len().min(PING_CONTEXT_BYTES_MAX)];
            encode_command(&mut self.outgoing, PONG, &[context]);
        }
        Ok(())
    }
}
