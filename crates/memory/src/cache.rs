//! Free blocks per thread: allocating and freeing touch no memory of other threads.
//!
//! For each class there are two batches: the one blocks come from and go to, and a spare one, which
//! is whole or not there. Who frees and allocates by turns moves between the two, and goes to the
//! [spans](crate::spans) only once in a batch. A thread that ends gives back what it has; what it
//! allocates and frees from then on, while the rest of it ends, it takes and gives block by block.

// A list is read and written by several adjacent operations that one argument makes sound.
#![allow(clippy::multiple_unsafe_ops_per_block)]

use std::cell::Cell;
use std::ptr::null_mut;

use crate::sizes::CLASSES;
use crate::spans::{self, Free};

/// A block of this class; null if memory is out.
#[inline]
pub(crate) fn allocate(class: usize) -> *mut u8 {
    CACHE.with(|cache| {
        let blocks = &cache.classes[class];
        let block = blocks.first.get();
        if block.is_null() {
            return cache.refill(class);
        }
        // SAFETY: the list's blocks are free, and this thread's alone.
        unsafe { blocks.first.set((*block).next) };
        blocks.count.set(blocks.count.get() - 1);
        block.cast()
    })
}

/// Takes a block back, whichever thread allocated it.
///
/// # Safety
/// It is a block of this class from [`allocate`], which nobody uses any more.
#[inline]
pub(crate) unsafe fn free(class: usize, block: *mut u8) {
    CACHE.with(|cache| {
        let block: *mut Free = block.cast();
        let blocks = &cache.classes[class];
        let count = blocks.count.get();
        if count >= blocks.most.get() {
            // SAFETY: the caller's word.
            return unsafe { cache.overflow(class, block) };
        }
        // SAFETY: the block is free, large enough for a link, and now this thread's.
        unsafe { (*block).next = blocks.first.get() };
        blocks.first.set(block);
        blocks.count.set(count + 1);
    });
}

/// Gives back all that the calling thread has.
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
    /// As many blocks as `count` may be: [`BATCH`], or 0 where nothing may be kept.
    most: Cell<usize>,
    /// A list of [`BATCH`] blocks, or null.
    spare: Cell<*mut Free>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The thread has not allocated yet.
    New,
    /// Blocks may be kept: what the thread has when it ends is given back then.
    Kept,
    /// Nothing may be kept: the thread ends, or is about to say what is to happen when it does.
    Passing,
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

    /// A block of a class that has none in its list.
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
            // SAFETY: the blocks are free, and this thread's alone.
            blocks.first.set(unsafe { (*first).next });
            blocks.count.set(count - 1);
        }
        first.cast()
    }

    /// Takes a block of a class that has as many as it may have.
    ///
    /// # Safety
    /// As of [`free`].
    #[cold]
    unsafe fn overflow(&self, class: usize, block: *mut Free) {
        if !self.keeps() {
            // SAFETY: the caller's word.
            return unsafe { spans::give(class, block, 1) };
        }
        let blocks = &self.classes[class];
        let mut next = blocks.first.get();
        if blocks.count.get() == BATCH {
            let spare = blocks.spare.replace(next);
            if !spare.is_null() {
                // SAFETY: a spare list has so many blocks of this class, all free.
                unsafe { spans::give(class, spare, BATCH) };
            }
            next = null_mut();
            blocks.count.set(0);
        }
        // SAFETY: the block is free, and this thread's alone.
        unsafe { (*block).next = next };
        blocks.first.set(block);
        blocks.count.set(blocks.count.get() + 1);
    }

    /// Whether blocks may be kept; asks for the thread's end to be told when it first allocates.
    fn keeps(&self) -> bool {
        if self.state.get() == State::New {
            // To ask may allocate.
            self.state.set(State::Passing);
            if END.try_with(|_| ()).is_ok() {
                self.state.set(State::Kept);
                for blocks in &self.classes {
                    blocks.most.set(BATCH);
                }
            }
        }
        self.state.get() == State::Kept
    }

    fn empty(&self) {
        for (class, blocks) in self.classes.iter().enumerate() {
            let spare = blocks.spare.replace(null_mut());
            if !spare.is_null() {
                // SAFETY: a spare list has so many blocks of this class, all free.
                unsafe { spans::give(class, spare, BATCH) };
            }
            let (first, count) = (blocks.first.replace(null_mut()), blocks.count.replace(0));
            if count > 0 {
                // SAFETY: so many blocks are in the list, all free.
                unsafe { spans::give(class, first, count) };
            }
        }
    }
}

/// Gives back what the thread has when it ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        CACHE.with(|cache| {
            cache.state.set(State::Passing);
            for blocks in &cache.classes {
                blocks.most.set(0);
            }
            cache.empty();
        });
    }
}

thread_local! {
    /// Needs no drop, so that it is there until the thread's very end.
    static CACHE: Cache = const { Cache::new() };
    static END: End = const { End };
}

/// Blocks that move at once.
const BATCH: usize = 32;
