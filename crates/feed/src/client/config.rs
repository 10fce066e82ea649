//! Settings of a client.

use crate::server::HEARTBEAT_INTERVAL_NS_MAX;
use crate::wire::{ClientName, Credentials, SlowPolicy};

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// The client's name for itself.
    pub name: ClientName,
    /// The user and password; `None` for the server's default user.
    pub credentials: Option<Credentials>,
    /// Heartbeat interval of the client, and of the server until the server announces its own.
    pub heartbeat_interval_ns: u64,
    /// How long a missing packet may be late before the client requests it.
    pub reorder_grace_ns: u64,
    /// Delay between two requests for the same range; doubles up to 16-fold.
    pub request_retry_ns: u64,
    /// How long after their first request messages may be missing before all values count as in
    /// doubt. A loss that is repaired sooner leaves no mark.
    pub doubt_delay_ns: u64,
    /// Maximum bytes of early packets kept while an earlier packet is missing.
    pub early_bytes_max: usize,
    /// What the server does if this client is too slow; `None` for the server's own default.
    pub slow_policy: Option<SlowPolicy>,
    /// Whether the stream comes in datagrams ([`Client::receive_datagram`]). Connections then
    /// bring only snapshots and retransmissions.
    pub datagrams: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            name: ClientName::EMPTY,
            credentials: None,
            heartbeat_interval_ns: HEARTBEAT_INTERVAL_NS_MAX,
            reorder_grace_ns: 1_000_000,
            request_retry_ns: 50_000_000,
            doubt_delay_ns: 50_000_000,
            early_bytes_max: 4 << 20,
            slow_policy: None,
            datagrams: false,
        }
    }
}
