use super::*;
use crate::market::MarketConfig;
use tidewire_dbn::databento::Request;

#[test]
fn many_subscriptions_name_no_more_symbols_than_one_may() {
    let market = Market::of_one_lane(MarketConfig::default());
    let mut stream = Stream::default();
    for batch in 0..=10 {
        let symbols: Vec<String> = (0..NAMES_MAX / 10)
            .map(|number| format!("{batch}-{number}"))
            .collect();
        let line = format!("schema=trades|symbols={}", symbols.join(","));
        let Ok(Request::Subscribe(wanted)) = Request::parse(&line) else {
            panic!("no subscription");
        };
        stream.subscribe(&market, &wanted, Names::parse(&wanted).unwrap());
    }
    assert_eq!(stream.selection.names(Schema::Trades), NAMES_MAX);
    assert_eq!(stream.selection.names(Schema::Mbp1), 0);
    let last = stream.words.back();
    assert!(matches!(last, Some(Word::Error(_, text)) if text.contains("symbols in all")));
}
