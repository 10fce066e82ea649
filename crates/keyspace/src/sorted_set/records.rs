//! Members and their scores. Each is in a slot of a page; all slots of a page have the same size.
//!
//! ```text
//!  slot                                                       number of a record
//!  ┌───────────┬───────────────────────────┬────────┐         ┌─────────────┬─────────┐
//!  │ score f64 │ length: one byte below    │ member │         │ page 24 bit │ slot 8  │
//!  │           │ 255, else 255 and a u32   │        │         └─────────────┴─────────┘
//!  └───────────┴───────────────────────────┴────────┘
//! ```
//!
//! A record keeps its number for its lifetime, so that other structures can store it. An empty page
//! frees its memory; a long member has its own page.

use crate::cache_line;

/// All records of one sorted set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pages: Vec<Page>,
    /// The first page with a free slot, by slot size in grains. Index 0 is an empty page for one
    /// long member.
    open: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Page {
    bytes: Vec<u8>,
    /// Size of a slot; 0 in a page for one long member.
    slot_bytes: u32,
    live: u16,
    /// The first free slot; its first two bytes contain the next one.
    free: u16,
    /// The next page in the list of pages with free slots.
    next_open: u32,
}

impl Records {
    /// Adds a record; returns its number.
    pub(super) fn add(&mut self, member: &[u8], score: f64) -> u32 {
        let size = HEAD + length_bytes(member.len()) + member.len();
        let grains = match size.div_ceil(GRAIN) {
            grains if grains * GRAIN <= SHARED_BYTES_MAX => grains,
            _ => 0,
        };
        let page = self.open_page(grains);
        debug_assert!(!self.pages[page].is_full(), "an open page has a free slot");
        let slot = self.pages[page].take_slot(size);
        if self.pages[page].is_full() {
            self.open[grains] = self.pages[page].next_open;
        }
        let record = (page as u32) << SLOT_BITS | u32::from(slot);
        debug_assert_ne!(record, NONE, "the last page is never created");
        let bytes = self.bytes_mut(record);
        bytes[..HEAD].copy_from_slice(&score.to_le_bytes());
        let mut at = HEAD + 1;
        if member.len() < LONG {
            bytes[HEAD] = member.len() as u8;
        } else {
            bytes[HEAD] = LONG as u8;
            bytes[at..at + 4].copy_from_slice(&(member.len() as u32).to_le_bytes());
            at += 4;
        }
        bytes[at..at + member.len()].copy_from_slice(member);
        record
    }

    /// Frees a record's slot.
    pub(super) fn remove(&mut self, record: u32) {
        let index = (record >> SLOT_BITS) as usize;
        let page = &mut self.pages[index];
        let was_full = page.is_full();
        page.give_slot(record as u8);
        if was_full {
            let grains = page.slot_bytes as usize / GRAIN;
            page.next_open = std::mem::replace(&mut self.open[grains], index as u32);
        }
    }

    #[inline]
    pub(super) fn score(&self, record: u32) -> f64 {
        let bytes = self.bytes(record);
        f64::from_le_bytes(bytes[..HEAD].try_into().expect("eight bytes"))
    }

    pub(super) fn set_score(&mut self, record: u32, score: f64) {
        self.bytes_mut(record)[..HEAD].copy_from_slice(&score.to_le_bytes());
    }

    #[inline]
    pub(super) fn member(&self, record: u32) -> &[u8] {
        let bytes = &self.bytes(record)[HEAD..];
        match usize::from(bytes[0]) {
            LONG => {
                let length = u32::from_le_bytes(bytes[1..5].try_into().expect("four bytes"));
                &bytes[5..5 + length as usize]
            }
            length => &bytes[1..1 + length],
        }
    }

    /// Prefetches a record's first bytes.
    #[inline]
    pub(super) fn prefetch(&self, record: u32) {
        cache_line::prefetch(self.bytes(record).as_ptr());
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.bytes.capacity()).sum();
        pages + self.pages.capacity() * size_of::<Page>() + self.open.capacity() * 4
    }

    /// Returns the bytes from the record's slot to the end of its page.
    #[inline]
    fn bytes(&self, record: u32) -> &[u8] {
        let page = &self.pages[(record >> SLOT_BITS) as usize];
        &page.bytes[page.start_of(record as u8)..]
    }

    fn bytes_mut(&mut self, record: u32) -> &mut [u8] {
        let page = &mut self.pages[(record >> SLOT_BITS) as usize];
        let start = page.start_of(record as u8);
        &mut page.bytes[start..]
    }

    fn open_page(&mut self, grains: usize) -> usize {
        if grains >= self.open.len() {
            self.open.resize(grains + 1, NONE);
        }
        if self.open[grains] == NONE {
            // 16 million pages have at least 8 GiB of long members, or 64 GiB of others.
            assert!(self.pages.len() < PAGES_MAX, "too many pages");
            self.open[grains] = self.pages.len() as u32;
            self.pages.push(Page {
                bytes: Vec::new(),
                slot_bytes: (grains * GRAIN) as u32,
                live: 0,
                free: NO_SLOT,
                next_open: NONE,
            });
        }
        debug_assert_eq!(
            self.pages[self.open[grains] as usize].slot_bytes as usize,
            grains * GRAIN,
            "pages are open by the size of their slots"
        );
        self.open[grains] as usize
    }
}

impl Page {
    fn start_of(&self, slot: u8) -> usize {
        debug_assert!(slot == 0 || self.slot_bytes > 0, "a long member is alone");
        usize::from(slot) * self.slot_bytes as usize
    }

    fn is_full(&self) -> bool {
        match self.slot_bytes as usize {
            0 => self.live > 0,
            slot_bytes => {
                self.free == NO_SLOT && self.bytes.len() + slot_bytes > bytes_max(slot_bytes)
            }
        }
    }

    fn take_slot(&mut self, size: usize) -> u8 {
        self.live += 1;
        let slot_bytes = self.slot_bytes as usize;
        if slot_bytes == 0 {
            self.bytes = vec![0; size];
            return 0;
        }
        if self.free != NO_SLOT {
            let slot = self.free as u8;
            let at = self.start_of(slot);
            self.free = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
            return slot;
        }
        let length = self.bytes.len();
        if length == self.bytes.capacity() {
            // Of each size, only the last page is not full: it grows in steps.
            let more = (length / 2).max(SLOTS_FIRST * slot_bytes);
            let more = more.next_multiple_of(slot_bytes);
            self.bytes
                .reserve_exact(more.min(bytes_max(slot_bytes) - length));
        }
        debug_assert!(length + slot_bytes <= bytes_max(slot_bytes));
        self.bytes.resize(length + slot_bytes, 0);
        (length / slot_bytes) as u8
    }

    fn give_slot(&mut self, slot: u8) {
        debug_assert!(self.live > 0);
        debug_assert_ne!(u16::from(slot), self.free, "a slot is freed once");
        self.live -= 1;
        if self.live == 0 {
            self.bytes = Vec::new();
            self.free = NO_SLOT;
            return;
        }
        let at = self.start_of(slot);
        self.bytes[at..at + 2].copy_from_slice(&self.free.to_le_bytes());
        self.free = u16::from(slot);
    }
}

/// Returns the bytes of a full page with slots of this size.
fn bytes_max(slot_bytes: usize) -> usize {
    (PAGE_BYTES_MAX / slot_bytes).min(SLOTS_MAX) * slot_bytes
}

fn length_bytes(length: usize) -> usize {
    if length < LONG { 1 } else { 5 }
}

/// Bytes of the score.
const HEAD: usize = 8;
const LONG: usize = 255;
const GRAIN: usize = 4;
/// A longer record has its own page.
const SHARED_BYTES_MAX: usize = 512;
const PAGE_BYTES_MAX: usize = 8 << 10;
const SLOT_BITS: u32 = 8;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const SLOTS_FIRST: usize = 8;
/// One less, so that no record has the number that means none.
const PAGES_MAX: usize = (1 << (32 - SLOT_BITS)) - 1;
const _: () = assert!(
    SLOTS_MAX < NO_SLOT as usize && SHARED_BYTES_MAX.is_multiple_of(GRAIN),
    "slot numbers never equal a marker, and slot sizes are multiples of a grain"
);
const NO_SLOT: u16 = u16::MAX;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_numbers_and_empty_pages_free_their_memory() {
        let mut records = Records::default();
        let name = |number: usize| {
            let lengths = [number % 40, number % 300, 600 * (number % 7)];
            let mut member = number.to_string().into_bytes();
            member.resize(member.len() + lengths[number % 3], b'x');
            member
        };
        let mut kept = Vec::new();
        for number in 0..5_000 {
            let record = records.add(&name(number), number as f64);
            kept.push((record, number));
            if number % 3 == 0 {
                let (record, _) = kept.swap_remove(number / 4);
                records.remove(record);
            }
        }
        for &(record, number) in &kept {
            assert_eq!(records.score(record), number as f64);
            assert!(records.member(record) == name(number));
            records.set_score(record, -1.0);
            assert!(records.member(record) == name(number));
        }
        let pages = records.pages.len();
        for (record, _) in kept.drain(..) {
            records.remove(record);
        }
        assert!(records.pages.iter().all(|page| page.bytes.capacity() == 0));
        for number in 0..1_000 {
            records.add(&name(number), 0.0);
        }
        assert_eq!(records.pages.len(), pages);
    }

    #[test]
    fn a_short_record_takes_its_bytes_rounded_up_to_four() {
        let mut records = Records::default();
        for number in 0..10_000 {
            records.add(format!("member:{number:05}").as_bytes(), 1.0);
        }
        let bytes = records.memory_bytes() as f64 / 10_000.0;
        assert!((24.0..25.5).contains(&bytes), "{bytes}");
    }
}
