//! The command line. Options of `serve` can also be given in the environment (`TIDEWIRE_*`) and in
//! a file; see [`crate::config`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use tidewire_feed::faults::FaultPlan;
use tidewire_feed::simulation::MarketKind;
use tidewire_feed::wire::SlowPolicy;
use tidewire_lane::{Endpoint, EndpointError};
use tidewire_market::{FeedLines, FeedSource, MdpInput, MoldInput, SoupInput};
use tidewire_mx::plant::Faults;
use tidewire_mx::plant::tags::TAGS_MAX;

use crate::certs::CertsOptions;
use crate::feed_login::LoginOptions;
use crate::itch::ItchOptions;
use crate::log::LogFormat;
use crate::plant::PlantArguments;
use crate::target::{Place, TlsArguments};
use crate::tls_ports::TlsPorts;
use crate::units::{parse_count, parse_duration, whole};
use crate::watch::SortColumn;
use crate::web::WebArguments;

/// A real-time data hub: the latest value of every topic, and its stream of updates, over Redis,
/// ZeroMQ and a native feed.
#[derive(Debug, Parser)]
#[command(
    name = "tidewire",
    bin_name = "tidewire",
    version,
    about,
    max_term_width = 100
)]
pub(crate) struct Options {
    /// What to log, as `LEVEL` or `MODULE=LEVEL,...` [default: info for serve, warn otherwise].
    #[arg(long, global = true, value_name = "FILTER", env = "TIDEWIRE_LOG")]
    pub(crate) log: Option<String>,
    /// Format of log lines.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value = "text",
        env = "TIDEWIRE_LOG_FORMAT"
    )]
    pub(crate) log_format: LogFormat,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Options {
    /// Reads the command line of this process.
    pub(crate) fn from_command_line() -> Result<Self, clap::Error> {
        Self::read(std::env::args_os())
    }

    /// Reads arguments, the program's name first. A negative number is a value, never an option: it
    /// is refused as a value that is out of range.
    pub(crate) fn read<W>(words: impl IntoIterator<Item = W>) -> Result<Self, clap::Error>
    where
        W: Into<std::ffi::OsString> + Clone,
    {
        let command = with_negative_numbers(Self::command());
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|option| {
        let is_value = option.get_long().is_some() && option.get_action().takes_values();
        match is_value {
            true => option.allow_negative_numbers(true),
            false => option,
        }
    });
    command.mut_subcommands(with_negative_numbers)
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the hub.
    Serve(ServeOptions),
    /// Run a simulated exchange as a native feed server, or a scripted plant (mx).
    Simulate(SimulateOptions),
    /// Decode messages and print each field.
    Decode(DecodeOptions),
    /// Generate a key pair for ZeroMQ's CURVE.
    CurveKeys,
    /// Make certificates for TLS: an authority, a server's and clients'.
    Certs(CertsOptions),
    /// Send a recording, a DBN or ITCH file, or a network capture to a running hub.
    Replay(ReplayOptions),
    /// Show the latest values of a running hub in the terminal or as JSON.
    Watch(WatchOptions),
    /// Generate, inspect or send ITCH 5.0 files (see docs/itch.md).
    Itch(ItchOptions),
    /// Run a hub and a simulated exchange, and watch them: start here.
    Demo(DemoOptions),
}

/// Options of `serve`. The command line has precedence over the environment, and the environment
/// over the file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeOptions {
    /// A TOML file with any of these options.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// A redis.conf: port, bind, users, limits, renamed commands and all other parameters.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_REDIS_CONF")]
    pub(crate) redis_conf: Option<PathBuf>,
    /// Redis clients [default: 127.0.0.1:6379].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_RESP")]
    pub(crate) resp: Option<Endpoint>,
    /// Redis clients with TLS; needs --tls-cert and --tls-key [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_RESP_TLS")]
    pub(crate) resp_tls: Option<Endpoint>,
    /// The other ports with TLS.
    #[command(flatten)]
    pub(crate) tls_ports: TlsPorts,
    /// The server's certificate, followed by those that lead to its issuer, in PEM.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of this certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities whose certificates TLS clients must show [default: clients need none].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// ZeroMQ subscribers [default: tcp://127.0.0.1:5556].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PUB")]
    pub(crate) zmq_pub: Option<Endpoint>,
    /// ZeroMQ PUSH peers [default: tcp://127.0.0.1:5557].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PULL")]
    pub(crate) zmq_pull: Option<Endpoint>,
    /// ZeroMQ REQ and DEALER peers that request values [default: tcp://127.0.0.1:5558].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_ROUTER")]
    pub(crate) zmq_router: Option<Endpoint>,
    /// Authentication of ZeroMQ peers: null for none, plain for name and password, curve for keys
    /// and encryption [default: null].
    #[arg(long, value_name = "NAME", value_enum, env = "TIDEWIRE_ZMQ_MECHANISM")]
    pub(crate) zmq_mechanism: Option<ZmqMechanism>,
    /// With curve: a file with the secret key of the ZeroMQ ports (see curve-keys).
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_ZMQ_CURVE_KEY")]
    pub(crate) zmq_curve_key: Option<PathBuf>,
    /// With curve: a file with a line PUBLIC-KEY USER for each client [default: every client is
    /// the user default].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_ZMQ_CURVE_CLIENTS")]
    pub(crate) zmq_curve_clients: Option<PathBuf>,
    /// Web pages whose scripts may connect to the ZeroMQ ports by WebSocket: https://HOST,
    /// http://HOST:PORT, null, or * for all. Repeat it, or separate them by commas [default: none].
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "TIDEWIRE_ZMQ_WS_ORIGINS",
        value_delimiter = ','
    )]
    pub(crate) zmq_ws_origins: Vec<String>,
    /// How ZeroMQ subscribers are told that a live key is gone: json for the payload
    /// {"gone":true}, flag for an empty payload and a third frame "gone" [default: json].
    #[arg(long, value_name = "FORM", value_enum, env = "TIDEWIRE_ZMQ_GONE")]
    pub(crate) zmq_gone: Option<ZmqGone>,
    /// Native feed, for clients and publishers [default: 127.0.0.1:9876].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_FEED")]
    pub(crate) feed: Option<Endpoint>,
    /// What happens to a slow feed client that does not choose itself: conflate sends newest values
    /// only, drop marks the gap, disconnect closes the connection [default: conflate].
    #[arg(long, value_name = "NAME", value_enum, env = "TIDEWIRE_FEED_SLOW")]
    pub(crate) feed_slow: Option<FeedSlow>,
    /// Databento's live clients; needs --databento-key [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_DATABENTO")]
    pub(crate) databento: Option<Endpoint>,
    /// The API key of Databento's clients.
    #[arg(
        long,
        value_name = "KEY",
        env = "TIDEWIRE_DATABENTO_KEY",
        hide_env_values = true
    )]
    pub(crate) databento_key: Option<String>,
    /// The user that Databento's clients are: they read what it may GET [default: everything].
    #[arg(long, value_name = "NAME", env = "TIDEWIRE_DATABENTO_USER")]
    pub(crate) databento_user: Option<String>,
    /// Options of the web port.
    #[command(flatten)]
    pub(crate) web: WebArguments,
    /// Metrics for Prometheus over HTTP, at /metrics [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_ADMIN")]
    pub(crate) admin: Option<Endpoint>,
    /// Whether ports without credentials refuse connections from other machines [default: yes].
    #[arg(
        long,
        value_name = "YES|NO",
        value_enum,
        env = "TIDEWIRE_PROTECTED_MODE"
    )]
    pub(crate) protected_mode: Option<YesNo>,
    /// Also send the native feed in datagrams: GROUP:PORT, +GROUP:PORT for a second line, and
    /// @INTERFACE for multicast [default: none].
    #[arg(long, value_name = "LINES", env = "TIDEWIRE_FEED_UDP")]
    pub(crate) feed_udp: Option<FeedLines>,
    /// A native feed to read: HOST:PORT, or tls://HOST:PORT (see --tls-ca); append +HOST:PORT for a second input of the same session,
    /// or +udp://GROUP:PORT (one or two) for a stream in datagrams, with @INTERFACE for multicast;
    /// repeatable (separated by commas in the environment).
    #[arg(
        long,
        value_name = "ADDR",
        env = "TIDEWIRE_SOURCE",
        value_delimiter = ','
    )]
    pub(crate) source: Vec<FeedSource>,
    /// The user for the feeds of --source [default: default].
    #[arg(long, value_name = "NAME", env = "TIDEWIRE_SOURCE_USER")]
    pub(crate) source_user: Option<String>,
    /// A file with that user's password in its first line [default: the variable
    /// TIDEWIRE_SOURCE_PASSWORD].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_SOURCE_PASSWORD_FILE")]
    pub(crate) source_password_file: Option<PathBuf>,
    /// Options of the plant.
    #[command(flatten)]
    pub(crate) plant: PlantArguments,
    /// A file with the hub's place in a cluster of hubs over NATS (docs/cluster.md)
    /// [default: none].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_CLUSTER")]
    pub(crate) cluster: Option<PathBuf>,
    /// Record the stream of market data; append if the file exists.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_RECORD")]
    pub(crate) record: Option<PathBuf>,
    /// ITCH over MoldUDP64 to read: A=GROUP:PORT,B=GROUP:PORT,request=HOST:PORT,
    /// interface=ADDRESS,date=YYYY-MM-DD,venue=NAME; repeatable.
    #[arg(long, value_name = "LINES", env = "TIDEWIRE_MOLD")]
    pub(crate) mold: Vec<MoldInput>,
    /// CME MDP 3.0 to read: A=GROUP:PORT,B=GROUP:PORT,snapshot=GROUP:PORT,orders=GROUP:PORT,
    /// definition=GROUP:PORT,interface=ADDRESS,venue=NAME; repeatable.
    #[arg(long, value_name = "LINES", env = "TIDEWIRE_MDP")]
    pub(crate) mdp: Vec<MdpInput>,
    /// ITCH over SoupBinTCP to read: HOST:PORT,user=NAME,password=WORD,session=NAME,
    /// date=YYYY-MM-DD,venue=NAME; repeatable.
    #[arg(
        long,
        value_name = "SERVER",
        env = "TIDEWIRE_SOUP",
        hide_env_values = true
    )]
    pub(crate) soup: Vec<SoupInput>,
    /// Number of event loops, 1 to 64 [default: one per core].
    #[arg(long, value_name = "N", env = "TIDEWIRE_LANES",
          value_parser = whole::<u16>(1, 64))]
    pub(crate) lanes: Option<u16>,
    /// Pin each event loop to a core.
    #[arg(long, env = "TIDEWIRE_PIN")]
    pub(crate) pin: bool,
    /// Whether a lane may send to several peers in one io_uring call, if it measures that as
    /// cheaper [default: auto].
    #[arg(long, value_name = "CHOICE", env = "TIDEWIRE_IO_URING")]
    pub(crate) io_uring: Option<IoUring>,
    /// Keys with this prefix are topics: each write is published; repeatable [default: live:].
    #[arg(
        long,
        value_name = "PREFIX",
        env = "TIDEWIRE_LIVE_PREFIX",
        value_delimiter = ','
    )]
    pub(crate) live_prefix: Vec<String>,
    /// Directory of the data files: load keys from it at the start, and save them at the points of
    /// the parameter `save` (default here: "3600 1 300 100 60 10000").
    #[arg(long, value_name = "DIR", env = "TIDEWIRE_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Notify systemd when the hub is ready, like the parameter `supervised`: systemd, auto or no
    /// [default: no].
    #[arg(long, value_name = "MODE", env = "TIDEWIRE_SUPERVISED")]
    pub(crate) supervised: Option<String>,
    /// A parameter of Redis's CONFIG SET, such as maxclients=100 or enable-debug-command=yes;
    /// repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) parameter: Vec<String>,
    /// Directives of a redis.conf, as on redis-server's command line: -- --port 7000 --save 60 1.
    #[arg(last = true, value_name = "DIRECTIVE", allow_hyphen_values = true)]
    pub(crate) directives: Vec<String>,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum YesNo {
    Yes,
    No,
}

impl YesNo {
    /// Returns the value as parameters write it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            YesNo::Yes => "yes",
            YesNo::No => "no",
        }
    }
}

/// Whether io_uring may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IoUring {
    /// If the kernel permits it, and the lane measures it as cheaper.
    Auto,
    /// Never.
    Off,
}

/// What happens to a slow feed client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FeedSlow {
    /// It gets newest values in place of the messages it missed.
    Conflate,
    /// The gap is marked, and the stream continues.
    Drop,
    /// It is disconnected.
    Disconnect,
}

impl From<FeedSlow> for SlowPolicy {
    fn from(choice: FeedSlow) -> Self {
        match choice {
            FeedSlow::Conflate => SlowPolicy::Conflate,
            FeedSlow::Drop => SlowPolicy::Drop,
            FeedSlow::Disconnect => SlowPolicy::Disconnect,
        }
    }
}

/// Form of a live key's removal for ZeroMQ subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ZmqGone {
    /// A payload that no value has.
    Json,
    /// An empty payload and a third frame.
    Flag,
}

/// Authentication of ZeroMQ peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ZmqMechanism {
    /// None.
    Null,
    /// Name and password of a user, in clear text.
    Plain,
    /// Public keys; all traffic is encrypted.
    Curve,
}

/// Options of `simulate`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SimulateOptions {
    /// Simulate something other than an exchange.
    #[command(subcommand)]
    pub(crate) other: Option<SimulateCommand>,
    /// Address of the exchange's feed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9870")]
    pub(crate) feed: Endpoint,
    /// Also send the feed in datagrams: GROUP:PORT, +GROUP:PORT for a second line, and @INTERFACE
    /// for multicast; each line gets its own faults.
    #[arg(long, value_name = "LINES")]
    pub(crate) feed_udp: Option<FeedLines>,
    /// The simulated market.
    #[command(flatten)]
    pub(crate) market: MarketOptions,
    /// Faults in the data sent to clients, such as gaps=1%,fragment=5%,duplicate=0.5%,reorder=1%,
    /// corrupt=0.1%,stall=0.01%,disconnect=0.001%. Without % the value is a fraction from 0 to 1:
    /// gaps=1 is 100 %.
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<FaultPlan>,
    /// Write the stream to a file, as the native packets that a client would receive.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many messages; the same seed gives the same messages on any machine.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) messages: Option<u64>,
}

/// What else can be simulated.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Run a scripted plant that speaks NMX (see docs/nmx.md).
    Mx(SimulateMxOptions),
}

/// Options of `simulate mx`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateMxOptions {
    /// Address on which the plant listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9880")]
    pub(crate) listen: String,
    /// Number of tags, 14 per tank; the test tags (Faults, Troubles, Quality) are extra.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_tags)]
    pub(crate) tags: u64,
    /// Seed: the same seed and requests give the same plant.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Time between Advise and the first change.
    #[arg(long, value_name = "FROM-TO", default_value = "3s-8s", value_parser = parse_span)]
    pub(crate) first_change: (Duration, Duration),
    /// Time between later changes of a tag.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Faults, such as refuse=1%,delay=5%,lose=1%,drop=0.01%,uncertain=1%,bad=1%,
    /// trouble=0.1%,delay-duration=2s.
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<Faults>,
    /// Write the names of all tags to a file, for serve --mx-tags.
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
    /// Allow reads of whole arrays without [], which the platform does not allow.
    #[arg(long)]
    pub(crate) bulk_arrays: bool,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
}

fn parse_tags(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        count if count <= TAGS_MAX as u64 => Ok(count),
        _ => Err(format!("{TAGS_MAX} at most")),
    }
}

fn parse_span(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let span = (parse_duration(from)?, parse_duration(to)?);
    if span.0 > span.1 {
        return Err(format!(
            "{from} is longer than {to}; the shorter time comes first: {to}-{from}"
        ));
    }
    match span.1 <= Duration::from_secs(86_400) {
        true => Ok(span),
        false => Err(format!(
            "{to} is longer than one day; at most 24h is allowed"
        )),
    }
}

/// Options of `decode`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DecodeOptions {
    /// Protocol of the messages.
    #[arg(value_enum)]
    pub(crate) subject: DecodeSubject,
    /// Hexadecimal digits, or a file with digits, a hex dump or bytes, or - for standard input.
    #[arg(value_name = "HEX|FILE|-", required_unless_present = "profile")]
    pub(crate) input: Vec<String>,
    /// What the bytes contain.
    #[arg(long = "as", value_enum, default_value_t = DecodeForm::Auto)]
    pub(crate) form: DecodeForm,
    /// Name of an object or attribute, to be recognised by its signature; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Print JSON: a list of fields per message.
    #[arg(long)]
    pub(crate) json: bool,
    /// List the protocol constants that may need correction, with the evidence for each.
    #[arg(long)]
    pub(crate) profile: bool,
}

/// Protocols that `decode` knows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DecodeSubject {
    /// NMX, of AVEVA System Platform.
    Mx,
}

/// What bytes are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DecodeForm {
    /// An envelope with a body if its length fits, otherwise a body.
    Auto,
    /// An envelope with a body, with or without a length in front.
    Message,
    /// A body alone.
    Body,
    /// A reference handle.
    Handle,
    /// A variant of the second data plane.
    Asb,
}

/// The simulated market.
#[derive(Clone, Debug, Args)]
pub(crate) struct MarketOptions {
    /// Messages per second, evenly spaced.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_count)]
    pub(crate) rate: u64,
    /// Number of symbols (the first hundred have real names), or a CSV file with lines
    /// name,price,volatility.
    #[arg(long, value_name = "N|FILE", default_value = "100")]
    pub(crate) symbols: String,
    /// Seed: the same seed gives the same ticks.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Price trend.
    #[arg(long, value_enum, default_value_t = MarketChoice::Neutral)]
    pub(crate) market: MarketChoice,
}

/// Price trend.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MarketChoice {
    /// Up.
    Bull,
    /// No trend.
    Neutral,
    /// Down.
    Bear,
}

impl From<MarketChoice> for MarketKind {
    fn from(choice: MarketChoice) -> Self {
        match choice {
            MarketChoice::Bull => MarketKind::Bull,
            MarketChoice::Neutral => MarketKind::Neutral,
            MarketChoice::Bear => MarketKind::Bear,
        }
    }
}

/// Options of `replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayOptions {
    /// A recording of `serve --record`; a DBN file, plain or zstd; an ITCH 5.0 file; or a capture
    /// (pcap, pcapng) of ITCH over MoldUDP64. A pipe is played as it comes; - is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The feed port of the hub: HOST:PORT, or tls://HOST:PORT.
    #[arg(long, value_name = "FEED_ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) to: Place,
    /// TLS.
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    /// The user that publishes.
    #[command(flatten)]
    pub(crate) login: LoginOptions,
    /// Multiple of the original speed: 1, 10, ... or max.
    #[arg(long, value_name = "1|10|max", default_value = "1", value_parser = parse_speed)]
    pub(crate) speed: Speed,
    /// Repeat from the start until stopped. Not for a pipe.
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
    /// Send each order of a DBN file (mbo), too, for mbo subscribers of the Databento gateway.
    #[arg(long)]
    pub(crate) orders: bool,
    /// Price levels of each side to send too, from the orders and mbp-10 records of a DBN file; at
    /// most 65,535.
    #[arg(long, value_name = "LEVELS", default_value_t = 0, value_parser = whole::<u16>(0, 65_535))]
    pub(crate) depth: u16,
}

/// How fast a file is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// This multiple of the recorded speed.
    Times(f64),
    /// As fast as the hub accepts it.
    Max,
}

pub(crate) fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    match text.parse::<f64>() {
        Ok(times) if times > 0.0 && times.is_finite() => Ok(Speed::Times(times)),
        _ => Err("expected a number above 0, or max".to_owned()),
    }
}

/// Options of `watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchOptions {
    /// Symbols: names, or patterns with * and ? [default: all].
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Vec<String>,
    /// The feed port of the hub, or of an exchange: HOST:PORT, or tls://HOST:PORT.
    #[arg(long, value_name = "FEED_ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) from: Place,
    /// TLS.
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    /// The Redis port of the hub, for its own figures, or none.
    #[arg(long, value_name = "RESP_ADDR|none", default_value = "127.0.0.1:6379")]
    pub(crate) info: InfoSource,
    /// The user of both ports.
    #[command(flatten)]
    pub(crate) login: LoginOptions,
    /// Print once and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON: one document with --once, otherwise one line per period.
    #[arg(long)]
    pub(crate) json: bool,
    /// Period of --once and --json, over which rates and latencies are measured.
    #[arg(long = "for", value_name = "DURATION", default_value = "1s",
          value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// How long --once and --json wait for the hub.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(crate) patience: Duration,
    /// Maximum number of rows that --once and --json print.
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
          value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) rows: usize,
    /// Sort column.
    #[arg(long, value_name = "COLUMN", value_enum, default_value = "updates")]
    pub(crate) sort: SortColumn,
    /// Sort in ascending order.
    #[arg(long)]
    pub(crate) ascending: bool,
}

/// Where `watch` requests a hub's own figures.
#[derive(Clone, Debug)]
pub(crate) enum InfoSource {
    /// Nowhere.
    Nowhere,
    /// At this Redis port.
    At(Endpoint),
}

impl std::str::FromStr for InfoSource {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Nowhere),
            address => address.parse().map(Self::At),
        }
    }
}

/// Options of `demo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoOptions {
    /// Options of the hub.
    #[command(flatten)]
    pub(crate) serve: ServeOptions,
    /// The simulated market.
    #[command(flatten)]
    pub(crate) market: MarketOptions,
    /// Stop after this time, with a summary.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Print plain lines instead of the live table.
    #[arg(long)]
    pub(crate) no_tui: bool,
    /// Play this DBN file instead of the simulated exchange.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Multiple of the original speed of the file.
    #[arg(long, value_name = "1|10|max", default_value = "max", value_parser = parse_speed,
          requires = "replay")]
    pub(crate) speed: Speed,
}
