//! `decode mx`: prints NMX messages as fields with offset, bytes, name, value, and whether the
//! field is confirmed or assumed.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;
use tidewire_mx::annotate::{Field, Form, annotate};
use tidewire_mx::profile::CONSTANTS;

use super::input::{self, hex};
use crate::failure::Failure;
use crate::options::{DecodeForm, DecodeOptions};

pub(crate) fn run(options: &DecodeOptions) -> Result<(), Failure> {
    let text = if options.profile {
        profile()
    } else {
        let messages = input::read(&options.input)?;
        if options.json {
            json(&messages, options)?
        } else {
            tables(&messages, options)
        }
    };
    // A reader that closes early, such as `head`, is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn fields<'a>(bytes: &'a [u8], options: &DecodeOptions) -> (Form, Vec<Field<'a>>) {
    let form = match options.form {
        DecodeForm::Auto => Form::guess(bytes),
        DecodeForm::Message => Form::Message,
        DecodeForm::Body => Form::Body,
        DecodeForm::Handle => Form::Handle,
        DecodeForm::Asb => Form::Asb,
    };
    let names: Vec<&str> = options.name.iter().map(String::as_str).collect();
    (form, annotate(bytes, form, &names))
}

fn tables(messages: &[Vec<u8>], options: &DecodeOptions) -> String {
    let mut text = String::new();
    for (number, bytes) in (1..).zip(messages) {
        let (form, fields) = fields(bytes, options);
        let what = match form {
            Form::Message => "envelope and body",
            Form::Body => "body",
            Form::Handle => "reference handle",
            Form::Asb => "ASB variant",
        };
        let separator = if number > 1 { "\n" } else { "" };
        let _ = writeln!(
            text,
            "{separator}message {number}: {what}, {} bytes",
            bytes.len()
        );
        table(&mut text, &fields);
    }
    text
}

fn table(text: &mut String, fields: &[Field<'_>]) {
    let bytes: Vec<String> = fields.iter().map(|field| short_hex(field.bytes)).collect();
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let bytes_width = longest(&mut bytes.iter().map(|bytes| bytes.chars().count())).max(5);
    let name_width = longest(&mut fields.iter().map(|field| field.name.chars().count())).max(4);
    let mark_width = "assumed (derived)".len();
    let _ = writeln!(
        text,
        "{:>6}  {:<bytes_width$}  {:<name_width$}  {:<mark_width$}  value",
        "offset", "bytes", "name", "mark"
    );
    for (field, bytes) in fields.iter().zip(&bytes) {
        let _ = writeln!(
            text,
            "{:>6}  {bytes:<bytes_width$}  {:<name_width$}  {:<mark_width$}  {}",
            field.offset, field.name, field.evidence, field.value
        );
    }
}

/// Returns a long field's first bytes and its length.
fn short_hex(bytes: &[u8]) -> String {
    if bytes.len() <= HEX_BYTES_MAX {
        return hex(bytes);
    }
    format!(
        "{} … ({} bytes)",
        hex(&bytes[..HEX_BYTES_MAX - 4]),
        bytes.len()
    )
}

fn json(messages: &[Vec<u8>], options: &DecodeOptions) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct FieldRow {
        offset: usize,
        bytes: String,
        name: String,
        value: String,
        mark: &'static str,
        basis: &'static str,
    }
    let rows: Vec<Vec<FieldRow>> = messages
        .iter()
        .map(|bytes| {
            let (_, fields) = fields(bytes, options);
            let rows = fields.into_iter().map(|field| FieldRow {
                offset: field.offset,
                bytes: hex(field.bytes),
                name: field.name.into_owned(),
                value: field.value,
                mark: field.evidence.mark(),
                basis: field.evidence.basis(),
            });
            rows.collect()
        })
        .collect();
    let text = serde_json::to_string_pretty(&rows);
    let text = text.map_err(|error| Failure::running(format!("cannot write JSON: {error}")))?;
    Ok(text + "\n")
}

/// Returns all constants that a capture may correct.
fn profile() -> String {
    let mut text = String::new();
    for constant in CONSTANTS {
        let value = match constant.value {
            value @ 0x10.. => format!("{value} (0x{value:X})"),
            value => value.to_string(),
        };
        let _ = writeln!(
            text,
            "{:<27} {:<24} {:<17} {}",
            constant.name, value, constant.evidence, constant.note
        );
    }
    text
}

/// Maximum number of a field's bytes that are shown.
const HEX_BYTES_MAX: usize = 20;
