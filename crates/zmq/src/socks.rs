//! Connections through a SOCKS5 proxy (RFC 1928, RFC 1929), as a machine without a socket.

use std::net::IpAddr;

use crate::digits;

/// The talk with a proxy before it passes bytes on.
#[derive(Debug)]
pub(crate) struct Negotiation {
    step: Step,
    outgoing: Vec<u8>,
    /// Octets of the answer that is being read.
    input: Vec<u8>,
    /// How long that answer is, as far as it is known.
    wanted: usize,
    /// The request to connect, sent when the proxy has let us in.
    request: Vec<u8>,
    credentials: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Method,
    Authentication,
    Connection,
    Done,
}

/// The proxy refuses, or is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

impl Negotiation {
    /// Begins to ask for a connection. A user name that is not empty is shown with the password.
    pub(crate) fn new(host: &str, port: u16, username: &[u8], password: &[u8]) -> Negotiation {
        let credentials = (!username.is_empty()).then(|| {
            let mut bytes = vec![1];
            for part in [username, password] {
                let part = &part[..part.len().min(255)];
                bytes.push(part.len() as u8);
                bytes.extend_from_slice(part);
            }
            bytes
        });
        let method = if credentials.is_some() {
            BY_PASSWORD
        } else {
            OPEN
        };
        Negotiation {
            step: Step::Method,
            outgoing: vec![VERSION, 1, method],
            input: Vec::new(),
            wanted: 2,
            request: request(host, port),
            credentials,
        }
    }

    /// What is to be sent; the driver takes it out.
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// How many octets to read, and no more: what follows belongs to the peer behind the proxy.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted - self.input.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Takes octets that were read, at most as many as wanted.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        debug_assert!(
            bytes.len() <= self.wanted(),
            "bytes behind the answer belong to the peer"
        );
        self.input.extend_from_slice(bytes);
        if self.input.len() < self.wanted {
            return Ok(());
        }
        match (self.step, &self.input[..]) {
            (Step::Method, [VERSION, OPEN]) => self.ask(),
            (Step::Method, [VERSION, BY_PASSWORD]) => {
                self.outgoing = self.credentials.take().ok_or(Refused)?;
                self.step = Step::Authentication;
                self.input.clear();
            }
            (Step::Authentication, [_, 0]) => self.ask(),
            (Step::Connection, [VERSION, 0, _, kind, first, ..]) => {
                let length = match *kind {
                    IPV4 => 4 + 4 + 2,
                    IPV6 => 4 + 16 + 2,
                    NAME => 4 + 1 + usize::from(*first) + 2,
                    _ => return Err(Refused),
                };
                if self.input.len() == length {
                    self.step = Step::Done;
                }
                self.wanted = length;
            }
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn ask(&mut self) {
        debug_assert!(!self.request.is_empty(), "the request is sent once");
        self.outgoing = std::mem::take(&mut self.request);
        self.step = Step::Connection;
        self.input.clear();
        // Enough to tell how long the address in the answer is.
        self.wanted = 5;
    }
}

fn request(host: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![VERSION, CONNECT, 0];
    let (without_zone, _) = host.split_once('%').unwrap_or((host, ""));
    match digits::ip(without_zone) {
        Some(IpAddr::V4(ip)) => {
            bytes.push(IPV4);
            bytes.extend_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            bytes.push(IPV6);
            bytes.extend_from_slice(&ip.octets());
        }
        None => {
            let name = &host.as_bytes()[..host.len().min(255)];
            bytes.extend_from_slice(&[NAME, name.len() as u8]);
            bytes.extend_from_slice(name);
        }
    }
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

const VERSION: u8 = 5;
const OPEN: u8 = 0;
const BY_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::Negotiation;

    /// Feeds octet by octet, never more than is wanted.
    fn answer(negotiation: &mut Negotiation, bytes: &[u8]) -> Result<(), super::Refused> {
        for byte in bytes {
            assert!(negotiation.wanted() > 0);
            negotiation.receive(std::slice::from_ref(byte))?;
        }
        Ok(())
    }

    #[test]
    fn a_proxy_with_a_password_lets_in() {
        let mut negotiation = Negotiation::new("example.org", 80, b"me", b"secret");
        assert_eq!(std::mem::take(negotiation.outgoing()), [5, 1, 2]);
        answer(&mut negotiation, &[5, 2]).unwrap();
        let shown = std::mem::take(negotiation.outgoing());
        assert_eq!(shown, b"\x01\x02me\x06secret");
        answer(&mut negotiation, &[1, 0]).unwrap();
        let asked = std::mem::take(negotiation.outgoing());
        assert_eq!(asked, b"\x05\x01\x00\x03\x0bexample.org\x00\x50");
        answer(&mut negotiation, &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).unwrap();
        assert!(negotiation.is_done());
    }

    #[test]
    fn a_proxy_gets_the_octets_of_every_address_in_digits() {
        for host in ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "127.1%lo"] {
            let asked = super::request(host, 80);
            assert_eq!(asked, b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", "{host}");
        }
        let asked = super::request("127.0.0.08", 80);
        assert_eq!(asked, b"\x05\x01\x00\x03\x0a127.0.0.08\x00\x50");
    }

    #[test]
    fn a_refusal_is_told() {
        let mut negotiation = Negotiation::new("127.0.0.1", 80, b"", b"");
        answer(&mut negotiation, &[5, 0]).unwrap();
        assert!(answer(&mut negotiation, &[5, 5, 0, 1, 0]).is_err());
        let mut negotiation = Negotiation::new("127.0.0.1", 80, b"", b"");
        assert!(answer(&mut negotiation, &[5, 0xFF]).is_err());
    }
}
