//! The topics of a symbol's venues, and the value consolidated from them.
//!
//! A symbol of one venue is one topic. When a second venue gives it a value, each venue gets a
//! topic of its own (`SYMBOL@VENUE`), and the symbol's topic becomes the consolidated one. All this
//! happens under the journal's lock, as every update does.

use std::sync::Arc;

use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{self, Definition, Message, Name, RecordPart, VenueName};
use tidewire_lastvalue::{ClaimError, FLAG_STALE, PRICE_UNDEFINED, Venues};
use tidewire_retry::Seldom;
use tracing::{info, warn};

use super::apply::Work;
use crate::board::VENUE_SEPARATOR;
use crate::symbols::Symbol;
use crate::topic::{Facts, Member, Topic};
use crate::venues::{self, CONSOLIDATED, SourceVenues};

mod apart;
mod following;

/// Why a source cannot write to a venue's topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoTopic {
    /// Another source writes to it.
    Owned,
    /// A limit is reached.
    Full(&'static str),
}

impl Work<'_> {
    /// Returns the topic for messages about `name` from the venue that the source numbers
    /// `number`. The source owns it then.
    ///
    /// A second source at one venue gets a venue of its own, `VENUE#2`: neither overwrites the
    /// other.
    pub(super) fn topic_of_venue(
        &mut self,
        venues: &SourceVenues,
        known: &Symbol,
        number: u16,
    ) -> Option<Arc<Topic>> {
        let name = known.name();
        let (venue, is_named) = venues.name(number);
        if name.parent().is_some() || self.is_of_other_symbol(name, name) {
            let topic = self.claim_apart(name, venues, number);
            if topic.is_none() {
                self.warn_no_topic(name, &venue, TOO_MANY_SOURCES);
            }
            return topic;
        }
        let mut reason = TOO_MANY_SOURCES;
        for attempt in 1..=SOURCES_OF_A_VENUE_MAX {
            let mut wanted = Wanted {
                venue: venue.clone(),
                number,
                feed: venues.feed().clone(),
                is_named,
                is_first: known.is_unbound() && known.has_stated_no_other(number),
            };
            if attempt > 1 {
                wanted.venue = numbered(&venue, attempt);
            }
            match self.claim_venue(name, &wanted) {
                Ok(topic) => {
                    if attempt > 1
                        && let Some(left_out) = VENUE_TAKEN.note_now()
                    {
                        let symbol = String::from_utf8_lossy(topic.symbol());
                        let source = self.source;
                        info!(%symbol, source, left_out, "another source has this venue");
                    }
                    return Some(topic);
                }
                Err(NoTopic::Owned) => {}
                Err(NoTopic::Full(limit)) => {
                    reason = limit;
                    break;
                }
            }
        }
        self.warn_no_topic(name, &venue, reason);
        None
    }

    fn warn_no_topic(&self, name: &Topic, venue: &str, reason: &str) {
        if let Some(left_out) = NO_TOPIC.note_now() {
            let (symbol, source) = (String::from_utf8_lossy(name.symbol()), self.source);
            let text = "no topic for this symbol at this venue: its messages are refused";
            let facts = name.facts();
            let first_venue = &*facts.venue_name;
            warn!(%symbol, venue, source, first_venue, reason, left_out, "{text}");
        }
    }

    fn claim_venue(&mut self, name: &Arc<Topic>, wanted: &Wanted) -> Result<Arc<Topic>, NoTopic> {
        debug_assert!(name.parent().is_none(), "a venue has no venues");
        if name.is_consolidated() {
            return self.claim_member(name, wanted);
        }
        if self.end_namesake(name) {
            // Another source's symbol had this name because no source had defined it.
            self.take_over(name)?;
            self.describe(name, wanted);
            return Ok(name.clone());
        }
        let facts = name.facts();
        let owner = self.slot_owner(name);
        let is_free = owner.is_none_or(|owner| owner == self.source && wanted.is_first);
        let is_same = *facts.venue_name == *wanted.venue;
        let is_first = facts.venue.is_none();
        let replaces = is_free
            && match owner {
                // It has given no value yet.
                Some(_) => !(is_venue(&facts) && wanted.is_named),
                None => !self.is_of_returning(name) && wanted.may_continue(&facts),
            };
        if is_first {
            // Its owner, if it has one, has given no value.
            self.take_over(name)?;
            self.describe(name, wanted);
            return Ok(name.clone());
        }
        if is_same || replaces {
            self.claim(name)?;
            self.describe(name, wanted);
            return Ok(name.clone());
        }
        // The definition of a source that has given the symbol nothing claims the name of one that
        // has left.
        let has_left = is_free && self.is_stale(name);
        self.split(name, &facts, owner.filter(|_| !has_left))?;
        self.claim_member(name, wanted)
    }

    /// Gives the symbol's present venue a topic of its own, which `owner` writes to, and makes
    /// `name` consolidated.
    fn split(
        &mut self,
        name: &Arc<Topic>,
        facts: &Facts,
        owner: Option<u32>,
    ) -> Result<(), NoTopic> {
        let mut present = Wanted::present(facts);
        let mut topic = self.define_member(name, &present, false);
        for attempt in 2..=SOURCES_OF_A_VENUE_MAX {
            if !matches!(topic, Err(NoTopic::Owned)) {
                break;
            }
            // Another source has given a symbol of its own this name.
            present.venue = numbered(&facts.venue_name, attempt);
            topic = self.define_member(name, &present, false);
        }
        let topic = topic.map_err(|error| match error {
            NoTopic::Full(NAME_TOO_LONG) => NoTopic::Full(FIRST_NAME_TOO_LONG),
            error => error,
        })?;
        self.begin_with(name, &topic, &present)?;
        self.move_derived(name, &topic);
        match owner {
            Some(owner) if owner == self.source => {
                self.certainties.hand_on(name.number, topic.number);
            }
            // Its source finds out with its next message, or when it leaves, that it has to write
            // here. Until then no other may take the topic.
            Some(owner) => {
                self.writer.hand_over(topic.number, name.number);
                self.note_source(topic.number, owner);
                self.market.handed.add(owner, topic.number);
            }
            None => drop(self.writer.release(topic.number)),
        }
        let venue = topic.venue();
        let value = self.market.board.value(name.number);
        let mut writer = self.market.consolidated.lock();
        let taken = writer.take_over(name.number);
        debug_assert!(taken.is_ok(), "a topic has its slot");
        name.add_member(Member::first(topic));
        name.away_upstream(false);
        self.market.board.venues().hold(CONSOLIDATED, facts.venue);
        name.set_facts(|facts| facts.venue = Some(CONSOLIDATED));
        if let (Some(mut slot), Some(mut value)) = (writer.slot(name.number), value) {
            let of = |price: i64| match price {
                PRICE_UNDEFINED => Venues::NO_VENUE,
                _ => venue,
            };
            value.venues = Venues {
                bid: of(value.bid),
                ask: of(value.ask),
                last: of(value.last),
            };
            slot.replace(&value);
        }
        drop(writer);
        self.name_venues(name);
        // Its messages have the venues of its prices from now on.
        name.note_untold();
        // To a hub that reads this, and has sources of its own, it is another venue from now on.
        self.tell_record_or_nothing(name);
        Ok(())
    }

    /// Begins the topic of a symbol's only venue with the symbol's value and bars, and claims it.
    fn begin_with(
        &mut self,
        name: &Arc<Topic>,
        topic: &Arc<Topic>,
        present: &Wanted,
    ) -> Result<(), NoTopic> {
        match self.link_namesake(name, None) {
            Some(namesake) if Arc::ptr_eq(&namesake, topic) => self.take_over(topic)?,
            _ => self.claim(topic)?,
        }
        let value = self.market.board.value(name.number);
        if let (Some(mut slot), Some(value)) = (self.writer.slot(topic.number), value.as_ref()) {
            slot.replace(value);
        }
        if let Some(value) = &value {
            // Before that of the venue that comes now.
            topic.opened(value.session_open, self.journal.next_sequence());
        }
        topic.continue_open(name);
        topic.take_times(name);
        topic.valued_in(name.valued_session());
        self.describe(topic, present);
        // The readers of the hub's own feed have no other message with the value so far, also if
        // that is nothing.
        let _ = topic.begin();
        self.tell_record_or_nothing(topic);
        self.publish_present(topic);
        for bars in self.market.bars.continue_at(name, topic) {
            self.publish_present_bar(&bars);
        }
        if let Some(book) = name.derived.book() {
            let version = book.state.lock().version();
            let own = self.market.books.book_of(topic);
            own.state.lock().count_on(version);
        }
        Ok(())
    }

    /// Moves price levels and orders to the topic of the venue that they are of. The readers of the
    /// hub's own feed get all of them again under its number.
    fn move_derived(&mut self, name: &Arc<Topic>, venue: &Arc<Topic>) {
        let value = self.market.board.value(name.number);
        let mut time_ns = value.map_or(0, |value| value.source_time_ns);
        if let Some(book) = name.derived.book() {
            let own = self.market.books.book_of(venue);
            let (mut state, mut own_state) = (book.state.lock(), own.state.lock());
            own_state.take_from(&mut state);
            self.market.books.goes_on(book, own);
            time_ns = self.newest_ns(name, &own_state);
            self.tell_forgotten(name, book, &mut state, time_ns);
            self.tell_book(venue, own, &mut own_state);
        }
        // A reader that has an order of the symbol gets the move, too.
        let time_ns = time_ns
            .max(self.happens_ns)
            .max(name.records.newest_order_ns());
        let append = |journal: &mut Journal, number: u32, publisher_id: u16, bytes: &[u8]| {
            let parts = RecordPart::split(number, publisher_id, time_ns, bytes);
            parts.fold(0, |_, part| journal.append(&Message::Record(part)))
        };
        let journal = &mut *self.journal;
        let total = &self.market.records.orders;
        for clear in name.records.move_orders(&venue.records, total) {
            append(journal, name.number, clear.publisher_id, &clear.bytes);
        }
        let again = |publisher_id, bytes: &[u8]| append(journal, venue.number, publisher_id, bytes);
        venue.records.tell_orders(again);
    }

    /// Returns the topic of one venue of a consolidated symbol.
    fn claim_member(&mut self, name: &Arc<Topic>, wanted: &Wanted) -> Result<Arc<Topic>, NoTopic> {
        if venues::is_consolidated(&wanted.venue)
            && let Some(sum) = self.own_sum(name, &wanted.feed)
        {
            self.claim(&sum)?;
            let is_sum = |member: &Member| Arc::ptr_eq(&member.topic, &sum);
            if !name.with_members(|members| members.iter().any(is_sum)) {
                self.make_room(name)?;
                self.add_member(name, &sum);
            }
            return Ok(sum);
        }
        let known = name.with_members(|members| {
            let mut members = members.iter().map(|member| &member.topic);
            members
                .find(|topic| *topic.facts().venue_name == *wanted.venue)
                .cloned()
        });
        // A hub's symbol of this name is a part of its consolidated value.
        let is_part = |topic: &Topic| {
            venues::is_consolidated(&wanted.venue) && self.apart.contains_key(&topic.number)
        };
        if known.as_deref().is_some_and(is_part) {
            return Err(NoTopic::Owned);
        }
        if let Some(topic) = known {
            self.claim(&topic)?;
            self.describe(&topic, wanted);
            return Ok(topic);
        }
        self.make_room(name)?;
        let topic = self.define_member(name, wanted, false)?;
        self.claim(&topic)?;
        self.describe(&topic, wanted);
        self.add_member(name, &topic);
        Ok(topic)
    }

    fn add_member(&mut self, name: &Arc<Topic>, topic: &Arc<Topic>) {
        name.add_member(Member::further(topic.clone()));
        self.name_venues(name);
        self.tell_own_venues(name);
    }

    /// Makes room for one more venue of a symbol, if it has as many as it can have.
    fn make_room(&self, name: &Topic) -> Result<(), NoTopic> {
        let is_full = name.with_members(<[Member]>::len) >= VENUES_OF_A_SYMBOL_MAX;
        let is_left = |venue: &Topic| self.slot_owner(venue).is_none();
        match is_full && name.remove_member(is_left).is_none() {
            true => Err(NoTopic::Full(TOO_MANY_VENUES)),
            false => Ok(()),
        }
    }

    /// Gives a consolidated topic the names of its venues and of their sources.
    fn name_venues(&self, name: &Topic) {
        let (sources, venues) = name.with_members(|members| {
            let (mut sources, mut venues) = (Vec::new(), Vec::new());
            for facts in members.iter().map(|member| member.topic.facts()) {
                if !sources.contains(&facts.source_name) {
                    sources.push(facts.source_name.clone());
                }
                venues.push(facts.venue_name.clone());
            }
            (sources.join(","), venues.join(","))
        });
        let facts = name.facts();
        if *facts.source_name == *sources && *facts.venue_name == *venues {
            return;
        }
        name.set_facts(|facts| {
            (facts.source_name, facts.venue_name) = (sources.into(), venues.into());
        });
        // The update that made the difference is published soon, perhaps with the same value.
        name.note_untold();
    }

    /// Makes the topic `SYMBOL@VENUE`, with the symbol's definition. A symbol that has this name
    /// already belongs to the source that defined it, while that is connected. A new topic
    /// `repeats` the symbol, or does not.
    fn define_member(
        &mut self,
        name: &Arc<Topic>,
        wanted: &Wanted,
        repeats: bool,
    ) -> Result<Arc<Topic>, NoTopic> {
        let (symbol, venue) = (name.definition().name, &wanted.venue);
        let text = format!("{}{VENUE_SEPARATOR}{venue}", symbol.as_str());
        if let Some(known) = self.market.board.named(&text) {
            let parent = known.parent();
            let is_own = parent.is_some_and(|parent| Arc::ptr_eq(parent, name));
            return match is_own || self.may_become_venue(&known, name) {
                true => Ok(known),
                false => Err(NoTopic::Owned),
            };
        }
        let number = self.venue_number(wanted);
        self.define_topic(name, (&text, number), repeats)
    }

    /// Makes the topic `text`, with the definition of `name` and the venue `number`.
    fn define_topic(
        &mut self,
        name: &Topic,
        (text, number): (&str, u16),
        repeats: bool,
    ) -> Result<Arc<Topic>, NoTopic> {
        let board = &self.market.board;
        let definition = Definition {
            name: Name::new(text).map_err(|_| NoTopic::Full(NAME_TOO_LONG))?,
            source: number,
            ..name.definition()
        };
        let topic = board.define(&definition);
        let topic = topic.map_err(|_| NoTopic::Full(TOO_MANY_TOPICS))?;
        if topic.defined_sequence() == 0 {
            self.market.remote.note(topic.number, self.source);
            match repeats {
                true => self.begin_repeating(&topic),
                false => self.tell_definition(&topic),
            }
        }
        // Subscriptions to patterns may be older than the topic.
        let subscriptions = &self.market.post.subscriptions;
        self.market.books.defined(&topic, subscriptions);
        self.market.bars.defined(&topic, subscriptions);
        Ok(topic)
    }

    /// Notes which source and venue a topic has.
    fn describe(&mut self, topic: &Topic, wanted: &Wanted) {
        let facts = topic.facts();
        if *facts.venue_name == *wanted.venue && facts.source_name == wanted.feed {
            return;
        }
        let number = self.venue_number(wanted);
        self.market.board.venues().hold(number, facts.venue);
        if facts.venue.is_some() && *facts.venue_name != *wanted.venue {
            topic.leave_venue(&facts.venue_name);
            self.renew_named(topic, (&facts.venue_name, &wanted.venue));
        }
        topic.set_facts(|facts| {
            facts.venue = Some(number);
            facts.venue_name = wanted.venue.as_str().into();
            facts.source_name = wanted.feed.clone();
            facts.is_named = wanted.is_named;
        });
        match topic.parent() {
            Some(parent) => self.name_venues(parent),
            None => {
                self.market.board.note_venue(topic);
                let subscriptions = &self.market.post.subscriptions;
                self.market.seconds.note_venue(topic, subscriptions);
            }
        }
    }

    /// Takes what a hub gave of a consolidated symbol under other venues out of it: its value is
    /// now that of this one, and may include the others'. Returns their topics.
    pub(super) fn leave_other_venues(
        &mut self,
        name: &Arc<Topic>,
        venues: &SourceVenues,
        number: u16,
    ) -> Vec<Arc<Topic>> {
        let (venue, _) = venues.name(number);
        let sum = match number {
            CONSOLIDATED => self.own_sum(name, venues.feed()),
            _ => None,
        };
        let is_left = |topic: &Topic| {
            let goes_on = match number {
                CONSOLIDATED => sum.as_deref().is_some_and(|sum| std::ptr::eq(sum, topic)),
                _ => *topic.facts().venue_name == *venue,
            };
            let is_own = match self.slot_owner(topic) {
                Some(owner) => owner == self.source,
                // The sum that the hub, or a replay of its recording, had before it left.
                None => number != CONSOLIDATED && self.is_sum(topic, venues.feed()),
            };
            is_own && !goes_on
        };
        std::iter::from_fn(|| name.remove_member(is_left)).collect()
    }

    /// Notes that a topic's value is now that of the venue that the source numbers `number`.
    pub(super) fn rename_venue(&mut self, venues: &SourceVenues, topic: &Topic, number: u16) {
        let (venue, is_named) = venues.name(number);
        let wanted = Wanted {
            venue,
            number,
            feed: venues.feed().clone(),
            is_named,
            is_first: false,
        };
        let before = topic.facts();
        let was_of = &*before.venue_name;
        if !was_of.is_empty() && *was_of != *wanted.venue {
            self.market.bars.change_venue(topic, &wanted.venue);
        }
        self.describe(topic, &wanted);
    }

    /// Returns the hub's number of a venue. Tells the readers of its own feed what a new number
    /// means.
    fn venue_number(&mut self, wanted: &Wanted) -> u16 {
        let venue = venues::Venue {
            name: &wanted.venue,
            wanted: wanted.number,
            is_named: wanted.is_named,
        };
        let venues = self.market.board.venues();
        let taken = venues.take(venue, *self.venues_left > 0);
        let number = taken.number;
        if taken.is_new {
            *self.venues_left = self.venues_left.saturating_sub(1);
        }
        // A number without a name means the same to the readers of the hub's own feed, but for 0:
        // that is the source's name here, and would be the hub's own there.
        let is_same = number != 0 && number == wanted.number && !taken.is_reused;
        let is_told = wanted.is_named || !is_same;
        if taken.is_new
            && is_told
            && let Some(name) = venues.name(number)
        {
            self.journal.append(&Message::Venue(wire::Venue {
                source: number,
                source_time_ns: 0,
                name: VenueName::truncated(&name),
            }));
            venues.note_told(number);
        }
        number
    }

    fn claim(&mut self, topic: &Topic) -> Result<(), NoTopic> {
        self.note_certain(topic.number);
        self.claim_slot(topic.number).map_err(|error| match error {
            ClaimError::Owned { .. } => NoTopic::Owned,
            _ => NoTopic::Full(TOO_MANY_TOPICS),
        })
    }

    fn take_over(&mut self, topic: &Topic) -> Result<(), NoTopic> {
        self.note_certain(topic.number);
        if self.writer.slot(topic.number).is_none() {
            self.certainties.forget(topic.number);
        }
        let taken = self.writer.take_over(topic.number);
        taken.map_err(|_| NoTopic::Full(TOO_MANY_TOPICS))?;
        self.note_source(topic.number, self.source);
        Ok(())
    }

    fn is_stale(&self, topic: &Topic) -> bool {
        let slot = self.market.board.slots().slot(topic.number);
        slot.is_some_and(|slot| slot.flags() & FLAG_STALE != 0)
    }

    pub(super) fn slot_owner(&self, topic: &Topic) -> Option<u32> {
        self.market.board.slots().slot(topic.number)?.owner()
    }

    /// Brings the topics up to date that a topic's message concerns too.
    #[cold]
    pub(super) fn follow_links(&mut self, topic: &Arc<Topic>, message: &Message) {
        if topic.parent().is_some() {
            return self.follow(topic, Some(message));
        }
        self.apply_to_namesake(topic, message);
        if topic.take_wanted_venue() {
            self.give_venue_a_topic(topic);
        }
    }

    /// Gives the only venue of a symbol that this source writes to a topic of its own.
    ///
    /// What a hub gives stays as it is: when the hub finds a second venue, it says so. Were the
    /// symbol consolidated here, the hub's own consolidated value would be a venue of it, and count
    /// everything twice.
    fn give_venue_a_topic(&mut self, topic: &Arc<Topic>) {
        let facts = topic.facts();
        if facts.venue.is_none() || topic.is_consolidated() || topic.namesake().is_some() {
            return;
        }
        if self.is_hub {
            let present = Wanted::present(&facts);
            if !topic.is_consolidated_upstream()
                && let Ok(venue) = self.define_member(topic, &present, true)
            {
                let begin = |work: &mut Self| work.begin_with(topic, &venue, &present).is_ok();
                self.repeat_at(topic, &venue, begin);
            }
            return;
        }
        // Without room for a venue the symbol stays one topic.
        if self.split(topic, &facts, Some(self.source)).is_ok() {
            let venue = topic.with_members(|members| members.first().cloned());
            if let Some(venue) = venue {
                self.follow(&venue.topic, None);
            }
        }
    }

    /// Begins the topic of a venue before a hub's definition makes it: the hub before this one has
    /// found a second venue. What clients hear under the second name goes on there, and so do the
    /// symbol's bars, whose trades have all been of this venue.
    pub(super) fn continue_second(&mut self, name: &str, venue: &str) {
        let symbol = name.strip_suffix(venue);
        let Some(symbol) = symbol.and_then(|symbol| symbol.strip_suffix(VENUE_SEPARATOR)) else {
            // Another symbol has this name.
            return;
        };
        let board = &self.market.board;
        let has_bars = |topic: &Topic| topic.derived.bars().is_some();
        // The consolidated value of a hub is no part of a symbol: it is all of it.
        let is_meant = |topic: &Arc<Topic>| topic.is_of(venue) && !venues::is_consolidated(venue);
        let topic = board.named(symbol).filter(is_meant);
        if let Some(topic) = topic
            && !board.has_name(name)
            && (topic.is_second_heard() || has_bars(&topic))
            && self.slot_owner(&topic) == Some(self.source)
        {
            let present = Wanted::present(&topic.facts());
            if let Ok(venue) = self.define_member(&topic, &present, false) {
                // Without room it begins with the hub's own value.
                let _ = self.begin_with(&topic, &venue, &present);
            }
        }
    }
}

/// The venue that a source's message belongs to.
struct Wanted {
    venue: String,
    /// Its number, as the source has it.
    number: u16,
    feed: Arc<str>,
    /// Whether the source itself has named it.
    is_named: bool,
    /// Whether the source has given the symbol no value yet.
    is_first: bool,
}

impl Wanted {
    /// Returns whether messages go on with the topic of a source that has left. A feed without
    /// venue names is another feed under the same name, not another venue. A name may be one for
    /// the number that had none. What a hub had consolidated is gone with its session, and only the
    /// hub itself goes on there.
    fn may_continue(&self, facts: &Facts) -> bool {
        if venues::is_consolidated(&facts.venue_name) {
            return self.feed == facts.source_name;
        }
        let is_number = || match self.number {
            0 => self.feed == facts.source_name && *facts.venue_name == *self.feed,
            number => *facts.venue_name == *number.to_string(),
        };
        !self.is_named || !facts.is_named && is_number()
    }

    /// Returns the only venue of a symbol.
    fn present(facts: &Facts) -> Self {
        Self {
            venue: facts.venue_name.to_string(),
            number: facts.venue.unwrap_or(0),
            feed: facts.source_name.clone(),
            is_named: facts.is_named,
            is_first: false,
        }
    }
}

/// Returns whether a topic is of a venue that its source has named.
fn is_venue(facts: &Facts) -> bool {
    facts.is_named && !venues::is_consolidated(&facts.venue_name)
}

/// Returns a name, and those that further sources get in its place.
pub(super) fn all_numbered(first: &str) -> impl Iterator<Item = String> {
    let others = (2..=SOURCES_OF_A_VENUE_MAX).map(move |attempt| numbered(first, attempt));
    std::iter::once(first.to_owned()).chain(others)
}

/// Returns the name of another source's venue of the same name.
pub(super) fn numbered(venue: &str, attempt: u32) -> String {
    format!("{venue}#{attempt}")
}

/// Returns the time of a message at its source; 0 for kinds that change no value.
pub(super) fn source_time_ns(message: &Message) -> u64 {
    match message {
        Message::Quote(quote) => quote.source_time_ns,
        Message::Trade(trade) => trade.source_time_ns,
        Message::Status(status) => status.source_time_ns,
        Message::SessionStart(start) => start.source_time_ns,
        Message::LastValue(value) => value.source_time_ns,
        _ => 0,
    }
}

/// Limits the log lines that a source causes with each message.
static NO_TOPIC: Seldom = Seldom::new(3, 10);
/// Limits the log lines that a publisher causes with each connection.
static VENUE_TAKEN: Seldom = Seldom::new(3, 10);
const TOO_MANY_SOURCES: &str = "16 sources give the symbol at this venue";
const TOO_MANY_VENUES: &str = "128 venues give the symbol";
const NAME_TOO_LONG: &str = "SYMBOL@VENUE has more than 72 bytes";
const FIRST_NAME_TOO_LONG: &str =
    "SYMBOL@VENUE of the symbol's first venue has more than 72 bytes, so it can have no second one";
const TOO_MANY_TOPICS: &str = "market-topics-max is reached";
/// Maximum number of venues of one symbol: each update of one looks at all of them.
const VENUES_OF_A_SYMBOL_MAX: usize = 128;
/// Maximum number of sources that give one symbol at one venue at the same time.
const SOURCES_OF_A_VENUE_MAX: u32 = 16;
