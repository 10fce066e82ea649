//! Things by number, where a number that is used again is told from its former owner.

/// A number and the turn in which it was given out; fits the 56 bits of an epoll token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    index: u32,
    turn: u32,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl Key {
    const TURN_BITS: u32 = 24;

    pub(crate) fn to_bits(self) -> u64 {
        debug_assert!(self.turn <= Key::TURN_MASK, "a turn has 24 bits");
        u64::from(self.index) << Key::TURN_BITS | u64::from(self.turn)
    }

    pub(crate) fn from_bits(bits: u64) -> Key {
        Key {
            index: (bits >> Key::TURN_BITS) as u32,
            turn: bits as u32 & Key::TURN_MASK,
        }
    }

    const TURN_MASK: u32 = (1 << Key::TURN_BITS) - 1;
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The key that the next [`insert`](Self::insert) will give.
    pub(crate) fn next_key(&self) -> Key {
        match self.free.last() {
            Some(&index) => Key {
                index,
                turn: self.places[index as usize].0,
            },
            None => Key {
                index: self.places.len() as u32,
                turn: 0,
            },
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        debug_assert!(self.get(key).is_none(), "a free place is empty");
        match self.free.pop() {
            Some(index) => self.places[index as usize].1 = Some(value),
            None => self.places.push((0, Some(value))),
        }
        key
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.0 != key.turn {
            return None;
        }
        let value = place.1.take()?;
        place.0 = (place.0 + 1) & Key::TURN_MASK;
        self.free.push(key.index);
        debug_assert!(self.free.len() <= self.places.len(), "a place is free once");
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (turn, value) = self.places.get(key.index as usize)?;
        if *turn == key.turn {
            value.as_ref()
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (turn, value) = self.places.get_mut(key.index as usize)?;
        if *turn == key.turn {
            value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let places = self.places.iter().enumerate();
        let taken = places.filter(|(_, (_, value))| value.is_some());
        taken
            .map(|(index, &(turn, _))| Key {
                index: index as u32,
                turn,
            })
            .collect()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, value)| value.as_ref())
    }
}
