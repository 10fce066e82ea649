//! Bytes per key: the memory of a fresh server before and after it is filled, ours and rivals.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::failed;
use super::processor_time::Cores;
use super::report::Table;
use super::scenario::{Bench, OURS, Samples};
use super::servers::{Rival, Server};
use tidewire::failure::Failure;

/// One fresh server, filled once.
#[derive(Debug, Serialize)]
struct Growth {
    keys: usize,
    /// Growth of the resident memory (`VmRSS`), divided by the keys.
    bytes_a_key: f64,
}

/// Keys of one kind.
struct KeyKind {
    name: &'static str,
    keys: usize,
    /// Bytes of one key's name and value.
    raw_bytes: usize,
    /// The requests that create one key, and their number. Each is answered by one line or one
    /// identifier.
    make: fn(usize) -> Vec<Vec<String>>,
    lines_a_reply: usize,
}

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let rivals = bench.rivals();
    let servers: Vec<Option<&Rival>> = std::iter::once(None)
        .chain(rivals.iter().map(Some))
        .collect();
    let name = |rival: &Option<&Rival>| rival.map_or(OURS, |rival| &rival.name).to_owned();
    let names: Vec<String> = servers.iter().map(name).collect();
    let mut samples = Samples::new();
    for case in &CASES {
        let rounds = bench.options.pairs.min(ROUNDS_MAX);
        let measured = samples.measure(case.name, rounds, &names, |place, _| {
            measure(case, servers[place], bench.cores)
        });
        measured.map_err(failed(case.name))?;
    }
    let named: Vec<String> = rivals.iter().map(Rival::named).collect();
    println!("\nresident bytes a key; rivals: {}\n", named.join(", "));
    let table = table(&samples, &names[1..]);
    print!("{}", table.text());
    let run = json!({"rivals": named, "samples": samples});
    bench.keep("memory", run, &[&table])
}

fn table(samples: &Samples<Growth>, rivals: &[String]) -> Table {
    let ratios: Vec<String> = rivals.iter().map(|rival| format!("÷ {rival}")).collect();
    let mut titles = vec!["key", "raw bytes", OURS];
    titles.extend(rivals.iter().chain(&ratios).map(String::as_str));
    let mut table = Table::new(&titles);
    for case in &CASES {
        let of = |server| samples.spread(case.name, server, |s| s.bytes_a_key);
        let ours = of(OURS);
        let raw_bytes = case.raw_bytes.to_string();
        let mut row = vec![case.name.to_owned(), raw_bytes, ours.text(1)];
        row.extend(rivals.iter().map(|rival| of(rival).text(1)));
        let ratio = |rival| ours.median / of(rival).median;
        row.extend(rivals.iter().map(|rival| format!("{:.2}", ratio(rival))));
        table.push(row);
    }
    table
}

/// Fills a fresh server, and measures its growth.
fn measure(case: &KeyKind, rival: Option<&Rival>, cores: Cores) -> io::Result<Growth> {
    let server = Server::start(rival, cores)?;
    let _core = cores.enter_load()?;
    // The allocations for a server's first client are not counted.
    fill(server.address, case, case.keys..case.keys + 1)?;
    let before = settled(&server)?;
    fill(server.address, case, 0..case.keys)?;
    let bytes = settled(&server)?.saturating_sub(before);
    Ok(Growth {
        keys: case.keys,
        bytes_a_key: bytes as f64 / case.keys as f64,
    })
}

/// Returns the resident memory when it no longer shrinks.
fn settled(server: &Server) -> io::Result<u64> {
    let mut least = server.resident_bytes()?;
    for _ in 0..SETTLING_STEPS {
        std::thread::sleep(SETTLING_STEP);
        least = least.min(server.resident_bytes()?);
    }
    Ok(least)
}

fn fill(address: SocketAddr, case: &KeyKind, keys: Range<usize>) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut requests = Vec::new();
    let mut expected = 0;
    let mut chunk = vec![0; 64 << 10];
    for key in keys.clone() {
        for request in (case.make)(key) {
            tidewire_resp::write_request(&mut requests, &request);
            expected += case.lines_a_reply;
        }
        if requests.len() > BATCH_BYTES || key + 1 == keys.end {
            stream.write_all(&requests)?;
            requests.clear();
            while expected > 0 {
                let count = stream.read(&mut chunk)?;
                let lines = chunk[..count].iter().filter(|&&byte| byte == b'\n').count();
                if matches!(chunk[..count].first(), None | Some(b'-')) {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(&chunk[..count.min(80)]).into_owned(),
                    ));
                }
                expected = expected.saturating_sub(lines);
            }
        }
    }
    Ok(())
}

fn string(key: usize, value: &str) -> Vec<Vec<String>> {
    vec![vec![
        "SET".into(),
        format!("key:{key:012}"),
        value.to_owned(),
    ]]
}

fn hash(key: usize) -> Vec<Vec<String>> {
    let pairs = (0..100).flat_map(|field| [format!("field:{field:02}"), format!("value:{key:08}")]);
    let head = ["HSET".to_owned(), format!("hash:{key:011}")];
    vec![head.into_iter().chain(pairs).collect()]
}

fn sorted_set(key: usize) -> Vec<Vec<String>> {
    let pairs = (0..100).flat_map(|member| {
        let score = (member * 7_919 + key) % 10_007;
        [score.to_string(), format!("member:{member:05}")]
    });
    let head = ["ZADD".to_owned(), format!("zset:{key:011}")];
    vec![head.into_iter().chain(pairs).collect()]
}

fn stream(key: usize) -> Vec<Vec<String>> {
    let entry = |number: usize| {
        vec![
            "XADD".to_owned(),
            format!("stream:{key:09}"),
            format!("{}-0", 1_700_000_000_000 + number * 37),
            "temperature".to_owned(),
            format!("{}.{}", 20 + number % 7, number % 10),
            "pressure".to_owned(),
            format!("{}", 1_000 + number % 31),
        ]
    };
    (0..1_000).map(entry).collect()
}

const fn kind(
    name: &'static str,
    keys: usize,
    raw_bytes: usize,
    lines_a_reply: usize,
    make: fn(usize) -> Vec<Vec<String>>,
) -> KeyKind {
    KeyKind {
        name,
        keys,
        raw_bytes,
        make,
        lines_a_reply,
    }
}

/// There are enough keys of each kind that a huge page, 2 MiB, is a few per cent at most.
const CASES: [KeyKind; 6] = [
    kind("string of 3 bytes", 1_000_000, 16 + 3, 1, |key| {
        string(key, "abc")
    }),
    kind("string of 16 bytes", 1_000_000, 16 + 16, 1, |key| {
        string(key, "abcdefghijklmnop")
    }),
    kind("string of 64 bytes", 1_000_000, 16 + 64, 1, |key| {
        string(key, &"abcdefgh".repeat(8))
    }),
    kind("hash of 100 fields", 40_000, HASH_BYTES, 1, hash),
    kind(
        "sorted set of 100 members",
        40_000,
        SET_BYTES,
        1,
        sorted_set,
    ),
    kind("stream of 1,000 entries", 2_000, STREAM_BYTES, 2, stream),
];
const HASH_BYTES: usize = 16 + 100 * (8 + 14);
const SET_BYTES: usize = 16 + 100 * (12 + 8);
const STREAM_BYTES: usize = 16 + 1_000 * (16 + 11 + 4 + 8 + 4);
/// A fresh server's memory hardly differs from time to time.
const ROUNDS_MAX: usize = 3;
const BATCH_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
const SETTLING_STEPS: usize = 10;
const SETTLING_STEP: Duration = Duration::from_millis(100);
