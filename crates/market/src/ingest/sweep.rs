//! What an event of a whole source does to its topics, a part at a time. Without a clock and
//! without topics: numbers in, numbers and effects out.
//!
//! An event such as a missing message concerns each topic of its source, and there may be a
//! million. So the event is only noted here, and a slice of the topics is visited at a time. If
//! more events or a message of its own reach a topic before its slice, nothing is late: its notes
//! are one [`Effect`], which is applied before anything else happens to the topic. The result is
//! that of events that reach all topics at once.
//!
//! ```text
//!  event ─▶ push ─▶ class: effect, topics ─┬─▶ pop: the next topic of the slice
//!                   class: effect, topics ─┴─▶ take: the topic of a message
//! ```
//!
//! Topics with the same effect are one class, so a topic is in one class at most. Effects are
//! functions of few bits, of which there are few, so there are few classes.

use tidewire_lastvalue::NumberSet;

/// An event of a source that concerns many of its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Messages are missing: values are in doubt.
    Doubtful,
    /// Messages are missing, while some topics wait for what was lost: the others are in doubt
    /// until those messages have come.
    Interrupted,
    /// Messages were lost for good: values are in doubt.
    Lost,
    /// The messages that were missing since the last interruption have come.
    AsBefore,
    /// All values are right.
    Right,
    /// The source has left, or is silent.
    Left,
    /// The source that has left is back.
    Back,
    /// The source began another session.
    SessionEnded,
    /// Price levels were lost: books are known again from their next clear on.
    BooksLost,
}

/// What is known of one topic's certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) is_stale: bool,
    pub(super) is_doubtful: bool,
    /// It became stale because the source has left.
    pub(super) has_left: bool,
    /// It was certain until the last interruption.
    pub(super) is_interrupted: bool,
    /// The source's present session has given it a value. No event changes this.
    pub(super) is_valued: bool,
}

impl Standing {
    fn bits(self) -> usize {
        let bits = [
            self.is_stale,
            self.is_doubtful,
            self.has_left,
            self.is_interrupted,
            self.is_valued,
        ];
        let bits = bits.into_iter().enumerate();
        bits.map(|(place, is_set)| usize::from(is_set) << place)
            .sum()
    }

    fn of_bits(bits: usize) -> Self {
        let is_set = |place: u32| bits >> place & 1 != 0;
        Self {
            is_stale: is_set(0),
            is_doubtful: is_set(1),
            has_left: is_set(2),
            is_interrupted: is_set(3),
            is_valued: is_set(4),
        }
    }
}

impl Event {
    /// Returns what the event makes of a topic's standing.
    fn apply(self, before: Standing) -> Standing {
        let mut after = before;
        match self {
            Self::Doubtful => after.is_doubtful = true,
            Self::Interrupted => {
                after.is_interrupted = !before.is_doubtful;
                after.is_doubtful = true;
            }
            Self::Lost => {
                after.is_interrupted = false;
                after.is_doubtful = true;
            }
            Self::AsBefore => {
                after.is_doubtful = before.is_doubtful && !before.is_interrupted;
                after.is_interrupted = false;
            }
            Self::Right => {
                let has_value = before.has_left || before.is_valued;
                after.is_stale = before.is_stale && !has_value;
                (after.is_doubtful, after.has_left) = (false, false);
            }
            Self::Left if !before.is_stale => (after.is_stale, after.has_left) = (true, true),
            Self::Left | Self::BooksLost => {}
            Self::Back => {
                after.is_stale = before.is_stale && !before.has_left;
                after.has_left = false;
            }
            Self::SessionEnded => {
                after.is_stale = true;
                (after.has_left, after.is_interrupted) = (false, false);
            }
        }
        after
    }
}

/// What one or more events in a row do to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    /// The standing after them by that before, as bits.
    standings: [u8; STANDINGS],
    /// Whether the book is forgotten.
    pub(super) forgets_book: bool,
}

impl Effect {
    pub(super) fn of(event: Event) -> Self {
        let after = |before| event.apply(Standing::of_bits(before)).bits() as u8;
        Self {
            standings: std::array::from_fn(after),
            forgets_book: event == Event::BooksLost,
        }
    }

    /// Returns the effect of these events and then of another one.
    pub(super) fn then(&self, event: Event) -> Self {
        let after = |between: u8| event.apply(Standing::of_bits(between.into())).bits() as u8;
        Self {
            standings: self.standings.map(after),
            forgets_book: self.forgets_book || event == Event::BooksLost,
        }
    }

    pub(super) fn apply(&self, before: Standing) -> Standing {
        let after = Standing::of_bits(self.standings[before.bits()].into());
        debug_assert_eq!(after.is_valued, before.is_valued, "no event gives a value");
        after
    }
}

/// Topics for which the same is to be done.
#[derive(Debug)]
struct Class {
    effect: Effect,
    topics: NumberSet,
    /// No topic is below it.
    next: u32,
}

/// The topics of a source that events have not reached yet.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    classes: Vec<Class>,
}

impl Sweep {
    /// Returns whether any topic waits.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Returns how many topics wait.
    pub(super) fn pending(&self) -> usize {
        self.classes.iter().map(|class| class.topics.len()).sum()
    }

    /// Returns whether a topic waits.
    pub(super) fn contains(&self, number: u32) -> bool {
        self.classes
            .iter()
            .any(|class| class.topics.contains(number))
    }

    /// Notes an event that concerns `topics` and those that wait.
    pub(super) fn push(&mut self, event: Event, mut topics: NumberSet) {
        for class in &mut self.classes {
            class.effect = class.effect.then(event);
            topics.remove_all(&class.topics);
        }
        if !topics.is_empty() {
            self.classes.push(Class {
                effect: Effect::of(event),
                topics,
                next: 0,
            });
        }
        // Events in a row make effects equal, such as twice the same one.
        let mut place = 0;
        while place < self.classes.len() {
            let effect = self.classes[place].effect;
            let first = self.classes.iter().position(|class| class.effect == effect);
            match first {
                Some(first) if first < place => {
                    let same = self.classes.swap_remove(place);
                    let class = &mut self.classes[first];
                    class.topics.add_all(&same.topics);
                    class.next = class.next.min(same.next);
                }
                _ => place += 1,
            }
        }
        debug_assert!(self.classes.len() <= EFFECTS, "a class has its own effect");
    }

    /// Takes a topic out. Returns what is to be done for it.
    pub(super) fn take(&mut self, number: u32) -> Option<Effect> {
        let mut classes = self.classes.iter_mut();
        let place = classes.position(|class| class.topics.remove(number))?;
        let class = &self.classes[place];
        let effect = class.effect;
        if class.topics.is_empty() {
            self.classes.swap_remove(place);
        }
        Some(effect)
    }

    /// Lets a topic wait for this instead of what it waits for, if that is anything.
    pub(super) fn set(&mut self, number: u32, effect: Effect) {
        let _ = self.take(number);
        let known = self.classes.iter_mut().find(|class| class.effect == effect);
        if let Some(class) = known {
            class.topics.insert(number);
            class.next = class.next.min(number);
            return;
        }
        self.classes.push(Class {
            effect,
            topics: [number].into_iter().collect(),
            next: 0,
        });
    }

    /// Returns what a topic waits for.
    pub(super) fn of(&self, number: u32) -> Option<Effect> {
        let mut classes = self.classes.iter();
        let class = classes.find(|class| class.topics.contains(number))?;
        Some(class.effect)
    }

    /// Takes the next topic out.
    pub(super) fn pop(&mut self) -> Option<(u32, Effect)> {
        let class = self.classes.last_mut()?;
        let next = class.topics.next_from(class.next);
        debug_assert!(next.is_some(), "a class has a topic");
        let Some(number) = next else {
            self.classes.pop();
            return None;
        };
        class.topics.remove(number);
        class.next = number;
        let effect = class.effect;
        if class.topics.is_empty() {
            self.classes.pop();
        }
        Some((number, effect))
    }

    /// Lets a topic wait for what another one waits for, which is that no longer.
    pub(super) fn hand_on(&mut self, from: u32, to: u32) {
        for class in &mut self.classes {
            if class.topics.remove(from) {
                class.topics.insert(to);
                class.next = class.next.min(to);
                return;
            }
        }
    }

    /// Removes the topics that do not wait from a set.
    pub(super) fn keep_pending(&self, topics: &mut NumberSet) {
        let mut pending = NumberSet::default();
        for class in &self.classes {
            pending.add_all(&class.topics);
        }
        topics.keep_all(&pending);
    }

    #[cfg(test)]
    pub(super) fn classes(&self) -> usize {
        self.classes.len()
    }
}

/// Number of different standings.
const STANDINGS: usize = 32;
/// Number of different effects that events in any order have.
const EFFECTS: usize = 169;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const EVENTS: [Event; 9] = [
        Event::Doubtful,
        Event::Interrupted,
        Event::Lost,
        Event::AsBefore,
        Event::Right,
        Event::Left,
        Event::Back,
        Event::SessionEnded,
        Event::BooksLost,
    ];

    fn all(count: u32) -> NumberSet {
        (0..count).collect()
    }

    #[test]
    fn effects_are_few_however_many_events_come() {
        let mut known: Vec<Effect> = EVENTS.map(Effect::of).into();
        let mut seen: HashSet<([u8; STANDINGS], bool)> = HashSet::new();
        let mut place = 0;
        while place < known.len() {
            let effect = known[place];
            place += 1;
            if seen.insert((effect.standings, effect.forgets_book)) {
                known.extend(EVENTS.map(|event| effect.then(event)));
            }
        }
        assert_eq!(seen.len(), EFFECTS);
    }

    #[test]
    fn doubt_that_ends_before_a_topic_is_reached_leaves_it_as_it_was() {
        let mut sweep = Sweep::default();
        sweep.push(Event::Doubtful, all(3));
        let (first, effect) = sweep.pop().unwrap();
        let after = effect.apply(Standing::default());
        assert_eq!((first, after.is_doubtful), (0, true));
        sweep.push(Event::Right, all(3));
        assert_eq!((sweep.pending(), sweep.classes()), (3, 1));
        while let Some((_, effect)) = sweep.pop() {
            assert_eq!(effect.apply(Standing::default()), Standing::default());
            assert!(!effect.apply(after).is_doubtful);
        }
        assert!(!sweep.is_pending());
    }

    #[test]
    fn a_topic_waits_once_however_many_events_come() {
        let mut sweep = Sweep::default();
        for round in 0..1_000 {
            sweep.push(Event::Interrupted, all(50));
            sweep.pop();
            sweep.take(round % 50);
            sweep.push(Event::AsBefore, all(50));
            sweep.pop();
            assert!(sweep.pending() <= 50 && sweep.classes() <= 4);
        }
    }

    #[test]
    fn classes_are_few_after_random_events() {
        let mut sweep = Sweep::default();
        let mut random = 1_u64;
        for _ in 0..200_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let event = EVENTS[(random >> 33) as usize % EVENTS.len()];
            sweep.push(event, all(100));
            for _ in 0..(random >> 60) {
                sweep.take((random >> 40) as u32 % 100);
                sweep.pop();
            }
            assert!(sweep.classes() <= 32, "{}", sweep.classes());
        }
    }

    #[test]
    fn a_topic_that_is_handed_on_waits_under_its_new_number() {
        let mut sweep = Sweep::default();
        sweep.push(Event::Left, all(2));
        assert_eq!(sweep.pop().map(|(number, _)| number), Some(0));
        sweep.hand_on(1, 0);
        assert!(!sweep.contains(1) && sweep.contains(0));
        assert!(sweep.pop().unwrap().1.apply(Standing::default()).has_left);
        assert!(sweep.pop().is_none() && sweep.take(0).is_none());
    }
}
