//! Snapshots of the keys beside the stream KEYS: they bound what a hub that starts has to read.
//!
//! A snapshot is a file of keys (RDB) in parts, each a message with a checksum, and a head behind
//! them. The head is written only after all parts were read back and found right, and after the
//! stream has everything that the file includes. The two newest snapshots are kept, and the stream
//! is trimmed behind the older one: if the newest cannot be read, there is another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tidewire_cluster::keys::frame::HistoryId;
use tidewire_cluster::keys::{KeysFrame, KeysHead, KeysHeader, KeysPosition};
use tidewire_lane::unguessable_word;
use tidewire_nats::{Expectation, Part, StreamSettings};
use tracing::{error, info};

use super::QuorumConfig;
use super::store::Store;
use crate::server::Server;

/// Parts that may wait for their answers.
const PARTS_IN_FLIGHT: usize = 4;
/// How long the stream may take to have what a snapshot includes.
const DURABLE_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Stores a snapshot and trims the stream. `position` is one that the stream had before, at or
/// behind `wrong`, a message that no hub can read (0 for none). Returns the snapshot's head.
pub(super) fn save(
    server: &Server,
    config: &QuorumConfig,
    (position, wrong): (KeysPosition, u64),
    is_stopped: Arc<AtomicBool>,
) -> Result<KeysHead, String> {
    let mut store = Store::open(config, is_stopped).map_err(|error| error.to_string())?;
    let head = KeysHead {
        number: unguessable_word().max(1),
        sequence: position.sequence,
        epoch: position.epoch,
        history: position.history,
        ..KeysHead::default()
    };
    let saved = write_fitting(server, config, &mut store, head).and_then(|head| {
        wait_until_durable(server, &store, &head)?;
        store_head(config, &mut store, &head)?;
        Ok(head)
    });
    match saved {
        Ok(head) => {
            let (offset, parts) = (head.offset, head.parts);
            info!(
                offset,
                parts,
                sequence = head.sequence,
                "keys: a snapshot is stored"
            );
            trim(config, &mut store, wrong)?;
            Ok(head)
        }
        Err(text) => {
            let subject = config.part_subject(head.number);
            let _ = store.purge(&config.snapshot_stream(), &subject, Part::All);
            Err(text)
        }
    }
}

/// What a hub needs to store the keys of its memory again.
#[derive(Debug)]
pub(super) struct Rebuilding {
    pub(super) keys: StreamSettings,
    pub(super) snapshots: StreamSettings,
    /// The last message of the stream when this hub got the lease; `None`: there was no stream.
    pub(super) last: Option<u64>,
    /// The stream goes on behind this sequence, and behind all that it has had.
    pub(super) behind: u64,
    /// What a reader of the snapshot takes as the reign before it.
    pub(super) epoch: u64,
    pub(super) history: HistoryId,
}

/// Stores a snapshot of all keys in memory, and then empties the stream of the keys, which goes on
/// behind a sequence that no reader has seen. Returns the snapshot's head.
pub(super) fn rebuild(
    server: &Server,
    config: &QuorumConfig,
    rebuilding: Rebuilding,
    is_over: Arc<AtomicBool>,
) -> Result<KeysHead, String> {
    let mut store = Store::open(config, is_over).map_err(|error| error.to_string())?;
    store.make(rebuilding.keys)?;
    store.make(rebuilding.snapshots)?;
    let extent = store.extent(&config.stream())?;
    let last = rebuilding.last.unwrap_or(extent.origin.saturating_sub(1));
    if extent.last != last {
        return Err(format!(
            "another hub has written message {} of the stream meanwhile",
            extent.last
        ));
    }
    // One more, so that the stream lacks messages for every reader: only a snapshot has the keys.
    let next = rebuilding.behind.max(extent.last).max(extent.origin) + 2;
    let head = KeysHead {
        number: unguessable_word().max(1),
        sequence: next - 1,
        epoch: rebuilding.epoch,
        history: rebuilding.history,
        ..KeysHead::default()
    };
    let head = write_fitting(server, config, &mut store, head)?;
    close_stream(config, &mut store, last, &head)?;
    store_head(config, &mut store, &head)?;
    store.purge(&config.stream(), "", Part::Before(next))?;
    match store.extent(&config.stream())?.last {
        last if last == head.sequence => Ok(head),
        last => Err(format!(
            "the stream ends at message {last} where {} was expected; delete the stream {}",
            head.sequence,
            config.stream()
        )),
    }
}

/// Writes a message that no reader goes on behind, as the next one of the stream. What another hub
/// has sent is refused then, or was there before, and then this message is refused. So the purge
/// removes nothing that was acknowledged since the command.
fn close_stream(
    config: &QuorumConfig,
    store: &mut Store,
    last: u64,
    head: &KeysHead,
) -> Result<(), String> {
    let header = KeysHeader {
        is_fence: true,
        is_whole: true,
        epoch: head.epoch,
        // No log ends there.
        offset: 1 << 63,
        history: head.history,
    };
    let place = (config.stream(), config.subject());
    let tag = store.begin_behind(
        (&place.0, place.1),
        Expectation::Stream(last),
        header.with_body(b"").into(),
    )?;
    let stored = store.stored(tag);
    stored.map_err(|text| format!("the stream cannot be closed behind message {last}: {text}"))
}

fn store_head(config: &QuorumConfig, store: &mut Store, head: &KeysHead) -> Result<(), String> {
    let tag = store.begin(
        (&config.snapshot_stream(), config.head_subject()),
        head.encode().into(),
    )?;
    store.stored(tag)
}

/// Stores the parts of a snapshot; again in shorter ones if the servers take no longer ones.
fn write_fitting(
    server: &Server,
    config: &QuorumConfig,
    store: &mut Store,
    head: KeysHead,
) -> Result<KeysHead, String> {
    let body_bytes_max = store.body_bytes_max;
    match write(server, config, store, head) {
        Err(_) if store.body_bytes_max < body_bytes_max => {
            let subject = config.part_subject(head.number);
            store.purge(&config.snapshot_stream(), &subject, Part::All)?;
            write(server, config, store, head)
        }
        written => written,
    }
}

/// Stores the parts of a snapshot, and reads them back. Returns its head, which is not stored yet.
fn write(
    server: &Server,
    config: &QuorumConfig,
    store: &mut Store,
    mut head: KeysHead,
) -> Result<KeysHead, String> {
    let begun = server.replication.begin_snapshot(server);
    let (mut snapshot, offset, database) = begun.ok_or("another snapshot is being made")?;
    if let Some(misfit) = snapshot.misfit() {
        return Err(misfit.to_string());
    }
    (head.offset, head.database) = (offset, database as u32);
    let (stream, subject) = (config.snapshot_stream(), config.part_subject(head.number));
    let (mut bytes, mut goes_on) = (Vec::new(), true);
    let mut in_flight = VecDeque::new();
    while goes_on || !bytes.is_empty() {
        while goes_on && bytes.len() < store.body_bytes_max {
            store.go_on()?;
            goes_on = snapshot.step(&mut bytes);
        }
        let body: Vec<u8> = bytes
            .drain(..bytes.len().min(store.body_bytes_max))
            .collect();
        let header = KeysHeader {
            is_fence: false,
            is_whole: !goes_on && bytes.is_empty(),
            epoch: head.number,
            offset: head.length,
            history: head.history,
        };
        head.parts += 1;
        head.length += body.len() as u64;
        head.file_checksum = crc32c::crc32c_append(head.file_checksum, &body);
        in_flight
            .push_back(store.begin((&stream, subject.clone()), header.with_body(&body).into())?);
        if in_flight.len() >= PARTS_IN_FLIGHT
            && let Some(tag) = in_flight.pop_front()
        {
            store.stored(tag)?;
        }
    }
    drop(snapshot);
    for tag in in_flight {
        store.stored(tag)?;
    }
    let mut parts = Parts::new(config, head);
    while parts.next(store)?.is_some() {}
    Ok(head)
}

/// A snapshot with changes that are lost would contradict the stream behind it.
fn wait_until_durable(server: &Server, store: &Store, head: &KeysHead) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        store.go_on()?;
        let figures = server.quorum.shown.lock().figures;
        let position = figures.map(|figures| figures.position);
        let is_ours = |history: &HistoryId| *history == head.history;
        match position {
            Some(position) if !is_ours(&position.history) => {
                return Err("another reign has begun meanwhile".to_owned());
            }
            Some(position) if position.whole >= head.offset => return Ok(()),
            _ if begin.elapsed() > DURABLE_WITHIN => {
                return Err("the stream has not acknowledged what it includes".to_owned());
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Removes what is behind the two newest snapshots, and a message that no hub can read with all
/// before it: later primaries see then that no older snapshot can be gone on with.
fn trim(config: &QuorumConfig, store: &mut Store, wrong: u64) -> Result<(), String> {
    let heads = heads(config, store)?;
    let kept = &heads[heads.len().saturating_sub(2)..];
    let behind = match kept {
        [older, newer] => older.sequence.min(newer.sequence),
        _ => 0,
    };
    let behind_wrong = if wrong > 0 { wrong + 1 } else { 0 };
    let before = behind.max(behind_wrong);
    if before > 0 {
        store.purge(&config.stream(), "", Part::Before(before))?;
    }
    let stream = config.snapshot_stream();
    for head in &heads[..heads.len().saturating_sub(2)] {
        store.purge(&stream, &config.part_subject(head.number), Part::All)?;
    }
    store.purge(&stream, &config.head_subject(), Part::AllBut(2))
}

/// Returns the heads, the newest last.
fn heads(config: &QuorumConfig, store: &mut Store) -> Result<Vec<KeysHead>, String> {
    let (stream, subject) = (config.snapshot_stream(), config.head_subject());
    // The leader knows the newest; a copy that is behind is asked again.
    let Some(newest) = store.newest(&stream, &subject)? else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    let mut last = 0;
    while last < newest.sequence {
        for entry in store.fetch(&stream, &subject, last)? {
            last = entry.sequence;
            entries.push(entry);
        }
    }
    let mut heads = Vec::new();
    for entry in entries {
        match KeysHead::decode(&entry.payload) {
            Some(head) => heads.push(head),
            None => error!(
                sequence = entry.sequence,
                "keys: the head of a snapshot is damaged"
            ),
        }
    }
    Ok(heads)
}

/// Loads the newest snapshot that is whole. Returns its head; `None` if there is none. An error is
/// one of NATS: that must be tried again.
pub(super) fn load(
    server: &Server,
    config: &QuorumConfig,
    is_stopped: &Arc<AtomicBool>,
) -> Result<Option<KeysHead>, String> {
    let mut store = Store::open(config, is_stopped.clone()).map_err(|error| error.to_string())?;
    for head in heads(config, &mut store)?.into_iter().rev() {
        // First all of it is checked, then it is loaded.
        if !is_whole(config, &mut store, head)? {
            continue;
        }
        let mut parts = Parts::new(config, head);
        let place = (head.offset, head.database as usize);
        let loaded = server
            .replication
            .load_parts(server, place, || parts.next(&mut store));
        match loaded {
            Ok(()) => {
                let (offset, bytes) = (head.offset, head.length);
                info!(offset, bytes, "keys: a snapshot is loaded");
                return Ok(Some(head));
            }
            Err(text) => error!("keys: a snapshot cannot be loaded: {text}"),
        }
    }
    Ok(None)
}

/// Returns the head of the newest snapshot that is whole; `None` if there is none.
pub(super) fn newest(
    config: &QuorumConfig,
    is_stopped: &Arc<AtomicBool>,
) -> Result<Option<KeysHead>, String> {
    let mut store = Store::open(config, is_stopped.clone()).map_err(|error| error.to_string())?;
    for head in heads(config, &mut store)?.into_iter().rev() {
        if is_whole(config, &mut store, head)? {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Reads a snapshot to its end. An error is one of NATS.
fn is_whole(config: &QuorumConfig, store: &mut Store, head: KeysHead) -> Result<bool, String> {
    let mut parts = Parts::new(config, head);
    loop {
        match parts.next(store) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(text) if parts.is_unreadable => {
                error!("keys: a snapshot is not used: {text}");
                return Ok(false);
            }
            Err(text) => return Err(text),
        }
    }
}

/// The parts of a snapshot, read one after the other and checked.
struct Parts {
    stream: String,
    subject: String,
    head: KeysHead,
    fetched: VecDeque<tidewire_nats::Entry>,
    after: u64,
    count: u32,
    length: u64,
    checksum: u32,
    empty: u32,
    /// It is not NATS that fails, but the snapshot.
    is_unreadable: bool,
}

impl Parts {
    fn new(config: &QuorumConfig, head: KeysHead) -> Parts {
        Parts {
            stream: config.snapshot_stream(),
            subject: config.part_subject(head.number),
            head,
            fetched: VecDeque::new(),
            after: 0,
            count: 0,
            length: 0,
            checksum: 0,
            empty: 0,
            is_unreadable: false,
        }
    }

    fn unreadable<T>(&mut self, text: &str) -> Result<T, String> {
        self.is_unreadable = true;
        let number = self.head.number;
        Err(format!(
            "snapshot {number:016x}, part {}: {text}",
            self.count
        ))
    }

    fn next(&mut self, store: &mut Store) -> Result<Option<Vec<u8>>, String> {
        if self.count == self.head.parts {
            let found = (self.length, self.checksum);
            return match found == (self.head.length, self.head.file_checksum) {
                true => Ok(None),
                false => self.unreadable("its file has another length or checksum"),
            };
        }
        while self.fetched.is_empty() {
            let fetched = store.fetch(&self.stream, &self.subject, self.after)?;
            self.empty = if fetched.is_empty() {
                self.empty + 1
            } else {
                0
            };
            if self.empty > EMPTY_MAX {
                return self.unreadable("it is missing");
            }
            if fetched.is_empty() {
                // A copy may be behind.
                std::thread::sleep(LOOK_EVERY);
            }
            self.fetched.extend(fetched);
        }
        let Some(entry) = self.fetched.pop_front() else {
            return self.unreadable("it is missing");
        };
        self.after = entry.sequence;
        let body = match KeysFrame::decode(&entry.payload) {
            Ok(frame) if frame.header.offset == self.length => frame.body.to_vec(),
            Ok(_) => return self.unreadable("it is not the next one"),
            Err(error) => return self.unreadable(&error.to_string()),
        };
        self.count += 1;
        self.length += body.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, &body);
        Ok(Some(body))
    }
}

/// How often a copy may have nothing of a part that must be there.
const EMPTY_MAX: u32 = 250;
