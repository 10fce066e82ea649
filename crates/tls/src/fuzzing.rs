//! Entry point for fuzzers, also called by the tests over the corpus. It may not panic.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::engine::{Client, ClientSettings, Clients, Server, ServerSettings, Trust};
use crate::session::Session;

/// Lets a session speak with rustls's own connection, which has another interface than the one that
/// the session uses. The first byte says who is the client, which version there is, and who
/// shows a certificate. The others are steps: what each side writes, and what the network between
/// them delivers, cuts off, changes and invents.
///
/// What a side receives must always be the beginning of what the other one wrote, and all of it if
/// the network did no harm.
pub fn fuzz_tls_session(data: &[u8]) {
    let Some((&head, steps)) = data.split_first() else {
        return;
    };
    let Some(mut both) = Both::new(head) else {
        return;
    };
    let mut steps = steps.iter().copied();
    while let Some(step) = steps.next() {
        let count = steps.next().unwrap_or_default();
        both.take(step, count, &mut steps);
        both.check();
    }
    both.end();
}

/// A session, rustls's connection, and the network between them.
struct Both {
    own: Session,
    peer: Connection,
    to_own: Vec<u8>,
    to_peer: Vec<u8>,
    /// What each side wrote, and what it received.
    own_wrote: Vec<u8>,
    own_received: Vec<u8>,
    peer_wrote: Vec<u8>,
    peer_received: Vec<u8>,
    /// Whether a side has ended by an error.
    own_failed: bool,
    peer_failed: bool,
    own_closed: bool,
    peer_closed: bool,
    /// Whether the network did harm.
    is_harmed: bool,
    /// Whether the server requires a certificate that the client does not have.
    is_hopeless: bool,
}

impl Both {
    fn new(head: u8) -> Option<Self> {
        let has_old_version = head & 1 != 0;
        let requires = head & 2 != 0;
        let shows = head & 4 != 0;
        let is_own_client = head & 8 != 0;
        let versions: &[&SupportedProtocolVersion] = match has_old_version {
            true => &[&TLS12],
            false => &[&TLS13],
        };
        let (own, peer) = match is_own_client {
            true => (own_client(shows)?, peer_server(versions, requires)?),
            false => (own_server(requires)?, peer_client(versions, shows)?),
        };
        Some(Self {
            own,
            peer,
            to_own: Vec::new(),
            to_peer: Vec::new(),
            own_wrote: Vec::new(),
            own_received: Vec::new(),
            peer_wrote: Vec::new(),
            peer_received: Vec::new(),
            own_failed: false,
            peer_failed: false,
            own_closed: false,
            peer_closed: false,
            is_harmed: false,
            is_hopeless: requires && !shows,
        })
    }

    fn take(&mut self, step: u8, count: u8, rest: &mut impl Iterator<Item = u8>) {
        self.collect();
        let few = usize::from(count) + 1;
        let front = few.min(self.to_own.len());
        match step % 12 {
            0 => self.deliver_to_own(few),
            1 => self.deliver_to_peer(few),
            2 => self.deliver_all(),
            3 => self.peer_writes(usize::from(count) * TEXT_UNIT_BYTES),
            4 => self.own_writes(usize::from(count) * TEXT_UNIT_BYTES),
            5 if !self.to_own.is_empty() => {
                let at = usize::from(count) % self.to_own.len();
                self.to_own[at] ^= rest.next().unwrap_or_default().max(1);
                self.is_harmed = true;
            }
            6 if front > 0 => {
                self.to_own.drain(..front);
                self.is_harmed = true;
            }
            7 if front > 0 => {
                let again = self.to_own[..front].to_vec();
                self.to_own.splice(..0, again);
                self.is_harmed = true;
            }
            8 => {
                let invented: Vec<u8> = rest.take(usize::from(count)).collect();
                self.is_harmed |= !invented.is_empty();
                self.to_own.splice(..0, invented);
            }
            // Before that, rustls asserts that no error follows.
            9 if !self.peer.is_handshaking() => {
                self.peer_closed = true;
                self.peer.send_close_notify();
            }
            10 => {
                self.own_closed = true;
                self.own.close();
            }
            11 => {
                // Before the handshake is done, and in 1.2, there are no other keys.
                let _ = self.peer.refresh_traffic_keys();
            }
            _ => {}
        }
        self.collect();
    }

    /// Gives what both sides have to say to the network.
    fn collect(&mut self) {
        self.to_peer.append(self.own.outgoing());
        while self.peer.wants_write() {
            let written = self.peer.write_tls(&mut self.to_own);
            assert!(written.is_ok(), "a vector takes everything");
        }
    }

    fn deliver_to_own(&mut self, few: usize) {
        let count = few.min(self.to_own.len());
        let part: Vec<u8> = self.to_own.drain(..count).collect();
        let received = self.own.receive(&part, &mut self.own_received);
        assert!(
            received.is_err() || !self.own_failed,
            "a failure is the end"
        );
        self.own_failed |= received.is_err();
    }

    fn deliver_to_peer(&mut self, few: usize) {
        let count = few.min(self.to_peer.len());
        let part: Vec<u8> = self.to_peer.drain(..count).collect();
        let mut part = &part[..];
        while !part.is_empty() && !self.peer_failed {
            // It reads no more behind the end of what it was sent.
            let read = self.peer.read_tls(&mut part).unwrap_or_default();
            self.peer_failed = self.peer.process_new_packets().is_err();
            let mut text = Vec::new();
            let _ = self.peer.reader().read_to_end(&mut text);
            self.peer_received.extend_from_slice(&text);
            if read == 0 {
                break;
            }
        }
    }

    fn deliver_all(&mut self) {
        self.collect();
        while !self.to_own.is_empty() || !self.to_peer.is_empty() {
            self.deliver_to_own(usize::MAX);
            self.deliver_to_peer(usize::MAX);
            self.collect();
        }
    }

    fn peer_writes(&mut self, bytes: usize) {
        if self.peer_closed || self.peer_failed || self.peer.is_handshaking() {
            return;
        }
        let text = text_of(self.peer_wrote.len(), bytes);
        let written = self.peer.writer().write(&text).unwrap_or_default();
        self.peer_wrote.extend_from_slice(&text[..written]);
    }

    fn own_writes(&mut self, bytes: usize) {
        let text = text_of(self.own_wrote.len(), bytes);
        match self.own.send(&text) {
            Ok(()) => self.own_wrote.extend_from_slice(&text),
            Err(_) => assert!(!self.own.is_open(), "an open session takes text"),
        }
    }

    /// What holds after each step.
    fn check(&self) {
        assert!(self.peer_wrote.starts_with(&self.own_received));
        assert!(self.own_wrote.starts_with(&self.peer_received));
        assert!(self.own.incoming_bytes() <= INCOMING_BYTES_MAX);
        assert!(!self.own_failed || self.own.is_closed());
    }

    /// What holds in the end if the network did no harm.
    fn end(mut self) {
        self.deliver_all();
        self.check();
        if self.is_harmed || self.own_closed || self.peer_closed && !self.own.is_ended() {
            return;
        }
        if self.is_hopeless {
            assert!(
                self.own_failed || self.peer_failed,
                "the server lets no one in"
            );
            return;
        }
        assert!(!self.own_failed && !self.peer_failed && self.own.is_open());
        assert!(!self.peer.is_handshaking());
        assert_eq!(self.own.is_ended(), self.peer_closed);
        assert!(self.own_received == self.peer_wrote && self.peer_received == self.own_wrote);
    }
}

/// A text that goes on where the one before it ended.
fn text_of(begin: usize, bytes: usize) -> Vec<u8> {
    (begin..begin + bytes)
        .map(|at| ((at * 31) >> 3) as u8)
        .collect()
}

fn own_server(requires: bool) -> Option<Session> {
    static SERVERS: OnceLock<Option<[Server; 2]>> = OnceLock::new();
    let with = |clients| {
        Server::with(&ServerSettings {
            certificates_pem: CERTIFICATE,
            key_pem: KEY,
            clients,
            authorities_pem: AUTHORITY,
            ..ServerSettings::default()
        })
    };
    let servers =
        SERVERS.get_or_init(|| Some([with(Clients::Unasked).ok()?, with(Clients::Required).ok()?]));
    Session::server(&servers.as_ref()?[usize::from(requires)]).ok()
}

fn own_client(shows: bool) -> Option<Session> {
    static CLIENTS: OnceLock<Option<[Client; 2]>> = OnceLock::new();
    let with = |identity| {
        Client::with(&ClientSettings {
            trust: Trust {
                pem: AUTHORITY,
                ..Trust::default()
            },
            identity,
            ..ClientSettings::default()
        })
    };
    let clients =
        CLIENTS.get_or_init(|| Some([with(None).ok()?, with(Some((CERTIFICATE, KEY))).ok()?]));
    Session::client(&clients.as_ref()?[usize::from(shows)], HOST).ok()
}

fn peer_client(versions: &[&'static SupportedProtocolVersion], shows: bool) -> Option<Connection> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).ok()?;
    let builder = builder.with_root_certificates(roots()?);
    let config = match shows {
        true => builder
            .with_client_auth_cert(certificates()?, key()?)
            .ok()?,
        false => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(HOST).ok()?;
    let connection = rustls::ClientConnection::new(Arc::new(config), name).ok()?;
    Some(Connection::Client(connection))
}

fn peer_server(
    versions: &[&'static SupportedProtocolVersion],
    requires: bool,
) -> Option<Connection> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(versions).ok()?;
    let builder = match requires {
        true => {
            let roots = Arc::new(roots()?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().ok()?)
        }
        false => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(certificates()?, key()?).ok()?;
    let connection = rustls::ServerConnection::new(Arc::new(config)).ok()?;
    Some(Connection::Server(connection))
}

fn roots() -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(AUTHORITY).ok()?)
        .ok()?;
    Some(roots)
}

fn certificates() -> Option<Vec<CertificateDer<'static>>> {
    Some(vec![CertificateDer::from_pem_slice(CERTIFICATE).ok()?])
}

fn key() -> Option<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(KEY).ok()
}

/// Of an authority that has issued nothing else, and is trusted by nothing else.
const AUTHORITY: &[u8] = include_bytes!("fuzzing/authority.crt");
/// What either side shows.
const CERTIFICATE: &[u8] = include_bytes!("fuzzing/side.crt");
const KEY: &[u8] = include_bytes!("fuzzing/side.key");
const HOST: &str = "hub.example";
/// A text of one step has up to 255 times this length, which is more than a record.
const TEXT_UNIT_BYTES: usize = 131;
/// What a session keeps of incomplete input, at most.
const INCOMING_BYTES_MAX: usize = 80 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nothing would be fuzzed, and nothing would tell.
    #[test]
    fn every_pair_of_sides_can_speak() {
        for head in 0..16 {
            let mut both = Both::new(head).expect("certificates and settings are right");
            let mut none = std::iter::empty();
            for step in [2, 3, 4, 2] {
                both.take(step, 200, &mut none);
                both.check();
            }
            assert_eq!(both.own_received.is_empty(), both.is_hopeless, "{head}");
            assert_eq!(both.peer_received.is_empty(), both.is_hopeless, "{head}");
            both.end();
        }
    }
}
