//! Writes the Rust code of a schema.

use std::fmt::Write as _;

use crate::layout::{Field, Group, MessageLayout, only_member};
use crate::names;
use crate::schema::{Enumeration, Member, Plain, Presence, Primitive, Schema, Type};

/// Returns the code of all types and messages.
pub(crate) fn write(schema: &Schema) -> String {
    let mut out = Code::default();
    out.line(&format!(
        "// Made of the schema '{}', version {}. Not edited by hand.",
        schema.package, schema.version
    ));
    out.line("/// Number of the schema.");
    out.line(&format!("pub const SCHEMA_ID: u16 = {};", schema.id));
    out.line("/// Version of the schema.");
    out.line(&format!(
        "pub const SCHEMA_VERSION: u16 = {};",
        schema.version
    ));
    let used: Vec<&str> = schema
        .messages
        .iter()
        .flat_map(|message| message.groups.iter().map(|group| group.dimension.as_str()))
        .collect();
    for (name, of) in &schema.types {
        match of {
            Type::Enum(own) => write_enum(&mut out, name, own),
            Type::Set(own) => write_set(&mut out, name, own),
            Type::Composite(members) if used.contains(&name.as_str()) => {
                write_group_size(&mut out, name, members);
            }
            Type::Composite(members) if name != "messageHeader" => {
                write_composite(&mut out, name, members);
            }
            Type::Composite(_) | Type::Plain(_) => {}
        }
    }
    for message in &schema.messages {
        write_message(&mut out, message);
    }
    out.text
}

#[derive(Default)]
struct Code {
    text: String,
}

impl Code {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn write_enum(out: &mut Code, name: &str, own: &Enumeration) {
    let (camel, rust) = (names::camel(name), own.primitive.rust());
    out.line(&format!(
        "/// Enum `{name}`. A number that the schema does not name is kept."
    ));
    out.line("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]");
    out.line(&format!("pub struct {camel}(pub {rust});"));
    out.line(&format!("impl {camel} {{"));
    for (value_name, value) in &own.values {
        out.line(&format!("/// `{value_name}`."));
        let constant = names::constant(value_name);
        out.line(&format!("pub const {constant}: Self = Self({value});"));
    }
    out.line("}");
}

fn write_set(out: &mut Code, name: &str, own: &Enumeration) {
    let (camel, rust) = (names::camel(name), own.primitive.rust());
    out.line(&format!("/// Set `{name}`, one bit for each choice."));
    out.line("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]");
    out.line(&format!("pub struct {camel}(pub {rust});"));
    out.line(&format!("impl {camel} {{"));
    for (value_name, bit) in &own.values {
        out.line(&format!("/// `{value_name}`."));
        let constant = names::constant(value_name);
        out.line(&format!("pub const {constant}: Self = Self(1 << {bit});"));
    }
    out.line("/// Returns whether all bits of `other` are set.");
    out.line("#[inline(always)] pub const fn contains(self, other: Self) -> bool { self.0 & other.0 == other.0 }");
    out.line("/// Returns the bits of both.");
    out.line("#[inline(always)] #[must_use] pub const fn with(self, other: Self) -> Self { Self(self.0 | other.0) }");
    out.line("}");
}

/// Writes the size header of groups.
fn write_group_size(out: &mut Code, name: &str, members: &[Member]) {
    let part = |wanted: &str| {
        members
            .iter()
            .find(|member| member.name == wanted)
            .map(|member| (member.plain.primitive, member.offset))
    };
    let (block, block_offset) = part("blockLength").unwrap_or((Primitive::Uint16, 0));
    let (count, count_offset) = part("numInGroup").unwrap_or((Primitive::Uint8, 2));
    let length = Type::Composite(members.to_vec()).size();
    let (block, count, camel) = (block.rust(), count.rust(), names::camel(name));
    out.line(&format!("/// Size header `{name}` of groups."));
    out.line("#[derive(Clone, Copy, Debug)]");
    out.line(&format!("pub struct {camel};"));
    out.line(&format!("impl ::tidewire_sbe::GroupSize for {camel} {{"));
    out.line(&format!("const LENGTH: usize = {length};"));
    out.line(&format!(
        "const ENTRIES_MAX: usize = {count}::MAX as usize - 1;"
    ));
    out.line("#[inline(always)] fn read(header: &[u8]) -> Option<(usize, usize)> {");
    out.line(&format!(
        "let header: &[u8; {length}] = header.first_chunk()?;"
    ));
    out.line(&format!(
        "let block = <{block} as ::tidewire_sbe::Number>::read(header, {block_offset});"
    ));
    out.line(&format!(
        "let count = <{count} as ::tidewire_sbe::Number>::read(header, {count_offset});"
    ));
    out.line("Some((usize::from(block), usize::from(count)))");
    out.line("}");
    out.line("fn write(header: &mut [u8], block_length: u16, count: usize) {");
    out.line(&format!(
        "::tidewire_sbe::put(header, {block_offset}, (block_length as {block}).to_le_bytes());"
    ));
    out.line(&format!(
        "::tidewire_sbe::put(header, {count_offset}, (count as {count}).to_le_bytes());"
    ));
    out.line("} }");
}

fn write_composite(out: &mut Code, name: &str, members: &[Member]) {
    for member in members {
        if let Presence::Constant(value) = &member.plain.presence {
            let prefix = names::constant(name);
            let constant = names::constant(&member.name);
            out.line(&format!("/// The constant `{}` of `{name}`.", member.name));
            out.line(&format!(
                "pub const {prefix}_{constant}: {} = {};",
                constant_type(&member.plain),
                literal(&member.plain, value)
            ));
        }
    }
    if only_member(members).is_some() {
        return;
    }
    let sent = || {
        members
            .iter()
            .filter(|member| !matches!(member.plain.presence, Presence::Constant(_)))
    };
    let (camel, size) = (names::camel(name), Type::Composite(members.to_vec()).size());
    out.line(&format!("/// Composite `{name}`."));
    out.line("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]");
    out.line(&format!("pub struct {camel} {{"));
    for member in sent() {
        out.line(&format!("/// `{}`.", member.name));
        let rust = value_type(&member.plain);
        out.line(&format!("pub {}: {rust},", names::snake(&member.name)));
    }
    out.line("}");
    out.line(&format!("impl {camel} {{"));
    out.line("/// Reads the parts.");
    out.line(&format!(
        "pub fn from_bytes(bytes: &[u8; {size}]) -> Self {{ Self {{"
    ));
    for member in sent() {
        let read = format!(
            "<{} as ::tidewire_sbe::Number>::read(bytes, {})",
            raw_type(&member.plain),
            member.offset
        );
        out.line(&format!(
            "{}: {},",
            names::snake(&member.name),
            checked(&member.plain, &read)
        ));
    }
    out.line("} }");
    out.line("/// Encodes the parts.");
    out.line(&format!("pub fn to_bytes(&self) -> [u8; {size}] {{"));
    out.line(&format!("let mut bytes = [0; {size}];"));
    for member in sent() {
        let (field, offset) = (names::snake(&member.name), member.offset);
        let value = match (&member.plain.presence, member.plain.length) {
            (Presence::Optional(null), 1) => {
                format!("self.{field}.unwrap_or({null}).to_le_bytes()")
            }
            (_, 1) => format!("self.{field}.to_le_bytes()"),
            _ => format!("self.{field}"),
        };
        out.line(&format!(
            "::tidewire_sbe::put(&mut bytes, {offset}, {value});"
        ));
    }
    out.line("bytes } }");
}

fn write_message(out: &mut Code, message: &MessageLayout) {
    let name = names::camel(&message.name);
    let base = message.base_length;
    for group in &message.groups {
        write_group(out, &name, group);
    }
    out.line(&format!(
        "/// Message `{}`, template {}.",
        message.name, message.template_id
    ));
    out.line("#[derive(Clone, Copy, Debug)]");
    out.line(&format!("pub struct {name}<'a> {{"));
    out.line(&format!("block: ::tidewire_sbe::Block<'a, {base}>,"));
    for group in &message.groups {
        out.line(&format!("/// Group `{}`.", group.name));
        let entry = format!("{name}{}", names::without_no(&group.name));
        out.line(&format!(
            "pub {}: ::tidewire_sbe::Group<'a, {entry}<'a>>,",
            names::group(&group.name)
        ));
    }
    out.line("}");
    out.line(&format!("impl<'a> {name}<'a> {{"));
    out.line("/// Number of the template.");
    out.line(&format!(
        "pub const TEMPLATE_ID: u16 = {};",
        message.template_id
    ));
    out.line("/// Length of the root block, bytes.");
    out.line(&format!(
        "pub const BLOCK_LENGTH: u16 = {};",
        message.block_length
    ));
    write_decode(out, &name, message);
    write_accessors(out, &message.fields);
    out.line("/// Appends a message with its header, and returns its writer. Fields that are not");
    out.line("/// set are \"no value\", or 0.");
    out.line(&format!(
        "pub fn encode(out: &mut Vec<u8>) -> {name}Writer<'_> {{"
    ));
    out.line("let header = ::tidewire_sbe::Header { block_length: Self::BLOCK_LENGTH,");
    out.line("template_id: Self::TEMPLATE_ID, schema_id: SCHEMA_ID, version: SCHEMA_VERSION };");
    let nulls = null_block(&message.fields, message.block_length);
    out.line(&format!(
        "let block = ::tidewire_sbe::begin_message(out, header, &{nulls});"
    ));
    out.line(&format!("{name}Writer {{ out, block }} }} }}"));
    write_message_writer(out, &name, message);
}

fn write_decode(out: &mut Code, name: &str, message: &MessageLayout) {
    out.line("/// Views a message of this template. All lengths are checked here.");
    out.line("///");
    out.line("/// # Errors");
    out.line("/// Another template, or a length that the message does not have.");
    out.line("#[inline(always)]");
    out.line("pub fn decode(message: &::tidewire_sbe::Message<'a>) -> Result<Self, ::tidewire_sbe::DecodeError> {");
    out.line("let (block, rest) = message.root(Self::TEMPLATE_ID)?;");
    out.line("let version = message.header().version;");
    out.line("let block = ::tidewire_sbe::Block::new(block, version)?;");
    for group in &message.groups {
        let (field, size) = (names::group(&group.name), names::camel(&group.dimension));
        let split = format!("::tidewire_sbe::Group::split::<{size}>(rest, version)?");
        let split = match group.since {
            None => split,
            Some(since) => format!(
                "if version < {since} {{ (::tidewire_sbe::Group::empty(version), rest) }} else {{ {split} }}"
            ),
        };
        out.line(&format!("let ({field}, rest) = {split};"));
    }
    let groups = message
        .groups
        .iter()
        .map(|group| names::group(&group.name) + ", ");
    let groups: String = groups.collect();
    out.line(&format!(
        "let _ = rest; Ok({name} {{ block, {groups} }}) }}"
    ));
}

fn write_group(out: &mut Code, message: &str, group: &Group) {
    let name = format!("{message}{}", names::without_no(&group.name));
    let base = group.base_length;
    out.line(&format!(
        "/// An entry of `{message}`'s group `{}`.",
        group.name
    ));
    out.line("#[derive(Clone, Copy, Debug)]");
    out.line(&format!(
        "pub struct {name}<'a> {{ block: ::tidewire_sbe::Block<'a, {base}> }}"
    ));
    out.line(&format!(
        "impl<'a> ::tidewire_sbe::Entry<'a> for {name}<'a> {{"
    ));
    out.line(&format!("const LENGTH_MIN: usize = {base};"));
    out.line("#[inline(always)] fn view(block: &'a [u8], version: u16) -> Option<Self> {");
    out.line("Some(Self { block: ::tidewire_sbe::Block::new(block, version).ok()? }) } }");
    out.line(&format!("impl<'a> {name}<'a> {{"));
    out.line("/// Length of an entry, bytes.");
    out.line(&format!(
        "pub const BLOCK_LENGTH: u16 = {};",
        group.block_length
    ));
    write_accessors(out, &group.fields);
    out.line("}");
    let size = names::camel(&group.dimension);
    out.line(&format!(
        "/// Writer of `{message}`'s group `{}`.",
        group.name
    ));
    out.line("#[derive(Debug)]");
    out.line(&format!(
        "pub struct {name}GroupWriter<'a>(::tidewire_sbe::GroupWriter<'a>);"
    ));
    out.line(&format!("impl {name}GroupWriter<'_> {{"));
    out.line("/// Appends an entry, and returns its writer.");
    out.line(&format!("pub fn add(&mut self) -> {name}Writer<'_> {{"));
    let nulls = null_block(&group.fields, group.block_length);
    out.line(&format!(
        "{name}Writer {{ block: self.0.add::<{size}>(&{nulls}) }} }} }}"
    ));
    out.line(&format!(
        "/// Writer of an entry of `{message}`'s group `{}`.",
        group.name
    ));
    out.line("#[derive(Debug)]");
    out.line(&format!(
        "pub struct {name}Writer<'a> {{ block: &'a mut [u8] }}"
    ));
    out.line(&format!("impl {name}Writer<'_> {{"));
    write_setters(out, &group.fields, "self.block", "");
    out.line("}");
}

fn write_message_writer(out: &mut Code, name: &str, message: &MessageLayout) {
    out.line(&format!("/// Writer of `{}`.", message.name));
    out.line("#[derive(Debug)]");
    out.line(&format!(
        "pub struct {name}Writer<'a> {{ out: &'a mut Vec<u8>, block: usize }}"
    ));
    out.line(&format!("impl {name}Writer<'_> {{"));
    write_setters(out, &message.fields, "self.out", "self.block + ");
    for group in &message.groups {
        let entry = format!("{name}{}", names::without_no(&group.name));
        let (field, size) = (names::group(&group.name), names::camel(&group.dimension));
        out.line(&format!(
            "/// Appends group `{}`. Groups are appended in the schema's order.",
            group.name
        ));
        out.line(&format!(
            "pub fn {field}(&mut self) -> {entry}GroupWriter<'_> {{"
        ));
        let length = group.block_length;
        out.line(&format!("{entry}GroupWriter(::tidewire_sbe::GroupWriter::begin::<{size}>(self.out, {length})) }}"));
    }
    out.line("}");
}

fn write_accessors(out: &mut Code, fields: &[Field]) {
    out.line("/// Returns the sender's version of the schema.");
    out.line("pub fn schema_version(&self) -> u16 { self.block.version() }");
    for field in fields {
        let name = names::snake(&field.name);
        if let Type::Plain(plain) = &field.of
            && let Presence::Constant(value) = &plain.presence
        {
            out.line(&format!("/// Field `{}`, a constant.", field.name));
            out.line(&format!(
                "pub const {}: {} = {};",
                names::constant(&field.name),
                constant_type(plain),
                literal(plain, value)
            ));
            continue;
        }
        out.line(&format!("/// Field `{}`.", field.name));
        out.line("#[inline(always)]");
        let (rust, body) = accessor(field);
        out.line(&format!("pub fn {name}(&self) -> {rust} {{ {body} }}"));
    }
}

/// Returns the type of a field's value, and the code that reads it.
fn accessor(field: &Field) -> (String, String) {
    let type_name = names::camel(&field.type_name);
    match &field.of {
        Type::Plain(plain) => plain_accessor(plain, field.offset, field.since),
        Type::Composite(members) => match only_member(members) {
            Some(member) => {
                plain_accessor(&member.plain, field.offset + member.offset, field.since)
            }
            None => {
                let size = field.of.size();
                let (rust, read) = raw(&format!("[u8; {size}]"), field.offset, field.since);
                let build = format!("{type_name}::from_bytes");
                match field.since {
                    None => (type_name.clone(), format!("{build}(&{read})")),
                    Some(_) => {
                        let _ = rust;
                        let body = format!("{read}.map(|bytes| {build}(&bytes))");
                        (format!("Option<{type_name}>"), body)
                    }
                }
            }
        },
        Type::Enum(own) | Type::Set(own) => {
            let (_, read) = raw(own.primitive.rust(), field.offset, field.since);
            match (field.since, own.null) {
                (None, None) => (type_name.clone(), format!("{type_name}({read})")),
                (None, Some(null)) => (
                    format!("Option<{type_name}>"),
                    format!("let value = {read}; (value != {null}).then_some({type_name}(value))"),
                ),
                (Some(_), None) => (
                    format!("Option<{type_name}>"),
                    format!("{read}.map({type_name})"),
                ),
                (Some(_), Some(null)) => (
                    format!("Option<{type_name}>"),
                    format!("{read}.filter(|value| *value != {null}).map({type_name})"),
                ),
            }
        }
    }
}

fn plain_accessor(plain: &Plain, offset: usize, since: Option<u16>) -> (String, String) {
    if plain.length != 1 && since.is_none() {
        let length = plain.length;
        return (
            format!("&'a [u8; {length}]"),
            format!("self.block.array({offset})"),
        );
    }
    let (rust, read) = raw(&raw_type(plain), offset, since);
    match (&plain.presence, plain.length, since) {
        (Presence::Optional(null), 1, None) => (
            format!("Option<{rust}>"),
            format!("let value: {rust} = {read}; (value != {null}).then_some(value)"),
        ),
        (Presence::Optional(null), 1, Some(_)) => {
            (rust, format!("{read}.filter(|value| *value != {null})"))
        }
        _ => (rust, read),
    }
}

/// Returns the code that reads a number as it is: `T`, or `Option<T>` for an added field.
fn raw(rust: &str, offset: usize, since: Option<u16>) -> (String, String) {
    match since {
        None => (
            rust.to_owned(),
            format!("self.block.field::<{rust}>({offset})"),
        ),
        Some(since) => (
            format!("Option<{rust}>"),
            format!("self.block.added::<{rust}>({offset}, {since})"),
        ),
    }
}

fn write_setters(out: &mut Code, fields: &[Field], block: &str, start: &str) {
    for field in fields {
        let (name, offset) = (names::snake(&field.name), field.offset);
        let type_name = names::camel(&field.type_name);
        let place = |offset: usize| format!("{start}{offset}");
        let (rust, offset, bytes) = match &field.of {
            Type::Plain(plain) if matches!(plain.presence, Presence::Constant(_)) => continue,
            Type::Plain(plain) if plain.length != 1 => (
                format!("[u8; {}]", plain.length),
                place(offset),
                "value".to_owned(),
            ),
            Type::Plain(plain) => (
                raw_type(plain),
                place(offset),
                "value.to_le_bytes()".to_owned(),
            ),
            Type::Composite(members) => match only_member(members) {
                Some(member) => (
                    raw_type(&member.plain),
                    place(offset + member.offset),
                    "value.to_le_bytes()".to_owned(),
                ),
                None => (type_name, place(offset), "value.to_bytes()".to_owned()),
            },
            Type::Enum(_) | Type::Set(_) => {
                (type_name, place(offset), "value.0.to_le_bytes()".to_owned())
            }
        };
        out.line(&format!("/// Sets `{}`.", field.name));
        out.line(&format!(
            "pub fn {name}(&mut self, value: {rust}) -> &mut Self {{ ::tidewire_sbe::put({block}, {offset}, {bytes}); self }}"
        ));
    }
}

/// Returns the bytes of a block whose optional fields have no value.
fn null_block(fields: &[Field], block_length: u16) -> String {
    let mut bytes = vec![0; usize::from(block_length)];
    let mut fill = |offset: usize, primitive: Primitive, null: i128| {
        let size = primitive.size();
        assert!(
            offset + size <= usize::from(block_length),
            "the schema's fields were compared with their block"
        );
        bytes[offset..offset + size].copy_from_slice(&null.to_le_bytes()[..size]);
    };
    for field in fields {
        match &field.of {
            Type::Plain(plain) => {
                if let (Presence::Optional(null), 1) = (&plain.presence, plain.length) {
                    fill(field.offset, plain.primitive, *null);
                }
            }
            Type::Composite(members) => {
                for member in members {
                    if let Presence::Optional(null) = member.plain.presence {
                        fill(field.offset + member.offset, member.plain.primitive, null);
                    }
                }
            }
            Type::Enum(own) | Type::Set(own) => {
                if let Some(null) = own.null {
                    fill(field.offset, own.primitive, null);
                }
            }
        }
    }
    let mut text = String::from("[");
    for byte in bytes {
        let _ = write!(text, "{byte}, ");
    }
    text + "]"
}

fn raw_type(plain: &Plain) -> String {
    match plain.length {
        1 => plain.primitive.rust().to_owned(),
        length => format!("[u8; {length}]"),
    }
}

fn value_type(plain: &Plain) -> String {
    match (&plain.presence, plain.length) {
        (Presence::Optional(_), 1) => format!("Option<{}>", raw_type(plain)),
        _ => raw_type(plain),
    }
}

/// Returns the code that makes the value of the raw value `read`.
fn checked(plain: &Plain, read: &str) -> String {
    match (&plain.presence, plain.length) {
        (Presence::Optional(null), 1) => {
            format!("Some({read}).filter(|value| *value != {null})")
        }
        _ => read.to_owned(),
    }
}

fn constant_type(plain: &Plain) -> &'static str {
    match (plain.primitive, plain.length) {
        (Primitive::Char, length) if length != 1 => "&'static str",
        _ => plain.primitive.rust(),
    }
}

fn literal(plain: &Plain, text: &str) -> String {
    match (plain.primitive, plain.length) {
        (Primitive::Char, 1) => match plain.primitive.value(text) {
            Some(value) => value.to_string(),
            None => "0".to_owned(),
        },
        (Primitive::Char, _) => format!("{text:?}"),
        _ => text.to_owned(),
    }
}
