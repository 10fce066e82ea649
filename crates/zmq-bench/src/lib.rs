//! ZeroMQ libraries measured side by side, each in processes of its own.
//!
//! A library is a `libzmq.so.5`, through its C interface, or `rust`: [`tidewire_zmq`] through
//! its own. A rival may also be a program that measures itself. Rounds alternate (ours, rival,
//! ours, …), so that what else the machine does hits both; figures are medians of rounds,
//! ratios are medians of the ratios of neighbours.

mod abi;
mod contest;
mod library;
mod workload;

pub use contest::{Contest, Report, Row, run};
pub use workload::child;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Half a round trip, DEALER to ROUTER and back, both driven by one thread.
    Latency,
    /// Half a round trip, REQ to REP, each in its own thread.
    RequestReply,
    /// Messages a second, PUSH to PULL.
    PushPull,
    /// Messages a second, DEALER to ROUTER.
    DealerRouter,
    /// Messages a second, ROUTER to ROUTER.
    RouterRouter,
    /// Messages a second, PUB to SUB, as many as arrive.
    PubSub,
    /// Messages a second, PAIR to PAIR.
    Pair,
    /// Deliveries a second, one PUB to 100 SUBs.
    FanOut,
}

impl Subject {
    /// Every subject, with its name on the command line.
    pub const ALL: [(&'static str, Subject); 8] = [
        ("latency", Subject::Latency),
        ("request-reply", Subject::RequestReply),
        ("push-pull", Subject::PushPull),
        ("dealer-router", Subject::DealerRouter),
        ("router-router", Subject::RouterRouter),
        ("pub-sub", Subject::PubSub),
        ("pair", Subject::Pair),
        ("fan-out", Subject::FanOut),
    ];

    /// Returns the subject of this name.
    pub fn named(name: &str) -> Option<Subject> {
        Subject::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, subject)| subject)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Subject::ALL
            .iter()
            .find(|&&(_, subject)| subject == self)
            .map_or("", |&(name, _)| name)
    }

    /// Returns whether the figure is a time, of which less is better.
    pub fn is_latency(self) -> bool {
        matches!(self, Subject::Latency | Subject::RequestReply)
    }
}
