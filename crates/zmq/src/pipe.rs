//! The connection of two sockets in one process: a queue each way.

use std::sync::{Arc, OnceLock};

use crate::batch::{Batch, Item};
use crate::lent;
use crate::message::{Last, Message, Single};
use crate::pressure::{Read, Untold, Written};
use crate::signal::Signal;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, fence};
use crate::topic_queue::{Kept, Limits, TopicQueue};

/// One socket's end of a pipe.
#[derive(Debug)]
pub(crate) struct PipeEnd {
    pipe: Arc<Pipe>,
    /// Which of the two ends: what this end writes goes into `ways[side]`.
    side: usize,
    /// Taken out of the queue in one go.
    inbox: Batch,
    /// Messages read since then.
    taken: u32,
    /// More than one was taken out at once lately: so many more times they are taken to follow one
    /// another.
    in_a_row: u8,
    /// Messages that may be written before the fill level is checked again.
    room: usize,
    /// Messages read that the writer has not been told of.
    untold: usize,
    /// After how many it is told; 0: not known yet.
    told_after: usize,
    written: Written,
    untold_long: Untold,
}

/// What an end tells the other one.
#[derive(Debug, Clone)]
pub(crate) struct Hello {
    pub(crate) routing_id: Vec<u8>,
    pub(crate) receive_high_water: usize,
    pub(crate) send_high_water: usize,
    /// Its socket keeps the last message alone.
    pub(crate) conflates: bool,
    /// Limits of the topics that it sends or receives, where it conflates them.
    pub(crate) topics_out: Option<Limits>,
    pub(crate) topics_in: Option<Limits>,
}

#[derive(Debug)]
struct Pipe {
    ways: [Way; 2],
    /// Of each way, the long bodies that were read.
    read_long: [Read; 2],
    ends: [OnceLock<End>; 2],
    /// What the ends want to be left out: `LAST_ALONE`, and `TOPICS` of each way.
    conflation: AtomicUsize,
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

/// In cache lines of its own: the two threads write to the two ways.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Way {
    queue: Mutex<Queue>,
    /// Changed under the queue's lock alone. Set: the reader has been rung since it last took out
    /// what was there, and will look.
    has_items: AtomicBool,
    /// Whole messages; one that replaces another is not counted.
    written: AtomicUsize,
    read: AtomicUsize,
    /// Messages that newer ones have replaced.
    conflated: AtomicUsize,
    /// The writer is gone, or the reader.
    closed: AtomicBool,
    /// The writer found it full.
    writer_waits: AtomicBool,
}

/// What the writer has put in and the reader has not taken out.
#[derive(Debug, Default)]
struct Queue {
    batch: Batch,
    /// Where topics are conflated: what follows `batch`.
    topics: Option<Box<TopicQueue>>,
}

impl PipeEnd {
    /// A pipe whose first end belongs to `signal`'s owner.
    pub(crate) fn pair(signal: Arc<Signal>, hello: Hello) -> (PipeEnd, PipeEnd) {
        let pipe = Arc::new(Pipe {
            ways: [Way::default(), Way::default()],
            read_long: [Read::default(), Read::default()],
            ends: [OnceLock::new(), OnceLock::new()],
            conflation: AtomicUsize::new(0),
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
            taken: 0,
            in_a_row: 0,
            room: 0,
            untold: 0,
            told_after: 0,
            written: Written::default(),
            untold_long: Untold::default(),
        }
    }

    /// Says whose end this is; once.
    pub(crate) fn introduce(&self, signal: Arc<Signal>, hello: Hello) {
        if hello.conflates {
            self.pipe.conflation.fetch_or(LAST_ALONE, Ordering::Release);
        }
        for (way, limits) in [
            (self.side, hello.topics_out),
            (1 - self.side, hello.topics_in),
        ] {
            if let Some(limits) = limits {
                self.pipe.conflate_topics(way, limits);
            }
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

    /// Whether a message may replace others on this way.
    fn conflates(&self, way: usize) -> bool {
        self.pipe.conflation.load(Ordering::Acquire) & (LAST_ALONE | topics_of(way)) != 0
    }

    /// Messages that newer ones have replaced, both ways.
    pub(crate) fn conflated(&self) -> usize {
        let [out, back] = &self.pipe.ways;
        out.conflated.load(Ordering::Relaxed) + back.conflated.load(Ordering::Relaxed)
    }

    /// Whether a message of this topic can be written; if not, the reader will ring when it can.
    pub(crate) fn takes_topic(&mut self, topic: &[u8]) -> bool {
        let conflation = self.pipe.conflation.load(Ordering::Acquire);
        if conflation & LAST_ALONE == 0 && conflation & topics_of(self.side) != 0 {
            let way = &self.pipe.ways[self.side];
            let queue = way.queue.lock();
            let takes = (queue.topics.as_ref()).is_none_or(|topics| topics.takes(topic));
            if !takes {
                // Under the lock: the reader that takes one out finds it.
                way.writer_waits.store(true, Ordering::Release);
            }
            return takes;
        }
        self.can_write()
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
        if self.conflates(self.side) {
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
    pub(crate) fn write(&mut self, head: impl Iterator<Item = Message>, last: Last<'_>) -> Kept {
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
        let mut kept = Kept::New;
        let weight;
        let is_first = {
            let mut queue = way.queue.lock();
            match self.pipe.conflation.load(Ordering::Acquire) {
                0 => put(&mut queue.batch, head, last),
                conflation => kept = way.conflate(&mut queue, conflation, head, last),
            }
            weight = queue.batch.take_weight();
            let is_first = kept != Kept::Refused && !way.has_items.load(Ordering::Relaxed);
            if is_first {
                way.has_items.store(true, Ordering::Release);
            }
            is_first
        };
        self.written.count(weight);
        match kept {
            Kept::New => {
                let written = way.written.load(Ordering::Relaxed);
                way.written
                    .store(written.wrapping_add(1), Ordering::Relaxed);
            }
            Kept::Replaced => {
                way.conflated.fetch_add(1, Ordering::Relaxed);
            }
            Kept::Refused => {}
        }
        if is_first && let Some(end) = self.pipe.ends[1 - self.side].get() {
            end.signal.raise_for_listeners();
        }
        kept
    }

    /// Writes what the other socket must see even when its program is elsewhere.
    pub(crate) fn write_control(&self, item: Item) {
        let way = &self.pipe.ways[self.side];
        {
            let mut queue = way.queue.lock();
            queue.batch.push_item(item);
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
        self.count_long();
        if matches!(&item, Item::Frame(message) if !message.more()) {
            self.has_read();
        }
        Some(item)
    }

    /// The next message, if it is one of a single frame.
    #[inline]
    pub(crate) fn read_single<T>(&mut self, take: impl FnOnce(Single<'_>) -> T) -> Option<T> {
        if self.inbox.is_empty() && !self.fetch() {
            return None;
        }
        let taken = self.inbox.pop_single(take)?;
        self.count_long();
        self.has_read();
        Some(taken)
    }

    /// Takes out all that the other end has written, in one go. Whether there was anything.
    #[cold]
    fn fetch(&mut self) -> bool {
        self.tell_long();
        let way = &self.pipe.ways[1 - self.side];
        if !way.has_items.load(Ordering::Acquire) {
            return false;
        }
        debug_assert!(self.inbox.is_empty(), "what was fetched before is read");
        self.inbox.clear();
        let mut queue = way.queue.lock();
        lent::others_have_come();
        std::mem::swap(&mut queue.batch, &mut self.inbox);
        let mut has_more = false;
        if let Some(topics) = &mut queue.topics {
            // One at a time: the others may still be replaced.
            if self.inbox.is_empty()
                && let Some(frames) = topics.pop()
            {
                frames.into_each(|frame| self.inbox.push(frame));
            }
            has_more = !topics.is_empty();
        }
        way.has_items.store(has_more, Ordering::Release);
        self.taken = 0;
        !self.inbox.is_empty()
    }

    /// Whether messages follow one another; then how many came out of the queue the last time.
    pub(crate) fn in_a_row(&mut self) -> Option<u32> {
        let taken = std::mem::take(&mut self.taken);
        self.in_a_row = match taken {
            2.. => IN_A_ROW,
            _ => self.in_a_row.saturating_sub(1),
        };
        (self.in_a_row > 0).then_some(taken)
    }

    /// Drops the messages that are next and whose topic is not wanted. Returns whether there is
    /// another one, which stays: until it is read a newer one may replace it. `None`: topics are
    /// not conflated here.
    pub(crate) fn has_topic(&mut self, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Option<bool> {
        if self.pipe.conflation.load(Ordering::Acquire) & topics_of(1 - self.side) == 0 {
            return None;
        }
        let way = &self.pipe.ways[1 - self.side];
        let mut left_out = 0;
        let found = {
            let mut queue = way.queue.lock();
            if !self.inbox.is_empty() || !queue.batch.is_empty() {
                return None;
            }
            let topics = queue.topics.as_mut()?;
            while topics.front_topic().is_some_and(|topic| !is_wanted(topic)) {
                topics.pop();
                left_out += 1;
            }
            way.has_items.store(!topics.is_empty(), Ordering::Release);
            !topics.is_empty()
        };
        (0..left_out).for_each(|_| self.has_read());
        Some(found)
    }

    /// The writer learns of room when half of the pipe is read, as with libzmq: a line of memory
    /// that both want is touched no more often than that.
    #[inline]
    fn has_read(&mut self) {
        self.taken = self.taken.saturating_add(1);
        self.untold += 1;
        if self.untold >= self.told_after {
            self.tell_read();
        }
    }

    #[inline]
    fn count_long(&mut self) {
        let weight = self.inbox.take_weight();
        if weight > 0 && self.untold_long.count(weight) {
            self.tell_long();
        }
    }

    #[cold]
    fn tell_long(&mut self) {
        if self.untold_long.tell(&self.pipe.read_long[1 - self.side]) {
            self.ring();
        }
    }

    /// Whether so much is unread that the writer should wait for a moment, if it may.
    #[inline]
    pub(crate) fn is_pressed(&mut self) -> bool {
        // Messages that newer ones replace are never read.
        self.written.is_too_much(&self.pipe.read_long[self.side]) && !self.conflates(self.side)
    }

    /// The writer is about to wait for this: the reader rings. `false`: it need not wait.
    pub(crate) fn begin_easing(&self) -> Option<Easing> {
        let waits = (self.written).begin_wait(&self.pipe.read_long[self.side]);
        waits.then(|| Easing {
            pipe: Arc::clone(&self.pipe),
            side: self.side,
        })
    }

    pub(crate) fn end_easing(&mut self) {
        self.written.end_wait(&self.pipe.read_long[self.side]);
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
        if !is_there(0) || !is_there(1) || self.conflates(1 - self.side) {
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
        let conflates = self.conflates(1 - self.side);
        if left == 0 || conflates || capacity.is_none_or(|capacity| left <= capacity / 2) {
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

    /// Returns whether the other end has made the pipe, by connecting.
    pub(crate) fn is_accepted(&self) -> bool {
        self.side == 1
    }

    /// Returns whether a peer is at the other end.
    pub(crate) fn is_attached(&self) -> bool {
        self.pipe.ends[1 - self.side].get().is_some()
    }
}

/// A writer that waits for a reader to catch up.
#[derive(Debug)]
pub(crate) struct Easing {
    pipe: Arc<Pipe>,
    side: usize,
}

impl Easing {
    /// Looks on without the socket's lock. On one processor the reader is let through, which costs
    /// less than to sleep until it rings. Returns whether it has caught up; if not, it will ring.
    pub(crate) fn look_on(&self) -> bool {
        let read = &self.pipe.read_long[self.side];
        for look in 0..LOOKS_MAX {
            if read.is_enough() {
                return true;
            }
            match look {
                ..SPINS_MAX => (0..SPIN_ROUNDS).for_each(|_| std::hint::spin_loop()),
                _ => std::thread::yield_now(),
            }
        }
        !read.fall_asleep()
    }
}

impl Pipe {
    /// Keeps the newest message of each topic on a way. Both ends may want it: then the smaller of
    /// their limits holds, since each bounds what waits for its own program or peer.
    fn conflate_topics(&self, way: usize, limits: Limits) {
        let mut queue = self.ways[way].queue.lock();
        match &mut queue.topics {
            None => queue.topics = Some(TopicQueue::new(of_process(limits))),
            Some(topics) => {
                let before = topics.limits();
                topics.set_limits(of_process(Limits {
                    topics_max: before.topics_max.min(limits.topics_max),
                    ..limits
                }));
            }
        }
        self.conflation.fetch_or(topics_of(way), Ordering::Release);
    }
}

impl Way {
    /// Puts in a message that replaces all that wait, or the one of its topic.
    #[cold]
    fn conflate(
        &self,
        queue: &mut Queue,
        conflation: usize,
        head: impl Iterator<Item = Message>,
        last: Last<'_>,
    ) -> Kept {
        let topics = queue.topics.as_mut();
        if conflation & LAST_ALONE == 0 {
            return match topics {
                Some(topics) => topics.push_parts(head, last),
                None => {
                    put(&mut queue.batch, head, last);
                    Kept::New
                }
            };
        }
        let mut messages = queue.batch.messages();
        queue.batch.clear();
        if let Some(topics) = topics {
            messages += topics.len();
            topics.clear();
        }
        self.read.fetch_add(messages, Ordering::Relaxed);
        self.conflated.fetch_add(messages, Ordering::Relaxed);
        put(&mut queue.batch, head, last);
        Kept::New
    }
}

/// Between sockets of a process bytes have no limit, whether topics are conflated or not.
fn of_process(limits: Limits) -> Limits {
    Limits {
        bytes_max: usize::MAX,
        ..limits
    }
}

#[inline]
fn put(batch: &mut Batch, head: impl Iterator<Item = Message>, last: Last<'_>) {
    for frame in head {
        batch.push(frame);
    }
    match last {
        Last::Message(message) => batch.push_from(message),
        Last::Slice(bytes) => batch.push_slice(bytes),
    }
}

/// A bit of `Pipe::conflation`: the last message alone is wanted, both ways.
const LAST_ALONE: usize = 1;

/// A bit of `Pipe::conflation`: of a way's topics the newest message is wanted.
const fn topics_of(way: usize) -> usize {
    2 << way
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.pipe.ways[self.side]
            .closed
            .store(true, Ordering::Release);
        self.ring();
    }
}

/// Looks of a writer at how far the reader has come; before the last ones it yields.
const LOOKS_MAX: u32 = SPINS_MAX + 8;
const SPINS_MAX: u32 = 64;
const SPIN_ROUNDS: u32 = 16;
/// Times that one message is taken out before it is believed to come alone.
const IN_A_ROW: u8 = 8;
/// Messages that are written without a look at the marks, at most.
const ROOM_MAX: usize = 64;
/// Without a limit no writer waits for room; the count serves `pending`.
const UNBOUND_TOLD_AFTER: usize = 64;
