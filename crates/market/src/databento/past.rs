//! The part of a replay that is older than the journal. A thread reads it from the recording,
//! because a lane must not wait for a disk.
//!
//! ```text
//!  file ─▶ Reader (thread) ─▶ four parts at most ─▶ Past::next (lane) ─▶ records
//!                  └─ until the journal has what comes next
//! ```

mod carried;
mod names;
mod reader;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use tidewire_feed::wire::Message;
use tracing::debug;

use crate::market::Market;
use reader::Reader;

/// A message of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Sequence in the hub that recorded it.
    pub(super) sequence: u64,
    /// Whether this hub recorded it in the current run; then the sequence is the journal's.
    pub(super) is_of_this_run: bool,
    /// The run of the hub that it is of.
    pub(super) run: u32,
    /// Whether it is the state of its topic, which no record shows: of before the start, or of a
    /// gap.
    pub(super) is_state: bool,
    /// Whether it is of the symbol's first venue, which had a topic of its own in that run. In this
    /// one both are one topic.
    pub(super) is_of_venue: bool,
    /// Whether its topic only repeated another one in that run, if that is an earlier one.
    pub(super) repeats: bool,
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
    /// The number of symbols that are left out: there is no room, or
    /// their symbol has another venue.
    LeftOut(usize),
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
    LeftOut(usize),
    Journal(u64),
}

impl Past {
    /// Starts to read at the source time `start_ns`: from the first message on that is as late, all
    /// of them. What `from_before` names begins at the file's start. Dropping this ends the reader.
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
        let reader = Reader::new(market.clone(), start_ns, from_before, sender);
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
                Ok(Part::LeftOut(count)) => Next::LeftOut(count),
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
    /// Definitions: the futures behind continuous symbols, and those that hold at the start.
    pub(super) definitions: bool,
}

/// Maximum number of parts that wait for the lane.
const PARTS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::MarketConfig;
    use tidewire_feed::wire::Quote;

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
            run: 1,
            is_state: false,
            is_of_venue: false,
            repeats: false,
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
