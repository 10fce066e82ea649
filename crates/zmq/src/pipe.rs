//! The connection of two sockets in one process: a queue each way.

use std::sync::{Arc, OnceLock};

use crate::batch::{Batch, Item};
use crate::message::{Last, Message};
use crate::signal::Signal;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, fence};

/// One socket's end of a pipe.
#[derive(Debug)]
pub(crate) struct PipeEnd {
    pipe: Arc<Pipe>,
    /// Which of the two ends: what this end writes goes into `ways[side]`.
    side: usize,
    /// Taken out of the queue in one go.
    inbox: Batch,
    /// Messages that may be written before the fill level is checked again.
    room: usize,
    /// Messages read that the writer has not been told of.
    untold: usize,
    /// After how many it is told; 0: not known yet.
    told_after: usize,
}

/// What an end tells the other one.
#[derive(Debug, Clone)]
pub(crate) struct Hello {
    pub(crate) routing_id: Vec<u8>,
    pub(crate) receive_high_water: usize,
    pub(crate) send_high_water: usize,
    pub(crate) conflates: bool,
}

#[derive(Debug)]
struct Pipe {
    ways: [Way; 2],
    ends: [OnceLock<End>; 2],
    /// One of the ends wants the last message alone.
    conflates: AtomicBool,
}

#[derive(Debug)]
struct End {
    signal: Arc<Signal>,
    hello: Hello,
    /// The marks as they are now: a program may change them while the pipe is in use.
    send_high_water: AtomicUsize,
    receive_high_water: AtomicUsize,
    /// The other end has changed its marks, and this one has not looked at them yet.
    marks_changed: AtomicBool,
}

#[derive(Debug, Default)]
struct Way {
    queue: Mutex<Batch>,
    /// Changed under the queue's lock alone. Set: the reader has been rung since it last took out
    /// what was there, and will look.
    has_items: AtomicBool,
    /// Whole messages.
    written: AtomicUsize,
    read: AtomicUsize,
    /// The writer is gone, or the reader.
    closed: AtomicBool,
    /// The writer found it full.
    writer_waits: AtomicBool,
}

impl PipeEnd {
    /// A pipe whose first end belongs to `signal`'s owner.
    pub(crate) fn pair(signal: Arc<Signal>, hello: Hello) -> (PipeEnd, PipeEnd) {
        let pipe = Arc::new(Pipe {
            ways: [Way::default(), Way::default()],
            ends: [OnceLock::new(), OnceLock::new()],
            conflates: AtomicBool::new(false),
        });
        let first = PipeEnd::of(Arc::clone(&pipe), 0);
        let second = PipeEnd::of(pipe, 1);
        first.introduce(signal, hello);
        (first, second)
    }

    fn of(pipe: Arc<Pipe>, side: usize) -> PipeEnd {
        debug_assert!(side < pipe.ways.len(), "a pipe has two ends");
        PipeEnd {
            pipe,
            side,
            inbox: Batch::default(),
            room: 0,
            untold: 0,
            told_after: 0,
        }
    }

    /// Says whose end this is; once.
    pub(crate) fn introduce(&self, signal: Arc<Signal>, hello: Hello) {
        if hello.conflates {
            self.pipe.conflates.store(true, Ordering::Release);
        }
        debug_assert!(
            self.pipe.ends[self.side].get().is_none(),
            "an end is one socket's"
        );
        let _ = self.pipe.ends[self.side].set(End {
            signal,
            send_high_water: AtomicUsize::new(hello.send_high_water),
            receive_high_water: AtomicUsize::new(hello.receive_high_water),
            marks_changed: AtomicBool::new(false),
            hello,
        });
    }

    /// The program has changed the high-water marks of this end. Both ends follow: the reader's
    /// steps and the writer's room depend on the marks of both.
    pub(crate) fn set_marks(&mut self, send: usize, receive: usize) {
        self.room = 0;
        if let Some(own) = self.pipe.ends[self.side].get() {
            own.send_high_water.store(send, Ordering::Relaxed);
            own.receive_high_water.store(receive, Ordering::Relaxed);
        }
        self.follow_marks();
        if let Some(other) = self.pipe.ends[1 - self.side].get() {
            // Release: the end that sees it sees the marks.
            other.marks_changed.store(true, Ordering::Release);
            other.signal.raise();
        }
    }

    /// Follows marks that the other end has changed since the last look.
    pub(crate) fn look_at_marks(&mut self) {
        if let Some(own) = self.pipe.ends[self.side].get()
            && own.marks_changed.load(Ordering::Acquire)
        {
            own.marks_changed.swap(false, Ordering::AcqRel);
            self.room = 0;
            self.follow_marks();
        }
    }

    /// Tells the writer what was read if that is a step by the marks of now. One that waits by
    /// the marks of before looks again.
    fn follow_marks(&mut self) {
        if self.told_after > 0 {
            self.told_after = self.known_told_after();
            if self.untold >= self.told_after {
                self.tell_read();
            }
        }
        let way = &self.pipe.ways[1 - self.side];
        if way.writer_waits.swap(false, Ordering::SeqCst) {
            self.ring();
        }
    }

    /// The peer at the other end, if connected.
    pub(crate) fn peer(&self) -> Option<&Hello> {
        self.pipe.ends[1 - self.side].get().map(|end| &end.hello)
    }

    /// The messages that fit into the way out: the writer's mark and the reader's together;
    /// `None`: without bound.
    fn capacity(&self) -> Option<usize> {
        self.capacity_from(self.side)
    }

    /// The same for the way into which the end `writer` writes.
    fn capacity_from(&self, writer: usize) -> Option<usize> {
        debug_assert!(writer < 2, "a pipe has two ends");
        let own = self.pipe.ends[writer].get()?;
        let send = own.send_high_water.load(Ordering::Relaxed);
        let receive = match self.pipe.ends[1 - writer].get() {
            Some(end) => end.receive_high_water.load(Ordering::Relaxed),
            // No peer yet: only the own mark counts.
            None => return (send > 0).then_some(send),
        };
        (send > 0 && receive > 0).then(|| send.saturating_add(receive))
    }

    fn conflates(&self) -> bool {
        self.pipe.conflates.load(Ordering::Acquire)
    }

    /// Whether a message can be written; if not, the reader will ring when it can.
    #[inline]
    pub(crate) fn can_write(&mut self) -> bool {
        self.room > 0 || self.make_room()
    }

    #[cold]
    fn make_room(&mut self) -> bool {
        // A mark that the other end changes takes effect within this number of messages.
        self.room = ROOM_MAX;
        let Some(capacity) = self.capacity() else {
            return true;
        };
        if self.conflates() {
            return true;
        }
        let way = &self.pipe.ways[self.side];
        let left = || {
            let written = way.written.load(Ordering::Relaxed);
            capacity.saturating_sub(written.wrapping_sub(way.read.load(Ordering::Acquire)))
        };
        debug_assert!(capacity > 0, "a mark of 0 stands for no bound");
        self.room = left().min(ROOM_MAX);
        if self.room == 0 {
            // Release: who sees it sees how much was written.
            way.writer_waits.store(true, Ordering::Release);
            // Against the fence in `tell_read`: the reader sees that we wait, or we its progress.
            fence(Ordering::SeqCst);
            self.room = left().min(ROOM_MAX);
        }
        self.room > 0
    }

    /// Messages written and not yet read.
    pub(crate) fn pending(&self) -> usize {
        let way = &self.pipe.ways[self.side];
        let written = way.written.load(Ordering::Relaxed);
        written.wrapping_sub(way.read.load(Ordering::Relaxed))
    }

    /// Writes one message: `head`, each with more to follow, then `last`.
    #[inline]
    pub(crate) fn write(&mut self, head: impl Iterator<Item = Message>, last: Last<'_>) {
        let way = &self.pipe.ways[self.side];
        self.room = self.room.saturating_sub(1);
        // A long message is copied before the lock is taken.
        let mut made;
        let last = match last {
            Last::Slice(bytes) if !Batch::is_short_slice(bytes) => {
                made = Message::from_slice(bytes);
                Last::Message(&mut made)
            }
            last => last,
        };
        let is_first = {
            let mut queue = way.queue.lock();
            if self.pipe.conflates.load(Ordering::Acquire) {
                way.read.fetch_add(queue.frames(), Ordering::Relaxed);
                queue.clear();
            }
            for frame in head {
                queue.push(frame);
            }
            match last {
                Last::Message(message) => queue.push(std::mem::take(message)),
                Last::Slice(bytes) => queue.push_slice(bytes),
            }
            !way.has_items.swap(true, Ordering::AcqRel)
        };
        let written = way.written.load(Ordering::Relaxed);
        way.written
            .store(written.wrapping_add(1), Ordering::Relaxed);
        if is_first && let Some(end) = self.pipe.ends[1 - self.side].get() {
            end.signal.raise_for_listeners();
        }
    }

    /// Writes what the other socket must see even when its program is elsewhere.
    pub(crate) fn write_control(&self, item: Item) {
        let way = &self.pipe.ways[self.side];
        {
            let mut queue = way.queue.lock();
            queue.push_item(item);
            way.has_items.store(true, Ordering::Release);
        }
        self.ring();
    }

    /// Rings at the other end.
    pub(crate) fn ring(&self) {
        if let Some(end) = self.pipe.ends[1 - self.side].get() {
            end.signal.raise();
        }
    }

    /// The next item, frame by frame.
    #[inline]
    pub(crate) fn read(&mut self) -> Option<Item> {
        if self.inbox.is_empty() && !self.fetch() {
            return None;
        }
        let item = self.inbox.pop()?;
        if matches!(&item, Item::Frame(message) if !message.more()) {
            self.has_read();
        }
        Some(item)
    }

    /// The next message, if it is one of a single frame.
    #[inline]
    pub(crate) fn read_single(&mut self) -> Option<Message> {
        if self.inbox.is_empty() && !self.fetch() {
            return None;
        }
        let message = self.inbox.pop_single()?;
        self.has_read();
        Some(message)
    }

    /// The same, copied into a buffer, which takes what fits. Returns the message's length.
    #[inline]
    pub(crate) fn read_single_into(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if self.inbox.is_empty() && !self.fetch() {
            return None;
        }
        let length = self.inbox.pop_single_into(buffer)?;
        self.has_read();
        Some(length)
    }

    /// Takes out all that the other end has written, in one go. Whether there was anything.
    #[cold]
    fn fetch(&mut self) -> bool {
        let way = &self.pipe.ways[1 - self.side];
        if !way.has_items.load(Ordering::Acquire) {
            return false;
        }
        debug_assert!(self.inbox.is_empty(), "what was fetched before is read");
        self.inbox.clear();
        let mut queue = way.queue.lock();
        std::mem::swap(&mut *queue, &mut self.inbox);
        way.has_items.store(false, Ordering::Release);
        !self.inbox.is_empty()
    }

    /// The writer learns of room when half of the pipe is read, as with libzmq: a line of memory
    /// that both want is touched no more often than that.
    #[inline]
    fn has_read(&mut self) {
        self.untold += 1;
        if self.untold >= self.told_after {
            self.tell_read();
        }
    }

    #[cold]
    fn tell_read(&mut self) {
        if self.told_after == 0 {
            self.told_after = self.known_told_after();
            if self.untold < self.told_after {
                return;
            }
        }
        debug_assert!(
            self.untold >= self.told_after,
            "the writer is told in steps"
        );
        let untold = std::mem::take(&mut self.untold);
        let way = &self.pipe.ways[1 - self.side];
        let read = way.read.fetch_add(untold, Ordering::AcqRel);
        let read = read.wrapping_add(untold);
        fence(Ordering::SeqCst);
        if way.writer_waits.load(Ordering::Acquire) {
            self.wake_writer(way, read);
        }
    }

    /// The messages after which the writer is told that they are read.
    fn known_told_after(&self) -> usize {
        let is_there = |side: usize| self.pipe.ends[side].get().is_some();
        if !is_there(0) || !is_there(1) || self.conflates() {
            return 1;
        }
        match self.capacity_from(1 - self.side) {
            Some(capacity) => capacity.div_ceil(2),
            None => UNBOUND_TOLD_AFTER,
        }
    }

    /// Lets a writer go on once half of what it had written is read: not for each message.
    #[cold]
    fn wake_writer(&self, way: &Way, read: usize) {
        let written = way.written.load(Ordering::Relaxed);
        let left = written.wrapping_sub(read);
        let Some(end) = self.pipe.ends[1 - self.side].get() else {
            return;
        };
        let capacity = self.capacity_from(1 - self.side);
        if left == 0 || capacity.is_none_or(|capacity| left <= capacity / 2) {
            way.writer_waits.store(false, Ordering::SeqCst);
            end.signal.raise();
        }
    }

    /// Whether there is something to read.
    #[inline]
    pub(crate) fn has_items(&self) -> bool {
        !self.inbox.is_empty()
            || self.pipe.ways[1 - self.side]
                .has_items
                .load(Ordering::Acquire)
    }

    /// Whether the other end is gone. What it wrote before can still be read.
    pub(crate) fn is_closed(&self) -> bool {
        self.pipe.ways[1 - self.side].closed.load(Ordering::Acquire)
    }

    /// Returns whether a peer is at the other end.
    pub(crate) fn is_attached(&self) -> bool {
        self.pipe.ends[1 - self.side].get().is_some()
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.pipe.ways[self.side]
            .closed
            .store(true, Ordering::Release);
        self.ring();
    }
}

/// Messages that are written without a look at the marks, at most.
const ROOM_MAX: usize = 64;
/// Without a limit no writer waits for room; the count serves `pending`.
const UNBOUND_TOLD_AFTER: usize = 64;
