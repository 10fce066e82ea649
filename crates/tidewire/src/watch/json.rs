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
    escaped(&text.unwrap_or_default()) + "\n"
}

/// Escapes what a terminal would obey or hide, which JSON permits in strings. The values stay the
/// same.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        let is_shown = letter == '\n' || letter == ' ' || letter.is_ascii_graphic();
        if is_shown || !letter.is_ascii() && letter.escape_debug().len() == 1 {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
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
    if let Some(cluster) = &figures.cluster {
        document["cluster"] = cluster.json();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that differed in control characters only were one name.
    #[test]
    fn a_name_is_exact_in_json_and_nothing_in_it_reaches_the_terminal() {
        let names = [
            "A\u{1b}[2J",
            "A[2J",
            "A\u{202e}",
            "A\u{9b}",
            "A\u{7f}",
            "é\u{e0001}\n\"\\",
        ];
        for name in names {
            let text = escaped(&serde_json::to_string_pretty(&json!({ "symbol": name })).unwrap());
            assert!(
                text.chars()
                    .all(|c| c == '\n' || c == 'é' || c == ' ' || c.is_ascii_graphic())
            );
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["symbol"], name);
        }
    }
}
