//! The one module that knows rustls: settings, the verification of servers, and the three steps
//! of a connection (read ciphertext, process it, write ciphertext).

use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};

use crate::certificate::Certificate;
use crate::error::{Error, Refusal};

/// What the connections of a server share: its certificate and its key. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<ServerConfig>);

/// What the connections of a client share: the certificates that it trusts. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<ClientConfig>);

/// The certificates that a client trusts.
///
/// A server is accepted if its certificate is one of these, or is issued by one of these that may
/// issue others. Either way it must be valid at this time and be that of the server's name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trust<'a> {
    /// Certificates in PEM.
    pub pem: &'a [u8],
    /// Those of the system too.
    pub system: bool,
    /// A server whose own certificate is among those in `pem` may have any name: the certificate
    /// tells which server it is.
    pub pinned_names_any: bool,
}

impl Server {
    /// Reads a certificate (with those that lead to its issuer behind it) and its private key,
    /// both in PEM.
    ///
    /// # Errors
    /// One of them is missing or malformed, or the key is another one's.
    pub fn new(certificates_pem: &[u8], key_pem: &[u8]) -> Result<Server, Error> {
        let chain = certificates(certificates_pem)?;
        if chain.is_empty() {
            return Err(Error::NoCertificate);
        }
        check_length(key_pem)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| match error {
            pem::Error::NoItemsFound => Error::NoKey,
            error => Error::Malformed(error.to_string()),
        })?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong_settings)?;
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        Ok(Server(Arc::new(config.map_err(wrong_settings)?)))
    }
}

impl Client {
    /// Reads the certificates to trust. With `trust.system` this reads files.
    ///
    /// # Errors
    /// There is none, or one is malformed.
    pub fn new(trust: &Trust<'_>) -> Result<Client, Error> {
        let pinned = certificates(trust.pem)?;
        let mut roots = RootCertStore::empty();
        for certificate in &pinned {
            let read = Certificate::read(certificate);
            let read = read.ok_or_else(|| Error::Malformed("not X.509".to_owned()))?;
            // A server's own certificate vouches for that server and for no other.
            if read.is_authority {
                roots.add(certificate.clone()).map_err(wrong_settings)?;
            }
        }
        if trust.system {
            // One that cannot be read does not keep the others out.
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        if pinned.is_empty() && roots.is_empty() {
            return Err(Error::NoTrust);
        }
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let chains = match roots.is_empty() {
            true => None,
            false => {
                let roots = Arc::new(roots);
                let made = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
                let made = made.build();
                Some(made.map_err(|error| Error::Malformed(error.to_string()))?)
            }
        };
        let verifier = Verifier {
            pinned,
            names_any: trust.pinned_names_any,
            chains,
            algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong_settings)?;
        let builder = builder.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
        Ok(Client(Arc::new(builder.with_no_client_auth())))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// One side of a connection.
pub(crate) struct Engine(Connection);

impl Engine {
    pub(crate) fn server(server: &Server) -> Result<Engine, Error> {
        let connection = ServerConnection::new(Arc::clone(&server.0));
        Ok(Engine(connection.map_err(broken)?.into()))
    }

    pub(crate) fn client(client: &Client, host: &str) -> Result<Engine, Error> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::InvalidName(host.to_owned()))?;
        let connection = ClientConnection::new(Arc::clone(&client.0), name);
        Ok(Engine(connection.map_err(broken)?.into()))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Takes ciphertext, as much as there is room for, which is a byte at least. Process it before
    /// the next.
    pub(crate) fn read_ciphertext(&mut self, mut input: &[u8]) -> Result<usize, Error> {
        debug_assert!(!input.is_empty(), "no bytes look like the end");
        let read = self.0.read_tls(&mut input);
        read.map_err(|error| Error::Protocol(error.to_string()))
    }

    /// Decrypts what was read. Returns whether the peer has said that no more comes.
    pub(crate) fn process(&mut self, plaintext: &mut Vec<u8>) -> Result<bool, Error> {
        let state = self.0.process_new_packets().map_err(broken)?;
        let count = state.plaintext_bytes_to_read();
        let before = plaintext.len();
        let mut reader = self.0.reader().take(count as u64);
        let read = reader.read_to_end(plaintext);
        read.map_err(|error| Error::Protocol(error.to_string()))?;
        debug_assert_eq!(plaintext.len(), before + count, "all of it is read");
        Ok(state.peer_has_closed())
    }

    /// Takes what is to be sent to the peer.
    pub(crate) fn write_ciphertext(&mut self, out: &mut Vec<u8>) {
        while self.0.wants_write() {
            // A vector takes all that it is given.
            if !matches!(self.0.write_tls(out), Ok(1..)) {
                debug_assert!(false, "a vector takes bytes");
                return;
            }
        }
    }

    /// Encrypts a part of a text. Returns its length, which is a byte at least.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8]) -> Result<usize, Error> {
        debug_assert!(!self.is_handshaking(), "there are no keys yet");
        match self.0.writer().write(plaintext) {
            Ok(count @ 1..) => Ok(count),
            Ok(_) | Err(_) => Err(Error::Closed),
        }
    }

    /// Says that no more comes.
    pub(crate) fn close(&mut self) {
        self.0.send_close_notify();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Engine");
        shown.field("is_handshaking", &self.is_handshaking());
        shown.finish_non_exhaustive()
    }
}

/// Judges a server's certificate.
#[derive(Debug)]
struct Verifier {
    pinned: Vec<CertificateDer<'static>>,
    names_any: bool,
    chains: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Judges one that is trusted by itself. Chains are of no use there: it may be its own issuer.
    fn verify_pinned(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let read = Certificate::read(certificate).ok_or(CertificateError::BadEncoding)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s < read.begins_s {
            return Err(CertificateError::NotValidYet.into());
        }
        if now_s > read.ends_s {
            return Err(CertificateError::Expired.into());
        }
        if !self.names_any && !read.is_named(&name.to_str()) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.iter().any(|known| known == certificate) {
            return self.verify_pinned(certificate, name, now);
        }
        match &self.chains {
            Some(chains) => chains.verify_server_cert(certificate, others, name, status, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The cryptography: see decision 53.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    check_length(text)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| Error::Malformed(error.to_string()))?;
    match found.is_empty() && !text.is_empty() {
        true => Err(Error::NoCertificate),
        false => Ok(found),
    }
}

fn check_length(text: &[u8]) -> Result<(), Error> {
    let (length, limit) = (text.len(), PEM_BYTES_MAX);
    match length <= limit {
        true => Ok(()),
        false => Err(Error::PemTooLong { length, limit }),
    }
}

/// What is wrong with settings.
fn wrong_settings(error: rustls::Error) -> Error {
    match error {
        rustls::Error::InconsistentKeys(_) => Error::KeyMismatch,
        error => Error::Malformed(error.to_string()),
    }
}

/// Why a connection ended.
fn broken(error: rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidCertificate(reason) => Error::Certificate(refusal(reason)),
        rustls::Error::AlertReceived(alert) => Error::Alert(format!("{alert:?}")),
        rustls::Error::FailedToGetRandomBytes => Error::NoRandomness,
        error => Error::Protocol(error.to_string()),
    }
}

fn refusal(reason: CertificateError) -> Refusal {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Refusal::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Refusal::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Refusal::OtherHost
        }
        CertificateError::UnknownIssuer => Refusal::UnknownIssuer,
        CertificateError::BadSignature => Refusal::BadSignature,
        reason => Refusal::Other(reason.to_string()),
    }
}

/// Longest PEM text. The certificates of all public authorities take 220 KiB.
const PEM_BYTES_MAX: usize = 1 << 20;
