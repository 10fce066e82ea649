//! Code made of a small schema, `schema.xml`: bytes as the standard gives them, versions, and
//! hostile lengths.

use tidewire_sbe::{DecodeError, Header, Message};

mod schema {
    #![allow(dead_code, unreachable_pub, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/tests_schema.rs"));
}

use schema::{Flags, Kind, Month, Order, Side};

/// Template 5 of version 3 with two fills and one tag, byte by byte.
#[rustfmt::skip]
const ORDER: &[u8] = &[
    32, 0, 5, 0, 9, 0, 3, 0,                            // header
    7, 0, 0, 0, 0, 0, 0, 0,                             // Id
    0, 0xca, 0x9a, 0x3b, 0, 0, 0, 0,                    // Px: 1,000,000,000
    2, b'J', 0x01, 0x80,                                // Side, Kind, Flags
    b'A', b'B', 0, 0,                                   // Code
    0xea, 0x07, 255,                                    // Month: 2026, no month
    9, 0, 0, 0,                                         // Extra
    0,                                                  // up to the block's length
    6, 0, 2,                                            // two fills of 6 bytes
    1, 0, 0, 0, 0xff, 0xff,
    2, 0, 0, 0, 3, 0,
    8, 0, 0, 0, 0, 0, 0, 1,                             // one tag of 8 bytes
    0, 0, 4, 3, 2, 1, 0, 0,
];

fn write_order() -> Vec<u8> {
    let mut out = Vec::new();
    let mut order = Order::encode(&mut out);
    let flags = Flags::FIRST.with(Flags::LAST);
    order.id(7).px(1_000_000_000).side(Side::SELL);
    order.kind(Kind::RESET).flags(flags).code(*b"AB\0\0");
    let month = Month {
        year: Some(2026),
        month: None,
    };
    order.month(month).extra(9);
    let mut fills = order.fills();
    fills.add().qty(1).fee(-1);
    fills.add().qty(2).fee(3);
    order.tags().add().tag(0x0102_0304);
    out
}

#[test]
fn a_message_has_the_bytes_of_the_standard() {
    assert_eq!(write_order(), ORDER);
    let message = Message::new(ORDER).unwrap();
    let header = Header {
        block_length: 32,
        template_id: Order::TEMPLATE_ID,
        schema_id: schema::SCHEMA_ID,
        version: 3,
    };
    assert_eq!(message.header(), header);
    let order = Order::decode(&message).unwrap();
    assert_eq!((order.id(), order.px()), (7, Some(1_000_000_000)));
    assert_eq!(
        (order.side(), order.kind()),
        (Some(Side::SELL), Kind::RESET)
    );
    assert!(order.flags().contains(Flags::LAST) && order.flags().contains(Flags::FIRST));
    assert_eq!(order.code(), b"AB\0\0");
    assert_eq!(order.month().and_then(|month| month.year), Some(2026));
    assert_eq!(order.month().and_then(|month| month.month), None);
    assert_eq!(order.extra(), Some(9));
    assert_eq!(Order::VENUE, "XTST");
    assert_eq!((Order::RESET_KIND, schema::PRICE_EXPONENT), (b'J', -9));
    let fills: Vec<_> = order
        .fills
        .iter()
        .map(|fill| (fill.qty(), fill.fee()))
        .collect();
    assert_eq!(fills, [(1, Some(-1)), (2, Some(3))]);
    assert_eq!(order.tags.entry(0).unwrap().tag(), 0x0102_0304);
    assert!(order.tags.entry(1).is_none() && order.tags.len() == 1);
}

#[test]
fn what_is_not_set_has_no_value() {
    let mut out = Vec::new();
    let mut order = Order::encode(&mut out);
    order.id(1).fills();
    order.tags();
    let order = Order::decode(&Message::new(&out).unwrap()).unwrap();
    assert_eq!(
        (order.px(), order.side(), order.extra()),
        (None, None, None)
    );
    assert_eq!(order.month().and_then(|month| month.year), None);
    assert!(order.fills.is_empty() && order.tags.iter().next().is_none());
}

#[test]
fn an_older_sender_has_no_later_fields_even_in_a_padded_block() {
    let mut bytes = ORDER.to_vec();
    bytes[6] = 2;
    let order = Order::decode(&Message::new(&bytes).unwrap()).unwrap();
    assert_eq!(order.extra(), None, "added in version 3");
    assert!(order.month().is_some(), "added in version 2");
    assert_eq!(order.fills.entry(0).unwrap().fee(), None);
    // Version 1: a shorter block, and no group of tags.
    let mut bytes = vec![24, 0, 5, 0, 9, 0, 1, 0];
    bytes.extend(&ORDER[8..32]);
    bytes.extend([4, 0, 1, 5, 0, 0, 0]);
    let order = Order::decode(&Message::new(&bytes).unwrap()).unwrap();
    assert_eq!((order.month(), order.extra()), (None, None));
    let fill = order.fills.entry(0).unwrap();
    assert_eq!((fill.qty(), fill.fee(), order.tags.len()), (5, None, 0));
}

#[test]
fn a_newer_sender_s_longer_blocks_are_skipped_over() {
    let mut bytes = vec![34, 0, 5, 0, 9, 0, 4, 0];
    bytes.extend(&ORDER[8..40]);
    bytes.extend([0xee, 0xee]);
    bytes.extend([8, 0, 2, 1, 0, 0, 0, 2, 0, 9, 9, 3, 0, 0, 0, 4, 0, 9, 9]);
    bytes.extend([9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0xee]);
    let order = Order::decode(&Message::new(&bytes).unwrap()).unwrap();
    let fills: Vec<_> = order
        .fills
        .iter()
        .map(|fill| (fill.qty(), fill.fee()))
        .collect();
    assert_eq!(fills, [(1, Some(2)), (3, Some(4))]);
    assert_eq!(order.tags.entry(0).unwrap().tag(), 7);
}

#[test]
fn lengths_beyond_the_message_are_errors() {
    let decode = |bytes: &[u8]| Message::new(bytes).and_then(|m| Order::decode(&m).map(|_| ()));
    for length in 0..ORDER.len() {
        assert!(matches!(
            decode(&ORDER[..length]),
            Err(DecodeError::Truncated(_))
        ));
    }
    let with = |at: usize, value: u8| {
        let mut bytes = ORDER.to_vec();
        bytes[at] = value;
        decode(&bytes)
    };
    let too_short = |length, minimum| Err(DecodeError::BlockTooShort { length, minimum });
    assert_eq!(with(0, 23), too_short(23, 24));
    assert_eq!(with(40, 3), too_short(3, 4));
    assert!(matches!(with(42, 255), Err(DecodeError::Truncated(_))));
    assert_eq!(with(2, 6), Err(DecodeError::WrongTemplate(6)));
    assert_eq!(decode(ORDER), Ok(()));
}
