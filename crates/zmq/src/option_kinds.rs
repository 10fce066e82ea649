//! The kinds of socket options: the type of an option's value in Rust, and its encoding for C.

use std::marker::PhantomData;
use std::time::Duration;

/// An option of a socket, and the type of its value.
#[derive(Debug, Clone, Copy)]
pub struct SocketOption<K> {
    pub(crate) number: i32,
    kind: PhantomData<K>,
}

/// How the values of an option are given and kept. There are those of this module, and no others.
pub trait Kind: sealed::Sealed {
    /// As it is given.
    type Given<'v>;
    /// As it is told.
    type Told;
    /// The encoding of a given value.
    #[doc(hidden)]
    type Bytes<'v>: AsRef<[u8]>;
    #[doc(hidden)]
    fn encode(given: Self::Given<'_>) -> Self::Bytes<'_>;
    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Option<Self::Told>;
    /// The longest value that is told.
    #[doc(hidden)]
    const BYTES_MAX: usize;
}

mod sealed {
    pub trait Sealed {}
}

impl<K> SocketOption<K> {
    pub(crate) const fn new(number: i32) -> SocketOption<K> {
        let kind = PhantomData;
        SocketOption { number, kind }
    }

    /// libzmq's number.
    pub const fn number(self) -> i32
    where
        K: Copy,
    {
        self.number
    }
}

/// The kinds of values.
macro_rules! kind {
    ($(#[$docs:meta])* $name:ident($given:ty) as $bytes:ty => $told:ty, $bytes_max:expr,
     $encode:expr, $decode:expr) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Kind for $name {
            type Given<'v> = $given;
            type Told = $told;
            type Bytes<'v> = $bytes;
            const BYTES_MAX: usize = $bytes_max;

            fn encode<'v>(given: Self::Given<'v>) -> Self::Bytes<'v> {
                let encode: fn(Self::Given<'v>) -> Self::Bytes<'v> = $encode;
                encode(given)
            }

            fn decode(bytes: &[u8]) -> Option<Self::Told> {
                let decode: fn(&[u8]) -> Option<Self::Told> = $decode;
                decode(bytes)
            }
        }
    };
}

kind! {
    /// On or off.
    Switch(bool) as [u8; 4] => bool, 4,
    |given| i32::from(given).to_ne_bytes(),
    |bytes| Some(int(bytes)? != 0)
}
kind! {
    /// A number of 32 bits.
    Number(i32) as [u8; 4] => i32, 4,
    i32::to_ne_bytes,
    int
}
kind! {
    /// A number of 64 bits.
    Long(i64) as [u8; 8] => i64, 8,
    i64::to_ne_bytes,
    |bytes| Some(i64::from_ne_bytes(bytes.try_into().ok()?))
}
kind! {
    /// A time in milliseconds, rounded up; zero switches it off.
    Interval(Duration) as [u8; 4] => Duration, 4,
    |given| milliseconds(given).to_ne_bytes(),
    |bytes| Some(Duration::from_millis(int(bytes)?.max(0) as u64))
}
kind! {
    /// A time in milliseconds, rounded up; `None` means no timeout, or off.
    Limit(Option<Duration>) as [u8; 4] => Option<Duration>, 4,
    |given| given.map_or(-1, milliseconds).to_ne_bytes(),
    |bytes| Some(u64::try_from(int(bytes)?).ok().map(Duration::from_millis))
}
kind! {
    /// Any bytes.
    Octets(&'v [u8]) as &'v [u8] => Vec<u8>, ROOM_BYTES,
    |given| given,
    |bytes| Some(bytes.to_vec())
}
kind! {
    /// A text.
    Text(&'v str) as &'v str => String, ROOM_BYTES,
    |given| given,
    |bytes| String::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec()).ok()
}
kind! {
    /// A key of CURVE.
    Key(&'v [u8; 32]) as &'v [u8; 32] => [u8; 32], 32,
    |given| given,
    |bytes| bytes.try_into().ok()
}

fn int(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A time that is not zero does not become zero.
fn milliseconds(time: Duration) -> i32 {
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    i32::try_from(milliseconds).unwrap_or(i32::MAX)
}

/// The longest value of an option that is read by name, in bytes.
pub(crate) const ROOM_BYTES: usize = 1024;
