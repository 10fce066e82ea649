//! The last-value cache and the latency tracker: ns per operation.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tidewire_lastvalue::{
    BlockPool, LatencyTracker, MarketSlot, Quote, SlotTable, Stamp, SymbolTable, TagSlot, TagStamp,
    Trade,
};

use super::failed;
use super::processor_time::Cores;
use super::report::{Spread, Table};
use super::scenario::Bench;
use super::timing::ns_an_operation;
use tidewire::failure::Failure;

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let cores = bench.cores;
    let mut timer = Timer {
        samples: bench.options.pairs,
        sample_time: bench.duration() / 10,
        rows: Vec::new(),
    };
    let _core = cores.enter_server().map_err(failed("cannot pin"))?;
    timer.time("update_quote", Some(45.0), 8.0, update_quotes(new_slot()));
    timer.time("update_trade", Some(45.0), 8.0, update_trades());
    let slot = written_slot();
    timer.time(
        "snapshot (all lines)",
        Some(105.0),
        8.0,
        snapshots(slot.clone()),
    );
    let quotes = slot.clone();
    timer.time(
        "quote (one line)",
        Some(22.0),
        5.0,
        batch(move || black_box(&quotes).quote()),
    );
    timer.time(
        "bid",
        Some(22.0),
        5.0,
        batch(move || black_box(&slot).bid()),
    );
    timer.update_beside_a_reader(cores);
    timer.snapshot_beside_a_writer(cores);
    let pool = BlockPool::new(1_000, || [0_u8; 64]);
    timer.time("block: take and give", Some(85.0), 10.0, blocks_of(&pool));
    let pool = BlockPool::new(10_000, || [0_u8; 64]);
    let operation = "block: take 400, give 400, through the pool";
    timer.time(operation, None, 10.0, block_batches_of(&pool));
    let operation = "block: take and give, 7 other threads at it";
    timer.beside_others(cores, operation, Some(480.0), blocks_of);
    let operation = "block: take 400, give 400, through the pool, 7 other threads at it";
    timer.beside_others(cores, operation, Some(480.0), block_batches_of);
    timer.time("symbol by name, of 10,000", None, 25.0, symbols()?);
    timer.time("tag update (8 bytes)", None, 20.0, tag_updates());
    timer.time("latency record", Some(45.0), 10.0, latency_records());
    let operation = "publish, and statistics of 1 M samples";
    timer.time(operation, Some(1_500_000.0), 10_000.0, first_statistics());
    let tracker = tracker_of_a_million();
    let again = batch(move || tracker.statistics());
    timer.time(
        "statistics of 1 M samples, again",
        Some(1_500_000.0),
        10_000.0,
        again,
    );
    let table = Table::of(
        &timer.rows,
        &[
            ("operation", &|row| row.operation.to_owned()),
            ("ns", &|row| row.ns.text(1)),
            ("goal", &|row| row.goal_ns.to_string()),
            ("seed's claim", &|row| {
                row.seed_ns.map(|ns| ns.to_string()).unwrap_or_default()
            }),
        ],
    );
    println!("\nLast-value cache, one slot, one thread unless said\n");
    print!("{}", table.text());
    bench.keep("cache", json!({"figures": timer.rows}), &[&table])
}

/// Time of one operation.
#[derive(Debug, Serialize)]
struct TimedOperation {
    operation: &'static str,
    ns: Spread,
    /// Maximum allowed time.
    goal_ns: f64,
    /// Figure published by the system that this project started from.
    seed_ns: Option<f64>,
}

struct Timer {
    samples: usize,
    sample_time: Duration,
    rows: Vec<TimedOperation>,
}

impl Timer {
    /// Times one operation, and adds its row.
    fn time(
        &mut self,
        operation: &'static str,
        seed_ns: Option<f64>,
        goal_ns: f64,
        batch: impl FnMut() -> u64,
    ) {
        self.rows.push(TimedOperation {
            operation,
            ns: ns_an_operation(self.samples, self.sample_time, batch),
            goal_ns,
            seed_ns,
        });
    }

    fn update_beside_a_reader(&mut self, cores: Cores) {
        let slot = new_slot();
        let read = slot.clone();
        let _other = Beside::start(cores, move || {
            black_box(read.try_snapshot());
        });
        let operation = "update_quote, another core reading all the time";
        self.time(operation, Some(45.0), 8.0, update_quotes(slot));
    }

    /// Times a batch of blocks while seven other threads run one on the same pool.
    fn beside_others<B: FnMut() -> u64 + Send + 'static>(
        &mut self,
        cores: Cores,
        operation: &'static str,
        seed_ns: Option<f64>,
        make: fn(&Arc<BlockPool<[u8; 64]>>) -> B,
    ) {
        let pool = BlockPool::new(10_000, || [0_u8; 64]);
        let others: Vec<Beside> = (0..7)
            .map(|_| {
                let mut batch = make(&pool);
                Beside::start(cores, move || {
                    batch();
                })
            })
            .collect();
        self.time(operation, seed_ns, 10.0, make(&pool));
        drop(others);
    }

    fn snapshot_beside_a_writer(&mut self, cores: Cores) {
        let slot = new_slot();
        let mut write = update_quotes(slot.clone());
        let _other = Beside::start(cores, move || {
            write();
            // A busy symbol: some hundred thousand updates per second.
            for _ in 0..200 {
                std::hint::spin_loop();
            }
        });
        let operation = "snapshot, another core writing in bursts";
        self.time(operation, Some(105.0), 8.0, snapshots(slot));
    }
}

/// Work repeated on the other core while this value lives.
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

/// Returns a batch of one operation.
fn batch<T>(mut operation: impl FnMut() -> T) -> impl FnMut() -> u64 {
    move || {
        for _ in 0..BATCH {
            black_box(operation());
        }
        BATCH
    }
}

fn update_quotes(slot: Arc<MarketSlot>) -> impl FnMut() -> u64 {
    let mut sequence = 0;
    move || {
        let mut writer = slot.claim(1).expect("it is this loop's alone");
        for _ in 0..BATCH {
            sequence += 1;
            writer.update_quote(quote(black_box(sequence)), stamp(sequence));
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
            let trade = Trade {
                price: 100_000_000_000 + black_box(sequence) as i64,
                size: 10,
                condition: 1,
            };
            writer.update_trade(trade, stamp(sequence));
        }
        BATCH
    }
}

fn snapshots(slot: Arc<MarketSlot>) -> impl FnMut() -> u64 {
    batch(move || black_box(&slot).snapshot())
}

fn blocks_of(pool: &Arc<BlockPool<[u8; 64]>>) -> impl FnMut() -> u64 + use<> {
    let mut cache = pool.cache();
    batch(move || {
        if let Some(block) = cache.take() {
            cache.give(black_box(block));
        }
    })
}

/// Returns batches that take more blocks at a time than a thread's stock has.
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
    Ok(batch(move || {
        at = (at + 7_919) % names.len();
        black_box(table.find(black_box(&names[at])));
    }))
}

fn tag_updates() -> impl FnMut() -> u64 {
    let slot = TagSlot::new();
    let mut stamp = TagStamp::default();
    batch(move || {
        stamp.sequence += 1;
        let bytes = black_box(stamp.sequence).to_le_bytes();
        slot.store(4, &bytes, stamp)
    })
}

fn latency_records() -> impl FnMut() -> u64 {
    let tracker = LatencyTracker::new();
    let mut recorder = tracker.recorder();
    let mut latency_ns = 1;
    batch(move || {
        latency_ns = latency_ns * 5 % 1_000_003;
        recorder.record(black_box(latency_ns));
    })
}

/// Returns batches of first reads after a publication, whose cost is included.
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

fn tracker_of_a_million() -> LatencyTracker {
    let tracker = LatencyTracker::new();
    let mut recorder = tracker.recorder();
    for number in 0..1_000_000_u64 {
        recorder.record(1_000 + number * 7_919 % 100_000);
    }
    drop(recorder);
    tracker
}

fn new_slot() -> Arc<MarketSlot> {
    Arc::new(MarketSlot::new())
}

fn written_slot() -> Arc<MarketSlot> {
    let slot = new_slot();
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
        bid_orders: 3,
        ask_orders: 2,
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
