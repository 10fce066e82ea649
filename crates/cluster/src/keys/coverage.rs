//! Whether the stream and the snapshots have all keys that the primary has.
//!
//! An operator, or NATS itself, may remove messages that were acknowledged: a purge, the deletion
//! of one message, a limit that was set. The stream goes on as if nothing had happened, but no hub
//! that starts can read it. The same if a message is there that no hub can read. The primary has
//! all keys in memory: it stores a snapshot behind the loss, and acknowledges nothing until that is
//! there.

/// What the stream has, as its leader says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysExtent {
    /// The sequence that its first message has got, or will get.
    pub origin: u64,
    /// The last sequence that it does not have any more: behind this one nothing is missing.
    pub missing: u64,
    /// The last sequence. One less than `origin` if no message has come yet.
    pub last: u64,
}

/// What a primary knows of both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coverage {
    extent: KeysExtent,
    /// The last message that no hub can read, 0 for none.
    wrong: u64,
    /// The message behind which the newest snapshot is read on, 0 without one. `None`: that is not
    /// known yet.
    snapshot: Option<u64>,
    /// What was acknowledged when keys were found that only this hub has.
    frozen: Option<u64>,
    losses: u64,
}

impl Coverage {
    /// A reign begins: what was stored is looked at again.
    pub(super) fn begin(&mut self) {
        let losses = self.losses;
        *self = Coverage {
            losses,
            ..Coverage::default()
        };
    }

    /// Reports what the stream has. `durable` is the offset before which all is acknowledged.
    pub(super) fn stream(&mut self, extent: KeysExtent, durable: u64) {
        self.extent = extent;
        self.judge(durable);
    }

    /// Reports a message that no hub can read. Whether a snapshot is behind it is known at once:
    /// there is none that is newer than the stream.
    pub(super) fn wrong(&mut self, sequence: u64, durable: u64) {
        self.wrong = self.wrong.max(sequence);
        self.judge(durable);
        if self.frozen.is_none() && self.snapshot.is_none() {
            self.frozen = Some(durable);
            self.losses += 1;
        }
    }

    /// Whether a snapshot is behind this message, or will be.
    pub(super) fn knows_of(&self, sequence: u64) -> bool {
        let snapshot = self.snapshot.unwrap_or(0);
        sequence <= snapshot.max(self.missing())
    }

    /// Returns the last message that no hub can read, 0 for none.
    pub(super) fn wrong_message(&self) -> u64 {
        self.wrong
    }

    /// Reports the newest snapshot that is stored.
    pub(super) fn snapshot(&mut self, sequence: u64, durable: u64) {
        self.snapshot = Some(sequence);
        self.judge(durable);
    }

    fn judge(&mut self, durable: u64) {
        let Some(snapshot) = self.snapshot else {
            return;
        };
        let is_bare = self.missing() > snapshot;
        match (is_bare, self.frozen) {
            (true, None) => {
                self.losses += 1;
                self.frozen = Some(durable);
            }
            (false, _) => self.frozen = None,
            (true, Some(_)) => {}
        }
    }

    /// Returns the last message that a reader cannot have, 0 for none.
    fn missing(&self) -> u64 {
        let KeysExtent {
            origin, missing, ..
        } = self.extent;
        let is_lost = missing >= origin;
        self.wrong.max(if is_lost { missing } else { 0 })
    }

    /// Returns the offset beyond which nothing may be acknowledged, if there is one.
    pub(super) fn frozen(&self) -> Option<u64> {
        self.frozen
    }

    /// Returns how often messages were lost that no snapshot had.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether a snapshot behind this message makes good for what is lost.
    pub(super) fn is_healed_behind(&self, sequence: u64) -> bool {
        self.frozen.is_some() && sequence >= self.missing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(origin: u64, missing: u64, last: u64) -> KeysExtent {
        KeysExtent {
            origin,
            missing,
            last,
        }
    }

    #[test]
    fn what_only_the_primary_has_is_not_acknowledged_until_a_snapshot_has_it() {
        let mut coverage = Coverage::default();
        coverage.stream(extent(100, 99, 120), 7);
        coverage.snapshot(0, 7);
        assert_eq!(coverage.frozen(), None, "all messages are there");
        coverage.stream(extent(100, 110, 121), 8);
        assert_eq!((coverage.frozen(), coverage.losses()), (Some(8), 1));
        coverage.stream(extent(100, 110, 125), 9);
        assert_eq!((coverage.frozen(), coverage.losses()), (Some(8), 1));
        assert!(!coverage.is_healed_behind(109));
        assert!(coverage.is_healed_behind(110));
        coverage.snapshot(110, 9);
        assert_eq!(coverage.frozen(), None);
        // Trimmed behind an older snapshot.
        coverage.stream(extent(100, 105, 130), 9);
        assert_eq!(coverage.frozen(), None);
        // The snapshot was removed, too.
        coverage.snapshot(0, 9);
        assert_eq!((coverage.frozen(), coverage.losses()), (Some(9), 2));
    }

    #[test]
    fn a_message_that_no_hub_can_read_is_missing() {
        for snapshot in [None, Some(0), Some(110)] {
            let mut coverage = Coverage::default();
            coverage.stream(extent(100, 99, 120), 7);
            if let Some(snapshot) = snapshot {
                coverage.snapshot(snapshot, 7);
            }
            coverage.wrong(121, 8);
            assert_eq!((coverage.frozen(), coverage.losses()), (Some(8), 1));
            assert!(!coverage.is_healed_behind(120) && coverage.is_healed_behind(121));
            coverage.snapshot(120, 9);
            assert_eq!((coverage.frozen(), coverage.losses()), (Some(8), 1));
            coverage.snapshot(121, 9);
            assert_eq!(coverage.frozen(), None);
        }
    }

    #[test]
    fn a_new_primary_waits_for_what_is_known_of_snapshots() {
        let mut coverage = Coverage::default();
        coverage.snapshot(50, 0);
        coverage.begin();
        coverage.stream(extent(1, 40, 60), 3);
        assert_eq!(coverage.frozen(), None, "snapshots are not known yet");
        coverage.snapshot(39, 3);
        assert_eq!(coverage.frozen(), Some(3));
    }
}
