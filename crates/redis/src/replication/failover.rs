//! FAILOVER: this master and one of its replicas change parts, and nothing that was written is
//! lost.
//!
//! Writes are held, until a replica has all that was written before. Then this server follows it:
//! its PSYNC tells the replica to be the master. If the replica refuses, or takes too long, all is
//! as it was before. A thread of its own waits for all this; the lanes go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{info, warn};

use super::fence::Fence;
use super::log_of;
use super::replica::{Phase, ReplicaStatus};
use super::state::{Attempt, FailoverOrder, Master, NONE, Replication, UNDER_WAY, WAITING};
use crate::pause::PauseFor;
use crate::server::Server;
use tidewire_lane::unix_ms;

impl Replication {
    /// FAILOVER. The text of the refusal if there is no such replica, or too much of it.
    pub(crate) fn fail_over(&self, server: &Server, order: FailoverOrder) -> Result<(), String> {
        let mut current = self.failover.current.lock();
        if current.is_some() {
            return Err("ERR FAILOVER already in progress.".to_owned());
        }
        if self.master().is_some() {
            return Err("ERR FAILOVER is not valid when server is a replica.".to_owned());
        }
        if self.count() == 0 {
            return Err("ERR FAILOVER requires connected replicas.".to_owned());
        }
        if order.is_forced && (order.deadline_ms.is_none() || order.target.is_none()) {
            return Err(
                "ERR FAILOVER with force option requires both a timeout and target HOST \
                        and IP."
                    .to_owned(),
            );
        }
        match &order.target {
            None => info!("FAILOVER requested to any replica."),
            Some(target) => match self.phase_of(target) {
                None => {
                    let text = "ERR FAILOVER target HOST and PORT is not a replica.";
                    return Err(text.to_owned());
                }
                Some(Phase::Online) => info!("FAILOVER requested to {}:{}.", target.0, target.1),
                Some(_) => return Err("ERR FAILOVER target replica is not online.".to_owned()),
            },
        }
        let attempt = Arc::new(Attempt { order });
        *current = Some(attempt.clone());
        let state = self.failover.state.swap(WAITING, Ordering::AcqRel);
        debug_assert_eq!(state, NONE, "one failover ends before the next begins");
        // What replicas would have to hear of waits, from now on.
        server.pause.begin(PauseFor::Failover, i64::MAX, false);
        server.keyspace.pause_expiry(i64::MAX);
        drop(current);
        let Some(own) = server.own.upgrade() else {
            return Ok(());
        };
        let thread = std::thread::Builder::new().name("failover".into());
        let spawned = thread.spawn(move || own.replication.wait_for_successor(&own, &attempt));
        spawned.map(drop).map_err(|error| {
            self.end_failover(server, Err("there is no thread for it"));
            format!("ERR FAILOVER: {error}")
        })
    }

    /// FAILOVER ABORT; false if there is none.
    pub(crate) fn abort_failover(&self, server: &Server) -> bool {
        self.end_failover(server, Err("Failover manually aborted"))
    }

    /// It is over: the replica is the master now, or the text says why it is not. False if there
    /// was none.
    pub(super) fn end_failover(&self, server: &Server, result: Result<(), &str>) -> bool {
        let mut current = self.failover.current.lock();
        let Some(attempt) = current.take() else {
            return false;
        };
        // With the lock: the state is that of this attempt, and not of one that begins now.
        let state = self.failover.state.swap(NONE, Ordering::AcqRel);
        debug_assert_ne!(state, NONE, "an attempt is under way until it ends");
        drop(current);
        let was_told = state == UNDER_WAY;
        if let Err(reason) = result {
            match &attempt.order.target {
                Some((host, port)) => warn!("FAILOVER to {host}:{port} aborted: {reason}"),
                None => warn!("FAILOVER to any replica aborted: {reason}"),
            }
            if was_told {
                // Nothing of the master's is under way: it has refused.
                self.follow_nobody(server);
            }
        }
        server.pause.end(PauseFor::Failover);
        if self.master().is_none() {
            let until_ms = server.pause.until_ms(unix_ms()).unwrap_or(0);
            server.keyspace.pause_expiry(until_ms);
        }
        server.tell_unpaused();
        true
    }

    /// Waits until a replica has everything, or the time is over.
    fn wait_for_successor(&self, server: &Server, attempt: &Arc<Attempt>) {
        let is_current = || is_same(&self.failover.current.lock(), attempt);
        let order = &attempt.order;
        let is_late = || {
            order
                .deadline_ms
                .is_some_and(|until_ms| unix_ms() >= until_ms)
        };
        // Writes that lanes had begun come first.
        let mut is_still = Fence::new(server).wait(server, || !is_current() || is_late());
        // Writes wait until a replica says how far it is: not for the next time that it does.
        log_of(server).append_aside(&[b"REPLCONF", b"GETACK", b"*"]);
        while is_current() {
            let successor = match is_still {
                true => {
                    // MIGRATE does not remove a key any more.
                    let _stream = self.hold_stream();
                    self.successor(server, order)
                }
                false => None,
            };
            if let Some((host, port)) = successor {
                info!("Failover target: {host}:{port} is synced, failing over.");
                return self.hand_over(server, attempt, host, port);
            }
            if is_late() {
                let Some((host, port)) = order.forced_target() else {
                    let text = "Replica never caught up before timeout";
                    self.end_failover(server, Err(text));
                    return;
                };
                info!("Failover to {host}:{port} time out exceeded, failing over.");
                return self.hand_over(server, attempt, host, port);
            }
            std::thread::sleep(LOOK_EVERY);
            is_still = is_still || Fence::new(server).wait(server, || !is_current() || is_late());
        }
    }

    /// A replica that has everything, the one that is asked for if one is.
    fn successor(&self, server: &Server, order: &FailoverOrder) -> Option<(String, u16)> {
        let end = log_of(server).end();
        let mut replicas = self.statuses(unix_ms()).into_iter();
        let found = replicas.find(|one| {
            let target = order.target.as_ref();
            let is_wanted = target.is_none_or(|target| is_at(one, target));
            is_wanted && one.phase == Phase::Online && one.acked >= end
        });
        found.map(|one| (one.address, one.port))
    }

    fn phase_of(&self, target: &(String, i64)) -> Option<Phase> {
        let mut replicas = self.statuses(unix_ms()).into_iter();
        let found = replicas.find(|one| is_at(one, target));
        found.map(|one| one.phase)
    }

    fn hand_over(&self, server: &Server, attempt: &Arc<Attempt>, host: String, port: u16) {
        let current = self.failover.current.lock();
        if !is_same(&current, attempt) {
            return;
        }
        let state = self.failover.state.swap(UNDER_WAY, Ordering::AcqRel);
        debug_assert_eq!(state, WAITING, "a replica is told once to take over");
        drop(current);
        self.follow_master(server, Master::new(host, port, true));
    }
}

impl FailoverOrder {
    /// The replica that takes over at the timeout, whether it has everything or not.
    fn forced_target(&self) -> Option<(String, u16)> {
        let (host, port) = self.target.as_ref().filter(|_| self.is_forced)?;
        Some((host.clone(), u16::try_from(*port).ok()?))
    }
}

/// Whether a replica has this address.
fn is_at(replica: &ReplicaStatus, (host, port): &(String, i64)) -> bool {
    replica.address.eq_ignore_ascii_case(host) && i64::from(replica.port) == *port
}

fn is_same(current: &Option<Arc<Attempt>>, attempt: &Arc<Attempt>) -> bool {
    current
        .as_ref()
        .is_some_and(|one| Arc::ptr_eq(one, attempt))
}

const LOOK_EVERY: Duration = Duration::from_millis(5);
