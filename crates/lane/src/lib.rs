//! One event loop a core.
//!
//! A [`Lane`] owns its connections for their life: it reads, hands the bytes to an [`Application`],
//! and sends what the application wrote, one read and one vectored write a connection a turn.
//! Nothing on that path crosses a thread. What must cross (a published message, an accepted
//! connection, the order to stop) goes through the [`Mailbox`] of the other lane.
//!
//! Start with [`Lanes::start`].

mod application;
mod connection;
mod context;
mod endpoint;
mod event_loop;
mod flush;
mod lanes;
mod mailbox;
mod outbox;
mod ring;
mod sender;
mod traffic;

pub use application::{Application, CloseReason};
pub use connection::{ConnectionId, Peer};
pub use context::{Context, LaneCounters};
pub use endpoint::{Endpoint, EndpointError, ListenError, Listener, ListenerHandle, connect_from};
pub use event_loop::Lane;
pub use lanes::{LaneConfig, Lanes};
pub use mailbox::{Mailbox, Mailboxes};
pub use outbox::Outbox;
