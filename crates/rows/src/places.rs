//! Where pages keep a row, so that no update looks it up in the table of each page.

/// Where a subscription keeps a row, with its ticket: no other subscription of the lane ever has
/// the same. A subscription keeps a row in one slot for as long as it lives, so a place is right or
/// of another subscription, never old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64);

/// The places of a row, in the order in which pages were told of the last update. The next one
/// comes in the same order, as long as no page comes or goes. A place that is missing or that is
/// another's is found in the subscription's table and put here.
#[derive(Debug, Default)]
pub(crate) struct Places {
    known: Vec<Place>,
    /// How many of them this update has passed.
    passed: usize,
}

/// Slots of a subscription's rows that are set.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Those of the first slots are beside what else a mark needs.
    first: u64,
    rest: Vec<u64>,
}

impl Place {
    fn new(ticket: u64, slot: u32) -> Option<Self> {
        let is_valid = ticket <= TICKET_MAX && slot < 1 << SLOT_BITS;
        is_valid.then_some(Place(ticket << SLOT_BITS | u64::from(slot)))
    }

    fn slot_for(self, ticket: u64) -> Option<u32> {
        let slot = (self.0 & ((1 << SLOT_BITS) - 1)) as u32;
        (self.0 >> SLOT_BITS == ticket).then_some(slot)
    }
}

impl Places {
    /// Begins with the first page: a new update is told.
    pub(crate) fn rewind(&mut self) {
        self.passed = 0;
    }

    /// Returns the slot of a subscription, if it is the next one or the one behind that.
    #[inline]
    pub(crate) fn next(&mut self, ticket: u64) -> Option<u32> {
        for ahead in 0..=1 {
            let place = self.known.get(self.passed + ahead)?;
            if let Some(slot) = place.slot_for(ticket) {
                self.passed += ahead + 1;
                return Some(slot);
            }
        }
        None
    }

    /// Puts a subscription next, of up to `most`. One that was there is forgotten.
    #[cold]
    pub(crate) fn learn(&mut self, ticket: u64, slot: u32, most: usize) {
        let Some(place) = Place::new(ticket, slot) else {
            return;
        };
        let is_full = self.known.len() >= most;
        match self.known.get_mut(self.passed) {
            Some(known) => *known = place,
            None if is_full => return,
            None => push(&mut self.known, place),
        }
        self.passed += 1;
    }

    /// Forgets the last ones of more than `most`, once they take much memory.
    pub(crate) fn shrink(&mut self, most: usize) {
        if self.known.capacity() > 2 * most {
            self.known.truncate(most);
            self.known.shrink_to_fit();
            self.passed = self.passed.min(most);
        }
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.known.capacity() * size_of::<Place>()
    }
}

impl Slots {
    /// Sets a slot. Returns whether it was not set.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        let word = match word {
            0 => &mut self.first,
            _ => {
                if word > self.rest.len() {
                    self.rest.resize(word, 0);
                }
                &mut self.rest[word - 1]
            }
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Returns the memory that it takes beside itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.rest.capacity() * size_of::<u64>()
    }

    /// Clears a slot.
    #[inline]
    pub(crate) fn clear(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        match word {
            0 => self.first &= !bit,
            _ => {
                if let Some(word) = self.rest.get_mut(word - 1) {
                    *word &= !bit;
                }
            }
        }
    }
}

/// Appends to a list that grows by a quarter, not by the double: there is one entry per topic and
/// page.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 4 + LEAST_ROOM);
    }
    list.push(value);
}

/// The last ticket whose places are kept. With a thousand subscriptions per second, a lane gets
/// there in 500 years.
pub(crate) const TICKET_MAX: u64 = u64::MAX >> SLOT_BITS;
/// Bits of a slot.
const SLOT_BITS: u32 = 20;
const _: () = assert!(crate::TOPICS_MAX <= 1 << SLOT_BITS);
/// Room of a list that is made.
const LEAST_ROOM: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_their_order_and_of_no_other_subscription() {
        let mut places = Places::default();
        (1..=4).for_each(|ticket| places.learn(ticket, ticket as u32 * 10, 4));
        places.learn(5, 50, 4);
        places.rewind();
        let mut next = |ticket| places.next(ticket);
        // The first subscription has ended, and the third comes too early.
        assert_eq!((next(2), next(4), next(3)), (Some(20), Some(40), None));
        assert_eq!((next(5), next(0)), (None, None));
        places.rewind();
        places.learn(7, 70, 4);
        assert_eq!((places.next(1), places.next(2)), (None, Some(20)));
        places.shrink(1);
        places.rewind();
        assert_eq!((places.next(7), places.next(2)), (Some(70), None));
    }

    #[test]
    fn a_place_that_has_no_room_in_its_bits_is_not_kept() {
        let mut places = Places::default();
        for (ticket, slot) in [(TICKET_MAX + 1, 1), (1, 1 << SLOT_BITS)] {
            places.learn(ticket, slot, 9);
            places.rewind();
            assert_eq!(places.next(ticket), None, "{ticket} {slot}");
        }
        places.learn(TICKET_MAX, (1 << SLOT_BITS) - 1, 9);
        places.rewind();
        assert_eq!(places.next(TICKET_MAX), Some((1 << SLOT_BITS) - 1));
    }

    #[test]
    fn slots_are_set_once() {
        let mut slots = Slots::default();
        for slot in [0, 63, 64, 127, 128, 1_000_000] {
            slots.clear(slot);
            assert!(slots.set(slot) && !slots.set(slot), "{slot}");
            slots.clear(slot);
            assert!(slots.set(slot), "{slot}");
        }
    }
}
