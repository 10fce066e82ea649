//! What goes wrong: in what a program gives us, and at the other end.

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
    /// The PEM text contains no private key, or one in a form that is not supported (encrypted).
    #[error("no private key in the PEM text; an encrypted key is not supported")]
    NoKey,
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
    /// The peer does not speak TLS 1.2 or 1.3, or broke the protocol.
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
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not begun.
    #[error("it is not valid yet")]
    NotYetValid,
    /// It is the certificate of another host.
    #[error("it is for another host")]
    OtherHost,
    /// No certificate that is trusted has issued it.
    #[error("its issuer is not trusted")]
    UnknownIssuer,
    /// A signature in it, or one made with its key, is wrong.
    #[error("a signature is wrong")]
    BadSignature,
    /// It is of the version that has no extensions.
    #[error("it is X.509 version 1, and 3 is needed: issue it with extensions, such as its names")]
    Version1,
    /// Any other reason, as text.
    #[error("{0}")]
    Other(String),
}
