//! Ids: parameters as the code reads them, by a constant whose type says what the value is.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::Parameters;
use super::kinds::Kind;
use super::parameter::{Parameter, number_of};
use super::table::TABLE;
use crate::config::RedisConfig;

/// A parameter whose value is a `T`.
#[derive(Debug)]
pub struct Id<T> {
    /// Its row in the table.
    pub(super) number: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> Id<T> {
    /// The id of the row with this name. The compiler computes it, and fails where there is none.
    pub(super) const fn of(rows: &[Parameter], name: &str) -> Self {
        let mut number = 0;
        while !is_same(rows[number].name, name) {
            number += 1;
        }
        Self {
            number,
            value: PhantomData,
        }
    }

    /// The name that CONFIG has for it.
    pub fn name(self) -> &'static str {
        TABLE[self.number].name
    }

    /// Its value where nothing else is said.
    pub fn default(self) -> &'static str {
        TABLE[self.number].default
    }

    /// Whether this is a name of it, in any case.
    pub fn is_named(self, name: &[u8]) -> bool {
        number_of(name) == Some(self.number)
    }
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

impl RedisConfig {
    /// What the configuration says last of a parameter.
    pub fn given<T>(&self, id: Id<T>) -> Option<&str> {
        let mut given = self.parameters.iter().rev();
        let found = given.find(|(name, _)| id.is_named(name.as_bytes()));
        found.map(|(_, value)| value.as_str())
    }

    /// The same, or the default.
    pub fn value<T>(&self, id: Id<T>) -> &str {
        self.given(id).unwrap_or(id.default())
    }
}

/// What a parameter can be read as.
pub trait ParameterValue {
    /// The value of the row of this number.
    #[doc(hidden)]
    fn read(parameters: &Parameters, number: usize) -> Self;
}

impl ParameterValue for u64 {
    #[inline]
    fn read(parameters: &Parameters, number: usize) -> Self {
        parameters.words[number].load(Ordering::Relaxed)
    }
}

impl ParameterValue for i64 {
    #[inline]
    fn read(parameters: &Parameters, number: usize) -> Self {
        u64::read(parameters, number).cast_signed()
    }
}

impl ParameterValue for bool {
    #[inline]
    fn read(parameters: &Parameters, number: usize) -> Self {
        u64::read(parameters, number) != 0
    }
}

impl ParameterValue for &'static str {
    fn read(parameters: &Parameters, number: usize) -> Self {
        let chosen = u64::read(parameters, number) as usize;
        match TABLE[number].kind {
            Kind::Choice(words) => words[chosen],
            _ => unreachable!("only a choice has an id of this type"),
        }
    }
}

/// The text, with a lock held for as long as it is copied: nothing on the way of a command to its
/// reply reads one.
impl ParameterValue for String {
    fn read(parameters: &Parameters, number: usize) -> Self {
        String::from_utf8_lossy(&parameters.shown.lock()[number]).into_owned()
    }
}

/// A value as a word: a number itself, a switch as 0 or 1, a choice as its place among the words,
/// and of all others whether they are empty.
pub(super) fn word_of(kind: Kind, value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let word = match kind {
        Kind::Switch => Some(u64::from(text == "yes")),
        Kind::Choice(words) => words
            .iter()
            .position(|word| *word == text)
            .map(|place| place as u64),
        Kind::Octal(..) => u64::from_str_radix(text, 8).ok(),
        Kind::Number(..) | Kind::Memory(..) => match text.parse::<i64>() {
            Ok(number) => Some(number.cast_unsigned()),
            Err(_) => text.parse().ok(),
        },
        _ => Some(u64::from(!value.is_empty())),
    };
    debug_assert!(word.is_some(), "{text} is no {kind:?}");
    word.unwrap_or(0)
}
