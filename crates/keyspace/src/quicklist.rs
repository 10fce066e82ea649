//! Long lists: a deque of chunks. Each chunk is a run of elements with spare room at both ends.
//!
//! ```text
//!  chunks  ┌───────┬───────┬───────┐        chunk  ┌──────┬─────────┬─────────┬───┬──────┐
//!          │ chunk │ chunk │ chunk │               │ room │ element │ element │ … │ room │
//!          └───────┴───────┴───────┘               └──────┴─────────┴─────────┴───┴──────┘
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use crate::elements::{Encoded, end_of, nth_span};

/// Limits of a chunk. An element that exceeds them has its own chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLimits {
    pub(crate) bytes_max: usize,
    pub(crate) count_max: usize,
}

impl ListLimits {
    /// Returns whether a chunk may be this large. `bytes` counts only the elements.
    pub(crate) fn allow(self, bytes: usize, count: usize) -> bool {
        bytes + LISTPACK_OVERHEAD <= self.bytes_max && count <= self.count_max
    }

    /// Returns half the limit of elements or bytes.
    pub(crate) fn half(self) -> Self {
        if self.count_max < usize::MAX {
            ListLimits {
                count_max: self.count_max / 2,
                ..self
            }
        } else {
            ListLimits {
                bytes_max: self.bytes_max / 2,
                ..self
            }
        }
    }
}

/// A list with constant-time pushes and pops at both ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quicklist {
    chunks: VecDeque<Chunk>,
    len: usize,
}

/// The position of an element; valid until the list changes.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) chunk: usize,
    /// Span in the chunk's run.
    pub(crate) span: Range<usize>,
}

impl Quicklist {
    /// Creates a list of the `count` elements in `run`.
    pub(crate) fn from_run(run: &[u8], count: usize) -> Self {
        debug_assert_eq!(count == 0, run.is_empty());
        let mut list = Quicklist::default();
        if count > 0 {
            list.chunks.push_back(Chunk::new(&[run], count));
            list.len = count;
        }
        list
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the elements of a chunk.
    pub(crate) fn run(&self, chunk: usize) -> &[u8] {
        self.chunks[chunk].run()
    }

    /// Returns all elements, if they are in one chunk.
    pub(crate) fn only_run(&self) -> Option<&[u8]> {
        (self.chunks.len() == 1).then(|| self.run(0))
    }

    /// Finds an element by index, from the nearer end.
    pub(crate) fn locate(&self, index: usize) -> Option<Spot> {
        let (chunk, position) = self.chunk_of(index)?;
        let span = nth_span(self.run(chunk), self.chunks[chunk].count, position);
        Some(Spot { chunk, span })
    }

    /// Adds elements at one end, one after another.
    #[inline]
    pub(crate) fn push_all<'t>(
        &mut self,
        front: bool,
        texts: impl Iterator<Item = &'t [u8]>,
        limits: ListLimits,
    ) {
        for text in texts {
            let element = Encoded::new(text);
            match front {
                true => self.push_front(&element, limits),
                false => self.push_back(&element, limits),
            }
        }
    }

    pub(crate) fn push_front(&mut self, element: &Encoded<'_>, limits: ListLimits) {
        match self.chunks.front_mut() {
            Some(chunk) if chunk.fits(element, limits) => chunk.push_front(element),
            neighbour => {
                let chunk = Chunk::beside(neighbour, element, true);
                self.chunks.push_front(chunk);
            }
        }
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, element: &Encoded<'_>, limits: ListLimits) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.fits(element, limits) => chunk.push_back(element),
            neighbour => {
                let chunk = Chunk::beside(neighbour, element, false);
                self.chunks.push_back(chunk);
            }
        }
        self.len += 1;
    }

    /// Inserts an element before or after the one at a spot.
    pub(crate) fn insert(
        &mut self,
        spot: &Spot,
        behind: bool,
        element: &Encoded<'_>,
        limits: ListLimits,
    ) {
        let at = if behind {
            spot.span.end
        } else {
            spot.span.start
        };
        debug_assert!(
            at <= self.run(spot.chunk).len(),
            "the spot belongs to this list"
        );
        let chunk = &mut self.chunks[spot.chunk];
        self.len += 1;
        if chunk.fits(element, limits) {
            chunk.splice(at..at, 0, Some(element));
            return;
        }
        let split = chunk.split(at);
        let mut next = spot.chunk + 1;
        if let Some(split) = split {
            self.chunks.insert(next, split);
        } else if at == 0 {
            next = spot.chunk;
        }
        self.chunks.insert(next, Chunk::new(&element.parts(), 1));
        self.merge_around(next, limits);
    }

    pub(crate) fn replace(&mut self, spot: &Spot, element: &Encoded<'_>, limits: ListLimits) {
        let chunk = &mut self.chunks[spot.chunk];
        let bytes = chunk.run().len() - spot.span.len() + element.len();
        let alone = chunk.count == 1;
        if alone || limits.allow(bytes, chunk.count) {
            chunk.splice(spot.span.clone(), 1, Some(element));
            if alone {
                self.merge_around(spot.chunk, limits);
            }
        } else {
            self.insert(spot, true, element, limits);
            // The old element's chunk and position have not changed.
            self.remove_span(spot, limits);
        }
    }

    /// Removes `count` existing elements from a position on.
    pub(crate) fn remove_range(&mut self, start: usize, count: usize, limits: ListLimits) {
        let Some((first, mut position)) = self.chunk_of(start) else {
            return;
        };
        debug_assert!(count <= self.len - start, "the range is within the list");
        self.len -= count;
        let (mut at, mut left, mut emptied) = (first, count, None::<Range<usize>>);
        while left > 0 {
            let chunk = &mut self.chunks[at];
            let taken = left.min(chunk.count - position);
            if taken == chunk.count {
                emptied = Some(emptied.map_or(at, |emptied| emptied.start)..at + 1);
            } else {
                chunk.remove(position, taken);
            }
            left -= taken;
            position = 0;
            at += 1;
        }
        if let Some(emptied) = emptied {
            self.chunks.drain(emptied);
        }
        self.tidy(first, limits);
    }

    /// Removes up to `most` elements equal to this one, the last ones if `backwards`. Returns how
    /// many.
    pub(crate) fn remove_equal(
        &mut self,
        element: &Encoded<'_>,
        backwards: bool,
        most: usize,
        limits: ListLimits,
    ) -> usize {
        let mut removed = 0;
        let count = self.chunks.len();
        for step in 0..count {
            let at = if backwards { count - 1 - step } else { step };
            let chunk = &mut self.chunks[at];
            let found = matches(chunk.run(), element, backwards, most - removed);
            if !found.is_empty() {
                removed += found.len();
                let left = without(chunk.run(), &found);
                *chunk = Chunk::new(&[&left], chunk.count - found.len());
            }
            if removed == most {
                break;
            }
        }
        if removed > 0 {
            self.len -= removed;
            self.chunks.retain(|chunk| chunk.count > 0);
            for at in (0..self.chunks.len()).rev() {
                self.tidy(at, limits);
            }
        }
        removed
    }

    fn remove_span(&mut self, spot: &Spot, limits: ListLimits) {
        let chunk = &mut self.chunks[spot.chunk];
        chunk.splice(spot.span.clone(), 1, None);
        self.len -= 1;
        if chunk.count == 0 {
            self.chunks.remove(spot.chunk);
        }
        self.merge_around(spot.chunk, limits);
    }

    /// Returns the chunk of an element, and the element's position in it.
    fn chunk_of(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index <= self.len / 2 {
            let mut position = index;
            for (at, chunk) in self.chunks.iter().enumerate() {
                if position < chunk.count {
                    return Some((at, position));
                }
                position -= chunk.count;
            }
        } else {
            let mut end = self.len;
            for (at, chunk) in self.chunks.iter().enumerate().rev() {
                end -= chunk.count;
                if index >= end {
                    return Some((at, index - end));
                }
            }
        }
        debug_assert!(
            index >= self.len,
            "the chunks have as many elements as the list"
        );
        None
    }

    /// Merges a chunk with its neighbours after a removal, if they fit into half a chunk, so that
    /// one more element does not split them again. Redis merges no chunks. So the last two chunks
    /// are never merged, and OBJECT ENCODING is the same as in Redis.
    fn tidy(&mut self, at: usize, limits: ListLimits) {
        if self.chunks.len() > 2 {
            self.merge(at, limits.half());
        }
        if self.chunks.len() > 2 && at > 0 {
            self.merge(at - 1, limits.half());
        }
    }

    /// Merges a chunk with its neighbours if they fit together.
    fn merge_around(&mut self, at: usize, limits: ListLimits) {
        self.merge(at, limits);
        if at > 0 {
            self.merge(at - 1, limits);
        }
    }

    /// Merges a chunk with the next one if they fit together.
    fn merge(&mut self, at: usize, limits: ListLimits) {
        if at + 1 >= self.chunks.len() {
            return;
        }
        let (one, two) = (&self.chunks[at], &self.chunks[at + 1]);
        let count = one.count + two.count;
        if limits.allow(one.run().len() + two.run().len(), count) {
            let merged = Chunk::new(&[one.run(), two.run()], count);
            self.chunks[at] = merged;
            self.chunks.remove(at + 1);
        }
    }
}

/// Returns the spans of elements equal to this one in a run, in ascending order: the first `most`
/// of them, or the last ones if `backwards`.
pub(crate) fn matches(
    run: &[u8],
    element: &Encoded<'_>,
    backwards: bool,
    most: usize,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < run.len() && (backwards || found.len() < most) {
        let end = end_of(run, at);
        if element.is_at(run, at..end) {
            found.push(at..end);
        }
        at = end;
    }
    let surplus = found.len().saturating_sub(most);
    found.drain(..surplus);
    found
}

/// Returns the run without these ascending parts.
pub(crate) fn without(run: &[u8], parts: &[Range<usize>]) -> Vec<u8> {
    let removed: usize = parts.iter().map(Range::len).sum();
    let mut left = Vec::with_capacity(run.len() - removed);
    let mut at = 0;
    for part in parts {
        debug_assert!(at <= part.start, "the parts ascend");
        left.extend_from_slice(&run[at..part.start]);
        at = part.end;
    }
    left.extend_from_slice(&run[at..]);
    left
}

/// A number of elements in one allocation.
#[derive(Clone)]
struct Chunk {
    bytes: Box<[u8]>,
    /// Start and end of the run; the remaining bytes are spare room.
    start: usize,
    end: usize,
    count: usize,
}

impl Chunk {
    /// Creates a chunk without spare room.
    fn new(parts: &[&[u8]], count: usize) -> Self {
        let bytes = parts.concat().into_boxed_slice();
        debug_assert_eq!(
            count == 0,
            bytes.is_empty(),
            "an element has two bytes at least"
        );
        Chunk {
            start: 0,
            end: bytes.len(),
            bytes,
            count,
        }
    }

    /// Creates a chunk of one element at an end of the list, with spare room towards that end. A
    /// larger neighbour means more room, because the new chunk will probably become as large.
    fn beside(neighbour: Option<&mut Chunk>, element: &Encoded<'_>, before: bool) -> Self {
        let mut chunk = Chunk::new(&element.parts(), 1);
        let capacity = neighbour.map_or(0, |chunk| chunk.bytes.len() / BEGINNING);
        if capacity >= CHUNK_BYTES_MIN && chunk.end < capacity {
            let room = capacity - chunk.end;
            chunk.resize(capacity, if before { room } else { 0 });
        }
        chunk
    }

    #[inline]
    fn push_front(&mut self, element: &Encoded<'_>) {
        let Some(start) = self.start.checked_sub(element.len()) else {
            return self.splice(0..0, 0, Some(element));
        };
        element.write(&mut self.bytes[start..self.start]);
        self.start = start;
        self.count += 1;
    }

    #[inline]
    fn push_back(&mut self, element: &Encoded<'_>) {
        let end = self.end + element.len();
        if end > self.bytes.len() {
            let length = self.run().len();
            return self.splice(length..length, 0, Some(element));
        }
        element.write(&mut self.bytes[self.end..end]);
        self.end = end;
        self.count += 1;
    }

    fn run(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn fits(&self, element: &Encoded<'_>, limits: ListLimits) -> bool {
        limits.allow(self.run().len() + element.len(), self.count + 1)
    }

    /// Removes elements by position.
    fn remove(&mut self, position: usize, count: usize) {
        debug_assert!(count > 0 && position + count <= self.count);
        let first = nth_span(self.run(), self.count, position);
        let last = nth_span(self.run(), self.count, position + count - 1);
        self.splice(first.start..last.end, count, None);
    }

    /// Splits the run at a place and returns the second part, unless one part would be empty.
    fn split(&mut self, at: usize) -> Option<Chunk> {
        let run = self.run();
        if at == 0 || at == run.len() {
            return None;
        }
        let (mut kept, mut place) = (0, 0);
        while place < at {
            place = end_of(run, place);
            kept += 1;
        }
        debug_assert_eq!(place, at, "it is split between two elements");
        let split = Chunk::new(&[&run[at..]], self.count - kept);
        *self = Chunk::new(&[&run[..at]], kept);
        Some(split)
    }

    /// Replaces a part of the run that contains `count` elements. Moves the shorter side if
    /// possible.
    fn splice(&mut self, part: Range<usize>, count: usize, added: Option<&Encoded<'_>>) {
        let length = self.run().len();
        let size = added.map_or(0, Encoded::len);
        debug_assert!(part.end <= length && count <= self.count);
        let (before, after) = (part.start, length - part.end);
        let longer = size.saturating_sub(part.len());
        let head_moves = self.start >= longer;
        let tail_moves = self.bytes.len() - self.end >= longer;
        if !head_moves && !tail_moves {
            self.grow(length + longer, before < after);
            return self.splice(part, count, added);
        }
        let (start, end) = (self.start, self.end);
        let at = if head_moves && (before < after || !tail_moves) {
            self.start = start + part.len() - size;
            self.bytes.copy_within(start..start + before, self.start);
            self.start + before
        } else {
            self.end = end + size - part.len();
            self.bytes.copy_within(end - after..end, self.end - after);
            start + before
        };
        if let Some(added) = added {
            added.write(&mut self.bytes[at..at + size]);
        }
        self.count = self.count + usize::from(added.is_some()) - count;
        debug_assert_eq!(self.count == 0, self.run().is_empty());
        if self.bytes.len() > CHUNK_BYTES_MIN && self.run().len() < self.bytes.len() / 4 {
            self.resize(self.run().len() * 2, 0);
        }
    }

    /// Makes room for a run of `needed` bytes plus a third, before or after it.
    fn grow(&mut self, needed: usize, before: bool) {
        let mut capacity = (needed + needed / 3).max(CHUNK_BYTES_MIN);
        if needed <= CHUNK_BYTES {
            capacity = capacity.min(CHUNK_BYTES);
        }
        debug_assert!(capacity >= needed);
        let room = capacity - self.run().len();
        self.resize(capacity, if before { room } else { 0 });
    }

    fn resize(&mut self, capacity: usize, start: usize) {
        let run = self.run();
        let end = start + run.len();
        // A chunk is full after about eight of these steps, so each byte is copied a few times.
        let mut bytes = Vec::with_capacity(capacity.max(end));
        bytes.resize(start, 0);
        bytes.extend_from_slice(run);
        bytes.resize(capacity.max(end), 0);
        (self.bytes, self.start, self.end) = (bytes.into_boxed_slice(), start, end);
        debug_assert!(self.start <= self.end && self.end <= self.bytes.len());
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} elements in {} bytes",
            self.count,
            self.run().len()
        )
    }
}

/// Size of a Redis listpack without elements; the limits include it.
const LISTPACK_OVERHEAD: usize = 7;
/// A chunk grows to this size in steps, so that a full one wastes little.
const CHUNK_BYTES: usize = 8 << 10;
const CHUNK_BYTES_MIN: usize = 64;
/// A new chunk starts with this fraction of its neighbour's size.
const BEGINNING: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::Elements;

    fn texts(list: &Quicklist) -> Vec<String> {
        (0..list.chunks())
            .flat_map(|chunk| Elements::new(list.run(chunk)))
            .map(|text| String::from_utf8(text.as_bytes().to_vec()).expect("text"))
            .collect()
    }

    fn check(list: &Quicklist, model: &VecDeque<String>, limits: ListLimits) {
        assert_eq!(list.len(), model.len());
        assert_eq!(texts(list), Vec::from(model.clone()));
        for chunk in &list.chunks {
            assert_eq!(chunk.count, Elements::new(chunk.run()).count());
            assert!(chunk.count == 1 || limits.allow(chunk.run().len(), chunk.count));
            assert!(chunk.count > 0 && chunk.start <= chunk.end && chunk.end <= chunk.bytes.len());
        }
    }

    #[test]
    fn a_quicklist_behaves_like_a_deque() {
        for (seed, limits) in [
            (
                1u64,
                ListLimits {
                    bytes_max: 64,
                    count_max: usize::MAX,
                },
            ),
            (
                2,
                ListLimits {
                    bytes_max: 8192,
                    count_max: 4,
                },
            ),
            (
                3,
                ListLimits {
                    bytes_max: 300,
                    count_max: 100,
                },
            ),
        ] {
            let (mut list, mut model) = (Quicklist::default(), VecDeque::new());
            let mut word = seed;
            let mut below = move |bound: usize| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 33) as usize % bound
            };
            for step in 0..6000 {
                let text = match below(8) {
                    0 => "long".repeat(below(60)),
                    1 => below(100_000).to_string(),
                    _ => ["a", "bb", "7", "ccc", ""][below(5)].to_owned(),
                };
                let element = Encoded::new(text.as_bytes());
                let index = below(model.len().max(1));
                // The list grows for a while, then shrinks.
                let operation = if step % 1000 < 600 {
                    below(6)
                } else {
                    below(14)
                };
                match (operation, list.locate(index)) {
                    (0 | 1, _) => {
                        list.push_front(&element, limits);
                        model.push_front(text);
                    }
                    (2 | 3, _) => {
                        list.push_back(&element, limits);
                        model.push_back(text);
                    }
                    (4, Some(spot)) => {
                        let behind = below(2);
                        list.insert(&spot, behind == 1, &element, limits);
                        model.insert(index + behind, text);
                    }
                    (5 | 6, Some(spot)) => {
                        let run = list.run(spot.chunk);
                        let found = crate::elements::read(run, spot.span.start);
                        assert_eq!(found.as_bytes(), model[index].as_bytes());
                        list.replace(&spot, &element, limits);
                        model[index] = text;
                    }
                    (7 | 8, Some(_)) => {
                        let count = below(12).clamp(1, model.len() - index);
                        list.remove_range(index, count, limits);
                        model.drain(index..index + count);
                    }
                    (9, _) => {
                        let (backwards, most) = (below(2) == 1, below(4) + 1);
                        let found: Vec<_> =
                            (0..model.len()).filter(|&at| model[at] == text).collect();
                        let surplus = found.len().saturating_sub(most);
                        let found = match backwards {
                            true => &found[surplus..],
                            false => &found[..found.len() - surplus],
                        };
                        assert_eq!(
                            list.remove_equal(&element, backwards, most, limits),
                            found.len()
                        );
                        found.iter().rev().for_each(|&at| drop(model.remove(at)));
                    }
                    (10.., Some(_)) => {
                        let end = [0, model.len() - 1][below(2)];
                        list.remove_range(end, 1, limits);
                        model.remove(end);
                    }
                    _ => {}
                }
                if step % 5 == 0 {
                    check(&list, &model, limits);
                }
            }
            list.remove_range(0, list.len(), limits);
            assert_eq!((list.len(), list.chunks()), (0, 0));
        }
    }

    #[test]
    fn a_queue_of_about_one_chunk_rarely_moves_its_elements() {
        let limits = ListLimits {
            bytes_max: 8192,
            count_max: usize::MAX,
        };
        let element = Encoded::new(b"an element");
        let mut list = Quicklist::default();
        let mut merged = 0;
        for _ in 0..700 {
            list.push_back(&element, limits);
        }
        for _ in 0..10_000 {
            list.push_back(&element, limits);
            let chunks = list.chunks();
            list.remove_range(0, 1, limits);
            // The first chunk is used up about every 680 elements.
            merged += usize::from(list.chunks() < chunks);
        }
        assert!(merged < 20, "{merged}");
    }

    #[test]
    fn chunks_are_filled_from_both_ends() {
        let limits = ListLimits {
            bytes_max: 8192,
            count_max: usize::MAX,
        };
        for front in [true, false] {
            let mut list = Quicklist::default();
            for number in 0..10_000 {
                let text = format!("element{number:03}");
                let element = Encoded::new(text.as_bytes());
                match front {
                    true => list.push_front(&element, limits),
                    false => list.push_back(&element, limits),
                }
            }
            let bytes: usize = list.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
            assert!(
                list.chunks() <= 16 && bytes < 131_000,
                "{} chunks, {bytes} bytes",
                list.chunks()
            );
        }
    }
}
