//! ITCH on one core: decoding, books, last values and the ring.

use std::hint::black_box;

use tidewire_feed::client::Sink;
use tidewire_itch::sequenced::AHEAD;
use tidewire_itch::{Books, Frames, Generator, GeneratorConfig, Message};

use tidewire::failure::Failure;

/// The messages of a day, each after its length.
pub(super) struct Day {
    bytes: Vec<u8>,
    messages: u64,
}

impl Day {
    /// Creates a day of `symbols` securities; the busiest have most of the orders.
    pub(super) fn generate(symbols: u16) -> Result<Self, Failure> {
        let config = GeneratorConfig {
            messages: MESSAGES,
            symbols,
            ..GeneratorConfig::default()
        };
        let generator = Generator::new(config);
        let generator = generator.map_err(|error| Failure::running(error.to_string()))?;
        let mut bytes = Vec::new();
        for message in generator {
            let start = bytes.len();
            bytes.extend([0, 0]);
            message.encode(&mut bytes);
            let length = (bytes.len() - start - 2) as u16;
            bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
        }
        Ok(Self {
            bytes,
            messages: MESSAGES,
        })
    }

    /// Decodes every message.
    pub(super) fn decoding(&self) -> impl FnMut() -> u64 {
        move || {
            for bytes in Frames::new(black_box(&self.bytes)) {
                let _ = black_box(Message::decode(bytes));
            }
            self.messages
        }
    }

    /// Decodes every message and gives the books' output to `sink`. The books keep their capacity
    /// from day to day.
    pub(super) fn applying<S: Sink>(&self, sink: S) -> impl FnMut() -> u64 {
        self.applying_to(Books::default(), sink)
    }

    /// Does the same, and gives `sink` the price levels of the first `symbols` securities too.
    pub(super) fn applying_levels<S: Sink>(
        &self,
        symbols: u16,
        mut sink: S,
    ) -> impl FnMut() -> u64 {
        let mut books = Books::default();
        for locate in 1..=symbols {
            books.follow(locate, true, 0, 0, &mut sink);
        }
        self.applying_to(books, sink)
    }

    fn applying_to<S: Sink>(&self, mut books: Books, mut sink: S) -> impl FnMut() -> u64 {
        move || {
            let mut frames = Frames::new(black_box(&self.bytes));
            let mut sequence = 0;
            // As a packet's messages are followed.
            loop {
                books.expect(frames.rest(), &sink);
                let before = sequence;
                for bytes in frames.by_ref().take(AHEAD) {
                    sequence += 1;
                    books.apply(sequence, bytes, &mut sink);
                }
                if sequence == before {
                    break;
                }
            }
            self.messages
        }
    }
}

const MESSAGES: u64 = 1_000_000;
