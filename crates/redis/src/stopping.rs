//! SHUTDOWN: waits for replicas, scripts and files before the server stops.
//!
//! While it waits for them nothing is changed any more, and SHUTDOWN ABORT takes it back.

use std::sync::atomic::Ordering;

use crate::parameters::{SHUTDOWN_ON_SIGINT, SHUTDOWN_ON_SIGTERM, SHUTDOWN_TIMEOUT};
use crate::parts::Pending;
use crate::parts::StopOrder;
use crate::pause::PauseFor;
use crate::replication::log_of;
use crate::server::Server;
use crate::waiting::WaitId;
use tidewire_lane::unix_ms;

/// The result of an order to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopOutcome {
    /// The process ends.
    Ends,
    /// When replicas have what they lack.
    Waits,
    /// The data could not be saved.
    Failed,
}

impl Server {
    /// SHUTDOWN.
    pub(crate) fn stop(&self, order: StopOrder) -> StopOutcome {
        if self.stopping.is_pending.load(Ordering::Acquire) && !order.is_immediate {
            return StopOutcome::Waits;
        }
        let timeout_ms = self.parameters.read(SHUTDOWN_TIMEOUT) as i64 * 1_000;
        if order.is_immediate || timeout_ms == 0 || !self.replicas_lag() {
            return self.finish_stop(order);
        }
        tracing::info!("Waiting for replicas before shutting down.");
        let deadline_ms = unix_ms() + timeout_ms;
        let mut pending = self.stopping.pending.lock();
        *pending = Some(Pending {
            order,
            deadline_ms,
            clients: Vec::new(),
        });
        self.pause.begin(PauseFor::Shutdown, deadline_ms, false);
        self.stopping.is_pending.store(true, Ordering::Release);
        drop(pending);
        log_of(self).append_aside(&[b"REPLCONF", b"GETACK", b"*"]);
        StopOutcome::Waits
    }

    /// A client waits for the end.
    pub(crate) fn await_stop(&self, client: WaitId) {
        match &mut *self.stopping.pending.lock() {
            Some(pending) => return pending.clients.push(client),
            None if self.stop_asked.load(Ordering::Acquire) => return,
            None => {}
        }
        // The shutdown has failed or was aborted already.
        self.tell_not_stopped(client);
    }

    /// SHUTDOWN ABORT; false if there is nothing to abort.
    pub(crate) fn abort_stop(&self) -> bool {
        let pending = self.stopping.pending.lock().take();
        let Some(pending) = pending else {
            return false;
        };
        tracing::info!("Shutdown manually aborted.");
        self.give_up_stop(pending);
        true
    }

    /// How long replicas are still waited for before the end; `None` where no end is under way.
    pub(crate) fn stop_in_ms(&self, now_ms: i64) -> Option<i64> {
        let pending = self.stopping.pending.lock();
        pending.as_ref().map(|pending| pending.deadline_ms - now_ms)
    }

    /// Whether replicas have what they lacked, or were waited for long enough: then the process
    /// ends. To be called a few times a second; what is to be saved is saved only where the lane
    /// `may_save`.
    pub(crate) fn follow_stop(&self, may_save: bool) {
        if !self.stopping.is_pending.load(Ordering::Acquire) {
            return;
        }
        let mut pending = self.stopping.pending.lock();
        let is_over = |one: &mut Pending| {
            (may_save || one.order.saves == Some(false))
                && (unix_ms() >= one.deadline_ms || !self.replicas_lag())
        };
        let Some(over) = pending.take_if(is_over) else {
            return;
        };
        drop(pending);
        if self.finish_stop(over.order) == StopOutcome::Failed {
            self.give_up_stop(over);
        }
    }

    /// A signal asks for the end, as `shutdown-on-sigint` and `shutdown-on-sigterm` say; to be
    /// called again and again until the process ends. False once it has come to nothing, because
    /// what had to be saved could not be, or it was aborted: then the signal is forgotten.
    pub fn stop_by_signal(&self, is_interrupt: bool) -> bool {
        let stopping = &self.stopping;
        if stopping.has_signal.swap(true, Ordering::AcqRel) {
            let is_over = stopping.is_signal_over.swap(false, Ordering::AcqRel);
            if is_over {
                stopping.has_signal.store(false, Ordering::Release);
            }
            return !is_over;
        }
        if self.waits_for_script() {
            stopping.has_signal.store(false, Ordering::Release);
            return true;
        }
        let words = self.parameters.read(match is_interrupt {
            true => SHUTDOWN_ON_SIGINT,
            false => SHUTDOWN_ON_SIGTERM,
        });
        let has = |word: &str| words.split(' ').any(|one| one == word);
        let order = StopOrder {
            saves: match has("save") || has("nosave") {
                true => Some(has("save")),
                false => None,
            },
            is_forced: has("force"),
            is_immediate: has("now"),
        };
        if self.waits_for_base(&order) {
            stopping.has_signal.store(false, Ordering::Release);
            return true;
        }
        tracing::info!("User requested shutdown...");
        let goes_on = self.stop(order) != StopOutcome::Failed;
        stopping.has_signal.store(goes_on, Ordering::Release);
        goes_on
    }

    /// A signal comes while a script runs: one that has only read is killed, one that has written
    /// may end within `shutdown-timeout`. After that the process ends without saving, for what a
    /// script has done in part must not be kept.
    fn waits_for_script(&self) -> bool {
        let deadline_ms = &self.stopping.script_deadline_ms;
        if !self.scripting.kill_to_stop() {
            deadline_ms.store(0, Ordering::Release);
            return false;
        }
        let timeout_ms = self.parameters.read(SHUTDOWN_TIMEOUT) as i64 * 1_000;
        let (now_ms, first_ms) = (unix_ms(), deadline_ms.load(Ordering::Acquire));
        if first_ms == 0 {
            tracing::info!("waiting for a script to end before shutting down");
            deadline_ms.store(now_ms + timeout_ms, Ordering::Release);
        } else if now_ms >= first_ms && !self.stop_asked.load(Ordering::Acquire) {
            match self.scripting.has_written() {
                true => tracing::warn!(
                    timeout_ms,
                    "a script that has written does not end: exiting without saving"
                ),
                false => tracing::warn!(
                    timeout_ms,
                    "a script that was killed does not end: exiting without saving"
                ),
            }
            self.durability.leave_unsaved();
            self.stop_asked.store(true, Ordering::Release);
        }
        true
    }

    /// A signal comes while the first base of the append-only file is written, without which the
    /// file keeps nothing: it may be completed within `shutdown-timeout`.
    fn waits_for_base(&self, order: &StopOrder) -> bool {
        let deadline_ms = &self.stopping.base_deadline_ms;
        let is_due = self.durability.is_first_base_under_way();
        if order.is_forced || order.is_immediate || !is_due {
            deadline_ms.store(0, Ordering::Release);
            return false;
        }
        let now_ms = unix_ms();
        if deadline_ms.load(Ordering::Acquire) == 0 {
            tracing::info!("waiting for the append-only file's base before shutting down");
            let timeout_ms = self.parameters.read(SHUTDOWN_TIMEOUT) as i64 * 1_000;
            deadline_ms.store(now_ms + timeout_ms, Ordering::Release);
        }
        let waits = now_ms < deadline_ms.load(Ordering::Acquire);
        if !waits {
            deadline_ms.store(0, Ordering::Release);
        }
        waits
    }

    fn finish_stop(&self, order: StopOrder) -> StopOutcome {
        self.tell_replicas_at_end();
        let is_ready = self
            .durability
            .prepare_shutdown(self, order.saves, order.is_forced);
        if !is_ready && !order.is_forced {
            tracing::warn!(
                "Errors trying to shut down the server. Check the logs for more information."
            );
            return StopOutcome::Failed;
        }
        self.stop_asked.store(true, Ordering::Release);
        StopOutcome::Ends
    }

    fn give_up_stop(&self, pending: Pending) {
        if self.stopping.has_signal.load(Ordering::Acquire) {
            self.stopping.is_signal_over.store(true, Ordering::Release);
        }
        self.stopping.is_pending.store(false, Ordering::Release);
        self.pause.end(PauseFor::Shutdown);
        self.tell_unpaused();
        for client in pending.clients {
            self.tell_not_stopped(client);
        }
    }

    fn tell_not_stopped(&self, client: WaitId) {
        let reply = format!("-{NOT_STOPPED}\r\n").into_bytes();
        self.answer_wait(client, reply, true);
    }

    /// Says which replicas do not have everything when the server ends, and by how much.
    fn tell_replicas_at_end(&self) {
        let (end, statuses) = (log_of(self).changed(), self.replication.statuses(unix_ms()));
        let lagging = statuses.iter().filter(|one| !one.has(end));
        for one in lagging.clone() {
            let (address, port, phase) = (&one.address, one.port, one.phase.name());
            let (behind, lag_s) = (end.saturating_sub(one.acked), one.lag_s);
            tracing::info!(
                "Lagging replica {address}:{port} reported offset {behind} behind master, \
                 lag={lag_s}, state={phase}."
            );
        }
        let (all, lagging) = (statuses.len(), lagging.count());
        if all > 0 {
            let in_sync = all - lagging;
            tracing::info!("{in_sync} of {all} replicas are in sync when shutting down.");
        }
    }

    /// Whether a replica has not said yet that it has every change. One that waits for all keys
    /// of a server on which nothing was changed does not keep it.
    fn replicas_lag(&self) -> bool {
        let end = log_of(self).changed();
        let statuses = self.replication.statuses(unix_ms());
        statuses.iter().any(|one| one.acked < end)
    }
}

/// The error for a client whose SHUTDOWN has failed or was aborted.
pub(crate) const NOT_STOPPED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
