//! A process that is stopped and continued.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

use super::{bind, is_asleep, set};
use crate::context::{zmq_ctx_new, zmq_ctx_term};
use crate::errno::zmq_errno;
use crate::socket::{zmq_close, zmq_connect, zmq_socket};
use crate::transfer::{zmq_recv, zmq_send};
use std::ffi::{CStr, c_int};

/// Stops a process that waits, and continues it.
fn stop_and_continue(process: c_int) {
    while is_asleep(&process.to_string()) == Some(false) {
        std::thread::yield_now();
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    unsafe {
        libc::kill(process, libc::SIGSTOP);
        let stopped = libc::waitpid(process, &raw mut status, libc::WUNTRACED);
        assert!(stopped == process && libc::WIFSTOPPED(status));
        libc::kill(process, libc::SIGCONT);
        let goes_on = libc::waitpid(process, &raw mut status, libc::WCONTINUED);
        assert!(goes_on == process && libc::WIFCONTINUED(status), "it ended");
    }
}

/// Runs in the child: tells its endpoint, and waits for a peer. Returns 0, or the error's number.
///
/// # Safety
///
/// `tells` is a descriptor to write to.
unsafe fn wait_for_peer(endpoint: &CStr, receives: bool, timeout_ms: c_int, tells: c_int) -> c_int {
    // SAFETY: handles of this process, and places of the sizes said.
    unsafe {
        let context = zmq_ctx_new();
        let socket = zmq_socket(context, if receives { PULL } else { PUSH });
        set(socket, RCVTIMEO, timeout_ms);
        let place = bind(socket, endpoint);
        libc::write(tells, place.as_ptr().cast(), place.len());
        let mut bytes = *b"news";
        let done = match receives {
            true => zmq_recv(socket, bytes.as_mut_ptr().cast(), 4, 0),
            false => zmq_send(socket, bytes.as_ptr().cast(), 4, 0),
        };
        let number = zmq_errno();
        let (closed, ended) = (zmq_close(socket), zmq_ctx_term(context));
        match (done, closed, ended) {
            (4, 0, 0) => 0,
            (4, ..) => 1,
            _ => number,
        }
    }
}

/// Ctrl-Z and `fg`, or a debugger: `epoll_wait` ends with EINTR though no handler runs, and so did
/// the calls.
#[test]
fn a_call_that_waited_ended_when_its_process_was_stopped_and_continued() {
    for endpoint in [c"tcp://127.0.0.1:*", c"ipc://*", c"ws://127.0.0.1:*"] {
        for (receives, timeout_ms) in [(true, -1), (true, 60_000), (false, -1)] {
            let mut pipe = [0; 2];
            // SAFETY: the child uses what it makes itself; the parent waits for its end.
            unsafe {
                assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(wait_for_peer(endpoint, receives, timeout_ms, pipe[1]));
                }
                let mut place = [0_u8; 256];
                assert!(libc::read(pipe[0], place.as_mut_ptr().cast(), 256) > 0);
                stop_and_continue(child);
                let context = zmq_ctx_new();
                let peer = zmq_socket(context, if receives { PUSH } else { PULL });
                assert_eq!(zmq_connect(peer, place.as_ptr().cast()), 0);
                let mut bytes = *b"news";
                match receives {
                    true => zmq_send(peer, bytes.as_ptr().cast(), 4, 0),
                    false => zmq_recv(peer, bytes.as_mut_ptr().cast(), 4, 0),
                };
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                let failed = (status != 0).then(|| set(peer, LINGER, 0));
                assert_eq!((zmq_close(peer), zmq_ctx_term(context)), (0, 0));
                let case = (endpoint, receives, timeout_ms);
                assert!(failed.is_none(), "{case:?}: {}", libc::WEXITSTATUS(status));
                pipe.into_iter().for_each(|end| {
                    libc::close(end);
                });
            }
        }
    }
}

const PULL: c_int = 7;
const PUSH: c_int = 8;
const LINGER: c_int = 17;
const RCVTIMEO: c_int = 27;
