//! Which symbol a record is about, and which symbols are published.

use super::*;

/// The symbols of trades of the instrument 42 at these hours, behind `records`.
fn names_at(records: &[Vec<u8>], hours: &[u64]) -> Vec<String> {
    let mut translator = Translator::default();
    let mut names = Vec::new();
    for bytes in records {
        apply(&mut translator, bytes);
    }
    for hour in hours {
        let messages = apply(&mut translator, &trade(1, 42, at(*hour), 100));
        let symbol = messages.last().and_then(Message::symbol).expect("a trade");
        let name = translator.books().symbol_name(symbol);
        names.push(name.unwrap_or("ID42").to_owned());
    }
    names
}

fn at(hour: u64) -> u64 {
    NOON_NS + hour * (DAY_NS / 24)
}

/// A symbol mapping from one hour to another.
fn mapping_of(symbol: &str, hours: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = mapping(42, symbol);
    put(&mut bytes, 160, &at(hours.start).to_le_bytes());
    put(&mut bytes, 168, &at(hours.end).to_le_bytes());
    bytes
}

/// Its records went to the instrument's number.
#[test]
fn a_definition_names_an_id_whose_mapping_has_ended() {
    let first = mapping_of("A", 0..5);
    let define = |hour, symbol| definition(42, at(hour), symbol, 1, 1);
    for (records, expected) in [
        (vec![first.clone()], ["A", "A", "ID42", "ID42", "ID42"]),
        // Behind the end, before it, and a second one.
        (
            vec![first.clone(), define(6, "B")],
            ["A", "A", "ID42", "B", "B"],
        ),
        (
            vec![first.clone(), define(1, "B")],
            ["A", "A", "B", "B", "B"],
        ),
        (
            vec![first.clone(), define(1, "B"), define(9, "C")],
            ["A", "A", "B", "B", "C"],
        ),
        // What a mapping names stays so, also if it comes behind the definition.
        (
            vec![first.clone(), mapping_of("D", 6..8), define(1, "B")],
            ["A", "A", "B", "D", "B"],
        ),
        (
            vec![first, define(1, "B"), mapping_of("D", 6..8)],
            ["A", "A", "B", "D", "B"],
        ),
        (vec![define(1, "B")], ["B"; 5]),
        (
            vec![define(1, "B"), mapping_of("D", 6..8)],
            ["B", "B", "B", "D", "B"],
        ),
    ] {
        assert_eq!(names_at(&records, &[0, 4, 5, 7, 9]), expected);
    }
}

/// The end of a metadata interval left the id without the name of its definition.
#[test]
fn a_definition_names_an_id_behind_the_days_of_the_metadata() {
    let mut metadata = unknown::metadata_of("A");
    metadata.mappings[0].intervals[0].end_date = 20_240_308;
    let mut names = crate::SymbolNames::new();
    names.add_metadata(&metadata).unwrap();
    let bytes = definition(42, at(1), "B", 1, 1);
    let record = RecordRef::new(&bytes).expect("a whole record");
    names.add_record(&record.decode(), at(0)).unwrap();
    let name_at = |hour| names.name_at(42, at(hour)).0;
    assert_eq!([0, 2, 24].map(name_at), [Some("A"), Some("A"), Some("B")]);
}

/// The documentation said that a symbol of which only definitions speak is not published. Its
/// records are sent whole.
#[test]
fn a_symbol_of_definitions_alone_is_published_and_one_of_bars_alone_is_not() {
    let minute_bar = |time_ns| record(0x21, 56, 1, 7, time_ns);
    for (bytes, expected) in [
        (definition(7, NOON_NS, "A", 1, 1), "VD"),
        (statistic(7, 7, NOON_NS, NOON_NS, 100), "VD"),
    ] {
        let mut translator = Translator::default();
        assert!(apply(&mut translator, &bytes).is_empty());
        let mut messages = Vec::new();
        let whole = RecordRef::new(&bytes).expect("a whole record");
        let symbol = translator.carry(&whole, |message| messages.push(*message));
        assert_eq!((kinds(&messages).as_str(), symbol), (expected, Some(0)));
    }
    let mut translator = Translator::default();
    for bytes in [minute_bar(NOON_NS), bar(7, NOON_NS / DAY_NS * DAY_NS, 100)] {
        assert!(apply(&mut translator, &bytes).is_empty());
    }
}
