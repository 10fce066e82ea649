//! Captures written by hand, byte by byte.

use proptest::prelude::*;

use super::*;

/// Returns an Ethernet frame with a UDP datagram from 10.0.0.1:1000 to 233.54.12.1:26400.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0x5e, 54, 12, 1, 2, 0, 0, 0, 0, 1];
    // A VLAN tag.
    bytes.extend([0x81, 0, 0, 7, 8, 0]);
    let total = (28 + payload.len() as u16).to_be_bytes();
    bytes.extend([0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend([10, 0, 0, 1, 233, 54, 12, 1]);
    let length = (8 + payload.len() as u16).to_be_bytes();
    bytes.extend([0x03, 0xe8, 0x67, 0x20, length[0], length[1], 0, 0]);
    bytes.extend(payload);
    // Ethernet pads short frames.
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

fn u32s(words: &[u32], big: bool) -> Vec<u8> {
    let bytes = |word: &u32| {
        if big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    words.iter().flat_map(bytes).collect()
}

fn classic(frames: &[Vec<u8>], big: bool, nanos: bool) -> Vec<u8> {
    let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let version = if big { 0x0002_0004 } else { 0x0004_0002 };
    let mut file = u32s(&[magic, version, 0, 0, 65_535, 1], big);
    for (number, frame) in (0_u32..).zip(frames) {
        let length = frame.len() as u32;
        file.extend(u32s(&[100 + number, 5, length, length], big));
        file.extend(frame);
    }
    file
}

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = body.len() as u32 + 12;
    [u32s(&[kind, length], big), body, u32s(&[length], big)].concat()
}

fn sections(frames: &[Vec<u8>], big: bool) -> Vec<u8> {
    let version = if big { 0x0001_0000 } else { 1 };
    let section = u32s(&[0x1a2b_3c4d, version, u32::MAX, u32::MAX], big);
    let mut file = block(0x0a0d_0d0a, &section, big);
    // Ethernet, nanoseconds, one hour ahead.
    let link = if big { 0x0001_0000 } else { 1 };
    let mut interface = u32s(&[link, 0], big);
    let option = |code: u16, length: u16| match big {
        true => [code.to_be_bytes(), length.to_be_bytes()].concat(),
        false => [code.to_le_bytes(), length.to_le_bytes()].concat(),
    };
    interface.extend(option(9, 1));
    interface.extend([9, 0, 0, 0]);
    interface.extend(option(14, 8));
    interface.extend(match big {
        true => 3_600_u64.to_be_bytes(),
        false => 3_600_u64.to_le_bytes(),
    });
    interface.extend(option(0, 0));
    file.extend(block(1, &interface, big));
    for frame in frames {
        file.extend(block(5, b"statistics", big));
        let length = frame.len() as u32;
        let mut body = u32s(&[0, 0, 1_000_000_007, length, length], big);
        body.extend(frame);
        file.extend(block(6, &body, big));
    }
    let mut simple = u32s(&[frames[0].len() as u32], big);
    simple.extend(&frames[0]);
    file.extend(block(3, &simple, big));
    file
}

/// Returns all datagrams of a file read in pieces: time, destination port and payload.
fn read(file: &[u8], piece: usize) -> Result<Vec<(u64, u16, Vec<u8>)>, CaptureError> {
    let (mut decoder, mut found) = (Decoder::new(), Vec::new());
    let (mut from, mut until) = (0, 0);
    loop {
        match decoder.next(&file[from..until])? {
            Step::NeedMore if until == file.len() => {
                assert_eq!(from, until, "nothing is left over");
                return Ok(found);
            }
            Step::NeedMore => until = file.len().min(until + piece),
            Step::Skip(used) => from += used,
            Step::Frame(frame, used) => {
                let datagram = udp(frame.link, frame.bytes).unwrap();
                let port = datagram.destination.port();
                found.push((frame.time_ns, port, datagram.payload.to_vec()));
                from += used;
            }
        }
    }
}

#[test]
fn both_formats_are_read_in_either_byte_order_and_in_pieces() {
    let frames = [frame(b"one"), frame(b"two two two two two two two two two")];
    let payloads = [
        b"one".to_vec(),
        b"two two two two two two two two two".to_vec(),
    ];
    for big in [false, true] {
        for (nanos, fraction_ns) in [(false, 5_000), (true, 5)] {
            let file = classic(&frames, big, nanos);
            assert!(looks_like_file(&file));
            for piece in [1, 7, file.len()] {
                let found = read(&file, piece).unwrap();
                let expected = |number: u64| {
                    let time_ns = (100 + number) * 1_000_000_000 + fraction_ns;
                    (time_ns, 26_400, payloads[number as usize].clone())
                };
                assert_eq!(found, [expected(0), expected(1)]);
            }
        }
        let file = sections(&frames, big);
        assert!(looks_like_file(&file));
        for piece in [1, 13, file.len()] {
            let found = read(&file, piece).unwrap();
            let time_ns = 3_601_000_000_007;
            let expected = [
                (time_ns, 26_400, payloads[0].clone()),
                (time_ns, 26_400, payloads[1].clone()),
                (0, 26_400, payloads[0].clone()),
            ];
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn what_is_no_datagram_says_why() {
    let whole = frame(b"abc");
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    assert!(udp(Link::ETHERNET, &whole).is_ok());
    assert_eq!(udp(Link::ETHERNET, &whole[..30]), Err(NotUdp::Cut));
    assert_eq!(
        udp(Link::ETHERNET, &changed(16, 9)),
        Err(NotUdp::OtherProtocol)
    );
    assert_eq!(
        udp(Link::ETHERNET, &changed(27, 6)),
        Err(NotUdp::OtherProtocol)
    );
    assert_eq!(
        udp(Link::ETHERNET, &changed(24, 0x20)),
        Err(NotUdp::Fragment)
    );
    assert_eq!(udp(Link::ETHERNET, &changed(18, 0x44)), Err(NotUdp::Cut));
    assert_eq!(udp(Link::ETHERNET, &changed(43, 4)), Err(NotUdp::Cut));
    assert_eq!(udp(Link(77), &whole), Err(NotUdp::UnknownLink(Link(77))));
    let raw = udp(Link(101), &whole[18..]).unwrap();
    assert_eq!(raw.payload, b"abc");
    assert_eq!(raw.source.to_string(), "10.0.0.1:1000");
}

#[test]
fn version_6_is_read_too() {
    let mut bytes = vec![0; 4];
    bytes.extend([0x60, 0, 0, 0, 0, 11, 17, 64]);
    bytes.extend([0; 15]);
    bytes.push(1);
    bytes.extend([0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    bytes.extend([0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c']);
    let datagram = udp(Link::NULL, &bytes).unwrap();
    assert_eq!(datagram.destination.to_string(), "[ff02::5]:2");
    assert_eq!(datagram.payload, b"abc");
}

#[test]
fn broken_files_are_errors_and_not_allocations() {
    assert_eq!(read(b"hello, world", 12), Err(CaptureError::UnknownFormat));
    let mut file = classic(&[frame(b"x")], false, false);
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let bad = CaptureError::BadLength(u32::MAX.into());
    assert_eq!(read(&file, 10_000), Err(bad));
    let mut file = sections(&[frame(b"x")], false);
    let interface = 28;
    file[interface..interface + 4].copy_from_slice(&99_u32.to_le_bytes());
    assert_eq!(read(&file, 10_000), Err(CaptureError::UnknownInterface(0)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        kind in 0..5_usize,
    ) {
        let good = [
            classic(&[frame(b"x")], false, true),
            classic(&[frame(b"x")], true, false),
            sections(&[frame(b"x")], false),
            sections(&[frame(b"x")], true),
            Vec::new(),
        ];
        let keep = bytes.first().copied().unwrap_or_default() as usize;
        let mut file = good[kind].clone();
        file.truncate(keep.max(4));
        file.append(&mut bytes);
        crate::fuzzing::fuzz_capture(&file);
    }
}
