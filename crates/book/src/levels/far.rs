//! The levels far from the best price, and all levels of a side with few of them.

use super::window::Sum;
use crate::cache_line::prefetch;

/// One level.
#[derive(Debug, Clone, Copy)]
pub(super) struct FarLevel {
    pub(super) key: i64,
    pub(super) sum: Sum,
}

/// Levels by ascending key: the best is last.
#[derive(Debug, Clone, Default)]
pub(super) struct FarLevels(Vec<FarLevel>);

impl FarLevels {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the best level.
    #[inline]
    pub(super) fn best(&self) -> Option<FarLevel> {
        self.0.last().copied()
    }

    /// Iterates over the levels, the best last.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, FarLevel> {
        self.0.iter()
    }

    /// Prefetches the best level.
    #[inline]
    pub(super) fn touch(&self) {
        if let Some(last) = self.0.last() {
            prefetch(last);
        }
    }

    /// Returns the totals of a level, if there is one.
    pub(super) fn get(&self, key: i64) -> Option<Sum> {
        Some(self.0[self.find(key).ok()?].sum)
    }

    pub(super) fn sum_mut(&mut self, place: usize) -> &mut Sum {
        &mut self.0[place].sum
    }

    /// Returns the number of levels with a greater key.
    pub(super) fn above(&self, key: i64) -> usize {
        match self.find(key) {
            Ok(place) => self.0.len() - 1 - place,
            Err(place) => self.0.len() - place,
        }
    }

    /// Returns the place of a key, or the place where it belongs. Compares the best few one by
    /// one, and the rest by binary search.
    #[inline]
    pub(super) fn find(&self, key: i64) -> Result<usize, usize> {
        let near = self.0.len().saturating_sub(NEAR);
        let better = self.0[near..].iter().rev().take_while(|l| l.key > key);
        let place = self.0.len() - better.count();
        match place.checked_sub(1) {
            Some(last) if place > near && self.0[last].key == key => Ok(last),
            _ if place > near || near == 0 => Err(place),
            _ => self.0[..near].binary_search_by_key(&key, |level| level.key),
        }
    }

    pub(super) fn insert(&mut self, place: usize, level: FarLevel) {
        self.0.insert(place, level);
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.0.remove(place);
    }

    /// Adds a level that is better than all others.
    pub(super) fn push(&mut self, level: FarLevel) {
        debug_assert!(self.0.last().is_none_or(|last| last.key < level.key));
        self.0.push(level);
    }

    /// Removes the best level.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }
}

/// Levels compared one by one: those of a side without a window.
const NEAR: usize = 8;
