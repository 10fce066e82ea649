//! Records that are passed on whole, for the symbol that they belong to.

use super::{Books, Unused};
use crate::{Kind, RecordRef};

impl Books {
    /// Returns the symbol number of a record's instrument under its name at the record's time.
    /// Statistics and imbalances, which change no book, count as used here instead of in
    /// [`apply`](Self::apply); other records count there. `None` over the limit of instruments.
    pub fn carry(&mut self, record: &RecordRef<'_>) -> Option<u32> {
        let fields = record.decode();
        let symbol = self.symbol_of(&record.header(), fields.index_time_ns());
        if matches!(record.kind(), Kind::Statistics | Kind::Imbalance) {
            match symbol {
                Some(_) => {
                    self.accounting.note_time(fields.source_time_ns());
                    self.accounting.count_used(record.kind());
                }
                None => self.count_unused(record, Unused::TooManyInstruments),
            }
        }
        symbol
    }
}
