//! Plays a recording (`serve --record`) into a running hub.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use tidewire_feed::recording::{Block, BlockKind, Decoder, Event, Progress, Step};
use tidewire_feed::wire::{Message, Venue, VenueName};
use tidewire_market::CONSOLIDATED;

use super::input::Input;
use super::link::Link;
use super::report::{Report, Rounds};
use super::sent::{SentBooks, SentOrders};
use crate::failure::Failure;
use crate::options::Speed;
use crate::stop::Stop;
use crate::target::Target;
use crate::units::grouped;

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
    let mut player = RecordingPlayer {
        link: Link::connect(to)?,
        speed,
        stop,
        clock: Clock::default(),
        progress: Progress::default(),
        newest: HashMap::new(),
        has_named: false,
        books: SentBooks::default(),
        orders: SentOrders::default(),
        account: Account::default(),
    };
    input.serve(&player.link);
    let mut rounds = Rounds::default();
    let fault = loop {
        player.account = Account::default();
        let fault = player.play_once(&mut input)?;
        let fault = both(fault, player.account.disorder());
        let published = player.link.published();
        let of_round = rounds.published(published);
        let round = player.account.describe(&file, of_round);
        let is_whole = fault.is_none() && !player.account.is_interrupted;
        rounds.add(round, is_whole, published);
        if !repeat || !is_whole || stop.is_asked() {
            break fault.map(|fault| format!("{}: {fault}", file.display()));
        }
        if of_round == 0 {
            break Some(super::nothing_again(&file));
        }
    };
    let end = player.link.finish()?;
    let report = rounds.report(end).into_text();
    let fault = fault.map(Failure::running);
    super::as_far_as_valid(report, fault, end)
}

/// A recording that is being played into a hub.
struct RecordingPlayer<'a> {
    link: Link,
    speed: Speed,
    stop: &'a Stop,
    clock: Clock,
    progress: Progress,
    /// For each symbol, the last sequence that a snapshot included.
    newest: HashMap<u32, u64>,
    /// Whether the hub was told that the stream is that of a hub, which consolidates values.
    has_named: bool,
    books: SentBooks,
    orders: SentOrders,
    account: Account,
}

impl RecordingPlayer<'_> {
    /// Plays the file once. Returns what is wrong with the file after the part that was played.
    fn play_once(&mut self, source: &mut Input) -> Result<Option<String>, Failure> {
        let mut file = source.reader()?;
        let place = source.path().display();
        let (mut decoder, mut input) = (Decoder::new(), Vec::new());
        (self.clock, self.progress) = (Clock::default(), Progress::default());
        loop {
            let mut rest = &input[..];
            loop {
                let fault = match decoder.decode(&mut rest) {
                    Ok(Event::NeedMore(_)) => break,
                    Ok(Event::File { .. }) => None,
                    Ok(Event::Block(block)) => self.block(&block)?,
                    Err(error) => Some(error.to_string()),
                };
                if let Some(fault) = fault {
                    return Ok(Some(said(&fault, decoder.position())));
                }
                if self.stop.is_asked() {
                    self.account.is_interrupted = true;
                    return Ok(None);
                }
            }
            let used = input.len() - rest.len();
            input.drain(..used);
            let chunk = Read::by_ref(&mut file)
                .take(READ_BYTES)
                .read_to_end(&mut input);
            if chunk.is_err() && self.stop.is_asked() {
                self.account.is_interrupted = true;
                return Ok(None);
            }
            source.check_link()?;
            let failed = |error| Failure::usage(format!("cannot read {place}: {error}"));
            if chunk.map_err(failed)? == 0 {
                let ended = decoder.finish(&input);
                return Ok(ended
                    .err()
                    .map(|error| said(&error.to_string(), decoder.position())));
            }
        }
    }

    fn block(&mut self, block: &Block<'_>) -> Result<Option<String>, Failure> {
        self.account.blocks += 1;
        let entry = self.progress.enter(block);
        if entry.is_misplaced {
            self.account.misplaced_blocks += 1;
            self.account.misplaced += block.messages().count() as u64;
            return Ok(None);
        }
        if entry.is_new_run {
            self.account.sessions += 1;
            self.newest.clear();
            self.end_books()?;
            self.end_orders()?;
            // Nothing was recorded in between, so that time is skipped.
            self.clock.skip_to(block.recorded_ns);
        }
        if let Some(range) = entry.lost {
            self.lose(range)?;
        }
        if let Some((from, until)) = entry.gap {
            self.account.gaps += 1;
            self.account.missing += until - from;
            self.end_books()?;
        }
        match block.kind {
            BlockKind::Stream => return self.stream(block),
            BlockKind::Snapshot => return self.snapshot(block),
            BlockKind::End => self.account.ends += 1,
            _ => {}
        }
        Ok(None)
    }

    /// Notes that the sequences of this range are missing without a gap block.
    #[cold]
    fn lose(&mut self, (from, until): (u64, u64)) -> Result<(), Failure> {
        debug_assert!(from < until, "a range has a length");
        self.account.lost_places += 1;
        self.account.lost += until - from;
        self.end_books()
    }

    fn stream(&mut self, block: &Block<'_>) -> Result<Option<String>, Failure> {
        let count = block.messages().count() as u64;
        let (mut span, misplaced) = (None, self.account.misplaced);
        for (number, message) in block.messages().enumerate() {
            let (sequence, message) = match message {
                Ok(pair) => pair,
                Err(error) => return Ok(Some(error.to_string())),
            };
            if self.stop.is_asked() {
                return Ok(None);
            }
            self.link.keep_alive()?;
            match self.progress.take(sequence, message.sequence_count()) {
                Step::Next => {}
                Step::Behind(from, until) => self.lose((from, until))?,
                Step::Again => {
                    self.account.misplaced += 1;
                    continue;
                }
            }
            // The time of a block that is out of order is not the next.
            let span = *span.get_or_insert_with(|| self.clock.span(block.recorded_ns));
            self.account.note_time(block.recorded_ns);
            if let Some(due) = span.due(number as u64, count, self.speed) {
                self.link.serve_until(due, self.stop)?;
            }
            self.account.note_sequence(sequence);
            let symbol = message.symbol().unwrap_or(u32::MAX);
            let is_old = self
                .newest
                .get(&symbol)
                .is_some_and(|&newest| sequence <= newest);
            if is_old && is_in_value(&message) {
                self.account.known += 1;
                continue;
            }
            self.publish(&message)?;
        }
        self.account.misplaced_blocks += u64::from(self.account.misplaced > misplaced);
        Ok(None)
    }

    fn snapshot(&mut self, block: &Block<'_>) -> Result<Option<String>, Failure> {
        let misplaced = self.account.misplaced;
        for message in block.messages() {
            let (_, message) = match message {
                Ok(pair) => pair,
                Err(error) => return Ok(Some(error.to_string())),
            };
            if let Message::LastValue(value) = &message {
                if self.progress.is_old_value(value.sequence) {
                    self.account.misplaced += 1;
                    continue;
                }
                self.newest.insert(value.symbol, value.sequence);
            }
            self.account.snapshot += 1;
            self.publish(&message)?;
        }
        self.account.misplaced_blocks += u64::from(self.account.misplaced > misplaced);
        Ok(None)
    }

    /// Ends the books: levels are missing. Each is known again from its next clear on.
    fn end_books(&mut self) -> Result<(), Failure> {
        let ends = self.books.take_ends();
        ends.iter().try_for_each(|end| self.link.publish(end))
    }

    /// Clears the orders of the run of the hub that has ended.
    fn end_orders(&mut self) -> Result<(), Failure> {
        for part in self.orders.take_clears() {
            self.link.publish(&Message::Record(part))?;
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message) -> Result<(), Failure> {
        self.books.note(message);
        self.orders.note(message);
        if !self.has_named {
            self.has_named = true;
            self.link.publish(&consolidated())?;
        }
        match message {
            // Other messages are not part of a stream.
            Message::Trade(_)
            | Message::Quote(_)
            | Message::Definition(_)
            | Message::Status(_)
            | Message::Venue(_)
            | Message::Level(_)
            | Message::Certainty(_)
            | Message::SessionStart(_)
            | Message::Record(_)
            | Message::LastValue(_) => self.link.publish(message),
            _ => {
                self.account.unknown += 1;
                Ok(())
            }
        }
    }
}

/// Returns the name of the number of consolidated values. A hub gives it at each login, so the
/// stream does not have it. It says that a symbol has one value, of one venue or of all, also where
/// that is another venue than before: the replay has the bars of a hub behind the recorded one.
fn consolidated() -> Message {
    Message::Venue(Venue {
        source: CONSOLIDATED,
        source_time_ns: 0,
        name: VenueName::truncated("consolidated"),
    })
}

/// Returns whether a symbol's value of a snapshot, if it is newer, includes a message. It does not
/// have levels, records and definitions.
fn is_in_value(message: &Message) -> bool {
    !matches!(
        message,
        Message::Definition(_) | Message::Level(_) | Message::Record(_)
    )
}

/// Returns what is wrong with the file's end, and before it.
fn both(end: Option<String>, disorder: Option<String>) -> Option<String> {
    match (end, disorder) {
        (Some(end), Some(disorder)) => Some(format!("{end}; {disorder}")),
        (one, other) => one.or(other),
    }
}

fn said(fault: &str, position: u64) -> String {
    let position = grouped(position);
    format!("{fault}; the {position} bytes before it were played")
}

/// Converts the recorder's clock to this machine's.
#[derive(Debug, Default)]
struct Clock {
    /// When playing began, and the recorded time at that moment.
    begin: Option<(Instant, u64)>,
    /// Recorded time of the last block, ns since the UNIX epoch.
    latest_ns: u64,
}

/// The time in which the messages of a block arrived.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin: Instant,
    /// Nanoseconds after `begin`, at the recorder's speed.
    from_ns: u64,
    until_ns: u64,
}

impl Clock {
    fn skip_to(&mut self, recorded_ns: u64) {
        if let Some((_, epoch_ns)) = &mut self.begin {
            *epoch_ns = epoch_ns.saturating_add(recorded_ns.saturating_sub(self.latest_ns));
        }
        self.latest_ns = recorded_ns;
    }

    fn span(&mut self, recorded_ns: u64) -> Span {
        let (begin, epoch_ns) = *self
            .begin
            .get_or_insert_with(|| (Instant::now(), recorded_ns));
        // A recorder writes every few milliseconds, so an earlier message would be in an earlier
        // block.
        let latest_ns = self
            .latest_ns
            .max(recorded_ns.saturating_sub(SPREAD_NS_MAX));
        self.latest_ns = recorded_ns;
        Span {
            begin,
            from_ns: latest_ns.saturating_sub(epoch_ns),
            until_ns: recorded_ns.saturating_sub(epoch_ns),
        }
    }
}

impl Span {
    /// Returns when message `number` of `count` is due; `None` for immediately.
    fn due(&self, number: u64, count: u64, speed: Speed) -> Option<Instant> {
        let Speed::Times(times) = speed else {
            return None;
        };
        let width_ns = self.until_ns.saturating_sub(self.from_ns) as f64;
        let share = (number + 1) as f64 / count.max(1) as f64;
        let elapsed_ns = (self.from_ns as f64 + width_ns * share) / times;
        Some(self.begin + Duration::from_nanos(elapsed_ns as u64))
    }
}

/// Counts of what the file contains.
#[derive(Debug, Default)]
struct Account {
    blocks: u64,
    sessions: u64,
    ends: u64,
    /// Gap blocks, and the messages that they say are missing.
    gaps: u64,
    missing: u64,
    /// Places at which messages are missing without a gap block, and those messages.
    lost_places: u64,
    lost: u64,
    /// Blocks that are twice in the file or out of order, and their messages that were not played.
    misplaced_blocks: u64,
    misplaced: u64,
    /// Messages of the stream.
    messages: u64,
    first_sequence: u64,
    last_sequence: u64,
    /// Messages that the preceding snapshot already included.
    known: u64,
    snapshot: u64,
    unknown: u64,
    times_ns: Option<(u64, u64)>,
    /// Whether a signal ended the replay before the end of the file.
    is_interrupted: bool,
}

impl Account {
    fn note_sequence(&mut self, sequence: u64) {
        if self.messages == 0 {
            self.first_sequence = sequence;
        }
        self.messages += 1;
        self.last_sequence = sequence;
    }

    fn note_time(&mut self, recorded_ns: u64) {
        let (first_ns, _) = self.times_ns.unwrap_or((recorded_ns, 0));
        self.times_ns = Some((first_ns, recorded_ns));
    }

    /// Returns what is wrong with the order of the blocks.
    fn disorder(&self) -> Option<String> {
        let lost = (self.lost_places > 0).then(|| {
            let (lost, places) = (grouped(self.lost), self.lost_places);
            format!("blocks are missing: {lost} messages in {places} places")
        });
        let misplaced = (self.misplaced_blocks > 0).then(|| {
            let (messages, blocks) = (grouped(self.misplaced), self.misplaced_blocks);
            format!(
                "{blocks} blocks are doubled or out of order: their {messages} messages were not \
                 played"
            )
        });
        let text = both(lost, misplaced)?;
        Some(format!("damaged: {text}"))
    }

    fn describe(&self, file: &Path, published: u64) -> Report {
        let mut report = Report::of(file);
        let (messages, sessions) = (grouped(self.messages), self.sessions);
        let mut range = format!(
            "{messages} messages, sequences {} to {}",
            grouped(self.first_sequence),
            grouped(self.last_sequence)
        );
        if sessions > 1 {
            range.push_str(&format!(", of {sessions} runs of the hub"));
        }
        report.line("recorded", range);
        let missing = grouped(self.missing.saturating_add(self.lost));
        let mut missing = format!(
            "{missing} messages in {} gaps",
            self.gaps + self.lost_places
        );
        if self.lost_places > 0 {
            let (lost, places) = (grouped(self.lost), self.lost_places);
            missing.push_str(&format!("; {lost} in {places} of them without a gap block"));
        }
        report.line("missing", missing);
        if self.snapshot > 0 {
            let known = grouped(self.known);
            let records = grouped(self.snapshot);
            report.line(
                "snapshots",
                format!("{records} records; {known} messages of the stream were included in them"),
            );
        }
        if self.misplaced_blocks > 0 {
            let (messages, blocks) = (grouped(self.misplaced), self.misplaced_blocks);
            report.line(
                "not played",
                format!("{messages} messages in {blocks} blocks that are doubled or out of order"),
            );
        }
        if self.unknown > 0 {
            report.line(
                "not played",
                format!("{} of unknown type", grouped(self.unknown)),
            );
        }
        report.times(self.times_ns);
        let is_clean = self.sessions > 0 && self.ends == self.sessions;
        match (self.is_interrupted, is_clean) {
            (true, _) => report.interrupted(),
            (false, true) => report.line("ends", "cleanly".to_owned()),
            (false, false) => {
                let text = "without an end mark: the hub was killed, or is still recording";
                report.line("ends", text.to_owned());
            }
        }
        report.line("published", format!("{} messages", grouped(published)));
        report
    }
}

const READ_BYTES: u64 = 1 << 20;
const SPREAD_NS_MAX: u64 = 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{Level, Quote, RecordPart, SessionStart};

    /// Levels and records between a snapshot's beginning and its values were left out.
    #[test]
    fn a_value_of_a_snapshot_has_no_levels_and_records() {
        let part = RecordPart::split(1, 2, 3, &[0; 8]).next().expect("a part");
        assert!(!is_in_value(&Message::Level(Level::default())));
        assert!(!is_in_value(&Message::Record(part)));
        assert!(is_in_value(&Message::Quote(Quote::default())));
        assert!(is_in_value(&Message::SessionStart(SessionStart::default())));
    }

    #[test]
    fn messages_are_played_at_the_recorders_pace_without_the_time_it_was_off() {
        let mut clock = Clock::default();
        clock.skip_to(1_000);
        let first = clock.span(2_000_000);
        let begin = first.begin;
        let at = |span: Span, number, times| {
            let due = span.due(number, 2, Speed::Times(times)).unwrap();
            due.duration_since(begin).as_nanos() as u64
        };
        assert_eq!(at(first, 1, 1.0), 0, "the first block is played at once");
        let second = clock.span(6_000_000);
        assert_eq!(
            (at(second, 0, 1.0), at(second, 1, 1.0)),
            (2_000_000, 4_000_000)
        );
        assert_eq!(at(second, 1, 10.0), 400_000);
        clock.skip_to(3_600_000_000_000);
        let third = clock.span(3_600_001_000_000);
        assert_eq!(at(third, 1, 1.0), 5_000_000, "an hour's pause is left out");
        assert!(third.due(0, 1, Speed::Max).is_none());
    }
}
