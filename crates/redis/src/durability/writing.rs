//! The thread of the append-only file: it calls fsync, and writes what no lane has written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::durability::log_files::SyncJob;
use tidewire_lane::instant;
use tracing::error;

use super::append_only::{SLOW_WRITE, log_of};
use crate::background::RunningTask;
use crate::server::Server;

/// Starts the thread.
pub(super) fn start(server: &Arc<Server>) -> io::Result<RunningTask> {
    let now = instant();
    let scribe = Scribe {
        server: server.clone(),
        job: None,
        bases: server.durability.log.bases.load(Ordering::Acquire),
        end_seen: 0,
        synced_at: now,
        busy_at: now,
        slow_since: None,
        slow_for: SLOW_FOR_LEAST,
        longest_write: Duration::ZERO,
        fast_since: None,
        closing_since: None,
    };
    let background = &server.durability.background;
    background.spawn("append-only", move || scribe.run())
}

/// The thread's own.
struct Scribe {
    server: Arc<Server>,
    /// An fsync that has failed, to be tried again.
    job: Option<SyncJob>,
    /// New bases that there were when it began.
    bases: u64,
    /// Where the log ended at the last look.
    end_seen: u64,
    synced_at: Instant,
    /// When there was last something to write.
    busy_at: Instant,
    /// When the disk, still counted as slow, began to be fast for every write.
    slow_since: Option<Instant>,
    /// How long that must last until lanes write again. It doubles if the disk was slow again soon.
    slow_for: Duration,
    /// Of those since the last look; telling the lanes is no part of it.
    longest_write: Duration,
    /// When lanes were let write again last.
    fast_since: Option<Instant>,
    closing_since: Option<Instant>,
}

impl Scribe {
    fn run(mut self) {
        let server = self.server.clone();
        let own = &server.durability.log;
        loop {
            let closing = own.orders.lock().closing;
            self.follow_bases();
            // What a failed fsync may have dropped comes before anything else.
            let mended = match self.job.is_some() {
                true => self.sync(closing),
                false => Ok(()),
            };
            let written = mended.and_then(|()| self.write(closing));
            let result = written.and_then(|()| self.sync(closing));
            match result {
                Ok(()) if own.in_doubt.load(Ordering::Acquire) => {}
                Ok(()) => own.note_success(&server),
                Err(error) => own.note_failure(&server, &error),
            }
            let is_done = log_of(&server).end() == own.synced.load(Ordering::Acquire);
            if closing && (is_done || own.is_never() && !own.has_failed()) {
                return;
            }
            let now = instant();
            if closing && now - *self.closing_since.get_or_insert(now) > PATIENCE {
                error!("the append-only file ends although the disk does not take all of it");
                return;
            }
            self.rest();
        }
    }

    /// Writes what lanes could not write, or have not written since the last round.
    fn write(&mut self, closing: bool) -> io::Result<()> {
        let server = self.server.clone();
        let own = &server.durability.log;
        let end = log_of(&server).end();
        let is_old = own.unwritten_bytes(&server) > end.saturating_sub(self.end_seen);
        if end != self.end_seen {
            self.busy_at = instant();
            self.end_seen = end;
        }
        let is_slow = own.is_slow.load(Ordering::Acquire);
        let is_ordered = own.switch_ordered.load(Ordering::Acquire);
        if !(is_old || is_slow || is_ordered || closing || own.has_failed()) {
            return Ok(());
        }
        self.longest_write = Duration::ZERO;
        let written = self.write_all(closing);
        debug_assert!(
            written.is_err() || self.job.is_none(),
            "nothing is written behind an fsync that has failed"
        );
        if is_slow {
            self.look_at_speed();
        }
        written
    }

    /// Lets lanes write again once the disk was fast for a while.
    fn look_at_speed(&mut self) {
        let now = instant();
        let since = match self.slow_since {
            Some(since) if self.longest_write <= SLOW_WRITE => since,
            Some(_) => *self.slow_since.insert(now),
            None => {
                let was_fast_for = self.fast_since.map(|since| now - since);
                self.slow_for = match was_fast_for {
                    Some(time) if time < SLOW_FOR_MOST => (self.slow_for * 2).min(SLOW_FOR_MOST),
                    _ => SLOW_FOR_LEAST,
                };
                *self.slow_since.insert(now)
            }
        };
        if now - since > self.slow_for {
            self.server
                .durability
                .log
                .is_slow
                .store(false, Ordering::Release);
            self.slow_since = None;
            self.fast_since = Some(now);
        }
        debug_assert!(
            (SLOW_FOR_LEAST..=SLOW_FOR_MOST).contains(&self.slow_for),
            "how long a disk must be fast stays between its bounds"
        );
    }

    /// Writes all logged changes, and switches to the next file where that was ordered.
    fn write_all(&mut self, closing: bool) -> io::Result<()> {
        let server = self.server.clone();
        let own = &server.durability.log;
        loop {
            let written = match &mut *own.writer.lock() {
                Some(writer) => {
                    let started = instant();
                    let mended = writer.mend();
                    let written = mended.and_then(|()| own.write_out(&server, writer));
                    self.longest_write = self.longest_write.max(instant() - started);
                    written
                }
                None => Ok(false),
            };
            own.tell_lanes(&server);
            if !written? {
                return Ok(());
            }
            // Lanes do not write meanwhile, and hold back no more than they must.
            own.is_slow.store(true, Ordering::Release);
            own.wanted.fetch_max(
                log_of(&server).end() - own.unwritten_bytes(&server),
                Ordering::AcqRel,
            );
            self.sync(closing)?;
            if own.in_doubt.load(Ordering::Acquire) {
                // The base that is being written has what was in doubt.
                error!("the last increment may be torn on the disk until the new base is whole");
                own.note_unsynced(&server.durability.background)?;
            }
            if let Some(writer) = &mut *own.writer.lock() {
                own.go_on(writer);
            }
        }
    }

    /// Waits for the disk, if that is due.
    fn sync(&mut self, closing: bool) -> io::Result<()> {
        let server = self.server.clone();
        let own = &server.durability.log;
        if self.job.is_none() && !closing && !self.is_sync_due() {
            return Ok(());
        }
        let Some(mut job) = self.begin_sync() else {
            return Ok(());
        };
        own.set_syncing(true);
        // A disk takes its time.
        server.durability.background.let_others_run();
        let synced = job.run();
        own.set_syncing(false);
        match synced {
            Ok(at) => {
                self.synced_at = instant();
                debug_assert!(
                    at <= own.written.load(Ordering::SeqCst),
                    "only what is written is on the disk"
                );
                own.synced.fetch_max(at, Ordering::SeqCst);
                own.note_synced(&server);
                Ok(())
            }
            Err(error) => {
                own.tell_lanes(&server);
                self.job = Some(job);
                Err(error)
            }
        }
    }

    /// Begins an fsync; none while only a new base can make the log durable.
    fn begin_sync(&mut self) -> Option<SyncJob> {
        let own = &self.server.durability.log;
        let mut guard = own.writer.lock();
        let writer = guard.as_mut()?;
        let job = match self.job.take() {
            Some(mut job) => {
                writer.extend_sync(&mut job);
                job
            }
            None => writer.begin_sync(),
        };
        if own.in_doubt.swap(writer.in_doubt(), Ordering::AcqRel) != writer.in_doubt() {
            error!("an fsync has failed: a new base of the append-only file is written");
        }
        // With the next base it is forgotten.
        (!writer.in_doubt()).then_some(job)
    }

    /// After a new base, the files before it are needed no more.
    fn follow_bases(&mut self) {
        let own = &self.server.durability.log;
        let bases = own.bases.load(Ordering::Acquire);
        debug_assert!(self.bases <= bases, "new bases are only added to");
        if std::mem::replace(&mut self.bases, bases) != bases
            && let Some(writer) = own.writer.lock().as_mut()
        {
            writer.end_doubt(self.job.as_mut());
            own.in_doubt.store(writer.in_doubt(), Ordering::Release);
        }
    }

    fn is_sync_due(&self) -> bool {
        let own = &self.server.durability.log;
        let synced = own.synced.load(Ordering::Acquire);
        let written = log_of(&self.server).end() - own.unwritten_bytes(&self.server);
        let by_policy =
            own.is_always() || !own.is_never() && instant() - self.synced_at >= SYNC_EACH;
        synced < written && (by_policy || synced < own.wanted.load(Ordering::Acquire))
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        let (own, background) = (
            &self.server.durability.log,
            &self.server.durability.background,
        );
        let log = log_of(&self.server);
        let mut orders = own.orders.lock();
        if own.has_failed() {
            if self.closing_since.is_some() || !orders.closing {
                background.wait_for(&own.news, &mut orders, RETRY);
            }
            return;
        }
        own.is_asleep.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let is_unsynced = !own.is_never() && own.synced.load(Ordering::Acquire) < log.end();
        let has_work = orders.closing
            || own.switch_ordered.load(Ordering::Acquire)
            || self.is_sync_due()
            || own.is_slow.load(Ordering::Acquire) && own.unwritten_bytes(&self.server) > 0;
        if !has_work {
            let is_busy = instant() - self.busy_at < BUSY || is_unsynced;
            let nap = if is_busy { NAP } else { LONG_NAP };
            own.is_idle.store(!is_busy, Ordering::SeqCst);
            background.wait_for(&own.news, &mut orders, nap);
            own.is_idle.store(false, Ordering::SeqCst);
        }
        own.is_asleep.store(false, Ordering::SeqCst);
    }
}

const SYNC_EACH: Duration = Duration::from_secs(1);
/// How long a disk that was slow must be fast until it is believed to be.
const SLOW_FOR_LEAST: Duration = Duration::from_millis(100);
const SLOW_FOR_MOST: Duration = Duration::from_secs(1);
/// How long after a change the thread polls by itself.
const BUSY: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(10);
const LONG_NAP: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_millis(250);
/// How long a disk that fails is tried at the end.
const PATIENCE: Duration = Duration::from_secs(1);
