//! MoldUDP64: numbered messages in datagrams, on two lines, with requests for missing ones.
//!
//! ```text
//!  line A, line B ─▶ receive(side, datagram, now) ─▶ SequencedSink   in order, exactly once
//!  request server ─▶ receive_answer(datagram, now) ─▶ SequencedSink
//!  request server ◀─ take_request()
//!  timer          ◀─ deadline_ns(), then handle_timeout(now)
//! ```
//!
//! [`Receiver`] is a listener's machine, [`Sender`] the exchange's; neither has a socket.

mod packet;
mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use packet::{Header, Messages, Packet, PacketError, decode_packet};
pub use receiver::{Counters, REQUEST_MESSAGES_MAX, Receiver, ReceiverConfig};
pub use sender::{ANSWER_MESSAGES_MAX, Sender, SenderConfig};
