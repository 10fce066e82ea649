//! Records of a DBN file that are sent whole: definitions, statistics, imbalances, orders.

use tidewire_dbn::{Kind, RecordRef, carried_length, to_version_3};
use tidewire_feed::wire::{Message, RecordPart};

use super::link::Link;
use crate::failure::Failure;
use crate::units::grouped;

/// The record to send next, and counts of those sent.
pub(super) struct Carrier {
    /// Whether each order is sent.
    orders: bool,
    /// The record in the layout of version 3.
    record: Vec<u8>,
    counts: [u64; KINDS.len()],
}

impl Carrier {
    pub(super) fn new(orders: bool) -> Self {
        Self {
            orders,
            record: Vec::new(),
            counts: [0; KINDS.len()],
        }
    }

    /// Keeps a record if it is one that is sent whole. Returns whether it is.
    pub(super) fn take(&mut self, record: &RecordRef<'_>) -> bool {
        let kind = record.kind();
        if carried_length(kind).is_none() || kind == Kind::Mbo && !self.orders {
            return false;
        }
        self.record.clear();
        to_version_3(record, &mut self.record)
    }

    /// Sends the kept record for `symbol`.
    pub(super) fn send(&mut self, symbol: u32, link: &mut Link) -> Result<(), Failure> {
        let Some(record) = RecordRef::new(&self.record) else {
            return Ok(());
        };
        let (source, time_ns) = (
            record.header().publisher_id,
            record.decode().source_time_ns(),
        );
        for part in RecordPart::split(symbol, source, time_ns, &self.record) {
            link.publish(&Message::Record(part))?;
        }
        if let Some(place) = KINDS.iter().position(|&(kind, _)| kind == record.kind()) {
            self.counts[place] += 1;
        }
        Ok(())
    }

    /// Returns the numbers of records sent, for the report; `None` if there were none.
    pub(super) fn describe(&self) -> Option<String> {
        let sent = KINDS.iter().zip(self.counts);
        let sent = sent.filter(|&(_, count)| count > 0);
        let texts: Vec<String> = sent
            .map(|((_, name), count)| format!("{} {name}", grouped(count)))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// The kinds that are sent, and their names in the report.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Definition, "definitions"),
    (Kind::Statistics, "statistics"),
    (Kind::Imbalance, "imbalances"),
    (Kind::Mbo, "orders"),
];
