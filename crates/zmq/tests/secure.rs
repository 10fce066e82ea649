//! `wss://`: TLS under WebSocket, as a program would use it, and what is refused.

mod support;

use std::io::{Read, Write};
use std::sync::OnceLock;

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use support::{
    SUBSCRIBE, fill_to_the_mark, last_endpoint, raw_socket, receive, send, set, set_int, socket,
};
use tidewire_zmq::{Context, Error, Socket, SocketType};

const KEY: i32 = 103;
const CERTIFICATE: i32 = 104;
const TRUST: i32 = 105;
const HOSTNAME: i32 = 106;
const TRUST_SYSTEM: i32 = 107;
const HANDSHAKE_IVL: i32 = 66;
const RECONNECT_IVL: i32 = 18;
const HEARTBEAT_IVL: i32 = 75;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const ANY: &str = "wss://127.0.0.1:*";

const DISCONNECTED: u64 = 0x200;
const HANDSHAKE_FAILED_NO_DETAIL: u64 = 0x800;
const EPROTO: u64 = 71;
const EAGAIN: u64 = 11;
const EKEYREJECTED: u64 = 129;

/// A certificate that is its own issuer, and its key, in PEM.
struct Made {
    certificate: String,
    key: String,
}

impl Made {
    fn new(change: impl FnOnce(&mut CertificateParams)) -> Made {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Made {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// One with nothing wrong.
    fn known() -> &'static Made {
        static KNOWN: OnceLock<Made> = OnceLock::new();
        KNOWN.get_or_init(|| Made::new(|_| ()))
    }

    fn serve(&self, socket: &Socket) {
        set(socket, CERTIFICATE, self.certificate.as_bytes());
        set(socket, KEY, self.key.as_bytes());
    }

    fn trust(&self, socket: &Socket) {
        set(socket, TRUST, self.certificate.as_bytes());
    }
}

fn pair(context: &Context, bound: SocketType, connected: SocketType) -> [Socket; 2] {
    let sockets = [bound, connected].map(|kind| socket(context, kind));
    Made::known().serve(&sockets[0]);
    Made::known().trust(&sockets[1]);
    sockets[0].bind(ANY).unwrap();
    sockets[1].connect(&last_endpoint(&sockets[0])).unwrap();
    sockets
}

fn monitor(context: &Context, socket: &Socket) -> Socket {
    let name = format!("inproc://monitor-{:p}", std::ptr::from_ref(socket));
    let events = HANDSHAKE_FAILED_NO_DETAIL | DISCONNECTED;
    let of_pair = SocketType::Pair;
    socket.monitor(Some(&name), events, 2, of_pair).unwrap();
    let monitor = support::socket(context, of_pair);
    monitor.connect(&name).unwrap();
    monitor
}

/// The next event with its value.
fn event(monitor: &Socket) -> (u64, u64) {
    let frames = receive(monitor);
    let number = |at: usize| u64::from_ne_bytes(frames[at].as_slice().try_into().unwrap());
    (number(0), number(2))
}

/// Has a client with these options connect to a server with this certificate, and returns what the
/// two are told of it.
fn failures(made: &Made, options: impl FnOnce(&Socket)) -> [u64; 2] {
    let context = Context::new();
    let [server, client] = [SocketType::Pull, SocketType::Push].map(|kind| socket(&context, kind));
    made.serve(&server);
    set_int(&client, RECONNECT_IVL, -1);
    options(&client);
    let monitors = [&server, &client].map(|socket| monitor(&context, socket));
    server.bind(ANY).unwrap();
    client.connect(&last_endpoint(&server)).unwrap();
    monitors.map(|monitor| {
        let (kind, value) = event(&monitor);
        assert_eq!(kind, HANDSHAKE_FAILED_NO_DETAIL);
        assert_eq!(event(&monitor).0, DISCONNECTED);
        value
    })
}

#[test]
fn requests_are_answered_in_frames_of_any_length() {
    let context = Context::new();
    let [rep, req] = pair(&context, SocketType::Rep, SocketType::Req);
    for length in [0, 1, 125, 126, 16_000, 16_384, 65_536, 300_000, 3_000_000] {
        let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
        send(&req, &[b"head", &body]);
        assert_eq!(receive(&rep), [&b"head"[..], &body], "{length} bytes");
        send(&rep, &[&body, b""]);
        assert_eq!(receive(&req), [&body[..], b""], "{length} bytes");
    }
}

#[test]
fn endpoints_have_a_path_and_can_be_undone() {
    let context = Context::new();
    let rep = socket(&context, SocketType::Rep);
    Made::known().serve(&rep);
    rep.bind("wss://127.0.0.1:*/prices").unwrap();
    let endpoint = last_endpoint(&rep);
    assert!(endpoint.starts_with("wss://127.0.0.1:") && endpoint.ends_with("/prices"));
    let req = socket(&context, SocketType::Req);
    Made::known().trust(&req);
    req.connect(&endpoint).unwrap();
    assert_eq!(last_endpoint(&req), endpoint);
    send(&req, &[b"ask"]);
    assert_eq!(receive(&rep), [b"ask"]);
    req.disconnect(&endpoint).unwrap();
    rep.unbind(&endpoint).unwrap();
    let stream = socket(&context, SocketType::Stream);
    assert_eq!(stream.bind(ANY), Err(Error::IncompatibleTransport));
}

#[test]
fn subscribers_get_what_they_ask_for() {
    let context = Context::new();
    let [xpub, sub] = pair(&context, SocketType::Xpub, SocketType::Sub);
    set(&sub, SUBSCRIBE, b"md:");
    assert_eq!(receive(&xpub), [b"\x01md:"]);
    for number in 0..2_000_u32 {
        send(&xpub, &[b"other", &number.to_be_bytes()]);
        send(&xpub, &[b"md:A", &number.to_be_bytes()]);
        assert_eq!(receive(&sub), [&b"md:A"[..], &number.to_be_bytes()]);
    }
}

#[test]
fn a_certificate_is_for_a_name_that_an_option_may_tell() {
    let made = Made::new(|params| {
        *params = CertificateParams::default();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, "hub.example");
    });
    // Trusted by itself it may be of any host, unless the option names one.
    for name in ["", "hub.example"] {
        let context = Context::new();
        let [server, client] = [SocketType::Pull, SocketType::Push].map(|k| socket(&context, k));
        made.serve(&server);
        made.trust(&client);
        set(&client, HOSTNAME, name.as_bytes());
        server.bind(ANY).unwrap();
        client.connect(&last_endpoint(&server)).unwrap();
        send(&client, &[name.as_bytes()]);
        assert_eq!(receive(&server), [name.as_bytes()]);
    }
    let told = failures(&made, |client| {
        made.trust(client);
        set(client, HOSTNAME, b"other.example");
    });
    assert_eq!(told, [EPROTO, EKEYREJECTED]);
}

#[test]
fn expired_and_untrusted_certificates_are_refused_and_both_sides_are_told() {
    let expired = Made::new(|params| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    let told = failures(&expired, |client| expired.trust(client));
    assert_eq!(told, [EPROTO, EKEYREJECTED]);
    let other = Made::new(|_| ());
    let told = failures(Made::known(), |client| other.trust(client));
    assert_eq!(told, [EPROTO, EKEYREJECTED]);
}

#[test]
fn options_that_cannot_serve_are_refused_when_they_are_used() {
    let refused = Err(Error::InvalidArgument);
    let context = Context::new();
    let (made, other) = (Made::known(), Made::new(|_| ()));
    let server = socket(&context, SocketType::Pull);
    assert_eq!(server.bind(ANY), refused, "no certificate");
    set(&server, CERTIFICATE, made.certificate.as_bytes());
    assert_eq!(server.bind(ANY), refused, "no key");
    set(&server, KEY, other.key.as_bytes());
    assert_eq!(server.bind(ANY), refused, "another key");
    set(&server, KEY, made.key.as_bytes());
    server.bind(ANY).unwrap();
    let endpoint = last_endpoint(&server);

    let client = socket(&context, SocketType::Push);
    assert_eq!(client.connect(&endpoint), refused, "nothing is trusted");
    set(
        &client,
        TRUST,
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    assert_eq!(client.connect(&endpoint), refused, "malformed");
    made.trust(&client);
    set(&client, HOSTNAME, b"a b");
    assert_eq!(client.connect(&endpoint), refused, "no name of a host");
    set(&client, HOSTNAME, b"");
    client.connect(&endpoint).unwrap();
    send(&client, &[b"now"]);
    assert_eq!(receive(&server), [b"now"]);

    let long = vec![b'x'; (1 << 20) + 1];
    for option in [KEY, CERTIFICATE, TRUST, HOSTNAME] {
        assert_eq!(server.set_option(option, &long), refused);
        let told = server.option(option, &mut [0; 4096]);
        assert_eq!(told, Err(Error::InvalidArgument), "it is not told");
    }
    assert_eq!(
        server.set_option(TRUST_SYSTEM, &2_i32.to_ne_bytes()),
        refused
    );
    set_int(&server, TRUST_SYSTEM, 1);
}

/// A server that is named by its address, which no public authority has certified.
#[test]
fn the_systems_certificates_do_not_vouch_for_a_stranger() {
    if !std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        return;
    }
    let told = failures(Made::known(), |client| set_int(client, TRUST_SYSTEM, 1));
    assert_eq!(told, [EPROTO, EKEYREJECTED]);
}

#[test]
fn what_is_not_tls_is_answered_by_an_alert_and_harms_no_other_peer() {
    let context = Context::new();
    let [rep, req] = pair(&context, SocketType::Rep, SocketType::Req);
    let endpoint = last_endpoint(&rep);
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        &[0xff; 64],
    ] {
        let mut stream = raw_socket(&endpoint);
        stream.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&0x15), "{answer:?}");
    }
    send(&req, &[b"still"]);
    assert_eq!(receive(&rep), [b"still"]);
}

#[test]
fn ws_and_wss_do_not_understand_each_other() {
    let context = Context::new();
    let secure = socket(&context, SocketType::Pull);
    Made::known().serve(&secure);
    secure.bind(ANY).unwrap();
    let plain = socket(&context, SocketType::Pull);
    plain.bind("ws://127.0.0.1:*").unwrap();
    for (server, from, to) in [(&secure, "wss://", "ws://"), (&plain, "ws://", "wss://")] {
        let client = socket(&context, SocketType::Push);
        Made::known().trust(&client);
        set_int(&client, RECONNECT_IVL, -1);
        let monitor = monitor(&context, &client);
        client
            .connect(&last_endpoint(server).replace(from, to))
            .unwrap();
        while event(&monitor).0 != DISCONNECTED {}
    }
}

#[test]
fn a_handshake_that_does_not_end_is_given_up_by_both_sides() {
    let context = Context::new();
    let [server, client] = [SocketType::Pull, SocketType::Push].map(|kind| socket(&context, kind));
    Made::known().serve(&server);
    Made::known().trust(&client);
    for socket in [&server, &client] {
        set_int(socket, HANDSHAKE_IVL, 100);
    }
    let monitors = [&server, &client].map(|socket| monitor(&context, socket));
    server.bind(ANY).unwrap();
    // The beginning of a greeting.
    let mut stream = raw_socket(&last_endpoint(&server));
    stream
        .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        .unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    set_int(&client, RECONNECT_IVL, -1);
    client.connect(&format!("wss://{address}")).unwrap();
    for monitor in monitors {
        assert_eq!(event(&monitor), (HANDSHAKE_FAILED_NO_DETAIL, EAGAIN));
    }
    assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0, "it is closed");
}

#[test]
fn a_peer_that_does_not_read_is_queued_for_within_the_mark() {
    let context = Context::new();
    let [bound, connected] = [SocketType::Push, SocketType::Pull].map(|k| socket(&context, k));
    set_int(&bound, SNDHWM, 10);
    set_int(&connected, RCVHWM, 1);
    Made::known().serve(&bound);
    Made::known().trust(&connected);
    bound.bind(ANY).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    send(&bound, &[b"first"]);
    assert_eq!(receive(&connected), [b"first"]);
    fill_to_the_mark(&bound, &connected);
}

#[test]
fn a_quiet_connection_is_kept_and_a_server_that_comes_back_is_found_again() {
    let context = Context::new();
    let [pull, push] = [SocketType::Pull, SocketType::Push].map(|kind| socket(&context, kind));
    Made::known().serve(&pull);
    Made::known().trust(&push);
    set_int(&push, HEARTBEAT_IVL, 20);
    pull.bind(ANY).unwrap();
    let endpoint = last_endpoint(&pull);
    push.connect(&endpoint).unwrap();
    for _ in 0..3 {
        send(&push, &[b"one"]);
        assert_eq!(receive(&pull), [b"one"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let peers = push.peers().unwrap();
    assert_eq!((peers.len(), peers[0].sent), (1, 3), "the same connection");
    pull.unbind(&endpoint).unwrap();
    // What is sent before the loss shows is lost with the connection.
    while push.peers().unwrap()[0].is_connected {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let again = socket(&context, SocketType::Pull);
    Made::known().serve(&again);
    while again.bind(&endpoint).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send(&push, &[b"two"]);
    assert_eq!(receive(&again), [b"two"]);
}

#[test]
fn sockets_that_close_in_the_middle_of_handshakes_leave_others_alone() {
    let context = Context::new();
    let [rep, req] = pair(&context, SocketType::Rep, SocketType::Req);
    let endpoint = last_endpoint(&rep);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (context, endpoint) = (context.clone(), endpoint.clone());
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let client = socket(&context, SocketType::Req);
                    Made::known().trust(&client);
                    client.connect(&endpoint).unwrap();
                }
            })
        })
        .collect();
    for _ in 0..50 {
        send(&req, &[b"still"]);
        assert_eq!(receive(&rep), [b"still"]);
        send(&rep, &[b"here"]);
        assert_eq!(receive(&req), [b"here"]);
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
