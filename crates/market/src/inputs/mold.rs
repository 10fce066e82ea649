//! ITCH over MoldUDP64, received by a thread.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_feed::client::Side;
use tidewire_itch::mold::{Receiver, ReceiverConfig};
use tidewire_itch::sequenced::SessionName;
use tracing::{debug, info, warn};

use super::config::MoldInput;
use super::{Thread, cannot_listen, shown};
use tidewire_feed_client::{DATAGRAMS_MAX, Datagrams, connect, listen};

/// The sockets of lines A and B, and of retransmission requests.
pub(super) struct Sockets {
    lines: Vec<UdpSocket>,
    request: Option<UdpSocket>,
}

impl Sockets {
    pub(super) fn open(input: &MoldInput) -> Result<Self, String> {
        let failed = |address, error: io::Error| cannot_listen(address, &error);
        let mut lines = Vec::new();
        for address in [Some(input.a), input.b].into_iter().flatten() {
            let socket = listen(address, input.interface);
            lines.push(socket.map_err(|error| failed(address, error))?);
        }
        let request = input.request.map(|server| {
            connect(server).map_err(|error| format!("cannot send requests to {server}: {error}"))
        });
        Ok(Self {
            lines,
            request: request.transpose()?,
        })
    }
}

/// Receives until the hub stops.
pub(super) fn run(mut thread: Thread, input: &MoldInput, sockets: Sockets) {
    thread.pin();
    thread.set_day(input.midnight_unix_ns);
    let mut mold = MoldReceiver {
        receiver: Receiver::new(ReceiverConfig {
            requests: sockets.request.is_some(),
            ..ReceiverConfig::default()
        }),
        sockets,
        datagrams: Datagrams::new(),
        started: Instant::now(),
        shown: None,
    };
    info!(input = thread.number, a = %input.a, b = %shown(input.b), "listening");
    while !thread.is_stopped() {
        mold.wait(&thread);
        let begin = Instant::now();
        thread.follow_wanted();
        let mut more = true;
        while more && !thread.is_stopped() {
            more = mold.turn(&mut thread);
            thread.sweep();
        }
        thread.busy_ns += begin.elapsed().as_nanos() as u64;
        mold.show(&mut thread);
    }
}

struct MoldReceiver {
    receiver: Receiver,
    sockets: Sockets,
    datagrams: Datagrams,
    started: Instant,
    /// The session that INFO shows.
    shown: Option<SessionName>,
}

impl MoldReceiver {
    /// Waits for a datagram or a timeout.
    fn wait(&self, thread: &Thread) {
        let all = self.sockets.lines.iter().chain(&self.sockets.request);
        let mut descriptors: Vec<PollFd<'_>> = all
            .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
            .collect();
        let due_ns = self.receiver.deadline_ns().saturating_sub(self.now_ns());
        let wait = thread.wait(due_ns);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    /// Receives what is there. Returns whether there may be more.
    fn turn(&mut self, thread: &mut Thread) -> bool {
        self.datagrams.clear();
        let mut more = false;
        // The lines alternate, so that neither gets far ahead of the other.
        let all = self.sockets.lines.iter().chain(&self.sockets.request);
        let limit = DATAGRAMS_MAX / (self.sockets.lines.len() + 1);
        let request_number = self.sockets.lines.len();
        for (number, socket) in all.enumerate() {
            more |= self.datagrams.take(number, socket, limit);
        }
        let now_ns = self.now_ns();
        let is_due = self.receiver.deadline_ns() <= now_ns;
        if self.datagrams.is_empty() && !is_due {
            self.look_for_silence(thread, now_ns);
            return false;
        }
        let Self {
            receiver,
            datagrams,
            ..
        } = self;
        // A packet of another session, or a stray, does not show that values are current.
        let is_current = |(number, datagram): (usize, &[u8])| {
            number == request_number || receiver.is_current(datagram, now_ns)
        };
        let is_alive = !receiver.is_ended() && datagrams.iter().any(is_current);
        let take = |follower: &mut super::Follower<'_, '_>| {
            for (number, datagram) in datagrams.iter() {
                let result = match number {
                    number if number == request_number => {
                        receiver.receive_answer(datagram, now_ns, follower)
                    }
                    0 => receiver.receive(Side::A, datagram, now_ns, follower),
                    _ => receiver.receive(Side::B, datagram, now_ns, follower),
                };
                if let Err(error) = result {
                    debug!(%error, "invalid datagram");
                }
            }
            if is_due {
                receiver.handle_timeout(now_ns, follower);
            }
        };
        thread.batch(is_alive, take);
        self.ask();
        if self.receiver.is_ended() {
            thread.lose();
        }
        self.look_for_silence(thread, now_ns);
        more
    }

    fn ask(&mut self) {
        while let Some(request) = self.receiver.take_request() {
            if let Some(socket) = &self.sockets.request {
                // A request that is not sent is repeated.
                let _ = socket.send(&request);
            }
        }
    }

    fn look_for_silence(&self, thread: &mut Thread, now_ns: u64) {
        if thread.has_session && !thread.is_stale && self.receiver.is_silent(now_ns) {
            warn!(
                input = thread.number,
                "both lines are silent, or repeat old packets"
            );
            thread.lose();
        }
    }

    fn show(&mut self, thread: &mut Thread) {
        let Self {
            receiver, shown, ..
        } = self;
        let is_connected = thread.has_session && !thread.is_stale;
        thread.show(|figures| {
            let counters = receiver.counters();
            if receiver.session() != *shown {
                *shown = receiver.session();
                figures.session = shown.map_or(String::new(), |session| session.to_string());
            }
            figures.is_connected = is_connected;
            figures.next_sequence = receiver.next_sequence();
            figures.gaps = counters.gaps;
            figures.recovered = counters.recovered;
            figures.lost = counters.lost;
            figures.requests = counters.requests;
            figures.lines = Side::ALL.map(|side| {
                let line = receiver.side_counters(side);
                (line.packets, line.lost)
            });
        });
    }

    fn now_ns(&self) -> u64 {
        // Not 0, which means never.
        self.started.elapsed().as_nanos() as u64 + 1
    }
}
