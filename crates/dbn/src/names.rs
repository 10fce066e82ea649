//! The symbols of instrument ids, and when each is valid.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;
use tidewire_calendar::days_of_number;

use super::{Metadata, Record, UNDEFINED_TIME};

/// Symbols by instrument id and time, learnt from metadata, symbol mappings and definitions.
///
/// An id may stand for one symbol on one day and for another on the next: venues reuse ids, and a
/// continuous contract rolls. A record has the name that is valid at its own time
/// ([`Record::index_time_ns`]).
///
/// * Metadata gives each name from the first day of its interval to its last, in UTC.
/// * A symbol mapping gives the name from its start to its end. Without a start it is valid from
///   the newest record on.
/// * A definition names an instrument from its own time on, where it has no name from elsewhere.
/// * The first name that a mapping or a definition gives is valid for earlier records, too.
#[derive(Debug, Clone, Default)]
pub struct SymbolNames {
    /// In order of time, without overlaps.
    names: HashMap<u32, Vec<NamedInterval>>,
    /// Intervals of all ids.
    count: usize,
}

/// A name, and when it is valid.
#[derive(Debug, Clone)]
struct NamedInterval {
    /// In ns since the UNIX epoch.
    times_ns: Range<u64>,
    name: Box<str>,
    /// A definition gave it, and another one may replace it.
    is_defined: bool,
}

/// More than [`SymbolNames::NAMES_MAX`] names were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more than {} instrument names", SymbolNames::NAMES_MAX)]
pub struct NamesFull;

impl SymbolNames {
    /// Maximum number of names: limits memory. Twice the instruments of the largest known venue
    /// (OPRA, 1.8 million).
    pub const NAMES_MAX: usize = 4_000_000;

    /// Creates an empty set of names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the newest symbol of an instrument.
    pub fn name(&self, instrument_id: u32) -> Option<&str> {
        let newest = self.names.get(&instrument_id)?.last()?;
        Some(&newest.name)
    }

    /// Returns the symbol of an instrument at a time (ns since the UNIX epoch), and the times for
    /// which the answer is the same.
    pub fn name_at(&self, instrument_id: u32, time_ns: u64) -> (Option<&str>, Range<u64>) {
        let mut valid_ns = 0..u64::MAX;
        for named in self.names.get(&instrument_id).into_iter().flatten() {
            if named.times_ns.contains(&time_ns) {
                return (Some(&named.name), named.times_ns.clone());
            } else if named.times_ns.end <= time_ns {
                valid_ns.start = named.times_ns.end;
            } else {
                valid_ns.end = named.times_ns.start;
                break;
            }
        }
        debug_assert!(valid_ns.contains(&time_ns) || time_ns == u64::MAX);
        (None, valid_ns)
    }

    /// Returns the number of instruments that have a symbol.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether no instrument has a symbol.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds the mappings of a stream's metadata, each with its days.
    ///
    /// # Errors
    /// [`NamesFull`]; names added before stay.
    pub fn add_metadata(&mut self, metadata: &Metadata) -> Result<(), NamesFull> {
        let by_id_in = metadata.stype_in == Some(STYPE_INSTRUMENT_ID);
        if !by_id_in && metadata.stype_out != STYPE_INSTRUMENT_ID {
            return Ok(());
        }
        for mapping in &metadata.mappings {
            for interval in &mapping.intervals {
                let (id, name) = if by_id_in {
                    (&mapping.raw_symbol, &interval.symbol)
                } else {
                    (&interval.symbol, &mapping.raw_symbol)
                };
                let Ok(id) = id.parse::<u32>() else {
                    continue; // unmapped days have an empty symbol
                };
                let times_ns = start_of_day_ns(interval.start_date)..match interval.end_date {
                    0 => u64::MAX,
                    date => start_of_day_ns(date),
                };
                self.add(id, name, times_ns, false)?;
            }
        }
        Ok(())
    }

    /// Adds the name of a symbol mapping or definition; returns `false` for any other record.
    /// `newest_ns` is the time of the newest record before it.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn add_record(&mut self, record: &Record<'_>, newest_ns: u64) -> Result<bool, NamesFull> {
        match record {
            Record::SymbolMapping(mapping) => {
                let id = mapping.header.instrument_id;
                let is_first = !self.names.contains_key(&id);
                let from_ns = match mapping.start_ts {
                    _ if is_first => 0,
                    0 | UNDEFINED_TIME => newest_ns,
                    start_ns => start_ns,
                };
                let until_ns = match mapping.end_ts {
                    0 => UNDEFINED_TIME,
                    end_ns => end_ns,
                };
                self.add(id, mapping.stype_out_symbol, from_ns..until_ns, false)?;
            }
            Record::Definition(definition) => {
                let id = definition.header.instrument_id;
                let from_ns = match (self.names.contains_key(&id), record.index_time_ns()) {
                    (false, _) => 0,
                    (true, 0) => newest_ns,
                    (true, time_ns) => time_ns,
                };
                for times_ns in self.left_to_definitions(id, from_ns) {
                    self.add(id, definition.raw_symbol, times_ns, true)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the times from `from_ns` on for which neither metadata nor a mapping names an
    /// instrument.
    fn left_to_definitions(&self, instrument_id: u32, mut from_ns: u64) -> Vec<Range<u64>> {
        let named = self.names.get(&instrument_id).into_iter().flatten();
        let mut left = Vec::new();
        for named in named.filter(|named| !named.is_defined) {
            left.push(from_ns..named.times_ns.start);
            from_ns = from_ns.max(named.times_ns.end);
        }
        left.push(from_ns..u64::MAX);
        left.retain(|times_ns| !times_ns.is_empty());
        left
    }

    /// Names an instrument for some time. What was valid then ends. An empty name and an empty
    /// time are ignored.
    fn add(
        &mut self,
        instrument_id: u32,
        name: &str,
        times_ns: Range<u64>,
        is_defined: bool,
    ) -> Result<(), NamesFull> {
        if name.is_empty() || times_ns.is_empty() {
            return Ok(());
        }
        let names = self.names.entry(instrument_id).or_default();
        let is_same = |named: &NamedInterval| {
            *named.name == *name
                && named.times_ns.start <= times_ns.start
                && times_ns.end <= named.times_ns.end
        };
        if names.iter().any(is_same) {
            return Ok(());
        }
        if self.count >= Self::NAMES_MAX {
            if names.is_empty() {
                self.names.remove(&instrument_id);
            }
            return Err(NamesFull);
        }
        let before = names.len();
        let left_over = |named: NamedInterval| {
            let old = named.times_ns.clone();
            let parts = [
                old.start..old.end.min(times_ns.start),
                old.start.max(times_ns.end)..old.end,
            ];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.map(move |times_ns| NamedInterval {
                times_ns,
                ..named.clone()
            })
        };
        *names = std::mem::take(names)
            .into_iter()
            .flat_map(left_over)
            .collect();
        names.push(NamedInterval {
            times_ns,
            name: name.into(),
            is_defined,
        });
        names.sort_by_key(|named| named.times_ns.start);
        if names.len() > INTERVALS_MAX {
            names.remove(0);
        }
        debug_assert!(
            names.is_sorted_by(|one, next| one.times_ns.end <= next.times_ns.start),
            "an instrument has one name at a time"
        );
        self.count = self.count + names.len() - before;
        Ok(())
    }
}

/// Returns the beginning of a UTC day given as `YYYYMMDD`, in ns since the UNIX epoch; 0 before it.
pub(super) fn start_of_day_ns(date: u32) -> u64 {
    let days = days_of_number(date);
    u64::try_from(days).map_or(0, |days| days.saturating_mul(DAY_NS))
}

const STYPE_INSTRUMENT_ID: u8 = 0;
const DAY_NS: u64 = 86_400_000_000_000;
/// Intervals kept for each instrument; the oldest goes first.
const INTERVALS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_utc() {
        assert_eq!(start_of_day_ns(19_700_101), 0);
        assert_eq!(start_of_day_ns(20_240_229), 1_709_164_800 * 1_000_000_000);
        assert_eq!(start_of_day_ns(20_240_301), 1_709_251_200 * 1_000_000_000);
        assert_eq!(start_of_day_ns(0), 0);
    }

    #[test]
    fn each_time_has_the_name_that_was_valid_then() {
        let mut names = SymbolNames::new();
        names.add(1, "OLD", 0..u64::MAX, false).unwrap();
        names.add(1, "NEW", 100..200, false).unwrap();
        names.add(2, "OTHER", 50..60, false).unwrap();
        let at = |time_ns| names.name_at(1, time_ns);
        assert_eq!(at(99), (Some("OLD"), 0..100));
        assert_eq!(at(100), (Some("NEW"), 100..200));
        assert_eq!(at(200), (Some("OLD"), 200..u64::MAX));
        assert_eq!(names.name_at(2, 10), (None, 0..50));
        assert_eq!(names.name_at(2, 60), (None, 60..u64::MAX));
        assert_eq!(names.name_at(3, 60), (None, 0..u64::MAX));
        assert_eq!((names.len(), names.count), (2, 4));
    }

    #[test]
    fn names_that_change_without_end_take_no_memory_without_end() {
        let mut names = SymbolNames::new();
        for time_ns in 0..3 * INTERVALS_MAX as u64 {
            let name = ["A", "B"][time_ns as usize % 2];
            names.add(1, name, time_ns..u64::MAX, false).unwrap();
        }
        assert_eq!(names.count, INTERVALS_MAX);
    }
}
