//! The command line. Every option of `serve` can also stand in the environment (`TIDEWIRE_*`) and
//! in a file; see [`crate::config`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use tidewire_feed::faults::FaultPlan;
use tidewire_feed::simulation::MarketKind;
use tidewire_feed::wire::SlowPolicy;
use tidewire_lane::{Endpoint, EndpointError};
use tidewire_market::{FeedLines, FeedSource, MoldInput, SoupInput};
use tidewire_mx::plant::Faults;
use tidewire_mx::plant::tags::TAGS_MAX;

use crate::itch::ItchOptions;
use crate::log::LogFormat;
use crate::plant::PlantArguments;
use crate::units::{parse_count, parse_duration, whole};
use crate::watch::SortColumn;

/// A real-time data hub: the latest value of everything that moves, and its stream, over Redis,
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
    /// The form of the log's lines.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value = "text",
        env = "TIDEWIRE_LOG_FORMAT"
    )]
    pub(crate) log_format: LogFormat,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Options {
    /// Reads the command line of this process.
    pub(crate) fn from_command_line() -> Result<Self, clap::Error> {
        Self::read(std::env::args_os())
    }

    /// Reads words, the program's name first. A number below zero is a value, and refused as one
    /// where it is out of range, not an option that there is not.
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
    /// Show messages as annotated fields.
    Decode(DecodeOptions),
    /// Make a pair of keys for ZeroMQ's CURVE.
    CurveKeys,
    /// Play a recording, a file of DBN or ITCH, or a capture of a network, into a running hub.
    Replay(ReplayOptions),
    /// Show the latest values of a running hub in the terminal, or as JSON.
    Watch(WatchOptions),
    /// Make, look at or send files of ITCH 5.0 (see docs/itch.md).
    Itch(ItchOptions),
    /// Run hub and simulated exchange, and watch them: the place to begin.
    Demo(DemoOptions),
}

/// Options of `serve`. What is not given here is looked for in the environment, then in the file,
/// then the default holds.
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
    /// ZeroMQ subscribers [default: tcp://127.0.0.1:5556].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PUB")]
    pub(crate) zmq_pub: Option<Endpoint>,
    /// ZeroMQ pushers [default: tcp://127.0.0.1:5557].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PULL")]
    pub(crate) zmq_pull: Option<Endpoint>,
    /// ZeroMQ peers that ask for values, REQ and DEALER [default: tcp://127.0.0.1:5558].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_ROUTER")]
    pub(crate) zmq_router: Option<Endpoint>,
    /// What ZeroMQ peers must prove: plain asks for the name and password of a user, curve for
    /// keys [default: null].
    #[arg(long, value_name = "NAME", value_enum, env = "TIDEWIRE_ZMQ_MECHANISM")]
    pub(crate) zmq_mechanism: Option<ZmqMechanism>,
    /// With curve: a file with the secret key of the ZeroMQ ports (see curve-keys).
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_ZMQ_CURVE_KEY")]
    pub(crate) zmq_curve_key: Option<PathBuf>,
    /// With curve: a file with a line PUBLIC-KEY USER for each client [default: every client is
    /// the user default].
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_ZMQ_CURVE_CLIENTS")]
    pub(crate) zmq_curve_clients: Option<PathBuf>,
    /// Native feed, for clients and publishers [default: 127.0.0.1:9876].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_FEED")]
    pub(crate) feed: Option<Endpoint>,
    /// What is done for a feed client that is too slow and does not choose itself: newest values
    /// in place of what it missed, the gap marked, or the end [default: conflate].
    #[arg(long, value_name = "NAME", value_enum, env = "TIDEWIRE_FEED_SLOW")]
    pub(crate) feed_slow: Option<FeedSlow>,
    /// Databento's live clients; needs --databento-key [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_DATABENTO")]
    pub(crate) databento: Option<Endpoint>,
    /// The API key that Databento's clients must know.
    #[arg(
        long,
        value_name = "KEY",
        env = "TIDEWIRE_DATABENTO_KEY",
        hide_env_values = true
    )]
    pub(crate) databento_key: Option<String>,
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
    /// Send the native feed in datagrams as well: GROUP:PORT, a second line behind a +, and
    /// @INTERFACE for multicast [default: none].
    #[arg(long, value_name = "LINES", env = "TIDEWIRE_FEED_UDP")]
    pub(crate) feed_udp: Option<FeedLines>,
    /// A native feed to read: HOST:PORT; +HOST:PORT behind it is a second input of the same
    /// session, +udp://GROUP:PORT (one or two) where its stream comes in datagrams, @INTERFACE
    /// for multicast; may be given several times (separated by commas in the environment).
    #[arg(
        long,
        value_name = "ADDR",
        env = "TIDEWIRE_SOURCE",
        value_delimiter = ','
    )]
    pub(crate) source: Vec<FeedSource>,
    /// A plant.
    #[command(flatten)]
    pub(crate) plant: PlantArguments,
    /// Record the stream of market data into this file, behind what it holds already.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_RECORD")]
    pub(crate) record: Option<PathBuf>,
    /// ITCH over MoldUDP64 to read: A=GROUP:PORT,B=GROUP:PORT,request=HOST:PORT,
    /// interface=ADDRESS,date=YYYY-MM-DD; may be given several times.
    #[arg(long, value_name = "LINES", env = "TIDEWIRE_MOLD")]
    pub(crate) mold: Vec<MoldInput>,
    /// ITCH over SoupBinTCP to read: HOST:PORT,user=NAME,password=WORD,session=NAME,
    /// date=YYYY-MM-DD; may be given several times.
    #[arg(
        long,
        value_name = "SERVER",
        env = "TIDEWIRE_SOUP",
        hide_env_values = true
    )]
    pub(crate) soup: Vec<SoupInput>,
    /// Event loops, 1 to 64 [default: one a core].
    #[arg(long, value_name = "N", env = "TIDEWIRE_LANES",
          value_parser = whole::<u16>(1, 64))]
    pub(crate) lanes: Option<u16>,
    /// Pin each event loop to a core.
    #[arg(long, env = "TIDEWIRE_PIN")]
    pub(crate) pin: bool,
    /// Whether the sends of a turn may leave in one call, by io_uring, where that is found to be
    /// cheaper [default: auto].
    #[arg(long, value_name = "CHOICE", env = "TIDEWIRE_IO_URING")]
    pub(crate) io_uring: Option<IoUring>,
    /// Keys that begin so are topics: each write is published [default: live:].
    #[arg(
        long,
        value_name = "PREFIX",
        env = "TIDEWIRE_LIVE_PREFIX",
        value_delimiter = ','
    )]
    pub(crate) live_prefix: Vec<String>,
    /// Keep the keys in this folder: load them at the start, and save them as `save` says, which is
    /// then "3600 1 300 100 60 10000" unless it is given.
    #[arg(long, value_name = "DIR", env = "TIDEWIRE_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Tell systemd when the hub is ready, as the parameter `supervised`: systemd, auto or no
    /// [default: no].
    #[arg(long, value_name = "MODE", env = "TIDEWIRE_SUPERVISED")]
    pub(crate) supervised: Option<String>,
    /// A parameter as Redis's CONFIG SET has it, such as maxclients=100 or
    /// enable-debug-command=yes; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) parameter: Vec<String>,
    /// Directives of a redis.conf as redis-server's command line has them: -- --port 7000
    /// --save 60 1.
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
    /// As parameters have it.
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
    /// Where the kernel permits it, and each lane finds it cheaper.
    Auto,
    /// Not at all.
    Off,
}

/// What is done for a feed client that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FeedSlow {
    /// Newest values stand for what it missed.
    Conflate,
    /// The gap is marked, and the stream goes on.
    Drop,
    /// It is cut off.
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

/// What ZeroMQ peers must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ZmqMechanism {
    /// Nothing.
    Null,
    /// Name and password of a user, in clear text.
    Plain,
    /// Keys; traffic is encrypted.
    Curve,
}

/// Options of `simulate`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SimulateOptions {
    /// Something else than an exchange.
    #[command(subcommand)]
    pub(crate) other: Option<SimulateCommand>,
    /// Where the exchange serves its feed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9870")]
    pub(crate) feed: Endpoint,
    /// Send the feed in datagrams as well: GROUP:PORT, a second line behind a +, and @INTERFACE
    /// for multicast; faults are put into each line.
    #[arg(long, value_name = "LINES")]
    pub(crate) feed_udp: Option<FeedLines>,
    /// What is traded, and how.
    #[command(flatten)]
    pub(crate) market: MarketOptions,
    /// Faults in what clients are sent, such as gaps=1%,fragment=5%,duplicate=0.5%,reorder=1%,
    /// corrupt=0.1%,stall=0.01%,disconnect=0.001%. Without % a share is a number from 0 to 1:
    /// gaps=1 is 100 %.
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<FaultPlan>,
    /// Writes the stream to a file, as the native packets that a client would get.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// End after so long.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// End after so many messages: the same seed gives the same ones on any machine.
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
    /// Where the plant listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9880")]
    pub(crate) listen: String,
    /// How many tags, 14 a tank; those for tests (Faults, Troubles, Quality) come on top.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_tags)]
    pub(crate) tags: u64,
    /// Same seed and same requests, same plant.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Between Advise and the first change, as on the platform.
    #[arg(long, value_name = "FROM-TO", default_value = "3s-8s", value_parser = parse_span)]
    pub(crate) first_change: (Duration, Duration),
    /// Between later changes of a tag.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// What goes wrong, such as refuse=1%,delay=5%,lose=1%,drop=0.01%,uncertain=1%,bad=1%,
    /// trouble=0.1%,delay-duration=2s.
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<Faults>,
    /// Write the names of all tags to a file, for serve --mx-tags.
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
    /// Let whole arrays be read without [], which the platform does not.
    #[arg(long)]
    pub(crate) bulk_arrays: bool,
    /// End after so long.
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
    if span.0 <= span.1 && span.1 <= Duration::from_secs(86_400) {
        Ok(span)
    } else {
        Err("a span such as 3s-8s, of a day at most, is expected".to_owned())
    }
}

/// Options of `decode`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DecodeOptions {
    /// Of which protocol.
    #[arg(value_enum)]
    pub(crate) subject: DecodeSubject,
    /// Hexadecimal digits; or a file of them, of a hex dump, or of bytes; or - for the standard
    /// input.
    #[arg(value_name = "HEX|FILE|-", required_unless_present = "profile")]
    pub(crate) input: Vec<String>,
    /// What the bytes are.
    #[arg(long = "as", value_enum, default_value_t = DecodeForm::Auto)]
    pub(crate) form: DecodeForm,
    /// A name of an object or attribute, to be recognised by its signature; may be given several
    /// times.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// As JSON: a list of fields for each message.
    #[arg(long)]
    pub(crate) json: bool,
    /// List the constants that a capture may have to correct, and what each rests on.
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
    /// An envelope with a body where its length fits, otherwise a body.
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
    /// Messages a second, evenly spaced.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_count)]
    pub(crate) rate: u64,
    /// How many symbols (the first hundred have real names), or a CSV file of
    /// name,price,volatility.
    #[arg(long, value_name = "N|FILE", default_value = "100")]
    pub(crate) symbols: String,
    /// Same seed, same ticks.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) seed: u64,
    /// Where prices tend to.
    #[arg(long, value_enum, default_value_t = MarketChoice::Neutral)]
    pub(crate) market: MarketChoice,
}

/// Where prices tend to.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MarketChoice {
    /// Up.
    Bull,
    /// Nowhere.
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
    /// A recording of `serve --record`; a DBN file, plain or compressed with zstd; a file of
    /// ITCH 5.0 (- for the standard input); or a capture (pcap, pcapng) of ITCH over MoldUDP64.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The feed port of the hub.
    #[arg(long, value_name = "FEED_ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) to: Endpoint,
    /// Times the original speed: 1, 10, ... or max.
    #[arg(long, value_name = "1|10|max", default_value = "1", value_parser = parse_speed)]
    pub(crate) speed: Speed,
    /// Begin again at the end, until stopped.
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
}

/// How fast a file is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// As fast as the hub takes it.
    Max,
}

pub(crate) fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    match text.parse::<f64>() {
        Ok(times) if times > 0.0 && times.is_finite() => Ok(Speed::Times(times)),
        _ => Err("a number above 0, or max, is expected".to_owned()),
    }
}

/// Options of `watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchOptions {
    /// Symbols: names, or patterns with * and ? [default: all].
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Vec<String>,
    /// The feed port of the hub, or of an exchange.
    #[arg(long, value_name = "FEED_ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) from: Endpoint,
    /// The Redis port of the hub, to ask for its own figures; or none. A password is taken from
    /// REDISCLI_AUTH.
    #[arg(long, value_name = "RESP_ADDR|none", default_value = "127.0.0.1:6379")]
    pub(crate) info: InfoSource,
    /// The name that goes with the password [default: default].
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Look once, print, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON: one document with --once, otherwise a line for each look.
    #[arg(long)]
    pub(crate) json: bool,
    /// How long a look of --once or --json lasts: figures a second are of this time.
    #[arg(long = "for", value_name = "DURATION", default_value = "1s",
          value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// How long --once and --json wait for the hub.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(crate) patience: Duration,
    /// Rows that --once and --json print at most.
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
          value_parser = whole::<usize>(0, u64::MAX))]
    pub(crate) rows: usize,
    /// What to sort by.
    #[arg(long, value_name = "COLUMN", value_enum, default_value = "updates")]
    pub(crate) sort: SortColumn,
    /// The least first.
    #[arg(long)]
    pub(crate) ascending: bool,
}

/// Where a hub's own figures are asked for.
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
    /// The hub's own options.
    #[command(flatten)]
    pub(crate) serve: ServeOptions,
    /// What is traded, and how.
    #[command(flatten)]
    pub(crate) market: MarketOptions,
    /// End after so long, with a summary.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Plain lines in place of the live table.
    #[arg(long)]
    pub(crate) no_tui: bool,
    /// Play this DBN file in place of the simulated exchange.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Times the original speed of the file.
    #[arg(long, value_name = "1|10|max", default_value = "max", value_parser = parse_speed,
          requires = "replay")]
    pub(crate) speed: Speed,
}
