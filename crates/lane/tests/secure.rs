//! TLS on a lane, with real sockets: an application that echoes lines and does not know of it.

#[path = "../../tls/tests/support/certificates.rs"]
mod certificates;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use certificates::{Made, Named};
use tidewire_lane::{
    Application, CloseReason, ConnectionId, Context, LaneConfig, LaneCounters, Lanes, Listener,
    Peer, TlsAcceptor,
};
use tidewire_tls::{Client, Server, ServerSettings, Session};

/// Echoes whole lines. Takes no more input from a peer with 256 KiB of unread output.
#[derive(Debug, Default)]
struct Echo(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    accepted: AtomicU64,
    closed: AtomicU64,
    out_bytes_max: AtomicU64,
}

impl Application for Echo {
    type Mail = ();

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, _: u16, _: &Peer) {
        assert!(context.is_secure(id));
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let mut consumed = 0;
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            let is_whole = line.ends_with(b"\n");
            if line == b"quit\n" {
                context.close_after_flush(id, CloseReason::Requested);
            } else if is_whole && context.out_bytes(id) > 256 * 1024 {
                context.pause_reading_ahead(id, 64 * 1024);
                return consumed;
            } else if is_whole && let Some(out) = context.out(id) {
                out.buffer().extend_from_slice(line);
                let seen = &self.0.out_bytes_max;
                seen.fetch_max(context.out_bytes(id) as u64, Ordering::Relaxed);
            } else {
                return consumed;
            }
            consumed += line.len();
        }
        consumed
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, _: &mut Context, _: ConnectionId, _: CloseReason) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }

    fn mail(&mut self, _: &mut Context, (): ()) {}

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}

struct Running {
    address: SocketAddr,
    client: Client,
    seen: Arc<Seen>,
    counters: Arc<LaneCounters>,
    lanes: Lanes<()>,
}

fn start() -> Running {
    let made = Made::self_signed(&Named::new("localhost"));
    let acceptor = TlsAcceptor::default();
    acceptor.replace(Some(
        Server::with(&ServerSettings {
            certificates_pem: made.pem.as_bytes(),
            key_pem: made.key_pem.as_bytes(),
            sessions_for: Some(Duration::from_secs(300)),
            ..ServerSettings::default()
        })
        .unwrap(),
    ));
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let (seen, counters) = (Arc::new(Seen::default()), Arc::new(LaneCounters::default()));
    let mailboxes = Lanes::mailboxes(1).unwrap();
    let listeners = vec![listener.with_tls(acceptor)];
    let lanes = Lanes::start(
        &LaneConfig::default(),
        mailboxes,
        listeners,
        vec![counters.clone()],
        |_| Echo(seen.clone()),
    );
    Running {
        address,
        client: made.client(),
        seen,
        counters,
        lanes: lanes.unwrap(),
    }
}

struct Peering {
    socket: TcpStream,
    session: Session,
}

impl Running {
    fn dial(&self) -> Peering {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        let session = Session::client(&self.client, "localhost").unwrap();
        Peering { socket, session }
    }

    fn connect(&self) -> Peering {
        let mut peering = self.dial();
        while !peering.session.is_open() {
            peering.send();
            assert!(peering.receive(&mut Vec::new()));
        }
        peering.send();
        peering
    }
}

impl Peering {
    fn send(&mut self) {
        let outgoing = std::mem::take(self.session.outgoing());
        self.socket.write_all(&outgoing).unwrap();
    }

    /// Returns false at the end of the connection.
    fn receive(&mut self, text: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 65_536];
        let count = match self.socket.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            read => read.unwrap(),
        };
        self.session.receive(&buffer[..count], text).unwrap();
        count > 0
    }

    fn say(&mut self, text: &[u8]) {
        self.session.send(text).unwrap();
        self.send();
    }

    fn hear(&mut self, bytes: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < bytes {
            assert!(self.receive(&mut text), "it ended early");
        }
        text
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        std::thread::yield_now();
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not happen: {what}");
}

#[test]
fn lines_of_any_length_come_back() {
    let running = start();
    let mut peering = running.connect();
    for bytes in [1, 100, 16_383, 16_384, 16_385, 65_536, 3_000_000] {
        let mut line = vec![b'x'; bytes];
        line.push(b'\n');
        let (mut reads, mut writes) = (peering.socket.try_clone().unwrap(), line.clone());
        peering.session.send(&writes).unwrap();
        writes = std::mem::take(peering.session.outgoing());
        let writer = std::thread::spawn(move || reads.write_all(&writes).unwrap());
        assert_eq!(peering.hear(line.len()), line);
        writer.join().unwrap();
    }
    peering.say(b"quit\n");
    assert!(!peering.session.is_ended());
    while peering.receive(&mut Vec::new()) {}
    assert!(peering.session.is_ended(), "the end was said");
    running.lanes.stop();
}

#[test]
fn a_peer_that_does_not_read_holds_little_memory_and_gets_everything_then() {
    let running = start();
    let mut peering = running.connect();
    let line = [&[b'y'; 999][..], b"\n"].concat();
    let count = 20_000;
    let mut socket = peering.socket.try_clone().unwrap();
    peering.session.send(&line.repeat(count)).unwrap();
    let ciphertext = std::mem::take(peering.session.outgoing());
    let writer = std::thread::spawn(move || socket.write_all(&ciphertext).unwrap());
    let seen = &running.seen.out_bytes_max;
    wait_until("a pause", || seen.load(Ordering::Relaxed) > 256 << 10);
    let mut other = running.connect();
    other.say(b"hello\n");
    assert_eq!(other.hear(6), b"hello\n");
    assert_eq!(peering.hear(count * line.len()).len(), count * line.len());
    writer.join().unwrap();
    assert!(seen.load(Ordering::Relaxed) < 600 << 10);
    running.lanes.stop();
}

#[test]
fn an_end_is_answered_after_the_last_lines_and_a_cut_is_an_end_too() {
    let running = start();
    let mut ends = running.connect();
    ends.session.send(b"one\ntwo\n").unwrap();
    ends.session.close();
    ends.send();
    // A closed session takes nothing more; what comes is seen on the socket.
    let mut ciphertext = Vec::new();
    ends.socket.read_to_end(&mut ciphertext).unwrap();
    assert!(ciphertext.len() > 8 + 2 * 22, "two lines and an end");
    let mut cut = running.connect();
    cut.session.send(b"three\n").unwrap();
    let record = std::mem::take(cut.session.outgoing());
    cut.socket.write_all(&record[..record.len() - 1]).unwrap();
    cut.socket.shutdown(Shutdown::Write).unwrap();
    let mut text = Vec::new();
    while cut.receive(&mut text) {}
    assert_eq!(text, b"", "no part of a record counts");
    let closed = &running.seen.closed;
    wait_until("both ends", || closed.load(Ordering::Relaxed) == 2);
    running.lanes.stop();
}

#[test]
fn the_application_hears_only_of_handshakes_that_are_done() {
    let running = start();
    let mut begun: Vec<_> = (0..100).map(|_| running.dial()).collect();
    for (number, peering) in begun.iter_mut().enumerate() {
        let hello = std::mem::take(peering.session.outgoing());
        let part = &hello[..[0, 1, hello.len()][number % 3]];
        peering.socket.write_all(part).unwrap();
    }
    let mut clear = TcpStream::connect(running.address).unwrap();
    clear.write_all(b"hello\n").unwrap();
    assert_eq!(clear.read(&mut [0; 100]).unwrap(), 0);
    let mut whole = running.connect();
    whole.say(b"hello\n");
    assert_eq!(whole.hear(6), b"hello\n");
    assert_eq!(running.seen.accepted.load(Ordering::Relaxed), 1);
    drop(begun);
    let connections = &running.counters.connections;
    wait_until("their ends", || connections.load(Ordering::Relaxed) == 1);
    assert_eq!(running.seen.closed.load(Ordering::Relaxed), 0);
    assert_eq!(running.counters.tls_handshakes.load(Ordering::Relaxed), 1);
    assert!(running.counters.tls_failed.load(Ordering::Relaxed) >= 100);
    running.lanes.stop();
    while whole.receive(&mut Vec::new()) {}
    assert!(whole.session.is_ended(), "the end of the lane was said");
}
