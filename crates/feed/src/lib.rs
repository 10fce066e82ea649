//! Market data without I/O: the native feed's wire format and machines, DBN, order book, simulation.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | the native feed's packets, messages and controls (`docs/feed-protocol.md`) |
//! | [`journal`] | a stream's recent past, from which everybody is served |
//! | [`server`] | the sending side: one [`server::Session`] a client |
//! | [`client`] | the receiving side: [`client::Client`]; and [`client::Publisher`] |
//! | [`faults`] | what a bad link does to packets, on purpose |
//! | [`dbn`] | Databento's binary encoding |
//! | [`book`] | orders in, top of book out |
//! | [`simulation`] | a seeded market |
//! | [`fuzzing`] | plain entries for fuzzers |
//!
//! No module opens a socket, reads a clock or starts a thread: bytes and times come in, events and
//! bytes go out, and a deadline says when to call again.

pub mod book;
pub mod client;
pub mod dbn;
pub mod faults;
pub mod fuzzing;
pub mod journal;
pub mod server;
pub mod simulation;
pub mod wire;
