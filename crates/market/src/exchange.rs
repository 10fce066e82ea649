//! A simulated exchange on a lane: a seeded market that follows a schedule and publishes like any
//! source.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidewire_feed::client::Sink;
use tidewire_feed::simulation::{Market as SimulatedMarket, Schedule, SimulationConfig, Tick};
use tidewire_feed::wire::{Definition, Message, Name, UNDEFINED_PRICE};

use crate::ingest::Ingest;
use crate::market::Market;
use tidewire_fanout::Publication;

/// The configuration of an exchange.
#[derive(Debug)]
pub struct ExchangeConfig {
    /// The simulated market.
    pub simulation: SimulationConfig,
    /// Messages per second.
    pub rate: NonZeroU64,
    /// Total number of messages; `None` for no limit.
    pub messages_max: Option<u64>,
    /// Whether trading waits for [`ExchangeCounters::start`].
    pub paused: bool,
    /// Shortest time between two turns. Messages that are closer together are sent together.
    pub quantum_ns: u64,
}

/// The counters of an exchange.
#[derive(Debug, Default)]
pub struct ExchangeCounters {
    /// Messages published.
    pub published: AtomicU64,
    /// Delay of the newest message against its schedule, ns.
    pub behind_ns: AtomicU64,
    started: AtomicBool,
    stopped: AtomicBool,
}

impl ExchangeCounters {
    /// Starts trading on an exchange that was created paused.
    pub fn start(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// Stops trading. Published messages are still served.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}

/// A simulated exchange.
#[derive(Debug)]
pub struct Exchange {
    market: SimulatedMarket,
    ingest: Ingest,
    rate: NonZeroU64,
    messages_max: u64,
    quantum_ns: u64,
    /// Whether the symbols are defined.
    is_open: bool,
    /// Set with the first message.
    running: Option<Running>,
    counters: Arc<ExchangeCounters>,
}

#[derive(Debug)]
struct Running {
    schedule: Schedule,
    /// Wall clock minus monotonic clock at the start. Source times follow the schedule and not the
    /// time of sending, so that a late message shows as late.
    unix_offset_ns: u64,
}

impl Exchange {
    /// Creates an exchange that publishes into `market`.
    pub fn new(
        market: Arc<Market>,
        config: ExchangeConfig,
        counters: Arc<ExchangeCounters>,
    ) -> Self {
        let source = market.next_source_number() as u32;
        if !config.paused {
            counters.start();
        }
        Self {
            market: SimulatedMarket::new(config.simulation),
            ingest: Ingest::new(market, source, "simulated"),
            rate: config.rate,
            messages_max: config.messages_max.unwrap_or(u64::MAX),
            quantum_ns: config.quantum_ns,
            is_open: false,
            running: None,
            counters,
        }
    }

    /// Publishes what is due. Returns the publication and when the next turn is due (monotonic ns).
    pub fn turn(&mut self, now_ns: u64, unix_ns: u64) -> ((Publication, u64), Option<u64>) {
        let nothing = (Publication::default(), 0);
        if !self.is_open {
            self.is_open = true;
            return (self.open(unix_ns), Some(now_ns));
        }
        if self.counters.stopped.load(Ordering::Acquire) {
            return (nothing, None);
        }
        if !self.counters.started.load(Ordering::Acquire) {
            return (nothing, Some(now_ns + START_CHECK_NS));
        }
        self.trade(now_ns, unix_ns)
    }

    fn trade(&mut self, now_ns: u64, unix_ns: u64) -> ((Publication, u64), Option<u64>) {
        debug_assert!(self.is_open, "symbols are defined before they trade");
        debug_assert!(now_ns <= unix_ns, "the monotonic clock began after 1970");
        let rate = self.rate;
        let running = self.running.get_or_insert_with(|| Running {
            schedule: Schedule::new(now_ns, rate),
            // The monotonic clock began after 1970.
            unix_offset_ns: unix_ns - now_ns,
        });
        let schedule = &mut running.schedule;
        let left = self.messages_max - schedule.number();
        let count = schedule.due(now_ns).min(TURN_MESSAGES_MAX).min(left);
        let mut batch = self.ingest.begin(unix_ns);
        for number in schedule.number()..schedule.number() + count {
            let source_time_ns = schedule.time_ns(number) + running.unix_offset_ns;
            let message = match self.market.next(source_time_ns) {
                Tick::Quote(quote) => Message::Quote(quote),
                Tick::Trade(trade) => Message::Trade(trade),
            };
            batch.message(number + 1, &message);
        }
        debug_assert!(count <= left, "at most the requested number of messages");
        schedule.sent(count);
        let news = batch.finish();
        let next_ns = schedule.next_ns();
        let counters = &self.counters;
        counters.published.fetch_add(count, Ordering::Relaxed);
        let behind_ns = now_ns.saturating_sub(next_ns);
        counters.behind_ns.store(behind_ns, Ordering::Relaxed);
        if count == left {
            return (news, None);
        }
        let deadline_ns = if behind_ns > 0 {
            now_ns
        } else {
            next_ns.max(now_ns + self.quantum_ns)
        };
        (news, Some(deadline_ns))
    }

    /// Defines the symbols.
    fn open(&mut self, unix_ns: u64) -> (Publication, u64) {
        debug_assert!(
            self.running.is_none(),
            "the schedule begins with the first trade"
        );
        let mut batch = self.ingest.begin(unix_ns);
        for (symbol, spec) in (0u32..).zip(self.market.symbols().iter()) {
            let definition = Definition {
                symbol,
                source: 0,
                source_time_ns: unix_ns,
                open: spec.price,
                price_tick: UNDEFINED_PRICE,
                lot_size: 1,
                currency: [0; 4],
                name: Name::truncated(&spec.name),
                repeats: false,
            };
            batch.definition(0, &definition);
        }
        batch.finish()
    }
}

/// Interval at which a paused exchange checks whether it may begin.
const START_CHECK_NS: u64 = 1_000_000;
/// Maximum number of messages published in one turn, so that a delayed lane still serves its
/// clients.
const TURN_MESSAGES_MAX: u64 = 8_192;
