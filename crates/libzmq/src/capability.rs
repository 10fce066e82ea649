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

/// `tidewire` is the mark of this library: no other answers for it. `draft` is true of a library
/// that has the draft functions and types of sockets, as libzmq's with drafts; whether a program
/// sees them is up to the header that it was compiled with.
const CAPABILITIES: &[&str] = &["ipc", "shm", "curve", "draft", "WS", "WSS", "tidewire"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_drafts_denied_them() {
        for (capability, has) in [
            (c"draft", 1),
            (c"curve", 1),
            (c"tidewire", 1),
            (c"tipc", 0),
            (c"", 0),
        ] {
            // SAFETY: the text is NUL-terminated.
            let answer = unsafe { zmq_has(capability.as_ptr()) };
            assert_eq!(answer, has, "{capability:?}");
        }
    }
}
