//! Which topics of a source are stale or in doubt, and which it owns.
//!
//! Events of the whole source are noted with [`Batch::happened`]. They reach a source of few topics
//! at once, and one of many in slices: [`Ingest::sweep`].

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidewire_fanout::Publication;
use tidewire_feed::server::Steps;
use tidewire_lane::unix_ns;
use tidewire_lastvalue::{ClaimError, FLAG_DOUBT, FLAG_STALE, NumberSet};

use super::apply::Work;
use super::renamed::Renamed;
use super::returning::Returning;
use super::sweep::{Effect, Event, Standing, Sweep};
use super::unnamed::Unnamed;
use super::{Batch, Ingest};
use crate::cluster::own::REMOTE;
use crate::symbols::SymbolMap;
use crate::topic::Topic;

/// How certain the values of a source are.
#[derive(Debug, Default)]
pub(crate) struct Certainties {
    /// Why topics are in doubt.
    pub(super) doubt: Doubt,
    /// Topics that may not be in doubt, although all of the source's were marked; `None` before
    /// that.
    pub(super) certain: Option<NumberSet>,
    /// Topics that are stale because the source has left or is silent. They are current again when
    /// it is back.
    pub(super) left: NumberSet,
    /// Topics that were certain until messages went missing, while others wait for what was lost
    /// before. They are certain again when the messages have come.
    pub(super) interrupted: NumberSet,
    /// Topics with levels of the source since its books were last lost.
    pub(super) with_books: NumberSet,
    /// Topics that events have not reached yet.
    pub(super) sweep: Sweep,
    /// Symbols that the publisher's last connection has left, and that this one has not taken yet.
    pub(super) returning: Option<Box<Returning>>,
    /// Symbols that were defined since a snapshot began that names each of them.
    pub(super) named: Option<NumberSet>,
    /// Symbols that such a snapshot did not name, as far as they are not marked yet.
    pub(super) unnamed: Option<Box<Unnamed>>,
    /// Venue numbers with another name, as far as not all symbols know of it yet.
    pub(super) renamed: Option<Box<Renamed>>,
    /// Topics that are stale because their venue's number, by which they are listed, has got
    /// another name. They are current again when the session gives the number this name again.
    pub(super) nameless: HashMap<u32, u16, RandomState>,
}

/// What the topics marked with [`FLAG_DOUBT`] wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// None is marked.
    #[default]
    None,
    /// Their own records, or the source's confirmation that they are right.
    Records,
    /// Their own next messages, because nothing replaces what was lost.
    Messages,
}

impl Certainties {
    /// Returns whether something is left to be done for topics.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.sweep.is_pending()
            || self.returning.is_some()
            || self.unnamed.is_some()
            || self.renamed.is_some()
    }

    /// Notes that a topic continues as another one.
    pub(super) fn hand_on(&mut self, from: u32, to: u32) {
        self.sweep.hand_on(from, to);
        let sets = [&mut self.left, &mut self.interrupted, &mut self.with_books];
        for set in sets {
            if set.remove(from) {
                set.insert(to);
            }
        }
        if let Some(certain) = &mut self.certain {
            certain.insert(to);
        }
    }

    /// Forgets what is left to be done for a topic that the source does not have, and that it was
    /// stale because the source had left.
    pub(super) fn forget(&mut self, number: u32) {
        let _ = self.sweep.take(number);
        self.left.remove(number);
        self.nameless.remove(&number);
    }

    /// Returns the topics, of those that a source has claimed, that an event concerns. Events that
    /// follow each other without end must not concern all of them each time.
    fn concerned(&mut self, event: Event, claimed: &NumberSet) -> NumberSet {
        match event {
            Event::Doubtful | Event::Interrupted | Event::Lost => {
                let certain = self.certain.replace(NumberSet::default());
                let is_over =
                    event == Event::Lost || event == Event::Interrupted && certain.is_some();
                if is_over && !self.interrupted.is_empty() {
                    // The event does not visit those that are in doubt, and do not wait.
                    self.sweep.keep_pending(&mut self.interrupted);
                }
                certain.unwrap_or_else(|| claimed.clone())
            }
            Event::AsBefore => self.interrupted.clone(),
            Event::Back => self.left.clone(),
            Event::BooksLost => std::mem::take(&mut self.with_books),
            Event::Right | Event::SessionEnded => {
                self.certain = None;
                claimed.clone()
            }
            Event::Left => claimed.clone(),
        }
    }
}

impl Ingest {
    /// Marks the topics of a source that has ended or was lost. Returns the publication.
    pub(crate) fn lose(&mut self, receive_time_ns: u64) -> (Publication, u64) {
        let mut batch = self.begin(receive_time_ns);
        batch.happened(Event::Left);
        batch.finish()
    }

    /// Does the same to the end, for a source that does not [take long](Self::takes_long_to_end).
    pub(crate) fn lose_at_once(&mut self, receive_time_ns: u64) -> (Publication, u64) {
        debug_assert!(!self.takes_long_to_end(), "a lane has a few milliseconds");
        self.at_once = usize::MAX;
        self.lose(receive_time_ns)
    }

    /// Does the same to the end, on a thread that may wait, and gives each publication to
    /// `publish`. Between two slices other sources have the journal, and the lanes take their mail.
    pub(crate) fn lose_slowly(&mut self, publish: impl Fn((Publication, u64))) {
        publish(self.lose(unix_ns()));
        loop {
            std::thread::sleep(self.market.slice_pause());
            // Once more than there are slices: another source may have handed a topic over.
            let is_last = !self.is_sweeping();
            publish(self.sweep(&mut Steps::new(SLICE_STEPS), unix_ns()));
            if is_last && !self.is_sweeping() {
                return;
            }
        }
    }

    /// Returns whether an event has not reached all topics of the source yet, or bars are due that
    /// no batch has come to: then [`Ingest::sweep`] must be called again soon.
    #[inline]
    pub(crate) fn is_sweeping(&self) -> bool {
        self.certainties.is_pending() || !self.discarded.is_empty() || self.open_bars.is_closing()
    }

    /// Goes on with what events do to the source's topics, and with the bars that are due, as far
    /// as `steps` goes. Returns the publication.
    pub(crate) fn sweep(&mut self, steps: &mut Steps, receive_time_ns: u64) -> (Publication, u64) {
        while !steps.are_used_up()
            && let Some(symbols) = self.discarded.last_mut()
        {
            steps.spend(DISCARD_STEPS);
            if !symbols.discard_page() {
                self.discarded.pop();
            }
        }
        if !self.certainties.is_pending() && !self.open_bars.is_closing() {
            return (Publication::default(), 0);
        }
        let mut batch = self.begin(receive_time_ns);
        batch.sweep(steps);
        batch.close_left_bars(steps);
        batch.finish()
    }

    /// Gives the source's topics back, in slices. The journal's lock excludes that another source
    /// hands one over meanwhile, which would then have an owner that is gone.
    pub(super) fn release_topics(&mut self) {
        loop {
            let claimed = self.writer.claimed().iter().take(LEAVING_SLICE);
            let claimed: Vec<u32> = claimed.collect();
            if claimed.is_empty() {
                return;
            }
            let journal = self.market.journal.lock();
            for number in self.market.handed.take(self.source) {
                let _ = self.writer.claim(number);
            }
            for number in claimed {
                self.writer.release(number);
            }
            drop(journal);
        }
    }
}

impl Batch<'_> {
    /// Notes an event of the source. A source of few topics has it done with at the return.
    pub(super) fn happened(&mut self, event: Event) {
        self.work.take_handed();
        let returning = &self.work.market.returning_sessions;
        match event {
            Event::Left | Event::SessionEnded => returning.remove(*self.work.session),
            Event::Back => returning.add(*self.work.session),
            _ => {}
        }
        let Work {
            certainties,
            writer,
            at_once,
            ..
        } = &mut self.work;
        let topics = certainties.concerned(event, writer.claimed());
        certainties.sweep.push(event, topics);
        if let Some(renamed) = &mut certainties.renamed {
            renamed.happened(event);
        }
        if let Some(returning) = &mut certainties.returning {
            returning.happened(event);
        } else if certainties.sweep.pending() <= *at_once
            && certainties.unnamed.is_none()
            && certainties.renamed.is_none()
        {
            self.sweep(&mut Steps::new(u64::MAX));
        }
    }

    /// Does for the source's topics what events have left to be done, as far as `steps` goes.
    pub(super) fn sweep(&mut self, steps: &mut Steps) {
        self.work.take_handed();
        self.take_returning(steps);
        self.take_unnamed(steps);
        self.take_renamed(steps);
        let mut venues = Vec::new();
        while !steps.are_used_up()
            && let Some((number, effect)) = self.work.certainties.sweep.pop()
        {
            let Some(topic) = self.work.market.board.topic(number) else {
                continue;
            };
            self.work.settle(&topic, &effect, steps);
            if let Some(parent) = topic.parent() {
                // Venues that change together do so in one step of the consolidated value.
                self.work.settle_family(&topic, steps);
                let members = parent.with_members(|members| members.len() as u64);
                steps.spend(MEMBER_STEPS * members + cost_of_telling(parent));
                venues.push(topic);
            }
        }
        self.work.follow_all(&venues);
    }

    /// Does for the topics of a symbol what events have left to be done, before the source says
    /// something of it.
    #[cold]
    pub(super) fn settle_symbol(&mut self, symbol: u32) {
        self.work.take_handed();
        self.take_returning_symbol(symbol);
        if let Some(unnamed) = &mut self.work.certainties.unnamed {
            unnamed.is_read(symbol);
        }
        self.take_renamed_symbol(symbol);
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let venues = known.venues().map(|(_, topic)| topic);
        let mut topics: Vec<Arc<Topic>> = vec![known.name().clone()];
        topics.extend(
            venues
                .filter(|topic| !Arc::ptr_eq(topic, known.name()))
                .cloned(),
        );
        topics.iter().for_each(|topic| self.work.settle_now(topic));
    }

    /// Notes that the source is back: topics that became stale because it had left are current
    /// again. Those in doubt stay so, and those that wait for a new session's first value do.
    pub(crate) fn revive(&mut self) {
        self.happened(Event::Back);
    }

    /// Marks the topics of the source as in doubt. Those that are not stale are published when
    /// their batch ends.
    pub(super) fn doubt(&mut self) {
        if self.work.certainties.doubt == Doubt::Messages {
            // What was lost stays lost.
            return self.happened(Event::Interrupted);
        }
        self.work.certainties.doubt = Doubt::Records;
        self.work.market.lossy_sessions.add(*self.work.session);
        self.happened(Event::Doubtful);
    }

    /// Ends the doubt of the topics that were certain before the last interruption.
    pub(super) fn end_interruption(&mut self) {
        debug_assert_ne!(
            self.work.certainties.doubt,
            Doubt::None,
            "something has made values doubtful"
        );
        self.happened(Event::AsBefore);
    }

    /// Begins another session: all that is known of the old one's symbols is void.
    pub(super) fn end_session(&mut self) {
        self.happened(Event::BooksLost);
        // Each topic waits for a value of the new session.
        self.work.certainties.returning = None;
        self.work.certainties.named = None;
        self.work.certainties.unnamed = None;
        self.work.certainties.renamed = None;
        self.happened(Event::SessionEnded);
        self.work.certainties.left = NumberSet::default();
        self.work.certainties.nameless = HashMap::default();
        *self.work.session += 1;
        let symbols = std::mem::take(self.symbols);
        self.discarded.extend(symbols.into_large());
        self.work.apart.clear();
        // A hub names its numbers after each login. Those of its last run may mean others now.
        if self.venues.is_hub() {
            self.venues.forget_names();
        }
    }
}

impl Work<'_> {
    /// Notes a topic that may not be in doubt, although all of the source's were marked.
    #[inline]
    pub(super) fn note_certain(&mut self, number: u32) {
        if let Some(certain) = &mut self.certainties.certain {
            certain.insert(number);
        }
    }

    /// Claims a topic. What events have left to be done for one that the source gets anew was about
    /// a former time.
    pub(super) fn claim_slot(&mut self, number: u32) -> Result<(), ClaimError> {
        if self.writer.slot(number).is_none() {
            self.certainties.forget(number);
            self.writer.claim(number)?;
            self.note_source(number, self.source);
            return Ok(());
        }
        self.writer.claim(number)
    }

    /// Notes whose source has a topic. The other hubs of the cluster get all of one that comes to
    /// be this hub's own: what was said of it before was not for them.
    pub(super) fn note_source(&mut self, number: u32, source: u32) {
        if self.market.remote.note(number, source)
            && let Some(topic) = self.market.board.topic(number)
        {
            self.tell_anew(&topic);
        }
    }

    /// Tells the other hubs of the cluster under which names they get the own venues of a symbol:
    /// another venue of it may have changed that.
    pub(super) fn tell_own_venues(&mut self, name: &Topic) {
        let remote = &self.market.remote;
        let own: Vec<Arc<Topic>> = name.with_members(|members| {
            let topics = members.iter().map(|member| &member.topic);
            let numbers = || members.iter().map(|member| member.topic.number);
            match numbers().any(|number| remote.contains(number)) {
                true => topics
                    .filter(|topic| !remote.contains(topic.number))
                    .cloned()
                    .collect(),
                false => Vec::new(),
            }
        });
        for topic in own {
            self.tell_anew(&topic);
        }
    }

    fn tell_anew(&mut self, topic: &Topic) {
        self.tell_definition(topic);
        self.tell_record(topic);
    }

    /// Claims the topics that another source has made a venue's own.
    pub(super) fn take_handed(&mut self) {
        for number in self.market.handed.take(self.source) {
            let topic = self.market.board.topic(number);
            let is_claimed = self.writer.claim(number).is_ok();
            if is_claimed {
                self.note_source(number, self.source);
            }
            if is_claimed && let Some(parent) = topic.as_ref().and_then(|topic| topic.parent()) {
                self.certainties.hand_on(parent.number, number);
            }
        }
    }

    /// Does for a topic, and for those that belong to it, what events have left to be done.
    fn settle_now(&mut self, topic: &Arc<Topic>) {
        let steps = &mut Steps::none();
        let mut venues = self.settle_family(topic, steps);
        if let Some(effect) = self.certainties.sweep.take(topic.number) {
            self.settle(topic, &effect, steps);
            venues.push(topic.clone());
        }
        if let Some(namesake) = topic.namesake()
            && let Some(effect) = self.certainties.sweep.take(namesake.number)
        {
            self.settle(&namesake, &effect, steps);
        }
        self.follow_all(&venues);
    }

    /// Does the same for the venues of the topic's symbol. Returns them.
    fn settle_family(&mut self, topic: &Topic, steps: &mut Steps) -> Vec<Arc<Topic>> {
        let symbol = topic.parent().map_or(topic, |parent| parent);
        let sweep = &self.certainties.sweep;
        let mut venues: Vec<Arc<Topic>> = symbol.with_members(|members| {
            let topics = members.iter().map(|member| &member.topic);
            let waiting = topics.filter(|topic| sweep.contains(topic.number));
            waiting.cloned().collect()
        });
        venues.retain(|venue| {
            let effect = self.certainties.sweep.take(venue.number);
            effect.is_some_and(|effect| self.settle(venue, &effect, steps))
        });
        venues
    }

    /// Does for a topic what events have left to be done. Returns whether its flags have changed.
    pub(super) fn settle(
        &mut self,
        topic: &Arc<Topic>,
        effect: &Effect,
        steps: &mut Steps,
    ) -> bool {
        steps.spend(VISIT_STEPS);
        let number = topic.number;
        if self.writer.slot(number).is_none() {
            // Another source has taken it over.
            self.writer.release(number);
            return false;
        }
        if effect.forgets_book {
            self.forget_book(topic);
        }
        let before = self.standing(topic);
        let after = effect.apply(before);
        self.certainties.left.set(number, after.has_left);
        self.certainties
            .interrupted
            .set(number, after.is_interrupted);
        if !after.is_doubtful {
            self.note_certain(number);
        }
        let flags = |is_other: fn(bool, bool) -> bool| {
            let of = |before, after, flag| if is_other(before, after) { flag } else { 0 };
            of(before.is_stale, after.is_stale, FLAG_STALE)
                | of(before.is_doubtful, after.is_doubtful, FLAG_DOUBT)
        };
        let set = flags(|before, after| !before && after);
        let clear = flags(|before, after| before && !after);
        if set | clear == 0 {
            return false;
        }
        steps.spend(cost_of_telling(topic));
        if set & FLAG_STALE != 0 {
            topic.left_by(self.is_hub || self.source & REMOTE != 0);
        }
        if (set, clear) == (FLAG_DOUBT, 0) {
            self.mark(topic, set, clear, false);
            if !after.is_stale {
                self.marked.insert(number);
            }
            return true;
        }
        // What a batch marks and unmarks is not told.
        let is_untold = set == 0 && !after.is_doubtful && self.marked.remove(number);
        self.mark(topic, set, clear, !is_untold);
        if is_untold {
            self.publish_book_again(topic);
        }
        true
    }

    fn standing(&self, topic: &Topic) -> Standing {
        let slot = self.market.board.slots().slot(topic.number);
        let flags = slot.map_or(0, |slot| slot.flags());
        Standing {
            is_stale: flags & FLAG_STALE != 0,
            is_doubtful: flags & FLAG_DOUBT != 0,
            has_left: self.certainties.left.contains(topic.number),
            is_interrupted: self.certainties.interrupted.contains(topic.number),
            is_valued: topic.valued_session() == *self.session,
        }
    }
}

fn cost_of_telling(topic: &Topic) -> u64 {
    match topic.interest() != 0 || topic.has_second() {
        false => TOLD_STEPS,
        true => PUBLISHED_STEPS,
    }
}

impl SymbolMap {
    /// Returns itself if freeing it takes long.
    fn into_large(self) -> Option<Self> {
        (self.pages() > DISCARDED_AT_ONCE).then_some(self)
    }
}

/// Topics of a source that has ended, released under one lock of the journal.
const LEAVING_SLICE: usize = 1_024;
/// Maximum topics that an event reaches in its own batch.
pub(super) const TOPICS_AT_ONCE: usize = 512;
/// Maximum topics, and symbols, of a source that ends in one turn of its lane.
pub(super) const ENDS_AT_ONCE: usize = 2_048;
/// Maximum pages of symbols that are freed at once.
const DISCARDED_AT_ONCE: usize = 2;
/// Steps of one slice on a thread of its own: less than a millisecond.
pub(crate) const SLICE_STEPS: u64 = 1 << 17;
/// Steps of a look at a topic, most of which wait for memory.
const VISIT_STEPS: u64 = 24;
/// Steps of a change that only the hub's own feed is told of.
const TOLD_STEPS: u64 = 32;
/// Steps of a change that is published.
const PUBLISHED_STEPS: u64 = 400;
/// Steps of a look at a venue of a consolidated topic.
const MEMBER_STEPS: u64 = 8;
/// Steps of freeing a page of 256 symbols.
const DISCARD_STEPS: u64 = 256 * 16;
