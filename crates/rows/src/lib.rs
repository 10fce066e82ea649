//! The protocol of web pages without I/O: topics as rows of fields, and what of them a page has not
//! been told.
//!
//! A [`Table`] belongs to one lane. It holds the topics that the lane's pages follow, each as the
//! fields of its published JSON. Each field has the number of the change that gave it its value. An
//! update is parsed and compared once for all pages. A page keeps one number per topic: the last
//! change that it was told of. So a page that reads slowly gets the newest values and costs a
//! constant number of bytes per topic. [`request`] reads what a page asks for.
//!
//! ```
//! use tidewire_rows::{Selection, Table, Version};
//!
//! // A pattern that ends with a star; the hub passes its own globs.
//! let mut table = Table::new(|pattern, name| name.starts_with(&pattern[..pattern.len() - 1]));
//! let selection = Selection::new([&b"md:*"[..]], None, 60.0);
//! table.subscribe(0, 1, selection).unwrap();
//! let row = table.update(b"md:A", Version::default(), br#"{"bid":1.5,"ask":2}"#);
//! table.mark(0, row);
//! let mut out = Vec::new();
//! table.write_snapshot((0, 1), true, &mut out);
//! let expected = r#"{"snap":1,"as_of":1,"rows":[[1,"md:A",{"bid":1.5,"ask":2}]]}"#;
//! assert_eq!(String::from_utf8(out).unwrap(), expected);
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod follower;
pub use follower::{Full, SUBSCRIPTIONS_MAX, Selection, TOPICS_MAX};

pub mod fuzzing;
pub mod json;
pub mod msgpack;
pub mod request;

mod places;
mod row;
pub use row::{Row, Version};

mod table;
mod texts;
pub use table::{Glob, Place, RowId, Snapshot, Table};

mod writing;
