//! The append-only file: changes of keys are written to the last increment before any client gets
//! its reply.
//!
//! At the end of its turn a lane writes all changes logged until then in one call, and then sends
//! its replies. It never waits: if another thread is writing, or the disk is slow or fails, the
//! lane holds its replies back and goes on. A thread then writes ([`writing`](super::writing)),
//! wakes the lanes, and calls fsync as the policy says.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use crate::durability::log_files::{LogSource, LogWriter};
use tidewire_fanout::bits;
use tidewire_files::AppendFile;
use tidewire_keyspace::{Audience, Log};
use tracing::{error, warn};

use super::files::log_folder;
use super::state::{ALWAYS, AppendOnly, Durability, EACH_SECOND, Hold, NEVER};
use crate::attention::Obstacles;
use crate::background::Background;
use crate::durability::state::Orders;
use crate::parameters::{AOF_TIMESTAMP_ENABLED, APPENDFSYNC, APPENDONLY};
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};

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

    #[inline]
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// Waits until changes are written, or what is to begin that `is_coming` no more.
    pub(super) fn wait_until_writing(&self, server: &Server, is_coming: impl Fn() -> bool) {
        while !self.is_writing() && is_coming() {
            server.durability.background.pause(NAP);
        }
    }

    /// Whether its files are in another directory than new ones would be.
    pub(super) fn is_elsewhere(&self, server: &Server) -> bool {
        let files = self.files.lock();
        let here = log_folder(server);
        files
            .folder
            .as_ref()
            .is_some_and(|folder| folder.path() != here.path())
    }

    /// Whether writing or waiting for the disk has failed, and not gone well since.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether the first base of a new append-only file is being written, or soon will be.
    pub(super) fn is_first_base_under_way(&self) -> bool {
        let has_failed = self.rewrites.has_failed.load(Ordering::Relaxed);
        self.is_on() && self.is_beginning() && !has_failed
    }

    /// Whether changes may be lost: they cannot be written, or the first base of a new append-only
    /// file could not be.
    pub(crate) fn is_failing(&self) -> bool {
        let lacks_base = self.is_on() && self.is_beginning();
        self.has_failed() || lacks_base && self.rewrites.has_failed.load(Ordering::Relaxed)
    }

    pub(super) fn follow_policy(&self, server: &Server) {
        let policy = match server.parameters.read(APPENDFSYNC) {
            "always" => ALWAYS,
            "no" => NEVER,
            _ => EACH_SECOND,
        };
        self.policy.store(policy, Ordering::Release);
        let stamps = server.parameters.read(AOF_TIMESTAMP_ENABLED);
        self.stamps.store(stamps, Ordering::Release);
        // What clients wait for may be promised now.
        self.tell_lanes(server);
    }

    pub(super) fn is_always(&self) -> bool {
        self.policy.load(Ordering::Acquire) == ALWAYS
    }

    pub(super) fn is_never(&self) -> bool {
        self.policy.load(Ordering::Acquire) == NEVER
    }

    /// At the end of a lane's turn: writes the changes logged until now, unless that would block.
    /// `holds`: the lane holds back replies of an earlier turn. Returns the offset up to which
    /// replies may be sent, and which replies of this turn must wait.
    pub(crate) fn settle(&self, server: &Server, lane: usize, holds: bool) -> (u64, Hold) {
        let is_behind = self.written.load(Ordering::Acquire) < log_of(server).end();
        if is_behind && !self.is_stuck() {
            self.write_on_lane(server);
        }
        let (durable, hold) = self.look(server);
        if hold == Hold::Nothing && !holds {
            return (durable, hold);
        }
        self.wake();
        self.holding.fetch_or(1 << lane, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if is_behind && !self.is_stuck() {
            // An fsync has just ended, perhaps before this lane's bit was set.
            self.write_on_lane(server);
        }
        // Anything that is done from here on wakes the lane.
        self.look(server)
    }

    /// Returns what must be written for everything so far to be safe; `None` without a file.
    pub(crate) fn mark(&self, server: &Server) -> Option<FileMark> {
        self.is_writing().then(|| FileMark(log_of(server).end()))
    }

    /// Returns whether a reply to a change before the mark may leave.
    pub(crate) fn has(&self, server: &Server, mark: FileMark) -> bool {
        !self.is_writing() || self.look(server).0 >= mark.0
    }

    fn look(&self, server: &Server) -> (u64, Hold) {
        let end = log_of(server).end();
        let written = self.written.load(Ordering::SeqCst);
        let durable = match self.is_always() {
            true => self.synced.load(Ordering::SeqCst),
            false => written,
        };
        let hold = match durable {
            durable if durable >= end => Hold::Nothing,
            _ if written >= end || self.is_stuck() => Hold::Writers(end),
            _ => Hold::Everything(end),
        };
        (durable, hold)
    }

    /// Whether the disk fails or is slow.
    pub(crate) fn is_stuck(&self) -> bool {
        self.has_failed() || self.is_slow.load(Ordering::Relaxed) || self.yields()
    }

    /// Whether lanes leave writing until the disk has been waited for.
    fn yields(&self) -> bool {
        self.is_syncing.load(Ordering::SeqCst) && self.yields_to_sync.load(Ordering::Relaxed)
    }

    /// Notes that an fsync begins or ends. Many file systems block a write to a file during its
    /// fsync: once a lane was blocked so, lanes write only before and after an fsync.
    pub(super) fn set_syncing(&self, is_syncing: bool) {
        self.is_syncing.store(is_syncing, Ordering::SeqCst);
    }

    /// A lane's write took long. With `always` the thread writes best, as it syncs all the time.
    fn note_slow_write(&self, met_sync: bool) {
        match met_sync && !self.is_always() {
            true => self.yields_to_sync.store(true, Ordering::Relaxed),
            false => self.is_slow.store(true, Ordering::Release),
        }
    }

    /// Writes, unless another thread does: that thread checks for more when it is done.
    fn write_on_lane(&self, server: &Server) {
        let log = log_of(server);
        // Before the look at the lock, as its holder looks at the log behind letting it go: one of
        // the two sees the other.
        fence(Ordering::SeqCst);
        while let Some(mut writer) = self.writer.try_lock() {
            let Some(writer_of_log) = writer.as_mut() else {
                return;
            };
            let started = instant();
            let syncs = self.is_syncing.load(Ordering::SeqCst);
            let written = self.write_out(server, writer_of_log);
            drop(writer);
            self.tell_lanes(server);
            match written {
                Ok(false) => {}
                // The thread goes on to the next file.
                Ok(true) => return,
                Err(error) => return self.note_failure(server, &error),
            }
            if (instant() - started) > SLOW_WRITE {
                let met_sync = syncs || self.is_syncing.load(Ordering::SeqCst);
                return self.note_slow_write(met_sync);
            }
            fence(Ordering::SeqCst);
            if log.end() <= self.written.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Writes all logged changes, or those before a switch. Returns true at the switch.
    pub(super) fn write_out(&self, server: &Server, writer: &mut LogWriter) -> io::Result<bool> {
        let log = log_of(server);
        writer.set_keeping(!self.is_never());
        // First the end: what lies behind a switch was told after it was ordered.
        let end = log.end();
        let switch_at = match self.switch_ordered.load(Ordering::Acquire) {
            true => self.orders.lock().switch.as_ref().map(|(at, _)| *at),
            false => None,
        };
        let until = switch_at.map_or(end, |at| at.min(end));
        debug_assert_eq!(
            writer.at(),
            self.written.load(Ordering::SeqCst),
            "what counts as written ends where the writer is"
        );
        debug_assert!(
            switch_at.is_none_or(|at| writer.at() <= at),
            "nothing behind a switch is in the file before it"
        );
        if writer.at() < until {
            let bytes = writer.write(&PropagationLog(log), until, self.stamp().as_bytes())?;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.written.store(until, Ordering::SeqCst);
            log.trim(until);
        }
        Ok(switch_at == Some(writer.at()))
    }

    /// Switches to the next file. The file before is on the disk: if it were torn there and the
    /// next one were not, nothing could be loaded.
    pub(super) fn go_on(&self, writer: &mut LogWriter) {
        if let Some((at, file)) = self.orders.lock().switch.take() {
            // Commands in the wrong file would be lost, or executed twice by the next start.
            assert_eq!(at, writer.at(), "the file before a switch is whole");
            self.switch_ordered.store(false, Ordering::Release);
            writer.switch(file);
            self.stamped_s.store(0, Ordering::Relaxed);
        }
    }

    /// Notes in the manifest how long the increment is that another one is about to follow, and of
    /// which an fsync has failed: a machine that fails may leave less of it on the disk, and what
    /// follows is worth nothing then.
    pub(super) fn note_unsynced(&self, background: &Background) -> io::Result<()> {
        let _naming = background.lock(&self.naming);
        let file = self.writer.lock().as_ref().map(LogWriter::file);
        let (folder, mut manifest, is_complete) = {
            let files = self.files.lock();
            let (folder, manifest) = (files.folder.clone(), files.manifest.clone());
            (folder, manifest, files.is_complete)
        };
        // Where the first base is missing the manifest says nothing of the file, nor where a new
        // base has taken its place.
        if let (Some(folder), Some((name, length)), true) = (folder, file, is_complete)
            && manifest.note_unsynced(&name, length)
        {
            folder.write_manifest(&manifest)?;
            self.files.lock().manifest = manifest;
        }
        Ok(())
    }

    /// The comment with the time, if `aof-timestamp-enabled` asks for one now.
    fn stamp(&self) -> String {
        if !self.stamps.load(Ordering::Acquire) {
            return String::new();
        }
        let now_s = unix_ms() / 1_000;
        match self.stamped_s.swap(now_s, Ordering::Relaxed) {
            before if before == now_s => String::new(),
            _ => format!("#TS:{now_s}\r\n"),
        }
    }

    /// Wakes the lanes that hold replies back: something was written, or is on the disk.
    pub(super) fn tell_lanes(&self, server: &Server) {
        fence(Ordering::SeqCst);
        if self.holding.load(Ordering::Relaxed) == 0 {
            return;
        }
        let lanes = self.holding.swap(0, Ordering::SeqCst);
        bits(lanes).for_each(|lane| server.mail.wake(lane));
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::SeqCst) {
            // It sleeps, or has looked under the lock and is about to.
            drop(self.orders.lock());
            self.news.notify_one();
        }
    }

    /// Whether too many bytes are unwritten to accept more.
    pub(crate) fn is_choked(&self, server: &Server) -> bool {
        self.is_writing() && self.unwritten_bytes(server) > UNWRITTEN_BYTES_MAX
    }

    /// Whether what lies before an offset of the log is on the disk.
    pub(crate) fn has_synced(&self, offset: u64) -> bool {
        let is_kept = self.is_writing() && !self.is_beginning.load(Ordering::Acquire);
        is_kept && self.synced.load(Ordering::Acquire) >= offset
    }

    /// Waits until all changes made until now are on the disk. Returns false at once if the disk
    /// takes nothing: that may last.
    pub(crate) fn sync_now(&self, server: &Server) -> bool {
        let end = log_of(server).end();
        self.wanted.fetch_max(end, Ordering::AcqRel);
        let mut orders = self.orders.lock();
        while self.synced.load(Ordering::Acquire) < end && self.is_writing() {
            if self.has_failed() {
                return false;
            }
            self.news.notify_one();
            let background = &server.durability.background;
            background.wait_for(&self.done, &mut orders, LOOK_AGAIN);
        }
        true
    }

    /// Bytes that are told and not written.
    pub(crate) fn unwritten_bytes(&self, server: &Server) -> u64 {
        let end = log_of(server).end();
        end.saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// The same as they are when `stop` has ended it, if it was on.
    pub(super) fn unwritten_bytes_at_end(&self, server: &Server, stop: impl FnOnce()) -> u64 {
        if !self.is_writing() {
            stop();
            return 0;
        }
        let end = log_of(server).end();
        stop();
        end.saturating_sub(self.written.load(Ordering::Acquire))
    }

    /// Bytes of memory behind these.
    pub(crate) fn buffer_bytes(&self, server: &Server) -> u64 {
        match self.is_writing() {
            true => log_of(server).memory_bytes(),
            false => 0,
        }
    }

    /// From an offset of the log on another file is written to. Shards may be locked.
    pub(super) fn switch(&self, at: u64, file: AppendFile) {
        let other = self.orders.lock().switch.replace((at, file));
        debug_assert!(
            other.is_none(),
            "one switch is carried out before the next is ordered"
        );
        self.switch_ordered.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits until the last switch that was ordered is carried out: the file behind it would get
    /// no commands if the next one took its place. Fails if the disk takes too long for that.
    pub(super) fn wait_for_switch(
        &self,
        server: &Server,
        is_given_up: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let until = instant() + SWITCH_TIME_MAX;
        while self.is_writing() && self.switch_ordered.load(Ordering::Acquire) {
            if is_given_up() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if instant() > until {
                let text = "the disk does not take what belongs in the increment before";
                return Err(io::Error::other(text));
            }
            server.durability.background.pause(NAP);
        }
        Ok(())
    }

    /// Begins to write to a file from an offset of the log on, and starts the thread. Shards may be
    /// locked.
    pub(super) fn start(&self, server: &Arc<Server>, file: AppendFile, at: u64) -> io::Result<()> {
        debug_assert!(!self.is_writing(), "the append-only file is begun once");
        debug_assert!(
            self.writer.lock().is_none() && self.thread.lock().is_none(),
            "the writer and the thread of the file before have ended"
        );
        for offset in [&self.written, &self.synced] {
            offset.store(at, Ordering::Release);
        }
        *self.orders.lock() = Orders::default();
        self.switch_ordered.store(false, Ordering::Release);
        self.is_slow.store(false, Ordering::Release);
        self.yields_to_sync.store(false, Ordering::Relaxed);
        self.in_doubt.store(false, Ordering::Release);
        *self.writer.lock() = Some(LogWriter::new(file, at));
        self.is_writing.store(true, Ordering::Release);
        let waking = Arc::downgrade(server);
        log_of(server).set_waker(move || {
            if let Some(server) = waking.upgrade() {
                server.durability.log.wake_lightly();
            }
        });
        let spawned = super::writing::start(server);
        if spawned.is_err() {
            self.is_writing.store(false, Ordering::Release);
            *self.writer.lock() = None;
        }
        *self.thread.lock() = Some(spawned?);
        Ok(())
    }

    /// Wakes the thread soon: a change was logged, perhaps by a thread that is no lane.
    fn wake_lightly(&self) {
        if self.is_idle.load(Ordering::Relaxed) && self.is_idle.swap(false, Ordering::AcqRel) {
            self.news.notify_one();
        }
    }

    /// Lets the thread write and sync all that was told, and end.
    pub(super) fn stop(&self, server: &Server) {
        self.orders.lock().closing = true;
        self.news.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
        self.is_writing.store(false, Ordering::Release);
        *self.writer.lock() = None;
        self.has_failed.store(false, Ordering::Release);
        self.done.notify_all();
        self.tell_lanes(server);
    }

    /// Wakes all that wait for an fsync, and answers WAITAOF.
    pub(super) fn note_synced(&self, server: &Server) {
        // With the lock, so that no waiter checks just before this and sleeps just after.
        drop(self.orders.lock());
        self.done.notify_all();
        self.tell_lanes(server);
        server.replication.serve_waits(server);
    }

    /// Notes that a write or an fsync failed: writes are refused, and the thread retries. What was
    /// not written stays in memory, and clients that wait for it get no reply.
    pub(super) fn note_failure(&self, server: &Server, error: &io::Error) {
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            error!(%error, "the append-only file cannot be written: trying again, writes are refused");
        }
        server.durability.attention.set(Obstacles::LOG_FAILED, true);
        // Clients that have changed nothing need not wait for the disk.
        self.tell_lanes(server);
        self.wake();
    }

    pub(super) fn note_success(&self, server: &Server) {
        if self.has_failed.swap(false, Ordering::AcqRel) {
            server
                .durability
                .attention
                .set(Obstacles::LOG_FAILED, false);
            warn!("the append-only file can be written again");
        }
    }
}

/// The log, as something to write.
struct PropagationLog<'a>(&'a Log);

impl LogSource for PropagationLog<'_> {
    fn read(&self, from: u64, bytes_max: usize, out: &mut Vec<u8>) -> Result<u64, u64> {
        self.0
            .read(from, bytes_max, out)
            .map_err(|gone| gone.oldest)
    }
}

impl Durability {
    /// Ends the append-only file; what it has stays.
    pub(super) fn stop_log(&self, server: &Server) {
        if !self.log.is_on() {
            return;
        }
        self.log.set_on(false);
        server.replication.refuse_file_waits(server);
        self.cancel(super::SaveJob::Rewrite);
        if self.log.is_writing() {
            self.log.stop(server);
            server.keyspace.propagation().close(Audience::File);
        }
        debug_assert!(
            !self.log.is_writing(),
            "nothing is written once the append-only file is off"
        );
        self.attention.set(Obstacles::LOG_FAILED, false);
    }
}

impl Durability {
    /// Ends the append-only file for a while: the keys are about to be replaced, which is not told.
    pub(crate) fn suspend_log(&self, server: &Server) {
        let _turning = self.background.lock(&self.log.turning);
        if self.log.is_on() {
            self.log.is_suspended.store(true, Ordering::Release);
            self.stop_log(server);
        }
    }

    /// Restarts it after [`suspend_log`](Self::suspend_log), with a base of the keys of now.
    pub(crate) fn resume_log(&self, server: &Server) {
        let _turning = self.background.lock(&self.log.turning);
        let was_suspended = self.log.is_suspended.swap(false, Ordering::AcqRel);
        if !was_suspended || !server.parameters.read(APPENDONLY) || self.log.is_on() {
            return;
        }
        if let Err(error) = self.begin_log(server) {
            error!(%error, "the append-only file cannot be begun again");
        }
    }

    /// Whether it has ended for a while.
    pub(super) fn is_log_suspended(&self) -> bool {
        self.log.is_suspended.load(Ordering::Acquire)
    }
}

/// A place in the changes for the append-only file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMark(u64);

pub(super) fn log_of(server: &Server) -> &Log {
    server.keyspace.propagation().log(Audience::File)
}

/// Unwritten bytes above which clients that write are not read from.
const UNWRITTEN_BYTES_MAX: u64 = 64 << 20;
/// A disk that takes longer for one write is slow.
pub(super) const SLOW_WRITE: Duration = Duration::from_millis(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const NAP: Duration = Duration::from_millis(2);
/// How long a rewrite waits for the switch that the one before has ordered.
const SWITCH_TIME_MAX: Duration = Duration::from_secs(5);
