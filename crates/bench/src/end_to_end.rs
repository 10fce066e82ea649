//! The path of a message: exchange → hub → subscriber, over real sockets on one machine, compared
//! with the same path to a receiver that does nothing.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use tidewire_feed::simulation::Schedule;

use super::processor_time::{Cores, OnCore};
use super::report::{Table, unix_ns};
use super::scenario::Bench;
use super::servers::{HubAddresses, ServerProcess, free_addresses};
use super::subscriber::{Subscriber, new_histogram, record};
use tidewire::units::{grouped, latency};

/// All results.
#[derive(Debug, Serialize)]
pub(crate) struct EndToEndFigures {
    /// 48 bytes there and back, with both sides blocked in a read.
    ping_pong: Quantiles,
    rates: Vec<RateFigures>,
}

/// Results at one message rate.
#[derive(Debug, Serialize)]
struct RateFigures {
    rate: u64,
    symbols: u64,
    /// Scheduled time to a bare receiver, with the exchange's pacing and grouping.
    floor: Quantiles,
    /// Source stamp to last-value cache, measured by the hub.
    cache: Quantiles,
    /// Source stamp to a Redis subscriber of one symbol.
    redis: Quantiles,
    /// Source stamp to a ZeroMQ subscriber of one symbol.
    zmq: Quantiles,
    /// Messages applied by the hub.
    applied: u64,
    /// The hub's processor time per message, including its two subscribers.
    hub_processor_ns: f64,
}

/// A distribution in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Quantiles {
    /// 0 if unknown.
    samples: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            samples: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
        }
    }

    fn text(self) -> String {
        let quantiles = [self.p50_ns, self.p99_ns, self.p999_ns];
        quantiles.map(latency).join(" / ")
    }
}

/// Measures at every rate, for `seconds` × `pairs` each.
///
/// # Errors
/// A server does not start, or a connection is lost.
pub(crate) fn measure(bench: &Bench<'_>) -> io::Result<EndToEndFigures> {
    let duration = Duration::from_secs_f64(bench.options.seconds * bench.options.pairs as f64);
    let ping_pong = ping_pong(bench.duration(), bench.cores)?;
    let rates = RATES
        .iter()
        .map(|&rate| at_rate(rate, duration, bench.cores));
    let rates = rates.collect::<io::Result<_>>()?;
    Ok(EndToEndFigures { ping_pong, rates })
}

/// Returns a row for each rate.
pub(crate) fn table(figures: &EndToEndFigures) -> Table {
    let mut table = Table::of(
        &figures.rates,
        &[
            ("messages/s", &|row| grouped(row.rate)),
            ("symbols", &|row| row.symbols.to_string()),
            ("bare loopback", &|row| row.floor.text()),
            ("to the cache", &|row| row.cache.text()),
            ("to a Redis subscriber", &|row| row.redis.text()),
            ("to a ZeroMQ subscriber", &|row| row.zmq.text()),
            ("hub CPU ns a message", &|row| {
                format!("{:.0}", row.hub_processor_ns)
            }),
        ],
    );
    let mut ping_pong = vec![String::new(); 7];
    ping_pong[0] = "ping-pong".to_owned();
    ping_pong[2] = figures.ping_pong.text();
    table.push(ping_pong);
    table
}

fn at_rate(rate: u64, duration: Duration, cores: Cores) -> io::Result<RateFigures> {
    let floor = floor(rate, duration / 2, cores)?;
    // The watched symbol ticks about a thousand times a second at each rate.
    let symbols = (rate / 1_000).max(1);
    let [exchange_address] = free_addresses()?;
    let _exchange = ServerProcess::exchange(exchange_address, rate, symbols, cores)?;
    let addresses = HubAddresses::free()?;
    let source = ["--source".to_owned(), exchange_address.to_string()];
    let hub = ServerProcess::hub(&addresses, &source, cores)?;
    std::thread::sleep(SETTLE_TIME);
    let from_unix_ns = unix_ns();
    let redis = Subscriber::redis(addresses.resp, CHANNEL, from_unix_ns, cores)?;
    let zmq = Subscriber::zmq(addresses.zmq_pub, CHANNEL, from_unix_ns, cores)?;
    let clock = hub.clock();
    // The start, with its snapshot and its first allocations, is not measured.
    ask(addresses.resp, b"*2\r\n$6\r\nCONFIG\r\n$9\r\nRESETSTAT\r\n")?;
    let before = Info::ask(addresses.resp)?;
    let before_time = clock.read()?;
    std::thread::sleep(duration);
    let hub_time = clock.read()?.since(before_time);
    let info = Info::ask(addresses.resp)?;
    let applied = info.number("feed_applied_messages")?;
    let gained = applied.saturating_sub(before.number("feed_applied_messages")?);
    Ok(RateFigures {
        rate,
        symbols,
        floor,
        cache: Quantiles {
            samples: gained,
            p50_ns: info.number("feed_latency_p50_ns")?,
            p99_ns: info.number("feed_latency_p99_ns")?,
            p999_ns: info.number("feed_latency_p999_ns")?,
        },
        redis: Quantiles::of(&redis.finish()?),
        zmq: Quantiles::of(&zmq.finish()?),
        applied: gained,
        hub_processor_ns: hub_time.used_ns as f64 / gained.max(1) as f64,
    })
}

/// A section of INFO.
pub(super) struct Info(String);

impl Info {
    fn ask(address: SocketAddr) -> io::Result<Self> {
        Self::ask_for(address, "feed")
    }

    /// Another section.
    pub(super) fn ask_for(address: SocketAddr, section: &str) -> io::Result<Self> {
        let length = section.len();
        let request = format!("*2\r\n$4\r\nINFO\r\n${length}\r\n{section}\r\n");
        Ok(Self(ask(address, request.as_bytes())?))
    }

    /// Returns a numeric field.
    pub(super) fn number(&self, name: &str) -> io::Result<u64> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        let number = lines.find(|(other, _)| *other == name);
        number
            .and_then(|(_, text)| text.parse().ok())
            .ok_or_else(|| io::Error::other(format!("INFO has no {name}")))
    }
}

/// Returns the reply to one request as on the wire.
fn ask(address: SocketAddr, request: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    // A hub with more clients than it can serve is late; wait for it.
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(request)?;
    // The second reply shows where the first one ends.
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut text = Vec::new();
    while !text.ends_with(b"+PONG\r\n") {
        let mut part = [0; 4_096];
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => text.extend_from_slice(&part[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs a paced sender and a receiver that only reads the stamps.
fn floor(rate: u64, duration: Duration, cores: Cores) -> io::Result<Quantiles> {
    let (mut sender, mut receiver) = pair()?;
    let thread = std::thread::spawn(move || -> io::Result<Histogram<u64>> {
        let _core: Option<OnCore> = cores.enter_server()?;
        let mut latency_ns = new_histogram();
        let mut input = vec![0; 64 << 10];
        let mut filled = 0;
        loop {
            match receiver.read(&mut input[filled..])? {
                0 => return Ok(latency_ns),
                count => filled += count,
            }
            let now_unix_ns = unix_ns();
            let whole = filled / MESSAGE_BYTES * MESSAGE_BYTES;
            for message in input[..whole].chunks_exact(MESSAGE_BYTES) {
                let (stamp, _) = message.split_first_chunk().expect("it is 48 bytes long");
                record(
                    &mut latency_ns,
                    now_unix_ns.saturating_sub(u64::from_le_bytes(*stamp)),
                );
            }
            input.copy_within(whole..filled, 0);
            filled -= whole;
        }
    });
    let _core = cores.enter_load()?;
    let start_ns = unix_ns();
    let mut schedule = Schedule::new(start_ns, NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN));
    let mut number = 0;
    let mut output = Vec::new();
    loop {
        let now_ns = unix_ns();
        if now_ns - start_ns >= duration.as_nanos() as u64 {
            break;
        }
        let due = schedule.due(now_ns);
        for _ in 0..due {
            output.extend_from_slice(&schedule.time_ns(number).to_le_bytes());
            output.extend_from_slice(&[0; MESSAGE_BYTES - 8]);
            number += 1;
        }
        sender.write_all(&output)?;
        output.clear();
        schedule.sent(due);
        let next_ns = schedule.next_ns().max(now_ns + QUANTUM_NS);
        std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(unix_ns())));
    }
    drop(sender);
    let joined = thread.join();
    let latency_ns = joined.map_err(|_| io::Error::other("the receiver has failed"))??;
    Ok(Quantiles::of(&latency_ns))
}

fn ping_pong(duration: Duration, cores: Cores) -> io::Result<Quantiles> {
    let (mut here, mut there) = pair()?;
    let thread = std::thread::spawn(move || -> io::Result<()> {
        let _core: Option<OnCore> = cores.enter_server()?;
        let mut message = [0; MESSAGE_BYTES];
        while there.read_exact(&mut message).is_ok() {
            there.write_all(&message)?;
        }
        Ok(())
    });
    let _core = cores.enter_load()?;
    let mut round_ns = new_histogram();
    let mut message = [0; MESSAGE_BYTES];
    let start = Instant::now();
    while start.elapsed() < duration {
        let sent = Instant::now();
        here.write_all(&message)?;
        here.read_exact(&mut message)?;
        record(&mut round_ns, sent.elapsed().as_nanos() as u64);
    }
    drop(here);
    let joined = thread.join();
    joined.map_err(|_| io::Error::other("the other side has failed"))??;
    Ok(Quantiles::of(&round_ns))
}

fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    Ok((here, there))
}

const CHANNEL: &str = "md:RELIANCE";
const RATES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// A quote's length.
const MESSAGE_BYTES: usize = 48;
/// The exchange's grouping of messages.
const QUANTUM_NS: u64 = 50_000;
const SETTLE_TIME: Duration = Duration::from_millis(500);
