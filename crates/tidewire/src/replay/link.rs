//! The connection to the hub: a feed publisher over one socket.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_feed::client::{Publisher, PublisherConfig, PublisherError, PublisherState};
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{ClientName, Message};
use tidewire_feed_client::Stream;
use tracing::warn;

use crate::failure::Failure;
use crate::stop::Stop;
use crate::target::Target;
use crate::units::grouped;

/// A publisher and its socket. Clones are the same one: who waits for input serves it, too.
#[derive(Clone)]
pub(super) struct Link(Rc<RefCell<Connection>>);

struct Connection {
    stream: Stream,
    publisher: Publisher,
    to: Target,
    started: Instant,
    out: Vec<u8>,
    input: Vec<u8>,
    chunk: Vec<u8>,
    since_served: u32,
    /// Steps of work, of which every few look at the clock.
    steps: u32,
    /// When the connection was served last, nanoseconds after `started`.
    served_ns: u64,
    /// When bytes arrived last, nanoseconds after `started`.
    heard_ns: u64,
}

/// The hub's confirmation at the end of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledgement {
    /// The next sequence that the hub expects.
    pub(super) next_sequence: u64,
    /// Number of messages that the hub has applied.
    pub(super) applied: u64,
    /// Number of messages that were published.
    published: u64,
}

impl Acknowledgement {
    /// Returns a failure if the hub has not applied every message.
    pub(super) fn fault(&self) -> Option<Failure> {
        let left = self.published.saturating_sub(self.applied);
        let text = || {
            let (left, published) = (grouped(left), grouped(self.published));
            format!(
                "the hub has not applied {left} of the {published} messages; its log and \
                 'INFO feed' say why"
            )
        };
        (left > 0).then(|| Failure::running(text()))
    }
}

impl Link {
    /// Connects and logs in.
    pub(super) fn connect(to: &Target) -> Result<Self, Failure> {
        let connection = Connection::connect(to)?;
        Ok(Self(Rc::new(RefCell::new(connection))))
    }

    /// Returns the number of messages published so far.
    pub(super) fn published(&self) -> u64 {
        self.0.borrow().published()
    }

    /// Publishes a message. Waits while the hub lags too far behind.
    pub(super) fn publish(&self, message: &Message) -> Result<(), Failure> {
        self.0.borrow_mut().publish(message)
    }

    /// Serves the connection if that was long ago: a hub closes one on which nothing arrives. To be
    /// called at each step of work that may publish nothing.
    pub(super) fn keep_alive(&self) -> Result<(), Failure> {
        self.0.borrow_mut().keep_alive()
    }

    /// Serves the connection until `due`, or until told to stop.
    pub(super) fn serve_until(&self, due: Instant, stop: &Stop) -> Result<(), Failure> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.is_asked() {
                return Ok(());
            }
            self.serve(left.min(WAIT_MAX))?;
        }
    }

    /// Sends what is due and takes what has arrived. Waits up to `wait` for either.
    pub(super) fn serve(&self, wait: Duration) -> Result<(), Failure> {
        self.0.borrow_mut().serve(wait)
    }

    /// Ends the stream and waits for the hub's confirmation.
    pub(super) fn finish(&self) -> Result<Acknowledgement, Failure> {
        self.0.borrow_mut().finish()
    }
}

impl Connection {
    fn connect(to: &Target) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            let expected = to.expected();
            Failure::usage(format!("--to: no hub at {to}: {error}; {expected}"))
        };
        let address = to.tcp().ok_or_else(|| failed(&"not a TCP address"))?;
        let stream = TcpStream::connect(address).map_err(|error| failed(&error.kind()))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .map_err(|error| failed(&error.kind()))?;
        let mut stream = Stream::new(stream, to.tls.as_ref()).map_err(|error| failed(&error))?;
        shake(&mut stream).map_err(|error| failed(&error))?;
        let session = tidewire_market::new_session_id();
        let config = PublisherConfig {
            name: ClientName::truncated("replay"),
            credentials: to.credentials,
            ..Default::default()
        };
        let mut publisher = Publisher::new(config, Journal::new(session, WINDOW_MESSAGES));
        publisher.connected(0);
        let mut link = Self {
            stream,
            publisher,
            to: to.clone(),
            started: Instant::now(),
            out: Vec::new(),
            input: Vec::new(),
            chunk: vec![0; 64 * 1024],
            since_served: 0,
            steps: 0,
            served_ns: 0,
            heard_ns: 0,
        };
        while link.publisher.state() == PublisherState::LoggingIn {
            link.serve(WAIT_MAX)?;
        }
        Ok(link)
    }

    fn published(&self) -> u64 {
        self.publisher.journal().next_sequence() - 1
    }

    fn publish(&mut self, message: &Message) -> Result<(), Failure> {
        while self.publisher.room() < ROOM_MESSAGES {
            self.serve(WAIT_MAX)?;
        }
        self.publisher.append(message);
        self.since_served += 1;
        if self.since_served >= SERVE_EVERY_MESSAGES {
            self.serve(Duration::ZERO)?;
        }
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<(), Failure> {
        self.steps = self.steps.wrapping_add(1);
        let looks = self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS);
        if looks && self.now_ns().saturating_sub(self.served_ns) >= SERVE_EVERY_NS {
            self.serve(Duration::ZERO)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Acknowledgement, Failure> {
        self.publisher.finish();
        while self.publisher.state() != PublisherState::Finished {
            self.serve(WAIT_MAX)?;
        }
        debug_assert_eq!(
            self.publisher.overrun(),
            0,
            "a message waits until it has room"
        );
        let end = self.publisher.acknowledgement();
        Ok(Acknowledgement {
            next_sequence: end.map_or(0, |end| end.next_sequence),
            applied: end.map_or(0, |end| end.applied_count),
            published: self.published(),
        })
    }

    fn serve(&mut self, wait: Duration) -> Result<(), Failure> {
        self.since_served = 0;
        self.served_ns = self.now_ns();
        let mut moved = true;
        while moved {
            let now_ns = self.now_ns();
            if self.out.len() < OUT_BYTES {
                self.publisher.produce(now_ns, &mut self.out, OUT_BYTES);
            }
            moved = self.write()? | self.read()?;
        }
        if let Some(reason) = self.silence() {
            return Err(self.lost(&reason));
        }
        if wait.is_zero() || self.publisher.state() == PublisherState::Finished {
            return Ok(());
        }
        let mut flags = PollFlags::IN;
        if !self.out.is_empty() || self.stream.has_outgoing() {
            flags |= PollFlags::OUT;
        }
        let timeout = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut descriptors = [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)];
        // A signal ends the wait early; the caller checks what it asks for.
        let _ = poll(&mut descriptors, Some(&timeout));
        Ok(())
    }

    fn write(&mut self) -> Result<bool, Failure> {
        if self.out.is_empty() {
            return match self.stream.flush() {
                Ok(()) => Ok(false),
                Err(error) => Err(self.gone(&error)),
            };
        }
        match self.stream.write(&self.out) {
            Ok(count) => {
                self.out.drain(..count);
                Ok(count > 0)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(self.gone(&error)),
        }
    }

    /// Returns why the hub takes no more: the error of the socket, or what the hub has said before.
    fn gone(&mut self, error: &std::io::Error) -> Failure {
        loop {
            match self.read() {
                Ok(true) => {}
                Err(failure) if self.publisher.refusal().is_some() => return failure,
                Ok(false) | Err(_) => return self.lost(&error.to_string()),
            }
        }
    }

    fn read(&mut self) -> Result<bool, Failure> {
        match self.stream.read(&mut self.chunk) {
            Ok(0) => Err(self.lost("the server closed the connection")),
            Ok(count) => {
                self.input.extend_from_slice(&self.chunk[..count]);
                let now_ns = self.now_ns();
                self.heard_ns = now_ns;
                let used = self.publisher.receive(&self.input, now_ns);
                let used = used.map_err(|error| self.refused(error))?;
                self.input.drain(..used);
                while let Some(notice) = self.publisher.next_notice() {
                    warn!(hub = %self.to, "{}", notice.text.as_str());
                }
                Ok(true)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    /// Returns what to say if the hub has been silent for too long. The limit is longer after the
    /// login, because a hub may pause.
    fn silence(&self) -> Option<String> {
        let now_ns = self.now_ns();
        if self.publisher.state() == PublisherState::LoggingIn {
            let is_silent = self.publisher.is_silent(now_ns);
            return is_silent.then(|| "no reply in the feed's protocol".to_owned());
        }
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        let silent_s = silent_ns / 1_000_000_000;
        (silent_ns >= SILENCE_NS_MAX).then(|| format!("silent for {silent_s} s"))
    }

    fn refused(&self, error: PublisherError) -> Failure {
        match self.publisher.refusal() {
            Some(refusal) => self.lost(refusal.text.as_str()),
            None if self.is_foreign(error) => self.lost("the server speaks another protocol"),
            None => self.lost(&error.to_string()),
        }
    }

    /// Returns whether the first reply was not a packet of the feed.
    fn is_foreign(&self, error: PublisherError) -> bool {
        let is_first = self.publisher.state() == PublisherState::LoggingIn;
        is_first && matches!(error, PublisherError::FramingLost(_))
    }

    fn lost(&self, reason: &str) -> Failure {
        if self.publisher.state() == PublisherState::LoggingIn && self.publisher.refusal().is_none()
        {
            let (to, expected) = (&self.to, self.to.expected());
            return Failure::usage(format!("--to: no hub at {to}: {reason}; {expected}"));
        }
        let published = self.published();
        Failure::running(format!(
            "the hub at {}: {reason} ({published} messages sent)",
            self.to
        ))
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// Waits for the end of the TLS handshake, if there is one.
fn shake(stream: &mut Stream) -> std::io::Result<()> {
    let end = Instant::now() + HANDSHAKE_TIME_MAX;
    while !stream.shake()? {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, stream.has_outgoing());
        let mut descriptors = [PollFd::from_borrowed_fd(stream.as_fd(), flags)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left.min(WAIT_MAX).subsec_nanos().into(),
        };
        let _ = poll(&mut descriptors, Some(&timeout));
    }
    Ok(())
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Time for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Messages kept for retransmission.
const WINDOW_MESSAGES: usize = 1 << 16;
/// Room that a message waits for, in messages.
const ROOM_MESSAGES: u64 = 8;
/// Messages between two looks at the socket, so that a file at full speed is sent in bulk.
const SERVE_EVERY_MESSAGES: u32 = 1_024;
/// Time between two looks at the socket while few messages are published.
const SERVE_EVERY_NS: u64 = 50_000_000;
/// Steps of work between two looks at the clock.
const STEPS_BETWEEN_LOOKS: u32 = 16;
/// Maximum delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Longest silence of a hub that has accepted the login.
const SILENCE_NS_MAX: u64 = 30_000_000_000;
const OUT_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use rustix::net::sockopt::set_socket_linger;
    use tidewire_feed::wire::{
        Control, LoginAccepted, PacketWriter, RefusalReason, RefusalText, Refused, Trade,
    };
    use tidewire_feed_client::Tls;
    use tidewire_lane::Endpoint;
    use tidewire_tls::{Driver, Server};

    use super::*;
    use crate::certificates::{Made, Named};

    const SAYS: &str = "NotAllowed: not any more";

    /// A hub's side of one connection.
    struct Peer {
        socket: TcpStream,
        tls: Option<Driver>,
    }

    impl Peer {
        fn says(&mut self, control: &Control) {
            let mut bytes = Vec::new();
            PacketWriter::control(&mut bytes, 1, control);
            let count = match &mut self.tls {
                None => self.socket.write(&bytes),
                Some(tls) => tls.write(&mut self.socket, &bytes),
            };
            assert_eq!(count.unwrap(), bytes.len());
        }
    }

    /// Lets a publisher in. Refuses it as soon as it is told to, and resets the connection.
    fn refuse(listener: &TcpListener, server: Option<&Server>, is_told: &Receiver<()>) {
        let (socket, _) = listener.accept().unwrap();
        let tls = server.map(|server| Driver::server(server).unwrap());
        let mut peer = Peer { socket, tls };
        let mut login = [0; 1_000];
        let count = match &mut peer.tls {
            None => peer.socket.read(&mut login),
            Some(tls) => tls.read(&mut peer.socket, &mut login),
        };
        assert!(count.unwrap() > 0);
        peer.says(&Control::LoginAccepted(LoginAccepted {
            session: 1,
            next_sequence: 1,
            ..LoginAccepted::default()
        }));
        is_told.recv().unwrap();
        peer.says(&Control::Refused(Refused {
            reason: RefusalReason::NOT_ALLOWED,
            text: RefusalText::truncated(SAYS),
        }));
        set_socket_linger(&peer.socket, Some(Duration::ZERO)).unwrap();
    }

    /// The publisher told of the reset, and not of the reason that came before it.
    #[test]
    fn a_publisher_that_is_refused_while_it_sends_tells_the_reason() {
        let made = Made::self_signed(&Named::new("localhost"));
        for server in [None, Some(made.server())] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut to = Target::plain(Endpoint::Tcp(address), None);
            to.tls = server.is_some().then(|| Tls {
                client: made.client(),
                host: "localhost".to_owned(),
            });
            let (tell, is_told) = channel();
            let hub = thread::spawn(move || refuse(&listener, server.as_ref(), &is_told));
            let link = Link::connect(&to).unwrap();
            tell.send(()).unwrap();
            hub.join().unwrap();
            let failure = loop {
                if let Err(failure) = link.publish(&Message::Trade(Trade::default())) {
                    break failure.to_string();
                }
            };
            assert!(failure.contains(SAYS), "{failure}");
        }
    }
}
