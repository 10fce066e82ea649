//! The numbers of symbols.

use std::collections::HashMap;

/// One number for each name, and one for each instrument id without a name.
///
/// A name keeps its number when another instrument id gets it: ids of shares change from day to
/// day, and a continuous contract rolls to another id. What a receiver knows of the name, such as
/// its session, goes on.
#[derive(Debug)]
pub(super) struct Symbols {
    first: u32,
    /// By number from `first`.
    symbols: Vec<Symbol>,
    /// Numbers by name.
    named: HashMap<Box<str>, u32>,
    /// Numbers of the instrument ids without a name.
    nameless: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Symbol {
    /// The id that got the name last.
    instrument_id: u32,
    name: Option<Box<str>>,
}

impl Symbols {
    /// Creates an empty set of symbols, of which the first one gets the number `first`.
    pub(super) fn new(first: u32) -> Self {
        Self {
            first,
            symbols: Vec::new(),
            named: HashMap::new(),
            nameless: HashMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Returns the number of a name, or of an instrument id without a name.
    pub(super) fn find(&self, instrument_id: u32, name: Option<&str>) -> Option<u32> {
        match name {
            Some(name) => self.named.get(name).copied(),
            None => self.nameless.get(&instrument_id).copied(),
        }
    }

    /// Returns the number of a name that an instrument id has got, and creates it if it is new;
    /// `None` if there are `symbols_max` already.
    pub(super) fn find_or_make(
        &mut self,
        instrument_id: u32,
        name: Option<&str>,
        symbols_max: usize,
    ) -> Option<u32> {
        if let Some(number) = self.find(instrument_id, name) {
            self.symbols[number.wrapping_sub(self.first) as usize].instrument_id = instrument_id;
            return Some(number);
        }
        if self.symbols.len() >= symbols_max {
            return None;
        }
        let number = self.first.wrapping_add(self.symbols.len() as u32);
        self.symbols.push(Symbol {
            instrument_id,
            name: name.map(Box::from),
        });
        match name {
            Some(name) => self.named.insert(name.into(), number),
            None => self.nameless.insert(instrument_id, number),
        };
        debug_assert_eq!(
            self.named.len() + self.nameless.len(),
            self.symbols.len(),
            "a symbol has one name or one id"
        );
        Some(number)
    }

    /// Returns the instrument id that got the name of a symbol last.
    pub(super) fn instrument_id(&self, number: u32) -> Option<u32> {
        Some(self.symbol(number)?.instrument_id)
    }

    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.symbol(number)?.name.as_deref()
    }

    fn symbol(&self, number: u32) -> Option<&Symbol> {
        let place = number.checked_sub(self.first)?;
        self.symbols.get(place as usize)
    }
}
