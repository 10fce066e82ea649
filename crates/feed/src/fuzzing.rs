//! Fuzz entries of this crate's decoders: functions that must never panic.

use crate::client::{Client, ClientConfig, NullSink, Side};
use crate::journal::Journal;
use crate::recording::{Decoder, Event};
use crate::server::{EmptyBoard, Session, SessionConfig};
use crate::wire::{Flags, HEADER_LENGTH, Header, PacketError, checksum, decode_packet};

/// Reads packets from the front until the framing is lost, with all their messages and controls.
pub fn fuzz_feed_packet(data: &[u8]) {
    read_packets(data);
    read_packets(&with_right_checksums(data));
}

fn read_packets(data: &[u8]) {
    let mut rest = data;
    loop {
        match decode_packet(rest) {
            Ok(Some((packet, length))) => {
                if packet.header.flags.contains(Flags::CONTROL) {
                    assert!(packet.controls().count() <= 1 + usize::from(u16::MAX));
                } else {
                    assert!(packet.messages().count() <= 1 + usize::from(u16::MAX));
                }
                rest = &rest[length..];
            }
            Err(PacketError::BadChecksum { packet_length }) => rest = &rest[packet_length..],
            Ok(None) | Err(_) => return,
        }
    }
}

/// Runs a subscriber on arbitrary bytes, unchanged and with correct checksums.
pub fn fuzz_feed_client(data: &[u8]) {
    run_client(data);
    run_client(&with_right_checksums(data));
}

/// Reads a recording and the packets in its blocks.
pub fn fuzz_recording(data: &[u8]) {
    let mut decoder = Decoder::new();
    let mut rest = data;
    loop {
        let before = rest.len();
        match decoder.decode(&mut rest) {
            Ok(Event::File { .. }) => {}
            Ok(Event::Block(block)) => {
                let (messages, _) = (block.messages().count(), block.numbers());
                // A message has at least 16 bytes, and broken packets are reported once.
                assert!(messages <= 1 + block.body.len() / 16);
            }
            Ok(Event::NeedMore(missing)) => {
                assert!(missing > 0);
                break;
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
        assert!(rest.len() < before, "every event takes bytes");
    }
    let ended = decoder.finish(rest);
    assert_eq!(ended.is_ok(), rest.is_empty() && !data.is_empty());
    assert_eq!(decoder.position() as usize, data.len() - rest.len());
}

/// Runs a server session on arbitrary bytes, unchanged and with correct checksums.
pub fn fuzz_feed_session(data: &[u8]) {
    run_session(data);
    run_session(&with_right_checksums(data));
}

fn run_client(data: &[u8]) {
    let mut client = Client::new(ClientConfig::default());
    let _ = client.subscribe("*");
    client.connected(Side::A, 0);
    let mut now_ns = 0;
    let mut sent = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        now_ns += 100_000_000;
        let Ok(used) = client.receive(Side::A, rest, now_ns, &mut NullSink) else {
            return;
        };
        client.handle_timeout(now_ns, &mut NullSink);
        client.drain_outgoing(Side::A, &mut sent);
        if used == 0 {
            return;
        }
        rest = &rest[used..];
    }
}

fn run_session(data: &[u8]) {
    let journal = Journal::new(1, 64);
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut out = Vec::new();
    let _ = session.receive(data, 1, &mut NullSink);
    session.handle_timeout(2, &mut NullSink);
    session.produce(&journal, &EmptyBoard, 2, &mut out, 1 << 16);
    fuzz_feed_packet(&out);
}

/// Returns the same packets with correct checksums, so that a fuzzer gets past them.
fn with_right_checksums(data: &[u8]) -> Vec<u8> {
    let mut repaired = data.to_vec();
    let mut start = 0;
    while let Some(head) = repaired[start..].first_chunk::<HEADER_LENGTH>() {
        let Ok(header) = Header::from_bytes(head) else {
            break;
        };
        let end = start + header.packet_length();
        let Some(body) = repaired.get(start + HEADER_LENGTH..end) else {
            break;
        };
        let right = checksum(head, body);
        repaired[start + 12..start + 16].copy_from_slice(&right.to_le_bytes());
        start = end;
    }
    repaired
}

#[cfg(test)]
mod tests;
