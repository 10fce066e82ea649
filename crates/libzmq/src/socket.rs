//! Sockets: all functions except those that send and receive.

use crate::context::context;
use crate::errno::{EBADF, EINVAL, ENOTSOCK, Errno, guard, status, status_short};
use crate::handle::Pool;
use crate::poll::OUT;
use crate::text;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use tidewire_zmq::{Error, Socket, SocketType};

/// All sockets of the process.
static SOCKETS: Pool<Socket> = Pool::new(0xbadd_ecaf);

/// Returns the socket of a handle.
///
/// # Safety
///
/// `socket` is null or a handle.
#[inline]
pub(crate) unsafe fn socket(socket: *mut c_void) -> Result<&'static Socket, Errno> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { SOCKETS.get(socket) }.ok_or(Errno(ENOTSOCK))
}

/// `zmq_socket`.
///
/// # Safety
///
/// `handle` is null or a context's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_socket(handle: *mut c_void, kind: c_int) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the caller keeps this function's contract.
        let context = unsafe { context(handle) }?;
        let kind = SocketType::from_number(kind).ok_or(Errno(EINVAL))?;
        Ok(open(context.socket(kind)?))
    })
}

/// Returns a handle for a socket.
pub(crate) fn open(socket: Socket) -> *mut c_void {
    SOCKETS.open(socket)
}

/// `zmq_close`.
///
/// # Safety
///
/// `handle` is null or was returned by [`zmq_socket`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_close(handle: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the caller keeps this function's contract.
        if !unsafe { SOCKETS.close(handle) } {
            return Err(Errno(ENOTSOCK));
        }
        Ok(socket.close()?)
    })
}

/// `zmq_setsockopt`.
///
/// # Safety
///
/// `handle` is null or a socket's; `value` points to `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_setsockopt(
    handle: *mut c_void,
    option: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        if size == 0 && !value.is_null() && UNSET_BY_NULL.contains(&option) {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller guarantees `size` bytes. Null means none, with any size.
        let value = unsafe { text::bytes(value, if value.is_null() { 0 } else { size }) }?;
        Ok(socket.set_option(option, value)?)
    })
}

/// `zmq_getsockopt`.
///
/// # Safety
///
/// `handle` is null or a socket's; `value` has room for `*size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_getsockopt(
    handle: *mut c_void,
    option: c_int,
    value: *mut c_void,
    size: *mut usize,
) -> c_int {
    status_short(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        let write = |room: &mut [u8]| {
            let written = socket.option(option, room)?;
            // As in libzmq, a number is padded with zeros in a larger buffer.
            room[written..].fill(0);
            Ok(written)
        };
        // SAFETY: the caller keeps this function's contract.
        unsafe { text::fill(value, size, write) }
    })
}

/// `zmq_bind`.
///
/// # Safety
///
/// `handle` is null or a socket's; `endpoint` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_bind(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_endpoint(handle, endpoint, bind) }
}

/// Binds, with the descriptor of the option `ZMQ_USE_FD` if it is set. The socket then owns the
/// descriptor, as in libzmq.
fn bind(socket: &Socket, endpoint: &str) -> Result<(), Error> {
    let mut number = [0; 4];
    socket.option(USE_DESCRIPTOR, &mut number)?;
    let number = c_int::from_ne_bytes(number);
    let takes_none = ["inproc:", "udp:"].map(|transport| endpoint.starts_with(transport));
    if number < 0 || takes_none.contains(&true) {
        return socket.bind(endpoint);
    }
    // SAFETY: it is not -1, and open as long as this takes; else the call fails.
    let lent = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = lent.try_clone_to_owned();
    socket.lend_listener(
        copy.map_err(|error| Error::System(error.raw_os_error().unwrap_or(EBADF)))?,
    )?;
    socket.bind(endpoint)?;
    // SAFETY: a caller that sets the option gives the descriptor away with a successful bind.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(())
}

/// `zmq_connect`.
///
/// # Safety
///
/// As for [`zmq_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_connect(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_endpoint(handle, endpoint, Socket::connect) }
}

/// `zmq_connect_peer`: returns the peer's number, or 0 on an error.
///
/// # Safety
///
/// As for [`zmq_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_connect_peer(
    handle: *mut c_void,
    endpoint: *const c_char,
) -> u32 {
    guard(0, || {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the caller keeps this function's contract.
        let endpoint = unsafe { text::text(endpoint) }?;
        Ok(socket.connect_peer(endpoint)?)
    })
}

/// `zmq_disconnect_peer`.
///
/// # Safety
///
/// `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_disconnect_peer(handle: *mut c_void, number: u32) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        Ok(socket.disconnect_peer(number)?)
    })
}

/// `zmq_join`.
///
/// # Safety
///
/// `handle` is null or a socket's; `group` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_join(handle: *mut c_void, group: *const c_char) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_group(handle, group, |socket, group| socket.join(group)) }
}

/// `zmq_leave`.
///
/// # Safety
///
/// `handle` is null or a socket's; `group` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_leave(handle: *mut c_void, group: *const c_char) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_group(handle, group, |socket, group| socket.leave(group)) }
}

/// `zmq_socket_get_peer_state`: returns `ZMQ_POLLOUT` or 0.
///
/// # Safety
///
/// `handle` is null or a socket's; `routing_id` points to `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_socket_get_peer_state(
    handle: *mut c_void,
    routing_id: *const c_void,
    size: usize,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the caller guarantees `size` bytes.
        let routing_id = unsafe { text::bytes(routing_id, size) }?;
        let can_send = socket.can_send_to(routing_id)?;
        Ok(if can_send { c_int::from(OUT) } else { 0 })
    })
}

/// `zmq_unbind`.
///
/// # Safety
///
/// As for [`zmq_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_unbind(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_endpoint(handle, endpoint, Socket::unbind) }
}

/// `zmq_disconnect`.
///
/// # Safety
///
/// As for [`zmq_bind`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_disconnect(
    handle: *mut c_void,
    endpoint: *const c_char,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { at_endpoint(handle, endpoint, Socket::disconnect) }
}

/// Calls `work` with a socket and an endpoint.
///
/// # Safety
///
/// As for [`zmq_bind`].
unsafe fn at_endpoint(
    handle: *mut c_void,
    endpoint: *const c_char,
    work: impl FnOnce(&Socket, &str) -> Result<(), Error>,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the caller keeps this function's contract.
        let endpoint = unsafe { text::text(endpoint) }?;
        Ok(work(socket, endpoint)?)
    })
}

/// Calls `work` with a socket and a group.
///
/// # Safety
///
/// As for [`zmq_join`].
unsafe fn at_group(
    handle: *mut c_void,
    group: *const c_char,
    work: impl FnOnce(&Socket, &[u8]) -> Result<(), Error>,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        // SAFETY: the caller keeps this function's contract.
        let group = unsafe { text::octets(group) }?;
        Ok(work(socket, group)?)
    })
}

const USE_DESCRIPTOR: c_int = 89;
/// Options that null unsets, while an empty string is an error: the filters of peers, PLAIN's name
/// and password, the proxy and the device.
const UNSET_BY_NULL: [c_int; 8] = [38, 45, 46, 58, 59, 60, 68, 92];
