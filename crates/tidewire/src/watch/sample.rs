//! A sample of all figures at one moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidewire_feed::wire::{Figures, LastValue, UNDEFINED_PRICE};

use super::info::{Figures as HubFigures, InfoReader};
use super::model::{Connection, Loss, Model};
use super::spread::Percentiles;

/// The figures that are shown.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) rows: Vec<SymbolRow>,
    pub(super) left_out: u64,
    pub(super) patterns: String,
    pub(super) connection: Connection,
    pub(super) connected_for: Duration,
    pub(super) session: u32,
    pub(super) next_sequence: u64,
    pub(super) loss: Loss,
    /// Messages since the last reset.
    pub(super) messages: u64,
    pub(super) period: Duration,
    /// Messages per second since the previous sample.
    pub(super) rate: f64,
    pub(super) latest: Percentiles,
    pub(super) all: Percentiles,
    /// 99th percentile of the latency in each interval, ns; oldest first.
    pub(super) history: Vec<u64>,
    pub(super) ahead: u64,
    pub(super) old: u64,
    /// The hub's own figures and rate, or why there are none.
    pub(super) hub: Result<(HubFigures, f64), String>,
}

/// One symbol.
#[derive(Clone, Debug)]
pub(super) struct SymbolRow {
    pub(super) symbol: String,
    pub(super) value: LastValue,
    /// Name of the venue of the last update, or its number; empty if it has none.
    pub(super) venue: Arc<str>,
    /// Updates of the session, by the hub's count where that is known.
    pub(super) updates: u64,
    /// Updates per second received here since the previous sample.
    pub(super) rate: f64,
}

impl Sample {
    /// Takes a sample and begins the next interval.
    pub(super) fn take(
        model: &mut Model,
        info: &InfoReader,
        patterns: &str,
        at_least: Duration,
    ) -> Self {
        let now = Instant::now();
        let interval = now.duration_since(model.looked);
        let seconds = interval.as_secs_f64().max(at_least.as_secs_f64() / 2.0);
        let gained = model.messages - model.looked_messages;
        let venues = model.venues.clone();
        let rows = model.rows().map(|row| {
            let gained = row.messages - row.looked;
            row.looked = row.messages;
            SymbolRow {
                symbol: row.name.clone(),
                value: row.value,
                venue: match (venues.get(&row.value.source), row.value.source) {
                    (Some(name), _) => name.clone(),
                    (None, 0) => Arc::default(),
                    (None, number) => number.to_string().into(),
                },
                updates: row.value.updates,
                rate: gained as f64 / seconds,
            }
        });
        let rows = rows.collect();
        model.looked = now;
        model.looked_messages = model.messages;
        let latest = model.spread.turn();
        Self {
            rows,
            left_out: model.left_out,
            patterns: patterns.to_owned(),
            connection: model.connection.clone(),
            connected_for: now.duration_since(model.connection.since),
            session: model.session,
            next_sequence: model.next_sequence,
            loss: model.loss,
            messages: model.messages,
            period: now.duration_since(model.since),
            rate: gained as f64 / seconds,
            latest,
            all: model.spread.all(),
            history: model.spread.history().map(|one| one.p99_ns).collect(),
            ahead: model.spread.ahead(),
            old: model.spread.old(),
            hub: info.figures(),
        }
    }
}

impl SymbolRow {
    /// Returns the change of the last price since the session's reference or open, in parts per
    /// million of its magnitude.
    pub(super) fn change_ppm(&self) -> Option<i64> {
        let (last, base) = (self.value.last, self.value.change_base());
        if last == UNDEFINED_PRICE || base == UNDEFINED_PRICE || base == 0 {
            return None;
        }
        let change = (i128::from(last) - i128::from(base)) * 1_000_000;
        i64::try_from(change / i128::from(base).abs()).ok()
    }

    /// Returns the trading state, or `stale` or `in doubt`.
    pub(super) fn state(&self) -> &'static str {
        let flags = self.value.figures.map_or(0, |figures| figures.flags);
        match flags {
            flags if flags & Figures::STALE != 0 => "stale",
            flags if flags & Figures::IN_DOUBT != 0 => "in doubt",
            _ => self.value.state.name(),
        }
    }

    /// Returns the last price, if there is one.
    pub(super) fn last(&self) -> Option<i64> {
        defined(self.value.last)
    }
}

/// Returns a price, unless it is the value for "no price".
pub(super) fn defined(price: i64) -> Option<i64> {
    (price != UNDEFINED_PRICE).then_some(price)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(last: i64, open: i64) -> SymbolRow {
        SymbolRow {
            symbol: String::new(),
            value: LastValue {
                last,
                open,
                ..LastValue::new(0)
            },
            venue: Arc::default(),
            updates: 0,
            rate: 0.0,
        }
    }

    #[test]
    fn change_is_told_only_where_both_prices_are_there() {
        assert_eq!(row(101, 100).change_ppm(), Some(10_000));
        assert_eq!(row(99, 100).change_ppm(), Some(-10_000));
        assert_eq!(row(UNDEFINED_PRICE, 100).change_ppm(), None);
        assert_eq!(row(1, 0).change_ppm(), None);
        assert_eq!(row(-101, -100).change_ppm(), Some(-10_000));
        assert_eq!(row(i64::MIN, 1).change_ppm(), None, "out of range");
    }
}
