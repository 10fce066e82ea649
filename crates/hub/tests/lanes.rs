//! Tests a hub on its lanes, in this process, through its ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_fanout::FanoutConfig;
use tidewire_hub::{Hub, HubConfig, HubLane, Mail, port};
use tidewire_lane::{LaneConfig, Lanes, Listener};
use tidewire_market::{FeedSource, MarketConfig};
use tidewire_redis::RedisConfig;

struct Running {
    hub: Arc<Hub>,
    lanes: Lanes<Mail>,
    resp: SocketAddr,
}

fn start(config: HubConfig) -> Running {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), port::RESP).unwrap();
    let resp = listener.endpoint().tcp().unwrap();
    let mailboxes = Lanes::mailboxes(config.redis.lanes).unwrap();
    let hub = Hub::new(config, mailboxes.clone());
    let lanes = Lanes::start(
        &LaneConfig::default(),
        mailboxes,
        vec![listener],
        hub.server.lanes.clone(),
        |lane| HubLane::new(hub.clone(), lane, None),
    )
    .unwrap();
    Running { hub, lanes, resp }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(running: &Running) -> Self {
        let stream = TcpStream::connect(running.resp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, commands: &str) {
        self.0.get_mut().write_all(commands.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the body of the next message.
    fn message(&mut self) -> String {
        let parts: Vec<_> = (0..7).map(|_| self.line()).collect();
        assert_eq!(
            (&parts[0][..], &parts[2][..]),
            ("*3", "message"),
            "{parts:?}"
        );
        parts[6].clone()
    }

    fn subscribe(&mut self, name: &str) {
        self.send(&format!("SUBSCRIBE {name}\r\n"));
        assert_eq!((0..6).map(|_| self.line()).last().unwrap(), ":1");
    }
}

#[test]
fn a_lane_that_missed_its_mail_gives_the_newest_value_of_live_keys() {
    for lanes in [1, 2] {
        // There is room for one message, so further ones are discarded while it waits.
        let running = start(HubConfig {
            redis: RedisConfig {
                lanes,
                ..RedisConfig::default()
            },
            fanout: FanoutConfig {
                waiting_bytes_max: 0,
                ..FanoutConfig::default()
            },
            ..HubConfig::default()
        });
        let (mut writer, mut subscriber) = (Client::connect(&running), Client::connect(&running));
        subscriber.subscribe("live:a");
        for round in 0..50 {
            let sets = |n: i32| format!("SET live:a {round}-{n}\r\n");
            writer.send(&(0..200).map(sets).collect::<String>());
            let last = format!("{round}-199");
            while subscriber.message() != last {}
        }
        running.lanes.stop();
    }
}

#[test]
fn a_port_that_is_no_feed_is_not_asked_without_a_pause() {
    let wrong = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = start(HubConfig {
        market: MarketConfig {
            sources: vec![FeedSource::of(wrong.local_addr().unwrap())],
            ..MarketConfig::default()
        },
        ..HubConfig::default()
    });
    let mut delays = Vec::new();
    for _ in 0..9 {
        let (mut one, _) = wrong.accept().unwrap();
        one.write_all(b"-ERR unknown command\r\n").unwrap();
        let mut login = [0; 256];
        while one.read(&mut login).is_ok_and(|count| count > 0) {}
        delays.push(std::time::Instant::now());
    }
    // The pause doubles from 2 ms, and half of it is jitter: the eighth is at least 128 ms.
    assert!(delays[8] - delays[7] > Duration::from_millis(60));
    running.lanes.stop();
}

#[test]
fn a_hub_with_nothing_to_do_sleeps() {
    let running = start(HubConfig {
        redis: RedisConfig {
            lanes: 2,
            ..RedisConfig::default()
        },
        ..HubConfig::default()
    });
    let mut client = Client::connect(&running);
    client.send("SET a b PX 100000\r\n");
    assert_eq!(client.line(), "+OK");
    let turns = || -> u64 {
        let lanes = running.hub.server.lanes.iter();
        lanes.map(|lane| lane.turns.load(Ordering::Relaxed)).sum()
    };
    let before = turns();
    std::thread::sleep(Duration::from_millis(300));
    assert!(turns() - before <= 2, "{} turns", turns() - before);
    running.lanes.stop();
}

#[test]
fn what_follows_quit_in_a_pipeline_is_not_executed() {
    let running = start(HubConfig::default());
    let mut client = Client::connect(&running);
    client.send("SET k 1\r\nNOSUCH\r\nCLIENT REPLY SKIP\r\nNOSUCH\r\nPING\r\nQUIT\r\nSET k 2\r\n");
    assert_eq!(client.line(), "+OK");
    assert!(client.line().starts_with("-ERR unknown command"));
    assert_eq!(
        (client.line(), client.line()),
        ("+PONG".into(), "+OK".into())
    );
    assert_eq!(client.0.read(&mut [0; 64]).unwrap_or(0), 0);
    let mut other = Client::connect(&running);
    other.send("GET k\r\n");
    assert_eq!((other.line(), other.line()), ("$1".into(), "1".into()));
    running.lanes.stop();
}

#[test]
fn hundreds_of_thousands_of_patterns_come_and_go_in_time_by_their_number() {
    let running = start(HubConfig::default());
    let (mut many, mut other) = (Client::connect(&running), Client::connect(&running));
    let count = 200_000;
    let mut request = format!("*{}\r\n$10\r\nPSUBSCRIBE\r\n", count + 1);
    for number in 0..count {
        request += &format!("$10\r\np{number:08}*\r\n");
    }
    many.send(&request);
    let mut chunk = vec![0; 1 << 20];
    let mut received = 0;
    let expected: usize = (1..=count).map(|n: usize| 41 + n.to_string().len()).sum();
    while received < expected {
        received += many.0.read(&mut chunk).unwrap();
    }
    drop(many);
    // The other client gets replies again once the first is gone.
    other.send("PUBSUB NUMPAT\r\n");
    while other.line() != ":0" {
        other.send("PUBSUB NUMPAT\r\n");
    }
    running.lanes.stop();
}

const PATIENCE: Duration = Duration::from_secs(20);
