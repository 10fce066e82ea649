//! Rounds of child processes, in turn, and their results.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Subject;
use crate::workload::Found;

/// The contest to run.
#[derive(Debug, Clone)]
pub struct Contest {
    /// The program that runs [`child`](crate::child) when its first arguments are these.
    pub program: PathBuf,
    /// Arguments before those of the child.
    pub prefix: Vec<String>,
    /// Ours: `rust` or a shared object.
    pub ours: String,
    /// The other one: a shared object too, or a program that measures itself.
    pub rival: String,
    /// What is measured.
    pub subjects: Vec<Subject>,
    /// `tcp`, `ipc`, `inproc`.
    pub transports: Vec<String>,
    /// Message sizes in bytes.
    pub sizes: Vec<usize>,
    /// Rounds of each.
    pub pairs: usize,
    /// The processor that a round is pinned to; `None`: free.
    pub pinned_to: Option<usize>,
}

/// Every row of a run.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    /// Ours.
    pub ours: String,
    /// The other one.
    pub rival: String,
    /// The processor that everything was pinned to.
    pub pinned_to: Option<usize>,
    /// One for each subject, transport and size.
    pub rows: Vec<Row>,
}

/// One comparison.
#[derive(Debug, serde::Serialize)]
pub struct Row {
    /// What was measured.
    pub subject: Subject,
    /// The transport.
    pub transport: String,
    /// Bytes a message.
    pub bytes: usize,
    /// Microseconds one way or messages per second, the median of the rounds.
    pub ours: f64,
    /// The same of the rival.
    pub rival: f64,
    /// The median of ours ÷ rival of each pair of rounds.
    pub ratio: f64,
    /// The least and the largest of them.
    pub ratio_spread: [f64; 2],
    /// Ours ÷ rival, of processor time a message.
    pub processor_ratio: f64,
    /// Microseconds of processor time a message, ours.
    pub processor_us: f64,
    /// Each round: ours, then the rival's.
    pub rounds: Vec<[f64; 2]>,
}

/// Runs a contest row by row; passes each row to `each` as soon as it is known.
///
/// # Errors
/// A child failed; the text says how.
pub fn run(contest: &Contest, mut each: impl FnMut(&Row)) -> Result<Report, String> {
    let mut rows = Vec::new();
    for &subject in &contest.subjects {
        for transport in &contest.transports {
            for &bytes in &contest.sizes {
                if subject == Subject::FanOut && bytes > FAN_OUT_BYTES_MAX {
                    continue;
                }
                let row = contest.row(subject, transport, bytes)?;
                each(&row);
                rows.push(row);
            }
        }
    }
    Ok(Report {
        ours: contest.ours.clone(),
        rival: contest.rival.clone(),
        pinned_to: contest.pinned_to,
        rows,
    })
}

impl Contest {
    fn row(&self, subject: Subject, transport: &str, bytes: usize) -> Result<Row, String> {
        let mut ours = Vec::new();
        let mut rival = Vec::new();
        for _ in 0..self.pairs {
            ours.push(self.round(&self.ours, subject, transport, bytes)?);
            rival.push(self.round(&self.rival, subject, transport, bytes)?);
        }
        let pairs = || ours.iter().zip(&rival);
        let ratios: Vec<f64> = pairs()
            .map(|(own, other)| own.value / other.value)
            .collect();
        let processor: Vec<f64> = pairs()
            .map(|(own, other)| own.processor_us / other.processor_us)
            .collect();
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        Ok(Row {
            subject,
            transport: transport.to_owned(),
            bytes,
            ours: median(ours.iter().map(|found| found.value).collect()),
            rival: median(rival.iter().map(|found| found.value).collect()),
            ratio: median(ratios),
            ratio_spread: [low, high],
            processor_ratio: median(processor),
            processor_us: median(ours.iter().map(|found| found.processor_us).collect()),
            rounds: pairs()
                .map(|(own, other)| [own.value, other.value])
                .collect(),
        })
    }

    fn round(
        &self,
        library: &str,
        subject: Subject,
        transport: &str,
        bytes: usize,
    ) -> Result<Found, String> {
        let is_program = is_program(library);
        let program = match is_program {
            true => Path::new(library),
            false => self.program.as_path(),
        };
        let mut command = match self.pinned_to {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.arg("-c").arg(core.to_string()).arg(program);
                command
            }
            None => Command::new(program),
        };
        if !is_program {
            command.args(&self.prefix).arg(library);
        }
        command
            .args([subject.name(), transport])
            .arg(bytes.to_string())
            .arg(count(subject, bytes).to_string());
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{library} {} {transport} {bytes}: {said}",
                subject.name()
            ));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }
}

/// Whether this is neither our Rust library nor a shared object with libzmq's interface: then it
/// measures itself, run as `PROGRAM SUBJECT TRANSPORT BYTES COUNT`, and prints what a child does.
fn is_program(library: &str) -> bool {
    let name = Path::new(library).file_name().unwrap_or_default();
    library != "rust" && !name.to_string_lossy().contains(".so")
}

/// Returns a number of messages that takes a fraction of a second.
fn count(subject: Subject, bytes: usize) -> u64 {
    match (subject, bytes) {
        (Subject::Latency | Subject::RequestReply, 0..=4096) => 10_000,
        (Subject::Latency | Subject::RequestReply, _) => 3_000,
        (Subject::FanOut, _) => 5_000,
        (_, 0..=256) => 1_000_000,
        (_, 257..=4096) => 300_000,
        (_, 4097..=100_000) => 20_000,
        _ => 6_000,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A hundred copies of larger ones fill the machine's memory rather than measure anything.
const FAN_OUT_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::is_program;

    #[test]
    fn a_rival_is_known_by_its_name() {
        for library in ["rust", "libzmq.so.5", "/opt/lib/libomq_zmq.so"] {
            assert!(!is_program(library), "{library}");
        }
        assert!(is_program("/opt/bin/rival-zeromq"));
    }
}
