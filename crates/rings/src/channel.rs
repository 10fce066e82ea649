//! A connection: two rings, and the Unix socket that wakes and tells of the end.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::memory::{Memory, WORD_BYTES};
use crate::ring::{Broken, CONTROL_WORDS, LINE_WORDS, Place, Reader, Writer};
use crate::spin::Spin;
use crate::sync::Ordering;

/// Bytes of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// From the side that makes the offer to the other.
    pub(crate) from_offerer: usize,
    /// The other direction.
    pub(crate) to_offerer: usize,
}

/// What a side of a channel waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wants {
    /// Bytes to read, or the end.
    pub bytes: bool,
    /// Room to write.
    pub room: bool,
}

/// One end of a connection. It behaves like a Unix socket that never waits: [`Errno::AGAIN`] where
/// there is nothing to read or no room.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    reader: Reader,
    writer: Writer,
    /// Which processor each side was last seen on: ours, and the peer's.
    processors: Processors,
    /// What the peer was asked for and has not answered, as far as is known.
    asked: Wants,
    /// The socket has told that the peer is gone: what lies in the ring is all there is.
    is_closed: bool,
}

/// Words in which each side says on which processor it waits, plus one; 0 is unknown. They are
/// hints: a false one costs the side that believes it a few system calls.
#[derive(Debug, Clone)]
pub(crate) struct Processors {
    memory: Arc<Memory>,
    own: usize,
    peer: usize,
}

impl Sizes {
    /// Sizes as near as possible to those that are wished for: powers of two from 4 KiB to 64 MiB.
    pub fn near(from_offerer: usize, to_offerer: usize) -> Sizes {
        let near = |bytes: usize| {
            let bytes = bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX);
            bytes.next_power_of_two()
        };
        Sizes {
            from_offerer: near(from_offerer),
            to_offerer: near(to_offerer),
        }
    }

    pub(crate) fn are_valid(self) -> bool {
        let is_valid = |bytes: usize| {
            bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes)
        };
        is_valid(self.from_offerer) && is_valid(self.to_offerer)
    }

    /// Bytes of the memory that holds both rings.
    pub(crate) fn memory_bytes(self) -> usize {
        HEADER_WORDS * WORD_BYTES + self.from_offerer + self.to_offerer
    }

    /// The rings from and to the side that made the offer.
    pub(crate) fn places(self) -> [Place; 2] {
        let words = self.from_offerer / WORD_BYTES;
        [
            Place {
                control: 0,
                data: HEADER_WORDS,
                words,
            },
            Place {
                control: CONTROL_WORDS,
                data: HEADER_WORDS + words,
                words: self.to_offerer / WORD_BYTES,
            },
        ]
    }
}

impl Channel {
    /// The end of the side that made the offer, or of the one that took it.
    pub(crate) fn new(socket: OwnedFd, memory: Memory, sizes: Sizes, is_offerer: bool) -> Channel {
        debug_assert!(sizes.are_valid(), "rings have a power of two of bytes");
        let memory = Arc::new(memory);
        let [from, to] = sizes.places();
        let [written, read] = if is_offerer { [from, to] } else { [to, from] };
        let [offerer, taker] = [2 * CONTROL_WORDS, 2 * CONTROL_WORDS + LINE_WORDS];
        let [own, peer] = match is_offerer {
            true => [offerer, taker],
            false => [taker, offerer],
        };
        Channel {
            socket,
            reader: Reader::new(Arc::clone(&memory), read),
            writer: Writer::new(Arc::clone(&memory), written),
            processors: Processors { memory, own, peer },
            asked: Wants::default(),
            is_closed: false,
        }
    }

    /// Reads into `buffer`. 0: the peer is gone, and all that it wrote is read.
    ///
    /// # Errors
    /// [`Errno::AGAIN`]: there is nothing. [`Errno::PROTO`]: the ring is broken.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let count = self.reader.read(buffer);
        self.has_read(count)
    }

    /// Reads to the end of `bytes`, as far as that has room without growing.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_to(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
        let count = self.reader.append(bytes);
        self.has_read(count)
    }

    fn has_read(&mut self, count: Result<usize, Broken>) -> Result<usize, Errno> {
        match count {
            // A read into no room takes nothing, and what lies in the ring is no end.
            Ok(0) if self.is_closed && !self.reader.has_bytes() => Ok(0),
            Ok(0) => Err(Errno::AGAIN),
            Ok(count) => {
                if self.reader.must_tell() {
                    // If the peer is gone the socket tells.
                    let _ = self.wake();
                }
                Ok(count)
            }
            Err(Broken) => Err(Errno::PROTO),
        }
    }

    /// Writes as much of the slices as there is room for. Returns the bytes taken.
    ///
    /// # Errors
    /// [`Errno::AGAIN`]: there is no room. [`Errno::PROTO`]: the ring is broken. [`Errno::PIPE`],
    /// [`Errno::CONNRESET`]: the peer is gone.
    #[inline]
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if self.is_closed {
            return Err(Errno::PIPE);
        }
        let mut written = 0;
        let mut shown = 0;
        for slice in slices {
            // Of a long one the reader takes the first part while the next is written.
            for part in slice.chunks(SHOWN_BYTES) {
                let count = self.writer.write(part).map_err(|Broken| Errno::PROTO)?;
                written += count;
                if count < part.len() {
                    self.publish(written - shown)?;
                    return if written == 0 {
                        Err(Errno::AGAIN)
                    } else {
                        Ok(written)
                    };
                }
                if written - shown >= SHOWN_BYTES {
                    self.publish(written - shown)?;
                    shown = written;
                }
            }
        }
        self.publish(written - shown)?;
        Ok(written)
    }

    #[inline]
    fn publish(&self, count: usize) -> Result<(), Errno> {
        if count > 0 && self.writer.publish() {
            self.wake()?;
        }
        Ok(())
    }

    /// Wakes a peer that asked for it.
    #[cold]
    fn wake(&self) -> Result<(), Errno> {
        // It never waits for the peer to take it.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            return match rustix::net::send(&self.socket, b"!", flags) {
                // A peer that has not taken earlier ones has its socket readable as it is.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(Errno::INTR) => continue,
                // It may sleep on: a connection that is lost is better than one that stands still.
                Err(error) => Err(error),
            };
        }
    }

    /// The socket is readable: takes what woke us, and learns of the end.
    pub fn hear(&mut self) {
        let mut bytes = [0; HEARD_BYTES];
        loop {
            match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.is_closed = true,
                // There may be more; the socket stays readable then.
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                // What the peer wrote before it went still lies in the ring.
                Err(_) => self.is_closed = true,
            }
            break;
        }
        self.asked.bytes &= self.reader.is_asking();
        self.asked.room &= self.writer.is_asking();
    }

    /// Asks the peer to wake us for what is wanted. Whether that is there already: then nothing is
    /// asked for, and the caller goes on.
    pub fn arm(&mut self, wants: Wants) -> bool {
        if wants.bytes && !self.asked.bytes {
            self.reader.ask();
        }
        if wants.room && !self.asked.room {
            self.writer.ask();
        }
        self.asked.bytes |= wants.bytes;
        self.asked.room |= wants.room;
        if !self.is_ready(wants) {
            return false;
        }
        self.disarm();
        true
    }

    /// Whether what is wanted has been asked for.
    pub fn is_armed(&self, wants: Wants) -> bool {
        (self.asked.bytes || !wants.bytes) && (self.asked.room || !wants.room)
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.asked.bytes) {
            self.reader.take_back();
        }
        if std::mem::take(&mut self.asked.room) {
            self.writer.take_back();
        }
    }

    /// Whether what is wanted is there, the end and a break included.
    #[inline]
    pub fn is_ready(&self, wants: Wants) -> bool {
        (wants.bytes && (self.is_closed || self.reader.has_bytes()))
            || (wants.room && (self.is_closed || self.writer.has_room()))
    }

    /// Whether the peer has read all that was written, as far as it says.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.writer.is_read()
    }

    /// Whether the socket has told that the peer is gone. It need not be watched any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds what is wanted to what a thread spins for. Whether there was room for it.
    pub fn spin_for(&self, wants: Wants, spin: &mut Spin) -> bool {
        let bytes = wants.bytes.then(|| self.reader.goal());
        let room = wants.room.then(|| self.writer.goal());
        let mut goals = bytes.into_iter().chain(room);
        goals.all(|goal| spin.add(goal, &self.processors))
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.processors.memory)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Processors {
    pub(crate) fn tell(&self, processor: u64) {
        let word = &self.memory.words()[self.own];
        // A store takes the cache line from the peer, so that only news are stored.
        if word.load(Ordering::Relaxed) != processor {
            word.store(processor, Ordering::Relaxed);
        }
    }

    pub(crate) fn peer(&self) -> u64 {
        self.memory.words()[self.peer].load(Ordering::Relaxed)
    }
}

/// Words before the data: a page.
pub(crate) const HEADER_WORDS: usize = if cfg!(loom) { 12 } else { 512 };
const RING_BYTES_MIN: usize = if cfg!(loom) { 16 } else { 4 << 10 };
const RING_BYTES_MAX: usize = 64 << 20;
/// Bytes after which the reader is shown what is written.
const SHOWN_BYTES: usize = 32 << 10;
/// Wake-ups taken at once.
const HEARD_BYTES: usize = 64;

const _: () = assert!(
    2 * (CONTROL_WORDS + LINE_WORDS) <= HEADER_WORDS,
    "the control words lie before the data"
);

#[cfg(all(test, not(loom)))]
mod tests;
