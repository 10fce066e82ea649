//! The part of a replay that is older than the journal: a thread reads it from the recording,
//! because a lane does not wait for a disk.
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

use super::stream::{quote_of, time_ns};
use crate::market::Market;

/// A message of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Of the hub that recorded it.
    pub(super) sequence: u64,
    /// That hub is this one, and the sequence is the journal's.
    pub(super) is_of_this_run: bool,
    /// Its symbol is the topic's number in this hub.
    pub(super) message: Message,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// A message.
    Message(Told),
    /// Not in the recording: a range of sequences.
    Gap(u64, u64),
    /// The recording has no more that the journal has not: it goes on there.
    Journal(u64),
    /// Nothing yet: the reader will wake the lane.
    Nothing,
}

/// The recording's end of a replay.
#[derive(Debug)]
pub(super) struct Past {
    parts: Receiver<Part>,
    messages: std::vec::IntoIter<Told>,
}

#[derive(Debug)]
enum Part {
    Messages(Vec<Told>),
    Gap(u64, u64),
    Journal(u64),
}

impl Past {
    /// Begins to read, from the source time `start_ns` on. The reader ends with this.
    ///
    /// # Errors
    /// If there is no such file, or no thread.
    pub(super) fn open(market: &Arc<Market>, path: PathBuf, start_ns: u64) -> io::Result<Self> {
        let file = File::open(&path)?;
        let (sender, parts) = sync_channel(PARTS_MAX);
        let reader = Reader {
            session: market.journal.lock().session(),
            market: market.clone(),
            start_ns,
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
                    debug!("nobody waits for a replay any more");
                }
            })?;
        Ok(Self {
            parts,
            messages: Vec::new().into_iter(),
        })
    }

    /// When the next message was made, if it is there already.
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        let next = self.messages.as_slice().first()?;
        Some(time_ns(&next.message))
    }

    /// Takes what comes next.
    pub(super) fn next(&mut self, market: &Market) -> Next {
        loop {
            if let Some(told) = self.messages.next() {
                return Next::Message(told);
            }
            match self.parts.try_recv() {
                Ok(Part::Messages(messages)) => self.messages = messages.into_iter(),
                Ok(Part::Gap(from, until)) => return Next::Gap(from, until),
                Ok(Part::Journal(next)) => return Next::Journal(next),
                Err(TryRecvError::Empty) => return Next::Nothing,
                Err(TryRecvError::Disconnected) => {
                    return Next::Journal(market.journal.lock().oldest_sequence());
                }
            }
        }
    }
}

/// The thread's own.
struct Reader {
    market: Arc<Market>,
    /// Of this run of the hub.
    session: u32,
    start_ns: u64,
    /// The sequence of this run that comes next.
    next: u64,
    parts: SyncSender<Part>,
    batch: Vec<Told>,
    /// The newest quote of each topic before the replay's time: what its trades go with.
    quotes: HashMap<u32, Quote>,
    has_started: bool,
    /// The run that the blocks are of.
    run: u32,
    /// By symbol number of an earlier run: the topic of this one, if there is one by its name.
    numbers: HashMap<u32, Option<u32>>,
}

impl Reader {
    /// Until the journal has the next message; nothing if no client waits.
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
            // The recorder may be a little behind the journal.
            let is_over = !whole || read.is_err() || grown.elapsed() > PATIENCE;
            if self.ends(is_over)? {
                return Some(());
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Whether the journal goes on where the recording has come to.
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
                    // A checksum was right: what is no message is the recorder's fault.
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
        if time < self.start_ns {
            let quote = match &message {
                Message::Quote(quote) => *quote,
                Message::LastValue(value) => quote_of(value),
                _ => return Some(()),
            };
            self.quotes.insert(quote.symbol, quote);
            return Some(());
        }
        // What a snapshot says was said before, or is lost: it is not told as if it were news.
        if !is_stream {
            return Some(());
        }
        self.begin_if_due(time);
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

    /// Before the first message that is told: the prices until then.
    fn begin_if_due(&mut self, time_ns: u64) {
        if self.has_started || time_ns < self.start_ns {
            return;
        }
        self.has_started = true;
        debug_assert!(
            self.batch.is_empty(),
            "quotes from before come before all else"
        );
        let quotes = self.quotes.drain().map(|(_, quote)| Told {
            sequence: 0,
            is_of_this_run: false,
            message: Message::Quote(quote),
        });
        self.batch.extend(quotes);
    }

    /// The message under the topic's number of this hub; none if the hub does not have the topic.
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
        match &mut message {
            Message::Trade(trade) => trade.symbol = number,
            Message::Quote(quote) => quote.symbol = number,
            Message::Status(status) => status.symbol = number,
            Message::Definition(definition) => definition.symbol = number,
            Message::LastValue(value) => value.symbol = number,
            _ => return None,
        }
        Some(message)
    }

    fn flush(&mut self) -> Option<()> {
        if self.batch.is_empty() {
            return Some(());
        }
        debug_assert!(self.has_started, "messages are told from the start on");
        let batch = std::mem::take(&mut self.batch);
        self.send(Part::Messages(batch))
    }

    /// Waits while the lane has enough; nothing if the replay is over.
    fn send(&self, part: Part) -> Option<()> {
        self.parts.send(part).ok()?;
        self.market.databento.parts.fetch_add(1, Ordering::Release);
        self.market.tell_all_feed_lanes();
        Some(())
    }
}

/// Parts that wait for the lane, at most.
const PARTS_MAX: usize = 4;
/// Messages of a part: some tens of kilobytes.
const BATCH_MESSAGES: usize = 512;
/// Bytes read from the file at a time.
const READ_BYTES: u64 = 256 * 1024;
/// How often the end of the file is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How long a recorder that writes nothing is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
