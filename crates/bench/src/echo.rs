//! The floor: a server that parses nothing and answers `+OK` to each fixed number of bytes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::floor::{self, BUFFER_BYTES, Client, Floor, RequestCount};
use super::processor_time::{Cores, ProcessorClock};

/// A running echo server; its thread ends with the program.
#[derive(Debug)]
pub(crate) struct EchoServer {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ProcessorClock,
    request_bytes: Arc<AtomicUsize>,
}

impl EchoServer {
    /// Starts it on the servers' core.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn start(cores: Cores) -> io::Result<Self> {
        let request_bytes = Arc::new(AtomicUsize::new(1));
        let echo = Echo {
            request_bytes: request_bytes.clone(),
            replies: REPLY.repeat(BUFFER_BYTES),
        };
        let (address, clock) = floor::start(echo, cores)?;
        Ok(Self {
            address,
            clock,
            request_bytes,
        })
    }

    /// Sets the length of a request, for connections made from now on.
    pub(crate) fn set_request_bytes(&self, length: usize) {
        self.request_bytes.store(length, Ordering::SeqCst);
    }
}

struct Echo {
    request_bytes: Arc<AtomicUsize>,
    /// As many replies as one receive call can require.
    replies: Vec<u8>,
}

impl Floor for Echo {
    type State = RequestCount;

    fn greet(&self) -> RequestCount {
        RequestCount::new(self.request_bytes.load(Ordering::SeqCst))
    }

    fn receive(
        &self,
        clients: &mut [Option<Client<RequestCount>>],
        index: usize,
        input: &[u8],
    ) -> io::Result<()> {
        let Some(client) = &mut clients[index] else {
            return Ok(());
        };
        let requests = client.state.add(input.len());
        let replies = &self.replies[..requests * REPLY.len()];
        client.stream.write_all(replies)
    }
}

const REPLY: &[u8] = b"+OK\r\n";

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use super::super::load::Load;
    use super::super::open_loop::OpenLoop;
    use super::super::requests::{Requests, Workset};
    use super::*;

    fn echo(requests: &Requests) -> EchoServer {
        let echo = EchoServer::start(Cores::new(false)).unwrap();
        echo.set_request_bytes(requests.length());
        echo
    }

    #[test]
    fn every_request_of_a_closed_loop_is_answered_and_counted() {
        let requests = Requests::set(Workset::default());
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..3, 16).unwrap();
        let outcome = load.run(Duration::from_millis(20)).unwrap();
        assert!(outcome.operations > 0);
        assert_eq!(outcome.operations, outcome.latency_ns.len());
    }

    #[test]
    fn an_open_loop_asks_as_often_as_it_should_however_late_the_answers() {
        let requests = Requests::get(Workset::default()).answered_ok();
        let echo = echo(&requests);
        let rate = NonZeroU64::new(10_000).unwrap();
        let mut load = OpenLoop::start(echo.address, &requests, 3, rate).unwrap();
        let outcome = load.run(Duration::from_millis(50)).unwrap();
        assert_eq!(outcome.operations, 500);
        assert_eq!(outcome.operations, outcome.latency_ns.len());
    }

    #[test]
    fn an_open_loop_takes_each_answer_of_a_mix_for_its_own_request() {
        let requests = Requests::mixed(Workset::default(), 50);
        let echo = echo(&requests);
        let rate = NonZeroU64::new(10_000).unwrap();
        let mut load = OpenLoop::start(echo.address, &requests, 3, rate).unwrap();
        // The echo answers +OK to all, which is wrong for a GET.
        let error = load.run(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("unexpected reply"), "{error}");
    }

    #[test]
    fn requests_longer_than_a_socket_takes_arrive_whole() {
        let requests = Requests::set(Workset::of(65_536));
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..2, 256).unwrap();
        let outcome = load.run(Duration::from_millis(100)).unwrap();
        assert!(outcome.operations > 0);
    }

    #[test]
    fn a_server_that_answers_wrongly_is_not_measured() {
        let requests = Requests::get(Workset::default());
        let echo = echo(&requests);
        let mut load = Load::start(echo.address, &requests, 0..1, 1).unwrap();
        let error = load.run(Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("unexpected reply"), "{error}");
    }
}
