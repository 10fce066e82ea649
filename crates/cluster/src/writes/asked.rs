//! The edge's side: writes whose answers are to come.

use std::collections::BTreeMap;

use super::frame::{WriteAnswer, WriteId};

/// Maximum writes of a hub that wait for answers.
pub const WAITING_MAX: usize = 4_096;
/// Maximum bytes of their names and values.
pub const WAITING_BYTES_MAX: usize = 32 << 20;

/// Writes that wait, each with its client `T`.
#[derive(Debug)]
pub struct AskedWrites<T> {
    session: u64,
    timeout_ns: u64,
    last: u64,
    /// By number, and so by the time of their end.
    waiting: BTreeMap<u64, Waiting<T>>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    client: T,
    epoch: u64,
    owner: Box<str>,
    due_ns: u64,
    bytes: usize,
}

/// Too many writes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl<T> AskedWrites<T> {
    /// Creates the table of one process, whose random number is `session`. A write ends after
    /// `timeout_ns` without an answer.
    ///
    /// # Panics
    ///
    /// If the session is 0.
    pub fn new(session: u64, timeout_ns: u64) -> Self {
        assert_ne!(session, 0, "0 is no session");
        Self {
            session,
            timeout_ns,
            last: 0,
            waiting: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Begins a write of so many bytes to a topic of `owner`, whose reign is `epoch`.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn begin(
        &mut self,
        client: T,
        (owner, epoch): (&str, u64),
        bytes: usize,
        now_ns: u64,
    ) -> Result<WriteId, NoRoom> {
        if self.waiting.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX {
            return Err(NoRoom);
        }
        self.last += 1;
        self.bytes += bytes;
        let waiting = Waiting {
            client,
            epoch,
            owner: owner.into(),
            due_ns: now_ns.saturating_add(self.timeout_ns),
            bytes,
        };
        self.waiting.insert(self.last, waiting);
        Ok(WriteId {
            epoch,
            session: self.session,
            number: self.last,
        })
    }

    /// Ends a write. Returns its client and the owner's name, unless it has ended before.
    pub fn end(&mut self, number: u64) -> Option<(T, Box<str>)> {
        let waiting = self.waiting.remove(&number)?;
        debug_assert!(self.bytes >= waiting.bytes, "each write was counted");
        self.bytes -= waiting.bytes;
        Some((waiting.client, waiting.owner))
    }

    /// Returns whether an answer is to this write.
    pub fn is_answer(&self, number: u64, answer: &WriteAnswer<'_>) -> bool {
        let waiting = self.waiting.get(&number);
        waiting.is_some_and(|waiting| {
            let id = WriteId {
                epoch: waiting.epoch,
                session: self.session,
                number,
            };
            answer.id == id
        })
    }

    /// Returns the numbers of writes whose time is over.
    pub fn due(&self, now_ns: u64) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let due = waiting.take_while(|(_, waiting)| waiting.due_ns <= now_ns);
        due.map(|(&number, _)| number).collect()
    }

    /// Returns the numbers of writes that wait for this owner.
    pub fn of_owner(&self, owner: &str) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let its = waiting.filter(|(_, waiting)| &*waiting.owner == owner);
        its.map(|(&number, _)| number).collect()
    }

    /// Returns the numbers of all writes that wait.
    pub fn all(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// Returns how many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the first one's time is over; `u64::MAX` without one.
    pub fn deadline_ns(&self) -> u64 {
        let first = self.waiting.first_key_value();
        first.map_or(u64::MAX, |(_, waiting)| waiting.due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::WriteOutcome;
    use super::*;

    fn table() -> AskedWrites<&'static str> {
        AskedWrites::new(5, 100)
    }

    #[test]
    fn a_write_ends_once() {
        let mut table = table();
        let id = table.begin("one", ("a", 7), 3, 0).unwrap();
        assert_eq!((id.epoch, id.session, id.number), (7, 5, 1));
        let answer = WriteAnswer {
            id,
            outcome: WriteOutcome::Done,
            text: "",
        };
        assert!(table.is_answer(1, &answer));
        let of_another = WriteAnswer {
            id: WriteId { session: 6, ..id },
            ..answer
        };
        assert!(!table.is_answer(1, &of_another) && !table.is_answer(2, &answer));
        assert_eq!(table.end(1), Some(("one", "a".into())));
        assert_eq!(table.end(1), None);
        assert!(!table.is_answer(1, &answer), "it has ended");
    }

    #[test]
    fn writes_end_by_time_or_with_their_owner() {
        let mut table = table();
        for (owner, now_ns) in [("a", 0), ("b", 10), ("a", 20)] {
            table.begin("x", (owner, 1), 1, now_ns).unwrap();
        }
        assert_eq!(table.deadline_ns(), 100);
        assert!(table.due(99).is_empty());
        assert_eq!(table.due(110), [1, 2]);
        assert_eq!(table.of_owner("a"), [1, 3]);
        assert_eq!(table.all(), [1, 2, 3]);
        table.end(1);
        assert_eq!((table.deadline_ns(), table.waiting()), (110, 2));
    }

    #[test]
    fn writes_and_their_bytes_are_limited() {
        let mut table = table();
        let half = WAITING_BYTES_MAX / 2;
        for _ in 0..2 {
            table.begin("x", ("a", 1), half, 0).unwrap();
        }
        assert_eq!(table.begin("x", ("a", 1), 1, 0), Err(NoRoom));
        table.end(1);
        for _ in 1..WAITING_MAX {
            table.begin("x", ("a", 1), 1, 0).unwrap();
        }
        assert_eq!(table.begin("x", ("a", 1), 1, 0), Err(NoRoom));
        assert_eq!(table.waiting(), WAITING_MAX);
    }
}
