//! What a ticket holds, as far as it says until when a session may be resumed.
//!
//! rustls gives the text of a ticket as bytes, whose format is its own: server name, version,
//! suite, secret, one flag, and then the client's certificates. A test fails if that changes. A
//! text that is not read here is left to `Engine::check_resumed`, which looks after the handshake.

use crate::certificate::Certificate;

/// Returns the last second, since the UNIX epoch, in which all certificates of the client are
/// valid. `None` if it has shown none, or if the text is of another format.
pub(super) fn last_valid_s(state: &[u8]) -> Option<i64> {
    let mut rest = Rest(state);
    if rest.number(1)? == 1 {
        rest.counted(1)?;
    }
    let (_version, _suite) = (rest.number(2)?, rest.number(2)?);
    let _secret = rest.counted(1)?;
    let _extended_secret = rest.number(1)?;
    if rest.number(1)? != 1 {
        return None;
    }
    let mut certificates = Rest(rest.counted(3)?);
    let mut last_s = None::<i64>;
    while !certificates.0.is_empty() {
        // One that was accepted and is not read here has no time.
        if let Some(read) = Certificate::read(certificates.counted(3)?) {
            last_s = Some(last_s.map_or(read.ends_s, |last_s| last_s.min(read.ends_s)));
        }
    }
    last_s
}

/// Bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, behind) = self.0.split_at_checked(count)?;
        self.0 = behind;
        Some(taken)
    }

    /// A number of so many octets, the highest first.
    fn number(&mut self, octets: usize) -> Option<usize> {
        debug_assert!(octets <= 3, "it fits");
        let octets = self.take(octets)?.iter();
        Some(octets.fold(0, |number, octet| number << 8 | usize::from(*octet)))
    }

    /// Bytes behind their count.
    fn counted(&mut self, octets: usize) -> Option<&'a [u8]> {
        let count = self.number(octets)?;
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use rustls::ClientConnection;
    use rustls::pki_types::UnixTime;
    use rustls::server::ProducesTickets;
    use rustls::time_provider::TimeProvider;
    use rustls::version::{TLS12, TLS13};

    use super::*;
    use crate::engine::{Clients, Server, ServerSettings};
    use crate::error::{Error, Refusal};
    use crate::session::Session;
    use crate::support::{Made, Named, client_with, shake_hands};

    /// Notes what rustls writes into tickets.
    #[derive(Debug, Default)]
    struct Noting(Mutex<Vec<Vec<u8>>>);

    impl ProducesTickets for Noting {
        fn enabled(&self) -> bool {
            true
        }

        fn lifetime(&self) -> u32 {
            300
        }

        fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
            self.0.lock().unwrap().push(plain.to_vec());
            Some(plain.to_vec())
        }

        fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
            Some(cipher.to_vec())
        }
    }

    fn server(made: &Made, clients: Clients) -> Server {
        let settings = ServerSettings {
            certificates_pem: made.pem.as_bytes(),
            key_pem: made.key_pem.as_bytes(),
            clients,
            authorities_pem: made.root_pem.as_bytes(),
            sessions_for: Some(Duration::from_secs(300)),
            ..ServerSettings::default()
        };
        Server::with(&settings).unwrap()
    }

    fn until(year: i32) -> Named {
        Named {
            years: [2020, year],
            ..Named::new("hub.example")
        }
    }

    /// Fails if the format of rustls changes: then tickets are accepted whose certificate has
    /// ended, and their connections break off.
    #[test]
    fn the_end_of_the_clients_certificates_is_found_in_a_ticket() {
        let made = Made::issued(&until(2100));
        for (version, clients) in [
            (&TLS12, Clients::Required),
            (&TLS13, Clients::Required),
            (&TLS13, Clients::Unasked),
        ] {
            let noting = Arc::new(Noting::default());
            let mut server = server(&made, clients);
            Arc::make_mut(&mut server.0).ticketer = noting.clone();
            let mut session = Session::server(&server).unwrap();
            shake_hands(&Arc::new(client_with(&made, version)), &mut session);
            let expected = (clients == Clients::Required).then_some(4_102_444_800);
            let noted = noting.0.lock().unwrap();
            assert!(!noted.is_empty());
            for state in &*noted {
                assert_eq!(last_valid_s(state), expected, "{version:?}");
                // What is cut off in a certificate has no end.
                for length in 0..state.len() {
                    let found = last_valid_s(&state[..length]);
                    assert!(found.is_none() || found == expected, "{length}");
                }
            }
        }
    }

    /// The first second of 2024.
    #[derive(Debug)]
    struct Past;

    impl TimeProvider for Past {
        fn current_time(&self) -> Option<UnixTime> {
            let since = Duration::from_secs(1_704_067_200);
            Some(UnixTime::since_unix_epoch(since))
        }
    }

    /// A client that had renewed its certificate offered the session of the earlier one, which had
    /// ended. The handshake was resumed, and then the hub ended the connection, each time.
    #[test]
    fn a_session_whose_certificate_has_ended_is_not_resumed() {
        for version in [&TLS12, &TLS13] {
            let made = Made::issued(&until(2025));
            let mut server = server(&made, Clients::Required);
            // It accepts the certificate, as if it had been shown before it ended.
            Arc::make_mut(&mut server.0).time_provider = Arc::new(Past);
            let mut client = client_with(&made, version);
            client.time_provider = Arc::new(Past);
            let client = Arc::new(client);
            for _ in 0..2 {
                let mut session = Session::server(&server).unwrap();
                shake_hands(&client, &mut session);
                assert!(!session.is_resumed(), "{version:?}");
            }
        }
    }

    /// A certificate may end while the handshake goes on. The peer then heard nothing at all.
    #[test]
    fn a_peer_whose_certificate_ended_in_a_resumed_handshake_hears_that_no_more_comes() {
        for version in [&TLS12, &TLS13] {
            let made = Made::issued(&until(2025));
            let mut server = server(&made, Clients::Required);
            let config = Arc::make_mut(&mut server.0);
            config.time_provider = Arc::new(Past);
            config.ticketer = Arc::new(Noting::default());
            let mut client = client_with(&made, version);
            client.time_provider = Arc::new(Past);
            let client = Arc::new(client);
            shake_hands(&client, &mut Session::server(&server).unwrap());
            let name = "hub.example".try_into().unwrap();
            let mut client = ClientConnection::new(client, name).unwrap();
            // It comes together with the last message of the handshake.
            client.writer().write_all(b"PING").unwrap();
            let mut session = Session::server(&server).unwrap();
            let mut given = Vec::new();
            let error = loop {
                let mut sent = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut sent).unwrap();
                }
                let heard = session.receive(&sent, &mut given);
                let said = std::mem::take(session.outgoing());
                let mut said = &said[..];
                while !said.is_empty() {
                    client.read_tls(&mut said).unwrap();
                    client.process_new_packets().unwrap();
                }
                if let Err(error) = heard {
                    break error;
                }
            };
            assert!(matches!(error, Error::Certificate(Refusal::Expired { .. })));
            assert!(client.process_new_packets().unwrap().peer_has_closed());
            assert!(given.is_empty(), "it is not known");
        }
    }
}
