//! A socket as programs see it, frame by frame.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use crate::address::{self, Address, Deed};
use crate::context::Context;
use crate::core::{Core, Purpose, Wait};
use crate::endpoint::{Endpoint, Phase, Remote, Role};
use crate::error::Error;
use crate::kind::SocketType;
use crate::lent::Held;
use crate::message::{Last, Message};
use crate::monitor::{EventSink, Monitor};
use crate::options::number;
use crate::outside::{self, Inside};
use crate::peer::Link;
use crate::pipe::{Hello, PipeEnd};
use crate::secure::Secure;
use crate::slab::Key;
use crate::state::{NotSent, State};

/// A ZeroMQ socket; clones are handles of the same one.
///
/// Any thread may use it. Two that use it at once take turns, frame by frame.
#[derive(Debug, Clone)]
pub struct Socket {
    owner: Arc<Owner>,
}

/// What the handles share: the socket is closed with the last of them.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The program may have closed it already.
        let _ = self.core.close();
    }
}

/// How to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Fail with [`Error::Again`] where it would have to wait.
    pub dont_wait: bool,
    /// Further frames of the same message follow.
    pub more: bool,
}

/// What a socket is ready for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// A frame can be received.
    pub readable: bool,
    /// A message can be sent.
    pub writable: bool,
}

impl Socket {
    pub(crate) fn of(core: Arc<Core>) -> Socket {
        Socket {
            owner: Arc::new(Owner { core }),
        }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    /// The socket's type.
    pub fn kind(&self) -> SocketType {
        self.core().kind
    }

    /// Listens at an endpoint: `tcp://*:5555`, `ipc:///tmp/feed`, `shm:///tmp/feed`,
    /// `inproc://prices`.
    ///
    /// # Errors
    /// The endpoint is malformed, in use, or not an address of this machine.
    pub fn bind(&self, endpoint: &str) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        let address = Address::parse(endpoint)?;
        address.check_kind(self.core().kind, Deed::Bind)?;
        if let Address::Udp(text) = &address {
            drop(state);
            return self.open_udp(endpoint, text, true);
        }
        let result = state.bind(endpoint, address);
        self.core().leave(&mut state);
        result
    }

    /// Hands over a socket of the operating system, bound and listening already: the next
    /// [`bind`](Self::bind) over TCP or ipc takes it instead of opening one, and ignores the
    /// address in its endpoint.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn lend_listener(&self, descriptor: std::os::fd::OwnedFd) -> Result<(), Error> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        self.core().enter()?.lent_listener = Some(descriptor);
        Ok(())
    }

    /// Connects to an endpoint, in the background, and again whenever the connection is lost. As
    /// with libzmq a DEALER, REQ, PUB or SUB keeps one connection to an endpoint, other than
    /// `inproc`: to connect to it once more changes nothing.
    ///
    /// # Errors
    /// The endpoint is malformed.
    pub fn connect(&self, endpoint: &str) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        let address = Address::parse(endpoint)?;
        address.check_kind(self.core().kind, Deed::Connect)?;
        if let Address::Udp(text) = &address {
            drop(state);
            return self.open_udp(endpoint, text, false);
        }
        let result = state.connect(endpoint, address);
        self.core().leave(&mut state);
        result
    }

    /// Stops listening at an endpoint, and ends the connections that came by it.
    ///
    /// # Errors
    /// Nothing is bound there.
    pub fn unbind(&self, endpoint: &str) -> Result<(), Error> {
        self.end_endpoint(endpoint)
    }

    /// Ends the connection to an endpoint.
    ///
    /// # Errors
    /// Nothing is connected there.
    pub fn disconnect(&self, endpoint: &str) -> Result<(), Error> {
        self.end_endpoint(endpoint)
    }

    fn end_endpoint(&self, endpoint: &str) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        Address::parse(endpoint)?.check_kind(self.core().kind, Deed::Undo)?;
        let result = state.end_endpoint(endpoint);
        self.core().leave(&mut state);
        result
    }

    /// Sends one frame. On success `message` is left empty; on failure it is as it was.
    ///
    /// # Errors
    /// [`Error::Again`] if no peer can take it in time; others by the socket's type.
    #[inline]
    pub fn send(&self, message: &mut Message, flags: SendFlags) -> Result<(), Error> {
        let mut state = self.core().enter()?;
        if !flags.more
            && let Some(pipe) = state.only_pipe()
        {
            message.set_more(false);
            message.set_properties(None);
            message.set_routing_id(0);
            pipe.write(std::iter::empty(), Last::Message(message));
            match pipe.is_pressed() {
                true => self.ease(&mut state, flags),
                false => self.core().leave(&mut state),
            }
            drop(state);
            message.clear();
            return Ok(());
        }
        if !flags.more && state.send_short(message) {
            self.sent(state, flags);
            message.clear();
            return Ok(());
        }
        if self.core().kind.looks_before_sending() {
            self.core().look_before_sending(&mut state);
        }
        match state.send_frame(Last::Message(message), flags.more) {
            Ok(()) => {
                self.sent(state, flags);
                message.clear();
                Ok(())
            }
            Err(reason) => {
                let message = Last::Message(message);
                self.send_waiting(state, reason, message, flags)
            }
        }
    }

    /// Sends one frame whose bytes are the caller's. Short ones are copied; of long ones only
    /// what the kernel does not take at once.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_bytes(&self, bytes: &[u8], flags: SendFlags) -> Result<(), Error> {
        let mut state = self.core().enter()?;
        if !flags.more
            && let Some(pipe) = state.only_pipe()
        {
            pipe.write(std::iter::empty(), Last::Slice(bytes));
            match pipe.is_pressed() {
                true => self.ease(&mut state, flags),
                false => self.core().leave(&mut state),
            }
            return Ok(());
        }
        if !flags.more && state.send_short(bytes) {
            self.sent(state, flags);
            return Ok(());
        }
        if self.core().kind.looks_before_sending() {
            self.core().look_before_sending(&mut state);
        }
        match state.send_frame(Last::Slice(bytes), flags.more) {
            Ok(()) => {
                self.sent(state, flags);
                Ok(())
            }
            Err(reason) => self.send_waiting(state, reason, Last::Slice(bytes), flags),
        }
    }

    /// A frame was taken.
    #[inline]
    fn sent(&self, mut state: Held<'_>, flags: SendFlags) {
        match state.is_pressed {
            true => self.ease(&mut state, flags),
            false => self.core().leave(&mut state),
        }
    }

    /// Long messages gather before a kernel that is full. Rather than fill the memory up to the
    /// high-water mark, a sender that may wait gives the receiver a moment to catch up; what
    /// fits the caches is passed on several times faster.
    #[cold]
    fn ease(&self, state: &mut Held<'_>, flags: SendFlags) {
        state.is_pressed = false;
        self.wait_for_receiver(state, flags);
        self.core().leave(state);
    }

    fn wait_for_receiver(&self, state: &mut Held<'_>, flags: SendFlags) {
        let is_patient = !flags.dont_wait && state.options.send_timeout_ms != 0;
        if !is_patient || !self.core().kind.sends_in_turn() {
            return;
        }
        let &[key] = state.writable.as_slice() else {
            return;
        };
        let has_caught_up = match state.pipe(key).map(|pipe| pipe.begin_easing()) {
            None => false,
            Some(None) => true,
            Some(Some(easing)) => Held::unlocked(state, || easing.look_on()),
        };
        if !has_caught_up {
            let _inside = Inside::new();
            let wait = Wait::for_ns(EASING_NS);
            // An interruption cuts the moment short, no more.
            let _ = self.core().drive(state, wait, Purpose::Send);
        }
        if let Some(pipe) = state.pipe(key) {
            pipe.end_easing();
        }
    }

    /// Sends the frames of one message. Whether it can be sent is decided with the first one: the
    /// others follow it before another thread can send anything.
    pub(crate) fn send_frames(&self, frames: &mut [Message], dont_wait: bool) -> Result<(), Error> {
        let [first, others @ ..] = frames else {
            return Err(Error::InvalidArgument);
        };
        let mut flags = SendFlags {
            dont_wait,
            more: !others.is_empty(),
        };
        if others.is_empty() {
            return self.send(first, flags);
        }
        let mut state = self.core().enter()?;
        if self.core().kind.looks_before_sending() {
            self.core().look_before_sending(&mut state);
        }
        let mut left = others.len();
        for frame in std::iter::once(first).chain(others) {
            flags.more = left > 0;
            left = left.saturating_sub(1);
            if let Err(reason) = state.send_frame(Last::Message(frame), flags.more) {
                self.wait_to_send(&mut state, reason, &mut Last::Message(frame), flags)?;
            }
        }
        self.sent(state, flags);
        Ok(())
    }

    /// No peer could take it at once.
    #[cold]
    fn send_waiting(
        &self,
        mut state: Held<'_>,
        reason: NotSent,
        mut last: Last<'_>,
        flags: SendFlags,
    ) -> Result<(), Error> {
        self.wait_to_send(&mut state, reason, &mut last, flags)?;
        self.core().leave(&mut state);
        drop(state);
        if let Last::Message(message) = last {
            message.clear();
        }
        Ok(())
    }

    /// Waits until a peer takes a frame. Only a failure ends the call.
    fn wait_to_send(
        &self,
        state: &mut Held<'_>,
        mut reason: NotSent,
        last: &mut Last<'_>,
        flags: SendFlags,
    ) -> Result<(), Error> {
        let wait = match flags.dont_wait {
            true => Wait::Not,
            false => outside::limit_or(|| Wait::for_ms(state.options.send_timeout_ms)).0,
        };
        let mut is_first = true;
        loop {
            match reason {
                NotSent::Failed(error) => {
                    self.core().leave(state);
                    return Err(error);
                }
                NotSent::Full if !is_first && wait.is_over() => {
                    state.is_told_writable = false;
                    self.core().leave(state);
                    return Err(Error::Again);
                }
                NotSent::Full => {}
            }
            // The first look is without a wait: a peer may have just come.
            let this_time = if is_first { Wait::Not } else { wait };
            is_first = false;
            if let Err(error) = self.drive(state, this_time, Purpose::Send) {
                self.core().leave(state);
                return Err(error);
            }
            let again = match last {
                Last::Message(message) => Last::Message(message),
                Last::Slice(bytes) => Last::Slice(bytes),
            };
            match state.send_frame(again, flags.more) {
                Ok(()) => return Ok(()),
                Err(not_sent) => reason = not_sent,
            }
        }
    }

    /// Receives one frame.
    ///
    /// # Errors
    /// [`Error::Again`] where nothing came in time; others by the socket's type.
    #[inline]
    pub fn receive(&self, dont_wait: bool) -> Result<Message, Error> {
        let mut state = self.core().enter()?;
        if let Some(message) = state.next_frame()? {
            self.core().pass_on(&mut state);
            return Ok(message);
        }
        self.receive_waiting(state, dont_wait)
    }

    fn receive_waiting(&self, state: Held<'_>, dont_wait: bool) -> Result<Message, Error> {
        self.wait_to_receive(state, dont_wait, State::next_frame)
    }

    /// Receives what `next` takes, before another thread can take anything.
    pub(crate) fn receive_with<T>(
        &self,
        dont_wait: bool,
        mut next: impl FnMut(&mut State) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut state = self.core().enter()?;
        if let Some(taken) = next(&mut state)? {
            self.core().pass_on(&mut state);
            return Ok(taken);
        }
        self.wait_to_receive(state, dont_wait, next)
    }

    fn wait_to_receive<T>(
        &self,
        mut state: Held<'_>,
        dont_wait: bool,
        mut next: impl FnMut(&mut State) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let (wait, mut has_slept) = match dont_wait {
            true => (Wait::Not, false),
            false => outside::limit_or(|| Wait::for_ms(state.options.receive_timeout_ms)),
        };
        if wait == Wait::Not {
            self.core().take_over(&mut state);
        }
        loop {
            let this_time = match std::mem::take(&mut has_slept) {
                true => Wait::Not,
                false => wait,
            };
            let driven = self.drive(&mut state, this_time, Purpose::Receive);
            let result = driven.and_then(|()| next(&mut state));
            match result {
                Ok(Some(message)) => {
                    self.core().pass_on(&mut state);
                    self.core().leave(&mut state);
                    return Ok(message);
                }
                Ok(None) if wait.is_over() => {
                    self.core().leave(&mut state);
                    return Err(Error::Again);
                }
                Ok(None) => {}
                Err(error) => {
                    self.core().leave(&mut state);
                    return Err(error);
                }
            }
        }
    }

    /// Receives one frame in the place of another one, which is gone then. On failure it stays.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    #[inline]
    pub fn receive_to(&self, place: &mut Message, dont_wait: bool) -> Result<(), Error> {
        if place.is_shared() {
            // To let it go may call the program, which must not find the socket locked.
            *place = self.receive(dont_wait)?;
            return Ok(());
        }
        let mut state = self.core().enter()?;
        if state.next_single(|single| single.replace(place)).is_some() {
            self.core().pass_on(&mut state);
            return Ok(());
        }
        *place = match state.next_frame()? {
            Some(message) => {
                self.core().pass_on(&mut state);
                message
            }
            None => self.receive_waiting(state, dont_wait)?,
        };
        Ok(())
    }

    /// Receives one frame into a buffer, which takes what fits. Returns the frame's own length.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_into(&self, buffer: &mut [u8], dont_wait: bool) -> Result<usize, Error> {
        let mut state = self.core().enter()?;
        if let Some(length) = state.next_single(|single| single.copy_to(buffer)) {
            self.core().pass_on(&mut state);
            return Ok(length);
        }
        let message = match state.next_frame()? {
            Some(message) => {
                self.core().pass_on(&mut state);
                message
            }
            None => self.receive_waiting(state, dont_wait)?,
        };
        let fits = message.len().min(buffer.len());
        buffer[..fits].copy_from_slice(&message.as_slice()[..fits]);
        Ok(message.len())
    }

    /// Drives the socket, as long as its context lives.
    fn drive(&self, state: &mut Held<'_>, wait: Wait, purpose: Purpose) -> Result<(), Error> {
        self.core().drive(state, wait, purpose)?;
        if self.core().context.is_terminated() {
            return Err(self.core().terminated());
        }
        Ok(())
    }

    /// Sets an option by libzmq's number, in its encoding: `int`, `int64_t` and `uint64_t` of
    /// this machine, or bytes.
    ///
    /// # Errors
    /// There is no such option, it is not this type's, or the value is out of its range.
    pub fn set_option(&self, number: i32, value: &[u8]) -> Result<(), Error> {
        let mut state = self.core().enter_for_options()?;
        let result = state.set_option(number, value);
        self.core().leave(&mut state);
        result
    }

    /// Reads an option by libzmq's number into `out`; returns the bytes written.
    ///
    /// # Errors
    /// There is no such option, or `out` is too short.
    pub fn option(&self, number: i32, out: &mut [u8]) -> Result<usize, Error> {
        if number == number::EVENTS {
            let events = self.events()?;
            let bits = i32::from(events.readable) | i32::from(events.writable) << 1;
            return crate::option_table::put_int(out, bits);
        }
        if number == number::FD {
            let descriptor = self.raw_descriptor()?;
            return crate::option_table::put_int(out, descriptor);
        }
        let state = self.core().enter_for_options()?;
        state.option(number, out)
    }

    /// What the socket is ready for, after a look at the network.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn events(&self) -> Result<Events, Error> {
        let mut state = self.core().enter()?;
        self.core().take_over(&mut state);
        self.drive(&mut state, Wait::Not, Purpose::Receive)?;
        let events = state.events();
        state.is_told_writable = events.writable;
        self.core().leave(&mut state);
        Ok(events)
    }

    /// As [`events`](Self::events), but without a look at the network where what is asked for is
    /// known already.
    pub(crate) fn events_at_once(&self, wanted: Events) -> Result<Events, Error> {
        let mut state = self.core().enter()?;
        let known = Events {
            readable: wanted.readable && state.can_receive(),
            writable: wanted.writable && state.can_send(),
        };
        if known == wanted {
            return Ok(known);
        }
        drop(state);
        let events = self.events()?;
        Ok(Events {
            readable: wanted.readable && events.readable,
            writable: wanted.writable && events.writable,
        })
    }

    /// A descriptor that becomes readable when [`events`](Self::events) may have changed. As
    /// with libzmq's `ZMQ_FD`, ask for the events after every send and receive: the descriptor
    /// tells of the network, not of what has been read from it already. It stays open until the
    /// last handle of the socket is dropped.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.core().polled_descriptor()
    }

    /// The number of [`descriptor`](Self::descriptor). Where only this has been asked for, the
    /// descriptor is closed with the socket.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn raw_descriptor(&self) -> Result<RawFd, Error> {
        Ok(self.core().polled_epoll()?.as_fd().as_raw_fd())
    }

    /// Tells what happens to the socket on a PAIR socket bound to `endpoint`; `None` ends it.
    ///
    /// # Errors
    /// The endpoint is none within the process, or is taken.
    pub fn monitor(
        &self,
        endpoint: Option<&str>,
        events: u64,
        version: u32,
        kind: SocketType,
    ) -> Result<(), Error> {
        let mut state = self.core().enter_for_options()?;
        let Some(endpoint) = endpoint else {
            state.stop_monitor();
            return Ok(());
        };
        if !matches!(Address::parse(endpoint)?, Address::Inproc(_)) {
            return Err(Error::UnknownTransport);
        }
        if !matches!(version, 1 | 2) || (version == 1 && events > u64::from(u16::MAX)) {
            return Err(Error::InvalidArgument);
        }
        if !matches!(kind, SocketType::Pair | SocketType::Pub | SocketType::Push) {
            return Err(Error::InvalidArgument);
        }
        state.stop_monitor();
        let context = Arc::clone(&self.core().context);
        let socket = Context::of(context).socket(kind)?;
        socket.set_option(number::LINGER, &0_i32.to_ne_bytes())?;
        if let Err(error) = socket.bind(endpoint) {
            let _ = socket.close();
            return Err(error);
        }
        state.monitor = Some(Monitor::new(Box::new(socket), events, version));
        Ok(())
    }

    /// Closes the socket. What is queued is still sent, for as long as `LINGER` says.
    ///
    /// # Errors
    /// It is closed already.
    pub fn close(&self) -> Result<(), Error> {
        self.core().close()
    }
}

impl EventSink for Socket {
    fn send_event(&self, frames: Vec<Vec<u8>>) {
        let last = frames.len() - 1;
        for (index, frame) in frames.into_iter().enumerate() {
            let flags = SendFlags {
                dont_wait: true,
                more: index < last,
            };
            if self.send(&mut Message::from_vec(frame), flags).is_err() {
                return;
            }
        }
    }

    fn end(&self) {
        let _ = self.close();
    }
}

/// A moment for a receiver to catch up.
const EASING_NS: u64 = 500_000;

impl State {
    /// The pipe to a peer within the process.
    fn pipe(&mut self, key: Key) -> Option<&mut PipeEnd> {
        match &mut self.peers.get_mut(key)?.link {
            Link::Pipe(pipe) => Some(pipe),
            Link::Stream(_) | Link::Datagrams(_) | Link::None => None,
        }
    }

    pub(crate) fn events(&mut self) -> Events {
        Events {
            readable: self.can_receive(),
            writable: self.can_send(),
        }
    }

    fn conflates_topics(&self) -> bool {
        self.options.conflate_topics && self.kind.has_topics()
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            routing_id: self.options.routing_id.clone(),
            receive_high_water: self.options.receive_high_water.max(0) as usize,
            send_high_water: self.options.send_high_water.max(0) as usize,
            // The more particular of the two counts.
            conflates: self.options.conflate && self.kind.conflates() && !self.conflates_topics(),
            topics_out: self.options.topics_out(self.kind),
            topics_in: self.options.topics_in(self.kind),
        }
    }

    pub(crate) fn connect(&mut self, endpoint: &str, address: Address) -> Result<(), Error> {
        if self.kind.connects_once() && self.has_endpoint(endpoint, &address) {
            return Ok(());
        }
        let mut secure = None;
        let remote = match address {
            Address::Tcp(text) => Remote::Tcp(address::Target::parse(&text)?),
            // By TCP; the endpoint's name tells what is spoken there.
            Address::WebSocket(web) => {
                let target = address::Target::parse(&web.place)?;
                if web.is_secure {
                    secure = Some(Secure::client(&self.options, &target.host)?);
                }
                Remote::Tcp(target)
            }
            Address::Ipc(path) => {
                address::unix_address(&path)?;
                Remote::Ipc(path)
            }
            Address::Shm(path) => {
                address::unix_address(&path)?;
                Remote::Shm(path)
            }
            Address::Inproc(_) => {
                self.connect_inproc(endpoint);
                self.last_endpoint = endpoint.to_owned();
                return Ok(());
            }
            Address::Udp(_) => return Err(Error::IncompatibleTransport),
        };
        self.connect_to(endpoint.to_owned(), remote, secure);
        self.last_endpoint = address::told(endpoint).unwrap_or_else(|| endpoint.to_owned());
        Ok(())
    }

    /// Whether the program has bound or connected this endpoint already, under this name.
    fn has_endpoint(&self, endpoint: &str, address: &Address) -> bool {
        // One that was given up is tried again.
        let is_tried = |known: &Endpoint| match &known.role {
            Role::Connecter(connecter) => !matches!(connecter.phase, Phase::Stopped),
            _ => true,
        };
        let is_meant =
            |known: &Endpoint| known.name == endpoint && !known.is_leaving && is_tried(known);
        !matches!(address, Address::Inproc(_)) && self.endpoints.values().any(is_meant)
    }

    fn connect_inproc(&mut self, endpoint: &str) {
        let inproc = Arc::clone(&self.inproc);
        let signal = Arc::clone(&self.signal);
        let hello = self.hello();
        inproc.connect_early(endpoint, &signal, hello, |end| {
            let origin = self.endpoints.next_key();
            let peer = self.attach_pipe(end, Some(origin))?;
            let options = self.options_now();
            let inserted = self.endpoints.insert(Endpoint {
                name: endpoint.to_owned(),
                role: Role::InprocConnecter { peer },
                options,
                secure: None,
                is_leaving: false,
            });
            debug_assert_eq!(inserted, origin, "the peer names its endpoint");
            Some(peer)
        });
    }

    fn endpoints_named(&self, name: &str) -> Vec<Key> {
        let mut found = self.endpoints.keys();
        let is_meant = |known: &Endpoint| known.is_named(name);
        found.retain(|&key| self.endpoints.get(key).is_some_and(is_meant));
        found
    }

    fn end_endpoint(&mut self, endpoint: &str) -> Result<(), Error> {
        let mut found = self.endpoints_named(endpoint);
        if found.is_empty()
            && let Some(place) = endpoint.strip_prefix("tcp://")
            && let Ok(bound) = address::bound_address(place, self.options.ipv6)
        {
            // It was bound under another name of the address.
            found = self.endpoints_named(&format!("tcp://{bound}"));
        }
        if found.is_empty() {
            return Err(Error::NoSuchEndpoint);
        }
        // As in libzmq, all that were bound or connected under this name.
        for key in found {
            self.undo_endpoint(key);
        }
        Ok(())
    }
}
