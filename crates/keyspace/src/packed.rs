//! Small hashes: pairs of field and value, one after another, in one run of bytes.
//!
//! ```text
//!  ┌───────────┬──────────────┬───────┬──────────────┬───────┬───
//!  │ count u16 │ field length │ field │ value length │ value │ …      length: one byte below 255,
//!  └───────────┴──────────────┴───────┴──────────────┴───────┴───             else 255 and a u32
//!
//!  with deadlines
//!  ┌───────────┬───────────┬──────────────┬───────┬──────────────┬───────┬───────────────┬───
//!  │ count u16 │ timer u32 │ field length │ field │ value length │ value │ deadline 6 B  │ …
//!  └───────────┴───────────┴──────────────┴───────┴──────────────┴───────┴───────────────┴───
//! ```
//!
//! With TTLs, the pairs are sorted by deadline; those without one (a zero) come last. So the first
//! pair has the earliest deadline, and expired pairs are at the start of the run.

use crate::encoding::{CompactBytes, Kind};

/// The bytes of an empty hash.
pub(crate) const EMPTY: &[u8] = &[0, 0];
/// The greatest count that a packed hash can store.
pub(crate) const FIELDS_MAX: usize = u16::MAX as usize;

/// A read-only view of a packed hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedFields<'a> {
    bytes: &'a [u8],
    timed: bool,
}

/// A field with its value and deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub(crate) field: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Milliseconds since the UNIX epoch.
    pub(crate) deadline_ms: Option<i64>,
}

/// The position of a pair in the packed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldSpan {
    start: usize,
    value_start: usize,
    /// Position of the deadline, or where it would be.
    value_end: usize,
    end: usize,
}

impl Pair<'_> {
    /// Returns whether it has expired.
    #[inline]
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        self.deadline_ms
            .is_some_and(|deadline_ms| deadline_ms <= now_ms)
    }
}

impl<'a> PackedFields<'a> {
    /// Returns the packed hash of an entry, if it is one.
    #[inline]
    pub(crate) fn of(entry: &'a impl CompactBytes) -> Option<Self> {
        let timed = match entry.kind() {
            Kind::PackedHash => false,
            Kind::PackedHashTimed => true,
            _ => return None,
        };
        let bytes = entry.bytes();
        debug_assert!(bytes.len() >= head_bytes(timed));
        Some(PackedFields { bytes, timed })
    }

    /// Returns whether there is room for TTLs.
    pub(crate) fn is_timed(self) -> bool {
        self.timed
    }

    /// Returns the number of pairs, including expired ones.
    pub(crate) fn len(self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    pub(crate) fn iter(self) -> PackedFieldsIter<'a> {
        PackedFieldsIter {
            bytes: self.bytes,
            at: head_bytes(self.timed),
            timed: self.timed,
        }
    }

    #[inline(always)]
    pub(crate) fn find(self, field: &[u8]) -> Option<(FieldSpan, Pair<'a>)> {
        let mut pairs = self.iter();
        loop {
            let start = pairs.at;
            let pair = pairs.next()?;
            if pair.field == field {
                let value_end = pairs.at - tail_bytes(self.timed);
                let span = FieldSpan {
                    start,
                    value_start: value_end - pair.value.len() - length_bytes(pair.value.len()),
                    value_end,
                    end: pairs.at,
                };
                debug_assert!(span.start < span.value_start && span.value_start < span.value_end);
                return Some((span, pair));
            }
        }
    }

    /// Returns the earliest deadline.
    pub(crate) fn earliest_ms(self) -> Option<i64> {
        if !self.timed {
            return None;
        }
        self.iter().next()?.deadline_ms
    }

    /// Returns the timer's node for the earliest deadline.
    pub(crate) fn timer(self) -> Option<u32> {
        if !self.timed {
            return None;
        }
        let bytes = self.bytes[COUNT..TIMED_HEAD].try_into();
        let timer = u32::from_le_bytes(bytes.expect("four bytes"));
        (timer != NO_TIMER).then_some(timer)
    }
}

/// Appends a pair to bytes that began as [`EMPTY`]. The caller checks that the field is new.
pub(crate) fn push(bytes: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    for part in [field, value] {
        bytes.extend_from_slice(Length::new(part.len()).as_bytes());
        bytes.extend_from_slice(part);
    }
    debug_assert!(
        bytes[..COUNT] != [u8::MAX; COUNT],
        "the caller checks FIELDS_MAX"
    );
    let count = u16::from_le_bytes([bytes[0], bytes[1]]) + 1;
    bytes[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Appends a pair without a deadline to a packed entry. The field must be new.
pub(crate) fn append(entry: &mut impl CompactBytes, field: &[u8], value: &[u8]) {
    let end = entry.bytes().len();
    let lengths = [Length::new(field.len()), Length::new(value.len())];
    let tail = tail_bytes(is_timed(entry));
    entry.splice(
        end,
        0,
        &[
            lengths[0].as_bytes(),
            field,
            lengths[1].as_bytes(),
            value,
            &encode_deadline(None)[..tail],
        ],
    );
    add_to_count(entry, 1);
}

/// Replaces the value of a pair, which keeps its TTL.
pub(crate) fn replace(entry: &mut impl CompactBytes, span: FieldSpan, value: &[u8]) {
    debug_assert!(span.value_start <= span.value_end && span.value_end <= span.end);
    let length = Length::new(value.len());
    entry.splice(
        span.value_start,
        span.value_end - span.value_start,
        &[length.as_bytes(), value],
    );
}

/// Removes a pair.
pub(crate) fn remove(entry: &mut impl CompactBytes, span: FieldSpan) {
    debug_assert!(span.start < span.end && span.end <= entry.bytes().len());
    entry.splice(span.start, span.end - span.start, &[]);
    add_to_count(entry, -1);
}

/// Makes room for deadlines.
pub(crate) fn make_timed(entry: &mut impl CompactBytes) {
    let Some(packed) = PackedFields::of(entry).filter(|packed| !packed.timed) else {
        return;
    };
    let mut bytes = Vec::with_capacity(packed.bytes.len() + 4 + packed.len() * DEADLINE);
    bytes.extend_from_slice(&packed.bytes[..COUNT]);
    bytes.extend_from_slice(&NO_TIMER.to_le_bytes());
    let mut pairs = packed.iter();
    let mut start = pairs.at;
    while pairs.next().is_some() {
        bytes.extend_from_slice(&packed.bytes[start..pairs.at]);
        bytes.extend_from_slice(&encode_deadline(None));
        start = pairs.at;
    }
    debug_assert_eq!(
        start,
        packed.bytes.len(),
        "every pair has got a deadline's room"
    );
    entry.replace(Kind::PackedHashTimed, &bytes);
}

/// Sets or clears the deadline of a pair, in an entry prepared by [`make_timed`]. Moves the pair to
/// its sorted position.
pub(crate) fn set_deadline(
    entry: &mut impl CompactBytes,
    span: FieldSpan,
    deadline_ms: Option<i64>,
) {
    let packed = PackedFields::of(entry).expect("the span is that of a packed hash");
    debug_assert!(packed.timed);
    // Among equal deadlines, the newest comes first, as in Redis.
    let stays_before = |pair: &Pair<'_>| match (pair.deadline_ms, deadline_ms) {
        (Some(other_ms), Some(own_ms)) => other_ms < own_ms,
        (other, own) => other.is_some() || own.is_none(),
    };
    let mut pairs = packed.iter();
    let mut target = pairs.at;
    while let Some(pair) = pairs.next() {
        if target != span.start && !stays_before(&pair) {
            break;
        }
        target = pairs.at;
    }
    debug_assert_eq!(span.end - span.value_end, DEADLINE);
    let bytes = entry.bytes_mut();
    bytes[span.value_end..span.end].copy_from_slice(&encode_deadline(deadline_ms));
    let length = span.end - span.start;
    if target > span.start {
        bytes[span.start..target].rotate_left(length);
    } else {
        bytes[target..span.end].rotate_right(length);
    }
}

/// Removes up to `count_max` expired pairs. Returns how many.
pub(crate) fn remove_due(
    entry: &mut impl CompactBytes,
    now_ms: i64,
    count_max: usize,
    gone: &mut dyn FnMut(&[u8]),
) -> usize {
    let Some(packed) = PackedFields::of(entry).filter(|packed| packed.timed) else {
        return 0;
    };
    let mut pairs = packed.iter();
    let (mut count, mut end) = (0, TIMED_HEAD);
    let mut last_ms = None;
    while count < count_max
        && let Some(pair) = pairs.next().filter(|pair| pair.is_due(now_ms))
    {
        debug_assert!(last_ms <= pair.deadline_ms, "the earliest come first");
        last_ms = pair.deadline_ms;
        gone(pair.field);
        count += 1;
        end = pairs.at;
    }
    if count > 0 {
        entry.splice(TIMED_HEAD, end - TIMED_HEAD, &[]);
        add_to_count(entry, -(count as i32));
    }
    count
}

/// Stores the timer's node for the earliest deadline.
pub(crate) fn set_timer(entry: &mut impl CompactBytes, timer: Option<u32>) {
    debug_assert!(is_timed(entry));
    debug_assert_ne!(timer, Some(NO_TIMER), "a wheel has fewer nodes");
    let timer = timer.unwrap_or(NO_TIMER);
    entry.bytes_mut()[COUNT..TIMED_HEAD].copy_from_slice(&timer.to_le_bytes());
}

fn is_timed(entry: &impl CompactBytes) -> bool {
    entry.kind() == Kind::PackedHashTimed
}

fn head_bytes(timed: bool) -> usize {
    if timed { TIMED_HEAD } else { COUNT }
}

fn tail_bytes(timed: bool) -> usize {
    if timed { DEADLINE } else { 0 }
}

fn encode_deadline(deadline_ms: Option<i64>) -> [u8; DEADLINE] {
    // Zero means no deadline. Later deadlines are clamped to the latest possible one.
    let number = deadline_ms.map_or(0, |deadline_ms| deadline_ms.clamp(1, DEADLINE_MS_MAX));
    let mut bytes = [0; DEADLINE];
    bytes.copy_from_slice(&number.to_le_bytes()[..DEADLINE]);
    bytes
}

fn decode_deadline(bytes: &[u8]) -> Option<i64> {
    let mut number = [0; 8];
    number[..DEADLINE].copy_from_slice(bytes);
    let deadline_ms = i64::from_le_bytes(number);
    (deadline_ms != 0).then_some(deadline_ms)
}

fn add_to_count(entry: &mut impl CompactBytes, change: i32) {
    let bytes = entry.bytes_mut();
    let count = i32::from(u16::from_le_bytes([bytes[0], bytes[1]])) + change;
    let count = u16::try_from(count).expect("the caller checks FIELDS_MAX");
    bytes[..COUNT].copy_from_slice(&count.to_le_bytes());
}

/// Iterator over the pairs of a packed hash: those with a TTL first, then in the order of their
/// first SET.
#[derive(Clone, Debug)]
pub(crate) struct PackedFieldsIter<'a> {
    bytes: &'a [u8],
    at: usize,
    timed: bool,
}

impl<'a> PackedFieldsIter<'a> {
    fn part(&mut self) -> &'a [u8] {
        let first = usize::from(self.bytes[self.at]);
        self.at += 1;
        let mut length = first;
        if first == LONG {
            let bytes = self.bytes[self.at..self.at + 4]
                .try_into()
                .expect("four bytes");
            length = u32::from_le_bytes(bytes) as usize;
            self.at += 4;
        }
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }
}

impl<'a> Iterator for PackedFieldsIter<'a> {
    type Item = Pair<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Pair<'a>> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let (field, value) = (self.part(), self.part());
        let mut deadline_ms = None;
        if self.timed {
            self.at += DEADLINE;
            deadline_ms = decode_deadline(&self.bytes[self.at - DEADLINE..self.at]);
        }
        Some(Pair {
            field,
            value,
            deadline_ms,
        })
    }
}

struct Length {
    bytes: [u8; 5],
    count: usize,
}

impl Length {
    fn new(length: usize) -> Self {
        let mut bytes = [LONG as u8; 5];
        if length < LONG {
            bytes[0] = length as u8;
        } else {
            bytes[1..].copy_from_slice(&(length as u32).to_le_bytes());
        }
        Length {
            bytes,
            count: length_bytes(length),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

fn length_bytes(length: usize) -> usize {
    if length < LONG { 1 } else { 5 }
}

const COUNT: usize = 2;
/// Bytes of count and timer.
const TIMED_HEAD: usize = COUNT + 4;
const DEADLINE: usize = 6;
/// The latest deadline that can be stored.
pub(crate) const DEADLINE_MS_MAX: i64 = (1 << (8 * DEADLINE)) - 1;
const NO_TIMER: u32 = u32::MAX;
const LONG: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, NewValue};

    fn empty() -> Entry {
        Entry::new(1, b"k", NewValue::Compact(Kind::PackedHash, EMPTY), false)
    }

    fn packed(entry: &Entry) -> PackedFields<'_> {
        PackedFields::of(entry).expect("a packed hash")
    }

    fn span(entry: &Entry, field: &[u8]) -> FieldSpan {
        packed(entry).find(field).expect("a field").0
    }

    #[test]
    fn pairs_keep_their_order_through_replacing_and_removing() {
        for timed in [false, true] {
            let mut entry = empty();
            if timed {
                make_timed(&mut entry);
            }
            let long = vec![b'v'; 300];
            append(&mut entry, b"a", b"1");
            append(&mut entry, b"b", &long);
            append(&mut entry, b"", b"");
            let place = span(&entry, b"b");
            replace(&mut entry, place, b"short");
            let place = span(&entry, b"a");
            replace(&mut entry, place, &long);
            let pairs: Vec<_> = packed(&entry).iter().map(|p| (p.field, p.value)).collect();
            assert_eq!(
                pairs,
                [(&b"a"[..], &long[..]), (b"b", b"short"), (b"", b"")]
            );
            assert_eq!(packed(&entry).len(), 3);
            let place = span(&entry, b"a");
            remove(&mut entry, place);
            assert_eq!(packed(&entry).iter().count(), 2);
            assert_eq!(packed(&entry).len(), 2);
        }
    }

    #[test]
    fn pairs_are_sorted_by_deadline() {
        let mut entry = empty();
        for (field, value) in [("a", "1"), ("b", "22"), ("c", ""), ("d", "4444")] {
            append(&mut entry, field.as_bytes(), value.as_bytes());
        }
        assert_eq!(packed(&entry).earliest_ms(), None);
        make_timed(&mut entry);
        set_timer(&mut entry, Some(7));
        let mut seed = 1u64;
        let mut model = [("a", None), ("b", None), ("c", None), ("d", None)];
        for _ in 0..1000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 40) as usize % model.len();
            let deadline_ms = Some((seed >> 50) as i64 % 50).filter(|&ms| ms > 0);
            let (field, _) = model[at];
            let place = span(&entry, field.as_bytes());
            set_deadline(&mut entry, place, deadline_ms);
            model[at].1 = deadline_ms;
            for (field, deadline_ms) in model {
                let (_, pair) = packed(&entry).find(field.as_bytes()).expect("a field");
                assert_eq!(pair.deadline_ms, deadline_ms);
            }
            let order: Vec<_> = packed(&entry).iter().map(|p| p.deadline_ms).collect();
            assert!(order.is_sorted_by_key(|ms| ms.unwrap_or(i64::MAX)));
        }
        assert_eq!((packed(&entry).len(), packed(&entry).timer()), (4, Some(7)));
        for (field, ms) in [("a", 5), ("b", 3), ("c", 9)] {
            let place = span(&entry, field.as_bytes());
            set_deadline(&mut entry, place, Some(ms));
        }
        let place = span(&entry, b"d");
        set_deadline(&mut entry, place, None);
        assert_eq!(remove_due(&mut entry, 2, 10, &mut |_| ()), 0);
        assert_eq!(remove_due(&mut entry, 5, 1, &mut |_| ()), 1);
        assert_eq!(remove_due(&mut entry, 5, 10, &mut |_| ()), 1);
        let fields: Vec<_> = packed(&entry).iter().map(|pair| pair.field).collect();
        assert_eq!(fields, [b"c", b"d"]);
    }
}
