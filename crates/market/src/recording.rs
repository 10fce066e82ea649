//! `--record`: a thread that follows the journal and writes the hub's own stream to a file.
//!
//! The journal is the buffer between lanes and disk. A lane never waits for the recorder and has no
//! cost for it. Messages that leave the journal's window before they are written are counted; in
//! the file they are a gap, followed by a snapshot.

mod newest;
mod opening;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidewire_feed::journal::{Cursor, Everything, PacketOptions};
use tidewire_feed::recording::{
    BlockKind, begin_block, end_block, write_file_header, write_numbers,
};
use tidewire_feed::server::Board;
use tidewire_feed::wire::{
    Flags, Message, PACKET_LENGTH_MAX, PacketWriter, RecordPart, Venue, VenueName,
};
use tidewire_files::{AppendFile, FileLock};
use tidewire_retry::{Repeated, Seldom};
use tracing::{info, warn};

use crate::market::Market;
use opening::open;
use tidewire_lane::unix_ns;

/// Counters of recording since the start.
#[derive(Debug, Default)]
pub struct RecordingCounters {
    /// The file, once a recorder is running.
    pub(crate) path: OnceLock<PathBuf>,
    /// The latest time of the trades at the end of the file that earlier runs have written, ns
    /// since the UNIX epoch.
    pub(crate) recorded_until_ns: OnceLock<u64>,
    /// Whether a recorder is running.
    pub enabled: AtomicBool,
    /// Messages that are in the file.
    pub messages: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Messages that left the journal before they were written, also while a write fails.
    pub lost: AtomicU64,
    /// Failed writes; each is retried.
    pub errors: AtomicU64,
}

/// Writes a hub's stream to a file until it is told to finish.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<io::Result<()>>,
    ended: Arc<AtomicBool>,
}

impl Recorder {
    /// Starts to record into `path`. If it is a recording already, the new stream is appended; an
    /// incomplete block at its end, as a crash leaves it, is removed.
    ///
    /// # Errors
    ///
    /// The file cannot be written, is not a recording, or is damaged in front of its last block.
    pub fn start(market: &Arc<Market>, path: &Path) -> io::Result<Self> {
        let lock = FileLock::take(path)?;
        let file = open(path)?;
        if let Some(newest_ns) = newest::newest_trade_ns(path)? {
            let _ = market.recording.recorded_until_ns.set(newest_ns);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let writing = Writing::new(market.clone(), path, file, ended.clone());
        market.recording.enabled.store(true, Ordering::Relaxed);
        let _ = market.recording.path.set(path.to_owned());
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                let result = writing.run();
                drop(lock);
                result
            })?;
        Ok(Self { thread, ended })
    }

    /// Writes the rest and ends the file. Call it after the lanes have stopped.
    ///
    /// # Errors
    ///
    /// The rest cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.ended.store(true, Ordering::Release);
        let failed = |_| io::Error::other("the recorder has failed");
        self.thread.join().map_err(failed)?
    }
}

/// The state of the recorder's thread.
struct Writing {
    market: Arc<Market>,
    path: PathBuf,
    /// Contains only whole blocks, even after a failed write.
    file: AppendFile,
    cursor: Cursor,
    /// Blocks to be written to the file.
    block: Vec<u8>,
    /// End of each block in `block`, and the messages of the stream in it.
    ready: VecDeque<(usize, u64)>,
    /// The next message to be written.
    written: u64,
    /// Messages missing in the file, as its gaps tell.
    lost: u64,
    failures: Repeated,
    is_failing: bool,
    synced: Instant,
    is_dirty: bool,
    ended: Arc<AtomicBool>,
}

impl Writing {
    fn new(market: Arc<Market>, path: &Path, file: AppendFile, ended: Arc<AtomicBool>) -> Self {
        Self {
            market,
            path: path.to_owned(),
            file,
            cursor: Cursor::at(1),
            block: Vec::new(),
            ready: VecDeque::new(),
            written: 1,
            lost: 0,
            failures: Repeated::default(),
            is_failing: false,
            synced: Instant::now(),
            is_dirty: false,
            ended,
        }
    }

    fn run(mut self) -> io::Result<()> {
        if self.file.length() == 0 {
            write_file_header(unix_ns(), &mut self.block);
        }
        let session = self.begin()?;
        self.write()?;
        loop {
            // Checked before the journal is read, so that everything before the end is still
            // written.
            let is_last = self.ended.load(Ordering::Acquire);
            let grown = self.take(session)?;
            self.write()?;
            if grown {
                continue;
            }
            if is_last {
                let numbers = [self.cursor.sent, self.lost];
                write_numbers(
                    BlockKind::End,
                    session,
                    unix_ns(),
                    &numbers,
                    &mut self.block,
                );
                self.write()?;
                return self.file.sync();
            }
            if self.is_dirty && self.synced.elapsed() >= SYNC_INTERVAL {
                self.sync();
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Writes the beginning of a stream: its start, and the values at that time.
    fn begin(&mut self) -> io::Result<u32> {
        let journal = self.market.journal.lock();
        let session = journal.session();
        self.cursor = Cursor::at(journal.oldest_sequence());
        drop(journal);
        self.written = self.cursor.sent;
        let from = [self.cursor.sent];
        write_numbers(BlockKind::Begin, session, unix_ns(), &from, &mut self.block);
        if self.cursor.sent > 1 {
            self.snapshot(session)?;
        }
        Ok(session)
    }

    /// Takes the next messages from the journal. Returns whether there were any.
    fn take(&mut self, session: u32) -> io::Result<bool> {
        let before = self.cursor.sent;
        while self.block.len() < TAKEN_BYTES && self.take_block(session)? {}
        Ok(self.cursor.sent > before)
    }

    /// Takes the next block from the journal. Returns whether there was any.
    fn take_block(&mut self, session: u32) -> io::Result<bool> {
        let start = begin_block(&mut self.block);
        let journal = self.market.journal.lock();
        let oldest = journal.oldest_sequence();
        if self.cursor.sent < oldest {
            drop(journal);
            self.block.truncate(start);
            self.miss(session, oldest)?;
            return Ok(true);
        }
        let from = self.cursor.sent;
        let options = PacketOptions {
            budget_bytes: BLOCK_BYTES,
            ..PacketOptions::default()
        };
        let (cursor, block) = (&mut self.cursor, &mut self.block);
        journal.write_packets(cursor, u64::MAX, &options, &Everything, block);
        drop(journal);
        debug_assert!(self.cursor.sent >= from, "the journal is followed forwards");
        let messages = self.cursor.sent - from;
        if messages == 0 {
            self.block.truncate(start);
            return Ok(false);
        }
        end_block(
            BlockKind::Stream,
            session,
            unix_ns(),
            start,
            &mut self.block,
        );
        self.ready.push_back((self.block.len(), messages));
        Ok(true)
    }

    /// Handles a gap: the journal has no messages before `oldest` any more.
    #[cold]
    fn miss(&mut self, session: u32, oldest: u64) -> io::Result<()> {
        debug_assert!(oldest > self.cursor.sent, "a gap has a length");
        // What is ready precedes the gap.
        self.write()?;
        let lost = oldest - self.cursor.sent;
        self.lost += lost;
        self.market
            .recording
            .lost
            .store(self.lost, Ordering::Relaxed);
        if let Some(left_out) = MISSING.note_now() {
            let (first, last, total) = (self.cursor.sent, oldest - 1, self.lost);
            warn!(
                lost,
                first,
                last,
                total,
                left_out,
                "the disk was full or too slow: messages are missing in the recording"
            );
        }
        let range = [self.cursor.sent, oldest];
        write_numbers(BlockKind::Gap, session, unix_ns(), &range, &mut self.block);
        self.cursor = Cursor::at(oldest);
        self.written = oldest;
        self.snapshot(session)
    }

    /// Writes what a reader needs of the messages before: the venues, then the current definitions,
    /// with the whole record where the source has given one, and last values. Each value has the
    /// sequence of its last change, which may be later than the sequence at which the stream
    /// continues. They are written block by block, so that a million symbols are not in memory at
    /// once.
    fn snapshot(&mut self, session: u32) -> io::Result<()> {
        let board = self.market.board.clone();
        self.snapshot_block(session, 0, |writer| {
            for (source, name) in board.venues().told() {
                writer.push(&Message::Venue(Venue {
                    source,
                    source_time_ns: 0,
                    name: VenueName::truncated(&name),
                }));
            }
        });
        let mut index = 0;
        while index < board.slots().len() {
            let until = (index + SNAPSHOT_ENTRIES).min(board.slots().len());
            debug_assert!(until > index, "slots are only added");
            self.snapshot_block(session, 2 * index as u64, |writer| {
                (index..until).for_each(|entry| push_entry(&board, entry, writer));
            });
            self.write()?;
            index = until;
        }
        Ok(())
    }

    /// Appends a block of a snapshot to those to be written.
    fn snapshot_block(
        &mut self,
        session: u32,
        first: u64,
        fill: impl FnOnce(&mut PacketWriter<'_>),
    ) {
        let start = begin_block(&mut self.block);
        let flags = Flags::SNAPSHOT;
        let mut writer =
            PacketWriter::new(&mut self.block, session, flags, first, PACKET_LENGTH_MAX);
        fill(&mut writer);
        writer.finish();
        end_block(
            BlockKind::Snapshot,
            session,
            unix_ns(),
            start,
            &mut self.block,
        );
    }

    /// Writes what is ready, at once if the disk takes it, else block by block. If the disk is full
    /// or fails, it is retried until the program ends; messages that leave the journal meanwhile
    /// become a gap.
    fn write(&mut self) -> io::Result<()> {
        let covered = self.ready.back().map_or(0, |(end, _)| *end);
        if covered < self.block.len() {
            self.ready.push_back((self.block.len(), 0));
        }
        let mut first = 0;
        while !self.ready.is_empty() {
            let blocks = match first {
                0 => self.ready.len(),
                _ => 1,
            };
            let end = self.ready[blocks - 1].0;
            match self.file.append(&self.block[first..end]) {
                Ok(()) => {
                    self.note_written(blocks, (end - first) as u64);
                    first = end;
                }
                // The first block may still fit.
                Err(_) if blocks > 1 => {
                    let end = self.ready[0].0;
                    match self.file.append(&self.block[..end]) {
                        Ok(()) => {
                            self.note_written(1, end as u64);
                            first = end;
                        }
                        Err(error) => self.retry(error)?,
                    }
                }
                Err(error) => self.retry(error)?,
            }
        }
        self.block.clear();
        self.block.shrink_to(2 * TAKEN_BYTES);
        Ok(())
    }

    /// Notes that the first blocks of those that were ready are in the file.
    fn note_written(&mut self, blocks: usize, bytes: u64) {
        debug_assert!(bytes > 0, "a block is not empty");
        let messages = self.ready.drain(..blocks).map(|(_, messages)| messages);
        let messages: u64 = messages.sum();
        self.written += messages;
        self.is_dirty = true;
        let counters = &self.market.recording;
        counters.messages.fetch_add(messages, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        if std::mem::take(&mut self.is_failing) {
            self.failures.works();
            info!(path = %self.path.display(), "recording again");
        }
    }

    #[cold]
    fn retry(&mut self, error: io::Error) -> io::Result<()> {
        if self.ended.load(Ordering::Acquire) {
            return Err(self.give_up(&error));
        }
        self.market.recording.errors.fetch_add(1, Ordering::Relaxed);
        self.is_failing = true;
        if let Some((attempts, lasts)) = self.failures.failed(Instant::now()) {
            let (path, seconds) = (self.path.display(), lasts.as_secs());
            warn!(%error, %path, attempts, seconds, "cannot record: retrying every second");
        }
        let end = Instant::now() + RETRY_INTERVAL;
        while Instant::now() < end && !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_INTERVAL);
        }
        // What has left the journal and is not taken will be missing.
        let oldest = self.market.journal.lock().oldest_sequence();
        let missing = oldest.saturating_sub(self.cursor.sent);
        let lost = self.lost + missing;
        self.market.recording.lost.store(lost, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the error with which the recording ends before its stream does. The file cannot tell
    /// what is missing at its end.
    fn give_up(&mut self, error: &io::Error) -> io::Error {
        let next = self.market.journal.lock().next_sequence();
        let (first, missing) = (self.written, next.saturating_sub(self.written));
        let lost = self.lost + missing;
        self.market.recording.lost.store(lost, Ordering::Relaxed);
        let text = match missing {
            0 => format!("{error}; the recording has no end mark"),
            _ => format!(
                "{error}; the {missing} messages from sequence {first} to {} are missing at the end \
                 of the recording",
                next - 1
            ),
        };
        io::Error::new(error.kind(), text)
    }

    fn sync(&mut self) {
        if let Err(error) = self.file.sync() {
            self.market.recording.errors.fetch_add(1, Ordering::Relaxed);
            warn!(%error, path = %self.path.display(), "the recording may not be on the disk");
        }
        (self.synced, self.is_dirty) = (Instant::now(), false);
    }
}

/// Appends what a snapshot has of one entry of the board.
fn push_entry(board: &crate::board::Board, entry: usize, writer: &mut PacketWriter<'_>) {
    if let Some(definition) = Board::definition(board, entry) {
        writer.push(&Message::Definition(definition));
    }
    let topic = board.topic(entry as u32);
    if let Some(kept) = topic.and_then(|topic| topic.records.definition()) {
        for part in RecordPart::split(entry as u32, kept.source, 0, &kept.bytes) {
            writer.push(&Message::Record(part));
        }
    }
    if let Some(value) = Board::last_value(board, entry) {
        writer.push(&Message::LastValue(value));
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes from which on no further block is taken before those at hand are written.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes of the stream from which on a block is full: it has one packet of at most 64 KiB. An
/// almost full disk still takes small blocks, and the journal's lock is held for microseconds.
const BLOCK_BYTES: usize = 1 << 15;
/// Maximum number of board entries in one block; each has at most 288 bytes, and 1,200 with a whole
/// record.
const SNAPSHOT_ENTRIES: usize = 512;
/// Limits the log lines about gaps.
static MISSING: Seldom = Seldom::new(3, 10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Ingest;
    use crate::market::MarketConfig;
    use tidewire_feed::client::Sink;
    use tidewire_feed::recording::{Decoder, Event};
    use tidewire_feed::wire::{Definition, Name, Trade};
    use tidewire_files::{Disk, SimulatedDisk};

    fn market() -> Arc<Market> {
        let config = MarketConfig {
            journal_messages: 64,
            ..MarketConfig::default()
        };
        Market::of_one_lane(config)
    }

    fn writing(market: &Arc<Market>, path: &Path, disk: Disk) -> Writing {
        let file = disk.append(path).unwrap();
        Writing::new(market.clone(), path, file, Arc::new(AtomicBool::new(true)))
    }

    fn publish(ingest: &mut Ingest, trades: u64) {
        let mut batch = ingest.begin(1);
        batch.definition(1, &Definition::new(0, Name::new("A").unwrap()));
        for sequence in 0..trades {
            batch.message(2 + sequence, &Message::Trade(Trade::default()));
        }
        batch.finish();
    }

    /// Returns the kinds of the blocks, and the sequences of the stream's messages.
    fn read(path: &Path) -> (Vec<BlockKind>, Vec<u64>) {
        let file = std::fs::read(path).unwrap();
        let (mut rest, mut decoder) = (&file[..], Decoder::new());
        let (mut kinds, mut sequences) = (Vec::new(), Vec::new());
        loop {
            match decoder.decode(&mut rest).unwrap() {
                Event::File { .. } => {}
                Event::NeedMore(_) => break,
                Event::Block(block) => {
                    kinds.push(block.kind);
                    if block.kind == BlockKind::Stream {
                        sequences.extend(block.messages().map(|message| message.unwrap().0));
                    }
                }
            }
        }
        decoder.finish(rest).unwrap();
        (kinds, sequences)
    }

    fn file(name: &str) -> PathBuf {
        let name = format!("tidewire-{name}-{}.rec", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_recorder_goes_on_behind_the_torn_end_that_a_crash_left() {
        let path = file("torn");
        let market = market();
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        // With a definition, the venue's name and the start of a session.
        publish(&mut ingest, 3);
        Recorder::start(&market, &path).unwrap().finish().unwrap();
        use BlockKind::{Begin, End, Stream};
        assert_eq!(read(&path), (vec![Begin, Stream, End], (1..7).collect()));
        let whole = std::fs::metadata(&path).unwrap().len();
        let mut torn = Disk::default().append(&path).unwrap();
        torn.append(b"TWBK\x02\0\0").unwrap();
        Recorder::start(&market, &path).unwrap().finish().unwrap();
        let (kinds, sequences) = read(&path);
        assert_eq!(kinds, [Begin, Stream, End, Begin, Stream, End]);
        assert_eq!(sequences, [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
        assert!(whole > 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_the_disk_was_too_slow_for_is_a_gap_that_is_counted() {
        let path = file("gap");
        let market = market();
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        publish(&mut ingest, 10);
        let mut writing = writing(&market, &path, Disk::default());
        write_file_header(0, &mut writing.block);
        let session = writing.begin().unwrap();
        assert!(writing.take(session).unwrap());
        publish(&mut ingest, 100);
        let oldest = market.journal.lock().oldest_sequence();
        assert!(writing.take(session).unwrap() && !writing.take(session).unwrap());
        writing.write().unwrap();
        let (kinds, sequences) = read(&path);
        use BlockKind::{Begin, Gap, Snapshot, Stream};
        assert_eq!(kinds, [Begin, Stream, Gap, Snapshot, Snapshot, Stream]);
        assert_eq!(
            sequences[..14],
            (1..14).chain([oldest]).collect::<Vec<_>>()[..]
        );
        assert_eq!(market.recording.lost.load(Ordering::Relaxed), oldest - 14);
        std::fs::remove_file(path).unwrap();
    }

    /// A replay had the number of the venue in the place of its name, and made up the definition.
    #[test]
    fn a_gap_over_the_venue_and_the_definition_is_followed_by_both() {
        let path = file("venue");
        let market = market();
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        let record: Vec<u8> = {
            let mut record = vec![0; 520];
            (record[0], record[1]) = (130, 0x13);
            record
        };
        let mut batch = ingest.begin(1);
        batch.venue(&Venue {
            source: 2,
            source_time_ns: 0,
            name: VenueName::new("XNAS").unwrap(),
        });
        batch.definition(1, &Definition::new(0, Name::new("A").unwrap()));
        for part in RecordPart::split(0, 2, 0, &record) {
            batch.message(2, &Message::Record(part));
        }
        for sequence in 3..200 {
            let trade = Trade {
                source: 2,
                ..Trade::default()
            };
            batch.message(sequence, &Message::Trade(trade));
        }
        batch.finish();
        Recorder::start(&market, &path).unwrap().finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (mut rest, mut decoder) = (&bytes[..], Decoder::new());
        let mut found = Vec::new();
        loop {
            match decoder.decode(&mut rest).unwrap() {
                Event::NeedMore(_) => break,
                Event::Block(block) if block.kind == BlockKind::Snapshot => {
                    found.extend(block.messages().map(|message| message.unwrap().1));
                }
                _ => {}
            }
        }
        let Message::Venue(venue) = found[0] else {
            panic!("the venue first: {found:?}");
        };
        assert_eq!((venue.source, venue.name.as_str()), (2, "XNAS"));
        assert_eq!(found.len(), 6, "without the consolidated venue: {found:?}");
        assert!(matches!(found[1], Message::Definition(_)));
        let parts = found.iter().filter_map(|message| match message {
            Message::Record(part) => Some(part.bytes().to_vec()),
            _ => None,
        });
        assert_eq!(parts.flatten().collect::<Vec<_>>().len(), 520);
        assert!(matches!(&found[5], Message::LastValue(value) if value.source == 2));
        std::fs::remove_file(path).unwrap();
    }

    /// A block that did not fit was counted as written, nothing as lost, and nothing was written
    /// until the whole of it fitted.
    #[test]
    fn a_full_disk_gets_the_blocks_that_fit_and_the_counters_say_what_is_in_the_file() {
        let market = Market::of_one_lane(MarketConfig {
            journal_messages: 1 << 13,
            ..MarketConfig::default()
        });
        let simulated = SimulatedDisk::new(1);
        let path = Path::new("full");
        let mut writing = writing(&market, path, Disk::simulated(simulated.clone()));
        let session = writing.begin().unwrap();
        writing.write().unwrap();
        let mut ingest = Ingest::new(market.clone(), 1, "test");
        publish(&mut ingest, 5_000);
        assert!(writing.take(session).unwrap());
        let blocks = writing.ready.len();
        assert!(blocks >= 3, "{blocks} blocks");
        simulated.set_bytes_max(simulated.bytes() + writing.ready[0].0 as u64 + 100);
        let error = writing.write().unwrap_err();
        let counters = &market.recording;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, lost) = (load(&counters.messages), load(&counters.lost));
        let next = market.journal.lock().next_sequence();
        assert!(written > 0 && written < next - 1, "{written} of {next}");
        assert_eq!(written + lost, next - 1);
        let told = format!(
            "the {lost} messages from sequence {} to {}",
            written + 1,
            next - 1
        );
        assert!(error.to_string().contains(&told), "{error}");
        assert_eq!(
            writing.ready.len(),
            blocks - 1,
            "the first one is in the file"
        );
        simulated.set_bytes_max(u64::MAX);
        writing.write().unwrap();
        assert_eq!(load(&counters.messages), next - 1);
    }

    #[test]
    fn another_file_is_left_alone() {
        let path = file("other");
        std::fs::write(&path, "something else that is long enough").unwrap();
        let error = Recorder::start(&market(), &path).unwrap_err();
        assert!(error.to_string().contains("no recording"), "{error}");
        assert!(std::fs::read(&path).unwrap().starts_with(b"something"));
        std::fs::remove_file(path).unwrap();
    }
}
