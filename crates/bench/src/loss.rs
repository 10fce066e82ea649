//! Delivery of six million messages over bad links: everything, once, in order.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tidewire_feed::client::Sink;
use tidewire_feed::faults::FaultPlan;
use tidewire_feed::wire::{LastValue, Message};
use tidewire_hub::{Hub, HubConfig};
use tidewire_itch::sequenced::{SessionName, Store};
use tidewire_itch::{Books, Generator, GeneratorConfig};
use tidewire_market::{FeedLines, Input, MarketConfig, MoldInput};

use super::failed;
use super::report::Table;
use super::scenario::Bench;
use tidewire::failure::Failure;
use tidewire::itch::Lines;
use tidewire::server::start_hub;
use tidewire::simulate::Simulation;
use tidewire::units::grouped;

/// Runs every case, prints, and keeps the raw run. Fails if anything is lost.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let messages = bench.options.messages;
    let mut cases = Vec::new();
    for (link, faults) in NATIVE {
        cases.push(native(link, faults, Ways::One, messages)?);
    }
    for (link, inputs) in REDUNDANT {
        cases.push(native(link, LINE_FAULTS, *inputs, messages)?);
    }
    cases.push(two_lines(messages)?);
    let table = Table::of(
        &cases,
        &[
            ("link", &|case| case.link.to_owned()),
            ("sent", &|case| grouped(case.sent)),
            ("applied", &|case| grouped(case.applied)),
            ("gaps", &|case| grouped(case.gaps)),
            ("recovered", &|case| grouped(case.recovered)),
            ("lost", &|case| grouped(case.lost)),
            ("reconnects", &|case| grouped(case.reconnects)),
            ("wrong values", &|case| grouped(case.wrong_values)),
        ],
    );
    println!("\nWhat arrives over bad links\n");
    print!("{}", table.text());
    bench.keep("loss", json!({"cases": cases}), &[&table])?;
    match cases.iter().all(LinkResult::is_whole) {
        true => Ok(()),
        false => Err(Failure::running("messages are lost, or values are wrong")),
    }
}

/// Links of the native feed, over TCP between an exchange and a hub.
const NATIVE: &[(&str, &str)] = &[
    ("0.1 % packet loss", "loss=0.1%"),
    ("0.5 % packet loss", "loss=0.5%"),
    ("1 % packet loss", "loss=1%"),
    ("1 % gaps", "gaps=1%"),
    ("1 % duplicates", "duplicate=1%"),
    ("1 % reordered", "reorder=1%"),
    ("disconnects", "disconnect=0.1%"),
    (
        "all of it",
        "loss=1%,gaps=1%,duplicate=1%,reorder=1%,corrupt=0.5%,fragment=5%,disconnect=0.05%",
    ),
];

/// Two simultaneous ways to the same stream of the native feed.
const REDUNDANT: &[(&str, Ways)] = &[
    ("two TCP inputs, each losing 5 %", Ways::Two),
    ("two lines of datagrams, each losing 5 %", Ways::Lines),
];

/// The hub's way of reading a native feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    One,
    /// Two connections.
    Two,
    /// Two multicast groups, and a connection for messages that both have lost.
    Lines,
}

/// The result of one link.
#[derive(Debug, Serialize)]
struct LinkResult {
    link: &'static str,
    sent: u64,
    /// Messages counted by the hub: the number sent, if each arrived once.
    applied: u64,
    gaps: u64,
    recovered: u64,
    lost: u64,
    reconnects: u64,
    /// Symbols whose last values, volume or number of updates differ from the sender's.
    wrong_values: u64,
}

impl LinkResult {
    fn is_whole(&self) -> bool {
        (self.applied, self.lost, self.wrong_values) == (self.sent, 0, 0)
    }
}

/// Runs an exchange and a hub that reads it.
fn native(
    link: &'static str,
    faults: &str,
    inputs: Ways,
    messages: u64,
) -> Result<LinkResult, Failure> {
    let plan = plan(faults)?;
    let lines = match inputs {
        Ways::Lines => free_ports().map_err(failed("lines"))?,
        _ => [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 3],
    };
    let groups = [1, 2].map(|last| SocketAddr::from(([239, 255, 0, last], lines[0].port())));
    let exchange = Simulation::start_locally(RATE, true, |config| {
        config.market.faults = Some(plan);
        config.market.feed_lines = (inputs == Ways::Lines).then(|| FeedLines {
            lines: groups.to_vec(),
            interface: Ipv4Addr::LOCALHOST,
        });
    })?;
    // The hub gets the definitions with a snapshot, and then each message of the stream.
    exchange.wait_until_open()?;
    let opened = exchange.next_sequence();
    let mut source = exchange
        .source()
        .ok_or_else(|| Failure::running("the exchange has no TCP address"))?;
    let mut config = HubConfig::default();
    match inputs {
        Ways::One => config.market.sources.push(source),
        Ways::Two => {
            source.b = Some(source.a);
            config.market.sources.push(source);
        }
        Ways::Lines => {
            source.lines = groups.map(Some);
            source.interface = Ipv4Addr::LOCALHOST;
            config.market.inputs.push(Input::Native(source));
        }
    }
    let (hub, lanes) = start_hub(config, "lane", Vec::new(), |_| None)?;
    let threads = tidewire_market::Inputs::start(&hub.market, &[]).map_err(Failure::running)?;
    let wait_until = |is_done: &dyn Fn() -> bool| -> Result<(), Failure> {
        while !is_done() {
            exchange.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    wait_until(&|| hub.market.board.count() as usize >= exchange.symbols)?;
    exchange.begin();
    wait_until(&|| exchange.published() >= messages)?;
    exchange.finish();
    let mut sent = 0;
    // On a busy machine the exchange may publish once more before it is told to stop.
    while sent != exchange.next_sequence() - opened {
        sent = exchange.next_sequence() - opened;
        wait_for(&hub, sent);
    }
    let accepted = exchange.hub.server.lanes.iter();
    let accepted: u64 = accepted
        .map(|lane| lane.accepted.load(Ordering::Relaxed))
        .sum();
    let wrong = |topic: &&Arc<tidewire_market::Topic>| {
        let value = |hub: &Hub| {
            let topic = hub.market.board.find(topic.symbol())?;
            let value = hub.market.board.value(topic.number)?;
            let (bid, ask, last) = (value.bid, value.ask, value.last);
            let sizes = (value.bid_size, value.ask_size, value.last_size);
            Some((bid, ask, last, sizes, value.volume, value.source_time_ns))
        };
        value(&exchange.hub) != value(&hub)
    };
    let topics = exchange.hub.market.board.topics();
    let wrong_values = topics.iter().filter(wrong).count() as u64;
    let first = if inputs == Ways::Two { 2 } else { 1 };
    let reconnects = accepted.saturating_sub(first);
    let case = case(link, sent, &hub, reconnects, wrong_values);
    drop(threads);
    lanes.stop();
    exchange.stop();
    Ok(case)
}

/// Runs MoldUDP64 on two lines; each line and the answers lose 5 % of their packets.
fn two_lines(messages: u64) -> Result<LinkResult, Failure> {
    let plan = plan(LINE_FAULTS)?;
    let [a, b, request] = free_ports().map_err(failed("two lines"))?;
    let mold = MoldInput {
        a,
        b: Some(b),
        request: Some(request),
        interface: Ipv4Addr::LOCALHOST,
        midnight_unix_ns: None,
        venue: "XNAS".to_owned(),
    };
    let mut lines = Lines::open(&mold, plan, 1).map_err(Failure::running)?;
    let config = HubConfig {
        market: MarketConfig {
            inputs: vec![Input::Mold(mold)],
            ..MarketConfig::default()
        },
        ..HubConfig::default()
    };
    let (hub, lanes) = start_hub(config, "lane", Vec::new(), |_| None)?;
    let inputs = tidewire_market::Inputs::start(&hub.market, &[]).map_err(Failure::running)?;
    let mut day = Generator::new(GeneratorConfig {
        messages,
        ..GeneratorConfig::default()
    })
    .map_err(|error| Failure::usage(error.to_string()))?;
    let (mut books, mut values) = (Books::default(), Values::default());
    let mut store = Store::new(SessionName::new("BENCH"), STORE_MESSAGES);
    let (started, mut bytes) = (Instant::now(), Vec::new());
    let mut is_over = false;
    while !is_over {
        let now_ns = started.elapsed().as_nanos() as u64;
        while store.next_sequence() <= now_ns / LINES_MESSAGE_NS && !is_over {
            let Some(message) = day.next() else {
                is_over = true;
                break;
            };
            bytes.clear();
            message.encode(&mut bytes);
            let sequence = store.append(&bytes);
            let sequence = sequence.map_err(|error| Failure::running(error.to_string()))?;
            books.apply(sequence, &bytes, &mut values);
        }
        lines.turn(&store, now_ns);
        std::thread::sleep(Duration::from_micros(200));
    }
    store.end_session();
    let counters = books.counters();
    let ticks = counters.quotes + counters.trades;
    let sent = ticks + counters.statuses + counters.sessions + counters.definitions;
    wait_until_applied(&hub, sent, || {
        lines.turn(&store, started.elapsed().as_nanos() as u64);
        std::thread::sleep(Duration::from_micros(200));
    });
    let wrong = |(symbol, expected): &(usize, &LastValue)| {
        let name = u16::try_from(*symbol)
            .ok()
            .and_then(|locate| day.stock(locate));
        let value = name
            .and_then(|name| hub.market.board.find(name.as_str().as_bytes()))
            .and_then(|topic| hub.market.board.value(topic.number));
        value.is_none_or(|value| {
            (value.bid, value.ask, value.last, value.volume)
                != (expected.bid, expected.ask, expected.last, expected.volume)
                || (value.bid_size, value.ask_size) != (expected.bid_size, expected.ask_size)
        })
    };
    let wrong_values = values.0.iter().enumerate().skip(1).filter(wrong).count() as u64;
    let case = case("two lines, each losing 5 %", sent, &hub, 0, wrong_values);
    drop(inputs);
    lanes.stop();
    Ok(case)
}

fn plan(faults: &str) -> Result<FaultPlan, Failure> {
    let plan: Result<FaultPlan, _> = faults.parse();
    plan.map_err(|error| Failure::running(format!("{faults}: {error}")))
}

fn case(
    link: &'static str,
    sent: u64,
    hub: &Hub,
    reconnects: u64,
    wrong_values: u64,
) -> LinkResult {
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    LinkResult {
        link,
        sent,
        applied: applied(hub),
        gaps: count(&hub.market.ingest.gaps),
        recovered: count(&hub.market.ingest.recovered),
        lost: count(&hub.market.ingest.lost),
        reconnects,
        wrong_values,
    }
}

fn applied(hub: &Hub) -> u64 {
    hub.market.ingest.applied.load(Ordering::Relaxed)
}

/// Calls `turn` until everything has been applied, or nothing more arrives.
fn wait_until_applied(hub: &Hub, sent: u64, mut turn: impl FnMut()) {
    let mut last = (Instant::now(), applied(hub));
    while applied(hub) < sent && last.0.elapsed() < PATIENCE {
        turn();
        if applied(hub) != last.1 {
            last = (Instant::now(), applied(hub));
        }
    }
}

/// Waits until everything has been applied, then a moment longer for duplicates.
fn wait_for(hub: &Hub, sent: u64) {
    let moment = || std::thread::sleep(Duration::from_millis(1));
    wait_until_applied(hub, sent, moment);
    std::thread::sleep(Duration::from_millis(300));
}

/// The sender's own last values, by symbol number.
#[derive(Default)]
struct Values(Vec<LastValue>);

impl Sink for Values {
    fn message(&mut self, _: u64, message: &Message) {
        let Some(symbol) = message.symbol() else {
            return;
        };
        while self.0.len() <= symbol as usize {
            self.0.push(LastValue::new(self.0.len() as u32));
        }
        let value = &mut self.0[symbol as usize];
        // One message can produce both a trade and a quote.
        value.apply(value.sequence + 1, message);
    }
}

fn free_ports() -> std::io::Result<[SocketAddr; 3]> {
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let sockets = [open()?, open()?, open()?];
    let [a, b, c] = &sockets;
    Ok([a.local_addr()?, b.local_addr()?, c.local_addr()?])
}

/// On each of two redundant ways.
const LINE_FAULTS: &str = "loss=5%,duplicate=1%,reorder=1%";
/// Messages per second of the native exchange: a rate at which a busy machine still recovers.
const RATE: u64 = 200_000;
/// Between two messages on the lines.
const LINES_MESSAGE_NS: u64 = 4_000;
const STORE_MESSAGES: usize = 1 << 21;
/// Silence after which missing messages count as lost.
const PATIENCE: Duration = Duration::from_secs(20);
