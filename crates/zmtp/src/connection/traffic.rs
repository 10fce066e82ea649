//! Frames after the handshake.

use std::ops::Range;

use super::{Audience, Connection, ConnectionPhase, Event, Step};
use crate::command::{
    CANCEL, Command, ERROR, GROUP_BYTES_MAX, JOIN, LEAVE, PING, PING_CONTEXT_BYTES_MAX, PONG,
    SUBSCRIBE,
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
        let total = head.total(self.rules.limits.frame_bytes_max)?;
        if self.audience != Audience::Receiver
            && let Some(step) = self.receive_as_publisher(head, total, input)?
        {
            return Ok(step);
        }
        let more = head.more();
        if let Some(body) = input.get(head.size..total) {
            return Ok(Step::of(total, Event::Frame { body, more }));
        }
        if head.length > self.rules.stream_above_bytes {
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

    /// Passes on or discards a piece of a body that is too long to be collected.
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

    /// Returns, on PUB and XPUB, a subscription in the old form, an ignored frame, or (`None`) a
    /// message for an XPUB.
    fn receive_as_publisher<'b>(
        &mut self,
        head: Head,
        total: usize,
        input: &'b [u8],
    ) -> Result<Option<Step<'b>>, Error> {
        let Audience::Publisher { hears_messages, .. } = self.audience else {
            return Ok(None);
        };
        // The body's first octet shows the kind of the frame.
        let verb = match input.get(head.size) {
            _ if head.length == 0 => None,
            None => return Ok(Some(Step::wants(head.size + 1))),
            Some(&octet) => Some(octet),
        };
        let subscribes = self.is_subscription(verb);
        let limit = self.rules.limits.subscription_bytes_max.saturating_add(1);
        let complete = input.len() >= total;
        // A part of a message is passed on like any other: its driver obeys it.
        let is_part = self.is_part(head.more());
        let is_obeyed = subscribes && !is_part;
        if is_obeyed {
            head.total(limit)?;
        }
        // Nothing is stored about a frame before it can be passed on: it is checked again.
        let streamed = head.length > self.rules.stream_above_bytes;
        if !complete && (is_obeyed || hears_messages && !streamed) {
            return Ok(Some(Step::wants(total)));
        }
        self.pass_publishers_frame(subscribes, head.more());
        if is_obeyed {
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

    /// Returns whether a publisher treats a frame with this first octet as a subscription.
    pub(super) fn is_subscription(&self, verb: Option<u8>) -> bool {
        match self.audience {
            Audience::Receiver => false,
            Audience::Publisher {
                amid_message,
                later_frames_subscribe,
                ..
            } => matches!(verb, Some(0 | 1)) && (!amid_message || later_frames_subscribe),
        }
    }

    /// Returns whether the next frame is passed on as a part of its message, subscription or not.
    pub(super) fn is_part(&self, more: bool) -> bool {
        match self.audience {
            Audience::Publisher {
                hears_messages: true,
                amid_message,
                ..
            } => self.rules.whole_messages && (amid_message || more),
            _ => false,
        }
    }

    /// Notes what a publisher's frame implies for the next ones.
    pub(super) fn pass_publishers_frame(&mut self, subscribes: bool, more: bool) {
        let Audience::Publisher {
            amid_message,
            later_frames_subscribe,
            ..
        } = &mut self.audience
        else {
            return;
        };
        if !*amid_message {
            *later_frames_subscribe = subscribes || !self.rules.only_first_subscribe;
        }
        *amid_message = more;
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
        let total = head.total(self.command_limit())?;
        let Some(body) = input.get(head.size..total) else {
            return Ok(Step::wants(total));
        };
        // Bytes after a PING are the traffic that its TTL requires.
        let is_last = input.len() == total;
        let sign = self.obey(body, is_last.then_some(now_ns))?;
        Ok(Step {
            consumed: total,
            event: sign.map(|(sign, range)| sign.event(&body[range])),
            needed: 2,
        })
    }

    /// Returns the maximum body of a command.
    pub(super) fn command_limit(&self) -> u64 {
        let limits = &self.rules.limits;
        let subscription_max = limits
            .subscription_bytes_max
            .saturating_add(SUBSCRIBE.len() as u64 + 1);
        match self.audience {
            Audience::Receiver => limits.command_bytes_max,
            Audience::Publisher { .. } => limits.command_bytes_max.max(subscription_max),
        }
    }

    /// Executes a command. Returns the event for the driver, with its place in the body.
    #[cold]
    pub(super) fn obey(
        &mut self,
        body: &[u8],
        silent_from_ns: Option<u64>,
    ) -> Result<Option<(Sign, Range<usize>)>, Error> {
        let command = Command::parse(body)?;
        let data = body.len() - command.data.len()..body.len();
        let limits = &self.rules.limits;
        let publishes = self.audience != Audience::Receiver;
        let (sign, limit) = match command.name {
            SUBSCRIBE if publishes => (Sign::Subscribe, limits.subscription_bytes_max),
            CANCEL if publishes => (Sign::Cancel, limits.subscription_bytes_max),
            JOIN if self.hears_groups() => (Sign::Join, GROUP_BYTES_MAX),
            LEAVE if self.hears_groups() => (Sign::Leave, GROUP_BYTES_MAX),
            PING => {
                self.receive_ping(command.data, silent_from_ns)?;
                return Ok(None);
            }
            ERROR => {
                let length = command.error_reason()?.len();
                self.phase = ConnectionPhase::Closed;
                return Ok(Some((Sign::Error, data.start + 1..data.start + 1 + length)));
            }
            // A PONG only shows that the peer is alive. Commands of later versions are skipped,
            // as libzmq does.
            _ => return Ok(None),
        };
        let length = command.data.len() as u64;
        if length > limit {
            return Err(Error::FrameTooLong { length, limit });
        }
        Ok(Some((sign, data)))
    }

    fn hears_groups(&self) -> bool {
        self.rules.socket_type == SocketType::Radio
    }

    fn receive_ping(&mut self, data: &[u8], silent_from_ns: Option<u64>) -> Result<(), Error> {
        let malformed = Error::MalformedCommand(CommandName::Ping);
        let (ttl, context) = data.split_first_chunk::<2>().ok_or(malformed)?;
        if let Some(now_ns) = silent_from_ns {
            self.liveness.promised(u16::from_be_bytes(*ttl), now_ns);
        }
        self.say(PONG, &context[..context.len().min(PING_CONTEXT_BYTES_MAX)]);
        Ok(())
    }
}

/// The meaning of a command for the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Subscribe,
    Cancel,
    Join,
    Leave,
    Error,
}

impl Sign {
    pub(super) fn event(self, bytes: &[u8]) -> Event<'_> {
        match self {
            Sign::Subscribe => Event::Subscribe(bytes),
            Sign::Cancel => Event::Cancel(bytes),
            Sign::Join => Event::Join(bytes),
            Sign::Leave => Event::Leave(bytes),
            Sign::Error => Event::PeerError(bytes),
        }
    }
}
