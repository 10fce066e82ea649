//! Periodic checks: save points and rewrites that are due, changed parameters, and the end.

use std::sync::atomic::Ordering;

use tidewire_keyspace::order;
use tracing::warn;

use super::save_points;
use super::state::{BY_SIGNAL, Durability, SAVED, SaveJob, WITHOUT_SAVING};
use crate::parameters::{APPENDONLY, SAVE};
use crate::server::Server;

impl Durability {
    /// Whether [`tick`](Self::tick) has anything to do.
    pub(crate) fn wants_ticks(&self, server: &Server) -> bool {
        self.log.is_on() || server.parameters.is_set(SAVE)
    }

    /// To be called before a turn's replies are sent. After FLUSHALL the file of all keys is
    /// written anew where there are save points: what was removed must not come back with the next
    /// start. One load where there are none.
    #[inline]
    pub(crate) fn before_replies(&self, server: &Server, lane: usize) {
        // A save needs shards: while a script runs elsewhere it waits for another turn.
        if server.parameters.is_set(SAVE) && server.scripting.rights.has(lane) {
            self.follow_flushes(server);
        }
    }

    fn follow_flushes(&self, server: &Server) {
        let flushes = server.keyspace.flushes();
        let is_known = self.flushes_seen.load(Ordering::Relaxed) == flushes;
        // Half of the keys of a file must not be saved in the place of what was there.
        if is_known
            || server.is_filling()
            || self.flushes_seen.swap(flushes, Ordering::AcqRel) == flushes
        {
            return;
        }
        self.save_after_flush(server);
    }

    /// Begins the jobs that are due. The caller runs it about ten times a second.
    pub(crate) fn tick(&self, server: &Server) {
        if server.is_filling() {
            return;
        }
        if self.is_save_due(server) {
            let _ = self.request(server, SaveJob::Snapshot, false);
        }
        if self.is_rewrite_due(server) {
            let _ = self.request(server, SaveJob::Rewrite, false);
        }
    }

    /// The parameters have changed. The text of the refusal if one cannot be followed.
    pub(crate) fn follow_parameters(&self, server: &Server) -> Result<(), String> {
        if self.owns_directory() {
            self.own_directory(server).map_err(|error| {
                format!("ERR CONFIG SET failed (possibly related to argument 'dir') - {error}")
            })?;
        }
        self.log.follow_policy(server);
        self.look_at_failure(server);
        self.flushes_seen
            .store(server.keyspace.flushes(), Ordering::Release);
        order::assert_no_shard("the append-only file is begun or ended");
        let _turning = self.background.lock(&self.log.turning);
        if self.is_loading() || self.is_log_suspended() {
            return Ok(());
        }
        let is_wanted = server.parameters.read(APPENDONLY);
        if is_wanted && self.log.is_on() && self.log.is_elsewhere(server) {
            // Its files stay where they were, whole; in the new directory it begins with a base.
            self.stop_log(server);
        }
        if is_wanted == self.log.is_on() {
            return Ok(());
        }
        if !is_wanted {
            self.stop_log(server);
            return Ok(());
        }
        self.begin_log(server).map_err(|error| {
            warn!(%error, "the append-only file cannot be begun");
            let pair: (&[u8], &[u8]) = (APPENDONLY.name().as_bytes(), b"no");
            let _ = server.parameters.set(&server.keyspace, &[pair], true);
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn \
             on AOF. Check server logs."
                .to_owned()
        })
    }

    /// SHUTDOWN: saves a snapshot if that is asked for, or, where nothing is said, if there are
    /// save points. False if it could not be saved, or if an append-only file has just been
    /// begun, so that nothing would be kept; not so where the end `is_forced`.
    pub(crate) fn prepare_shutdown(
        &self,
        server: &Server,
        saves: Option<bool>,
        is_forced: bool,
    ) -> bool {
        if self.log.is_on() && self.log.is_beginning() {
            match is_forced {
                true => warn!("Writing initial AOF. Exit anyway."),
                false => {
                    warn!("Writing initial AOF, can't exit.");
                    return false;
                }
            }
        }
        let saves =
            saves.unwrap_or_else(|| !save_points(server).is_empty()) && !server.is_filling();
        let exit = if saves { SAVED } else { WITHOUT_SAVING };
        self.exit.store(exit, Ordering::Release);
        // Nothing that takes long is waited for: what is being written is given up.
        self.is_ending.store(true, Ordering::Release);
        if saves && server.keyspace.is_in_snapshot() {
            server.replication.give_up_files();
        }
        for job in [SaveJob::Rewrite, SaveJob::Snapshot] {
            match saves {
                true => self.cancel(job),
                // Its thread may wait for shards that a script holds: it is not waited for.
                false => drop(self.ask_to_cancel(job)),
            }
        }
        let is_saved = !saves || self.save_at_end(server).is_ok();
        match is_forced {
            _ if is_saved => {}
            true => warn!("Error trying to save the DB. Exit anyway."),
            false => {
                warn!("Error trying to save the DB, can't exit.");
                self.exit.store(BY_SIGNAL, Ordering::Release);
                self.is_ending.store(false, Ordering::Release);
            }
        }
        is_saved
    }

    /// Whether the append-only file keeps nothing yet, and soon will.
    pub fn is_first_base_under_way(&self) -> bool {
        self.log.is_first_base_under_way()
    }

    /// The process ends without a snapshot.
    pub(crate) fn leave_unsaved(&self) {
        self.exit.store(WITHOUT_SAVING, Ordering::Release);
    }

    /// The last thing that is done, when no lane runs any more: what is in memory is made durable
    /// as the parameters or SHUTDOWN say. The text tells why it could not be.
    pub fn finish(&self, server: &Server) -> Result<(), String> {
        self.is_ending.store(true, Ordering::Release);
        if let Some(master) = server.replication.master() {
            master.arriving.give_up();
        }
        self.cancel(SaveJob::Rewrite);
        self.cancel(SaveJob::Snapshot);
        let _turning = self.background.lock(&self.log.turning);
        let unwritten = self
            .log
            .unwritten_bytes_at_end(server, || self.stop_log(server));
        if unwritten > 0 {
            return Err(format!(
                "the disk does not take {unwritten} bytes of changes: they are not in the \
                 append-only file; see the log"
            ));
        }
        if server.is_filling() {
            return Ok(());
        }
        let saves = match self.exit.load(Ordering::Acquire) {
            BY_SIGNAL => !save_points(server).is_empty(),
            // What others wrote while the lanes ended is not in that snapshot.
            SAVED => self.saving.unsaved_changes(server) > 0,
            _ => false,
        };
        match saves {
            true => self
                .save_at_end(server)
                .map_err(|_| "the snapshot could not be saved; see the log".to_owned()),
            false => Ok(()),
        }
    }
}
