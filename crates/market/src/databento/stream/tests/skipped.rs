//! Clients that fell out of the journal.

use super::*;

/// Returns the kind and the instrument of each record that there is now.
fn all(stream: &mut Stream, market: &Market) -> Vec<(u8, u32)> {
    let mut out = Vec::new();
    while stream.produce(market, RECEIVED, &mut out) {}
    let (mut found, mut rest) = (Vec::new(), &out[..]);
    while let Some(&length) = rest.first() {
        let (record, others) = rest.split_at(usize::from(length) * 4);
        found.push((record[1], id_of(record)));
        rest = others;
    }
    found
}

/// A client of trades alone has no current values to get, and got no mapping either.
#[test]
fn a_symbol_defined_within_skipped_messages_is_mapped_before_its_records() {
    const ERROR: u8 = 0x15;
    const MAPPING: u8 = 0x16;
    for schema in ["trades", "ohlcv-1s", "mbp-1"] {
        let mut feed = Feed::with_journal(&["A"], 16);
        feed.trade(0, 2, T, 1);
        let mut stream = feed.session(&[&format!("schema={schema}|symbols=ALL_SYMBOLS")]);
        all(&mut stream, &feed.market);
        let mut batch = feed.ingest.begin(1);
        batch.definition(2, &Definition::new(1, Name::new("B").unwrap()));
        batch.finish();
        feed.trade(1, 2, T + 1, 1);
        for number in 0..64 {
            feed.trade(0, 2, T + 2 + number, 1);
        }
        let skipped = all(&mut stream, &feed.market);
        assert!(skipped.iter().any(|one| one.0 == ERROR), "{skipped:?}");
        // The first bar is not whole.
        for second in [1, 3, 5] {
            feed.trade(1, 2, T + second * SECOND, 2);
        }
        let told = [skipped, all(&mut stream, &feed.market)].concat();
        let b = feed.id("B");
        let of_b: Vec<u8> = told
            .iter()
            .filter(|one| one.1 == b)
            .map(|one| one.0)
            .collect();
        assert_eq!(of_b.first(), Some(&MAPPING), "{schema}: {of_b:?}");
        assert!(of_b.len() > 1, "{schema}: {of_b:?}");
        let mappings = of_b.iter().filter(|kind| **kind == MAPPING).count();
        assert_eq!(mappings, 1, "{schema}: {of_b:?}");
    }
}
