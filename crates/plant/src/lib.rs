//! Plant tags: the `mx:` mount, and the link to the plant that fills it.
//!
//! ```text
//!  plant ──▶ link (one lane) ──▶ slot of the tag ──▶ GET, HGETALL, JSON to subscribers
//!    ▲         │  ▲                                   any lane
//!    └─writes──┘  └── names that clients ask for, and what they SET: by mail
//! ```
//!
//! What the plant says of a tag goes into its slot in the lane that reads the link; readers copy it
//! from there on whatever lane they are. Everything else goes to the link's lane as mail: a name
//! that nobody asked for before, and a write, whose client waits meanwhile.

#![forbid(unsafe_code)]

mod asked;

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
