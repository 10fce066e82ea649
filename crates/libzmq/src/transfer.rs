//! Sending and receiving.

use crate::errno::{EINVAL, ENOMEM, Errno, guard};
use crate::message::RawMessage;
use crate::socket::socket;
use crate::text;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use tidewire_zmq::{Message, SendFlags};

/// `zmq_send`.
///
/// # Safety
///
/// `handle` is null or a socket's; `size` bytes are at `data`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_send(
    handle: *mut c_void,
    data: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the same.
        let bytes = unsafe { text::bytes(data, size) }?;
        socket.send_bytes(bytes, send_flags(flags))?;
        Ok(told(size))
    })
}

/// `zmq_send_const`: the bytes stay valid, so they are not copied.
///
/// # Safety
///
/// As for [`zmq_send`], with bytes that never change and are never freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_send_const(
    handle: *mut c_void,
    data: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the same.
        let bytes: &'static [u8] = unsafe { text::bytes(data, size) }?;
        socket.send(&mut Message::from_static(bytes), send_flags(flags))?;
        Ok(told(size))
    })
}

/// `zmq_msg_send`: afterwards the message is empty; on an error it is as before.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_send(
    message: *mut RawMessage,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the same.
        let message = unsafe { RawMessage::get(message) }?;
        let size = message.len();
        socket.send(message, send_flags(flags))?;
        Ok(told(size))
    })
}

/// `zmq_sendmsg`: an older name of [`zmq_msg_send`].
///
/// # Safety
///
/// As for [`zmq_msg_send`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_sendmsg(
    handle: *mut c_void,
    message: *mut RawMessage,
    flags: c_int,
) -> c_int {
    // SAFETY: the same.
    unsafe { zmq_msg_send(message, handle, flags) }
}

/// `zmq_recv`: what there is no room for is cut off; the number returned is that of all bytes.
///
/// # Safety
///
/// `handle` is null or a socket's; at `data` is room for `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_recv(
    handle: *mut c_void,
    data: *mut c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the same.
        let room = unsafe { text::room(data, size) }?;
        let received = socket.receive_into(room, flags & DONT_WAIT != 0)?;
        Ok(told(received))
    })
}

/// `zmq_msg_recv`: what the message held before is dropped.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_recv(
    message: *mut RawMessage,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the same.
        let message = unsafe { RawMessage::get(message) }?;
        *message = socket.receive(flags & DONT_WAIT != 0)?;
        Ok(told(message.len()))
    })
}

/// `zmq_recvmsg`: an older name of [`zmq_msg_recv`].
///
/// # Safety
///
/// As for [`zmq_msg_recv`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_recvmsg(
    handle: *mut c_void,
    message: *mut RawMessage,
    flags: c_int,
) -> c_int {
    // SAFETY: the same.
    unsafe { zmq_msg_recv(message, handle, flags) }
}

/// `zmq_sendiov`: a message of one frame each, or with `ZMQ_SNDMORE` one message of all.
///
/// # Safety
///
/// `handle` is null or a socket's; `count` parts are at `parts`, each with its bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_sendiov(
    handle: *mut c_void,
    parts: *const Part,
    count: usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
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
            socket.send_bytes(bytes, flags)?;
            sent = part.size;
        }
        Ok(told(sent))
    })
}

/// `zmq_recviov`: up to `*count` frames of one message. The caller frees their bytes.
///
/// # Safety
///
/// `handle` is null or a socket's; at `parts` is room for `*count` parts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_recviov(
    handle: *mut c_void,
    parts: *mut MaybeUninit<Part>,
    count: *mut usize,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: the same.
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

/// What C knows as `struct iovec`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Part {
    data: *mut c_void,
    size: usize,
}

impl Part {
    /// The bytes in memory that C's `free` gives back.
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

/// A size as a C function returns it: greater ones are cut.
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
