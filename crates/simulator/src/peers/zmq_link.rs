//! A ZeroMQ peer's connection: messages out, messages in.

use tidewire_zmtp::{Config, Connection, Event, SocketType};

use crate::link::Link;
use crate::peer::Around;

/// A ZMTP connection of a simulated peer.
pub(crate) struct ZmqLink {
    link: Link,
    machine: Connection,
    /// Frames of the message that is coming.
    frames: Vec<Vec<u8>>,
}

impl ZmqLink {
    pub(crate) fn open(around: &mut Around<'_>, port: u16, socket_type: SocketType) -> Self {
        Self {
            link: Link::open(around, port),
            machine: Connection::new(Config::new(socket_type), around.now_ns),
            frames: Vec::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    pub(crate) fn subscribe(&mut self, prefix: &[u8]) {
        self.machine
            .encode_subscribe(&mut self.link.outgoing, prefix);
    }

    pub(crate) fn send(&mut self, topic: &[u8], payload: &[u8]) {
        let out = &mut self.link.outgoing;
        self.machine.encode_message_frame(out, topic, true);
        self.machine.encode_message_frame(out, payload, false);
    }

    /// Sends and receives a piece; the messages that have come, or `None` when the connection is
    /// closed.
    pub(crate) fn step(
        &mut self,
        around: &mut Around<'_>,
    ) -> Result<Option<Vec<Vec<Vec<u8>>>>, String> {
        self.link.outgoing.append(self.machine.outgoing());
        let is_open = self.link.step(around);
        let mut messages = Vec::new();
        loop {
            let step = self.machine.receive(&self.link.incoming, around.now_ns);
            let step = step.map_err(|error| format!("ZMTP: {error}"))?;
            let consumed = step.consumed;
            let has_event = step.event.is_some();
            if let Some(Event::Frame { body, more }) = step.event {
                self.frames.push(body.to_vec());
                if !more {
                    messages.push(std::mem::take(&mut self.frames));
                }
            }
            self.link.incoming.drain(..consumed);
            if consumed == 0 && !has_event {
                break;
            }
        }
        self.link.outgoing.append(self.machine.outgoing());
        Ok(is_open.then_some(messages))
    }
}
