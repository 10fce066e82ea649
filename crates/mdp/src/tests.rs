//! Packets byte by byte, as the specification gives them.

use tidewire_feed::client::{Side, Sink};
use tidewire_feed::wire::{AGGRESSOR_BUY, Definition, Message};

use crate::schema::*;
use crate::{PacketError, Receiver, decode_packet};

/// Sequence 7: a trade, its volume, the level that it took from, and two orders of that level.
#[rustfmt::skip]
const EVENT: &[u8] = &[
    7, 0, 0, 0,                                         // MsgSeqNum
    0x00, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0x02, 0x03,     // SendingTime
    // Template 48.
    64, 0, 11, 0, 48, 0, 1, 0, 13, 0,                   // MsgSize, then the message header
    9, 0, 0, 0, 0, 0, 0, 0, 0x01, 0, 0,                 // TransactTime, LastTradeMsg, padding
    32, 0, 1,                                           // one entry
    0x00, 0xa0, 0x72, 0x4e, 0x18, 0x09, 0x00, 0x00,     // MDEntryPx 10,000.0
    3, 0, 0, 0,                                         // MDEntrySize
    0x39, 0x30, 0, 0,                                   // SecurityID 12,345
    1, 0, 0, 0, 2, 0, 0, 0,                             // RptSeq, NumberOfOrders
    1, 0,                                               // AggressorSide, MDUpdateAction
    5, 0, 0, 0, 0, 0,                                   // MDTradeEntryID, padding
    16, 0, 0, 0, 0, 0, 0, 0,                            // no orders
    // Template 37.
    40, 0, 11, 0, 37, 0, 1, 0, 13, 0,
    9, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0,
    16, 0, 1,
    3, 0, 0, 0, 0x39, 0x30, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    // Template 46.
    112, 0, 11, 0, 46, 0, 1, 0, 13, 0,
    9, 0, 0, 0, 0, 0, 0, 0, 0x84, 0, 0,                 // LastQuoteMsg and EndOfEvent
    32, 0, 1,
    0x00, 0xa0, 0x72, 0x4e, 0x18, 0x09, 0x00, 0x00,     // MDEntryPx
    4, 0, 0, 0,                                         // MDEntrySize
    0x39, 0x30, 0, 0,                                   // SecurityID
    3, 0, 0, 0,                                         // RptSeq
    2, 0, 0, 0,                                         // NumberOfOrders
    1, 0, b'1',                                         // MDPriceLevel, MDUpdateAction, MDEntryType
    0xff, 0xff, 0xff, 0x7f, 0,                          // TradeableSize: null; padding
    24, 0, 0, 0, 0, 0, 0, 2,                            // two orders
    1, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0,
];

#[derive(Default)]
struct Seen(Vec<Message>);

impl Sink for Seen {
    fn message(&mut self, _sequence: u64, message: &Message) {
        self.0.push(*message);
    }

    fn definition(&mut self, _sequence: u64, definition: &Definition) {
        self.0.push(Message::Definition(*definition));
    }
}

#[test]
fn an_event_has_the_bytes_of_the_specification() {
    let packet = decode_packet(EVENT).unwrap();
    assert_eq!(packet.header.sequence, 7);
    assert_eq!(packet.header.sending_time_ns, 0x0302_018b_cfe5_6800);
    let messages: Vec<_> = packet.messages().map(Result::unwrap).collect();
    let templates: Vec<_> = messages
        .iter()
        .map(|message| message.template_id())
        .collect();
    assert_eq!(templates, [48, 37, 46]);
    let trades = MDIncrementalRefreshTradeSummary48::decode(&messages[0]).unwrap();
    assert_eq!(trades.transact_time(), 9);
    let trade = trades.md_entries.entry(0).unwrap();
    assert_eq!(
        (trade.md_entry_px(), trade.md_entry_size()),
        (10_000_000_000_000, 3)
    );
    assert_eq!((trade.security_id(), trade.rpt_seq()), (12_345, 1));
    assert_eq!(trade.aggressor_side(), Some(AggressorSide::BUY));
    assert_eq!(trade.md_trade_entry_id(), Some(5));
    let book = MDIncrementalRefreshBook46::decode(&messages[2]).unwrap();
    assert!(
        book.match_event_indicator()
            .contains(MatchEventIndicator::END_OF_EVENT)
    );
    let level = book.md_entries.entry(0).unwrap();
    assert_eq!(level.md_entry_px(), Some(10_000_000_000_000));
    assert_eq!(
        (level.md_price_level(), level.md_update_action()),
        (1, MDUpdateAction::NEW)
    );
    assert_eq!(
        (level.md_entry_type(), level.tradeable_size()),
        (MDEntryTypeBook::OFFER, None)
    );
    let orders: Vec<_> = book.order_id_entries.iter().collect();
    assert_eq!(
        (orders[1].order_id(), orders[1].md_order_priority()),
        (2, Some(12))
    );
    assert_eq!(
        (orders[1].md_display_qty(), orders[1].reference_id()),
        (Some(3), Some(1))
    );
}

#[test]
fn an_event_gives_a_trade_then_a_quote_of_a_defined_instrument() {
    let (mut receiver, mut seen) = (Receiver::default(), Seen::default());
    let mut definition = Vec::new();
    crate::begin_packet(&mut definition, decode_packet(EVENT).unwrap().header);
    crate::add_message(&mut definition, |out| {
        let mut message = MDInstrumentDefinitionFuture54::encode(out);
        message
            .security_id(12_345)
            .symbol(*b"ESM6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        message.currency(*b"USD").display_factor(10_000_000);
        message.events();
        message.md_feed_types();
        message.inst_attrib();
        message.lot_type_rules();
    });
    receiver.receive_definition(&definition, &mut seen).unwrap();
    // The first entry of the instrument's own sequence: nothing is missing, although the packet is
    // not the channel's first.
    receiver.receive(Side::A, EVENT, 1, &mut seen).unwrap();
    receiver.handle_timeout(receiver.deadline_ns(), &mut seen);
    let [
        Message::Definition(definition),
        Message::Trade(trade),
        Message::Quote(quote),
    ] = seen.0[..]
    else {
        panic!("{:?}", seen.0);
    };
    assert_eq!(definition.name.as_str(), "ESM6");
    assert_eq!((trade.price, trade.size), (100_000_000_000, 3));
    assert_eq!((trade.condition, trade.source_time_ns), (AGGRESSOR_BUY, 9));
    assert_eq!(
        (quote.ask, quote.ask_size, quote.ask_orders),
        (100_000_000_000, 4, 2)
    );
    assert_eq!((quote.bid, quote.bid_size), (i64::MAX, 0));
}

#[test]
fn a_message_s_size_is_compared_with_the_packet() {
    let first = |bytes: &[u8]| {
        decode_packet(bytes)
            .unwrap()
            .messages()
            .next()
            .unwrap()
            .map(|_| ())
    };
    assert_eq!(first(EVENT), Ok(()));
    let with_size = |size: u8| {
        let mut bytes = EVENT.to_vec();
        bytes[12] = size;
        bytes.truncate(60);
        first(&bytes)
    };
    assert_eq!(
        with_size(9),
        Err(PacketError::BadSize { size: 9, left: 48 })
    );
    assert_eq!(
        with_size(49),
        Err(PacketError::BadSize { size: 49, left: 48 })
    );
    assert_eq!(
        first(&EVENT[..13]),
        Err(PacketError::BadSize { size: 0, left: 1 })
    );
    assert_eq!(
        decode_packet(&EVENT[..11]).map(|_| ()),
        Err(PacketError::NoHeader(11))
    );
}

#[test]
fn templates_have_the_numbers_and_lengths_of_version_13() {
    assert_eq!((SCHEMA_ID, SCHEMA_VERSION, PRICE9_EXPONENT), (1, 13, -9));
    let lengths = [
        (ChannelReset4::TEMPLATE_ID, ChannelReset4::BLOCK_LENGTH),
        (
            AdminHeartbeat12::TEMPLATE_ID,
            AdminHeartbeat12::BLOCK_LENGTH,
        ),
        (
            SecurityStatus30::TEMPLATE_ID,
            SecurityStatus30::BLOCK_LENGTH,
        ),
        (
            SnapshotFullRefresh52::TEMPLATE_ID,
            SnapshotFullRefresh52::BLOCK_LENGTH,
        ),
        (
            SnapshotFullRefreshOrderBook53::TEMPLATE_ID,
            SnapshotFullRefreshOrderBook53::BLOCK_LENGTH,
        ),
        (
            MDInstrumentDefinitionFuture54::TEMPLATE_ID,
            MDInstrumentDefinitionFuture54::BLOCK_LENGTH,
        ),
        (
            MDInstrumentDefinitionOption55::TEMPLATE_ID,
            MDInstrumentDefinitionOption55::BLOCK_LENGTH,
        ),
        (
            MDInstrumentDefinitionSpread56::TEMPLATE_ID,
            MDInstrumentDefinitionSpread56::BLOCK_LENGTH,
        ),
        (
            MDInstrumentDefinitionFX63::TEMPLATE_ID,
            MDInstrumentDefinitionFX63::BLOCK_LENGTH,
        ),
    ];
    let expected = [
        (4, 9),
        (12, 0),
        (30, 30),
        (52, 59),
        (53, 28),
        (54, 224),
        (55, 221),
        (56, 255),
        (63, 337),
    ];
    assert_eq!(lengths, expected);
    assert_eq!(MDIncrementalRefreshBook46MDEntries::BLOCK_LENGTH, 32);
    assert_eq!(MDIncrementalRefreshOrderBook47MDEntries::BLOCK_LENGTH, 40);
    assert_eq!(SnapshotFullRefresh52MDEntries::BLOCK_LENGTH, 22);
    assert_eq!(SnapshotFullRefreshOrderBook53MDEntries::BLOCK_LENGTH, 29);
    assert_eq!(
        MDIncrementalRefreshTradeSummaryLongQty65MDEntries::BLOCK_LENGTH,
        40
    );
}
