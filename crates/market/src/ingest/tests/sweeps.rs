//! Events that reach the topics of a source a slice at a time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidewire_feed::server::Steps;

use super::*;
use crate::board::certainty;

/// What happens to a source, or to another one beside it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Doubtful,
    Lost,
    AsBefore,
    Right,
    Leaves,
    IsBack,
    NewSession,
    /// The connection ends and another one goes on.
    Resumes,
    /// A value of a symbol at a venue.
    Value(u32, u16),
    Level(u32, u16),
    State(u32, u16),
    Record(u32, u16),
    /// The symbol is defined again, as the second name if `true`.
    Defines(u32, bool),
    /// A venue number gets another name.
    Renames(u16, bool),
    /// Another source gives the symbol a value at its own venue, or at the first one's.
    Other(u32, u16),
    OtherLeaves,
    /// A slice for so many topics.
    Slice(u8),
}

/// A hub with one source that steps happen to.
struct Rig {
    market: Arc<Market>,
    ingest: Option<Ingest>,
    other: Option<Ingest>,
    /// Topics that an event reaches at once.
    at_once: usize,
    /// What subscribers have got last, by channel.
    shown: BTreeMap<Vec<u8>, Vec<u8>>,
}

const SYMBOLS: u32 = 6;
/// Symbols that have a value at the begin. Another source gives them a second venue; it would take
/// over one without a value, at which a slice may come too late.
const VALUED: u32 = 3;

impl Rig {
    fn new(at_once: usize) -> Self {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut rig = Self {
            ingest: None,
            other: None,
            market,
            at_once,
            shown: BTreeMap::new(),
        };
        rig.ingest = Some(rig.connect("one"));
        rig.define_all();
        (0..VALUED).for_each(|symbol| rig.step(Step::Value(symbol, 1)));
        rig
    }

    fn connect(&self, name: &str) -> Ingest {
        let number = self.market.next_source_number() as u32;
        let mut ingest = Ingest::new(self.market.clone(), number, name);
        ingest.at_once = self.at_once;
        let mut batch = ingest.begin(1);
        batch.venue(&venue(1, "V1"));
        batch.venue(&venue(2, "V2"));
        batch.finish();
        ingest
    }

    fn define_all(&mut self) {
        self.with(|batch| {
            for symbol in 0..SYMBOLS {
                batch.definition(1, &definition(symbol, &format!("S{symbol}")));
            }
        });
    }

    fn note(&mut self, (publication, _): (Publication, u64)) {
        for news in publication.news() {
            self.shown.insert(news.name.to_vec(), news.payload.to_vec());
        }
    }

    fn with(&mut self, act: impl FnOnce(&mut Batch<'_>)) {
        let mut batch = self.ingest.as_mut().unwrap().begin(1);
        act(&mut batch);
        let news = batch.finish();
        self.note(news);
    }

    fn sweep(&mut self, topics: u64) {
        let steps = &mut Steps::new(topics * 30);
        let ingests = [&mut self.ingest, &mut self.other];
        let news = ingests.map(|ingest| ingest.as_mut().map(|ingest| ingest.sweep(steps, 1)));
        news.into_iter().flatten().for_each(|news| self.note(news));
    }

    fn finish(&mut self) {
        while self.ingest.as_ref().is_some_and(Ingest::is_sweeping)
            || self.other.as_ref().is_some_and(Ingest::is_sweeping)
        {
            self.sweep(2);
        }
    }

    /// Takes all symbols over that the last connection has left. Until then another source may
    /// claim and leave them, as it may before the connection, and no publisher changes its session.
    fn take_returning(&mut self) {
        let is_returning = |ingest: &Ingest| ingest.certainties.returning.is_some();
        while self.ingest.as_ref().is_some_and(is_returning) {
            self.sweep(2);
        }
    }

    /// Leaves all topics of renamed venues. Until then another source finds them taken, and an
    /// event reaches them.
    fn take_renamed(&mut self) {
        let is_renaming = |ingest: &Ingest| ingest.certainties.renamed.is_some();
        while self.ingest.as_ref().is_some_and(is_renaming) {
            self.sweep(2);
        }
    }

    fn resume(&mut self) {
        let mut ingest = self.ingest.take().unwrap();
        let all = std::cell::RefCell::new(Vec::new());
        ingest.lose_slowly(|news| all.borrow_mut().push(news));
        all.into_inner()
            .into_iter()
            .for_each(|news| self.note(news));
        let state = ingest.take_state();
        drop(ingest);
        self.ingest = Some(self.connect("one"));
        self.with(|batch| batch.resume(state));
    }

    fn other(&mut self, symbol: u32, number: u16) {
        let mut other = match self.other.take() {
            Some(other) => other,
            None => {
                let mut other = self.connect("other");
                let mut batch = other.begin(1);
                for symbol in 0..SYMBOLS {
                    batch.definition(1, &definition(symbol, &format!("S{symbol}")));
                }
                batch.venue(&venue(3, "V3"));
                batch.finish();
                other
            }
        };
        let mut batch = other.begin(1);
        batch.message(1, &quote(symbol, number, 12, 18));
        let news = batch.finish();
        self.note(news);
        self.other = Some(other);
    }

    fn step(&mut self, step: Step) {
        if matches!(step, Step::NewSession | Step::Other(..) | Step::OtherLeaves) {
            self.take_returning();
        }
        let is_of_symbol = matches!(
            step,
            Step::Value(..) | Step::Level(..) | Step::State(..) | Step::Record(..)
        );
        if !is_of_symbol && !matches!(step, Step::Slice(_)) {
            self.take_renamed();
        }
        match step {
            Step::Doubtful => self.with(|batch| batch.values_doubtful()),
            Step::Lost => self.with(|batch| {
                batch.gap(Gap::Lost {
                    from: 1,
                    count: 1,
                    reason: tidewire_feed::client::LossReason::TooOld,
                });
                batch.values_lost();
            }),
            Step::AsBefore => self.with(|batch| {
                if batch.work.certainties.doubt != Doubt::None {
                    batch.values_as_before();
                }
            }),
            Step::Right => self.with(|batch| batch.values_right()),
            Step::Leaves => {
                let news = self.ingest.as_mut().unwrap().lose(1);
                self.note(news);
            }
            Step::IsBack => self.with(|batch| batch.revive()),
            Step::NewSession => {
                self.with(|batch| batch.session_changed(1, 2));
                self.define_all();
            }
            Step::Resumes => self.resume(),
            Step::Value(symbol, venue) => {
                self.with(|batch| batch.message(1, &quote(symbol, venue, 10, 20)));
            }
            Step::Level(symbol, venue) => self.with(|batch| {
                batch.message(1, &clear(symbol, venue));
                batch.message(1, &set_level(symbol, venue, 10));
            }),
            Step::State(symbol, venue) => {
                let open = status(symbol, venue, TradingState::OPEN);
                self.with(|batch| batch.message(1, &open));
            }
            Step::Record(symbol, source) => self.with(|batch| {
                let record = LastValue {
                    source,
                    bid: 11,
                    ask: 19,
                    ..LastValue::new(symbol)
                };
                batch.snapshot_record(1, &record);
            }),
            Step::Defines(symbol, as_other) => self.with(|batch| {
                let name = if as_other { "T" } else { "S" };
                let definition = definition(symbol, &format!("{name}{symbol}"));
                batch.definition(1, &definition);
            }),
            Step::Renames(number, is_other) => self.with(|batch| {
                let name = if is_other { "W" } else { "V" };
                batch.venue(&venue(number, &format!("{name}{number}")));
            }),
            Step::Other(symbol, venue) => self.other(symbol, venue),
            Step::OtherLeaves => {
                if let Some(mut other) = self.other.take() {
                    let all = std::cell::RefCell::new(Vec::new());
                    other.lose_slowly(|news| all.borrow_mut().push(news));
                    all.into_inner()
                        .into_iter()
                        .for_each(|news| self.note(news));
                }
            }
            Step::Slice(topics) => self.sweep(topics.into()),
        }
    }

    /// Returns name, flags, prices and book of all topics. Which prices of a symbol without any
    /// connected venue are the last ones depends on which source's event came to it first.
    fn state(&self) -> Vec<(String, u32, i64, i64, Option<usize>)> {
        let topics = self.market.board.topics();
        let states = topics.iter().map(|topic| {
            let value = self.market.board.value(topic.number).unwrap();
            let name = String::from_utf8_lossy(&topic.channel).into_owned();
            let book = self.market.books.read(topic.symbol(), 10, 1);
            let levels = book.map(|book| book.bids.len());
            let is_last = topic.is_consolidated() && staleness(&value) == 1;
            let (bid, ask) = if is_last {
                (0, 0)
            } else {
                (value.bid, value.ask)
            };
            (name, value.flags, bid, ask, levels)
        });
        states.collect()
    }

    /// Fails if a subscriber or a client of the hub's own feed was not told how certain a value is.
    fn assert_told(&self) {
        let mut told = BTreeMap::new();
        let journal = self.market.journal.lock();
        for message in (1..journal.next_sequence()).filter_map(|at| journal.message(at)) {
            match message {
                Message::Certainty(new) => _ = told.insert(new.symbol, new.flags),
                Message::LastValue(new) => {
                    let flags = new.figures.map_or(0, |figures| figures.flags);
                    told.insert(new.symbol, flags);
                }
                _ => {}
            }
        }
        drop(journal);
        for topic in self.market.board.topics() {
            let value = self.market.board.value(topic.number).unwrap();
            let own = stale_of(certainty(value.flags));
            let known = told.get(&topic.number).copied().unwrap_or(0);
            assert_eq!(stale_of(known), own, "{:?} in the feed", topic.channel);
            if let Some(text) = self.shown.get(&*topic.channel) {
                let text = String::from_utf8_lossy(text);
                let wanted = format!("\"stale\":{own}");
                assert!(text.contains(&wanted), "{wanted} in {text}");
            }
        }
    }
}

fn stale_of(flags: u8) -> u8 {
    match flags {
        flags if flags & Figures::STALE != 0 => 1,
        flags if flags & Figures::IN_DOUBT != 0 => 2,
        _ => 0,
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let place = || (0..SYMBOLS, 1..3_u16);
    prop_oneof![
        2 => Just(Step::Doubtful),
        2 => Just(Step::Lost),
        2 => Just(Step::AsBefore),
        2 => Just(Step::Right),
        2 => Just(Step::Leaves),
        2 => Just(Step::IsBack),
        1 => Just(Step::NewSession),
        1 => Just(Step::Resumes),
        6 => place().prop_map(|(symbol, venue)| Step::Value(symbol, venue)),
        1 => place().prop_map(|(symbol, venue)| Step::Level(symbol, venue)),
        1 => place().prop_map(|(symbol, venue)| Step::State(symbol, venue)),
        2 => place().prop_map(|(symbol, venue)| Step::Record(symbol, venue)),
        1 => (0..SYMBOLS, any::<bool>()).prop_map(|(symbol, other)| Step::Defines(symbol, other)),
        1 => (1..3_u16, any::<bool>()).prop_map(|(venue, other)| Step::Renames(venue, other)),
        1 => (0..VALUED, 1..4_u16).prop_map(|(symbol, venue)| Step::Other(symbol, venue)),
        1 => Just(Step::OtherLeaves),
        8 => (1..4_u8).prop_map(Step::Slice),
    ]
}

/// One topic of a source of plain topics, and the lists of it, as events that reach all topics at
/// once change them.
#[derive(Debug, Default)]
struct Plain {
    flags: BTreeMap<u32, (bool, bool)>,
    valued: BTreeSet<u32>,
    doubt: Doubt,
    left: BTreeSet<u32>,
    interrupted: BTreeSet<u32>,
}

impl Plain {
    fn step(&mut self, step: Step) {
        match step {
            Step::Doubtful if self.doubt == Doubt::Messages => {
                let certain = self.flags.iter().filter(|(_, flags)| !flags.1);
                self.interrupted = certain.map(|(number, _)| *number).collect();
                self.flags.values_mut().for_each(|flags| flags.1 = true);
            }
            Step::Doubtful => {
                self.doubt = Doubt::Records;
                self.flags.values_mut().for_each(|flags| flags.1 = true);
            }
            Step::Lost => {
                self.doubt = Doubt::Messages;
                self.interrupted.clear();
                self.flags.values_mut().for_each(|flags| flags.1 = true);
            }
            Step::AsBefore if self.doubt == Doubt::None => {}
            Step::AsBefore => {
                for number in std::mem::take(&mut self.interrupted) {
                    self.flags.get_mut(&number).unwrap().1 = false;
                }
            }
            Step::Right => {
                self.doubt = Doubt::None;
                let left = std::mem::take(&mut self.left);
                for (number, flags) in &mut self.flags {
                    flags.1 = false;
                    flags.0 &= !left.contains(number) && !self.valued.contains(number);
                }
            }
            Step::Leaves => {
                for (number, flags) in &mut self.flags {
                    if !std::mem::replace(&mut flags.0, true) {
                        self.left.insert(*number);
                    }
                }
            }
            Step::IsBack => {
                for number in std::mem::take(&mut self.left) {
                    self.flags.get_mut(&number).unwrap().0 = false;
                }
            }
            Step::NewSession => {
                self.flags.values_mut().for_each(|flags| flags.0 = true);
                self.left.clear();
                self.interrupted.clear();
                self.valued.clear();
                if self.doubt != Doubt::None {
                    self.flags.values_mut().for_each(|flags| flags.1 = true);
                }
            }
            Step::Resumes => {
                self.step(Step::Leaves);
                self.step(Step::IsBack);
            }
            Step::Value(symbol, _) => {
                let flags = self.flags.get_mut(&symbol).unwrap();
                if self.valued.insert(symbol) {
                    *flags = (false, self.doubt != Doubt::None);
                }
                flags.1 &= self.doubt != Doubt::Messages;
            }
            _ => unreachable!("no step of plain topics"),
        }
    }
}

/// A million topics were marked under one lock of the journal.
#[test]
fn a_slice_is_as_long_as_its_steps_and_values_do_not_wait_for_it() {
    let mut rig = Rig::new(0);
    let stale = |rig: &Rig, symbol| staleness(&value_of(&rig.market, &format!("S{symbol}")));
    rig.step(Step::Lost);
    assert_eq!(
        (0..SYMBOLS).map(|symbol| stale(&rig, symbol)).max(),
        Some(0)
    );
    rig.sweep(1);
    let reached = (0..SYMBOLS).filter(|&symbol| stale(&rig, symbol) == 2);
    let reached: Vec<u32> = reached.collect();
    assert_eq!(reached.len(), 1, "{reached:?}");
    // Its own value ends the doubt of a topic that the slices have not reached.
    rig.step(Step::Value(5, 1));
    assert_eq!(stale(&rig, 5), 0);
    rig.finish();
    assert_eq!((stale(&rig, 4), stale(&rig, 5)), (2, 0));
}

/// Topics of a publisher that left in the middle of a slice stayed current.
#[test]
fn a_source_that_ends_before_its_event_has_reached_all_topics_is_stale_everywhere() {
    let mut rig = Rig::new(0);
    rig.step(Step::Doubtful);
    rig.sweep(1);
    rig.step(Step::Resumes);
    rig.sweep(1);
    rig.step(Step::Leaves);
    rig.finish();
    let stale = |rig: &Rig, symbol| staleness(&value_of(&rig.market, &format!("S{symbol}")));
    assert!((0..SYMBOLS).all(|symbol| stale(&rig, symbol) == 1));
    rig.step(Step::IsBack);
    rig.step(Step::Right);
    rig.finish();
    assert!((0..SYMBOLS).all(|symbol| stale(&rig, symbol) == 0));
}

/// The venue that another source had made a topic of its own stayed as certain as before.
#[test]
fn a_topic_that_is_handed_over_before_its_slice_gets_what_it_waited_for() {
    let mut rig = Rig::new(0);
    rig.step(Step::Leaves);
    rig.step(Step::Other(0, 2));
    rig.finish();
    let stale = |rig: &Rig, name| staleness(&value_of(&rig.market, name));
    assert_eq!((stale(&rig, "S0@V1"), stale(&rig, "S0@V2")), (1, 0));
    rig.step(Step::IsBack);
    rig.finish();
    assert_eq!((stale(&rig, "S0@V1"), stale(&rig, "S0@V2")), (0, 0));
}

/// Each gap of 1,000 in a row added all topics to what was left to do.
#[test]
fn a_gap_that_opens_and_closes_again_and_again_leaves_each_topic_to_do_once() {
    let mut rig = Rig::new(0);
    rig.step(Step::Lost);
    for round in 0..1_000 {
        rig.step(Step::Doubtful);
        rig.step(Step::Slice(1));
        rig.step(Step::Value(round % SYMBOLS, 1));
        rig.step(Step::AsBefore);
        let sweep = &rig.ingest.as_ref().unwrap().certainties.sweep;
        assert!(sweep.pending() <= SYMBOLS as usize && sweep.classes() <= 8);
    }
    rig.finish();
    let stale = |symbol| staleness(&value_of(&rig.market, &format!("S{symbol}")));
    assert_eq!((0..SYMBOLS).map(stale).collect::<Vec<_>>(), [0; 6]);
}

/// A connection that ended in the middle of a gap left its topics in doubt when the gap was filled.
#[test]
fn a_gap_that_is_filled_after_a_reconnection_ends_the_doubt_that_it_was() {
    let mut rig = Rig::new(0);
    rig.step(Step::Lost);
    rig.step(Step::Value(0, 1));
    for step in [Step::Doubtful, Step::Resumes, Step::AsBefore] {
        rig.step(step);
    }
    rig.finish();
    let stale = |symbol| staleness(&value_of(&rig.market, &format!("S{symbol}")));
    assert_eq!([stale(0), stale(1)], [0, 2]);
}

/// A doubt that had ended while the venue had another name was left on its topic.
#[test]
fn a_venue_with_its_name_again_has_no_doubt_of_before() {
    let topics = [usize::MAX, 0].map(|at_once| {
        let mut rig = Rig::new(at_once);
        let renames = [true, false].map(|is_other| Step::Renames(2, is_other));
        let [away, back] = renames;
        for step in [Step::Level(0, 2), Step::Doubtful, away, Step::Right, back] {
            rig.step(step);
        }
        rig.finish();
        rig.assert_told();
        rig.state()
    });
    assert_eq!(topics[0], topics[1]);
    assert!(topics[0].iter().all(|(_, flags, ..)| *flags == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Each topic ends as after events that reach all topics at once, and clients know it.
    #[test]
    fn slices_end_as_events_that_reach_all_topics_at_once(
        steps in prop::collection::vec(any_step(), 1..50),
    ) {
        let (mut whole, mut sliced) = (Rig::new(usize::MAX), Rig::new(0));
        for step in steps {
            whole.step(step);
            sliced.step(step);
        }
        sliced.finish();
        prop_assert_eq!(whole.state(), sliced.state());
        sliced.assert_told();
    }

    #[test]
    fn slices_end_as_lists_of_topics_do(
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let (mut sliced, mut plain) = (Rig::new(0), Plain::default());
        plain.flags = (0..SYMBOLS).map(|symbol| (symbol, (false, false))).collect();
        plain.valued = (0..VALUED).collect();
        for step in steps {
            let step = match step {
                Step::Value(symbol, _) | Step::Record(symbol, _) => Step::Value(symbol, 1),
                Step::Level(..) | Step::State(..) | Step::Defines(..) => continue,
                Step::Other(..) | Step::OtherLeaves | Step::Renames(..) => continue,
                step => step,
            };
            sliced.step(step);
            if !matches!(step, Step::Slice(_)) {
                plain.step(step);
            }
        }
        sliced.finish();
        for (number, flags) in plain.flags {
            let value = sliced.market.board.value(number).unwrap();
            let expected = match flags {
                (true, _) => 1,
                (false, is_doubtful) => 2 * u64::from(is_doubtful),
            };
            prop_assert_eq!(staleness(&value), expected, "topic {}", number);
        }
    }
}
