//! GET and SET at several pipeline depths: our server, rivals and the echo floor, in turn.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::echo::EchoServer;
use super::load::{Load, Outcome, Requests, fill};
use super::processor_time::{Cores, ProcessorClock};
use super::report::{Setting, Spread, Table, write_run};
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::failure::Failure;
use crate::options::BenchOptions;
use crate::units::latency;

/// Measures, prints, and keeps the raw run.
pub(crate) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    json: Place<'_>,
) -> Result<(), Failure> {
    let mut rivals = options.rival.clone();
    if rivals.is_empty() {
        rivals.extend(Rival::installed());
    }
    let bench = Bench::start(options, &rivals, cores).map_err(failed("cannot start a server"))?;
    let mut run = Run {
        setting: setting.clone(),
        rivals: rivals
            .iter()
            .map(|rival| format!("{} {}", rival.name, rival.version()))
            .collect(),
        cores,
        connections: CONNECTIONS,
        seconds: options.seconds,
        samples: Vec::new(),
    };
    for operation in [Operation::Get, Operation::Set] {
        for pipeline in PIPELINES {
            bench
                .case(operation, pipeline, &mut run.samples)
                .map_err(failed(&format!("{} P={pipeline}", operation.name())))?;
        }
    }
    let seconds = options.seconds;
    let pairs = options.pairs;
    println!(
        "\nGET and SET, {CONNECTIONS} connections, 100,000 random keys, 16-byte values, {pairs} \
         rounds of {seconds} s; rivals: {}\n",
        run.rivals.join(", ")
    );
    print!("{}", run.table().text());
    println!();
    print!("{}", run.ratios().text());
    write_run(&run, setting, "resp", json)
}

/// A run as it is kept.
#[derive(Debug, Serialize)]
struct Run {
    setting: Setting,
    rivals: Vec<String>,
    cores: Cores,
    connections: usize,
    seconds: f64,
    samples: Vec<Sample>,
}

/// One server under one load for one time.
#[derive(Debug, Serialize)]
struct Sample {
    operation: &'static str,
    pipeline: usize,
    round: usize,
    server: String,
    operations: u64,
    seconds: f64,
    operations_a_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// The server's, user and kernel.
    processor_ns_an_operation: f64,
    /// Share of the time in which the server was on a processor.
    server_busy: f64,
    /// The same of the load generator: near 1 it is what limits.
    load_busy: f64,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    Set,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Set => "SET",
        }
    }

    fn requests(self) -> Requests {
        match self {
            Self::Get => Requests::get(),
            Self::Set => Requests::set(),
        }
    }
}

/// A server under measurement.
struct Subject {
    name: String,
    address: SocketAddr,
    clock: ProcessorClock,
}

/// The servers, all running: those whose turn it is not wait for events.
struct Bench {
    subjects: Vec<Subject>,
    echo: EchoServer,
    cores: Cores,
    rounds: usize,
    duration: Duration,
    _processes: Vec<ServerProcess>,
}

impl Bench {
    fn start(options: &BenchOptions, rivals: &[Rival], cores: Cores) -> io::Result<Self> {
        let addresses = HubAddresses::free()?;
        let hub = ServerProcess::hub(&addresses, &[], cores)?;
        let mut subjects = vec![Subject {
            name: OURS.to_owned(),
            address: addresses.resp,
            clock: hub.clock(),
        }];
        let mut processes = vec![hub];
        for rival in rivals {
            let [address] = free_addresses()?;
            let process = ServerProcess::rival(rival, address, cores)?;
            subjects.push(Subject {
                name: rival.name.clone(),
                address,
                clock: process.clock(),
            });
            processes.push(process);
        }
        for subject in &subjects {
            fill(subject.address)?;
        }
        Ok(Self {
            subjects,
            echo: EchoServer::start(cores)?,
            cores,
            rounds: options.pairs,
            duration: Duration::from_secs_f64(options.seconds),
            _processes: processes,
        })
    }

    /// Rounds of all servers and the floor; each round begins with another one.
    fn case(
        &self,
        operation: Operation,
        pipeline: usize,
        samples: &mut Vec<Sample>,
    ) -> io::Result<()> {
        let requests = operation.requests();
        let floor_requests = operation.requests().answered_ok();
        self.echo.set_request_bytes(requests.length());
        let floor = Subject {
            name: FLOOR.to_owned(),
            address: self.echo.address,
            clock: self.echo.clock.clone(),
        };
        let turns = self.subjects.len() + 1;
        for round in 0..self.rounds {
            for turn in 0..turns {
                let number = (round + turn) % turns;
                let (subject, requests) = match self.subjects.get(number) {
                    Some(subject) => (subject, &requests),
                    None => (&floor, &floor_requests),
                };
                let measured = self.measure(subject, requests, pipeline)?;
                samples.push(measured.sample(operation, pipeline, round, subject));
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        subject: &Subject,
        requests: &Requests,
        pipeline: usize,
    ) -> io::Result<Measured> {
        let _core = self.cores.enter_load()?;
        let own_clock = ProcessorClock::of_this_thread();
        let mut load = Load::start(subject.address, requests, CONNECTIONS, pipeline)?;
        load.run(WARM_UP)?;
        let (server_ns, load_ns) = (subject.clock.read_ns()?, own_clock.read_ns()?);
        let outcome = load.run(self.duration)?;
        Ok(Measured {
            server_ns: subject.clock.read_ns()?.saturating_sub(server_ns),
            load_ns: own_clock.read_ns()?.saturating_sub(load_ns),
            outcome,
        })
    }
}

struct Measured {
    outcome: Outcome,
    /// Processor time.
    server_ns: u64,
    /// Processor time.
    load_ns: u64,
}

impl Measured {
    fn sample(
        &self,
        operation: Operation,
        pipeline: usize,
        round: usize,
        subject: &Subject,
    ) -> Sample {
        let Outcome {
            operations,
            elapsed,
            latency_ns,
        } = &self.outcome;
        let elapsed_ns = elapsed.as_nanos() as f64;
        Sample {
            operation: operation.name(),
            pipeline,
            round,
            server: subject.name.clone(),
            operations: *operations,
            seconds: elapsed.as_secs_f64(),
            operations_a_second: *operations as f64 / elapsed.as_secs_f64(),
            p50_ns: latency_ns.value_at_quantile(0.5),
            p99_ns: latency_ns.value_at_quantile(0.99),
            p999_ns: latency_ns.value_at_quantile(0.999),
            processor_ns_an_operation: self.server_ns as f64 / *operations as f64,
            server_busy: self.server_ns as f64 / elapsed_ns,
            load_busy: self.load_ns as f64 / elapsed_ns,
        }
    }
}

impl Run {
    /// A row for each server of each case.
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "case",
            "server",
            "k requests/s",
            "p50",
            "p99",
            "p99.9",
            "server CPU µs an operation",
            "above the floor",
            "busy: server, load",
        ]);
        for (operation, pipeline) in cases() {
            let floor_us = self
                .spread(operation, pipeline, FLOOR, |s| {
                    s.processor_ns_an_operation / 1e3
                })
                .median;
            for server in self.servers() {
                let spread =
                    |figure: fn(&Sample) -> f64| self.spread(operation, pipeline, &server, figure);
                let time = |figure: fn(&Sample) -> f64| latency(spread(figure).median as u64);
                let cost_us = spread(|s| s.processor_ns_an_operation / 1e3);
                let net = match server == FLOOR {
                    true => String::new(),
                    false => format!("{:.2}", cost_us.median - floor_us),
                };
                table.push(vec![
                    format!("{operation} P={pipeline}"),
                    server.clone(),
                    spread(|s| s.operations_a_second / 1e3).text(0),
                    time(|s| s.p50_ns as f64),
                    time(|s| s.p99_ns as f64),
                    time(|s| s.p999_ns as f64),
                    cost_us.text(2),
                    net,
                    format!(
                        "{:.0} %, {:.0} %",
                        spread(|s| s.server_busy * 100.0).median,
                        spread(|s| s.load_busy * 100.0).median
                    ),
                ]);
            }
        }
        table
    }

    /// Ours ÷ rival, round by round.
    fn ratios(&self) -> Table {
        let mut table = Table::new(&[
            "tidewire ÷",
            "case",
            "requests/s",
            "CPU an operation",
            "p99",
        ]);
        for rival in self
            .servers()
            .iter()
            .filter(|s| ![OURS, FLOOR].contains(&s.as_str()))
        {
            for (operation, pipeline) in cases() {
                let ratio = |figure: fn(&Sample) -> f64| {
                    let ours = self.figures(operation, pipeline, OURS, figure);
                    let theirs = self.figures(operation, pipeline, rival, figure);
                    Spread::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs)).text(2)
                };
                table.push(vec![
                    rival.clone(),
                    format!("{operation} P={pipeline}"),
                    ratio(|s| s.operations_a_second),
                    ratio(|s| s.processor_ns_an_operation),
                    ratio(|s| s.p99_ns as f64),
                ]);
            }
        }
        table
    }

    fn servers(&self) -> Vec<String> {
        let first = self.samples.iter().take_while(|sample| sample.round == 0);
        let mut servers: Vec<String> = Vec::new();
        for sample in first {
            if !servers.contains(&sample.server) {
                servers.push(sample.server.clone());
            }
        }
        servers
    }

    /// A figure of each round, in order.
    fn figures<'a>(
        &'a self,
        operation: &'a str,
        pipeline: usize,
        server: &'a str,
        figure: fn(&Sample) -> f64,
    ) -> impl Iterator<Item = f64> + 'a {
        let samples = self.samples.iter().filter(move |sample| {
            sample.operation == operation && sample.pipeline == pipeline && sample.server == server
        });
        samples.map(figure)
    }

    fn spread(
        &self,
        operation: &str,
        pipeline: usize,
        server: &str,
        figure: fn(&Sample) -> f64,
    ) -> Spread {
        Spread::of(self.figures(operation, pipeline, server, figure))
    }
}

fn cases() -> impl Iterator<Item = (&'static str, usize)> {
    let operations = [Operation::Get, Operation::Set].into_iter();
    operations.flat_map(|operation| PIPELINES.map(|pipeline| (operation.name(), pipeline)))
}

const OURS: &str = "tidewire";
const FLOOR: &str = "echo floor";
const PIPELINES: [usize; 3] = [1, 16, 64];
const CONNECTIONS: usize = 50;
const WARM_UP: Duration = Duration::from_millis(200);
