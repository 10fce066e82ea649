//! The fields of an X.509 certificate that decide about one that is trusted by itself: validity,
//! name, and whether it may issue others. Chains are verified by the engine.

use std::net::IpAddr;

use crate::der::{
    BITS, BOOLEAN, GENERALIZED_TIME, INTEGER, OBJECT, OCTETS, Reader, SEQUENCE, SET, UTC_TIME,
};

/// The names in a peer's certificate that may stand for a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerNames {
    /// The first common name of its subject.
    pub common_name: Option<String>,
    /// The URIs among its alternative names.
    pub uris: Vec<String>,
}

impl PeerNames {
    /// Reads the names of a certificate in DER. What is not UTF-8 is no name.
    pub(crate) fn read(der: &[u8]) -> PeerNames {
        let Some(certificate) = Certificate::read(der) else {
            return PeerNames::default();
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let mut uris = Vec::new();
        let mut names = Reader(certificate.alternative_names);
        while let Some(Some((tag, name))) = names.next() {
            if tag == URI {
                uris.extend(text(name));
            }
        }
        PeerNames {
            common_name: certificate.first_common_name.and_then(text),
            uris,
        }
    }
}

/// What a certificate says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Certificate<'a> {
    /// Seconds since the UNIX epoch.
    pub(crate) begins_s: i64,
    /// Seconds since the UNIX epoch; the last second in which it is valid.
    pub(crate) ends_s: i64,
    /// The common name of its subject, if it has exactly one: that of a host.
    pub(crate) common_name: Option<&'a [u8]>,
    /// The first common name of its subject: that of a user.
    pub(crate) first_common_name: Option<&'a [u8]>,
    /// It lists names beside the common name, which then counts for nothing.
    pub(crate) has_alternative_names: bool,
    /// These names, one element after the other.
    alternative_names: &'a [u8],
    /// Its subject, in DER.
    pub(crate) subject: &'a [u8],
    /// Its issuer, in DER.
    pub(crate) issuer: &'a [u8],
    /// Its public key, in DER.
    pub(crate) public_key: &'a [u8],
    /// It may issue other certificates.
    pub(crate) is_authority: bool,
    /// Authorities that may stand between it and a certificate at the end, if it says so.
    pub(crate) path_length: Option<u32>,
    /// What its key is for.
    pub(crate) uses: Uses,
    /// A critical extension that is not known here.
    pub(crate) has_unknown_critical: bool,
    /// It is of the version that has no extensions. The engine does not read it.
    pub(crate) is_version_1: bool,
}

/// What a key may be used for. Where a certificate does not say, it may be used for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uses {
    /// To sign in a handshake, to encrypt or to agree on a key: what a server's key is for.
    pub(crate) handshakes: bool,
    /// To sign in a handshake, or to agree on a key: what a client's key is for.
    pub(crate) signatures: bool,
    /// To sign certificates.
    pub(crate) certificates: bool,
    pub(crate) servers: bool,
    pub(crate) clients: bool,
}

impl Uses {
    const ALL: Uses = Uses {
        handshakes: true,
        signatures: true,
        certificates: true,
        servers: true,
        clients: true,
    };

    /// Reads the extension *key usage*.
    fn read_key(&mut self, value: &[u8]) -> Option<()> {
        let bits = Reader(value).expect(BITS)?;
        // Behind the number of bits that count for nothing at the end.
        let first = *bits.get(1)?;
        self.signatures = first & (DIGITAL_SIGNATURE | KEY_AGREEMENT) != 0;
        self.handshakes = self.signatures || first & KEY_ENCIPHERMENT != 0;
        self.certificates = first & CERTIFICATE_SIGNATURE != 0;
        Some(())
    }

    /// Reads the extension *extended key usage*.
    fn read_extended(&mut self, value: &[u8]) -> Option<()> {
        (self.servers, self.clients) = (false, false);
        let mut purposes = Reader(Reader(value).expect(SEQUENCE)?);
        while let Some((tag, purpose)) = purposes.next()? {
            let is_any = tag == OBJECT && purpose == ANY_PURPOSE;
            self.servers |= is_any || (tag == OBJECT && purpose == OF_SERVERS);
            self.clients |= is_any || (tag == OBJECT && purpose == OF_CLIENTS);
        }
        Some(())
    }
}

impl<'a> Certificate<'a> {
    /// Reads a certificate in DER; `None` if it is malformed.
    pub(crate) fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut body = Reader(Reader(Reader(der).expect(SEQUENCE)?).expect(SEQUENCE)?);
        // Without a version it is of version 1, which has no extensions.
        let version = body.take_if(CONTEXT_0);
        body.expect(INTEGER)?;
        body.expect(SEQUENCE)?;
        let issuer = body.expect(SEQUENCE)?;
        let mut validity = Reader(body.expect(SEQUENCE)?);
        let begins_s = time(validity.element()?)?;
        let ends_s = time(validity.element()?)?;
        let subject = body.expect(SEQUENCE)?;
        let (first_common_name, common_names) = common_names(subject)?;
        let public_key = body.expect(SEQUENCE)?;
        let mut certificate = Certificate {
            begins_s,
            ends_s,
            common_name: first_common_name.filter(|_| common_names == 1),
            first_common_name,
            has_alternative_names: false,
            alternative_names: &[],
            subject,
            issuer,
            public_key,
            is_authority: version.is_none(),
            path_length: None,
            uses: Uses::ALL,
            has_unknown_critical: false,
            is_version_1: version.is_none(),
        };
        while let Some((tag, content)) = body.next()? {
            if tag == CONTEXT_3 {
                certificate.read_extensions(Reader(content).expect(SEQUENCE)?)?;
            }
        }
        Some(certificate)
    }

    /// Returns whether its common name, where that counts, is this host.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        let name = self.common_name.filter(|_| !self.has_alternative_names);
        name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_bytes()))
    }

    /// Returns the hosts that it is for: DNS names and IP addresses, or the common name if it lists
    /// no names at all. What is neither is left out.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !self.has_alternative_names {
            return self.common_name.map(text).into_iter().collect();
        }
        self.alternative_hosts()
    }

    /// Returns the DNS names and IP addresses among its alternative names.
    pub(crate) fn alternative_hosts(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut hosts = Vec::new();
        let mut names = Reader(self.alternative_names);
        while let Some(Some((tag, name))) = names.next() {
            match tag {
                DNS => hosts.push(text(name)),
                ADDRESS => hosts.extend(address(name)),
                _ => {}
            }
        }
        hosts
    }

    fn read_extensions(&mut self, extensions: &'a [u8]) -> Option<()> {
        let mut extensions = Reader(extensions);
        while let Some((SEQUENCE, content)) = extensions.next()? {
            let mut extension = Reader(content);
            let name = extension.expect(OBJECT)?;
            let is_critical = extension.take_if(BOOLEAN).is_some_and(|value| value != [0]);
            let value = extension.expect(OCTETS)?;
            match name {
                ALTERNATIVE_NAMES => {
                    self.has_alternative_names = true;
                    self.alternative_names = Reader(value).expect(SEQUENCE)?;
                }
                BASIC_CONSTRAINTS => {
                    let mut constraints = Reader(Reader(value).expect(SEQUENCE)?);
                    let is_authority = constraints.take_if(BOOLEAN);
                    self.is_authority = is_authority.is_some_and(|value| value == [0xff]);
                    let length = constraints.take_if(INTEGER);
                    let length = length.map(|octets| {
                        octets.iter().fold(0u32, |length, octet| {
                            length.saturating_mul(256).saturating_add(u32::from(*octet))
                        })
                    });
                    self.path_length = length;
                }
                KEY_USAGE => self.uses.read_key(value)?,
                EXTENDED_KEY_USAGE => self.uses.read_extended(value)?,
                name => self.has_unknown_critical |= is_critical && !KNOWN.contains(&name),
            }
        }
        Some(())
    }
}

/// The address in four or sixteen octets.
fn address(octets: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from));
    address.ok().map(|address| address.to_string())
}

/// The first common name in a subject, and how many it has.
fn common_names(subject: &[u8]) -> Option<(Option<&[u8]>, usize)> {
    let (mut first, mut count) = (None, 0);
    let mut sets = Reader(subject);
    while let Some((SET, content)) = sets.next()? {
        let mut set = Reader(content);
        while let Some((SEQUENCE, content)) = set.next()? {
            let mut pair = Reader(content);
            let is_name = pair.expect(OBJECT)? == COMMON_NAME;
            let (_, value) = pair.element()?;
            if is_name {
                first = first.or(Some(value));
                count += 1;
            }
        }
    }
    Some((first, count))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, the two forms that RFC 5280 allows.
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2])?;
            (year + if year < 50 { 2000 } else { 1900 }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let mut parts = [0; 5];
    for (part, digits) in parts.iter_mut().zip(rest.chunks(2)) {
        *part = number(digits)?;
    }
    let [month, day, hour, minute, second] = parts;
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60 + second;
    Some(days_since_epoch(year, month, day) * 86_400 + seconds)
}

fn number(digits: &[u8]) -> Option<i64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        let digits = digits.iter().map(|digit| i64::from(digit - b'0'));
        digits.fold(0, |number, digit| number * 10 + digit)
    })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    debug_assert!((0..=9999).contains(&year), "a year has four digits");
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;
/// The tag of a DNS name among alternative names.
const DNS: u8 = 0x82;
/// The tag of an IP address among alternative names.
const ADDRESS: u8 = 0x87;
/// The tag of a URI among alternative names.
const URI: u8 = 0x86;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// 2.5.29.17
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// 2.5.29.19
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// 2.5.29.15
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// 2.5.29.37
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// 2.5.29.37.0
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0];
/// 1.3.6.1.5.5.7.3.1
const OF_SERVERS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// 1.3.6.1.5.5.7.3.2
const OF_CLIENTS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
/// Extensions that an authority may have, and which are looked at elsewhere or restrict nothing
/// here: name constraints, policies, identifiers of keys, alternative names of the issuer, where
/// to ask for revoked ones.
const KNOWN: [&[u8]; 9] = [
    &[0x55, 0x1d, 0x1e],
    &[0x55, 0x1d, 0x20],
    &[0x55, 0x1d, 0x21],
    &[0x55, 0x1d, 0x24],
    &[0x55, 0x1d, 0x36],
    &[0x55, 0x1d, 0x0e],
    &[0x55, 0x1d, 0x23],
    &[0x55, 0x1d, 0x12],
    &[0x55, 0x1d, 0x1f],
];
/// Bits of the first octet of *key usage*.
const DIGITAL_SIGNATURE: u8 = 0x80;
const KEY_ENCIPHERMENT: u8 = 0x20;
const KEY_AGREEMENT: u8 = 0x08;
const CERTIFICATE_SIGNATURE: u8 = 0x04;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn der(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn fields_are_read() {
        let der = der(|params| {
            params.not_before = date_time_ymd(2020, 2, 29);
            params.not_after = date_time_ymd(2119, 10, 17);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "Hub.Example");
        });
        let read = Certificate::read(&der).unwrap();
        assert_eq!(read.begins_s, 1_582_934_400);
        assert_eq!(read.ends_s, 4_726_944_000);
        assert_eq!(read.common_name, Some(&b"Hub.Example"[..]));
        assert!(read.is_authority && !read.has_alternative_names);
        assert!(read.is_named("hub.example") && !read.is_named("example"));
    }

    #[test]
    fn a_common_name_beside_other_names_counts_for_nothing() {
        let der = der(|params| {
            *params = CertificateParams::new(["a.example".to_owned()]).unwrap();
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "b.example");
        });
        let read = Certificate::read(&der).unwrap();
        assert!(read.has_alternative_names && !read.is_authority);
        assert!(!read.is_named("a.example") && !read.is_named("b.example"));
    }

    #[test]
    fn the_names_of_a_peer_are_its_common_name_and_its_uris() {
        let der = der(|params| {
            let uri = rcgen::SanType::URI("urn:desk:7".try_into().unwrap());
            let dns = rcgen::SanType::DnsName("desk.example".try_into().unwrap());
            params.subject_alt_names = vec![dns, uri];
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "trader");
        });
        let names = PeerNames::read(&der);
        assert_eq!(names.common_name.as_deref(), Some("trader"));
        assert_eq!(names.uris, ["urn:desk:7"]);
        assert_eq!(PeerNames::read(b"nonsense"), PeerNames::default());
    }

    /// Redis takes the first (`X509_NAME_get_text_by_NID`).
    #[test]
    fn of_several_common_names_the_first_is_the_users_and_none_is_the_hosts() {
        let der = der(|params| {
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "trader");
            // The same type by its number: one type has one value here.
            name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "admin");
        });
        assert_eq!(PeerNames::read(&der).common_name.as_deref(), Some("trader"));
        let read = Certificate::read(&der).unwrap();
        assert_eq!(read.common_name, None);
        assert!(!read.is_named("trader") && !read.is_named("admin"));
    }

    #[test]
    fn times_have_two_forms_and_no_other() {
        let utc = |text: &str| time((UTC_TIME, text.as_bytes()));
        let general = |text: &str| time((GENERALIZED_TIME, text.as_bytes()));
        assert_eq!(utc("700101000000Z"), Some(0));
        assert_eq!(utc("491231235959Z"), Some(2_524_607_999));
        assert_eq!(utc("500101000000Z"), Some(-631_152_000));
        assert_eq!(general("20000301000001Z"), Some(951_868_801));
        assert_eq!(general("00000101000000Z"), Some(-62_167_219_200));
        for wrong in ["", "Z", "70010100000Z", "701301000000Z", "7001010000x0Z"] {
            assert_eq!(utc(wrong), None, "{wrong}");
            assert_eq!(general(wrong), None, "{wrong}");
        }
        assert_eq!(general("20000101000000"), None);
        assert_eq!(general("20000101240000Z"), None);
    }

    #[test]
    fn what_is_cut_off_is_not_a_certificate() {
        let der = der(|_| ());
        for end in 0..der.len() {
            assert_eq!(Certificate::read(&der[..end]), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_more_than_malformed(bytes: Vec<u8>, at: usize, byte: u8) {
            let _ = Certificate::read(&bytes);
            let mut der = der(|_| ());
            let at = at % der.len();
            der[at] = byte;
            let _ = Certificate::read(&der);
        }
    }
}
