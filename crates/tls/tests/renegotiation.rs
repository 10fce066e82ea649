//! Renegotiation in TLS 1.2, which no one needs and which was a way to attack: it is refused.
//!
//! The peer here is made of the oracle's parts: its handshake is rustls's, and then its keys are
//! taken out to encrypt by hand what rustls never sends.

mod support;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
use rustls::{ClientConnection, ConnectionTrafficSecrets};
use support::{Made, rustls_client};
use tidewire_tls::{Error, Session};

/// A client of TLS 1.2, whose handshake with the server is done.
fn client(server: &mut Session) -> ClientConnection {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites = vec![TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let client = rustls_client(provider, &rustls::version::TLS12, server);
    assert!(server.is_open());
    client
}

/// What the client encrypts with.
struct Sealer {
    key: LessSafeKey,
    salt: [u8; 4],
    sequence: u64,
}

impl Sealer {
    fn of(client: ClientConnection) -> Sealer {
        let secrets = client.dangerous_extract_secrets().unwrap();
        let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
            panic!("another cipher");
        };
        let key = UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap();
        Sealer {
            key: LessSafeKey::new(key),
            salt: iv.as_ref()[..4].try_into().unwrap(),
            sequence,
        }
    }

    /// A record of TLS 1.2 with AES-GCM.
    fn record(&mut self, kind: u8, text: &[u8]) -> Vec<u8> {
        let sequence = self.sequence.to_be_bytes();
        self.sequence += 1;
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(&sequence);
        let mut associated = sequence.to_vec();
        associated.extend_from_slice(&[kind, 3, 3]);
        associated.extend_from_slice(&(text.len() as u16).to_be_bytes());
        let mut sealed = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealing = self
            .key
            .seal_in_place_append_tag(nonce, Aad::from(associated), &mut sealed);
        sealing.unwrap();
        let mut record = vec![kind, 3, 3];
        record.extend_from_slice(&((8 + sealed.len()) as u16).to_be_bytes());
        record.extend_from_slice(&sequence);
        record.extend_from_slice(&sealed);
        record
    }
}

/// The greeting of a client without extensions.
fn greeting() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend_from_slice(&body);
    message
}

const HANDSHAKE: u8 = 0x16;
const DATA: u8 = 0x17;

#[test]
fn a_renegotiation_is_declined_and_a_second_one_ends_the_connection() {
    let mut server = Session::server(&Made::known().server()).unwrap();
    let mut sealer = Sealer::of(client(&mut server));
    let mut plaintext = Vec::new();
    let data = sealer.record(DATA, b"before");
    server.receive(&data, &mut plaintext).unwrap();
    assert_eq!(plaintext, b"before");

    let asked = sealer.record(HANDSHAKE, &greeting());
    server.receive(&asked, &mut plaintext).unwrap();
    let warning_bytes = server.outgoing_bytes();
    assert!(warning_bytes > 0, "the warning that it is declined");
    let data = sealer.record(DATA, b", after");
    server.receive(&data, &mut plaintext).unwrap();
    assert_eq!(plaintext, b"before, after");

    let mut ended = Ok(());
    for _ in 0..4 {
        let asked = sealer.record(HANDSHAKE, &greeting());
        ended = ended.and_then(|()| server.receive(&asked, &mut plaintext));
    }
    assert!(matches!(ended, Err(Error::Protocol(_))), "{ended:?}");
    assert!(server.outgoing_bytes() <= 4 * warning_bytes);
}

#[test]
fn a_message_of_a_handshake_in_parts_does_not_keep_the_server_from_sending() {
    let mut server = Session::server(&Made::known().server()).unwrap();
    let mut sealer = Sealer::of(client(&mut server));
    let mut plaintext = Vec::new();
    let greeting = greeting();
    for part in greeting.chunks(3) {
        let before = server.outgoing_bytes();
        server.send(b"hello").unwrap();
        assert!(server.outgoing_bytes() > before);
        let record = sealer.record(HANDSHAKE, part);
        // The record comes in pieces too.
        for piece in record.chunks(2) {
            server.receive(piece, &mut plaintext).unwrap();
        }
    }
    server.send(b"hello").unwrap();
    let data = sealer.record(DATA, b"after");
    server.receive(&data, &mut plaintext).unwrap();
    assert_eq!(plaintext, b"after");
}

#[test]
fn a_message_of_a_handshake_that_never_ends_is_not_kept_without_bound() {
    let mut server = Session::server(&Made::known().server()).unwrap();
    let mut sealer = Sealer::of(client(&mut server));
    let begin = sealer.record(HANDSHAKE, &[1, 0, 0xff, 0xff]);
    server.receive(&begin, &mut Vec::new()).unwrap();
    let mut kept_bytes_max = 0;
    let ended = (0..10_000).try_for_each(|_| {
        let record = sealer.record(HANDSHAKE, &[7]);
        let received = server.receive(&record, &mut Vec::new());
        kept_bytes_max = kept_bytes_max.max(server.incoming_bytes());
        received
    });
    assert!(matches!(ended, Err(Error::Protocol(_))), "{ended:?}");
    assert!(kept_bytes_max <= 32 << 10, "{kept_bytes_max}");
}

#[test]
fn data_within_a_message_of_a_handshake_ends_the_connection() {
    let mut server = Session::server(&Made::known().server()).unwrap();
    let mut sealer = Sealer::of(client(&mut server));
    let part = sealer.record(HANDSHAKE, &greeting()[..9]);
    server.receive(&part, &mut Vec::new()).unwrap();
    let data = sealer.record(DATA, b"data");
    let ended = server.receive(&data, &mut Vec::new());
    assert!(matches!(ended, Err(Error::Protocol(_))), "{ended:?}");
    assert_eq!(server.send(b"x"), Err(Error::Closed));
    server.close();
}
