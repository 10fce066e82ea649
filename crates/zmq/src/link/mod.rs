//! One connection over a byte stream: a descriptor, the protocol machine, and what is on its way.

mod carrier;
mod input;
mod output;
mod spares;
mod websocket;

use std::collections::TryReserveError;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tidewire_rings::Wants;
use tidewire_tls::{Error as TlsError, Session};
use tidewire_zmtp::websocket::WebSocket;
use tidewire_zmtp::{Connection, Credentials, Error as WireError, Event, SHORT_HEADER_BYTES};

use crate::group_topic::GroupTopic;
use crate::message::Message;
use crate::monitor::Ends;
use crate::properties::Properties;

pub(crate) use carrier::Carrier;
pub(crate) use input::Fill;
use input::{Input, LongBody};
use output::Output;
pub(crate) use spares::Spares;
use websocket::{Broken, WebSocketFilter};

/// A connection over TCP, a Unix socket or shared memory.
#[derive(Debug)]
pub(crate) struct StreamLink {
    pub(crate) carrier: Carrier,
    wire: Wire,
    /// What the bytes go through on their way, over ws and wss.
    filter: Option<Box<WebSocketFilter>>,
    input: Input,
    /// Frames of a message whose last one is not here yet.
    partial: Vec<Message>,
    output: Output,
    /// What every message from this peer carries.
    pub(crate) properties: Option<Arc<Properties>>,
    /// The peer's address, where it has one.
    pub(crate) peer_ip: Option<IpAddr>,
    /// The ends, once a monitor has been told of them.
    pub(crate) ends: Option<Box<Ends>>,
    /// What epoll has been told.
    pub(crate) interest: Interest,
    /// The peer will send no more.
    pub(crate) is_at_end: bool,
    /// The last read was as long as it could be: the next one need not wait for the kernel to
    /// tell.
    may_have_more: bool,
    /// Over shared memory: it is in the list of those that are looked at.
    pub(crate) is_active: bool,
    /// Over shared memory: sends in a row that found the peer with something left to read.
    pub(crate) sends_behind: u8,
}

/// What is spoken on the stream.
#[derive(Debug)]
enum Wire {
    Zmtp(Box<Connection>),
    /// STREAM sockets: bytes as they come.
    Raw,
}

/// What a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// A connection that ends, by how it can end without loss.
#[derive(Debug)]
pub(crate) enum Ending {
    Tcp(OwnedFd),
    /// Over a Unix socket: messages of ZMTP may be sent on it.
    Unix(OwnedFd),
}

impl Ending {
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        match self {
            Ending::Tcp(descriptor) | Ending::Unix(descriptor) => descriptor,
        }
    }
}

/// The frames of one message.
#[derive(Debug)]
pub(crate) enum Frames {
    One(Message),
    Many(Vec<Message>),
}

/// What the bytes received so far amount to.
#[derive(Debug)]
pub(crate) enum Inbound {
    Message(Frames),
    Subscribe(Vec<u8>),
    Cancel(Vec<u8>),
    Ready,
    Authenticate(Claim),
    /// The peer refuses us, with this reason.
    Refused(Vec<u8>),
    /// More bytes are wanted.
    Nothing,
    Broken(WireError),
    /// TLS with the peer has failed.
    Insecure(TlsError),
}

/// Who a peer says it is; what ZAP is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    Null,
    Plain {
        username: Vec<u8>,
        password: Vec<u8>,
    },
    Curve {
        public_key: [u8; 32],
    },
}

impl StreamLink {
    pub(crate) fn zmtp(carrier: Carrier, connection: Connection) -> StreamLink {
        StreamLink::of(carrier, Wire::Zmtp(Box::new(connection)))
    }

    /// ZMTP behind a WebSocket, over TLS or not.
    pub(crate) fn websocket(
        carrier: Carrier,
        connection: Connection,
        websocket: WebSocket,
        tls: Option<Session>,
    ) -> StreamLink {
        let mut link = StreamLink::zmtp(carrier, connection);
        link.filter = Some(Box::new(WebSocketFilter::new(websocket, tls)));
        link
    }

    pub(crate) fn raw(carrier: Carrier) -> StreamLink {
        StreamLink::of(carrier, Wire::Raw)
    }

    fn of(carrier: Carrier, wire: Wire) -> StreamLink {
        StreamLink {
            carrier,
            wire,
            filter: None,
            input: Input::new(),
            partial: Vec::new(),
            output: Output::new(),
            properties: None,
            peer_ip: None,
            ends: None,
            interest: Interest::default(),
            is_at_end: false,
            may_have_more: false,
            is_active: false,
            sends_behind: 0,
        }
    }

    pub(crate) fn raw_descriptor(&self) -> i32 {
        self.carrier.as_fd().as_raw_fd()
    }

    /// The peer's address, as messages tell it; empty: it has none.
    pub(crate) fn peer_address(&self) -> String {
        match self.peer_ip {
            Some(ip) => ip.to_string(),
            None => crate::transport::local_peer(&self.carrier),
        }
    }

    pub(crate) fn machine(&mut self) -> Option<&mut Connection> {
        match &mut self.wire {
            Wire::Zmtp(machine) => Some(machine),
            Wire::Raw => None,
        }
    }

    /// Whether messages may be sent.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        match &self.wire {
            Wire::Zmtp(machine) => machine.is_ready(),
            Wire::Raw => true,
        }
    }

    /// Reads once what the kernel has, straight into a long message where one has begun.
    pub(crate) fn fill(&mut self, spares: &mut Spares) -> Fill {
        let fill = match &mut self.filter {
            None => self.input.fill(&mut self.carrier, spares),
            Some(filter) => filter.fill(self.carrier.as_fd(), &mut self.input, spares),
        };
        match fill {
            Fill::Closed | Fill::Failed(_) => self.is_at_end = true,
            Fill::Some | Fill::All | Fill::WouldBlock => {}
        }
        self.may_have_more = fill == Fill::Some;
        fill
    }

    /// Reads on where the last read has left something. Whether there is more to decode now.
    pub(crate) fn read_on(&mut self, spares: &mut Spares) -> bool {
        // To look into memory costs no call.
        let may_have_more = self.may_have_more || self.is_readable();
        may_have_more && matches!(self.fill(spares), Fill::Some | Fill::All)
    }

    /// Gives its buffer back if nothing is in it. Call it when all is decoded.
    #[inline]
    pub(crate) fn rest(&mut self, spares: &mut Spares) {
        self.input.rest(spares);
    }

    /// Bytes of the buffers that it has for what is read and written.
    #[cfg(test)]
    pub(crate) fn buffer_bytes(&mut self) -> usize {
        let filter = self.filter.as_ref();
        self.input.buffer_bytes()
            + self.output.buffer_bytes()
            + filter.map_or(0, |filter| filter.buffer_bytes())
            + self
                .machine()
                .map_or(0, |machine| machine.outgoing().capacity())
    }

    /// Whether its memory, if it is carried by some, has something to read.
    fn is_readable(&self) -> bool {
        let wants = Wants {
            bytes: true,
            room: false,
        };
        let channel = self.carrier.shared();
        channel.is_some_and(|channel| channel.is_ready(wants))
    }

    /// Whether something lies here that has not been looked at.
    pub(crate) fn has_input(&self) -> bool {
        self.input.has_undecoded()
    }

    /// Goes on over the bytes received until something has come of them.
    #[inline]
    pub(crate) fn decode(&mut self, now_ns: u64) -> Inbound {
        let inbound = self.decode_zmtp(now_ns);
        match &mut self.filter {
            Some(filter) if matches!(inbound, Inbound::Nothing) => match filter.take_broken() {
                None => Inbound::Nothing,
                Some(Broken::Wire(WireError::Closed)) => {
                    self.is_at_end = true;
                    Inbound::Nothing
                }
                Some(Broken::Wire(error)) => Inbound::Broken(error),
                Some(Broken::Tls(error)) => Inbound::Insecure(error),
            },
            _ => inbound,
        }
    }

    #[inline]
    fn decode_zmtp(&mut self, now_ns: u64) -> Inbound {
        let Wire::Zmtp(machine) = &mut self.wire else {
            return match self.input.take_all() {
                Some(message) => self.stamped(message, false),
                None => Inbound::Nothing,
            };
        };
        loop {
            if self.input.is_amid_long_body() {
                let LongBody { bytes, more, .. } = match self.input.feed_long_body(machine) {
                    Ok(Some(body)) => body,
                    Ok(None) => return Inbound::Nothing,
                    Err(_) => return self.without_memory(),
                };
                let mut message = Message::from_vec(bytes);
                message.set_more(more);
                message.set_properties(self.properties.as_ref());
                if let Some(frames) = gather(&mut self.partial, message) {
                    return Inbound::Message(frames);
                }
                continue;
            }
            let bytes = self.input.bytes();
            let step = match machine.receive(bytes, now_ns) {
                Ok(step) => step,
                Err(error) => return Inbound::Broken(error),
            };
            let consumed = step.consumed;
            debug_assert!(
                consumed <= bytes.len(),
                "a machine takes from what has come"
            );
            let inbound = match step.event {
                Some(Event::Frame { body, more }) => {
                    let Ok(mut message) = Message::try_from_slice(body) else {
                        return self.without_memory();
                    };
                    message.set_more(more);
                    message.set_properties(self.properties.as_ref());
                    gather(&mut self.partial, message).map(Inbound::Message)
                }
                Some(Event::FrameStart { length, more }) => {
                    self.input.begin_long_body(length, more);
                    None
                }
                Some(Event::FrameChunk { .. }) => None,
                Some(Event::Subscribe(topic)) => Some(Inbound::Subscribe(topic.to_vec())),
                Some(Event::Cancel(topic)) => Some(Inbound::Cancel(topic.to_vec())),
                Some(Event::Join(group)) => Some(Inbound::Subscribe(group_topic(group))),
                Some(Event::Leave(group)) => Some(Inbound::Cancel(group_topic(group))),
                Some(Event::Ready) => Some(Inbound::Ready),
                Some(Event::Authenticate(credentials)) => {
                    Some(Inbound::Authenticate(claim(credentials)))
                }
                Some(Event::PeerError(reason)) => Some(Inbound::Refused(reason.to_vec())),
                Some(_) => None,
                None if consumed == 0 => {
                    self.input.want(step.needed);
                    return Inbound::Nothing;
                }
                None => None,
            };
            self.input.consume(consumed);
            if let Some(inbound) = inbound {
                return inbound;
            }
        }
    }

    /// There is no memory for what the peer sends: the connection ends, and with it goes what has
    /// come of the message.
    #[cold]
    fn without_memory(&mut self) -> Inbound {
        self.is_at_end = true;
        Inbound::Nothing
    }

    /// The short way of a message of one short frame that has come and can be had as it is.
    #[inline]
    pub(crate) fn take_short<T>(
        &mut self,
        take: impl FnOnce(&[u8], Option<&Arc<Properties>>) -> T,
    ) -> Option<T> {
        let Wire::Zmtp(machine) = &mut self.wire else {
            return None;
        };
        if !self.partial.is_empty() || self.filter.is_some() {
            return None;
        }
        let body = machine.receive_short(self.input.bytes())?;
        let consumed = SHORT_HEADER_BYTES + body.len();
        debug_assert!(
            self.input.bytes().len() >= consumed,
            "a short frame is here as a whole"
        );
        let taken = take(body, self.properties.as_ref());
        self.input.consume(consumed);
        Some(taken)
    }

    fn stamped(&mut self, mut message: Message, more: bool) -> Inbound {
        message.set_more(more);
        message.set_properties(self.properties.as_ref());
        Inbound::Message(Frames::One(message))
    }

    /// Puts a message behind what is already on its way; it is not written yet.
    #[inline]
    pub(crate) fn push(&mut self, message: Message) {
        let ends = !message.more();
        match &mut self.wire {
            Wire::Zmtp(machine) => self.output.push_frame(machine, message),
            Wire::Raw => self.output.push_raw(message),
        }
        self.output.messages += usize::from(ends);
    }

    /// The same for a short message of one frame that needs nothing but a header. `false`: it is
    /// not one.
    #[inline]
    pub(crate) fn push_short(&mut self, body: &[u8]) -> bool {
        let Wire::Zmtp(machine) = &self.wire else {
            return false;
        };
        let is_plain = machine.is_ready() && !machine.encrypts() && self.filter.is_none();
        if !is_plain || !self.output.push_short(body) {
            return false;
        }
        self.output.messages += 1;
        true
    }

    /// The same for bytes that are not ours: copied if they are short, else written at once as
    /// far as the kernel takes them.
    pub(crate) fn push_slice(&mut self, bytes: &[u8], more: bool) -> std::io::Result<()> {
        let result = match &mut self.wire {
            Wire::Zmtp(machine) if self.filter.is_some() => {
                let copy = Message::try_from_slice(bytes);
                copy.map_err(no_memory).map(|mut message| {
                    message.set_more(more);
                    self.output.push_frame(machine, message);
                })
            }
            Wire::Zmtp(machine) => self
                .output
                .push_slice(machine, &mut self.carrier, bytes, more),
            Wire::Raw => {
                let copy = Message::try_from_slice(bytes);
                copy.map_err(no_memory)
                    .map(|message| self.output.push_raw(message))
            }
        };
        self.output.messages += usize::from(!more);
        result
    }

    pub(crate) fn push_subscription(&mut self, topic: &[u8], subscribes: bool) {
        if let Wire::Zmtp(machine) = &mut self.wire {
            self.output.push_subscription(machine, topic, subscribes);
        }
    }

    /// The same for a group, as the tables know it.
    pub(crate) fn push_membership(&mut self, topic: &[u8], joins: bool) {
        if let Wire::Zmtp(machine) = &mut self.wire
            && let Some((_, group)) = topic.split_first()
        {
            self.output.push_membership(machine, group, joins);
        }
    }

    /// Messages handed over and not all with the kernel.
    #[inline]
    pub(crate) fn pending_messages(&self) -> usize {
        self.output.messages
    }

    /// Bytes not yet with the kernel.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        let filtered = match &self.filter {
            None => 0,
            Some(filter) => filter.pending_bytes(),
        };
        self.output.pending_bytes() + filtered
    }

    /// Puts what the machine itself has to say behind the output: before anything that the peer
    /// may only hear after it.
    pub(crate) fn push_outgoing(&mut self) {
        if let Wire::Zmtp(machine) = &mut self.wire
            && !machine.outgoing().is_empty()
        {
            self.output.push_outgoing(machine.outgoing());
        }
    }

    /// Whether the machine has something to say to what came: a PONG.
    #[inline]
    pub(crate) fn owes_answer(&mut self) -> bool {
        match &mut self.wire {
            Wire::Zmtp(machine) => !machine.outgoing().is_empty(),
            Wire::Raw => false,
        }
    }

    /// Writes what the kernel takes. `Ok(true)`: nothing is left.
    #[inline]
    pub(crate) fn flush(&mut self) -> std::io::Result<bool> {
        self.push_outgoing();
        match &mut self.filter {
            None => self.output.flush(&mut self.carrier),
            Some(filter) => filter.flush(&mut self.output, self.carrier.as_fd()),
        }
    }

    /// The handshake is done: frees the room of its bytes, as far as these are written.
    pub(crate) fn end_handshake(&mut self) {
        self.output.free_if_empty();
        if let Wire::Zmtp(machine) = &mut self.wire
            && machine.outgoing().is_empty()
        {
            *machine.outgoing() = Vec::new();
        }
    }

    /// Its descriptor, if its peer may lose what was sent last where that is closed at once.
    pub(crate) fn into_ending(self) -> Option<Ending> {
        let is_zmtp = matches!(self.wire, Wire::Zmtp(_)) && self.is_ready();
        match self.carrier {
            // Only there a peer has an address.
            Carrier::Kernel(descriptor) if self.peer_ip.is_some() => Some(Ending::Tcp(descriptor)),
            Carrier::Kernel(descriptor) if is_zmtp => Some(Ending::Unix(descriptor)),
            Carrier::Kernel(_) | Carrier::Shared(_) => None,
        }
    }

    /// Says goodbye where the transport has a word for it.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(filter) = &mut self.filter {
            filter.close(self.carrier.as_fd());
        }
    }
}

impl AsFd for StreamLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.carrier.as_fd()
    }
}

impl Frames {
    pub(crate) fn first(&self) -> &Message {
        match self {
            Frames::One(message) => message,
            Frames::Many(frames) => {
                debug_assert!(!frames.is_empty(), "a message has a frame");
                &frames[0]
            }
        }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Frames::One(message) => message.len(),
            Frames::Many(frames) => frames.iter().map(Message::len).sum(),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Message> {
        match self {
            Frames::One(message) => vec![message],
            Frames::Many(frames) => frames,
        }
    }

    pub(crate) fn into_each(self, take: impl FnMut(Message)) {
        match self {
            Frames::One(message) => Some(message).into_iter().for_each(take),
            Frames::Many(frames) => frames.into_iter().for_each(take),
        }
    }
}

/// An empty message, as `Message` has it.
impl Default for Frames {
    fn default() -> Frames {
        Frames::One(Message::new())
    }
}

fn no_memory(_: TryReserveError) -> std::io::Error {
    std::io::ErrorKind::OutOfMemory.into()
}

/// Adds a frame to what came before; gives the message with its last frame.
#[inline]
fn gather(partial: &mut Vec<Message>, message: Message) -> Option<Frames> {
    debug_assert!(
        partial.last().is_none_or(Message::more),
        "a partial message has not ended"
    );
    let more = message.more();
    if !more && partial.is_empty() {
        return Some(Frames::One(message));
    }
    partial.push(message);
    (!more).then(|| Frames::Many(std::mem::take(partial)))
}

fn group_topic(group: &[u8]) -> Vec<u8> {
    GroupTopic::of(group).bytes().to_vec()
}

fn claim(credentials: Credentials<'_>) -> Claim {
    match credentials {
        Credentials::Plain { username, password } => Claim::Plain {
            username: username.to_vec(),
            password: password.to_vec(),
        },
        Credentials::Curve { public_key } => Claim::Curve { public_key },
        _ => Claim::Null,
    }
}
