//! Records of a DBN file that are sent whole: definitions, statistics, imbalances, orders.

mod books;

use tidewire_dbn::{Kind, RecordRef, carried_length, to_version_3};
use tidewire_feed::wire::{Message, RecordPart};

use super::Output;
use crate::failure::Failure;
use crate::units::grouped;
use books::OrderBooks;

/// The record to send next, and counts of those sent.
pub(super) struct Carrier {
    /// If each order is sent: those that are open.
    orders: Option<OrderBooks>,
    /// The record in the layout of version 3.
    record: Vec<u8>,
    /// Orders that are sent again under another name, in front of it.
    again: Vec<u8>,
    counts: [u64; KINDS.len()],
    count_again: u64,
}

impl Carrier {
    pub(super) fn new(orders: bool) -> Self {
        Self {
            orders: orders.then(OrderBooks::default),
            record: Vec::new(),
            again: Vec::new(),
            counts: [0; KINDS.len()],
            count_again: 0,
        }
    }

    /// Begins another file: its orders are those of no other, and its records are counted alone.
    pub(super) fn begin(&mut self) {
        (self.counts, self.count_again) = ([0; KINDS.len()], 0);
        if let Some(orders) = &mut self.orders {
            *orders = OrderBooks::default();
        }
    }

    /// Keeps a record if it is one that is sent whole. Returns whether it is.
    pub(super) fn take(&mut self, record: &RecordRef<'_>) -> bool {
        let kind = record.kind();
        if carried_length(kind).is_none() || kind == Kind::Mbo && self.orders.is_none() {
            return false;
        }
        self.record.clear();
        to_version_3(record, &mut self.record)
    }

    /// Sends the kept record for `symbol`. Orders that its receiver needs before it go first.
    pub(super) fn send(&mut self, symbol: u32, output: &mut Output) -> Result<(), Failure> {
        let Some(record) = RecordRef::new(&self.record) else {
            return Ok(());
        };
        let (source, time_ns) = (
            record.header().publisher_id,
            record.decode().source_time_ns(),
        );
        if let (Some(orders), Some(order)) = (&mut self.orders, record.mbo()) {
            let again = &mut self.again;
            orders.apply(symbol, &order, record.bytes(), |record| {
                again.extend_from_slice(record);
            });
            for record in again.chunks(record.bytes().len()) {
                for part in RecordPart::split(symbol, source, time_ns, record) {
                    output.publish(&Message::Record(part))?;
                }
                self.count_again += 1;
            }
            again.clear();
        }
        for part in RecordPart::split(symbol, source, time_ns, &self.record) {
            output.publish(&Message::Record(part))?;
        }
        if let Some(place) = KINDS.iter().position(|&(kind, _)| kind == record.kind()) {
            self.counts[place] += 1;
        }
        Ok(())
    }

    /// Returns the numbers of records sent, for the report; `None` if there were none.
    pub(super) fn describe(&self) -> Option<String> {
        let kinds = KINDS.iter().map(|&(_, name)| name);
        let sent = kinds.zip(self.counts);
        let again = ("again under another name", self.count_again);
        let sent = sent.chain([again]).filter(|&(_, count)| count > 0);
        let texts: Vec<String> = sent
            .map(|(name, count)| format!("{} {name}", grouped(count)))
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
