//! A ZeroMQ peer's connection: messages out, messages in.

use tidewire_zmtp::websocket::WebSocket;
use tidewire_zmtp::{Config, Connection, Error, Event, SocketType};

use crate::link::Link;
use crate::peer::Around;

/// A ZMTP connection of a simulated peer.
pub(crate) struct ZmqLink {
    link: Link,
    machine: Connection,
    websocket: Option<WebSocket>,
    /// To be sent, and received and not consumed.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Frames of the message that is coming.
    frames: Vec<Vec<u8>>,
}

impl ZmqLink {
    /// Connects. Peers with an odd number speak WebSocket.
    pub(crate) fn open(
        around: &mut Around<'_>,
        port: u16,
        socket_type: SocketType,
        number: usize,
    ) -> Self {
        let config = Config {
            websocket: number % 2 == 1,
            ..Config::new(socket_type)
        };
        let websocket = config.websocket.then(|| {
            let same_always = |bytes: &mut [u8]| {
                bytes.fill(7);
                Ok(())
            };
            WebSocket::client_with("hub", "/", &config, same_always).expect("an address")
        });
        Self {
            link: Link::open(around, port),
            machine: Connection::new(config, around.now_ns),
            websocket,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            frames: Vec::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    pub(crate) fn subscribe(&mut self, prefix: &[u8]) {
        self.machine.encode_subscribe(&mut self.outgoing, prefix);
    }

    pub(crate) fn send(&mut self, topic: &[u8], payload: &[u8]) {
        let out = &mut self.outgoing;
        self.machine.encode_message_frame(out, topic, true);
        self.machine.encode_message_frame(out, payload, false);
    }

    /// Sends and receives a piece; the messages that have come, or `None` when the connection is
    /// closed.
    pub(crate) fn step(
        &mut self,
        around: &mut Around<'_>,
    ) -> Result<Option<Vec<Vec<Vec<u8>>>>, String> {
        self.pour()?;
        let is_open = self.link.step(around) && self.draw()?;
        let mut messages = Vec::new();
        loop {
            let step = self.machine.receive(&self.incoming, around.now_ns);
            let step = step.map_err(|error| format!("ZMTP: {error}"))?;
            let consumed = step.consumed;
            let has_event = step.event.is_some();
            if let Some(Event::Frame { body, more }) = step.event {
                self.frames.push(body.to_vec());
                if !more {
                    messages.push(std::mem::take(&mut self.frames));
                }
            }
            self.incoming.drain(..consumed);
            if consumed == 0 && !has_event {
                break;
            }
        }
        self.pour()?;
        Ok(is_open.then_some(messages))
    }

    /// Hands all output to the link.
    fn pour(&mut self) -> Result<(), String> {
        // What the machine says in its handshake goes before messages, which are sent behind it.
        let mut zmtp = std::mem::take(self.machine.outgoing());
        zmtp.append(&mut self.outgoing);
        let Some(websocket) = &mut self.websocket else {
            self.link.outgoing.append(&mut zmtp);
            return Ok(());
        };
        websocket.send(&zmtp).map_err(|error| error.to_string())?;
        self.link.outgoing.append(websocket.outgoing());
        Ok(())
    }

    /// Takes what the link has received. Returns whether the hub has not said goodbye.
    fn draw(&mut self) -> Result<bool, String> {
        let Some(websocket) = &mut self.websocket else {
            self.incoming.append(&mut self.link.incoming);
            return Ok(true);
        };
        loop {
            match websocket.receive(&self.link.incoming, &mut self.incoming) {
                Ok(0) => return Ok(true),
                Ok(count) => drop(self.link.incoming.drain(..count)),
                Err(Error::Closed) => return Ok(false),
                Err(error) => return Err(format!("WebSocket: {error}")),
            }
        }
    }
}
