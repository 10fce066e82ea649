//! SHA-1, by which scripts are named.

/// The digest that names a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sha1(pub [u8; 20]);

impl Sha1 {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut state = INITIAL;
        let mut blocks = bytes.chunks_exact(64);
        for block in &mut blocks {
            compress(&mut state, block);
        }
        let rest = blocks.remainder();
        let mut last = [0; 128];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
        let length = if rest.len() < 56 { 64 } else { 128 };
        let bits = (bytes.len() as u64).wrapping_mul(8);
        last[length - 8..length].copy_from_slice(&bits.to_be_bytes());
        for block in last[..length].chunks_exact(64) {
            compress(&mut state, block);
        }
        let mut digest = [0; 20];
        for (to, word) in digest.chunks_exact_mut(4).zip(state) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        Sha1(digest)
    }

    /// Reads 40 hexadecimal digits of either case.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != 40 {
            return None;
        }
        let mut digest = [0; 20];
        for (to, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *to = (high << 4 | low) as u8;
        }
        Some(Sha1(digest))
    }

    /// 40 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
        let pair = |byte: &u8| [digit(byte >> 4), digit(*byte)];
        self.0.iter().flat_map(pair).collect()
    }
}

fn compress(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = mixed.rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.iter().enumerate() {
        let (mixed, constant) = match at {
            0..20 => (b & c | !b & d, 0x5A82_7999),
            20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
            40..60 => (b & c | b & d | c & d, 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6u32),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(e)
            .wrapping_add(constant)
            .wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (to, word) in state.iter_mut().zip([a, b, c, d, e]) {
        *to = to.wrapping_add(word);
    }
}

const INITIAL: [u32; 5] = [
    0x6745_2301,
    0xEFCD_AB89,
    0x98BA_DCFE,
    0x1032_5476,
    0xC3D2_E1F0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let table: &[(&[u8], &str)] = &[
            (b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                b"Pizza & Mandolino",
                "74822d82031af7493c20eefa13bd07ec4fada82f",
            ),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
        ];
        for (text, digest) in table {
            assert_eq!(Sha1::of(text).hex(), *digest);
            assert_eq!(
                Sha1::parse(digest.to_uppercase().as_bytes()),
                Some(Sha1::of(text))
            );
        }
        let million = vec![b'a'; 1_000_000];
        let digest = "34aa973cd4c4daa4f61eeb2bdbad27316534016f";
        assert_eq!(Sha1::of(&million).hex(), digest);
        assert_eq!(Sha1::parse(b"abc"), None);
        assert_eq!(Sha1::parse(&[b'g'; 40]), None);
    }
}
