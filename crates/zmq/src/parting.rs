//! Connections that were ended from here, until their peers have what was sent last.
//!
//! **TCP**: the kernel resets a connection that is closed with unread input, or to which input
//! comes after its close, and drops what it has not delivered by then. So only our own direction
//! ends; what still comes is read and dropped, until the peer ends the connection too. `LINGER`, a
//! time and a number of bytes bound it. A socket that closes waits only until its peers have
//! acknowledged everything, of which a reset takes nothing away, or acknowledge nothing more.
//!
//! **Unix sockets**: the kernel keeps what was sent, but libzmq throws it away: at the hang-up of a
//! connection whose input it has stopped, because the program does not read, it reads no more. So
//! the hang-up must come behind the last byte, as it does over TCP. See [`crate::queued`]. Only a
//! full queue is waited for, for as long as `LINGER` and a time allow.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use tidewire_readiness as readiness;

use crate::endpoint::Loss;
use crate::link::{Ending, StreamLink};
use crate::peer::Link;
use crate::queued;
use crate::slab::{Key, Slab};
use crate::state::{State, Timer, Token};

/// The connections of one socket that are ending.
#[derive(Debug)]
pub(crate) struct Partings {
    all: Slab<Parting>,
    /// When a socket that closes asks next whether all is acknowledged.
    look_ns: u64,
    interval_ns: u64,
}

#[derive(Debug)]
struct Parting {
    ending: Ending,
    deadline_ns: u64,
    /// Bytes that may still be read and dropped.
    left_bytes: usize,
    /// Bytes that were not acknowledged when the peer last acknowledged some, and when that was.
    unacknowledged_bytes: usize,
    acknowledged_ns: u64,
}

impl Default for Partings {
    fn default() -> Partings {
        Partings {
            all: Slab::new(),
            look_ns: 0,
            interval_ns: FIRST_LOOK_NS,
        }
    }
}

impl State {
    /// Until when a lost connection may wait for its peer; `None`: it is closed at once.
    pub(crate) fn parting_deadline_ns(
        &self,
        loss: Loss,
        was_ready: bool,
        leave_ns: u64,
    ) -> Option<u64> {
        let linger_ms = match loss {
            Loss::ByUs if was_ready => self.options.linger_ms,
            // The peer is to read why: no message of the program's waits.
            Loss::Protocol | Loss::Misfit => -1,
            Loss::ByUs | Loss::ByPeer | Loss::Refused => return None,
        };
        let limit_ns = match u64::try_from(linger_ms) {
            Ok(0) => return None,
            Ok(linger_ms) => PART_NS.min(linger_ms * 1_000_000),
            Err(_) => PART_NS,
        };
        Some(leave_ns.min(self.now_ns + limit_ns))
    }

    /// Closes a connection that is no peer's any more: with a deadline not before its peer has what
    /// was sent.
    pub(crate) fn let_link_go(&mut self, key: Key, mut link: StreamLink, deadline_ns: Option<u64>) {
        // What is cut short has no end that could be lost.
        let is_whole = link.pending_bytes() == 0 && !link.is_at_end;
        link.say_goodbye();
        if link.is_active {
            self.forget_ring(key);
        }
        self.unwatch_descriptor(&link);
        debug_assert!(
            self.writes_watched >= usize::from(link.interest.write),
            "each watched write is counted"
        );
        self.writes_watched -= usize::from(link.interest.write);
        if let Some(deadline_ns) = deadline_ns
            && is_whole
            && let Some(ending) = link.into_ending()
        {
            self.part(ending, deadline_ns);
        }
    }

    fn part(&mut self, ending: Ending, deadline_ns: u64) {
        let (ended, awaited) = match ending {
            Ending::Tcp(_) => (Shutdown::Write, EventFlags::IN),
            // The peer's writes fail, as after a close, and are not lost here.
            Ending::Unix(_) => (Shutdown::Read, EventFlags::OUT),
        };
        if rustix::net::shutdown(ending.descriptor(), ended).is_err() {
            return;
        }
        let mut parting = Parting {
            ending,
            deadline_ns,
            left_bytes: DROPPED_BYTES_MAX,
            unacknowledged_bytes: usize::MAX,
            acknowledged_ns: self.now_ns,
        };
        if !parting.goes_on(self.now_ns, self.is_closing) {
            return;
        }
        // The connections of a socket that closes were all open before.
        if !self.is_closing && self.partings.all.values().count() >= PARTINGS_MAX {
            self.end_oldest_parting();
        }
        debug_assert!(
            self.is_closing || self.partings.all.values().count() < PARTINGS_MAX,
            "the oldest has made room"
        );
        let token = Token::Parting(self.partings.all.next_key());
        if self
            .watch_descriptor(parting.ending.descriptor(), token, awaited)
            .is_ok()
        {
            let key = self.partings.all.insert(parting);
            self.set_timer(deadline_ns, Timer::Part(key));
        }
    }

    /// Drops what has come from the peer of an ending connection, and closes that when it is done
    /// with.
    pub(crate) fn look_at_parting(&mut self, key: Key) {
        let (now_ns, is_closing) = (self.now_ns, self.is_closing);
        if let Some(parting) = self.partings.all.get_mut(key)
            && !parting.goes_on(now_ns, is_closing)
        {
            self.end_parting(key);
        }
    }

    fn end_parting(&mut self, key: Key) {
        if let Some(parting) = self.partings.all.remove(key) {
            self.unwatch_descriptor(parting.ending.descriptor());
        }
    }

    fn end_oldest_parting(&mut self) {
        let all = &self.partings.all;
        let deadline = |key: &Key| all.get(*key).map(|parting| parting.deadline_ns);
        if let Some(oldest) = all.keys().into_iter().min_by_key(deadline) {
            self.end_parting(oldest);
        }
    }

    /// Ends the connections of a socket that closes and whose output is all written. Returns
    /// whether the peers have it.
    pub(crate) fn have_all_parted(&mut self) -> bool {
        debug_assert!(self.is_closing, "an open socket keeps its connections");
        let deadline_ns = self.now_ns + PART_NS;
        for key in self.peers.keys() {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            match std::mem::replace(&mut peer.link, Link::None) {
                Link::Stream(link) => self.let_link_go(key, *link, Some(deadline_ns)),
                other => peer.link = other,
            }
        }
        for key in self.partings.all.keys() {
            self.look_at_parting(key);
        }
        let is_over = self.partings.all.values().next().is_none();
        let partings = &mut self.partings;
        if !is_over && partings.look_ns <= self.now_ns {
            let look_ns = self.now_ns + partings.interval_ns;
            partings.look_ns = look_ns;
            partings.interval_ns = (partings.interval_ns * 2).min(LAST_LOOK_NS);
            self.set_timer(look_ns, Timer::Acknowledge);
        }
        is_over
    }

    /// Closes all at once.
    pub(crate) fn drop_partings(&mut self) {
        for key in self.partings.all.keys() {
            self.end_parting(key);
        }
    }
}

impl Parting {
    /// Does what can be done now. Returns whether there is something to wait for.
    fn goes_on(&mut self, now_ns: u64, is_closing: bool) -> bool {
        if now_ns >= self.deadline_ns {
            return false;
        }
        match &self.ending {
            Ending::Tcp(_) => self.drop_input() && (!is_closing || self.is_owed(now_ns)),
            // Without the queue, the peer finds the hang-up before what was sent.
            Ending::Unix(descriptor) => queued::leave(descriptor) == Err(Errno::AGAIN),
        }
    }

    /// Reads and drops what has come. Returns whether more may come.
    fn drop_input(&mut self) -> bool {
        // Not on the stack, which the program may have given this thread little of.
        let mut chunk = Vec::new();
        let mut first = [0; FIRST_CHUNK_BYTES];
        while self.left_bytes > 0 {
            let room = match chunk.is_empty() {
                true => &mut first[..],
                false => &mut chunk[..],
            };
            match rustix::net::recv(self.ending.descriptor(), room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((count, _)) => {
                    self.left_bytes = self.left_bytes.saturating_sub(count);
                    if count == FIRST_CHUNK_BYTES {
                        chunk.resize(CHUNK_BYTES, 0);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether the peer's machine has not all that was sent, and still takes some of it.
    fn is_owed(&mut self, now_ns: u64) -> bool {
        let Ok(bytes) = readiness::unacknowledged_bytes(self.ending.descriptor()) else {
            return false;
        };
        if bytes < self.unacknowledged_bytes {
            self.unacknowledged_bytes = bytes;
            self.acknowledged_ns = now_ns;
        }
        bytes > END_BYTES && now_ns < self.acknowledged_ns + STALL_NS
    }
}

/// Maximum time for a peer to read what was sent last, and to end its direction.
const PART_NS: u64 = 10_000_000_000;
/// A socket that closes waits no longer for a peer that has acknowledged nothing for this time.
const STALL_NS: u64 = 2_000_000_000;
/// Maximum bytes of a peer that are dropped.
const DROPPED_BYTES_MAX: usize = 16 << 20;
/// Maximum connections of an open socket that wait for their peers.
const PARTINGS_MAX: usize = 256;
/// What is read at once, at first and then.
const FIRST_CHUNK_BYTES: usize = 256;
const CHUNK_BYTES: usize = 16 << 10;
/// The end of our direction counts as a byte until it is acknowledged.
const END_BYTES: usize = 1;
/// Time to the first question whether all is acknowledged; each further one comes after twice the
/// time.
const FIRST_LOOK_NS: u64 = 1_000_000;
const LAST_LOOK_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{Context, SocketType};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (peer, listener.accept().unwrap().0)
    }

    #[test]
    fn a_socket_that_closes_waits_for_a_peer_as_long_as_that_takes_something() {
        let (mut peer, mut stream) = pair();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = stream.write(&[1; 65_536]) {
            sent += count;
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut parting = Parting {
            ending: Ending::Tcp(stream.into()),
            deadline_ns: PART_NS,
            left_bytes: DROPPED_BYTES_MAX,
            unacknowledged_bytes: usize::MAX,
            acknowledged_ns: 0,
        };
        assert!(parting.goes_on(0, true));
        let all = parting.unacknowledged_bytes;
        assert!(parting.goes_on(STALL_NS - 1, true));
        let mut room = vec![0; sent];
        peer.read_exact(&mut room[..sent / 2]).unwrap();
        while parting.unacknowledged_bytes == all {
            assert!(parting.goes_on(STALL_NS - 1, true));
        }
        assert!(parting.goes_on(STALL_NS, true), "it has taken some");
        assert!(!parting.goes_on(2 * STALL_NS, true), "and no more");
        assert!(parting.goes_on(2 * STALL_NS, false), "it may still read");
        assert!(!parting.goes_on(PART_NS, false));
        peer.read_exact(&mut room[sent / 2..]).unwrap();
        while parting.goes_on(STALL_NS, true) {}
        assert!(parting.goes_on(STALL_NS, false), "it has all, and is there");
        drop(peer);
        while parting.goes_on(STALL_NS, false) {}
    }

    #[test]
    fn a_full_unix_socket_is_waited_for_and_no_longer_than_allowed() {
        let (peer, mut stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[1; 1_000]).is_ok() {}
        let mut parting = Parting {
            ending: Ending::Unix(stream.into()),
            deadline_ns: PART_NS,
            left_bytes: DROPPED_BYTES_MAX,
            unacknowledged_bytes: usize::MAX,
            acknowledged_ns: 0,
        };
        assert!(parting.goes_on(PART_NS - 1, true), "nothing is lost yet");
        assert!(!parting.goes_on(PART_NS, true));
        drop(peer);
        assert!(!parting.goes_on(0, true), "the peer is gone");
    }

    #[test]
    fn a_full_unix_socket_is_let_go_when_its_peer_reads() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        let core = socket.core();
        let (mut peer, mut stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = stream.write(&[1; 1_000]) {
            sent += count;
        }
        let count = || core.lock().partings.all.values().count();
        {
            let mut state = core.enter_timed().unwrap();
            let deadline_ns = state.now_ns + PART_NS;
            state.part(Ending::Unix(stream.into()), deadline_ns);
            core.leave(&mut state);
        }
        assert_eq!(count(), 1);
        let mut read = vec![7; sent + 1];
        peer.read_exact(&mut read).unwrap();
        assert_eq!(read.last(), Some(&0), "the byte that carries the end");
        assert_eq!(peer.read(&mut read).unwrap(), 0);
        while count() > 0 {
            std::thread::yield_now();
        }
        drop(socket);
        context.terminate().unwrap();
    }

    #[test]
    fn an_open_socket_waits_for_a_limited_number_of_peers() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        let core = socket.core();
        let mut peers = Vec::new();
        for number in 1..=PARTINGS_MAX + 3 {
            let (peer, stream) = pair();
            let mut state = core.lock();
            let deadline_ns = state.now_ns + PART_NS + number as u64;
            state.part(Ending::Tcp(stream.into()), deadline_ns);
            let count = state.partings.all.values().count();
            assert_eq!(count, number.min(PARTINGS_MAX));
            assert_eq!(state.descriptors, count);
            peers.push(peer);
        }
        for (index, mut peer) in peers.into_iter().enumerate() {
            assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
            // The first ones are closed.
            while index < 3 && peer.write(b"hello").is_ok() {}
        }
        drop(socket);
        context.terminate().unwrap();
    }
}
