//! SAVE and BGSAVE: a snapshot in a file.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use super::files::snapshot_options;
use super::state::{Durability, Requested, SaveJob, Saving};
use super::{save_points, snapshot_path};
use crate::attention::Obstacles;
use crate::parameters::{
    RDB_KEY_SAVE_DELAY, RDB_SAVE_INCREMENTAL_FSYNC, SAVE, STOP_WRITES_ON_BGSAVE_ERROR,
};
use crate::replication::state::StreamPosition;
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};

impl Saving {
    /// When the last snapshot was finished, seconds since the UNIX epoch; the start, before that.
    pub(crate) fn last_save_s(&self) -> i64 {
        self.last_save_s.load(Ordering::Relaxed)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// For how long a job has been done, seconds; -1 if it is not.
    pub(crate) fn running_s(&self, job: SaveJob) -> i64 {
        match self.jobs.lock().running {
            Some((running, since)) if running == job => (instant() - since).as_secs() as i64,
            _ => -1,
        }
    }

    pub(crate) fn is_scheduled(&self, job: SaveJob) -> bool {
        self.jobs.lock().scheduled.contains(&job)
    }

    /// Changes that no snapshot has.
    pub(crate) fn unsaved_changes(&self, server: &Server) -> u64 {
        self.unsaved_of(server.keyspace.totals().changes)
    }

    /// The same of changes that have been counted.
    pub(crate) fn unsaved_of(&self, changes: u64) -> u64 {
        changes.saturating_sub(self.changes_saved.load(Ordering::Relaxed))
    }

    /// All that is there is in a file.
    pub(super) fn set_saved(&self, changes: u64) {
        self.changes_saved.store(changes, Ordering::Relaxed);
    }
}

impl Durability {
    /// SAVE: the caller waits. The text of the refusal if it failed.
    ///
    /// A lane calls this: it waits for no other snapshot, which may take minutes.
    pub(crate) fn save(&self, server: &Server) -> Result<(), &'static str> {
        self.alone(server, || self.save_now(server))
    }

    /// The same where no other job can begin, because the caller is [`alone`](Self::alone).
    pub(super) fn save_now(&self, server: &Server) -> Result<(), &'static str> {
        told(self.write_snapshot(server, &|| self.is_ending()))
    }

    /// Does something while no snapshot and no rewrite is made, nor begins; the text of the refusal
    /// if one is being made.
    pub(super) fn alone<T>(
        &self,
        server: &Server,
        work: impl FnOnce() -> Result<T, &'static str>,
    ) -> Result<T, &'static str> {
        {
            let mut jobs = self.saving.jobs.lock();
            match jobs.running {
                Some((SaveJob::Snapshot, _)) => return Err(SAVING),
                Some((SaveJob::Rewrite, _)) => return Err(REWRITING),
                None if server.keyspace.is_in_snapshot() => return Err(SAVING),
                None if self.is_ending() => return Err("ERR"),
                None => {
                    self.assert_none_cancelled();
                    jobs.running = Some((SaveJob::Snapshot, instant()));
                }
            }
        }
        let result = work();
        self.end_job(server);
        result
    }

    /// The last snapshot of the process: what else was being written has been given up.
    pub(super) fn save_at_end(&self, server: &Server) -> Result<(), &'static str> {
        debug_assert!(self.is_ending(), "others may write a snapshot");
        told(self.write_snapshot(server, &|| false))
    }

    /// Begins a job in the background, or schedules it where another one is done and `schedules`
    /// says so.
    pub(crate) fn request(&self, server: &Server, job: SaveJob, schedules: bool) -> Requested {
        self.request_and(server, job, schedules, || {})
    }

    /// The same; if it is begun or scheduled, the other thing is done before anybody else can
    /// begin one.
    pub(super) fn request_and(
        &self,
        server: &Server,
        job: SaveJob,
        schedules: bool,
        other: impl FnOnce(),
    ) -> Requested {
        let mut jobs = self.saving.jobs.lock();
        match jobs.running {
            _ if self.is_ending() => return Requested::Other,
            Some((running, _)) if running == job => return Requested::Running,
            Some(_) if !schedules => return Requested::Other,
            Some(_) => {
                jobs.schedule(job);
                other();
                return Requested::Scheduled;
            }
            None => other(),
        }
        self.assert_none_cancelled();
        jobs.running = Some((job, instant()));
        drop(jobs);
        self.start(server, job);
        Requested::Started
    }

    /// Runs a job that is marked as running on a thread of its own.
    fn start(&self, server: &Server, job: SaveJob) {
        let Some(server) = server.own.upgrade() else {
            return;
        };
        // Looked at here: a FLUSHALL that comes before the thread has begun ends it as well.
        let flushes = server.keyspace.flushes();
        let spawned = self.background.spawn("durability", move || {
            let own = &server.durability;
            match job {
                SaveJob::Snapshot => own.save_in_background(&server, flushes),
                SaveJob::Rewrite => own.rewrite(&server),
            }
            let files = own.log.files.lock();
            if job == SaveJob::Rewrite && files.is_complete {
                own.log.set_beginning(false);
            }
            drop(files);
            own.end_job(&server);
            server.replication.serve_waits(&server);
        });
        if let Err(error) = spawned {
            warn!(%error, "there is no thread for the background");
            let mut jobs = self.saving.jobs.lock();
            jobs.running = None;
            self.saving.is_cancelled.store(false, Ordering::Release);
        }
    }

    /// The job that ran has ended: the next one that waits for it begins.
    fn end_job(&self, server: &Server) {
        let mut jobs = self.saving.jobs.lock();
        debug_assert!(jobs.running.is_some(), "a job ends once");
        jobs.running = None;
        self.saving.is_cancelled.store(false, Ordering::Release);
        let next = (!jobs.scheduled.is_empty()).then(|| jobs.scheduled.remove(0));
        drop(jobs);
        if let Some(next) = next {
            let _ = self.request(server, next, true);
        }
    }

    /// FLUSHALL where there are save points: a snapshot of what is there now follows, after the
    /// one that is being made if need be.
    pub(super) fn save_after_flush(&self, server: &Server) {
        if self.save(server).is_ok() || self.is_ending() {
            return;
        }
        let mut jobs = self.saving.jobs.lock();
        if jobs.running.is_some() {
            // Also if a snapshot runs: it may have looked for the last time.
            jobs.schedule(SaveJob::Snapshot);
            return;
        }
        drop(jobs);
        let _ = self.request(server, SaveJob::Snapshot, true);
    }

    fn save_in_background(&self, server: &Server, mut flushes: u64) {
        let saving = &self.saving;
        saving
            .last_try_s
            .store(unix_ms() / 1_000, Ordering::Relaxed);
        let started = instant();
        let is_cancelled = || saving.is_cancelled.load(Ordering::Acquire);
        let result = loop {
            let is_given_up = || is_cancelled() || server.keyspace.flushes() != flushes;
            let result = self.write_snapshot(server, &is_given_up);
            let now = server.keyspace.flushes();
            if now == flushes || is_cancelled() || save_points(server).is_empty() {
                break result;
            }
            // What was removed meanwhile must not come back: it is made anew.
            flushes = now;
        };
        let took_s = (instant() - started).as_secs() as i64;
        saving.last_took_s.store(took_s, Ordering::Relaxed);
        match result {
            Ok(()) => info!(seconds = took_s, "the snapshot is saved"),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                info!("the snapshot was given up");
            }
            Err(error) => {
                warn!(%error, "the snapshot could not be saved");
                saving.has_failed.store(true, Ordering::Relaxed);
            }
        }
        self.look_at_failure(server);
    }

    /// With the jobs locked and none running: to cancel one does not concern the next.
    fn assert_none_cancelled(&self) {
        debug_assert!(
            !self.saving.is_cancelled.load(Ordering::Acquire),
            "only the job that runs is given up"
        );
    }

    /// Whether writes are refused because of a snapshot that failed.
    pub(super) fn look_at_failure(&self, server: &Server) {
        let stops = self.saving.has_failed()
            && server.parameters.read(STOP_WRITES_ON_BGSAVE_ERROR)
            && server.parameters.is_set(SAVE);
        self.attention.set(Obstacles::SNAPSHOT_FAILED, stops);
    }

    /// Saves a snapshot where the parameters say.
    fn write_snapshot(&self, server: &Server, is_given_up: &dyn Fn() -> bool) -> io::Result<()> {
        let path = snapshot_path(server);
        let changes = server.keyspace.totals().changes;
        self.own_directory(server)?;
        write_keys(server, &path, false, || (), is_given_up)?;
        let saving = &self.saving;
        saving.set_saved(changes);
        saving
            .last_save_s
            .store(unix_ms() / 1_000, Ordering::Relaxed);
        saving.saves.fetch_add(1, Ordering::Relaxed);
        saving.has_failed.store(false, Ordering::Relaxed);
        self.look_at_failure(server);
        Ok(())
    }

    /// Whether a snapshot is due by the save points.
    pub(super) fn is_save_due(&self, server: &Server) -> bool {
        let points = save_points(server);
        if points.is_empty() || self.saving.jobs.lock().running.is_some() {
            return false;
        }
        let now_s = unix_ms() / 1_000;
        let since = |time_s: &AtomicI64| (now_s - time_s.load(Ordering::Relaxed)).max(0) as u64;
        let may_retry = !self.saving.has_failed() || since(&self.saving.last_try_s) > RETRY_S;
        let changes = self.saving.unsaved_changes(server);
        // One that failed is tried again, however little has changed: writes may be refused.
        let is_due = || points.is_due(since(&self.saving.last_save_s), changes);
        may_retry && (self.saving.has_failed() || is_due())
    }
}

fn told(result: io::Result<()>) -> Result<(), &'static str> {
    result.map_err(|error| {
        warn!(%error, "the snapshot could not be saved");
        "ERR"
    })
}

/// Writes all keys, as they are when `at_that_moment` runs, to a file that replaces `path`; returns
/// its length. Given up, the error is `Interrupted`.
pub(super) fn write_keys(
    server: &Server,
    path: &Path,
    is_base: bool,
    at_that_moment: impl Fn(),
    is_given_up: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let (label, kind) = match is_base {
        true => ("rewriteaof-bg", "aof"),
        false => ("", "rdb"),
    };
    let (disk, background) = (&server.durability.disk, &server.durability.background);
    let file = disk.whole(path, label, kind)?;
    let mut file = file.syncing_often(server.parameters.read(RDB_SAVE_INCREMENTAL_FSYNC));
    // Another snapshot may be made, for a replica or the append-only file.
    let mut snapshot = loop {
        let options = snapshot_options(server, is_base);
        let stream = server.replication.hold_stream();
        let begun = server.keyspace.begin_snapshot(options, || {
            at_that_moment();
            let libraries = server.scripting.libraries.current();
            (server.replication.position(server), libraries)
        });
        drop(stream);
        match begun {
            Some((mut snapshot, (position, libraries))) => {
                snapshot.set_libraries(libraries.texts());
                let position = position.filter(|_| !is_base);
                let fields = position.iter().flat_map(StreamPosition::fields);
                fields.for_each(|(name, value)| snapshot.tell(name, value));
                break snapshot;
            }
            None if is_given_up() => return Err(io::ErrorKind::Interrupted.into()),
            None => background.pause(TURN),
        }
    };
    if let Some(misfit) = snapshot.misfit() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, misfit));
    }
    let [written, total] = &server.durability.saving.progress;
    total.store(snapshot.total(), Ordering::Relaxed);
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 1));
    loop {
        let before = snapshot.written();
        let goes_on = snapshot.step(&mut chunk);
        background.let_others_run_between(before, snapshot.written());
        if chunk.len() >= CHUNK_BYTES || !goes_on {
            file.write(&chunk)?;
            chunk.clear();
        }
        written.store(snapshot.written(), Ordering::Relaxed);
        dawdle(server, snapshot.written() - before, is_given_up);
        if is_given_up() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !goes_on {
            break;
        }
    }
    // Without them keys would be missing.
    assert!(
        chunk.is_empty(),
        "all bytes are written before the file is whole"
    );
    drop(snapshot);
    background.let_others_run();
    for counter in [written, total] {
        counter.store(0, Ordering::Relaxed);
    }
    file.finish()
}

/// `rdb-key-save-delay`: tests want to see a snapshot in the middle.
pub(crate) fn dawdle(server: &Server, keys: u64, is_given_up: &dyn Fn() -> bool) {
    let is_ending = || server.durability.is_ending();
    let delay_us = || match is_ending() {
        true => 0,
        false => server
            .parameters
            .read(RDB_KEY_SAVE_DELAY)
            .max(0)
            .cast_unsigned(),
    };
    let asked_us = delay_us();
    if asked_us == 0 || keys == 0 {
        return;
    }
    let until = instant() + Duration::from_micros(asked_us.saturating_mul(keys));
    while instant() < until && delay_us() != 0 && !is_given_up() {
        let left = until.saturating_duration_since(instant());
        server.durability.background.pause(TURN.min(left));
    }
}

const SAVING: &str = "ERR Background save already in progress";
const REWRITING: &str = "ERR Background append only file rewriting already in progress: try again \
                         later, or use BGSAVE SCHEDULE";
const CHUNK_BYTES: usize = 1 << 20;
const TURN: Duration = Duration::from_millis(10);
/// How long to wait after a failure before a save point is tried again.
const RETRY_S: u64 = 5;
