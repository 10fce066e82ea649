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
