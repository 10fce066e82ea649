//! Addresses in every form of digits that libzmq takes, wherever one may stand.

mod support;

use support::{last_endpoint, receive, send, set_int, socket};
use tidewire_zmq::{Context, Error, Socket, SocketType};

const IPV6: i32 = 42;
const ACCEPT_FILTER: i32 = 38;
/// Forms of 127.0.0.1, of which libzmq 4.3.6 takes each where an address may stand.
const FORMS: [&str; 13] = [
    "127.0.0.1",
    "127.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0x7F.0X0.0.1",
    "0x7f000001",
    "0177.1",
    "017700000001",
    "127.0.0.01",
    "[127.1]",
    "127.1%lo",
    "[0x7f.1%1]",
];
/// Near these forms, and no address. A name with one of them is looked up without result.
const NO_FORMS: [&str; 8] = [
    "127.0.0.08",
    "127.0.0.256",
    "127.16777216",
    "4294967296",
    "0x",
    "127..1",
    "127.0.0.1.",
    "0x7fg.1",
];

fn port(endpoint: &str) -> &str {
    endpoint.rsplit(':').next().unwrap().trim_end_matches('/')
}

/// The difference that was seen was `bind DEALER tcp://0x7f.1:PORT`, which depended on a look-up.
#[test]
fn every_type_of_socket_binds_and_connects_to_an_address_in_any_form() {
    use SocketType as Kind;
    let context = Context::new();
    for (bound, connected) in [
        (Kind::Pair, Kind::Pair),
        (Kind::Pull, Kind::Push),
        (Kind::Rep, Kind::Req),
        (Kind::Dealer, Kind::Req),
        (Kind::Router, Kind::Dealer),
        (Kind::Xsub, Kind::Pub),
        (Kind::Sub, Kind::Xpub),
        (Kind::Server, Kind::Client),
        (Kind::Gather, Kind::Scatter),
        (Kind::Channel, Kind::Channel),
        (Kind::Peer, Kind::Peer),
        (Kind::Stream, Kind::Stream),
        (Kind::Dish, Kind::Radio),
    ] {
        for form in FORMS {
            let [server, client] = [bound, connected].map(|kind| socket(&context, kind));
            server.bind(&format!("tcp://{form}:*")).unwrap();
            let told = last_endpoint(&server);
            let port = port(&told);
            assert_eq!(told, format!("tcp://127.0.0.1:{port}"), "{bound:?} {form}");
            let endpoint = format!("tcp://{form}:{port}");
            client.connect(&endpoint).unwrap();
            assert_eq!(
                last_endpoint(&client),
                endpoint,
                "it is told as it was given"
            );
            client.disconnect(&endpoint).unwrap();
            server.unbind(&endpoint).unwrap();
            assert_eq!(server.unbind(&told), Err(Error::NoSuchEndpoint), "{form}");
        }
    }
}

/// Sends over a connection whose two ends name the address in other forms.
fn check_messages(context: &Context, transport: &str, forms: [&str; 2], ipv6: i32) {
    let [server, client] = [SocketType::Pull, SocketType::Push].map(|kind| socket(context, kind));
    set_int(&server, IPV6, ipv6);
    set_int(&client, IPV6, ipv6);
    server
        .bind(&format!("{transport}://{}:*", forms[0]))
        .unwrap();
    let told = last_endpoint(&server);
    let endpoint = format!("{transport}://{}:{}", forms[1], port(&told));
    client.connect(&endpoint).unwrap();
    send(&client, &[forms[1].as_bytes()]);
    assert_eq!(receive(&server), [forms[1].as_bytes()]);
}

#[test]
fn messages_pass_between_ends_that_write_their_address_in_other_forms() {
    let context = Context::new();
    for transport in ["tcp", "ws"] {
        for ipv6 in [0, 1] {
            for (index, form) in FORMS.into_iter().enumerate() {
                let other = FORMS[(index + 1) % FORMS.len()];
                check_messages(&context, transport, [form, other], ipv6);
            }
        }
    }
}

/// They were refused: no name is looked up there, and only Rust's own form was read.
#[test]
fn a_source_address_has_every_form() {
    let context = Context::new();
    let server = socket(&context, SocketType::Pull);
    server.bind("tcp://127.0.0.1:*").unwrap();
    let told = last_endpoint(&server);
    let target = told.strip_prefix("tcp://").unwrap();
    for form in FORMS {
        let client = socket(&context, SocketType::Push);
        client.connect(&format!("tcp://{form}:0;{target}")).unwrap();
        send(&client, &[form.as_bytes()]);
        assert_eq!(receive(&server), [form.as_bytes()]);
        let bound = socket(&context, SocketType::Pull);
        bound.bind(&format!("tcp://{form}:0;127.0.0.1:*")).unwrap();
    }
    for wrong in NO_FORMS {
        let bound = socket(&context, SocketType::Pull);
        let result = bound.bind(&format!("tcp://{wrong}:0;127.0.0.1:*"));
        assert_eq!(result, Err(Error::NoSuchDevice), "{wrong}");
    }
}

#[test]
fn what_is_near_an_address_is_none() {
    let context = Context::new();
    for wrong in NO_FORMS {
        let server = socket(&context, SocketType::Dealer);
        let result = server.bind(&format!("tcp://{wrong}:*"));
        assert_eq!(result, Err(Error::NoSuchDevice), "{wrong}");
    }
}

#[test]
fn an_interface_and_a_target_of_datagrams_have_every_form() {
    let context = Context::new();
    for form in FORMS {
        let [dish, radio] =
            [SocketType::Dish, SocketType::Radio].map(|kind| socket(&context, kind));
        dish.bind(&format!("udp://{form}:*")).unwrap();
        let told = last_endpoint(&dish);
        radio
            .connect(&format!("udp://{form}:{}", port(&told)))
            .unwrap();
        let member = socket(&context, SocketType::Dish);
        member.bind(&format!("udp://{form};239.0.0.1:*")).unwrap();
    }
}

fn set_filter(socket: &Socket, filter: &str) -> Result<(), Error> {
    socket.set_option(ACCEPT_FILTER, filter.as_bytes())
}

/// libzmq reads the address as in an endpoint, and the bits with `strtol`.
#[test]
fn a_filter_of_peers_has_every_form() {
    let context = Context::new();
    for (filters, ipv6) in [
        (
            &[
                "127.1",
                "[127.1]/8",
                "0x7f.1/32",
                "2130706433/8x",
                "::ffff:127.0.0.1",
            ][..],
            0,
        ),
        (
            &[
                "127.1/8",
                "::ffff:127.0.0.1/120",
                "[::ffff:127.0.0.1%1]",
                "0.0.0.0/0",
            ][..],
            1,
        ),
    ] {
        for filter in filters {
            let [server, client] =
                [SocketType::Pull, SocketType::Push].map(|kind| socket(&context, kind));
            set_int(&server, IPV6, ipv6);
            set_filter(&server, filter).unwrap();
            server.bind("tcp://127.0.0.1:*").unwrap();
            client.connect(&last_endpoint(&server)).unwrap();
            send(&client, &[filter.as_bytes()]);
            assert_eq!(receive(&server), [filter.as_bytes()], "{filter}");
        }
    }
    let server = socket(&context, SocketType::Pull);
    for wrong in [
        "127.0.0.1/",
        "127.0.0.1/33",
        "127.0.0.1/00",
        "127.0.0.1/x",
        "127.0.0.1/-1",
        "127.1/8/8",
        "127.0.0.1/264",
        "127.0.0.08",
        "localhost",
        "::1",
        "127.0.0.1:5",
        "/8",
    ] {
        let result = set_filter(&server, wrong);
        assert_eq!(result, Err(Error::InvalidArgument), "{wrong}");
    }
}
