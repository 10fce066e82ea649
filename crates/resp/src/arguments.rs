//! The arguments of a request: spans in one buffer, borrowed or owned.

use std::fmt;
use std::ops::Index;

/// The arguments of one request, command name first, borrowed from the receive buffer.
///
/// Copying is cheap: it is a view of the bytes and a view of the spans.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// Creates a view; every span must lie inside `bytes`.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Arguments { bytes, spans }
    }

    /// Returns the number of arguments, including the command's name.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether the request is empty (`*0`, or an empty inline line); it gets no reply.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns argument `index`, or `None` beyond the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// Iterates over the arguments in order.
    #[inline]
    pub fn iter(&self) -> ArgumentsIter<'a> {
        ArgumentsIter {
            bytes: self.bytes,
            spans: self.spans.iter(),
        }
    }

    /// Returns the arguments from number `from` on; none if there are fewer.
    #[inline]
    pub fn tail(&self, from: usize) -> Arguments<'a> {
        Arguments {
            bytes: self.bytes,
            spans: self.spans.get(from..).unwrap_or(&[]),
        }
    }
}

impl Index<usize> for Arguments<'_> {
    type Output = [u8];

    /// Returns argument `index`. Panics beyond the last: a command's arity is checked before it
    /// runs.
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.spans[index].of(self.bytes)
    }
}

impl<'a> IntoIterator for Arguments<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgumentsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgumentsIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Arguments<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgumentsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgumentsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Arguments<'_> {
    fn eq(&self, other: &Arguments<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Arguments<'_> {}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_list(*self, formatter)
    }
}

/// Iterator over [`Arguments`], from both ends.
#[derive(Clone)]
pub struct ArgumentsIter<'a> {
    bytes: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
}

impl<'a> Iterator for ArgumentsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next().map(|span| span.of(self.bytes))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<&'a [u8]> {
        self.spans.nth(skipped).map(|span| span.of(self.bytes))
    }
}

impl DoubleEndedIterator for ArgumentsIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.spans.next_back().map(|span| span.of(self.bytes))
    }
}

impl ExactSizeIterator for ArgumentsIter<'_> {}

impl std::iter::FusedIterator for ArgumentsIter<'_> {}

impl fmt::Debug for ArgumentsIter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_list(Arguments::new(self.bytes, self.spans.as_slice()), formatter)
    }
}

/// An owned list of arguments in one buffer: a command queued by `MULTI`, called from a script, or
/// built in a test.
///
/// ```
/// use tidewire_resp::ArgumentList;
///
/// let list = ArgumentList::from_slices(&[b"SET", b"key", b"value"]);
/// assert_eq!(&list.as_arguments()[2], b"value");
/// ```
#[derive(Clone, Default)]
pub struct ArgumentList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgumentList {
    /// Returns an empty list, which owns no memory yet.
    pub fn new() -> Self {
        ArgumentList::default()
    }

    /// Returns a list of copies of `arguments`.
    pub fn from_slices(arguments: &[&[u8]]) -> Self {
        arguments.iter().copied().collect()
    }

    /// Appends a copy of `argument`.
    pub fn push(&mut self, argument: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(argument);
        self.spans.push(Span {
            start,
            length: argument.len(),
        });
    }

    /// Empties the list but keeps its memory for the next command.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Returns the list as a command's arguments.
    #[inline]
    pub fn as_arguments(&self) -> Arguments<'_> {
        Arguments::new(&self.bytes, &self.spans)
    }

    /// Returns the allocated memory in bytes, used or not.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl From<Arguments<'_>> for ArgumentList {
    /// Copies the arguments with exactly two allocations.
    fn from(arguments: Arguments<'_>) -> Self {
        let mut list = ArgumentList {
            bytes: Vec::with_capacity(arguments.iter().map(<[u8]>::len).sum()),
            spans: Vec::with_capacity(arguments.len()),
        };
        list.extend(arguments);
        list
    }
}

impl<A: AsRef<[u8]>> Extend<A> for ArgumentList {
    fn extend<I: IntoIterator<Item = A>>(&mut self, arguments: I) {
        arguments
            .into_iter()
            .for_each(|argument| self.push(argument.as_ref()));
    }
}

impl<A: AsRef<[u8]>> FromIterator<A> for ArgumentList {
    fn from_iter<I: IntoIterator<Item = A>>(arguments: I) -> Self {
        let mut list = ArgumentList::new();
        list.extend(arguments);
        list
    }
}

impl PartialEq for ArgumentList {
    fn eq(&self, other: &ArgumentList) -> bool {
        self.as_arguments() == other.as_arguments()
    }
}

impl Eq for ArgumentList {}

impl fmt::Debug for ArgumentList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_list(self.as_arguments(), formatter)
    }
}

/// The span of one argument: an offset, not an address, so that the buffer may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl Span {
    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.start + self.length]
    }
}

fn debug_list(arguments: Arguments<'_>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let texts = arguments
        .iter()
        .map(|argument| argument.escape_ascii().to_string());
    formatter.debug_list().entries(texts).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_from_both_ends_and_from_the_middle() {
        let list = ArgumentList::from_slices(&[b"MSET", b"a", b"", b"b\r\n", b"2"]);
        let arguments = list.as_arguments();
        assert_eq!(arguments.len(), 5);
        assert_eq!(&arguments[2], b"");
        assert_eq!(arguments.get(5), None);
        let mut iter = arguments.iter();
        assert_eq!(iter.next_back(), Some(&b"2"[..]));
        assert_eq!(iter.next(), Some(&b"MSET"[..]));
        assert_eq!(iter.len(), 3);
        let tail = arguments.tail(3);
        assert_eq!(tail.iter().collect::<Vec<_>>(), [&b"b\r\n"[..], b"2"]);
        assert!(arguments.tail(5).is_empty());
        assert!(arguments.tail(99).is_empty());
        assert_eq!(format!("{tail:?}"), r#"["b\\r\\n", "2"]"#);
    }

    #[test]
    fn a_copied_tail_holds_only_its_own_bytes() {
        let list = ArgumentList::from_slices(&[b"XADD", b"stream", b"*", b"field"]);
        let copy = ArgumentList::from(list.as_arguments().tail(2));
        assert_eq!(copy.as_arguments(), list.as_arguments().tail(2));
        assert_eq!(copy.bytes, b"*field");
    }

    #[test]
    fn a_cleared_list_can_be_refilled() {
        let mut list = ArgumentList::from_slices(&[b"GET", b"key"]);
        list.clear();
        assert!(list.as_arguments().is_empty());
        list.push(b"PING");
        assert_eq!(list, ArgumentList::from_slices(&[b"PING"]));
    }
}
