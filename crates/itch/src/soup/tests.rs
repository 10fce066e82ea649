//! Client and server over a wire that splits the bytes at any place.

use proptest::prelude::*;

use super::*;
use crate::sequenced::{SequencedSink, SessionName, Store};
use tidewire_feed::client::{Gap, LossReason};

#[derive(Default)]
struct Seen {
    messages: Vec<(u64, Vec<u8>)>,
    gaps: Vec<Gap>,
    sessions: usize,
    end: Option<u64>,
}

impl SequencedSink for Seen {
    fn message(&mut self, sequence: u64, message: &[u8]) {
        self.messages.push((sequence, message.to_vec()));
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }

    fn session(&mut self, _: SessionName) {
        self.sessions += 1;
    }

    fn end_of_session(&mut self, next_sequence: u64) {
        self.end = Some(next_sequence);
    }
}

fn store(session: &str, until: u64) -> Store {
    let mut store = Store::new(SessionName::new(session), 64);
    (1..until).for_each(|sequence| assert!(store.append(&message(sequence)).is_ok()));
    store
}

fn message(sequence: u64) -> Vec<u8> {
    format!("message {sequence}").into_bytes()
}

/// Runs one connection: the server receives the client's output, and the client receives the
/// server's output in `piece`s.
fn connect(
    client: &mut Client,
    server: &mut Server,
    store: &Store,
    piece: usize,
    seen: &mut Seen,
) -> Result<(), ClientError> {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.connected(0);
    client.drain_outgoing(&mut up);
    assert_eq!(server.receive(&up, 0), Ok(up.len()));
    while server.produce(store, 0, &mut down, 100) {}
    let mut pending = Vec::new();
    for bytes in down.chunks(piece) {
        pending.extend_from_slice(bytes);
        let used = client.receive(&pending, 0, seen)?;
        pending.drain(..used);
    }
    assert!(pending.is_empty());
    Ok(())
}

fn server() -> Server {
    Server::new(ServerConfig::default(), 0)
}

#[test]
fn a_login_has_the_bytes_that_nasdaq_gives_it() {
    let mut bytes = Vec::new();
    Login::new("USER", "SECRET", SessionName::new("S"), 42).write(&mut bytes);
    assert_eq!(
        bytes,
        b"\0\x2fLUSER  SECRET    S                           42"
    );
    assert_eq!(bytes.len(), 49);
    let read = Login::read(&bytes[3..]).unwrap();
    assert_eq!((read.sequence, &read.user), (42, b"USER  "));
    let mut accepted = Vec::new();
    packet::write_accepted(&mut accepted, SessionName::new("S"), u64::MAX);
    assert_eq!(accepted, b"\0\x1fAS         18446744073709551615");
    for body in [
        &b"short"[..],
        b"S         1844674407370955161x",
        b"S         99999999999999999999",
    ] {
        assert_eq!(packet::read_accepted(body), None);
    }
}

#[test]
fn a_client_gets_everything_and_goes_on_where_it_stopped() {
    for piece in [1, 5, 10_000] {
        let (mut client, mut seen) = (Client::new(ClientConfig::default()), Seen::default());
        connect(
            &mut client,
            &mut server(),
            &store("S", 11),
            piece,
            &mut seen,
        )
        .unwrap();
        let mut longer = store("S", 31);
        longer.end_session();
        connect(&mut client, &mut server(), &longer, piece, &mut seen).unwrap();
        let expected: Vec<_> = (1..31)
            .map(|sequence| (sequence, message(sequence)))
            .collect();
        assert_eq!(seen.messages, expected);
        assert_eq!(
            (seen.end, seen.sessions, client.is_ended()),
            (Some(31), 1, true)
        );
        assert!(seen.gaps.is_empty());
    }
}

#[test]
fn what_the_server_no_longer_has_is_told() {
    let (mut client, mut seen) = (Client::new(ClientConfig::default()), Seen::default());
    connect(&mut client, &mut server(), &store("S", 101), 99, &mut seen).unwrap();
    let (from, count, reason) = (1, 36, LossReason::TooOld);
    assert_eq!(
        seen.gaps,
        [Gap::Lost {
            from,
            count,
            reason
        }]
    );
    assert_eq!(seen.messages[0], (37, message(37)));
    assert_eq!((client.next_sequence(), client.counters().lost), (101, 36));
}

#[test]
fn wrong_passwords_and_sessions_are_rejected() {
    let config = ServerConfig {
        user: Some(("USER".to_owned(), "SECRET".to_owned())),
    };
    let log_in = |password: &str, session: &str| {
        let mut client = Client::new(ClientConfig {
            user: "USER".to_owned(),
            password: password.to_owned(),
            session: SessionName::new(session),
        });
        let mut server = Server::new(config.clone(), 0);
        let result = connect(
            &mut client,
            &mut server,
            &store("S", 3),
            99,
            &mut Seen::default(),
        );
        (result, server.is_closing())
    };
    assert_eq!(log_in("SECRET", ""), (Ok(()), false));
    assert_eq!(log_in("SECRET", "S"), (Ok(()), false));
    let rejected = |reject| (Err(ClientError::Rejected(reject)), true);
    assert_eq!(log_in("WRONG", ""), rejected(Reject::NotAuthorized));
    assert_eq!(log_in("SECRET", "T"), rejected(Reject::NoSession));
}

#[test]
fn a_server_of_a_new_day_is_joined_from_its_beginning() {
    let (mut client, mut seen) = (Client::new(ClientConfig::default()), Seen::default());
    connect(&mut client, &mut server(), &store("S", 9), 99, &mut seen).unwrap();
    let result = connect(&mut client, &mut server(), &store("T", 3), 99, &mut seen);
    assert_eq!(result, Err(ClientError::Rejected(Reject::NoSession)));
    connect(&mut client, &mut server(), &store("T", 3), 99, &mut seen).unwrap();
    assert_eq!((seen.sessions, seen.messages.len()), (2, 10));
    assert_eq!(client.session().unwrap().trimmed(), b"T");
}

#[test]
fn both_sides_say_heartbeats_and_notice_silence() {
    let store = store("S", 2);
    let (mut client, mut server) = (Client::new(ClientConfig::default()), server());
    connect(&mut client, &mut server, &store, 99, &mut Seen::default()).unwrap();
    assert_eq!(client.deadline_ns(), HEARTBEAT_INTERVAL_NS);
    client.handle_timeout(HEARTBEAT_INTERVAL_NS);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.drain_outgoing(&mut up);
    assert_eq!(up, b"\0\x01R");
    assert_eq!(server.receive(&up, 5), Ok(3));
    server.produce(&store, HEARTBEAT_INTERVAL_NS, &mut down, 100);
    assert_eq!(down, b"\0\x01H");
    assert_eq!(client.receive(&down, 7, &mut Seen::default()), Ok(3));
    assert!(!client.is_silent(SILENCE_NS_MAX) && client.is_silent(SILENCE_NS_MAX + 7));
    assert!(!server.is_silent(SILENCE_NS_MAX) && server.is_silent(SILENCE_NS_MAX + 5));
    assert!(Server::new(ServerConfig::default(), 0).is_silent(LOGIN_TIMEOUT_NS));
}

/// A server that only sent heartbeats held the connection without end.
#[test]
fn a_login_without_an_answer_ends_in_spite_of_heartbeats() {
    let mut client = Client::new(ClientConfig::default());
    client.connected(5);
    for second in 1..=15 {
        let now_ns = second * HEARTBEAT_INTERVAL_NS;
        assert!(!client.is_unanswered(now_ns) && !client.is_silent(now_ns));
        let taken = client.receive(b"\0\x01H", now_ns, &mut Seen::default());
        assert_eq!(taken, Ok(3));
    }
    assert!(client.is_unanswered(SILENCE_NS_MAX + 5));
    client.connected(SILENCE_NS_MAX + 5);
    assert!(!client.is_unanswered(SILENCE_NS_MAX + 6));
}

/// It counted as a connection, and the reason was that the framing is lost.
#[test]
fn an_answer_with_a_lower_number_than_asked_is_no_login() {
    let (mut client, mut seen) = (Client::new(ClientConfig::default()), Seen::default());
    connect(&mut client, &mut server(), &store("S", 9), 99, &mut seen).unwrap();
    client.connected(0);
    let mut answer = b"\0\x1fA".to_vec();
    answer.extend_from_slice(b"         S                   2");
    let result = client.receive(&answer, 0, &mut seen);
    let (asked, given) = (9, 2);
    assert_eq!(result, Err(ClientError::TooEarly { asked, given }));
    assert!(!client.is_accepted());
    assert_eq!((client.counters().logins, client.next_sequence()), (1, 9));
}

#[test]
fn what_breaks_the_order_ends_the_connection() {
    let mut server = server();
    assert_eq!(server.receive(b"\0\x01R", 0), Err(ServerError::OutOfOrder));
    assert_eq!(server.receive(b"\0\0", 0), Err(ServerError::FramingLost));
    assert_eq!(
        server.receive(b"\0\x02Lx", 0),
        Err(ServerError::FramingLost)
    );
    assert_eq!(server.receive(b"\0\x01O", 0), Err(ServerError::LoggedOut));
    let mut client = Client::new(ClientConfig::default());
    let mut receive = |bytes| client.receive(bytes, 0, &mut Seen::default());
    assert_eq!(receive(b"\0\x02Sx"), Err(ClientError::OutOfOrder));
    assert_eq!(receive(b"\0\0"), Err(ClientError::FramingLost));
    assert_eq!(receive(b"\0\x03+hi\0\x01Q\0"), Ok(8));
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::fuzz_soup(&bytes);
    }
}
