//! decode ∘ encode and encode ∘ decode are the identity, and no input panics.

use proptest::collection::vec;
use proptest::prelude::*;
use tidewire_mx::encode::Encode;
use tidewire_mx::guid::Guid;
use tidewire_mx::handle::{HandleProjection, ReferenceHandle};
use tidewire_mx::item_control::{ItemCommand, ItemControl};
use tidewire_mx::message::{Body, Message};
use tidewire_mx::operation::OperationStatus;
use tidewire_mx::registration::{ReferenceRequest, ReferenceResult, RequestGaps};
use tidewire_mx::status::{PackedStatus, Quality};
use tidewire_mx::subscription::{Record, RecordStatus, SubscriptionKind, SubscriptionMessage};
use tidewire_mx::time::FileTime;
use tidewire_mx::value::{DataType, OwnedValue, Text, Value};
use tidewire_mx::write::{SecuredUsers, Write, WriteSuffix};

/// Generates a value or none.
fn any_value() -> impl Strategy<Value = Option<OwnedValue>> {
    prop_oneof![
        Just(None),
        any::<bool>().prop_map(OwnedValue::Boolean).prop_map(Some),
        any::<i32>().prop_map(OwnedValue::Int32).prop_map(Some),
        any::<f32>().prop_map(OwnedValue::Float32).prop_map(Some),
        any::<f64>().prop_map(OwnedValue::Float64).prop_map(Some),
        any::<String>().prop_map(OwnedValue::String).prop_map(Some),
        any_time().prop_map(OwnedValue::DateTime).prop_map(Some),
        vec(any::<bool>(), 0..50)
            .prop_map(OwnedValue::Booleans)
            .prop_map(Some),
        vec(any::<i32>(), 0..50)
            .prop_map(OwnedValue::Int32s)
            .prop_map(Some),
        vec(any::<f32>(), 0..50)
            .prop_map(OwnedValue::Float32s)
            .prop_map(Some),
        vec(any::<f64>(), 0..50)
            .prop_map(OwnedValue::Float64s)
            .prop_map(Some),
        vec(any::<String>(), 0..8)
            .prop_map(OwnedValue::Strings)
            .prop_map(Some),
        vec(any_time(), 0..50)
            .prop_map(OwnedValue::DateTimes)
            .prop_map(Some),
    ]
}

fn any_time() -> impl Strategy<Value = FileTime> {
    any::<i64>().prop_map(FileTime)
}

/// Calls `check` with the borrowed value.
fn with_value<R>(owned: &Option<OwnedValue>, check: impl FnOnce(Value<'_>) -> R) -> R {
    match owned {
        Some(value) => value.with(check),
        None => check(Value::None),
    }
}

fn any_guid() -> impl Strategy<Value = Guid> {
    any::<[u8; 16]>().prop_map(Guid::from_bytes)
}

fn any_projection() -> impl Strategy<Value = HandleProjection> {
    any::<[u8; 14]>().prop_map(|bytes| HandleProjection::from_bytes(&bytes))
}

/// Compares the debug output, because values may hold NaN, which equals nothing.
fn same(body: &Body<'_>) -> Result<(), TestCaseError> {
    let bytes = body.encode().unwrap();
    let again = Body::decode(&bytes).unwrap();
    prop_assert_eq!(format!("{body:?}"), format!("{again:?}"));
    prop_assert_eq!(again.encode().unwrap(), bytes);
    Ok(())
}

const OPCODES: [u8; 11] = [
    0x10, 0x11, 0x1F, 0x21, 0x2D, 0x2E, 0x32, 0x33, 0x37, 0x38, 0xF0,
];

proptest! {
    #[test]
    fn writes_are_read_as_they_were_written(
        version in any::<u16>(), handle in any_projection(), owned in any_value(),
        (marker, time) in any::<(i16, i64)>(), (client_token, write_index) in any::<(u32, u32)>(),
        users in any::<Option<(i32, i32)>>(),
    ) {
        let time = FileTime(time);
        let suffix = WriteSuffix { marker, time, client_token, write_index };
        let users = users.map(|(current_id, verifier_id)| SecuredUsers { current_id, verifier_id });
        with_value(&owned, |value| {
            same(&Body::Write(Write { version, handle, value, suffix, users }))
        })?;
    }

    #[test]
    fn subscription_messages_are_read_as_they_were_written(
        owned in vec(any_value(), 0..4), quality in any::<u16>(), time in any::<i64>(),
        operation_id in any_guid(), item in any::<Option<[u8; 16]>>(),
        words in any::<(u32, i32)>(),
    ) {
        let kind = match item {
            Some(id) => SubscriptionKind::Status { item_correlation_id: Guid::from_bytes(id) },
            None => SubscriptionKind::Update,
        };
        let (status, detail_status) = (PackedStatus(words.0), words.1);
        let status = item.map(|_| RecordStatus { status, detail_status });
        let mut bytes = Vec::new();
        let (mut count, mut header) = (0_i32, 0);
        for owned in &owned {
            // Nested, because each value borrows; the records are put together on the wire.
            with_value(owned, |value| {
                let (quality, time) = (Quality(quality), FileTime(time));
                let record = [Record { status, quality, time, value }];
                let message = SubscriptionMessage::new(kind, operation_id, &record);
                same(&Body::Subscription(message))?;
                let encoded = message.encode().unwrap();
                header = if item.is_some() { 39 } else { 23 };
                if bytes.is_empty() {
                    bytes.extend_from_slice(&encoded[..header]);
                }
                bytes.extend_from_slice(&encoded[header..]);
                count += 1;
                Ok::<(), TestCaseError>(())
            })?;
        }
        if count > 0 {
            bytes[3..7].copy_from_slice(&count.to_le_bytes());
            let message = SubscriptionMessage::decode(&bytes).unwrap();
            let read: Vec<_> = message.records.iter().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), owned.len());
            for (record, owned) in read.iter().zip(&owned) {
                let wanted = with_value(owned, |value| format!("{value:?}"));
                prop_assert_eq!(format!("{:?}", record.value), wanted);
            }
            prop_assert_eq!(&message.encode().unwrap(), &bytes);
            let again = SubscriptionMessage::new(kind, operation_id, &read);
            prop_assert_eq!(again.encode().unwrap(), message.encode().unwrap());
        }
    }

    #[test]
    fn orders_are_read_as_they_were_written(
        version in any::<u16>(), item_correlation_id in any_guid(), handle in any_projection(),
        tail in any::<u32>(), which in 0..4_u8, (one, two) in any::<(u16, u16)>(),
    ) {
        let command = match which {
            0 => ItemCommand::Advise { extra: one },
            1 => ItemCommand::UnAdvise,
            2 => ItemCommand::Suspend { platform_id: one, engine_id: two },
            _ => ItemCommand::Activate { platform_id: one, engine_id: two },
        };
        let control = ItemControl { command, version, item_correlation_id, handle, tail };
        same(&Body::ItemControl(control))?;
    }

    #[test]
    fn registrations_are_read_as_they_were_written(
        version in any::<u16>(), item_correlation_id in any_guid(), item_handle in any::<i32>(),
        definition in any::<String>(), context in any::<String>(), subscribe in any::<u8>(),
        gap in any::<[u8; 32]>(), status in any::<u32>(), handle in any::<[u8; 20]>(),
        code in any::<u16>(),
    ) {
        let (definition, context) = (Text::new(&definition), Text::new(&context));
        let mut gaps = RequestGaps::default();
        gaps.at_23.copy_from_slice(&gap[..2]);
        gaps.at_25.copy_from_slice(&gap[2..4]);
        gaps.at_31.copy_from_slice(&gap[4..28]);
        gaps.tail[..4].copy_from_slice(&gap[28..]);
        same(&Body::ReferenceRequest(ReferenceRequest {
            version, item_correlation_id, item_handle, definition, context, subscribe, gaps,
        }))?;
        let mut tail = [0; 16];
        tail.copy_from_slice(&gap[16..]);
        same(&Body::ReferenceResult(ReferenceResult {
            version, item_correlation_id, item_handle, definition, context, tail,
            status: PackedStatus(status),
            handle: ReferenceHandle::from_bytes(&handle),
            data_type: DataType::from_code(code),
            gap: [gap[0]; 6],
        }))?;
        same(&Body::OperationStatus(OperationStatus::Full {
            status: PackedStatus(status), completion: subscribe,
        }))?;
    }

    #[test]
    fn any_bytes_are_an_error_or_encode_back_to_themselves(
        mut bytes in vec(any::<u8>(), 0..200),
        opcode in prop::sample::select(OPCODES.to_vec()),
        kind in 0..0x48_u8,
    ) {
        let check = |bytes: &[u8]| {
            let _ = Message::decode(bytes);
            if let Ok(body) = Body::decode(bytes) {
                prop_assert_eq!(body.encode().unwrap(), bytes);
                let _ = format!("{body:?}");
            }
            Ok(())
        };
        check(&bytes)?;
        if let Some(first) = bytes.first_mut() {
            *first = opcode;
        }
        check(&bytes)?;
        for at in [17, 33, 57] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = kind;
            }
        }
        if let Some(count) = bytes.get_mut(3..7) {
            count.copy_from_slice(&1_i32.to_le_bytes());
        }
        check(&bytes)?;
    }
}
