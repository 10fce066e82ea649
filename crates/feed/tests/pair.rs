//! A server session and a client over a bad link, in virtual time and seeded. No message may be
//! lost, duplicated or reordered without a report, and the last values must agree.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidewire_feed::client::{
    Client, ClientConfig, Gap, LossReason, NullSink, Publisher, PublisherConfig, PublisherLogin,
    PublisherState, Side, Sink,
};
use tidewire_feed::faults::{FaultInjector, FaultPlan, Pause};
use tidewire_feed::journal::Journal;
use tidewire_feed::server::{Board, Session, SessionConfig};
use tidewire_feed::wire::{
    Control, Definition, EndOfSessionAcknowledgement, Flags, HEADER_LENGTH, Header, LastValue,
    Login, Message, Name, PacketWriter, PatternText, Quote, Subscribe, Trade,
    UDP_PACKET_LENGTH_MAX,
};

const TICK_NS: u64 = 1_000_000;
const LATENCY_NS: u64 = 2 * TICK_NS;
const RECONNECT_NS: u64 = 20 * TICK_NS;
const TICKS_MAX: u64 = 120_000;
const SESSION: u32 = 0x5e55;
const ALL_FAULTS: &str = "gaps=2%,duplicate=1%,reorder=2%,corrupt=1%,corrupt-header=0.05%,\
    fragment=5%,stall=0.1%,stall-duration=30ms,disconnect=0.1%";

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The board of a hub: definitions and last values.
#[derive(Default)]
struct TestBoard {
    definitions: Vec<Definition>,
    values: Vec<LastValue>,
}

impl Board for TestBoard {
    fn len(&self) -> usize {
        self.definitions.len()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        self.definitions.get(index).copied()
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        self.values.get(index).copied()
    }
}

impl TestBoard {
    fn apply(&mut self, sequence: u64, message: &Message) {
        if let Message::Definition(definition) = message {
            self.definitions.push(*definition);
            self.values.push(LastValue::new(definition.symbol));
        }
        let symbol = message.symbol().expect("a stream's message") as usize;
        assert!(self.values[symbol].apply(sequence, message));
    }
}

/// An exchange that makes messages and remembers all of them.
struct Market {
    random: Random,
    board: TestBoard,
    /// Index = sequence − 1.
    all: Vec<Message>,
    /// By symbol: its value after each of its messages, in order of `sequence`.
    histories: Vec<Vec<LastValue>>,
}

impl Market {
    fn new(seed: u64) -> Market {
        Market {
            random: Random(seed),
            board: TestBoard::default(),
            all: Vec::new(),
            histories: Vec::new(),
        }
    }

    fn message(&mut self, symbols: u64) -> Message {
        let known = self.board.definitions.len() as u64;
        if known < symbols.min(8) || (known < symbols && self.random.below(200) == 0) {
            let group = ["ES", "NQ", "CL"][known as usize % 3];
            return Message::Definition(Definition {
                symbol: known as u32,
                source: 1,
                source_time_ns: self.all.len() as u64,
                open: 100 + known as i64,
                price_tick: 1,
                lot_size: 1,
                currency: *b"USD\0",
                name: Name::new(&format!("{group}-{known}")).unwrap(),
                repeats: false,
            });
        }
        let symbol = self.random.below(known) as u32;
        let source_time_ns = self.all.len() as u64;
        let price = self.random.below(1_000_000) as i64;
        if self.random.below(10) < 7 {
            Message::Quote(Quote {
                symbol,
                source: 1,
                source_time_ns,
                bid: price,
                ask: price + 5,
                bid_size: self.random.below(100) as u32,
                ..Quote::default()
            })
        } else {
            let size = self.random.below(100) as u32;
            Message::Trade(Trade {
                symbol,
                source: 1,
                source_time_ns,
                price,
                size,
                condition: 0,
            })
        }
    }

    fn note(&mut self, sequence: u64, message: Message) {
        self.all.push(message);
        assert_eq!(sequence, self.all.len() as u64);
        self.board.apply(sequence, &message);
        let symbol = message.symbol().unwrap() as usize;
        self.histories
            .resize_with(self.board.values.len(), Vec::new);
        self.histories[symbol].push(self.board.values[symbol]);
    }

    /// Defines another symbol with this name.
    fn define(&mut self, journal: &mut Journal, name: &str) {
        let message = Message::Definition(Definition {
            symbol: self.board.definitions.len() as u32,
            source: 1,
            source_time_ns: 1,
            open: 5,
            price_tick: 1,
            lot_size: 1,
            currency: [0; 4],
            name: Name::new(name).unwrap(),
            repeats: false,
        });
        let sequence = journal.append(&message);
        self.note(sequence, message);
    }

    fn trade(&mut self, journal: &mut Journal, symbol: u32) {
        let message = Message::Trade(Trade {
            symbol,
            source: 1,
            price: self.random.below(1_000_000) as i64,
            size: 1,
            ..Trade::default()
        });
        let sequence = journal.append(&message);
        self.note(sequence, message);
    }
}

/// The state of a client's user, and the rules it checks.
#[derive(Default)]
struct Recorder {
    values: BTreeMap<u32, LastValue>,
    names: BTreeMap<u32, String>,
    /// (sequence, message) as delivered.
    delivered: Vec<(u64, Message)>,
    last_sequence: u64,
    lost: Vec<(u64, u64, LossReason)>,
    /// Whether all values are correct, except for symbols changed since.
    is_right: bool,
    /// By symbol, the newest sequence that a record has included.
    included: BTreeMap<u32, u64>,
    /// Symbols whose records have arrived since a loss.
    recovered: BTreeSet<u32>,
    /// Times that a value was checked while others were in doubt.
    checked_in_doubt: u64,
    open: u64,
    snapshots: u64,
    ended: Option<EndOfSessionAcknowledgement>,
    silent: bool,
    kept: Option<Box<Client>>,
}

impl Recorder {
    fn deliver(&mut self, sequence: u64, message: Message) {
        assert!(
            sequence > self.last_sequence,
            "{sequence} after {}",
            self.last_sequence
        );
        self.last_sequence = sequence;
        let symbol = message.symbol().unwrap();
        let value = self
            .values
            .entry(symbol)
            .or_insert_with(|| LastValue::new(symbol));
        value.apply(sequence, &message);
        self.delivered.push((sequence, message));
    }

    /// Checks that every value not in doubt is correct at this point of the stream.
    fn check_values(&mut self, market: &Market, next_sequence: u64, pattern: &str) {
        for (symbol, history) in market.histories.iter().enumerate() {
            let symbol = symbol as u32;
            let is_known = self.is_right || self.recovered.contains(&symbol);
            let is_wanted = pattern == "*" || self.names.contains_key(&symbol);
            if !is_known || !is_wanted {
                continue;
            }
            let before = history.partition_point(|value| value.sequence < next_sequence);
            let Some(newest) = history[..before].last() else {
                continue;
            };
            let value = &self.values[&symbol];
            assert!(
                value.sequence >= newest.sequence,
                "{value:?} and {newest:?}"
            );
            let same = history.binary_search_by_key(&value.sequence, |one| one.sequence);
            assert_eq!(value, &history[same.expect("a sequence of the symbol")]);
            self.checked_in_doubt += u64::from(!self.is_right);
        }
    }

    fn lost_count(&self) -> u64 {
        self.lost.iter().map(|range| range.1).sum()
    }
}

impl Sink for Recorder {
    fn message(&mut self, sequence: u64, message: &Message) {
        self.deliver(sequence, *message);
    }

    fn definition(&mut self, sequence: u64, definition: &Definition) {
        self.names
            .insert(definition.symbol, definition.name.to_string());
        if sequence > 0 {
            self.deliver(sequence, Message::Definition(*definition));
        }
    }

    fn values_doubtful(&mut self) {
        self.is_right = false;
        self.recovered.clear();
    }

    fn values_right(&mut self) {
        self.is_right = true;
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.recovered.insert(record.symbol);
        let included = self.included.entry(record.symbol).or_default();
        *included = record.sequence.max(*included);
        let value = self.values.entry(record.symbol);
        value
            .or_insert_with(|| LastValue::new(record.symbol))
            .merge(record);
    }

    fn snapshot_complete(&mut self, _as_of: u64, _records: u64) {
        self.snapshots += 1;
    }

    fn gap(&mut self, gap: Gap) {
        match gap {
            Gap::Opened { count, .. } => self.open += count,
            Gap::Recovered { count, .. } => self.open -= count,
            Gap::Lost {
                from,
                count,
                reason,
            } => {
                assert!(from > self.last_sequence && count > 0);
                self.lost.push((from, count, reason));
            }
            _ => {}
        }
    }

    fn silent(&mut self, _side: Side) {
        self.silent = true;
    }

    fn end_of_session(&mut self, end: &EndOfSessionAcknowledgement) {
        assert!(self.ended.replace(*end).is_none());
    }

    fn publisher_login(&mut self, _login: &Login) -> PublisherLogin {
        match self.kept.take() {
            Some(receiver) => PublisherLogin::Resumed(receiver),
            None => PublisherLogin::New,
        }
    }
}

/// One direction of a connection: the bytes in flight and when they arrive.
#[derive(Default)]
struct Wire {
    in_flight: VecDeque<(u64, Vec<u8>)>,
    arrived: Vec<u8>,
    blocked_until_ns: u64,
    cut: bool,
}

impl Wire {
    fn write(&mut self, bytes: &[u8], now_ns: u64) {
        if !bytes.is_empty() && !self.cut {
            self.in_flight
                .push_back((now_ns.max(self.blocked_until_ns) + LATENCY_NS, bytes.into()));
        }
    }

    /// Writes packets with faults; after a disconnect nothing passes.
    fn write_badly(&mut self, packets: &mut Vec<u8>, faults: &mut FaultInjector, now_ns: u64) {
        let (mut out, mut pauses) = (Vec::new(), Vec::new());
        faults.apply(packets, &mut out, &mut pauses);
        let mut start = 0;
        for (at, pause) in pauses {
            self.write(&out[start..at], now_ns);
            start = at;
            match pause {
                Pause::Flush => {}
                Pause::Stall { duration_ns } => {
                    self.blocked_until_ns = self.blocked_until_ns.max(now_ns) + duration_ns;
                }
                Pause::Disconnect => self.cut = true,
            }
        }
        self.write(&out[start..], now_ns);
    }

    /// Writes each packet with its own delay, so packets overtake each other.
    fn write_datagrams(&mut self, packets: &mut Vec<u8>, random: &mut Random, now_ns: u64) {
        let mut rest = packets.as_slice();
        while let Some(head) = rest.first_chunk::<HEADER_LENGTH>() {
            let header = Header::from_bytes(head).unwrap();
            let (packet, after) = rest.split_at(header.packet_length());
            rest = after;
            let control = header.flags.contains(Flags::CONTROL);
            let delay_ns = if control {
                0
            } else {
                random.below(8) * TICK_NS
            };
            if control || random.below(100) >= 3 {
                self.in_flight
                    .push_back((now_ns + LATENCY_NS + delay_ns, packet.into()));
            }
        }
        self.in_flight
            .make_contiguous()
            .sort_by_key(|entry| entry.0);
        packets.clear();
    }

    fn arrive(&mut self, now_ns: u64) {
        while self
            .in_flight
            .front()
            .is_some_and(|entry| entry.0 <= now_ns)
        {
            let (_, bytes) = self.in_flight.pop_front().unwrap();
            self.arrived.extend_from_slice(&bytes);
        }
    }
}

#[derive(Clone, Copy)]
struct Scenario {
    seed: u64,
    faults: &'static str,
    datagrams: bool,
    window: usize,
    budget_bytes: usize,
    /// The client's socket accepts data every this many ticks.
    produce_every: u64,
    messages: usize,
    symbols: u64,
    pattern: &'static str,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            seed: 0,
            faults: ALL_FAULTS,
            datagrams: false,
            window: 1 << 16,
            budget_bytes: 1 << 16,
            produce_every: 1,
            messages: 4_000,
            symbols: 40,
            pattern: "*",
        }
    }
}

/// A connection of one side of a client to its own session.
struct Connection {
    side: Side,
    session: Session,
    faults: FaultInjector,
    to_client: Wire,
    to_server: Wire,
    reconnect_at_ns: Option<u64>,
}

impl Connection {
    fn new(scenario: &Scenario, side: Side) -> Connection {
        let plan: FaultPlan = scenario.faults.parse().unwrap();
        Connection {
            side,
            session: new_session(0),
            faults: FaultInjector::new(plan, scenario.seed + 100 * side as u64),
            to_client: Wire::default(),
            to_server: Wire::default(),
            reconnect_at_ns: Some(0),
        }
    }
}

fn new_session(now_ns: u64) -> Session {
    let config = SessionConfig {
        packet_limit_bytes: UDP_PACKET_LENGTH_MAX,
        heartbeat_interval_ns: 200 * TICK_NS,
        ..SessionConfig::default()
    };
    Session::new(config, now_ns)
}

struct Pair {
    scenario: Scenario,
    now_ns: u64,
    market: Market,
    journal: Journal,
    client: Client,
    recorder: Recorder,
    connections: Vec<Connection>,
    random: Random,
    reconnects: u64,
    conflated: u64,
}

impl Pair {
    fn new(scenario: Scenario, sides: &[Side]) -> Pair {
        let mut client = Client::new(ClientConfig::default());
        client.subscribe(scenario.pattern).unwrap();
        Pair {
            scenario,
            now_ns: 0,
            market: Market::new(scenario.seed),
            journal: Journal::new(SESSION, scenario.window),
            client,
            recorder: Recorder::default(),
            connections: sides
                .iter()
                .map(|&side| Connection::new(&scenario, side))
                .collect(),
            random: Random(scenario.seed ^ 0xabcd),
            reconnects: 0,
            conflated: 0,
        }
    }

    fn run(&mut self) {
        for _ in 0..TICKS_MAX {
            self.now_ns += TICK_NS;
            self.trade();
            for index in 0..self.connections.len() {
                self.turn(index);
            }
            if self.now_ns >= self.client.deadline_ns() {
                self.client.handle_timeout(self.now_ns, &mut self.recorder);
            }
            let next_sequence = self.client.next_sequence();
            let pattern = self.scenario.pattern;
            self.recorder
                .check_values(&self.market, next_sequence, pattern);
            let acknowledged = self
                .connections
                .iter()
                .any(|one| one.session.end_acknowledged());
            if self.client.is_ended() && self.client.is_complete() && acknowledged {
                return;
            }
        }
        panic!(
            "seed {}: not done; next {}, end {}, complete {}, {:?}",
            self.scenario.seed,
            self.client.next_sequence(),
            self.journal.next_sequence(),
            self.client.is_complete(),
            self.client.counters(),
        );
    }

    fn trade(&mut self) {
        for _ in 0..self.random.below(20) {
            if self.market.all.len() == self.scenario.messages {
                self.journal.end_session();
                return;
            }
            let message = self.market.message(self.scenario.symbols);
            let sequence = self.journal.append(&message);
            self.market.note(sequence, message);
        }
    }

    fn turn(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let one = &mut self.connections[index];
        let side = one.side;
        if let Some(at_ns) = one.reconnect_at_ns {
            if now_ns < at_ns {
                return;
            }
            one.reconnect_at_ns = None;
            one.session = new_session(now_ns);
            one.faults.reset();
            one.to_client = Wire::default();
            one.to_server = Wire::default();
            self.client.connected(side, now_ns);
        }
        let mut out = Vec::new();
        let (journal, board) = (&self.journal, &self.market.board);
        let before = one.session.counters().conflated;
        if (now_ns / TICK_NS).is_multiple_of(self.scenario.produce_every) {
            one.session
                .produce(journal, board, now_ns, &mut out, self.scenario.budget_bytes);
        }
        self.conflated += one.session.counters().conflated - before;
        if self.scenario.datagrams {
            one.to_client
                .write_datagrams(&mut out, &mut self.random, now_ns);
        } else {
            one.to_client.write_badly(&mut out, &mut one.faults, now_ns);
        }
        one.to_client.arrive(now_ns);
        let arrived = &mut one.to_client.arrived;
        let result = self
            .client
            .receive(side, arrived, now_ns, &mut self.recorder);
        let broken = match result {
            Ok(used) => {
                arrived.drain(..used);
                one.to_client.cut && one.to_client.in_flight.is_empty()
            }
            Err(_) => true,
        };
        if broken || std::mem::take(&mut self.recorder.silent) {
            self.reconnects += 1;
            self.client.disconnected(side);
            one.reconnect_at_ns = Some(now_ns + RECONNECT_NS);
            return;
        }
        let mut sent = Vec::new();
        self.client.drain_outgoing(side, &mut sent);
        one.to_server.write(&sent, now_ns);
        one.to_server.arrive(now_ns);
        let arrived = &mut one.to_server.arrived;
        let used = one
            .session
            .receive(arrived, now_ns, &mut self.recorder)
            .unwrap();
        arrived.drain(..used);
    }

    /// Checks that each sequence from the first delivered one on was delivered unchanged,
    /// reported lost with its exact range, belongs to an unsubscribed symbol, or is a trade that a
    /// snapshot's record includes.
    fn check_accounts(&self) {
        let seed = self.scenario.seed;
        let wanted = |message: &Message| {
            let symbol = message.symbol().unwrap() as usize;
            let name = self.market.board.definitions[symbol].name;
            self.scenario.pattern == "*" || name.as_str().starts_with("ES")
        };
        let first_delivered = self.recorder.delivered.first().map(|entry| entry.0);
        let first_lost = self.recorder.lost.first().map(|range| range.0);
        let joined = first_delivered.into_iter().chain(first_lost).min();
        let first = joined.unwrap_or(self.journal.next_sequence());
        let mut delivered = self.recorder.delivered.iter().peekable();
        let mut lost = self.recorder.lost.iter().peekable();
        let mut included_count = 0;
        for sequence in first..self.journal.next_sequence() {
            while lost
                .peek()
                .is_some_and(|range| range.0 + range.1 <= sequence)
            {
                lost.next();
            }
            let is_lost = lost.peek().is_some_and(|range| range.0 <= sequence);
            let sent = &self.market.all[sequence as usize - 1];
            match delivered.next_if(|entry| entry.0 == sequence) {
                Some((_, message)) => {
                    assert!(!is_lost && wanted(message));
                    assert_eq!(message, sent, "seed {seed}, sequence {sequence}");
                }
                None => {
                    let is_included = matches!(sent, Message::Trade(trade)
                        if self.recorder.included.get(&trade.symbol) >= Some(&sequence));
                    included_count += u64::from(is_included && !is_lost && wanted(sent));
                    let is_missed = is_lost || is_included || !wanted(sent);
                    assert!(is_missed, "seed {seed}: {sequence} vanished");
                }
            }
        }
        assert!(delivered.next().is_none());
        for (definition, value) in self
            .market
            .board
            .definitions
            .iter()
            .zip(&self.market.board.values)
        {
            if self.scenario.pattern == "*" || definition.name.as_str().starts_with("ES") {
                let got = self.recorder.values.get(&definition.symbol);
                assert_eq!(got, Some(value), "seed {seed}");
                let name = self
                    .recorder
                    .names
                    .get(&definition.symbol)
                    .map(String::as_str);
                assert_eq!(name, Some(definition.name.as_str()), "seed {seed}");
            }
        }
        let end = self.recorder.ended.expect("the end was said");
        assert_eq!(end.next_sequence, self.journal.next_sequence());
        let applied = self.recorder.delivered.len() as u64 + included_count;
        // The stream may have begun with trades that records include.
        let before = (1..first).zip(&self.market.all);
        let is_included = |&(sequence, sent): &(u64, &Message)| {
            matches!(sent, Message::Trade(trade)
                if self.recorder.included.get(&trade.symbol) >= Some(&sequence))
        };
        let most = applied + before.filter(is_included).count() as u64;
        assert!((applied..=most).contains(&end.applied_count), "seed {seed}");
    }
}

/// Runs the scenario for each seed. `PAIR_SEEDS=100` runs a hundred times as many seeds.
fn run_seeds(seeds: std::ops::Range<u64>, scenario: Scenario, sides: &[Side]) -> Vec<Pair> {
    let factor = std::env::var("PAIR_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let first = if factor > 1 {
        seeds.start * 1_000_003
    } else {
        seeds.start
    };
    let count = (seeds.end - seeds.start) * factor;
    (first..first + count)
        .map(|seed| {
            let mut pair = Pair::new(Scenario { seed, ..scenario }, sides);
            pair.run();
            pair.check_accounts();
            pair
        })
        .collect()
}

#[test]
fn a_clean_link_needs_no_recovery() {
    let scenario = Scenario {
        faults: "",
        ..Scenario::default()
    };
    for pair in run_seeds(0..4, scenario, &[Side::A]) {
        assert_eq!(
            pair.client.counters().gaps + pair.client.counters().requests,
            0
        );
        assert_eq!(pair.recorder.snapshots, 1);
        assert_eq!(pair.reconnects, 0);
    }
}

#[test]
fn nothing_is_lost_over_a_stream_with_every_fault() {
    let pairs = run_seeds(0..60, Scenario::default(), &[Side::A]);
    for pair in &pairs {
        assert_eq!(pair.recorder.lost_count(), 0, "seed {}", pair.scenario.seed);
        assert_eq!(pair.recorder.open, 0, "seed {}", pair.scenario.seed);
    }
    // The faults really happened.
    assert!(pairs.iter().map(|pair| pair.reconnects).sum::<u64>() > 10);
    assert!(
        pairs
            .iter()
            .map(|pair| pair.client.counters().recovered)
            .sum::<u64>()
            > 1_000
    );
}

#[test]
fn nothing_is_lost_over_datagrams_that_overtake_each_other() {
    let scenario = Scenario {
        datagrams: true,
        ..Scenario::default()
    };
    let pairs = run_seeds(100..140, scenario, &[Side::A]);
    for pair in &pairs {
        assert_eq!(pair.recorder.lost_count(), 0, "seed {}", pair.scenario.seed);
    }
    assert!(
        pairs
            .iter()
            .map(|pair| pair.client.side_counters(Side::A).late)
            .sum::<u64>()
            > 100
    );
}

#[test]
fn a_selection_is_as_safe_as_the_whole_stream() {
    let scenario = Scenario {
        pattern: "ES-*",
        ..Scenario::default()
    };
    for pair in run_seeds(200..230, scenario, &[Side::A]) {
        assert_eq!(pair.recorder.lost_count(), 0, "seed {}", pair.scenario.seed);
        assert!(pair.client.counters().skipped > 0);
    }
}

#[test]
fn a_slow_client_is_conflated_and_told_so() {
    let scenario = Scenario {
        faults: "",
        window: 1_024,
        budget_bytes: 300,
        produce_every: 8,
        messages: 6_000,
        ..Scenario::default()
    };
    for pair in run_seeds(300..320, scenario, &[Side::A]) {
        assert!(pair.recorder.lost_count() > 1_000);
        assert_eq!(pair.recorder.lost_count(), pair.conflated);
        assert!(
            pair.recorder
                .lost
                .iter()
                .all(|range| range.2 == LossReason::Conflated)
        );
        assert!(pair.recorder.snapshots > 1);
        assert!(!pair.recorder.delivered.is_empty());
    }
}

#[test]
fn a_small_window_with_every_fault_still_ends_in_equal_values() {
    let scenario = Scenario {
        window: 512,
        ..Scenario::default()
    };
    let pairs = run_seeds(400..440, scenario, &[Side::A]);
    assert!(
        pairs.iter().any(|pair| pair.recorder.lost_count() > 0),
        "the window was too wide"
    );
    let checked = pairs.iter().map(|pair| pair.recorder.checked_in_doubt);
    assert!(
        checked.sum::<u64>() > 0,
        "each symbol is right by its own record"
    );
}

#[test]
fn a_small_window_over_datagrams_still_ends_in_equal_values() {
    for (seeds, pattern) in [(800..820, "*"), (820..840, "ES-*")] {
        let scenario = Scenario {
            window: 128,
            datagrams: true,
            pattern,
            ..Scenario::default()
        };
        let pairs = run_seeds(seeds, scenario, &Side::ALL[..1]);
        let lost: u64 = pairs.iter().map(|pair| pair.recorder.lost_count()).sum();
        assert!(lost > 0, "the window was too wide");
    }
}

/// Returns a client that has joined a stream of 1,000 symbols, of which 64 messages are kept.
fn joined(pattern: &str) -> (Market, Journal, Session, Client, Recorder) {
    let mut market = Market::new(1);
    let mut journal = Journal::new(SESSION, 64);
    for symbol in 0..1_000 {
        market.define(&mut journal, &format!("S{symbol:03}"));
    }
    let mut client = Client::new(ClientConfig::default());
    client.subscribe(pattern).unwrap();
    client.connected(Side::A, 0);
    let mut session = new_session(0);
    let mut recorder = Recorder::default();
    talk(&mut session, &mut client, &mut recorder, &journal, &market);
    assert!(client.is_complete() && recorder.is_right);
    (market, journal, session, client, recorder)
}

/// Exchanges all output of both sides over a link without faults.
fn talk(
    session: &mut Session,
    client: &mut Client,
    recorder: &mut Recorder,
    journal: &Journal,
    market: &Market,
) {
    for _ in 0..20 {
        let mut up = Vec::new();
        client.drain_outgoing(Side::A, &mut up);
        assert_eq!(session.receive(&up, 0, recorder), Ok(up.len()));
        let mut down = Vec::new();
        while session.produce(journal, &market.board, 0, &mut down, 1 << 16) {}
        assert_eq!(client.receive(Side::A, &down, 0, recorder), Ok(down.len()));
        client.handle_timeout(2 * TICK_NS, recorder);
        recorder.check_values(market, client.next_sequence(), "");
    }
}

#[test]
fn a_loss_beyond_the_window_costs_the_records_of_the_symbols_that_have_changed() {
    for (pattern, touched) in [("*", 6), ("S00?", 5), ("S9*", 0)] {
        let (mut market, mut journal, mut session, mut client, mut recorder) = joined(pattern);
        let records = client.counters().snapshot_records;
        let mut lost = Vec::new();
        for number in 0..200 {
            market.trade(&mut journal, number % 5);
            while session.produce(&journal, &market.board, 0, &mut lost, 1 << 16) {}
        }
        for number in 0..60 {
            market.trade(&mut journal, if number < 50 { 2 } else { 900 });
        }
        talk(&mut session, &mut client, &mut recorder, &journal, &market);
        assert!(client.is_complete() && recorder.is_right, "{pattern}");
        assert_eq!(recorder.lost_count() > 0, touched > 0, "{pattern}");
        assert_eq!(
            client.counters().snapshot_records - records,
            touched,
            "{pattern}"
        );
        for (symbol, value) in &recorder.values {
            assert_eq!(value, &market.board.values[*symbol as usize]);
        }
    }
}

#[test]
fn who_was_away_too_long_gets_the_symbols_that_have_changed() {
    let (mut market, mut journal, _, mut client, mut recorder) = joined("*");
    let records = client.counters().snapshot_records;
    client.disconnected(Side::A);
    for number in 0..200 {
        market.trade(&mut journal, 500 + number % 3);
    }
    market.define(&mut journal, "NEW");
    client.connected(Side::A, 0);
    let mut session = new_session(0);
    talk(&mut session, &mut client, &mut recorder, &journal, &market);
    assert!(client.is_complete() && recorder.is_right);
    assert_eq!(recorder.lost_count(), 201);
    assert_eq!(client.counters().snapshot_records - records, 4);
    assert_eq!(recorder.names[&1_000], "NEW");
}

#[test]
fn a_client_of_before_gets_whole_snapshots() {
    let (market, journal, ..) = joined("*");
    let mut session = new_session(0);
    let login = Control::Login(Login {
        next_sequence: 3,
        session: SESSION,
        subscription_count: 1,
        ..Login::default()
    });
    let all = Control::Subscribe(Subscribe {
        pattern: PatternText::new("*").unwrap(),
        resume: true,
    });
    let (mut up, mut down) = (Vec::new(), Vec::new());
    PacketWriter::control(&mut up, 0, &login);
    PacketWriter::control(&mut up, 0, &all);
    session.receive(&up, 0, &mut NullSink).unwrap();
    while session.produce(&journal, &market.board, 0, &mut down, 1 << 16) {}
    assert_eq!(session.counters().snapshot_records, 1_000);
}

#[test]
fn two_bad_sides_make_one_good_stream() {
    let scenario = Scenario {
        datagrams: true,
        ..Scenario::default()
    };
    for pair in run_seeds(500..520, scenario, &Side::ALL) {
        assert_eq!(pair.recorder.lost_count(), 0, "seed {}", pair.scenario.seed);
        for side in Side::ALL {
            let counters = pair.client.side_counters(side);
            assert!(counters.lost > 0 && counters.duplicate > 0 && counters.late > 0);
        }
    }
}

#[test]
fn a_large_snapshot_survives_loss_and_overtaking() {
    let scenario = Scenario {
        datagrams: true,
        symbols: 3_000,
        messages: 8_000,
        ..Scenario::default()
    };
    let mut overtaken = 0;
    for seed in 600..606 {
        let mut pair = Pair::new(Scenario { seed, ..scenario }, &[Side::A]);
        // Everything is defined and moving before the client connects.
        pair.connections[0].reconnect_at_ns = Some(200 * TICK_NS);
        for _ in 0..3_000 {
            let symbol = pair.market.board.definitions.len();
            pair.market.define(&mut pair.journal, &format!("S{symbol}"));
        }
        pair.run();
        pair.check_accounts();
        assert_eq!(pair.recorder.lost_count(), 0);
        assert!(pair.client.counters().snapshot_records >= 3_000);
        overtaken += pair.client.counters().overtaken;
    }
    assert!(
        overtaken > 0,
        "no record was ever overtaken: the link is too good"
    );
}

/// Appends some messages while there is room; after the last, ends the session.
fn offer(market: &mut Market, publisher: &mut Publisher) {
    for _ in 0..10.min(publisher.room() / 3) {
        if market.all.len() < 4_000 {
            let message = market.message(30);
            let sequence = publisher.append(&message);
            market.note(sequence, message);
        } else {
            publisher.finish();
        }
    }
}

/// Checks that the server has every message once and that the publisher was told so.
fn check_publication(market: &Market, recorder: &Recorder, publisher: &Publisher) {
    let expected: Vec<_> = market
        .all
        .iter()
        .enumerate()
        .map(|(index, &one)| (index as u64 + 1, one))
        .collect();
    assert_eq!(recorder.delivered, expected);
    assert_eq!(recorder.lost_count(), 0);
    let acknowledged = publisher.acknowledgement().unwrap();
    assert_eq!(
        (acknowledged.next_sequence, acknowledged.applied_count),
        (4_001, 4_000)
    );
}

/// A publisher over a bad link: the server gets everything once, and confirms it.
#[test]
fn a_publisher_delivers_its_whole_session_over_a_bad_link() {
    for seed in 700..730 {
        let mut market = Market::new(seed);
        let plan: FaultPlan = ALL_FAULTS.parse().unwrap();
        let mut faults = FaultInjector::new(plan, seed);
        let journal = Journal::new(SESSION, 1 << 14);
        let mut publisher = Publisher::new(PublisherConfig::default(), journal);
        let hub_journal = Journal::new(1, 64);
        let mut recorder = Recorder::default();
        let mut session = new_session(0);
        let (mut up, mut down) = (Wire::default(), Wire::default());
        let mut reconnect_at_ns = Some(0);
        let mut now_ns = 0;
        while publisher.state() != PublisherState::Finished {
            now_ns += TICK_NS;
            assert!(
                now_ns < TICKS_MAX * TICK_NS,
                "seed {seed}: {:?}",
                publisher.state()
            );
            offer(&mut market, &mut publisher);
            if let Some(at_ns) = reconnect_at_ns {
                if now_ns < at_ns {
                    continue;
                }
                reconnect_at_ns = None;
                recorder.kept = session.into_receiver();
                session = new_session(now_ns);
                (up, down) = (Wire::default(), Wire::default());
                faults.reset();
                publisher.connected(now_ns);
            }
            let mut out = Vec::new();
            publisher.produce(now_ns, &mut out, 1 << 14);
            up.write_badly(&mut out, &mut faults, now_ns);
            up.arrive(now_ns);
            let result = session.receive(&up.arrived, now_ns, &mut recorder);
            let broken = match result {
                Ok(used) => {
                    up.arrived.drain(..used);
                    up.cut && up.in_flight.is_empty()
                }
                Err(_) => true,
            };
            session.handle_timeout(now_ns, &mut recorder);
            if broken || session.is_silent(now_ns) {
                publisher.disconnected();
                reconnect_at_ns = Some(now_ns + RECONNECT_NS);
                continue;
            }
            let mut answer = Vec::new();
            session.produce(&hub_journal, &market.board, now_ns, &mut answer, 1 << 14);
            down.write(&answer, now_ns);
            down.arrive(now_ns);
            let used = publisher.receive(&down.arrived, now_ns).unwrap();
            down.arrived.drain(..used);
        }
        check_publication(&market, &recorder, &publisher);
    }
}
