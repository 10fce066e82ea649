use std::collections::HashSet;

use super::*;
use crate::entry::NewValue;
use crate::hash;

fn name(index: u64) -> Vec<u8> {
    format!("key:{index}").into_bytes()
}

fn add(table: &mut Table, index: u64) {
    let key = name(index);
    let hash = hash::of(&key);
    assert!(table.find(hash, &key).is_none());
    let place = table.insert(hash, Entry::new(hash, &key, NewValue::Integer(0), false));
    assert_eq!(table.entry(place).key(), key);
}

fn take(table: &mut Table, index: u64) {
    let key = name(index);
    let place = table.find(hash::of(&key), &key).expect("present");
    assert_eq!(table.remove(place).key(), key);
}

/// Miri is at least a hundred times slower but checks each access, so fewer rounds suffice.
const FEWER: u64 = if cfg!(miri) { 100 } else { 1 };

#[test]
#[cfg_attr(miri, ignore = "this many entries take hours")]
fn a_table_grows_past_the_stored_bits_and_frees_memory() {
    let mut table = Table::new();
    let count = 1_200_000;
    for index in 0..count {
        add(&mut table, index);
    }
    assert!(table.depth > DEPTH_KEPT);
    assert!(
        table.memory_bytes() < count as usize * 13,
        "{}",
        table.memory_bytes()
    );
    for index in 0..count {
        let key = name(index);
        assert!(table.find(hash::of(&key), &key).is_some());
    }
    for index in 0..count - 100 {
        take(&mut table, index);
    }
    assert_eq!((table.len(), table.iter().count()), (100, 100));
    assert!(table.memory_bytes() < 40_000, "{}", table.memory_bytes());
    for index in count - 100..count {
        take(&mut table, index);
    }
    assert_eq!(table.memory_bytes(), 0);
}

#[test]
fn a_scan_sees_all_permanent_entries_while_the_table_grows_and_shrinks() {
    for seed in 0..40u64.div_ceil(FEWER) {
        let mut table = Table::new();
        let stays = 700 / FEWER.min(10) + seed * 50;
        for index in 0..stays {
            add(&mut table, index);
        }
        let mut others = Vec::new();
        let mut next = 1_000_000;
        let mut seen = HashSet::new();
        let mut at = ScanPosition::default();
        let mut step = 0;
        loop {
            let show = |entry: &Entry| {
                seen.insert(entry.key().to_vec());
            };
            let Some(position) = table.scan_step(at, show) else {
                break;
            };
            at = position;
            step += 1;
            assert!(step < 200_000, "seed {seed}: the scan does not end");
            // Waves: grows for a while, then removes everything. They must end, because waves
            // shorter than a segment's walk can delay a scan indefinitely.
            if step > 4_000 / FEWER {
                continue;
            }
            if step / 40 % 2 == seed % 2 {
                for _ in 0..100u64.div_ceil(FEWER) {
                    add(&mut table, next);
                    others.push(next);
                    next += 1;
                }
            } else {
                for _ in 0..200u64.div_ceil(FEWER) {
                    if let Some(index) = others.pop() {
                        take(&mut table, index);
                    }
                }
            }
        }
        assert!(
            (0..stays).all(|index| seen.contains(&name(index))),
            "seed {seed}"
        );
    }
}

#[test]
fn a_scan_of_an_unchanged_table_shows_each_entry_once() {
    let mut table = Table::new();
    let count = 50_000 / FEWER;
    for index in 0..count {
        add(&mut table, index);
    }
    let mut seen = Vec::new();
    let mut at = Some(ScanPosition::default());
    while let Some(position) = at {
        at = table.scan_step(position, |entry| seen.push(entry.key().to_vec()));
    }
    assert_eq!(seen.len() as u64, count);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>().len() as u64, count);
}

#[test]
fn parts_show_each_entry_once_while_the_table_changes() {
    for (stays, changes) in [(10, 5), (20_000 / FEWER, 30_000 / FEWER), (300, 0)] {
        let mut table = Table::new();
        for index in 0..stays {
            add(&mut table, index);
        }
        let (mut seen, mut at, mut next) = (Vec::new(), 0, 1_000_000);
        while at < ORDER_END {
            let (entries, end) = table.part(at);
            assert!(end > at);
            let own = entries.into_iter().map(|(order, entry)| {
                assert!((at..end).contains(&order));
                entry.key().to_vec()
            });
            seen.extend(own.collect::<Vec<_>>());
            at = end;
            for _ in 0..changes.min(500 / FEWER) {
                add(&mut table, next);
                next += 1;
            }
        }
        let all: HashSet<_> = seen.iter().collect();
        assert_eq!(all.len(), seen.len());
        assert!((0..stays).all(|index| all.contains(&name(index))));
    }
}

#[test]
fn churn_at_constant_size_needs_no_more_memory() {
    let mut table = Table::new();
    let count = 10_000 / FEWER;
    for index in 0..count {
        add(&mut table, index);
    }
    let before = table.memory_bytes();
    for index in 0..20 * count {
        take(&mut table, index);
        add(&mut table, index + count);
    }
    assert_eq!(table.len() as u64, count);
    assert!(table.memory_bytes() <= before * 3 / 2);
}
