//! The part of a replay that is older than the journal. A thread reads it from the recording,
//! because a lane must not wait for a disk.
//!
//! ```text
//!  file ─▶ Reader (thread) ─▶ four parts at most ─▶ Past::next (lane) ─▶ records
//!                  └─ until the journal has what comes next
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use tidewire_feed::recording::{Block, BlockKind, Decoder, Event};
use tidewire_feed::wire::{Message, Quote};
use tracing::{debug, warn};

use super::stream::{is_definition, quote_of, time_ns};
use crate::market::Market;

/// A message of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Sequence in the hub that recorded it.
    pub(super) sequence: u64,
    /// Whether this hub recorded it in the current run; then the sequence is the journal's.
    pub(super) is_of_this_run: bool,
    /// With the number of this hub's topic as its symbol.
    pub(super) message: Message,
}

/// The next item of a replay.
#[expect(clippy::large_enum_variant, reason = "a message is the usual item")]
#[derive(Debug)]
pub(super) enum Next {
    /// A message.
    Message(Told),
    /// A range of sequences that is missing in the recording.
    Gap(u64, u64),
    /// The recording ends; the replay continues in the journal at this sequence.
    Journal(u64),
    /// Nothing yet; the reader will wake up the lane.
    Nothing,
}

/// The lane's side of a replay from the recording.
#[derive(Debug)]
pub(super) struct Past {
    parts: Receiver<Part>,
    messages: std::vec::IntoIter<Told>,
    /// What follows the messages: a gap, or the end.
    other: Option<Next>,
}

#[derive(Debug)]
enum Part {
    Messages(Vec<Told>),
    Gap(u64, u64),
    Journal(u64),
}

impl Past {
    /// Starts to read at the source time `start_ns`; what `from_before` names from the file's start
    /// on. Dropping this ends the reader.
    ///
    /// # Errors
    /// The file or a thread cannot be opened.
    pub(super) fn open(
        market: &Arc<Market>,
        path: PathBuf,
        start_ns: u64,
        from_before: FromBefore,
    ) -> io::Result<Self> {
        let file = File::open(&path)?;
        let (sender, parts) = sync_channel(PARTS_MAX);
        let reader = Reader {
            session: market.journal.lock().session(),
            market: market.clone(),
            start_ns,
            from_before,
            is_definition: false,
            next: 1,
            parts: sender,
            batch: Vec::new(),
            quotes: HashMap::new(),
            has_started: false,
            run: 0,
            numbers: HashMap::new(),
        };
        std::thread::Builder::new()
            .name("past".to_owned())
            .spawn(move || {
                if reader.run(file).is_none() {
                    debug!("no client waits for the replay any more");
                }
            })?;
        Ok(Self {
            parts,
            messages: Vec::new().into_iter(),
            other: None,
        })
    }

    /// Returns the next message, if it has been read already. It is the one that [`Past::next`]
    /// takes, also where a part ends.
    pub(super) fn peek(&mut self, market: &Market) -> Option<&Told> {
        self.fill(market);
        self.messages.as_slice().first()
    }

    /// Takes the next item.
    pub(super) fn next(&mut self, market: &Market) -> Next {
        self.fill(market);
        let message = self.messages.next().map(Next::Message);
        message
            .or_else(|| self.other.take())
            .unwrap_or(Next::Nothing)
    }

    /// Takes the reader's next part, if the one before it has been taken.
    fn fill(&mut self, market: &Market) {
        while self.messages.as_slice().is_empty() && self.other.is_none() {
            self.other = Some(match self.parts.try_recv() {
                Ok(Part::Messages(messages)) => {
                    self.messages = messages.into_iter();
                    continue;
                }
                Ok(Part::Gap(from, until)) => Next::Gap(from, until),
                Ok(Part::Journal(next)) => Next::Journal(next),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    Next::Journal(market.journal.lock().oldest_sequence())
                }
            });
        }
    }
}

/// What a replay needs from before its start, beside the prices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FromBefore {
    /// Levels: a book may have begun before the start.
    pub(super) levels: bool,
    /// Definitions: the futures behind continuous symbols.
    pub(super) definitions: bool,
}

/// The state of the reader's thread.
struct Reader {
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
    /// The newest quote of each topic before the start of the replay, for its trades.
    quotes: HashMap<u32, Quote>,
    has_started: bool,
    /// The run of the hub that the current blocks belong to.
    run: u32,
    /// By symbol number of an earlier run: the topic of this run with the same name, if any.
    numbers: HashMap<u32, Option<u32>>,
}

impl Reader {
    /// Reads until the journal has the next message. Returns `None` if no client waits.
    fn run(mut self, mut file: File) -> Option<()> {
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
        self.begin_if_due(u64::MAX);
        self.flush()?;
        debug_assert!(
            self.batch.is_empty(),
            "the journal follows the last message"
        );
        if self.next < oldest {
            self.send(Part::Gap(self.next, oldest))?;
        }
        self.send(Part::Journal(self.next.max(oldest)))?;
        Some(true)
    }

    fn block(&mut self, block: &Block<'_>) -> Option<()> {
        let is_of_this_run = block.session == self.session;
        if self.run != block.session {
            self.run = block.session;
            self.numbers.clear();
        }
        match block.kind {
            BlockKind::Gap if is_of_this_run => {
                let (from, until) = block.numbers();
                self.next = self.next.max(until);
                self.flush()?;
                self.send(Part::Gap(from, until))
            }
            BlockKind::Begin if is_of_this_run => {
                self.next = self.next.max(block.numbers().0);
                Some(())
            }
            BlockKind::Stream | BlockKind::Snapshot => {
                let is_stream = block.kind == BlockKind::Stream;
                for told in block.messages() {
                    // The checksum was right, so an invalid message is the recorder's fault.
                    let Ok((sequence, message)) = told else { break };
                    if is_of_this_run && is_stream {
                        self.next = self.next.max(sequence.saturating_add(1));
                    }
                    self.take(sequence, message, is_of_this_run, is_stream)?;
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    fn take(
        &mut self,
        sequence: u64,
        message: Message,
        is_of_this_run: bool,
        is_stream: bool,
    ) -> Option<()> {
        let Some(message) = self.of_this_hub(message, is_of_this_run) else {
            return Some(());
        };
        let time = time_ns(&message);
        if let Message::Record(part) = &message
            && part.offset() == 0
        {
            self.is_definition = is_definition(part);
        }
        if time < self.start_ns {
            let quote = match &message {
                Message::Quote(quote) => *quote,
                Message::LastValue(value) => quote_of(value),
                // The client's book begins with them.
                Message::Level(_) if self.from_before.levels && is_stream => {
                    return self.push(sequence, message, is_of_this_run);
                }
                Message::Record(_) if self.from_before.definitions && self.is_definition => {
                    return self.push(sequence, message, is_of_this_run);
                }
                _ => return Some(()),
            };
            self.quotes.insert(quote.symbol, quote);
            return Some(());
        }
        // The content of a snapshot was sent before or is lost; it is not sent as new.
        if !is_stream {
            return Some(());
        }
        self.begin_if_due(time);
        self.push(sequence, message, is_of_this_run)
    }

    fn push(&mut self, sequence: u64, message: Message, is_of_this_run: bool) -> Option<()> {
        self.batch.push(Told {
            sequence,
            is_of_this_run,
            message,
        });
        match self.batch.len() >= BATCH_MESSAGES {
            true => self.flush(),
            false => Some(()),
        }
    }

    /// Sends the prices up to the start before the first message.
    fn begin_if_due(&mut self, time_ns: u64) {
        if self.has_started || time_ns < self.start_ns {
            return;
        }
        self.has_started = true;
        let quotes = self.quotes.drain().map(|(_, quote)| Told {
            sequence: 0,
            is_of_this_run: false,
            message: Message::Quote(quote),
        });
        self.batch.extend(quotes);
    }

    /// Returns the message with this hub's topic number; `None` if the hub does not have the topic.
    fn of_this_hub(&mut self, mut message: Message, is_of_this_run: bool) -> Option<Message> {
        if is_of_this_run {
            return Some(message);
        }
        if let Message::Definition(definition) = &message {
            let topic = self.market.board.find(definition.name.as_bytes());
            let number = topic.map(|topic| topic.number);
            self.numbers.insert(definition.symbol, number);
        }
        let number = self.numbers.get(&message.symbol()?).copied()??;
        message.set_symbol(number);
        Some(message)
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

/// Maximum number of parts that wait for the lane.
const PARTS_MAX: usize = 4;
/// Messages in a part, which is some tens of kilobytes.
const BATCH_MESSAGES: usize = 512;
/// Bytes read from the file at a time.
const READ_BYTES: u64 = 256 * 1024;
/// Interval at which the end of the file is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How long to wait for a recorder that writes nothing.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::MarketConfig;

    #[test]
    fn the_next_message_is_seen_before_it_is_taken_also_where_a_part_ends() {
        let market = Market::of_one_lane(MarketConfig::default());
        let (sender, parts) = sync_channel(PARTS_MAX);
        let mut past = Past {
            parts,
            messages: Vec::new().into_iter(),
            other: None,
        };
        assert!(past.peek(&market).is_none() && matches!(past.next(&market), Next::Nothing));
        let told = |sequence| Told {
            sequence,
            is_of_this_run: true,
            message: Message::Quote(Quote::default()),
        };
        sender.send(Part::Messages(vec![told(1), told(2)])).unwrap();
        sender.send(Part::Gap(3, 5)).unwrap();
        sender.send(Part::Messages(vec![told(5)])).unwrap();
        drop(sender);
        let mut seen = Vec::new();
        loop {
            let peeked = past.peek(&market).map(|told| told.sequence);
            match past.next(&market) {
                Next::Message(told) => {
                    assert_eq!(peeked, Some(told.sequence));
                    seen.push(told.sequence);
                }
                Next::Gap(3, 5) => assert_eq!((peeked, seen.len()), (None, 2)),
                Next::Journal(_) => break assert_eq!(peeked, None),
                next => panic!("{next:?}"),
            }
        }
        assert_eq!(seen, [1, 2, 5]);
    }
}
