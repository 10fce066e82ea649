//! Addresses on which a lane listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::secure::TlsAcceptor;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `tcp://HOST:PORT` or bare `HOST:PORT`; `*` as host means every interface.
    Tcp(SocketAddr),
    /// `ipc://PATH`: a Unix socket.
    Ipc(PathBuf),
}

impl Endpoint {
    /// Returns the same endpoint with another port; a Unix socket is unchanged.
    pub fn with_port(&self, port: u16) -> Self {
        match self {
            Endpoint::Tcp(address) => Endpoint::Tcp(SocketAddr::new(address.ip(), port)),
            Endpoint::Ipc(path) => Endpoint::Ipc(path.clone()),
        }
    }

    /// Returns the TCP address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Endpoint::Tcp(address) => Some(*address),
            Endpoint::Ipc(_) => None,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("ipc://") {
            if path.is_empty() {
                return Err(EndpointError::NoPath);
            }
            return Ok(Endpoint::Ipc(path.into()));
        }
        let address = text.strip_prefix("tcp://").unwrap_or(text);
        if address.contains("://") {
            return Err(EndpointError::UnknownTransport);
        }
        let (host, port) = address.rsplit_once(':').ok_or(EndpointError::NoPort)?;
        let port: u16 = port.parse().map_err(|_| EndpointError::BadPort)?;
        let host = match host {
            "*" => "0.0.0.0",
            host => host.trim_start_matches('[').trim_end_matches(']'),
        };
        // A name such as localhost may have several addresses; clients try IPv4 first.
        let mut found: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|_| EndpointError::UnknownHost)?
            .collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found
            .first()
            .copied()
            .map(Endpoint::Tcp)
            .ok_or(EndpointError::UnknownHost)
    }
}

/// Returns `HOST:PORT` and the host of `tls://HOST:PORT`; `None` for any other text. The host is
/// the name that the server's certificate must have, without the brackets of an IPv6 address.
pub fn secure_place(text: &str) -> Option<(&str, String)> {
    let place = text.strip_prefix("tls://")?;
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Some((place, inner.unwrap_or(host).to_owned()))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(formatter),
            Endpoint::Ipc(path) => write!(formatter, "ipc://{}", path.display()),
        }
    }
}

/// Why a text is not an endpoint.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither `tcp://`, `ipc://` nor bare.
    #[error("unknown transport; use tcp:// or ipc://")]
    UnknownTransport,
    /// `ipc://` without a path.
    #[error("ipc:// needs a path")]
    NoPath,
    /// No `:PORT`.
    #[error("no port; use HOST:PORT")]
    NoPort,
    /// The port is not a number from 0 to 65535.
    #[error("the port is not a number from 0 to 65535")]
    BadPort,
    /// The host is neither an address nor a known name.
    #[error("unknown host")]
    UnknownHost,
}

/// A listening socket with the tag of its connections.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) port: u16,
    endpoint: Endpoint,
    /// The file of a Unix socket, as its path had it after the bind.
    file: Option<FileIdentity>,
    /// The certificate, if its connections use TLS.
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Listens on `endpoint`. Connections are reported with the tag `port`.
    ///
    /// TCP port 0 selects a free port: see [`Listener::endpoint`]. A Unix socket left behind by a
    /// process that has ended is replaced.
    pub fn bind(endpoint: &Endpoint, port: u16) -> Result<Self, ListenError> {
        Self::bind_with(endpoint, port, false)
    }

    /// Like [`Listener::bind`], but `[::]` does not accept IPv4.
    pub fn bind_alone(endpoint: &Endpoint, port: u16) -> Result<Self, ListenError> {
        Self::bind_with(endpoint, port, true)
    }

    fn bind_with(endpoint: &Endpoint, port: u16, is_alone: bool) -> Result<Self, ListenError> {
        let failed = |error: Errno| ListenError {
            endpoint: endpoint.clone(),
            error,
        };
        let socket = match endpoint {
            Endpoint::Tcp(address) => bind_tcp(*address, is_alone),
            Endpoint::Ipc(path) => bind_ipc(path),
        }
        .map_err(failed)?;
        rustix::net::listen(&socket, LISTEN_BACKLOG).map_err(failed)?;
        let endpoint = match endpoint {
            Endpoint::Tcp(_) => {
                let bound = rustix::net::getsockname(&socket).map_err(failed)?;
                Endpoint::Tcp(bound.try_into().map_err(failed)?)
            }
            ipc => ipc.clone(),
        };
        Ok(Self {
            file: file_of(&endpoint),
            socket,
            port,
            endpoint,
            tls: None,
        })
    }

    /// Makes its connections use TLS, with the certificate that `tls` has when they begin.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsAcceptor) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns whether its connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the address, with the port that the kernel chose for port 0.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the tag of its connections.
    pub fn tag(&self) -> u16 {
        self.port
    }

    /// Returns a handle that stops it from elsewhere; `None` for a Unix socket.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn handle(&self) -> std::io::Result<Option<ListenerHandle>> {
        let handle = |address| {
            Ok(ListenerHandle {
                socket: self.socket.try_clone()?,
                address,
                has_tls: self.has_tls(),
            })
        };
        self.endpoint.tcp().map(handle).transpose()
    }
}

impl Listener {
    /// Stops new connections, even if another process holds the socket.
    pub(crate) fn stop(&self) {
        stop_listening(&self.socket);
    }
}

/// Stops a listener that its lane holds.
#[derive(Debug)]
pub struct ListenerHandle {
    socket: OwnedFd,
    address: SocketAddr,
    has_tls: bool,
}

impl ListenerHandle {
    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether its connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Refuses new connections from now on, even before the lane is notified. Existing
    /// connections stay.
    pub fn stop(&self) {
        stop_listening(&self.socket);
    }
}

/// Starts a connection without waiting for it.
pub(crate) fn begin_connection(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = stream_socket(family_of(address.ip()))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Connects to `address` from the local address `source`, and waits up to `timeout`.
///
/// # Errors
/// The machine does not have the address `source`, nothing listens on `address`, or the timeout
/// has passed.
pub fn connect_from(
    source: IpAddr,
    address: SocketAddr,
    timeout: Duration,
) -> std::io::Result<TcpStream> {
    let socket = stream_socket(family_of(source))?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
            let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
            if rustix::event::poll(&mut polled, Some(&timeout))? == 0 {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have bound the path since, as in a restart without a gap.
        if let Endpoint::Ipc(path) = &self.endpoint
            && self.file.is_some()
            && self.file == file_of(&self.endpoint)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Device and number of a file. As long as the socket is open, no other file has them.
type FileIdentity = (u64, u64);

/// Returns which file is at the path of a Unix socket.
fn file_of(endpoint: &Endpoint) -> Option<FileIdentity> {
    let Endpoint::Ipc(path) = endpoint else {
        return None;
    };
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn bind_tcp(address: SocketAddr, is_alone: bool) -> rustix::io::Result<OwnedFd> {
    let socket = stream_socket(family_of(address.ip()))?;
    // A restart must not wait for old connections to leave TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_alone && address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn bind_ipc(path: &Path) -> rustix::io::Result<OwnedFd> {
    let open = || stream_socket(AddressFamily::UNIX);
    let address = SocketAddrUnix::new(path)?;
    let socket = open()?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE)
            if is_socket(path)
                && rustix::net::connect(open()?, &address) == Err(Errno::CONNREFUSED) =>
        {
            let _ = std::fs::remove_file(path);
            rustix::net::bind(&socket, &address)?;
        }
        other => other?,
    }
    Ok(socket)
}

fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    }
}

fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Stops new connections, even if another process holds the socket.
fn stop_listening(socket: &OwnedFd) {
    // Fails if the socket no longer listens.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// Returns whether `path` is a socket. Any other file is not removed: it may belong to a user.
fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// An error of listening on an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenError {
    endpoint: Endpoint,
    error: Errno,
}

impl ListenError {
    /// Returns whether another process listens there.
    pub fn is_in_use(&self) -> bool {
        self.error == Errno::ADDRINUSE
    }

    /// Returns whether the machine does not have the address.
    pub fn is_missing(&self) -> bool {
        self.error == Errno::ADDRNOTAVAIL
    }

    /// Returns whether the machine does not support the protocol, such as IPv6.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.error,
            Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::PFNOSUPPORT | Errno::NOPROTOOPT
        )
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.error {
            Errno::ADDRINUSE => {
                "address already in use; stop the other server or choose another address".to_owned()
            }
            Errno::ACCESS | Errno::PERM => "permission denied".to_owned(),
            Errno::ADDRNOTAVAIL => "no such address on this machine".to_owned(),
            error => std::io::Error::from(error).to_string(),
        };
        write!(formatter, "cannot listen on {}: {reason}", self.endpoint)
    }
}

impl std::error::Error for ListenError {}

/// Connections that wait to be accepted, as in Redis's `tcp-backlog`.
const LISTEN_BACKLOG: i32 = 511;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_users_write_them() {
        let tcp = |text: &str| Endpoint::Tcp(text.parse().unwrap());
        assert_eq!("127.0.0.1:6379".parse(), Ok(tcp("127.0.0.1:6379")));
        assert_eq!("tcp://*:5556".parse(), Ok(tcp("0.0.0.0:5556")));
        assert_eq!("tcp://[::1]:5556".parse(), Ok(tcp("[::1]:5556")));
        assert_eq!("localhost:80".parse(), Ok(tcp("127.0.0.1:80")));
        assert_eq!(
            "ipc:///tmp/hub".parse(),
            Ok(Endpoint::Ipc("/tmp/hub".into()))
        );
        assert_eq!(
            "udp://a:1".parse::<Endpoint>(),
            Err(EndpointError::UnknownTransport)
        );
        assert_eq!("127.0.0.1".parse::<Endpoint>(), Err(EndpointError::NoPort));
        assert_eq!(
            "127.0.0.1:66000".parse::<Endpoint>(),
            Err(EndpointError::BadPort)
        );
        assert_eq!("ipc://".parse::<Endpoint>(), Err(EndpointError::NoPath));
    }

    #[test]
    fn a_port_in_use_is_named_in_the_error() {
        let first = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let error = Listener::bind(first.endpoint(), 0).unwrap_err();
        assert!(error.is_in_use());
        let text = format!(
            "cannot listen on {}: address already in use; stop the other server or choose another address",
            first.endpoint()
        );
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_stopped_listener_leaves_its_address_to_the_next() {
        let first = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 7).unwrap();
        let address = first.endpoint().tcp().unwrap();
        let handle = first.handle().unwrap().unwrap();
        assert_eq!((handle.address(), first.tag()), (address, 7));
        let source = "127.0.0.2".parse().unwrap();
        let connected = connect_from(source, address, Duration::from_secs(5)).unwrap();
        assert_eq!(connected.local_addr().unwrap().ip(), source);
        handle.stop();
        TcpStream::connect(address).unwrap_err();
        let everywhere = format!("*:{}", address.port()).parse().unwrap();
        let second = Listener::bind_alone(&everywhere, 7).unwrap();
        TcpStream::connect(address).unwrap();
        drop((first, second));
        connect_from(source, address, Duration::from_secs(5)).unwrap_err();
    }

    #[test]
    fn a_unix_socket_left_behind_is_taken_over_but_a_live_one_is_not() {
        let path = std::env::temp_dir().join(format!("tidewire-lane-{}", std::process::id()));
        let endpoint = Endpoint::Ipc(path.clone());
        let listener = Listener::bind(&endpoint, 0).unwrap();
        assert!(Listener::bind(&endpoint, 0).unwrap_err().is_in_use());
        drop(listener);
        std::mem::drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::bind(&endpoint, 0).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_listener_that_ends_leaves_the_socket_of_another_one_at_its_path() {
        let path = std::env::temp_dir().join(format!("tidewire-path-{}", std::process::id()));
        let old = Listener::bind(&Endpoint::Ipc(path.clone()), 0).unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());
        drop(new);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let path = std::env::temp_dir().join(format!("tidewire-notes-{}", std::process::id()));
        std::fs::write(&path, "notes").unwrap();
        let error = Listener::bind(&Endpoint::Ipc(path.clone()), 0).unwrap_err();
        assert!(error.is_in_use());
        assert_eq!(std::fs::read(&path).unwrap(), b"notes");
        std::fs::remove_file(path).unwrap();
    }
}
