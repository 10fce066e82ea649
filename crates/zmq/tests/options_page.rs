//! `docs/zeromq-options.md` says what is.

use std::collections::BTreeMap;

use tidewire_zmq::{Context, SocketType};

const PAGE: &str = include_str!("../../../docs/zeromq-options.md");
const CONFORMANCE: &str = include_str!("../../../docs/conformance-zmq.md");
const HEADER: &str = include_str!("../../libzmq/include/zmq.h");

struct Row {
    number: i32,
    default: &'static str,
    shown_by: &'static str,
}

/// The rows of the page's tables by their option.
fn rows() -> BTreeMap<&'static str, Row> {
    let mut rows = BTreeMap::new();
    for line in PAGE.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[_, option, number, default, shown_by, _] = cells.as_slice() else {
            continue;
        };
        if let Ok(number) = number.parse() {
            let row = Row {
                number,
                default,
                shown_by,
            };
            assert!(
                rows.insert(option.trim_matches('`'), row).is_none(),
                "{option}"
            );
        }
    }
    rows
}

/// What stands in the text between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_page_names_every_option_of_the_header() {
    let rows = rows();
    let mut count = 0;
    for (from, to) in [
        ("ROUTING_ID", "NULL"),
        ("ZAP_ENFORCE_DOMAIN", "MSG_PROPERTY_ROUTING_ID"),
        ("SNDHWM_BYTES", "EVENT_DROPS_BEGIN"),
    ] {
        let place = |name| HEADER.find(&format!("#define ZMQ_{name} ")).unwrap();
        for line in HEADER[place(from)..place(to)].lines() {
            let Some(rest) = line.strip_prefix("#define ZMQ_") else {
                continue;
            };
            let mut words = rest.split_whitespace();
            let (name, value) = (words.next().unwrap(), words.next().unwrap());
            // What else is there are other names, and values of options.
            if let Ok(number) = value.parse::<i32>()
                && !name.starts_with("NOTIFY_")
            {
                let row = rows
                    .get(name)
                    .unwrap_or_else(|| panic!("{name} is missing"));
                assert_eq!(row.number, number, "{name}");
                count += 1;
            }
        }
    }
    assert_eq!(
        count,
        rows.len(),
        "the page names what is not in the header"
    );
}

#[test]
fn the_defaults_are_those_of_a_new_socket() {
    let context = Context::new();
    let socket = context.socket(SocketType::Dealer).unwrap();
    let mut compared = 0;
    for (name, row) in rows() {
        let Ok(default) = row.default.split(';').next().unwrap().parse::<i64>() else {
            continue;
        };
        let mut out = [0; 8];
        let found = match name {
            // The others tell of what is, not of what was set.
            "EVENTS" => continue,
            "AFFINITY" | "MAXMSGSIZE" => socket.option(row.number, &mut out),
            _ => socket.option(row.number, &mut out[..4]),
        };
        let value = match found.unwrap_or_else(|error| panic!("{name}: {error}")) {
            4 => i64::from(i32::from_ne_bytes(out[..4].try_into().unwrap())),
            _ => i64::from_ne_bytes(out),
        };
        assert_eq!(value, default, "{name}");
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn the_tests_that_the_page_names_are_there() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let mut named = 0;
    for (option, row) in rows() {
        let claims = ["kept", "of the context"];
        let is_claim = claims.iter().any(|claim| row.shown_by.starts_with(claim));
        assert!(
            is_claim || row.shown_by.contains('`'),
            "{option} is not shown"
        );
        for test in quoted(row.shown_by) {
            named += 1;
            if test.starts_with("test_") {
                let passed = format!("| {test} | passed |");
                assert!(CONFORMANCE.contains(&passed), "{option}: {test}");
            } else if let Some((file, function)) = test.split_once("::")
                && file.starts_with(char::is_lowercase)
            {
                let text = ["tests", "src"].iter().find_map(|place| {
                    std::fs::read_to_string(format!("{folder}{place}/{file}.rs")).ok()
                });
                let text = text.unwrap_or_else(|| panic!("{option}: no {file}.rs"));
                assert!(
                    text.contains(&format!("fn {function}()")),
                    "{option}: {test}"
                );
            }
        }
    }
    assert!(named > 70, "{named}");
}
