//! Certificates and private keys in PEM.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::SigningKey;

use super::authorities::Authorities;
use super::wrong_settings;
use crate::algorithm::{KeyForm, is_supported_key, kind_of_key};
use crate::certificate::Certificate;
use crate::error::Error;
use crate::secret_key::is_encrypted;

/// Looks at a file with a certificate and those that lead to its issuer, so that an error can name
/// the file.
///
/// # Errors
/// There is none, or one is malformed.
pub fn check_certificates(pem: &[u8]) -> Result<(), Error> {
    chain(pem).map(drop)
}

/// Looks at a file with certificates to trust.
///
/// # Errors
/// There is none, or one is malformed.
pub fn check_authorities(pem: &[u8]) -> Result<(), Error> {
    authorities(&chain(pem)?).map(drop)
}

/// Looks at a file with a private key that is not encrypted.
///
/// # Errors
/// There is none, it is malformed, or its kind is not supported.
pub fn check_key(pem: &[u8]) -> Result<(), Error> {
    signing_key(pem, &aws_lc_rs::default_provider()).map(drop)
}

/// Reads a chain, which has one certificate or more.
pub(super) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = certificates(pem)?;
    match chain.is_empty() {
        true => Err(Error::NoCertificate),
        false => Ok(chain),
    }
}

/// Reads all certificates of a text. An empty text has none.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    check_length(text)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(broken_text)?;
    match found.is_empty() && !text.is_empty() {
        true => Err(Error::NoCertificate),
        false => Ok(found),
    }
}

/// Returns the certificates that may issue others.
pub(super) fn authorities(certificates: &[CertificateDer<'static>]) -> Result<Authorities, Error> {
    let mut authorities = Authorities::default();
    for certificate in certificates {
        let read = Certificate::read(certificate);
        let read = read.ok_or_else(|| Error::Malformed("not X.509".to_owned()))?;
        // A server's own certificate vouches for that server and for no other.
        if read.is_authority {
            authorities
                .add(certificate.clone())
                .map_err(wrong_settings)?;
        }
    }
    Ok(authorities)
}

/// Reads a private key with which can be signed.
pub(super) fn signing_key(
    pem: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, Error> {
    let key = private_key(pem)?;
    let form = match &key {
        PrivateKeyDer::Pkcs1(_) => KeyForm::Pkcs1,
        PrivateKeyDer::Sec1(_) => KeyForm::Sec1,
        _ => KeyForm::Pkcs8,
    };
    let kind = kind_of_key(form, key.secret_der());
    // The engine tries one kind after the other, and says nothing of why each failed.
    let loaded = provider.key_provider.load_private_key(key);
    loaded.map_err(|_| match kind {
        Some(kind) if is_supported_key(&kind) => Error::Malformed(format!(
            "the private key is {kind}, and its numbers are wrong"
        )),
        Some(kind) => Error::UnsupportedKey(kind),
        None => Error::Malformed("the private key cannot be decoded".to_owned()),
    })
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    check_length(pem)?;
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::MissingSectionEnd { .. } => broken_text(error),
        // In OpenSSL's old format it looks like a block that is not base64.
        _ if is_encrypted(pem) => Error::NoPassword,
        pem::Error::NoItemsFound => match other_kind(pem) {
            Some(kind) => Error::UnsupportedKey(kind),
            None => Error::NoKey,
        },
        error => broken_text(error),
    })
}

/// Returns the kind in the title of a block that is none of the known forms, such as
/// `BEGIN DSA PRIVATE KEY`.
fn other_kind(pem: &[u8]) -> Option<String> {
    let mut lines = pem.split(|&byte| byte == b'\n');
    lines.find_map(|line| {
        let kind = line.trim_ascii_end().strip_prefix(b"-----BEGIN ")?;
        let kind = kind.strip_suffix(b" PRIVATE KEY-----")?;
        Some(shown(kind))
    })
}

fn check_length(text: &[u8]) -> Result<(), Error> {
    let (length, limit) = (text.len(), PEM_BYTES_MAX);
    match length <= limit {
        true => Ok(()),
        false => Err(Error::PemTooLong { length, limit }),
    }
}

/// What is wrong with a text, in words.
fn broken_text(error: pem::Error) -> Error {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => Error::NoEnd(shown(&end_marker)),
        pem::Error::IllegalSectionStart { line } => {
            Error::Malformed(format!("the line '{}' is incomplete", shown(&line)))
        }
        pem::Error::Base64Decode(_) => Error::Malformed("a block is not base64".to_owned()),
        error => Error::Malformed(error.to_string()),
    }
}

/// The first characters of a line.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]);
    let line = line.trim_end().chars();
    line.map(|one| if one.is_control() { '?' } else { one })
        .collect()
}

/// Longest PEM text. The certificates of all public authorities take 220 KiB.
const PEM_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::KEYS_SUPPORTED;

    fn key_file(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys");
        std::fs::read(format!("{folder}/{name}.pem")).unwrap()
    }

    #[test]
    fn a_half_written_file_is_told_in_words() {
        let made = rcgen::generate_simple_self_signed(["hub.example".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let two = format!("{certificate}{certificate}");
        let text = |error: Error| error.to_string();
        for (whole, begin, block) in [
            (&certificate, 0, "CERTIFICATE"),
            (&two, certificate.len(), "CERTIFICATE"),
            (&key, 0, "PRIVATE KEY"),
        ] {
            let title = "-----BEGIN CERTIFICATE-----".len();
            // The newline behind the last line may be missing.
            for end in begin + title + 1..whole.trim_end().len() {
                let half = &whole.as_bytes()[..end];
                let error = match block {
                    "CERTIFICATE" => check_certificates(half),
                    _ => check_key(half),
                };
                let said = format!("the block '{block}' begins but does not end");
                let error = text(error.unwrap_err());
                assert!(error.starts_with(&said), "{error}, {end}");
            }
        }
        let cut = b"-----BEGIN CERTIF";
        let error = text(check_certificates(cut).unwrap_err());
        assert!(
            error.ends_with("the line '-----BEGIN CERTIF' is incomplete"),
            "{error}"
        );
        let strange = b"-----BEGIN CERTIFICATE-----\n\x01\xff\xfe=\n-----END CERTIFICATE-----\n";
        let error = text(check_certificates(strange).unwrap_err());
        assert!(error.ends_with("a block is not base64"), "{error}");
    }

    #[test]
    fn a_kind_of_key_that_is_not_supported_is_named() {
        for (file, kind) in [
            ("ed448", "Ed448"),
            ("dsa", "DSA"),
            ("dsa-old", "DSA"),
            ("secp256k1", "ECDSA secp256k1"),
            ("secp256k1-sec1", "ECDSA secp256k1"),
            ("brainpool", "ECDSA brainpoolP256r1"),
            ("rsa1024", "RSA of 1024 bits"),
            ("rsa1024-pkcs1", "RSA of 1024 bits"),
            ("rsa-pss", "RSA-PSS"),
        ] {
            let checked = check_key(&key_file(&format!("unsupported/{file}")));
            let error = checked.expect_err(file);
            assert_eq!(error, Error::UnsupportedKey(kind.to_owned()), "{file}");
            assert!(error.to_string().contains(KEYS_SUPPORTED), "{error}");
        }
        assert_eq!(check_key(&key_file("plain")), Ok(()));
        for encrypted in ["aes256", "old"] {
            assert_eq!(check_key(&key_file(encrypted)), Err(Error::NoPassword));
        }
    }

    #[test]
    fn a_key_with_wrong_numbers_is_not_called_unsupported() {
        let text = String::from_utf8(key_file("plain")).unwrap();
        // In the public key.
        let wrong = text.replacen("Bx3V6w", "Bx3V6x", 1);
        assert_ne!(text, wrong);
        let error = check_key(wrong.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("is ECDSA P-256, and its numbers are wrong"),
            "{error}"
        );
        let short = b"-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n";
        let error = check_key(short).unwrap_err().to_string();
        assert!(
            error.ends_with("the private key cannot be decoded"),
            "{error}"
        );
    }
}
