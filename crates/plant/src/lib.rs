//! Plant tags: the `mx:` mount, and the link to the plant that fills it.
//!
//! ```text
//!  plant ──▶ link (one lane) ──▶ slot of the tag ──▶ GET, HGETALL, JSON to subscribers
//!    ▲         │  ▲                                   any lane
//!    └─writes──┘  └── names that clients ask for, and what they SET: by mail
//! ```
//!
//! The lane that reads the link stores each value from the plant in the tag's slot; readers on
//! any lane copy it from there. Names requested for the first time, and writes, are mailed to the
//! link's lane. The writing client waits for its answer.

#![forbid(unsafe_code)]

mod name_requests;

mod link;
pub use link::PlantLink;

mod news;
mod parsing;

mod plant;
pub use plant::{NAME_BYTES_MAX, PLANT_PREFIX, Plant, PlantCounters, PlantMail, PlantOptions};

mod shared;
pub use shared::RemoteTags;

mod tags;
pub use tags::{Tag, TagBoard};

mod text;

mod writing;
pub use writing::WriteRequest;
