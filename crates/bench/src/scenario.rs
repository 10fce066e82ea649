//! The shape of every subject: samples of each server, round by round, and the raw run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::processor_time::Cores;
use super::report::{RUNS, STANDARD_OUTPUT, Setting, Spread, TABLES, Table, write_json};
use super::servers::Rival;
use crate::options::BenchOptions;
use tidewire::failure::Failure;

/// The measurement of a subject, and the place of its raw run.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a BenchOptions,
    pub(crate) setting: Setting,
    pub(crate) cores: Cores,
    /// The file of the raw run, if it is not the default one.
    pub(crate) json: Option<&'a Path>,
}

impl Bench<'_> {
    /// Returns the duration of one measurement.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds)
    }

    /// Returns the servers to compare with.
    pub(crate) fn rivals(&self) -> Vec<Rival> {
        Rival::chosen(self.options)
    }

    /// Writes a raw run with its setting and tables to the file asked for, or into `bench/runs` if
    /// the command runs in a checkout.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(
        &self,
        kind: &str,
        mut run: Value,
        tables: &[&Table],
    ) -> Result<(), Failure> {
        let (date, machine) = (&self.setting.date[..10], &self.setting.machine);
        let path = match self.json {
            Some(path) => path.to_owned(),
            None if Path::new(RUNS).is_dir() => {
                PathBuf::from(RUNS).join(format!("{date}-{machine}-{kind}.json"))
            }
            None => return Ok(()),
        };
        run["setting"] = json!(self.setting);
        run[TABLES] = tables.iter().map(|table| table.text()).collect();
        write_json(&run, &path)?;
        if path != Path::new(STANDARD_OUTPUT) {
            println!("\nraw run: {}", path.display());
        }
        Ok(())
    }
}

/// What one round of a case found of one server.
#[derive(Debug, Serialize)]
pub(crate) struct Sample<F> {
    /// Such as `GET P=16`; empty if the subject has only one case.
    #[serde(skip_serializing_if = "String::is_empty")]
    case: String,
    round: usize,
    server: String,
    #[serde(flatten)]
    figures: F,
}

/// Samples in the order measured.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Samples<F>(Vec<Sample<F>>);

impl<F> Samples<F> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Measures a case of all servers in each round; each round begins with another server.
    /// `measure` gets the server's place in `servers`, and the round.
    ///
    /// # Errors
    /// The first error of `measure`.
    pub(crate) fn measure(
        &mut self,
        case: &str,
        rounds: usize,
        servers: &[String],
        mut measure: impl FnMut(usize, usize) -> io::Result<F>,
    ) -> io::Result<()> {
        for round in 0..rounds {
            for turn in 0..servers.len() {
                let place = (round + turn) % servers.len();
                self.0.push(Sample {
                    case: case.to_owned(),
                    round,
                    server: servers[place].clone(),
                    figures: measure(place, round)?,
                });
            }
        }
        Ok(())
    }

    /// Iterates over all figures, of any case and server.
    pub(crate) fn all(&self) -> impl Iterator<Item = &F> {
        self.0.iter().map(|sample| &sample.figures)
    }

    /// Returns each case once, in the order measured.
    pub(crate) fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.0.iter().map(|s| s.case.as_str()).collect();
        cases.dedup();
        cases
    }

    /// Returns the figures of all rounds of a server, in order.
    pub(crate) fn of<'a>(&'a self, case: &'a str, server: &'a str) -> impl Iterator<Item = &'a F> {
        let own = move |sample: &&Sample<F>| sample.case == case && sample.server == server;
        self.0.iter().filter(own).map(|sample| &sample.figures)
    }

    /// Returns the spread of one figure over all rounds.
    pub(crate) fn spread(&self, case: &str, server: &str, figure: fn(&F) -> f64) -> Spread {
        Spread::of(self.of(case, server).map(figure))
    }

    /// Ours divided by the rival's, round by round.
    pub(crate) fn ratio(&self, case: &str, rival: &str, figure: fn(&F) -> f64) -> Spread {
        let pairs = self.of(case, OURS).zip(self.of(case, rival));
        Spread::of(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)))
    }
}

/// The name of our server.
pub(crate) const OURS: &str = "tidewire";
/// The name of the server that does as little as possible.
pub(crate) const FLOOR: &str = "echo floor";
