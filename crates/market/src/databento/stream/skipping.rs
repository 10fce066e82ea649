//! What a client does not get: messages that were skipped because it was slow, and those that the
//! values it begins with include.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use tidewire_dbn::databento::{Schema, error_code};
use tidewire_feed::journal::Journal;

use super::{REFRESHED, Stream};
use crate::market::Market;

/// Messages that the client's snapshots include, and that are not sent after them.
#[derive(Debug, Default)]
pub(super) struct ToldUntil {
    /// By topic number: the schemas, each with its last sequence.
    topics: HashMap<u32, Vec<(u16, u64)>>,
    /// The highest sequence.
    newest: u64,
}

impl ToldUntil {
    /// Notes that the next snapshot of a topic is its first record in these schemas.
    pub(super) fn begin(&mut self, number: u32, schemas: u16) {
        self.note(number, schemas, 0);
    }

    /// Notes that a snapshot of a topic in these schemas has the messages up to a sequence.
    pub(super) fn note(&mut self, number: u32, schemas: u16, until: u64) {
        if schemas == 0 {
            return;
        }
        self.newest = self.newest.max(until);
        let all = self.topics.entry(number).or_default();
        for bit in Schema::ALL.map(Schema::bit) {
            if schemas & bit == 0 {
                continue;
            }
            match all.iter_mut().find(|(schema, _)| *schema == bit) {
                Some((_, own)) => *own = until.max(*own),
                None => all.push((bit, until)),
            }
        }
    }

    /// Returns those of these schemas that begin with a topic's next snapshot.
    pub(super) fn begun(&self, number: u32, schemas: u16) -> u16 {
        let of_topic = self.topics.get(&number).into_iter().flatten();
        of_topic.fold(0, |bits, (schema, _)| bits | schema) & schemas
    }

    /// Returns the schemas in which the client has what a topic's message with this sequence says.
    #[inline]
    pub(super) fn includes(&self, number: u32, sequence: u64) -> u16 {
        if self.topics.is_empty() || sequence > self.newest {
            return 0;
        }
        let of_topic = self.topics.get(&number).into_iter().flatten();
        let told = of_topic.filter(|(_, until)| sequence <= *until);
        told.fold(0, |bits, (schema, _)| bits | schema)
    }

    /// Forgets everything once the client's position is behind it.
    #[inline]
    pub(super) fn pass(&mut self, cursor: u64) {
        if !self.topics.is_empty() && cursor > self.newest {
            *self = Self::default();
        }
    }
}

impl Stream {
    /// Skips everything before the newest message, and starts again with the current values. The
    /// client is told of it with the first of them.
    #[cold]
    pub(super) fn skip(&mut self, market: &Market, journal: &Journal) {
        let (from, next) = (self.cursor, journal.next_sequence());
        debug_assert!(from <= next, "the journal only grows");
        // Definitions of a replay have not all been sent.
        let definitions = match self.is_replaying() {
            true => Schema::Definition.bit(),
            false => 0,
        };
        self.skipped_from = Some(from);
        self.cursor = next;
        self.past = None;
        self.live_from = self.live_from.min(next);
        self.bars.lose();
        self.definitions.skip();
        // A skipped trade is not sent later; only values are.
        self.opening_schemas = REFRESHED | definitions;
        self.is_refresh = true;
        self.settle_again(market, journal);
    }

    /// Tells the client that all messages before `next` were skipped, if any were. The values of
    /// this place follow, and the stream goes on from it.
    pub(super) fn tell_skipped(
        &mut self,
        market: &Market,
        next: u64,
        unix_ns: u64,
        out: &mut Vec<u8>,
    ) {
        let Some(from) = self.skipped_from.take() else {
            return;
        };
        debug_assert!(
            from <= self.cursor && self.cursor <= next,
            "none is skipped twice"
        );
        self.cursor = next;
        self.skipped_until = next;
        market
            .databento
            .skipped
            .fetch_add(next - from, Ordering::Relaxed);
        self.say_skipped(from..next, "", unix_ns, out);
    }

    /// Tells a client with too many symbols for one slice that the values which follow are those of
    /// `next`. The stream of the symbols before goes on from an earlier place.
    pub(super) fn tell_left_out(&mut self, next: u64, unix_ns: u64, out: &mut Vec<u8>) {
        debug_assert!(
            next > self.cursor,
            "messages have come since the first slice"
        );
        self.skipped_until = next;
        let whose = " of the symbols whose values follow";
        self.say_skipped(self.cursor..next, whose, unix_ns, out);
    }

    fn say_skipped(&self, skipped: Range<u64>, whose: &str, unix_ns: u64, out: &mut Vec<u8>) {
        let Range { start, end } = skipped;
        let (count, last) = (end - start, end - 1);
        let text = format!(
            "{count} messages, sequences {start} to {last}, were skipped{whose}: the client was slow"
        );
        let mut writer = self.writer(out, unix_ns);
        writer.error(unix_ns, error_code::SKIPPED_RECORDS, &text);
    }
}
