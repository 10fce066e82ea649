//! What programs do around the library's calls, and what the tests of that share.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

mod stopped;

use crate::socket::{zmq_bind, zmq_getsockopt, zmq_setsockopt};
use std::ffi::{CStr, c_int, c_void};

/// # Safety
///
/// `socket` is a socket's handle.
pub(crate) unsafe fn set(socket: *mut c_void, option: c_int, value: c_int) {
    // SAFETY: the option is an int.
    let done = unsafe { zmq_setsockopt(socket, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0);
}

/// Binds, and returns the endpoint with a zero at its end.
///
/// # Safety
///
/// `socket` is a socket's handle.
pub(crate) unsafe fn bind(socket: *mut c_void, endpoint: &CStr) -> Vec<u8> {
    let mut place = vec![0_u8; 256];
    let mut length = place.len();
    // SAFETY: the place has room for so many bytes.
    unsafe {
        assert_eq!(zmq_bind(socket, endpoint.as_ptr()), 0);
        let out = place.as_mut_ptr().cast();
        let told = zmq_getsockopt(socket, LAST_ENDPOINT, out, &raw mut length);
        assert_eq!(told, 0);
    }
    place.truncate(length);
    place
}

/// Returns whether a thread sleeps in a call that waits for descriptors; `None`: the system does not
/// tell. `thread` is its place under `/proc`, or that of a process for its main thread.
pub(crate) fn is_asleep(thread: &str) -> Option<bool> {
    let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let number = call.split(' ').next()?.parse().unwrap_or(-1);
    let waits = [
        libc::SYS_ppoll,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ];
    Some(waits.contains(&number))
}

const LAST_ENDPOINT: c_int = 32;
