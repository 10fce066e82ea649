//! A running hub: its listeners and its lanes.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidewire_hub::{Hub, HubConfig, HubLane, Mail, port};
use tidewire_lane::{Endpoint, LaneConfig, Lanes, ListenError, Listener};
use tidewire_market::{
    Cluster, ClusterConfig, Exchange, Inputs, LinesOut, Recorder, TopicsCluster,
};
use tidewire_memory::HugePages;
use tidewire_redis::ids::{DISABLE_THP, UNIXSOCKETPERM};
use tidewire_redis::{Durability, QuorumThread, watch_lanes};

use crate::admin::Admin;
use crate::config::{Config, RespPlace};
use crate::descriptors;
use crate::failure::Failure;

/// The listening sockets of a hub.
#[derive(Debug)]
pub struct Listeners {
    /// At least one.
    resp: Vec<Listener>,
    zmq_pub: Listener,
    zmq_pull: Listener,
    zmq_router: Listener,
    feed: Listener,
    databento: Option<Listener>,
    web: Option<Listener>,
    /// Those with TLS, of every port but that of Redis clients, with their names.
    with_tls: Vec<(&'static str, Listener)>,
    admin: Option<Admin>,
}

/// The addresses of a hub.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub resp: Endpoint,
    pub zmq_pub: Endpoint,
    pub zmq_pull: Endpoint,
    pub zmq_router: Endpoint,
    pub feed: Endpoint,
    pub web: Option<Endpoint>,
}

impl Listeners {
    /// Listens on every configured address. The error names the first address that fails.
    pub(crate) fn bind(config: &Config) -> Result<Self, Failure> {
        Self::bind_with(config, Listener::bind)
    }

    /// Works like [`Listeners::bind`], but chooses a free port if one is in use.
    pub(crate) fn bind_nearby(config: &Config) -> Result<Self, Failure> {
        Self::bind_with(config, |endpoint, port| {
            match Listener::bind(endpoint, port) {
                Err(error) if error.is_in_use() => Listener::bind(&endpoint.with_port(0), port),
                other => other,
            }
        })
    }

    fn bind_with(
        config: &Config,
        bind: impl Fn(&Endpoint, u16) -> Result<Listener, ListenError>,
    ) -> Result<Self, Failure> {
        let web = bind_web(config, &bind)?;
        let bind = |endpoint, port, option: &str| {
            bind(endpoint, port).map_err(|error| Failure::usage(format!("{option}: {error}")))
        };
        let mut resp = Vec::new();
        if !config.has_resp_places_alone {
            resp.push(bind(&config.resp, port::RESP, "--resp")?);
        }
        for place in &config.resp_places {
            let made = match place {
                RespPlace::Socket(endpoint) => {
                    let made = bind(endpoint, port::RESP, "unixsocket");
                    made.and_then(|made| restrict(endpoint, &config.hub).map(|()| Some(made)))
                }
                RespPlace::Bind(address) => address
                    .listen(None)
                    .map_err(|error| Failure::usage(format!("bind: {error}"))),
                RespPlace::BindTls(address) => address
                    .listen(Some(&config.hub.redis.tls))
                    .map_err(|error| Failure::usage(format!("tls-port: {error}"))),
                RespPlace::Tls(endpoint) => bind(endpoint, port::RESP, "--resp-tls")
                    .map(|made| Some(made.with_tls(config.hub.redis.tls.clone()))),
            };
            resp.extend(made?);
        }
        if resp.is_empty() {
            let text = "redis.conf: configured to not listen anywhere: bind, port, unixsocket";
            return Err(Failure::usage(text.to_owned()));
        }
        let mut with_tls = Vec::new();
        for place in config
            .tls_places
            .iter()
            .filter(|one| one.port != port::ADMIN)
        {
            let listener = bind(&place.endpoint, place.port, place.option)?;
            with_tls.push((
                place.name(),
                listener.with_tls(config.hub.redis.tls.clone()),
            ));
        }
        Ok(Self {
            resp,
            zmq_pub: bind(&config.zmq_pub, port::ZMQ_PUBLISH, "--zmq-pub")?,
            zmq_pull: bind(&config.zmq_pull, port::ZMQ_PULL, "--zmq-pull")?,
            zmq_router: bind(&config.zmq_router, port::ZMQ_ROUTER, "--zmq-router")?,
            feed: bind(&config.feed, port::FEED, "--feed")?,
            databento: config
                .databento
                .as_ref()
                .map(|endpoint| bind(endpoint, port::DATABENTO, "--databento"))
                .transpose()?,
            web,
            with_tls,
            admin: Admin::bind(config)?,
        })
    }

    /// Returns every address, with the option that names it.
    fn places(&self) -> Vec<(&'static str, String)> {
        let one = |name, listener: &Listener| (name, listener.endpoint().to_string());
        let name = |each: &Listener| if each.has_tls() { "resp-tls" } else { "resp" };
        let resp = self.resp.iter();
        let mut places: Vec<_> = resp.map(|each| one(name(each), each)).collect();
        places.extend([
            one("zmq-pub", &self.zmq_pub),
            one("zmq-pull", &self.zmq_pull),
            one("zmq-router", &self.zmq_router),
            one("feed", &self.feed),
        ]);
        places.extend(self.databento.iter().map(|each| one("databento", each)));
        places.extend(self.web.iter().map(|each| one("web", each)));
        places.extend(self.with_tls.iter().map(|(name, each)| one(name, each)));
        places.extend(self.admin.iter().flat_map(Admin::places));
        places
    }

    pub fn addresses(&self) -> Addresses {
        Addresses {
            resp: self.resp[0].endpoint().clone(),
            zmq_pub: self.zmq_pub.endpoint().clone(),
            zmq_pull: self.zmq_pull.endpoint().clone(),
            zmq_router: self.zmq_router.endpoint().clone(),
            feed: self.feed.endpoint().clone(),
            web: self.web.as_ref().map(|web| web.endpoint().clone()),
        }
    }
}

/// Listens for web pages, if they are served. If the default address is in use, they are not.
fn bind_web(
    config: &Config,
    bind: &impl Fn(&Endpoint, u16) -> Result<Listener, ListenError>,
) -> Result<Option<Listener>, Failure> {
    let Some(place) = &config.web else {
        return Ok(None);
    };
    match bind(&place.endpoint, port::WEB) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if place.is_default && error.is_in_use() => {
            tracing::warn!(
                "no web pages: {} is in use; choose an address with --web, or turn them off with \
                 --web off",
                place.endpoint
            );
            Ok(None)
        }
        Err(error) => Err(Failure::usage(format!("--web: {error}"))),
    }
}

/// Sets the permissions of a Unix socket to `unixsocketperm`, if that is set.
fn restrict(endpoint: &Endpoint, config: &HubConfig) -> Result<(), Failure> {
    let mode = u32::from_str_radix(config.redis.value(UNIXSOCKETPERM), 8).ok();
    let (Some(mode @ 1..), Endpoint::Ipc(path)) = (mode, endpoint) else {
        return Ok(());
    };
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| Failure::usage(format!("unixsocketperm: {}: {error}", path.display())))
}

/// A running hub.
#[derive(Debug)]
pub struct Server {
    pub hub: Arc<Hub>,
    pub addresses: Addresses,
    /// Every address that it listens on, with the option that names it.
    pub places: Vec<(&'static str, String)>,
    lanes: Lanes<Mail>,
    recorder: Option<Recorder>,
    inputs: Inputs,
    cluster: Option<(Cluster, TopicsCluster)>,
    quorum: Option<QuorumThread>,
}

impl Server {
    /// Opens everything besides the listeners, then starts the lanes.
    pub(crate) fn start(config: &Config, listeners: Listeners) -> Result<Self, Failure> {
        let addresses = listeners.addresses();
        let places = listeners.places();
        let resp = addresses.resp.clone();
        let Listeners {
            resp: a,
            zmq_pub: b,
            zmq_pull: c,
            zmq_router: d,
            feed: e,
            databento,
            web,
            with_tls,
            admin,
        } = listeners;
        let cores = if config.pin {
            (0..config.hub.redis.lanes).collect()
        } else {
            Vec::new()
        };
        let with_tls = with_tls.into_iter().map(|(_, listener)| listener);
        let listeners = a.into_iter().chain([b, c, d, e]).chain(databento);
        let listeners: Vec<_> = listeners.chain(web).chain(with_tls).collect();
        let hub = make_hub(config.hub.clone(), &listeners)?;
        // Before the lanes: when a client can connect, every port is open, and the recording misses
        // no message.
        let recorder = config
            .record
            .as_ref()
            .map(|path| {
                Recorder::start(&hub.market, path).map_err(|error| {
                    Failure::usage(format!("--record: {}: {error}", path.display()))
                })
            })
            .transpose()?;
        let cluster = config.hub.market.cluster.as_ref();
        let cluster = cluster
            .map(|cluster| join_cluster(&hub, cluster))
            .transpose()
            .map_err(|error| Failure::usage(format!("--cluster: {error}")))?;
        let quorum = QuorumThread::start(&hub.server)
            .map_err(|error| Failure::usage(format!("--cluster: keys: {error}")))?;
        let inputs = Inputs::start(&hub.market, &input_cores(config)).map_err(Failure::usage)?;
        let lanes = start_lanes(&hub, cores, "lane", listeners, Some(&resp), None)?;
        if let Some(admin) = admin {
            admin.start(hub.clone())?;
        }
        Ok(Self {
            hub,
            addresses,
            places,
            lanes,
            recorder,
            inputs,
            cluster,
            quorum,
        })
    }

    /// Checks that all lanes are still running.
    pub fn check(&self) -> Result<(), Failure> {
        if self.lanes.has_ended() {
            return Err(Failure::running("an event loop failed; see the log"));
        }
        match self.hub.server.durability.load_failure() {
            Some(text) => Err(Failure::running(format!(
                "Fatal error loading the DB: {text}"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the number of feed messages applied so far.
    pub fn applied(&self) -> u64 {
        self.hub.market.ingest.applied.load(Ordering::Relaxed)
    }

    /// Stops the lanes, closes every connection, and saves the data. The process ends afterwards,
    /// so the hub's memory is not freed.
    pub fn finish(self) -> Result<(), Failure> {
        let hub = self.hub.clone();
        std::mem::forget(self.hub);
        // The listeners close before the clients, so that a client that reconnects immediately is
        // refused.
        hub.server.stop_listening();
        self.lanes.stop_for_good();
        // What the lanes have taken is published, and the sources and keys are given up.
        drop(self.cluster);
        drop(self.quorum);
        if let Some(recorder) = self.recorder {
            recorder
                .finish()
                .map_err(|error| Failure::running(format!("--record: {error}")))?;
        }
        hub.server
            .durability
            .finish(&hub.server)
            .map_err(Failure::running)
    }

    /// Stops the lanes and closes every connection.
    pub fn stop(self) {
        // Inputs stop before the lanes that deliver their messages.
        drop(self.inputs);
        self.lanes.stop();
        drop(self.cluster);
        drop(self.quorum);
        // The recorder still writes what it has received.
        if let Some(Err(error)) = self.recorder.map(Recorder::finish) {
            tracing::warn!(%error, "the recording has no end mark");
        }
    }
}

/// Starts the threads that share topics with other hubs.
fn join_cluster(hub: &Hub, config: &ClusterConfig) -> Result<(Cluster, TopicsCluster), String> {
    let cluster = Cluster::start(&hub.market, config)?;
    let shared = hub.shared.as_ref().ok_or("no topics are shared")?;
    Ok((cluster, TopicsCluster::start(shared, config)?))
}

/// Returns the cores to pin inputs to: those without a pinned lane.
fn input_cores(config: &Config) -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match config.pin {
        true => (config.hub.redis.lanes..cores).collect(),
        false => Vec::new(),
    }
}

/// Starts a hub and its lanes. `exchange` may create an exchange for the first lane.
pub fn start_hub(
    config: HubConfig,
    name: &'static str,
    listeners: Vec<Listener>,
    exchange: impl FnOnce(&Arc<Hub>) -> Option<Exchange>,
) -> Result<(Arc<Hub>, Lanes<Mail>), Failure> {
    let hub = make_hub(config, &listeners)?;
    let exchange = exchange(&hub);
    let lanes = start_lanes(&hub, Vec::new(), name, listeners, None, exchange)?;
    Ok((hub, lanes))
}

/// Creates a hub that knows its users and begins to load its keys. Its lanes do not run yet.
fn make_hub(config: HubConfig, listeners: &[Listener]) -> Result<Arc<Hub>, Failure> {
    let mailboxes = Lanes::mailboxes(config.redis.lanes).map_err(cannot_start)?;
    let hub = Hub::new(config, mailboxes);
    if hub.server.parameters.read(DISABLE_THP) {
        // Optional: if the system cannot do it, the hub runs without it.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    hub.server.load_users().map_err(Failure::usage)?;
    hub.server.listens(listeners).map_err(cannot_start)?;
    hub.server.load_certificates().map_err(Failure::usage)?;
    hub.warn_of_open_ports(listeners);
    hub.server.take_configured_part().map_err(Failure::usage)?;
    Durability::load_in_background(&hub.server).map_err(|error| match error.kind() {
        // Another server uses the directory, which the user can fix.
        std::io::ErrorKind::ResourceBusy => Failure::usage(error.to_string()),
        _ => cannot_start(error),
    })?;
    watch_lanes(&hub.server).map_err(cannot_start)?;
    hub.server.follow_configured_master();
    Ok(hub)
}

/// Starts the lanes of `hub`, which serves from then on.
fn start_lanes(
    hub: &Arc<Hub>,
    cores: Vec<usize>,
    name: &'static str,
    listeners: Vec<Listener>,
    resp: Option<&Endpoint>,
    mut exchange: Option<Exchange>,
) -> Result<Lanes<Mail>, Failure> {
    let mut lines = LinesOut::of(&hub.market)
        .map_err(|error| Failure::usage(format!("--feed-udp: {error}")))?;
    let lane_config = LaneConfig {
        cores,
        descriptors_max: descriptors::for_connections(),
        name,
        io_uring: hub.config.io_uring,
    };
    let (mailboxes, counters) = (hub.mailboxes().clone(), hub.server.lanes.clone());
    Lanes::start(&lane_config, mailboxes, listeners, counters, |lane| {
        let mut application = HubLane::new(hub.clone(), lane, resp);
        if let Some(lines) = lines.take() {
            application = application.with_lines(lines);
        }
        match exchange.take() {
            Some(exchange) => application.with_exchange(exchange),
            None => application,
        }
    })
    .map_err(cannot_start)
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::running(format!("cannot start: {error}"))
}

/// Interval at which the main thread checks for signals.
pub const POLL_INTERVAL: Duration = HugePages::INTERVAL;
