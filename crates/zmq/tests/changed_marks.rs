//! High-water marks that a program changes while a pipe within the process is in use: a writer
//! that waits for room is told when the reader has read.

mod support;

use support::set_int;
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const SNDTIMEO: i32 = 28;
/// A sender that nobody wakes fails after this, and does not hang the test.
const LOST_WAKE_MS: i32 = 10_000;
/// Of each socket: the pipe takes both together.
const MARK: i32 = 1000;
const NOW: SendFlags = SendFlags {
    dont_wait: true,
    more: false,
};

/// PUSH and PULL with this mark each.
fn pair(context: &Context, mark: i32) -> [Socket; 2] {
    let [push, pull] = [SocketType::Push, SocketType::Pull].map(|kind| {
        let socket = context.socket(kind).unwrap();
        for option in [SNDHWM, RCVHWM] {
            set_int(&socket, option, mark);
        }
        socket
    });
    pull.bind("inproc://marks").unwrap();
    push.connect("inproc://marks").unwrap();
    set_int(&push, SNDTIMEO, LOST_WAKE_MS);
    [push, pull]
}

fn send_now(push: &Socket) -> Result<(), Error> {
    push.send(&mut Message::from_slice(b"x"), NOW)
}

/// Sends until the pipe takes no more; how many messages it took.
fn fill(push: &Socket) -> usize {
    (0..10_000).take_while(|_| send_now(push).is_ok()).count()
}

/// Receives until nothing is there; how many messages came.
fn drain(pull: &Socket) -> usize {
    (0..20_000)
        .take_while(|_| pull.receive(true).is_ok())
        .count()
}

fn assert_flows(push: &Socket, pull: &Socket, in_pipe: usize) {
    for _ in 0..3 {
        assert_eq!(fill(push), in_pipe);
        assert_eq!(drain(pull), in_pipe);
    }
    assert_eq!(send_now(push), Ok(()));
}

#[test]
fn lower_marks_let_a_sender_go_on_once_all_is_read() {
    for (mark, later) in [(MARK, 1), (0, 1), (1, MARK), (MARK, 0), (0, MARK)] {
        let context = Context::new();
        let [push, pull] = pair(&context, mark);
        set_int(&push, SNDHWM, later);
        set_int(&pull, RCVHWM, later);
        match later {
            0 => assert_eq!(fill(&push), 10_000, "no bound"),
            _ => assert_flows(&push, &pull, 2 * later as usize),
        }
    }
}

#[test]
fn what_was_read_before_the_marks_were_lowered_is_told() {
    for order in [[0, 1], [1, 0]] {
        let context = Context::new();
        let sockets = pair(&context, MARK);
        let [push, pull] = &sockets;
        (0..2).for_each(|_| send_now(push).unwrap());
        assert_eq!(drain(pull), 2);
        for side in order {
            for option in [SNDHWM, RCVHWM] {
                set_int(&sockets[side], option, 1);
            }
        }
        // It waits: the reader's background thread may be the one that tells.
        let mut message = Message::from_slice(b"x");
        assert!(push.send(&mut message, SendFlags::default()).is_ok());
    }
}

#[test]
fn a_pipe_fuller_than_its_new_marks_opens_once_it_is_read() {
    let context = Context::new();
    let [push, pull] = pair(&context, MARK);
    assert_eq!(fill(&push), 2 * MARK as usize);
    set_int(&pull, RCVHWM, 1);
    set_int(&push, SNDHWM, 1);
    assert_eq!(send_now(&push), Err(Error::Again));
    assert_eq!(drain(&pull), 2 * MARK as usize);
    assert_flows(&push, &pull, 2);
}
