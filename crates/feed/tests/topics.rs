//! Topics beyond market data on the wire: test vectors, bounds, and receivers that do not know
//! them.

use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{
    Deletion, Flags, Message, MessageError, MessageKind, PacketWriter, Quote,
    TOPIC_NAME_LENGTH_MAX, TOPIC_PART_LENGTH_MAX, TOPIC_VALUE_LENGTH_MAX, TagHead, TopicJoin,
    TopicKind, TopicPart, TopicStamp, UnknownMessage, decode_packet,
};

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// Decodes hexadecimal digits and ignores blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |at: usize| (digits[at] as char).to_digit(16).unwrap() as u8;
    let pairs = 0..digits.len() / 2;
    pairs
        .map(|pair| digit(2 * pair) << 4 | digit(2 * pair + 1))
        .collect()
}

fn parts(kind: TopicKind, whole: &[u8]) -> Vec<Vec<u8>> {
    let parts = TopicPart::split(kind, 0x0403_0201, 5, whole);
    parts.map(|part| encoded(&Message::Topic(part))).collect()
}

#[test]
fn a_name_and_a_value() {
    let head = "00 0000 01020304 0500000000000000";
    assert_eq!(
        parts(TopicKind::Name, b"live:a"),
        [hex(&format!(
            "28 {head} 06000000 00000000 6c6976653a61 0000"
        ))]
    );
    assert_eq!(
        parts(TopicKind::Value, b""),
        [hex(&format!(
            "29 {head} 00000000 00000000 0000000000000000"
        ))]
    );
    let value: Vec<u8> = (0..=217).collect();
    let mut first = hex(&format!("f9 {head} da000000 00000000"));
    first.extend_from_slice(&value[..216]);
    let second = hex(&format!("29 {head} da000000 d8000000 d8d9 000000000000"));
    assert_eq!(parts(TopicKind::Value, &value), [first, second]);
}

#[test]
fn a_tag_a_removal_and_a_stamp() {
    let tag = TagHead {
        quality: 192,
        value_kind: 2,
        is_stale: true,
        status: 3,
        source_time: 4,
        receive_time_ns: 6,
        data_type: 0x0809,
        is_array: true,
    };
    let whole = [&tag.to_bytes()[..], &[7, 0, 0, 0]].concat();
    let bytes = "4a 00 0000 01020304 0500000000000000 24000000 00000000
        c000 02 03 03000000 0400000000000000 0600000000000000 0908 000000000000 07000000
        00000000";
    assert_eq!(parts(TopicKind::Tag, &whole), [hex(bytes)]);
    assert_eq!(TagHead::decode(&whole), Some((tag, &[7, 0, 0, 0][..])));
    assert_eq!(TagHead::decode(&whole[..31]), None);
    let gone = Deletion {
        topic: 1,
        time_ns: 2,
    };
    assert_eq!(
        encoded(&Message::Deletion(gone)),
        hex("1c 00 0000 01000000 0200000000000000")
    );
    let stamp = TopicStamp {
        topic: 1,
        sequence: 2,
        named: 3,
    };
    assert_eq!(
        encoded(&Message::TopicStamp(stamp)),
        hex("2b 00 0000 01000000 0000000000000000 0200000000000000 0300000000000000")
    );
}

#[test]
fn a_value_of_any_length_comes_back_from_its_parts() {
    let mut join = TopicJoin::default();
    let lengths = [0, 1, 7, 8, 215, 216, 217, 432, 10_000, 1 << 20];
    for length in lengths.into_iter().chain([TOPIC_VALUE_LENGTH_MAX]) {
        let value: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        let parts = parts(TopicKind::Value, &value);
        assert_eq!(parts.len(), length.div_ceil(TOPIC_PART_LENGTH_MAX).max(1));
        for (number, bytes) in parts.iter().enumerate() {
            let (message, rest) = Message::decode(bytes).unwrap();
            assert!(rest.is_empty());
            let Message::Topic(part) = message else {
                panic!("{message:?}");
            };
            let whole = join.push(&part);
            assert_eq!(whole.is_some(), number + 1 == parts.len());
            assert!(whole.is_none_or(|whole| whole == value));
        }
    }
}

#[test]
fn a_part_that_does_not_continue_the_one_before_it_is_dropped() {
    let split = |topic, value: &[u8]| -> Vec<TopicPart> {
        TopicPart::split(TopicKind::Value, topic, 0, value).collect()
    };
    let (one, other) = (split(1, &[1; 500]), split(2, &[2; 500]));
    let mut join = TopicJoin::default();
    assert!(join.push(&one[0]).is_none());
    assert!(join.push(&one[2]).is_none(), "a part is missing");
    assert!(join.push(&one[1]).is_none(), "its beginning was dropped");
    assert!(join.push(&one[0]).is_none());
    assert!(join.push(&other[1]).is_none(), "of another topic");
    assert!(join.push(&one[1]).is_none());
    other[..2]
        .iter()
        .for_each(|part| assert!(join.push(part).is_none()));
    assert_eq!(join.push(&other[2]), Some(&[2; 500][..]));
}

#[test]
fn names_and_values_that_are_too_long_have_no_parts() {
    let count = |kind, length| parts(kind, &vec![1; length]).len();
    assert_eq!(count(TopicKind::Name, 0), 0);
    assert_eq!(count(TopicKind::Name, TOPIC_NAME_LENGTH_MAX), 5);
    assert_eq!(count(TopicKind::Name, TOPIC_NAME_LENGTH_MAX + 1), 0);
    assert_eq!(count(TopicKind::Value, TOPIC_VALUE_LENGTH_MAX + 1), 0);
    assert_eq!(count(TopicKind::Tag, TagHead::LENGTH - 1), 0);
}

#[test]
fn a_part_that_does_not_fit_its_value_is_refused() {
    let good = parts(TopicKind::Value, &[5; 500])[1].clone();
    assert!(Message::decode(&good).is_ok());
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        Message::decode(&bad).map(|_| ())
    };
    // A length, an offset and a type byte that contradict each other.
    for (at, byte) in [(16, 0), (19, 0x7f), (20, 1), (21, 9), (0, 0x29)] {
        assert_eq!(with(at, byte), Err(MessageError::BadTopic), "{at}");
    }
    assert_eq!(
        Message::decode(&good[..100]).map(|_| ()),
        Err(MessageError::Truncated)
    );
    let name = parts(TopicKind::Name, b"live:a")[0].clone();
    let mut long = name.clone();
    long[17] = 0xff;
    assert!(Message::decode(&long).is_err());
    let mut empty = name;
    empty[16] = 0;
    assert!(Message::decode(&empty).is_err());
}

/// A receiver that is older than these messages skips them by the length in their type, and counts
/// one sequence for each.
#[test]
fn a_receiver_that_does_not_know_them_skips_them() {
    let mut journal = Journal::new(7, 64);
    for part in TopicPart::split(TopicKind::Value, 1, 0, &[1; 500]) {
        journal.append(&Message::Topic(part));
    }
    journal.append(&Message::Deletion(Deletion::default()));
    journal.append(&Message::Quote(Quote::default()));
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, 7, Flags::NONE, 1, 1_472);
    (1..=5).for_each(|sequence| writer.push(&journal.message(sequence).unwrap()));
    writer.finish();
    let (packet, _) = decode_packet(&out).unwrap().unwrap();
    let mut sequences = 0;
    let mut rest = &out[24..];
    for message in packet.messages() {
        let message = message.unwrap();
        let unknown = Message::Unknown(UnknownMessage {
            kind: MessageKind(rest[0]),
        });
        assert_eq!(message.encoded_length(), unknown.encoded_length());
        assert_eq!(message.sequence_count(), unknown.sequence_count());
        assert_eq!(message.symbol().is_none(), sequences < 4);
        rest = &rest[message.encoded_length()..];
        sequences += message.sequence_count();
    }
    assert!(sequences == 5 && rest.is_empty());
}
