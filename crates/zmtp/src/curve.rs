//! CURVE (RFC 26): keys, and the boxes encrypted with them.
//!
//! The mechanism itself runs in [`Connection`](crate::Connection). [`Security`](crate::Security)
//! sets its keys.

mod boxes;
mod cipher;
mod poly;
mod salsa;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

pub(crate) use boxes::{BoxKey, TAG_BYTES, nonce};
pub(crate) use cipher::{COMMAND, Cipher, MORE, OVERHEAD_BYTES, Opened, Role};

use crate::error::Error;

/// A public key of Curve25519, 32 bytes; [`z85`](crate::z85) writes it as 40 characters.
pub type PublicKey = [u8; 32];

/// A secret key of Curve25519. It is wiped from memory when dropped and not printed by `Debug`.
#[derive(Clone)]
pub struct SecretKey([u8; 32]);

/// A public key and its secret half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keypair {
    /// The public key.
    pub public: PublicKey,
    /// The secret key.
    pub secret: SecretKey,
}

impl SecretKey {
    /// Creates a key from its bytes; all 32-byte values are valid.
    pub const fn new(bytes: [u8; 32]) -> SecretKey {
        SecretKey(bytes)
    }

    /// Returns the bytes. Keep them secret.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Keypair {
    /// Creates a new pair from the operating system's random numbers.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    pub fn generate() -> Result<Keypair, Error> {
        Keypair::generate_with(system_randomness)
    }

    pub(crate) fn generate_with(randomness: Randomness) -> Result<Keypair, Error> {
        let mut secret = SecretKey([0; 32]);
        randomness(&mut secret.0)?;
        Ok(Keypair {
            public: public_from_secret(&secret),
            secret,
        })
    }
}

/// Returns the public key of a secret key.
pub fn public_from_secret(secret: &SecretKey) -> PublicKey {
    let secret = x25519_dalek::StaticSecret::from(secret.0);
    x25519_dalek::PublicKey::from(&secret).to_bytes()
}

/// A source of random bytes: the operating system, or a fixed list in tests.
pub(crate) type Randomness = fn(&mut [u8]) -> Result<(), Error>;

pub(crate) fn system_randomness(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|_| Error::NoRandomness)
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for SecretKey {
    fn eq(&self, other: &SecretKey) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretKey {}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Keypair, SecretKey, public_from_secret};
    use crate::z85;

    /// Returns the key pair of libzmq's own tests.
    #[test]
    fn a_public_key_follows_from_its_secret() {
        let secret = z85::decode_key("JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6").unwrap();
        let public = public_from_secret(&SecretKey::new(secret));
        let text = z85::encode(&public).unwrap();
        assert_eq!(text, "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7");
    }

    #[test]
    fn generated_pairs_differ_and_fit() {
        let (one, other) = (Keypair::generate().unwrap(), Keypair::generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(public_from_secret(&one.secret), one.public);
    }

    #[test]
    fn a_secret_key_is_not_printed() {
        let printed = format!("{:?}", SecretKey::new([0xab; 32]));
        assert_eq!(printed, "SecretKey(..)");
    }
}
