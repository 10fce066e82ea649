//! Delay between a key's TTL and its expired event, while a million other keys have a TTL too:
//! our server and rivals, in turn.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::failed;
use super::report::{Column, Spread, Table, unix_ns};
use super::scenario::{Bench, Samples};
use super::servers::Server;
use tidewire::failure::Failure;

/// One server, one round.
#[derive(Debug, Serialize)]
struct Lateness {
    /// Delay between each key's TTL and its event at the subscriber, in ms. If the event had not
    /// arrived when the round ended, the delay up to that time.
    lateness_ms: Vec<f64>,
    /// Keys whose event arrived.
    heard: usize,
}

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let failed = failed("expiry");
    let servers = Server::start_all(&bench.rivals(), bench.cores).map_err(&failed)?;
    for server in &servers {
        prepare(server.address).map_err(&failed)?;
    }
    let names = Server::names(&servers);
    let mut samples = Samples::new();
    let _core = bench.cores.enter_load().map_err(&failed)?;
    let measured = samples.measure("", bench.options.pairs, &names, |place, round| {
        measure(servers[place].address, round)
    });
    measured.map_err(&failed)?;
    println!(
        "\n{OTHERS} keys with a deadline in an hour; {KEYS} others with one within {} ms, each \
         round; an event counts until {} s after the last deadline\n",
        SPREAD.as_millis(),
        PATIENCE.as_secs()
    );
    let table = table(&samples, &names);
    print!("{}", table.text());
    drop(servers);
    let run = json!({"keys_with_deadline": OTHERS, "samples": samples});
    bench.keep("expiry", run, &[&table])
}

fn table(samples: &Samples<Lateness>, servers: &[String]) -> Table {
    let quantile = |server: &str, quantile: f64| {
        let rounds = samples.of("", server).map(|figures| {
            let mut sorted = figures.lateness_ms.clone();
            sorted.sort_by(f64::total_cmp);
            let last = sorted.len().saturating_sub(1);
            sorted[(last as f64 * quantile).round() as usize]
        });
        Spread::of(rounds).text(1)
    };
    let heard = |server: &String| {
        let heard: usize = samples.of("", server).map(|figures| figures.heard).sum();
        let all = samples
            .of("", server)
            .map(|figures| figures.lateness_ms.len());
        format!("{heard} of {}", all.sum::<usize>())
    };
    let columns: [Column<'_, String>; 5] = [
        ("server", &String::clone),
        ("late, p50 ms", &|server| quantile(server, 0.5)),
        ("p99 ms", &|server| quantile(server, 0.99)),
        ("most ms", &|server| quantile(server, 1.0)),
        ("events heard", &heard),
    ];
    Table::of(servers, &columns)
}

/// Sets a million keys that expire in an hour, and turns events on.
fn prepare(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    command(
        &mut stream,
        &["CONFIG", "SET", "notify-keyspace-events", "Ex"],
    )?;
    for first in (0..OTHERS).step_by(BATCH) {
        let numbers = first..first + BATCH;
        let requests: Vec<u8> = numbers
            .flat_map(|n| encode(&["SET", &format!("other:{n}"), "x", "EX", "3600"]))
            .collect();
        stream.write_all(&requests)?;
        stream.read_exact(&mut vec![0; BATCH * "+OK\r\n".len()])?;
    }
    Ok(())
}

fn measure(address: SocketAddr, round: usize) -> io::Result<Lateness> {
    let mut subscriber = TcpStream::connect(address)?;
    command(&mut subscriber, &["SUBSCRIBE", "__keyevent@0__:expired"])?;
    let mut stream = TcpStream::connect(address)?;
    let start_ms = unix_ns() / 1_000_000 + 100;
    let deadline_ms = |key: usize| start_ms + (key as u64 * 7_919) % SPREAD.as_millis() as u64;
    for key in 0..KEYS {
        let (name, deadline) = (
            format!("due:{round}:{key:04}"),
            deadline_ms(key).to_string(),
        );
        command(&mut stream, &["SET", &name, "x", "PXAT", &deadline])?;
    }
    let end_ns = (start_ms + SPREAD.as_millis() as u64) * 1_000_000 + PATIENCE.as_nanos() as u64;
    let mut heard_ns = vec![None; KEYS];
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let prefix = format!("due:{round}:");
    while unix_ns() < end_ns && heard_ns.iter().any(Option::is_none) {
        let left = Duration::from_nanos(end_ns.saturating_sub(unix_ns()).max(1_000_000));
        subscriber.set_read_timeout(Some(left))?;
        let count = match subscriber.read(&mut chunk) {
            Ok(0) => return Err(io::Error::other("the server has closed the connection")),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        };
        let now_ns = unix_ns();
        bytes.extend_from_slice(&chunk[..count]);
        // The key's name is the last line of a message, and no other line looks like it.
        while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
            bytes.drain(..end + 2);
            let key = line
                .strip_prefix(&prefix)
                .and_then(|key| key.parse::<usize>().ok());
            if let Some(slot) = key.and_then(|key| heard_ns.get_mut(key)) {
                *slot = Some(now_ns);
            }
        }
    }
    let lateness = heard_ns.iter().enumerate().map(|(key, heard_ns)| {
        let heard_ns = heard_ns.unwrap_or(end_ns) as f64;
        heard_ns / 1e6 - deadline_ms(key) as f64
    });
    Ok(Lateness {
        lateness_ms: lateness.collect(),
        heard: heard_ns.iter().flatten().count(),
    })
}

/// Sends a command and waits for the first bytes of its reply.
fn command(stream: &mut TcpStream, words: &[&str]) -> io::Result<()> {
    stream.write_all(&encode(words))?;
    let mut reply = [0; 1024];
    let count = stream.read(&mut reply)?;
    match reply.first() {
        Some(b'-') | None => {
            let text = String::from_utf8_lossy(&reply[..count]).into_owned();
            Err(io::Error::other(text))
        }
        _ => Ok(()),
    }
}

fn encode(words: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    tidewire_resp::write_request(&mut request, words);
    request
}

/// Background keys with a TTL.
const OTHERS: usize = 1_000_000;
/// Keys whose events are measured.
const KEYS: usize = 200;
/// Their TTLs end within this time.
const SPREAD: Duration = Duration::from_millis(1_000);
/// Maximum wait for events after the last TTL.
const PATIENCE: Duration = Duration::from_secs(3);
const BATCH: usize = 1_000;
