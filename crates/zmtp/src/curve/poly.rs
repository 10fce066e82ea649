//! Poly1305: the authenticator of a box.
//!
//! The external crate is faster for long texts, by AVX2, but takes over a microsecond to start.
//! Short texts are processed here, in limbs of 44, 44 and 42 bits, without branches or indexes
//! that depend on secrets.

use poly1305::universal_hash::{KeyInit, UniversalHash};
use zeroize::Zeroize;

/// Returns the tag of a text under a one-time key.
#[inline]
pub(super) fn authenticate(key: &[u8; 32], text: &[u8]) -> [u8; 16] {
    if text.len() < LONG_BYTES {
        return short(key, text);
    }
    let mut poly = poly1305::Poly1305::new(key.into());
    let (blocks, rest) = poly1305::Block::slice_as_chunks(text);
    poly.update(blocks);
    poly.compute_unpadded(rest).into()
}

fn short(key: &[u8; 32], text: &[u8]) -> [u8; 16] {
    let mut sum = Sum::new(key);
    let (blocks, rest) = text.as_chunks::<16>();
    for block in blocks {
        sum.add(block, 1 << 40);
    }
    if !rest.is_empty() {
        let mut block = [0; 16];
        block[..rest.len()].copy_from_slice(rest);
        block[rest.len()] = 1;
        sum.add(&block, 0);
    }
    sum.finish(key)
}

struct Sum {
    factor: [u64; 3],
    sum: [u64; 3],
}

impl Sum {
    fn new(key: &[u8; 32]) -> Sum {
        let [low, high] = words(&key[..16]);
        Sum {
            factor: [
                low & 0xffc_0fff_ffff,
                ((low >> 44) | (high << 20)) & 0xfff_ffc0_ffff,
                (high >> 24) & 0x00f_ffff_fc0f,
            ],
            sum: [0; 3],
        }
    }

    /// Adds a block with its high bit, and multiplies modulo 2^130 - 5.
    #[inline]
    fn add(&mut self, block: &[u8; 16], above: u64) {
        let [low, high] = words(block);
        let a = self.sum[0] + (low & BITS_44);
        let b = self.sum[1] + (((low >> 44) | (high << 20)) & BITS_44);
        let c = self.sum[2] + ((high >> 24) & BITS_42) + above;
        let [r, s, t] = self.factor;
        // The part above 2^130 is added back times 5; limbs lack two bits of 3 times 44.
        let (s_over, t_over) = (s * 20, t * 20);
        let product = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let first = product(a, r) + product(b, t_over) + product(c, s_over);
        let second = product(a, s) + product(b, r) + product(c, t_over) + (first >> 44);
        let third = product(a, t) + product(b, s) + product(c, r) + (second >> 44);
        let low = (first as u64 & BITS_44) + (third >> 42) as u64 * 5;
        self.sum = [
            low & BITS_44,
            (second as u64 & BITS_44) + (low >> 44),
            third as u64 & BITS_42,
        ];
    }

    fn finish(self, key: &[u8; 32]) -> [u8; 16] {
        let [mut a, mut b, mut c] = self.sum;
        for _ in 0..2 {
            c += b >> 44;
            b &= BITS_44;
            a += (c >> 42) * 5;
            c &= BITS_42;
            b += a >> 44;
            a &= BITS_44;
        }
        // Subtract 2^130 - 5, if the result is not negative.
        let less_a = a + 5;
        let less_b = b + (less_a >> 44);
        let less_c = (c + (less_b >> 44)).wrapping_sub(1 << 42);
        let take = (less_c >> 63).wrapping_sub(1);
        a = (a & !take) | (less_a & BITS_44 & take);
        b = (b & !take) | (less_b & BITS_44 & take);
        c = (c & !take) | (less_c & take);

        let [low, high] = words(&key[16..]);
        let sum = (u128::from(c) << 88) + (u128::from(b) << 44) + u128::from(a);
        let pad = u128::from(high) << 64 | u128::from(low);
        sum.wrapping_add(pad).to_le_bytes()
    }
}

/// Splits 16 octets into two words.
#[inline]
fn words(octets: &[u8]) -> [u64; 2] {
    let mut words = [0; 2];
    for (word, octets) in words.iter_mut().zip(octets.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*octets);
    }
    words
}

impl Drop for Sum {
    fn drop(&mut self) {
        self.factor.zeroize();
        self.sum.zeroize();
    }
}

const BITS_44: u64 = (1 << 44) - 1;
const BITS_42: u64 = (1 << 42) - 1;
/// From this length on the external crate is faster.
const LONG_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use poly1305::universal_hash::KeyInit;
    use proptest::prelude::*;

    use super::{authenticate, short};

    fn oracle(key: &[u8; 32], text: &[u8]) -> [u8; 16] {
        poly1305::Poly1305::new(key.into())
            .compute_unpadded(text)
            .into()
    }

    /// The vector of RFC 8439, section 2.5.2.
    #[test]
    fn the_example_of_the_rfc_comes_out() {
        let key = [
            0x85, 0xd6, 0xbe, 0x78, 0x57, 0x55, 0x6d, 0x33, 0x7f, 0x44, 0x52, 0xfe, 0x42, 0xd5,
            0x06, 0xa8, 0x01, 0x03, 0x80, 0x8a, 0xfb, 0x0d, 0xb2, 0xfd, 0x4a, 0xbf, 0xf6, 0xaf,
            0x41, 0x49, 0xf5, 0x1b,
        ];
        let tag = [
            0xa8, 0x06, 0x1d, 0xc1, 0x30, 0x51, 0x36, 0xc6, 0xc2, 0x2b, 0x8b, 0xaf, 0x0c, 0x01,
            0x27, 0xa9,
        ];
        assert_eq!(short(&key, b"Cryptographic Forum Research Group"), tag);
    }

    /// Full limbs, and sums on both sides of 2^130 - 5: RFC 8439, appendix A.3, 5 to 11.
    #[test]
    fn carries_go_all_the_way() {
        let mut keys = vec![[0; 32], [0xff; 32]];
        for (at, octet) in [(0, 1), (0, 2), (0, 4), (0, 5), (8, 4), (16, 0xff)] {
            let mut key = [0; 32];
            key[at] = octet;
            key[15] = u8::from(octet == 5) * 0x0f;
            keys.push(key);
            key[16..].fill(0xff);
            keys.push(key);
        }
        let mut blocks = vec![[0xff_u8; 16], [0; 16], [0xfe; 16], [1; 16]];
        for low in 0xf0..=0xff {
            let mut block = [0xff; 16];
            block[0] = low;
            blocks.push(block);
        }
        for key in &keys {
            for one in &blocks {
                for other in &blocks {
                    let text = [*one, *other, *one].concat();
                    for length in [15, 16, 31, 32, 47, 48] {
                        assert_eq!(short(key, &text[..length]), oracle(key, &text[..length]));
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn short_and_long_texts_have_the_same_tag(
            key: [u8; 32],
            text in prop::collection::vec(any::<u8>(), 0..6000),
        ) {
            prop_assert_eq!(short(&key, &text), oracle(&key, &text));
            prop_assert_eq!(authenticate(&key, &text), oracle(&key, &text));
        }
    }
}
