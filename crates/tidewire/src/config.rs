//! Configuration of the hub. Command-line options override the environment, and the environment
//! overrides the file.

mod file_place;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidewire_feed::journal::{CAPACITY_MAX, CAPACITY_MIN};
use tidewire_feed::wire::SlowPolicy;
use tidewire_hub::{HubConfig, ZmqSecurity, port};
use tidewire_lane::{Endpoint, TlsConnector};
use tidewire_lastvalue::SLOT_LIMIT_MAX;
use tidewire_market::{FeedSource, Input, InputError, MarketConfig};
use tidewire_redis::ids::{
    BIND, DIR, PORT, PROTECTED_MODE, SAVE, SUPERVISED, TLS_AUTH_CLIENTS, TLS_CA_CERT_FILE,
    TLS_CERT_FILE, TLS_KEY_FILE, TLS_PORT,
};
use tidewire_redis::{BindAddress, Parameters, RedisConf, RedisConfig};
use tidewire_web::websocket::Origins;

pub(crate) use self::file_place::FilePlace;
use crate::cluster_file;
use crate::failure::{Failure, plain};
use crate::feed_login;
use crate::options::{FeedSlow, IoUring, ServeOptions, YesNo, ZmqGone, ZmqMechanism};
use crate::plant::{self, PlantTable};
use crate::tls_ports::TlsPlace;
use crate::web::{WebLines, WebPlace};

/// The configuration of a hub.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) resp: Endpoint,
    /// Addresses of Redis clients from a redis.conf.
    pub(crate) resp_places: Vec<RespPlace>,
    /// Whether the hub listens for Redis clients only there, and not at `resp`.
    pub(crate) has_resp_places_alone: bool,
    /// `dir` of a redis.conf.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) zmq_pub: Endpoint,
    pub(crate) zmq_pull: Endpoint,
    pub(crate) zmq_router: Endpoint,
    pub(crate) feed: Endpoint,
    /// Address for Databento's live clients, if they are served.
    pub(crate) databento: Option<Endpoint>,
    /// Address of the HTTP endpoint with metrics, if there is one.
    pub(crate) admin: Option<Endpoint>,
    /// Address of web pages, if they are served.
    pub(crate) web: Option<WebPlace>,
    /// Addresses with TLS, of every port but that of Redis clients.
    pub(crate) tls_places: Vec<TlsPlace>,
    pub(crate) pin: bool,
    /// The file that records the stream of market data, if any.
    pub(crate) record: Option<PathBuf>,
    /// Limits and the number of lanes.
    pub(crate) hub: HubConfig,
}

/// An address for Redis clients beside `resp`.
#[derive(Clone, Debug)]
pub(crate) enum RespPlace {
    Bind(BindAddress),
    /// With TLS: `tls-port`.
    BindTls(BindAddress),
    /// With TLS: `--resp-tls`.
    Tls(Endpoint),
    Socket(Endpoint),
}

/// The TOML file. The names are those of the options; limits can be set only here.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    resp: Option<String>,
    resp_tls: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    zmq_pub: Option<String>,
    zmq_pull: Option<String>,
    zmq_router: Option<String>,
    zmq_mechanism: Option<ZmqMechanism>,
    zmq_curve_key: Option<PathBuf>,
    zmq_curve_clients: Option<PathBuf>,
    zmq_ws_origins: Option<Vec<String>>,
    zmq_gone: Option<ZmqGone>,
    feed: Option<String>,
    feed_slow: Option<FeedSlow>,
    feed_udp: Option<String>,
    databento: Option<String>,
    databento_key: Option<String>,
    databento_user: Option<String>,
    admin: Option<String>,
    zmq_pub_tls: Option<String>,
    zmq_pull_tls: Option<String>,
    zmq_router_tls: Option<String>,
    feed_tls: Option<String>,
    databento_tls: Option<String>,
    admin_tls: Option<String>,
    web: Option<String>,
    web_tls: Option<String>,
    web_origins: Option<Vec<String>>,
    web_insecure: Option<bool>,
    protected_mode: Option<YesNo>,
    source: Vec<String>,
    source_user: Option<String>,
    source_password_file: Option<PathBuf>,
    record: Option<PathBuf>,
    cluster: Option<PathBuf>,
    mdp: Vec<String>,
    mold: Vec<String>,
    soup: Vec<String>,
    lanes: Option<u16>,
    pin: Option<bool>,
    io_uring: Option<IoUring>,
    live_prefix: Option<Vec<String>>,
    dir: Option<String>,
    supervised: Option<String>,
    mx: PlantTable,
    limits: Limits,
    parameters: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Limits {
    clients_max: Option<usize>,
    market_topics_max: Option<usize>,
    journal_messages: Option<usize>,
    conflate_bytes: Option<usize>,
    zmq_high_water_bytes: Option<usize>,
    zmq_frame_bytes_max: Option<u64>,
    topic_bytes_max: Option<usize>,
    pubsub_hard_bytes: Option<usize>,
    pubsub_soft_bytes: Option<usize>,
    pubsub_soft_seconds: Option<u64>,
    mailbox_bytes_max: Option<usize>,
}

impl Config {
    /// Reads the configuration file, if one is given, and applies the options over it.
    pub(crate) fn new(options: &ServeOptions) -> Result<Self, Failure> {
        let (file, place) = match options.config.as_deref() {
            Some(path) => read_file::<File>(path)?,
            None => Default::default(),
        };
        let endpoint =
            |given: &Option<Endpoint>, name: &str, text: Option<&String>, default: &str| {
                if let Some(endpoint) = given {
                    return Ok(endpoint.clone());
                }
                parse(text.map_or(default, String::as_str), &place, name)
            };
        let admin = match (&options.admin, &file.admin) {
            (None, None) => None,
            (given, text) => Some(endpoint(given, "admin", text.as_ref(), "")?),
        };
        let databento = match (&options.databento, &file.databento) {
            (None, None) => None,
            (given, text) => Some(endpoint(given, "databento", text.as_ref(), "")?),
        };
        let texts = [
            &file.zmq_pub_tls,
            &file.zmq_pull_tls,
            &file.zmq_router_tls,
            &file.feed_tls,
            &file.databento_tls,
            &file.admin_tls,
            &file.web_tls,
        ];
        let tls_places = options.tls_ports.places(texts, &place)?;
        let serves_databento =
            databento.is_some() || tls_places.iter().any(|one| one.port == port::DATABENTO);
        let databento_key = options
            .databento_key
            .clone()
            .or(file.databento_key.clone())
            .filter(|key| !key.is_empty());
        if serves_databento && databento_key.is_none() {
            return Err(Failure::usage("--databento needs --databento-key KEY"));
        }
        if !serves_databento && databento_key.is_some() {
            return Err(Failure::usage("--databento-key needs --databento ADDR"));
        }
        let mut source = options.source.clone();
        if source.is_empty() {
            source = file
                .source
                .iter()
                .map(|text| parse::<FeedSource>(text, &place, "source"))
                .collect::<Result<_, _>>()?;
        }
        let source_user = options.source_user.as_ref().or(file.source_user.as_ref());
        let password_file = options.source_password_file.as_ref();
        let password_file = password_file.or(file.source_password_file.as_ref());
        let credentials = feed_login::credentials(
            source_user.map(String::as_str),
            password_file.map(PathBuf::as_path),
            &feed_login::SOURCE,
        )?;
        source
            .iter_mut()
            .for_each(|one| one.credentials = credentials);
        // A separate thread reads datagrams.
        let (native, source) = source.into_iter().partition(FeedSource::has_lines);
        let native: Vec<FeedSource> = native;
        let mut inputs = inputs(options, &file, &place)?;
        inputs.extend(native.into_iter().map(Input::Native));
        let feed_udp = match (&options.feed_udp, &file.feed_udp) {
            (Some(lines), _) => Some(lines.clone()),
            (None, text) => text
                .as_ref()
                .map(|text| parse(text, &place, "feed-udp"))
                .transpose()?,
        };
        let lanes = options.lanes.or(file.lanes).map_or_else(cores, usize::from);
        if !(1..=64).contains(&lanes) {
            let place = place.of("lanes");
            let text = format!("{place} = {lanes}: a whole number from 1 to 64 is expected");
            return Err(Failure::usage(text));
        }
        let pin = options.pin || file.pin.unwrap_or(false);
        let conf = options.redis_conf.as_deref();
        let conf = RedisConf::read(conf, &options.directives).map_err(Failure::usage)?;
        let mut resp_places = resp_places(&conf)?;
        let is_plain = |place: &RespPlace| !matches!(place, RespPlace::BindTls(_));
        let says_place =
            conf.path.is_some() || conf.port.is_some() || resp_places.iter().any(is_plain);
        if options.resp.is_some() {
            // The option overrides `port` and `bind`, but neither the Unix socket nor `tls-port`.
            resp_places.retain(|place| !matches!(place, RespPlace::Bind(_)));
        }
        match (&options.resp_tls, &file.resp_tls) {
            (None, None) => {}
            (given, text) => {
                let place = endpoint(given, "resp-tls", text.as_ref(), "")?;
                resp_places.push(RespPlace::Tls(place));
            }
        }
        let cluster = options.cluster.as_ref().or(file.cluster.as_ref());
        let cluster = cluster.map(|path| cluster_file::read(path)).transpose()?;
        let (cluster, quorum) = cluster.unzip();
        let connector = TlsConnector::default();
        let web_lines = WebLines {
            web: file.web.as_deref(),
            origins: file.web_origins.as_ref(),
            insecure: file.web_insecure,
        };
        let web = options.web.place(&web_lines, &place)?;
        let mut hub = HubConfig {
            redis: RedisConfig {
                connector: connector.clone(),
                redis_conf: conf.path,
                users: conf.users,
                renames: conf.renames,
                has_tls_ports: !tls_places.is_empty(),
                lanes,
                pinned: pin,
                quorum: quorum.flatten(),
                ..RedisConfig::default()
            },
            market: MarketConfig {
                sources: source,
                connector: connector.clone(),
                databento_key,
                inputs,
                feed_lines: feed_udp,
                cluster,
                feed_slow: options
                    .feed_slow
                    .or(file.feed_slow)
                    .map_or(SlowPolicy::Conflate, Into::into),
                ..MarketConfig::default()
            },
            plant: plant::options(&options.plant, &file.mx, &place, &connector)?,
            io_uring: options.io_uring.or(file.io_uring) != Some(IoUring::Off),
            databento_user: options
                .databento_user
                .clone()
                .or(file.databento_user.clone()),
            zmq_security: zmq_security(&file, options)?,
            zmq_ws_origins: zmq_ws_origins(&file, options, &place)?.into(),
            web: options.web.config(&web_lines, &place)?.into(),
            ..HubConfig::default()
        };
        if !options.live_prefix.is_empty() {
            hub.redis.live_prefixes = options
                .live_prefix
                .iter()
                .map(|p| p.clone().into())
                .collect();
        } else if let Some(prefixes) = &file.live_prefix {
            hub.redis.live_prefixes = prefixes.iter().map(|p| p.clone().into()).collect();
        }
        let option = match options.live_prefix.is_empty() {
            true => place.of("live-prefix"),
            false => "--live-prefix".to_owned(),
        };
        check_live_prefixes(&hub.redis.live_prefixes, &option)?;
        file.limits.apply(&mut hub, &place)?;
        hub.fanout.zmq_flags_gone = options.zmq_gone.or(file.zmq_gone) == Some(ZmqGone::Flag);
        hub.redis.parameters = conf.parameters;
        // `dir` among the command line's directives turns saving on, as `--dir` does.
        let directory = conf
            .directory
            .clone()
            .filter(|_| hub.redis.redis_conf.is_none());
        let asks_for_files = hub.redis.redis_conf.is_some() || directory.is_some();
        if asks_for_files && hub.redis.given(SAVE).is_none() {
            // With Redis's default save points.
            let save = (SAVE.name().to_owned(), SAVE_POINTS.to_owned());
            hub.redis.parameters.push(save);
        }
        if let Some(directory) = directory.clone() {
            let directory = std::path::absolute(&directory).unwrap_or(directory);
            let value = directory.display().to_string();
            hub.redis.parameters.push((DIR.name().to_owned(), value));
        }
        hub.redis
            .parameters
            .extend(parameters(&file, options, &place)?);
        let has_own_certificate = options.tls_cert.is_some() || file.tls_cert.is_some();
        if has_own_certificate
            && hub.redis.value(TLS_CA_CERT_FILE).is_empty()
            && hub.redis.given(TLS_AUTH_CLIENTS).is_none()
        {
            // Without an authority no client has a certificate.
            let unasked = (TLS_AUTH_CLIENTS.name().to_owned(), "no".to_owned());
            hub.redis.parameters.push(unasked);
        }
        hub.redis.has_tls_links = has_tls_links(&hub);
        let resp = endpoint(&options.resp, "resp", file.resp.as_ref(), "127.0.0.1:6379")?;
        if let Some(quorum) = &mut hub.redis.quorum
            && quorum.address.is_empty()
        {
            quorum.address = resp.to_string();
        }
        let config = Self {
            resp,
            resp_places,
            has_resp_places_alone: says_place && options.resp.is_none(),
            directory: conf.directory,
            zmq_pub: endpoint(
                &options.zmq_pub,
                "zmq-pub",
                file.zmq_pub.as_ref(),
                "127.0.0.1:5556",
            )?,
            zmq_pull: endpoint(
                &options.zmq_pull,
                "zmq-pull",
                file.zmq_pull.as_ref(),
                "127.0.0.1:5557",
            )?,
            zmq_router: endpoint(
                &options.zmq_router,
                "zmq-router",
                file.zmq_router.as_ref(),
                "127.0.0.1:5558",
            )?,
            feed: endpoint(&options.feed, "feed", file.feed.as_ref(), "127.0.0.1:9876")?,
            databento,
            admin,
            web,
            tls_places,
            pin,
            record: options.record.clone().or(file.record),
            hub,
        };
        config.check_addresses()?;
        Ok(config)
    }

    /// Refuses one address under two options, before anything is bound.
    fn check_addresses(&self) -> Result<(), Failure> {
        let mut places = vec![
            ("--zmq-pub", &self.zmq_pub),
            ("--zmq-pull", &self.zmq_pull),
            ("--zmq-router", &self.zmq_router),
            ("--feed", &self.feed),
        ];
        places.extend(self.databento.as_ref().map(|one| ("--databento", one)));
        places.extend(self.admin.as_ref().map(|one| ("--admin", one)));
        let given = self.web.as_ref().filter(|one| !one.is_default);
        places.extend(given.map(|one| ("--web", &one.endpoint)));
        let with_tls = self.tls_places.iter();
        places.extend(with_tls.map(|one| (one.option, &one.endpoint)));
        places.extend(self.resp_places.iter().filter_map(|place| match place {
            RespPlace::Tls(endpoint) => Some(("--resp-tls", endpoint)),
            _ => None,
        }));
        if !self.has_resp_places_alone {
            places.insert(0, ("--resp", &self.resp));
        }
        for (index, (name, place)) in places.iter().enumerate() {
            // The system chooses a free port for 0.
            let is_chosen = place.tcp().is_some_and(|address| address.port() == 0);
            let other = places[..index].iter().find(|(_, other)| other == place);
            if let Some((other, _)) = other.filter(|_| !is_chosen) {
                return Err(Failure::usage(format!(
                    "{other} and {name} name the same address, {place}; choose another for one of \
                     them"
                )));
            }
        }
        Ok(())
    }
}

/// Refuses prefixes under which no key can be a topic.
fn check_live_prefixes(prefixes: &[Vec<u8>], option: &str) -> Result<(), Failure> {
    let reserved = RESERVED.iter().flat_map(|(names, use_of_them)| {
        let names = names.iter();
        names.map(move |name| (*name, *use_of_them))
    });
    for prefix in prefixes {
        let text = prefix.escape_ascii();
        if prefix.is_empty() {
            return Err(Failure::usage(format!(
                "{option} '': every key would be a topic; give a prefix, or omit the option for \
                 live:"
            )));
        }
        let mut reserved = reserved.clone();
        let taken = reserved.find(|(name, _)| {
            prefix.starts_with(name.as_bytes()) || name.as_bytes().starts_with(prefix)
        });
        if let Some((name, use_of_them)) = taken {
            return Err(Failure::usage(format!(
                "{option} '{text}': names that begin with {name} are reserved for {use_of_them}; \
                 choose another prefix, such as live:"
            )));
        }
    }
    Ok(())
}

/// Names that the hub serves itself.
const RESERVED: [(&[&str], &str); 4] = [
    (&["md:", "book:", "bar:"], "market data"),
    (&["mx:"], "the tags of a plant"),
    (&["__keyspace@", "__keyevent@"], "notifications about keys"),
    (&["__redis__:"], "invalidation messages"),
];

/// Returns the exchange feeds of the options or, without any, those of the file.
fn inputs(options: &ServeOptions, file: &File, place: &FilePlace) -> Result<Vec<Input>, Failure> {
    let wrong = |name: &str, text: &str, error: InputError| {
        Failure::usage(format!("{} = '{text}': {error}", place.of(name)))
    };
    let mut mold = options.mold.clone();
    if mold.is_empty() {
        for text in &file.mold {
            mold.push(text.parse().map_err(|error| wrong("mold", text, error))?);
        }
    }
    let mut mdp = options.mdp.clone();
    if mdp.is_empty() {
        for text in &file.mdp {
            mdp.push(text.parse().map_err(|error| wrong("mdp", text, error))?);
        }
    }
    let mut soup = options.soup.clone();
    if soup.is_empty() {
        for text in &file.soup {
            // The text may contain a password and is not shown.
            soup.push(text.parse().map_err(|error| wrong("soup", "...", error))?);
        }
    }
    let mold = mold.into_iter().map(Input::Mold);
    let mold = mold.chain(mdp.into_iter().map(Input::Mdp));
    Ok(mold.chain(soup.into_iter().map(Input::Soup)).collect())
}

impl Limits {
    fn apply(&self, hub: &mut HubConfig, place: &FilePlace) -> Result<(), Failure> {
        self.check(place)?;
        fn set<T: Copy>(target: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *target = value;
            }
        }
        set(&mut hub.redis.clients_max, self.clients_max);
        set(&mut hub.market.topics_max, self.market_topics_max);
        set(&mut hub.market.journal_messages, self.journal_messages);
        set(&mut hub.fanout.conflate_bytes, self.conflate_bytes);
        set(
            &mut hub.fanout.zmq_high_water_bytes,
            self.zmq_high_water_bytes,
        );
        set(&mut hub.zmq_frame_bytes_max, self.zmq_frame_bytes_max);
        set(&mut hub.topic_bytes_max, self.topic_bytes_max);
        set(&mut hub.redis.pubsub_hard_bytes, self.pubsub_hard_bytes);
        set(&mut hub.redis.pubsub_soft_bytes, self.pubsub_soft_bytes);
        set(&mut hub.redis.pubsub_soft_seconds, self.pubsub_soft_seconds);
        set(&mut hub.fanout.waiting_bytes_max, self.mailbox_bytes_max);
        Ok(())
    }

    /// Refuses values with which a hub cannot work.
    fn check(&self, place: &FilePlace) -> Result<(), Failure> {
        let whole = |value: Option<usize>| value.map(|value| value as u64);
        let checks = [
            (
                "clients-max",
                whole(self.clients_max),
                1,
                u64::from(u32::MAX),
            ),
            (
                "market-topics-max",
                whole(self.market_topics_max),
                1,
                SLOT_LIMIT_MAX as u64,
            ),
            (
                "journal-messages",
                whole(self.journal_messages),
                CAPACITY_MIN as u64,
                CAPACITY_MAX as u64,
            ),
            ("zmq-frame-bytes-max", self.zmq_frame_bytes_max, 1, u64::MAX),
            ("topic-bytes-max", whole(self.topic_bytes_max), 1, u64::MAX),
        ];
        for (name, value, min, max) in checks {
            let Some(value) = value.filter(|value| !(min..=max).contains(value)) else {
                continue;
            };
            let place = place.of(&format!("limits.{name}"));
            let range = match max {
                u64::MAX => format!("of at least {min}"),
                max => format!("from {min} to {max}"),
            };
            let text = format!("{place} = {value}: a whole number {range} is expected");
            return Err(Failure::usage(text));
        }
        Ok(())
    }
}

/// Returns whether a source or the plant is reached by TLS.
fn has_tls_links(hub: &HubConfig) -> bool {
    let natives = hub.market.inputs.iter().any(|input| match input {
        Input::Native(source) => source.has_tls(),
        _ => false,
    });
    let plant = hub.plant.as_ref();
    natives
        || hub.market.sources.iter().any(FeedSource::has_tls)
        || plant.is_some_and(|plant| plant.tls.is_some())
}

/// Returns the addresses of Redis clients in a redis.conf.
fn resp_places(conf: &RedisConf) -> Result<Vec<RespPlace>, Failure> {
    let mut places = Vec::new();
    // With port 0, the Unix socket and the TLS port are the only addresses.
    let tls_port = conf.tls_port.filter(|port| *port != 0);
    let has_others = conf.unix_socket.is_some() || tls_port.is_some();
    let is_socket_alone = conf.port == Some(0) && has_others;
    let bind = conf.bind.as_deref().unwrap_or("127.0.0.1");
    let addresses_of = |port| {
        let unknown =
            |host: String| Failure::usage(format!("redis.conf: bind: unknown host '{host}'"));
        BindAddress::of(bind, port).map_err(unknown)
    };
    if (conf.port.is_some() || conf.bind.is_some()) && !is_socket_alone {
        let addresses = addresses_of(conf.port.unwrap_or(6379))?;
        places.extend(addresses.into_iter().map(RespPlace::Bind));
    }
    if let Some(port) = tls_port {
        places.extend(addresses_of(port)?.into_iter().map(RespPlace::BindTls));
    }
    if let Some(path) = &conf.unix_socket {
        places.push(RespPlace::Socket(Endpoint::Ipc(path.clone())));
    }
    Ok(places)
}

/// Returns the parameters of the file, followed by those of the command line. Each is checked.
fn parameters(
    file: &File,
    options: &ServeOptions,
    file_place: &FilePlace,
) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs = Vec::new();
    let dir = options.dir.as_ref().map(|path| path.display().to_string());
    if let Some(dir) = dir.or_else(|| file.dir.clone()) {
        if options.redis_conf.is_none() {
            pairs.push(("--dir", SAVE.name().to_owned(), SAVE_POINTS.to_owned()));
        }
        pairs.push(("--dir", DIR.name().to_owned(), dir));
    }
    let protected_mode = |place, switch: YesNo| {
        let value = switch.text().to_owned();
        (place, PROTECTED_MODE.name().to_owned(), value)
    };
    pairs.extend(
        file.protected_mode
            .map(|mode| protected_mode(FROM_FILE, mode)),
    );
    for (name, value) in &file.parameters {
        pairs.push((FROM_FILE, name.clone(), value.clone()));
    }
    if let Some(mode) = options.supervised.clone().or(file.supervised.clone()) {
        pairs.push(("--supervised", SUPERVISED.name().to_owned(), mode));
    }
    for (option, id, given, text) in [
        (
            "--tls-cert",
            TLS_CERT_FILE,
            &options.tls_cert,
            &file.tls_cert,
        ),
        ("--tls-key", TLS_KEY_FILE, &options.tls_key, &file.tls_key),
        ("--tls-ca", TLS_CA_CERT_FILE, &options.tls_ca, &file.tls_ca),
    ] {
        if let Some(path) = given.as_ref().or(text.as_ref()) {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            pairs.push((option, id.name().to_owned(), path.display().to_string()));
        }
    }
    let mode = options.protected_mode;
    pairs.extend(mode.map(|mode| protected_mode("--protected-mode", mode)));
    for text in &options.parameter {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set {text}: expected NAME=VALUE")))?;
        pairs.push(("--set", name.to_owned(), value.to_owned()));
    }
    let check = |(place, name, value): (&str, String, String)| {
        let place = match place {
            FROM_FILE => file_place.of(&format!("parameters.{name}")),
            option => format!("{option}: {name}"),
        };
        if [BIND.name(), PORT.name()].contains(&name.as_str()) {
            let text = format!("{place}: give the address of Redis clients with --resp");
            return Err(Failure::usage(text));
        }
        if name == TLS_PORT.name() {
            let text = format!("{place}: give the address of Redis clients with --resp-tls");
            return Err(Failure::usage(text));
        }
        Parameters::check(&name, &value)
            .map_err(|error| Failure::usage(format!("{place} = '{value}': {error}")))?;
        Ok((name, value))
    };
    pairs.into_iter().map(check).collect()
}

/// Marks a parameter of the file, in place of the option's name.
const FROM_FILE: &str = "";

/// Returns how ZeroMQ peers must authenticate.
fn zmq_security(file: &File, options: &ServeOptions) -> Result<ZmqSecurity, Failure> {
    let key = options
        .zmq_curve_key
        .as_ref()
        .or(file.zmq_curve_key.as_ref());
    let clients = options.zmq_curve_clients.as_ref();
    let clients = clients.or(file.zmq_curve_clients.as_ref());
    match options.zmq_mechanism.or(file.zmq_mechanism) {
        Some(ZmqMechanism::Curve) => {
            let key = key.ok_or_else(|| {
                Failure::usage("--zmq-mechanism curve needs --zmq-curve-key FILE (see curve-keys)")
            })?;
            let secret = read_text(key, "--zmq-curve-key")?;
            let listed = clients.map(|path| read_text(path, "--zmq-curve-clients"));
            let listed = listed.transpose()?;
            ZmqSecurity::curve(&secret, listed.as_deref()).map_err(|error| {
                let place = match (error.starts_with("line"), clients) {
                    (true, Some(clients)) => clients,
                    _ => key,
                };
                Failure::usage(format!("{}: {error}", place.display()))
            })
        }
        _ if key.is_some() || clients.is_some() => Err(Failure::usage(
            "--zmq-curve-key and --zmq-curve-clients need --zmq-mechanism curve",
        )),
        Some(ZmqMechanism::Plain) => Ok(ZmqSecurity::Plain),
        Some(ZmqMechanism::Null) | None => Ok(ZmqSecurity::Null),
    }
}

/// Returns the web pages that may connect to the ZeroMQ ports.
fn zmq_ws_origins(
    file: &File,
    options: &ServeOptions,
    place: &FilePlace,
) -> Result<Origins, Failure> {
    let given = &options.zmq_ws_origins;
    let (origins, option) = match (&file.zmq_ws_origins, given.is_empty()) {
        (Some(origins), true) => (origins, place.of("zmq-ws-origins")),
        _ => (given, "--zmq-ws-origins".to_owned()),
    };
    Origins::new(origins).map_err(|error| Failure::usage(format!("{option}: {error}")))
}

fn read_text(path: &Path, option: &str) -> Result<String, Failure> {
    let place = path.display();
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{option}: cannot read {place}: {error}")))
}

/// Reads a file of TOML.
pub(crate) fn read_file<T: DeserializeOwned>(path: &Path) -> Result<(T, FilePlace), Failure> {
    let path = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
    let place = FilePlace { path, text };
    let file = toml::from_str(&place.text).map_err(|error| {
        let newlines = |end: usize| {
            place.text[..end]
                .bytes()
                .filter(|&byte| byte == b'\n')
                .count()
        };
        let line = 1 + error.span().map_or(0, |span| newlines(span.start));
        let message = plain(&error.message().lines().collect::<Vec<_>>().join(" "));
        let key = place
            .key_on(line)
            .filter(|_| !message.starts_with("unknown key"));
        let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
        Failure::usage(format!("{}, line {line}: {key}{message}", place.path))
    })?;
    Ok((file, place))
}

fn parse<T: FromStr<Err: Display>>(
    text: &str,
    place: &FilePlace,
    name: &str,
) -> Result<T, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("{} = '{text}': {error}", place.of(name))))
}

/// Redis's default save points, used if only a directory is given.
const SAVE_POINTS: &str = "3600 1 300 100 60 10000";

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(64))
}

#[cfg(test)]
mod tests;
