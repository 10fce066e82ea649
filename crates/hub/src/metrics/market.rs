//! What market data passes through beside the last values: the window for retransmission, the
//! recording, and Databento's clients.

use std::sync::atomic::Ordering;

use super::{Page, load};
use crate::hub::Hub;

pub(super) fn market(hub: &Hub, page: &mut Page) {
    window(hub, page);
    recording(hub, page);
    databento(hub, page);
}

fn window(hub: &Hub, page: &mut Page) {
    let journal = hub.market.journal.lock();
    let (capacity, kept, bytes) = (journal.capacity(), journal.len(), journal.len_bytes());
    let times_ns = journal.source_times_ns();
    drop(journal);
    // Of a symbol's definition the time may be unknown, which is 0.
    let times_ns = times_ns.filter(|(oldest, newest)| *oldest > 0 && newest > oldest);
    let span_ns = times_ns.map_or(0, |(oldest, newest)| newest - oldest);
    let help = "Messages that can be sent again, at most.";
    page.one("feed_window_messages_max", "gauge", help, capacity);
    let help = "Messages that can be sent again.";
    page.one("feed_window_messages", "gauge", help, kept);
    let help = "Bytes of those messages.";
    page.one("feed_window_bytes", "gauge", help, bytes);
    let help = "Source time that those messages span.";
    page.one("feed_window_seconds", "gauge", help, span_ns as f64 / 1e9);
}

fn recording(hub: &Hub, page: &mut Page) {
    let recording = &hub.market.recording;
    let enabled = u8::from(recording.enabled.load(Ordering::Relaxed));
    let help = "Whether market data is recorded.";
    page.one("recording_enabled", "gauge", help, enabled);
    for (name, help, counter) in [
        (
            "recording_messages_total",
            "Messages written to the recording.",
            &recording.messages,
        ),
        (
            "recording_bytes_total",
            "Bytes written to the recording.",
            &recording.bytes,
        ),
        (
            "recording_lost_total",
            "Messages that the disk was too slow for.",
            &recording.lost,
        ),
        (
            "recording_errors_total",
            "Writes that failed; each is tried again.",
            &recording.errors,
        ),
    ] {
        page.one(name, "counter", help, load(counter));
    }
}

fn databento(hub: &Hub, page: &mut Page) {
    let databento = &hub.market.databento;
    let help = "Databento clients connected now.";
    page.one("databento_clients", "gauge", help, load(&databento.clients));
    for (name, help, counter) in [
        (
            "databento_records_total",
            "Records sent to Databento clients.",
            &databento.records,
        ),
        (
            "databento_skipped_total",
            "Messages that Databento clients were too slow for.",
            &databento.skipped,
        ),
        (
            "databento_refused_total",
            "Databento clients with a wrong key, or one too many.",
            &databento.refused,
        ),
    ] {
        page.one(name, "counter", help, load(counter));
    }
}
