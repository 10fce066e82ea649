//! The verification of servers and of clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
};

use super::authorities::{Authorities, Side};
use crate::certificate::Certificate;

/// A certificate names no host.
#[derive(Debug)]
pub(super) struct NoHost {
    pub(super) common_name: Option<String>,
}

impl NoHost {
    fn of(certificate: &Certificate<'_>) -> NoHost {
        let text = |name: &[u8]| String::from_utf8_lossy(name).chars().take(64).collect();
        NoHost {
            common_name: certificate.first_common_name.map(text),
        }
    }
}

impl fmt::Display for NoHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it names no host")
    }
}

impl std::error::Error for NoHost {}

/// Judges a server's certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) pinned: Vec<CertificateDer<'static>>,
    pub(super) pinned_names_any: bool,
    /// Names of chains count for nothing.
    pub(super) names_any: bool,
    pub(super) authorities: Authorities,
    /// Says what is wrong with a chain that cannot be traced to them.
    pub(super) chains: Option<Arc<WebPkiServerVerifier>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
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
            let not_before = at(read.begins_s);
            return Err(CertificateError::NotValidYetContext {
                time: now,
                not_before,
            }
            .into());
        }
        if now_s > read.ends_s {
            let not_after = at(read.ends_s);
            return Err(CertificateError::ExpiredContext {
                time: now,
                not_after,
            }
            .into());
        }
        if !self.pinned_names_any && !read.is_named(&name.to_str()) {
            let named = verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
            let names_count = |read: &Certificate<'_>| read.hosts();
            named.map_err(|error| with_facts(error, certificate, (name, names_count), now))?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

/// Adds to an error what the certificate says: the hosts that it is for, of the names that count,
/// or when it is valid.
fn with_facts(
    error: rustls::Error,
    certificate: &CertificateDer<'_>,
    (name, hosts): (
        &ServerName<'_>,
        impl FnOnce(&Certificate<'_>) -> Vec<String>,
    ),
    time: UnixTime,
) -> rustls::Error {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            let Some(read) = Certificate::read(certificate) else {
                return error;
            };
            let (presented, expected) = (hosts(&read), name.to_owned());
            let reason = match presented.is_empty() {
                true => CertificateError::Other(OtherError(Arc::new(NoHost::of(&read)))),
                false => CertificateError::NotValidForNameContext {
                    expected,
                    presented,
                },
            };
            reason.into()
        }
        // Also one that ends before it begins, of which the verifier gives no time.
        rustls::Error::InvalidCertificate(CertificateError::Expired) => {
            match Certificate::read(certificate) {
                Some(read) => {
                    let not_after = at(read.ends_s);
                    CertificateError::ExpiredContext { time, not_after }.into()
                }
                None => error,
            }
        }
        error => error,
    }
}

fn at(time_s: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time_s).unwrap_or(0)))
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
        let Some(chains) = &self.chains else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        let judged = (Side::Server, now, &self.algorithms);
        let traced = self.authorities.judge(certificate, others, judged, || {
            chains.verify_server_cert(certificate, others, name, status, now)
        });
        let verified = match traced {
            Ok(()) if !self.names_any => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
            }
            traced => traced,
        };
        match verified {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                let names_count = |read: &Certificate<'_>| read.alternative_hosts();
                Err(with_facts(error, certificate, (name, names_count), now))
            }
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

/// Judges a client's certificate.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    pub(super) authorities: Authorities,
    /// Says what is wrong with a chain that cannot be traced to them, and what clients are asked.
    pub(super) inner: Arc<dyn ClientCertVerifier>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let judged = (Side::Client, now, &self.algorithms);
        let traced = self.authorities.judge(certificate, others, judged, || {
            self.inner.verify_client_cert(certificate, others, now)
        });
        traced.map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
