//! Symbols that a source does not give any more, although its session goes on.
//!
//! A hub that another one follows may take permissions from its user. It then sends a snapshot of
//! all that may still be read, and says nothing of the rest. What such a snapshot does not name is
//! stale until the source gives a value of it again. A source may have a million symbols, so they
//! are looked at in slices.

use std::sync::Arc;

use tidewire_feed::server::Steps;
use tidewire_lastvalue::NumberSet;

use super::Batch;
use crate::topic::Topic;

/// What is left of looking for symbols that a snapshot of everything did not name.
#[derive(Debug)]
pub(super) struct Unnamed {
    named: NumberSet,
    /// The next symbol.
    next: u32,
}

impl Unnamed {
    /// Notes that the source says something of a symbol.
    pub(super) fn is_read(&mut self, symbol: u32) {
        self.named.insert(symbol);
    }
}

impl Batch<'_> {
    /// Begins to mark the symbols that were not defined since a snapshot of everything began.
    pub(super) fn end_unnamed(&mut self) {
        let Some(named) = self.work.certainties.named.take() else {
            return;
        };
        let known = self.symbols.len();
        let unnamed = Box::new(Unnamed { named, next: 0 });
        self.work.certainties.unnamed = Some(unnamed);
        if known <= self.work.at_once {
            self.sweep(&mut Steps::new(u64::MAX));
        }
    }

    /// Goes on with that, as far as `steps` goes.
    pub(super) fn take_unnamed(&mut self, steps: &mut Steps) {
        while !steps.are_used_up()
            && let Some(unnamed) = &mut self.work.certainties.unnamed
        {
            let Some(symbol) = self.symbols.next_from(unnamed.next) else {
                self.work.certainties.unnamed = None;
                return;
            };
            unnamed.next = symbol + 1;
            let is_named = unnamed.named.contains(symbol);
            steps.spend(SYMBOL_STEPS);
            if !is_named {
                self.end_symbol(symbol, steps);
            }
        }
    }

    /// Marks the topics of a symbol as stale until the source gives a value of it again. Its name
    /// keeps its number.
    fn end_symbol(&mut self, symbol: u32, steps: &mut Steps) {
        let Some(known) = self.symbols.get(symbol) else {
            return;
        };
        let venues = known.venues().map(|(_, topic)| topic.clone());
        let mut topics: Vec<Arc<Topic>> = self.own_name(known).into_iter().chain(venues).collect();
        topics.retain(|topic| self.work.writer.slot(topic.number).is_some());
        for topic in &topics {
            self.work.end_topic(topic, steps);
        }
        self.symbols.retain_of(symbol, |_| false);
        self.work.follow_all(&topics);
    }
}

/// Steps of a look at a symbol, which may have to come from memory.
const SYMBOL_STEPS: u64 = 8;
