//! libzmq's C interface over [`tidewire_zmq`]: what is built of this crate is a `libzmq.so.5` that
//! programs linked to libzmq run with, unchanged. `include/zmq.h` is the interface.
//!
//! This crate translates and does nothing else: pointers become references, numbers become enums,
//! errors become `errno`. Here alone in the project is C, so here is `unsafe`:
//!
//! * What a caller hands over (buffers, texts, items of a poll) is valid for the call, as
//!   `zmq.h` asks for. Null where it makes no sense gives `EFAULT` or `EINVAL`.
//! * Handles of contexts and sockets are [`handle`]s: their memory is never given back, so a handle
//!   that was closed, or one of another kind, is recognised by its tag and gives `ENOTSOCK` or
//!   `EFAULT`.
//! * A `zmq_msg_t` holds a [`tidewire_zmq::Message`] and a tag behind it; see [`message`].
//! * No panic leaves the library: [`errno::guard`] turns one into `ENOTRECOVERABLE`.

#[cfg(not(target_os = "linux"))]
compile_error!("the error numbers here are those of Linux");

mod capability;
mod context;
mod counter;
mod errno;
#[cfg(test)]
mod fork;
mod handle;
mod message;
mod monitor;
mod poll;
mod poller;
mod proxy;
mod socket;
mod text;
mod thread;
mod timers;
mod transfer;
mod z85;
