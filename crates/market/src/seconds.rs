//! Second names of the topics of symbols with one venue: `md:SYMBOL@VENUE`, `book:SYMBOL@VENUE` and
//! `bar:1m:SYMBOL@VENUE`.
//!
//! Such a symbol is one topic. A client that subscribes under the second name changes nothing about
//! it: what the topic publishes is published under the second name too. When another venue comes,
//! the first one gets a topic with exactly this name. Fan-out then prefers that one.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tidewire_fanout as fanout;
use tidewire_fanout::{Interest, Matches, Subscriptions, TopicId, TopicSource, bits};

use crate::bars::{self, Bars, Interval};
use crate::board::{Board, MARKET_PREFIX, VENUE_SEPARATOR};
use crate::depth::{BOOK_PREFIX, Books};
use crate::topic::Topic;

/// All second names that clients have asked for. They are never removed, as topics are not.
#[derive(Debug)]
pub struct Seconds {
    board: Arc<Board>,
    books: Arc<Books>,
    bars: Arc<Bars>,
    lanes: u64,
    numbers: RwLock<HashMap<Box<[u8]>, u32, RandomState>>,
    all: RwLock<Vec<Arc<Second>>>,
    /// One bit for each kind of which a client has ever asked for a second name. Most hubs have
    /// none, and a million symbols.
    asked: AtomicU64,
}

/// The second name of one topic.
#[derive(Debug)]
pub(crate) struct Second {
    number: u32,
    kind: Kind,
    /// The name to subscribe to.
    channel: Box<[u8]>,
    /// The symbol's market topic.
    topic: Arc<Topic>,
    interest: Interest,
    /// As inputs look at it to find the books that clients want.
    books_asked: Arc<AtomicU64>,
}

/// Where a topic keeps its second name, once a client has asked for it.
#[derive(Debug, Default)]
pub(crate) struct SecondSlot(RwLock<Option<Arc<Second>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Market,
    Book,
    Bars(Interval),
}

impl Kind {
    fn all() -> impl Iterator<Item = Kind> {
        let bars = Interval::ALL.into_iter().map(Kind::Bars);
        [Kind::Market, Kind::Book].into_iter().chain(bars)
    }

    fn prefix(self) -> &'static [u8] {
        match self {
            Kind::Market => MARKET_PREFIX,
            Kind::Book => BOOK_PREFIX,
            Kind::Bars(interval) => bars::prefix(interval),
        }
    }

    fn bit(self) -> u64 {
        match self {
            Kind::Market => 1,
            Kind::Book => 2,
            Kind::Bars(interval) => 4 << interval as u32,
        }
    }

    /// Returns the kind of a channel name, and the rest of it.
    fn parse(channel: &[u8]) -> Option<(Kind, &[u8])> {
        let of = |kind: Kind| Some((kind, channel.strip_prefix(kind.prefix())?));
        Kind::all().find_map(of)
    }
}

impl SecondSlot {
    /// Returns the second name and the lanes that may have subscribers to it, one bit each. There
    /// is none without them, or where a topic has exactly this name.
    pub(crate) fn heard(&self, board: &Board) -> Option<(Arc<Second>, u64)> {
        let second = self.0.read().clone()?;
        let lanes = second.interest.lanes();
        if lanes != 0 && second.is_over(board) {
            self.clear();
            return None;
        }
        (lanes != 0).then_some((second, lanes))
    }

    /// Returns whether a lane may have subscribers to the second name.
    pub(crate) fn is_heard(&self) -> bool {
        let second = self.0.read();
        second
            .as_ref()
            .is_some_and(|second| second.interest.lanes() != 0)
    }

    fn is(&self, second: &Arc<Second>) -> bool {
        let own = self.0.read();
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own, second))
    }

    fn clear(&self) {
        *self.0.write() = None;
    }

    /// Keeps a second name, unless it is that of a venue which the symbol has no more.
    fn set(&self, second: &Arc<Second>, is_right: impl FnOnce() -> bool) {
        let mut own = self.0.write();
        // Under the lock: a change of the venue comes here before or after.
        if is_right() {
            *own = Some(second.clone());
        }
    }
}

impl Second {
    /// Returns the name to subscribe to.
    pub(crate) fn name(&self) -> &[u8] {
        &self.channel
    }

    /// Returns the second name of the symbol.
    pub(crate) fn symbol(&self) -> &[u8] {
        &self.channel[self.kind.prefix().len()..]
    }

    /// Returns the number as fan-out has it.
    pub(crate) fn topic_id(&self) -> TopicId {
        TopicId::Second(self.number)
    }

    /// Returns whether a topic has exactly this name by now: it publishes its own values.
    fn is_over(&self, board: &Board) -> bool {
        let symbol = std::str::from_utf8(self.symbol());
        symbol.is_ok_and(|symbol| board.has_name(symbol))
    }

    /// Tells who makes the topic's values that a lane may have subscribers.
    fn tell_heard(&self) {
        match self.kind {
            Kind::Market => self.topic.note_second(),
            Kind::Book => _ = self.books_asked.fetch_add(1, Ordering::Release),
            Kind::Bars(_) => {}
        }
    }
}

impl fanout::Topic for Second {
    fn id(&self) -> TopicId {
        self.topic_id()
    }

    fn channel(&self) -> &[u8] {
        &self.channel
    }

    fn add_interest(&self, lane: usize) {
        self.interest.add(lane);
        self.tell_heard();
    }

    fn clear_interest(&self, lane: usize) {
        self.interest.clear(lane);
    }
}

impl Seconds {
    /// Creates the second names of these topics, for the lanes of `lanes` (one bit each).
    pub(crate) fn new(board: Arc<Board>, books: Arc<Books>, bars: Arc<Bars>, lanes: u64) -> Self {
        Self {
            board,
            books,
            bars,
            lanes,
            numbers: RwLock::default(),
            all: RwLock::default(),
            asked: AtomicU64::new(0),
        }
    }

    /// Returns the number of second names.
    pub fn len(&self) -> usize {
        self.all.read().len()
    }

    /// Returns whether there is no second name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that a symbol has another venue than before: what clients have asked for under the
    /// name of this one is published under it from now on. The journal's lock is held.
    #[inline]
    pub(crate) fn note_venue(&self, topic: &Topic, subscriptions: &Subscriptions) {
        // The venue first: a client that asks now finds it, or is found here.
        fence(Ordering::SeqCst);
        let asked = self.asked.load(Ordering::SeqCst);
        if asked != 0 {
            self.follow_venue(topic, asked, subscriptions);
        }
    }

    #[cold]
    fn follow_venue(&self, topic: &Topic, asked: u64, subscriptions: &Subscriptions) {
        let Some(topic) = self.board.topic(topic.number) else {
            return;
        };
        let venue = topic.facts().venue_name.clone();
        for kind in Kind::all().filter(|kind| kind.bit() & asked != 0) {
            self.forget(&topic, kind);
            let name = self.second_name(&topic, &venue);
            let channel = name.map(|name| [kind.prefix(), name.as_bytes()].concat());
            let is_asked = |channel: &Vec<u8>| subscriptions.ask_second(channel);
            if let Some(channel) = channel.filter(is_asked) {
                self.publish_as(kind, &topic, &channel);
            }
        }
    }

    /// Ends the publications of a topic under its second name.
    fn forget(&self, topic: &Topic, kind: Kind) {
        let derived = &topic.derived;
        let slot = match kind {
            Kind::Market => derived.second(),
            Kind::Book => derived.book().and_then(|book| book.second()),
            Kind::Bars(interval) => {
                let bars = derived.bars().and_then(|bars| bars.get(interval));
                bars.and_then(|bars| bars.second())
            }
        };
        slot.into_iter().for_each(SecondSlot::clear);
    }

    /// Returns the second name of a symbol of the venue `venue`, unless a topic has this name.
    fn second_name(&self, topic: &Topic, venue: &str) -> Option<String> {
        if venue.is_empty() || topic.is_consolidated() {
            return None;
        }
        let symbol = std::str::from_utf8(topic.symbol()).ok()?;
        let name = format!("{symbol}{VENUE_SEPARATOR}{venue}");
        (!self.board.has_name(&name)).then_some(name)
    }

    /// Returns the second name that begins with `literal`, which has all of the symbol's name and
    /// [`VENUE_SEPARATOR`]. The topic publishes under it from now on.
    fn ask(&self, literal: &[u8], is_whole: bool) -> Option<Arc<Second>> {
        let (kind, text) = Kind::parse(literal)?;
        let (symbol, venue) = std::str::from_utf8(text)
            .ok()?
            .rsplit_once(VENUE_SEPARATOR)?;
        self.asked.fetch_or(kind.bit(), Ordering::SeqCst);
        // Before the look: a venue that comes meanwhile is found here or there.
        fence(Ordering::SeqCst);
        let topic = self.board.named(symbol)?;
        let own = topic.facts().venue_name.clone();
        let is_meant = match is_whole {
            true => *own == *venue,
            false => own.starts_with(venue),
        };
        let name = self.second_name(&topic, &own).filter(|_| is_meant)?;
        let channel = [kind.prefix(), name.as_bytes()].concat();
        Some(self.publish_as(kind, &topic, &channel))
    }

    /// Lets a topic publish under its second name too.
    fn publish_as(&self, kind: Kind, topic: &Arc<Topic>, channel: &[u8]) -> Arc<Second> {
        let second = self.named(channel).unwrap_or_else(|| {
            let mut numbers = self.numbers.write();
            let mut all = self.all.write();
            let number = *numbers.entry(channel.into()).or_insert(all.len() as u32);
            if let Some(second) = all.get(number as usize) {
                return second.clone();
            }
            let second = Arc::new(Second {
                number,
                kind,
                channel: channel.into(),
                topic: topic.clone(),
                interest: Interest::default(),
                books_asked: self.books.asked_count(),
            });
            all.push(second.clone());
            second
        });
        let slot = match kind {
            Kind::Market => topic.derived.second_or_new(),
            Kind::Book => self.books.book_of(topic).second_or_new(),
            Kind::Bars(interval) => self.bars.bars_of(topic, interval).second_or_new(),
        };
        if !slot.is(&second) {
            // Any lane may have subscribers, such as those of a prefix.
            bits(self.lanes).for_each(|lane| second.interest.add(lane));
            let is_right = || {
                let name = self.second_name(topic, &topic.facts().venue_name);
                name.is_some_and(|name| name.as_bytes() == second.symbol())
            };
            slot.set(&second, is_right);
            second.tell_heard();
        }
        second
    }

    fn named(&self, channel: &[u8]) -> Option<Arc<Second>> {
        let number = self.numbers.read().get(channel).copied()?;
        self.second_of(number)
    }

    fn second_of(&self, number: u32) -> Option<Arc<Second>> {
        self.all.read().get(number as usize).cloned()
    }
}

impl TopicSource for Seconds {
    fn topic(&self, number: u32) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.second_of(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        match channel.contains(&(VENUE_SEPARATOR as u8)) {
            true => Some(self.named(channel)?),
            false => None,
        }
    }

    fn prefix(&self) -> &[u8] {
        b""
    }

    fn owns(&self, _channel: &[u8]) -> bool {
        false
    }

    fn count(&self) -> u32 {
        self.len() as u32
    }

    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        _asks: Matches<'_>,
        found: &mut Vec<Arc<dyn fanout::Topic>>,
    ) {
        let is_wanted = |second: &Second| wanted(&second.channel) && !second.is_over(&self.board);
        fanout::append_matching(&self.all.read(), numbers, is_wanted, found);
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let second = self.second_of(number)?;
        let (symbol, topic) = self.board.standing_for(second.symbol())?;
        match second.kind {
            Kind::Market => self.board.write_as(&topic, symbol, snapshot, out),
            Kind::Book => self.books.write_as(&topic, symbol, snapshot, out),
            Kind::Bars(interval) => self.bars.write_as(&topic, interval, symbol, snapshot, out),
        }
    }

    fn second(&self, literal: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.ask(literal, false)?)
    }

    fn want(&self, name: &[u8], is_prefix: bool) {
        // The symbol may have got its venue before the subscription was counted.
        if !is_prefix {
            self.prepare(name, true);
        }
    }

    fn prepare(&self, literal: &[u8], is_channel: bool) {
        if is_channel {
            let _ = self.ask(literal, true);
        }
    }
}
