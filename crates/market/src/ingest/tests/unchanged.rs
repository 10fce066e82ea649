//! What subscribers have heard is not published again without a change.

use super::*;

/// Returns the messages of a publication under a name, as text.
fn under(news: &(Publication, u64), name: &str) -> Vec<String> {
    let own = news.0.news().filter(|news| news.name == name.as_bytes());
    own.map(|news| String::from_utf8_lossy(news.payload).into_owned())
        .collect()
}

fn sent(ingest: &mut Ingest, messages: &[Message]) -> (Publication, u64) {
    let mut batch = ingest.begin(2);
    messages
        .iter()
        .for_each(|message| batch.message(2, message));
    batch.finish()
}

fn start_at(source: u16) -> Message {
    Message::SessionStart(SessionStart {
        source,
        reference: 7,
        kind: ReferenceKind::PREVIOUS_CLOSE,
        rolls: 1,
        ..SessionStart::default()
    })
}

fn told(symbol: u32, source: u16, flags: u8) -> Message {
    Message::Certainty(Certainty {
        symbol,
        source,
        flags,
        ..Certainty::default()
    })
}

/// Subscribers of `md:A` got the same text twice.
#[test]
fn the_first_level_of_a_venue_behind_a_state_or_session_changes_no_value() {
    for first in [status(0, 1, TradingState::OPEN), start_at(1)] {
        for levels in [
            vec![set_level(0, 1, 10)],
            vec![clear(0, 1), set_level(0, 1, 10)],
        ] {
            let market = Market::of_one_lane(MarketConfig::default());
            let mut ingest = named_source(&market, "test", "V1");
            let news = sent(&mut ingest, &[first]);
            assert_eq!(under(&news, "md:A").len(), 1);
            let news = sent(&mut ingest, &levels);
            assert!(under(&news, "md:A").is_empty(), "{first:?}");
        }
    }
    // Without any message before it there is no value either.
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = named_source(&market, "test", "V1");
    let news = sent(&mut ingest, &[clear(0, 1), set_level(0, 1, 10)]);
    assert!(under(&news, "md:A").is_empty());
}

#[test]
fn the_first_level_of_another_session_or_source_is_published_where_the_value_is_another() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = source(&market, "one", 0, "A");
    sent(&mut ingest, &[quote(0, 0, 10, 20)]);
    ingest.lose(2);
    drop(ingest);
    let mut other = source(&market, "other", 0, "A");
    let news = sent(&mut other, &[clear(0, 0)]);
    let texts = under(&news, "md:A");
    let [text] = &texts[..] else {
        panic!("one message, not {texts:?}");
    };
    assert!(text.contains("\"stale\":0"), "{text}");
    assert!(text.contains("\"venue\":\"other\""), "{text}");
}

/// A level of a hub at another venue changes only the venue's name: that is told, once.
#[test]
fn the_first_level_of_a_hub_at_another_venue_tells_its_name_once() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = chains::hub(&market, "hub");
    sent(&mut hub, &[quote(0, 1, 10, 20)]);
    let news = sent(&mut hub, &[clear(0, 2), set_level(0, 2, 10)]);
    let texts = under(&news, "md:A");
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("\"venue\":\"V2\""), "{texts:?}");
}

/// What a hub says of a value's certainty was published also where subscribers knew it.
#[test]
fn a_certainty_that_is_known_is_not_published_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut hub = chains::hub(&market, "hub");
    sent(&mut hub, &[quote(0, 1, 10, 20)]);
    let counts = [
        (0, 0),
        (Certainty::LOST, 0),
        (Figures::IN_DOUBT, 1),
        (Figures::IN_DOUBT | Certainty::LOST, 0),
        (Figures::STALE | Figures::IN_DOUBT, 1),
        (Figures::STALE, 0),
        (0, 1),
    ];
    for (flags, count) in counts {
        let news = sent(&mut hub, &[told(0, 1, flags)]);
        assert_eq!(under(&news, "md:A").len(), count, "{flags}");
    }
    // The hub's own connection is a reason that its value may have already.
    sent(&mut hub, &[told(0, 1, Figures::STALE)]);
    assert!(under(&hub.lose(3), "md:A").is_empty());
    let mut batch = hub.begin(4);
    batch.revive();
    assert!(under(&batch.finish(), "md:A").is_empty());
}

/// A message that was published as in doubt came once more at the end of its batch.
#[test]
fn a_doubt_that_a_message_has_told_is_not_told_at_the_end_of_its_batch() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut ingest = named_source(&market, "test", "V1");
    sent(&mut ingest, &[quote(0, 1, 10, 20)]);
    let mut batch = ingest.begin(3);
    batch.values_doubtful();
    batch.message(2, &status(0, 1, TradingState::OPEN));
    let texts = under(&batch.finish(), "md:A");
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("\"stale\":2"), "{texts:?}");
    // Without a message it is told once.
    let mut batch = ingest.begin(4);
    batch.values_right();
    batch.finish();
    let mut batch = ingest.begin(5);
    batch.values_doubtful();
    assert_eq!(under(&batch.finish(), "md:A").len(), 1);
}

/// The topic that is left with the second name had the value again.
#[test]
fn a_namesake_that_has_the_value_does_not_get_it_again() {
    let market = Market::of_one_lane(MarketConfig::default());
    drop(source(&market, "before", 0, "A@V1"));
    let mut ingest = named_source(&market, "test", "V1");
    let news = sent(&mut ingest, &[status(0, 1, TradingState::OPEN)]);
    let last = under(&news, "md:A@V1").pop();
    assert!(last.is_some_and(|last| last.contains("\"state\":\"open\"")));
    let news = sent(&mut ingest, &[clear(0, 1), set_level(0, 1, 10)]);
    assert!(under(&news, "md:A@V1").is_empty());
    let news = sent(&mut ingest, &[told(0, 1, 0)]);
    assert!(under(&news, "md:A@V1").is_empty());
    let news = sent(&mut ingest, &[quote(0, 1, 10, 20)]);
    assert_eq!(under(&news, "md:A@V1").len(), 1);
}

/// A topic that is stale already was published again when its source defined it for itself.
#[test]
fn a_symbol_that_is_stale_is_not_published_again_when_it_is_set_apart() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut one = source(&market, "one", 0, "A@V1");
    sent(&mut one, &[quote(0, 9, 1, 2)]);
    one.lose(2);
    drop(one);
    let mut ingest = named_source(&market, "test", "V1");
    sent(&mut ingest, &[quote(0, 1, 10, 20)]);
    ingest.lose(3);
    let mut batch = ingest.begin(4);
    batch.definition(1, &definition(1, "A@V1"));
    assert!(under(&batch.finish(), "md:A@V1").is_empty());
}
