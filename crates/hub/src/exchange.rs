//! A simulated exchange on a lane: a seeded market, paced by schedule, published as any source is.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidewire_feed::client::Sink;
use tidewire_feed::simulation::{Market, Schedule, SimulationConfig, Tick};
use tidewire_feed::wire::{Definition, Message, Name, UNDEFINED_PRICE};

use crate::hub::Hub;
use crate::ingest::Ingest;
use crate::publication::Publication;

/// How an exchange trades.
#[derive(Debug)]
pub struct ExchangeConfig {
    /// Its market.
    pub simulation: SimulationConfig,
    /// Messages a second.
    pub rate: NonZeroU64,
    /// Messages in all; `None` without end.
    pub messages_max: Option<u64>,
    /// Shortest time between two turns: several messages are sent together when they come closer.
    pub quantum_ns: u64,
}

/// What an exchange has done.
#[derive(Debug, Default)]
pub struct ExchangeCounters {
    /// Messages published.
    pub published: AtomicU64,
    /// How late the newest message was against its schedule, ns.
    pub behind_ns: AtomicU64,
    stopped: AtomicBool,
}

impl ExchangeCounters {
    /// Ends trading; what has been published is still served.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}

/// A simulated exchange.
#[derive(Debug)]
pub struct Exchange {
    market: Market,
    ingest: Ingest,
    rate: NonZeroU64,
    messages_max: u64,
    quantum_ns: u64,
    /// From the first turn on.
    running: Option<Running>,
    counters: Arc<ExchangeCounters>,
}

#[derive(Debug)]
struct Running {
    schedule: Schedule,
    /// Wall clock minus monotonic clock at the start: source times follow the schedule, not the
    /// moment of sending, so that a late message shows as late.
    unix_offset_ns: u64,
}

impl Exchange {
    /// An exchange that publishes into `hub`.
    pub fn new(hub: Arc<Hub>, config: ExchangeConfig, counters: Arc<ExchangeCounters>) -> Self {
        let source = hub.next_source_number() as u32;
        Self {
            market: Market::new(config.simulation),
            ingest: Ingest::new(hub, source),
            rate: config.rate,
            messages_max: config.messages_max.unwrap_or(u64::MAX),
            quantum_ns: config.quantum_ns,
            running: None,
            counters,
        }
    }

    /// Publishes what is due; returns the news, and when the next turn is wanted (monotonic ns).
    pub(crate) fn turn(&mut self, now_ns: u64, unix_ns: u64) -> ((Publication, u64), Option<u64>) {
        if self.running.is_none() {
            return (self.open(now_ns, unix_ns), Some(now_ns));
        }
        if self.counters.stopped.load(Ordering::Acquire) {
            return Default::default();
        }
        let Self {
            market,
            ingest,
            running,
            counters,
            ..
        } = self;
        let Some(Running {
            schedule,
            unix_offset_ns,
        }) = running
        else {
            return Default::default();
        };
        let left = self.messages_max - schedule.number();
        let count = schedule.due(now_ns).min(TURN_MESSAGES_MAX).min(left);
        let mut batch = ingest.begin(unix_ns);
        for number in schedule.number()..schedule.number() + count {
            let source_time_ns = schedule.time_ns(number) + *unix_offset_ns;
            let message = match market.next(source_time_ns) {
                Tick::Quote(quote) => Message::Quote(quote),
                Tick::Trade(trade) => Message::Trade(trade),
            };
            batch.message(number + 1, &message);
        }
        schedule.sent(count);
        counters.published.fetch_add(count, Ordering::Relaxed);
        let next_ns = schedule.next_ns();
        counters
            .behind_ns
            .store(now_ns.saturating_sub(next_ns), Ordering::Relaxed);
        let deadline_ns = (count < left).then(|| next_ns.max(now_ns + self.quantum_ns));
        let late = next_ns <= now_ns;
        (
            batch.finish(),
            deadline_ns.map(|deadline_ns| if late { now_ns } else { deadline_ns }),
        )
    }

    /// Defines the symbols and publishes their opening quotes.
    fn open(&mut self, now_ns: u64, unix_ns: u64) -> (Publication, u64) {
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
            };
            batch.definition(0, &definition);
        }
        let news = batch.finish();
        let schedule = Schedule::new(now_ns, self.rate);
        self.running = Some(Running {
            schedule,
            unix_offset_ns: unix_ns - now_ns,
        });
        news
    }
}

/// Messages published in one turn, so that a lane that was held up still serves its clients.
const TURN_MESSAGES_MAX: u64 = 8_192;
