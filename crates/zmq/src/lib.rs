//! ZeroMQ sockets in which the calling thread does the I/O.
//!
//! A send goes straight to the kernel, and a receive reads from it: no message passes through
//! another thread. A background thread works only while no call is in progress: it accepts, does
//! handshakes, answers PINGs, reconnects, and sends what lingers.
//!
//! Start with the typed sockets ([`Push`], [`Req`], [`Pub`] and others, each with an example).
//! [`Socket`] is the layer below: frame by frame, every option of libzmq (by name in
//! [`socket_options`]), usable from any thread, and for tasks as a `Stream` and a `Sink`.

#![forbid(unsafe_code)]

mod accepting;
mod address;
mod asynchronous;
mod attaching;
mod awake;
mod background;
mod backlog;
mod batch;
mod binding;
mod clock;
mod closing;
mod connecting;
mod context;
pub use context::Context;

mod core;
mod digits;
mod endpoint;

mod error;
pub use error::Error;

mod event;
mod group_topic;
mod groups;
mod incoming;
mod inproc;

mod kind;
pub use kind::SocketType;

mod last_value;

mod leaving;
mod lent;
mod lifecycle;
mod link;
mod mail;
mod manual;

mod message;
pub use message::Message;

mod monitor;

mod multipart;
pub use multipart::Multipart;

mod muted;

mod observe;
pub use observe::PeerStatus;

mod numbered;
mod option_kinds;
mod option_table;
mod options;
#[doc(hidden)]
pub mod outside;
pub mod own_options;
mod parting;
mod peer;
mod pipe;

mod poll;
mod polled;
pub use poll::{PollItem, PollTarget, poll};

mod pressure;
mod properties;
mod proxy;
pub use proxy::{Proxy, proxy};

mod publish;
mod queued;
mod reactor;
mod receive;
mod receive_topics;
mod reporting;
mod rooms;
mod secure;
mod send;
mod shared;
mod signal;
mod slab;
mod socket_file;

mod socket;
pub use socket::{Events, SendFlags, Socket};

pub mod socket_options;

mod socks;
mod state;
mod sync;
mod tasks;
mod topic_queue;
mod transmit;
mod transport;
mod turn;
mod udp;
mod upstream;

mod typed;
pub use typed::{
    Channel, Client, Dealer, Dgram, Dish, Gather, Pair, Peer, Pub, Pull, Push, Radio, Rep, Req,
    Router, Scatter, Server, Stream, Sub, Xpub, Xsub,
};

mod watch;
pub use watch::Watch;

mod zap;

/// The guide's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/zeromq-in-rust.md")]
struct Guide;
