//! The Redis server: sessions, access control, parameters, replication, durability, scripting.
//!
//! ```text
//!  RESP ──▶ session ──▶ gate ──▶ keyspace ──┬──▶ live keys ──▶ fan-out
//!                                           └──▶ append-only file, replicas
//! ```
//!
//! [`Server`] is what all lanes share; [`RedisLane`] is driven on each lane, by whoever has the
//! lane. What stands around it is a [`House`].

#![forbid(unsafe_code)]

/// The Redis release whose behaviour clients may expect.
pub(crate) const REDIS_VERSION: &str = "8.6.3";

/// The version of Valkey whose rules `compatibility valkey` follows, and that of Redis which Valkey
/// names for clients that know Redis alone.
pub(crate) const VALKEY_VERSION: &str = "9.1.2";
pub(crate) const REDIS_VERSION_OF_VALKEY: &str = "7.2.4";
/// The tag of listeners for Redis clients.
pub const RESP_PORT: u16 = 1;

mod access;
pub use access::{AccessControl, KeyRights, User, Verb};
pub use certificates::CertificateWatch;

mod activity;

mod admission;
pub use admission::{DEFAULT, NotAdmitted, Proof};

mod attention;
pub mod background;

mod certificates;
mod clients;
pub use clients::{Client, Clients, Labels};

mod config;
pub use config::RedisConfig;

mod counted_bytes;
pub mod counters;

mod durability;
pub use durability::Durability;

mod eviction;

pub mod fuzzing;

mod foreign_write;
mod gate;
pub use gate::{Refusal, Wait};

mod hot;
mod hot_keys;

mod identity;
pub use identity::{Identity, is_loopback};

mod lane;
pub use lane::{RedisLane, earlier};

mod lane_waits;

mod listening;
pub use listening::BindAddress;

mod live;
pub use live::{is_reserved_channel, write_value};

mod live_keys;

mod mail;
pub use mail::RedisMail;

mod memory;
mod memory_score;

mod monitor;

mod notifications;

mod other_clients;
mod other_sessions;
pub use other_clients::{OtherClient, OtherClients, PageState};
pub use other_sessions::{LaneParts, OtherSessions};
pub use tidewire_memory::purge as give_memory_back;

mod parameters;
pub use parameters::{Id, Parameters};

/// Parameters that the program reads before there is a server.
pub mod ids {
    pub use crate::parameters::table::{
        APPENDDIRNAME, APPENDONLY, BIND, DAEMONIZE, DIR, DISABLE_THP, LOGFILE, LOGLEVEL,
        MAXCLIENTS, PIDFILE, PORT, PROTECTED_MODE, SAVE, SUPERVISED, SYSLOG_ENABLED,
        SYSLOG_FACILITY, SYSLOG_IDENT, TLS_AUTH_CLIENTS, TLS_CA_CERT_FILE, TLS_CERT_FILE,
        TLS_KEY_FILE, TLS_PORT, UNIXSOCKETPERM,
    };
}

mod parts;
mod pause;

mod plain_write;
pub use plain_write::Written;

mod quorum;
pub use quorum::QuorumConfig;
#[cfg(not(loom))]
pub use quorum::QuorumThread;

mod rates;

mod redis_conf;
pub use redis_conf::RedisConf;

pub mod registry;

mod renames;

mod replication;

mod rights;

mod script_turn;
mod scripting;

mod server;
pub use server::{House, Server};

mod session;
pub use session::Relay;

mod sessions;

mod shared_keys;
mod sleeping;
mod slow_events;
mod slowlog;

mod stale;
mod starting;
pub use starting::Loaded;

mod statistics;

mod stopping;

mod threads;
mod topic_watch;

mod tracked_clients;
pub use tracked_clients::{ClientTracking, Invalid};

mod tracking;

mod waiting;
pub use waiting::LaneWaiting;

mod watchdog;
pub use watchdog::watch_lanes;
