//! The newest state of one plant tag: a seqlock, with long values outside of it.

use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex, Ordering, fence, pause};

/// The newest state of one plant tag. Writers exclude each other, and never wait for a reader.
///
/// ```text
///        0         8        16       24        32        40        48 … 80
///        │ version │ head   │ status │ source  │ receive │ sequence │ value, up to 32 bytes │
///        │         │        │        │ time    │ time    │          │                       │
/// ```
///
/// A value of at most [`TAG_INLINE_BYTES`] is in the slot. A longer one is shared, behind a lock
/// that is held only while a pointer is copied.
#[derive(Debug)]
#[repr(align(64))]
pub struct TagSlot {
    /// Odd during an update; half of it is the number of updates.
    version: AtomicU64,
    /// See [`Head`].
    head: AtomicU64,
    status: AtomicU64,
    source_time: AtomicU64,
    receive_time_ns: AtomicU64,
    sequence: AtomicU64,
    value: [AtomicU64; INLINE_WORDS],
    long: Mutex<Option<Arc<[u8]>>>,
}

/// A copy of a tag's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagValue {
    /// Number of updates of the slot; 0 if there was none.
    pub updates: u64,
    /// The type of `bytes`, as the source's protocol encodes it.
    pub kind: u8,
    /// Whether the value is no longer current.
    pub stale: bool,
    /// The OPC quality word; 192 is good.
    pub quality: u16,
    /// The source's status of the tag, as one word of its protocol.
    pub status: u32,
    /// Time of measurement: FILETIME, 100 ns since 1601, as received.
    pub source_time: i64,
    /// Time of receipt, ns since the UNIX epoch.
    pub receive_time_ns: u64,
    /// The sequence of the update.
    pub sequence: u64,
    /// The value as its protocol encodes it.
    pub bytes: TagBytes,
}

/// The bytes of a value.
#[derive(Clone, Debug)]
pub enum TagBytes {
    /// A short value.
    Inline {
        /// Number of valid bytes in `bytes`.
        length: u8,
        /// The value, padded with zeros.
        bytes: [u8; TAG_INLINE_BYTES],
    },
    /// A long value.
    Shared(Arc<[u8]>),
}

/// The metadata of a value; it can also be stored without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagStamp {
    /// See [`TagValue::stale`].
    pub stale: bool,
    /// See [`TagValue::quality`].
    pub quality: u16,
    /// See [`TagValue::status`].
    pub status: u32,
    /// See [`TagValue::source_time`].
    pub source_time: i64,
    /// See [`TagValue::receive_time_ns`].
    pub receive_time_ns: u64,
    /// See [`TagValue::sequence`].
    pub sequence: u64,
}

/// Maximum number of bytes of a value in the slot.
pub const TAG_INLINE_BYTES: usize = 8 * INLINE_WORDS;

impl TagSlot {
    /// Creates a slot that was never written.
    pub fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            head: AtomicU64::new(0),
            status: AtomicU64::new(0),
            source_time: AtomicU64::new(0),
            receive_time_ns: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            value: std::array::from_fn(|_| AtomicU64::new(0)),
            long: Mutex::new(None),
        }
    }

    /// Stores a value and its stamp. Returns the number of updates so far.
    #[inline]
    pub fn store(&self, kind: u8, bytes: &[u8], stamp: TagStamp) -> u64 {
        let length = match u8::try_from(bytes.len()) {
            Ok(length) if bytes.len() <= TAG_INLINE_BYTES => length,
            _ => LONG,
        };
        // Allocated before the update, so that readers do not wait for it.
        let shared = (length == LONG).then(|| Arc::<[u8]>::from(bytes));
        self.update(|slot| {
            match shared {
                Some(shared) => *slot.lock_long() = Some(shared),
                None => slot.store_inline(bytes),
            }
            slot.store_stamp(kind, length, stamp);
        })
    }

    /// Stores the stamp and keeps the value. Returns the number of updates so far.
    #[inline]
    pub fn store_stamp_only(&self, stamp: TagStamp) -> u64 {
        self.update(|slot| {
            let head = Head::unpack(slot.head.load(Ordering::Relaxed));
            slot.store_stamp(head.kind, head.length, stamp);
        })
    }

    /// Returns a consistent copy. Retries during an update.
    #[inline]
    pub fn snapshot(&self) -> TagValue {
        let mut attempts = 0_u32;
        loop {
            if let Some(value) = self.try_snapshot() {
                return value;
            }
            attempts = attempts.wrapping_add(1);
            pause(attempts);
        }
    }

    /// Returns a consistent copy, or `None` if an update interfered.
    #[inline]
    pub fn try_snapshot(&self) -> Option<TagValue> {
        let version = self.version.load(Ordering::Acquire);
        if !version.is_multiple_of(2) {
            return None;
        }
        let head = Head::unpack(self.head.load(Ordering::Relaxed));
        let bytes = if head.length == LONG {
            TagBytes::Shared(self.lock_long().clone()?)
        } else {
            self.copy_inline(head.length)
        };
        let value = TagValue {
            updates: version / 2,
            kind: head.kind,
            stale: head.stale,
            quality: head.quality,
            status: self.status.load(Ordering::Relaxed) as u32,
            source_time: self.source_time.load(Ordering::Relaxed) as i64,
            receive_time_ns: self.receive_time_ns.load(Ordering::Relaxed),
            sequence: self.sequence.load(Ordering::Relaxed),
            bytes,
        };
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(value)
    }

    /// Returns the number of completed updates: a cheap way to detect a change.
    #[inline]
    pub fn updates(&self) -> u64 {
        self.version.load(Ordering::Acquire) / 2
    }

    /// Runs `stores` as one update, after any other update is complete.
    #[inline]
    fn update(&self, stores: impl FnOnce(&Self)) -> u64 {
        let version = self.begin_update();
        fence(Ordering::Release);
        stores(self);
        self.version.store(version + 2, Ordering::Release);
        version / 2 + 1
    }

    /// Makes the version odd, once it is even. The acquire shows what the last writer stored.
    #[inline]
    fn begin_update(&self) -> u64 {
        let mut attempts = 0_u32;
        loop {
            let version = self.version.load(Ordering::Relaxed) & !1;
            let odd = self.version.compare_exchange(
                version,
                version + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if odd.is_ok() {
                return version;
            }
            attempts = attempts.wrapping_add(1);
            pause(attempts);
        }
    }

    #[inline]
    fn store_inline(&self, bytes: &[u8]) {
        let mut whole = [0; TAG_INLINE_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        let used = bytes.len().div_ceil(8);
        let words = whole.as_chunks::<8>().0;
        for (word, bytes) in self.value.iter().zip(words).take(used) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    #[inline]
    fn copy_inline(&self, length: u8) -> TagBytes {
        let mut bytes = [0; TAG_INLINE_BYTES];
        let used = usize::from(length).div_ceil(8);
        let words = bytes.as_chunks_mut::<8>().0.iter_mut();
        for (bytes, word) in words.zip(&self.value).take(used) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        TagBytes::Inline { length, bytes }
    }

    #[inline]
    fn store_stamp(&self, kind: u8, length: u8, stamp: TagStamp) {
        let head = Head {
            kind,
            length,
            stale: stamp.stale,
            quality: stamp.quality,
        };
        self.head.store(head.pack(), Ordering::Relaxed);
        self.status.store(stamp.status.into(), Ordering::Relaxed);
        self.source_time
            .store(stamp.source_time as u64, Ordering::Relaxed);
        self.receive_time_ns
            .store(stamp.receive_time_ns, Ordering::Relaxed);
        self.sequence.store(stamp.sequence, Ordering::Relaxed);
    }

    fn lock_long(&self) -> impl std::ops::DerefMut<Target = Option<Arc<[u8]>>> + '_ {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TagSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl TagBytes {
    /// Returns the value.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length).min(bytes.len())],
            Self::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for TagBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for TagBytes {}

/// The word that describes the value.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    /// [`LONG`] for a value that is not in the slot.
    length: u8,
    stale: bool,
    quality: u16,
}

impl Head {
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.kind)
            | u64::from(self.length) << 8
            | u64::from(self.quality) << 16
            | u64::from(self.stale) << 32
    }

    #[inline]
    fn unpack(word: u64) -> Self {
        Self {
            kind: word as u8,
            length: (word >> 8) as u8,
            quality: (word >> 16) as u16,
            stale: word >> 32 & 1 == 1,
        }
    }
}

const INLINE_WORDS: usize = 4;
/// In place of a length: the value is not in the slot.
const LONG: u8 = u8::MAX;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn stamp(n: u64) -> TagStamp {
        TagStamp {
            stale: n % 2 == 1,
            quality: n as u16,
            status: n as u32,
            source_time: -(n as i64),
            receive_time_ns: n,
            sequence: n,
        }
    }

    #[test]
    fn values_of_every_length_come_back_and_a_stamp_leaves_them() {
        let slot = TagSlot::new();
        assert_eq!(slot.snapshot().updates, 0);
        assert_eq!(slot.snapshot().bytes.as_slice(), b"");
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 254, 255, 256, 5_000, 3, 0] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let updates = slot.store(4, &bytes, stamp(length as u64));
            let value = slot.snapshot();
            assert_eq!((value.updates, value.kind), (updates, 4));
            assert_eq!(value.bytes.as_slice(), bytes);
            assert_eq!(value.quality, length as u16);
            slot.store_stamp_only(stamp(70_001));
            let value = slot.snapshot();
            assert_eq!(
                (value.kind, value.stale, value.source_time),
                (4, true, -70_001)
            );
            assert_eq!(value.bytes.as_slice(), bytes);
        }
        assert_eq!(slot.updates(), 28);
    }

    #[test]
    fn readers_see_whole_states_while_two_write() {
        let slot = Arc::new(TagSlot::new());
        let writers: Vec<_> = (1..=2_u64)
            .map(|writer| {
                let slot = Arc::clone(&slot);
                std::thread::spawn(move || {
                    for n in 0..2_000 {
                        let n = 2 * n + writer;
                        let bytes = vec![n as u8; if n % 5 == 0 { 40 } else { n as usize % 33 }];
                        slot.store(bytes.len() as u8, &bytes, stamp(n));
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let value = slot.snapshot();
            let n = value.sequence;
            assert_eq!(value.bytes.as_slice().len(), usize::from(value.kind));
            assert!(value.bytes.as_slice().iter().all(|&byte| byte == n as u8));
            assert_eq!((value.receive_time_ns, value.status), (n, n as u32));
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(slot.updates(), 4_000);
    }
}
