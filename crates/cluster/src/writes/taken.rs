//! The owner's side: which requests it takes, and which of them have not ended.

use std::collections::{BTreeMap, HashMap};

use super::frame::WriteId;

/// Maximum requests of an owner that have not ended.
pub const TAKEN_MAX: usize = 4_096;
/// Edges whose sessions are kept. Beyond them the one that was silent for the longest is forgotten.
pub const EDGES_MAX: usize = 1_024;
/// Processes of one edge whose last number is kept. Beyond them the one of the same edge that was
/// silent for the longest is forgotten: an edge makes no other one be forgotten.
pub const SESSIONS_MAX: usize = 16;
/// How long a ticket is good for: a request takes effect at most so long after the answer that gave
/// it the ticket, wherever it was meanwhile.
const TICKET_MS: u64 = 5_000;

/// Requests that have been taken, each with `T`: what is needed to answer it.
#[derive(Debug)]
pub struct TakenWrites<T> {
    /// The reign in which the sessions have sent.
    epoch: u64,
    edges: HashMap<Box<str>, Edge>,
    requests: u64,
    last: u64,
    /// By number, and so by the time of their end.
    waiting: BTreeMap<u64, (u64, T)>,
    timeout_ns: u64,
}

/// What an edge has sent. NATS's rights say which hub sends as which edge, and the session is but a
/// word of the request: so no edge uses up the numbers of another one.
#[derive(Debug, Default)]
struct Edge {
    sessions: Vec<Session>,
    /// As in [`Session`].
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    /// The random number of its process.
    id: u64,
    /// Its highest number. NATS keeps the order of one sender, so a lower one is late or repeated.
    number: u64,
    /// Counts requests, to find the session that was silent for the longest.
    used: u64,
}

/// What an owner does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does what is asked for.
    Take,
    /// It answers that nothing was written: the request is of another reign. Its edge hears of the
    /// present one soon.
    OtherReign,
    /// It answers that nothing was written: too many requests have not ended.
    Full,
    /// It answers that the request may be sent again, with a new ticket.
    Again,
    /// It does nothing, not even answer: it is no owner. Another process may be.
    NoOwner,
    /// It does nothing, not even answer: the request came before. The first one is answered.
    Repeated,
}

impl<T> TakenWrites<T> {
    /// Creates an empty table. A request that has not ended after `timeout_ns` is given up.
    pub fn new(timeout_ns: u64) -> Self {
        Self {
            epoch: 0,
            edges: HashMap::new(),
            requests: 0,
            last: 0,
            waiting: BTreeMap::new(),
            timeout_ns,
        }
    }

    /// Returns the ticket that answers of this moment have. Its times are those of this process,
    /// and so of its reign.
    pub fn ticket(now_ns: u64) -> u64 {
        now_ns / 1_000_000 + 1
    }

    /// Says what to do with a request of `edge`; `reign` is that of this hub at this moment, if it
    /// is the owner. A request that is taken, or answered, is never taken again.
    pub fn admit(
        &mut self,
        edge: &str,
        (id, ticket): (WriteId, u64),
        reign: Option<u64>,
        now_ns: u64,
    ) -> Admission {
        let Some(epoch) = reign else {
            return Admission::NoOwner;
        };
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.edges.clear();
        }
        if id.epoch > epoch {
            // The edge knows of a later owner: it is the one to answer.
            return Admission::NoOwner;
        }
        if self.is_repeated(edge, id) {
            return Admission::Repeated;
        }
        if id.epoch < epoch {
            return Admission::OtherReign;
        }
        let age_ms = Self::ticket(now_ns).checked_sub(ticket);
        if ticket == 0 || age_ms.is_none_or(|age_ms| age_ms > TICKET_MS) {
            return Admission::Again;
        }
        match self.waiting.len() < TAKEN_MAX {
            true => Admission::Take,
            false => Admission::Full,
        }
    }

    fn is_repeated(&mut self, edge: &str, id: WriteId) -> bool {
        self.requests += 1;
        let used = self.requests;
        if !self.edges.contains_key(edge) {
            if self.edges.len() >= EDGES_MAX {
                let edges = self.edges.iter();
                let silent = edges.min_by_key(|(_, edge)| edge.used);
                let silent = silent.map(|(name, _)| name.clone());
                silent.and_then(|name| self.edges.remove(&name));
            }
            self.edges.insert(edge.into(), Edge::default());
        }
        let edge = self.edges.get_mut(edge);
        edge.is_none_or(|edge| edge.is_repeated(id, used))
    }

    /// Begins a request that is taken. Returns its number here.
    pub fn begin(&mut self, request: T, now_ns: u64) -> u64 {
        debug_assert!(self.waiting.len() < TAKEN_MAX, "it was admitted");
        self.last += 1;
        let due_ns = now_ns.saturating_add(self.timeout_ns);
        self.waiting.insert(self.last, (due_ns, request));
        self.last
    }

    /// Returns a request that has not ended.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.waiting.get(&number).map(|(_, request)| request)
    }

    /// Ends a request, unless it has ended before.
    pub fn end(&mut self, number: u64) -> Option<T> {
        self.waiting.remove(&number).map(|(_, request)| request)
    }

    /// Returns the numbers of requests whose time is over.
    pub fn due(&self, now_ns: u64) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let due = waiting.take_while(|(_, (due_ns, _))| *due_ns <= now_ns);
        due.map(|(&number, _)| number).collect()
    }

    /// Returns how many have not ended.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the first one's time is over; `u64::MAX` without one.
    pub fn deadline_ns(&self) -> u64 {
        let first = self.waiting.first_key_value();
        first.map_or(u64::MAX, |(_, (due_ns, _))| *due_ns)
    }
}

impl Edge {
    fn is_repeated(&mut self, id: WriteId, used: u64) -> bool {
        self.used = used;
        let mut sessions = self.sessions.iter_mut();
        if let Some(session) = sessions.find(|session| session.id == id.session) {
            session.used = used;
            let is_repeated = id.number <= session.number;
            session.number = session.number.max(id.number);
            return is_repeated;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            let sessions = self.sessions.iter().enumerate();
            let silent = sessions.min_by_key(|(_, session)| session.used);
            if let Some((silent, _)) = silent {
                self.sessions.swap_remove(silent);
            }
        }
        self.sessions.push(Session {
            id: id.session,
            number: id.number,
            used,
        });
        id.number == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits a request whose ticket is that of the moment.
    fn admit<T>(taken: &mut TakenWrites<T>, id: WriteId, reign: Option<u64>) -> Admission {
        taken.admit("a", (id, TakenWrites::<T>::ticket(0)), reign, 0)
    }

    fn id(epoch: u64, session: u64, number: u64) -> WriteId {
        WriteId {
            epoch,
            session,
            number,
        }
    }

    #[test]
    fn a_request_is_taken_once() {
        let mut taken = TakenWrites::<()>::new(10);
        assert_eq!(admit(&mut taken, id(3, 1, 1), Some(3)), Admission::Take);
        assert_eq!(admit(&mut taken, id(3, 1, 1), Some(3)), Admission::Repeated);
        assert_eq!(admit(&mut taken, id(3, 2, 1), Some(3)), Admission::Take);
        assert_eq!(admit(&mut taken, id(3, 1, 5), Some(3)), Admission::Take);
        assert_eq!(
            admit(&mut taken, id(3, 1, 4), Some(3)),
            Admission::Repeated,
            "late"
        );
    }

    /// A request that a client of NATS had kept while it had no link was carried out minutes later.
    #[test]
    fn a_request_that_was_late_takes_no_effect() {
        let mut taken = TakenWrites::<()>::new(10);
        let at = |seconds: u64| seconds * 1_000_000_000;
        let ticket = TakenWrites::<()>::ticket(at(60));
        assert_eq!(
            taken.admit("a", (id(1, 1, 1), 0), Some(1), 0),
            Admission::Again
        );
        for (number, seconds, expected) in [
            (2, 59, Admission::Again),
            (3, 60, Admission::Take),
            (4, 65, Admission::Take),
            (5, 66, Admission::Again),
        ] {
            let request = (id(1, 1, number), ticket);
            let admission = taken.admit("a", request, Some(1), at(seconds));
            assert_eq!(admission, expected, "{seconds}");
        }
        // What was answered so is not taken with a new ticket either: its number is used.
        let again = (id(1, 1, 5), TakenWrites::<()>::ticket(at(66)));
        assert_eq!(
            taken.admit("a", again, Some(1), at(66)),
            Admission::Repeated
        );
    }

    #[test]
    fn only_the_owner_of_the_reign_takes_a_request() {
        let mut taken = TakenWrites::<()>::new(10);
        assert_eq!(admit(&mut taken, id(3, 1, 1), None), Admission::NoOwner);
        assert_eq!(admit(&mut taken, id(4, 1, 1), Some(3)), Admission::NoOwner);
        assert_eq!(admit(&mut taken, id(3, 1, 1), Some(3)), Admission::Take);
        // It is repeated to the next owner: that one knows nothing of it, but its reign is another.
        assert_eq!(
            admit(&mut taken, id(3, 1, 1), Some(5)),
            Admission::OtherReign
        );
        assert_eq!(admit(&mut taken, id(3, 1, 1), Some(5)), Admission::Repeated);
    }

    #[test]
    fn requests_that_have_not_ended_are_limited_and_given_up() {
        let mut taken = TakenWrites::new(10);
        for number in 1..=TAKEN_MAX as u64 {
            assert_eq!(
                admit(&mut taken, id(1, 1, number), Some(1)),
                Admission::Take
            );
            taken.begin(number, number);
        }
        assert_eq!(admit(&mut taken, id(1, 2, 1), Some(1)), Admission::Full);
        assert_eq!(taken.deadline_ns(), 11);
        assert_eq!(taken.due(12), [1, 2]);
        assert_eq!(taken.get(2), Some(&2));
        assert_eq!(taken.end(1), Some(1));
        assert_eq!((taken.end(1), taken.waiting()), (None, TAKEN_MAX - 1));
        assert_eq!(
            admit(&mut taken, id(1, 2, 1), Some(1)),
            Admission::Repeated,
            "its edge was told that nothing was written"
        );
        assert_eq!(admit(&mut taken, id(1, 2, 2), Some(1)), Admission::Take);
    }

    #[test]
    fn the_session_that_was_silent_for_the_longest_is_forgotten() {
        let mut taken = TakenWrites::<()>::new(10);
        for session in 1..=SESSIONS_MAX as u64 {
            admit(&mut taken, id(1, session, 1), Some(1));
        }
        admit(&mut taken, id(1, 1, 2), Some(1));
        assert_eq!(
            admit(&mut taken, id(1, u64::MAX, 1), Some(1)),
            Admission::Take
        );
        assert_eq!(admit(&mut taken, id(1, 1, 2), Some(1)), Admission::Repeated);
        assert_eq!(admit(&mut taken, id(1, 3, 1), Some(1)), Admission::Repeated);
        assert_eq!(taken.edges["a"].sessions.len(), SESSIONS_MAX);
    }

    /// A hub sent a request in its own name with the session of another edge, which the audit
    /// shows, and with a high number. The owner took no write of that edge any more.
    #[test]
    fn an_edge_used_up_the_numbers_of_another_edge() {
        let mut taken = TakenWrites::<()>::new(10);
        let ticket = TakenWrites::<()>::ticket(0);
        assert_eq!(admit(&mut taken, id(1, 7, 1), Some(1)), Admission::Take);
        let other = (id(1, 7, u64::MAX), ticket);
        assert_eq!(taken.admit("b", other, Some(1), 0), Admission::Take);
        assert_eq!(admit(&mut taken, id(1, 7, 2), Some(1)), Admission::Take);
        // Nor does it make the owner forget what the other one has sent.
        for session in 1..=10 * SESSIONS_MAX as u64 {
            let request = (id(1, session, 1), ticket);
            taken.admit("b", request, Some(1), 0);
        }
        assert_eq!(admit(&mut taken, id(1, 7, 2), Some(1)), Admission::Repeated);
    }

    #[test]
    fn the_edge_that_was_silent_for_the_longest_is_forgotten() {
        let mut taken = TakenWrites::<()>::new(10);
        let ticket = TakenWrites::<()>::ticket(0);
        for edge in 0..2 * EDGES_MAX {
            admit(&mut taken, id(1, 1, edge as u64 + 1), Some(1));
            let request = (id(1, 1, 1), ticket);
            let admission = taken.admit(&format!("edge-{edge}"), request, Some(1), 0);
            assert_eq!(admission, Admission::Take);
        }
        assert_eq!(taken.edges.len(), EDGES_MAX);
        assert_eq!(admit(&mut taken, id(1, 1, 1), Some(1)), Admission::Repeated);
    }
}
