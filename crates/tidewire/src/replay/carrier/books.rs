//! The open orders of a DBN file, by the names under which they are sent.
//!
//! A receiver keeps the orders of a name, and the file has those of an instrument id. Where the two
//! part, the receiver gets all orders of the id under the name, before the next one.

use std::collections::HashMap;

use tidewire_dbn::book::OpenOrders;
use tidewire_dbn::{MboRecord, action};

/// The orders of all instrument ids.
#[derive(Debug, Default)]
pub(super) struct OrderBooks {
    /// By publisher and instrument id.
    books: HashMap<(u16, u32), OrderBook>,
    /// By publisher and symbol: the id whose orders were sent last.
    sent: HashMap<(u16, u32), u32>,
    /// Number of all open orders.
    count: usize,
}

#[derive(Debug)]
struct OrderBook {
    /// The symbol under which its orders were sent last.
    symbol: u32,
    open: OpenOrders,
}

impl OrderBooks {
    /// Applies an order, whose record has these bytes, after it was found to be about `symbol`.
    /// Before that, gives `each` the records that the receiver of that symbol needs: none, unless
    /// the orders of another id or none of this one were sent under it.
    pub(super) fn apply(
        &mut self,
        symbol: u32,
        order: &MboRecord,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) {
        let (publisher, id) = (order.header.publisher_id, order.header.instrument_id);
        let book = self.books.entry((publisher, id));
        let book = book.or_insert_with(|| OrderBook {
            symbol,
            open: OpenOrders::new(),
        });
        let sent = self.sent.insert((publisher, symbol), id);
        let has_moved = std::mem::replace(&mut book.symbol, symbol) != symbol;
        let is_other = sent.is_some_and(|other| other != id);
        let is_empty = sent.is_none() && book.open.is_empty();
        if (has_moved || is_other) && !is_empty && order.action != action::CLEAR {
            let own = OpenOrders::of(order);
            let orders = if book.open.is_empty() {
                &own
            } else {
                &book.open
            };
            orders.snapshot(|_, record| each(record));
        }
        let before = book.open.len();
        let is_room = self.count < ORDERS_MAX;
        book.open.apply(publisher, order, bytes, is_room);
        self.count = self.count + book.open.len() - before;
    }
}

/// Maximum orders kept, as in a hub. What is sent again says that it may be wrong if there were
/// more.
const ORDERS_MAX: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_dbn::{RecordHeader, RecordRef, flag, side};

    /// The books, and what a receiver gets of each symbol: actions and numbers of orders.
    #[derive(Default)]
    struct Bench {
        books: OrderBooks,
        told: Vec<(u8, u64, u8)>,
    }

    impl Bench {
        fn order(&mut self, (symbol, id): (u32, u32), action: u8, order_id: u64) {
            let order = MboRecord {
                header: RecordHeader {
                    publisher_id: 2,
                    instrument_id: id,
                    ..RecordHeader::default()
                },
                order_id,
                price: 100,
                size: 5,
                action,
                side: side::BID,
                ..MboRecord::default()
            };
            let mut bytes = [0; 56];
            (bytes[0], bytes[1]) = (14, 0xA0);
            bytes[16..24].copy_from_slice(&order_id.to_le_bytes());
            let told = &mut self.told;
            self.books.apply(symbol, &order, &bytes, |record| {
                let order = RecordRef::new(record).unwrap().mbo().unwrap();
                told.push((order.action, order.order_id, order.flags));
            });
            told.push((action, order_id, 0));
        }

        fn take(&mut self) -> Vec<(u8, u64, u8)> {
            std::mem::take(&mut self.told)
        }
    }

    const FIRST: u8 = flag::SNAPSHOT;
    const LAST: u8 = flag::SNAPSHOT | flag::LAST;

    /// The first order of the new name was a cancel of one that its receiver had not.
    #[test]
    fn an_id_under_another_name_begins_there_with_its_open_orders() {
        let mut bench = Bench::default();
        for order_id in [1, 2, 3] {
            bench.order((0, 7), action::ADD, order_id);
        }
        bench.order((0, 7), action::CANCEL, 2);
        assert_eq!(bench.take().len(), 4, "nothing before them");
        bench.order((1, 7), action::CANCEL, 3);
        let open = [(action::CLEAR, 0, FIRST), (action::ADD, 1, FIRST)];
        let expected = [&open[..], &[(action::ADD, 3, LAST), (action::CANCEL, 3, 0)]].concat();
        assert_eq!(bench.take(), expected);
        bench.order((1, 7), action::ADD, 4);
        assert_eq!(bench.take(), [(action::ADD, 4, 0)]);
        // Its first name has missed that.
        bench.order((0, 7), action::ADD, 5);
        assert_eq!(
            bench.take(),
            [
                (action::CLEAR, 0, FIRST),
                (action::ADD, 1, FIRST),
                (action::ADD, 4, LAST),
                (action::ADD, 5, 0),
            ]
        );
    }

    #[test]
    fn a_name_that_another_id_gets_loses_the_orders_of_the_first() {
        let mut bench = Bench::default();
        bench.order((0, 7), action::ADD, 1);
        bench.order((0, 8), action::ADD, 2);
        let cleared = (action::CLEAR, 0, LAST);
        let expected = [(action::ADD, 1, 0), cleared, (action::ADD, 2, 0)];
        assert_eq!(bench.take(), expected);
        // A clear of its own is enough.
        bench.order((0, 7), action::CLEAR, 0);
        assert_eq!(bench.take(), [(action::CLEAR, 0, 0)]);
        // A name without orders gets none of an empty book.
        bench.order((1, 7), action::ADD, 3);
        assert_eq!(bench.take(), [(action::ADD, 3, 0)]);
    }
}
