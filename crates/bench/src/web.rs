//! Web pages beside Redis pub/sub of the same JSON: server CPU and bytes per update, and the time
//! to the first values of many topics. An update is one write as one connection gets it, also if a
//! page's batch has only a later one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use serde_json::json;

use super::end_to_end::Info;
use super::failed;
use super::processor_time::{Cores, ProcessorClock};
use super::report::{Column, Spread, Table};
use super::scenario::{Bench, OURS, Samples};
use super::servers::{HubAddresses, Rival, Server, ServerProcess, free_addresses};
use super::web_load::{Frames, Load, Peers, text_frame};
use tidewire::failure::Failure;

/// One server, one round.
#[derive(Debug, Serialize)]
struct Updates {
    updates: u64,
    updates_a_second: f64,
    /// Processor time of the server, user and kernel; an operation is an update.
    processor_ns_an_operation: f64,
    /// Bytes that a connection gets, and those that it sends to ask for batches.
    bytes_an_update: f64,
    asked_bytes_an_update: f64,
    /// How long after the last write the last byte came.
    late_ms: f64,
    /// Rows per update: below 1, a batch had only a later value.
    rows_an_update: f64,
}

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let failed = failed("web");
    let (options, cores, rivals) = (bench.options, bench.cores, bench.rivals());
    raise_descriptors().map_err(&failed)?;
    let mut sides = vec![Side::hub(cores).map_err(&failed)?];
    for rival in &rivals {
        sides.push(Side::rival(rival, cores).map_err(&failed)?);
    }
    let names: Vec<String> = sides.iter().map(|side| side.name.clone()).collect();
    let mut samples = Samples::new();
    let _core = cores.enter_load().map_err(&failed)?;
    for pace in [Pace::Spread, Pace::AtOnce] {
        let measured = samples.measure(pace.case(), options.pairs, &names, |place, _| {
            sides[place].measure(pace, bench.duration())
        });
        measured.map_err(&failed)?;
    }
    let paints: io::Result<Vec<f64>> = (0..options.pairs)
        .map(|_| sides[0].first_paint_ms())
        .collect();
    let paint = Spread::of(paints.map_err(&failed)?);
    let named: Vec<String> = rivals.iter().map(Rival::named).collect();
    let beside = match &named[..] {
        [] => String::new(),
        named => format!(" beside subscribers of {}", named.join(", ")),
    };
    println!(
        "\n{CONNECTIONS} connections that each follow {TOPICS} topics, of which each changes {HZ} \
         times per second: pages{beside}; {} rounds of {} s\n",
        options.pairs, options.seconds,
    );
    let table = table(&samples, &names);
    print!("{}", table.text());
    let row = ("first values, ms", paint.text(0));
    let paints = Table::of_pairs(&format!("a page of {PAINTED} topics"), [row]);
    print!("\n{}", paints.text());
    let run = json!({
        "rivals": named,
        "cores": cores,
        "connections": CONNECTIONS,
        "topics": TOPICS,
        "hz": HZ,
        "first_values_ms": paint,
        "samples": samples,
    });
    bench.keep("web", run, &[&table, &paints])
}

fn table(samples: &Samples<Updates>, servers: &[String]) -> Table {
    let cases = samples.cases().into_iter();
    let rows: Vec<(&str, &String)> = cases
        .flat_map(|case| servers.iter().map(move |server| (case, server)))
        .collect();
    let cost: fn(&Updates) -> f64 = |figures| figures.processor_ns_an_operation;
    let bytes: fn(&Updates) -> f64 = |figures| figures.bytes_an_update;
    let spread = |row: &(&str, &String), figure| samples.spread(row.0, row.1, figure);
    let beside = |row: &(&str, &String), figure| match row.1.as_str() {
        OURS => String::new(),
        name => samples.ratio(row.0, name, figure).text(2),
    };
    let columns: [Column<'_, (&str, &String)>; 9] = [
        ("writes", &|row| row.0.to_owned()),
        ("server", &|row| row.1.clone()),
        ("k updates/s", &|row| {
            spread(row, |s| s.updates_a_second / 1e3).text(0)
        }),
        ("last one late, ms", &|row| {
            spread(row, |s| s.late_ms).text(0)
        }),
        ("rows an update", &|row| {
            spread(row, |s| s.rows_an_update).text(2)
        }),
        ("server CPU ns an update", &|row| spread(row, cost).text(0)),
        ("CPU, tidewire ÷", &|row| beside(row, cost)),
        ("bytes an update", &|row| spread(row, bytes).text(1)),
        ("bytes, tidewire ÷", &|row| beside(row, bytes)),
    ];
    Table::of(&rows, &columns)
}

/// A server, and how connections follow topics there.
struct Side {
    name: String,
    resp: SocketAddr,
    /// Where pages connect; `None` for Redis clients.
    web: Option<SocketAddr>,
    clock: ProcessorClock,
    _server: Running,
}

/// Keeps the process until the end.
enum Running {
    Hub { _process: ServerProcess },
    Rival { _server: Server },
}

impl Side {
    fn hub(cores: Cores) -> io::Result<Self> {
        let addresses = HubAddresses::free()?;
        let [web] = free_addresses()?;
        let more = ["--web".to_owned(), web.to_string()];
        let process = ServerProcess::hub(&addresses, &more, cores)?;
        Ok(Self {
            name: OURS.to_owned(),
            resp: addresses.resp,
            web: Some(web),
            clock: process.clock(),
            _server: Running::Hub { _process: process },
        })
    }

    fn rival(rival: &Rival, cores: Cores) -> io::Result<Self> {
        let server = Server::start(Some(rival), cores)?;
        let mut control = TcpStream::connect(server.address)?;
        // One that is late shall not end its subscribers, but deliver late.
        control.write_all(b"CONFIG SET client-output-buffer-limit \"pubsub 0 0 0\"\r\n")?;
        expect(&mut control, b"+OK\r\n")?;
        Ok(Self {
            name: server.name.clone(),
            resp: server.address,
            web: None,
            clock: server.clock.clone(),
            _server: Running::Rival { _server: server },
        })
    }

    fn measure(&self, pace: Pace, duration: Duration) -> io::Result<Updates> {
        let mut publisher = TcpStream::connect(self.resp)?;
        publisher.set_nodelay(true)?;
        if self.web.is_some() {
            // First values; a subscriber of Redis has none.
            for topic in 0..TOPICS {
                publisher.write_all(&self.write(topic, 0))?;
                expect(&mut publisher, b"+OK\r\n")?;
            }
        }
        let streams: io::Result<Vec<TcpStream>> = (0..CONNECTIONS).map(|_| self.open()).collect();
        let peers = match self.web {
            Some(_) => Peers::Pages(text_frame(br#"{"next":1}"#)),
            None => Peers::Subscribers,
        };
        let mut load = Load::new(streams?, publisher, peers)?;
        load.run(pace.interval(), WARM_UP, |count| self.write_of(pace, count))?;
        let (before, rows_before) = (self.clock.read()?, self.rows()?);
        let (begin, received, asked) = (Instant::now(), load.received, load.asked);
        let moments = load.run(pace.interval(), duration, |count| {
            self.write_of(pace, count)
        })?;
        let used = self.clock.read()?.since(before);
        let updates = moments * pace.writes() as u64 * CONNECTIONS as u64;
        let (received, asked) = (load.received - received, load.asked - asked);
        if self.web.is_none() {
            let expected = updates * message(0, 0).len() as u64;
            if received != expected {
                let text = format!("{} delivered {received} of {expected} bytes", self.name);
                return Err(io::Error::other(text));
            }
        }
        let an_update = |sum: u64| sum as f64 / updates as f64;
        let took = load.last.saturating_duration_since(begin);
        Ok(Updates {
            updates,
            updates_a_second: updates as f64 / took.as_secs_f64(),
            processor_ns_an_operation: an_update(used.used_ns),
            bytes_an_update: an_update(received),
            asked_bytes_an_update: an_update(asked),
            late_ms: load.late().as_secs_f64() * 1e3,
            rows_an_update: match self.web {
                Some(_) => an_update(self.rows()? - rows_before),
                None => 1.0,
            },
        })
    }

    /// Returns the rows that all pages have got.
    fn rows(&self) -> io::Result<u64> {
        match self.web {
            Some(_) => Info::ask_for(self.resp, "web")?.number("web_rows"),
            None => Ok(0),
        }
    }

    /// Returns the writes of one moment.
    fn write_of(&self, pace: Pace, moment: u64) -> Vec<u8> {
        let first = moment as usize * pace.writes();
        let writes = first..first + pace.writes();
        let write = |count: usize| self.write(count % TOPICS, count / TOPICS);
        writes.flat_map(write).collect()
    }

    fn write(&self, topic: usize, step: usize) -> Vec<u8> {
        let verb = if self.web.is_some() { "SET" } else { "PUBLISH" };
        let mut request = Vec::new();
        let words = [verb.to_owned(), name(topic), quote(topic, step)];
        tidewire_resp::write_request(&mut request, &words);
        request
    }

    /// Opens a connection that follows all topics.
    fn open(&self) -> io::Result<TcpStream> {
        let names = (0..TOPICS).map(name);
        let Some(web) = self.web else {
            let mut stream = TcpStream::connect(self.resp)?;
            let mut request = Vec::new();
            let words: Vec<String> = std::iter::once("SUBSCRIBE".to_owned())
                .chain(names)
                .collect();
            tidewire_resp::write_request(&mut request, &words);
            stream.write_all(&request)?;
            let confirmations: usize = (0..TOPICS)
                .map(|at| {
                    format!(
                        "*3\r\n$9\r\nsubscribe\r\n$7\r\n{}\r\n:{}\r\n",
                        name(at),
                        at + 1
                    )
                })
                .map(|text| text.len())
                .sum();
            stream.read_exact(&mut vec![0; confirmations])?;
            return Ok(stream);
        };
        let topics: Vec<String> = names.collect();
        let request = json!({"topics": topics, "hz": HZ, "short": true});
        open_page(web, &request)
    }

    /// Returns how long a new page waits for the last of many topics' first values.
    fn first_paint_ms(&self) -> io::Result<f64> {
        let mut control = TcpStream::connect(self.resp)?;
        for first in (0..PAINTED).step_by(TOPICS_A_WRITE) {
            let mut requests = Vec::new();
            for topic in first..first + TOPICS_A_WRITE {
                let words = ["SET", &format!("live:paint:{topic}"), &quote(topic, 0)];
                tidewire_resp::write_request(&mut requests, &words);
            }
            control.write_all(&requests)?;
            expect(&mut control, &b"+OK\r\n".repeat(TOPICS_A_WRITE))?;
        }
        let Some(web) = self.web else {
            return Ok(f64::NAN);
        };
        let begin = Instant::now();
        let mut page = open_page(web, &json!({"topics": ["live:paint:*"], "short": true}))?;
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        let mut part = vec![0; 1 << 20];
        loop {
            let count = page.read(&mut part)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.drain(..seen.len().saturating_sub(MORE.len()));
            seen.extend_from_slice(&part[..count]);
            // The first message is the greeting.
            frames.take(&part[..count]);
            if frames.whole > 1 && frames.is_between() && !seen.ends_with(MORE) {
                return Ok(begin.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
}

/// Opens a page with a subscription, and leaves the greeting and the first values unread.
fn open_page(web: SocketAddr, subscription: &serde_json::Value) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(web)?;
    stream.set_nodelay(true)?;
    let head = "GET /stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        answer.extend_from_slice(&byte);
    }
    if !answer.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(String::from_utf8_lossy(&answer)));
    }
    // The first key of a request is its verb.
    let rest = subscription.to_string();
    let request = format!("{{\"sub\":1,{}", rest.trim_start_matches('{'));
    stream.write_all(&text_frame(request.as_bytes()))?;
    Ok(stream)
}

/// Raises the soft limit on open files as far as the system allows, also for the servers.
fn raise_descriptors() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

fn expect(stream: &mut TcpStream, reply: &[u8]) -> io::Result<()> {
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got)?;
    match got == reply {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&got))),
    }
}

/// How the writes of a second lie in it.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// At equal distances.
    Spread,
    /// All topics together.
    AtOnce,
}

impl Pace {
    fn case(self) -> &'static str {
        match self {
            Pace::Spread => "one by one",
            Pace::AtOnce => "all topics at once",
        }
    }

    fn writes(self) -> usize {
        match self {
            Pace::Spread => 1,
            Pace::AtOnce => TOPICS,
        }
    }

    fn interval(self) -> Duration {
        Duration::from_secs(1) * self.writes() as u32 / (TOPICS * HZ) as u32
    }
}

fn name(topic: usize) -> String {
    format!("live:{topic:02}")
}

/// What a Redis client gets of a write.
fn message(topic: usize, step: usize) -> String {
    let (name, quote) = (name(topic), quote(topic, step));
    let (name_bytes, quote_bytes) = (name.len(), quote.len());
    format!("*3\r\n$7\r\nmessage\r\n${name_bytes}\r\n{name}\r\n${quote_bytes}\r\n{quote}\r\n")
}

/// The published form of a market topic, of which some fields change. All are equally long.
fn quote(topic: usize, step: usize) -> String {
    let (bid_cents, ask_cents) = (step % 100 * 5 + 5, step % 90 * 5 + 5);
    let (bid_size, ask_size) = (10_000 + step * 37 % 70_000, 10_000 + step * 53 % 40_000);
    let (sequence, time) = (1_000_000 + step, TIME_NS + step as u64 * 100_000_000);
    format!(
        "{{\"symbol\":\"S{:02}\",\"bid\":{}.{:02},\"bid_size\":{bid_size},\"ask\":{}.{:02},\
         \"ask_size\":{ask_size},\"last\":2483.25,\"last_size\":418,\"volume\":5848510,\
         \"change_pct\":0.0523,\"seq\":{sequence},\"ts\":{time},\"recv_ts\":{},\"stale\":0,\
         \"state\":\"unknown\",\"side\":\"buy\",\"open\":2481.95,\"high\":2484.15,\"low\":2478.25,\
         \"change_from\":\"open\",\"trades\":452,\"vwap\":2481.321448138,\"bid_orders\":1,\
         \"ask_orders\":27,\"source\":\"simulated\",\"venue\":\"simulated\"}}",
        topic % 100,
        2480 + bid_cents / 100,
        bid_cents % 100,
        2483 + ask_cents / 100,
        ask_cents % 100,
        time + 384_691,
    )
}

const TIME_NS: u64 = 1_795_644_366_000_000_000;
const CONNECTIONS: usize = 1_000;
const TOPICS: usize = 50;
const HZ: usize = 10;
const WARM_UP: Duration = Duration::from_secs(1);
/// Topics of the page whose first values are timed.
const PAINTED: usize = 100_000;
const TOPICS_A_WRITE: usize = 1_000;
/// The end of a part of first values that is not the last.
const MORE: &[u8] = b"\"more\":true}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_as_long_as_the_first() {
        for step in 0..10_000 {
            assert_eq!(message(step % TOPICS, step).len(), message(0, 0).len());
            let quote: Result<serde_json::Value, _> = serde_json::from_str(&quote(0, step));
            assert!(quote.is_ok());
        }
    }
}
