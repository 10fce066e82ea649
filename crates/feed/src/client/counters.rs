//! What a client counts.

/// What a client has seen; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Messages delivered.
    pub messages: u64,
    /// Sequences of other symbols passed over in a selection.
    pub skipped: u64,
    /// Snapshot records delivered.
    pub snapshot_records: u64,
    /// Snapshots completed.
    pub snapshots: u64,
    /// Holes opened.
    pub gaps: u64,
    /// Sequences that were missing and came after all.
    pub recovered: u64,
    /// Sequences that never came.
    pub lost: u64,
    /// Ranges asked for.
    pub requests: u64,
    /// Packets that did not fit the early buffer.
    pub early_dropped: u64,
    /// Packets of another session than ours.
    pub foreign: u64,
    /// Snapshot records that the live stream had overtaken; asked for again.
    pub overtaken: u64,
}

/// What came in on one side; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Packets with a right checksum.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets with a wrong checksum.
    pub corrupt: u64,
    /// Stream packets that brought nothing new: the other side, or a retransmission, was first.
    pub duplicate: u64,
    /// Stream packets that came after later ones of the same side.
    pub late: u64,
    /// Sequences that this side passed over (late ones included).
    pub lost: u64,
}
