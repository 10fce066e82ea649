//! What the feed has delivered: the latest values, and the quality of the stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tidewire_feed::client::{ClientCounters, Gap, LossReason, Side, Sink};
use tidewire_feed::wire::{
    Definition, EndOfSessionAcknowledgement, LastValue, LoginAccepted, Message, Refused, Venue,
};

use tidewire_lane::unix_ns;

use super::spread::Spread;

/// The stream as this program sees it. Its lock is held for one receive call at a time.
#[derive(Debug)]
pub(super) struct Model {
    /// By the hub's symbol number.
    rows: HashMap<u32, SymbolState>,
    /// Names by the hub's numbers of venues.
    pub(super) venues: HashMap<u16, Arc<str>>,
    /// Symbols that did not fit.
    pub(super) left_out: u64,
    pub(super) connection: Connection,
    /// All current values have arrived, and no later loss is still without a new snapshot.
    pub(super) is_complete: bool,
    pub(super) session: u32,
    pub(super) next_sequence: u64,
    pub(super) spread: Spread,
    pub(super) loss: Loss,
    /// Messages since the last reset.
    pub(super) messages: u64,
    /// When the figures began, and when they were last sampled.
    pub(super) since: Instant,
    pub(super) looked: Instant,
    /// Messages at the last sample.
    pub(super) looked_messages: u64,
    /// Wall clock when the current bytes arrived, ns since the UNIX epoch.
    pub(super) received_ns: u64,
}

/// One symbol.
#[derive(Debug)]
pub(super) struct SymbolState {
    /// As the hub has it, with any characters; empty until the definition arrives.
    pub(super) name: String,
    pub(super) value: LastValue,
    /// Updates received here, and their number at the last sample.
    pub(super) messages: u64,
    pub(super) looked: u64,
}

/// Losses. Every field only grows until a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) gaps: u64,
    pub(super) recovered: u64,
    /// Lost for good, for any reason other than conflation.
    pub(super) lost: u64,
    /// Skipped by the hub because this program was too slow; a snapshot replaced them.
    pub(super) conflated: u64,
    pub(super) corrupt: u64,
    pub(super) duplicate: u64,
}

/// The state of the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) state: ConnectionState,
    pub(super) since: Instant,
    /// Connections after the first.
    pub(super) reconnects: u64,
    /// Why the last connection ended or failed.
    pub(super) reason: String,
    pub(super) logins: u64,
}

/// The states of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Connecting,
    /// The hub has accepted the login.
    Connected,
    /// It will be retried.
    Lost,
    /// The hub has announced the end of the stream.
    Ended,
}

impl ConnectionState {
    pub(super) fn name(self) -> &'static str {
        match self {
            ConnectionState::Connecting => "connecting",
            ConnectionState::Connected => "connected",
            ConnectionState::Lost => "lost",
            ConnectionState::Ended => "ended",
        }
    }
}

impl Connection {
    pub(super) fn describe(&self) -> String {
        match self.reason.is_empty() {
            true => "no reply".to_owned(),
            false => self.reason.clone(),
        }
    }

    fn enter(&mut self, state: ConnectionState) {
        if self.state != state {
            self.state = state;
            self.since = Instant::now();
        }
    }
}

impl Model {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            rows: HashMap::new(),
            venues: HashMap::new(),
            left_out: 0,
            connection: Connection {
                state: ConnectionState::Connecting,
                since: now,
                reconnects: 0,
                reason: String::new(),
                logins: 0,
            },
            is_complete: false,
            session: 0,
            next_sequence: 0,
            spread: Spread::new(),
            loss: Loss::default(),
            messages: 0,
            since: now,
            looked: now,
            looked_messages: 0,
            received_ns: 0,
        }
    }

    /// Resets the figures and keeps the values.
    pub(super) fn reset(&mut self) {
        self.spread = Spread::new();
        self.loss = Loss::default();
        (self.messages, self.looked_messages) = (0, 0);
        self.since = Instant::now();
        self.looked = self.since;
        for row in self.rows.values_mut() {
            (row.messages, row.looked) = (0, 0);
        }
    }

    /// Returns the symbols that have a name.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = &mut SymbolState> {
        let rows = self.rows.values_mut();
        rows.filter(|row| !row.name.is_empty())
    }

    /// Notes that the connection has ended or failed.
    pub(super) fn lost(&mut self, reason: String) {
        self.connection.reason = reason;
        self.connection.enter(ConnectionState::Lost);
    }

    /// Notes that a connection attempt has begun.
    pub(super) fn connecting(&mut self) {
        if self.connection.state != ConnectionState::Lost {
            self.connection.enter(ConnectionState::Connecting);
        }
    }

    /// Adds what the receiver counted in one call.
    pub(super) fn count(&mut self, before: &ClientCounters, after: &ClientCounters) {
        self.loss.gaps += after.gaps - before.gaps;
    }

    fn row(&mut self, symbol: u32) -> Option<&mut SymbolState> {
        if !self.rows.contains_key(&symbol) {
            if self.rows.len() == SYMBOLS_MAX {
                self.left_out += 1;
                return None;
            }
            let row = SymbolState {
                name: String::new(),
                value: LastValue::new(symbol),
                messages: 0,
                looked: 0,
            };
            self.rows.insert(symbol, row);
        }
        self.rows.get_mut(&symbol)
    }
}

impl Sink for Model {
    fn message(&mut self, sequence: u64, message: &Message) {
        self.messages += 1;
        let time_ns = match message {
            Message::Quote(quote) => Some(quote.source_time_ns),
            Message::Trade(trade) => Some(trade.source_time_ns),
            _ => None,
        };
        if let Some(time_ns) = time_ns {
            if time_ns > self.received_ns {
                // The message arrived after the clock was read. Only a timestamp that is still in
                // the future comes from a different clock.
                self.received_ns = unix_ns();
            }
            self.spread.record(time_ns, self.received_ns);
        }
        let Some(symbol) = message.symbol() else {
            return;
        };
        let Some(row) = self.row(symbol) else { return };
        row.messages += 1;
        match message {
            // The hub took over a whole value from its own source.
            Message::LastValue(value) => {
                let record = LastValue { sequence, ..*value };
                row.value.merge(&record);
            }
            message => {
                row.value.apply(sequence, message);
            }
        }
    }

    fn definition(&mut self, sequence: u64, definition: &Definition) {
        let Some(row) = self.row(definition.symbol) else {
            return;
        };
        row.name.clear();
        row.name.push_str(definition.name.as_str());
        if sequence > 0 {
            row.value.apply(sequence, &Message::Definition(*definition));
        } else if row.value.sequence == 0 {
            row.value.open = definition.open;
        }
    }

    fn venue(&mut self, venue: &Venue) {
        self.venues.insert(venue.source, venue.name.as_str().into());
    }

    fn snapshot_record(&mut self, _: u64, record: &LastValue) {
        if let Some(row) = self.row(record.symbol) {
            row.value.merge(record);
        }
    }

    fn snapshot_complete(&mut self, _: u64, _: u64) {
        self.is_complete = true;
    }

    fn gap(&mut self, gap: Gap) {
        match gap {
            Gap::Recovered { count, .. } => add(&mut self.loss.recovered, count),
            Gap::Lost {
                count,
                reason: LossReason::Conflated,
                ..
            } => add(&mut self.loss.conflated, count),
            Gap::Lost { count, .. } => add(&mut self.loss.lost, count),
            _ => {}
        }
    }

    fn accepted(&mut self, _: Side, accepted: &LoginAccepted) {
        self.connection.reconnects += u64::from(self.connection.logins > 0);
        self.connection.logins += 1;
        self.connection.reason.clear();
        self.connection.enter(ConnectionState::Connected);
        self.session = accepted.session;
    }

    fn refused(&mut self, _: Side, refused: &Refused) {
        refused
            .text
            .as_str()
            .clone_into(&mut self.connection.reason);
    }

    /// Symbol numbers are valid for one session only.
    fn session_changed(&mut self, _: u32, new: u32) {
        self.rows.clear();
        self.venues.clear();
        self.session = new;
        self.is_complete = false;
    }

    fn end_of_session(&mut self, _: &EndOfSessionAcknowledgement) {
        self.connection.enter(ConnectionState::Ended);
    }
}

/// Adds a count that the hub reports, which may be any number.
fn add(total: &mut u64, count: u64) {
    *total = total.saturating_add(count);
}

/// The default limit on a hub's market topics.
const SYMBOLS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{Name, Trade, UNDEFINED_PRICE};

    fn defined(model: &mut Model, symbol: u32, name: &str) {
        let name = Name::new(name).unwrap();
        model.definition(0, &Definition::new(symbol, name));
    }

    fn trade(symbol: u32, price: i64) -> Message {
        Message::Trade(Trade {
            symbol,
            price,
            size: 1,
            source_time_ns: 1,
            ..Trade::default()
        })
    }

    #[test]
    fn a_new_session_leaves_nothing_of_the_old_ones_symbols() {
        let mut model = Model::new();
        defined(&mut model, 3, "A");
        model.message(1, &trade(3, 5));
        assert_eq!(model.rows().count(), 1);
        model.session_changed(1, 2);
        assert_eq!(model.rows().count(), 0);
        defined(&mut model, 3, "B");
        assert_eq!(model.rows().next().unwrap().value.last, UNDEFINED_PRICE);
    }

    #[test]
    fn a_message_that_was_stamped_while_others_were_read_is_of_the_same_clock() {
        let mut model = Model::new();
        model.received_ns = unix_ns();
        let stamped = |source_time_ns| {
            Message::Trade(Trade {
                source_time_ns,
                ..Trade::default()
            })
        };
        let before = model.received_ns + 1;
        while unix_ns() <= before {}
        model.message(1, &stamped(before));
        assert_eq!(model.spread.ahead(), 0);
        model.message(2, &stamped(unix_ns() + 3_600_000_000_000));
        assert_eq!(model.spread.ahead(), 1, "an hour ahead is another clock");
    }

    #[test]
    fn a_hub_that_claims_endless_losses_is_counted_to_the_end() {
        let mut model = Model::new();
        for from in [1, 2] {
            model.gap(Gap::Lost {
                from,
                count: u64::MAX - from,
                reason: LossReason::TooOld,
            });
            let count = u64::MAX;
            model.gap(Gap::Recovered { from, count });
        }
        assert_eq!(
            (model.loss.lost, model.loss.recovered),
            (u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn a_reset_forgets_figures_and_keeps_values() {
        let mut model = Model::new();
        defined(&mut model, 0, "A\u{1b}[2J");
        model.received_ns = 1_001;
        model.message(1, &trade(0, 5));
        model.gap(Gap::Lost {
            from: 2,
            count: 7,
            reason: LossReason::Conflated,
        });
        model.spread.turn();
        assert_eq!((model.loss.conflated, model.spread.all().count), (7, 1));
        model.reset();
        assert_eq!((model.loss, model.spread.all().count), (Loss::default(), 0));
        let row = model.rows().next().unwrap();
        assert_eq!((row.name.as_str(), row.value.last), ("A\u{1b}[2J", 5));
    }
}
