//! An incremental feed that stands still while the recovery feed goes on.
//!
//! A snapshot names the last packet that it includes. If a whole loop of snapshots includes packets
//! that have not come, and none comes meanwhile, they are missing: no later packet shows the hole.
//! All values are in doubt then. The next packet ends that doubt: either it follows, and nothing is
//! missing, or its gap is a loss.

use tidewire_feed::client::Sink;
use tidewire_sbe::Message;

use crate::channel::Channel;
use crate::packet::PacketHeader;
use crate::schema::*;

/// The first snapshot that is ahead of the incremental feed since its last packet.
#[derive(Clone, Copy, Debug)]
struct First {
    /// The last packet of the incremental feed then.
    sequence: u64,
    security_id: i32,
    /// The snapshot's own packet.
    header: PacketHeader,
}

/// What the snapshots show of the incremental feed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standstill {
    first: Option<First>,
    /// A loop of snapshots is ahead.
    pub(crate) is_behind: bool,
}

impl Standstill {
    /// Notes a snapshot of after the packet `sequence` of the incremental feed, which is the last
    /// one. Returns whether a whole loop is ahead with it.
    fn note(&mut self, sequence: u64, security_id: i32, header: PacketHeader) -> bool {
        let Some(first) = self.first.filter(|first| first.sequence == sequence) else {
            self.first = Some(First {
                sequence,
                security_id,
                header,
            });
            return false;
        };
        // The other line's copy has the same time.
        let age_ns = header
            .sending_time_ns
            .saturating_sub(first.header.sending_time_ns);
        let comes_again = security_id == first.security_id;
        age_ns >= AGE_NS_MIN && (comes_again || header.sequence < first.header.sequence)
    }
}

impl Channel {
    /// Returns whether snapshots show packets of the incremental feed that have not come.
    pub fn is_behind(&self) -> bool {
        self.standstill.is_behind
    }

    /// Compares a snapshot with the incremental feed.
    pub(crate) fn compare_progress<S: Sink>(
        &mut self,
        header: PacketHeader,
        message: &Message<'_>,
        sink: &mut S,
    ) {
        let (as_of, security_id) = match message.template_id() {
            SnapshotFullRefresh52::TEMPLATE_ID => match SnapshotFullRefresh52::decode(message) {
                Ok(snapshot) => (
                    snapshot.last_msg_seq_num_processed(),
                    snapshot.security_id(),
                ),
                Err(_) => return,
            },
            SnapshotFullRefreshLongQty69::TEMPLATE_ID => {
                match SnapshotFullRefreshLongQty69::decode(message) {
                    Ok(snapshot) => (
                        snapshot.last_msg_seq_num_processed(),
                        snapshot.security_id(),
                    ),
                    Err(_) => return,
                }
            }
            _ => return,
        };
        let has_begun = self.known_from != u64::MAX;
        if u64::from(as_of) <= self.sequence || !has_begun || self.standstill.is_behind {
            return;
        }
        if self.standstill.note(self.sequence, security_id, header) {
            self.standstill.is_behind = true;
            self.counters.standstills += 1;
            self.in_doubt = true;
            sink.values_doubtful();
        }
    }

    /// The incremental feed goes on: what is in doubt now is known of each instrument.
    #[cold]
    pub(crate) fn end_standstill<S: Sink>(&mut self, sink: &mut S) {
        self.standstill = Standstill::default();
        for index in 0..self.instruments.len() as u32 {
            if self.instruments[index as usize].is_right() {
                self.publish_record(index, sink);
            }
        }
        self.tell_if_right(sink);
    }
}

/// Time from the first snapshot that is ahead to the one that completes the loop, at least: the
/// incremental feed may be as late.
const AGE_NS_MIN: u64 = 20_000_000;
