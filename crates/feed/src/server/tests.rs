use super::*;
use crate::client::NullSink;
use crate::journal::Filter;
use crate::wire::{
    Definition, HEADER_LENGTH, LastValue, Message, Name, SnapshotNotice, TooOld, Trade, Venue,
    VenueName,
};

const INTERVAL_NS: u64 = HEARTBEAT_INTERVAL_NS_MAX;

fn login(next_sequence: u64, session: u32) -> Control {
    Control::Login(Login {
        role: Role::Subscriber,
        session,
        next_sequence,
        subscription_count: 1,
        ..Login::default()
    })
}

fn subscribe(pattern: &str, resume: bool) -> Control {
    Control::Subscribe(Subscribe {
        pattern: PatternText::new(pattern).unwrap(),
        resume,
    })
}

fn journal(messages: u32) -> Journal {
    let mut journal = Journal::new(9, 64);
    for symbol in 0..messages {
        journal.append(&Message::Trade(Trade {
            symbol,
            ..Trade::default()
        }));
    }
    journal
}

fn receive(session: &mut Session, controls: &[Control]) -> Result<usize, SessionError> {
    let mut bytes = Vec::new();
    for control in controls {
        PacketWriter::control(&mut bytes, 0, control);
    }
    session.receive(&bytes, 0, &mut NullSink)
}

/// Returns the session's output: (flags, first sequence, count) of packets, and controls.
fn said(
    session: &mut Session,
    journal: &Journal,
    now_ns: u64,
) -> (Vec<(u8, u64, u16)>, Vec<Control>) {
    said_of(session, journal, &EmptyBoard, now_ns)
}

fn said_of(
    session: &mut Session,
    journal: &Journal,
    board: &impl Board,
    now_ns: u64,
) -> (Vec<(u8, u64, u16)>, Vec<Control>) {
    let mut out = Vec::new();
    while session.produce(journal, board, now_ns, &mut out, 4_096) {}
    let (mut packets, mut controls, mut rest) = (Vec::new(), Vec::new(), out.as_slice());
    while let Some((packet, length)) = decode_packet(rest).unwrap() {
        let header = packet.header;
        if header.flags.contains(Flags::CONTROL) {
            controls.extend(packet.controls().map(Result::unwrap));
        } else {
            packets.push((header.flags.0, header.first_sequence, header.message_count));
        }
        rest = &rest[length..];
    }
    (packets, controls)
}

fn refusal(session: &mut Session) -> RefusalReason {
    let (_, controls) = said(session, &journal(0), 0);
    let refusals = controls.iter().filter_map(|control| match control {
        Control::Refused(refused) => Some(refused.reason),
        _ => None,
    });
    refusals.collect::<Vec<_>>().pop().expect("a refusal")
}

#[test]
fn a_snapshot_comes_first_then_the_stream() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut journal = journal(5);
    receive(&mut session, &[login(0, 0), subscribe("*", false)]).unwrap();
    let (packets, controls) = said(&mut session, &journal, 0);
    assert!(matches!(controls[0], Control::LoginAccepted(accepted) if accepted.session == 9));
    let notice = SnapshotNotice {
        number: 1,
        as_of: 5,
        since: 0,
    };
    assert_eq!(controls[1..], [Control::SnapshotNotice(notice)]);
    assert_eq!(packets, [(Flags::SNAPSHOT.0, 1 << 32, 2)]);
    journal.append(&Message::Trade(Trade::default()));
    assert_eq!(said(&mut session, &journal, 0).0, [(0, 6, 1)]);
}

#[test]
fn a_resumed_client_gets_the_rest_without_a_snapshot() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(3, 9), subscribe("*", true)]).unwrap();
    let (packets, controls) = said(&mut session, &journal(5), 0);
    assert_eq!(controls.len(), 1, "{controls:?}");
    assert_eq!(packets, [(0, 3, 3)]);
}

#[test]
fn a_client_of_another_session_begins_anew() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(3, 8), subscribe("*", true)]).unwrap();
    let (_, controls) = said(&mut session, &journal(5), 0);
    let notice = SnapshotNotice {
        number: 1,
        as_of: 5,
        since: 0,
    };
    assert_eq!(controls.last(), Some(&Control::SnapshotNotice(notice)));
}

#[test]
fn a_resume_from_before_the_window_is_conflated_and_says_so() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(3, 9), subscribe("*", true)]).unwrap();
    let (_, controls) = said(&mut session, &journal(500), 0);
    let too_old = TooOld {
        wanted: 3,
        oldest: 501,
        conflated: true,
        ..TooOld::default()
    };
    assert_eq!(controls[1], Control::TooOld(too_old));
    assert_eq!(session.counters().conflated, 498);
}

#[test]
fn a_client_that_lags_too_far_is_conflated_before_the_window_ends() {
    let config = SessionConfig {
        lag_messages_max: 10,
        ..SessionConfig::default()
    };
    let mut session = Session::new(config, 0);
    receive(&mut session, &[login(3, 9), subscribe("*", true)]).unwrap();
    let (_, controls) = said(&mut session, &journal(30), 0);
    let too_old = TooOld {
        wanted: 3,
        oldest: 31,
        conflated: true,
        ..TooOld::default()
    };
    assert_eq!(controls[1], Control::TooOld(too_old));
}

/// Creates a client of this policy that falls out of the window after it has joined.
/// A board that has only venues.
struct Venues(Vec<Venue>);

impl Board for Venues {
    fn len(&self) -> usize {
        0
    }

    fn definition(&self, _index: usize) -> Option<Definition> {
        None
    }

    fn last_value(&self, _index: usize) -> Option<LastValue> {
        None
    }

    fn venues(&self) -> Vec<Venue> {
        self.0.clone()
    }
}

/// The message that names a venue was among the messages that a conflated client does not get.
#[test]
fn a_conflated_client_is_told_the_venues_that_it_may_have_missed() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut journal = journal(5);
    receive(&mut session, &[login(0, 0), subscribe("*", false)]).unwrap();
    let venue = |source| Venue {
        source,
        source_time_ns: 0,
        name: VenueName::new("XNAS").unwrap(),
    };
    let mut board = Venues(vec![venue(2)]);
    let mut told = |journal: &Journal, board: &Venues| {
        let (_, controls) = said_of(&mut session, journal, board, 0);
        let venues = controls.iter().filter_map(|control| match control {
            Control::Venue(venue) => Some(venue.source),
            _ => None,
        });
        let is_snapshot = |control: &Control| matches!(control, Control::SnapshotNotice(_));
        let venues = venues.collect::<Vec<_>>();
        (venues, controls.iter().any(is_snapshot))
    };
    assert_eq!(told(&journal, &board), (vec![2], true));
    let append = |journal: &mut Journal| {
        for _ in 0..100 {
            journal.append(&Message::Trade(Trade::default()));
        }
    };
    append(&mut journal);
    assert_eq!(told(&journal, &board), (vec![], true));
    board.0.push(venue(3));
    append(&mut journal);
    assert_eq!(told(&journal, &board), (vec![2, 3], true));
}

fn overrun(server: SlowPolicy, client: Option<SlowPolicy>) -> (Session, Journal) {
    let config = SessionConfig {
        slow_policy: server,
        ..SessionConfig::default()
    };
    let mut session = Session::new(config, 0);
    let login = Login {
        session: 9,
        next_sequence: 1,
        subscription_count: 1,
        slow_policy: client,
        ..Login::default()
    };
    let controls = [Control::Login(login), subscribe("*", true)];
    receive(&mut session, &controls).unwrap();
    let mut journal = journal(5);
    assert_eq!(said(&mut session, &journal, 0).0, [(0, 1, 5)]);
    (0..500).for_each(|_| _ = journal.append(&Message::Trade(Trade::default())));
    (session, journal)
}

#[test]
fn a_slow_client_that_wants_the_gap_marked_gets_no_snapshot_and_what_is_left() {
    let (mut session, journal) = overrun(SlowPolicy::Conflate, Some(SlowPolicy::Drop));
    assert!(!session.is_too_slow(&journal));
    let (packets, controls) = said(&mut session, &journal, 0);
    let too_old = TooOld {
        wanted: 6,
        oldest: 474,
        dropped: true,
        ..TooOld::default()
    };
    assert_eq!(controls, [Control::TooOld(too_old)]);
    assert_eq!(packets, [(0, 474, 32)]);
    let counters = session.counters();
    assert_eq!((counters.drops, counters.dropped), (1, 468));
    assert_eq!((counters.conflations, counters.snapshots), (0, 0));
}

#[test]
fn a_slow_client_that_wants_the_end_is_refused_as_too_slow() {
    let (mut session, journal) = overrun(SlowPolicy::Conflate, Some(SlowPolicy::Disconnect));
    assert!(
        session.is_too_slow(&journal),
        "also without room to produce"
    );
    let (packets, controls) = said(&mut session, &journal, 0);
    assert!(packets.is_empty(), "{packets:?}");
    let [Control::Refused(refused)] = controls.as_slice() else {
        panic!("{controls:?}");
    };
    assert_eq!(refused.reason, RefusalReason::TOO_SLOW);
    assert!(session.is_closing());
}

#[test]
fn who_chooses_nothing_gets_what_the_server_does() {
    for (server, drops, conflations) in [(SlowPolicy::Drop, 1, 0), (SlowPolicy::Conflate, 0, 1)] {
        let (mut session, journal) = overrun(server, None);
        said(&mut session, &journal, 0);
        let counters = session.counters();
        assert_eq!((counters.drops, counters.conflations), (drops, conflations));
    }
    let (session, journal) = overrun(SlowPolicy::Disconnect, Some(SlowPolicy::Conflate));
    assert!(!session.is_too_slow(&journal), "the client's word counts");
}

#[test]
fn who_was_away_too_long_is_not_slow() {
    for policy in [SlowPolicy::Drop, SlowPolicy::Disconnect] {
        let config = SessionConfig {
            slow_policy: policy,
            ..SessionConfig::default()
        };
        let mut session = Session::new(config, 0);
        receive(&mut session, &[login(3, 9), subscribe("*", true)]).unwrap();
        let (_, controls) = said(&mut session, &journal(500), 0);
        assert!(!session.is_closing() && session.counters().snapshots == 1);
        assert!(matches!(controls[1], Control::TooOld(told) if told.conflated));
    }
}

#[test]
fn a_client_that_never_logs_in_wakes_nobody_until_it_is_silent() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let silent_ns = SILENCE_INTERVALS_MAX * INTERVAL_NS;
    assert_eq!(session.deadline_ns(), silent_ns);
    assert_eq!(
        said(&mut session, &journal(0), silent_ns - 1),
        (vec![], vec![])
    );
    assert!(!session.is_silent(silent_ns - 1) && session.is_silent(silent_ns));
}

#[test]
fn a_stream_waits_for_all_announced_subscriptions() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut two = Login {
        subscription_count: 2,
        ..Login::default()
    };
    two.next_sequence = 1;
    receive(&mut session, &[Control::Login(two), subscribe("A", true)]).unwrap();
    let journal = journal(5);
    assert_eq!(said(&mut session, &journal, 0).0, []);
    receive(&mut session, &[subscribe("*", true)]).unwrap();
    assert_eq!(said(&mut session, &journal, 0).0, [(0, 1, 5)]);
}

#[test]
fn requests_are_answered_from_the_window_or_with_too_old() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(0, 0), subscribe("*", false)]).unwrap();
    let journal = journal(100);
    said(&mut session, &journal, 0);
    let request = |from, count| {
        Control::Request(Request {
            from,
            count,
            snapshot: false,
        })
    };
    receive(
        &mut session,
        &[request(90, 2), request(1, 40), request(u64::MAX, u64::MAX)],
    )
    .unwrap();
    let (packets, controls) = said(&mut session, &journal, 0);
    assert_eq!(
        packets,
        [
            (Flags::RETRANSMISSION.0, 90, 2),
            (Flags::RETRANSMISSION.0, 37, 4)
        ]
    );
    let too_old = TooOld {
        wanted: 1,
        oldest: 37,
        ..TooOld::default()
    };
    assert_eq!(controls, [Control::TooOld(too_old)]);
}

#[test]
fn heartbeats_come_soon_after_the_last_packet_and_never_later_than_the_interval() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(1, 9), subscribe("*", true)]).unwrap();
    let journal = journal(5);
    assert_eq!(said(&mut session, &journal, 0).0, [(0, 1, 5)]);
    let (mut times_ns, mut now_ns) = (Vec::new(), 0);
    while now_ns < 10 * INTERVAL_NS {
        now_ns = session.deadline_ns().max(now_ns + 1);
        receive(&mut session, &[]).unwrap();
        if said(&mut session, &journal, now_ns).0 == [(Flags::HEARTBEAT.0, 6, 0)] {
            times_ns.push(now_ns);
        }
        if session.is_silent(now_ns) {
            break;
        }
    }
    assert_eq!(times_ns[0], HEARTBEAT_DELAY_NS_FIRST);
    assert!(
        times_ns
            .windows(2)
            .all(|pair| pair[1] - pair[0] <= INTERVAL_NS)
    );
    assert!(session.is_silent(SILENCE_INTERVALS_MAX * INTERVAL_NS));
}

#[test]
fn what_is_out_of_order_is_refused() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let error = receive(&mut session, &[subscribe("*", false)]);
    assert_eq!(error, Err(SessionError::OutOfOrder));
    assert_eq!(refusal(&mut session), RefusalReason::OUT_OF_ORDER);
    assert!(session.is_closing());

    let mut session = Session::new(SessionConfig::default(), 0);
    let error = receive(&mut session, &[login(0, 0), login(0, 0)]);
    assert_eq!(error, Err(SessionError::OutOfOrder));
}

/// The reason was 7, which is for packets that cannot be decoded.
#[test]
fn a_second_login_of_a_publisher_is_out_of_order() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let login = Control::Login(Login {
        role: Role::Publisher,
        session: 5,
        next_sequence: 1,
        ..Login::default()
    });
    let error = receive(&mut session, &[login, login]);
    assert_eq!(error, Err(SessionError::OutOfOrder));
    assert_eq!(refusal(&mut session), RefusalReason::OUT_OF_ORDER);
}

/// The server waited for the subscription, and sent heartbeats.
#[test]
fn a_client_whose_control_is_damaged_connects_again() {
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(0, 0)]).unwrap();
    let mut bytes = Vec::new();
    PacketWriter::control(&mut bytes, 0, &subscribe("*", false));
    bytes[50] ^= 1;
    let error = session.receive(&bytes, 0, &mut NullSink);
    assert_eq!(error, Err(SessionError::Damaged));
    assert_eq!(session.corrupt_packets(), 1);
    assert_eq!(refusal(&mut session), RefusalReason::PROTOCOL);
    assert!(session.is_closing());
}

#[test]
fn a_login_with_an_unknown_slow_choice_was_refused_as_one_with_an_unknown_role() {
    let reasons = [(28, RefusalReason::ROLE), (29, RefusalReason::PROTOCOL)];
    for (offset, reason) in reasons {
        let mut bytes = Vec::new();
        PacketWriter::control(&mut bytes, 0, &login(0, 0));
        bytes[HEADER_LENGTH + offset] = 9;
        bytes[12..16].fill(0);
        let checksum = crc32c::crc32c(&bytes).to_le_bytes();
        bytes[12..16].copy_from_slice(&checksum);
        let mut session = Session::new(SessionConfig::default(), 0);
        let error = session.receive(&bytes, 0, &mut NullSink);
        assert!(error.is_err());
        assert_eq!(refusal(&mut session), reason);
        assert!(session.is_closing());
    }
}

#[test]
fn roles_sequences_and_patterns_are_refused_with_their_reason() {
    let config = SessionConfig {
        subscribers: false,
        patterns_max: 1,
        ..Default::default()
    };
    let mut session = Session::new(config, 0);
    assert_eq!(
        receive(&mut session, &[login(0, 0)]),
        Err(SessionError::Refused)
    );
    assert_eq!(refusal(&mut session), RefusalReason::ROLE);

    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login(99, 9)]).unwrap();
    assert_eq!(refusal(&mut session), RefusalReason::FUTURE_SEQUENCE);

    let mut session = Session::new(
        SessionConfig {
            subscribers: true,
            ..config
        },
        0,
    );
    receive(
        &mut session,
        &[login(0, 0), subscribe("A", false), subscribe("B", false)],
    )
    .unwrap();
    assert_eq!(refusal(&mut session), RefusalReason::TOO_MANY_PATTERNS);
    assert!(session.is_logged_in(), "the first subscription stays");
}

/// A server whose publishers' sessions all have another connection.
struct Taken;

impl Sink for Taken {
    fn message(&mut self, _sequence: u64, _message: &Message) {
        unreachable!("nothing of a refused publisher is read");
    }

    fn publisher_login(&mut self, _login: &Login) -> PublisherLogin {
        PublisherLogin::InUse
    }
}

#[test]
fn a_publisher_whose_session_is_in_use_is_refused_and_not_read() {
    let mut session = Session::new(SessionConfig::default(), 0);
    let mut bytes = Vec::new();
    let login = Login {
        role: Role::Publisher,
        session: 5,
        next_sequence: 1,
        ..Login::default()
    };
    PacketWriter::control(&mut bytes, 5, &Control::Login(login));
    let result = session.receive(&bytes, 0, &mut Taken);
    assert_eq!(result, Err(SessionError::SessionInUse));
    assert!(session.is_closing() && session.receiver().is_none());
    assert_eq!(refusal(&mut session), RefusalReason::SESSION_IN_USE);
}

/// A board that counts how often an entry is read.
struct Counted {
    names: Vec<String>,
    reads: std::cell::Cell<usize>,
}

impl Counted {
    fn new(names: usize) -> Counted {
        Counted {
            names: (0..names).map(|number| format!("S{number:07}")).collect(),
            reads: std::cell::Cell::new(0),
        }
    }
}

impl Board for Counted {
    fn len(&self) -> usize {
        self.names.len()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        self.reads.set(self.reads.get() + 1);
        let name = Name::new(self.names.get(index)?).unwrap();
        Some(Definition::new(index as u32, name))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|one| (**one).cmp(name)).ok()
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        Some(LastValue::new(index as u32))
    }
}

fn login_for(subscription_count: u16) -> Control {
    Control::Login(Login {
        role: Role::Subscriber,
        subscription_count,
        ..Login::default()
    })
}

/// Returns the symbols of the values in the output.
fn valued(out: &[u8]) -> Vec<u32> {
    let (mut symbols, mut rest) = (Vec::new(), out);
    while let Some((packet, length)) = decode_packet(rest).unwrap() {
        if !packet.header.flags.contains(Flags::CONTROL) {
            symbols.extend(packet.messages().filter_map(|message| match message {
                Ok(Message::LastValue(value)) => Some(value.symbol),
                _ => None,
            }));
        }
        rest = &rest[length..];
    }
    symbols
}

/// A thousand names on a board of a million held a lane for 22 seconds: each name was compared
/// with each entry.
#[test]
fn exact_names_are_looked_up_and_never_searched() {
    let board = Counted::new(100_000);
    let mut session = Session::new(SessionConfig::default(), 0);
    let names: Vec<u32> = (0..1_000).map(|number| number * 97).collect();
    let mut controls = vec![login_for(1_000)];
    controls.extend(
        names
            .iter()
            .map(|number| subscribe(&format!("S{number:07}"), false)),
    );
    receive(&mut session, &controls).unwrap();
    let (journal, mut out) = (journal(1), Vec::new());
    while session.produce(&journal, &board, 0, &mut out, 1 << 20) {}
    assert_eq!(valued(&out), names);
    assert!(board.reads.get() <= 2_000, "{} entries", board.reads.get());
    receive(&mut session, &[subscribe("S0000001", false)]).unwrap();
    let removed = PatternText::new("S0000097").unwrap();
    receive(&mut session, &[Control::Unsubscribe(removed)]).unwrap();
    out.clear();
    while session.produce(&journal, &board, 0, &mut out, 1 << 20) {}
    assert_eq!(valued(&out), [1]);
    let passes = |symbol| session.selection().passes(symbol);
    assert!(passes(1) && passes(0) && !passes(97) && !passes(2));
    assert!(board.reads.get() <= 4_000, "{} entries", board.reads.get());
}

/// Patterns of one client held a lane for seconds: a call went through the whole board.
#[test]
fn a_search_is_done_in_parts_and_begins_the_stream_when_it_is_over() {
    let board = Counted::new(20_000);
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login_for(2), subscribe("S*77*7", true)]).unwrap();
    receive(&mut session, &[subscribe("S00000?1", false)]).unwrap();
    let (journal, mut out, mut calls) = (journal(1), Vec::new(), 0);
    loop {
        let before = board.reads.get();
        let mut steps = Steps::new(10_000);
        let more = session.produce_within(&journal, &board, 0, &mut out, 1 << 20, &mut steps);
        assert!(board.reads.get() - before <= 320, "a call reads its share");
        calls += 1;
        if !more {
            break;
        }
    }
    assert!(calls > 60, "{calls}");
    let is_wanted = |name: &String| name.ends_with('7') && name[..7].contains("77");
    let matching = |(index, name): (usize, &String)| {
        let is_other = name.starts_with("S00000") && name.ends_with('1');
        (is_wanted(name) || is_other).then_some(index as u32)
    };
    let wanted: Vec<u32> = board
        .names
        .iter()
        .enumerate()
        .filter_map(matching)
        .collect();
    assert!(wanted.len() > 10);
    assert_eq!(valued(&out), wanted);
    // Without steps, what needs no search still leaves.
    out.clear();
    session.produce_within(
        &journal,
        &board,
        INTERVAL_NS,
        &mut out,
        1 << 20,
        &mut Steps::none(),
    );
    assert!(!out.is_empty(), "a heartbeat");
}

/// The stream went on only after a search, or had skipped messages of a symbol that was then
/// said to be complete.
#[test]
fn a_new_glob_does_not_hold_the_stream_and_its_values_come_after_the_search() {
    let board = Counted::new(20_000);
    let mut journal = Journal::new(9, 64);
    let mut session = Session::new(SessionConfig::default(), 0);
    receive(&mut session, &[login_for(1), subscribe("S0000005", false)]).unwrap();
    said_of(&mut session, &journal, &board, 0);
    receive(&mut session, &[subscribe("S*9999", false)]).unwrap();
    let mut out = Vec::new();
    let mut has_news = false;
    loop {
        for symbol in [5, 9_999] {
            let trade = Trade {
                symbol,
                ..Trade::default()
            };
            journal.append(&Message::Trade(trade));
        }
        let mut steps = Steps::new(10_000);
        out.clear();
        let more = session.produce_within(&journal, &board, 0, &mut out, 1 << 20, &mut steps);
        assert!(
            session.cursor().scanned == journal.next_sequence(),
            "it goes on"
        );
        let is_found = session.selection().passes(9_999);
        assert!(
            is_found || valued(&out).is_empty(),
            "no value before the symbol is found"
        );
        has_news |= valued(&out).contains(&9_999);
        if !more {
            break;
        }
    }
    assert!(has_news);
}

#[test]
fn a_removed_glob_selects_nothing_after_the_next_search() {
    let mut board = Counted::new(5_000);
    let journal = journal(1);
    let mut session = Session::new(SessionConfig::default(), 0);
    let patterns = [
        subscribe("S*1", false),
        subscribe("S*2", false),
        subscribe("*", false),
    ];
    receive(&mut session, &[login_for(3)]).unwrap();
    receive(&mut session, &patterns).unwrap();
    said_of(&mut session, &journal, &board, 0);
    assert!(session.selection().passes(3));
    for text in ["*", "S*1"] {
        let text = PatternText::new(text).unwrap();
        receive(&mut session, &[Control::Unsubscribe(text)]).unwrap();
    }
    board.names.push("S0005002".to_owned());
    said_of(&mut session, &journal, &board, 0);
    let passes = |symbol| session.selection().passes(symbol);
    assert!(passes(2) && passes(5_000) && !passes(1) && !passes(3));
}
