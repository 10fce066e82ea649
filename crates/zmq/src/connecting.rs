//! Outgoing connections: the first attempt, and coming back after a loss.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use tidewire_rings::Offer;

use crate::address::Target;
use crate::endpoint::{Connecter, Endpoint, Phase, Remote, Role};
use crate::error::Error;
use crate::link::Carrier;
use crate::monitor::Event;
use crate::option_table::until_zero;
use crate::options::Options;
use crate::peer::{Link, Peer};
use crate::secure::Secure;
use crate::slab::Key;
use crate::socks::Negotiation;
use crate::state::{State, Timer, Token};
use crate::transport::NotConnected;

impl State {
    /// Starts an outgoing connection.
    pub(crate) fn connect_to(
        &mut self,
        name: String,
        remote: Remote,
        secure: Option<Secure>,
    ) -> Key {
        let routing_id = std::mem::take(&mut self.options.connect_routing_id);
        let options = self.options_now();
        let backoff_ms = options.reconnect_interval_ms;
        let endpoint = self.endpoints.insert(Endpoint {
            name,
            options: Arc::clone(&options),
            secure,
            is_leaving: false,
            role: Role::Connecter(Box::new(Connecter {
                remote,
                phase: Phase::Waiting,
                peer: None,
                backoff_ms,
                routing_id: routing_id.clone(),
            })),
        });
        let waits_for_peer = options.immediate && !self.kind.is_subscriber();
        if !waits_for_peer {
            let mut peer = Peer::new(self.kind, Link::None, Some(endpoint), options);
            peer.routing_id = routing_id;
            let key = self.peers.insert(peer);
            if let Some(connecter) = self.connecter(endpoint) {
                connecter.peer = Some(key);
            }
            self.attach(key);
        }
        self.attempt(endpoint);
        endpoint
    }

    /// The options as they are now, to be kept by what is bound or connected with them. Endpoints
    /// that begin with the same options share them.
    pub(crate) fn options_now(&mut self) -> Arc<Options> {
        if *self.options_shared != self.options {
            self.options_shared = Arc::new(self.options.clone());
        }
        Arc::clone(&self.options_shared)
    }

    /// The options that an endpoint was bound or connected with; `None`: it is gone.
    pub(crate) fn options_of(&self, endpoint: Key) -> Option<Arc<Options>> {
        Some(Arc::clone(&self.endpoints.get(endpoint)?.options))
    }

    pub(crate) fn connecter(&mut self, endpoint: Key) -> Option<&mut Connecter> {
        match &mut self.endpoints.get_mut(endpoint)?.role {
            Role::Connecter(connecter) => Some(connecter),
            _ => None,
        }
    }

    /// Tries to connect.
    pub(crate) fn attempt(&mut self, endpoint: Key) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        let ipv6 = options.ipv6;
        let proxy = proxy(&options);
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        let remote = match (proxy, &connecter.remote) {
            (Some(Ok(proxy)), Remote::Tcp(_)) => Remote::Tcp(proxy),
            // Without its proxy it connects nowhere.
            (Some(Err(_)), Remote::Tcp(_)) => {
                return self.attempted(endpoint, Err(Errno::INVAL.into()));
            }
            (_, remote) => remote.clone(),
        };
        match &remote {
            Remote::Ipc(path) => {
                let result = crate::transport::connect_unix(path, &options);
                self.attempted(endpoint, result);
            }
            Remote::Shm(path) => {
                let result = crate::transport::connect_shared(path);
                self.attempted(endpoint, result);
            }
            Remote::Tcp(target) => match target.numeric(ipv6) {
                Some(address) => {
                    let source = target.source.clone();
                    self.attempt_tcp(endpoint, source.as_deref(), address);
                }
                None => {
                    let target = target.clone();
                    connecter.phase = Phase::Resolving;
                    self.resolve(endpoint, target, ipv6);
                }
            },
        }
    }

    fn attempt_tcp(&mut self, endpoint: Key, source: Option<&str>, address: SocketAddr) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        let ipv6 = options.ipv6;
        let source = source.map(|source| crate::address::source_address(source, ipv6));
        let result = match source.transpose() {
            Ok(source) => crate::transport::connect_tcp(source, address, &options),
            // The device may get its address later.
            Err(_) => Err(Errno::ADDRNOTAVAIL.into()),
        };
        self.attempted(endpoint, result);
    }

    /// Looks a name up in a thread of its own: it can take seconds.
    fn resolve(&mut self, endpoint: Key, target: Target, ipv6: bool) {
        let signal = std::sync::Arc::clone(&self.signal);
        let looked_up = self.resolver.spawn(move || {
            let addresses = target.look_up(ipv6);
            signal.send(crate::mail::Mail::Resolved {
                endpoint,
                addresses,
            });
        });
        if looked_up.is_err() {
            self.retry_later(endpoint);
        }
    }

    pub(crate) fn resolved(&mut self, endpoint: Key, addresses: &[SocketAddr]) {
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        let Remote::Tcp(target) = &connecter.remote else {
            return;
        };
        let source = target.source.clone();
        match addresses.first() {
            Some(&address) => self.attempt_tcp(endpoint, source.as_deref(), address),
            None => {
                connecter.phase = Phase::Waiting;
                self.retry_later(endpoint);
            }
        }
    }

    /// A connection attempt is under way, done, or failed.
    fn attempted(&mut self, endpoint: Key, result: Result<(OwnedFd, bool), NotConnected>) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        match result {
            Ok((descriptor, true)) => self.reached(endpoint, descriptor),
            Ok((descriptor, false)) => {
                let token = Token::Endpoint(endpoint);
                let flags = epoll::EventFlags::OUT;
                if self.watch_descriptor(&descriptor, token, flags).is_err() {
                    return self.retry_later(endpoint);
                }
                let reason = Errno::INPROGRESS.raw_os_error() as u64;
                self.report_endpoint(endpoint, Event::ConnectDelayed, reason);
                let timeout_ms = options.connect_timeout_ms;
                if timeout_ms > 0 {
                    let deadline = self.now_ns + timeout_ms as u64 * 1_000_000;
                    self.set_timer(deadline, Timer::Connect(endpoint));
                }
                if let Some(connecter) = self.connecter(endpoint) {
                    connecter.phase = Phase::Connecting(descriptor);
                }
            }
            Err(NotConnected { errno, number }) => {
                tracing::debug!(%errno, "a connection could not be made");
                self.report_endpoint(endpoint, Event::Closed, number);
                let is_refused = errno == Errno::CONNREFUSED;
                if is_refused && options.reconnect_stop & STOP_REFUSED != 0 {
                    return self.stop_connecting(endpoint);
                }
                self.retry_later(endpoint);
            }
        }
    }

    /// A descriptor that was to connect has failed.
    fn failed(&mut self, endpoint: Key, descriptor: OwnedFd, errno: Errno) {
        let number = crate::transport::raw(&descriptor) as u64;
        drop(descriptor);
        self.attempted(endpoint, Err(NotConnected { errno, number }));
    }

    /// A connecting descriptor has become writable.
    pub(crate) fn connect_event(&mut self, endpoint: Key) {
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        match connecter.phase {
            Phase::Negotiating(..) => return self.negotiate(endpoint),
            Phase::Mapping(_) => return self.map(endpoint),
            _ => {}
        }
        if !matches!(connecter.phase, Phase::Connecting(_)) {
            return;
        }
        let Phase::Connecting(descriptor) = std::mem::replace(&mut connecter.phase, Phase::Waiting)
        else {
            return;
        };
        self.unwatch_descriptor(&descriptor);
        match rustix::net::sockopt::socket_error(&descriptor) {
            Ok(Ok(())) => self.reached(endpoint, descriptor),
            Ok(Err(errno)) | Err(errno) => {
                self.failed(endpoint, descriptor, errno);
            }
        }
    }

    /// The time to connect is up.
    pub(crate) fn connect_timeout(&mut self, endpoint: Key) {
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        if let Phase::Connecting(_) | Phase::Negotiating(..) | Phase::Mapping(_) = connecter.phase {
            let number = self.abandon_attempt(endpoint);
            self.report_endpoint(endpoint, Event::Closed, number);
            self.retry_later(endpoint);
        }
    }

    /// A connection is made: to the peer itself, or to a proxy.
    fn reached(&mut self, endpoint: Key, descriptor: OwnedFd) {
        let negotiation = match self.endpoints.get(endpoint) {
            Some(Endpoint {
                role: Role::Connecter(connecter),
                options,
                ..
            }) if proxy(options).is_some() => match &connecter.remote {
                Remote::Tcp(target) => Some(Negotiation::new(
                    &target.host,
                    target.port,
                    until_zero(&options.socks_username),
                    until_zero(&options.socks_password),
                )),
                Remote::Ipc(_) | Remote::Shm(_) => None,
            },
            _ => None,
        };
        let Some(negotiation) = negotiation else {
            let remote = self.connecter(endpoint).map(|known| &known.remote);
            return match remote {
                Some(Remote::Shm(_)) => self.await_memory(endpoint, descriptor),
                _ => self.connected(endpoint, Carrier::Kernel(descriptor)),
            };
        };
        let flags = epoll::EventFlags::IN;
        if self
            .watch_descriptor(&descriptor, Token::Endpoint(endpoint), flags)
            .is_err()
        {
            return self.retry_later(endpoint);
        }
        if let Some(connecter) = self.connecter(endpoint) {
            connecter.phase = Phase::Negotiating(descriptor, Box::new(negotiation));
        }
        self.negotiate(endpoint);
    }

    /// Goes on with a proxy as far as its answers are here.
    fn negotiate(&mut self, endpoint: Key) {
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        let Phase::Negotiating(descriptor, negotiation) = &mut connecter.phase else {
            return;
        };
        let outcome = talk(descriptor, negotiation);
        if outcome == Ok(false) {
            return;
        }
        let phase = std::mem::replace(&mut connecter.phase, Phase::Waiting);
        let Phase::Negotiating(descriptor, _) = phase else {
            return;
        };
        self.unwatch_descriptor(&descriptor);
        match outcome {
            Ok(_) => self.connected(endpoint, Carrier::Kernel(descriptor)),
            Err(errno) => {
                self.failed(endpoint, descriptor, errno);
            }
        }
    }

    /// Connected to a peer that hands over memory, which is awaited as long as a handshake.
    fn await_memory(&mut self, endpoint: Key, descriptor: OwnedFd) {
        let token = Token::Endpoint(endpoint);
        let watched = self.watch_descriptor(&descriptor, token, epoll::EventFlags::IN);
        if watched.is_err() {
            return self.retry_later(endpoint);
        }
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        if options.handshake_interval_ms > 0 {
            let patience_ns = options.handshake_interval_ms as u64 * 1_000_000;
            self.set_timer(self.now_ns + patience_ns, Timer::Connect(endpoint));
        }
        if let Some(connecter) = self.connecter(endpoint) {
            connecter.phase = Phase::Mapping(descriptor);
        }
        self.map(endpoint);
    }

    /// Maps the memory that a peer has handed over, if it has.
    fn map(&mut self, endpoint: Key) {
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        let Phase::Mapping(descriptor) = &connecter.phase else {
            return;
        };
        let offer = match Offer::receive(descriptor) {
            Ok(None) => return,
            Ok(Some(offer)) => Ok(offer),
            Err(errno) => Err(errno),
        };
        let phase = std::mem::replace(&mut connecter.phase, Phase::Waiting);
        let Phase::Mapping(descriptor) = phase else {
            return;
        };
        self.unwatch_descriptor(&descriptor);
        match offer {
            Ok(offer) => {
                let channel = offer.accept(descriptor);
                self.connected(endpoint, Carrier::Shared(Box::new(channel)));
            }
            Err(errno) => {
                self.failed(endpoint, descriptor, errno);
            }
        }
    }

    /// The transport is there; the handshake begins.
    fn connected(&mut self, endpoint: Key, carrier: Carrier) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        if let Carrier::Kernel(descriptor) = &carrier {
            crate::transport::tune(descriptor, &options);
        }
        self.report_connection(endpoint, Event::Connected, &carrier);
        let backoff_ms = options.reconnect_interval_ms;
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        connecter.phase = Phase::Established;
        connecter.backoff_ms = backoff_ms;
        let routing_id = connecter.routing_id.clone();
        let key = match connecter.peer {
            Some(key) => key,
            None => {
                let mut peer = Peer::new(self.kind, Link::None, Some(endpoint), options);
                peer.routing_id = routing_id;
                let key = self.peers.insert(peer);
                if let Some(connecter) = self.connecter(endpoint) {
                    connecter.peer = Some(key);
                }
                key
            }
        };
        debug_assert_eq!(
            self.peers.get(key).and_then(|peer| peer.origin),
            Some(endpoint),
            "a connecter and its peer name each other"
        );
        self.begin_link(key, carrier, true);
    }

    /// The next attempt: after the interval, which doubles up to its maximum, with jitter.
    pub(crate) fn retry_later(&mut self, endpoint: Key) {
        let Some(options) = self.options_of(endpoint) else {
            return;
        };
        self.abandon_attempt(endpoint);
        let base_ms = options.reconnect_interval_ms;
        let max_ms = options.reconnect_interval_max_ms;
        if base_ms < 0 {
            return self.stop_connecting(endpoint);
        }
        let now_ns = self.now_ns;
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        let interval_ms = connecter.backoff_ms.max(base_ms) as u64;
        if max_ms > base_ms {
            connecter.backoff_ms = connecter
                .backoff_ms
                .saturating_mul(2)
                .clamp(base_ms.max(1), max_ms);
        }
        let longest_ms = (max_ms > base_ms).then_some(max_ms as u64);
        let chance = crate::clock::random();
        let delay_ns = delay_ns(interval_ms, base_ms as u64, longest_ms, chance);
        self.report_endpoint(endpoint, Event::ConnectRetried, delay_ns / 1_000_000);
        self.set_timer(now_ns + delay_ns, Timer::Reconnect(endpoint));
    }

    /// Ends the attempt to connect that is under way. Returns the number that its descriptor had,
    /// or 0 if there was none.
    pub(crate) fn abandon_attempt(&mut self, endpoint: Key) -> u64 {
        let Some(connecter) = self.connecter(endpoint) else {
            return 0;
        };
        let phase = std::mem::replace(&mut connecter.phase, Phase::Waiting);
        if let Phase::Connecting(descriptor)
        | Phase::Negotiating(descriptor, _)
        | Phase::Mapping(descriptor) = phase
        {
            self.unwatch_descriptor(&descriptor);
            return crate::transport::raw(&descriptor) as u64;
        }
        0
    }

    /// Gives an endpoint up for good, and with it the peer that it led to.
    pub(crate) fn stop_connecting(&mut self, endpoint: Key) {
        self.stop_trying(endpoint);
        self.endpoints.remove(endpoint);
    }

    /// Makes no further attempt, and gives up the peer that an endpoint led to. The endpoint stays
    /// until the program ends it, as in libzmq.
    pub(crate) fn stop_trying(&mut self, endpoint: Key) {
        self.abandon_attempt(endpoint);
        let Some(connecter) = self.connecter(endpoint) else {
            return;
        };
        connecter.phase = Phase::Stopped;
        if let Some(peer) = connecter.peer.take() {
            self.detach(peer, false);
        }
    }
}

/// The SOCKS proxy to connect through, if one is set.
fn proxy(options: &Options) -> Option<Result<Target, Error>> {
    let place = until_zero(&options.socks_proxy);
    let parse =
        |place| Target::parse(std::str::from_utf8(place).map_err(|_| Error::InvalidArgument)?);
    (!place.is_empty()).then(|| parse(place))
}

/// An interval and up to half as much again, by chance: a crowd that lost the same server must not
/// come back all at once. It stays below `longest_ms`, where there is such a limit, and above
/// `shortest_ms`.
fn delay_ns(interval_ms: u64, shortest_ms: u64, longest_ms: Option<u64>, chance: u64) -> u64 {
    let mut from_ms = interval_ms;
    let mut span_ns = interval_ms.max(1) * 500_000;
    if let Some(longest_ms) = longest_ms
        && interval_ms + interval_ms / 2 > longest_ms
    {
        from_ms = shortest_ms.max(longest_ms / 3 * 2);
        debug_assert!(from_ms <= longest_ms, "a delay stays below its limit");
        span_ns = (longest_ms - from_ms).max(1) * 1_000_000;
    }
    from_ms * 1_000_000 + chance % span_ns
}

/// Sends and reads what a negotiation asks for. Whether it is done.
fn talk(descriptor: &OwnedFd, negotiation: &mut Negotiation) -> Result<bool, Errno> {
    loop {
        let outgoing = std::mem::take(negotiation.outgoing());
        if !outgoing.is_empty() {
            // A few octets on a new connection: the kernel has room for them.
            let flags = rustix::net::SendFlags::NOSIGNAL;
            if rustix::net::send(descriptor, &outgoing, flags)? < outgoing.len() {
                return Err(Errno::CONNRESET);
            }
        }
        if negotiation.is_done() {
            return Ok(true);
        }
        let mut buffer = [0; 512];
        let wanted = negotiation.wanted().min(buffer.len());
        debug_assert!(wanted > 0, "a negotiation that is not done awaits octets");
        match rustix::io::read(descriptor, &mut buffer[..wanted]) {
            Ok(0) => return Err(Errno::CONNRESET),
            Ok(count) => negotiation
                .receive(&buffer[..count])
                .map_err(|_| Errno::CONNREFUSED)?,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// `ZMQ_RECONNECT_STOP_CONN_REFUSED`.
const STOP_REFUSED: i32 = 1;

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use crate::transport::{connect_tcp, listen_tcp, local_address};
    use crate::{Context, SendFlags, SocketType, socket_options as option};

    /// It stayed counted: the socket looked for events that could not come.
    #[test]
    fn an_attempt_that_is_given_up_leaves_no_descriptor_behind() {
        let options = Options {
            backlog: 0,
            ..Options::default()
        };
        let (listener, endpoint) = listen_tcp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = local_address(&listener).unwrap();
        // They fill the backlog, so that the next attempt stays under way.
        let _waiting = [0; 4].map(|_| connect_tcp(None, address, &options).unwrap());
        let context = Context::new();
        let stream = context.socket(SocketType::Stream).unwrap();
        stream.connect(&endpoint).unwrap();
        assert_eq!(stream.core().lock().descriptors, 1);
        let name = stream.get(option::ROUTING_ID).unwrap();
        let more = SendFlags {
            more: true,
            ..SendFlags::default()
        };
        stream.send_bytes(&name, more).unwrap();
        // An empty message ends the connection.
        stream.send_bytes(b"", SendFlags::default()).unwrap();
        assert_eq!(stream.core().lock().descriptors, 0);
    }
}
