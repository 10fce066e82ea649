//! TCP and Unix sockets as the options want them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, sockopt};
use socket2::SockRef;

use crate::address::unix_address;
use crate::error::Error;
use crate::option_table::until_zero;
use crate::options::Options;
use crate::socket_file::SocketFile;

/// Begins to connect. `true`: it is done already.
pub(crate) fn connect_tcp(
    source: Option<SocketAddr>,
    address: SocketAddr,
    options: &Options,
) -> Result<(OwnedFd, bool), NotConnected> {
    let descriptor = new_socket(family(address))?;
    set_buffers(&descriptor, options);
    set_service(&descriptor, options, address.is_ipv6());
    bind_to_device(&descriptor, options)?;
    if options.tcp_retransmit_ms > 0 {
        sockopt::set_tcp_user_timeout(&descriptor, options.tcp_retransmit_ms as u32)?;
    }
    if let Some(source) = source {
        sockopt::set_socket_reuseaddr(&descriptor, true)?;
        net::bind(&descriptor, &source)?;
    }
    begun(net::connect(&descriptor, &address), descriptor)
}

pub(crate) fn connect_unix(path: &str, options: &Options) -> Result<(OwnedFd, bool), NotConnected> {
    let address = unix_address(path).map_err(|_| Errno::INVAL)?;
    let descriptor = new_socket(AddressFamily::UNIX)?;
    set_buffers(&descriptor, options);
    begun(net::connect(&descriptor, &address), descriptor)
}

/// Begins to connect to a peer that hands over memory.
pub(crate) fn connect_shared(path: &str) -> Result<(OwnedFd, bool), NotConnected> {
    let address = unix_address(path).map_err(|_| Errno::INVAL)?;
    let descriptor = shared_socket()?;
    begun(net::connect(&descriptor, &address), descriptor)
}

fn begun(result: Result<(), Errno>, descriptor: OwnedFd) -> Result<(OwnedFd, bool), NotConnected> {
    match result {
        Ok(()) => Ok((descriptor, true)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((descriptor, false)),
        Err(errno) => Err(NotConnected {
            errno,
            number: raw(&descriptor) as u64,
        }),
    }
}

/// Why an attempt to connect has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotConnected {
    pub(crate) errno: Errno,
    /// The number of the descriptor that was to connect and is closed; 0: there was none.
    pub(crate) number: u64,
}

impl From<Errno> for NotConnected {
    fn from(errno: Errno) -> NotConnected {
        NotConnected { errno, number: 0 }
    }
}

/// Why nothing listens at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotListening {
    pub(crate) error: Error,
    /// The number of the descriptor that was to listen and is closed, if there was one.
    pub(crate) number: Option<u64>,
}

impl<E: Into<Error>> From<E> for NotListening {
    fn from(error: E) -> NotListening {
        NotListening {
            error: error.into(),
            number: None,
        }
    }
}

/// Names the descriptor that an attempt to listen was made with.
fn tried<T>(descriptor: &OwnedFd, result: Result<T, Error>) -> Result<T, NotListening> {
    result.map_err(|error| NotListening {
        error,
        number: Some(raw(descriptor) as u64),
    })
}

/// Listens; gives the address as it was really taken.
pub(crate) fn listen_tcp(
    address: SocketAddr,
    options: &Options,
) -> Result<(OwnedFd, String), NotListening> {
    let descriptor = new_socket(family(address))?;
    let bound = tried(&descriptor, bind_tcp(&descriptor, address, options))?;
    Ok((descriptor, format!("tcp://{bound}")))
}

fn bind_tcp(
    descriptor: &OwnedFd,
    address: SocketAddr,
    options: &Options,
) -> Result<SocketAddr, Error> {
    sockopt::set_socket_reuseaddr(descriptor, true)?;
    if address.is_ipv6() {
        let _ = sockopt::set_ipv6_v6only(descriptor, false);
    }
    set_buffers(descriptor, options);
    set_service(descriptor, options, address.is_ipv6());
    bind_to_device(descriptor, options)?;
    net::bind(descriptor, &address)?;
    net::listen(descriptor, options.backlog)?;
    local_address(descriptor).ok_or(Error::InvalidArgument)
}

pub(crate) fn listen_unix(
    path: &str,
    options: &Options,
) -> Result<(OwnedFd, String, Option<SocketFile>), NotListening> {
    let descriptor = new_socket(AddressFamily::UNIX)?;
    set_buffers(&descriptor, options);
    listen_at(path, "ipc", descriptor, options.backlog)
}

pub(crate) fn listen_shared(
    path: &str,
    options: &Options,
) -> Result<(OwnedFd, String, Option<SocketFile>), NotListening> {
    listen_at(path, "shm", shared_socket()?, options.backlog)
}

fn listen_at(
    path: &str,
    scheme: &str,
    descriptor: OwnedFd,
    backlog: i32,
) -> Result<(OwnedFd, String, Option<SocketFile>), NotListening> {
    let (path, directory) = match path {
        "*" => wildcard_path()?,
        given => (given.to_owned(), None),
    };
    let address = unix_address(&path)?;
    let is_abstract = path.starts_with('@');
    if !is_abstract {
        // What an earlier process left behind would keep this one out.
        let _ = std::fs::remove_file(&path);
    }
    let bound = net::bind(&descriptor, &address).map_err(Error::from);
    tried(&descriptor, bound)?;
    let file = (!is_abstract).then(|| SocketFile::new(&path, directory));
    let listens = net::listen(&descriptor, backlog).map_err(Error::from);
    tried(&descriptor, listens)?;
    Ok((descriptor, format!("{scheme}://{path}"), file))
}

/// A path of its own in the directory for temporary files.
fn wildcard_path() -> Result<(String, Option<PathBuf>), Error> {
    let directory = std::env::temp_dir();
    for _ in 0..16 {
        let name = format!("zmq-{:016x}", crate::clock::random());
        let path = directory.join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => {
                let socket = path.join("socket");
                let text = socket.to_str().ok_or(Error::InvalidArgument)?.to_owned();
                return Ok((text, Some(path)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::System(error.raw_os_error().unwrap_or(2))),
        }
    }
    Err(Error::AddressInUse)
}

/// What every connection gets.
pub(crate) fn tune(descriptor: &OwnedFd, options: &Options) {
    tune_tcp(descriptor, options);
    set_buffers(descriptor, options);
    log_buffers(descriptor);
}

fn tune_tcp(descriptor: &OwnedFd, options: &Options) {
    // All of these fail on Unix sockets, where they mean nothing.
    if sockopt::set_tcp_nodelay(descriptor, true).is_err() {
        return;
    }
    if options.tcp_keepalive >= 0 {
        let _ = sockopt::set_socket_keepalive(descriptor, options.tcp_keepalive > 0);
    }
    if options.tcp_keepalive_count > 0 {
        let _ = sockopt::set_tcp_keepcnt(descriptor, options.tcp_keepalive_count as u32);
    }
    if options.tcp_keepalive_idle > 0 {
        let idle = Duration::from_secs(options.tcp_keepalive_idle as u64);
        let _ = sockopt::set_tcp_keepidle(descriptor, idle);
    }
    if options.tcp_keepalive_interval > 0 {
        let interval = Duration::from_secs(options.tcp_keepalive_interval as u64);
        let _ = sockopt::set_tcp_keepintvl(descriptor, interval);
    }
    if options.tcp_retransmit_ms > 0 {
        let _ = sockopt::set_tcp_user_timeout(descriptor, options.tcp_retransmit_ms as u32);
    }
    if options.type_of_service != 0 || options.priority > 0 || options.busy_poll > 0 {
        // A connection that was accepted does not have all of its listener's.
        let is_ipv6 = local_address(descriptor).is_some_and(|address| address.is_ipv6());
        set_service(descriptor, options, is_ipv6);
    }
}

/// Has the kernel notice the end of a peer that is not heard, also where its machine is gone.
pub(crate) fn notice_end(descriptor: impl AsFd) {
    let descriptor = descriptor.as_fd();
    // It fails on Unix sockets, whose peers are on this machine.
    let _ = sockopt::set_socket_keepalive(descriptor, true);
    let _ = sockopt::set_tcp_keepidle(descriptor, NOTICED_AFTER);
    let _ = sockopt::set_tcp_keepintvl(descriptor, NOTICED_AFTER / 4);
    let _ = sockopt::set_tcp_keepcnt(descriptor, 4);
}

pub(crate) fn set_buffers(descriptor: &OwnedFd, options: &Options) {
    if options.send_buffer_bytes >= 0 {
        let bytes = options.send_buffer_bytes as usize;
        let _ = sockopt::set_socket_send_buffer_size(descriptor, bytes);
    }
    if options.receive_buffer_bytes >= 0 {
        let bytes = options.receive_buffer_bytes as usize;
        let _ = sockopt::set_socket_recv_buffer_size(descriptor, bytes);
    }
}

/// What the kernel made of the wish: it doubles, and caps without a word.
fn log_buffers(descriptor: &OwnedFd) {
    tracing::debug!(
        send_bytes = sockopt::socket_send_buffer_size(descriptor).unwrap_or_default(),
        receive_bytes = sockopt::socket_recv_buffer_size(descriptor).unwrap_or_default(),
        "a connection's buffers"
    );
}

pub(crate) fn set_service(descriptor: &OwnedFd, options: &Options, is_ipv6: bool) {
    if options.type_of_service != 0 {
        let _ = sockopt::set_ip_tos(descriptor, options.type_of_service as u8);
        if is_ipv6 {
            let _ = sockopt::set_ipv6_tclass(descriptor, options.type_of_service as u32);
        }
    }
    // After the type of service, which has a priority of its own.
    let socket = SockRef::from(descriptor);
    if options.priority > 0 {
        let _ = socket.set_priority(options.priority as u32);
    }
    if options.busy_poll > 0 {
        let _ = socket.set_busy_poll(options.busy_poll as u32);
    }
}

/// Only a device that is there can be bound to.
pub(crate) fn bind_to_device(descriptor: &OwnedFd, options: &Options) -> Result<(), Errno> {
    let device = until_zero(&options.device);
    if device.is_empty() {
        return Ok(());
    }
    let device = Some(device);
    let bound = SockRef::from(descriptor).bind_device(device);
    bound.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NODEV))
}

/// Whether the accept filters let a peer in.
pub(crate) fn is_admitted(descriptor: &OwnedFd, options: &Options) -> bool {
    if !options.accept_filters.is_empty()
        && let Some(address) = remote_address(descriptor)
    {
        let ip = address.ip();
        return options
            .accept_filters
            .iter()
            .any(|&(net, bits)| is_within(ip, net, bits));
    }
    let has_ipc_filters = !options.ipc_users.is_empty()
        || !options.ipc_groups.is_empty()
        || !options.ipc_processes.is_empty();
    if has_ipc_filters && let Ok(credentials) = sockopt::socket_peercred(descriptor) {
        return options.ipc_users.contains(&credentials.uid.as_raw())
            || options.ipc_groups.contains(&credentials.gid.as_raw())
            || options
                .ipc_processes
                .contains(&credentials.pid.as_raw_nonzero().get());
    }
    true
}

fn is_within(ip: std::net::IpAddr, net: std::net::IpAddr, bits: u8) -> bool {
    use std::net::IpAddr;
    let ip = ip.to_canonical();
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => {
            debug_assert!(bits <= 32, "an IPv4 filter has up to 32 bits");
            let shift = 32_u32.saturating_sub(u32::from(bits));
            (u32::from(ip) ^ u32::from(net))
                .checked_shr(shift)
                .unwrap_or(0)
                == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) => {
            debug_assert!(bits <= 128, "an IPv6 filter has up to 128 bits");
            let shift = 128_u32.saturating_sub(u32::from(bits));
            (u128::from(ip) ^ u128::from(net))
                .checked_shr(shift)
                .unwrap_or(0)
                == 0
        }
        _ => false,
    }
}

/// Gives a connection within the machine a send buffer of a length that is of use there. The
/// megabytes that one over TCP would grow to push each other out of the caches, and the sender
/// hears of a slow receiver late.
pub(crate) fn set_send_buffer(descriptor: &OwnedFd, bytes: usize) {
    let _ = sockopt::set_socket_send_buffer_size(descriptor, bytes);
}

/// Bounds the bytes that the kernel keeps for a connection over TCP beside those on their way.
pub(crate) fn set_unsent_bytes_max(descriptor: &OwnedFd, bytes: u32) {
    // It fails on a Unix socket, whose buffer is short.
    let _ = SockRef::from(descriptor).set_tcp_notsent_lowat(bytes);
}

pub(crate) fn local_address(descriptor: impl std::os::fd::AsFd) -> Option<SocketAddr> {
    internet(net::getsockname(descriptor).ok()?)
}

pub(crate) fn remote_address(descriptor: impl std::os::fd::AsFd) -> Option<SocketAddr> {
    internet(net::getpeername(descriptor).ok()??)
}

/// The process at the other end of a Unix socket, as libzmq names it: with its user and its group.
/// Empty for other sockets.
pub(crate) fn local_peer(descriptor: impl std::os::fd::AsFd) -> String {
    let own = net::getsockname(&descriptor);
    if !own.is_ok_and(|own| own.address_family() == AddressFamily::UNIX) {
        return String::new();
    }
    let Ok(known) = sockopt::socket_peercred(descriptor) else {
        return String::new();
    };
    let (user, group, process) = (known.uid.as_raw(), known.gid.as_raw(), known.pid);
    format!("localhost:{user}:{group}:{}", process.as_raw_nonzero())
}

fn internet(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// A new descriptor for a transport.
fn new_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_of_type(family, net::SocketType::STREAM)
}

/// The same for shared memory. Its type is another one than that of ipc: the kernel refuses to
/// connect the two.
fn shared_socket() -> Result<OwnedFd, Errno> {
    socket_of_type(AddressFamily::UNIX, net::SocketType::SEQPACKET)
}

fn socket_of_type(family: AddressFamily, kind: net::SocketType) -> Result<OwnedFd, Errno> {
    let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
    net::socket_with(family, kind, flags, None)
}

pub(crate) fn raw(descriptor: &OwnedFd) -> i32 {
    descriptor.as_raw_fd()
}

/// Silence after which the kernel asks whether a peer is still there.
const NOTICED_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Link;
    use crate::{Context, SendFlags, Socket, SocketType};

    /// What of the kernel's settings the tests look at.
    #[derive(Debug, PartialEq, Eq)]
    struct Settings {
        keepalive: bool,
        keepalive_count: u32,
        keepalive_idle: Duration,
        keepalive_interval: Duration,
        retransmit_ms: u32,
        service: u8,
        priority: u32,
    }

    impl Settings {
        fn of(descriptor: impl std::os::fd::AsFd) -> Settings {
            Settings {
                keepalive: sockopt::socket_keepalive(&descriptor).unwrap(),
                keepalive_count: sockopt::tcp_keepcnt(&descriptor).unwrap(),
                keepalive_idle: sockopt::tcp_keepidle(&descriptor).unwrap(),
                keepalive_interval: sockopt::tcp_keepintvl(&descriptor).unwrap(),
                retransmit_ms: sockopt::tcp_user_timeout(&descriptor).unwrap(),
                service: sockopt::ip_tos(&descriptor).unwrap(),
                priority: SockRef::from(&descriptor).priority().unwrap(),
            }
        }
    }

    /// Two sockets with these options and a connection, over which a message has gone.
    fn connected(context: &Context, options: &[(i32, i32)]) -> [Socket; 2] {
        connected_over("tcp://127.0.0.1:*", context, options)
    }

    fn connected_over(endpoint: &str, context: &Context, options: &[(i32, i32)]) -> [Socket; 2] {
        let sockets = [SocketType::Pull, SocketType::Push].map(|kind| {
            let socket = context.socket(kind).unwrap();
            for (option, value) in options {
                socket.set_option(*option, &value.to_ne_bytes()).unwrap();
            }
            socket
        });
        sockets[0].bind(endpoint).unwrap();
        let endpoint = sockets[0].core().lock().last_endpoint.clone();
        sockets[1].connect(&endpoint).unwrap();
        sockets[1]
            .send_bytes(b"hello", SendFlags::default())
            .unwrap();
        assert_eq!(sockets[0].receive(false).unwrap().as_slice(), b"hello");
        sockets
    }

    /// What `look` finds at the connection of a socket that has one.
    fn at_connection<T>(socket: &Socket, look: impl Fn(&crate::link::StreamLink) -> T) -> T {
        let state = socket.core().lock();
        let links = state.peers.values().find_map(|peer| match &peer.link {
            Link::Stream(link) => Some(look(link)),
            _ => None,
        });
        links.expect("a connection")
    }

    const TCP_KEEPALIVE: [(i32, i32); 4] = [(34, 1), (35, 3), (36, 60), (37, 7)];
    const TOS: (i32, i32) = (57, 0x28);
    const TCP_MAXRT: (i32, i32) = (80, 5_000);
    const PRIORITY: (i32, i32) = (112, 3);

    #[test]
    fn both_ends_of_a_connection_are_as_their_options_say() {
        let context = Context::new();
        let mut options = TCP_KEEPALIVE.to_vec();
        options.extend([TOS, TCP_MAXRT, PRIORITY]);
        for socket in &connected(&context, &options) {
            let expected = Settings {
                keepalive: true,
                keepalive_count: 3,
                keepalive_idle: Duration::from_secs(60),
                keepalive_interval: Duration::from_secs(7),
                retransmit_ms: 5_000,
                service: 0x28,
                priority: 3,
            };
            assert_eq!(at_connection(socket, |link| Settings::of(link)), expected);
        }
    }

    #[test]
    fn without_options_a_connection_is_as_the_system_has_it() {
        let context = Context::new();
        let usual = Settings::of(new_socket(AddressFamily::INET).unwrap());
        assert!(!usual.keepalive);
        for socket in &connected(&context, &[]) {
            assert_eq!(at_connection(socket, |link| Settings::of(link)), usual);
        }
        // It can be switched off where the system has it on.
        for socket in &connected(&context, &[(34, 0)]) {
            assert_eq!(at_connection(socket, |link| Settings::of(link)), usual);
        }
    }

    #[test]
    fn the_kernel_may_be_told_to_poll() {
        const BUSY_POLL: (i32, i32) = (113, 20);
        let context = Context::new();
        let probe = new_socket(AddressFamily::INET).unwrap();
        // More than the system has set needs a privilege.
        let expected = match SockRef::from(&probe).set_busy_poll(20) {
            Ok(()) => 20,
            Err(_) => SockRef::from(&probe).busy_poll().unwrap(),
        };
        for socket in &connected(&context, &[BUSY_POLL]) {
            let told = at_connection(socket, |link| SockRef::from(link).busy_poll().unwrap());
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn the_kernels_buffers_are_as_long_as_the_options_say() {
        const SNDBUF: i32 = 11;
        const RCVBUF: i32 = 12;
        let context = Context::new();
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*"] {
            let options = [(SNDBUF, 50_000), (RCVBUF, 60_000)];
            for socket in &connected_over(endpoint, &context, &options) {
                let lengths = at_connection(socket, |link| {
                    let receive = sockopt::socket_recv_buffer_size(link);
                    [sockopt::socket_send_buffer_size(link), receive].map(Result::unwrap)
                });
                // Linux doubles what it is told, for what it keeps beside the bytes.
                assert_eq!(lengths, [100_000, 120_000], "{endpoint}");
            }
        }
    }

    #[test]
    fn a_message_of_256_kib_over_ipc_leaves_in_one_write() {
        let context = Context::new();
        let [_receiver, sender] = &connected_over("ipc://*", &context, &[]);
        let body = vec![7; 256 << 10];
        sender.send_bytes(&body, SendFlags::default()).unwrap();
        assert_eq!(at_connection(sender, |link| link.pending_bytes()), 0);
    }

    #[test]
    fn so_many_wait_to_be_accepted_as_the_backlog_says() {
        for backlog in [0, 1, 5] {
            let options = Options {
                backlog,
                ..Options::default()
            };
            let (_listener, endpoint, file) = listen_unix("*", &options).unwrap();
            let path = endpoint.trim_start_matches("ipc://");
            let tries = (0..20).map(|_| connect_unix(path, &options));
            let (waiting, refused): (Vec<_>, Vec<_>) = tries.partition(Result::is_ok);
            // Linux takes one connection more than the backlog, and refuses the others at once.
            assert!(waiting.iter().flatten().all(|(_, is_done)| *is_done));
            assert_eq!(waiting.len(), backlog as usize + 1);
            assert_eq!(refused.len(), 19 - backlog as usize);
            file.unwrap().remove();
        }
    }

    #[test]
    fn nothing_is_left_of_a_wildcard_path() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        socket.bind("ipc://*").unwrap();
        let endpoint = socket.core().lock().last_endpoint.clone();
        let path = PathBuf::from(endpoint.trim_start_matches("ipc://"));
        assert!(path.exists());
        drop(socket);
        context.terminate().unwrap();
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }
}
