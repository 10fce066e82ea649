//! BGREWRITEAOF: a new base in place of all that was written before; and how the append-only file
//! begins, at the start and at run time.
//!
//! A new increment is begun and named in the manifest first. The snapshot's moment is the offset
//! of the log at which the writer goes on to it. Only when the new base is whole does the manifest
//! name it in place of the old one: whenever the process ends, the manifest leads to all keys.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::durability::log_files::{LogFile, LogFolder, Manifest};
use parking_lot::Mutex;
use tidewire_keyspace::{Audience, LoadOptions, order};
use tracing::{info, warn};

use super::append_only::log_of;
use super::apply::LogApplier;
use super::directory;
use super::files::log_folder;
use super::loading::{Ending, MASTER_WRITES};
use super::saving::write_keys;
use super::state::{Durability, Requested, SaveJob};
use crate::live::LiveObserver;
use crate::parameters::{
    AOF_LOAD_TRUNCATED, AUTO_AOF_REWRITE_MIN_SIZE, AUTO_AOF_REWRITE_PERCENTAGE,
};
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};

impl Durability {
    /// BGREWRITEAOF on its thread.
    pub(super) fn rewrite(&self, server: &Arc<Server>) {
        debug_assert!(
            self.saving.running_s(SaveJob::Rewrite) >= 0,
            "a rewrite is the job that runs"
        );
        let rewrites = &self.log.rewrites;
        let started = instant();
        rewrites
            .last_try_s
            .store(unix_ms() / 1_000, Ordering::Relaxed);
        let is_given_up = || self.saving.is_cancelled.load(Ordering::Acquire);
        let result = self.rewrite_now(server, &is_given_up);
        let took_s = (instant() - started).as_secs() as i64;
        rewrites.last_took_s.store(took_s, Ordering::Relaxed);
        match result {
            Ok(()) => info!(seconds = took_s, "the append-only file is rewritten"),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                info!("rewriting the append-only file was given up");
            }
            Err(error) => {
                warn!(%error, "the append-only file could not be rewritten");
                rewrites.has_failed.store(true, Ordering::Relaxed);
                rewrites.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn rewrite_now(&self, server: &Arc<Server>, is_given_up: &dyn Fn() -> bool) -> io::Result<()> {
        self.own_directory(server)?;
        self.log.wait_for_switch(server, is_given_up)?;
        let is_on = self.log.is_on();
        let naming = self.background.lock(&self.log.naming);
        let (folder, mut manifest, is_complete, beginnings) = {
            let files = self.log.files.lock();
            let (folder, manifest) = (files.folder.clone(), files.manifest.clone());
            let folder = folder.filter(|_| is_on);
            (folder, manifest, files.is_complete, files.beginnings)
        };
        let folder = folder.unwrap_or_else(|| log_folder(server));
        folder.make()?;
        if !is_on {
            manifest = folder.read_manifest()?.unwrap_or_default();
        }
        let increment = Mutex::new(None);
        if is_on {
            *increment.lock() = Some(folder.add_increment(&mut manifest)?);
            if is_complete {
                folder.write_manifest(&manifest)?;
            }
            let mut files = self.log.files.lock();
            files.manifest = manifest.clone();
            files.folder = Some(folder.clone());
        }
        drop(naming);
        let base = folder.next_base(&manifest);
        let failure = Mutex::new(None);
        let at_that_moment = || {
            let Some(file) = increment.lock().take() else {
                return;
            };
            if self.log.is_writing() {
                return self.log.switch(log_of(server).begin(), file);
            }
            server.keyspace.propagation().open(Audience::File);
            let at = log_of(server).begin();
            *failure.lock() = self.log.start(server, file, at).err();
        };
        let path = folder.path_of(&base);
        let bytes = write_keys(server, &path, true, at_that_moment, is_given_up)?;
        if let Some(error) = failure.into_inner() {
            return Err(error);
        }
        if !is_on {
            let stale = std::mem::take(&mut manifest.increments);
            manifest.retire(stale);
        }
        debug_assert_ne!(
            is_on,
            manifest.increments.is_empty(),
            "behind a base comes an increment, if the file is on, and none otherwise"
        );
        self.finish_rewrite(&folder, manifest, base, bytes, beginnings)
    }

    fn finish_rewrite(
        &self,
        folder: &LogFolder,
        mut manifest: Manifest,
        base: LogFile,
        base_bytes: u64,
        beginnings: u64,
    ) -> io::Result<()> {
        let naming = self.background.lock(&self.log.naming);
        if self.log.files.lock().beginnings != beginnings {
            // The file was begun meanwhile, and needs a base of that moment.
            return Err(io::ErrorKind::Interrupted.into());
        }
        folder.replace_base(&mut manifest, base)?;
        let last = manifest.increments.last();
        let last = last.and_then(|file| folder.length_of(file).ok());
        let bytes = base_bytes + last.unwrap_or(0);
        debug_assert!(
            manifest.base.is_some() && manifest.increments.len() <= 1,
            "a rewrite leaves a base and the increment that began with it"
        );
        let mut files = self.log.files.lock();
        files.manifest = manifest;
        files.is_complete = true;
        drop(files);
        drop(naming);
        // What was in doubt is in the base.
        self.log.bases.fetch_add(1, Ordering::AcqRel);
        self.log.wake();
        self.log.bytes.store(bytes, Ordering::Relaxed);
        self.log.base_bytes.store(bytes, Ordering::Relaxed);
        let rewrites = &self.log.rewrites;
        rewrites.has_failed.store(false, Ordering::Relaxed);
        rewrites.failures.store(0, Ordering::Relaxed);
        rewrites.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// `appendonly yes` at run time: a base is written in the background, of what is there now.
    pub(super) fn begin_log(&self, server: &Server) -> io::Result<()> {
        debug_assert!(
            !self.log.is_on() && !self.log.is_writing(),
            "the append-only file is off before it is begun"
        );
        self.own_directory(server)?;
        let folder = log_folder(server);
        folder.make()?;
        // A rewrite that began while the file was off must not finish from here on.
        let naming = self.background.lock(&self.log.naming);
        let manifest = folder.read_manifest()?.unwrap_or_default();
        let mut files = self.log.files.lock();
        self.log.set_beginning(true);
        *files = super::state::Files {
            manifest,
            folder: Some(folder),
            is_complete: false,
            beginnings: files.beginnings + 1,
        };
        drop(files);
        drop(naming);
        // The tick must not find it on and nothing begun: what it begins would be one too many.
        let request = || self.request_and(server, SaveJob::Rewrite, true, || self.log.set_on(true));
        while request() == Requested::Running {
            // It began while nothing was written: it is of no use.
            self.cancel(SaveJob::Rewrite);
        }
        // Changes after this are in the increment, not in the base: WAITAOF waits for the disk.
        // Not so while another job is in the way, which may take long.
        // A script that does not end must not keep this from ending.
        let is_running =
            || (0..BEGIN_WAIT_S_MAX).contains(&self.saving.running_s(SaveJob::Rewrite));
        self.log.wait_until_writing(server, is_running);
        Ok(())
    }

    /// Whether the files have grown so much that they are to be rewritten, or the first base is
    /// still missing.
    pub(super) fn is_rewrite_due(&self, server: &Server) -> bool {
        if !self.log.is_on() || self.saving.jobs.lock().running.is_some() {
            return false;
        }
        let rewrites = &self.log.rewrites;
        let since_s = unix_ms() / 1_000 - rewrites.last_try_s.load(Ordering::Relaxed);
        let failures = rewrites.failures.load(Ordering::Relaxed);
        let in_doubt = self.log.in_doubt.load(Ordering::Acquire);
        let retry_s = match in_doubt {
            // Writes are refused until there is a new base: a disk that works again is found soon.
            true => RETRY_S,
            false => RETRY_S << failures.min(8),
        };
        if since_s < retry_s && failures > 0 {
            return false;
        }
        if !self.log.files.lock().is_complete || in_doubt {
            return true;
        }
        let percentage = server.parameters.read(AUTO_AOF_REWRITE_PERCENTAGE);
        let (bytes, base) = (
            self.log.bytes.load(Ordering::Relaxed),
            self.log.base_bytes.load(Ordering::Relaxed).max(1),
        );
        let growth = bytes.saturating_sub(base).saturating_mul(100) / base;
        percentage > 0
            && bytes > server.parameters.read(AUTO_AOF_REWRITE_MIN_SIZE)
            && growth >= percentage
    }

    /// Gives up a job, and waits until it has ended.
    pub(super) fn cancel(&self, job: SaveJob) {
        order::assert_no_shard("a job in the background is waited for");
        while self.ask_to_cancel(job) {
            self.background.pause(Duration::from_millis(1));
        }
    }

    /// Asks a job to be given up; whether it has not ended yet.
    pub(super) fn ask_to_cancel(&self, job: SaveJob) -> bool {
        let saving = &self.saving;
        let mut jobs = saving.jobs.lock();
        jobs.scheduled.retain(|&other| other != job);
        let is_running = jobs.running.is_some_and(|(running, _)| running == job);
        // With the lock, so that it is this job that hears it, and not the next one.
        saving.is_cancelled.fetch_or(is_running, Ordering::AcqRel);
        is_running
    }

    /// Loads the append-only file, if there is one, and goes on with it.
    pub(super) fn load_log_at_start(&self, server: &Server) -> Result<(), String> {
        let server = &server.own.upgrade().ok_or("the server is about to end")?;
        let folder = log_folder(server);
        let failed = |error: io::Error| format!("{}: {error}", folder.path().display());
        folder.make().map_err(failed)?;
        self.adopt_old_file(server).map_err(failed)?;
        let found = folder.read_manifest().map_err(failed)?;
        self.log.set_on(true);
        let Some(mut manifest) = found else {
            // The keys of a server that has kept snapshots so far must not be lost with the switch,
            // nor their file overwritten at the end.
            if self.load_snapshot_at_start(server)? {
                warn!("there is no append-only file yet: it begins with the keys of the snapshot");
            }
            return self
                .rewrite_now(server, &|| self.is_ending())
                .map_err(failed);
        };
        self.load_log(server, &mut manifest)?;
        let file = folder.open_last(&mut manifest).map_err(failed)?;
        let bytes = folder.bytes_of(&manifest);
        self.log.bytes.store(bytes, Ordering::Relaxed);
        self.log.base_bytes.store(bytes, Ordering::Relaxed);
        *self.log.files.lock() = super::state::Files {
            manifest,
            folder: Some(folder.clone()),
            is_complete: true,
            beginnings: 1,
        };
        server.keyspace.propagation().open(Audience::File);
        self.log
            .start(server, file, log_of(server).begin())
            .map_err(failed)
    }

    /// DEBUG LOADAOF: removes all keys and loads the append-only file. The text of the refusal.
    pub(crate) fn reload_log(&self, server: &Server) -> Result<(), &'static str> {
        // What a master sends meanwhile is not in the file, and would be removed with the keys.
        let _stream = server.replication.keep_stream().ok_or(MASTER_WRITES)?;
        self.alone(server, || self.reload_log_now(server))
    }

    fn reload_log_now(&self, server: &Server) -> Result<(), &'static str> {
        const FAILED: &str = "ERR Error trying to load the AOF files, check server logs.";
        const UNWRITTEN: &str = "ERR the append-only file cannot be written: it lacks the newest \
            changes";
        self.set_loading(server, true);
        if self.log.is_writing() {
            if !self.log.sync_now(server) {
                self.set_loading(server, false);
                return Err(UNWRITTEN);
            }
            // From here on nothing is told, so that what is loaded is not written again.
            server.keyspace.propagation().close(Audience::File);
        }
        let folder = self.log.files.lock().folder.clone();
        let folder = folder.unwrap_or_else(|| log_folder(server));
        let loaded = folder.read_manifest().map_err(|error| error.to_string());
        let loaded = loaded.and_then(|manifest| {
            let mut manifest = manifest.ok_or("there is no append-only file")?;
            server.keyspace.clear(&mut LiveObserver(server));
            server.scripting.libraries.flush();
            // Nothing of files that are written to just now is given up.
            let increments = &mut manifest.increments;
            increments.iter_mut().for_each(|file| file.unsynced = None);
            self.load_log(server, &mut manifest)
        });
        if self.log.is_writing() {
            server.keyspace.propagation().open(Audience::File);
        }
        self.set_loading(server, false);
        self.saving.set_saved(server.keyspace.totals().changes);
        loaded.map_err(|text| {
            warn!("{text}");
            FAILED
        })
    }

    /// Loads the files of a manifest. An increment that no fsync has covered, and of which the disk
    /// has lost something, is the last one then: those behind it leave the manifest.
    fn load_log(&self, server: &Server, manifest: &mut Manifest) -> Result<(), String> {
        let folder = self.log.files.lock().folder.clone();
        let folder = folder.unwrap_or_else(|| log_folder(server));
        let total = folder.bytes_of(manifest);
        self.loading.total_bytes.store(total, Ordering::Relaxed);
        let options = LoadOptions {
            drops_expired: false,
            replaces: false,
            now_ms: unix_ms(),
        };
        let list = manifest.base.iter().chain(&manifest.increments);
        let list: Vec<LogFile> = list.cloned().collect();
        let has_more = |file: &LogFile| folder.length_of(file).is_ok_and(|bytes| bytes > 0);
        // An increment that was begun and not written to may follow one with a torn end.
        let last = list.iter().rposition(has_more).unwrap_or(0);
        let mut applier = LogApplier::new(server);
        for (number, listed) in list.into_iter().enumerate() {
            let path = folder.path_of(&listed);
            let place = path.display();
            let file = self.disk.read(&path);
            let file = file.map_err(|error| format!("{place} cannot be read: {error}"))?;
            applier.ends_at_holes = listed.unsynced.is_some();
            let ending = self.load_file(server, file, &mut applier, options, true);
            let (ending, good) = ending.map_err(|text| format!("{place}: {text}"))?;
            let is_shorter = listed.unsynced.is_some_and(|length| good < length);
            if ending == Ending::Whole && !is_shorter {
                continue;
            }
            if is_shorter {
                warn!(%place, good, "an fsync of it had failed: what was written behind is lost");
                manifest.end_with(&listed.name);
            } else if number != last {
                return Err(format!("{place}: {ENDS_EARLY}, and others follow it"));
            }
            if !server.parameters.read(AOF_LOAD_TRUNCATED) {
                return Err(format!(
                    "{place}: {ENDS_EARLY}. Set aof-load-truncated to yes to cut off what is not \
                     whole."
                ));
            }
            let cut = self.disk.append(&path).and_then(|mut file| {
                file.cut(good);
                file.mend()?;
                file.sync()
            });
            cut.map_err(|error| format!("{place}: {error}"))?;
            applier.drop_transaction();
            warn!(%place, good, "the file ended in the middle of a command, which was cut off");
            if is_shorter {
                let written = folder.write_manifest(manifest);
                written.map_err(|error| format!("{place}: {error}"))?;
                break;
            }
        }
        info!(bytes = total, "the append-only file is loaded");
        Ok(())
    }

    /// Before Redis 7 there was one file and no manifest: it becomes the base.
    fn adopt_old_file(&self, server: &Server) -> io::Result<()> {
        let folder = log_folder(server);
        let prefix = folder.prefix();
        let old = directory(server).join(prefix);
        if !self.disk.has_file(&old) {
            return Ok(());
        }
        let adopted = Manifest {
            base: Some(LogFile {
                name: prefix.to_owned(),
                sequence: 1,
                unsynced: None,
            }),
            ..Manifest::default()
        };
        let new = folder.path().join(prefix);
        match folder.read_manifest()? {
            None => folder.write_manifest(&adopted)?,
            // It was begun before, and did not come to its end.
            Some(found) if found == adopted && !self.disk.has(&new) => {}
            Some(_) => return Ok(()),
        }
        self.disk.rename(&old, &new)?;
        self.disk.sync_folder_of(&new)?;
        info!(file = %old.display(), "an append-only file without manifest is taken over");
        Ok(())
    }
}

const RETRY_S: i64 = 5;
/// How long the first base's moment is waited for: locks and files are all that it needs.
const BEGIN_WAIT_S_MAX: i64 = 3;
const ENDS_EARLY: &str = "Unexpected end of file reading the append only file";
