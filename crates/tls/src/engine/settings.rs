//! What the connections of a server or of a client share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, InconsistentKeys, ServerConfig, SignatureAlgorithm, SupportedProtocolVersion,
};

use super::pem::{authorities, certificates, chain, signing_key};
use super::tickets::Tickets;
use super::verifier::{ClientVerifier, Verifier};
use super::{suites, wrong_settings};
use crate::certificate::Certificate;
use crate::error::Error;

/// What the connections of a server share: its certificate and its key. Cheap to clone.
#[derive(Clone)]
pub struct Server(pub(super) Arc<ServerConfig>, Signatures);

/// What the signatures of a key cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signatures {
    Quick,
    Slow,
}

impl Signatures {
    fn of(identity: &CertifiedKey) -> Signatures {
        match identity.key.algorithm() {
            SignatureAlgorithm::RSA => Signatures::Slow,
            _ => Signatures::Quick,
        }
    }
}

/// What the connections of a client share: the certificates that it trusts. Cheap to clone.
#[derive(Clone)]
pub struct Client(pub(super) Arc<ClientConfig>, Signatures);

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
    /// A server of an authority in `pem` may have any name too.
    pub names_any: bool,
}

/// Versions, ciphers and resumption, of either side. The default is everything that is safe.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Versions by the names of OpenSSL, `TLSv1.2` and `TLSv1.3`, separated by spaces; empty for
    /// both.
    pub protocols: String,
    /// Suites of TLS 1.2 as a list of OpenSSL; empty for all.
    pub ciphers: String,
    /// Suites of TLS 1.3, separated by colons; empty for all.
    pub ciphersuites: String,
}

/// Whether clients of a server must show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clients {
    /// They are not asked for one.
    #[default]
    Unasked,
    /// One that is shown must be valid.
    Asked,
    /// They must.
    Required,
}

/// The settings of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerSettings<'a> {
    /// The certificate, with those that lead to its issuer behind it, in PEM.
    pub certificates_pem: &'a [u8],
    /// Its private key in PEM.
    pub key_pem: &'a [u8],
    /// Whether clients must show a certificate.
    pub clients: Clients,
    /// The certificates, in PEM, of those who may issue certificates of clients.
    pub authorities_pem: &'a [u8],
    /// Versions and ciphers.
    pub offer: Offer,
    /// The server's order of ciphers decides, not the client's.
    pub has_own_order: bool,
    /// For how long a client can resume a session; `None` for not at all.
    pub sessions_for: Option<Duration>,
}

/// The settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings<'a> {
    /// The certificates that it trusts.
    pub trust: Trust<'a>,
    /// Its own certificate with those that lead to its issuer, and the private key, in PEM.
    pub identity: Option<(&'a [u8], &'a [u8])>,
    /// Versions and ciphers.
    pub offer: Offer,
}

impl Server {
    /// Reads a certificate (with those that lead to its issuer behind it) and its private key,
    /// both in PEM. Sessions are not resumed.
    ///
    /// # Errors
    /// One of them is missing or malformed, or the key is another one's.
    pub fn new(certificates_pem: &[u8], key_pem: &[u8]) -> Result<Server, Error> {
        Server::with(&ServerSettings {
            certificates_pem,
            key_pem,
            ..ServerSettings::default()
        })
    }

    /// Reads the settings of a server.
    ///
    /// # Errors
    /// A certificate or key is missing or malformed, the key is another one's, or a list names
    /// nothing that is supported.
    pub fn with(settings: &ServerSettings<'_>) -> Result<Server, Error> {
        let provider = provider(&settings.offer)?;
        let identity = identity(settings.certificates_pem, settings.key_pem, &provider)?;
        let signatures = Signatures::of(&identity);
        let (verifier, turns_s) = client_verifier(settings, &provider)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&settings.offer.protocols)?)
            .map_err(wrong_settings)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.ignore_client_order = settings.has_own_order;
        // Tickets take no memory here and are valid on each lane.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match settings.sessions_for {
            Some(lifetime) => {
                config.ticketer = Arc::new(Tickets::new(lifetime, turns_s)?);
                config.send_tls13_tickets = TICKETS_A_HANDSHAKE;
            }
            None => config.send_tls13_tickets = 0,
        }
        Ok(Server(Arc::new(config), signatures))
    }

    /// Returns whether a handshake takes longer than an event loop should wait: its key is RSA.
    pub fn signs_slowly(&self) -> bool {
        self.1 == Signatures::Slow
    }
}

impl Client {
    /// Reads the certificates to trust. With `trust.system` this reads files.
    ///
    /// # Errors
    /// There is none, or one is malformed.
    pub fn new(trust: &Trust<'_>) -> Result<Client, Error> {
        Client::with(&ClientSettings {
            trust: *trust,
            ..ClientSettings::default()
        })
    }

    /// Reads the settings of a client. With `trust.system` this reads files.
    ///
    /// # Errors
    /// There is nothing to trust, a certificate or key is malformed, or a list names nothing that
    /// is supported.
    pub fn with(settings: &ClientSettings<'_>) -> Result<Client, Error> {
        let trust = &settings.trust;
        let pinned = certificates(trust.pem)?;
        let mut authorities = authorities(&pinned)?;
        if trust.system {
            // One that cannot be read does not keep the others out.
            let found = rustls_native_certs::load_native_certs().certs;
            found.into_iter().for_each(|one| _ = authorities.add(one));
        }
        if pinned.is_empty() && authorities.is_empty() {
            return Err(Error::NoTrust);
        }
        let provider = provider(&settings.offer)?;
        let identity = match settings.identity {
            Some((certificates_pem, key_pem)) => {
                Some(identity(certificates_pem, key_pem, &provider)?)
            }
            None => None,
        };
        let algorithms = provider.signature_verification_algorithms;
        let chains = match authorities.is_empty() {
            true => None,
            false => {
                let roots = Arc::new(authorities.roots.clone());
                let made = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
                let made = made.build();
                Some(made.map_err(|error| Error::Malformed(error.to_string()))?)
            }
        };
        let verifier = Verifier {
            pinned,
            pinned_names_any: trust.pinned_names_any || trust.names_any,
            names_any: trust.names_any,
            authorities,
            chains,
            algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&settings.offer.protocols)?)
            .map_err(wrong_settings)?;
        let builder = builder.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
        let signatures = identity.as_ref().map_or(Signatures::Quick, Signatures::of);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
        };
        // A session that goes on has no certificate that could be looked at again.
        config.resumption = Resumption::disabled();
        Ok(Client(Arc::new(config), signatures))
    }

    /// Returns whether a handshake may take longer than an event loop should wait: its own key is
    /// RSA.
    pub fn signs_slowly(&self) -> bool {
        self.1 == Signatures::Slow
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

/// Reads a certificate (with those that lead to its issuer behind it) and its private key.
fn identity(
    certificates_pem: &[u8],
    key_pem: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let chain = chain(certificates_pem)?;
    let identity = CertifiedKey::new(chain, signing_key(key_pem, provider)?);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(identity),
        Err(error) => match has_old_form(&identity) {
            // The engine does not read version 1, and peers do.
            Some(true) => Ok(identity),
            Some(false) => Err(Error::KeyMismatch),
            None => Err(wrong_settings(error)),
        },
    }
}

/// Returns whether a certificate of version 1 has the public key; `None` if it is of a later
/// version.
fn has_old_form(identity: &CertifiedKey) -> Option<bool> {
    let der = identity.cert.first()?;
    Certificate::read(der).filter(|read| read.is_version_1)?;
    let public_key = identity.key.public_key()?;
    let mut places = der.windows(public_key.len());
    Some(places.any(|place| *place == *public_key))
}

/// Returns what judges clients, and the seconds since the UNIX epoch at which it judges otherwise
/// than before.
fn client_verifier(
    settings: &ServerSettings<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<dyn ClientCertVerifier>, Vec<i64>), Error> {
    if settings.clients == Clients::Unasked {
        return Ok((WebPkiClientVerifier::no_client_auth(), Vec::new()));
    }
    let authorities = authorities(&certificates(settings.authorities_pem)?)?;
    if authorities.is_empty() {
        return Err(Error::NoAuthority);
    }
    let roots = Arc::new(authorities.roots.clone());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = match settings.clients {
        Clients::Asked => builder.allow_unauthenticated(),
        _ => builder,
    };
    let built = builder.build();
    let inner = built.map_err(|error| Error::Malformed(error.to_string()))?;
    let turns_s = authorities.turns_s().collect();
    let algorithms = provider.signature_verification_algorithms;
    let verifier = ClientVerifier {
        authorities,
        inner,
        algorithms,
    };
    Ok((Arc::new(verifier), turns_s))
}

/// The cryptography: see decision 53.
fn provider(offer: &Offer) -> Result<Arc<CryptoProvider>, Error> {
    let mut provider = aws_lc_rs::default_provider();
    let is_tls13 = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some();
    if !offer.ciphersuites.is_empty() {
        let chosen = suites::of_tls13(&offer.ciphersuites)?;
        provider.cipher_suites.retain(|suite| !is_tls13(suite));
        provider.cipher_suites.splice(0..0, chosen);
    }
    if !offer.ciphers.is_empty() {
        let chosen = suites::of_tls12(&offer.ciphers)?;
        provider.cipher_suites.retain(is_tls13);
        provider.cipher_suites.extend(chosen);
    }
    Ok(Arc::new(provider))
}

fn versions(protocols: &str) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
    let mut versions = Vec::new();
    for word in protocols.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.3" => versions.push(&TLS13),
            "tlsv1.2" => versions.push(&TLS12),
            _ => return Err(Error::NoVersion(word.to_owned())),
        }
    }
    match versions.is_empty() {
        true => Ok(vec![&TLS13, &TLS12]),
        false => Ok(versions),
    }
}

/// A client that resumes several connections at once wants a ticket for each.
const TICKETS_A_HANDSHAKE: usize = 2;
