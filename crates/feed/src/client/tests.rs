use super::*;
use crate::journal::{Cursor, Everything, Journal, PacketOptions};
use crate::wire::{LastValue, Refused, SnapshotMark, Trade};

const SESSION: u32 = 9;
const SECOND_NS: u64 = 1_000_000_000;

/// Events as text, so that a test reads as a story; and apart from them what is said of the values.
#[derive(Default)]
struct Story(Vec<String>, Vec<&'static str>);

impl Sink for Story {
    fn message(&mut self, sequence: u64, _message: &Message) {
        self.0.push(format!("message {sequence}"));
    }

    fn snapshot_record(&mut self, as_of: u64, record: &LastValue) {
        self.0.push(format!(
            "record {}@{} as of {as_of}",
            record.symbol, record.sequence
        ));
    }

    fn snapshot_complete(&mut self, as_of: u64, records: u64) {
        self.0.push(format!("snapshot of {records} as of {as_of}"));
    }

    fn gap(&mut self, gap: Gap) {
        self.0.push(format!("{gap:?}"));
    }

    fn values_doubtful(&mut self) {
        self.1.push("in doubt");
    }

    fn values_lost(&mut self) {
        self.1.push("lost");
    }

    fn values_right(&mut self) {
        self.1.push("right");
    }

    fn refused(&mut self, _side: Side, refused: &Refused) {
        self.0.push(format!("refused {}", refused.text));
    }

    fn session_changed(&mut self, old: u32, new: u32) {
        self.0.push(format!("session {old} to {new}"));
    }

    fn silent(&mut self, side: Side) {
        self.0.push(format!("silent {side:?}"));
    }

    fn end_of_session(&mut self, end: &EndOfSessionAcknowledgement) {
        self.0.push(format!(
            "end at {}, {} applied",
            end.next_sequence, end.applied_count
        ));
    }
}

struct Fixture {
    client: Client,
    story: Story,
    journal: Journal,
}

impl Fixture {
    /// Returns a client that has joined an empty stream of session 9 at sequence 1.
    fn joined() -> Fixture {
        let mut journal = Journal::new(SESSION, 1_024);
        for symbol in 0..100 {
            journal.append(&Message::Trade(Trade {
                symbol,
                ..Trade::default()
            }));
        }
        let mut client = Client::new(ClientConfig::default());
        client.connected(Side::A, 0);
        let mut fixture = Fixture {
            client,
            story: Story::default(),
            journal,
        };
        fixture.control(&accepted(SESSION));
        fixture.control(&Control::SnapshotNotice(SnapshotNotice {
            number: 1,
            as_of: 0,
            since: 0,
        }));
        let mut out = Vec::new();
        let mut writer = PacketWriter::new(&mut out, SESSION, Flags::SNAPSHOT, 1 << 32, 1_472);
        writer.push(&Message::SnapshotBegin(SnapshotMark {
            as_of: 0,
            records: 0,
        }));
        writer.push(&Message::SnapshotEnd(SnapshotMark {
            as_of: 0,
            records: 0,
        }));
        writer.finish();
        fixture.receive(&out);
        fixture.story.0.clear();
        fixture.story.1.clear();
        fixture.sent();
        fixture
    }

    fn receive(&mut self, bytes: &[u8]) {
        let used = self.client.receive(Side::A, bytes, 0, &mut self.story);
        assert_eq!(used, Ok(bytes.len()));
    }

    fn control(&mut self, control: &Control) {
        let mut out = Vec::new();
        PacketWriter::control(&mut out, SESSION, control);
        self.receive(&out);
    }

    fn bare(&mut self, flags: Flags, sequence: u64) {
        let mut out = Vec::new();
        PacketWriter::bare(&mut out, SESSION, flags, sequence);
        self.receive(&out);
    }

    fn packet(&self, from: u64, until: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let options = PacketOptions::default();
        let mut cursor = Cursor::at(from);
        self.journal
            .write_packets(&mut cursor, until, &options, &Everything, &mut out);
        out
    }

    fn messages(&mut self, from: u64, until: u64) {
        let packet = self.packet(from, until);
        self.receive(&packet);
    }

    /// Returns the controls the client sent since the last call.
    fn sent(&mut self) -> Vec<Control> {
        let (mut out, mut controls) = (Vec::new(), Vec::new());
        self.client.drain_outgoing(Side::A, &mut out);
        let mut rest = out.as_slice();
        while let Some((packet, length)) = decode_packet(rest).unwrap() {
            controls.extend(packet.controls().map(Result::unwrap));
            rest = &rest[length..];
        }
        controls
    }

    fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.story.0)
    }
}

fn accepted(session: u32) -> Control {
    Control::LoginAccepted(LoginAccepted {
        session,
        heartbeat_interval_ms: 1_000,
        next_sequence: 1,
        oldest_sequence: 1,
        partial_snapshots: true,
    })
}

/// Returns the client's request for the values changed since `since`.
fn changes_since(since: u64) -> Control {
    let pattern = PatternText::new("*").unwrap();
    Control::SnapshotRequest(SnapshotRequest { pattern, since })
}

#[test]
fn a_hole_is_asked_for_after_the_grace_and_filled_in_order() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 3);
    fixture.messages(5, 6);
    assert_eq!(
        fixture.story(),
        ["message 1", "message 2", "Opened { from: 3, count: 2 }"]
    );
    assert_eq!(fixture.sent(), [], "it may only be late");
    assert_eq!(fixture.client.deadline_ns(), 1_000_000);
    fixture.client.handle_timeout(1_000_000, &mut fixture.story);
    let request = Request {
        from: 3,
        count: 2,
        snapshot: false,
    };
    assert_eq!(fixture.sent(), [Control::Request(request)]);
    fixture.messages(3, 5);
    assert_eq!(
        fixture.story(),
        [
            "message 3",
            "message 4",
            "message 5",
            "Recovered { from: 3, count: 2 }"
        ]
    );
    assert!(fixture.client.is_complete());
}

#[test]
fn duplicates_and_overlaps_are_delivered_once() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 4);
    fixture.messages(1, 4);
    fixture.messages(2, 6);
    assert_eq!(
        fixture.story(),
        [
            "message 1",
            "message 2",
            "message 3",
            "message 4",
            "message 5"
        ]
    );
    assert_eq!(fixture.client.side_counters(Side::A).duplicate, 1);
}

#[test]
fn a_corrupt_packet_is_a_hole() {
    let mut fixture = Fixture::joined();
    let mut packet = fixture.packet(1, 3);
    packet[30] ^= 1;
    fixture.receive(&packet);
    assert_eq!(fixture.story(), Vec::<String>::new());
    assert_eq!(fixture.client.side_counters(Side::A).corrupt, 1);
    fixture.bare(Flags::HEARTBEAT, 3);
    assert_eq!(fixture.story(), ["Opened { from: 1, count: 2 }"]);
}

/// A hub whose answer to the login was damaged never joined, and without the notice it never
/// applied the snapshot.
#[test]
fn a_damaged_control_ends_the_connection_and_the_next_one_joins() {
    let notice = Control::SnapshotNotice(SnapshotNotice {
        number: 1,
        as_of: 0,
        since: 0,
    });
    for damaged in [accepted(SESSION), notice] {
        let mut fixture = Fixture::joined();
        let mut whole = Vec::new();
        PacketWriter::control(&mut whole, SESSION, &damaged);
        // The flag of controls, the sequence, and the body.
        for place in [3, 20, 40] {
            fixture.client.connected(Side::A, 0);
            let mut bytes = whole.clone();
            bytes[place] ^= if place == 3 { Flags::CONTROL.0 } else { 1 };
            let (client, story) = (&mut fixture.client, &mut fixture.story);
            let received = client.receive(Side::A, &bytes, 0, story);
            assert_eq!(received, Err(ReceiveError::Damaged), "byte {place}");
            client.disconnected(Side::A);
        }
        assert_eq!(fixture.client.side_counters(Side::A).corrupt, 3);
        fixture.client.connected(Side::A, 0);
        fixture.control(&accepted(SESSION));
        assert!(fixture.client.is_accepted(Side::A));
    }
}

/// Its packets are asked for again, and so is what answers a request of the server.
#[test]
fn a_damaged_control_of_a_publisher_is_passed_over() {
    let mut client = Client::listener(ClientConfig::default(), SESSION, 1);
    client.peer_connected(Side::A, 0);
    let mut bytes = Vec::new();
    PacketWriter::control(&mut bytes, SESSION, &Control::TooOld(TooOld::default()));
    bytes[40] ^= 1;
    let used = client.receive(Side::A, &bytes, 0, &mut Story::default());
    assert_eq!(used, Ok(bytes.len()));
}

#[test]
fn broken_framing_ends_the_connection_and_the_next_one_resumes() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 3);
    let error = fixture
        .client
        .receive(Side::A, b"HTTP/1.1 200 OK", 0, &mut fixture.story);
    assert_eq!(error, Err(ReceiveError::FramingLost(PacketError::BadMagic)));
    fixture.client.connected(Side::A, 0);
    let [Control::Login(login)] = fixture.sent()[..] else {
        panic!("no login")
    };
    assert_eq!((login.session, login.next_sequence), (SESSION, 3));
}

#[test]
fn too_old_is_lost_with_its_range_and_a_snapshot_is_asked_for() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 2);
    fixture.messages(10, 11);
    fixture.control(&Control::TooOld(TooOld {
        wanted: 2,
        oldest: 8,
        ..TooOld::default()
    }));
    assert_eq!(
        fixture.story(),
        [
            "message 1",
            "Opened { from: 2, count: 8 }",
            "Lost { from: 2, count: 6, reason: TooOld }"
        ]
    );
    assert_eq!(fixture.sent(), [changes_since(2)]);
    assert!(!fixture.client.is_complete());
    fixture.messages(8, 10);
    assert_eq!(
        fixture.story(),
        [
            "message 8",
            "message 9",
            "message 10",
            "Recovered { from: 8, count: 2 }"
        ]
    );
}

#[test]
fn a_hole_that_nobody_fills_is_given_up() {
    let mut fixture = Fixture::joined();
    fixture.messages(3, 4);
    let mut requests = 0;
    for tick in 0..1_000 {
        let now_ns = tick * 10_000_000;
        // The link is alive: heartbeats arrive.
        let mut out = Vec::new();
        PacketWriter::bare(&mut out, SESSION, Flags::HEARTBEAT, 4);
        fixture
            .client
            .receive(Side::A, &out, now_ns, &mut fixture.story)
            .unwrap();
        fixture.client.handle_timeout(now_ns, &mut fixture.story);
        let sent = fixture.sent();
        requests += sent
            .iter()
            .filter(|one| matches!(one, Control::Request(_)))
            .count();
    }
    assert_eq!(requests, REQUEST_ATTEMPTS_MAX as usize);
    assert_eq!(
        fixture.story(),
        [
            "Opened { from: 1, count: 2 }",
            "Lost { from: 1, count: 2, reason: NoAnswer }",
            "message 3"
        ]
    );
}

#[test]
fn conflation_jumps_over_what_was_left_out() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 2);
    fixture.control(&Control::TooOld(TooOld {
        wanted: 2,
        oldest: 50,
        conflated: true,
        ..TooOld::default()
    }));
    fixture.messages(50, 51);
    assert_eq!(
        fixture.story(),
        [
            "message 1",
            "Lost { from: 2, count: 48, reason: Conflated }",
            "message 50"
        ]
    );
    assert_eq!(fixture.sent(), [], "the snapshot comes by itself");
}

#[test]
fn silence_is_reported_once() {
    let mut fixture = Fixture::joined();
    fixture
        .client
        .handle_timeout(3 * SECOND_NS - 1, &mut fixture.story);
    assert_eq!(fixture.story(), Vec::<String>::new());
    fixture
        .client
        .handle_timeout(3 * SECOND_NS, &mut fixture.story);
    fixture
        .client
        .handle_timeout(4 * SECOND_NS, &mut fixture.story);
    assert_eq!(fixture.story(), ["silent A"]);
}

#[test]
fn another_session_begins_anew() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 2);
    fixture.messages(3, 4);
    fixture.client.connected(Side::A, 0);
    let mut out = Vec::new();
    PacketWriter::control(&mut out, 77, &accepted(77));
    fixture.receive(&out);
    assert_eq!(
        fixture.story(),
        [
            "message 1",
            "Opened { from: 2, count: 1 }",
            "Lost { from: 2, count: 1, reason: SessionChanged }",
            "message 3",
            "session 9 to 77"
        ]
    );
    assert_eq!(
        (fixture.client.session(), fixture.client.next_sequence()),
        (77, 0)
    );
    // Late packets of the old session are not accepted as the new one.
    fixture.messages(4, 5);
    assert_eq!(fixture.client.counters().foreign, 1);
}

#[test]
fn the_end_waits_for_what_is_missing() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 3);
    fixture.bare(Flags::END_OF_SESSION, 4);
    assert!(!fixture.client.is_ended());
    fixture.messages(3, 4);
    let end = EndOfSessionAcknowledgement {
        next_sequence: 4,
        applied_count: 3,
    };
    assert_eq!(fixture.sent(), [Control::EndOfSessionAcknowledgement(end)]);
    fixture.bare(Flags::END_OF_SESSION, 4);
    assert_eq!(
        fixture.sent(),
        [Control::EndOfSessionAcknowledgement(end)],
        "said again"
    );
    assert_eq!(fixture.story().last().unwrap(), "end at 4, 3 applied");
}

#[test]
fn a_record_that_the_stream_overtook_is_asked_for_again() {
    let mut fixture = Fixture::joined();
    fixture.control(&Control::SnapshotNotice(SnapshotNotice {
        number: 2,
        as_of: 0,
        since: 0,
    }));
    fixture.messages(1, 2);
    fixture.story();
    let mut out = Vec::new();
    let first = snapshot_position(2, 0);
    let mut writer = PacketWriter::new(&mut out, SESSION, Flags::SNAPSHOT, first, 1_472);
    writer.push(&Message::SnapshotBegin(SnapshotMark::default()));
    writer.push(&Message::LastValue(LastValue::new(0)));
    writer.push(&Message::SnapshotEnd(SnapshotMark {
        as_of: 0,
        records: 1,
    }));
    writer.finish();
    fixture.receive(&out);
    assert_eq!(fixture.story(), Vec::<String>::new());
    fixture
        .client
        .handle_timeout(SECOND_NS / 2, &mut fixture.story);
    let request = Request {
        from: snapshot_position(2, 1),
        count: 1,
        snapshot: true,
    };
    assert_eq!(fixture.sent(), [Control::Request(request)]);
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, SESSION, Flags::SNAPSHOT, first + 1, 1_472);
    writer.push(&Message::LastValue(LastValue {
        sequence: 1,
        ..LastValue::new(0)
    }));
    writer.finish();
    fixture.receive(&out);
    assert_eq!(
        fixture.story(),
        ["record 0@1 as of 0", "snapshot of 1 as of 0"]
    );
}

#[test]
fn a_trade_that_a_record_includes_is_not_counted_again() {
    let mut fixture = Fixture::joined();
    fixture.control(&Control::SnapshotNotice(SnapshotNotice {
        number: 2,
        as_of: 0,
        since: 0,
    }));
    let mut out = Vec::new();
    let first = snapshot_position(2, 0);
    let mut writer = PacketWriter::new(&mut out, SESSION, Flags::SNAPSHOT, first, 1_472);
    writer.push(&Message::SnapshotBegin(SnapshotMark::default()));
    writer.push(&Message::LastValue(LastValue {
        sequence: 3,
        ..LastValue::new(2)
    }));
    writer.push(&Message::SnapshotEnd(SnapshotMark {
        as_of: 0,
        records: 1,
    }));
    writer.finish();
    fixture.receive(&out);
    fixture.story();
    // The third trade is one of symbol 2.
    fixture.messages(1, 5);
    assert_eq!(fixture.story(), ["message 1", "message 2", "message 4"]);
    assert_eq!(fixture.client.next_sequence(), 5);
    assert!(!fixture.client.included.reaches(5), "it is forgotten");
}

#[test]
fn early_packets_beyond_the_limit_are_asked_for_later() {
    let mut fixture = Fixture::joined();
    fixture.client.config.early_bytes_max = 64;
    fixture.messages(2, 4);
    fixture.messages(4, 6);
    assert_eq!(fixture.client.counters().early_dropped, 1);
    fixture.messages(1, 2);
    assert_eq!(fixture.client.next_sequence(), 4);
    fixture.messages(4, 6);
    assert_eq!(
        fixture.story().last().unwrap(),
        "Recovered { from: 4, count: 2 }"
    );
    assert!(fixture.client.is_complete());
}

/// Time after which a hole that opened at 0 makes the values doubtful.
const DOUBT_NS: u64 = 51_000_000;

#[test]
fn values_are_in_doubt_while_a_hole_is_open_for_long() {
    let mut fixture = Fixture::joined();
    fixture.messages(1, 5);
    fixture.messages(8, 10);
    assert!(fixture.client.deadline_ns() <= DOUBT_NS);
    fixture
        .client
        .handle_timeout(DOUBT_NS - 1, &mut fixture.story);
    assert!(fixture.story.1.is_empty(), "a round trip has its time");
    fixture.client.handle_timeout(DOUBT_NS, &mut fixture.story);
    fixture
        .client
        .handle_timeout(2 * DOUBT_NS, &mut fixture.story);
    assert_eq!(fixture.story.1, ["in doubt"], "told once");
    fixture.messages(5, 7);
    assert_eq!(fixture.story.1, ["in doubt"], "7 is still missing");
    fixture.messages(7, 8);
    assert_eq!(fixture.story.1, ["in doubt", "right"]);
    assert!(fixture.client.is_complete());
}

#[test]
fn a_hole_that_is_filled_soon_leaves_no_doubt() {
    let mut fixture = Fixture::joined();
    fixture.messages(3, 5);
    fixture
        .client
        .handle_timeout(DOUBT_NS - 1, &mut fixture.story);
    fixture.messages(1, 3);
    fixture
        .client
        .handle_timeout(2 * DOUBT_NS, &mut fixture.story);
    assert!(fixture.story.1.is_empty());
}

#[test]
fn the_doubt_of_a_hole_that_is_given_up_lasts_until_the_values_have_come() {
    let mut fixture = Fixture::joined();
    fixture.messages(3, 5);
    fixture.client.handle_timeout(DOUBT_NS, &mut fixture.story);
    fixture.control(&Control::TooOld(TooOld {
        wanted: 1,
        oldest: 3,
        ..TooOld::default()
    }));
    assert!(
        !fixture.story.1.contains(&"right"),
        "nothing has replaced it"
    );
    fixture.control(&Control::SnapshotNotice(SnapshotNotice {
        number: 2,
        as_of: 4,
        since: 1,
    }));
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(&mut out, SESSION, Flags::SNAPSHOT, 2 << 32, 1_472);
    let mark = SnapshotMark {
        as_of: 4,
        records: 0,
    };
    writer.push(&Message::SnapshotBegin(mark));
    writer.push(&Message::SnapshotEnd(mark));
    writer.finish();
    fixture.receive(&out);
    assert_eq!(fixture.story.1.last(), Some(&"right"));
}

#[test]
fn a_reconnect_does_not_end_the_doubt_before_the_stream_resumes() {
    let mut fixture = Fixture::joined();
    fixture.messages(3, 5);
    fixture.client.handle_timeout(DOUBT_NS, &mut fixture.story);
    fixture.client.disconnected(Side::A);
    fixture.client.connected(Side::A, DOUBT_NS);
    fixture.control(&accepted(SESSION));
    assert_eq!(
        fixture.story.1,
        ["in doubt"],
        "the stream has yet to resume"
    );
    fixture.messages(1, 3);
    assert_eq!(fixture.story.1, ["in doubt", "right"]);
}

#[test]
fn what_a_publisher_has_lost_nothing_replaces() {
    let mut fixture = Fixture::joined();
    fixture.client = Client::listener(ClientConfig::default(), SESSION, 1);
    fixture.client.peer_connected(Side::A, 0);
    fixture.messages(3, 5);
    fixture.client.handle_timeout(DOUBT_NS, &mut fixture.story);
    fixture.control(&Control::TooOld(TooOld {
        wanted: 1,
        oldest: 3,
        ..TooOld::default()
    }));
    assert_eq!(fixture.story.1, ["in doubt", "lost"]);
}

/// A snapshot says what may be read only if it is of all symbols, and not of a moment before the
/// stream's.
#[test]
fn a_snapshot_that_names_each_symbol_is_told_from_others() {
    let whole = |patterns: &[&str], expected: u64, since: u64| {
        let mut client = Client::new(ClientConfig::default());
        patterns
            .iter()
            .for_each(|one| client.subscribe(one).unwrap());
        client.connected(Side::A, 0);
        let mut bytes = Vec::new();
        let accepted = LoginAccepted {
            session: SESSION,
            heartbeat_interval_ms: 1_000,
            ..LoginAccepted::default()
        };
        PacketWriter::control(&mut bytes, SESSION, &Control::LoginAccepted(accepted));
        let notice = SnapshotNotice {
            number: 1,
            as_of: 10,
            since,
        };
        PacketWriter::control(&mut bytes, SESSION, &Control::SnapshotNotice(notice));
        client.expected = expected;
        client.highest = expected;
        client.receive(Side::A, &bytes, 0, &mut NullSink).unwrap();
        let is_whole = client.whole == Some((Side::A, 1));
        client.disconnected(Side::A);
        assert_eq!(client.whole, None);
        is_whole
    };
    assert!(whole(&["*"], 0, 0) && whole(&["*"], 11, 0) && whole(&["*"], 5, 0));
    assert!(!whole(&["*"], 12, 0), "the other side is ahead");
    assert!(!whole(&["*"], 5, 5), "what has changed");
    assert!(!whole(&["A*"], 0, 0) && !whole(&["*", "A"], 0, 0));
}
