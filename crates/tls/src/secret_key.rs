//! Private keys that are encrypted with a password.

use crate::error::Error;

/// Returns whether a PEM text has an encrypted private key, in any form.
pub fn is_encrypted(key_pem: &[u8]) -> bool {
    has(key_pem, PKCS8) || has(key_pem, OLD)
}

/// Returns the PEM text of a private key that can be used without a password.
///
/// An encrypted key must be in the form of PKCS#8 (`BEGIN ENCRYPTED PRIVATE KEY`). A key that is
/// not encrypted is returned as it is; the password counts for nothing then.
///
/// # Errors
/// The password is missing or wrong, or the method of encryption is not supported.
pub fn usable_key(key_pem: &[u8], password: &[u8]) -> Result<Vec<u8>, Error> {
    if has(key_pem, OLD) {
        let text = "it is in OpenSSL's old format (Proc-Type: 4,ENCRYPTED); convert it to PKCS#8: \
                    openssl pkcs8 -topk8 -in OLD -out NEW";
        return Err(Error::Encryption(text.to_owned()));
    }
    if !has(key_pem, PKCS8) {
        return Ok(key_pem.to_vec());
    }
    if password.is_empty() {
        return Err(Error::NoPassword);
    }
    decrypted(key_pem, password)
}

#[cfg(feature = "encrypted-keys")]
fn decrypted(key_pem: &[u8], password: &[u8]) -> Result<Vec<u8>, Error> {
    use pkcs8::der::{SecretDocument, pem::LineEnding};
    use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};

    let malformed = |error: &dyn std::fmt::Display| Error::Malformed(error.to_string());
    let no_end = || Error::NoEnd("ENCRYPTED PRIVATE KEY".to_owned());
    let (begin, end) = bounds(key_pem).ok_or_else(no_end)?;
    let text = std::str::from_utf8(&key_pem[begin..end]);
    let text = text.map_err(|error| malformed(&error))?;
    let (_, document) = SecretDocument::from_pem(text).map_err(|error| malformed(&error))?;
    let read = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes());
    let read = read.map_err(|error| Error::Encryption(error.to_string()))?;
    let key = read.decrypt(password).map_err(|error| match error {
        // With a wrong password the padding is wrong.
        pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::DecryptFailed) => {
            Error::WrongPassword
        }
        error => Error::Encryption(error.to_string()),
    })?;
    // By chance the padding of nonsense is right once in 256 times.
    PrivateKeyInfoRef::try_from(key.as_bytes()).map_err(|_| Error::WrongPassword)?;
    let pem = key.to_pem("PRIVATE KEY", LineEnding::LF);
    let pem = pem.map_err(|error| malformed(&error))?;
    Ok(pem.as_bytes().to_vec())
}

#[cfg(not(feature = "encrypted-keys"))]
fn decrypted(_: &[u8], _: &[u8]) -> Result<Vec<u8>, Error> {
    let text = "this program was built without support of encrypted keys";
    Err(Error::Encryption(text.to_owned()))
}

/// Returns where the encrypted key begins and ends in the text.
#[cfg(feature = "encrypted-keys")]
fn bounds(key_pem: &[u8]) -> Option<(usize, usize)> {
    let begin = find(key_pem, PKCS8)?;
    let end = begin + find(&key_pem[begin..], END)? + END.len();
    Some((begin, end))
}

fn has(text: &[u8], line: &[u8]) -> bool {
    find(text, line).is_some()
}

fn find(text: &[u8], line: &[u8]) -> Option<usize> {
    text.windows(line.len()).position(|part| part == line)
}

const PKCS8: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
#[cfg(feature = "encrypted-keys")]
const END: &[u8] = b"-----END ENCRYPTED PRIVATE KEY-----";
/// The line of OpenSSL's own format of encryption.
const OLD: &[u8] = b"Proc-Type: 4,ENCRYPTED";

#[cfg(all(test, feature = "encrypted-keys"))]
mod tests {
    use super::*;
    use crate::{Server, ServerSettings};

    const PASSWORD: &[u8] = b"sea of glass";

    /// Keys of openssl 3.0: the same one, encrypted in several ways.
    fn key(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys");
        std::fs::read(format!("{folder}/{name}.pem")).unwrap()
    }

    #[test]
    fn keys_are_decrypted_with_their_password_alone() {
        let plain = key("plain");
        let expected = {
            use rustls::pki_types::PrivateKeyDer;
            use rustls::pki_types::pem::PemObject as _;
            move |pem: &[u8]| {
                PrivateKeyDer::from_pem_slice(pem)
                    .unwrap()
                    .secret_der()
                    .to_vec()
            }
        };
        for name in ["aes256", "des3-sha1", "scrypt"] {
            let encrypted = key(name);
            assert!(is_encrypted(&encrypted));
            let pem = usable_key(&encrypted, PASSWORD).unwrap();
            assert_eq!(expected(&pem), expected(&plain), "{name}");
            for wrong in [&b"sea of glas"[..], b"x", b"\xff\x00"] {
                let error = usable_key(&encrypted, wrong).unwrap_err();
                assert_eq!(error, Error::WrongPassword, "{name}");
            }
            assert_eq!(usable_key(&encrypted, b"").unwrap_err(), Error::NoPassword);
        }
        assert!(!is_encrypted(&plain));
        assert_eq!(usable_key(&plain, b"unused").unwrap(), plain);
    }

    #[test]
    fn an_old_format_and_a_broken_file_are_told() {
        let old = usable_key(&key("old"), PASSWORD).unwrap_err().to_string();
        assert!(old.contains("openssl pkcs8 -topk8"), "{old}");
        let whole = key("aes256");
        for end in (PKCS8.len()..whole.len() - 2).step_by(7) {
            assert!(usable_key(&whole[..end], PASSWORD).is_err(), "{end}");
        }
        let mut changed = whole.clone();
        for at in (PKCS8.len()..whole.len()).step_by(5) {
            changed[at] ^= 1;
            // Any outcome but a panic.
            let _ = usable_key(&changed, PASSWORD);
            changed[at] ^= 1;
        }
    }

    #[test]
    fn without_a_password_an_encrypted_key_is_not_called_missing() {
        let made = rcgen::generate_simple_self_signed(["hub.example".to_owned()]).unwrap();
        let error = Server::with(&ServerSettings {
            certificates_pem: made.cert.pem().as_bytes(),
            key_pem: &key("aes256"),
            ..ServerSettings::default()
        });
        assert_eq!(error.unwrap_err(), Error::NoPassword);
    }
}
