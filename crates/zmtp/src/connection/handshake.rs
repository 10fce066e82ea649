//! Greeting and handshake.

use super::{Connection, ConnectionPhase, Event, Handshake, Peer, ROUTING_ID_BYTES_MAX, Step};
use crate::command::encode_error;
use crate::error::Error;
use crate::frame::{FLAGS_2, Head};
use crate::greeting::{Greeted, Version};
use crate::mechanism::Progress;
use crate::metadata::Metadata;
use crate::socket_type::SocketType;

impl Connection {
    #[cold]
    pub(super) fn receive_handshake<'b>(
        &mut self,
        input: &'b [u8],
        now: u64,
    ) -> Result<Step<'b>, Error> {
        match self.phase {
            ConnectionPhase::Greeting => self.receive_greeting(input),
            ConnectionPhase::RoutingId(kind) => self.receive_routing_id(kind, input, now),
            ConnectionPhase::Handshake => self.receive_handshake_command(input, now),
            ConnectionPhase::Judgement => Ok(Step::wants(0)),
            ConnectionPhase::Closed | ConnectionPhase::Traffic | ConnectionPhase::Encrypted => {
                Err(Error::Closed)
            }
        }
    }

    fn receive_greeting<'b>(&mut self, input: &[u8]) -> Result<Step<'b>, Error> {
        let handshake = self.handshake.as_deref_mut().ok_or(Error::Closed)?;
        let Handshake {
            config, greeting, ..
        } = &mut *handshake;
        let out = &mut self.outgoing;
        let (consumed, greeted) = greeting.receive(config, input, out)?;
        let mut event = None;
        let mut needed = 2;
        match greeted {
            Greeted::Incomplete => needed = greeting.missing(config),
            Greeted::Old(kind) => {
                self.version = Version::V2_0;
                self.known_flags = FLAGS_2;
                self.check_compatible(kind)?;
                self.phase = ConnectionPhase::RoutingId(kind);
            }
            Greeted::Handshake(version) => {
                self.version = version;
                self.phase = ConnectionPhase::Handshake;
                let progress = handshake.mechanism.start(&handshake.own_metadata, out)?;
                if let Progress::Authenticate(credentials) = progress {
                    self.phase = ConnectionPhase::Judgement;
                    event = Some(Event::Authenticate(credentials));
                    needed = 0;
                }
            }
        }
        Ok(Step {
            consumed,
            event,
            needed,
        })
    }

    /// Receives the routing id that ends the greeting of a 2.0 peer, which has no handshake.
    fn receive_routing_id<'b>(
        &mut self,
        kind: SocketType,
        input: &[u8],
        now_ns: u64,
    ) -> Result<Step<'b>, Error> {
        let head = match Head::read(input, self.known_flags)? {
            Ok(head) => head,
            Err(needed) => return Ok(Step::wants(needed)),
        };
        if head.more() {
            return Err(Error::IllegalRoutingId);
        }
        let limit = ROUTING_ID_BYTES_MAX as u64;
        let total = head.total(limit).map_err(|_| Error::IllegalRoutingId)?;
        let Some(body) = input.get(head.size..total) else {
            return Ok(Step::wants(total));
        };
        let peer = Peer {
            version: self.version,
            socket_type: Some(kind),
            routing_id: checked_routing_id(Some(kind), body)?,
            metadata: Metadata::default(),
        };
        self.become_ready(peer, now_ns);
        Ok(Step::of(total, Event::Ready))
    }

    fn receive_handshake_command<'b>(
        &mut self,
        input: &'b [u8],
        now_ns: u64,
    ) -> Result<Step<'b>, Error> {
        let handshake = self.handshake.as_mut().ok_or(Error::Closed)?;
        if let Some(metadata) = handshake.mechanism.take_metadata() {
            let peer = self.meet(&metadata)?;
            self.become_ready(peer, now_ns);
            return Ok(Step::of(0, Event::Ready));
        }
        let head = match Head::read(input, self.known_flags)? {
            Ok(head) => head,
            Err(needed) => return Ok(Step::wants(needed)),
        };
        if !head.is_command() {
            return Err(Error::MessageBeforeReady);
        }
        if head.more() {
            return Err(Error::CommandWithMore);
        }
        let total = head.total(self.rules.limits.handshake_bytes_max)?;
        let Some(body) = input.get(head.size..total) else {
            return Ok(Step::wants(total));
        };
        let handshake = self.handshake.as_mut().ok_or(Error::Closed)?;
        let own = &handshake.own_metadata;
        match handshake.mechanism.receive(body, own, &mut self.outgoing)? {
            Progress::Continue => Ok(Step {
                consumed: total,
                event: None,
                needed: 2,
            }),
            Progress::Authenticate(credentials) => {
                self.phase = ConnectionPhase::Judgement;
                Ok(Step::of(total, Event::Authenticate(credentials)))
            }
            Progress::Refused(reason) => {
                self.phase = ConnectionPhase::Closed;
                Ok(Step::of(total, Event::PeerError(reason)))
            }
            Progress::Metadata(bytes) => {
                let peer = self.meet(&bytes)?;
                self.become_ready(peer, now_ns);
                Ok(Step::of(total, Event::Ready))
            }
        }
    }

    /// Checks the peer's metadata.
    fn meet(&mut self, bytes: &[u8]) -> Result<Peer, Error> {
        let metadata = Metadata::parse(bytes, self.rules.limits.metadata_properties_max)?;
        let mut socket_type = None;
        if let Some(name) = metadata.property("Socket-Type") {
            let kind = SocketType::from_name(name).ok_or(Error::UnknownSocketType);
            let kind = kind.inspect_err(|_| encode_error(&mut self.outgoing, UNKNOWN_REASON))?;
            self.check_compatible(kind)?;
            socket_type = Some(kind);
        }
        let routing_id = metadata.property("Identity").unwrap_or_default();
        let routing_id = checked_routing_id(socket_type, routing_id)?;
        Ok(Peer {
            version: self.version,
            socket_type,
            routing_id,
            metadata,
        })
    }

    /// Tells a peer that knows commands when the types do not fit.
    fn check_compatible(&mut self, theirs: SocketType) -> Result<(), Error> {
        let ours = self.rules.socket_type;
        if ours.compatible_with(theirs) {
            return Ok(());
        }
        if self.version >= Version::V3_0 {
            encode_error(&mut self.outgoing, INCOMPATIBLE_REASON);
        }
        Err(Error::IncompatibleSocketType { ours, theirs })
    }

    fn become_ready(&mut self, peer: Peer, now_ns: u64) {
        self.phase = ConnectionPhase::Traffic;
        if let Some(mut handshake) = self.handshake.take()
            && self.version >= Version::V3_0
        {
            handshake
                .mechanism
                .confirm(&handshake.own_metadata, &mut self.outgoing);
            self.liveness.start(now_ns);
            self.cipher = handshake.mechanism.cipher().map(Box::new);
            if self.cipher.is_some() {
                self.phase = ConnectionPhase::Encrypted;
            }
        }
        self.peer = Some(peer);
    }
}

/// Returns the routing id of a peer whose type has one.
fn checked_routing_id(kind: Option<SocketType>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if !kind.is_none_or(SocketType::announces_routing_id) {
        return Ok(Vec::new());
    }
    // ROUTER generates ids that begin with 0: a peer with such an id could impersonate another.
    if bytes.len() > ROUTING_ID_BYTES_MAX || bytes.first() == Some(&0) {
        return Err(Error::IllegalRoutingId);
    }
    Ok(bytes.to_vec())
}

const INCOMPATIBLE_REASON: &str = "Incompatible socket type";
const UNKNOWN_REASON: &str = "Unknown socket type";
