//! Applies a feed's messages in one pass: last values, the hub's own feed, and publications.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_book::prefetch;
use tidewire_fanout::Publication;
use tidewire_feed::client::{Gap, PublisherLogin, Side, Sink};
use tidewire_feed::server::Readable;
use tidewire_feed::wire::{
    Definition, Figures, LastValue, Level, Login, Message, ReferenceKind, Refused, SessionStart,
    Venue, VenueName,
};
use tidewire_lastvalue::{FLAG_STALE, LatencyRecorder, NumberSet, PRICE_UNDEFINED, Writer};
use tidewire_retry::Seldom;
use tracing::{debug, warn};

use crate::access::Guard;
use crate::clocks::Ahead;
use crate::consolidated::VenueValue;
use crate::market::Market;
use crate::publishers::{Occupied, ParkedPublisher};
use crate::records::RecordIngest;
use crate::symbols::{Symbol, SymbolMap};
use crate::topic::{Facts, Topic};
use crate::venues::{CONSOLIDATED, PUBLISHER_VENUES_MAX, SourceVenues};
use apply::Work;
pub(crate) use awaited::{LossySessions, ReturningSessions};
pub(crate) use bars::OpenBars;
use certainty::{Certainties, Doubt};
use publishing::Unheard;
use repetition::NewestTrade;
use sweep::Event;
use whole::is_nothing;

mod apply;
mod awaited;
mod bars;
mod binding;
pub(crate) mod certainty;
mod definitions;
mod depth;
mod namesake;
mod present;
mod prices;
mod publishing;
mod renamed;
mod repetition;
mod returning;
mod sessions;
mod sweep;
mod times;
mod unnamed;
mod venues;
mod whole;

/// The ingest of one source, which owns its topics until it ends.
#[derive(Debug)]
pub(crate) struct Ingest {
    market: Arc<Market>,
    source: u32,
    writer: Writer,
    symbols: SymbolMap,
    venues: SourceVenues,
    /// Topics with the name of a symbol's venue that are symbols of their own in this session, each
    /// with the number of the topic that the symbol's name stands for.
    apart: HashMap<u32, u32>,
    /// By symbol: the source time until which topics have traded that the value of this source, a
    /// hub, has left for others of the symbol, ns since the UNIX epoch.
    hub_traded: HashMap<u32, u64>,
    /// Number of venues that the source may still give a number of their own.
    venues_left: u32,
    records: RecordIngest,
    /// Topics updated in this batch of which a name seemed to have no subscriber.
    unheard: Vec<Unheard>,
    members: Vec<VenueValue>,
    certainties: Certainties,
    /// Maximum topics that an event reaches in its own batch.
    at_once: usize,
    /// Symbols of former sessions that are still to be freed.
    discarded: Vec<SymbolMap>,
    /// The source's session, as no other source has it: each begins with another number.
    session: u64,
    generation: u64,
    open_bars: bars::OpenBars,
    /// The newest trade of its stream.
    newest_trade: NewestTrade,
    /// Created with the first message: a feed client that only reads needs none.
    latency: Option<LatencyRecorder>,
    /// The source as the operator knows it.
    name: String,
    is_publisher: bool,
    /// What its peer may do.
    pub(crate) guard: Guard,
}

/// What a publisher's next connection continues with.
#[derive(Debug, Default)]
pub(crate) struct SourceState {
    pub(crate) symbols: SymbolMap,
    pub(crate) venues: SourceVenues,
    /// Topics named like a venue's that are symbols of their own.
    pub(crate) apart: HashMap<u32, u32>,
    /// How certain its topics are.
    pub(crate) certainties: Certainties,
    /// The session that goes on.
    pub(crate) session: u64,
    pub(crate) open_bars: OpenBars,
}

/// Counters of ingest since the start, over all sources.
#[derive(Debug, Default)]
pub struct IngestCounters {
    /// Messages of sources' streams that were applied: values, definitions, names of venues,
    /// levels, and parts of records; also those that changed nothing.
    pub applied: AtomicU64,
    /// Snapshot records applied.
    pub snapshot_records: AtomicU64,
    /// Messages of sources' streams that were refused: the symbol was not defined or has no topic,
    /// or a trade has no price. They are not applied.
    pub refused: AtomicU64,
    /// Gaps in the sequences.
    pub gaps: AtomicU64,
    /// Missing messages that arrived later.
    pub recovered: AtomicU64,
    /// Messages lost for good.
    pub lost: AtomicU64,
    /// Publishers refused because another connection publishes their session.
    pub refused_publishers: AtomicU64,
    /// Numbers of the configured sources that currently answer.
    pub(crate) standing: Mutex<BTreeSet<usize>>,
}

/// Ingest of the messages of one receive call. It holds the journal's lock for that time.
pub(crate) struct Batch<'a> {
    work: Work<'a>,
    symbols: &'a mut SymbolMap,
    venues: &'a mut SourceVenues,
    records: &'a mut RecordIngest,
    discarded: &'a mut Vec<SymbolMap>,
    /// Refused messages that the receiver knows of.
    refused_told: u64,
    generation: &'a mut u64,
    open_bars: &'a mut bars::OpenBars,
    /// Bars that this batch may still look at to close them by the source's clock.
    bars_left: u32,
    name: &'a str,
    guard: &'a mut Guard,
}

impl Ingest {
    /// Creates the ingest of the source with this number. `feed` is its name, as clients see it.
    pub(crate) fn new(market: Arc<Market>, source: u32, feed: &str) -> Self {
        Self {
            writer: market.board.slots().writer(source),
            latency: None,
            newest_trade: NewestTrade::default(),
            open_bars: bars::OpenBars::default(),
            name: feed.to_owned(),
            is_publisher: false,
            guard: Guard::default(),
            generation: market.post.subscriptions.generation().now(),
            source,
            symbols: SymbolMap::default(),
            venues: SourceVenues::new(feed),
            apart: HashMap::new(),
            hub_traded: HashMap::new(),
            venues_left: u32::MAX,
            records: RecordIngest::default(),
            unheard: Vec::new(),
            members: Vec::new(),
            certainties: Certainties::default(),
            at_once: certainty::TOPICS_AT_ONCE,
            discarded: Vec::new(),
            session: first_session(source),
            market,
        }
    }

    /// Makes it the ingest of a publisher from `address`, as the operator knows it. Limits say how
    /// much of the hub a publisher can use up.
    pub(crate) fn of_publisher(mut self, address: String) -> Self {
        self.name = address;
        self.is_publisher = true;
        self.venues_left = PUBLISHER_VENUES_MAX;
        self
    }

    /// Begins a batch received at `receive_time_ns` (UNIX epoch).
    pub(crate) fn begin(&mut self, receive_time_ns: u64) -> Batch<'_> {
        let Self {
            market,
            source,
            writer,
            symbols,
            venues,
            apart,
            hub_traded,
            venues_left,
            records,
            unheard,
            members,
            certainties,
            at_once,
            discarded,
            session,
            generation,
            open_bars,
            newest_trade,
            latency,
            name,
            is_publisher,
            guard,
        } = self;
        unheard.clear();
        let work = Work {
            journal: market.journal.lock(),
            hub_traded,
            market,
            source: *source,
            writer,
            apart,
            unheard,
            members,
            certainties,
            marked: NumberSet::default(),
            at_once: *at_once,
            session,
            is_hub: !*is_publisher && venues.is_hub(),
            venues_left,
            latency,
            newest_trade,
            is_repeated: false,
            is_snapshot: false,
            ahead: Ahead::default(),
            dispatch: (Publication::default(), 0),
            receive_time_ns,
            possible_until_ns: times::possible_until_ns(receive_time_ns),
            happens_ns: 0,
            untold_loss: None,
            is_last_told: false,
            whole_before: None,
            received: 0,
            refused: 0,
        };
        Batch {
            work,
            symbols,
            venues,
            records,
            discarded,
            refused_told: 0,
            generation,
            open_bars,
            bars_left: bars::BARS_A_BATCH,
            name,
            guard,
        }
    }

    /// Publishes the latencies recorded so far to the readers of the tracker.
    pub(crate) fn publish_latency(&mut self) {
        if let Some(latency) = self
            .latency
            .as_mut()
            .filter(|latency| latency.pending() > 0)
        {
            latency.publish();
        }
    }

    /// Takes what the source's next connection continues with, also before this one is dropped.
    pub(crate) fn take_state(&mut self) -> SourceState {
        debug_assert!(
            !self.certainties.is_pending(),
            "its topics are marked before it ends"
        );
        SourceState {
            symbols: std::mem::take(&mut self.symbols),
            venues: std::mem::take(&mut self.venues),
            apart: std::mem::take(&mut self.apart),
            certainties: std::mem::take(&mut self.certainties),
            session: std::mem::take(&mut self.session),
            open_bars: std::mem::take(&mut self.open_bars),
        }
    }

    /// Names a venue by the source's number.
    pub(crate) fn name_venue(&mut self, number: u16, name: &str) {
        self.venues.set(number, VenueName::truncated(name));
    }

    /// Returns whether the source has too many topics or symbols to mark and to release them in one
    /// turn of a lane.
    pub(crate) fn takes_long_to_end(&self) -> bool {
        let count = self.writer.claimed().len().max(self.symbols.len());
        self.is_sweeping() || count > certainty::ENDS_AT_ONCE
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.release_topics();
        self.market.returning_sessions.remove(self.session);
        self.market.clocks.remove(self.source);
    }
}

impl Batch<'_> {
    /// Ends the batch. Returns the publication and the lanes it is for (one bit each).
    pub(crate) fn finish(mut self) -> (Publication, u64) {
        self.leave_few_renamed();
        self.work.publish_marked();
        let market = self.work.market;
        let next = self.work.journal.next_sequence();
        debug_assert!(
            market.journal_next.load(Ordering::Relaxed) <= next,
            "the journal only grows, and its copy is written under its lock"
        );
        market.journal_next.store(next, Ordering::Release);
        if self.work.ahead.messages > 0 {
            let (source, ahead) = (self.work.source, self.work.ahead);
            market.clocks.note(source, self.name, ahead);
        }
        self.hear_late_subscribers();
        let (received, refused) = (self.work.received, self.work.refused);
        debug_assert!(refused <= received, "what is refused was received");
        let counters = &market.ingest;
        counters
            .applied
            .fetch_add(received - refused, Ordering::Relaxed);
        if refused > 0 {
            counters.refused.fetch_add(refused, Ordering::Relaxed);
        }
        let (publication, lanes) = self.work.dispatch;
        debug_assert_eq!(
            publication.is_empty(),
            lanes == 0,
            "a publication has a lane to go to"
        );
        (publication, lanes)
    }

    /// Publishes values whose topic got a subscriber between the store of the value and the check
    /// of its interest. [`tidewire_fanout::Generation`] has the proof.
    fn hear_late_subscribers(&mut self) {
        let generation = self.work.market.post.subscriptions.generation();
        if !generation.has_changed(self.generation) {
            return;
        }
        let mut unheard = std::mem::take(self.work.unheard);
        unheard.sort_unstable();
        unheard.dedup();
        self.work.publish_unheard(&unheard);
    }

    fn flags(&self, number: u32) -> u32 {
        self.work.flags(number)
    }

    #[inline]
    fn update(&mut self, message: &Message) {
        let symbol = message.symbol().unwrap_or(u32::MAX);
        if self.work.certainties.is_pending() {
            self.settle_symbol(symbol);
        }
        let venue = message.source();
        let is_valid = match message {
            Message::Trade(trade) => trade.price != PRICE_UNDEFINED,
            Message::SessionStart(start) => start.is_valid(),
            _ => true,
        };
        let Some(known) = self.symbols.get(symbol).filter(|_| is_valid) else {
            self.work.refused += u64::from(!self.symbols.leaves_out(symbol));
            return;
        };
        let topic = known.of_venue(venue);
        if venue == CONSOLIDATED && topic.is_none() && !self.venues.is_hub() {
            // Only a hub consolidates.
            self.work.refused += 1;
            return;
        }
        match message {
            // The end of a book that the source has not given is no value. That of a hub is of the
            // symbol's only topic, whose venue may have become another one.
            Message::Level(level) if level.action == Level::END && topic.is_none() => {
                let first = known.first().filter(|_| self.venues.is_hub()).cloned();
                let is_own = |topic: &Arc<Topic>| self.work.writer.slot(topic.number).is_some();
                if let Some(topic) = first.filter(is_own) {
                    self.level_of(&topic, level);
                }
            }
            Message::Level(level) => {
                let time_ns = level.source_time_ns;
                if let Some(topic) = self.owned_topic(symbol, venue, time_ns) {
                    self.level_of(&topic, level);
                }
            }
            Message::Record(part) => {
                // Orders are of a venue, as levels are. Other records may come before any value.
                let topic = match part.bytes().get(1) {
                    Some(&ORDER) if part.offset() == 0 => {
                        self.owned_topic(symbol, venue, part.source_time_ns)
                    }
                    _ => topic.cloned().or_else(|| self.own_name(known)),
                };
                let Some(topic) = topic else { return };
                let (session, work) = (*self.work.session, &mut self.work);
                let counters = &work.market.records;
                let journal = &mut work.journal;
                self.records.take(part, &topic, session, journal, counters);
            }
            // Before the first value it is about the symbol; of a symbol with values it says
            // nothing about a venue without one.
            Message::Certainty(told) if topic.is_none() => {
                if let Some(topic) = self.one_value_upstream(known, venue) {
                    // It is no value, and the topic's venue stays.
                    self.work.begin_empty(&topic);
                    self.work.apply(&topic, message);
                    return;
                }
                let is_unbound = known.is_unbound();
                let name = is_unbound.then(|| self.own_name(known)).flatten();
                let key = self.venues.key(venue);
                self.symbols.note_told(symbol, key, told.flags);
                if let Some(name) = name {
                    self.work.apply(&name, message);
                }
            }
            Message::LastValue(record) => self.update_whole(record),
            message => {
                let applied = topic.is_some_and(|topic| self.work.apply(topic, message));
                if !applied {
                    self.update_unbound(symbol, venue, message);
                }
            }
        }
    }

    /// Returns the topic of a symbol at a venue for a level or order of `time_ns`, which the source
    /// owns then. Counts the message as refused if there is none.
    fn owned_topic(&mut self, symbol: u32, venue: u16, time_ns: u64) -> Option<Arc<Topic>> {
        let known = self.symbols.get(symbol)?;
        let topic = known.of_venue(venue).cloned();
        if let Some(topic) = topic.filter(|topic| self.work.writer.slot(topic.number).is_some()) {
            return Some(topic);
        }
        let is_first = known.of_venue(venue).is_none();
        let before = known.name().facts();
        self.work.happens_ns = time_ns;
        let topic = self.bind(symbol, venue);
        match &topic {
            Some(topic) if is_first => {
                self.work.begin_empty(topic);
                // A level changes no value. It may end the staleness of one, or name its venue.
                if self.begin_topic((symbol, venue), topic, (time_ns, false)) {
                    self.work.publish(topic);
                } else {
                    self.publish_if_named(symbol, topic, &before);
                }
                self.work.tell_behind(topic);
                self.work.follow(topic, None);
            }
            // It has another source, or became one venue of several.
            Some(topic) => self.work.follow(topic, None),
            None => {
                self.work.refused += 1;
            }
        }
        topic
    }

    /// Publishes a symbol's value if its source or venue are others than before.
    fn publish_if_named(&mut self, symbol: u32, topic: &Topic, before: &Facts) {
        let is_name = |known: &Symbol| known.name().number == topic.number;
        let value = self.work.market.board.value(topic.number);
        let has_value = value.is_some_and(|value| value.updates > 0);
        if has_value && self.symbols.get(symbol).is_some_and(is_name) && *topic.facts() != *before {
            self.work.publish_facts(topic);
        }
    }

    /// Begins a session of a symbol's topic if the source's definition declares another open than
    /// the last one. A hub does that itself, and tells it.
    fn declare_open(&mut self, topic: &Arc<Topic>, (symbol, venue): (u32, u16)) {
        let open = self.symbols.open(symbol, self.venues.key(venue));
        if let Some(open) = open.filter(|_| !self.venues.is_hub()) {
            self.work.declare_open(topic, open);
        }
    }

    /// Prepares a topic for the first value, level or order that the source gives a symbol at a
    /// venue, at `time_ns`. `is_replaced` tells that this is a whole value. Returns whether
    /// subscribers see another value than before, which is not published yet.
    fn begin_topic(
        &mut self,
        (symbol, venue): (u32, u16),
        topic: &Arc<Topic>,
        (time_ns, is_replaced): (u64, bool),
    ) -> bool {
        let is_left = self.flags(topic.number) & FLAG_STALE != 0;
        // A hub that is back may send all it has; a further venue of one that is here does not, but
        // its publishers may do so one after the other.
        match self.venues.is_hub() {
            true if is_left => topic.trades_may_repeat(),
            true => topic.trades_may_repeat_again(),
            false => {}
        }
        self.begin_behind_symbol(topic, is_replaced);
        if self.venues.is_hub() {
            self.doubt_numbered(topic);
        }
        self.renew_bars(topic);
        self.declare_open(topic, (symbol, venue));
        self.take_over_book(topic, time_ns);
        let told = self.symbols.take_told(symbol, self.venues.key(venue));
        topic.away_upstream(told & Figures::AWAY != 0);
        let namesake = self.announce_namesake(topic);
        let before = self.work.seen(topic.number);
        self.work
            .revive(topic, apply::upstream_flags(told), (time_ns, is_replaced));
        let is_revived = self.work.seen(topic.number) != before;
        self.work.end_repeating(topic, is_replaced);
        self.take_namesake(topic, namesake, is_replaced);
        self.succeed_in_bars(topic);
        is_revived
    }

    /// Applies a message whose topic this source does not write to yet.
    #[cold]
    fn update_unbound(&mut self, symbol: u32, venue: u16, message: &Message) {
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let is_value = matches!(
            message,
            Message::Quote(_) | Message::Trade(_) | Message::LastValue(_)
        );
        // A record is about the symbol, not only about the venue of its last change. That of a hub
        // has the venue of its value.
        let venue = match (message, known.venues().next()) {
            (Message::LastValue(record), Some((first, _)))
                if venue != CONSOLIDATED && (!self.venues.is_hub() || is_nothing(record)) =>
            {
                first
            }
            _ => venue,
        };
        let is_first = known.of_venue(venue).is_none();
        let time_ns = venues::source_time_ns(message);
        self.work.happens_ns = time_ns;
        let topic = self.find_topic(symbol, venue);
        let whole = match (message, &topic) {
            (Message::LastValue(record), Some(topic)) => Some((record, self.work.before(topic))),
            _ => None,
        };
        if !is_value {
            self.symbols.note_stated(symbol, venue);
        } else if let Some(topic) = &topic {
            self.bind_to(symbol, venue, topic);
        }
        let Some(topic) = topic else {
            self.work.refused += 1;
            return;
        };
        match message {
            Message::LastValue(_) => _ = topic.begin(),
            _ => self.work.begin_empty(&topic),
        }
        if is_value && is_first {
            let is_replaced = matches!(message, Message::LastValue(_));
            self.begin_topic((symbol, venue), &topic, (time_ns, is_replaced));
        } else if matches!(message, Message::SessionStart(start) if changes_open(start)) {
            // The definition came first: its open is of the session before.
            self.declare_open(&topic, (symbol, venue));
        }
        if !is_value {
            self.work.end_repeating(&topic, false);
            self.find_new_namesake(&topic);
        }
        let applied = self.work.apply(&topic, message);
        debug_assert!(applied, "the topic has just been claimed");
        self.work.tell_behind(&topic);
        if let Some((record, before)) = whole {
            self.work.note_whole(&topic, record, &before);
        }
    }
}

impl Batch<'_> {
    /// Applies a part of a snapshot, which repeats earlier messages: it counts neither as received
    /// nor, if it is refused, as a refused message of the stream.
    fn repeated(&mut self, apply: impl FnOnce(&mut Self)) {
        let before = self.work.refused;
        apply(self);
        let refused = std::mem::replace(&mut self.work.refused, before) - before;
        let counter = &self.work.market.ingest.refused;
        counter.fetch_add(refused, Ordering::Relaxed);
    }
}

impl Sink for Batch<'_> {
    #[inline]
    fn message(&mut self, _sequence: u64, message: &Message) {
        self.work.received += 1;
        let changed = self.work.without_impossible(message);
        let message = changed.as_ref().unwrap_or(message);
        if self.work.market.bars.is_empty() {
            self.update(message);
        } else {
            self.work.is_repeated = false;
            self.update(message);
            self.pass_time(times::clock_ns(message));
            if let Message::Trade(trade) = message {
                self.update_bars(trade);
            }
        }
    }

    fn take_refused(&mut self) -> u64 {
        let refused = self.work.refused;
        refused - std::mem::replace(&mut self.refused_told, refused)
    }

    fn venue(&mut self, venue: &Venue) {
        self.work.received += 1;
        self.name_venue(venue);
        if venue.source_time_ns <= self.work.possible_until_ns {
            self.pass_time(venue.source_time_ns);
        }
    }

    fn venue_of_login(&mut self, venue: &Venue) {
        self.name_venue(venue);
    }

    #[inline]
    fn expect_symbol(&self, symbol: u32) {
        if let Some(topic) = self.symbols.get(symbol).and_then(Symbol::first)
            && let Some(slot) = self.work.market.board.slots().slot(topic.number)
        {
            slot.hot_lines().into_iter().for_each(prefetch);
        }
    }

    fn definition(&mut self, sequence: u64, definition: &Definition) {
        let whole = Message::Definition(*definition);
        let timeless = self.work.without_impossible_time(&whole);
        let definition = match &timeless {
            Some(Message::Definition(timeless)) => timeless,
            _ => definition,
        };
        match sequence {
            0 => self.repeated(|batch| batch.define(definition)),
            _ => {
                self.work.received += 1;
                self.define(definition);
                self.pass_time(definition.source_time_ns);
            }
        }
    }

    /// Symbol numbers belong to one session. The old ones are void, and a topic is stale until the
    /// new session gives it a value.
    fn session_changed(&mut self, old: u32, new: u32) {
        let source = self.work.source;
        debug!(source, old, new, "the feed began another session");
        self.end_session();
    }

    fn values_doubtful(&mut self) {
        self.doubt();
    }

    fn values_lost(&mut self) {
        self.work.certainties.doubt = Doubt::Messages;
        self.work.market.lossy_sessions.add(*self.work.session);
        self.happened(Event::Lost);
    }

    fn values_as_before(&mut self) {
        self.end_interruption();
    }

    fn values_right(&mut self) {
        self.work.certainties.doubt = Doubt::None;
        self.work.market.lossy_sessions.remove(*self.work.session);
        self.happened(Event::Right);
    }

    fn log_in(&mut self, login: &Login) -> Result<Readable, Refused> {
        self.guard.log_in(login)
    }

    fn refused(&mut self, _: Side, refused: &Refused) {
        // One that ends the connection is told with its end.
        if refused.reason.leaves_the_rest() {
            definitions::warn_refused(self.name, refused);
        }
    }

    fn read_refused(&mut self, name: &str) {
        self.guard.note_unread(name);
    }

    fn publisher_login(&mut self, login: &Login) -> PublisherLogin {
        let publishers = &self.work.market.publishers;
        let parked = publishers.connect(login.session, self.guard.name());
        self.venues.set_feed(login.client_name.as_str());
        let ParkedPublisher {
            receiver, state, ..
        } = match parked {
            Ok(Some(parked)) => parked,
            Ok(None) => return PublisherLogin::New,
            Err(Occupied::Connected) => return PublisherLogin::InUse,
            Err(Occupied::OfAnother) => return PublisherLogin::OfAnother,
        };
        self.resume(state);
        PublisherLogin::Resumed(receiver)
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        let whole = Message::LastValue(*record);
        let timeless = self.work.without_impossible_time(&whole);
        let record = match &timeless {
            Some(Message::LastValue(timeless)) => timeless,
            _ => record,
        };
        let records = &self.work.market.ingest.snapshot_records;
        records.fetch_add(1, Ordering::Relaxed);
        self.work.is_snapshot = true;
        self.repeated(|batch| batch.update(&Message::LastValue(*record)));
        self.work.is_snapshot = false;
    }

    fn whole_snapshot_begin(&mut self) {
        self.work.certainties.named = Some(NumberSet::default());
    }

    fn whole_snapshot_complete(&mut self) {
        self.end_unnamed();
    }

    fn gap(&mut self, gap: Gap) {
        let source = self.work.source;
        let counters = &self.work.market.ingest;
        match gap {
            Gap::Opened { from, count } => {
                counters.gaps.fetch_add(1, Ordering::Relaxed);
                debug!(source, from, count, "a gap in the feed");
            }
            Gap::Recovered { count, .. } => {
                counters.recovered.fetch_add(count, Ordering::Relaxed);
            }
            Gap::Lost {
                from,
                count,
                reason,
            } => {
                counters.lost.fetch_add(count, Ordering::Relaxed);
                self.happened(Event::BooksLost);
                if let Some(left_out) = LOST.note_now() {
                    let text = "messages of the feed are lost";
                    warn!(source, from, count, ?reason, left_out, "{text}");
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a message may begin a session, or give or take back its open.
fn changes_open(start: &SessionStart) -> bool {
    start.rolls != SessionStart::KEEPS || start.kind == ReferenceKind::OPEN
}

/// Returns the number of a source's first session. The next ones count on from it; a source begins
/// fewer than the numbers between two sources.
fn first_session(source: u32) -> u64 {
    (u64::from(source) + 1) << 32
}

/// Type byte of an order's record.
const ORDER: u8 = 0xA0;
/// Limits the log lines about lost messages.
static LOST: Seldom = Seldom::new(10, 10);

#[cfg(all(loom, test))]
mod model;
#[cfg(test)]
mod tests;
