//! Proxies between two sockets.

use crate::cancellation::waits;
use crate::errno::{EFAULT, Errno, status};
use crate::socket::socket;
use std::ffi::{c_int, c_void};
use tidewire_zmq::Proxy;

/// `zmq_proxy`.
///
/// # Safety
///
/// Each is null or a socket's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_proxy(
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
pub(crate) unsafe extern "C-unwind" fn zmq_proxy_steerable(
    frontend: *mut c_void,
    backend: *mut c_void,
    capture: *mut c_void,
    control: *mut c_void,
) -> c_int {
    let mut proxy: Option<Proxy<'static>> = None;
    waits(|| {
        status(|| {
            if frontend.is_null() || backend.is_null() {
                return Err(Errno(EFAULT));
            }
            let present = |handle: *mut c_void| (!handle.is_null()).then_some(handle);
            // SAFETY: the caller passes a handle.
            let open = |handle| unsafe { socket(handle) };
            let capture = present(capture).map(open).transpose()?;
            let control = present(control).map(open).transpose()?;
            let [frontend, backend] = [open(frontend)?, open(backend)?];
            let new = || Proxy::new(frontend, backend, capture, control);
            Ok(proxy.get_or_insert_with(new).run()?)
        })
    })
}

/// `zmq_device`: an older name of [`zmq_proxy`]; the kind is ignored.
///
/// # Safety
///
/// Each is null or a socket's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn zmq_device(
    _: c_int,
    frontend: *mut c_void,
    backend: *mut c_void,
) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { zmq_proxy(frontend, backend, std::ptr::null_mut()) }
}
