//! The connection to a hub's feed, on a thread of its own: made again whenever it ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_feed::client::{Client, ClientConfig, Side};
use tidewire_feed::wire::ClientName;
use tidewire_hub::unix_ns;
use tidewire_lane::Endpoint;

use super::model::{Model, State};
use crate::failure::Failure;
use crate::stop::Stop;

/// A hub's stream, and what it has said.
pub(super) struct Link {
    model: Arc<Mutex<Model>>,
    endpoint: Endpoint,
    thread: JoinHandle<()>,
}

impl Link {
    /// Connects in the background, and stays at it until told to `stop`.
    pub(super) fn start(
        endpoint: &Endpoint,
        patterns: &[String],
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let usage = |text: &dyn std::fmt::Display| Failure::usage(format!("--from: {text}"));
        let address = endpoint
            .tcp()
            .ok_or_else(|| usage(&"a TCP address is expected"))?;
        let mut client = Client::new(ClientConfig {
            name: ClientName::truncated("watch"),
            ..ClientConfig::default()
        });
        for pattern in patterns {
            client.subscribe(pattern).map_err(|error| usage(&error))?;
        }
        let model = Arc::new(Mutex::new(Model::new()));
        let receiver = Receiver {
            address,
            client,
            model: model.clone(),
            stop: stop.clone(),
            started: Instant::now(),
            input: Vec::new(),
            out: Vec::new(),
            chunk: vec![0; CHUNK_BYTES],
        };
        let thread = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || receiver.run())
            .map_err(|error| Failure::running(format!("cannot start: {error}")))?;
        Ok(Self {
            model,
            endpoint: endpoint.clone(),
            thread,
        })
    }

    /// What the stream has said; held for moments.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether the receiver has ended by itself, which it never should.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }
}

struct Receiver {
    address: SocketAddr,
    client: Client,
    model: Arc<Mutex<Model>>,
    stop: Stop,
    started: Instant,
    input: Vec<u8>,
    out: Vec<u8>,
    chunk: Vec<u8>,
}

impl Receiver {
    fn run(mut self) {
        let mut failures = 0;
        while !self.stop.is_asked() {
            self.model().connecting();
            let reason = match self.connection() {
                Ok(()) => return,
                Err(reason) => reason,
            };
            self.client.disconnected(Side::A);
            let mut model = self.model();
            failures = match model.connection.state {
                State::Connected | State::Ended => 0,
                _ => failures + 1,
            };
            // What the hub itself has said is worth more than that it closed.
            let said = std::mem::take(&mut model.connection.reason);
            model.lost(if said.is_empty() { reason } else { said });
            drop(model);
            std::thread::sleep(retry_delay(failures));
        }
    }

    /// One connection, from its beginning to its end; `Ok` when told to stop.
    fn connection(&mut self) -> Result<(), String> {
        let mut stream = TcpStream::connect_timeout(&self.address, CONNECT_TIME_MAX)
            .map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .map_err(|error| error.to_string())?;
        self.input.clear();
        self.out.clear();
        self.client.connected(Side::A, self.now_ns());
        while !self.stop.is_asked() {
            self.write(&mut stream)?;
            self.wait(&stream);
            self.read(&mut stream)?;
            let now_ns = self.now_ns();
            if self.client.deadline_ns() <= now_ns {
                let mut model = lock(&self.model);
                self.client.handle_timeout(now_ns, &mut *model);
            }
            if self.client.is_silent(Side::A, now_ns) {
                return Err("it has fallen silent".to_owned());
            }
        }
        Ok(())
    }

    fn write(&mut self, stream: &mut TcpStream) -> Result<(), String> {
        self.client.drain_outgoing(Side::A, &mut self.out);
        while !self.out.is_empty() {
            match stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if is_temporary(&error) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Takes what has come, a bounded number of times: what is drawn waits for the model.
    fn read(&mut self, stream: &mut TcpStream) -> Result<(), String> {
        for _ in 0..READS_MAX {
            match stream.read(&mut self.chunk) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => self.take(count)?,
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<(), String> {
        self.input.extend_from_slice(&self.chunk[..count]);
        let now_ns = self.now_ns();
        let (counters, side) = (*self.client.counters(), *self.client.side_counters(Side::A));
        let mut model = lock(&self.model);
        model.received_ns = unix_ns();
        let used = self
            .client
            .receive(Side::A, &self.input, now_ns, &mut *model);
        model.count(&counters, self.client.counters());
        let after = self.client.side_counters(Side::A);
        model.loss.corrupt += after.corrupt - side.corrupt;
        model.loss.duplicate += after.duplicate - side.duplicate;
        model.next_sequence = self.client.next_sequence();
        drop(model);
        let used = used.map_err(|error| error.to_string())?;
        self.input.drain(..used);
        Ok(())
    }

    fn wait(&self, stream: &TcpStream) {
        let mut flags = PollFlags::IN;
        if !self.out.is_empty() {
            flags |= PollFlags::OUT;
        }
        let left_ns = self.client.deadline_ns().saturating_sub(self.now_ns());
        let wait_ns = left_ns.min(WAIT_NS_MAX);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait_ns as i64,
        };
        let mut descriptors = [PollFd::from_borrowed_fd(stream.as_fd(), flags)];
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Doubles up to two seconds, with jitter: whoever lost the same hub does not come back in step.
fn retry_delay(failures: u32) -> Duration {
    let longest_ms = (RETRY_MS_FIRST << failures.min(8)).min(RETRY_MS_MAX);
    Duration::from_millis(longest_ms / 2 + unix_ns() / 1_000 % (longest_ms / 2 + 1))
}

const RETRY_MS_FIRST: u64 = 10;
const RETRY_MS_MAX: u64 = 2_000;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// How soon a request to stop is noticed.
const WAIT_NS_MAX: u64 = 100_000_000;
const CHUNK_BYTES: usize = 256 * 1024;
const READS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_soon_at_first_and_never_far_apart() {
        assert!(retry_delay(0) <= Duration::from_millis(10));
        let late = retry_delay(100);
        assert!(late >= Duration::from_secs(1) && late <= Duration::from_secs(2));
    }
}
