//! One market topic: its name, its reference data, and the venues behind it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tidewire_fanout as fanout;
use tidewire_fanout::{Interest, TopicId};
use tidewire_feed::wire::Definition;
use tidewire_lastvalue::{MarketValue, PRICE_UNDEFINED};

use crate::bars::TopicBars;
use crate::board::{Board, MARKET_PREFIX};
use crate::derived::Derived;
use crate::fields;
use crate::records::TopicRecords;
use crate::seconds::{Second, SecondSlot};
use crate::venues::is_consolidated;
use newest::NewestTrades;
use repeats::Repeats;

mod newest;
mod repeats;

/// One market topic.
#[derive(Debug)]
pub struct Topic {
    /// The topic's number: the index of its slot, and its symbol number in the hub's own feed.
    pub number: u32,
    /// The name to subscribe to, such as `md:RELIANCE`.
    pub channel: Box<[u8]>,
    /// One bit per lane: whether that lane has, or may have, subscribers. A lane changes only its
    /// own bit, so lanes need no ordering for it.
    interest: Interest,
    reference: RwLock<Reference>,
    /// The hub's number of the venue, as in [`Facts::venue`]; 0 before the first value.
    venue: AtomicU32,
    /// [`WANTS_VENUE`], [`HAS_PARENT`], [`HAS_NAMESAKE`], [`UNTOLD`] and [`HAS_SECOND`].
    links: AtomicU32,
    /// Whether it has had a message in this hub's life.
    has_begun: AtomicBool,
    /// Sequence of the newest definition in the hub's own feed; 0 before the first.
    defined_sequence: AtomicU64,
    /// Sequence of the newest message in the hub's own feed that is no change of the value, as
    /// [`Topic::told_at`] says.
    told_sequence: AtomicU64,
    /// Price levels and bars, if a client has asked for them.
    pub(crate) derived: Derived,
    /// The session's trades, as its starts have found them.
    traded: Mutex<Traded>,
    /// The open that its source's definitions have declared last; [`PRICE_UNDEFINED`] before the
    /// first.
    declared_open: AtomicI64,
    /// As [`Topic::opened`] returns it; 0 without an open.
    opened: AtomicU64,
    /// Source time of the newest trade and of the newest status, ns since the UNIX epoch; 0 if
    /// unknown. A value has only the time of its newest change of any kind.
    last_trade_ns: AtomicU64,
    /// The latest source times of its trades, and those of them that may come again.
    newest_trades: NewestTrades,
    /// Sequence of the newest trade in the hub's own feed; 0 before the first.
    last_trade_sequence: AtomicU64,
    /// Whether it is a hub that has left it, if it is stale.
    is_left_by_hub: AtomicBool,
    /// Whether the hub that gives it says that one before it is away.
    is_away_upstream: AtomicBool,
    /// Whether the readers of the hub's own feed were told of a venue whose hub is away.
    is_away_told: AtomicBool,
    last_status_ns: AtomicU64,
    /// The session of a source that has given the trading state; 0 for none.
    status_session: AtomicU64,
    /// The session of a source that has given the newest first value; 0 for none.
    valued_session: AtomicU64,
    /// The session of a source that has defined the symbol since its value was left, and has given
    /// none; 0 for none.
    awaited_session: AtomicU64,
    /// The same of a source with the name of the one that has left the value; 0 for none.
    returning_session: AtomicU64,
    /// What is kept of its DBN records.
    pub(crate) records: TopicRecords,
    /// The topics of its venues, once it has several: then its value is consolidated from theirs.
    members: OnceLock<RwLock<Vec<Member>>>,
    /// The consolidated topic of which this is one venue.
    parent: OnceLock<Arc<Topic>>,
    /// The topic with the second name of a symbol of one venue, as [`Topic::namesake`] says.
    namesake: RwLock<Option<Arc<Topic>>>,
    /// Its messages that only repeat another topic's, as a namesake's do.
    repeats: Repeats,
}

/// What is known of a topic beside its value.
#[derive(Debug)]
struct Reference {
    definition: Definition,
    facts: Arc<Facts>,
}

/// Reference data as clients see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The hub's number of the venue; `None` before the first value.
    pub venue: Option<u16>,
    /// Name of the venue, or of all venues, joined with commas; empty before the first value.
    pub venue_name: Arc<str>,
    /// Name of the source, or of all sources; empty before the first value.
    pub source_name: Arc<str>,
    /// Whether the source itself has named the venue.
    pub is_named: bool,
    /// The end of the topic's JSON text: tick, currency, source, venue.
    pub(crate) json: Box<[u8]>,
}

/// Until when a session's trades are known. A value has only the time of its newest change, which
/// may be a quote of an earlier time.
#[derive(Clone, Copy, Debug, Default)]
struct Traded {
    trading_day: u32,
    trades: u32,
    /// Source time, ns since the UNIX epoch; 0 without a trade.
    until_ns: u64,
}

/// One venue of a consolidated topic.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) venue: u16,
    pub(crate) topic: Arc<Topic>,
    /// Whether the symbol was of this venue alone before it had several.
    is_first: bool,
}

impl Member {
    /// Returns the venue that `topic` is of, and that the symbol was of before it had several.
    pub(crate) fn first(topic: Arc<Topic>) -> Self {
        Self {
            is_first: true,
            ..Self::further(topic)
        }
    }

    /// Returns another venue, that of `topic`.
    pub(crate) fn further(topic: Arc<Topic>) -> Self {
        Self {
            venue: topic.venue(),
            topic,
            is_first: false,
        }
    }
}

impl Topic {
    /// Creates the topic `number` of the symbol that `definition` names, for the lanes of `lanes`
    /// (one bit each).
    pub(crate) fn new(number: u32, definition: &Definition, lanes: u64) -> Self {
        Self {
            number,
            channel: [MARKET_PREFIX, definition.name.as_bytes()].concat().into(),
            // It is not known yet which lanes wait for this name, so every lane checks on an
            // update.
            interest: Interest::of(lanes),
            reference: RwLock::new(Reference::new(
                Definition {
                    symbol: number,
                    ..*definition
                },
                Facts::default(),
            )),
            venue: AtomicU32::new(0),
            links: AtomicU32::new(0),
            has_begun: AtomicBool::new(false),
            defined_sequence: AtomicU64::new(0),
            told_sequence: AtomicU64::new(0),
            derived: Derived::default(),
            traded: Mutex::default(),
            declared_open: AtomicI64::new(PRICE_UNDEFINED),
            opened: AtomicU64::new(0),
            last_trade_ns: AtomicU64::new(0),
            newest_trades: NewestTrades::default(),
            last_trade_sequence: AtomicU64::new(0),
            is_left_by_hub: AtomicBool::new(false),
            is_away_upstream: AtomicBool::new(false),
            is_away_told: AtomicBool::new(false),
            last_status_ns: AtomicU64::new(0),
            status_session: AtomicU64::new(0),
            valued_session: AtomicU64::new(0),
            awaited_session: AtomicU64::new(0),
            returning_session: AtomicU64::new(0),
            records: TopicRecords::default(),
            members: OnceLock::new(),
            parent: OnceLock::new(),
            namesake: RwLock::new(None),
            repeats: Repeats::default(),
        }
    }

    /// Returns the bare name of the symbol.
    pub fn symbol(&self) -> &[u8] {
        debug_assert!(
            self.channel.starts_with(MARKET_PREFIX),
            "a channel is made with it"
        );
        &self.channel[MARKET_PREFIX.len()..]
    }

    /// Returns the source time until which the trades of the session of `value` are known, ns since
    /// the UNIX epoch; 0 without a trade. Each start of a session asks: where there are more trades
    /// than the last time, they end at the newest change of the value at the latest.
    pub(crate) fn traded_until_ns(&self, value: &MarketValue) -> u64 {
        let mut traded = self.traded.lock();
        if value.trading_day != traded.trading_day || value.trades < traded.trades {
            *traded = Traded {
                trading_day: value.trading_day,
                ..Traded::default()
            };
        }
        if value.trades > traded.trades {
            traded.trades = value.trades;
            traded.until_ns = traded.until_ns.max(value.source_time_ns);
        }
        // The newest change of a value may be a trade of an earlier time than those before it.
        match traded.until_ns {
            0 => 0,
            until_ns => until_ns.max(self.newest_trades.session_ns()),
        }
    }

    /// Returns the source time of the newest trade, ns since the UNIX epoch; `None` if unknown.
    pub(crate) fn last_trade_ns(&self) -> Option<u64> {
        known(self.last_trade_ns.load(Ordering::Relaxed))
    }

    /// Returns the latest source time of any trade so far, ns since the UNIX epoch; 0 if unknown.
    pub(crate) fn newest_trade_ns(&self) -> u64 {
        self.newest_trades.newest_ns()
    }

    /// Returns the source time of the newest status, ns since the UNIX epoch; `None` if unknown.
    pub(crate) fn last_status_ns(&self) -> Option<u64> {
        known(self.last_status_ns.load(Ordering::Relaxed))
    }

    /// Returns the sequence of the newest trade in the hub's own feed, or of the whole value that
    /// gave the last trade; 0 before the first.
    pub(crate) fn last_trade_sequence(&self) -> u64 {
        self.last_trade_sequence.load(Ordering::Acquire)
    }

    /// Notes the source time of the newest trade, 0 if unknown, and its sequence, before the value
    /// changes: a reader of the new value finds them.
    #[inline]
    pub(crate) fn traded_at(&self, source_time_ns: u64, sequence: u64) {
        self.last_trade_ns.store(source_time_ns, Ordering::Relaxed);
        self.newest_trades.note(source_time_ns);
        self.last_trade_sequence.store(sequence, Ordering::Release);
    }

    /// Notes that the topic has traded until a source time, as a whole value says.
    pub(crate) fn traded_until(&self, time_ns: u64) {
        self.newest_trades.note_older(time_ns);
    }

    /// Notes whether the source that leaves it stale is a hub, which may have trades meanwhile.
    pub(crate) fn left_by(&self, is_hub: bool) {
        self.is_left_by_hub.store(is_hub, Ordering::Relaxed);
    }

    /// Returns whether the topic, if it is stale, waits for a hub.
    pub(crate) fn is_left_by_hub(&self) -> bool {
        self.is_left_by_hub.load(Ordering::Relaxed)
    }

    /// Notes whether the hub that gives the topic says that one before it is away.
    pub(crate) fn away_upstream(&self, is_away: bool) {
        self.is_away_upstream.store(is_away, Ordering::Relaxed);
        if let Some(namesake) = self.namesake() {
            namesake.is_away_upstream.store(is_away, Ordering::Relaxed);
        }
    }

    /// Returns whether the hub that gives the topic says that one before it is away.
    pub(crate) fn is_away_upstream(&self) -> bool {
        self.is_away_upstream.load(Ordering::Relaxed)
    }

    /// Notes what the readers of the hub's own feed are told of hubs that are away. Returns whether
    /// that is something else than before.
    pub(crate) fn tell_away(&self, is_away: bool) -> bool {
        self.is_away_told.swap(is_away, Ordering::Relaxed) != is_away
    }

    /// Notes that the trades of the session may come again, as after a restart of the hub that
    /// gives them. The topic knows the time of its newest one still.
    #[cold]
    pub(crate) fn trades_may_repeat(&self) {
        self.newest_trades.may_repeat();
        if let Some(namesake) = self.namesake() {
            namesake.newest_trades.may_repeat();
        }
    }

    /// Notes that another publisher of the hub that gives the topic may have taken it over: those
    /// of its trades that bars had before the hub's restart may come again.
    #[cold]
    pub(crate) fn trades_may_repeat_again(&self) {
        self.newest_trades.may_repeat_again();
        if let Some(namesake) = self.namesake() {
            namesake.newest_trades.may_repeat_again();
        }
    }

    /// Returns the source time of the newest trade when its trades began to come again, ns since
    /// the UNIX epoch; 0 if they never have.
    pub(crate) fn had_until_ns(&self) -> u64 {
        self.newest_trades.had_until_ns()
    }

    /// Returns whether trades may come again that bars have had.
    #[inline]
    pub(crate) fn has_repetitions(&self) -> bool {
        self.newest_trades.repeated_until_ns() != 0
    }

    /// Returns the source time until which trades may come again, ns since the UNIX epoch.
    pub(crate) fn repeated_until_ns(&self) -> u64 {
        self.newest_trades.repeated_until_ns()
    }

    /// Returns whether the topic had traded when its trades began to come again.
    pub(crate) fn knows_repetitions(&self) -> bool {
        self.newest_trades.knows_repetitions()
    }

    /// Returns whether bars have had a trade of this source time before it came again. The first
    /// later trade ends the repetition; one without a time belongs to it.
    pub(crate) fn is_repeated(&self, source_time_ns: u64) -> bool {
        self.newest_trades.is_repeated(source_time_ns)
    }

    /// Notes that the topic is not of the venue `left` of its trades so far any more.
    pub(crate) fn leave_venue(&self, left: &str) {
        self.newest_trades.leave_venue(left);
    }

    /// Returns the source time until which the symbol may have traded at a venue before it was of
    /// another one, ns since the UNIX epoch; 0 if it has not.
    pub(crate) fn left_until_ns(&self, venue: &str) -> u64 {
        self.newest_trades.left_until_ns(venue)
    }

    /// Notes that this is the topic of a venue whose trades another topic has had until a source
    /// time.
    pub(crate) fn begin_behind(&self, until_ns: u64) {
        debug_assert!(until_ns > 0, "the other topic has traded");
        self.newest_trades.begin_behind(until_ns);
    }

    /// Returns the source time until which its venue may have traded before it began, ns since the
    /// UNIX epoch; 0 if it has not.
    pub(crate) fn traded_before_ns(&self) -> u64 {
        self.newest_trades.before_ns()
    }

    /// Returns whether its newest trade is of another venue, whose clock may be another one.
    pub(crate) fn has_other_clock(&self) -> bool {
        self.newest_trades.is_of_another()
    }

    /// Returns whether clients do not know yet that trades may be new which are taken for repeated
    /// ones, and notes that they do.
    pub(crate) fn take_doubt_of_repetition(&self) -> bool {
        self.newest_trades.take_doubt()
    }

    /// Notes the source time of the newest status; 0 if unknown.
    pub(crate) fn status_at(&self, source_time_ns: u64) {
        self.last_status_ns.store(source_time_ns, Ordering::Relaxed);
    }

    /// Returns the session of a source that has given the trading state; 0 for none.
    pub(crate) fn status_session(&self) -> u64 {
        self.status_session.load(Ordering::Relaxed)
    }

    /// Notes the session of a source that gives the trading state.
    pub(crate) fn status_of(&self, session: u64) {
        self.status_session.store(session, Ordering::Relaxed);
    }

    /// Returns the session of a source whose first value came last; 0 for none.
    pub(crate) fn valued_session(&self) -> u64 {
        self.valued_session.load(Ordering::Relaxed)
    }

    /// Notes the session of a source that gives its first value now, or 0 if it gives none any
    /// more.
    pub(crate) fn valued_in(&self, session: u64) {
        self.valued_session.store(session, Ordering::Relaxed);
    }

    /// Returns the session that has defined the symbol since its value was left; 0 for none.
    pub(crate) fn awaited_session(&self) -> u64 {
        self.awaited_session.load(Ordering::Relaxed)
    }

    /// Notes a session that may give the topic's next value, or 0 if it has come.
    pub(crate) fn awaits(&self, session: u64) {
        self.awaited_session.store(session, Ordering::Relaxed);
    }

    /// Returns the session of the source that has defined the symbol again since it has left the
    /// value; 0 for none.
    pub(crate) fn returning_session(&self) -> u64 {
        self.returning_session.load(Ordering::Relaxed)
    }

    /// Notes the session of a source that has left the value, and that defines the symbol again.
    pub(crate) fn returns_in(&self, session: u64) {
        self.returning_session.store(session, Ordering::Relaxed);
    }

    /// Takes what is known of the trades and the status of a topic whose value this one continues,
    /// besides the value: their times, until when the session has traded, the session of the
    /// status, the one that may give the next value, and whether a hub has left it.
    pub(crate) fn take_times(&self, other: &Self) {
        self.status_of(other.status_session());
        self.awaits(other.awaited_session());
        self.left_by(other.is_left_by_hub());
        self.away_upstream(other.is_away_upstream());
        // The newest change of the value may be a quote of a time before the trades.
        let traded = *other.traded.lock();
        *self.traded.lock() = traded;
        let traded_ns = other.last_trade_ns.load(Ordering::Relaxed);
        self.traded_at(traded_ns, other.last_trade_sequence());
        self.newest_trades.take(&other.newest_trades);
        self.status_at(other.last_status_ns.load(Ordering::Relaxed));
    }

    /// Notes that a session begins.
    pub(crate) fn session_begins(&self) {
        *self.traded.lock() = Traded::default();
        self.newest_trades.begin_session();
        self.opened.store(0, Ordering::Relaxed);
    }

    /// Notes the open that a definition declares. Returns whether the last one that declared an
    /// open declared another one.
    pub(crate) fn declare_open(&self, open: i64) -> bool {
        self.declared_open.swap(open, Ordering::Relaxed) != open
    }

    /// Notes that this is the topic of a venue whose values `topic` has had so far.
    pub(crate) fn continue_open(&self, topic: &Self) {
        let open = topic.declared_open.load(Ordering::Relaxed);
        self.declared_open.store(open, Ordering::Relaxed);
    }

    /// Returns when the session's `open` came: the sequence in the hub's own feed at which it was
    /// first seen. `next` is the next sequence. The journal's lock is held.
    pub(crate) fn opened(&self, open: i64, next: u64) -> u64 {
        debug_assert!(next > 0, "sequences of the journal begin at 1");
        let opened = self.opened.load(Ordering::Relaxed);
        let is_open = open != PRICE_UNDEFINED;
        if is_open == (opened != 0) {
            return opened;
        }
        let opened = if is_open { next } else { 0 };
        self.opened.store(opened, Ordering::Relaxed);
        opened
    }

    /// Takes over when the session's open came from the topic that had the value so far.
    pub(crate) fn continue_opened(&self, left: &Self) {
        let opened = left.opened.load(Ordering::Relaxed);
        let own = self.opened.load(Ordering::Relaxed);
        if opened != 0 && (own == 0 || opened < own) {
            self.opened.store(opened, Ordering::Relaxed);
        }
    }

    /// Returns the lanes that may have subscribers, one bit each.
    #[inline]
    pub fn interest(&self) -> u64 {
        self.interest.lanes()
    }

    /// Returns the source's definition of the symbol, and whether the topic repeats another one.
    pub fn definition(&self) -> Definition {
        Definition {
            repeats: self.is_repeating(),
            ..self.reference.read().definition
        }
    }

    /// Returns what clients see beside the value.
    pub fn facts(&self) -> Arc<Facts> {
        self.reference.read().facts.clone()
    }

    /// Returns the sequence of the newest definition in the hub's own feed.
    pub fn defined_sequence(&self) -> u64 {
        self.defined_sequence.load(Ordering::Relaxed)
    }

    /// Notes the sequence of the topic's definition in the hub's own feed.
    pub fn defined_at(&self, sequence: u64) {
        debug_assert!(sequence > 0, "sequences of the journal begin at 1");
        self.defined_sequence.store(sequence, Ordering::Relaxed);
    }

    /// Notes the sequence of a message in the hub's own feed that repeats the value, or says how
    /// certain it is. The value keeps its own sequence.
    pub(crate) fn told_at(&self, sequence: u64) {
        debug_assert!(sequence > 0, "sequences of the journal begin at 1");
        self.told_sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// Returns the newest sequence of [`Topic::defined_at`] and [`Topic::told_at`].
    pub(crate) fn told_sequence(&self) -> u64 {
        let told = self.told_sequence.load(Ordering::Relaxed);
        self.defined_sequence().max(told)
    }

    /// Replaces the definition with a newer one from the topic's source.
    pub fn redefine(&self, definition: &Definition) {
        let mut reference = self.reference.write();
        let definition = Definition {
            symbol: self.number,
            ..*definition
        };
        *reference = Reference::new(definition, (*reference.facts).clone());
    }

    /// Changes what clients see beside the value.
    pub(crate) fn set_facts(&self, change: impl FnOnce(&mut Facts)) {
        let mut reference = self.reference.write();
        let mut facts = (*reference.facts).clone();
        change(&mut facts);
        let venue = facts.venue.unwrap_or(0);
        self.venue.store(venue.into(), Ordering::Relaxed);
        *reference = Reference::new(reference.definition, facts);
    }

    /// Returns the hub's number of the venue; 0 before the first value.
    #[inline]
    pub(crate) fn venue(&self) -> u16 {
        self.venue.load(Ordering::Relaxed) as u16
    }

    /// Calls `read` with what clients see beside the value.
    #[inline]
    pub(crate) fn with_facts(&self, read: impl FnOnce(&Facts)) {
        read(&self.reference.read().facts);
    }

    /// Returns whether the topic's values are of the venue with this name.
    pub(crate) fn is_of(&self, venue: &str) -> bool {
        *self.reference.read().facts.venue_name == *venue
    }

    /// Returns whether the topic's values are what a hub before this one has consolidated.
    pub(crate) fn is_consolidated_upstream(&self) -> bool {
        is_consolidated(&self.reference.read().facts.venue_name)
    }

    /// Returns whether the topic is consolidated from several venues.
    #[inline]
    pub fn is_consolidated(&self) -> bool {
        self.members.get().is_some()
    }

    /// Calls `visit` with the venues of a consolidated topic; with none for other topics.
    pub(crate) fn with_members<T>(&self, visit: impl FnOnce(&[Member]) -> T) -> T {
        match self.members.get() {
            Some(members) => visit(&members.read()),
            None => visit(&[]),
        }
    }

    /// Returns the number of the topic of a venue of this symbol.
    pub(crate) fn number_of_venue(&self, venue: u16) -> Option<u32> {
        self.with_members(|members| {
            let mut members = members.iter();
            let own = members.find(|member| member.venue == venue)?;
            Some(own.topic.number)
        })
    }

    /// Returns the topic that goes on with what this one had before it was consolidated.
    pub(crate) fn continued(&self) -> Option<Arc<Topic>> {
        self.with_members(|members| {
            let first = members.iter().find(|member| member.is_first)?;
            Some(first.topic.clone())
        })
    }

    /// Adds a venue. From the first one on the topic is consolidated.
    pub(crate) fn add_member(self: &Arc<Self>, member: Member) {
        debug_assert!(self.parent.get().is_none(), "a venue has no venues");
        debug_assert_ne!(self.number, member.topic.number, "a topic of its own");
        let _ = member.topic.parent.set(self.clone());
        member.topic.links.fetch_or(HAS_PARENT, Ordering::Relaxed);
        self.members
            .get_or_init(RwLock::default)
            .write()
            .push(member);
    }

    /// Removes the first venue that is `gone`, and returns it.
    pub(crate) fn remove_member(&self, gone: impl Fn(&Topic) -> bool) -> Option<Arc<Topic>> {
        let mut members = self.members.get()?.write();
        let place = members.iter().position(|member| gone(&member.topic))?;
        Some(members.remove(place).topic)
    }

    /// Notes that clients do not know yet what has changed of the topic beside its value.
    pub(crate) fn note_untold(&self) {
        self.links.fetch_or(UNTOLD, Ordering::Relaxed);
    }

    /// Returns whether [`Topic::note_untold`] was called since the last time, and forgets it.
    pub(crate) fn take_untold(&self) -> bool {
        self.links.fetch_and(!UNTOLD, Ordering::Relaxed) & UNTOLD != 0
    }

    /// Returns the topic `SYMBOL@VENUE` of a symbol of one venue. There is none, unless the symbol
    /// had several venues before, or a source that has left defined a symbol with this name. It
    /// has the same value.
    #[inline]
    pub(crate) fn namesake(&self) -> Option<Arc<Topic>> {
        match self.links.load(Ordering::Relaxed) & HAS_NAMESAKE {
            0 => None,
            _ => self.namesake.read().clone(),
        }
    }

    /// Replaces the topic that [`Topic::namesake`] returns. Returns the one before.
    pub(crate) fn set_namesake(&self, namesake: Option<Arc<Topic>>) -> Option<Arc<Topic>> {
        match namesake.is_some() {
            true => self.links.fetch_or(HAS_NAMESAKE, Ordering::Relaxed),
            false => self.links.fetch_and(!HAS_NAMESAKE, Ordering::Relaxed),
        };
        std::mem::replace(&mut self.namesake.write(), namesake)
    }

    /// Notes that the topic only repeats another one from the sequence `next` of the hub's own feed
    /// on.
    pub(crate) fn begin_repeating(&self, next: u64) {
        self.repeats.begin(next);
    }

    /// Notes that the topic has values of its own from the sequence `next` on.
    pub(crate) fn end_repeating(&self, next: u64) {
        self.repeats.end(next);
    }

    /// Returns whether the topic's message with this sequence only repeats another topic's.
    pub(crate) fn repeats_at(&self, sequence: u64) -> bool {
        self.repeats.contains(sequence)
    }

    /// Returns whether the topic only repeats another one now.
    pub(crate) fn is_repeating(&self) -> bool {
        self.repeats_at(u64::MAX - 1)
    }

    /// Notes that a client of the native feed selects the symbol's only venue by its name.
    pub(crate) fn want_venue(&self) {
        self.links.fetch_or(WANTS_VENUE, Ordering::Relaxed);
    }

    /// Returns whether [`Topic::want_venue`] was called since the last time, and forgets it.
    pub(crate) fn take_wanted_venue(&self) -> bool {
        self.links.fetch_and(!WANTS_VENUE, Ordering::Relaxed) & WANTS_VENUE != 0
    }

    /// Notes a message about the topic. Returns whether it is the first one.
    pub(crate) fn begin(&self) -> bool {
        !self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Returns whether an update concerns another topic too.
    #[inline]
    pub(crate) fn has_links(&self) -> bool {
        self.links.load(Ordering::Relaxed) & !HAS_SECOND != 0
    }

    /// Notes that clients may subscribe to the topic under its second name.
    pub(crate) fn note_second(&self) {
        self.links.fetch_or(HAS_SECOND, Ordering::SeqCst);
    }

    /// Returns whether clients may subscribe to the topic under its second name.
    #[inline]
    pub(crate) fn has_second(&self) -> bool {
        self.links.load(Ordering::Relaxed) & HAS_SECOND != 0
    }

    /// Returns whether clients may subscribe to the topic, its book or its bars under the second
    /// name.
    pub(crate) fn is_second_heard(&self) -> bool {
        let book = self.derived.book().and_then(|book| book.second());
        let bars = self.derived.bars().into_iter().flat_map(TopicBars::iter);
        let bars = bars.filter_map(|bars| bars.second());
        let mut slots = self.derived.second().into_iter().chain(book).chain(bars);
        slots.any(SecondSlot::is_heard)
    }

    /// Returns the topic's second name and the lanes that may have subscribers to it, one bit each.
    /// There is none where a topic has exactly this name.
    #[cold]
    pub(crate) fn heard_second(&self, board: &Board) -> Option<(Arc<Second>, u64)> {
        let slot = self.derived.second()?;
        let mut heard = slot.heard(board);
        if heard.is_none() {
            // The next subscription says so again. It has added its interest before.
            self.links.fetch_and(!HAS_SECOND, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            heard = slot.heard(board);
            if heard.is_some() {
                self.note_second();
            }
        }
        heard
    }

    /// Returns the consolidated topic of which this is one venue.
    #[inline]
    pub(crate) fn parent(&self) -> Option<&Arc<Topic>> {
        self.parent.get()
    }
}

/// Returns a time, or `None` for 0.
fn known(time_ns: u64) -> Option<u64> {
    (time_ns != 0).then_some(time_ns)
}

/// A client of the native feed has selected the symbol's only venue by its name.
const WANTS_VENUE: u32 = 1;
/// The topic is one venue of a consolidated one.
const HAS_PARENT: u32 = 2;
/// The topic has another one with its second name.
const HAS_NAMESAKE: u32 = 4;
/// Facts of a consolidated topic have changed since it was published.
const UNTOLD: u32 = 8;
/// A lane may have subscribers to the topic's second name.
const HAS_SECOND: u32 = 16;

impl Reference {
    fn new(definition: Definition, mut facts: Facts) -> Self {
        facts.json = fields::facts_json(&definition, &facts).into();
        Self {
            definition,
            facts: Arc::new(facts),
        }
    }
}

impl fanout::Topic for Topic {
    fn id(&self) -> TopicId {
        TopicId::Market(self.number)
    }

    fn channel(&self) -> &[u8] {
        &self.channel
    }

    fn add_interest(&self, lane: usize) {
        self.interest.add(lane);
    }

    fn clear_interest(&self, lane: usize) {
        self.interest.clear(lane);
    }
}
