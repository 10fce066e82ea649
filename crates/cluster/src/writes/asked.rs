//! The edge's side: writes whose answers are to come.

use std::collections::{BTreeMap, HashMap};

use super::frame::{WriteAnswer, WriteId};

/// Maximum writes of a hub that wait for answers.
pub const WAITING_MAX: usize = 4_096;
/// Maximum bytes of their names and values.
pub const WAITING_BYTES_MAX: usize = 32 << 20;

/// Writes that wait, each with its client `T`.
#[derive(Debug)]
pub struct AskedWrites<T> {
    session: u64,
    last: u64,
    waiting: BTreeMap<u64, Waiting<T>>,
    /// What each owner has said last.
    owners: HashMap<Box<str>, Owner>,
    bytes: usize,
}

/// What the last answer of an owner says.
#[derive(Clone, Copy, Debug)]
struct Owner {
    /// Its reign.
    epoch: u64,
    ticket: u64,
    came_ns: u64,
    takes_commands: bool,
}

#[derive(Debug)]
struct Waiting<T> {
    client: T,
    epoch: u64,
    owner: Box<str>,
    ticket: u64,
    due_ns: u64,
    bytes: usize,
}

impl<T> AskedWrites<T> {
    /// Creates the table of one process, whose random number is `session`.
    ///
    /// # Panics
    ///
    /// If the session is 0.
    pub fn new(session: u64) -> Self {
        assert_ne!(session, 0, "0 is no session");
        Self {
            session,
            last: 0,
            waiting: BTreeMap::new(),
            owners: HashMap::new(),
            bytes: 0,
        }
    }

    /// Begins a write of so many bytes to a topic of `owner`, whose reign is `epoch`. It ends at
    /// `due_ns` without an answer. Returns which write it is, and its ticket.
    ///
    /// # Errors
    /// There is no room for it: the client comes back.
    pub fn begin(
        &mut self,
        client: T,
        (owner, epoch): (&str, u64),
        bytes: usize,
        due_ns: u64,
    ) -> Result<(WriteId, u64), T> {
        if self.waiting.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX {
            return Err(client);
        }
        let known = self.owner(owner, epoch);
        let ticket = known.map_or(0, |known| known.ticket);
        self.last += 1;
        self.bytes += bytes;
        let waiting = Waiting {
            client,
            epoch,
            owner: owner.into(),
            ticket,
            due_ns,
            bytes,
        };
        self.waiting.insert(self.last, waiting);
        let id = WriteId {
            epoch,
            session: self.session,
            number: self.last,
        };
        Ok((id, ticket))
    }

    fn owner(&self, owner: &str, epoch: u64) -> Option<&Owner> {
        let known = self.owners.get(owner);
        known.filter(|known| known.epoch == epoch)
    }

    /// Returns whether an owner runs commands, as it has said in this reign; `None` if it has said
    /// nothing yet.
    pub fn takes_commands(&self, (owner, epoch): (&str, u64)) -> Option<bool> {
        self.owner(owner, epoch).map(|known| known.takes_commands)
    }

    /// Returns whether a request that must keep its place among others has to wait for an answer
    /// of its owner: one of them may have to be sent again, and would then come behind it.
    pub fn must_wait(&self, (owner, epoch): (&str, u64), now_ns: u64) -> bool {
        let mut waiting = self.waiting.values();
        !self.is_fresh((owner, epoch), now_ns) && waiting.any(|waiting| &*waiting.owner == owner)
    }

    /// Returns whether the ticket of an owner is surely good.
    pub fn is_fresh(&self, (owner, epoch): (&str, u64), now_ns: u64) -> bool {
        let known = self.owner(owner, epoch);
        known.is_some_and(|known| now_ns.saturating_sub(known.came_ns) < FRESH_NS)
    }

    /// Returns the client of a write that waits.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.waiting.get(&number).map(|waiting| &waiting.client)
    }

    /// Returns whether a write was sent without a ticket: it has no effect, wherever it is.
    pub fn is_without_effect(&self, number: u64) -> bool {
        let waiting = self.waiting.get(&number);
        waiting.is_some_and(|waiting| waiting.ticket == 0)
    }

    /// Ends a write. Returns its client and the owner's name, unless it has ended before.
    pub fn end(&mut self, number: u64) -> Option<(T, Box<str>)> {
        let waiting = self.waiting.remove(&number)?;
        debug_assert!(self.bytes >= waiting.bytes, "each write was counted");
        self.bytes -= waiting.bytes;
        Some((waiting.client, waiting.owner))
    }

    /// Returns whether an answer is to this write, and keeps its ticket.
    pub fn is_answer(&mut self, number: u64, answer: &WriteAnswer<'_>, now_ns: u64) -> bool {
        let Some(waiting) = self.waiting.get(&number) else {
            return false;
        };
        let id = WriteId {
            epoch: waiting.epoch,
            session: self.session,
            number,
        };
        if answer.id != id {
            return false;
        }
        let owner = Owner {
            epoch: waiting.epoch,
            ticket: answer.ticket,
            came_ns: now_ns,
            takes_commands: answer.takes_commands,
        };
        self.owners.insert(waiting.owner.clone(), owner);
        true
    }

    /// Returns the numbers of writes whose time is over.
    pub fn due(&self, now_ns: u64) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let due = waiting.filter(|(_, waiting)| waiting.due_ns <= now_ns);
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

    /// Returns their bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns when the first one's time is over; `u64::MAX` without one.
    pub fn deadline_ns(&self) -> u64 {
        let due = self.waiting.values().map(|waiting| waiting.due_ns);
        due.min().unwrap_or(u64::MAX)
    }
}

/// How long a ticket is surely good: half of its time at the owner.
const FRESH_NS: u64 = 2_500_000_000;

#[cfg(test)]
mod tests {
    use super::super::frame::WriteOutcome;
    use super::*;

    fn table() -> AskedWrites<&'static str> {
        AskedWrites::new(5)
    }

    #[test]
    fn a_write_ends_once() {
        let mut table = table();
        let (id, ticket) = table.begin("one", ("a", 7), 3, 0).unwrap();
        assert_eq!((id.epoch, id.session, id.number, ticket), (7, 5, 1, 0));
        let answer = WriteAnswer {
            id,
            ticket: 6,
            ..WriteAnswer::default()
        };
        assert_eq!(answer.outcome, WriteOutcome::Done);
        assert!(table.is_answer(1, &answer, 0));
        let of_another = WriteAnswer {
            id: WriteId { session: 6, ..id },
            ..answer
        };
        assert!(!table.is_answer(1, &of_another, 0) && !table.is_answer(2, &answer, 0));
        assert_eq!(table.end(1), Some(("one", "a".into())));
        assert_eq!(table.end(1), None);
        assert!(!table.is_answer(1, &answer, 0), "it has ended");
        // The next one to this owner, in this reign, has the answer's ticket.
        let tickets = [("a", 7), ("a", 8), ("b", 7)].map(|owner| {
            let (_, ticket) = table.begin("two", owner, 3, 0).unwrap();
            ticket
        });
        assert_eq!(tickets, [6, 0, 0]);
        let effects = [2, 3, 4].map(|number| table.is_without_effect(number));
        assert_eq!(effects, [false, true, true]);
    }

    /// Messages of a pusher came out of order: the first ones had no ticket and were sent again.
    #[test]
    fn what_keeps_its_order_waits_for_an_answer_unless_a_ticket_is_fresh() {
        let mut table = table();
        let owner = ("a", 7);
        assert!(!table.must_wait(owner, 0), "nothing is on its way");
        let (id, _) = table.begin("one", owner, 3, 0).unwrap();
        assert!(table.must_wait(owner, 0) && !table.must_wait(("b", 7), 0));
        assert_eq!(table.takes_commands(owner), None);
        let answer = WriteAnswer {
            id,
            ticket: 6,
            takes_commands: true,
            ..WriteAnswer::default()
        };
        assert!(table.is_answer(1, &answer, 5));
        assert_eq!(table.takes_commands(owner), Some(true));
        assert_eq!(table.takes_commands(("a", 8)), None, "another reign");
        assert!(!table.must_wait(owner, FRESH_NS + 4));
        assert!(table.must_wait(owner, FRESH_NS + 5) && table.must_wait(("a", 8), 5));
        table.end(1);
        assert!(!table.must_wait(owner, FRESH_NS + 5));
    }

    #[test]
    fn writes_end_by_time_or_with_their_owner() {
        let mut table = table();
        for (owner, due_ns) in [("a", 100), ("b", 110), ("a", 120)] {
            table.begin("x", (owner, 1), 1, due_ns).unwrap();
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
        assert_eq!(table.begin("x", ("a", 1), 1, 0), Err("x"));
        table.end(1);
        for _ in 1..WAITING_MAX {
            table.begin("x", ("a", 1), 1, 0).unwrap();
        }
        assert_eq!(table.begin("x", ("a", 1), 1, 0), Err("x"));
        assert_eq!(table.waiting(), WAITING_MAX);
    }
}
