//! The lanes that serve feed clients, and how they are woken up when the journal grows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::{Dispatch, bits, lane_bits};

use crate::market::Market;

impl Market {
    /// Notes that `lane` has, or no longer has, feed clients to serve from the journal.
    pub fn set_feed_lane(&self, lane: usize, serves: bool) {
        debug_assert!(lane < self.feed_told.len(), "the lane exists");
        if serves {
            self.feed_lanes.fetch_or(1 << lane, Ordering::AcqRel);
        } else {
            self.feed_lanes.fetch_and(!(1 << lane), Ordering::AcqRel);
        }
    }

    /// Sends a publication to its lanes from a thread that is none, and tells of what is new in the
    /// journal.
    pub(crate) fn publish_from_thread(&self, (publication, lanes): Dispatch) {
        if !publication.is_empty() {
            debug_assert_ne!(lanes, 0, "a publication has a lane to go to");
            self.post.send(lanes, &Arc::new(publication));
        }
        self.tell_all_feed_lanes();
    }

    /// Notifies the other lanes with feed clients, and the cluster, that the journal has grown.
    pub fn tell_feed_lanes(&self, own_lane: usize) {
        debug_assert!(own_lane < self.feed_told.len(), "the lane exists");
        self.tell_feed_lanes_but(1 << own_lane);
    }

    /// Notifies every lane with feed clients, and the cluster, that the journal has grown.
    pub fn tell_all_feed_lanes(&self) {
        self.tell_feed_lanes_but(0);
    }

    fn tell_feed_lanes_but(&self, without: u64) {
        self.cluster_reader.tell();
        let lanes = self.feed_lanes.load(Ordering::Acquire) & !without;
        debug_assert_eq!(
            lanes & !lane_bits(self.feed_told.len()),
            0,
            "only existing lanes serve feed clients"
        );
        for lane in bits(lanes) {
            if !self.feed_told[lane].swap(true, Ordering::AcqRel) {
                self.post.wake(lane);
            }
        }
    }

    /// Notes that `lane` is about to read the journal.
    ///
    /// This is an exchange and not a store. A sender that still finds the old mark sends no mail,
    /// and the exchange ensures that the following read sees its messages.
    pub fn feed_seen(&self, lane: usize) {
        let told = &self.feed_told[lane];
        if told.load(Ordering::Relaxed) {
            told.swap(false, Ordering::AcqRel);
        }
    }
}
