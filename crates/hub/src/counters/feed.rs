//! Counters of market data: feeds, the retransmission window, the recording, and Databento clients.

use std::sync::atomic::Ordering;

use tidewire_redis::registry::{Page, Unit, line};

use super::HubCounter;
use super::look::HubLook;

pub(super) const FEED: &[HubCounter] = &[
    HubCounter::count("feed_sources", |look| look.market.connected_feeds())
        .gauge(1210, "feed_sources")
        .help("Connected feeds: sources that answer, inputs with a session, and publishers.")
        .watched("sources"),
    HubCounter::atomic("feed_applied_messages", |look| &look.market.ingest.applied)
        .counter(1220, "feed_applied_total")
        .help("Messages of sources applied, of all kinds.")
        .watched("applied"),
    HubCounter::atomic("feed_snapshot_records", |look| {
        &look.market.ingest.snapshot_records
    }),
    HubCounter::atomic("feed_refused_messages", |look| &look.market.ingest.refused)
        .counter(1260, "feed_refused_total")
        .help("Messages refused as invalid."),
    HubCounter::atomic("feed_refused_publishers", |look| {
        &look.market.ingest.refused_publishers
    })
    .counter(1261, "feed_publishers_refused_total")
    .help("Publishers refused because another connection publishes their session."),
    HubCounter::count("feed_venues", |look| look.market.board.venues().count())
        .gauge(1262, "feed_venues")
        .help("Venues with a number of their own."),
    HubCounter::count("feed_unnumbered_venues", |look| {
        look.market.board.venues().shared()
    })
    .counter(1263, "feed_venues_unnumbered_total")
    .help("Venues that got no number of their own because a limit was reached."),
    HubCounter::atomic("feed_gaps", |look| &look.market.ingest.gaps)
        .counter(1230, "feed_gaps_total")
        .help("Gaps in sequences.")
        .watched("gaps"),
    HubCounter::atomic("feed_recovered_messages", |look| {
        &look.market.ingest.recovered
    })
    .counter(1240, "feed_recovered_total")
    .help("Messages recovered after a gap.")
    .watched("recovered"),
    HubCounter::atomic("feed_lost_messages", |look| &look.market.ingest.lost)
        .counter(1250, "feed_lost_total")
        .help("Messages lost for good.")
        .watched("lost"),
    HubCounter::atomic("feed_datagram_packets", |look| {
        &look.market.broadcast.packets
    })
    .when(has_lines),
    HubCounter::atomic("feed_datagrams_refused", |look| {
        &look.market.broadcast.refused
    })
    .when(has_lines),
    HubCounter::atomic("feed_conflated_messages", |look| {
        &look.market.slow_feeds.conflated
    }),
    HubCounter::atomic("feed_dropped_messages", |look| {
        &look.market.slow_feeds.dropped
    })
    .counter(1021, "messages_dropped_total")
    .label("class", "feed"),
    HubCounter::atomic("feed_cut_off_clients", |look| {
        &look.market.slow_feeds.cut_off
    })
    .counter(1031, "subscribers_cut_off_total")
    .label("class", "feed"),
    HubCounter::count("feed_session", |look| look.window().session.into()),
    HubCounter::count("feed_next_sequence", |look| look.window().next_sequence),
    HubCounter::count("feed_oldest_sequence", |look| look.window().oldest_sequence),
    HubCounter::count("feed_window_messages", |look| look.window().capacity)
        .gauge(1300, "feed_window_messages_max")
        .help("Maximum number of messages kept for retransmission."),
    HubCounter::flag("recording", |look| {
        look.market.recording.enabled.load(Ordering::Relaxed)
    })
    .gauge(1400, "recording_enabled")
    .help("Whether market data is recorded."),
    HubCounter::atomic("recording_messages", |look| &look.market.recording.messages)
        .counter(1410, "recording_messages_total")
        .help("Messages written to the recording."),
    HubCounter::atomic("recording_bytes", |look| &look.market.recording.bytes)
        .counter(1420, "recording_bytes_total")
        .help("Bytes written to the recording."),
    HubCounter::atomic("recording_lost_messages", |look| {
        &look.market.recording.lost
    })
    .counter(1430, "recording_lost_total")
    .help("Messages missing in the recording: the disk was full or too slow."),
    HubCounter::atomic("recording_errors", |look| &look.market.recording.errors)
        .counter(1440, "recording_errors_total")
        .help("Failed writes; each is retried."),
    HubCounter::atomic("databento_clients", |look| &look.market.databento.clients)
        .gauge(1500, "databento_clients")
        .help("Databento clients connected now."),
    HubCounter::atomic("databento_records", |look| &look.market.databento.records)
        .counter(1510, "databento_records_total")
        .help("Records sent to Databento clients."),
    HubCounter::atomic("databento_skipped_messages", |look| {
        &look.market.databento.skipped
    })
    .counter(1520, "databento_skipped_total")
    .help("Messages skipped because Databento clients were too slow."),
    HubCounter::atomic("databento_refused_clients", |look| {
        &look.market.databento.refused
    })
    .counter(1530, "databento_refused_total")
    .help("Databento clients with a wrong key, or above the limit."),
    HubCounter::atomic("feed_records", |look| &look.market.records.applied)
        .counter(1540, "feed_records_total")
        .help("DBN records taken from sources."),
    HubCounter::atomic("feed_refused_records", |look| &look.market.records.refused)
        .counter(1550, "feed_refused_records_total")
        .help("DBN records with an unknown type or a wrong length."),
    HubCounter::atomic("feed_kept_orders", |look| &look.market.records.orders)
        .gauge(1560, "feed_kept_orders")
        .help("Open orders kept for mbo snapshots."),
    HubCounter::count("feed_window_messages_kept", |look| look.window().messages)
        .gauge(1310, "feed_window_messages")
        .help("Messages kept for retransmission."),
    HubCounter::count("feed_window_bytes", |look| look.window().bytes)
        .gauge(1320, "feed_window_bytes")
        .help("Bytes of those messages."),
    HubCounter::time("feed_window_source_ms", Unit::Milliseconds, |look| {
        look.window().span_ns
    })
    .gauge(1330, "feed_window_seconds")
    .help("Source time that those messages span."),
    HubCounter::lines(|look, out| {
        for (number, status) in look.market.inputs.iter().enumerate() {
            line(out, &format!("feed_input{number}"), &*status.lock());
        }
    }),
    HubCounter::count("feed_clock_ahead_messages", |look| {
        look.market.clocks.total().messages
    })
    .counter(1280, "feed_clock_ahead_total")
    .help("Messages whose source time was ahead of our clock."),
    HubCounter::count("feed_clock_ahead_max_us", |look| {
        look.market.clocks.total().max_ns / 1_000
    }),
    HubCounter::lines(|look, out| {
        for (number, clock) in look.market.clocks.sources().iter().enumerate() {
            line(out, &format!("feed_clock_ahead{number}"), clock);
        }
    }),
    HubCounter::series(|look, name, page| {
        for clock in look.market.clocks.sources() {
            let max_s = clock.ahead.max_ns as f64 / 1e9;
            page.value(name, &[("source", &clock.name)], max_s);
        }
    })
    .gauge(1281, "feed_clock_ahead_seconds_max")
    .help("Longest time that a source's clock was ahead of ours."),
    HubCounter::time("feed_latency_p50_ns", Unit::Nanoseconds, |look| {
        look.latency().p50_ns
    })
    .metric(1270, "summary", "feed_latency_seconds")
    .label("quantile", "0.5")
    .help("Source time to last value, lately, by quantile.")
    .watched("latency_ns.p50"),
    HubCounter::time("feed_latency_p99_ns", Unit::Nanoseconds, |look| {
        look.latency().p99_ns
    })
    .metric(1271, "summary", "feed_latency_seconds")
    .label("quantile", "0.99")
    .watched("latency_ns.p99"),
    HubCounter::time("feed_latency_p999_ns", Unit::Nanoseconds, |look| {
        look.latency().p999_ns
    })
    .metric(1272, "summary", "feed_latency_seconds")
    .label("quantile", "0.999")
    .watched("latency_ns.p999"),
    HubCounter::series(latency_sum).metric(1273, "summary", "feed_latency_seconds"),
];

fn has_lines(look: &HubLook<'_>) -> bool {
    look.config.market.feed_lines.is_some()
}

fn latency_sum(look: &HubLook<'_>, name: &str, page: &mut Page) {
    let latency = look.latency();
    let sum_ns = latency.mean_ns as f64 * latency.count as f64;
    page.value(&format!("{name}_sum"), &[], sum_ns / 1e9);
    page.value(&format!("{name}_count"), &[], latency.count);
}
