//! Cipher suites by the names and lists of OpenSSL, as configuration files have them.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite as own;

use crate::error::Error;

/// A suite, its name in OpenSSL, and the groups that it belongs to there.
struct Known {
    suite: SupportedCipherSuite,
    names: [&'static str; 2],
    groups: &'static [&'static str],
}

/// Selects the suites of TLS 1.3 that a list names (`tls-ciphersuites`), in its order.
pub(super) fn of_tls13(list: &str) -> Result<Vec<SupportedCipherSuite>, Error> {
    select(list, &TLS13)
}

/// Selects the suites of TLS 1.2 that a list of OpenSSL selects (`tls-ciphers`): names, groups such
/// as `DEFAULT` or `ECDHE`, and `!` or `-` before what is left out. Unknown names select nothing,
/// as in OpenSSL.
pub(super) fn of_tls12(list: &str) -> Result<Vec<SupportedCipherSuite>, Error> {
    select(list, &TLS12)
}

fn select(list: &str, known: &[Known]) -> Result<Vec<SupportedCipherSuite>, Error> {
    let mut selected: Vec<&Known> = Vec::new();
    let mut banned: Vec<&str> = Vec::new();
    let is = |one: &Known, word: &str| {
        one.names.contains(&word) || one.groups.contains(&word) || GENERAL.contains(&word)
    };
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        if let Some(word) = word.strip_prefix('!') {
            selected.retain(|one| !is(one, word));
            banned.push(word);
        } else if let Some(word) = word.strip_prefix('-') {
            selected.retain(|one| !is(one, word));
        } else {
            for one in known {
                let is_new = selected.iter().all(|other| other.names != one.names);
                let is_banned = banned.iter().any(|word| is(one, word));
                if is(one, word) && is_new && !is_banned {
                    selected.push(one);
                }
            }
        }
    }
    match selected.is_empty() {
        true => Err(Error::NoSuite(list.to_owned())),
        false => Ok(selected.iter().map(|one| one.suite).collect()),
    }
}

/// Words that stand for every suite.
const GENERAL: [&str; 3] = ["ALL", "DEFAULT", "HIGH"];

static TLS13: [Known; 3] = [
    Known {
        suite: own::TLS13_AES_256_GCM_SHA384,
        names: ["TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"],
        groups: &[],
    },
    Known {
        suite: own::TLS13_CHACHA20_POLY1305_SHA256,
        names: [
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS13_CHACHA20_POLY1305_SHA256",
        ],
        groups: &[],
    },
    Known {
        suite: own::TLS13_AES_128_GCM_SHA256,
        names: ["TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"],
        groups: &[],
    },
];

static TLS12: [Known; 6] = [
    Known {
        suite: own::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        names: [
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ],
        groups: &[
            "ECDHE", "EECDH", "kECDHE", "ECDSA", "aECDSA", "AESGCM", "AES", "AES256",
        ],
    },
    Known {
        suite: own::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        names: [
            "ECDHE-RSA-AES256-GCM-SHA384",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        ],
        groups: &[
            "ECDHE", "EECDH", "kECDHE", "RSA", "aRSA", "AESGCM", "AES", "AES256",
        ],
    },
    Known {
        suite: own::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        names: [
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ],
        groups: &["ECDHE", "EECDH", "kECDHE", "ECDSA", "aECDSA", "CHACHA20"],
    },
    Known {
        suite: own::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        names: [
            "ECDHE-RSA-CHACHA20-POLY1305",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ],
        groups: &["ECDHE", "EECDH", "kECDHE", "RSA", "aRSA", "CHACHA20"],
    },
    Known {
        suite: own::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        names: [
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ],
        groups: &[
            "ECDHE", "EECDH", "kECDHE", "ECDSA", "aECDSA", "AESGCM", "AES", "AES128",
        ],
    },
    Known {
        suite: own::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        names: [
            "ECDHE-RSA-AES128-GCM-SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ],
        groups: &[
            "ECDHE", "EECDH", "kECDHE", "RSA", "aRSA", "AESGCM", "AES", "AES128",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suites: Result<Vec<SupportedCipherSuite>, Error>) -> Vec<&'static str> {
        let suites = suites.unwrap();
        suites
            .iter()
            .filter_map(|one| one.suite().as_str())
            .collect()
    }

    #[test]
    fn lists_are_read_as_openssl_reads_them() {
        assert_eq!(of_tls12("DEFAULT").unwrap().len(), 6);
        assert_eq!(of_tls12("ALL:!RSA:-AES128").unwrap().len(), 2);
        assert_eq!(of_tls12("!RSA:HIGH").unwrap().len(), 3);
        assert_eq!(
            names(of_tls12("AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256")),
            ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
        );
        assert_eq!(
            names(of_tls13("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384")),
            ["TLS13_AES_128_GCM_SHA256", "TLS13_AES_256_GCM_SHA384"]
        );
        for nothing in [
            "",
            "AES128-SHA256",
            "DEFAULT:!ALL",
            "TLS_AES_128_GCM_SHA256",
        ] {
            let error = of_tls12(nothing).unwrap_err();
            assert_eq!(error, Error::NoSuite(nothing.to_owned()));
        }
    }
}
