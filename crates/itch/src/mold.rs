//! MoldUDP64: numbered messages in datagrams, on two lines, with retransmission requests.
//!
//! ```text
//!  line A, line B ─▶ receive(side, datagram, now) ─▶ SequencedSink   in order, exactly once
//!  request server ─▶ receive_answer(datagram, now) ─▶ SequencedSink
//!  request server ◀─ take_request()
//!  timer          ◀─ deadline_ns(), then handle_timeout(now)
//! ```
//!
//! [`Receiver`] is the receiver's state machine, [`Sender`] the exchange's. Neither has a socket.

mod packet;
mod receiver;
mod sender;
mod suspect;

#[cfg(test)]
mod tests;

pub use packet::{Header, Messages, Packet, PacketError, decode_packet};
pub use receiver::{Counters, REQUEST_MESSAGES_MAX, Receiver, ReceiverConfig};
pub use sender::{ANSWER_MESSAGES_MAX, Sender, SenderConfig};
