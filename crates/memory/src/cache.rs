//! Free blocks per thread, so that allocating and freeing touch no memory of other threads.
//!
//! Each class has two batches: one that blocks are taken from and returned to, and a spare one,
//! which is either full or absent. A thread that alternately allocates and frees moves between the
//! two. It accesses the [spans](crate::spans) only once per batch. When a thread ends, it returns
//! all its blocks. Later allocations during its shutdown bypass the cache.

// Reading or changing a list takes several adjacent operations that share one safety argument.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::cell::Cell;
use std::ptr::null_mut;

use crate::sizes::CLASSES;
use crate::spans::{self, Free};

/// Allocates a block of this class; returns null if memory is exhausted.
#[inline]
pub(crate) fn allocate(class: usize) -> *mut u8 {
    CACHE.with(|cache| {
        let blocks = &cache.classes[class];
        let block = blocks.first.get();
        if block.is_null() {
            return cache.refill(class);
        }
        // SAFETY: the list's blocks are free and belong to this thread.
        unsafe { blocks.first.set((*block).next) };
        blocks.count.set(blocks.count.get() - 1);
        block.cast()
    })
}

/// Frees a block, which any thread may have allocated.
///
/// # Safety
/// The caller passes a block of this class from [`allocate`] that is no longer in use.
#[inline]
pub(crate) unsafe fn free(class: usize, block: *mut u8) {
    CACHE.with(|cache| {
        let block: *mut Free = block.cast();
        let blocks = &cache.classes[class];
        let count = blocks.count.get();
        if count >= blocks.most.get() {
            // SAFETY: the caller guarantees it (see the function's contract).
            return unsafe { cache.overflow(class, block) };
        }
        // SAFETY: the block is free, large enough for a link, and now belongs to this thread.
        unsafe { (*block).next = blocks.first.get() };
        blocks.first.set(block);
        blocks.count.set(count + 1);
    });
}

/// Returns all cached blocks of the calling thread to the spans.
pub(crate) fn empty() {
    CACHE.with(Cache::empty);
}

struct Cache {
    classes: [Blocks; CLASSES],
    state: Cell<State>,
}

/// The free blocks of a class.
struct Blocks {
    first: Cell<*mut Free>,
    count: Cell<usize>,
    /// The maximum of `count`: [`BATCH`], or 0 if nothing may be cached.
    most: Cell<usize>,
    /// A list of [`BATCH`] blocks, or null.
    spare: Cell<*mut Free>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The thread has not allocated yet.
    New,
    /// Blocks may be cached; they are returned when the thread ends.
    Cached,
    /// Nothing may be cached: the thread is ending, or is just registering its exit handler.
    Uncached,
}

impl Blocks {
    const fn new() -> Self {
        Blocks {
            first: Cell::new(null_mut()),
            count: Cell::new(0),
            most: Cell::new(0),
            spare: Cell::new(null_mut()),
        }
    }
}

impl Cache {
    const fn new() -> Self {
        Cache {
            classes: [const { Blocks::new() }; CLASSES],
            state: Cell::new(State::New),
        }
    }

    /// Allocates a block of a class whose list is empty.
    #[cold]
    fn refill(&self, class: usize) -> *mut u8 {
        if !self.keeps() {
            return spans::take(class, 1).first.cast();
        }
        let blocks = &self.classes[class];
        let spare = blocks.spare.replace(null_mut());
        let (first, count) = if spare.is_null() {
            let batch = spans::take(class, BATCH);
            (batch.first, batch.count)
        } else {
            (spare, BATCH)
        };
        if !first.is_null() {
            // SAFETY: the blocks are free and belong to this thread.
            blocks.first.set(unsafe { (*first).next });
            blocks.count.set(count - 1);
        }
        first.cast()
    }

    /// Frees a block of a class whose list is full.
    ///
    /// # Safety
    /// The contract of [`free`].
    #[cold]
    unsafe fn overflow(&self, class: usize, block: *mut Free) {
        if !self.keeps() {
            // SAFETY: the caller guarantees it (see the function's contract).
            return unsafe { spans::give(class, block, 1) };
        }
        let blocks = &self.classes[class];
        let mut next = blocks.first.get();
        if blocks.count.get() == BATCH {
            let spare = blocks.spare.replace(next);
            if !spare.is_null() {
                // SAFETY: a spare list has exactly [`BATCH`] blocks of this class, all free.
                unsafe { spans::give(class, spare, BATCH) };
            }
            next = null_mut();
            blocks.count.set(0);
        }
        // SAFETY: the block is free and belongs to this thread.
        unsafe { (*block).next = next };
        blocks.first.set(block);
        blocks.count.set(blocks.count.get() + 1);
    }

    /// Returns whether blocks may be cached. Registers the thread's exit handler at its first
    /// allocation.
    fn keeps(&self) -> bool {
        if self.state.get() == State::New {
            // The registration may allocate.
            self.state.set(State::Uncached);
            if END.try_with(|_| ()).is_ok() {
                self.state.set(State::Cached);
                for blocks in &self.classes {
                    blocks.most.set(BATCH);
                }
            }
        }
        self.state.get() == State::Cached
    }

    fn empty(&self) {
        for (class, blocks) in self.classes.iter().enumerate() {
            let spare = blocks.spare.replace(null_mut());
            if !spare.is_null() {
                // SAFETY: a spare list has exactly [`BATCH`] blocks of this class, all free.
                unsafe { spans::give(class, spare, BATCH) };
            }
            let (first, count) = (blocks.first.replace(null_mut()), blocks.count.replace(0));
            if count > 0 {
                // SAFETY: the list has `count` blocks, all free.
                unsafe { spans::give(class, first, count) };
            }
        }
    }
}

/// Returns the thread's blocks when it ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        CACHE.with(|cache| {
            cache.state.set(State::Uncached);
            for blocks in &cache.classes {
                blocks.most.set(0);
            }
            cache.empty();
        });
    }
}

thread_local! {
    /// It needs no drop, so it exists until the very end of the thread.
    static CACHE: Cache = const { Cache::new() };
    static END: End = const { End };
}

/// Number of blocks that move together.
const BATCH: usize = 32;
