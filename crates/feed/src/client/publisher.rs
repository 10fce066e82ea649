//! Sends a stream to a server, as `replay` and a simulator without its own hub do.

use std::collections::VecDeque;

use crate::journal::{Everything, Journal};
use crate::server::{
    HEARTBEAT_INTERVAL_NS_MAX, REFUSALS_MAX, SILENCE_INTERVALS_MAX, SenderCounters, Steps,
    StreamSender,
};
use crate::wire::{
    ClientName, Control, Credentials, EndOfSessionAcknowledgement, Flags, Login, Message,
    MessageError, PACKET_LENGTH_MAX, PacketError, PacketWriter, RefusalReason, Refused, Role,
    decode_packet, may_be_control,
};

/// Settings of a publisher.
#[derive(Clone, Copy, Debug)]
pub struct PublisherConfig {
    /// The publisher's name for itself.
    pub name: ClientName,
    /// The user and password; `None` for the server's default user.
    pub credentials: Option<Credentials>,
    /// Longest silence of this side, at most [`HEARTBEAT_INTERVAL_NS_MAX`].
    pub heartbeat_interval_ns: u64,
    /// Largest packet, header included.
    pub packet_limit_bytes: usize,
}

impl Default for PublisherConfig {
    fn default() -> Self {
        PublisherConfig {
            name: ClientName::EMPTY,
            credentials: None,
            heartbeat_interval_ns: HEARTBEAT_INTERVAL_NS_MAX,
            packet_limit_bytes: PACKET_LENGTH_MAX,
        }
    }
}

/// Why a publisher's connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublisherError {
    /// The server's bytes cannot be split into packets: reconnect.
    #[error("framing lost: {0}")]
    FramingLost(PacketError),
    /// A packet's checksum is correct but its messages are invalid: the server's fault.
    #[error("malformed packet: {0}")]
    Malformed(MessageError),
    /// A packet that servers do not send to publishers.
    #[error("a packet out of the protocol's order")]
    OutOfOrder,
    /// A packet with a wrong checksum that may have been the answer to the login: reconnect.
    #[error("the answer to the login was damaged on its way")]
    Damaged,
    /// The server refused; [`Publisher::refusal`] has the reason.
    #[error("the server refused")]
    Refused,
    /// Another connection publishes this session. It may be our own last one, whose end the server
    /// has not noticed yet: reconnect with backoff. The server drops a silent connection after
    /// [`SILENCE_INTERVALS_MAX`] heartbeat intervals. If the refusal lasts longer, another
    /// publisher uses the same session id.
    #[error("another connection publishes this session")]
    SessionInUse,
    /// The server has more of this session than this publisher: the session id was used twice,
    /// which is our fault.
    #[error("the server has sequences up to {server_next}, we only up to {own_next}")]
    ServerAhead {
        /// The server's next sequence.
        server_next: u64,
        /// Our next sequence.
        own_next: u64,
    },
}

/// The state of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublisherState {
    /// No connection.
    Disconnected,
    /// The login was sent.
    LoggingIn,
    /// The stream is being sent.
    Streaming,
    /// The server acknowledged the end of the session.
    Finished,
}

/// The sender of one stream, with the stream's [`Journal`]. Messages can be appended at any time.
/// They are sent while connected, and again on request.
#[derive(Debug)]
pub struct Publisher {
    config: PublisherConfig,
    journal: Journal,
    state: PublisherState,
    stream: StreamSender,
    outgoing: Vec<u8>,
    acknowledgement: Option<EndOfSessionAcknowledgement>,
    refusal: Option<Refused>,
    /// Refusals of symbols.
    notices: VecDeque<Refused>,
    last_received_ns: u64,
    overrun: u64,
}

impl Publisher {
    /// Creates a publisher of the journal's stream; its session id must not be 0.
    pub fn new(config: PublisherConfig, journal: Journal) -> Publisher {
        let stream = StreamSender::new(config.packet_limit_bytes, config.heartbeat_interval_ns, 0);
        Publisher {
            config,
            journal,
            state: PublisherState::Disconnected,
            stream,
            outgoing: Vec::new(),
            acknowledgement: None,
            refusal: None,
            notices: VecDeque::new(),
            last_received_ns: 0,
            overrun: 0,
        }
    }

    /// Handles a new connection: logs in.
    pub fn connected(&mut self, now_ns: u64) {
        self.state = PublisherState::LoggingIn;
        self.last_received_ns = now_ns;
        self.refusal = None;
        self.outgoing.clear();
        let login = Login {
            role: Role::Publisher,
            session: self.journal.session(),
            next_sequence: self.journal.oldest_sequence(),
            subscription_count: 0,
            slow_policy: None,
            partial_snapshots: false,
            reads_figures: false,
            client_name: self.config.name,
            credentials: self.config.credentials,
        };
        let session = self.journal.session();
        PacketWriter::control(&mut self.outgoing, session, &Control::Login(login));
    }

    /// Handles the end of a connection.
    pub fn disconnected(&mut self) {
        if self.state != PublisherState::Finished {
            self.state = PublisherState::Disconnected;
        }
    }

    /// Appends a message to the stream and returns its sequence.
    #[inline]
    pub fn append(&mut self, message: &Message) -> u64 {
        self.journal.append(message)
    }

    /// Returns how many messages of any kind can be appended before an unsent one drops out of the
    /// journal.
    pub fn room(&self) -> u64 {
        let first_unsent = match self.state {
            PublisherState::Streaming => self.stream.cursor.sent,
            _ => self.journal.oldest_sequence(),
        };
        self.journal.room(first_unsent)
    }

    /// Ends the stream: the server is told until it acknowledges.
    pub fn finish(&mut self) {
        self.journal.end_session();
    }

    /// Receives bytes from the server and returns how many were used.
    pub fn receive(&mut self, input: &[u8], now_ns: u64) -> Result<usize, PublisherError> {
        let mut used = 0;
        loop {
            match decode_packet(&input[used..]) {
                Ok(None) => return Ok(used),
                Ok(Some((packet, length))) => {
                    used += length;
                    self.last_received_ns = now_ns;
                    if packet.header.flags.contains(Flags::CONTROL) {
                        for control in packet.controls() {
                            self.control(&control.map_err(PublisherError::Malformed)?, now_ns)?;
                        }
                    } else if !packet.header.flags.contains(Flags::HEARTBEAT) {
                        return Err(PublisherError::OutOfOrder);
                    }
                }
                Err(PacketError::BadChecksum { packet_length }) => {
                    // Later controls come again: requests, and the end's acknowledgement.
                    let is_logging_in = self.state == PublisherState::LoggingIn;
                    if is_logging_in && may_be_control(&input[used..]) {
                        return Err(PublisherError::Damaged);
                    }
                    used += packet_length;
                }
                Err(error) => return Err(PublisherError::FramingLost(error)),
            }
        }
    }

    /// Appends the output that is due to `out`, up to about `budget_bytes`. Returns whether more
    /// is ready.
    pub fn produce(&mut self, now_ns: u64, out: &mut Vec<u8>, budget_bytes: usize) -> bool {
        let start = out.len();
        let end_bytes = start.saturating_add(budget_bytes);
        out.append(&mut self.outgoing);
        if self.state != PublisherState::Streaming {
            return false;
        }
        self.overrun += self.stream.pass_what_is_gone(&self.journal);
        let half = start + budget_bytes.div_ceil(2);
        let journal = &self.journal;
        // The whole stream is sent, so nothing is searched.
        let (stream, mut steps) = (&mut self.stream, Steps::new(1));
        let mut more = stream.produce_retransmissions(journal, &Everything, out, half, &mut steps);
        more |= self
            .stream
            .produce_live(journal, &Everything, out, end_bytes);
        let said = out.len() > start;
        self.stream.produce_idle(journal, true, now_ns, said, out);
        more
    }

    /// Returns when [`Publisher::produce`] must be called even if nothing happens.
    pub fn deadline_ns(&self) -> u64 {
        match self.state {
            PublisherState::Streaming => self
                .stream
                .next_heartbeat_ns()
                .min(self.silence_deadline_ns()),
            PublisherState::LoggingIn => self.silence_deadline_ns(),
            PublisherState::Disconnected | PublisherState::Finished => u64::MAX,
        }
    }

    /// Returns whether the server was silent for [`SILENCE_INTERVALS_MAX`] heartbeat intervals.
    pub fn is_silent(&self, now_ns: u64) -> bool {
        now_ns >= self.silence_deadline_ns()
    }

    /// Returns the publisher's state.
    pub fn state(&self) -> PublisherState {
        self.state
    }

    /// Returns the stream's journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the server's acknowledgement of the whole session, with its range and count.
    pub fn acknowledgement(&self) -> Option<&EndOfSessionAcknowledgement> {
        self.acknowledgement.as_ref()
    }

    /// Returns the server's refusal.
    pub fn refusal(&self) -> Option<&Refused> {
        self.refusal.as_ref()
    }

    /// Returns the next refusal that leaves the rest of the stream, such as that of a symbol.
    pub fn next_notice(&mut self) -> Option<Refused> {
        self.notices.pop_front()
    }

    /// Returns the sender's counters.
    pub fn counters(&self) -> &SenderCounters {
        &self.stream.counters
    }

    /// Returns the number of sequences that dropped out of the journal before they were sent.
    pub fn overrun(&self) -> u64 {
        self.overrun
    }

    fn silence_deadline_ns(&self) -> u64 {
        let limit_ns = self.stream.heartbeat_interval_ns() * SILENCE_INTERVALS_MAX;
        self.last_received_ns.saturating_add(limit_ns)
    }

    fn control(&mut self, control: &Control, now_ns: u64) -> Result<(), PublisherError> {
        match control {
            Control::LoginAccepted(accepted) => {
                let (server_next, own_next) =
                    (accepted.next_sequence, self.journal.next_sequence());
                if server_next > own_next {
                    return Err(PublisherError::ServerAhead {
                        server_next,
                        own_next,
                    });
                }
                self.stream.restart(server_next.max(1), now_ns);
                self.state = PublisherState::Streaming;
            }
            Control::Request(request) if !request.snapshot => self.stream.request(request),
            Control::EndOfSessionAcknowledgement(acknowledgement) => {
                self.stream.acknowledge_end();
                self.acknowledgement = Some(*acknowledgement);
                self.state = PublisherState::Finished;
            }
            Control::Refused(refused) if refused.reason.leaves_the_rest() => {
                if self.notices.len() < REFUSALS_MAX {
                    self.notices.push_back(*refused);
                }
            }
            Control::Refused(refused) => {
                self.refusal = Some(*refused);
                return Err(match refused.reason {
                    RefusalReason::SESSION_IN_USE => PublisherError::SessionInUse,
                    _ => PublisherError::Refused,
                });
            }
            Control::Unknown(_) => {}
            _ => return Err(PublisherError::OutOfOrder),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{LoginAccepted, RefusalText, Request, Trade};

    fn control(publisher: &mut Publisher, control: Control) -> Result<usize, PublisherError> {
        let mut bytes = Vec::new();
        PacketWriter::control(&mut bytes, 5, &control);
        publisher.receive(&bytes, 0)
    }

    fn accepted(next_sequence: u64) -> Control {
        Control::LoginAccepted(LoginAccepted {
            session: 5,
            next_sequence,
            ..LoginAccepted::default()
        })
    }

    /// Returns the first sequences and counts of the data packets, and the controls.
    fn said(publisher: &mut Publisher) -> (Vec<(u64, u16)>, Vec<Control>) {
        let mut out = Vec::new();
        while publisher.produce(0, &mut out, 1 << 16) {}
        let (mut packets, mut controls, mut rest) = (Vec::new(), Vec::new(), out.as_slice());
        while let Some((packet, length)) = decode_packet(rest).unwrap() {
            if packet.header.flags.contains(Flags::CONTROL) {
                controls.extend(packet.controls().map(Result::unwrap));
            } else if packet.header.message_count > 0 {
                packets.push((packet.header.first_sequence, packet.header.message_count));
            }
            rest = &rest[length..];
        }
        (packets, controls)
    }

    fn publisher(messages: u32) -> Publisher {
        let mut publisher = Publisher::new(PublisherConfig::default(), Journal::new(5, 64));
        for symbol in 0..messages {
            publisher.append(&Message::Trade(Trade {
                symbol,
                ..Trade::default()
            }));
        }
        publisher.connected(0);
        publisher
    }

    #[test]
    fn goes_on_where_the_server_stopped() {
        let mut publisher = publisher(20);
        let (packets, controls) = said(&mut publisher);
        assert!(packets.is_empty() && matches!(controls[..], [Control::Login(_)]));
        control(&mut publisher, accepted(13)).unwrap();
        assert_eq!(said(&mut publisher).0, [(13, 8)]);
    }

    #[test]
    fn says_what_it_does_not_keep_any_more() {
        let mut publisher = publisher(200);
        control(&mut publisher, accepted(1)).unwrap();
        assert_eq!(said(&mut publisher).0, [(137, 64)]);
        assert_eq!(publisher.overrun(), 136);
        let request = Request {
            from: 1,
            count: 136,
            snapshot: false,
        };
        control(&mut publisher, Control::Request(request)).unwrap();
        let too_old = crate::wire::TooOld {
            wanted: 1,
            oldest: 137,
            ..crate::wire::TooOld::default()
        };
        assert_eq!(
            said(&mut publisher),
            (vec![], vec![Control::TooOld(too_old)])
        );
    }

    #[test]
    fn a_session_id_used_twice_is_noticed() {
        let mut publisher = publisher(3);
        let error = control(&mut publisher, accepted(10));
        assert_eq!(
            error,
            Err(PublisherError::ServerAhead {
                server_next: 10,
                own_next: 4
            })
        );
    }

    #[test]
    fn a_refusal_is_kept_for_the_user() {
        let mut publisher = publisher(3);
        let refused = Refused {
            reason: RefusalReason::FULL,
            text: RefusalText::truncated("full"),
        };
        let error = control(&mut publisher, Control::Refused(refused));
        assert_eq!(error, Err(PublisherError::Refused));
        assert_eq!(publisher.refusal(), Some(&refused));
    }

    /// It waited for the answer as long as the server was not silent.
    #[test]
    fn a_damaged_answer_to_the_login_ends_the_connection() {
        let mut publisher = publisher(3);
        let mut bytes = Vec::new();
        PacketWriter::control(&mut bytes, 5, &accepted(1));
        bytes[40] ^= 1;
        let error = publisher.receive(&bytes, 0);
        assert_eq!(error, Err(PublisherError::Damaged));
        publisher.disconnected();
        publisher.connected(1);
        control(&mut publisher, accepted(1)).unwrap();
        // From now on the server asks again.
        assert_eq!(publisher.receive(&bytes, 1), Ok(bytes.len()));
        assert_eq!(said(&mut publisher).0, [(1, 3)]);
    }

    #[test]
    fn a_session_that_another_connection_has_is_tried_again_later() {
        let mut publisher = publisher(3);
        let refused = Refused {
            reason: RefusalReason::SESSION_IN_USE,
            text: RefusalText::truncated("in use"),
        };
        let error = control(&mut publisher, Control::Refused(refused));
        assert_eq!(error, Err(PublisherError::SessionInUse));
        publisher.disconnected();
        assert_eq!(publisher.state(), PublisherState::Disconnected);
        publisher.connected(1);
        assert_eq!(publisher.refusal(), None);
        control(&mut publisher, accepted(1)).unwrap();
        assert_eq!(said(&mut publisher).0, [(1, 3)]);
    }
}
