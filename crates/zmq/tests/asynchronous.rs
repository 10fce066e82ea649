//! Sockets as `Stream` and `Sink`, driven by an executor of a few lines: no runtime is needed.

mod support;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use futures_core::Stream;
use futures_sink::Sink;
use support::{last_endpoint, pair_at, receive, send, set_int, socket};
use tidewire_zmq::own_options::CONFLATE_TOPICS;
use tidewire_zmq::{Context, Multipart, Socket, SocketType};

const SUBSCRIBE: i32 = 6;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;

struct Unpark(Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(unpark);
    let mut task = TaskContext::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

async fn feed(sink: &mut Socket, message: Multipart) {
    poll_fn(|task| Pin::new(&mut *sink).poll_ready(task))
        .await
        .unwrap();
    Pin::new(&mut *sink).start_send(message).unwrap();
}

async fn flush(sink: &mut Socket) {
    poll_fn(|task| Pin::new(&mut *sink).poll_flush(task))
        .await
        .unwrap();
}

async fn next(stream: &mut Socket) -> Option<Multipart> {
    let item = poll_fn(|task| Pin::new(&mut *stream).poll_next(task)).await;
    item.map(Result::unwrap)
}

#[test]
fn a_sink_and_a_stream_carry_messages_and_end_with_the_context() {
    const MESSAGES: u32 = 2_000;
    for endpoint in ["inproc://tasks", "ipc://*", "shm://*", "tcp://127.0.0.1:*"] {
        let context = Context::new();
        let [mut pull, mut push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let sender = std::thread::spawn(move || {
            block_on(async {
                for number in 0..MESSAGES {
                    let text = number.to_string();
                    feed(&mut push, Multipart::from([text.as_str(), "payload"])).await;
                }
                flush(&mut push).await;
            });
            push
        });
        block_on(async {
            for number in 0..MESSAGES {
                let message = next(&mut pull).await.unwrap();
                assert_eq!(*message[0], *number.to_string().as_bytes());
                assert_eq!(*message[1], *b"payload");
            }
        });
        drop(sender.join().unwrap());
        let waiting = std::thread::spawn(move || block_on(next(&mut pull)).is_none());
        std::thread::sleep(Duration::from_millis(20));
        context.shutdown();
        assert!(waiting.join().unwrap(), "the stream has ended");
    }
}

#[test]
fn a_sink_that_is_full_is_ready_when_there_is_room() {
    let context = Context::new();
    let [mut push, pull] = [SocketType::Push, SocketType::Pull].map(|kind| socket(&context, kind));
    for socket in [&push, &pull] {
        set_int(socket, SNDHWM, 2);
        set_int(socket, RCVHWM, 2);
    }
    push.bind("inproc://narrow").unwrap();
    pull.connect("inproc://narrow").unwrap();
    for _ in 0..4 {
        send(&push, &[b"queued"]);
    }
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut task = TaskContext::from_waker(&waker);
    assert!(Pin::new(&mut push).poll_ready(&mut task).is_pending());
    for _ in 0..4 {
        receive(&pull);
    }
    while unpark.1.load(Ordering::SeqCst) == 0 {
        std::thread::park_timeout(Duration::from_secs(5));
    }
    assert!(Pin::new(&mut push).poll_ready(&mut task).is_ready());
    Pin::new(&mut push)
        .start_send(Multipart::from("late"))
        .unwrap();
    assert_eq!(receive(&pull), [b"late"]);
}

#[test]
fn a_task_that_waits_is_woken_for_the_newest_of_each_topic() {
    let context = Context::new();
    for endpoint in ["tcp://127.0.0.1:*", "inproc://newest"] {
        let [publisher, mut sub] =
            [SocketType::Xpub, SocketType::Sub].map(|kind| socket(&context, kind));
        set_int(&sub, CONFLATE_TOPICS, 1);
        sub.set_option(SUBSCRIBE, b"").unwrap();
        publisher.bind(endpoint).unwrap();
        sub.connect(&last_endpoint(&publisher)).unwrap();
        assert_eq!(receive(&publisher), [b"\x01"]);
        let thread = std::thread::spawn(move || {
            for change in 1..=3_000_u32 {
                send(&publisher, &[b"topic", &change.to_ne_bytes()]);
            }
            publisher
        });
        let mut newest = 0;
        while newest < 3_000 {
            let message = block_on(next(&mut sub)).unwrap();
            let change = u32::from_ne_bytes(message[1][..].try_into().unwrap());
            assert!(change > newest, "{change} behind {newest}");
            newest = change;
        }
        thread.join().unwrap();
    }
}

/// Counts how often it is woken.
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_that_waits_to_receive_is_not_woken_because_it_could_send() {
    let context = Context::new();
    let [waits, other] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Dealer,
        SocketType::Dealer,
    );
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut task = TaskContext::from_waker(&waker);
    let mut future = std::pin::pin!(waits.receive_async());
    for _ in 0..20 {
        assert!(future.as_mut().poll(&mut task).is_pending());
        // As long as the background thread looks at sockets twice.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), 0, "nothing has come");
    send(&other, &[b"news"]);
    while woken.0.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(future.as_mut().poll(&mut task).is_ready());
}

#[test]
fn a_future_that_is_dropped_leaves_no_waker_behind() {
    let context = Context::new();
    let [pull, _push] = pair_at(
        &context,
        "inproc://dropped",
        SocketType::Pull,
        SocketType::Push,
    );
    for _ in 0..1_000 {
        // Another waker each time, as futures in a set have.
        let own = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&own));
        let mut task = TaskContext::from_waker(&waker);
        let mut future = Box::pin(pull.receive_async());
        assert!(future.as_mut().poll(&mut task).is_pending());
        drop((future, waker));
        assert_eq!(Arc::strong_count(&own), 1, "nothing else keeps the waker");
    }
}

#[test]
fn two_futures_of_one_task_wait_for_one_socket() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Pull,
        SocketType::Push,
    );
    let waker = Waker::from(Arc::new(Unpark(
        std::thread::current(),
        AtomicUsize::new(0),
    )));
    let mut task = TaskContext::from_waker(&waker);
    let mut first = Box::pin(pull.receive_async());
    let mut second = Box::pin(pull.receive_async());
    assert!(first.as_mut().poll(&mut task).is_pending());
    assert!(second.as_mut().poll(&mut task).is_pending());
    // The first gives up; the second still waits.
    drop(first);
    send(&push, &[b"for the second"]);
    while second.as_mut().poll(&mut task).is_pending() {
        std::thread::park();
    }
}

#[test]
fn futures_that_are_dropped_at_random_lose_and_double_nothing() {
    const MESSAGES: u32 = 3_000;
    for endpoint in ["inproc://cancelled", "tcp://127.0.0.1:*"] {
        let context = Context::new();
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let sender = std::thread::spawn(move || {
            let mut random = 7_u64;
            let mut sent = 0;
            while sent < MESSAGES {
                let message = Multipart::from([sent.to_string().as_str(), "second frame"]);
                let mut future = Box::pin(push.send_async(message));
                sent += u32::from(polled_at_random(&mut random, &mut future).is_some());
            }
            push
        });
        let mut random = 3_u64;
        let mut received = 0;
        while received < MESSAGES {
            let mut future = Box::pin(pull.receive_async());
            let Some(message) = polled_at_random(&mut random, &mut future) else {
                continue;
            };
            let message = message.unwrap();
            assert_eq!(message.len(), 2);
            assert_eq!(&*message[0], received.to_string().as_bytes());
            received += 1;
        }
        drop(sender.join().unwrap());
    }
}

/// Polls a future up to three times, and then gives it up.
fn polled_at_random<F: Future>(random: &mut u64, future: &mut Pin<Box<F>>) -> Option<F::Output> {
    let waker = Waker::noop();
    let mut task = TaskContext::from_waker(waker);
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    for _ in 0..=(*random >> 33) % 3 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Some(output);
        }
        std::thread::yield_now();
    }
    None
}
