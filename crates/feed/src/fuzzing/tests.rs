use std::path::PathBuf;

use super::*;
use crate::wire::{
    Control, Definition, Deletion, EndOfSessionAcknowledgement, LastValue, Login, LoginAccepted,
    Message, Name, PacketWriter, PatternText, Quote, Refused, Request, Role, Skip, SnapshotMark,
    SnapshotNotice, SnapshotRequest, Subscribe, TooOld, TopicKind, TopicPart, TopicStamp, Trade,
};

fn folder(decoder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(decoder)
}

/// Runs every file of a corpus: whole, cut at every length, and with single bytes changed.
fn run_corpus(decoder: &str, fuzz: fn(&[u8])) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder(decoder)).expect("the corpus is in the repository") {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        fuzz(&data);
        (0..data.len()).for_each(|length| fuzz(&data[..length]));
        for index in 0..data.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = data.clone();
                changed[index] ^= change;
                fuzz(&changed);
            }
        }
    }
    assert!(files >= 8, "{decoder}: only {files} files");
}

#[test]
fn packets_of_the_corpus_never_panic() {
    run_corpus("feed_packet", fuzz_feed_packet);
}

#[test]
fn clients_survive_the_corpus() {
    run_corpus("feed_client", fuzz_feed_client);
}

#[test]
fn sessions_survive_the_corpus() {
    run_corpus("feed_session", fuzz_feed_session);
}

#[test]
fn recordings_of_the_corpus_never_panic() {
    run_corpus("recording", fuzz_recording);
}

const SESSION: u32 = 1;

fn data(flags: Flags, first: u64, messages: &[Message]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, SESSION, flags, first, 65_535);
    messages.iter().for_each(|message| writer.push(message));
    writer.finish();
    out
}

fn bare(flags: Flags, sequence: u64) -> Vec<u8> {
    let mut out = Vec::new();
    PacketWriter::bare(&mut out, SESSION, flags, sequence);
    out
}

fn controls(controls: &[Control]) -> Vec<u8> {
    let mut out = Vec::new();
    controls
        .iter()
        .for_each(|control| PacketWriter::control(&mut out, SESSION, control));
    out
}

fn joined(as_of: u64) -> Vec<u8> {
    controls(&[
        Control::LoginAccepted(LoginAccepted {
            session: SESSION,
            heartbeat_interval_ms: 1_000,
            next_sequence: as_of + 1,
            oldest_sequence: 1,
            partial_snapshots: true,
        }),
        Control::SnapshotNotice(SnapshotNotice {
            number: 1,
            as_of,
            since: 0,
        }),
    ])
}

fn pattern(text: &str) -> PatternText {
    PatternText::new(text).unwrap()
}

/// A name, a value of two parts, a tag, a removal and a stamp.
fn topics() -> Vec<Message> {
    let split = |kind, whole| TopicPart::split(kind, 7, 1, whole).map(Message::Topic);
    let mut all: Vec<Message> = split(TopicKind::Name, b"live:a").collect();
    all.extend(split(TopicKind::Value, &[b'x'; 300]));
    all.extend(split(TopicKind::Tag, &[0; 40]));
    all.push(Message::Deletion(Deletion {
        topic: 7,
        time_ns: 2,
    }));
    all.push(Message::TopicStamp(TopicStamp {
        topic: 7,
        sequence: 3,
        named: 1,
    }));
    all
}

fn packet_files() -> Vec<(&'static str, Vec<u8>)> {
    let trade = Message::Trade(Trade {
        symbol: 1,
        price: 5,
        ..Trade::default()
    });
    let quote = Message::Quote(Quote::default());
    let mut cut = data(Flags::NONE, 1, &[trade, quote]);
    cut.truncate(60);
    let mut wrong_count = data(Flags::NONE, 1, &[trade, quote]);
    wrong_count[4] = 9;
    let mut wrong_length = data(Flags::NONE, 1, &[trade, quote]);
    wrong_length[6] = 0xf0;
    wrong_length[7] = 0xff;
    let mut wrong_type = data(Flags::NONE, 1, &[trade]);
    wrong_type[24] = 0x0f;
    vec![
        ("trade_quote", data(Flags::NONE, 1, &[trade, quote])),
        ("topics", data(Flags::NONE, 1, &topics())),
        (
            "selection",
            data(
                Flags::FILTERED,
                1,
                &[Message::Skip(Skip { count: 7 }), trade],
            ),
        ),
        (
            "skip_all",
            data(
                Flags::FILTERED,
                1,
                &[Message::Skip(Skip { count: 1 << 63 })],
            ),
        ),
        ("heartbeat", bare(Flags::HEARTBEAT, u64::MAX)),
        ("end", bare(Flags::END_OF_SESSION, 1)),
        ("controls", session_files().remove(0).1),
        ("cut", cut),
        ("wrong_count", wrong_count),
        ("wrong_length", wrong_length),
        ("wrong_type", wrong_type),
        ("empty", Vec::new()),
        ("other_protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
    ]
}

fn client_files() -> Vec<(&'static str, Vec<u8>)> {
    let trade = |symbol| {
        Message::Trade(Trade {
            symbol,
            ..Trade::default()
        })
    };
    let live = |first, count: u64| {
        data(
            Flags::NONE,
            first,
            &(0..count).map(|_| trade(1)).collect::<Vec<_>>(),
        )
    };
    let definition = Message::Definition(Definition {
        symbol: 1,
        source: 0,
        source_time_ns: 0,
        open: 1,
        price_tick: 1,
        lot_size: 1,
        currency: *b"USD\0",
        name: Name::new("ESH4").unwrap(),
        repeats: false,
    });
    let mark = SnapshotMark {
        as_of: 4,
        records: 1,
    };
    let snapshot = [
        Message::SnapshotBegin(mark),
        definition,
        Message::LastValue(LastValue::new(1)),
        Message::SnapshotEnd(mark),
    ];
    let at =
        |position: u64, messages: &[Message]| data(Flags::SNAPSHOT, (1 << 32) | position, messages);
    let too_old = |oldest, conflated| {
        controls(&[Control::TooOld(TooOld {
            wanted: 5,
            oldest,
            conflated,
            ..TooOld::default()
        })])
    };
    vec![
        ("live", [joined(4), at(0, &snapshot), live(5, 3)].concat()),
        (
            "hole",
            [joined(4), live(5, 1), live(8, 1), live(6, 2)].concat(),
        ),
        (
            "overlap",
            [joined(4), live(5, 3), live(6, 4), live(5, 1)].concat(),
        ),
        (
            "snapshot_hole",
            [joined(4), at(2, &snapshot[2..]), at(0, &snapshot[..1])].concat(),
        ),
        (
            "snapshot_overtaken",
            [joined(4), live(5, 1), at(0, &snapshot)].concat(),
        ),
        (
            "snapshot_last",
            [joined(4), at(u64::from(u32::MAX), &snapshot)].concat(),
        ),
        (
            "snapshot_of_changes",
            [
                joined(4),
                live(5, 1),
                at(0, &snapshot[..1]),
                at(3, &[Message::Skip(Skip { count: 2 })]),
                at(1, &snapshot[1..3]),
                at(5, &snapshot[3..]),
            ]
            .concat(),
        ),
        (
            "snapshot_that_skips_all",
            [
                joined(4),
                at(2, &[Message::Skip(Skip { count: u64::MAX }), snapshot[2]]),
                at(0, &snapshot),
            ]
            .concat(),
        ),
        (
            "too_old",
            [joined(4), live(9, 1), too_old(7, false), too_old(9, true)].concat(),
        ),
        (
            "too_old_all",
            [joined(4), too_old(u64::MAX, true), live(5, 1)].concat(),
        ),
        (
            "far",
            [
                joined(4),
                bare(Flags::HEARTBEAT, u64::MAX),
                live(u64::MAX, 2),
            ]
            .concat(),
        ),
        (
            "last_sequence",
            [joined(u64::MAX - 1), live(u64::MAX, 3)].concat(),
        ),
        (
            "end",
            [joined(4), bare(Flags::END_OF_SESSION, 6), live(5, 1)].concat(),
        ),
        ("unasked", controls(&[Control::Login(Login::default())])),
        ("refused", controls(&[Control::Refused(Refused::default())])),
    ]
}

fn session_files() -> Vec<(&'static str, Vec<u8>)> {
    let login = |next_sequence, session, role| {
        Control::Login(Login {
            role,
            session,
            next_sequence,
            ..Login::default()
        })
    };
    let snapshot = |text, since| {
        Control::SnapshotRequest(SnapshotRequest {
            pattern: PatternText::truncated(text),
            since,
        })
    };
    let subscriber = login(0, 0, Role::Subscriber);
    let all = Control::Subscribe(Subscribe {
        pattern: pattern("*"),
        resume: false,
    });
    let glob = Control::Subscribe(Subscribe {
        pattern: pattern("*a*?b*"),
        resume: true,
    });
    let end = Control::EndOfSessionAcknowledgement(EndOfSessionAcknowledgement::default());
    let request = |from, count, snapshot| {
        Control::Request(Request {
            from,
            count,
            snapshot,
        })
    };
    let publisher = login(1, SESSION, Role::Publisher);
    let trade = Message::Trade(Trade::default());
    vec![
        (
            "subscriber",
            controls(&[
                subscriber,
                all,
                glob,
                Control::Unsubscribe(pattern("*")),
                end,
            ]),
        ),
        ("resume", controls(&[login(1, 1, Role::Subscriber), glob])),
        (
            "future",
            controls(&[login(u64::MAX, 1, Role::Subscriber), all]),
        ),
        (
            "requests",
            controls(&[
                subscriber,
                all,
                request(0, u64::MAX, false),
                request(u64::MAX, u64::MAX, false),
                request(u64::MAX, u64::MAX, true),
            ]),
        ),
        (
            "snapshots",
            controls(&[subscriber, all, snapshot("?", 0), snapshot("", 5)]),
        ),
        (
            "changes",
            controls(&[
                Control::Login(Login {
                    session: SESSION,
                    next_sequence: 2,
                    subscription_count: 1,
                    partial_snapshots: true,
                    ..Login::default()
                }),
                all,
                snapshot("*", u64::MAX),
                request(1, 5, false),
                request(1 << 32, u64::MAX, true),
            ]),
        ),
        (
            "publisher",
            [
                controls(&[publisher]),
                data(Flags::NONE, 1, &[trade, trade]),
            ]
            .concat(),
        ),
        (
            "publisher_hole",
            [controls(&[publisher]), data(Flags::NONE, 9, &[trade])].concat(),
        ),
        (
            "publisher_end",
            [controls(&[publisher]), bare(Flags::END_OF_SESSION, 1)].concat(),
        ),
        (
            "publisher_far",
            [
                controls(&[login(u64::MAX, 1, Role::Publisher)]),
                data(Flags::NONE, u64::MAX, &[trade, trade]),
            ]
            .concat(),
        ),
        ("no_login", controls(&[all])),
        ("data_without_login", data(Flags::NONE, 1, &[trade])),
        ("twice", controls(&[subscriber, subscriber])),
    ]
}

fn recording_files() -> Vec<(&'static str, Vec<u8>)> {
    use crate::recording::{BlockKind, begin_block, end_block, write_file_header, write_numbers};
    let head = |numbers: &[u64]| {
        let mut file = Vec::new();
        write_file_header(1, &mut file);
        write_numbers(BlockKind::Begin, SESSION, 2, numbers, &mut file);
        file
    };
    let with = |kind, body: &[u8]| {
        let mut file = head(&[1]);
        let start = begin_block(&mut file);
        file.extend_from_slice(body);
        end_block(kind, SESSION, 3, start, &mut file);
        file
    };
    let trade = Message::Trade(Trade::default());
    let stream = data(Flags::NONE, 1, &[trade, Message::Quote(Quote::default())]);
    let record = Message::LastValue(LastValue::new(1));
    let mut gap = with(BlockKind::Stream, &stream);
    write_numbers(BlockKind::Gap, SESSION, 4, &[3, 9], &mut gap);
    write_numbers(BlockKind::End, SESSION, 5, &[9, 6], &mut gap);
    let mut empty = Vec::new();
    write_file_header(1, &mut empty);
    vec![
        ("empty", empty),
        ("begun", head(&[1])),
        ("stream", with(BlockKind::Stream, &stream)),
        (
            "snapshot",
            with(BlockKind::Snapshot, &data(Flags::SNAPSHOT, 0, &[record])),
        ),
        ("gap_and_end", gap),
        ("short_numbers", head(&[])),
        (
            "no_packets",
            with(BlockKind::Stream, b"what is no packet at all"),
        ),
        (
            "half_a_packet",
            with(BlockKind::Stream, &stream[..stream.len() - 1]),
        ),
        ("unknown_kind", with(BlockKind::Unknown(99), &stream)),
    ]
}

/// Set TIDEWIRE_WRITE_CORPUS to write the files again, as after a change of the layout.
#[test]
fn the_corpus_is_what_the_layout_says() {
    let writes = std::env::var_os("TIDEWIRE_WRITE_CORPUS").is_some();
    for (decoder, files) in [
        ("feed_packet", packet_files()),
        ("feed_client", client_files()),
        ("feed_session", session_files()),
        ("recording", recording_files()),
    ] {
        for (name, bytes) in files {
            let path = folder(decoder).join(name);
            if writes {
                std::fs::write(&path, &bytes).unwrap();
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{decoder}/{name}");
        }
    }
}
