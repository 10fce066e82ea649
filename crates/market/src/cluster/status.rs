//! What INFO and the metrics show of the cluster.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use tidewire_cluster::{EdgeFigures, OwnerFigures};
use tidewire_lane::unix_ns;

/// The state of the cluster's threads, as it was last shown.
#[derive(Debug, Default)]
pub struct ClusterStatus {
    shown: Mutex<Shown>,
    relays: Mutex<BTreeMap<usize, Relay>>,
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
    /// Sources that this hub relays, in the order of its file.
    pub relays: Vec<Relay>,
}

/// A source that this hub publishes again for another site.
#[derive(Clone, Debug, Default)]
pub struct Relay {
    /// The source here.
    pub source: String,
    /// The cluster of the other site.
    pub cluster: String,
    /// The source there.
    pub name: String,
    /// Whether a NATS server has accepted the relay's login and answers.
    pub is_linked: bool,
    /// Whether the source may not be relayed there: it was relayed before, or has come through that
    /// cluster.
    pub is_refused: bool,
    /// Newest values a second and symbol.
    pub hz: u32,
    /// Symbols that are relayed.
    pub symbols: u64,
    /// Messages of the source about these symbols.
    pub messages_in: u64,
    /// Bytes of these messages.
    pub bytes_in: u64,
    /// Bytes of all frames that the relay has published.
    pub bytes_out: u64,
    /// The relay as an owner.
    pub own: Outgoing,
}

impl Relay {
    /// Returns the bytes that did not go to the other site.
    pub fn bytes_saved(&self) -> u64 {
        self.bytes_in.saturating_sub(self.bytes_out)
    }
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
    /// Why one of its streams cannot be used; empty if all can.
    pub fault: String,
    /// The owner's figures.
    pub figures: OwnerFigures,
}

/// The source of another hub.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// Its name.
    pub source: String,
    /// The number under which it has claimed its topics.
    pub number: u32,
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
        let mut shown = self.shown.lock().clone();
        shown.relays = self.relays.lock().values().cloned().collect();
        shown
    }

    /// Returns the number of a received source and what is known of it; `None` before its first
    /// frame.
    pub(super) fn received(&self, name: &str) -> Option<(u32, EdgeFigures)> {
        let shown = self.shown.lock();
        let found = shown.remote.iter().find(|source| source.source == name)?;
        (found.figures.epoch > 0).then_some((found.number, found.figures))
    }

    /// Notes at once what is known of a received source.
    pub(super) fn note_received(&self, name: &str, figures: EdgeFigures) {
        let mut shown = self.shown.lock();
        let mut sources = shown.remote.iter_mut();
        if let Some(found) = sources.find(|source| source.source == name) {
            found.figures = figures;
        }
    }

    pub(super) fn set_relay(&self, number: usize, relay: Relay) {
        self.relays.lock().insert(number, relay);
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

impl fmt::Display for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = u8::from;
        write!(
            formatter,
            "name={},cluster={},source={},link={},owner={},refused={},hz={},symbols={},\
             messages_in={},bytes_in={},bytes_out={},bytes_saved={},epoch={},sequence={},lag={},\
             unacknowledged={},gaps={}",
            self.name,
            self.cluster,
            self.source,
            flag(self.is_linked),
            flag(self.own.is_owner),
            flag(self.is_refused),
            self.hz,
            self.symbols,
            self.messages_in,
            self.bytes_in,
            self.bytes_out,
            self.bytes_saved(),
            self.own.figures.epoch,
            self.own.figures.sequence,
            self.own.figures.lag,
            self.own.figures.unacknowledged,
            self.own.figures.gaps,
        )
    }
}

impl fmt::Display for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EdgeFigures {
            epoch,
            relays,
            path,
            is_echo,
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
            snapshot_taken_ms,
            ..
        } = &self.figures;
        write!(
            formatter,
            "name={},heard={},current={},epoch={epoch},relays={relays},\
             sequence={sequence},lag={lag},kept={kept},frames={frames},duplicates={duplicates},deposed={deposed},corrupt={corrupt},\
             fetches={fetches},gaps={gaps},lost={lost},joins={joins},symbols={symbols},\
             snapshot_age_ms={},path={},echo={}",
            self.source,
            u8::from(self.is_heard),
            u8::from(self.is_current),
            age_ms(*snapshot_taken_ms),
            path.unwrap_or_default(),
            u8::from(*is_echo),
        )
    }
}

/// Returns the age of a snapshot by this machine's clock; -1 if its time is unknown.
fn age_ms(taken_ms: u64) -> i64 {
    match taken_ms {
        0 => -1,
        taken_ms => (unix_ns() / 1_000_000).saturating_sub(taken_ms) as i64,
    }
}
