//! Authorities, and what may be traced to them: when, by which path, and for which side.
//!
//! The verifier of rustls looks at the certificates of a path below the authority. Of the authority
//! it knows the name, the key and the constraints of names; of the others it does not look at the
//! use of their keys. The rest is looked at here, as OpenSSL does.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::{CertificateError, OtherError, RootCertStore};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use crate::certificate::Certificate;
use crate::facts::utc_text;

/// Certificates that may issue others.
#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) roots: RootCertStore,
    /// What they say, in the same order.
    says: Vec<Says>,
}

/// What an authority says of itself.
#[derive(Debug, Clone, Copy)]
struct Says {
    begins_s: i64,
    ends_s: i64,
    path_length: Option<u32>,
    signs_certificates: bool,
    of_servers: bool,
    of_clients: bool,
    has_unknown_critical: bool,
}

/// Whose certificate is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// Why a path is refused that the verifier accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Its authority's time is over, since this second.
    AuthorityExpired(i64),
    /// Its authority's time has not begun.
    AuthorityNotYetValid(i64),
    /// An authority of the path may not sign certificates.
    NoSigner,
    TooManyBetween,
    AuthorityOfOthers,
    UnknownCritical,
    /// The key of the certificate itself is for something else.
    KeyUse,
}

impl fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Wrong::AuthorityExpired(since_s) => {
                return write!(
                    formatter,
                    "its authority has expired on {}",
                    utc_text(*since_s)
                );
            }
            Wrong::AuthorityNotYetValid(from_s) => {
                let from = utc_text(*from_s);
                return write!(formatter, "its authority is not valid yet, but from {from}");
            }
            Wrong::NoSigner => "an authority in its chain may not sign certificates (key usage)",
            Wrong::TooManyBetween => {
                "its authority may not issue those of authorities (path length)"
            }
            Wrong::AuthorityOfOthers => {
                "its authority is not for this side of a connection (extended key usage)"
            }
            Wrong::UnknownCritical => {
                "its authority has a critical extension that is not supported"
            }
            Wrong::KeyUse => "its key is not for handshakes (key usage)",
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for Wrong {}

impl Default for Authorities {
    fn default() -> Self {
        let (roots, says) = (RootCertStore::empty(), Vec::new());
        Self { roots, says }
    }
}

impl Authorities {
    /// Adds one, unless the verifier cannot use it.
    pub(super) fn add(
        &mut self,
        certificate: CertificateDer<'static>,
    ) -> Result<(), rustls::Error> {
        let read = Certificate::read(&certificate).ok_or(CertificateError::BadEncoding)?;
        let says = Says {
            begins_s: read.begins_s,
            ends_s: read.ends_s,
            path_length: read.path_length,
            signs_certificates: read.uses.certificates,
            of_servers: read.uses.servers,
            of_clients: read.uses.clients,
            has_unknown_critical: read.has_unknown_critical,
        };
        self.roots.add(certificate)?;
        self.says.push(says);
        debug_assert_eq!(self.roots.len(), self.says.len(), "each says something");
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.says.is_empty()
    }

    /// Returns the seconds since the UNIX epoch at which one of them begins or ends.
    pub(super) fn turns_s(&self) -> impl Iterator<Item = i64> {
        self.says
            .iter()
            .flat_map(|one| [one.begins_s, one.ends_s.saturating_add(1)])
    }

    /// Judges a certificate of a side at a time. `verify` is asked why there is no path to any of
    /// them.
    pub(super) fn judge<Verified>(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        (side, now, algorithms): (Side, UnixTime, &WebPkiSupportedAlgorithms),
        verify: impl FnOnce() -> Result<Verified, rustls::Error>,
    ) -> Result<(), rustls::Error> {
        let traced = self.trace(certificate, others, side, now, algorithms);
        traced.map_err(|wrong| match wrong {
            Some(wrong) => CertificateError::Other(OtherError(Arc::new(wrong))).into(),
            None => {
                let verified = verify();
                debug_assert!(verified.is_err(), "there is no path");
                let error = verified.err();
                error.unwrap_or(CertificateError::UnknownIssuer.into())
            }
        })
    }

    /// Traces a certificate to one of them. `Err(None)`: the verifier knows why there is no path.
    fn trace(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Option<Wrong>> {
        let end = EndEntityCert::try_from(certificate).map_err(|_| None)?;
        let read = Certificate::read(certificate).ok_or(None)?;
        let is_for_it = match side {
            Side::Server => read.uses.handshakes,
            Side::Client => read.uses.signatures,
        };
        if !is_for_it {
            return Err(Some(Wrong::KeyUse));
        }
        let wrong = Cell::new(None);
        let look = |path: &VerifiedPath<'_>| {
            let found = self.look(path, side, now);
            // Another path may be right.
            found.map_err(|found| {
                wrong.set(Some(found));
                webpki::Error::UnknownIssuer
            })
        };
        let usage = match side {
            Side::Server => KeyUsage::server_auth(),
            Side::Client => KeyUsage::client_auth(),
        };
        let roots = &self.roots.roots;
        end.verify_for_usage(algorithms.all, roots, others, now, usage, None, Some(&look))
            .map(drop)
            .map_err(|_| wrong.get())
    }

    fn look(&self, path: &VerifiedPath<'_>, side: Side, now: UnixTime) -> Result<(), Wrong> {
        let mut between = 0;
        for certificate in path.intermediate_certificates() {
            let der = certificate.der();
            let read = Certificate::read(&der).ok_or(Wrong::NoSigner)?;
            if !read.uses.certificates {
                return Err(Wrong::NoSigner);
            }
            between += u32::from(read.subject != read.issuer);
        }
        let is_it = |root: &TrustAnchor<'_>| std::ptr::eq(root, path.anchor());
        let place = self.roots.roots.iter().position(is_it);
        debug_assert!(place.is_some(), "a path ends at one of them");
        let says = place
            .and_then(|place| self.says.get(place))
            .ok_or(Wrong::NoSigner)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_for_it = match side {
            Side::Server => says.of_servers,
            Side::Client => says.of_clients,
        };
        if now_s > says.ends_s {
            Err(Wrong::AuthorityExpired(says.ends_s))
        } else if now_s < says.begins_s {
            Err(Wrong::AuthorityNotYetValid(says.begins_s))
        } else if !says.signs_certificates {
            Err(Wrong::NoSigner)
        } else if says.path_length.is_some_and(|most| between > most) {
            Err(Wrong::TooManyBetween)
        } else if !is_for_it {
            Err(Wrong::AuthorityOfOthers)
        } else if says.has_unknown_critical {
            Err(Wrong::UnknownCritical)
        } else {
            Ok(())
        }
    }
}
