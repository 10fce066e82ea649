//! Strings and buffers of the caller.

use crate::errno::{EFAULT, EINVAL, ENOMEM, Errno};
use std::ffi::{CStr, c_char, c_void};

/// Returns the string at `text`. Null and invalid UTF-8 give `EINVAL`.
///
/// # Safety
///
/// `text` is null, or a NUL-terminated string that does not change while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Errno> {
    // SAFETY: the caller keeps this function's contract.
    let octets = unsafe { octets(text) }?;
    std::str::from_utf8(octets).map_err(|_| Errno(EINVAL))
}

/// Returns the bytes of the string at `text`, in any encoding. Null gives `EINVAL`.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn octets<'a>(text: *const c_char) -> Result<&'a [u8], Errno> {
    if text.is_null() {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the caller passes a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(text.to_bytes())
}

/// Returns the bytes at `data`. Null is allowed for size 0.
///
/// # Safety
///
/// If `size` is not 0, `data` points to `size` bytes that do not change while the result lives.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, size: usize) -> Result<&'a [u8], Errno> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Errno(EFAULT));
    }
    if size > SIZE_MAX {
        return Err(Errno(ENOMEM));
    }
    // SAFETY: the caller guarantees `size` bytes; the size is one that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), size) })
}

/// Returns the buffer at `data`. Null is allowed for size 0.
///
/// # Safety
///
/// If `size` is not 0, `data` has room for `size` bytes that no other code uses while the result
/// lives.
#[inline]
pub(crate) unsafe fn room<'a>(data: *mut c_void, size: usize) -> Result<&'a mut [u8], Errno> {
    if size == 0 {
        return Ok(&mut []);
    }
    if data.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller guarantees the room, and bytes may hold anything. A size above that of a
    // slice means "large enough", so it is cut.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), size.min(SIZE_MAX)) })
}

/// Lets `write` fill the buffer at `value`, and stores the number of bytes that it returns at
/// `size`. A null `size` gives `EFAULT`.
///
/// # Safety
///
/// `size` is null or points to a size; `value` has room for `*size` bytes.
pub(crate) unsafe fn fill(
    value: *mut c_void,
    size: *mut usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    if size.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller guarantees that it points to a size.
    let size = unsafe { &mut *size };
    // SAFETY: the caller guarantees room for `*size` bytes.
    let room = unsafe { room(value, *size) }?;
    *size = write(room)?;
    Ok(())
}

/// Maximum size of a slice.
const SIZE_MAX: usize = isize::MAX as usize;
