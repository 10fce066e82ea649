//! Replies to what a link has published, each on a subject of its own.
//!
//! Other clients may know such a subject: who hears a message sees where its reply goes. NATS
//! checks who publishes to it, but not where a request asks JetStream to reply to. So a client that
//! may publish nothing but its own messages can have JetStream send a stored message, or an
//! acknowledgement of its own stream, to any subject. Both can be told: a stored message has the
//! header [`PASSED_ON`], and an acknowledgement names its stream.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, SubscribeError};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tidewire_retry::Seldom;
use tokio::sync::oneshot;
use tracing::warn;

/// The header of what JetStream has stored and sends again.
const PASSED_ON: &str = "Nats-Stream";
/// Replies that may be awaited; users have lower limits of their own.
const AWAITED_MAX: usize = 8_192;

/// Replies that are awaited, by their subjects.
#[derive(Clone, Debug)]
pub(crate) struct Replies {
    /// Begins the subjects of acknowledgements. It says nothing about the subjects of other
    /// answers, which no other client may guess: their numbers follow each other.
    prefix: String,
    last: Arc<AtomicU64>,
    awaited: Arc<Mutex<Awaited>>,
}

type Awaited = HashMap<String, Waiting>;

/// A reply that is awaited.
#[derive(Debug)]
struct Waiting {
    /// The stream that must have acknowledged; empty for a reply of another client.
    stream: String,
    sender: oneshot::Sender<Message>,
}

/// A reply that will come, or not. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Expected {
    subject: String,
    receiver: oneshot::Receiver<Message>,
    awaited: Arc<Mutex<Awaited>>,
}

impl Replies {
    /// Creates an empty table. Streams acknowledge on subjects that begin with `inbox`.
    pub(crate) fn new(inbox: &str) -> Self {
        // The keys are of the system's source of random numbers.
        let random = RandomState::new();
        let (one, two) = (random.hash_one(1), random.hash_one(2));
        Self {
            prefix: format!("{inbox}.{one:016x}{two:016x}"),
            last: Arc::default(),
            awaited: Arc::default(),
        }
    }

    /// Hears acknowledgements of streams.
    pub(crate) async fn hear_streams(&self, client: &Client) -> Result<(), SubscribeError> {
        self.hear(client, format!("{}.*", self.prefix)).await
    }

    /// Hears replies on these subjects.
    pub(crate) async fn hear(
        &self,
        client: &Client,
        pattern: String,
    ) -> Result<(), SubscribeError> {
        let mut subscription = client.subscribe(pattern).await?;
        let awaited = self.awaited.clone();
        tokio::spawn(async move {
            while let Some(message) = subscription.next().await {
                take(&awaited, message);
            }
        });
        Ok(())
    }

    /// Returns where a stream must acknowledge, and what waits for that; `None` if too many wait.
    pub(crate) fn expect_of(&self, stream: String) -> Option<(String, Expected)> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let subject = format!("{}.{number}", self.prefix);
        let expected = self.add(subject.clone(), stream)?;
        Some((subject, expected))
    }

    /// Returns what waits for a reply on this subject; `None` if too many wait, or one on it.
    pub(crate) fn expect(&self, subject: String) -> Option<Expected> {
        self.add(subject, String::new())
    }

    fn add(&self, subject: String, stream: String) -> Option<Expected> {
        let (sender, receiver) = oneshot::channel();
        let mut awaited = self.awaited.lock();
        if awaited.len() >= AWAITED_MAX || awaited.contains_key(&subject) {
            return None;
        }
        awaited.insert(subject.clone(), Waiting { stream, sender });
        drop(awaited);
        Some(Expected {
            subject,
            receiver,
            awaited: self.awaited.clone(),
        })
    }
}

impl Expected {
    /// Waits for the reply; `None` if it does not come in this time.
    pub(crate) async fn wait(mut self, limit: Duration) -> Option<Message> {
        let reply = tokio::time::timeout(limit, &mut self.receiver).await;
        reply.ok()?.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.awaited.lock().remove(&self.subject);
    }
}

/// Gives a reply to who waits for it. One that was not sent by whom it should be is ignored: the
/// right one may come.
fn take(awaited: &Mutex<Awaited>, message: Message) {
    let subject = message.subject.as_str();
    let mut awaited = awaited.lock();
    let Some(waiting) = awaited.get(subject) else {
        // It is late, or came before.
        return;
    };
    if let Some(reason) = why_not(&waiting.stream, &message) {
        if let Some(left_out) = FORGED.note_now() {
            warn!(
                reason,
                left_out, "a reply over NATS is not of the one that was asked, and is ignored"
            );
        }
        return;
    }
    if let Some(waiting) = awaited.remove(subject) {
        // Who waited may have given up.
        let _ = waiting.sender.send(message);
    }
}

/// Returns why a message is not the reply of this stream; without one, of another client.
fn why_not(stream: &str, message: &Message) -> Option<&'static str> {
    if message.headers.as_ref().is_some_and(is_passed_on) {
        return Some("it was sent by a stream that has stored it");
    }
    if stream.is_empty() || message.status.is_some() {
        return None;
    }
    match serde_json::from_slice::<Acknowledging>(&message.payload) {
        Ok(Acknowledging { stream: Some(name) }) if name == stream => None,
        Ok(Acknowledging { stream: Some(_) }) => Some("it is of another stream"),
        // An error of the server itself, which is not of a stream.
        Ok(Acknowledging { stream: None }) => None,
        Err(_) => Some("it is no acknowledgement"),
    }
}

/// The stream that an acknowledgement names.
#[derive(serde::Deserialize)]
struct Acknowledging {
    stream: Option<String>,
}

/// Returns whether JetStream has sent a stored message to where a client has asked for it.
pub(crate) fn is_passed_on(headers: &HeaderMap) -> bool {
    headers.get(PASSED_ON).is_some()
}

/// Returns whether a message that a stream has was passed on when it was stored. One that a stream
/// is asked for has the header once, of this stream itself.
pub(crate) fn was_passed_on(headers: &HeaderMap, is_of_copy: bool) -> bool {
    headers.get_all(PASSED_ON).count() > usize::from(is_of_copy)
}

static FORGED: Seldom = Seldom::new(5, 600);
