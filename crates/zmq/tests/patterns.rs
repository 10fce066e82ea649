//! Every pattern over every transport, as a program would use it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const MORE: SendFlags = SendFlags {
    dont_wait: false,
    more: true,
};
const LAST: SendFlags = SendFlags {
    dont_wait: false,
    more: false,
};
const RCVTIMEO: i32 = 27;
const LINGER: i32 = 17;
const SUBSCRIBE: i32 = 6;
const ROUTING_ID: i32 = 5;
const LAST_ENDPOINT: i32 = 32;

const TRANSPORTS: [&str; 4] = ["tcp", "ipc", "shm", "inproc"];

fn endpoint(transport: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    match transport {
        "tcp" => "tcp://127.0.0.1:*".to_owned(),
        "ipc" => "ipc://*".to_owned(),
        "shm" => "shm://*".to_owned(),
        _ => format!("inproc://{}", NEXT.fetch_add(1, Ordering::Relaxed)),
    }
}

fn socket(context: &Context, kind: SocketType) -> Socket {
    let socket = context.socket(kind).unwrap();
    socket
        .set_option(RCVTIMEO, &5000_i32.to_ne_bytes())
        .unwrap();
    socket.set_option(LINGER, &0_i32.to_ne_bytes()).unwrap();
    socket
}

fn last_endpoint(socket: &Socket) -> String {
    let mut out = [0; 256];
    let length = socket.option(LAST_ENDPOINT, &mut out).unwrap();
    String::from_utf8(out[..length - 1].to_vec()).unwrap()
}

fn receives_more(socket: &Socket) -> bool {
    const RCVMORE: i32 = 13;
    let mut out = [0; 4];
    socket.option(RCVMORE, &mut out).unwrap();
    i32::from_ne_bytes(out) == 1
}

/// Two sockets, the first bound, the second connected.
fn pair(
    context: &Context,
    transport: &str,
    bound: SocketType,
    connected: SocketType,
) -> [Socket; 2] {
    let bound = socket(context, bound);
    let connected = socket(context, connected);
    bound.bind(&endpoint(transport)).unwrap();
    connected.connect(&last_endpoint(&bound)).unwrap();
    [bound, connected]
}

fn send(socket: &Socket, frames: &[&[u8]]) {
    for (index, frame) in frames.iter().enumerate() {
        let flags = if index + 1 < frames.len() { MORE } else { LAST };
        socket.send(&mut Message::from_slice(frame), flags).unwrap();
    }
}

fn receive(socket: &Socket) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let frame = socket.receive(false).unwrap();
        frames.push(frame.to_vec());
        if !frame.more() {
            return frames;
        }
    }
}

#[test]
fn a_pair_talks_both_ways() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [one, two] = pair(&context, transport, SocketType::Pair, SocketType::Pair);
        for round in 0..100_u8 {
            send(&two, &[b"a", &[round; 300], b""]);
            assert_eq!(receive(&one), [b"a".to_vec(), vec![round; 300], vec![]]);
            send(&one, &[&[round]]);
            assert_eq!(receive(&two), [[round]]);
        }
    }
}

#[test]
fn requests_are_answered_and_turns_are_kept() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [rep, req] = pair(&context, transport, SocketType::Rep, SocketType::Req);
        assert_eq!(req.receive(true).unwrap_err(), Error::WrongState);
        for _ in 0..10 {
            send(&req, &[b"what", b"now"]);
            assert_eq!(
                req.send_bytes(b"again", LAST).unwrap_err(),
                Error::WrongState
            );
            assert_eq!(
                receive(&rep),
                [b"what", b"now\0"].map(|text| {
                    text.iter()
                        .copied()
                        .filter(|&byte| byte != 0)
                        .collect::<Vec<u8>>()
                })
            );
            send(&rep, &[b"that"]);
            assert_eq!(receive(&req), [b"that"]);
        }
    }
}

#[test]
fn a_router_answers_by_name() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let router = socket(&context, SocketType::Router);
        router.bind(&endpoint(transport)).unwrap();
        let dealers: Vec<Socket> = (0..3)
            .map(|number| {
                let dealer = socket(&context, SocketType::Dealer);
                let name = format!("dealer-{number}");
                dealer.set_option(ROUTING_ID, name.as_bytes()).unwrap();
                dealer.connect(&last_endpoint(&router)).unwrap();
                send(&dealer, &[b"hello"]);
                dealer
            })
            .collect();
        for _ in 0..3 {
            let frames = receive(&router);
            assert_eq!(frames[1], b"hello");
            send(&router, &[&frames[0], b"you are", &frames[0]]);
        }
        for (number, dealer) in dealers.iter().enumerate() {
            let name = format!("dealer-{number}").into_bytes();
            assert_eq!(receive(dealer), [b"you are".to_vec(), name]);
        }
    }
}

#[test]
fn messages_of_every_size_arrive_in_order() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [pull, push] = pair(&context, transport, SocketType::Pull, SocketType::Push);
        let sizes = [
            0, 1, 38, 39, 255, 256, 8191, 8192, 20_000, 70_000, 1_000_000, 5, 3_000_000, 1,
        ];
        let sender = std::thread::spawn(move || {
            for (index, &size) in sizes.iter().cycle().take(140).enumerate() {
                let body: Vec<u8> = (0..size).map(|at| (at + index) as u8).collect();
                push.send_bytes(&body, LAST).unwrap();
            }
            push
        });
        for (index, &size) in sizes.iter().cycle().take(140).enumerate() {
            let message = pull.receive(false).unwrap();
            assert_eq!(message.len(), size, "{transport} {index}");
            let is_right = message
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == (at + index) as u8);
            assert!(is_right);
        }
        drop(sender.join().unwrap());
    }
}

#[test]
fn small_messages_in_a_row_all_arrive() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [pull, push] = pair(&context, transport, SocketType::Pull, SocketType::Push);
        let sender = std::thread::spawn(move || {
            for number in 0..200_000_u32 {
                push.send_bytes(&number.to_le_bytes(), LAST).unwrap();
            }
            push
        });
        for number in 0..200_000_u32 {
            let message = pull.receive(false);
            let message = message.unwrap_or_else(|error| panic!("{transport} {number}: {error}"));
            assert_eq!(message.as_slice(), number.to_le_bytes());
        }
        drop(sender.join().unwrap());
    }
}

/// The publisher was bound later, and the subscriber's program made no call meanwhile: the
/// subscription lay in the pipe, and the message was lost.
#[test]
fn a_subscription_made_before_the_publisher_is_bound_counts_for_its_first_message() {
    for publisher in [SocketType::Pub, SocketType::Xpub] {
        for subscriber in [SocketType::Sub, SocketType::Xsub] {
            let context = Context::new();
            let [subscriber, publisher] =
                [subscriber, publisher].map(|kind| socket(&context, kind));
            if subscriber.kind() == SocketType::Sub {
                subscriber.set_option(SUBSCRIBE, b"t").unwrap();
            }
            subscriber.connect("inproc://later").unwrap();
            if subscriber.kind() == SocketType::Xsub {
                send(&subscriber, &[b"\x01t"]);
            }
            publisher.bind("inproc://later").unwrap();
            send(&publisher, &[b"t1"]);
            assert_eq!(receive(&subscriber), [b"t1"]);
        }
    }
}

#[test]
fn subscribers_get_what_they_asked_for() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let publisher = socket(&context, SocketType::Xpub);
        publisher.bind(&endpoint(transport)).unwrap();
        let subscriber = socket(&context, SocketType::Sub);
        subscriber.set_option(SUBSCRIBE, b"gold").unwrap();
        subscriber.connect(&last_endpoint(&publisher)).unwrap();
        assert_eq!(receive(&publisher), [b"\x01gold"]);
        send(&publisher, &[b"silver", b"1"]);
        send(&publisher, &[b"golden", b"2"]);
        assert_eq!(receive(&subscriber), [b"golden".to_vec(), b"2".to_vec()]);
        drop(subscriber);
        assert_eq!(receive(&publisher), [b"\x00gold"]);
    }
}

#[test]
fn what_is_sent_before_the_peer_is_there_arrives() {
    let path = std::env::temp_dir().join(format!("early-bird-{}", std::process::id()));
    for wanted in ["tcp://127.0.0.1:*", &format!("ipc://{}", path.display())] {
        let context = Context::new();
        let probe = socket(&context, SocketType::Pull);
        probe.bind(wanted).unwrap();
        let place = last_endpoint(&probe);
        probe.close().unwrap();
        let push = socket(&context, SocketType::Push);
        push.connect(&place).unwrap();
        send(&push, &[b"early", b"bird"]);
        std::thread::sleep(Duration::from_millis(30));
        let pull = socket(&context, SocketType::Pull);
        pull.bind(&place).unwrap();
        assert_eq!(receive(&pull), [b"early".to_vec(), b"bird".to_vec()]);
    }
}

#[test]
fn what_was_sent_before_a_close_is_received() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [pull, push] = pair(&context, transport, SocketType::Pull, SocketType::Push);
        push.set_option(LINGER, &(-1_i32).to_ne_bytes()).unwrap();
        for number in 0..5000_u32 {
            push.send_bytes(&number.to_le_bytes(), LAST).unwrap();
            if number == 900 {
                // The receiver is read from elsewhere meanwhile.
                for number in 0..=900_u32 {
                    assert_eq!(
                        pull.receive(false).unwrap().as_slice(),
                        number.to_le_bytes()
                    );
                }
            }
            if number > 900 {
                assert_eq!(
                    pull.receive(false).unwrap().as_slice(),
                    number.to_le_bytes()
                );
            }
        }
        send(&push, &[b"farewell"]);
        push.close().unwrap();
        assert_eq!(receive(&pull), [b"farewell"]);
    }
}

#[test]
fn a_wait_ends_with_the_context() {
    let context = Context::new();
    let pull = context.socket(SocketType::Pull).unwrap();
    pull.bind("tcp://127.0.0.1:*").unwrap();
    let waiter = std::thread::spawn(move || {
        let error = pull.receive(false).unwrap_err();
        pull.close().unwrap();
        error
    });
    std::thread::sleep(Duration::from_millis(50));
    context.terminate().unwrap();
    assert_eq!(waiter.join().unwrap(), Error::Terminated);
}

#[test]
fn nothing_to_receive_is_said_in_time() {
    let context = Context::new();
    let [pull, _push] = pair(&context, "tcp", SocketType::Pull, SocketType::Push);
    assert_eq!(pull.receive(true).unwrap_err(), Error::Again);
    pull.set_option(RCVTIMEO, &20_i32.to_ne_bytes()).unwrap();
    assert_eq!(pull.receive(false).unwrap_err(), Error::Again);
}

/// A waker that lets a blocked thread go on.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut task = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut task) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn tasks_send_and_receive() {
    for transport in TRANSPORTS {
        let context = Context::new();
        let [pull, push] = pair(&context, transport, SocketType::Pull, SocketType::Push);
        let sender = std::thread::spawn(move || {
            for number in 0..3000_u32 {
                block_on(push.send_async(format!("{number}"))).unwrap();
                if number % 500 == 0 {
                    std::thread::sleep(Duration::from_millis(8));
                }
            }
            push
        });
        for number in 0..3000_u32 {
            let message = block_on(pull.receive_async()).unwrap();
            assert_eq!(message.text(), Some(number.to_string().as_str()));
        }
        drop(sender.join().unwrap());
    }
}

/// Each subscription of a live connection went in a call of its own, at ten times libzmq's cost.
/// They are written together, also if the program does nothing more.
#[test]
fn subscriptions_in_a_row_all_arrive_at_an_idle_end() {
    const COUNT: usize = 50_000;
    let context = Context::new();
    for transport in TRANSPORTS {
        let [publisher, subscriber] = pair(&context, transport, SocketType::Xpub, SocketType::Sub);
        // The connection lives: it is not told all at once.
        subscriber.set_option(SUBSCRIBE, b"first").unwrap();
        assert_eq!(receive(&publisher), [b"\x01first"]);
        for number in 0..COUNT {
            let topic = format!("{number}");
            subscriber.set_option(SUBSCRIBE, topic.as_bytes()).unwrap();
        }
        for number in 0..COUNT {
            let wanted = format!("\u{1}{number}").into_bytes();
            assert_eq!(receive(&publisher), [wanted], "{transport}");
        }
    }
}

/// A full subscriber cost a call to the kernel with each message. Once it has been told that there
/// is room, the publisher sends again.
#[test]
fn a_subscriber_that_was_full_gets_messages_again() {
    let context = Context::new();
    let [publisher, subscriber] = pair(&context, "tcp", SocketType::Xpub, SocketType::Sub);
    publisher.set_high_water_marks(100, 100).unwrap();
    subscriber.set_option(SUBSCRIBE, b"").unwrap();
    assert_eq!(receive(&publisher), [b"\x01"]);
    let body = vec![7; 10_000];
    let mut dropped = 0;
    while dropped == 0 {
        send(&publisher, &[&body]);
        dropped = publisher.peers().unwrap()[0].dropped;
    }
    let mut last = 0;
    for round in 0..100_000u32 {
        send(&publisher, &[&round.to_be_bytes()]);
        let frame = receive(&subscriber).remove(0);
        if let Ok(bytes) = frame.try_into() {
            last = u32::from_be_bytes(bytes);
            break;
        }
    }
    assert!(last > 0, "later messages arrive");
}

#[test]
fn a_publisher_counts_what_it_dropped_and_for_whom() {
    let context = Context::new();
    let publisher = socket(&context, SocketType::Xpub);
    publisher.set_high_water_marks(10, 10).unwrap();
    publisher.bind("inproc://counted").unwrap();
    let subscriber = socket(&context, SocketType::Sub);
    subscriber.set_high_water_marks(10, 10).unwrap();
    subscriber.set_option(SUBSCRIBE, b"").unwrap();
    subscriber.connect("inproc://counted").unwrap();
    assert_eq!(receive(&publisher), [b"\x01"]);
    for _ in 0..50 {
        send(&publisher, &[b"news"]);
    }
    let peers = publisher.peers().unwrap();
    assert_eq!(
        (peers[0].sent, peers[0].dropped, peers[0].queued),
        (20, 30, 20)
    );
}

const CURVE_SERVER: i32 = 47;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;

#[test]
fn curve_lets_in_who_knows_the_server_and_nobody_else() {
    use tidewire_zmtp::curve::Keypair;
    let server = Keypair::generate().unwrap();
    let client = Keypair::generate().unwrap();
    for transport in ["tcp", "ipc", "shm"] {
        let context = Context::new();
        let pull = socket(&context, SocketType::Pull);
        pull.set_option(CURVE_SERVER, &1_i32.to_ne_bytes()).unwrap();
        pull.set_option(CURVE_SECRETKEY, server.secret.as_bytes())
            .unwrap();
        pull.bind(&endpoint(transport)).unwrap();
        let connect = |server_key: &[u8; 32]| {
            let push = socket(&context, SocketType::Push);
            push.set_option(CURVE_SERVERKEY, server_key).unwrap();
            push.set_option(CURVE_PUBLICKEY, &client.public).unwrap();
            push.set_option(CURVE_SECRETKEY, client.secret.as_bytes())
                .unwrap();
            push.connect(&last_endpoint(&pull)).unwrap();
            push
        };
        let stranger = connect(&client.public);
        send(&stranger, &[b"let me in"]);
        let friend = connect(&server.public);
        for size in [0, 10, 5000, 300_000] {
            send(&friend, &[b"sealed", &vec![7; size]]);
            assert_eq!(receive(&pull), [b"sealed".to_vec(), vec![7; size]]);
        }
        assert_eq!(pull.receive(true).unwrap_err(), Error::Again);
    }
}

#[test]
fn a_server_of_a_mechanism_says_ready_before_it_subscribes() {
    // Any answer 200 lets in; the handler stands in the context, as RFC 27 has it.
    let context = Context::new();
    let handler = socket(&context, SocketType::Rep);
    handler.bind("inproc://zeromq.zap.01").unwrap();
    let answering = std::thread::spawn(move || {
        let question = receive(&handler);
        let answer: [&[u8]; 6] = [&question[0], &question[1], b"200", b"OK", b"user", b""];
        send(&handler, &answer);
        handler
    });
    let subscriber = socket(&context, SocketType::Sub);
    subscriber
        .set_option(PLAIN_SERVER, &1_i32.to_ne_bytes())
        .unwrap();
    subscriber.set_option(SUBSCRIBE, b"tide").unwrap();
    subscriber.bind("tcp://127.0.0.1:*").unwrap();
    // A peer that reads the bytes one by one: READY first, then the subscription.
    let address = last_endpoint(&subscriber);
    let mut stream = std::net::TcpStream::connect(address.trim_start_matches("tcp://")).unwrap();
    let mut greeting = [0_u8; 64];
    greeting[0] = 0xFF;
    greeting[9] = 0x7F;
    greeting[10] = 3;
    greeting[11] = 1;
    greeting[12..17].copy_from_slice(b"PLAIN");
    use std::io::{Read, Write};
    stream.write_all(&greeting).unwrap();
    stream
        .write_all(b"\x04\x10\x05HELLO\x04user\x04word")
        .unwrap();
    stream.read_exact(&mut [0; 64]).unwrap();
    let mut welcome = [0; 10];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(&welcome, b"\x04\x08\x07WELCOME");
    stream
        .write_all(b"\x04\x1c\x08INITIATE\x0bSocket-Type\x00\x00\x00\x03PUB")
        .unwrap();
    let mut command = [0; 8];
    stream.read_exact(&mut command).unwrap();
    assert_eq!(&command[2..], b"\x05READY");
    drop(answering.join().unwrap());
}

const PLAIN_SERVER: i32 = 44;

/// Received into a buffer, over connections: short messages and long ones, of one frame and of
/// more, decoded by the caller or before it asked, in their order.
#[test]
fn what_is_received_into_a_buffer_is_what_was_sent() {
    for waits_ms in [0, 30] {
        let context = Context::new();
        let [pull, push] = pair(&context, "tcp", SocketType::Pull, SocketType::Push);
        let bodies: Vec<Vec<u8>> = [0, 1, 64, 255, 256, 4096, 70_000, 3, 200]
            .iter()
            .cycle()
            .take(300)
            .enumerate()
            .map(|(index, length)| vec![index as u8; *length])
            .collect();
        for (index, body) in bodies.iter().enumerate() {
            if index % 7 == 0 {
                push.send_bytes(b"head", MORE).unwrap();
            }
            push.send_bytes(body, LAST).unwrap();
        }
        // What nobody asks for is received in the background.
        std::thread::sleep(Duration::from_millis(waits_ms));
        let mut buffer = vec![0; 100_000];
        for (index, body) in bodies.iter().enumerate() {
            if index % 7 == 0 {
                assert_eq!(pull.receive_into(&mut buffer, false), Ok(4));
                assert!(receives_more(&pull));
            }
            assert_eq!(pull.receive_into(&mut buffer, false), Ok(body.len()));
            assert_eq!(&buffer[..body.len()], body.as_slice());
            assert!(!receives_more(&pull));
        }
        push.send_bytes(b"too long", LAST).unwrap();
        std::thread::sleep(Duration::from_millis(waits_ms));
        assert_eq!(pull.receive_into(&mut buffer[..3], false), Ok(8));
        assert_eq!(&buffer[..3], b"too");
    }
}

/// A publisher in manual mode may send what was not asked for: a subscriber sees none of it,
/// however it receives.
#[test]
fn a_subscriber_receives_into_its_buffer_only_what_it_wants() {
    const XPUB_MANUAL: i32 = 71;
    const INVERT_MATCHING: i32 = 74;
    for (inverts, waits_ms) in [(0, 0), (0, 30), (1, 0), (1, 30)] {
        let context = Context::new();
        let [publisher, sub] = pair(&context, "tcp", SocketType::Xpub, SocketType::Sub);
        publisher
            .set_option(XPUB_MANUAL, &1_i32.to_ne_bytes())
            .unwrap();
        sub.set_option(INVERT_MATCHING, &i32::to_ne_bytes(inverts))
            .unwrap();
        sub.set_option(SUBSCRIBE, b"a").unwrap();
        assert_eq!(publisher.receive(false).unwrap().as_slice(), b"\x01a");
        publisher.set_option(SUBSCRIBE, b"").unwrap();
        for topic in ["b1", "a2", "b3", "b4", "a5", "b6"] {
            publisher.send_bytes(topic.as_bytes(), LAST).unwrap();
        }
        std::thread::sleep(Duration::from_millis(waits_ms));
        let wanted: &[&[u8]] = match inverts {
            0 => &[b"a2", b"a5"],
            _ => &[b"b1", b"b3", b"b4", b"b6"],
        };
        let mut buffer = [0; 16];
        for body in wanted {
            assert_eq!(sub.receive_into(&mut buffer, false), Ok(2));
            assert_eq!(&buffer[..2], *body);
        }
    }
}

/// They came the other way round where all had sent before the first look; goczmq's tests expect
/// libzmq's order.
#[test]
fn the_first_of_several_peers_within_the_process_is_received_from_first() {
    let context = Context::new();
    let router = socket(&context, SocketType::Router);
    router.bind("inproc://in-order").unwrap();
    let dealers = [0, 1, 2, 3].map(|number: u8| {
        let dealer = socket(&context, SocketType::Dealer);
        dealer.connect("inproc://in-order").unwrap();
        send(&dealer, &[&[number]]);
        dealer
    });
    for number in 0..dealers.len() {
        assert_eq!(receive(&router)[1], [number as u8]);
    }
}
