//! Options and events that libzmq does not have: the numbers, for C and for
//! [`Socket::set_option`](crate::Socket::set_option), which takes them as an `int`. By name they
//! are in [`socket_options`](crate::socket_options). Set them before the socket is bound or
//! connected.
//!
//! ```
//! use tidewire_zmq::{Context, SocketType, socket_options as option};
//!
//! let context = Context::new();
//! let publisher = context.socket(SocketType::Xpub)?;
//! // At most 16 MiB wait for each subscriber, in addition to the limit of SNDHWM in messages.
//! publisher.set(option::SNDHWM_BYTES, 16 << 20)?;
//! // A new subscriber gets the last message of each of up to 10,000 topics.
//! publisher.set(option::LAST_VALUES, 10_000)?;
//! // Of incoming connections 100 at most may be in the middle of their handshake.
//! publisher.set(option::HANDSHAKES_MAX, 100)?;
//! # Ok::<(), tidewire_zmq::Error>(())
//! ```

/// Bytes that may wait for one peer, beside `SNDHWM`, which counts messages. A message is taken
/// while fewer wait, so that one of any length can be sent. For connections; what goes to a socket
/// of the same process is counted in messages alone. 0, the default: no limit.
pub const SNDHWM_BYTES: i32 = 10_001;

/// Bytes received from one peer that may wait for the program, beside `RCVHWM`. 0, the default:
/// no limit.
pub const RCVHWM_BYTES: i32 = 10_002;

/// Incoming connections whose handshake is not done. When there is one more, the oldest of them
/// ends: those that say nothing cannot keep others out. 0, the default: no limit.
pub const HANDSHAKES_MAX: i32 = 10_003;

/// PUB and XPUB: of so many topics (first frames) the last message is kept, and sent to whoever
/// subscribes to it from then on, before what is published later. Further topics are not kept. In
/// manual mode the program's own `SUBSCRIBE` is what counts. 0, the default: none.
pub const LAST_VALUES: i32 = 10_004;

/// An event of monitors of version 2: messages to a peer begin to be dropped. Its value is the
/// descriptor of the connection; it comes again when a second has passed without a drop.
pub const EVENT_DROPS_BEGIN: u64 = 0x2_0000;
