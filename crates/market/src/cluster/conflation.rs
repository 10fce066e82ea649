//! What a relay publishes: the symbols of one source, as their newest values at a limited rate, or
//! as the messages that come.
//!
//! ```text
//!  the hub's journal ─▶ whose symbols? ─┬─ full ──────▶ the message       ─▶ the relay's journal
//!                                       └─ conflated ─▶ mark ─▶ tick: last value ─▶ ↑
//! ```
//!
//! The relay has a journal and a board of its own, so that an owner publishes it like any source:
//! a value on the board is never newer than what the journal says of it.

use std::sync::Arc;

use tidewire_feed::journal::{Cursor, Everything, Journal};
use tidewire_feed::server::{self, Pattern, RELAY_PACKET_LENGTH_MAX, Relay, Steps};
use tidewire_feed::wire::{Definition, LastValue, Message, Venue, decode_packet};

use super::own::OwnTopics;
use crate::board::Board;
use crate::market::Market;

/// Packets that are read from the hub's journal in one turn.
const PACKETS_A_TURN: usize = 32;
/// Values that one turn of a tick writes.
const VALUES_A_TURN: usize = 4_096;
/// Messages of the relay's journal; the owner reads them within a tick.
const JOURNAL_MESSAGES_MAX: usize = 1 << 17;

/// Whose symbols are relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This hub's own.
    Own,
    /// Those of the source with this number.
    Of(u32),
}

/// What is known of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Unknown,
    /// No pattern matches its name.
    LeftOut,
    /// The index of its symbol.
    At(u32),
}

/// What a topic is relayed as.
enum Named {
    /// The symbol with this index, which another topic was before.
    Known(usize),
    /// A new symbol.
    New(Definition),
}

/// One relayed symbol.
#[derive(Clone, Debug)]
struct Symbol {
    /// Its number in the relay's stream: that of the topic with its name.
    id: u32,
    /// The topic with its value. Once a second source gives the symbol, this is its venue's.
    number: u32,
    is_full: bool,
    is_marked: bool,
    /// The value includes the hub's stream up to this sequence.
    taken: u64,
    /// Sequence of the relay's stream of the newest message about it.
    changed: u64,
    definition: Definition,
    /// The value as the relay's stream has it.
    value: Option<LastValue>,
}

/// The symbols of a relay and its stream.
pub(super) struct Conflation {
    full: Vec<Pattern>,
    conflated: Vec<Pattern>,
    whose: Option<Whose>,
    cursor: Cursor,
    /// By topic number.
    places: Vec<Place>,
    symbols: Vec<Symbol>,
    marked: Vec<u32>,
    journal: Journal,
    venues: Vec<Venue>,
    venues_version: u64,
    packets: Vec<u8>,
    /// Whether this hub publishes the relay: a standby counts nothing.
    pub(super) is_counting: bool,
    /// Bytes of the source's messages about relayed symbols.
    pub(super) bytes_in: u64,
    /// Messages in them.
    pub(super) messages_in: u64,
}

impl Conflation {
    pub(super) fn new(session: u32, capacity: usize, full: &[Pattern], rest: &[Pattern]) -> Self {
        Self {
            full: full.to_vec(),
            conflated: rest.to_vec(),
            whose: None,
            cursor: Cursor::at(1),
            places: Vec::new(),
            symbols: Vec::new(),
            marked: Vec::new(),
            journal: Journal::new(session, capacity.min(JOURNAL_MESSAGES_MAX)),
            venues: Vec::new(),
            venues_version: 0,
            packets: Vec::new(),
            is_counting: false,
            bytes_in: 0,
            messages_in: 0,
        }
    }

    /// Returns the relay's stream.
    pub(super) fn stream(&self) -> Relay<'_, Everything> {
        Relay::new(&self.journal, &Everything)
    }

    /// Returns the number of relayed symbols.
    pub(super) fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// Reads what is new in the hub's journal. Returns whether there is more.
    pub(super) fn read(&mut self, market: &Market, whose: Whose) -> bool {
        self.tell_venues(&market.board);
        if self.whose != Some(whose) {
            self.whose = Some(whose);
            self.take_board(market);
        }
        for _ in 0..PACKETS_A_TURN {
            let mut packets = std::mem::take(&mut self.packets);
            packets.clear();
            let journal = market.journal.lock();
            let (oldest, next) = (journal.oldest_sequence(), journal.next_sequence());
            let before = self.cursor.sent;
            if before >= oldest {
                let stream = Relay::new(&journal, &Everything);
                let limit = RELAY_PACKET_LENGTH_MAX;
                stream.read(&mut self.cursor, u64::MAX, limit, &mut packets);
            }
            drop(journal);
            if before < oldest {
                // The values are on the board; only trades that were full are not repeated.
                self.take_board(market);
            }
            self.take_packets(market, &packets);
            self.packets = packets;
            if self.cursor.sent >= next || self.cursor.sent == before {
                return false;
            }
        }
        true
    }

    /// Writes the newest values of what has changed. Returns whether more is left.
    pub(super) fn tick(&mut self, board: &Board) -> bool {
        let from = self.marked.len().saturating_sub(VALUES_A_TURN);
        for index in self.marked.split_off(from) {
            self.write_value(board, index as usize);
        }
        !self.marked.is_empty()
    }

    /// Returns whether a tick has something to write.
    pub(super) fn is_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Goes on at the end of the hub's journal, with the values of the board.
    fn take_board(&mut self, market: &Market) {
        let next = market.journal.lock().next_sequence();
        self.cursor = Cursor::at(next);
        for number in 0..market.board.count() {
            if !self.is_relayed(market, number) {
                continue;
            }
            if let Some(index) = self.find(market, number) {
                match self.symbols[index].is_full {
                    true => self.write_value(&market.board, index),
                    false => self.mark(index),
                }
            }
        }
    }

    fn take_packets(&mut self, market: &Market, packets: &[u8]) {
        let mut rest = packets;
        while let Ok(Some((packet, length))) = decode_packet(rest) {
            let mut sequence = packet.header.first_sequence;
            for message in packet.messages() {
                let Ok(message) = message else {
                    debug_assert!(false, "the journal writes whole messages");
                    return;
                };
                self.take(market, sequence, &message);
                sequence += message.sequence_count();
            }
            rest = &rest[length..];
        }
    }

    /// Takes a message of the hub's stream.
    fn take(&mut self, market: &Market, sequence: u64, message: &Message) {
        let Some(number) = message.symbol() else {
            return;
        };
        if !self.is_relayed(market, number) {
            return;
        }
        let Some(index) = self.find(market, number) else {
            return;
        };
        if self.is_counting {
            self.messages_in += 1;
            self.bytes_in += message.encoded_length() as u64;
        }
        let symbol = &mut self.symbols[index];
        if symbol.id != symbol.number {
            // Its messages have another number than the relay's stream.
            if symbol.is_full && sequence > symbol.taken {
                self.write_value(&market.board, index);
            }
            return self.mark(index);
        }
        if let Message::Definition(definition) = message {
            if symbol.definition != *definition {
                symbol.definition = *definition;
                symbol.changed = self.journal.append(message);
            }
            return self.mark(index);
        }
        if !symbol.is_full {
            // Books and records are not relayed: their last value says what they come to.
            if !matches!(message, Message::Level(_) | Message::Record(_)) {
                self.mark(index);
            }
        } else if sequence > symbol.taken {
            symbol.changed = self.journal.append(message);
            let value = symbol.value.get_or_insert_with(|| LastValue::new(number));
            match message {
                Message::LastValue(record) => {
                    *value = LastValue {
                        sequence: symbol.changed,
                        ..*record
                    };
                }
                message => {
                    value.apply(symbol.changed, message);
                }
            }
        }
    }

    fn mark(&mut self, index: usize) {
        let symbol = &mut self.symbols[index];
        if !symbol.is_full && !std::mem::replace(&mut symbol.is_marked, true) {
            self.marked.push(index as u32);
        }
    }

    /// Writes a symbol's value of now, if it is another one.
    fn write_value(&mut self, board: &Board, index: usize) {
        let symbol = &mut self.symbols[index];
        symbol.is_marked = false;
        let value = server::Board::last_value(board, symbol.number as usize);
        let Some(value) = value else { return };
        let value = LastValue {
            symbol: symbol.id,
            ..value
        };
        let before = symbol.value.map(|before| LastValue {
            sequence: value.sequence,
            ..before
        });
        symbol.taken = value.sequence.max(symbol.taken);
        if before == Some(value) {
            return;
        }
        symbol.changed = self.journal.append(&Message::LastValue(value));
        symbol.value = Some(LastValue {
            sequence: symbol.changed,
            ..value
        });
    }

    fn is_relayed(&self, market: &Market, number: u32) -> bool {
        match self.whose {
            None => false,
            Some(Whose::Of(source)) => {
                let slot = market.board.slots().slot(number);
                slot.and_then(|slot| slot.owner()) == Some(source)
            }
            Some(Whose::Own) => {
                let (board, remote) = (&*market.board, &market.remote);
                tidewire_feed::journal::Filter::passes(&OwnTopics { board, remote }, number)
            }
        }
    }

    /// Returns the index of a topic's symbol, which may be new; `None` if no pattern matches.
    fn find(&mut self, market: &Market, number: u32) -> Option<usize> {
        let place = number as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, Place::Unknown);
        }
        match self.places[place] {
            Place::At(index) => return Some(index as usize),
            Place::LeftOut => return None,
            Place::Unknown => {}
        }
        let definition = match self.as_symbol(market, number)? {
            Named::Known(index) => return Some(index),
            Named::New(definition) => definition,
        };
        let id = definition.symbol;
        let matches = |patterns: &[Pattern]| {
            let name = definition.name;
            let mut patterns = patterns.iter();
            patterns.any(|pattern| pattern.matches(name.as_str(), &mut Steps::new(u64::MAX)))
        };
        let is_full = matches(&self.full);
        if !is_full && !matches(&self.conflated) {
            self.places[place] = Place::LeftOut;
            return None;
        }
        let index = self.symbols.len();
        self.places[place] = Place::At(index as u32);
        self.places[id as usize] = Place::At(index as u32);
        let changed = self.journal.append(&Message::Definition(definition));
        self.symbols.push(Symbol {
            id,
            number,
            is_full,
            is_marked: false,
            taken: 0,
            changed,
            definition,
            value: None,
        });
        match is_full {
            true => self.write_value(&market.board, index),
            false => self.mark(index),
        }
        Some(index)
    }

    /// Returns what a new topic is relayed as. The topic of a venue stands for its symbol, unless
    /// another topic of the source does: only this hub has a second source of it.
    fn as_symbol(&mut self, market: &Market, number: u32) -> Option<Named> {
        let definition = server::Board::definition(&*market.board, number as usize)?;
        let topic = market.board.topic(number)?;
        let Some(parent) = topic.parent() else {
            return Some(Named::New(definition));
        };
        let place = parent.number as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, Place::Unknown);
        }
        match self.places[place] {
            Place::Unknown => Some(Named::New(Definition {
                symbol: parent.number,
                name: parent.definition().name,
                ..definition
            })),
            Place::At(index) if !self.is_relayed(market, self.symbols[index as usize].number) => {
                self.places[number as usize] = Place::At(index);
                self.symbols[index as usize].number = number;
                Some(Named::Known(index as usize))
            }
            _ => Some(Named::New(definition)),
        }
    }

    fn tell_venues(&mut self, board: &Arc<Board>) {
        let version = server::Board::venues_version(&**board);
        if version == self.venues_version {
            return;
        }
        self.venues_version = version;
        let venues = server::Board::venues(&**board);
        for venue in venues.iter().filter(|venue| !self.venues.contains(venue)) {
            self.journal.append(&Message::Venue(*venue));
        }
        self.venues = venues;
    }
}

impl server::Board for Conflation {
    fn len(&self) -> usize {
        self.symbols.len()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        Some(self.symbols.get(index)?.definition)
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        self.symbols.get(index)?.value
    }

    fn venues(&self) -> Vec<Venue> {
        self.venues.clone()
    }

    fn changed(&self, index: usize) -> u64 {
        let symbol = self.symbols.get(index);
        symbol.map_or(u64::MAX, |symbol| symbol.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Ingest;
    use crate::market::MarketConfig;
    use tidewire_feed::client::Sink;
    use tidewire_feed::wire::{Name, PatternText, Trade};

    const SOURCE: u32 = 1 << 31 | 3;

    struct Hub {
        market: Arc<Market>,
        ingest: Ingest,
        sequence: u64,
    }

    impl Hub {
        /// A hub that receives the symbols A0 to A9.
        fn new(journal_messages: usize) -> Self {
            let config = MarketConfig {
                journal_messages,
                ..MarketConfig::default()
            };
            let market = Market::of_one_lane(config);
            let mut ingest = Ingest::new(market.clone(), SOURCE, "cluster-test");
            let mut batch = ingest.begin(1);
            for symbol in 0..10 {
                let name = Name::new(&format!("A{symbol}")).unwrap();
                batch.definition(symbol.into(), &Definition::new(symbol, name));
            }
            batch.finish();
            Self {
                market,
                ingest,
                sequence: 100,
            }
        }

        fn trade(&mut self, symbol: u32, price: i64) {
            let mut batch = self.ingest.begin(1);
            self.sequence += 1;
            let trade = Trade {
                symbol,
                price,
                size: 1,
                ..Trade::default()
            };
            batch.message(self.sequence, &Message::Trade(trade));
            batch.finish();
        }
    }

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        let pattern = |text: &&str| Pattern::new(PatternText::new(text).unwrap()).unwrap();
        texts.iter().map(pattern).collect()
    }

    fn conflation(full: &[&str], conflated: &[&str]) -> Conflation {
        Conflation::new(7, 4_096, &patterns(full), &patterns(conflated))
    }

    /// What the relay's stream says behind a sequence, by symbol and last price.
    fn said(relay: &Conflation, after: u64) -> Vec<(char, u32, i64)> {
        let journal = &relay.journal;
        let messages = (after.max(1)..journal.next_sequence()).map(|at| journal.message(at));
        let shown = messages.flatten().filter_map(|message| match message {
            Message::LastValue(value) => Some(('v', value.symbol, value.last)),
            Message::Trade(trade) => Some(('t', trade.symbol, trade.price)),
            _ => None,
        });
        shown.collect()
    }

    #[test]
    fn many_trades_of_a_tick_are_one_value_and_full_symbols_have_each() {
        let mut hub = Hub::new(4_096);
        let mut relay = conflation(&["A1"], &["A0", "A1"]);
        relay.is_counting = true;
        assert!(!relay.read(&hub.market, Whose::Of(SOURCE)));
        assert!(!relay.tick(&hub.market.board));
        let before = relay.journal.next_sequence();
        for price in 1..=3 {
            (0..3).for_each(|symbol| hub.trade(symbol, price));
        }
        relay.read(&hub.market, Whose::Of(SOURCE));
        relay.tick(&hub.market.board);
        let expected = [('t', 1, 1), ('t', 1, 2), ('t', 1, 3), ('v', 0, 3)];
        let mut found = said(&relay, before);
        // The first value of a symbol that is relayed in full stands for what was before it.
        found.retain(|(kind, symbol, _)| (*kind, *symbol) != ('v', 1));
        assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
        assert!(found.iter().all(|(_, symbol, _)| *symbol < 2), "{found:?}");
        let values = found.iter().filter(|(kind, ..)| *kind == 'v').count();
        assert_eq!(values, 1, "{found:?}");
        let value = server::Board::last_value(&relay, relay.place_of(0)).unwrap();
        assert_eq!((value.volume, value.figures.unwrap().trades), (3, 3));
        let value = server::Board::last_value(&relay, relay.place_of(1)).unwrap();
        assert_eq!((value.volume, value.last), (3, 3));
        assert!(relay.bytes_in >= 6 * 32, "{}", relay.bytes_in);
        // Nothing has changed.
        let before = relay.journal.next_sequence();
        relay.read(&hub.market, Whose::Of(SOURCE));
        relay.tick(&hub.market.board);
        assert_eq!(said(&relay, before), []);
    }

    /// An edge that had applied a page took an older value from the stream behind it.
    #[test]
    fn the_board_is_never_newer_than_the_stream() {
        let mut hub = Hub::new(4_096);
        let mut relay = conflation(&[], &["*"]);
        hub.trade(4, 1);
        relay.read(&hub.market, Whose::Of(SOURCE));
        relay.tick(&hub.market.board);
        hub.trade(4, 2);
        relay.read(&hub.market, Whose::Of(SOURCE));
        let index = relay.place_of(4);
        let value = server::Board::last_value(&relay, index).unwrap();
        assert_eq!(value.last, 1, "not told yet");
        assert_eq!(value.sequence, server::Board::changed(&relay, index));
        relay.tick(&hub.market.board);
        let value = server::Board::last_value(&relay, index).unwrap();
        assert_eq!(value.last, 2);
        assert!(value.sequence < relay.journal.next_sequence());
    }

    #[test]
    fn a_journal_that_was_overrun_is_replaced_by_the_values() {
        let mut hub = Hub::new(64);
        let mut relay = conflation(&["A5"], &["*"]);
        relay.read(&hub.market, Whose::Of(SOURCE));
        relay.tick(&hub.market.board);
        let before = relay.journal.next_sequence();
        for price in 1..=200 {
            hub.trade(5, price);
            hub.trade(6, price);
        }
        relay.read(&hub.market, Whose::Of(SOURCE));
        relay.tick(&hub.market.board);
        let mut found = said(&relay, before);
        found.sort_unstable();
        assert_eq!(found, [('v', 5, 200), ('v', 6, 200)]);
        let value = server::Board::last_value(&relay, relay.place_of(5)).unwrap();
        assert_eq!((value.volume, value.last), (200, 200));
    }

    #[test]
    fn only_the_symbols_of_its_source_are_relayed() {
        let mut hub = Hub::new(4_096);
        hub.trade(1, 1);
        let mut relay = conflation(&[], &["*"]);
        relay.read(&hub.market, Whose::Of(SOURCE + 1));
        assert_eq!(relay.symbols(), 0);
        relay.read(&hub.market, Whose::Of(SOURCE));
        assert_eq!(relay.symbols(), 10);
    }

    impl Conflation {
        fn place_of(&self, number: u32) -> usize {
            match self.places[number as usize] {
                Place::At(index) => index as usize,
                place => panic!("{place:?}"),
            }
        }
    }
}
