//! The authority and what it issues: ECDSA with P-256, which every client supports.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tidewire_tls::{CertificateFacts, utc_text};

use crate::failure::Failure;

/// A certificate and its key, in PEM.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
    /// The last second in which it is valid, since the UNIX epoch.
    pub(super) ends_s: i64,
}

/// A certificate to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// For these hosts.
    Server(Vec<Host>),
    /// With this name.
    Client(String),
}

/// A name of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Kind {
    /// Returns the certificate of a server with these names.
    pub(super) fn server(hosts: &[String]) -> Result<Kind, Failure> {
        let hosts = hosts.iter().map(|host| read_host(host));
        Ok(Kind::Server(hosts.collect::<Result<_, _>>()?))
    }

    /// Returns the certificate of a client with this name.
    pub(super) fn client(name: &str) -> Result<Kind, Failure> {
        if !is_name(name) {
            return Err(Failure::usage(format!(
                "--client '{name}': 1 to {NAME_BYTES_MAX} letters, digits, '-', '_', '.' and '@' are \
                 expected, the first one a letter, digit, '_' or '@'"
            )));
        }
        if [SERVER, "ca"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Failure::usage(format!(
                "--client {name}: the files of this name are others; choose another name"
            )));
        }
        Ok(Kind::Client(name.to_owned()))
    }

    /// Returns the name of its files, without the ending.
    pub(super) fn file_name(&self) -> &str {
        match self {
            Kind::Server(_) => SERVER,
            Kind::Client(name) => name,
        }
    }

    /// Returns what it is, in words.
    pub(super) fn told(&self) -> String {
        match self {
            Kind::Server(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(Host::text).collect();
                format!("the server {}", hosts.join(", "))
            }
            Kind::Client(name) => format!("the client {name}"),
        }
    }
}

impl Host {
    fn text(&self) -> String {
        match self {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }
}

/// Returns whether a certificate and its files can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    let has_length = (1..=NAME_BYTES_MAX).contains(&name.len());
    has_length && name.bytes().all(is_plain) && !name.starts_with(['.', '-'])
}

fn read_host(text: &str) -> Result<Host, Failure> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Ok(address) = inner.unwrap_or(text).parse() {
        return Ok(Host::Address(address));
    }
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_short = (1..=63).contains(&label.len());
        is_short && label.bytes().all(is_plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    let name = text.strip_prefix("*.").unwrap_or(text);
    // What looks like an address is a mistake, not a name.
    let is_numeric = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = name.split('.').all(is_numeric);
    if text.len() > 253 || is_address || !name.split('.').all(is_label) {
        return Err(Failure::usage(format!(
            "--host '{text}': a DNS name or an IP address is expected, without a port"
        )));
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

/// The authority, which signs.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ends_s: i64,
}

impl Authority {
    /// Makes a new one.
    pub(super) fn new(now_s: i64, days: u32) -> Result<(Authority, Issued), Failure> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let ends_s = end(now_s, days.max(AUTHORITY_DAYS));
        // Its name is one of its own: programs mix up authorities with the same name.
        let number = key.public_key_raw().iter().fold(0_u32, |hash, &byte| {
            hash.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let params =
            params_of_authority(&format!("Tidewire authority {number:08x}"), now_s, ends_s);
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
        let issued = Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            ends_s,
        };
        let issuer = Issuer::new(params, key);
        Ok((Authority { issuer, ends_s }, issued))
    }

    /// Reads the one of the directory; `None` if there is none.
    pub(super) fn read(folder: &Path, now_s: i64) -> Result<Option<Authority>, Failure> {
        let [certificate_file, key_file] = ["ca.crt", "ca.key"].map(|name| folder.join(name));
        let exists = [&certificate_file, &key_file].map(|path| path.symlink_metadata().is_ok());
        match exists {
            [false, false] => return Ok(None),
            [true, true] => {}
            [has_certificate, _] => {
                let (there, missing) = match has_certificate {
                    true => (certificate_file, key_file),
                    false => (key_file, certificate_file),
                };
                let (there, missing) = (there.display(), missing.display());
                return Err(Failure::usage(format!(
                    "{there} exists, and {missing} does not: put it there, or use another --dir"
                )));
            }
        }
        let place = certificate_file.display();
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{place}: {error}"));
        let pem = std::fs::read(&certificate_file).map_err(|error| wrong(&error))?;
        let facts = CertificateFacts::read_all(&pem).map_err(|error| wrong(&error))?;
        let [facts] = facts.as_slice() else {
            return Err(wrong(&"one certificate is expected"));
        };
        if facts.ends_s <= now_s {
            let ends = utc_text(facts.ends_s);
            return Err(wrong(&format!(
                "it has expired on {ends}; use another --dir"
            )));
        }
        let wrong_key = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("{}: {error}", key_file.display()))
        };
        let key = std::fs::read_to_string(&key_file).map_err(|error| wrong_key(&error))?;
        let key = KeyPair::from_pem(&key).map_err(|error| wrong_key(&error))?;
        let name = facts.common_name.clone().unwrap_or_default();
        let params = params_of_authority(&name, now_s, facts.ends_s);
        // What this authority would be here: it must be the same one.
        let here = params.self_signed(&key).map_err(|error| failed(&error))?;
        let here = CertificateFacts::read_all(here.pem().as_bytes());
        let here = here.map_err(|error| failed(&error))?;
        if here[0].public_key != facts.public_key {
            return Err(wrong_key(&format!("it is not the key of {place}")));
        }
        if here[0].subject != facts.subject || !facts.is_authority {
            return Err(wrong(
                &"it was not made by this command; issue certificates with its own tools",
            ));
        }
        let issuer = Issuer::new(params, key);
        let ends_s = facts.ends_s;
        Ok(Some(Authority { issuer, ends_s }))
    }

    /// Issues a certificate. It is never valid for longer than the authority's own.
    pub(super) fn issue(&self, kind: &Kind, now_s: i64, days: u32) -> Result<Issued, Failure> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let ends_s = end(now_s, days).min(self.ends_s);
        let mut params = params(kind.file_name(), now_s, ends_s);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A server is a client of other servers.
        params.extended_key_usages = match kind {
            Kind::Server(_) => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            Kind::Client(_) => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        if let Kind::Server(hosts) = kind {
            for host in hosts {
                params.subject_alt_names.push(match host {
                    Host::Address(address) => SanType::IpAddress(*address),
                    Host::Name(name) => {
                        let name = name.as_str().try_into();
                        SanType::DnsName(name.map_err(|error| failed(&error))?)
                    }
                });
            }
            let first = hosts
                .iter()
                .map(Host::text)
                .find(|host| host.len() <= NAME_BYTES_MAX);
            params.distinguished_name = named(&first.unwrap_or_else(|| SERVER.to_owned()));
        }
        let certificate = params.signed_by(&key, &self.issuer);
        Ok(Issued {
            certificate: certificate.map_err(|error| failed(&error))?.pem(),
            key: key.serialize_pem(),
            ends_s,
        })
    }
}

fn params_of_authority(name: &str, now_s: i64, ends_s: i64) -> CertificateParams {
    let mut params = params(name, now_s, ends_s);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(name: &str, now_s: i64, ends_s: i64) -> CertificateParams {
    debug_assert!(now_s < ends_s, "it is valid for a time");
    let at = |time_s: i64| {
        let since = Duration::from_secs(u64::try_from(time_s).unwrap_or(0));
        date_time_ymd(1970, 1, 1) + since
    };
    let mut params = CertificateParams::default();
    params.not_before = at(now_s - EARLIER_S);
    params.not_after = at(ends_s);
    params.distinguished_name = named(name);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn end(now_s: i64, days: u32) -> i64 {
    (now_s + i64::from(days) * 86_400).min(END_OF_9999_S)
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::running(format!("cannot make a certificate: {error}"))
}

const SERVER: &str = "server";
/// Longest common name, as X.509 has it.
const NAME_BYTES_MAX: usize = 64;
const AUTHORITY_DAYS: u32 = 3_650;
/// Certificates are valid from an hour ago on, for machines whose clock is late.
const EARLIER_S: i64 = 3_600;
/// X.509 has no later time.
const END_OF_9999_S: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_tls::{Client, Server, Session, Trust};

    fn kind_of(host: &str) -> Result<Kind, String> {
        Kind::server(&[host.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_names_and_addresses() {
        for (text, host) in [
            ("Hub.Example", Host::Name("hub.example".into())),
            ("*.example", Host::Name("*.example".into())),
            ("10.0.0.1", Host::Address("10.0.0.1".parse().unwrap())),
            ("[::1]", Host::Address("::1".parse().unwrap())),
        ] {
            assert_eq!(kind_of(text), Ok(Kind::Server(vec![host])), "{text}");
        }
        for wrong in [
            "",
            "a b",
            "a..b",
            "-a",
            "a:1",
            "10.0.0.256",
            "*",
            "a*.b",
            "1.2.3",
            "ü.de",
        ] {
            let error = kind_of(wrong).unwrap_err();
            assert!(
                error.contains("a DNS name or an IP address"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn a_name_of_a_client_cannot_leave_the_directory() {
        for wrong in [
            "",
            "../a",
            "a/b",
            ".a",
            "-a",
            "server",
            "CA",
            "a\n",
            &"x".repeat(65),
        ] {
            Kind::client(wrong).unwrap_err();
        }
        Kind::client("trader-1@desk.example").unwrap();
    }

    #[test]
    fn what_is_issued_is_trusted_for_its_hosts_alone() {
        let now_s = 1_790_000_000;
        let now_s = now_s.max(tidewire_lane::unix_ns() as i64 / 1_000_000_000);
        let (authority, ca) = Authority::new(now_s, 1).unwrap();
        let kind = kind_of("localhost").unwrap();
        let issued = authority.issue(&kind, now_s, 365).unwrap();
        assert_eq!(issued.ends_s, now_s + 365 * 86_400);
        assert_eq!(
            authority.issue(&kind, now_s, 36_500).unwrap().ends_s,
            ca.ends_s
        );
        let server = Server::new(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap();
        let trust = Trust {
            pem: ca.certificate.as_bytes(),
            ..Trust::default()
        };
        let client = Client::new(&trust).unwrap();
        for (host, is_right) in [("localhost", true), ("127.0.0.1", false)] {
            let mut a = Session::client(&client, host).unwrap();
            let mut b = Session::server(&server).unwrap();
            let mut text = Vec::new();
            let mut result = Ok(());
            while result.is_ok() && !(a.is_open() && b.is_open()) {
                let hello = std::mem::take(a.outgoing());
                let _ = b.receive(&hello, &mut text);
                let reply = std::mem::take(b.outgoing());
                result = a.receive(&reply, &mut text);
            }
            assert_eq!(result.is_ok(), is_right, "{host}");
        }
    }
}
