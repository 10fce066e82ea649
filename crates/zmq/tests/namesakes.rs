//! Two living peers of a ROUTER with one routing id.

mod support;

use std::time::{Duration, Instant};

use support::{last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Socket, SocketType};

const ROUTING_ID: i32 = 5;
const RECONNECT_IVL: i32 = 18;
const ROUTER_HANDOVER: i32 = 56;
const EVENT_ACCEPTED: u16 = 0x20;
const EVENT_HANDSHAKE_SUCCEEDED: u16 = 0x1000;

const ENDPOINTS: [&str; 4] = [
    "tcp://127.0.0.1:*",
    "ipc://*",
    "shm://*",
    "ws://127.0.0.1:*",
];

/// A ROUTER with its monitor, which counts the events of one kind.
struct Watched {
    router: Socket,
    monitor: Socket,
}

impl Watched {
    fn new(context: &Context, endpoint: &str, takes_over: bool) -> Watched {
        let router = socket(context, SocketType::Router);
        set_int(&router, ROUTER_HANDOVER, i32::from(takes_over));
        router.bind(endpoint).unwrap();
        let name = "inproc://namesakes";
        let events = u64::from(EVENT_ACCEPTED | EVENT_HANDSHAKE_SUCCEEDED);
        router
            .monitor(Some(name), events, 1, SocketType::Pair)
            .unwrap();
        let monitor = socket(context, SocketType::Pair);
        monitor.connect(name).unwrap();
        Watched { router, monitor }
    }

    fn next_event(&self) -> u16 {
        let frames = receive(&self.monitor);
        u16::from_ne_bytes([frames[0][0], frames[0][1]])
    }

    /// A peer with the name, whose handshake is done.
    fn peer(&self, context: &Context) -> Socket {
        let peer = socket(context, SocketType::Dealer);
        set(&peer, ROUTING_ID, b"name");
        set_int(&peer, RECONNECT_IVL, 1);
        peer.connect(&last_endpoint(&self.router)).unwrap();
        assert_eq!(self.next_event(), EVENT_ACCEPTED);
        self.wait_until(|| self.monitor.events().unwrap().readable);
        assert_eq!(self.next_event(), EVENT_HANDSHAKE_SUCCEEDED);
        peer
    }

    fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(10), "it comes about");
            let _ = self.router.events();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has messages pass for longer than a peer takes to come back. No further one came.
    fn is_quiet(&self, talking: &Socket) {
        for round in 0..200_u32 {
            let number = round.to_ne_bytes();
            send(&self.router, &[b"name", &number]);
            assert_eq!(receive(talking), [number]);
            send(talking, &[&number]);
            assert_eq!(receive(&self.router), [&b"name"[..], &number]);
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(!self.monitor.events().unwrap().readable, "no peer came");
    }
}

#[test]
fn two_living_peers_with_one_name_took_it_from_each_other_without_end() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let watched = Watched::new(&context, endpoint, true);
        let old = watched.peer(&context);
        send(&old, &[b"first"]);
        assert_eq!(receive(&watched.router), [&b"name"[..], b"first"]);
        let new = watched.peer(&context);
        // The old one is not heard.
        send(&old, &[b"unheard"]);
        watched.is_quiet(&new);
        // When the new one goes, the old one comes back.
        drop(new);
        watched.wait_until(|| watched.monitor.events().unwrap().readable);
        assert_eq!(watched.next_event(), EVENT_ACCEPTED);
        assert_eq!(watched.next_event(), EVENT_HANDSHAKE_SUCCEEDED);
        watched.is_quiet(&old);
    }
}

#[test]
fn a_peer_whose_name_was_taken_knocked_several_times_a_second() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let watched = Watched::new(&context, endpoint, false);
        let first = watched.peer(&context);
        let second = watched.peer(&context);
        send(&second, &[b"unheard"]);
        watched.is_quiet(&first);
        drop(first);
        watched.wait_until(|| watched.monitor.events().unwrap().readable);
        assert_eq!(watched.next_event(), EVENT_ACCEPTED);
        assert_eq!(watched.next_event(), EVENT_HANDSHAKE_SUCCEEDED);
        watched.is_quiet(&second);
    }
}

#[test]
fn a_peer_that_is_not_heard_goes_and_leaves_nothing_behind() {
    for endpoint in ENDPOINTS {
        for takes_over in [false, true] {
            let context = Context::new();
            let watched = Watched::new(&context, endpoint, takes_over);
            let first = watched.peer(&context);
            let second = watched.peer(&context);
            let (heard, unheard) = match takes_over {
                true => (second, first),
                false => (first, second),
            };
            send(&unheard, &[b"unheard"]);
            drop(unheard);
            watched.wait_until(|| watched.router.peers().unwrap().len() == 1);
            watched.is_quiet(&heard);
        }
    }
}

#[test]
fn a_socket_with_peers_that_are_not_heard_closes() {
    let context = Context::new();
    let watched = Watched::new(&context, ENDPOINTS[0], true);
    let peers = [(); 3].map(|()| watched.peer(&context));
    let Watched { router, monitor } = watched;
    set_int(&router, support::LINGER, -1);
    drop((router, monitor, peers));
    context.terminate().unwrap();
}
