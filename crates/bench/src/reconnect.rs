//! Time until a client whose connection is cut has the stream again, and its losses.

use std::time::{Duration, Instant};

use serde::Serialize;
use tidewire_feed::client::{Gap, Side, Sink};
use tidewire_feed::wire::Message;
use tidewire_feed_client::{FeedClient, FeedClientConfig};

use tidewire::failure::Failure;
use tidewire::simulate::Simulation;

/// The result of a client whose connection was cut repeatedly.
#[derive(Debug, Serialize)]
pub(super) struct Reconnects {
    pub(super) cuts: u32,
    /// From the cut to the first message after it.
    pub(super) median_ms: f64,
    pub(super) max_ms: f64,
    pub(super) received: u64,
    pub(super) lost: u64,
    /// Messages that came twice or not in their order.
    pub(super) disordered: u64,
}

impl Reconnects {
    pub(super) fn text(&self) -> String {
        format!(
            "{} cuts at {} messages/s: the stream again after {:.1} ms (median), {:.1} ms (most); \
             {} messages received, {} lost, {} twice or out of order",
            self.cuts, RATE, self.median_ms, self.max_ms, self.received, self.lost, self.disordered
        )
    }
}

/// Measures with an exchange and its client in this process.
pub(super) fn measure() -> Result<Reconnects, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::running(format!("reconnect: {error}"));
    let exchange = Simulation::start_locally(RATE, false, |_| {})?;
    let address = exchange.endpoint.tcp();
    let address = address.ok_or_else(|| failed(&"the exchange has no TCP address"))?;
    let client = FeedClient::new(FeedClientConfig::of(address));
    let mut client = client.map_err(|error| failed(&error))?;
    client.subscribe("*").map_err(|error| failed(&error))?;
    let mut seen = Seen::default();
    let mut times_ms = Vec::new();
    for _ in 0..=CUTS {
        let begin = Instant::now();
        let before = seen.received;
        while seen.received == before {
            client.wait(Duration::from_millis(100));
            client.turn(&mut seen);
            if begin.elapsed() > PATIENCE {
                return Err(failed(&"the stream does not come back"));
            }
        }
        times_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        let end = Instant::now() + BETWEEN;
        while Instant::now() < end {
            client.wait(Duration::from_millis(1));
            while client.turn(&mut seen) {}
        }
        client.cut(Side::A);
    }
    exchange.stop();
    // The first is the first connection of all.
    times_ms.remove(0);
    times_ms.sort_by(f64::total_cmp);
    Ok(Reconnects {
        cuts: CUTS,
        median_ms: times_ms[times_ms.len() / 2],
        max_ms: times_ms[times_ms.len() - 1],
        received: seen.received,
        lost: seen.lost,
        disordered: seen.disordered,
    })
}

#[derive(Default)]
struct Seen {
    received: u64,
    next: u64,
    lost: u64,
    disordered: u64,
}

impl Sink for Seen {
    fn message(&mut self, sequence: u64, _: &Message) {
        self.received += 1;
        self.disordered += u64::from(self.next != 0 && sequence != self.next);
        self.next = sequence + 1;
    }

    fn gap(&mut self, gap: Gap) {
        if let Gap::Lost { count, .. } = gap {
            self.lost += count;
        }
    }
}

const RATE: u64 = 100_000;
const CUTS: u32 = 20;
/// Time that the stream runs between two cuts.
const BETWEEN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);
