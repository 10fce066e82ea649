//! The counters of a client.

/// Counters of a client; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Messages delivered.
    pub messages: u64,
    /// Delivered messages that the sink refused.
    pub refused: u64,
    /// Sequences of other symbols skipped in a selection.
    pub skipped: u64,
    /// Snapshot records delivered.
    pub snapshot_records: u64,
    /// Snapshots completed.
    pub snapshots: u64,
    /// Holes opened.
    pub gaps: u64,
    /// Missing sequences that arrived later.
    pub recovered: u64,
    /// Sequences that never arrived.
    pub lost: u64,
    /// Ranges requested.
    pub requests: u64,
    /// Packets that did not fit in the early buffer.
    pub early_dropped: u64,
    /// Packets of another session.
    pub foreign: u64,
    /// Snapshot records overtaken by the live stream and requested again.
    pub overtaken: u64,
}

impl ClientCounters {
    /// Returns the number of messages that were delivered and not refused.
    pub fn applied(&self) -> u64 {
        self.messages.saturating_sub(self.refused)
    }
}

/// Counters of one side; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Packets with a correct checksum.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets with a wrong checksum.
    pub corrupt: u64,
    /// Stream packets without anything new: the other side or a retransmission was first.
    pub duplicate: u64,
    /// Stream packets that arrived after later ones of the same side.
    pub late: u64,
    /// Sequences this side skipped (late ones included).
    pub lost: u64,
}
