//! Outgoing TLS connections of a lane: the application knows only of those whose server is
//! accepted, and why another one is not.

#[path = "../../tls/tests/support/certificates.rs"]
mod certificates;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use certificates::{Made, Named};
use tidewire_lane::{
    Application, CloseReason, ConnectionId, Context, LaneConfig, LaneCounters, Lanes, Listener,
    Peer, TlsAcceptor,
};
use tidewire_tls::{Client, Clients, Server, ServerSettings};

/// Connects to itself, sends a line, and tells what came of it.
struct Caller {
    calls: Vec<(SocketAddr, Client, &'static str)>,
    ids: Vec<ConnectionId>,
    news: Sender<String>,
}

impl Application for Caller {
    type Mail = ();

    fn accepted(&mut self, _: &mut Context, _: ConnectionId, _: u16, _: &Peer) {}

    fn connected(&mut self, context: &mut Context, id: ConnectionId, _: u16) {
        assert!(context.is_secure(id) && self.ids.contains(&id));
        let _ = self.news.send("connected".to_owned());
        if let Some(out) = context.out(id) {
            out.buffer().extend_from_slice(b"hello");
        }
    }

    fn received(&mut self, context: &mut Context, id: ConnectionId, input: &[u8]) -> usize {
        if self.ids.contains(&id) {
            let _ = self.news.send(String::from_utf8_lossy(input).into_owned());
            context.close(id, CloseReason::Requested);
        } else if let Some(out) = context.out(id) {
            out.buffer().extend_from_slice(input);
        }
        input.len()
    }

    fn drained(&mut self, _: &mut Context, _: ConnectionId) {}

    fn closed(&mut self, context: &mut Context, id: ConnectionId, reason: CloseReason) {
        if self.ids.contains(&id) {
            let reason = context
                .failure()
                .map_or_else(|| reason.text(), str::to_owned);
            let _ = self.news.send(reason);
        }
    }

    fn mail(&mut self, _: &mut Context, (): ()) {}

    fn turn(&mut self, context: &mut Context) -> Option<u64> {
        for (address, client, host) in self.calls.drain(..) {
            let id = context.connect_secure(address, 9, &client, host).unwrap();
            self.ids.push(id);
        }
        None
    }
}

fn call(clients: Clients, host: &'static str, count: usize) -> Vec<String> {
    let made = Made::self_signed(&Named::new("localhost"));
    let stranger = Made::issued(&Named::new("stranger"));
    let acceptor = TlsAcceptor::default();
    let server = Server::with(&ServerSettings {
        certificates_pem: made.pem.as_bytes(),
        key_pem: made.key_pem.as_bytes(),
        clients,
        authorities_pem: stranger.root_pem.as_bytes(),
        ..ServerSettings::default()
    });
    acceptor.replace(Some(server.unwrap()));
    let client = made.client();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let (news, told): (Sender<String>, Receiver<String>) = channel();
    let caller = Caller {
        calls: vec![(address, client, host); count],
        ids: Vec::new(),
        news,
    };
    let caller = Arc::new(Mutex::new(Some(caller)));
    let lanes = Lanes::start(
        &LaneConfig::default(),
        Lanes::mailboxes(1).unwrap(),
        vec![listener.with_tls(acceptor)],
        vec![Arc::new(LaneCounters::default())],
        |_| caller.lock().unwrap().take().unwrap(),
    );
    let lanes = lanes.unwrap();
    let mut seen = Vec::new();
    let is_end = |text: &String| text != "connected" && text != "hello";
    while seen.iter().filter(|text| is_end(text)).count() < count {
        seen.push(told.recv_timeout(Duration::from_secs(60)).unwrap());
    }
    lanes.stop();
    seen
}

#[test]
fn a_server_that_is_accepted_is_known_once_its_handshake_is_done() {
    let seen = call(Clients::Unasked, "localhost", 1);
    assert_eq!(seen, ["connected", "hello", "closed on request"]);
    let many = call(Clients::Unasked, "localhost", 200);
    assert_eq!(many.iter().filter(|text| *text == "hello").count(), 200);
}

#[test]
fn a_server_of_another_name_is_never_known_and_the_reason_is() {
    let seen = call(Clients::Unasked, "other.example", 1);
    let reason = "TLS: the peer's certificate is refused: it is for another host; its name is \
                  localhost";
    assert_eq!(seen, [reason]);
}

#[test]
fn a_server_that_wants_a_certificate_says_so_after_the_handshake() {
    let seen = call(Clients::Required, "localhost", 1);
    let last = seen.last().unwrap();
    assert!(
        last.contains("it wants our certificate, and got none"),
        "{seen:?}"
    );
}
