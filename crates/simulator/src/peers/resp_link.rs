//! A Redis client's connection: requests out, replies in.

use std::collections::VecDeque;

use tidewire_hub::port;
use tidewire_resp::{Value, decode, write_request};

use crate::link::Link;
use crate::peer::Around;

/// A connection over which requests are sent and replies come in their order.
#[derive(Debug, Default)]
pub(crate) struct RespLink {
    link: Option<Link>,
    replies: VecDeque<Value>,
}

impl RespLink {
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn connect(&mut self, around: &mut Around<'_>) {
        *self = RespLink {
            link: Some(Link::open(around, port::RESP)),
            replies: VecDeque::new(),
        };
    }

    pub(crate) fn close(&mut self) {
        *self = RespLink::default();
    }

    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let link = self.link.as_mut().expect("a connection to send over");
        write_request(&mut link.outgoing, words);
    }

    /// Sends and receives a piece. The connection is closed if its peer has closed it.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> Result<(), String> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let is_open = link.step(around);
        loop {
            let decoded = decode(&link.incoming).map_err(|error| format!("a reply: {error}"))?;
            let Some((value, count)) = decoded else {
                break;
            };
            link.incoming.drain(..count);
            self.replies.push_back(value);
        }
        if !is_open {
            self.link = None;
        }
        Ok(())
    }

    /// The oldest reply that has come.
    pub(crate) fn reply(&mut self) -> Option<Value> {
        self.replies.pop_front()
    }
}
