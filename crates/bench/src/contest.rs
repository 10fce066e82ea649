//! Requests to our server, rivals and the echo floor: each under the same load, in turn.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::echo::EchoServer;
use super::failed;
use super::load::Outcome;
use super::load_threads::LoadThreads;
use super::open_loop::OpenLoop;
use super::processor_time::{ProcessorClock, ProcessorTime};
use super::report::{Column, Spread, Table};
use super::requests::{Requests, Workset};
use super::scenario::{Bench, FLOOR, Samples};
use super::servers::{Rival, Server};
use tidewire::failure::Failure;
use tidewire::units::latency;

/// The requests and the load of a case.
#[derive(Debug)]
pub(super) struct LoadCase {
    /// Such as `GET P=16` or `GET 10k/s`.
    pub(super) name: String,
    pub(super) requests: Requests,
    pub(super) connections: usize,
    pub(super) pace: Pace,
}

impl LoadCase {
    /// Creates a case with the usual number of connections.
    pub(super) fn new(name: String, requests: Requests, pace: Pace) -> Self {
        Self {
            name,
            requests,
            connections: CONNECTIONS,
            pace,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// Pipeline depth of each connection, as fast as the server answers.
    Pipeline(usize),
    /// Requests per second, one by one.
    Rate(NonZeroU64),
}

/// The result of one server under one load.
#[derive(Debug, Serialize)]
pub(super) struct LoadFigures {
    operations: u64,
    seconds: f64,
    pub(super) operations_a_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// Processor time of the server, user and kernel.
    processor_ns_an_operation: f64,
    /// Share of the time in which the server was on a processor.
    server_busy: f64,
    /// Share of the time in which the server was ready while another program was on the processor.
    server_waiting: f64,
    /// The same as `server_busy` for the load generator: near 1 it is the limit.
    load_busy: f64,
    /// The same as `server_waiting` for the load generator.
    load_waiting: f64,
}

impl LoadFigures {
    fn new(outcome: &Outcome, server: ProcessorTime, load: ProcessorTime) -> Self {
        let (operations, seconds) = (outcome.operations, outcome.elapsed.as_secs_f64());
        let share = |ns: u64| ns as f64 / 1e9 / seconds;
        let quantile = |quantile| outcome.latency_ns.value_at_quantile(quantile);
        Self {
            operations,
            seconds,
            operations_a_second: operations as f64 / seconds,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            processor_ns_an_operation: server.used_ns as f64 / operations as f64,
            server_busy: share(server.used_ns),
            server_waiting: share(server.waited_ns),
            load_busy: share(load.used_ns),
            load_waiting: share(load.waited_ns),
        }
    }
}

/// Measures cases on all servers, prints, and keeps the raw run. `fill` makes a server ready;
/// `more` returns the cases that depend on the results of the others.
pub(super) fn run(
    bench: &Bench<'_>,
    subject: &str,
    set: Workset,
    fill: impl Fn(SocketAddr) -> io::Result<()>,
    cases: &[LoadCase],
    more: impl FnOnce(&Samples<LoadFigures>, &[Rival]) -> Vec<LoadCase>,
) -> Result<(), Failure> {
    let (options, rivals) = (bench.options, bench.rivals());
    let contest = Contest::start(bench, &rivals, fill).map_err(failed("cannot start a server"))?;
    let mut samples = Samples::new();
    let measure = |case: &LoadCase, samples: &mut Samples<LoadFigures>| {
        let measured = contest.measure(case, samples);
        measured.map_err(failed(&case.name))
    };
    for case in cases {
        measure(case, &mut samples)?;
    }
    for case in more(&samples, &rivals) {
        measure(&case, &mut samples)?;
    }
    let named: Vec<String> = rivals.iter().map(Rival::named).collect();
    println!(
        "\n{CONNECTIONS} connections, {} random keys, {}-byte values, {} rounds of {} s; rivals: {}\n",
        set.keys,
        set.value_bytes,
        options.pairs,
        options.seconds,
        named.join(", ")
    );
    let (table, ratios) = (table(&samples, &contest.names), ratios(&samples, &rivals));
    print!("{}\n{}", ratios.text(), table.text());
    println!("\n{}", disturbance(&samples));
    let run = json!({
        "servers": contest.names,
        "rivals": named,
        "cores": bench.cores,
        "connections": CONNECTIONS,
        "load_threads": options.load_threads,
        "keys": set.keys,
        "value_bytes": set.value_bytes,
        "seconds": options.seconds,
        "samples": samples,
    });
    bench.keep(subject, run, &[&ratios, &table])
}

/// Adds a row for each server of each case.
fn table(samples: &Samples<LoadFigures>, servers: &[String]) -> Table {
    let cases = samples.cases().into_iter();
    let rows: Vec<(&str, &String)> = cases
        .flat_map(|case| servers.iter().map(move |server| (case, server)))
        .collect();
    let spread = |&(case, server): &(&str, &String), figure| samples.spread(case, server, figure);
    let time = |row: &_, figure| latency(spread(row, figure).median as u64);
    let share = |row: &_, figure| format!("{:.0} %", 100.0 * spread(row, figure).median);
    let cost_us = |row: &(&str, &String)| spread(row, |s| s.processor_ns_an_operation / 1e3);
    let above_us = |row: &(&str, &String)| {
        let floor = samples.spread(row.0, FLOOR, |s| s.processor_ns_an_operation / 1e3);
        cost_us(row).median - floor.median
    };
    let columns: [Column<'_, (&str, &String)>; 10] = [
        ("case", &|row| row.0.to_owned()),
        ("server", &|row| row.1.clone()),
        ("k requests/s", &|row| {
            spread(row, |s| s.operations_a_second / 1e3).text(0)
        }),
        ("p50", &|row| time(row, |s| s.p50_ns as f64)),
        ("p99", &|row| time(row, |s| s.p99_ns as f64)),
        ("p99.9", &|row| time(row, |s| s.p999_ns as f64)),
        ("server CPU µs an operation", &|row| cost_us(row).text(2)),
        ("above the floor", &|row| match row.1.as_str() {
            FLOOR => String::new(),
            _ => format!("{:.2}", above_us(row)),
        }),
        ("server busy", &|row| share(row, |s| s.server_busy)),
        ("load busy", &|row| share(row, |s| s.load_busy)),
    ];
    Table::of(&rows, &columns)
}

/// Ours ÷ each rival, round by round.
fn ratios(samples: &Samples<LoadFigures>, rivals: &[Rival]) -> Table {
    let cases = samples.cases();
    let rows: Vec<(&str, &str)> = rivals
        .iter()
        .flat_map(|rival| cases.iter().map(|case| (rival.name.as_str(), *case)))
        .collect();
    let ratio = |row: &(&str, &str), figure| samples.ratio(row.1, row.0, figure).text(2);
    let columns: [Column<'_, (&str, &str)>; 7] = [
        ("tidewire ÷", &|row| row.0.to_owned()),
        ("case", &|row| row.1.to_owned()),
        ("requests/s", &|row| ratio(row, |s| s.operations_a_second)),
        ("server CPU an operation", &|row| {
            ratio(row, |s| s.processor_ns_an_operation)
        }),
        ("p50", &|row| ratio(row, |s| s.p50_ns as f64)),
        ("p99", &|row| ratio(row, |s| s.p99_ns as f64)),
        ("p99.9", &|row| ratio(row, |s| s.p999_ns as f64)),
    ];
    Table::of(&rows, &columns)
}

/// Returns the disturbance by other programs: the shares of time in which server and load waited.
fn disturbance(samples: &Samples<LoadFigures>) -> String {
    let share =
        |figure: fn(&LoadFigures) -> f64| 100.0 * Spread::of(samples.all().map(figure)).median;
    format!(
        "ready, but waiting for a processor (medians): servers {:.0} %, load {:.0} %",
        share(|s| s.server_waiting),
        share(|s| s.load_waiting)
    )
}

/// The running servers; those not being measured wait for events.
struct Contest<'a> {
    bench: &'a Bench<'a>,
    /// Ours first, the floor last.
    servers: Vec<Server>,
    names: Vec<String>,
    echo: EchoServer,
}

impl<'a> Contest<'a> {
    fn start(
        bench: &'a Bench<'a>,
        rivals: &[Rival],
        fill: impl Fn(SocketAddr) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut servers = Server::start_all(rivals, bench.cores)?;
        servers.iter().try_for_each(|server| fill(server.address))?;
        let echo = EchoServer::start(bench.cores)?;
        servers.push(Server::floor(echo.address, echo.clock.clone()));
        Ok(Self {
            bench,
            names: Server::names(&servers),
            servers,
            echo,
        })
    }

    fn measure(&self, case: &LoadCase, samples: &mut Samples<LoadFigures>) -> io::Result<()> {
        let floor_requests = case.requests.answered_ok();
        self.echo.set_request_bytes(case.requests.length());
        let rounds = self.bench.options.pairs;
        samples.measure(&case.name, rounds, &self.names, |place, _| {
            let server = &self.servers[place];
            let requests = match server.name.as_str() {
                FLOOR => &floor_requests,
                _ => &case.requests,
            };
            self.figures(case, server, requests)
        })
    }

    fn figures(
        &self,
        case: &LoadCase,
        server: &Server,
        requests: &Requests,
    ) -> io::Result<LoadFigures> {
        let cores = self.bench.cores;
        let _core = cores.enter_load()?;
        let connections = case.connections;
        let mut run: Loader<'_> = match case.pace {
            Pace::Pipeline(depth) => {
                let threads = self.bench.options.load_threads;
                let address = server.address;
                let mut load =
                    LoadThreads::start(address, requests, connections, depth, threads, cores)?;
                Box::new(move |duration| load.run(duration))
            }
            Pace::Rate(rate) => {
                let mut load = OpenLoop::start(server.address, requests, connections, rate)?;
                let clock = ProcessorClock::of_this_thread();
                Box::new(move |duration| {
                    let before = clock.read()?;
                    let outcome = load.run(duration)?;
                    Ok((outcome, clock.read()?.since(before)))
                })
            }
        };
        run(WARM_UP)?;
        let before = server.clock.read()?;
        let (outcome, load_time) = run(self.bench.duration())?;
        let server_time = server.clock.read()?.since(before);
        Ok(LoadFigures::new(&outcome, server_time, load_time))
    }
}

/// Loads a server for a time. Returns the result, and the processor time of the load.
type Loader<'a> = Box<dyn FnMut(Duration) -> io::Result<(Outcome, ProcessorTime)> + 'a>;

pub(super) const CONNECTIONS: usize = 50;
const WARM_UP: Duration = Duration::from_millis(200);
