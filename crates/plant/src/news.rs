//! Applies the plant's changes in one pass: slots, and publications.

use tidewire_lastvalue::TagStamp;
use tidewire_mx::encode::Encode;
use tidewire_mx::status::{MxStatus, PackedStatus, Quality};
use tidewire_mx::time::FileTime;
use tidewire_mx::value::Value;

use crate::plant::{Plant, PlantCounters};
use crate::tags::Tag;
use crate::text::write_json;
use tidewire_fanout::TopicId;
use tidewire_fanout::{Origin, Publication};

/// What a link keeps between its batches.
#[derive(Debug, Default)]
pub(crate) struct TagNews {
    /// Tags changed in this batch that seemed to have no subscriber.
    unheard: Vec<u32>,
    generation: u64,
    scratch: Vec<u8>,
}

/// What one turn brought.
pub(crate) struct Batch<'a> {
    plant: &'a Plant,
    kept: &'a mut TagNews,
    publication: Publication,
    lanes: u64,
    receive_time_ns: u64,
}

impl TagNews {
    /// Begins a batch of what came at `receive_time_ns` (UNIX epoch).
    pub(crate) fn begin<'a>(&'a mut self, plant: &'a Plant, receive_time_ns: u64) -> Batch<'a> {
        self.unheard.clear();
        Batch {
            plant,
            kept: self,
            publication: Publication::default(),
            lanes: 0,
            receive_time_ns,
        }
    }
}

impl Batch<'_> {
    /// A value has come.
    #[inline]
    pub(crate) fn value(
        &mut self,
        tag: &Tag,
        value: &Value<'_>,
        quality: Quality,
        time: FileTime,
        status: Option<PackedStatus>,
    ) {
        let stamp = TagStamp {
            stale: false,
            quality: quality.0,
            status: status.unwrap_or(MxStatus::OK.pack()).0,
            source_time: time.0,
            receive_time_ns: self.receive_time_ns,
            sequence: self.plant.board.next_sequence(),
        };
        let mut short = [0; tidewire_lastvalue::TAG_INLINE_BYTES];
        let kind = value.wire_kind();
        match value.encode_to_slice(&mut short) {
            Ok(length) => tag.slot.store(kind, &short[..length], stamp),
            Err(_) => {
                self.kept.scratch.clear();
                // What was read can be written.
                let _ = value.encode_into(&mut self.kept.scratch);
                tag.slot.store(kind, &self.kept.scratch, stamp)
            }
        };
        self.publish(tag);
    }

    /// Something else than the value has changed; `None` leaves a part as it was.
    pub(crate) fn mark(
        &mut self,
        tag: &Tag,
        quality: Quality,
        status: Option<PackedStatus>,
        time: Option<FileTime>,
        stale: bool,
    ) {
        let old = tag.state();
        let stamp = TagStamp {
            stale,
            quality: quality.0,
            status: status.map_or(old.status, |status| status.0),
            source_time: time.map_or(old.source_time, |time| time.0),
            receive_time_ns: self.receive_time_ns,
            sequence: self.plant.board.next_sequence(),
        };
        tag.slot.store_stamp_only(stamp);
        self.publish(tag);
    }

    /// Marks a tag as out of date, unless the plant itself has called it worse.
    pub(crate) fn stale(&mut self, tag: &Tag, quality: Quality, status: Option<PackedStatus>) {
        let old = tag.state();
        let is_worse = rank(Quality(old.quality)) > rank(quality);
        let quality = if is_worse {
            Quality(old.quality)
        } else {
            quality
        };
        let status = if is_worse { None } else { status };
        PlantCounters::add(&self.plant.counters.stale_marks, 1);
        self.mark(tag, quality, status, None, true);
    }

    /// Ends the batch: the news, and the lanes they are for (one bit each).
    pub(crate) fn finish(mut self) -> (Publication, u64) {
        self.hear_late_subscribers();
        (self.publication, self.lanes)
    }

    /// As market data has it: somebody may have subscribed between the store of a value and
    /// the look at its tag's interest.
    fn hear_late_subscribers(&mut self) {
        let generation = self.plant.post.subscriptions.generation();
        if !generation.has_changed(&mut self.kept.generation) {
            return;
        }
        let mut unheard = std::mem::take(&mut self.kept.unheard);
        unheard.sort_unstable();
        unheard.dedup();
        for number in unheard {
            if let Some(tag) = self.plant.board.tag(number) {
                self.publish(&tag);
            }
        }
    }

    #[inline]
    fn publish(&mut self, tag: &Tag) {
        let interest = tag.interest();
        if interest == 0 {
            self.kept.unheard.push(tag.number);
            return;
        }
        self.lanes |= interest;
        let state = tag.state();
        let origin = Origin::Topic(TopicId::Tag(tag.number));
        self.publication
            .push_with(&tag.channel, origin, state.updates, |out| {
                write_json(out, tag, &state, false);
            });
    }
}

/// Good, uncertain, bad.
fn rank(quality: Quality) -> u8 {
    match quality.text() {
        "good" => 0,
        "uncertain" => 1,
        _ => 2,
    }
}
