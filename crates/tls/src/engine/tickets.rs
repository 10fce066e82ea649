//! Tickets with which clients resume a session, under keys that change.

use std::fmt;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use rustls::server::ProducesTickets;

use crate::error::Error;

/// Makes tickets with keys that are replaced after `lifetime`. A ticket is valid for that time at
/// least, and for twice that time at most.
pub(super) struct Tickets {
    lifetime: Duration,
    keys: Mutex<Keys>,
}

struct Keys {
    since: Instant,
    current: Arc<dyn ProducesTickets>,
    previous: Option<Arc<dyn ProducesTickets>>,
}

impl Tickets {
    pub(super) fn new(lifetime: Duration) -> Result<Tickets, Error> {
        let keys = Keys {
            since: Instant::now(),
            current: make()?,
            previous: None,
        };
        Ok(Tickets {
            lifetime,
            keys: Mutex::new(keys),
        })
    }

    /// Returns the keys of now: the current ones, and those that are still accepted.
    fn keys(&self) -> (Arc<dyn ProducesTickets>, Option<Arc<dyn ProducesTickets>>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let age = keys.since.elapsed();
        // Without random numbers the old keys stay.
        if age >= self.lifetime
            && let Ok(new) = make()
        {
            let old = std::mem::replace(&mut keys.current, new);
            keys.previous = (age < 2 * self.lifetime).then_some(old);
            keys.since = Instant::now();
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
        self.keys().0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (current, previous) = self.keys();
        let read = current.decrypt(cipher);
        read.or_else(|| previous?.decrypt(cipher))
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

    #[test]
    fn a_ticket_is_read_with_its_own_keys_and_those_before_them() {
        let tickets = Tickets::new(Duration::from_secs(300)).unwrap();
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
