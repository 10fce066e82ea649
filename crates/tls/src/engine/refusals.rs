//! Why a peer's certificate is refused, in words.

use rustls::{CertificateError, OtherError};

use super::authorities::Wrong;
use super::verifier::NoHost;
use crate::algorithm::name_of;
use crate::error::Refusal;

/// Returns the reason of the verifier in words of our own.
pub(super) fn refusal(reason: CertificateError) -> Refusal {
    match reason {
        CertificateError::Expired => Refusal::Expired { since_s: None },
        CertificateError::ExpiredContext { not_after, .. } => Refusal::Expired {
            since_s: i64::try_from(not_after.as_secs()).ok(),
        },
        CertificateError::NotValidYet => Refusal::NotYetValid { from_s: None },
        CertificateError::NotValidYetContext { not_before, .. } => Refusal::NotYetValid {
            from_s: i64::try_from(not_before.as_secs()).ok(),
        },
        CertificateError::NotValidForName => Refusal::OtherHost { names: Vec::new() },
        CertificateError::NotValidForNameContext { presented, .. } => {
            Refusal::OtherHost { names: presented }
        }
        CertificateError::UnknownIssuer => Refusal::UnknownIssuer,
        CertificateError::BadSignature => Refusal::BadSignature,
        CertificateError::BadEncoding => Refusal::Other("it is malformed".to_owned()),
        CertificateError::UnhandledCriticalExtension => words(CRITICAL),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            words("it is not for this side of a connection (extended key usage)")
        }
        CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id,
            ..
        } => Refusal::UnsupportedSignature(name_of(&signature_algorithm_id)),
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id,
            public_key_algorithm_id,
        } => {
            let names = [signature_algorithm_id, public_key_algorithm_id].map(|id| name_of(&id));
            Refusal::UnsupportedSignature(format!("{} by a key of {}", names[0], names[1]))
        }
        CertificateError::Other(other) => own(&other),
        reason => Refusal::Other(reason.to_string()),
    }
}

/// The reasons that are found here, and not by rustls's verifier.
fn own(other: &OtherError) -> Refusal {
    if let Some(wrong) = other.0.downcast_ref::<Wrong>() {
        return Refusal::Other(wrong.to_string());
    }
    match other.0.downcast_ref::<NoHost>() {
        Some(NoHost { common_name }) => Refusal::NoHost {
            common_name: common_name.clone(),
        },
        None => named(&other.to_string()),
    }
}

/// The reasons of the verifier that have a name alone.
fn named(name: &str) -> Refusal {
    match name {
        "UnsupportedCertVersion" => Refusal::Version1,
        "EndEntityUsedAsCa" => Refusal::IssuerIsNoAuthority,
        "CaUsedAsEndEntity" => {
            words("it is that of an authority, which is for issuing others only")
        }
        "PathLenConstraintViolated" => {
            words("an authority in its chain may not issue those of authorities (path length)")
        }
        "NameConstraintViolation" => {
            words("an authority in its chain may not issue it for its names (name constraints)")
        }
        "MaximumPathDepthExceeded"
        | "MaximumPathBuildCallsExceeded"
        | "MaximumSignatureChecksExceeded"
        | "MaximumNameConstraintComparisonsExceeded" => words("its chain is too long"),
        "UnsupportedCriticalExtension" => words(CRITICAL),
        name => Refusal::Other(format!("it is malformed, or not supported ({name})")),
    }
}

fn words(text: &str) -> Refusal {
    Refusal::Other(text.to_owned())
}

const CRITICAL: &str = "it has a critical extension that is not supported";
