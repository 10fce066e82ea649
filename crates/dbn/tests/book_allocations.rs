//! The decoder, the books and the simulated market allocate nothing per record or tick in steady
//! state.

use tidewire_dbn::book::Books;
use tidewire_dbn::{Decoder, Event, Reader, flag};
use tidewire_feed::simulation::{Market, SimulationConfig};
use tidewire_memory::counting::{CountingAllocator, allocations_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Appends an order event as on the wire.
fn order(stream: &mut Vec<u8>, instrument_id: u32, action: u8, order_id: u64, price: i64) {
    let side = if order_id.is_multiple_of(2) {
        b'A'
    } else {
        b'B'
    };
    stream.extend([14, 0xA0, 1, 0]);
    stream.extend(instrument_id.to_le_bytes());
    stream.extend(order_id.to_le_bytes());
    stream.extend(order_id.to_le_bytes());
    stream.extend(price.to_le_bytes());
    stream.extend(7u32.to_le_bytes());
    stream.extend([flag::LAST, 0, action, side]);
    stream.extend([0; 16]);
}

/// Encodes a day of `orders` orders added and cancelled on three instruments; the books end
/// empty.
fn day(orders: u64) -> Vec<u8> {
    let mut stream = Vec::new();
    for number in 0..orders + 99 {
        let instrument_id = (number % 3) as u32;
        if number < orders {
            let price = 1_000 + (number % 17) as i64;
            order(&mut stream, instrument_id, b'A', number, price);
            order(&mut stream, instrument_id, b'M', number, price + 3);
            order(&mut stream, instrument_id, b'T', number, price);
        }
        if let Some(old) = number.checked_sub(99) {
            order(&mut stream, (old % 3) as u32, b'C', old, 0);
        }
    }
    stream
}

#[test]
fn books_of_a_stream_do_not_allocate_once_they_have_grown() {
    let stream = day(3_000);
    let mut books = Books::default();
    let mut published = 0;
    let mut replay = |books: &mut Books| {
        let mut decoder = Decoder::fragment();
        let mut rest = &stream[..];
        while let Ok(Event::Record(record)) = decoder.decode(&mut rest) {
            books.apply(&record, |_| published += 1);
        }
    };
    assert!(
        allocations_of(|| replay(&mut books)) > 0,
        "the books grow at first"
    );
    assert_eq!(allocations_of(|| replay(&mut books)), 0);
    assert!(published > 6_000, "{published}");
    let accounting = books.accounting();
    assert_eq!(accounting.read(), 2 * 4 * 3_000);
    assert_eq!(accounting.unused().count(), 0);
}

#[test]
fn a_reader_does_not_allocate_a_record() {
    let stream = day(10_000);
    let mut reader = Reader::open(&stream[..]).unwrap();
    reader.next_record().unwrap();
    let mut count = 1;
    let allocations = allocations_of(|| {
        while let Ok(Some(record)) = reader.next_record() {
            count += u64::from(record.mbo().is_some());
        }
    });
    assert_eq!((allocations, count), (0, 40_000));
}

#[test]
fn a_market_does_not_allocate_a_tick() {
    let mut market = Market::new(SimulationConfig::default());
    let allocations = allocations_of(|| {
        for time_ns in 1..100_000 {
            market.next(time_ns * 1_000_000);
        }
    });
    assert_eq!(allocations, 0);
}
