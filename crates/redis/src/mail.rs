//! Mail between lanes about Redis clients.

use std::net::SocketAddr;
use std::sync::Arc;

use tidewire_fanout::{OwnWrite, WriteEnd};
use tidewire_keyspace::MountWriter;
use tidewire_lane::{ConnectionId, Listener};

use crate::tracked_clients::Invalid;

/// A message from one lane to another about Redis clients.
#[derive(Debug)]
pub enum RedisMail {
    /// End a connection of that lane.
    Kill(ConnectionId),
    /// End one at once, without sending what waits.
    CutOff(ConnectionId),
    /// The reply that a waiting client of that lane gets.
    Served {
        /// The client's number.
        client: u64,
        /// The reply, encoded.
        reply: Vec<u8>,
        /// Whether it is an error.
        failed: bool,
    },
    /// CLIENT UNBLOCK of a client of that lane.
    Unblocked {
        /// The client's number.
        client: u64,
        /// It gets an error, not the reply of its timeout.
        error: bool,
    },
    /// A client of that lane waits no more: it may not run its command any more.
    Denied {
        /// The client's number.
        client: u64,
        /// Which permission is missing.
        text: String,
    },
    /// Another hub writes to a live key of this one.
    WriteOwn(Box<OwnWrite>),
    /// The end of a client's write to a topic of another hub.
    MountWritten(MountWriter, WriteEnd),
    /// CLIENT UNPAUSE.
    Unpaused,
    /// All functions were deleted: each lane drops its Lua state for them.
    FunctionsForgotten,
    /// Users or their permissions have changed.
    UsersChanged,
    /// A client of that lane must not use what it has read any more.
    Invalid {
        /// The connection that gets the message.
        connection: ConnectionId,
        /// It gets the invalidations of another client (REDIRECT).
        is_redirected: bool,
        /// What it must no longer use.
        invalid: Invalid,
        /// Bytes that this message counts in the mailbox.
        bytes: usize,
    },
    /// A command, for the clients of that lane that listen to all of them.
    Shown(Arc<[u8]>),
    /// A script has ended, or has run for too long: connections that wait for it go on.
    ScriptOver,
    /// Redis clients connect elsewhere from now on: to what was made, and to what stays.
    Listen {
        /// New ones.
        made: Vec<Listener>,
        /// Addresses whose listeners stay.
        addresses: Vec<SocketAddr>,
    },
}
