//! ZAP (RFC 27): a handler within the process judges who may connect.

use std::sync::Arc;

use tidewire_zmtp::{self as zmtp, Metadata};

use crate::batch::Item;
use crate::kind::SocketType;
use crate::link::Claim;
use crate::message::{Last, Message};
use crate::options::Mechanism;
use crate::peer::{Inquiry, Link};
use crate::pipe::Hello;
use crate::properties::PropertyList;
use crate::slab::Key;
use crate::state::State;

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Waiting,
    /// There is no handler; the peer may come in all the same, or not.
    NoHandler(bool),
}

impl State {
    pub(crate) fn ask_zap(&mut self, key: Key, claim: &Claim) -> Asked {
        let Some(peer) = self.peers.get_mut(key) else {
            return Asked::NoHandler(false);
        };
        let options = Arc::clone(&peer.options);
        let hello = Hello {
            routing_id: Vec::new(),
            receive_high_water: 0,
            send_high_water: 0,
            conflates: false,
            topics_out: None,
            topics_in: None,
        };
        let connected = self.inproc.connect(ZAP_ENDPOINT, &self.signal, hello);
        let Some(mut pipe) = connected else {
            let is_allowed = match options.security.mechanism {
                Mechanism::Null | Mechanism::Curve => !options.zap_enforce_domain,
                Mechanism::Plain => false,
            };
            return Asked::NoHandler(is_allowed);
        };
        let address = match &peer.link {
            Link::Stream(link) => link.peer_address(),
            _ => String::new(),
        };
        let mut frames: Vec<Vec<u8>> = vec![
            Vec::new(),
            b"1.0".to_vec(),
            b"1".to_vec(),
            options.zap_domain.clone(),
            address.into_bytes(),
            options.routing_id.clone(),
        ];
        match claim {
            Claim::Null => frames.push(b"NULL".to_vec()),
            Claim::Curve { public_key } => {
                frames.extend([b"CURVE".to_vec(), public_key.to_vec()]);
            }
            Claim::Plain { username, password } => {
                frames.extend([b"PLAIN".to_vec(), username.clone(), password.clone()]);
            }
        }
        let mut last = frames.pop().map(Message::from_vec).unwrap_or_default();
        let head = frames.into_iter().map(|frame| {
            let mut message = Message::from_vec(frame);
            message.set_more(true);
            message
        });
        pipe.write(head, Last::Message(&mut last));
        // The handler may not be driven at the moment.
        pipe.ring();
        debug_assert!(peer.zap.is_none(), "a peer is asked about once");
        peer.zap = Some(Box::new(Inquiry {
            pipe,
            properties: PropertyList::default(),
        }));
        self.inquiries.push(key);
        // The answer must wake any thread that drives this socket.
        self.signal.listen();
        Asked::Waiting
    }

    /// Looks for answers of the handler. Whether any have come.
    pub(crate) fn read_zap(&mut self) -> bool {
        let mut inquiries = std::mem::take(&mut self.inquiries);
        let asked = inquiries.len();
        inquiries.retain(|&key| {
            let Some(inquiry) = self.peers.get_mut(key).and_then(|peer| peer.zap.as_mut()) else {
                return false;
            };
            let mut frames = Vec::new();
            while let Some(Item::Frame(frame)) = inquiry.pipe.read() {
                let more = frame.more();
                frames.push(frame);
                if !more {
                    break;
                }
            }
            if frames.is_empty() {
                // A handler that is gone never answers. The peer waits until it goes or its
                // handshake times out: a refused one would reconnect at once.
                return !inquiry.pipe.is_closed();
            }
            self.zap_answered(key, &frames);
            false
        });
        let answered = asked - inquiries.len();
        (0..answered).for_each(|_| self.signal.unlisten());
        self.inquiries.append(&mut inquiries);
        answered > 0
    }

    /// The handler has answered. As in libzmq, that counts; another answer to the same question is
    /// never read, and goes with the pipe, which is this peer's alone.
    fn zap_answered(&mut self, key: Key, frames: &[Message]) {
        let outcome = judge(frames, self.kind);
        if let Some(inquiry) = self.peers.get_mut(key).and_then(|peer| peer.zap.as_mut())
            && outcome == Ok(None)
        {
            inquiry.properties = properties(frames);
        }
        match outcome {
            Ok(refusal) => self.judge(key, refusal.as_deref()),
            Err(number) => {
                let event = crate::monitor::Event::HandshakeFailedProtocol;
                self.report_peer(key, event, number);
                self.lose(key, crate::endpoint::Loss::Protocol);
            }
        }
    }
}

/// The status of an answer: `None` for 200. The error is libzmq's number.
fn judge(frames: &[Message], kind: SocketType) -> Result<Option<String>, u64> {
    if frames.len() != 7 || !frames[0].is_empty() {
        return Err(MALFORMED_REPLY);
    }
    if frames[1].as_slice() != b"1.0" {
        return Err(BAD_VERSION);
    }
    if frames[2].as_slice() != b"1" {
        return Err(BAD_REQUEST_ID);
    }
    match frames[3].as_slice() {
        b"200" if is_acceptable(&frames[6], kind) => Ok(None),
        b"200" => Err(INVALID_METADATA),
        b"300" => Ok(Some("300".to_owned())),
        b"400" => Ok(Some("400".to_owned())),
        b"500" => Ok(Some("500".to_owned())),
        _ => Err(INVALID_STATUS),
    }
}

/// Whether an answer may have this metadata. As by libzmq, a type of socket in it must be one that
/// goes with ours.
fn is_acceptable(metadata: &[u8], kind: SocketType) -> bool {
    let Ok(metadata) = Metadata::parse(metadata, PROPERTIES_MAX) else {
        return false;
    };
    metadata.properties().all(|(name, value)| {
        let peer = zmtp::SocketType::from_name(value);
        let goes = |own: zmtp::SocketType| peer.is_some_and(|peer| own.compatible_with(peer));
        !name.eq_ignore_ascii_case("Socket-Type") || kind.wire().is_none_or(goes)
    })
}

/// The user's name and the metadata of an answer.
fn properties(frames: &[Message]) -> PropertyList {
    debug_assert_eq!(frames.len(), 7, "an answer that was judged is whole");
    let mut list = PropertyList::default();
    if let Ok(user) = std::str::from_utf8(&frames[5]) {
        list.push("User-Id", user);
    }
    let Ok(metadata) = Metadata::parse(&frames[6], PROPERTIES_MAX) else {
        return list;
    };
    for (name, value) in metadata.properties() {
        if let Ok(value) = std::str::from_utf8(value) {
            list.push(name, value);
        }
    }
    list
}

/// Where a handler listens.
pub(crate) const ZAP_ENDPOINT: &str = "inproc://zeromq.zap.01";
/// Properties that an answer may have.
const PROPERTIES_MAX: usize = 64;
const MALFORMED_REPLY: u64 = 0x2000_0001;
const BAD_REQUEST_ID: u64 = 0x2000_0002;
const BAD_VERSION: u64 = 0x2000_0003;
const INVALID_STATUS: u64 = 0x2000_0004;
const INVALID_METADATA: u64 = 0x2000_0005;
