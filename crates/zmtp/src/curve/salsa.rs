//! Salsa20, several blocks at a time.
//!
//! The rounds operate on arrays of lanes, one block per lane, and are compiled three times: for
//! 16 lanes with AVX-512, for 8 with AVX2, for 4 otherwise. The only `unsafe` is the call of code
//! compiled for a processor that was detected. The maths uses only additions, rotations and
//! exclusive ors, which take the same time for all secrets.
//!
//! This is our own, because the available crates make one block at a time, at a third of the
//! speed.

#![allow(unsafe_code)]

use zeroize::Zeroize;

/// Derives a key for each 16 octets (HSalsa20).
pub(super) fn derive(key: &[u8; 32], input: &[u8; 16]) -> [u8; 32] {
    let [low, high] = halves(input);
    let mut words = state(key, low, high).map(|word| [word]);
    rounds(&mut words);
    let mut derived = [0; 32];
    for (out, at) in derived.as_chunks_mut::<4>().0.iter_mut().zip(DERIVED) {
        *out = words[at][0].to_le_bytes();
    }
    words.zeroize();
    derived
}

/// The stream of one message. Its first 32 octets are the key of the authenticator.
pub(super) struct Stream {
    state: [u32; 16],
    first: [u8; BLOCK_BYTES],
}

impl Stream {
    #[inline]
    pub(super) fn new(key: &[u8; 32], nonce: &[u8; 8]) -> Stream {
        let state = state(key, *nonce, [0; 8]);
        let mut first = [0; BLOCK_BYTES];
        xor_single(&state, 0, &mut first);
        Stream { state, first }
    }

    #[inline]
    pub(super) fn authenticator_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key.copy_from_slice(&self.first[..32]);
        key
    }

    /// Encrypts or decrypts all of `from` into `to`, which has the same length.
    #[inline]
    pub(super) fn xor(&self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
        self.xor_in_place(to);
    }

    /// Encrypts or decrypts a whole message in place. Returns the key of its authenticator.
    #[inline]
    pub(super) fn xor_in_place(&self, text: &mut [u8]) -> [u8; 32] {
        let (begin, rest) = text.split_at_mut(text.len().min(BLOCK_BYTES - 32));
        for (octet, stream) in begin.iter_mut().zip(&self.first[32..]) {
            *octet ^= stream;
        }
        if !rest.is_empty() {
            xor_rest(&self.state, rest);
        }
        self.authenticator_key()
    }
}

/// Encrypts or decrypts from the second block on.
fn xor_rest(state: &[u32; 16], text: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if text.len() > SINGLES * BLOCK_BYTES {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has reported AVX-512.
            return xor_lanes::<16>(state, text, |words| unsafe { rounds_avx512(words) });
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has reported AVX2.
            return xor_lanes::<8>(state, text, |words| unsafe { rounds_avx2(words) });
        }
    }
    xor_lanes::<4>(state, text, rounds);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn rounds_avx512(words: &mut [[u32; 16]; 16]) {
    rounds(words);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rounds_avx2(words: &mut [[u32; 8]; 16]) {
    rounds(words);
}

/// Makes the blocks in batches. Only the rounds are compiled for newer processors: in the rest
/// the compiler would use their instructions to gather words one by one.
#[inline(always)]
fn xor_lanes<const LANES: usize>(
    state: &[u32; 16],
    text: &mut [u8],
    rounds: impl Fn(&mut [[u32; LANES]; 16]),
) {
    let mut state = *state;
    let mut counter = 1;
    let mut rest = text;
    while rest.len() > SINGLES * BLOCK_BYTES {
        let mut words = state.map(|word| [word; LANES]);
        let numbers = std::array::from_fn(|lane| split(counter + lane as u64));
        words[COUNTER_LOW] = numbers.map(|[low, _]: [u32; 2]| low);
        words[COUNTER_HIGH] = numbers.map(|[_, high]| high);
        rounds(&mut words);
        let (batch, behind) = rest.split_at_mut(rest.len().min(LANES * BLOCK_BYTES));
        for (lane, block) in batch.chunks_mut(BLOCK_BYTES).enumerate().take(LANES) {
            [state[COUNTER_LOW], state[COUNTER_HIGH]] = split(counter);
            xor_block(&state, &words, lane, block);
            counter += 1;
        }
        rest = behind;
    }
    for block in rest.chunks_mut(BLOCK_BYTES) {
        xor_single(&state, counter, block);
        counter += 1;
    }
}

fn xor_single(state: &[u32; 16], counter: u64, text: &mut [u8]) {
    let mut state = *state;
    [state[COUNTER_LOW], state[COUNTER_HIGH]] = split(counter);
    let mut words = state.map(|word| [word]);
    rounds(&mut words);
    xor_block(&state, &words, 0, text);
}

/// Adds the initial state of a block to the result of the rounds, and that to the text.
#[inline(always)]
fn xor_block<const LANES: usize>(
    state: &[u32; 16],
    words: &[[u32; LANES]; 16],
    lane: usize,
    text: &mut [u8],
) {
    let word = |at: usize| words[at][lane].wrapping_add(state[at]);
    if let Ok(text) = <&mut [u8; BLOCK_BYTES]>::try_from(&mut *text) {
        for (pair, octets) in text.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let stream = u64::from(word(2 * pair)) | u64::from(word(2 * pair + 1)) << 32;
            *octets = (u64::from_le_bytes(*octets) ^ stream).to_le_bytes();
        }
        return;
    }
    for (at, octets) in text.chunks_mut(4).enumerate() {
        for (octet, stream) in octets.iter_mut().zip(word(at).to_le_bytes()) {
            *octet ^= stream;
        }
    }
}

/// Returns the number of a block as two words, the lower first.
fn split(counter: u64) -> [u32; 2] {
    [counter as u32, (counter >> 32) as u32]
}

/// Computes the twenty rounds in each lane.
#[inline(always)]
fn rounds<const LANES: usize>(words: &mut [[u32; LANES]; 16]) {
    for _ in 0..10 {
        quarter::<LANES, 0, 4, 8, 12>(words);
        quarter::<LANES, 5, 9, 13, 1>(words);
        quarter::<LANES, 10, 14, 2, 6>(words);
        quarter::<LANES, 15, 3, 7, 11>(words);
        quarter::<LANES, 0, 1, 2, 3>(words);
        quarter::<LANES, 5, 6, 7, 4>(words);
        quarter::<LANES, 10, 11, 8, 9>(words);
        quarter::<LANES, 15, 12, 13, 14>(words);
    }
}

#[inline(always)]
fn quarter<const LANES: usize, const A: usize, const B: usize, const C: usize, const D: usize>(
    words: &mut [[u32; LANES]; 16],
) {
    let (mut a, mut b, mut c, mut d) = (words[A], words[B], words[C], words[D]);
    b = add_rotate_xor::<LANES, 7>(b, a, d);
    c = add_rotate_xor::<LANES, 9>(c, b, a);
    d = add_rotate_xor::<LANES, 13>(d, c, b);
    a = add_rotate_xor::<LANES, 18>(a, d, c);
    (words[A], words[B], words[C], words[D]) = (a, b, c, d);
}

#[inline(always)]
fn add_rotate_xor<const LANES: usize, const BITS: u32>(
    mut to: [u32; LANES],
    one: [u32; LANES],
    other: [u32; LANES],
) -> [u32; LANES] {
    for lane in 0..LANES {
        to[lane] ^= one[lane].wrapping_add(other[lane]).rotate_left(BITS);
    }
    to
}

/// Returns the initial state: constants, key, and in the middle nonce and counter, or HSalsa20's
/// input.
fn state(key: &[u8; 32], low: [u8; 8], high: [u8; 8]) -> [u32; 16] {
    let mut state = [0; 16];
    for (word, constant) in CONSTANTS {
        state[word] = constant;
    }
    let words = |bytes: &[u8]| -> [u32; 8] {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        words
    };
    let key = words(key);
    state[1..5].copy_from_slice(&key[..4]);
    state[11..15].copy_from_slice(&key[4..]);
    state[6..8].copy_from_slice(&words(&low)[..2]);
    state[8..10].copy_from_slice(&words(&high)[..2]);
    state
}

fn halves(input: &[u8; 16]) -> [[u8; 8]; 2] {
    let mut halves = [[0; 8]; 2];
    for (half, bytes) in halves.iter_mut().zip(input.as_chunks::<8>().0) {
        *half = *bytes;
    }
    halves
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.state.zeroize();
        self.first.zeroize();
    }
}

const BLOCK_BYTES: usize = 64;
/// Up to this number of blocks, single blocks are as fast.
const SINGLES: usize = 2;
/// "expand 32-byte k", on the diagonal.
const CONSTANTS: [(usize, u32); 4] = [
    (0, 0x6170_7865),
    (5, 0x3320_646e),
    (10, 0x7962_2d32),
    (15, 0x6b20_6574),
];
const COUNTER_LOW: usize = 8;
const COUNTER_HIGH: usize = 9;
/// The words that HSalsa20 returns.
const DERIVED: [usize; 8] = [0, 5, 10, 15, 6, 7, 8, 9];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use salsa20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

    use super::{Stream, derive, rounds, xor_lanes};

    fn oracle(key: &[u8; 32], nonce: &[u8; 8], from_octet: u64, length: usize) -> Vec<u8> {
        let mut stream = vec![0; length];
        let mut cipher = salsa20::Salsa20::new(key.into(), nonce.into());
        cipher.seek(from_octet);
        cipher.apply_keystream(&mut stream);
        stream
    }

    proptest! {
        #[test]
        fn the_stream_is_salsa20s(
            key: [u8; 32],
            nonce: [u8; 8],
            length in prop_oneof![0..200usize, 900..1200usize, 0..20_000usize],
        ) {
            let stream = Stream::new(&key, &nonce);
            let mut text = vec![0; length];
            let authenticator = stream.xor_in_place(&mut text);
            prop_assert_eq!(&authenticator[..], oracle(&key, &nonce, 0, 32));
            prop_assert_eq!(&text, &oracle(&key, &nonce, 32, length));
            let mut back = vec![1; length];
            stream.xor(&text, &mut back);
            prop_assert_eq!(back, vec![0; length]);
        }

        #[test]
        fn any_number_of_lanes_makes_the_same(key: [u8; 32], length in 0..3000usize) {
            let state = super::state(&key, [1; 8], [0; 8]);
            let expected = oracle(&key, &[1; 8], 64, length);
            let mut text = [vec![0; length], vec![0; length], vec![0; length]];
            xor_lanes::<4>(&state, &mut text[0], rounds);
            xor_lanes::<8>(&state, &mut text[1], rounds);
            xor_lanes::<16>(&state, &mut text[2], rounds);
            for text in text {
                prop_assert_eq!(&text, &expected);
            }
        }

        #[test]
        fn a_derived_key_is_that_of_xsalsa20(key: [u8; 32], nonce: [u8; 24]) {
            let (start, end) = nonce.split_at(16);
            let derived = derive(&key, start.try_into().unwrap());
            let mut expected = vec![0; 100];
            salsa20::XSalsa20::new(&key.into(), &nonce.into()).apply_keystream(&mut expected);
            prop_assert_eq!(oracle(&derived, end.try_into().unwrap(), 0, 100), expected);
        }
    }
}
