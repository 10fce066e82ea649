//! What can go wrong, with libzmq's numbers.

/// Why an operation failed. [`Error::errno`] is the number that libzmq would set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It would have to wait, and was told not to, or the time was up.
    #[error("the call would block")]
    Again,
    /// A signal came while it waited.
    #[error("interrupted by a signal")]
    Interrupted,
    /// The context is being terminated.
    #[error("the context is terminated")]
    Terminated,
    /// Not at this point of the socket's state machine (a REQ that has sent must receive).
    #[error("not allowed in this state of the socket")]
    WrongState,
    /// This socket type cannot do it.
    #[error("not supported by this socket type")]
    NotSupported,
    /// An argument makes no sense.
    #[error("invalid argument")]
    InvalidArgument,
    /// The transport is unknown or not built in.
    #[error("unknown transport")]
    UnknownTransport,
    /// The transport does not fit the socket type.
    #[error("the socket type does not support this transport")]
    IncompatibleTransport,
    /// Nothing is bound or connected under this endpoint.
    #[error("no such endpoint")]
    NoSuchEndpoint,
    /// The address is in use.
    #[error("the address is in use")]
    AddressInUse,
    /// The machine does not have this address.
    #[error("the address is not of this machine")]
    AddressNotAvailable,
    /// There is no such network device.
    #[error("no such device")]
    NoSuchDevice,
    /// An in-process endpoint that is not bound, or a peer that is gone.
    #[error("connection refused")]
    ConnectionRefused,
    /// No peer has this routing id.
    #[error("no route to this peer")]
    HostUnreachable,
    /// The socket is closed, or is none.
    #[error("not a socket")]
    NotSocket,
    /// Too many sockets or descriptors.
    #[error("too many open descriptors")]
    TooManyDescriptors,
    /// A message is longer than allowed.
    #[error("the message is too long")]
    MessageTooLong,
    /// A path is longer than the system allows.
    #[error("the name is too long")]
    NameTooLong,
    /// An argument points nowhere.
    #[error("bad address")]
    Fault,
    /// No I/O thread is there for the task.
    #[error("cannot start the I/O thread")]
    NoThread,
    /// The operating system says so.
    #[error("system error {0}")]
    System(i32),
}

impl Error {
    /// libzmq's number: `errno` values of Linux, and from [`Error::FIRST_OWN`] on its own.
    pub const fn errno(self) -> i32 {
        match self {
            Error::Again => 11,
            Error::Interrupted => 4,
            Error::Terminated => Error::FIRST_OWN + 53,
            Error::WrongState => Error::FIRST_OWN + 51,
            Error::NotSupported => 95,
            Error::InvalidArgument => 22,
            Error::UnknownTransport => 93,
            Error::IncompatibleTransport => Error::FIRST_OWN + 52,
            Error::NoSuchEndpoint => 2,
            Error::AddressInUse => 98,
            Error::AddressNotAvailable => 99,
            Error::NoSuchDevice => 19,
            Error::ConnectionRefused => 111,
            Error::HostUnreachable => 113,
            Error::NotSocket => 88,
            Error::TooManyDescriptors => 24,
            Error::MessageTooLong => 90,
            Error::NameTooLong => 36,
            Error::Fault => 14,
            Error::NoThread => Error::FIRST_OWN + 54,
            Error::System(number) => number,
        }
    }

    /// `ZMQ_HAUSNUMERO`: libzmq's own numbers lie above it.
    pub const FIRST_OWN: i32 = 156_384_712;
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Error {
        use rustix::io::Errno;
        match errno {
            Errno::AGAIN => Error::Again,
            Errno::INTR => Error::Interrupted,
            Errno::INVAL => Error::InvalidArgument,
            Errno::ADDRINUSE => Error::AddressInUse,
            Errno::ADDRNOTAVAIL => Error::AddressNotAvailable,
            Errno::NODEV => Error::NoSuchDevice,
            Errno::MFILE | Errno::NFILE => Error::TooManyDescriptors,
            Errno::NAMETOOLONG => Error::NameTooLong,
            Errno::CONNREFUSED => Error::ConnectionRefused,
            other => Error::System(other.raw_os_error()),
        }
    }
}
