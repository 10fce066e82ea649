//! Deliveries over real sockets: the output of one peer goes to all others.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tidewire_lane::{
    Application, CloseReason, ConnectionId, Context, LaneConfig, LaneCounters, Lanes, Listener,
    Peer,
};

/// Sends each line to all other peers and returns their number to the sender. A peer that
/// receives "leave" is disconnected.
#[derive(Debug, Default)]
struct Crowd {
    open: BTreeSet<ConnectionId>,
}

impl Application for Crowd {
    type Mail = ();

    fn accepted(&mut self, _: &mut Context, id: ConnectionId, _: u16, _: &Peer) {
        self.open.insert(id);
    }

    fn connected(&mut self, _: &mut Context, _: ConnectionId, _: u16) {}

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        let mut consumed = 0;
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            consumed += line.len();
            let mut heard = 0;
            for &other in self.open.iter().filter(|&&other| other != id) {
                if let Some(out) = context.out(other) {
                    out.buffer().extend_from_slice(line);
                    heard += 1;
                }
                if line == b"leave\n" {
                    context.close(other, CloseReason::Requested);
                }
            }
            let Some(out) = context.out(id) else { break };
            writeln!(out.buffer(), "{heard}").unwrap();
        }
        consumed
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, _: &mut Context, id: ConnectionId, _: CloseReason) {
        self.open.remove(&id);
    }

    fn mail(&mut self, _: &mut Context, (): ()) {}

    fn turn(&mut self, _: &mut Context) -> Option<u64> {
        None
    }
}

struct Server {
    lanes: Lanes<()>,
    address: SocketAddr,
}

fn start(io_uring: bool) -> Server {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let config = LaneConfig {
        io_uring,
        ..LaneConfig::default()
    };
    let mailboxes = Lanes::mailboxes(1).unwrap();
    let all = vec![Arc::new(LaneCounters::default())];
    let lanes = Lanes::start(&config, mailboxes, vec![listener], all, |_| {
        Crowd::default()
    })
    .unwrap();
    Server { lanes, address }
}

/// Returns a new peer of the crowd.
fn join(server: &Server) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"here\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer).unwrap();
    reader
}

fn says(peer: &mut BufReader<TcpStream>, line: &str) {
    let line = format!("{line}\n");
    peer.get_mut().write_all(line.as_bytes()).unwrap();
}

/// Returns the lines a peer receives, up to and including `last`.
fn hears(peer: &mut BufReader<TcpStream>, last: &str) -> Vec<String> {
    let lines = peer.by_ref().lines().map(Result::unwrap);
    let mut heard: Vec<_> = lines.take_while(|line| line != last).collect();
    heard.push(last.to_owned());
    heard
}

#[test]
fn everybody_hears_everything_in_order_whatever_shares_a_send() {
    for io_uring in [false, true] {
        let server = start(io_uring);
        let mut listeners: Vec<_> = (0..300).map(|_| join(&server)).collect();
        let mut speaker = join(&server);
        let long = "x".repeat(5000);
        // Sent without waiting for the receivers, so that deliveries of several turns overlap.
        let said: Vec<_> = (0..400)
            .map(|number| match number % 50 {
                49 => format!("{number} {long}"),
                _ => format!("{number}"),
            })
            .collect();
        for line in &said {
            says(&mut speaker, line);
            let mut answer = String::new();
            speaker.read_line(&mut answer).unwrap();
            assert_eq!(answer, "300\n");
        }
        let last = said.last().unwrap();
        for listener in &mut listeners {
            let mut heard = hears(listener, last);
            heard.retain(|line| line != "here");
            assert!(heard == said);
        }
        server.lanes.stop();
    }
}

#[test]
fn whoever_is_shown_out_hears_why() {
    let server = start(true);
    let mut listeners: Vec<_> = (0..100).map(|_| join(&server)).collect();
    let mut speaker = join(&server);
    speaker.get_mut().write_all(b"leave\n").unwrap();
    for listener in &mut listeners {
        let mut heard = String::new();
        listener.read_to_string(&mut heard).unwrap();
        assert!(heard.ends_with("here\nleave\n"), "{heard:?}");
    }
    server.lanes.stop();
}

#[test]
fn a_listener_that_does_not_read_holds_nobody_up() {
    let server = start(true);
    let _deaf = join(&server);
    let mut listeners: Vec<_> = (0..20).map(|_| join(&server)).collect();
    let mut speaker = join(&server);
    let line = "y".repeat(60_000);
    for _ in 0..200 {
        says(&mut speaker, &line);
        for listener in &mut listeners {
            hears(listener, &line);
        }
        hears(&mut speaker, "21");
    }
    server.lanes.stop();
}
