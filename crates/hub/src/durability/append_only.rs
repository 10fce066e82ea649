//! The append-only file: one thread writes what the keyspace tells to the last increment, and waits
//! for the disk, so that no lane does.
//!
//! With `appendfsync always` a lane sends the replies of its turn only when all that was told
//! until then is on the disk: it waits for the thread, and all lanes that wait share one fsync.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidewire_durability::Manifest;
use tidewire_keyspace::{Audience, Log};
use tracing::{error, warn};

use super::{Durability, LOG_FAILED};
use crate::hub::{Hub, unix_ms};

/// The append-only file, on or off.
#[derive(Debug, Default)]
pub(crate) struct AppendOnly {
    is_on: AtomicBool,
    /// Held while it is turned on or off: a lane, and who follows a master, may want to at once.
    pub(super) turning: Mutex<()>,
    /// `appendfsync`, one of the constants below.
    policy: AtomicU8,
    /// `aof-timestamp-enabled`: the time is noted between commands.
    stamps: AtomicBool,
    /// The thread runs.
    is_writing: AtomicBool,
    /// Ended for as long as a master's file of all keys is loaded.
    is_suspended: AtomicBool,
    /// Switched on, and the first base is still to be written: nothing is kept yet.
    is_beginning: AtomicBool,
    /// Offsets in the log: what is written to the file, and what is on the disk.
    written: AtomicU64,
    synced: AtomicU64,
    /// The disk is waited for until here at once, whatever the policy.
    wanted: AtomicU64,
    /// The thread sleeps for long and wants to be woken.
    is_idle: AtomicBool,
    orders: Mutex<Orders>,
    /// To the thread: there is something to do.
    news: Condvar,
    /// From the thread: something was done.
    done: Condvar,
    pub(super) files: Mutex<Files>,
    writer: Mutex<Option<JoinHandle<()>>>,
    has_failed: AtomicBool,
    /// Bytes of the base and of all increments; and when the base was written.
    pub(super) bytes: AtomicU64,
    pub(super) base_bytes: AtomicU64,
    pub(super) rewrites: Rewrites,
}

/// How rewriting went.
#[derive(Debug)]
pub(super) struct Rewrites {
    pub(super) count: AtomicU64,
    pub(super) has_failed: AtomicBool,
    /// Failures since the last that went well.
    pub(super) failures: AtomicU64,
    pub(super) last_took_s: AtomicI64,
    pub(super) last_try_s: AtomicI64,
}

/// What the thread is told.
#[derive(Debug, Default)]
struct Orders {
    /// From this offset on it writes to another file.
    switch: Option<(u64, File)>,
    closing: bool,
}

/// The files that there are.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) manifest: Manifest,
    /// The manifest on the disk leads to all keys.
    pub(super) is_complete: bool,
}

impl Default for Rewrites {
    fn default() -> Self {
        Rewrites {
            count: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            last_took_s: AtomicI64::new(-1),
            last_try_s: AtomicI64::new(0),
        }
    }
}

impl AppendOnly {
    /// Whether changes are written.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    pub(super) fn set_on(&self, on: bool) {
        self.is_on.store(on, Ordering::Release);
    }

    pub(super) fn set_beginning(&self, on: bool) {
        self.is_beginning.store(on, Ordering::Release);
    }

    pub(super) fn is_beginning(&self) -> bool {
        self.is_beginning.load(Ordering::Acquire)
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Acquire)
    }

    /// Waits until changes are written, or what is to begin that `is_coming` no more.
    pub(super) fn wait_until_writing(&self, is_coming: impl Fn() -> bool) {
        while !self.is_writing() && is_coming() {
            std::thread::sleep(NAP);
        }
    }

    /// Whether writing or waiting for the disk has failed, and not gone well since.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(super) fn follow_policy(&self, hub: &Hub) {
        let policy = match hub.parameters.text("appendfsync").as_str() {
            "always" => ALWAYS,
            "no" => NEVER,
            _ => EACH_SECOND,
        };
        self.policy.store(policy, Ordering::Release);
        let stamps = super::is_yes(hub, "aof-timestamp-enabled");
        self.stamps.store(stamps, Ordering::Release);
    }

    /// To be called before a turn's replies are sent: waits until what they tell of is as durable
    /// as was promised. One load while there is no append-only file.
    #[inline]
    pub(crate) fn before_replies(&self, hub: &Hub) {
        if self.is_writing.load(Ordering::Relaxed) {
            self.wait_for_disk(hub);
        }
    }

    #[cold]
    fn wait_for_disk(&self, hub: &Hub) {
        let end = log_of(hub).end();
        let is_always = self.policy.load(Ordering::Acquire) == ALWAYS;
        let is_behind = || match is_always {
            true => self.synced.load(Ordering::Acquire) < end,
            false => end.saturating_sub(self.written.load(Ordering::Acquire)) > UNWRITTEN_BYTES_MAX,
        };
        if is_behind() {
            self.wait_while(is_behind);
        }
    }

    /// Whether what lies before an offset of the log is on the disk.
    pub(crate) fn has_synced(&self, offset: u64) -> bool {
        let is_kept = self.is_writing() && !self.is_beginning.load(Ordering::Acquire);
        is_kept && self.synced.load(Ordering::Acquire) >= offset
    }

    /// Waits until all that has been told until now is on the disk.
    pub(crate) fn sync_now(&self, hub: &Hub) {
        let end = log_of(hub).end();
        self.wanted.fetch_max(end, Ordering::AcqRel);
        self.wait_while(|| self.synced.load(Ordering::Acquire) < end);
    }

    fn wait_while(&self, goes_on: impl Fn() -> bool) {
        let mut orders = self.orders.lock();
        while goes_on() && self.is_writing() {
            self.news.notify_one();
            self.done.wait_for(&mut orders, LOOK_AGAIN);
        }
    }

    /// Bytes that are told and not written.
    pub(crate) fn unwritten_bytes(&self, hub: &Hub) -> u64 {
        let end = log_of(hub).end();
        end.saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// Bytes of memory behind these.
    pub(crate) fn buffer_bytes(&self, hub: &Hub) -> u64 {
        match self.is_writing() {
            true => log_of(hub).memory_bytes(),
            false => 0,
        }
    }

    pub(crate) fn numbers(&self) -> LogNumbers {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogNumbers {
            bytes: read(&self.bytes),
            base_bytes: read(&self.base_bytes),
            rewrites: read(&self.rewrites.count),
            failures: read(&self.rewrites.failures),
            rewrite_failed: self.rewrites.has_failed.load(Ordering::Relaxed),
            rewrite_took_s: self.rewrites.last_took_s.load(Ordering::Relaxed),
        }
    }

    /// From an offset of the log on another file is written. Shards may be locked.
    pub(super) fn switch(&self, at: u64, file: File) {
        self.orders.lock().switch = Some((at, file));
        self.news.notify_one();
    }

    /// Starts the thread, which writes to a file from an offset of the log on. Shards may be
    /// locked.
    pub(super) fn start(&self, hub: &Arc<Hub>, file: File, at: u64) -> io::Result<()> {
        for offset in [&self.written, &self.synced] {
            offset.store(at, Ordering::Release);
        }
        *self.orders.lock() = Orders::default();
        self.is_writing.store(true, Ordering::Release);
        let waking = Arc::downgrade(hub);
        log_of(hub).set_waker(move || {
            if let Some(hub) = waking.upgrade() {
                let log = &hub.durability.log;
                if log.is_idle.load(Ordering::Relaxed) && log.is_idle.swap(false, Ordering::AcqRel)
                {
                    log.news.notify_one();
                }
            }
        });
        let writer = LogWriter {
            hub: hub.clone(),
            length: file.metadata()?.len(),
            file,
            at,
            synced_at: Instant::now(),
            busy_at: Instant::now(),
            stamped_s: 0,
            buffer: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("append-only".to_owned());
        let spawned = thread.spawn(move || writer.run());
        if spawned.is_err() {
            self.is_writing.store(false, Ordering::Release);
        }
        *self.writer.lock() = Some(spawned?);
        Ok(())
    }

    /// Lets the thread write and sync all that it was told, and end.
    pub(super) fn stop(&self) {
        self.orders.lock().closing = true;
        self.news.notify_one();
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
        self.is_writing.store(false, Ordering::Release);
        self.done.notify_all();
    }
}

/// What INFO shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogNumbers {
    pub(crate) bytes: u64,
    pub(crate) base_bytes: u64,
    pub(crate) rewrites: u64,
    pub(crate) failures: u64,
    pub(crate) rewrite_failed: bool,
    pub(crate) rewrite_took_s: i64,
}

/// The thread that writes.
struct LogWriter {
    hub: Arc<Hub>,
    file: File,
    /// Bytes of the file.
    length: u64,
    /// The offset in the log that is written next.
    at: u64,
    synced_at: Instant,
    /// When there was last something to write.
    busy_at: Instant,
    /// The time that was noted last, seconds since the UNIX epoch.
    stamped_s: i64,
    buffer: Vec<u8>,
}

impl LogWriter {
    fn run(mut self) {
        let hub = self.hub.clone();
        let (own, log) = (&hub.durability.log, log_of(&hub));
        loop {
            let (closing, switch_at) = {
                let orders = own.orders.lock();
                (orders.closing, orders.switch.as_ref().map(|(at, _)| *at))
            };
            let end = log.end();
            let until = switch_at.map_or(end, |at| at.min(end));
            if self.at < until && own.stamps.load(Ordering::Acquire) {
                self.stamp(closing);
            }
            while self.at < until {
                self.copy(log, until, closing);
            }
            if switch_at == Some(self.at) {
                self.sync(closing);
                let next = own.orders.lock().switch.take();
                if let Some((_, file)) = next {
                    self.file = file;
                    (self.length, self.stamped_s) = (0, 0);
                }
                continue;
            }
            if self.is_sync_due(own) || closing {
                self.sync(closing);
            }
            own.done.notify_all();
            if closing && self.at == log.end() {
                return;
            }
            self.rest(own, log);
        }
    }

    /// Waits for something to do.
    fn rest(&mut self, own: &AppendOnly, log: &Log) {
        let mut orders = own.orders.lock();
        let is_unsynced = own.synced.load(Ordering::Acquire) < self.at;
        let is_busy = self.busy_at.elapsed() < BUSY || is_unsynced;
        own.is_idle.store(!is_busy, Ordering::SeqCst);
        let waits = log.end() == self.at && orders.switch.is_none() && !orders.closing;
        if waits && !self.is_sync_due(own) {
            let nap = if is_busy { NAP } else { LONG_NAP };
            own.news.wait_for(&mut orders, nap);
        }
        own.is_idle.store(false, Ordering::SeqCst);
    }

    fn is_sync_due(&self, own: &AppendOnly) -> bool {
        let synced = own.synced.load(Ordering::Acquire);
        let by_policy = match own.policy.load(Ordering::Acquire) {
            ALWAYS => true,
            NEVER => false,
            _ => self.synced_at.elapsed() >= SYNC_EACH,
        };
        synced < self.at && (by_policy || synced < own.wanted.load(Ordering::Acquire))
    }

    /// Writes what the log has, at most up to an offset.
    fn copy(&mut self, log: &Log, until: u64, closing: bool) {
        self.buffer.clear();
        let bytes_max = COPY_BYTES.min((until - self.at) as usize);
        let next = match log.read(self.at, bytes_max, &mut self.buffer) {
            Ok(next) => next,
            Err(gone) => {
                // Nobody else trims this log.
                error!(%gone, "commands are missing in the append-only file");
                self.at = gone.oldest;
                return;
            }
        };
        self.write(closing);
        let own = &self.hub.durability.log;
        self.at = next;
        self.busy_at = Instant::now();
        own.written.store(next, Ordering::Release);
        self.note_success();
        log.trim(next);
    }

    /// Notes the time, between two commands.
    fn stamp(&mut self, closing: bool) {
        let now_s = unix_ms() / 1_000;
        if now_s != self.stamped_s {
            self.stamped_s = now_s;
            self.buffer.clear();
            self.buffer
                .extend_from_slice(format!("#TS:{now_s}\r\n").as_bytes());
            self.write(closing);
        }
    }

    /// Writes the buffer to the file.
    fn write(&mut self, closing: bool) {
        while let Err(error) = self.file.write_all(&self.buffer) {
            // What was written of it must not stay: it will be written again.
            if let Err(error) = self.file.set_len(self.length) {
                warn!(%error, "the append-only file may have half a command");
            }
            if !self.note_failure(&error) || closing {
                break;
            }
        }
        self.length += self.buffer.len() as u64;
        let bytes = &self.hub.durability.log.bytes;
        bytes.fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
    }

    /// Waits for the disk.
    fn sync(&mut self, closing: bool) {
        let own = &self.hub.durability.log;
        while let Err(error) = self.file.sync_data() {
            if !self.note_failure(&error) || closing {
                return;
            }
        }
        self.synced_at = Instant::now();
        own.synced.store(self.at, Ordering::Release);
        // With the lock, so that nobody looks just before and waits just after.
        drop(own.orders.lock());
        own.done.notify_all();
        self.hub.replication.serve_waits(&self.hub);
    }

    /// The disk does not take it: writes are refused, and it is tried again a little later.
    fn note_failure(&self, error: &io::Error) -> bool {
        let own = &self.hub.durability.log;
        if !own.has_failed.swap(true, Ordering::AcqRel) {
            error!(%error, "the append-only file cannot be written");
        }
        if own.policy.load(Ordering::Acquire) == ALWAYS {
            // Clients wait for what can neither be promised nor taken back.
            error!("appendfsync is 'always': the server ends");
            std::process::exit(1);
        }
        self.hub.durability.set_hindrance(LOG_FAILED, true);
        std::thread::sleep(RETRY);
        true
    }

    fn note_success(&self) {
        let durability = &self.hub.durability;
        if durability.log.has_failed.load(Ordering::Relaxed) {
            durability.log.has_failed.store(false, Ordering::Release);
            durability.set_hindrance(LOG_FAILED, false);
            warn!("the append-only file can be written again");
        }
    }
}

impl Durability {
    /// Ends the append-only file; what it has stays.
    pub(super) fn stop_log(&self, hub: &Hub) {
        if !self.log.is_on() {
            return;
        }
        self.log.set_on(false);
        hub.replication.refuse_file_waits(hub);
        self.cancel(super::Job::Rewrite);
        if self.log.is_writing() {
            self.log.stop();
            hub.keyspace.propagation().close(Audience::File);
        }
        self.set_hindrance(LOG_FAILED, false);
    }
}

impl Durability {
    /// Ends the append-only file for a while: the keys are about to be replaced, which is not told.
    pub(crate) fn suspend_log(&self, hub: &Hub) {
        let _turning = self.log.turning.lock();
        if self.log.is_on() {
            self.log.is_suspended.store(true, Ordering::Release);
            self.stop_log(hub);
        }
    }

    /// Begins it anew after [`suspend_log`](Self::suspend_log), with a base of what is there now.
    pub(crate) fn resume_log(&self, hub: &Hub) {
        let _turning = self.log.turning.lock();
        let was_suspended = self.log.is_suspended.swap(false, Ordering::AcqRel);
        if !was_suspended || !super::is_yes(hub, "appendonly") || self.log.is_on() {
            return;
        }
        if let Err(error) = self.begin_log(hub) {
            error!(%error, "the append-only file cannot be begun again");
        }
    }

    /// Whether it has ended for a while.
    pub(super) fn is_log_suspended(&self) -> bool {
        self.log.is_suspended.load(Ordering::Acquire)
    }
}

pub(super) fn log_of(hub: &Hub) -> &Log {
    hub.keyspace.propagation().log(Audience::File)
}

/// Opens a file of the append-only file to go on with it.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The folder with the files, and the beginning of their names.
pub(super) fn folder(hub: &Hub) -> (PathBuf, String) {
    let folder = super::directory(hub).join(hub.parameters.text("appenddirname"));
    (folder, hub.parameters.text("appendfilename"))
}

const EACH_SECOND: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// Lanes wait for the thread above so many bytes.
const UNWRITTEN_BYTES_MAX: u64 = 64 << 20;
const COPY_BYTES: usize = 256 << 10;
const SYNC_EACH: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// For so long after something was written the thread looks by itself, and no lane wakes it.
const BUSY: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(2);
const LONG_NAP: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_secs(1);
