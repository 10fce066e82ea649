//! Why connections with TLS are not made, for the log.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use tidewire_retry::Seldom;
use tidewire_tls::Error;
use tracing::warn;

use crate::connection::Peer;

/// Why a connection with TLS was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// A certificate is refused, or a side broke the protocol.
    Broken(Error),
    /// A client without TLS.
    ClearText,
    /// A client with TLS at a port without it.
    PortWithout,
    /// The client has said nothing: some wait for a greeting in clear text.
    Silent,
    /// The handshake took too long.
    TooSlow,
    /// Too many handshakes are unfinished.
    TooMany,
    /// The client left in the middle.
    Left,
    /// The server has no certificate.
    NoCertificate,
}

impl TlsFailure {
    /// Logs it, for the port of a lane or another. Of many in a short time some are left out.
    #[cold]
    pub fn note(&self, peer: &Peer, socket: &impl AsFd) {
        static FAILURES: Seldom = Seldom::new(10, 10);
        if let Some(left_out) = FAILURES.note_now() {
            let local = rustix::net::getsockname(socket).ok();
            let local = local.and_then(|local| SocketAddr::try_from(local).ok());
            let local = local.map_or(Peer::Local, Peer::Tcp);
            warn!(%peer, %local, reason = %self, left_out, "TLS handshake failed");
        }
    }
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::ClearText => Self::ClearText,
            error => Self::Broken(error),
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Broken(error) => return error.fmt(formatter),
            Self::ClearText => "the peer speaks without TLS to a port with TLS",
            Self::PortWithout => "the peer speaks TLS to a port without TLS",
            Self::Silent => {
                "the peer has sent nothing; a client without TLS may wait for a greeting"
            }
            Self::TooSlow => "the handshake took too long",
            Self::TooMany => "too many handshakes are unfinished",
            Self::Left => "the peer left",
            Self::NoCertificate => "there is no certificate for this port",
        };
        formatter.write_str(text)
    }
}
