use super::*;
use crate::board::Board;
use tidewire_dbn::{action, flag, side};
use tidewire_feed::wire::{Definition, Name};

/// A topic, and a source's records about it.
struct Bench {
    topic: Arc<Topic>,
    journal: Journal,
    counters: RecordCounters,
    ingest: RecordIngest,
    session: u64,
}

impl Bench {
    fn new() -> Self {
        let board = Board::new(4, 1);
        let name = Name::new("A").unwrap();
        Self {
            topic: board.define(&Definition::new(9, name)).unwrap(),
            journal: Journal::new(1, 1 << 10),
            counters: RecordCounters::default(),
            ingest: RecordIngest::default(),
            session: 1,
        }
    }

    fn send(&mut self, record: &[u8]) {
        for part in RecordPart::split(9, 2, 5, record) {
            let journal = &mut self.journal;
            let topic = &self.topic;
            self.ingest
                .take(&part, topic, self.session, journal, &self.counters);
        }
    }

    /// Returns the records in the journal, and checks that they are about the topic.
    fn journalled(&self) -> Vec<Vec<u8>> {
        let mut join = RecordJoin::default();
        let sequences = self.journal.oldest_sequence()..self.journal.next_sequence();
        let messages = sequences.filter_map(|sequence| self.journal.message(sequence));
        let records = messages.filter_map(|message| {
            let Message::Record(part) = message else {
                panic!("only records were sent");
            };
            assert_eq!((part.symbol, part.source), (self.topic.number, 2));
            join.push(&part).map(<[u8]>::to_vec)
        });
        records.collect()
    }

    fn snapshot(&self) -> Vec<(u8, u64, u32, u8)> {
        let mut records = Vec::new();
        self.topic.records.snapshot_orders(|publisher_id, bytes| {
            assert_eq!(publisher_id, 2);
            let order = RecordRef::new(bytes).unwrap().mbo().unwrap();
            records.push((order.action, order.order_id, order.size, order.flags));
        });
        records
    }

    fn order(&mut self, action: u8, side: u8, id: u64, price: i64, size: u32) {
        let mut record = record(0xA0, 56);
        record[16..24].copy_from_slice(&id.to_le_bytes());
        record[24..32].copy_from_slice(&price.to_le_bytes());
        record[32..36].copy_from_slice(&size.to_le_bytes());
        (record[36], record[38], record[39]) = (flag::LAST, action, side);
        self.send(&record);
    }
}

fn record(rtype: u8, length: usize) -> Vec<u8> {
    let mut record = vec![0; length];
    (record[0], record[1]) = ((length / 4) as u8, rtype);
    record
}

#[test]
fn a_record_is_joined_and_appended_in_one_piece() {
    let mut bench = Bench::new();
    let mut definition = record(0x13, 520);
    definition[500] = 7;
    bench.send(&definition);
    bench.send(&record(0x14, 112));
    let journalled = bench.journalled();
    assert_eq!(journalled, [definition.clone(), record(0x14, 112)]);
    let kept = bench.topic.records.definition().unwrap();
    assert_eq!((&*kept.bytes, kept.sequence), (&definition[..], 3));
    assert_eq!(bench.topic.records.newest().len(), 1);
}

#[test]
fn a_record_of_an_unknown_type_or_a_wrong_length_is_refused_and_counted() {
    let mut bench = Bench::new();
    for bad in [record(0x77, 56), record(0xA0, 64), record(0x13, 400)] {
        bench.send(&bad);
    }
    let mut lying = record(0xA0, 56);
    lying[0] = 20;
    bench.send(&lying);
    assert_eq!(bench.counters.refused.load(Ordering::Relaxed), 4);
    assert!(bench.journalled().is_empty());
}

#[test]
fn the_newest_statistic_of_each_kind_is_kept_until_it_is_deleted() {
    let mut bench = Bench::new();
    let statistic = |kind: u8, price: u8, update_action: u8| {
        let mut record = record(0x18, 80);
        (record[32], record[56], record[60]) = (price, kind, update_action);
        record
    };
    for (kind, price) in [(1, 10), (3, 20), (1, 11)] {
        bench.send(&statistic(kind, price, 1));
    }
    let prices = |bench: &Bench| {
        let newest = bench.topic.records.newest();
        let prices: Vec<u8> = newest.iter().map(|record| record.bytes[32]).collect();
        prices
    };
    assert_eq!(prices(&bench), [20, 11]);
    bench.send(&statistic(3, 0, DELETED));
    assert_eq!(prices(&bench), [11]);
}

#[test]
fn a_snapshot_begins_with_a_clear_and_has_the_orders_by_price_and_priority() {
    let mut bench = Bench::new();
    assert_eq!(bench.topic.records.snapshot_orders(|_, _| ()), None);
    for (id, side, price, size) in [
        (1, side::BID, 100, 5),
        (2, side::BID, 101, 6),
        (3, side::ASK, 103, 7),
        (4, side::BID, 101, 8),
        (5, side::ASK, 102, 9),
    ] {
        bench.order(action::ADD, side, id, price, size);
    }
    // The first of its price grows and goes behind; another shrinks and stays; one is gone.
    bench.order(action::MODIFY, side::BID, 2, 101, 7);
    bench.order(action::CANCEL, side::ASK, 3, 103, 2);
    bench.order(action::CANCEL, side::BID, 1, 100, 5);
    bench.order(action::FILL, side::ASK, 5, 102, 9);
    let first = flag::SNAPSHOT;
    assert_eq!(
        bench.snapshot(),
        [
            (action::CLEAR, 0, 0, first),
            (action::ADD, 4, 8, first),
            (action::ADD, 2, 7, first),
            (action::ADD, 5, 9, first),
            (action::ADD, 3, 5, first | flag::LAST),
        ]
    );
    assert_eq!(bench.counters.orders.load(Ordering::Relaxed), 4);
    bench.order(action::CLEAR, side::NONE, 0, 0, 0);
    assert_eq!(
        bench.snapshot(),
        [(action::CLEAR, 0, 0, first | flag::LAST)]
    );
}

#[test]
fn orders_of_a_source_that_has_ended_are_cleared_for_all_by_its_successor() {
    let mut bench = Bench::new();
    bench.order(action::ADD, side::BID, 1, 100, 5);
    bench.session = 2;
    bench.order(action::ADD, side::BID, 2, 100, 5);
    let actions: Vec<u8> = bench.journalled().iter().map(|record| record[38]).collect();
    assert_eq!(actions, [action::ADD, action::CLEAR, action::ADD]);
    assert_eq!(bench.snapshot().len(), 2);
    bench.order(action::ADD, side::BID, 3, 100, 5);
    assert_eq!(bench.snapshot().len(), 3, "the same publisher, reconnected");
    assert_eq!(bench.counters.orders.load(Ordering::Relaxed), 2);
}
