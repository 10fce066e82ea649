//! The names of algorithms and kinds of keys, so that an error can say which one is not supported.

use crate::der::{INTEGER, OBJECT, OCTETS, Reader, SEQUENCE};

/// The kinds of private keys that a server or client can have. The cryptography sets them: see
/// decision 53.
pub(crate) const KEYS_SUPPORTED: &str = "RSA of 2048 to 8192 bits, ECDSA P-256, P-384 or \
                                         P-521, Ed25519";

/// In which form a private key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// `BEGIN RSA PRIVATE KEY`
    Pkcs1,
    /// `BEGIN EC PRIVATE KEY`
    Sec1,
    /// `BEGIN PRIVATE KEY`
    Pkcs8,
}

/// Returns the kind of a private key in DER, as people name it; `None` if it is malformed.
pub(crate) fn kind_of_key(form: KeyForm, der: &[u8]) -> Option<String> {
    match form {
        KeyForm::Pkcs1 => rsa(der),
        KeyForm::Sec1 => {
            let mut key = Reader(Reader(der).expect(SEQUENCE)?);
            key.expect(INTEGER)?;
            key.expect(OCTETS)?;
            Some(curve(key.take_if(CONTEXT_0)))
        }
        KeyForm::Pkcs8 => {
            let mut key = Reader(Reader(der).expect(SEQUENCE)?);
            key.expect(INTEGER)?;
            let identifier = key.expect(SEQUENCE)?;
            match Reader(identifier).expect(OBJECT)? {
                RSA => rsa(key.expect(OCTETS)?),
                _ => Some(name_of(identifier)),
            }
        }
    }
}

/// Returns whether keys of this kind, which may be well-formed, can be used.
pub(crate) fn is_supported_key(kind: &str) -> bool {
    let curves = ["ECDSA P-256", "ECDSA P-384", "ECDSA P-521", "Ed25519"];
    let rsa = kind.strip_prefix("RSA of ");
    let bits = rsa.and_then(|rsa| rsa.strip_suffix(" bits")?.parse().ok());
    curves.contains(&kind) || bits.is_some_and(|bits: usize| (2_048..=8_192).contains(&bits))
}

/// Returns the name of an algorithm: the content of an `AlgorithmIdentifier` in DER.
pub(crate) fn name_of(identifier: &[u8]) -> String {
    let mut reader = Reader(identifier);
    match reader.expect(OBJECT) {
        Some(ELLIPTIC) => curve(Some(reader.0)),
        Some(object) => name_of_object(object),
        None => "unknown".to_owned(),
    }
}

/// An RSA key in DER, by its length.
fn rsa(der: &[u8]) -> Option<String> {
    let mut key = Reader(Reader(der).expect(SEQUENCE)?);
    key.expect(INTEGER)?;
    let modulus = key.expect(INTEGER)?;
    let zeros = modulus.iter().take_while(|&&octet| octet == 0).count();
    let modulus = &modulus[zeros..];
    let free = modulus.first()?.leading_zeros() as usize;
    Some(format!("RSA of {} bits", modulus.len() * 8 - free))
}

/// A key of an elliptic curve; the parameters are the curve's name, or numbers.
fn curve(parameters: Option<&[u8]>) -> String {
    match parameters.and_then(|parameters| Reader(parameters).expect(OBJECT)) {
        Some(object) => format!("ECDSA {}", name_of_object(object)),
        None => "ECDSA with a curve that has no name".to_owned(),
    }
}

fn name_of_object(object: &[u8]) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == object);
    known.map_or_else(|| dotted(object), |(_, name)| (*name).to_owned())
}

/// An object identifier as numbers.
fn dotted(object: &[u8]) -> String {
    let mut text = String::new();
    let mut number = 0_u64;
    for &octet in object.iter().take(OBJECT_OCTETS_MAX) {
        number = number
            .saturating_mul(128)
            .saturating_add(u64::from(octet & 0x7f));
        if octet & 0x80 != 0 {
            continue;
        }
        match text.is_empty() {
            true => {
                let first = (number / 40).min(2);
                text = format!("{first}.{}", number - first * 40);
            }
            false => text.push_str(&format!(".{number}")),
        }
        number = 0;
    }
    text
}

const CONTEXT_0: u8 = 0xa0;
/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// 1.2.840.10045.2.1
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// More than any identifier has that is in use.
const OBJECT_OCTETS_MAX: usize = 32;

/// Object identifiers of algorithms and curves.
const NAMES: [(&[u8], &str); 35] = [
    (RSA, "RSA"),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4],
        "RSA with MD5",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5],
        "RSA with SHA-1",
    ),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10], "RSA-PSS"),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11],
        "RSA with SHA-256",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12],
        "RSA with SHA-384",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13],
        "RSA with SHA-512",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 14],
        "RSA with SHA-224",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 3, 1],
        "Diffie-Hellman",
    ),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1], "DSA"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 3], "DSA with SHA-1"),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 1], "DSA with SHA-224"),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 2], "DSA with SHA-256"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], "ECDSA with SHA-1"),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 1],
        "ECDSA with SHA-224",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
        "ECDSA with SHA-256",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3],
        "ECDSA with SHA-384",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4],
        "ECDSA with SHA-512",
    ),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 1], "P-192"),
    (&[0x2b, 0x81, 4, 0, 0x21], "P-224"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], "P-256"),
    (&[0x2b, 0x81, 4, 0, 0x22], "P-384"),
    (&[0x2b, 0x81, 4, 0, 0x23], "P-521"),
    (&[0x2b, 0x81, 4, 0, 0x0a], "secp256k1"),
    (&[0x2b, 0x24, 3, 3, 2, 8, 1, 1, 7], "brainpoolP256r1"),
    (&[0x2b, 0x24, 3, 3, 2, 8, 1, 1, 0x0b], "brainpoolP384r1"),
    (&[0x2b, 0x24, 3, 3, 2, 8, 1, 1, 0x0d], "brainpoolP512r1"),
    (&[0x2a, 0x81, 0x1c, 0xcf, 0x55, 1, 0x82, 0x2d], "SM2"),
    (&[0x2b, 0x65, 0x6e], "X25519"),
    (&[0x2b, 0x65, 0x6f], "X448"),
    (&[0x2b, 0x65, 0x70], "Ed25519"),
    (&[0x2b, 0x65, 0x71], "Ed448"),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 0x11], "ML-DSA-44"),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 0x12], "ML-DSA-65"),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 0x13], "ML-DSA-87"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn algorithms_without_a_name_are_shown_as_numbers() {
        assert_eq!(dotted(RSA), "1.2.840.113549.1.1.1");
        assert_eq!(dotted(&[0x60, 0x86, 0x48, 1]), "2.16.840.1");
        assert_eq!(name_of(&[OBJECT, 3, 0x2b, 0x65, 0x7f]), "1.3.101.127");
        assert_eq!(name_of(b"nonsense"), "unknown");
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_key_are_more_than_malformed(bytes: Vec<u8>) {
            for form in [KeyForm::Pkcs1, KeyForm::Sec1, KeyForm::Pkcs8] {
                let _ = kind_of_key(form, &bytes);
            }
            let _ = name_of(&bytes);
            let _ = dotted(&bytes);
        }
    }
}
