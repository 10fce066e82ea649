//! The greeting: version and mechanism of both peers.

use std::fmt;

use crate::config::Config;
use crate::error::Error;
use crate::mechanism;
use crate::socket_type::SocketType;

/// A version of ZMTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2.0: no mechanism, no commands; used by libzmq 3.2.
    V2_0,
    /// 3.0: subscriptions are messages; used by libzmq 4.0 to 4.2.
    V3_0,
    /// 3.1: subscriptions are commands; heartbeats.
    V3_1,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Version::V2_0 => "2.0",
            Version::V3_0 => "3.0",
            Version::V3_1 => "3.1",
        })
    }
}

/// Both greetings of a connection: ours, sent in stages, and the peer's, as received so far.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    /// The received part of the peer's greeting.
    bytes: [u8; GREETING_BYTES],
    /// Invariant: `0 <= filled <= GREETING_BYTES`.
    filled: usize,
    /// How much of ours has been sent.
    said: Said,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The signature, which every version has.
    Signature,
    /// The major version too: enough for a peer to send its own.
    Major,
    All,
}

/// The result of the peer's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeted {
    /// More octets are needed.
    Incomplete,
    /// The handshake follows, in this version (3.0 or 3.1).
    Handshake(Version),
    /// A 2.0 peer with a socket of this type; its routing id follows.
    Old(SocketType),
}

impl Greeting {
    /// Starts our greeting.
    pub(crate) fn begin(config: &Config, out: &mut Vec<u8>) -> Greeting {
        out.extend_from_slice(&SIGNATURE);
        // libzmq puts the length of its routing id here for ZMTP 1.0 peers.
        out[8] = (config.routing_id.len() as u8).wrapping_add(1);
        let bytes = [0; GREETING_BYTES];
        let mut greeting = Greeting {
            bytes,
            filled: 0,
            said: Said::Signature,
        };
        if !config.signature_first {
            greeting.say_major(config, out);
        }
        greeting
    }

    /// Takes octets of the peer's greeting. Returns their number and the result.
    pub(crate) fn receive(
        &mut self,
        config: &Config,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Greeted), Error> {
        let mut consumed = 0;
        loop {
            let wanted = self.wanted(config);
            let taken = (wanted - self.filled).min(input.len() - consumed);
            let from = &input[consumed..consumed + taken];
            self.bytes[self.filled..self.filled + taken].copy_from_slice(from);
            self.filled += taken;
            consumed += taken;
            self.check(config)?;
            if self.filled < wanted {
                return Ok((consumed, Greeted::Incomplete));
            }
            if wanted == MAJOR_AT {
                self.say_major(config, out);
            } else if wanted == MAJOR_END {
                self.say_rest(config, out);
            } else if self.is_2_0(config) {
                let kind = SocketType::from_number(self.bytes[MAJOR_END]);
                let kind = kind.ok_or(Error::UnknownSocketType)?;
                return Ok((consumed, Greeted::Old(kind)));
            } else {
                return self
                    .finish(config)
                    .map(|version| (consumed, Greeted::Handshake(version)));
            }
        }
    }

    /// Returns the octets needed until the greeting has the next result.
    pub(crate) fn missing(&self, config: &Config) -> usize {
        self.wanted(config) - self.filled
    }

    /// Returns the length of the current stage.
    fn wanted(&self, config: &Config) -> usize {
        if self.said == Said::Signature {
            MAJOR_AT
        } else if self.filled < MAJOR_END {
            MAJOR_END
        } else if self.is_2_0(config) {
            MAJOR_END + 1
        } else {
            GREETING_BYTES
        }
    }

    fn is_2_0(&self, config: &Config) -> bool {
        config.version == Version::V2_0 || self.bytes[MAJOR_AT] < MAJOR_3
    }

    /// Rejects the first wrong octet.
    fn check(&self, config: &Config) -> Result<(), Error> {
        if self.filled > 0 && self.bytes[0] != SIGNATURE[0]
            || self.filled > SIGNATURE_LAST && self.bytes[SIGNATURE_LAST] != SIGNATURE[9]
        {
            return Err(Error::NotZmtp);
        }
        let major = self.bytes[MAJOR_AT];
        let too_old = major == 0 || major < MAJOR_3 && !config.accepts_2_0();
        if self.filled > MAJOR_AT && too_old {
            let required = config.version_min.max(match config.accepts_2_0() {
                true => Version::V2_0,
                false => Version::V3_0,
            });
            return Err(Error::VersionTooOld { major, required });
        }
        Ok(())
    }

    /// Sends only the major version if a 2.0 peer is possible, until the peer's is known.
    /// Otherwise sends the whole greeting, which saves half a round trip.
    fn say_major(&mut self, config: &Config, out: &mut Vec<u8>) {
        self.said = Said::All;
        if config.version == Version::V2_0 {
            out.push(MAJOR_2_0);
            say_2_0(config, out);
            return;
        }
        out.push(MAJOR_3);
        if config.accepts_2_0() {
            self.said = Said::Major;
        } else {
            say_3(config, out);
        }
    }

    /// Sends the rest of our greeting for the peer's major version.
    fn say_rest(&mut self, config: &Config, out: &mut Vec<u8>) {
        if self.said == Said::Major {
            self.said = Said::All;
            if self.is_2_0(config) {
                say_2_0(config, out);
            } else {
                say_3(config, out);
            }
        }
    }

    /// Returns the version and the mechanism of a whole 3.x greeting.
    fn finish(&self, config: &Config) -> Result<Version, Error> {
        let major = self.bytes[MAJOR_AT];
        let theirs = match (major, self.bytes[MINOR_AT]) {
            (MAJOR_3, 0) => Version::V3_0,
            _ => Version::V3_1,
        };
        if theirs < config.version_min {
            return Err(Error::VersionTooOld {
                major,
                required: config.version_min,
            });
        }
        let (name, rest) = self.bytes[MINOR_AT + 1..].split_at(mechanism::NAME_BYTES);
        if name != mechanism::padded_name(&config.security) {
            return Err(Error::MechanismMismatch);
        }
        // libzmq always leaves as-server zero, so only a conflict can be detected.
        if config.security.is_server() && rest[0] == 1 {
            return Err(Error::BothServers);
        }
        Ok(theirs.min(config.version))
    }
}

/// Appends the rest of a 3.x greeting, after the major version.
fn say_3(config: &Config, out: &mut Vec<u8>) {
    out.push(u8::from(config.version >= Version::V3_1));
    out.extend_from_slice(&mechanism::padded_name(&config.security));
    out.push(u8::from(config.security.is_server()));
    out.extend_from_slice(&[0; FILLER_BYTES]);
}

/// Appends the rest of a 2.0 greeting: socket type, then the routing id as a frame.
fn say_2_0(config: &Config, out: &mut Vec<u8>) {
    out.push(config.socket_type.number());
    crate::frame::encode_frame(out, &config.routing_id, false);
}

/// A whole greeting of 3.x: 10 signature, 2 version, 20 mechanism, 1 as-server, 31 filler.
const GREETING_BYTES: usize = 64;
const SIGNATURE: [u8; 10] = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f];
const SIGNATURE_LAST: usize = 9;
const MAJOR_AT: usize = 10;
const MAJOR_END: usize = 11;
const MINOR_AT: usize = 11;
const FILLER_BYTES: usize = 31;
/// ZMTP 2.0 counts its revisions from 0 (which was 1.0).
const MAJOR_2_0: u8 = 1;
const MAJOR_3: u8 = 3;
