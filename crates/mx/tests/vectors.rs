//! The bytes of the messages, written by hand: captures, and the layouts and sizes of the public
//! notes. `docs/nmx.md` has the same tables.

use tidewire_mx::encode::Encode;
use tidewire_mx::guid::Guid;
use tidewire_mx::handle::{HandleIds, HandleProjection, ReferenceHandle};
use tidewire_mx::item_control::{ItemCommand, ItemControl};
use tidewire_mx::message::{Body, Message};
use tidewire_mx::registration::{ReferenceRequest, ReferenceResult, buffer_interval_ms};
use tidewire_mx::status::{MxStatus, PackedStatus, Quality};
use tidewire_mx::subscription::{Record, RecordStatus, SubscriptionKind, SubscriptionMessage};
use tidewire_mx::time::FileTime;
use tidewire_mx::value::{DataType, Elements, Text, Texts, Value};
use tidewire_mx::write::{SecuredUsers, Write};

/// Decodes hexadecimal digits and ignores blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Encodes in every way, checks that the results agree, and decodes them again.
fn bytes_of(body: &Body<'_>) -> Vec<u8> {
    let own = body.encode().unwrap();
    let mut appended = vec![1, 2];
    body.encode_into(&mut appended).unwrap();
    assert_eq!(appended[2..], own);
    assert_eq!(body.encode_to_bytes_mut().unwrap(), own);
    let mut slice = vec![0; own.len()];
    assert_eq!(body.encode_to_slice(&mut slice), Ok(own.len()));
    assert_eq!(slice, own);
    slice.pop();
    assert!(body.encode_to_slice(&mut slice).is_err());
    let again = Body::decode(&own).unwrap();
    assert_eq!(again.encode().unwrap(), own);
    own
}

const GUID: &str = "cd 2a ee ec b2 76 06 4f b4 58 5c a0 2d f7 a8 93";
const PROJECTION: &str = "01 00 02 00 01 00 69 00 0a 00 47 92 00 00";

fn guid() -> Guid {
    Guid::from_parts(0xecee_2acd, 0x76b2, 0x4f06, 0xb458_5ca0_2df7_a893)
}

fn projection() -> HandleProjection {
    HandleProjection::from_bytes(&hex(PROJECTION).try_into().unwrap())
}

#[test]
fn the_captured_suspend() {
    let captured = hex(&format!(
        "2d 01 00 {GUID} 01 00 05 00 {PROJECTION} 03 00 00 00"
    ));
    assert_eq!(captured.len(), 41);
    let control = ItemControl::decode(&captured).unwrap();
    let command = ItemCommand::Suspend {
        platform_id: 1,
        engine_id: 5,
    };
    assert_eq!(control, ItemControl::new(command, guid(), projection()));
    let ids = HandleIds::default();
    let scan_state = ReferenceHandle::from_names(ids, "", "ScanState").projection();
    let handle = control.handle;
    assert_eq!(
        handle.attribute_signature(),
        scan_state.attribute_signature()
    );
    assert_eq!((handle.attribute_id(), handle.property_id()), (0x69, 0x0A));
    assert_eq!(handle.attribute_index(), 0);
    assert_eq!(bytes_of(&Body::ItemControl(control)), captured);
}

#[test]
fn item_control_has_the_stated_sizes() {
    let bytes = |command| {
        bytes_of(&Body::ItemControl(ItemControl::new(
            command,
            guid(),
            projection(),
        )))
    };
    let advise = bytes(ItemCommand::ADVISE);
    let expected = format!("1f 01 00 {GUID} 00 00 {PROJECTION} 03 00 00 00");
    assert_eq!((advise.len(), advise), (39, hex(&expected)));
    let un_advise = bytes(ItemCommand::UnAdvise);
    let expected = format!("21 01 00 {GUID} {PROJECTION} 03 00 00 00");
    assert_eq!((un_advise.len(), un_advise), (37, hex(&expected)));
    let mut other = hex(&expected);
    other[0] = 0x20;
    assert!(ItemControl::decode(&other).is_err(), "others are refused");
}

#[test]
fn writes_have_the_derived_sizes() {
    let write = |value| bytes_of(&Body::Write(Write::new(projection(), value).numbered(7, 9)));
    let suffix = "ff ff 00 00 00 00 00 00 00 00 07 00 00 00 09 00 00 00";
    let cases = [
        (Value::Boolean(true), 37, "01 ff"),
        (Value::Boolean(false), 37, "01 00"),
        (Value::Int32(-2), 40, "02 fe ff ff ff"),
        (Value::Float32(1.5), 40, "03 00 00 c0 3f"),
        (Value::Float64(1.5), 44, "04 00 00 00 00 00 00 f8 3f"),
        (
            Value::DateTime(FileTime(1)),
            44,
            "06 01 00 00 00 00 00 00 00",
        ),
        (
            Value::text("hé"),
            48,
            "05 08 00 00 00 04 00 00 00 68 00 e9 00",
        ),
        (
            Value::Int32Array(Elements::new(&[1, -1])),
            52,
            "42 0c 00 00 00 02 00 04 00 01 00 00 00 ff ff ff ff",
        ),
        (
            Value::BooleanArray(Elements::new(&[true, false])),
            48,
            "41 08 00 00 00 02 00 02 00 ff ff 00 00",
        ),
        (
            Value::StringArray(Texts::new(&["a", ""])),
            54,
            "45 0e 00 00 00 02 00 00 00 02 00 00 00 61 00 00 00 00 00",
        ),
    ];
    for (value, length, on_wire) in cases {
        let expected = hex(&format!("37 01 00 {PROJECTION} {on_wire} {suffix}"));
        assert_eq!(write(value), expected, "{value:?}");
        assert_eq!(expected.len(), length, "{value:?}");
        let Body::Write(again) = Body::decode(&expected).unwrap() else {
            panic!("{value:?}");
        };
        assert_eq!(again.value, value);
    }
}

#[test]
fn a_boolean_is_seen_as_its_byte_and_the_start_of_the_suffix() {
    let bytes = Write::new(projection(), Value::Boolean(true))
        .encode()
        .unwrap();
    assert_eq!(bytes[18..22], [0xFF, 0xFF, 0xFF, 0x00]);
    let bytes = Write::new(projection(), Value::Boolean(false))
        .encode()
        .unwrap();
    assert_eq!(bytes[18..22], [0x00, 0xFF, 0xFF, 0x00]);
}

#[test]
fn timed_and_secured_writes_add_to_a_plain_one() {
    let plain = Write::new(projection(), Value::Int32(5));
    let users = SecuredUsers {
        current_id: 3,
        verifier_id: 4,
    };
    let timed = bytes_of(&Body::Write(plain.at(FileTime(0x0807_0605_0403_0201))));
    assert_eq!(timed[22..32], hex("ff ff 01 02 03 04 05 06 07 08"));
    let secured = bytes_of(&Body::Write(plain.secured(users)));
    assert_eq!(secured[1..40], plain.encode().unwrap()[1..]);
    assert_eq!(secured[40..], hex("03 00 00 00 04 00 00 00"));
    assert_ne!(secured[0], 0x37);
}

#[test]
fn the_captured_write_complete() {
    let Body::OperationStatus(status) = Body::decode(&hex("00 00 50 80 00")).unwrap() else {
        panic!("five bytes are an operation status");
    };
    assert_eq!(status.status(), Some(MxStatus::OK));
}

#[test]
fn subscription_messages_have_their_records_where_the_notes_say() {
    let record = Record {
        status: None,
        quality: Quality::GOOD,
        time: FileTime(2),
        value: Value::Int32(99),
    };
    let on_wire = "c0 00 02 00 00 00 00 00 00 00 02 63 00 00 00";
    let records = [record, record];
    let update = SubscriptionMessage::new(SubscriptionKind::Update, guid(), &records);
    let bytes = bytes_of(&Body::Subscription(update));
    let expected = format!("33 01 00 02 00 00 00 {GUID} {on_wire} {on_wire}");
    assert_eq!(bytes, hex(&expected));
    assert_eq!(bytes[23..38], hex(on_wire));

    let status = Some(RecordStatus {
        status: PackedStatus(0x8050_0000),
        detail_status: 3,
    });
    let records = [Record { status, ..record }];
    let kind = SubscriptionKind::Status {
        item_correlation_id: guid(),
    };
    let bytes = bytes_of(&Body::Subscription(SubscriptionMessage::new(
        kind,
        guid(),
        &records,
    )));
    let expected = format!("32 01 00 01 00 00 00 {GUID} {GUID} 00 00 50 80 03 00 00 00 {on_wire}");
    assert_eq!(bytes, hex(&expected));
    assert_eq!(bytes[39..43], hex("00 00 50 80"));
}

#[test]
fn a_value_that_is_not_understood_is_kept_raw() {
    let bytes = hex(&format!(
        "33 01 00 02 00 00 00 {GUID} c0 00 00 00 00 00 00 00 00 00 77 01 02 03
         04 05 06 07 08 09 0a 0b 0c"
    ));
    let Body::Subscription(message) = Body::decode(&bytes).unwrap() else {
        panic!("an update");
    };
    let mut records = message.records.iter();
    let Value::Raw { kind, bytes: raw } = records.next().unwrap().unwrap().value else {
        panic!("0x77 is no kind");
    };
    assert_eq!((kind, raw.len()), (0x77, 12));
    assert!(records.next().is_none());
    assert_eq!(
        records.left(),
        1,
        "the second record begins nobody knows where"
    );
    assert_eq!(message.encode().unwrap(), bytes);
}

#[test]
fn more_records_than_bytes_are_refused_before_anything_is_read() {
    for count in ["ff ff ff 7f", "ff ff ff ff", "02 00 00 00"] {
        let bytes = hex(&format!(
            "33 01 00 {count} {GUID} c0 00 00 00 00 00 00 00 00 00 01 ff"
        ));
        assert!(SubscriptionMessage::decode(&bytes).is_err(), "{count}");
    }
}

#[test]
fn a_reference_request_has_its_first_text_at_55() {
    let request = ReferenceRequest {
        subscribe: 1,
        context: Text::new("c"),
        ..ReferenceRequest::new(guid(), 258, Text::new("T.L"))
    };
    let bytes = bytes_of(&Body::ReferenceRequest(request));
    let zeros = |count: usize| "00".repeat(count);
    let expected = format!(
        "10 01 00 {GUID} 02 01 00 00 0000 0000 06 00 00 00 {} 54 00 2e 00 4c 00 {}
         02 00 00 00 63 00 {} 01",
        zeros(24),
        zeros(8),
        zeros(19)
    );
    assert_eq!(bytes, hex(&expected));
    assert_eq!(bytes[55..57], [b'T', 0]);
    assert_eq!([1, 100, 101].map(buffer_interval_ms), [100, 100, 200]);
}

#[test]
fn bytes_of_unknown_meaning_survive() {
    let mut bytes = ReferenceRequest::new(guid(), 1, Text::new("ab"))
        .encode()
        .unwrap();
    for gap in [23..27, 31..55, 59..67, 71..90] {
        bytes[gap].fill(0xA5);
    }
    assert_eq!(
        ReferenceRequest::decode(&bytes).unwrap().encode().unwrap(),
        bytes
    );
    let ids = HandleIds::default();
    let result = ReferenceResult {
        version: 1,
        item_correlation_id: guid(),
        item_handle: 1,
        status: PackedStatus(0x700F_0000),
        handle: ReferenceHandle::from_names(ids, "a", "b"),
        definition: Text::new("a.b"),
        data_type: DataType::Other(77),
        context: Text::new(""),
        gap: [9; 6],
        tail: [8; 16],
    };
    bytes_of(&Body::ReferenceResult(result));
}

#[test]
fn a_message_is_found_with_and_without_a_length_in_front() {
    use tidewire_mx::envelope::{EngineAddress, Envelope, Enveloped, MessageKind};
    let address = EngineAddress::default();
    let envelope = Envelope::new(MessageKind::Write, address, address);
    let body = Write::new(projection(), Value::Int32(5));
    let message = Enveloped {
        envelope: &envelope,
        body: &body,
    };
    let plain = message.encode().unwrap();
    assert_eq!(plain[2..6], 40_i32.to_le_bytes());
    let prefixed = [&(plain.len() as u32).to_le_bytes(), plain.as_slice()].concat();
    for bytes in [&plain, &prefixed] {
        let read = Message::decode(bytes).unwrap();
        assert_eq!(Body::decode(read.body), Ok(Body::Write(body)));
    }
    assert!(Message::decode(&plain[..85]).is_err());
}

#[test]
fn types_fall_back_as_the_notes_say() {
    assert_eq!(
        DataType::ElapsedTime.wire_kind(false),
        DataType::Integer.wire_kind(false)
    );
    let international = DataType::InternationalizedString;
    assert_eq!(
        international.wire_kind(false),
        DataType::String.wire_kind(false)
    );
    assert_eq!(DataType::ElapsedTime.wire_kind(true), None);
    assert_eq!(international.wire_kind(true), None);
    let all = (0..=20).map(DataType::from_code);
    let writable = all.clone().filter(|kind| kind.wire_kind(true).is_some());
    assert_eq!(writable.count(), 6, "six kinds of arrays");
    for (code, kind) in (0..=20).zip(all) {
        assert_eq!(kind.code(), code);
    }
}
