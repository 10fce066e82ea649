//! The security mechanisms: small state machines between greeting and traffic.
//!
//! Each has the same four methods: `start` after the greeting, `receive` for a command, `answer`
//! when the driver has accepted the peer, and `confirm` when its metadata is valid. CURVE leaves
//! a cipher for all later traffic.

mod curve;
mod null;
mod plain;

use std::borrow::Cow;

use crate::command::{Command, READY};
use crate::config::{Config, Security};
use crate::connection::Credentials;
use crate::curve::{Cipher, Randomness};
use crate::error::{CommandName, Error};
use crate::metadata::encode_property;

/// The mechanism of one connection.
#[derive(Debug)]
pub(crate) enum Mechanism {
    Null(null::Null),
    PlainClient(plain::PlainClient),
    PlainServer(plain::PlainServer),
    CurveClient(Box<curve::CurveClient>),
    CurveServer(Box<curve::CurveServer>),
}

/// The result of a command.
#[derive(Debug, Clone)]
pub(crate) enum Progress<'b> {
    /// The mechanism waits for the next command.
    Continue,
    /// The driver must check these credentials.
    Authenticate(Credentials<'b>),
    /// The peer's metadata; call `confirm` if it is valid.
    Metadata(Cow<'b, [u8]>),
    /// The peer refuses us for this reason.
    Refused(&'b [u8]),
}

impl Mechanism {
    pub(crate) fn new(config: &Config, randomness: Randomness) -> Mechanism {
        match &config.security {
            Security::Null => Mechanism::Null(null::Null::new(config.authenticate_null)),
            Security::PlainClient { username, password } => {
                Mechanism::PlainClient(plain::PlainClient::new(username, password))
            }
            Security::PlainServer => Mechanism::PlainServer(plain::PlainServer::new()),
            Security::CurveClient { keys, server_key } => {
                let keys = keys.clone();
                let client = curve::CurveClient::new(keys, *server_key, randomness);
                Mechanism::CurveClient(Box::new(client))
            }
            Security::CurveServer { secret_key } => {
                let server = curve::CurveServer::new(secret_key.clone(), randomness);
                Mechanism::CurveServer(Box::new(server))
            }
        }
    }

    /// Starts after the greetings. `own` is our metadata.
    pub(crate) fn start(
        &mut self,
        own: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress<'static>, Error> {
        match self {
            Mechanism::Null(null) => Ok(null.start(own, out)),
            Mechanism::PlainClient(client) => Ok(client.start(out)),
            Mechanism::CurveClient(client) => client.start(out).map(|()| Progress::Continue),
            Mechanism::PlainServer(_) | Mechanism::CurveServer(_) => Ok(Progress::Continue),
        }
    }

    /// Handles a command of the handshake.
    pub(crate) fn receive<'b>(
        &mut self,
        body: &'b [u8],
        own: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Error> {
        match self {
            Mechanism::Null(null) => null.receive(Command::parse(body)?),
            Mechanism::PlainClient(client) => client.receive(body, own, out),
            Mechanism::PlainServer(server) => server.receive(Command::parse(body)?),
            Mechanism::CurveClient(client) => client.receive(Command::parse(body)?, own, out),
            Mechanism::CurveServer(server) => server.receive(Command::parse(body)?, out),
        }
    }

    /// Notes that the driver accepts the peer.
    pub(crate) fn answer(&mut self, own: &[u8], out: &mut Vec<u8>) {
        match self {
            Mechanism::Null(null) => null.answer(own, out),
            Mechanism::PlainServer(server) => server.answer(out),
            Mechanism::PlainClient(_) | Mechanism::CurveClient(_) | Mechanism::CurveServer(_) => {}
        }
    }

    /// Returns metadata that arrived before the driver's answer, once.
    pub(crate) fn take_metadata(&mut self) -> Option<Vec<u8>> {
        match self {
            Mechanism::CurveServer(server) => server.take_metadata(),
            _ => None,
        }
    }

    /// Notes that the peer's metadata is valid.
    pub(crate) fn confirm(&mut self, own: &[u8], out: &mut Vec<u8>) {
        match self {
            Mechanism::PlainServer(_) => crate::command::encode_command(out, READY, &[own]),
            Mechanism::CurveServer(server) => server.confirm(own, out),
            _ => {}
        }
    }

    /// Returns the cipher of the later traffic.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        match self {
            Mechanism::CurveClient(client) => client.cipher(),
            Mechanism::CurveServer(server) => server.cipher(),
            _ => None,
        }
    }
}

/// Returns the mechanism's name in the greeting.
pub(crate) fn padded_name(security: &Security) -> [u8; NAME_BYTES] {
    let name: &[u8] = match security {
        Security::Null => b"NULL",
        Security::PlainClient { .. } | Security::PlainServer => b"PLAIN",
        Security::CurveClient { .. } | Security::CurveServer { .. } => b"CURVE",
    };
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name);
    padded
}

/// Returns the metadata we announce, in libzmq's order.
pub(crate) fn own_metadata(config: &Config) -> Vec<u8> {
    let mut own = Vec::new();
    encode_property(
        &mut own,
        "Socket-Type",
        config.socket_type.name().as_bytes(),
    );
    if config.socket_type.announces_routing_id() {
        encode_property(&mut own, "Identity", &config.routing_id);
    }
    for (name, value) in &config.properties {
        encode_property(&mut own, name, value);
    }
    own
}

/// Octets of a mechanism's name in the greeting.
pub(crate) const NAME_BYTES: usize = 20;

/// Converts an ERROR command to progress; any other command is not allowed.
fn refused_or_unexpected(command: Command<'_>) -> Result<Progress<'_>, Error> {
    if command.name == crate::command::ERROR {
        return command.error_reason().map(Progress::Refused);
    }
    Err(Error::UnexpectedCommand)
}

/// Checks that a command has no data.
fn expect_empty(command: Command<'_>, name: CommandName) -> Result<(), Error> {
    if command.data.is_empty() {
        Ok(())
    } else {
        Err(Error::MalformedCommand(name))
    }
}
