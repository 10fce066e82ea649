//! What an authority may vouch for: when, by which path, and for which side. As OpenSSL judges.

mod support;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use support::exchange;
use tidewire_tls::{
    Client, ClientSettings, Clients, Error, Refusal, Server, ServerSettings, Session, Trust,
};

const HOST: &str = "hub.example";

/// A certificate, its key, and those that lead to its authority.
struct Issued {
    chain_pem: String,
    key_pem: String,
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(change: impl FnOnce(&mut CertificateParams)) -> Authority {
        let (params, key) = (authority("Authority", change), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { pem, issuer }
    }

    /// An authority below this one.
    fn below(&self, change: impl FnOnce(&mut CertificateParams)) -> Authority {
        let (params, key) = (authority("Between", change), KeyPair::generate().unwrap());
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { pem, issuer }
    }

    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new([HOST.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Issued {
            chain_pem: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

fn authority(name: &str, change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    change(&mut params);
    params
}

impl Issued {
    fn with(mut self, between: &Authority) -> Issued {
        self.chain_pem += &between.pem;
        self
    }
}

/// Lets a client that trusts the authority look at the certificate.
fn as_server(root_pem: &str, issued: &Issued) -> Result<(), Error> {
    let server = Server::new(issued.chain_pem.as_bytes(), issued.key_pem.as_bytes())?;
    let trust = Trust {
        pem: root_pem.as_bytes(),
        ..Trust::default()
    };
    let client = Session::client(&Client::new(&trust)?, HOST)?;
    let mut ends = [client, Session::server(&server)?];
    exchange(&mut ends).map_err(|(_, error)| error)
}

/// Lets a server that trusts the authority look at the certificate.
fn as_client(root_pem: &str, issued: &Issued) -> Result<(), Error> {
    let own = Authority::new(|_| ());
    let identity = own.issue(|_| ());
    let server = Server::with(&ServerSettings {
        certificates_pem: identity.chain_pem.as_bytes(),
        key_pem: identity.key_pem.as_bytes(),
        clients: Clients::Required,
        authorities_pem: root_pem.as_bytes(),
        ..ServerSettings::default()
    })?;
    let client = Client::with(&ClientSettings {
        trust: Trust {
            pem: own.pem.as_bytes(),
            ..Trust::default()
        },
        identity: Some((issued.chain_pem.as_bytes(), issued.key_pem.as_bytes())),
        ..ClientSettings::default()
    })?;
    let mut ends = [Session::client(&client, HOST)?, Session::server(&server)?];
    exchange(&mut ends).map_err(|(_, error)| error)
}

/// Checks that both sides refuse a certificate, in these words.
fn both_refuse(root_pem: &str, issued: &Issued, words: &str) {
    for judged in [as_server(root_pem, issued), as_client(root_pem, issued)] {
        let Err(Error::Certificate(refusal)) = judged else {
            panic!("{words}: {judged:?}");
        };
        let told = refusal.to_string();
        assert!(told.contains(words), "{words}: {told}");
        assert!(!told.contains("malformed"), "it is not: {told}");
    }
}

/// An authority of yesterday, or of tomorrow, vouched for clients and for servers.
#[test]
fn an_authority_vouches_while_it_is_valid() {
    for (from, until, words) in [
        (1990, 2000, "its authority has expired on 2000-01-01"),
        (
            2200,
            2300,
            "its authority is not valid yet, but from 2200-01-01",
        ),
    ] {
        let one = Authority::new(|params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
        });
        both_refuse(&one.pem, &one.issue(|_| ()), words);
    }
}

/// The common name was called the certificate's name, though it is that of the host.
#[test]
fn a_certificate_without_names_of_hosts_is_told_so() {
    let uri = || rcgen::SanType::URI("urn:hub:1".try_into().unwrap());
    for (names, common_name, words) in [
        (
            vec![],
            Some(HOST),
            ": its common name hub.example does not count",
        ),
        (
            vec![uri()],
            Some(HOST),
            ": its common name hub.example does not count",
        ),
        (vec![uri()], None, ""),
        (vec![], None, ""),
    ] {
        let one = Authority::new(|_| ());
        let issued = one.issue(|params| {
            params.subject_alt_names = names;
            params.distinguished_name = rcgen::DistinguishedName::new();
            if let Some(name) = common_name {
                params.distinguished_name.push(DnType::CommonName, name);
            }
        });
        let Err(Error::Certificate(refusal)) = as_server(&one.pem, &issued) else {
            panic!("a common name does not count");
        };
        let told = format!(
            "it names no host{words}; issue it with DNS names or IP addresses (subjectAltName), or \
             set tls-verify-hostname no for the links of a hub"
        );
        assert_eq!(refusal.to_string(), told);
    }
}

#[test]
fn an_authority_must_be_allowed_to_sign_certificates() {
    let words = "may not sign certificates";
    let one = Authority::new(|params| params.key_usages = vec![KeyUsagePurpose::CrlSign]);
    both_refuse(&one.pem, &one.issue(|_| ()), words);
    let root = Authority::new(|_| ());
    let between = root.below(|params| params.key_usages = vec![KeyUsagePurpose::CrlSign]);
    both_refuse(&root.pem, &between.issue(|_| ()).with(&between), words);
    let between = root.below(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
    let issued = between.issue(|_| ()).with(&between);
    assert_eq!(as_server(&root.pem, &issued), Ok(()));
    assert_eq!(as_client(&root.pem, &issued), Ok(()));
}

#[test]
fn an_authority_says_how_many_may_be_between() {
    for most in [0, 1] {
        let root = Authority::new(|params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(most));
        });
        assert_eq!(as_client(&root.pem, &root.issue(|_| ())), Ok(()));
        let between = root.below(|_| ());
        let issued = between.issue(|_| ()).with(&between);
        match most {
            0 => both_refuse(&root.pem, &issued, "path length"),
            _ => assert_eq!(as_client(&root.pem, &issued), Ok(())),
        }
    }
}

#[test]
fn an_authority_for_one_side_does_not_vouch_for_the_other() {
    for (purpose, servers) in [
        (ExtendedKeyUsagePurpose::ServerAuth, true),
        (ExtendedKeyUsagePurpose::ClientAuth, false),
    ] {
        let one = Authority::new(|params| params.extended_key_usages = vec![purpose]);
        let issued = one.issue(|_| ());
        let judged = [as_server(&one.pem, &issued), as_client(&one.pem, &issued)];
        let [server, client] = judged;
        let (right, wrong) = if servers {
            (server, client)
        } else {
            (client, server)
        };
        assert_eq!(right, Ok(()), "servers: {servers}");
        let words = matches!(&wrong, Err(Error::Certificate(Refusal::Other(words)))
            if words.contains("extended key usage"));
        assert!(words, "{wrong:?}");
    }
}

#[test]
fn an_authority_with_an_unknown_critical_extension_vouches_for_nothing() {
    for is_critical in [true, false] {
        let one = Authority::new(|params| {
            let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            extension.set_criticality(is_critical);
            params.custom_extensions = vec![extension];
        });
        let issued = one.issue(|_| ());
        match is_critical {
            true => both_refuse(&one.pem, &issued, "critical extension"),
            false => assert_eq!(as_client(&one.pem, &issued), Ok(())),
        }
    }
}

/// A client with a key that is only for encryption was `alice`.
#[test]
fn a_clients_key_must_be_one_that_signs() {
    let one = Authority::new(|_| ());
    let issued = |usage| one.issue(|params| params.key_usages = vec![usage]);
    let encrypts = issued(KeyUsagePurpose::KeyEncipherment);
    let refused = as_client(&one.pem, &encrypts);
    assert!(matches!(refused, Err(Error::Certificate(_))), "{refused:?}");
    assert_eq!(as_server(&one.pem, &encrypts), Ok(()));
    let signs = issued(KeyUsagePurpose::DigitalSignature);
    assert_eq!(as_client(&one.pem, &signs), Ok(()));
}

/// Of an authority that was renewed under the same name, both certificates may be listed.
#[test]
fn an_expired_authority_beside_its_successor_does_no_harm() {
    let old = Authority::new(|params| params.not_after = date_time_ymd(2000, 1, 1));
    let new = Authority::new(|_| ());
    for roots in [
        format!("{}{}", old.pem, new.pem),
        format!("{}{}", new.pem, old.pem),
    ] {
        let issued = new.issue(|_| ());
        assert_eq!(as_client(&roots, &issued), Ok(()));
        assert_eq!(as_server(&roots, &issued), Ok(()));
        both_refuse(&roots, &old.issue(|_| ()), "expired");
    }
}
