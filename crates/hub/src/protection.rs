//! Protected mode: a port without credentials serves only this machine.
//!
//! Other connections than loopback and Unix sockets are refused in the port's own protocol, counted
//! and logged, unless `protected-mode` is off or the port requires a login.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_feed::wire::{Control, PacketWriter, RefusalReason, RefusalText, Refused};
use tidewire_lane::{CloseReason, ConnectionId, Context, Endpoint, Listener, Peer};
use tidewire_redis::is_loopback;
use tidewire_retry::Seldom;

use crate::hub::Hub;
use crate::port;
use crate::refusals;
use crate::zmq_security::ZmqSecurity;

/// Number of refused connections, by the port's tag.
#[derive(Debug)]
pub(crate) struct Protection {
    logged: [Seldom; PORTS],
    refused: [AtomicU64; PORTS],
}

impl Default for Protection {
    fn default() -> Self {
        Self {
            logged: [const { Seldom::new(1, LOG_INTERVAL_S) }; PORTS],
            refused: Default::default(),
        }
    }
}

impl Hub {
    /// Returns whether protected mode refuses a peer at a port. A refusal is counted and logged.
    pub fn refuses_stranger(
        &self,
        port: u16,
        peer: Option<SocketAddr>,
        has_certificate: bool,
    ) -> bool {
        let Some(address) = peer.filter(|address| !is_loopback(address.ip())) else {
            return false;
        };
        if !self.is_protected(port) || has_certificate && are_credentials(port) {
            return false;
        }
        self.server.rejected_clients.fetch_add(1, Ordering::Relaxed);
        debug_assert!(usize::from(port) < PORTS, "each port has its counter");
        let at = usize::from(port) % PORTS;
        let own = &self.protection;
        let refused = own.refused[at].fetch_add(1, Ordering::Relaxed) + 1;
        if own.logged[at].note_now().is_some() {
            tracing::warn!(
                peer = %address,
                port = name_of(port),
                refused,
                "protected mode refuses a connection from another machine: {}, or turn it off with \
                 --protected-mode no",
                remedy_of(port)
            );
        }
        true
    }

    /// Returns whether protected mode applies to a port.
    fn is_protected(&self, port: u16) -> bool {
        self.server.is_protected() && !self.has_credentials(port)
    }

    /// Returns whether peers of a port must authenticate.
    fn has_credentials(&self, port: u16) -> bool {
        match port {
            port::RESP | port::FEED | port::WEB => !self.server.access.default_needs_no_password(),
            port::ZMQ_PUBLISH | port::ZMQ_PULL | port::ZMQ_ROUTER => {
                match &self.config.zmq_security {
                    ZmqSecurity::Null => self.server.access.requires_password(),
                    ZmqSecurity::Plain | ZmqSecurity::Curve(_) => true,
                }
            }
            port::DATABENTO => self.config.market.databento_key.is_some(),
            // The metrics have none but certificates of TLS clients.
            _ => false,
        }
    }

    /// Warns, at the start, of listeners that other machines can reach without credentials.
    pub fn warn_of_open_ports(&self, listeners: &[Listener]) {
        for listener in listeners {
            self.warn_of_open_port(listener.tag(), listener.endpoint(), listener.has_tls());
        }
    }

    /// Warns of one such listener.
    pub fn warn_of_open_port(&self, port: u16, endpoint: &Endpoint, has_tls: bool) {
        let is_elsewhere = endpoint.tcp().is_some_and(|tcp| !is_loopback(tcp.ip()));
        let asks_certificate = has_tls && self.server.requires_certificates();
        if !is_elsewhere || self.has_credentials(port) || asks_certificate && are_credentials(port)
        {
            return;
        }
        let (name, remedy) = (name_of(port), remedy_of(port));
        match self.server.is_protected() {
            true => tracing::warn!(
                port = name,
                %endpoint,
                "it listens beyond this machine without credentials: protected mode refuses other \
                 machines; {remedy}, or turn it off with --protected-mode no"
            ),
            false => tracing::warn!(
                port = name,
                %endpoint,
                "it is open to other machines without credentials, and protected mode is off: \
                 {remedy}"
            ),
        }
    }

    /// Sends a refusal in the port's own protocol and ends the connection. Returns false for ZeroMQ
    /// peers, which are refused in the handshake.
    pub(crate) fn turn_away(
        &self,
        context: &mut Context,
        id: ConnectionId,
        port: u16,
        peer: &Peer,
    ) -> bool {
        let Peer::Tcp(address) = peer else {
            return false;
        };
        let is_zmq = matches!(port, port::ZMQ_PUBLISH | port::ZMQ_PULL | port::ZMQ_ROUTER);
        let has_certificate = context.peer_names(id).is_some();
        if is_zmq || !self.refuses_stranger(port, Some(*address), has_certificate) {
            return false;
        }
        if let Some(out) = context.out(id) {
            match port {
                port::RESP => out.buffer().extend_from_slice(DENIED),
                port::DATABENTO => {
                    let text = format!("success=0|error={}\n", denial(port));
                    out.buffer().extend_from_slice(text.as_bytes());
                }
                port::WEB => out
                    .buffer()
                    .extend_from_slice(&refusals::http("403 Forbidden", &denial(port))),
                port::FEED => {
                    let refused = Refused {
                        reason: RefusalReason::DENIED,
                        text: RefusalText::truncated(FEED_DENIED),
                    };
                    let session = self.market.journal.lock().session();
                    PacketWriter::control(out.buffer(), session, &Control::Refused(refused));
                }
                _ => {}
            }
        }
        context.close_after_flush(id, CloseReason::Requested);
        true
    }
}

/// Returns whether a client's certificate lets it in from another machine. Redis's protected mode
/// goes by the password of the default user alone.
fn are_credentials(port: u16) -> bool {
    port != port::RESP
}

fn name_of(port: u16) -> &'static str {
    match port {
        port::RESP => "resp",
        port::ZMQ_PUBLISH => "zmq-pub",
        port::ZMQ_PULL => "zmq-pull",
        port::ZMQ_ROUTER => "zmq-router",
        port::FEED => "feed",
        port::DATABENTO => "databento",
        port::WEB => "web",
        _ => "admin",
    }
}

/// Returns what to do so that a port serves other machines.
fn remedy_of(port: u16) -> &'static str {
    match port {
        port::RESP | port::FEED | port::WEB => "set a password for the default user (requirepass)",
        port::ZMQ_PUBLISH | port::ZMQ_PULL | port::ZMQ_ROUTER => {
            "set --zmq-mechanism plain or curve, or a password for the default user (requirepass)"
        }
        port::DATABENTO => "set --databento-key",
        _ => {
            "it has no credentials but the certificates of clients of its TLS port: listen on \
              127.0.0.1, or use TLS with --tls-ca"
        }
    }
}

/// Returns the refusal for people: what to do about it.
pub fn denial(port: u16) -> String {
    let remedy = remedy_of(port);
    format!(
        "protected mode refuses other machines: {remedy}, or turn it off with --protected-mode no"
    )
}

const DENIED: &[u8] = b"-DENIED Tidewire is running in protected mode because protected mode is \
    enabled and no password is set for the default user. In this mode connections are only accepted \
    from the loopback interface. If you want to connect from external computers, set a password \
    for the default user (ACL SETUSER, requirepass), or turn protected mode off: CONFIG SET \
    protected-mode no from the loopback interface, or --protected-mode no at the start.\r\n";
/// A refusal has room for 72 bytes.
const FEED_DENIED: &str = "NotAllowed: protected mode; set requirepass, or --protected-mode no";

/// Interval between two log lines about refusals at a port, in seconds.
const LOG_INTERVAL_S: u64 = 10;
/// All port tags are below this.
const PORTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do() {
        for port in [
            port::RESP,
            port::ZMQ_PULL,
            port::FEED,
            port::DATABENTO,
            port::WEB,
            port::ADMIN,
        ] {
            let text = denial(port);
            assert!(text.contains("--protected-mode no"), "{text}");
            assert!(
                text.contains("set ") || text.contains("listen on"),
                "{text}"
            );
        }
        let feed = RefusalText::new(FEED_DENIED).expect("it has room");
        assert!(feed.as_str().ends_with("--protected-mode no"));
    }

    #[test]
    fn loopback_is_told_in_every_form() {
        for (text, is) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.0.0.1", false),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(is_loopback(text.parse().expect("an address")), is, "{text}");
        }
    }
}
