//! `simulate` runs an exchange as a native feed server; `simulate mx` runs a plant.

pub mod mx;

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidewire_feed::journal::{Cursor, Everything, PacketOptions};
use tidewire_feed::simulation::{SimulationConfig, Symbols};
use tidewire_hub::{Hub, HubConfig, Mail, port};
use tidewire_lane::{Endpoint, Lanes, Listener};
use tidewire_market::{Exchange, ExchangeConfig, ExchangeCounters, FeedSource, MarketConfig};

use crate::failure::Failure;
use crate::new_file::new_file;
use crate::options::{MarketChoice, MarketOptions, SimulateCommand, SimulateOptions};
use crate::output;
use crate::server::{POLL_INTERVAL, start_hub};
use crate::stop::Stop;
use crate::units::grouped;

/// Runs an exchange until it is told to stop or its time is over.
pub(crate) fn run(options: &SimulateOptions) -> Result<(), Failure> {
    if let Some(SimulateCommand::Mx(options)) = &options.other {
        return mx::run(options);
    }
    let stop = Stop::on_signals()?;
    let listener = Listener::bind(&options.feed, port::FEED)
        .map_err(|error| Failure::usage(format!("--feed: {error}")))?;
    let mut config = exchange_hub(&options.market)?;
    config.market.faults = options.fault;
    config.market.fault_seed = options.market.seed;
    config.market.feed_lines = options.feed_udp.clone();
    let simulated = Simulation::start(&options.market, options.messages, config, listener, false)?;
    let recorder = options
        .record
        .as_deref()
        .map(|path| Recorder::start(&simulated.hub, path))
        .transpose()?;
    println!(
        "exchange: {} messages/s of {} symbols, seed {}, on {}",
        grouped(options.market.rate),
        simulated.symbols,
        options.market.seed,
        simulated.endpoint
    );
    let end = options.duration.map(|duration| Instant::now() + duration);
    let is_over = || {
        let is_time = end.is_some_and(|end| Instant::now() >= end);
        let is_all = options
            .messages
            .is_some_and(|most| simulated.published() >= most);
        stop.is_asked() || is_time || is_all || output::is_gone()
    };
    while !is_over() {
        std::thread::sleep(POLL_INTERVAL);
        simulated.check()?;
    }
    simulated.finish();
    println!("published: {} messages", grouped(simulated.published()));
    if let Some(recorder) = recorder {
        let (messages, lost) = recorder.finish()?;
        println!(
            "recorded: {} messages, {} lost",
            grouped(messages),
            grouped(lost)
        );
    }
    simulated.stop();
    Ok(())
}

/// A running exchange.
#[derive(Debug)]
pub struct Simulation {
    pub hub: Arc<Hub>,
    lanes: Lanes<Mail>,
    counters: Arc<ExchangeCounters>,
    pub endpoint: Endpoint,
    pub symbols: usize,
}

impl Simulation {
    /// Starts an exchange. A `paused` one trades only after [`Simulation::begin`]. It ends after
    /// `messages_max` messages.
    pub(crate) fn start(
        market: &MarketOptions,
        messages_max: Option<u64>,
        config: HubConfig,
        listener: Listener,
        paused: bool,
    ) -> Result<Self, Failure> {
        let endpoint = listener.endpoint().clone();
        let symbols = read_symbols(&market.symbols)?;
        let count = symbols.len();
        let counters = Arc::new(ExchangeCounters::default());
        let exchange_config = ExchangeConfig {
            simulation: SimulationConfig {
                symbols,
                seed: market.seed,
                market: market.market.into(),
                ..SimulationConfig::default()
            },
            rate: NonZeroU64::new(market.rate).unwrap_or(NonZeroU64::MIN),
            messages_max,
            paused,
            quantum_ns: QUANTUM_NS,
        };
        let make = |hub: &Arc<Hub>| {
            Some(Exchange::new(
                hub.market.clone(),
                exchange_config,
                counters.clone(),
            ))
        };
        let (hub, lanes) = start_hub(config, "exchange", vec![listener], make)?;
        Ok(Self {
            hub,
            lanes,
            counters,
            endpoint,
            symbols: count,
        })
    }

    /// Starts an exchange in this process for a measurement: 100 symbols, at this rate, on a free
    /// port. `configure` changes the configuration of its hub.
    pub fn start_locally(
        rate: u64,
        paused: bool,
        configure: impl FnOnce(&mut HubConfig),
    ) -> Result<Self, Failure> {
        let market = MarketOptions {
            rate,
            symbols: "100".to_owned(),
            seed: 1,
            market: MarketChoice::Neutral,
        };
        let local = Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let listener = Listener::bind(&local, port::FEED)
            .map_err(|error| Failure::running(error.to_string()))?;
        let mut config = exchange_hub(&market)?;
        configure(&mut config);
        Self::start(&market, None, config, listener, paused)
    }

    /// Returns the address at which a hub reads it.
    pub fn source(&self) -> Option<FeedSource> {
        self.endpoint.tcp().map(FeedSource::of)
    }

    /// Begins trading.
    pub fn begin(&self) {
        self.counters.start();
    }

    /// Returns the number of messages published so far.
    pub fn published(&self) -> u64 {
        self.counters.published.load(Ordering::Relaxed)
    }

    /// Returns the next sequence of the exchange's feed.
    pub fn next_sequence(&self) -> u64 {
        self.hub.market.journal_next.load(Ordering::Acquire)
    }

    /// Waits until the symbols are defined.
    pub fn wait_until_open(&self) -> Result<(), Failure> {
        while (self.hub.market.board.count() as usize) < self.symbols {
            self.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        // The batch that defines them ends with the journal's lock.
        drop(self.hub.market.journal.lock());
        Ok(())
    }

    pub fn check(&self) -> Result<(), Failure> {
        if self.lanes.has_ended() {
            return Err(Failure::running("the exchange failed; see the log"));
        }
        Ok(())
    }

    /// Ends trading; clients are still served. Returns after the last message is published.
    pub fn finish(&self) {
        self.counters.stop();
        let published = || self.published();
        let mut last = published();
        // The lane notices the request in its next turn, a fraction of a millisecond later.
        loop {
            std::thread::sleep(Duration::from_millis(20));
            if published() == last {
                return;
            }
            last = published();
        }
    }

    pub fn stop(self) {
        self.lanes.stop();
    }
}

/// Returns the configuration of a hub that serves only an exchange's feed.
pub(crate) fn exchange_hub(market: &MarketOptions) -> Result<HubConfig, Failure> {
    // The window covers a few seconds at any rate, so that a client can resume after a reconnect.
    let window = (market.rate.saturating_mul(4))
        .clamp(1 << 16, 1 << 24)
        .next_power_of_two();
    Ok(HubConfig {
        market: MarketConfig {
            journal_messages: window as usize,
            ..MarketConfig::default()
        },
        ..HubConfig::default()
    })
}

fn read_symbols(text: &str) -> Result<Symbols, Failure> {
    if let Ok(count) = text.parse::<usize>() {
        if !(1..=Symbols::COUNT_MAX).contains(&count) {
            let max = Symbols::COUNT_MAX;
            return Err(Failure::usage(format!(
                "--symbols {text}: must be 1 to {max}"
            )));
        }
        return Ok(Symbols::first(count));
    }
    let csv = std::fs::read_to_string(text)
        .map_err(|error| Failure::usage(format!("--symbols: cannot read {text}: {error}")))?;
    Symbols::parse(&csv).map_err(|error| Failure::usage(format!("--symbols: {text}: {error}")))
}

/// Writes the stream to a file on a separate thread, so that a slow disk does not delay the lane.
#[derive(Debug)]
struct Recorder {
    thread: JoinHandle<std::io::Result<(u64, u64)>>,
    ended: Arc<AtomicBool>,
    path: String,
}

impl Recorder {
    fn start(hub: &Arc<Hub>, path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = new_file(path)
            .map_err(|error| Failure::usage(format!("--record: cannot write {name}: {error}")))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (hub, told) = (hub.clone(), ended.clone());
        let thread = std::thread::spawn(move || record(&hub, file, &told));
        Ok(Self {
            thread,
            ended,
            path: name,
        })
    }

    /// Writes the rest. Returns the number of messages recorded, and of those lost because the disk
    /// was too slow.
    fn finish(self) -> Result<(u64, u64), Failure> {
        self.ended.store(true, Ordering::Release);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::running(format!("--record: cannot write {}: {error}", self.path))
        };
        let result = self
            .thread
            .join()
            .map_err(|_| failed(&"the recorder has failed"))?;
        result.map_err(|error| failed(&error))
    }
}

fn record(hub: &Hub, mut file: File, ended: &AtomicBool) -> std::io::Result<(u64, u64)> {
    let mut cursor = Cursor::at(1);
    let (mut recorded, mut lost) = (0, 0);
    let mut packets = Vec::new();
    let options = PacketOptions {
        budget_bytes: RECORD_BYTES,
        ..PacketOptions::default()
    };
    loop {
        let last_round = ended.load(Ordering::Acquire);
        let journal = hub.market.journal.lock();
        let oldest = journal.oldest_sequence();
        if cursor.scanned < oldest {
            lost += oldest - cursor.scanned;
            cursor = Cursor::at(oldest);
        }
        let from = cursor.sent;
        journal.write_packets(&mut cursor, u64::MAX, &options, &Everything, &mut packets);
        drop(journal);
        recorded += cursor.sent - from;
        file.write_all(&packets)?;
        let idle = packets.is_empty();
        packets.clear();
        if idle && last_round {
            file.sync_all()?;
            return Ok((recorded, lost));
        }
        if idle {
            std::thread::sleep(RECORD_INTERVAL);
        }
    }
}

/// Messages closer together than this are sent together: five at a time at 100,000 per second.
const QUANTUM_NS: u64 = 50_000;
/// Maximum number of bytes taken from the journal at a time.
const RECORD_BYTES: usize = 1 << 20;
const RECORD_INTERVAL: Duration = Duration::from_millis(5);
