//! Random losses, joins and resets.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_book_is_the_exchange_s_after_each_packet(seed: u64, late_definitions: bool) {
        let mut pair = Pair::new(exchange(seed, 5), true);
        if !late_definitions {
            pair.define();
        }
        for number in 0..400 {
            pair.next(BOTH);
            if number == 150 {
                pair.follow(3);
            }
            if !late_definitions {
                prop_assert_eq!(pair.compare(), 5);
            }
        }
        pair.define();
        if late_definitions {
            // A book of unknown depth needs a snapshot.
            pair.recover(0);
        }
        prop_assert_eq!(pair.compare(), 5);
        let counters = pair.receiver.channel().counters();
        prop_assert_eq!((counters.malformed, counters.unknown, counters.unknown_orders), (0, 0, 0));
        prop_assert_eq!((counters.instrument_gaps, counters.contradictions), (0, 0));
        prop_assert_eq!(counters.old, 0);
        prop_assert!(!pair.values.in_doubt && pair.values.lost == 0);
    }

    #[test]
    fn what_one_line_loses_the_other_brings(
        seed: u64,
        losses in prop::collection::vec(0..4u8, 300),
    ) {
        let mut pair = Pair::new(exchange(seed, 4), true);
        pair.define();
        pair.next(BOTH);
        let mut late: Vec<Vec<u8>> = Vec::new();
        for loss in losses {
            match loss {
                0 => pair.next(&[Side::A]),
                1 => pair.next(&[Side::B]),
                2 => {
                    // Line A loses it, and line B brings it after the next one.
                    pair.next(&[]);
                    late.push(pair.packet.clone());
                    pair.next(&[Side::A]);
                    pair.packet = late.pop().unwrap();
                    pair.send(&[Side::B]);
                }
                _ => pair.next(BOTH),
            }
            if pair.is_caught_up() {
                prop_assert_eq!(pair.compare(), 4);
            }
        }
        prop_assert_eq!(pair.values.lost, 0);
        prop_assert!(pair.receiver.counters().lost == 0 && !pair.values.in_doubt);
    }

    #[test]
    fn after_a_loss_on_both_lines_snapshots_make_every_book_right_again(
        seed: u64,
        steps in prop::collection::vec((0..20u8, 1..5usize), 150),
    ) {
        let mut pair = Pair::new(exchange(seed, 6), true);
        pair.define();
        for (step, count) in steps {
            pair.follow(4);
            match step {
                0 | 1 => (0..count).for_each(|_| pair.next(&[])),
                2 => pair.recover(count + 1),
                3 => pair.recover(0),
                4 => pair.give_up(),
                _ => (0..count).for_each(|_| pair.next(BOTH)),
            }
            if pair.is_caught_up() {
                pair.compare();
            }
            if pair.receiver.next_sequence() > 0 {
                let doubtful = pair.receiver.channel().doubtful_count();
                prop_assert_eq!(pair.values.in_doubt, doubtful > 0);
            }
        }
        // A heartbeat shows what was lost at the end.
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        pair.recover(0);
        prop_assert!(pair.is_caught_up());
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (6, false));
    }

    #[test]
    fn a_late_join_waits_for_snapshots_and_queues_what_comes_meanwhile(
        seed: u64,
        missed in 1..200usize,
    ) {
        let mut pair = Pair::new(exchange(seed, 6), true);
        (0..missed).for_each(|_| pair.next(&[]));
        pair.define();
        // The snapshots are of before the first packet that is received: they are too old, unless
        // nothing came between.
        let old = pair.exchange.clone_snapshots();
        (0..20).for_each(|_| pair.next(&[]));
        (0..30).for_each(|_| pair.next(BOTH));
        for packet in &old {
            pair.receiver.receive_snapshot(packet, &mut pair.values).unwrap();
        }
        pair.compare();
        pair.recover(0);
        (0..30).for_each(|_| pair.next(BOTH));
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (6, false));
        prop_assert_eq!(pair.values.lost, 0, "what was before the join is not lost");
    }

    #[test]
    fn resets_and_new_weeks_begin_with_empty_books(seed: u64, week: bool, first in 0..3usize) {
        let mut pair = Pair::new(exchange(seed, 3), true);
        pair.define();
        (0..100).for_each(|_| pair.next(BOTH));
        match week {
            true => pair.exchange.begin_week(),
            false => {
                pair.exchange.reset(&mut pair.packet);
                pair.send(BOTH);
                prop_assert_eq!(pair.compare(), 3);
            }
        }
        // The first packets of a week may be lost, and snapshots replace them.
        if week {
            (0..first).for_each(|_| pair.next(&[]));
        }
        (0..100).for_each(|_| pair.next(&[Side::B]));
        if week && first > 0 {
            prop_assert!(pair.values.in_doubt || pair.receiver.channel().doubtful_count() == 0);
            pair.recover(0);
        }
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (3, false));
        prop_assert_eq!(pair.receiver.counters().restarts, u64::from(week));
    }

    /// A reset ended the doubt about a trade that was lost before it; and entries that waited when
    /// a reset was lost kept every snapshot of after it away.
    #[test]
    fn a_loss_and_a_reset_leave_the_figures_in_doubt_until_a_snapshot(
        seed: u64,
        (lost, then) in (1..20usize, 0..20usize),
        waits: bool,
        is_reset_lost: bool,
    ) {
        let mut pair = Pair::new(exchange(seed, 4), true);
        pair.define();
        (0..60).for_each(|_| pair.next(BOTH));
        (0..lost).for_each(|_| pair.next(&[]));
        if waits {
            (0..5).for_each(|_| pair.next(BOTH));
            pair.give_up();
        }
        pair.exchange.reset(&mut pair.packet);
        pair.send(if is_reset_lost { &[] } else { BOTH });
        for _ in 0..then {
            pair.next(BOTH);
            if pair.is_caught_up() {
                pair.compare();
            }
        }
        pair.exchange.heartbeat(&mut pair.packet);
        pair.send(BOTH);
        pair.give_up();
        prop_assert!(pair.is_caught_up());
        pair.compare();
        pair.recover(0);
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (4, false));
        (0..20).for_each(|_| pair.next(BOTH));
        prop_assert_eq!((pair.compare(), pair.values.in_doubt), (4, false));
    }

    #[test]
    fn the_same_seed_makes_the_same_packets(seed: u64) {
        let pair = || Pair::new(exchange(seed, 3), false);
        let (mut one, mut other) = (pair(), pair());
        for _ in 0..50 {
            one.next(BOTH);
            other.next(BOTH);
            prop_assert_eq!(&one.packet, &other.packet);
        }
    }
}
