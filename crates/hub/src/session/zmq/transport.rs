//! What carries the frames of a ZeroMQ peer: the connection itself, or a WebSocket on it.
//!
//! The peer's first octet shows it: a ZMTP greeting begins with `FF`, and a request for WebSocket
//! with `GET`. So nothing is sent before the peer has spoken, or has been silent for a while. The
//! octets may come from a socket or from anything else that a lane reads.

use tidewire_fanout::Dialect;
use tidewire_lane::{ConnectionId, Context};
use tidewire_zmtp::Connection;
use tidewire_zmtp::websocket::WebSocket;

/// The carrier of a peer's frames.
#[derive(Debug)]
pub(super) enum Transport {
    /// The peer has sent nothing yet.
    Unknown {
        /// When the peer was accepted, monotonic ns.
        accepted_ns: u64,
    },
    /// ZMTP on the connection itself.
    Plain,
    WebSocket(Box<Framed>),
}

/// A WebSocket, and what has come through it.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) websocket: WebSocket,
    /// The received part of the handshake command or message that is incomplete.
    pub(super) zmtp: Vec<u8>,
}

impl Transport {
    pub(super) fn websocket(websocket: WebSocket) -> Self {
        Transport::WebSocket(Box::new(Framed {
            websocket,
            zmtp: Vec::new(),
        }))
    }

    /// Returns whether it is known.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Transport::Unknown { .. })
    }

    /// Returns the form of messages to the peer.
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Transport::WebSocket(_) => Dialect::Zws,
            Transport::Unknown { .. } | Transport::Plain => Dialect::Zmtp,
        }
    }

    /// Returns when the peer has been silent for so long that it is greeted first.
    pub(super) fn greets_at_ns(&self) -> Option<u64> {
        match self {
            Transport::Unknown { accepted_ns } => Some(accepted_ns + SILENCE_NS),
            Transport::Plain | Transport::WebSocket(_) => None,
        }
    }

    /// Sends what the protocol itself has to say.
    pub(super) fn flush(
        &mut self,
        connection: &mut Connection,
        id: ConnectionId,
        context: &mut Context,
    ) {
        if !self.is_known() {
            return;
        }
        let outgoing = match self {
            Transport::WebSocket(framed) => {
                // A server draws no random numbers, so it cannot fail.
                let _ = framed.websocket.send(connection.outgoing());
                connection.outgoing().clear();
                framed.websocket.outgoing()
            }
            Transport::Unknown { .. } | Transport::Plain => connection.outgoing(),
        };
        if context.out_bytes(id) > UNREAD_BYTES_MAX {
            // The peer sends requests and does not read: replies must not accumulate.
            outgoing.clear();
        }
        if !outgoing.is_empty()
            && let Some(out) = context.out(id)
        {
            out.buffer().append(outgoing);
        }
    }

    /// Says that the connection ends, where the protocol has words for it.
    pub(super) fn close(&mut self) {
        if let Transport::WebSocket(framed) = self {
            framed.websocket.close();
        }
    }

    /// Takes the next frame out of the input. Returns the number of octets, 0 if it is incomplete.
    /// The result is always 0 without a WebSocket.
    pub(super) fn unframe(
        &mut self,
        input: &[u8],
        zmtp: &mut Vec<u8>,
    ) -> Result<usize, tidewire_zmtp::Error> {
        match self {
            Transport::WebSocket(framed) => framed.websocket.receive_frame(input, zmtp),
            Transport::Unknown { .. } | Transport::Plain => Ok(0),
        }
    }

    /// Lends what has come through a WebSocket; [`keep`](Self::keep) takes it back.
    pub(super) fn lend(&mut self) -> Vec<u8> {
        match self {
            Transport::WebSocket(framed) => std::mem::take(&mut framed.zmtp),
            Transport::Unknown { .. } | Transport::Plain => Vec::new(),
        }
    }

    /// Keeps an incomplete frame, and frees unusually large memory.
    pub(super) fn keep(&mut self, mut zmtp: Vec<u8>) {
        if let Transport::WebSocket(framed) = self {
            if zmtp.is_empty() && zmtp.capacity() > KEPT_BYTES_MAX {
                zmtp = Vec::new();
            }
            framed.zmtp = zmtp;
        }
    }
}

/// Appends a message frame for a peer in its form.
pub(super) fn encode(
    connection: &mut Connection,
    dialect: Dialect,
    out: &mut Vec<u8>,
    frame: &[u8],
    more: bool,
) {
    match dialect {
        Dialect::Zws => connection.encode_websocket_frame(out, frame, more),
        _ => connection.encode_message_frame(out, frame, more),
    }
}

/// The first octet of a request for WebSocket: that of `GET`.
pub(super) const FIRST_OF_REQUEST: u8 = b'G';
/// A peer that sends nothing for so long waits for the greeting of ZMTP. Longer than a request that
/// the network lost takes to be sent again.
const SILENCE_NS: u64 = 3_000_000_000;
/// A peer with this many unread bytes gets no more PONGs.
const UNREAD_BYTES_MAX: usize = 32 << 20;
/// Memory that a session keeps between two frames.
const KEPT_BYTES_MAX: usize = 64 << 10;
