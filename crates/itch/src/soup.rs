//! SoupBinTCP 3.0: messages over TCP, numbered implicitly. A client that logs in with an older
//! sequence receives everything from there on again.
//!
//! ```text
//!  socket ─▶ Client::receive(input, now) ─▶ SequencedSink      Server::receive(input, now)
//!  socket ◀─ Client::drain_outgoing                            Server::produce(store, now, out)
//!  timer  ◀─ deadline_ns(), then handle_timeout(now)
//! ```

mod client;
mod packet;
mod server;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientConfig, ClientError, Counters};
pub use packet::{HEARTBEAT_INTERVAL_NS, LOGIN_TIMEOUT_NS, Login, Reject, SILENCE_NS_MAX};
pub use server::{Server, ServerConfig, ServerError};
