//! The books of all securities, by locate code.

use tidewire_book::Sides;

/// Books by locate code, allocated in chunks when a security is first named. With any locate
/// codes, they take at most 16 MiB before they have levels.
#[derive(Debug)]
pub(super) struct Securities {
    chunks: Vec<Option<Box<[Sides]>>>,
    /// What is known of each security, by locate code.
    flags: Vec<u8>,
    /// Number of securities flagged [`UNSETTLED`].
    unsettled: usize,
    levels_max: usize,
}

impl Securities {
    pub(super) fn new(levels_max: usize) -> Self {
        Self {
            chunks: Vec::new(),
            flags: Vec::new(),
            unsettled: 0,
            levels_max,
        }
    }

    /// Removes all securities.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.flags.clear();
        self.unsettled = 0;
    }

    /// Returns the book of a security that was defined.
    pub(super) fn book(&self, locate: u16) -> Option<&Sides> {
        let flags = self.flags.get(usize::from(locate))?;
        (flags & DEFINED != 0).then(|| self.sides(locate))?
    }

    /// Returns the number of locate codes, from 0, that may be defined.
    pub(super) fn locates(&self) -> usize {
        self.flags.len()
    }

    /// Marks a security as defined. Returns whether it was before.
    #[inline(always)]
    pub(super) fn define(&mut self, locate: u16) -> bool {
        if self.flags.len() <= usize::from(locate) {
            self.make_flags(locate);
        }
        let flags = &mut self.flags[usize::from(locate)];
        let was_defined = *flags & DEFINED != 0;
        *flags |= DEFINED;
        if !was_defined {
            self.sides_mut(locate);
        }
        was_defined
    }

    /// Marks a security both of whose sides may differ from what was published.
    pub(super) fn unsettle(&mut self, locate: u16) {
        self.define(locate);
        let flags = &mut self.flags[usize::from(locate)];
        self.unsettled += usize::from(*flags & UNSETTLED == 0);
        *flags |= UNSETTLED;
    }

    /// Removes that mark. Returns whether there was none.
    #[inline(always)]
    pub(super) fn settle(&mut self, locate: u16) -> bool {
        self.unsettled == 0 || self.settle_one(locate)
    }

    #[cold]
    fn settle_one(&mut self, locate: u16) -> bool {
        let Some(flags) = self.flags.get_mut(usize::from(locate)) else {
            return true;
        };
        let is_settled = *flags & UNSETTLED == 0;
        *flags &= !UNSETTLED;
        self.unsettled -= usize::from(!is_settled);
        is_settled
    }

    /// Returns the book of a security; an empty one for a new security.
    #[inline(always)]
    pub(super) fn sides_mut(&mut self, locate: u16) -> &mut Sides {
        let (chunk, place) = (usize::from(locate) / CHUNK, usize::from(locate) % CHUNK);
        if self.chunks.get(chunk).is_none_or(Option::is_none) {
            self.make_chunk(chunk);
        }
        match &mut self.chunks[chunk] {
            Some(chunk) => &mut chunk[place],
            None => unreachable!("it was made"),
        }
    }

    /// Prefetches the fields of a book that changes near the best price need.
    #[inline]
    pub(super) fn touch(&self, locate: u16) {
        if let Some(sides) = self.sides(locate) {
            sides.touch();
        }
    }

    /// Returns the book of a security, even if only a neighbour was defined.
    #[inline(always)]
    pub(super) fn sides(&self, locate: u16) -> Option<&Sides> {
        let chunk = self.chunks.get(usize::from(locate) / CHUNK)?.as_ref()?;
        Some(&chunk[usize::from(locate) % CHUNK])
    }

    #[cold]
    fn make_flags(&mut self, locate: u16) {
        self.flags.resize(usize::from(locate) + 1, 0);
    }

    #[cold]
    fn make_chunk(&mut self, chunk: usize) {
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        self.chunks[chunk] = Some(vec![Sides::new(self.levels_max); CHUNK].into());
    }
}

/// Securities of a chunk, 16 KiB.
const CHUNK: usize = 64;
/// The security was defined.
const DEFINED: u8 = 1;
/// Both sides may differ from what was published.
const UNSETTLED: u8 = 2;
