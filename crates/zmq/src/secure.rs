//! TLS under WebSocket (`wss://`): what the connections of an endpoint share.

use tidewire_tls::{Client, Error as TlsError, Server, Session, Trust};

use crate::error::Error;
use crate::option_table::until_zero;
use crate::options::Options;

/// What the connections of one endpoint share.
#[derive(Debug)]
pub(crate) enum Secure {
    Server(Server),
    /// With the name that the server's certificate must be valid for.
    Client(Client, String),
}

impl Secure {
    /// For an endpoint that is bound.
    pub(crate) fn server(options: &Options) -> Result<Secure, Error> {
        let server = Server::new(&options.wss_certificate_pem, &options.wss_key_pem);
        server.map(Secure::Server).map_err(|error| useless(&error))
    }

    /// For an endpoint that is connected, at this host.
    ///
    /// A server's certificate must be valid for the name in the options. Without one it must be
    /// valid for the host, unless the certificate is trusted by itself.
    pub(crate) fn client(options: &Options, host: &str) -> Result<Secure, Error> {
        let name = until_zero(&options.wss_hostname);
        let trust = Trust {
            pem: &options.wss_trust_pem,
            system: options.wss_trust_system,
            pinned_names_any: name.is_empty(),
            names_any: false,
        };
        let name = match name.is_empty() {
            // A zone is of this machine; no certificate has it.
            true => host.split('%').next().unwrap_or(host),
            false => std::str::from_utf8(name).map_err(|_| Error::InvalidArgument)?,
        };
        let client = Client::new(&trust).map_err(|error| useless(&error))?;
        // A name that no certificate can have is refused at once.
        Session::client(&client, name).map_err(|error| useless(&error))?;
        Ok(Secure::Client(client, name.to_owned()))
    }

    /// One side of a new connection; `None`: the system has no random numbers.
    pub(crate) fn session(&self) -> Option<Session> {
        let session = match self {
            Secure::Server(server) => Session::server(server),
            Secure::Client(client, name) => Session::client(client, name),
        };
        session.ok()
    }
}

/// Options with which no connection can be made.
fn useless(error: &TlsError) -> Error {
    tracing::warn!(%error, "options of wss:// are refused");
    Error::InvalidArgument
}

/// The number that a monitor is told when TLS with a peer fails.
pub(crate) fn errno(error: &TlsError) -> u64 {
    match error {
        TlsError::Certificate(_) => EKEYREJECTED,
        _ => EPROTO,
    }
}

const EPROTO: u64 = 71;
const EKEYREJECTED: u64 = 129;
