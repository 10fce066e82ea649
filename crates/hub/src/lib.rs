//! The hub: market data, plant tags and the Redis server in one process, and ZeroMQ and web pages
//! beside them.
//!
//! ```text
//!  feeds  ──▶ market ──┐                    ┌──▶ Redis subscribers
//!  plant  ──▶ plant  ──┼──▶ post ──▶ fan-out┤
//!  RESP   ──▶ redis  ──┤                    └──▶ ZeroMQ SUB
//!  ZeroMQ PUSH, ROUTER ┘                    └──▶ web pages
//! ```
//!
//! All lanes share [`Hub`]; a [`HubLane`] runs on each lane.

#![forbid(unsafe_code)]

mod application;
pub use application::HubLane;

mod counters;
pub use counters::{metrics, watched_counters};

mod house;

mod log_lines;
pub use log_lines::{LogLevel, LogLines};

mod hub;
pub use hub::{Hub, HubConfig, Mail};

pub mod port;

mod protection;
pub use protection::denial;

mod pushes;
mod refusals;
mod session;
pub use session::web::WebMail;

pub mod fuzzing;

mod web_config;
pub use web_config::{WebAsset, WebConfig};

mod zmq_security;
pub use zmq_security::{CurvePorts, ZmqSecurity};
