//! Plays ITCH files, and captures of MoldUDP64, into a hub.

use std::path::Path;
use std::time::{Duration, Instant};

use tidewire_feed::client::Sink;
use tidewire_feed::wire::{
    Certainty, Definition, Figures, Message, Quote, TradingStatus, UNDEFINED_PRICE,
};
use tidewire_itch::{Books, BooksConfig, Head};

use super::input::Input;
use super::link::Link;
use super::report::{Report, Rounds};
use crate::failure::Failure;
use crate::itch::{Item, Reader, day_of_item};
use crate::options::Speed;
use crate::stop::Stop;
use crate::target::Target;
use crate::units::grouped;

/// Opens an ITCH file or a capture.
pub(super) fn open(input: &mut Input) -> Result<Reader, Failure> {
    let reader = input.reader()?;
    Reader::new(input.path().display().to_string(), reader)
}

/// Plays `input` into the hub at `to`, and returns the report to print. A damaged or truncated file
/// is played as far as it is valid; the report then comes before the error.
pub(super) fn play(
    mut input: Input,
    to: &Target,
    speed: Speed,
    repeat: bool,
    stop: &Stop,
) -> Result<String, Failure> {
    let file = input.path().to_owned();
    let mut reader = open(&mut input)?;
    let mut player = ExchangePlayer {
        output: Output {
            link: Link::connect(to)?,
            failure: None,
            symbols: Vec::new(),
            is_in_doubt: false,
        },
        file: &file,
        speed,
        stop,
        books: Vec::new(),
        streams: Vec::new(),
        times_ns: None,
        start: Instant::now(),
        is_interrupted: false,
    };
    input.serve(&player.output.link);
    let mut rounds = Rounds::default();
    let fault = loop {
        let fault = player.play_once(&mut reader)?;
        input.check_link()?;
        let published = player.output.link.published();
        let of_round = rounds.published(published);
        let round = player.describe(&reader, of_round);
        let is_whole = fault.is_none() && !player.is_interrupted;
        rounds.add(round, is_whole, published);
        if !repeat || !is_whole || stop.is_asked() {
            break fault;
        }
        if of_round == 0 {
            break Some(Failure::running(super::nothing_again(&file)));
        }
        reader = open(&mut input)?;
        player.begin_again();
    };
    let end = player.output.link.finish()?;
    let report = rounds.report(end).into_text();
    super::as_far_as_valid(report, fault, end)
}

/// A function that reads one counter of the books.
type Count = fn(&Books) -> u64;

struct ExchangePlayer<'a> {
    output: Output,
    file: &'a Path,
    speed: Speed,
    stop: &'a Stop,
    /// One set of books per stream.
    books: Vec<Books>,
    /// What of each stream has been played.
    streams: Vec<Played>,
    /// Times of the first and the last message, ns since the UNIX epoch.
    times_ns: Option<(u64, u64)>,
    start: Instant,
    /// Whether a signal ended the replay before the end of the file.
    is_interrupted: bool,
}

/// What of a stream has been played.
#[derive(Clone, Copy, Default)]
struct Played {
    /// Its next sequence; 0 before the first message.
    next: u64,
    /// Whether messages are missing: its books may be wrong from then on.
    is_in_doubt: bool,
}

/// Publishes the output of the books, and keeps the first failure.
struct Output {
    link: Link,
    failure: Option<Failure>,
    /// The symbols that have been defined.
    symbols: Vec<u32>,
    /// Whether the stream that is played is in doubt.
    is_in_doubt: bool,
}

impl ExchangePlayer<'_> {
    fn begin_again(&mut self) {
        self.books.clear();
        self.streams.clear();
        self.output.symbols.clear();
        self.times_ns = None;
        self.start = Instant::now();
    }

    /// Plays the file once. Returns what is wrong with the file after the part that was played.
    fn play_once(&mut self, reader: &mut Reader) -> Result<Option<Failure>, Failure> {
        let mut failure = None;
        let read = reader.read_all(|item| match self.take(&item) {
            Ok(goes_on) => Ok(goes_on),
            Err(error) => {
                failure = Some(error);
                Ok(false)
            }
        });
        match failure {
            Some(failure) => Err(failure),
            None if read.is_err() && self.stop.is_asked() => {
                self.is_interrupted = true;
                Ok(None)
            }
            None => Ok(read.err()),
        }
    }

    fn take(&mut self, item: &Item<'_>) -> Result<bool, Failure> {
        if self.stop.is_asked() {
            self.is_interrupted = true;
            return Ok(false);
        }
        self.output.link.keep_alive()?;
        self.make_books(item);
        let books = &self.books[item.stream];
        let time_ns = match (item.time_ns, Head::read(item.message)) {
            (0, Some(head)) => books.unix_ns(head.time),
            (time_ns, _) => time_ns,
        };
        let (first_ns, _) = *self.times_ns.get_or_insert((time_ns, time_ns));
        self.times_ns = Some((first_ns, time_ns.max(first_ns)));
        if let Speed::Times(times) = self.speed {
            let after_ns = time_ns.saturating_sub(first_ns) as f64 / times;
            let due = self.start + Duration::from_nanos(after_ns as u64);
            self.output.link.serve_until(due, self.stop)?;
        }
        if let Some(stream) = item.ended {
            self.output.end(stream, time_ns);
        }
        self.look_for_loss(item);
        let Self { books, output, .. } = self;
        books[item.stream].expect(item.ahead, output);
        books[item.stream].apply(item.sequence, item.message, output);
        match output.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(true),
        }
    }

    /// Tells the hub that the books of a stream are in doubt, if messages are missing before this
    /// one.
    fn look_for_loss(&mut self, item: &Item<'_>) {
        if self.streams.len() <= item.stream {
            self.streams.resize(item.stream + 1, Played::default());
        }
        let played = &mut self.streams[item.stream];
        let is_complete = item.sequence == played.next.max(1);
        played.next = item.sequence + 1;
        if !is_complete && !std::mem::replace(&mut played.is_in_doubt, true) {
            for symbol in self.output.symbols_of(item.stream) {
                self.output.doubt(symbol);
            }
        }
        self.output.is_in_doubt = self.streams[item.stream].is_in_doubt;
    }

    fn make_books(&mut self, item: &Item<'_>) {
        while self.books.len() <= item.stream {
            self.books.push(Books::new(BooksConfig {
                midnight_unix_ns: day_of_item(self.file, item.time_ns),
                // Locate codes have 16 bits.
                symbol_first: (self.books.len() as u32) << 16,
                ..BooksConfig::default()
            }));
        }
    }

    fn describe(&self, reader: &Reader, published: u64) -> Report {
        let mut report = Report::of(self.file);
        let sum = |of: Count| grouped(self.books.iter().map(of).sum());
        report.line(
            "messages",
            format!("{} read", sum(|books| books.counters().messages())),
        );
        let unused: [(&str, Count); 4] = [
            ("malformed", |books| books.counters().malformed),
            ("of orders that are not in the book", |books| {
                books.counters().unknown_orders
            }),
            ("of orders over the limits", |books| {
                books.counters().refused_orders
            }),
            ("of orders without a side", |books| {
                books.counters().senseless_orders
            }),
        ];
        for (name, of) in unused {
            if self.books.iter().any(|books| of(books) > 0) {
                report.line("not used", format!("{} {name}", sum(of)));
            }
        }
        report.times(self.times_ns);
        if self.is_interrupted {
            report.interrupted();
        }
        report.line(
            "published",
            format!(
                "{} messages: {} quotes, {} trades, {} statuses, {} definitions, {} sessions",
                grouped(published),
                sum(|books| books.counters().quotes),
                sum(|books| books.counters().trades),
                sum(|books| books.counters().statuses),
                sum(|books| books.counters().definitions),
                sum(|books| books.counters().sessions)
            ),
        );
        report.lines(&reader.account());
        report
    }
}

impl Output {
    /// Returns the symbols of a stream.
    fn symbols_of(&self, stream: usize) -> Vec<u32> {
        let own = |symbol: &u32| (*symbol >> 16) as usize == stream;
        self.symbols.iter().copied().filter(own).collect()
    }

    /// Voids the quotes and states of a stream that has ended, as another session does live: they
    /// are stale until that one gives a value.
    fn end(&mut self, stream: usize, time_ns: u64) {
        for symbol in self.symbols_of(stream) {
            self.publish(&Message::Quote(Quote {
                symbol,
                source_time_ns: time_ns,
                bid: UNDEFINED_PRICE,
                ask: UNDEFINED_PRICE,
                ..Quote::default()
            }));
            self.publish(&Message::Status(TradingStatus {
                symbol,
                source_time_ns: time_ns,
                ..TradingStatus::default()
            }));
            self.publish(&Message::Certainty(Certainty {
                symbol,
                source_time_ns: time_ns,
                flags: Figures::STALE,
                ..Certainty::default()
            }));
        }
    }

    /// Tells the hub that a symbol's values may be wrong.
    fn doubt(&mut self, symbol: u32) {
        self.publish(&Message::Certainty(Certainty {
            symbol,
            flags: Figures::IN_DOUBT,
            ..Certainty::default()
        }));
    }

    fn publish(&mut self, message: &Message) {
        if self.failure.is_none() {
            self.failure = self.link.publish(message).err();
        }
    }
}

impl Sink for Output {
    fn message(&mut self, _: u64, message: &Message) {
        self.publish(message);
    }

    fn definition(&mut self, _: u64, definition: &Definition) {
        self.publish(&Message::Definition(*definition));
        self.symbols.push(definition.symbol);
        if self.is_in_doubt {
            self.doubt(definition.symbol);
        }
    }
}
