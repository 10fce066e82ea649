//! Signals that the program handles.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

use crate::context::{zmq_ctx_new, zmq_ctx_term};
use crate::errno::{EINTR, zmq_errno};
use crate::socket::{zmq_close, zmq_socket};
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A handle that a thread of a test is given.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: any thread may use a handle.
unsafe impl Send for Handle {}

impl Handle {
    fn get(self) -> *mut c_void {
        self.0
    }
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Handles SIGUSR1. The kernel goes on with calls that it can restart.
fn handle_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler: extern "C" fn(c_int) = count;
        // SAFETY: a zeroed `sigaction` is one without flags and with an empty mask.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Ctrl-C in a program whose `ctx.term()` waits for LINGER did not end it.
#[test]
fn the_end_of_a_context_was_not_interrupted_by_a_signal() {
    handle_signal();
    // SAFETY: handles of this library.
    unsafe {
        let context = zmq_ctx_new();
        let socket = zmq_socket(context, PUSH);
        let (ended, thread) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        let handle = Handle(context);
        let result = std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                thread.store(libc::pthread_self() as usize, Ordering::SeqCst);
                let result = (zmq_ctx_term(handle.get()), zmq_errno());
                ended.store(true, Ordering::SeqCst);
                // It is there for the signals until it is known that it has ended.
                while ended.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                result
            });
            while !ended.load(Ordering::SeqCst) {
                let known = thread.load(Ordering::SeqCst);
                if known != 0 {
                    libc::pthread_kill(known as libc::pthread_t, libc::SIGUSR1);
                }
                std::thread::yield_now();
            }
            ended.store(false, Ordering::SeqCst);
            waiter.join().unwrap()
        });
        assert_eq!(result, (-1, EINTR));
        assert!(HANDLED.load(Ordering::SeqCst) > 0);
        // As libzmq has it, the context can be ended again.
        assert_eq!(zmq_close(socket), 0);
        assert_eq!(zmq_ctx_term(context), 0);
    }
}

const PUSH: c_int = 8;
