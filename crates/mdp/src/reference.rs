//! Definitions, trading states and statistics of a channel's instruments.

use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Message as Output, TradingState, TradingStatus};
use tidewire_sbe::{DecodeError, Message};

use crate::channel::{Channel, size_of_wire};
use crate::definition::InstrumentDefinition;
use crate::figures::Scale;
use crate::packet::Packet;
use crate::schema::*;

/// What the statuses of a group, or of a product of it, have said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupStatus {
    /// The last trading state, with its reason.
    state: Option<(TradingState, u32)>,
    /// Number of the status that gave it.
    state_number: u64,
    trade_date: Option<u16>,
    /// Sequence of the packet that last began a session; 0 for none.
    session_from: u64,
}

impl GroupStatus {
    /// The sequence of the packets begins again.
    pub(crate) fn forget_sequences(&mut self) {
        self.session_from = 0;
    }
}

impl Channel {
    /// Applies a packet of the definition feed, which repeats all definitions.
    pub fn apply_definition_packet<S: Sink>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        for message in packet.messages() {
            let Ok(message) = message else {
                self.counters.malformed += 1;
                return;
            };
            if message.header().schema_id != SCHEMA_ID {
                self.counters.unknown += 1;
                continue;
            }
            match InstrumentDefinition::decode(&message) {
                Ok(Some(definition)) => {
                    self.counters.messages += 1;
                    let is_current = packet.header.sending_time_ns >= self.states_known_ns;
                    self.define(&definition, is_current, sink);
                }
                Ok(None) => {}
                Err(_) => self.counters.malformed += 1,
            }
        }
    }

    /// Applies a definition. It is published if it is new or changes something. Its trading state
    /// is used if none is known, or if that one is in doubt and the definition `is_current`: sent
    /// after the last loss.
    pub(crate) fn define<S: Sink>(
        &mut self,
        definition: &InstrumentDefinition,
        is_current: bool,
        sink: &mut S,
    ) {
        self.number = Some(definition.channel);
        let Some(index) = self.find(definition.security_id) else {
            return;
        };
        if definition.symbol.is_empty() {
            self.counters.refused += 1;
            return;
        }
        self.join_group(index, definition);
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let instrument = &mut self.instruments[index as usize];
        let was_defined = instrument.is_defined;
        let before = instrument.details.definition(symbol, source);
        let scale = Scale::new(definition.display_factor);
        let is_rescaled = scale != instrument.details.scale;
        let details = &mut *instrument.details;
        details.symbol = Some(definition.symbol);
        details.currency = [0; 4];
        details.currency[..3].copy_from_slice(&definition.currency);
        details.tick = definition.tick;
        details.lot_size = definition.trade_volume_min;
        details.scale = scale;
        details.time_ns = details.time_ns.max(definition.time_ns);
        let reference_before = details.statistics.reference;
        // Each loop of the feed repeats it, also behind the settlement of the day.
        let is_new_reference = definition.reference != details.defined_reference;
        details.defined_reference = definition.reference;
        match reference_before {
            None => details.statistics.reference = definition.reference,
            Some(_) if is_new_reference => {
                details.statistics.settlement =
                    definition.reference.or(details.statistics.settlement);
            }
            Some(_) => {}
        }
        let is_rebased = details.statistics.reference != reference_before;
        instrument.is_defined = true;
        let (real, implied) = definition.depths;
        let is_wrong = real > 0 && instrument.book.set_depths(real, implied);
        let after = instrument.details.definition(symbol, source);
        let is_changed = match (&before, &after) {
            // The time alone is no change: each loop of the feed repeats all definitions.
            (Some(before), Some(after)) => {
                (before.open, before.price_tick, before.lot_size)
                    != (after.open, after.price_tick, after.lot_size)
                    || (before.currency, before.name) != (after.currency, after.name)
            }
            _ => true,
        };
        if let Some(after) = after.filter(|_| is_changed || !was_defined) {
            self.counters.definitions += 1;
            sink.definition(self.sequence, &after);
        }
        let is_mixed = !was_defined && self.catch_up_with_group(index, definition, sink);
        let is_wrong = is_wrong || is_mixed;
        if is_wrong {
            self.recover_one(index);
        }
        self.define_state(index, definition, is_current, sink);
        let is_live = self.instruments[index as usize].state.is_live();
        if !is_live && (is_wrong || !was_defined) {
            self.publish_doubt(index, sink);
        } else if is_changed || is_rescaled || is_rebased || !was_defined {
            self.publish_record(index, sink);
        }
    }

    /// Applies what the statuses of its group have said of an instrument that is defined later.
    /// Returns whether its figures are of two sessions, so that a snapshot is needed.
    fn catch_up_with_group<S: Sink>(
        &mut self,
        index: u32,
        definition: &InstrumentDefinition,
        sink: &mut S,
    ) -> bool {
        let keys = [[0; 6], definition.asset].map(|asset| (definition.group, asset));
        let known = keys.map(|key| self.group_statuses.get(&key).copied());
        let (mut session_from, mut is_mixed) = (0, false);
        for status in known.into_iter().flatten() {
            let details = &mut self.instruments[index as usize].details;
            details.trade_date = details.trade_date.max(status.trade_date);
            session_from = session_from.max(status.session_from);
            if let Some((state, reason)) = status.state
                && status.state_number > details.status_number
            {
                details.status_number = status.state_number;
                self.set_state(index, state, reason, sink);
            }
        }
        let details = &self.instruments[index as usize].details;
        if session_from > details.session_from && session_from >= details.made_at {
            match details.figures_at() < session_from {
                true => self.end_session(index, sink),
                false => is_mixed = true,
            }
        }
        is_mixed
    }

    /// Notes a status of a group for instruments that are defined later.
    fn note_group_status(
        &mut self,
        status: &SecurityStatus30<'_>,
        state: Option<(TradingState, u32)>,
        is_end: bool,
    ) {
        let asset = match is_blank(status.asset()) {
            true => [0; 6],
            false => *status.asset(),
        };
        let key = (*status.security_group(), asset);
        if self.group_statuses.len() >= GROUPS_MAX && !self.group_statuses.contains_key(&key) {
            self.counters.refused += 1;
            return;
        }
        let known = self.group_statuses.entry(key).or_default();
        if state.is_some() {
            (known.state, known.state_number) = (state, self.status_number);
        }
        let date = known.trade_date.max(status.trade_date());
        let old_date = std::mem::replace(&mut known.trade_date, date);
        if is_end || (old_date.is_some() && old_date != date) {
            known.session_from = self.sequence;
        }
    }

    /// Applies the trading state of a definition.
    fn define_state<S: Sink>(
        &mut self,
        index: u32,
        definition: &InstrumentDefinition,
        is_current: bool,
        sink: &mut S,
    ) {
        if definition.action == SecurityUpdateAction::DELETE {
            let instrument = &mut self.instruments[index as usize];
            instrument.book.clear();
            return self.set_state(index, TradingState::CLOSED, 0, sink);
        }
        let instrument = &self.instruments[index as usize];
        let (known, is_doubtful) = (
            instrument.details.trading_state,
            instrument.is_state_doubtful && is_current,
        );
        let Some(state) = definition.status.and_then(trading_state) else {
            return;
        };
        // The definition feed repeats itself, so that a state of the incremental feed is newer.
        if known == TradingState::UNKNOWN || (is_doubtful && known != state) {
            self.set_state(index, state, 0, sink);
        }
        if is_doubtful {
            self.confirm_state(index, sink);
        }
    }

    /// Notes the group of an instrument, whose states are its own.
    fn join_group(&mut self, index: u32, definition: &InstrumentDefinition) {
        let details = &mut self.instruments[index as usize].details;
        details.asset = definition.asset;
        let old = std::mem::replace(&mut details.group, definition.group);
        if old == definition.group {
            return;
        }
        if let Some(members) = self.groups.get_mut(&old) {
            members.retain(|&member| member != index);
        }
        self.groups.entry(definition.group).or_default().push(index);
    }

    /// Applies a trading state: of one instrument, or of all of a group (and product).
    pub(crate) fn security_status<S: Sink>(&mut self, status: &SecurityStatus30<'_>, sink: &mut S) {
        let state = status.security_trading_status().and_then(trading_state);
        let reason = u32::from(status.halt_reason().0);
        let is_end = status.security_trading_event() == SecurityTradingEvent::RESET_STATISTICS;
        self.status_number += 1;
        let members = match status.security_id() {
            Some(security_id) => self.find(security_id).into_iter().collect(),
            None => {
                self.note_group_status(status, state.map(|state| (state, reason)), is_end);
                self.members(status.security_group(), status.asset())
            }
        };
        for index in members {
            let details = &mut self.instruments[index as usize].details;
            if state.is_some() {
                details.status_number = self.status_number;
            }
            let date = details.trade_date.max(status.trade_date());
            let old_date = std::mem::replace(&mut details.trade_date, date);
            // The end of the old day's session may have been lost, or in the week before.
            let is_later = old_date.is_some() && old_date != date;
            let has_figures_since = details.figures_at() >= self.known_from;
            // A first date after a late join does not tell whether it is that of the trades so far.
            let is_first = old_date.is_none() && date.is_some();
            let is_unknown = is_first && !self.from_start && details.figures_at() > 0;
            let instrument = &self.instruments[index as usize];
            let is_torn = is_later && instrument.is_state_doubtful && has_figures_since;
            if (is_torn || is_unknown) && !is_end {
                // The figures may be of the new session already: a snapshot tells.
                if is_torn {
                    let details = &mut self.instruments[index as usize].details;
                    details.torn_date = details.torn_date.or(old_date);
                }
                if let Some(state) = state {
                    self.set_state(index, state, reason, sink);
                }
                self.recover_one(index);
                self.publish_doubt(index, sink);
                continue;
            }
            let is_end = is_end || is_later;
            if let Some(state) = state {
                self.set_state(index, state, reason, sink);
                self.confirm_state(index, sink);
            }
            if is_end {
                self.end_session(index, sink);
            } else if old_date != date {
                self.publish_record(index, sink);
            }
        }
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
        if !instrument.is_defined {
            return;
        }
        self.counters.statuses += 1;
        let status = TradingStatus {
            symbol: self.config.symbol_first + index,
            source: self.config.source,
            source_time_ns: self.event_time_ns,
            state,
            reason,
        };
        sink.message(self.sequence, &Output::Status(status));
    }

    /// Ends an instrument's session: its statistics begin again, and its settlement price becomes
    /// the reference of the next.
    fn end_session<S: Sink>(&mut self, index: u32, sink: &mut S) {
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let instrument = &mut self.instruments[index as usize];
        instrument.details.begin_session(self.sequence);
        if instrument.is_defined
            && let Some(definition) = instrument.details.definition(symbol, source)
        {
            self.counters.definitions += 1;
            sink.definition(self.sequence, &definition);
        }
        self.publish_record(index, sink);
    }

    /// Applies statistics and limits. Returns whether the message was of that kind.
    pub(crate) fn apply_statistics<S: Sink>(
        &mut self,
        message: &Message<'_>,
        sink: &mut S,
    ) -> Result<bool, DecodeError> {
        match message.template_id() {
            MDIncrementalRefreshSessionStatistics51::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshSessionStatistics51::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    let (security_id, rpt_seq) = (entry.security_id(), entry.rpt_seq());
                    let (kind, flag) = (entry.md_entry_type(), entry.open_close_settl_flag());
                    let (price, action) = (entry.md_entry_px(), entry.md_update_action());
                    if let Some(index) = self.note(security_id, rpt_seq, sink) {
                        self.session_statistic(index, (kind, flag), (price, action), sink);
                    }
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            MDIncrementalRefreshSessionStatisticsLongQty67::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshSessionStatisticsLongQty67::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    let (security_id, rpt_seq) = (entry.security_id(), entry.rpt_seq());
                    let (kind, flag) = (entry.md_entry_type(), entry.open_close_settl_flag());
                    let (price, action) = (entry.md_entry_px(), entry.md_update_action());
                    if let Some(index) = self.note(security_id, rpt_seq, sink) {
                        self.session_statistic(index, (kind, flag), (price, action), sink);
                    }
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            MDIncrementalRefreshDailyStatistics49::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshDailyStatistics49::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    self.daily_statistic(&entry, sink);
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            MDIncrementalRefreshLimitsBanding50::TEMPLATE_ID => {
                let refresh = MDIncrementalRefreshLimitsBanding50::decode(message)?;
                self.begin_event(refresh.transact_time(), sink);
                for entry in refresh.md_entries.iter() {
                    if let Some(index) = self.note(entry.security_id(), entry.rpt_seq(), sink) {
                        let statistics = &mut self.instruments[index as usize].details.statistics;
                        statistics.high_limit = entry.high_limit_price();
                        statistics.low_limit = entry.low_limit_price();
                    }
                }
                self.end_event(refresh.match_event_indicator(), sink);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies a statistic of the session, and shows it.
    fn session_statistic<S: Sink>(
        &mut self,
        index: u32,
        (kind, flag): (MDEntryTypeStatistics, Option<OpenCloseSettlFlag>),
        (price, action): (i64, MDUpdateAction),
        sink: &mut S,
    ) {
        let details = &mut self.instruments[index as usize].details;
        details.statistics_at = self.sequence;
        let since = details.since(self.known_from);
        // The exchange's has the trades before it.
        match kind {
            MDEntryTypeStatistics::HIGH_TRADE => since.high = None,
            MDEntryTypeStatistics::LOW_TRADE => since.low = None,
            _ => {}
        }
        let (statistics, session) = (&mut details.statistics, &mut details.session);
        let before = *session;
        let price = (action != MDUpdateAction::DELETE).then_some(price);
        match (kind, flag) {
            (
                MDEntryTypeStatistics::OPEN_PRICE,
                Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE),
            ) => statistics.indicative_open = price,
            (MDEntryTypeStatistics::OPEN_PRICE, _) => {
                details.range_at[0] = self.sequence;
                (statistics.open, session.open) = (price, price);
            }
            (MDEntryTypeStatistics::HIGH_TRADE, _) => {
                details.range_at[1] = self.sequence;
                (statistics.high, session.high) = (price, price);
            }
            (MDEntryTypeStatistics::LOW_TRADE, _) => {
                details.range_at[2] = self.sequence;
                (statistics.low, session.low) = (price, price);
            }
            _ => {}
        }
        if *session != before {
            self.publish_record(index, sink);
        }
    }

    fn daily_statistic<S: Sink>(
        &mut self,
        entry: &MDIncrementalRefreshDailyStatistics49MDEntries<'_>,
        sink: &mut S,
    ) {
        let Some(index) = self.note(entry.security_id(), entry.rpt_seq(), sink) else {
            return;
        };
        let details = &mut self.instruments[index as usize].details;
        details.statistics_at = self.sequence;
        let statistics = &mut details.statistics;
        let size = u64::from(size_of_wire(entry.md_entry_size()));
        let is_there = entry.md_update_action() != MDUpdateAction::DELETE;
        match entry.md_entry_type() {
            // An intraday settlement is no settlement of the session.
            MDEntryTypeDailyStatistics::SETTLEMENT_PRICE
                if !entry.settl_price_type().contains(SettlPriceType::INTRADAY) =>
            {
                statistics.settlement = entry.md_entry_px().filter(|_| is_there);
            }
            MDEntryTypeDailyStatistics::CLEARED_VOLUME => {
                statistics.cleared_volume = is_there.then_some(size);
            }
            MDEntryTypeDailyStatistics::OPEN_INTEREST => {
                statistics.open_interest = is_there.then_some(size);
            }
            _ => {}
        }
    }
}

/// Returns whether a product is blank: the status is of the whole group.
fn is_blank(asset: &[u8; 6]) -> bool {
    asset.iter().all(|&byte| byte == 0 || byte == b' ')
}

/// Groups and products whose statuses are kept at most, about 64 bytes each.
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
