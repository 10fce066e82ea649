//! `CONFLATE_TOPICS` where connections come and go: the newest message of each topic arrives whole,
//! no older one behind a newer one, and what waits is bounded by the number of topics.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use support::{SUBSCRIBE, last_endpoint, receive, send, set, set_int, socket};
use tidewire_zmq::own_options::CONFLATE_TOPICS;
use tidewire_zmq::{Context, Error, Socket, SocketType};

const UNSUBSCRIBE: i32 = 7;
const LINGER: i32 = 17;
const RECONNECT_IVL: i32 = 18;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const TOPICS: u8 = 50;
const ROUNDS: u32 = 20;

/// Endpoints that can be bound again under the name that they tell.
fn endpoints() -> [String; 5] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("@tidewire-topics-{}-{number}", std::process::id());
    [
        "tcp://127.0.0.1:*".to_owned(),
        format!("ipc://{name}"),
        format!("shm://{name}"),
        "ws://127.0.0.1:*".to_owned(),
        "inproc://topics".to_owned(),
    ]
}

/// The same without the one whose connections are not made again.
fn lasting_endpoints() -> impl Iterator<Item = String> {
    endpoints().into_iter().take(4)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn publisher(context: &Context) -> Socket {
    let publisher = socket(context, SocketType::Pub);
    set_int(&publisher, LINGER, -1);
    set_int(&publisher, RECONNECT_IVL, 5);
    set_int(&publisher, SNDHWM, 1);
    set_int(&publisher, CONFLATE_TOPICS, 1);
    publisher
}

fn subscriber(context: &Context) -> Socket {
    let sub = socket(context, SocketType::Sub);
    set_int(&sub, RECONNECT_IVL, 5);
    set_int(&sub, RCVHWM, 1);
    set_int(&sub, CONFLATE_TOPICS, 1);
    set(&sub, SUBSCRIBE, b"");
    sub
}

/// Publishes a change of each topic; the change says how long its last frame is.
fn publish(publisher: &Socket, change: u32) {
    for topic in 0..TOPICS {
        let tail = vec![topic; change as usize * 7 % 300];
        send(publisher, &[&[topic], &change.to_ne_bytes(), &tail]);
    }
}

fn sent_to_all(publisher: &Socket) -> u64 {
    publisher
        .peers()
        .unwrap()
        .iter()
        .map(|peer| peer.sent)
        .sum()
}

/// What a subscriber has received.
#[derive(Debug, Default)]
struct Received {
    newest: BTreeMap<u8, u32>,
    count: usize,
}

impl Received {
    fn take(&mut self, message: &[Vec<u8>], what: &str) {
        if message.len() == 1 {
            return;
        }
        let [topic, change, tail] = message else {
            panic!("{what}: {message:?} is not whole");
        };
        let change = u32::from_ne_bytes(change[..].try_into().unwrap());
        assert_eq!(*tail, vec![topic[0]; change as usize * 7 % 300], "{what}");
        let before = self.newest.insert(topic[0], change).unwrap_or(0);
        assert!(change > before, "{what}: {change} behind {before}");
        self.count += 1;
    }

    /// Receives until each topic has come to this change.
    fn take_until(&mut self, sub: &Socket, change: u32, what: &str) {
        let is_there = |newest: &BTreeMap<u8, u32>| {
            newest.len() == usize::from(TOPICS) && newest.values().all(|&known| known == change)
        };
        while !is_there(&self.newest) {
            self.take(&receive(sub), what);
        }
        // The question is a topic, too, and may wait behind those.
        let left = std::iter::repeat_with(|| sub.receive(true)).take_while(Result::is_ok);
        for question in left.flatten() {
            assert_eq!(question.as_ref(), QUESTION, "{what}");
        }
        assert_eq!(sub.receive(true).unwrap_err(), Error::Again, "{what}");
    }
}

/// What a publisher sends until a subscriber has it.
const QUESTION: &[u8] = b"are you there?";

/// Waits for the subscription of the other side.
fn meet(publisher: &Socket, what: &str) {
    wait_until(what, || {
        let before = sent_to_all(publisher);
        send(publisher, &[QUESTION]);
        sent_to_all(publisher) > before
    });
}

/// What each had left was kept, as many messages of a topic as there had been publishers; and it
/// was received behind what came later.
#[test]
fn what_publishers_leave_behind_does_not_add_up_and_comes_before_what_is_newer() {
    for endpoint in endpoints() {
        let endpoint = endpoint.as_str();
        let context = Context::new();
        let sub = subscriber(&context);
        sub.bind(endpoint).unwrap();
        let place = last_endpoint(&sub);
        let mut last = None;
        for round in 1..=ROUNDS {
            drop(last.take());
            wait_until(endpoint, || {
                // A look at the network, as a program's calls have.
                let _ = sub.events();
                sub.peers().unwrap().is_empty()
            });
            let publisher = publisher(&context);
            publisher.connect(&place).unwrap();
            meet(&publisher, endpoint);
            publish(&publisher, round * 2 - 1);
            publish(&publisher, round * 2);
            last = Some(publisher);
        }
        let mut received = Received::default();
        received.take_until(&sub, ROUNDS * 2, endpoint);
        // Once of each of the last eight publishers that are gone, and of the others together, and
        // up to twice of the one that is there.
        assert!(
            received.count <= 11 * usize::from(TOPICS),
            "{endpoint}: {received:?}"
        );
    }
}

#[test]
fn a_publisher_that_comes_back_to_its_place_replaces_what_waits() {
    for endpoint in endpoints() {
        let endpoint = endpoint.as_str();
        let context = Context::new();
        let sub = subscriber(&context);
        let mut place = endpoint.to_owned();
        let mut is_connected = false;
        let mut last = None;
        for round in 1..=ROUNDS {
            drop(last.take());
            let mut bound = publisher(&context);
            wait_until(endpoint, || {
                let is_bound = bound.bind(&place).is_ok();
                if !is_bound {
                    bound = publisher(&context);
                }
                is_bound
            });
            place = last_endpoint(&bound);
            if !is_connected || endpoint.starts_with("inproc") {
                // A connection within the process is not made again by itself.
                sub.connect(&place).unwrap();
                is_connected = true;
            }
            meet(&bound, endpoint);
            publish(&bound, round * 2 - 1);
            publish(&bound, round * 2);
            last = Some(bound);
        }
        let mut received = Received::default();
        received.take_until(&sub, ROUNDS * 2, endpoint);
        // In one process each connection is a peer of its own, which leaves behind what waits.
        let most = if endpoint.starts_with("inproc") {
            11
        } else {
            3
        };
        assert!(
            received.count <= most * usize::from(TOPICS),
            "{endpoint}: {received:?}"
        );
    }
}

#[test]
fn a_subscriber_that_comes_back_gets_the_newest_of_each_topic_once() {
    for endpoint in lasting_endpoints() {
        let endpoint = endpoint.as_str();
        let context = Context::new();
        let publisher = publisher(&context);
        let mut place = endpoint.to_owned();
        let mut change = 0;
        for round in 0..ROUNDS {
            let mut sub = subscriber(&context);
            wait_until(endpoint, || {
                let is_bound = sub.bind(&place).is_ok();
                if !is_bound {
                    sub = subscriber(&context);
                }
                is_bound
            });
            if round == 0 {
                place = last_endpoint(&sub);
                publisher.connect(&place).unwrap();
                meet(&publisher, endpoint);
                publish(&publisher, 1);
                change = 1;
            }
            let mut received = Received::default();
            received.take_until(&sub, change, endpoint);
            if round > 0 {
                assert_eq!(received.count, usize::from(TOPICS), "{endpoint}");
            }
            drop(sub);
            wait_until(endpoint, || {
                let _ = publisher.events();
                !publisher.peers().unwrap()[0].is_connected
            });
            for _ in 0..5 {
                change += 1;
                publish(&publisher, change);
            }
            let queued = publisher.peers().unwrap()[0].queued;
            assert_eq!(queued, u64::from(TOPICS), "{endpoint}");
        }
        set_int(&publisher, LINGER, 0);
    }
}

#[test]
fn subscriptions_that_change_while_a_publisher_is_away_count_when_it_is_back() {
    for endpoint in lasting_endpoints() {
        let endpoint = endpoint.as_str();
        let context = Context::new();
        let sub = subscriber(&context);
        let first = publisher(&context);
        first.bind(endpoint).unwrap();
        let place = last_endpoint(&first);
        sub.connect(&place).unwrap();
        meet(&first, endpoint);
        publish(&first, 1);
        drop(first);
        set(&sub, UNSUBSCRIBE, b"");
        set(&sub, SUBSCRIBE, &[7]);
        set(&sub, SUBSCRIBE, &[9]);
        let mut back = publisher(&context);
        wait_until(endpoint, || {
            let is_bound = back.bind(&place).is_ok();
            if !is_bound {
                back = publisher(&context);
            }
            is_bound
        });
        wait_until(endpoint, || {
            let before = sent_to_all(&back);
            send(&back, &[&[9]]);
            sent_to_all(&back) > before
        });
        publish(&back, 2);
        publish(&back, 3);
        let mut received = Received::default();
        while received.newest.len() < 2 || received.newest.values().any(|&change| change < 3) {
            received.take(&receive(&sub), endpoint);
        }
        assert_eq!(
            received.newest,
            BTreeMap::from([(7, 3), (9, 3)]),
            "{endpoint}"
        );
    }
}
