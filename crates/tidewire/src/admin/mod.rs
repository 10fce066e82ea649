//! `--admin` and `--admin-tls`: metrics, health and readiness over HTTP and HTTPS. One thread
//! beside the lanes serves all connections in one loop, so none of them delays another.

mod stream;

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use tidewire_hub::{Hub, denial, metrics, port};
use tidewire_lane::{Endpoint, LaneCounters, TlsAcceptor};
use tidewire_web::http::{self, Parsed, Status};
use tracing::{debug, warn};

use self::stream::Stream;
use crate::config::Config;
use crate::failure::{Failure, cannot_listen};

/// The listening sockets of the HTTP endpoint.
#[derive(Debug)]
pub(crate) struct Admin {
    /// At least one.
    doors: Vec<Door>,
}

/// A listening socket.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    /// The certificate, if its clients use TLS.
    tls: Option<TlsAcceptor>,
}

impl Admin {
    /// Listens on the configured addresses, if there are any.
    pub(crate) fn bind(config: &Config) -> Result<Option<Self>, Failure> {
        let mut doors = Vec::new();
        if let Some(endpoint) = &config.admin {
            doors.push(Door::bind("--admin", endpoint, None)?);
        }
        for place in config
            .tls_places
            .iter()
            .filter(|one| one.port == port::ADMIN)
        {
            let tls = config.hub.redis.tls.clone();
            doors.push(Door::bind(place.option, &place.endpoint, Some(tls))?);
        }
        Ok((!doors.is_empty()).then_some(Admin { doors }))
    }

    /// Returns the addresses it listens on, with the options that name them.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.doors.iter().map(|door| {
            let name = if door.tls.is_some() {
                "admin-tls"
            } else {
                "admin"
            };
            let address = door.listener.local_addr();
            (
                name,
                address.map_or_else(|error| error.to_string(), |address| address.to_string()),
            )
        })
    }

    /// Serves requests on a separate thread until the program ends.
    pub(crate) fn start(self, hub: Arc<Hub>) -> Result<(), Failure> {
        for door in &self.doors {
            if let Ok(address) = door.listener.local_addr() {
                let endpoint = Endpoint::Tcp(address);
                hub.warn_of_open_port(port::ADMIN, &endpoint, door.tls.is_some());
            }
        }
        let mut desk = Desk {
            doors: self.doors,
            // INFO and the metrics show the sum of the lanes.
            counters: hub.server.lanes[0].clone(),
            hub: Some(hub.clone()),
            watchers: Vec::new(),
            accepts_from: Instant::now(),
            spare: Vec::new(),
        };
        let pages = move |path: &str| page(&hub, path);
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                loop {
                    desk.turn(&pages);
                }
            })
            .map_err(|error| Failure::running(format!("cannot start: {error}")))?;
        Ok(())
    }
}

impl Door {
    fn bind(option: &str, endpoint: &Endpoint, tls: Option<TlsAcceptor>) -> Result<Self, Failure> {
        let address = endpoint
            .tcp()
            .ok_or_else(|| Failure::usage(format!("{option}: {endpoint} is not a TCP address")))?;
        let failed = |error| cannot_listen(option, endpoint, &error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Door { listener, tls })
    }
}

/// Returns the reply to a GET of a path.
fn page(hub: &Hub, path: &str) -> (Status, String) {
    match path {
        "/metrics" => (Status::Ok, metrics(hub)),
        "/health" => (Status::Ok, "ok\n".to_owned()),
        "/ready" => {
            let missing = hub.missing();
            let lines: String = missing.iter().map(|line| format!("{line}\n")).collect();
            match missing.is_empty() {
                true => (Status::Ok, "ready\n".to_owned()),
                false => (Status::Unavailable, lines),
            }
        }
        _ => (Status::NotFound, refusal(Status::NotFound).to_owned()),
    }
}

/// Returns the body of the reply to a refused request.
fn refusal(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok\n",
        Status::BadRequest => "not an HTTP/1 request\n",
        Status::Forbidden => "protected mode refuses connections from other machines\n",
        Status::NotFound => "not found; the pages are /metrics, /health and /ready\n",
        Status::MethodNotAllowed => "only GET and HEAD are allowed\n",
        Status::LineTooLong => "the first line is longer than 2048 bytes\n",
        Status::HeadTooLong => "the request is longer than 8192 bytes\n",
        Status::Unavailable => "not ready\n",
    }
}

/// All open connections, and the sockets that accept them.
#[derive(Debug)]
struct Desk {
    doors: Vec<Door>,
    /// Decides which addresses protected mode refuses.
    hub: Option<Arc<Hub>>,
    /// Where its handshakes are counted.
    counters: Arc<LaneCounters>,
    /// Oldest first.
    watchers: Vec<Watcher>,
    /// No connection is accepted before this time: there was no free descriptor.
    accepts_from: Instant,
    /// Descriptors reserved for this endpoint, so that clients cannot use up all of them.
    spare: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Watcher {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    stage: Stage,
    /// When the connection is closed, even in the middle of a request.
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request is not complete yet.
    Asking,
    /// This many bytes of the reply have been sent.
    Answering(usize),
    /// The reply has been sent. Further input is discarded until the peer closes: with unread
    /// input, the kernel would reset the connection and the reply would be lost.
    Leaving,
    Gone,
}

impl Desk {
    /// Waits until a connection is ready, and serves it.
    fn turn(&mut self, pages: &impl Fn(&str) -> (Status, String)) {
        self.keep_spare();
        let now = Instant::now();
        let accepts = now >= self.accepts_from;
        let untils = self.watchers.iter().map(|watcher| watcher.until);
        let untils = untils.chain((!accepts).then_some(self.accepts_from));
        let timeout = untils.min().map(|until| {
            let wait = until.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let doors = self.doors.len();
        let mut descriptors: Vec<PollFd<'_>> = Vec::with_capacity(doors + self.watchers.len());
        let listens = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let listeners = self.doors.iter();
        descriptors.extend(listeners.map(|door| PollFd::new(&door.listener, listens)));
        for watcher in &self.watchers {
            let flags = match watcher.stage {
                Stage::Answering(_) => PollFlags::OUT,
                Stage::Asking => watcher.stream.reads_after(),
                Stage::Leaving | Stage::Gone => PollFlags::IN,
            };
            descriptors.push(PollFd::new(&watcher.stream.socket, flags));
        }
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, timeout.as_ref());
        let ready: Vec<bool> = descriptors
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect();
        let now = Instant::now();
        for (watcher, _) in self
            .watchers
            .iter_mut()
            .zip(&ready[doors..])
            .filter(|(_, is)| **is)
        {
            watcher.go_on(self.hub.as_deref(), pages);
        }
        self.watchers.retain_mut(|watcher| {
            let is_late = now >= watcher.until;
            if is_late {
                watcher.stream.give_up(false);
            }
            watcher.stage != Stage::Gone && !is_late
        });
        for number in (0..doors).filter(|number| accepts && ready[*number]) {
            self.accept(number, now, pages);
        }
    }

    fn accept(&mut self, door: usize, now: Instant, pages: &impl Fn(&str) -> (Status, String)) {
        loop {
            match self.doors[door].listener.accept() {
                Ok((socket, peer)) => {
                    if self.watchers.len() >= WATCHERS_MAX {
                        // The oldest has had the most time; most likely its peer is idle.
                        self.remove_oldest();
                    }
                    let tls = self.doors[door].tls.as_ref();
                    let stream = Stream::accept(socket, peer, tls, &self.counters);
                    let Some(stream) = stream else { continue };
                    let mut watcher = Watcher::new(stream, now);
                    watcher.go_on(self.hub.as_deref(), pages);
                    if watcher.stage != Stage::Gone {
                        self.watchers.push(watcher);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if is_out_of_descriptors(&error) && self.make_room() => {}
                Err(error) => {
                    warn!(%error, "cannot accept a watcher");
                    self.accepts_from = now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    /// Reserves descriptors for the next connections, if any are free.
    fn keep_spare(&mut self) {
        while self.spare.len() < SPARE {
            match fcntl_dupfd_cloexec(&self.doors[0].listener, 0) {
                Ok(descriptor) => self.spare.push(descriptor),
                Err(_) => return,
            }
        }
    }

    /// Frees a descriptor: a reserved one or that of the oldest connection. Returns false if there
    /// is none.
    fn make_room(&mut self) -> bool {
        if self.spare.pop().is_some() {
            return true;
        }
        let has_any = !self.watchers.is_empty();
        if has_any {
            self.remove_oldest();
        }
        has_any
    }

    fn remove_oldest(&mut self) {
        let mut oldest = self.watchers.remove(0);
        oldest.stream.give_up(true);
    }
}

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE))
}

impl Watcher {
    fn new(stream: Stream, now: Instant) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            stage: Stage::Asking,
            until: now + PATIENCE,
        }
    }

    /// Reads, replies and writes as far as possible without blocking. `hub` decides which addresses
    /// protected mode refuses.
    fn go_on(&mut self, hub: Option<&Hub>, pages: &impl Fn(&str) -> (Status, String)) {
        loop {
            let result = match self.stage {
                Stage::Asking => self.read(hub, pages),
                Stage::Answering(written) => self.write(written),
                Stage::Leaving => self.leave(),
                Stage::Gone => return,
            };
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    debug!(%error, "a watcher left");
                    self.stage = Stage::Gone;
                }
            }
        }
    }

    fn read(
        &mut self,
        hub: Option<&Hub>,
        pages: &impl Fn(&str) -> (Status, String),
    ) -> std::io::Result<()> {
        let mut part = [0; 2048];
        match self.stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => self.input.extend_from_slice(&part[..count]),
        }
        let (peer, has_certificate) = (self.stream.peer(), self.stream.has_certificate());
        let is_refused = || {
            hub.is_some_and(|hub| hub.refuses_stranger(port::ADMIN, Some(peer), has_certificate))
        };
        self.output = match http::parse_request(&self.input) {
            Parsed::Incomplete => return Ok(()),
            Parsed::Request { is_head, .. } if is_refused() => {
                let text = format!("{}\n", denial(port::ADMIN));
                http::response(Status::Forbidden, CONTENT_TYPE, &text, is_head)
            }
            Parsed::Request { path, is_head } => {
                let (status, body) = pages(&path);
                http::response(status, CONTENT_TYPE, &body, is_head)
            }
            Parsed::Refused(status) => http::response(status, CONTENT_TYPE, refusal(status), false),
        };
        self.stage = Stage::Answering(0);
        Ok(())
    }

    fn write(&mut self, mut written: usize) -> std::io::Result<()> {
        if written < self.output.len() {
            written += self.stream.write(&self.output[written..])?;
            self.stage = Stage::Answering(written);
        }
        if written == self.output.len() {
            self.stream.finish()?;
            self.stage = Stage::Leaving;
        }
        Ok(())
    }

    fn leave(&mut self) -> std::io::Result<()> {
        if self.stream.discard()? {
            self.stage = Stage::Gone;
        }
        Ok(())
    }
}

/// Prometheus's text format; other clients show it as plain text.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Maximum number of connections.
const WATCHERS_MAX: usize = 32;
/// Maximum time from a connection's first byte to the end of its reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// Descriptors reserved for connections.
const SPARE: usize = 4;
/// Pause after a failed `accept`, for example without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn silent_watchers_do_not_delay_others() {
        let endpoint = "127.0.0.1:0".parse().unwrap();
        let door = Door::bind("--admin", &endpoint, None).unwrap();
        let address = door.listener.local_addr().unwrap();
        let mut desk = Desk {
            doors: vec![door],
            hub: None,
            counters: Arc::default(),
            watchers: Vec::new(),
            accepts_from: Instant::now(),
            spare: Vec::new(),
        };
        let pages = |path: &str| (Status::Ok, format!("{path}\n"));
        let silent: Vec<_> = (0..3 * WATCHERS_MAX)
            .map(|number| {
                let stream = TcpStream::connect(address).unwrap();
                if number % 2 == 0 {
                    (&stream).write_all(b"GET /half").unwrap();
                }
                desk.turn(&pages);
                stream
            })
            .collect();
        let mut asking = TcpStream::connect(address).unwrap();
        asking.write_all(b"GET /one HTTP/1.1\r\n\r\n").unwrap();
        while !desk.watchers.iter().any(|one| one.stage == Stage::Leaving) {
            desk.turn(&pages);
        }
        assert!(desk.watchers.len() <= WATCHERS_MAX);
        let mut text = String::new();
        asking.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\r\n\r\n/one\n"), "{text}");
        drop(silent);
    }
}
