//! What the source says, and a hub's journal and board of it.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_feed::journal::{Filter, Journal};
use tidewire_feed::server::Board;
use tidewire_feed::wire::{
    Definition, Figures, LastValue, Message, Name, Quote, Trade, UNDEFINED_PRICE, Venue, VenueName,
};

/// Numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true so many times in a thousand.
    pub(crate) fn happens(&mut self, in_thousand: u64) -> bool {
        self.below(1_000) < in_thousand
    }
}

/// Which symbols are of this source: four of five. The hubs have other sources as well.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) offset: u32,
}

impl Filter for Own {
    fn passes_all(&self) -> bool {
        false
    }

    fn passes(&self, symbol: u32) -> bool {
        (symbol - self.offset) % 5 != 4
    }
}

/// Returns the source's next message.
pub(crate) fn say(random: &mut Random, said: usize, known: u32, symbols: u32) -> Message {
    let source_time_ns = said as u64;
    if known < symbols.min(4) || (known < symbols && random.below(20) == 0) {
        return Message::Definition(Definition {
            symbol: known,
            source: 1,
            source_time_ns,
            open: UNDEFINED_PRICE,
            price_tick: 1,
            lot_size: 1,
            currency: *b"USD\0",
            name: Name::new(&format!("S{known}")).unwrap(),
            repeats: false,
        });
    }
    let symbol = random.below(u64::from(known)) as u32;
    let price = random.below(1_000_000) as i64;
    match random.below(10) {
        0..5 => Message::Quote(Quote {
            symbol,
            source: 1,
            source_time_ns,
            bid: price,
            ask: price + 5,
            ..Quote::default()
        }),
        5..9 => Message::Trade(Trade {
            symbol,
            source: 1,
            source_time_ns,
            price,
            size: 1 + random.below(100) as u32,
            condition: 0,
        }),
        _ => Message::Venue(Venue {
            source: 1,
            source_time_ns,
            name: VenueName::new("XNAS").unwrap(),
        }),
    }
}

/// By session: the value of its symbol after each message; index = sequence − 1.
#[derive(Default)]
pub(crate) struct Histories(pub(crate) HashMap<u32, Vec<Option<LastValue>>>);

/// A hub's journal and board.
pub(crate) struct Store {
    pub(crate) journal: Journal,
    pub(crate) board: Values,
    /// Symbol ids of the hub begin here.
    pub(crate) offset: u32,
    pub(crate) heard: usize,
}

#[derive(Default)]
pub(crate) struct Values {
    definitions: Vec<Definition>,
    pub(crate) values: Vec<LastValue>,
}

impl Board for Values {
    fn len(&self) -> usize {
        self.definitions.len()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        self.definitions.get(index).copied()
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        self.values.get(index).copied()
    }

    fn venues(&self) -> Vec<Venue> {
        let name = VenueName::new("XNAS").unwrap();
        let venue = |source_time_ns| Venue {
            source: 1,
            source_time_ns,
            name,
        };
        vec![venue(0)]
    }
}

impl Store {
    pub(crate) fn new(session: u32, offset: u32, capacity: usize) -> Store {
        Store {
            journal: Journal::new(session, capacity),
            board: Values::default(),
            offset,
            heard: 0,
        }
    }

    /// Hears what the source has said since.
    pub(crate) fn hear(&mut self, all: &[Message], histories: &mut Histories) {
        let history = histories.0.entry(self.journal.session()).or_default();
        for message in &all[self.heard..] {
            let mut message = *message;
            if let Some(symbol) = message.symbol() {
                message.set_symbol(symbol + self.offset);
            }
            let sequence = self.journal.append(&message);
            assert_eq!(history.len() as u64 + 1, sequence);
            history.push(self.board.apply(sequence, &message, self.offset));
        }
        self.heard = all.len();
    }
}

impl Values {
    fn apply(&mut self, sequence: u64, message: &Message, offset: u32) -> Option<LastValue> {
        if let Message::Definition(definition) = message {
            self.definitions.push(*definition);
            self.values.push(LastValue {
                figures: Some(Figures::default()),
                ..LastValue::new(definition.symbol)
            });
        }
        let index = (message.symbol()? - offset) as usize;
        assert!(self.values[index].apply(sequence, message));
        Some(self.values[index])
    }
}

/// A frame as it travels.
pub(crate) type Bytes = Arc<[u8]>;
