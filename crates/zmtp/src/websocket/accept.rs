//! How a server proves that it speaks WebSocket: SHA-1 and Base64 (no secret is in it).

/// `Sec-WebSocket-Accept` for a key.
pub(super) fn answer_to(key: &[u8]) -> String {
    base64(&sha1(&[key, GUID].concat()))
}

pub(super) fn base64(bytes: &[u8]) -> String {
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

fn sha1(text: &[u8]) -> [u8; 20] {
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - text.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let length_at = padded.len() - 8;
    padded[length_at..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    let mut state = [
        0x6745_2301_u32,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded.as_chunks::<64>().0 {
        add_block(&mut state, block);
    }
    let mut digest = [0; 20];
    for (octets, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *octets = word.to_be_bytes();
    }
    digest
}

fn add_block(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0_u32; 80];
    for (word, octets) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*octets);
    }
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = mixed.rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.into_iter().enumerate() {
        let (chosen, constant) = match at / 20 {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let sum = a.rotate_left(5).wrapping_add(chosen).wrapping_add(e);
        let next = sum.wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::{answer_to, base64, sha1};

    #[test]
    fn the_example_of_rfc_6455_is_accepted() {
        let answer = answer_to(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn sha1_pads_every_length() {
        let empty = base64(&sha1(b""));
        assert_eq!(empty, "2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
        let digests: Vec<_> = (50..70).map(|length| sha1(&vec![b'a'; length])).collect();
        // 55, 56 and 64 octets, where the padding changes.
        assert_eq!(base64(&digests[5]), "wci73CJ5bijA4VFj0giZtlYh1lo=");
        assert_eq!(base64(&digests[6]), "wtszD2CDhUyZ1LW/tujynyAb5pk=");
        assert_eq!(base64(&digests[14]), "AJi6gktcFkJ716ESKlpEKiXsZE0=");
    }
}
