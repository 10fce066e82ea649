//! An exchange to test with: the packets of all feeds of a channel, from a seed.

mod instrument;
mod random;

pub use instrument::SimulatedInstrument;

use crate::packet::{PacketHeader, add_message, begin_packet};
use crate::schema::*;
use instrument::{EntryUpdate, Event, OrderUpdate};
use random::Random;

/// Settings of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeConfig {
    /// Number of instruments, 1 to 100,000.
    pub instruments: u32,
    /// Levels of the books by price, 1 to 10.
    pub depth: u8,
    /// Whether there are implied books, of two levels.
    pub implied: bool,
    /// Events of a packet at most, 1 to 8.
    pub events_max: u32,
    /// Time of the first packet, nanoseconds since the UNIX epoch.
    pub begin_ns: u64,
    /// Seed; the same seed gives the same packets.
    pub seed: u64,
}

impl Default for ExchangeConfig {
    /// Returns 10 instruments with 10 levels and implied books.
    fn default() -> Self {
        Self {
            instruments: 10,
            depth: 10,
            implied: true,
            events_max: 3,
            begin_ns: 1_700_000_000_000_000_000,
            seed: 1,
        }
    }
}

/// A channel of an exchange. Each function makes the next packet of a feed; lines A and B get the
/// same bytes.
#[derive(Debug)]
pub struct Exchange {
    config: ExchangeConfig,
    random: Random,
    instruments: Vec<SimulatedInstrument>,
    /// Sequence of the last packet of the incremental feed.
    sequence: u32,
    time_ns: u64,
    order_id: u64,
    event: Event,
}

impl Exchange {
    /// Number of the channel in definitions and resets.
    pub const CHANNEL: i16 = 310;

    /// Creates an exchange whose instruments have no orders yet.
    pub fn new(config: ExchangeConfig) -> Self {
        assert!(
            (1..=100_000).contains(&config.instruments),
            "1 to 100,000 instruments"
        );
        assert!((1..=10).contains(&config.depth), "1 to 10 levels");
        assert!((1..=8).contains(&config.events_max), "1 to 8 events");
        let mut random = Random::new(config.seed);
        let make = |number| SimulatedInstrument::new(number, &mut random);
        Self {
            instruments: (0..config.instruments).map(make).collect(),
            random,
            sequence: 0,
            time_ns: config.begin_ns,
            order_id: 700_000_000_000,
            event: Event::default(),
            config,
        }
    }

    /// Returns the instruments, with their orders.
    pub fn instruments(&self) -> &[SimulatedInstrument] {
        &self.instruments
    }

    /// Returns the sequence of the last packet.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Returns the levels of the books by price.
    pub fn depth(&self) -> usize {
        self.config.depth.into()
    }

    /// Makes the next packet of the incremental feed: one or more events of random instruments.
    /// Returns the number of entries in it.
    pub fn next_packet(&mut self, out: &mut Vec<u8>) -> u64 {
        self.begin(out);
        let mut entries = 0;
        let events = 1 + self.random.below(self.config.events_max.into());
        for _ in 0..events {
            let index = self.random.below(self.instruments.len() as u64) as usize;
            entries += self.add_event(index, out);
            if out.len() > 900 {
                break;
            }
        }
        entries
    }

    /// Makes a heartbeat.
    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        add_message(out, |out| {
            AdminHeartbeat12::encode(out);
        });
    }

    /// Makes a packet with the trading state of all instruments of a group, or of one.
    pub fn status(
        &mut self,
        security_id: Option<i32>,
        status: SecurityTradingStatus,
        event: SecurityTradingEvent,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        if event == SecurityTradingEvent::RESET_STATISTICS {
            for instrument in &mut self.instruments {
                instrument.end_session();
            }
        }
        let time_ns = self.time_ns;
        add_message(out, |out| {
            let mut message = SecurityStatus30::encode(out);
            message.transact_time(time_ns);
            message.security_group(*instrument::GROUP);
            message
                .security_trading_status(status)
                .halt_reason(HaltReason::GROUP_SCHEDULE);
            message.security_trading_event(event);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            if let Some(security_id) = security_id {
                message.security_id(security_id);
            }
        });
    }

    /// Makes a packet with an instrument's final settlement price.
    pub fn settle(&mut self, index: usize, price: i64, out: &mut Vec<u8>) {
        self.begin(out);
        let time_ns = self.time_ns;
        let instrument = &mut self.instruments[index];
        let (security_id, rpt_seq) = (instrument.security_id(), instrument.next_rpt_seq());
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshDailyStatistics49::encode(out);
            message.transact_time(time_ns);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            let mut group = message.md_entries();
            let mut entry = group.add();
            entry
                .md_entry_px(price)
                .security_id(security_id)
                .rpt_seq(rpt_seq);
            entry.md_entry_type(MDEntryTypeDailyStatistics::SETTLEMENT_PRICE);
            entry.settl_price_type(SettlPriceType::FINAL_DAILY.with(SettlPriceType::ACTUAL));
        });
    }

    /// Makes a channel reset: all books are empty afterwards.
    pub fn reset(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        for instrument in &mut self.instruments {
            instrument.reset();
        }
        let time_ns = self.time_ns;
        add_message(out, |out| {
            let mut message = ChannelReset4::encode(out);
            message.transact_time(time_ns);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            message.md_entries().add().appl_id(Self::CHANNEL);
        });
    }

    /// Begins another week: sequences start at 1, and all books are empty.
    pub fn begin_week(&mut self) {
        self.sequence = 0;
        self.time_ns += 3_600_000_000_000;
        for instrument in &mut self.instruments {
            instrument.reset();
        }
    }

    /// Makes a loop of the recovery feed by price: a snapshot of each instrument that had an entry
    /// or a trade. Gives `visit` each packet.
    pub fn snapshots(&self, mut visit: impl FnMut(&[u8])) {
        let known: Vec<_> = self
            .instruments
            .iter()
            .filter(|one| one.rpt_seq() > 0 || one.last().is_some())
            .collect();
        let mut out = Vec::new();
        for (number, instrument) in (1..).zip(&known) {
            self.begin_other(number, &mut out);
            add_message(&mut out, |out| {
                let mut message = SnapshotFullRefresh52::encode(out);
                message.last_msg_seq_num_processed(self.sequence);
                message.tot_num_reports(known.len() as u32);
                message
                    .security_id(instrument.security_id())
                    .rpt_seq(instrument.rpt_seq());
                message.transact_time(self.time_ns);
                message.md_security_trading_status(SecurityTradingStatus::READY_TO_TRADE);
                instrument.write_snapshot(self.depth(), &mut message);
            });
            visit(&out);
        }
    }

    /// Makes a loop of the recovery feed by order. Gives `visit` each packet.
    pub fn order_snapshots(&self, mut visit: impl FnMut(&[u8])) {
        let known = self.instruments.iter().filter(|one| one.rpt_seq() > 0);
        let known: Vec<_> = known.map(|one| (one, one.orders())).collect();
        let chunks = |orders: &[_]| orders.len().div_ceil(CHUNK_ORDERS).max(1);
        let total: usize = known.iter().map(|(_, orders)| chunks(orders)).sum();
        let (mut out, mut number) = (Vec::new(), 0);
        for (instrument, orders) in &known {
            for chunk in 0..chunks(orders) {
                number += 1;
                self.begin_other(number, &mut out);
                let start = chunk * CHUNK_ORDERS;
                let end = (start + CHUNK_ORDERS).min(orders.len());
                add_message(&mut out, |out| {
                    let mut message = SnapshotFullRefreshOrderBook53::encode(out);
                    message.last_msg_seq_num_processed(self.sequence);
                    message
                        .tot_num_reports(total as u32)
                        .transact_time(self.time_ns);
                    message.security_id(instrument.security_id());
                    message
                        .no_chunks(chunks(orders) as u32)
                        .current_chunk(chunk as u32 + 1);
                    let mut group = message.md_entries();
                    for order in &orders[start..end] {
                        let mut entry = group.add();
                        entry.order_id(order.order_id).md_entry_px(order.price);
                        entry.md_display_qty(order.size as i32);
                        entry.md_entry_type(kind(order.is_bid));
                    }
                });
                visit(&out);
            }
        }
    }

    /// Makes a loop of the definition feed. Gives `visit` each packet.
    pub fn definitions(&self, mut visit: impl FnMut(&[u8])) {
        let mut out = Vec::new();
        for (number, instrument) in (1..).zip(&self.instruments) {
            self.begin_other(number, &mut out);
            add_message(&mut out, |out| {
                let total = self.instruments.len() as u32;
                let implied = if self.config.implied { 2 } else { 0 };
                instrument.write_definition(total, (self.config.depth, implied), out);
            });
            visit(&out);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.sequence += 1;
        self.time_ns += 1_000 + self.random.below(500_000);
        let header = PacketHeader {
            sequence: self.sequence,
            sending_time_ns: self.time_ns,
        };
        begin_packet(out, header);
    }

    fn begin_other(&self, sequence: u32, out: &mut Vec<u8>) {
        let header = PacketHeader {
            sequence,
            sending_time_ns: self.time_ns,
        };
        begin_packet(out, header);
    }

    fn add_event(&mut self, index: usize, out: &mut Vec<u8>) -> u64 {
        let depth = self.depth();
        self.time_ns += 1;
        self.event.clear();
        let instrument = &mut self.instruments[index];
        if self.config.implied && self.random.below(12) == 0 {
            instrument.change_implied(&mut self.random, &mut self.event);
        } else {
            let random = &mut self.random;
            instrument.step(depth, random, &mut self.order_id, &mut self.event);
        }
        self.event.number(instrument);
        write_event(&self.event, instrument.security_id(), self.time_ns, out);
        self.event.entry_count()
    }
}

/// Writes the messages of an event; the last one ends it.
fn write_event(event: &Event, security_id: i32, time_ns: u64, out: &mut Vec<u8>) {
    let (trades, levels) = (!event.trades.is_empty(), !event.levels.is_empty());
    let (deep, statistics) = (!event.deep_orders.is_empty(), !event.statistics.is_empty());
    let end = |is_last: bool, flag: MatchEventIndicator| match is_last {
        true => flag.with(MatchEventIndicator::END_OF_EVENT),
        false => flag,
    };
    if trades {
        let flag = end(
            !levels && !deep && !statistics,
            MatchEventIndicator::LAST_TRADE_MSG,
        );
        write_trades(event, security_id, time_ns, flag, out);
    }
    if levels {
        let flag = end(!deep && !statistics, MatchEventIndicator::LAST_QUOTE_MSG);
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshBook46::encode(out);
            message.transact_time(time_ns).match_event_indicator(flag);
            let mut group = message.md_entries();
            for update in &event.levels {
                write_level(update, security_id, &mut group.add());
            }
            let mut group = message.order_id_entries();
            for update in &event.orders {
                let mut entry = group.add();
                entry
                    .order_id(update.order_id)
                    .md_order_priority(update.order_id);
                entry
                    .md_display_qty(update.size as i32)
                    .reference_id(update.reference);
                entry.order_update_action(update.action);
            }
        });
    }
    if deep {
        let flag = end(!statistics, MatchEventIndicator::LAST_QUOTE_MSG);
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshOrderBook47::encode(out);
            message.transact_time(time_ns).match_event_indicator(flag);
            let mut group = message.md_entries();
            for update in &event.deep_orders {
                write_deep_order(update, security_id, &mut group.add());
            }
        });
    }
    if statistics {
        let flag = end(true, MatchEventIndicator::LAST_STATS_MSG);
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshSessionStatistics51::encode(out);
            message.transact_time(time_ns).match_event_indicator(flag);
            let mut group = message.md_entries();
            for &(kind, price, rpt_seq) in &event.statistics {
                let mut entry = group.add();
                entry
                    .md_entry_px(price)
                    .security_id(security_id)
                    .rpt_seq(rpt_seq);
                entry.md_entry_type(kind);
                if kind == MDEntryTypeStatistics::OPEN_PRICE {
                    entry.open_close_settl_flag(OpenCloseSettlFlag::DAILY_OPEN_PRICE);
                }
            }
        });
    }
}

fn write_trades(
    event: &Event,
    security_id: i32,
    time_ns: u64,
    flag: MatchEventIndicator,
    out: &mut Vec<u8>,
) {
    add_message(out, |out| {
        let mut message = MDIncrementalRefreshTradeSummary48::encode(out);
        message.transact_time(time_ns);
        message.match_event_indicator(MatchEventIndicator::LAST_TRADE_MSG);
        let mut group = message.md_entries();
        for trade in &event.trades {
            let mut entry = group.add();
            entry
                .md_entry_px(trade.price)
                .md_entry_size(trade.size as i32);
            entry
                .security_id(security_id)
                .rpt_seq(trade.rpt_seq)
                .number_of_orders(2);
            entry
                .aggressor_side(trade.aggressor)
                .md_trade_entry_id(trade.rpt_seq);
        }
        message.order_id_entries();
    });
    add_message(out, |out| {
        let mut message = MDIncrementalRefreshVolume37::encode(out);
        let flag = flag.with(MatchEventIndicator::LAST_VOLUME_MSG);
        message.transact_time(time_ns).match_event_indicator(flag);
        let mut group = message.md_entries();
        let mut entry = group.add();
        entry
            .md_entry_size(event.volume as i32)
            .security_id(security_id);
        entry
            .rpt_seq(event.volume_rpt_seq)
            .md_update_action(MDUpdateAction::CHANGE);
    });
}

fn write_level(
    update: &EntryUpdate,
    security_id: i32,
    entry: &mut MDIncrementalRefreshBook46MDEntriesWriter<'_>,
) {
    entry
        .md_entry_px(update.level.price)
        .md_entry_size(update.level.size as i32);
    entry.security_id(security_id).rpt_seq(update.rpt_seq);
    if update.level.orders > 0 {
        entry.number_of_orders(update.level.orders as i32);
    }
    entry
        .md_price_level(update.number)
        .md_update_action(update.action);
    entry.md_entry_type(update.kind);
}

fn write_deep_order(
    update: &OrderUpdate,
    security_id: i32,
    entry: &mut MDIncrementalRefreshOrderBook47MDEntriesWriter<'_>,
) {
    entry
        .order_id(update.order_id)
        .md_order_priority(update.order_id);
    entry
        .md_entry_px(update.price)
        .md_display_qty(update.size as i32);
    entry
        .security_id(security_id)
        .md_update_action(MDUpdateAction(update.action.0));
    entry.md_entry_type(kind(update.is_bid));
}

pub(crate) fn kind(is_bid: bool) -> MDEntryTypeBook {
    match is_bid {
        true => MDEntryTypeBook::BID,
        false => MDEntryTypeBook::OFFER,
    }
}

/// Orders of a chunk of a snapshot.
const CHUNK_ORDERS: usize = 20;
