//! The connection to a hub's feed, on a separate thread that reconnects whenever it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tidewire_feed::client::{ClientConfig, ReceiveError, Side};
use tidewire_feed::wire::ClientName;
use tidewire_feed_client::{Change, Ending, FeedClient, FeedClientConfig};
use tidewire_lane::unix_ns;

use super::model::Model;
use crate::failure::Failure;
use crate::stop::Stop;
use crate::target::Target;

/// A hub's stream and the model of its content.
pub(super) struct Link {
    model: Arc<Mutex<Model>>,
    target: Target,
    thread: JoinHandle<()>,
}

impl Link {
    /// Connects in the background, and reconnects until told to `stop`.
    pub(super) fn start(
        target: &Target,
        patterns: &[String],
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let usage = |text: &dyn std::fmt::Display| Failure::usage(format!("--from: {text}"));
        let address = target
            .tcp()
            .ok_or_else(|| usage(&"a TCP address is expected"))?;
        let mut client = FeedClient::new(FeedClientConfig {
            client: ClientConfig {
                name: ClientName::truncated("watch"),
                credentials: target.credentials,
                ..ClientConfig::default()
            },
            tls: [target.tls.clone(), None],
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
            target: target.clone(),
            thread,
        })
    }

    /// Locks the model of the stream, for a short time.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns whether the receiver has ended unexpectedly.
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
            // The screen needs the model too, so it is locked for one turn at a time.
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
                    // The hub's own reason is more useful than the fact that it closed the
                    // connection.
                    let said = std::mem::take(&mut model.connection.reason);
                    let reason = match ending {
                        _ if !said.is_empty() => said,
                        Ending::Protocol(ReceiveError::FramingLost(_)) if model.session == 0 => {
                            "the server speaks another protocol".to_owned()
                        }
                        ending => ending.to_string(),
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

/// Maximum delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
