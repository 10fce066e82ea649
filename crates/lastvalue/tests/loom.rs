//! Models of the slot's protocol under loom, which runs every order of events that the memory model
//! allows: `RUSTFLAGS="--cfg loom" cargo test -p tidewire-lastvalue --release --test loom`.
//!
//! A test fails if either fence, or the release of the claim, is removed. Where a fence is next to
//! it, loom does not distinguish the orderings of `version` from weaker ones; those rely on the
//! paper that `MarketSlot` names.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use tidewire_lastvalue::{
    BlockPool, ClaimError, MarketSlot, PRICE_UNDEFINED, Quote, Stamp, TagSlot, TagStamp, Trade,
};

/// Returns a quote in which every word is `n`, so that a mix of two updates is visible.
fn quote(n: u32) -> Quote {
    Quote {
        bid: i64::from(n),
        ask: i64::from(n),
        bid_size: n,
        ask_size: n,
        bid_orders: n,
        ask_orders: n,
    }
}

fn stamp(n: u32) -> Stamp {
    let n = u64::from(n);
    Stamp {
        source_time_ns: n,
        receive_time_ns: n,
        sequence: n,
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn a_reader_of_line_one_never_sees_a_torn_update() {
    model(|| {
        let slot = Arc::new(MarketSlot::new());
        let written = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            let mut writer = written.claim(1).expect("the slot is free");
            writer.update_quote(quote(1), stamp(1));
            writer.update_quote(quote(2), stamp(2));
        });
        if let Some(top) = slot.try_quote() {
            let n = top.updates;
            assert_eq!(top.sequence, n);
            assert_eq!(top.source_time_ns, n);
            assert_eq!((u64::from(top.bid_size), u64::from(top.ask_size)), (n, n));
            let price = if n == 0 { PRICE_UNDEFINED } else { n as i64 };
            assert_eq!((top.bid, top.ask), (price, price));
        }
        writer.join().expect("the writer does not panic");
    });
}

#[test]
fn a_reader_of_both_lines_never_sees_a_torn_update() {
    model(|| {
        let slot = Arc::new(MarketSlot::new());
        let written = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            let mut writer = written.claim(1).expect("the slot is free");
            let trade = Trade {
                price: 1,
                size: 1,
                condition: 1,
            };
            writer.update_trade(trade, stamp(1));
        });
        if let Some(value) = slot.try_snapshot() {
            let n = value.updates;
            assert_eq!((value.sequence, value.receive_time_ns), (n, n));
            assert_eq!((value.volume, u64::from(value.trades)), (n, n));
            assert_eq!(value.turnover, n.into());
            let price = if n == 0 { PRICE_UNDEFINED } else { 1 };
            assert_eq!((value.last, value.session_open), (price, price));
            assert_eq!((value.high, value.low), (price, price));
        }
        writer.join().expect("the writer does not panic");
    });
}

#[test]
fn a_waiting_reader_ends_when_the_writer_does() {
    model(|| {
        let slot = Arc::new(MarketSlot::new());
        let written = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            let mut writer = written.claim(1).expect("the slot is free");
            writer.update_quote(quote(1), stamp(1));
        });
        let top = slot.quote();
        assert_eq!(top.sequence, top.updates);
        writer.join().expect("the writer does not panic");
    });
}

#[test]
fn the_claim_lets_one_writer_in() {
    model(|| {
        let slot = Arc::new(MarketSlot::new());
        let contenders: Vec<_> = (1..=2)
            .map(|owner| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || match slot.claim(owner) {
                    Ok(mut writer) => {
                        writer.update_quote(quote(owner), stamp(owner));
                        1
                    }
                    Err(ClaimError::Owned { owner: holder }) => {
                        assert_eq!(holder, 3 - owner);
                        0
                    }
                    Err(other) => panic!("{other}"),
                })
            })
            .collect();
        let wins: u64 = contenders
            .into_iter()
            .map(|c| c.join().expect("no panic"))
            .sum();
        // Two writers may have run one after the other; then the second continued the first's
        // count. Two at the same time would have lost one update.
        assert!(wins >= 1);
        assert_eq!(slot.updates(), wins);
        assert_eq!(slot.owner(), None);
    });
}

/// Stores a tag in which every word is `n`; even `n` make a long value.
fn store_tag(slot: &TagSlot, n: u8) {
    let stamp = TagStamp {
        stale: false,
        quality: n.into(),
        status: n.into(),
        source_time: n.into(),
        receive_time_ns: n.into(),
        sequence: n.into(),
    };
    let bytes = [n; 40];
    let length = if n.is_multiple_of(2) { 40 } else { 9 };
    slot.store(n, &bytes[..length], stamp);
}

fn check_tag(slot: &TagSlot) {
    if let Some(value) = slot.try_snapshot() {
        let n = value.kind;
        assert_eq!(
            (value.sequence, value.receive_time_ns),
            (n.into(), n.into())
        );
        assert_eq!((value.status, value.quality), (n.into(), n.into()));
        assert!(value.bytes.as_slice().iter().all(|&byte| byte == n));
    }
}

#[test]
fn a_reader_of_a_tag_never_sees_a_torn_update_short_or_long() {
    model(|| {
        let slot = Arc::new(TagSlot::new());
        let written = Arc::clone(&slot);
        let writer = thread::spawn(move || (1..=2).for_each(|n| store_tag(&written, n)));
        check_tag(&slot);
        writer.join().expect("the writer does not panic");
        check_tag(&slot);
    });
}

#[test]
fn two_writers_of_a_tag_exclude_each_other() {
    model(|| {
        let slot = Arc::new(TagSlot::new());
        let written = Arc::clone(&slot);
        let writer = thread::spawn(move || store_tag(&written, 1));
        store_tag(&slot, 2);
        writer.join().expect("the writer does not panic");
        assert_eq!(slot.updates(), 2);
        check_tag(&slot);
    });
}

#[test]
fn two_threads_exchange_blocks_through_the_pool_and_none_is_in_two_hands() {
    model(|| {
        // With batches of one block, every take from an empty cache and every give to a full one is
        // an exchange.
        let pool = BlockPool::new(2, || 0_u64);
        let other = std::sync::Arc::clone(&pool);
        let thread = thread::spawn(move || {
            let mut cache = other.cache();
            if let Some(mut block) = cache.take() {
                assert_eq!(*block, 0, "another thread has it");
                *block = 1;
                thread::yield_now();
                assert_eq!(std::mem::take(&mut *block), 1);
                cache.give(block);
            }
        });
        let mut cache = pool.cache();
        if let Some(mut block) = cache.take() {
            assert_eq!(*block, 0, "another thread has it");
            *block = 2;
            thread::yield_now();
            assert_eq!(std::mem::take(&mut *block), 2);
            cache.give(block);
        }
        drop(cache);
        thread.join().expect("no panic");
        let mut cache = pool.cache();
        let blocks = std::iter::from_fn(|| cache.take()).count();
        assert_eq!((blocks, pool.blocks()), (2, 2), "none is lost");
    });
}
