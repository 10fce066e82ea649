//! Histories in which a bar was wrong and did not say so.

use super::*;

const XA: usize = 0;
const XB: usize = 1;
const XC: usize = 2;
const XD: usize = 3;
const XE: usize = 4;

/// Returns the publishers of venues XA, XB and so on, one for each, at these hubs.
fn setting(followers: usize, at: &[usize]) -> Setting {
    let names = ["XA", "XB", "XC", "XD", "XE"];
    let sender = |(place, head): (usize, &usize)| {
        let number = place as u16 + 1;
        (*head, vec![(number, Some(names[place]))])
    };
    Setting {
        heads: 1 + at.iter().max().copied().unwrap_or(0),
        followers,
        is_tree: false,
        senders: at.iter().enumerate().map(sender).collect(),
        is_asked: true,
        named_like_sum: None,
        is_player: false,
    }
}

fn trade(sender: usize) -> Step {
    Step::Trade(sender, 0)
}

fn quote(sender: usize) -> Step {
    Step::Quote(sender, 0)
}

/// Plays a history in which no bar is wrong.
fn played(setting: &Setting, steps: &[Step]) -> World {
    let mut world = World::new(setting);
    for step in steps {
        world.step(*step);
        let wrong = match step {
            Step::Settle => world.check_all(),
            _ => world.check_bars(),
        };
        assert!(wrong.is_empty(), "{step:?}: {}", wrong.join("\n"));
    }
    world
}

/// Returns the trades of a bar at each follower, and whether it is partial.
fn bars(world: &World, name: &str) -> Vec<Option<(u64, bool)>> {
    let followers = world.hubs[world.setting.heads..].iter();
    let bars = followers.map(|hub| hub.bar(name));
    bars.map(|bar| bar.map(|bar| (bar.trades, bar.is_partial)))
        .collect()
}

/// The bar of XA had the trade of XB, which traded before the restart.
#[test]
fn a_venue_that_comes_after_a_restart_has_no_trades_of_the_one_before() {
    use Step::*;
    let steps = [
        Deliver,
        trade(XB),
        Deliver,
        Kill(0),
        Deliver,
        quote(XA),
        Deliver,
        trade(XA),
    ];
    let mut world = played(&setting(3, &[0, 0]), &[&steps[..], &[Settle]].concat());
    assert_eq!(bars(&world, "S@XA"), [Some((1, false)); 3]);
    assert_eq!(bars(&world, "S"), [Some((2, false)); 3]);
    // It goes on when both venues are there.
    world.step(trade(XB));
    world.step(trade(XA));
    world.step(Settle);
    assert!(world.check_all().is_empty());
    assert_eq!(bars(&world, "S@XA"), [Some((2, false)); 3]);
    assert_eq!(bars(&world, "S@XB"), [Some((1, true)); 3]);
}

/// The same where the publisher's number has another name in the new run of the hub.
#[test]
fn a_number_with_another_name_after_a_restart_has_no_trades_of_the_one_before() {
    use Step::*;
    let name = Rename(XA, 0, "XC");
    let steps = [
        Deliver,
        trade(XA),
        Deliver,
        Kill(0),
        name,
        Deliver,
        quote(XA),
        Deliver,
        trade(XA),
    ];
    let world = played(&setting(3, &[0]), &[&steps[..], &[Settle]].concat());
    assert_eq!(bars(&world, "S@XC"), [Some((1, false)); 3]);
    assert_eq!(bars(&world, "S@XA"), [None; 3]);
}

/// A replay did not know that the stream is that of a hub, and took the missed trades for those of
/// another venue.
#[test]
fn a_replay_knows_of_the_trades_that_the_hub_has_missed() {
    use Step::*;
    let missed = [
        Stop(1),
        Kill(0),
        trade(XA),
        trade(XA),
        Continue(1),
        Settle,
        trade(XA),
    ];
    for before in [quote(XB), trade(XB)] {
        let steps = [&[Deliver, before, Deliver], &missed[..], &[Settle]].concat();
        let world = played(&setting(3, &[0, 0]), &steps);
        assert_eq!(bars(&world, "S@XA"), [Some((1, true)); 3]);
    }
    let steps = [
        Deliver,
        Stop(1),
        trade(XB),
        Kill(0),
        trade(XA),
        Continue(1),
        Settle,
    ];
    let after = [trade(XB), trade(XA), Settle];
    played(&setting(3, &[0, 0]), &[&steps[..], &after].concat());
}

/// Two hubs with two venues each: the bar of the second one's value lacked the trade that made it.
#[test]
fn the_value_of_a_second_hub_with_two_venues_does_not_lack_its_first_trade_without_a_word() {
    use Step::*;
    for order in [[XA, XB, XC, XD], [XC, XD, XA, XB], [XC, XA, XB, XD]] {
        let mut steps = vec![Deliver];
        for sender in order {
            steps.extend([trade(sender), Deliver]);
        }
        played(
            &setting(3, &[0, 0, 1, 1]),
            &[&steps[..], &[Settle]].concat(),
        );
    }
}

/// One hub further on, the bar of the first hub's value had a trade of the second hub.
#[test]
fn the_value_of_a_hub_has_no_trades_of_another_one() {
    use Step::*;
    let steps = [
        Deliver,
        trade(XC),
        Deliver,
        trade(XA),
        Deliver,
        trade(XB),
        Settle,
    ];
    let world = played(&setting(3, &[0, 0, 1]), &steps);
    let bar = world.hubs[2].bar("S@consolidated").unwrap();
    assert_eq!((bar.volume, bar.is_partial), (0b100, true));
    let sum = bars(&world, "S");
    assert!(sum.iter().all(|bar| bar.is_some_and(|bar| bar.0 == 3)));
}

/// The hubs behind the one that had lost its hub closed their bars as whole.
#[test]
fn bars_that_close_while_a_hub_further_before_is_away_are_partial_at_each_hub() {
    use Step::*;
    let steps = [Deliver, trade(XA), Deliver, Kill(0), trade(XA), Minute];
    let world = played(&setting(3, &[0]), &steps);
    assert_eq!(bars(&world, "S@XA"), [Some((1, true)); 3]);
}

/// Nothing said of a closed bar that trades of it came in a whole value only.
#[test]
fn trades_of_a_whole_value_are_late_where_the_bar_is_closed() {
    use Step::*;
    let steps = [
        Deliver,
        trade(XA),
        Deliver,
        Stop(1),
        Kill(0),
        trade(XA),
        Minute,
        Settle,
    ];
    let world = played(&setting(3, &[0]), &steps);
    for place in [2, 3] {
        let bar = world.hubs[place].bar("S").unwrap();
        assert_eq!(
            (bar.trades, bar.is_final, bar.late),
            (1, true, 1),
            "{place}"
        );
    }
}

/// A whole value that was repeated in the stream closed the bars of venues whose own, with trades
/// of them, followed.
#[test]
fn a_whole_value_of_a_later_time_closes_no_bar() {
    use Step::*;
    let steps = [
        trade(XA),
        Deliver,
        trade(XB),
        Kill(0),
        trade(XB),
        Minute,
        quote(XC),
        Settle,
    ];
    played(&setting(3, &[0, 0, 0]), &steps);
}

/// The sum of two hubs told its last trade as one that comes again, and no hub behind noticed the
/// others.
#[test]
fn a_sum_lacks_the_trades_that_one_of_its_hubs_has_missed_at_each_hub() {
    use Step::*;
    let steps = [Deliver, trade(XB), Kill(1), trade(XB), trade(XA), Settle];
    let world = played(&setting(2, &[0, 1]), &steps);
    assert!(
        bars(&world, "S")
            .iter()
            .all(|bar| bar.is_some_and(|bar| bar.1))
    );
}

/// The wall clock came before the end of a connection that had arrived while the hub was stopped.
#[test]
fn a_hub_that_was_stopped_reads_what_has_arrived_before_its_clock_closes_bars() {
    let market = hubs::market(true);
    let mut publisher = source(&market, "p", 0, SYMBOL);
    let mut batch = publisher.begin(START);
    batch.message(
        1,
        &Message::Trade(TradeMessage {
            source_time_ns: START,
            price: 1_000_000_000,
            size: 1,
            ..TradeMessage::default()
        }),
    );
    batch.finish();
    let mut clock = crate::bars::BarClock::default();
    let mut is_closed = |after_ns: u64| {
        let now_ns = START + after_ns;
        clock.turn(&market.bars, now_ns, now_ns);
        bar_of(&market, SYMBOL).is_some_and(|bar| bar.is_final)
    };
    assert!(!is_closed(SECOND));
    assert!(!is_closed(MINUTE + SECOND), "the first turn after a minute");
    assert!(!is_closed(MINUTE + SECOND + SECOND / 5));
    assert!(is_closed(MINUTE + SECOND + SECOND / 3));
}

/// The trade that came for XE's closed bar was not among the late ones any more when XD traded.
#[test]
fn late_trades_stay_counted_when_the_second_venue_comes_after_a_restart() {
    use Step::*;
    let setting = Setting {
        heads: 1,
        followers: 2,
        is_tree: false,
        senders: vec![
            (0, vec![(3, Some("XC"))]),
            (0, vec![(4, Some("XD")), (5, Some("XE"))]),
        ],
        is_asked: true,
        named_like_sum: None,
        is_player: false,
    };
    let steps = [
        Deliver,
        Trade(0, 0),
        Kill(0),
        Deliver,
        Trade(1, 1),
        Deliver,
        Stop(1),
        Trade(1, 1),
        Minute,
        Trade(1, 0),
        Settle,
    ];
    let world = played(&setting, &steps);
    let late = |hub: &Hub| hub.bar("S@XE").map(|bar| (bar.trades, bar.late));
    let late: Vec<_> = world.hubs[1..].iter().map(late).collect();
    assert_eq!(late, [Some((2, 0)), Some((1, 1))]);
}

/// The sum of the first followed hub and its symbol `S@consolidated` had one topic: each of its
/// trades counted twice.
#[test]
fn the_sum_of_a_hub_in_a_tree_has_no_topic_of_a_part_of_it() {
    use Step::*;
    let sender = |head, venues: &[(u16, &'static str)]| {
        let venues = venues.iter().map(|&(number, name)| (number, Some(name)));
        (head, venues.collect::<Vec<_>>())
    };
    let setting = Setting {
        heads: 3,
        followers: 3,
        is_tree: true,
        senders: vec![
            sender(0, &[(1, "XA"), (2, "XB")]),
            sender(1, &[(3, "XC")]),
            sender(2, &[(5, "XE")]),
        ],
        is_asked: true,
        named_like_sum: None,
        is_player: false,
    };
    let [a, b, c, e] = [Trade(0, 0), Trade(0, 1), Trade(1, 0), Trade(2, 0)];
    for order in [
        [e, c, a, b, a],
        [c, a, b, e, a],
        [a, b, c, e, a],
        [e, a, c, b, a],
    ] {
        let mut steps = vec![Deliver, Deliver];
        order.iter().for_each(|step| steps.extend([*step, Deliver]));
        steps.push(Settle);
        let mut world = played(&setting, &steps);
        // They may be partial without need: sums of hubs beside other venues are new to them.
        for hub in &world.hubs[4..] {
            let bar = hub.bar("S").expect("a bar");
            assert_eq!((bar.trades, bar.volume), (5, 0b11111), "{order:?}");
        }
        // It comes back with other numbers for the same names.
        for step in [Kill(3), Deliver, Deliver, a, Deliver, b, Settle] {
            world.step(step);
        }
        let wrong = world.check_all();
        assert!(wrong.is_empty(), "{order:?}: {}", wrong.join("\n"));
    }
}

/// The sum went back to the day of XB and forward again: behind the first hub all trades of XA
/// counted as late, and the bar as one that lacks them.
#[test]
fn trades_of_a_venue_that_leaves_and_returns_are_not_late_where_days_differ() {
    use Step::*;
    let steps = [
        Deliver,
        Deliver,
        Day(XB, 0),
        Day(XA, 0),
        Day(XA, 0),
        trade(XA),
        trade(XB),
        Deliver,
        Minute,
        trade(XB),
        Deliver,
        Leave(XA),
        Deliver,
        Again(XA),
        quote(XA),
        Deliver,
        Settle,
    ];
    let world = played(&setting(2, &[0, 0]), &steps);
    let late = world.hubs[1..].iter().map(|hub| hub.bar("S"));
    let late: Vec<_> = late
        .map(|bar| bar.map(|bar| (bar.is_partial, bar.late)))
        .collect();
    assert_eq!(late, [Some((false, 0)); 2]);
}

/// The first hub's value was named `consolidated` then, and counted as the venue that came last.
#[test]
fn the_open_stays_when_the_first_hub_finds_a_second_venue() {
    use Step::*;
    let steps = [
        Deliver,
        Deliver,
        trade(XA),
        Deliver,
        trade(XC),
        Deliver,
        trade(XB),
        Settle,
    ];
    // XC is at another hub that is followed, or at the follower itself.
    for is_own in [false, true] {
        let mut setting = setting(2, &[0, 0, 1]);
        setting.heads -= usize::from(is_own);
        let mut world = World::new(&setting);
        steps.into_iter().for_each(|step| world.step(step));
        for (place, hub) in world.hubs.iter().enumerate().skip(setting.heads) {
            let board = &hub.market.board;
            let topic = board.named("S").expect("a topic");
            let value = board.value(topic.number).expect("a value");
            assert_eq!(value.session_open, world.sent[0].price, "{place} {is_own}");
        }
    }
}

/// At the third follower, which has sources of its own like the two before it, the symbols
/// `S@consolidated` and `S@consolidated#2` of the hub before it had one topic.
#[test]
fn the_sums_of_three_hubs_in_a_row_have_a_topic_each() {
    use Step::*;
    let mut setting = setting(3, &[0, 0, 1, 2, 3]);
    setting.heads = 1;
    for order in [
        [
            quote(XC),
            quote(XE),
            trade(XD),
            trade(XA),
            trade(XB),
            trade(XA),
        ],
        [
            trade(XC),
            trade(XE),
            trade(XD),
            trade(XA),
            trade(XB),
            trade(XA),
        ],
        [
            trade(XA),
            trade(XB),
            trade(XC),
            trade(XD),
            trade(XE),
            trade(XA),
        ],
        [
            trade(XE),
            trade(XD),
            trade(XC),
            trade(XB),
            trade(XA),
            trade(XB),
        ],
    ] {
        let mut world = World::new(&setting);
        (0..4).for_each(|_| world.step(Deliver));
        for step in order {
            world.step(step);
            world.step(Deliver);
        }
        world.step(Settle);
        for (place, hub) in world.hubs.iter().enumerate() {
            let wrong = world.check_sums(place);
            assert!(wrong.is_empty(), "{order:?}: {}", wrong.join("\n"));
            let journal = hub.market.journal.lock();
            let mut trades = Vec::new();
            for sequence in 1..journal.next_sequence() {
                if let Some(Message::Trade(trade)) = journal.message(sequence) {
                    trades.push((trade.symbol, trade.size));
                }
            }
            let all = trades.len();
            trades.sort_unstable();
            trades.dedup();
            assert_eq!(
                trades.len(),
                all,
                "{order:?}: hub {place} told a trade twice"
            );
        }
    }
}

/// The trade of the first publisher was in the bar twice behind the hub, where its session came
/// again after a trade of the second one in the hub's new run.
#[test]
fn trades_of_a_session_that_comes_again_behind_another_publishers_count_once() {
    use Step::*;
    // The publishers may have a number each, or the same one.
    for (number, name) in [(2, None), (1, None), (1, Some("XA"))] {
        let mut setting = setting(3, &[0, 0]);
        setting.senders[0].1 = vec![(1, name)];
        setting.senders[1].1 = vec![(number, name)];
        let steps = [
            Deliver,
            trade(0),
            Deliver,
            Kill(0),
            Deliver,
            trade(1),
            Deliver,
            Leave(1),
            Again(0),
            trade(0),
            Settle,
        ];
        let world = played(&setting, &steps);
        let trades: Vec<_> = bars(&world, "S")
            .into_iter()
            .map(|bar| bar.map(|(trades, _)| trades))
            .collect();
        assert_eq!(trades, [Some(3); 3], "{number} {name:?}");
    }
}

/// A replay closed the bar of a hub's sum as whole while the hub was away, whose later trades were
/// those of a single venue.
#[test]
fn a_replay_closes_no_bar_of_a_hubs_sum_as_whole_while_the_hub_is_away() {
    use Step::*;
    let steps = [
        trade(XA),
        Deliver,
        trade(XC),
        Minute,
        trade(XB),
        Kill(1),
        trade(XB),
        Minute,
        trade(XA),
        Settle,
    ];
    let world = played(&setting(1, &[0, 1, 1]), &steps);
    let again = replayed(&world.hubs[2], true);
    let bar = bar_of(&again, "S@consolidated").expect("a bar");
    assert!(bar.is_final && bar.is_partial, "{bar:?}");
    let steps = [
        trade(XC),
        trade(XA),
        Minute,
        Deliver,
        trade(XB),
        Kill(1),
        Deliver,
        trade(XC),
        Stop(2),
        Minute,
        trade(XA),
        Settle,
    ];
    played(&setting(1, &[0, 1, 1]), &steps);
}

/// The bar of the hub's value had the trade of a symbol that was called so in the hub's last run.
#[test]
fn the_bar_of_a_hubs_value_has_no_trade_of_a_symbol_with_its_name() {
    use Step::*;
    const LIKE: usize = 2;
    let orders = [
        [trade(LIKE), Kill(0), trade(XA), trade(XB)],
        [trade(LIKE), Kill(0), trade(XB), quote(XA)],
        [trade(XA), trade(LIKE), trade(XB), Kill(0)],
        [quote(LIKE), Kill(0), trade(XA), trade(XB)],
    ];
    for (is_player, order) in [false, true]
        .into_iter()
        .flat_map(|is| orders.map(|own| (is, own)))
    {
        let mut setting = setting(3, &[0, 0, 0]);
        setting.senders[LIKE].1 = vec![(9, Some("XZ"))];
        (setting.named_like_sum, setting.is_player) = (Some(LIKE), is_player);
        let mut steps = vec![Deliver];
        order.iter().for_each(|step| steps.extend([*step, Deliver]));
        steps.extend([
            trade(LIKE),
            Deliver,
            trade(XA),
            Settle,
            DeliverTo(1),
            Kill(1),
            Settle,
        ]);
        steps.extend([trade(LIKE), trade(XB), Settle]);
        played(&setting, &steps);
    }
}

/// A replay, and the hub behind, took the trade of another hub's whole value for one that they had
/// had: the sum had no last trade, and the time of its newest one was that of another run.
#[test]
fn trades_of_a_whole_value_are_late_behind_a_hub_whose_sum_has_no_last_trade() {
    use Step::*;
    let steps = [
        Deliver,
        Kill(1),
        trade(XC),
        trade(XB),
        Kill(0),
        Minute,
        quote(XC),
        quote(XA),
        Settle,
    ];
    let world = played(&setting(2, &[0, 0, 1]), &steps);
    let late = world.hubs[2..].iter().map(|hub| hub.bar("S"));
    let late: Vec<_> = late.map(|bar| bar.map(|bar| bar.late)).collect();
    assert_eq!(late, [Some(1); 2]);
}

/// The figures of the whole value had no trades, because a trading day had begun: the closed bar
/// had no late ones.
#[test]
fn trades_of_before_a_trading_day_are_late_where_they_came_in_a_whole_value() {
    use Step::*;
    // The day of the venue that traded begins, or that of another one.
    let own = [trade(XA), Minute, Day(XA, 0)];
    let others = [Day(XA, 0), trade(XB), Minute];
    for order in [own, others] {
        let before = [Deliver, trade(XA), Deliver, Stop(1), Kill(0)];
        let steps = [&before[..], &order[..], &[Settle]].concat();
        let world = played(&setting(2, &[0, 0]), &steps);
        let bar = world.hubs[2].bar("S").expect("a bar");
        let seen = (bar.trades, bar.is_final, bar.is_partial, bar.late);
        assert_eq!(seen, (1, true, false, 1), "{order:?}");
    }
}

/// The second publisher of a venue had the venue's name in the hub's next run. Its trade was behind
/// the newest one of the publisher that had that name before, and counted twice.
#[test]
fn trades_of_a_venues_publisher_with_another_number_after_a_restart_count_once() {
    use Step::*;
    for again in [
        [Again(1), Again(2), Again(0)],
        [Again(2), Again(0), Again(1)],
    ] {
        let mut setting = setting(2, &[0, 0, 0, 1]);
        let (_, venues) = setting.senders[0].clone();
        setting.senders[1].1 = venues.clone();
        setting.senders[2].1 = venues;
        let mut steps = vec![Deliver, trade(0), trade(1), trade(2), trade(3), Kill(0)];
        steps.push(Deliver);
        again.iter().for_each(|step| steps.extend([*step, Deliver]));
        steps.extend([trade(0), trade(3), Settle]);
        let world = played(&setting, &steps);
        for hub in &world.hubs[2..] {
            let bar = hub.bar("S").expect("a bar");
            assert_eq!((bar.trades, bar.volume), (6, 0b11_1111), "{again:?}");
        }
    }
}

/// The topic `S@consolidated` was left as the second name of a hub's value when the symbol of that
/// name had gone, and its bar was that of one venue of two.
#[test]
fn the_bar_of_a_value_has_all_trades_where_a_symbol_with_its_name_has_gone() {
    use Step::*;
    let mut setting = setting(1, &[0, 0, 0]);
    setting.senders[1].1 = vec![(2, Some("XB")), (3, Some("XC"))];
    setting.senders[2].1 = vec![(99, Some("XZ"))];
    (setting.named_like_sum, setting.is_player) = (Some(2), true);
    let steps = [
        Trade(2, 0),
        Deliver,
        Kill(0),
        Quote(1, 1),
        Minute,
        Deliver,
        Trade(1, 0),
        Kill(0),
        Trade(1, 1),
        Deliver,
        Settle,
    ];
    played(&setting, &steps);
}

/// The quote that came again left the sum at an earlier time than the hub's whole value, whose last
/// trade was taken for a new one.
#[test]
fn a_trade_is_told_once_where_a_quote_came_again_before_the_second_venue() {
    use Step::*;
    for steps in [
        [trade(XC), trade(XA), quote(XA), quote(XA), trade(XB)],
        [trade(XC), trade(XA), trade(XC), quote(XA), trade(XB)],
        [trade(XA), trade(XC), quote(XA), quote(XA), quote(XB)],
    ] {
        let mut all = vec![Deliver, Deliver];
        steps.iter().for_each(|step| all.extend([*step, Deliver]));
        all.push(Settle);
        played(&setting(2, &[0, 0, 1]), &all);
    }
}

/// The sum of the recording's first replay stayed beside its first venue, whose trades counted
/// twice until the second one came.
#[test]
fn a_recording_that_is_replayed_again_beside_another_source_counts_its_trades_once() {
    use Step::*;
    let steps = [Deliver, trade(XA), trade(XB), trade(XA), Settle];
    let _ = played(&setting(1, &[0, 0]), &steps);
}
