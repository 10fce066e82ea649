//! A peer does not say who it is: `User-Id` and `Peer-Address` in its metadata change nothing, by
//! any mechanism, over any transport, whichever side connects.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use support::{last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Message, Socket, SocketType};
use tidewire_zmtp::curve::Keypair;
use tidewire_zmtp::websocket::WebSocket;
use tidewire_zmtp::{Config, Connection, Event, Security};

const ZAP_DOMAIN: i32 = 55;
const PLAIN_SERVER: i32 = 44;
const PLAIN_USERNAME: i32 = 45;
const PLAIN_PASSWORD: i32 = 46;
const CURVE_SERVER: i32 = 47;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;

const FORGED: [(&str, &str); 8] = [
    ("User-Id", "admin"),
    ("User-Id", "root"),
    ("user-id", "admin"),
    ("USER-ID", "admin"),
    ("Peer-Address", "6.6.6.6"),
    ("peer-address", "6.6.6.6"),
    ("PEER-ADDRESS", "6.6.6.6"),
    ("X-Rank", "corporal"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Null,
    Plain,
    Curve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Ipc,
    Web,
}

const MECHANISMS: [Mechanism; 3] = [Mechanism::Null, Mechanism::Plain, Mechanism::Curve];
const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Ipc, Transport::Web];

/// The keys of both sides.
struct Keys {
    server: Keypair,
    client: Keypair,
}

impl Keys {
    fn new() -> Keys {
        let [server, client] = [(); 2].map(|()| Keypair::generate().unwrap());
        Keys { server, client }
    }
}

/// A connection on which a PUSH claims to be someone else.
trait Stream: Read + Write + Send + 'static {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Says what is forged, sends one message, and waits for the end of the connection.
fn forge(mut stream: impl Stream, config: Config, mut web: Option<WebSocket>) {
    let mut connection = Connection::new(config, 0);
    let (mut received, mut input) = (Vec::new(), Vec::new());
    let mut has_sent = false;
    loop {
        let mut outgoing = std::mem::take(connection.outgoing());
        if let Some(web) = &mut web {
            web.send(&outgoing).unwrap();
            outgoing = std::mem::take(web.outgoing());
        }
        stream.write_all(&outgoing).unwrap();
        if has_sent {
            // The other side takes what it wants and closes.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the handshake was ended");
        received.extend_from_slice(&bytes[..count]);
        match &mut web {
            None => input.append(&mut received),
            Some(web) => loop {
                match web.receive(&received, &mut input).unwrap() {
                    0 => break,
                    consumed => drop(received.drain(..consumed)),
                }
            },
        }
        has_sent = go_on(&mut connection, &mut input);
    }
}

/// Takes what has come. Whether the handshake is done, and a message is on its way.
fn go_on(connection: &mut Connection, input: &mut Vec<u8>) -> bool {
    loop {
        let step = connection.receive(input, 0).unwrap();
        let consumed = step.consumed;
        let is_asked = matches!(step.event, Some(Event::Authenticate(_)));
        let is_ready = step.event == Some(Event::Ready);
        let is_idle = consumed == 0 && step.event.is_none();
        input.drain(..consumed);
        if is_asked {
            connection.accept().unwrap();
        }
        if is_ready {
            let mut message = Vec::new();
            connection.encode_message_frame(&mut message, b"obey", false);
            connection.outgoing().append(&mut message);
            return true;
        }
        if is_idle {
            return false;
        }
    }
}

fn forged_config(mechanism: Mechanism, transport: Transport, is_server: bool) -> (Config, Keys) {
    let keys = Keys::new();
    let mut config = Config::new(tidewire_zmtp::SocketType::Push);
    config.properties = FORGED
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .into();
    config.websocket = transport == Transport::Web;
    config.security = match (mechanism, is_server) {
        (Mechanism::Null, _) => Security::Null,
        (Mechanism::Plain, true) => Security::PlainServer,
        (Mechanism::Plain, false) => Security::PlainClient {
            username: b"bob".to_vec(),
            password: b"secret".to_vec(),
        },
        (Mechanism::Curve, true) => Security::CurveServer {
            secret_key: keys.server.secret.clone(),
        },
        (Mechanism::Curve, false) => Security::CurveClient {
            keys: keys.client.clone(),
            server_key: keys.server.public,
        },
    };
    (config, keys)
}

/// Lets a peer in as `bob`, with a property of its own.
fn let_bob_in(context: &Context) -> JoinHandle<()> {
    let handler = socket(context, SocketType::Rep);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    std::thread::spawn(move || {
        let request = receive(&handler);
        let metadata = b"\x06X-Rank\0\0\0\x07general";
        let reply = [&b"1.0"[..], &request[1], b"200", b"OK", b"bob", metadata];
        send(&handler, &reply);
        // What is not sent when the socket is closed is lost.
        receive_end(&handler);
    })
}

/// Waits until the context ends.
fn receive_end(handler: &Socket) {
    // The context may have ended already.
    let _ = handler.set_option(support::RCVTIMEO, &(-1_i32).to_ne_bytes());
    assert!(handler.receive(false).is_err());
}

/// The address of a process over ipc: its user, its group and its number.
fn own_name() -> String {
    let own = std::fs::metadata("/proc/self").unwrap();
    let process = std::process::id();
    format!("localhost:{}:{}:{process}", own.uid(), own.gid())
}

fn check(message: &Message, transport: Transport, user: Option<&str>, what: &str) {
    let address = match transport {
        Transport::Ipc => own_name(),
        Transport::Tcp | Transport::Web => "127.0.0.1".to_owned(),
    };
    assert_eq!(message.as_slice(), b"obey", "{what}");
    assert_eq!(message.property("User-Id"), user, "{what}");
    assert_eq!(message.property("Peer-Address"), Some(&*address), "{what}");
    // Nor by another spelling, nor in C's form.
    for name in ["user-id", "USER-ID", "peer-address", "PEER-ADDRESS"] {
        assert_eq!(message.property(name), None, "{what}");
    }
    let told = message.property_text("User-Id");
    assert_eq!(told.map(|text| text.to_str().unwrap()), user, "{what}");
    // Where ZAP and the peer say something, it is ZAP that counts.
    let rank = if user.is_some() {
        "general"
    } else {
        "corporal"
    };
    assert_eq!(message.property("X-Rank"), Some(rank), "{what}");
    assert_eq!(message.property("Socket-Type"), Some("PUSH"), "{what}");
}

/// Our PULL listens, and the forger connects.
fn forged_by_a_client(mechanism: Mechanism, transport: Transport, has_zap: bool) {
    let what = format!("{mechanism:?} over {transport:?}, ZAP: {has_zap}");
    let context = Context::new();
    let handler = has_zap.then(|| let_bob_in(&context));
    let (config, keys) = forged_config(mechanism, transport, false);
    let pull = socket(&context, SocketType::Pull);
    match mechanism {
        Mechanism::Null if has_zap => set(&pull, ZAP_DOMAIN, b"domain"),
        Mechanism::Null => {}
        Mechanism::Plain => set_int(&pull, PLAIN_SERVER, 1),
        Mechanism::Curve => {
            set_int(&pull, CURVE_SERVER, 1);
            set(&pull, CURVE_SECRETKEY, keys.server.secret.as_bytes());
        }
    }
    let place = match transport {
        Transport::Tcp => "tcp://127.0.0.1:*",
        Transport::Ipc => "ipc://*",
        Transport::Web => "ws://127.0.0.1:*/path",
    };
    pull.bind(place).unwrap();
    let told = last_endpoint(&pull);
    let place = told.split_once("://").unwrap().1.to_owned();
    let forger = std::thread::spawn(move || match transport {
        Transport::Ipc => forge(UnixStream::connect(place).unwrap(), config, None),
        Transport::Tcp => forge(TcpStream::connect(place).unwrap(), config, None),
        Transport::Web => {
            let host = place.split('/').next().unwrap();
            let web = WebSocket::client(host, "/path", &config).unwrap();
            forge(TcpStream::connect(host).unwrap(), config, Some(web));
        }
    });
    let user = has_zap.then_some("bob");
    check(&pull.receive(false).unwrap(), transport, user, &what);
    pull.close().unwrap();
    forger.join().unwrap();
    context.shutdown();
    handler.map(JoinHandle::join).transpose().unwrap();
}

#[test]
fn a_client_is_who_zap_says_and_not_who_it_says() {
    for mechanism in MECHANISMS {
        for transport in TRANSPORTS {
            forged_by_a_client(mechanism, transport, true);
        }
    }
}

/// PLAIN needs a handler.
#[test]
fn without_zap_a_client_has_no_name() {
    for mechanism in [Mechanism::Null, Mechanism::Curve] {
        for transport in TRANSPORTS {
            forged_by_a_client(mechanism, transport, false);
        }
    }
}

/// Our PULL connects to the forger.
#[test]
fn a_server_has_no_name_and_the_address_that_it_has() {
    for mechanism in MECHANISMS {
        for transport in TRANSPORTS {
            let context = Context::new();
            let (config, keys) = forged_config(mechanism, transport, true);
            let pull = socket(&context, SocketType::Pull);
            match mechanism {
                Mechanism::Null => {}
                Mechanism::Plain => {
                    set(&pull, PLAIN_USERNAME, b"bob");
                    set(&pull, PLAIN_PASSWORD, b"secret");
                }
                Mechanism::Curve => {
                    set(&pull, CURVE_SERVERKEY, &keys.server.public);
                    set(&pull, CURVE_PUBLICKEY, &keys.client.public);
                    set(&pull, CURVE_SECRETKEY, keys.client.secret.as_bytes());
                }
            }
            let forger = serve(config, transport, &pull);
            let what = format!("{mechanism:?} over {transport:?}");
            check(&pull.receive(false).unwrap(), transport, None, &what);
            pull.close().unwrap();
            forger.join().unwrap();
        }
    }
}

/// Starts a forger that listens, and connects to it.
fn serve(config: Config, transport: Transport, pull: &Socket) -> JoinHandle<()> {
    if transport == Transport::Ipc {
        let name = format!("identity-{}-{:p}", std::process::id(), pull);
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        pull.connect(&format!("ipc://{}", path.display())).unwrap();
        return std::thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            std::fs::remove_file(path).unwrap();
            forge(stream, config, None);
        });
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let scheme = if transport == Transport::Web {
        "ws"
    } else {
        "tcp"
    };
    pull.connect(&format!("{scheme}://{place}")).unwrap();
    std::thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let web = (transport == Transport::Web).then(|| WebSocket::server(&config));
        forge(stream, config, web);
    })
}
