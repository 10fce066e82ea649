//! MEMORY USAGE, and what DEBUG asks of keys.

use super::Call;
use super::options::is;
use crate::error::CommandError;
use crate::value::ValueRef;

type Result = std::result::Result<(), CommandError>;

/// MEMORY USAGE. The parts of a large value are estimated from a few of them.
pub(super) fn memory_usage(call: &mut Call<'_, '_, '_>) -> Result {
    let mut samples = SAMPLES;
    let mut at = 3;
    while at < call.arguments.len() {
        if !is(call.argument(at), "samples") || at + 1 == call.arguments.len() {
            return Err(CommandError::Syntax);
        }
        samples = match usize::try_from(call.integer(at + 1)?) {
            Ok(0) => usize::MAX,
            Ok(samples) => samples,
            Err(_) => return Err(CommandError::Syntax),
        };
        at += 2;
    }
    let key = call.key(2);
    match call.view.read(key) {
        Some(value) => {
            let bytes = ENTRY_BYTES + key.bytes.len() + value_bytes(value, samples);
            call.reply.integer(bytes as i64);
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// What a value takes beyond its entry, about.
fn value_bytes(value: ValueRef<'_>, samples: usize) -> usize {
    if let Some(text) = value.text() {
        return text.as_bytes().len();
    }
    if let Some(fields) = value.fields() {
        let bytes = fields
            .iter()
            .map(|(field, value)| field.len() + value.len());
        return scaled(bytes, fields.len(), samples, value.encoding());
    }
    if let Some(items) = value.items() {
        let bytes = items.iter().map(|item| item.as_bytes().len());
        return scaled(bytes, items.len(), samples, value.encoding());
    }
    0
}

fn scaled(
    parts: impl Iterator<Item = usize>,
    count: usize,
    samples: usize,
    encoding: &str,
) -> usize {
    let samples = samples.min(count).max(1);
    let sampled: usize = parts.take(samples).sum();
    let overhead = match encoding {
        "hashtable" | "skiplist" => ENTRY_BYTES,
        _ => PACKED_BYTES,
    };
    (sampled as f64 / samples as f64 * count as f64) as usize + count * overhead
}

/// Parts of a value that are looked at unless SAMPLES says otherwise.
const SAMPLES: usize = 5;
/// An entry's header, and its place in the table.
const ENTRY_BYTES: usize = 32;
/// What surrounds a part of a packed value.
const PACKED_BYTES: usize = 3;
