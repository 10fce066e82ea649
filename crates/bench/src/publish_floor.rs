//! The floor of PUBLISH: a server that parses nothing, keeps nothing, and for each request sends
//! one message to every other connection, in one send each.

use std::io::{self, Write};

use super::floor::{Client, Floor, RequestCount};

/// The bytes of both sides.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Of a connection that begins so: it is a subscriber's.
    pub(super) subscribe: Vec<u8>,
    pub(super) confirmation: Vec<u8>,
    /// Any other sends these, one or more at once.
    pub(super) request: Vec<u8>,
    pub(super) answer: Vec<u8>,
    pub(super) message: Vec<u8>,
}

/// Of a connection.
pub(super) struct State {
    is_subscriber: bool,
    requests: RequestCount,
}

impl Floor for Script {
    type State = State;

    fn greet(&self) -> State {
        State {
            is_subscriber: false,
            requests: RequestCount::new(self.request.len()),
        }
    }

    fn receive(
        &self,
        clients: &mut [Option<Client<State>>],
        index: usize,
        input: &[u8],
    ) -> io::Result<()> {
        let Some(client) = &mut clients[index] else {
            return Ok(());
        };
        if *input == *self.subscribe {
            client.state.is_subscriber = true;
            return client.stream.write_all(&self.confirmation);
        }
        let requests = client.state.requests.add(input.len());
        let messages = self.message.repeat(requests);
        let others = clients.iter_mut().flatten();
        for other in others.filter(|other| requests > 0 && other.state.is_subscriber) {
            // Who has left is taken out when that is read.
            other.state.is_subscriber = other.stream.write_all(&messages).is_ok();
        }
        match &mut clients[index] {
            Some(client) => client.stream.write_all(&self.answer.repeat(requests)),
            None => Ok(()),
        }
    }
}
