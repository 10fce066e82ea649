//! SHUTDOWN: before the end, replicas get what they do not have yet.
//!
//! While it waits for them nothing is changed any more, and SHUTDOWN ABORT takes it back.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::hub::{Hub, Mail, unix_ms};
use crate::replication::{Wanted, log_of};

/// The end that has been asked for.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    pending: Mutex<Option<Pending>>,
    is_pending: AtomicBool,
    /// A signal has been answered.
    has_signal: AtomicBool,
    /// What the signal asked for has come to nothing.
    is_signal_over: AtomicBool,
}

#[derive(Debug)]
struct Pending {
    order: StopOrder,
    /// When replicas are waited for no longer, ms since the UNIX epoch.
    deadline_ms: i64,
    /// The pause that stood before.
    pause: Option<(i64, bool)>,
    /// Who hears it if nothing comes of it.
    clients: Vec<u64>,
}

/// How to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StopOrder {
    /// SAVE or NOSAVE; `None`: as the parameter `save` says.
    pub(crate) saves: Option<bool>,
    /// FORCE: an error does not keep it from ending.
    pub(crate) is_forced: bool,
    /// NOW: replicas are not waited for.
    pub(crate) is_immediate: bool,
}

/// What has become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The process ends.
    Ends,
    /// When replicas have what they lack.
    Waits,
    /// It could not be saved what had to be.
    Failed,
}

impl Hub {
    /// SHUTDOWN.
    pub(crate) fn stop(&self, order: StopOrder) -> Stop {
        if self.stopping.is_pending.load(Ordering::Acquire) && !order.is_immediate {
            return Stop::Waits;
        }
        let timeout_ms = self.parameters.number("shutdown-timeout") as i64 * 1_000;
        if order.is_immediate || timeout_ms == 0 || !self.replicas_lag() {
            return self.finish_stop(order);
        }
        tracing::info!("Waiting for replicas before shutting down.");
        let deadline_ms = unix_ms() + timeout_ms;
        let mut pending = self.stopping.pending.lock();
        let pause = self.pause.until_ms(unix_ms());
        *pending = Some(Pending {
            order,
            deadline_ms,
            pause: pause.map(|until_ms| (until_ms, self.pause.is_total())),
            clients: Vec::new(),
        });
        self.pause.begin(deadline_ms, false);
        self.stopping.is_pending.store(true, Ordering::Release);
        drop(pending);
        log_of(self).append_aside(&[b"REPLCONF", b"GETACK", b"*"]);
        Stop::Waits
    }

    /// A client waits for the end.
    pub(crate) fn await_stop(&self, client: u64) {
        match &mut *self.stopping.pending.lock() {
            Some(pending) => return pending.clients.push(client),
            None if self.stop_asked.load(Ordering::Acquire) => return,
            None => {}
        }
        // It has come to nothing already.
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

    /// Whether replicas have what they lacked, or were waited for long enough: then the process
    /// ends. To be called a few times a second.
    pub(crate) fn follow_stop(&self) {
        if !self.stopping.is_pending.load(Ordering::Acquire) {
            return;
        }
        let mut pending = self.stopping.pending.lock();
        let is_over = |one: &mut Pending| unix_ms() >= one.deadline_ms || !self.replicas_lag();
        let Some(over) = pending.take_if(is_over) else {
            return;
        };
        drop(pending);
        if self.finish_stop(over.order) == Stop::Failed {
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
        let words = self.parameters.text(match is_interrupt {
            true => "shutdown-on-sigint",
            false => "shutdown-on-sigterm",
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
        tracing::info!("User requested shutdown...");
        let goes_on = self.stop(order) != Stop::Failed;
        stopping.has_signal.store(goes_on, Ordering::Release);
        goes_on
    }

    fn finish_stop(&self, order: StopOrder) -> Stop {
        let is_ready = self
            .durability
            .prepare_shutdown(self, order.saves, order.is_forced);
        if !is_ready && !order.is_forced {
            return Stop::Failed;
        }
        self.stop_asked.store(true, Ordering::Release);
        Stop::Ends
    }

    fn give_up_stop(&self, pending: Pending) {
        if self.stopping.has_signal.load(Ordering::Acquire) {
            self.stopping.is_signal_over.store(true, Ordering::Release);
        }
        self.stopping.is_pending.store(false, Ordering::Release);
        self.pause.end();
        if let Some((until_ms, everything)) = pending.pause {
            self.pause.begin(until_ms, everything);
        }
        let mailboxes = self.mailboxes();
        mailboxes
            .iter()
            .for_each(|mailbox| mailbox.send(Mail::Unpaused));
        for client in pending.clients {
            self.tell_not_stopped(client);
        }
    }

    fn tell_not_stopped(&self, client: u64) {
        if let Some(lane) = self.waiting.claim(client, &self.keyspace) {
            self.mailboxes()[lane].send(Mail::Served {
                client,
                reply: format!("-{NOT_STOPPED}\r\n").into_bytes(),
                failed: true,
            });
        }
    }

    /// Whether a replica has not said yet that it has everything.
    fn replicas_lag(&self) -> bool {
        let count = self.replication.count();
        count > 0 && !Wanted::by_replicas(self, count).is_met(self)
    }
}

/// What a client hears whose SHUTDOWN has come to nothing.
pub(crate) const NOT_STOPPED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
