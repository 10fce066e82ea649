//! ZMTP over WebSocket (RFC 45, ZWS 2.0): a filter between a transport and a
//! [`Connection`](crate::Connection).
//!
//! A connection over WebSocket consists of a [`WebSocket`] and a `Connection` with
//! [`Config::websocket`](crate::Config::websocket) set. [`WebSocket::receive`] takes bytes of the
//! transport and returns the bytes of ZMTP for [`Connection::receive`]. [`WebSocket::send`] takes
//! the connection's output, and the bytes to send collect in [`WebSocket::outgoing`]. The filter
//! stores no message: bodies of any length pass through it.
//!
//! A browser cannot ask for a mechanism: a script may not write the slash in the protocol's name.
//! It asks a server for `ZWS2.0` alone. At a server with NULL a routing id then replaces the
//! handshake; at one with PLAIN the handshake is PLAIN's.
//!
//! ZWS has no greeting (the HTTP upgrade agrees on the mechanism), puts each frame into one
//! binary message after an octet of flags, and uses WebSocket's own PING and PONG. The filter
//! generates the greeting and translates the rest.
//!
//! [`Connection::receive`]: crate::Connection::receive

mod inbound;
mod outbound;

pub use outbound::{encode_frame, encode_header};

use std::sync::Arc;

use tidewire_web::http::{BAD_REQUEST, FORBIDDEN, HEAD_BYTES_MAX, gather_head, is_whole};
use tidewire_web::websocket::{
    Opcode, Origins, accept_of, base64, is_response, may_become_request, may_become_response,
    request, response_to,
};

use crate::config::{Config, Security};
use crate::curve::{Randomness, system_randomness};
use crate::error::Error;
use crate::mechanism;

/// One side of a WebSocket connection that carries ZMTP.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    phase: UpgradePhase,
    inbound: inbound::Inbound,
    outbound: outbound::Outbound,
    outgoing: Vec<u8>,
    /// ZWS's name of the mechanism, which the upgrade agrees on.
    protocol: &'static str,
    /// The web pages that a server accepts; `None` for all.
    origins: Option<Arc<Origins>>,
    greeting: [u8; GREETING_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// Where received input is left for the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Never,
    /// After a frame that is not a control frame.
    AfterFrame,
}

#[derive(Debug)]
enum UpgradePhase {
    /// The peer's request or answer is being read; for a client, with the answer it must accept.
    Upgrade {
        head: Vec<u8>,
        accept: String,
    },
    Open,
    Closed,
}

impl WebSocket {
    /// Connects. The request is at once in [`outgoing`](Self::outgoing). `host` is the server's
    /// name, with its port if that is not 80; `path` begins with `/`. `config` is that of the
    /// connection.
    ///
    /// # Errors
    /// [`Error::UpgradeFailed`]: host or path have characters that are not allowed in a request;
    /// [`Error::NoRandomness`].
    pub fn client(host: &str, path: &str, config: &Config) -> Result<WebSocket, Error> {
        WebSocket::client_with(host, path, config, system_randomness)
    }

    /// Connects with random numbers that a simulation can repeat.
    ///
    /// # Errors
    /// Those of [`client`](Self::client).
    pub fn client_with(
        host: &str,
        path: &str,
        config: &Config,
        randomness: fn(&mut [u8]) -> Result<(), Error>,
    ) -> Result<WebSocket, Error> {
        let mut websocket = WebSocket::new(Role::Client, config, randomness);
        let mut nonce = [0; 16];
        randomness(&mut nonce)?;
        let key = base64(&nonce);
        let protocol = websocket.protocol;
        let request = request(host, path, protocol, &key).ok_or(Error::UpgradeFailed)?;
        websocket.outgoing.extend_from_slice(request.as_bytes());
        websocket.phase = UpgradePhase::Upgrade {
            head: Vec::new(),
            accept: accept_of(key.as_bytes()),
        };
        Ok(websocket)
    }

    /// Waits for a client's request, for any host and path, and from any web page.
    pub fn server(config: &Config) -> WebSocket {
        WebSocket::new(Role::Server, config, system_randomness)
    }

    /// Waits for the request of a program, or of a web page with one of these origins, for any
    /// host and path.
    pub fn server_for(config: &Config, origins: Arc<Origins>) -> WebSocket {
        WebSocket {
            origins: Some(origins),
            ..WebSocket::server(config)
        }
    }

    fn new(role: Role, config: &Config, randomness: Randomness) -> WebSocket {
        WebSocket {
            role,
            phase: UpgradePhase::Upgrade {
                head: Vec::new(),
                accept: String::new(),
            },
            inbound: inbound::Inbound::new(role == Role::Server),
            outbound: outbound::Outbound::new(role == Role::Client, randomness),
            outgoing: Vec::new(),
            protocol: protocol_of(&config.security),
            origins: None,
            greeting: made_up_greeting(config),
        }
    }

    /// Takes bytes of the transport, appends the contained ZMTP bytes to `zmtp`, and returns how
    /// many bytes were consumed. Pass the rest again, with more bytes after it.
    ///
    /// # Errors
    /// [`Error::UpgradeFailed`], [`Error::ForbiddenOrigin`], [`Error::MalformedWebSocketFrame`];
    /// [`Error::Closed`] when the peer has sent a close frame. Send the outgoing bytes and close.
    pub fn receive(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        self.receive_up_to(input, zmtp, Stop::Never)
    }

    /// Does the same up to the end of one frame, or of the upgrade: a driver that pauses between
    /// two messages leaves the next one in the input.
    ///
    /// # Errors
    /// Those of [`receive`](Self::receive).
    pub fn receive_frame(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        self.receive_up_to(input, zmtp, Stop::AfterFrame)
    }

    fn receive_up_to(
        &mut self,
        input: &[u8],
        zmtp: &mut Vec<u8>,
        stop: Stop,
    ) -> Result<usize, Error> {
        let result = match &self.phase {
            UpgradePhase::Upgrade { .. } => self.receive_upgrade(input, zmtp),
            UpgradePhase::Open => self.receive_frames(input, zmtp, stop),
            UpgradePhase::Closed => Err(Error::Closed),
        };
        if result.is_err() {
            self.phase = UpgradePhase::Closed;
        }
        result
    }

    /// Takes all output of the connection, in pieces of any size.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    pub fn send(&mut self, zmtp: &[u8]) -> Result<(), Error> {
        self.outbound.send(zmtp, &mut self.outgoing)
    }

    /// Returns the bytes to send to the transport. The driver removes what it has sent from the
    /// front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Returns the number of [`outgoing`](Self::outgoing) bytes.
    pub fn outgoing_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns whether the upgrade is complete.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, UpgradePhase::Open)
    }

    /// Appends a close frame: the driver sends the outgoing bytes, then closes.
    pub fn close(&mut self) {
        if self.is_open() {
            // The only possible error is missing random numbers; then there is no close frame.
            let _ = self
                .outbound
                .control(Opcode::Close, &[], &mut self.outgoing);
        }
        self.phase = UpgradePhase::Closed;
    }

    fn receive_upgrade(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        let UpgradePhase::Upgrade { head, accept } = &mut self.phase else {
            return Err(Error::Closed);
        };
        let consumed = gather_head(head, input);
        if !is_whole(head) {
            let may_become = match self.role {
                Role::Client => may_become_response(head),
                Role::Server => may_become_request(head),
            };
            if head.len() >= HEAD_BYTES_MAX || !may_become {
                return Err(self.refuse(BAD_REQUEST, Error::UpgradeFailed));
            }
            return Ok(consumed);
        }
        let done = match self.role {
            Role::Client => is_response(head, accept, self.protocol),
            Role::Server => match choose(head, self.protocol) {
                Some(_) if self.origins.as_ref().is_some_and(|o| !o.accept(head)) => {
                    return Err(self.refuse(FORBIDDEN, Error::ForbiddenOrigin));
                }
                Some((response, has_routing_id)) => {
                    self.outgoing.extend_from_slice(response.as_bytes());
                    if has_routing_id {
                        self.inbound.expect_routing_id();
                        self.outbound.replace_handshake();
                    }
                    true
                }
                None => false,
            },
        };
        if !done {
            return Err(self.refuse(BAD_REQUEST, Error::UpgradeFailed));
        }
        self.phase = UpgradePhase::Open;
        zmtp.extend_from_slice(&self.greeting);
        Ok(consumed)
    }

    fn refuse(&mut self, response: &[u8], error: Error) -> Error {
        if self.role == Role::Server {
            self.outgoing.extend_from_slice(response);
        }
        error
    }

    fn receive_frames(
        &mut self,
        input: &[u8],
        zmtp: &mut Vec<u8>,
        stop: Stop,
    ) -> Result<usize, Error> {
        let mut consumed = 0;
        loop {
            let (taken, control) = self.inbound.receive(&input[consumed..], zmtp, stop)?;
            consumed += taken;
            match control {
                None => return Ok(consumed),
                Some((Opcode::Ping, data)) if self.outgoing.len() < UNSENT_BYTES_MAX => {
                    self.outbound
                        .control(Opcode::Pong, &data, &mut self.outgoing)?;
                }
                Some((Opcode::Close, data)) => {
                    self.outbound
                        .control(Opcode::Close, &data, &mut self.outgoing)?;
                    return Err(Error::Closed);
                }
                Some(_) => {}
            }
        }
    }
}

/// Generates the greeting of a ZMTP 3.0 peer: subscriptions are messages in ZWS.
fn made_up_greeting(config: &Config) -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[8] = 1;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    let name = mechanism::padded_name(&config.security);
    greeting[12..12 + name.len()].copy_from_slice(&name);
    greeting
}

/// Returns a server's response, and whether a routing id replaces the handshake.
fn choose(head: &[u8], protocol: &str) -> Option<(String, bool)> {
    let response = response_to(head, protocol).map(|response| (response, false));
    let takes_bare = match protocol {
        NULL_PROTOCOL => true,
        // A script can say a name and a password. A program that offers NULL first says none: it
        // must not take the connection for made, and send into it.
        PLAIN_PROTOCOL => response_to(head, NULL_PROTOCOL).is_none(),
        // The keys of CURVE are for programs.
        _ => false,
    };
    let bare = || response_to(head, BARE_PROTOCOL).filter(|_| takes_bare);
    response.or_else(|| Some((bare()?, protocol == NULL_PROTOCOL)))
}

fn protocol_of(security: &Security) -> &'static str {
    match security {
        Security::Null => NULL_PROTOCOL,
        Security::PlainClient { .. } | Security::PlainServer => PLAIN_PROTOCOL,
        Security::CurveClient { .. } | Security::CurveServer { .. } => CURVE_PROTOCOL,
    }
}

const NULL_PROTOCOL: &str = "ZWS2.0/NULL";
const PLAIN_PROTOCOL: &str = "ZWS2.0/PLAIN";
const CURVE_PROTOCOL: &str = "ZWS2.0/CURVE";
/// Without a mechanism: the server's is meant. Only servers speak it.
const BARE_PROTOCOL: &str = "ZWS2.0";
const GREETING_BYTES: usize = 64;
/// A peer that sends requests without reading gets no more answers.
const UNSENT_BYTES_MAX: usize = 4096;

// The flags before a body.
const MORE: u8 = 1;
const COMMAND: u8 = 2;
