//! What the cluster's thread has asked NATS for.

use std::collections::HashMap;

use tidewire_cluster::FrameId;

/// A request whose answer is to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// One of the owner's streams.
    Stream,
    /// A frame of the log.
    Frame(FrameId),
    /// A page of the own snapshot, in the reign.
    Page(u64, u32),
    /// The head of the own snapshot, in the reign.
    Head(u64),
    /// How many messages the own snapshot has, in the reign; at least so many are expected.
    PageCount(u64, u64),
    /// The end of the own log, by the number of the question.
    LogEnd(u64, u64),
    /// A write of the lease.
    LeaseWrite(u64),
    /// A read of the lease.
    LeaseRead(u64),
    /// The lease is given back.
    LeaseDelete,
    /// The head of another hub's snapshot.
    RemoteHead(String, u64),
    /// Some pages of it.
    RemotePages(String, u64),
    /// A part of its log.
    RemoteLog(String, u64),
    /// Where its log ends.
    RemoteLogEnd(String, u64),
    /// A write to a topic of another hub, by its number.
    Write(u64),
    /// The audit stream.
    AuditStream,
    /// A line of the audit, by its number.
    AuditLine(u64),
}

/// Requests by their tags.
#[derive(Debug, Default)]
pub(super) struct Requests {
    next: u64,
    open: HashMap<u64, Request>,
}

impl Requests {
    /// Returns the tag of a new request.
    pub(super) fn open(&mut self, request: Request) -> u64 {
        self.next += 1;
        self.open.insert(self.next, request);
        self.next
    }

    /// Forgets all requests: their answers are ignored.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }

    /// Returns the request of an answer.
    pub(super) fn close(&mut self, tag: u64) -> Option<Request> {
        self.open.remove(&tag)
    }
}
