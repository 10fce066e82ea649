//! Nothing allocates per message in steady state: encode, journal, decode, receive, in a stream
//! and in a selection.

use tidewire_feed::client::{Client, ClientConfig, NullSink, Side};
use tidewire_feed::journal::Journal;
use tidewire_feed::server::{Board, Session, SessionConfig};
use tidewire_feed::wire::{
    Definition, Flags, LastValue, Message, Name, PacketWriter, Quote, Trade, decode_packet,
};
use tidewire_memory::counting::{CountingAllocator, allocations_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn message(index: u64) -> Message {
    let symbol = (index % 10) as u32;
    if index.is_multiple_of(3) {
        Message::Trade(Trade {
            symbol,
            size: 1,
            ..Trade::default()
        })
    } else {
        Message::Quote(Quote {
            symbol,
            ..Quote::default()
        })
    }
}

struct TenSymbols;

impl Board for TenSymbols {
    fn len(&self) -> usize {
        10
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        Some(Definition {
            symbol: index as u32,
            source: 0,
            source_time_ns: 0,
            open: 0,
            price_tick: 0,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new(["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"][index]).ok()?,
            repeats: false,
        })
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        Some(LastValue::new(index as u32))
    }
}

#[test]
fn encode_and_decode() {
    let mut out = Vec::with_capacity(1 << 20);
    let count = allocations_of(|| {
        let mut writer = PacketWriter::new(&mut out, 1, Flags::NONE, 1, 1_472);
        (0..10_000).for_each(|index| writer.push(&message(index)));
        writer.finish();
        let (mut rest, mut decoded) = (out.as_slice(), 0);
        while let Some((packet, length)) = decode_packet(rest).unwrap() {
            decoded += packet.messages().filter(Result::is_ok).count();
            rest = &rest[length..];
        }
        assert_eq!(decoded, 10_000);
    });
    assert_eq!(count, 0);
}

fn stream_allocations(pattern: &str) -> u64 {
    let mut journal = Journal::new(1, 4_096);
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut client = Client::new(ClientConfig::default());
    client.subscribe(pattern).unwrap();
    client.connected(Side::A, 0);
    let mut up = Vec::with_capacity(1 << 16);
    let mut down = Vec::with_capacity(1 << 20);
    let mut turn = |turns: std::ops::Range<u64>, messages: u64| {
        for turn in turns {
            let now_ns = turn * 1_000_000;
            for index in 0..messages {
                journal.append(&message(index));
            }
            client.drain_outgoing(Side::A, &mut up);
            assert_eq!(session.receive(&up, now_ns, &mut NullSink), Ok(up.len()));
            up.clear();
            session.produce(&journal, &TenSymbols, now_ns, &mut down, 1 << 18);
            let used = client.receive(Side::A, &down, now_ns, &mut NullSink);
            assert_eq!(used, Ok(down.len()));
            down.clear();
            if now_ns >= client.deadline_ns() {
                client.handle_timeout(now_ns, &mut NullSink);
            }
        }
        client.counters().messages
    };
    // Login, snapshot, the window filled once, several heartbeats.
    turn(0..3_000, 10);
    let before = turn(3_000..3_001, 0);
    let count = allocations_of(|| {
        turn(3_001..8_000, 100);
    });
    assert!(turn(8_000..8_001, 0) - before > 40_000);
    count
}

#[test]
fn journal_session_and_client_in_a_stream() {
    assert_eq!(stream_allocations("*"), 0);
}

#[test]
fn journal_session_and_client_in_a_selection() {
    assert_eq!(stream_allocations("C"), 0);
}
