//! Pages that follow the same topics, for a count of instructions and of cache misses:
//!
//! ```sh
//! cargo build --release -p tidewire-rows --example pages
//! valgrind --tool=callgrind --cache-sim=yes --toggle-collect='*measured*' \
//!     target/release/examples/pages
//! ```

use std::hint::black_box;

use tidewire_rows::{Selection, Snapshot, Table, Version};

const PAGES: usize = 1_000;
const TOPICS: usize = 50;
const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    let mut table = Table::new(|pattern, name| pattern == name);
    let names: Vec<String> = (0..TOPICS)
        .map(|topic| format!("live:{topic:02}"))
        .collect();
    for page in 0..PAGES {
        let topics = names.iter().map(|name| name.as_bytes());
        let selection = Selection::new(topics, None, 10.0).short(true);
        assert!(table.subscribe(page, 1, selection).is_ok());
    }
    let mut out = Vec::new();
    write_all(&mut table, &names, 0);
    for page in 0..PAGES {
        out.clear();
        let snapshot = table.write_snapshot((page, 1), true, &mut out);
        assert_eq!(snapshot, Snapshot::Complete);
    }
    for step in 1..=WARM_UP {
        round(&mut table, &names, step);
    }
    let mut rows = 0;
    for step in WARM_UP + 1..=WARM_UP + ROUNDS {
        rows += measured(&mut table, &names, step);
    }
    println!(
        "{} bytes per topic of a page",
        table.memory_bytes() / PAGES / TOPICS
    );
    println!("{rows} rows written");
}

/// One round that is counted.
#[inline(never)]
fn measured(table: &mut Table, names: &[String], step: usize) -> usize {
    round(table, names, step)
}

/// Each topic changes, and each page is told.
#[inline(always)]
fn round(table: &mut Table, names: &[String], step: usize) -> usize {
    for page in 0..PAGES {
        assert!(table.next((page, 1)));
    }
    write_all(table, names, step);
    let now_ns = step as u64 * SECOND_NS;
    table.collect_due(now_ns);
    let (mut rows, mut out) = (0, Vec::with_capacity(1 << 16));
    while let Some(place) = table.take_ready() {
        out.clear();
        rows += table.write_batch(place, now_ns, &mut out);
        black_box(&out);
    }
    assert_eq!(rows, PAGES * TOPICS);
    rows
}

fn write_all(table: &mut Table, names: &[String], step: usize) {
    for name in names {
        let payload = format!(
            "{{\"bid\":{}.5,\"bid_size\":{},\"ask\":{}.5,\"last\":2483.25,\"volume\":5848510,\
             \"seq\":{},\"state\":\"unknown\",\"venue\":\"simulated\"}}",
            step % 90,
            step % 70,
            step % 80,
            1_000_000 + step
        );
        let row = table.update(name.as_bytes(), Version::default(), payload.as_bytes());
        (0..PAGES).for_each(|page| table.mark(page, row));
    }
}

const WARM_UP: usize = 2;
const ROUNDS: usize = 5;
