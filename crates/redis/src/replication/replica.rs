//! One replica, as its lane, the thread that makes its file, and INFO share it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use tidewire_keyspace::FileVersion;

use crate::clients::Client;

/// What INFO and ROLE tell of a replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaStatus {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) phase: Phase,
    pub(crate) acked: u64,
    /// Since it was last heard of, seconds.
    pub(crate) lag_s: i64,
}

impl ReplicaStatus {
    /// Whether it has said that it has everything before an offset.
    pub(crate) fn has(&self, offset: u64) -> bool {
        self.phase == Phase::Online && self.acked >= offset
    }
}

/// A replica and how far it is.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) client: Arc<Client>,
    /// Where it says that it can be reached.
    pub(crate) address: String,
    pub(crate) port: u16,
    /// It came with PSYNC, and acknowledges what it has.
    pub(crate) acknowledges: bool,
    pub(crate) wanted: WantedOfFile,
    phase: AtomicU8,
    /// Offset of the next byte of the stream that it is to get.
    sent: AtomicU64,
    acked: AtomicU64,
    /// What it has on its disk, if it says so.
    acked_on_disk: AtomicU64,
    /// It has acknowledged anything, in memory and on its disk. Offset 0 alone is also that of a
    /// replica that is still loading.
    has_acked: AtomicBool,
    has_acked_on_disk: AtomicBool,
    /// When it was last heard of, ms since the UNIX epoch.
    acked_ms: AtomicI64,
    file: Mutex<File>,
    /// There is room for more of the file.
    room: Condvar,
    has_left: AtomicBool,
    /// It gets an error in the place of a file.
    is_refused: AtomicBool,
    /// See [`out_bytes`](Self::out_bytes); of its connection.
    out_bytes: AtomicU64,
}

/// What a replica wants of its file, as REPLCONF has said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WantedOfFile {
    /// It finds the end of the file by a mark, and wants nothing behind it until it has said so.
    pub(crate) takes_mark: bool,
    /// Nothing at all behind it.
    pub(crate) is_all: bool,
    pub(crate) without_keys: bool,
    pub(crate) without_libraries: bool,
    /// In this version, as the replica has said which server it is.
    pub(crate) version: Option<FileVersion>,
}

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its file is still to be begun.
    Waiting = 0,
    /// It gets its file.
    Loading = 1,
    /// It has all of the file, and has not said so yet.
    Loaded = 2,
    /// It gets the stream.
    Online = 3,
}

/// The parts of a file that are made and not sent yet.
#[derive(Debug, Default)]
struct File {
    parts: VecDeque<Vec<u8>>,
    bytes: usize,
    is_whole: bool,
}

impl File {
    fn assert_invariants(&self) {
        debug_assert_eq!(
            self.bytes,
            self.parts.iter().map(Vec::len).sum::<usize>(),
            "the bytes of a file are those of its parts"
        );
    }
}

impl Replica {
    /// A replica that is to get everything.
    pub(crate) fn new(
        client: Arc<Client>,
        address: String,
        port: u16,
        acknowledges: bool,
        wanted: WantedOfFile,
        now_ms: i64,
    ) -> Self {
        Replica {
            client,
            address,
            port,
            acknowledges,
            wanted,
            phase: AtomicU8::new(Phase::Waiting as u8),
            sent: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            acked_on_disk: AtomicU64::new(0),
            has_acked: AtomicBool::new(false),
            has_acked_on_disk: AtomicBool::new(false),
            acked_ms: AtomicI64::new(now_ms),
            file: Mutex::default(),
            room: Condvar::new(),
            has_left: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            out_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Waiting,
            1 => Phase::Loading,
            2 => Phase::Loaded,
            _ => Phase::Online,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        debug_assert!(
            self.phase() as u8 <= phase as u8,
            "a replica's phases follow each other"
        );
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Its file stands for this offset of the stream.
    pub(crate) fn begin_at(&self, offset: u64) {
        self.set_sent(offset);
        self.set_phase(Phase::Loading);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    pub(crate) fn set_sent(&self, offset: u64) {
        self.sent.store(offset, Ordering::Release);
    }

    /// Bytes of memory behind what is on its way to it.
    pub(crate) fn out_bytes(&self) -> u64 {
        self.out_bytes.load(Ordering::Relaxed) + self.file.lock().bytes as u64
    }

    pub(crate) fn set_out_bytes(&self, bytes: u64) {
        self.out_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Offset from which the stream must be kept for it.
    pub(crate) fn needed_from(&self) -> Option<u64> {
        (self.phase() != Phase::Waiting).then(|| self.sent())
    }

    /// REPLCONF ACK.
    pub(crate) fn acknowledge(&self, offset: u64, on_disk: Option<u64>, now_ms: i64) {
        self.acked.fetch_max(offset, Ordering::AcqRel);
        self.has_acked.store(true, Ordering::Release);
        if let Some(on_disk) = on_disk {
            self.acked_on_disk.fetch_max(on_disk, Ordering::AcqRel);
            self.has_acked_on_disk.store(true, Ordering::Release);
        }
        self.heard_of(now_ms);
    }

    pub(crate) fn heard_of(&self, now_ms: i64) {
        self.acked_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether it has all before an offset.
    pub(crate) fn has(&self, offset: u64) -> bool {
        self.phase() == Phase::Online
            && self.has_acked.load(Ordering::Acquire)
            && self.acked.load(Ordering::Acquire) >= offset
    }

    /// Whether it has it on its disk.
    pub(crate) fn has_on_disk(&self, offset: u64) -> bool {
        self.has(offset)
            && self.has_acked_on_disk.load(Ordering::Acquire)
            && self.acked_on_disk.load(Ordering::Acquire) >= offset
    }

    /// Whether it follows, and was heard of lately.
    pub(crate) fn keeps_up(&self, now_ms: i64, lag_ms_max: i64) -> bool {
        self.phase() == Phase::Online && self.silent_ms(now_ms) <= lag_ms_max
    }

    /// Since it was last heard of, ms.
    pub(crate) fn silent_ms(&self, now_ms: i64) -> i64 {
        now_ms - self.acked_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self, now_ms: i64) -> ReplicaStatus {
        let phase = self.phase();
        let lag_ms = match phase {
            Phase::Loaded | Phase::Online => self.silent_ms(now_ms),
            _ => 0,
        };
        ReplicaStatus {
            address: self.address.clone(),
            port: self.port,
            phase,
            acked: self.acked.load(Ordering::Relaxed),
            lag_s: (lag_ms / 1_000).max(0),
        }
    }

    /// Adds to its file, when there is room; false if it has left.
    pub(crate) fn push(&self, part: Vec<u8>, is_bounded: bool) -> bool {
        let mut file = self.file.lock();
        while is_bounded && file.bytes > FILE_BYTES_MAX && !self.has_left() {
            self.room.wait(&mut file);
        }
        debug_assert!(!file.is_whole, "nothing comes behind the end of a file");
        file.bytes += part.len();
        file.parts.push_back(part);
        file.assert_invariants();
        !self.has_left()
    }

    /// All of its file is there.
    pub(crate) fn finish(&self) {
        self.file.lock().is_whole = true;
    }

    /// Sends an error in place of a file; the connection closes behind it.
    pub(crate) fn refuse(&self, error: Vec<u8>) {
        self.push(error, false);
        self.cut_short();
    }

    /// It gets no more of its file: its connection ends behind what it has got.
    pub(crate) fn cut_short(&self) {
        self.is_refused.store(true, Ordering::Release);
        self.finish();
    }

    /// Whether nothing follows what it gets now.
    pub(crate) fn ends_then(&self) -> bool {
        self.wanted.is_all || self.is_refused.load(Ordering::Acquire)
    }

    /// Takes the next part of its file. Returns also whether that was the last one.
    pub(crate) fn take_part(&self) -> (Option<Vec<u8>>, bool) {
        let mut file = self.file.lock();
        let part = file.parts.pop_front();
        file.bytes -= part.as_ref().map_or(0, Vec::len);
        file.assert_invariants();
        self.room.notify_all();
        (part, file.is_whole && file.parts.is_empty())
    }

    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    pub(crate) fn leave(&self) {
        let mut file = self.file.lock();
        self.has_left.store(true, Ordering::Release);
        file.parts.clear();
        file.bytes = 0;
        file.assert_invariants();
        self.room.notify_all();
    }
}

impl Phase {
    /// As INFO has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            // It is sent while it is made: Redis shows that as the wait for a snapshot.
            Phase::Waiting | Phase::Loading => "wait_bgsave",
            Phase::Loaded | Phase::Online => "online",
        }
    }
}

/// Bytes of a file that may wait for the lane; above that the thread that makes it waits.
const FILE_BYTES_MAX: usize = 16 << 20;
