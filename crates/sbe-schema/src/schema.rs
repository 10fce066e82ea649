//! The schema's model, as its XML gives it.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use crate::SchemaError;
use crate::layout::{self, Field, Group, MessageLayout};

/// A schema.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) package: String,
    pub(crate) id: u16,
    pub(crate) version: u16,
    pub(crate) types: Types,
    pub(crate) messages: Vec<MessageLayout>,
}

/// The named types, in order of their names.
pub(crate) type Types = BTreeMap<String, Type>;

/// A type of the schema.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Plain(Plain),
    Composite(Vec<Member>),
    Enum(Enumeration),
    Set(Enumeration),
}

/// A number, a text of fixed length, or a constant.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) primitive: Primitive,
    /// Number of elements; 1 for a number.
    pub(crate) length: usize,
    pub(crate) presence: Presence,
}

/// Whether a value is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// With the number that means "no value".
    Optional(i128),
    /// The value, which is not on the wire.
    Constant(String),
}

/// A part of a composite.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) plain: Plain,
    pub(crate) offset: usize,
}

/// An enum or a set.
#[derive(Clone, Debug)]
pub(crate) struct Enumeration {
    pub(crate) primitive: Primitive,
    /// The number that means "no value", if the encoding has one.
    pub(crate) null: Option<i128>,
    /// Names, and numbers (of a set: of bits).
    pub(crate) values: Vec<(String, i128)>,
}

/// A primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Char,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

impl Primitive {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "char" => Self::Char,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint8" => Self::Uint8,
            "uint16" => Self::Uint16,
            "uint32" => Self::Uint32,
            "uint64" => Self::Uint64,
            _ => return None,
        })
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Self::Char | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Uint64 => 8,
        }
    }

    pub(crate) fn rust(self) -> &'static str {
        match self {
            Self::Char | Self::Uint8 => "u8",
            Self::Int8 => "i8",
            Self::Int16 => "i16",
            Self::Int32 => "i32",
            Self::Int64 => "i64",
            Self::Uint16 => "u16",
            Self::Uint32 => "u32",
            Self::Uint64 => "u64",
        }
    }

    /// Returns the standard's number for "no value".
    fn null(self) -> i128 {
        match self {
            Self::Char => 0,
            Self::Int8 => i8::MIN.into(),
            Self::Int16 => i16::MIN.into(),
            Self::Int32 => i32::MIN.into(),
            Self::Int64 => i64::MIN.into(),
            Self::Uint8 => u8::MAX.into(),
            Self::Uint16 => u16::MAX.into(),
            Self::Uint32 => u32::MAX.into(),
            Self::Uint64 => u64::MAX.into(),
        }
    }

    /// Reads a value as the schema writes it: a number, or a letter for `char`.
    pub(crate) fn value(self, text: &str) -> Option<i128> {
        if self == Self::Char {
            let mut letters = text.chars();
            return match (letters.next(), letters.next()) {
                (Some(letter), None) if letter.is_ascii() => Some(u32::from(letter).into()),
                _ => None,
            };
        }
        text.parse().ok()
    }
}

impl Plain {
    pub(crate) fn size(&self) -> usize {
        match self.presence {
            Presence::Constant(_) => 0,
            _ => self.primitive.size() * self.length,
        }
    }
}

impl Type {
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Plain(plain) => plain.size(),
            Self::Composite(members) => members
                .iter()
                .map(|member| member.offset + member.plain.size())
                .max()
                .unwrap_or(0),
            Self::Enum(own) | Self::Set(own) => own.primitive.size(),
        }
    }
}

impl Schema {
    pub(crate) fn parse(xml: &str) -> Result<Self, SchemaError> {
        let document = Document::parse(xml).map_err(|error| SchemaError::Xml(error.to_string()))?;
        let root = document.root_element();
        if root.attribute("byteOrder").unwrap_or("littleEndian") != "littleEndian" {
            return Err(unsupported(root, "a big-endian schema"));
        }
        let mut schema = Self {
            package: root.attribute("package").unwrap_or_default().to_owned(),
            id: number(root, "id")?.unwrap_or(0),
            version: number(root, "version")?.unwrap_or(0),
            types: Types::new(),
            messages: Vec::new(),
        };
        for section in elements(root).filter(|node| node.has_tag_name("types")) {
            for node in elements(section) {
                let (name, parsed) = (name(node)?, schema.parse_type(node)?);
                if schema.types.insert(name, parsed).is_some() {
                    return Err(wrong(node, "the name is used twice"));
                }
            }
        }
        layout::check_header(&schema.types)?;
        for node in elements(root).filter(|node| node.tag_name().name() == "message") {
            let message = schema.parse_message(node)?;
            schema.messages.push(message);
        }
        Ok(schema)
    }

    fn parse_type(&self, node: Node<'_, '_>) -> Result<Type, SchemaError> {
        Ok(match node.tag_name().name() {
            "type" => Type::Plain(parse_plain(node)?),
            "composite" => {
                let (mut members, mut end) = (Vec::new(), 0);
                for part in elements(node) {
                    if !part.has_tag_name("type") {
                        return Err(unsupported(part, "this part of a composite"));
                    }
                    let plain = parse_plain(part)?;
                    let offset = number(part, "offset")?.map_or(end, usize::from);
                    if offset < end {
                        return Err(wrong(part, "its offset is within the part before it"));
                    }
                    end = offset + plain.size();
                    members.push(Member {
                        name: name(part)?,
                        plain,
                        offset,
                    });
                }
                Type::Composite(members)
            }
            "enum" => Type::Enum(self.parse_enumeration(node, "validValue")?),
            "set" => Type::Set(self.parse_enumeration(node, "choice")?),
            _ => return Err(unsupported(node, "this kind of type")),
        })
    }

    fn parse_enumeration(&self, node: Node<'_, '_>, of: &str) -> Result<Enumeration, SchemaError> {
        let encoding = attribute(node, "encodingType")?;
        let (primitive, null) = match (Primitive::parse(encoding), self.types.get(encoding)) {
            (Some(primitive), _) => (primitive, None),
            (None, Some(Type::Plain(plain))) => match plain.presence {
                Presence::Optional(null) => (plain.primitive, Some(null)),
                _ => (plain.primitive, None),
            },
            _ => return Err(wrong(node, "its encodingType is not defined before it")),
        };
        let mut values = Vec::new();
        for part in elements(node).filter(|part| part.has_tag_name(of)) {
            let text = part.text().unwrap_or_default().trim();
            let value = match of {
                "choice" => text.parse().ok(),
                _ => primitive.value(text),
            };
            let value = value.ok_or_else(|| wrong(part, "invalid value"))?;
            let bits = primitive.size() as i128 * 8;
            if of == "choice" && !(0..bits).contains(&value) {
                return Err(wrong(part, "a bit that the encoding does not have"));
            }
            values.push((name(part)?, value));
        }
        Ok(Enumeration {
            primitive,
            null,
            values,
        })
    }

    fn parse_message(&self, node: Node<'_, '_>) -> Result<MessageLayout, SchemaError> {
        let since = number(node, "sinceVersion")?.unwrap_or(0);
        let (fields, block_length, base_length) = self.parse_fields(node, since)?;
        let mut groups = Vec::new();
        for part in elements(node) {
            match part.tag_name().name() {
                "group" => groups.push(self.parse_group(part, since)?),
                "data" => return Err(unsupported(part, "data of variable length")),
                _ => {}
            }
        }
        Ok(MessageLayout {
            name: name(node)?,
            template_id: number(node, "id")?.ok_or_else(|| wrong(node, "it has no id"))?,
            block_length,
            base_length,
            fields,
            groups,
        })
    }

    fn parse_group(&self, node: Node<'_, '_>, since: u16) -> Result<Group, SchemaError> {
        let group_since = number(node, "sinceVersion")?.unwrap_or(0);
        if elements(node).any(|part| ["group", "data"].contains(&part.tag_name().name())) {
            return Err(unsupported(node, "a group within a group"));
        }
        let (fields, block_length, base_length) =
            self.parse_fields(node, since.max(group_since))?;
        let dimension = node
            .attribute("dimensionType")
            .unwrap_or("groupSizeEncoding");
        if !matches!(self.types.get(dimension), Some(Type::Composite(_))) {
            return Err(wrong(node, "its dimensionType is not a composite"));
        }
        Ok(Group {
            name: name(node)?,
            dimension: dimension.to_owned(),
            since: (group_since > since).then_some(group_since),
            block_length,
            base_length,
            fields,
        })
    }

    /// Returns the fields, the block's length in this version, and that of version `since`.
    fn parse_fields(
        &self,
        node: Node<'_, '_>,
        since: u16,
    ) -> Result<(Vec<Field>, u16, usize), SchemaError> {
        let (mut fields, mut end, mut base_length) = (Vec::new(), 0, 0);
        for part in elements(node).filter(|part| part.has_tag_name("field")) {
            let type_name = attribute(part, "type")?;
            let of = self.type_of(part, type_name)?;
            let added = number(part, "sinceVersion")?.filter(|&added| added > since);
            let offset = number(part, "offset")?.map_or(end, usize::from);
            let size = of.size();
            if size > 0 {
                if offset < end {
                    return Err(wrong(part, "its offset is within the field before it"));
                }
                end = offset + size;
                if added.is_none() {
                    base_length = end;
                }
            }
            fields.push(Field {
                name: name(part)?,
                type_name: type_name.to_owned(),
                of,
                offset,
                since: added,
            });
        }
        let block_length = number(node, "blockLength")?.map_or(end, usize::from);
        if block_length < end {
            return Err(wrong(node, "its blockLength is less than its fields"));
        }
        let block_length = u16::try_from(block_length);
        let block_length = block_length.map_err(|_| wrong(node, "its block is too long"))?;
        assert!(
            base_length <= usize::from(block_length),
            "a first version's fields are within the block"
        );
        Ok((fields, block_length, base_length))
    }

    /// Returns a field's type, with the presence that the field itself gives.
    fn type_of(&self, field: Node<'_, '_>, type_name: &str) -> Result<Type, SchemaError> {
        let mut of = match (self.types.get(type_name), Primitive::parse(type_name)) {
            (Some(own), _) => own.clone(),
            (None, Some(primitive)) => Type::Plain(Plain {
                primitive,
                length: 1,
                presence: Presence::Required,
            }),
            _ => return Err(wrong(field, "its type is not defined")),
        };
        match (field.attribute("presence"), &mut of) {
            (Some("optional"), Type::Plain(plain)) if plain.presence == Presence::Required => {
                plain.presence = Presence::Optional(plain.primitive.null());
            }
            (Some("optional"), Type::Enum(own)) => {
                own.null.get_or_insert(own.primitive.null());
            }
            (Some("constant"), _) if field.has_attribute("valueRef") => {
                of = self.constant_of(field)?;
            }
            _ => {}
        }
        Ok(of)
    }

    /// Returns the constant that a `valueRef` names: `Enum.Value`.
    fn constant_of(&self, field: Node<'_, '_>) -> Result<Type, SchemaError> {
        let reference = attribute(field, "valueRef")?;
        let unknown = || wrong(field, "its valueRef names no value of an enum");
        let (owner, value) = reference.split_once('.').ok_or_else(unknown)?;
        let Some(Type::Enum(own)) = self.types.get(owner) else {
            return Err(unknown());
        };
        let found = own.values.iter().find(|(name, _)| name == value);
        let (_, number) = found.ok_or_else(unknown)?;
        let text = match own.primitive {
            Primitive::Char => char::from(*number as u8).to_string(),
            _ => number.to_string(),
        };
        Ok(Type::Plain(Plain {
            primitive: own.primitive,
            length: 1,
            presence: Presence::Constant(text),
        }))
    }
}

fn parse_plain(node: Node<'_, '_>) -> Result<Plain, SchemaError> {
    let primitive = Primitive::parse(attribute(node, "primitiveType")?);
    let primitive = primitive.ok_or_else(|| wrong(node, "unknown primitiveType"))?;
    let length = number(node, "length")?.map_or(1, usize::from);
    let null = match node.attribute("nullValue") {
        None => primitive.null(),
        Some(text) => {
            let null = text.parse().ok();
            null.ok_or_else(|| wrong(node, "invalid nullValue"))?
        }
    };
    let presence = match node.attribute("presence") {
        None | Some("required") => Presence::Required,
        Some("optional") => Presence::Optional(null),
        Some("constant") => {
            let text = node.text().unwrap_or_default().trim();
            if primitive != Primitive::Char && primitive.value(text).is_none() {
                return Err(wrong(node, "invalid constant"));
            }
            Presence::Constant(text.to_owned())
        }
        Some(_) => return Err(wrong(node, "unknown presence")),
    };
    if length != 1 && primitive.size() != 1 {
        return Err(unsupported(node, "an array of numbers"));
    }
    Ok(Plain {
        primitive,
        length,
        presence,
    })
}

fn elements<'a, 'b>(node: Node<'a, 'b>) -> impl Iterator<Item = Node<'a, 'b>> {
    node.children().filter(Node::is_element)
}

fn name(node: Node<'_, '_>) -> Result<String, SchemaError> {
    let name = attribute(node, "name")?;
    let mut letters = name.chars();
    let is_name = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => Ok(name.to_owned()),
        false => Err(wrong(node, "invalid name")),
    }
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, SchemaError> {
    let value = node.attribute(name);
    value.ok_or_else(|| wrong(node, &format!("it has no attribute '{name}'")))
}

fn number(node: Node<'_, '_>, name: &str) -> Result<Option<u16>, SchemaError> {
    let invalid = |_| wrong(node, &format!("invalid attribute '{name}'"));
    let value = node.attribute(name).map(str::parse).transpose();
    value.map_err(invalid)
}

fn wrong(node: Node<'_, '_>, reason: &str) -> SchemaError {
    SchemaError::Element {
        element: node.tag_name().name().to_owned(),
        name: node.attribute("name").unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    }
}

fn unsupported(node: Node<'_, '_>, what: &'static str) -> SchemaError {
    SchemaError::Unsupported {
        name: node.attribute("name").unwrap_or_default().to_owned(),
        what,
    }
}
