//! The figures as JSON, for scripts. docs/OPERATIONS.md describes the document.

use serde_json::{Value, json};

use super::sight::{Row, Sight, defined};
use super::spread::Percentiles;

/// Returns the document, over several lines if `pretty`, otherwise in one.
pub(super) fn document(sight: &Sight, rows: &[&Row], pretty: bool) -> String {
    let document = value(sight, rows);
    let text = match pretty {
        true => serde_json::to_string_pretty(&document),
        false => serde_json::to_string(&document),
    };
    text.unwrap_or_default() + "\n"
}

fn value(sight: &Sight, rows: &[&Row]) -> Value {
    let connection = &sight.connection;
    let loss = &sight.loss;
    json!({
        "version": 1,
        "pattern": sight.patterns,
        "connection": {
            "state": connection.state.name(),
            "seconds": seconds(sight.connected_for),
            "reconnects": connection.reconnects,
            "reason": connection.reason,
            "session": sight.session,
            "next_sequence": sight.next_sequence,
        },
        "period_s": seconds(sight.period),
        "messages": sight.messages,
        "messages_per_second": sight.rate,
        "latency_ns": latency(&sight.all, sight),
        "recovery": {
            "gaps": loss.gaps,
            "recovered": loss.recovered,
            "lost": loss.lost,
            "conflated": loss.conflated,
            "corrupt_packets": loss.corrupt,
            "duplicate_packets": loss.duplicate,
        },
        "hub": hub(sight),
        "symbol_count": sight.rows.len(),
        "symbols_left_out": sight.left_out,
        "symbols": rows.iter().map(|row| symbol(row)).collect::<Vec<_>>(),
    })
}

fn symbol(row: &Row) -> Value {
    let value = &row.value;
    json!({
        "symbol": row.symbol,
        "bid": price(value.bid),
        "bid_size": value.bid_size,
        "ask": price(value.ask),
        "ask_size": value.ask_size,
        "last": price(value.last),
        "last_size": value.last_size,
        "volume": value.volume,
        "change_pct": row.change_ppm().map(|ppm| ppm as f64 / 10_000.0),
        "updates": row.updates,
        "updates_per_second": row.rate,
        "state": value.state.0,
        "seq": value.sequence,
        "ts": value.source_time_ns,
    })
}

fn latency(spread: &Percentiles, sight: &Sight) -> Value {
    json!({
        "count": spread.count,
        "min": spread.min_ns,
        "p50": spread.p50_ns,
        "p90": spread.p90_ns,
        "p99": spread.p99_ns,
        "p999": spread.p999_ns,
        "max": spread.max_ns,
        "ahead_of_clock": sight.ahead,
        "older_than_60_s": sight.old,
    })
}

fn hub(sight: &Sight) -> Value {
    let Ok((figures, rate)) = &sight.hub else {
        return Value::Null;
    };
    let mut document = json!({ "version": figures.version, "applied_per_second": rate });
    for (name, number) in figures.numbers() {
        match name.split_once('.') {
            Some((object, part)) => document[object][part] = json!(number),
            None => document[name] = json!(number),
        }
    }
    document
}

/// Returns a number, or null for no price.
fn price(price: i64) -> Value {
    defined(price).map_or(Value::Null, |price| json!(price as f64 / 1e9))
}

fn seconds(duration: std::time::Duration) -> f64 {
    duration.as_millis() as f64 / 1e3
}
