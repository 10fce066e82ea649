//! Error numbers: the calling thread's `errno`, the texts, and the handling of panics.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidewire_readiness::Uncancelled;
use tidewire_zmq::Error;

pub(crate) const EINTR: c_int = 4;
pub(crate) const EBADF: c_int = 9;
pub(crate) const EAGAIN: c_int = 11;
pub(crate) const ENOMEM: c_int = 12;
pub(crate) const EFAULT: c_int = 14;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const ENOSYS: c_int = 38;
pub(crate) const ENOTSOCK: c_int = 88;
pub(crate) const ENOTRECOVERABLE: c_int = 131;
/// A call must sleep, and has left that to its caller.
pub(crate) const ERESTART: c_int = 85;

/// An error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl From<Error> for Errno {
    #[inline]
    fn from(error: Error) -> Self {
        Self(error.errno())
    }
}

/// Runs the body of a C function, in which the thread is not cancelled. An error sets `errno` and
/// returns `failed`.
#[inline]
pub(crate) fn guard<R: Copy>(failed: R, work: impl FnOnce() -> Result<R, Errno>) -> R {
    let _uncancelled = Uncancelled::new();
    guard_short(failed, work)
}

/// Works like [`guard`], for functions that are called so often that the library itself has to see
/// to it that the thread is not cancelled: it is where a descriptor is closed.
#[inline]
pub(crate) fn guard_short<R: Copy>(failed: R, work: impl FnOnce() -> Result<R, Errno>) -> R {
    // State that a panic leaves incomplete is behind the library's own locks, which handle panics.
    let result = catch_unwind(AssertUnwindSafe(work));
    match result {
        Ok(Ok(value)) => value,
        Ok(Err(Errno(number))) => {
            set(number);
            failed
        }
        Err(_) => {
            set(ENOTRECOVERABLE);
            failed
        }
    }
}

/// Works like [`guard`], for functions that return 0 or -1.
#[inline]
pub(crate) fn status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    guard(-1, || work().map(|()| 0))
}

/// Works like [`guard_short`], for functions that return 0 or -1.
#[inline]
pub(crate) fn status_short(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    guard_short(-1, || work().map(|()| 0))
}

pub(crate) fn set(number: c_int) {
    // SAFETY: the C library's location of the thread's own `errno` is valid as long as the thread.
    let place = unsafe { __errno_location() };
    // SAFETY: see above: the location is valid.
    unsafe { place.write(number) }
}

pub(crate) fn get() -> c_int {
    // SAFETY: as in `set`.
    let place = unsafe { __errno_location() };
    // SAFETY: see above: the location is valid.
    unsafe { place.read() }
}

/// `zmq_errno`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_errno() -> c_int {
    get()
}

/// `zmq_strerror`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_strerror(number: c_int) -> *const c_char {
    let own = OWN_TEXTS.iter().find(|(known, _)| *known == number);
    match own {
        Some((_, text)) => text.as_ptr(),
        // SAFETY: it accepts any number. As in libzmq, its text is valid until the next call.
        None => unsafe { strerror(number) },
    }
}

/// Texts that the C library lacks, and one that libzmq words differently.
const OWN_TEXTS: [(c_int, &CStr); 5] = [
    (
        Error::FIRST_OWN + 51,
        c"Operation cannot be accomplished in current state",
    ),
    (
        Error::FIRST_OWN + 52,
        c"The protocol is not compatible with the socket type",
    ),
    (Error::FIRST_OWN + 53, c"Context was terminated"),
    (Error::FIRST_OWN + 54, c"No thread available"),
    (113, c"Host unreachable"),
];

// SAFETY: signatures as in `errno.h` and `string.h`.
unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    fn strerror(number: c_int) -> *mut c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_number_and_in_words() {
        assert_eq!(status(|| Err(Errno(EINVAL))), -1);
        assert_eq!(zmq_errno(), EINVAL);
        assert_eq!(guard(0, || Ok(7)), 7);
        assert_eq!(zmq_errno(), EINVAL);
        let text = |number| {
            // SAFETY: it returns a text.
            let text = unsafe { CStr::from_ptr(zmq_strerror(number)) };
            text.to_str().unwrap().to_owned()
        };
        assert_eq!(text(Error::Terminated.errno()), "Context was terminated");
        assert_eq!(text(EINVAL), "Invalid argument");
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(status(|| panic!("as a test")), -1);
        assert_eq!(zmq_errno(), ENOTRECOVERABLE);
    }
}
