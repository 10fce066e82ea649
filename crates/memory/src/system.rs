//! The source of spans: mimalloc.
//!
//! Miri cannot run C code. It knows the C library's allocator, which replaces mimalloc under Miri,
//! so that Miri can check the accesses inside of spans.

#[cfg(not(miri))]
pub(crate) use libmimalloc_sys::{mi_free as free, mi_malloc as allocate};

#[cfg(not(miri))]
pub(crate) use libmimalloc_sys::mi_malloc_aligned as allocate_aligned;

#[cfg(miri)]
pub(crate) use libc::{free, malloc as allocate};

/// # Safety
/// The alignment is a power of two and divides the size.
#[cfg(miri)]
pub(crate) unsafe fn allocate_aligned(bytes: usize, align: usize) -> *mut std::ffi::c_void {
    // SAFETY: the caller guarantees it (see the function's contract).
    unsafe { libc::aligned_alloc(align, bytes) }
}
