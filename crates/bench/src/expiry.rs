//! How late a key expires, and its event is heard of, while a million others have a deadline too:
//! our server and rivals, in turn.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;

use super::processor_time::Cores;
use super::report::{Setting, Spread, Table, unix_ns, write_run};
use super::samples::OURS;
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// A run as it is kept.
#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    keys_with_deadline: usize,
    samples: Vec<Sample>,
}

/// One server, one round.
#[derive(Debug, Serialize)]
struct Sample {
    server: String,
    round: usize,
    /// From each key's deadline to its event at the subscriber, ms; keys whose event had not come
    /// when the round ended count as the time they had been due by then.
    lateness_ms: Vec<f64>,
    /// Keys whose event came.
    heard: usize,
}

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    let rivals = Rival::chosen(options);
    let failed = failed("expiry");
    let mut run = Run {
        setting: setting.clone(),
        keys_with_deadline: OTHERS,
        samples: Vec::new(),
    };
    let addresses = HubAddresses::free().map_err(&failed)?;
    let hub = ServerProcess::hub(&addresses, &[], cores).map_err(&failed)?;
    let mut servers = vec![(OURS.to_owned(), addresses.resp)];
    let mut processes = vec![hub];
    for rival in &rivals {
        let [address] = free_addresses().map_err(&failed)?;
        processes.push(ServerProcess::rival(rival, address, cores).map_err(&failed)?);
        servers.push((rival.name.clone(), address));
    }
    for (_, address) in &servers {
        prepare(*address).map_err(&failed)?;
    }
    let _core = cores.enter_load().map_err(&failed)?;
    for round in 0..options.pairs {
        for (server, address) in &servers {
            let lateness_ms = measure(*address, round).map_err(&failed)?;
            run.samples.push(Sample {
                server: server.clone(),
                round,
                heard: lateness_ms.1,
                lateness_ms: lateness_ms.0,
            });
        }
    }
    println!(
        "\n{OTHERS} keys with a deadline in an hour; {KEYS} others with one within {} ms, each \
         round; an event counts until {} s after the last deadline\n",
        SPREAD.as_millis(),
        PATIENCE.as_secs()
    );
    let table = table(&run, &servers);
    print!("{}", table.text());
    drop(processes);
    write_run(&run, setting, "expiry", json, &[&table])
}

fn table(run: &Run, servers: &[(String, SocketAddr)]) -> Table {
    let mut table = Table::new(&[
        "server",
        "late, p50 ms",
        "p99 ms",
        "most ms",
        "events heard",
    ]);
    for (server, _) in servers {
        let of_server = || run.samples.iter().filter(|sample| sample.server == *server);
        let quantile = |quantile: f64| {
            Spread::of(of_server().map(|sample| {
                let mut sorted = sample.lateness_ms.clone();
                sorted.sort_by(f64::total_cmp);
                let last = sorted.len().saturating_sub(1);
                sorted[(last as f64 * quantile).round() as usize]
            }))
        };
        let heard: usize = of_server().map(|sample| sample.heard).sum();
        let all: usize = of_server().map(|sample| sample.lateness_ms.len()).sum();
        table.push(vec![
            server.clone(),
            quantile(0.5).text(1),
            quantile(0.99).text(1),
            quantile(1.0).text(1),
            format!("{heard} of {all}"),
        ]);
    }
    table
}

/// A million keys that expire in an hour, and events on.
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

/// Lateness of each key, and how many events came.
fn measure(address: SocketAddr, round: usize) -> io::Result<(Vec<f64>, usize)> {
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
    let count = heard_ns.iter().flatten().count();
    Ok((lateness.collect(), count))
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

/// Keys that have a deadline and are in the way.
const OTHERS: usize = 1_000_000;
/// Keys whose events are timed.
const KEYS: usize = 200;
/// Their deadlines lie within this time.
const SPREAD: Duration = Duration::from_millis(1_000);
/// How long after the last deadline events are waited for.
const PATIENCE: Duration = Duration::from_secs(3);
const BATCH: usize = 1_000;
