//! Endpoints as libzmq takes, tells and refuses them; the table comes from a comparison with it.

mod support;

use support::{LINGER, MORE, SUBSCRIBE, last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::{Context, Error, Message, SocketType};

const ROUTING_ID: i32 = 5;
const IPV6: i32 = 42;
const INVALID: Error = Error::InvalidArgument;
const NO_DEVICE: Error = Error::NoSuchDevice;

/// Binds, and returns the endpoint that is told, with `P` for a port that the system chose.
fn bound(context: &Context, endpoint: &str) -> Result<String, Error> {
    let socket = socket(context, SocketType::Dealer);
    socket.bind(endpoint)?;
    let told = last_endpoint(&socket);
    // What is told can be given back.
    socket.unbind(&told)?;
    assert_eq!(socket.unbind(&told), Err(Error::NoSuchEndpoint));
    let (place, port) = told.rsplit_once(':').unwrap();
    let is_chosen = !endpoint.contains(port.split('/').next().unwrap());
    Ok(if is_chosen {
        let rest = port.trim_start_matches(|letter: char| letter.is_ascii_digit());
        format!("{place}:P{rest}")
    } else {
        told
    })
}

#[test]
fn what_is_bound_is_told_and_what_cannot_be_bound_is_refused() {
    let context = Context::new();
    for (endpoint, expected) in [
        ("tcp://127.0.0.1:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://127.0.0.1:0", Ok("tcp://127.0.0.1:P")),
        ("tcp://*:*", Ok("tcp://0.0.0.0:P")),
        ("tcp://[*]:*", Ok("tcp://0.0.0.0:P")),
        ("tcp://lo:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://[lo]:0", Ok("tcp://127.0.0.1:P")),
        ("tcp://[::ffff:127.0.0.1]:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://127.0.0.1%lo:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://localhost:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://127.1:*", Ok("tcp://127.0.0.1:P")),
        // A source means nothing here, but must be one.
        ("tcp://lo:0;127.0.0.1:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://*:*;lo:*", Ok("tcp://127.0.0.1:P")),
        ("tcp://no-such0:0;127.0.0.1:*", Err(NO_DEVICE)),
        ("tcp://127.0.0.1;127.0.0.1:*", Err(INVALID)),
        ("tcp://x:y;127.0.0.1:*", Err(INVALID)),
        ("tcp://127.0.0.1:*;", Err(INVALID)),
        ("tcp://::1:*", Err(NO_DEVICE)),
        ("tcp://[::1]:*", Err(NO_DEVICE)),
        ("tcp://no-such0:*", Err(NO_DEVICE)),
        ("tcp://:*", Err(NO_DEVICE)),
        ("tcp://[]:*", Err(NO_DEVICE)),
        ("tcp://1.2.3.4:*", Err(Error::AddressNotAvailable)),
        ("tcp://[fe80::1%no-such0]:*", Err(INVALID)),
        ("tcp://[fe80::1%]:*", Err(INVALID)),
        ("tcp://127.0.0.1", Err(INVALID)),
        ("tcp://127.0.0.1:", Err(INVALID)),
        ("tcp://127.0.0.1:x", Err(INVALID)),
        ("tcp://127.0.0.1:00", Err(INVALID)),
        ("tcp://127.0.0.1: 0", Err(INVALID)),
        ("tcp://127.0.0.1:65536", Err(INVALID)),
        ("ws://127.0.0.1:*", Ok("ws://127.0.0.1:P/")),
        ("ws://lo:*/a", Ok("ws://127.0.0.1:P/a")),
        ("ws://no-such0:*/a", Err(NO_DEVICE)),
        ("tcp://", Err(INVALID)),
        ("tcp:", Err(INVALID)),
        ("TCP://127.0.0.1:*", Err(Error::UnknownTransport)),
        ("udp://127.0.0.1:5555", Err(Error::IncompatibleTransport)),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(bound(&context, endpoint), expected, "{endpoint}");
    }
}

#[test]
fn what_is_connected_to_is_told_and_what_makes_no_sense_is_refused() {
    let context = Context::new();
    let told = |endpoint: &str| {
        let socket = socket(&context, SocketType::Dealer);
        socket.connect(endpoint)?;
        let told = last_endpoint(&socket);
        socket.disconnect(&told)?;
        socket.connect(endpoint)?;
        socket.disconnect(endpoint)?;
        Ok(told)
    };
    for endpoint in [
        "tcp://127.0.0.1:1",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:1x",
        "tcp://[fe80::1%lo]:1",
        "tcp://no-such-host.invalid:1",
        "tcp://127.0.0.1:0;127.0.0.1:1",
        "tcp://127.0.0.1:*;127.0.0.1:1",
        "tcp://lo:0;127.0.0.1:1",
        "ipc:///no/such/path",
        "inproc://not-bound",
    ] {
        assert_eq!(told(endpoint), Ok(endpoint.to_owned()));
    }
    for endpoint in [
        "ws://127.0.0.1:1",
        "ws://127.0.0.1:1x",
        "ws://127.0.0.1:65537/",
    ] {
        assert_eq!(told(endpoint), Ok("ws://127.0.0.1:1/".to_owned()));
    }
    for endpoint in [
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:*",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:+1",
        "tcp://127.0.0.1: 1",
        "tcp://127.0.0.1:1 ",
        "tcp://127.0.0.1:1/",
        "tcp://127.0.0.1:1\n",
        "tcp://*:1",
        "tcp://-:1",
        "tcp://_:1",
        "tcp://%lo:1",
        "tcp://a b:1",
        "tcp://*:0;127.0.0.1:1",
        // libzmq takes these, and tries again and again.
        "tcp://:1",
        "tcp://[]:1",
        "tcp://127.0.0.1:00",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1;127.0.0.1:1",
        "tcp://:0;127.0.0.1:1",
        "tcp://127.0.0.1:0;",
        "tcp://127.0.0.1:0;127.0.0.1:0;127.0.0.1:1",
    ] {
        assert_eq!(told(endpoint), Err(INVALID), "{endpoint}");
    }
}

/// As with libzmq: another name of the address will do, but not what stands for several.
#[test]
fn what_is_bound_is_given_up_by_any_name_of_its_address() {
    let context = Context::new();
    for ipv6 in [0, 1] {
        let socket = socket(&context, SocketType::Dealer);
        set_int(&socket, IPV6, ipv6);
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let told = last_endpoint(&socket);
        let port = told.rsplit(':').next().unwrap();
        for wrong in ["*", "lo", "127.0.0.2"] {
            let result = socket.unbind(&format!("tcp://{wrong}:{port}"));
            assert_eq!(result, Err(Error::NoSuchEndpoint), "{wrong}");
        }
        socket
            .unbind(&format!("tcp://[127.0.0.1]:0{port}x"))
            .unwrap();
        assert_eq!(socket.unbind(&told), Err(Error::NoSuchEndpoint));
    }
}

/// It made a second connection: a SUB got each message twice, and a PUB sent it twice.
#[test]
fn what_was_connected_twice_came_twice() {
    use SocketType::{Dealer, Pub, Push, Rep, Req, Router, Sub, Xpub, Xsub};
    let context = Context::new();
    for scheme in [
        "tcp://127.0.0.1:*",
        "ws://127.0.0.1:*",
        "ipc://*",
        "shm://*",
    ] {
        for (there, here, count) in [
            (Xpub, Sub, 1),
            (Xsub, Pub, 1),
            (Rep, Req, 1),
            (Router, Dealer, 1),
            (Xpub, Xsub, 2),
            (Router, Router, 2),
            (SocketType::Pull, Push, 2),
        ] {
            let [bound, connected] = [there, here].map(|kind| socket(&context, kind));
            bound.bind(scheme).unwrap();
            let endpoint = last_endpoint(&bound);
            connected.connect(&endpoint).unwrap();
            connected.connect(&endpoint).unwrap();
            let peers = connected.peers().unwrap().len();
            assert_eq!(peers, count, "{here:?} over {endpoint}");
            assert_eq!(last_endpoint(&connected), endpoint);
            connected.disconnect(&endpoint).unwrap();
            connected.connect(&endpoint).unwrap();
            assert_eq!(connected.peers().unwrap().len(), 1, "{here:?}");
            if here == Sub {
                set(&connected, SUBSCRIBE, b"");
                while receive(&bound) != [b"\x01"] {}
                send(&bound, &[b"once"]);
                send(&bound, &[b"last"]);
                assert_eq!(receive(&connected), [b"once"]);
                assert_eq!(receive(&connected), [b"last"]);
            }
        }
    }
    // Within the process libzmq connects again.
    let [bound, connected] = [Router, Dealer].map(|kind| socket(&context, kind));
    bound.bind("inproc://twice").unwrap();
    connected.connect("inproc://twice").unwrap();
    connected.connect("inproc://twice").unwrap();
    assert_eq!(connected.peers().unwrap().len(), 2);
}

/// What is still to be sent to it goes on; to the program it is gone.
#[test]
fn an_endpoint_that_was_undone_is_connected_to_again() {
    let context = Context::new();
    let dealer = socket(&context, SocketType::Dealer);
    set_int(&dealer, LINGER, -1);
    dealer.connect("ipc:///no/such/path").unwrap();
    send(&dealer, &[b"it lingers"]);
    dealer.disconnect("ipc:///no/such/path").unwrap();
    dealer.connect("ipc:///no/such/path").unwrap();
    dealer.disconnect("ipc:///no/such/path").unwrap();
    set_int(&dealer, LINGER, 0);
}

/// It was refused; libzmq has it.
#[test]
fn a_stream_speaks_over_a_path_too() {
    let context = Context::new();
    let [server, client] = [(); 2].map(|()| socket(&context, SocketType::Stream));
    server.bind("ipc://*").unwrap();
    client.connect(&last_endpoint(&server)).unwrap();
    let hello = receive(&client);
    assert_eq!(hello[1], b"", "a connection");
    send(&client, &[&hello[0], b"bytes"]);
    assert_eq!(receive(&server)[1], b"");
    assert_eq!(receive(&server)[1], b"bytes");
    for endpoint in ["ws://127.0.0.1:*", "shm://*"] {
        let result = server.bind(endpoint);
        assert_eq!(result, Err(Error::IncompatibleTransport), "{endpoint}");
    }
}

/// It was refused; goczmq's tests do it. There are no empty frames that tell of connections.
#[test]
fn streams_speak_within_the_process_as_libzmqs_do() {
    let context = Context::new();
    for is_early in [false, true] {
        let [server, client] = [(); 2].map(|()| socket(&context, SocketType::Stream));
        let endpoint = format!("inproc://streams-{is_early}");
        if is_early {
            client.connect(&endpoint).unwrap();
            server.bind(&endpoint).unwrap();
        } else {
            server.bind(&endpoint).unwrap();
            client.connect(&endpoint).unwrap();
        }
        let mut name = [0; 255];
        let length = client.option(ROUTING_ID, &mut name).unwrap();
        send(&client, &[&name[..length], b"bytes"]);
        let request = receive(&server);
        assert_eq!(request[1..], [b"bytes"]);
        send(&server, &[&request[0], b"back"]);
        assert_eq!(receive(&client), [&name[..length], b"back"]);
        // An empty frame closes the connection.
        send(&server, &[&request[0], b""]);
        let mut message = Message::from_slice(&request[0]);
        let result = server.send(&mut message, MORE);
        assert_eq!(result, Err(Error::HostUnreachable));
    }
}

/// It was left out, and the handshake with the proxy held with the peer itself.
#[test]
fn without_its_proxy_nothing_is_connected() {
    let context = Context::new();
    let pull = socket(&context, SocketType::Pull);
    pull.bind("tcp://127.0.0.1:*").unwrap();
    let push = socket(&context, SocketType::Push);
    push.set_option(68, b"no proxy").unwrap();
    let of_pair = SocketType::Pair;
    push.monitor(Some("inproc://no-proxy"), 0xffff, 1, of_pair)
        .unwrap();
    let monitor = socket(&context, of_pair);
    monitor.connect("inproc://no-proxy").unwrap();
    push.connect(&last_endpoint(&pull)).unwrap();
    let event = |frames: &[Vec<u8>]| u16::from_ne_bytes([frames[0][0], frames[0][1]]);
    let closed_and_retried = [0x80, 0x4];
    for expected in closed_and_retried {
        assert_eq!(event(&receive(&monitor)), expected);
    }
}

/// It waited for a socket that binds the name, which none can any more.
#[test]
fn a_context_ends_though_what_was_sent_to_an_unbound_name_lingers() {
    for closes_first in [false, true] {
        let context = Context::new();
        let push = socket(&context, SocketType::Push);
        set_int(&push, LINGER, -1);
        push.connect("inproc://nobody").unwrap();
        send(&push, &[b"never read"]);
        if closes_first {
            drop(push);
            context.terminate().unwrap();
        } else {
            context.shutdown();
            drop(push);
            context.terminate().unwrap();
        }
    }
}
