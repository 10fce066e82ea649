//! The table of `demo`: the busiest topics and the hub's figures, as rows of text.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidewire_hub::Hub;
use tidewire_lastvalue::{FLAGS_DOUBT, FLAGS_STALE, MarketValue};

use crate::columns::Figure;
use crate::units::{counted, grouped, latency, price};

/// The figures of a hub at one moment.
#[derive(Debug)]
pub(crate) struct HubFigures {
    pub(crate) rows: Vec<TopicRow>,
    pub(crate) topics: usize,
    /// Messages applied per second since the previous sample.
    pub(crate) rate: u64,
    pub(crate) applied: u64,
    pub(crate) lost: u64,
    pub(crate) gaps: u64,
    pub(crate) latency: Option<[u64; 3]>,
    pub(crate) clients: usize,
    pub(crate) delivered: u64,
    pub(crate) conflated: u64,
    pub(crate) uptime: Duration,
}

/// One topic.
#[derive(Debug)]
pub(crate) struct TopicRow {
    pub(crate) symbol: String,
    pub(crate) value: MarketValue,
}

/// Samples a hub repeatedly.
#[derive(Debug)]
pub(crate) struct Watcher {
    started: Instant,
    last: Instant,
    last_applied: u64,
}

impl Watcher {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            last: now,
            last_applied: 0,
        }
    }

    /// Samples the hub, with its `rows` busiest topics.
    pub(crate) fn look(&mut self, hub: &Hub, rows: usize) -> HubFigures {
        let topics = hub.market.board.topics();
        let mut busiest: Vec<TopicRow> = topics
            .iter()
            .filter_map(|topic| {
                let value = hub.market.board.value(topic.number)?;
                let symbol = String::from_utf8_lossy(topic.symbol()).into_owned();
                Some(TopicRow { symbol, value })
            })
            .collect();
        busiest.sort_by(|one, other| {
            let order = other.value.updates.cmp(&one.value.updates);
            order.then_with(|| one.symbol.cmp(&other.symbol))
        });
        busiest.truncate(rows);
        let applied = hub.market.ingest.applied.load(Ordering::Relaxed);
        let now = Instant::now();
        let seconds = now.duration_since(self.last).as_secs_f64();
        let gained = applied.saturating_sub(self.last_applied) as f64;
        let rate = if seconds > 0.0 {
            (gained / seconds) as u64
        } else {
            0
        };
        (self.last, self.last_applied) = (now, applied);
        let statistics = hub.market.latency.statistics();
        HubFigures {
            rows: busiest,
            topics: topics.len(),
            rate,
            applied,
            lost: hub.market.ingest.lost.load(Ordering::Relaxed),
            gaps: hub.market.ingest.gaps.load(Ordering::Relaxed),
            latency: (statistics.count > 0).then_some([
                statistics.p50_ns,
                statistics.p99_ns,
                statistics.p999_ns,
            ]),
            clients: hub.server.clients.len(),
            delivered: hub.post.counters.delivered.load(Ordering::Relaxed),
            conflated: hub.post.counters.conflated.load(Ordering::Relaxed),
            uptime: now.duration_since(self.started),
        }
    }
}

impl HubFigures {
    /// Returns the percentiles of the latency as text; `-` if no message has one, as in a replay of
    /// old messages.
    pub(crate) fn percentiles(&self) -> [String; 3] {
        self.latency
            .map_or_else(|| [(); 3].map(|()| "-".to_owned()), |all| all.map(latency))
    }

    /// Returns the line of figures.
    pub(crate) fn figures(&self) -> String {
        let [p50, p99, p999] = self.percentiles();
        format!(
            "{}/s · {} messages · {} lost · p50 {p50} p99 {p99} p99.9 {p999} · up {}",
            grouped(self.rate),
            grouped(self.applied),
            grouped(self.lost),
            uptime(self.uptime)
        )
    }

    /// Returns the line about subscribers.
    pub(crate) fn listeners(&self) -> String {
        format!(
            "{} · {} · {} delivered, {} conflated · {}",
            counted(self.topics as u64, "topic"),
            counted(self.clients as u64, "Redis client"),
            counted(self.delivered, "message"),
            grouped(self.conflated),
            counted(self.gaps, "gap")
        )
    }
}

/// The columns: title, minimum width, and the order in which they are dropped if there is little
/// room.
pub(crate) const COLUMNS: [(&str, usize, u8); 7] = [
    ("symbol", 12, 0),
    ("bid", 11, 2),
    ("ask", 11, 2),
    ("last", 11, 0),
    ("volume", 11, 3),
    ("change %", 8, 1),
    ("updates", 9, 4),
];

/// The column with the price change, which is coloured.
pub(crate) const CHANGE_COLUMN: usize = 5;

impl TopicRow {
    /// Returns the cells of the row.
    pub(crate) fn figures(&self) -> [Figure; 7] {
        let value = &self.value;
        let change = value.change_ppm().map_or_else(
            || "-".to_owned(),
            |parts_per_million| format!("{:+.2}", parts_per_million as f64 / 10_000.0),
        );
        let stale = match value.flags {
            flags if flags & FLAGS_STALE != 0 => " (stale)",
            flags if flags & FLAGS_DOUBT != 0 => " (in doubt)",
            _ => "",
        };
        [
            Figure::text(format!("{}{stale}", self.symbol)),
            Figure::text(price(value.bid)),
            Figure::text(price(value.ask)),
            Figure::text(price(value.last)),
            Figure::count(value.volume),
            Figure::text(change),
            Figure::count(value.updates),
        ]
    }

    /// Returns the texts of the row, not shortened.
    pub(crate) fn texts(&self) -> [String; 7] {
        self.figures().map(|figure| figure.text)
    }
}

fn uptime(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!(
        "{}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}
