//! What a client sees where the first venue of a symbol gets a topic of its own, and where a source
//! begins another session.

use super::*;

/// They had the time of the newest change of the prices, so a replay left them out.
#[test]
fn with_a_start_the_orders_that_move_come_with_the_second_venue() {
    for prices in [[100, 101, 102], [102, 101, 100]] {
        let mut feed = Feed::new(&["A"]);
        for (number, price) in (1..).zip(prices) {
            feed.quote(0, T, 90, 1);
            feed.order(0, 2, T + number * SECOND, number, price);
        }
        feed.trade(0, 9, T + 10 * SECOND, 95);
        let (symbol, own) = (feed.id("A"), feed.id("A@XNAS"));
        for second in [0, 3, 8] {
            let start = T + second * SECOND;
            let told = feed.records(&[&format!("schema=mbo|symbols=ALL_SYMBOLS|start={start}")]);
            let told = orders(&told).into_iter().map(|one| (one.0, one.2, one.3));
            let own_orders = |number: &u64| ('A', own, *number);
            let mut numbers = [1, 2, 3];
            numbers.sort_by_key(|number| std::cmp::Reverse(prices[*number as usize - 1]));
            let mut expected: Vec<_> = (second.max(1)..4).map(|id| ('A', symbol, id)).collect();
            expected.extend([('R', symbol, 0), ('R', own, 0)]);
            expected.extend(numbers.iter().map(own_orders));
            assert_eq!(told.collect::<Vec<_>>(), expected, "{second} {prices:?}");
        }
    }
}

/// Its clients never heard of the halt.
#[test]
fn the_state_of_the_first_venue_is_told_again_as_that_of_its_own_symbol() {
    let mut feed = Feed::new(&["A"]);
    let mut live = feed.session(&["schema=status|symbols=ALL_SYMBOLS"]);
    feed.quote(0, T, 10, 1);
    feed.status(2, T + SECOND, TradingState::HALTED);
    feed.quote_of(0, 9, T + 2 * SECOND, 11, 1);
    let (symbol, own) = (feed.id("A"), feed.id("A@XNAS"));
    let late = feed.records(&["schema=status|symbols=ALL_SYMBOLS|start=0"]);
    let expected = [(symbol, 8, T + SECOND), (own, 8, T + SECOND)];
    for told in [live.records(&feed.market), late] {
        assert_eq!(statuses(&told), expected);
    }
}

/// The source was the same to the hub, so its orders of before stayed.
#[test]
fn orders_of_a_session_before_are_cleared_where_the_symbol_begins() {
    for with_orders in [true, false] {
        let mut feed = Feed::new(&["A"]);
        let mut live = feed.session(&["schema=mbo|symbols=A"]);
        feed.order(0, 2, T, 1, 50);
        let mut batch = feed.ingest.begin(RECEIVED);
        batch.session_changed(1, 2);
        let name = Name::new("A").unwrap();
        batch.definition(1, &Definition::new(0, name));
        batch.finish();
        match with_orders {
            true => feed.order(0, 2, T + SECOND, 2, 51),
            false => feed.trade(0, 2, T + SECOND, 51),
        }
        let a = feed.id("A");
        let mut expected = vec![('A', T, a, 1), ('R', T + SECOND, a, 0)];
        expected.extend(with_orders.then_some(('A', T + SECOND, a, 2)));
        let late = feed.records(&["schema=mbo|symbols=A|start=0"]);
        for told in [live.records(&feed.market), late] {
            assert_eq!(orders(&told), expected);
        }
        let now = feed.records(&["schema=mbo|symbols=A|snapshot=1"]);
        let now: Vec<u64> = orders(&now).iter().map(|order| order.3).collect();
        let expected: &[u64] = if with_orders { &[0, 2] } else { &[] };
        assert_eq!(now, expected);
    }
}

/// It was a value only, so the state of before stayed.
#[test]
fn a_value_without_the_state_that_a_client_has_is_a_status() {
    let mut feed = Feed::new(&["A"]);
    let early = feed.session(&["schema=status|symbols=A"]);
    feed.status(2, T, TradingState::HALTED);
    feed.quote(0, T, 10, 1);
    let late = feed.session(&["schema=status|symbols=A"]);
    for _ in 0..2 {
        feed.send(Message::LastValue(LastValue {
            source: 2,
            ..LastValue::new(0)
        }));
    }
    feed.quote(0, T + SECOND, 11, 1);
    let a = feed.id("A");
    let expected = [(a, 8, T), (a, 0, T + SECOND)];
    for (mut stream, expected) in [(early, &expected[..]), (late, &expected[1..])] {
        assert_eq!(statuses(&stream.records(&feed.market)), expected);
    }
}
