//! Monitors of a socket's connections.

use crate::errno::{EINVAL, Errno, status};
use crate::socket::socket;
use crate::text;
use std::ffi::{c_char, c_int, c_void};
use tidewire_zmq::SocketType;

/// `zmq_socket_monitor`.
///
/// # Safety
///
/// `handle` is null or a socket's; `endpoint` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_socket_monitor(
    handle: *mut c_void,
    endpoint: *const c_char,
    events: c_int,
) -> c_int {
    let kind = SocketType::Pair.number();
    // As in libzmq, a negative set of events has all high bits set.
    let events = i64::from(events).cast_unsigned();
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_socket_monitor_versioned(handle, endpoint, events, 1, kind) }
}

/// `zmq_socket_monitor_pipes_stats`.
///
/// # Safety
///
/// `handle` is null or a socket's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_socket_monitor_pipes_stats(handle: *mut c_void) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    status(|| Ok(unsafe { socket(handle) }?.report_queues()?))
}

/// `zmq_socket_monitor_versioned`.
///
/// # Safety
///
/// As for [`zmq_socket_monitor`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_socket_monitor_versioned(
    handle: *mut c_void,
    endpoint: *const c_char,
    events: u64,
    version: c_int,
    kind: c_int,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let socket = unsafe { socket(handle) }?;
        let endpoint = if endpoint.is_null() {
            None
        } else {
            // SAFETY: the caller passes a NUL-terminated string.
            Some(unsafe { text::text(endpoint) }?)
        };
        let version = u32::try_from(version).map_err(|_| Errno(EINVAL))?;
        let kind = SocketType::from_number(kind).ok_or(Errno(EINVAL))?;
        Ok(socket.monitor(endpoint, events, version, kind)?)
    })
}
