//! Records of the schema `mbp-10`.

use super::{Event, RecordWriter};
use crate::{BidAsk, flag};

/// Levels of each side in an `mbp-10` record.
pub const DEPTH_LEVELS: usize = 10;

impl RecordWriter<'_> {
    /// Writes an `mbp-10` record: an event at level `depth` (0 is the best), and the book after
    /// it. Missing levels are [`BidAsk::EMPTY`].
    pub fn depth(&mut self, event: &Event, depth: u8, levels: &[BidAsk; DEPTH_LEVELS]) {
        debug_assert!(usize::from(depth) < DEPTH_LEVELS, "a level of the record");
        let start = self.begin_event(0x0A, event);
        self.put(&event.price.to_le_bytes());
        self.put(&event.size.to_le_bytes());
        self.put(&[event.action, event.side, event.flags | flag::LAST, depth]);
        self.put(&event.ts_recv.to_le_bytes());
        let delta_ns = event.ts_recv.saturating_sub(event.ts_event);
        self.put(&i32::try_from(delta_ns).unwrap_or(i32::MAX).to_le_bytes());
        self.put(&(event.sequence as u32).to_le_bytes());
        for level in levels {
            self.level(level);
        }
        self.end(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{action, side};

    /// The first record of Databento's `test_data.mbp-10.v3.dbn.zst`.
    const GOLDEN: &str = "\
        5c0a01006a15000007afa6acdbe2541680fb30c56203000001000000434180093cdeaaacdbe25416d159\
        0000b0db110080022e306203000000b5143f62030000180000000a0000000f0000000800000000504721\
        620300008067fb4d620300001f000000220000001200000018000000809d601262030000001ae25c6203\
        00002000000027000000170000001900000000eb79036203000080ccc86b62030000270000001c000000\
        1a00000011000000803893f461030000007faf7a62030000320000002100000023000000130000000086\
        ace56103000080319689620300002a0000002d0000001c0000002100000080d3c5d66103000000e47c98\
        620300002c0000003700000023000000280000000021dfc761030000809663a762030000400000003b00\
        00002700000026000000806ef8b86103000000494ab66203000035000000310000002000000023000000\
        00bc11aa6103000080fb30c562030000430000002c000000270000001a000000";

    #[test]
    fn a_depth_record_has_the_bytes_of_databentos_own() {
        let golden: Vec<u8> = (0..GOLDEN.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&GOLDEN[at..at + 2], 16).unwrap())
            .collect();
        let (i64_at, u32_at) = (
            |at: usize| i64::from_le_bytes(golden[at..at + 8].try_into().unwrap()),
            |at: usize| u32::from_le_bytes(golden[at..at + 4].try_into().unwrap()),
        );
        let levels = std::array::from_fn(|place| {
            let at = 48 + 32 * place;
            BidAsk {
                bid: i64_at(at),
                ask: i64_at(at + 8),
                bid_size: u32_at(at + 16),
                ask_size: u32_at(at + 20),
                bid_orders: u32_at(at + 24),
                ask_orders: u32_at(at + 28),
            }
        });
        let event = Event {
            instrument_id: u32_at(4),
            publisher_id: 1,
            ts_event: i64_at(8) as u64,
            ts_recv: i64_at(32) as u64,
            sequence: u32_at(44).into(),
            price: i64_at(16),
            size: u32_at(24),
            side: side::ASK,
            action: action::CANCEL,
            flags: golden[30],
        };
        let mut out = Vec::new();
        RecordWriter::new(&mut out, None, 3, 1).depth(&event, golden[31], &levels);
        // Databento subtracts the time of sending, which the hub does not know.
        let delta = 40..44;
        out[delta.clone()].copy_from_slice(&golden[delta]);
        assert_eq!(out, golden);
    }
}
