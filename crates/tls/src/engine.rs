//! The one module that knows rustls: settings ([`settings`]), the verification of servers
//! ([`verifier`]), and the steps of a connection (take ciphertext, give plaintext, encrypt).
//!
//! It uses rustls's interface without buffers: records are decrypted where they were received, and
//! a connection that waits keeps no buffer.

mod authorities;
mod pem;
mod refusals;
mod session_state;
mod settings;
mod suites;
mod tickets;
mod verifier;

pub(crate) use pem::certificates;
pub use pem::{check_authorities, check_certificates, check_key};
pub use settings::{Client, ClientSettings, Clients, Offer, Server, ServerSettings, Trust};

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{AlertDescription, CommonState, HandshakeKind, InvalidMessage, PeerIncompatible};

use crate::certificate::Certificate;
use crate::error::{Error, Refusal};
use refusals::refusal;

/// One side of a connection.
pub(crate) enum Engine {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There may be more in the same input.
    More,
    /// The input holds no further whole record.
    Waits,
    /// The peer has said that no more comes.
    Ended,
}

impl Engine {
    pub(crate) fn server(server: &Server) -> Result<Engine, Error> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&server.0));
        Ok(Engine::Server(connection.map_err(broken)?))
    }

    pub(crate) fn client(client: &Client, host: &str) -> Result<Engine, Error> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::InvalidName(host.to_owned()))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(&client.0), name);
        Ok(Engine::Client(connection.map_err(broken)?))
    }

    fn common(&self) -> &CommonState {
        match self {
            Engine::Server(connection) => connection,
            Engine::Client(connection) => connection,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Returns whether a step would give something to send, before it looks at its input.
    pub(crate) fn wants_write(&self) -> bool {
        self.common().wants_write()
    }

    /// Returns whether the handshake went on with an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the peer's own certificate in DER, if it has shown one.
    pub(crate) fn peer_certificate(&self) -> Option<&[u8]> {
        let chain = self.common().peer_certificates()?;
        chain.first().map(AsRef::as_ref)
    }

    /// Looks again at the peer's certificates after a session was resumed: the peer has shown them
    /// with an earlier one. Their times may be over now.
    pub(crate) fn check_resumed(&self, now_s: i64) -> Result<(), Error> {
        if !self.is_resumed() {
            return Ok(());
        }
        for der in self.common().peer_certificates().unwrap_or_default() {
            // Of those that were accepted, one that this does not read has no time.
            let Some(read) = Certificate::read(der) else {
                continue;
            };
            if now_s > read.ends_s {
                let since_s = Some(read.ends_s);
                return Err(Error::Certificate(Refusal::Expired { since_s }));
            }
        }
        Ok(())
    }

    /// Returns the version of the protocol and the name of the cipher suite.
    pub(crate) fn agreed(&self) -> Option<(&'static str, &'static str)> {
        let common = self.common();
        let version = common.protocol_version()?.as_str()?;
        Some((version, common.negotiated_cipher_suite()?.suite().as_str()?))
    }

    /// Takes the next step with the ciphertext that was received and not used so far. Returns how
    /// many bytes of its front are used up; the rest must come again, with what follows it.
    ///
    /// Gives plaintext to `take`, and appends to `outgoing` what the peer must get, also where it
    /// fails: then another step gives the alert.
    pub(crate) fn step(
        &mut self,
        input: &mut [u8],
        outgoing: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Progress, Error>) {
        match self {
            Engine::Server(connection) => {
                settle(connection.process_tls_records(input), outgoing, take)
            }
            Engine::Client(connection) => {
                settle(connection.process_tls_records(input), outgoing, take)
            }
        }
    }

    /// Encrypts a text into `room`, which has [`room_for`] its length. Returns the number of bytes
    /// written. `input` is the ciphertext that no step has used so far.
    pub(crate) fn encrypt(
        &mut self,
        plaintext: &[u8],
        room: &mut [u8],
        input: &mut [u8],
    ) -> Result<usize, Error> {
        self.say(Said::Text(plaintext), room, input)
    }

    /// Encrypts that no more comes.
    pub(crate) fn close(&mut self, room: &mut [u8], input: &mut [u8]) -> Result<usize, Error> {
        self.say(Said::End, room, input)
    }

    fn say(&mut self, said: Said<'_>, room: &mut [u8], input: &mut [u8]) -> Result<usize, Error> {
        debug_assert!(!self.is_handshaking(), "there are no keys yet");
        debug_assert!(!self.wants_write(), "the steps before have been taken");
        loop {
            let encrypted = match self {
                Engine::Server(connection) => {
                    encrypt(connection.process_tls_records(input), said, room)
                }
                Engine::Client(connection) => {
                    encrypt(connection.process_tls_records(input), said, room)
                }
            };
            if let Some(encrypted) = encrypted {
                return encrypted;
            }
        }
    }
}

/// What is to be encrypted.
#[derive(Clone, Copy)]
enum Said<'a> {
    Text(&'a [u8]),
    /// No more comes.
    End,
}

fn settle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    take: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Progress, Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let state = match state {
        Ok(state) => state,
        Err(error) => return (discard, Err(broken(error))),
    };
    let progress = match state {
        ConnectionState::ReadTraffic(mut records) => {
            while let Some(record) = records.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        take(record.payload);
                    }
                    Err(error) => return (discard, Err(broken(error))),
                }
            }
            Progress::More
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let mut write = |room: &mut [u8]| match data.encode(room) {
                Ok(count) => Ok(count),
                Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
                Err(EncodeError::AlreadyEncoded) => Ok(0),
            };
            if let Err(bytes) = write(&mut []) {
                let begin = outgoing.len();
                outgoing.resize(begin + bytes, 0);
                let written = write(&mut outgoing[begin..]);
                debug_assert_eq!(written, Ok(bytes), "the room is as wanted");
            }
            Progress::More
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Progress::More
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Progress::Ended,
        // There is no early data: the settings do not offer it.
        _ => Progress::Waits,
    };
    (discard, Ok(progress))
}

/// Encrypts a text; `None` if what was to be sent before counts as sent only now.
fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    said: Said<'_>,
    room: &mut [u8],
) -> Option<Result<usize, Error>> {
    debug_assert_eq!(status.discard, 0, "every step before was taken");
    let mut traffic = match status.state {
        Ok(ConnectionState::WriteTraffic(traffic)) => traffic,
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            return None;
        }
        Ok(_) => return Some(Err(Error::Closed)),
        Err(error) => return Some(Err(broken(error))),
    };
    let encrypted = match said {
        Said::Text(text) => traffic.encrypt(text, room),
        Said::End => traffic.queue_close_notify(room),
    };
    Some(encrypted.map_err(|error| {
        let is_room = !matches!(error, EncryptError::InsufficientSize(_));
        debug_assert!(is_room, "{error}");
        Error::Closed
    }))
}

/// Returns the room that [`Engine::encrypt`] needs at most for a text: each record has a head and a
/// tag, and an update of the keys may go before them.
pub fn room_for(plaintext_bytes: usize) -> usize {
    let records = plaintext_bytes.div_ceil(RECORD_BYTES_MAX);
    plaintext_bytes + records * RECORD_OVERHEAD_BYTES + KEY_UPDATE_BYTES
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Engine");
        shown.field("is_handshaking", &self.is_handshaking());
        shown.finish_non_exhaustive()
    }
}

/// What is wrong with settings.
fn wrong_settings(error: rustls::Error) -> Error {
    match error {
        rustls::Error::InconsistentKeys(_) => Error::KeyMismatch,
        error => Error::Malformed(error.to_string()),
    }
}

/// Why a connection ended.
fn broken(error: rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidCertificate(reason) => Error::Certificate(refusal(reason)),
        rustls::Error::NoCertificatesPresented => Error::NoPeerCertificate,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Error::ClearText,
        rustls::Error::AlertReceived(alert) => Error::Alert(alert_text(alert)),
        rustls::Error::FailedToGetRandomBytes => Error::NoRandomness,
        rustls::Error::PeerIncompatible(reason) => Error::Incompatible(match reason {
            PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled => {
                "it seems to speak TLS 1.1 or older, and TLS 1.2 and 1.3 are spoken here".to_owned()
            }
            reason => format!("{reason:?}"),
        }),
        error => Error::Protocol(error.to_string()),
    }
}

/// What a peer says that refuses the connection, with the reason in words where the name of the
/// alert is not enough.
fn alert_text(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::CertificateRequired => "it wants our certificate, and got none",
        AlertDescription::UnknownCA => "it does not trust the issuer of our certificate",
        AlertDescription::CertificateExpired => "our certificate has expired, or is not valid yet",
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept our certificate"
        }
        AlertDescription::ProtocolVersion => "no version of TLS in common, or no TLS at all",
        AlertDescription::HandshakeFailure => "no cipher in common, or no certificate of ours",
        _ => return format!("{alert:?}"),
    };
    format!("{alert:?} ({words})")
}

/// Longest text of one record.
pub(crate) const RECORD_BYTES_MAX: usize = 16 * 1024;
/// What encryption adds to a record, at most: five bytes of head, eight of the nonce (1.2) or one
/// of the type (1.3), and sixteen of the tag.
const RECORD_OVERHEAD_BYTES: usize = 32;
/// A message that updates keys, encrypted, and more than that.
const KEY_UPDATE_BYTES: usize = 128;
