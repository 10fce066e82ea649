//! The scenarios of the allocation test and of `tidewire-bench mx`: one list for both.
//!
//! Names show the group: `into` is an encode into the caller's buffer, `parse` a decode, `names`
//! a handle. Every other encode creates a new buffer.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use crate::encode::Encode;
use crate::envelope::{EngineAddress, Envelope, Enveloped, MessageKind};
use crate::guid::Guid;
use crate::handle::{HandleIds, HandleProjection, ReferenceHandle};
use crate::item_control::{ItemCommand, ItemControl};
use crate::message::{Body, Message};
use crate::operation::OperationStatus;
use crate::registration::ReferenceRequest;
use crate::status::{PackedStatus, Quality};
use crate::subscription::{Record, RecordStatus, SubscriptionKind, SubscriptionMessage};
use crate::time::FileTime;
use crate::value::{Elements, Text, Texts, Value};
use crate::write::{SecuredUsers, Write};

/// Number of calls before measuring.
pub const WARM_UP: u64 = 1_000;
/// Measured calls.
pub const ITERATIONS: u64 = 10_000;

/// One operation to repeat.
pub struct Scenario {
    /// Name.
    pub name: String,
    /// Maximum allocations per call.
    pub allocations_max: u64,
    /// Goal in nanoseconds per call, if there is one.
    pub goal_ns: Option<f64>,
    run: Box<dyn FnMut(u64)>,
}

impl Scenario {
    /// Runs the operation `times` times.
    pub fn run(&mut self, times: u64) {
        (self.run)(times);
    }

    fn new(
        name: impl Into<String>,
        allocations_max: u64,
        mut call: impl FnMut() + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            allocations_max,
            goal_ns: None,
            run: Box::new(move |times| {
                for _ in 0..times {
                    call();
                }
            }),
        }
    }

    fn within(mut self, goal_ns: f64) -> Self {
        self.goal_ns = Some(goal_ns);
        self
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .field("allocations_max", &self.allocations_max)
            .finish_non_exhaustive()
    }
}

/// Name of the first scenario: an empty loop as the baseline of the others.
pub const EMPTY_LOOP: &str = "empty loop";

/// Returns all scenarios, the empty loop first.
pub fn all() -> Vec<Scenario> {
    let mut scenarios = vec![Scenario::new(EMPTY_LOOP, 0, || {
        black_box(());
    })];
    writes(&mut scenarios);
    other_messages(&mut scenarios);
    parses(&mut scenarios);
    names(&mut scenarios);
    scenarios
}

/// Goal in nanoseconds for encoding a scalar into a caller's buffer, and for decoding one record.
const SCALAR_NS: f64 = 25.0;
const NAMES_NS: f64 = 60.0;

fn writes(scenarios: &mut Vec<Scenario>) {
    let values = values();
    for (name, value, _) in &values {
        let write = Write::new(projection(), *value);
        scenarios.push(Scenario::new(format!("encode {name}"), 1, move || {
            let _ = black_box(black_box(&write).encode());
        }));
    }
    #[cfg(feature = "bytes")]
    for (name, value, _) in &values[..1] {
        let write = Write::new(projection(), *value);
        scenarios.push(Scenario::new(
            format!("encode_to_bytes_mut {name}"),
            1,
            move || {
                let _ = black_box(black_box(&write).encode_to_bytes_mut());
            },
        ));
    }
    for (name, value, is_scalar) in &values {
        let write = Write::new(projection(), *value);
        let mut buffer = vec![0; write.encoded_len().unwrap_or(0)];
        let scenario = Scenario::new(format!("encode into &mut [u8], {name}"), 0, move || {
            let _ = black_box(black_box(&write).encode_to_slice(black_box(&mut buffer)));
        });
        scenarios.push(goal_of(scenario, *is_scalar));
    }
    for (name, value, is_scalar) in &values {
        scenarios.push(goal_of(
            into_vec(name, Write::new(projection(), *value)),
            *is_scalar,
        ));
    }
    #[cfg(feature = "bytes")]
    for (name, value, is_scalar) in &values[..4] {
        let write = Write::new(projection(), *value);
        let mut buffer = bytes::BytesMut::new();
        let scenario = Scenario::new(format!("encode into BytesMut, {name}"), 0, move || {
            buffer.clear();
            let _ = black_box(black_box(&write).encode_into_bytes_mut(&mut buffer));
        });
        scenarios.push(goal_of(scenario, *is_scalar));
    }
}

fn other_messages(scenarios: &mut Vec<Scenario>) {
    let write = Write::new(projection(), Value::Int32(42));
    let users = SecuredUsers {
        current_id: 1,
        verifier_id: 2,
    };
    let timed = into_vec("Write2 Int32", write.at(FileTime(1)));
    scenarios.push(timed.within(SCALAR_NS));
    let secured = into_vec("WriteSecured2 Int32", write.at(FileTime(1)).secured(users));
    scenarios.push(secured.within(SCALAR_NS));
    let control = ItemControl::new(ItemCommand::ADVISE, guid(1), projection());
    scenarios.push(into_vec("Advise", control));
    let definition = Text::new("TestMachine_001.TestInt");
    scenarios.push(into_vec(
        "AddItem",
        ReferenceRequest::new(guid(1), 1, definition),
    ));
    scenarios.push(into_vec(
        "operation status",
        OperationStatus::WRITE_COMPLETE,
    ));
    scenarios.push(into_vec("DataUpdate of 1 Int32", update(mixed_records(1))));
    scenarios.push(into_vec(
        "DataUpdate of 100 records",
        update(mixed_records(100)),
    ));

    let envelope = envelope();
    let mut buffer = Vec::new();
    scenarios.push(Scenario::new(
        "encode into Vec, envelope and Int32",
        0,
        move || {
            buffer.clear();
            let message = Enveloped {
                envelope: black_box(&envelope),
                body: black_box(&write),
            };
            let _ = black_box(message.encode_into(&mut buffer));
        },
    ));
}

fn parses(scenarios: &mut Vec<Scenario>) {
    let one_int = update(mixed_records(1));
    scenarios.push(parse_update("parse DataUpdate of 1 Int32", &one_int).within(SCALAR_NS));
    for (name, value, is_scalar) in values().iter().skip(1) {
        let records = vec![record(*value, None)];
        let name = format!("parse DataUpdate of 1 {name}");
        scenarios.push(goal_of(parse_update(&name, &update(records)), *is_scalar));
    }
    let name = "parse DataUpdate of 100 records";
    scenarios.push(parse_update(name, &update(mixed_records(100))));
    let status = RecordStatus {
        status: PackedStatus(0x8050_0000),
        detail_status: 0,
    };
    let kind = SubscriptionKind::Status {
        item_correlation_id: guid(2),
    };
    let records = kept(vec![record(Value::Int32(5), Some(status))]);
    let message = SubscriptionMessage::new(kind, guid(1), records);
    scenarios.push(parse_update("parse SubscriptionStatus of 1 Int32", &message).within(SCALAR_NS));

    let write = Write::new(projection(), Value::Int32(42));
    let bytes = write.encode().unwrap_or_default();
    scenarios.push(Scenario::new("parse Write Int32", 0, move || {
        let _ = black_box(Write::decode(black_box(&bytes)));
    }));
    let completion = [0x00, 0x00, 0x50, 0x80, 0x00];
    scenarios.push(Scenario::new("parse operation status", 0, move || {
        let _ = black_box(OperationStatus::decode(black_box(&completion)));
    }));
    let enveloped = Enveloped {
        envelope: &envelope(),
        body: &one_int,
    };
    let bytes = enveloped.encode().unwrap_or_default();
    scenarios.push(Scenario::new(
        "parse envelope, route, DataUpdate of 1 Int32",
        0,
        move || {
            if let Ok(message) = Message::decode(black_box(&bytes)) {
                let _ = black_box(Body::decode(message.body));
            }
        },
    ));
}

fn names(scenarios: &mut Vec<Scenario>) {
    let ids = HandleIds::default();
    scenarios.push(Scenario::new(
        "handle from names seen before",
        0,
        move || {
            let (object, attribute) = black_box(("TestMachine_0001", "TestAttribute_01"));
            black_box(ReferenceHandle::from_names(ids, object, attribute));
        },
    ));
    // 4,096 pairs; none repeats before all others have come, so a cache of 1,024 would not help.
    let pairs: Vec<(String, String)> = (0..4_096)
        .map(|number| {
            (
                format!("TestMachine_{number:04}"),
                format!("Attribute_{number:06}"),
            )
        })
        .collect();
    let mut next = 0;
    let new = Scenario::new("handle from two new names of 16 characters", 0, move || {
        let (object, attribute) = &pairs[next % pairs.len()];
        next += 1;
        black_box(ReferenceHandle::from_names(ids, object, attribute));
    });
    scenarios.push(new.within(NAMES_NS));
    scenarios.push(Scenario::new(
        "handle from names beyond ASCII",
        0,
        move || {
            let (object, attribute) = black_box(("Kühlwasserkreis1", "Температура_вход"));
            black_box(ReferenceHandle::from_names(ids, object, attribute));
        },
    ));
}

fn goal_of(scenario: Scenario, is_scalar: bool) -> Scenario {
    if is_scalar {
        scenario.within(SCALAR_NS)
    } else {
        scenario
    }
}

fn into_vec(name: &str, body: impl Encode + 'static) -> Scenario {
    let mut buffer = Vec::new();
    Scenario::new(format!("encode into Vec, {name}"), 0, move || {
        buffer.clear();
        let _ = black_box(black_box(&body).encode_into(&mut buffer));
    })
}

/// Decodes a message and every record of it.
fn parse_update(name: &str, message: &SubscriptionMessage<'_>) -> Scenario {
    let bytes = message.encode().unwrap_or_default();
    Scenario::new(name, 0, move || {
        if let Ok(message) = SubscriptionMessage::decode(black_box(&bytes)) {
            for record in message.records.iter() {
                let _ = black_box(record);
            }
        }
    })
}

fn update(records: Vec<Record<'static>>) -> SubscriptionMessage<'static> {
    SubscriptionMessage::new(SubscriptionKind::Update, guid(1), kept(records))
}

fn mixed_records(count: usize) -> Vec<Record<'static>> {
    let scalars = values().into_iter().filter(|(_, _, is_scalar)| *is_scalar);
    let scalars: Vec<_> = scalars.collect();
    (0..count)
        .map(|index| record(scalars[index % scalars.len()].1, None))
        .collect()
}

fn record(value: Value<'static>, status: Option<RecordStatus>) -> Record<'static> {
    Record {
        status,
        quality: Quality::GOOD,
        time: FileTime(133_500_000_000_000_000),
        value,
    }
}

/// Returns name, value, and whether it is a scalar of fixed size.
fn values() -> Vec<(&'static str, Value<'static>, bool)> {
    let numbers: Vec<i32> = (0..1_000).collect();
    let doubles: Vec<f64> = numbers
        .iter()
        .map(|number| f64::from(*number) / 7.0)
        .collect();
    let words: Vec<&str> = (0..1_000)
        .map(|index| ["Füllstand", "level"][index % 2])
        .collect();
    let long: String = "0123456789".repeat(50);
    vec![
        ("Int32", Value::Int32(42), true),
        ("Boolean", Value::Boolean(true), true),
        ("Float32", Value::Float32(21.5), true),
        ("Float64", Value::Float64(21.5), true),
        (
            "DateTime",
            Value::DateTime(FileTime(133_500_000_000_000_000)),
            true,
        ),
        ("String of 5", Value::text("level"), false),
        (
            "String of 500",
            Value::text(Box::leak(long.into_boxed_str())),
            false,
        ),
        (
            "Int32[] of 1,000",
            Value::Int32Array(Elements::new(kept(numbers))),
            false,
        ),
        (
            "Float64[] of 1,000",
            Value::Float64Array(Elements::new(kept(doubles))),
            false,
        ),
        (
            "String[] of 1,000",
            Value::StringArray(Texts::new(kept(words))),
            false,
        ),
    ]
}

/// Keeps values until the program ends: scenarios are created once and borrow what they encode.
fn kept<T>(values: Vec<T>) -> &'static [T] {
    Box::leak(values.into_boxed_slice())
}

fn projection() -> HandleProjection {
    let ids = HandleIds {
        object_id: 7,
        attribute_id: 105,
        property_id: 10,
        ..HandleIds::default()
    };
    ReferenceHandle::from_names(ids, "TestMachine_001", "TestInt").projection()
}

fn envelope() -> Envelope {
    let engine = EngineAddress {
        galaxy_id: 1,
        platform_id: 1,
        engine_id: 2,
    };
    Envelope::new(MessageKind::Write, engine, engine)
}

fn guid(number: u32) -> Guid {
    Guid::from_parts(number, 0x76b2, 0x4f06, 0xb458_5ca0_2df7_a893)
}
