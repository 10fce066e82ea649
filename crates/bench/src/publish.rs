//! PUBLISH to 100 subscribers: our server, rivals and the floor in turn; the figure is a delivered
//! message's. Once in lockstep, where no two messages can share a send but those of one request;
//! and once as programs publish, each as soon as it is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::floor;
use super::processor_time::{Cores, ProcessorClock};
use super::publish_floor::Script;
use super::publish_flow::Flow;
use super::report::{Setting, Spread, Table, write_run};
use super::samples::{FLOOR, OURS};
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// A run as it is kept.
#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    rivals: Vec<String>,
    cores: Cores,
    subscribers: usize,
    payload_bytes: usize,
    samples: Vec<Sample>,
}

/// One server, one round.
#[derive(Debug, Serialize)]
struct Sample {
    /// Such as `16 at once` or `8 publishers`: see [`Load`].
    case: String,
    server: String,
    round: usize,
    deliveries: u64,
    deliveries_a_second: f64,
    /// The server's, user and kernel; an operation is the delivery to one subscriber.
    processor_ns_an_operation: f64,
}

struct Server {
    name: String,
    address: SocketAddr,
    clock: ProcessorClock,
    /// The floor is a thread of ours.
    _process: Option<ServerProcess>,
}

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    let failed = failed("publish");
    let rivals = Rival::chosen(options);
    let servers = start(&rivals, cores).map_err(&failed)?;
    let mut run = Run {
        setting: setting.clone(),
        rivals: rivals.iter().map(Rival::named).collect(),
        cores,
        subscribers: SUBSCRIBERS,
        payload_bytes: PAYLOAD.len(),
        samples: Vec::new(),
    };
    let _core = cores.enter_load().map_err(&failed)?;
    let duration = Duration::from_secs_f64(options.seconds);
    for load in LOADS {
        for round in 0..options.pairs {
            for turn in 0..servers.len() {
                let server = &servers[(round + turn) % servers.len()];
                let sample = measure(server, load, round, duration).map_err(&failed)?;
                run.samples.push(sample);
            }
        }
    }
    println!(
        "\nPUBLISH of {} bytes to {SUBSCRIBERS} subscribers, {} rounds of {} s; rivals: {}\n",
        PAYLOAD.len(),
        options.pairs,
        options.seconds,
        run.rivals.join(", ")
    );
    let table = table(&run, &rivals);
    print!("{}", table.text());
    write_run(&run, setting, "publish", json, &[&table])
}

fn start(rivals: &[Rival], cores: Cores) -> io::Result<Vec<Server>> {
    let addresses = HubAddresses::free()?;
    let hub = ServerProcess::hub(&addresses, &[], cores)?;
    let mut servers = vec![Server {
        name: OURS.to_owned(),
        address: addresses.resp,
        clock: hub.clock(),
        _process: Some(hub),
    }];
    for rival in rivals {
        let [address] = free_addresses()?;
        let process = ServerProcess::rival(rival, address, cores)?;
        servers.push(Server {
            name: rival.name.clone(),
            address,
            clock: process.clock(),
            _process: Some(process),
        });
    }
    let (address, clock) = floor::start(script(), cores)?;
    servers.push(Server {
        name: FLOOR.to_owned(),
        address,
        clock,
        _process: None,
    });
    Ok(servers)
}

fn script() -> Script {
    let (mut subscribe, mut request) = (Vec::new(), Vec::new());
    tidewire_resp::write_request(&mut subscribe, &["SUBSCRIBE", CHANNEL]);
    tidewire_resp::write_request(&mut request, &["PUBLISH", CHANNEL, PAYLOAD]);
    let (name_bytes, payload_bytes) = (CHANNEL.len(), PAYLOAD.len());
    let confirmation = format!("*3\r\n$9\r\nsubscribe\r\n${name_bytes}\r\n{CHANNEL}\r\n:1\r\n");
    let message = format!(
        "*3\r\n$7\r\nmessage\r\n${name_bytes}\r\n{CHANNEL}\r\n${payload_bytes}\r\n{PAYLOAD}\r\n"
    );
    Script {
        subscribe,
        confirmation: confirmation.into_bytes(),
        request,
        answer: format!(":{SUBSCRIBERS}\r\n").into_bytes(),
        message: message.into_bytes(),
    }
}

fn table(run: &Run, rivals: &[Rival]) -> Table {
    let mut table = Table::new(&[
        "published",
        "server",
        "k deliveries/s",
        "server CPU ns a delivery",
        "CPU, tidewire ÷",
    ]);
    for load in LOADS {
        let case = load.case();
        let figures = |server: &str, figure: fn(&Sample) -> f64| {
            let samples = run.samples.iter();
            let own = samples.filter(|s| s.case == case && s.server == server);
            let mut own: Vec<&Sample> = own.collect();
            own.sort_by_key(|sample| sample.round);
            own.into_iter().map(figure).collect::<Vec<f64>>()
        };
        let names = std::iter::once(OURS).chain(rivals.iter().map(|r| r.name.as_str()));
        let names = names.chain([FLOOR]);
        for name in names {
            let cost: fn(&Sample) -> f64 = |sample| sample.processor_ns_an_operation;
            let ratios = figures(OURS, cost).into_iter().zip(figures(name, cost));
            let ratio = Spread::of(ratios.map(|(ours, theirs)| ours / theirs));
            table.push(vec![
                case.clone(),
                name.to_owned(),
                Spread::of(figures(name, |s| s.deliveries_a_second / 1e3)).text(0),
                Spread::of(figures(name, cost)).text(0),
                match name {
                    OURS => String::new(),
                    _ => ratio.text(2),
                },
            ]);
        }
    }
    table
}

fn measure(server: &Server, load: Load, round: usize, duration: Duration) -> io::Result<Sample> {
    let script = script();
    let mut publishers = Vec::new();
    for _ in 0..load.publishers() {
        publishers.push(connect(server.address)?);
    }
    let mut subscribers = Vec::with_capacity(SUBSCRIBERS);
    for _ in 0..SUBSCRIBERS {
        let mut subscriber = connect(server.address)?;
        subscriber.write_all(&script.subscribe)?;
        expect(&mut subscriber, &script.confirmation)?;
        subscribers.push(subscriber);
    }
    let mut publish: Box<dyn FnMut(Duration) -> io::Result<u64>> = match load {
        Load::AtOnce(count) => {
            let (request, answer) = (script.request.repeat(count), script.answer.repeat(count));
            let messages = script.message.repeat(count);
            Box::new(move |duration| {
                let (mut published, start) = (0, Instant::now());
                while start.elapsed() < duration {
                    publishers[0].write_all(&request)?;
                    expect(&mut publishers[0], &answer)?;
                    for subscriber in &mut subscribers {
                        expect(subscriber, &messages)?;
                    }
                    published += count as u64;
                }
                Ok(published)
            })
        }
        Load::Flow(_) => {
            let mut flow = Flow::new(&script, publishers, subscribers)?;
            Box::new(move |duration| flow.run(duration))
        }
    };
    publish(WARM_UP)?;
    let before = server.clock.read()?;
    let start = Instant::now();
    let deliveries = publish(duration)? * SUBSCRIBERS as u64;
    let seconds = start.elapsed().as_secs_f64();
    let used_ns = server.clock.read()?.since(before).used_ns;
    Ok(Sample {
        case: load.case(),
        server: server.name.clone(),
        round,
        deliveries,
        deliveries_a_second: deliveries as f64 / seconds,
        processor_ns_an_operation: used_ns as f64 / deliveries as f64,
    })
}

/// How is published.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// So many by one publisher, and nothing more until every subscriber has read them.
    AtOnce(usize),
    /// By so many publishers, each again as soon as it is answered.
    Flow(usize),
}

impl Load {
    fn publishers(self) -> usize {
        match self {
            Load::AtOnce(_) => 1,
            Load::Flow(publishers) => publishers,
        }
    }

    fn case(self) -> String {
        match self {
            Load::AtOnce(count) => format!("{count} at once"),
            Load::Flow(1) => "1 publisher".to_owned(),
            Load::Flow(publishers) => format!("{publishers} publishers"),
        }
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads exactly these bytes.
fn expect(stream: &mut TcpStream, expected: &[u8]) -> io::Result<()> {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received)?;
    super::load::check(&received, expected)
}

const SUBSCRIBERS: usize = 100;
const LOADS: [Load; 4] = [
    Load::AtOnce(1),
    Load::AtOnce(16),
    Load::Flow(1),
    Load::Flow(8),
];
const CHANNEL: &str = "prices";
const PAYLOAD: &str = "abcdefghijklmnopqrstuvwxyz012345";
const WARM_UP: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);
