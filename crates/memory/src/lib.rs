//! The program's allocator: mimalloc with an exact count of allocated bytes.
//!
//! Each thread counts in its own cache line with plain loads and stores, so counting costs about
//! one nanosecond per allocation. Reading the sum reads one line per thread. A block counts with
//! the allocator's rounding.
//!
//! Blocks of 65 to 256 bytes do not come directly from mimalloc, which would round them up by 8
//! bytes on average. An entry of a short key and value is such a block. They come from [`spans`] of
//! mimalloc's memory, through a [`cache`] per thread.
//!
//! [`counting`] is for tests and benchmarks: it counts a thread's calls and bytes, around the
//! system's allocator or around this one.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tidewire_memory::Allocator = tidewire_memory::Allocator;
//!
//! let before = tidewire_memory::used_bytes();
//! let block = vec![0u8; 100_000];
//! assert!(tidewire_memory::used_bytes() - before >= 100_000);
//! drop(block);
//! assert_eq!(tidewire_memory::used_bytes(), before);
//! ```

#![allow(unsafe_code, reason = "an allocator has no other form")]

pub mod counting;

mod pages;
pub use pages::HugePages;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;

mod cache;
mod sizes;
mod spans;
mod system;

use sizes::{ALIGN_LEAST, class_of};
pub use sizes::{BLOCK_STEP, block_bytes};

/// mimalloc with a byte count.
#[derive(Debug)]
pub struct Allocator;

/// Returns the bytes that the process has allocated and not freed, over all threads; 0 if
/// [`Allocator`] is not the program's allocator. Reads one cache line per thread.
#[inline]
pub fn used_bytes() -> u64 {
    let threads = THREADS.load(Ordering::Relaxed).min(COUNTERS.len());
    let sum: i64 = COUNTERS[..threads]
        .iter()
        .map(|counter| counter.0.load(Ordering::Relaxed))
        .sum();
    sum.max(0) as u64
}

/// Returns the calling thread's unused memory to the system, as far as possible.
pub fn purge() {
    cache::empty();
    // SAFETY: `mi_collect` may be called at any time, from any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Returns the allocator's own report, for people to read.
pub fn report() -> String {
    let mut text = String::new();
    // SAFETY: the function is only called during this call, with the pointer to `text`.
    unsafe {
        libmimalloc_sys::mi_stats_print_out(Some(append), (&raw mut text).cast());
    }
    spans::report(&mut text);
    text
}

/// Returns the number of spans with blocks of 65 to 256 bytes, over all threads.
pub fn spans() -> usize {
    spans::count()
}

/// # Safety
/// `message` ends with a zero byte, and `to` points to a `String` that is not otherwise in use.
unsafe extern "C" fn append(message: *const c_char, to: *mut c_void) {
    // SAFETY: the allocator passes a text that ends with a zero byte.
    let message = unsafe { CStr::from_ptr(message) };
    // SAFETY: `report` passed a pointer to its own text, which is not otherwise in use now.
    let text = unsafe { &mut *to.cast::<String>() };
    text.push_str(&message.to_string_lossy());
}

/// A counter on its own pair of cache lines.
#[repr(align(128))]
struct Counter(AtomicI64);

thread_local! {
    /// The number of the thread's counter, from 1; 0 before the thread's first allocation.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

static COUNTERS: [Counter; COUNTERS_MAX] = [const { Counter(AtomicI64::new(0)) }; COUNTERS_MAX];
/// Number of threads with a counter.
static THREADS: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn note(bytes: i64) {
    let mine = MINE.get();
    if mine == 0 || mine >= COUNTERS_MAX {
        return note_elsewhere(bytes);
    }
    // No other thread writes it.
    let counter = &COUNTERS[mine - 1].0;
    counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

/// Counts a thread's first allocation, and those of threads beyond the number of counters, which
/// share the last one.
#[cold]
fn note_elsewhere(bytes: i64) {
    if MINE.get() == 0 {
        MINE.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
    }
    let index = MINE.get().min(COUNTERS_MAX) - 1;
    COUNTERS[index].0.fetch_add(bytes, Ordering::Relaxed);
}

fn counted(size: usize) -> i64 {
    block_bytes(size) as i64
}

// SAFETY: a block of a class comes from a span and returns there; every other call is forwarded to
// mimalloc unchanged. The layout, which callers must repeat, determines which case applies.
// Counting allocates nothing.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if let Some(class) = class_of(layout) {
            cache::allocate(class)
        } else if layout.align() <= ALIGN_LEAST {
            // SAFETY: `mi_malloc` may be called with any size, and every block has this alignment.
            unsafe { libmimalloc_sys::mi_malloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller upholds the contract of `alloc`.
            unsafe { MiMalloc.alloc(layout) }
        };
        if !block.is_null() {
            note(counted(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if class_of(layout).is_some() {
            // SAFETY: the caller upholds the contract of `alloc_zeroed`.
            let block = unsafe { self.alloc(layout) };
            if !block.is_null() {
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        let block = unsafe { MiMalloc.alloc_zeroed(layout) };
        if !block.is_null() {
            note(counted(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(-counted(layout.size()));
        if let Some(class) = class_of(layout) {
            // SAFETY: a block with this layout belongs to the class.
            return unsafe { cache::free(class, block) };
        }
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is valid for a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class_of(layout), class_of(wanted)) {
            (None, None) => {}
            (old, new) if old == new => return block,
            // SAFETY: the caller upholds the contract of `realloc`.
            _ => return unsafe { self.move_to(wanted, block, layout) },
        }
        // SAFETY: the caller upholds the contract of `realloc`.
        let moved = unsafe { MiMalloc.realloc(block, layout, size) };
        if !moved.is_null() {
            note(counted(size) - counted(layout.size()));
        }
        moved
    }
}

impl Allocator {
    /// Moves a block's contents to a new block of another size.
    ///
    /// # Safety
    /// The contract of `realloc`.
    unsafe fn move_to(&self, wanted: Layout, block: *mut u8, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is not zero.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            let kept = layout.size().min(wanted.size());
            // SAFETY: both blocks have at least `kept` bytes and do not overlap.
            unsafe { moved.copy_from_nonoverlapping(block, kept) };
            // SAFETY: the caller no longer uses the old block.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

/// Number of threads with their own counter; the last one is shared by all others.
const COUNTERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beyond_the_counters_are_counted_together() {
        let counted = || {
            note(1_000);
            MINE.get()
        };
        let before = used_bytes();
        let numbers: Vec<usize> = (0..100)
            .map(|_| std::thread::spawn(counted).join().expect("counted"))
            .collect();
        assert!(numbers.iter().any(|&number| number > COUNTERS_MAX));
        assert_eq!(used_bytes() - before, 100_000);
    }
}
