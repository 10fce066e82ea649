//! Blocks of memory that are used again: a stock a thread, and a list between them that takes no
//! lock.

use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Blocks of one kind for all threads, at most so many.
///
/// Each thread takes and gives blocks through a [`PoolCache`] of its own, which touches nothing
/// that is shared until its stock is empty or overfull; then it exchanges a whole batch with the
/// pool: the lists change hands, the blocks in them are not looked at.
///
/// The pool's lists are stacks of numbered nodes (R. K. Treiber, 1986): a word holds the number of
/// the first node and a tag that changes with each exchange, so that a node that was taken out and
/// put back meanwhile is noticed. What a node carries stands behind a lock that nobody ever waits
/// for: only the thread that has taken the node out of its list opens it.
pub struct BlockPool<T> {
    make: fn() -> T,
    nodes: Box<[Node<T>]>,
    /// Nodes with a batch.
    filled: Line,
    /// Nodes without.
    empty: Line,
    /// Blocks that there are, in whatever hands.
    made: Line,
    blocks_max: u64,
    /// Blocks that a cache and the pool exchange at a time.
    batch_blocks: usize,
}

/// A word on cache lines of its own: who works on one list does not hold up who works on another.
/// Two, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// On lines of its own: neighbours are in the hands of different threads.
#[derive(Debug)]
#[repr(align(64))]
struct Node<T> {
    /// The next node of its list, from 1; 0 for none.
    next: AtomicU64,
    batch: Mutex<Vec<Box<T>>>,
}

/// One thread's stock of a [`BlockPool`]. What is left in it goes back to the pool with it.
#[derive(Debug)]
pub struct PoolCache<T> {
    pool: Arc<BlockPool<T>>,
    /// The blocks given last: a batch at most, with room for it.
    warm: Vec<Box<T>>,
    /// Nothing, or a batch: a thread that takes and gives at its edge leaves the pool alone.
    spare: Vec<Box<T>>,
}

/// Blocks that a cache and its pool exchange at a time, at most: so that an exchange, which may
/// have to fetch a handful of lines from another core, costs each block a nanosecond or two. Fewer
/// in a small pool, of which one thread's two batches are a fourth.
pub const POOL_BATCH_BLOCKS_MAX: usize = if cfg!(loom) { 1 } else { 128 };

impl<T> BlockPool<T> {
    /// A pool of at most `blocks_max` blocks; `make` makes one when it is first needed.
    pub fn new(blocks_max: usize, make: fn() -> T) -> Arc<Self> {
        let batch_blocks = (blocks_max / 8).clamp(1, POOL_BATCH_BLOCKS_MAX);
        // Whole batches of all blocks, and room for what threads leave behind at their end.
        let count = blocks_max.div_ceil(batch_blocks) + NODES_SPARE;
        let nodes: Box<[Node<T>]> = (0..count as u64)
            .map(|number| Node {
                next: AtomicU64::new(number),
                batch: Mutex::new(Vec::new()),
            })
            .collect();
        Arc::new(Self {
            make,
            // Each leads to the one before it; the last is the first of the list.
            empty: Line(AtomicU64::new(nodes.len() as u64)),
            nodes,
            filled: Line(AtomicU64::new(0)),
            made: Line(AtomicU64::new(0)),
            blocks_max: blocks_max as u64,
            batch_blocks,
        })
    }

    /// A stock for the calling thread.
    pub fn cache(self: &Arc<Self>) -> PoolCache<T> {
        PoolCache {
            pool: Arc::clone(self),
            warm: Vec::with_capacity(self.batch_blocks),
            spare: Vec::new(),
        }
    }

    /// Blocks that there are: in the pool, in stocks, and in use.
    pub fn blocks(&self) -> usize {
        self.made.0.load(Ordering::Relaxed) as usize
    }

    /// Puts a batch that somebody gave back in place of `list`, which is empty.
    fn take_batch(&self, list: &mut Vec<Box<T>>) {
        let Some(number) = self.pop(&self.filled.0) else {
            return;
        };
        std::mem::swap(list, &mut *self.batch_of(number));
        self.push(&self.empty.0, number);
    }

    /// Keeps the batch of `list` and leaves an empty one there. If there is no room for it, its
    /// blocks are no more.
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

    /// A new block, unless there are as many as there may be.
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

    /// Takes the first node out of a list.
    fn pop(&self, list: &AtomicU64) -> Option<u64> {
        let mut head = list.load(Ordering::Acquire);
        loop {
            let number = head & NUMBER;
            let node = self.nodes.get(number.checked_sub(1)? as usize)?;
            // If somebody else takes it meanwhile this is stale, and the tag has changed.
            let next = node.next.load(Ordering::Relaxed);
            match exchange(list, head, next) {
                Ok(()) => return Some(number),
                Err(current) => head = current,
            }
        }
    }

    /// Puts a node, which nobody else has, in front of a list.
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

/// Makes `number` the first of a list whose word was `head`, under the next tag.
fn exchange(list: &AtomicU64, head: u64, number: u64) -> Result<(), u64> {
    let new = (head & !NUMBER).wrapping_add(TAG) | number;
    list.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}

impl<T> PoolCache<T> {
    /// A block, as whoever had it last left it, or a new one; `None` if all that there may be are
    /// in use.
    #[inline]
    pub fn take(&mut self) -> Option<Box<T>> {
        match self.warm.pop() {
            Some(block) => Some(block),
            None => self.restock(),
        }
    }

    /// Gives a block back; it need not be from this stock, nor from this thread.
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

    /// The older batch goes to the pool: the younger is warm.
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

/// The half of a list's word that is the number of its first node.
const NUMBER: u64 = u32::MAX as u64;
/// One more in the other half.
const TAG: u64 = 1 << 32;
/// Batches that are not whole: of threads that have ended.
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
        assert!(other.take().is_some(), "what the first has too many");
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
                                assert_eq!(*block, 0, "somebody else has it");
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
