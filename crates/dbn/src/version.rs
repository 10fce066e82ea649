//! Records converted between the layouts of versions 1, 2 and 3.
//!
//! Only definitions and statistics differ among the records that the native feed carries:
//!
//! | record | version 1 | version 2 | version 3 |
//! |---|---:|---:|---:|
//! | definition | 360 | 400 | 520 bytes |
//! | statistics | 64 | 64 | 80 bytes |
//! | imbalance | 112 | 112 | 112 bytes |
//! | order (`mbo`) | 56 | 56 | 56 bytes |

use super::{Kind, RecordRef, UNDEFINED_PRICE, side};

/// Bytes of a definition in version 3.
pub const DEFINITION_LENGTH: usize = 520;
/// Bytes of a statistic in version 3.
pub const STATISTICS_LENGTH: usize = 80;

/// Returns the bytes of a record of this kind in version 3, without a send time; `None` if the
/// native feed does not carry the kind.
pub const fn carried_length(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Definition => Some(DEFINITION_LENGTH),
        Kind::Statistics => Some(STATISTICS_LENGTH),
        Kind::Imbalance => Some(112),
        Kind::Mbo => Some(56),
        _ => None,
    }
}

/// Appends a record of any version in the layout of version 3, without its send time. Returns
/// `false`, and appends nothing, for a kind that [`carried_length`] does not have.
pub fn to_version_3(record: &RecordRef<'_>, out: &mut Vec<u8>) -> bool {
    let Some(length) = carried_length(record.kind()) else {
        return false;
    };
    let (bytes, start) = (record.bytes(), out.len());
    match record.kind() {
        Kind::Definition if bytes.len() < DEFINITION_LENGTH => {
            let fields = if bytes.len() >= LENGTH_2 {
                &FROM_2[..]
            } else {
                &FROM_1[..]
            };
            out.resize(start + length, 0);
            let new = &mut out[start..];
            set_undefined(new);
            copy(fields, bytes, new);
        }
        Kind::Statistics if bytes.len() < STATISTICS_LENGTH => {
            out.extend_from_slice(&bytes[..40]);
            let old: [u8; 4] = bytes[40..44].first_chunk().copied().unwrap_or_default();
            let quantity = match i32::from_le_bytes(old) {
                i32::MAX => i64::MAX,
                known => known.into(),
            };
            out.extend_from_slice(&quantity.to_le_bytes());
            out.extend_from_slice(&bytes[44..58]);
            out.resize(start + length, 0);
        }
        // The framing guarantees the length of these kinds; a send time may follow.
        _ => out.extend_from_slice(&bytes[..length]),
    }
    debug_assert_eq!(out.len() - start, length, "the length of version 3");
    out[start] = (length / 4) as u8;
    true
}

/// Appends a record of version 3 in the layout of version 2. Legs of a strategy, and the upper
/// half of a raw instrument id or a quantity, have no place there.
pub fn to_version_2(record: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    match (record.get(1).map(|&rtype| Kind::of(rtype)), record.len()) {
        (Some(Kind::Definition), DEFINITION_LENGTH..) => {
            out.resize(start + LENGTH_2, 0);
            let old = &mut out[start..];
            for &(at, new_at, length) in &FROM_2 {
                old[at..at + length].copy_from_slice(&record[new_at..new_at + length]);
            }
            // Reference price and its date, trading status, type of the settlement price.
            old[80..88].copy_from_slice(&UNDEFINED_PRICE.to_le_bytes());
            old[176..178].fill(u8::MAX);
            (old[376], old[379]) = (u8::MAX, u8::MAX);
            // A longer asset is cut before its NUL.
            old[ASSET_2 + ASSET_LENGTH_2 - 1] = 0;
            old[0] = (LENGTH_2 / 4) as u8;
        }
        (Some(Kind::Statistics), STATISTICS_LENGTH..) => {
            let quantity = record[40..48].first_chunk().copied().unwrap_or_default();
            let quantity = i32::try_from(i64::from_le_bytes(quantity)).unwrap_or(i32::MAX);
            out.extend_from_slice(&record[..40]);
            out.extend_from_slice(&quantity.to_le_bytes());
            out.extend_from_slice(&record[48..62]);
            out.resize(start + 64, 0);
            out[start] = 64 / 4;
        }
        _ => out.extend_from_slice(record),
    }
}

/// Gives a definition's new fields the values that mean "undefined".
fn set_undefined(new: &mut [u8]) {
    for at in [120, 128] {
        new[at..at + 8].copy_from_slice(&UNDEFINED_PRICE.to_le_bytes());
    }
    new[502] = side::NONE;
}

fn copy(fields: &[Field], from: &[u8], to: &mut [u8]) {
    for &(from_at, to_at, length) in fields {
        to[to_at..to_at + length].copy_from_slice(&from[from_at..from_at + length]);
    }
}

/// A run of fields: its offset in the old layout, its offset in version 3, its bytes.
type Field = (usize, usize, usize);

const LENGTH_2: usize = 400;
const ASSET_2: usize = 297;
const ASSET_LENGTH_2: usize = 7;

/// Version 2 to version 3.
const FROM_2: [Field; 14] = [
    // Header to price variation; unit of measure to ratio; strike.
    (0, 0, 80),
    (88, 80, 24),
    (112, 104, 8),
    // Attribute, underlying; raw id; depths to original size.
    (120, 136, 8),
    (128, 112, 4),
    (132, 144, 44),
    // Channel fields; currencies and subtype; symbol, group, exchange.
    (178, 212, 8),
    (186, 224, 14),
    (200, 238, 97),
    (ASSET_2, 335, ASSET_LENGTH_2),
    // CFI, type, unit of measure, underlying, currency of the strike.
    (304, 346, 70),
    // Class and matching; fraction and format; fraction to tick rule.
    (374, 487, 2),
    (377, 489, 2),
    (380, 491, 10),
];

/// Version 1 to version 3.
const FROM_1: [Field; 17] = [
    (0, 0, 80),
    (88, 80, 24),
    (328, 104, 8),
    (112, 136, 8),
    (120, 112, 4),
    // Depths to smallest trade; multiplier to original size.
    (124, 144, 32),
    (160, 176, 12),
    (178, 212, 8),
    (186, 224, 14),
    // The symbol had 22 bytes.
    (200, 238, 22),
    (222, 309, 26),
    (248, 335, 7),
    (255, 346, 70),
    (325, 487, 1),
    (342, 488, 1),
    (344, 489, 2),
    (347, 491, 10),
];

#[cfg(test)]
mod tests;
