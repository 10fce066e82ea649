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

mod board;
mod broadcast;
pub use board::{Board, BoardFull, MARKET_PREFIX, Topic};
pub use broadcast::LinesOut;

mod clients;
pub use clients::{Client, Clients, Labels};

mod decimal;
mod dialing;

mod durability;
pub use durability::Durability;

mod eviction;
mod exchange;
pub use exchange::{Exchange, ExchangeConfig, ExchangeCounters};

mod fanout;

mod feed_lanes;

mod gate;

mod hub;
pub use hub::{Hub, HubConfig, Mail, unix_ns};

mod hot;

mod inputs;
pub use inputs::{FeedLines, FeedSource, Input, InputError, Inputs, MoldInput, SoupInput};

mod ingest;
pub use ingest::IngestCounters;

mod json;

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

mod plant;
pub use plant::tags::{Tag, TagBoard};
pub use plant::{NAME_BYTES_MAX, PLANT_PREFIX, Plant, PlantCounters, PlantOptions, WriteRequest};

mod protection;
pub use protection::HTTP_DENIED;

mod publishers;

mod recording;
pub use recording::{Recorder, RecordingCounters};

mod redis_conf;
pub use redis_conf::RedisConf;

mod refusals;

mod renames;

mod replication;

mod rates;
mod rights;

mod scripting;

mod seldom;

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

mod symbols;

mod threads;
mod topic_watch;
mod topics;

mod waiting;
mod watchdog;
pub use watchdog::watch_lanes;

pub mod fuzzing;

mod zmq_security;
pub use zmq_security::{CurvePorts, ZmqSecurity};
