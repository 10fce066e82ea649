//! What an input has done, for INFO.

use std::fmt;

use parking_lot::Mutex;

/// Of one input, renewed after each batch.
pub(crate) type Status = Mutex<Figures>;

/// What an input has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// `mold`, `soup` or `native`.
    pub(crate) kind: &'static str,
    pub(crate) session: String,
    pub(crate) is_connected: bool,
    pub(crate) next_sequence: u64,
    pub(crate) messages: u64,
    pub(crate) malformed: u64,
    pub(crate) unknown_orders: u64,
    pub(crate) refused_orders: u64,
    pub(crate) gaps: u64,
    pub(crate) recovered: u64,
    pub(crate) lost: u64,
    pub(crate) requests: u64,
    /// Packets, and sequences passed over, of line A and line B.
    pub(crate) lines: [(u64, u64); 2],
    /// Connections made.
    pub(crate) connections: u64,
    pub(crate) busy_ns: u64,
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
