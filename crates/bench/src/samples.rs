//! What was found of each server in each case, and the tables of it.

use serde::Serialize;

use super::load::Outcome;
use super::processor_time::{Cores, ProcessorTime};
use super::report::{Setting, Spread, Table};
use tidewire::units::latency;

/// A run as it is kept.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) setting: Setting,
    /// Ours first, the floor last.
    pub(crate) servers: Vec<String>,
    /// Their names and versions.
    pub(crate) rivals: Vec<String>,
    pub(crate) cores: Cores,
    /// Unless the case's name tells another number.
    pub(crate) connections: usize,
    pub(crate) load_threads: usize,
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
}

/// One server under one load for one time.
#[derive(Debug, Serialize)]
pub(crate) struct Sample {
    /// Such as `GET P=16` or `GET 10k/s`.
    case: String,
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
    /// Share of the time in which it was ready and something else was on the processor.
    server_waiting: f64,
    /// As `server_busy`: near 1 the load generator is what limits.
    load_busy: f64,
    /// As `server_waiting`.
    load_waiting: f64,
}

impl Sample {
    pub(crate) fn new(
        case: &str,
        round: usize,
        server: &str,
        outcome: &Outcome,
        server_time: ProcessorTime,
        load_time: ProcessorTime,
    ) -> Self {
        let (operations, seconds) = (outcome.operations, outcome.elapsed.as_secs_f64());
        let share = |ns: u64| ns as f64 / 1e9 / seconds;
        let quantile = |quantile| outcome.latency_ns.value_at_quantile(quantile);
        Self {
            case: case.to_owned(),
            round,
            server: server.to_owned(),
            operations,
            seconds,
            operations_a_second: operations as f64 / seconds,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            processor_ns_an_operation: server_time.used_ns as f64 / operations as f64,
            server_busy: share(server_time.used_ns),
            server_waiting: share(server_time.waited_ns),
            load_busy: share(load_time.used_ns),
            load_waiting: share(load_time.waited_ns),
        }
    }
}

impl Run {
    /// A row for each server of each case.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "case",
            "server",
            "k requests/s",
            "p50",
            "p99",
            "p99.9",
            "server CPU µs an operation",
            "above the floor",
            "server busy",
            "load busy",
        ]);
        for case in self.cases() {
            let floor_ns = self.spread(case, FLOOR, |s| s.processor_ns_an_operation);
            for server in &self.servers {
                let spread = |figure| self.spread(case, server, figure);
                let time = |figure| latency(spread(figure).median as u64);
                let share = |figure| format!("{:.0} %", 100.0 * spread(figure).median);
                let cost_us = spread(|s| s.processor_ns_an_operation / 1e3);
                let above_us = cost_us.median - floor_ns.median / 1e3;
                let above = (server != FLOOR).then(|| format!("{above_us:.2}"));
                table.push(vec![
                    case.to_owned(),
                    server.clone(),
                    spread(|s| s.operations_a_second / 1e3).text(0),
                    time(|s| s.p50_ns as f64),
                    time(|s| s.p99_ns as f64),
                    time(|s| s.p999_ns as f64),
                    cost_us.text(2),
                    above.unwrap_or_default(),
                    share(|s| s.server_busy),
                    share(|s| s.load_busy),
                ]);
            }
        }
        table
    }

    /// Ours ÷ each rival, round by round.
    pub(crate) fn ratios(&self) -> Table {
        let mut table = Table::new(&[
            "tidewire ÷",
            "case",
            "requests/s",
            "server CPU an operation",
            "p50",
            "p99",
            "p99.9",
        ]);
        for rival in self.servers.iter().filter(|s| *s != OURS && *s != FLOOR) {
            for case in self.cases() {
                let ratio = |figure| {
                    let ours = self.figures(case, OURS, figure);
                    let theirs = self.figures(case, rival, figure);
                    Spread::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs)).text(2)
                };
                table.push(vec![
                    rival.clone(),
                    case.to_owned(),
                    ratio(|s| s.operations_a_second),
                    ratio(|s| s.processor_ns_an_operation),
                    ratio(|s| s.p50_ns as f64),
                    ratio(|s| s.p99_ns as f64),
                    ratio(|s| s.p999_ns as f64),
                ]);
            }
        }
        table
    }

    /// Requests answered by a server in a case.
    pub(crate) fn operations_a_second(&self, case: &str, server: &str) -> Spread {
        self.spread(case, server, |sample| sample.operations_a_second)
    }

    /// How much others were in the way: shares of the time in which server and load waited.
    pub(crate) fn disturbance(&self) -> String {
        let share =
            |figure: fn(&Sample) -> f64| 100.0 * Spread::of(self.samples.iter().map(figure)).median;
        format!(
            "ready, but waiting for a processor (medians): servers {:.0} %, load {:.0} %",
            share(|s| s.server_waiting),
            share(|s| s.load_waiting)
        )
    }

    /// Each case once, in the order measured.
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.samples.iter().map(|s| s.case.as_str()).collect();
        cases.dedup();
        cases
    }

    /// A figure of each round, in order.
    fn figures<'a>(
        &'a self,
        case: &'a str,
        server: &'a str,
        figure: fn(&Sample) -> f64,
    ) -> impl Iterator<Item = f64> + 'a {
        let samples = self.samples.iter();
        samples
            .filter(move |sample| sample.case == case && sample.server == server)
            .map(figure)
    }

    fn spread(&self, case: &str, server: &str, figure: fn(&Sample) -> f64) -> Spread {
        Spread::of(self.figures(case, server, figure))
    }
}

/// What our server is called.
pub(crate) const OURS: &str = "tidewire";
/// What the echo server is called.
pub(crate) const FLOOR: &str = "echo floor";
