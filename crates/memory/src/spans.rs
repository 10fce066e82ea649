//! Spans: large blocks from mimalloc, each divided into small blocks of one size.
//!
//! ```text
//!  64 KiB, aligned to as much
//!  ┌────────┬───────┬───────┬───────┬─────────────────────┬──────┐
//!  │ header │ block │ block │   …   │ never handed out    │ rest │
//!  └────────┴───────┴───────┴───────┴─────────────────────┴──────┘
//!   40 bytes          └ free ones are linked through their first word
//! ```
//!
//! Rounding a block's address down to 64 KiB gives its span. Each size class has a shelf: a locked,
//! doubly linked list of the spans with free blocks. Threads take and return blocks in batches, so
//! that they access the lock and the span's header once for many blocks. A span without used blocks
//! returns to mimalloc at once, regardless of which threads used its blocks or whether they are
//! still running.

// Reading or changing a list takes several adjacent operations that share one safety argument.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::fmt::Write;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sizes::{ALIGN_LEAST, CLASSES, class_bytes};
use crate::system;

/// A free block: it contains only the link to the next one.
pub(crate) struct Free {
    pub(crate) next: *mut Free,
}

/// A linked list of free blocks of one class, null-terminated.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) first: *mut Free,
    pub(crate) count: usize,
}

/// Takes up to `most` free blocks of this class; none if memory is exhausted. Blocks that were
/// never used come in address order.
pub(crate) fn take(class: usize, most: usize) -> Batch {
    let bytes = class_bytes(class) as u32;
    let mut shelf = shelf(class);
    let mut batch = Batch {
        first: null_mut(),
        count: 0,
    };
    let mut end: *mut *mut Free = &raw mut batch.first;
    while batch.count < most {
        if shelf.roomy.is_null() && (batch.count > 0 || !shelf.add_span(class)) {
            break;
        }
        let span = shelf.roomy;
        // SAFETY: spans on a shelf are alive and belong to the holder of its lock. `end` is the
        // link of the batch's last block, or of the batch itself; both belong to this function.
        unsafe {
            let block = shelf.take_of(span, bytes);
            end.write(block);
            end = &raw mut (*block).next;
            if !(*span).has_room(bytes) {
                shelf.unlink(span);
            }
        }
        batch.count += 1;
    }
    // SAFETY: as above.
    unsafe { end.write(null_mut()) };
    batch
}

/// Returns the first `count` of these blocks.
///
/// # Safety
/// The caller passes blocks of this class from [`take`] that are no longer in use.
pub(crate) unsafe fn give(class: usize, mut block: *mut Free, count: usize) {
    let bytes = class_bytes(class) as u32;
    // SAFETY: the caller passes `count` blocks.
    unsafe { prefetch_spans(block, count) };
    let mut unused: *mut Span = null_mut();
    let mut shelf = shelf(class);
    for _ in 0..count {
        let span = span_of(block);
        // SAFETY: the caller passes blocks from spans of this shelf, whose lock is held.
        unsafe {
            debug_assert_eq!((*span).class, class);
            debug_assert!(
                (*span).out > 0 && shelf.out > 0,
                "a block is freed only once"
            );
            debug_assert_eq!(
                (block.addr() - span.addr() - size_of::<Span>()) % bytes as usize,
                0,
                "the pointer is the start of a block"
            );
            let next = (*block).next;
            if !(*span).has_room(bytes) {
                shelf.link(span);
            }
            (*block).next = (*span).free;
            (*span).free = block;
            (*span).out -= 1;
            if (*span).out == 0 {
                debug_assert!(shelf.spans > 0);
                shelf.unlink(span);
                shelf.spans -= 1;
                (*span).next = unused;
                unused = span;
            }
            shelf.out -= 1;
            block = next;
        }
    }
    drop(shelf);
    while !unused.is_null() {
        // SAFETY: the span is on no shelf, and none of its blocks is in use.
        unsafe {
            let next = (*unused).next;
            system::free(unused.cast());
            unused = next;
        }
    }
}

/// Prefetches the spans' headers, so that their cache misses overlap.
///
/// # Safety
/// The list has at least `count` blocks.
unsafe fn prefetch_spans(mut block: *mut Free, count: usize) {
    for _ in 0..count {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch instruction has no visible effect.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(span_of(block).cast());
        }
        // SAFETY: the caller guarantees it (see the function's contract).
        block = unsafe { (*block).next };
    }
}

/// Adds a line for each class that has spans.
pub(crate) fn report(text: &mut String) {
    for class in 0..CLASSES {
        let (spans, out) = {
            let shelf = shelf(class);
            (shelf.spans, shelf.out)
        };
        if spans > 0 {
            let bytes = class_bytes(class);
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "blocks of {bytes:>3} bytes: {out} in {spans} spans of {SPAN_BYTES} bytes"
            );
        }
    }
}

/// Returns the current number of spans of all classes.
pub(crate) fn count() -> usize {
    (0..CLASSES).map(|class| shelf(class).spans).sum()
}

#[repr(C)]
struct Span {
    /// The previous and next span while this one is on the shelf.
    next: *mut Span,
    previous: *mut Span,
    /// Freed blocks.
    free: *mut Free,
    /// Offset of the first block that was never used.
    fresh: u32,
    /// Number of blocks in use.
    out: u32,
    class: usize,
}

impl Span {
    /// Returns whether it has another block of this size.
    fn has_room(&self, bytes: u32) -> bool {
        !self.free.is_null() || self.fresh + bytes <= SPAN_BYTES as u32
    }
}

/// The spans of a class.
struct Shelf {
    /// The first span with a free block.
    roomy: *mut Span,
    spans: usize,
    /// Number of blocks in use, over all spans.
    out: usize,
}

// SAFETY: a shelf owns its spans, and the holder of its lock may use them on any thread.
unsafe impl Send for Shelf {}

impl Shelf {
    const fn new() -> Self {
        Shelf {
            roomy: null_mut(),
            spans: 0,
            out: 0,
        }
    }

    /// Allocates a span and adds it to the shelf; returns false if memory is exhausted.
    fn add_span(&mut self, class: usize) -> bool {
        let span = allocate_span();
        if span.is_null() {
            return false;
        }
        debug_assert_eq!(
            span.addr() % SPAN_BYTES,
            0,
            "a block's address tells its span"
        );
        // SAFETY: the span has the requested size, and no other code knows it yet.
        unsafe {
            span.write(Span {
                next: null_mut(),
                previous: null_mut(),
                free: null_mut(),
                fresh: size_of::<Span>() as u32,
                out: 0,
                class,
            });
            self.link(span);
        }
        self.spans += 1;
        true
    }

    /// Takes a block from a span with a free block.
    ///
    /// # Safety
    /// The span is on this shelf.
    unsafe fn take_of(&mut self, span: *mut Span, bytes: u32) -> *mut Free {
        self.out += 1;
        // SAFETY: the span is on this shelf (the caller guarantees it), so it has a freed or an
        // unused block.
        unsafe {
            (*span).out += 1;
            let block = (*span).free;
            if !block.is_null() {
                (*span).free = (*block).next;
                return block;
            }
            debug_assert!(
                (*span).has_room(bytes),
                "a span on a shelf has a free block"
            );
            let block = span.byte_add((*span).fresh as usize).cast();
            (*span).fresh += bytes;
            block
        }
    }

    /// Adds a span to the front of the shelf.
    ///
    /// # Safety
    /// The span has this class and is on no shelf.
    unsafe fn link(&mut self, span: *mut Span) {
        // SAFETY: spans on a shelf are alive.
        unsafe {
            debug_assert_ne!(span, self.roomy, "a span is on its shelf once");
            (*span).previous = null_mut();
            (*span).next = self.roomy;
            if !self.roomy.is_null() {
                (*self.roomy).previous = span;
            }
        }
        self.roomy = span;
    }

    /// Removes a span from the shelf.
    ///
    /// # Safety
    /// The span is on this shelf.
    unsafe fn unlink(&mut self, span: *mut Span) {
        // SAFETY: spans on a shelf are alive.
        unsafe {
            let (previous, next) = ((*span).previous, (*span).next);
            if previous.is_null() {
                debug_assert_eq!(self.roomy, span, "the first span has no predecessor");
                self.roomy = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }
}

fn shelf(class: usize) -> MutexGuard<'static, Shelf> {
    SHELVES[class]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn span_of(block: *mut Free) -> *mut Span {
    block.map_addr(|address| address & !(SPAN_BYTES - 1)).cast()
}

/// Allocates a span. mimalloc aligns blocks of this size to their size anyway. Requesting an
/// alignment would double the memory, so this happens only if a block is not aligned.
fn allocate_span() -> *mut Span {
    // SAFETY: it may be called with any size.
    let plain = unsafe { system::allocate(SPAN_BYTES) };
    if plain.addr() & (SPAN_BYTES - 1) == 0 {
        return plain.cast();
    }
    // SAFETY: the block was just allocated and is not used elsewhere; the alignment is a power of
    // two.
    unsafe {
        system::free(plain);
        system::allocate_aligned(SPAN_BYTES, SPAN_BYTES).cast()
    }
}

static SHELVES: [Mutex<Shelf>; CLASSES] = [const { Mutex::new(Shelf::new()) }; CLASSES];

pub(crate) const SPAN_BYTES: usize = 64 << 10;

const _: () = assert!(SPAN_BYTES.is_power_of_two() && SPAN_BYTES <= u32::MAX as usize);
const _: () = assert!(
    size_of::<Span>().is_multiple_of(ALIGN_LEAST) && align_of::<Free>() <= ALIGN_LEAST,
    "blocks after the header are aligned, and a free one has room for a link"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache;
    use std::thread;

    /// A block of a class, filled with a specific byte.
    struct Block {
        start: *mut u8,
        class: usize,
        fill: u8,
    }

    // SAFETY: a block belongs exclusively to its holder.
    unsafe impl Send for Block {}

    impl Block {
        fn new(class: usize, fill: u8) -> Self {
            let start = cache::allocate(class);
            // SAFETY: a block of the class has this size.
            unsafe { start.write_bytes(fill, class_bytes(class)) };
            Block { start, class, fill }
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: the block has this size, and all of it was written.
            let content =
                unsafe { std::slice::from_raw_parts(self.start, class_bytes(self.class)) };
            assert!(content == vec![self.fill; content.len()]);
            // SAFETY: the block is no longer in use.
            unsafe { cache::free(self.class, self.start) };
        }
    }

    /// Small enough for Miri, which checks each access; `tests/blocks.rs` has more.
    #[test]
    fn blocks_move_between_threads_and_spans_are_returned() {
        let (first, last) = (0, CLASSES - 1);
        for class in [first, last] {
            let blocks = SPAN_BYTES / class_bytes(class) + 40;
            let make = move || (0..blocks).map(move |fill| Block::new(class, fill as u8));
            let made: Vec<Block> = thread::spawn(move || make().collect())
                .join()
                .expect("made");
            assert!(shelf(class).spans >= 2);
            let (even, odd): (Vec<_>, Vec<_>) = made.into_iter().partition(|b| b.fill % 2 == 0);
            let other = thread::spawn(move || drop(even));
            drop(odd);
            other.join().expect("dropped");
            cache::empty();
            let shelf = shelf(class);
            assert_eq!((shelf.spans, shelf.out), (0, 0));
            assert!(shelf.roomy.is_null());
        }
    }
}
