//! Fuzz entries of this crate's decoders and state machines: functions that must never panic.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::annotate::{Form, annotate};
use crate::asb::AsbVariant;
use crate::encode::Encode;
use crate::envelope::{EngineAddress, Envelope, Enveloped};
use crate::guid::Guid;
use crate::handle::{HandleIds, ReferenceHandle};
use crate::item_control::{ItemCommand, ItemControl};
use crate::message::{Body, Message};
use crate::operation::OperationStatus;
use crate::plant::{Faults, Plant, PlantConfig};
use crate::registration::{
    ClientRegister, ClientRegistered, ClientUnregister, ReferenceRequest, ReferenceResult,
};
use crate::session::{AdviseMode, Session, SessionConfig, WriteOptions};
use crate::status::{MxStatus, PackedStatus, Quality};
use crate::subscription::{Record, RecordStatus, SubscriptionKind, SubscriptionMessage};
use crate::time::FileTime;
use crate::transport::PREFIX_LENGTH;
use crate::value::{DataType, Elements, Text, Texts, Value};
use crate::write::{SecuredUsers, Write};

/// Decodes bytes as a message, a body, a handle and a variant. Decoded bytes must encode back to
/// the same bytes, and every byte must be in one annotated field.
pub fn fuzz_mx_message(data: &[u8]) {
    for form in [Form::Message, Form::Body, Form::Handle, Form::Asb] {
        let fields = annotate(data, form, &[]);
        let covered: usize = fields.iter().map(|field| field.bytes.len()).sum();
        assert_eq!(covered, data.len());
    }
    if let Ok(variant) = AsbVariant::decode(data) {
        let _ = (variant.as_int32(), variant.as_text(), variant.as_array());
        same(&variant, data);
    }
    if let Ok(message) = Message::decode(data)
        && let Ok(body) = Body::decode(message.body)
    {
        same(&body, message.body);
    }
    if let Ok(body) = Body::decode(data) {
        if let Body::Subscription(message) = body {
            let records = message.records.iter().filter_map(Result::ok);
            let records: Vec<Record<'_>> = records.take(1_000).collect();
            let rewritten = SubscriptionMessage::new(message.kind, message.operation_id, &records);
            let bytes = rewritten.encode().unwrap_or_default();
            assert!(bytes.len() <= data.len());
        }
        same(&body, data);
    }
}

fn same(message: &impl Encode, data: &[u8]) {
    let mut bytes = Vec::new();
    assert_eq!(message.encode_into(&mut bytes), Ok(data.len()));
    assert_eq!(bytes, data);
}

/// Passes arbitrary bytes to a client session, unchanged and as answers to its requests.
pub fn fuzz_mx_session(data: &[u8]) {
    run_session(data, false);
    run_session(data, true);
}

fn run_session(data: &[u8], registered: bool) {
    let mut session = Session::new(SessionConfig::default());
    let mut events = 0;
    let mut count = |_: crate::session::Event<'_>| events += 1;
    let item = session.add_item("Tank1.Level", 0);
    session.connected(0);
    if registered {
        let body = ClientRegistered {
            version: 1,
            status: MxStatus::OK.pack(),
            engine: EngineAddress::default(),
        };
        session.receive_message(&enveloped(&Body::ClientRegistered(body)), 1, &mut count);
    }
    if let Ok(item) = item {
        session.advise(item, AdviseMode::User, 1);
        let _ = session.write(item, Value::Float32(1.0), WriteOptions::default(), 1);
    }
    let _ = session.receive(data, 2, &mut count);
    session.receive_message(data, 3, &mut count);
    let deadline_ns = session.deadline_ns();
    session.handle_timeout(deadline_ns.min(1 << 40), &mut count);
    session.disconnected(&mut count);
    assert!(session.deadline_ns() == u64::MAX);
}

/// Passes arbitrary bytes to a plant, before and after a registration.
pub fn fuzz_mx_plant(data: &[u8]) {
    let mut plant = Plant::new(PlantConfig {
        tags: 14,
        first_change_ns: (0, 10),
        faults: Faults {
            refuse: 0.3,
            delay: 0.3,
            lose: 0.3,
            ..Faults::default()
        },
        ..PlantConfig::default()
    });
    let id = plant.connected();
    for turn in 0..2 {
        let _ = plant.receive(id, data, turn);
        plant.receive_message(id, data, turn);
        let register = Body::ClientRegister(ClientRegister::new(Text::new("fuzz")));
        plant.receive_message(id, &enveloped(&register), turn);
    }
    for now_ns in [20, 1 << 30, 1 << 32] {
        plant.handle_timeout(now_ns);
    }
    let out = plant.outgoing(id).map(core::mem::take).unwrap_or_default();
    let mut rest = out.as_slice();
    while let Ok(Some((message, length))) = crate::transport::next_message(rest) {
        let read = Message::decode(message).and_then(|message| Body::decode(message.body));
        assert!(read.is_ok(), "a plant speaks so that it is understood");
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    plant.disconnected(id);
}

fn enveloped(body: &Body<'_>) -> Vec<u8> {
    let address = EngineAddress::default();
    let envelope = Envelope::new(body.message_kind(), address, address);
    let message = Enveloped {
        envelope: &envelope,
        body,
    };
    message.encode().unwrap_or_default()
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
    debug_assert_eq!(bytes.len(), PREFIX_LENGTH);
    bytes.extend_from_slice(message);
    bytes
}

/// Returns one message of each type, for the corpus of a fuzzer and for tests.
pub fn sample_messages() -> Vec<(String, Vec<u8>)> {
    let guid = Guid::from_parts(0xecee_2acd, 0x76b2, 0x4f06, 0xb458_5ca0_2df7_a893);
    let ids = HandleIds {
        object_id: 1,
        attribute_id: 0x69,
        property_id: 10,
        ..HandleIds::default()
    };
    let handle = ReferenceHandle::from_names(ids, "Tank1", "ScanState");
    let control = |command| Body::ItemControl(ItemControl::new(command, guid, handle.projection()));
    let write = |value| Write::new(handle.projection(), value);
    let record = |value| Record {
        status: None,
        quality: Quality::GOOD,
        time: FileTime(133_500_000_000_000_000),
        value,
    };
    let ok = Some(RecordStatus {
        status: PackedStatus(0x8050_0000),
        detail_status: 0,
    });
    let updates = [
        record(Value::Int32(99)),
        record(Value::Boolean(true)),
        record(Value::text("水")),
        record(Value::Float64Array(Elements::new(&[1.5, -2.5]))),
    ];
    let statuses = [Record {
        status: ok,
        ..record(Value::StringArray(Texts::new(&["a", "ü", ""])))
    }];
    let raw = [record(Value::Raw {
        kind: 0x77,
        bytes: &[1, 2, 3],
    })];
    let status_kind = SubscriptionKind::Status {
        item_correlation_id: guid,
    };
    let subscription =
        |kind, records| Body::Subscription(SubscriptionMessage::new(kind, guid, records));
    let users = SecuredUsers {
        current_id: 1,
        verifier_id: 2,
    };
    let time = FileTime(133_500_000_000_000_000);
    let times = [time];
    let definition = Text::new("Tank1.Level");
    let request = ReferenceRequest::new(guid, 3, definition);
    let bodies = [
        ("advise", control(ItemCommand::ADVISE)),
        ("un-advise", control(ItemCommand::UnAdvise)),
        (
            "suspend",
            control(ItemCommand::Suspend {
                platform_id: 1,
                engine_id: 5,
            }),
        ),
        ("write-boolean", Body::Write(write(Value::Boolean(true)))),
        ("write-int32", Body::Write(write(Value::Int32(-1)))),
        ("write-string", Body::Write(write(Value::text("Füllstand")))),
        (
            "write-times",
            Body::Write(write(Value::DateTimeArray(Elements::new(&times)))),
        ),
        (
            "write2-secured",
            Body::Write(write(Value::Float32(1.5)).at(time).secured(users)),
        ),
        ("updates", subscription(SubscriptionKind::Update, &updates)),
        ("update-raw", subscription(SubscriptionKind::Update, &raw)),
        ("status", subscription(status_kind, &statuses)),
        ("reference-request", Body::ReferenceRequest(request)),
        (
            "reference-result",
            Body::ReferenceResult(ReferenceResult {
                version: 1,
                item_correlation_id: guid,
                item_handle: 3,
                status: MxStatus::OK.pack(),
                handle,
                definition,
                data_type: DataType::Float,
                context: Text::new(""),
                gap: [0; 6],
                tail: [0; 16],
            }),
        ),
        (
            "write-complete",
            Body::OperationStatus(OperationStatus::WRITE_COMPLETE),
        ),
        (
            "completion-only",
            Body::OperationStatus(OperationStatus::CompletionOnly(0x41)),
        ),
        (
            "register",
            Body::ClientRegister(ClientRegister::new(Text::new("tidewire"))),
        ),
        (
            "registered",
            Body::ClientRegistered(ClientRegistered {
                version: 1,
                status: MxStatus::OK.pack(),
                engine: EngineAddress::default(),
            }),
        ),
        (
            "unregister",
            Body::ClientUnregister(ClientUnregister { version: 1 }),
        ),
    ];
    let mut samples = Vec::new();
    for (name, body) in &bodies {
        samples.push((String::from(*name), enveloped(body)));
    }
    let suspend = bodies[2].1.encode().unwrap_or_default();
    samples.push((String::from("body-suspend"), suspend));
    let prefixed = framed(&samples[4].1);
    samples.push((String::from("prefixed-write"), prefixed));
    samples
}

/// Returns streams of messages, for the state machines.
pub fn sample_streams() -> Vec<(String, Vec<u8>)> {
    let samples = sample_messages();
    let mut streams = vec![(String::from("empty"), Vec::new())];
    let mut all = Vec::new();
    for (name, message) in &samples[..18] {
        all.extend_from_slice(&framed(message));
        streams.push((name.clone(), framed(message)));
    }
    streams.push((String::from("all"), all));
    streams.push((String::from("too-long"), u32::MAX.to_le_bytes().to_vec()));
    streams.push((String::from("too-short"), vec![1, 0, 0, 0, 7]));
    streams
}

#[cfg(test)]
mod tests;
