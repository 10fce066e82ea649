//! The fields of a market topic: as a hash, and as JSON. `docs/market-topics.md` describes them.

use std::sync::Arc;

use tidewire_fanout::write_json_text;
use tidewire_feed::wire::{
    AGGRESSOR_BUY, AGGRESSOR_SELL, CROSS, Definition, NOT_SHOWN, REPEATED, ReferenceKind,
    TradingState,
};
use tidewire_lastvalue::{MarketValue, PRICE_UNDEFINED, Venues};

use crate::board::staleness;
use crate::consolidated::Crossing;
use crate::decimal::{write_per_cent, write_price, write_unsigned};
use crate::topic::{Facts, Topic};
use crate::venues::VenueTable;

/// Receives the fields in their order.
trait Fields {
    /// A price; none if it is [`PRICE_UNDEFINED`].
    fn price(&mut self, name: &'static str, price: i64);
    fn unsigned(&mut self, name: &'static str, value: u64);
    /// The change in per cent, of parts per million.
    fn per_cent(&mut self, name: &'static str, parts_per_million: Option<i64>);
    fn text(&mut self, name: &'static str, text: &[u8]);
}

/// Writes the fields that every update has.
fn write_value(value: &MarketValue, fields: &mut impl Fields) {
    fields.price("bid", value.bid);
    fields.unsigned("bid_size", value.bid_size.into());
    fields.price("ask", value.ask);
    fields.unsigned("ask_size", value.ask_size.into());
    fields.price("last", value.last);
    fields.unsigned("last_size", value.last_size.into());
    fields.unsigned("volume", value.volume);
    fields.per_cent("change_pct", value.change_ppm());
    fields.unsigned("seq", value.sequence);
    fields.unsigned("ts", value.source_time_ns);
    fields.unsigned("recv_ts", value.receive_time_ns);
    fields.unsigned("stale", staleness(value));
    fields.text("state", TradingState(value.status.state).name().as_bytes());
}

/// Writes the fields that many updates lack. JSON leaves them out where they are unknown.
fn write_details(value: &MarketValue, fields: &mut impl Fields) {
    fields.text("reason", &reason_text(value.status.reason));
    fields.text("side", side_name(value.condition).as_bytes());
    fields.text("conditions", &conditions_text(value.condition));
    fields.price("open", value.session_open);
    fields.price("high", value.high);
    fields.price("low", value.low);
    fields.price("prev_close", value.reference.price);
    fields.text("change_from", change_from(value).as_bytes());
    fields.unsigned("trades", value.trades.into());
    fields.price("vwap", value.average_price().unwrap_or(PRICE_UNDEFINED));
    fields.unsigned("bid_orders", value.bid_orders.into());
    fields.unsigned("ask_orders", value.ask_orders.into());
    fields.text("book", Crossing::of(value).name().as_bytes());
    fields.unsigned("trading_day", value.trading_day.into());
}

/// Writes all fields of a topic as a Redis client sees them. A field that is unknown is empty, a
/// number of nothing is 0.
pub(crate) fn write_hash(
    topic: &Topic,
    value: &MarketValue,
    venues: &VenueTable,
    fields: &mut dyn FnMut(&[u8], &[u8]),
) {
    let mut hash = Hash {
        text: Vec::with_capacity(24),
        fields,
    };
    write_value(value, &mut hash);
    write_details(value, &mut hash);
    let facts = topic.facts();
    write_facts(&topic.definition(), &facts, &mut hash);
    write_venues(topic, value, venues, &facts, &mut hash);
}

/// Appends the JSON text of a market topic. `snapshot` marks a current value that replaces the
/// updates before it: the first of a subscription, or one after conflation.
pub(crate) fn write_json(
    out: &mut Vec<u8>,
    symbol: &[u8],
    topic: &Topic,
    value: &MarketValue,
    venues: &VenueTable,
    snapshot: bool,
) {
    out.extend_from_slice(b"{\"symbol\":");
    write_json_text(out, symbol);
    let mut json = Json {
        out,
        is_sparse: false,
    };
    write_value(value, &mut json);
    json.is_sparse = true;
    write_details(value, &mut json);
    topic.with_facts(|facts| {
        json.out.extend_from_slice(&facts.json);
        // Of one venue, "venue" says it.
        if topic.is_consolidated() {
            write_venues(topic, value, venues, facts, &mut json);
        }
    });
    if snapshot {
        out.extend_from_slice(b",\"snapshot\":true");
    }
    out.push(b'}');
}

/// Returns the JSON text of what changes seldom, to append to that of a value.
pub(crate) fn facts_json(definition: &Definition, facts: &Facts) -> Vec<u8> {
    let mut out = Vec::new();
    let mut json = Json {
        out: &mut out,
        is_sparse: true,
    };
    write_facts(definition, facts, &mut json);
    out
}

fn write_facts(definition: &Definition, facts: &Facts, fields: &mut impl Fields) {
    let tick = match definition.price_tick {
        0 => PRICE_UNDEFINED,
        tick => tick,
    };
    fields.price("tick", tick);
    let currency = definition.currency;
    let length = currency.iter().position(|&byte| byte == 0);
    fields.text("currency", &currency[..length.unwrap_or(currency.len())]);
    fields.text("source", facts.source_name.as_bytes());
    fields.text("venue", facts.venue_name.as_bytes());
}

/// Writes whose the quote's sides and the last trade are; nothing for a side that is empty.
fn write_venues(
    topic: &Topic,
    value: &MarketValue,
    venues: &VenueTable,
    facts: &Facts,
    fields: &mut impl Fields,
) {
    let is_consolidated = topic.is_consolidated();
    debug_assert!(
        is_consolidated || value.venues == Venues::NONE,
        "only a consolidated value names venues"
    );
    for (name, price, venue) in [
        ("bid_venue", value.bid, value.venues.bid),
        ("ask_venue", value.ask, value.venues.ask),
        ("last_venue", value.last, value.venues.last),
    ] {
        match (price, is_consolidated) {
            (PRICE_UNDEFINED, _) => fields.text(name, b""),
            (_, true) => fields.text(name, venue_name(venues, venue).as_bytes()),
            (_, false) => fields.text(name, facts.venue_name.as_bytes()),
        }
    }
}

/// Returns the name of a price's venue. A hub before this one may have consolidated the price: then
/// it has that number, which is [`Venues::NO_VENUE`] where there is no price.
fn venue_name(venues: &VenueTable, number: u16) -> Arc<str> {
    venues.name(number).unwrap_or_default()
}

struct Hash<'a> {
    text: Vec<u8>,
    fields: &'a mut dyn FnMut(&[u8], &[u8]),
}

impl Fields for Hash<'_> {
    fn price(&mut self, name: &'static str, price: i64) {
        self.text.clear();
        if price != PRICE_UNDEFINED {
            write_price(&mut self.text, price);
        }
        (self.fields)(name.as_bytes(), &self.text);
    }

    fn unsigned(&mut self, name: &'static str, value: u64) {
        let mut number = itoa::Buffer::new();
        (self.fields)(name.as_bytes(), number.format(value).as_bytes());
    }

    fn per_cent(&mut self, name: &'static str, parts_per_million: Option<i64>) {
        self.text.clear();
        if let Some(parts_per_million) = parts_per_million {
            write_per_cent(&mut self.text, parts_per_million);
        }
        (self.fields)(name.as_bytes(), &self.text);
    }

    fn text(&mut self, name: &'static str, text: &[u8]) {
        (self.fields)(name.as_bytes(), text);
    }
}

struct Json<'a> {
    out: &'a mut Vec<u8>,
    /// Whether unknown fields are left out.
    is_sparse: bool,
}

impl Json<'_> {
    #[inline]
    fn name(&mut self, name: &'static str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

impl Fields for Json<'_> {
    #[inline]
    fn price(&mut self, name: &'static str, price: i64) {
        if price != PRICE_UNDEFINED {
            self.name(name);
            write_price(self.out, price);
        } else if !self.is_sparse {
            self.name(name);
            self.out.extend_from_slice(b"null");
        }
    }

    #[inline]
    fn unsigned(&mut self, name: &'static str, value: u64) {
        if value != 0 || !self.is_sparse {
            self.name(name);
            write_unsigned(self.out, value);
        }
    }

    #[inline]
    fn per_cent(&mut self, name: &'static str, parts_per_million: Option<i64>) {
        self.name(name);
        match parts_per_million {
            Some(parts_per_million) => write_per_cent(self.out, parts_per_million),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    #[inline]
    fn text(&mut self, name: &'static str, text: &[u8]) {
        if !text.is_empty() || !self.is_sparse {
            self.name(name);
            write_json_text(self.out, text);
        }
    }
}

/// Returns a reason as text: that of four characters, as ITCH has them, or the number; empty for
/// none.
fn reason_text(reason: u32) -> Vec<u8> {
    let bytes = reason.to_le_bytes();
    if reason == 0 {
        return Vec::new();
    }
    if bytes.iter().all(|&byte| matches!(byte, b' '..=b'~')) {
        return bytes.trim_ascii().to_vec();
    }
    let mut text = Vec::new();
    write_unsigned(&mut text, reason.into());
    text
}

fn side_name(condition: u32) -> &'static str {
    match condition & (AGGRESSOR_BUY | AGGRESSOR_SELL) {
        AGGRESSOR_BUY => "buy",
        AGGRESSOR_SELL => "sell",
        _ => "",
    }
}

/// Returns the names of a trade's conditions, joined with commas. Bits without a name are given as
/// one number.
fn conditions_text(condition: u32) -> Vec<u8> {
    let mut text = Vec::new();
    let mut add = |name: &[u8]| {
        if !text.is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(name);
    };
    for (bit, name) in [(CROSS, "auction"), (NOT_SHOWN, "hidden")] {
        if condition & bit != 0 {
            add(name.as_bytes());
        }
    }
    let others = condition & !(AGGRESSOR_BUY | AGGRESSOR_SELL | CROSS | NOT_SHOWN | REPEATED);
    if others != 0 {
        add(itoa::Buffer::new().format(others).as_bytes());
    }
    text
}

/// Returns what the change is measured from.
fn change_from(value: &MarketValue) -> &'static str {
    match ReferenceKind(value.reference.kind).name() {
        Some(name) if value.reference.price != PRICE_UNDEFINED => name,
        _ if value.session_open != PRICE_UNDEFINED => "open",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::Name;
    use tidewire_lastvalue::{Reference, Status};

    fn topic(name: &str) -> Topic {
        let definition = Definition {
            price_tick: 10_000_000,
            currency: *b"USD\0",
            ..Definition::new(0, Name::new(name).unwrap())
        };
        Topic::new(0, &definition, 1)
    }

    fn json(topic: &Topic, value: &MarketValue, snapshot: bool) -> String {
        let mut out = Vec::new();
        write_json(
            &mut out,
            topic.symbol(),
            topic,
            value,
            &VenueTable::default(),
            snapshot,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_says_null_where_there_is_no_price_and_marks_a_snapshot() {
        let value = MarketValue {
            ask: 1_500_000_000,
            ..MarketValue::EMPTY
        };
        let text = json(&topic("A\"B"), &value, true);
        assert_eq!(
            text,
            "{\"symbol\":\"A\\\"B\",\"bid\":null,\"bid_size\":0,\"ask\":1.5,\"ask_size\":0,\
             \"last\":null,\"last_size\":0,\"volume\":0,\"change_pct\":null,\"seq\":0,\"ts\":0,\
             \"recv_ts\":0,\"stale\":0,\"state\":\"unknown\",\"tick\":0.01,\"currency\":\"USD\",\
             \"snapshot\":true}"
        );
    }

    #[test]
    fn what_is_known_of_a_symbol_is_in_both_forms() {
        let value = MarketValue {
            bid: 3_000_000_000,
            ask: 2_000_000_000,
            bid_orders: 4,
            last: 2_500_000_000,
            volume: 3,
            turnover: 7_500_000_000,
            trades: 2,
            condition: AGGRESSOR_SELL | CROSS | 64,
            session_open: 2_000_000_000,
            high: 2_500_000_000,
            low: 2_000_000_000,
            reference: Reference {
                price: 5_000_000_000,
                kind: ReferenceKind::PREVIOUS_SETTLEMENT.0,
            },
            status: Status {
                state: TradingState::HALTED.0,
                reason: u32::from_le_bytes(*b"T1  "),
            },
            trading_day: 20_260_102,
            ..MarketValue::EMPTY
        };
        let topic = topic("A");
        topic.set_facts(|facts| {
            facts.venue_name = "XNAS".into();
            facts.source_name = "feed".into();
        });
        let expected = "\"state\":\"halted\",\"reason\":\"T1\",\"side\":\"sell\",\
            \"conditions\":\"auction,64\",\"open\":2,\"high\":2.5,\"low\":2,\"prev_close\":5,\
            \"change_from\":\"prev_settlement\",\"trades\":2,\"vwap\":2.5,\"bid_orders\":4,\
            \"book\":\"crossed\",\"trading_day\":20260102,\"tick\":0.01,\"currency\":\"USD\",\
            \"source\":\"feed\",\"venue\":\"XNAS\"}";
        let text = json(&topic, &value, false);
        assert!(text.ends_with(expected), "{text}");
        assert!(text.contains("\"change_pct\":-50,"), "{text}");
        let mut hash = std::collections::HashMap::new();
        write_hash(&topic, &value, &VenueTable::default(), &mut |name, text| {
            let other = hash.insert(name.to_vec(), text.to_vec());
            assert!(other.is_none(), "a field has one name");
        });
        let field = |name: &str| String::from_utf8_lossy(&hash[name.as_bytes()]).into_owned();
        for part in expected.trim_end_matches('}').split(",\"") {
            let (name, text) = part.trim_start_matches('"').split_once("\":").unwrap();
            assert_eq!(field(name), text.trim_matches('"'));
        }
        assert_eq!(field("ask_orders"), "0");
        let value = MarketValue {
            bid: PRICE_UNDEFINED,
            ..value
        };
        write_hash(&topic, &value, &VenueTable::default(), &mut |name, text| {
            assert!(name != b"bid_venue" || text.is_empty(), "an empty side");
        });
    }

    #[test]
    fn a_reason_is_text_or_a_number() {
        assert_eq!(reason_text(0), b"");
        assert_eq!(reason_text(7), b"7");
        assert_eq!(reason_text(u32::from_le_bytes(*b"LUDP")), b"LUDP");
    }
}
