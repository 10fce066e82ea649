//! The snapshot of a source: pages that are written again when one of their entries has changed,
//! and a head that says from where the log continues them.

use std::collections::BTreeSet;

use tidewire_retry::BackOff;

use tidewire_feed::wire::{Flags, PACKET_LENGTH_MAX, PacketWriter, snapshot_position};

use crate::frame::{Frame, FrameFlags, FrameHeader, HEADER_LENGTH};
use crate::head::{Head, PAGE_ENTRIES, PAGES_MAX};
use crate::path::Path;
use crate::reader::{Reader, Records};

use super::{Destination, OwnerAction, Publication, Times};

/// Maximum pages that the stream of snapshots has not acknowledged.
pub const PAGES_IN_FLIGHT_MAX: usize = 64;
/// After this time all pages are written again, in case that the stream has lost some.
pub const REWRITE_INTERVAL_NS: u64 = 600_000_000_000;
/// Delay of a snapshot after one that was not taken.
const RETRY_NS: u64 = 500_000_000;
/// Delays after pages that were not taken, as while their stream is gone.
const PAGE_BACK_OFF: BackOff = BackOff {
    delay_ns_first: 50_000_000,
    delay_ns_max: 2_000_000_000,
    connect_ns_max: 0,
};

/// A walk over the board.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    as_of: u64,
    log_sequence: u64,
    /// Pages that the snapshot has.
    length: usize,
    next: usize,
    times: Times,
}

/// The writer of a source's snapshot.
#[derive(Debug)]
pub(super) struct Pages {
    path: Path,
    /// By number: one past the as-of of the newest writing; 0 for a page that was not written.
    written: Vec<u64>,
    in_flight: BTreeSet<u32>,
    /// Pages of the sweep whose outcome is unknown.
    failed: BTreeSet<u32>,
    /// Whether nothing is written now.
    is_held: bool,
    /// Whether pages have failed since the last look.
    has_failed: bool,
    /// Times that pages failed since one was stored.
    failures: u32,
    /// No page is written before this time.
    resume_ns: u64,
    sweep: Option<Sweep>,
    /// The sweep whose head is being stored.
    head: Option<Sweep>,
    /// As-of and time of the last sweep whose head was stored.
    stored: Option<Sweep>,
    next_sweep_ns: u64,
    rewrite_ns: u64,
    written_count: u64,
    stored_count: u64,
    /// Whether the next sweep writes a head even if nothing has changed.
    is_due: bool,
}

impl Pages {
    pub(super) fn new(path: Path, now_ns: u64) -> Pages {
        Pages {
            path,
            written: Vec::new(),
            in_flight: BTreeSet::new(),
            failed: BTreeSet::new(),
            is_held: false,
            has_failed: false,
            failures: 0,
            resume_ns: now_ns,
            sweep: None,
            head: None,
            stored: None,
            next_sweep_ns: now_ns,
            rewrite_ns: now_ns.saturating_add(REWRITE_INTERVAL_NS),
            written_count: 0,
            stored_count: 0,
            is_due: true,
        }
    }

    /// Writes pages that have changed, looking at about `budget` entries, and then the head.
    /// Returns whether more is ready.
    pub(super) fn produce<R: Reader, B: Records>(
        &mut self,
        (reader, board): (&R, &B),
        header: FrameHeader,
        log_sequence: u64,
        (times, interval_ns): (Times, u64),
        budget: usize,
        actions: &mut Vec<OwnerAction>,
    ) -> bool {
        if self.waits(times.now_ns) {
            return false;
        }
        self.begin((reader, board), log_sequence, (times, interval_ns));
        let Some(mut sweep) = self.sweep else {
            return false;
        };
        // After failures, one page shows whether the stream takes them again.
        let in_flight_max = match self.failures {
            0 => PAGES_IN_FLIGHT_MAX,
            _ => 1,
        };
        let mut left = budget.div_ceil(PAGE_ENTRIES).max(1);
        while let Some(page) = self.next_page(&sweep) {
            if left == 0 || self.in_flight.len() >= in_flight_max {
                self.sweep = Some(sweep);
                return left == 0;
            }
            if self.in_flight.contains(&page) {
                // Not twice at a time: the older one could come to be the newer.
                self.sweep = Some(sweep);
                return false;
            }
            left -= 1;
            self.failed.remove(&page);
            sweep.next += usize::from(page as usize == sweep.next);
            self.write_page((reader, board), header, page, actions);
        }
        self.sweep = Some(sweep);
        if self.in_flight.is_empty() && self.head.is_none() {
            self.write_head(board, header, sweep, actions);
            if !self.is_due {
                self.next_sweep_ns = times.now_ns.saturating_add(interval_ns);
            }
        }
        false
    }

    pub(super) fn page_stored(&mut self, page: u32) {
        self.in_flight.remove(&page);
        self.failures = 0;
        self.resume_ns = 0;
    }

    pub(super) fn page_failed(&mut self, page: u32) {
        if self.in_flight.remove(&page) {
            self.forget(page);
            self.has_failed = true;
        }
    }

    /// Returns whether nothing is written now, because pages have failed: a stream that is gone
    /// refuses each of them at once.
    fn waits(&mut self, now_ns: u64) -> bool {
        if std::mem::take(&mut self.has_failed) {
            let delay_ns = PAGE_BACK_OFF.delay_ns(self.failures, now_ns);
            self.resume_ns = now_ns.saturating_add(delay_ns);
            self.failures = self.failures.saturating_add(1);
        }
        self.is_held || now_ns < self.resume_ns
    }

    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(super) fn head_stored(&mut self) {
        if let Some(head) = self.head.take() {
            self.stored = Some(head);
            self.stored_count += 1;
        }
    }

    pub(super) fn head_failed(&mut self) {
        if let Some(head) = self.head.take() {
            self.is_due = true;
            self.next_sweep_ns = head.times.now_ns.saturating_add(RETRY_NS);
        }
    }

    /// Begins the next sweep as soon as possible, and writes a head after it.
    pub(super) fn hasten(&mut self) {
        self.is_due = true;
        self.next_sweep_ns = 0;
    }

    /// Writes everything again, and at once.
    pub(super) fn rewrite(&mut self) {
        self.has_failed = false;
        self.failures = 0;
        self.resume_ns = 0;
        self.written.fill(0);
        self.sweep = None;
        self.hasten();
    }

    pub(super) fn lost_connection(&mut self) {
        for page in std::mem::take(&mut self.in_flight) {
            self.forget(page);
        }
        self.head_failed();
    }

    /// Writes again what another hub has replaced.
    pub(super) fn seen(&mut self, bytes: &[u8], epoch: u64) {
        let Ok(frame) = Frame::decode(bytes) else {
            // It has taken the place of a page, or of the head: which one is not known.
            if self.sweep.is_none() {
                self.rewrite();
            }
            return;
        };
        if frame.header.epoch >= epoch {
            return;
        }
        if frame.header.flags.contains(FrameFlags::HEAD) {
            self.hasten();
        }
        if let Some(page) = page_number(&frame) {
            self.forget(page);
            self.hasten();
        }
    }

    pub(super) fn deadline_ns(&self) -> u64 {
        match self.sweep {
            _ if self.is_held => u64::MAX,
            // The caller looks at once, and learns how long pages wait.
            _ if self.has_failed => 0,
            None if self.head.is_none() => self.next_sweep_ns.max(self.resume_ns),
            Some(_) if self.failures > 0 && self.in_flight.is_empty() => self.resume_ns,
            _ => u64::MAX,
        }
    }

    /// Returns the number of pages that the stream has, with the head; `None` while that changes.
    pub(super) fn stored_messages(&self) -> Option<u64> {
        let is_quiet = self.sweep.is_none() && self.head.is_none() && self.in_flight.is_empty();
        let stored = self.stored.filter(|_| is_quiet && self.failed.is_empty())?;
        let pages = self.written[..stored.length]
            .iter()
            .filter(|&&page| page > 0);
        Some(pages.count() as u64 + 1)
    }

    pub(super) fn written(&self) -> u64 {
        self.written_count
    }

    pub(super) fn snapshots(&self) -> u64 {
        self.stored_count
    }

    pub(super) fn taken_ns(&self) -> Option<u64> {
        self.stored.map(|stored| stored.times.now_ns)
    }

    fn forget(&mut self, page: u32) {
        if let Some(written) = self.written.get_mut(page as usize) {
            *written = 0;
            self.failed.insert(page);
            self.is_due = true;
        }
    }

    fn begin<R: Reader, B: Records>(
        &mut self,
        (reader, board): (&R, &B),
        log_sequence: u64,
        (times, interval_ns): (Times, u64),
    ) {
        if self.sweep.is_some() || self.head.is_some() || times.now_ns < self.next_sweep_ns {
            return;
        }
        // Read before the board: its values are at least as new.
        let as_of = reader.next().saturating_sub(1);
        let is_rewrite = times.now_ns >= self.rewrite_ns;
        let is_same = self.stored.is_some_and(|stored| stored.as_of == as_of);
        if is_same && !self.is_due && !is_rewrite {
            self.next_sweep_ns = times.now_ns.saturating_add(interval_ns);
            return;
        }
        if is_rewrite {
            self.written.fill(0);
            self.rewrite_ns = times.now_ns.saturating_add(REWRITE_INTERVAL_NS);
        }
        self.is_due = false;
        self.failed.clear();
        let length = board.len().div_ceil(PAGE_ENTRIES).min(PAGES_MAX);
        self.written.resize(length.max(self.written.len()), 0);
        self.sweep = Some(Sweep {
            as_of,
            log_sequence,
            length,
            next: 0,
            times,
        });
    }

    /// Returns the next page to look at: those that failed come first.
    fn next_page(&self, sweep: &Sweep) -> Option<u32> {
        let failed = self.failed.first().copied();
        let in_turn = || (sweep.next < sweep.length).then_some(sweep.next as u32);
        failed.or_else(in_turn)
    }

    /// Writes a page, if one of its entries has changed since its last writing.
    fn write_page<R: Reader, B: Records>(
        &mut self,
        (reader, board): (&R, &B),
        header: FrameHeader,
        page: u32,
        actions: &mut Vec<OwnerAction>,
    ) {
        let next = reader.next();
        let from = page as usize * PAGE_ENTRIES;
        let entries = from..(from + PAGE_ENTRIES).min(board.len());
        let written = self.written[page as usize];
        let is_changed = |index| written == 0 || board.changed(index) >= written;
        if !entries.clone().any(is_changed) {
            return;
        }
        let mut frame = vec![0; HEADER_LENGTH];
        let position = snapshot_position(page, 0);
        let session = header.session;
        let mut writer = PacketWriter::new(
            &mut frame,
            session,
            Flags::SNAPSHOT,
            position,
            PACKET_LENGTH_MAX,
        );
        let mut count = 0;
        for index in entries {
            count += u32::from(board.write(index, reader, &mut writer));
        }
        writer.finish();
        if count == 0 && written == 0 {
            // No page: nothing on it is published.
            return;
        }
        if count == 0 {
            // The page has become empty: its number must be readable nevertheless.
            PacketWriter::bare(&mut frame, session, Flags::SNAPSHOT, position);
        }
        self.written[page as usize] = next;
        let header = FrameHeader {
            flags: header.flags.with(FrameFlags::PAGE),
            first: next.saturating_sub(1),
            count,
            ..header
        };
        header.seal(&mut frame);
        self.written_count += 1;
        self.in_flight.insert(page);
        actions.push(OwnerAction::Publish(Publication {
            to: Destination::Page(page),
            bytes: frame.into(),
        }));
    }

    fn write_head<B: Records>(
        &mut self,
        board: &B,
        header: FrameHeader,
        sweep: Sweep,
        actions: &mut Vec<OwnerAction>,
    ) {
        let head = Head {
            log_sequence: sweep.log_sequence,
            taken_ms: sweep.times.wall_ms,
            pages: self.written[..sweep.length].to_vec(),
            path: self.path,
            venues: board.venues(),
        };
        let header = FrameHeader {
            first: sweep.as_of,
            ..header
        };
        self.sweep = None;
        self.head = Some(sweep);
        actions.push(OwnerAction::Publish(Publication {
            to: Destination::Head,
            bytes: head.encode(header).into(),
        }));
    }
}

/// Returns the number of a page; `None` for a frame that is no page, or one without a packet.
pub(crate) fn page_number(frame: &Frame<'_>) -> Option<u32> {
    if !frame.header.flags.contains(FrameFlags::PAGE) {
        return None;
    }
    let packet = frame.packets().next()?.ok()?;
    Some((packet.header.first_sequence >> 32) as u32)
}
