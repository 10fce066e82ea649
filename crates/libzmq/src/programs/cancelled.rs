//! Threads that are cancelled.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]

use super::{bind, is_asleep, set};
use crate::context::{zmq_ctx_new, zmq_ctx_term};
use crate::message::{RawMessage, zmq_msg_init};
use crate::poll::{RawItem, zmq_poll};
use crate::poller::{
    RawEvent, zmq_poller_add, zmq_poller_destroy, zmq_poller_new, zmq_poller_wait,
};
use crate::proxy::zmq_proxy;
use crate::socket::{zmq_close, zmq_connect, zmq_socket};
use crate::thread::zmq_sleep;
use crate::transfer::{zmq_msg_recv, zmq_recv, zmq_send};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const PULL: c_int = 7;
const PUSH: c_int = 8;
const RCVTIMEO: c_int = 27;
const LINGER: c_int = 17;
/// Bytes that no frame is longer than.
const ROOM: usize = 8;

/// What a thread does: nothing in its frames is to be dropped.
type Call = unsafe extern "C-unwind" fn(&Sockets);

/// What it does it with.
struct Sockets {
    context: *mut c_void,
    pull: *mut c_void,
    push: *mut c_void,
    poller: *mut c_void,
    pipe: [c_int; 2],
}

struct Work {
    call: Call,
    sockets: Sockets,
    /// Its number, when it runs.
    thread: AtomicI32,
    has_returned: AtomicBool,
}

// SAFETY: the argument is a `Work`.
unsafe extern "C-unwind" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: as above. It outlives the thread.
    unsafe {
        let work = &*work.cast::<Work>();
        work.thread.store(libc::gettid(), Ordering::SeqCst);
        (work.call)(&work.sockets);
        work.has_returned.store(true, Ordering::SeqCst);
    }
    null_mut()
}

unsafe extern "C-unwind" fn receive(with: &Sockets) {
    let mut room = [0_u8; ROOM];
    // SAFETY: a socket and room.
    unsafe { zmq_recv(with.pull, room.as_mut_ptr().cast(), ROOM, 0) };
}

unsafe extern "C-unwind" fn receive_message(with: &Sockets) {
    let mut message = MaybeUninit::<RawMessage>::uninit();
    // SAFETY: a socket and room.
    unsafe {
        zmq_msg_init(message.as_mut_ptr());
        zmq_msg_recv(message.as_mut_ptr(), with.pull, 0);
    }
}

unsafe extern "C-unwind" fn send(with: &Sockets) {
    // SAFETY: a socket, and bytes. Without a peer it waits for one.
    unsafe { zmq_send(with.push, c"news".as_ptr().cast(), 4, 0) };
}

unsafe extern "C-unwind" fn poll_both(with: &Sockets) {
    let mut items = [
        RawItem::readable(with.pull),
        RawItem::of_descriptor(with.pipe[0]),
    ];
    // SAFETY: a socket, and a descriptor that is open.
    unsafe { zmq_poll(items.as_mut_ptr(), 2, -1) };
}

unsafe extern "C-unwind" fn poll_poller(with: &Sockets) {
    let mut event = MaybeUninit::<RawEvent>::uninit();
    // SAFETY: a poller, and room for an event.
    unsafe { zmq_poller_wait(with.poller, event.as_mut_ptr(), -1) };
}

unsafe extern "C-unwind" fn pass_on(with: &Sockets) {
    // SAFETY: sockets.
    unsafe { zmq_proxy(with.pull, with.push, null_mut()) };
}

unsafe extern "C-unwind" fn end_context(with: &Sockets) {
    // SAFETY: a context, whose sockets are open.
    unsafe { zmq_ctx_term(with.context) };
}

unsafe extern "C-unwind" fn sleep(_: &Sockets) {
    zmq_sleep(3_600);
}

/// A request waits until the program calls what acts on it.
unsafe extern "C-unwind" fn close_while_requested(with: &Sockets) {
    // SAFETY: a socket, and this thread.
    unsafe {
        libc::pthread_cancel(libc::pthread_self());
        zmq_close(with.push);
        close_another(with.context);
    }
}

/// # Safety
///
/// It is a context.
unsafe fn close_another(context: *mut c_void) {
    // SAFETY: handles of this library, and NUL-terminated strings.
    unsafe {
        for endpoint in [
            c"tcp://127.0.0.1:*",
            c"ipc://*",
            c"shm://*",
            c"ws://127.0.0.1:*",
        ] {
            let [one, other] = [PULL, PUSH].map(|kind| zmq_socket(context, kind));
            set(other, LINGER, 0);
            let place = bind(one, endpoint);
            zmq_connect(other, place.as_ptr().cast());
            zmq_send(other, c"news".as_ptr().cast(), 4, 0);
            zmq_close(one);
            zmq_close(other);
        }
    }
}

/// Makes sockets that are connected, or the second of which has no peer.
///
/// # Safety
///
/// `endpoint` is a NUL-terminated string.
unsafe fn open(endpoint: &CStr, connects: bool) -> Sockets {
    // SAFETY: handles of this library, and NUL-terminated strings.
    unsafe {
        let context = zmq_ctx_new();
        let [pull, push] = [PULL, PUSH].map(|kind| zmq_socket(context, kind));
        let place = bind(pull, endpoint);
        set(push, LINGER, 0);
        set(pull, RCVTIMEO, 60_000);
        if connects {
            assert_eq!(zmq_connect(push, place.as_ptr().cast()), 0);
            carry(push, pull);
        }
        let poller = zmq_poller_new();
        assert_eq!(zmq_poller_add(poller, pull, null_mut(), 1), 0);
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        Sockets {
            context,
            pull,
            push,
            poller,
            pipe,
        }
    }
}

/// # Safety
///
/// They are sockets that are connected.
unsafe fn carry(push: *mut c_void, pull: *mut c_void) {
    let mut room = [0_u8; ROOM];
    // SAFETY: sockets, and room.
    unsafe {
        assert_eq!(zmq_send(push, c"news".as_ptr().cast(), 4, 0), 4);
        assert_eq!(zmq_recv(pull, room.as_mut_ptr().cast(), ROOM, 0), 4);
    }
}

/// Has a thread do something, and cancels it. Returns whether it was cancelled.
fn cancel(call: Call, sockets: Sockets, waits_for_events: bool) -> (bool, Work) {
    let work = Work {
        call,
        sockets,
        thread: AtomicI32::new(0),
        has_returned: AtomicBool::new(false),
    };
    let mut thread = 0;
    let mut result = null_mut();
    // SAFETY: a function for C's threads, which differs in what may be unwound; `work` outlives the
    // thread.
    unsafe {
        let run: extern "C" fn(*mut c_void) -> *mut c_void =
            std::mem::transmute(run as *const c_void);
        let argument = (&raw const work).cast_mut().cast();
        let failed = libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument);
        assert_eq!(failed, 0);
        let waits = || {
            let number = work.thread.load(Ordering::SeqCst);
            number != 0 && is_asleep(&format!("self/task/{number}")) != Some(false)
        };
        while waits_for_events && !waits() {
            std::thread::yield_now();
        }
        libc::pthread_cancel(thread);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    (result as isize == CANCELED, work)
}

/// # Safety
///
/// The sockets are open, or the second one closed.
unsafe fn close(mut sockets: Sockets) {
    // SAFETY: handles of this library, and descriptors of this test.
    unsafe {
        sockets.pipe.into_iter().for_each(|end| {
            libc::close(end);
        });
        assert_eq!(zmq_poller_destroy(&raw mut sockets.poller), 0);
        zmq_close(sockets.push);
        assert_eq!(zmq_close(sockets.pull), 0);
        assert_eq!(zmq_ctx_term(sockets.context), 0);
    }
}

/// `PTHREAD_CANCELED`.
const CANCELED: isize = -1;

/// `zmq_poll` aborted the process, and in `zmq_recv` and `zmq_send` the thread waited on.
#[test]
fn a_thread_that_waited_could_not_be_cancelled() {
    let calls: [(Call, bool); 6] = [
        (receive, true),
        (receive_message, true),
        (poll_both, true),
        (poll_poller, true),
        (pass_on, true),
        (send, false),
    ];
    for endpoint in [c"tcp://127.0.0.1:*", c"shm://*", c"inproc://cancelled"] {
        for (number, (call, connects)) in calls.into_iter().enumerate() {
            // SAFETY: an endpoint, and sockets that no other thread uses.
            unsafe {
                let sockets = open(endpoint, connects);
                let (is_cancelled, work) = cancel(call, sockets, true);
                assert!(is_cancelled, "{endpoint:?}, call {number}");
                if connects {
                    // The socket is as it was.
                    carry(work.sockets.push, work.sockets.pull);
                }
                close(work.sockets);
            }
        }
    }
}

#[test]
fn a_thread_that_ends_a_context_or_sleeps_is_cancelled() {
    for call in [end_context as Call, sleep] {
        // SAFETY: an endpoint, and sockets that no other thread uses.
        unsafe {
            let (is_cancelled, work) = cancel(call, open(c"tcp://127.0.0.1:*", true), false);
            assert!(is_cancelled);
            close(work.sockets);
        }
    }
}

/// The C library cancels a thread in `close`: the process aborted.
#[test]
fn a_call_that_closes_descriptors_is_not_cancelled_in_between() {
    // SAFETY: an endpoint, and sockets that no other thread uses.
    unsafe {
        let sockets = open(c"tcp://127.0.0.1:*", true);
        let (_, work) = cancel(close_while_requested, sockets, false);
        assert!(work.has_returned.load(Ordering::SeqCst));
        close(work.sockets);
    }
}
