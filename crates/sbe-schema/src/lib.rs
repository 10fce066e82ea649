//! Makes Rust code of a schema of Simple Binary Encoding (SBE 1.0), for build scripts.
//!
//! ```no_run
//! // build.rs of a protocol's crate:
//! let xml = std::fs::read_to_string("schema/feed.xml")?;
//! let code = tidewire_sbe_schema::rust_code(&xml)?;
//! std::fs::write(format!("{}/schema.rs", std::env::var("OUT_DIR")?), code)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The code has a view and a writer for each message and group, and a type for each enum, set and
//! composite. It calls `tidewire-sbe`. Not supported, and refused with a message: big-endian
//! schemas, data of variable length, groups within groups, exponents that are not constant.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use thiserror::Error;

mod code;
mod layout;
mod names;
mod schema;

#[cfg(test)]
mod tests;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The text is not XML.
    #[error("invalid XML: {0}")]
    Xml(String),
    /// An element without a necessary attribute, or with an invalid one.
    #[error("<{element} name='{name}'>: {reason}")]
    Element {
        /// The element's tag.
        element: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A part of the standard that the generator does not support.
    #[error("'{name}': {what} is not supported")]
    Unsupported {
        /// The schema's element.
        name: String,
        /// The unsupported part.
        what: &'static str,
    },
}

/// Returns the Rust code of the schema in `xml`.
///
/// # Errors
/// The schema is invalid, contradicts itself, or uses what the generator does not support.
pub fn rust_code(xml: &str) -> Result<String, SchemaError> {
    let schema = schema::Schema::parse(xml)?;
    Ok(code::write(&schema))
}
