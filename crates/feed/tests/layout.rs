//! The bytes of the native feed, written by hand: test vectors for other implementations.
//! `docs/feed-protocol.md` has the same tables.

use tidewire_feed::wire::{
    Certainty, ClientName, Control, Credentials, Definition, Figures, Flags, HEADER_LENGTH,
    LastValue, Level, Login, LoginAccepted, Message, Name, PacketWriter, Password, PatternText,
    Quote, RecordPart, ReferenceKind, Request, Role, SessionStart, Skip, SlowPolicy, SnapshotMark,
    SnapshotNotice, SnapshotRequest, Subscribe, TooOld, Trade, TradingState, TradingStatus,
    UserName, Venue, VenueName, snapshot_position,
};

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn encoded_control(control: &Control) -> Vec<u8> {
    let mut bytes = Vec::new();
    control.encode(&mut bytes);
    bytes
}

/// Decodes hexadecimal digits and ignores blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn trade() -> Trade {
    Trade {
        symbol: 0x0403_0201,
        source: 0x0605,
        source_time_ns: 0x1817_1615_1413_1211,
        price: 0x3837_3635_3433_3231,
        size: 0x4443_4241,
        condition: 0x5453_5251,
    }
}

#[test]
fn a_trade() {
    let bytes = hex("21 00 0506 01020304 1112131415161718 3132333435363738 41424344 51525354");
    assert_eq!(encoded(&Message::Trade(trade())), bytes);
}

#[test]
fn a_quote() {
    let quote = Quote {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        bid: 4,
        ask: -1,
        bid_size: 5,
        ask_size: 6,
        bid_orders: 7,
        ask_orders: 8,
    };
    let bytes = hex(
        "31 00 0200 01000000 0300000000000000 0400000000000000 ffffffffffffffff
         05000000 06000000 07000000 08000000",
    );
    assert_eq!(encoded(&Message::Quote(quote)), bytes);
}

#[test]
fn a_definition() {
    let definition = Definition {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        open: 4,
        price_tick: 5,
        lot_size: 6,
        currency: *b"USD\0",
        name: Name::new("ESH4").unwrap(),
        repeats: false,
    };
    let mut bytes = hex(
        "71 00 0200 01000000 0300000000000000 0400000000000000 0500000000000000
         06000000 55534400 45534834",
    );
    // Name bytes begin at 40: lot size and currency at 32..40.
    bytes.resize(112, 0);
    assert_eq!(encoded(&Message::Definition(definition)), bytes);
    let repeating = Definition {
        repeats: true,
        ..definition
    };
    bytes[1] = 1;
    assert_eq!(encoded(&Message::Definition(repeating)), bytes);
}

#[test]
fn a_trading_status() {
    let status = TradingStatus {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        state: TradingState::HALTED,
        reason: 5,
    };
    let bytes = hex("24 00 0200 01000000 0300000000000000 04 000000 05000000 0000000000000000");
    assert_eq!(encoded(&Message::Status(status)), bytes);
}

#[test]
fn a_last_value() {
    let value = LastValue {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        sequence: 4,
        bid: 5,
        ask: 6,
        bid_size: 7,
        ask_size: 8,
        bid_orders: 9,
        ask_orders: 10,
        last: 11,
        last_size: 12,
        state: TradingState::OPEN,
        volume: 13,
        open: 14,
        updates: 15,
        figures: None,
    };
    let bytes = hex(
        "61 00 0200 01000000 0300000000000000 0400000000000000 0500000000000000
         0600000000000000 07000000 08000000 09000000 0a000000 0b00000000000000 0c000000 02 000000
         0d00000000000000 0e00000000000000 0f00000000000000",
    );
    assert_eq!(encoded(&Message::LastValue(value)), bytes);
}

#[test]
fn a_venue() {
    let venue = Venue {
        source: 2,
        source_time_ns: 3,
        name: VenueName::new("XNAS").unwrap(),
    };
    let mut bytes = hex("32 00 0200 00000000 0300000000000000 584e4153");
    bytes.resize(48, 0);
    assert_eq!(encoded(&Message::Venue(venue)), bytes);
}

#[test]
fn a_certainty() {
    let certainty = Certainty {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        flags: Figures::IN_DOUBT | Certainty::LOST,
        lost_trades: 4,
    };
    let bytes = hex("25 00 0200 01000000 0300000000000000 06 000000 04000000 0000000000000000");
    assert_eq!(encoded(&Message::Certainty(certainty)), bytes);
}

#[test]
fn a_level() {
    let level = Level {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        price: 4,
        size: 5,
        orders: 6,
        side: Level::ASK,
        action: Level::CLEAR,
        is_last: 1,
        depth: 7,
    };
    let bytes = hex(
        "33 00 0200 01000000 0300000000000000 0400000000000000 05000000 06000000
         02 01 01 00 0700 0000 0000000000000000",
    );
    assert_eq!(encoded(&Message::Level(level)), bytes);
}

#[test]
fn a_session_start() {
    let start = SessionStart {
        symbol: 1,
        source: 2,
        source_time_ns: 3,
        reference: 4,
        trading_day: 5,
        kind: ReferenceKind::PREVIOUS_CLOSE,
        rolls: 1,
    };
    let bytes = hex(
        "34 00 0200 01000000 0300000000000000 0400000000000000 05000000 02 01 0000
         0000000000000000 0000000000000000",
    );
    assert_eq!(encoded(&Message::SessionStart(start)), bytes);
}

#[test]
fn the_parts_of_a_record() {
    let record: Vec<u8> = (0..=217).collect();
    let parts: Vec<RecordPart> = RecordPart::split(1, 2, 3, &record).collect();
    let head = "0200 01000000 0300000000000000 da00";
    let mut first = hex(&format!("fd 00 {head} 0000 00000000"));
    first.extend_from_slice(&record[..216]);
    let mut second = hex(&format!("2d 00 {head} d800 00000000 d8d9"));
    second.resize(32, 0);
    let bytes: Vec<_> = parts
        .iter()
        .map(|part| encoded(&Message::Record(*part)))
        .collect();
    assert_eq!(bytes, [first, second]);
}

#[test]
fn a_last_value_with_figures() {
    let value = LastValue {
        figures: Some(Figures {
            high: 1,
            low: 2,
            turnover: 3 << 64 | 4,
            reference: 5,
            trades: 6,
            condition: 7,
            reason: 8,
            trading_day: 9,
            reference_kind: ReferenceKind::PREVIOUS_SETTLEMENT,
            flags: Figures::STALE | Figures::IN_DOUBT,
            first_trade: 10,
            traded_until_ns: 11,
        }),
        ..LastValue::new(1)
    };
    let bytes = encoded(&Message::LastValue(value));
    let short = encoded(&Message::LastValue(LastValue::new(1)));
    assert_eq!((bytes[0], &bytes[1..96]), (0xb1, &short[1..]));
    let figures = hex(
        "0100000000000000 0200000000000000 0400000000000000 0300000000000000 0500000000000000
         06000000 07000000 08000000 09000000 03 03 01 0000000000 0a00000000000000
         0b00000000000000",
    );
    assert_eq!(bytes[96..], figures);
}

#[test]
fn marks_and_skips() {
    let mark = SnapshotMark {
        as_of: 1,
        records: 2,
    };
    let body = "00 0000 00000000 0000000000000000 0100000000000000 0200000000000000";
    assert_eq!(
        encoded(&Message::SnapshotBegin(mark)),
        hex(&format!("22 {body}"))
    );
    assert_eq!(
        encoded(&Message::SnapshotEnd(mark)),
        hex(&format!("23 {body}"))
    );
    let skip = hex("10 00 0000 00000000 0300000000000000");
    assert_eq!(encoded(&Message::Skip(Skip { count: 3 })), skip);
    assert_eq!(snapshot_position(2, 3), 0x0000_0002_0000_0003);
}

#[test]
fn controls() {
    let prefix = "00 0000 00000000 0000000000000000";
    let rest = "0000 00000000 0000000000000000";
    let login = Login {
        slow_policy: Some(SlowPolicy::Drop),
        role: Role::Publisher,
        session: 2,
        next_sequence: 1,
        subscription_count: 3,
        partial_snapshots: true,
        reads_figures: false,
        client_name: ClientName::new("w").unwrap(),
        credentials: None,
    };
    let mut bytes = hex(&format!(
        "58 01 {rest} 0100000000000000 02000000 01 02 0300 77"
    ));
    bytes.resize(80, 0);
    assert_eq!(encoded_control(&Control::Login(login)), bytes);

    let login = Login {
        credentials: Some(Credentials {
            user: UserName::new("u").unwrap(),
            password: Password::new("p").unwrap(),
        }),
        ..login
    };
    bytes[0] = 0xf8;
    bytes.extend_from_slice(b"u");
    bytes.resize(128, 0);
    bytes.extend_from_slice(b"p");
    bytes.resize(240, 0);
    assert_eq!(encoded_control(&Control::Login(login)), bytes);

    let accepted = LoginAccepted {
        session: 3,
        heartbeat_interval_ms: 1_000,
        next_sequence: 1,
        oldest_sequence: 2,
        partial_snapshots: true,
    };
    let bytes = hex(&format!(
        "38 01 {rest} 0100000000000000 0200000000000000 03000000 e8030000 0000000000000000"
    ));
    assert_eq!(encoded_control(&Control::LoginAccepted(accepted)), bytes);

    let subscribe = Subscribe {
        pattern: PatternText::new("*").unwrap(),
        resume: true,
    };
    let mut bytes = hex("69 01 0000 00000000 0000000000000000 2a");
    bytes.resize(96, 0);
    assert_eq!(encoded_control(&Control::Subscribe(subscribe)), bytes);

    let request = Request {
        from: 1,
        count: 2,
        snapshot: false,
    };
    let bytes = hex(&format!("28 {prefix} 0100000000000000 0200000000000000"));
    assert_eq!(encoded_control(&Control::Request(request)), bytes);

    let request = SnapshotRequest {
        pattern: PatternText::new("*").unwrap(),
        since: 5,
    };
    let mut bytes = hex("6b 00 0000 00000000 0500000000000000 2a");
    bytes.resize(96, 0);
    assert_eq!(encoded_control(&Control::SnapshotRequest(request)), bytes);

    let notice = SnapshotNotice {
        number: 2,
        as_of: 7,
        since: 5,
    };
    let bytes = hex("2b 00 0000 00000000 0500000000000000 0700000000000000 02000000 00000000");
    assert_eq!(encoded_control(&Control::SnapshotNotice(notice)), bytes);

    let too_old = TooOld {
        wanted: 1,
        oldest: 2,
        recovers: true,
        ..TooOld::default()
    };
    let bytes = hex(&format!("29 04 {rest} 0100000000000000 0200000000000000"));
    assert_eq!(encoded_control(&Control::TooOld(too_old)), bytes);
}

/// An independent bit-by-bit implementation, below, computed the CRC.
#[test]
fn a_whole_packet() {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, 0x0d0c_0b0a, Flags::RETRANSMISSION, 9, 1_472);
    writer.push(&Message::Trade(trade()));
    writer.finish();
    let mut expected = hex("5457 01 04 0100 2000 0a0b0c0d 00000000 0900000000000000");
    assert_eq!(expected.len(), HEADER_LENGTH);
    expected.extend(encoded(&Message::Trade(trade())));
    let crc = crc32c_bit_by_bit(&expected);
    expected[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(out, expected);
}

#[test]
fn a_heartbeat_packet() {
    let mut out = Vec::new();
    PacketWriter::bare(&mut out, 1, Flags::HEARTBEAT, 42);
    let mut expected = hex("5457 01 01 0000 0000 01000000 00000000 2a00000000000000");
    let crc = crc32c_bit_by_bit(&expected);
    expected[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(out, expected);
}

fn crc32c_bit_by_bit(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

#[test]
fn the_reference_crc_is_the_published_one() {
    assert_eq!(crc32c_bit_by_bit(b"123456789"), 0xe306_9283);
}
