//! A sample of the hub's state. Values that several counters need are computed once.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;

use tidewire_lane::LaneCounters;
use tidewire_lastvalue::LatencyStatistics;
use tidewire_plant::Plant;
use tidewire_redis::registry::Source;

use crate::hub::Hub;

/// A sample of a hub.
pub(crate) struct HubLook<'a> {
    hub: &'a Hub,
    latency: OnceCell<LatencyStatistics>,
    window: OnceCell<Window>,
}

/// The retransmission window.
pub(super) struct Window {
    pub(super) session: u32,
    pub(super) next_sequence: u64,
    pub(super) oldest_sequence: u64,
    pub(super) capacity: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Source time that its messages span, ns.
    pub(super) span_ns: u64,
}

impl Deref for HubLook<'_> {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        self.hub
    }
}

impl<'a> HubLook<'a> {
    pub(super) fn new(hub: &'a Hub) -> Self {
        Self {
            hub,
            latency: OnceCell::new(),
            window: OnceCell::new(),
        }
    }

    pub(super) fn latency(&self) -> &LatencyStatistics {
        let latency = || self.market.latency.statistics();
        self.latency.get_or_init(latency)
    }

    pub(super) fn window(&self) -> &Window {
        self.window.get_or_init(|| {
            let journal = self.market.journal.lock();
            // The time of a symbol's definition may be unknown, which is 0.
            let times_ns = journal.source_times_ns();
            debug_assert!(
                journal.oldest_sequence() <= journal.next_sequence()
                    && journal.len() <= journal.capacity(),
                "the window is a bounded end of the feed"
            );
            let times_ns = times_ns.filter(|(oldest, newest)| *oldest > 0 && newest > oldest);
            Window {
                session: journal.session(),
                next_sequence: journal.next_sequence(),
                oldest_sequence: journal.oldest_sequence(),
                capacity: journal.capacity(),
                messages: journal.len(),
                bytes: journal.len_bytes(),
                span_ns: times_ns.map_or(0, |(oldest, newest)| newest - oldest),
            }
        })
    }
}

/// A plant as a source of counters.
pub(crate) enum PlantSource {}

impl Source for PlantSource {
    type Look<'a> = Plant;

    fn lanes(_: &Plant) -> &[Arc<LaneCounters>] {
        &[]
    }
}
