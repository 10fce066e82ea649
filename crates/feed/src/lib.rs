//! Market data without I/O: the native feed's wire format and machines, DBN, order book, simulation.

pub mod book;
pub mod client;
pub mod dbn;
pub mod faults;
pub mod fuzzing;
pub mod journal;
pub mod server;
pub mod simulation;
pub mod wire;
