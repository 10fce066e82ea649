//! Applies the plant's changes in one pass: stores them in slots and publishes them.

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

/// The state that a link keeps between its batches.
#[derive(Debug, Default)]
pub(crate) struct TagNews {
    /// Tags changed in this batch without a known subscriber.
    unheard: Vec<u32>,
    generation: u64,
    scratch: Vec<u8>,
}

/// The changes of one turn.
pub(crate) struct Batch<'a> {
    plant: &'a Plant,
    kept: &'a mut TagNews,
    publication: Publication,
    lanes: u64,
    receive_time_ns: u64,
}

impl TagNews {
    /// Begins a batch of changes received at `receive_time_ns`, nanoseconds since the UNIX epoch.
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
    /// Stores and publishes a value.
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
                // A decoded value can be encoded.
                let _ = value.encode_into(&mut self.kept.scratch);
                tag.slot.store(kind, &self.kept.scratch, stamp)
            }
        };
        self.publish(tag);
    }

    /// Changes a tag's state without its value; `None` keeps a part.
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

    /// Marks a tag as stale, unless the plant itself has reported a worse quality.
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

    /// Ends the batch. Returns the publications and the lanes they are for (one bit per lane).
    pub(crate) fn finish(mut self) -> (Publication, u64) {
        self.hear_late_subscribers();
        debug_assert_eq!(
            self.publication.is_empty(),
            self.lanes == 0,
            "news have a lane to go to"
        );
        (self.publication, self.lanes)
    }

    /// Publishes tags whose first subscriber arrived between the store of a value and the check
    /// of the tag's interest. Market data does the same.
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
        debug_assert!(
            self.plant
                .board
                .tag(tag.number)
                .is_some_and(|own| std::ptr::eq(&*own, tag)),
            "a tag is the board's, by its number"
        );
        self.plant.note_shared(tag);
        let interest = tag.interest();
        if interest == 0 {
            self.kept.unheard.push(tag.number);
            return;
        }
        self.lanes |= interest;
        let state = tag.state();
        debug_assert!(state.updates > 0, "a tag is published once it was stored");
        let origin = Origin::Topic(TopicId::Tag(tag.number));
        self.publication
            .push_with(&tag.channel, origin, state.updates, |out| {
                write_json(out, tag, &state, false);
            });
    }
}

/// Ranks a quality: good, uncertain, bad.
fn rank(quality: Quality) -> u8 {
    match quality.text() {
        "good" => 0,
        "uncertain" => 1,
        _ => 2,
    }
}

/// Models every order in which a link's batch and a new subscriber can meet: `cargo xtask test`
/// runs it.
#[cfg(all(loom, test))]
mod model {
    use std::sync::Arc;

    use tidewire_fanout::{FanoutConfig, Kind, Post, Topic as _};
    use tidewire_lane::{Endpoint, Lanes, MailSender};

    use super::*;
    use crate::plant::{PlantMail, PlantOptions};

    fn plant() -> Plant {
        let news = MailSender::new(Lanes::<Arc<Publication>>::mailboxes(1).unwrap());
        let mail = MailSender::new(Lanes::<PlantMail>::mailboxes(1).unwrap());
        let endpoint = Endpoint::Ipc("plant".into());
        let post = Post::new(news, FanoutConfig::default());
        Plant::new(PlantOptions::new(endpoint), Arc::new(post), mail)
    }

    /// Does the link's part of a batch of one value. Returns the newest published state.
    fn publish(plant: &Plant, tag: &Tag) -> u64 {
        let mut kept = TagNews::default();
        let mut batch = kept.begin(plant, 1);
        let value = Value::Int32(1);
        batch.value(tag, &value, Quality::GOOD, FileTime(1), None);
        let (publication, lanes) = batch.finish();
        let versions = publication.news().map(|news| news.version);
        let newest = versions.max().unwrap_or(0);
        assert_eq!(
            newest > 0,
            lanes == 1,
            "news go to the lane that wants them"
        );
        newest
    }

    #[test]
    fn no_value_falls_between_the_first_one_and_the_news() {
        let mut orders = loom::model::Builder::new();
        orders.preemption_bound = Some(2);
        orders.check(|| {
            let plant = Arc::new(plant());
            let tag = plant.board.define("A.B").unwrap();
            tag.clear_interest(0);
            let link = {
                let (plant, tag) = (plant.clone(), tag.clone());
                loom::thread::spawn(move || publish(&plant, &tag))
            };
            tag.add_interest(0);
            plant.post.subscriptions.add(0, Kind::Channel, &tag.channel);
            let found = tag.state().updates;
            let told = link.join().unwrap();
            assert!(found == 1 || told == 1, "found {found}, told {told}");
        });
    }
}
