//! The checksum of a name in a reference handle.

/// Returns the CRC-16/ARC of the lower-case name in UTF-16LE: reflected polynomial 0xA001,
/// initial value 0.
///
/// ASCII, as in tag names, is processed eight characters per step. Nothing is allocated.
pub fn name_signature(name: &str) -> u16 {
    if name.is_ascii() {
        ascii_signature(name.as_bytes())
    } else {
        let lower = name.chars().flat_map(char::to_lowercase);
        lower.fold(0, |crc, character| {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units);
            units.iter().fold(crc, |crc, unit| next(crc, *unit))
        })
    }
}

/// Returns the signature of an ASCII name. Leading zeros do not change a checksum that starts at
/// 0, so the odd characters come first, padded with zeros.
#[inline]
fn ascii_signature(name: &[u8]) -> u16 {
    let (head, blocks) = name.split_at(name.len() % BLOCK);
    let mut crc = 0;
    if !head.is_empty() {
        let mut block = [0; BLOCK];
        for (target, byte) in block[BLOCK - head.len()..].iter_mut().zip(head) {
            *target = *byte;
        }
        crc = next_block(crc, u64::from_le_bytes(block));
    }
    for block in blocks.as_chunks::<BLOCK>().0 {
        crc = next_block(crc, u64::from_le_bytes(*block));
    }
    crc
}

/// Adds eight ASCII characters: 16 bytes of UTF-16. Every second byte is 0 and has no effect.
#[inline]
fn next_block(crc: u16, characters: u64) -> u16 {
    let b = lower_case(characters).to_le_bytes();
    let [low, high] = crc.to_le_bytes();
    at(15, b[0] ^ low)
        ^ at(14, high)
        ^ at(13, b[1])
        ^ at(11, b[2])
        ^ at(9, b[3])
        ^ at(7, b[4])
        ^ at(5, b[5])
        ^ at(3, b[6])
        ^ at(1, b[7])
}

/// Converts eight ASCII characters to lower case at once.
#[inline]
const fn lower_case(characters: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The high bit of each byte: at or above 'A', and above 'Z'.
    let from_a = characters + ONES * (0x80 - b'A' as u64);
    let above_z = characters + ONES * (0x80 - b'Z' as u64 - 1);
    let is_upper = (from_a & !above_z) & (ONES * 0x80);
    characters | (is_upper >> 2)
}

#[inline]
fn next(crc: u16, unit: u16) -> u16 {
    let [low, high] = (crc ^ unit).to_le_bytes();
    at(1, low) ^ at(0, high)
}

/// Returns the contribution of a byte that `behind` more bytes follow.
#[inline]
fn at(behind: usize, byte: u8) -> u16 {
    TABLES[behind][byte as usize]
}

const BLOCK: usize = 8;
static TABLES: [[u16; 256]; 2 * BLOCK] = tables();

const fn tables() -> [[u16; 256]; 2 * BLOCK] {
    let mut tables = [[0; 256]; 2 * BLOCK];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut table = 0;
        while table < 2 * BLOCK {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 {
                    (crc >> 1) ^ 0xA001
                } else {
                    crc >> 1
                };
                bit += 1;
            }
            tables[table][byte] = crc;
            table += 1;
        }
        byte += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    #[test]
    fn captured_names() {
        let captured = [
            ("ScanState", 0x9247),
            ("TestChildObject", 0xD736),
            ("TestInt", 0xDA3E),
            ("TestBool", 0x7DFA),
            ("TestString", 0x941A),
            ("TestMachine_001", 0xF408),
        ];
        for (name, signature) in captured {
            assert_eq!(name_signature(name), signature, "{name}");
            assert_eq!(name_signature(&name.to_uppercase()), signature, "{name}");
        }
        assert_eq!(name_signature(""), 0);
    }

    /// Computes the checksum bit by bit, by its definition.
    fn by_bits(name: &str) -> u16 {
        let lower = name
            .chars()
            .flat_map(char::to_lowercase)
            .collect::<String>();
        let bytes = lower.encode_utf16().flat_map(u16::to_le_bytes);
        bytes.fold(0, |crc: u16, byte| {
            (0..8).fold(crc ^ u16::from(byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0xA001 } else { 0 }
            })
        })
    }

    proptest! {
        #[test]
        fn a_signature_is_the_checksum_of_the_lower_cased_name(name in "[ -~]{0,40}|\\PC{0,20}") {
            prop_assert_eq!(name_signature(&name), by_bits(&name));
        }
    }
}
