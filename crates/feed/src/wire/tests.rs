use super::*;
use proptest::prelude::*;

fn trade() -> Trade {
    Trade {
        symbol: 0x0403_0201,
        source: 0x0605,
        source_time_ns: 0x1817_1615_1413_1211,
        price: -2,
        size: 0x2423_2221,
        condition: 0x2827_2625,
    }
}

fn quote() -> Quote {
    Quote {
        symbol: 7,
        source: 1,
        source_time_ns: 9,
        bid: 100,
        ask: UNDEFINED_PRICE,
        bid_size: 1,
        ask_size: 2,
        bid_orders: 3,
        ask_orders: 4,
    }
}

fn definition() -> Definition {
    Definition {
        symbol: 7,
        source: 1,
        source_time_ns: 9,
        open: 5,
        price_tick: 6,
        lot_size: 8,
        currency: *b"INR\0",
        name: Name::new("RELIANCE").unwrap(),
        repeats: false,
    }
}

fn status() -> TradingStatus {
    TradingStatus {
        symbol: 7,
        source: 1,
        source_time_ns: 9,
        state: TradingState(4),
        reason: 3,
    }
}

fn last_value() -> LastValue {
    LastValue {
        sequence: 11,
        bid: 12,
        last: 13,
        last_size: 14,
        volume: 15,
        open: 16,
        updates: 17,
        state: TradingState::OPEN,
        ..LastValue::new(7)
    }
}

fn record_parts(record: &[u8]) -> Vec<RecordPart> {
    RecordPart::split(7, 1, 9, record).collect()
}

fn controls() -> Vec<Control> {
    let pattern = PatternText::new("ES*").unwrap();
    vec![
        Control::Login(Login {
            slow_policy: Some(SlowPolicy::Drop),
            role: Role::Publisher,
            session: 1,
            next_sequence: 2,
            subscription_count: 3,
            partial_snapshots: true,
            reads_figures: true,
            client_name: ClientName::new("watch").unwrap(),
            credentials: None,
        }),
        Control::Login(Login {
            credentials: Some(Credentials {
                user: UserName::new("feeder").unwrap(),
                password: Password::new("secret").unwrap(),
            }),
            ..Login::default()
        }),
        Control::LoginAccepted(LoginAccepted {
            session: 1,
            heartbeat_interval_ms: 1_000,
            next_sequence: 2,
            oldest_sequence: 3,
            partial_snapshots: true,
        }),
        Control::Refused(Refused {
            reason: RefusalReason::FULL,
            text: RefusalText::new("full").unwrap(),
        }),
        Control::Subscribe(Subscribe {
            pattern,
            resume: true,
        }),
        Control::Unsubscribe(pattern),
        Control::SnapshotRequest(SnapshotRequest { pattern, since: 7 }),
        Control::Request(Request {
            from: 1,
            count: 2,
            snapshot: true,
        }),
        Control::TooOld(TooOld {
            wanted: 1,
            oldest: 2,
            conflated: true,
            recovers: true,
            dropped: false,
        }),
        Control::Venue(Venue {
            source: 9,
            source_time_ns: 8,
            name: VenueName::new("XNAS").unwrap(),
        }),
        Control::Passed(Passed {
            cluster: ClusterText::new("newyork").unwrap(),
        }),
        Control::SnapshotNotice(SnapshotNotice {
            number: 1,
            as_of: 2,
            since: 3,
        }),
        Control::EndOfSessionAcknowledgement(EndOfSessionAcknowledgement {
            next_sequence: 1,
            applied_count: 2,
        }),
    ]
}

fn messages() -> Vec<Message> {
    let mark = SnapshotMark {
        as_of: 5,
        records: 6,
    };
    vec![
        Message::Trade(trade()),
        Message::Quote(quote()),
        Message::Definition(definition()),
        Message::Status(status()),
        Message::LastValue(last_value()),
        Message::LastValue(LastValue {
            figures: Some(Figures {
                high: 18,
                low: -19,
                turnover: -(1 << 100) - 20,
                reference: 21,
                trades: 22,
                condition: 23,
                reason: 24,
                trading_day: 25,
                reference_kind: ReferenceKind::PREVIOUS_CLOSE,
                flags: Figures::STALE,
                first_trade: -4,
                traded_until_ns: 26,
            }),
            ..last_value()
        }),
        Message::Venue(Venue {
            source: 9,
            source_time_ns: 8,
            name: VenueName::new("XNAS").unwrap(),
        }),
        Message::Certainty(Certainty {
            symbol: 7,
            flags: Figures::STALE,
            ..Certainty::default()
        }),
        Message::Level(Level {
            symbol: 7,
            price: 12,
            size: 3,
            side: Level::ASK,
            is_last: 1,
            depth: 10,
            ..Level::default()
        }),
        Message::SessionStart(SessionStart {
            symbol: 7,
            reference: 14,
            trading_day: 20_261_125,
            kind: ReferenceKind::PREVIOUS_SETTLEMENT,
            rolls: 1,
            ..SessionStart::default()
        }),
        Message::Record(record_parts(&[3; 80])[0]),
        Message::SnapshotBegin(mark),
        Message::SnapshotEnd(mark),
        Message::Skip(Skip { count: 3 }),
        Message::Unknown(UnknownMessage {
            kind: MessageKind(0x4f),
        }),
    ]
}

#[test]
fn every_message_comes_back_out_of_a_packet() {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, 5, Flags::NONE, 40, UDP_PACKET_LENGTH_MAX);
    messages().iter().for_each(|message| writer.push(message));
    assert_eq!(writer.finish(), 40 + 14 + 3);
    let (packet, consumed) = decode_packet(&out).unwrap().unwrap();
    assert_eq!(consumed, out.len());
    assert_eq!(
        (packet.header.session, packet.header.first_sequence),
        (5, 40)
    );
    let decoded: Vec<_> = packet.messages().map(Result::unwrap).collect();
    assert_eq!(decoded, messages());
}

#[test]
fn every_control_comes_back_out_of_a_packet() {
    for control in controls() {
        let mut out = Vec::new();
        PacketWriter::control(&mut out, 5, &control);
        let (packet, _) = decode_packet(&out).unwrap().unwrap();
        assert_eq!(packet.header.flags, Flags::CONTROL);
        let decoded: Vec<_> = packet.controls().map(Result::unwrap).collect();
        assert_eq!(decoded, [control]);
    }
}

#[test]
fn lengths_follow_from_the_type_byte_and_keep_eight_byte_alignment() {
    for message in messages() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(bytes.len(), message.encoded_length(), "{message:?}");
        assert_eq!(bytes.len(), usize::from(bytes[0] >> 4) * 16);
        assert!(bytes.len() <= MESSAGE_LENGTH_MAX);
    }
    for control in controls() {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        assert_eq!(bytes.len(), usize::from(bytes[0] >> 4) * 16, "{control:?}");
    }
}

#[test]
fn packets_close_at_the_limit() {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, 5, Flags::NONE, 1, UDP_PACKET_LENGTH_MAX);
    (0..100).for_each(|_| writer.push(&Message::Quote(quote())));
    assert_eq!(writer.finish(), 101);
    let (mut rest, mut next) = (out.as_slice(), 1);
    while let Some((packet, length)) = decode_packet(rest).unwrap() {
        assert!(length <= UDP_PACKET_LENGTH_MAX);
        assert_eq!(packet.header.first_sequence, next);
        next += u64::from(packet.header.message_count);
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    assert_eq!(next, 101);
}

#[test]
fn what_is_wrong_with_a_packet_is_said() {
    let mut good = Vec::new();
    PacketWriter::bare(&mut good, 1, Flags::HEARTBEAT, 9);
    let changed = |index: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[index] = byte;
        decode_packet(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(changed(0, 0), PacketError::BadMagic);
    assert_eq!(changed(2, 9), PacketError::UnsupportedVersion(9));
    assert_eq!(changed(6, 8), PacketError::BadLength(8));
    assert_eq!(
        changed(8, 9),
        PacketError::BadChecksum { packet_length: 24 }
    );
    assert_eq!(decode_packet(b"GE").map(|_| ()), Err(PacketError::BadMagic));
    assert!(decode_packet(&good[..23]).unwrap().is_none());
}

#[test]
fn a_body_that_is_no_messages_is_said_so() {
    let decode = |body: &[u8], message_count: u16| {
        let header = Header {
            flags: Flags::NONE,
            message_count,
            body_length: body.len() as u16,
            session: 0,
            checksum: 0,
            first_sequence: 1,
        };
        Packet { header, body }.messages().last().unwrap()
    };
    let trade = trade().to_bytes();
    assert_eq!(decode(&trade, 2), Err(MessageError::Truncated));
    assert_eq!(decode(&trade[..16], 1), Err(MessageError::Truncated));
    assert_eq!(
        decode(&[trade, trade].concat(), 1),
        Err(MessageError::TrailingBytes)
    );
    assert_eq!(decode(&[0; 16], 1), Err(MessageError::BadType(0)));
    let mut bad_name = definition().to_bytes();
    bad_name[40 + 70] = b'x';
    assert_eq!(decode(&bad_name, 1), Err(MessageError::BadText));
}

#[test]
fn a_record_of_any_length_comes_back_from_its_parts() {
    let mut join = RecordJoin::default();
    for length in 1..=RECORD_LENGTH_MAX {
        let record: Vec<u8> = (0..length).map(|index| (index % 251) as u8 + 1).collect();
        let parts = record_parts(&record);
        assert_eq!(parts.len(), length.div_ceil(RECORD_PART_LENGTH_MAX));
        let (last, others) = parts.split_last().unwrap();
        for part in others {
            assert_eq!(join.push(part), None);
        }
        assert_eq!(join.push(last), Some(&record[..]));
    }
    assert!(record_parts(&[]).is_empty());
    assert!(record_parts(&[1; RECORD_LENGTH_MAX + 1]).is_empty());
}

#[test]
fn parts_of_different_records_are_not_joined() {
    let parts = record_parts(&[1; 520]);
    let mut other = parts[1];
    other.symbol = 8;
    let mut join = RecordJoin::default();
    assert_eq!(join.push(&parts[1]), None, "without a beginning");
    assert_eq!(join.push(&parts[0]), None);
    assert_eq!(join.push(&other), None, "another symbol's");
    assert_eq!(join.push(&parts[1]), None, "the beginning was dropped");
    assert_eq!(join.push(&parts[0]), None);
    assert_eq!(join.push(&parts[2]), None, "one is missing");
    for part in &parts[..2] {
        assert_eq!(join.push(part), None);
    }
    assert_eq!(join.push(&parts[2]), Some(&[1; 520][..]));
}

#[test]
fn a_part_that_does_not_fit_its_record_is_refused() {
    let mut good = Vec::new();
    Message::Record(record_parts(&[5; 520])[2]).encode(&mut good);
    assert!(Message::decode(&good).is_ok());
    for (index, byte) in [
        (0, 0x6d),
        (0, 0x8d),
        (16, 0xff),
        (17, 0),
        (17, 9),
        (18, 1),
        (19, 9),
    ] {
        let mut bad = good.clone();
        bad.resize(MESSAGE_LENGTH_MAX, 0);
        bad[index] = byte;
        assert_eq!(
            Message::decode(&bad),
            Err(MessageError::BadRecord),
            "byte {index} as {byte}"
        );
    }
}

#[test]
fn text_is_utf8_that_fits() {
    assert_eq!(Name::new(&"x".repeat(72)).unwrap().as_str().len(), 72);
    assert_eq!(
        Name::new(&"x".repeat(73)),
        Err(TextError::TooLong { bytes_max: 72 })
    );
    assert_eq!(Name::new("a\0b"), Err(TextError::NotText));
    assert_eq!(Name::truncated(&"é".repeat(40)).as_str(), "é".repeat(36));
    assert_eq!(
        Text::<4>::from_padded([b'a', 0, b'b', 0]),
        Err(TextError::NotText)
    );
    assert_eq!(
        Text::<4>::from_padded([0xff, 0, 0, 0]),
        Err(TextError::NotText)
    );
}

#[test]
fn a_value_takes_only_what_is_newer() {
    let mut value = LastValue::new(7);
    assert!(value.apply(5, &Message::Quote(quote())));
    assert!(
        !value.apply(5, &Message::Quote(quote())),
        "the same sequence again"
    );
    assert!(!value.apply(6, &Message::Trade(trade())), "another symbol");
    assert!(value.apply(
        6,
        &Message::Trade(Trade {
            symbol: 7,
            size: 4,
            ..trade()
        })
    ));
    assert_eq!(
        (value.sequence, value.bid, value.last, value.volume),
        (6, 100, -2, 4)
    );
    let record = LastValue {
        sequence: 5,
        ..LastValue::new(7)
    };
    assert!(!value.merge(&record), "older");
    let whole = LastValue {
        sequence: 6,
        volume: 400,
        ..value
    };
    assert!(value.merge(&whole), "the same sequence, but whole");
    assert_eq!(value.volume, 400);
}

proptest! {
    #[test]
    fn any_numbers_survive(
        symbol: u32, source: u16, time: u64, price: i64, other: i64, size: u32, count: u32,
    ) {
        let trade = Trade {
            symbol, source, source_time_ns: time, price, size, condition: count,
        };
        let quote = Quote {
            symbol, source, source_time_ns: time, bid: price, ask: other, bid_size: size,
            ask_size: count, bid_orders: count, ask_orders: size,
        };
        for message in [Message::Trade(trade), Message::Quote(quote)] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let (decoded, rest) = Message::decode(&bytes).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(decoded, message);
        }
    }

    #[test]
    fn a_flipped_bit_is_always_noticed(index in 0_usize..104, bit in 0_u8..8) {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, 5, Flags::NONE, 1, 1_472);
        writer.push(&Message::Trade(trade()));
        writer.push(&Message::Quote(quote()));
        writer.finish();
        bytes[index] ^= 1 << bit;
        prop_assert!(!matches!(decode_packet(&bytes), Ok(Some(_))));
    }
}

/// A reader of a stream needs no byte after a packet, for a packet of any length.
#[test]
fn a_packet_of_any_length_is_there_with_its_last_byte() {
    for count in [1, 40, 1_500] {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, 1, Flags::NONE, 1, PACKET_LENGTH_MAX);
        for _ in 0..count {
            writer.push(&Message::Trade(trade()));
        }
        writer.finish();
        for length in 0..bytes.len() {
            let early = decode_packet(&bytes[..length]);
            assert!(matches!(early, Ok(None)), "{length}");
        }
        let (packet, taken) = decode_packet(&bytes).unwrap().unwrap();
        assert_eq!((packet.messages().count(), taken), (count, bytes.len()));
    }
}

#[test]
fn a_receivers_value_follows_sessions_as_the_hubs_does() {
    let mut value = LastValue {
        figures: Some(Figures::default()),
        ..LastValue::new(7)
    };
    let trade = |price, size| {
        Message::Trade(Trade {
            symbol: 7,
            price,
            size,
            ..Trade::default()
        })
    };
    let start = |reference, kind, rolls| {
        Message::SessionStart(SessionStart {
            symbol: 7,
            reference,
            kind,
            rolls,
            trading_day: 20_240_102,
            ..SessionStart::default()
        })
    };
    value.apply(1, &trade(10, 2));
    value.apply(2, &trade(8, 1));
    assert_eq!((value.open, value.volume, value.change_base()), (10, 3, 10));
    let figures = value.figures.unwrap();
    let found = (figures.high, figures.low, figures.turnover, figures.trades);
    assert_eq!(found, (10, 8, 28, 2));
    value.apply(3, &start(9, ReferenceKind::PREVIOUS_CLOSE, 1));
    assert_eq!((value.volume, value.open), (0, UNDEFINED_PRICE));
    assert_eq!((value.change_base(), value.last), (9, 8));
    let figures = value.figures.unwrap();
    assert_eq!((figures.trades, figures.trading_day), (0, 20_240_102));
    value.apply(4, &start(11, ReferenceKind::OPEN, 0));
    assert_eq!((value.open, value.change_base()), (11, 9));
    value.figures = None;
    assert_eq!(value.change_base(), 11);
}

#[test]
fn a_session_that_has_begun_is_kept_unless_the_same_trades_come_again() {
    let (day, again) = (SessionStart::BEGINS_DAY, SessionStart::BEGINS_DAY_OR_AGAIN);
    let (close, settlement) = (
        ReferenceKind::PREVIOUS_CLOSE,
        ReferenceKind::PREVIOUS_SETTLEMENT,
    );
    let state = SessionState {
        trading_day: 20_240_102,
        open: 100,
        first_trade: 98,
        reference: 90,
        kind: settlement,
        traded_until_ns: 50,
    };
    let start = |rolls, source_time_ns| SessionStart {
        source_time_ns,
        trading_day: 20_240_102,
        rolls,
        ..SessionStart::default()
    };
    let decided = |start: SessionStart| {
        let start = start.decide(&state)?;
        Some((start.rolls, start.kind, start.reference))
    };
    let none = (ReferenceKind::NONE, UNDEFINED_PRICE);
    assert_eq!(
        (decided(start(day, 10)), decided(start(again, 51))),
        (None, None)
    );
    // The trades again: a session that keeps its reference.
    assert_eq!(decided(start(again, 50)), Some((1, settlement, 90)));
    let untraded = SessionState {
        traded_until_ns: 0,
        ..state
    };
    assert_eq!(start(again, 50).decide(&untraded), None);
    // Another day, and a day that is not known.
    let of_day = |trading_day| SessionStart {
        trading_day,
        ..start(day, 60)
    };
    assert_eq!(decided(of_day(20_240_103)), Some((1, none.0, none.1)));
    assert_eq!(decided(of_day(0)), Some((1, none.0, none.1)));
    // References: a better one and a correction count, a worse one and a known one do not.
    let with = |kind, reference| SessionStart {
        kind,
        reference,
        ..start(day, 60)
    };
    assert_eq!(decided(with(settlement, 91)), Some((0, settlement, 91)));
    assert_eq!(decided(with(settlement, 90)), None);
    assert_eq!(decided(with(close, 91)), None);
    assert_eq!(
        decided(with(ReferenceKind::OPEN, 101)),
        Some((0, ReferenceKind::OPEN, 101))
    );
    assert_eq!(decided(with(ReferenceKind::OPEN, 100)), None);
    // What is decided is not decided again.
    let plain = SessionStart {
        rolls: 0,
        ..with(close, 91)
    };
    assert_eq!(decided(plain), Some((0, close, 91)));
    // A day that goes on knows nothing of an open without a price.
    assert_eq!(decided(with(ReferenceKind::OPEN, UNDEFINED_PRICE)), None);
}

/// A reader of what a publisher sends lost the open where the session had a previous close.
#[test]
fn an_open_is_beside_the_reference_of_a_day_that_begins_again() {
    let mut value = LastValue {
        figures: Some(Figures::default()),
        ..LastValue::new(7)
    };
    let start = |kind, reference, rolls| {
        Message::SessionStart(SessionStart {
            symbol: 7,
            kind,
            reference,
            rolls,
            trading_day: 20_240_102,
            ..SessionStart::default()
        })
    };
    let trade = Trade {
        symbol: 7,
        price: 10,
        size: 1,
        ..Trade::default()
    };
    value.apply(1, &start(ReferenceKind::PREVIOUS_CLOSE, 90, 1));
    value.apply(
        2,
        &Message::Trade(Trade {
            source_time_ns: 5,
            ..trade
        }),
    );
    let again = SessionStart::BEGINS_DAY_OR_AGAIN;
    value.apply(3, &start(ReferenceKind::OPEN, 99, again));
    assert_eq!((value.open, value.volume, value.change_base()), (99, 0, 90));
}

/// A reader of a stream lost the open with each definition that is given again.
#[test]
fn a_definition_without_an_open_leaves_that_of_the_session() {
    let mut value = LastValue::new(7);
    let trade = Trade {
        symbol: 7,
        price: 10,
        size: 1,
        ..Trade::default()
    };
    let definition = Definition::new(7, Name::new("A").unwrap());
    value.apply(1, &Message::Trade(trade));
    value.apply(2, &Message::Definition(definition));
    assert_eq!(value.open, 10);
    value.apply(
        3,
        &Message::Definition(Definition {
            open: 12,
            ..definition
        }),
    );
    assert_eq!(value.open, 12);
}
