//! Fuzz entries of this crate's decoders: functions that must never panic.

use tidewire_feed::client::{Client, ClientConfig, NullSink, Side};
use tidewire_feed::journal::{Everything, Journal};
use tidewire_feed::server::Relay;
use tidewire_feed::wire::TOPIC_VALUE_LENGTH_MAX;

use crate::edge::{Edge, EdgeAction, EdgeConfig, EdgeEvent, EdgeOutput};
use crate::frame::{Frame, FrameHeader, HEADER_LENGTH, checksum};
use crate::head::Head;
use crate::keys::{self, KeysAction, KeysConfig, KeysMember, KeysPosition, Outcome};
use crate::lease::LeaseAction;
use crate::owner::{Owner, OwnerConfig};
use crate::topics::{TopicClient, TopicEvent};
use crate::writes::{
    Admission, AskedWrites, KIND_ANSWER, KIND_COMMAND, KIND_REQUEST, TakenWrites,
    WRITE_HEADER_LENGTH, WriteAnswer, WriteId, WriteRequest, decode_words, encode_words,
    seal_write,
};

/// Reads messages of the stream KEYS, each behind its length in 4 bytes, unchanged and with correct
/// checksums, as a standby and as a primary.
pub fn fuzz_keys_frame(data: &[u8]) {
    for repairs in [false, true] {
        let mut position = KeysPosition::default();
        let mut member = KeysMember::new(KeysConfig::of([1; 12]), position, 0);
        let (mut sequence, mut rest) = (0, data);
        member.handle_timeout(0, 0);
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (bytes, after) = after.split_at(length.min(after.len()));
            rest = after;
            let mut message = bytes.to_vec();
            if repairs && message.len() >= keys::frame::HEADER_LENGTH {
                repair_keys(&mut message);
            }
            sequence += 1;
            let before = position;
            match position.read(sequence, &message) {
                Ok(_) => assert!(position.whole >= before.whole, "what counts never shrinks"),
                Err(_) => assert_eq!(position, before, "an error changes nothing"),
            }
            follow_keys(&mut member, &message, sequence);
        }
    }
}

fn repair_keys(message: &mut [u8]) {
    let length = message.len() - keys::frame::HEADER_LENGTH;
    message[0..2].copy_from_slice(&keys::frame::MAGIC.to_le_bytes());
    message[2] = keys::frame::VERSION;
    message[4..8].fill(0);
    message[24..28].copy_from_slice(&(length as u32).to_le_bytes());
    let checksum = crc32c::crc32c(message);
    message[4..8].copy_from_slice(&checksum.to_le_bytes());
}

fn follow_keys(member: &mut KeysMember, message: &[u8], sequence: u64) {
    let now_ns = sequence * 100_000_000;
    member.handle_timeout(0, now_ns);
    while let Some(action) = member.next_action() {
        match action {
            KeysAction::AskEnd { request } => {
                let extent = keys::KeysExtent {
                    origin: 1,
                    // Sometimes messages are gone.
                    missing: sequence / 3,
                    last: sequence,
                };
                member.ends_at(request, extent, now_ns);
                member.has_snapshot(sequence % 5);
            }
            KeysAction::Fetch { request, .. } => {
                let entry = keys::KeysEntry {
                    sequence,
                    is_fenced: !sequence.is_multiple_of(3),
                    message,
                };
                member.fetched(request, [entry], now_ns);
            }
            KeysAction::Append { request, .. } | KeysAction::Fence { request, .. } => {
                member.stored(request, Outcome::Stored(sequence + 1), now_ns);
            }
            KeysAction::Lease(LeaseAction::Create { request }) => {
                member.lease().written(request, sequence, now_ns);
            }
            KeysAction::Lease(_) => {}
        }
    }
    while member.next_event().is_some() {}
}

/// Reads requests and answers of writes, each behind its length in 4 bytes, unchanged and with
/// correct checksums, as an edge and as an owner.
pub fn fuzz_write_frame(data: &[u8]) {
    let kinds = [KIND_REQUEST, KIND_COMMAND, KIND_ANSWER].map(Some);
    for repairs in [None].into_iter().chain(kinds) {
        let mut taken = TakenWrites::new(5);
        let mut asked = AskedWrites::new(1);
        let (mut now_ns, mut rest) = (0, data);
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (bytes, after) = after.split_at(length.min(after.len()));
            rest = after;
            now_ns += 1;
            let mut message = bytes.to_vec();
            if let Some(kind) = repairs
                && message.len() >= WRITE_HEADER_LENGTH
            {
                seal_write(&mut message, kind);
            }
            if let Ok(request) = WriteRequest::decode(&message) {
                assert_eq!(request.encode(), message, "a request has one form");
                if request.is_command {
                    let words = decode_words(request.value);
                    let again = words.map(|(protocol, words)| encode_words(protocol, words));
                    assert_eq!(again.as_deref(), Some(request.value));
                }
                take_write(&mut taken, (request.id, request.ticket), now_ns);
            }
            if let Ok(answer) = WriteAnswer::decode(&message) {
                assert_eq!(WriteAnswer::decode(&answer.encode()), Ok(answer));
                let id = asked.begin((), ("a", answer.id.epoch), 1, now_ns);
                let ends = id.is_ok_and(|(id, _)| asked.is_answer(id.number, &answer, now_ns));
                assert!(!ends || asked.end(answer.id.number).is_some());
            }
            asked.due(now_ns).into_iter().for_each(|number| {
                asked.end(number);
            });
        }
    }
}

fn take_write(taken: &mut TakenWrites<WriteId>, request: (WriteId, u64), now_ns: u64) {
    if taken.admit("edge", request, Some(1), now_ns) == Admission::Take {
        let again = taken.admit("edge", request, Some(1), now_ns);
        assert_eq!(again, Admission::Repeated);
        let number = taken.begin(request.0, now_ns);
        assert_eq!(taken.get(number), Some(&request.0));
    }
    for number in taken.due(now_ns) {
        assert!(taken.end(number).is_some());
    }
}

/// Reads frames, each behind its length in 4 bytes, on all ways into an edge and an owner,
/// unchanged and with correct checksums.
pub fn fuzz_cluster_frame(data: &[u8]) {
    run(data, false);
    run(data, true);
}

fn run(data: &[u8], repairs: bool) {
    let mut edge = Edge::new(EdgeConfig::default(), 0);
    let mut client = Client::new(ClientConfig::default());
    let _ = client.subscribe("*");
    let mut topics = TopicClient::default();
    let journal = Journal::new(1, 64);
    let relay = Relay::new(&journal, &Everything);
    let mut owner = Owner::new(OwnerConfig::of(2), &relay, 0);
    let mut requests = (0, 0);
    let mut now_ns = 0;
    let mut rest = data;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (bytes, after) = after.split_at(length.min(after.len()));
        rest = after;
        let mut frame = bytes.to_vec();
        if repairs {
            repair(&mut frame);
        }
        if let Ok(decoded) = Frame::decode(&frame) {
            read_frame(&decoded, &mut owner);
        }
        owner.snapshot_seen(&frame);
        now_ns += 100_000_000;
        edge.handle_timeout(now_ns);
        while let Some(action) = edge.next_action() {
            match action {
                EdgeAction::ReadSnapshot { request } => requests.0 = request,
                EdgeAction::FetchLog { request, .. } => requests.1 = request,
            }
        }
        edge.snapshot_page(requests.0, &frame, now_ns);
        edge.snapshot_head(requests.0, &frame, now_ns);
        edge.snapshot_end(requests.0, now_ns);
        edge.head_seen(&frame, now_ns);
        edge.fetched(requests.1, &frame, now_ns, now_ns);
        edge.message(&frame, Some(now_ns), now_ns);
        feed(&mut edge, (&mut client, &mut topics), now_ns);
    }
}

fn read_frame(frame: &Frame<'_>, owner: &mut Owner) {
    for packet in frame.packets().flatten() {
        assert!(packet.messages().count() <= 1 + usize::from(u16::MAX));
    }
    if let Ok(head) = Head::decode(frame) {
        let bytes = head.encode(frame.header);
        let again = Frame::decode(&bytes).map(|frame| Head::decode(&frame));
        assert_eq!(again, Ok(Ok(head)));
    }
    owner.log_end(1, frame.header.first, Some(frame.header));
}

/// Gives a client what the edge says.
fn feed(edge: &mut Edge, (client, topics): (&mut Client, &mut TopicClient), now_ns: u64) {
    let mut count = topics.topics();
    let mut tell = |event: TopicEvent<'_>| match event {
        TopicEvent::Set { value, .. } => {
            assert!(value.len() <= TOPIC_VALUE_LENGTH_MAX);
            count += 1;
        }
        TopicEvent::Gone { .. } => {
            assert!(count > 0, "a topic that is gone was there");
        }
    };
    while let Some(output) = edge.next_output() {
        match output {
            EdgeOutput::Event(EdgeEvent::Restart { .. }) => client.connected(Side::A, now_ns),
            EdgeOutput::Event(EdgeEvent::Joined { .. }) => topics.joined(&mut tell),
            EdgeOutput::Event(_) => {}
            EdgeOutput::Bytes(bytes) => {
                topics.receive(&bytes, &mut tell);
                // A frame with a correct checksum may still hold what is no message.
                let _ = client.receive(Side::A, &bytes, now_ns, &mut NullSink);
            }
        }
    }
    let mut sent = Vec::new();
    client.drain_outgoing(Side::A, &mut sent);
}

/// Gives a frame its correct checksum, so that a fuzzer gets past it.
fn repair(frame: &mut [u8]) {
    if let Some((head, body)) = frame.split_first_chunk_mut::<HEADER_LENGTH>() {
        let right = checksum(head, body);
        head[4..8].copy_from_slice(&right.to_le_bytes());
    }
}

/// Returns frames, each behind its length.
#[doc(hidden)]
pub fn lengths_before(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        out.extend_from_slice(frame);
    }
    out
}

/// Returns a frame with this header, sealed around a body.
#[doc(hidden)]
pub fn sealed(header: FrameHeader, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER_LENGTH];
    frame.extend_from_slice(body);
    header.seal(&mut frame);
    frame
}

#[cfg(test)]
mod tests;
