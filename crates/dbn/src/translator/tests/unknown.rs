//! Records whose time is not known, or whose symbol cannot be told.

use super::*;

/// Metadata of a name with the id 42 in the year 2024, of a stream without one schema.
pub(super) fn metadata_of(name: &str) -> Metadata {
    let interval = crate::MappingInterval {
        start_date: 20_240_101,
        end_date: 20_250_101,
        symbol: "42".to_owned(),
    };
    Metadata {
        version: 3,
        dataset: "XNAS.ITCH".to_owned(),
        schema: None,
        start_ns: NOON_NS,
        end_ns: None,
        limit: None,
        stype_in: Some(1),
        stype_out: 0,
        ts_out: false,
        symbol_length: 71,
        symbols: Vec::new(),
        partial: Vec::new(),
        not_found: Vec::new(),
        mappings: vec![crate::SymbolMapping {
            raw_symbol: name.to_owned(),
            intervals: vec![interval],
        }],
    }
}

/// A time that was not known went out as one in the year 2554, and closed the bars of all symbols.
#[test]
fn a_message_whose_time_is_not_known_has_the_time_0_and_its_name() {
    let without_times = |mut bytes: Vec<u8>, place: usize| {
        put(&mut bytes, 8, &UNDEFINED_TIME.to_le_bytes());
        put(&mut bytes, place, &UNDEFINED_TIME.to_le_bytes());
        bytes
    };
    let mut order = order(42, NOON_NS, b'A', 1, 100, 0x80);
    order[2] = 2;
    let mut statistic = statistic(1, 42, NOON_NS, UNDEFINED_TIME, 100);
    statistic[2] = 2;
    for bytes in [
        without_times(trade(2, 42, NOON_NS, 100), 32),
        without_times(level(0x01, 2, 42, NOON_NS, 100), 32),
        without_times(level(0xC3, 2, 42, NOON_NS, 100), 32),
        without_times(status(2, 42, NOON_NS, 7, 0), 16),
        without_times(order, 40),
        without_times(statistic, 16),
    ] {
        // As the first record, and behind one with a time.
        for is_first in [true, false] {
            let mut translator = Translator::default();
            translator.add_metadata(&metadata_of("AAPL")).unwrap();
            let before = trade(2, 42, NOON_NS + 5, 100);
            if !is_first {
                apply(&mut translator, &before);
            }
            for message in apply(&mut translator, &bytes) {
                let time_ns = match message {
                    Message::Trade(trade) => trade.source_time_ns,
                    Message::Quote(quote) => quote.source_time_ns,
                    Message::Status(status) => status.source_time_ns,
                    Message::SessionStart(start) => start.source_time_ns,
                    Message::Definition(definition) => {
                        assert_eq!(definition.name.as_str(), "AAPL");
                        0
                    }
                    _ => 0,
                };
                assert_eq!(time_ns, 0, "{message:?}");
            }
            let times = translator.accounting().source_times_ns();
            assert_eq!(times, (!is_first).then_some((NOON_NS + 5, NOON_NS + 5)));
        }
    }
}

/// Two symbols that begin with the same 72 bytes were one.
#[test]
fn a_symbol_that_is_too_long_is_left_out_and_not_cut() {
    let fits = "Q".repeat(72);
    for (name, is_taken) in [(fits.clone(), true), (format!("{fits}A"), false)] {
        let mut translator = Translator::default();
        translator.add_metadata(&metadata_of(&name)).unwrap();
        let mut said = |bytes: &[u8]| {
            let messages = apply(&mut translator, bytes);
            (kinds(&messages), translator.take_long_name())
        };
        let mut imbalance = record(0x14, 112, 2, 42, NOON_NS);
        put(&mut imbalance, 16, &NOON_NS.to_le_bytes());
        let records = [
            trade(2, 42, NOON_NS, 100),
            level(0x01, 2, 42, NOON_NS, 100),
            status(2, 42, NOON_NS, 7, 0),
            order(42, NOON_NS, b'A', 1, 100, 0x80),
            settlement(42, NOON_NS, NOON_NS, 100),
            bar(42, NOON_NS, 100),
            imbalance.clone(),
        ];
        let first = said(&records[0]);
        if is_taken {
            assert_eq!(first, ("VDST".to_owned(), None));
            continue;
        }
        assert_eq!(first, (String::new(), Some(name.as_str().into())));
        for bytes in &records[1..] {
            assert_eq!(said(bytes), (String::new(), None), "told once");
        }
        let imbalance = RecordRef::new(&imbalance).expect("a whole record");
        assert_eq!(translator.carry(&imbalance, |_| {}), None);
        let accounting = translator.accounting();
        let unused = accounting.unused();
        let unused: Vec<_> = unused.map(|(_, reason, count)| (reason, count)).collect();
        assert_eq!(unused, [(Unused::NameTooLong, 1); 7]);
    }
}
