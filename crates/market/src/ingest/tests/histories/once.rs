//! Whether each trade counts once, and is told once.

use super::hubs::{market, replay_into};
use super::*;

/// The trade of a source beside a replay.
const OTHER: u32 = 1 << 31;

impl World {
    /// Returns the topics of a hub in which a trade counts twice.
    pub(super) fn check_sums(&self, place: usize) -> Vec<String> {
        let wrong = sums_with_a_trade_twice(&self.hubs[place].market);
        let texts = wrong.into_iter();
        texts.map(|text| format!("hub {place} md {text}")).collect()
    }

    /// Returns the topics of a hub whose readers are told of a trade twice. A hub that has missed
    /// messages may have to.
    pub(super) fn check_told(&self, place: usize) -> Vec<String> {
        let market = &self.hubs[place].market;
        let journal = market.journal.lock();
        let mut told: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut wrong = Vec::new();
        for message in (1..journal.next_sequence()).filter_map(|at| journal.message(at)) {
            let Message::Trade(trade) = message else {
                continue;
            };
            let sizes = told.entry(trade.symbol).or_default();
            if sizes.contains(&trade.size) {
                let topic = market.board.topic(trade.symbol);
                let name = topic.map(|topic| String::from_utf8_lossy(topic.symbol()).into_owned());
                let size = trade.size;
                wrong.push(format!("hub {place} tells {name:?} of {size:#b} twice"));
            }
            sizes.push(trade.size);
        }
        drop(journal);
        for (number, sizes) in told {
            let (Some(size), Some(value)) = (sizes.last(), market.board.value(number)) else {
                continue;
            };
            if value.last_size != *size {
                let last = value.last_size;
                wrong.push(format!(
                    "hub {place} {number}: last {last:#b}, told {size:#b}"
                ));
            }
        }
        wrong
    }

    /// Returns what is wrong where the recording of a hub is replayed twice beside another source,
    /// which comes in front of the recording or between the two replays.
    pub(super) fn check_replays_again(&self, place: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        for is_between in [false, true] {
            let again = market(true);
            let in_front = (!is_between).then(|| other_source(&again));
            let mut replay = replay_into(&again, &self.hubs[place], |_| {});
            replay.lose_at_once(START);
            drop(replay);
            let between = is_between.then(|| other_source(&again));
            let (mut found, mut messages) = (Vec::new(), 0);
            let replay = replay_into(&again, &self.hubs[place], |market| {
                messages += 1;
                if found.is_empty() {
                    let texts = sums_with_a_trade_twice(market).into_iter();
                    found.extend(texts.map(|text| format!("{text} behind {messages} messages")));
                }
            });
            drop((in_front, between, replay));
            let text =
                |found| format!("replay of hub {place} again, other between {is_between}: {found}");
            wrong.extend(found.into_iter().map(text));
        }
        wrong
    }
}

/// Returns a source that has had one trade of the symbol at a venue of its own.
fn other_source(market: &Arc<Market>) -> Ingest {
    let mut other = source(market, "other", 1, SYMBOL);
    let mut batch = other.begin(START);
    batch.venue(&venue(90, "OTHER"));
    let trade = super::super::trade(1, 90, 100_000_000_000, OTHER);
    batch.message(1, &trade);
    batch.finish();
    other
}

/// Returns the topics in which a trade counts twice.
fn sums_with_a_trade_twice(market: &Market) -> Vec<String> {
    let topics = market.board.topics().into_iter();
    let values = topics.filter_map(|topic| Some((market.board.value(topic.number)?, topic)));
    let wrong = values.filter(|(value, _)| value.volume.count_ones() != value.trades);
    let texts = wrong.map(|(value, topic)| {
        let name = String::from_utf8_lossy(topic.symbol());
        let (volume, trades) = (value.volume, value.trades);
        format!("{name}: {trades} trades, volume {volume:#b}")
    });
    texts.collect()
}
