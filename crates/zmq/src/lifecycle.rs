//! A peer's connection, from the handshake to its loss.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use tidewire_readiness::Uncancelled;
use tidewire_zmtp::curve::{Keypair, SecretKey};
use tidewire_zmtp::websocket::WebSocket;
use tidewire_zmtp::{self as zmtp, Connection, Error as WireError, status_code};

use crate::endpoint::{Endpoint, Loss, Phase, Role};
use crate::kind::SocketType;
use crate::link::{Carrier, Claim, Fill, Inbound, Interest, StreamLink};
use crate::message::Message;
use crate::monitor::Event;
use crate::options::{Mechanism, Options};
use crate::peer::Link;
use crate::pipe::PipeEnd;
use crate::properties::Properties;
use crate::slab::Key;
use crate::state::{State, Timer, Token};

impl State {
    /// A transport is there: greets the peer.
    pub(crate) fn begin_link(&mut self, key: Key, carrier: Carrier, is_ours: bool) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let options = Arc::clone(&peer.options);
        let mut peer_address = None;
        if let Carrier::Kernel(descriptor) = &carrier {
            peer_address = crate::transport::remote_address(descriptor);
            self.set_kernel_buffers(descriptor, peer_address, &options);
        }
        let Some(mut link) = self.new_link(key, carrier, &options, is_ours) else {
            return self.lose(key, Loss::ByUs);
        };
        link.peer_ip = peer_address.map(|address| address.ip());
        link.interest = Interest {
            read: true,
            write: false,
        };
        let flags = link.interest.flags();
        let added = self.watch_descriptor(&link, Token::Peer(key), flags);
        let is_raw = link.machine().is_none();
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        debug_assert!(
            matches!(peer.link, Link::None),
            "a peer has one link at a time"
        );
        peer.link = Link::Stream(Box::new(link));
        peer.machine_timer_ns = u64::MAX;
        self.note_ends(key);
        if added.is_err() {
            return self.lose(key, Loss::ByUs);
        }
        self.time_machine(key);
        self.activate(key);
        if is_raw {
            return self.raw_ready(key);
        }
        self.flush(key);
    }

    /// Gives a new connection the buffers that fit its socket's type, where the program has not.
    fn set_kernel_buffers(
        &self,
        descriptor: &OwnedFd,
        peer_address: Option<SocketAddr>,
        options: &Options,
    ) {
        if options.send_buffer_bytes >= 0 {
            return;
        }
        let bytes = match peer_address {
            None => self.unix_send_bytes(),
            Some(address) if address.ip().is_loopback() => self.local_send_bytes(),
            Some(_) => None,
        };
        if let Some(bytes) = bytes {
            crate::transport::set_send_buffer(descriptor, bytes);
        }
        if options.topics_out(self.kind).is_some() {
            crate::transport::set_unsent_bytes_max(descriptor, CONFLATED_UNSENT_BYTES_MAX);
        }
    }

    /// The send buffer of a connection within the machine, where a message that a peer has no room
    /// for waits with its sender. Where it would be dropped the kernel may keep what it can.
    fn local_send_bytes(&self) -> Option<usize> {
        match self.kind {
            SocketType::Push | SocketType::Dealer | SocketType::Pair | SocketType::Req => {
                Some(LOCAL_SEND_BYTES)
            }
            // It is asked for each of its peers whether there is room.
            SocketType::Router if self.options.router_mandatory => Some(LOCAL_SEND_BYTES / 2),
            kind if kind.is_publisher() && self.options.xpub_no_drop => Some(LOCAL_SEND_BYTES),
            _ => None,
        }
    }

    /// The send buffer of a Unix socket, which never grows by itself: what Linux gives it does not
    /// take a message of 256 KiB, whose end would have to wait for the background thread.
    fn unix_send_bytes(&self) -> Option<usize> {
        let hears_late = self.kind == SocketType::Router && self.options.router_mandatory;
        (!hears_late).then_some(LOCAL_SEND_BYTES)
    }

    /// What is spoken with a new peer; `None`: there is no way to begin. Not within its caller,
    /// whose frame would keep the room for it: the program's stack may be small.
    #[inline(never)]
    fn new_link(
        &self,
        key: Key,
        carrier: Carrier,
        options: &Options,
        is_ours: bool,
    ) -> Option<StreamLink> {
        let kind = self.kind.wire().filter(|_| !self.options.router_raw);
        let Some(kind) = kind else {
            return Some(StreamLink::raw(carrier));
        };
        let mut config = wire_config(kind, options);
        let Some(place) = self.websocket_place(key) else {
            let connection = Connection::new(config, self.now_ns);
            return Some(StreamLink::zmtp(carrier, connection));
        };
        config.websocket = true;
        let websocket = match is_ours {
            false => WebSocket::server(&config),
            true => {
                let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
                let path = if path.is_empty() { "/" } else { path };
                // What stands before it says where to connect from.
                let host = host.rsplit(';').next().unwrap_or(host);
                WebSocket::client(host, path, &config).ok()?
            }
        };
        let tls = match self
            .endpoint_of(key)
            .and_then(|known| known.secure.as_ref())
        {
            None => None,
            Some(secure) => Some(secure.session()?),
        };
        let connection = Connection::new(config, self.now_ns);
        let link = StreamLink::websocket(carrier, connection, websocket, tls);
        Some(link)
    }

    /// Host, port and path of the endpoint that a peer came by, if that is one of WebSocket.
    fn websocket_place(&self, key: Key) -> Option<String> {
        let name = &self.endpoint_of(key)?.name;
        let place = name.strip_prefix("ws://").or(name.strip_prefix("wss://"))?;
        Some(place.to_owned())
    }

    /// The endpoint that a peer came by.
    fn endpoint_of(&self, key: Key) -> Option<&Endpoint> {
        self.endpoints.get(self.peers.get(key)?.origin?)
    }

    /// The kernel has something for a peer, or room.
    pub(crate) fn peer_event(&mut self, key: Key, flags: epoll::EventFlags, ahead: bool) {
        use epoll::EventFlags;
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        if peer.muted.is_some() {
            return self.muted_event(key);
        }
        if let Link::Stream(link) = &peer.link
            && link.carrier.shared().is_some()
        {
            return self.ring_event(key, ahead);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(key);
        }
        if let Some(Link::Datagrams(link)) = self.peers.get(key).map(|peer| &peer.link) {
            if flags.contains(EventFlags::ERR) {
                link.take_error();
            }
            if flags.contains(EventFlags::IN) {
                self.datagrams_arrived(key, ahead);
            }
            return;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP)
        {
            self.read_peer(key, ahead);
        }
    }

    /// Reads once from a peer. `ahead`: the program is not asking, so that all is decoded at once.
    pub(crate) fn read_peer(&mut self, key: Key, ahead: bool) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let is_waiting = peer.is_readable;
        let (is_leaving, conflates) = (peer.is_leaving, peer.conflates);
        let has_topics = peer.incoming.topics().is_some();
        let Link::Stream(link) = &mut peer.link else {
            return;
        };
        if is_waiting && link.has_input() {
            // The program has not taken what came before: within its mark, no further.
            self.decode_ahead(key);
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            match &mut peer.link {
                Link::Stream(link) if link.interest.read => {}
                _ => return,
            }
        }
        let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return;
        };
        let was_ready = link.is_ready();
        match link.fill(&mut self.spares) {
            Fill::WouldBlock => return,
            Fill::Some | Fill::All | Fill::Closed | Fill::Failed(_) => {}
        }
        if link.is_at_end {
            self.watch(key, |interest| *interest = Interest::default());
        }
        let decodes_now = ahead
            || !was_ready
            || is_leaving
            || !self.kind.receives()
            || self.kind.is_publisher()
            || conflates;
        if has_topics {
            self.gather_topics(key);
            self.flush(key);
        } else if decodes_now {
            self.decode_ahead(key);
            self.flush(key);
        } else {
            self.mark_readable(key);
        }
    }

    /// What is not a message.
    pub(crate) fn protocol_event(&mut self, key: Key, inbound: Inbound) {
        match inbound {
            Inbound::Subscribe(_) | Inbound::Cancel(_) if self.is_leaving(key) => {}
            Inbound::Subscribe(topic) => self.peer_subscribes(key, &topic),
            Inbound::Cancel(topic) => self.peer_cancels(key, &topic),
            Inbound::Ready => self.peer_ready(key),
            Inbound::Authenticate(claim) => self.authenticate(key, claim),
            Inbound::Refused(reason) => {
                if let Some(code) = status_code(&reason) {
                    self.report_peer(key, Event::HandshakeFailedAuth, u64::from(code));
                }
                self.refused(key);
            }
            Inbound::Broken(error) => {
                let is_ready = self
                    .peers
                    .get(key)
                    .is_some_and(|peer| peer.identity.is_some());
                tracing::debug!(%error, "a peer broke the protocol");
                if !is_ready && let Some(number) = error.protocol_error_number() {
                    self.report_peer(key, Event::HandshakeFailedProtocol, u64::from(number));
                }
                self.flush(key);
                let loss = match error {
                    WireError::IncompatibleSocketType { .. } => Loss::Misfit,
                    _ => Loss::Protocol,
                };
                self.lose(key, loss);
            }
            Inbound::Insecure(error) => {
                let peer = self.peers.get(key);
                let is_ready = peer.is_some_and(|peer| peer.identity.is_some());
                tracing::debug!(%error, "TLS with a peer has failed");
                if !is_ready {
                    let number = crate::secure::errno(&error);
                    self.report_peer(key, Event::HandshakeFailedNoDetail, number);
                }
                self.lose(key, Loss::Protocol);
            }
            Inbound::Message(_) | Inbound::Nothing => {}
        }
    }

    /// The peer does not let us in, and would not the next time: the RFC forbids to come back
    /// with the same credentials.
    fn refused(&mut self, key: Key) {
        self.lose(key, Loss::Refused);
    }

    /// Has the ZAP handler judge the credentials of a peer.
    fn authenticate(&mut self, key: Key, claim: Claim) {
        match self.ask_zap(key, &claim) {
            crate::zap::Asked::Waiting => {}
            crate::zap::Asked::NoHandler(is_allowed) => {
                if is_allowed {
                    self.judge(key, None);
                } else {
                    self.report_peer(key, Event::HandshakeFailedNoDetail, EFAULT);
                    self.lose(key, Loss::Protocol);
                }
            }
        }
    }

    /// Lets a peer in, or (`Some`) refuses it with a status.
    pub(crate) fn judge(&mut self, key: Key, refusal: Option<&str>) {
        let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return;
        };
        let Some(machine) = link.machine() else {
            return;
        };
        match refusal {
            None => {
                let _ = machine.accept();
                self.decode_ahead(key);
                self.flush(key);
            }
            Some(status) => {
                let _ = machine.refuse(status);
                let code = status.parse().unwrap_or_default();
                self.report_peer(key, Event::HandshakeFailedAuth, code);
                self.flush(key);
                self.lose(key, Loss::Protocol);
            }
        }
    }

    /// The handshake is done.
    fn peer_ready(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Link::Stream(link) = &mut peer.link else {
            return;
        };
        // A server's READY goes before the subscriptions and messages that follow below.
        link.push_outgoing();
        let mut properties = Properties {
            descriptor: Some(link.raw_descriptor()),
            ..Properties::default()
        };
        let peer_address = link.peer_address();
        if !peer_address.is_empty() {
            properties.list.push("Peer-Address", &peer_address);
        }
        if let Some(inquiry) = peer.zap.take() {
            properties.list.append(&inquiry.properties);
        }
        let Some(machine) = link.machine() else {
            return;
        };
        let mut routing_id = Vec::new();
        if let Some(known) = machine.take_peer() {
            routing_id = known.routing_id;
            let announced = known.metadata.properties();
            properties.list.add_announced(announced);
        }
        let properties = Arc::new(properties);
        link.properties = Some(Arc::clone(&properties));
        debug_assert!(peer.identity.is_none(), "a connection has one handshake");
        peer.identity = Some(properties);
        if peer.routing_id.is_empty() {
            peer.routing_id = routing_id;
        }
        self.time_machine(key);
        self.report_peer(key, Event::HandshakeSucceeded, 0);
        self.connection_ready(key);
        self.flush(key);
        if let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) {
            link.end_handshake();
        }
    }

    /// A raw connection needs no handshake.
    fn raw_ready(&mut self, key: Key) {
        self.report_peer(key, Event::HandshakeSucceeded, 0);
        if let Some(peer) = self.peers.get_mut(key) {
            let mut properties = Properties::default();
            if let Link::Stream(link) = &mut peer.link {
                properties.descriptor = Some(link.raw_descriptor());
                properties.list.push("Peer-Address", &link.peer_address());
            }
            let properties = Arc::new(properties);
            peer.identity = Some(Arc::clone(&properties));
            if let Link::Stream(link) = &mut peer.link {
                link.properties = Some(properties);
            }
        }
        self.connection_ready(key);
        self.notify_raw(key);
        self.flush(key);
    }

    /// The pattern learns of a connection that is ready.
    fn connection_ready(&mut self, key: Key) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        match (peer.is_leaving, peer.is_attached) {
            // The pattern knows it no more.
            (true, _) => self.greet(key),
            (false, true) => self.rejoined(key),
            (false, false) => self.attach(key),
        }
    }

    /// A raw connection that comes or goes shows as an empty message.
    pub(crate) fn notify_raw(&mut self, key: Key) {
        if self.is_raw() && self.options.stream_notify {
            self.receive_word(key, Message::new());
        }
    }

    /// Has the program receive what its peer has not said.
    pub(crate) fn receive_word(&mut self, key: Key, mut message: Message) {
        if let Some(peer) = self.peers.get_mut(key)
            && !peer.is_leaving
        {
            message.set_properties(peer.identity.as_ref());
            peer.incoming.push(crate::link::Frames::One(message));
        }
        self.mark_readable(key);
    }

    /// What the program wants to be told of a peer whose connection is lost.
    fn tell_of_loss(&mut self, key: Key, is_ours: bool, pipe: Option<&PipeEnd>) {
        let is_connection = pipe.is_none();
        let notifies = self.options.router_notify & NOTIFY_DISCONNECT != 0;
        if self.kind == SocketType::Router && notifies && is_connection {
            self.receive_word(key, Message::new());
        }
        let origin = self.peers.get(key).and_then(|peer| peer.origin);
        let origin = origin.and_then(|origin| self.endpoints.get(origin));
        // A pipe outlasts the name that was bound.
        let is_listening = pipe.is_some_and(PipeEnd::is_accepted)
            || origin.is_some_and(|origin| matches!(origin.role, Role::Listener { .. }));
        let word = match self.kind {
            SocketType::Router | SocketType::Server | SocketType::Peer if is_listening => {
                &self.options.disconnect_message
            }
            SocketType::Dealer | SocketType::Client | SocketType::Peer if is_ours => {
                &self.options.hiccup_message
            }
            _ => return,
        };
        if !word.is_empty() {
            let word = Message::from_slice(word);
            self.receive_word(key, word);
        }
    }

    /// A connection is over. What it brought can still be received.
    pub(crate) fn lose(&mut self, key: Key, loss: Loss) {
        // In the close of a descriptor the C library would cancel the program's thread.
        let _uncancelled = Uncancelled::new();
        let ends = self.reported_ends(key);
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if peer.is_gone {
            if peer.incoming.is_empty() {
                self.peers.remove(key);
            }
            return;
        }
        let origin = peer.origin;
        let is_leaving = peer.is_leaving;
        let options = Arc::clone(&peer.options);
        let leave_ns = peer.leave_ns;
        let was_ready = peer.identity.take().is_some();
        peer.zap = None;
        let mut link = std::mem::replace(&mut peer.link, Link::None);
        let muted = peer.muted.take();
        // The program has been told of it, and not of one that was not listened to.
        let was_known = was_ready && muted.is_none() && !is_leaving;
        if let Some(muted) = muted {
            debug_assert!(matches!(link, Link::None), "a peer has one link at a time");
            link = Link::Stream(muted.link);
            self.muted.retain(|&known| known != key);
        }
        peer.kernel_has_room();
        peer.backlog.drop_begun();
        let mut pipe = None;
        let had_link = match link {
            Link::Stream(link) => {
                let descriptor = link.raw_descriptor();
                let deadline_ns = self.parting_deadline_ns(loss, was_ready, leave_ns);
                self.let_link_go(key, *link, deadline_ns);
                Some(descriptor)
            }
            Link::Datagrams(link) => {
                self.unwatch_descriptor(&*link);
                self.writes_watched -= usize::from(link.interest.write);
                None
            }
            Link::Pipe(end) => {
                pipe = Some(end);
                None
            }
            Link::None => None,
        };
        if let Some(descriptor) = had_link
            && let Some(ends) = ends
            && loss != Loss::ByUs
        {
            if loss == Loss::ByPeer && !was_ready {
                self.report(Event::HandshakeFailedNoDetail, EPIPE, &ends);
            }
            self.report(Event::Disconnected, descriptor as u64, &ends);
        }
        let is_connecting = origin.and_then(|origin| self.connecter(origin)).is_some();
        if (was_known || pipe.is_some()) && loss != Loss::ByUs {
            self.tell_of_loss(key, is_connecting, pipe.as_ref());
        }
        if let Some(endpoint) = origin
            && is_connecting
            && !was_ready
            && had_link.is_some()
            && loss != Loss::ByUs
        {
            // It would be the same the next time.
            let is_final = matches!(loss, Loss::Refused | Loss::Misfit);
            if is_final && !is_leaving {
                return self.stop_trying(endpoint);
            }
            if is_final || options.reconnect_stop & STOP_AFTER_HANDSHAKE != 0 {
                return self.stop_connecting(endpoint);
            }
        }
        let returns = is_connecting
            && self.kind != SocketType::Stream
            && (!options.immediate || self.kind.is_subscriber());
        if let Some(peer) = self.peers.get_mut(key)
            && returns
            && (peer.is_attached || is_leaving)
        {
            // What a subscriber wants is kept for it too, as by libzmq: messages wait meanwhile.
            self.reconnect(origin);
            return;
        }
        // Who has ended it itself need not be told.
        self.detach(key, was_known && loss != Loss::ByUs);
        if is_leaving && origin.is_some_and(|origin| self.end_leaving_endpoint(origin)) {
            return;
        }
        if is_connecting {
            if let Some(connecter) = origin.and_then(|origin| self.connecter(origin)) {
                connecter.peer = None;
            }
            if self.kind == SocketType::Stream && loss == Loss::ByUs {
                // The program has ended it: it is not to come back.
                if let Some(endpoint) = origin {
                    self.abandon_attempt(endpoint);
                    self.endpoints.remove(endpoint);
                }
                return;
            }
            self.reconnect(origin);
        }
    }

    fn reconnect(&mut self, origin: Option<Key>) {
        let is_owed = self.peers.values().any(|peer| !peer.backlog.is_empty());
        if let Some(endpoint) = origin
            && (!self.is_closing || is_owed)
        {
            self.retry_later(endpoint);
        }
    }

    /// Does what is due.
    pub(crate) fn run_timers(&mut self) {
        while let Some(&Reverse((deadline, timer))) = self.timers.peek()
            && deadline <= self.now_ns
        {
            self.timers.pop();
            match timer {
                Timer::Machine(key) => {
                    if let Some(peer) = self.peers.get_mut(key) {
                        peer.machine_timer_ns = u64::MAX;
                    }
                    self.machine_timeout(key);
                }
                Timer::Reconnect(endpoint) => {
                    let is_waiting = self
                        .connecter(endpoint)
                        .is_some_and(|connecter| matches!(connecter.phase, Phase::Waiting));
                    if is_waiting {
                        self.attempt(endpoint);
                    }
                }
                Timer::Accept(endpoint) => self.resume_accepting(endpoint),
                Timer::Connect(endpoint) => self.connect_timeout(endpoint),
                Timer::Leave(key) => self.end_leaving(key),
                Timer::Part(key) => self.look_at_parting(key),
                // Who closes looks then.
                Timer::Acknowledge => {}
                Timer::Linger => self.drop_everything(),
            }
        }
    }

    /// Sets the timer that a peer's protocol machine wants, unless an earlier one is set.
    pub(crate) fn time_machine(&mut self, key: Key) {
        let now_ns = self.now_ns;
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Link::Stream(link) = &mut peer.link else {
            return;
        };
        let Some(deadline_ns) = link.machine().and_then(|machine| machine.deadline_ns()) else {
            return;
        };
        if deadline_ns < peer.machine_timer_ns {
            peer.machine_timer_ns = deadline_ns;
            self.set_timer(deadline_ns.max(now_ns + 1), Timer::Machine(key));
        }
    }

    fn machine_timeout(&mut self, key: Key) {
        let now_ns = self.now_ns;
        let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) else {
            return;
        };
        let Some(machine) = link.machine() else {
            return;
        };
        let result = machine.timeout(now_ns);
        let is_ready = machine.is_ready();
        match result {
            Err(error) => {
                tracing::debug!(%error, "a peer is given up");
                if !is_ready && error == zmtp::Error::HandshakeTimeout {
                    self.report_peer(key, Event::HandshakeFailedNoDetail, EAGAIN);
                }
                let loss = if is_ready {
                    Loss::ByPeer
                } else {
                    Loss::Protocol
                };
                self.lose(key, loss);
            }
            Ok(()) => {
                self.flush(key);
                self.time_machine(key);
            }
        }
    }
}

/// What is said and kept to with a peer, by the options of the endpoint that it came by.
fn wire_config(kind: zmtp::SocketType, options: &Options) -> zmtp::Config {
    let mut config = zmtp::Config::new(kind);
    config.routing_id = options.routing_id.clone();
    config.properties = options.metadata.clone();
    let security = &options.security;
    config.security = match (security.mechanism, security.is_server) {
        (Mechanism::Plain, true) => zmtp::Security::PlainServer,
        (Mechanism::Plain, false) => zmtp::Security::PlainClient {
            username: security.username.clone(),
            password: security.password.clone(),
        },
        (Mechanism::Curve, true) => zmtp::Security::CurveServer {
            secret_key: SecretKey::new(security.secret_key),
        },
        (Mechanism::Curve, false) => zmtp::Security::CurveClient {
            keys: Keypair {
                public: security.public_key,
                secret: SecretKey::new(security.secret_key),
            },
            server_key: security.server_key,
        },
        (Mechanism::Null, _) => zmtp::Security::Null,
    };
    config.authenticate_null =
        security.mechanism == Mechanism::Null && !options.zap_domain.is_empty();
    config.limits.frame_bytes_max = match options.message_bytes_max {
        limit if limit >= 0 => limit as u64,
        _ => i64::MAX as u64,
    };
    config.stream_above_bytes = Some(STREAMED_BYTES_MIN);
    config.only_first_subscribe = options.only_first_subscribe;
    config.whole_messages = true;
    config.handshake_timeout_ns = options.handshake_interval_ms.max(0) as u64 * 1_000_000;
    if options.heartbeat_interval_ms > 0 {
        let timeout_ms = match options.heartbeat_timeout_ms {
            -1 => options.heartbeat_interval_ms,
            given => given,
        };
        config.heartbeat = Some(zmtp::Heartbeat {
            interval_ns: options.heartbeat_interval_ms as u64 * 1_000_000,
            ttl_deciseconds: options.heartbeat_ttl_deciseconds,
            timeout_ns: timeout_ms as u64 * 1_000_000,
        });
    }
    config
}

/// Frames longer than this that are not all here are read straight into their message.
const STREAMED_BYTES_MIN: u64 = 8 << 10;
/// Measured with 64 KiB messages, PUSH to PULL: half as many again as without. At half of it a
/// message of 256 KiB takes twice as long. Linux doubles it, for what it keeps beside the bytes.
const LOCAL_SEND_BYTES: usize = 256 << 10;
/// Bytes that TCP keeps unsent where topics are conflated: what the kernel has is replaced no more,
/// and its buffer grows to megabytes. What is on its way to the peer is not counted, so that a long
/// way stays filled.
const CONFLATED_UNSENT_BYTES_MAX: u32 = 64 << 10;
/// `ZMQ_NOTIFY_DISCONNECT` of `ZMQ_ROUTER_NOTIFY`.
const NOTIFY_DISCONNECT: i32 = 2;
/// `ZMQ_RECONNECT_STOP_HANDSHAKE_FAILED`.
const STOP_AFTER_HANDSHAKE: i32 = 2;
/// What libzmq reports where a ZAP handler is missing.
const EFAULT: u64 = 14;
/// What it reports of a handshake that takes too long: the reads have brought nothing.
const EAGAIN: u64 = 11;
/// What it reports of a peer that goes in the middle of its handshake.
const EPIPE: u64 = 32;
