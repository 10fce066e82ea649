//! The last-value cache and the latency tracker: ns per operation.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tidewire_lastvalue::{
    BlockPool, LatencyTracker, MarketSlot, Quote, SlotTable, Stamp, SymbolTable, TagSlot, TagStamp,
    Trade,
};

use super::processor_time::Cores;
use super::report::{Setting, Spread, Table, write_run};
use super::timing::ns_an_operation;
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    json: Place<'_>,
) -> Result<(), Failure> {
    let cores = Cores::new(options.pin);
    let timer = Timer {
        samples: options.pairs,
        sample_time: Duration::from_secs_f64(options.seconds / 10.0),
    };
    let _core = cores.enter_server().map_err(failed("cannot pin"))?;
    let mut figures = vec![
        timer.figure("update_quote", Some(45.0), 8.0, &mut update_quotes()),
        timer.figure("update_trade", Some(45.0), 8.0, &mut update_trades()),
        timer.figure("snapshot (both lines)", Some(105.0), 8.0, &mut snapshots()),
        timer.figure("quote (one line)", Some(22.0), 5.0, &mut quotes()),
        timer.figure("bid", Some(22.0), 5.0, &mut bids()),
    ];
    figures.push(timer.update_beside_a_reader(cores));
    figures.push(timer.snapshot_beside_a_writer(cores));
    figures.push(timer.figure("block: take and give", Some(85.0), 10.0, &mut blocks()));
    figures.push(timer.figure(
        "block: take 400, give 400, through the pool",
        None,
        10.0,
        &mut block_batches_of(&BlockPool::new(10_000, || [0_u8; 64])),
    ));
    figures.push(timer.beside_others(
        cores,
        "block: take and give, 7 other threads at it",
        Some(480.0),
        blocks_of,
    ));
    figures.push(timer.beside_others(
        cores,
        "block: take 400, give 400, through the pool, 7 other threads at it",
        Some(480.0),
        block_batches_of,
    ));
    figures.push(timer.figure("symbol by name, of 10,000", None, 25.0, &mut symbols()?));
    figures.push(timer.figure("tag update (8 bytes)", None, 20.0, &mut tag_updates()));
    figures.push(timer.figure("latency record", Some(45.0), 10.0, &mut latency_records()));
    figures.push(timer.figure(
        "publish, and statistics of 1 M samples",
        Some(1_500_000.0),
        10_000.0,
        &mut first_statistics(),
    ));
    figures.push(timer.figure(
        "statistics of 1 M samples, again",
        Some(1_500_000.0),
        10_000.0,
        &mut statistics_again(),
    ));
    let mut table = Table::new(&["operation", "ns", "goal", "seed's claim"]);
    for figure in &figures {
        table.push(vec![
            figure.operation.to_owned(),
            figure.ns.text(1),
            format!("{}", figure.goal_ns),
            figure.seed_ns.map(|ns| ns.to_string()).unwrap_or_default(),
        ]);
    }
    println!("\nLast-value cache, one slot, one thread unless said\n");
    print!("{}", table.text());
    let run = Run {
        setting: setting.clone(),
        figures,
    };
    write_run(&run, setting, "cache", json, &[&table])
}

#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    figures: Vec<Figure>,
}

/// What one operation takes.
#[derive(Debug, Serialize)]
struct Figure {
    operation: &'static str,
    ns: Spread,
    /// What it must not exceed.
    goal_ns: f64,
    /// What the system that the project began from claims of its own.
    seed_ns: Option<f64>,
}

struct Timer {
    samples: usize,
    sample_time: Duration,
}

impl Timer {
    fn figure(
        &self,
        operation: &'static str,
        seed_ns: Option<f64>,
        goal_ns: f64,
        batch: &mut dyn FnMut() -> u64,
    ) -> Figure {
        Figure {
            operation,
            ns: ns_an_operation(self.samples, self.sample_time, batch),
            goal_ns,
            seed_ns,
        }
    }

    fn update_beside_a_reader(&self, cores: Cores) -> Figure {
        let slot = Arc::new(MarketSlot::new());
        let read = slot.clone();
        let _other = Beside::start(cores, move || {
            black_box(read.try_snapshot());
        });
        let operation = "update_quote, another core reading all the time";
        let mut batch = update_quotes_of(slot);
        self.figure(operation, Some(45.0), 8.0, &mut batch)
    }

    /// What `make` makes of a pool, in eight threads.
    fn beside_others<B: FnMut() -> u64 + Send + 'static>(
        &self,
        cores: Cores,
        operation: &'static str,
        seed_ns: Option<f64>,
        make: fn(&Arc<BlockPool<[u8; 64]>>) -> B,
    ) -> Figure {
        let pool = BlockPool::new(10_000, || [0_u8; 64]);
        let others: Vec<Beside> = (0..7)
            .map(|_| {
                let mut batch = make(&pool);
                Beside::start(cores, move || {
                    batch();
                })
            })
            .collect();
        let figure = self.figure(operation, seed_ns, 10.0, &mut make(&pool));
        drop(others);
        figure
    }

    fn snapshot_beside_a_writer(&self, cores: Cores) -> Figure {
        let slot = Arc::new(MarketSlot::new());
        let mut write = update_quotes_of(slot.clone());
        let _other = Beside::start(cores, move || {
            write();
            // A busy symbol: some hundred thousand updates per second.
            for _ in 0..200 {
                std::hint::spin_loop();
            }
        });
        let operation = "snapshot, another core writing in bursts";
        let mut batch = snapshots_of(slot);
        self.figure(operation, Some(105.0), 8.0, &mut batch)
    }
}

/// Something done again and again on the other core while this lives.
struct Beside {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Beside {
    fn start(cores: Cores, mut work: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let thread = std::thread::spawn(move || {
            let _core = cores.enter_load();
            while !told.load(Ordering::Relaxed) {
                work();
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn update_quotes() -> impl FnMut() -> u64 {
    update_quotes_of(Arc::new(MarketSlot::new()))
}

fn update_quotes_of(slot: Arc<MarketSlot>) -> impl FnMut() -> u64 {
    let mut sequence = 0;
    move || {
        let mut writer = slot.claim(1).expect("it is this loop's alone");
        for _ in 0..BATCH {
            sequence += 1;
            writer.update_quote(black_box(quote(sequence)), stamp(sequence));
        }
        BATCH
    }
}

fn update_trades() -> impl FnMut() -> u64 {
    let slot = MarketSlot::new();
    let mut sequence = 0;
    move || {
        let mut writer = slot.claim(1).expect("it is this loop's alone");
        for _ in 0..BATCH {
            sequence += 1;
            let price = 100_000_000_000 + sequence as i64;
            writer.update_trade(black_box(Trade { price, size: 10 }), stamp(sequence));
        }
        BATCH
    }
}

fn snapshots() -> impl FnMut() -> u64 {
    snapshots_of(written_slot())
}

fn snapshots_of(slot: Arc<MarketSlot>) -> impl FnMut() -> u64 {
    move || {
        for _ in 0..BATCH {
            black_box(black_box(&slot).snapshot());
        }
        BATCH
    }
}

fn quotes() -> impl FnMut() -> u64 {
    let slot = written_slot();
    move || {
        for _ in 0..BATCH {
            black_box(black_box(&slot).quote());
        }
        BATCH
    }
}

fn bids() -> impl FnMut() -> u64 {
    let slot = written_slot();
    move || {
        for _ in 0..BATCH {
            black_box(black_box(&slot).bid());
        }
        BATCH
    }
}

fn blocks() -> impl FnMut() -> u64 {
    blocks_of(&BlockPool::new(1_000, || [0_u8; 64]))
}

fn blocks_of(pool: &Arc<BlockPool<[u8; 64]>>) -> impl FnMut() -> u64 + use<> {
    let mut cache = pool.cache();
    move || {
        for _ in 0..BATCH {
            if let Some(block) = cache.take() {
                cache.give(black_box(block));
            }
        }
        BATCH
    }
}

/// More at a time than a thread's stock has.
fn block_batches_of(pool: &Arc<BlockPool<[u8; 64]>>) -> impl FnMut() -> u64 + use<> {
    const AT_A_TIME: usize = 400;
    let mut cache = pool.cache();
    let mut held = Vec::with_capacity(AT_A_TIME);
    move || {
        let mut taken = 0;
        while taken < BATCH {
            held.extend(std::iter::from_fn(|| cache.take()).take(AT_A_TIME));
            taken += held.len() as u64;
            held.drain(..)
                .for_each(|block| cache.give(black_box(block)));
        }
        taken
    }
}

fn symbols() -> Result<impl FnMut() -> u64, Failure> {
    let names: Vec<String> = (0..10_000)
        .map(|number| format!("SYMBOL{number}"))
        .collect();
    let slots = Arc::new(SlotTable::new(names.len()));
    let table = SymbolTable::new(slots, names.iter().map(String::as_str))
        .map_err(|error| Failure::running(error.to_string()))?;
    let mut at = 0;
    Ok(move || {
        for _ in 0..BATCH {
            at = (at + 7_919) % names.len();
            black_box(table.find(black_box(&names[at])));
        }
        BATCH
    })
}

fn tag_updates() -> impl FnMut() -> u64 {
    let slot = TagSlot::new();
    let mut stamp = TagStamp::default();
    move || {
        for _ in 0..BATCH {
            stamp.sequence += 1;
            let bytes = black_box(stamp.sequence).to_le_bytes();
            black_box(slot.store(4, &bytes, stamp));
        }
        BATCH
    }
}

fn latency_records() -> impl FnMut() -> u64 {
    let tracker = LatencyTracker::new();
    let mut recorder = tracker.recorder();
    let mut latency_ns = 1;
    move || {
        for _ in 0..BATCH {
            latency_ns = latency_ns * 5 % 1_000_003;
            recorder.record(black_box(latency_ns));
        }
        BATCH
    }
}

/// Each is the first after a publication, which costs as well and is counted in.
fn first_statistics() -> impl FnMut() -> u64 {
    let tracker = tracker_of_a_million();
    let mut recorder = tracker.recorder();
    move || {
        recorder.record(1_000);
        recorder.publish();
        black_box(tracker.statistics());
        1
    }
}

fn statistics_again() -> impl FnMut() -> u64 {
    let tracker = tracker_of_a_million();
    move || {
        for _ in 0..BATCH {
            black_box(tracker.statistics());
        }
        BATCH
    }
}

fn tracker_of_a_million() -> LatencyTracker {
    let tracker = LatencyTracker::new();
    let mut recorder = tracker.recorder();
    for number in 0..1_000_000_u64 {
        recorder.record(1_000 + number * 7_919 % 100_000);
    }
    drop(recorder);
    tracker
}

fn written_slot() -> Arc<MarketSlot> {
    let slot = Arc::new(MarketSlot::new());
    if let Ok(mut writer) = slot.claim(1) {
        writer.update_quote(quote(1), stamp(1));
    }
    slot
}

fn quote(number: u64) -> Quote {
    Quote {
        bid: 100_000_000_000 + number as i64,
        ask: 100_050_000_000 + number as i64,
        bid_size: 300,
        ask_size: 200,
    }
}

fn stamp(number: u64) -> Stamp {
    Stamp {
        source_time_ns: number,
        receive_time_ns: number + 1,
        sequence: number,
    }
}

const BATCH: u64 = 10_000;
