use super::*;
use crate::fuzzing::sealed;
use proptest::prelude::*;
use tidewire_feed::wire::{Flags, Message, PacketWriter, Trade};

fn header() -> FrameHeader {
    FrameHeader {
        flags: FrameFlags::GAP,
        first: 0x0102_0304_0506_0708,
        epoch: 0x1112_1314_1516,
        origin: 0x2122,
        session: 0x3132_3334,
        count: 2,
    }
}

fn packets(session: u32, first: u64, counts: &[usize]) -> Vec<u8> {
    let (mut body, mut next) = (Vec::new(), first);
    for &count in counts {
        let mut writer = PacketWriter::new(&mut body, session, Flags::NONE, next, 65_535);
        (0..count).for_each(|_| writer.push(&Message::Trade(Trade::default())));
        next = writer.finish();
    }
    body
}

/// The layout that hubs of other versions read.
#[test]
fn a_header_has_these_bytes() {
    let frame = sealed(header(), &[0xaa, 0xbb]);
    #[rustfmt::skip]
    let golden = [
        0x54, 0x43, 1, 1, 0x64, 0x3b, 0x3e, 0xdf,
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
        0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x22, 0x21,
        0x34, 0x33, 0x32, 0x31, 2, 0, 0, 0,
        0xaa, 0xbb,
    ];
    assert_eq!(frame, golden);
    let decoded = Frame::decode(&frame).unwrap();
    assert_eq!((decoded.header, decoded.body), (header(), &golden[32..]));
}

#[test]
fn what_is_no_frame_is_refused_with_its_reason() {
    let good = sealed(header(), &[]);
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let resealed = |change: fn(&mut FrameHeader)| {
        let mut changed = header();
        change(&mut changed);
        sealed(changed, &[])
    };
    let cases = [
        (good[..31].to_vec(), FrameError::TooShort(31)),
        (
            vec![0; FRAME_LENGTH_MAX + 1],
            FrameError::TooLong(FRAME_LENGTH_MAX + 1),
        ),
        (with(0, 0), FrameError::BadMagic),
        (with(2, 9), FrameError::UnsupportedVersion(9)),
        (with(31, 1), FrameError::BadChecksum),
        (resealed(|header| header.epoch = 0), FrameError::BadField),
        (resealed(|header| header.session = 0), FrameError::BadField),
        (resealed(|header| header.first = 0), FrameError::BadField),
        (
            resealed(|header| header.first = u64::MAX),
            FrameError::BadField,
        ),
        (
            resealed(|header| header.flags = FrameFlags::HEARTBEAT),
            FrameError::BadField,
        ),
        (
            resealed(|header| header.flags = FrameFlags(8 | 16)),
            FrameError::BadField,
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(Frame::decode(&bytes), Err(error));
        assert!(!error.to_string().is_empty());
    }
    assert!(Frame::decode(&good).is_ok());
}

#[test]
fn a_body_must_be_packets_of_the_header() {
    let header = FrameHeader {
        first: 10,
        session: 7,
        epoch: 1,
        count: 5,
        ..FrameHeader::default()
    };
    let check = |header, body: &[u8]| {
        Frame::decode(&sealed(header, body))
            .unwrap()
            .is_consistent()
    };
    assert!(check(header, &packets(7, 10, &[2, 3])));
    assert!(!check(header, &packets(8, 10, &[5])), "of another session");
    assert!(
        !check(header, &packets(7, 11, &[4])),
        "not from the first sequence"
    );
    assert!(
        !check(header, &packets(7, 10, &[5, 1])),
        "beyond the last sequence"
    );
    assert!(!check(header, &packets(7, 10, &[5])[1..]), "no packets");
    assert!(
        !check(header, &packets(7, 10, &[5])[..40]),
        "half of a packet"
    );
    assert!(!check(header, &[]), "sequences without packets");
    let empty = FrameHeader { count: 0, ..header };
    assert!(check(empty, &[]));
}

proptest! {
    #[test]
    fn every_frame_is_read_as_it_was_written(
        first in 1..u64::MAX / 2,
        epoch in 1..=EPOCH_MAX,
        origin in any::<u16>(),
        session in 1..=u32::MAX,
        count in any::<u32>(),
        gap in any::<bool>(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let flags = if gap { FrameFlags::GAP } else { FrameFlags::NONE };
        let header = FrameHeader { flags, first, epoch, origin, session, count };
        let frame = sealed(header, &body);
        let decoded = Frame::decode(&frame).unwrap();
        prop_assert_eq!((decoded.header, decoded.body), (header, body.as_slice()));
    }

    #[test]
    fn one_changed_bit_is_noticed(bit in 0..8 * 132_usize) {
        let mut frame = sealed(header(), &[0x5a; 100]);
        frame[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Frame::decode(&frame).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::fuzz_cluster_frame(&bytes);
    }
}

#[test]
fn the_number_of_relays_is_beside_the_other_flags() {
    for count in 0..=FrameFlags::RELAYS_MAX {
        let flags = FrameFlags::GAP.with_relays(count);
        assert_eq!(flags.relays(), count);
        assert!(flags.contains(FrameFlags::GAP) && !flags.contains(FrameFlags::PAGE));
        assert_eq!(flags.with(FrameFlags::PAGE).relays(), count);
    }
    assert_eq!(FrameFlags::NONE.with_relays(7).with_relays(2).relays(), 2);
}
