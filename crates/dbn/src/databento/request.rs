//! The lines that clients send.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Schema, SymbolType};

/// Longest line in bytes: twice the room for 500 symbols, the batch of Databento's clients.
pub const LINE_LENGTH_MAX: usize = 64 * 1024;
/// Intervals of heartbeats that are served, in seconds.
pub const HEARTBEAT_INTERVAL_S: RangeInclusive<u32> = 1..=1_800;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// The answer to the challenge, with the session's settings.
    Authenticate(Authentication<'a>),
    /// One subscription.
    Subscribe(Subscription<'a>),
    /// Ends the subscription to these symbols in this schema and symbology.
    Unsubscribe(Subscription<'a>),
    /// Starts the stream of records.
    Start,
}

/// The answer to the challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication<'a> {
    /// The digest in hexadecimal digits, a hyphen, and the last characters of the key.
    pub response: &'a str,
    /// The dataset that the client wants.
    pub dataset: &'a str,
    /// Whether each record carries its send time.
    pub ts_out: bool,
    /// `none`, or the compression of the records.
    pub compression: &'a str,
    /// `dbn`, or another encoding.
    pub encoding: &'a str,
    /// Seconds of silence after which the client wants a heartbeat, in [`HEARTBEAT_INTERVAL_S`].
    pub heartbeat_interval_s: Option<u32>,
    /// Whether a slow client wants records skipped instead of only a warning.
    pub skips: bool,
    /// The client's name for itself.
    pub client: &'a str,
}

impl Authentication<'_> {
    /// Returns the newest version of DBN, up to 3, that the client decodes. Databento's clients
    /// decode version 3 from 0.55 (Python) and 0.26 (Rust) on; they give their own version as
    /// `Databento/0.50.0 Python/3.11`. Any other client gets version 3.
    pub fn dbn_version(&self) -> u8 {
        let Some(version) = self.client.strip_prefix("Databento/") else {
            return 3;
        };
        let (version, language) = version.split_once(' ').unwrap_or((version, ""));
        let mut numbers = version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return 3;
        };
        let first = match () {
            () if language.starts_with("Python") => (0, 55),
            () if language.starts_with("Rust") => (0, 26),
            () => (0, 0),
        };
        if (major, minor) < first { 2 } else { 3 }
    }
}

/// One subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// Schema of the records.
    pub schema: Schema,
    /// Symbology of the symbols.
    pub symbol_type: SymbolType,
    /// Symbols, separated by commas; `ALL_SYMBOLS` for all.
    pub symbols: &'a str,
    /// Start time, nanoseconds since the UNIX epoch; 0 for as early as possible.
    pub start_ns: Option<u64>,
    /// Whether the current value comes first.
    pub snapshot: bool,
    /// The client's id of the subscription.
    pub id: Option<u32>,
}

/// Why a line is invalid. The text is sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Longer than [`LINE_LENGTH_MAX`].
    TooLong,
    /// Not UTF-8.
    NotText,
    /// Neither an authentication, a subscription nor a start.
    Unknown,
    /// A required field is missing.
    Missing(&'static str),
    /// A field has an invalid value.
    Bad(&'static str),
    /// A schema of Databento's that the gateway does not serve.
    Schema(&'static str),
    /// A symbology of Databento's that the gateway does not serve.
    SymbolType,
    /// Both `start` and `snapshot`.
    StartAndSnapshot,
    /// An interval of heartbeats that is not in [`HEARTBEAT_INTERVAL_S`].
    HeartbeatInterval,
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(formatter, "a line has more than {LINE_LENGTH_MAX} bytes"),
            Self::NotText => formatter.write_str("a line is not UTF-8"),
            Self::Unknown => formatter.write_str("unknown request"),
            Self::Missing(field) => write!(formatter, "the field '{field}' is missing"),
            Self::Bad(field) => write!(formatter, "the field '{field}' has an invalid value"),
            Self::Schema(name) => {
                write!(formatter, "the schema '{name}' is not served; use ")?;
                let served = Schema::ALL.map(Schema::name).join(", ");
                formatter.write_str(&served)
            }
            Self::SymbolType => formatter.write_str(
                "stype_in not served: use raw_symbol, parent, instrument_id or continuous",
            ),
            Self::StartAndSnapshot => formatter.write_str("start and snapshot exclude each other"),
            Self::HeartbeatInterval => {
                let (first, last) = HEARTBEAT_INTERVAL_S.into_inner();
                write!(
                    formatter,
                    "use a heartbeat_interval_s from {first} to {last}"
                )
            }
        }
    }
}

impl std::error::Error for RequestError {}

/// One line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The text without the line end.
    pub text: &'a str,
    /// Bytes of the line with its end.
    pub length: usize,
}

/// Returns the first line of `input`, or `None` while it is incomplete.
pub fn next_line(input: &[u8]) -> Result<Option<Line<'_>>, RequestError> {
    let seen = &input[..input.len().min(LINE_LENGTH_MAX + 1)];
    let Some(end) = seen.iter().position(|&byte| byte == b'\n') else {
        return match input.len() > LINE_LENGTH_MAX {
            true => Err(RequestError::TooLong),
            false => Ok(None),
        };
    };
    let text = std::str::from_utf8(&input[..end]).map_err(|_| RequestError::NotText)?;
    Ok(Some(Line {
        text: text.trim_end_matches('\r'),
        length: end + 1,
    }))
}

impl<'a> Request<'a> {
    /// Parses one line. Unknown fields are ignored, because newer clients may send them.
    pub fn parse(line: &'a str) -> Result<Self, RequestError> {
        let fields = Fields { line };
        if fields.find("start_session").is_some() {
            return Ok(Self::Start);
        }
        if let Some(response) = fields.find("auth") {
            return fields.authentication(response).map(Self::Authenticate);
        }
        if fields.find("unsubscribe").is_some() {
            return fields.subscription().map(Self::Unsubscribe);
        }
        if fields.find("schema").is_some() || fields.find("symbols").is_some() {
            return fields.subscription().map(Self::Subscribe);
        }
        Err(RequestError::Unknown)
    }
}

#[derive(Clone, Copy)]
struct Fields<'a> {
    line: &'a str,
}

impl<'a> Fields<'a> {
    /// Returns the value of a field; empty if the field has no value.
    fn find(&self, wanted: &str) -> Option<&'a str> {
        self.line.split('|').find_map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            (name == wanted).then_some(value)
        })
    }

    fn need(&self, name: &'static str) -> Result<&'a str, RequestError> {
        match self.find(name) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(RequestError::Missing(name)),
        }
    }

    fn flag(&self, name: &'static str) -> Result<bool, RequestError> {
        match self.find(name) {
            None | Some("" | "0" | "false" | "False") => Ok(false),
            Some("1" | "true" | "True") => Ok(true),
            Some(_) => Err(RequestError::Bad(name)),
        }
    }

    fn number<N: std::str::FromStr>(&self, name: &'static str) -> Result<Option<N>, RequestError> {
        match self.find(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| RequestError::Bad(name)),
        }
    }

    fn authentication(&self, response: &'a str) -> Result<Authentication<'a>, RequestError> {
        Ok(Authentication {
            response,
            dataset: self.need("dataset")?,
            ts_out: self.flag("ts_out")?,
            compression: self.find("compression").unwrap_or("none"),
            encoding: self.find("encoding").unwrap_or("dbn"),
            heartbeat_interval_s: self.heartbeat_interval_s()?,
            skips: match self.find("slow_reader_behavior") {
                None | Some("" | "warn") => false,
                Some("skip") => true,
                Some(_) => return Err(RequestError::Bad("slow_reader_behavior")),
            },
            client: self.find("client").unwrap_or(""),
        })
    }

    fn heartbeat_interval_s(&self) -> Result<Option<u32>, RequestError> {
        let interval_s = self.number("heartbeat_interval_s")?;
        match interval_s.is_none_or(|interval_s| HEARTBEAT_INTERVAL_S.contains(&interval_s)) {
            true => Ok(interval_s),
            false => Err(RequestError::HeartbeatInterval),
        }
    }

    fn subscription(&self) -> Result<Subscription<'a>, RequestError> {
        let subscription = Subscription {
            schema: Schema::parse(self.need("schema")?)?,
            symbol_type: SymbolType::parse(self.find("stype_in").unwrap_or(""))?,
            symbols: self.need("symbols")?,
            start_ns: self.number("start")?,
            snapshot: self.flag("snapshot")?,
            id: self.number("id")?,
        };
        match subscription.snapshot && subscription.start_ns.is_some() {
            true => Err(RequestError::StartAndSnapshot),
            false => Ok(subscription),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clients_of_databento_are_understood() {
        let python = "auth=ab12-99999|dataset=GLBX.MDP3|encoding=dbn|ts_out=0|compression=none|\
            heartbeat_interval_s=30|client=Python 0.87.0";
        let Ok(Request::Authenticate(authentication)) = Request::parse(python) else {
            panic!("no authentication");
        };
        assert_eq!(authentication.response, "ab12-99999");
        assert_eq!(authentication.heartbeat_interval_s, Some(30));
        assert!(!authentication.ts_out && !authentication.skips);
        let line = "schema=trades|stype_in=raw_symbol|symbols=A,B|start=5|snapshot=0|is_last=1";
        let Ok(Request::Subscribe(subscription)) = Request::parse(line) else {
            panic!("no subscription");
        };
        assert_eq!(subscription.start_ns, Some(5));
        assert_eq!(
            (subscription.schema, subscription.symbols),
            (Schema::Trades, "A,B")
        );
        let line = "unsubscribe|schema=trades|stype_in=raw_symbol|symbols=A|is_last=1";
        let Ok(Request::Unsubscribe(ended)) = Request::parse(line) else {
            panic!("no end of a subscription");
        };
        assert_eq!((ended.schema, ended.symbols), (Schema::Trades, "A"));
        // The form of Databento's Python client, then that of its Rust client.
        assert_eq!(Request::parse("start_session=0"), Ok(Request::Start));
        assert_eq!(Request::parse("start_session"), Ok(Request::Start));
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        let error = |line: &str| Request::parse(line).unwrap_err();
        assert_eq!(error("hello"), RequestError::Unknown);
        assert_eq!(error("auth=x"), RequestError::Missing("dataset"));
        let consolidated = error("schema=cmbp-1|symbols=A");
        assert_eq!(consolidated, RequestError::Schema("cmbp-1"));
        let words = consolidated.to_string();
        assert!(
            words.contains("'cmbp-1'") && words.contains("mbp-1, tbbo"),
            "{words}"
        );
        assert_eq!(
            error("schema=candles|symbols=A"),
            RequestError::Bad("schema")
        );
        assert_eq!(
            error("schema=trades|symbols="),
            RequestError::Missing("symbols")
        );
        let both = "schema=mbp-1|symbols=A|start=1|snapshot=1";
        assert_eq!(error(both), RequestError::StartAndSnapshot);
        let far = "schema=mbp-1|symbols=A|start=99999999999999999999";
        assert_eq!(error(far), RequestError::Bad("start"));
        let other = "schema=mbp-1|stype_in=nasdaq_symbol|symbols=A";
        assert_eq!(error(other), RequestError::SymbolType);
    }

    /// An interval that is not served was accepted, and another one used.
    #[test]
    fn a_heartbeat_interval_that_is_not_served_is_refused() {
        let parse = |interval: &str| {
            let line = format!("auth=x|dataset=X|heartbeat_interval_s={interval}");
            let interval = match Request::parse(&line).map_err(|error| error.to_string())? {
                Request::Authenticate(given) => given.heartbeat_interval_s,
                other => panic!("{other:?}"),
            };
            Ok::<_, String>(interval)
        };
        for (interval, expected) in [("", None), ("1", Some(1)), ("1800", Some(1_800))] {
            assert_eq!(parse(interval), Ok(expected));
        }
        let error = "use a heartbeat_interval_s from 1 to 1800";
        for interval in ["0", "1801", "5000"] {
            assert_eq!(parse(interval), Err(error.to_owned()));
        }
    }

    #[test]
    fn clients_that_cannot_decode_version_3_are_known_by_their_names() {
        for (client, version) in [
            ("Databento/0.30.0 Python/3.11.7", 2),
            ("Databento/0.54.0 Python/3.12.1 Linux/6.1", 2),
            ("Databento/0.55.0 Python/3.12.1 Linux/6.1", 3),
            ("Databento/1.0.0 Python/3.14.0 Linux/6.1", 3),
            ("Databento/0.25.0 Rust linux-x86_64", 2),
            ("Databento/0.26.2 Rust linux-x86_64", 3),
            ("Databento/0.1.0 Go", 3),
            ("Databento/x", 3),
            ("another", 3),
        ] {
            let line = format!("auth=x|dataset=X|client={client}");
            let Ok(Request::Authenticate(given)) = Request::parse(&line) else {
                panic!("no authentication");
            };
            assert_eq!(given.dbn_version(), version, "{client}");
        }
    }

    #[test]
    fn a_line_has_an_end_or_a_limit() {
        let line = next_line(b"cram=1\r\nrest").unwrap().unwrap();
        assert_eq!((line.text, line.length), ("cram=1", 8));
        assert_eq!(next_line(b"half"), Ok(None));
        assert_eq!(next_line(&[0xff, b'\n']), Err(RequestError::NotText));
        let long = vec![b'a'; LINE_LENGTH_MAX + 1];
        assert_eq!(next_line(&long), Err(RequestError::TooLong));
        assert_eq!(next_line(&long[1..]), Ok(None));
    }
}
