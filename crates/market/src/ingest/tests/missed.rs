//! Trades that a hub misses while the one before it restarts: no bar of it, or of the hubs behind
//! it, lacks them without a word.

use super::*;
use crate::bars::Interval;
use tidewire_feed::server;

const SECOND: u64 = 1_000_000_000;
const PRICE: i64 = 1_000_000_000;
const START: u64 = 1_700_002_800 * SECOND;
const NAMES: [&str; 4] = ["A", "A@FAST", "A@SLOW", "A@OWN"];

/// A trade: the venue's number at the publisher, and its second.
type Traded = (u16, u64);

/// The venues of a publisher, and which name each of its numbers has, if any.
#[derive(Clone, Copy, Debug)]
struct Feed {
    numbers: [u16; 2],
    names: [Option<&'static str>; 2],
}

const TWO: Feed = Feed {
    numbers: [1, 2],
    names: [Some("FAST"), Some("SLOW")],
};
const ONE: Feed = Feed {
    numbers: [1, 1],
    names: [Some("FAST"), Some("FAST")],
};
const UNNAMED: Feed = Feed {
    numbers: [0, 0],
    names: [None, None],
};
const NUMBERED: Feed = Feed {
    numbers: [7, 8],
    names: [None, None],
};

/// Hubs, each of which follows the one before, and a publisher at the first one.
struct Chain {
    feed: Feed,
    hubs: Vec<Arc<Market>>,
    /// The source of each hub but the first, and the sequence that it reads next.
    readers: Vec<(Ingest, u64)>,
    publisher: Ingest,
    /// What the publisher has sent, all runs together.
    sent: Vec<Traded>,
    /// A publisher at the second hub, and how many trades it has sent.
    own: Option<Ingest>,
    sent_own: u64,
    /// Whether a trading day begins.
    has_days: bool,
}

/// Returns a hub with a client of all bars of an hour.
fn asked() -> Arc<Market> {
    let market = Market::of_one_lane(MarketConfig {
        topics_max: 64,
        journal_messages: 1_024,
        ..MarketConfig::default()
    });
    market.bars.prepare(b"bar:1h:", false);
    market.post.subscriptions.add(0, Kind::Prefix, b"bar:1h:");
    market
}

fn trade_at(source: u16, second: u64, price: i64) -> Message {
    Message::Trade(TradeMessage {
        source,
        source_time_ns: START + second * SECOND,
        price,
        size: 1,
        ..TradeMessage::default()
    })
}

fn publisher(market: &Arc<Market>, feed: Feed) -> Ingest {
    let mut publisher = source(market, "feed", 0, "A");
    let mut batch = publisher.begin(1);
    for (number, name) in feed.numbers.into_iter().zip(feed.names) {
        if let Some(name) = name {
            batch.venue(&venue(number, name));
        }
    }
    batch.finish();
    publisher
}

fn follower(hub: &Arc<Market>) -> Ingest {
    Ingest::new(hub.clone(), hub.next_source_number() as u32, "before")
}

impl Chain {
    fn new(feed: Feed) -> Self {
        let hubs = Vec::from_iter((0..4).map(|_| asked()));
        let readers = hubs[1..].iter();
        let readers = readers.map(|hub| (follower(hub), 1));
        Self {
            readers: readers.collect(),
            publisher: publisher(&hubs[0], feed),
            hubs,
            feed,
            sent: Vec::new(),
            own: None,
            sent_own: 0,
            has_days: false,
        }
    }

    /// Lets the publisher at the second hub trade, if there is one.
    fn trade_own(&mut self, second: u64) {
        if let Some(own) = &mut self.own {
            send(own, &[trade_at(1, second, PRICE + second as i64)]);
            self.sent_own += 1;
        }
    }

    /// Begins a session of each venue.
    fn begin_sessions(&mut self) {
        for source in self.feed.numbers {
            let Message::SessionStart(start) = start(
                0,
                PRICE_UNDEFINED,
                ReferenceKind::NONE,
                SessionStart::BEGINS,
            ) else {
                unreachable!("it is a session start");
            };
            let start = Message::SessionStart(SessionStart { source, ..start });
            send(&mut self.publisher, &[start]);
        }
    }

    fn trade(&mut self, (place, second): Traded) {
        let number = self.feed.numbers[usize::from(place) - 1];
        // Another session with the same figures, all trades at one price, would be no other one.
        let price = if self.has_days {
            PRICE + second as i64
        } else {
            PRICE
        };
        send(&mut self.publisher, &[trade_at(number, second, price)]);
        if !self.sent.contains(&(place, second)) {
            self.sent.push((place, second));
        }
    }

    /// Lets the hubs from `place` on read what the ones before have told.
    fn read_from(&mut self, place: usize) {
        for place in place..self.hubs.len() {
            let (reader, next) = &mut self.readers[place - 1];
            chains::read_on(&self.hubs[place - 1], reader, next);
        }
    }

    /// Sends trades one by one, each to the last hub.
    fn trade_all(&mut self, trades: &[Traded]) {
        for trade in trades {
            self.trade(*trade);
            self.read_from(1);
        }
    }

    /// Starts a hub again. The one behind it notices, and is not connected yet.
    fn restart(&mut self, place: usize) {
        self.hubs[place] = asked();
        let hub = &self.hubs[place];
        match place {
            0 => self.publisher = publisher(hub, self.feed),
            _ => self.readers[place - 1] = (follower(hub), 1),
        }
        if place == 1 && self.own.is_some() {
            self.own = Some(named_source(hub, "own", "OWN"));
        }
        if let Some((reader, _)) = self.readers.get_mut(place) {
            reader.lose(2);
        }
    }

    /// Connects a hub to the one before it, which has begun another session or not.
    fn connect(&mut self, place: usize, is_same: bool) {
        let before = &*self.hubs[place - 1];
        let (reader, next) = &mut self.readers[place - 1];
        let mut batch = reader.begin(2);
        if !is_same {
            batch.session_changed(1, 2);
        }
        let venues = server::Board::venues(&*before.board);
        venues.iter().for_each(|venue| batch.venue_of_login(venue));
        *next = before.journal.lock().next_sequence();
        for number in 0..before.board.count() {
            let topic = before.board.topic(number).unwrap();
            batch.definition(0, &topic.definition());
            let record = server::Board::last_value(&*before.board, number as usize);
            let record = record.unwrap_or_else(|| LastValue::new(number));
            batch.snapshot_record(*next - 1, &record);
        }
        batch.values_right();
        batch.finish();
    }

    /// Returns the trades of the newest bar of a hub, and whether it is partial, if there is one.
    fn bar(&self, place: usize, name: &str) -> Option<(u64, bool)> {
        let market = &self.hubs[place];
        let topic = market.board.named(name)?;
        let state = market.bars.bars_of(&topic, Interval::Hour).state.lock();
        let shown = state.shown()?;
        Some((shown.bar.trades, shown.is_partial))
    }

    /// Does what [`Self::wrong`] does for a hub that plays a recording of the second one.
    fn wrong_in_replay(&mut self) -> Vec<String> {
        let again = asked();
        let mut replay = follower(&again).of_publisher("replay".to_owned());
        chains::read_all(&self.hubs[1], &mut replay);
        self.hubs.push(again);
        let wrong = self.wrong(self.hubs.len() - 1, false);
        self.hubs.pop();
        wrong
            .into_iter()
            .map(|text| format!("replay: {text}"))
            .collect()
    }

    /// Returns how many trades of a name the publishers have sent.
    fn count(&self, name: &str) -> u64 {
        if name == "A@OWN" {
            return self.sent_own;
        }
        let own = if name == "A" { self.sent_own } else { 0 };
        let is_of = |(place, _): &&Traded| {
            let venue = self.feed.names[usize::from(*place) - 1];
            name == "A" || venue.is_some_and(|venue| name == format!("A@{venue}"))
        };
        own + self.sent.iter().filter(is_of).count() as u64
    }

    /// Returns the bars of the hubs from `place` on that are wrong: they lack trades and do not say
    /// so, have one twice or, where `is_whole`, are partial.
    fn wrong(&self, place: usize, is_whole: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in place..self.hubs.len() {
            for name in NAMES {
                let expected = self.count(name);
                let Some((trades, is_partial)) = self.bar(place, name) else {
                    continue;
                };
                let is_right = match is_whole {
                    true => trades == expected && !is_partial,
                    false => trades == expected || trades < expected && is_partial,
                };
                if !is_right {
                    wrong.push(format!(
                        "hub {place} {name} {trades}/{is_partial}, not {expected}"
                    ));
                }
            }
            let figures = |hub: &Market, name: &str| {
                let value = hub.board.value(hub.board.named(name)?.number)?;
                Some((value.volume, value.trades, value.turnover))
            };
            for name in NAMES {
                let first = figures(&self.hubs[0], name);
                if self.own.is_none()
                    && first.is_some()
                    && figures(&self.hubs[place], name) != first
                {
                    let own = figures(&self.hubs[place], name);
                    wrong.push(format!("hub {place} {name} {own:?}, not {first:?}"));
                }
            }
        }
        wrong
    }
}

/// Returns the orders in which four trades of two venues can come, after those of before. The clock
/// of the second venue is 30 seconds behind, if it has one of its own.
fn orders(feed: Feed) -> impl Iterator<Item = Vec<Traded>> {
    let has_two = feed.numbers[0] != feed.numbers[1];
    (0..16_u32)
        .filter(move |bits| has_two || *bits == 0)
        .map(|bits| {
            let mut next = [42, 12];
            let trade = |at: u32| {
                let place = usize::from(bits >> at & 1 == 1);
                next[place] += 1;
                (place as u16 + 1, next[place] - 1)
            };
            (0..4).map(trade).collect()
        })
}

/// What happens between the trades of before and those after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// The first hub restarts.
    First,
    /// The second hub restarts, and the third one connects behind it.
    Second,
    /// The second hub restarts, and the third one connects to it before it knows anything.
    SecondEmpty,
    /// The first hub restarts, and the publisher sends its session from the start.
    Again,
    /// The second hub is cut off, and a trading day begins.
    Day,
}

const BEFORE: [Traded; 4] = [(1, 40), (2, 10), (1, 41), (2, 11)];

/// Lets a hub be away, and the one behind it connect after `missed` of the trades `after`.
fn play(
    (feed, has_own): (Feed, bool),
    absence: Absence,
    after: &[Traded],
    missed: usize,
) -> Vec<String> {
    let mut chain = Chain::new(feed);
    chain.own = has_own.then(|| named_source(&chain.hubs[1], "own", "OWN"));
    chain.has_days = absence == Absence::Day;
    let has_two = feed.numbers[0] != feed.numbers[1];
    let before = match has_two {
        true => BEFORE,
        false => [38, 39, 40, 41].map(|second| (1, second)),
    };
    chain.trade_own(20);
    chain.trade_all(&before);
    let mut all = after.to_vec();
    if absence == Absence::Again {
        all = [&before[..], after].concat();
    }
    let (late, live) = all.split_at(missed);
    let place = match absence {
        Absence::Second | Absence::SecondEmpty => 1,
        _ => 0,
    };
    match absence {
        Absence::Day => _ = chain.readers[0].0.lose(2),
        _ => chain.restart(place),
    }
    if absence == Absence::Day {
        chain.begin_sessions();
    }
    late.iter().for_each(|trade| chain.trade(*trade));
    if absence == Absence::SecondEmpty {
        chain.connect(2, false);
    }
    chain.trade_own(21);
    chain.connect(1, absence == Absence::Day);
    if absence == Absence::Second {
        chain.connect(2, false);
    }
    chain.read_from(2);
    chain.trade_all(live);
    chain.trade_own(22);
    chain.read_from(2);
    // A hub that has restarted itself has had no trade of its own publisher before.
    let is_whole = missed == 0 && absence != Absence::Day && !has_own;
    let mut wrong = chain.wrong(place + 1, is_whole);
    if place == 0 || !has_own {
        wrong.extend(chain.wrong(1, false));
        wrong.extend(chain.wrong_in_replay());
    }
    wrong
}

fn check(feed: Feed, has_own: bool) {
    let absences = [
        Absence::First,
        Absence::Second,
        Absence::SecondEmpty,
        Absence::Again,
        Absence::Day,
    ];
    let mut all = Vec::new();
    for absence in absences {
        for after in orders(feed) {
            for missed in 0..=after.len() {
                let wrong = play((feed, has_own), absence, &after, missed);
                let text = |text| format!("{absence:?} {after:?} {missed}: {text}");
                all.extend(wrong.into_iter().map(text));
            }
        }
    }
    assert!(all.is_empty(), "{} wrong:\n{}", all.len(), all.join("\n"));
}

/// The second hub noted the trades that it had missed, and the third one did not: of two venues
/// whose clocks are apart, neither the volume nor the newest time told it.
#[test]
fn hubs_behind_one_that_missed_trades_of_two_venues_know_it() {
    check(TWO, false);
}

#[test]
fn hubs_behind_one_that_missed_trades_of_one_venue_know_it() {
    check(ONE, false);
}

#[test]
fn hubs_behind_one_that_missed_trades_of_venues_without_names_know_it() {
    check(UNNAMED, false);
    check(NUMBERED, false);
}

#[test]
fn hubs_behind_one_that_missed_trades_and_has_a_source_of_its_own_know_it() {
    check(TWO, true);
    check(ONE, true);
}

/// A hub of a million symbols would tell as many more messages whenever it starts.
#[test]
fn a_snapshot_with_more_trades_than_before_is_told_without_a_loss() {
    let mut chain = Chain::new(TWO);
    chain.trade_all(&BEFORE);
    chain.restart(3);
    chain.connect(3, false);
    chain.readers[2].0.lose(2);
    [(1, 42), (2, 12)]
        .into_iter()
        .for_each(|trade| chain.trade(trade));
    for place in [1, 2] {
        let (reader, next) = &mut chain.readers[place - 1];
        chains::read_on(&chain.hubs[place - 1], reader, next);
    }
    chain.connect(3, true);
    let is_loss = |message: &Message| match message {
        Message::Certainty(told) => told.flags & Certainty::LOST != 0,
        _ => false,
    };
    assert!(!chains::journal(&chain.hubs[3]).iter().any(is_loss));
    assert!(chain.wrong(1, false).is_empty());
}
