//! `supervised`: notifies systemd of readiness, reload and stop (`sd_notify(3)`).

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};
use tidewire_hub::HubConfig;
use tidewire_redis::ids::SUPERVISED;
use tracing::{info, warn};

/// The service manager that supervises the process, if any.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
}

impl Supervisor {
    /// Returns the supervisor that the parameter `supervised` and the environment name.
    pub(crate) fn of(config: &HubConfig) -> Self {
        let mode = config.redis.value(SUPERVISED).to_lowercase();
        if mode == "no" {
            return Self::default();
        }
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(path) => match connect(&path) {
                Ok(socket) => {
                    info!("supervised by systemd: READY=1 is sent when the keys are loaded");
                    Self {
                        socket: Some(socket),
                    }
                }
                Err(error) => {
                    warn!(socket = ?path, %error, "cannot notify systemd: NOTIFY_SOCKET is not a valid socket");
                    Self::default()
                }
            },
            None if mode == "systemd" => {
                warn!("supervised systemd: NOTIFY_SOCKET is not set, so systemd is not notified");
                Self::default()
            }
            None => Self::default(),
        }
    }

    /// Notifies that commands are executed from now on.
    pub(crate) fn ready(&self, is_replica: bool) {
        let status = match is_replica {
            true => {
                "Ready to accept connections in read-only mode. Waiting for MASTER <-> REPLICA sync"
            }
            false => "Ready to accept connections",
        };
        self.tell(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Notifies that files are being reopened.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={us}\n"));
    }

    /// Notifies that files have been reopened.
    pub(crate) fn reloaded(&self) {
        self.tell("READY=1\n");
    }

    /// Notifies that the process is stopping.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=Saving and closing connections\n");
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(text.as_bytes())
        {
            warn!(%error, "cannot notify systemd");
        }
    }
}

/// Returns a socket that sends to `path`; a path with `@` in front is an abstract name.
fn connect(path: &OsString) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reader: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let count = reader.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    #[test]
    fn systemd_is_told_at_a_path_and_at_an_abstract_name() {
        let name = format!("tidewire-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        for (reader, place) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.clone().into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{name}").into(),
            ),
        ] {
            let supervisor = Supervisor {
                socket: Some(connect(&place).unwrap()),
            };
            supervisor.ready(false);
            assert_eq!(
                told(&reader),
                "READY=1\nSTATUS=Ready to accept connections\n"
            );
            supervisor.reloading();
            let text = told(&reader);
            let us = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
            assert!(us.trim_end().parse::<u64>().unwrap() > 0);
            supervisor.stopping();
            assert!(told(&reader).starts_with("STOPPING=1\n"));
        }
        std::fs::remove_file(path).unwrap();
        assert!(connect(&"/no/such/socket".into()).is_err());
    }
}
