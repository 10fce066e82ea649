//! Which trades a client's bar has had, where they come again in another run of the hub.

use crate::venues::GIVEN_MIN;

/// The trades of a bar by publisher: the clocks of two of them may be apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Had(Vec<Publisher>);

#[derive(Clone, Copy, Debug)]
struct Publisher {
    id: u16,
    /// The latest time of its trades, ns since the UNIX epoch.
    newest_ns: u64,
    /// Until when they are those that it has had already, ns since the UNIX epoch; 0 if none are.
    repeated_until_ns: u64,
}

/// Whether a bar has had a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repetition {
    New,
    Repeated,
    /// Another publisher's trades come again, and may be those of this one under another number.
    Unknown,
}

impl Had {
    /// Notes a trade of a publisher.
    #[inline]
    pub(super) fn add(&mut self, id: u16, time_ns: u64) -> Repetition {
        // The hub gives these numbers in another order in the next run.
        if id >= GIVEN_MIN && self.0.len() > 1 && self.may_be_repeated(time_ns) {
            return Repetition::Unknown;
        }
        let Some(publisher) = self.0.iter_mut().find(|publisher| publisher.id == id) else {
            return self.begin(id, time_ns);
        };
        if time_ns <= publisher.repeated_until_ns {
            return Repetition::Repeated;
        }
        publisher.repeated_until_ns = 0;
        publisher.newest_ns = publisher.newest_ns.max(time_ns);
        Repetition::New
    }

    #[cold]
    fn begin(&mut self, id: u16, time_ns: u64) -> Repetition {
        if self.may_be_repeated(time_ns) {
            return Repetition::Unknown;
        }
        self.0.push(Publisher {
            id,
            newest_ns: time_ns,
            repeated_until_ns: 0,
        });
        Repetition::New
    }

    fn may_be_repeated(&self, time_ns: u64) -> bool {
        let mut publishers = self.0.iter();
        publishers.any(|publisher| time_ns <= publisher.repeated_until_ns)
    }

    /// Notes that the trades so far may come again.
    pub(super) fn may_repeat(&mut self) {
        for publisher in &mut self.0 {
            publisher.repeated_until_ns = publisher.newest_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first one to pass the newest trade of all ended the repetition, and new trades of one
    /// with a slow clock were taken for repeated.
    #[test]
    fn trades_are_compared_with_those_of_their_own_publisher() {
        let (fast, slow) = (1, 2);
        let mut had = Had::default();
        for (id, time_ns) in [(fast, 40), (slow, 10)] {
            assert_eq!(had.add(id, time_ns), Repetition::New);
        }
        had.may_repeat();
        assert_eq!(had.add(slow, 11), Repetition::New);
        assert_eq!(had.add(fast, 40), Repetition::Repeated);
        assert_eq!(had.add(3, 40), Repetition::Unknown);
        assert_eq!(had.add(fast, 41), Repetition::New);
        had.may_repeat();
        assert_eq!(had.add(fast, 42), Repetition::New);
        assert_eq!(had.add(slow, 10), Repetition::Repeated);
        assert_eq!(had.add(3, 40), Repetition::New);
    }

    #[test]
    fn a_number_that_the_hub_has_given_may_be_another_ones_in_the_next_run() {
        let (fast, slow) = (GIVEN_MIN, GIVEN_MIN + 1);
        let mut had = Had::default();
        for (id, time_ns) in [(fast, 40), (slow, 10)] {
            assert_eq!(had.add(id, time_ns), Repetition::New);
        }
        had.may_repeat();
        assert_eq!(had.add(slow, 40), Repetition::Unknown);
        assert_eq!(had.add(fast, 41), Repetition::New);
        let mut one = Had::default();
        assert_eq!(one.add(fast, 40), Repetition::New);
        one.may_repeat();
        assert_eq!(one.add(fast, 40), Repetition::Repeated);
    }
}
