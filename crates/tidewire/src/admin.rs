//! `--admin`: what is counted, for Prometheus, over HTTP. One thread beside the lanes.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidewire_hub::{Hub, metrics};
use tidewire_lane::Endpoint;
use tracing::{debug, warn};

use crate::failure::Failure;

/// A socket that listens for those who watch over the program.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
}

impl Admin {
    /// Listens at a TCP address.
    pub(crate) fn bind(endpoint: &Endpoint) -> Result<Self, Failure> {
        let address = endpoint
            .tcp()
            .ok_or_else(|| Failure::usage(format!("--admin: {endpoint} is no TCP address")))?;
        let listener = TcpListener::bind(address)
            .map_err(|error| Failure::usage(format!("--admin: {endpoint}: {error}")))?;
        Ok(Admin { listener })
    }

    /// Answers on a thread of its own until the program ends.
    pub(crate) fn start(self, hub: Arc<Hub>) -> Result<(), Failure> {
        let serve = move || {
            for stream in self.listener.incoming() {
                match stream {
                    Ok(stream) => {
                        if let Err(error) = answer(stream, &hub) {
                            debug!(%error, "a watcher left");
                        }
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a watcher");
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(serve)
            .map_err(|error| Failure::running(format!("cannot start: {error}")))?;
        Ok(())
    }
}

/// Answers one request. Whoever is slow is left, for others wait.
fn answer(mut stream: TcpStream, hub: &Hub) -> std::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_BYTES_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let line = request.split(|&byte| byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    let (status, body) = match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["GET", "/metrics", _] => ("200 OK", metrics(hub)),
        ["GET", "/health", _] => ("200 OK", "ok\n".to_owned()),
        ["GET", _, _] => (
            "404 Not Found",
            "there are /metrics and /health\n".to_owned(),
        ),
        [_, _, _] => (
            "405 Method Not Allowed",
            "only GET is answered\n".to_owned(),
        ),
        _ => (
            "400 Bad Request",
            "this is no request of HTTP/1\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// After a failure to accept, as when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
