use std::collections::BTreeMap;

use tidewire_feed::wire::{Flags, PACKET_LENGTH_MAX, PacketWriter, TOPIC_VALUE_LENGTH_MAX};

use super::*;
use crate::edge::{Edge, EdgeAction, EdgeConfig, EdgeEvent, EdgeOutput};
use crate::owner::{Destination, Owner, OwnerAction, OwnerConfig, Publication, Times};
use tidewire_feed::wire::TopicKind;

const MS: u64 = 1_000_000;

/// An owner with its topics, and what the streams have kept of it.
struct Source {
    topics: OwnTopics,
    owner: Owner,
    log: Vec<(u64, Vec<u8>)>,
    head: Option<Vec<u8>>,
    pages: BTreeMap<u32, Vec<u8>>,
    now_ns: u64,
}

impl Source {
    fn new(epoch: u64, topics: OwnTopics) -> Source {
        let mut owner = Owner::new(OwnerConfig::of(epoch), &topics.relay(), 0);
        let mut actions = Vec::new();
        owner.produce(&topics.relay(), 0, &mut actions);
        owner.log_end(1, 0, None);
        Source {
            topics,
            owner,
            log: Vec::new(),
            head: None,
            pages: BTreeMap::new(),
            now_ns: 0,
        }
    }

    fn set(&mut self, name: &str, value: &[u8]) {
        assert!(self.topics.set(name.as_bytes(), TopicKind::Value, value, 1));
    }

    /// Publishes what is due, looking at `budget` slots; returns the frames for edges.
    fn publish(&mut self, budget: usize) -> Vec<(Option<u64>, Vec<u8>)> {
        self.now_ns += 20 * MS;
        let now_ns = self.now_ns;
        let (mut actions, mut frames) = (Vec::new(), Vec::new());
        while self
            .owner
            .produce(&self.topics.relay(), now_ns, &mut actions)
        {}
        let times = Times { now_ns, wall_ms: 1 };
        let sources = (&self.topics.relay(), &self.topics);
        self.owner
            .produce_records(sources, times, budget, &mut actions);
        for action in actions {
            let OwnerAction::Publish(Publication { to, bytes }) = action else {
                continue;
            };
            assert!(bytes.len() <= 1 << 20, "{} bytes", bytes.len());
            match to {
                Destination::Log { id, .. } => {
                    let sequence = self.log.len() as u64 + 1;
                    self.log.push((sequence, bytes.to_vec()));
                    frames.push((Some(sequence), bytes.to_vec()));
                    self.owner.acknowledged(id, sequence);
                }
                Destination::Live => frames.push((None, bytes.to_vec())),
                Destination::Page(page) => {
                    self.pages.insert(page, bytes.to_vec());
                    self.owner.page_stored(page);
                }
                Destination::Head => {
                    self.head = Some(bytes.to_vec());
                    self.owner.head_stored();
                }
            }
        }
        frames
    }

    /// Publishes until the snapshot has everything.
    fn snapshot(&mut self) -> Vec<(Option<u64>, Vec<u8>)> {
        self.owner.rewrite_snapshot();
        self.head = None;
        let mut frames = Vec::new();
        while self.head.is_none() {
            frames.extend(self.publish(1 << 20));
        }
        frames
    }
}

/// An edge, and the topics that its clients see.
struct Viewer {
    edge: Edge,
    client: TopicClient,
    seen: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Sequences by name: a topic never goes back.
    sequences: BTreeMap<Vec<u8>, u64>,
    joins: u64,
}

impl Viewer {
    fn new() -> Viewer {
        Viewer {
            edge: Edge::new(EdgeConfig::default(), 0),
            client: TopicClient::default(),
            seen: BTreeMap::new(),
            sequences: BTreeMap::new(),
            joins: 0,
        }
    }

    fn take(&mut self, source: &Source, frames: &[(Option<u64>, Vec<u8>)]) {
        for (sequence, frame) in frames {
            self.edge.message(frame, *sequence, source.now_ns);
        }
        self.turn(source);
    }

    fn turn(&mut self, source: &Source) {
        let now_ns = source.now_ns;
        self.edge.handle_timeout(now_ns);
        loop {
            while let Some(action) = self.edge.next_action() {
                match action {
                    EdgeAction::ReadSnapshot { request } => {
                        if let Some(head) = &source.head {
                            self.edge.snapshot_head(request, head, now_ns);
                        }
                        for page in source.pages.values() {
                            self.edge.snapshot_page(request, page, now_ns);
                        }
                        self.edge.snapshot_end(request, now_ns);
                    }
                    EdgeAction::FetchLog { request, after } => {
                        for (sequence, frame) in &source.log {
                            if *sequence > after {
                                self.edge.fetched(request, frame, *sequence, now_ns);
                            }
                        }
                        let last = source.log.len() as u64;
                        self.edge.fetch_end(request, last, now_ns);
                    }
                }
            }
            let Some(output) = self.edge.next_output() else {
                return;
            };
            self.output(output);
        }
    }

    fn output(&mut self, output: EdgeOutput) {
        let (seen, sequences) = (&mut self.seen, &mut self.sequences);
        let mut tell = |event: TopicEvent<'_>| match event {
            TopicEvent::Set {
                name,
                value,
                sequence,
                ..
            } => {
                seen.insert(name.to_vec(), value.to_vec());
                let before = sequences.insert(name.to_vec(), sequence);
                assert!(before.is_none_or(|before| before <= sequence), "{name:?}");
            }
            TopicEvent::Gone { name } => {
                assert!(seen.remove(&**name).is_some(), "{name:?}");
            }
        };
        match output {
            EdgeOutput::Bytes(bytes) => self.client.receive(&bytes, &mut tell),
            EdgeOutput::Event(EdgeEvent::Joined { .. }) => {
                self.joins += 1;
                self.client.joined(&mut tell);
            }
            EdgeOutput::Event(EdgeEvent::Restart { .. }) => sequences.clear(),
            EdgeOutput::Event(_) => {}
        }
        assert_eq!(self.client.ignored(), 0);
    }

    fn check(&self, source: &Source) {
        let own: BTreeMap<Vec<u8>, Vec<u8>> = source
            .topics
            .names()
            .map(|name| (name.to_vec(), source.topics.get(name).unwrap().1.to_vec()))
            .collect();
        assert!(self.edge.is_current());
        let lengths = |all: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<(Vec<u8>, usize)> {
            all.iter()
                .map(|(name, value)| (name.clone(), value.len()))
                .collect()
        };
        assert_eq!(lengths(&self.seen), lengths(&own));
        assert!(self.seen == own);
    }
}

#[test]
fn an_edge_sees_values_changes_and_removals() {
    let mut source = Source::new(1, OwnTopics::new(7));
    source.set("live:a", b"1");
    source.set("live:b", b"");
    let mut viewer = Viewer::new();
    let frames = source.snapshot();
    viewer.take(&source, &frames);
    viewer.check(&source);
    source.set("live:a", &[0, 255, b'\n']);
    source.set("live:é \0", b"odd");
    assert!(source.topics.remove(b"live:b", 2));
    assert!(!source.topics.remove(b"live:b", 2));
    let frames = source.publish(0);
    viewer.take(&source, &frames);
    viewer.check(&source);
    assert_eq!((viewer.seen.len(), viewer.joins), (2, 1));
}

#[test]
fn a_page_that_has_become_empty_can_be_read() {
    let mut source = Source::new(1, OwnTopics::new(7));
    source.set("live:a", b"1");
    source.snapshot();
    source.topics.remove(b"live:a", 1);
    source.snapshot();
    let mut viewer = Viewer::new();
    source.set("live:b", b"2");
    let frames = source.publish(0);
    viewer.take(&source, &frames);
    viewer.check(&source);
    assert_eq!(viewer.joins, 1);
}

#[test]
fn a_topic_that_is_deleted_while_the_edge_was_away_is_gone_behind_the_join() {
    let mut source = Source::new(1, OwnTopics::with_limits(7, 64, 1 << 10));
    for number in 0..20 {
        source.set(&format!("live:{number}"), b"1");
    }
    let mut viewer = Viewer::new();
    let frames = source.snapshot();
    viewer.take(&source, &frames);
    viewer.check(&source);
    // So much happens that neither journal nor log still has it.
    source.topics.remove(b"live:3", 1);
    for round in 0..50 {
        source.set(&format!("live:new{round}"), &[round; 300]);
    }
    source.publish(0);
    source.log.clear();
    source.snapshot();
    source.set("live:0", b"last");
    let frames = source.publish(0);
    viewer.take(&source, &frames);
    for _ in 0..20 {
        source.now_ns += 200 * MS;
        viewer.turn(&source);
    }
    viewer.check(&source);
    assert!(!viewer.seen.contains_key(&b"live:3"[..]));
    assert_eq!(viewer.joins, 2);
}

#[test]
fn an_owner_that_comes_back_without_its_keys_takes_them_away() {
    let mut source = Source::new(1, OwnTopics::new(7));
    source.set("live:a", b"1");
    source.set("live:b", b"2");
    let mut viewer = Viewer::new();
    let frames = source.snapshot();
    viewer.take(&source, &frames);
    viewer.check(&source);
    let mut again = Source::new(2, OwnTopics::new(8));
    again.now_ns = source.now_ns;
    again.set("live:b", b"3");
    let frames = again.snapshot();
    viewer.take(&again, &frames);
    for _ in 0..20 {
        again.now_ns += 200 * MS;
        viewer.turn(&again);
    }
    viewer.check(&again);
    assert_eq!(viewer.seen.len(), 1);
}

#[test]
fn what_is_too_long_or_has_no_room_is_removed_and_counted() {
    let mut topics = OwnTopics::with_limits(7, 64, 3);
    let kind = TopicKind::Value;
    assert!(topics.set(b"a", kind, b"1", 0));
    assert!(!topics.set(b"a", kind, &vec![0; TOPIC_VALUE_LENGTH_MAX + 1], 0));
    assert!(topics.get(b"a").is_none());
    assert!(!topics.set(&[b'n'; 1_025], kind, b"1", 0));
    assert!(!topics.set(b"", kind, b"1", 0));
    assert!(topics.set(b"b", kind, &vec![1; 3 * BLOCK_LENGTH], 0));
    assert!(!topics.set(b"c", kind, b"1", 0), "three slots are taken");
    assert!(topics.set(b"b", kind, b"short", 0));
    assert!(topics.set(b"c", kind, b"1", 0));
    assert!(topics.set(b"d", kind, b"1", 0));
    assert!(!topics.set(b"c", kind, &vec![1; BLOCK_LENGTH + 1], 0));
    assert_eq!((topics.topics(), topics.left_out()), (2, 5));
}

/// A page of the longest names and blocks fits in a frame.
#[test]
fn a_page_of_the_longest_entries_fits() {
    let mut source = Source::new(1, OwnTopics::new(7));
    for number in 0..128 {
        let name = format!("{number:0>1024}");
        source.set(&name, &[number as u8; BLOCK_LENGTH]);
    }
    source.snapshot();
    assert_eq!(source.pages.len(), 1);
    let length = source.pages[&0].len();
    assert!(length < 1_030_000, "{length} bytes");
}

/// Frames of the log and of the live subject begin at other messages: parts come twice.
#[test]
fn a_long_value_whose_parts_come_in_frames_that_overlap_is_whole() {
    let mut source = Source::new(1, OwnTopics::new(7));
    source.set("live:a", b"1");
    let mut viewer = Viewer::new();
    let frames = source.snapshot();
    viewer.take(&source, &frames);
    viewer.check(&source);
    source.set("live:a", &[7; 5_000]);
    source.set("live:b", &[8; 3_000]);
    let mut stream = Vec::new();
    for (_, frame) in source.publish(0) {
        stream.extend(
            crate::Frame::decode(&frame)
                .unwrap()
                .packets()
                .flatten()
                .flat_map(|packet| {
                    let first = packet.header.first_sequence;
                    (first..)
                        .zip(packet.messages().map(Result::unwrap))
                        .collect::<Vec<_>>()
                }),
        );
    }
    assert!(stream.len() > 30, "{} messages", stream.len());
    for (from, until) in [
        (0, 10),
        (3, 20),
        (0, 8),
        (20, 22),
        (15, stream.len()),
        (1, 30),
    ] {
        let mut bytes = Vec::new();
        let (first, messages) = (stream[from].0, &stream[from..until]);
        let mut writer = PacketWriter::new(&mut bytes, 7, Flags::NONE, first, PACKET_LENGTH_MAX);
        for (_, message) in messages {
            writer.push(message);
        }
        writer.finish();
        viewer.output(EdgeOutput::Bytes(bytes));
    }
    viewer.check(&source);
}

/// Changes, removals and long values in random order; pages are written in slices between them, so
/// that a snapshot has entries of different times; edges join at any time.
#[test]
fn edges_that_join_at_any_time_see_what_the_owner_has() {
    for seed in 0..40_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let mut source = Source::new(1, OwnTopics::with_limits(7, 1 << 15, 1 << 12));
        let mut viewers: Vec<Viewer> = Vec::new();
        for step in 0..300 {
            for _ in 0..below(6) {
                let name = format!("live:{}", below(400));
                match below(8) {
                    0 | 1 => drop(source.topics.remove(name.as_bytes(), step)),
                    2 => source.set(&name, &vec![step as u8; below(40_000) as usize]),
                    _ => source.set(&name, &vec![step as u8; below(300) as usize]),
                }
            }
            if step % 60 == 0 {
                source.owner.rewrite_snapshot();
            }
            let frames = source.publish(1 + below(256) as usize);
            for viewer in &mut viewers {
                // Some frames are lost, and fetched.
                match below(10) {
                    0 => viewer.turn(&source),
                    _ => viewer.take(&source, &frames),
                }
            }
            if below(40) == 0 {
                viewers.push(Viewer::new());
            }
        }
        source.set("live:last", b"1");
        let frames = source.publish(0);
        viewers
            .iter_mut()
            .for_each(|viewer| viewer.take(&source, &frames));
        for _ in 0..40 {
            source.now_ns += 200 * MS;
            let frames = source.publish(1 << 20);
            viewers
                .iter_mut()
                .for_each(|viewer| viewer.take(&source, &frames));
        }
        viewers.iter().for_each(|viewer| viewer.check(&source));
    }
}
