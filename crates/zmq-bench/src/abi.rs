//! libzmq's C interface, loaded at run time: the one place here that is `unsafe`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

/// The functions that a measurement calls.
#[derive(Debug)]
pub(crate) struct Abi {
    ctx_new: unsafe extern "C" fn() -> *mut c_void,
    ctx_term: unsafe extern "C" fn(*mut c_void) -> c_int,
    socket: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
    bind: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    connect: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    send: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int,
    recv: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int) -> c_int,
    setsockopt: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> c_int,
    getsockopt: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut usize) -> c_int,
    /// Keeps the functions where they are.
    _library: Library,
}

/// A context of the loaded library.
#[derive(Debug)]
pub(crate) struct AbiContext {
    abi: Arc<Abi>,
    context: usize,
}

/// A socket of the loaded library, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct AbiSocket {
    abi: Arc<Abi>,
    socket: usize,
}

impl Abi {
    pub(crate) fn load(path: &Path) -> Result<Arc<Abi>, String> {
        // SAFETY: loading runs the library's initialisers; the caller names a libzmq.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| format!("{}: {error}", path.display()))?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the signatures above are those of zmq.h.
                let found = unsafe { library.get($name) };
                *found.map_err(|error| error.to_string())?
            }};
        }
        Ok(Arc::new(Abi {
            ctx_new: function!(b"zmq_ctx_new"),
            ctx_term: function!(b"zmq_ctx_term"),
            socket: function!(b"zmq_socket"),
            close: function!(b"zmq_close"),
            bind: function!(b"zmq_bind"),
            connect: function!(b"zmq_connect"),
            send: function!(b"zmq_send"),
            recv: function!(b"zmq_recv"),
            setsockopt: function!(b"zmq_setsockopt"),
            getsockopt: function!(b"zmq_getsockopt"),
            _library: library,
        }))
    }

    pub(crate) fn context(self: &Arc<Abi>) -> AbiContext {
        // SAFETY: the function has no arguments and returns a context or null.
        let context = unsafe { (self.ctx_new)() };
        AbiContext {
            abi: Arc::clone(self),
            context: context as usize,
        }
    }
}

impl AbiContext {
    pub(crate) fn socket(&self, kind: i32) -> Result<AbiSocket, String> {
        // SAFETY: the context lives until `self` is dropped.
        let socket = unsafe { (self.abi.socket)(self.context as *mut c_void, kind) };
        if socket.is_null() {
            return Err("no socket".to_owned());
        }
        Ok(AbiSocket {
            abi: Arc::clone(&self.abi),
            socket: socket as usize,
        })
    }
}

impl Drop for AbiContext {
    fn drop(&mut self) {
        // SAFETY: every socket is closed before its context is dropped: `workload` sees to it.
        unsafe { (self.abi.ctx_term)(self.context as *mut c_void) };
    }
}

impl AbiSocket {
    fn raw(&self) -> *mut c_void {
        self.socket as *mut c_void
    }

    pub(crate) fn bind(&self, endpoint: &str) -> Result<(), String> {
        let endpoint = CString::new(endpoint).map_err(|error| error.to_string())?;
        // SAFETY: the socket is open, the string ends with a zero.
        checked(
            unsafe { (self.abi.bind)(self.raw(), endpoint.as_ptr()) },
            "bind",
        )
    }

    pub(crate) fn connect(&self, endpoint: &str) -> Result<(), String> {
        let endpoint = CString::new(endpoint).map_err(|error| error.to_string())?;
        // SAFETY: the socket is open, the string ends with a zero.
        checked(
            unsafe { (self.abi.connect)(self.raw(), endpoint.as_ptr()) },
            "connect",
        )
    }

    pub(crate) fn set(&self, option: i32, value: &[u8]) -> Result<(), String> {
        // SAFETY: the pointer and the length are those of one slice.
        let result = unsafe {
            (self.abi.setsockopt)(self.raw(), option, value.as_ptr().cast(), value.len())
        };
        checked(result, "setsockopt")
    }

    pub(crate) fn last_endpoint(&self) -> Result<String, String> {
        let mut out = [0_u8; 256];
        let mut length = out.len();
        // SAFETY: the pointer and the length are those of one array.
        let result = unsafe {
            (self.abi.getsockopt)(self.raw(), 32, out.as_mut_ptr().cast(), &raw mut length)
        };
        checked(result, "getsockopt")?;
        Ok(String::from_utf8_lossy(&out[..length.saturating_sub(1)]).into_owned())
    }

    #[inline]
    pub(crate) fn send(&self, bytes: &[u8], more: bool) -> Result<(), String> {
        let flags = c_int::from(more) * 2;
        // SAFETY: the pointer and the length are those of one slice.
        let sent =
            unsafe { (self.abi.send)(self.raw(), bytes.as_ptr().cast(), bytes.len(), flags) };
        checked(sent, "send")
    }

    #[inline]
    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<usize, String> {
        // SAFETY: the pointer and the length are those of one slice.
        let received =
            unsafe { (self.abi.recv)(self.raw(), into.as_mut_ptr().cast(), into.len(), 0) };
        usize::try_from(received).map_err(|_| "receive failed".to_owned())
    }
}

impl Drop for AbiSocket {
    fn drop(&mut self) {
        // SAFETY: the socket was opened by this library and is closed once.
        unsafe { (self.abi.close)(self.raw()) };
    }
}

#[inline]
fn checked(result: c_int, what: &str) -> Result<(), String> {
    if result < 0 {
        return Err(format!("{what} failed"));
    }
    Ok(())
}
