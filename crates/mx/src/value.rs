//! Values of the twelve kinds, borrowed from a message or from the caller.

mod elements;
#[cfg(feature = "alloc")]
mod owned;
pub(crate) mod text;

pub use elements::{Element, Elements, ElementsIter, Texts, TextsIter};
#[cfg(feature = "alloc")]
pub use owned::OwnedValue;
pub use text::Text;

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::error::EncodeError;
use crate::profile;
use crate::time::FileTime;

/// A value: one of the twelve kinds that can be written, or raw.
///
/// Texts and arrays borrow from the caller or from the decoded message. Every decoded value
/// encodes back to the same bytes; a value that would not is [`Value::Raw`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value, as in a status without data.
    None,
    /// True or false.
    Boolean(bool),
    /// A whole number; also the wire form of an ElapsedTime or an Enum.
    Int32(i32),
    /// A single-precision number.
    Float32(f32),
    /// A double-precision number.
    Float64(f64),
    /// A text; also the wire form of an InternationalizedString.
    String(Text<'a>),
    /// A time.
    DateTime(FileTime),
    /// Several Booleans.
    BooleanArray(Elements<'a, bool>),
    /// Whole numbers.
    Int32Array(Elements<'a, i32>),
    /// Single-precision numbers.
    Float32Array(Elements<'a, f32>),
    /// Double-precision numbers.
    Float64Array(Elements<'a, f64>),
    /// Texts.
    StringArray(Texts<'a>),
    /// Times.
    DateTimeArray(Elements<'a, FileTime>),
    /// A value that cannot be decoded: kept, reported, and encoded unchanged.
    Raw {
        /// Its wire kind.
        kind: u8,
        /// All bytes up to the end of the record or message.
        bytes: &'a [u8],
    },
}

impl<'a> Value<'a> {
    /// Creates a text.
    pub const fn text(text: &'a str) -> Self {
        Self::String(Text::new(text))
    }

    /// Decodes a value without its kind, such as a stored one: the bytes that [`Encode`] wrote.
    /// Bytes that do not fit the kind become [`Value::Raw`].
    #[inline]
    pub fn from_wire(kind: u8, bytes: &'a [u8]) -> Self {
        let mut input = Input::new(bytes);
        let value = Self::decode(kind, &mut input);
        if input.len() == 0 {
            return value;
        }
        Self::Raw { kind, bytes }
    }

    /// Returns the kind byte on the wire.
    #[inline]
    pub const fn wire_kind(&self) -> u8 {
        match self {
            Self::None => profile::WIRE_NO_VALUE,
            Self::Boolean(_) => profile::WIRE_BOOLEAN,
            Self::Int32(_) => profile::WIRE_INT32,
            Self::Float32(_) => profile::WIRE_FLOAT32,
            Self::Float64(_) => profile::WIRE_FLOAT64,
            Self::String(_) => profile::WIRE_STRING,
            Self::DateTime(_) => profile::WIRE_DATE_TIME,
            Self::BooleanArray(_) => profile::WIRE_ARRAY | profile::WIRE_BOOLEAN,
            Self::Int32Array(_) => profile::WIRE_ARRAY | profile::WIRE_INT32,
            Self::Float32Array(_) => profile::WIRE_ARRAY | profile::WIRE_FLOAT32,
            Self::Float64Array(_) => profile::WIRE_ARRAY | profile::WIRE_FLOAT64,
            Self::StringArray(_) => profile::WIRE_ARRAY | profile::WIRE_STRING,
            Self::DateTimeArray(_) => profile::WIRE_ARRAY | profile::WIRE_DATE_TIME,
            Self::Raw { kind, .. } => *kind,
        }
    }

    /// Returns the name of the kind, such as `Int32` or `Float64[]`.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Boolean(_) => "Boolean",
            Self::Int32(_) => "Int32",
            Self::Float32(_) => "Float32",
            Self::Float64(_) => "Float64",
            Self::String(_) => "String",
            Self::DateTime(_) => "DateTime",
            Self::BooleanArray(_) => "Boolean[]",
            Self::Int32Array(_) => "Int32[]",
            Self::Float32Array(_) => "Float32[]",
            Self::Float64Array(_) => "Float64[]",
            Self::StringArray(_) => "String[]",
            Self::DateTimeArray(_) => "DateTime[]",
            Self::Raw { .. } => "raw",
        }
    }

    /// Decodes a value of `kind` at the front. If the bytes do not fit, a raw value takes them
    /// all.
    #[inline]
    pub(crate) fn decode(kind: u8, input: &mut Input<'a>) -> Self {
        let begin = *input;
        match Self::known(kind, input) {
            Some(value) => value,
            None => {
                *input = begin;
                Self::Raw {
                    kind,
                    bytes: input.rest(),
                }
            }
        }
    }

    #[inline]
    fn known(kind: u8, input: &mut Input<'a>) -> Option<Self> {
        const FIELD: &str = "value";
        match kind {
            profile::WIRE_NO_VALUE => Some(Self::None),
            profile::WIRE_BOOLEAN => match input.u8(FIELD).ok()? {
                profile::BOOLEAN_FALSE => Some(Self::Boolean(false)),
                profile::BOOLEAN_TRUE => Some(Self::Boolean(true)),
                _ => None,
            },
            profile::WIRE_INT32 => input.i32(FIELD).ok().map(Self::Int32),
            profile::WIRE_FLOAT32 => {
                let bytes = input.chunk(FIELD).ok()?;
                Some(Self::Float32(f32::from_le_bytes(*bytes)))
            }
            profile::WIRE_FLOAT64 => {
                let bytes = input.chunk(FIELD).ok()?;
                Some(Self::Float64(f64::from_le_bytes(*bytes)))
            }
            profile::WIRE_DATE_TIME => Some(Self::DateTime(FileTime(input.i64(FIELD).ok()?))),
            profile::WIRE_STRING => text::decode(input).map(Self::String),
            _ => Self::known_array(kind, input),
        }
    }

    fn known_array(kind: u8, input: &mut Input<'a>) -> Option<Self> {
        if kind & profile::WIRE_ARRAY == 0 {
            return None;
        }
        match kind & !profile::WIRE_ARRAY {
            profile::WIRE_BOOLEAN => Elements::decode(input).map(Self::BooleanArray),
            profile::WIRE_INT32 => Elements::decode(input).map(Self::Int32Array),
            profile::WIRE_FLOAT32 => Elements::decode(input).map(Self::Float32Array),
            profile::WIRE_FLOAT64 => Elements::decode(input).map(Self::Float64Array),
            profile::WIRE_STRING => Texts::decode(input).map(Self::StringArray),
            profile::WIRE_DATE_TIME => Elements::decode(input).map(Self::DateTimeArray),
            _ => None,
        }
    }
}

/// Encodes the value without its kind: see [`Value::from_wire`].
impl Encode for Value<'_> {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        match self {
            Self::None => Ok(0),
            Self::Boolean(_) => Ok(1),
            Self::Int32(_) | Self::Float32(_) => Ok(4),
            Self::Float64(_) | Self::DateTime(_) => Ok(8),
            Self::String(text) => text::encoded_len(text),
            Self::BooleanArray(elements) => elements.encoded_len(),
            Self::Int32Array(elements) => elements.encoded_len(),
            Self::Float32Array(elements) => elements.encoded_len(),
            Self::Float64Array(elements) => elements.encoded_len(),
            Self::StringArray(texts) => texts.encoded_len(),
            Self::DateTimeArray(elements) => elements.encoded_len(),
            Self::Raw { bytes, .. } => Ok(bytes.len()),
        }
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        match self {
            Self::None => {}
            Self::Boolean(value) => out.put([boolean_byte(*value)]),
            Self::Int32(value) => out.put(value.to_le_bytes()),
            Self::Float32(value) => out.put(value.to_le_bytes()),
            Self::Float64(value) => out.put(value.to_le_bytes()),
            Self::DateTime(time) => out.put(time.0.to_le_bytes()),
            Self::String(text) => text::put(text, out),
            Self::BooleanArray(elements) => elements.put(out),
            Self::Int32Array(elements) => elements.put(out),
            Self::Float32Array(elements) => elements.put(out),
            Self::Float64Array(elements) => elements.put(out),
            Self::StringArray(texts) => texts.put(out),
            Self::DateTimeArray(elements) => elements.put(out),
            Self::Raw { bytes, .. } => out.put_slice(bytes),
        }
    }
}

/// The type of an attribute in the Galaxy's configuration (`mx_data_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    /// Boolean.
    Boolean,
    /// 32-bit whole number.
    Integer,
    /// Single precision.
    Float,
    /// Double precision.
    Double,
    /// A text.
    String,
    /// A time.
    Time,
    /// A duration.
    ElapsedTime,
    /// A reference to another attribute.
    Reference,
    /// One of several names.
    Enum,
    /// A text in several languages.
    InternationalizedString,
    /// A long text.
    BigString,
    /// An unknown number.
    Other(u16),
}

impl DataType {
    /// Returns the type of a wire code.
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Boolean,
            2 => Self::Integer,
            3 => Self::Float,
            4 => Self::Double,
            5 => Self::String,
            6 => Self::Time,
            7 => Self::ElapsedTime,
            8 => Self::Reference,
            13 => Self::Enum,
            15 => Self::InternationalizedString,
            16 => Self::BigString,
            code => Self::Other(code),
        }
    }

    /// Returns the wire code.
    pub const fn code(self) -> u16 {
        match self {
            Self::Boolean => 1,
            Self::Integer => 2,
            Self::Float => 3,
            Self::Double => 4,
            Self::String => 5,
            Self::Time => 6,
            Self::ElapsedTime => 7,
            Self::Reference => 8,
            Self::Enum => 13,
            Self::InternationalizedString => 15,
            Self::BigString => 16,
            Self::Other(code) => code,
        }
    }

    /// Returns the name, such as `Integer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "Boolean",
            Self::Integer => "Integer",
            Self::Float => "Float",
            Self::Double => "Double",
            Self::String => "String",
            Self::Time => "Time",
            Self::ElapsedTime => "ElapsedTime",
            Self::Reference => "Reference",
            Self::Enum => "Enum",
            Self::InternationalizedString => "InternationalizedString",
            Self::BigString => "BigString",
            Self::Other(_) => "Other",
        }
    }

    /// Returns the wire kind for writing to an attribute of this type; `None` if the type cannot
    /// be written. ElapsedTime is written as Int32 and InternationalizedString as String, both
    /// only as scalars.
    pub const fn wire_kind(self, is_array: bool) -> Option<u8> {
        let scalar = match self {
            Self::Boolean => profile::WIRE_BOOLEAN,
            Self::Integer => profile::WIRE_INT32,
            Self::Float => profile::WIRE_FLOAT32,
            Self::Double => profile::WIRE_FLOAT64,
            Self::String => profile::WIRE_STRING,
            Self::Time => profile::WIRE_DATE_TIME,
            Self::ElapsedTime if !is_array => profile::WIRE_INT32,
            Self::InternationalizedString if !is_array => profile::WIRE_STRING,
            _ => return None,
        };
        if is_array {
            Some(scalar | profile::WIRE_ARRAY)
        } else {
            Some(scalar)
        }
    }
}

const fn boolean_byte(value: bool) -> u8 {
    if value {
        profile::BOOLEAN_TRUE
    } else {
        profile::BOOLEAN_FALSE
    }
}
