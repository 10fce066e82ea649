//! Programs that poll a socket's descriptor, and how many descriptors that takes. Alone in its
//! file: it counts those of the whole process.

mod support;

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::time::Timespec;
use support::{LAST, last_endpoint, pair_at, socket};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

/// A bare socket took two descriptors, and one that a program polls took four.
#[test]
fn a_socket_takes_one_descriptor_and_each_connection_one_more() {
    const COUNT: usize = 36;
    let context = Context::new();
    let server = socket(&context, SocketType::Router);
    server.bind("tcp://127.0.0.1:*").unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let clients: Vec<Socket> = (0..COUNT)
        .map(|_| socket(&context, SocketType::Dealer))
        .collect();
    // A few more, which many sockets share.
    const SHARED: usize = 6;
    assert!(open() - before <= COUNT + SHARED);
    for client in &clients {
        client.descriptor().unwrap();
    }
    assert!(open() - before <= COUNT + SHARED, "polled");
    for client in &clients {
        client.connect(&last_endpoint(&server)).unwrap();
        client
            .send(&mut Message::from_slice(b"here"), LAST)
            .unwrap();
    }
    for _ in &clients {
        support::receive(&server);
    }
    assert!(
        open() - before <= 3 * COUNT + SHARED,
        "both ends of each connection"
    );
    every_message_is_told(epoll::EventFlags::IN);
    every_message_is_told(epoll::EventFlags::IN | epoll::EventFlags::ET);
    an_option_takes_no_message_from_the_descriptor();
}

/// A look at any option answered the bell of a message, and the descriptor stayed silent.
fn an_option_takes_no_message_from_the_descriptor() {
    let context = Context::new();
    for endpoint in ["inproc://option", "shm://*", "ipc://*"] {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let descriptor = pull.descriptor().unwrap();
        for number in 0..3_u8 {
            while pull.events().unwrap().readable {}
            // Past the moment for which a socket stays awake.
            std::thread::sleep(std::time::Duration::from_millis(20));
            support::send(&push, &[&[number]]);
            last_endpoint(&pull);
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            let patience = Timespec {
                tv_sec: 20,
                tv_nsec: 0,
            };
            assert_eq!(poll(&mut polled, Some(&patience)), Ok(1), "{endpoint}");
            assert_eq!(support::receive(&pull), [[number]], "{endpoint}");
        }
    }
}

/// A reader that sleeps on the descriptor alone hears of every message, also if its epoll tells
/// only what is new.
fn every_message_is_told(flags: epoll::EventFlags) {
    const MESSAGES: u32 = 5_000;
    let context = Context::new();
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://told"] {
        let [pull, push] = pair_at(&context, endpoint, SocketType::Pull, SocketType::Push);
        let watching = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let data = epoll::EventData::new_u64(1);
        epoll::add(&watching, pull.descriptor().unwrap().as_fd(), data, flags).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..MESSAGES {
                    let mut message = Message::from_slice(&number.to_be_bytes());
                    push.send(&mut message, LAST).unwrap();
                    // One at a time, some at a time, and with pauses.
                    match number % 7 {
                        0 => std::thread::yield_now(),
                        3 => std::thread::sleep(std::time::Duration::from_micros(60)),
                        _ => {}
                    }
                }
            });
            let mut next = 0;
            while next < MESSAGES {
                let patience = Timespec {
                    tv_sec: 20,
                    tv_nsec: 0,
                };
                let mut space = [MaybeUninit::uninit(); 2];
                let (told, _) = epoll::wait(&watching, &mut space, Some(&patience)).unwrap();
                assert_eq!(told.len(), 1, "{endpoint} sleeps over message {next}");
                while pull.events().unwrap().readable {
                    let frame = match pull.receive(true) {
                        Ok(frame) => frame,
                        Err(Error::Again) => break,
                        Err(error) => panic!("{error}"),
                    };
                    assert_eq!(frame.as_slice(), next.to_be_bytes());
                    next += 1;
                }
            }
        });
        let now = SendFlags {
            dont_wait: true,
            ..LAST
        };
        push.send(&mut Message::new(), now).unwrap();
    }
}
