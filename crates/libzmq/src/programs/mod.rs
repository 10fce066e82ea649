//! What programs do around the library's calls, and what the tests of that share.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

mod cancelled;
mod ending;
mod signals;
mod stack;
mod stopped;

use crate::context::{zmq_ctx_new, zmq_ctx_term};
use crate::poll::{RawItem, zmq_poll};
use crate::socket::{
    zmq_bind, zmq_close, zmq_connect, zmq_disconnect, zmq_getsockopt, zmq_setsockopt, zmq_socket,
    zmq_unbind,
};
use crate::transfer::{zmq_recv, zmq_send};
use std::ffi::{CStr, c_char, c_int, c_void};

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

/// Returns whether a thread sleeps in a call that waits for descriptors; `None`: the system does
/// not tell. `thread` is its place under `/proc`, or that of a process for its main thread.
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

/// The life of two sockets. Returns the step that failed; 0: none.
pub(crate) fn live(endpoint: &CStr) -> c_int {
    // SAFETY: handles of this library, and places of the sizes said.
    unsafe {
        let context = zmq_ctx_new();
        let [router, dealer] = [ROUTER, DEALER].map(|kind| zmq_socket(context, kind));
        let place = bind(router, endpoint);
        let place: *const c_char = place.as_ptr().cast();
        if zmq_connect(dealer, place) != 0 || zmq_send(dealer, c"hi".as_ptr().cast(), 2, 0) != 2 {
            return 1;
        }
        let mut item = RawItem::readable(router);
        if zmq_poll(&raw mut item, 1, -1) != 1 {
            return 2;
        }
        let mut name = [0_u8; 8];
        let length = zmq_recv(router, name.as_mut_ptr().cast(), 8, 0);
        let mut body = [0_u8; 8];
        if length != 5 || zmq_recv(router, body.as_mut_ptr().cast(), 8, 0) != 2 {
            return 3;
        }
        if zmq_disconnect(dealer, place) != 0 || zmq_unbind(router, place) != 0 {
            return 4;
        }
        if zmq_close(dealer) != 0 || zmq_close(router) != 0 {
            return 5;
        }
        if zmq_ctx_term(context) != 0 { 6 } else { 0 }
    }
}

const DEALER: c_int = 5;
const ROUTER: c_int = 6;
const LAST_ENDPOINT: c_int = 32;
