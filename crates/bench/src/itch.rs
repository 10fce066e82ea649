//! ITCH on one core: decoding, books, last values and the ring.

use std::hint::black_box;
use std::path::Path;

use serde::Serialize;
use tidewire_feed::client::{NullSink, Sink};
use tidewire_itch::sequenced::AHEAD;
use tidewire_itch::{Books, Frames, Generator, GeneratorConfig, Message, SystemEvent};
use tidewire_memory::HugePages;

use super::report::Spread;
use super::timing::processor_time;
use tidewire::failure::Failure;

/// The messages of a day, each after its length.
pub(super) struct Day {
    bytes: Vec<u8>,
    messages: u64,
    /// Messages until the market opens.
    before_market: usize,
}

/// How local the work of a day's books is, and the orders' fates.
#[derive(Debug, Serialize)]
pub(super) struct Hits {
    /// Share of the changes of price levels that are in the window around the best price.
    pub(super) level_hits: f64,
    /// Share of the orders that are in the cache line where their search begins.
    pub(super) order_hits: f64,
    /// Share of the orders that are cancelled or replaced rather than executed.
    pub(super) cancelled: f64,
    /// Share of the messages that change the top of a book.
    pub(super) quotes: f64,
    pub(super) orders: usize,
    pub(super) order_table_bytes: usize,
}

impl Day {
    /// Creates a million messages of `symbols` securities.
    pub(super) fn small(symbols: u16) -> Result<Self, Failure> {
        Self::generate(GeneratorConfig {
            messages: 1_000_000,
            symbols,
            ..GeneratorConfig::default()
        })
    }

    /// Creates eight million messages of 8,000 securities, with 1.6 million orders in the books
    /// when the market opens: as many as Nasdaq has at most.
    pub(super) fn large() -> Result<Self, Failure> {
        Self::generate(GeneratorConfig {
            messages: 8_000_000,
            symbols: LARGE_SYMBOLS,
            depth: 200,
            ..GeneratorConfig::default()
        })
    }

    /// Reads a day from a file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|error| Failure::running(format!("{path:?}: {error}")))?;
        let messages = Frames::new(&bytes).count() as u64;
        Ok(Self {
            bytes,
            messages,
            before_market: 0,
        })
    }

    /// Returns the processor time of the whole day in new books, ns per message.
    pub(super) fn first_time<S: Sink>(&self, mut sink: S) -> f64 {
        let mut books = Books::default();
        let start = processor_time();
        apply(&mut books, Frames::new(&self.bytes), 0, &mut sink);
        let elapsed = processor_time().saturating_sub(start);
        elapsed.as_nanos() as f64 / self.messages.max(1) as f64
    }

    fn generate(config: GeneratorConfig) -> Result<Self, Failure> {
        let generator = Generator::new(config);
        let generator = generator.map_err(|error| Failure::running(error.to_string()))?;
        let (mut bytes, mut before_market) = (Vec::new(), 0);
        for (number, message) in (1..).zip(generator) {
            let start = bytes.len();
            bytes.extend([0, 0]);
            message.encode(&mut bytes);
            let length = (bytes.len() - start - 2) as u16;
            bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
            if let Message::SystemEvent(SystemEvent { event: b'Q', .. }) = message {
                before_market = number;
            }
        }
        Ok(Self {
            bytes,
            messages: config.messages,
            before_market,
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
            let frames = Frames::new(black_box(&self.bytes));
            apply(&mut books, frames, 0, &mut sink);
            self.messages
        }
    }

    /// Returns nanoseconds per message from the opening of the market on, for each of several
    /// days. The standing orders are placed before: they are 20 % of this day, and less than 1 %
    /// of an exchange's. Also returns how local the work was.
    pub(super) fn session<S: Sink>(&self, days: usize, mut sink: S) -> (Spread, Hits) {
        let mut days_ns = Vec::new();
        let mut books = Books::default();
        let mut pages = HugePages::later();
        for day in 0..=days {
            books.clear();
            let mut frames = Frames::new(black_box(&self.bytes));
            let mut sequence = 0;
            for bytes in frames.by_ref().take(self.before_market) {
                sequence += 1;
                books.apply(sequence, bytes, &mut sink);
            }
            let start = processor_time();
            let last = apply(&mut books, frames, sequence, &mut sink);
            let elapsed = processor_time().saturating_sub(start);
            // The first day warms up.
            if day > 0 {
                days_ns.push(elapsed.as_nanos() as f64 / (last - sequence) as f64);
            } else if let Some(pages) = &mut pages {
                // As the hub does when it has stopped growing.
                (0..PAGE_TICKS).for_each(|_| pages.tick());
            }
        }
        (Spread::of(days_ns), self.hits())
    }

    /// Applies the day once more and counts.
    fn hits(&self) -> Hits {
        let mut books = Books::default();
        apply(&mut books, Frames::new(&self.bytes), 0, &mut NullSink);
        let (counters, locality) = (books.counters(), books.locality());
        let count = |kinds: &[u8]| -> u64 {
            let counts = kinds.iter().map(|&kind| counters.kinds[usize::from(kind)]);
            counts.sum()
        };
        // A replacement changes two levels.
        let level_changes = count(b"AFXDECUU");
        let (cancelled, executed) = (count(b"DU"), count(b"EC"));
        Hits {
            level_hits: 1.0 - locality.far_changes as f64 / level_changes as f64,
            order_hits: locality.orders_at_home as f64 / locality.orders as f64,
            cancelled: cancelled as f64 / (cancelled + executed) as f64,
            quotes: counters.quotes as f64 / self.messages as f64,
            orders: locality.orders,
            order_table_bytes: locality.order_table_bytes,
        }
    }
}

impl Hits {
    /// Returns the figures in a line.
    pub(super) fn text(&self) -> String {
        format!(
            "8,000 symbols: price levels in the window {:.1} %, misses {:.1} %; orders in their \
             cache line {:.1} %, misses {:.1} %; orders cancelled or replaced {:.1} %; messages \
             that change a top {:.1} %; {} orders at the end, table of {} MiB",
            100.0 * self.level_hits,
            100.0 * (1.0 - self.level_hits),
            100.0 * self.order_hits,
            100.0 * (1.0 - self.order_hits),
            100.0 * self.cancelled,
            100.0 * self.quotes,
            self.orders,
            self.order_table_bytes >> 20,
        )
    }
}

/// Applies messages as those of a packet are applied. Returns the last sequence.
fn apply<S: Sink>(books: &mut Books, mut frames: Frames<'_>, after: u64, sink: &mut S) -> u64 {
    let mut sequence = after;
    loop {
        books.expect(frames.rest(), sink);
        let before = sequence;
        for bytes in frames.by_ref().take(AHEAD) {
            sequence += 1;
            books.apply(sequence, bytes, sink);
        }
        if sequence == before {
            return sequence;
        }
    }
}

/// Securities of the large day.
pub(super) const LARGE_SYMBOLS: u16 = 8_000;

/// Ticks that collapse all memory of the large day.
const PAGE_TICKS: usize = 500;
