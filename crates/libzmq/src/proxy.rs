//! Proxies between two sockets.

use crate::errno::{EFAULT, Errno, status};
use crate::socket::socket;
use std::ffi::{c_int, c_void};

/// `zmq_proxy`.
///
/// # Safety
///
/// Each is null or a socket's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_proxy(
    frontend: *mut c_void,
    backend: *mut c_void,
    capture: *mut c_void,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_proxy_steerable(frontend, backend, capture, std::ptr::null_mut()) }
}

/// `zmq_proxy_steerable`.
///
/// # Safety
///
/// Each is null or a socket's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_proxy_steerable(
    frontend: *mut c_void,
    backend: *mut c_void,
    capture: *mut c_void,
    control: *mut c_void,
) -> c_int {
    status(|| {
        if frontend.is_null() || backend.is_null() {
            return Err(Errno(EFAULT));
        }
        let present = |handle: *mut c_void| (!handle.is_null()).then_some(handle);
        // SAFETY: the caller passes a handle.
        let open = |handle| unsafe { socket(handle) };
        let capture = present(capture).map(open).transpose()?;
        let control = present(control).map(open).transpose()?;
        Ok(tidewire_zmq::proxy(
            open(frontend)?,
            open(backend)?,
            capture,
            control,
        )?)
    })
}

/// `zmq_device`: an older name of [`zmq_proxy`]; the kind is ignored.
///
/// # Safety
///
/// Each is null or a socket's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_device(
    _: c_int,
    frontend: *mut c_void,
    backend: *mut c_void,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_proxy(frontend, backend, std::ptr::null_mut()) }
}
