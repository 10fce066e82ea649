//! Arrays: slices of the caller or bytes of a message, behind one interface.

use core::fmt;

use super::text::{self, Text};
use crate::cursor::{Input, Output};
use crate::error::EncodeError;
use crate::profile;
use crate::time::FileTime;

/// An array of elements of the same width.
///
/// ```text
///  0                   4         6
///  │bytes behind it u32│count u16│width u16│ elements, count × width │
/// ```
#[derive(Clone, Copy)]
pub struct Elements<'a, T>(Repr<'a, T>);

#[derive(Clone, Copy)]
enum Repr<'a, T> {
    Slice(&'a [T]),
    /// The length is a multiple of the element's width.
    Wire(&'a [u8]),
}

/// An element type.
pub trait Element: Copy + PartialEq + fmt::Debug + sealed::OnWire {}

impl<T: Copy + PartialEq + fmt::Debug + sealed::OnWire> Element for T {}

mod sealed {
    /// The wire form of an element. The trait is sealed: the wire has five element types.
    pub trait OnWire: Sized {
        const WIDTH: usize;

        fn from_wire(bytes: &[u8]) -> Self;

        fn to_wire(self, bytes: &mut [u8]);

        /// Returns whether `to_wire` would write these bytes.
        fn is_exact(_bytes: &[u8]) -> bool {
            true
        }
    }
}

impl<'a, T: Element> Elements<'a, T> {
    /// Creates an array of the caller's elements; at most 65,535 can be encoded.
    pub const fn new(elements: &'a [T]) -> Self {
        Self(Repr::Slice(elements))
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        match self.0 {
            Repr::Slice(elements) => elements.len(),
            Repr::Wire(bytes) => bytes.len() / T::WIDTH,
        }
    }

    /// Returns whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element, counted from 0; the platform counts from 1.
    pub fn get(&self, index: usize) -> Option<T> {
        match self.0 {
            Repr::Slice(elements) => elements.get(index).copied(),
            Repr::Wire(bytes) => {
                let begin = index.checked_mul(T::WIDTH)?;
                let element = bytes.get(begin..)?.get(..T::WIDTH)?;
                Some(T::from_wire(element))
            }
        }
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> ElementsIter<'a, T> {
        ElementsIter {
            elements: *self,
            next: 0,
        }
    }

    pub(super) fn encoded_len(&self) -> Result<usize, EncodeError> {
        let count = self.len();
        if count > usize::from(u16::MAX) {
            return Err(EncodeError::TooManyElements { count });
        }
        Ok(HEADER + count * T::WIDTH)
    }

    pub(super) fn put(&self, out: &mut Output<'_>) {
        let count = self.len();
        put_header(out, count, T::WIDTH as u16, count * T::WIDTH);
        match self.0 {
            Repr::Wire(bytes) => out.put_slice(bytes),
            Repr::Slice(elements) => {
                let Some(target) = out.space(count * T::WIDTH) else {
                    return;
                };
                for (target, element) in target.chunks_exact_mut(T::WIDTH).zip(elements) {
                    element.to_wire(target);
                }
            }
        }
    }

    pub(super) fn decode(input: &mut Input<'a>) -> Option<Self> {
        let (count, body) = header(input, T::WIDTH as u16)?;
        if body.len() != usize::from(count) * T::WIDTH {
            return None;
        }
        let exact = body.chunks_exact(T::WIDTH).all(T::is_exact);
        exact.then_some(Self(Repr::Wire(body)))
    }
}

impl<T: Element> PartialEq for Elements<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Element> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`Elements::iter`].
#[derive(Clone, Debug)]
pub struct ElementsIter<'a, T: Element> {
    elements: Elements<'a, T>,
    next: usize,
}

impl<T: Element> Iterator for ElementsIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let element = self.elements.get(self.next)?;
        self.next += 1;
        Some(element)
    }
}

/// An array of texts, each after its own length.
///
/// ```text
///  0                   4         6
///  │bytes behind it u32│count u16│width u16 = 0│ (bytes u32, UTF-16LE) × count │
/// ```
#[derive(Clone, Copy)]
pub struct Texts<'a>(TextsRepr<'a>);

#[derive(Clone, Copy)]
enum TextsRepr<'a> {
    Slice(&'a [&'a str]),
    /// Exactly `count` texts.
    Wire {
        count: u16,
        bytes: &'a [u8],
    },
}

impl<'a> Texts<'a> {
    /// Creates an array of the caller's texts; at most 65,535 can be encoded.
    pub const fn new(texts: &'a [&'a str]) -> Self {
        Self(TextsRepr::Slice(texts))
    }

    /// Returns the number of texts.
    pub const fn len(&self) -> usize {
        match self.0 {
            TextsRepr::Slice(texts) => texts.len(),
            TextsRepr::Wire { count, .. } => count as usize,
        }
    }

    /// Returns whether there is no text.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the texts.
    pub fn iter(&self) -> TextsIter<'a> {
        let (texts, wire) = match self.0 {
            TextsRepr::Slice(texts) => (texts, &[][..]),
            TextsRepr::Wire { bytes, .. } => (&[][..], bytes),
        };
        TextsIter {
            texts: texts.iter(),
            wire: Input::new(wire),
        }
    }

    pub(super) fn encoded_len(&self) -> Result<usize, EncodeError> {
        let count = self.len();
        if count > usize::from(u16::MAX) {
            return Err(EncodeError::TooManyElements { count });
        }
        let body = self.body_len();
        text::check(body)?;
        Ok(HEADER + body)
    }

    fn body_len(&self) -> usize {
        match self.0 {
            TextsRepr::Wire { bytes, .. } => bytes.len(),
            TextsRepr::Slice(texts) => {
                let lengths = texts.iter().map(|text| 4 + Text::new(text).wire_len());
                lengths.fold(0, usize::saturating_add)
            }
        }
    }

    pub(super) fn put(&self, out: &mut Output<'_>) {
        put_header(
            out,
            self.len(),
            profile::ARRAY_WIDTH_STRING,
            self.body_len(),
        );
        match self.0 {
            TextsRepr::Wire { bytes, .. } => out.put_slice(bytes),
            TextsRepr::Slice(texts) => {
                for text in texts {
                    text::put_counted(&Text::new(text), out);
                }
            }
        }
    }

    pub(super) fn decode(input: &mut Input<'a>) -> Option<Self> {
        let (count, bytes) = header(input, profile::ARRAY_WIDTH_STRING)?;
        let mut rest = Input::new(bytes);
        for _ in 0..count {
            text::decode_counted(&mut rest)?;
        }
        (rest.len() == 0).then_some(Self(TextsRepr::Wire { count, bytes }))
    }
}

impl PartialEq for Texts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`Texts::iter`].
#[derive(Clone, Debug)]
pub struct TextsIter<'a> {
    texts: core::slice::Iter<'a, &'a str>,
    wire: Input<'a>,
}

impl<'a> Iterator for TextsIter<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        match self.texts.next() {
            Some(text) => Some(Text::new(text)),
            None => text::decode_counted(&mut self.wire),
        }
    }
}

/// Returns the count, and the bytes after the width, which must be `width`.
fn header<'a>(input: &mut Input<'a>, width: u16) -> Option<(u16, &'a [u8])> {
    let behind = input.u32("array length").ok()?;
    let mut body = Input::new(input.take(behind as usize, "array").ok()?);
    let count = body.u16("count").ok()?;
    let has_width = body.u16("width").ok()? == width;
    has_width.then(|| (count, body.rest()))
}

fn put_header(out: &mut Output<'_>, count: usize, width: u16, body: usize) {
    out.put((body as u32 + 4).to_le_bytes());
    out.put((count as u16).to_le_bytes());
    out.put(width.to_le_bytes());
}

const HEADER: usize = 8;
// `header` and `put_header` depend on these offsets.
const _: () = assert!(profile::ARRAY_COUNT == 4 && profile::ARRAY_WIDTH == 6);

macro_rules! number {
    ($kind:ty) => {
        impl sealed::OnWire for $kind {
            const WIDTH: usize = size_of::<$kind>();

            #[inline]
            fn from_wire(bytes: &[u8]) -> Self {
                bytes
                    .first_chunk()
                    .map_or(Self::default(), |bytes| Self::from_le_bytes(*bytes))
            }

            #[inline]
            fn to_wire(self, bytes: &mut [u8]) {
                if let Some(target) = bytes.first_chunk_mut() {
                    *target = self.to_le_bytes();
                }
            }
        }
    };
}

number!(i32);
number!(f32);
number!(f64);

impl sealed::OnWire for FileTime {
    const WIDTH: usize = 8;

    #[inline]
    fn from_wire(bytes: &[u8]) -> Self {
        let time = bytes.first_chunk();
        Self(time.map_or(0, |bytes| i64::from_le_bytes(*bytes)))
    }

    #[inline]
    fn to_wire(self, bytes: &mut [u8]) {
        if let Some(target) = bytes.first_chunk_mut() {
            *target = self.0.to_le_bytes();
        }
    }
}

impl sealed::OnWire for bool {
    const WIDTH: usize = profile::ARRAY_WIDTH_BOOLEAN as usize;

    #[inline]
    fn from_wire(bytes: &[u8]) -> Self {
        bytes.first() == Some(&profile::BOOLEAN_TRUE)
    }

    #[inline]
    fn to_wire(self, bytes: &mut [u8]) {
        bytes.fill(super::boolean_byte(self));
    }

    #[inline]
    fn is_exact(bytes: &[u8]) -> bool {
        let first = bytes.first().copied().unwrap_or(profile::BOOLEAN_FALSE);
        let known = first == profile::BOOLEAN_TRUE || first == profile::BOOLEAN_FALSE;
        known && bytes.iter().all(|byte| *byte == first)
    }
}
