//! CURVE (RFC 26): HELLO, WELCOME with a cookie, INITIATE with a vouch, READY; then MESSAGE.
//!
//! Capital letters are public keys, small letters secret ones; a prime marks those of one
//! connection: `S` and `s` of the server, `C` and `c` of the client, `S'`, `s'`, `C'` and `c'`.

mod client;
mod server;

pub(crate) use client::CurveClient;
pub(crate) use server::CurveServer;

/// HELLO's version, 1.0, and zeros that make it longer than the answer.
const VERSION: [u8; 2] = [1, 0];
const PADDING_BYTES: usize = 72;
/// The content of HELLO's box, which proves that the client knows the server's key.
const HELLO_TEXT: [u8; 64] = [0; 64];
/// A cookie: nonce, tag, `C'` and `s'`.
const COOKIE_BYTES: usize = 16 + 16 + 64;
/// `C`, the vouch's nonce, and its box of `C'` and `S`: the part before the metadata.
const VOUCHED_BYTES: usize = 32 + 16 + 16 + 64;

// The prefixes of nonces: 16 octets before a number, 8 before random ones.
const HELLO_NONCE: &[u8] = b"CurveZMQHELLO---";
const INITIATE_NONCE: &[u8] = b"CurveZMQINITIATE";
const READY_NONCE: &[u8] = b"CurveZMQREADY---";
const WELCOME_NONCE: &[u8] = b"WELCOME-";
const COOKIE_NONCE: &[u8] = b"COOKIE--";
const VOUCH_NONCE: &[u8] = b"VOUCH---";

#[cfg(test)]
mod tests;
