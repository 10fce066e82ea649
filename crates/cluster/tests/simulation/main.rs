//! Two hubs that may own a source, and three edges, on a NATS server in memory, in virtual time and
//! seeded. Under every fault: no value goes back or counts twice, a hub that is no owner any
//! more falls silent, and in the end each edge has what the source has said.

mod hub;
mod nats;
mod source;
mod viewer;
mod world;

use world::{Faults, World};

/// Runs seeds with one kind of fault, and returns what was seen of it.
fn run(faults: Faults, seeds: std::ops::Range<u64>) -> world::Seen {
    let mut seen = world::Seen::default();
    for seed in seeds {
        let mut world = World::new(seed, faults);
        world.run();
        seen.add(&world);
    }
    println!("{seen:?}");
    seen
}

#[test]
fn without_faults_every_edge_follows_from_one_join() {
    let seen = run(Faults::default(), 0..10);
    assert_eq!((seen.reigns, seen.gaps, seen.joins), (10, 0, 30));
    assert_eq!(seen.client_gaps, 0);
}

#[test]
fn a_lossy_link_is_repaired_from_the_log() {
    let faults = Faults {
        loses: 50,
        duplicates: 30,
        delays: 100,
        corrupts: 10,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.fetches > 500 && seen.corrupt > 50, "{seen:?}");
    assert_eq!((seen.gaps, seen.joins), (0, 75), "the log has everything");
}

#[test]
fn edges_that_are_cut_off_or_slow_catch_up() {
    let faults = Faults {
        cuts_edges: true,
        slows_edges: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.fetches > 50, "{seen:?}");
}

#[test]
fn edges_do_not_wait_for_the_leader_of_the_log() {
    let faults = Faults {
        outages: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.live_frames > 1_000, "{seen:?}");
    assert_eq!((seen.gaps, seen.reigns, seen.joins), (0, 25, 75));
    assert!(seen.late_ns < 100_000_000, "{seen:?}");
}

#[test]
fn answers_that_are_lost_lose_no_frame() {
    let faults = Faults {
        loses_answers: 300,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    // Those of the bucket as well: some owners stop, and others take over.
    assert!(seen.reigns > 25, "{seen:?}");
    assert_eq!(seen.gaps, 0, "{seen:?}");
}

#[test]
fn a_standby_takes_over_from_a_killed_owner() {
    let faults = Faults {
        kills: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.reigns > 40, "{seen:?}");
}

#[test]
fn an_owner_that_was_stopped_changes_nothing_when_it_goes_on() {
    let faults = Faults {
        stops: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.reigns > 40 && seen.deposed_frames > 20, "{seen:?}");
}

#[test]
fn what_journal_and_log_have_lost_is_replaced_by_a_snapshot() {
    let faults = Faults {
        outages: true,
        truncates: true,
        cuts_edges: true,
        cuts_hubs: true,
        small_journal: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.gaps > 20, "{seen:?}");
}

#[test]
fn a_log_that_loses_acknowledged_frames_gets_them_again() {
    let faults = Faults {
        loses: 30,
        forgets: true,
        cuts_edges: true,
        ..Faults::default()
    };
    let seen = run(faults, 0..25);
    assert!(seen.log_losses > 50, "{seen:?}");
    assert_eq!(seen.gaps, 0, "the journal still has them: {seen:?}");
}

#[test]
fn all_faults_together_end_in_the_right_values() {
    let faults = Faults {
        loses: 30,
        duplicates: 20,
        delays: 50,
        corrupts: 10,
        loses_answers: 20,
        outages: true,
        cuts_edges: true,
        slows_edges: true,
        cuts_hubs: true,
        kills: true,
        stops: true,
        truncates: true,
        forgets: true,
        small_journal: true,
    };
    let seen = run(faults, 1_000..1_100);
    assert!(seen.reigns > 200, "{seen:?}");
}

/// TIDEWIRE_CLUSTER_SEEDS has it run as many seeds.
#[test]
fn any_mixture_of_faults_ends_in_the_right_values() {
    let count = std::env::var("TIDEWIRE_CLUSTER_SEEDS").map_or(200, |count| count.parse().unwrap());
    for seed in 100_000..100_000 + count {
        let mut random = source::Random(seed ^ 0x5555);
        let mut is_on = || random.below(2) == 0;
        let faults = Faults {
            loses: 60 * u64::from(is_on()),
            duplicates: 60 * u64::from(is_on()),
            delays: 90 * u64::from(is_on()),
            corrupts: 10 * u64::from(is_on()),
            loses_answers: 80 * u64::from(is_on()),
            outages: is_on(),
            cuts_edges: is_on(),
            slows_edges: is_on(),
            cuts_hubs: is_on(),
            kills: is_on(),
            stops: is_on(),
            truncates: is_on(),
            forgets: is_on(),
            small_journal: is_on(),
        };
        World::new(seed, faults).run();
    }
}
