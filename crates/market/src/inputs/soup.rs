//! ITCH over SoupBinTCP, received by a thread.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_itch::sequenced::SessionName;
use tidewire_itch::soup::{Client, ClientConfig};
use tidewire_retry::LinkLog;
use tracing::{info, warn};

use super::config::SoupInput;
use super::{Thread, WAIT_MAX};
use tidewire_lane::{BACK_OFF, unix_ns};

/// Receives until the hub stops, and reconnects whenever the connection ends.
pub(super) fn run(mut thread: Thread, input: &SoupInput) {
    thread.pin();
    thread.set_day(input.midnight_unix_ns);
    let mut receiver = SoupReceiver {
        client: Client::new(ClientConfig {
            user: input.user.clone(),
            password: input.password.clone(),
            session: SessionName::new(&input.session),
        }),
        started: Instant::now(),
        input: Vec::new(),
        out: Vec::new(),
        chunk: vec![0; CHUNK_BYTES],
        connections: 0,
        shown: None,
        log: LinkLog::default(),
        reasons: Vec::new(),
    };
    let mut failures = 0;
    while !thread.is_stopped() {
        let before = receiver.client.counters().messages;
        let reason = match TcpStream::connect_timeout(&input.address, CONNECT_MAX) {
            Ok(stream) => receiver.serve(&mut thread, &stream),
            Err(error) => error.to_string(),
        };
        receiver.log_end(&thread, input, &reason);
        thread.lose();
        thread.sweep_all();
        receiver.show(&mut thread, false);
        if receiver.client.counters().messages > before {
            failures = 0;
        }
        pause(&mut thread, failures);
        failures += 1;
    }
}

struct SoupReceiver {
    client: Client,
    started: Instant,
    /// Bytes of an incomplete packet.
    input: Vec<u8>,
    out: Vec<u8>,
    chunk: Vec<u8>,
    connections: u64,
    /// The session that INFO shows.
    shown: Option<SessionName>,
    log: LinkLog,
    /// Reasons for which a connection has ended since the link last lasted.
    reasons: Vec<String>,
}

impl SoupReceiver {
    /// Serves a connection until it ends. Returns the reason.
    fn serve(&mut self, thread: &mut Thread, stream: &TcpStream) -> String {
        if let Err(error) = stream.set_nonblocking(true) {
            return error.to_string();
        }
        // Heartbeats are small and must not be delayed.
        let _ = stream.set_nodelay(true);
        debug_assert_eq!(
            self.chunk.len(),
            CHUNK_BYTES,
            "one read takes a chunk at most"
        );
        self.connections += 1;
        self.input.clear();
        self.out.clear();
        self.client.connected(self.now_ns());
        while !thread.is_stopped() {
            self.client.drain_outgoing(&mut self.out);
            if let Err(error) = self.write(stream) {
                return error.to_string();
            }
            self.wait(thread, stream);
            let begin = Instant::now();
            thread.follow_wanted();
            let result = self.read(thread, stream);
            thread.sweep();
            thread.busy_ns += begin.elapsed().as_nanos() as u64;
            // A connection alone is no answer: the machine of a server that hangs accepts it.
            let is_accepted = self.client.is_accepted();
            if is_accepted && self.log.answers(Instant::now()) {
                info!(input = thread.number, "connected");
            }
            self.show(thread, is_accepted);
            if let Err(reason) = result {
                return reason;
            }
            let now_ns = self.now_ns();
            self.client.handle_timeout(now_ns);
            if self.client.is_silent(now_ns) {
                return "the server is silent".to_owned();
            }
            if self.client.is_unanswered(now_ns) {
                return "the server has not answered the login".to_owned();
            }
        }
        "the market stops".to_owned()
    }

    /// Logs that a connection has ended, or could not be made.
    fn log_end(&mut self, thread: &Thread, input: &SoupInput, reason: &str) {
        let text = match self.log.has_answered() {
            true => "disconnected; reconnecting",
            false => "cannot connect; retrying",
        };
        let due = self.log.ends(Instant::now());
        if matches!(due, Some((1, _))) {
            self.reasons.clear();
        }
        let is_new = self.note_reason(reason);
        if (due.is_none() && !is_new) || thread.is_stopped() || self.client.is_ended() {
            return;
        }
        let (input, address) = (thread.number, input.address);
        match due {
            Some((attempts, lasts)) => {
                let seconds = lasts.as_secs();
                warn!(input, %address, reason, attempts, seconds, "{text}");
            }
            // The first end for another reason is told at once.
            None => warn!(input, %address, reason, "{text}"),
        }
    }

    /// Notes why a connection has ended. Returns whether it is a reason that was not told.
    fn note_reason(&mut self, reason: &str) -> bool {
        let is_known = self.reasons.iter().any(|known| known == reason);
        if is_known || self.reasons.len() >= REASONS_MAX {
            return false;
        }
        self.reasons.push(reason.to_owned());
        true
    }

    fn wait(&self, thread: &Thread, stream: &TcpStream) {
        let mut flags = PollFlags::IN;
        if !self.out.is_empty() {
            flags |= PollFlags::OUT;
        }
        let due_ns = self.client.deadline_ns().saturating_sub(self.now_ns());
        let wait = thread.wait(due_ns);
        debug_assert!(wait.as_secs() == 0, "a wait is shorter than a second");
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut descriptors = [PollFd::from_borrowed_fd(stream.as_fd(), flags)];
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    fn write(&mut self, mut stream: &TcpStream) -> std::io::Result<()> {
        while !self.out.is_empty() {
            match stream.write(&self.out) {
                Ok(count) => {
                    debug_assert!(
                        count <= self.out.len(),
                        "the kernel takes at most what it is given"
                    );
                    drop(self.out.drain(..count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once and handles the bytes.
    fn read(&mut self, thread: &mut Thread, mut stream: &TcpStream) -> Result<(), String> {
        let count = match stream.read(&mut self.chunk) {
            Ok(0) => return Err("the server has closed the connection".to_owned()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        self.input.extend_from_slice(&self.chunk[..count]);
        let now_ns = self.now_ns();
        let Self { client, input, .. } = self;
        let mut result = Ok(0);
        let is_alive = client.is_accepted() && !client.is_ended();
        thread.batch(is_alive, |follower| {
            result = client.receive(input, now_ns, follower)
        });
        match result {
            Ok(used) => {
                debug_assert!(used <= input.len(), "a client uses part of the input");
                input.drain(..used);
                if client.is_ended() {
                    thread.lose();
                }
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn show(&mut self, thread: &mut Thread, is_connected: bool) {
        let Self {
            client,
            shown,
            connections,
            ..
        } = self;
        thread.show(|figures| {
            let counters = client.counters();
            if client.session() != *shown {
                *shown = client.session();
                figures.session = shown.map_or(String::new(), |session| session.to_string());
            }
            figures.is_connected = is_connected;
            figures.next_sequence = client.next_sequence();
            figures.lost = counters.lost;
            figures.connections = *connections;
        });
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64 + 1
    }
}

/// Reasons that are told at once, until the link lasts.
const REASONS_MAX: usize = 8;
/// Waits before the next connection attempt. The books stay, so clients may ask for their levels.
fn pause(thread: &mut Thread, failures: u32) {
    let wait_ns = BACK_OFF.delay_ns(failures, unix_ns());
    let end = Instant::now() + Duration::from_nanos(wait_ns);
    while !thread.is_stopped() {
        thread.follow_wanted();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(WAIT_MAX));
    }
}

const CONNECT_MAX: Duration = Duration::from_nanos(BACK_OFF.connect_ns_max);
const CHUNK_BYTES: usize = 256 * 1024;
