//! ZeroMQ peers that say too little, by a simulated clock.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidewire_hub::{Hub, HubConfig, HubLane, port};
use tidewire_lane::{Lanes, Peer, SteppedLanes, advance_simulated_clock, begin_simulated_clock};
use tidewire_redis::RedisConfig;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: a\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n";
/// What a greeting of ZMTP begins with.
const SIGNATURE: &[u8] = b"\xff\0\0\0\0\0\0\0\x01\x7f";

fn pass(lanes: &mut SteppedLanes<HubLane>, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(Duration::from_millis(100));
        advance_simulated_clock(step);
        left -= step;
        lanes.turn(0);
    }
    lanes.turn(0);
}

/// What has arrived, and whether the connection is open.
fn heard(socket: &mut UnixStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => (bytes, false),
        Err(error) => (bytes, error.kind() == ErrorKind::WouldBlock),
    }
}

/// One test, because there is one clock.
#[test]
fn a_handshake_has_thirty_seconds_and_a_silent_peer_is_greeted_after_three() {
    begin_simulated_clock();
    let redis = RedisConfig {
        lanes: 1,
        ..RedisConfig::default()
    };
    let config = HubConfig {
        redis,
        ..HubConfig::default()
    };
    let mailboxes = Lanes::mailboxes(1).unwrap();
    let hub = Hub::new(config, mailboxes.clone());
    let counters = hub.server.lanes.clone();
    let make = |lane| HubLane::new(hub.clone(), lane, None);
    let mut lanes = SteppedLanes::new(mailboxes, &counters, make).unwrap();
    let words: [&[u8]; 6] = [
        b"",
        SIGNATURE,
        b"G",
        &REQUEST[..70],
        REQUEST,
        &[REQUEST, b"\x89\x80\0\0\0\0\x82\x90\0\0\0\0\x02\x05REA"].concat(),
    ];
    let mut sockets: Vec<UnixStream> = words
        .iter()
        .map(|words| {
            let peer = Peer::Tcp(([127, 0, 0, 1], 5000).into());
            let socket = lanes.connect(0, port::ZMQ_PUBLISH, peer).unwrap();
            let mut socket = UnixStream::from(socket);
            socket.write_all(words).unwrap();
            socket
        })
        .collect();
    pass(&mut lanes, Duration::from_millis(2_900));
    let first: Vec<_> = sockets.iter_mut().map(heard).collect();
    assert!(first.iter().all(|(_, is_open)| *is_open));
    assert_eq!(first[0].0, b"", "it may be about to ask for WebSocket");
    assert_eq!(&first[1].0[..10], SIGNATURE);
    assert!(first[2].0.is_empty() && first[3].0.is_empty());
    assert!(first[4].0.starts_with(b"HTTP/1.1 101 "));
    let has_pong = first[5].0.windows(2).any(|octets| octets == b"\x8a\0");
    assert!(has_pong, "{}", first[5].0.escape_ascii());
    pass(&mut lanes, Duration::from_millis(300));
    assert_eq!(heard(&mut sockets[0]), (SIGNATURE.to_vec(), true));
    pass(&mut lanes, Duration::from_millis(26_600));
    for (socket, words) in sockets.iter_mut().zip(words) {
        assert_eq!(
            heard(socket),
            (Vec::new(), true),
            "{}",
            words.escape_ascii()
        );
    }
    pass(&mut lanes, Duration::from_millis(500));
    for (socket, words) in sockets.iter_mut().zip(words) {
        assert_eq!(
            heard(socket),
            (Vec::new(), false),
            "{}",
            words.escape_ascii()
        );
    }
    lanes.stop();
}
