//! The proof that a server speaks WebSocket: SHA-1 and Base64 (there is no secret).

use sha1::{Digest, Sha1};

/// Returns the `Sec-WebSocket-Accept` of a `Sec-WebSocket-Key`.
pub fn accept_of(key: &[u8]) -> String {
    let hash = Sha1::new().chain_update(key).chain_update(GUID);
    base64(&hash.finalize())
}

/// Encodes bytes in Base64, padded.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut octets = [0; 4];
        octets[1..=group.len()].copy_from_slice(group);
        let value = u32::from_be_bytes(octets);
        for digit in 0..4 {
            if digit <= group.len() {
                let index = (value >> (18 - 6 * digit)) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::{accept_of, base64};

    #[test]
    fn the_example_of_rfc_6455_is_accepted() {
        let accept = accept_of(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
