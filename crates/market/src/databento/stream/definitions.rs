//! The `definition` schema: each new definition once, and at the start of a replay those that hold
//! then.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use tidewire_dbn::databento::Schema;
use tidewire_feed::wire::{Definition, UNDEFINED_PRICE};

use super::super::selection::{Chosen, instrument_id};
use super::Stream;
use super::values::Stamp;
use crate::market::Market;
use crate::topic::Topic;

/// The definitions of a session.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// By topic: the newest one that the gateway has made.
    made: HashMap<u32, Facts, RandomState>,
    /// Before the start of a replay: what holds then.
    older: Option<Box<Older>>,
}

/// What a definition that the gateway makes says: tick, lot and currency.
type Facts = (i64, u32, [u8; 4]);

/// Definitions of before the start, of those topics that the replay defines again.
#[derive(Debug)]
struct Older {
    start_ns: u64,
    /// By topic: the newest one so far.
    newest: HashMap<u32, Option<OlderDefinition>, RandomState>,
    /// Number of definitions in `newest`.
    count: usize,
    /// From the start on: those that have not been sent, the next one last.
    due: Option<Vec<(u32, OlderDefinition)>>,
}

#[derive(Debug)]
pub(super) enum OlderDefinition {
    /// The source's record, and its publisher.
    Record(Box<[u8]>, u16),
    /// One that the gateway makes a record of.
    Made(Definition),
}

impl Definitions {
    /// Begins a replay whose definitions start at `start_ns`.
    pub(super) fn begin(&mut self, start_ns: u64) {
        self.older = Some(Box::new(Older {
            start_ns,
            newest: HashMap::default(),
            count: 0,
            due: None,
        }));
    }

    /// Notes that a topic's newest definition comes in the replay, so that the one before the start
    /// is sent there.
    pub(super) fn expect(&mut self, number: u32) {
        if let Some(older) = &mut self.older
            && older.due.is_none()
        {
            older.newest.entry(number).or_insert(None);
        }
    }

    /// Returns whether the newest definition of a topic before the start is kept.
    pub(super) fn expects(&self, number: u32) -> bool {
        let older = self.older.as_deref();
        older.is_some_and(|older| older.due.is_none() && older.newest.contains_key(&number))
    }

    /// Keeps a definition of before the start. Returns it if there is no room.
    pub(super) fn keep(
        &mut self,
        number: u32,
        definition: OlderDefinition,
    ) -> Option<OlderDefinition> {
        let older = self.older.as_mut()?;
        let count = older.count;
        let newest = older.newest.get_mut(&number)?;
        let is_record = |one: &OlderDefinition| matches!(one, OlderDefinition::Record(..));
        if newest.as_ref().is_some_and(is_record) && !is_record(&definition) {
            // What the gateway makes says less.
            return None;
        }
        if newest.is_none() && count >= OLDER_MAX {
            return Some(definition);
        }
        older.count += usize::from(newest.replace(definition).is_none());
        None
    }

    /// Notes the time of the next message, ns since the UNIX epoch. Returns whether definitions are
    /// to be sent before it.
    #[inline]
    pub(super) fn pass(&mut self, time_ns: u64) -> bool {
        match &self.older {
            Some(older) if time_ns >= older.start_ns => self.reach_start(),
            _ => false,
        }
    }

    /// Notes that the replay has come to its start, or to its end. Returns whether definitions are
    /// to be sent.
    #[cold]
    pub(super) fn reach_start(&mut self) -> bool {
        let Some(older) = &mut self.older else {
            return false;
        };
        if older.due.is_none() {
            let newest = std::mem::take(&mut older.newest).into_iter();
            let due = newest.filter_map(|(number, definition)| Some((number, definition?)));
            let mut due: Vec<_> = due.collect();
            due.sort_unstable_by_key(|&(number, _)| std::cmp::Reverse(number));
            older.due = Some(due);
        }
        if !self.is_due() {
            self.older = None;
        }
        self.older.is_some()
    }

    /// Returns whether definitions are to be sent before anything else.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let due = self.older.as_ref().and_then(|older| older.due.as_ref());
        due.is_some_and(|due| !due.is_empty())
    }

    /// Takes the next definition that is due.
    fn take_due(&mut self) -> Option<(u32, OlderDefinition)> {
        let due = self.older.as_mut()?.due.as_mut()?.pop();
        if due.is_none() {
            self.older = None;
        }
        due
    }

    /// Forgets what is kept, because the client gets the current definitions.
    pub(super) fn skip(&mut self) {
        self.older = None;
    }

    /// Notes a definition of which the gateway makes a record. Returns whether it says something
    /// new.
    pub(super) fn note_made(&mut self, definition: &Definition) -> bool {
        // Unknown either way.
        let tick = match definition.price_tick {
            0 => UNDEFINED_PRICE,
            tick => tick,
        };
        let facts = (tick, definition.lot_size, definition.currency);
        self.made.insert(definition.symbol, facts) != Some(facts)
    }
}

impl Stream {
    /// Sends a topic's newest definition at the start of the client's records. Where the replay has
    /// it, the one before the start is sent there.
    pub(super) fn open_definition(
        &mut self,
        market: &Market,
        topic: &Topic,
        chosen: Chosen,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) {
        if self.comes_in_replay(topic, chosen) {
            return self.definitions.expect(topic.number);
        }
        let (id, definition) = (instrument_id(topic.number), topic.definition());
        let kept = topic.records.definition();
        let is_replayed = chosen.replayed & Schema::Definition.bit() != 0;
        if kept.is_none() && is_replayed && self.past.is_some() {
            // The source may have given its record in an earlier run of the hub.
            self.definitions.expect(topic.number);
            let made = || OlderDefinition::Made(definition);
            let records = self.keep_older(market, topic.number, made, unix_ns, out);
            market
                .databento
                .records
                .fetch_add(records, Ordering::Relaxed);
            return;
        }
        let mut writer = self.writer(out, unix_ns);
        match kept {
            Some(kept) => writer.record(&kept.bytes, id, kept.source, definition.name.as_str()),
            None => {
                writer.definition(&definition, id, unix_ns);
                self.definitions.note_made(&definition);
            }
        }
        market.databento.records.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the replay has a topic's newest definition, and so all since its start.
    fn comes_in_replay(&self, topic: &Topic, chosen: Chosen) -> bool {
        if chosen.replayed & Schema::Definition.bit() == 0 || !self.is_replaying() {
            return false;
        }
        let (sequence, time_ns) = match topic.records.definition() {
            Some(kept) => (kept.first_part(), kept.source_time_ns),
            None => (topic.defined_sequence(), topic.definition().source_time_ns),
        };
        let reached = self.selection.reaching(chosen.replayed, time_ns);
        reached & Schema::Definition.bit() != 0 && (self.past.is_some() || sequence >= self.cursor)
    }

    /// Sends a definition: its mapping, and the record if it is wanted. Returns the number of
    /// records.
    pub(super) fn tell_definition(
        &mut self,
        market: &Market,
        definition: &Definition,
        reached: u16,
        stamp: Stamp,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (number, name) = (stamp.number, definition.name.as_str());
        let topic = market.board.topic(number);
        if let Some(topic) = &topic {
            self.follow_new_book(market, topic);
            self.split(market, topic, definition.source);
        }
        let id = instrument_id(number);
        let was_mapped = self.selection.note_mapped(number);
        // Before the start of a replay the mapping of the session's begin is enough.
        let mut records = 0;
        if reached != 0 || !was_mapped {
            let asked = topic.as_ref().and_then(|topic| self.selection.asked(topic));
            let asked = asked.unwrap_or((1, name));
            let mut writer = self.writer(out, unix_ns);
            writer.mapping(id, definition.source, unix_ns, asked, name);
            records += 1;
        }
        let kept = topic.and_then(|topic| topic.records.definition());
        // The source's own record is told when it comes, or was.
        if kept.is_some() {
            return records;
        }
        if reached & Schema::Definition.bit() == 0 {
            let older = OlderDefinition::Made(*definition);
            return records + self.keep_older(market, number, || older, unix_ns, out);
        }
        if self.definitions.note_made(definition) {
            let replayed_ns = self.received_ns(definition, unix_ns);
            let ts_recv = stamp.ts_recv.unwrap_or(replayed_ns);
            self.writer(out, unix_ns)
                .definition(definition, id, ts_recv);
            records += 1;
        }
        records
    }

    /// Keeps a definition of before the start of a replay, if the topic's definition of then is
    /// expected. Sends it where there is no room. Returns the number of records.
    pub(super) fn keep_older(
        &mut self,
        market: &Market,
        number: u32,
        definition: impl FnOnce() -> OlderDefinition,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        if !self.definitions.expects(number) {
            return 0;
        }
        match self.definitions.keep(number, definition()) {
            Some(definition) => self.tell_older(market, number, &definition, unix_ns, out),
            None => 0,
        }
    }

    /// Sends the definitions that hold at the start of a replay, while there is room.
    pub(super) fn tell_due_definitions(
        &mut self,
        market: &Market,
        unix_ns: u64,
        out: &mut Vec<u8>,
        end: usize,
    ) {
        if !self.definitions.is_due() {
            return;
        }
        let mut records = 0;
        while out.len() < end
            && let Some((number, definition)) = self.definitions.take_due()
        {
            records += self.tell_older(market, number, &definition, unix_ns, out);
        }
        market
            .databento
            .records
            .fetch_add(records, Ordering::Relaxed);
    }

    /// Returns the time of receipt of a definition in a replay, ns since the UNIX epoch: its own,
    /// or that of the place if it has none. A year of one digit is the closest one to it.
    fn received_ns(&self, definition: &Definition, unix_ns: u64) -> u64 {
        match (definition.source_time_ns, self.replayed_ns) {
            (0, 0) => unix_ns,
            (0, replayed_ns) => replayed_ns,
            (own_ns, _) => own_ns,
        }
    }

    /// Sends a definition of before the start of a replay. Returns the number of records.
    fn tell_older(
        &mut self,
        market: &Market,
        number: u32,
        definition: &OlderDefinition,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        // It may have been unsubscribed in the meantime.
        let is_wanted = self.selection.of(number).schemas & Schema::Definition.bit() != 0;
        let topic = market.board.topic(number).filter(|_| is_wanted);
        let Some(topic) = topic else {
            return 0;
        };
        let id = instrument_id(number);
        let ts_recv = match definition {
            OlderDefinition::Made(made) => self.received_ns(made, unix_ns),
            OlderDefinition::Record(..) => unix_ns,
        };
        let mut writer = self.writer(out, unix_ns);
        match definition {
            OlderDefinition::Record(bytes, source) => {
                let name = std::str::from_utf8(topic.symbol()).unwrap_or_default();
                writer.record(bytes, id, *source, name);
            }
            OlderDefinition::Made(definition) => {
                writer.definition(definition, id, ts_recv);
                self.definitions.note_made(definition);
            }
        }
        1
    }
}

/// Maximum definitions kept until the start of a replay: some 34 MB. Further ones are sent as they
/// are read, each topic's newest one last.
const OLDER_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::Name;

    fn made(symbol: u32, price_tick: i64) -> Definition {
        Definition {
            price_tick,
            ..Definition::new(symbol, Name::new("A").unwrap())
        }
    }

    fn taken(definitions: &mut Definitions) -> Vec<(u32, i64)> {
        let all = std::iter::from_fn(|| definitions.take_due());
        let all = all.map(|(number, definition)| match definition {
            OlderDefinition::Made(made) => (number, made.price_tick),
            OlderDefinition::Record(..) => panic!("none was kept"),
        });
        all.collect()
    }

    #[test]
    fn the_newest_definition_before_the_start_is_due_once_where_it_is_expected() {
        let mut definitions = Definitions::default();
        assert!(!definitions.pass(9) && !definitions.expects(1));
        definitions.begin(5);
        for number in [2, 1, 3] {
            definitions.expect(number);
        }
        for (number, tick) in [(1, 10), (2, 20), (1, 11)] {
            let older = OlderDefinition::Made(made(number, tick));
            assert!(definitions.keep(number, older).is_none());
        }
        assert!(!definitions.pass(4) && !definitions.is_due());
        assert!(definitions.pass(5) && definitions.is_due());
        assert!(!definitions.expects(1), "it has come too late");
        assert_eq!(taken(&mut definitions), [(1, 11), (2, 20)]);
        assert!(!definitions.is_due() && !definitions.pass(6));
    }

    #[test]
    fn definitions_before_the_start_are_sent_at_once_where_there_is_no_room() {
        let mut definitions = Definitions::default();
        definitions.begin(5);
        let numbers = 0..=OLDER_MAX as u32;
        numbers
            .clone()
            .for_each(|number| definitions.expect(number));
        let mut keep = |number| definitions.keep(number, OlderDefinition::Made(made(number, 1)));
        let refused = numbers.filter(|&number| keep(number).is_some()).count();
        assert_eq!(refused, 1);
        assert!(keep(0).is_none(), "a newer one of the same topic has room");
        assert!(definitions.reach_start());
        assert_eq!(taken(&mut definitions).len(), OLDER_MAX);
    }

    #[test]
    fn a_definition_that_says_the_same_again_is_not_new() {
        let mut definitions = Definitions::default();
        let ticks = [UNDEFINED_PRICE, 0, 1, 1, 2];
        let told = ticks.map(|tick| definitions.note_made(&made(7, tick)));
        assert_eq!(told, [true, false, true, false, true]);
        assert!(definitions.note_made(&made(8, 2)));
    }
}
