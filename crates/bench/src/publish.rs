//! PUBLISH to 100 subscribers: our server, rivals and the floor in turn. The figure is per
//! delivered message. Once in lockstep, where only messages of one request can share a send, and
//! once as programs publish, each as soon as it is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::failed;
use super::floor;
use super::publish_floor::Script;
use super::publish_flow::Flow;
use super::report::{Column, Table};
use super::scenario::{Bench, OURS, Samples};
use super::servers::{Rival, Server};
use tidewire::failure::Failure;

/// One server, one round.
#[derive(Debug, Serialize)]
struct Deliveries {
    deliveries: u64,
    deliveries_a_second: f64,
    /// Processor time of the server, user and kernel; an operation is the delivery to one
    /// subscriber.
    processor_ns_an_operation: f64,
}

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let failed = failed("publish");
    let (options, cores, rivals) = (bench.options, bench.cores, bench.rivals());
    let mut servers = Server::start_all(&rivals, cores).map_err(&failed)?;
    let (address, clock) = floor::start(script(), cores).map_err(&failed)?;
    servers.push(Server::floor(address, clock));
    let names = Server::names(&servers);
    let mut samples = Samples::new();
    let _core = cores.enter_load().map_err(&failed)?;
    for style in STYLES {
        let measured = samples.measure(&style.case(), options.pairs, &names, |place, _| {
            measure(&servers[place], style, bench.duration())
        });
        measured.map_err(&failed)?;
    }
    let named: Vec<String> = rivals.iter().map(Rival::named).collect();
    println!(
        "\nPUBLISH of {} bytes to {SUBSCRIBERS} subscribers, {} rounds of {} s; rivals: {}\n",
        PAYLOAD.len(),
        options.pairs,
        options.seconds,
        named.join(", ")
    );
    let table = table(&samples, &names);
    print!("{}", table.text());
    let run = json!({
        "rivals": named,
        "cores": cores,
        "subscribers": SUBSCRIBERS,
        "payload_bytes": PAYLOAD.len(),
        "samples": samples,
    });
    bench.keep("publish", run, &[&table])
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

fn table(samples: &Samples<Deliveries>, servers: &[String]) -> Table {
    let cases = samples.cases().into_iter();
    let rows: Vec<(&str, &String)> = cases
        .flat_map(|case| servers.iter().map(move |server| (case, server)))
        .collect();
    let cost: fn(&Deliveries) -> f64 = |figures| figures.processor_ns_an_operation;
    let spread = |row: &(&str, &String), figure| samples.spread(row.0, row.1, figure);
    let columns: [Column<'_, (&str, &String)>; 5] = [
        ("published", &|row| row.0.to_owned()),
        ("server", &|row| row.1.clone()),
        ("k deliveries/s", &|row| {
            spread(row, |s| s.deliveries_a_second / 1e3).text(0)
        }),
        ("server CPU ns a delivery", &|row| spread(row, cost).text(0)),
        ("CPU, tidewire ÷", &|row| match row.1.as_str() {
            OURS => String::new(),
            name => samples.ratio(row.0, name, cost).text(2),
        }),
    ];
    Table::of(&rows, &columns)
}

fn measure(server: &Server, style: Style, duration: Duration) -> io::Result<Deliveries> {
    let script = script();
    let mut publishers = Vec::new();
    for _ in 0..style.publishers() {
        publishers.push(connect(server.address)?);
    }
    let mut subscribers = Vec::with_capacity(SUBSCRIBERS);
    for _ in 0..SUBSCRIBERS {
        let mut subscriber = connect(server.address)?;
        subscriber.write_all(&script.subscribe)?;
        expect(&mut subscriber, &script.confirmation)?;
        subscribers.push(subscriber);
    }
    let mut publish: Box<dyn FnMut(Duration) -> io::Result<u64>> = match style {
        Style::AtOnce(count) => {
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
        Style::Flow(_) => {
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
    Ok(Deliveries {
        deliveries,
        deliveries_a_second: deliveries as f64 / seconds,
        processor_ns_an_operation: used_ns as f64 / deliveries as f64,
    })
}

/// The publishing pattern.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// This many messages by one publisher, then a wait until every subscriber has read them.
    AtOnce(usize),
    /// This many publishers, each of which publishes again as soon as it is answered.
    Flow(usize),
}

impl Style {
    fn publishers(self) -> usize {
        match self {
            Style::AtOnce(_) => 1,
            Style::Flow(publishers) => publishers,
        }
    }

    fn case(self) -> String {
        match self {
            Style::AtOnce(count) => format!("{count} at once"),
            Style::Flow(1) => "1 publisher".to_owned(),
            Style::Flow(publishers) => format!("{publishers} publishers"),
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
const STYLES: [Style; 4] = [
    Style::AtOnce(1),
    Style::AtOnce(16),
    Style::Flow(1),
    Style::Flow(8),
];
const CHANNEL: &str = "prices";
const PAYLOAD: &str = "abcdefghijklmnopqrstuvwxyz012345";
const WARM_UP: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);
