//! The metrics page for Prometheus. A thread beside the lanes writes it: it reads counters, and
//! takes only locks that lanes hold briefly.

mod market;
mod plant;

use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_redis::{Page, Refusal, write_metrics};

use crate::hub::Hub;

/// All metrics of a hub in the Prometheus text format, version 0.0.4.
pub fn metrics(hub: &Hub) -> String {
    let mut page = Page::default();
    write_metrics(&hub.server, &mut page);
    messages(hub, &mut page);
    feed(hub, &mut page);
    market::market(hub, &mut page);
    plant::plant(hub, &mut page);
    page.into_text()
}

fn messages(hub: &Hub, page: &mut Page) {
    let fanout = &hub.post.counters;
    let help = "Messages written to subscribers.";
    page.one(
        "messages_delivered_total",
        "counter",
        help,
        load(&fanout.delivered),
    );
    let help = "Updates that a newer one replaced for a slow subscriber.";
    page.one(
        "messages_conflated_total",
        "counter",
        help,
        load(&fanout.conflated) + load(&hub.market.slow_feeds.conflated),
    );
    page.begin(
        "messages_dropped_total",
        "counter",
        "Plain messages that subscribers missed, by their class.",
    );
    let class = [("class", "zeromq")];
    page.value("messages_dropped_total", &class, load(&fanout.dropped));
    let (slow, class) = (&hub.market.slow_feeds, [("class", "feed")]);
    page.value("messages_dropped_total", &class, load(&slow.dropped));
    page.begin(
        "subscribers_cut_off_total",
        "counter",
        "Subscribers cut off at their output limit, by their class.",
    );
    let class = [("class", "redis")];
    page.value("subscribers_cut_off_total", &class, load(&fanout.cut_off));
    let class = [("class", "feed")];
    page.value("subscribers_cut_off_total", &class, load(&slow.cut_off));
    page.begin(
        "subscriptions",
        "gauge",
        "Names that somebody is subscribed to, by kind.",
    );
    let subscriptions = &hub.post.subscriptions;
    for (kind, count) in [
        ("channel", subscriptions.channel_count()),
        ("pattern", subscriptions.pattern_count()),
        ("shard_channel", subscriptions.shard_channel_count()),
    ] {
        page.value("subscriptions", &[("kind", kind)], count);
    }
    page.begin(
        "zeromq_peers",
        "gauge",
        "ZeroMQ peers by the kind of our socket.",
    );
    for (socket, peers) in ["pub", "pull", "router"].iter().zip(&hub.zmq_peers) {
        page.value("zeromq_peers", &[("socket", socket)], load(peers));
    }
    page.begin(
        "zeromq_pushed_total",
        "counter",
        "Messages of ZeroMQ pushers by outcome.",
    );
    for (outcome, counter) in [
        ("taken", &hub.pushes.taken),
        ("rejected", &hub.pushes.left_out),
    ] {
        page.value(
            "zeromq_pushed_total",
            &[("outcome", outcome)],
            load(counter),
        );
    }
    let help = "Messages of ZeroMQ pushers that were left out, by reason.";
    page.begin("zeromq_rejected_total", "counter", help);
    for refusal in Refusal::ALL {
        let labels = [("reason", refusal.name())];
        let count = hub.pushes.refused(refusal);
        page.value("zeromq_rejected_total", &labels, count);
    }
    let help = "ZeroMQ pushers that wait until keys may be written.";
    page.one("zeromq_parked_peers", "gauge", help, hub.pushes.parked());
}

fn feed(hub: &Hub, page: &mut Page) {
    let ingest = &hub.market.ingest;
    let topics = hub.market.board.slots().len();
    page.one("market_topics", "gauge", "Market topics.", topics);
    page.one(
        "feed_sources",
        "gauge",
        "Native feeds being read.",
        load(&ingest.sources),
    );
    for (name, help, counter) in [
        (
            "feed_applied_total",
            "Market messages applied.",
            &ingest.applied,
        ),
        ("feed_gaps_total", "Gaps in sequences.", &ingest.gaps),
        (
            "feed_recovered_total",
            "Messages recovered after a gap.",
            &ingest.recovered,
        ),
        ("feed_lost_total", "Messages lost for good.", &ingest.lost),
        (
            "feed_refused_total",
            "Messages that made no sense.",
            &ingest.refused,
        ),
    ] {
        page.one(name, "counter", help, load(counter));
    }
    let latency = hub.market.latency.statistics();
    page.begin(
        "feed_latency_seconds",
        "summary",
        "Source time to last value, lately, by quantile.",
    );
    for (quantile, ns) in [
        ("0.5", latency.p50_ns),
        ("0.99", latency.p99_ns),
        ("0.999", latency.p999_ns),
    ] {
        let seconds = ns as f64 / 1e9;
        page.value("feed_latency_seconds", &[("quantile", quantile)], seconds);
    }
    let sum_ns = latency.mean_ns as f64 * latency.count as f64;
    page.value("feed_latency_seconds_sum", &[], sum_ns / 1e9);
    page.value("feed_latency_seconds_count", &[], latency.count);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
