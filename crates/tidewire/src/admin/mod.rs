//! `--admin`: metrics, health and readiness over HTTP. One thread beside the lanes serves all
//! connections in one loop, so none of them delays another.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use tidewire_hub::{Hub, denial, metrics, port};
use tidewire_lane::Endpoint;
use tidewire_web::http::{self, Parsed, Status};
use tracing::{debug, warn};

use crate::failure::{Failure, cannot_listen};

/// The listening socket of the HTTP endpoint.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
}

impl Admin {
    /// Listens on a TCP address.
    pub(crate) fn bind(endpoint: &Endpoint) -> Result<Self, Failure> {
        let address = endpoint
            .tcp()
            .ok_or_else(|| Failure::usage(format!("--admin: {endpoint} is not a TCP address")))?;
        let failed = |error| cannot_listen("--admin", endpoint, &error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Admin { listener })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    /// Serves requests on a separate thread until the program ends.
    pub(crate) fn start(self, hub: Arc<Hub>) -> Result<(), Failure> {
        if let Ok(address) = self.listener.local_addr() {
            hub.warn_of_open_port(port::ADMIN, &Endpoint::Tcp(address));
        }
        let mut desk = Desk {
            listener: self.listener,
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

/// All open connections, and the socket that accepts them.
#[derive(Debug)]
struct Desk {
    listener: TcpListener,
    /// Decides which addresses protected mode refuses.
    hub: Option<Arc<Hub>>,
    /// Oldest first.
    watchers: Vec<Watcher>,
    /// No connection is accepted before this time: there was no free descriptor.
    accepts_from: Instant,
    /// Descriptors reserved for this endpoint, so that clients cannot use up all of them.
    spare: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Watcher {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    stage: Stage,
    /// When the connection is closed, even in the middle of a request.
    until: Instant,
    /// Whether protected mode refuses it.
    is_refused: bool,
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
        let mut descriptors: Vec<PollFd<'_>> = Vec::with_capacity(1 + self.watchers.len());
        let listens = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        descriptors.push(PollFd::new(&self.listener, listens));
        for watcher in &self.watchers {
            let flags = match watcher.stage {
                Stage::Answering(_) => PollFlags::OUT,
                _ => PollFlags::IN,
            };
            descriptors.push(PollFd::new(&watcher.stream, flags));
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
            .zip(&ready[1..])
            .filter(|(_, is)| **is)
        {
            watcher.go_on(pages);
        }
        self.watchers
            .retain(|watcher| watcher.stage != Stage::Gone && now < watcher.until);
        if accepts && ready[0] {
            self.accept(now, pages);
        }
    }

    fn accept(&mut self, now: Instant, pages: &impl Fn(&str) -> (Status, String)) {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if self.watchers.len() >= WATCHERS_MAX {
                        // The oldest has had the most time; most likely its peer is idle.
                        self.watchers.remove(0);
                    }
                    let mut watcher = Watcher::new(stream, now);
                    let refuses = |hub: &Arc<Hub>| hub.refuses_stranger(port::ADMIN, Some(peer));
                    watcher.is_refused = self.hub.as_ref().is_some_and(refuses);
                    watcher.go_on(pages);
                    self.watchers.push(watcher);
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
            match fcntl_dupfd_cloexec(&self.listener, 0) {
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
            self.watchers.remove(0);
        }
        has_any
    }
}

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE))
}

impl Watcher {
    fn new(stream: TcpStream, now: Instant) -> Self {
        let is_ready = stream.set_nonblocking(true).is_ok();
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            stage: if is_ready { Stage::Asking } else { Stage::Gone },
            until: now + PATIENCE,
            is_refused: false,
        }
    }

    /// Reads, replies and writes as far as possible without blocking.
    fn go_on(&mut self, pages: &impl Fn(&str) -> (Status, String)) {
        loop {
            let result = match self.stage {
                Stage::Asking => self.read(pages),
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

    fn read(&mut self, pages: &impl Fn(&str) -> (Status, String)) -> std::io::Result<()> {
        let mut part = [0; 2048];
        match self.stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => self.input.extend_from_slice(&part[..count]),
        }
        self.output = match http::parse_request(&self.input) {
            Parsed::Incomplete => return Ok(()),
            Parsed::Request { is_head, .. } if self.is_refused => {
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

    fn write(&mut self, written: usize) -> std::io::Result<()> {
        let written = written + self.stream.write(&self.output[written..])?;
        self.stage = Stage::Answering(written);
        if written == self.output.len() {
            self.stream.shutdown(Shutdown::Write)?;
            self.stage = Stage::Leaving;
        }
        Ok(())
    }

    fn leave(&mut self) -> std::io::Result<()> {
        let mut part = [0; 2048];
        if self.stream.read(&mut part)? == 0 {
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

    #[test]
    fn silent_watchers_do_not_delay_others() {
        let admin = Admin::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = admin.address();
        let mut desk = Desk {
            listener: admin.listener,
            hub: None,
            watchers: Vec::new(),
            accepts_from: Instant::now(),
            spare: Vec::new(),
        };
        let pages = |path: &str| (Status::Ok, format!("{path}\n"));
        let silent: Vec<_> = (0..3 * WATCHERS_MAX)
            .map(|number| {
                let stream = TcpStream::connect(&address).unwrap();
                if number % 2 == 0 {
                    (&stream).write_all(b"GET /half").unwrap();
                }
                desk.turn(&pages);
                stream
            })
            .collect();
        let mut asking = TcpStream::connect(&address).unwrap();
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
