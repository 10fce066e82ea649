//! Definitions and statistics of a channel's instruments.

use tidewire_feed::client::Sink;
use tidewire_feed::wire::TradingState;
use tidewire_sbe::{DecodeError, Message};

use crate::channel::{Channel, size_of_wire};
use crate::day::{Day, Event, Settlement};
use crate::definition::InstrumentDefinition;
use crate::instrument::State;
use crate::packet::Packet;
use crate::schema::*;
use crate::snapshot::is_intraday;
use crate::statuses::trading_state;

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
        self.revive(index, definition);
        let (symbol, source) = (self.config.symbol_first + index, self.config.source);
        let instrument = &mut self.instruments[index as usize];
        let was_defined = instrument.is_defined;
        let before = instrument.details.definition(symbol, source);
        if !was_defined {
            self.date_of_group(index, definition.asset);
        }
        let is_rebased = self.define_reference(index, definition);
        let instrument = &mut self.instruments[index as usize];
        let is_rescaled = instrument.details.define(definition);
        instrument.is_defined = true;
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
        let (real, implied) = definition.depths;
        let is_wrong = real > 0 && instrument.book.set_depths(real, implied);
        if let Some(after) = after.filter(|_| is_changed || !was_defined) {
            self.counters.definitions += 1;
            sink.definition(self.sequence, &after);
        }
        if is_wrong {
            self.recover_one(index, self.sequence + 1, sink);
        }
        if !was_defined {
            self.state_of_group(index, definition.asset, sink);
        }
        let is_gone = self.define_state(index, definition, is_current, sink);
        if !self.instruments[index as usize].state.is_live() {
            if !was_defined {
                self.publish_doubt(index, sink);
            }
        } else if is_changed || is_rescaled || is_rebased || is_gone || !was_defined {
            self.publish_record(index, sink);
        }
        self.tell_if_right(sink);
    }

    /// Begins an instrument again that was deleted and is defined again. Its state is that of its
    /// group.
    fn revive(&mut self, index: u32, definition: &InstrumentDefinition) {
        let instrument = &mut self.instruments[index as usize];
        let is_deletion = definition.action == SecurityUpdateAction::DELETE;
        if is_deletion || !instrument.details.is_deleted {
            return;
        }
        instrument.is_defined = false;
        instrument.details.begin_again(self.sequence);
        if instrument.state.is_live() {
            instrument.reset(State::LiveAnyNext);
        }
    }

    /// Takes the settlement of a definition. Returns whether the reference has changed.
    fn define_reference(&mut self, index: u32, definition: &InstrumentDefinition) -> bool {
        let instrument = &mut self.instruments[index as usize];
        let is_doubtful = instrument.has_doubtful_figures();
        let details = &mut instrument.details;
        let given = (definition.reference, definition.reference_date);
        let reference_before = details.day.statistics.reference;
        // Each loop of the feed repeats it, also behind the settlement of the day.
        let is_new = match details.defined.replace(given) {
            Some(old) => old != given,
            // The first one may be older than a settlement of its day that has come.
            None => {
                let is_known = details.day.has_reference_of(given.1);
                reference_before.is_none() || given.1.is_some() && !is_known
            }
        };
        let Some(price) = given.0.filter(|_| is_new || reference_before.is_none()) else {
            return false;
        };
        let settlement = Settlement {
            price,
            date: given.1,
        };
        let event = Event::Definition(settlement, is_new);
        let mut day = details.day;
        day.apply(&event);
        // What changes nothing need not wait for a snapshot.
        if is_new || day != details.day {
            details.apply(self.sequence, event, is_doubtful);
        }
        details.day.statistics.reference != reference_before
    }

    /// Applies the trading state of a definition. Returns whether it has deleted the instrument.
    fn define_state<S: Sink>(
        &mut self,
        index: u32,
        definition: &InstrumentDefinition,
        is_current: bool,
        sink: &mut S,
    ) -> bool {
        if definition.action == SecurityUpdateAction::DELETE {
            let instrument = &mut self.instruments[index as usize];
            instrument.book.clear();
            let was_deleted = std::mem::replace(&mut instrument.details.is_deleted, true);
            self.set_state(index, TradingState::CLOSED, 0, sink);
            return !was_deleted;
        }
        let instrument = &self.instruments[index as usize];
        let (known, is_doubtful) = (
            instrument.details.trading_state,
            instrument.is_state_doubtful && is_current,
        );
        let Some(state) = definition.status.and_then(trading_state) else {
            return false;
        };
        // The definition feed repeats itself, so that a state of the incremental feed is newer.
        if known == TradingState::UNKNOWN || (is_doubtful && known != state) {
            self.set_state(index, state, 0, sink);
        }
        if is_doubtful && self.settle(index, true, false) {
            self.publish_record(index, sink);
            self.tell_if_right(sink);
        }
        false
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
                        let limits =
                            Event::Limits(entry.high_limit_price(), entry.low_limit_price());
                        self.instruments[index as usize].apply(self.sequence, limits);
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
        let price = (action != MDUpdateAction::DELETE).then_some(price);
        let event = match (kind, flag) {
            (
                MDEntryTypeStatistics::OPEN_PRICE,
                Some(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE),
            ) => Event::IndicativeOpen(price),
            (MDEntryTypeStatistics::OPEN_PRICE, _) => Event::Open(price),
            (MDEntryTypeStatistics::HIGH_TRADE, _) => Event::High(price),
            (MDEntryTypeStatistics::LOW_TRADE, _) => Event::Low(price),
            _ => return,
        };
        self.apply_and_show(index, event, sink);
    }

    /// Applies what changes an instrument's figures. If it changes what is shown, a record says so.
    fn apply_and_show<S: Sink>(&mut self, index: u32, event: Event, sink: &mut S) {
        let instrument = &mut self.instruments[index as usize];
        let shown = |day: &Day| (day.session, day.statistics.reference);
        let before = shown(&instrument.details.day);
        instrument.apply(self.sequence, event);
        let details = &mut instrument.details;
        if shown(&details.day) != before {
            details.time_ns = self.event_time_ns;
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
        let size = u64::from(size_of_wire(entry.md_entry_size()));
        let is_there = entry.md_update_action() != MDUpdateAction::DELETE;
        let event = match entry.md_entry_type() {
            // An intraday settlement is no settlement of the session.
            MDEntryTypeDailyStatistics::SETTLEMENT_PRICE
                if !is_intraday(entry.settl_price_type()) =>
            {
                let price = entry.md_entry_px().filter(|_| is_there);
                Event::Settlement(price.map(|price| Settlement {
                    price,
                    date: entry.trading_reference_date(),
                }))
            }
            MDEntryTypeDailyStatistics::CLEARED_VOLUME => {
                Event::ClearedVolume(is_there.then_some(size))
            }
            MDEntryTypeDailyStatistics::OPEN_INTEREST => {
                Event::OpenInterest(is_there.then_some(size))
            }
            _ => return,
        };
        self.apply_and_show(index, event, sink);
    }
}
