//! What INFO and the metrics show of the cluster.

use std::fmt;

use parking_lot::Mutex;
use tidewire_cluster::{EdgeFigures, OwnerFigures};

/// The state of the cluster's thread, as it was last shown.
#[derive(Debug, Default)]
pub struct ClusterStatus {
    shown: Mutex<Shown>,
}

/// The figures.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Whether a NATS server has accepted the login and answers.
    pub is_linked: bool,
    /// Times that the link was lost.
    pub losses: u64,
    /// Messages that had no room before they were read.
    pub dropped: u64,
    /// The own source, if there is one.
    pub own: Option<Outgoing>,
    /// Sources of other hubs, by name.
    pub remote: Vec<Incoming>,
}

/// The own source.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Its name.
    pub source: String,
    /// Whether this hub owns it.
    pub is_owner: bool,
    /// The reign of the hub that took it away; 0 if none did.
    pub deposed_by: u64,
    /// The session of the stream.
    pub session: u32,
    /// The owner's figures.
    pub figures: OwnerFigures,
}

/// The source of another hub.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// Its name.
    pub source: String,
    /// Whether its owner is heard.
    pub is_heard: bool,
    /// Whether its values are known, and nothing is missing.
    pub is_current: bool,
    /// The edge's figures.
    pub figures: EdgeFigures,
}

impl ClusterStatus {
    /// Returns a copy.
    pub fn get(&self) -> Shown {
        self.shown.lock().clone()
    }

    pub(super) fn set(&self, shown: Shown) {
        *self.shown.lock() = shown;
    }
}

impl fmt::Display for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerFigures {
            epoch,
            sequence,
            lag,
            log_lag,
            unacknowledged,
            frames,
            live_frames,
            repeated,
            gaps,
            log_losses,
            pages,
            snapshots,
            snapshot_age_ns,
            ..
        } = &self.figures;
        let age_ms = snapshot_age_ns.map_or(-1, |age| (age / 1_000_000) as i64);
        write!(
            formatter,
            "name={},owner={},epoch={epoch},sequence={sequence},lag={lag},log_lag={log_lag},\
             unacknowledged={unacknowledged},frames={frames},live_frames={live_frames},\
             repeated={repeated},gaps={gaps},log_losses={log_losses},pages={pages},\
             snapshots={snapshots},snapshot_age_ms={age_ms},deposed_by={}",
            self.source,
            u8::from(self.is_owner),
            self.deposed_by,
        )
    }
}

impl fmt::Display for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EdgeFigures {
            epoch,
            sequence,
            lag,
            kept,
            frames,
            duplicates,
            deposed,
            corrupt,
            fetches,
            gaps,
            lost,
            joins,
            symbols,
            ..
        } = &self.figures;
        write!(
            formatter,
            "name={},heard={},current={},epoch={epoch},sequence={sequence},lag={lag},kept={kept},\
             frames={frames},duplicates={duplicates},deposed={deposed},corrupt={corrupt},\
             fetches={fetches},gaps={gaps},lost={lost},joins={joins},symbols={symbols}",
            self.source,
            u8::from(self.is_heard),
            u8::from(self.is_current),
        )
    }
}
