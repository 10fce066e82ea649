use std::path::PathBuf;

use super::*;
use crate::frame::FrameFlags;
use crate::writes::{WriteOutcome, encode_words};
use tidewire_feed::wire::{
    Definition, Deletion, Flags, LastValue, Message, Name, PacketWriter, TopicKind, TopicPart,
    TopicStamp, Trade, snapshot_position,
};

const SESSION: u32 = 7;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cluster_frame")
}

fn header(flags: FrameFlags, first: u64, count: u32) -> FrameHeader {
    FrameHeader {
        flags,
        first,
        epoch: 3,
        origin: 1,
        session: SESSION,
        count,
    }
}

fn stream(flags: FrameFlags, first: u64, count: u32) -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = PacketWriter::new(&mut body, SESSION, Flags::NONE, first, 65_535);
    for size in 1..=count {
        writer.push(&Message::Trade(Trade {
            symbol: 1,
            price: 5,
            size,
            ..Trade::default()
        }));
    }
    writer.finish();
    sealed(header(flags, first, count), &body)
}

fn page(as_of: u64, sequence: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let first = snapshot_position(0, 0);
    let mut writer = PacketWriter::new(&mut body, SESSION, Flags::SNAPSHOT, first, 65_535);
    writer.push(&Message::Definition(Definition {
        symbol: 1,
        source: 0,
        source_time_ns: 0,
        open: 0,
        price_tick: 0,
        lot_size: 0,
        currency: [0; 4],
        name: Name::new("ABC").unwrap(),
        repeats: false,
    }));
    writer.push(&Message::LastValue(LastValue {
        sequence,
        ..LastValue::new(1)
    }));
    writer.finish();
    sealed(header(FrameFlags::PAGE, as_of, 1), &body)
}

/// A page with a topic, and one of the two blocks of another.
fn topics_page(as_of: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let first = snapshot_position(0, 0);
    let mut writer = PacketWriter::new(&mut body, SESSION, Flags::SNAPSHOT, first, 65_535);
    for (topic, value) in [(1, vec![b'x'; 300]), (2, vec![b'y'; 7_000])] {
        writer.push(&Message::TopicStamp(TopicStamp {
            topic,
            sequence: as_of,
            named: 3,
        }));
        topic_parts(&mut writer, TopicKind::Name, topic, b"live:a", 1);
        topic_parts(&mut writer, TopicKind::Value, topic, &value, 28);
    }
    writer.finish();
    sealed(header(FrameFlags::PAGE, as_of, 2), &body)
}

fn topic_parts(
    writer: &mut PacketWriter<'_>,
    kind: TopicKind,
    topic: u32,
    whole: &[u8],
    count: usize,
) {
    for part in TopicPart::range(kind, topic, 1, whole, 0..count) {
        writer.push(&Message::Topic(part));
    }
}

fn topics_stream(first: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = PacketWriter::new(&mut body, SESSION, Flags::NONE, first, 65_535);
    topic_parts(&mut writer, TopicKind::Name, 3, b"mx:A.B", 1);
    topic_parts(&mut writer, TopicKind::Tag, 3, &[0; 40], 1);
    topic_parts(&mut writer, TopicKind::Value, 1, b"", 1);
    writer.push(&Message::Deletion(Deletion {
        topic: 1,
        time_ns: 5,
    }));
    writer.finish();
    sealed(header(FrameFlags::NONE, first, 4), &body)
}

fn head(as_of: u64, pages: &[u64]) -> Vec<u8> {
    let head = Head {
        log_sequence: 4,
        pages: pages.to_vec(),
        ..Head::default()
    };
    head.encode(header(FrameFlags::NONE, as_of, 0))
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let bare = |flags, first| header(flags, first, 0).bare();
    let mut old = page(20, 18);
    FrameHeader {
        epoch: 2,
        ..header(FrameFlags::PAGE, 20, 1)
    }
    .seal(&mut old);
    let joined = || vec![page(20, 18), head(19, &[21])];
    let then = |more: Vec<Vec<u8>>| lengths_before(&[joined(), more].concat());
    vec![
        ("stream", lengths_before(&[stream(FrameFlags::NONE, 1, 3)])),
        ("joined", then(vec![stream(FrameFlags::NONE, 15, 10)])),
        (
            "early",
            then(vec![
                stream(FrameFlags::NONE, 30, 3),
                stream(FrameFlags::NONE, 20, 10),
            ]),
        ),
        (
            "gap",
            then(vec![
                stream(FrameFlags::GAP, 30, 3),
                page(40, 40),
                head(40, &[41]),
            ]),
        ),
        ("heartbeat", then(vec![bare(FrameFlags::HEARTBEAT, 50)])),
        ("end", then(vec![bare(FrameFlags::END, 20)])),
        ("old_page", lengths_before(&[old, head(19, &[21])])),
        ("no_page", lengths_before(&[head(19, &[21, 0, 7])])),
        (
            "topics",
            lengths_before(&[topics_page(20), head(20, &[21]), topics_stream(21)]),
        ),
        ("empty", Vec::new()),
        ("no_frame", lengths_before(&[b"what is no frame".to_vec()])),
    ]
}

/// Set TIDEWIRE_WRITE_CORPUS to write the files again, as after a change of the layout.
#[test]
fn the_corpus_is_what_the_layout_says() {
    let writes = std::env::var_os("TIDEWIRE_WRITE_CORPUS").is_some();
    for (name, bytes) in files() {
        let path = folder().join(name);
        if writes {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
    }
}

/// Whole, cut at every length, and with single bytes changed.
#[test]
fn frames_of_the_corpus_never_panic() {
    let mut read = 0;
    for entry in std::fs::read_dir(folder()).expect("the corpus is in the repository") {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        read += 1;
        fuzz_cluster_frame(&data);
        (0..data.len()).for_each(|length| fuzz_cluster_frame(&data[..length]));
        for index in 0..data.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = data.clone();
                changed[index] ^= change;
                fuzz_cluster_frame(&changed);
            }
        }
    }
    assert!(read >= 8, "only {read} files");
}

fn write_files() -> Vec<(&'static str, Vec<u8>)> {
    let id = |number| WriteId {
        epoch: 1,
        session: 1,
        number,
    };
    let plain = |number, value| WriteRequest {
        id: id(number),
        ticket: 1,
        name: b"mx:Tank1.Setpoint",
        user: b"default",
        address: b"127.0.0.1:5000",
        is_command: false,
        value,
    };
    let request = |number, value| plain(number, value).encode();
    let words = encode_words(2, [&b"HSET"[..], b"live:x", b"field", b""]);
    let command = WriteRequest {
        is_command: true,
        name: b"live:x",
        ..plain(1, &words)
    };
    let replied = WriteAnswer {
        id: id(5),
        ticket: 1,
        outcome: WriteOutcome::Replied,
        takes_commands: true,
        text: "",
        reply: b":1\r\n",
    };
    let answer = |number, outcome, text| {
        WriteAnswer {
            id: id(number),
            ticket: 1,
            outcome,
            text,
            ..WriteAnswer::default()
        }
        .encode()
    };
    let unknown = "UNKNOWN no completion came within 10000 ms";
    let mut cut = request(1, b"21.5");
    cut[44] = 9;
    vec![
        ("request", lengths_before(&[request(1, b"21.5")])),
        (
            "repeated",
            lengths_before(&[request(2, b"1"), request(2, b"1"), request(1, b"")]),
        ),
        (
            "answers",
            lengths_before(&[
                answer(1, WriteOutcome::Done, ""),
                answer(2, WriteOutcome::Refused, "REFUSED x"),
                answer(3, WriteOutcome::Unknown, unknown),
                answer(4, WriteOutcome::Again, ""),
            ]),
        ),
        ("command", lengths_before(&[command.encode()])),
        ("replied", lengths_before(&[replied.encode()])),
        ("wrong_length", lengths_before(&[cut])),
        ("empty", Vec::new()),
        ("no_message", lengths_before(&[vec![b'x'; 60]])),
    ]
}

/// Set TIDEWIRE_WRITE_CORPUS to write the files again, as after a change of the layout.
#[test]
fn the_corpus_of_writes_is_what_the_layout_says_and_never_panics() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/write_frame");
    for (name, bytes) in write_files() {
        let path = folder.join(name);
        if std::env::var_os("TIDEWIRE_WRITE_CORPUS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
        fuzz_write_frame(&bytes);
        (0..bytes.len()).for_each(|length| fuzz_write_frame(&bytes[..length]));
        for index in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[index] ^= change;
                fuzz_write_frame(&changed);
            }
        }
    }
}

#[test]
fn messages_of_the_corpus_of_keys_never_panic() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/keys_frame");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("the corpus") {
        let bytes = std::fs::read(file.expect("an entry").path()).expect("a file");
        fuzz_keys_frame(&bytes);
        (0..bytes.len()).for_each(|length| fuzz_keys_frame(&bytes[..length]));
        files += 1;
    }
    assert!(files >= 6);
}
