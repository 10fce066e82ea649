//! Servers in turn, under the same load: ours, rivals, and the echo floor.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use super::echo::EchoServer;
use super::load::Outcome;
use super::load_threads::LoadThreads;
use super::open_loop::OpenLoop;
use super::processor_time::{Cores, ProcessorClock, ProcessorTime};
use super::report::{Setting, write_run};
use super::requests::{Requests, Workset};
use super::samples::{FLOOR, OURS, Run, Sample};
use super::servers::{HubAddresses, Rival, ServerProcess, free_addresses};
use super::{Place, failed};
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// What is asked, and how.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) requests: Requests,
    pub(super) connections: usize,
    pub(super) pace: Pace,
}

impl Case {
    /// With the usual number of connections.
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
    /// So many requests under way on each connection, as fast as the server answers.
    Pipeline(usize),
    /// Requests a second, one by one.
    Rate(NonZeroU64),
}

/// Measures cases on all servers, prints, and keeps the raw run. `fill` makes a server ready;
/// `more` are the cases that depend on what the others have shown.
pub(super) fn run(
    options: &BenchOptions,
    setting: &Setting,
    cores: Cores,
    (subject, json): (&str, Place<'_>),
    set: Workset,
    fill: impl Fn(SocketAddr) -> io::Result<()>,
    cases: &[Case],
    more: impl FnOnce(&Run) -> Vec<Case>,
) -> Result<(), Failure> {
    let rivals = Rival::chosen(options);
    let contest =
        Contest::start(options, &rivals, cores, fill).map_err(failed("cannot start a server"))?;
    let mut run = Run {
        setting: setting.clone(),
        servers: contest.names(),
        rivals: rivals.iter().map(Rival::named).collect(),
        cores,
        connections: CONNECTIONS,
        load_threads: options.load_threads,
        keys: set.keys,
        value_bytes: set.value_bytes,
        seconds: options.seconds,
        samples: Vec::new(),
    };
    for case in cases {
        contest
            .measure(case, &mut run.samples)
            .map_err(failed(&case.name))?;
    }
    for case in more(&run) {
        contest
            .measure(&case, &mut run.samples)
            .map_err(failed(&case.name))?;
    }
    println!(
        "\n{CONNECTIONS} connections, {} random keys, {}-byte values, {} rounds of {} s; rivals: {}\n",
        set.keys,
        set.value_bytes,
        options.pairs,
        options.seconds,
        run.rivals.join(", ")
    );
    let (table, ratios) = (run.table(), run.ratios());
    print!("{}\n{}", ratios.text(), table.text());
    println!("\n{}", run.disturbance());
    write_run(&run, setting, subject, json, &[&ratios, &table])
}

/// A server under measurement.
struct Subject {
    name: String,
    address: SocketAddr,
    clock: ProcessorClock,
}

/// The servers, all running: those whose turn it is not wait for events.
struct Contest {
    /// Ours first, the floor last.
    subjects: Vec<Subject>,
    echo: EchoServer,
    cores: Cores,
    rounds: usize,
    duration: Duration,
    load_threads: usize,
    _processes: Vec<ServerProcess>,
}

impl Contest {
    fn start(
        options: &BenchOptions,
        rivals: &[Rival],
        cores: Cores,
        fill: impl Fn(SocketAddr) -> io::Result<()>,
    ) -> io::Result<Self> {
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
            load_threads: options.load_threads,
            _processes: processes,
        })
    }

    fn names(&self) -> Vec<String> {
        self.subjects.iter().map(|s| s.name.clone()).collect()
    }

    /// Rounds of all servers; each round begins with another one.
    fn measure(&self, case: &Case, samples: &mut Vec<Sample>) -> io::Result<()> {
        let requests = &case.requests;
        let floor_requests = requests.answered_ok();
        self.echo.set_request_bytes(requests.length());
        let turns = self.subjects.len();
        for round in 0..self.rounds {
            for turn in 0..turns {
                let subject = &self.subjects[(round + turn) % turns];
                let requests = match subject.name == FLOOR {
                    true => &floor_requests,
                    false => requests,
                };
                samples.push(self.sample(case, round, subject, requests)?);
            }
        }
        Ok(())
    }

    fn sample(
        &self,
        case: &Case,
        round: usize,
        subject: &Subject,
        requests: &Requests,
    ) -> io::Result<Sample> {
        let _core = self.cores.enter_load()?;
        let connections = case.connections;
        let mut run: Loader<'_> = match case.pace {
            Pace::Pipeline(depth) => {
                let (threads, cores) = (self.load_threads, self.cores);
                let address = subject.address;
                let mut load =
                    LoadThreads::start(address, requests, connections, depth, threads, cores)?;
                Box::new(move |duration| load.run(duration))
            }
            Pace::Rate(rate) => {
                let mut load = OpenLoop::start(subject.address, requests, connections, rate)?;
                let clock = ProcessorClock::of_this_thread();
                Box::new(move |duration| {
                    let before = clock.read()?;
                    let outcome = load.run(duration)?;
                    Ok((outcome, clock.read()?.since(before)))
                })
            }
        };
        run(WARM_UP)?;
        let server = subject.clock.read()?;
        let (outcome, load_time) = run(self.duration)?;
        let server_time = subject.clock.read()?.since(server);
        Ok(Sample::new(
            &case.name,
            round,
            &subject.name,
            &outcome,
            server_time,
            load_time,
        ))
    }
}

/// Loads a server for so long; what was found, and what it took of the processors.
type Loader<'a> = Box<dyn FnMut(Duration) -> io::Result<(Outcome, ProcessorTime)> + 'a>;

pub(super) const CONNECTIONS: usize = 50;
const WARM_UP: Duration = Duration::from_millis(200);
