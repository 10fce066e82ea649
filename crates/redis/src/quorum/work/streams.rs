//! The streams: whether that of the keys may be made, and making them.
//!
//! A hub makes the stream KEYS only if the group has had no keys: its own folder says so, and no
//! other hub that runs knows of a message. Otherwise NATS has lost them, and the hub says that.

use bytes::Bytes;
use tidewire_cluster::keys::{KeysConfig, KeysFault};
use tidewire_cluster::lease;
use tidewire_lane::{monotonic_ns, unix_ms};
use tidewire_nats::{Answer, StreamSettings};
use tracing::warn;

use super::{Request, STREAMS_RETRY_NS, Work};
use crate::quorum::QuorumConfig;
use crate::quorum::state::Mode;

/// How long a hub that knows of no keys asks the others. Longer than a link takes to come back.
const LISTEN_NS: u64 = 3_000_000_000;
const ASK_NS: u64 = 200_000_000;
const QUESTION: &[u8] = b"?";
/// Before the number of a message that a hub lacks.
const LACKS: &[u8] = b"-";
/// The primary sees to it.
const HEALS: &[u8] = b"+";
/// The question of a hub that is to store its keys again: whether another one can go on with the
/// stream.
const WHO_GOES_ON: &[u8] = b"?=";
/// Before the name of a hub that can.
const GOES_ON: &[u8] = b"=";

/// Whether the streams exist.
#[derive(Clone, Copy, Debug)]
pub(super) enum Streams {
    Due(u64),
    /// The stream KEYS is looked for.
    Looking,
    /// Other hubs are asked whether there were keys.
    Listening {
        until_ns: u64,
        ask_ns: u64,
    },
    /// So many answers are to come; whether one was a failure.
    Asked(usize, bool),
    Made,
}

impl Streams {
    pub(super) fn deadline_ns(self) -> Option<u64> {
        match self {
            Streams::Due(at_ns) => Some(at_ns),
            Streams::Listening { until_ns, ask_ns } => Some(until_ns.min(ask_ns)),
            Streams::Looking | Streams::Asked(..) => Some(u64::MAX),
            Streams::Made => None,
        }
    }
}

impl Work {
    /// Does what is due before the member begins.
    pub(super) fn follow_streams(&mut self, now_ns: u64) {
        match self.streams {
            Streams::Due(at_ns) if now_ns >= at_ns => {
                self.streams = Streams::Looking;
                let tag = self.open(Request::Beginning);
                self.link.extent(tag, &self.config.stream());
            }
            Streams::Listening { until_ns, .. } if self.known > 0 || now_ns >= until_ns => {
                self.has_listened = true;
                self.streams = Streams::Due(now_ns);
            }
            Streams::Listening { until_ns, ask_ns } if now_ns >= ask_ns => {
                let question = Bytes::from_static(QUESTION);
                self.link.publish(&self.config.mark_subject(), question);
                let ask_ns = now_ns.saturating_add(ASK_NS);
                self.streams = Streams::Listening { until_ns, ask_ns };
            }
            _ => {}
        }
    }

    /// Whether the stream KEYS is there, and has had a message.
    pub(super) fn stream_found(&mut self, answer: &Answer, now_ns: u64) {
        let is_unused = match answer {
            Answer::Extent(extent) => extent.last < extent.origin,
            Answer::NoStream => true,
            _ => {
                self.note_error("the stream of the keys is not found", answer);
                return self.streams = Streams::Due(now_ns.saturating_add(STREAMS_RETRY_NS));
            }
        };
        let is_gone = matches!(answer, Answer::NoStream);
        if !is_gone {
            self.gone_since_ns = None;
        }
        match (is_unused, self.known > 0) {
            (true, true) if is_gone => self.stream_is_gone(now_ns),
            (true, false) if !self.has_listened => {
                self.streams = Streams::Listening {
                    until_ns: now_ns.saturating_add(LISTEN_NS),
                    ask_ns: now_ns,
                };
            }
            // If it is there, the member compares it with what is known.
            _ => self.make_streams(),
        }
    }

    /// It is not made again: NATS restores a stream only where there is none.
    fn stream_is_gone(&mut self, now_ns: u64) {
        let since_ns = *self.gone_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= KeysConfig::of(self.seed).gone_ns {
            let fault = KeysFault::Gone { had: self.known };
            return self.fail(&fault.to_string());
        }
        self.streams = Streams::Due(now_ns.saturating_add(STREAMS_RETRY_NS));
    }

    /// What hubs of the group say to each other: a question of a hub that knows of no keys, or the
    /// answer of one that does; the complaint of a hub that lacks a message, or the answer of the
    /// primary.
    pub(super) fn heard(&mut self, payload: &[u8]) {
        if payload == HEALS {
            return self.member.primary_answers(monotonic_ns());
        }
        if let Some(number) = payload.strip_prefix(LACKS) {
            let number = std::str::from_utf8(number).ok();
            if let Some(sequence) = number.and_then(|number| number.parse().ok())
                && self.member.complained(sequence, monotonic_ns())
            {
                let subject = self.config.mark_subject();
                self.link.publish(&subject, HEALS.into());
            }
            return;
        }
        if payload == WHO_GOES_ON {
            if self.goes_on() {
                let answer = [GOES_ON, self.config.hub.as_bytes()].concat();
                self.link
                    .publish(&self.config.mark_subject(), answer.into());
            }
            return;
        }
        if let Some(hub) = payload.strip_prefix(GOES_ON) {
            return self.another_goes_on(hub);
        }
        if payload == QUESTION {
            let known = self.member.known_message().max(self.known);
            if known > 0 {
                let answer = format!("{known} {}", self.config.hub);
                let subject = self.config.mark_subject();
                self.link.publish(&subject, answer.into());
            }
            return;
        }
        let answer = std::str::from_utf8(payload).ok();
        let parts = answer.and_then(|text| text.split_once(' '));
        let Some((Ok(message), hub)) = parts.map(|(number, hub)| (number.parse::<u64>(), hub))
        else {
            return;
        };
        if matches!(self.streams, Streams::Listening { .. }) && message > self.known {
            warn!(
                message,
                hub, "keys: another hub knows of keys that the stream lacks"
            );
            self.known = message;
        }
    }

    /// Whether this hub has all keys of the stream, and can be the primary.
    fn goes_on(&self) -> bool {
        let mode = self.server.quorum.mode();
        matches!(mode, Mode::Standby | Mode::Primary | Mode::Suspended) && !self.member.has_doubts()
    }

    /// Asks the other hubs whether one of them can go on with the stream.
    pub(super) fn ask_who_goes_on(&self) {
        let subject = self.config.mark_subject();
        self.link.publish(&subject, WHO_GOES_ON.into());
    }

    /// Tells the primary which message this hub lacks.
    pub(super) fn complain(&self) {
        let mut text = LACKS.to_vec();
        text.extend_from_slice(self.member.needed_message().to_string().as_bytes());
        self.link.publish(&self.config.mark_subject(), text.into());
    }

    fn make_streams(&mut self) {
        let config = &self.config;
        let streams = [
            StreamSettings {
                must_exist: self.known > 0,
                ..keys_settings(config)
            },
            lease_settings(config),
            snapshot_settings(config),
        ];
        self.streams = Streams::Asked(streams.len(), false);
        for stream in streams {
            let tag = self.open(Request::Stream);
            self.link.make_stream(tag, stream);
        }
    }

    pub(super) fn stream_made(&mut self, answer: &Answer) {
        let Streams::Asked(left, has_failed) = self.streams else {
            return;
        };
        let is_made = matches!(answer, Answer::Made);
        if !is_made {
            self.note_error("a stream cannot be made", answer);
        }
        self.streams = match (left - 1, has_failed || !is_made) {
            (0, true) => Streams::Due(monotonic_ns() + STREAMS_RETRY_NS),
            (0, false) => Streams::Made,
            (left, failed) => Streams::Asked(left, failed),
        };
    }

    /// Makes the bucket of leases again: a hub gets the lease from it when it is old enough.
    pub(super) fn make_bucket(&mut self, now_ns: u64) {
        if now_ns >= self.bucket_ns {
            self.bucket_ns = now_ns.saturating_add(STREAMS_RETRY_NS);
            warn!("keys: the bucket of leases is gone; it is made again");
            self.make_again(lease_settings(&self.config));
        }
    }

    /// Gives the stream KEYS its settings again: limits may have been set.
    pub(super) fn mend_keys_stream(&mut self) {
        self.make_again(StreamSettings {
            must_exist: true,
            ..keys_settings(&self.config)
        });
    }

    pub(super) fn make_snapshot_stream(&mut self) {
        self.make_again(snapshot_settings(&self.config));
    }

    fn make_again(&mut self, stream: StreamSettings) {
        let tag = self.open(Request::Again);
        self.link.make_stream(tag, stream);
    }
}

pub(super) fn first_sequence() -> u64 {
    let wall_ms = u64::try_from(unix_ms()).unwrap_or(0);
    lease::first_sequence(wall_ms)
}

pub(super) fn keys_settings(config: &QuorumConfig) -> StreamSettings {
    StreamSettings {
        name: config.stream(),
        subjects: vec![config.subject()],
        replicas: config.replicas,
        refuses_when_full: true,
        first_sequence: Some(first_sequence()),
        ..StreamSettings::default()
    }
}

pub(super) fn lease_settings(config: &QuorumConfig) -> StreamSettings {
    StreamSettings {
        replicas: config.replicas,
        ..StreamSettings::leases(
            config.lease_stream(),
            config.lease_subjects(),
            lease::ENTRY_AGE,
            first_sequence(),
        )
    }
}

pub(super) fn snapshot_settings(config: &QuorumConfig) -> StreamSettings {
    StreamSettings {
        name: config.snapshot_stream(),
        subjects: vec![config.snapshot_subjects()],
        replicas: config.replicas,
        refuses_when_full: true,
        ..StreamSettings::default()
    }
}
