//! Certificates, and two sides that speak with each other.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tidewire_tls::{Client, Error, Server, Session, Trust};

/// What a certificate is to say.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// A DNS name or an address.
    name: String,
    /// As the subject's common name, instead of where names belong.
    pub(crate) is_common_name: bool,
    /// Valid from the first day of one year to that of another.
    pub(crate) years: [i32; 2],
}

impl Named {
    pub(crate) fn new(name: &str) -> Named {
        Named {
            name: name.to_owned(),
            is_common_name: false,
            years: [2020, 2120],
        }
    }

    fn params(&self) -> CertificateParams {
        let names = match self.is_common_name {
            true => Vec::new(),
            false => vec![self.name.clone()],
        };
        let mut params = CertificateParams::new(names).unwrap();
        if self.is_common_name {
            let subject = &mut params.distinguished_name;
            subject.push(DnType::CommonName, self.name.as_str());
        }
        let [from, to] = self.years.map(|year| date_time_ymd(year, 1, 1));
        (params.not_before, params.not_after) = (from, to);
        params
    }
}

/// A server's certificate.
pub(crate) struct Made {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    /// What is to be trusted.
    pub(crate) root_pem: String,
    params: CertificateParams,
    key: KeyPair,
}

impl Made {
    /// By an authority that nothing else is issued by.
    pub(crate) fn issued(named: &Named) -> Made {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("Authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let root_pem = params.self_signed(&key).unwrap().pem();
        Made {
            root_pem,
            ..issue(named, &Issuer::new(params, key))
        }
    }

    pub(crate) fn self_signed(named: &Named) -> Made {
        let (params, key) = (named.params(), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Made {
            root_pem: pem.clone(),
            key_pem: key.serialize_pem(),
            pem,
            params,
            key,
        }
    }

    /// What the owner of this one can make with its key.
    pub(crate) fn issue(&self, named: &Named) -> Made {
        let issuer = Issuer::from_params(&self.params, &self.key);
        let made = issue(named, &issuer);
        Made {
            pem: format!("{}{}", made.pem, self.pem),
            ..made
        }
    }

    /// One that is made once.
    pub(crate) fn known() -> &'static Made {
        static KNOWN: OnceLock<Made> = OnceLock::new();
        KNOWN.get_or_init(|| Made::issued(&Named::new("hub.example")))
    }

    pub(crate) fn server(&self) -> Server {
        Server::new(self.pem.as_bytes(), self.key_pem.as_bytes()).unwrap()
    }

    pub(crate) fn trust(&self) -> Trust<'_> {
        Trust {
            pem: self.root_pem.as_bytes(),
            ..Trust::default()
        }
    }
}

fn issue(named: &Named, issuer: &Issuer<'_, impl rcgen::SigningKey>) -> Made {
    let (params, key) = (named.params(), KeyPair::generate().unwrap());
    Made {
        pem: params.signed_by(&key, issuer).unwrap().pem(),
        key_pem: key.serialize_pem(),
        root_pem: String::new(),
        params,
        key,
    }
}

/// A client and a server whose handshake has not begun.
pub(crate) fn ends(made: &Made, trust: &Trust<'_>, host: &str) -> [Session; 2] {
    let client = Client::new(trust).unwrap();
    let client = Session::client(&client, host).unwrap();
    [client, Session::server(&made.server()).unwrap()]
}

/// A client and a server whose handshake is done.
pub(crate) fn open(made: &Made, trust: &Trust<'_>, host: &str) -> [Session; 2] {
    let mut ends = ends(made, trust, host);
    exchange(&mut ends).unwrap();
    assert!(ends.iter().all(Session::is_open));
    ends
}

/// The same with an authority and a name that nothing is wrong with.
pub(crate) fn opened() -> [Session; 2] {
    let made = Made::known();
    open(made, &made.trust(), "hub.example")
}

/// Has both sides hear each other until they have no more to say; or which one ends it, and why.
pub(crate) fn exchange(ends: &mut [Session; 2]) -> Result<(), (usize, Error)> {
    while ends.iter().any(|end| end.outgoing_bytes() > 0) {
        for to in [1, 0] {
            let ciphertext = std::mem::take(ends[1 - to].outgoing());
            let heard = ends[to].receive(&ciphertext, &mut Vec::new());
            heard.map_err(|error| (to, error))?;
        }
    }
    Ok(())
}

/// What one side has sent, as the other one receives it.
pub(crate) fn transfer(ends: &mut [Session; 2], from: usize) -> Vec<u8> {
    let ciphertext = std::mem::take(ends[from].outgoing());
    let mut plaintext = Vec::new();
    ends[1 - from].receive(&ciphertext, &mut plaintext).unwrap();
    plaintext
}

/// A client of rustls's own, whose handshake with the server of [`Made::known`] is done. Its
/// secrets can be taken out.
pub(crate) fn rustls_client(
    provider: CryptoProvider,
    version: &'static SupportedProtocolVersion,
    server: &mut Session,
) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(Made::known().root_pem.as_bytes());
    roots.add(root.unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    let name = ServerName::try_from("hub.example").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    while client.is_handshaking() {
        let mut to_server = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut to_server).unwrap();
        }
        server.receive(&to_server, &mut Vec::new()).unwrap();
        let to_client = std::mem::take(server.outgoing());
        let mut rest = &to_client[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    client
}
