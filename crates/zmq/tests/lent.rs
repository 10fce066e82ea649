//! Bytes that the program has lent come back wherever their message goes. What takes them back may
//! call the same socket: it would wait for itself if the socket were locked.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::{
    LAST, LINGER, MORE, SUBSCRIBE, last_endpoint, pair_at, raw_socket, receive, send, set, set_int,
    socket,
};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const CONFLATE: i32 = 54;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const SNDTIMEO: i32 = 28;
const XPUB_MANUAL_LAST_VALUE: i32 = 98;
const REQ_RELAXED: i32 = 53;
const LENGTH: usize = 100_000;
const NOW: SendFlags = SendFlags {
    dont_wait: true,
    more: false,
};

/// Lends bytes, and when they come back asks these sockets for their events and sends to them.
#[derive(Clone)]
struct Lender {
    sockets: Arc<Mutex<Vec<Socket>>>,
    lent: Arc<AtomicUsize>,
    returned: Arc<AtomicUsize>,
}

struct Loan {
    bytes: Vec<u8>,
    lender: Lender,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let sockets = self.lender.sockets.lock().unwrap().clone();
        for socket in &sockets {
            // Closed ones refuse it.
            let _ = socket.events();
            let _ = socket.send_bytes(b"back", NOW);
        }
        self.lender.returned.fetch_add(1, Ordering::SeqCst);
    }
}

impl Lender {
    fn to(sockets: &[&Socket]) -> Lender {
        Lender {
            sockets: Arc::new(Mutex::new(sockets.iter().copied().cloned().collect())),
            lent: Arc::default(),
            returned: Arc::default(),
        }
    }

    fn lend(&self, first: u8) -> Message {
        self.lent.fetch_add(1, Ordering::SeqCst);
        Message::from_owner(Loan {
            bytes: vec![first; LENGTH],
            lender: self.clone(),
        })
    }

    fn are_back(&self) -> bool {
        self.returned.load(Ordering::SeqCst) == self.lent.load(Ordering::SeqCst)
    }

    /// Another thread may be giving them back.
    fn wait(&self) {
        while !self.are_back() {
            std::thread::yield_now();
        }
    }
}

impl Lender {
    /// The lender keeps the sockets open.
    fn release(&self) {
        let sockets = std::mem::take(&mut *self.sockets.lock().unwrap());
        drop(sockets);
    }

    /// Ends the context, before whose end all bytes must be back.
    fn end_with(&self, context: &Context, case: &str) {
        context.terminate().unwrap();
        assert!(self.are_back(), "{case}");
        self.release();
    }
}

const ENDPOINTS: [&str; 4] = ["inproc://lent", "tcp://127.0.0.1:*", "ipc://*", "shm://*"];

#[test]
fn lent_bytes_that_were_sent_come_back() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let lender = Lender::to(&[&push, &pull]);
        for flags in [LAST, MORE, LAST] {
            push.send(&mut lender.lend(1), flags).unwrap();
        }
        let mut received = 0;
        while received < 3 {
            received += usize::from(pull.receive(false).unwrap().len() == LENGTH);
        }
        lender.wait();
        lender.release();
    }
}

#[test]
fn lent_bytes_of_a_message_received_into_a_buffer_come_back() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "inproc://buffer",
        SocketType::Pull,
        SocketType::Push,
    );
    let lender = Lender::to(&[&push, &pull]);
    for _ in 0..3 {
        push.send(&mut lender.lend(1), LAST).unwrap();
        // What comes back sends to it.
        while pull.receive_into(&mut [0; 10], false).unwrap() != LENGTH {}
    }
    lender.wait();
    lender.release();
}

#[test]
fn lent_bytes_come_back_when_their_socket_closes() {
    for endpoint in ENDPOINTS {
        for linger_ms in [0, 1] {
            let context = Context::new();
            let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
            set_int(&push, LINGER, linger_ms);
            let lender = Lender::to(&[&push, &pull]);
            for _ in 0..20 {
                push.send(&mut lender.lend(1), MORE).unwrap();
                push.send(&mut lender.lend(2), LAST).unwrap();
            }
            // One of a message without an end.
            push.send(&mut lender.lend(3), MORE).unwrap();
            push.close().unwrap();
            pull.close().unwrap();
            lender.end_with(&context, endpoint);
        }
    }
}

#[test]
fn lent_bytes_for_a_peer_that_never_comes_come_back() {
    for endpoint in [
        "tcp://127.0.0.1:1",
        "ipc:///tmp/tidewire-lent-none",
        "inproc://none",
    ] {
        let context = Context::new();
        let dealer = socket(&context, SocketType::Dealer);
        set_int(&dealer, SNDHWM, 3);
        dealer.connect(endpoint).unwrap();
        let lender = Lender::to(&[&dealer]);
        while dealer.send(&mut lender.lend(1), NOW).is_ok() {}
        dealer.disconnect(endpoint).unwrap();
        dealer.close().unwrap();
        lender.end_with(&context, endpoint);
    }
}

#[test]
fn lent_bytes_that_no_socket_takes_come_back() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    set_int(&push, SNDTIMEO, 1);
    let lender = Lender::to(&[&push]);
    let mut message = lender.lend(1);
    assert_eq!(push.send(&mut message, LAST).err(), Some(Error::Again));
    assert_eq!(message.len(), LENGTH);
    drop(message);
    assert!(lender.are_back());
    let router = socket(&context, SocketType::Router);
    lender.sockets.lock().unwrap().push(router.clone());
    router.send(&mut lender.lend(1), MORE).unwrap();
    router.send(&mut lender.lend(2), MORE).unwrap();
    router.send(&mut lender.lend(3), LAST).unwrap();
    let publisher = socket(&context, SocketType::Pub);
    lender.sockets.lock().unwrap().push(publisher.clone());
    publisher.send(&mut lender.lend(1), MORE).unwrap();
    publisher.send(&mut lender.lend(1), LAST).unwrap();
    assert!(lender.are_back());
    lender.release();
}

#[test]
fn lent_bytes_that_are_not_wanted_come_back() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let [publisher, sub] = pair_at(&context, endpoint, SocketType::Xpub, SocketType::Sub);
        set_int(&publisher, SNDHWM, 4);
        set_int(&sub, RCVHWM, 4);
        set(&sub, SUBSCRIBE, b"a");
        assert_eq!(receive(&publisher), [b"\x01a"]);
        let lender = Lender::to(&[&publisher, &sub]);
        for _ in 0..20 {
            // For no one, and beyond the mark.
            publisher.send(&mut lender.lend(b'b'), LAST).unwrap();
            publisher.send(&mut lender.lend(b'a'), LAST).unwrap();
        }
        while sub.receive(true).is_ok() {}
        sub.close().unwrap();
        publisher.close().unwrap();
        lender.end_with(&context, endpoint);
    }
}

#[test]
fn lent_bytes_that_others_replace_come_back() {
    for endpoint in ENDPOINTS {
        let context = Context::new();
        let pull = socket(&context, SocketType::Pull);
        let push = socket(&context, SocketType::Push);
        set_int(&push, CONFLATE, 1);
        set_int(&pull, CONFLATE, 1);
        pull.bind(endpoint).unwrap();
        push.connect(&last_endpoint(&pull)).unwrap();
        let lender = Lender::to(&[&push]);
        for number in 0..50 {
            push.send(&mut lender.lend(number), LAST).unwrap();
        }
        while pull.receive(false).unwrap().as_slice()[0] != b'b' {}
        push.close().unwrap();
        pull.close().unwrap();
        lender.end_with(&context, endpoint);
    }
}

#[test]
fn lent_bytes_that_are_kept_as_a_last_value_come_back() {
    let context = Context::new();
    let publisher = socket(&context, SocketType::Xpub);
    set_int(&publisher, XPUB_MANUAL_LAST_VALUE, 1);
    let lender = Lender::to(&[&publisher]);
    for number in 0..5 {
        publisher.send(&mut lender.lend(number % 2), LAST).unwrap();
    }
    publisher.close().unwrap();
    lender.end_with(&context, "last value");
}

#[test]
fn lent_bytes_come_back_when_their_peer_goes() {
    let context = Context::new();
    let push = socket(&context, SocketType::Push);
    push.bind("tcp://127.0.0.1:*").unwrap();
    let lender = Lender::to(&[&push]);
    for _ in 0..3 {
        let pull = socket(&context, SocketType::Pull);
        pull.connect(&last_endpoint(&push)).unwrap();
        push.send(&mut lender.lend(1), LAST).unwrap();
        assert_eq!(pull.receive(false).unwrap().len(), LENGTH);
        for _ in 0..100 {
            let _ = push.send(&mut lender.lend(1), NOW);
        }
        pull.close().unwrap();
        // A stranger, who says nothing.
        drop(raw_socket(&last_endpoint(&push)));
        while push.events().unwrap().writable {}
        lender.wait();
    }
    lender.release();
}

#[test]
fn lent_bytes_of_an_old_reply_come_back() {
    let context = Context::new();
    let [router, request] = pair_at(
        &context,
        "inproc://old",
        SocketType::Router,
        SocketType::Req,
    );
    set_int(&request, REQ_RELAXED, 1);
    let lender = Lender::to(&[&router, &request]);
    send(&request, &[b"one"]);
    let name = receive(&router).swap_remove(0);
    router.send(&mut Message::from_slice(&name), MORE).unwrap();
    router.send(&mut Message::new(), MORE).unwrap();
    router.send(&mut lender.lend(1), LAST).unwrap();
    send(&request, &[b"two"]);
    assert!(lender.are_back());
    lender.release();
}

/// The thread that gives them back lends and loses others meanwhile.
#[test]
fn lent_bytes_that_come_back_one_after_another_take_no_stack() {
    struct Chain(Context, usize);

    impl AsRef<[u8]> for Chain {
        fn as_ref(&self) -> &[u8] {
            &[7; 1_000]
        }
    }

    impl Drop for Chain {
        fn drop(&mut self) {
            if self.1 > 0 {
                let publisher = socket(&self.0, SocketType::Pub);
                let next = Chain(self.0.clone(), self.1 - 1);
                publisher
                    .send(&mut Message::from_owner(next), MORE)
                    .unwrap();
                publisher.close().unwrap();
            }
        }
    }

    let context = Context::new();
    drop(Message::from_owner(Chain(context.clone(), 2_000)));
    context.terminate().unwrap();
}
