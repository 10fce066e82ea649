//! Fuzz entries for the output of exchanges: functions that must never panic.

use crate::capture::{Decoder, Step, udp};
use crate::mold::{Receiver, ReceiverConfig, Sender, SenderConfig};
use crate::sequenced::{SessionName, Store};
use crate::soup;
use crate::{Books, Frames, Message};
use tidewire_feed::client::{NullSink, Side};

/// Applies a file of ITCH messages to books. Each decoded message must encode to the same bytes.
pub fn fuzz_itch(data: &[u8]) {
    let (mut books, mut written) = (Books::default(), Vec::new());
    let mut frames = Frames::new(data);
    for (sequence, bytes) in (1..).zip(&mut frames) {
        books.apply(sequence, bytes, &mut NullSink);
        if let Ok(message) = Message::decode(bytes) {
            written.clear();
            message.encode(&mut written);
            assert!(matches!(message, Message::Unknown(_)) || written == bytes);
        }
    }
    assert_eq!(frames.finish().is_ok(), frames.rest().is_empty());
}

/// Receives datagrams after two-byte lengths, on both lines and as answers.
pub fn fuzz_mold(data: &[u8]) {
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let mut store = Store::new(SessionName::from_bytes([0; 10]), 64);
    let (mut sender, mut out) = (Sender::new(SenderConfig::default()), Vec::new());
    let _ = store.append(b"message");
    while sender.next_packet(&store, 0, &mut out) && sender.next_sequence() < 2 {}
    let mut now_ns = 0;
    for (number, datagram) in Frames::new(data).enumerate() {
        now_ns += 30_000_000;
        let (session, before) = (receiver.session(), receiver.next_sequence());
        let restarts = receiver.counters().restarts;
        let _ = receiver.is_current(datagram, now_ns);
        let _ = match number % 3 {
            0 => receiver.receive(Side::A, datagram, now_ns, &mut NullSink),
            1 => receiver.receive(Side::B, datagram, now_ns, &mut NullSink),
            _ => receiver.receive_answer(datagram, now_ns, &mut NullSink),
        };
        receiver.handle_timeout(now_ns, &mut NullSink);
        assert!(receiver.next_sequence() <= receiver.highest_sequence());
        // Sequences increase within a session; the next session starts again.
        let is_new = receiver.session() != session || receiver.counters().restarts > restarts;
        assert!(receiver.next_sequence() >= before || is_new);
        while receiver.take_request().is_some() {}
        sender.answer(&store, datagram, &mut out, |_| {});
    }
    receiver.finish(&mut NullSink);
}

/// Runs a client and a server on arbitrary bytes.
pub fn fuzz_soup(data: &[u8]) {
    let mut client = soup::Client::new(soup::ClientConfig::default());
    client.connected(0);
    let _ = client.receive(data, 0, &mut NullSink);
    // Also as a client that is logged in.
    let mut accepted = b"\0\x1fA                             1".to_vec();
    accepted.extend_from_slice(data);
    let mut client = soup::Client::new(soup::ClientConfig::default());
    client.connected(0);
    let _ = client.receive(&accepted, 0, &mut NullSink);
    let store = Store::new(SessionName::default(), 64);
    let mut server = soup::Server::new(soup::ServerConfig::default(), 0);
    let _ = server.receive(data, 0);
    server.produce(&store, 0, &mut Vec::new(), 1_000);
}

/// Reads a capture and its datagrams.
pub fn fuzz_capture(data: &[u8]) {
    let (mut decoder, mut rest) = (Decoder::new(), data);
    let mut idle = 0;
    while let Ok(step) = decoder.next(rest) {
        let used = match step {
            Step::NeedMore => return,
            Step::Skip(used) => used,
            Step::Frame(frame, used) => {
                let _ = udp(frame.link, frame.bytes);
                used
            }
        };
        idle = if used == 0 { idle + 1 } else { 0 };
        assert!(idle < 2, "each step goes on");
        rest = &rest[used..];
    }
}

#[cfg(test)]
mod tests;
