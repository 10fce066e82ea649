//! The link with a real nats-server. `TIDEWIRE_NATS_SERVER` names the program; `cargo xtask test`
//! sets it.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidewire_nats::{
    Answer, Asking, Credentials, Entry, Event, Expectation, Extent, Fetching, Inbox, Link, Message,
    Part, Purging, Settings, Storing, StreamSettings,
};

/// Longest wait for anything; nothing depends on it.
const LIMIT: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    folder: std::path::PathBuf,
    port: u16,
}

impl Server {
    fn start(name: &str) -> Option<Self> {
        Self::start_with(name, "")
    }

    fn start_with(name: &str, configuration: &str) -> Option<Self> {
        let program = std::env::var_os("TIDEWIRE_NATS_SERVER")?;
        let folder =
            std::env::temp_dir().join(format!("tidewire-nats-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("server.conf"), configuration).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let mut server = Self {
            child: Self::spawn(&program, &folder, port),
            folder,
            port,
        };
        server.await_listening();
        Some(server)
    }

    fn spawn(program: &std::ffi::OsStr, folder: &std::path::Path, port: u16) -> Child {
        Command::new(program)
            .args(["-a", "127.0.0.1", "-js", "-p", &port.to_string(), "-sd"])
            .arg(folder.join("store"))
            .arg("-c")
            .arg(folder.join("server.conf"))
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn await_listening(&mut self) {
        let end = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn again(&mut self) {
        let program = std::env::var_os("TIDEWIRE_NATS_SERVER").unwrap();
        self.child = Self::spawn(&program, &self.folder, self.port);
        self.await_listening();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct User {
    link: Link,
    inbox: Inbox,
    taken: Vec<Event>,
}

impl User {
    fn of(server: &Server) -> Self {
        let settings = Settings {
            hears_itself: true,
            ..Settings::default()
        };
        Self::with(server, settings)
    }

    fn with(server: &Server, settings: Settings) -> Self {
        let inbox = Inbox::new();
        let settings = Settings {
            servers: vec![format!("nats://127.0.0.1:{}", server.port)],
            ..settings
        };
        Self {
            link: Link::start(settings, inbox.clone()).unwrap(),
            inbox,
            taken: Vec::new(),
        }
    }

    fn find<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.taken.iter().position(|event| wanted(event).is_some()) {
                return wanted(&self.taken.remove(at)).unwrap();
            }
            assert!(Instant::now() < end, "no such event: {:?}", self.taken);
            self.inbox.take(Duration::from_secs(1), &mut self.taken);
        }
    }

    fn answer(&mut self, tag: u64) -> Answer {
        self.find(|event| match event {
            Event::Answer { tag: found, answer } if *found == tag => Some(answer.clone()),
            _ => None,
        })
    }

    fn message(&mut self) -> Message {
        self.find(|event| match event {
            Event::Message(message) => Some(message.clone()),
            _ => None,
        })
    }

    fn store(&mut self, tag: u64, subject: &str, id: &str, expectation: Expectation) -> Answer {
        self.link.store(
            tag,
            Storing {
                subject: subject.to_owned(),
                stream: "LOG".to_owned(),
                id: id.to_owned(),
                expectation,
                payload: Bytes::from(format!("{subject} {tag}")),
                ..Storing::default()
            },
        );
        self.answer(tag)
    }

    fn extent(&mut self, tag: u64) -> (u64, u64, u64) {
        self.link.extent(tag, "LOG");
        match self.answer(tag) {
            Answer::Extent(Extent {
                origin,
                missing,
                last,
                ..
            }) => (origin, missing, last),
            other => panic!("{other:?}"),
        }
    }
}

fn log() -> StreamSettings {
    StreamSettings {
        name: "LOG".to_owned(),
        subjects: vec!["tw.log.>".to_owned()],
        ..StreamSettings::default()
    }
}

fn sequences(answer: Answer) -> Vec<u64> {
    match answer {
        Answer::Entries(entries) => entries.iter().map(|entry| entry.sequence).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fenced_log_is_stored_fetched_and_heard() {
    let Some(server) = Server::start("fenced") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.subscribe("tw.log.>");
    user.link.make_stream(1, log());
    assert!(matches!(user.answer(1), Answer::Made));
    user.link.newest(2, "LOG", None);
    let answer = user.answer(2);
    assert!(
        matches!(answer, Answer::NoMessage { last_sequence: 0 }),
        "{answer:?}"
    );
    for number in 0..5_u64 {
        let id = format!("id-{number}");
        let answer = user.store(10 + number, "tw.log.a", &id, Expectation::Stream(number));
        let Answer::Stored { sequence, .. } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(sequence, number + 1);
        let heard = user.message();
        assert_eq!(heard.expected_last, Some(number));
        assert_eq!(&heard.payload[..8], b"tw.log.a");
    }
    // Another writer's message is refused. The same one again is not stored twice; with its fence
    // it is refused, as the stream has gone on.
    let refused = user.store(20, "tw.log.a", "other", Expectation::Stream(3));
    assert!(matches!(refused, Answer::Refused), "{refused:?}");
    let again = user.store(22, "tw.log.a", "id-4", Expectation::Stream(4));
    assert!(matches!(again, Answer::Refused), "{again:?}");
    let again = user.store(21, "tw.log.a", "id-4", Expectation::None);
    let is_again = matches!(
        again,
        Answer::Stored {
            sequence: 5,
            is_repeated: true
        }
    );
    assert!(is_again, "{again:?}");
    user.link.fetch(
        30,
        Fetching {
            stream: "LOG".to_owned(),
            subject: "tw.log.>".to_owned(),
            after: 2,
            count_max: 2,
            bytes_max: 1 << 20,
        },
    );
    assert_eq!(sequences(user.answer(30)), [3, 4]);
    user.link.fetch(
        31,
        Fetching {
            stream: "LOG".to_owned(),
            subject: "tw.log.>".to_owned(),
            after: 5,
            count_max: 2,
            bytes_max: 1 << 20,
        },
    );
    assert!(sequences(user.answer(31)).is_empty());
    user.link.newest(32, "LOG", Some("tw.log.a"));
    let Answer::Newest(Some(Entry {
        sequence: 5,
        payload,
        ..
    })) = user.answer(32)
    else {
        panic!("no newest message");
    };
    assert_eq!(&payload[..], b"tw.log.a 14");
}

#[test]
fn newest_messages_of_many_subjects_come_at_once_and_deletions_are_told() {
    let Some(server) = Server::start("newest") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.make_stream(
        1,
        StreamSettings {
            per_subject_max: Some(1),
            ..log()
        },
    );
    assert!(matches!(user.answer(1), Answer::Made));
    for round in 0..2 {
        for page in 0..300 {
            let (tag, subject) = (100 + round * 1_000 + page, format!("tw.log.{page}"));
            let stored = user.store(tag, &subject, "", Expectation::None);
            assert!(matches!(stored, Answer::Stored { .. }), "{stored:?}");
        }
    }
    let subjects = (0..301).map(|page| format!("tw.log.{page}")).collect();
    user.link.newest_of_each(2, "LOG", subjects);
    let answer = user.answer(2);
    let Answer::Entries(entries) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(entries.len(), 300);
    assert!(
        entries
            .iter()
            .all(|entry| entry.sequence > 300 && !entry.is_deletion)
    );
    user.link.store(
        3,
        Storing {
            subject: "tw.log.7".to_owned(),
            stream: "LOG".to_owned(),
            expectation: Expectation::Subject(308),
            is_deletion: true,
            ..Storing::default()
        },
    );
    assert!(matches!(
        user.answer(3),
        Answer::Stored { sequence: 601, .. }
    ));
    user.link.newest(4, "LOG", Some("tw.log.7"));
    let answer = user.answer(4);
    assert!(
        matches!(&answer, Answer::Newest(Some(entry)) if entry.is_deletion),
        "{answer:?}"
    );
    user.link.newest(5, "LOG", Some("tw.log.none"));
    let answer = user.answer(5);
    assert!(matches!(answer, Answer::Newest(None)), "{answer:?}");
    user.link.newest(6, "NONE", Some("tw.log.none"));
    let answer = user.answer(6);
    assert!(!matches!(answer, Answer::Newest(_)), "{answer:?}");
}

/// One user erased what all others had stored in the stream, by a message to a subject of its own.
#[test]
fn a_message_with_a_rollup_erases_nothing() {
    let Some(server) = Server::start("rollup") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.make_stream(1, log());
    assert!(matches!(user.answer(1), Answer::Made));
    user.store(2, "tw.log.a", "", Expectation::None);
    let mut other = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    other.set_read_timeout(Some(LIMIT)).unwrap();
    let headers = "NATS/1.0\r\nNats-Rollup: all\r\n\r\n";
    let (length, all) = (headers.len(), headers.len() + 4);
    let said = format!(
        "CONNECT {{\"headers\":true,\"verbose\":false}}\r\nSUB answer 1\r\n\
         HPUB tw.log.b answer {length} {all}\r\n{headers}gone\r\n"
    );
    other.write_all(said.as_bytes()).unwrap();
    let (mut heard, mut room) = (Vec::new(), [0; 4_096]);
    while !String::from_utf8_lossy(&heard).contains("\"error\"") {
        let count = other.read(&mut room).unwrap();
        assert!(count > 0, "the server answers");
        heard.extend_from_slice(&room[..count]);
    }
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("rollup"), "{heard}");
    user.link.count(3, "LOG", None);
    assert!(matches!(user.answer(3), Answer::Count(1)));
}

/// The end of an empty stream counted as 0, and a stream of seconds could not be made.
#[test]
fn a_stream_whose_messages_have_expired_says_where_it_ends() {
    let Some(server) = Server::start("expired") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.count(1, "LOG", None);
    assert!(matches!(user.answer(1), Answer::NoStream));
    user.link.newest(2, "LOG", None);
    assert!(matches!(user.answer(2), Answer::NoStream));
    let seconds = StreamSettings {
        age_max: Duration::from_secs(1),
        first_sequence: Some(1_000),
        ..log()
    };
    user.link.make_stream(3, seconds.clone());
    assert!(matches!(user.answer(3), Answer::Made));
    let stored = user.store(4, "tw.log.a", "", Expectation::Stream(999));
    assert!(
        matches!(
            stored,
            Answer::Stored {
                sequence: 1_000,
                ..
            }
        ),
        "{stored:?}"
    );
    // One that exists keeps its sequences.
    user.link.make_stream(
        5,
        StreamSettings {
            first_sequence: Some(5_000),
            ..seconds
        },
    );
    assert!(matches!(user.answer(5), Answer::Made));
    let end = Instant::now() + LIMIT;
    let mut tag = 10;
    loop {
        tag += 1;
        user.link.count(tag, "LOG", None);
        match user.answer(tag) {
            Answer::Count(0) => break,
            Answer::Count(1) => assert!(Instant::now() < end, "it does not expire"),
            answer => panic!("{answer:?}"),
        }
    }
    user.link.newest(6, "LOG", None);
    let answer = user.answer(6);
    assert!(
        matches!(
            answer,
            Answer::NoMessage {
                last_sequence: 1_000
            }
        ),
        "{answer:?}"
    );
    let stored = user.store(7, "tw.log.a", "", Expectation::Stream(1_000));
    assert!(
        matches!(
            stored,
            Answer::Stored {
                sequence: 1_001,
                ..
            }
        ),
        "{stored:?}"
    );
}

/// What an operator had removed could not be told from what was never there.
#[test]
fn a_stream_says_what_it_does_not_have_any_more() {
    let Some(server) = Server::start("extent") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.extent(1, "LOG");
    assert!(matches!(user.answer(1), Answer::NoStream));
    let settings = StreamSettings {
        first_sequence: Some(1_000),
        ..log()
    };
    let must_exist = StreamSettings {
        must_exist: true,
        ..settings.clone()
    };
    user.link.make_stream(2, must_exist.clone());
    assert!(matches!(user.answer(2), Answer::NoStream));
    user.link.make_stream(3, settings);
    assert!(matches!(user.answer(3), Answer::Made));
    assert_eq!(user.extent(4), (1_000, 999, 999));
    for number in 0..10 {
        user.store(
            10 + number,
            "tw.log.a",
            "",
            Expectation::Stream(999 + number),
        );
    }
    assert_eq!(user.extent(20), (1_000, 999, 1_009));
    // It is changed, and keeps its first sequence.
    user.link.make_stream(21, must_exist);
    assert!(matches!(user.answer(21), Answer::Made));
    assert_eq!(user.extent(22), (1_000, 999, 1_009));
    let request = br#"{"seq":1005,"no_erase":true}"#;
    let subject = "$JS.API.STREAM.MSG.DELETE.LOG";
    assert!(user.link.publish(subject, Bytes::from_static(request)));
    let end = Instant::now() + LIMIT;
    let mut tag = 100;
    while user.extent(tag) != (1_000, 1_005, 1_009) {
        assert!(Instant::now() < end, "one message is deleted");
        tag += 1;
    }
    for (number, (part, missing)) in [
        (Part::Before(1_003), 1_005),
        (Part::AllBut(3), 1_006),
        (Part::All, 1_009),
    ]
    .into_iter()
    .enumerate()
    {
        let purging = Purging {
            stream: "LOG".to_owned(),
            subject: String::new(),
            part,
        };
        let tag = 1_000_000 + 2 * number as u64;
        user.link.purge(tag, purging);
        assert!(matches!(user.answer(tag), Answer::Made));
        assert_eq!(user.extent(tag + 1), (1_000, missing, 1_009), "{part:?}");
    }
}

#[test]
fn each_request_is_answered_while_no_server_is_there_and_the_link_comes_back() {
    let Some(mut server) = Server::start("away") else {
        return;
    };
    let mut user = User::of(&server);
    user.link.subscribe("tw.free");
    user.link.make_stream(1, log());
    assert!(matches!(user.answer(1), Answer::Made));
    user.find(|event| matches!(event, Event::Connected).then_some(()));
    server.stop();
    user.find(|event| matches!(event, Event::Disconnected { .. }).then_some(()));
    user.link.make_stream(2, log());
    user.link.newest(3, "LOG", None);
    let stored = user.store(4, "tw.log.a", "", Expectation::None);
    assert!(matches!(stored, Answer::TimedOut), "{stored:?}");
    for tag in [2, 3] {
        let answer = user.answer(tag);
        let is_failure = matches!(answer, Answer::TimedOut | Answer::Failed(_));
        assert!(is_failure, "{answer:?}");
    }
    server.again();
    user.find(|event| matches!(event, Event::Connected).then_some(()));
    let end = Instant::now() + LIMIT;
    loop {
        assert!(user.link.publish("tw.free", Bytes::from_static(b"back")));
        user.inbox.take(Duration::from_millis(200), &mut user.taken);
        let is_heard =
            |event: &Event| matches!(event, Event::Message(m) if &m.payload[..] == b"back");
        if user.taken.iter().any(is_heard) {
            break;
        }
        assert!(Instant::now() < end, "the subscription did not come back");
    }
    // What was given up may have been stored when the link came back.
    user.link.newest(5, "LOG", None);
    let answer = user.answer(5);
    assert!(
        matches!(answer, Answer::Newest(_) | Answer::NoMessage { .. }),
        "{answer:?}"
    );
}

/// A link whose client was full waited for a server at its end, and its hub with it.
#[test]
fn a_link_ends_while_no_server_takes_what_was_published() {
    let Some(mut server) = Server::start("end") else {
        return;
    };
    let mut user = User::of(&server);
    user.find(|event| matches!(event, Event::Connected).then_some(()));
    server.stop();
    let payload = Bytes::from(vec![0; 64 << 10]);
    for tag in 0..4_000 {
        user.link.publish("tw.free", payload.clone());
        user.link.newest(tag, "LOG", None);
    }
    drop(user.link);
}

fn ask(user: &User, tag: u64, payload: String) {
    user.link.ask(
        tag,
        Asking {
            subject: "tw.write.a".to_owned(),
            reply: format!("tw.answer.b.{tag}"),
            payload: payload.into(),
            timeout: LIMIT,
        },
    );
}

#[test]
fn requests_are_sent_once_and_in_order_and_told_when_no_one_hears_them() {
    let Some(mut server) = Server::start("ask") else {
        return;
    };
    let (mut owner, mut edge) = (User::of(&server), User::of(&server));
    // What is published before there is a connection is not sent.
    owner.find(|event| matches!(event, Event::Connected).then_some(()));
    edge.find(|event| matches!(event, Event::Connected).then_some(()));
    edge.link.listen("tw.answer.b.*");
    ask(&edge, 1, "no one".to_owned());
    assert!(matches!(edge.answer(1), Answer::NotHeard));
    owner.link.subscribe("tw.write.*");
    // The servers know of the subscription when it brings something.
    owner.link.publish("tw.write.own", Bytes::from("here"));
    assert_eq!(&owner.message().payload[..], b"here");
    for tag in 0..1_000 {
        ask(&edge, 100 + tag, tag.to_string());
    }
    for tag in 0..1_000_u64 {
        let request = owner.message();
        assert_eq!(request.payload, tag.to_string().as_bytes(), "in order");
        let reply = request.reply.unwrap();
        assert!(owner.link.publish(&reply, request.payload.slice(..)));
    }
    for tag in 0..1_000_u64 {
        let Answer::Reply(reply) = edge.answer(100 + tag) else {
            panic!("no reply to {tag}");
        };
        assert_eq!(reply, tag.to_string().as_bytes());
    }
    server.stop();
    edge.find(|event| matches!(event, Event::Disconnected { .. }).then_some(()));
    ask(&edge, 2, "no link".to_owned());
    assert!(matches!(edge.answer(2), Answer::NotHeard));
}

#[test]
fn a_stream_that_is_to_be_kept_stays_as_it_is() {
    let Some(server) = Server::start("kept") else {
        return;
    };
    let mut user = User::of(&server);
    let kept = StreamSettings {
        keeps_existing: true,
        ..log()
    };
    user.link.make_stream(1, kept.clone());
    assert!(matches!(user.answer(1), Answer::Made));
    // With another subject, which the first one does not take.
    let other = StreamSettings {
        subjects: vec!["tw.other.>".to_owned()],
        ..kept.clone()
    };
    user.link.make_stream(2, other);
    let answer = user.answer(2);
    let is_told = |text: &String| text.contains("tw.log.>") && text.contains("tw.other.>");
    assert!(
        matches!(&answer, Answer::Failed(text) if is_told(text)),
        "{answer:?}"
    );
    let answer = user.store(3, "tw.other.a", "", Expectation::None);
    assert!(matches!(answer, Answer::NoStream), "{answer:?}");
    // With another limit, which does not count: the second message would replace the first.
    let limited = StreamSettings {
        per_subject_max: Some(1),
        ..kept
    };
    user.link.make_stream(4, limited);
    assert!(matches!(user.answer(4), Answer::Made));
    for tag in [5, 6] {
        let answer = user.store(tag, "tw.log.a", "", Expectation::None);
        assert!(matches!(answer, Answer::Stored { .. }), "{answer:?}");
    }
    user.link.count(7, "LOG", None);
    let answer = user.answer(7);
    assert!(matches!(answer, Answer::Count(2)), "{answer:?}");
}

/// A stream of another hub, whose message can be sent to any subject.
fn other_stream(user: &mut User) {
    let other = StreamSettings {
        name: "OTHER".to_owned(),
        subjects: vec!["tw.other.>".to_owned()],
        ..log()
    };
    user.link.make_stream(900, other);
    assert!(matches!(user.answer(900), Answer::Made));
    user.link.store(
        901,
        Storing {
            subject: "tw.other.a".to_owned(),
            stream: "OTHER".to_owned(),
            payload: Bytes::from(r#"{"stream":"LOG","seq":5}"#),
            ..Storing::default()
        },
    );
    assert!(matches!(
        user.answer(901),
        Answer::Stored { sequence: 1, .. }
    ));
}

/// Has JetStream send the other stream's message to a subject.
fn pass_on(user: &User, to: &str) {
    user.link.ask(
        0,
        Asking {
            subject: "$JS.API.DIRECT.GET.OTHER".to_owned(),
            reply: to.to_owned(),
            payload: Bytes::from(r#"{"seq":1}"#),
            timeout: Duration::from_millis(1),
        },
    );
}

/// NATS checks no rights of the subject to which a request asks JetStream to reply, and who hears
/// a message sees where its acknowledgement goes.
#[test]
fn an_acknowledgement_was_taken_of_another_stream_and_of_a_stored_message() {
    let Some(server) = Server::start("forged") else {
        return;
    };
    let (mut owner, mut other) = (User::of(&server), User::of(&server));
    other_stream(&mut other);
    other.link.subscribe("tw.log.*");
    // The servers know of the subscription when it brings something.
    other.link.publish("tw.log.own", Bytes::from("here"));
    assert_eq!(other.message().subject, "tw.log.own");
    owner.find(|event| matches!(event, Event::Connected).then_some(()));
    // No stream has the owner's message, so no acknowledgement is right.
    owner.link.store(
        1,
        Storing {
            subject: "tw.log.a".to_owned(),
            stream: "LOG".to_owned(),
            payload: Bytes::from("frame"),
            ..Storing::default()
        },
    );
    let reply = other.message().reply.unwrap();
    pass_on(&other, &reply);
    other.link.ask(
        0,
        Asking {
            subject: "tw.other.b".to_owned(),
            reply,
            timeout: Duration::from_millis(1),
            ..Asking::default()
        },
    );
    other.link.newest(2, "OTHER", Some("tw.other.b"));
    assert!(matches!(other.answer(2), Answer::Newest(_)));
    let answer = owner.answer(1);
    assert!(matches!(answer, Answer::TimedOut), "{answer:?}");
}

#[test]
fn a_message_that_a_client_had_a_stream_send_counted_as_published() {
    let Some(server) = Server::start("passed-on") else {
        return;
    };
    let (mut hub, mut other) = (User::of(&server), User::of(&server));
    other_stream(&mut other);
    hub.link.make_stream(1, log());
    assert!(matches!(hub.answer(1), Answer::Made));
    hub.link.subscribe("tw.live.*");
    hub.link.publish("tw.live.own", Bytes::from("here"));
    assert_eq!(hub.message().subject, "tw.live.own");
    pass_on(&other, "tw.live.a");
    pass_on(&other, "tw.log.a");
    let count = |user: &mut User| {
        user.link.count(2, "LOG", None);
        match user.answer(2) {
            Answer::Count(count) => count,
            answer => panic!("{answer:?}"),
        }
    };
    let end = Instant::now() + LIMIT;
    while count(&mut hub) == 0 {
        assert!(Instant::now() < end, "the log has no message");
    }
    other.link.publish("tw.live.b", Bytes::from("published"));
    let heard = [hub.message(), hub.message()];
    let heard = heard.map(|message| (message.subject, message.payload));
    assert_eq!(heard[0], ("tw.live.a".to_owned(), Bytes::new()));
    assert_eq!(heard[1], ("tw.live.b".to_owned(), "published".into()));
    // The log has it, without a word of it.
    let stored = hub.store(3, "tw.log.a", "", Expectation::Stream(1));
    assert!(matches!(stored, Answer::Stored { sequence: 2, .. }));
    let fetching = Fetching {
        stream: "LOG".to_owned(),
        subject: "tw.log.>".to_owned(),
        after: 0,
        count_max: 10,
        bytes_max: 1 << 20,
    };
    hub.link.fetch(4, fetching);
    let Answer::Entries(entries) = hub.answer(4) else {
        panic!("no entries");
    };
    let found = entries
        .iter()
        .map(|entry| (entry.sequence, &entry.payload[..]));
    assert!(found.eq([(1, &b""[..]), (2, b"tw.log.a 3")]));
    pass_on(&other, "tw.log.b");
    let end = Instant::now() + LIMIT;
    while count(&mut hub) == 2 {
        assert!(Instant::now() < end, "the log has no message");
    }
    hub.link.newest(5, "LOG", None);
    let Answer::Newest(Some(entry)) = hub.answer(5) else {
        panic!("no newest message");
    };
    assert_eq!((entry.sequence, &entry.payload[..]), (3, &b""[..]));
}

#[test]
fn what_a_user_may_not_hear_is_told() {
    let rights = "authorization { users: [ { user: a, password: b, permissions: { \
                  publish: [\"tw.>\"], subscribe: [\"_INBOX.tests.a.>\"] } } ] }";
    let Some(server) = Server::start_with("rights", rights) else {
        return;
    };
    let mut user = User::with(
        &server,
        Settings {
            credentials: Credentials::Password("a".to_owned(), "b".to_owned()),
            inbox: "_INBOX.tests.a".to_owned(),
            ..Settings::default()
        },
    );
    user.link.listen("tw.answer.a.>");
    let subject = user.find(|event| match event {
        Event::NotHearing { subject } => Some(subject.clone()),
        _ => None,
    });
    assert_eq!(subject, "tw.answer.a.>");
    // Its own inbox is heard: the servers' answer comes.
    let answer = user.store(1, "tw.log.a", "", Expectation::None);
    assert!(matches!(answer, Answer::NoStream), "{answer:?}");
    user.link.publish("other", Bytes::new());
    let subject = user.find(|event| match event {
        Event::Denied { subject } => Some(subject.clone()),
        _ => None,
    });
    assert_eq!(subject, "other");
}
