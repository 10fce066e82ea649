//! The CRC-64 of payloads: Jones's polynomial, reflected, with initial value 0.

/// Returns the checksum of these bytes.
pub(super) fn of(bytes: &[u8]) -> u64 {
    extended(0, bytes)
}

/// Returns the checksum of data with checksum `crc` followed by these bytes.
pub(super) fn extended(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = crc ^ u64::from_le_bytes(*word);
        crc = (0..8).fold(0, |crc, byte| {
            crc ^ TABLES[7 - byte][usize::from((mixed >> (8 * byte)) as u8)]
        });
    }
    rest.iter().fold(crc, |crc, &byte| {
        TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8
    })
}

/// `TABLES[n][b]` is the checksum of byte `b` followed by `n` zero bytes. This allows processing
/// eight bytes at once.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 1 != 0;
            crc >>= 1;
            if carry {
                crc ^= POLYNOMIAL;
            }
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = tables[0][(crc & 0xFF) as usize] ^ crc >> 8;
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The polynomial 0xAD93D23594C935A9, bit-reversed.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_matches_redis() {
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let bytewise = text.iter().fold(0, |crc: u64, &byte| {
            TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8
        });
        assert_eq!(of(&text), bytewise);
        assert_eq!(extended(of(&text[..333]), &text[333..]), bytewise);
    }
}
