//! `zmq-bench OURS RIVAL [SUBJECT,…] [TRANSPORT,…] [BYTES,…] [PAIRS]`: the short form of
//! `tidewire-bench zmq`. `zmq-bench copies [BYTES,…]` measures the copies that any library must
//! make.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use tidewire_zmq_bench::{Contest, Subject, child, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("child") => child(&arguments[1..]),
        Some("copies") => copies(arguments.get(1).map_or("64,65536", String::as_str)),
        _ => contest(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn contest(arguments: &[String]) -> Result<(), String> {
    let list = |index: usize, default: &str| -> Vec<String> {
        let given = arguments.get(index).map_or(default, String::as_str);
        given.split(',').map(str::to_owned).collect()
    };
    let (Some(ours), Some(rival)) = (arguments.first(), arguments.get(1)) else {
        return Err("OURS RIVAL [SUBJECT,…] [TRANSPORT,…] [BYTES,…] [PAIRS]".to_owned());
    };
    let subjects = list(2, "latency,push-pull")
        .iter()
        .map(|name| Subject::named(name).ok_or_else(|| format!("no subject {name}")))
        .collect::<Result<_, _>>()?;
    let sizes = list(4, "64,65536")
        .iter()
        .map(|text| text.parse().map_err(|_| format!("{text} is no size")))
        .collect::<Result<_, _>>()?;
    let contest = Contest {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        prefix: vec!["child".to_owned()],
        ours: ours.clone(),
        rival: rival.clone(),
        subjects,
        transports: list(3, "tcp"),
        sizes,
        pairs: arguments
            .get(5)
            .and_then(|text| text.parse().ok())
            .unwrap_or(5),
        pinned_to: Some(1),
    };
    run(&contest, |row| {
        println!(
            "{:14} {:6} {:7} B  ours {:12.2}  rival {:12.2}  ratio {:.2} ({:.2}..{:.2})  cpu {:.2}",
            row.subject.name(),
            row.transport,
            row.bytes,
            row.ours,
            row.rival,
            row.ratio,
            row.ratio_spread[0],
            row.ratio_spread[1],
            row.processor_ratio,
        );
    })?;
    Ok(())
}

/// Measures the copies that no library can avoid if it takes a program's bytes and later writes
/// them to a program's buffer: one into its own memory, and one out of it. Takes the best of many
/// rounds, to exclude other work of the machine.
fn copies(sizes: &str) -> Result<(), String> {
    const ROUNDS: usize = 2_000;
    const COPIES: usize = 50;
    for text in sizes.split(',') {
        let bytes: usize = text.parse().map_err(|_| format!("{text} is no size"))?;
        let (source, mut target) = (vec![b'x'; bytes], vec![0; bytes]);
        let mut best_us = f64::INFINITY;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            for _ in 0..COPIES {
                let kept = black_box(source.as_slice()).to_vec();
                target.copy_from_slice(&black_box(kept));
                black_box(&mut target);
            }
            best_us = best_us.min(begin.elapsed().as_secs_f64() * 1e6 / COPIES as f64);
        }
        println!("two copies of {bytes} B: {best_us:.2} µs");
    }
    Ok(())
}
