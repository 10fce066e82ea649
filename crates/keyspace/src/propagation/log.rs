//! An ordered stream of commands in bytes, which readers follow by offset.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::unit::{write_command, write_select};
use super::{Audience, Unit};
use crate::key::DATABASES;

/// A stream of RESP commands. Lanes append to it while they hold the shards they changed. Readers,
/// on other threads or in other turns, follow it by offset, in bytes since the stream's first
/// start.
///
/// It keeps everything since [`start`](Self::start) until it is [trimmed](Self::trim) or exceeds
/// its [limit](Self::set_limit). At the limit, the oldest part is dropped; a reader that still
/// needs it gets an error.
#[derive(Default)]
pub struct Log {
    tail: Mutex<Tail>,
    is_open: AtomicBool,
    /// Offset after the last change.
    changed: AtomicU64,
    /// Copy of the end offset, for checking without the lock whether there is new data.
    end: AtomicU64,
    waker: OnceLock<Waker>,
    /// Bytes of dropped chunks that are not freed yet.
    dropped_bytes: AtomicU64,
}

type Waker = Box<dyn Fn() + Send + Sync>;

/// The greatest offset at which a stream may continue. Offsets are sent as signed 64-bit numbers,
/// so an offset from another server or a file must leave room for the rest of the stream.
pub const OFFSET_MAX: u64 = i64::MAX as u64 - (1 << 48);

/// The requested bytes were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest available offset.
    pub oldest: u64,
}

/// The available part of the stream: consecutive chunks.
struct Tail {
    is_open: bool,
    /// Whether the bytes come from another server: only [`Log::relay`] appends.
    relays: bool,
    chunks: VecDeque<Vec<u8>>,
    /// Offset of the first byte of the first chunk.
    start: u64,
    /// Oldest readable offset. Earlier bytes may still be in memory.
    kept: u64,
    /// Offset after the last byte.
    end: u64,
    bytes_max: u64,
    /// The database that the stream has selected; `None` if the next command must select one.
    database: Option<usize>,
}

impl Log {
    /// Sets the function to call when there is new data. It is called while shards are locked, and
    /// must return at once. Only the first call has an effect.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    /// Returns the offset after the last byte. One atomic load.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Returns whether changes are written here.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns the offset after the last change; [`append_aside`](Self::append_aside) makes no
    /// change.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    /// Returns the oldest available offset.
    pub fn oldest(&self) -> u64 {
        self.tail.lock().kept
    }

    /// Returns the memory of the available part in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let kept = self.tail.lock().chunks.len() * CHUNK_BYTES;
        kept as u64 + self.dropped_bytes.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of bytes to keep. The oldest are dropped in whole chunks.
    pub fn set_limit(&self, bytes_max: u64) {
        self.tail.lock().bytes_max = bytes_max;
    }

    /// Makes the next command select its database, for a reader that starts at the end. Returns the
    /// end offset. A relayed stream stays unchanged: its reader must be told the
    /// [`database`](Self::database).
    pub fn begin(&self) -> u64 {
        let mut tail = self.tail.lock();
        if !tail.relays {
            tail.database = None;
        }
        tail.end
    }

    /// Appends up to about `bytes_max` bytes from an offset on to `out`. Returns the offset after
    /// them. An offset beyond the end reads nothing.
    pub fn read(&self, from: u64, bytes_max: usize, out: &mut Vec<u8>) -> Result<u64, TooOld> {
        let tail = self.tail.lock();
        if from < tail.kept {
            return Err(TooOld { oldest: tail.kept });
        }
        let (mut at, mut start) = (from, tail.start);
        for chunk in &tail.chunks {
            let end = start + chunk.len() as u64;
            if at < end {
                let left = bytes_max.saturating_sub((at - from) as usize);
                let part = &chunk[(at - start) as usize..];
                let part = &part[..part.len().min(left)];
                out.extend_from_slice(part);
                at += part.len() as u64;
                if part.len() == left {
                    break;
                }
            }
            start = end;
        }
        Ok(at)
    }

    /// Drops everything before an offset that no reader needs any more. Memory is freed in whole
    /// chunks.
    pub fn trim(&self, before: u64) {
        let mut dropped = Vec::new();
        let mut tail = self.tail.lock();
        while let Some(chunk) = tail.chunks.front()
            && tail.chunks.len() > 1
            && tail.start + chunk.len() as u64 <= before
        {
            dropped.extend(tail.drop_first());
        }
        tail.kept = tail.kept.max(before.min(tail.end));
        debug_assert!(tail.start <= tail.kept && tail.kept <= tail.end);
        let bytes = (dropped.len() * CHUNK_BYTES) as u64;
        self.dropped_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(tail);
        drop(dropped);
        self.dropped_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Appends a command without a database that changes nothing: PING, REPLCONF GETACK.
    pub fn append_aside(&self, words: &[&[u8]]) {
        let mut tail = self.tail.lock();
        if tail.relays {
            return;
        }
        let mut bytes = Vec::new();
        write_command(&mut bytes, words.iter().copied());
        tail.push(&bytes);
        self.publish(tail.end);
        drop(tail);
        self.wake();
    }

    /// Continues from an offset of another server's stream, at most [`OFFSET_MAX`].
    pub fn continue_at(&self, offset: u64) {
        let mut tail = self.tail.lock();
        tail.chunks.clear();
        (tail.start, tail.kept, tail.end) = (offset, offset, offset);
        tail.database = None;
        self.changed.store(offset, Ordering::Release);
        self.publish(offset);
    }

    /// Appends bytes of another server's stream unchanged, and stores the database that they leave
    /// selected. The caller applies the changes at the same moment.
    pub fn relay(&self, bytes: &[u8], database: usize) {
        debug_assert!(database < DATABASES);
        let mut tail = self.tail.lock();
        if !tail.is_open || !tail.relays {
            return;
        }
        tail.push(bytes);
        tail.database = Some(database);
        self.changed.store(tail.end, Ordering::Release);
        self.publish(tail.end);
        drop(tail);
        self.wake();
    }

    /// Returns the database that is selected at the stream's end, if any.
    pub fn database(&self) -> Option<usize> {
        self.tail.lock().database
    }

    /// Opens it for local changes or for the stream of another server.
    pub(super) fn open(&self, relays: bool) {
        let mut tail = self.tail.lock();
        tail.is_open = true;
        if tail.relays && !relays {
            // The first local change must select its database.
            tail.database = None;
        }
        tail.relays = relays;
        self.is_open.store(true, Ordering::Release);
    }

    pub(super) fn close(&self) {
        let mut tail = self.tail.lock();
        tail.is_open = false;
        self.is_open.store(false, Ordering::Release);
        tail.chunks.clear();
        (tail.start, tail.kept, tail.database) = (tail.end, tail.end, None);
        tail.relays = false;
    }

    pub(super) fn append(&self, unit: &Unit, audience: Audience) {
        let Some((first, last)) = unit.databases().filter(|_| !unit.is_silent(audience)) else {
            return;
        };
        debug_assert!(first < DATABASES && last < DATABASES);
        let mut tail = self.tail.lock();
        if !tail.is_open || tail.relays {
            return;
        }
        if unit.is_transaction() {
            tail.push(MULTI);
        }
        if tail.database != Some(first) {
            let mut select = Vec::new();
            write_select(&mut select, first);
            tail.push(&select);
        }
        unit.parts(audience).for_each(|part| tail.push(part));
        tail.database = Some(last);
        if unit.is_transaction() {
            tail.push(EXEC);
        }
        self.changed.store(tail.end, Ordering::Release);
        self.publish(tail.end);
        drop(tail);
        self.wake();
    }

    /// Stores under the lock, so that the offset never decreases.
    fn publish(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }
}

impl Tail {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self
                .chunks
                .back()
                .map_or(0, |chunk| CHUNK_BYTES - chunk.len());
            if room == 0 {
                self.add_chunk();
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(room));
            if let Some(chunk) = self.chunks.back_mut() {
                chunk.extend_from_slice(now);
            }
            self.end += now.len() as u64;
            debug_assert!(self.start <= self.kept && self.kept <= self.end);
            bytes = later;
        }
    }

    fn add_chunk(&mut self) {
        debug_assert!(
            self.chunks
                .back()
                .is_none_or(|chunk| chunk.len() == CHUNK_BYTES),
            "the last chunk alone has room"
        );
        let is_full = self.end - self.start >= self.bytes_max;
        let mut chunk = is_full.then(|| self.drop_first()).flatten();
        while self.end - self.start > self.bytes_max && self.drop_first().is_some() {}
        let mut chunk = chunk
            .take()
            .unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES));
        chunk.clear();
        self.chunks.push_back(chunk);
    }

    fn drop_first(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        self.start += chunk.len() as u64;
        self.kept = self.kept.max(self.start);
        debug_assert!(self.start <= self.end, "only written bytes are dropped");
        Some(chunk)
    }
}

impl Default for Tail {
    fn default() -> Self {
        Tail {
            is_open: false,
            relays: false,
            chunks: VecDeque::new(),
            start: 0,
            kept: 0,
            end: 0,
            bytes_max: u64::MAX,
            database: None,
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = self.tail.lock();
        formatter
            .debug_struct("Log")
            .field("is_open", &tail.is_open)
            .field("start", &tail.start)
            .field("end", &tail.end)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for TooOld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kept only from offset {} on", self.oldest)
    }
}

impl std::error::Error for TooOld {}

const CHUNK_BYTES: usize = 64 << 10;
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

#[cfg(test)]
mod tests {
    use super::super::{Propagation, changes_told_here};
    use super::*;

    fn unit(database: usize, words: &[&[u8]]) -> Unit {
        let mut unit = Unit::default();
        unit.push(database, words.iter().copied());
        unit
    }

    fn all(log: &Log) -> String {
        let mut out = Vec::new();
        log.read(log.oldest(), usize::MAX, &mut out).expect("kept");
        let text = String::from_utf8_lossy(&out).into_owned();
        let words = text.split("\r\n").filter(|word| !word.starts_with('$'));
        let words: Vec<&str> = words.collect();
        words.join(" ")
    }

    #[test]
    fn only_changes_of_this_thread_are_counted_and_no_expirations() {
        let propagation = Propagation::default();
        propagation.open(Audience::File);
        let before = changes_told_here();
        std::thread::scope(|scope| {
            scope.spawn(|| propagation.append(&unit(0, &[b"SET", b"theirs", b"v"])));
        });
        let mut expired = Unit::default();
        expired.push_expiry(0, [&b"DEL"[..], b"late"]);
        propagation.append(&expired);
        let mut published = Unit::default();
        published.push_for_replicas(0, [&b"PUBLISH"[..], b"a", b"b"]);
        propagation.append(&published);
        assert_eq!(changes_told_here(), before);
        expired.push(0, [&b"SET"[..], b"ours", b"v"]);
        propagation.append(&expired);
        assert_eq!(changes_told_here(), before + 1);
    }

    #[test]
    fn a_database_is_selected_once_and_inside_a_transaction() {
        let propagation = Propagation::default();
        propagation.open(Audience::File);
        let log = propagation.log(Audience::File);
        propagation.append(&unit(0, &[b"DEL", b"a"]));
        propagation.append(&unit(0, &[b"DEL", b"b"]));
        let mut two = unit(3, &[b"DEL", b"c"]);
        two.push(0, [&b"DEL"[..], b"d"]);
        propagation.append(&two);
        propagation.append(&unit(0, &[b"DEL", b"e"]));
        assert_eq!(
            all(log),
            "*2 SELECT 0 *2 DEL a *2 DEL b *1 MULTI *2 SELECT 3 *2 DEL c *2 SELECT 0 *2 DEL d \
             *1 EXEC *2 DEL e "
        );
        log.begin();
        propagation.append(&unit(0, &[b"DEL", b"f"]));
        assert!(all(log).ends_with("*2 SELECT 0 *2 DEL f "));
    }

    #[test]
    fn commands_for_replicas_only_are_not_in_the_file() {
        let propagation = Propagation::default();
        propagation.open(Audience::File);
        propagation.open(Audience::Replicas);
        let mut unit = Unit::default();
        unit.push_for_replicas(0, [&b"PUBLISH"[..], b"c", b"m"]);
        propagation.append(&unit);
        unit.push(0, [&b"DEL"[..], b"a"]);
        unit.loosen();
        propagation.append(&unit);
        assert_eq!(
            all(propagation.log(Audience::File)),
            "*2 SELECT 0 *2 DEL a "
        );
        assert_eq!(
            all(propagation.log(Audience::Replicas)),
            "*2 SELECT 0 *3 PUBLISH c m *3 PUBLISH c m *2 DEL a "
        );
    }

    #[test]
    fn withheld_commands_reach_no_excluded_audience() {
        let propagation = Propagation::default();
        propagation.open(Audience::File);
        propagation.open(Audience::Replicas);
        let mut unit = unit(0, &[b"DEL", b"both"]);
        unit.withhold(true, true);
        unit.push(0, [&b"DEL"[..], b"nobody"]);
        unit.withhold(true, false);
        unit.push(0, [&b"DEL"[..], b"file"]);
        unit.push_for_replicas(0, [&b"PUBLISH"[..], b"c", b"m"]);
        unit.withhold(false, false);
        unit.push(0, [&b"DEL"[..], b"end"]);
        unit.loosen();
        propagation.append(&unit);
        assert_eq!(
            all(propagation.log(Audience::File)),
            "*2 SELECT 0 *2 DEL both *2 DEL file *2 DEL end "
        );
        assert_eq!(
            all(propagation.log(Audience::Replicas)),
            "*2 SELECT 0 *2 DEL both *2 DEL end "
        );
    }

    #[test]
    fn beyond_the_limit_the_oldest_bytes_are_dropped_and_readers_get_an_error() {
        let propagation = Propagation::default();
        propagation.open(Audience::Replicas);
        let log = propagation.log(Audience::Replicas);
        log.set_limit(4 * CHUNK_BYTES as u64);
        let value = vec![b'x'; 10_000];
        (0..100).for_each(|_| propagation.append(&unit(0, &[b"SET", b"k", &value])));
        assert!(log.end() - log.oldest() <= 5 * CHUNK_BYTES as u64);
        let oldest = log.oldest();
        assert_eq!(log.read(0, 10, &mut Vec::new()), Err(TooOld { oldest }));
        let (mut out, mut at) = (Vec::new(), oldest);
        while at < log.end() {
            at = log.read(at, 777, &mut out).expect("kept");
        }
        assert_eq!(out.len() as u64, log.end() - oldest);
        log.trim(log.end());
        assert!(log.end() - log.oldest() <= CHUNK_BYTES as u64);
    }

    #[test]
    fn a_relayed_stream_is_kept_byte_for_byte_and_continued_locally() {
        let propagation = Propagation::default();
        let log = propagation.log(Audience::Replicas);
        log.continue_at(1_000);
        propagation.relay(Audience::Replicas);
        assert!(log.is_open() && !propagation.is_wanted());
        propagation.append(&unit(0, &[b"DEL", b"local"]));
        log.append_aside(&[b"PING"]);
        log.relay(b"*1\r\n$4\r\nPING\r\n", 7);
        assert_eq!((log.begin(), log.database()), (1_014, Some(7)));
        propagation.open(Audience::Replicas);
        assert!(propagation.is_wanted());
        propagation.append(&unit(7, &[b"DEL", b"a"]));
        assert_eq!(all(log), "*1 PING *2 SELECT 7 *2 DEL a ");
        log.trim(1_014);
        assert_eq!(all(log), "*2 SELECT 7 *2 DEL a ");
        let too_old = Err(TooOld { oldest: 1_014 });
        assert_eq!(log.read(1_013, 1, &mut Vec::new()), too_old);
    }

    #[test]
    fn a_closed_log_keeps_only_its_offset() {
        let propagation = Propagation::default();
        assert!(!propagation.is_wanted());
        propagation.open(Audience::File);
        propagation.append(&unit(0, &[b"DEL", b"a"]));
        let end = propagation.log(Audience::File).end();
        propagation.close(Audience::File);
        propagation.append(&unit(0, &[b"DEL", b"a"]));
        assert_eq!(propagation.log(Audience::File).end(), end);
        assert_eq!(propagation.log(Audience::File).oldest(), end);
    }
}
