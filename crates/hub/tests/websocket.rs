//! The ZeroMQ ports over WebSocket and TCP, with our own sockets as clients.

use std::sync::Arc;

use tidewire_hub::{CurvePorts, Hub, HubConfig, HubLane, Mail, ZmqSecurity, port};
use tidewire_lane::{LaneConfig, Lanes, Listener};
use tidewire_redis::RedisConfig;
use tidewire_zmq::{Context, SendFlags, Socket, SocketType};
use tidewire_zmtp::curve::{Keypair, SecretKey, public_from_secret};

struct Running {
    lanes: Lanes<Mail>,
    /// The addresses of PUB, PULL and ROUTER.
    places: Vec<String>,
}

fn start(zmq_security: ZmqSecurity) -> Running {
    let config = HubConfig {
        redis: RedisConfig {
            lanes: 2,
            ..RedisConfig::default()
        },
        zmq_security,
        ..HubConfig::default()
    };
    let bind = |port| Listener::bind(&"127.0.0.1:0".parse().unwrap(), port).unwrap();
    let ports = [port::ZMQ_PUBLISH, port::ZMQ_PULL, port::ZMQ_ROUTER];
    let listeners: Vec<_> = ports.into_iter().map(bind).collect();
    let place = |listener: &Listener| listener.endpoint().tcp().unwrap().to_string();
    let places = listeners.iter().map(place).collect();
    let mailboxes = Lanes::mailboxes(config.redis.lanes).unwrap();
    let hub: Arc<Hub> = Hub::new(config, mailboxes.clone());
    let lanes = Lanes::start(
        &LaneConfig::default(),
        mailboxes,
        listeners,
        hub.server.lanes.clone(),
        |lane| HubLane::new(hub.clone(), lane, None),
    )
    .unwrap();
    Running { lanes, places }
}

fn keys(seed: u8) -> Keypair {
    let secret = SecretKey::new([seed; 32]);
    Keypair {
        public: public_from_secret(&secret),
        secret,
    }
}

/// The sockets of one test.
struct Clients<'a> {
    context: &'a Context,
    places: &'a [String],
    /// The public key of the ports, if they use CURVE.
    server: Option<[u8; 32]>,
}

impl Clients<'_> {
    fn open(&self, transport: &str, kind: SocketType) -> Socket {
        let socket = self.context.socket(kind).unwrap();
        let set = |option, value: &[u8]| socket.set_option(option, value).unwrap();
        set(RCVTIMEO, &PATIENCE_MS.to_ne_bytes());
        set(LINGER, &0_i32.to_ne_bytes());
        if let Some(server) = self.server {
            let own = keys(7);
            set(CURVE_SERVERKEY, &server);
            set(CURVE_PUBLICKEY, &own.public);
            set(CURVE_SECRETKEY, own.secret.as_bytes());
        }
        let place = match kind {
            SocketType::Sub => &self.places[0],
            SocketType::Push => &self.places[1],
            _ => &self.places[2],
        };
        socket.connect(&format!("{transport}://{place}")).unwrap();
        if kind == SocketType::Sub {
            set(SUBSCRIBE, b"live:");
        }
        socket
    }
}

fn send(socket: &Socket, frames: &[&[u8]]) {
    for (at, frame) in frames.iter().enumerate() {
        let flags = SendFlags {
            dont_wait: false,
            more: at + 1 < frames.len(),
        };
        socket.send_bytes(frame, flags).unwrap();
    }
}

fn receive(socket: &Socket) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let frame = socket.receive(false).unwrap();
        frames.push(frame.as_slice().to_vec());
        if !frame.more() {
            return frames;
        }
    }
}

fn a_value_travels(security: ZmqSecurity, server: Option<[u8; 32]>) {
    let running = start(security);
    let context = Context::new();
    let clients = Clients {
        context: &context,
        places: &running.places,
        server,
    };
    let push = clients.open("ws", SocketType::Push);
    let ask = clients.open("ws", SocketType::Req);
    let transports = ["ws", "tcp", "ws"];
    let subs = transports.map(|transport| clients.open(transport, SocketType::Sub));
    for length in [0, 1, 107, 124, 125, 255, 256, 65_533, 70_000, 1_000_000] {
        let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
        send(&push, &[b"live:a", &body]);
        for (sub, transport) in subs.iter().zip(transports) {
            let received = receive(sub);
            assert_eq!(received, [&b"live:a"[..], &body], "{length} by {transport}");
        }
        send(&ask, &[b"GET", b"live:a"]);
        assert_eq!(receive(&ask), [&b"OK"[..], &body], "{length}");
    }
    for number in 0..2_000_u32 {
        send(&push, &[b"live:many", &number.to_be_bytes()]);
    }
    for sub in &subs {
        while receive(sub) != [&b"live:many"[..], &1_999_u32.to_be_bytes()] {}
    }
    drop(subs);
    running.lanes.stop();
}

#[test]
fn a_value_is_pushed_and_heard_and_asked_for_by_websocket() {
    a_value_travels(ZmqSecurity::Null, None);
}

#[test]
fn a_value_is_pushed_and_heard_and_asked_for_by_websocket_with_curve() {
    let own = keys(1);
    let ports = CurvePorts {
        secret_key: own.secret.clone(),
        clients: None,
    };
    a_value_travels(ZmqSecurity::Curve(ports), Some(own.public));
}

const RCVTIMEO: i32 = 27;
const LINGER: i32 = 17;
const SUBSCRIBE: i32 = 6;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;
const PATIENCE_MS: i32 = 30_000;
