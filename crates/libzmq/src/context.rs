//! Contexts, and the version.

use crate::cancellation;
use crate::errno::{EFAULT, EINVAL, Errno, guard, status};
use crate::handle::Pool;
use crate::text;
use std::ffi::{c_int, c_void};
use std::time::Duration;
use tidewire_zmq::{Context, outside};

/// All contexts of the process.
static CONTEXTS: Pool<Context> = Pool::new(0xabad_cafe);

/// Returns the context of a handle.
///
/// # Safety
///
/// `context` is null or a handle.
pub(crate) unsafe fn context(context: *mut c_void) -> Result<&'static Context, Errno> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { CONTEXTS.get(context) }.ok_or(Errno(EFAULT))
}

/// `zmq_version`.
///
/// # Safety
///
/// Each of the pointers is null or has room for a number.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_version(
    major: *mut c_int,
    minor: *mut c_int,
    patch: *mut c_int,
) {
    for (number, place) in VERSION.into_iter().zip([major, minor, patch]) {
        if !place.is_null() {
            // SAFETY: the caller guarantees the room.
            unsafe { place.write(number) };
        }
    }
}

/// `zmq_ctx_new`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_ctx_new() -> *mut c_void {
    guard(std::ptr::null_mut(), || Ok(open(Context::new())))
}

/// Returns a handle for a context.
fn open(context: Context) -> *mut c_void {
    // A thread is cancelled where it waits; see `cancellation`.
    outside::enable();
    CONTEXTS.open(context)
}

/// `zmq_ctx_term`.
///
/// # Safety
///
/// `handle` is null or was returned by [`zmq_ctx_new`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_ctx_term(handle: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    let failed = unsafe { zmq_ctx_shutdown(handle) };
    if failed != 0 {
        return failed;
    }
    loop {
        let result = guard(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let is_ended = unsafe { context(handle) }?.terminate_within(TERM_LOOK)?;
            if is_ended {
                // SAFETY: the caller keeps this function's contract.
                unsafe { CONTEXTS.close(handle) };
            }
            Ok(c_int::from(!is_ended))
        });
        if result != 1 {
            return result;
        }
        cancellation::test();
    }
}

/// `zmq_ctx_shutdown`.
///
/// # Safety
///
/// As for [`zmq_ctx_term`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ctx_shutdown(handle: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        unsafe { context(handle) }?.shutdown();
        Ok(())
    })
}

/// `zmq_ctx_set`.
///
/// # Safety
///
/// As for [`zmq_ctx_term`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ctx_set(
    handle: *mut c_void,
    option: c_int,
    value: c_int,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    status(|| Ok(unsafe { context(handle) }?.set(option, value)?))
}

/// `zmq_ctx_get`.
///
/// # Safety
///
/// As for [`zmq_ctx_term`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ctx_get(handle: *mut c_void, option: c_int) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    guard(-1, || Ok(unsafe { context(handle) }?.get(option)?))
}

/// `zmq_ctx_set_ext`: values with the size of an int work as with [`zmq_ctx_set`]; the prefix of
/// thread names may be a text.
///
/// # Safety
///
/// As for [`zmq_ctx_term`]; `value` points to `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ctx_set_ext(
    handle: *mut c_void,
    option: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: it is null or a handle.
        let context = unsafe { context(handle) }?;
        // SAFETY: the caller guarantees that `size` bytes are there.
        let bytes = unsafe { text::bytes(value, size) }?;
        Ok(context.set_option(option, bytes)?)
    })
}

/// `zmq_ctx_get_ext`.
///
/// # Safety
///
/// As for [`zmq_ctx_term`]; `value` has room for `*size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_ctx_get_ext(
    handle: *mut c_void,
    option: c_int,
    value: *mut c_void,
    size: *mut usize,
) -> c_int {
    status(|| {
        // SAFETY: it is null or a handle.
        let context = unsafe { context(handle) }?;
        let write = |room: &mut [u8]| Ok(context.option(option, room)?);
        // SAFETY: the caller keeps to the same contract.
        unsafe { text::fill(value, size, write) }
    })
}

/// `zmq_init`: creates a context with `io_threads` background threads.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_init(io_threads: c_int) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        if io_threads < 0 {
            return Err(Errno(EINVAL));
        }
        let context = Context::new();
        context.set(IO_THREADS, io_threads)?;
        Ok(open(context))
    })
}

/// `zmq_term`: an older name of [`zmq_ctx_term`].
///
/// # Safety
///
/// As for [`zmq_ctx_term`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_term(handle: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_ctx_term(handle) }
}

/// `zmq_ctx_destroy`: an older name of [`zmq_ctx_term`].
///
/// # Safety
///
/// As for [`zmq_ctx_term`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_ctx_destroy(handle: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_ctx_term(handle) }
}

/// Time between two looks whether the thread that ends a context is to be cancelled.
const TERM_LOOK: Duration = Duration::from_millis(500);
/// The version of the interface.
const VERSION: [c_int; 3] = [4, 3, 6];
const IO_THREADS: c_int = 1;
