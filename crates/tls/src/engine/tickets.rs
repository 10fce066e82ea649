//! Tickets with which clients resume a session, under keys that change.

use std::fmt;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use rustls::server::ProducesTickets;

use super::session_state::last_valid_s;
use crate::error::Error;
use crate::facts::unix_s;

/// Makes tickets with keys that are replaced after `lifetime`. A ticket is valid for that time at
/// least, and for twice that time at most. It ends earlier where an authority of clients begins or
/// ends: who has resumed a session has shown no certificate since. It is not accepted once a
/// certificate of the client has ended.
pub(super) struct Tickets {
    lifetime: Duration,
    /// When that is, seconds since the UNIX epoch.
    turns_s: Vec<i64>,
    keys: Mutex<Keys>,
}

struct Keys {
    since: Instant,
    since_s: i64,
    current: Arc<dyn ProducesTickets>,
    previous: Option<Arc<dyn ProducesTickets>>,
}

impl Tickets {
    pub(super) fn new(lifetime: Duration, turns_s: Vec<i64>) -> Result<Tickets, Error> {
        let keys = Keys {
            since: Instant::now(),
            since_s: unix_s(),
            current: make()?,
            previous: None,
        };
        Ok(Tickets {
            lifetime,
            turns_s,
            keys: Mutex::new(keys),
        })
    }

    /// Returns the keys of a time: the current ones, and those that are still accepted.
    fn keys_at(&self, now_s: i64) -> (Arc<dyn ProducesTickets>, Option<Arc<dyn ProducesTickets>>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let age = keys.since.elapsed();
        let turns = |turn_s: &i64| (keys.since_s < *turn_s) != (now_s < *turn_s);
        let turned = self.turns_s.iter().any(turns);
        // Without random numbers the old keys stay.
        if (age >= self.lifetime || turned)
            && let Ok(new) = make()
        {
            let old = std::mem::replace(&mut keys.current, new);
            keys.previous = (age < 2 * self.lifetime && !turned).then_some(old);
            (keys.since, keys.since_s) = (Instant::now(), now_s);
        }
        (keys.current.clone(), keys.previous.clone())
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys_at(unix_s()).0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let now_s = unix_s();
        let (current, previous) = self.keys_at(now_s);
        let read = current.decrypt(cipher);
        let state = read.or_else(|| previous?.decrypt(cipher))?;
        // A full handshake follows: the client may have a newer certificate.
        let is_over = last_valid_s(&state).is_some_and(|last_s| now_s > last_s);
        (!is_over).then_some(state)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Tickets");
        shown.field("lifetime", &self.lifetime);
        shown.finish_non_exhaustive()
    }
}

fn make() -> Result<Arc<dyn ProducesTickets>, Error> {
    aws_lc_rs::Ticketer::new().map_err(|_| Error::NoRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients of an authority that had expired went on without end, each with the ticket of its
    /// last connection.
    #[test]
    fn a_ticket_ends_where_an_authority_of_clients_begins_or_ends() {
        let end_s = unix_s() + 1_000;
        let tickets = Tickets::new(Duration::from_secs(300), vec![0, end_s]).unwrap();
        let ticket = tickets.encrypt(b"session").unwrap();
        let reads = |now_s| {
            let (current, previous) = tickets.keys_at(now_s);
            let read = current.decrypt(&ticket);
            read.or_else(|| previous?.decrypt(&ticket)).is_some()
        };
        assert!(reads(end_s - 1));
        assert!(!reads(end_s) && !reads(end_s + 1));
        let new = tickets.keys_at(end_s + 2).0.encrypt(b"session").unwrap();
        let (current, _) = tickets.keys_at(end_s + 3);
        assert_eq!(current.decrypt(&new).as_deref(), Some(&b"session"[..]));
    }

    #[test]
    fn a_ticket_is_read_with_its_own_keys_and_those_before_them() {
        let tickets = Tickets::new(Duration::from_secs(300), Vec::new()).unwrap();
        let ticket = tickets.encrypt(b"session").unwrap();
        let later = |seconds| {
            let mut keys = tickets.keys.lock().unwrap();
            keys.since = keys
                .since
                .checked_sub(Duration::from_secs(seconds))
                .unwrap();
        };
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        later(301);
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        later(301);
        assert_eq!(tickets.decrypt(&ticket), None);
        let old = tickets.encrypt(b"session").unwrap();
        later(601);
        assert_eq!(tickets.decrypt(&old), None, "idle for longer than its time");
    }
}
