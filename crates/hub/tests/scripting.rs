//! Tests scripts on hubs of one and of two lanes: they are atomic, and are killed when they run too
//! long.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidewire_hub::{Hub, HubConfig, HubLane, Mail, port};
use tidewire_lane::{LaneConfig, Lanes, Listener};
use tidewire_redis::RedisConfig;

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.send(words);
        self.line()
    }

    /// Sends requests until a script that has just begun has run for too long.
    fn wait_until_busy(&mut self) -> String {
        loop {
            let reply = self.ask(&["PING"]);
            if reply.starts_with("-BUSY") {
                return reply;
            }
            assert_eq!(reply, "+PONG");
        }
    }
}

fn start(lanes: usize) -> (Lanes<Mail>, SocketAddr) {
    let config = HubConfig {
        redis: RedisConfig {
            lanes,
            parameters: vec![("busy-reply-threshold".into(), "20".into())],
            ..RedisConfig::default()
        },
        ..HubConfig::default()
    };
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), port::RESP).unwrap();
    let address = listener.endpoint().tcp().unwrap();
    let mailboxes = Lanes::mailboxes(lanes).unwrap();
    let hub = Hub::new(config, mailboxes.clone());
    let lanes = Lanes::start(
        &LaneConfig::default(),
        mailboxes,
        vec![listener],
        hub.server.lanes.clone(),
        |lane| HubLane::new(hub.clone(), lane, None),
    );
    (lanes.unwrap(), address)
}

#[test]
fn a_script_that_runs_too_long_leaves_the_others_answered_and_is_killed() {
    for lanes in [1, 2] {
        let (running, address) = start(lanes);
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
        assert_eq!(clients[0].ask(&["SET", "k", "1"]), "+OK");
        assert_eq!(clients[3].ask(&["WATCH", "k"]), "+OK");
        assert_eq!(clients[3].ask(&["MULTI"]), "+OK");
        for runner in 0..2 {
            clients[runner].send(&["EVAL", "while true do end", "0"]);
            for other in (0..3).filter(|&other| other != runner) {
                let text = clients[other].wait_until_busy();
                assert!(text.ends_with("You can only call SCRIPT KILL or SHUTDOWN NOSAVE."));
                assert!(clients[other].ask(&["GET", "k"]).starts_with("-BUSY"));
                assert!(
                    clients[other]
                        .ask(&["FUNCTION", "KILL"])
                        .starts_with("-BUSY")
                );
            }
            // A client that connects only now is served as well.
            let mut newcomer = Client::connect(address);
            assert_eq!(newcomer.ask(&["SCRIPT", "KILL"]), "+OK");
            let killed = clients[runner].line();
            assert!(killed.starts_with("-ERR Script killed by user"), "{killed}");
            assert_eq!(clients[runner].ask(&["PING"]), "+PONG");
        }
        assert!(clients[2].ask(&["SCRIPT", "KILL"]).starts_with("-NOTBUSY"));
        // Commands queued before the script are discarded with it.
        clients[0].send(&["EVAL", "while true do end", "0"]);
        clients[1].wait_until_busy();
        assert!(
            clients[3]
                .ask(&["EXEC"])
                .starts_with("-EXECABORT Transaction discarded because of")
        );
        assert_eq!(clients[1].ask(&["SCRIPT", "KILL"]), "+OK");
        assert!(clients[0].line().starts_with("-ERR Script killed"));
        assert_eq!(clients[3].ask(&["PING"]), "+PONG");
        running.stop();
    }
}

#[test]
fn a_script_that_has_written_is_not_killed_but_ends() {
    for lanes in [1, 2] {
        let (running, address) = start(lanes);
        let (mut one, mut other) = (Client::connect(address), Client::connect(address));
        let body = "redis.call('set', 'a', 1)
            local start = os.clock() while os.clock() - start < 0.3 do end
            return redis.call('incr', 'a')";
        one.send(&["EVAL", body, "0"]);
        other.wait_until_busy();
        assert!(other.ask(&["SCRIPT", "KILL"]).starts_with("-UNKILLABLE"));
        assert!(other.ask(&["GET", "a"]).starts_with("-BUSY"));
        assert_eq!(one.line(), ":2");
        assert_eq!(
            (other.ask(&["GET", "a"]), other.line()),
            ("$1".into(), "2".into())
        );
        running.stop();
    }
}

#[test]
fn scripts_of_two_lanes_do_not_see_each_others_halves() {
    let (running, address) = start(2);
    let body = "local a, b = redis.call('incr', 'a'), redis.call('incr', 'other')
        return a == b and 1 or 0";
    let count = 500;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                for _ in 0..count {
                    assert_eq!(client.ask(&["EVAL", body, "0"]), ":1");
                }
            });
        }
    });
    let mut client = Client::connect(address);
    let expected = (2 * count).to_string();
    assert_eq!(client.ask(&["GET", "a"]), format!("${}", expected.len()));
    assert_eq!(client.line(), expected);
    running.stop();
}

#[test]
fn a_lane_that_stops_ends_its_script() {
    let (running, address) = start(1);
    let mut client = Client::connect(address);
    client.send(&["EVAL", "while true do end", "0"]);
    std::thread::sleep(Duration::from_millis(50));
    running.stop();
}

#[test]
fn scripts_in_a_transaction_share_its_locks_and_its_fate() {
    let (running, address) = start(2);
    let mut client = Client::connect(address);
    client.send(&["MULTI"]);
    client.send(&["EVAL", "return redis.call('incr', 'a')", "0"]);
    client.send(&["EVAL", "return redis.call('incr', 'b')", "0"]);
    client.send(&["GET", "a"]);
    client.send(&["EXEC"]);
    let lines: Vec<String> = (0..9).map(|_| client.line()).collect();
    let expected = [
        "+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3", ":1", ":1", "$1", "1",
    ];
    assert_eq!(lines, expected);
    // SELECT applies to the script only; what it publishes and reads runs as the client's commands
    // do.
    client.send(&[
        "EVAL",
        "redis.call('select', 3) redis.call('set', 'x', 1)",
        "0",
    ]);
    assert_eq!(client.line(), "$-1");
    assert_eq!(client.ask(&["EXISTS", "x"]), ":0");
    assert_eq!(
        client.ask(&["EVAL", "return redis.call('publish', 'c', 'm')", "0"]),
        ":0"
    );
    assert!(
        client
            .ask(&["EVAL", "redis.call('multi')", "0"])
            .contains("not allowed from script")
    );
    let read_only = client.ask(&["EVAL_RO", "redis.call('set', 'x', 1)", "0"]);
    assert!(read_only.starts_with("-ERR Write commands are not allowed from read-only scripts."));
    running.stop();
}

const PATIENCE: Duration = Duration::from_secs(20);
