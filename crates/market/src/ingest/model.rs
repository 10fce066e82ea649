//! Models every order in which a source's batch and a new subscriber can meet. `cargo xtask test`
//! runs it.

use tidewire_fanout::{Kind, Topic as _};
use tidewire_feed::wire::{Name, Trade as TradeMessage};

use super::*;
use crate::market::MarketConfig;

fn market() -> Arc<Market> {
    Market::of_one_lane(MarketConfig {
        topics_max: 1,
        journal_messages: 8,
        ..MarketConfig::default()
    })
}

/// Returns a source whose symbol 0 is the topic `md:A`.
fn source(market: &Arc<Market>) -> Ingest {
    let mut ingest = Ingest::new(market.clone(), 1, "test");
    let mut batch = ingest.begin(1);
    let definition = Definition::new(0, Name::new("A").unwrap());
    batch.definition(1, &definition);
    batch.finish();
    ingest
}

/// Publishes a batch of one trade. Returns the newest state that it has published.
fn publish(ingest: &mut Ingest) -> u64 {
    let mut batch = ingest.begin(2);
    let trade = TradeMessage {
        symbol: 0,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    };
    batch.message(2, &Message::Trade(trade));
    let (publication, lanes) = batch.finish();
    let versions = publication.news().map(|news| news.version);
    let newest = versions.max().unwrap_or(0);
    assert_eq!(
        newest > 0,
        lanes == 1,
        "publications go to the lane with subscribers"
    );
    newest
}

#[test]
fn no_trade_falls_between_the_first_value_and_the_news() {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(2);
    orders.check(|| {
        let market = market();
        let mut ingest = source(&market);
        let topic = market.board.find(b"A").unwrap();
        topic.clear_interest(0);
        let source = loom::thread::spawn(move || publish(&mut ingest));
        topic.add_interest(0);
        market.post.subscriptions.add(0, Kind::Channel, b"md:A");
        let found = market.board.value(topic.number).unwrap().updates;
        let told = source.join().unwrap();
        let newest = market.board.value(topic.number).unwrap().updates;
        assert!(newest > 0, "the trade is in the slot");
        assert!(
            found == newest || told == newest,
            "found {found}, published {told}"
        );
    });
}
