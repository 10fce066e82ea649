//! A native feed in datagrams, with recovery over TCP, received by a thread.

use std::io;
use std::time::Instant;

use tidewire_feed::client::{ClientConfig, Side};
use tidewire_feed::wire::ClientName;
use tidewire_feed_client::{Change, Ending, FeedClient, FeedClientConfig, Tls};
use tidewire_lane::TlsConnector;
use tidewire_retry::LinkLog;
use tracing::{info, warn};

use super::Thread;
use super::source::FeedSource;

/// Returns a client that listens on the source's lines.
pub(super) fn open(source: &FeedSource, connector: &TlsConnector) -> io::Result<FeedClient> {
    let client = connector.current();
    let tls = source.tls_hosts.clone().map(|host| {
        let host = host?;
        Some(client.clone().map(|client| Tls { client, host }))
    });
    if tls.iter().flatten().any(Option::is_none) {
        return Err(io::Error::other("no TLS settings are loaded"));
    }
    let mut client = FeedClient::new(FeedClientConfig {
        b: source.b,
        tls: tls.map(Option::flatten),
        lines: source.lines,
        interface: source.interface,
        client: ClientConfig {
            name: ClientName::truncated("tidewire"),
            credentials: source.credentials,
            ..ClientConfig::default()
        },
        ..FeedClientConfig::of(source.a)
    })?;
    // One pattern is far below every limit.
    let _ = client.subscribe("*");
    Ok(client)
}

/// Receives until the hub stops.
pub(super) fn run(
    mut thread: Thread,
    source: &FeedSource,
    mut client: FeedClient,
    connector: &TlsConnector,
) {
    thread.pin();
    info!(input = thread.number, %source, "listening");
    let mut packets = 0;
    let mut logs = [LinkLog::default(), LinkLog::default()];
    while !thread.is_stopped() {
        client.wait(thread.wait(u64::MAX));
        let begin = Instant::now();
        let mut more = true;
        while more && !thread.is_stopped() {
            more = thread.batch_with(|batch, is_stale| {
                let more = client.turn(batch);
                let seen = Side::ALL.map(|side| client.client().side_counters(side).packets);
                let seen = seen[0] + seen[1];
                // A packet on any line or connection shows that the source is alive.
                if seen > packets && std::mem::take(is_stale) {
                    batch.revive();
                }
                packets = seen;
                more
            });
            thread.sweep();
        }
        for side in Side::ALL {
            // A connection alone is no answer: the machine of a server that hangs accepts it.
            let is_accepted = client.client().is_accepted(side);
            if is_accepted && logs[side.index()].answers(Instant::now()) {
                info!(%source, ?side, "connected");
            }
        }
        while let Some(change) = client.next_change() {
            if let Change::Ended(side, ending) = change {
                // The next attempt uses the certificates of then.
                if let Some(tls) = connector.current().filter(|_| source.has_tls()) {
                    client.set_tls(&tls);
                }
                let log = &mut logs[side.index()];
                ended(&mut thread, source, &client, log, (side, &ending));
            }
        }
        thread.busy_ns += begin.elapsed().as_nanos() as u64;
        show(&mut thread, &client);
    }
}

/// Handles the end of a connection, or a failed attempt to make one.
fn ended(
    thread: &mut Thread,
    source: &FeedSource,
    client: &FeedClient,
    log: &mut LinkLog,
    (side, ending): (Side, &Ending),
) {
    let due = match ending {
        Ending::Refused(refused) => log.ends_because(Instant::now(), refused.reason.0),
        _ => log.ends(Instant::now()),
    };
    if let Some((attempts, lasts)) = due {
        let (seconds, text) = (lasts.as_secs(), "cannot reach the server for recovery");
        warn!(%source, ?side, %ending, attempts, seconds, "{text}");
    }
    let is_alone = !client.client().is_accepted(side.other());
    if !thread.is_stale && is_alone && client.client().session() != 0 {
        // Losses cannot be recovered now, so the values must not be shown as current.
        thread.lose();
    }
}

fn show(thread: &mut Thread, client: &FeedClient) {
    let connections = client.connections();
    let client = client.client();
    let is_connected = Side::ALL.iter().any(|&side| client.is_accepted(side));
    thread.show(|figures| {
        let counters = client.counters();
        figures.session = client.session().to_string();
        figures.is_connected = is_connected;
        figures.messages = counters.messages;
        figures.next_sequence = client.next_sequence();
        figures.gaps = counters.gaps;
        figures.recovered = counters.recovered;
        figures.lost = counters.lost;
        figures.requests = counters.requests;
        figures.connections = connections;
        figures.lines = Side::ALL.map(|side| {
            let line = client.side_counters(side);
            (line.packets, line.lost)
        });
    });
}
