//! Bytes a key: what a fresh server has in memory before and after it is filled, ours and rivals.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::processor_time::Cores;
use super::report::{Setting, Spread, Table, write_run};
use super::samples::OURS;
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// A run as it is kept.
#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    rivals: Vec<String>,
    samples: Vec<Sample>,
}

/// One fresh server, filled once.
#[derive(Debug, Serialize)]
struct Sample {
    case: &'static str,
    server: String,
    round: usize,
    keys: usize,
    /// Growth of the resident memory (`VmRSS`), divided by the keys.
    bytes_a_key: f64,
}

/// Keys of one kind.
struct Case {
    name: &'static str,
    keys: usize,
    /// Bytes of one key's name and of all that is in it.
    raw_bytes: usize,
    /// The requests that make one key, and how many they are; each is answered by one line or by
    /// one identifier.
    make: fn(usize) -> Vec<Vec<String>>,
    lines_a_reply: usize,
}

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    let rivals = Rival::chosen(options);
    let mut run = Run {
        setting: setting.clone(),
        rivals: rivals.iter().map(Rival::named).collect(),
        samples: Vec::new(),
    };
    for case in &CASES {
        for round in 0..options.pairs.min(ROUNDS_MAX) {
            for rival in std::iter::once(None).chain(rivals.iter().map(Some)) {
                let bytes = measure(case, rival, cores).map_err(failed(case.name))?;
                run.samples.push(Sample {
                    case: case.name,
                    server: rival.map_or(OURS, |rival| &rival.name).to_owned(),
                    round,
                    keys: case.keys,
                    bytes_a_key: bytes as f64 / case.keys as f64,
                });
            }
        }
    }
    println!(
        "\nresident bytes a key; rivals: {}\n",
        run.rivals.join(", ")
    );
    let table = table(&run, &rivals);
    print!("{}", table.text());
    write_run(&run, setting, "memory", json, &[&table])
}

fn table(run: &Run, rivals: &[Rival]) -> Table {
    let ratios: Vec<String> = rivals.iter().map(|r| format!("÷ {}", r.name)).collect();
    let mut titles = vec!["key", "raw bytes", OURS];
    titles.extend(rivals.iter().map(|rival| rival.name.as_str()));
    titles.extend(ratios.iter().map(String::as_str));
    let mut table = Table::new(&titles);
    for case in &CASES {
        let of = |server: &str| {
            let samples = run.samples.iter();
            let own = samples.filter(|s| s.case == case.name && s.server == server);
            Spread::of(own.map(|sample| sample.bytes_a_key))
        };
        let ours = of(OURS);
        let mut row = vec![
            case.name.to_owned(),
            case.raw_bytes.to_string(),
            ours.text(1),
        ];
        row.extend(rivals.iter().map(|rival| of(&rival.name).text(1)));
        let ratio = |rival: &Rival| ours.median / of(&rival.name).median;
        row.extend(rivals.iter().map(|rival| format!("{:.2}", ratio(rival))));
        table.push(row);
    }
    table
}

/// How many bytes a fresh server grows by.
fn measure(case: &Case, rival: Option<&Rival>, cores: Cores) -> io::Result<u64> {
    let (server, address) = match rival {
        None => {
            let addresses = HubAddresses::free()?;
            let server = ServerProcess::hub(&addresses, &[], cores)?;
            (server, addresses.resp)
        }
        Some(rival) => {
            let [address] = free_addresses()?;
            (ServerProcess::rival(rival, address, cores)?, address)
        }
    };
    let _core = cores.enter_load()?;
    // Whatever a server makes for its first client is not a key's.
    fill(address, case, case.keys..case.keys + 1)?;
    let before = settled(&server)?;
    fill(address, case, 0..case.keys)?;
    Ok(settled(&server)?.saturating_sub(before))
}

/// What is resident when it no longer shrinks.
fn settled(server: &ServerProcess) -> io::Result<u64> {
    let mut least = server.resident_bytes()?;
    for _ in 0..SETTLING_STEPS {
        std::thread::sleep(SETTLING_STEP);
        least = least.min(server.resident_bytes()?);
    }
    Ok(least)
}

fn fill(address: SocketAddr, case: &Case, keys: Range<usize>) -> io::Result<()> {
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

/// Of each kind so many keys that a huge page, 2 MiB, more or less is a few per cent at most.
const CASES: [Case; 6] = [
    Case {
        name: "string of 3 bytes",
        keys: 1_000_000,
        raw_bytes: 16 + 3,
        make: |key| string(key, "abc"),
        lines_a_reply: 1,
    },
    Case {
        name: "string of 16 bytes",
        keys: 1_000_000,
        raw_bytes: 16 + 16,
        make: |key| string(key, "abcdefghijklmnop"),
        lines_a_reply: 1,
    },
    Case {
        name: "string of 64 bytes",
        keys: 1_000_000,
        raw_bytes: 16 + 64,
        make: |key| string(key, &"abcdefgh".repeat(8)),
        lines_a_reply: 1,
    },
    Case {
        name: "hash of 100 fields",
        keys: 40_000,
        raw_bytes: 16 + 100 * (8 + 14),
        make: hash,
        lines_a_reply: 1,
    },
    Case {
        name: "sorted set of 100 members",
        keys: 40_000,
        raw_bytes: 16 + 100 * (12 + 8),
        make: sorted_set,
        lines_a_reply: 1,
    },
    Case {
        name: "stream of 1,000 entries",
        keys: 2_000,
        raw_bytes: 16 + 1_000 * (16 + 11 + 4 + 8 + 4),
        make: stream,
        lines_a_reply: 2,
    },
];
/// A fresh server's memory hardly differs from time to time.
const ROUNDS_MAX: usize = 3;
const BATCH_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
const SETTLING_STEPS: usize = 10;
const SETTLING_STEP: Duration = Duration::from_millis(100);
