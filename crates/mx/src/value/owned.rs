//! Owned values.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Elements, Texts, Value};
use crate::time::FileTime;

/// An owned value of one of the twelve kinds that can be written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OwnedValue {
    /// As [`Value::Boolean`].
    Boolean(bool),
    /// As [`Value::Int32`].
    Int32(i32),
    /// As [`Value::Float32`].
    Float32(f32),
    /// As [`Value::Float64`].
    Float64(f64),
    /// As [`Value::String`].
    String(String),
    /// As [`Value::DateTime`].
    DateTime(FileTime),
    /// As [`Value::BooleanArray`].
    Booleans(Vec<bool>),
    /// As [`Value::Int32Array`].
    Int32s(Vec<i32>),
    /// As [`Value::Float32Array`].
    Float32s(Vec<f32>),
    /// As [`Value::Float64Array`].
    Float64s(Vec<f64>),
    /// As [`Value::StringArray`].
    Strings(Vec<String>),
    /// As [`Value::DateTimeArray`].
    DateTimes(Vec<FileTime>),
}

impl OwnedValue {
    /// Passes the value to `give` in the codec's form.
    pub fn with<R>(&self, give: impl FnOnce(Value<'_>) -> R) -> R {
        match self {
            Self::Boolean(value) => give(Value::Boolean(*value)),
            Self::Int32(value) => give(Value::Int32(*value)),
            Self::Float32(value) => give(Value::Float32(*value)),
            Self::Float64(value) => give(Value::Float64(*value)),
            Self::String(text) => give(Value::text(text)),
            Self::DateTime(time) => give(Value::DateTime(*time)),
            Self::Booleans(values) => give(Value::BooleanArray(Elements::new(values))),
            Self::Int32s(values) => give(Value::Int32Array(Elements::new(values))),
            Self::Float32s(values) => give(Value::Float32Array(Elements::new(values))),
            Self::Float64s(values) => give(Value::Float64Array(Elements::new(values))),
            Self::Strings(texts) => {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                give(Value::StringArray(Texts::new(&texts)))
            }
            Self::DateTimes(values) => give(Value::DateTimeArray(Elements::new(values))),
        }
    }
}
