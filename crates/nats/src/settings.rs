//! What a link and a stream are made with.

use std::path::PathBuf;
use std::time::Duration;

/// How a link is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses of servers: `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub servers: Vec<String>,
    /// The client's name, for the eyes of the servers' operator.
    pub name: String,
    /// Who the client is.
    pub credentials: Credentials,
    /// TLS, for servers that ask for it and for `tls://` addresses.
    pub tls: TlsFiles,
    /// The JetStream domain of the streams; `None` for that of the server.
    pub domain: Option<String>,
    /// Longest time until a request is answered.
    pub timeout: Duration,
    /// What subjects begin with on which the servers answer. The client's user alone may subscribe
    /// to them.
    pub inbox: String,
    /// Whether its subscriptions bring what the link itself publishes.
    pub hears_itself: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            name: "tidewire".to_owned(),
            credentials: Credentials::None,
            tls: TlsFiles::default(),
            domain: None,
            timeout: Duration::from_secs(2),
            inbox: "_INBOX".to_owned(),
            hears_itself: false,
        }
    }
}

/// Returns why a text is no address of a NATS server, if it is none.
///
/// # Errors
/// The scheme is neither `nats` nor `tls`, there is no host, or the port is none.
pub fn check_address(text: &str) -> Result<(), String> {
    if let Some((scheme, _)) = text.split_once("://")
        && !["nats", "tls"].contains(&scheme)
    {
        return Err("nats:// or tls:// is expected".to_owned());
    }
    let address = text.parse::<async_nats::ServerAddr>();
    let address = address.map_err(|error| error.to_string())?.into_inner();
    match (address.host_str(), address.port()) {
        (None | Some(""), _) => Err("it names no host".to_owned()),
        (_, Some(0)) => Err("port 0 is none".to_owned()),
        _ => Ok(()),
    }
}

/// Files for TLS, in PEM. They are read at each connection.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Authorities of the servers, beside those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The client's certificate, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// Whether a server without TLS is refused.
    pub is_required: bool,
}

/// Who a client is.
#[derive(Clone, Default)]
pub enum Credentials {
    /// No one in particular.
    #[default]
    None,
    /// A credentials file of `nsc`: a JWT and the seed of its NKEY.
    File(PathBuf),
    /// The seed of an NKEY.
    Nkey(String),
    /// A user and a password.
    Password(String, String),
}

impl std::fmt::Debug for Credentials {
    /// Shows no secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
            Self::Nkey(_) => formatter.write_str("nkey"),
            Self::Password(user, _) => write!(formatter, "user {user}"),
        }
    }
}

/// A stream that must exist.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The subjects that it keeps.
    pub subjects: Vec<String>,
    /// Copies: 1, 3 or 5.
    pub replicas: usize,
    /// Whether it is a bucket of keys and values, or a stream of the newest message a subject.
    pub per_subject_max: Option<u64>,
    /// Messages older than this are dropped; zero for none.
    pub age_max: Duration,
    /// The oldest messages are dropped beyond these bytes; `None` for no limit.
    pub bytes_max: Option<u64>,
    /// Whether a full stream refuses new messages. Otherwise it drops the oldest.
    pub refuses_when_full: bool,
    /// How long ids of messages are remembered; at most as long as the messages.
    pub repeated_within: Duration,
    /// Whether it is kept in memory alone.
    pub in_memory: bool,
    /// The sequence of the first message of a stream that is new; `None` for 1.
    pub first_sequence: Option<u64>,
    /// Whether a stream of this name that exists stays as it is.
    pub keeps_existing: bool,
    /// Whether it is changed only, and not made: [`crate::Answer::NoStream`] if there is none.
    pub must_exist: bool,
    /// Whether its subjects are replaced even if they belong to something else: its name is in no
    /// other use. A stream otherwise keeps such subjects, and is not used.
    pub takes_its_name: bool,
}

impl StreamSettings {
    /// Returns a bucket of leases: its entries, one per subject, live for `age` unless they are
    /// written again. If it is made, its first revision is `first_revision`.
    pub fn leases(name: String, subjects: String, age: Duration, first_revision: u64) -> Self {
        Self {
            name,
            subjects: vec![subjects],
            per_subject_max: Some(1),
            age_max: age,
            repeated_within: age,
            first_sequence: Some(first_revision),
            takes_its_name: true,
            ..Self::default()
        }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            subjects: Vec::new(),
            replicas: 1,
            per_subject_max: None,
            age_max: Duration::ZERO,
            bytes_max: None,
            refuses_when_full: false,
            repeated_within: Duration::from_secs(120),
            in_memory: false,
            first_sequence: None,
            keeps_existing: false,
            must_exist: false,
            takes_its_name: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_of_nats_a_host_and_a_port() {
        for text in [
            "nats://127.0.0.1:4222",
            "tls://[::1]:4222",
            "nats://nats.example",
            "nats.example:4222",
            "127.0.0.1:4222",
            "nats",
        ] {
            assert_eq!(check_address(text), Ok(()), "{text}");
        }
        for text in [
            "http://127.0.0.1:4222",
            "ws://127.0.0.1:4222",
            "nats://127.0.0.1:99999",
            "127.0.0.1:99999",
            "nats://a:0",
            "nats://",
            "a b",
            "",
        ] {
            assert!(check_address(text).is_err(), "{text}");
        }
    }
}
