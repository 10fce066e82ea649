//! Tests the on-demand counters of an allocator.

use std::alloc::System;
use std::hint::black_box;

use tidewire_memory::counting::{OnDemand, Tally, tally_of};

#[global_allocator]
static ALLOCATOR: OnDemand<System> = OnDemand(System);

#[test]
fn allocations_are_counted_only_on_demand() {
    drop(black_box(Box::new([0_u8; 64])));
    assert_eq!(tally_of(|| ()), Tally::default());
    let tally = tally_of(|| {
        let mut bytes: Vec<u8> = black_box(Vec::with_capacity(100));
        bytes.reserve_exact(300);
        drop(black_box(bytes));
    });
    let expected = Tally {
        allocations: 2,
        deallocations: 2,
        bytes: 400,
    };
    assert_eq!(tally, expected);
}
