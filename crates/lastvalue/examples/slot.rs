//! Measures an update, a read and a latency sample: `cargo run --release --example slot`.
//!
//! Each figure is the median of several rounds, in nanoseconds per operation.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tidewire_lastvalue::{LatencyTracker, MarketSlot, Quote, SlotTable, Stamp, Trade, Writer};

const ROUNDS: usize = 9;
const OPERATIONS: u64 = 4_000_000;
const SYMBOLS: u64 = 100;

fn main() {
    let table = Arc::new(SlotTable::new(1_000));
    table.extend_to(SYMBOLS as usize).expect("within the limit");
    let mut writer = table.writer(1);
    (0..SYMBOLS as u32).for_each(|index| writer.claim(index).expect("there is no other writer"));

    println!("uncontended, {SYMBOLS} symbols in turn");
    updates(&mut writer);
    reads(&table);

    println!("with one reader thread that takes snapshots of all symbols without pause");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| read_until(&table, &stop));
        updates(&mut writer);
        stop.store(true, Ordering::Relaxed);
    });

    println!("with one writer thread that updates all symbols without pause");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write_until(&mut writer, &stop));
        reads(&table);
        stop.store(true, Ordering::Relaxed);
    });

    println!("latency");
    latency();
}

fn updates(writer: &mut Writer) {
    report("update_quote", |n| {
        let mut slot = writer.slot((n % SYMBOLS) as u32).expect("claimed");
        slot.update_quote(quote(n), stamp(n));
    });
    report("update_trade", |n| {
        let mut slot = writer.slot((n % SYMBOLS) as u32).expect("claimed");
        slot.update_trade(
            Trade {
                price: n as i64,
                size: 1,
                condition: 0,
            },
            stamp(n),
        );
    });
    report("update_both", |n| {
        let mut slot = writer.slot((n % SYMBOLS) as u32).expect("claimed");
        slot.update_both(
            quote(n),
            Trade {
                price: n as i64,
                size: 1,
                condition: 0,
            },
            stamp(n),
        );
    });
}

fn reads(table: &SlotTable) {
    let slot = |n: u64| -> &MarketSlot { table.slot((n % SYMBOLS) as u32).expect("in the table") };
    report("snapshot", |n| consume(slot(n).snapshot()));
    report("quote", |n| consume(slot(n).quote()));
    report("bid", |n| consume(slot(n).bid()));
    let one = slot(0);
    report("snapshot of one", |_| consume(one.snapshot()));
    report("quote of one", |_| consume(one.quote()));
}

fn latency() {
    let tracker = LatencyTracker::new();
    let mut recorder = tracker.recorder();
    // 1 µs to 1 ms, as in an echo over loopback.
    report("record", |n| {
        recorder.record(1_000 + n.wrapping_mul(2_654_435_761) % 1_000_000)
    });
    recorder.publish();
    (0..1_000_000).for_each(|n| recorder.record(1_000 + n));
    recorder.publish();
    let microseconds = |begin: Instant| begin.elapsed().as_nanos() as f64 / 1e3;
    let (mut publish_us, mut cold_us, mut cached_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..99 {
        recorder.record(1_000);
        let begin = Instant::now();
        recorder.publish();
        publish_us.push(microseconds(begin));
        let begin = Instant::now();
        consume(tracker.statistics());
        cold_us.push(microseconds(begin));
        let begin = Instant::now();
        consume(tracker.statistics());
        cached_us.push(microseconds(begin));
    }
    println!("  publish         {:>9.2} us", median(&mut publish_us));
    println!(
        "  statistics      {:>9.2} us  (after a publication)",
        median(&mut cold_us)
    );
    println!(
        "  statistics      {:>9.2} us  (asked again)",
        median(&mut cached_us)
    );
}

fn consume<T>(value: T) {
    black_box(value);
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn report(name: &str, mut operation: impl FnMut(u64)) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            (0..OPERATIONS).for_each(|n| operation(black_box(n)));
            begin.elapsed().as_nanos() as f64 / OPERATIONS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!(
        "  {name:<16}{:>9.2} ns  (best {:.2})",
        rounds[ROUNDS / 2],
        rounds[0]
    );
}

fn read_until(table: &SlotTable, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        (0..SYMBOLS as u32)
            .filter_map(|index| table.slot(index))
            .for_each(|slot| consume(slot.snapshot()));
    }
}

fn write_until(writer: &mut Writer, stop: &AtomicBool) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let mut slot = writer.slot((n % SYMBOLS) as u32).expect("claimed");
        slot.update_quote(quote(n), stamp(n));
    }
}

fn quote(n: u64) -> Quote {
    Quote {
        bid: n as i64,
        ask: n as i64 + 1,
        bid_size: n as u32,
        ask_size: n as u32,
        bid_orders: 1,
        ask_orders: 1,
    }
}

fn stamp(n: u64) -> Stamp {
    Stamp {
        source_time_ns: n,
        receive_time_ns: n,
        sequence: n,
    }
}
