//! A program that forks while it has sockets open: the child gets errors, and the parent continues.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

use crate::context::{zmq_ctx_new, zmq_ctx_term};
use crate::errno::zmq_errno;
use crate::socket::{zmq_bind, zmq_close, zmq_connect, zmq_getsockopt, zmq_setsockopt, zmq_socket};
use crate::transfer::{zmq_recv, zmq_send};
use std::ffi::{c_int, c_void};

#[test]
fn a_child_gets_errors_and_its_parent_goes_on() {
    // SAFETY: handles of this library, NUL-terminated strings, and places of the sizes said.
    unsafe {
        let context = zmq_ctx_new();
        let pull = zmq_socket(context, PULL);
        assert_eq!(zmq_bind(pull, c"tcp://127.0.0.1:*".as_ptr()), 0);
        let mut place = [0_u8; 64];
        let mut length = place.len();
        let out = place.as_mut_ptr().cast();
        assert_eq!(zmq_getsockopt(pull, LAST_ENDPOINT, out, &raw mut length), 0);
        let push = zmq_socket(context, PUSH);
        assert_eq!(zmq_connect(push, place.as_ptr().cast()), 0);
        let patience_ms: c_int = 10_000;
        let patience = (&raw const patience_ms).cast();
        assert_eq!(zmq_setsockopt(pull, RCVTIMEO, patience, 4), 0);
        carry(push, pull, b"before");

        let child = libc::fork();
        if child == 0 {
            libc::_exit(in_child(context, [push, pull], place.as_ptr().cast()));
        }
        // The child's messages come over a connection of its own.
        let mut got = [0_u8; 16];
        let room = got.as_mut_ptr().cast();
        assert_eq!(zmq_recv(pull, room, got.len(), 0), 5);
        assert_eq!(&got[..5], b"child");
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(libc::WEXITSTATUS(status), 0, "the step at which it failed");
        for _ in 0..100 {
            carry(push, pull, b"after");
        }
        assert_eq!((zmq_close(push), zmq_close(pull)), (0, 0));
        assert_eq!(zmq_ctx_term(context), 0);
    }
}

/// # Safety
///
/// Both are sockets.
unsafe fn carry(push: *mut c_void, pull: *mut c_void, bytes: &[u8]) {
    let mut got = [0_u8; 16];
    // SAFETY: the caller passes sockets and places of these sizes.
    unsafe {
        let sent = zmq_send(push, bytes.as_ptr().cast(), bytes.len(), 0);
        assert_eq!(sent, bytes.len() as c_int);
        let received = zmq_recv(pull, got.as_mut_ptr().cast(), got.len(), 0);
        assert_eq!(received, sent);
    }
    assert_eq!(&got[..bytes.len()], bytes);
}

/// Runs the child's part. Returns 0 on success.
///
/// # Safety
///
/// The arguments are a context, its sockets, and a NUL-terminated string.
unsafe fn in_child(
    context: *mut c_void,
    sockets: [*mut c_void; 2],
    place: *const std::ffi::c_char,
) -> c_int {
    let mut got = [0_u8; 16];
    // SAFETY: as in the test.
    unsafe {
        let [push, pull] = sockets;
        if zmq_send(push, c"stolen".as_ptr().cast(), 6, 0) != -1 || zmq_errno() != ETERM {
            return 1;
        }
        if zmq_recv(pull, got.as_mut_ptr().cast(), got.len(), 0) != -1 || zmq_errno() != ETERM {
            return 2;
        }
        if !zmq_socket(context, PUSH).is_null() || zmq_errno() != ETERM {
            return 3;
        }
        // Sockets of the parent are still open; the child does not wait for them.
        if zmq_close(push) != 0 || zmq_ctx_term(context) != 0 {
            return 4;
        }
        let own = zmq_ctx_new();
        let push = zmq_socket(own, PUSH);
        if zmq_connect(push, place) != 0 || zmq_send(push, c"child".as_ptr().cast(), 5, 0) != 5 {
            return 5;
        }
        if zmq_close(push) != 0 || zmq_ctx_term(own) != 0 {
            return 6;
        }
    }
    0
}

const PULL: c_int = 7;
const PUSH: c_int = 8;
const RCVTIMEO: c_int = 27;
const LAST_ENDPOINT: c_int = 32;
const ETERM: c_int = 156_384_765;
