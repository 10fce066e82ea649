//! Fuzz entries of the DBN decoder, its books and the gateway's requests: they must never panic.

use std::collections::{HashMap, HashSet};

use tidewire_book::BookLimits;
use tidewire_feed::wire::{Level, Message, SessionStart};

use super::{
    Container, Decoder, Event, Reader, RecordRef, Translator, carried_length, detect, to_version_2,
    to_version_3,
};
use crate::book::{BooksConfig, Depth};
use crate::databento::{Names, Request, next_line};

/// Decodes arbitrary bytes as a stream, as a fragment and through the reader, and translates
/// every record with small books.
pub fn fuzz_dbn_decoder(data: &[u8]) {
    if detect(data) == Container::Zstd {
        return; // decompression belongs to another library
    }
    let counts = [Decoder::new(), Decoder::fragment()].map(|decoder| drain(decoder, data));
    let mut reader = match Reader::open(data) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut count = 0;
    while let Ok(Some(_)) = reader.next_record() {
        count += 1;
    }
    if matches!(detect(data), Container::Dbn { .. }) {
        assert_eq!(count, counts[0], "the reader gives what the decoder gives");
    }
}

/// Parses arbitrary bytes as lines of a gateway's client.
pub fn fuzz_databento_request(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(line)) = next_line(rest) {
        match Request::parse(line.text) {
            Ok(Request::Subscribe(subscription) | Request::Unsubscribe(subscription)) => {
                if let Ok(mut names) = Names::parse(&subscription) {
                    assert!(names.len() <= line.text.len());
                    let same = names.clone();
                    names.remove(&same);
                    assert_eq!(names.len(), 0);
                    let _ = names.find(line.text, 1);
                }
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        rest = &rest[line.length..];
    }
}

/// Converts a record to version 3 and back to version 2: same fields, the lengths of each.
fn convert(record: &RecordRef<'_>) {
    let (mut new, mut old) = (Vec::new(), Vec::new());
    if to_version_3(record, &mut new) {
        assert_eq!(Some(new.len()), carried_length(record.kind()));
        to_version_2(&new, &mut old);
        let old = RecordRef::new(&old).expect("a whole record");
        assert_eq!(old.kind(), record.kind());
    }
}

/// Decodes to the end and returns the number of records.
fn drain(mut decoder: Decoder, data: &[u8]) -> usize {
    let mut translator = Translator::new(BooksConfig {
        book: BookLimits {
            orders_max: 8,
            levels_max: 4,
        },
        instruments_max: 4,
        symbol_first: 0,
    });
    let mut rest = data;
    let mut count = 0;
    let mut receiver = Receiver::default();
    let mut depth = Depth::new(2);
    let error = loop {
        let before = rest.len();
        match decoder.decode(&mut rest) {
            Ok(Event::Record(record)) => {
                count += 1;
                let fields = record.decode();
                assert!(!format!("{fields:?} {:?}", record.ts_out()).is_empty());
                translator.apply(&record, |message| receiver.take(message));
                for level in translator.levels(&record, &mut depth) {
                    receiver.take(&Message::Level(*level));
                }
                let _ = translator.carry(&record, |message| receiver.take(message));
                convert(&record);
            }
            Ok(Event::Metadata(metadata)) => {
                let _ = translator.add_metadata(&metadata);
            }
            Ok(Event::NeedMore(missing)) => {
                assert!(missing > 0);
                break decoder.finish(rest).err();
            }
            Err(error) => break Some(error),
        }
        assert!(rest.len() < before, "every event takes bytes");
    };
    assert_eq!(decoder.position() as usize, data.len() - rest.len());
    assert!(error.is_some() || rest.is_empty());
    assert_eq!(translator.accounting().read(), count as u64);
    assert_eq!(translator.accounting().published(), receiver.ticks);
    assert_eq!(translator.counts().definitions, receiver.definitions);
    count
}

/// Checks the order of a translator's messages.
#[derive(Default)]
struct Receiver {
    ticks: u64,
    definitions: u64,
    symbols: HashSet<u32>,
    venues: HashSet<u16>,
    /// The trading day by publisher and symbol.
    days: HashMap<(u16, u32), u32>,
    /// Publishers, symbols and days whose first trade has been told.
    traded: HashSet<((u16, u32), u32)>,
    /// The prices shown, by publisher, symbol and side.
    levels: HashMap<(u16, u32, u8), HashSet<i64>>,
}

impl Receiver {
    fn take(&mut self, message: &Message) {
        let (source, symbol) = match message {
            Message::Venue(venue) => {
                assert!(self.venues.insert(venue.source), "a venue is named once");
                return;
            }
            Message::Definition(definition) => {
                self.definitions += 1;
                self.symbols.insert(definition.symbol);
                return;
            }
            Message::SessionStart(start) => {
                let key = (start.source, start.symbol);
                let before = self.days.insert(key, start.trading_day);
                match start.rolls {
                    SessionStart::KEEPS => assert_eq!(before, Some(start.trading_day)),
                    SessionStart::BEGINS => assert!(before.is_none() && start.trading_day == 0),
                    SessionStart::BEGINS_DAY => {
                        assert!(before.is_none_or(|before| before < start.trading_day));
                    }
                    // The first trade follows.
                    _ => {
                        assert!(before.is_none_or(|before| before <= start.trading_day));
                        assert!(self.traded.insert((key, start.trading_day)), "once a day");
                    }
                }
                key
            }
            Message::Level(level) => {
                assert!(self.venues.contains(&level.source));
                assert!(self.symbols.contains(&level.symbol), "a definition first");
                let side = (level.source, level.symbol, level.side);
                let prices = self.levels.entry(side).or_default();
                match (level.action, level.size) {
                    (Level::SET, 0) => {
                        prices.remove(&level.price);
                    }
                    (Level::SET, _) => {
                        prices.insert(level.price);
                    }
                    _ => {}
                }
                assert!(level.is_last == 0 || prices.len() <= 2, "the best two");
                return;
            }
            Message::Quote(quote) => (quote.source, quote.symbol),
            Message::Trade(trade) => (trade.source, trade.symbol),
            Message::Status(status) => (status.source, status.symbol),
            other => panic!("a translator gives no {other:?}"),
        };
        self.ticks += u64::from(matches!(message, Message::Quote(_) | Message::Trade(_)));
        assert!(self.venues.contains(&source) && self.symbols.contains(&symbol));
        assert!(self.days.contains_key(&(source, symbol)));
    }
}

#[cfg(test)]
mod tests;
