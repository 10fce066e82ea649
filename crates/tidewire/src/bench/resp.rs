//! GET and SET at several pipeline depths, and at several rates: our server, rivals and the echo
//! floor, in turn.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use super::echo::EchoServer;
use super::load::{KEYS, Load, Outcome, Requests, VALUE_BYTES, fill};
use super::open_loop::OpenLoop;
use super::processor_time::{Cores, ProcessorClock};
use super::report::{Setting, write_run};
use super::samples::{FLOOR, OURS, Run, Sample};
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::failure::Failure;
use crate::options::BenchOptions;

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
        servers: bench.names(),
        rivals: rivals
            .iter()
            .map(|rival| format!("{} {}", rival.name, rival.version()))
            .collect(),
        cores,
        connections: CONNECTIONS,
        keys: KEYS,
        value_bytes: VALUE_BYTES,
        seconds: options.seconds,
        samples: Vec::new(),
    };
    for case in cases(options) {
        bench
            .measure(case, &mut run.samples)
            .map_err(failed(&case.name()))?;
    }
    println!(
        "\n{CONNECTIONS} connections, {KEYS} random keys, {VALUE_BYTES}-byte values, {} rounds of \
         {} s; rivals: {}\n",
        options.pairs,
        options.seconds,
        run.rivals.join(", ")
    );
    print!("{}", run.table().text());
    println!();
    print!("{}", run.ratios().text());
    println!("\n{}", run.disturbance());
    write_run(&run, setting, "resp", json)
}

/// What is asked, and how.
#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Operation,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    Set,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    /// So many requests under way on each connection, as fast as the server answers.
    Pipeline(usize),
    /// Requests a second, one by one.
    Rate(NonZeroU64),
}

/// Closed loops at every depth, then open loops at the rates asked for.
fn cases(options: &BenchOptions) -> Vec<Case> {
    let pipelines = PIPELINES.map(Pace::Pipeline);
    let both = [Operation::Get, Operation::Set].into_iter();
    let mut cases: Vec<Case> = both
        .flat_map(|operation| pipelines.map(|pace| Case { operation, pace }))
        .collect();
    let rates = options
        .rate
        .iter()
        .filter_map(|&rate| NonZeroU64::new(rate));
    cases.extend(rates.map(|rate| Case {
        operation: Operation::Get,
        pace: Pace::Rate(rate),
    }));
    cases
}

impl Case {
    fn name(self) -> String {
        let operation = match self.operation {
            Operation::Get => "GET",
            Operation::Set => "SET",
        };
        match self.pace {
            Pace::Pipeline(depth) => format!("{operation} P={depth}"),
            Pace::Rate(rate) if rate.get().is_multiple_of(1_000) => {
                format!("{operation} {}k/s", rate.get() / 1_000)
            }
            Pace::Rate(rate) => format!("{operation} {rate}/s"),
        }
    }

    fn requests(self) -> Requests {
        match self.operation {
            Operation::Get => Requests::get(),
            Operation::Set => Requests::set(),
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
    /// Ours first, the floor last.
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
        let echo = EchoServer::start(cores)?;
        subjects.push(Subject {
            name: FLOOR.to_owned(),
            address: echo.address,
            clock: echo.clock.clone(),
        });
        Ok(Self {
            subjects,
            echo,
            cores,
            rounds: options.pairs,
            duration: Duration::from_secs_f64(options.seconds),
            _processes: processes,
        })
    }

    fn names(&self) -> Vec<String> {
        self.subjects.iter().map(|s| s.name.clone()).collect()
    }

    /// Rounds of all servers; each round begins with another one.
    fn measure(&self, case: Case, samples: &mut Vec<Sample>) -> io::Result<()> {
        let requests = case.requests();
        let floor_requests = case.requests().answered_ok();
        self.echo.set_request_bytes(requests.length());
        let turns = self.subjects.len();
        for round in 0..self.rounds {
            for turn in 0..turns {
                let subject = &self.subjects[(round + turn) % turns];
                let requests = match subject.name == FLOOR {
                    true => &floor_requests,
                    false => &requests,
                };
                samples.push(self.sample(case, round, subject, requests)?);
            }
        }
        Ok(())
    }

    fn sample(
        &self,
        case: Case,
        round: usize,
        subject: &Subject,
        requests: &Requests,
    ) -> io::Result<Sample> {
        let _core = self.cores.enter_load()?;
        let load_clock = ProcessorClock::of_this_thread();
        let mut run: Box<dyn FnMut(Duration) -> io::Result<Outcome>> = match case.pace {
            Pace::Pipeline(depth) => {
                let mut load = Load::start(subject.address, requests, CONNECTIONS, depth)?;
                Box::new(move |duration| load.run(duration))
            }
            Pace::Rate(rate) => {
                let mut load = OpenLoop::start(subject.address, requests, CONNECTIONS, rate)?;
                Box::new(move |duration| load.run(duration))
            }
        };
        run(WARM_UP)?;
        let (server, load) = (subject.clock.read()?, load_clock.read()?);
        let outcome = run(self.duration)?;
        let server_time = subject.clock.read()?.since(server);
        let load_time = load_clock.read()?.since(load);
        Ok(Sample::new(
            &case.name(),
            round,
            &subject.name,
            &outcome,
            server_time,
            load_time,
        ))
    }
}

const PIPELINES: [usize; 3] = [1, 16, 64];
const CONNECTIONS: usize = 50;
const WARM_UP: Duration = Duration::from_millis(200);
