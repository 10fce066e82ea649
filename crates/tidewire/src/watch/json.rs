//! The figures as JSON, for scripts. docs/OPERATIONS.md describes the document.

use serde_json::{Value, json};

use super::sample::{Sample, SymbolRow, defined};
use super::spread::Percentiles;

/// Returns the document, over several lines if `pretty`, otherwise in one.
pub(super) fn document(sample: &Sample, rows: &[&SymbolRow], pretty: bool) -> String {
    let document = value(sample, rows);
    let text = match pretty {
        true => serde_json::to_string_pretty(&document),
        false => serde_json::to_string(&document),
    };
    text.unwrap_or_default() + "\n"
}

fn value(sample: &Sample, rows: &[&SymbolRow]) -> Value {
    let connection = &sample.connection;
    let loss = &sample.loss;
    json!({
        "version": 1,
        "pattern": sample.patterns,
        "connection": {
            "state": connection.state.name(),
            "seconds": seconds(sample.connected_for),
            "reconnects": connection.reconnects,
            "reason": connection.reason,
            "session": sample.session,
            "next_sequence": sample.next_sequence,
        },
        "period_s": seconds(sample.period),
        "messages": sample.messages,
        "messages_per_second": sample.rate,
        "latency_ns": latency(&sample.all, sample),
        "recovery": {
            "gaps": loss.gaps,
            "recovered": loss.recovered,
            "lost": loss.lost,
            "conflated": loss.conflated,
            "corrupt_packets": loss.corrupt,
            "duplicate_packets": loss.duplicate,
        },
        "hub": hub(sample),
        "symbol_count": sample.rows.len(),
        "symbols_left_out": sample.left_out,
        "symbols": rows.iter().map(|row| symbol(row)).collect::<Vec<_>>(),
    })
}

fn symbol(row: &SymbolRow) -> Value {
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
        "state_name": row.state(),
        "venue": &*row.venue,
        "seq": value.sequence,
        "ts": value.source_time_ns,
    })
}

fn latency(spread: &Percentiles, sample: &Sample) -> Value {
    json!({
        "count": spread.count,
        "min": spread.min_ns,
        "p50": spread.p50_ns,
        "p90": spread.p90_ns,
        "p99": spread.p99_ns,
        "p999": spread.p999_ns,
        "max": spread.max_ns,
        "ahead_of_clock": sample.ahead,
        "older_than_60_s": sample.old,
    })
}

fn hub(sample: &Sample) -> Value {
    let Ok((figures, rate)) = &sample.hub else {
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
