//! Fan-out: who is subscribed to what, and what each subscriber gets of a publication.
//!
//! [`Fanout`] belongs to one lane and is driven by it; lanes share [`Post`], the [`Topics`] of live
//! sources and the [`LiveKeys`]. No protocol owns it: each has its words in `frames`.

#![forbid(unsafe_code)]

mod departing;

mod fence;
pub use fence::{Generation, Interest};

mod fanout;
pub use fanout::{Fanout, FanoutCounters, SubscriptionsFull};

mod frames;
pub use frames::Dialect;

mod json;
pub use json::write_json_text;

mod limit;
pub use limit::{FanoutConfig, OutputLimit, OverLimit};

mod listeners;

mod outlet;

mod pending;

mod post;
pub use post::{Post, bits, lane_bits};

mod publication;
pub use publication::{Dispatch, GONE, News, Origin, Publication};

mod renewal;

mod subscriptions;
pub use subscriptions::{Kind, Route, Subscriptions};

mod topic;
pub use topic::{LiveKeys, SNAPSHOT_CHANNEL, Topic, TopicId, TopicSource, Topics};
