//! The symbols of instrument ids.

use std::collections::HashMap;

use thiserror::Error;

use super::{Metadata, Record};

/// Symbols by instrument id, learnt from metadata, symbol mappings and definitions.
///
/// The newest name wins: an id that is reused for another instrument, as futures and options do
/// over months, returns the later symbol.
#[derive(Debug, Clone, Default)]
pub struct SymbolNames {
    names: HashMap<u32, Box<str>>,
}

/// More than [`SymbolNames::NAMES_MAX`] instruments were named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more than {} instrument names", SymbolNames::NAMES_MAX)]
pub struct NamesFull;

impl SymbolNames {
    /// Maximum ids: limits memory, at twice the largest known venue (OPRA, 1.8 million).
    pub const NAMES_MAX: usize = 4_000_000;

    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the symbol of an instrument.
    pub fn name(&self, instrument_id: u32) -> Option<&str> {
        self.names.get(&instrument_id).map(AsRef::as_ref)
    }

    /// Returns the number of instruments that have a symbol.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether no instrument has a symbol.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds the mappings of a stream's metadata for all its days. If two symbols had the same id,
    /// the one of the later day wins.
    ///
    /// # Errors
    /// [`NamesFull`]; names added before stay.
    pub fn add_metadata(&mut self, metadata: &Metadata) -> Result<(), NamesFull> {
        let by_id_in = metadata.stype_in == Some(STYPE_INSTRUMENT_ID);
        if !by_id_in && metadata.stype_out != STYPE_INSTRUMENT_ID {
            return Ok(());
        }
        let mut latest = HashMap::new();
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
                let (day, current) = latest.entry(id).or_insert((0, name));
                if interval.start_date >= *day {
                    (*day, *current) = (interval.start_date, name);
                }
            }
        }
        for (id, (_, name)) in latest {
            self.add(id, name)?;
        }
        Ok(())
    }

    /// Adds the name of a symbol mapping or definition; returns `false` for any other record.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn add_record(&mut self, record: &Record<'_>) -> Result<bool, NamesFull> {
        match record {
            Record::SymbolMapping(mapping) => {
                self.add(mapping.header.instrument_id, mapping.stype_out_symbol)?;
            }
            Record::Definition(definition) => {
                self.add(definition.header.instrument_id, definition.raw_symbol)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Names an instrument. An empty name is ignored.
    ///
    /// # Errors
    /// [`NamesFull`] for a new instrument.
    pub fn add(&mut self, instrument_id: u32, name: &str) -> Result<(), NamesFull> {
        if name.is_empty() || self.name(instrument_id) == Some(name) {
            return Ok(());
        }
        if self.names.len() >= Self::NAMES_MAX && !self.names.contains_key(&instrument_id) {
            return Err(NamesFull);
        }
        self.names.insert(instrument_id, name.into());
        Ok(())
    }
}

const STYPE_INSTRUMENT_ID: u8 = 0;
