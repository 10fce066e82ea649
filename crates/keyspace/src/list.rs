//! Lists: a few elements in one run of bytes, or a quicklist.

use crate::elements::{self, Elements, Encoded, PackedElements, nth_span};
use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::quicklist::{ListLimits, Quicklist, Spot, matches, without};
use crate::text::Text;
use crate::value::Object;

/// A read-only view of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List<'a> {
    Packed(PackedElements<'a>),
    Quick(&'a Quicklist),
}

impl<'a> List<'a> {
    /// Returns the elements of an entry, if it is a list.
    pub(crate) fn of(entry: &'a Entry) -> Option<Self> {
        match entry.kind() {
            Kind::PackedList => Some(List::Packed(PackedElements::new(entry.bytes()))),
            Kind::Object => match entry.object()? {
                Object::List(list) => Some(List::Quick(list)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            List::Packed(packed) => packed.len(),
            List::Quick(list) => list.len(),
        }
    }

    /// Iterates from a position towards the end, or towards the beginning if `backwards`.
    pub(crate) fn iter_from(self, index: usize, backwards: bool) -> ListIter<'a> {
        let Some(spot) = self.locate(index) else {
            return ListIter {
                list: self,
                chunk: if backwards { 0 } else { self.chunks() },
                elements: Elements::new(&[]),
                backwards,
            };
        };
        let run = self.run(spot.chunk);
        let elements = if backwards {
            Elements::new(&run[..spot.span.end])
        } else {
            Elements::new(&run[spot.span.start..])
        };
        ListIter {
            list: self,
            chunk: spot.chunk,
            elements,
            backwards,
        }
    }

    /// Passes `count` elements from a position on to `show`, or as many as there are.
    #[inline]
    pub(crate) fn show(self, start: usize, count: usize, mut show: impl FnMut(&[u8])) {
        let Some(spot) = self.locate(start) else {
            return;
        };
        let (mut at, mut left) = (spot.span.start, count);
        for chunk in spot.chunk..self.chunks() {
            let run = self.run(chunk);
            while left > 0 && at < run.len() {
                let (text, end) = elements::take(run, at);
                show(text.as_bytes());
                at = end;
                left -= 1;
            }
            if left == 0 {
                return;
            }
            at = 0;
        }
    }

    pub(crate) fn get(self, index: usize) -> Option<Text<'a>> {
        let spot = self.locate(index)?;
        Some(elements::read(self.run(spot.chunk), spot.span.start))
    }

    /// Returns the spot of the first element equal to this one.
    pub(crate) fn find(self, text: &[u8]) -> Option<Spot> {
        let wanted = Encoded::new(text);
        (0..self.chunks()).find_map(|chunk| {
            let span = elements::find(self.run(chunk), &wanted)?;
            Some(Spot { chunk, span })
        })
    }

    pub(crate) fn locate(self, index: usize) -> Option<Spot> {
        match self {
            List::Packed(packed) => (index < packed.len()).then(|| Spot {
                chunk: 0,
                span: nth_span(packed.run(), packed.len(), index),
            }),
            List::Quick(list) => list.locate(index),
        }
    }

    fn chunks(self) -> usize {
        match self {
            List::Packed(_) => 1,
            List::Quick(list) => list.chunks(),
        }
    }

    fn run(self, chunk: usize) -> &'a [u8] {
        match self {
            List::Packed(packed) => packed.run(),
            List::Quick(list) => list.run(chunk),
        }
    }
}

/// Iterator over a [`List`], in one direction.
#[derive(Clone, Debug)]
pub(crate) struct ListIter<'a> {
    list: List<'a>,
    chunk: usize,
    elements: Elements<'a>,
    backwards: bool,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        loop {
            let next = match self.backwards {
                true => self.elements.next_back(),
                false => self.elements.next(),
            };
            if next.is_some() {
                return next;
            }
            if self.backwards {
                self.chunk = self.chunk.checked_sub(1)?;
            } else {
                self.chunk += 1;
                if self.chunk >= self.list.chunks() {
                    return None;
                }
            }
            self.elements = Elements::new(self.list.run(self.chunk));
        }
    }
}

/// Returns an empty list.
pub(crate) fn empty() -> NewValue<'static> {
    NewValue::Compact(Kind::PackedList, elements::EMPTY)
}

/// Returns the number of elements.
pub(crate) fn len(entry: &Entry) -> usize {
    List::of(entry).map_or(0, List::len)
}

/// Converts a small list to a quicklist if `count` more elements of `bytes` bytes in total would
/// exceed the limits. Call this before adding elements.
pub(crate) fn expect(entry: &mut Entry, bytes: usize, count: usize, limits: ListLimits) {
    if entry.kind() != Kind::PackedList {
        return;
    }
    let packed = PackedElements::new(entry.bytes());
    let (run, len) = (packed.run(), packed.len());
    if !limits.allow(run.len() + bytes, len + count) || len + count > elements::COUNT_MAX {
        let list = Quicklist::from_run(run, len);
        entry.set_value(NewValue::Object(Box::new(Object::List(list))));
    }
}

/// Converts a quicklist to a small list if it is small enough. After a removal (`shrunk`), it must
/// be half as small, so that a few elements more or less do not convert it back and forth.
pub(crate) fn settle(entry: &mut Entry, shrunk: bool, limits: ListLimits) {
    let Some(Object::List(list)) = entry.object() else {
        expect(entry, 0, 0, limits);
        return;
    };
    let Some(run) = list.only_run() else {
        return;
    };
    let limits = if shrunk { limits.half() } else { limits };
    if limits.allow(run.len(), list.len()) && list.len() <= elements::COUNT_MAX {
        debug_assert!(list.len() > 0, "a list of one chunk has an element");
        let packed = [&(list.len() as u16).to_le_bytes(), run].concat();
        entry.set_value(NewValue::Compact(Kind::PackedList, &packed));
    }
}

pub(crate) fn push(entry: &mut Entry, front: bool, text: &[u8], limits: ListLimits) {
    debug_assert!(List::of(entry).is_some());
    let element = Encoded::new(text);
    if entry.kind() == Kind::PackedList {
        let at = if front {
            0
        } else {
            PackedElements::new(entry.bytes()).run().len()
        };
        elements::splice(entry, at..at, 0, Some(&element));
    } else if let Some(Object::List(list)) = entry.object_mut() {
        match front {
            true => list.push_front(&element, limits),
            false => list.push_back(&element, limits),
        }
    }
}

/// Adds an element to the end of a list under construction.
pub(crate) fn append(entry: &mut Entry, text: &[u8], limits: ListLimits) {
    debug_assert!(List::of(entry).is_some());
    expect(entry, Encoded::new(text).len(), 1, limits);
    push(entry, false, text, limits);
}

/// Inserts an element before or after the one at a spot.
pub(crate) fn insert(
    entry: &mut Entry,
    spot: &Spot,
    behind: bool,
    text: &[u8],
    limits: ListLimits,
) {
    debug_assert!(List::of(entry).is_some());
    let element = Encoded::new(text);
    if entry.kind() == Kind::PackedList {
        let at = if behind {
            spot.span.end
        } else {
            spot.span.start
        };
        elements::splice(entry, at..at, 0, Some(&element));
    } else if let Some(Object::List(list)) = entry.object_mut() {
        list.insert(spot, behind, &element, limits);
    }
}

pub(crate) fn replace(entry: &mut Entry, spot: &Spot, text: &[u8], limits: ListLimits) {
    debug_assert!(List::of(entry).is_some());
    let element = Encoded::new(text);
    if entry.kind() == Kind::PackedList {
        elements::splice(entry, spot.span.clone(), 1, Some(&element));
    } else if let Some(Object::List(list)) = entry.object_mut() {
        list.replace(spot, &element, limits);
    }
}

/// Removes `count` existing elements from a position on.
pub(crate) fn remove_range(entry: &mut Entry, start: usize, count: usize, limits: ListLimits) {
    debug_assert!(List::of(entry).is_some());
    if count == 0 {
        return;
    }
    if entry.kind() == Kind::PackedList {
        debug_assert!(start + count <= PackedElements::new(entry.bytes()).len());
        let packed = PackedElements::new(entry.bytes());
        let first = nth_span(packed.run(), packed.len(), start);
        let last = nth_span(packed.run(), packed.len(), start + count - 1);
        elements::splice(entry, first.start..last.end, count, None);
    } else if let Some(Object::List(list)) = entry.object_mut() {
        list.remove_range(start, count, limits);
    }
}

/// Removes up to `most` elements equal to this one, the last ones if `backwards`. Returns how many.
pub(crate) fn remove_equal(
    entry: &mut Entry,
    text: &[u8],
    backwards: bool,
    most: usize,
    limits: ListLimits,
) -> usize {
    debug_assert!(List::of(entry).is_some());
    let element = Encoded::new(text);
    if let Some(Object::List(list)) = entry.object_mut() {
        return list.remove_equal(&element, backwards, most, limits);
    }
    let packed = PackedElements::new(entry.bytes());
    let found = matches(packed.run(), &element, backwards, most);
    if !found.is_empty() {
        let count = (packed.len() - found.len()) as u16;
        let left = [&count.to_le_bytes()[..], &without(packed.run(), &found)].concat();
        entry.set_value(NewValue::Compact(Kind::PackedList, &left));
    }
    found.len()
}
