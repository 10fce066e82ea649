use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::*;
use crate::{Offer, Spin};

const BYTES: Wants = Wants {
    bytes: true,
    room: false,
};
const ROOM: Wants = Wants {
    bytes: false,
    room: true,
};

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn pair(sizes: Sizes) -> (Channel, Channel) {
    let (one, other) = sockets();
    let offerer = Channel::offer(one, sizes).unwrap();
    let offer = Offer::receive(&other).unwrap().expect("it was sent");
    (offerer, offer.accept(other))
}

fn write(channel: &mut Channel, bytes: &[u8]) -> Result<usize, Errno> {
    channel.write(&[IoSlice::new(bytes)])
}

fn read(channel: &mut Channel) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 1 << 20];
    let count = channel.read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn is_rung(channel: &Channel) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    poll(&mut polled, Some(&rustix::time::Timespec::default())).unwrap() > 0
}

#[test]
fn both_directions_carry_bytes_in_order_and_have_their_own_sizes() {
    let (mut one, mut other) = pair(Sizes::near(5000, 100));
    assert_eq!(write(&mut one, &[1; 10_000]), Ok(8192));
    assert_eq!(write(&mut one, &[1; 10_000]), Err(Errno::AGAIN));
    assert_eq!(write(&mut other, &[2; 10_000]), Ok(4096));
    assert_eq!(read(&mut one).unwrap(), [2; 4096]);
    let slices = [b"abc".as_slice(), b"", b"def"].map(IoSlice::new);
    assert_eq!(other.write(&slices), Ok(6));
    let mut bytes = Vec::with_capacity(4);
    let room = bytes.capacity();
    assert_eq!(one.read_to(&mut bytes), Ok(room.min(6)));
    assert_eq!(bytes, b"abcdef"[..room.min(6)]);
    assert_eq!(read(&mut other).unwrap(), [1; 8192]);
    assert_eq!(read(&mut other), Err(Errno::AGAIN));
}

#[test]
fn a_long_message_goes_through_a_short_ring() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    let sent: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    let (mut at, mut received) = (0, Vec::new());
    while received.len() < sent.len() {
        if at < sent.len() {
            at += write(&mut one, &sent[at..]).unwrap();
        }
        received.extend(read(&mut other).unwrap());
    }
    assert!(received == sent);
}

#[test]
fn a_peer_that_is_awake_is_not_woken_and_one_that_sleeps_is_once() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    assert_eq!(write(&mut one, b"a"), Ok(1));
    assert!(!is_rung(&other));
    assert!(other.arm(BYTES), "something is there");
    assert_eq!(read(&mut other).unwrap(), b"a");
    assert!(!other.arm(BYTES) && other.is_armed(BYTES) && !other.is_armed(ROOM));
    assert_eq!(write(&mut one, b"b"), Ok(1));
    assert_eq!(write(&mut one, b"c"), Ok(1));
    assert!(is_rung(&other));
    other.hear();
    assert!(!is_rung(&other) && !other.is_armed(BYTES));
    assert_eq!(read(&mut other).unwrap(), b"bc");
}

#[test]
fn a_writer_is_woken_when_half_of_the_ring_is_free() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    assert_eq!(write(&mut one, &[0; 5000]), Ok(4096));
    assert!(!one.arm(ROOM));
    assert_eq!(other.read(&mut [0; 1000]), Ok(1000));
    assert!(!is_rung(&one));
    assert_eq!(other.read(&mut [0; 1048]), Ok(1048));
    assert!(is_rung(&one) && one.is_ready(ROOM));
    one.hear();
    assert!(!one.is_armed(ROOM));
}

#[test]
fn what_a_peer_wrote_before_it_went_is_read_and_then_the_end() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    assert_eq!(write(&mut one, b"last words"), Ok(10));
    drop(one);
    other.hear();
    assert!(other.is_closed() && other.is_ready(BYTES));
    assert_eq!(read(&mut other).unwrap(), b"last words");
    assert_eq!(read(&mut other).unwrap(), b"");
    assert!(other.is_ready(BYTES), "the end stays");
}

/// It was taken for the end, and what lay in the ring was lost.
#[test]
fn a_read_into_no_room_is_not_the_end_of_a_ring_that_has_something() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    assert_eq!(write(&mut one, b"last words"), Ok(10));
    drop(one);
    other.hear();
    assert!(other.is_closed());
    assert_eq!(other.read(&mut []), Err(Errno::AGAIN));
    assert_eq!(other.read_to(&mut Vec::new()), Err(Errno::AGAIN));
    assert_eq!(read(&mut other).unwrap(), b"last words");
    assert_eq!(read(&mut other), Ok(Vec::new()));
}

#[test]
fn a_write_to_a_peer_that_slept_and_is_gone_fails() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    assert!(!other.arm(BYTES));
    drop(other);
    assert_eq!(write(&mut one, b"a"), Err(Errno::PIPE));
}

#[test]
fn an_offer_is_taken_although_who_made_it_is_gone() {
    let (one, other) = sockets();
    let mut offerer = Channel::offer(one, Sizes::near(4096, 4096)).unwrap();
    assert_eq!(write(&mut offerer, b"hello"), Ok(5));
    drop(offerer);
    let offer = Offer::receive(&other).unwrap().expect("it was sent");
    let mut taker = offer.accept(other);
    taker.hear();
    assert_eq!(read(&mut taker).unwrap(), b"hello");
    assert_eq!(read(&mut taker).unwrap(), b"");
}

#[test]
fn what_is_no_offer_is_refused() {
    let (one, other) = sockets();
    assert!(matches!(Offer::receive(&other), Ok(None)));
    // As a ZMTP peer begins, and an offer without its memory.
    for message in [
        b"\xff\0\0\0\0\0\0\0\x01\x7f".as_slice(),
        b"TWRINGS1\0\x10\0\0\0\x10\0\0",
    ] {
        send(&one, message, SendFlags::empty()).unwrap();
        assert_eq!(Offer::receive(&other).err(), Some(Errno::PROTO));
    }
    drop(one);
    assert_eq!(Offer::receive(&other).err(), Some(Errno::CONNRESET));
}

/// The peer's memory may be as it likes: it breaks its own connection.
#[test]
fn a_ring_that_the_peer_filled_with_nonsense_is_an_error() {
    let (mut one, mut other) = pair(Sizes::near(4096, 4096));
    for word in other.memory().words() {
        word.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    }
    assert!(one.arm(BYTES) && one.is_ready(ROOM));
    assert_eq!(read(&mut one), Err(Errno::PROTO));
    assert_eq!(one.write(&[IoSlice::new(&[0; 5000])]), Err(Errno::PROTO));
    assert_eq!(read(&mut other), Err(Errno::PROTO));
}

/// It would have to read its wake-ups; the writer does not wait for it.
#[test]
fn a_peer_that_takes_no_wake_ups_blocks_no_writer() {
    let (mut one, mut other) = pair(Sizes::near(1 << 20, 4096));
    for round in 0..20_000 {
        other.reader.ask();
        assert_eq!(write(&mut one, b"a"), Ok(1), "{round}");
    }
    other.hear();
    assert_eq!(read(&mut other).unwrap().len(), 20_000);
}

#[test]
fn a_spin_ends_with_what_it_waits_for_with_a_reason_to_stop_or_in_time() {
    let (mut one, other) = pair(Sizes::near(4096, 4096));
    let mut spin = Spin::default();
    assert!(spin.is_empty() && other.spin_for(BYTES, &mut spin) && !spin.is_empty());
    let long = Instant::now() + Duration::from_secs(60);
    assert!(!spin.run(Instant::now(), || false));
    assert!(spin.run(long, || true));
    std::thread::scope(|scope| {
        scope.spawn(|| write(&mut one, b"a").unwrap());
        assert!(spin.run(long, || false));
    });
    let wants = Wants {
        bytes: true,
        room: true,
    };
    for _ in 0..3 {
        assert!(other.spin_for(wants, &mut spin));
    }
    assert!(!other.spin_for(wants, &mut spin), "it looks at a few rings");
}

#[test]
fn sizes_are_powers_of_two_within_bounds() {
    assert_eq!(Sizes::near(0, usize::MAX), Sizes::near(1, 64 << 20));
    assert_eq!(Sizes::near(4097, 4096), Sizes::near(8192, 1));
}
