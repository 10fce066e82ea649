//! What an input has done, for INFO.

use std::fmt;

use parking_lot::Mutex;

/// Of one input, renewed after each batch.
pub type Status = Mutex<Figures>;

/// What an input has done.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// `mold`, `soup` or `native`.
    pub kind: &'static str,
    /// The session's name, as the exchange has it.
    pub session: String,
    /// A session is being received.
    pub is_connected: bool,
    /// The sequence that comes next.
    pub next_sequence: u64,
    /// Messages applied.
    pub messages: u64,
    /// Messages that break the format.
    pub malformed: u64,
    /// Messages about unknown orders.
    pub unknown_orders: u64,
    /// Orders that the book did not take.
    pub refused_orders: u64,
    /// Sequences that were missing for a while.
    pub gaps: u64,
    /// Messages that were missing for a while and then came.
    pub recovered: u64,
    /// Messages that will never come.
    pub lost: u64,
    /// Requests for messages that were missing.
    pub requests: u64,
    /// Packets, and sequences passed over, of line A and line B.
    pub lines: [(u64, u64); 2],
    /// Connections made.
    pub connections: u64,
    /// Time spent on what came, ns.
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
            _ => write!(formatter, ",connections={connections}")?,
        }
        write!(formatter, ",busy_usec={}", busy_ns / 1_000)
    }
}
