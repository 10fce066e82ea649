//! `tidewire-simulator`: runs seeds until the time is over, or one finds something.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tidewire_simulator::{has_replica, run};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Simulates a whole hub: several lanes, clients of every protocol, a failing disk, kills.
#[derive(Debug, Parser)]
struct Options {
    /// The first seed; the next ones follow it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to go on; 0 for one seed only.
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// How many seeds at least.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Run only the seeds of a master and a replica.
    #[arg(long)]
    pairs: bool,
    /// Show what each seed has done as one number.
    #[arg(long)]
    each: bool,
    /// Run each seed twice, and report one that does not do the same again.
    #[arg(long)]
    twice: bool,
    /// Show the hub's log, and the times of the simulation.
    #[arg(long)]
    log: bool,
}

/// The clock of the simulation, for the log.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now_ns = tidewire_lane::monotonic_ns();
        write!(
            writer,
            "{}.{:09}",
            now_ns / 1_000_000_000,
            now_ns % 1_000_000_000
        )
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.log {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        log.with_timer(SimulatedTime).with_ansi(false).init();
    }
    let (began, end) = (
        Instant::now(),
        Duration::from_secs_f64(options.minutes * 60.0),
    );
    let (mut seed, mut steps, mut lives, mut digest) = (options.seed, 0, 0, 0u64);
    loop {
        if options.pairs && !has_replica(seed) {
            seed += 1;
            continue;
        }
        let report = match run(seed) {
            Ok(report) => report,
            Err(violation) => {
                println!("seed {seed}, step {}: {}", violation.step, violation.text);
                return ExitCode::FAILURE;
            }
        };
        (steps, lives) = (steps + report.steps, lives + report.lives);
        digest ^= report.traffic.rotate_left((seed % 64) as u32);
        if options.twice && !run(seed).is_ok_and(|again| again.traffic == report.traffic) {
            println!("seed {seed} does not do the same again");
            return ExitCode::FAILURE;
        }
        if options.each {
            println!("seed {seed}: {:016x}", report.traffic);
        }
        if began.elapsed() >= end && seed + 1 >= options.seed + options.seeds {
            break;
        }
        seed += 1;
    }
    let seeds = seed - options.seed + 1;
    let first = options.seed;
    println!(
        "{seeds} seeds from {first} on, {lives} lives, {steps} steps: nothing found ({digest:016x})"
    );
    ExitCode::SUCCESS
}
