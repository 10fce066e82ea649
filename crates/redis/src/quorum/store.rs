//! Requests to NATS whose answers are waited for, for threads that have nothing else to do.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidewire_cluster::keys::frame::BODY_LENGTH_MAX;
use tidewire_nats::{
    Answer, Entry, Event, Expectation, Extent, Fetching, Inbox, Link, Part, Purging, Storing,
    StreamSettings,
};

use super::{QuorumConfig, body_bytes_max};

/// A link of its own.
pub(super) struct Store {
    link: Link,
    inbox: Inbox,
    tag: u64,
    answers: HashMap<u64, Answer>,
    is_linked: bool,
    is_stopped: Arc<AtomicBool>,
    /// Bytes of a body that the servers take; less than usual if one was refused.
    pub(super) body_bytes_max: usize,
}

impl Store {
    pub(super) fn open(config: &QuorumConfig, is_stopped: Arc<AtomicBool>) -> io::Result<Store> {
        let inbox = Inbox::new();
        let link = Link::start(config.link.clone(), inbox.clone())?;
        Ok(Store {
            link,
            inbox,
            tag: 0,
            answers: HashMap::new(),
            is_linked: false,
            is_stopped,
            body_bytes_max: BODY_LENGTH_MAX,
        })
    }

    /// Fails if the hub ends.
    pub(super) fn go_on(&self) -> Result<(), String> {
        match self.is_stopped.load(Ordering::Acquire) {
            true => Err("the hub ends".to_owned()),
            false => Ok(()),
        }
    }

    fn take(&mut self) -> Result<(), String> {
        self.go_on()?;
        let mut events = Vec::new();
        self.inbox.take(LOOK_EVERY, &mut events);
        for event in events {
            match event {
                Event::Connected => self.is_linked = true,
                Event::Disconnected { .. } => self.is_linked = false,
                Event::Answer { tag, answer } => _ = self.answers.insert(tag, answer),
                Event::Message(_) | Event::Denied { .. } | Event::NotHearing { .. } => {}
            }
        }
        Ok(())
    }

    fn ask(&mut self, ask: impl FnOnce(&Link, u64)) -> Result<u64, String> {
        while !self.is_linked {
            self.take()?;
        }
        self.tag += 1;
        ask(&self.link, self.tag);
        Ok(self.tag)
    }

    /// Waits for the answer to a request.
    fn answer(&mut self, tag: u64) -> Result<Answer, String> {
        match self.any_answer(tag)? {
            Answer::Failed(text) => Err(text),
            Answer::TimedOut => Err("no answer from NATS".to_owned()),
            Answer::NoStream => Err("no stream, or no leader of it".to_owned()),
            Answer::Refused => Err("refused".to_owned()),
            Answer::TooLarge { payload_max } => {
                self.body_bytes_max = body_bytes_max(payload_max)?;
                Err(format!(
                    "a message is longer than {payload_max} bytes (max_payload)"
                ))
            }
            answer => Ok(answer),
        }
    }

    fn any_answer(&mut self, tag: u64) -> Result<Answer, String> {
        loop {
            match self.answers.remove(&tag) {
                Some(answer) => return Ok(answer),
                None => self.take()?,
            }
        }
    }

    /// Sends a message to be stored; [`Store::stored`] waits for it.
    pub(super) fn begin(&mut self, place: (&str, String), payload: Bytes) -> Result<u64, String> {
        self.begin_behind(place, Expectation::None, payload)
    }

    /// The same, refused unless the stream is as expected.
    pub(super) fn begin_behind(
        &mut self,
        (stream, subject): (&str, String),
        expectation: Expectation,
        payload: Bytes,
    ) -> Result<u64, String> {
        let storing = Storing {
            subject,
            stream: stream.to_owned(),
            expectation,
            payload,
            ..Storing::default()
        };
        self.ask(|link, tag| link.store(tag, storing))
    }

    pub(super) fn stored(&mut self, tag: u64) -> Result<(), String> {
        self.answer(tag).map(drop)
    }

    /// Returns the next messages of a subject.
    pub(super) fn fetch(
        &mut self,
        stream: &str,
        subject: &str,
        after: u64,
    ) -> Result<Vec<Entry>, String> {
        let fetching = Fetching {
            stream: stream.to_owned(),
            subject: subject.to_owned(),
            after,
            count_max: 64,
            bytes_max: 8 << 20,
        };
        let tag = self.ask(|link, tag| link.fetch(tag, fetching))?;
        match self.answer(tag)? {
            Answer::Entries(entries) => Ok(entries),
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }

    /// Asks the stream's leader for the newest message of a subject.
    pub(super) fn newest(&mut self, stream: &str, subject: &str) -> Result<Option<Entry>, String> {
        let tag = self.ask(|link, tag| link.newest(tag, stream, Some(subject)))?;
        match self.any_answer(tag)? {
            Answer::Newest(entry) => Ok(entry),
            // Told by the leader of all streams.
            Answer::NoStream => Ok(None),
            Answer::Failed(text) => Err(text),
            Answer::TimedOut => Err("no answer from NATS".to_owned()),
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }

    /// Makes a stream, or gives it its settings.
    pub(super) fn make(&mut self, settings: StreamSettings) -> Result<(), String> {
        let tag = self.ask(|link, tag| link.make_stream(tag, settings))?;
        self.answer(tag).map(drop)
    }

    /// Asks a stream's leader what it has.
    pub(super) fn extent(&mut self, stream: &str) -> Result<Extent, String> {
        let tag = self.ask(|link, tag| link.extent(tag, stream))?;
        match self.answer(tag)? {
            Answer::Extent(extent) => Ok(extent),
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }

    pub(super) fn purge(&mut self, stream: &str, subject: &str, part: Part) -> Result<(), String> {
        let purging = Purging {
            stream: stream.to_owned(),
            subject: subject.to_owned(),
            part,
        };
        let tag = self.ask(|link, tag| link.purge(tag, purging))?;
        self.answer(tag).map(drop)
    }
}

/// How often a thread that waits looks whether the hub ends.
const LOOK_EVERY: Duration = Duration::from_millis(50);
