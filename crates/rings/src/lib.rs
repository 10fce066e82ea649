//! A stream of bytes in each direction between two processes of one machine, in memory that both
//! map.
//!
//! A [`Channel`] is made from a connected Unix socket: the side that accepted it creates the
//! memory, sealed so that its size stays, and hands it over ([`Channel::offer`]); the other side
//! maps it ([`Offer::receive`]). Each direction is a ring with one writer and one reader. A side
//! that has nothing to do asks to be woken ([`Channel::arm`]) and sleeps on its Unix socket; its
//! peer then sends one byte. A side that is awake is not woken, and no system call is made. The
//! socket also tells that the peer is gone.
//!
//! **The peer is not trusted.** It can write any value into the memory at any time. Each position
//! that is read there is checked before it is used, data is copied out before it is looked at, and
//! every access is an atomic one. A peer that writes nonsense breaks its own channel ([`Broken`])
//! and nothing else. It cannot shrink the memory, make a write to the socket wait, or keep a
//! [`Spin`] from ending.
//!
//! Linux only: sealed memory and descriptors in messages.

mod channel;
pub use channel::{Channel, Sizes, Wants};

mod offer;
pub use offer::Offer;

#[doc(hidden)]
pub mod fuzzing;
mod memory;

mod ring;
pub use ring::Broken;

mod spin;
pub use spin::{Patience, Spin};

mod sync;
