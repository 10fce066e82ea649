//! A message as fields: offset, meaning, and the evidence for it. `tidewire decode mx` prints
//! these fields, and a capture corrects the [`crate::profile`] with them.
//!
//! Every byte belongs to exactly one field, in order, for any input.

mod bodies;
mod value;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::envelope::{Envelope, MessageKind};
use crate::profile::{self, CONSTANTS, Evidence};
use crate::signature::name_signature;

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Offset in the message.
    pub offset: usize,
    /// The field's bytes.
    pub bytes: &'a [u8],
    /// The field's name.
    pub name: Cow<'static, str>,
    /// The decoded value.
    pub value: String,
    /// The evidence for name and offset.
    pub evidence: Evidence,
}

/// The form in which bytes are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A message: an envelope and a body, with or without a length prefix.
    Message,
    /// Only a body.
    Body,
    /// A reference handle of 20 bytes.
    Handle,
    /// A variant of the second data plane.
    Asb,
}

impl Form {
    /// Guesses the form of `bytes`: a message if an envelope's length fits, otherwise a body.
    pub fn guess(bytes: &[u8]) -> Self {
        match crate::message::Message::decode(bytes) {
            Ok(_) => Self::Message,
            Err(_) => Self::Body,
        }
    }
}

/// Splits `bytes` into fields. Signatures of `names`, and of some captured names, are recognised.
pub fn annotate<'a>(bytes: &'a [u8], form: Form, names: &[&str]) -> Vec<Field<'a>> {
    let mut walk = Walk {
        bytes,
        at: 0,
        names: names
            .iter()
            .chain(KNOWN_NAMES)
            .map(|name| (name_signature(name), *name))
            .collect(),
        fields: Vec::new(),
    };
    // `None` means that a field is cut short: the remaining bytes become one field.
    let _ = match form {
        Form::Message => message(&mut walk),
        Form::Body => bodies::body(&mut walk),
        Form::Handle => bodies::handle(&mut walk),
        Form::Asb => value::asb(&mut walk),
    };
    walk.rest("not understood", "");
    walk.fields
}

/// Names whose signatures were captured.
const KNOWN_NAMES: &[&str] = &[
    "ScanState",
    "TestChildObject",
    "TestInt",
    "TestBool",
    "TestString",
    "TestMachine_001",
];

struct Walk<'a, 'n> {
    bytes: &'a [u8],
    at: usize,
    names: Vec<(u16, &'n str)>,
    fields: Vec<Field<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn peek(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn push(
        &mut self,
        length: usize,
        name: impl Into<Cow<'static, str>>,
        evidence: Evidence,
        value: impl FnOnce(&'a [u8]) -> String,
    ) -> Option<&'a [u8]> {
        let bytes = self.peek().get(..length)?;
        self.fields.push(Field {
            offset: self.at,
            bytes,
            name: name.into(),
            value: value(bytes),
            evidence,
        });
        self.at += length;
        Some(bytes)
    }

    /// Adds a field of fixed size, formatted by `show`.
    fn fixed<const N: usize, T: ToString>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        evidence: Evidence,
        show: impl FnOnce([u8; N]) -> T,
    ) -> Option<[u8; N]> {
        let bytes = *self.peek().first_chunk::<N>()?;
        self.push(N, name, evidence, |_| show(bytes).to_string())?;
        Some(bytes)
    }

    fn u16(&mut self, name: impl Into<Cow<'static, str>>, evidence: Evidence) -> Option<u16> {
        self.fixed(name, evidence, u16::from_le_bytes)
            .map(u16::from_le_bytes)
    }

    fn i16(&mut self, name: impl Into<Cow<'static, str>>, evidence: Evidence) -> Option<i16> {
        self.fixed(name, evidence, i16::from_le_bytes)
            .map(i16::from_le_bytes)
    }

    fn u32(&mut self, name: impl Into<Cow<'static, str>>, evidence: Evidence) -> Option<u32> {
        self.fixed(name, evidence, u32::from_le_bytes)
            .map(u32::from_le_bytes)
    }

    fn i32(&mut self, name: impl Into<Cow<'static, str>>, evidence: Evidence) -> Option<i32> {
        self.fixed(name, evidence, i32::from_le_bytes)
            .map(i32::from_le_bytes)
    }

    fn guid(&mut self, name: &'static str, evidence: Evidence) -> Option<()> {
        self.fixed(name, evidence, crate::guid::Guid::from_bytes)?;
        Some(())
    }

    /// Adds bytes of unknown meaning at a known offset.
    fn gap(&mut self, length: usize, name: &'static str, evidence: Evidence) -> Option<()> {
        self.push(length, name, evidence, |bytes| {
            if bytes.iter().all(|byte| *byte == 0) {
                "zeros".to_string()
            } else {
                "kept as it is".to_string()
            }
        })?;
        Some(())
    }

    fn signature(&mut self, name: &'static str, evidence: Evidence) -> Option<()> {
        let signature = u16::from_le_bytes(*self.peek().first_chunk()?);
        let known = self.names.iter().find(|(known, _)| *known == signature);
        let text = match known {
            Some((_, name)) => format!("0x{signature:04X} ({name})"),
            None => format!("0x{signature:04X}"),
        };
        self.push(2, name, evidence, |_| text)?;
        Some(())
    }

    fn rest(&mut self, name: &'static str, value: &str) {
        let length = self.left();
        if length > 0 {
            self.push(length, name, Evidence::Guessed, |_| value.to_string());
        }
    }
}

fn message(walk: &mut Walk<'_, '_>) -> Option<()> {
    let is_plain = Envelope::split(walk.bytes).is_ok();
    if !is_plain && crate::message::without_prefix(walk.bytes).is_some() {
        walk.u32("length in front", Evidence::Stated)?;
    }
    envelope(walk)?;
    bodies::body(walk)
}

fn envelope(walk: &mut Walk<'_, '_>) -> Option<()> {
    walk.u16("envelope version", Evidence::Derived)?;
    walk.i32("inner_length", Evidence::Stated)?;
    walk.gap(4, "reserved", Evidence::Stated)?;
    walk.fixed("message_kind", Evidence::Stated, |bytes| {
        let code = i32::from_le_bytes(bytes);
        match MessageKind::from_code(code) {
            MessageKind::Other(_) => format!("{code}, unknown"),
            kind => format!("{code}, {kind:?} if the profile is right"),
        }
    })?;
    let names = [
        (profile::ADDRESS_LOCAL_GALAXY, "local galaxy"),
        (profile::ADDRESS_LOCAL_PLATFORM, "local platform"),
        (profile::ADDRESS_LOCAL_ENGINE, "local engine"),
        (profile::ADDRESS_TARGET_GALAXY, "target galaxy"),
        (profile::ADDRESS_TARGET_PLATFORM, "target platform"),
        (profile::ADDRESS_TARGET_ENGINE, "target engine"),
        (profile::ADDRESS_TOKEN, "token"),
        (profile::ADDRESS_TIMEOUT, "timeout_ms"),
    ];
    let mut offset = ADDRESS_BEGIN;
    while offset < Envelope::LENGTH {
        let name = names.iter().find(|(at, _)| *at == offset);
        walk.i32(name.map_or("address", |(_, name)| *name), Evidence::Guessed)?;
        offset += 4;
    }
    Some(())
}

/// Returns the evidence of a constant of the profile.
fn evidence_of(name: &str) -> Evidence {
    let constant = CONSTANTS.iter().find(|constant| constant.name == name);
    constant.map_or(Evidence::Guessed, |constant| constant.evidence)
}

const ADDRESS_BEGIN: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Encode;
    use crate::fuzzing::sample_messages;

    fn covers(bytes: &[u8], fields: &[Field<'_>]) {
        let mut at = 0;
        for field in fields {
            assert_eq!(field.offset, at, "{fields:#?}");
            assert!(!field.bytes.is_empty());
            at += field.bytes.len();
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn every_byte_is_in_one_field_however_the_message_is_cut() {
        for (name, bytes) in sample_messages() {
            let form = Form::guess(&bytes);
            let fields = annotate(&bytes, form, &[]);
            covers(&bytes, &fields);
            let unread = fields.iter().any(|field| field.name == "not understood");
            assert!(!unread, "{name}: {fields:#?}");
            for length in 0..bytes.len() {
                for form in [form, Form::Body, Form::Handle, Form::Asb] {
                    covers(&bytes[..length], &annotate(&bytes[..length], form, &[]));
                }
            }
        }
    }

    #[test]
    fn the_captured_suspend_is_explained() {
        let captured = [
            0x2d, 0x01, 0x00, 0xcd, 0x2a, 0xee, 0xec, 0xb2, 0x76, 0x06, 0x4f, 0xb4, 0x58, 0x5c,
            0xa0, 0x2d, 0xf7, 0xa8, 0x93, 0x01, 0x00, 0x05, 0x00, 0x01, 0x00, 0x02, 0x00, 0x01,
            0x00, 0x69, 0x00, 0x0a, 0x00, 0x47, 0x92, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
        ];
        let fields = annotate(&captured, Form::guess(&captured), &[]);
        let field = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!(field("opcode").value, "0x2D Suspend");
        assert_eq!(field("opcode").evidence, Evidence::Confirmed);
        assert_eq!(field("attribute_signature").value, "0x9247 (ScanState)");
        assert_eq!(field("tail").value, "3");
        assert_eq!(field("platform_id").evidence, Evidence::Guessed);
        assert_eq!(
            field("item_correlation_id").value,
            "ecee2acd-76b2-4f06-b458-5ca02df7a893"
        );
    }

    #[test]
    fn own_names_are_recognised() {
        let ids = crate::handle::HandleIds::default();
        let handle = crate::handle::ReferenceHandle::from_names(ids, "Tank1", "Level");
        let bytes = handle.encode().unwrap();
        let fields = annotate(&bytes, Form::Handle, &["Tank1", "level"]);
        let values: Vec<&str> = fields.iter().map(|field| field.value.as_str()).collect();
        assert!(values.iter().any(|value| value.ends_with("(Tank1)")));
        assert!(values.iter().any(|value| value.ends_with("(level)")));
    }
}
