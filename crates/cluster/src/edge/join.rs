//! Joining a reign: a snapshot is read, checked, and given to the client.

use std::collections::BTreeMap;

use tidewire_feed::wire::{
    Control, Flags, LoginAccepted, Message, PACKET_LENGTH_MAX, PacketWriter, SnapshotMark,
    SnapshotNotice, snapshot_position,
};

use crate::frame::{Frame, FrameHeader, Packets};
use crate::head::Head;
use crate::owner::page_number;

use super::{
    ANSWER_TIMEOUT_NS, CLIENT_INTERVAL_MS, Edge, EdgeAction, EdgeEvent, JOIN_BACK_OFF, Phase,
    Replay,
};

/// Maximum bytes of a snapshot's pages.
pub const SNAPSHOT_BYTES_MAX: usize = 1 << 30;

#[derive(Debug)]
struct Page {
    header: FrameHeader,
    body: Box<[u8]>,
}

/// A snapshot on its way in.
#[derive(Debug)]
pub(super) struct Reading {
    /// When the snapshot is read, or counts as unanswered.
    at_ns: u64,
    is_asked: bool,
    /// Number of the newest request.
    request: u64,
    failures: u32,
    head: Option<(FrameHeader, Head)>,
    pages: BTreeMap<u32, Page>,
    bytes: usize,
}

impl Reading {
    pub(super) fn new(now_ns: u64) -> Reading {
        Reading {
            at_ns: now_ns,
            is_asked: false,
            request: 0,
            failures: 0,
            head: None,
            pages: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Has a snapshot read then.
    pub(super) fn postpone(&mut self, at_ns: u64) {
        *self = Reading {
            request: self.request,
            failures: self.failures,
            ..Reading::new(at_ns)
        };
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        self.at_ns
    }

    /// Has a snapshot read now; the next failures are few again.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.failures = 0;
        self.postpone(now_ns);
    }

    fn later(&mut self, now_ns: u64) {
        let delay_ns = JOIN_BACK_OFF.delay_ns(self.failures, now_ns);
        self.failures = self.failures.saturating_add(1);
        self.postpone(now_ns.saturating_add(delay_ns));
    }
}

impl Edge {
    /// Receives the head of the snapshot.
    pub fn snapshot_head(&mut self, request: u64, bytes: &[u8], now_ns: u64) {
        let Some(frame) = self.snapshot_frame(request, bytes, now_ns) else {
            return;
        };
        match Head::decode(&frame) {
            Ok(_) if !self.is_new_enough(&frame.header) => {
                // Its pages need not be read.
                self.figures.snapshots_refused += 1;
                self.reading.later(now_ns);
            }
            Ok(head) if head.path.contains(self.config.cluster.as_str()) => {
                self.note_echo(&frame.header, &head);
            }
            Ok(head) => self.reading.head = Some((frame.header, head)),
            Err(_) => self.figures.corrupt += 1,
        }
    }

    /// The source comes back to the cluster that it has come through: a relay has sent it in a
    /// circle. It is left alone until another reign begins.
    fn note_echo(&mut self, header: &FrameHeader, head: &Head) {
        self.take_epoch(header.epoch);
        self.figures.relays = header.flags.relays();
        self.figures.path = Some(head.path);
        self.kept.clear();
        self.reading.postpone(u64::MAX);
        if !std::mem::replace(&mut self.figures.is_echo, true) {
            self.event(EdgeEvent::Echo);
        }
    }

    /// Follows this reign from now on, if it is newer.
    fn take_epoch(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.highest = 0;
            self.continues_at = 0;
            self.gap_until = 0;
            self.kept.clear();
            self.figures.path = None;
            self.figures.is_echo = false;
        }
    }

    /// Returns the numbers of the pages that the head of the snapshot names.
    pub fn snapshot_pages(&self) -> Vec<u32> {
        let head = self.reading.head.as_ref();
        head.map_or_else(Vec::new, |(_, head)| head.page_numbers().collect())
    }

    /// Reports a head that has arrived on the subject of heads: a snapshot that is waited for may
    /// be ready.
    pub fn head_seen(&mut self, bytes: &[u8], now_ns: u64) {
        if self.phase == Phase::Following || self.reading.is_asked {
            return;
        }
        let frame = Frame::decode(bytes).ok();
        let is_known = |header: &FrameHeader| self.figures.is_echo && header.epoch <= self.epoch;
        let frame = frame.filter(|frame| !is_known(&frame.header));
        if frame.is_some_and(|frame| self.is_new_enough(&frame.header)) {
            self.reading.at_ns = now_ns;
            self.poll_reading(now_ns);
        }
    }

    /// Returns whether a request for the snapshot is still wanted.
    pub fn is_reading(&self, request: u64) -> bool {
        let is_asked = self.phase == Phase::Reading && self.reading.is_asked;
        is_asked && self.reading.request == request
    }

    /// Receives a page of the snapshot.
    pub fn snapshot_page(&mut self, request: u64, bytes: &[u8], now_ns: u64) {
        let Some(frame) = self.snapshot_frame(request, bytes, now_ns) else {
            return;
        };
        let length = frame.body.len();
        let has_room = self.reading.bytes + length <= SNAPSHOT_BYTES_MAX;
        match page_number(&frame) {
            Some(number) if has_room => {
                self.reading.bytes += length;
                let page = Page {
                    header: frame.header,
                    body: frame.body.into(),
                };
                self.reading.pages.insert(number, page);
            }
            _ => self.figures.corrupt += 1,
        }
    }

    /// Reports that all messages of the snapshot were received.
    pub fn snapshot_end(&mut self, request: u64, now_ns: u64) {
        if !self.is_reading(request) {
            return;
        }
        let Some((header, head)) = self.reading.head.take() else {
            // The source had no owner yet.
            return self.reading.later(now_ns);
        };
        self.take_epoch(header.epoch);
        if !self.is_usable(&header, &head) {
            self.figures.snapshots_refused += 1;
            return self.reading.later(now_ns);
        }
        self.accept(&header, &head, now_ns);
    }

    /// Reports that the snapshot cannot be read now.
    pub fn snapshot_failed(&mut self, request: u64, now_ns: u64) {
        if self.is_reading(request) {
            self.reading.later(now_ns);
        }
    }

    /// Asks for a snapshot if one is needed, and due.
    pub(super) fn poll_reading(&mut self, now_ns: u64) {
        if self.phase != Phase::Reading || now_ns < self.reading.at_ns {
            return;
        }
        if self.reading.is_asked {
            self.reading.later(now_ns);
        } else if self.is_linked {
            self.reading.is_asked = true;
            self.reading.request += 1;
            self.reading.at_ns = now_ns.saturating_add(ANSWER_TIMEOUT_NS);
            let request = self.reading.request;
            self.actions.push_back(EdgeAction::ReadSnapshot { request });
        }
    }

    fn snapshot_frame<'a>(
        &mut self,
        request: u64,
        bytes: &'a [u8],
        now_ns: u64,
    ) -> Option<Frame<'a>> {
        if !self.is_reading(request) {
            return None;
        }
        self.reading.at_ns = now_ns.saturating_add(ANSWER_TIMEOUT_NS);
        let frame = Frame::decode(bytes).ok();
        self.figures.corrupt += u64::from(frame.is_none());
        frame
    }

    /// Returns whether a snapshot is of the newest reign, and continues what the client has.
    fn is_new_enough(&self, header: &FrameHeader) -> bool {
        let next = header.first.saturating_add(1);
        let goes_back = header.session == self.client.session && next < self.client.next;
        header.epoch >= self.epoch && next >= self.continues_at && !goes_back
    }

    /// Returns whether a snapshot is whole and new enough.
    fn is_usable(&self, header: &FrameHeader, head: &Head) -> bool {
        if !self.is_new_enough(header) {
            return false;
        }
        (0..).zip(&head.pages).all(|(number, &written)| {
            let page = self.reading.pages.get(&number);
            written == 0
                || page.is_some_and(|page| {
                    page.header.epoch == header.epoch
                        && page.header.session == header.session
                        && page.header.first.saturating_add(1) >= written
                })
        })
    }

    /// Gives a snapshot to the client, and goes on with the stream behind it.
    fn accept(&mut self, header: &FrameHeader, head: &Head, now_ns: u64) {
        let next = header.first.saturating_add(1);
        let pages = std::mem::take(&mut self.reading.pages);
        self.reading.begin(now_ns);
        self.figures.relays = header.flags.relays();
        self.figures.path = Some(head.path);
        self.begin_stream(header, head, next);
        let notice = SnapshotNotice {
            number: self.client.snapshots,
            as_of: header.first,
            since: 0,
        };
        let control = Control::SnapshotNotice(notice);
        PacketWriter::control(&mut self.bytes, header.session, &control);
        let mut replay = Replay::default();
        replay.note_page(header.first);
        let wanted = pages.into_iter().filter(|(number, _)| {
            head.pages
                .get(*number as usize)
                .is_some_and(|&written| written > 0)
        });
        self.write_snapshot(&notice, wanted, &mut replay);
        self.figures.symbols = replay.symbols();
        self.figures.snapshot_taken_ms = head.taken_ms;
        self.replay = Some(replay);
        self.phase = Phase::Following;
        self.expected = next;
        self.highest = self.highest.max(next);
        self.position = head.log_sequence;
        self.fetch = self.fetch.idle();
        self.end_replay();
        self.settle(now_ns);
        if self.phase == Phase::Following {
            self.fetch.begin(now_ns);
            self.poll_fetch(now_ns);
        }
    }

    /// Tells the client about the stream: by a login in a new reign, else by what it has missed.
    fn begin_stream(&mut self, header: &FrameHeader, head: &Head, next: u64) {
        let session = header.session;
        if self.client.epoch != header.epoch {
            let epoch = header.epoch;
            self.event(EdgeEvent::Restart { epoch, session });
            let accepted = Control::LoginAccepted(LoginAccepted {
                session,
                heartbeat_interval_ms: CLIENT_INTERVAL_MS,
                next_sequence: next,
                oldest_sequence: next,
                partial_snapshots: false,
            });
            PacketWriter::control(&mut self.bytes, session, &accepted);
            self.client.snapshots = 0;
            self.client.epoch = epoch;
            if self.client.session != session {
                self.client.session = session;
                self.client.next = next;
            }
        }
        for venue in &head.venues {
            PacketWriter::control(&mut self.bytes, session, &Control::Venue(*venue));
        }
        self.pass(next);
        self.client.snapshots += 1;
    }

    fn write_snapshot(
        &mut self,
        notice: &SnapshotNotice,
        pages: impl Iterator<Item = (u32, Page)>,
        replay: &mut Replay,
    ) {
        let first = snapshot_position(notice.number, 0);
        let session = self.client.session;
        let (out, flags) = (&mut self.bytes, Flags::SNAPSHOT);
        let mut writer = PacketWriter::new(out, session, flags, first, PACKET_LENGTH_MAX);
        let as_of = notice.as_of;
        writer.push(&Message::SnapshotBegin(SnapshotMark { as_of, records: 0 }));
        let mut records = 0;
        for (_, page) in pages {
            replay.note_page(page.header.first);
            let mut definition = None;
            for message in Packets::of(&page.body)
                .flatten()
                .flat_map(|packet| packet.messages())
            {
                match (message, definition.take()) {
                    (Ok(Message::Definition(found)), _) => definition = Some(found),
                    (Ok(Message::LastValue(record)), Some(named))
                        if named.symbol == record.symbol =>
                    {
                        writer.push(&Message::Definition(named));
                        writer.push(&Message::LastValue(record));
                        replay.note_record(record.symbol, record.sequence);
                        records += 1;
                    }
                    (Ok(message @ (Message::Topic(_) | Message::TopicStamp(_))), _) => {
                        writer.push(&message);
                    }
                    _ => {}
                }
            }
        }
        writer.push(&Message::SnapshotEnd(SnapshotMark { as_of, records }));
        writer.finish();
    }
}
