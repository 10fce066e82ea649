//! A soak test: many clients write more than `maxmemory` allows for the given time. Measures the
//! server's deviation from the limit, the clients' replies, and their latency.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use serde_json::json;

use super::failed;
use super::load::{Outcome, connect};
use super::report::Table;
use super::scenario::Bench;
use super::servers::Server;
use tidewire::failure::Failure;

/// Runs the soak test, prints the result and stores the run. It fails on an error other than OOM,
/// or if memory is ever more than 3 % above or below the limit. This applies to the resident
/// memory, which the limit counts (`docs/decisions/0016-what-maxmemory-counts.md`), and to
/// `used_memory` plus `maxmemory_reserve`. `used_memory` alone is printed, and may be lower by an
/// eighth.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let failed = failed("eviction");
    let server = Server::start(None, bench.cores).map_err(&failed)?;
    let _core = bench.cores.enter_load().map_err(&failed)?;
    let mut soak = Soak::start(server.address).map_err(&failed)?;
    let outcome = soak.run(bench.duration()).map_err(&failed)?;
    drop(server);
    let table = table(&soak, &outcome);
    print!("\n{}", table.text());
    let run = json!({
        "maxmemory_bytes": MAXMEMORY_BYTES,
        "policy": POLICY,
        "clients": CLIENTS,
        "seconds": outcome.elapsed.as_secs_f64(),
        "operations": outcome.operations,
        "refused": soak.refused,
        "errors": soak.errors,
        "evicted_keys": soak.evicted,
        "used_bytes_min": soak.used.least,
        "used_bytes_max": soak.used.most,
        "counted_bytes_min": soak.counted.least,
        "counted_bytes_max": soak.counted.most,
        "resident_bytes_min": soak.resident.least,
        "resident_bytes_max": soak.resident.most,
        "latency_us": latencies(&outcome),
    });
    bench.keep("eviction", run, &[&table])?;
    if soak.evicted == 0 {
        return Err(Failure::running("the limit was never reached"));
    }
    if soak.counted.strays() || soak.resident.strays() {
        return Err(Failure::running(
            "memory strays from its limit by more than 3 %",
        ));
    }
    match soak.errors.first() {
        Some(error) => Err(Failure::running(format!("a client heard {error:?}"))),
        None => Ok(()),
    }
}

/// Latencies in µs, with the number of requests up to each.
fn latencies(outcome: &Outcome) -> Vec<(u64, u64)> {
    let mut sum = 0;
    let steps = outcome.latency_ns.iter_quantiles(2).map(|step| {
        sum += step.count_since_last_iteration();
        (step.value_iterated_to() / 1_000, sum)
    });
    steps.collect()
}

fn table(soak: &Soak, outcome: &Outcome) -> Table {
    let rate = outcome.operations as f64 / outcome.elapsed.as_secs_f64();
    let latency = |quantile| {
        let ms = outcome.latency_ns.value_at_quantile(quantile) as f64 / 1e6;
        format!("{ms:.2}")
    };
    let rows = [
        ("requests/s", format!("{rate:.0}")),
        ("keys evicted", soak.evicted.to_string()),
        ("held, % of the limit", soak.used.text()),
        ("held or kept free, %", soak.counted.text()),
        ("resident, %", soak.resident.text()),
        ("latency p50, ms", latency(0.5)),
        ("latency p99, ms", latency(0.99)),
        ("latency p99.9, ms", latency(0.999)),
        ("latency most, ms", latency(1.0)),
        ("refused (OOM)", soak.refused.to_string()),
        ("other errors", soak.errors.len().to_string()),
    ];
    Table::of_pairs("", rows)
}

/// The clients, and their replies.
struct Soak {
    poll: OwnedFd,
    clients: Vec<SoakClient>,
    control: TcpStream,
    random: u64,
    /// Replies `-OOM`.
    refused: u64,
    /// Other errors, which must not happen.
    errors: Vec<String>,
    evicted: u64,
    /// `used_memory` since the limit was reached, sampled every quarter of a second, like the
    /// others.
    used: Range,
    /// The same including `maxmemory_reserve`, which the server keeps free.
    counted: Range,
    /// `used_memory_rss`.
    resident: Range,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

/// The minimum and the maximum.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    const NONE: Self = Range {
        least: u64::MAX,
        most: 0,
    };

    fn add(&mut self, bytes: u64) {
        self.least = self.least.min(bytes);
        self.most = self.most.max(bytes);
    }

    /// Formats both in per cent of the limit.
    fn text(self) -> String {
        let percent = |bytes: u64| bytes as f64 / MAXMEMORY_BYTES as f64 * 100.0;
        format!("{:.2} to {:.2}", percent(self.least), percent(self.most))
    }

    /// Returns whether memory left the allowed range, or was never measured.
    fn strays(self) -> bool {
        let stray_max = MAXMEMORY_BYTES * STRAY_PERCENT_MAX / 100;
        self.least > self.most
            || self.least < MAXMEMORY_BYTES - stray_max
            || self.most > MAXMEMORY_BYTES + stray_max
    }
}

struct SoakClient {
    stream: TcpStream,
    sent: Instant,
    /// The received part of the reply.
    reply: Vec<u8>,
}

impl Soak {
    fn start(address: SocketAddr) -> io::Result<Self> {
        let mut control = TcpStream::connect(address)?;
        let maxmemory = MAXMEMORY_BYTES.to_string();
        let settings = ["maxmemory", &maxmemory, "maxmemory-policy", POLICY];
        let words = [&["CONFIG", "SET"], &settings[..]].concat();
        control.write_all(format!("{}\r\n", words.join(" ")).as_bytes())?;
        control.read_exact(&mut [0; 5])?;
        let mut soak = Self {
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            clients: Vec::new(),
            control,
            random: 0x9E37_79B9_7F4A_7C15,
            refused: 0,
            errors: Vec::new(),
            evicted: 0,
            used: Range::NONE,
            counted: Range::NONE,
            resident: Range::NONE,
            request: Vec::new(),
            buffer: vec![0; 64 << 10],
        };
        for number in 0..CLIENTS {
            let stream = connect(address)?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&soak.poll, &stream, data, EventFlags::IN)?;
            soak.clients.push(SoakClient {
                stream,
                sent: Instant::now(),
                reply: Vec::new(),
            });
            soak.send(number)?;
        }
        Ok(soak)
    }

    fn run(&mut self, duration: Duration) -> io::Result<Outcome> {
        let mut outcome = Outcome::new();
        let start = Instant::now();
        let mut look = start;
        let mut events = Vec::with_capacity(CLIENTS);
        while start.elapsed() < duration {
            let silence = rustix::event::Timespec {
                tv_sec: SILENCE_SECONDS,
                tv_nsec: 0,
            };
            let buffer = rustix::buffer::spare_capacity(&mut events);
            if epoll::wait(&self.poll, buffer, Some(&silence))? == 0 {
                return Err(io::Error::other("the server does not answer"));
            }
            for event in events.drain(..) {
                self.receive(event.data.u64() as usize, &mut outcome)?;
            }
            if look.elapsed() > LOOK_INTERVAL {
                look = Instant::now();
                self.look()?;
            }
        }
        outcome.elapsed = start.elapsed();
        Ok(outcome)
    }

    fn receive(&mut self, number: usize, outcome: &mut Outcome) -> io::Result<()> {
        let client = &mut self.clients[number];
        let count = client.stream.read(&mut self.buffer)?;
        if count == 0 {
            return Err(io::Error::other("the server has closed a connection"));
        }
        client.reply.extend_from_slice(&self.buffer[..count]);
        if !is_whole(&client.reply) {
            return Ok(());
        }
        outcome.record(client.sent.elapsed(), 1);
        if client.reply.starts_with(b"-OOM ") {
            self.refused += 1;
        } else if client.reply[0] == b'-' && self.errors.len() < ERRORS_KEPT {
            let text = String::from_utf8_lossy(&client.reply).into_owned();
            self.errors.push(text);
        }
        client.reply.clear();
        self.send(number)
    }

    /// Two writes of three requests; values from 16 bytes to 2 KiB, over many more keys than fit.
    fn send(&mut self, number: usize) -> io::Result<()> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let key = format!("key:{:012}", self.random % KEYS);
        self.request.clear();
        if (self.random >> 40).is_multiple_of(3) {
            write!(self.request, "*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n")?;
        } else {
            let length = 16 + (self.random >> 48) as usize % 2033;
            let head = format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n${length}\r\n");
            self.request.extend_from_slice(head.as_bytes());
            self.request.resize(head.len() + length, b'v');
            self.request.extend_from_slice(b"\r\n");
        }
        let client = &mut self.clients[number];
        client.sent = Instant::now();
        client.stream.write_all(&self.request)
    }

    /// Returns the server's memory figures.
    fn look(&mut self) -> io::Result<()> {
        self.control.write_all(b"INFO memory stats\r\n")?;
        let mut reply = Vec::new();
        while !is_whole(&reply) {
            let count = self.control.read(&mut self.buffer)?;
            if count == 0 {
                return Err(io::Error::other("the server has closed a connection"));
            }
            reply.extend_from_slice(&self.buffer[..count]);
        }
        let text = String::from_utf8_lossy(&reply);
        let number = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            found.and_then(|value| value.parse().ok()).unwrap_or(0u64)
        };
        self.evicted = number("evicted_keys:");
        if self.evicted > 0 {
            let used = number("used_memory:");
            self.used.add(used);
            self.counted.add(used + number("maxmemory_reserve:"));
            self.resident.add(number("used_memory_rss:"));
        }
        Ok(())
    }
}

/// Returns whether a reply to one of these requests is complete.
fn is_whole(reply: &[u8]) -> bool {
    let Some(end) = reply.windows(2).position(|pair| pair == b"\r\n") else {
        return false;
    };
    let length = reply[0] == b'$';
    let length = length.then(|| {
        std::str::from_utf8(&reply[1..end])
            .ok()?
            .parse::<usize>()
            .ok()
    });
    match length.flatten() {
        Some(length) => reply.len() >= end + 2 + length + 2,
        None => true,
    }
}

const MAXMEMORY_BYTES: u64 = 256 << 20;
const POLICY: &str = "allkeys-lru";
const CLIENTS: usize = 500;
/// Four times as many as fit.
const KEYS: u64 = 1_000_000;
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const SILENCE_SECONDS: i64 = 10;
const ERRORS_KEPT: usize = 20;
/// Allowed deviation of memory from the limit.
const STRAY_PERCENT_MAX: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_strays_above_as_well_as_below_its_limit() {
        let range = |least: u64, most: u64| Range {
            least: MAXMEMORY_BYTES / 1_000 * least,
            most: MAXMEMORY_BYTES / 1_000 * most,
        };
        assert!(!range(971, 1_029).strays());
        assert!(range(969, 1_000).strays());
        assert!(range(1_000, 1_031).strays());
        assert!(Range::NONE.strays());
    }

    #[test]
    fn a_reply_is_whole_with_its_last_byte() {
        for reply in [
            &b"+OK\r\n"[..],
            b"$-1\r\n",
            b"$3\r\nabc\r\n",
            b"-OOM no\r\n",
        ] {
            let parts = (0..reply.len()).filter(|&length| is_whole(&reply[..length]));
            assert_eq!((parts.count(), is_whole(reply)), (0, true));
        }
    }
}
