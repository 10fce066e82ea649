//! Options of sockets by name, each with the type of its value. What they do and their defaults:
//! `docs/zeromq-options.md`. Those of [`own_options`](crate::own_options) are what libzmq does not
//! have.
//!
//! ```
//! use std::time::Duration;
//! use tidewire_zmq::{Context, Router, socket_options as option};
//!
//! let context = Context::new();
//! let router = Router::new(&context)?;
//! let socket = router.socket();
//! socket.set(option::ROUTER_MANDATORY, true)?;
//! socket.set(option::MAXMSGSIZE, 1 << 20)?;
//! socket.set(option::HEARTBEAT_IVL, Duration::from_secs(5))?;
//! socket.set(option::LINGER, Some(Duration::from_millis(100)))?;
//! assert_eq!(socket.get(option::LINGER)?, Some(Duration::from_millis(100)));
//! # Ok::<(), tidewire_zmq::Error>(())
//! ```
//!
//! Those of connections hold for what is bound or connected after they are set.

use crate::error::Error;
use crate::option_kinds::ROOM_BYTES;
use crate::socket::Socket;

pub use crate::option_kinds::{
    Interval, Key, Kind, Limit, Long, Number, Octets, SocketOption, Switch, Text,
};
pub use crate::options::names::*;

impl Socket {
    /// Sets an option.
    ///
    /// # Errors
    /// It is not this type's, or the value is out of its range.
    pub fn set<K: Kind>(&self, option: SocketOption<K>, value: K::Given<'_>) -> Result<(), Error> {
        self.set_option(option.number, K::encode(value).as_ref())
    }

    /// Reads an option.
    ///
    /// # Errors
    /// It can only be set, or its value is longer than 1,024 bytes.
    pub fn get<K: Kind>(&self, option: SocketOption<K>) -> Result<K::Told, Error> {
        let mut room = [0; ROOM_BYTES];
        let length = self.option(option.number, &mut room[..K::BYTES_MAX])?;
        K::decode(&room[..length]).ok_or(Error::InvalidArgument)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::NUMBERS;
    use crate::{Context, SocketType};

    const PAGE: &str = include_str!("../../../docs/zeromq-options.md");

    #[test]
    fn the_numbers_are_those_of_the_page() {
        for (name, number) in NUMBERS {
            let row = format!("| `{name}` | {number} |");
            assert!(PAGE.contains(&row), "{name}");
        }
    }

    #[test]
    fn what_is_set_is_told() {
        let context = Context::new();
        let socket = context.socket(SocketType::Router).unwrap();
        let half_a_millisecond = Duration::from_micros(500);
        socket.set(LINGER, Some(half_a_millisecond)).unwrap();
        assert_eq!(socket.get(LINGER), Ok(Some(Duration::from_millis(1))));
        socket.set(LINGER, None).unwrap();
        assert_eq!(socket.get(LINGER), Ok(None));
        socket.set(CONNECT_TIMEOUT, Duration::MAX).unwrap();
        let longest = Duration::from_millis(i32::MAX as u64);
        assert_eq!(socket.get(CONNECT_TIMEOUT), Ok(longest));
        socket.set(MAXMSGSIZE, 1 << 40).unwrap();
        assert_eq!(socket.get(MAXMSGSIZE), Ok(1 << 40));
        socket.set(ROUTER_MANDATORY, true).unwrap();
        assert_eq!(socket.get(ROUTER_MANDATORY), Ok(true));
        socket.set(ROUTING_ID, b"me").unwrap();
        assert_eq!(socket.get(ROUTING_ID), Ok(b"me".to_vec()));
        socket.set(PLAIN_USERNAME, "somebody").unwrap();
        assert_eq!(socket.get(PLAIN_USERNAME), Ok("somebody".to_owned()));
        socket.set(CURVE_PUBLICKEY, &[7; 32]).unwrap();
        assert_eq!(socket.get(CURVE_PUBLICKEY), Ok([7; 32]));
        assert_eq!(socket.get(TYPE), Ok(SocketType::Router.number()));
        socket.bind("tcp://127.0.0.1:*").unwrap();
        assert!(
            socket
                .get(LAST_ENDPOINT)
                .unwrap()
                .starts_with("tcp://127.0.0.1:")
        );
    }

    #[test]
    fn a_value_out_of_range_is_refused() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        let refused = Err(Error::InvalidArgument);
        assert_eq!(socket.set(SNDHWM, -1), refused);
        assert_eq!(socket.set(XPUB_NODROP, true), refused, "of another type");
        assert_eq!(socket.set(ROUTING_ID, b""), refused);
        assert_eq!(
            socket.get(METADATA),
            Err(Error::InvalidArgument),
            "only set"
        );
    }
}
