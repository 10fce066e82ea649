//! Functions that send and receive.

use crate::cancellation::waits;
use crate::errno::{EINVAL, ENOMEM, Errno, guard, guard_short};
use crate::message::{LONG_BYTES_MIN, RawMessage, copied};
use crate::socket::socket;
use crate::text;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use tidewire_zmq::outside::{Inside, is_left};
use tidewire_zmq::{Error, Message, SendFlags, Socket, SocketType};

/// `zmq_send`.
///
/// # Safety
///
/// `handle` is null or a socket's; `data` points to `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_send(
    handle: *mut c_void,
    data: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    waits(|| {
        guard_short(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let socket = unsafe { socket(handle) }?;
            // SAFETY: the caller keeps this function's contract.
            let bytes = unsafe { text::bytes(data, size) }?;
            send_copy(socket, bytes, send_flags(flags))?;
            Ok(told(size))
        })
    })
}

/// Sends a copy of bytes.
#[inline]
fn send_copy(socket: &Socket, bytes: &[u8], flags: SendFlags) -> Result<(), Errno> {
    match bytes.len() {
        ..LONG_BYTES_MIN => socket.send_bytes(bytes, flags)?,
        _ => socket.send(&mut copied(bytes)?, flags)?,
    }
    Ok(())
}

/// `zmq_send_const`: sends bytes that stay valid, without a copy.
///
/// # Safety
///
/// As for [`zmq_send`], with bytes that never change and are never freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_send_const(
    handle: *mut c_void,
    data: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    waits(|| {
        guard_short(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let socket = unsafe { socket(handle) }?;
            // SAFETY: the caller keeps this function's contract.
            let bytes: &'static [u8] = unsafe { text::bytes(data, size) }?;
            socket.send(&mut Message::from_static(bytes), send_flags(flags))?;
            Ok(told(size))
        })
    })
}

/// `zmq_msg_send`: leaves the message empty; on an error it is unchanged.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_msg_send(
    message: *mut RawMessage,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { send_message(message, handle, flags) }
}

/// # Safety
///
/// As for [`zmq_msg_send`].
#[inline]
unsafe fn send_message(message: *mut RawMessage, handle: *mut c_void, flags: c_int) -> c_int {
    waits(|| {
        guard_short(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let socket = unsafe { socket(handle) }?;
            // SAFETY: the caller keeps this function's contract.
            let message = unsafe { RawMessage::get(message) }?;
            let size = message.len();
            socket.send(message, send_flags(flags))?;
            Ok(told(size))
        })
    })
}

/// `zmq_sendmsg`: an older name of [`zmq_msg_send`].
///
/// # Safety
///
/// As for [`zmq_msg_send`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_sendmsg(
    handle: *mut c_void,
    message: *mut RawMessage,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { send_message(message, handle, flags) }
}

/// `zmq_recv`: cuts off what does not fit, and returns the full length.
///
/// # Safety
///
/// `handle` is null or a socket's; `data` has room for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_recv(
    handle: *mut c_void,
    data: *mut c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    waits(|| {
        guard_short(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let socket = unsafe { socket(handle) }?;
            // SAFETY: the caller keeps this function's contract.
            let room = unsafe { text::room(data, size) }?;
            let received = socket.receive_into(room, flags & DONT_WAIT != 0)?;
            Ok(told(received))
        })
    })
}

/// `zmq_msg_recv`: drops what the message held before, also where nothing came.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_msg_recv(
    message: *mut RawMessage,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { receive_message(message, handle, flags) }
}

/// # Safety
///
/// As for [`zmq_msg_recv`].
#[inline]
unsafe fn receive_message(message: *mut RawMessage, handle: *mut c_void, flags: c_int) -> c_int {
    waits(|| {
        guard_short(-1, || {
            // SAFETY: the caller keeps this function's contract.
            let socket = unsafe { socket(handle) }?;
            // SAFETY: the caller keeps this function's contract.
            let message = unsafe { RawMessage::get(message) }?;
            match socket.receive_to(message, flags & DONT_WAIT != 0) {
                Ok(()) => Ok(told(message.len())),
                Err(error) => {
                    if empties_on(error) && empties_first(socket.kind()) {
                        *message = Message::new();
                    }
                    Err(error.into())
                }
            }
        })
    })
}

/// Returns whether libzmq has looked for a message before it fails so.
fn empties_on(error: Error) -> bool {
    matches!(error, Error::Again | Error::Interrupted) || is_left(error)
}

/// Returns whether sockets of this type empty the message before they look for another one, as in
/// libzmq.
fn empties_first(kind: SocketType) -> bool {
    !matches!(kind, SocketType::Xpub | SocketType::Stream)
}

/// `zmq_recvmsg`: an older name of [`zmq_msg_recv`].
///
/// # Safety
///
/// As for [`zmq_msg_recv`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_recvmsg(
    handle: *mut c_void,
    message: *mut RawMessage,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { receive_message(message, handle, flags) }
}

/// `zmq_sendiov`: sends one message per part, or with `ZMQ_SNDMORE` one message of all parts.
///
/// # Safety
///
/// `handle` is null or a socket's; `parts` points to `count` valid parts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_sendiov(
    handle: *mut c_void,
    parts: *const Part,
    count: usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // Some of the parts may be done with.
        let _inside = Inside::new();
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        if count == 0 || parts.is_null() {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller guarantees that `count` parts are at `parts`.
        let parts = unsafe { std::slice::from_raw_parts(parts, count) };
        let mut sent = 0;
        for (index, part) in parts.iter().enumerate() {
            // SAFETY: the caller guarantees that the bytes of each part are there.
            let bytes = unsafe { text::bytes(part.data, part.size) }?;
            let mut flags = send_flags(flags);
            flags.more &= index + 1 < count;
            send_copy(socket, bytes, flags)?;
            sent = part.size;
        }
        Ok(told(sent))
    })
}

/// `zmq_recviov`: receives up to `*count` frames of one message. The caller frees their bytes.
///
/// # Safety
///
/// `handle` is null or a socket's; `parts` has room for `*count` parts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_recviov(
    handle: *mut c_void,
    parts: *mut MaybeUninit<Part>,
    count: *mut usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // Some of the parts may be done with.
        let _inside = Inside::new();
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        if count.is_null() || parts.is_null() {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller guarantees that it points to a size.
        let count = unsafe { &mut *count };
        let room = std::mem::take(count);
        if room == 0 {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller guarantees room for `*count` parts.
        let room = unsafe { std::slice::from_raw_parts_mut(parts, room) };
        for place in room {
            let message = socket.receive(flags & DONT_WAIT != 0)?;
            place.write(Part::copy(&message)?);
            *count += 1;
            if !message.more() {
                break;
            }
        }
        Ok(told(*count))
    })
}

/// C's `struct iovec`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Part {
    data: *mut c_void,
    size: usize,
}

impl Part {
    /// Copies the bytes to memory that C's `free` releases.
    fn copy(bytes: &[u8]) -> Result<Self, Errno> {
        let size = bytes.len();
        // SAFETY: any size may be asked for; none at all still gives something to free.
        let data = unsafe { malloc(size.max(1)) };
        if data.is_null() {
            return Err(Errno(ENOMEM));
        }
        // SAFETY: `data` has room for `size` bytes, and no other code has its address yet.
        unsafe {
            data.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), size)
        };
        Ok(Self { data, size })
    }
}

#[inline]
fn send_flags(flags: c_int) -> SendFlags {
    SendFlags {
        dont_wait: flags & DONT_WAIT != 0,
        more: flags & SEND_MORE != 0,
    }
}

/// Converts a size to the return value of a C function; larger sizes are cut.
#[inline]
fn told(size: usize) -> c_int {
    c_int::try_from(size).unwrap_or(c_int::MAX)
}

const DONT_WAIT: c_int = 1;
const SEND_MORE: c_int = 2;

// SAFETY: its signature as in `stdlib.h`.
unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
}

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;
    use crate::context::{zmq_ctx_new, zmq_ctx_term};
    use crate::errno::{self, EAGAIN};
    use crate::message::{zmq_msg_close, zmq_msg_init_data, zmq_msg_init_size, zmq_msg_size};
    use crate::socket::{
        zmq_bind, zmq_close, zmq_connect, zmq_getsockopt, zmq_setsockopt, zmq_socket,
    };
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

    const DEALER: c_int = 5;
    const PUSH: c_int = 8;
    const EVENTS: c_int = 15;
    const LINGER: c_int = 17;
    const LAST_ENDPOINT: c_int = 32;
    const CONFLATE: c_int = 54;
    const LENGTH: usize = 50_000;
    const PULL: c_int = 7;
    const XPUB: c_int = 9;

    /// What a program's function is told that takes bytes back.
    #[derive(Default)]
    struct Loan {
        socket: AtomicPtr<c_void>,
        returned: AtomicUsize,
    }

    /// Takes bytes back, and uses the socket that had them.
    // SAFETY: `hint` is a `Loan`, and `data` was allocated with `LENGTH` bytes.
    unsafe extern "C" fn take_back(data: *mut c_void, hint: *mut c_void) {
        // SAFETY: the loan outlives its bytes, which are as many as were allocated.
        unsafe {
            let loan = &*hint.cast::<Loan>();
            let socket = loan.socket.load(Ordering::SeqCst);
            let (mut events, mut size) = (0_i32, size_of::<i32>());
            zmq_getsockopt(socket, EVENTS, (&raw mut events).cast(), &raw mut size);
            zmq_send(socket, data, 1, DONT_WAIT);
            drop(Vec::from_raw_parts(data.cast::<u8>(), LENGTH, LENGTH));
            loan.returned.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The socket was locked, and the function waited for itself.
    #[test]
    fn a_function_that_takes_bytes_back_may_use_the_socket_that_had_them() {
        let endpoints = [
            c"inproc://loan",
            c"tcp://127.0.0.1:*",
            c"ipc://*",
            c"shm://*",
        ];
        for (endpoint, conflate) in endpoints.iter().flat_map(|&end| [(end, 0), (end, 1)]) {
            let loan = Loan::default();
            // SAFETY: sockets of this context; messages that are initialised and sent or closed.
            unsafe {
                let context = zmq_ctx_new();
                let (pull, push) = (zmq_socket(context, PULL), zmq_socket(context, PUSH));
                loan.socket.store(push, Ordering::SeqCst);
                for (option, value) in [(LINGER, 0), (CONFLATE, conflate)] {
                    for socket in [pull, push] {
                        let value: *const c_int = &value;
                        zmq_setsockopt(socket, option, value.cast(), size_of::<c_int>());
                    }
                }
                let (mut place, mut size) = ([0_u8; 256], 256);
                assert_eq!(zmq_bind(pull, endpoint.as_ptr()), 0);
                zmq_getsockopt(
                    pull,
                    LAST_ENDPOINT,
                    place.as_mut_ptr().cast(),
                    &raw mut size,
                );
                assert_eq!(zmq_connect(push, place.as_ptr().cast()), 0);
                for _ in 0..50 {
                    let bytes = vec![1_u8; LENGTH].leak().as_mut_ptr();
                    let mut raw = MaybeUninit::<RawMessage>::uninit();
                    let (message, hint) = (raw.as_mut_ptr(), (&raw const loan).cast_mut());
                    zmq_msg_init_data(message, bytes.cast(), LENGTH, Some(take_back), hint.cast());
                    assert_eq!(zmq_msg_send(message, push, 0), LENGTH as c_int);
                    zmq_msg_close(message);
                }
                let mut buffer = [0_u8; 100];
                zmq_recv(pull, buffer.as_mut_ptr().cast(), buffer.len(), 0);
                assert_eq!((zmq_close(push), zmq_close(pull)), (0, 0));
                assert_eq!(zmq_ctx_term(context), 0);
            }
            assert_eq!(loan.returned.load(Ordering::SeqCst), 50, "{endpoint:?}");
            loan.socket.store(null_mut(), Ordering::SeqCst);
        }
    }

    /// It kept what it had held before.
    #[test]
    fn a_message_into_which_nothing_was_received_is_as_libzmq_leaves_it() {
        // SAFETY: sockets of this context, and a message that is initialised and closed.
        unsafe {
            let context = zmq_ctx_new();
            for (kind, left) in [(PULL, 0), (DEALER, 0), (XPUB, 100)] {
                let socket = zmq_socket(context, kind);
                let mut raw = MaybeUninit::<RawMessage>::uninit();
                let message = raw.as_mut_ptr();
                assert_eq!(zmq_msg_init_size(message, 100), 0);
                assert_eq!(zmq_msg_recv(message, socket, DONT_WAIT), -1);
                assert_eq!(errno::get(), EAGAIN);
                assert_eq!(zmq_msg_size(message), left);
                assert_eq!((zmq_msg_close(message), zmq_close(socket)), (0, 0));
            }
            assert_eq!(zmq_ctx_term(context), 0);
        }
    }
}
