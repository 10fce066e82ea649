//! Statuses: trading states, and the beginnings of sessions. They have no number in the sequence of
//! their instrument, so that only the packets show whether one was lost.

use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Message as Output, TradingState, TradingStatus};

use crate::channel::Channel;
use crate::day::{Event, Status};
use crate::schema::*;

/// What the statuses of a group, or of a product of it, have said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupStatus {
    /// The last trading state, with its reason.
    state: Option<(TradingState, u32)>,
    /// Sequence of the packet that gave it, and number of the status.
    state_at: (u64, u64),
    /// The last trading day, and the sequence of the packet that gave it first.
    date: Option<u16>,
    date_from: u64,
    /// The day before it.
    earlier_date: Option<u16>,
    /// Sequence of the packet that last reset the statistics; 0 for none.
    reset_from: u64,
}

impl GroupStatus {
    /// The sequence of the packets begins again.
    pub(crate) fn forget_sequences(&mut self) {
        (self.date_from, self.reset_from) = (0, 0);
        self.state_at.0 = 0;
    }

    fn note(&mut self, sequence: u64, date: Option<u16>, is_reset: bool) {
        if date > self.date {
            self.earlier_date = self.date;
            (self.date, self.date_from) = (date, sequence);
        }
        if is_reset {
            self.reset_from = sequence;
        }
    }
}

impl Channel {
    /// Applies a status: of one instrument, or of all of a group (and product).
    pub(crate) fn security_status<S: Sink>(&mut self, status: &SecurityStatus30<'_>, sink: &mut S) {
        let state = status.security_trading_status().and_then(trading_state);
        let state = state.map(|state| (state, u32::from(status.halt_reason().0)));
        let date = status.trade_date();
        let is_reset = status.security_trading_event() == SecurityTradingEvent::RESET_STATISTICS;
        self.status_number += 1;
        let members = match status.security_id() {
            Some(security_id) => {
                let index = self.find(security_id);
                if let Some(index) = index {
                    self.date_by_group(index, *status.security_group(), date);
                }
                index.into_iter().collect()
            }
            None => {
                self.note_group_status(status, state, is_reset);
                self.members(status.security_group(), status.asset())
            }
        };
        for index in members {
            self.take_status(index, state, (date, is_reset), sink);
        }
    }

    /// Applies a status to one instrument.
    fn take_status<S: Sink>(
        &mut self,
        index: u32,
        state: Option<(TradingState, u32)>,
        (date, is_reset): (Option<u16>, bool),
        sink: &mut S,
    ) {
        if let Some((state, reason)) = state {
            self.instruments[index as usize].details.state_at = (self.sequence, self.status_number);
            self.set_state(index, state, reason, sink);
        }
        let instrument = &mut self.instruments[index as usize];
        let day = instrument.details.day;
        let is_doubtful = instrument.has_doubtful_figures();
        let status = Status {
            date,
            is_reset,
            is_complete: instrument.has_all_entries(),
            is_start: self.from_start,
        };
        let event = Event::Status(status);
        // Before a later date, the figures are of the day before if they came before the doubt.
        let is_torn = instrument.details.has_figures_waiting();
        let begins = instrument.details.apply(self.sequence, event, is_doubtful);
        // A first date does not tell whether it is that of the figures so far, unless they are all.
        let is_first = day.trade_date.is_none() && date.is_some();
        let is_unknown = is_first && !is_reset && !self.from_start && !day.is_blank();
        let is_dated = is_first || date.is_some() && date == day.trade_date;
        let is_known = is_reset || !is_torn && (begins || is_dated && day.is_blank());
        let is_known = is_known && !instrument.details.needs_snapshot;
        if is_unknown && !instrument.is_session_doubtful {
            self.doubt_session(index);
        }
        let is_right_again = self.settle(index, state.is_some(), is_known);
        if begins {
            self.show_session(index, sink);
        } else if date > day.trade_date || is_right_again {
            let details = &mut self.instruments[index as usize].details;
            details.time_ns = details.time_ns.max(self.event_time_ns);
            self.publish_record(index, sink);
        }
        if is_right_again {
            self.tell_if_right(sink);
        }
    }

    /// Shows that an instrument's session has begun with the current packet.
    fn show_session<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let instrument = &mut self.instruments[index as usize];
        let details = &mut instrument.details;
        details.session_at = self.sequence;
        details.time_ns = details.time_ns.max(self.event_time_ns);
        if instrument.is_defined
            && let Some(definition) = instrument.details.definition(symbol, source)
        {
            self.counters.definitions += 1;
            sink.definition(self.sequence, &definition);
        }
        self.publish_record(index, sink);
    }

    /// Returns the instruments of a group and product; a blank product means all.
    fn members(&self, group: &[u8; 6], asset: &[u8; 6]) -> Vec<u32> {
        let is_blank = is_blank(asset);
        let members = self.groups.get(group).into_iter().flatten();
        members
            .copied()
            .filter(|&index| is_blank || self.instruments[index as usize].details.asset == *asset)
            .collect()
    }

    /// Gives an instrument a trading state, and publishes it if it is another one.
    pub(crate) fn set_state<S: Sink>(
        &mut self,
        index: u32,
        state: TradingState,
        reason: u32,
        sink: &mut S,
    ) {
        let instrument = &mut self.instruments[index as usize];
        let details = &mut instrument.details;
        if (details.trading_state, details.halt_reason) == (state, reason) {
            return;
        }
        (details.trading_state, details.halt_reason) = (state, reason);
        details.time_ns = details.time_ns.max(self.event_time_ns);
        if !instrument.is_defined {
            return;
        }
        self.counters.statuses += 1;
        let status = TradingStatus {
            symbol: self.config.symbol_first + index,
            source: self.config.source,
            source_time_ns: instrument.details.time_ns,
            state,
            reason,
        };
        sink.message(self.sequence, &Output::Status(status));
    }

    /// Notes a status of a group for instruments that are defined later.
    fn note_group_status(
        &mut self,
        status: &SecurityStatus30<'_>,
        state: Option<(TradingState, u32)>,
        is_reset: bool,
    ) {
        let asset = match is_blank(status.asset()) {
            true => ALL_PRODUCTS,
            false => *status.asset(),
        };
        let key = (*status.security_group(), asset);
        if self.group_statuses.len() >= GROUPS_MAX && !self.group_statuses.contains_key(&key) {
            self.counters.refused += 1;
            return;
        }
        let known = self.group_statuses.entry(key).or_default();
        if state.is_some() {
            known.state = state;
            known.state_at = (self.sequence, self.status_number);
        }
        known.note(self.sequence, status.trade_date(), is_reset);
    }

    /// Applies what its group has said of the day, before the first status of its own, of an
    /// instrument that is not defined yet.
    fn date_by_group(&mut self, index: u32, group: [u8; 6], date: Option<u16>) {
        let instrument = &self.instruments[index as usize];
        if instrument.is_defined {
            return;
        }
        if let Some(status) = self.group_statuses.get(&(group, ALL_PRODUCTS)).copied() {
            let day = &instrument.details.day;
            match day.trade_date {
                Some(_) if day.is_before(status.date) => self.catch_up(index, &status),
                Some(_) => {}
                // Its figures so far are of no later day.
                None => self.date_late(index, status.date),
            }
        }
        // Its product is not known before its definition.
        let details = &self.instruments[index as usize].details;
        let known = details.day.trade_date;
        let products = (group, ALL_PRODUCTS)..=(group, [u8::MAX; 6]);
        let mut statuses = self.group_statuses.range(products);
        let is_unclear = statuses.any(|(_, status)| match known {
            None => status.date < date || status.earlier_date.is_some(),
            Some(_) => status.date > known && status.date_from <= details.figures_at,
        });
        if is_unclear && !details.day.is_blank() {
            self.doubt_session(index);
        }
    }

    /// Gives an instrument the date of its figures so far.
    fn date_late(&mut self, index: u32, date: Option<u16>) {
        let status = Status {
            date,
            is_start: self.from_start,
            ..Status::default()
        };
        let instrument = &mut self.instruments[index as usize];
        let is_doubtful = instrument.has_doubtful_figures();
        let event = Event::Status(status);
        instrument.details.apply(self.sequence, event, is_doubtful);
    }

    /// Returns what the statuses of an instrument's group and product have said.
    fn statuses_of(&self, index: u32, asset: [u8; 6]) -> [Option<GroupStatus>; 2] {
        let group = self.instruments[index as usize].details.group;
        let keys = [ALL_PRODUCTS, asset].map(|asset| (group, asset));
        keys.map(|key| self.group_statuses.get(&key).copied())
    }

    /// Applies what the statuses of its group have said of the session of an instrument that is
    /// defined later. If its figures are of two sessions, it waits for a snapshot.
    pub(crate) fn date_of_group(&mut self, index: u32, asset: [u8; 6]) {
        let mut known = self.statuses_of(index, asset);
        known.sort_by_key(|status| status.map(|status| status.date_from));
        for status in known.into_iter().flatten() {
            self.catch_up(index, &status);
        }
    }

    /// Applies what the statuses of its group have said of the trading state of an instrument that
    /// is defined later.
    pub(crate) fn state_of_group<S: Sink>(&mut self, index: u32, asset: [u8; 6], sink: &mut S) {
        let known = self.statuses_of(index, asset);
        for status in known.into_iter().flatten() {
            let details = &mut self.instruments[index as usize].details;
            if let Some((state, reason)) = status.state
                && status.state_at > details.state_at
            {
                details.state_at = status.state_at;
                self.set_state(index, state, reason, sink);
            }
        }
    }

    /// Applies what a status has said of the session before the instrument was defined.
    fn catch_up(&mut self, index: u32, known: &GroupStatus) {
        let instrument = &mut self.instruments[index as usize];
        let is_complete = instrument.has_all_entries();
        let is_doubtful = instrument.has_doubtful_figures();
        let details = &mut instrument.details;
        let has_figures_since = details.has_figures_waiting();
        let mut status = Status {
            date: known.earlier_date,
            is_reset: false,
            is_complete,
            is_start: self.from_start,
        };
        // The day with which the instrument appeared, if the later one came after it.
        let appears = known.earlier_date.is_some() && known.date_from > details.made_at;
        if details.day.trade_date.is_none() && appears {
            details.begin_with(status, is_doubtful);
        }
        status.date = known.date;
        // A day of before the instrument appeared is that of all its figures.
        if known.date.is_some() && known.date_from < details.made_at {
            details.begin_with(status, is_doubtful);
        }
        let day = details.day;
        let mut begins_at = match day.is_before(known.date) {
            true => known.date_from,
            false => 0,
        };
        let is_reset = known.reset_from > details.session_at && known.reset_from >= begins_at;
        if is_reset {
            begins_at = known.reset_from;
        }
        let begins = begins_at >= details.made_at.max(1);
        let is_mixed = begins && details.figures_at >= begins_at;
        // Those of before the first date of all, after a late start, may be of another day.
        let is_unknown = day.trade_date.is_none()
            && known.date.is_some()
            && !(self.from_start || begins || day.is_blank())
            && known.date_from > details.made_at;
        status.is_reset = begins && is_reset && (is_doubtful || !is_mixed);
        let at = if begins { begins_at } else { known.date_from };
        if is_mixed && !details.has_waited_at(begins_at) {
            details.begin_in_between(known.date);
        } else {
            details.apply_at(at, status, is_doubtful);
        }
        if begins && !is_mixed {
            details.session_at = begins_at;
            // Otherwise a loss after it may hide another one.
            let is_since_loss = begins_at >= self.known_from && !details.needs_snapshot;
            self.settle(
                index,
                false,
                is_since_loss && (is_reset || !has_figures_since),
            );
        } else if (is_mixed || is_unknown) && !instrument.is_session_doubtful {
            self.doubt_session(index);
        }
    }
}

/// Returns whether a product is blank: the status is of the whole group.
fn is_blank(asset: &[u8; 6]) -> bool {
    asset.iter().all(|&byte| byte == 0 || byte == b' ')
}

/// The product of a status of a whole group.
const ALL_PRODUCTS: [u8; 6] = [0; 6];
/// Groups and products whose statuses are kept at most, about 80 bytes each.
const GROUPS_MAX: usize = 1 << 14;

/// Returns the native trading state; `None` for "no change".
pub(crate) fn trading_state(status: SecurityTradingStatus) -> Option<TradingState> {
    Some(match status {
        SecurityTradingStatus::TRADING_HALT => TradingState::HALTED,
        SecurityTradingStatus::CLOSE
        | SecurityTradingStatus::NOT_AVAILABLE_FOR_TRADING
        | SecurityTradingStatus::POST_CLOSE => TradingState::CLOSED,
        SecurityTradingStatus::NEW_PRICE_INDICATION
        | SecurityTradingStatus::PRE_CROSS
        | SecurityTradingStatus::CROSS => TradingState::AUCTION,
        SecurityTradingStatus::READY_TO_TRADE
        | SecurityTradingStatus::PRIVATE_WORKUP
        | SecurityTradingStatus::PUBLIC_WORKUP => TradingState::OPEN,
        SecurityTradingStatus::PRE_OPEN => TradingState::PRE_OPEN,
        SecurityTradingStatus::NO_CHANGE => return None,
        _ => TradingState::UNKNOWN,
    })
}
