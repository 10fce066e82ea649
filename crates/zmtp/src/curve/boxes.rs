//! Boxes: XSalsa20 and Poly1305 under a shared key of two peers (NaCl's `crypto_box` and
//! `crypto_secretbox`).

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::poly::authenticate;
use super::{PublicKey, SecretKey, salsa};

/// The authenticator before a box's text.
pub(crate) const TAG_BYTES: usize = 16;
pub(crate) type Nonce = [u8; 24];

/// The key of `crypto_secretbox`, or the result of `crypto_box_beforenm` for two keys.
#[derive(Clone)]
pub(crate) struct BoxKey([u8; 32]);

/// A [`BoxKey`] combined with the first 16 octets of its nonces.
#[derive(Clone)]
pub(crate) struct StreamKey([u8; 32]);

impl BoxKey {
    pub(crate) fn new(bytes: [u8; 32]) -> BoxKey {
        BoxKey(bytes)
    }

    /// Returns the shared key of two key pairs. `None` if the public key is one of the few that
    /// give all peers the same shared key.
    pub(crate) fn agree(public: &PublicKey, secret: &SecretKey) -> Option<BoxKey> {
        let shared = Zeroizing::new(x25519_dalek::x25519(*secret.as_bytes(), *public));
        let is_zero: bool = shared.ct_eq(&[0; 32]).into();
        (!is_zero).then(|| BoxKey(salsa::derive(&shared, &[0; 16])))
    }

    pub(crate) fn stream(&self, nonce_start: &[u8; 16]) -> StreamKey {
        StreamKey(salsa::derive(&self.0, nonce_start))
    }

    /// Appends the tag and the encrypted text.
    pub(crate) fn seal(&self, nonce: &Nonce, text: &[u8], out: &mut Vec<u8>) {
        let (start, end) = split(nonce);
        let at = out.len();
        out.extend_from_slice(&[0; TAG_BYTES]);
        out.extend_from_slice(text);
        self.stream(start).seal_in_place(end, &mut out[at..]);
    }

    /// Decrypts a box (tag, then encrypted text), if it was made with this key.
    pub(crate) fn open(&self, nonce: &Nonce, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (start, end) = split(nonce);
        let mut text = Zeroizing::new(vec![0; sealed.len().checked_sub(TAG_BYTES)?]);
        self.stream(start)
            .open(end, sealed, &mut text)
            .then_some(text)
    }
}

impl StreamKey {
    /// Encrypts everything after the first 16 octets, and writes the tag there.
    #[inline]
    pub(crate) fn seal_in_place(&self, nonce_end: &[u8; 8], sealed: &mut [u8]) {
        let Some((tag, text)) = sealed.split_first_chunk_mut::<TAG_BYTES>() else {
            return;
        };
        let stream = salsa::Stream::new(&self.0, nonce_end);
        let authenticator = stream.xor_in_place(text);
        *tag = authenticate(&authenticator, text);
    }

    /// Decrypts a box into `text`, which is shorter by the tag. Returns `false`, and writes
    /// nothing, if the box was not made with this key.
    #[inline]
    pub(crate) fn open(&self, nonce_end: &[u8; 8], sealed: &[u8], text: &mut [u8]) -> bool {
        let Some((tag, encrypted)) = sealed.split_first_chunk::<TAG_BYTES>() else {
            return false;
        };
        let stream = salsa::Stream::new(&self.0, nonce_end);
        let expected = authenticate(&stream.authenticator_key(), encrypted);
        if !bool::from(expected.ct_eq(tag)) {
            return false;
        }
        stream.xor(encrypted, text);
        true
    }
}

/// Returns a nonce of 24 octets: a prefix, an end, then zeros.
pub(crate) fn nonce(prefix: &[u8], end: &[u8]) -> Nonce {
    let mut nonce = [0; 24];
    for (octet, &from) in nonce.iter_mut().zip(prefix.iter().chain(end)) {
        *octet = from;
    }
    nonce
}

fn split(nonce: &Nonce) -> (&[u8; 16], &[u8; 8]) {
    const EMPTY: (&[u8; 16], &[u8; 8]) = (&[0; 16], &[0; 8]);
    match (nonce.first_chunk(), nonce.last_chunk()) {
        (Some(start), Some(end)) => (start, end),
        _ => EMPTY,
    }
}

impl Drop for BoxKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for StreamKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for BoxKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BoxKey(..)")
    }
}

impl std::fmt::Debug for StreamKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StreamKey(..)")
    }
}
