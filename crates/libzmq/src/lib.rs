//! libzmq's C interface over [`tidewire_zmq`]. It builds a `libzmq.so.5`, with which programs
//! linked to libzmq run unchanged. `include/zmq.h` describes the interface.
//!
//! This crate only translates: pointers become references, numbers become enums, errors become
//! `errno`. It is the project's only crate with a C interface, hence the `unsafe` code:
//!
//! * The caller guarantees that its arguments (buffers, strings, poll items) are valid for the
//!   call, as `zmq.h` requires. An unexpected null gives `EFAULT` or `EINVAL`.
//! * Handles of contexts and sockets are [`handle`]s. Their memory is never freed, so a closed
//!   handle, or one of another kind, is recognized by its tag and gives `ENOTSOCK` or `EFAULT`.
//! * A `zmq_msg_t` holds a [`tidewire_zmq::Message`] followed by a tag; see [`message`].
//! * No panic leaves the library: [`errno::guard`] turns it into `ENOTRECOVERABLE`.
//! * A thread may be cancelled where it waits; see [`cancellation`].

#[cfg(not(target_os = "linux"))]
compile_error!("the error numbers here are those of Linux");

mod cancellation;
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
#[cfg(test)]
mod programs;
mod proxy;
mod socket;
mod text;
mod thread;
mod timers;
mod transfer;
mod z85;
