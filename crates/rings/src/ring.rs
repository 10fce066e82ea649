//! One direction: a ring of bytes with one writer and one reader, which do not trust each other.
//!
//! Positions count all bytes since the beginning, so that they only grow. The writer's (`TAIL`) and
//! the reader's (`HEAD`) lie in the memory for the other side to see; each side goes by its own
//! copy. Data is stored and loaded by whole words, never by parts of them: the writer keeps the
//! word that it has filled in part, and does not touch one that still has a byte to be read.

use std::sync::Arc;

use crate::memory::{Memory, WORD_BYTES, append, load, store};
use crate::sync::{AtomicU64, Ordering, fence};

/// The peer wrote a position that cannot be: nothing more can be read from it or written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the peer wrote an impossible position into the ring")
    }
}

impl std::error::Error for Broken {}

/// Where a ring lies in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first of its control words.
    pub(crate) control: usize,
    /// The first word of its data.
    pub(crate) data: usize,
    /// Words of its data, a power of two.
    pub(crate) words: usize,
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    memory: Arc<Memory>,
    place: Place,
    /// Read up to here.
    head: u64,
    /// Written up to here when it was last looked at.
    tail: u64,
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    memory: Arc<Memory>,
    place: Place,
    /// Written up to here.
    tail: u64,
    /// Read up to here when it was last looked at.
    head: u64,
    /// What of the word at `tail` is written.
    partial: [u8; WORD_BYTES],
}

impl Place {
    pub(crate) fn bytes(self) -> u64 {
        (self.words * WORD_BYTES) as u64
    }

    /// The bytes that may be written behind `tail`: up to the word that holds the next byte to be
    /// read, one round further.
    fn free(self, head: u64, tail: u64) -> usize {
        let limit = head - head % WORD_BYTES as u64 + self.bytes();
        // It is above the limit by a peer's word alone.
        limit.saturating_sub(tail) as usize
    }

    fn is_possible(self, head: u64, tail: u64) -> bool {
        head <= tail && tail - head <= self.bytes()
    }

    /// Whether a writer that waits for room is worth waking: when half of the ring is free, each
    /// wake-up moves much.
    fn has_room(self, head: u64, tail: u64) -> bool {
        self.free(head, tail) as u64 >= self.bytes() / 2
    }

    fn index(self, at: u64) -> usize {
        (at / WORD_BYTES as u64) as usize & (self.words - 1)
    }

    /// The words from a position on: up to the end of the data, and from its beginning.
    fn runs(self, memory: &Memory, at: u64, count: usize) -> [&[AtomicU64]; 2] {
        debug_assert!(count <= self.words, "no more than one round");
        let data = &memory.words()[self.data..self.data + self.words];
        let first = self.index(at);
        let here = count.min(self.words - first);
        [&data[first..first + here], &data[..count - here]]
    }
}

impl Reader {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Reader {
        Reader {
            memory,
            place,
            head: 0,
            tail: 0,
        }
    }

    fn control(&self, word: usize) -> &AtomicU64 {
        &self.memory.words()[self.place.control + word]
    }

    /// The bytes that can be read.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<usize, Broken> {
        let tail = self.control(TAIL).load(Ordering::Acquire);
        // What is known of the tail does not become less: a peer cannot take back what it said.
        let known = self.tail - self.head;
        let now = tail.wrapping_sub(self.head);
        if now < known || now > self.place.bytes() {
            return Err(Broken);
        }
        self.tail = tail;
        Ok(now as usize)
    }

    /// Whether there is something to read, a break included.
    #[inline]
    pub(crate) fn has_bytes(&self) -> bool {
        self.control(TAIL).load(Ordering::Acquire) != self.head
    }

    /// Reads what there is into `out`, as far as it has room. Returns the bytes read.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Broken> {
        let count = self.available()?.min(out.len());
        let (first, rest) = out[..count].split_at_mut(self.first_bytes(count));
        let length = first.len();
        self.copy_first(|bytes| first.copy_from_slice(bytes), length);
        let (chunks, last) = rest.as_chunks_mut::<WORD_BYTES>();
        let [one, other] = self.place.runs(&self.memory, self.head, chunks.len());
        let (to_one, to_other) = chunks.split_at_mut(one.len());
        load(one, to_one);
        load(other, to_other);
        self.head += (chunks.len() * WORD_BYTES) as u64;
        let length = last.len();
        self.copy_first(|bytes| last.copy_from_slice(bytes), length);
        self.release();
        Ok(count)
    }

    /// Reads what there is to the end of `bytes`, as far as that has room without growing. Returns
    /// the bytes read.
    pub(crate) fn append(&mut self, bytes: &mut Vec<u8>) -> Result<usize, Broken> {
        let count = self.available()?.min(bytes.capacity() - bytes.len());
        let first = self.first_bytes(count);
        self.copy_first(|part| bytes.extend_from_slice(part), first);
        let words = (count - first) / WORD_BYTES;
        for run in self.place.runs(&self.memory, self.head, words) {
            append(bytes, run);
        }
        self.head += (words * WORD_BYTES) as u64;
        let last = (count - first) % WORD_BYTES;
        self.copy_first(|part| bytes.extend_from_slice(part), last);
        self.release();
        Ok(count)
    }

    /// Of `count` bytes, those in the word that was begun.
    fn first_bytes(&self, count: usize) -> usize {
        let offset = (self.head % WORD_BYTES as u64) as usize;
        match offset {
            0 => 0,
            _ => count.min(WORD_BYTES - offset),
        }
    }

    /// Takes a part of the word at `head`.
    #[inline]
    fn copy_first(&mut self, copy: impl FnOnce(&[u8]), count: usize) {
        if count == 0 {
            return;
        }
        let offset = (self.head % WORD_BYTES as u64) as usize;
        debug_assert!(offset + count <= WORD_BYTES, "a part of one word");
        let index = self.place.data + self.place.index(self.head);
        let word = self.memory.words()[index].load(Ordering::Relaxed);
        copy(&word.to_ne_bytes()[offset..offset + count]);
        self.head += count as u64;
    }

    /// Gives the room of what was read back to the writer.
    #[inline]
    fn release(&self) {
        debug_assert!(self.head <= self.tail, "what is read was written");
        self.control(HEAD).store(self.head, Ordering::Release);
    }

    /// Whether the writer asked to be told of room, and there is enough. It is told once.
    #[inline]
    pub(crate) fn must_tell(&self) -> bool {
        if !self.place.has_room(self.head, self.tail) {
            return false;
        }
        // Against the fence of who asks: one of the two sees the other's store.
        fence(Ordering::SeqCst);
        take(self.control(WRITER_ASKS))
    }

    /// Asks to be woken when something is written. What is written already must be looked for
    /// afterwards.
    pub(crate) fn ask(&self) {
        ask(self.control(READER_ASKS));
    }

    /// Whether the writer has not answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.control(READER_ASKS).load(Ordering::Relaxed) == ASKED
    }

    pub(crate) fn take_back(&self) {
        self.control(READER_ASKS).swap(0, Ordering::AcqRel);
    }

    pub(crate) fn goal(&self) -> Goal {
        Goal {
            memory: Arc::clone(&self.memory),
            place: self.place,
            at: self.head,
            is_room: false,
        }
    }
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>, place: Place) -> Writer {
        Writer {
            memory,
            place,
            tail: 0,
            head: 0,
            partial: [0; WORD_BYTES],
        }
    }

    fn control(&self, word: usize) -> &AtomicU64 {
        &self.memory.words()[self.place.control + word]
    }

    /// Looks at what was read meanwhile. Returns the bytes that can be written.
    fn look(&mut self) -> Result<usize, Broken> {
        let head = self.control(HEAD).load(Ordering::Acquire);
        // What is known of the head does not become less, as with the tail.
        if head < self.head || head > self.tail {
            return Err(Broken);
        }
        self.head = head;
        Ok(self.place.free(head, self.tail))
    }

    /// Whether there is room worth going on for, a break included.
    pub(crate) fn has_room(&self) -> bool {
        let head = self.control(HEAD).load(Ordering::Acquire);
        !self.place.is_possible(head, self.tail) || self.place.has_room(head, self.tail)
    }

    /// Writes what there is room for, without showing it to the reader: [`publish`](Self::publish)
    /// does. Returns the bytes taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut free = self.place.free(self.head, self.tail);
        if free < bytes.len() {
            free = self.look()?;
        }
        let count = free.min(bytes.len());
        let mut bytes = &bytes[..count];
        let offset = (self.tail % WORD_BYTES as u64) as usize;
        if offset != 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(WORD_BYTES - offset));
            self.put_part(first);
            bytes = rest;
        }
        let (chunks, last) = bytes.as_chunks::<WORD_BYTES>();
        let [one, other] = self.place.runs(&self.memory, self.tail, chunks.len());
        let (to_one, to_other) = chunks.split_at(one.len());
        store(one, to_one);
        store(other, to_other);
        self.tail += (chunks.len() * WORD_BYTES) as u64;
        self.put_part(last);
        Ok(count)
    }

    /// Writes a part of the word at `tail`. The bytes before it, which may still be read, are
    /// stored again as they are.
    #[inline]
    fn put_part(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let offset = (self.tail % WORD_BYTES as u64) as usize;
        self.partial[offset..offset + bytes.len()].copy_from_slice(bytes);
        let word = u64::from_ne_bytes(self.partial);
        let index = self.place.data + self.place.index(self.tail);
        self.memory.words()[index].store(word, Ordering::Relaxed);
        self.tail += bytes.len() as u64;
    }

    /// Shows the reader all that was written. Whether it asked to be woken; it is woken once.
    #[inline]
    pub(crate) fn publish(&self) -> bool {
        self.control(TAIL).store(self.tail, Ordering::Release);
        // Against the fence of who asks: one of the two sees the other's store.
        fence(Ordering::SeqCst);
        take(self.control(READER_ASKS))
    }

    /// Whether the reader has read all that was written.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.control(HEAD).load(Ordering::Relaxed) == self.tail
    }

    /// Asks to be woken when there is room. What there is already must be looked for afterwards.
    pub(crate) fn ask(&self) {
        ask(self.control(WRITER_ASKS));
    }

    /// Whether the reader has not answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.control(WRITER_ASKS).load(Ordering::Relaxed) == ASKED
    }

    pub(crate) fn take_back(&self) {
        self.control(WRITER_ASKS).swap(0, Ordering::AcqRel);
    }

    pub(crate) fn goal(&self) -> Goal {
        Goal {
            memory: Arc::clone(&self.memory),
            place: self.place,
            at: self.tail,
            is_room: true,
        }
    }
}

/// What one end waits for, to be looked at without the end itself.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    memory: Arc<Memory>,
    place: Place,
    at: u64,
    is_room: bool,
}

impl Goal {
    /// Whether it is there, or a break of the ring.
    #[inline]
    pub(crate) fn is_reached(&self) -> bool {
        let words = self.memory.words();
        if !self.is_room {
            return words[self.place.control + TAIL].load(Ordering::Acquire) != self.at;
        }
        let head = words[self.place.control + HEAD].load(Ordering::Acquire);
        !self.place.is_possible(head, self.at) || self.place.has_room(head, self.at)
    }
}

/// Puts a question. It is exchanged and not stored, so that it comes after the answer to the one
/// before.
fn ask(question: &AtomicU64) {
    question.swap(ASKED, Ordering::AcqRel);
    // Against the fence of who answers: one of the two sees the other's store.
    fence(Ordering::SeqCst);
}

/// Takes a question, if there is one: it is answered once.
#[inline]
fn take(question: &AtomicU64) -> bool {
    question.load(Ordering::Relaxed) == ASKED && question.swap(0, Ordering::AcqRel) == ASKED
}

const ASKED: u64 = 1;

/// Control words, each in cache lines of its own: processors fetch them in pairs.
pub(crate) const LINE_WORDS: usize = if cfg!(loom) { 1 } else { 16 };
/// Stored by the writer: written up to here.
pub(crate) const TAIL: usize = 0;
/// Stored by the reader: read up to here.
pub(crate) const HEAD: usize = LINE_WORDS;
/// The reader asks to be woken.
pub(crate) const READER_ASKS: usize = 2 * LINE_WORDS;
/// The writer asks to be woken.
pub(crate) const WRITER_ASKS: usize = 3 * LINE_WORDS;
pub(crate) const CONTROL_WORDS: usize = 4 * LINE_WORDS;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
