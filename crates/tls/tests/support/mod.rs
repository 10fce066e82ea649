//! Certificates, and two sides that speak with each other.

#![allow(dead_code, reason = "each test file uses a part of it")]

mod certificates;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tidewire_tls::{Client, Error, Session, Trust};

#[allow(unused_imports, reason = "each test file uses a part of it")]
pub(crate) use certificates::{Made, Named};

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
    shake_hands(&Arc::new(config), server)
}

/// A client of rustls's own that shows a certificate and trusts its authority. It resumes sessions.
pub(crate) fn client_with(made: &Made, version: &'static SupportedProtocolVersion) -> ClientConfig {
    let read = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(read(&made.root_pem)).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.key_pem.as_bytes()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![read(&made.pem)], key)
        .unwrap()
}

/// A client of rustls's own, whose handshake with a server is done, for `hub.example`. It has heard
/// all that the server has said, also tickets.
pub(crate) fn shake_hands(config: &Arc<ClientConfig>, server: &mut Session) -> ClientConnection {
    let name = ServerName::try_from("hub.example").unwrap();
    let mut client = ClientConnection::new(config.clone(), name).unwrap();
    while client.wants_write() || server.outgoing_bytes() > 0 {
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
    assert!(!client.is_handshaking() && server.is_open());
    client
}
