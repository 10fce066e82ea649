//! One interface over both ways to a library.

use std::path::Path;

use tidewire_zmq::{Context, SendFlags, Socket, SocketType};

use crate::abi::{Abi, AbiContext, AbiSocket};

/// A context of the measured library.
#[derive(Debug)]
pub(crate) enum AnyContext {
    Abi(AbiContext),
    Rust(Context),
}

#[derive(Debug)]
pub(crate) enum AnySocket {
    Abi(AbiSocket),
    Rust(Socket),
}

impl AnyContext {
    /// Opens a library: `rust`, or the path of a shared object.
    pub(crate) fn open(library: &str) -> Result<AnyContext, String> {
        if library == "rust" {
            return Ok(AnyContext::Rust(Context::new()));
        }
        Ok(AnyContext::Abi(Abi::load(Path::new(library))?.context()))
    }

    pub(crate) fn socket(&self, kind: SocketType) -> Result<AnySocket, String> {
        let socket = match self {
            AnyContext::Abi(context) => AnySocket::Abi(context.socket(kind.number())?),
            AnyContext::Rust(context) => AnySocket::Rust(context.socket(kind).map_err(text)?),
        };
        // What is left at the end is not waited for.
        socket.set(LINGER, &0_i32.to_ne_bytes())?;
        Ok(socket)
    }
}

impl AnySocket {
    pub(crate) fn bind(&self, endpoint: &str) -> Result<String, String> {
        match self {
            AnySocket::Abi(socket) => {
                socket.bind(endpoint)?;
                socket.last_endpoint()
            }
            AnySocket::Rust(socket) => {
                socket.bind(endpoint).map_err(text)?;
                let mut out = [0; 256];
                let length = socket.option(LAST_ENDPOINT, &mut out).map_err(text)?;
                Ok(String::from_utf8_lossy(&out[..length - 1]).into_owned())
            }
        }
    }

    pub(crate) fn connect(&self, endpoint: &str) -> Result<(), String> {
        match self {
            AnySocket::Abi(socket) => socket.connect(endpoint),
            AnySocket::Rust(socket) => socket.connect(endpoint).map_err(text),
        }
    }

    pub(crate) fn set(&self, option: i32, value: &[u8]) -> Result<(), String> {
        match self {
            AnySocket::Abi(socket) => socket.set(option, value),
            AnySocket::Rust(socket) => socket.set_option(option, value).map_err(text),
        }
    }

    #[inline]
    pub(crate) fn send(&self, bytes: &[u8], more: bool) -> Result<(), String> {
        match self {
            AnySocket::Abi(socket) => socket.send(bytes, more),
            AnySocket::Rust(socket) => {
                let flags = SendFlags {
                    dont_wait: false,
                    more,
                };
                socket.send_bytes(bytes, flags).map_err(text)
            }
        }
    }

    #[inline]
    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<usize, String> {
        match self {
            AnySocket::Abi(socket) => socket.receive(into),
            AnySocket::Rust(socket) => Ok(socket.receive(false).map_err(text)?.len()),
        }
    }
}

fn text(error: tidewire_zmq::Error) -> String {
    error.to_string()
}

const LINGER: i32 = 17;
const LAST_ENDPOINT: i32 = 32;
