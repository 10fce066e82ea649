//! The thread that reads a recording for a replay.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use tidewire_feed::recording::{Block, BlockKind, Decoder, Event, Progress, Step};
use tidewire_feed::wire::{Definition, Message};
use tidewire_retry::Seldom;
use tracing::warn;

use super::super::stream::{is_definition, time_ns};
use super::super::untimed::{BEHIND_MAX, event_ns, is_untimed, set_time};
use super::carried::{Carried, Later};
use super::names::{Number, number_of};
use super::{FromBefore, Part, Told};
use crate::market::Market;

/// The state of the reader's thread.
pub(super) struct Reader {
    market: Arc<Market>,
    /// Session of this run of the hub.
    session: u32,
    start_ns: u64,
    from_before: FromBefore,
    /// Whether the newest record is a definition.
    is_definition: bool,
    /// The next sequence of this run.
    next: u64,
    parts: SyncSender<Part>,
    batch: Vec<Told>,
    /// The state up to the start of the replay, and that of topics of venues which are none in
    /// this run.
    carried: Carried,
    carried_of_venues: Carried,
    /// Whether a message as late as the start has been read. What is behind it belongs to the
    /// replay, also if it is of an earlier time: the state of then includes it.
    has_started: bool,
    /// The run of the hub that the current blocks belong to.
    run: u32,
    progress: Progress,
    /// The sequence at which the stream goes on behind a begin or a gap of this run.
    goes_on_at: u64,
    /// Values of a snapshot that hold later.
    later: Later,
    /// A value without a time, and the messages behind it up to the event that has its time.
    held: Vec<Told>,
    /// Ranges of sequences that are missing before the start, unless an event behind them is of
    /// before it, too.
    missing: Vec<(u64, u64)>,
    /// By symbol number of an earlier run: the topic of this run with the same name, if any.
    numbers: HashMap<u32, Option<Number>>,
    /// By topic number: the venue of an earlier run whose values it has.
    venues: HashMap<u32, Box<str>>,
    /// The symbols that are left out, at most [`LEFT_OUT_MAX`].
    left_out: HashSet<Box<str>>,
}

impl Reader {
    /// Creates a reader that sends what it reads to `parts`.
    pub(super) fn new(
        market: Arc<Market>,
        start_ns: u64,
        from_before: FromBefore,
        parts: SyncSender<Part>,
    ) -> Self {
        let session = market.journal.lock().session();
        Self {
            market,
            session,
            start_ns,
            from_before,
            is_definition: false,
            next: 1,
            parts,
            batch: Vec::new(),
            carried: Carried::default(),
            carried_of_venues: Carried::default(),
            has_started: false,
            run: 0,
            progress: Progress::default(),
            goes_on_at: 0,
            later: Later::default(),
            held: Vec::new(),
            missing: Vec::new(),
            numbers: HashMap::new(),
            venues: HashMap::new(),
            left_out: HashSet::new(),
        }
    }

    /// Reads until the journal has the next message. Returns `None` if no client waits.
    pub(super) fn run(mut self, mut file: File) -> Option<()> {
        let (mut decoder, mut input) = (Decoder::new(), Vec::new());
        let mut grown = Instant::now();
        loop {
            let mut rest = &input[..];
            let whole = loop {
                match decoder.decode(&mut rest) {
                    Ok(Event::NeedMore(_)) => break true,
                    Ok(Event::Block(block)) => self.block(&block)?,
                    Ok(_) => {}
                    Err(error) => {
                        warn!(%error, "a replay from the recording ends early");
                        break false;
                    }
                }
            };
            debug_assert!(rest.len() <= input.len(), "a decoder takes from the front");
            let used = input.len() - rest.len();
            input.drain(..used);
            let before = input.len();
            let read = (&mut file).take(READ_BYTES).read_to_end(&mut input);
            if whole && read.is_ok() && input.len() > before {
                grown = Instant::now();
                continue;
            }
            // The recorder may be slightly behind the journal.
            let is_over = !whole || read.is_err() || grown.elapsed() > PATIENCE;
            if self.ends(is_over)? {
                return Some(());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Returns whether the journal continues where the recording ends.
    fn ends(&mut self, is_over: bool) -> Option<bool> {
        let oldest = self.market.journal.lock().oldest_sequence();
        if self.next < oldest && !is_over {
            return Some(false);
        }
        match self.held.first() {
            // The journal has them, and what is behind them.
            Some(first) if first.is_of_this_run && first.sequence >= oldest => {
                self.next = first.sequence;
                self.held.clear();
            }
            _ => self.release_held(0)?,
        }
        if self.run == self.session {
            self.release(self.next)?;
        }
        self.begin()?;
        self.flush()?;
        debug_assert!(
            self.batch.is_empty(),
            "the journal follows the last message"
        );
        if !self.left_out.is_empty() {
            self.send(Part::LeftOut(self.left_out.len()))?;
        }
        if self.next < oldest {
            self.send(Part::Gap(self.next, oldest))?;
        }
        self.send(Part::Journal(self.next.max(oldest)))?;
        Some(true)
    }

    fn block(&mut self, block: &Block<'_>) -> Option<()> {
        let is_of_this_run = block.session == self.session;
        let entry = self.progress.enter(block);
        if entry.is_misplaced {
            self.warn_disorder("a block is doubled or out of order");
            return Some(());
        }
        if entry.is_new_run || block.kind != BlockKind::Stream {
            self.release_held(0)?;
        }
        if entry.is_new_run {
            (self.run, self.goes_on_at) = (block.session, 0);
            self.later.clear();
            self.numbers.clear();
        }
        if let Some((from, until)) = entry.lost {
            self.lose(from, until)?;
        }
        match block.kind {
            BlockKind::Gap => {
                let (_, until) = block.numbers();
                self.go_on_at(until, is_of_this_run);
                entry
                    .gap
                    .map_or(Some(()), |(from, until)| self.miss(from, until))
            }
            BlockKind::Begin => {
                let (first, _) = block.numbers();
                self.go_on_at(first, is_of_this_run);
                match first > 1 {
                    true => self.miss(1, first),
                    false => Some(()),
                }
            }
            BlockKind::Stream => self.stream(block, is_of_this_run),
            BlockKind::Snapshot => {
                for told in block.messages() {
                    let Ok((_, message)) = told else { break };
                    self.take_of_snapshot(message, is_of_this_run)?;
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    fn stream(&mut self, block: &Block<'_>, is_of_this_run: bool) -> Option<()> {
        for told in block.messages() {
            // The checksum was right, so an invalid message is the recorder's fault.
            let Ok((sequence, message)) = told else { break };
            match self.progress.take(sequence, message.sequence_count()) {
                Step::Next => {}
                Step::Behind(from, until) => self.lose(from, until)?,
                Step::Again => {
                    self.warn_disorder("a block is doubled or out of order");
                    continue;
                }
            }
            self.take(sequence, message, is_of_this_run)?;
        }
        Some(())
    }

    /// Handles a block that is missing in the file, with the sequences from `from` to before
    /// `until`.
    #[cold]
    fn lose(&mut self, from: u64, until: u64) -> Option<()> {
        debug_assert!(from < until, "a range has a length");
        self.warn_disorder("blocks are missing");
        self.release_held(0)?;
        self.miss(from, until)
    }

    /// Warns that the file is not what a recorder writes.
    #[cold]
    fn warn_disorder(&self, reason: &str) {
        if let Some(left_out) = DISORDER.note_now() {
            let path = self.market.recording.path.get().map(|path| path.display());
            let path = path.map(tracing::field::display);
            let run = self.run;
            warn!(
                path,
                run, reason, left_out, "the recording is damaged; replay it to see what"
            );
        }
    }

    /// Notes that the sequences from `from` to before `until` are missing.
    fn miss(&mut self, from: u64, until: u64) -> Option<()> {
        // What is missing before the start changes no record, except those of levels.
        if !self.has_started && !self.from_before.levels {
            self.missing.push((from, until));
            return Some(());
        }
        self.flush()?;
        self.send(Part::Gap(from, until))
    }

    /// Notes that the stream goes on at this sequence.
    fn go_on_at(&mut self, sequence: u64, is_of_this_run: bool) {
        self.goes_on_at = sequence;
        self.later.clear();
        if is_of_this_run {
            self.next = self.next.max(sequence);
        }
    }

    /// Takes a message of the stream.
    fn take(&mut self, sequence: u64, message: Message, is_of_this_run: bool) -> Option<()> {
        if is_of_this_run {
            self.next = self.next.max(sequence.saturating_add(1));
        }
        let Some((message, topic)) = self.of_this_hub(message, is_of_this_run) else {
            return self.release(sequence);
        };
        let told = Told {
            sequence,
            is_of_this_run,
            run: self.run,
            is_state: false,
            is_of_venue: topic.is_of_venue,
            repeats: topic.repeats,
            message,
        };
        if self.held.is_empty() && !is_untimed(&message) {
            return self.take_told(told);
        }
        self.held.push(told);
        match event_ns(&message) {
            None if self.held.len() <= BEHIND_MAX => Some(()),
            time_ns => self.release_held(time_ns.unwrap_or(0)),
        }
    }

    /// Takes the messages that were held back, and gives those without a time this one.
    fn release_held(&mut self, time_ns: u64) -> Option<()> {
        for mut told in std::mem::take(&mut self.held) {
            set_time(&mut told.message, time_ns);
            self.take_told(told)?;
        }
        Some(())
    }

    fn take_told(&mut self, told: Told) -> Option<()> {
        self.release(told.sequence)?;
        let message = told.message;
        self.note_kind(&message);
        if !self.has_started && time_ns(&message) < self.start_ns {
            if event_ns(&message).is_some() {
                self.missing.clear();
            }
            return self.take_before_start(told);
        }
        self.begin()?;
        self.push(told)
    }

    fn take_before_start(&mut self, told: Told) -> Option<()> {
        let is_pushed = match &told.message {
            // The client's book begins with them.
            Message::Level(_) => self.from_before.levels,
            Message::Record(_) => self.from_before.definitions && self.is_definition,
            Message::Definition(definition) => {
                self.split(definition);
                self.from_before.definitions
            }
            _ => return self.take_state(told.sequence, told.message, told.is_of_venue),
        };
        match is_pushed {
            true => self.push(told),
            false => Some(()),
        }
    }

    /// Takes a message of a snapshot. What it has was sent before or is lost, so it is not sent as
    /// new.
    fn take_of_snapshot(&mut self, message: Message, is_of_this_run: bool) -> Option<()> {
        let Some((message, topic)) = self.of_this_hub(message, is_of_this_run) else {
            return Some(());
        };
        let is_of_venue = topic.is_of_venue;
        self.note_kind(&message);
        match &message {
            Message::Definition(definition) if !self.has_started => self.split(definition),
            Message::Record(_)
                if self.from_before.definitions
                    && self.is_definition
                    && time_ns(&message) < self.start_ns =>
            {
                return self.push(Told {
                    sequence: 0,
                    is_of_this_run,
                    run: self.run,
                    is_state: false,
                    is_of_venue,
                    repeats: topic.repeats,
                    message,
                });
            }
            // Its snapshot is out of order, or the gap block before it is missing.
            Message::LastValue(value) if self.progress.is_old_value(value.sequence) => {}
            // The hub was ahead of the recorder.
            Message::LastValue(value) if value.sequence >= self.goes_on_at => {
                self.later.add(*value, is_of_venue);
            }
            Message::LastValue(value) => {
                if !self.missing.is_empty() && value.source_time_ns >= self.start_ns {
                    // The message that changed it is missing.
                    self.begin()?;
                }
                return self.take_state(value.sequence, message, is_of_venue);
            }
            _ => {}
        }
        Some(())
    }

    /// Takes the values of a snapshot that hold before this message of the stream.
    fn release(&mut self, sequence: u64) -> Option<()> {
        while let Some((value, is_of_venue)) = self.later.take_before(sequence) {
            let message = Message::LastValue(value);
            self.take_state(value.sequence, message, is_of_venue)?;
        }
        Some(())
    }

    /// Takes the state of a topic.
    fn take_state(&mut self, sequence: u64, message: Message, is_of_venue: bool) -> Option<()> {
        if !self.has_started {
            let carried = match is_of_venue {
                true => &mut self.carried_of_venues,
                false => &mut self.carried,
            };
            carried.note(self.run, sequence, &message);
            return Some(());
        }
        self.push_state((self.run, sequence), message, is_of_venue)
    }

    fn push_state(
        &mut self,
        (run, sequence): (u32, u64),
        message: Message,
        is_of_venue: bool,
    ) -> Option<()> {
        self.push(Told {
            sequence,
            is_of_this_run: false,
            run,
            is_state: true,
            is_of_venue,
            repeats: false,
            message,
        })
    }

    /// Continues the last trade of a symbol at the topic of its first venue, if this is its
    /// definition.
    fn split(&mut self, definition: &Definition) {
        let topic = self.market.board.topic(definition.symbol);
        if let Some(parent) = topic.as_ref().and_then(|topic| topic.parent()) {
            let numbers = (parent.number, definition.symbol);
            self.carried.split(numbers, definition.source);
        }
    }

    /// Notes whether a record is a definition, at its first part.
    fn note_kind(&mut self, message: &Message) {
        if let Message::Record(part) = message
            && part.offset() == 0
        {
            self.is_definition = is_definition(part);
        }
    }

    fn push(&mut self, told: Told) -> Option<()> {
        self.batch.push(told);
        match self.batch.len() >= BATCH_MESSAGES {
            true => self.flush(),
            false => Some(()),
        }
    }

    /// Sends what is missing at the start, and the state there, before the first message of the
    /// replay.
    fn begin(&mut self) -> Option<()> {
        if std::mem::replace(&mut self.has_started, true) {
            return Some(());
        }
        if !self.missing.is_empty() {
            self.flush()?;
        }
        for (from, until) in std::mem::take(&mut self.missing) {
            self.send(Part::Gap(from, until))?;
        }
        for (run, sequence, message) in self.carried.drain() {
            self.push_state((run, sequence), message, false)?;
        }
        for (run, sequence, message) in self.carried_of_venues.drain() {
            self.push_state((run, sequence), message, true)?;
        }
        Some(())
    }

    /// Returns the message with this hub's topic number, and what that topic was in the message's
    /// run; `None` if the hub does not have the topic.
    fn of_this_hub(
        &mut self,
        mut message: Message,
        is_of_this_run: bool,
    ) -> Option<(Message, Number)> {
        if is_of_this_run {
            let topic = Number {
                number: message.symbol().unwrap_or(u32::MAX),
                is_of_venue: false,
                repeats: false,
            };
            return Some((message, topic));
        }
        let mut is_definition = false;
        if let Message::Definition(definition) = &message {
            is_definition = true;
            let number = number_of(&self.market, definition, &mut self.venues);
            if number.is_none() && self.left_out.len() < LEFT_OUT_MAX {
                self.left_out.insert(definition.name.as_str().into());
            }
            self.numbers.insert(definition.symbol, number);
        }
        let known = self.numbers.get(&message.symbol()?).copied()??;
        message.set_symbol(known.number);
        // It does not define the topic that has the venue's values now.
        let is_other = is_definition && known.is_of_venue;
        (!is_other).then_some((message, known))
    }

    fn flush(&mut self) -> Option<()> {
        if self.batch.is_empty() {
            return Some(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.send(Part::Messages(batch))
    }

    /// Waits while the lane has enough. Returns `None` if the replay is over.
    fn send(&self, part: Part) -> Option<()> {
        self.parts.send(part).ok()?;
        self.market.databento.parts.fetch_add(1, Ordering::Release);
        self.market.tell_all_feed_lanes();
        Some(())
    }
}

/// Limits the log lines about damage, as each client that asks for the past reads the file.
static DISORDER: Seldom = Seldom::new(3, 10);
/// Messages in a part, which is some tens of kilobytes.
const BATCH_MESSAGES: usize = 512;
/// Maximum symbols that are counted as left out.
const LEFT_OUT_MAX: usize = 65_536;
/// Bytes read from the file at a time.
const READ_BYTES: u64 = 256 * 1024;
/// Interval at which the end of the file is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How long to wait for a recorder that writes nothing.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use tidewire_feed::recording::{begin_block, end_block, write_file_header, write_numbers};
    use tidewire_feed::wire::{
        Flags, LastValue, Name, PACKET_LENGTH_MAX, PacketWriter, Quote, Trade,
    };

    use super::super::{Next, Past};
    use super::*;
    use crate::ingest::Ingest;
    use crate::market::MarketConfig;
    use tidewire_feed::client::Sink;

    /// Appends a block with messages from the sequence `first` on.
    fn block(file: &mut Vec<u8>, kind: BlockKind, first: u64, messages: &[Message]) {
        let start = begin_block(file);
        let mut writer = PacketWriter::new(file, RUN, Flags::NONE, first, PACKET_LENGTH_MAX);
        messages.iter().for_each(|message| writer.push(message));
        writer.finish();
        end_block(kind, RUN, 1, start, file);
    }

    fn quote(source_time_ns: u64, bid: i64) -> Message {
        Message::Quote(Quote {
            source_time_ns,
            bid,
            ..Quote::default()
        })
    }

    fn trade(source_time_ns: u64) -> Message {
        Message::Trade(Trade {
            source_time_ns,
            price: 6,
            ..Trade::default()
        })
    }

    fn value(sequence: u64, bid: i64) -> Message {
        Message::LastValue(LastValue {
            sequence,
            source_time_ns: 1,
            bid,
            last: 6,
            ..LastValue::new(0)
        })
    }

    /// Returns a market with one symbol, its definition, and the begin of a recording's file.
    fn begun() -> (Arc<Market>, Definition, Vec<u8>) {
        let definition = Definition::new(0, Name::new("A").unwrap());
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        let mut batch = ingest.begin(1);
        batch.definition(1, &definition);
        batch.finish();
        let mut file = Vec::new();
        write_file_header(1, &mut file);
        write_numbers(BlockKind::Begin, RUN, 1, &[1], &mut file);
        (market, definition, file)
    }

    /// Returns what a replay gives of a recording with a gap, behind which is this snapshot, and
    /// trades with the times 4, 5 and 6 as messages 10, 11 and 12.
    fn replayed(name: &str, start_ns: u64, snapshot: &[Message]) -> Vec<(bool, u64, i64)> {
        let (market, definition, mut file) = begun();
        let before = [Message::Definition(definition), quote(2, 10), quote(3, 11)];
        block(&mut file, BlockKind::Stream, 1, &before);
        write_numbers(BlockKind::Gap, RUN, 1, &[4, 10], &mut file);
        let defined = [&[before[0]], snapshot].concat();
        block(&mut file, BlockKind::Snapshot, 0, &defined);
        block(&mut file, BlockKind::Stream, 10, &[4, 5, 6].map(trade));
        told(name, &market, start_ns, &file)
    }

    /// Returns what a replay from `start_ns` on gives of a recording: whether it is state, the time
    /// and the price; for a gap the first sequence and one past the last.
    fn told(name: &str, market: &Arc<Market>, start_ns: u64, file: &[u8]) -> Vec<(bool, u64, i64)> {
        let path = std::env::temp_dir();
        let path = path.join(format!("tidewire-past-{name}-{}.rec", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let mut past = Past::open(market, path.clone(), start_ns, FromBefore::default()).unwrap();
        let mut told = Vec::new();
        loop {
            match past.next(market) {
                Next::Message(one) => told.push(match one.message {
                    Message::Quote(quote) => (one.is_state, quote.source_time_ns, quote.bid),
                    Message::Trade(trade) => (one.is_state, trade.source_time_ns, trade.price),
                    Message::LastValue(value) => (one.is_state, 0, value.bid),
                    _ => continue,
                }),
                Next::Gap(from, until) => told.push((false, from, until as i64)),
                Next::Nothing => std::thread::sleep(LOOK_INTERVAL),
                Next::LeftOut(count) => panic!("{count} symbols are left out"),
                Next::Journal(_) => break,
            }
        }
        std::fs::remove_file(path).unwrap();
        told
    }

    /// The quote of before the gap was that of the trades behind it.
    #[test]
    fn a_snapshot_behind_a_gap_gives_the_state_that_was_lost() {
        let snapshot = [value(9, 20)];
        let told = replayed("early", 3, &snapshot);
        let trades = [(false, 4, 6), (false, 5, 6), (false, 6, 6)];
        let expected = [(true, 2, 10), (false, 3, 11), (false, 4, 10), (true, 0, 20)];
        assert_eq!(told, [&expected[..], &trades].concat());
        let told = replayed("late", 5, &snapshot);
        // With the time of the value.
        let expected = [(true, 1, 20), (true, 4, 6)];
        assert_eq!(told, [&expected[..], &trades[1..]].concat());
    }

    /// The hub was ahead of the recorder, so a replay showed what was to come.
    #[test]
    fn a_value_of_a_snapshot_that_is_newer_than_the_stream_holds_later() {
        let told = replayed("ahead", 4, &[value(11, 20)]);
        let expected = [
            (false, 4, 10),
            (true, 3, 11),
            (false, 4, 6),
            (false, 5, 6),
            (true, 0, 20),
            (false, 6, 6),
        ];
        assert_eq!(told, expected);
    }

    /// A replay whose start was in a gap began behind it without a word.
    #[test]
    fn a_start_within_a_gap_names_what_is_missing() {
        let gap = (false, 4, 10);
        let trades = [4, 5, 6].map(|time_ns| (false, time_ns, 6));
        let told = replayed("within", 4, &[]);
        let expected = [&[gap, (true, 3, 11)], &trades[..]].concat();
        assert_eq!(told, expected);
        let told = replayed("behind", 5, &[]);
        assert_eq!(
            told[..2],
            [(true, 3, 11), (true, 4, 6)],
            "a trade of before is behind it"
        );
        // What is missing was later than what is behind it.
        let newest = Message::LastValue(LastValue {
            sequence: 9,
            source_time_ns: 7,
            bid: 20,
            ..LastValue::new(0)
        });
        let told = replayed("newest", 7, &[newest]);
        let expected = [&[gap, (true, 3, 11), (true, 0, 20)], &trades[..]].concat();
        assert_eq!(told, expected);
    }

    /// Returns what a replay gives of one run with these blocks of trades: each the first sequence,
    /// with trades of the same times.
    fn replayed_blocks(name: &str, blocks: &[(u64, [u64; 2])]) -> Vec<(bool, u64, i64)> {
        let (market, definition, mut file) = begun();
        block(
            &mut file,
            BlockKind::Stream,
            1,
            &[Message::Definition(definition)],
        );
        for (first, times) in blocks {
            block(&mut file, BlockKind::Stream, *first, &times.map(trade));
        }
        write_numbers(BlockKind::End, RUN, 1, &[8, 0], &mut file);
        told(name, &market, 0, &file)
    }

    /// A doubled block was given twice, and a missing or a moved one without a word.
    #[test]
    fn a_block_that_is_doubled_is_given_once_and_one_that_is_missing_is_a_gap() {
        let [first, second, third] = [(2, [2, 3]), (4, [4, 5]), (6, [6, 7])];
        let trades = |times: &[u64]| {
            let trades = times.iter().map(|time_ns| (false, *time_ns, 6));
            trades.collect::<Vec<_>>()
        };
        let whole = trades(&[2, 3, 4, 5, 6, 7]);
        let given = replayed_blocks("ordered", &[first, second, third]);
        assert_eq!(given, whole);
        let given = replayed_blocks("doubled", &[first, second, second, third]);
        assert_eq!(given, whole);
        let gap = vec![(false, 4, 6)];
        let with_gap = [trades(&[2, 3]), gap, trades(&[6, 7])].concat();
        assert_eq!(replayed_blocks("missing", &[first, third]), with_gap);
        let given = replayed_blocks("swapped", &[first, third, second]);
        assert_eq!(given, with_gap);
        let given = replayed_blocks("short", &[first, second]);
        let expected = [trades(&[2, 3, 4, 5]), vec![(false, 6, 8)]].concat();
        assert_eq!(given, expected, "the end block names the last sequence");
    }

    const RUN: u32 = 77;
}
