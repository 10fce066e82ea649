//! Measures the stages before the feed, one line each: the simulated market, the order book and
//! the DBN decoder. Each figure is the best of several runs on one core.
//!
//! ```text
//! cargo run --release -p tidewire-dbn --example throughput
//! ```
//!
//! Book and decoder need the recorded session `esh4-glbx-mdp3-20231225.mbo.dbn.zst` in the folder
//! `TIDEWIRE_DATA`, or in `../shared/data` beside the repository.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use tidewire_dbn::book::{Book, Books};
use tidewire_dbn::{Decoder, Event, MboRecord, Reader};
use tidewire_feed::simulation::{Market, SimulationConfig, Symbols, Tick};

fn main() {
    for count in [100, 1_000_000] {
        simulate(count);
    }
    let file = data_folder().join("esh4-glbx-mdp3-20231225.mbo.dbn.zst");
    match std::fs::read(&file) {
        Ok(packed) => replay(&packed),
        Err(error) => println!("book and decoder: not run, {}: {error}", file.display()),
    }
}

fn simulate(symbol_count: usize) {
    const TICKS: u64 = 10_000_000;
    let mut market = Market::new(SimulationConfig {
        symbols: Symbols::first(symbol_count),
        ..Default::default()
    });
    let mut time_ns = 1_700_000_000_000_000_000;
    let name = format!("simulated ticks, {symbol_count} symbols");
    report(&name, TICKS, || {
        let mut quotes = 0;
        for _ in 0..TICKS {
            time_ns += 100;
            quotes += u64::from(matches!(black_box(market.next(time_ns)), Tick::Quote(_)));
        }
        quotes
    });
}

fn replay(packed: &[u8]) {
    let mut records = Vec::new();
    let mut reader = Reader::open(packed).expect("a DBN file");
    let mut bytes = Vec::new();
    while let Some(record) = reader.next_record().expect("whole records") {
        bytes.extend_from_slice(record.bytes());
        records.extend(record.mbo());
    }
    let count = records.len() as u64;
    report("DBN records framed and decoded", count, || {
        let mut sum = 0;
        each_record(&bytes, |order| sum += u64::from(order.size));
        sum
    });
    report("book records applied", count, || {
        let mut book = Book::default();
        let mut changes = 0;
        for record in &records {
            changes += u64::from(book.apply(record).is_ok_and(|change| change.quote));
        }
        changes
    });
    report("DBN bytes to ticks, decoded and applied", count, || {
        let mut books = Books::default();
        let mut decoder = Decoder::fragment();
        let mut rest = &bytes[..];
        let mut ticks = 0;
        while let Ok(Event::Record(record)) = decoder.decode(&mut rest) {
            books.apply(&record, |tick| {
                black_box(tick);
                ticks += 1;
            });
        }
        ticks
    });
    report("DBN records from the zstd file", count, || {
        let mut reader = Reader::open(packed).expect("a DBN file");
        let mut sum = 0;
        while let Ok(Some(record)) = reader.next_record() {
            sum += u64::from(record.mbo().map_or(0, |order| order.size));
        }
        sum
    });
}

fn each_record(bytes: &[u8], mut use_record: impl FnMut(&MboRecord)) {
    let mut decoder = Decoder::fragment();
    let mut rest = bytes;
    while let Ok(Event::Record(record)) = decoder.decode(&mut rest) {
        if let Some(order) = record.mbo() {
            use_record(black_box(&order));
        }
    }
}

/// Prints the best of several runs.
fn report(name: &str, count: u64, mut run: impl FnMut() -> u64) {
    let runs = if count > 1_000_000 { 5 } else { 40 };
    let best_s = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    let (rate, each_ns) = (count as f64 / best_s / 1e6, best_s * 1e9 / count as f64);
    println!("{name}: {rate:.1} M/s, {each_ns:.1} ns each (best of {runs} runs)");
}

fn data_folder() -> PathBuf {
    std::env::var_os("TIDEWIRE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    )
}
