//! Second names of a symbol with one venue: its subscribers change nothing about the symbol.

use super::*;
use crate::bars::BarClock;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

/// Subscribes lane 0 to a channel, as fan-out does.
pub(super) fn subscribe(market: &Market, channel: &[u8]) {
    let sources: [&dyn TopicSource; 4] = [
        &*market.board,
        &*market.books,
        &*market.bars,
        &*market.seconds,
    ];
    sources
        .iter()
        .for_each(|source| source.prepare(channel, true));
    let found = sources.iter().find_map(|source| source.find(channel));
    if let Some(topic) = &found {
        topic.add_interest(0);
    }
    let subscriptions = &market.post.subscriptions;
    subscriptions.add(0, Kind::Channel, channel);
    if found.is_none() {
        sources
            .iter()
            .for_each(|source| source.want(channel, false));
    }
}

/// Subscribes lane 0 to a prefix.
fn subscribe_prefix(market: &Market, prefix: &[u8]) {
    let subscriptions = &market.post.subscriptions;
    subscriptions.add(0, Kind::Prefix, prefix);
    if let Some(second) = market.seconds.second(prefix) {
        second.add_interest(0);
        subscriptions.generation().raise();
    }
}

/// Returns the messages of a publication under a name, as text.
pub(super) fn under(news: &(Publication, u64), name: &str) -> Vec<String> {
    let own = news.0.news().filter(|news| news.name == name.as_bytes());
    own.map(|news| String::from_utf8_lossy(news.payload).into_owned())
        .collect()
}

pub(super) fn sent(ingest: &mut Ingest, messages: &[Message]) -> (Publication, u64) {
    let mut batch = ingest.begin(2);
    messages
        .iter()
        .for_each(|message| batch.message(2, message));
    batch.finish()
}

/// Asserts that both names have the same messages, beside the symbol. Returns how many.
fn same(news: &(Publication, u64), first: &str, second: &str) -> usize {
    let (first, second) = (under(news, first), under(news, second));
    let renamed: Vec<_> = first
        .iter()
        .map(|text| text.replace("\"symbol\":\"A\"", "\"symbol\":\"A@V1\""))
        .collect();
    assert_eq!(second, renamed);
    second.len()
}

fn trade_at(source: u16, second: u64) -> Message {
    Message::Trade(TradeMessage {
        source,
        source_time_ns: START + second * SECOND,
        price: 1_000_000_000,
        size: 1,
        ..TradeMessage::default()
    })
}

/// A client that subscribed to the only venue took the book of the symbol away from all others.
#[test]
fn book_of_a_symbol_stays_when_a_client_subscribes_to_its_only_venue() {
    for name in ["md:A@V1", "book:A@V1", "bar:1m:A@V1"] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut source = named_source(&market, "test", "V1");
        subscribe(&market, b"book:A");
        let levels = [quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 10)];
        sent(&mut source, &levels);
        subscribe(&market, name.as_bytes());
        sent(&mut source, &[quote(0, 1, 11, 20)]);
        let news = sent(&mut source, &[set_level(0, 1, 11)]);
        assert_eq!(under(&news, "book:A").len(), 1, "{name}");
        assert_eq!(best_bids(&market, "A"), [11, 10], "{name}");
        assert_eq!(best_bids(&market, "A@V1"), [11, 10], "{name}");
        assert_eq!(market.board.count(), 1, "{name}");
        let is_book = name.starts_with("book:");
        assert_eq!(under(&news, "book:A@V1").len(), usize::from(is_book));
    }
}

/// Between the present value and the symbol's next update, a subscriber of the only venue heard of
/// no change of staleness, no session and no state.
#[test]
fn staleness_levels_and_sessions_come_under_the_second_name() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = named_source(&market, "test", "V1");
    sent(&mut source, &[quote(0, 1, 10, 20), clear(0, 1)]);
    let names = ["md:A", "md:A@V1", "book:A", "book:A@V1"];
    names
        .iter()
        .for_each(|name| subscribe(&market, name.as_bytes()));
    let messages = [
        set_level(0, 1, 10),
        status(0, 1, TradingState::HALTED),
        start(0, 7, ReferenceKind::PREVIOUS_CLOSE, 1),
        trade(0, 1, 12, 3),
        set_level(0, 1, 11),
    ];
    let messages = messages.map(|message| match message {
        Message::Status(status) => Message::Status(TradingStatus {
            source: 1,
            ..status
        }),
        Message::SessionStart(start) => Message::SessionStart(SessionStart { source: 1, ..start }),
        message => message,
    });
    let news = sent(&mut source, &messages);
    assert_eq!(same(&news, "md:A", "md:A@V1"), 3);
    assert_eq!(same(&news, "book:A", "book:A@V1"), 2);
    let news = source.lose(3);
    assert_eq!(same(&news, "md:A", "md:A@V1"), 1);
    assert_eq!(same(&news, "book:A", "book:A@V1"), 1);
    let stale = under(&news, "md:A@V1").concat();
    assert!(stale.contains("\"stale\":1"), "{stale}");
    let mut batch = source.begin(4);
    batch.revive();
    let news = batch.finish();
    assert_eq!(same(&news, "md:A", "md:A@V1"), 1);
    assert_eq!(same(&news, "book:A", "book:A@V1"), 1);
    assert_eq!(market.board.count(), 1);
}

#[test]
fn bars_open_and_close_under_the_second_name() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = named_source(&market, "test", "V1");
    sent(&mut source, &[quote(0, 1, 10, 20)]);
    let names = ["bar:1s:A", "bar:1s:A@V1"];
    names
        .iter()
        .for_each(|name| subscribe(&market, name.as_bytes()));
    let news = sent(&mut source, &[trade_at(1, 0), trade_at(1, 0)]);
    assert_eq!(same(&news, names[0], names[1]), 2);
    // The source's clock closes one, and the next trade another.
    let Message::Trade(last) = trade_at(1, 5) else {
        unreachable!("it is a trade");
    };
    let later = Message::Quote(QuoteMessage {
        source: 1,
        source_time_ns: last.source_time_ns,
        bid: 1,
        ask: 2,
        ..QuoteMessage::default()
    });
    let news = sent(&mut source, &[later, trade_at(1, 6), trade_at(1, 7)]);
    assert_eq!(same(&news, names[0], names[1]), 4);
    let closed = under(&news, names[1]);
    let finals = closed.iter().filter(|text| text.contains("\"final\":1"));
    assert_eq!(finals.count(), 2);
    let is_final = |news: &(Publication, u64)| {
        let own = news
            .0
            .news()
            .filter(|news| news.name == names[1].as_bytes());
        own.map(|news| news.is_final).collect::<Vec<_>>()
    };
    assert_eq!(is_final(&news), [true, false, true, false]);
    // The wall clock closes those of live sources.
    let now_ns = START + 100 * SECOND;
    let mut live = source.begin(now_ns);
    live.message(3, &trade_at(1, 100));
    live.finish();
    let after_ns = now_ns + 2 * SECOND;
    let (news, _) = BarClock::default().turn(&market.bars, after_ns, after_ns);
    assert_eq!(same(&news, names[0], names[1]), 1);
    assert_eq!(is_final(&news), [true]);
}

/// Only when the second venue comes, the first one gets a topic of its own, and its subscribers
/// hear that.
#[test]
fn a_second_venue_that_comes_later_takes_nothing_from_subscribers_of_the_first() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut first = named_source(&market, "first", "V1");
    let messages = [trade(0, 1, 10, 5), clear(0, 1), set_level(0, 1, 9)];
    sent(&mut first, &messages);
    let names = ["md:A@V1", "book:A@V1", "bar:1s:A@V1"];
    names
        .iter()
        .for_each(|name| subscribe(&market, name.as_bytes()));
    sent(&mut first, &[trade_at(1, 0)]);
    assert_eq!(market.board.count(), 1);
    let mut second = source(&market, "second", 0, "A");
    second.begin(1).venue(&venue(2, "V2"));
    let news = sent(&mut second, &[quote(0, 2, 5, 30)]);
    assert_eq!(market.board.count(), 3);
    // Under the second name comes no value of both venues, and the book goes on.
    let values = under(&news, "md:A@V1");
    assert!(
        values.iter().all(|text| text.contains("\"volume\":6")),
        "{values:?}"
    );
    let books = under(&news, "book:A@V1");
    assert!(
        books.iter().all(|text| text.contains("\"snapshot\":true")),
        "{books:?}"
    );
    assert!(!books.concat().contains("\"depth\":0"), "{books:?}");
    let find = |name: &[u8]| {
        let sources: [&dyn TopicSource; 3] = [&*market.board, &*market.books, &*market.bars];
        sources.iter().find_map(|source| source.find(name))
    };
    for name in names {
        assert!(find(name.as_bytes()).is_some(), "{name} has a topic");
    }
    let news = sent(&mut first, &[trade_at(1, 1), set_level(0, 1, 8)]);
    assert!(under(&news, "md:A@V1").concat().contains("\"volume\":7"));
    assert_eq!(under(&news, "md:A@V1").len(), 1);
    assert_eq!(under(&news, "book:A@V1").len(), 1);
    // The bar of the second before, and the one that begins.
    assert_eq!(under(&news, "bar:1s:A@V1").len(), 2);
    // What is written late for the second name is the topic's value.
    let mut out = Vec::new();
    let late = market.seconds.find(b"md:A@V1").unwrap();
    let number = |id| match id {
        tidewire_fanout::TopicId::Second(number) => number,
        other => unreachable!("{other:?} is no second name"),
    };
    assert_eq!(
        market.seconds.write(number(late.id()), true, &mut out),
        None
    );
}

/// Fan-out adds the interest, then raises the generation, then reads the value.
#[test]
fn who_subscribes_to_the_only_venue_while_a_batch_runs_gets_its_update_once() {
    for hears_first in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut source = named_source(&market, "test", "V1");
        sent(&mut source, &[quote(0, 1, 10, 20)]);
        if !hears_first {
            market.board.find(b"A").unwrap().clear_interest(0);
        }
        let mut batch = source.begin(2);
        batch.message(2, &quote(0, 1, 11, 20));
        subscribe(&market, b"md:A@V1");
        let news = batch.finish();
        assert_eq!(under(&news, "md:A@V1").len(), 1);
        assert_eq!(under(&news, "md:A").len(), usize::from(hears_first));
        market.seconds.find(b"md:A@V1").unwrap().clear_interest(0);
        let mut batch = source.begin(2);
        batch.message(2, &quote(0, 1, 11, 21));
        subscribe(&market, b"md:A@V1");
        batch.message(2, &quote(0, 1, 11, 22));
        let news = batch.finish();
        assert_eq!(under(&news, "md:A@V1").len(), 1, "published since");
        // Another subscription repeats nothing of what was heard.
        let mut batch = source.begin(2);
        batch.message(2, &quote(0, 1, 12, 20));
        market.post.subscriptions.add(0, Kind::Channel, b"other");
        let news = batch.finish();
        assert_eq!(under(&news, "md:A@V1").len(), 1);
        assert_eq!(under(&news, "md:A").len(), usize::from(hears_first));
    }
}

#[test]
fn a_prefix_asks_for_a_second_name_if_it_has_all_of_the_first_one() {
    for (prefix, is_heard) in [
        (&b"md:A@V1"[..], true),
        (b"md:A@", true),
        (b"md:A", false),
        (b"md:", false),
        (b"md:A@V2", false),
    ] {
        for is_early in [true, false] {
            let market = Market::of_one_lane(MarketConfig::default());
            if is_early {
                subscribe_prefix(&market, prefix);
            }
            let mut source = named_source(&market, "test", "V1");
            if !is_early {
                sent(&mut source, &[quote(0, 1, 10, 20)]);
                subscribe_prefix(&market, prefix);
            }
            let news = sent(&mut source, &[quote(0, 1, 11, 20)]);
            let count = under(&news, "md:A@V1").len();
            assert_eq!(count, usize::from(is_heard), "{prefix:?} {is_early}");
            assert_eq!(market.board.count(), 1);
        }
    }
}

/// A lane that finds no subscriber takes its interest back, and the topic does not look any more.
#[test]
fn a_second_name_without_subscribers_costs_nothing_until_the_next_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = named_source(&market, "test", "V1");
    sent(&mut source, &[quote(0, 1, 10, 20)]);
    let topic = market.board.find(b"A").unwrap();
    for round in 0..3 {
        subscribe(&market, b"md:A@V1");
        assert!(topic.has_second());
        let news = sent(&mut source, &[quote(0, 1, 11 + round, 20)]);
        assert_eq!(under(&news, "md:A@V1").len(), 1);
        market.seconds.find(b"md:A@V1").unwrap().clear_interest(0);
        let news = sent(&mut source, &[quote(0, 1, 12 + round, 20)]);
        assert!(under(&news, "md:A@V1").is_empty());
        assert!(!topic.has_second(), "an update has found that out");
    }
    assert_eq!(market.seconds.len(), 1);
}

/// The second name follows the symbol's venue.
#[test]
fn a_venue_that_gets_another_name_ends_what_comes_under_the_old_one() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A");
    sent(&mut one, &[quote(0, 0, 10, 20)]);
    subscribe(&market, b"md:A@one");
    subscribe(&market, b"md:A@other");
    let news = sent(&mut one, &[quote(0, 0, 11, 20)]);
    assert_eq!(under(&news, "md:A@one").len(), 1);
    drop(one);
    for (feed, old) in [("other", "one"), ("one", "other"), ("other", "one")] {
        let mut next = source(&market, feed, 0, "A");
        let news = sent(&mut next, &[quote(0, 0, 12, 20)]);
        let own = format!("md:A@{feed}");
        assert!(!under(&news, &own).is_empty(), "{feed}");
        assert!(under(&news, &format!("md:A@{old}")).is_empty(), "{feed}");
    }
    assert_eq!((market.board.count(), market.seconds.len()), (1, 2));
}

/// A client of the native feed still gives the venue a topic, which then has both names' updates.
#[test]
fn a_native_client_of_the_only_venue_takes_nothing_from_other_subscribers() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = named_source(&market, "test", "V1");
    sent(&mut source, &[quote(0, 1, 10, 20)]);
    subscribe(&market, b"md:A@V1");
    let feed: &dyn tidewire_feed::server::Board = &*market.board;
    assert_eq!(feed.find("A@V1"), None);
    for bid in [11, 12] {
        let news = sent(&mut source, &[quote(0, 1, bid, 20)]);
        let own = under(&news, "md:A@V1");
        let last = own.last().expect("it is heard");
        assert!(last.contains(&format!("\"bid\":0.0000000{bid}")), "{last}");
    }
    assert_eq!(market.board.count(), 2);
}

#[test]
fn many_second_names_are_found_by_their_symbols() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut source = Ingest::new(market.clone(), 1, "test");
    let mut batch = source.begin(1);
    batch.venue(&venue(1, "V1"));
    for symbol in 0..3_000 {
        batch.definition(1, &definition(symbol, &format!("S{symbol}")));
        batch.message(1, &quote(symbol, 1, 10, 20));
    }
    batch.finish();
    for symbol in 0..3_000 {
        subscribe(&market, format!("md:S{symbol}@V1").as_bytes());
    }
    let news = sent(&mut source, &[quote(7, 1, 11, 20), quote(2_999, 1, 12, 20)]);
    assert_eq!(names(&news).len(), 4);
    assert_eq!((market.seconds.len(), market.board.count()), (3_000, 3_000));
}

/// Behind a hub that found a second venue, the bars of the first one began again.
#[test]
fn a_hub_that_gives_the_only_venue_a_symbol_goes_on_with_what_subscribers_had() {
    for is_heard in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = chains::hub(&market, "hub");
        let messages = [trade_at(1, 0), clear(0, 1), set_level(0, 1, 9)];
        sent(&mut hub, &messages);
        if is_heard {
            subscribe(&market, b"bar:1s:A@V1");
        }
        sent(&mut hub, &[trade_at(1, 5)]);
        assert_eq!(market.board.count(), 1);
        let mut batch = hub.begin(3);
        let source = 1;
        batch.definition(
            5,
            &Definition {
                source,
                ..definition(7, "A@V1")
            },
        );
        let news = batch.finish();
        let bars = under(&news, "bar:1s:A@V1");
        let has_bar = bars
            .iter()
            .any(|text| text.contains("\"trades\":1,\"final\":0"));
        assert_eq!(has_bar, is_heard, "{bars:?}");
        // The hub says what belongs together, and tells the book again.
        assert!(market.board.named("A@V1").unwrap().parent().is_none());
        assert_eq!(best_bids(&market, "A"), [9]);
        if is_heard {
            // The numbers of its updates go on: a client does not take a new one for old.
            let versions = ["A", "A@V1"].map(|name| {
                let topic = market.board.named(name).unwrap();
                topic.derived.book().unwrap().state.lock().version()
            });
            assert_eq!(versions[0], versions[1]);
        }
    }
}

/// Three hubs in a row, with two publishers at the first one. Returns volumes of the symbol and
/// names of all topics at each hub, where a client of the last two `wants` the first venue.
fn chain(wants: fn(&Market)) -> Vec<(u64, Vec<String>)> {
    let hubs = [(); 3].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut one = named_source(&hubs[0], "one", "V1");
    let mut two = source(&hubs[0], "two", 0, "A");
    two.begin(1).venue(&venue(2, "V2"));
    let mut readers = [1, 2].map(|place: usize| Ingest::new(hubs[place].clone(), 1, "hub"));
    let mut next = [1, 1];
    for second in 0..8 {
        if second == 2 {
            hubs[1..].iter().for_each(|hub| wants(hub));
        }
        match second {
            0..4 | 6 => sent(&mut one, &[trade_at(1, second)]),
            _ => sent(&mut two, &[trade_at(2, second)]),
        };
        for place in 1..hubs.len() {
            let reader = &mut readers[place - 1];
            chains::read_on(&hubs[place - 1], reader, &mut next[place - 1]);
        }
    }
    let shown = hubs.iter().map(|hub| {
        let topics = hub.board.topics().into_iter();
        let mut names: Vec<_> = topics
            .map(|topic| String::from_utf8_lossy(topic.symbol()).into_owned())
            .collect();
        names.sort();
        (value_of(hub, "A").volume, names)
    });
    shown.collect()
}

/// With a subscriber to the first venue at two hubs of a chain, the last one counted each trade
/// twice, and had a topic `A@consolidated` that all its clients saw.
#[test]
fn a_chain_counts_each_trade_once_where_clients_hear_the_first_venue() {
    let quiet = chain(|_| {});
    assert!(quiet.iter().all(|shown| *shown == quiet[0]), "{quiet:?}");
    assert_eq!((quiet[0].0, quiet[0].1.len()), (8, 3));
    assert_eq!(chain(|hub| subscribe(hub, b"md:A@V1")), quiet);
    assert_eq!(chain(|hub| subscribe(hub, b"bar:1s:A@V1")), quiet);
    let native = |hub: &Market| {
        let feed: &dyn tidewire_feed::server::Board = &*hub.board;
        assert_eq!(feed.find("A@V1"), None);
    };
    assert_eq!(chain(native), quiet);
}

/// A client of the native feed behind a hub hears the first venue, and the symbol keeps its book.
#[test]
fn a_native_client_behind_a_hub_gets_the_only_venue_beside_the_symbol() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = chains::hub(&market, "hub");
    sent(
        &mut hub,
        &[quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 9)],
    );
    let feed: &dyn tidewire_feed::server::Board = &*market.board;
    assert_eq!(feed.find("A@V1"), None);
    sent(&mut hub, &[quote(0, 1, 11, 20), trade_at(1, 3)]);
    let (both, venue) = (value_of(&market, "A"), value_of(&market, "A@V1"));
    assert_eq!((both.bid, both.volume), (venue.bid, venue.volume));
    assert_eq!((both.bid, both.volume), (11, 1));
    assert!(feed.find("A@V1").is_some());
    assert_eq!(best_bids(&market, "A"), [9]);
}

/// A subscriber of the venue's book kept the levels of then as current: the native client's topic
/// had a book of its own, which nothing was known of.
#[test]
fn the_book_of_the_only_venue_goes_on_where_a_native_client_behind_a_hub_selects_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = chains::hub(&market, "hub");
    for channel in ["book:A", "book:A@V1"] {
        subscribe(&market, channel.as_bytes());
    }
    let levels = [quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 9)];
    sent(&mut hub, &levels);
    let feed: &dyn tidewire_feed::server::Board = &*market.board;
    assert_eq!(feed.find("A@V1"), None);
    let news = sent(&mut hub, &[quote(0, 1, 11, 20)]);
    assert!(feed.find("A@V1").is_some());
    let again = under(&news, "book:A@V1");
    assert!(
        again.iter().all(|text| text.contains("[[0.000000009,")),
        "{again:?}"
    );
    // The readers of this hub's feed have the book from its start.
    let topic = market.board.named("A@V1").unwrap();
    let journal = market.journal.lock();
    let all = (1..journal.next_sequence()).filter_map(|at| journal.message(at));
    let told = all.filter_map(|message| match message {
        Message::Level(level) if level.symbol == topic.number => Some(level.action),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [Level::CLEAR, Level::default().action]
    );
    drop(journal);
    let news = sent(&mut hub, &[set_level(0, 1, 8)]);
    for name in ["A", "A@V1"] {
        assert_eq!(under(&news, &format!("book:{name}")).len(), 1, "{name}");
        assert_eq!(best_bids(&market, name), [9, 8], "{name}");
    }
    // What is lost is lost under both names.
    chains::restart(&mut hub);
    for name in ["A", "A@V1"] {
        assert!(best_bids(&market, name).is_empty(), "{name}");
    }
}

/// A symbol of another publisher with the name of the venue got the trades of the first symbol.
#[test]
fn another_symbol_with_the_second_name_does_not_go_on_with_the_first_ones_bars() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = chains::hub(&market, "hub");
    sent(&mut hub, &[trade_at(1, 0)]);
    subscribe(&market, b"bar:1s:A@V1");
    sent(&mut hub, &[trade_at(1, 5)]);
    let mut batch = hub.begin(3);
    let source = 2;
    batch.definition(
        5,
        &Definition {
            source,
            ..definition(7, "A@V1")
        },
    );
    let news = batch.finish();
    assert!(under(&news, "bar:1s:A@V1").is_empty());
    sent(&mut hub, &[trade(7, 2, 3, 49)]);
    assert_eq!(value_of(&market, "A").volume, 2);
    assert_eq!(value_of(&market, "A@V1").volume, 49);
    assert!(!market.board.named("A").unwrap().is_consolidated());
}

/// Bars of a publisher's symbol `A@V1` were partial, because another one gives `A` at V1.
#[test]
fn a_symbol_with_the_second_name_of_another_has_whole_bars() {
    for is_same_source in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut one = named_source(&market, "one", "V1");
        let mut other = named_source(&market, "other", "V1");
        sent(&mut one, &[trade_at(1, 5)]);
        let ingest = if is_same_source { &mut one } else { &mut other };
        let mut batch = ingest.begin(3);
        batch.definition(5, &definition(7, "A@V1"));
        batch.finish();
        subscribe(&market, b"bar:1m:A@V1");
        let trade = match trade_at(1, 4) {
            Message::Trade(trade) => Message::Trade(TradeMessage { symbol: 7, ..trade }),
            other => other,
        };
        let news = sent(ingest, &[trade]);
        let bars = under(&news, "bar:1m:A@V1");
        assert_eq!(bars.len(), 1, "{bars:?}");
        assert!(bars[0].contains("\"partial\":0"), "{bars:?}");
        assert_eq!(value_of(&market, "A").volume, 1);
    }
}
