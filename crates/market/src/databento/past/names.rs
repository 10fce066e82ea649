//! The symbols of an earlier run of the hub, by the topics of this one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_feed::wire::{Definition, Message, UNDEFINED_PRICE};

use crate::board::VENUE_SEPARATOR;
use crate::market::Market;
use crate::topic::Topic;

/// A topic of this run that has the values of one of an earlier run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) number: u32,
    /// See [`super::Told::is_of_venue`].
    pub(super) is_of_venue: bool,
    /// See [`super::Told::repeats`].
    pub(super) repeats: bool,
}

/// Returns the topic with the values of a symbol of an earlier run. One that no source of this run
/// has defined yet is defined as it was, so that its records have a number. Of a symbol that had
/// several venues there, and has none here yet, that is one of them: the first in `venues`. Returns
/// `None` for the others, and if the board has no room.
pub(super) fn number_of(
    market: &Market,
    definition: &Definition,
    venues: &mut HashMap<u32, Box<str>>,
) -> Option<Number> {
    let name = definition.name.as_str();
    let number = |topic: Arc<Topic>, is_of_venue: bool| {
        let number = topic.number;
        Some(Number {
            number,
            is_of_venue,
            repeats: definition.repeats,
        })
    };
    if let Some(topic) = market.board.find(name.as_bytes()) {
        let is_of_venue = topic.symbol() != name.as_bytes();
        return number(topic, is_of_venue);
    }
    let symbol = name.rsplit_once(VENUE_SEPARATOR);
    let symbol = symbol.and_then(|(symbol, _)| market.board.named(symbol));
    match symbol {
        None => number(define(market, definition)?, false),
        Some(symbol) if symbol.facts().venue.is_none() && !symbol.is_consolidated() => {
            let first = venues.entry(symbol.number).or_insert_with(|| name.into());
            let is_first = **first == *name;
            is_first.then(|| number(symbol, true))?
        }
        Some(_) => None,
    }
}

/// Defines a symbol. Its source may come back, and defines it again.
#[cold]
fn define(market: &Market, definition: &Definition) -> Option<Arc<Topic>> {
    let room = market.config.topics_max / ROOM_PARTS;
    if definition.name.is_empty()
        || market.board.count() as usize + room >= market.config.topics_max
    {
        return None;
    }
    let topic = market.board.define(&Definition {
        // That of an earlier session.
        open: UNDEFINED_PRICE,
        ..*definition
    });
    let topic = topic.ok()?;
    let mut journal = market.journal.lock();
    if topic.defined_sequence() == 0 {
        topic.defined_at(journal.append(&Message::Definition(topic.definition())));
        let next = journal.next_sequence();
        market.journal_next.store(next, Ordering::Release);
    }
    drop(journal);
    let subscriptions = &market.post.subscriptions;
    market.books.defined(&topic, subscriptions);
    market.bars.defined(&topic, subscriptions);
    market.tell_all_feed_lanes();
    Some(topic)
}

/// One of these parts of the board is left to sources: a recording may have the symbols of years.
const ROOM_PARTS: usize = 4;
