//! Fan-out: subscriptions, and the delivery of publications to subscribers.
//!
//! [`Fanout`] belongs to one lane, which drives it. Lanes share [`Post`], the [`Topics`] of live
//! sources and the [`LiveKeys`]. Fan-out is independent of protocols: `frames` writes messages
//! for each of them.

#![forbid(unsafe_code)]

mod departing;

mod fence;
pub use fence::{Generation, Interest};

mod fanout;
pub use fanout::{Fanout, FanoutCounters, SubscriptionsFull};

mod frames;
pub use frames::Dialect;

mod hub_writes;
pub use hub_writes::{
    AskedWrite, EndedWrite, HubWrites, Outcomes, WriteAction, WriteCounters, WriteEnd,
};

pub use tidewire_rows::json::write_text as write_json_text;

mod limit;
pub use limit::{FanoutConfig, OutputLimit, OverLimit};

mod listeners;

mod noting;

mod outlet;

mod pending;

mod pump;

mod post;
pub use post::{Post, bits, lane_bits};

mod publication;
pub use publication::{Dispatch, GONE, News, Origin, Publication};

mod renewal;

mod scan;

mod shared;
pub use shared::{
    Changed, ChangedNames, OwnWrite, SharedKeys, SharedTags, TagParts, TagView, TagViews,
};

mod subscriptions;
pub use subscriptions::{Kind, Route, Subscriptions};

mod topic;
pub use topic::{
    GONE_CHANNEL, LiveKeys, Matches, SNAPSHOT_CHANNEL, Topic, TopicId, TopicSource, Topics,
    append_matching,
};
