//! Nothing allocates per message in steady state: books, MoldUDP64, SoupBinTCP, captures.

use tidewire_feed::client::{NullSink, Side};
use tidewire_itch::capture::{Decoder, Step};
use tidewire_itch::mold::{Receiver, ReceiverConfig, Sender, SenderConfig};
use tidewire_itch::sequenced::{SessionName, Store};
use tidewire_itch::soup::{Client, ClientConfig, Server, ServerConfig};
use tidewire_itch::{Books, Frames, Generator, GeneratorConfig};
use tidewire_memory::counting::{CountingAllocator, allocations_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns a day's messages after their lengths.
fn day(messages: u64) -> Vec<u8> {
    let config = GeneratorConfig {
        messages,
        symbols: 20,
        ..GeneratorConfig::default()
    };
    let mut file = Vec::new();
    for message in Generator::new(config).unwrap() {
        let start = file.len();
        file.extend([0, 0]);
        message.encode(&mut file);
        let length = (file.len() - start - 2) as u16;
        file[start..start + 2].copy_from_slice(&length.to_be_bytes());
    }
    file
}

#[test]
fn books_of_a_day() {
    let day = day(60_000);
    let mut books = Books::default();
    // A day begins with the orders left from the previous one. From the third day on all days are
    // alike, and every book has enough room.
    for _ in 0..2 {
        for (sequence, message) in (1..).zip(Frames::new(&day)) {
            books.apply(sequence, message, &mut NullSink);
        }
    }
    let count = allocations_of(|| {
        for (sequence, message) in (1..).zip(Frames::new(&day)) {
            books.apply(sequence, message, &mut NullSink);
        }
    });
    assert_eq!((count, books.counters().messages()), (0, 180_000));
}

#[test]
fn datagrams_sent_and_received() {
    let day = day(20_000);
    let mut store = Store::new(SessionName::new("S"), 1 << 16);
    let mut sender = Sender::new(SenderConfig::default());
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let mut packet = Vec::with_capacity(2_000);
    let count = allocations_of(|| {
        for message in Frames::new(&day) {
            store.append(message).unwrap();
            if store.next_sequence().is_multiple_of(30) {
                while sender.next_packet(&store, 0, &mut packet) {
                    for side in Side::ALL {
                        receiver.receive(side, &packet, 1, &mut NullSink).unwrap();
                    }
                    if sender.next_sequence() == store.next_sequence() {
                        break;
                    }
                }
            }
        }
    });
    assert_eq!(count, 0);
    assert!(receiver.counters().messages > 19_900);
    assert!(receiver.side_counters(Side::B).duplicate > 600);
}

#[test]
fn a_connection() {
    let mut store = Store::new(SessionName::new("S"), 1 << 16);
    Frames::new(&day(20_000)).for_each(|message| assert!(store.append(message).is_ok()));
    let mut client = Client::new(ClientConfig::default());
    let mut server = Server::new(ServerConfig::default(), 0);
    let (mut up, mut down) = (Vec::new(), Vec::with_capacity(100_000));
    client.connected(0);
    client.drain_outgoing(&mut up);
    server.receive(&up, 0).unwrap();
    server.produce(&store, 0, &mut down, 1_000);
    let used = client.receive(&down, 0, &mut NullSink).unwrap();
    assert_eq!(used, down.len());
    let count = allocations_of(|| {
        loop {
            down.clear();
            let more = server.produce(&store, 0, &mut down, 60_000);
            client.receive(&down, 0, &mut NullSink).unwrap();
            if !more {
                break;
            }
        }
    });
    assert_eq!((count, client.counters().messages), (0, 20_000));
}

#[test]
fn a_recording() {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for number in 0..1_000_u32 {
        for word in [number, 0, 60, 60] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0; 60]);
    }
    let mut decoder = Decoder::new();
    let mut frames = 0;
    let count = allocations_of(|| {
        let mut rest = file.as_slice();
        while let Ok(step) = decoder.next(rest) {
            match step {
                Step::NeedMore => break,
                Step::Skip(used) => rest = &rest[used..],
                Step::Frame(_, used) => {
                    frames += 1;
                    rest = &rest[used..];
                }
            }
        }
    });
    assert_eq!((count, frames), (0, 1_000));
}
