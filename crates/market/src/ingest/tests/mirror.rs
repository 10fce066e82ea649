//! A hub that reads another hub's feed has the same values after each step of the sources.

use proptest::prelude::*;
use tidewire_feed::server;
use tidewire_lastvalue::MarketValue;

use super::*;
use crate::topic::Member;
use crate::venues::CONSOLIDATED_NAME;

/// Hubs, each of which follows the feed of the one before.
struct Chain {
    hubs: Vec<Arc<Market>>,
    /// The reader of each hub but the first.
    readers: Vec<Reader>,
    /// A hub that has joined the first one with a snapshot.
    late: Option<(Arc<Market>, Reader)>,
    /// Whether the first hub has run before, and others may know more than it does.
    has_restarted: bool,
}

struct Reader {
    ingest: Ingest,
    /// Sequence of the next message.
    next: u64,
}

impl Reader {
    /// Reads what `hub` has published.
    fn read(&mut self, hub: &Market) {
        let mut batch = self.ingest.begin(DAY_NS);
        // As a hub's login does.
        batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
        loop {
            let message = hub.journal.lock().message(self.next);
            let Some(message) = message else { break };
            match &message {
                Message::Definition(definition) => batch.definition(self.next, definition),
                Message::Venue(venue) => batch.venue(venue),
                message => batch.message(self.next, message),
            }
            self.next += 1;
        }
        batch.finish();
    }
}

impl Chain {
    fn new() -> Self {
        let hubs = Vec::from_iter((0..3).map(|_| Market::of_one_lane(MarketConfig::default())));
        let readers = hubs[1..].iter().map(|hub| Reader {
            ingest: Ingest::new(hub.clone(), 1, "before"),
            next: 1,
        });
        Self {
            readers: readers.collect(),
            hubs,
            late: None,
            has_restarted: false,
        }
    }

    fn read(&mut self) {
        for (reader, hub) in self.readers.iter_mut().zip(&self.hubs) {
            reader.read(hub);
        }
        if let Some((_, reader)) = &mut self.late {
            reader.read(&self.hubs[0]);
        }
    }

    /// Lets one more hub join the first one.
    fn join(&mut self) {
        let (first, late) = (&self.hubs[0], Market::of_one_lane(MarketConfig::default()));
        let mut reader = Reader {
            ingest: Ingest::new(late.clone(), 1, "before"),
            next: first.journal.lock().next_sequence(),
        };
        let mut batch = reader.ingest.begin(DAY_NS);
        server::Board::venues(&*first.board)
            .iter()
            .for_each(|venue| batch.venue(venue));
        for number in 0..first.board.count() {
            let topic = first.board.topic(number).unwrap();
            batch.definition(0, &topic.definition());
            if let Some(record) = server::Board::last_value(&*first.board, number as usize) {
                batch.snapshot_record(reader.next - 1, &record);
            }
        }
        batch.finish();
        self.late = Some((late, reader));
    }

    /// Starts the first hub again, without what it knew.
    fn restart(&mut self) {
        self.hubs[0] = Market::of_one_lane(MarketConfig::default());
        let late = self.late.iter_mut().map(|(_, reader)| reader);
        for reader in late.chain(&mut self.readers[..1]) {
            reader.ingest.lose(DAY_NS);
            reader.ingest.begin(DAY_NS).session_changed(1, 2);
            reader.next = 1;
        }
        self.has_restarted = true;
    }

    /// Compares each topic of the first hub with the others'.
    fn compare(&self) {
        self.hubs.iter().for_each(|hub| compare_sequences(hub));
        let first = &self.hubs[0];
        check_opens(first);
        let late = self.late.iter().map(|(hub, _)| hub);
        for (place, hub) in self.hubs.iter().chain(late).enumerate().skip(1) {
            for number in 0..first.board.count() {
                let topic = first.board.topic(number).unwrap();
                let value = first.board.value(number).unwrap();
                // A topic without a message is as old as the hub knew it before.
                if value.sequence > 0 {
                    compare((first, hub), topic.symbol(), place);
                    let facts = topic.facts();
                    if !topic.is_consolidated() && topic.parent().is_none() {
                        let name = [topic.symbol(), b"@", facts.venue_name.as_bytes()].concat();
                        compare((first, hub), &name, place);
                    }
                }
            }
            let (own, other) = (first.board.count(), hub.board.count());
            assert!(own == other || self.has_restarted, "no topic is invented");
        }
    }
}

/// Checks that each consolidated open is that of a venue whose session counts.
fn check_opens(hub: &Market) {
    for topic in hub.board.topics() {
        let value = hub.board.value(topic.number).unwrap();
        if !topic.is_consolidated() || staleness(&value) == 1 {
            continue;
        }
        let of = |member: &Member| hub.board.value(member.topic.number).unwrap();
        let values = topic.with_members(|members| Vec::from_iter(members.iter().map(of)));
        let counted = values
            .iter()
            .filter(|own| own.trading_day == value.trading_day);
        let mut opens = Vec::from_iter(counted.map(|own| own.session_open));
        opens.retain(|&open| open != PRICE_UNDEFINED);
        if opens.is_empty() {
            opens.push(PRICE_UNDEFINED);
        }
        let open = value.session_open;
        assert!(opens.contains(&open), "{open} is not of {opens:?}");
    }
}

/// Compares what the hub says of its topics' newest messages with its feed: a snapshot of what has
/// changed must not leave out a topic of which only the certainty has.
fn compare_sequences(hub: &Market) {
    let journal = hub.journal.lock();
    for sequence in 1..journal.next_sequence() {
        let message = journal.message(sequence).unwrap();
        let is_value = !matches!(message, Message::Level(_) | Message::Record(_));
        if let Some(symbol) = message.symbol().filter(|_| is_value) {
            let changed = server::Board::changed(&*hub.board, symbol as usize);
            assert!(changed >= sequence, "{message:?} is not in {changed}");
        }
    }
}

fn compare(hubs: (&Market, &Market), symbol: &[u8], place: usize) {
    let name = format!("{} of hub {place}", String::from_utf8_lossy(symbol));
    let value_of = |hub: &Market| {
        let topic = hub.board.find(symbol);
        let topic = topic.unwrap_or_else(|| panic!("{name} is unknown"));
        hub.board.value(topic.number).unwrap()
    };
    let (value, other) = (value_of(hubs.0), value_of(hubs.1));
    assert_eq!(figures(&value), figures(&other), "{name}");
    // Snapshots have no levels.
    if place > 2 {
        return;
    }
    let book = |hub: &Market| hub.books.read(symbol, 100, 0).unwrap();
    let (book, other) = (book(hubs.0), book(hubs.1));
    assert_eq!(book.depth, other.depth, "levels of {name}");
    assert_eq!(
        (book.bids, book.asks),
        (other.bids, other.asks),
        "levels of {name}"
    );
}

/// Returns what the second hub must know of a value.
fn figures(value: &MarketValue) -> impl PartialEq + std::fmt::Debug + use<> {
    let last = (value.last, value.last_size, value.condition);
    let session = (
        value.volume,
        value.turnover,
        value.trades,
        value.session_open,
    );
    let range = (value.high, value.low, value.reference, value.trading_day);
    (
        value.quote(),
        last,
        session,
        range,
        value.status,
        staleness(value),
        value.source_time_ns,
    )
}

/// What a source does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Quote(i64),
    Trade(i64, u32),
    Status(u8),
    Start {
        day: u32,
        reference: i64,
        rolls: u8,
    },
    Book(i64),
    Level(i64, u32),
    /// It defines the symbol again, with this open.
    Open(i64),
    /// Its connection ends, and another one continues its session.
    Reconnect,
    /// Its connection ends, and another session begins.
    Restart,
    /// The first hub starts again, and each source sends its session from the start.
    HubRestart,
}

fn step() -> impl Strategy<Value = Step> {
    let start = (0..3_u32, 0..2_i64, 0..4_u8).prop_map(|(day, reference, rolls)| Step::Start {
        day: if day == 0 { 0 } else { 19_700_100 + day },
        reference: if reference == 0 { PRICE_UNDEFINED } else { 7 },
        rolls,
    });
    prop_oneof![
        4 => (1..9_i64).prop_map(Step::Quote),
        4 => (1..9_i64, 1..9_u32).prop_map(|(price, size)| Step::Trade(price, size)),
        2 => (0..7_u8).prop_map(Step::Status),
        2 => start,
        1 => (1..9_i64).prop_map(Step::Book),
        2 => (1..9_i64, 0..9_u32).prop_map(|(price, size)| Step::Level(price, size)),
        1 => (1..4_i64).prop_map(Step::Open),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart),
        1 => Just(Step::HubRestart),
    ]
}

/// Returns the messages of a step that happens at this time.
fn messages(step: Step, source_time_ns: u64) -> Vec<Message> {
    let mut messages = messages_of(step);
    for message in &mut messages {
        match message {
            Message::Quote(quote) => quote.source_time_ns = source_time_ns,
            Message::Trade(trade) => trade.source_time_ns = source_time_ns,
            Message::Status(status) => status.source_time_ns = source_time_ns,
            Message::SessionStart(start) => start.source_time_ns = source_time_ns,
            Message::Definition(definition) => definition.source_time_ns = source_time_ns,
            _ => {}
        }
    }
    messages
}

fn messages_of(step: Step) -> Vec<Message> {
    let level = |price, size, action, is_last| {
        Message::Level(Level {
            source: 1,
            price,
            size,
            orders: 1,
            side: if action == Level::CLEAR {
                0
            } else {
                Level::BID
            },
            action,
            is_last,
            ..Level::default()
        })
    };
    match step {
        Step::Quote(bid) => vec![quote(0, 1, bid, bid + 2)],
        Step::Trade(price, size) => vec![trade(0, 1, price, size)],
        Step::Status(state) => vec![status(0, 1, TradingState(state))],
        Step::Start {
            day,
            reference,
            rolls,
        } => vec![Message::SessionStart(SessionStart {
            source: 1,
            trading_day: day,
            reference,
            kind: match reference {
                PRICE_UNDEFINED => ReferenceKind::NONE,
                _ => ReferenceKind::PREVIOUS_CLOSE,
            },
            rolls,
            ..SessionStart::default()
        })],
        Step::Book(price) => vec![
            level(0, 0, Level::CLEAR, 0),
            level(price, 5, Level::SET, 0),
            level(price + 1, 6, Level::SET, 1),
        ],
        Step::Level(price, size) => vec![level(price, size, Level::SET, 1)],
        Step::Open(open) => vec![Message::Definition(Definition {
            open,
            ..definition(0, "A")
        })],
        Step::Reconnect | Step::Restart | Step::HubRestart => Vec::new(),
    }
}

/// A publisher and what it has sent in its session.
struct Publisher {
    ingest: Ingest,
    sent: Vec<Message>,
}

impl Publisher {
    fn send(&mut self, messages: &[Message]) {
        let mut batch = self.ingest.begin(DAY_NS);
        for message in messages {
            match message {
                Message::Definition(definition) => batch.definition(1, definition),
                message => batch.message(1, message),
            }
        }
        batch.finish();
        self.sent.extend(messages);
    }
}

/// Two hubs, and a third one that reads both.
struct Inputs {
    hubs: [Arc<Market>; 2],
    behind: Arc<Market>,
    readers: [Reader; 2],
}

impl Inputs {
    fn new() -> Self {
        let hub = || Market::of_one_lane(MarketConfig::default());
        let behind = hub();
        let reader = |source| Reader {
            ingest: Ingest::new(behind.clone(), source, "before"),
            next: 1,
        };
        Self {
            readers: [reader(1), reader(2)],
            hubs: [hub(), hub()],
            behind,
        }
    }

    fn restart(&mut self, place: usize) {
        self.hubs[place] = Market::of_one_lane(MarketConfig::default());
        let reader = &mut self.readers[place];
        reader.ingest.lose(DAY_NS);
        reader.ingest.begin(DAY_NS).session_changed(1, 2);
        reader.next = 1;
    }

    /// Reads both hubs, and compares: each of their values is in a topic, and each value that is
    /// shown as current is one of theirs.
    fn compare(&mut self) {
        for (reader, hub) in self.readers.iter_mut().zip(&self.hubs) {
            reader.read(hub);
        }
        let topics = |hub: &Market| -> Vec<(Arc<Topic>, MarketValue)> {
            let topics = hub.board.topics().into_iter();
            let with_value = topics.map(|topic| {
                let value = hub.board.value(topic.number).unwrap();
                (topic, value)
            });
            with_value.collect()
        };
        let mut behind = topics(&self.behind);
        behind.retain(|(topic, _)| !topic.is_consolidated());
        let known: Vec<_> = self.hubs.iter().flat_map(|hub| topics(hub)).collect();
        let is_in = |all: &[(Arc<Topic>, MarketValue)], value: &MarketValue| {
            all.iter()
                .any(|(_, other)| figures(other) == figures(value))
        };
        for (topic, value) in known.iter().filter(|(_, value)| value.sequence > 0) {
            let name = String::from_utf8_lossy(topic.symbol());
            assert!(is_in(&behind, value), "{name} is lost: {value:?}");
        }
        behind.retain(|(_, value)| staleness(value) == 0);
        for (topic, value) in &behind {
            let name = String::from_utf8_lossy(topic.symbol());
            assert!(is_in(&known, value), "{name} is old: {value:?}");
        }
    }
}

/// Lets four sources take the steps, two at each of two hubs, and compares the hub behind both.
fn run_inputs(steps: &[(usize, Step)]) {
    let mut inputs = Inputs::new();
    let mut publishers: [Option<Publisher>; 4] = [const { None }; 4];
    let begin = |market: &Arc<Market>, number: usize| Publisher {
        ingest: named_source(
            market,
            &format!("s{number}"),
            ["V1", "V2", "V1", "V3"][number],
        ),
        sent: Vec::new(),
    };
    for (place, &(number, step)) in steps.iter().enumerate() {
        let at = number / 2;
        let publisher = &mut publishers[number];
        match step {
            Step::Reconnect | Step::Restart => {
                if let Some(mut publisher) = publisher.take() {
                    publisher.ingest.lose(DAY_NS);
                }
            }
            Step::HubRestart => {
                inputs.restart(at);
                publishers[at * 2] = None;
                publishers[at * 2 + 1] = None;
            }
            step => {
                let publisher = publisher.get_or_insert_with(|| begin(&inputs.hubs[at], number));
                publisher.send(&messages(step, place as u64 + 1));
            }
        }
        inputs.compare();
    }
}

/// Lets three sources take the steps, and compares the hubs after each.
fn run(steps: &[(usize, Step)]) {
    let mut chain = Chain::new();
    let mut publishers: [Option<Publisher>; 3] = [const { None }; 3];
    let begin = |market: &Arc<Market>, number: usize| Publisher {
        ingest: named_source(market, &format!("s{number}"), ["V1", "V2", "V1"][number]),
        sent: Vec::new(),
    };
    for (place, &(number, step)) in steps.iter().enumerate() {
        if place == steps.len() / 2 {
            chain.join();
        }
        let market = chain.hubs[0].clone();
        let publisher = &mut publishers[number];
        match step {
            Step::Reconnect => {
                if let Some(publisher) = publisher {
                    publisher.ingest.lose(DAY_NS);
                    let state = publisher.ingest.take_state();
                    let source = market.next_source_number() as u32;
                    publisher.ingest = Ingest::new(market, source, &format!("s{number}"));
                    publisher.ingest.begin(DAY_NS).resume(state);
                }
            }
            Step::Restart => {
                if let Some(mut publisher) = publisher.take() {
                    publisher.ingest.lose(DAY_NS);
                }
            }
            Step::HubRestart => {
                chain.restart();
                for (number, publisher) in publishers.iter_mut().enumerate() {
                    if let Some(publisher) = publisher {
                        let sent = std::mem::take(&mut publisher.sent);
                        *publisher = begin(&chain.hubs[0], number);
                        publisher.send(&sent);
                    }
                }
            }
            step => {
                let publisher = publisher.get_or_insert_with(|| begin(&market, number));
                publisher.send(&messages(step, place as u64 + 1));
            }
        }
        chain.read();
        chain.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_hub_behind_another_has_its_values(
        steps in prop::collection::vec((0..3_usize, step()), 1..40),
    ) {
        run(&steps);
    }

    /// Of two hubs with the same venue, one found a second venue: its first one was in no topic of
    /// the hub behind both, and stayed there as it was, shown as current.
    #[test]
    fn a_hub_behind_two_has_the_values_of_both(
        steps in prop::collection::vec((0..4_usize, step()), 1..40),
    ) {
        run_inputs(&steps);
    }
}
