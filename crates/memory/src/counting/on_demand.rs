//! Counts allocations on demand in a program with another allocator.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wrapper of another allocator that counts calls during [`tally_of`]. Otherwise, a call costs
/// only one additional relaxed load.
#[derive(Debug)]
pub struct OnDemand<A>(pub A);

/// Memory operations of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of allocated blocks; resizing a block counts as an allocation.
    pub allocations: u64,
    /// Number of freed blocks; resizing a block counts as freeing it.
    pub deallocations: u64,
    /// Bytes of the allocated blocks.
    pub bytes: u64,
}

/// Returns this thread's memory operations during `work`, if the program's allocator is an
/// [`OnDemand`].
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
    // A thread that ends may allocate after its counters are gone.
    let _ = TALLY.try_with(|tally| {
        let old = tally.get();
        tally.set(Tally {
            allocations: old.allocations + allocations,
            deallocations: old.deallocations + deallocations,
            bytes: old.bytes + bytes as u64,
        });
    });
}

// SAFETY: every call is forwarded to the other allocator unchanged; counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for OnDemand<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, 1, 0);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, 1, size);
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { self.0.realloc(block, layout, size) }
    }
}
