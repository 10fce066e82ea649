//! Texts and buffers of the caller.

use crate::errno::{EFAULT, EINVAL, Errno};
use std::ffi::{CStr, c_char, c_void};

/// The text at `text`; null and bytes that are no UTF-8 give `EINVAL`.
///
/// # Safety
///
/// `text` is null, or a C string that stays as it is while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Errno> {
    // SAFETY: the same.
    let octets = unsafe { octets(text) }?;
    std::str::from_utf8(octets).map_err(|_| Errno(EINVAL))
}

/// The bytes of the text at `text`, in any encoding; null gives `EINVAL`.
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

/// The bytes at `data`. Null is allowed where there are none.
///
/// # Safety
///
/// If `size` is not 0, `size` bytes are at `data`, and stay as they are while the result lives.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, size: usize) -> Result<&'a [u8], Errno> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() || size > SIZE_MAX {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller guarantees `size` bytes; the size is one that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), size) })
}

/// The room at `data`. Null is allowed where there is none.
///
/// # Safety
///
/// If `size` is not 0, there is room for `size` bytes at `data`, and no other code uses it while
/// the result lives.
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

/// Has `write` fill the room at `value`, and stores the number of bytes that it gives at `size`. A
/// null `size` gives `EFAULT`.
///
/// # Safety
///
/// `size` is null or points to a size; at `value` is room for `*size` bytes.
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

/// The greatest slice there may be.
const SIZE_MAX: usize = isize::MAX as usize;
