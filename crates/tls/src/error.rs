//! What goes wrong: in what a program gives us, and at the other end.

use crate::algorithm::KEYS_SUPPORTED;
use crate::facts::utc_text;

/// Why settings are refused, or why a connection ended.
///
/// After an error of a connection the driver sends what is outgoing (an alert that tells the peer
/// why) and closes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The PEM text contains no certificate.
    #[error("no certificate in the PEM text")]
    NoCertificate,
    /// The PEM text contains no private key, or one that is encrypted.
    #[error("no private key in the PEM text that can be used without a password")]
    NoKey,
    /// The private key is encrypted, and no password is set.
    #[error("the private key is encrypted, and no password for it is set")]
    NoPassword,
    /// The password does not decrypt the private key.
    #[error("the password does not decrypt the private key")]
    WrongPassword,
    /// The private key is encrypted by a method that is not supported.
    #[error("the private key is encrypted by a method that is not supported: {0}")]
    Encryption(String),
    /// A PEM text is longer than 1 MiB.
    #[error("PEM text of {length} bytes is over the limit of {limit}")]
    PemTooLong {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A certificate or key cannot be read or used.
    #[error("malformed certificate or key: {0}")]
    Malformed(String),
    /// A block of a PEM text has no end, as in a file that is written in part.
    #[error("the block '{0}' begins but does not end: the text is incomplete")]
    NoEnd(String),
    /// The private key is of this kind, which is not supported.
    #[error("the private key is of a kind that is not supported: {0}; use {KEYS_SUPPORTED}")]
    UnsupportedKey(String),
    /// The private key is not that of the certificate.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// There is no certificate to trust, so that every server would be refused.
    #[error("no certificate to trust; set certificates or trust those of the system")]
    NoTrust,
    /// There is no certificate whose owner may issue certificates of clients.
    #[error("no certificate of an authority: no client could be accepted")]
    NoAuthority,
    /// A list of ciphers names none that is supported.
    #[error("no cipher suite of '{0}' is supported")]
    NoSuite(String),
    /// A version of TLS is not supported.
    #[error("the version '{0}' is not supported; TLSv1.2 and TLSv1.3 are")]
    NoVersion(String),
    /// The server's name is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    InvalidName(String),
    /// The peer's certificate is refused.
    #[error("the peer's certificate is refused: {0}")]
    Certificate(Refusal),
    /// The peer must show a certificate, and has shown none.
    #[error("the peer shows no certificate")]
    NoPeerCertificate,
    /// The peer speaks in clear text.
    #[error("the peer speaks without TLS")]
    ClearText,
    /// The peer ended the connection with this alert.
    #[error("the peer refused the connection: {0}")]
    Alert(String),
    /// Nothing that both sides speak.
    #[error("nothing in common with the peer: {0}")]
    Incompatible(String),
    /// The peer broke the protocol.
    #[error("the peer broke the TLS protocol: {0}")]
    Protocol(String),
    /// The system gives no random numbers.
    #[error("no random numbers from the system")]
    NoRandomness,
    /// The connection is closed.
    #[error("the TLS connection is closed")]
    Closed,
}

/// Why a certificate is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its time is over, since this time in seconds since the UNIX epoch.
    #[error("it has expired{}", at(" on ", *.since_s))]
    Expired {
        /// The last second in which it was valid.
        since_s: Option<i64>,
    },
    /// Its time has not begun.
    #[error("it is not valid yet{}", at(", but from ", *.from_s))]
    NotYetValid {
        /// The first second in which it is valid.
        from_s: Option<i64>,
    },
    /// It is the certificate of another host.
    #[error("it is for another host{}", listed(.names))]
    OtherHost {
        /// The hosts that it is for.
        names: Vec<String>,
    },
    /// It is a server's, and names no host where names of hosts belong.
    #[error(
        "it names no host{}; issue it with DNS names or IP addresses (subjectAltName), or set \
         tls-verify-hostname no for the links of a hub",
        not_counted(.common_name)
    )]
    NoHost {
        /// The common name of its subject, which does not count.
        common_name: Option<String>,
    },
    /// No certificate that is trusted has issued it.
    #[error("its issuer is not trusted")]
    UnknownIssuer,
    /// A certificate that is no authority's has issued it.
    #[error("its issuer is no authority (basic constraints)")]
    IssuerIsNoAuthority,
    /// A signature in it, or one made with its key, is wrong, or the key is too short.
    #[error("a signature is wrong, or made with an RSA key of less than 2048 bits")]
    BadSignature,
    /// A signature is made by this algorithm, which is not supported.
    #[error("a signature is made by an algorithm that is not supported: {0}")]
    UnsupportedSignature(String),
    /// It is of the version that has no extensions.
    #[error("it is X.509 version 1, and 3 is needed: issue it with extensions, such as its names")]
    Version1,
    /// Any other reason, as text.
    #[error("{0}")]
    Other(String),
}

fn at(words: &str, time_s: Option<i64>) -> String {
    time_s.map_or_else(String::new, |time_s| format!("{words}{}", utc_text(time_s)))
}

fn not_counted(common_name: &Option<String>) -> String {
    let name = common_name.as_ref();
    name.map_or_else(String::new, |name| {
        format!(": its common name {name} does not count")
    })
}

/// The names of a certificate, of which there may be thousands.
fn listed(names: &[String]) -> String {
    let first = &names[..names.len().min(NAMES_SHOWN)];
    match (names.len(), first.join(", ")) {
        (0, _) => String::new(),
        (count, shown) if count > NAMES_SHOWN => {
            format!("; its names are {shown} and {} more", count - NAMES_SHOWN)
        }
        (1, shown) => format!("; its name is {shown}"),
        (_, shown) => format!("; its names are {shown}"),
    }
}

/// Names of a certificate that an error shows.
const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_fault_of_the_certificate() {
        let since_s = Some(951_868_801);
        assert_eq!(
            Refusal::Expired { since_s }.to_string(),
            "it has expired on 2000-03-01 00:00:01 UTC"
        );
        let none = Refusal::NotYetValid { from_s: None };
        assert_eq!(none.to_string(), "it is not valid yet");
        let names = |count: usize| Refusal::OtherHost {
            names: (0..count).map(|one| format!("h{one}")).collect(),
        };
        let texts = [
            (0, "it is for another host"),
            (1, "it is for another host; its name is h0"),
            (2, "it is for another host; its names are h0, h1"),
        ];
        for (count, text) in texts {
            assert_eq!(names(count).to_string(), text);
        }
        assert!(names(10).to_string().ends_with("h7 and 2 more"));
    }
}
