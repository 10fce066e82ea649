//! Commands on bits.

use std::ops::Range;

use tidewire_resp::number::parse_integer;

use super::Call;
use super::options::{is, text_positions};
use super::strings::make_bytes;
use crate::bitmap::{self, BitOperation};
use crate::entry::{Entry, NewValue};
use crate::error::{CommandError, Result};
use crate::key::Key;
use crate::observer::Event;
use crate::table::Place;
use crate::view::Expiry;

pub(super) fn setbit(call: &mut Call<'_, '_, '_>) -> Result {
    let offset = bit_offset(call, call.argument(2))?;
    let bit = match parse_integer(call.argument(3)) {
        Some(bit @ (0 | 1)) => bit as u64,
        _ => return Err(CommandError::Refused(NOT_A_BIT)),
    };
    let key = call.key(1);
    let (place, grown) = make_room(call, key, offset)?;
    let bytes = call.view.entry_mut(key, place).bytes_mut();
    let old = bitmap::field(bytes, offset, 1);
    if grown || old != bit {
        bitmap::set_field(bytes, offset, 1, bit);
        call.view.changed(key, place, Event::SetBit);
    }
    call.reply.integer(old as i64);
    Ok(())
}

pub(super) fn getbit(call: &mut Call<'_, '_, '_>) -> Result {
    let offset = bit_offset(call, call.argument(2))?;
    let key = call.key(1);
    let text = call.view.read_text(key)?;
    let bit = text.map_or(0, |text| bitmap::field(text.as_bytes(), offset, 1));
    call.reply.integer(bit as i64);
    Ok(())
}

pub(super) fn bitcount(call: &mut Call<'_, '_, '_>) -> Result {
    let bounds = match call.arguments.len() {
        2 => None,
        4 | 5 => Some((call.integer(2)?, call.integer(3)?, unit_bits(call, 4)?)),
        _ => return Err(CommandError::Syntax),
    };
    let key = call.key(1);
    let text = call.view.read_text(key)?;
    let bytes = text.as_ref().map_or(&b""[..], |text| text.as_bytes());
    let count = match bounds {
        None => bitmap::count(bytes),
        // Without this case, two ends before the start in the wrong order would mean the first
        // byte.
        Some((start, end, _)) if start < 0 && end < 0 && start > end => 0,
        Some((start, end, unit)) => bit_range(bytes.len(), start, end, unit)
            .map_or(0, |bits| bitmap::count_range(bytes, bits)),
    };
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn bitpos(call: &mut Call<'_, '_, '_>) -> Result {
    let bit = match call.integer(2)? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(CommandError::Refused(NOT_ONE_OR_ZERO)),
    };
    let count = call.arguments.len();
    if count > 6 {
        return Err(CommandError::Syntax);
    }
    let start = if count > 3 { call.integer(3)? } else { 0 };
    let unit = unit_bits(call, 5)?;
    let end = if count > 4 { call.integer(4)? } else { -1 };
    let key = call.key(1);
    let Some(text) = call.view.read_text(key)? else {
        call.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let bytes = text.as_bytes();
    let position = bit_range(bytes.len(), start, end, unit).and_then(|bits| {
        // Without an explicit end, the string continues with zeros.
        let beyond = (count <= 4 && !bit).then_some(bits.end);
        bitmap::position(bytes, bits, bit).or(beyond)
    });
    call.reply
        .integer(position.map_or(-1, |position| position as i64));
    Ok(())
}

pub(super) fn bitop(call: &mut Call<'_, '_, '_>) -> Result {
    let (name, operation) = *OPERATIONS
        .iter()
        .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(call.argument(1)))
        .ok_or(CommandError::Syntax)?;
    let sources = call.rest(3);
    match operation {
        BitOperation::Not if sources.len() != 1 => {
            return Err(CommandError::Refused(NOT_OF_SEVERAL));
        }
        BitOperation::Difference | BitOperation::OthersDifference | BitOperation::AndAny
            if sources.len() < 2 =>
        {
            let text = format!("ERR BITOP {name} must be called with at least two source keys.");
            return Err(CommandError::RefusedWith(text.into()));
        }
        _ => {}
    }
    // Reads each key alone first: this removes expired keys and checks the types.
    call.view.counts_reads = true;
    for at in sources.clone() {
        let key = call.key(at);
        call.view.read_text(key)?;
    }
    let texts: Vec<_> = sources
        .map(|at| call.view.value(call.key(at)).and_then(|value| value.text()))
        .collect();
    let bytes: Vec<&[u8]> = texts
        .iter()
        .map(|text| text.as_ref().map_or(&b""[..], |text| text.as_bytes()))
        .collect();
    let length = bytes.iter().map(|bytes| bytes.len()).max().unwrap_or(0);
    let to = call.key(2);
    let mut result = Entry::new(to.hash, to.bytes, NewValue::Bytes(b""), false);
    result.resize(length);
    result.set_raw();
    bitmap::combine(operation, &bytes, result.bytes_mut());
    call.store_result(to, result, |result| result.bytes().len(), Event::Set);
    Ok(())
}

pub(super) fn bitfield(call: &mut Call<'_, '_, '_>) -> Result {
    let steps = steps(call)?;
    let Some(highest) = steps.iter().filter_map(FieldStep::last_bit_written).max() else {
        return read_fields(call, &steps);
    };
    let key = call.key(1);
    let (place, mut changed) = make_room(call, key, highest)?;
    let bytes = call.view.entry_mut(key, place).bytes_mut();
    call.reply.array(steps.len());
    for step in &steps {
        let old = step.field.read(bytes);
        let Some((new, shown)) = step.action.apply(step.field, old) else {
            call.reply.null();
            continue;
        };
        if new != old {
            step.field.write(bytes, new);
            changed = true;
        }
        call.reply.integer(shown as i64);
    }
    if changed {
        call.view.changed(key, place, Event::SetBit);
    }
    Ok(())
}

pub(super) fn bitfield_ro(call: &mut Call<'_, '_, '_>) -> Result {
    let steps = steps(call)?;
    if steps.iter().any(|step| step.last_bit_written().is_some()) {
        return Err(CommandError::Refused(READ_ONLY));
    }
    read_fields(call, &steps)
}

/// A number with some bits at a position in a string.
#[derive(Clone, Copy)]
struct Field {
    offset: u64,
    width: u32,
    signed: bool,
}

impl Field {
    fn parse(call: &Call<'_, '_, '_>, at: usize) -> Result<Field> {
        let (signed, width) = match call.argument(at) {
            [b'i', width @ ..] => (true, parse_integer(width).filter(|&width| width <= 64)),
            [b'u', width @ ..] => (false, parse_integer(width).filter(|&width| width <= 63)),
            _ => (false, None),
        };
        let width = width
            .filter(|&width| width > 0)
            .ok_or(CommandError::Refused(NOT_A_FIELD_TYPE))?;
        let offset = match call.argument(at + 1) {
            [b'#', index @ ..] => {
                let offset = parse_integer(index).and_then(|index| index.checked_mul(width));
                check_offset(call, offset)?
            }
            offset => bit_offset(call, offset)?,
        };
        let width = width as u32;
        Ok(Field {
            offset,
            width,
            signed,
        })
    }

    /// Returns the number, signed or unsigned, of at most 64 bits.
    fn read(self, bytes: &[u8]) -> i128 {
        let value = bitmap::field(bytes, self.offset, self.width);
        self.wrap(i128::from(value))
    }

    fn write(self, bytes: &mut [u8], value: i128) {
        bitmap::set_field(bytes, self.offset, self.width, value as u64);
    }

    fn range(self) -> Range<i128> {
        match self.signed {
            true => -(1 << (self.width - 1))..1 << (self.width - 1),
            false => 0..1 << self.width,
        }
    }

    /// Wraps a number to the field's width.
    fn wrap(self, value: i128) -> i128 {
        let unused = 128 - self.width;
        match self.signed {
            true => value << unused >> unused,
            false => ((value as u128) << unused >> unused) as i128,
        }
    }
}

enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

impl Action {
    /// Returns the new value of the field and the reply; `None` if the overflow rule forbids the
    /// change.
    fn apply(&self, field: Field, old: i128) -> Option<(i128, i128)> {
        match *self {
            Action::Get => Some((old, old)),
            Action::Set(value, overflow) => {
                // For an unsigned field, a negative number counts as a very large one.
                let value = match field.signed {
                    true => i128::from(value),
                    false => i128::from(value as u64),
                };
                Some((overflow.fit(field, value)?, old))
            }
            Action::Increment(amount, overflow) => {
                let new = overflow.fit(field, old + i128::from(amount))?;
                Some((new, new))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn fit(self, field: Field, value: i128) -> Option<i128> {
        let range = field.range();
        match self {
            _ if range.contains(&value) => Some(value),
            Overflow::Wrap => Some(field.wrap(value)),
            Overflow::Saturate => Some(value.clamp(range.start, range.end - 1)),
            Overflow::Fail => None,
        }
    }
}

struct FieldStep {
    field: Field,
    action: Action,
}

impl FieldStep {
    fn last_bit_written(&self) -> Option<u64> {
        match self.action {
            Action::Get => None,
            _ => Some(self.field.offset + u64::from(self.field.width) - 1),
        }
    }
}

fn steps(call: &Call<'_, '_, '_>) -> Result<Vec<FieldStep>> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < call.arguments.len() {
        let word = call.argument(at);
        let behind = call.arguments.len() - at - 1;
        if is(word, "overflow") && behind >= 1 {
            overflow = match call.argument(at + 1) {
                word if is(word, "wrap") => Overflow::Wrap,
                word if is(word, "sat") => Overflow::Saturate,
                word if is(word, "fail") => Overflow::Fail,
                _ => return Err(CommandError::Refused(NOT_AN_OVERFLOW)),
            };
            at += 2;
        } else if is(word, "get") && behind >= 2 {
            let field = Field::parse(call, at + 1)?;
            let action = Action::Get;
            steps.push(FieldStep { field, action });
            at += 3;
        } else if (is(word, "set") || is(word, "incrby")) && behind >= 3 {
            let field = Field::parse(call, at + 1)?;
            let number = call.integer(at + 3)?;
            let action = match is(word, "set") {
                true => Action::Set(number, overflow),
                false => Action::Increment(number, overflow),
            };
            steps.push(FieldStep { field, action });
            at += 4;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(steps)
}

fn read_fields(call: &mut Call<'_, '_, '_>, steps: &[FieldStep]) -> Result {
    let key = call.key(1);
    call.view.counts_reads = true;
    let text = call.view.read_text(key)?;
    let bytes = text.as_ref().map_or(&b""[..], |text| text.as_bytes());
    call.reply.array(steps.len());
    for step in steps {
        call.reply.integer(step.field.read(bytes) as i64);
    }
    Ok(())
}

fn bit_offset(call: &Call<'_, '_, '_>, text: &[u8]) -> Result<u64> {
    check_offset(call, parse_integer(text))
}

fn check_offset(call: &Call<'_, '_, '_>, offset: Option<i64>) -> Result<u64> {
    let bytes_max = call.view.keyspace.string_bytes_max as u64;
    offset
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < bytes_max)
        .ok_or(CommandError::Refused(OFFSET_OUT_OF_RANGE))
}

/// Finds or makes a string that contains this bit. Returns its place and whether it grew.
fn make_room(call: &mut Call<'_, '_, '_>, key: Key<'_>, bit: u64) -> Result<(Place, bool)> {
    let old = call.view.read_text(key)?.map(|text| text.as_bytes().len());
    let length = (bit / 8) as usize + 1;
    let place = match call.view.find(key) {
        Some(place) => place,
        None => call.view.insert(key, NewValue::Bytes(b""), Expiry::Clear),
    };
    let entry = call.view.entry_mut(key, place);
    make_bytes(entry);
    entry.set_raw();
    let grown = old.is_none_or(|old| old < length);
    if grown {
        entry.resize(length);
    }
    Ok((place, grown))
}

/// Returns 1 if the argument is BIT, and 8 if it is BYTE or missing.
fn unit_bits(call: &Call<'_, '_, '_>, at: usize) -> Result<u64> {
    match call.arguments.get(at) {
        None => Ok(8),
        Some(unit) if is(unit, "byte") => Ok(8),
        Some(unit) if is(unit, "bit") => Ok(1),
        Some(_) => Err(CommandError::Syntax),
    }
}

/// Returns the bits from `start` to `end`, both included, in units of `unit_bits`. Negative ones
/// count from the end. `None` if there are none.
fn bit_range(length: usize, start: i64, end: i64, unit_bits: u64) -> Option<Range<u64>> {
    let units = text_positions(start, end, (length as u64 * 8 / unit_bits) as usize);
    (!units.is_empty()).then(|| units.start as u64 * unit_bits..units.end as u64 * unit_bits)
}

const OPERATIONS: [(&str, BitOperation); 8] = [
    ("AND", BitOperation::And),
    ("OR", BitOperation::Or),
    ("XOR", BitOperation::Xor),
    ("NOT", BitOperation::Not),
    ("DIFF", BitOperation::Difference),
    ("DIFF1", BitOperation::OthersDifference),
    ("ANDOR", BitOperation::AndAny),
    ("ONE", BitOperation::One),
];

const NOT_A_BIT: &str = "ERR bit is not an integer or out of range";
const OFFSET_OUT_OF_RANGE: &str = "ERR bit offset is not an integer or out of range";
const NOT_ONE_OR_ZERO: &str = "ERR The bit argument must be 1 or 0.";
const NOT_OF_SEVERAL: &str = "ERR BITOP NOT must be called with a single source key.";
const NOT_AN_OVERFLOW: &str = "ERR Invalid OVERFLOW type specified";
const READ_ONLY: &str = "ERR BITFIELD_RO only supports the GET subcommand";
const NOT_A_FIELD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. \
                                Note that u64 is not supported but i64 is.";
