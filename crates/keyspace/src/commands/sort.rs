//! SORT and SORT_RO.

use std::cmp::Ordering;
use std::ops::Range;

use tidewire_resp::Arguments;
use tidewire_resp::number::parse_double;

use super::options::is;
use super::{Call, finding};
use crate::entry::Entry;
use crate::error::{CommandError, Result};
use crate::fields::FoundField;
use crate::key::Key;
use crate::list;
use crate::observer::Event;
use crate::text::Text;
use crate::value::ValueRef;
use crate::view::View;

pub(super) fn sort(call: &mut Call<'_, '_, '_>) -> Result {
    let options = SortOptions::parse(call, true)?;
    let Some(to) = options.store.map(|at| call.key(at)) else {
        return reply_sorted(call, &options);
    };
    call.view.check_writable(to.bytes)?;
    store_sorted(call, &options, to)
}

pub(super) fn sort_ro(call: &mut Call<'_, '_, '_>) -> Result {
    let options = SortOptions::parse(call, false)?;
    reply_sorted(call, &options)
}

/// Returns whether patterns name keys that only the elements determine.
pub(super) fn needs_all_shards(arguments: Arguments<'_>) -> bool {
    finding::sort_patterns(arguments).names_keys
}

fn reply_sorted(call: &mut Call<'_, '_, '_>, options: &SortOptions<'_>) -> Result {
    let sorted = Sorted::new(call, options)?;
    call.reply
        .array(sorted.shown.len() * options.get.len().max(1));
    let reply = &mut *call.reply;
    sorted.show(&mut call.view, options, |text| match text {
        Some(text) => reply.bulk(text),
        None => reply.null(),
    });
    Ok(())
}

fn store_sorted(call: &mut Call<'_, '_, '_>, options: &SortOptions<'_>, to: Key<'_>) -> Result {
    let sorted = Sorted::new(call, options)?;
    let count = sorted.shown.len() * options.get.len().max(1);
    let limits = call.view.keyspace.list_limits();
    let mut stored = Entry::new(to.hash, to.bytes, list::empty(), false);
    sorted.show(&mut call.view, options, |text| {
        list::append(&mut stored, text.unwrap_or_default(), limits);
    });
    debug_assert_eq!(list::len(&stored), count, "every element shown is stored");
    call.store_result(to, stored, list::len, Event::SortStore);
    Ok(())
}

struct SortOptions<'a> {
    /// The sort key, if it is not the element itself.
    by: Option<Pattern<'a>>,
    /// BY named no key: the elements keep their own order.
    unsorted: bool,
    descending: bool,
    alphabetic: bool,
    skipped: i64,
    /// Maximum number of results; negative: all.
    count: i64,
    get: Vec<Pattern<'a>>,
    /// The argument with the destination key.
    store: Option<usize>,
}

impl<'a> SortOptions<'a> {
    fn parse(call: &Call<'a, '_, '_>, may_store: bool) -> Result<Self> {
        let mut options = SortOptions {
            by: None,
            unsorted: false,
            descending: false,
            alphabetic: false,
            skipped: 0,
            count: -1,
            get: Vec::new(),
            store: None,
        };
        let mut at = 2;
        while at < call.arguments.len() {
            let more = call.arguments.len() - at - 1;
            match call.argument(at) {
                option if is(option, "asc") => options.descending = false,
                option if is(option, "desc") => options.descending = true,
                option if is(option, "alpha") => options.alphabetic = true,
                option if is(option, "limit") && more >= 2 => {
                    options.skipped = call.integer(at + 1)?;
                    options.count = call.integer(at + 2)?;
                    at += 2;
                }
                option if is(option, "store") && more >= 1 && may_store => {
                    at += 1;
                    options.store = finding::sort_store(call.arguments).next();
                }
                option if is(option, "by") && more >= 1 => {
                    at += 1;
                    let pattern = call.argument(at);
                    options.unsorted |= !pattern.contains(&b'*');
                    options.by = Some(Pattern::parse(pattern));
                }
                option if is(option, "get") && more >= 1 => {
                    at += 1;
                    options.get.push(Pattern::parse(call.argument(at)));
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    /// Returns which of `length` elements are wanted.
    fn wanted(&self, length: usize) -> Range<usize> {
        let within = |number: i64| usize::try_from(number).map_or(length, |n| n.min(length));
        let start = within(self.skipped.max(0));
        start..start.saturating_add(within(self.count)).min(length)
    }
}

/// The name of a key or of a hash field, with a placeholder for the element.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// A pattern without a placeholder: it names nothing.
    Nothing,
    Key {
        before: &'a [u8],
        after: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    fn parse(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Pattern::Element;
        }
        let Some(place) = pattern.iter().position(|&byte| byte == b'*') else {
            return Pattern::Nothing;
        };
        let (before, after) = (&pattern[..place], &pattern[place + 1..]);
        let arrow = after.windows(2).position(|bytes| bytes == b"->");
        match arrow.filter(|&arrow| arrow + 2 < after.len()) {
            Some(arrow) => Pattern::Key {
                before,
                after: &after[..arrow],
                field: Some(&after[arrow + 2..]),
            },
            None => Pattern::Key {
                before,
                after,
                field: None,
            },
        }
    }

    /// Passes the string that the pattern names for an element to `show`, if it exists.
    fn look_up<R>(
        self,
        view: &mut View<'_, '_>,
        element: &[u8],
        show: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let (name, field) = match self {
            Pattern::Element => return show(Some(element)),
            Pattern::Nothing => return show(None),
            Pattern::Key {
                before,
                after,
                field,
            } => ([before, element, after].concat(), field),
        };
        let key = view.key(&name);
        let Some(field) = field else {
            let text = view.read(key).and_then(ValueRef::text);
            return show(text.as_ref().map(Text::as_bytes));
        };
        let fields = view.read(key).and_then(ValueRef::fields);
        match fields.map_or(FoundField::Missing, |fields| fields.find(field)) {
            FoundField::Value(value) => return show(Some(value)),
            FoundField::Missing => {}
            FoundField::Due => view.expire_field(key, field),
        }
        show(None)
    }
}

/// The elements of a key. The wanted ones are sorted.
struct Sorted {
    /// The texts of the elements, one after another, and the texts they are sorted by.
    bytes: Vec<u8>,
    elements: Vec<Element>,
    shown: Range<usize>,
}

struct Element {
    text: Range<usize>,
    weight: Weight,
}

/// The sort key of an element. All elements of one command have the same variant.
enum Weight {
    Number(f64),
    Own,
    /// `None` sorts first.
    Text(Option<Range<usize>>),
}

impl Sorted {
    fn new(call: &mut Call<'_, '_, '_>, options: &SortOptions<'_>) -> Result<Self> {
        let mut sorted = Sorted {
            bytes: Vec::new(),
            elements: Vec::new(),
            shown: 0..0,
        };
        let key = call.key(1);
        call.view.counts_reads = true;
        let Some(value) = call.view.read(key) else {
            return Ok(sorted);
        };
        let (in_order, length) = sorted.gather(value, options)?;
        if in_order {
            sorted.shown = 0..sorted.elements.len();
            return Ok(sorted);
        }
        sorted.shown = options.wanted(length);
        // A set has no order of its own. Without BY, its members are sorted by text.
        let by = options.by.filter(|_| !options.unsorted);
        let alphabetic = options.alphabetic || options.unsorted;
        sorted.weigh(&mut call.view, by, alphabetic)?;
        sorted.sort(options.descending);
        Ok(sorted)
    }

    /// Collects the elements. If they have an order of their own and it is wanted, collects only
    /// the wanted ones, in this order.
    fn gather(&mut self, value: ValueRef<'_>, options: &SortOptions<'_>) -> Result<(bool, usize)> {
        let unsorted = options.unsorted;
        if let Some(list) = value.list() {
            let wanted = options.wanted(list.len());
            match (unsorted, options.descending) {
                (false, _) => self.extend(list.iter_from(0, false)),
                (true, _) if wanted.is_empty() => {}
                (true, false) => {
                    self.extend(list.iter_from(wanted.start, false).take(wanted.len()))
                }
                (true, true) => {
                    let last = list.len() - 1 - wanted.start;
                    self.extend(list.iter_from(last, true).take(wanted.len()));
                }
            }
            Ok((unsorted, list.len()))
        } else if let Some(members) = value.members() {
            self.extend(members.iter());
            Ok((false, members.len()))
        } else if let Some(scored) = value.sorted_set() {
            let wanted = options.wanted(scored.len());
            let member = |(member, _)| member;
            match (unsorted, options.descending) {
                (false, _) => self.extend(scored.iter().map(member)),
                (true, false) => self.extend(scored.range(wanted).map(member)),
                (true, true) => {
                    let ranks = scored.len() - wanted.end..scored.len() - wanted.start;
                    self.extend(scored.range(ranks).rev().map(member));
                }
            }
            Ok((unsorted, scored.len()))
        } else {
            Err(CommandError::WrongType)
        }
    }

    fn extend<'t>(&mut self, texts: impl Iterator<Item = Text<'t>>) {
        for text in texts {
            let text = self.keep(text.as_bytes());
            let weight = Weight::Own;
            self.elements.push(Element { text, weight });
        }
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        start..self.bytes.len()
    }

    fn weigh(
        &mut self,
        view: &mut View<'_, '_>,
        by: Option<Pattern<'_>>,
        alphabetic: bool,
    ) -> Result {
        if alphabetic && by.is_none() {
            return Ok(());
        }
        let by = by.unwrap_or(Pattern::Element);
        let Sorted {
            bytes, elements, ..
        } = self;
        let mut weights = Vec::new();
        for element in elements.iter_mut() {
            let own = &bytes[element.text.clone()];
            element.weight = by
                .look_up(view, own, |text| match text {
                    Some(text) if alphabetic => {
                        let start = bytes.len() + weights.len();
                        weights.extend_from_slice(text);
                        Some(Weight::Text(Some(start..start + text.len())))
                    }
                    None if alphabetic => Some(Weight::Text(None)),
                    Some(text) => score(text).map(Weight::Number),
                    None => Some(Weight::Number(0.0)),
                })
                .ok_or(NOT_A_SCORE)?;
        }
        bytes.append(&mut weights);
        Ok(())
    }

    /// Sorts the wanted elements into their positions.
    fn sort(&mut self, descending: bool) {
        let (bytes, shown) = (&self.bytes, self.shown.clone());
        let text = |range: &Range<usize>| &bytes[range.clone()];
        let order = |one: &Element, other: &Element| {
            let order = match (&one.weight, &other.weight) {
                (Weight::Number(weight), Weight::Number(other_weight)) => weight
                    .partial_cmp(other_weight)
                    .unwrap_or(Ordering::Equal)
                    .then_with(|| text(&one.text).cmp(text(&other.text))),
                (Weight::Text(weight), Weight::Text(other_weight)) => weight
                    .as_ref()
                    .map(text)
                    .cmp(&other_weight.as_ref().map(text)),
                _ => text(&one.text).cmp(text(&other.text)),
            };
            if descending { order.reverse() } else { order }
        };
        if shown.is_empty() {
            return;
        }
        if shown.end < self.elements.len() {
            self.elements.select_nth_unstable_by(shown.end, order);
        }
        self.elements[..shown.end].sort_by(order);
    }

    /// Replies the results of each element.
    fn show(
        &self,
        view: &mut View<'_, '_>,
        options: &SortOptions<'_>,
        mut show: impl FnMut(Option<&[u8]>),
    ) {
        for element in &self.elements[self.shown.clone()] {
            let text = &self.bytes[element.text.clone()];
            if options.get.is_empty() {
                show(Some(text));
            }
            for pattern in &options.get {
                pattern.look_up(view, text, &mut show);
            }
        }
    }
}

/// Parses a text as a number; an empty text counts as 0.
fn score(text: &[u8]) -> Option<f64> {
    match text {
        // A C string ends at its first zero.
        [] | [0, ..] => Some(0.0),
        _ => parse_double(text).filter(|score| !score.is_nan()),
    }
}

const NOT_A_SCORE: CommandError =
    CommandError::Refused("ERR One or more scores can't be converted into double");
