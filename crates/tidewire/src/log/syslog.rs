//! `syslog-enabled`: sends the same lines to the system's log, as `syslog(3)` does.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::Level;

/// The system's log.
#[derive(Debug)]
pub(crate) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
    /// `syslog-facility`, as a number.
    facility: u8,
    /// `syslog-ident`.
    ident: String,
}

impl Syslog {
    /// Connects to the system's log at its usual path. It may start listening later.
    ///
    /// # Errors
    /// No socket can be created.
    pub(crate) fn new(facility: &str, ident: &str) -> io::Result<Self> {
        Self::at(Path::new(PATH), facility, ident)
    }

    fn at(path: &Path, facility: &str, ident: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // The program must not block while the log is not being read.
        socket.set_nonblocking(true)?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            facility: number_of(facility),
            ident: ident.to_owned(),
        })
    }

    /// Sends one line, which is lost if the log does not read it.
    pub(super) fn send(&self, level: Level, line: &[u8]) {
        let severity = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        let priority = self.facility << 3 | severity;
        let mut message =
            format!("<{priority}>{}[{}]: ", self.ident, std::process::id()).into_bytes();
        message.extend_from_slice(line.trim_ascii_end());
        let _ = self.socket.send_to(&message, &self.path);
    }
}

/// Returns the number of a facility: `user`, or `local0` to `local7`.
fn number_of(facility: &str) -> u8 {
    let local = facility.strip_prefix("local");
    match local.and_then(|digit| digit.parse::<u8>().ok()) {
        Some(number @ 0..=7) => 16 + number,
        _ => 1,
    }
}

const PATH: &str = "/dev/log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_with_priority_name_and_process() {
        let path = std::env::temp_dir().join(format!("tidewire-syslog-{}", std::process::id()));
        let reader = UnixDatagram::bind(&path).unwrap();
        let syslog = Syslog::at(&path, "local3", "mine").unwrap();
        syslog.send(Level::WARN, b"told\n");
        let mut bytes = [0; 100];
        let count = reader.recv(&mut bytes).unwrap();
        let expected = format!("<156>mine[{}]: told", std::process::id());
        assert_eq!(bytes[..count], *expected.as_bytes());
        std::fs::remove_file(&path).unwrap();
        // No process listens, so the line is lost without an error.
        syslog.send(Level::INFO, b"lost\n");
        assert_eq!(number_of("user"), 1);
    }
}
