//! Many connections that follow topics, and one that writes them, on one thread.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// What the connections are.
#[derive(Clone, Debug)]
pub(super) enum Peers {
    /// Pages, which ask for the next batch with this frame when they have one.
    Pages(Vec<u8>),
    /// Redis clients, which only read.
    Subscribers,
}

/// The connections, and the one that writes.
pub(super) struct Load {
    poll: OwnedFd,
    peers: Peers,
    streams: Vec<(TcpStream, Frames)>,
    publisher: TcpStream,
    /// Writes that the kernel has not taken yet.
    unsent: Vec<u8>,
    /// Moments of writing so far.
    moments: u64,
    /// Bytes received by all connections, and sent by them.
    pub(super) received: u64,
    pub(super) asked: u64,
    /// When the last byte came, and when the last write was sent.
    pub(super) last: Instant,
    written: Instant,
    buffer: Vec<u8>,
    events: Vec<Event>,
}

impl Load {
    /// # Errors
    /// Those of the system.
    pub(super) fn new(
        streams: Vec<TcpStream>,
        publisher: TcpStream,
        peers: Peers,
    ) -> io::Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, stream) in streams.iter().chain([&publisher]).enumerate() {
            stream.set_nonblocking(true)?;
            epoll::add(
                &poll,
                stream,
                EventData::new_u64(number as u64),
                EventFlags::IN,
            )?;
        }
        Ok(Self {
            poll,
            peers,
            events: Vec::with_capacity(streams.len() + 1),
            streams: streams
                .into_iter()
                .map(|stream| (stream, Frames::default()))
                .collect(),
            publisher,
            unsent: Vec::new(),
            moments: 0,
            received: 0,
            asked: 0,
            last: Instant::now(),
            written: Instant::now(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Writes at a steady pace for `duration` and reads all connections, until nothing more comes.
    /// `write` returns the requests of a moment. Returns the number of moments.
    ///
    /// # Errors
    /// A connection has ended.
    pub(super) fn run(
        &mut self,
        interval: Duration,
        duration: Duration,
        mut write: impl FnMut(u64) -> Vec<u8>,
    ) -> io::Result<u64> {
        let (begin, before) = (Instant::now(), self.moments);
        loop {
            let now = Instant::now();
            let mut due = begin + interval * (self.moments - before) as u32;
            let is_over = now >= begin + duration;
            if !is_over && now >= due {
                let requests = write(self.moments);
                self.unsent.extend_from_slice(&requests);
                self.moments += 1;
                self.written = now;
                due += interval;
            }
            self.send()?;
            if is_over && self.unsent.is_empty() {
                let silent = now.duration_since(self.last.max(self.written));
                if silent >= SILENCE {
                    return Ok(self.moments - before);
                }
                due = now + SILENCE - silent;
            }
            self.read(due.saturating_duration_since(now))?;
        }
    }

    /// Returns how long after the last write the last byte came.
    pub(super) fn late(&self) -> Duration {
        self.last.saturating_duration_since(self.written)
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.publisher.write(&self.unsent) {
                Ok(count) => {
                    self.unsent.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, wait: Duration) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let wait = rustix::event::Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        match epoll::wait(
            &self.poll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&wait),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            self.read_one(event.data.u64() as usize)?;
        }
        self.events = events;
        Ok(())
    }

    fn read_one(&mut self, number: usize) -> io::Result<()> {
        let Some((stream, frames)) = self.streams.get_mut(number) else {
            // Replies to the writes.
            return ended(self.publisher.read(&mut self.buffer)).map(drop);
        };
        let count = ended(stream.read(&mut self.buffer))?;
        self.received += count as u64;
        self.last = Instant::now();
        if let Peers::Pages(next) = &self.peers {
            // After the greeting come the first values, in one message, and then batches.
            let before = frames.whole.max(1);
            frames.take(&self.buffer[..count]);
            if frames.whole > before {
                stream.write_all(next)?;
                self.asked += next.len() as u64;
            }
        }
        Ok(())
    }
}

/// Returns the number of bytes read; the end of the connection is an error.
fn ended(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        read => read,
    }
}

/// Where the frames of a server end in the bytes that come.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The head of the frame that begins, as far as it is known.
    head: [u8; 10],
    known: usize,
    /// Bytes of the frame's payload that are still to come.
    left: u64,
    /// Frames that have ended.
    pub(super) whole: u64,
}

impl Frames {
    /// Takes bytes. Returns the number of frames that end in them.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let before = self.whole;
        while let Some((&first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let count = self.left.min(bytes.len() as u64);
                self.left -= count;
                self.whole += u64::from(self.left == 0);
                bytes = &bytes[count as usize..];
                continue;
            }
            self.head[self.known] = first;
            self.known += 1;
            bytes = rest;
            self.end_head();
        }
        self.whole - before
    }

    /// Returns whether no frame has come in part.
    pub(super) fn is_between(&self) -> bool {
        self.left == 0 && self.known == 0
    }

    fn end_head(&mut self) {
        let (length, extended) = match self.head[1] {
            _ if self.known < 2 => return,
            126 => (4, true),
            127 => (10, true),
            _ => (2, false),
        };
        if self.known < length {
            return;
        }
        self.left = match extended {
            true => self.head[2..length]
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            false => u64::from(self.head[1]),
        };
        self.known = 0;
        self.whole += u64::from(self.left == 0);
    }
}

/// Returns a text frame of a client, with a mask of zeros.
pub(super) fn text_frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u16::try_from(text.len()) {
        Ok(length @ 0..=125) => frame.push(0x80 | length as u8),
        Ok(length) => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text);
    frame
}

const BUFFER_BYTES: usize = 256 << 10;
/// All has come when nothing has come for so long.
const SILENCE: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_at_any_cut() {
        let mut bytes = vec![0x89, 0];
        for length in [5, 125, 126, 70_000] {
            let frame = text_frame(&vec![b'x'; length]);
            // A server's frame has no mask.
            let head = frame.len() - length - 4;
            bytes.extend_from_slice(&frame[..head]);
            let at = bytes.len() - head + 1;
            bytes[at] &= 0x7F;
            bytes.resize(bytes.len() + length, b'x');
        }
        for cut in (0..300).chain([bytes.len() - 1]) {
            let mut frames = Frames::default();
            let (first, second) = bytes.split_at(cut);
            assert_eq!(frames.take(first) + frames.take(second), 5, "cut at {cut}");
            assert!(frames.is_between());
        }
    }
}
