//! Price levels of market topics: `book:` topics and TIDEWIRE.BOOK.
//!
//! A book is kept for each topic whose source sends [`Level`] messages. Sources that build books
//! themselves send levels only while a client wants them ([`Books::wanted`]).

mod book;
mod state;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tidewire_fanout as fanout;
use tidewire_fanout::{Matches, Origin, Publication, Subscriptions, TopicId, TopicSource};

use crate::board::{Board, staleness};
use crate::derived::{DerivedTopic, Hold};
use crate::seconds::Second;
use crate::topic::Topic;

pub use book::BookLevel;
pub(crate) use book::{Ladders, Outcome};
pub(crate) use state::BookState;
pub use state::{BookView, DEPTH_ALL};

/// Prefix of the channels of price levels.
pub const BOOK_PREFIX: &[u8] = b"book:";

/// The price levels of one market topic.
pub(crate) type BookTopic = DerivedTopic<BookState>;

/// All `book:` topics. A topic exists once a client has asked for it by its name or by a pattern
/// that begins with [`BOOK_PREFIX`], or once its source has sent levels.
#[derive(Debug)]
pub struct Books {
    board: Arc<Board>,
    lanes: u64,
    existing: RwLock<Vec<Arc<BookTopic>>>,
    /// Grows whenever a client asks for a topic, or inputs have to look again for other reasons.
    asked: Arc<AtomicU64>,
    /// Whether subscriptions may match topics of symbols that are not defined yet.
    awaits_symbols: AtomicBool,
}

impl Books {
    /// Creates the books of the board's topics, for the lanes of `lanes` (one bit each).
    pub(crate) fn new(board: Arc<Board>, lanes: u64) -> Self {
        Self {
            board,
            lanes,
            existing: RwLock::default(),
            asked: Arc::default(),
            awaits_symbols: AtomicBool::new(false),
        }
    }

    /// Returns a symbol's book with up to `levels` levels on each side; `None` for an unknown
    /// symbol. The book is wanted for a minute from `unix_ns` on.
    pub fn read(&self, symbol: &[u8], levels: usize, unix_ns: u64) -> Option<BookView> {
        let topic = self.board.find(symbol)?;
        let book = self.book_of(&topic);
        book.want_until(unix_ns.saturating_add(READ_WANTED_NS));
        let stale = self.staleness(topic.number);
        let view = book.state.lock().view(levels, stale);
        Some(view)
    }

    /// Wants a topic's book until the result is dropped.
    pub(crate) fn hold(&self, topic: &Topic) -> Hold<BookState> {
        self.book_of(topic).hold()
    }

    /// Notes that the levels of `book`, which was of one venue, go to `own` from now on, that of
    /// the venue alone. A client that has read it may have done so under the venue's name.
    pub(crate) fn goes_on(&self, book: &BookTopic, own: &BookTopic) {
        own.want_as(book);
        self.look_again();
    }

    /// Makes the inputs look again for the books that clients want: levels of a symbol go to
    /// another topic.
    pub(crate) fn look_again(&self) {
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of times that clients have asked for topics, or inputs have to look
    /// again.
    #[inline]
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns whether any client wants a topic's book at `unix_ns`.
    pub(crate) fn is_wanted(&self, topic: &Topic, unix_ns: u64) -> bool {
        let book = topic.derived.book();
        book.is_some_and(|book| book.is_wanted(unix_ns))
    }

    /// Returns the number of topics that exist.
    pub fn len(&self) -> usize {
        self.existing.read().len()
    }

    /// Returns whether no topic exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the book of a topic, and makes it if there is none.
    pub(crate) fn book_of<'a>(&self, topic: &'a Topic) -> &'a Arc<BookTopic> {
        topic.derived.book_or(|| {
            let id = TopicId::Book(topic.number);
            let (symbol, asked) = (topic.symbol(), self.asked.clone());
            let state = BookState::default();
            let book = BookTopic::new(id, BOOK_PREFIX, symbol, self.lanes, asked, state);
            let book = Arc::new(book);
            self.existing.write().push(book.clone());
            book
        })
    }

    /// Makes the book of a topic that has just been defined, if a subscription matches it.
    pub(crate) fn defined(&self, topic: &Topic, subscriptions: &Subscriptions) {
        if !self.awaits_symbols.load(Ordering::Acquire) || topic.derived.book().is_some() {
            return;
        }
        let channel = [BOOK_PREFIX, topic.symbol()].concat();
        if subscriptions.route(&channel).lanes != 0 {
            self.book_of(topic);
            self.look_again();
        }
    }

    /// Returns the field `stale` of a topic.
    pub(crate) fn staleness(&self, number: u32) -> u64 {
        let value = self.board.value(number);
        value.map_or(0, |value| staleness(&value))
    }

    /// Returns the number that grows whenever a client asks for a topic.
    pub(crate) fn asked_count(&self) -> Arc<AtomicU64> {
        self.asked.clone()
    }

    /// Does what [`TopicSource::write`] does, under a name of the symbol.
    pub(crate) fn write_as(
        &self,
        topic: &Topic,
        symbol: &[u8],
        snapshot: bool,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        self.write_book(topic.derived.book()?, topic.number, symbol, snapshot, out)
    }

    fn existing_book(&self, number: u32) -> Option<Arc<BookTopic>> {
        self.board.topic(number)?.derived.book().cloned()
    }

    /// Writes a book of the topic with this number under a name of a symbol.
    fn write_book(
        &self,
        book: &BookTopic,
        number: u32,
        symbol: &[u8],
        snapshot: bool,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let mut state = book.state.lock();
        // Under the lock: what changes it later is told.
        let stale = self.staleness(number);
        state.note_staleness(stale);
        // Nothing is shown of a book that has never been known.
        let version = state.version();
        if version == 0 {
            return None;
        }
        if state.is_long() {
            // Its text takes milliseconds, and its source must not wait for that.
            let copy = state.told();
            drop(state);
            copy.write_json(out, symbol, snapshot, stale);
        } else {
            state.write_json(out, symbol, snapshot, stale);
        }
        Some(version)
    }
}

impl BookTopic {
    /// Publishes the last change of the book, whose state is locked.
    pub(crate) fn publish(&self, state: &BookState, stale: u64, publication: &mut Publication) {
        let names = (self.name(), self.symbol());
        publish_as(names, self.topic_id(), state, stale, publication);
    }

    /// Publishes it under the second name.
    pub(crate) fn publish_second(
        second: &Second,
        state: &BookState,
        stale: u64,
        publication: &mut Publication,
    ) {
        let names = (second.name(), second.symbol());
        publish_as(names, second.topic_id(), state, stale, publication);
        // Each change counts.
        publication.finalize();
    }
}

/// Publishes the last change of a book under a channel's name and its symbol's. Subscribers are
/// owed a long book: events can replace it faster than a lane can write it.
fn publish_as(
    (channel, symbol): (&[u8], &[u8]),
    id: TopicId,
    state: &BookState,
    stale: u64,
    publication: &mut Publication,
) {
    if state.is_owed() {
        return publication.push_owed(channel, id, state.version());
    }
    publication.push_with(channel, Origin::Topic(id), state.version(), |out| {
        state.write_json(out, symbol, false, stale);
    });
}

impl TopicSource for Books {
    fn topic(&self, number: u32) -> Option<Arc<dyn fanout::Topic>> {
        Some(self.existing_book(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn fanout::Topic>> {
        let symbol = std::str::from_utf8(channel.strip_prefix(BOOK_PREFIX)?).ok()?;
        // The second name of a symbol's book is no topic.
        Some(self.board.named(symbol)?.derived.book()?.clone())
    }

    fn prefix(&self) -> &[u8] {
        BOOK_PREFIX
    }

    fn count(&self) -> u32 {
        match self.is_empty() && !self.awaits_symbols.load(Ordering::Acquire) {
            true => 0,
            false => self.board.count(),
        }
    }

    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        asks: Matches<'_>,
        found: &mut Vec<Arc<dyn fanout::Topic>>,
    ) {
        let mut channel = BOOK_PREFIX.to_vec();
        for topic in numbers.filter_map(|number| self.board.topic(number)) {
            channel.truncate(BOOK_PREFIX.len());
            channel.extend_from_slice(topic.symbol());
            let book = match topic.derived.book() {
                Some(book) if wanted(&channel) => book,
                None if asks(&channel) => self.book_of(&topic),
                _ => continue,
            };
            debug_assert_eq!(book.name(), channel, "a book has its symbol's name");
            found.push(book.clone());
        }
    }

    fn makes_topics(&self) -> bool {
        true
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let book = self.existing_book(number)?;
        self.write_book(&book, number, book.symbol(), snapshot, out)
    }

    fn want(&self, name: &[u8], is_prefix: bool) {
        // The symbol may have been defined before the subscription was counted.
        if !is_prefix {
            self.prepare(name, true);
        }
    }

    fn prepare(&self, literal: &[u8], is_channel: bool) {
        let Some(symbol) = literal.strip_prefix(BOOK_PREFIX) else {
            return;
        };
        // Before the look: a symbol that is defined meanwhile is found here or there.
        self.awaits_symbols.store(true, Ordering::SeqCst);
        if !is_channel {
            return;
        }
        if let Some(topic) = self.board.find(symbol) {
            self.book_of(&topic);
        }
    }
}

/// How long a book that was read once is wanted.
const READ_WANTED_NS: u64 = 60_000_000_000;
