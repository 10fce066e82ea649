//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tidewire::units::{parse_count, whole};

use crate::mix::Mix;
use crate::servers::Rival;

/// Measures Tidewire beside rivals, and against the limits of the machine.
#[derive(Clone, Debug, Parser)]
#[command(name = "tidewire-bench", version, max_term_width = 100)]
pub(crate) struct BenchOptions {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) subject: BenchSubject,
    /// A server to compare with; repeatable [default: redis-server, if installed].
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) rival: Vec<Rival>,
    /// Duration of one measurement, in seconds.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Number of measurements of each server, alternating with the others.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = whole::<usize>(1, 1_000))]
    pub(crate) pairs: usize,
    /// Requests per second in the open loops of `resp`, separated by commas.
    #[arg(long, value_name = "R,...", default_value = "1k,10k,100k", value_delimiter = ',',
          value_parser = parse_count)]
    pub(crate) rate: Vec<u64>,
    /// Size of the values of `resp` in bytes, 3 to 65536; with long values there are fewer keys.
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = whole::<usize>(3, 65_536))]
    pub(crate) value_bytes: usize,
    /// Mix GET and SET in random order instead of one at a time, such as get:80,set:20.
    #[arg(long, value_name = "MIX")]
    pub(crate) mix: Option<Mix>,
    /// Connections in the closed loops of `resp`, 1 to 1000, separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          value_parser = whole::<usize>(1, 1_000))]
    pub(crate) connections: Vec<usize>,
    /// Pipeline depth of each connection of `resp`, 1 to 256, separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          value_parser = whole::<usize>(1, 256))]
    pub(crate) pipeline: Vec<usize>,
    /// Load threads in the closed loops of `resp` and `types`; they share the connections.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = whole::<usize>(1, 64))]
    pub(crate) load_threads: usize,
    /// Messages per link of `loss`.
    #[arg(long, value_name = "N", default_value = "6M", value_parser = parse_count)]
    pub(crate) messages: u64,
    /// Pin servers to core 0 and load to core 1.
    #[arg(long)]
    pub(crate) pin: bool,
    /// What `zmq` measures, separated by commas [default: everything].
    #[arg(long, value_name = "SUBJECT,...", value_delimiter = ',')]
    pub(crate) zmq_subjects: Vec<String>,
    /// Transports that `zmq` measures.
    #[arg(
        long,
        value_name = "T,...",
        default_value = "tcp,ipc,inproc",
        value_delimiter = ','
    )]
    pub(crate) zmq_transports: Vec<String>,
    /// Message sizes that `zmq` measures, in bytes.
    #[arg(
        long,
        value_name = "N,...",
        default_value = "64,256,1024,65536,262144",
        value_delimiter = ',',
        value_parser = whole::<usize>(0, 1 << 30)
    )]
    pub(crate) zmq_sizes: Vec<usize>,
    /// Measure our own `libzmq.so.5` at this path instead of the Rust library.
    #[arg(long, value_name = "FILE")]
    pub(crate) zmq_library: Option<PathBuf>,
    /// A DBN file of orders for `feed` [default: the E-mini session, if available].
    #[arg(long, value_name = "FILE")]
    pub(crate) dbn: Option<PathBuf>,
    /// The day that `itch` measures: messages, each after its length.
    #[arg(long, value_name = "FILE")]
    pub(crate) itch: Option<PathBuf>,
    /// File for raw results [default: bench/runs/DATE-MACHINE-SUBJECT.json in a checkout];
    /// without FILE, standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

/// What `bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSubject {
    /// GET and SET beside rivals.
    Resp,
    /// Commands of every data type beside rivals.
    Types,
    /// PUBLISH to 100 subscribers beside rivals.
    Publish,
    /// Resident bytes per key of several types beside rivals.
    Memory,
    /// Delay between TTL and expiry among a million keys with a TTL, beside rivals.
    Expiry,
    /// ZeroMQ sockets beside a libzmq.
    Zmq,
    /// Memory at `maxmemory` under 500 clients, for `--seconds`; exit code 1 if it leaves the
    /// limit. Not part of `all`.
    Eviction,
    /// The last-value cache.
    Cache,
    /// The NMX codec: allocations and ns per operation; exit code 1 on an unexpected allocation.
    Mx,
    /// 100,000 plant tags at 100,000 updates per second; exit code 1 if an update is lost. Not part
    /// of `all`.
    Plant,
    /// Generation, decoding, and the path from a source to a subscriber.
    Feed,
    /// Books of an ITCH day in a file, from its first message on. Not part of `all`.
    Itch,
    /// Cost per client with 1 to 1,000 clients, for `--seconds` each. Not part of `all`.
    Fanout,
    /// 1,000 web pages of 50 topics, each changing 10 times per second, beside Redis subscribers
    /// of the same JSON. Not part of `all`.
    Web,
    /// Delivery of `--messages` over lossy links, on loopback; exit code 1 on any loss. Not part of
    /// `all`.
    Loss,
    /// All subjects, then the report.
    All,
    /// No measurement: writes docs/PERFORMANCE.md from the existing raw results.
    Report,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds between 0.05 and 3600 are expected".to_owned()),
    }
}
