use super::*;

#[test]
fn a_packet_of_messages_comes_back() {
    let trade = Trade {
        symbol: 7,
        price: 101,
        size: 3,
        ..Trade::default()
    };
    let quote = Quote {
        symbol: 7,
        bid: 100,
        ask: 102,
        ..Quote::default()
    };
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, 5, Flags::NONE, 40, UDP_PACKET_LENGTH_MAX);
    writer.push(&Message::Trade(trade));
    writer.push(&Message::Quote(quote));
    assert_eq!(writer.finish(), 42);
    let (packet, consumed) = decode_packet(&out).unwrap().unwrap();
    assert_eq!(consumed, HEADER_LENGTH + 32 + 48);
    assert_eq!(
        (packet.header.session, packet.header.first_sequence),
        (5, 40)
    );
    let messages: Vec<_> = packet.messages().map(Result::unwrap).collect();
    assert_eq!(messages, [Message::Trade(trade), Message::Quote(quote)]);
}
