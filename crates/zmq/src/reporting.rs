//! What a socket tells its monitor: which event, at which two ends.

use std::os::fd::{AsFd, AsRawFd};

use crate::endpoint::{Endpoint, Role};
use crate::monitor::{Ends, Event};
use crate::peer::Link;
use crate::slab::Key;
use crate::state::State;

impl State {
    /// Tells the monitor of an event, if there is one.
    pub(crate) fn report(&self, event: Event, value: u64, ends: &Ends) {
        if let Some(monitor) = &self.monitor {
            monitor.report(event, &[value], ends);
        }
    }

    /// Tells of an endpoint without a connection.
    pub(crate) fn report_endpoint(&self, endpoint: Key, event: Event, value: u64) {
        if self.monitor.is_some()
            && let Some(known) = self.endpoints.get(endpoint)
        {
            self.report(event, value, &known.ends());
        }
    }

    /// Tells of a connection that was just made.
    pub(crate) fn report_connection(&self, endpoint: Key, event: Event, descriptor: impl AsFd) {
        if self.monitor.is_some() {
            let descriptor = descriptor.as_fd();
            let ends = self.ends(Some(endpoint), descriptor);
            self.report(event, descriptor.as_raw_fd() as u64, &ends);
        }
    }

    /// Tells of a peer.
    pub(crate) fn report_peer(&mut self, key: Key, event: Event, value: u64) {
        if let Some(ends) = self.reported_ends(key) {
            self.report(event, value, &ends);
        }
    }

    /// The ends of a peer's connection; `None`: there is no monitor to be told.
    pub(crate) fn reported_ends(&mut self, key: Key) -> Option<Ends> {
        self.monitor.as_ref()?;
        let peer = self.peers.get(key)?;
        if let Link::Stream(link) = &peer.link {
            return Some(match &link.ends {
                Some(ends) => Ends::clone(ends),
                None => self.ends(peer.origin, &**link),
            });
        }
        let origin = peer.origin.and_then(|origin| self.endpoints.get(origin));
        Some(origin.map(Endpoint::ends).unwrap_or_default())
    }

    /// Notes the ends of a new connection: when it is lost, the kernel no longer tells them.
    pub(crate) fn note_ends(&mut self, key: Key) {
        let Some(ends) = self.reported_ends(key) else {
            return;
        };
        if let Some(Link::Stream(link)) = self.peers.get_mut(key).map(|peer| &mut peer.link) {
            link.ends = Some(Box::new(ends));
        }
    }

    /// The ends of a connection: addresses over tcp, ws and wss, else what is known by name.
    fn ends(&self, origin: Option<Key>, descriptor: impl AsFd) -> Ends {
        let Some(origin) = origin.and_then(|origin| self.endpoints.get(origin)) else {
            return Ends::default();
        };
        let mut ends = origin.ends();
        let (scheme, place) = origin.name.split_once("://").unwrap_or_default();
        let local = crate::transport::local_address(&descriptor);
        let remote = crate::transport::remote_address(&descriptor);
        let path = place.find('/').map_or("", |path| &place[path..]);
        match (local, remote) {
            (Some(local), _) if ends.is_ours => ends.local = format!("{scheme}://{local}"),
            (Some(local), Some(remote)) if matches!(scheme, "ws" | "wss") => {
                ends.local = format!("{scheme}://{local}{path}");
                ends.remote = format!("{scheme}://{remote}{path}");
            }
            (Some(local), Some(remote)) => {
                ends.local = format!("{scheme}://{local}");
                ends.remote = format!("{scheme}://{remote}");
            }
            // The end of a Unix socket that was not bound has no name.
            _ if ends.is_ours => ends.local = format!("{scheme}://"),
            _ => ends.remote = format!("{scheme}://"),
        }
        ends
    }

    /// Tells, for each peer, how many messages wait for it and from it.
    ///
    /// # Errors
    /// The monitor did not ask for it, or there is no peer.
    pub(crate) fn report_queues(&mut self) -> Result<(), crate::Error> {
        let asked = |monitor: &crate::monitor::Monitor| monitor.wants(Event::PipesStats);
        if !self.monitor.as_ref().is_some_and(asked) {
            return Err(crate::Error::InvalidArgument);
        }
        let send_mark = self.options.send_high_water as u64;
        let receive_mark = self.options.receive_high_water as u64;
        let mut is_any = false;
        for key in self.peers.keys() {
            let Some(ends) = self.reported_ends(key) else {
                continue;
            };
            let Some(peer) = self.peers.get(key).filter(|peer| !peer.is_gone) else {
                continue;
            };
            let gone = peer
                .counters
                .sent
                .saturating_sub(peer.pending_messages() as u64);
            let queued = [
                waiting(peer.counters.sent, gone, send_mark),
                waiting(
                    peer.counters.received + peer.incoming.len() as u64,
                    peer.counters.received,
                    receive_mark,
                ),
            ];
            if let Some(monitor) = &self.monitor {
                monitor.report(Event::PipesStats, &queued, &ends);
            }
            is_any = true;
        }
        match is_any {
            true => Ok(()),
            false => Err(crate::Error::Again),
        }
    }
}

impl Endpoint {
    /// What is known of the ends without a connection.
    pub(crate) fn ends(&self) -> Ends {
        match &self.role {
            Role::Listener { .. } | Role::InprocListener => Ends::bound(&self.name),
            Role::Connecter(_) | Role::InprocConnecter { .. } => Ends::connecting(&self.name),
            // Where it is bound, or sends to.
            Role::Datagrams { bound, .. } => Ends::bound(bound),
        }
    }
}

/// What libzmq says waits in a queue: its writer hears of messages that were taken out in steps of
/// half the mark, and programs compare what it says with the mark. `Socket::peers` is exact.
fn waiting(put_in: u64, taken_out: u64, mark: u64) -> u64 {
    let step = mark.div_ceil(2).max(1);
    put_in - taken_out.min(put_in) / step * step
}

#[cfg(test)]
mod tests {
    use super::waiting;

    #[test]
    fn what_waits_is_told_in_steps_of_half_the_mark() {
        assert_eq!(waiting(1_000, 513, 500), 500);
        assert_eq!(waiting(1_000, 1_000, 500), 0);
        assert_eq!(waiting(1_000, 499, 500), 750);
        assert_eq!(waiting(7, 3, 0), 4);
        assert_eq!(waiting(7, 7, 1), 0);
    }
}
