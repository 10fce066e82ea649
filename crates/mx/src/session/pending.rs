//! Pending requests and writes, in the order in which they time out.

use alloc::collections::VecDeque;

use super::{ItemId, WriteId};

/// Pending requests of one kind. All have the same timeout, so the oldest is due first.
#[derive(Debug, Default)]
pub(super) struct Timeouts {
    queue: VecDeque<Timeout>,
    under_way: usize,
}

#[derive(Debug)]
struct Timeout {
    deadline_ns: u64,
    slot: u32,
    stamp: u32,
}

impl Timeouts {
    pub(super) fn push(&mut self, deadline_ns: u64, slot: u32, stamp: u32) {
        self.under_way += 1;
        self.queue.push_back(Timeout {
            deadline_ns,
            slot,
            stamp,
        });
    }

    /// Notes that one request was answered or given up. Its entry is skipped when it becomes due.
    pub(super) fn done(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.queue.clear();
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        self.queue
            .front()
            .map_or(u64::MAX, |first| first.deadline_ns)
    }

    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        if self.deadline_ns() > now_ns {
            return None;
        }
        let first = self.queue.pop_front()?;
        Some((first.slot, first.stamp))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PendingWrite {
    pub(super) id: WriteId,
    pub(super) item: ItemId,
    pub(super) deadline_ns: u64,
}

/// Pending writes, oldest first, with consecutive numbers.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// `None` is a finished write; the first and the last entry are never `None`.
    queue: VecDeque<Option<PendingWrite>>,
    len: usize,
    /// The number of the first entry; its lower 32 bits are the token on the wire.
    first: u64,
}

impl Writes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the next write. Skips a number whose token is 0, because 0 means
    /// none.
    pub(super) fn next_number(&mut self) -> u64 {
        if self.queue.is_empty() && self.first as u32 == 0 {
            self.first += 1;
        }
        let mut next = self.first + self.queue.len() as u64;
        if next as u32 == 0 {
            self.queue.push_back(None);
            next += 1;
        }
        next
    }

    pub(super) fn push(&mut self, write: PendingWrite) {
        self.queue.push_back(Some(write));
        self.len += 1;
    }

    pub(super) fn take(&mut self, token: u32) -> Option<PendingWrite> {
        let index = token.wrapping_sub(self.first as u32) as usize;
        let write = self.queue.get_mut(index)?.take()?;
        self.len -= 1;
        self.trim();
        Some(write)
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        let first = self.queue.front().and_then(Option::as_ref);
        first.map_or(u64::MAX, |write| write.deadline_ns)
    }

    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<PendingWrite> {
        if self.deadline_ns() > now_ns {
            return None;
        }
        let write = self.queue.front_mut()?.take()?;
        self.len -= 1;
        self.trim();
        Some(write)
    }

    pub(super) fn end_all(&mut self, mut end: impl FnMut(PendingWrite)) {
        self.first += self.queue.len() as u64;
        self.queue.drain(..).flatten().for_each(&mut end);
        self.len = 0;
    }

    fn trim(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64) -> PendingWrite {
        PendingWrite {
            id: WriteId(number),
            item: ItemId {
                slot: 0,
                generation: 0,
            },
            deadline_ns: number * 10,
        }
    }

    #[test]
    fn a_token_finds_its_write_and_no_other() {
        let mut writes = Writes::default();
        for expected in 1..=4 {
            assert_eq!(writes.next_number(), expected);
            writes.push(write(expected));
        }
        assert_eq!(writes.take(2).unwrap().id, WriteId(2));
        assert!(writes.take(2).is_none(), "twice");
        assert!(writes.take(0).is_none() && writes.take(5).is_none());
        assert_eq!(writes.pop_due(10).unwrap().id, WriteId(1));
        assert_eq!((writes.deadline_ns(), writes.len()), (30, 2));
        assert!(writes.take(1).is_none(), "late");
        let mut ended = 0;
        writes.end_all(|_| ended += 1);
        assert_eq!((ended, writes.next_number()), (2, 5));
    }

    #[test]
    fn no_write_has_the_token_zero() {
        let mut writes = Writes {
            first: u64::from(u32::MAX),
            ..Writes::default()
        };
        let numbers = [0, 1].map(|_| {
            let number = writes.next_number();
            writes.push(write(number));
            number as u32
        });
        assert_eq!(numbers, [u32::MAX, 1]);
        assert!(writes.take(0).is_none());
        assert!(writes.take(1).is_some() && writes.take(u32::MAX).is_some());
    }
}
