//! The link to the servers, for the threads of the hub.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::inbox::Inbox;
use crate::settings::{Settings, StreamSettings};
use crate::work;
use crate::{Asking, Fetching, Purging, Storing};

/// Bytes of publications that wait for the servers. More are refused.
pub(crate) const PUBLISHED_BYTES_MAX: usize = 16 << 20;

/// A link to NATS servers. It connects by itself, again and again. Dropping it ends it.
#[derive(Debug)]
pub struct Link {
    commands: Option<UnboundedSender<Command>>,
    /// Dropped to end the thread.
    life: Option<oneshot::Sender<()>>,
    published_bytes: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is asked to do. Those that are answered are limited by who asks.
#[derive(Debug)]
pub(crate) enum Command {
    Subscribe(String),
    Listen(String),
    Publish { subject: String, payload: Bytes },
    Ask(u64, Asking),
    Store(u64, Storing),
    StoreLease(u64, Storing, StreamSettings),
    Make(u64, StreamSettings),
    Newest(u64, String, Option<String>),
    Count(u64, String, Option<String>),
    Extent(u64, String),
    NewestOfEach(u64, String, Vec<String>),
    Fetch(u64, Fetching),
    Purge(u64, Purging),
}

impl Link {
    /// Starts the thread. Events go to `inbox`.
    ///
    /// # Errors
    /// No thread can be started, or the credentials cannot be read.
    pub fn start(settings: Settings, inbox: Inbox) -> io::Result<Self> {
        let options = work::options(&settings)?;
        let (sender, receiver) = unbounded_channel();
        let published_bytes = Arc::new(AtomicUsize::new(0));
        let (life, dropped) = oneshot::channel();
        let shared = (published_bytes.clone(), dropped);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("nats".to_owned())
            .spawn(move || {
                runtime.block_on(work::run(settings, options, receiver, shared, inbox));
            })?;
        Ok(Self {
            commands: Some(sender),
            life: Some(life),
            published_bytes,
            thread: Some(thread),
        })
    }

    /// Receives what is published to a subject or a pattern of subjects.
    pub fn subscribe(&self, subject: &str) {
        self.give(Command::Subscribe(subject.to_owned()));
    }

    /// Receives replies to requests on a pattern of subjects.
    pub fn listen(&self, pattern: &str) {
        self.give(Command::Listen(pattern.to_owned()));
    }

    /// Publishes without an answer. What is published while the link is down is dropped. Returns
    /// false if too much waits for the servers: the message is dropped too.
    pub fn publish(&self, subject: &str, payload: Bytes) -> bool {
        let length = payload.len();
        let before = self.published_bytes.fetch_add(length, Ordering::AcqRel);
        if before + length > PUBLISHED_BYTES_MAX {
            self.published_bytes.fetch_sub(length, Ordering::AcqRel);
            return false;
        }
        let subject = subject.to_owned();
        self.give(Command::Publish { subject, payload });
        true
    }

    /// Sends a request to another client, once. A request that is given while the link is down is
    /// not sent.
    pub fn ask(&self, tag: u64, asking: Asking) {
        self.give(Command::Ask(tag, asking));
    }

    /// Stores a message in the stream that takes its subject. Messages are sent in the order of
    /// these calls.
    pub fn store(&self, tag: u64, storing: Storing) {
        self.give(Command::Store(tag, storing));
    }

    /// Stores a lease in its bucket. It counts only if the bucket has these settings: otherwise the
    /// answer is [`crate::Answer::Failed`], and the settings are put right if they can be.
    pub fn store_lease(&self, tag: u64, storing: Storing, bucket: StreamSettings) {
        self.give(Command::StoreLease(tag, storing, bucket));
    }

    /// Makes a stream, or changes it to these settings. One that has subjects of something else
    /// stays as it is: the answer is [`crate::Answer::Failed`].
    pub fn make_stream(&self, tag: u64, settings: StreamSettings) {
        self.give(Command::Make(tag, settings));
    }

    /// Asks the leader of a stream how many messages it has, of one subject or of all.
    pub fn count(&self, tag: u64, stream: &str, subject: Option<&str>) {
        let subject = subject.map(str::to_owned);
        self.give(Command::Count(tag, stream.to_owned(), subject));
    }

    /// Asks the leader of a stream what it has: [`crate::Answer::Extent`].
    pub fn extent(&self, tag: u64, stream: &str) {
        self.give(Command::Extent(tag, stream.to_owned()));
    }

    /// Asks the leader of a stream for its newest message, or the newest of a subject.
    pub fn newest(&self, tag: u64, stream: &str, subject: Option<&str>) {
        let subject = subject.map(str::to_owned);
        self.give(Command::Newest(tag, stream.to_owned(), subject));
    }

    /// Asks any copy of a stream for the newest message of each of these subjects, at most 1,024.
    pub fn newest_of_each(&self, tag: u64, stream: &str, subjects: Vec<String>) {
        debug_assert!(subjects.len() <= 1_024, "the servers' limit");
        self.give(Command::NewestOfEach(tag, stream.to_owned(), subjects));
    }

    /// Asks any copy of a stream for messages behind a sequence.
    pub fn fetch(&self, tag: u64, fetching: Fetching) {
        debug_assert!(
            (1..=1_024).contains(&fetching.count_max),
            "the servers' limit"
        );
        self.give(Command::Fetch(tag, fetching));
    }

    /// Removes messages from a stream. [`crate::Answer::Made`] says that they are gone.
    pub fn purge(&self, tag: u64, purging: Purging) {
        self.give(Command::Purge(tag, purging));
    }

    fn give(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // The thread ends only after this channel.
            let _ = commands.send(command);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.commands = None;
        self.life = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Command {
    /// Returns the tag of a request that is answered.
    pub(crate) fn tag(&self) -> Option<u64> {
        match self {
            Self::Subscribe(_) | Self::Listen(_) | Self::Publish { .. } => None,
            Self::Ask(tag, _)
            | Self::Store(tag, _)
            | Self::StoreLease(tag, ..)
            | Self::Make(tag, _)
            | Self::Newest(tag, ..)
            | Self::Count(tag, ..)
            | Self::Extent(tag, _)
            | Self::NewestOfEach(tag, ..)
            | Self::Fetch(tag, _)
            | Self::Purge(tag, _) => Some(*tag),
        }
    }
}
