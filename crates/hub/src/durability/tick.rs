//! What is looked at from time to time.

use std::sync::atomic::Ordering;

use tracing::warn;

use super::{BY_SIGNAL, Durability, Job, SAVED, WITHOUT_SAVING, save_points};
use crate::hub::Hub;

impl Durability {
    /// Whether [`tick`](Self::tick) has anything to look at.
    pub(crate) fn wants_ticks(&self, hub: &Hub) -> bool {
        self.log.is_on() || hub.parameters.saves_by_itself.load(Ordering::Relaxed)
    }

    /// To be called before a turn's replies are sent: what they tell of is as durable then as was
    /// promised. Two loads where nothing is.
    #[inline]
    pub(crate) fn before_replies(&self, hub: &Hub) {
        if hub.parameters.saves_by_itself.load(Ordering::Relaxed) {
            self.follow_flushes(hub);
        }
        self.log.before_replies(hub);
    }

    /// After FLUSHALL the file of all keys is written anew where there are save points: what was
    /// removed must not come back with the next start.
    fn follow_flushes(&self, hub: &Hub) {
        let flushes = hub.keyspace.flushes();
        let is_known = self.flushes_seen.load(Ordering::Relaxed) == flushes;
        if is_known || self.flushes_seen.swap(flushes, Ordering::AcqRel) == flushes {
            return;
        }
        // A snapshot that is being made is given up and begun again by itself; another job is let
        // end first.
        let is_busy = self.saving.jobs.lock().running.is_some() || hub.keyspace.is_in_snapshot();
        if is_busy || self.save(hub).is_err() {
            let _ = self.request(Job::Snapshot, true);
        }
    }

    /// To be called ten times a second or so: begins what is due.
    pub(crate) fn tick(&self, hub: &Hub) {
        if self.is_loading() {
            return;
        }
        if self.is_save_due(hub) {
            let _ = self.request(Job::Snapshot, false);
        }
        if self.is_rewrite_due(hub) {
            let _ = self.request(Job::Rewrite, false);
        }
    }

    /// The parameters have changed. The text of the refusal if one cannot be followed.
    pub(crate) fn follow_parameters(&self, hub: &Hub) -> Result<(), String> {
        self.log.follow_policy(hub);
        self.look_at_failure(hub);
        self.flushes_seen
            .store(hub.keyspace.flushes(), Ordering::Release);
        let _turning = self.log.turning.lock();
        if self.is_loading() || self.is_log_suspended() {
            return Ok(());
        }
        let is_wanted = hub.parameters.text("appendonly") == "yes";
        if is_wanted == self.log.is_on() {
            return Ok(());
        }
        if !is_wanted {
            self.stop_log(hub);
            return Ok(());
        }
        self.begin_log(hub).map_err(|error| {
            warn!(%error, "the append-only file cannot be begun");
            let pair: (&[u8], &[u8]) = (b"appendonly", b"no");
            let _ = hub.parameters.set(&hub.keyspace, &[pair], true);
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn \
             on AOF. Check server logs."
                .to_owned()
        })
    }

    /// SHUTDOWN: saves a snapshot if that is asked for, or, where nothing is said, if there are
    /// save points. False if it could not be saved, or if an append-only file has just been
    /// begun, so that nothing would be kept; not so where the end `is_forced`.
    pub(crate) fn prepare_shutdown(&self, hub: &Hub, saves: Option<bool>, is_forced: bool) -> bool {
        if self.log.is_on() && self.log.is_beginning() {
            match is_forced {
                true => warn!("Writing initial AOF. Exit anyway."),
                false => {
                    warn!("Writing initial AOF, can't exit.");
                    return false;
                }
            }
        }
        let saves = saves.unwrap_or_else(|| !save_points(hub).is_empty()) && !self.is_loading();
        let exit = if saves { SAVED } else { WITHOUT_SAVING };
        self.exit.store(exit, Ordering::Release);
        self.cancel(Job::Snapshot);
        let is_saved = !saves || self.save(hub).is_ok();
        match is_forced {
            _ if is_saved => {}
            true => warn!("Error trying to save the DB. Exit anyway."),
            false => {
                warn!("Error trying to save the DB, can't exit.");
                self.exit.store(BY_SIGNAL, Ordering::Release);
            }
        }
        is_saved
    }

    /// The last thing that is done, when no lane runs any more: what is in memory is made durable
    /// as the parameters or SHUTDOWN say. The text tells why it could not be.
    pub fn finish(&self, hub: &Hub) -> Result<(), String> {
        self.cancel(Job::Rewrite);
        self.cancel(Job::Snapshot);
        let _turning = self.log.turning.lock();
        self.stop_log(hub);
        if self.is_loading() {
            return Ok(());
        }
        let saves = match self.exit.load(Ordering::Acquire) {
            BY_SIGNAL => !save_points(hub).is_empty(),
            // What others wrote while the lanes ended is not in that snapshot.
            SAVED => self.saving.unsaved_changes(hub) > 0,
            _ => false,
        };
        match saves {
            true => self
                .save(hub)
                .map_err(|_| "the snapshot could not be saved; see the log".to_owned()),
            false => Ok(()),
        }
    }
}
