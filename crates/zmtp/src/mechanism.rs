//! The security mechanisms: small machines that run between greeting and traffic.
//!
//! Each has the same four verbs: `start` after the greeting, `receive` a command, `answer` when
//! the driver has let the peer in, `confirm` when its metadata are found good. CURVE leaves a
//! cipher behind, through which all traffic goes.

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

/// The machine of one connection.
#[derive(Debug)]
pub(crate) enum Mechanism {
    Null(null::Null),
    PlainClient(plain::PlainClient),
    PlainServer(plain::PlainServer),
    CurveClient(Box<curve::CurveClient>),
    CurveServer(Box<curve::CurveServer>),
}

/// What a mechanism made of a command.
#[derive(Debug, Clone)]
pub(crate) enum Progress<'b> {
    /// It waits for the next one.
    Continue,
    /// The driver is to judge these.
    Authenticate(Credentials<'b>),
    /// The peer's metadata; once they are found good, `confirm`.
    Metadata(Cow<'b, [u8]>),
    /// The peer refuses, with this reason.
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

    /// The greetings agree. `own` is our metadata.
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

    /// A command of the handshake came.
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

    /// The driver lets the peer in.
    pub(crate) fn answer(&mut self, own: &[u8], out: &mut Vec<u8>) {
        match self {
            Mechanism::Null(null) => null.answer(own, out),
            Mechanism::PlainServer(server) => server.answer(out),
            Mechanism::PlainClient(_) | Mechanism::CurveClient(_) | Mechanism::CurveServer(_) => {}
        }
    }

    /// Metadata that came before the driver's answer, once.
    pub(crate) fn take_metadata(&mut self) -> Option<Vec<u8>> {
        match self {
            Mechanism::CurveServer(server) => server.take_metadata(),
            _ => None,
        }
    }

    /// The peer's metadata are good.
    pub(crate) fn confirm(&mut self, own: &[u8], out: &mut Vec<u8>) {
        match self {
            Mechanism::PlainServer(_) => crate::command::encode_command(out, READY, &[own]),
            Mechanism::CurveServer(server) => server.confirm(own, out),
            _ => {}
        }
    }

    /// What traffic goes through from now on.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        match self {
            Mechanism::CurveClient(client) => client.cipher(),
            Mechanism::CurveServer(server) => server.cipher(),
            _ => None,
        }
    }
}

/// The mechanism's name as the greeting has it.
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

/// The metadata we announce, in libzmq's order.
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

/// The octets of a mechanism's name in the greeting.
pub(crate) const NAME_BYTES: usize = 20;

/// An ERROR command as progress; any other is out of place.
fn refused_or_unexpected(command: Command<'_>) -> Result<Progress<'_>, Error> {
    if command.name == crate::command::ERROR {
        return command.error_reason().map(Progress::Refused);
    }
    Err(Error::UnexpectedCommand)
}

/// A command that must have no data.
fn expect_empty(command: Command<'_>, name: CommandName) -> Result<(), Error> {
    if command.data.is_empty() {
        Ok(())
    } else {
        Err(Error::MalformedCommand(name))
    }
}
