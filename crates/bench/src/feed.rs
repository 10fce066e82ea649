//! The feed: generation, encoding, decoding and books on one core, and the path from an exchange
//! through a hub to subscribers.

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use tidewire_book::prefetch;
use tidewire_dbn::Reader;
use tidewire_dbn::book::{Books, BooksConfig};
use tidewire_feed::client::{Client, ClientConfig, NullSink, Side, Sink};
use tidewire_feed::journal::Journal;
use tidewire_feed::simulation::{Market, SimulationConfig};
use tidewire_feed::wire::Tick;
use tidewire_feed::wire::{Flags, Message, PACKET_LENGTH_MAX, PacketWriter};
use tidewire_lastvalue::{LatencyRecorder, LatencyTracker, Quote, SlotTable, Stamp, Trade, Writer};
use tidewire_market::{Aggregator, Interval};

use super::report::{Spread, Table};
use super::scenario::Bench;
use super::timing::{millions_a_second, ns_an_operation};
use super::{end_to_end, failed, itch, mdp, reconnect};
use tidewire::failure::Failure;

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let (figures, hits) = one_core(bench)?;
    let table = Table::of(
        &figures,
        &[
            ("on one core", &|row| row.work.to_owned()),
            ("M/s", &|row| millions_a_second(row.ns).text(1)),
            ("ns each", &|row| format!("{:.1}", row.ns.median)),
            ("goal, M/s", &|row| {
                row.goal.map(|goal| goal.to_string()).unwrap_or_default()
            }),
        ],
    );
    println!("\nThe feed's work, 100 symbols\n");
    print!("{}\n{}\n", table.text(), hits.text());
    let way = end_to_end::measure(bench).map_err(failed("from source to subscriber"))?;
    let way_table = end_to_end::table(&way);
    print!("\n{}", way_table.text());
    let reconnects = reconnect::measure()?;
    println!("\nReconnecting\n\n{}", reconnects.text());
    let run = json!({
        "cores": bench.cores,
        "figures": figures,
        "itch": hits,
        "way": way,
        "reconnects": reconnects,
    });
    bench.keep("feed", run, &[&table, &way_table])
}

/// Work of one core.
#[derive(Debug, Serialize)]
struct CoreWork {
    work: &'static str,
    /// Per message or record.
    ns: Spread,
    /// Required rate in millions per second.
    goal: Option<f64>,
}

fn one_core(bench: &Bench<'_>) -> Result<(Vec<CoreWork>, itch::Hits), Failure> {
    let _core = bench.cores.enter_server().map_err(failed("cannot pin"))?;
    let (rounds, sample_time) = (bench.options.pairs, bench.duration() / 10);
    let mut rows = Vec::new();
    let mut time = |work, goal, batch: &mut dyn FnMut() -> u64| {
        let ns = ns_an_operation(rounds, sample_time, batch);
        rows.push(CoreWork { work, ns, goal });
    };
    let messages = generate(MESSAGES);
    let packets = encode(&messages);
    time("tick generation", Some(20.0), &mut generation());
    time("native encoding", None, &mut encoding(&messages[..ENCODED]));
    time("decoding", Some(20.0), &mut decoding(&packets, NullSink));
    let mut last_values = decoding(&packets, Update::new(SYMBOLS, false));
    time("decoding and last values", Some(20.0), &mut last_values);
    let few = itch::Day::small(SYMBOLS as u16)?;
    time("ITCH decoding", None, &mut few.decoding());
    time("ITCH decoding and books", None, &mut few.applying(NullSink));
    let work = "the same, and the levels of every symbol";
    let every = SYMBOLS as u16;
    time(work, None, &mut few.applying_levels(every, NullSink));
    time("four bars of a symbol, per trade", None, &mut bars());
    let work = "ITCH decoding, books, last values, journal and latency";
    time(
        work,
        Some(10.0),
        &mut few.applying(Update::new(SYMBOLS + 1, true)),
    );
    mdp_rows(&mut time);
    let work = "native decoding, last values, journal and latency";
    time(
        work,
        None,
        &mut decoding(&packets, Update::new(SYMBOLS, true)),
    );
    let hits = itch_rows(rounds, &mut rows)?;
    if let Some(file) = dbn_file(bench.options.dbn.as_deref()) {
        for (work, with_books) in [
            ("DBN reading (zstd)", false),
            ("DBN reading (zstd) and order book", true),
        ] {
            let ns = dbn(&file, rounds, with_books)?;
            rows.push(CoreWork {
                work,
                ns,
                goal: None,
            });
        }
    }
    Ok((rows, hits))
}

/// Measures a day of as many securities and orders as an exchange has.
fn itch_rows(rounds: usize, rows: &mut Vec<CoreWork>) -> Result<itch::Hits, Failure> {
    let day = itch::Day::large()?;
    let (books, _) = day.session(rounds, NullSink);
    let sink = Update::new(u32::from(itch::LARGE_SYMBOLS) + 1, true);
    let (all, hits) = day.session(rounds, sink);
    for (work, ns, goal) in [
        ("ITCH decoding and books, 8,000 symbols", books, None),
        (
            "the same, last values, journal and latency",
            all,
            Some(10.0),
        ),
    ] {
        rows.push(CoreWork { work, ns, goal });
    }
    Ok(hits)
}

/// Measures the day in a file once, as other programs that read such files are measured.
pub(crate) fn run_itch(bench: &Bench<'_>) -> Result<(), Failure> {
    let file = bench.options.itch.as_deref();
    let file = file.ok_or_else(|| Failure::usage("itch needs --itch FILE"))?;
    let _core = bench.cores.enter_server().map_err(failed("cannot pin"))?;
    let day = itch::Day::read(file)?;
    let sink = Update::new(u32::from(u16::MAX) + 1, true);
    for (work, ns) in [
        ("decoding and books", day.first_time(NullSink)),
        (
            "the same, last values, journal and latency",
            day.first_time(sink),
        ),
    ] {
        println!("{ns:6.1} ns a message, {:5.2} M/s: {work}", 1e3 / ns);
    }
    Ok(())
}

/// Times CME MDP 3.0, per entry: a level, order, trade, volume or statistic.
fn mdp_rows(time: &mut impl FnMut(&'static str, Option<f64>, &mut dyn FnMut() -> u64)) {
    let few = mdp::Channel::generate(SYMBOLS);
    let many = mdp::Channel::generate(8_000);
    let work = "MDP decoding and books by price, one line";
    time(work, Some(10.0), &mut few.receiving(1, false, NullSink));
    let work = "MDP decoding and books by price, both lines";
    time(work, Some(10.0), &mut few.receiving(2, false, NullSink));
    let work = "MDP decoding, books by price and by order";
    time(work, Some(10.0), &mut few.receiving(1, true, NullSink));
    let work = "MDP decoding, books by price, last values, journal and latency";
    let update = Update::new(SYMBOLS, true);
    time(work, None, &mut few.receiving(2, false, update));
    let update = Update::new(8_000, true);
    time(
        "the same, 8,000 instruments",
        None,
        &mut many.receiving(2, false, update),
    );
}

fn generation() -> impl FnMut() -> u64 {
    let mut market = Market::new(SimulationConfig::default());
    let mut time_ns = START_NS;
    move || {
        for _ in 0..BATCH {
            // As at 100,000 messages per second.
            time_ns += 10_000;
            black_box(market.next(time_ns));
        }
        BATCH
    }
}

/// Adds trades of one symbol to its bars of all intervals.
fn bars() -> impl FnMut() -> u64 {
    let mut all = Interval::ALL.map(Aggregator::new);
    let (mut time_ns, mut price) = (START_NS, 100_000_000_000);
    move || {
        for _ in 0..BATCH {
            // As at 1,000 trades per second.
            time_ns += 1_000_000;
            price += (time_ns >> 20 & 7) as i64 - 3;
            for bars in &mut all {
                black_box(bars.trade(time_ns, price, 1));
            }
        }
        BATCH
    }
}

fn encoding(messages: &[Message]) -> impl FnMut() -> u64 {
    let mut out = Vec::new();
    move || {
        out.clear();
        encode_into(&mut out, messages);
        messages.len() as u64
    }
}

fn decoding(packets: &[u8], mut sink: impl Sink) -> impl FnMut() -> u64 {
    move || {
        receive(packets, &mut sink);
        MESSAGES as u64
    }
}

/// Passes the packets to a fresh client, one receive buffer at a time.
fn receive(packets: &[u8], sink: &mut impl Sink) {
    let mut client = Client::listener(ClientConfig::default(), SESSION, 1);
    let mut used = 0;
    while used < packets.len() {
        let end = packets.len().min(used + PACKET_LENGTH_MAX);
        let taken = client.receive(Side::A, black_box(&packets[used..end]), START_NS, sink);
        used += taken.expect("these packets are right");
    }
}

/// The hub's work per message: last value, and its own feed.
struct Update {
    writer: Writer,
    also: Option<(Journal, LatencyRecorder)>,
    sequence: u64,
}

impl Update {
    fn new(symbols: u32, journal: bool) -> Self {
        let table = Arc::new(SlotTable::new(symbols as usize));
        table.extend_to(symbols as usize).expect("within the limit");
        let mut writer = table.writer(1);
        for symbol in 0..symbols {
            writer.claim(symbol).expect("nobody else writes");
        }
        let also = journal.then(|| {
            let recorder = LatencyTracker::new().recorder();
            (Journal::new(SESSION, 1 << 18), recorder)
        });
        Self {
            writer,
            also,
            sequence: 0,
        }
    }
}

impl Sink for Update {
    #[inline]
    fn expect_symbol(&self, symbol: u32) {
        if let Some(slot) = self.writer.table().slot(symbol) {
            slot.hot_lines().into_iter().for_each(prefetch);
        }
    }

    #[inline]
    fn message(&mut self, _sequence: u64, message: &Message) {
        let Some(mut slot) = message.symbol().and_then(|symbol| self.writer.slot(symbol)) else {
            return;
        };
        self.sequence = match &mut self.also {
            Some((journal, recorder)) => {
                recorder.record(self.sequence % 1_000_000);
                journal.append(message)
            }
            None => self.sequence + 1,
        };
        let stamp = |source_time_ns| Stamp {
            source_time_ns,
            receive_time_ns: START_NS,
            sequence: self.sequence,
        };
        match message {
            Message::Quote(quote) => slot.update_quote(
                Quote {
                    bid: quote.bid,
                    ask: quote.ask,
                    bid_size: quote.bid_size,
                    ask_size: quote.ask_size,
                    bid_orders: quote.bid_orders,
                    ask_orders: quote.ask_orders,
                },
                stamp(quote.source_time_ns),
            ),
            Message::Trade(trade) => slot.update_trade(
                Trade {
                    price: trade.price,
                    size: trade.size,
                    condition: trade.condition,
                },
                stamp(trade.source_time_ns),
            ),
            _ => {}
        }
    }
}

fn generate(count: usize) -> Vec<Message> {
    let mut market = Market::new(SimulationConfig::default());
    let times = (0..count as u64).map(|number| START_NS + number * 10_000);
    times
        .map(|time_ns| match market.next(time_ns) {
            Tick::Quote(quote) => Message::Quote(quote),
            Tick::Trade(trade) => Message::Trade(trade),
        })
        .collect()
}

fn encode(messages: &[Message]) -> Vec<u8> {
    let mut packets = Vec::new();
    encode_into(&mut packets, messages);
    packets
}

fn encode_into(packets: &mut Vec<u8>, messages: &[Message]) {
    let mut writer = PacketWriter::new(packets, SESSION, Flags::NONE, 1, UDP_LIKE_BYTES);
    messages.iter().for_each(|message| writer.push(message));
    black_box(writer.finish());
}

/// Returns nanoseconds per record of a whole file, for each of several runs.
fn dbn(file: &Path, rounds: usize, with_books: bool) -> Result<Spread, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::running(format!("{}: {error}", file.display()));
    let mut rounds_ns = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let input = File::open(file).map_err(|error| failed(&error))?;
        let mut reader = Reader::open(input).map_err(|error| failed(&error))?;
        let mut books = Books::new(BooksConfig::default());
        let mut records = 0;
        while let Some(record) = reader.next_record().map_err(|error| failed(&error))? {
            records += 1;
            if with_books {
                books.apply(&record, |tick| {
                    black_box(tick);
                });
            }
        }
        rounds_ns.push(start.elapsed().as_nanos() as f64 / f64::from(records.max(1)));
    }
    Ok(Spread::of(rounds_ns))
}

fn dbn_file(asked: Option<&Path>) -> Option<PathBuf> {
    let file = match asked {
        Some(file) => file.to_owned(),
        None => PathBuf::from(DBN_FILE),
    };
    (asked.is_some() || file.is_file()).then_some(file)
}

/// Real orders, beside the checkout if available.
const DBN_FILE: &str = "../shared/data/esh4-glbx-mdp3-20231225.mbo.dbn.zst";
const SESSION: u32 = 1;
const START_NS: u64 = 1_700_000_000_000_000_000;
const SYMBOLS: u32 = 100;
const MESSAGES: usize = 100_000;
/// As many as the second cache level holds, so that the encoder is measured and not memory.
const ENCODED: usize = 2_000;
const BATCH: u64 = 10_000;
/// Packets of a high rate: about thirty messages each.
const UDP_LIKE_BYTES: usize = 1_472;
