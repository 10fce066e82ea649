//! Levels beside a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A side as a map from price to total size and orders.
#[derive(Debug, Default)]
struct Naive {
    levels: BTreeMap<i64, (u64, u32)>,
    levels_max: usize,
}

impl Naive {
    fn add(&mut self, price: i64, size: u32) -> Result<LevelChange, BookError> {
        if let Some((total, orders)) = self.levels.get_mut(&price) {
            *total += u64::from(size);
            *orders += 1;
            return Ok(LevelChange::Changed);
        }
        if self.levels.len() >= self.levels_max {
            return Err(BookError::LevelsFull);
        }
        self.levels.insert(price, (u64::from(size), 1));
        Ok(LevelChange::Added)
    }

    fn remove(&mut self, price: i64, size: u32, gone: bool) -> LevelChange {
        let Some((total, orders)) = self.levels.get_mut(&price) else {
            return LevelChange::Unknown;
        };
        *total = total.saturating_sub(u64::from(size));
        *orders = orders.saturating_sub(u32::from(gone));
        if *orders > 0 {
            return LevelChange::Changed;
        }
        self.levels.remove(&price);
        LevelChange::Removed
    }

    fn resize(&mut self, price: i64, old: u32, new: u32) -> LevelChange {
        match self.levels.get_mut(&price) {
            Some((total, _)) => {
                *total = (*total + u64::from(new)).saturating_sub(u64::from(old));
                LevelChange::Changed
            }
            None => LevelChange::Unknown,
        }
    }

    fn ordered(&self, is_bid: bool) -> Vec<Level> {
        let level = |(&price, &(size, orders)): (&i64, &(u64, u32))| Level {
            price,
            size,
            orders,
        };
        match is_bid {
            true => self.levels.iter().rev().map(level).collect(),
            false => self.levels.iter().map(level).collect(),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(i64, u32),
    Remove(usize, u32, bool),
    RemoveUnknown(i64),
    Resize(usize, u32, u32),
    Only(i64, u32),
    Clear,
}

/// Prices as books have them, and as none should: near and far, between ticks, negative, extreme.
fn price() -> impl Strategy<Value = i64> {
    const CENT: i64 = 10_000_000;
    prop_oneof![
        40 => (0..40_i64).prop_map(|cents| 100_000 * CENT + cents * CENT),
        10 => (-300..300_i64).prop_map(|cents| 100_000 * CENT + cents * CENT),
        3 => (0..2_000_i64).prop_map(|cents| cents * CENT),
        3 => (-100..100_i64).prop_map(|cents| cents * CENT),
        2 => (0..40_i64).prop_map(|mills| 100_000 * CENT + mills * CENT / 100),
        1 => (0..5_i64).prop_map(|quarters| quarters * 250_000_000_000_000),
        1 => (0..3_i64).prop_map(|below| i64::MAX - 1 - below * CENT),
        1 => (0..3_i64).prop_map(|above| i64::MIN + 1 + above),
        1 => -3..3_i64,
        1 => any::<i64>().prop_map(|price| price.clamp(i64::MIN + 1, i64::MAX - 1)),
    ]
}

fn size() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 1..1_000_u32, 1 => Just(0), 1 => Just(u32::MAX)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (price(), size()).prop_map(|(price, size)| Step::Add(price, size)),
        40 => (any::<usize>(), size(), prop::bool::weighted(0.8))
            .prop_map(|(at, size, gone)| Step::Remove(at, size, gone)),
        4 => (price()).prop_map(Step::RemoveUnknown),
        6 => (any::<usize>(), size(), size()).prop_map(|(at, old, new)| Step::Resize(at, old, new)),
        1 => (price(), size()).prop_map(|(price, size)| Step::Only(price, size)),
        1 => Just(Step::Clear),
    ]
}

/// Selects one of the prices, usually one of the best.
fn selected(naive: &Naive, is_bid: bool, at: usize) -> Option<i64> {
    let levels = naive.ordered(is_bid);
    let within = match at % 4 {
        0 => levels.len(),
        _ => levels.len().min(4),
    };
    Some(levels.get((at / 4).checked_rem(within)?)?.price)
}

fn apply(levels: &mut Levels, naive: &mut Naive, is_bid: bool, step: &Step) {
    match *step {
        Step::Add(price, size) => assert_eq!(levels.add(price, size), naive.add(price, size)),
        Step::Remove(at, size, gone) => {
            if let Some(price) = selected(naive, is_bid, at) {
                let expected = naive.remove(price, size, gone);
                assert_eq!(levels.remove(price, size, gone), expected);
            }
        }
        Step::RemoveUnknown(price) => {
            assert_eq!(levels.remove(price, 1, true), naive.remove(price, 1, true));
        }
        Step::Resize(at, old, new) => {
            if let Some(price) = selected(naive, is_bid, at) {
                let expected = naive.resize(price, old, new);
                assert_eq!(levels.resize(price, old, new), expected);
            }
        }
        Step::Only(price, size) => {
            naive.levels.clear();
            let expected = match naive.levels_max {
                0 => Err(BookError::LevelsFull),
                _ => Ok(()),
            };
            if expected.is_ok() {
                naive.levels.insert(price, (u64::from(size), 0));
            }
            assert_eq!(levels.set_only(price, size), expected);
        }
        Step::Clear => {
            naive.levels.clear();
            levels.clear();
        }
    }
}

fn compare(levels: &Levels, naive: &Naive, is_bid: bool) {
    let expected = naive.ordered(is_bid);
    assert!(levels.iter().eq(expected.iter().copied()), "{expected:?}");
    assert_eq!(
        levels.best(),
        expected.first().copied().unwrap_or(Level::NONE)
    );
    assert_eq!(levels.len(), expected.len());
    assert_eq!(levels.is_empty(), expected.is_empty());
    for (better, level) in expected.iter().enumerate() {
        assert_eq!(levels.get(level.price), Some(*level));
        assert_eq!(levels.better_than(level.price), better);
        let worse = level.price - levels.key(1);
        let is_level = expected.get(better + 1).is_some_and(|l| l.price == worse);
        assert_eq!(levels.better_than(worse), better + 1);
        assert_eq!(levels.get(worse).is_some(), is_level);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn levels_agree_with_a_sorted_map(
        is_bid: bool,
        levels_max in prop_oneof![4 => Just(1_000_usize), 1 => 0..40_usize],
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut levels = Levels::new(levels_max, if is_bid { 1 } else { -1 });
        let mut naive = Naive { levels_max, ..Naive::default() };
        for step in &steps {
            apply(&mut levels, &mut naive, is_bid, step);
            compare(&levels, &naive, is_bid);
        }
    }
}

const CENT: i64 = 10_000_000;

/// Returns a bid side with 100 levels, one cent apart, up to 10.00.
fn deep() -> Levels {
    let mut bids = Levels::bids(1_000);
    for cents in 901..=1_000 {
        bids.add(cents * CENT, 100).unwrap();
    }
    bids
}

#[test]
fn changes_near_the_best_price_stay_in_the_window() {
    let mut bids = deep();
    assert_eq!((bids.tick, u64::from(bids.width)), (CENT as u64, WINDOW));
    let before = bids.far_changes();
    for _ in 0..10 {
        for cents in 985..=1_005 {
            bids.add(cents * CENT, 1).unwrap();
            bids.remove(cents * CENT, 1, true);
        }
    }
    // At most twice: the best price improves by more ticks than the window has above it.
    assert!(bids.far_changes() - before <= 2);
}

#[test]
fn a_price_between_ticks_makes_the_tick_smaller() {
    let mut bids = deep();
    bids.add(1_000 * CENT - CENT / 4, 7).unwrap();
    assert_eq!(bids.tick, CENT as u64 / 4);
    assert_eq!(bids.len(), 101);
    assert_eq!(bids.iter().nth(1).map(|level| level.size), Some(7));
}

#[test]
fn a_far_price_between_ticks_changes_no_tick() {
    let mut bids = deep();
    bids.add(CENT / 100, 7).unwrap();
    assert_eq!((bids.tick, bids.len()), (CENT as u64, 101));
}

#[test]
fn the_window_follows_a_falling_price() {
    let mut bids = deep();
    for cents in (902..=1_000).rev() {
        bids.remove(cents * CENT, 100, true);
        assert_eq!(bids.best().price, (cents - 1) * CENT);
        assert!(bids.occupied != 0);
    }
}

#[test]
fn a_total_beyond_the_window_is_exact() {
    let mut bids = deep();
    for _ in 0..300 {
        bids.add(1_000 * CENT, u32::MAX).unwrap();
    }
    let best = bids.best();
    assert_eq!(best.size, 100 + 300 * u64::from(u32::MAX));
    assert_eq!((best.orders, bids.len()), (301, 100));
    bids.clear();
    assert!(!bids.is_sorted_only);
}

#[test]
fn few_levels_have_no_window() {
    let mut asks = Levels::asks(1_000);
    for cents in 0..8 {
        asks.add(cents * CENT, 1).unwrap();
    }
    assert!(asks.window.is_none());
    asks.add(8 * CENT, 1).unwrap();
    assert!(asks.window.is_some());
}

#[test]
fn levels_from_a_place_on_are_those_behind_the_better_ones() {
    for count in [0, 5, 20, 100] {
        let mut bids = Levels::bids(1_000);
        for cents in 0..count {
            bids.add((1_000 - cents) * CENT, 1).unwrap();
        }
        let all = Vec::from_iter(bids.iter());
        for better in [0, 1, 3, 19, 50, 63, 64, 65, 99, 100, 200] {
            let rest = Vec::from_iter(bids.iter_from(better));
            assert_eq!(rest, all[better.min(all.len())..], "{better} of {count}");
        }
    }
}
