//! INFO sections that do not belong to the Redis server: topics, feeds, plant.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_redis::Refusal;

use crate::hub::Hub;

/// In the order in which INFO shows them.
pub(crate) const SECTIONS: &[&str] = &["Topics", "Feed", "Plant"];

/// Appends the lines of one of [`SECTIONS`].
pub(crate) fn write_section(hub: &Hub, name: &str, out: &mut String) {
    match name {
        "Topics" => topics(hub, out),
        "Feed" => feed(hub, out),
        _ => plant(hub, out),
    }
}

fn topics(hub: &Hub, out: &mut String) {
    let fanout = &hub.post.counters;
    line(out, "market_topics", hub.market.board.slots().len());
    line(out, "delivered_messages", read(&fanout.delivered));
    line(out, "conflated_messages", read(&fanout.conflated));
    line(out, "dropped_messages", read(&fanout.dropped));
    line(out, "cut_off_subscribers", read(&fanout.cut_off));
    let left_out = hub.server.keyspace.mounted_left_out();
    line(out, "mounted_keys_left_out", left_out);
    line(out, "zmq_pushed_messages", read(&hub.pushes.taken));
    line(out, "zmq_rejected_messages", read(&hub.pushes.left_out));
    for refusal in Refusal::ALL {
        let name = format!("zmq_rejected_{}", refusal.name());
        line(out, &name, hub.pushes.refused(refusal));
    }
    line(out, "zmq_parked_peers", hub.pushes.parked());
    let [answered, refused] = &hub.zmq_requests;
    line(out, "zmq_answered_requests", read(answered));
    line(out, "zmq_refused_requests", read(refused));
}

fn feed(hub: &Hub, out: &mut String) {
    let ingest = &hub.market.ingest;
    let latency = hub.market.latency.statistics();
    let journal = hub.market.journal.lock();
    let (session, next) = (journal.session(), journal.next_sequence());
    let (oldest, capacity) = (journal.oldest_sequence(), journal.capacity());
    let (kept, kept_bytes) = (journal.len(), journal.len_bytes());
    let times_ns = journal.source_times_ns();
    drop(journal);
    // Of a symbol's definition the time may be unknown, which is 0.
    let times_ns = times_ns.filter(|(oldest, newest)| *oldest > 0 && newest > oldest);
    let kept_ms = times_ns.map_or(0, |(oldest, newest)| (newest - oldest) / 1_000_000);
    line(out, "feed_sources", read(&ingest.sources));
    line(out, "feed_applied_messages", read(&ingest.applied));
    line(out, "feed_snapshot_records", read(&ingest.snapshot_records));
    line(out, "feed_refused_messages", read(&ingest.refused));
    line(out, "feed_gaps", read(&ingest.gaps));
    line(out, "feed_recovered_messages", read(&ingest.recovered));
    line(out, "feed_lost_messages", read(&ingest.lost));
    if hub.config.market.feed_lines.is_some() {
        line(
            out,
            "feed_datagram_packets",
            read(&hub.market.broadcast.packets),
        );
        line(
            out,
            "feed_datagrams_refused",
            read(&hub.market.broadcast.refused),
        );
    }
    let slow = &hub.market.slow_feeds;
    line(out, "feed_conflated_messages", read(&slow.conflated));
    line(out, "feed_dropped_messages", read(&slow.dropped));
    line(out, "feed_cut_off_clients", read(&slow.cut_off));
    line(out, "feed_session", session);
    line(out, "feed_next_sequence", next);
    line(out, "feed_oldest_sequence", oldest);
    line(out, "feed_window_messages", capacity);
    let recording = &hub.market.recording;
    let enabled = recording.enabled.load(std::sync::atomic::Ordering::Relaxed);
    line(out, "recording", u8::from(enabled));
    line(out, "recording_messages", read(&recording.messages));
    line(out, "recording_bytes", read(&recording.bytes));
    line(out, "recording_lost_messages", read(&recording.lost));
    line(out, "recording_errors", read(&recording.errors));
    let databento = &hub.market.databento;
    line(out, "databento_clients", read(&databento.clients));
    line(out, "databento_records", read(&databento.records));
    line(out, "databento_skipped_messages", read(&databento.skipped));
    line(out, "databento_refused_clients", read(&databento.refused));
    line(out, "feed_window_messages_kept", kept);
    line(out, "feed_window_bytes", kept_bytes);
    line(out, "feed_window_source_ms", kept_ms);
    for (number, status) in hub.market.inputs.iter().enumerate() {
        line(out, &format!("feed_input{number}"), &*status.lock());
    }
    line(out, "feed_latency_p50_ns", latency.p50_ns);
    line(out, "feed_latency_p99_ns", latency.p99_ns);
    line(out, "feed_latency_p999_ns", latency.p999_ns);
}

/// Nothing without a plant.
fn plant(hub: &Hub, out: &mut String) {
    let Some(plant) = &hub.plant else { return };
    let counters = &plant.counters;
    let connected = counters.connected.load(Ordering::Relaxed);
    line(out, "plant_address", &plant.options.endpoint);
    line(out, "plant_connected", u8::from(connected));
    line(out, "plant_links", read(&counters.links));
    line(out, "plant_tags", plant.board.len());
    line(out, "plant_live_tags", read(&counters.live_tags));
    line(out, "plant_updates", read(&counters.updates));
    line(out, "plant_stale_marks", read(&counters.stale_marks));
    line(out, "plant_refreshes", read(&counters.refreshes));
    line(out, "plant_refused_names", read(&counters.refused_names));
    line(out, "plant_unreadable", read(&counters.unreadable));
    line(out, "plant_sequence", plant.board.sequence());
    line(out, "plant_writes_ok", read(&counters.writes_ok));
    line(out, "plant_writes_refused", read(&counters.writes_refused));
    line(out, "plant_writes_unknown", read(&counters.writes_unknown));
    line(
        out,
        "plant_writes_not_sent",
        read(&counters.writes_not_sent),
    );
    line(out, "plant_writes_waiting", read(&counters.writes_waiting));
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
