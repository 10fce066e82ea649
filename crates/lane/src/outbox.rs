//! Bytes queued for a peer.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SendFlags;

/// The queue of one connection's outgoing bytes.
///
/// Small replies are written directly into [`Outbox::buffer`]. A large body shared by several
/// peers is queued by reference ([`Outbox::push_shared`]). Everything is sent by one system call.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Sealed parts, oldest first; they precede `tail`.
    sealed: VecDeque<Part>,
    /// Sum of the lengths of `sealed`.
    sealed_bytes: usize,
    /// The part that the application is writing.
    tail: Vec<u8>,
    /// Bytes already sent of the oldest part (of `tail` if none is sealed).
    sent: usize,
    /// Output that must not be sent yet, oldest first; usually none.
    held: VecDeque<Held>,
    /// Known number of bytes at the front that may be sent.
    free: usize,
}

/// A condition outside the lane that output can wait for. Each gate has its own numbers, which
/// only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A log has been written up to an offset.
    Log,
    /// The other lanes have seen a generation.
    Lanes,
    /// A quorum of machines has a log up to an offset.
    Quorum,
}

/// Number of gates.
const GATES: usize = 3;

/// Bytes that wait for a gate.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The number that they wait for at each gate; 0 if the gate is open.
    until: [u64; GATES],
    /// Bytes of the queue up to their end.
    bytes: usize,
    /// Whether they wait only because the output of a whole turn was held back.
    of_turn: bool,
}

#[derive(Debug)]
enum Part {
    Owned(Vec<u8>),
    Shared(Arc<[u8]>),
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Everything was sent.
    Empty,
    /// The kernel accepts no more now.
    Blocked,
    /// The rest waits for a gate.
    Held,
    /// The connection is broken.
    Broken,
}

impl Outbox {
    /// Returns the buffer for small replies. It is append-only: its content belongs to earlier
    /// replies.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Queues `bytes` without copying them, after everything written so far.
    ///
    /// Bodies shorter than [`SHARE_BYTES_MIN`] are copied, because a scatter-gather entry costs
    /// the kernel more than the copy.
    pub fn push_shared(&mut self, bytes: &Arc<[u8]>) {
        if bytes.len() < SHARE_BYTES_MIN {
            self.tail.extend_from_slice(bytes);
            return;
        }
        self.seal_tail();
        self.sealed_bytes += bytes.len();
        self.sealed.push_back(Part::Shared(bytes.clone()));
    }

    /// Discards all unsent bytes.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of unsent bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.sealed_bytes + self.tail.len() - self.sent
    }

    /// Returns the memory of the queue in bytes, without shared bodies.
    pub(crate) fn memory_bytes(&self) -> usize {
        let owned = |part: &Part| match part {
            Part::Owned(bytes) => bytes.capacity(),
            Part::Shared(_) => 0,
        };
        self.tail.capacity() + self.sealed.iter().map(owned).sum::<usize>()
    }

    /// Returns whether everything has been sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Holds back everything not held yet, until [`release`](Self::release) with this number or a
    /// greater one. Numbers must not decrease.
    pub(crate) fn hold(&mut self, gate: Gate, until: u64) {
        self.hold_as(gate, until, false);
    }

    /// Does the same for the output of a whole turn: [`release_turns`](Self::release_turns)
    /// releases it too.
    pub(crate) fn hold_of_turn(&mut self, until: u64) {
        self.hold_as(Gate::Log, until, true);
    }

    fn hold_as(&mut self, gate: Gate, until: u64, of_turn: bool) {
        debug_assert!(until > 0, "0 stands for an open gate");
        let before = self.held.back().map_or(self.free, |held| held.bytes);
        let bytes = self.len();
        debug_assert!(before <= bytes, "more is held than there is");
        if before < bytes {
            let mut held = Held {
                until: [0; GATES],
                bytes,
                of_turn,
            };
            held.until[gate as usize] = until;
            self.held.push_back(held);
        } else if let Some(last) = self.held.back_mut()
            && last.until[gate as usize] == 0
        {
            // They wait at the other gate, and from now on at this one too.
            last.until[gate as usize] = until;
            last.of_turn &= of_turn;
        }
    }

    /// Releases what was held back at a gate until `until` or a lower number.
    pub(crate) fn release(&mut self, gate: Gate, until: u64) {
        for held in &mut self.held {
            let wanted = &mut held.until[gate as usize];
            if *wanted <= until {
                *wanted = 0;
            }
        }
        while let Some(held) = self.held.pop_front_if(|held| held.until == [0; GATES]) {
            self.free = held.bytes;
        }
    }

    /// Releases what was held back with its turn, up to the first bytes held back for the peer
    /// itself.
    pub(crate) fn release_turns(&mut self) {
        let mut kept: VecDeque<Held> = VecDeque::new();
        for held in self.held.drain(..) {
            match (held.of_turn, kept.back_mut()) {
                (false, _) => kept.push_back(held),
                (true, Some(own)) => own.bytes = held.bytes,
                (true, None) => self.free = held.bytes,
            }
        }
        self.held = kept;
    }

    /// Discards what is held back at a gate until `least` or a greater number, and everything after
    /// it. Returns false if nothing is. `least` is at least 1.
    pub(crate) fn discard_held(&mut self, gate: Gate, least: u64) -> bool {
        debug_assert!(least > 0, "0 stands for an open gate");
        let mut held = self.held.iter();
        let Some(at) = held.position(|held| held.until[gate as usize] >= least) else {
            return false;
        };
        let kept = match at {
            0 => self.free,
            _ => self.held[at - 1].bytes,
        };
        self.held.truncate(at);
        let mut bytes = Vec::with_capacity(kept);
        let parts = self.sealed.iter().map(Part::bytes);
        let mut skipped = self.sent;
        for part in parts.chain([self.tail.as_slice()]) {
            let part = &part[skipped..];
            skipped = 0;
            bytes.extend_from_slice(&part[..part.len().min(kept - bytes.len())]);
        }
        self.sealed.clear();
        (self.sealed_bytes, self.sent, self.tail) = (0, 0, bytes);
        true
    }

    /// Returns whether anything is held back.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether a send is useful: some bytes may be sent, or nothing is held back.
    pub(crate) fn may_leave(&self) -> bool {
        self.held.is_empty() || self.free > 0
    }

    /// Returns the number of bytes that may be sent now.
    #[inline]
    pub(crate) fn sendable(&self) -> usize {
        match self.held.is_empty() {
            true => self.len(),
            false => self.free,
        }
    }

    /// Sends as much as the kernel accepts.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>, counter: &mut FlushCount) -> Flush {
        loop {
            if self.is_empty() {
                self.reset();
                return Flush::Empty;
            }
            if self.sendable() == 0 {
                return Flush::Held;
            }
            let sent = self.send_once(socket);
            if let Some(end) = self.note_sent(sent, counter) {
                return end;
            }
        }
    }

    /// Returns all bytes that may be sent now, if they are contiguous.
    pub(crate) fn piece(&self) -> Option<&[u8]> {
        let sendable = self.sendable();
        (self.sealed.is_empty() && sendable > 0).then(|| &self.tail[self.sent..][..sendable])
    }

    /// Notes the result of a send; returns `None` if there may be more to send.
    pub(crate) fn note_sent(
        &mut self,
        sent: rustix::io::Result<usize>,
        counter: &mut FlushCount,
    ) -> Option<Flush> {
        match sent {
            Ok(sent) => {
                counter.writes += 1;
                counter.bytes += sent as u64;
                let wanted = self.sendable();
                self.advance(sent);
                // A short write means that the socket's buffer is full: another call would only
                // confirm that.
                (sent < wanted && self.sealed.len() < PARTS_A_CALL).then_some(Flush::Blocked)
            }
            Err(Errno::AGAIN) => Some(Flush::Blocked),
            Err(Errno::INTR) => None,
            Err(_) => Some(Flush::Broken),
        }
    }

    /// Returns the memory of an empty outbox.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        debug_assert!(self.is_empty());
        std::mem::take(&mut self.tail)
    }

    pub(crate) fn adopt_spare(&mut self, pool: &mut Vec<Vec<u8>>) {
        if self.tail.capacity() == 0
            && let Some(spare) = pool.pop()
        {
            self.tail = spare;
        }
    }

    fn send_once(&self, socket: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let mut left = self.sendable();
        if self.sealed.is_empty() {
            let bytes = &self.tail[self.sent..][..left];
            return rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
        }
        let mut slices = [IoSlice::new(&[]); PARTS_A_CALL];
        let mut count = 0;
        let parts = self
            .sealed
            .iter()
            .map(Part::bytes)
            .chain([self.tail.as_slice()]);
        for (slice, bytes) in slices.iter_mut().zip(parts) {
            let bytes = &bytes[if count == 0 { self.sent } else { 0 }..];
            let bytes = &bytes[..bytes.len().min(left)];
            *slice = IoSlice::new(bytes);
            left -= bytes.len();
            count += 1;
            if left == 0 {
                break;
            }
        }
        rustix::net::sendmsg(
            socket,
            &slices[..count],
            &mut rustix::net::SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )
    }

    /// Returns the first contiguous bytes that may be sent.
    pub(crate) fn front(&self) -> &[u8] {
        let part = self
            .sealed
            .front()
            .map_or(self.tail.as_slice(), Part::bytes);
        let part = &part[self.sent..];
        &part[..part.len().min(self.sendable())]
    }

    /// Removes bytes that have left from the front.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        self.free = self.free.saturating_sub(sent);
        for held in &mut self.held {
            held.bytes -= sent;
        }
        while let Some(part) = self.sealed.front() {
            let length = part.bytes().len();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            self.sealed_bytes -= length;
            self.sealed.pop_front();
        }
        // With a reader that just keeps up, the buffer never becomes empty. So sent bytes are
        // removed once they outweigh the unsent ones, and each byte is moved at most once.
        if self.sent >= COMPACT_BYTES_MIN && self.sent * 2 >= self.tail.len() {
            self.tail.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn seal_tail(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.sealed_bytes += self.tail.len();
        self.sealed
            .push_back(Part::Owned(std::mem::take(&mut self.tail)));
    }

    pub(crate) fn reset(&mut self) {
        debug_assert!(self.held.is_empty(), "what is held is there");
        self.tail.clear();
        (self.sent, self.free) = (0, 0);
    }
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Owned(bytes) => bytes,
            Part::Shared(bytes) => bytes,
        }
    }
}

/// System calls and bytes of a flush, for the lane's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlushCount {
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
}

/// Shared bodies shorter than this are copied.
pub(crate) const SHARE_BYTES_MIN: usize = 4096;
/// Maximum parts of one vectored write; the rest waits for the next call.
const PARTS_A_CALL: usize = 64;
/// Minimum sent bytes before they are removed from a buffer.
const COMPACT_BYTES_MIN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn copied_and_shared_bytes_leave_in_the_order_written() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let body: Arc<[u8]> = vec![b'x'; SHARE_BYTES_MIN].into();
        outbox.buffer().extend_from_slice(b"before ");
        outbox.push_shared(&body);
        outbox.push_shared(&Arc::from(&b" short "[..]));
        outbox.buffer().extend_from_slice(b"after");
        let length = outbox.len();
        assert_eq!(length, 7 + SHARE_BYTES_MIN + 7 + 5);
        assert_eq!(
            outbox.flush(ours.as_fd(), &mut FlushCount::default()),
            Flush::Empty
        );
        let mut received = vec![0; length];
        theirs.read_exact(&mut received).unwrap();
        assert!(received.starts_with(b"before xxx") && received.ends_with(b"xxx short after"));
    }

    #[test]
    fn a_full_socket_keeps_every_byte_for_later() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::default();
        let sent: Vec<u8> = (0..3_000_000u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let shared: Arc<[u8]> = sent[..1_000_000].into();
        outbox.push_shared(&shared);
        outbox.buffer().extend_from_slice(&sent[1_000_000..]);
        let mut received = Vec::new();
        let mut chunk = vec![0; 100_000];
        loop {
            let flush = outbox.flush(ours.as_fd(), &mut FlushCount::default());
            if flush == Flush::Empty {
                break;
            }
            assert_eq!(flush, Flush::Blocked);
            let count = theirs.read(&mut chunk).unwrap();
            received.extend_from_slice(&chunk[..count]);
        }
        drop(ours);
        theirs.read_to_end(&mut received).unwrap();
        assert!(received == sent);
    }

    #[test]
    fn what_is_held_leaves_when_it_is_released_and_nothing_behind_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::default();
        let mut left = |outbox: &mut Outbox| {
            let flush = outbox.flush(ours.as_fd(), &mut FlushCount::default());
            let mut received = Vec::new();
            let _ = theirs.read_to_end(&mut received);
            (flush, received)
        };
        outbox.buffer().extend_from_slice(b"one ");
        outbox.hold(Gate::Log, 10);
        assert_eq!(left(&mut outbox), (Flush::Held, vec![]));
        let body: Arc<[u8]> = vec![b'x'; SHARE_BYTES_MIN].into();
        outbox.push_shared(&body);
        outbox.hold(Gate::Log, 20);
        outbox.hold(Gate::Log, 30);
        outbox.buffer().extend_from_slice(b"three");
        assert!(outbox.piece().is_none());
        outbox.release(Gate::Log, 9);
        assert_eq!(left(&mut outbox), (Flush::Held, vec![]));
        outbox.release(Gate::Log, 10);
        assert_eq!(left(&mut outbox), (Flush::Held, b"one ".to_vec()));
        // Released and held again in one turn: the released part is sent.
        outbox.release(Gate::Log, 25);
        outbox.hold(Gate::Log, 40);
        assert_eq!(left(&mut outbox), (Flush::Held, body.to_vec()));
        assert!(outbox.is_holding() && outbox.len() == 5);
        outbox.release(Gate::Log, 40);
        assert_eq!(outbox.piece(), Some(&b"three"[..]));
        assert_eq!(left(&mut outbox), (Flush::Empty, b"three".to_vec()));
        assert!(!outbox.is_holding() && outbox.is_empty());
    }

    #[test]
    fn what_was_held_with_its_turn_leaves_unless_an_own_change_is_before_it() {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(b"read ");
        outbox.hold_of_turn(10);
        outbox.buffer().extend_from_slice(b"changed ");
        outbox.hold(Gate::Log, 20);
        outbox.buffer().extend_from_slice(b"read");
        outbox.hold_of_turn(30);
        assert_eq!(outbox.sendable(), 0);
        outbox.release_turns();
        assert_eq!(outbox.piece(), Some(&b"read "[..]));
        outbox.release(Gate::Log, 19);
        assert_eq!(outbox.piece(), Some(&b"read "[..]));
        outbox.release(Gate::Log, 20);
        assert_eq!(outbox.piece(), Some(&b"read changed read"[..]));
        assert!(!outbox.is_holding());
    }

    #[test]
    fn what_waits_at_two_gates_leaves_when_both_are_open() {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(b"one ");
        outbox.hold(Gate::Lanes, 3);
        outbox.hold_of_turn(10);
        outbox.buffer().extend_from_slice(b"two ");
        outbox.hold(Gate::Log, 20);
        outbox.buffer().extend_from_slice(b"three");
        outbox.release(Gate::Log, 20);
        assert!(outbox.piece().is_none());
        // The whole turn, except what waits for other lanes.
        outbox.release_turns();
        assert!(outbox.piece().is_none() && outbox.is_holding());
        outbox.release(Gate::Lanes, 2);
        assert!(outbox.piece().is_none());
        outbox.release(Gate::Lanes, 3);
        assert_eq!(outbox.piece(), Some(&b"one two three"[..]));
    }

    #[test]
    fn a_closed_peer_is_told_apart_from_a_slow_one() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let mut outbox = Outbox::default();
        outbox.buffer().push(1);
        assert_eq!(
            outbox.flush(ours.as_fd(), &mut FlushCount::default()),
            Flush::Broken
        );
    }

    #[test]
    fn what_is_held_at_a_gate_is_discarded_and_what_may_leave_stays() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let body: Arc<[u8]> = vec![b'x'; SHARE_BYTES_MIN].into();
        outbox.buffer().extend_from_slice(b"free ");
        outbox.push_shared(&body);
        outbox.hold(Gate::Lanes, 3);
        outbox.buffer().extend_from_slice(b"early");
        outbox.hold(Gate::Quorum, 10);
        outbox.buffer().extend_from_slice(b"late");
        outbox.hold(Gate::Quorum, 20);
        assert!(!outbox.discard_held(Gate::Log, 1) && !outbox.discard_held(Gate::Quorum, 21));
        assert!(outbox.discard_held(Gate::Quorum, 15));
        assert_eq!(outbox.len(), 5 + SHARE_BYTES_MIN + 5);
        assert!(outbox.discard_held(Gate::Quorum, 1));
        assert_eq!(outbox.len(), 5 + SHARE_BYTES_MIN);
        outbox.buffer().extend_from_slice(b"last");
        outbox.release(Gate::Lanes, 3);
        assert!(!outbox.is_holding());
        let length = outbox.len();
        let flushed = outbox.flush(ours.as_fd(), &mut FlushCount::default());
        assert_eq!(flushed, Flush::Empty);
        let mut received = vec![0; length];
        theirs.read_exact(&mut received).unwrap();
        assert!(received.starts_with(b"free xxx") && received.ends_with(b"xxxlast"));
    }
}
