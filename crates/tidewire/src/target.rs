//! The address of a server to connect to, with or without TLS.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tidewire_feed::wire::Credentials;
use tidewire_feed_client::Tls;
use tidewire_lane::{Endpoint, EndpointError, secure_place};
use tidewire_tls::{
    Client, ClientSettings, Error, Trust, check_authorities, check_certificates, check_key,
};

use crate::failure::Failure;

/// An address as users write it: `HOST:PORT`, or `tls://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    endpoint: Endpoint,
    /// The name that the server's certificate must have, for TLS.
    host: Option<String>,
}

impl FromStr for Place {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (place, host) = match secure_place(text) {
            Some((place, host)) => (place, Some(host)),
            None => (text, None),
        };
        let endpoint = place.parse()?;
        match (&endpoint, &host) {
            (Endpoint::Ipc(_), Some(_)) => Err(EndpointError::UnknownTransport),
            _ => Ok(Self { endpoint, host }),
        }
    }
}

impl Place {
    /// Returns the address.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the name that the server's certificate must have, for TLS.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.endpoint.tcp()) {
            (Some(host), Some(address)) if host.contains(':') => {
                write!(formatter, "tls://[{host}]:{}", address.port())
            }
            (Some(host), Some(address)) => write!(formatter, "tls://{host}:{}", address.port()),
            _ => self.endpoint.fmt(formatter),
        }
    }
}

/// TLS options of commands that connect to a hub.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArguments {
    /// With tls://: the authorities that are trusted, in PEM [default: those of the system].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// With tls://: the certificate to show to the server, in PEM [default: none].
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        env = "TIDEWIRE_TLS_CERT"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// With tls://: the private key of this certificate, in PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        env = "TIDEWIRE_TLS_KEY"
    )]
    pub(crate) tls_key: Option<PathBuf>,
}

/// An address, and what TLS needs.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    place: Place,
    /// Of a place with `tls://`.
    pub(crate) tls: Option<Tls>,
    /// The user that logs in there.
    pub(crate) credentials: Option<Credentials>,
}

impl Target {
    /// Returns an address without TLS.
    pub(crate) fn plain(endpoint: Endpoint, credentials: Option<Credentials>) -> Self {
        let host = None;
        Self {
            place: Place { endpoint, host },
            tls: None,
            credentials,
        }
    }

    /// Reads the files that TLS needs, if the place has it.
    pub(crate) fn new(
        place: &Place,
        arguments: &TlsArguments,
        credentials: Option<Credentials>,
    ) -> Result<Self, Failure> {
        let tls = match place.host.clone() {
            Some(host) => Some(Tls {
                client: arguments.client()?,
                host,
            }),
            None => None,
        };
        Ok(Self {
            place: place.clone(),
            tls,
            credentials,
        })
    }

    /// Returns what the address should have been, for an error.
    pub(crate) fn expected(&self) -> &'static str {
        match self.place.host {
            Some(_) => "the port of 'serve --feed-tls' is expected",
            None => "the port of 'serve --feed' is expected",
        }
    }

    /// Returns the address, unless it is a Unix socket.
    pub(crate) fn tcp(&self) -> Option<std::net::SocketAddr> {
        self.place.endpoint.tcp()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(formatter)
    }
}

impl TlsArguments {
    fn client(&self) -> Result<Client, Failure> {
        let authorities = read(&self.tls_ca, "--tls-ca", check_authorities)?;
        let certificate = read(&self.tls_cert, "--tls-cert", check_certificates)?;
        let key = read(&self.tls_key, "--tls-key", check_key)?;
        let settings = ClientSettings {
            trust: Trust {
                pem: authorities.as_deref().unwrap_or_default(),
                system: authorities.is_none(),
                ..Trust::default()
            },
            identity: certificate.as_deref().zip(key.as_deref()),
            ..ClientSettings::default()
        };
        Client::with(&settings).map_err(|error| {
            let option = match settings.identity {
                Some(_) => "--tls-ca, --tls-cert, --tls-key",
                None => "--tls-ca",
            };
            Failure::usage(format!("{option}: {error}"))
        })
    }
}

/// Reads the file of an option, if it is given.
fn read(
    path: &Option<PathBuf>,
    option: &str,
    check: fn(&[u8]) -> Result<(), Error>,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let shown = path.display();
    let text = fs::read(path)
        .map_err(|error| Failure::usage(format!("{option}: cannot read {shown}: {error}")))?;
    match check(&text) {
        Ok(()) => Ok(Some(text)),
        Err(Error::NoPassword) => Err(Failure::usage(format!(
            "{option} {shown}: the key is encrypted; decrypt it: openssl pkey -in {shown} -out NEW"
        ))),
        Err(error) => Err(Failure::usage(format!("{option}: {shown}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_with_tls_keep_their_host() {
        for text in ["127.0.0.1:1", "tls://localhost:2", "tls://[::1]:3"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for wrong in [
            "tls://",
            "tls://localhost",
            "tls://ipc:///tmp/a",
            "tls://a:b",
            "ssl://a:1",
        ] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
