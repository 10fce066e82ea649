//! Pauses: commands wait for CLIENT PAUSE, and while SHUTDOWN or FAILOVER waits for replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_keyspace::{Command, Flags};

use crate::attention::{Attention, Obstacles};

/// The pauses of all lanes, one for each purpose. Each has its own end and its own mode: one that
/// ends leaves the others as they are.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Until when, ms since the UNIX epoch, twice; plus 1 if it holds everything. 0: none.
    states: [AtomicU64; 3],
    /// Says that there is one.
    attention: Arc<Attention>,
}

/// Who pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseFor {
    /// CLIENT PAUSE.
    Client,
    /// SHUTDOWN, which waits for replicas.
    Shutdown,
    /// FAILOVER.
    Failover,
}

impl Pause {
    pub(crate) fn new(attention: Arc<Attention>) -> Self {
        let states = Default::default();
        Pause { states, attention }
    }

    /// Postpones commands until a time, ms since the UNIX epoch. A pause for the same purpose is
    /// never shortened or weakened.
    pub(crate) fn begin(&self, purpose: PauseFor, until_ms: i64, everything: bool) {
        let until_ms = until_ms.max(1) as u64;
        debug_assert!(until_ms < 1 << 63, "the lowest bit says what is paused");
        let longer = |state: u64| {
            let until_ms = until_ms.max(state >> 1);
            Some(until_ms << 1 | state & 1 | u64::from(everything))
        };
        let state = &self.states[purpose as usize];
        let _ = state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, longer);
        self.attention.set(Obstacles::PAUSED, true);
    }

    /// Ends the pause for one purpose.
    pub(crate) fn end(&self, purpose: PauseFor) {
        self.states[purpose as usize].store(0, Ordering::SeqCst);
        self.open();
    }

    /// Lets requests ask no more if there is no pause.
    fn open(&self) {
        let is_none = || {
            self.states
                .iter()
                .all(|one| one.load(Ordering::SeqCst) == 0)
        };
        if is_none() {
            self.attention.set(Obstacles::PAUSED, false);
            // One that began meanwhile may have said so before.
            if !is_none() {
                self.attention.set(Obstacles::PAUSED, true);
            }
        }
    }

    /// Returns the pauses that have not ended: until when, ms since the UNIX epoch, and whether
    /// each holds everything. Ends those that are over.
    fn standing(&self, now_ms: i64) -> impl Iterator<Item = (i64, bool)> + '_ {
        self.states.iter().filter_map(move |one| {
            let mut state = one.load(Ordering::SeqCst);
            loop {
                let (until_ms, everything) = ((state >> 1) as i64, state & 1 != 0);
                if state == 0 || until_ms > now_ms {
                    return (state != 0).then_some((until_ms, everything));
                }
                match one.compare_exchange(state, 0, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => {
                        self.open();
                        return None;
                    }
                    // Another lane has prolonged or ended it.
                    Err(other) => state = other,
                }
            }
        })
    }

    /// Returns when the last pause ends, ms since the UNIX epoch; `None` without a pause.
    pub(crate) fn until_ms(&self, now_ms: i64) -> Option<i64> {
        self.standing(now_ms).map(|(until_ms, _)| until_ms).max()
    }

    /// Returns when the next pause ends, ms since the UNIX epoch: some commands may go on then.
    pub(crate) fn next_end_ms(&self, now_ms: i64) -> Option<i64> {
        self.standing(now_ms).map(|(until_ms, _)| until_ms).min()
    }

    /// Whether a pause holds everything, not only writes.
    pub(crate) fn is_total(&self, now_ms: i64) -> bool {
        self.standing(now_ms).any(|(_, everything)| everything)
    }

    /// Whether a command counts as a write, which is anything that replicas must receive.
    pub(crate) fn counts_as_write(command: &Command) -> bool {
        command.has(Flags::WRITE | Flags::MAY_REPLICATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_shortened_or_weakened_until_it_ends() {
        let pause = Pause::new(Arc::default());
        let client = PauseFor::Client;
        pause.begin(client, 200, true);
        pause.begin(client, 50, false);
        assert_eq!(
            (pause.until_ms(100), pause.is_total(100)),
            (Some(200), true)
        );
        assert_eq!(pause.until_ms(200), None);
        pause.begin(client, 300, false);
        assert_eq!(
            (pause.until_ms(200), pause.is_total(200)),
            (Some(300), false)
        );
        pause.end(client);
        assert_eq!(pause.until_ms(200), None);
    }

    #[test]
    fn a_short_pause_of_everything_ends_while_shutdown_holds_writes() {
        let pause = Pause::new(Arc::default());
        pause.begin(PauseFor::Shutdown, 10_000, false);
        pause.begin(PauseFor::Client, 50, true);
        assert_eq!(
            (pause.next_end_ms(10), pause.is_total(10)),
            (Some(50), true)
        );
        assert_eq!(
            (pause.until_ms(50), pause.is_total(50)),
            (Some(10_000), false)
        );
        assert!(pause.attention.has(Obstacles::PAUSED));
        pause.end(PauseFor::Client);
        assert_eq!(
            pause.next_end_ms(50),
            Some(10_000),
            "UNPAUSE is the client's"
        );
        pause.end(PauseFor::Shutdown);
        assert!(!pause.attention.has(Obstacles::PAUSED));
    }
}
