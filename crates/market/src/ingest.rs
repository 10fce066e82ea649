//! Applies a feed's messages in one pass: last values, the hub's own feed, and publications.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tidewire_feed::client::{Client, Gap, Sink};
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{Definition, LastValue, Login, Message, TradingState};
use tidewire_lastvalue::{
    ClaimError, FLAG_HALTED, FLAG_STALE, LATENCY_MAX_NS, LatencyRecorder, MarketSlot, MarketValue,
    PRICE_UNDEFINED, Quote, Stamp, Trade, Writer,
};
use tracing::{debug, warn};

use crate::board::write_json;
use crate::market::Market;
use crate::publishers::ParkedPublisher;
use crate::symbols::SymbolMap;
use tidewire_fanout::TopicId;
use tidewire_fanout::{Origin, Publication};

/// The ingest of one source, which owns its topics until it ends.
#[derive(Debug)]
pub(crate) struct Ingest {
    market: Arc<Market>,
    source: u32,
    writer: Writer,
    symbols: SymbolMap,
    /// Topics updated in this batch that seemed to have no subscriber.
    unheard: Vec<u32>,
    /// Whether messages were lost. Topics are then stale until their own records arrive, or until
    /// the source confirms that they are right.
    doubtful: bool,
    generation: u64,
    /// Created with the first message: a feed client that only reads needs none.
    latency: Option<LatencyRecorder>,
}

/// Counters of ingest since the start, over all sources.
#[derive(Debug, Default)]
pub struct IngestCounters {
    /// Feed messages applied to last values.
    pub applied: AtomicU64,
    /// Snapshot records applied.
    pub snapshot_records: AtomicU64,
    /// Messages whose symbol was not defined or belongs to another source.
    pub refused: AtomicU64,
    /// Gaps in the sequences.
    pub gaps: AtomicU64,
    /// Missing messages that arrived later.
    pub recovered: AtomicU64,
    /// Messages lost for good.
    pub lost: AtomicU64,
    /// Connected feeds, as source or publisher.
    pub sources: AtomicU64,
    /// Numbers of the configured sources that currently answer.
    pub(crate) standing: Mutex<BTreeSet<usize>>,
}

/// Ingest of the messages of one receive call. It holds the journal's lock for that time.
pub(crate) struct Batch<'a> {
    market: &'a Market,
    source: u32,
    writer: &'a mut Writer,
    symbols: &'a mut SymbolMap,
    unheard: &'a mut Vec<u32>,
    doubtful: &'a mut bool,
    /// Topics marked stale in this batch because of a loss, and not yet published: their values may
    /// be right again at its end.
    marked: Vec<u32>,
    generation: &'a mut u64,
    latency: &'a mut Option<LatencyRecorder>,
    journal: MutexGuard<'a, Journal>,
    publication: Publication,
    lanes: u64,
    receive_time_ns: u64,
    applied: u64,
}

impl Ingest {
    pub(crate) fn new(market: Arc<Market>, source: u32) -> Self {
        Self {
            writer: market.board.slots().writer(source),
            latency: None,
            generation: market.post.subscriptions.generation().now(),
            source,
            symbols: SymbolMap::default(),
            unheard: Vec::new(),
            doubtful: false,
            market,
        }
    }

    /// Begins a batch received at `receive_time_ns` (UNIX epoch).
    pub(crate) fn begin(&mut self, receive_time_ns: u64) -> Batch<'_> {
        let Self {
            market,
            source,
            writer,
            symbols,
            unheard,
            doubtful,
            generation,
            latency,
        } = self;
        unheard.clear();
        Batch {
            journal: market.journal.lock(),
            market,
            source: *source,
            writer,
            symbols,
            unheard,
            doubtful,
            marked: Vec::new(),
            generation,
            latency,
            publication: Publication::default(),
            lanes: 0,
            receive_time_ns,
            applied: 0,
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

    /// Takes the source's symbols, to keep them for its next connection.
    pub(crate) fn take_symbols(&mut self) -> SymbolMap {
        std::mem::take(&mut self.symbols)
    }

    /// Marks the topics of a source that has ended or was lost. Returns the publication.
    pub(crate) fn lose(&mut self, receive_time_ns: u64) -> (Publication, u64) {
        let mut batch = self.begin(receive_time_ns);
        batch.mark_stale(true);
        batch.finish()
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if self.latency.is_some() {
            self.market.ingest.sources.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Batch<'_> {
    /// Ends the batch. Returns the publication and the lanes it is for (one bit each).
    pub(crate) fn finish(mut self) -> (Publication, u64) {
        for number in std::mem::take(&mut self.marked) {
            if self.is_stale(number) {
                self.publish_current(number);
            }
        }
        let next = self.journal.next_sequence();
        debug_assert!(
            self.market.journal_next.load(Ordering::Relaxed) <= next,
            "the journal only grows, and its copy is written under its lock"
        );
        self.market.journal_next.store(next, Ordering::Release);
        self.hear_late_subscribers();
        self.market
            .ingest
            .applied
            .fetch_add(self.applied, Ordering::Relaxed);
        debug_assert_eq!(
            self.publication.is_empty(),
            self.lanes == 0,
            "a publication has a lane to go to"
        );
        (self.publication, self.lanes)
    }

    /// Publishes values whose topic got a subscriber between the store of the value and the check
    /// of its interest. [`tidewire_fanout::Generation`] has the proof.
    fn hear_late_subscribers(&mut self) {
        let generation = self.market.post.subscriptions.generation();
        if !generation.has_changed(self.generation) {
            return;
        }
        let mut unheard = std::mem::take(self.unheard);
        unheard.sort_unstable();
        unheard.dedup();
        for number in unheard {
            self.publish_current(number);
        }
    }

    /// Marks all topics of the source as stale, or as current again.
    pub(crate) fn mark_stale(&mut self, stale: bool) {
        let (set, clear) = if stale {
            (FLAG_STALE, 0)
        } else {
            (0, FLAG_STALE)
        };
        debug_assert_eq!(set & clear, 0, "a flag is set or cleared");
        for number in self.writer.claimed().to_vec() {
            if let Some(mut slot) = self.writer.slot(number) {
                slot.update_flags(set, clear);
            }
            self.publish_current(number);
        }
    }

    /// Marks the topics of the source as current again, unless messages are missing.
    pub(crate) fn revive(&mut self) {
        if !*self.doubtful {
            self.mark_stale(false);
        }
    }

    fn is_stale(&self, number: u32) -> bool {
        let value = self.market.board.value(number);
        value.is_some_and(|value| value.flags & FLAG_STALE != 0)
    }

    fn publish_current(&mut self, number: u32) {
        let (Some(topic), Some(value)) = (
            self.market.board.topic(number),
            self.market.board.value(number),
        ) else {
            return;
        };
        let interest = topic.interest();
        if interest == 0 {
            self.unheard.push(number);
            return;
        }
        self.lanes |= interest;
        self.publication.push_with(
            &topic.channel,
            Origin::Topic(TopicId::Market(number)),
            value.updates,
            |out| {
                write_json(out, topic.symbol(), &value, false);
            },
        );
    }

    fn update(&mut self, message: &Message) {
        let symbol = message.symbol().unwrap_or(u32::MAX);
        let Some(topic) = self.symbols.get(symbol) else {
            self.market.ingest.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let number = topic.number;
        let Some(mut slot) = self.writer.slot(number) else {
            return;
        };
        debug_assert!(
            self.market
                .board
                .topic(number)
                .is_some_and(|own| Arc::ptr_eq(&own, topic)),
            "a symbol maps to a topic of the board"
        );
        let mut stamp = Stamp {
            source_time_ns: 0,
            receive_time_ns: self.receive_time_ns,
            sequence: 0,
        };
        match message {
            Message::Quote(quote) => {
                stamp.source_time_ns = quote.source_time_ns;
                stamp.sequence = self
                    .journal
                    .append(&Message::Quote(renumbered(*quote, |q| q.symbol = number)));
                let (bid, ask) = (quote.bid, quote.ask);
                let (bid_size, ask_size) = (quote.bid_size, quote.ask_size);
                slot.update_quote(
                    Quote {
                        bid,
                        ask,
                        bid_size,
                        ask_size,
                    },
                    stamp,
                );
            }
            Message::Trade(trade) => {
                stamp.source_time_ns = trade.source_time_ns;
                stamp.sequence = self
                    .journal
                    .append(&Message::Trade(renumbered(*trade, |t| t.symbol = number)));
                slot.update_trade(
                    Trade {
                        price: trade.price,
                        size: trade.size,
                    },
                    stamp,
                );
            }
            Message::Status(status) => {
                stamp.source_time_ns = status.source_time_ns;
                stamp.sequence = self
                    .journal
                    .append(&Message::Status(renumbered(*status, |s| s.symbol = number)));
                slot.update_status(status.state.0.into(), stamp);
                let halted = status.state == TradingState::HALTED;
                let (set, clear) = if halted {
                    (FLAG_HALTED, 0)
                } else {
                    (0, FLAG_HALTED)
                };
                slot.update_flags(set, clear);
            }
            Message::LastValue(value) => {
                stamp.source_time_ns = value.source_time_ns;
                stamp.sequence = self
                    .journal
                    .append(&Message::LastValue(renumbered(*value, |v| {
                        v.symbol = number
                    })));
                slot.replace(&market_value(value, stamp));
            }
            _ => return,
        }
        self.applied += 1;
        let latency_ns = self.receive_time_ns.saturating_sub(stamp.source_time_ns);
        // A message older than a minute is replayed history and not latency.
        let latency = recorder(self.market, self.latency);
        if latency_ns < LATENCY_MAX_NS {
            latency.record(latency_ns);
        }
        let interest = topic.interest();
        if interest == 0 {
            self.unheard.push(number);
            return;
        }
        self.lanes |= interest;
        let slots = self.market.board.slots();
        if let Some(value) = slots.slot(number).map(MarketSlot::snapshot) {
            self.publication.push_with(
                &topic.channel,
                Origin::Topic(TopicId::Market(number)),
                value.updates,
                |out| {
                    write_json(out, topic.symbol(), &value, false);
                },
            );
        }
    }
}

impl Sink for Batch<'_> {
    #[inline]
    fn message(&mut self, _sequence: u64, message: &Message) {
        self.update(message);
    }

    #[inline]
    fn expect_symbol(&self, symbol: u32) {
        if let Some(topic) = self.symbols.get(symbol)
            && let Some(slot) = self.market.board.slots().slot(topic.number)
        {
            slot.touch();
        }
    }

    fn definition(&mut self, _sequence: u64, definition: &Definition) {
        let symbol = definition.symbol;
        // The symbol's earlier meaning ends in any case.
        if self.symbols.set(symbol, None).is_err() || definition.name.is_empty() {
            self.market.ingest.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Ok(topic) = self.market.board.define(definition) else {
            warn!(symbol = %definition.name.as_str(), "symbol refused: market-topics-max is reached");
            return;
        };
        match self.writer.claim(topic.number) {
            Ok(()) => {}
            Err(ClaimError::Owned { .. }) => {
                let source = self.source;
                warn!(symbol = %definition.name.as_str(), source, "symbol refused: another source owns it");
                return;
            }
            Err(error) => {
                debug!(%error, "left out");
                return;
            }
        }
        topic.redefine(definition);
        if let Some(mut slot) = self.writer.slot(topic.number) {
            let value = self
                .market
                .board
                .value(topic.number)
                .unwrap_or(MarketValue::EMPTY);
            if value.flags & FLAG_STALE != 0 && !*self.doubtful {
                slot.update_flags(0, FLAG_STALE);
            }
            if definition.open != PRICE_UNDEFINED && definition.open != value.session_open {
                let stamp = Stamp {
                    source_time_ns: definition.source_time_ns,
                    receive_time_ns: self.receive_time_ns,
                    sequence: value.sequence,
                };
                slot.start_session(definition.open, stamp);
            }
        }
        let sequence = self
            .journal
            .append(&Message::Definition(topic.definition()));
        debug_assert_eq!(
            topic.definition().symbol,
            topic.number,
            "the hub's own number"
        );
        topic.defined_at(sequence);
        let _ = self.symbols.set(symbol, Some(topic));
    }

    /// Symbol numbers belong to one session. The old ones are void, and a topic is stale until the
    /// new session defines it.
    fn session_changed(&mut self, old: u32, new: u32) {
        debug!(
            source = self.source,
            old, new, "the feed began another session"
        );
        *self.symbols = SymbolMap::default();
        self.mark_stale(true);
    }

    fn values_doubtful(&mut self) {
        *self.doubtful = true;
        for number in self.writer.claimed().to_vec() {
            if !self.is_stale(number)
                && let Some(mut slot) = self.writer.slot(number)
            {
                slot.update_flags(FLAG_STALE, 0);
                self.marked.push(number);
            }
        }
    }

    fn values_right(&mut self) {
        *self.doubtful = false;
        let mut untold = std::mem::take(&mut self.marked);
        untold.sort_unstable();
        let numbers: Vec<u32> = self.symbols.iter().map(|topic| topic.number).collect();
        for number in numbers {
            if !self.is_stale(number) {
                continue;
            }
            if let Some(mut slot) = self.writer.slot(number) {
                slot.update_flags(0, FLAG_STALE);
            }
            if untold.binary_search(&number).is_err() {
                self.publish_current(number);
            }
        }
    }

    fn publisher_login(&mut self, login: &Login) -> Option<Box<Client>> {
        let ParkedPublisher {
            receiver,
            mut symbols,
        } = self.market.publishers.unpark(login.session)?;
        // Another source may have claimed a topic meanwhile.
        symbols.retain(|topic| self.writer.claim(topic.number).is_ok());
        *self.symbols = symbols;
        self.mark_stale(false);
        Some(receiver)
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.market
            .ingest
            .snapshot_records
            .fetch_add(1, Ordering::Relaxed);
        let applied = self.applied;
        self.update(&Message::LastValue(*record));
        // Counted separately: a snapshot repeats earlier messages.
        self.applied = applied;
    }

    fn gap(&mut self, gap: Gap) {
        let counters = &self.market.ingest;
        match gap {
            Gap::Opened { from, count } => {
                counters.gaps.fetch_add(1, Ordering::Relaxed);
                debug!(source = self.source, from, count, "a gap in the feed");
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
                warn!(
                    source = self.source,
                    from,
                    count,
                    ?reason,
                    "messages of the feed are lost"
                );
            }
            _ => {}
        }
    }
}

/// Returns the source's latency recorder. With its first message the source counts as connected.
#[inline]
fn recorder<'a>(
    market: &Market,
    latency: &'a mut Option<LatencyRecorder>,
) -> &'a mut LatencyRecorder {
    latency.get_or_insert_with(|| {
        market.ingest.sources.fetch_add(1, Ordering::Relaxed);
        market.latency.recorder()
    })
}

/// Returns a copy of a message with the hub's own symbol number.
#[inline]
fn renumbered<T>(mut message: T, set: impl FnOnce(&mut T)) -> T {
    set(&mut message);
    message
}

fn market_value(value: &LastValue, stamp: Stamp) -> MarketValue {
    MarketValue {
        bid: value.bid,
        ask: value.ask,
        bid_size: value.bid_size,
        ask_size: value.ask_size,
        last: value.last,
        last_size: value.last_size,
        volume: value.volume,
        session_open: value.open,
        status: value.state.0.into(),
        flags: match value.state {
            TradingState::HALTED => FLAG_HALTED,
            _ => 0,
        },
        source_time_ns: stamp.source_time_ns,
        receive_time_ns: stamp.receive_time_ns,
        sequence: stamp.sequence,
        ..MarketValue::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::MarketConfig;
    use tidewire_fanout::Kind;
    use tidewire_fanout::Topic as _;
    use tidewire_feed::wire::{Name, Trade as TradeMessage};

    fn names(news: &(Publication, u64)) -> Vec<Vec<u8>> {
        news.0.news().map(|news| news.name.to_vec()).collect()
    }

    fn definition(symbol: u32, name: &str) -> Definition {
        Definition {
            symbol,
            source: 0,
            source_time_ns: 0,
            open: PRICE_UNDEFINED,
            price_tick: PRICE_UNDEFINED,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new(name).unwrap(),
        }
    }

    #[test]
    fn who_subscribes_while_a_batch_runs_gets_its_update_once() {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1);
        let mut batch = ingest.begin(1);
        batch.definition(1, &definition(5, "A"));
        batch.finish();
        let topic = market.board.find(b"A").unwrap();
        topic.clear_interest(0);
        let trade = Message::Trade(TradeMessage {
            symbol: 5,
            price: 1_000_000_000,
            size: 1,
            ..TradeMessage::default()
        });
        let mut batch = ingest.begin(2);
        batch.message(2, &trade);
        batch.message(3, &trade);
        assert!(names(&batch.finish()).is_empty(), "there is no subscriber");
        let mut batch = ingest.begin(3);
        batch.message(4, &trade);
        batch.message(5, &trade);
        topic.add_interest(0);
        market.post.subscriptions.add(0, Kind::Channel, b"md:A");
        let news = batch.finish();
        assert_eq!((names(&news), news.1), (vec![b"md:A".to_vec()], 1));
        // A topic that the batch did not change has nothing to publish.
        market.post.subscriptions.add(0, Kind::Channel, b"other");
        assert!(names(&ingest.begin(4).finish()).is_empty());
    }

    #[test]
    fn a_new_session_leaves_its_topics_stale_until_it_defines_them() {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1);
        let mut batch = ingest.begin(1);
        batch.definition(1, &definition(0, "A"));
        batch.definition(2, &definition(1, "B"));
        batch.session_changed(7, 8);
        batch.definition(1, &definition(1, "A"));
        batch.finish();
        let flags = |number| market.board.value(number).unwrap().flags & FLAG_STALE;
        assert_eq!((flags(0), flags(1)), (0, FLAG_STALE));
        assert!(
            ingest.symbols.get(0).is_none(),
            "numbers are the session's own"
        );
        assert_eq!(ingest.symbols.get(1).unwrap().number, 0);
    }

    #[test]
    fn after_a_loss_each_topic_is_stale_until_its_own_record_and_only_the_rest_is_told() {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut ingest = Ingest::new(market.clone(), 1);
        let mut batch = ingest.begin(1);
        for (symbol, name) in [(0, "A"), (1, "B"), (2, "C")] {
            batch.definition(1, &definition(symbol, name));
        }
        batch.finish();
        let stale =
            || [0, 1, 2].map(|number| market.board.value(number).unwrap().flags & FLAG_STALE);
        let mut batch = ingest.begin(2);
        batch.values_doubtful();
        batch.snapshot_record(5, &LastValue::new(0));
        let told = names(&batch.finish());
        assert_eq!(stale(), [0, FLAG_STALE, FLAG_STALE]);
        assert_eq!(told, [b"md:A".to_vec(), b"md:B".to_vec(), b"md:C".to_vec()]);
        let mut batch = ingest.begin(3);
        batch.definition(0, &definition(1, "B"));
        batch.revive();
        assert_eq!(stale(), [0, FLAG_STALE, FLAG_STALE], "no value has come");
        batch.snapshot_record(5, &LastValue::new(1));
        batch.values_right();
        assert_eq!(names(&batch.finish()), [b"md:B".to_vec(), b"md:C".to_vec()]);
        assert_eq!(stale(), [0; 3]);

        let mut batch = ingest.begin(4);
        batch.values_doubtful();
        batch.snapshot_record(9, &LastValue::new(2));
        batch.values_right();
        assert_eq!(
            names(&batch.finish()),
            [b"md:C".to_vec()],
            "all of it came at once"
        );
        assert_eq!(stale(), [0; 3]);
    }
}

/// Models every order in which a source's batch and a new subscriber can meet. `cargo xtask test`
/// runs it.
#[cfg(all(loom, test))]
mod model {
    use tidewire_fanout::{Kind, Topic as _};
    use tidewire_feed::wire::{Name, Trade as TradeMessage};

    use super::*;
    use crate::market::MarketConfig;

    fn market() -> Arc<Market> {
        Market::of_one_lane(MarketConfig {
            topics_max: 1,
            journal_messages: 8,
            ..MarketConfig::default()
        })
    }

    /// Returns a source whose symbol 0 is the topic `md:A`.
    fn source(market: &Arc<Market>) -> Ingest {
        let mut ingest = Ingest::new(market.clone(), 1);
        let mut batch = ingest.begin(1);
        let definition = Definition {
            symbol: 0,
            source: 0,
            source_time_ns: 0,
            open: PRICE_UNDEFINED,
            price_tick: PRICE_UNDEFINED,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new("A").unwrap(),
        };
        batch.definition(1, &definition);
        batch.finish();
        ingest
    }

    /// Publishes a batch of one trade. Returns the newest state that it has published.
    fn publish(ingest: &mut Ingest) -> u64 {
        let mut batch = ingest.begin(2);
        let trade = TradeMessage {
            symbol: 0,
            price: 1_000_000_000,
            size: 1,
            ..TradeMessage::default()
        };
        batch.message(2, &Message::Trade(trade));
        let (publication, lanes) = batch.finish();
        let versions = publication.news().map(|news| news.version);
        let newest = versions.max().unwrap_or(0);
        assert_eq!(
            newest > 0,
            lanes == 1,
            "publications go to the lane with subscribers"
        );
        newest
    }

    #[test]
    fn no_trade_falls_between_the_first_value_and_the_news() {
        let mut orders = loom::model::Builder::new();
        orders.preemption_bound = Some(2);
        orders.check(|| {
            let market = market();
            let mut ingest = source(&market);
            let topic = market.board.find(b"A").unwrap();
            topic.clear_interest(0);
            let before = market.board.value(topic.number).unwrap().updates;
            let source = loom::thread::spawn(move || publish(&mut ingest));
            topic.add_interest(0);
            market.post.subscriptions.add(0, Kind::Channel, b"md:A");
            let found = market.board.value(topic.number).unwrap().updates;
            let told = source.join().unwrap();
            let newest = before + 1;
            assert!(
                found == newest || told == newest,
                "found {found}, published {told}"
            );
        });
    }
}
