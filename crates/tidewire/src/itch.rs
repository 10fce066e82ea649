//! `itch`: generates, inspects and sends ITCH files.

mod date;
mod lines;
mod reader;
mod send;
mod servers;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use tidewire_feed::client::NullSink;
use tidewire_feed::faults::FaultPlan;
use tidewire_itch::{Books, Generator, GeneratorConfig, GeneratorError, Head, Message};
use tidewire_market::{MoldInput, SoupInput};

use crate::failure::Failure;
use crate::new_file::new_file;
use crate::options::{Speed, parse_speed};
use crate::units::{grouped, parse_count, parse_duration, timestamp};

pub(crate) use date::{date_of_name, parse_date};
pub use lines::Lines;
pub(crate) use reader::{Content, HEAD_BYTES, Item, Reader, is_standard_input, unpacked};

/// Options of `itch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ItchOptions {
    /// The command to run.
    #[command(subcommand)]
    command: ItchCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ItchCommand {
    /// Generate a valid day of any size.
    Generate(GenerateOptions),
    /// Count a file's messages and build its books.
    Inspect(InspectOptions),
    /// Send a file as an exchange does: MoldUDP64 on two lines with retransmission, or SoupBinTCP.
    Send(Box<SendOptions>),
}

#[derive(Clone, Debug, Args)]
struct GenerateOptions {
    /// Output file: each message after its length, as Nasdaq publishes files.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Total number of messages.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    messages: u64,
    /// Number of securities.
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = crate::units::whole::<u16>(1, 65_535))]
    symbols: u16,
    /// Maximum number of resting orders per side of a security.
    #[arg(long, value_name = "N", default_value_t = 64)]
    depth: usize,
    /// Seed: the same seed gives the same file.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Debug, Args)]
struct InspectOptions {
    /// An ITCH file, or a capture of it (pcap, pcapng); - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Date of the file [default: that of the capture, the date in its name, or today].
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_date)]
    date: Option<u64>,
}

/// Options of `itch send`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SendOptions {
    /// An ITCH file; - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// MoldUDP64: A=GROUP:PORT,B=GROUP:PORT, request=HOST:PORT to listen for requests, and
    /// interface=ADDRESS.
    #[arg(long, value_name = "LINES")]
    mold: Option<MoldInput>,
    /// SoupBinTCP: HOST:PORT to listen on, user=NAME,password=WORD to require [default: none].
    #[arg(long, value_name = "SERVER")]
    soup: Option<SoupInput>,
    /// Name of the session, at most ten characters [default: the time, in seconds since 1970].
    #[arg(long)]
    session: Option<String>,
    /// Messages per second, evenly spaced.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_count)]
    rate: u64,
    /// Send by the messages' own times, at this multiple: 1, 10, ... or max.
    #[arg(long, value_name = "1|10|max", value_parser = parse_speed, conflicts_with = "rate")]
    speed: Option<Speed>,
    /// Number of messages kept for retransmission.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    window: u64,
    /// Independent faults on each line, such as loss=5%,duplicate=1%,reorder=1%.
    #[arg(long, value_name = "FAULTS")]
    fault: Option<FaultPlan>,
    /// Seed: the same seed gives the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Wait for a SoupBinTCP client, or for the first request, before the first message.
    #[arg(long)]
    wait: bool,
    /// Stop this long after the last message [default: run until stopped].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    linger: Option<Duration>,
}

/// Does what the options say.
pub(crate) fn run(options: &ItchOptions) -> Result<(), Failure> {
    match &options.command {
        ItchCommand::Generate(options) => generate(options),
        ItchCommand::Inspect(options) => inspect(options),
        ItchCommand::Send(options) => send::run(options),
    }
}

fn generate(options: &GenerateOptions) -> Result<(), Failure> {
    let config = GeneratorConfig {
        messages: options.messages,
        symbols: options.symbols,
        depth: options.depth,
        seed: options.seed,
    };
    let day = Generator::new(config).map_err(|error| {
        let option = match error {
            GeneratorError::BadSymbols => format!("--symbols {}", options.symbols),
            GeneratorError::BadDepth => format!("--depth {}", options.depth),
            _ => format!("--messages {}", options.messages),
        };
        Failure::usage(format!("{option}: {error}"))
    })?;
    let place = options.file.display();
    let failed = |error: std::io::Error| Failure::usage(format!("cannot write {place}: {error}"));
    let file = new_file(&options.file).map_err(failed)?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let (mut bytes, mut written) = (Vec::with_capacity(64), 0);
    for message in day {
        bytes.clear();
        message.encode(&mut bytes);
        file.write_all(&(bytes.len() as u16).to_be_bytes())
            .and_then(|()| file.write_all(&bytes))
            .map_err(failed)?;
        written += bytes.len() as u64 + 2;
    }
    file.flush().map_err(failed)?;
    println!(
        "{place}: {} messages of {} securities, {} bytes, seed {}",
        grouped(options.messages),
        grouped(options.symbols.into()),
        grouped(written),
        options.seed
    );
    Ok(())
}

fn inspect(options: &InspectOptions) -> Result<(), Failure> {
    let mut reader = Reader::open(&options.file)?;
    let mut books = Books::default();
    let (mut first, mut last) = (None, None);
    let mut midnight_unix_ns = options.date;
    let begin = Instant::now();
    reader.read_all(|item| {
        last = Head::read(item.message).map(|head| head.time).or(last);
        first = first.or(last);
        midnight_unix_ns.get_or_insert_with(|| day_of_item(&options.file, item.time_ns));
        books.expect(item.ahead, &NullSink);
        books.apply(item.sequence, item.message, &mut NullSink);
        Ok(true)
    })?;
    let took = begin.elapsed();
    let counters = books.counters();
    for (kind, name, _) in Message::KINDS {
        let count = counters.kinds[usize::from(*kind)];
        if count > 0 {
            println!("{}  {name:<22} {:>15}", char::from(*kind), grouped(count));
        }
    }
    let known = |kind: usize| {
        Message::KINDS
            .iter()
            .any(|known| usize::from(known.0) == kind)
    };
    let unknown = (0..256).filter(|&kind| !known(kind));
    let unknown: u64 = unknown.map(|kind| counters.kinds[kind]).sum();
    if let (Some(first), Some(last), Some(midnight)) = (first, last, midnight_unix_ns) {
        println!("from       {}", timestamp(midnight + first.ns()));
        println!("to         {}", timestamp(midnight + last.ns()));
    }
    println!("messages   {}", grouped(counters.messages()));
    println!(
        "not known  {unknown} of an unknown type, {} malformed",
        counters.malformed
    );
    println!(
        "not used   {} of unknown orders, {} over the limits, {} without sense",
        counters.unknown_orders, counters.refused_orders, counters.senseless_orders
    );
    println!(
        "given      {} quotes, {} trades, {} statuses, {} definitions",
        grouped(counters.quotes),
        grouped(counters.trades),
        grouped(counters.statuses),
        grouped(counters.definitions)
    );
    for line in reader.account() {
        println!("{line}");
    }
    let a_second = counters.messages() as f64 / took.as_secs_f64().max(1e-9);
    println!(
        "read in    {:.3} s, {:.1} M messages/s",
        took.as_secs_f64(),
        a_second / 1e6
    );
    Ok(())
}

/// Returns the midnight before a file's messages: that of the capture, if they have a time, else
/// the one its name says, or today.
pub(crate) fn day_of_item(file: &Path, time_ns: u64) -> u64 {
    match time_ns {
        0 => day_of(file),
        time_ns => tidewire_itch::midnight_of_unix_ns(time_ns),
    }
}

/// When the day of a file began: what its name says, or today.
fn day_of(file: &Path) -> u64 {
    let today = || tidewire_itch::midnight_of_unix_ns(tidewire_lane::unix_ns());
    date_of_name(file).unwrap_or_else(today)
}
