//! SHA-1, the digest that names scripts.

use sha1::Digest;

/// The digest of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sha1(pub [u8; 20]);

impl Sha1 {
    /// Computes the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Sha1(sha1::Sha1::digest(bytes).into())
    }

    /// Parses 40 hexadecimal digits of either case.
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

    /// Returns 40 hexadecimal digits in lower case.
    pub fn hex(&self) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
        let pair = |byte: &u8| [digit(byte >> 4), digit(*byte)];
        self.0.iter().flat_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_the_test_vectors_of_the_standard() {
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
