//! Random days with losses: what is shown as certain is true.

use std::collections::BTreeSet;

use super::model::{Habits, Model, Scope, Truth};
use super::*;
use proptest::test_runner::RngSeed;

/// What a subscriber sees, and of which symbols it is certain.
#[derive(Default)]
struct Seen {
    values: BTreeMap<u32, LastValue>,
    doubtful: BTreeSet<u32>,
    time_ns: BTreeMap<u32, u64>,
}

impl Seen {
    fn note_time(&mut self, symbol: u32, time_ns: u64) {
        let last = self.time_ns.entry(symbol).or_default();
        assert!(time_ns >= *last, "the times of {symbol} go back");
        *last = time_ns;
    }
}

impl Sink for Seen {
    fn message(&mut self, sequence: u64, message: &Message) {
        let symbol = message.symbol().unwrap();
        let time_ns = match message {
            Message::Quote(quote) => quote.source_time_ns,
            Message::Trade(trade) => trade.source_time_ns,
            Message::Status(status) => status.source_time_ns,
            _ => return,
        };
        self.note_time(symbol, time_ns);
        let value = self.values.entry(symbol).or_insert(LastValue::new(symbol));
        value.figures.get_or_insert_default();
        value.sequence = 0;
        assert!(value.apply(sequence.max(1), message));
    }

    fn definition(&mut self, _sequence: u64, definition: &Definition) {
        self.note_time(definition.symbol, definition.source_time_ns);
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.note_time(record.symbol, record.source_time_ns);
        let flags = record.figures.unwrap().flags;
        match flags & Figures::IN_DOUBT {
            0 => self.doubtful.remove(&record.symbol),
            _ => self.doubtful.insert(record.symbol),
        };
        self.values.insert(record.symbol, *record);
    }

    fn values_doubtful(&mut self) {
        self.doubtful.extend(self.values.keys());
    }

    fn values_right(&mut self) {
        self.doubtful.clear();
    }
}

/// A step of a day. A packet may be lost.
#[derive(Clone, Debug)]
enum Step {
    Book(usize, u8, u32),
    Trade(usize, u32, bool, bool),
    Settle(usize),
    /// A settlement of a day before the session's: the weekday before it, or one more before.
    SettleBefore(usize, bool),
    Status(Scope, Option<SecurityTradingStatus>, Roll),
    Reset,
    Heartbeat,
    Define,
    RenewDefinitions,
    TakeSnapshots,
    /// Sends the snapshots that were taken, or those of now; without one of them if it is lost.
    Snapshots {
        are_old: bool,
        lost: Option<usize>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Roll {
    No,
    Reset,
    NextDay,
    NextDayAndReset,
}

struct Day {
    model: Model,
    receiver: Receiver,
    seen: Seen,
    now_ns: u64,
    packet: Vec<u8>,
    taken: Vec<Vec<u8>>,
    has_lost: bool,
    has_late_start: bool,
}

impl Day {
    fn new(habits: Habits) -> Self {
        Self {
            model: Model::new(habits),
            receiver: Receiver::new(ArbiterConfig::default(), ChannelConfig::default()),
            seen: Seen::default(),
            now_ns: 1,
            packet: Vec::new(),
            taken: Vec::new(),
            has_lost: false,
            has_late_start: false,
        }
    }

    fn run(&mut self, step: &Step, is_lost: bool) {
        let numbers = self.model.numbers();
        let packet = &mut self.packet;
        let mut is_cancel = false;
        match *step {
            Step::Book(index, choice, size) => self.model.book(index, choice, size, packet),
            Step::Trade(index, size, is_higher, cancels) => {
                is_cancel = self.model.trade(index, size, (is_higher, cancels), packet);
            }
            // Before the definition, the sessions of its group are unknown.
            Step::Settle(_) | Step::SettleBefore(..) if self.seen.values.is_empty() => {
                self.model.heartbeat(packet);
            }
            Step::Settle(index) => {
                let has_one = self.model.instruments[index].settlement.is_some();
                self.model.settle(index, packet);
                let one = &mut self.model.instruments[index];
                // Behind a lost reset, its number is one that was there before.
                let is_unseen = is_lost || one.is_behind_lost_reset;
                one.has_lost_settlement |= is_unseen && has_one;
                one.is_settlement_lost |= is_unseen;
            }
            Step::SettleBefore(index, is_older) => {
                let before = self.model.instruments[index].reference;
                let is_last = self.model.settle_before(index, is_older, packet);
                let one = &mut self.model.instruments[index];
                let is_unseen = is_lost || one.is_behind_lost_reset;
                if is_last {
                    // Another one of the same day may be known.
                    let is_same_day = one.reference.1 == before.1;
                    one.is_presumed = is_unseen && (one.is_presumed || is_same_day);
                }
            }
            Step::Status(scope, state, roll) => {
                if matches!(roll, Roll::NextDay | Roll::NextDayAndReset) {
                    self.model.next_day();
                }
                let is_reset = matches!(roll, Roll::Reset | Roll::NextDayAndReset);
                let before = self.model.instruments.clone();
                self.model.status(scope, state, is_reset, packet);
                for (one, before) in self.model.instruments.iter_mut().zip(before) {
                    if one.sessions == before.sessions {
                        continue;
                    }
                    let is_same_day = one.date == before.date;
                    let is_hidden = is_same_day
                        && before.settlement.is_some()
                        && (is_lost || before.is_settlement_lost);
                    one.has_lost_reset = is_hidden || is_lost && one.has_lost_reset;
                }
            }
            Step::Reset => self.model.reset(packet),
            Step::Heartbeat => self.model.heartbeat(packet),
            Step::Define => return self.define(),
            Step::RenewDefinitions => return self.model.renew_definitions(),
            Step::TakeSnapshots => return self.taken = self.model.snapshots(),
            Step::Snapshots { are_old, lost } => return self.recover(are_old, lost),
        }
        let is_lost = is_lost || self.model.goes_on_by_chance(&numbers);
        if is_cancel && is_lost {
            self.model
                .instruments
                .iter_mut()
                .for_each(|one| one.has_lost_cancel = true);
        }
        match (is_lost, step) {
            (_, Step::Reset) => self.model.note_reset(is_lost),
            (false, _) => self.model.note_delivery(&numbers),
            (true, _) => {}
        }
        match is_lost {
            true => self.has_lost = true,
            false => self.deliver(),
        }
    }

    fn deliver(&mut self) {
        let Self {
            receiver,
            seen,
            packet,
            now_ns,
            ..
        } = self;
        receiver.receive(Side::A, packet, *now_ns, seen).unwrap();
        // What is missing is given up.
        *now_ns += 1_000_000_000;
        receiver.handle_timeout(*now_ns, seen);
        let next = u64::from(self.model.sequence) + 1;
        assert_eq!(receiver.next_sequence(), next);
        self.check();
    }

    fn define(&mut self) {
        // Before the start, definitions may be of another day. The first ones after it are new.
        if self.model.sequence > 0 && self.receiver.next_sequence() == 0 {
            return;
        }
        // Without dates, one that comes late cannot be told from a new one.
        let habits = self.model.habits;
        let is_dated = habits.has_dates && (habits.are_dated[2] || habits.defines_today);
        if self.seen.values.is_empty() || !is_dated {
            self.model.renew_definitions();
        }
        for packet in self.model.definitions() {
            self.receiver
                .receive_definition(&packet, &mut self.seen)
                .unwrap();
        }
        self.check_if_caught_up();
    }

    fn recover(&mut self, are_old: bool, lost: Option<usize>) {
        let packets = match are_old {
            true => self.taken.clone(),
            false => self.model.snapshots(),
        };
        for (number, packet) in packets.iter().enumerate() {
            if Some(number) != lost {
                self.receiver
                    .receive_snapshot(packet, &mut self.seen)
                    .unwrap();
            }
        }
        self.check_if_caught_up();
    }

    fn check_if_caught_up(&self) {
        if self.receiver.next_sequence() == u64::from(self.model.sequence) + 1 {
            self.check();
        }
    }

    /// Compares every value that is shown as certain with the truth.
    fn check(&self) {
        for one in &self.model.instruments {
            let symbol = self.receiver.channel().symbol_of(one.id);
            let value = symbol.and_then(|symbol| self.seen.values.get(&symbol));
            if let Some(value) = value.filter(|value| !self.seen.doubtful.contains(&value.symbol)) {
                self.check_one(one, value);
            }
        }
    }

    fn check_one(&self, one: &Truth, value: &LastValue) {
        let figures = value.figures.unwrap();
        let price = |price: Option<i64>| price.unwrap_or(UNDEFINED_PRICE);
        let best = |side: usize| {
            one.sides[side]
                .first()
                .copied()
                .unwrap_or((UNDEFINED_PRICE, 0))
        };
        assert_eq!((value.bid, value.bid_size), best(0), "{one:?}");
        assert_eq!((value.ask, value.ask_size), best(1), "{one:?}");
        let last = one.last.unwrap_or((UNDEFINED_PRICE, 0));
        assert_eq!((value.last, value.last_size), last, "{one:?}");
        assert_eq!(value.volume, one.volume, "{one:?}");
        let range = [value.open, figures.high, figures.low];
        assert_eq!(range, one.range.map(price), "{one:?}");
        // That of an instrument without a snapshot is unknown.
        let is_unknown = value.state == TradingState::UNKNOWN;
        assert!(is_unknown || value.state == one.state(), "{one:?}");
        let day = one
            .date
            .map_or(0, |date| tidewire_calendar::date_number(date.into()));
        assert_eq!(figures.trading_day, day, "{one:?}");
        // After a loss, a definition without a date may be of any day.
        let habits = self.model.habits;
        let is_dated = habits.are_dated[2] || habits.defines_today;
        let is_unclear = one.has_lost_reset || one.is_presumed || self.has_lost && !is_dated;
        if figures.reference != UNDEFINED_PRICE && !is_unclear {
            assert_eq!(figures.reference, one.reference.0, "{one:?}");
        }
        if one.has_lost_cancel {
            return;
        }
        let count = one.trades.len();
        assert!(figures.trades as usize <= count, "{figures:?} {one:?}");
        assert!(self.has_lost || self.has_late_start || figures.trades as usize == count);
        let turnover = |&(price, size): &(i64, u32)| i128::from(price) * i128::from(size);
        let all: i128 = one.trades.iter().map(turnover).sum();
        assert!(
            figures.turnover < 0 || figures.turnover == all,
            "{figures:?} {one:?}"
        );
    }
}

fn states() -> impl Strategy<Value = Option<SecurityTradingStatus>> {
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(SecurityTradingStatus::READY_TO_TRADE)),
        1 => Just(Some(SecurityTradingStatus::TRADING_HALT)),
        1 => Just(Some(SecurityTradingStatus::PRE_OPEN)),
    ]
}

fn rolls() -> impl Strategy<Value = Roll> {
    prop_oneof![
        4 => Just(Roll::No),
        1 => Just(Roll::Reset),
        2 => Just(Roll::NextDay),
        2 => Just(Roll::NextDayAndReset),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let index = 0..3usize;
    let scopes = prop_oneof![
        index.clone().prop_map(Scope::Instrument),
        index.clone().prop_map(Scope::Product),
        index.clone().prop_map(Scope::Group),
    ];
    let lost = prop_oneof![3 => Just(None), 1 => (0..3usize).prop_map(Some)];
    prop_oneof![
        6 => (index.clone(), any::<u8>(), 1..100u32).prop_map(|(i, c, s)| Step::Book(i, c, s)),
        8 => (index.clone(), 1..1_000_000u32, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(i, s, higher, cancel)| Step::Trade(i, s, higher, cancel)),
        1 => index.clone().prop_map(Step::Settle),
        1 => (index, prop::bool::weighted(0.7)).prop_map(|(i, older)| Step::SettleBefore(i, older)),
        4 => (scopes, states(), rolls()).prop_map(|(s, state, r)| Step::Status(s, state, r)),
        1 => Just(Step::Reset),
        1 => Just(Step::Heartbeat),
        2 => Just(Step::Define),
        1 => Just(Step::RenewDefinitions),
        2 => Just(Step::TakeSnapshots),
        4 => (any::<bool>(), lost)
            .prop_map(|(are_old, lost)| Step::Snapshots { are_old, lost }),
    ]
}

fn habits() -> impl Strategy<Value = Habits> {
    (
        any::<[bool; 3]>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.8),
        any::<bool>(),
    )
        .prop_map(
            |(are_dated, is_long, defines_today, has_dates, has_old)| Habits {
                has_old_settlement: has_old,
                has_dates,
                is_long,
                are_dated,
                // Without dates, nothing tells of which day it is.
                defines_today: defines_today && has_dates,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_shown_as_certain_is_true(
        habits in habits(),
        late in prop_oneof![Just(0usize), 1..8usize],
        is_defined_first: bool,
        day in prop::collection::vec((steps(), prop::bool::weighted(0.25)), 1..60),
    ) {
        let mut here = Day::new(habits);
        here.has_late_start = late > 0 || !is_defined_first;
        if is_defined_first && late == 0 {
            here.define();
            here.run(&Step::Heartbeat, false);
        }
        for (number, (step, is_lost)) in day.iter().enumerate() {
            here.run(step, *is_lost || number < late);
        }
        // All is right again after a loop of snapshots.
        here.run(&Step::Trade(0, 7, true, false), false);
        here.run(&Step::Heartbeat, false);
        here.define();
        here.recover(false, None);
        prop_assert_eq!(here.receiver.channel().doubtful_count(), 0);
        prop_assert!(here.seen.doubtful.is_empty() && here.seen.values.len() == 3);
        here.check();
    }
}

/// One bad entry put every instrument of the channel in doubt.
#[test]
fn a_contradiction_puts_only_its_instrument_in_doubt() {
    let mut here = Day::new(DATED);
    here.define();
    for index in [0, 1, 0] {
        here.run(&Step::Book(index, 0, 5), false);
    }
    here.model.book(0, 0, 5, &mut here.packet);
    // Behind the headers and 16 bytes of the entry: a number that the instrument has passed.
    here.packet[52..56].copy_from_slice(&1u32.to_le_bytes());
    here.deliver();
    let symbol = here.receiver.channel().symbol_of(500).unwrap();
    assert_eq!(here.seen.doubtful, BTreeSet::from([symbol]));
    here.recover(false, None);
    assert!(here.seen.doubtful.is_empty());
    here.check();
}

/// Yesterday's trades were counted in the day of the instrument's own status.
#[test]
fn a_status_of_its_own_before_the_definition_begins_the_day_behind_that_of_the_group() {
    let mut here = Day::new(DATED);
    here.run(&Step::Status(Scope::Group(0), None, Roll::No), false);
    here.run(&Step::Trade(0, 5, true, false), false);
    here.run(&Step::Trade(0, 5, true, false), false);
    let own = Step::Status(Scope::Instrument(0), None, Roll::NextDay);
    here.run(&own, false);
    here.define();
    assert!(here.seen.doubtful.is_empty() && here.seen.values.len() == 3);
    here.run(&Step::Trade(0, 5, true, false), false);
    let symbol = here.receiver.channel().symbol_of(500).unwrap();
    let value = here.seen.values[&symbol];
    assert_eq!((value.volume, value.figures.unwrap().trades), (5, 1));
}

/// It stayed closed until a status came.
#[test]
fn an_instrument_that_is_deleted_and_defined_again_begins_with_nothing() {
    let mut here = Day::new(DATED);
    here.define();
    let open = Some(SecurityTradingStatus::READY_TO_TRADE);
    here.run(&Step::Status(Scope::Group(0), open, Roll::No), false);
    here.run(&Step::Book(0, 0, 5), false);
    here.run(&Step::Trade(0, 5, true, false), false);
    let symbol = here.receiver.channel().symbol_of(500).unwrap();
    for (action, state, bid) in [
        (b'D', TradingState::CLOSED, UNDEFINED_PRICE),
        (b'A', TradingState::OPEN, UNDEFINED_PRICE),
    ] {
        let mut packet = here.model.definitions().swap_remove(0);
        packet[12 + 10 + 5] = action;
        let taken = here.receiver.receive_definition(&packet, &mut here.seen);
        taken.unwrap();
        let value = here.seen.values[&symbol];
        assert_eq!((value.state, value.bid), (state, bid));
    }
    let value = here.seen.values[&symbol];
    assert_eq!((value.volume, value.last), (0, UNDEFINED_PRICE));
    assert!(here.seen.doubtful.is_empty());
}

const DATED: Habits = Habits {
    has_dates: true,
    is_long: false,
    are_dated: [true; 3],
    has_old_settlement: true,
    defines_today: false,
};
/// Number of days.
const CASES: u32 = 1_000;
