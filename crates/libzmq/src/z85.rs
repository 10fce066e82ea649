//! Z85, and CURVE keys, which are written in it.

use crate::errno::{EFAULT, EINVAL, ENOSYS, Errno, guard, status};
use crate::text;
use std::ffi::{c_char, c_int, c_void};
use tidewire_zmtp::curve::{Keypair, SecretKey, public_from_secret};
use tidewire_zmtp::z85;

/// `zmq_z85_encode`: returns null if the size is not a multiple of 4.
///
/// # Safety
///
/// `data` points to `size` bytes; `to` has room for five characters per four bytes, and a NUL.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_z85_encode(
    to: *mut c_char,
    data: *const u8,
    size: usize,
) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        if !size.is_multiple_of(4) {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller guarantees that `size` bytes are there.
        let bytes = unsafe { text::bytes(data.cast(), size) }?;
        let text = z85::encode(bytes).map_err(|_| Errno(EINVAL))?;
        // SAFETY: the caller guarantees the room.
        unsafe { write(to, &text) }?;
        Ok(to)
    })
}

/// `zmq_z85_decode`: returns null for invalid Z85.
///
/// # Safety
///
/// `from` is null or a NUL-terminated string; `to` has room for four bytes for each five characters
/// of it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_z85_decode(to: *mut u8, from: *const c_char) -> *mut u8 {
    guard(std::ptr::null_mut(), || {
        // SAFETY: it is null or a NUL-terminated string.
        let text = unsafe { text::text(from) }?;
        if text.is_empty() {
            return Err(Errno(EINVAL));
        }
        let bytes = z85::decode(text).map_err(|_| Errno(EINVAL))?;
        // SAFETY: the caller guarantees the room.
        unsafe { text::room(to.cast::<c_void>(), bytes.len()) }?.copy_from_slice(&bytes);
        Ok(to)
    })
}

/// `zmq_curve_keypair`.
///
/// # Safety
///
/// Both have room for 41 characters.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_curve_keypair(
    public_key: *mut c_char,
    secret_key: *mut c_char,
) -> c_int {
    status(|| {
        let pair = Keypair::generate().map_err(|_| Errno(ENOSYS))?;
        // SAFETY: the caller guarantees the room.
        unsafe { write_key(public_key, &pair.public) }?;
        // SAFETY: the caller keeps this function's contract.
        unsafe { write_key(secret_key, pair.secret.as_bytes()) }
    })
}

/// `zmq_curve_public`.
///
/// # Safety
///
/// `secret_key` is null or a NUL-terminated string; `public_key` has room for 41 characters.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_curve_public(
    public_key: *mut c_char,
    secret_key: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: it is null or a NUL-terminated string.
        let secret = unsafe { text::text(secret_key) }?;
        let secret = z85::decode_key(secret).map_err(|_| Errno(EINVAL))?;
        let public = public_from_secret(&SecretKey::new(secret));
        // SAFETY: the caller guarantees the room.
        unsafe { write_key(public_key, &public) }
    })
}

/// # Safety
///
/// `to` is null or has room for 41 characters.
unsafe fn write_key(to: *mut c_char, key: &[u8; 32]) -> Result<(), Errno> {
    let text = z85::encode(key).map_err(|_| Errno(EINVAL))?;
    // SAFETY: the caller guarantees the room.
    unsafe { write(to, &text) }
}

/// Writes a string and a NUL.
///
/// # Safety
///
/// `to` is null or has room for both.
unsafe fn write(to: *mut c_char, text: &str) -> Result<(), Errno> {
    if to.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller guarantees the room.
    let room = unsafe { text::room(to.cast(), text.len() + 1) }?;
    let (characters, end) = room.split_at_mut(text.len());
    characters.copy_from_slice(text.as_bytes());
    end.fill(0);
    Ok(())
}

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_comes_of_its_secret() {
        let (mut public, mut secret, mut again) = ([1; 41], [1; 41], [1; 41]);
        // SAFETY: room for keys; what was written is NUL-terminated.
        unsafe {
            assert_eq!(
                zmq_curve_keypair(public.as_mut_ptr(), secret.as_mut_ptr()),
                0
            );
            assert_eq!(zmq_curve_public(again.as_mut_ptr(), secret.as_ptr()), 0);
            assert_eq!(public, again);
            let mut bytes = [0; 32];
            assert!(!zmq_z85_decode(bytes.as_mut_ptr(), public.as_ptr()).is_null());
            let written = zmq_z85_encode(again.as_mut_ptr(), bytes.as_ptr(), 32);
            assert_eq!(written, again.as_mut_ptr());
            assert_eq!(public, again);
            assert!(zmq_z85_encode(again.as_mut_ptr(), bytes.as_ptr(), 31).is_null());
            assert!(zmq_z85_decode(bytes.as_mut_ptr(), c"".as_ptr()).is_null());
            assert_eq!(zmq_curve_public(again.as_mut_ptr(), c"00000".as_ptr()), -1);
        }
    }
}
