//! Counters of messages to subscribers, and of messages and requests from ZeroMQ peers.

use std::sync::atomic::Ordering;

use tidewire_redis::Refusal;
use tidewire_redis::registry::line;

use super::HubCounter;

/// The hub's sockets, in the order of `Port`.
const SOCKETS: [&str; 3] = ["pub", "pull", "router"];

pub(super) const TOPICS: &[HubCounter] = &[
    HubCounter::size("market_topics", |look| look.market.board.slots().len())
        .gauge(1200, "market_topics")
        .help("Market topics.")
        .watched("market_topics"),
    HubCounter::atomic("delivered_messages", |look| &look.post.counters.delivered)
        .counter(1000, "messages_delivered_total")
        .help("Messages written to subscribers.")
        .watched("delivered"),
    HubCounter::atomic("conflated_messages", |look| &look.post.counters.conflated)
        .watched("conflated"),
    HubCounter::count("", |look| {
        let (fanout, feeds) = (&look.post.counters, &look.market.slow_feeds);
        fanout.conflated.load(Ordering::Relaxed) + feeds.conflated.load(Ordering::Relaxed)
    })
    .counter(1010, "messages_conflated_total")
    .help("Updates that a newer one replaced for a slow subscriber."),
    HubCounter::atomic("dropped_messages", |look| &look.post.counters.dropped)
        .counter(1020, "messages_dropped_total")
        .label("class", "zeromq")
        .help("Plain messages that subscribers missed, by their class.")
        .watched("dropped"),
    HubCounter::atomic("cut_off_subscribers", |look| &look.post.counters.cut_off)
        .counter(1030, "subscribers_cut_off_total")
        .label("class", "redis")
        .help("Subscribers cut off at their output limit, by their class.")
        .watched("cut_off"),
    HubCounter::count("mounted_keys_left_out", |look| {
        look.server.keyspace.mounted_left_out()
    }),
    HubCounter::series(|look, name, page| {
        for (socket, peers) in SOCKETS.iter().zip(&look.zmq_peers) {
            let count = peers.load(Ordering::Relaxed);
            page.value(name, &[("socket", socket)], count);
        }
    })
    .gauge(1100, "zeromq_peers")
    .help("ZeroMQ peers by the kind of our socket."),
    HubCounter::count("zmq_websocket_peers", |look| {
        let peers = look.zmq_websocket_peers.iter();
        peers.map(|peers| peers.load(Ordering::Relaxed)).sum()
    }),
    HubCounter::series(|look, name, page| {
        for (socket, peers) in SOCKETS.iter().zip(&look.zmq_websocket_peers) {
            let count = peers.load(Ordering::Relaxed);
            page.value(name, &[("socket", socket)], count);
        }
    })
    .gauge(1105, "zeromq_websocket_peers")
    .help("ZeroMQ peers that came by WebSocket, by the kind of our socket."),
    HubCounter::atomic("zmq_pushed_messages", |look| &look.pushes.taken)
        .counter(1110, "zeromq_pushed_total")
        .label("outcome", "taken")
        .help("Messages of ZeroMQ pushers by outcome."),
    HubCounter::atomic("zmq_rejected_messages", |look| &look.pushes.left_out)
        .counter(1111, "zeromq_pushed_total")
        .label("outcome", "rejected"),
    HubCounter::lines(|look, out| {
        for refusal in Refusal::ALL {
            let name = format!("zmq_rejected_{}", refusal.name());
            line(out, &name, look.pushes.refused(refusal));
        }
    }),
    HubCounter::series(|look, name, page| {
        for refusal in Refusal::ALL {
            let count = look.pushes.refused(refusal);
            page.value(name, &[("reason", refusal.name())], count);
        }
    })
    .counter(1120, "zeromq_rejected_total")
    .help("Discarded messages of ZeroMQ pushers, by reason."),
    HubCounter::count("zmq_parked_peers", |look| look.pushes.parked())
        .gauge(1130, "zeromq_parked_peers")
        .help("ZeroMQ pushers that wait until keys may be written."),
    HubCounter::atomic("zmq_answered_requests", |look| &look.zmq_requests[0]),
    HubCounter::atomic("zmq_refused_requests", |look| &look.zmq_requests[1]),
];
