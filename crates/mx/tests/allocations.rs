//! Checks allocations: none for an encode into a caller's buffer or for a decode, at most one for
//! an encode into a new buffer.

use tidewire_memory::counting::{CountingAllocator, allocations_of};
use tidewire_mx::scenarios::{self, ITERATIONS, WARM_UP};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn no_scenario_allocates_more_than_it_may() {
    let mut groups = [0; 3];
    for mut scenario in scenarios::all() {
        scenario.run(WARM_UP);
        let count = allocations_of(|| scenario.run(ITERATIONS));
        let max = scenario.allocations_max * ITERATIONS;
        assert!(
            count <= max,
            "{}: {count} in {ITERATIONS} calls",
            scenario.name
        );
        let words = ["into", "parse", "names"];
        for (group, word) in groups.iter_mut().zip(words) {
            if scenario.name.contains(word) {
                *group += 1;
                assert_eq!(max, 0, "{}", scenario.name);
            }
        }
    }
    assert!(groups.iter().all(|count| *count >= 3), "{groups:?}");
}
