//! Seeds that have found something.

use tidewire_simulator::run;

/// The clocks are the process's: everything is one test.
#[test]
fn seeds_that_have_found_something_find_nothing_any_more_and_repeat_themselves() {
    let lines = include_str!("../seeds.txt").lines();
    let seeds = lines.filter(|line| !line.starts_with('#'));
    for line in seeds {
        let number = line.split_whitespace().next().unwrap();
        let seed = number.parse().unwrap();
        let first = run(seed).unwrap_or_else(|violation| panic!("{violation:?}"));
        let second = run(seed).unwrap_or_else(|violation| panic!("{violation:?}"));
        assert_eq!(first.traffic, second.traffic, "seed {seed}");
    }
}

/// In a process of its own, where nothing was before it, a seed does what it does behind others.
#[test]
fn a_seed_alone_does_what_it_does_behind_others() {
    let seeds = SEEDS.to_string();
    let behind = digests(&["--seed", "1", "--minutes", "0", "--seeds", &seeds, "--each"]);
    assert_eq!(behind.len(), SEEDS);
    for (seed, digest) in (1..).zip(behind) {
        let alone = digests(&["--seed", &format!("{seed}"), "--each"]);
        assert_eq!(alone, [digest], "seed {seed}");
    }
}

/// Runs the program; a line for each seed.
fn digests(arguments: &[&str]) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_tidewire-simulator");
    let output = std::process::Command::new(program).args(arguments).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("seed "));
    lines.map(str::to_owned).collect()
}

const SEEDS: usize = 16;
