//! A whole hub on one thread, with all its clients.
//!
//! Lanes and background tasks take single turns, sockets are socket pairs, the clock stands still
//! until it is moved, and the disk is in memory. A seed decides the order of everything, what fails
//! and when the process is killed or the machine fails. Peers of every protocol know what they may
//! see: that is the oracle. TigerBeetle's VOPR is the model.
//!
//! ```text
//!  seed ─▶ Plan ─▶ World ─┬─▶ Process: Hub, SteppedLanes, Tasks, SimulatedDisk
//!                         └─▶ peers: writers, subscribers, pushers, publishers, a plant
//! ```
//!
//! `cargo xtask simulate --seed N --minutes M` runs seeds from N on. A seed that has found
//! something stands in `seeds.txt`, which the tests run.

#![forbid(unsafe_code)]

mod link;
mod pair;
mod peer;
mod peers;
mod plan;
mod process;
mod random;
mod scenario;
mod wire;

pub use scenario::{Report, Violation, has_replica, run};
