//! Fuzz entries of the DBN decoder, its books and the gateway's requests: they must never panic.

use super::{Container, Decoder, Event, Reader, detect};
use crate::book::{Books, BooksConfig};
use crate::databento::{Names, Request, next_line};
use tidewire_book::BookLimits;

/// Decodes arbitrary bytes as a stream, as a fragment and through the reader, and applies every
/// record to small books.
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

/// Decodes to the end and returns the number of records.
fn drain(mut decoder: Decoder, data: &[u8]) -> usize {
    let mut books = Books::new(BooksConfig {
        book: BookLimits {
            orders_max: 8,
            levels_max: 4,
        },
        instruments_max: 4,
        symbol_first: 0,
    });
    let mut rest = data;
    let mut count = 0;
    let mut published = 0;
    let error = loop {
        let before = rest.len();
        match decoder.decode(&mut rest) {
            Ok(Event::Record(record)) => {
                count += 1;
                let fields = record.decode();
                assert!(!format!("{fields:?} {:?}", record.ts_out()).is_empty());
                books.apply(&record, |_| published += 1);
            }
            Ok(Event::Metadata(metadata)) => {
                let _ = books.add_metadata(&metadata);
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
    assert_eq!(books.accounting().read(), count as u64);
    assert_eq!(books.accounting().published(), published);
    count
}

#[cfg(test)]
mod tests;
