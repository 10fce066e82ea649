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
//! // Of what waits for a subscriber that does not keep up, the newest message of each topic.
//! publisher.set(option::CONFLATE_TOPICS, true)?;
//! // Of incoming connections 100 at most may be in the middle of their handshake.
//! publisher.set(option::HANDSHAKES_MAX, 100)?;
//! # Ok::<(), tidewire_zmq::Error>(())
//! ```

/// Limit of bytes queued for one peer, beside `SNDHWM`, which counts messages. A message of any
/// length is taken while fewer bytes are queued. It applies to connections; messages to a socket of
/// the same process are counted by `SNDHWM` alone. 0, the default: no limit.
pub const SNDHWM_BYTES: i32 = 10_001;

/// Limit of bytes received from one peer and queued for the program, beside `RCVHWM`. 0, the
/// default: no limit.
pub const RCVHWM_BYTES: i32 = 10_002;

/// Limit of incoming connections in their handshake. One more ends the oldest of them, so that
/// silent connections cannot keep others out. 0, the default: no limit.
pub const HANDSHAKES_MAX: i32 = 10_003;

/// PUB and XPUB: the number of topics (first frames) whose last message is kept. A new subscriber
/// gets it before later messages. Further topics are not kept. In manual mode the program's own
/// `SUBSCRIBE` counts as the subscription. 0, the default: none.
pub const LAST_VALUES: i32 = 10_004;

/// PUB, XPUB, SUB and XSUB: 1 keeps, of the messages that wait, the newest of each topic (first
/// frame); 0, the default, keeps all up to the high-water mark. On a publisher it is what waits for
/// a subscriber that does not keep up, on a subscriber what waits for the program, for each
/// connection by itself. A message stays whole, whatever its number of frames. A topic keeps its
/// place in the queue when a newer message replaces an older one. `SNDHWM` and `RCVHWM` do not
/// count these messages; [`CONFLATE_TOPICS_MAX`], [`SNDHWM_BYTES`] and [`RCVHWM_BYTES`] do.
/// `CONFLATE`, which keeps one message of all, has no effect beside it.
pub const CONFLATE_TOPICS: i32 = 10_005;

/// Limit of topics that wait for one peer, or from one peer, with [`CONFLATE_TOPICS`]. A publisher
/// drops a message of a further topic, or waits with `XPUB_NODROP`; newer messages of the topics
/// that wait are always taken. A subscriber reads no more from that peer until the program has
/// taken all that waits. 1,000,000 is the default.
pub const CONFLATE_TOPICS_MAX: i32 = 10_006;

/// Longest time, in nanoseconds, for which a call that waits looks for events before it sleeps. The
/// wake-up of a thread that sleeps takes longer than most answers. While waits of the socket last
/// longer than this, the time falls to a 32nd of it; now and then one of these waits is looked
/// through for twice the time. One thread of a socket looks at a time. 50,000 is the default; 0:
/// sleep at once.
pub const SPIN_NS: i32 = 10_007;

/// An event of monitors of version 2: messages to a peer begin to be dropped. Its value is the
/// descriptor of the connection; it comes again when a second has passed without a drop.
pub const EVENT_DROPS_BEGIN: u64 = 0x2_0000;
