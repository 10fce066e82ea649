//! Capabilities of the library.

use crate::errno::guard;
use crate::text;
use std::ffi::{c_char, c_int};

/// `zmq_has`.
///
/// # Safety
///
/// `capability` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_has(capability: *const c_char) -> c_int {
    guard(0, || {
        // SAFETY: the caller keeps this function's contract.
        let capability = unsafe { text::text(capability) }?;
        Ok(c_int::from(CAPABILITIES.contains(&capability)))
    })
}

/// `tidewire` is the mark of this library: no other answers for it.
const CAPABILITIES: &[&str] = &["ipc", "shm", "curve", "WS", "WSS", "tidewire"];
