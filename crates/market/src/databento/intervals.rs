//! The content of `bbo-1s` and `bbo-1m`: topics that changed within an interval, and their last
//! trades.

use std::collections::HashMap;

use tidewire_dbn::databento::{Event, Schema};
use tidewire_feed::wire::UNDEFINED_PRICE;

use super::selection::instrument_id;

/// The intervals of one client.
#[derive(Debug)]
pub(super) struct Intervals {
    seconds: Interval,
    minutes: Interval,
    trades: HashMap<u32, Event>,
}

/// A topic that has changed within an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) number: u32,
    /// Publisher of its newest change.
    pub(super) publisher_id: u16,
    /// Its last trade.
    pub(super) trade: Option<Event>,
}

/// One length of interval.
#[derive(Debug)]
struct Interval {
    schema: Schema,
    length_ns: u64,
    /// End of the current interval, ns since the UNIX epoch; 0 before the first.
    end_ns: u64,
    /// Topics that have changed in the current interval.
    changed: Vec<u32>,
    /// By topic number, if it is in `changed`: the publisher of its newest change.
    marked: Vec<Option<u16>>,
    /// End of the interval that is being sent, if any.
    telling_ns: Option<u64>,
}

impl Intervals {
    /// Notes that `publisher_id` has changed a topic, for those of these schemas that are interval
    /// schemas.
    #[inline]
    pub(super) fn note(&mut self, schemas: u16, number: u32, publisher_id: u16) {
        if schemas & BBO == 0 {
            return;
        }
        for interval in [&mut self.seconds, &mut self.minutes] {
            if schemas & interval.schema.bit() != 0 {
                interval.note(number, publisher_id);
            }
        }
    }

    /// Returns those of these schemas in whose current intervals, or in later ones, this time is,
    /// ns since the UNIX epoch.
    pub(super) fn at(&self, schemas: u16, time_ns: u64) -> u16 {
        let all = [&self.seconds, &self.minutes].into_iter();
        let before =
            all.filter(|interval| time_ns < interval.end_ns.saturating_sub(interval.length_ns));
        before.fold(schemas, |bits, interval| bits & !interval.schema.bit())
    }

    /// Notes a topic's last trade.
    pub(super) fn trade(&mut self, number: u32, event: Event) {
        self.trades.insert(number, event);
    }

    /// Forgets a topic's last trade.
    pub(super) fn forget_trade(&mut self, number: u32) {
        self.trades.remove(&number);
    }

    /// Returns a topic's last trade.
    pub(super) fn last_trade(&self, number: u32) -> Option<Event> {
        self.trades.get(&number).copied()
    }

    /// Notes the last trade of a topic's whole value, which does not give its time. Nothing is new
    /// if it is the one that is known, or if the value has none, as that of a source that begins.
    pub(super) fn last_of_value(&mut self, number: u32, event: Event) {
        let is_known = |known: &Event| (known.price, known.size) == (event.price, event.size);
        if event.price != UNDEFINED_PRICE && !self.trades.get(&number).is_some_and(is_known) {
            self.trades.insert(number, event);
        }
    }

    /// Moves a symbol's last trade to the topic `to` of its first venue, numbered `venue`, which
    /// continues it. The changes in those of `schemas` that the symbol does not keep are of that
    /// topic, too.
    pub(super) fn split(&mut self, (from, to): (u32, u32), venue: u16, moves: u16) {
        self.continue_trade((from, to), venue);
        for interval in [&mut self.seconds, &mut self.minutes] {
            if moves & interval.schema.bit() != 0
                && let Some(publisher_id) = interval.forget(from)
            {
                interval.note(to, publisher_id);
            }
        }
    }

    /// Returns those of these schemas in whose current intervals a topic's newest change is of this
    /// publisher.
    pub(super) fn of_publisher(&self, schemas: u16, number: u32, publisher_id: u16) -> u16 {
        let all = [&self.seconds, &self.minutes].into_iter();
        let of = all.filter(|interval| interval.is_of(number, publisher_id));
        of.fold(0, |bits, interval| bits | interval.schema.bit()) & schemas
    }

    /// Returns the publisher of a topic's newest change in the current interval of a schema, if it
    /// has one that has not been sent.
    pub(super) fn publisher(&self, schema: Schema, number: u32) -> Option<u16> {
        let all = [&self.seconds, &self.minutes];
        let interval = all.into_iter().find(|one| one.schema == schema)?;
        interval.marked.get(number as usize).copied().flatten()
    }

    /// Makes the changes of a symbol those of the topic `to` of its venue, numbered `venue`, while
    /// their interval is being sent.
    pub(super) fn join(&mut self, schema: Schema, (from, to): (u32, u32), venue: u16) {
        debug_assert!(self.telling().is_some(), "no change is noted meanwhile");
        self.continue_trade((from, to), venue);
        for interval in [&mut self.seconds, &mut self.minutes] {
            if interval.schema == schema
                && let Some(mark) = interval.marked.get_mut(from as usize)
            {
                *mark = None;
            }
        }
    }

    /// Makes a symbol's last trade that of the topic `to` of its venue, if it is of `venue`.
    pub(super) fn continue_trade(&mut self, (from, to): (u32, u32), venue: u16) {
        let last = self.trades.get(&from).copied();
        if let Some(last) = last.filter(|last| last.publisher_id == venue) {
            let instrument_id = instrument_id(to);
            self.trades.insert(
                to,
                Event {
                    instrument_id,
                    ..last
                },
            );
        }
    }

    /// Returns the schema and the end of the interval that is being sent, ns since the UNIX epoch.
    #[inline]
    pub(super) fn telling(&self) -> Option<(Schema, u64)> {
        let all = [&self.seconds, &self.minutes];
        all.into_iter()
            .find_map(|interval| Some((interval.schema, interval.telling_ns?)))
    }

    /// Returns whether an interval with changes has ended by `now_ns`. It is sent next.
    pub(super) fn turn(&mut self, now_ns: u64) -> bool {
        debug_assert!(
            self.telling().is_none(),
            "an interval is sent before the next one ends"
        );
        // Both, because a minute ends with a second.
        self.seconds.turn(now_ns) | self.minutes.turn(now_ns)
    }

    /// Returns the next topic of the interval that is being sent; `None` at the end of the
    /// interval.
    pub(super) fn take_next(&mut self) -> Option<Changed> {
        let interval = match self.seconds.telling_ns {
            Some(_) => &mut self.seconds,
            None => &mut self.minutes,
        };
        let (number, publisher_id) = interval.take_next()?;
        Some(Changed {
            number,
            publisher_id,
            trade: self.last_trade(number),
        })
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            seconds: Interval::new(Schema::Bbo1s, SECOND_NS),
            minutes: Interval::new(Schema::Bbo1m, 60 * SECOND_NS),
            trades: HashMap::new(),
        }
    }
}

impl Interval {
    fn new(schema: Schema, length_ns: u64) -> Self {
        Self {
            schema,
            length_ns,
            end_ns: 0,
            changed: Vec::new(),
            marked: Vec::new(),
            telling_ns: None,
        }
    }

    fn note(&mut self, number: u32, publisher_id: u16) {
        let index = number as usize;
        if index >= self.marked.len() {
            self.marked.resize(index + 1, None);
        }
        if self.marked[index].replace(publisher_id).is_none() {
            self.changed.push(number);
        }
    }

    /// Returns whether a topic has changed in the current interval, and its newest change is of
    /// this publisher.
    fn is_of(&self, number: u32, publisher_id: u16) -> bool {
        self.marked.get(number as usize) == Some(&Some(publisher_id))
    }

    /// Forgets that a topic has changed. Returns the publisher of its newest change, if it had.
    fn forget(&mut self, number: u32) -> Option<u16> {
        let publisher_id = self.marked.get_mut(number as usize)?.take()?;
        self.changed.retain(|&other| other != number);
        Some(publisher_id)
    }

    fn turn(&mut self, now_ns: u64) -> bool {
        if now_ns < self.end_ns {
            return false;
        }
        let next_ns = (now_ns / self.length_ns + 1) * self.length_ns;
        let ended_ns = std::mem::replace(&mut self.end_ns, next_ns);
        if ended_ns == 0 || self.changed.is_empty() {
            return false;
        }
        debug_assert!(
            ended_ns <= now_ns && ended_ns.is_multiple_of(self.length_ns),
            "a whole interval"
        );
        self.telling_ns = Some(ended_ns);
        true
    }

    fn take_next(&mut self) -> Option<(u32, u16)> {
        // A topic without a mark was joined with another one.
        while let Some(number) = self.changed.pop() {
            if let Some(publisher_id) = self.marked[number as usize].take() {
                return Some((number, publisher_id));
            }
        }
        self.telling_ns = None;
        None
    }
}

/// The interval schemas.
pub(super) const BBO: u16 = Schema::Bbo1s.bit() | Schema::Bbo1m.bit();
const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn next(intervals: &mut Intervals) -> Option<(u32, u16, Option<Event>)> {
        let next = intervals.take_next()?;
        Some((next.number, next.publisher_id, next.trade))
    }

    #[test]
    fn a_second_tells_each_topic_that_has_changed_once() {
        let mut intervals = Intervals::default();
        assert!(!intervals.turn(SECOND_NS / 2), "nothing before the first");
        for number in [3, 1, 3] {
            intervals.note(Schema::Bbo1s.bit(), number, 9);
        }
        assert!(!intervals.turn(SECOND_NS - 1));
        assert!(intervals.turn(SECOND_NS));
        assert_eq!(intervals.telling(), Some((Schema::Bbo1s, SECOND_NS)));
        let mut told: Vec<u32> = std::iter::from_fn(|| intervals.take_next())
            .map(|one| one.number)
            .collect();
        told.sort_unstable();
        assert_eq!((told, intervals.telling()), (vec![1, 3], None));
        assert!(!intervals.turn(5 * SECOND_NS), "nothing has changed in it");
        intervals.note(Schema::Bbo1s.bit(), 1, 9);
        assert!(intervals.turn(6 * SECOND_NS));
    }

    #[test]
    fn what_has_changed_goes_to_the_topic_of_the_first_venue() {
        let mut intervals = Intervals::default();
        assert!(!intervals.turn(SECOND_NS / 2));
        let last = |number: u32, publisher_id: u16| Event {
            instrument_id: instrument_id(number),
            publisher_id,
            ts_event: 1,
            ts_recv: 1,
            sequence: 1,
            price: 5,
            size: 1,
            side: 0,
            action: 0,
            flags: 0,
        };
        intervals.trade(3, last(3, 7));
        intervals.note(BBO, 3, 7);
        intervals.split((3, 5), 7, Schema::Bbo1s.bit());
        intervals.split((3, 6), 9, 0);
        assert!(intervals.turn(60 * SECOND_NS));
        assert_eq!(next(&mut intervals), Some((5, 7, Some(last(5, 7)))));
        assert_eq!(intervals.take_next(), None);
        assert_eq!(next(&mut intervals), Some((3, 7, Some(last(3, 7)))));
        assert_eq!(intervals.take_next(), None);
    }

    #[test]
    fn a_minute_follows_the_second_that_ends_with_it() {
        let mut intervals = Intervals::default();
        assert!(!intervals.turn(59 * SECOND_NS));
        intervals.note(BBO, 7, 9);
        intervals.note(Schema::Bbo1m.bit(), 8, 9);
        assert!(intervals.turn(60 * SECOND_NS));
        assert_eq!(intervals.telling(), Some((Schema::Bbo1s, 60 * SECOND_NS)));
        assert_eq!(next(&mut intervals), Some((7, 9, None)));
        assert_eq!(intervals.take_next(), None);
        assert_eq!(intervals.telling(), Some((Schema::Bbo1m, 60 * SECOND_NS)));
        assert_eq!(next(&mut intervals), Some((8, 9, None)));
        assert_eq!(next(&mut intervals), Some((7, 9, None)));
        assert_eq!((intervals.take_next(), intervals.telling()), (None, None));
    }
}
