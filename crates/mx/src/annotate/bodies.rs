//! The fields of each body.

use alloc::format;
use alloc::string::ToString;

use super::{Walk, evidence_of, value};
use crate::operation::OperationStatus;
use crate::profile::{self, Evidence};
use crate::status::{PackedStatus, Quality};
use crate::time::FileTime;
use crate::value::DataType;
use crate::write::Write;

pub(super) fn body(walk: &mut Walk<'_, '_>) -> Option<()> {
    if OperationStatus::has_length(walk.left()) {
        return operation_status(walk);
    }
    let (name, constant) = opcode_name(*walk.peek().first()?)?;
    let code = walk.fixed("opcode", evidence_of(constant), |[code]: [u8; 1]| {
        format!("0x{code:02X} {name}")
    })?[0];
    match code {
        profile::OPCODE_ADVISE
        | profile::OPCODE_UN_ADVISE
        | profile::OPCODE_SUSPEND
        | profile::OPCODE_ACTIVATE => item_control(walk, code),
        profile::OPCODE_WRITE | profile::OPCODE_WRITE_SECURED => write(walk, code),
        profile::OPCODE_SUBSCRIPTION_STATUS | profile::OPCODE_DATA_UPDATE => {
            subscription(walk, code)
        }
        profile::OPCODE_REFERENCE_REQUEST => reference_request(walk),
        profile::OPCODE_REFERENCE_RESULT => reference_result(walk),
        _ => client(walk, code),
    }
}

fn opcode_name(code: u8) -> Option<(&'static str, &'static str)> {
    Some(match code {
        profile::OPCODE_ADVISE => ("Advise, AdviseSupervisory", "OPCODE_ADVISE"),
        profile::OPCODE_UN_ADVISE => ("UnAdvise", "OPCODE_UN_ADVISE"),
        profile::OPCODE_SUSPEND => ("Suspend", "OPCODE_SUSPEND"),
        profile::OPCODE_ACTIVATE => ("Activate", "OPCODE_ACTIVATE"),
        profile::OPCODE_WRITE => ("Write, Write2", "OPCODE_WRITE"),
        profile::OPCODE_WRITE_SECURED => ("WriteSecured, WriteSecured2", "OPCODE_WRITE_SECURED"),
        profile::OPCODE_SUBSCRIPTION_STATUS => ("SubscriptionStatus", "OPCODE_SUBSCRIPTION_STATUS"),
        profile::OPCODE_DATA_UPDATE => ("DataUpdate", "OPCODE_DATA_UPDATE"),
        profile::OPCODE_REFERENCE_REQUEST => (
            "reference registration: request",
            "OPCODE_REFERENCE_REQUEST",
        ),
        profile::OPCODE_REFERENCE_RESULT => {
            ("reference registration: result", "OPCODE_REFERENCE_RESULT")
        }
        profile::OPCODE_CLIENT_REGISTER => ("Register", "OPCODE_CLIENT_REGISTER"),
        profile::OPCODE_CLIENT_REGISTERED => ("registered", "OPCODE_CLIENT_REGISTERED"),
        profile::OPCODE_CLIENT_UNREGISTER => ("Unregister", "OPCODE_CLIENT_UNREGISTER"),
        _ => return None,
    })
}

fn operation_status(walk: &mut Walk<'_, '_>) -> Option<()> {
    let status = OperationStatus::decode(walk.peek());
    let is_write_complete = status == Ok(OperationStatus::WRITE_COMPLETE);
    if walk.left() == 5 {
        // The capture confirms these bytes. That they are a packed status is derived.
        let evidence = if is_write_complete {
            Evidence::Confirmed
        } else {
            Evidence::Derived
        };
        packed_status(walk, "operation status", evidence)?;
        walk.fixed("completion", Evidence::Stated, |[byte]: [u8; 1]| {
            format!("0x{byte:02X}")
        })?;
        return Some(());
    }
    walk.fixed("completion alone", Evidence::Stated, |[byte]: [u8; 1]| {
        let seen = if [0x00, 0x41, 0xEF].contains(&byte) {
            "seen before"
        } else {
            "never seen"
        };
        format!("0x{byte:02X}, {seen}")
    })?;
    Some(())
}

fn packed_status(walk: &mut Walk<'_, '_>, name: &'static str, evidence: Evidence) -> Option<()> {
    walk.fixed(name, evidence, |bytes| {
        let word = u32::from_le_bytes(bytes);
        format!("0x{word:08X}: {}", PackedStatus(word).unpack())
    })?;
    Some(())
}

fn item_control(walk: &mut Walk<'_, '_>, code: u8) -> Option<()> {
    let evidence = if code == profile::OPCODE_SUSPEND {
        Evidence::Confirmed
    } else {
        Evidence::Stated
    };
    walk.u16("version", evidence)?;
    walk.guid("item_correlation_id", evidence)?;
    match code {
        profile::OPCODE_ADVISE => {
            walk.u16("advise_extra", Evidence::Stated)?;
        }
        profile::OPCODE_SUSPEND | profile::OPCODE_ACTIVATE => {
            walk.u16("platform_id", Evidence::Guessed)?;
            walk.u16("engine_id", Evidence::Guessed)?;
        }
        _ => {}
    }
    projection(walk, evidence)?;
    walk.u32("tail", evidence)?;
    Some(())
}

fn projection(walk: &mut Walk<'_, '_>, evidence: Evidence) -> Option<()> {
    walk.u16("object_id", evidence)?;
    walk.signature("object_signature", evidence)?;
    walk.i16("primitive_id", evidence)?;
    walk.i16("attribute_id", evidence)?;
    walk.i16("property_id", evidence)?;
    walk.signature("attribute_signature", evidence)?;
    walk.fixed(
        "attribute_index",
        evidence,
        |bytes| match i16::from_le_bytes(bytes) {
            -1 => "-1, an array".to_string(),
            0 => "0, a scalar".to_string(),
            index => format!("{index}"),
        },
    )?;
    Some(())
}

pub(super) fn handle(walk: &mut Walk<'_, '_>) -> Option<()> {
    walk.fixed("galaxy_id", Evidence::Stated, |[id]: [u8; 1]| id)?;
    walk.gap(1, "reserved", Evidence::Stated)?;
    walk.u16("platform_id", Evidence::Stated)?;
    walk.u16("engine_id", Evidence::Stated)?;
    projection(walk, Evidence::Stated)
}

fn write(walk: &mut Walk<'_, '_>, code: u8) -> Option<()> {
    walk.u16("version", Evidence::Stated)?;
    projection(walk, Evidence::Stated)?;
    let kind = value::kind(walk, "wire_kind")?;
    let is_secured = code == profile::OPCODE_WRITE_SECURED;
    let users = if is_secured { Write::USERS_LENGTH } else { 0 };
    let length = walk.left().checked_sub(Write::SUFFIX_LENGTH + users)?;
    value::value(walk, kind, length, "value")?;
    walk.i16("suffix: marker", Evidence::Derived)?;
    walk.fixed(
        "suffix: time",
        Evidence::Guessed,
        |bytes| match i64::from_le_bytes(bytes) {
            0 => "0, none".to_string(),
            time => FileTime(time).to_string(),
        },
    )?;
    walk.u32("suffix: client token", Evidence::Guessed)?;
    walk.u32("suffix: write index", Evidence::Guessed)?;
    if is_secured {
        walk.i32("current_user_id", Evidence::Guessed)?;
        walk.i32("verifier_user_id", Evidence::Guessed)?;
    }
    Some(())
}

fn subscription(walk: &mut Walk<'_, '_>, code: u8) -> Option<()> {
    let is_status = code == profile::OPCODE_SUBSCRIPTION_STATUS;
    walk.u16("version", Evidence::Stated)?;
    let count = walk.i32("record_count", Evidence::Stated)?;
    walk.guid("operation_id", Evidence::Stated)?;
    if is_status {
        walk.guid("item_correlation_id", Evidence::Stated)?;
    }
    for number in 1..=count {
        if walk.left() == 0 {
            return None;
        }
        if is_status {
            packed_status(walk, "status", Evidence::Guessed)?;
            walk.i32(format!("{number}: detail_status"), Evidence::Stated)?;
        } else if profile::DATA_UPDATE_HAS_STATUS {
            packed_status(walk, "status", Evidence::Guessed)?;
        }
        walk.fixed(format!("{number}: quality"), Evidence::Stated, |bytes| {
            Quality(u16::from_le_bytes(bytes))
        })?;
        walk.fixed(format!("{number}: time"), Evidence::Stated, |bytes| {
            FileTime(i64::from_le_bytes(bytes))
        })?;
        let kind = value::kind(walk, format!("{number}: wire_kind"))?;
        let length = walk.left();
        value::value(walk, kind, length, &format!("{number}: value"))?;
    }
    Some(())
}

fn reference_request(walk: &mut Walk<'_, '_>) -> Option<()> {
    walk.u16("version", Evidence::Stated)?;
    walk.guid("item_correlation_id", Evidence::Guessed)?;
    walk.i32("item_handle", Evidence::Guessed)?;
    walk.gap(2, "field at 23", Evidence::Guessed)?;
    walk.gap(2, "gap", Evidence::Stated)?;
    let length = walk.u32("definition: bytes", Evidence::Guessed)?;
    walk.gap(24, "gap", Evidence::Stated)?;
    value::text(walk, length as usize, "definition", Evidence::Stated)?;
    walk.gap(8, "gap between the texts", Evidence::Stated)?;
    let length = walk.u32("context: bytes", Evidence::Guessed)?;
    value::text(walk, length as usize, "context", Evidence::Stated)?;
    walk.gap(19, "tail", Evidence::Stated)?;
    walk.fixed("subscribe", Evidence::Stated, |[flag]: [u8; 1]| flag)?;
    Some(())
}

fn reference_result(walk: &mut Walk<'_, '_>) -> Option<()> {
    walk.u16("version", Evidence::Stated)?;
    walk.guid("item_correlation_id", Evidence::Guessed)?;
    walk.i32("item_handle", Evidence::Guessed)?;
    packed_status(walk, "status", Evidence::Guessed)?;
    walk.fixed("handle: galaxy_id", Evidence::Guessed, |[id]: [u8; 1]| id)?;
    walk.gap(1, "handle: reserved", Evidence::Guessed)?;
    walk.u16("handle: platform_id", Evidence::Guessed)?;
    walk.u16("handle: engine_id", Evidence::Guessed)?;
    projection(walk, Evidence::Guessed)?;
    let length = walk.u32("definition: bytes", Evidence::Guessed)?;
    value::text(walk, length as usize, "definition", Evidence::Stated)?;
    walk.fixed("mx_data_type", Evidence::Stated, |bytes| {
        let code = u16::from_le_bytes(bytes);
        format!("{code} {}", DataType::from_code(code).name())
    })?;
    walk.gap(6, "gap", Evidence::Stated)?;
    let length = walk.u32("context: bytes", Evidence::Guessed)?;
    value::text(walk, length as usize, "context", Evidence::Stated)?;
    walk.gap(16, "tail", Evidence::Stated)
}

fn client(walk: &mut Walk<'_, '_>, code: u8) -> Option<()> {
    walk.u16("version", Evidence::Own)?;
    match code {
        profile::OPCODE_CLIENT_REGISTER => {
            let length = walk.u32("client_name: bytes", Evidence::Own)?;
            value::text(walk, length as usize, "client_name", Evidence::Own)
        }
        profile::OPCODE_CLIENT_REGISTERED => {
            packed_status(walk, "status", Evidence::Own)?;
            walk.i32("galaxy_id", Evidence::Own)?;
            walk.i32("platform_id", Evidence::Own)?;
            walk.i32("engine_id", Evidence::Own)?;
            Some(())
        }
        _ => Some(()),
    }
}
