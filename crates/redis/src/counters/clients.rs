//! Clients: how many there are, and what they hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Row, ServerLook};
use crate::clients::Client;
use crate::parameters::MAXCLIENTS;
use crate::registry::Page;

pub(super) const CLIENTS: &[Row] = &[
    Row::size("connected_clients", |look| plain(look).count()).watched("redis_clients"),
    Row::fixed("cluster_connections", "0"),
    Row::count("maxclients", |look| look.parameters.read(MAXCLIENTS)),
    Row::count("client_recent_max_input_buffer", |look| {
        longest(look, |client| &client.query_bytes)
    }),
    Row::count("client_recent_max_output_buffer", |look| {
        longest(look, |client| &client.output_bytes)
    }),
    Row::count("blocked_clients", |look| look.waiting.count()),
    Row::count("tracking_clients", |look| look.tracking.clients()),
    Row::size("pubsub_clients", |look| {
        plain(look).filter(|client| client.is_subscriber()).count()
    }),
    Row::atomic("watching_clients", |look| &look.watching_clients),
    Row::fixed("clients_in_timeout_table", "0"),
    Row::count("total_watched_keys", |look| {
        let watched = |client: &Arc<Client>| client.watched.load(Ordering::Relaxed);
        plain(look).map(watched).map(u64::from).sum()
    }),
    Row::size("total_blocking_keys", |look| look.totals().awaited_keys),
    Row::size("total_blocking_keys_on_nokey", |look| {
        look.totals().awaited_keys_or_loss
    }),
    Row::series(classes)
        .gauge(600, "clients")
        .help("Redis clients by class; one may be of several."),
];

/// Clients that are no replicas.
fn plain<'a>(look: &'a ServerLook<'_>) -> impl Iterator<Item = &'a Arc<Client>> {
    let is_plain = |client: &&Arc<Client>| !client.is_replica.load(Ordering::Relaxed);
    look.all_clients().iter().filter(is_plain)
}

fn longest(look: &ServerLook<'_>, bytes: fn(&Client) -> &AtomicU64) -> u64 {
    let bytes = plain(look).map(|client| bytes(client).load(Ordering::Relaxed));
    bytes.max().unwrap_or(0)
}

fn classes(look: &ServerLook<'_>, name: &str, page: &mut Page) {
    let clients = look.all_clients();
    let count = |is: fn(&Client) -> bool| clients.iter().filter(|client| is(client)).count() as u64;
    for (class, number) in [
        ("all", clients.len() as u64),
        ("pubsub", count(|client| client.is_subscriber())),
        (
            "monitor",
            count(|client| client.monitors.load(Ordering::Relaxed)),
        ),
        ("tracking", look.tracking.clients()),
        ("blocked", look.waiting.count()),
    ] {
        page.value(name, &[("class", class)], number);
    }
}
