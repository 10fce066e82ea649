//! The connection to a hub's feed, on a thread of its own: made again whenever it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tidewire_feed::client::{ClientConfig, Side};
use tidewire_feed::wire::ClientName;
use tidewire_feed_client::{Change, FeedClient, FeedClientConfig};
use tidewire_lane::Endpoint;
use tidewire_lane::unix_ns;

use super::model::Model;
use crate::failure::Failure;
use crate::stop::Stop;

/// A hub's stream, and what it has said.
pub(super) struct Link {
    model: Arc<Mutex<Model>>,
    endpoint: Endpoint,
    thread: JoinHandle<()>,
}

impl Link {
    /// Connects in the background, and stays at it until told to `stop`.
    pub(super) fn start(
        endpoint: &Endpoint,
        patterns: &[String],
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let usage = |text: &dyn std::fmt::Display| Failure::usage(format!("--from: {text}"));
        let address = endpoint
            .tcp()
            .ok_or_else(|| usage(&"a TCP address is expected"))?;
        let mut client = FeedClient::new(FeedClientConfig {
            client: ClientConfig {
                name: ClientName::truncated("watch"),
                ..ClientConfig::default()
            },
            ..FeedClientConfig::of(address)
        })
        .map_err(|error| usage(&error))?;
        for pattern in patterns {
            client.subscribe(pattern).map_err(|error| usage(&error))?;
        }
        let model = Arc::new(Mutex::new(Model::new()));
        let receiver = Receiver {
            client,
            model: model.clone(),
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || receiver.run())
            .map_err(|error| Failure::running(format!("cannot start: {error}")))?;
        Ok(Self {
            model,
            endpoint: endpoint.clone(),
            thread,
        })
    }

    /// What the stream has said; held for moments.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether the receiver has ended by itself, which it never should.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }
}

struct Receiver {
    client: FeedClient,
    model: Arc<Mutex<Model>>,
    stop: Stop,
}

impl Receiver {
    fn run(mut self) {
        while !self.stop.is_asked() {
            self.client.wait(WAIT_MAX);
            // What is drawn waits for the model: it is held for one turn at a time.
            while self.turn() && !self.stop.is_asked() {}
        }
    }

    fn turn(&mut self) -> bool {
        let before = *self.client.client().counters();
        let side = *self.client.client().side_counters(Side::A);
        let mut model = lock(&self.model);
        model.received_ns = unix_ns();
        let more = self.client.turn(&mut *model);
        let client = self.client.client();
        model.count(&before, client.counters());
        let after = client.side_counters(Side::A);
        model.loss.corrupt += after.corrupt - side.corrupt;
        model.loss.duplicate += after.duplicate - side.duplicate;
        model.next_sequence = client.next_sequence();
        while let Some(change) = self.client.next_change() {
            match change {
                Change::Connecting(_) => model.connecting(),
                Change::Connected(_) => {}
                Change::Ended(_, ending) => {
                    // What the hub itself has said is worth more than that it closed.
                    let said = std::mem::take(&mut model.connection.reason);
                    let reason = if said.is_empty() {
                        ending.to_string()
                    } else {
                        said
                    };
                    model.lost(reason);
                }
            }
        }
        more
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How soon a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
