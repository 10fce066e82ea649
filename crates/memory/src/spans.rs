//! Spans: large blocks of mimalloc's, each cut into small blocks of one size.
//!
//! ```text
//!  64 KiB, aligned to as much
//!  ┌────────┬───────┬───────┬───────┬─────────────────────┬──────┐
//!  │ header │ block │ block │   …   │ never handed out    │ rest │
//!  └────────┴───────┴───────┴───────┴─────────────────────┴──────┘
//!   40 bytes          └ free ones are linked through their first word
//! ```
//!
//! A block's span is where its address, rounded down to 64 KiB, points. Each class of sizes has a
//! shelf: the spans with blocks to give, in a doubly linked list, behind a lock. Threads take and
//! give batches of blocks, so that the lock and the span's header are met once for many of them.
//! A span of which no block is out goes back to mimalloc at once; who took its blocks, and whether
//! that thread still runs, makes no difference.

// A list is read and written by several adjacent operations that one argument makes sound.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::fmt::Write;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sizes::{ALIGN_LEAST, CLASSES, class_bytes};
use crate::system;

/// A free block: nothing but the link to the next.
pub(crate) struct Free {
    pub(crate) next: *mut Free,
}

/// Free blocks of one class, linked; null-terminated.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) first: *mut Free,
    pub(crate) count: usize,
}

/// Up to `most` free blocks of this class; none if memory is out. Blocks that were never handed
/// out come in the order of their addresses.
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
        // SAFETY: spans on a shelf are alive and belong to who holds its lock; `end` is the link
        // of the batch's last block, or of the batch, both of which are ours.
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

/// Takes back the first `count` of these blocks.
///
/// # Safety
/// They are blocks of this class from [`take`], which nobody uses any more.
pub(crate) unsafe fn give(class: usize, mut block: *mut Free, count: usize) {
    let bytes = class_bytes(class) as u32;
    // SAFETY: the caller gives as many blocks.
    unsafe { prefetch_spans(block, count) };
    let mut unused: *mut Span = null_mut();
    let mut shelf = shelf(class);
    for _ in 0..count {
        let span = span_of(block);
        // SAFETY: the caller gives blocks of spans of this shelf, whose lock is held.
        unsafe {
            debug_assert_eq!((*span).class, class);
            debug_assert!(
                (*span).out > 0 && shelf.out > 0,
                "a block is given back once"
            );
            debug_assert_eq!(
                (block.addr() - span.addr() - size_of::<Span>()) % bytes as usize,
                0,
                "a block begins where one was cut"
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

/// Asks the processor to fetch the spans' headers, so that the waits for them overlap.
///
/// # Safety
/// There are so many blocks.
unsafe fn prefetch_spans(mut block: *mut Free, count: usize) {
    for _ in 0..count {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching reads nothing that the program could see.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(span_of(block).cast());
        }
        // SAFETY: the caller's word.
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
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "blocks of {bytes:>3} bytes: {out} in {spans} spans of {SPAN_BYTES} bytes"
            );
        }
    }
}

/// Spans that there are now, of all classes.
pub(crate) fn count() -> usize {
    (0..CLASSES).map(|class| shelf(class).spans).sum()
}

#[repr(C)]
struct Span {
    /// Those before and behind it on the shelf, while it is there.
    next: *mut Span,
    previous: *mut Span,
    /// Blocks that were given back.
    free: *mut Free,
    /// Where the blocks begin that were never handed out, from the span's start.
    fresh: u32,
    /// Blocks that were taken and not given back.
    out: u32,
    class: usize,
}

impl Span {
    /// Whether there is a block to give, of so many bytes.
    fn has_room(&self, bytes: u32) -> bool {
        !self.free.is_null() || self.fresh + bytes <= SPAN_BYTES as u32
    }
}

/// The spans of a class.
struct Shelf {
    /// The first of those that have a block to give.
    roomy: *mut Span,
    spans: usize,
    /// Blocks out, over all spans.
    out: usize,
}

// SAFETY: a shelf owns its spans, and whoever holds its lock may use them, on any thread.
unsafe impl Send for Shelf {}

impl Shelf {
    const fn new() -> Self {
        Shelf {
            roomy: null_mut(),
            spans: 0,
            out: 0,
        }
    }

    /// Makes a span and puts it on the shelf; false if there is no memory.
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
        // SAFETY: the span is as large as asked for, and nobody else knows of it.
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

    /// Takes a block of a span that has one.
    ///
    /// # Safety
    /// The span is on this shelf.
    unsafe fn take_of(&mut self, span: *mut Span, bytes: u32) -> *mut Free {
        self.out += 1;
        // SAFETY: the caller's word; what is on a shelf has a free block or a fresh one.
        unsafe {
            (*span).out += 1;
            let block = (*span).free;
            if !block.is_null() {
                (*span).free = (*block).next;
                return block;
            }
            debug_assert!(
                (*span).has_room(bytes),
                "what is on a shelf has a block to give"
            );
            let block = span.byte_add((*span).fresh as usize).cast();
            (*span).fresh += bytes;
            block
        }
    }

    /// Puts a span first.
    ///
    /// # Safety
    /// It is one of this class, and on no shelf.
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

    /// Takes a span from the shelf.
    ///
    /// # Safety
    /// It is on this shelf.
    unsafe fn unlink(&mut self, span: *mut Span) {
        // SAFETY: spans on a shelf are alive.
        unsafe {
            let (previous, next) = ((*span).previous, (*span).next);
            if previous.is_null() {
                debug_assert_eq!(self.roomy, span, "the first has none before it");
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

/// mimalloc's blocks of this size begin at multiples of it. Were an alignment asked for as well,
/// they would take twice the bytes; so that is done only where one does not keep to it.
fn allocate_span() -> *mut Span {
    // SAFETY: it may be called with any size.
    let plain = unsafe { system::allocate(SPAN_BYTES) };
    if plain.addr() & (SPAN_BYTES - 1) == 0 {
        return plain.cast();
    }
    // SAFETY: the block was just allocated, and nobody knows of it; the alignment is a power
    // of two.
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
    "blocks behind the header are aligned, and a free one holds a link"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache;
    use std::thread;

    /// A block of a class, filled with a byte of its own.
    struct Block {
        start: *mut u8,
        class: usize,
        fill: u8,
    }

    // SAFETY: a block is its holder's alone.
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
            // SAFETY: nobody uses the block any more.
            unsafe { cache::free(self.class, self.start) };
        }
    }

    /// Small enough for Miri, which looks at each access: more is in `tests/blocks.rs`.
    #[test]
    fn blocks_pass_between_threads_and_spans_go_back() {
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
