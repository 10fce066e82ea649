//! An exchange that is told what to do, and knows what is true of each instrument.

use std::collections::BTreeSet;

use tidewire_feed::wire::TradingState;
use tidewire_mdp::schema::*;
use tidewire_mdp::{PacketHeader, add_message, begin_packet};

/// How an exchange tells the day of a settlement, and which one its definitions have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Whether statuses and snapshots have trading days.
    pub(crate) has_dates: bool,
    /// Whether template 69 is used instead of 52: its settlements have no date.
    pub(crate) is_long: bool,
    /// Whether settlements of snapshots, of template 49, and of definitions have a date.
    pub(crate) are_dated: [bool; 3],
    /// Whether snapshots have the settlement of before the session, if there is none of it.
    pub(crate) has_old_settlement: bool,
    /// Whether a definition has the settlement of the day itself as soon as it is made. It has a
    /// date then.
    pub(crate) defines_today: bool,
}

/// What is true of an instrument.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) id: i32,
    pub(crate) group: [u8; 6],
    pub(crate) asset: [u8; 6],
    rpt_seq: u32,
    /// Bids and offers, the best first.
    pub(crate) sides: [Vec<(i64, u32)>; 2],
    pub(crate) last: Option<(i64, u32)>,
    /// Trades of the session that were not cancelled.
    pub(crate) trades: Vec<(i64, u32)>,
    pub(crate) volume: u64,
    pub(crate) range: [Option<i64>; 3],
    pub(crate) status: Option<SecurityTradingStatus>,
    pub(crate) date: Option<u16>,
    /// Price and day of the settlement before the session, and of that of the session.
    pub(crate) reference: (i64, u16),
    pub(crate) settlement: Option<(i64, u16)>,
    /// Number of sessions so far.
    pub(crate) sessions: u32,
    /// What its definition says, which is renewed at times of its own.
    defined: Option<(i64, u16)>,
    /// A cancellation was lost in this session: what was received of it says little.
    pub(crate) has_lost_cancel: bool,
    /// Of a settlement, and a reset of the same date behind it, one was lost: which one is the
    /// reference depends on that alone.
    pub(crate) has_lost_reset: bool,
    /// A settlement was lost behind another one of the same session, and that the next session
    /// takes the first for the reference is known.
    pub(crate) has_lost_settlement: bool,
    pub(crate) is_presumed: bool,
    /// The settlement of the session was lost.
    pub(crate) is_settlement_lost: bool,
    /// Numbers of its own sequence that were delivered, or are in a snapshot.
    seen: BTreeSet<u32>,
    /// A channel reset was lost behind them.
    pub(crate) is_behind_lost_reset: bool,
}

impl Truth {
    fn new(number: i32, date: u16) -> Self {
        Self {
            id: 500 + number,
            group: if number < 2 {
                *b"G0\0\0\0\0"
            } else {
                *b"G1\0\0\0\0"
            },
            asset: if number % 2 == 0 {
                *b"A0\0\0\0\0"
            } else {
                *b"A1\0\0\0\0"
            },
            rpt_seq: 0,
            sides: [Vec::new(), Vec::new()],
            last: None,
            trades: Vec::new(),
            volume: 0,
            range: [None; 3],
            status: None,
            date: None,
            reference: (1_000 + i64::from(number), date - 1),
            settlement: None,
            sessions: 0,
            defined: None,
            has_lost_cancel: false,
            has_lost_reset: false,
            has_lost_settlement: false,
            is_presumed: false,
            is_settlement_lost: false,
            seen: BTreeSet::new(),
            is_behind_lost_reset: false,
        }
    }

    pub(crate) fn state(&self) -> TradingState {
        match self.status {
            Some(SecurityTradingStatus::READY_TO_TRADE) => TradingState::OPEN,
            Some(SecurityTradingStatus::TRADING_HALT) => TradingState::HALTED,
            Some(SecurityTradingStatus::PRE_OPEN) => TradingState::PRE_OPEN,
            _ => TradingState::UNKNOWN,
        }
    }

    fn next(&mut self) -> u32 {
        self.rpt_seq += 1;
        self.rpt_seq
    }

    fn begin_session(&mut self) {
        self.trades.clear();
        (self.volume, self.range) = (0, [None; 3]);
        let has_settlement = self.settlement.is_some();
        self.reference = self.settlement.take().unwrap_or(self.reference);
        self.has_lost_cancel = false;
        self.is_settlement_lost = false;
        self.sessions += 1;
        if has_settlement {
            self.is_presumed = std::mem::take(&mut self.has_lost_settlement);
        }
    }

    fn take_status(
        &mut self,
        state: Option<SecurityTradingStatus>,
        date: Option<u16>,
        reset: bool,
    ) {
        self.status = state.or(self.status);
        if reset || (self.date.is_some() && date > self.date) {
            self.begin_session();
        }
        self.date = self.date.max(date);
    }

    /// Returns whether the exchange has a snapshot of it.
    fn has_snapshot(&self) -> bool {
        self.rpt_seq > 0 || self.last.is_some() || self.date.is_some()
    }
}

/// The exchange.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) habits: Habits,
    pub(crate) instruments: Vec<Truth>,
    pub(crate) sequence: u32,
    pub(crate) time_ns: u64,
    pub(crate) date: u16,
    price: i64,
}

/// Whom a status is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    Instrument(usize),
    Product(usize),
    Group(usize),
}

impl Model {
    pub(crate) fn new(habits: Habits) -> Self {
        let date = 20_000;
        Self {
            habits,
            instruments: (0..3).map(|number| Truth::new(number, date)).collect(),
            sequence: 0,
            time_ns: 1_700_000_000_000_000_000,
            date,
            price: 2_000,
        }
    }

    /// Begins the next weekday.
    pub(crate) fn next_day(&mut self) {
        self.date += if (self.date + 4) % 7 == 5 { 3 } else { 1 };
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.sequence += 1;
        self.time_ns += 1_000_000;
        let header = PacketHeader {
            sequence: self.sequence,
            sending_time_ns: self.time_ns,
        };
        begin_packet(out, header);
    }

    fn today(&self) -> Option<u16> {
        self.habits.has_dates.then_some(self.date)
    }

    /// Returns a price that no trade or settlement had before.
    fn new_price(&mut self, is_higher: bool) -> i64 {
        self.price += 1;
        if is_higher {
            50_000 + self.price
        } else {
            50_000 - self.price
        }
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        add_message(out, |out| {
            AdminHeartbeat12::encode(out);
        });
    }

    /// Changes a level, and the levels after it.
    pub(crate) fn book(&mut self, index: usize, choice: u8, size: u32, out: &mut Vec<u8>) {
        self.begin(out);
        let one = &mut self.instruments[index];
        let side = usize::from(choice % 2);
        let sign = if side == 0 { 1 } else { -1 };
        let levels = &mut one.sides[side];
        let (action, number) = match (levels.len(), choice / 2 % 3) {
            (0, _) | (1..DEPTH, 0) => (MDUpdateAction::NEW, 0),
            (count, 1) => (MDUpdateAction::CHANGE, usize::from(choice / 6) % count),
            (count, _) => (MDUpdateAction::DELETE, usize::from(choice / 6) % count),
        };
        let best = levels
            .first()
            .map_or(100_000 - 50_000 * sign, |level| level.0);
        let level = match action {
            MDUpdateAction::NEW => (best + sign, size),
            MDUpdateAction::CHANGE => (levels[number].0, size),
            _ => levels[number],
        };
        match action {
            MDUpdateAction::NEW => levels.insert(0, level),
            MDUpdateAction::CHANGE => levels[number] = level,
            _ => drop(levels.remove(number)),
        }
        let rpt_seq = one.next();
        let time_ns = self.time_ns;
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshBook46::encode(out);
            message.transact_time(time_ns);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            let mut group = message.md_entries();
            let mut entry = group.add();
            entry.md_entry_px(level.0).md_entry_size(level.1 as i32);
            entry.security_id(one.id).rpt_seq(rpt_seq);
            entry
                .md_price_level(number as u8 + 1)
                .md_update_action(action);
            entry.md_entry_type(kind(side));
            message.order_id_entries();
        });
    }

    /// Trades, with volume and statistics, or cancels the first trade of the session.
    pub(crate) fn trade(
        &mut self,
        index: usize,
        size: u32,
        (is_higher, is_cancel): (bool, bool),
        out: &mut Vec<u8>,
    ) -> bool {
        let price = self.new_price(is_higher);
        self.begin(out);
        let time_ns = self.time_ns;
        let one = &mut self.instruments[index];
        let is_cancel = is_cancel && one.trades.len() > 1;
        let (action, traded) = match is_cancel {
            true => (MDUpdateAction::DELETE, one.trades.remove(0)),
            false => (MDUpdateAction::NEW, (price, size)),
        };
        let rpt_seq = one.next();
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshTradeSummary48::encode(out);
            message.transact_time(time_ns);
            let mut group = message.md_entries();
            let mut entry = group.add();
            entry.md_entry_px(traded.0).md_entry_size(traded.1 as i32);
            entry
                .security_id(one.id)
                .rpt_seq(rpt_seq)
                .md_update_action(action);
            message.order_id_entries();
        });
        match is_cancel {
            true => one.volume -= u64::from(traded.1),
            false => {
                one.trades.push(traded);
                (one.last, one.volume) = (Some(traded), one.volume + u64::from(traded.1));
            }
        }
        let (volume, rpt_seq) = (one.volume, one.next());
        let flag = match is_cancel {
            true => MatchEventIndicator::END_OF_EVENT,
            false => MatchEventIndicator::default(),
        };
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshVolume37::encode(out);
            message.transact_time(time_ns).match_event_indicator(flag);
            let mut group = message.md_entries();
            let mut entry = group.add();
            entry
                .md_entry_size(volume as i32)
                .security_id(one.id)
                .rpt_seq(rpt_seq);
        });
        if is_cancel {
            return true;
        }
        let [open, high, low] = one.range;
        let mut told = vec![(MDEntryTypeStatistics::OPEN_PRICE, 0, open.is_none())];
        told.push((
            MDEntryTypeStatistics::HIGH_TRADE,
            1,
            high.is_none_or(|high| price > high),
        ));
        told.push((
            MDEntryTypeStatistics::LOW_TRADE,
            2,
            low.is_none_or(|low| price < low),
        ));
        add_message(out, |out| {
            let mut message = MDIncrementalRefreshSessionStatistics51::encode(out);
            message.transact_time(time_ns);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            let mut group = message.md_entries();
            for (kind, place, _) in told.into_iter().filter(|told| told.2) {
                one.range[place] = Some(price);
                let rpt_seq = one.next();
                let mut entry = group.add();
                entry
                    .md_entry_px(price)
                    .security_id(one.id)
                    .rpt_seq(rpt_seq);
                entry.md_entry_type(kind);
            }
        });
        false
    }

    /// Gives a settlement, if the day is known.
    pub(crate) fn settle(&mut self, index: usize, out: &mut Vec<u8>) {
        if self.habits.has_dates && self.instruments[index].date.is_none() {
            return self.heartbeat(out);
        }
        let price = self.new_price(true);
        self.begin(out);
        let (time_ns, has_date) = (self.time_ns, self.habits.are_dated[1]);
        let one = &mut self.instruments[index];
        let date = one.date.unwrap_or(self.date);
        one.settlement = Some((price, date));
        if self.habits.defines_today && one.defined.is_some() {
            one.defined = one.settlement;
        }
        write_settlement(one, (time_ns, price, has_date.then_some(date)), out);
    }

    /// Gives a settlement of the weekday before the session, or of one more before, if settlements
    /// have a date. Returns whether it is the reference.
    pub(crate) fn settle_before(
        &mut self,
        index: usize,
        is_older: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let has_date = self.habits.has_dates && self.habits.are_dated[1];
        // After a reset of the same date, the reference may be of the day itself.
        let one = &self.instruments[index];
        let is_usual = |today: &u16| has_date && one.reference.1 < *today;
        let Some(today) = one.date.filter(is_usual) else {
            self.heartbeat(out);
            return false;
        };
        let price = self.new_price(true);
        self.begin(out);
        let one = &mut self.instruments[index];
        let date = match is_older {
            true => weekday_before(weekday_before(today)),
            false => weekday_before(today),
        };
        let is_last = one.reference.1 <= date;
        if is_last {
            one.reference = (price, date);
            // The definition is renewed at once if it has another one of this date.
            let defined = one.defined.filter(|defined| defined.1 != date);
            one.defined = defined.or(one.defined.map(|_| one.reference));
        }
        write_settlement(one, (self.time_ns, price, Some(date)), out);
        is_last
    }

    /// Gives a trading state, or none, with today's date and maybe a reset of statistics.
    pub(crate) fn status(
        &mut self,
        scope: Scope,
        state: Option<SecurityTradingStatus>,
        is_reset: bool,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        let (time_ns, date) = (self.time_ns, self.today());
        let (Scope::Instrument(index) | Scope::Product(index) | Scope::Group(index)) = scope;
        let one = self.instruments[index].clone();
        for member in &mut self.instruments {
            let is_meant = match scope {
                Scope::Instrument(_) => member.id == one.id,
                Scope::Product(_) => (member.group, member.asset) == (one.group, one.asset),
                Scope::Group(_) => member.group == one.group,
            };
            if is_meant {
                member.take_status(state, date, is_reset);
            }
        }
        add_message(out, |out| {
            let mut message = SecurityStatus30::encode(out);
            message.transact_time(time_ns).security_group(one.group);
            message.security_trading_status(state.unwrap_or(SecurityTradingStatus::NO_CHANGE));
            if is_reset {
                message.security_trading_event(SecurityTradingEvent::RESET_STATISTICS);
            }
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            match scope {
                Scope::Instrument(_) => drop(message.security_id(one.id)),
                Scope::Product(_) => drop(message.asset(one.asset)),
                Scope::Group(_) => {}
            }
            if let Some(date) = date {
                message.trade_date(date);
            }
        });
    }

    pub(crate) fn reset(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        let time_ns = self.time_ns;
        for one in &mut self.instruments {
            (one.rpt_seq, one.sides) = (0, [Vec::new(), Vec::new()]);
        }
        add_message(out, |out| {
            let mut message = ChannelReset4::encode(out);
            message.transact_time(time_ns);
            message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            message.md_entries().add().appl_id(310);
        });
    }

    /// Notes that the last packet was delivered. The numbers before it are those of `before`.
    pub(crate) fn note_delivery(&mut self, before: &[u32]) {
        for (one, &before) in self.instruments.iter_mut().zip(before) {
            if one.rpt_seq != before {
                one.seen.insert(one.rpt_seq);
                one.is_behind_lost_reset = false;
            }
        }
    }

    /// Notes a channel reset.
    pub(crate) fn note_reset(&mut self, is_lost: bool) {
        for one in &mut self.instruments {
            one.is_behind_lost_reset = is_lost;
            if !is_lost {
                one.seen.clear();
            }
        }
    }

    /// Returns whether the last packet has an entry that seems to go on with the last one that was
    /// seen, but is of after a lost reset.
    pub(crate) fn goes_on_by_chance(&self, before: &[u32]) -> bool {
        let all = self.instruments.iter().zip(before);
        let mut changed = all.filter(|(one, before)| one.rpt_seq != **before);
        changed.any(|(one, before)| one.is_behind_lost_reset && one.seen.contains(before))
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.instruments.iter().map(|one| one.rpt_seq).collect()
    }

    /// Renews what definitions say.
    pub(crate) fn renew_definitions(&mut self) {
        for one in &mut self.instruments {
            let today = one.settlement.filter(|_| self.habits.defines_today);
            one.defined = Some(today.unwrap_or(one.reference));
        }
    }

    /// Makes a loop of the definition feed.
    pub(crate) fn definitions(&self) -> Vec<Vec<u8>> {
        let all = (1..).zip(&self.instruments);
        all.map(|(number, one)| {
            let mut out = Vec::new();
            self.begin_other(number, &mut out);
            add_message(&mut out, |out| write_definition(one, self.habits, out));
            out
        })
        .collect()
    }

    fn begin_other(&self, sequence: u32, out: &mut Vec<u8>) {
        let header = PacketHeader {
            sequence,
            sending_time_ns: self.time_ns,
        };
        begin_packet(out, header);
    }

    /// Makes a loop of the recovery feed.
    pub(crate) fn snapshots(&mut self) -> Vec<Vec<u8>> {
        for one in &mut self.instruments {
            one.seen.insert(one.rpt_seq);
        }
        let known: Vec<_> = self
            .instruments
            .iter()
            .filter(|one| one.has_snapshot())
            .collect();
        let all = (1..).zip(&known);
        all.map(|(number, one)| {
            let mut out = Vec::new();
            self.begin_other(number, &mut out);
            let total = known.len() as u32;
            add_message(&mut out, |out| match self.habits.is_long {
                true => self.write_long_snapshot(one, total, out),
                false => self.write_snapshot(one, total, out),
            });
            out
        })
        .collect()
    }

    fn write_snapshot(&self, one: &Truth, total: u32, out: &mut Vec<u8>) {
        let mut message = SnapshotFullRefresh52::encode(out);
        message
            .last_msg_seq_num_processed(self.sequence)
            .tot_num_reports(total);
        message
            .security_id(one.id)
            .rpt_seq(one.rpt_seq)
            .transact_time(self.time_ns);
        if let Some(status) = one.status {
            message.md_security_trading_status(status);
        }
        if let Some(date) = one.date {
            message.trade_date(date);
        }
        let mut group = message.md_entries();
        for (kind, price, size, number) in entries(one, self.habits) {
            let mut entry = group.add();
            entry
                .md_entry_type(MDEntryType(kind))
                .md_entry_size(size as i32);
            if number > 0 {
                entry.md_price_level(number as i8);
            }
            if price != i64::MAX {
                entry.md_entry_px(price);
            }
            if kind == b'6' && self.habits.are_dated[0] {
                entry.trading_reference_date(one.settlement.unwrap_or(one.reference).1);
            }
            if kind == b'6' {
                entry.settl_price_type(SettlPriceType::FINAL_DAILY);
            }
        }
    }

    fn write_long_snapshot(&self, one: &Truth, total: u32, out: &mut Vec<u8>) {
        let mut message = SnapshotFullRefreshLongQty69::encode(out);
        message
            .last_msg_seq_num_processed(self.sequence)
            .tot_num_reports(total);
        message
            .security_id(one.id)
            .rpt_seq(one.rpt_seq)
            .transact_time(self.time_ns);
        if let Some(status) = one.status {
            message.md_security_trading_status(status);
        }
        if let Some(date) = one.date {
            message.trade_date(date);
        }
        let mut group = message.md_entries();
        for (kind, price, size, number) in entries(one, self.habits) {
            let mut entry = group.add();
            entry.md_entry_type(MDEntryType(kind)).md_entry_size(size);
            if number > 0 {
                entry.md_price_level(number);
            }
            if price != i64::MAX {
                entry.md_entry_px(price);
            }
        }
    }
}

/// Returns kind, price, quantity and level of the entries of a snapshot.
fn entries(one: &Truth, habits: Habits) -> Vec<(u8, i64, u64, u8)> {
    let mut all = Vec::new();
    for (kind, side) in [(b'0', &one.sides[0]), (b'1', &one.sides[1])] {
        let levels = (1..).zip(side);
        all.extend(levels.map(|(number, &(price, size))| (kind, price, size.into(), number)));
    }
    if let Some((price, size)) = one.last {
        all.push((b'2', price, size.into(), 0));
    }
    for (kind, price) in [b'4', b'7', b'8'].into_iter().zip(one.range) {
        all.extend(price.map(|price| (kind, price, 0, 0)));
    }
    if one.volume > 0 {
        all.push((b'e', i64::MAX, one.volume, 0));
    }
    if one.settlement.is_some() || habits.has_old_settlement {
        all.push((b'6', one.settlement.unwrap_or(one.reference).0, 0, 0));
    }
    all
}

fn write_definition(one: &Truth, habits: Habits, out: &mut Vec<u8>) {
    let mut message = MDInstrumentDefinitionFuture54::encode(out);
    message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    message
        .tot_num_reports(3)
        .security_update_action(SecurityUpdateAction::ADD);
    if let Some(status) = one.status {
        message.md_security_trading_status(status);
    }
    message
        .appl_id(310)
        .security_group(one.group)
        .asset(one.asset);
    let mut symbol = [0; 20];
    let name = format!("TW{}", one.id);
    symbol[..name.len()].copy_from_slice(name.as_bytes());
    message.symbol(symbol).security_id(one.id).currency(*b"USD");
    message
        .min_trade_vol(1)
        .min_price_increment(1)
        .display_factor(1_000_000_000);
    if let Some((price, date)) = one.defined {
        message.trading_reference_price(price);
        if habits.are_dated[2] || habits.defines_today {
            message.trading_reference_date(date);
        }
    }
    message.events();
    let mut feeds = message.md_feed_types();
    feeds.add().md_feed_type(*b"GBX").market_depth(DEPTH as i8);
    message.inst_attrib();
    message.lot_type_rules();
}

fn write_settlement(
    one: &mut Truth,
    (time_ns, price, date): (u64, i64, Option<u16>),
    out: &mut Vec<u8>,
) {
    let (id, rpt_seq) = (one.id, one.next());
    add_message(out, |out| {
        let mut message = MDIncrementalRefreshDailyStatistics49::encode(out);
        message.transact_time(time_ns);
        message.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
        let mut group = message.md_entries();
        let mut entry = group.add();
        entry.md_entry_px(price).security_id(id).rpt_seq(rpt_seq);
        entry.md_entry_type(MDEntryTypeDailyStatistics::SETTLEMENT_PRICE);
        entry.settl_price_type(SettlPriceType::FINAL_DAILY);
        if let Some(date) = date {
            entry.trading_reference_date(date);
        }
    });
}

fn weekday_before(date: u16) -> u16 {
    // 1970-01-01 was a Thursday.
    let is_monday = (date + 4) % 7 == 1;
    date - if is_monday { 3 } else { 1 }
}

fn kind(side: usize) -> MDEntryTypeBook {
    match side {
        0 => MDEntryTypeBook::BID,
        _ => MDEntryTypeBook::OFFER,
    }
}

/// Levels of a book.
const DEPTH: usize = 4;
