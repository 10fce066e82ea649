//! Counters of an input, for INFO.

use std::fmt;

use parking_lot::Mutex;

/// The counters of one input, updated after each batch.
pub type Status = Mutex<Figures>;

/// The counters of an input.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// `mold`, `soup`, `mdp` or `native`.
    pub kind: &'static str,
    /// Name of the session, as the exchange sends it.
    pub session: String,
    /// Whether a session is being received.
    pub is_connected: bool,
    /// The next expected sequence.
    pub next_sequence: u64,
    /// Messages applied.
    pub messages: u64,
    /// Messages with an invalid format.
    pub malformed: u64,
    /// Messages about unknown orders.
    pub unknown_orders: u64,
    /// Orders that the book refused, because of a limit or of what they say.
    pub refused_orders: u64,
    /// Gaps in the sequences.
    pub gaps: u64,
    /// Missing messages that arrived later.
    pub recovered: u64,
    /// Messages lost for good.
    pub lost: u64,
    /// Messages of templates that are not read; of MDP.
    pub unknown: u64,
    /// Instruments whose values wait for a snapshot; of MDP.
    pub in_doubt: u64,
    /// Requests for missing messages.
    pub requests: u64,
    /// Packets and skipped sequences of line A and line B.
    pub lines: [(u64, u64); 2],
    /// Connections made.
    pub connections: u64,
    /// Time spent on received data, ns.
    pub busy_ns: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures {
            kind,
            session,
            is_connected,
            next_sequence,
            messages,
            malformed,
            unknown_orders,
            refused_orders,
            gaps,
            recovered,
            lost,
            unknown,
            in_doubt,
            requests,
            lines: [a, b],
            connections,
            busy_ns,
        } = self;
        write!(
            formatter,
            "kind={kind},session={session},connected={},next_sequence={next_sequence},\
             messages={messages},malformed={malformed},unknown_orders={unknown_orders},\
             refused_orders={refused_orders},gaps={gaps},recovered={recovered},lost={lost}",
            u8::from(*is_connected)
        )?;
        match *kind {
            "mold" | "native" => write!(
                formatter,
                ",requests={requests},a_packets={},a_lost={},b_packets={},b_lost={}",
                a.0, a.1, b.0, b.1
            )?,
            "mdp" => write!(
                formatter,
                ",unknown_messages={unknown},in_doubt={in_doubt},a_packets={},a_lost={},b_packets={},b_lost={}",
                a.0, a.1, b.0, b.1
            )?,
            _ => write!(formatter, ",connections={connections}")?,
        }
        write!(formatter, ",busy_usec={}", busy_ns / 1_000)
    }
}
