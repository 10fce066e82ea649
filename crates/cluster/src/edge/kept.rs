//! Frames that have arrived before what is in front of them.

use std::collections::BTreeMap;

use crate::frame::FrameHeader;

/// Maximum early frames.
pub const KEPT_FRAMES_MAX: usize = 4_096;
/// Maximum bytes of their bodies.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

/// A frame that has arrived early.
#[derive(Debug)]
pub(super) struct KeptFrame {
    pub(super) header: FrameHeader,
    pub(super) body: Box<[u8]>,
    pub(super) log_sequence: Option<u64>,
}

/// Early frames by their first sequence.
#[derive(Debug)]
pub(super) struct Kept {
    frames: BTreeMap<u64, KeptFrame>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            frames: BTreeMap::new(),
            bytes: 0,
            bytes_max: KEPT_BYTES_MAX,
        }
    }
}

impl Kept {
    /// Limits the bytes from now on; what is kept stays.
    pub(super) fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(KEPT_BYTES_MAX);
    }

    /// Returns the bytes of the frames' bodies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a frame. Returns false if there is no room; it is fetched from the log then.
    pub(super) fn insert(
        &mut self,
        header: &FrameHeader,
        body: &[u8],
        log_sequence: Option<u64>,
    ) -> bool {
        let known = self.frames.get(&header.first);
        if known.is_some_and(|known| known.header.until() >= header.until()) {
            return true;
        }
        let is_full = self.frames.len() >= KEPT_FRAMES_MAX && known.is_none();
        if is_full || self.bytes + body.len() > self.bytes_max {
            return false;
        }
        self.bytes += body.len();
        let frame = KeptFrame {
            header: *header,
            body: body.into(),
            log_sequence,
        };
        if let Some(shorter) = self.frames.insert(header.first, frame) {
            self.bytes -= shorter.body.len();
        }
        true
    }

    /// Removes and returns the first frame if it is due at `expected`.
    pub(super) fn take_due(&mut self, expected: u64) -> Option<KeptFrame> {
        let entry = self.frames.first_entry()?;
        if *entry.key() > expected {
            return None;
        }
        let frame = entry.remove();
        self.bytes -= frame.body.len();
        Some(frame)
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    /// Returns the first sequence of the first frame.
    pub(super) fn first(&self) -> Option<u64> {
        self.frames.first_key_value().map(|(&first, _)| first)
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}
