//! What the certificates of a file say of themselves.

use std::time::UNIX_EPOCH;

use crate::certificate::Certificate;
use crate::engine::certificates;
use crate::error::Error;

/// What a certificate says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The first second in which it is valid, since the UNIX epoch.
    pub begins_s: i64,
    /// The last second in which it is valid, since the UNIX epoch.
    pub ends_s: i64,
    /// The common name of its subject, if it has exactly one.
    pub common_name: Option<String>,
    /// The hosts that it is for: DNS names and IP addresses.
    pub hosts: Vec<String>,
    /// Whether it may issue other certificates.
    pub is_authority: bool,
    /// Whether a server may show it (extended key usage).
    pub is_for_servers: bool,
    /// Whether a client may show it (extended key usage).
    pub is_for_clients: bool,
    /// Its subject, in DER.
    pub subject: Vec<u8>,
    /// Its public key, in DER.
    pub public_key: Vec<u8>,
}

impl CertificateFacts {
    /// Reads the certificates of a PEM text, in its order: a server's own comes first.
    ///
    /// # Errors
    /// There is none, or one is malformed.
    pub fn read_all(pem: &[u8]) -> Result<Vec<CertificateFacts>, Error> {
        let found = certificates(pem)?;
        if found.is_empty() {
            return Err(Error::NoCertificate);
        }
        let facts = found.iter().map(|der| {
            let read = Certificate::read(der);
            let read = read.ok_or_else(|| Error::Malformed("not X.509".to_owned()))?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(CertificateFacts {
                begins_s: read.begins_s,
                ends_s: read.ends_s,
                common_name: read.common_name.map(text),
                hosts: read.hosts(),
                is_authority: read.is_authority,
                is_for_servers: read.uses.servers,
                is_for_clients: read.uses.clients,
                subject: read.subject.to_vec(),
                public_key: read.public_key.to_vec(),
            })
        });
        facts.collect()
    }
}

/// Returns the wall clock, seconds since the UNIX epoch.
pub(crate) fn unix_s() -> i64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Returns a time in seconds since the UNIX epoch as people read it.
pub fn utc_text(time_s: i64) -> String {
    let (days, second) = (time_s.div_euclid(86_400), time_s.rem_euclid(86_400));
    // Years begin in March here, so that the leap day is the last one of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    debug_assert!((1..=12).contains(&month) && (1..=31).contains(&day));
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (time_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_801, "2000-03-01 00:00:01 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (253_402_300_799, "9999-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc_text(time_s), text);
        }
    }

    #[test]
    fn the_sides_of_a_certificate_are_those_of_its_extended_key_usage() {
        use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        for (purposes, sides) in [
            (vec![], (true, true)),
            (vec![ServerAuth], (true, false)),
            (vec![ClientAuth], (false, true)),
        ] {
            let mut params = rcgen::CertificateParams::default();
            params.extended_key_usages = purposes;
            let key = rcgen::KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            let facts = CertificateFacts::read_all(pem.as_bytes()).unwrap();
            assert_eq!((facts[0].is_for_servers, facts[0].is_for_clients), sides);
        }
    }

    #[test]
    fn the_facts_of_each_certificate_of_a_file_are_read() {
        let one = rcgen::generate_simple_self_signed(["a.example".into(), "::1".into()]).unwrap();
        let two = rcgen::generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
        let pem = format!("# two\n{}\n{}", one.cert.pem(), two.cert.pem());
        let facts = CertificateFacts::read_all(pem.as_bytes()).unwrap();
        assert_eq!(facts[0].hosts, ["a.example", "::1"]);
        assert_eq!(facts[1].hosts, ["127.0.0.1"]);
        assert!(facts[0].begins_s < facts[0].ends_s && !facts[0].is_authority);
        assert_ne!(facts[0].public_key, facts[1].public_key);
        assert_eq!(
            CertificateFacts::read_all(b"").unwrap_err(),
            Error::NoCertificate
        );
    }
}
