//! Texts of changed rows. Pages that know the same of a row, and name its fields alike, share one.

use std::ops::Range;
use std::sync::Arc;

use crate::follower::Column;

/// The texts of the rows that were written last.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// By the row's number, modulo [`TEXTS_MAX`].
    kept: Vec<Text>,
    bytes: usize,
}

/// How a page's messages show the fields of rows of one form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) is_short: bool,
    /// The selected fields; `None` for all, by their names.
    pub(crate) columns: Option<Arc<[Column]>>,
}

/// What has changed in a row, as text.
#[derive(Debug, Default)]
struct Text {
    /// The row's last change, which is no other row's.
    changed: u64,
    /// The last changes that a page may know which has to be told just this.
    seen: Range<u64>,
    look: Look,
    text: Vec<u8>,
}

impl Look {
    /// Returns whether two pages are shown the same. If so, both have the same list from now on.
    fn is_as(&self, other: &mut Look) -> bool {
        if self.is_short != other.is_short {
            return false;
        }
        match (&self.columns, &mut other.columns) {
            (None, None) => true,
            (Some(own), Some(columns)) if Arc::ptr_eq(own, columns) => true,
            (Some(own), Some(columns)) if own == columns => {
                *columns = own.clone();
                true
            }
            _ => false,
        }
    }
}

impl Texts {
    /// Returns what a page has to be told of a row: one that knows the change `seen`, and not
    /// `changed`.
    #[inline]
    pub(crate) fn find(&self, row: u32, changed: u64, seen: u64, look: &mut Look) -> Option<&[u8]> {
        let text = self.kept.get(row as usize % TEXTS_MAX)?;
        let is_it = text.changed == changed && text.seen.contains(&seen) && text.look.is_as(look);
        is_it.then_some(&text.text)
    }

    /// Keeps a text, if it is short.
    pub(crate) fn keep(
        &mut self,
        row: u32,
        changed: u64,
        seen: Range<u64>,
        look: &Look,
        text: &[u8],
    ) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        let at = row as usize % TEXTS_MAX;
        if at >= self.kept.len() {
            self.kept.resize_with(at + 1, Text::default);
        }
        let kept = &mut self.kept[at];
        self.bytes -= kept.text.capacity();
        (kept.changed, kept.seen) = (changed, seen);
        kept.look.clone_from(look);
        kept.text.clear();
        kept.text.extend_from_slice(text);
        self.bytes += kept.text.capacity();
    }

    /// Returns the memory of the texts in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.kept.capacity() * size_of::<Text>()
    }
}

/// Rows whose texts are kept.
const TEXTS_MAX: usize = 1_024;
/// Longer texts are not kept.
const TEXT_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn look(numbers: &[u32]) -> Look {
        let column = |number: &u32| Column {
            at: *number,
            number: Some(*number),
        };
        Look {
            is_short: true,
            columns: Some(numbers.iter().map(column).collect()),
        }
    }

    #[test]
    fn a_text_is_for_pages_that_know_and_select_the_same() {
        let mut texts = Texts::default();
        texts.keep(7, 20, 5..12, &look(&[0, 3]), b"text");
        for (row, changed, seen, mut look, is_it) in [
            (7, 20, 5, look(&[0, 3]), true),
            (7, 20, 11, look(&[0, 3]), true),
            (7, 20, 12, look(&[0, 3]), false),
            (7, 20, 4, look(&[0, 3]), false),
            (7, 21, 5, look(&[0, 3]), false),
            (8, 20, 5, look(&[0, 3]), false),
            (7, 20, 5, look(&[0]), false),
            (7, 20, 5, Look::default(), false),
        ] {
            let found = texts.find(row, changed, seen, &mut look);
            assert_eq!(found.is_some(), is_it, "{row} {changed} {seen} {look:?}");
        }
    }

    #[test]
    fn texts_take_bounded_memory() {
        let mut texts = Texts::default();
        for row in 0..100_000 {
            let text = vec![b'x'; row as usize % 1_000];
            texts.keep(row, 1 + u64::from(row), 0..1, &Look::default(), &text);
        }
        assert!(texts.memory_bytes() < 2 * TEXTS_MAX * TEXT_BYTES_MAX);
    }
}
