//! From the exchange's numbers of instruments to our consecutive ones.

/// An open-addressed hash table with linear probing, at most half full. Nothing is removed.
#[derive(Debug, Default)]
pub(crate) struct SecurityIndex {
    /// The length is a power of two, or 0. An index of [`FREE`] marks a free slot.
    slots: Box<[(i32, u32)]>,
    /// `32 - log2(slots.len())`.
    shift: u32,
    len: usize,
}

impl SecurityIndex {
    /// Returns the index of an instrument.
    #[inline]
    pub(crate) fn find(&self, security_id: i32) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut place = self.home(security_id);
        loop {
            let (id, index) = self.slots[place & mask];
            if index == FREE {
                return None;
            }
            if id == security_id {
                return Some(index);
            }
            place += 1;
        }
    }

    /// Adds an instrument that is not there.
    pub(crate) fn insert(&mut self, security_id: i32, index: u32) {
        assert!(index != FREE, "fewer instruments than numbers");
        debug_assert!(self.find(security_id).is_none(), "it is not there");
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = self.home(security_id);
        while self.slots[place & mask].1 != FREE {
            place += 1;
        }
        self.slots[place & mask] = (security_id, index);
        self.len += 1;
    }

    #[inline]
    fn home(&self, security_id: i32) -> usize {
        ((security_id as u32).wrapping_mul(0x9E37_79B9) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(SLOTS_FIRST);
        let old = std::mem::replace(&mut self.slots, vec![(0, FREE); count].into());
        self.shift = u32::BITS - count.ilog2();
        self.len = 0;
        for (security_id, index) in old {
            if index != FREE {
                self.insert(security_id, index);
            }
        }
    }
}

const FREE: u32 = u32::MAX;
const SLOTS_FIRST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instrument_is_found_and_no_other() {
        let mut index = SecurityIndex::default();
        assert_eq!(index.find(0), None);
        let ids = |count: i32| (0..count).map(|n| n.wrapping_mul(0x0010_0000) ^ n);
        for (number, id) in (0..).zip(ids(3_000)) {
            index.insert(id, number);
        }
        for (number, id) in (0..).zip(ids(3_000)) {
            assert_eq!(index.find(id), Some(number));
        }
        assert_eq!(index.find(-77), None);
    }
}
