//! The hub: topics, mounts, subscriptions, fan-out, and one session type a protocol.
//!
//! ```text
//!  feed ──▶ ingest ──▶ board (last values) ──┐
//!             │                              ├──▶ publication ──▶ fanout ──▶ Redis, ZeroMQ
//!  RESP ──▶ keyspace (live keys) ────────────┘
//!             └──▶ journal ──▶ feed sessions
//! ```
//!
//! [`Hub`] is what all lanes share; [`HubLane`] runs on each lane.

#![forbid(unsafe_code)]

pub use tidewire_fanout::{
    FanoutCounters, Kind, News, Origin, Publication, Route, Subscriptions, TopicId,
};

mod access;
mod application;
pub use application::{HubLane, port};

mod attention;

mod clients;
pub use clients::{Client, Clients, Labels};

mod durability;
pub use durability::Durability;

mod eviction;
mod fanout;

mod gate;

mod hub;
pub use hub::{Hub, HubConfig, Mail};

mod hot;

mod listening;
pub use listening::BindAddress;

mod live;

mod memory;
mod memory_score;

mod metrics;
pub use metrics::metrics;

mod monitor;

mod notifications;

mod parameters;
pub use parameters::Parameters;

mod protection;
pub use protection::HTTP_DENIED;

mod pushes;

mod redis_conf;
pub use redis_conf::RedisConf;

mod refusals;

mod renames;

mod replication;

mod rates;
mod rights;

mod scripting;

mod session;

mod sleeping;
mod slow_events;

mod slowlog;

mod tracking;
pub use tracking::{ClientTracking, Invalid};

mod sessions;

mod starting;
pub use starting::Loaded;

mod statistics;

mod stopping;

mod threads;
mod topic_watch;
mod topics;

mod waiting;
mod watchdog;
pub use watchdog::watch_lanes;

pub mod fuzzing;

mod zmq_security;
pub use zmq_security::{CurvePorts, ZmqSecurity};
