//! Tests of the client against an exchange on real sockets.

mod server;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use server::{Server, message};
use tidewire_feed::client::{Gap, Side, Sink};
use tidewire_feed::faults::FaultInjector;
use tidewire_feed::journal::Journal;
use tidewire_feed::server::Broadcast;
use tidewire_feed::wire::{Control, Message, PacketWriter, RefusalReason, RefusalText, Refused};
use tidewire_feed_client::{Change, Ending, FeedClient, FeedClientConfig};

#[derive(Default)]
struct Seen {
    next: u64,
    lost: u64,
    snapshots: u64,
}

impl Sink for Seen {
    fn message(&mut self, sequence: u64, seen: &Message) {
        assert_eq!(sequence, self.next.max(1), "in order, each once");
        assert_eq!(*seen, message(sequence));
        self.next = sequence + 1;
    }

    fn gap(&mut self, gap: Gap) {
        if let Gap::Lost { count, .. } = gap {
            self.lost += count;
        }
    }

    fn snapshot_complete(&mut self, _: u64, _: u64) {
        self.snapshots += 1;
    }
}

fn journal(window: usize) -> Arc<Mutex<Journal>> {
    Arc::new(Mutex::new(Journal::new(7, window)))
}

fn turn_until(client: &mut FeedClient, seen: &mut Seen, mut done: impl FnMut(&Seen) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done(seen) {
        assert!(Instant::now() < end, "stuck before {}", seen.next);
        client.wait(Duration::from_millis(5));
        while client.turn(seen) {}
    }
}

#[test]
fn twenty_disconnects_lose_nothing_and_repeat_nothing() {
    let server = Server::start(journal(1 << 16));
    // An odd number, so that the cut comes in the middle of a packet.
    server.cut_after_bytes.store(60_001, Ordering::Relaxed);
    let mut client = FeedClient::new(FeedClientConfig::of(server.address)).unwrap();
    client.subscribe("*").unwrap();
    let mut seen = Seen::default();
    turn_until(&mut client, &mut seen, |seen| seen.snapshots == 1);
    let mut published = 0;
    turn_until(&mut client, &mut seen, |seen| {
        if server.connections.load(Ordering::Relaxed) <= 20 {
            let mut journal = server.journal.lock().unwrap();
            for _ in 0..50 {
                published += 1;
                journal.append(&message(published));
            }
        }
        server.connections.load(Ordering::Relaxed) > 20 && seen.next == published + 1
    });
    assert_eq!((seen.lost, client.client().counters().lost), (0, 0));
    assert!(client.connections() > 20);
    assert!(client.client().is_complete());
    let mut endings = 0;
    while let Some(change) = client.next_change() {
        endings += usize::from(matches!(change, Change::Ended(Side::A, _)));
    }
    assert!(endings >= 20, "{endings} were told");
}

#[test]
fn who_was_away_longer_than_the_window_gets_a_snapshot_and_is_told_what_was_lost() {
    let server = Server::start(journal(64));
    server.cut_after_bytes.store(2_001, Ordering::Relaxed);
    let mut client = FeedClient::new(FeedClientConfig::of(server.address)).unwrap();
    client.subscribe("*").unwrap();
    let mut seen = Seen::default();
    turn_until(&mut client, &mut seen, |seen| seen.snapshots == 1);
    let append = |from: u64, until: u64| {
        let mut journal = server.journal.lock().unwrap();
        (from..until).for_each(|sequence| _ = journal.append(&message(sequence)));
    };
    append(1, 31);
    turn_until(&mut client, &mut seen, |seen| seen.next == 31);
    server.cut_after_bytes.store(0, Ordering::Relaxed);
    // More messages than the window, while the client is disconnected.
    append(31, 501);
    seen.next = 501;
    turn_until(&mut client, &mut seen, |seen| seen.snapshots >= 2);
    assert_eq!(seen.lost, 470);
    append(501, 511);
    turn_until(&mut client, &mut seen, |seen| seen.next == 511);
    assert!(client.client().is_complete());
}

#[test]
fn a_server_that_is_not_there_is_told_and_asked_again() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let mut client = FeedClient::new(FeedClientConfig::of(address)).unwrap();
    let refused = Ending::System(std::io::ErrorKind::ConnectionRefused);
    let mut endings = 0;
    let mut seen = Seen::default();
    turn_until(&mut client, &mut seen, |_| {
        endings += 1;
        endings > 10
    });
    let changes: Vec<Change> = std::iter::from_fn(|| client.next_change()).collect();
    let ended = Change::Ended(Side::A, refused);
    assert!(
        changes.iter().filter(|&change| *change == ended).count() > 1,
        "{changes:?}"
    );
}

/// The log said that the server had closed the connection.
#[test]
fn a_server_that_refuses_the_login_was_said_to_have_closed_the_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = FeedClient::new(FeedClientConfig::of(listener.local_addr().unwrap())).unwrap();
    let refused = Refused {
        reason: RefusalReason::DENIED,
        text: RefusalText::truncated("not let in"),
    };
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // All of the login, so that closing sends no reset.
        std::io::Read::read_exact(&mut stream, &mut [0; 24 + 80]).unwrap();
        let mut bytes = Vec::new();
        PacketWriter::control(&mut bytes, 0, &Control::Refused(refused));
        std::io::Write::write_all(&mut stream, &bytes).unwrap();
    });
    let mut seen = Seen::default();
    turn_until(&mut client, &mut seen, |_| server.is_finished());
    let ended = Change::Ended(Side::A, Ending::Refused(refused));
    let end = Instant::now() + Duration::from_secs(30);
    while client.next_change() != Some(ended.clone()) {
        assert!(Instant::now() < end, "the refusal is told");
        client.turn(&mut seen);
    }
    let Change::Ended(_, ending) = ended else {
        unreachable!("it has ended");
    };
    assert_eq!(
        ending.to_string(),
        "the server refused: not let in (reason 10)"
    );
}

fn free_line() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

/// Returns a stream in datagrams on these lines, each of which loses a twentieth.
fn over_lines(lines: [Option<SocketAddr>; 2]) {
    const MESSAGES: u64 = 50_000;
    let server = Server::start(journal(1 << 17));
    let mut client = FeedClient::new(FeedClientConfig {
        lines,
        ..FeedClientConfig::of(server.address)
    })
    .unwrap();
    client.subscribe("*").unwrap();
    let mut seen = Seen::default();
    turn_until(&mut client, &mut seen, |seen| seen.snapshots == 1);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = "loss=5%,duplicate=1%,reorder=1%".parse().unwrap();
    let mut faults = [1, 2].map(|seed| FaultInjector::new(plan, seed));
    let mut broadcast = Broadcast::new(1, 0);
    let (started, mut published, mut packets) = (Instant::now(), 0_u64, Vec::new());
    turn_until(&mut client, &mut seen, |seen| {
        let mut journal = server.journal.lock().unwrap();
        for _ in 0..(MESSAGES - published).min(100) {
            published += 1;
            journal.append(&message(published));
        }
        let now_ns = started.elapsed().as_nanos() as u64;
        broadcast.produce(&journal, now_ns, &mut packets, usize::MAX);
        drop(journal);
        for packet in Broadcast::datagrams(&packets) {
            assert!(packet.len() <= 1_472);
            for (line, faults) in lines.iter().flatten().zip(&mut faults) {
                faults.datagram(packet, |bytes| _ = socket.send_to(bytes, line));
            }
        }
        packets.clear();
        seen.next == MESSAGES + 1
    });
    assert_eq!(seen.lost, 0);
    let counters = *client.client().counters();
    assert!(
        counters.recovered > 0 && counters.snapshots == 1,
        "{counters:?}"
    );
    for side in Side::ALL.iter().take(lines.iter().flatten().count()) {
        assert!(client.client().side_counters(*side).lost > 0, "{side:?}");
    }
}

#[test]
fn one_line_of_datagrams_that_loses_a_twentieth_is_made_whole_over_tcp() {
    over_lines([Some(free_line()), None]);
}

#[test]
fn two_lines_of_datagrams_that_each_lose_a_twentieth_lose_nothing() {
    over_lines([Some(free_line()), Some(free_line())]);
}
