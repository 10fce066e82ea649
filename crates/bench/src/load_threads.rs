//! A closed loop on several threads, which share its connections.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::load::{Load, Outcome};
use super::processor_time::{Cores, ProcessorClock, ProcessorTime};
use super::requests::Requests;

/// One [`Load`] per thread.
#[derive(Debug)]
pub(crate) struct LoadThreads<'a> {
    loads: Vec<Load<'a>>,
    cores: Cores,
}

impl<'a> LoadThreads<'a> {
    /// Connects and sends each connection's first requests. Every thread has a connection.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn start(
        address: SocketAddr,
        requests: &'a Requests,
        connections: usize,
        pipeline: usize,
        threads: usize,
        cores: Cores,
    ) -> io::Result<Self> {
        let threads = threads.clamp(1, connections.max(1));
        let share = |thread: usize| connections * thread / threads;
        let loads = (0..threads)
            .map(|thread| {
                Load::start(
                    address,
                    requests,
                    share(thread)..share(thread + 1),
                    pipeline,
                )
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { loads, cores })
    }

    /// Runs for `duration`; also returns the threads' processor time. A single thread is the
    /// calling thread.
    ///
    /// # Errors
    /// Those of [`Load::run`].
    pub(crate) fn run(&mut self, duration: Duration) -> io::Result<(Outcome, ProcessorTime)> {
        if let [load] = &mut self.loads[..] {
            return timed(load, duration);
        }
        let cores = self.cores;
        let results: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> = self
                .loads
                .iter_mut()
                .enumerate()
                .map(|(number, load)| {
                    scope.spawn(move || {
                        let _core = cores.enter_load_of(number)?;
                        timed(load, duration)
                    })
                })
                .collect();
            let ended = started.into_iter().map(|thread| thread.join());
            ended.map(|result| result.expect("a load thread")).collect()
        });
        let mut all = (Outcome::new(), ProcessorTime::default());
        for result in results {
            let (outcome, time) = result?;
            all.0.add(&outcome);
            all.1.used_ns += time.used_ns;
            all.1.waited_ns += time.waited_ns;
        }
        Ok(all)
    }
}

fn timed(load: &mut Load<'_>, duration: Duration) -> io::Result<(Outcome, ProcessorTime)> {
    let clock = ProcessorClock::of_this_thread();
    let before = clock.read()?;
    let outcome = load.run(duration)?;
    Ok((outcome, clock.read()?.since(before)))
}

#[cfg(test)]
mod tests {
    use super::super::echo::EchoServer;
    use super::super::requests::Workset;
    use super::*;

    #[test]
    fn threads_share_the_connections_and_their_outcomes_are_one() {
        let requests = Requests::set(Workset::default());
        let cores = Cores::new(false);
        let echo = EchoServer::start(cores).unwrap();
        echo.set_request_bytes(requests.length());
        let start = |connections, threads| {
            LoadThreads::start(echo.address, &requests, connections, 4, threads, cores).unwrap()
        };
        assert_eq!(start(1, 4).loads.len(), 1);
        let mut three = start(5, 3);
        let connections = three.loads.iter().map(Load::connections);
        assert_eq!(connections.sum::<usize>(), 5);
        let (outcome, _) = three.run(Duration::from_millis(20)).unwrap();
        assert!(outcome.operations > 0);
        assert_eq!(outcome.operations, outcome.latency_ns.len());
    }
}
