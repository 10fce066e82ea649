//! One event loop per core.
//!
//! A [`Lane`] owns its connections: it reads, passes the bytes to an [`Application`], and sends
//! the application's output, with one read and one vectored write per connection and turn. This
//! path crosses no thread. Published messages, accepted connections and the stop signal go
//! through the [`Mailbox`] of the receiving lane.
//!
//! Start with [`Lanes::start`].

mod application;
mod clock;
mod connection;
mod context;
mod dialing;
mod endpoint;
mod event_loop;
mod flush;
mod handshakes;
mod helpers;
mod lanes;
mod leaving;
mod mail_sender;
mod mailbox;
mod network;
mod outbox;
mod ring;
mod secure;
mod sender;
mod stepping;
mod tls_failure;
mod traffic;
mod wake;

pub use application::{Application, CloseReason};
pub use clock::{
    advance_simulated_clock, begin_simulated_clock, instant, monotonic_ns, unguessable_word,
    unix_ms, unix_ns,
};
pub use connection::{ConnectionId, Peer};
pub use context::{Context, LaneCounters};
pub use dialing::{BACK_OFF, Dialing};
pub use endpoint::{
    Endpoint, EndpointError, ListenError, Listener, ListenerHandle, connect_from, secure_place,
};
pub use event_loop::Lane;
pub use lanes::{LaneConfig, Lanes};
pub use mail_sender::MailSender;
pub use mailbox::{Mailbox, Mailboxes};
pub use outbox::{Gate, Outbox};
pub use secure::{TlsAcceptor, TlsConnector};
pub use stepping::SteppedLanes;
pub use tidewire_tls::PeerNames;
pub use tls_failure::TlsFailure;

/// Returns whether the kernel allows io_uring for this process.
pub fn has_io_uring() -> bool {
    ring::Ring::is_possible()
}

/// Returns whether waits are exact to the nanosecond, as far as the lanes have found out.
pub fn waits_exactly() -> bool {
    tidewire_readiness::is_exact()
}
