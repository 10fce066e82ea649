//! Reusable blocks of memory: a cache per thread, and lock-free lists between the threads.

use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Blocks of one type, shared by all threads, up to a limit.
///
/// Each thread takes and gives blocks through its own [`PoolCache`], which touches nothing shared
/// until it is empty or too full. It then exchanges a whole batch with the pool. The lists are
/// swapped; the blocks in them are not touched.
///
/// The pool's lists are stacks of numbered nodes (R. K. Treiber, 1986). A word holds the number of
/// the first node and a tag that changes with each exchange. The tag reveals a node that was
/// removed and put back meanwhile. A node's batch is behind a lock that never blocks: only the
/// thread that has removed the node from its list takes it.
pub struct BlockPool<T> {
    make: fn() -> T,
    nodes: Box<[Node<T>]>,
    /// Nodes that hold a batch.
    filled: Line,
    /// Nodes that hold none.
    empty: Line,
    /// Number of blocks created so far.
    made: Line,
    blocks_max: u64,
    /// Number of blocks that a cache and the pool exchange at a time.
    batch_blocks: usize,
}

/// A word on its own cache lines, so that threads working on different lists do not contend. It
/// takes two lines, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// On its own cache lines: different threads use neighbouring nodes.
#[derive(Debug)]
#[repr(align(64))]
struct Node<T> {
    /// The next node of the list, from 1; 0 for none.
    next: AtomicU64,
    batch: Mutex<Vec<Box<T>>>,
}

/// One thread's cache of a [`BlockPool`]. Dropping it returns its blocks to the pool.
#[derive(Debug)]
pub struct PoolCache<T> {
    pool: Arc<BlockPool<T>>,
    /// The blocks given most recently: at most a batch, with room for it.
    warm: Vec<Box<T>>,
    /// Empty, or a full batch: a thread that alternates between taking and giving does not touch
    /// the pool.
    spare: Vec<Box<T>>,
}

/// Maximum number of blocks that a cache and its pool exchange at a time. An exchange may fetch a
/// few lines from another core; spread over a batch, it costs each block 1 or 2 ns. A small pool
/// uses smaller batches: two of them are a quarter of the pool.
pub const POOL_BATCH_BLOCKS_MAX: usize = if cfg!(loom) { 1 } else { 128 };

impl<T> BlockPool<T> {
    /// Creates a pool of at most `blocks_max` blocks. `make` creates a block when it is first
    /// needed.
    pub fn new(blocks_max: usize, make: fn() -> T) -> Arc<Self> {
        let batch_blocks = (blocks_max / 8).clamp(1, POOL_BATCH_BLOCKS_MAX);
        // Enough for whole batches of all blocks, and for the partial batches of threads that have
        // ended.
        let count = blocks_max.div_ceil(batch_blocks) + NODES_SPARE;
        let nodes: Box<[Node<T>]> = (0..count as u64)
            .map(|number| Node {
                next: AtomicU64::new(number),
                batch: Mutex::new(Vec::new()),
            })
            .collect();
        Arc::new(Self {
            make,
            // Each points to the one before it; the last is the first of the list.
            empty: Line(AtomicU64::new(nodes.len() as u64)),
            nodes,
            filled: Line(AtomicU64::new(0)),
            made: Line(AtomicU64::new(0)),
            blocks_max: blocks_max as u64,
            batch_blocks,
        })
    }

    /// Returns a cache for the calling thread.
    pub fn cache(self: &Arc<Self>) -> PoolCache<T> {
        PoolCache {
            pool: Arc::clone(self),
            warm: Vec::with_capacity(self.batch_blocks),
            spare: Vec::new(),
        }
    }

    /// Returns the number of blocks that exist: in the pool, in caches, and in use.
    pub fn blocks(&self) -> usize {
        self.made.0.load(Ordering::Relaxed) as usize
    }

    /// Fills the empty `list` with a batch from the pool, if there is one.
    fn take_batch(&self, list: &mut Vec<Box<T>>) {
        let Some(number) = self.pop(&self.filled.0) else {
            return;
        };
        std::mem::swap(list, &mut *self.batch_of(number));
        self.push(&self.empty.0, number);
    }

    /// Moves the batch of `list` into the pool and leaves `list` empty. If there is no room for it,
    /// its blocks are freed.
    fn give_batch(&self, list: &mut Vec<Box<T>>) {
        let Some(number) = self.pop(&self.empty.0) else {
            let count = list.len() as u64;
            list.clear();
            self.made.0.fetch_sub(count, Ordering::Relaxed);
            return;
        };
        std::mem::swap(list, &mut *self.batch_of(number));
        self.push(&self.filled.0, number);
    }

    /// Creates a block, unless the limit is reached.
    fn make_block(&self) -> Option<Box<T>> {
        let room = |made: u64| (made < self.blocks_max).then_some(made + 1);
        let made = self
            .made
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        made.is_ok().then(|| Box::new((self.make)()))
    }

    fn batch_of(&self, number: u64) -> impl std::ops::DerefMut<Target = Vec<Box<T>>> + '_ {
        let node = &self.nodes[number as usize - 1];
        node.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the first node of a list.
    fn pop(&self, list: &AtomicU64) -> Option<u64> {
        let mut head = list.load(Ordering::Acquire);
        loop {
            let number = head & NUMBER;
            let node = self.nodes.get(number.checked_sub(1)? as usize)?;
            // If another thread takes the node meanwhile, this value is stale and the tag has
            // changed.
            let next = node.next.load(Ordering::Relaxed);
            match exchange(list, head, next) {
                Ok(()) => return Some(number),
                Err(current) => head = current,
            }
        }
    }

    /// Adds a node at the front of a list. The caller owns the node.
    fn push(&self, list: &AtomicU64, number: u64) {
        let node = &self.nodes[number as usize - 1];
        let mut head = list.load(Ordering::Relaxed);
        loop {
            node.next.store(head & NUMBER, Ordering::Relaxed);
            match exchange(list, head, number) {
                Ok(()) => return,
                Err(current) => head = current,
            }
        }
    }
}

/// Makes `number` the first node of a list whose word was `head`, with the next tag.
fn exchange(list: &AtomicU64, head: u64, number: u64) -> Result<(), u64> {
    let new = (head & !NUMBER).wrapping_add(TAG) | number;
    list.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}

impl<T> PoolCache<T> {
    /// Returns a block in the state in which it was last given back, or a new one. Returns `None`
    /// if the limit of blocks is in use.
    #[inline]
    pub fn take(&mut self) -> Option<Box<T>> {
        match self.warm.pop() {
            Some(block) => Some(block),
            None => self.restock(),
        }
    }

    /// Gives a block back. It may come from another cache or thread.
    #[inline]
    pub fn give(&mut self, block: Box<T>) {
        if self.warm.len() >= self.pool.batch_blocks {
            self.unstock();
        }
        self.warm.push(block);
    }

    #[cold]
    fn restock(&mut self) -> Option<Box<T>> {
        if self.spare.is_empty() {
            self.pool.take_batch(&mut self.warm);
        } else {
            std::mem::swap(&mut self.warm, &mut self.spare);
        }
        self.warm.pop().or_else(|| self.pool.make_block())
    }

    /// Moves the older batch to the pool; the younger one is still in the processor's cache.
    #[cold]
    fn unstock(&mut self) {
        if !self.spare.is_empty() {
            self.pool.give_batch(&mut self.spare);
        }
        std::mem::swap(&mut self.warm, &mut self.spare);
        self.warm.reserve(self.pool.batch_blocks);
    }
}

impl<T> Drop for PoolCache<T> {
    fn drop(&mut self) {
        for list in [&mut self.warm, &mut self.spare] {
            if !list.is_empty() {
                self.pool.give_batch(list);
            }
        }
    }
}

impl<T> fmt::Debug for BlockPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool")
            .field("blocks", &self.blocks())
            .field("blocks_max", &self.blocks_max)
            .finish_non_exhaustive()
    }
}

/// The half of a list's word with the number of its first node.
const NUMBER: u64 = u32::MAX as u64;
/// Adds one to the other half.
const TAG: u64 = 1 << 32;
/// Room for partial batches of threads that have ended.
const NODES_SPARE: usize = if cfg!(loom) { 1 } else { 64 };

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_never_more_blocks_than_there_may_be() {
        let pool = BlockPool::new(100, || 0_u64);
        let (mut one, mut other) = (pool.cache(), pool.cache());
        let mut blocks: Vec<_> = std::iter::from_fn(|| one.take()).collect();
        assert_eq!((blocks.len(), pool.blocks()), (100, 100));
        assert!(other.take().is_none());
        blocks.drain(..).for_each(|block| one.give(block));
        assert!(other.take().is_some(), "the surplus of the first");
        drop(one);
        let rest = std::iter::from_fn(|| other.take()).count();
        assert_eq!((rest, pool.blocks()), (99, 100), "and the rest, at its end");
    }

    #[test]
    fn no_block_is_in_two_hands_and_none_is_lost() {
        let pool = BlockPool::new(1_000, || 0_u64);
        std::thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let mut cache = pool.cache();
                scope.spawn(move || {
                    let mut held: Vec<Box<u64>> = Vec::new();
                    for round in 0..20_000_u64 {
                        if round % 7 < 4 {
                            held.extend(cache.take().map(|mut block| {
                                assert_eq!(*block, 0, "another thread has it");
                                *block = thread;
                                block
                            }));
                        } else if let Some(mut block) = held.pop() {
                            assert_eq!(std::mem::take(&mut *block), thread);
                            cache.give(block);
                        }
                        if held.len() > 200 {
                            for mut block in held.drain(..) {
                                *block = 0;
                                cache.give(block);
                            }
                        }
                    }
                    for mut block in held {
                        *block = 0;
                        cache.give(block);
                    }
                });
            }
        });
        let mut cache = pool.cache();
        let blocks: Vec<_> = std::iter::from_fn(|| cache.take()).collect();
        let places: HashSet<_> = blocks.iter().map(|block| &raw const **block).collect();
        assert_eq!((blocks.len(), places.len()), (1_000, 1_000));
    }
}
