//! A NATS client on a thread of its own.
//!
//! The hub's threads do not wait for NATS. They give requests to a [`Link`] and take [`Event`]s
//! from an [`Inbox`]; the thread behind the link runs `async-nats`.
//!
//! ```text
//!  thread of the hub ─▶ Link ─▶ thread "nats" (tokio, async-nats) ─▶ servers
//!                    ◀─ Inbox ◀─
//! ```
//!
//! Each request has a tag of the caller's choice, and exactly one [`Answer`] with this tag comes,
//! at the latest when the request has timed out. A request that was given while the link was down
//! is answered too.

mod inbox;
mod link;
mod replies;
mod requests;
mod settings;
mod streams;
mod thread;
mod work;

pub use inbox::Inbox;
pub use link::Link;
pub use settings::{Credentials, Settings, StreamSettings, TlsFiles, check_address};
pub use thread::LinkThread;

use std::time::Duration;

use bytes::Bytes;

/// What a link tells its user.
#[derive(Clone, Debug)]
pub enum Event {
    /// The link is up: a server has accepted the login.
    Connected,
    /// The link is down. It comes back by itself.
    Disconnected {
        /// Why, in words, if it is known.
        reason: String,
    },
    /// The user may not publish to this subject: a publication or request was not passed on.
    Denied {
        /// The subject.
        subject: String,
    },
    /// The user may not subscribe to this subject or pattern: nothing of it is heard.
    NotHearing {
        /// The subject.
        subject: String,
    },
    /// A message of a subscription.
    Message(Message),
    /// The answer to a request.
    Answer {
        /// The request's tag.
        tag: u64,
        /// What came of it.
        answer: Answer,
    },
}

/// A message of a subscription.
#[derive(Clone, Debug)]
pub struct Message {
    /// The subject it was published to.
    pub subject: String,
    /// Where the publisher asks for an answer, if it does.
    pub reply: Option<String>,
    /// The stream's last sequence before this message, as the publisher expects it; `None` if it
    /// does not say.
    pub expected_last: Option<u64>,
    /// The content. It is empty if no client has published the message to this subject: another
    /// one has had JetStream send there what a stream has stored.
    pub payload: Bytes,
}

/// A message that a stream keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The subject it was published to.
    pub subject: String,
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// Whether it says that the subject's value was deleted or has expired.
    pub is_deletion: bool,
    /// Whether its publisher said what the stream's last sequence must be.
    pub is_fenced: bool,
    /// The content; empty as that of a [`Message`].
    pub payload: Bytes,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The stream has stored the message with this sequence.
    Stored {
        /// Its number in the stream.
        sequence: u64,
        /// Whether the stream had a message with the same id before, whose number this is.
        is_repeated: bool,
    },
    /// The stream's or the subject's last sequence is not the expected one. Nothing was stored.
    Refused,
    /// The stream exists with these settings.
    Made,
    /// The newest message; `None` if there is none.
    Newest(Option<Entry>),
    /// A stream has no newest message: it is empty, or that one was deleted. Its last sequence is
    /// that of the newest one it has had.
    NoMessage {
        /// The last sequence; 0 for a stream that has had no message.
        last_sequence: u64,
    },
    /// The number of messages that a stream has, of one subject or of all.
    Count(u64),
    /// What a stream has.
    Extent(Extent),
    /// Messages in the stream's order. There may be more behind them.
    Entries(Vec<Entry>),
    /// What was replied to a request.
    Reply(Bytes),
    /// Nothing was sent, or no one hears a request of this subject: it had no effect.
    NotHeard,
    /// There is no such stream.
    NoStream,
    /// No answer came in time. A message may be stored nevertheless.
    TimedOut,
    /// The message is longer than the servers take. Nothing was sent.
    TooLarge {
        /// Maximum bytes of a message with its headers: the servers' `max_payload`.
        payload_max: usize,
    },
    /// The request failed, in words.
    Failed(String),
}

/// What a stream's or subject's last sequence must be for a message to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// Anything.
    #[default]
    None,
    /// The last sequence of the stream; 0 for an empty one.
    Stream(u64),
    /// The last sequence of the subject; 0 for one without a message.
    Subject(u64),
}

/// A message to be stored.
#[derive(Clone, Debug, Default)]
pub struct Storing {
    /// The subject; a stream must take it.
    pub subject: String,
    /// The stream that takes it. No acknowledgement of another one counts.
    pub stream: String,
    /// An id by which the stream finds repeated messages; empty for none.
    pub id: String,
    /// The fence.
    pub expectation: Expectation,
    /// Whether the message deletes the subject's value (in a bucket of keys and values).
    pub is_deletion: bool,
    /// The content.
    pub payload: Bytes,
}

/// A request to another client.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    /// The subject.
    pub subject: String,
    /// Where the reply comes, which no other request has. The link must [listen](Link::listen)
    /// there.
    pub reply: String,
    /// The content.
    pub payload: Bytes,
    /// Longest time until the reply; then the answer is [`Answer::TimedOut`].
    pub timeout: Duration,
}

/// Messages that are asked for again.
#[derive(Clone, Debug, Default)]
pub struct Fetching {
    /// The stream.
    pub stream: String,
    /// A subject or a pattern of subjects.
    pub subject: String,
    /// Only messages behind this sequence.
    pub after: u64,
    /// Maximum number of messages, at most 1,024.
    pub count_max: usize,
    /// Maximum bytes of all messages.
    pub bytes_max: usize,
}

/// What a stream has, as its leader says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The sequence that its first message has got, or will get.
    pub origin: u64,
    /// The last sequence that it does not have any more: behind this one nothing is missing.
    /// `origin - 1` if nothing is.
    pub missing: u64,
    /// The last sequence; `origin - 1` for a stream that has had no message.
    pub last: u64,
    /// Time from when the stream was made to when its last message was stored, ms, by the servers'
    /// clocks.
    pub age_ms: u64,
}

/// Messages to be removed.
#[derive(Clone, Debug, Default)]
pub struct Purging {
    /// The stream.
    pub stream: String,
    /// Only messages of this subject; empty for all.
    pub subject: String,
    /// Which of them.
    pub part: Part,
}

/// Which messages are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Every one.
    #[default]
    All,
    /// Those before this sequence, which stays.
    Before(u64),
    /// All but so many, the newest.
    AllBut(u64),
}
