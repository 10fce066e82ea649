//! A snapshot being received: which of its positions have arrived.

use crate::wire::SnapshotNotice;

use super::Side;
use super::holes::{REQUEST_ATTEMPTS_MAX, REQUEST_RANGES_MAX};

/// Maximum ranges of missing positions kept apart; beyond that the last one grows.
pub const MISSING_RANGES_MAX: usize = 4_096;

/// An incomplete snapshot.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) side: Side,
    pub(super) notice: SnapshotNotice,
    pub(super) next_request_ns: u64,
    attempts: u32,
    /// Every position from here up to the end mark is missing.
    next_position: u32,
    /// Missing ranges before `next_position`, ascending.
    missing: Vec<(u32, u32)>,
    /// Number of records, known once the end mark has arrived.
    records: Option<u64>,
}

impl Assembly {
    pub(super) fn new(side: Side, notice: SnapshotNotice, request_ns: u64) -> Assembly {
        Assembly {
            side,
            notice,
            next_request_ns: request_ns,
            attempts: 0,
            next_position: 0,
            missing: Vec::new(),
            records: None,
        }
    }

    /// Notes an arrived position. Returns whether it was missing.
    pub(super) fn arrived(&mut self, position: u32) -> bool {
        if position >= self.next_position {
            if position > self.next_position {
                self.lack(self.next_position, position);
            }
            self.next_position = position.saturating_add(1);
            return true;
        }
        let index = self.missing.partition_point(|range| range.1 <= position);
        let Some(&(from, until)) = self.missing.get(index) else {
            return false;
        };
        if position < from {
            return false;
        }
        match (position == from, position + 1 == until) {
            (true, true) => drop(self.missing.remove(index)),
            (true, false) => self.missing[index].0 = position + 1,
            (false, true) => self.missing[index].1 = position,
            (false, false) => {
                self.missing[index].1 = position;
                self.missing.insert(index + 1, (position + 1, until));
            }
        }
        true
    }

    /// Notes that positions do not belong to this snapshot. Returns whether some were missing.
    pub(super) fn passed(&mut self, from: u32, until: u32) -> bool {
        let mut news = false;
        if until > self.next_position {
            if from > self.next_position {
                self.lack(self.next_position, from);
            }
            self.next_position = until;
            news = true;
        }
        let first = self.missing.partition_point(|range| range.1 <= from);
        let after = self.missing.partition_point(|range| range.0 < until);
        if first < after {
            let left = (self.missing[first].0, from);
            let right = (until, self.missing[after - 1].1);
            let rest = [left, right].into_iter().filter(|range| range.0 < range.1);
            self.missing.splice(first..after, rest);
            news = true;
        }
        news
    }

    /// Marks an arrived position as missing again.
    pub(super) fn reject(&mut self, position: u32) {
        let index = self.missing.partition_point(|range| range.1 <= position);
        self.missing
            .insert(index, (position, position.saturating_add(1)));
    }

    pub(super) fn ended(&mut self, records: u64) {
        self.records = Some(records);
    }

    /// Returns the number of records, once all have arrived.
    pub(super) fn complete(&self) -> Option<u64> {
        self.records.filter(|_| self.missing.is_empty())
    }

    /// Delays the next request, because something arrived.
    pub(super) fn progressed(&mut self, request_ns: u64) {
        self.next_request_ns = request_ns;
        self.attempts = 0;
    }

    /// Calls `ask` with (first position, count) of each missing range. Returns false after too
    /// many attempts.
    pub(super) fn request(&mut self, next_request_ns: u64, mut ask: impl FnMut(u32, u64)) -> bool {
        self.next_request_ns = next_request_ns;
        self.attempts += 1;
        for &(from, until) in self.missing.iter().take(REQUEST_RANGES_MAX) {
            ask(from, u64::from(until - from));
        }
        if self.records.is_none() {
            ask(self.next_position, u64::from(u32::MAX));
        }
        self.attempts <= REQUEST_ATTEMPTS_MAX
    }

    fn lack(&mut self, from: u32, until: u32) {
        let crowded = self.missing.len() >= MISSING_RANGES_MAX;
        match self.missing.last_mut() {
            Some(last) if crowded => last.1 = until,
            _ => self.missing.push((from, until)),
        }
    }
}
