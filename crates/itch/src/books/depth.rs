//! Price levels of the securities that a reader follows.

use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Level, Message};

use super::Books;
use crate::Head;

/// The followed securities.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Number of followed securities. While it is 0, a message costs one branch.
    count: usize,
    /// By locate code: [`FOLLOWED`].
    flags: Vec<u8>,
}

/// A side and a price that an event has changed.
pub(super) type Place = (bool, i64);

impl Followed {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn has(&self, locate: u16) -> u8 {
        self.flags.get(usize::from(locate)).copied().unwrap_or(0)
    }

    /// Returns whether the state changed.
    fn set(&mut self, locate: u16, is_followed: bool) -> bool {
        let index = usize::from(locate);
        if index >= self.flags.len() {
            self.flags.resize(index + 1, 0);
        }
        let was_followed = self.flags[index] != 0;
        self.flags[index] = if is_followed { FOLLOWED } else { 0 };
        self.count -= usize::from(was_followed);
        self.count += usize::from(is_followed);
        was_followed != is_followed
    }
}

impl Books {
    /// Gives `sink` the levels of a security from now on: first the whole book, then the changed
    /// levels at the end of each event. With `is_followed` false, ends that. Does nothing if the
    /// security is followed, or not followed, already. `source_time_ns` is the time of the book.
    pub fn follow<S: Sink>(
        &mut self,
        locate: u16,
        is_followed: bool,
        sequence: u64,
        source_time_ns: u64,
        sink: &mut S,
    ) {
        if !self.followed.set(locate, is_followed) {
            return;
        }
        if is_followed {
            return self.send_book(locate, sequence, source_time_ns, sink);
        }
        let end = Level {
            action: Level::END,
            is_last: 1,
            ..self.level(locate, source_time_ns)
        };
        sink.message(sequence, &Message::Level(end));
    }

    /// Ends the levels of all securities without telling so, because the receiver knows that they
    /// may be wrong.
    pub fn unfollow_all(&mut self) {
        self.followed = Followed::default();
    }

    /// Returns the number of securities whose levels are given.
    pub fn followed_count(&self) -> usize {
        self.followed.count
    }

    /// Returns whether a security's levels are given.
    pub fn is_followed(&self, locate: u16) -> bool {
        self.followed.has(locate) != 0
    }

    /// Gives the new totals of the levels that an event has changed, if the security is followed.
    #[inline(always)]
    pub(super) fn show_levels<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        places: &[Place],
        sink: &mut S,
    ) {
        if !self.followed.is_empty() {
            self.show_followed(sequence, head, places, sink);
        }
    }

    #[inline(never)]
    fn show_followed<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        places: &[Place],
        sink: &mut S,
    ) {
        let flags = self.followed.has(head.locate);
        if flags == 0 {
            return;
        }
        let source_time_ns = self.unix_ns(head.time);
        let Some(sides) = self.book(head.locate) else {
            return;
        };
        for (position, &(is_bid, price)) in places.iter().enumerate() {
            let level = sides.side(is_bid).get(price);
            let level = Level {
                price,
                size: level.map_or(0, |level| size(level.size)),
                orders: level.map_or(0, |level| level.orders),
                side: side(is_bid),
                is_last: u8::from(position + 1 == places.len()),
                ..self.level(head.locate, source_time_ns)
            };
            sink.message(sequence, &Message::Level(level));
        }
    }

    /// Gives a whole book as one event: a clear, then each level, the best first.
    fn send_book<S: Sink>(&self, locate: u16, sequence: u64, source_time_ns: u64, sink: &mut S) {
        let empty = self.level(locate, source_time_ns);
        let mut last = Level {
            action: Level::CLEAR,
            ..empty
        };
        for is_bid in [true, false] {
            let levels = self.book(locate).map(|sides| sides.side(is_bid).iter());
            for level in levels.into_iter().flatten() {
                sink.message(sequence, &Message::Level(last));
                last = Level {
                    price: level.price,
                    size: size(level.size),
                    orders: level.orders,
                    side: side(is_bid),
                    ..empty
                };
            }
        }
        last.is_last = 1;
        sink.message(sequence, &Message::Level(last));
    }

    fn level(&self, locate: u16, source_time_ns: u64) -> Level {
        Level {
            symbol: self.config.symbol_first + u32::from(locate),
            source: self.config.source,
            source_time_ns,
            ..Level::default()
        }
    }
}

fn side(is_bid: bool) -> u8 {
    match is_bid {
        true => Level::BID,
        false => Level::ASK,
    }
}

fn size(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// The security is followed.
const FOLLOWED: u8 = 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::generator::{Generator, GeneratorConfig};
    use tidewire_feed::wire::Definition;

    /// Keeps the books that the levels describe.
    #[derive(Default)]
    struct Reader {
        levels: BTreeMap<(u32, bool, i64), (u32, u32)>,
        messages: usize,
        is_open: bool,
    }

    impl Sink for Reader {
        fn message(&mut self, _sequence: u64, message: &Message) {
            let Message::Level(level) = message else {
                return;
            };
            self.messages += 1;
            self.is_open = level.is_last == 0;
            let is_bid = level.side == Level::BID;
            match (level.action, level.size) {
                (Level::SET, 0) => {
                    self.levels.remove(&(level.symbol, is_bid, level.price));
                }
                (Level::SET, size) => {
                    let key = (level.symbol, is_bid, level.price);
                    self.levels.insert(key, (size, level.orders));
                }
                _ => self.levels.retain(|key, _| key.0 != level.symbol),
            }
        }

        fn definition(&mut self, _sequence: u64, _definition: &Definition) {}
    }

    #[test]
    fn the_levels_of_a_followed_security_are_those_of_its_book_after_every_message() {
        let day = Generator::new(GeneratorConfig {
            messages: 60_000,
            symbols: 4,
            depth: 20,
            seed: 3,
        })
        .unwrap();
        let mut books = Books::default();
        let mut reader = Reader::default();
        let mut bytes = Vec::new();
        for (number, message) in (0u64..).zip(day) {
            bytes.clear();
            message.encode(&mut bytes);
            books.apply(number, &bytes, &mut reader);
            if number == 10_000 {
                assert_eq!(reader.messages, 0, "no client has asked");
                books.follow(2, true, number, 0, &mut reader);
            }
            if number >= 10_000 && number % 97 == 0 {
                assert!(!reader.is_open, "an event has an end");
                let sides = books.book(2).expect("its messages came");
                let all = [true, false].into_iter().flat_map(|is_bid| {
                    let levels = sides.side(is_bid).iter();
                    levels.map(move |level| {
                        ((2, is_bid, level.price), (size(level.size), level.orders))
                    })
                });
                let all: BTreeMap<(u32, bool, i64), (u32, u32)> = all.collect();
                assert_eq!(reader.levels, all);
            }
        }
        assert!(reader.messages > 1_000 && books.is_followed(2));
        let before = reader.messages;
        books.follow(2, true, 1, 0, &mut reader);
        assert_eq!(reader.messages, before, "it is followed already");
        books.follow(2, false, 1, 0, &mut reader);
        assert!(reader.levels.is_empty() && !books.is_followed(2));
    }
}
