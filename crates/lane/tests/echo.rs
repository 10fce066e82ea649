//! A lane on real sockets: an application that echoes, and peers of different behaviour.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_lane::{
    Application, CloseReason, ConnectionId, Context, LaneConfig, LaneCounters, Lanes, Listener,
    Peer,
};

/// Echoes whole lines. Holds or pauses a peer on request until there is mail. Takes no more input
/// from a peer with 256 KiB of unread output.
#[derive(Debug, Default)]
struct Echo {
    open: HashMap<ConnectionId, u16>,
    closed: Arc<AtomicU64>,
    peak_out_bytes: Arc<AtomicU64>,
}

impl Application for Echo {
    type Mail = Vec<u8>;

    fn accepted(&mut self, _: &mut Context, id: ConnectionId, port: u16, _: &Peer) {
        self.open.insert(id, port);
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let mut consumed = 0;
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            if line == b"quit\n" {
                context.close_after_flush(id, CloseReason::Requested);
                return input.len();
            }
            if line == b"hold\n" {
                context.hold(id);
                return consumed + line.len();
            }
            if line == b"pause\n" {
                context.pause(id);
                return consumed + line.len();
            }
            if context.out_bytes(id) > 256 * 1024 {
                context.pause(id);
                break;
            }
            let Some(out) = context.out(id) else { break };
            out.buffer().extend_from_slice(line);
            self.peak_out_bytes
                .fetch_max(out.len() as u64, Ordering::Relaxed);
            consumed += line.len();
        }
        consumed
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, _: &mut Context, id: ConnectionId, _: CloseReason) {
        assert!(self.open.remove(&id).is_some());
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    fn mail(&mut self, context: &mut Context, mail: Vec<u8>) {
        for &id in self.open.keys() {
            if !mail.is_empty()
                && let Some(out) = context.out(id)
            {
                out.buffer().extend_from_slice(&mail);
            }
            context.release(id);
            context.resume(id);
        }
    }

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}

struct Server {
    lanes: Lanes<Vec<u8>>,
    address: SocketAddr,
    closed: Arc<AtomicU64>,
    peak_out_bytes: Arc<AtomicU64>,
}

fn start(count: usize) -> Server {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let mailboxes = Lanes::mailboxes(count).unwrap();
    let counters = (0..count)
        .map(|_| Arc::new(LaneCounters::default()))
        .collect();
    let closed = Arc::new(AtomicU64::new(0));
    let peak_out_bytes = Arc::new(AtomicU64::new(0));
    let make = |_| Echo {
        open: HashMap::new(),
        closed: closed.clone(),
        peak_out_bytes: peak_out_bytes.clone(),
    };
    let config = LaneConfig::default();
    let lanes = Lanes::start(&config, mailboxes, vec![listener], counters, make).unwrap();
    Server {
        lanes,
        address,
        closed,
        peak_out_bytes,
    }
}

fn echo(stream: &mut TcpStream, line: &[u8]) {
    stream.write_all(line).unwrap();
    let mut answer = vec![0; line.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == line);
}

#[test]
fn connections_are_dealt_to_all_lanes_and_each_is_answered() {
    let server = start(3);
    let mut streams: Vec<_> = (0..9)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    for (number, stream) in streams.iter_mut().enumerate() {
        echo(stream, format!("hello {number}\n").as_bytes());
    }
    for counters in server.lanes.counters() {
        assert_eq!(counters.connections.load(Ordering::Relaxed), 3);
    }
    server
        .lanes
        .mail()
        .iter()
        .for_each(|mailbox| mailbox.send(b"news\n".to_vec()));
    for stream in &mut streams {
        let mut news = [0; 5];
        stream.read_exact(&mut news).unwrap();
        assert_eq!(&news, b"news\n");
    }
    server.lanes.stop();
    assert_eq!(server.closed.load(Ordering::Relaxed), 9);
}

#[test]
fn a_line_that_arrives_byte_by_byte_and_a_line_of_megabytes_are_both_whole() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    for byte in b"slow\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"slow\n");
    let mut big = vec![b'b'; 5_000_000];
    big.push(b'\n');
    echo(&mut stream, &big);
    server.lanes.stop();
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from_and_gets_every_byte_in_the_end() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let lines = 64 * 1024;
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for _ in 0..lines {
            writer.write_all(&line).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // Another client is served meanwhile.
    echo(&mut TcpStream::connect(server.address).unwrap(), b"other\n");
    let mut received = 0;
    let mut chunk = vec![0; 1 << 20];
    while let count @ 1.. = stream.read(&mut chunk).unwrap() {
        received += count;
    }
    sender.join().unwrap();
    assert_eq!(received, lines * 1024);
    assert!(server.peak_out_bytes.load(Ordering::Relaxed) < 512 * 1024);
    server.lanes.stop();
}

#[test]
fn a_requested_close_sends_what_was_written_first() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"last words\nquit\nnever seen\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"last words\n");
    server.lanes.stop();
}

/// A peer with a small receive window that went on sending, as one with heartbeats does, lost the
/// last output, and the reason of the close with it.
#[test]
fn a_peer_that_sends_after_the_close_gets_the_last_words() {
    let server = start(1);
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    rustix::net::connect(&socket, &server.address).unwrap();
    let mut stream = TcpStream::from(socket);
    let mut line = vec![b'x'; 200_000];
    line.push(b'\n');
    stream.write_all(&line).unwrap();
    stream.write_all(b"quit\n").unwrap();
    while server.closed.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    stream.write_all(b"still here\n").unwrap();
    let mut answer = vec![0; 100_000];
    stream.read_exact(&mut answer).unwrap();
    stream.write_all(b"still here\n").unwrap();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer == line, "{} bytes", answer.len());
    server.lanes.stop();
}

#[test]
fn a_peer_that_is_held_gets_its_answers_when_it_is_released() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"one\nhold\ntwo\n").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    stream.write_all(b"three\n").unwrap();
    echo(&mut TcpStream::connect(server.address).unwrap(), b"other\n");
    server.lanes.mail()[0].send(b"news\n".to_vec());
    let mut answers = [0; 15];
    stream.read_exact(&mut answers).unwrap();
    assert_eq!(&answers, b"news\ntwo\nthree\n");
    server.lanes.stop();
}

#[test]
fn a_paused_peer_without_output_gets_its_answers_when_it_is_resumed() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    echo(&mut stream, b"one\n");
    stream.write_all(b"pause\ntwo\n").unwrap();
    stream.write_all(b"three\n").unwrap();
    echo(&mut TcpStream::connect(server.address).unwrap(), b"other\n");
    // Without output nothing drains: only this lets it go on.
    server.lanes.mail()[0].send(Vec::new());
    let mut answers = [0; 10];
    stream.read_exact(&mut answers).unwrap();
    assert_eq!(&answers, b"two\nthree\n");
    server.lanes.stop();
}

#[test]
fn a_peer_that_leaves_while_it_is_held_is_gone() {
    let server = start(1);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"one\nhold\n").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    drop(stream);
    while server.closed.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    server.lanes.stop();
}

#[test]
fn a_peer_that_says_goodbye_and_does_not_read_leaves_the_lane_asleep() {
    let server = start(1);
    let mut deaf = TcpStream::connect(server.address).unwrap();
    echo(&mut deaf, b"hello\n");
    server.lanes.mail()[0].send(vec![b'x'; 32 << 20]);
    let mut other = TcpStream::connect(server.address).unwrap();
    echo(&mut other, b"begin\n");
    // Its outbox is blocked now; the next event wakes the lane once.
    deaf.shutdown(Shutdown::Write).unwrap();
    let turns = || server.lanes.counters()[0].turns.load(Ordering::Relaxed);
    let before = turns();
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        echo(&mut other, b"again\n");
    }
    assert!(turns() - before < 200, "{} turns", turns() - before);
    drop(deaf);
    server.lanes.stop();
}

/// Notifies all other peers when a peer leaves.
#[derive(Debug, Default)]
struct Farewell(Vec<ConnectionId>);

impl Application for Farewell {
    type Mail = ();

    fn accepted(&mut self, context: &mut Context, id: ConnectionId, _: u16, _: &Peer) {
        self.0.push(id);
        if let Some(out) = context.out(id) {
            out.buffer().extend_from_slice(b"welcome");
        }
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, _: &mut Context, _: ConnectionId, input: &[u8]) -> usize {
        input.len()
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, context: &mut Context, id: ConnectionId, _: CloseReason) {
        self.0.retain(|&other| other != id);
        for &other in &self.0 {
            if let Some(out) = context.out(other) {
                out.buffer().extend_from_slice(b"goodbye");
            }
        }
    }

    fn mail(&mut self, _: &mut Context, (): ()) {}

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}

#[test]
fn what_is_written_when_a_connection_ends_is_sent_at_once() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let lanes = Lanes::start(
        &LaneConfig::default(),
        Lanes::mailboxes(1).unwrap(),
        vec![listener],
        vec![Arc::default()],
        |_| Farewell::default(),
    )
    .unwrap();
    let mut word = [0; 7];
    let mut stays = TcpStream::connect(address).unwrap();
    stays.read_exact(&mut word).unwrap();
    let mut leaves = TcpStream::connect(address).unwrap();
    leaves.read_exact(&mut word).unwrap();
    drop(leaves);
    let patience = std::time::Duration::from_secs(10);
    stays.set_read_timeout(Some(patience)).unwrap();
    stays.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"goodbye");
    lanes.stop();
}
