//! Topics beyond market data: `live:` keys and plant tags.
//!
//! ```text
//!  OwnTopics (journal, slots) ─▶ Owner ─▶ frames ─▶ Edge ─▶ TopicClient ─▶ TopicEvent
//! ```
//!
//! A topic has the slot of its id. The rest of a long value takes further slots, so that a page of
//! 128 slots always fits in a frame.

mod own;
mod remote;
#[cfg(test)]
mod tests;

pub use own::{OwnTopics, SLOTS_MAX};
pub use remote::{TopicClient, TopicEvent};

use tidewire_feed::wire::TOPIC_PART_LENGTH_MAX;

/// Parts of a value in one slot.
const BLOCK_PARTS: usize = 28;
/// Bytes of a value in one slot.
const BLOCK_LENGTH: usize = BLOCK_PARTS * TOPIC_PART_LENGTH_MAX;
