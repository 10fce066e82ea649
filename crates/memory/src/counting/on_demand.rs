//! Counts in a program that has an allocator of its own, while somebody asks for them.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Another allocator, whose calls are counted during [`tally_of`]. At all other times a call costs
/// one relaxed load more than it would without.
#[derive(Debug)]
pub struct OnDemand<A>(pub A);

/// What a thread did with memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks taken; a block whose size changes counts as taken again.
    pub allocations: u64,
    /// Blocks given back; a block whose size changes counts as given back.
    pub deallocations: u64,
    /// Bytes of the blocks taken.
    pub bytes: u64,
}

/// What this thread does with memory during `work`, if the program's allocator is an [`OnDemand`].
pub fn tally_of(work: impl FnOnce()) -> Tally {
    let before = TALLY.get();
    COUNTING.store(true, Ordering::Relaxed);
    work();
    COUNTING.store(false, Ordering::Relaxed);
    let after = TALLY.get();
    Tally {
        allocations: after.allocations - before.allocations,
        deallocations: after.deallocations - before.deallocations,
        bytes: after.bytes - before.bytes,
    }
}

const NOTHING: Tally = Tally {
    allocations: 0,
    deallocations: 0,
    bytes: 0,
};

static COUNTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(NOTHING) };
}

#[inline]
fn note(allocations: u64, deallocations: u64, bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        count(allocations, deallocations, bytes);
    }
}

#[cold]
fn count(allocations: u64, deallocations: u64, bytes: usize) {
    // A thread that ends may allocate after its counts are gone.
    let _ = TALLY.try_with(|tally| {
        let old = tally.get();
        tally.set(Tally {
            allocations: old.allocations + allocations,
            deallocations: old.deallocations + deallocations,
            bytes: old.bytes + bytes as u64,
        });
    });
}

// SAFETY: every call goes to the other allocator unchanged; counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for OnDemand<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, 1, 0);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, 1, size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { self.0.realloc(block, layout, size) }
    }
}
