//! Counters of the web port.

use super::HubCounter;

/// A page with more unread bytes is slow.
const SLOW_BYTES: u64 = 64 << 10;

pub(super) const WEB: &[HubCounter] = &[
    HubCounter::atomic("web_connections", |look| &look.web.counters.connections)
        .gauge(1140, "web_connections")
        .help("Connections to the web port."),
    HubCounter::atomic("web_streams", |look| &look.web.counters.streams)
        .gauge(1141, "web_streams")
        .help("Streams of web pages."),
    HubCounter::atomic("web_subscriptions", |look| &look.web.counters.subscriptions)
        .gauge(1142, "web_subscriptions")
        .help("Subscriptions of web pages."),
    HubCounter::atomic("web_topics", |look| &look.web.counters.topics)
        .gauge(1143, "web_topics")
        .help("Topics that web pages follow, summed over the lanes."),
    HubCounter::count("web_memory_bytes", |look| {
        look.server.other_clients.pages_bytes()
    })
    .gauge(1149, "web_memory_bytes")
    .help("What streams of web pages hold, about."),
    HubCounter::size("web_slow_pages", |look| {
        look.server.other_clients.slow_pages(SLOW_BYTES)
    })
    .gauge(1150, "web_slow_pages")
    .help("Web pages with more than 64 KiB that they have not read."),
    HubCounter::atomic("web_requests", |look| &look.web.counters.requests)
        .counter(1144, "web_requests_total")
        .help("HTTP requests to the web port."),
    HubCounter::atomic("web_commands", |look| &look.web.counters.calls)
        .counter(1145, "web_commands_total")
        .help("Redis commands of web pages."),
    HubCounter::atomic("web_batches", |look| &look.web.counters.batches)
        .counter(1146, "web_batches_total")
        .help("Messages with rows to web pages."),
    HubCounter::atomic("web_rows", |look| &look.web.counters.rows)
        .counter(1147, "web_rows_total")
        .help("Rows with changes in these messages."),
    HubCounter::atomic("web_conflated_updates", |look| &look.web.counters.conflated)
        .counter(1148, "web_conflated_total")
        .help("Updates of which a web page was sent only a later one."),
];
