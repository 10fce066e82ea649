//! Venues of hubs behind other hubs, and what subscribers see of a change of venues.

use super::*;
use crate::venues::CONSOLIDATED_NAME;

/// Returns a source that is a hub: it has defined the symbol `A` as number 0, and V1 and V2 are its
/// venues 1 and 2.
pub(super) fn hub(market: &Arc<Market>, feed: &str) -> Ingest {
    let mut hub = named_source(market, feed, "V1");
    let mut batch = hub.begin(1);
    batch.venue(&venue(2, "V2"));
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    batch.finish();
    hub
}

fn define(ingest: &mut Ingest, symbol: u32, name: &str) {
    let mut batch = ingest.begin(1);
    batch.definition(1, &definition(symbol, name));
    batch.finish();
}

/// Lets a hub begin another session, with the symbol `A` as number 0 and the same venues.
pub(super) fn restart(hub: &mut Ingest) {
    hub.lose(2);
    let mut batch = hub.begin(2);
    batch.session_changed(1, 2);
    batch.venue_of_login(&venue(1, "V1"));
    batch.venue_of_login(&venue(2, "V2"));
    batch.definition(1, &definition(0, "A"));
    batch.finish();
}

/// Returns best bid and staleness of a topic.
fn shown(market: &Market, name: &str) -> (i64, u64) {
    let value = value_of(market, name);
    (value.bid, staleness(&value))
}

fn facts(market: &Market, name: &str) -> Arc<crate::topic::Facts> {
    market.board.find(name.as_bytes()).unwrap().facts()
}

/// The first venue of the second hub was in no topic from the time on at which that hub found
/// another venue, and `A@V1#2` kept its old quote, shown as current.
#[test]
fn the_second_hub_with_a_venue_goes_on_with_its_topic_when_it_finds_another() {
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut two) = (hub(&market, "one"), hub(&market, "two"));
    send(&mut one, &[quote(0, 1, 10, 20)]);
    send(
        &mut two,
        &[quote(0, 1, 11, 19), clear(0, 1), set_level(0, 1, 11)],
    );
    define(&mut two, 1, "A@V1");
    define(&mut two, 2, "A@V2");
    send(&mut two, &[quote(1, 1, 11, 19), quote(2, 2, 9, 21)]);
    send(
        &mut two,
        &[quote(0, CONSOLIDATED, 11, 19), quote(1, 1, 5, 6)],
    );
    assert_eq!(shown(&market, "A@V1"), (10, 0));
    assert_eq!(shown(&market, "A@V1#2"), (5, 0));
    assert_eq!(shown(&market, "A@V2"), (9, 0));
    assert_eq!(shown(&market, "A@consolidated"), (11, 0));
    assert_eq!(&*facts(&market, "A").venue_name, "V1,consolidated");
    assert_eq!(market.ingest.refused.load(Ordering::Relaxed), 0);
    // A symbol that has the name of what is taken already gets one of its own.
    define(&mut two, 3, "A@V1#2");
    send(&mut two, &[quote(3, 1, 4, 7), quote(1, 1, 3, 8)]);
    assert_eq!(shown(&market, "A@V1#2"), (3, 0));
    assert_eq!(shown(&market, "A@V1#2#2"), (4, 0));
}

/// Without a symbol of its own for the venue, its topic has no more values.
#[test]
fn a_venue_that_is_part_of_a_hubs_consolidated_value_from_now_on_is_stale() {
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut two) = (hub(&market, "one"), hub(&market, "two"));
    send(&mut one, &[quote(0, 1, 10, 20)]);
    send(&mut two, &[quote(0, 2, 11, 19)]);
    send(&mut two, &[quote(0, CONSOLIDATED, 12, 18)]);
    assert_eq!(shown(&market, "A@V2"), (11, 1));
    assert_eq!(shown(&market, "A"), (12, 0));
}

/// A publisher's symbol with the name of another source's venue was refused.
#[test]
fn a_symbol_with_the_name_of_another_sources_venue_has_a_topic_of_its_own() {
    let market = Market::of_one_lane(MarketConfig::default());
    let (mut one, mut two) = (hub(&market, "one"), hub(&market, "two"));
    send(&mut one, &[quote(0, 1, 10, 20)]);
    send(&mut two, &[quote(0, 2, 11, 19)]);
    let mut other = source(&market, "other", 0, "A@V1");
    send(&mut other, &[quote(0, 5, 98, 99)]);
    assert_eq!(shown(&market, "A@V1"), (10, 0));
    assert_eq!(shown(&market, "A@V1#2"), (98, 0));
    assert_eq!(shown(&market, "A"), (11, 0), "it is no venue of the symbol");
    assert_eq!(&*facts(&market, "A@V1#2").source_name, "other");
}

/// `A@V2` stayed stale with the value of the hub's earlier run, while `A` had the new ones.
#[test]
fn after_a_hubs_restart_the_only_venue_has_the_symbols_values_under_both_names() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    define(&mut hub, 1, "A@V1");
    define(&mut hub, 2, "A@V2");
    let both = [quote(1, 1, 10, 20), quote(2, 2, 9, 21)];
    send(&mut hub, &both);
    send(&mut hub, &[quote(0, CONSOLIDATED, 10, 20)]);
    restart(&mut hub);
    send(&mut hub, &[quote(0, 2, 30, 40), trade(0, 2, 35, 5)]);
    send(&mut hub, &[clear(0, 2), set_level(0, 2, 30)]);
    send(&mut hub, &[status(0, 2, TradingState::HALTED)]);
    let session = |value: MarketValue| (value.last, value.volume, value.status, value.quote());
    for name in ["A", "A@V2"] {
        assert_eq!(shown(&market, name), (30, 0), "{name}");
        assert_eq!(best_bids(&market, name), [30], "{name}");
        let value = session(value_of(&market, name));
        assert_eq!(value, session(value_of(&market, "A")));
    }
    assert_eq!(shown(&market, "A@V1"), (10, 1), "the hub does not have it");
    hub.lose(3);
    assert_eq!(shown(&market, "A@V2"), (30, 1));
    hub.begin(3).revive();
    assert_eq!(shown(&market, "A@V2"), (30, 0));
    // The hub finds the second venue again: then they are two symbols.
    define(&mut hub, 1, "A@V2");
    assert_eq!(shown(&market, "A@V2"), (30, 1), "no value of its own yet");
    send(
        &mut hub,
        &[quote(1, 2, 31, 40), quote(0, CONSOLIDATED, 32, 39)],
    );
    assert_eq!(shown(&market, "A@V2"), (31, 0));
    assert_eq!(shown(&market, "A"), (32, 0));
    assert!(
        market
            .board
            .find(b"A@consolidated")
            .is_some_and(|t| t.number == 0)
    );
}

/// Beside another source, the venue of a hub that has restarted was `V2#2`.
#[test]
fn after_a_hubs_restart_its_only_venue_goes_on_with_the_topic_that_it_had() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    define(&mut hub, 1, "A@V2");
    send(
        &mut hub,
        &[quote(1, 2, 9, 21), quote(0, CONSOLIDATED, 10, 20)],
    );
    restart(&mut hub);
    let mut own = named_source(&market, "own", "V3");
    for is_first in [true, false] {
        if !is_first {
            restart(&mut hub);
        }
        send(&mut hub, &[quote(0, 2, 30, 40)]);
        send(&mut own, &[quote(0, 1, 29, 41)]);
        send(&mut hub, &[quote(0, 2, 31, 40)]);
        assert_eq!(shown(&market, "A@V2"), (31, 0));
        assert_eq!(shown(&market, "A"), (31, 0));
        assert!(market.board.find(b"A@V2#2").is_none());
    }
}

/// A source that had a value, another one that only defined the symbol, and the first one again:
/// its venue was `V1#2`.
#[test]
fn a_source_that_only_defines_a_symbol_does_not_keep_its_venue_from_returning() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    send(&mut one, &[quote(0, 1, 10, 20)]);
    one.lose(2);
    drop(one);
    let mut two = named_source(&market, "two", "V2");
    let mut one = named_source(&market, "one", "V1");
    send(&mut one, &[quote(0, 1, 11, 20)]);
    assert_eq!((shown(&market, "A"), market.board.count()), ((11, 0), 1));
    send(&mut two, &[quote(0, 1, 9, 21)]);
    assert_eq!(shown(&market, "A@V1"), (11, 0));
    assert_eq!(shown(&market, "A@V2"), (9, 0));
}

/// Returns the last message about the symbol `A`, and its version.
fn message(news: &(Publication, u64)) -> Option<(String, u64)> {
    let about = news.0.news().filter(|news| news.name == b"md:A");
    let about = about.map(|news| {
        let text = String::from_utf8_lossy(news.payload).into_owned();
        (text, news.version)
    });
    about.last()
}

/// A venue that did not change the best price was not in the last message of the symbol.
#[test]
fn a_symbol_is_published_when_it_gets_a_venue_that_changes_no_price() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = named_source(&market, "feed", "V1");
    feed.begin(1).venue(&venue(2, "V2"));
    send(&mut feed, &[quote(0, 1, 10, 20), quote(0, 2, 9, 21)]);
    let before = value_of(&market, "A");
    feed.begin(1).venue(&venue(3, "V3"));
    let mut batch = feed.begin(2);
    batch.message(1, &quote(0, 3, 8, 22));
    let (text, version) = message(&batch.finish()).unwrap();
    assert!(text.contains("\"venue\":\"V1,V2,V3\""), "{text}");
    assert!(
        version > before.updates,
        "a subscriber may have that already"
    );
    let mut batch = feed.begin(3);
    batch.message(2, &quote(0, 3, 7, 23));
    assert!(
        message(&batch.finish()).is_none(),
        "nothing of it has changed"
    );
}

/// It still named the source that had left, and not the one that had taken the venue over.
#[test]
fn a_consolidated_symbol_names_the_sources_that_its_venues_have_now() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = named_source(&market, "one", "V1");
    let mut two = named_source(&market, "two", "V2");
    send(&mut one, &[quote(0, 1, 10, 20)]);
    send(&mut two, &[quote(0, 1, 9, 21)]);
    assert_eq!(&*facts(&market, "A").source_name, "one,two");
    drop(one);
    let mut three = named_source(&market, "three", "V1");
    let mut batch = three.begin(3);
    batch.message(1, &quote(0, 1, 8, 22));
    batch.finish();
    assert_eq!(&*facts(&market, "A@V1").source_name, "three");
    assert_eq!(&*facts(&market, "A").source_name, "three,two");
    // One source with two venues is named once, also if they do not follow one another.
    three.begin(4).venue(&venue(2, "V3"));
    send(&mut three, &[quote(0, 2, 8, 22)]);
    assert_eq!(&*facts(&market, "A").source_name, "three,two");
    assert_eq!(&*facts(&market, "A").venue_name, "V1,V2,V3");
}

/// Its time changed with a message of which a hub behind this one is told nothing.
#[test]
fn a_consolidated_value_keeps_its_time_while_nothing_is_told_of_it() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = named_source(&market, "feed", "V1");
    let at = |message: Message, source_time_ns| match message {
        Message::Quote(quote) => Message::Quote(QuoteMessage {
            source_time_ns,
            ..quote
        }),
        Message::Status(status) => Message::Status(TradingStatus {
            source_time_ns,
            ..status
        }),
        other => other,
    };
    send(&mut feed, &[at(quote(0, 1, 10, 20), 5)]);
    send(&mut feed, &[at(status(0, 2, TradingState::PAUSED), 6)]);
    let value = value_of(&market, "A");
    let name = market.board.venues().name(value.venues.bid);
    assert_eq!((value.source_time_ns, name.as_deref()), (5, Some("V1")));
    send(&mut feed, &[at(quote(0, 1, 11, 20), 7)]);
    assert_eq!(value_of(&market, "A").source_time_ns, 7);
}

/// The sides of the quote had no venue until the next update.
#[test]
fn a_symbol_whose_venue_gets_a_topic_for_a_native_client_names_the_venue_of_its_quote() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = named_source(&market, "feed", "V1");
    send(&mut feed, &[quote(0, 1, 10, 20)]);
    let board: &dyn tidewire_feed::server::Board = &*market.board;
    assert_eq!(board.find("A@V1"), None);
    let mut batch = feed.begin(2);
    batch.message(1, &quote(0, 1, 11, 20));
    let (text, _) = message(&batch.finish()).unwrap();
    assert!(
        text.contains("\"bid_venue\":\"V1\",\"ask_venue\":\"V1\""),
        "{text}"
    );
}

/// A price that a hub before this one has consolidated had no venue.
#[test]
fn a_price_of_another_hubs_consolidated_value_names_that_as_its_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut own = named_source(&market, "own", "V3");
    let mut hub = hub(&market, "hub");
    send(&mut own, &[quote(0, 1, 9, 15)]);
    send(&mut hub, &[quote(0, 1, 10, 20)]);
    let mut batch = hub.begin(2);
    batch.message(1, &quote(0, CONSOLIDATED, 11, 19));
    batch.message(1, &trade(0, CONSOLIDATED, 12, 1));
    let (text, _) = message(&batch.finish()).unwrap();
    let venues =
        "\"bid_venue\":\"consolidated\",\"ask_venue\":\"V3\",\"last_venue\":\"consolidated\"";
    assert!(text.contains(venues), "{text}");
}

/// A subscriber that had just got the value did not get the new tick.
#[test]
fn a_new_tick_is_a_newer_version_of_the_topic() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = named_source(&market, "feed", "V1");
    for is_consolidated in [false, true] {
        if is_consolidated {
            send(&mut feed, &[quote(0, 2, 9, 21)]);
        }
        send(&mut feed, &[quote(0, 1, 10, 20)]);
        let before = value_of(&market, "A").updates;
        let mut batch = feed.begin(2);
        let definition = Definition {
            price_tick: 1_000_000_000 + i64::from(is_consolidated),
            ..definition(0, "A")
        };
        batch.definition(2, &definition);
        let (text, version) = message(&batch.finish()).unwrap();
        assert!(text.contains("\"tick\":1"), "{text}");
        assert!(version > before);
    }
}

/// A restarted hub whose source only defined a symbol, and left, says that it is stale, as of no
/// venue. The hub behind it showed its own source's name as the venue; the next one kept that.
#[test]
fn what_a_hub_says_of_a_values_certainty_does_not_rename_its_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    send(&mut hub, &[quote(0, 1, 10, 20)]);
    restart(&mut hub);
    let certainty = Certainty {
        flags: Figures::STALE,
        ..Certainty::default()
    };
    send(&mut hub, &[Message::Certainty(certainty)]);
    assert_eq!(&*facts(&market, "A").venue_name, "V1");
    assert_eq!(shown(&market, "A@V1"), (10, 1));
    send(&mut hub, &[quote(0, 1, 11, 20)]);
    assert_eq!(shown(&market, "A@V1"), (11, 0));
}

/// A venue to which a hub had returned was still shown under the name of the one in between.
#[test]
fn a_hubs_value_that_goes_back_to_an_earlier_venue_has_its_name_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    for (number, name) in [(1, "V1"), (2, "V2"), (1, "V1"), (2, "V2")] {
        send(&mut hub, &[quote(0, number, 10, 20)]);
        assert_eq!(&*facts(&market, "A").venue_name, name);
    }
}

/// Returns the hub's own feed, from the first message on.
pub(super) fn journal(market: &Market) -> Vec<Message> {
    let journal = market.journal.lock();
    let all = (1..journal.next_sequence()).filter_map(|at| journal.message(at));
    all.collect()
}

/// Lets a hub read the whole feed of another one.
pub(super) fn read_all(hub: &Market, reader: &mut Ingest) {
    read_on(hub, reader, &mut 1);
}

/// Lets a hub read the feed of another one from message `next` on, which moves behind the last.
pub(super) fn read_on(hub: &Market, reader: &mut Ingest, next: &mut u64) {
    let mut batch = reader.begin(2);
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    let unread = journal(hub).split_off(*next as usize - 1);
    for message in unread {
        match &message {
            Message::Definition(definition) => batch.definition(*next, definition),
            Message::Venue(venue) => batch.venue(venue),
            message => batch.message(*next, message),
        }
        *next += 1;
    }
    batch.finish();
}

/// A hub that had connected before the first publisher showed the other hub's address as the venue,
/// and so did the one behind it.
#[test]
fn hubs_that_wait_for_the_first_publisher_learn_the_name_of_venue_number_0() {
    let hubs = [(); 3].map(|()| Market::of_one_lane(MarketConfig::default()));
    let mut publisher = source(&hubs[0], "s0", 0, "A");
    send(&mut publisher, &[quote(0, 0, 10, 20)]);
    for place in 1..hubs.len() {
        let mut reader = Ingest::new(hubs[place].clone(), 1, "127.0.0.1:7000");
        read_all(&hubs[place - 1], &mut reader);
        assert_eq!(&*facts(&hubs[place], "A").venue_name, "s0", "hub {place}");
        assert_eq!(shown(&hubs[place], "A@s0"), (10, 0));
    }
    let told = hubs.map(|hub| hub.board.venues().told());
    assert!(
        told.iter().all(|told| *told == [(0, "s0".into())]),
        "{told:?}"
    );
}

/// A number without a name had that of the hub's earlier run.
#[test]
fn after_a_hubs_restart_its_numbers_have_no_old_names() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    send(&mut hub, &[quote(0, 1, 10, 20)]);
    let mut batch = hub.begin(2);
    batch.session_changed(1, 2);
    batch.definition(1, &definition(0, "A"));
    batch.message(2, &quote(0, 1, 11, 20));
    batch.finish();
    assert_eq!(&*facts(&market, "A").venue_name, "1");
    // An exchange's venue has its name from the configuration.
    let mut exchange = source(&market, "mold-0", 0, "B");
    exchange.name_venue(0, "XNAS");
    let mut batch = exchange.begin(2);
    batch.session_changed(0, 0);
    batch.definition(1, &definition(0, "B"));
    batch.message(2, &quote(0, 0, 1, 2));
    batch.finish();
    assert_eq!(&*facts(&market, "B").venue_name, "XNAS");
}

/// The record of a symbol without a value named the hub's own address as its venue. A state of the
/// real venue then did not reach `A@V1`.
#[test]
fn a_state_after_a_hubs_restart_reaches_the_venues_topic_too() {
    for with_record in [false, true] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut hub = hub(&market, "hub");
        define(&mut hub, 1, "A@V1");
        define(&mut hub, 2, "A@V2");
        let both = [quote(1, 1, 10, 20), quote(2, 2, 9, 21)];
        send(&mut hub, &both);
        send(&mut hub, &[quote(0, CONSOLIDATED, 10, 20)]);
        restart(&mut hub);
        let mut batch = hub.begin(3);
        if with_record {
            batch.snapshot_record(1, &LastValue::new(0));
        }
        batch.finish();
        let expected = if with_record { PRICE_UNDEFINED } else { 10 };
        assert_eq!(shown(&market, "A").0, expected);
        assert_eq!(&*facts(&market, "A").venue_name, CONSOLIDATED_NAME);
        send(&mut hub, &[status(0, 1, TradingState::OPEN)]);
        for name in ["A", "A@V1"] {
            let value = value_of(&market, name);
            assert_eq!(value.status.state, TradingState::OPEN.0, "{name}");
            assert_eq!(&*facts(&market, name).venue_name, "V1", "{name}");
            assert_eq!(shown(&market, name), shown(&market, "A"), "{name}");
        }
        assert_eq!(shown(&market, "A@V2"), (9, 1));
        send(&mut hub, &[quote(0, 1, 11, 20)]);
        assert_eq!(shown(&market, "A@V1"), (11, 0));
    }
}

/// It became one more venue, with the hub's address as its name.
#[test]
fn a_hubs_symbol_without_a_value_is_no_venue_beside_another_source() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut own = named_source(&market, "own", "V3");
    send(&mut own, &[quote(0, 1, 10, 20)]);
    let mut hub = hub(&market, "hub");
    let mut batch = hub.begin(1);
    batch.snapshot_record(1, &LastValue::new(0));
    batch.finish();
    assert_eq!(&*facts(&market, "A").venue_name, "V3");
    assert_eq!((shown(&market, "A"), market.board.count()), ((10, 0), 1));
    send(&mut hub, &[quote(0, 1, 9, 21)]);
    assert_eq!(&*facts(&market, "A").venue_name, "V3,V1");
    assert_eq!(market.ingest.refused.load(Ordering::Relaxed), 0);
}

/// A second venue's session start changed nothing of its own, and the quote's sides had no venue
/// until they changed.
#[test]
fn a_second_venue_without_a_value_leaves_the_first_ones_name_at_the_quote() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut feed = named_source(&market, "feed", "V1");
    feed.begin(1).venue(&venue(2, "V2"));
    send(&mut feed, &[quote(0, 1, 10, 20), trade(0, 1, 15, 1)]);
    let Message::SessionStart(start) = start(
        0,
        PRICE_UNDEFINED,
        ReferenceKind::PREVIOUS_CLOSE,
        SessionStart::KEEPS,
    ) else {
        unreachable!("it is a session start");
    };
    let mut batch = feed.begin(2);
    batch.message(
        1,
        &Message::SessionStart(SessionStart { source: 2, ..start }),
    );
    let (text, _) = message(&batch.finish()).unwrap();
    let venues = "\"bid_venue\":\"V1\",\"ask_venue\":\"V1\",\"last_venue\":\"V1\"";
    assert!(text.contains(venues), "{text}");
    assert!(text.contains("\"venue\":\"V1,V2\""), "{text}");
    // The venues stay when all are stale.
    feed.lose(3);
    let value = value_of(&market, "A");
    let name = market.board.venues().name(value.venues.bid);
    assert_eq!((name.as_deref(), value.bid), (Some("V1"), 10));
}

/// The book of `A`, which both names had shown, stayed at the hub's new symbol `A@V1`.
#[test]
fn what_was_a_symbols_second_name_has_none_of_its_book() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    define(&mut hub, 1, "A@V1");
    send(
        &mut hub,
        &[quote(1, 1, 10, 20), quote(0, CONSOLIDATED, 10, 20)],
    );
    restart(&mut hub);
    send(
        &mut hub,
        &[quote(0, 1, 30, 40), clear(0, 1), set_level(0, 1, 30)],
    );
    assert_eq!(best_bids(&market, "A@V1"), [30]);
    define(&mut hub, 1, "A@V1");
    assert!(best_bids(&market, "A@V1").is_empty());
    send(&mut hub, &[quote(1, 1, 31, 40), set_level(1, 1, 31)]);
    assert!(best_bids(&market, "A@V1").is_empty(), "no clear yet");
    assert_eq!(best_bids(&market, "A"), [30]);
}

/// A hub's topic had got another venue, under which the end of its book came: the book stayed.
#[test]
fn the_end_of_a_hubs_book_ends_it_under_each_number() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    send(
        &mut hub,
        &[quote(0, 1, 10, 20), clear(0, 1), set_level(0, 1, 10)],
    );
    let end = Message::Level(Level {
        source: 2,
        action: Level::END,
        is_last: 1,
        ..Level::default()
    });
    send(&mut hub, &[end]);
    assert!(best_bids(&market, "A").is_empty());
    send(&mut hub, &[quote(0, 2, 11, 20), set_level(0, 2, 11)]);
    assert!(best_bids(&market, "A").is_empty(), "no clear yet");
    assert_eq!(&*facts(&market, "A").venue_name, "V2");
    // That of a publisher is of the venue that it names.
    let mut feed = named_source(&market, "feed", "V1");
    define(&mut feed, 1, "B");
    send(
        &mut feed,
        &[quote(1, 1, 10, 20), clear(1, 1), set_level(1, 1, 10)],
    );
    let Message::Level(end) = end else {
        unreachable!("it is a level");
    };
    send(&mut feed, &[Message::Level(Level { symbol: 1, ..end })]);
    assert_eq!(best_bids(&market, "B"), [10]);
}

/// The second name's topic had the number without holding it: a number in use could become another
/// venue's, and a debug build ended when the topic got one of its own.
#[test]
fn a_symbols_second_name_holds_the_number_of_its_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "hub");
    define(&mut hub, 1, "A@V1");
    send(
        &mut hub,
        &[quote(1, 2, 10, 20), quote(0, CONSOLIDATED, 10, 20)],
    );
    restart(&mut hub);
    send(&mut hub, &[quote(0, 1, 30, 40)]);
    assert_eq!(shown(&market, "A@V1"), (30, 0));
    // Both leave the number, one after the other.
    send(&mut hub, &[quote(0, 2, 31, 40)]);
    define(&mut hub, 1, "A@V1");
    send(&mut hub, &[quote(1, 2, 32, 40)]);
    assert_eq!(&*facts(&market, "A@V1").venue_name, "V2");
    assert_eq!(market.board.venues().number("V1"), Some(1));
}

/// The volume of all venues was that of `A@V2` for a moment: it went up, and back.
#[test]
fn after_a_hubs_restart_a_venue_does_not_have_the_volume_of_all_venues_for_a_moment() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = hub(&market, "one");
    define(&mut hub, 1, "A@V1");
    define(&mut hub, 2, "A@V2");
    send(&mut hub, &[trade(1, 1, 10, 12), trade(2, 2, 10, 7)]);
    let all = [12, 7].map(|size| trade(0, CONSOLIDATED, 10, size));
    send(&mut hub, &all);
    assert_eq!(value_of(&market, "A").volume, 19);
    restart(&mut hub);
    let from = market.journal.lock().next_sequence();
    let nothing = LastValue {
        source: 2,
        ..LastValue::new(0)
    };
    send(&mut hub, &[Message::LastValue(nothing), trade(0, 2, 10, 3)]);
    for name in ["A", "A@V2"] {
        assert_eq!(value_of(&market, name).volume, 3, "{name}");
    }
    let journal = market.journal.lock();
    let told = (from..journal.next_sequence()).filter_map(|sequence| journal.message(sequence));
    let volumes: Vec<u64> = told
        .filter_map(|message| match message {
            Message::LastValue(value) => Some(value.volume),
            _ => None,
        })
        .collect();
    assert!(
        !volumes.is_empty() && volumes.iter().all(|volume| *volume == 0),
        "{volumes:?}"
    );
}

/// A recording has a symbol that was defined, and had no value when its publisher left, as a value
/// with source 0. Where that number was another symbol's venue, the replay made a venue of it, and
/// `A@consolidated`.
#[test]
fn a_record_of_nothing_in_a_recording_makes_no_venue() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut replay = named_source(&market, "replay", "V1");
    let mut batch = replay.begin(1);
    batch.venue(&venue(0, "p"));
    batch.finish();
    let nothing = Message::LastValue(LastValue::new(0));
    send(&mut replay, &[nothing, quote(0, 1, 10, 20)]);
    assert_eq!(shown(&market, "A"), (10, 0));
    assert_eq!(&*facts(&market, "A").venue_name, "V1");
    replay
        .begin(1)
        .venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    send(&mut replay, &[quote(0, CONSOLIDATED, 11, 19)]);
    assert_eq!(shown(&market, "A"), (11, 0));
    for name in ["A@p", "A@V1", "A@consolidated"] {
        assert!(market.board.named(name).is_none(), "{name}");
    }
}

/// The second run of a recorded hub began with one venue again. When it found the other one, the
/// value went on in `A@consolidated`, and was not part of `A` any more.
#[test]
fn a_recording_of_two_runs_of_a_hub_stays_part_of_a_symbol_that_another_source_gives_too() {
    let record = |symbol: u32, source: u16, volume: u64| {
        Message::LastValue(LastValue {
            source,
            volume,
            figures: Some(Figures::default()),
            ..LastValue::new(symbol)
        })
    };
    for (before, recorded_first) in [(true, false), (true, true), (false, true)] {
        let market = Market::of_one_lane(MarketConfig::default());
        let mut own = named_source(&market, "own", "V3");
        let mut replay = named_source(&market, "replay", "V1");
        let mut other = |when: bool| {
            if when {
                send(&mut own, &[quote(0, 1, 5, 30), trade(0, 1, 9, 10)]);
            }
        };
        other(before && !recorded_first);
        for (run, volume) in [(0, 1), (1, 2), (2, 3)] {
            define(&mut replay, 0, "A");
            let begins = [
                record(0, 1, 0),
                quote(0, 1, 10, 20),
                trade(0, 1, 15, volume),
            ];
            send(&mut replay, &begins);
            other(before && recorded_first && run == 0);
            define(&mut replay, 1, "A@V1");
            send(&mut replay, &[record(1, 1, volume.into())]);
            let mut batch = replay.begin(1);
            batch.venue(&venue(2, "V2"));
            batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
            batch.finish();
            send(&mut replay, &[record(0, CONSOLIDATED, volume.into())]);
            define(&mut replay, 2, "A@V2");
            send(
                &mut replay,
                &[
                    record(2, 2, 0),
                    trade(2, 2, 16, 100),
                    trade(0, CONSOLIDATED, 16, 100),
                    quote(0, CONSOLIDATED, 11, 20),
                ],
            );
            other(!before && run == 1);
            let own_volume = if before || run > 0 { 10 } else { 0 };
            let value = value_of(&market, "A");
            let all = 100 + u64::from(volume) + own_volume;
            assert_eq!((value.volume, value.bid), (all, 11), "run {run}");
        }
        let names = facts(&market, "A").venue_name.clone();
        assert!(names.contains(CONSOLIDATED_NAME) && names.contains("V3"));
        assert_eq!(shown(&market, "A@consolidated"), (11, 0));
        assert_eq!(market.ingest.refused.load(Ordering::Relaxed), 0);
    }
}
