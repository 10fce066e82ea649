use super::*;
use crate::client::NullSink;
use crate::wire::{Definition, LastValue, Message, Trade, Venue, VenueName};

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
