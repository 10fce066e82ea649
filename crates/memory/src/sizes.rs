//! The allocated size of a block, and which blocks come from spans.
//!
//! ```text
//!  bytes asked for    1 … 64      65 … 128     129 … 256     257 … 512 Ki      more
//!  in steps of          8             8            16       four a doubling   4 KiB
//!  from              mimalloc       spans        spans        mimalloc       mimalloc
//! ```
//!
//! Beyond 64 bytes, mimalloc has four sizes per doubling: 80, 96, 112, 128, 160 and so on.

use std::alloc::Layout;

/// Number of block sizes in spans.
pub(crate) const CLASSES: usize = FINE_CLASSES + COARSE_CLASSES;

/// Returns the allocated size of a block of `size` bytes with an alignment of at most 8.
#[inline]
pub fn block_bytes(size: usize) -> usize {
    let step = match size {
        0..=8 => return 8,
        9..=64 => BLOCK_STEP,
        65..=128 => FINE_STEP,
        129..=256 => COARSE_STEP,
        257..=LARGE_BYTES_MIN => 1 << ((size - 1).ilog2() - 2),
        _ => PAGE_BYTES,
    };
    size.checked_next_multiple_of(step).unwrap_or(size)
}

/// Step between the sizes of small blocks: 8 with the workspace's build flags, otherwise 16.
pub const BLOCK_STEP: usize = if cfg!(fine_blocks) { 8 } else { 16 };

/// Returns the class of blocks with this layout; `None` if mimalloc serves them.
#[inline]
pub(crate) fn class_of(layout: Layout) -> Option<usize> {
    let beyond = layout.size().wrapping_sub(SPANS_BYTES_MIN);
    if beyond >= SPANS_BYTES_MAX + 1 - SPANS_BYTES_MIN || layout.align() > ALIGN_LEAST {
        return None;
    }
    Some(if beyond < FINE_CLASSES * FINE_STEP {
        beyond / FINE_STEP
    } else {
        FINE_CLASSES - FINE_CLASSES * FINE_STEP / COARSE_STEP + beyond / COARSE_STEP
    })
}

/// Returns the bytes of each block of a class.
pub(crate) const fn class_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        SPANS_BYTES_MIN - 1 + (class + 1) * FINE_STEP
    } else {
        FINE_BYTES_MAX + (class + 1 - FINE_CLASSES) * COARSE_STEP
    }
}

/// The minimum alignment of every block.
pub(crate) const ALIGN_LEAST: usize = 8;

const SPANS_BYTES_MIN: usize = 65;
const FINE_STEP: usize = 8;
const FINE_BYTES_MAX: usize = 128;
const FINE_CLASSES: usize = (FINE_BYTES_MAX + 1 - SPANS_BYTES_MIN) / FINE_STEP;
const COARSE_STEP: usize = 16;
const SPANS_BYTES_MAX: usize = 256;
const COARSE_CLASSES: usize = (SPANS_BYTES_MAX - FINE_BYTES_MAX) / COARSE_STEP;
const PAGE_BYTES: usize = 4096;
/// Larger blocks are rounded up to pages.
const LARGE_BYTES_MIN: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn class(size: usize, align: usize) -> Option<usize> {
        class_of(Layout::from_size_align(size, align).expect("a layout"))
    }

    #[test]
    fn a_block_counts_with_its_allocated_size() {
        for size in (1..5_000).chain([10_000, 65_537, 100_000, 131_073, usize::MAX]) {
            let real = match class(size.min(1 << 40), 8) {
                Some(class) => class_bytes(class),
                // SAFETY: it only computes with the number.
                None => unsafe { libmimalloc_sys::mi_good_size(size) },
            };
            assert_eq!(block_bytes(size), real, "of {size} bytes");
        }
    }

    #[test]
    fn blocks_of_65_to_256_bytes_have_classes_in_order() {
        assert_eq!((class(64, 8), class(257, 8)), (None, None));
        assert_eq!((class(65, 1), class(256, 8)), (Some(0), Some(CLASSES - 1)));
        assert_eq!((class(96, 16), class(128, 64)), (None, None));
        for size in 65..=256 {
            let class = class(size, 8).expect("a class");
            assert!(class_bytes(class) >= size);
            assert!(class == 0 || class_bytes(class - 1) < size);
        }
    }
}
