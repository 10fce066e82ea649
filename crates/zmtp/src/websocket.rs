//! ZMTP over WebSocket (RFC 45, ZWS 2.0): a filter between a transport and a
//! [`Connection`](crate::Connection).
//!
//! A connection over WebSocket is made of a [`WebSocket`] and a `Connection` whose
//! [`Config::websocket`](crate::Config::websocket) is set. What the transport brings goes through
//! [`WebSocket::receive`], which gives the bytes of ZMTP for [`Connection::receive`]; what the
//! connection says goes through [`WebSocket::send`], and what is to be written gathers in
//! [`WebSocket::outgoing`]. The filter keeps no message: bodies of any length pass through it.
//!
//! ZWS has no greeting (the HTTP upgrade agrees on the mechanism), puts each frame into one
//! binary message behind an octet of flags, and has WebSocket's own PING and PONG. The filter
//! makes the greeting up, and translates the rest.
//!
//! [`Connection::receive`]: crate::Connection::receive

mod inbound;
mod outbound;

use tidewire_web::http::{BAD_REQUEST, HEAD_BYTES_MAX, gather_head, is_whole};
use tidewire_web::websocket::{
    Opcode, accept_of, base64, is_response, may_become_request, may_become_response, request,
    response_to,
};

use crate::config::{Config, Security};
use crate::curve::{Randomness, system_randomness};
use crate::error::Error;
use crate::mechanism;

/// One side of a WebSocket connection that carries ZMTP.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    phase: Phase,
    inbound: inbound::Inbound,
    outbound: outbound::Outbound,
    outgoing: Vec<u8>,
    /// ZWS's name for the mechanism, on which the upgrade agrees.
    protocol: &'static str,
    greeting: [u8; GREETING_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

#[derive(Debug)]
enum Phase {
    /// The peer's request or answer is read; for a client, with what it must accept.
    Upgrade {
        head: Vec<u8>,
        accept: String,
    },
    Open,
    Closed,
}

impl WebSocket {
    /// Connects: the request is at once in [`outgoing`](Self::outgoing). `host` is the server's
    /// name, with its port if that is not 80; `path` begins with `/`. `config` is the one of the
    /// connection behind.
    ///
    /// # Errors
    /// [`Error::UpgradeFailed`]: host or path have characters that a request cannot have;
    /// [`Error::NoRandomness`].
    pub fn client(host: &str, path: &str, config: &Config) -> Result<WebSocket, Error> {
        let mut websocket = WebSocket::new(Role::Client, config, system_randomness);
        let mut nonce = [0; 16];
        system_randomness(&mut nonce)?;
        let key = base64(&nonce);
        let protocol = websocket.protocol;
        let request = request(host, path, protocol, &key).ok_or(Error::UpgradeFailed)?;
        websocket.outgoing.extend_from_slice(request.as_bytes());
        websocket.phase = Phase::Upgrade {
            head: Vec::new(),
            accept: accept_of(key.as_bytes()),
        };
        Ok(websocket)
    }

    /// Waits for a client's request, for any host and path.
    pub fn server(config: &Config) -> WebSocket {
        WebSocket::new(Role::Server, config, system_randomness)
    }

    fn new(role: Role, config: &Config, randomness: Randomness) -> WebSocket {
        WebSocket {
            role,
            phase: Phase::Upgrade {
                head: Vec::new(),
                accept: String::new(),
            },
            inbound: inbound::Inbound::new(role == Role::Server),
            outbound: outbound::Outbound::new(role == Role::Client, randomness),
            outgoing: Vec::new(),
            protocol: protocol_of(&config.security),
            greeting: made_up_greeting(config),
        }
    }

    /// Takes what the transport brought and appends the ZMTP in it to `zmtp`; returns how many
    /// bytes of it are done with. The rest must come again, with more behind it.
    ///
    /// # Errors
    /// [`Error::UpgradeFailed`], [`Error::MalformedWebSocketFrame`]; [`Error::Closed`] when the
    /// peer has said goodbye. Write what is outgoing and close.
    pub fn receive(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        let result = match &self.phase {
            Phase::Upgrade { .. } => self.receive_upgrade(input, zmtp),
            Phase::Open => self.receive_frames(input, zmtp),
            Phase::Closed => Err(Error::Closed),
        };
        if result.is_err() {
            self.phase = Phase::Closed;
        }
        result
    }

    /// Takes what the connection says, all of it, in pieces of any size.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    pub fn send(&mut self, zmtp: &[u8]) -> Result<(), Error> {
        self.outbound.send(zmtp, &mut self.outgoing)
    }

    /// What is to be written to the transport. The driver takes it out from the front.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// How many bytes are [`outgoing`](Self::outgoing).
    pub fn outgoing_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Whether the upgrade is done.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Says goodbye: the driver writes what is outgoing, then closes.
    pub fn close(&mut self) {
        if self.is_open() {
            // An error would be one of random numbers; then it is closed without goodbye.
            let _ = self
                .outbound
                .control(Opcode::Close, &[], &mut self.outgoing);
        }
        self.phase = Phase::Closed;
    }

    fn receive_upgrade(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        let Phase::Upgrade { head, accept } = &mut self.phase else {
            return Err(Error::Closed);
        };
        let consumed = gather_head(head, input);
        if !is_whole(head) {
            let may_become = match self.role {
                Role::Client => may_become_response(head),
                Role::Server => may_become_request(head),
            };
            if head.len() >= HEAD_BYTES_MAX || !may_become {
                return Err(self.refuse());
            }
            return Ok(consumed);
        }
        let done = match self.role {
            Role::Client => is_response(head, accept, self.protocol),
            Role::Server => match response_to(head, self.protocol) {
                Some(response) => {
                    self.outgoing.extend_from_slice(response.as_bytes());
                    true
                }
                None => false,
            },
        };
        if !done {
            return Err(self.refuse());
        }
        self.phase = Phase::Open;
        zmtp.extend_from_slice(&self.greeting);
        Ok(consumed)
    }

    fn refuse(&mut self) -> Error {
        if self.role == Role::Server {
            self.outgoing.extend_from_slice(BAD_REQUEST);
        }
        Error::UpgradeFailed
    }

    fn receive_frames(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        let mut consumed = 0;
        loop {
            let (taken, control) = self.inbound.receive(&input[consumed..], zmtp)?;
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

/// What a peer of ZMTP 3.0 would have said: subscriptions are messages in ZWS.
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

fn protocol_of(security: &Security) -> &'static str {
    match security {
        Security::Null => "ZWS2.0/NULL",
        Security::PlainClient { .. } | Security::PlainServer => "ZWS2.0/PLAIN",
        Security::CurveClient { .. } | Security::CurveServer { .. } => "ZWS2.0/CURVE",
    }
}

const GREETING_BYTES: usize = 64;
/// A peer that asks without reading gets no more answers.
const UNSENT_BYTES_MAX: usize = 4096;

// The flags before a body.
const MORE: u8 = 1;
const COMMAND: u8 = 2;
