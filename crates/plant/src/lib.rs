//! Plant tags: the `mx:` mount, and the link to the plant that fills it.
//!
//! ```text
//!  plant ──▶ link (one lane) ──▶ slot of the tag ──▶ GET, HGETALL, JSON to subscribers
//!    ▲         │  ▲                                   any lane
//!    └─writes──┘  └── names that clients ask for, and what they SET: by mail
//! ```
//!
//! A value from the plant is stored in the tag's slot by the lane that reads the link; readers on
//! any lane copy it from there. Names that are requested for the first time, and writes, go to the
//! link's lane as mail. The writing client waits for its answer.

#![forbid(unsafe_code)]

mod name_requests;

mod link;
pub use link::PlantLink;

mod news;
mod parsing;

mod plant;
pub use plant::{NAME_BYTES_MAX, PLANT_PREFIX, Plant, PlantCounters, PlantMail, PlantOptions};

mod tags;
pub use tags::{Tag, TagBoard};

mod text;

mod writing;
pub use writing::WriteRequest;
