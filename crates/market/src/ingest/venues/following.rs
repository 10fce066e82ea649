//! The consolidated value of a symbol follows the values of its venues.

use std::collections::HashSet;
use std::sync::Arc;

use tidewire_feed::wire::{self, Message, REPEATED, TradingState};
use tidewire_lastvalue::{MarketValue, PRICE_UNDEFINED, Trade};

use super::source_time_ns;
use crate::board::certainty;
use crate::consolidated::{VenueValue, consolidate};
use crate::ingest::apply::{Address, Work, quote_message};
use crate::ingest::whole::Traded;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;

impl Work<'_> {
    /// Brings the consolidated values up to date with these venues, whose flags have changed. Each
    /// is computed once: venues that leave together do not leave their symbol to the last of them.
    pub(in crate::ingest) fn follow_all(&mut self, venues: &[Arc<Topic>]) {
        let mut seen = HashSet::new();
        for venue in venues {
            if let Some(parent) = venue.parent()
                && seen.insert(parent.number)
            {
                self.follow(venue, None);
            }
        }
    }

    /// Brings the consolidated value up to date with one venue, which has had `message`, or whose
    /// flags have changed.
    #[cold]
    pub(in crate::ingest) fn follow(&mut self, venue: &Topic, message: Option<&Message>) {
        let Some(topic) = venue.parent().cloned() else {
            return;
        };
        let board = &self.market.board;
        let Some(before) = board.value(topic.number) else {
            return;
        };
        self.members.clear();
        let (mut own, next) = (None, self.journal.next_sequence());
        topic.with_members(|members| {
            let values = members.iter().filter_map(|member| {
                let value = board.value(member.topic.number)?;
                let found = VenueValue {
                    venue: member.venue,
                    opened: member.topic.opened(value.session_open, next),
                    value,
                };
                // Venues without a number of their own have the same one.
                if member.topic.number == venue.number {
                    own = Some(found);
                }
                Some(found)
            });
            self.members.extend(values);
        });
        let mut value = before;
        consolidate(&mut value, self.members);
        let is_trade = match (message, own) {
            (Some(message), Some(own)) => {
                let is_newer = self.has_newer_last((venue, &own.value), message, (&topic, &value));
                if is_newer {
                    (value.last, value.last_size) = (own.value.last, own.value.last_size);
                    (value.condition, value.venues.last) = (own.value.condition, own.venue);
                }
                is_newer
            }
            _ => false,
        };
        let is_untold = topic.take_untold();
        // Bars and the readers of the hub's own feed count each trade. The value may be the same
        // behind it: the session's figures leave out a venue that is not in the newest day.
        let is_counted = is_trade && matches!(message, Some(Message::Trade(_)));
        let is_other_away = topic.tell_away(board.is_away(&topic));
        if value == before && !is_untold && !is_counted {
            if is_other_away {
                self.tell_certainty(&topic);
            }
            return;
        }
        let stamp_before = (value.source_time_ns, value.receive_time_ns);
        if let Some(message) = message {
            // The venue's own time, also if another venue's clock is ahead: a trade keeps its own.
            match source_time_ns(message) {
                0 => {}
                time_ns => value.source_time_ns = time_ns,
            }
            value.receive_time_ns = self.receive_time_ns;
        }
        let address = Address {
            number: topic.number,
            venue: CONSOLIDATED,
            receive_time_ns: self.receive_time_ns,
        };
        let is_told = is_session_told(&before, &value, is_trade);
        let repeated = match message {
            Some(Message::Trade(trade)) => trade.condition & REPEATED,
            // A whole value has the last of its trades, which may have been told.
            Some(Message::LastValue(_)) => REPEATED,
            _ => 0,
        };
        let told = (is_trade.then_some(repeated), is_told);
        self.is_last_told = is_trade;
        match self.append_changes(&topic, &before, &value, told, address) {
            Some(sequence) => value.sequence = sequence,
            // The readers of the hub's own feed learn of no other time.
            None if is_told => (value.source_time_ns, value.receive_time_ns) = stamp_before,
            None => {}
        }
        let mut writer = self.market.consolidated.lock();
        if let Some(mut slot) = writer.slot(topic.number) {
            slot.replace(&value);
        }
        drop(writer);
        if !is_told {
            self.tell_record(&topic);
        }
        if is_other_away || certainty(before.flags) != certainty(value.flags) {
            self.tell_certainty(&topic);
        }
        self.publish(&topic);
    }

    /// Returns whether a venue's last trade after `message` is newer than that of its symbol. A
    /// trade counts in the order of arrival, because the venues' clocks differ. A whole value has
    /// the last trade of before too, if only its quote or the figures of its session are new.
    fn has_newer_last(
        &self,
        (venue, own): (&Topic, &MarketValue),
        message: &Message,
        (symbol, value): (&Topic, &MarketValue),
    ) -> bool {
        let record = match message {
            Message::Trade(trade) => return trade.price != PRICE_UNDEFINED,
            Message::LastValue(record) if own.last != PRICE_UNDEFINED => record,
            _ => return false,
        };
        let is_later = record.source_time_ns > value.source_time_ns;
        let is_own = |(number, _): &(u32, Traded)| *number == venue.number;
        let before = self.whole_before.filter(is_own);
        let until_ns = record.figures.map_or(0, |figures| figures.traded_until_ns);
        match (before, until_ns) {
            (Some((_, before)), _) if before.has_last() => {
                is_later && Traded::new(own, venue.newest_trade_ns()).has_newer_last(&before)
            }
            (_, 0) => is_later,
            // The symbol may have had its trades from another topic.
            _ => until_ns > symbol.newest_trade_ns(),
        }
    }

    /// Appends what has changed of a consolidated value. A `trade` may be [`REPEATED`]. Unless
    /// `is_session_told`, a record with the session's figures follows. Returns the last sequence.
    fn append_changes(
        &mut self,
        topic: &Topic,
        before: &MarketValue,
        value: &MarketValue,
        (trade, is_session_told): (Option<u32>, bool),
        address: Address,
    ) -> Option<u64> {
        let (symbol, source) = (address.number, address.venue);
        let source_time_ns = value.source_time_ns;
        let mut sequence = None;
        if let Some(repeated) = trade {
            let trade = wire::Trade {
                symbol,
                source,
                source_time_ns,
                price: value.last,
                size: value.last_size,
                condition: value.condition | repeated,
            };
            let traded = self.journal.append(&Message::Trade(trade));
            topic.traded_at(source_time_ns, traded);
            sequence = Some(traded);
        }
        if value.quote() != before.quote() {
            let quote = quote_message(symbol, source, source_time_ns, value.quote());
            sequence = Some(self.journal.append(&quote));
        }
        if value.status != before.status {
            let status = wire::TradingStatus {
                symbol,
                source,
                source_time_ns,
                state: TradingState(value.status.state),
                reason: value.status.reason,
            };
            sequence = Some(self.journal.append(&Message::Status(status)));
            topic.status_at(source_time_ns);
        }
        if !is_session_told && value.trading_day != before.trading_day {
            let start = wire::SessionStart {
                symbol,
                source,
                source_time_ns,
                reference: value.reference.price,
                trading_day: value.trading_day,
                kind: wire::ReferenceKind(value.reference.kind),
                rolls: 1,
            };
            sequence = Some(self.journal.append(&Message::SessionStart(start)));
        }
        sequence
    }
}

/// Returns whether the readers of a consolidated value know its session without a record: it has
/// had this trade, or nothing at all. Venues that roll, leave or repeat a session change sums in
/// ways that no single message describes.
fn is_session_told(before: &MarketValue, value: &MarketValue, is_trade: bool) -> bool {
    let mut expected = *before;
    if is_trade {
        let (price, size) = (value.last, value.last_size);
        expected.add_to_session(Trade {
            price,
            size,
            condition: value.condition,
        });
    }
    let session = |value: &MarketValue| {
        let (open, high, low) = (value.session_open, value.high, value.low);
        let sums = (value.volume, value.turnover, value.trades);
        (sums, open, high, low, value.trading_day, value.reference)
    };
    session(&expected) == session(value)
}
