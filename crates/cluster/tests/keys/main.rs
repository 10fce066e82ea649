//! Hubs with keys that survive a machine, against a stream and a lease in memory, with faults from
//! a seed: lost answers, messages that come late and out of order, servers without a leader,
//! processes that stop or end, two hubs that believe to be primary.
//!
//! After each run the stream is read from its beginning. Every write that a client was told of must
//! be in it once, and each answer to a read must have had every write that was acknowledged before
//! the read began.

mod hub;
mod nats;
mod world;

use world::{Faults, World};

#[test]
fn no_acknowledged_write_is_lost_and_no_read_is_old_under_any_fault() {
    for seed in 0..150 {
        let mut world = World::new(seed, Faults::all());
        world.run(60_000);
        world.check();
    }
}

#[test]
fn without_faults_every_write_is_acknowledged_and_one_hub_stays_primary() {
    let mut world = World::new(7, Faults::default());
    world.run(20_000);
    world.check();
    assert_eq!(world.reigns(), 1);
    assert!(world.acknowledged() > 1_000, "{}", world.acknowledged());
    assert_eq!(world.acknowledged(), world.written());
}

#[test]
fn a_primary_that_ends_is_followed_within_four_seconds() {
    let mut world = World::new(3, Faults::default());
    world.run(5_000);
    let before = world.acknowledged();
    world.end_primary();
    world.run(4_500);
    assert!(world.acknowledged() > before, "writes go on");
    assert_eq!(world.reigns(), 2);
    world.check();
}

/// The one that was stopped appends what it had, and reads what it has, when it goes on.
#[test]
fn a_primary_that_was_stopped_acknowledges_nothing_more_and_loads_again() {
    let mut world = World::new(5, Faults::default());
    world.run(5_000);
    world.stop_primary(8_000);
    world.run(30_000);
    world.check();
    assert_eq!((world.reigns(), world.deposed()), (2, 1));
    world.assert_all_equal();
}

/// For six seconds no server leads: longer than the lease.
#[test]
fn writes_go_on_after_the_streams_leader_has_ended() {
    let mut world = World::new(11, Faults::default());
    world.run(5_000);
    let before = world.acknowledged();
    world.lose_leader(6_000);
    world.run(12_000);
    world.check();
    assert!(world.acknowledged() > before + 100, "writes go on");
    world.assert_all_equal();
}

#[test]
fn hubs_that_begin_empty_have_all_keys_again() {
    let mut world = World::new(13, Faults::default());
    world.run(5_000);
    world.end_all();
    world.run(6_000);
    world.check();
    world.assert_all_equal();
}

/// The primary went on acknowledging what only its memory had, and no hub could start any more.
#[test]
fn a_primary_whose_stream_was_purged_stores_a_snapshot_before_it_acknowledges_more() {
    for kept in [0, 3] {
        let mut world = World::new(17, Faults::default());
        world.run(5_000);
        world.purge(kept);
        let before = world.acknowledged();
        world.run(3_000);
        assert!(world.acknowledged() > before + 100, "writes go on");
        world.end_all();
        world.run(6_000);
        world.check();
        world.assert_all_equal();
        assert!(world.acknowledged() > before + 200, "writes go on");
    }
}

/// It removed its keys, although there were no others to load.
#[test]
fn a_standby_that_was_behind_at_a_purge_waits_for_the_snapshot() {
    let mut world = World::new(19, Faults::default());
    world.run(5_000);
    world.stop_standby(4_000);
    world.run(3_000);
    world.purge(0);
    world.run(10_000);
    world.check();
    world.assert_all_equal();
    assert_eq!(world.reigns(), 1);
}

/// It looked for no snapshot, and failed: the stream went on behind the fence of the next primary.
#[test]
fn a_primary_that_was_stopped_while_the_next_one_trimmed_the_stream_loads_the_snapshot() {
    for kept in [0, 3] {
        for stopped_ms in [15_000, 60_000] {
            let mut world = World::new(37, Faults::default());
            world.run(5_000);
            world.stop_primary(stopped_ms);
            world.run(8_000);
            world.purge(kept);
            world.run(stopped_ms);
            let before = world.acknowledged();
            world.run(10_000);
            world.check();
            world.assert_all_equal();
            assert_eq!((world.reigns(), world.deposed()), (2, 1));
            assert!(world.acknowledged() > before + 100, "writes go on");
        }
    }
}

/// It took the message as its own, and what it acknowledged behind it was ignored everywhere else.
#[test]
fn a_message_of_another_program_in_the_reign_deposes_its_primary() {
    for rests in [false, true] {
        let mut world = World::new(23, Faults::default());
        world.run(5_000);
        world.rest(true);
        world.run(200);
        world.forge();
        world.rest(rests);
        world.run(6_000);
        world.rest(false);
        let before = world.acknowledged();
        world.run(6_000);
        world.check();
        world.assert_all_equal();
        assert_eq!(world.deposed(), 1);
        assert!(world.acknowledged() > before + 100, "writes go on");
    }
}

/// One message that no hub could read stopped all hubs of the group, and no hub could start.
#[test]
fn a_message_that_no_hub_can_read_stops_no_hub_while_the_primary_has_all_keys() {
    for kind in 0..5 {
        for rests in [false, true] {
            let mut world = World::new(31, Faults::default());
            world.run(5_000);
            world.rest(rests);
            world.run(200);
            let no_reign = world.message_of_no_reign();
            let mut damaged = no_reign.clone();
            damaged[30] ^= 1;
            match kind {
                0 => world.write_wrong(b"hello", true),
                1 => world.write_wrong(&damaged, false),
                2 => world.write_wrong(&no_reign, true),
                // An epoch that was before.
                3 => world.forge_fence(1),
                _ => (0..5).for_each(|_| world.write_wrong(&damaged, true)),
            }
            world.run(2_500);
            world.rest(false);
            let before = world.acknowledged();
            world.run(3_000);
            world.check();
            assert!(world.acknowledged() > before + 100, "writes go on");
            world.assert_all_equal();
            assert_eq!(world.losses(), 1, "kind {kind}");
            world.end_all();
            world.run(6_000);
            world.check();
            world.assert_all_equal();
            assert_eq!(world.reigns(), 2);
            assert!(world.acknowledged() > before + 200, "writes go on");
        }
    }
}

/// The primary does not read what it has appended, and NATS does not miss what it cannot read. A
/// standby that came to it failed, and so did one that started.
#[test]
fn a_standby_failed_at_a_message_of_the_primary_that_was_damaged_later() {
    for (count, behind) in [(1, 40), (5, 40), (1, 0)] {
        for snapshot_ms in [0, 60_000] {
            let mut world = World::new(53, Faults::default());
            world.run(5_000);
            world.slow_snapshots(snapshot_ms);
            world.stop_standby(2_000);
            world.run(1_000);
            world.rest(true);
            world.run(200);
            world.damage(count, behind);
            world.rest(false);
            world.run(80_000);
            world.check();
            world.assert_all_equal();
            assert_eq!((world.losses(), world.reigns()), (1, 1));
            let before = world.acknowledged();
            world.end_all();
            world.run(6_000);
            world.check();
            world.assert_all_equal();
            assert!(world.acknowledged() > before + 100, "writes go on");
        }
    }
}

/// What no hub has sent has no effect, also where no primary runs.
#[test]
fn a_message_of_another_program_has_no_effect() {
    let mut world = World::new(37, Faults::default());
    world.run(5_000);
    world.write_wrong(b"hello", false);
    world.write_wrong(b"", false);
    let before = world.acknowledged();
    world.run(2_000);
    assert!(world.acknowledged() > before + 100, "writes go on");
    assert_eq!((world.losses(), world.reigns()), (0, 1));
    world.write_wrong(b"hello", false);
    world.end_all();
    world.run(6_000);
    world.check();
    world.assert_all_equal();
    assert_eq!(world.reigns(), 2);
}

/// It may be a write that was acknowledged, so no hub that reads it goes on with less.
#[test]
fn no_hub_takes_over_behind_a_message_that_it_cannot_read() {
    let mut world = World::new(41, Faults::default());
    world.run(5_000);
    world.write_wrong(b"hello", true);
    world.end_all_amid_damage();
    let before = world.acknowledged();
    world.run(60_000);
    world.check();
    assert_eq!(world.acknowledged(), before, "no hub is the primary");
}

/// Hubs that had all keys could only be stopped, and the keys were lost with them.
#[test]
fn a_hub_that_has_failed_begins_again_with_the_keys_of_its_memory() {
    let mut world = World::new(43, Faults::default());
    world.run(5_000);
    world.rest(true);
    world.run(200);
    let hub = world.end_primary_amid_damage();
    world.write_wrong(b"hello", true);
    world.rest(false);
    let before = world.acknowledged();
    world.run(45_000);
    assert_eq!(world.acknowledged(), before, "no hub is the primary");
    assert!(world.rebuild(hub));
    world.end_others(hub);
    world.run(8_000);
    assert!(world.acknowledged() > before + 100, "writes go on");
    world.check();
    world.assert_all_equal();
    world.end_all();
    world.run(8_000);
    world.check();
    world.assert_all_equal();
}

#[test]
fn no_hub_stores_its_keys_again_while_another_one_is_primary() {
    let mut world = World::new(47, Faults::default());
    world.run(5_000);
    let hub = world.a_standby();
    assert!(!world.rebuild(hub));
    let before = world.acknowledged();
    world.run(2_000);
    world.check();
    assert!(world.acknowledged() > before + 100, "writes go on");
    assert_eq!(world.reigns(), 1);
}

/// All hubs took a forged fence of the highest epoch. No reign could follow it, and the fault named
/// a message that was not there.
#[test]
fn a_fence_of_an_absurd_epoch_ends_no_reign() {
    let mut world = World::new(31, Faults::default());
    world.run(5_000);
    world.rest(true);
    world.run(200);
    world.forge_fence(u64::MAX);
    world.rest(false);
    let before = world.acknowledged();
    world.run(10_000);
    world.check();
    assert!(world.acknowledged() > before + 100, "writes go on");
    world.assert_all_equal();
}

/// The next fence had a lower epoch: its reign acknowledged what no other hub could read.
#[test]
fn no_reign_begins_behind_the_highest_epoch() {
    let mut world = World::new(29, Faults::default());
    world.run(5_000);
    world.rest(true);
    world.run(200);
    world.forge_fence(u64::MAX);
    world.end_all_amid_damage();
    let before = world.acknowledged();
    world.rest(false);
    world.run(10_000);
    world.check();
    assert_eq!(world.acknowledged(), before, "no hub is the primary");
}
