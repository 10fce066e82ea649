//! Tests that blocks are valid on any thread that allocates, moves and frees them, and that nothing
//! leaks.

#![allow(unsafe_code, reason = "an allocator has no other form")]

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use proptest::prelude::*;
use tidewire_memory::{Allocator, block_bytes, purge, spans, used_bytes};

/// An allocated block, filled with a specific byte.
struct Block {
    start: *mut u8,
    layout: Layout,
    fill: u8,
}

// SAFETY: a block belongs exclusively to its holder.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, fill: u8) -> Self {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: no size here is zero.
        let start = unsafe { Allocator.alloc(layout) };
        let block = Block {
            start,
            layout,
            fill,
        };
        block.write();
        block
    }

    fn zeroed(size: usize) -> Self {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        // SAFETY: no size here is zero.
        let start = unsafe { Allocator.alloc_zeroed(layout) };
        let block = Block {
            start,
            layout,
            fill: 0,
        };
        block.check(size);
        block
    }

    fn resize(&mut self, size: usize) {
        self.check(self.layout.size());
        // SAFETY: the block has this layout.
        self.start = unsafe { Allocator.realloc(self.start, self.layout, size) };
        let kept = size.min(self.layout.size());
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        self.check(kept);
        self.write();
    }

    fn write(&self) {
        assert!(!self.start.is_null());
        assert_eq!(self.start.addr() % self.layout.align(), 0);
        // SAFETY: the block has this size.
        unsafe { self.start.write_bytes(self.fill, self.layout.size()) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: the block has at least `bytes` bytes, all initialised.
        let content = unsafe { std::slice::from_raw_parts(self.start, bytes) };
        assert!(content.iter().all(|&byte| byte == self.fill));
    }

    fn counted(&self) -> u64 {
        block_bytes(self.layout.size()) as u64
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check(self.layout.size());
        // SAFETY: the block has this layout and is no longer in use.
        unsafe { Allocator.dealloc(self.start, self.layout) };
    }
}

/// Serializes the tests, which count for the whole process, and checks that nothing leaked.
struct Alone(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_nothing_is_left();
    Alone(alone)
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A failed test needs no second failure.
        if !thread::panicking() {
            assert_nothing_is_left();
        }
    }
}

fn assert_nothing_is_left() {
    purge();
    assert_eq!((used_bytes(), spans()), (0, 0));
}

/// A generator of pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

#[derive(Clone, Debug)]
enum Step {
    Make(usize, usize),
    Resize(usize, usize),
    Drop(usize),
    Purge,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![4 => 60..270_usize, 1 => 1..3_000_usize];
    let align = prop_oneof![4 => Just(8_usize), 1 => Just(1), 1 => Just(16), 1 => Just(64)];
    let step = prop_oneof![
        8 => (size.clone(), align).prop_map(|(size, align)| Step::Make(size, align)),
        4 => (any::<usize>(), size).prop_map(|(at, size)| Step::Resize(at, size)),
        6 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Purge),
    ];
    proptest::collection::vec(step, 0..2_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn blocks_never_overlap_and_are_counted_exactly(steps in steps()) {
        let _alone = alone();
        let mut blocks: Vec<Block> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Make(size, align) => blocks.push(Block::new(size, align, number as u8)),
                Step::Resize(at, size) if !blocks.is_empty() => {
                    let at = at % blocks.len();
                    blocks[at].resize(size);
                }
                Step::Drop(at) if !blocks.is_empty() => {
                    blocks.swap_remove(at % blocks.len());
                }
                Step::Purge => purge(),
                Step::Resize(..) | Step::Drop(_) => {}
            }
        }
        let by_address: BTreeMap<usize, usize> = blocks
            .iter()
            .map(|block| (block.start.addr(), block.layout.size()))
            .collect();
        let mut end = 0;
        for (start, size) in by_address {
            prop_assert!(start >= end);
            end = start + size;
        }
        // A block that mimalloc shrinks in place counts with the size of a new one.
        prop_assert_eq!(used_bytes(), blocks.iter().map(Block::counted).sum::<u64>());
    }
}

#[test]
fn threads_allocate_move_and_free_each_others_blocks() {
    let _alone = alone();
    let shared: Mutex<Vec<Block>> = Mutex::default();
    for round in 0..10 {
        thread::scope(|scope| {
            let shared = &shared;
            let threads = (1..=4).map(|seed| {
                scope.spawn(move || work(Numbers(seed << 32 | round << 16 | 1), shared))
            });
            for thread in threads.collect::<Vec<_>>() {
                // `join` waits for the very end of the thread; the scope does not.
                thread.join().expect("worked");
            }
        });
        let blocks = shared.lock().expect("not poisoned");
        assert_eq!(used_bytes(), blocks.iter().map(Block::counted).sum::<u64>());
    }
}

/// Allocates, resizes and frees blocks, and passes some to other threads.
fn work(mut numbers: Numbers, shared: &Mutex<Vec<Block>>) {
    let mut mine: Vec<Block> = Vec::new();
    for step in 0..5_000 {
        let size = 60 + numbers.below(210);
        match numbers.below(8) {
            0..3 => mine.push(Block::new(size, 8, step as u8)),
            5 => drop(shared.lock().expect("not poisoned").pop()),
            _ if mine.is_empty() => {}
            3 => {
                let at = numbers.below(mine.len());
                mine[at].resize(size);
            }
            4 => {
                let block = mine.swap_remove(numbers.below(mine.len()));
                shared.lock().expect("not poisoned").push(block);
            }
            _ => drop(mine.swap_remove(numbers.below(mine.len()))),
        }
    }
    shared.lock().expect("not poisoned").append(&mut mine);
}

#[test]
fn blocks_outlive_the_thread_that_made_them() {
    let _alone = alone();
    let made = || (0..5_000).map(|size| Block::new(65 + size % 192, 8, size as u8));
    for _ in 0..10 {
        let blocks: Vec<Block> = thread::spawn(move || made().collect())
            .join()
            .expect("made");
        thread::spawn(move || drop(blocks)).join().expect("dropped");
    }
}

#[test]
fn blocks_passed_between_threads_reuse_the_same_spans() {
    let _alone = alone();
    let (sender, receiver) = sync_channel(1_000);
    let maker = thread::spawn(move || {
        let mut most = 0;
        for number in 0..200_000 {
            sender.send(Block::new(88, 8, number as u8)).expect("taken");
            most = most.max(spans());
        }
        most
    });
    receiver.iter().for_each(drop);
    let most = maker.join().expect("made");
    // 744 blocks per span: a thousand in flight, and two batches per thread.
    assert!(most <= 3, "{most} spans");
}

#[test]
fn an_ending_thread_can_allocate_and_free() {
    struct Last(Option<Block>);
    impl Drop for Last {
        fn drop(&mut self) {
            let more: Vec<Block> = (0..100).map(|fill| Block::new(100, 8, fill)).collect();
            drop(self.0.take());
            drop(more);
        }
    }
    thread_local! {
        static EARLY: std::cell::RefCell<Last> = const { std::cell::RefCell::new(Last(None)) };
        static LATE: std::cell::RefCell<Last> = const { std::cell::RefCell::new(Last(None)) };
    }
    let _alone = alone();
    thread::spawn(|| {
        EARLY.with_borrow_mut(|_| ());
        let block = Block::new(100, 8, 1);
        LATE.with_borrow_mut(|late| late.0 = Some(Block::new(200, 8, 2)));
        EARLY.with_borrow_mut(|early| early.0 = Some(block));
    })
    .join()
    .expect("ended");
}

#[test]
fn a_block_does_not_move_while_its_allocated_size_is_the_same() {
    let _alone = alone();
    let mut block = Block::new(81, 8, 7);
    let start = block.start;
    block.resize(88);
    assert_eq!(block.start, start);
    for size in [89, 64, 72, 300, 256, 65] {
        block.resize(size);
        assert_eq!(used_bytes(), block.counted());
    }
}

#[test]
fn zeroed_blocks_are_zero_in_reused_memory() {
    let _alone = alone();
    drop(
        (0..100)
            .map(|_| Block::new(120, 8, 0xFF))
            .collect::<Vec<_>>(),
    );
    drop((0..100).map(|_| Block::zeroed(115)).collect::<Vec<_>>());
}
