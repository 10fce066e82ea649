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

mod accept;
mod inbound;
mod outbound;
mod upgrade;

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
    mechanism: &'static str,
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
        let key = accept::base64(&nonce);
        let mechanism = websocket.mechanism;
        let request = upgrade::request(host, path, mechanism, &key).ok_or(Error::UpgradeFailed)?;
        websocket.outgoing.extend_from_slice(request.as_bytes());
        websocket.phase = Phase::Upgrade {
            head: Vec::new(),
            accept: accept::answer_to(key.as_bytes()),
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
            mechanism: mechanism_name(&config.security),
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
            let _ = self.outbound.control(CLOSE, &[], &mut self.outgoing);
        }
        self.phase = Phase::Closed;
    }

    fn receive_upgrade(&mut self, input: &[u8], zmtp: &mut Vec<u8>) -> Result<usize, Error> {
        let Phase::Upgrade { head, accept } = &mut self.phase else {
            return Err(Error::Closed);
        };
        let consumed = upgrade::gather(head, input);
        if !head.ends_with(upgrade::END) {
            let is_hopeless = head.len() >= upgrade::HEAD_BYTES_MAX
                || !upgrade::may_become_one(head, self.role == Role::Client);
            if is_hopeless {
                return Err(self.refuse());
            }
            return Ok(consumed);
        }
        let done = match self.role {
            Role::Client => upgrade::check_answer(head, accept, self.mechanism),
            Role::Server => match upgrade::answer(head, self.mechanism) {
                Some(answer) => {
                    self.outgoing.extend_from_slice(answer.as_bytes());
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
            self.outgoing.extend_from_slice(upgrade::BAD_REQUEST);
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
                Some((PING, data)) if self.outgoing.len() < UNSENT_BYTES_MAX => {
                    self.outbound.control(PONG, &data, &mut self.outgoing)?;
                }
                Some((CLOSE, data)) => {
                    self.outbound.control(CLOSE, &data, &mut self.outgoing)?;
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

fn mechanism_name(security: &Security) -> &'static str {
    match security {
        Security::Null => "NULL",
        Security::PlainClient { .. } | Security::PlainServer => "PLAIN",
        Security::CurveClient { .. } | Security::CurveServer { .. } => "CURVE",
    }
}

const GREETING_BYTES: usize = 64;
/// A peer that asks without reading gets no more answers.
const UNSENT_BYTES_MAX: usize = 4096;

// Opcodes of RFC 6455.
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The frame is the last of its message.
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const CONTROL_BYTES_MAX: usize = 125;

// The flags before a body.
const MORE: u8 = 1;
const COMMAND: u8 = 2;

/// Masks or unmasks bytes that stand `at` octets behind the beginning of the payload.
fn mask(bytes: &mut [u8], key: [u8; 4], at: u64) {
    let mut key = key;
    key.rotate_left((at % 4) as usize);
    let word = u32::from_ne_bytes(key);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for octets in words {
        *octets = (u32::from_ne_bytes(*octets) ^ word).to_ne_bytes();
    }
    for (octet, key) in rest.iter_mut().zip(key) {
        *octet ^= key;
    }
}
