//! Where the fields of messages and groups are.

use crate::SchemaError;
use crate::schema::{Member, Presence, Primitive, Type, Types};

/// A message.
#[derive(Debug)]
pub(crate) struct MessageLayout {
    pub(crate) name: String,
    pub(crate) template_id: u16,
    /// Length of the root block in this version of the schema.
    pub(crate) block_length: u16,
    /// Length of the fields that the first version of the message has.
    pub(crate) base_length: usize,
    pub(crate) fields: Vec<Field>,
    pub(crate) groups: Vec<Group>,
}

/// A repeating group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The composite of its size header.
    pub(crate) dimension: String,
    /// The version in which it was added to its message.
    pub(crate) since: Option<u16>,
    pub(crate) block_length: u16,
    pub(crate) base_length: usize,
    pub(crate) fields: Vec<Field>,
}

/// A field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) of: Type,
    pub(crate) offset: usize,
    /// The version in which it was added to its block.
    pub(crate) since: Option<u16>,
}

/// Checks that the message header is the standard's: four numbers of 16 bits.
pub(crate) fn check_header(types: &Types) -> Result<(), SchemaError> {
    let expected = ["blockLength", "templateId", "schemaId", "version"];
    let is_standard = match types.get("messageHeader") {
        Some(Type::Composite(members)) => {
            members.len() == expected.len()
                && members
                    .iter()
                    .zip(expected)
                    .enumerate()
                    .all(|(at, (own, name))| {
                        own.name == name
                            && own.offset == at * 2
                            && own.plain.primitive == Primitive::Uint16
                            && own.plain.presence == Presence::Required
                    })
        }
        _ => false,
    };
    match is_standard {
        true => Ok(()),
        false => Err(SchemaError::Unsupported {
            name: "messageHeader".to_owned(),
            what: "a message header other than the standard's",
        }),
    }
}

/// Returns the only part of a composite that is on the wire, if there is exactly one: the
/// mantissa of a decimal with a constant exponent.
pub(crate) fn only_member(members: &[Member]) -> Option<&Member> {
    let mut sent = members
        .iter()
        .filter(|member| !matches!(member.plain.presence, Presence::Constant(_)));
    match (sent.next(), sent.next()) {
        (Some(member), None) => Some(member),
        _ => None,
    }
}
