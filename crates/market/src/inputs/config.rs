//! The configuration of an input, as users write it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;
use tidewire_itch::parse_midnight_unix_ns;
use tidewire_lane::Endpoint;

use super::mdp::MdpInput;
use super::source::FeedSource;

/// A feed of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// ITCH 5.0 over MoldUDP64.
    Mold(MoldInput),
    /// ITCH 5.0 over SoupBinTCP.
    Soup(SoupInput),
    /// CME MDP 3.0.
    Mdp(MdpInput),
    /// A native feed in datagrams.
    Native(FeedSource),
}

impl Input {
    /// Returns its protocol, as INFO names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Mold(_) => "mold",
            Self::Soup(_) => "soup",
            Self::Mdp(_) => "mdp",
            Self::Native(_) => "native",
        }
    }
}

/// `A=GROUP:PORT,B=GROUP:PORT,request=HOST:PORT,interface=ADDRESS,date=YYYY-MM-DD,venue=NAME`.
/// Only A is required, and a bare address is A.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoldInput {
    /// Address of line A: a multicast group, or an address of this machine.
    pub a: SocketAddr,
    /// Address of line B, if there is one.
    pub b: Option<SocketAddr>,
    /// Server for retransmission requests.
    pub request: Option<SocketAddr>,
    /// Address of the local interface for multicast.
    pub interface: Ipv4Addr,
    /// Midnight of the day, ns since the UNIX epoch; `None` for today.
    pub midnight_unix_ns: Option<u64>,
    /// Name of the venue.
    pub venue: String,
}

/// `HOST:PORT,user=NAME,password=WORD,session=NAME,date=YYYY-MM-DD,venue=NAME`. Only the address
/// is required.
#[derive(Clone, PartialEq, Eq)]
pub struct SoupInput {
    /// The server.
    pub address: SocketAddr,
    /// User name, at most six characters.
    pub user: String,
    /// Password, at most ten characters.
    pub password: String,
    /// Session, at most ten characters; empty for the current one.
    pub session: String,
    /// Midnight of the day, ns since the UNIX epoch; `None` for today.
    pub midnight_unix_ns: Option<u64>,
    /// Name of the venue.
    pub venue: String,
}

/// The reason why a text does not describe an input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// The address is missing.
    #[error("no address: give one, as HOST:PORT or A=HOST:PORT")]
    NoAddress,
    /// An invalid address.
    #[error("invalid address '{0}': {1}")]
    BadAddress(String, String),
    /// An unknown name.
    #[error("unknown name '{0}'; use {1}")]
    UnknownName(String, &'static str),
    /// A value longer than the protocol allows.
    #[error("'{0}' is longer than {1} characters")]
    TooLong(String, usize),
    /// More addresses than there are sides.
    #[error("more than two servers, or two lines")]
    TooMany,
    /// An invalid date.
    #[error("invalid date '{0}'; use YYYY-MM-DD")]
    BadDate(String),
}

impl FromStr for MoldInput {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let (mut a, mut b, mut request) = (None, None, None);
        let (mut interface, mut midnight_unix_ns) = (Ipv4Addr::UNSPECIFIED, None);
        let mut venue = VENUE.to_owned();
        for part in parts(text) {
            match part.split_once('=') {
                None => a = Some(address(part)?),
                Some(("A" | "a", value)) => a = Some(address(value)?),
                Some(("B" | "b", value)) => b = Some(address(value)?),
                Some(("request", value)) => request = Some(address(value)?),
                Some(("interface", value)) => {
                    interface = value.parse().map_err(|_| {
                        let reason = "an IPv4 address of this machine is expected".to_owned();
                        InputError::BadAddress(value.to_owned(), reason)
                    })?;
                }
                Some(("date", value)) => midnight_unix_ns = Some(date(value)?),
                Some(("venue", value)) => venue = short(value, VENUE_LENGTH_MAX)?,
                Some((name, _)) => {
                    let known = "A, B, request, interface, date and venue";
                    return Err(InputError::UnknownName(name.to_owned(), known));
                }
            }
        }
        Ok(Self {
            a: a.ok_or(InputError::NoAddress)?,
            b,
            request,
            interface,
            midnight_unix_ns,
            venue,
        })
    }
}

impl FromStr for SoupInput {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let mut server = None;
        let (mut user, mut password, mut session) = (String::new(), String::new(), String::new());
        let mut midnight_unix_ns = None;
        let mut venue = VENUE.to_owned();
        for part in parts(text) {
            match part.split_once('=') {
                None => server = Some(address(part)?),
                Some(("user", value)) => user = short(value, 6)?,
                Some(("password", value)) => password = short(value, 10)?,
                Some(("session", value)) => session = short(value, 10)?,
                Some(("date", value)) => midnight_unix_ns = Some(date(value)?),
                Some(("venue", value)) => venue = short(value, VENUE_LENGTH_MAX)?,
                Some((name, _)) => {
                    let known = "user, password, session, date and venue";
                    return Err(InputError::UnknownName(name.to_owned(), known));
                }
            }
        }
        Ok(Self {
            address: server.ok_or(InputError::NoAddress)?,
            user,
            password,
            session,
            midnight_unix_ns,
            venue,
        })
    }
}

/// Omits the password.
impl fmt::Debug for SoupInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SoupInput")
            .field("address", &self.address)
            .field("user", &self.user)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

pub(super) fn address(text: &str) -> Result<SocketAddr, InputError> {
    let endpoint: Endpoint = text
        .parse()
        .map_err(|error: tidewire_lane::EndpointError| {
            InputError::BadAddress(text.to_owned(), error.to_string())
        })?;
    let reason = || InputError::BadAddress(text.to_owned(), "HOST:PORT is expected".to_owned());
    endpoint.tcp().ok_or_else(reason)
}

fn short(text: &str, length_max: usize) -> Result<String, InputError> {
    match text.len() <= length_max {
        true => Ok(text.to_owned()),
        false => Err(InputError::TooLong(text.to_owned(), length_max)),
    }
}

fn date(text: &str) -> Result<u64, InputError> {
    parse_midnight_unix_ns(text).ok_or_else(|| InputError::BadDate(text.to_owned()))
}

/// The venue of an ITCH feed that does not name another.
const VENUE: &str = "XNAS";
/// Maximum bytes of a venue's name, as on the native feed.
const VENUE_LENGTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_itch::midnight_unix_ns;

    #[test]
    fn inputs_are_read_as_users_write_them() {
        let mold: MoldInput = "A=233.54.12.1:26400, B=233.54.12.2:26401,request=10.0.0.1:26402,\
                               interface=10.0.0.9,date=2019-01-30"
            .parse()
            .unwrap();
        assert_eq!(mold.a, "233.54.12.1:26400".parse().unwrap());
        assert_eq!(mold.b, Some("233.54.12.2:26401".parse().unwrap()));
        assert_eq!(mold.interface, Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(mold.midnight_unix_ns, midnight_unix_ns(2019, 1, 30));
        let bare: MoldInput = "127.0.0.1:5".parse().unwrap();
        assert_eq!((bare.a.port(), bare.b, bare.request), (5, None, None));
        let soup: SoupInput = "localhost:9,user=ME,password=SECRET".parse().unwrap();
        assert_eq!((soup.user.as_str(), soup.session.as_str()), ("ME", ""));
        assert!(!format!("{soup:?}").contains("SECRET"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mold = |text: &str| text.parse::<MoldInput>().unwrap_err().to_string();
        assert!(mold("").starts_with("no address: give one"));
        assert!(mold("B=1.2.3.4:5").contains("A=HOST:PORT"));
        assert_eq!(
            mold("A=1.2.3.4"),
            "invalid address '1.2.3.4': no port; use HOST:PORT"
        );
        assert!(mold("1.2.3.4:5,C=1.2.3.4:5").starts_with("unknown name 'C'; use A, B,"));
        assert_eq!(
            mold("1.2.3.4:5,date=2023-02-29"),
            "invalid date '2023-02-29'; use YYYY-MM-DD"
        );
        let soup = |text: &str| text.parse::<SoupInput>().unwrap_err().to_string();
        assert_eq!(
            soup("1.2.3.4:5,user=LONGNAME"),
            "'LONGNAME' is longer than 6 characters"
        );
    }
}
