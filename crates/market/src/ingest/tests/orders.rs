//! What the order of messages must not change: times, sessions, certainty.

use super::*;

/// Returns a source of the venues 1 (`V1`) and 2 (`V2`) that has defined A.
fn publisher(market: &Arc<Market>) -> Ingest {
    let number = market.next_source_number() as u32;
    let mut ingest = Ingest::new(market.clone(), number, "feed");
    let mut batch = ingest.begin(1);
    batch.venue(&venue(1, "V1"));
    batch.venue(&venue(2, "V2"));
    batch.definition(1, &definition(0, "A"));
    batch.finish();
    ingest
}

fn apply(ingest: &mut Ingest, messages: &[Message]) {
    let mut batch = ingest.begin(1);
    messages
        .iter()
        .for_each(|message| batch.message(1, message));
    batch.finish();
}

fn value(market: &Market, name: &[u8]) -> MarketValue {
    let topic = market.board.find(name).expect("the topic");
    market.board.value(topic.number).expect("its value")
}

fn at(mut message: Message, time_ns: u64) -> Message {
    match &mut message {
        Message::Trade(trade) => trade.source_time_ns = time_ns,
        Message::Quote(quote) => quote.source_time_ns = time_ns,
        other => unreachable!("{other:?} is not used here"),
    }
    message
}

#[test]
fn a_trade_of_one_venue_keeps_its_time_beside_one_whose_clock_is_ahead() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    apply(&mut ingest, &[at(trade(0, 1, 10, 1), 5_000)]);
    apply(&mut ingest, &[at(trade(0, 2, 11, 1), 2_000)]);
    apply(&mut ingest, &[at(trade(0, 1, 12, 1), 6_000)]);
    let consolidated = market.board.find(b"A").unwrap();
    let journal = market.journal.lock();
    let all = (journal.oldest_sequence()..journal.next_sequence()).filter_map(|sequence| {
        match journal.message(sequence)? {
            Message::Trade(trade) if trade.symbol == consolidated.number => {
                Some((trade.price, trade.source_time_ns))
            }
            _ => None,
        }
    });
    let trades: Vec<_> = all.collect();
    assert_eq!(trades.last(), Some(&(12, 6_000)));
    assert!(trades.contains(&(11, 2_000)), "{trades:?}");
    drop(journal);
    assert_eq!(value(&market, b"A").source_time_ns, 6_000);
}

#[test]
fn a_status_in_a_new_session_leaves_the_old_quote_of_a_venue_stale() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    apply(&mut ingest, &[quote(0, 1, 99, 100), quote(0, 2, 97, 103)]);
    let mut batch = ingest.begin(2);
    batch.session_changed(1, 2);
    batch.venue(&venue(1, "V1"));
    batch.venue(&venue(2, "V2"));
    batch.definition(1, &definition(0, "A"));
    batch.finish();
    apply(&mut ingest, &[quote(0, 2, 98, 102)]);
    apply(&mut ingest, &[status(0, 1, TradingState::OPEN)]);
    assert_eq!(staleness(&value(&market, b"A@V1")), 1, "no new value yet");
    assert_eq!(staleness(&value(&market, b"A@V2")), 0);
    assert_eq!(value(&market, b"A").bid, 98);
    apply(&mut ingest, &[quote(0, 1, 95, 105)]);
    assert_eq!(staleness(&value(&market, b"A@V1")), 0);
}

#[test]
fn a_definition_without_an_open_keeps_the_one_that_was_declared() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    let mut batch = ingest.begin(1);
    let with_open = Definition {
        open: 99,
        ..definition(0, "A")
    };
    batch.definition(2, &with_open);
    batch.definition(3, &definition(0, "A"));
    batch.finish();
    apply(&mut ingest, &[trade(0, 1, 101, 1)]);
    assert_eq!(value(&market, b"A").session_open, 99);
}

#[test]
fn a_definition_repeated_after_a_loss_leaves_a_certain_value_certain() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = publisher(&market);
    apply(&mut ingest, &[quote(0, 1, 1, 2)]);
    let mut batch = ingest.begin(1);
    batch.values_lost();
    batch.finish();
    assert_eq!(staleness(&value(&market, b"A")), 2);
    apply(&mut ingest, &[quote(0, 1, 3, 4)]);
    assert_eq!(staleness(&value(&market, b"A")), 0);
    let mut batch = ingest.begin(1);
    batch.definition(9, &definition(0, "A"));
    batch.definition(10, &definition(1, "B"));
    batch.finish();
    assert_eq!(staleness(&value(&market, b"A")), 0, "nothing is missing");
    apply(&mut ingest, &[quote(1, 1, 3, 4)]);
    assert_eq!(staleness(&value(&market, b"B")), 0);
}
