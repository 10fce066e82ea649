//! What all lanes share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidewire_keyspace::{Audience, Command, Flags, Keyspace, Options};
use tidewire_lane::{ConnectionId, LaneCounters, Listener, MailSender, Mailboxes, unix_ns};

use crate::access::{AccessControl, Reason};
use crate::attention::Attention;
use crate::clients::Clients;
use crate::durability::Durability;
use crate::eviction::Evictions;
use crate::hot::HotNames;
use crate::listening::Listening;
use crate::memory::Usage;
use crate::memory_score::MemoryScore;
use crate::monitor::Monitors;
use crate::parameters::Parameters;
use crate::protection::Protection;
use crate::pushes::Pushes;
use crate::rates::{Rates, Turns};
use crate::renames::Renames;
use crate::replication::Replication;
use crate::scripting::Scripting;
use crate::session::resp::{NO_KEY, no_command_text};
use crate::sleeping::Sleeping;
use crate::slow_events::SlowEvents;
use crate::slowlog::Slowlog;
use crate::statistics::Statistics;
use crate::stopping::Stopping;
use crate::threads::Threads;
use crate::topic_watch::TopicWatch;
use crate::tracking::{Invalid, Tracking};
use crate::waiting::{Pause, WaitingClients};
use crate::zmq_security::ZmqSecurity;
use tidewire_fanout::{FanoutConfig, Post, Publication};
use tidewire_market::{Market, MarketConfig, MarketMail};
use tidewire_plant::{Plant, PlantMail, PlantOptions};
use tidewire_retry::Seldom;

pub(crate) use crate::live::{LiveObserver, write_value};

/// Limits and switches of a hub. Every queue has its bound here.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Event loops; at most 64 (lanes are bits of a word).
    pub lanes: usize,
    /// Names under these prefixes are topics: each write is published as well.
    pub live_prefixes: Vec<Vec<u8>>,
    /// Market data.
    pub market: MarketConfig,
    /// Limits of fan-out.
    pub fanout: FanoutConfig,
    /// Above so many unsent bytes a Redis subscriber to plain messages is cut off at once.
    pub pubsub_hard_bytes: usize,
    /// Above so many for `pubsub_soft_seconds`, likewise.
    pub pubsub_soft_bytes: usize,
    /// See `pubsub_soft_bytes`.
    pub pubsub_soft_seconds: u64,
    /// Longest frame that a ZeroMQ peer may send.
    pub zmq_frame_bytes_max: u64,
    /// Longest name of a topic that a ZeroMQ peer may publish.
    pub topic_bytes_max: usize,
    /// Connections at most, over all lanes.
    pub clients_max: usize,
    /// The plant whose tags are mounted, if there is one.
    pub plant: Option<PlantOptions>,
    /// Parameters as CONFIG SET has them, by name; [`Parameters::check`] tells what is possible.
    pub parameters: Vec<(String, String)>,
    /// The redis.conf that it was started with, if there is one: for CONFIG REWRITE.
    pub redis_conf: Option<PathBuf>,
    /// The words behind `user` of each line of a redis.conf.
    pub users: Vec<Vec<Vec<u8>>>,
    /// Commands by other names: the old one and the new one, which is empty for none.
    pub renames: Vec<(String, String)>,
    /// Whether lanes are pinned to cores, for INFO.
    pub pinned: bool,
    /// A turn's sends may leave in one call, by io_uring, where that is found to be cheaper.
    pub io_uring: bool,
    /// What ZeroMQ peers must prove.
    pub zmq_security: ZmqSecurity,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            lanes: 1,
            live_prefixes: vec![b"live:".to_vec()],
            market: MarketConfig::default(),
            fanout: FanoutConfig::default(),
            pubsub_hard_bytes: 32 << 20,
            pubsub_soft_bytes: 8 << 20,
            pubsub_soft_seconds: 60,
            zmq_frame_bytes_max: 64 << 20,
            topic_bytes_max: 1024,
            clients_max: 10_000,
            plant: None,
            parameters: Vec::new(),
            redis_conf: None,
            users: Vec::new(),
            renames: Vec::new(),
            pinned: false,
            io_uring: true,
            zmq_security: ZmqSecurity::Null,
        }
    }
}

/// The state that all lanes share.
#[derive(Debug)]
pub struct Hub {
    /// Itself, for threads that it starts.
    pub(crate) own: Weak<Hub>,
    /// Limits and switches.
    pub config: HubConfig,
    /// What CONFIG shows and changes.
    pub parameters: Parameters,
    /// Keys.
    pub keyspace: Keyspace,
    /// Market data.
    pub market: Arc<Market>,
    /// Plant tags, if a plant is mounted.
    pub plant: Option<Arc<Plant>>,
    /// News on their way to subscribers.
    pub post: Arc<Post>,
    /// What ZeroMQ peers have pushed.
    pub(crate) pushes: Pushes,
    /// Who was refused under protected mode.
    pub(crate) protection: Protection,
    /// Redis clients.
    pub clients: Clients,
    /// What the lanes have done.
    pub lanes: Vec<Arc<LaneCounters>>,
    /// When the hub started, ns since the UNIX epoch.
    pub started_unix_ns: u64,
    /// Redis commands executed.
    pub commands: AtomicU64,
    /// Redis commands that ended with an error.
    pub command_errors: AtomicU64,
    /// Redis clients that have watched keys.
    pub(crate) watching_clients: AtomicU64,
    /// Redis clients whose command has not ended.
    pub(crate) waiting: WaitingClients,
    /// CLIENT PAUSE.
    pub(crate) pause: Pause,
    /// SHUTDOWN: whoever runs the hub is asked to stop it.
    pub stop_asked: AtomicBool,
    /// `oom-score-adj`.
    pub(crate) memory_score: MemoryScore,
    /// DEBUG SLEEP.
    pub(crate) sleeping: Sleeping,
    /// SHUTDOWN that waits for replicas.
    pub(crate) stopping: Stopping,
    /// Clients that were one too many.
    pub(crate) rejected_clients: AtomicU64,
    /// Clients cut off because of a request longer than `client-query-buffer-limit`.
    pub(crate) query_cut_off: AtomicU64,
    /// Users, and what they may do.
    pub(crate) access: AccessControl,
    /// Commands by other names, if there are any.
    pub(crate) renames: Option<Arc<Renames>>,
    /// Scripts and functions.
    pub(crate) scripting: Scripting,
    /// Replicas of this server.
    pub(crate) replication: Replication,
    /// What outlives the process.
    pub durability: Durability,
    /// Where Redis clients connect.
    pub(crate) listening: Listening,
    /// How full memory has been.
    pub(crate) usage: Usage,
    pub(crate) evictions: Evictions,
    /// What commands have done.
    pub(crate) statistics: Statistics,
    /// What the lanes' turns were like.
    pub(crate) turns: Vec<Turns>,
    /// Who looks at every command.
    pub(crate) attention: Arc<Attention>,
    /// Client-side caching.
    pub(crate) tracking: Tracking,
    /// Clients that listen to all commands.
    pub(crate) monitors: Monitors,
    /// Commands that took long.
    pub(crate) slowlog: Slowlog,
    /// The names that are used most.
    pub(crate) hot: HotNames,
    /// What happened a second lately.
    pub(crate) rates: Rates,
    /// Moments that took long.
    pub(crate) slow_events: SlowEvents,
    /// How long the most that a client's replies took is remembered.
    pub(crate) reply_peak_ns: AtomicU64,
    /// ZeroMQ peers of our PUB, of our PULL and of our ROUTER socket.
    pub(crate) zmq_peers: [AtomicU64; 3],
    /// Requests that the ROUTER socket has answered, and those of them that it has refused.
    pub(crate) zmq_requests: [AtomicU64; 2],
    /// What share of a processor each thread takes.
    pub(crate) threads: Threads,
    /// Whether somebody may want to hear of market topics and tags as of keys.
    pub(crate) topic_watch: TopicWatch,
    /// Counts changes of live keys.
    pub(crate) live_version: AtomicU64,
    mailboxes: Mailboxes<Mail>,
}

/// What lanes tell each other.
#[derive(Debug)]
pub enum Mail {
    /// Messages for subscribers of that lane.
    News(Arc<Publication>),
    /// Of market data.
    Market(MarketMail),
    /// End a connection of that lane.
    Kill(ConnectionId),
    /// End one at once, whatever it has still to be sent.
    CutOff(ConnectionId),
    /// The reply that a waiting client of that lane gets.
    Served {
        /// The client's number.
        client: u64,
        /// As it goes out.
        reply: Vec<u8>,
        /// Whether it is an error.
        failed: bool,
    },
    /// CLIENT UNBLOCK of a client of that lane.
    Unblocked {
        /// The client's number.
        client: u64,
        /// It gets an error, not the reply of its timeout.
        error: bool,
    },
    /// A client of that lane waits no more: it may not run its command any more.
    Denied {
        /// The client's number.
        client: u64,
        /// Of what it lacks the right.
        text: String,
    },
    /// CLIENT UNPAUSE.
    Unpaused,
    /// There are no functions any more, and so no state for them.
    FunctionsForgotten,
    /// What users may do has changed.
    UsersChanged,
    /// A client of that lane must not use what it has read any more.
    Invalid {
        /// Who is told.
        connection: ConnectionId,
        /// It is told of what another client has read.
        is_redirected: bool,
        /// What it must not use.
        invalid: Invalid,
        /// What this counts in the mailbox.
        bytes: usize,
    },
    /// A command, for the clients of that lane that listen to all of them.
    Shown(Arc<[u8]>),
    /// Of plant tags.
    Plant(PlantMail),
    /// A script has ended, or has run for too long: connections that wait for it go on.
    ScriptOver,
    /// Redis clients connect elsewhere from now on: to what was made, and to what stays.
    Listen {
        /// New ones.
        made: Vec<Listener>,
        /// Where there is to be a listener.
        addresses: Vec<SocketAddr>,
    },
}

impl From<Arc<Publication>> for Mail {
    fn from(publication: Arc<Publication>) -> Self {
        Mail::News(publication)
    }
}

impl From<MarketMail> for Mail {
    fn from(mail: MarketMail) -> Self {
        Mail::Market(mail)
    }
}

impl From<PlantMail> for Mail {
    fn from(mail: PlantMail) -> Self {
        Mail::Plant(mail)
    }
}

impl Hub {
    /// A hub whose lanes have these mailboxes.
    pub fn new(config: HubConfig, mailboxes: Mailboxes<Mail>) -> Arc<Self> {
        let post = Post::new(MailSender::new(mailboxes.clone()), config.fanout);
        let post = Arc::new(post);
        let market = Market::new(
            config.market.clone(),
            post.clone(),
            MailSender::new(mailboxes.clone()),
        );
        let mut keyspace = Keyspace::new(Options {
            live_prefixes: config.live_prefixes.clone(),
            ..Options::default()
        });
        keyspace.mount(market.board.clone());
        let plant = config.plant.clone().map(|options| {
            let sender = MailSender::new(mailboxes.clone());
            Arc::new(Plant::new(options, post.clone(), sender))
        });
        if let Some(plant) = &plant {
            keyspace.mount(plant.clone());
        }
        let attention = Arc::new(Attention::default());
        let parameters = Parameters::new(&config, attention.clone());
        parameters.tell(&keyspace);
        let access = AccessControl::new(config.lanes, attention.clone());
        let password = parameters.text("requirepass");
        if !password.is_empty() {
            access.set_default_password(password.as_bytes());
        }
        let all_channels = parameters.text("acl-pubsub-default") == "allchannels";
        access.configure(&config.users, all_channels);
        let replication = Replication::new(config.lanes);
        let log = keyspace.propagation().log(Audience::Replicas);
        replication.follow(log, &mailboxes);
        let hub = Arc::new_cyclic(|own| Self {
            own: own.clone(),
            parameters,
            keyspace,
            market: Arc::new(market),
            plant,
            post,
            pushes: Pushes::default(),
            protection: Protection::default(),
            clients: Clients::default(),
            lanes: (0..config.lanes).map(|_| Arc::default()).collect(),
            started_unix_ns: unix_ns(),
            commands: AtomicU64::new(0),
            command_errors: AtomicU64::new(0),
            watching_clients: AtomicU64::new(0),
            stop_asked: AtomicBool::new(false),
            memory_score: MemoryScore::default(),
            sleeping: Sleeping::default(),
            stopping: Stopping::default(),
            rejected_clients: AtomicU64::new(0),
            query_cut_off: AtomicU64::new(0),
            access,
            renames: Renames::new(&config.renames),
            waiting: WaitingClients::default(),
            pause: Pause::new(attention.clone()),
            scripting: Scripting::new(config.lanes),
            replication,
            durability: Durability::new(attention.clone()),
            listening: Listening::default(),
            usage: Usage::new(),
            evictions: Evictions::new(config.lanes),
            statistics: Statistics::new(config.lanes),
            turns: (0..config.lanes).map(|_| Turns::default()).collect(),
            attention,
            tracking: Tracking::default(),
            monitors: Monitors::default(),
            hot: HotNames::new(config.lanes),
            rates: Rates::default(),
            slowlog: Slowlog::default(),
            slow_events: SlowEvents::default(),
            reply_peak_ns: AtomicU64::new(REPLY_PEAK_NS),
            zmq_peers: Default::default(),
            zmq_requests: Default::default(),
            threads: Threads::new(),
            topic_watch: TopicWatch::default(),
            live_version: AtomicU64::new(0),
            mailboxes,
            config,
        });
        hub.durability.attach(&hub);
        hub
    }

    /// Takes the users of `aclfile`, if it is set.
    pub fn load_users(&self) -> Result<(), String> {
        let path = self.parameters.text("aclfile");
        if path.is_empty() {
            return Ok(());
        }
        let loaded = self.access.load(&path, self.begins_with_all_channels());
        loaded.map_err(|text| format!("Aborting startup because of ACL errors: {text}"))
    }

    /// Mailboxes of the lanes.
    pub fn mailboxes(&self) -> &Mailboxes<Mail> {
        &self.mailboxes
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset_statistics(&self) {
        for counter in [
            &self.commands,
            &self.command_errors,
            &self.query_cut_off,
            &self.post.counters.cut_off,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        self.access.reset_refusals();
        self.clients.evicted().store(0, Ordering::Relaxed);
        self.evictions.reset();
        self.scripting.scripts.reset_evicted();
        self.keyspace.reset_totals();
        self.statistics.reset();
        self.market.latency.reset();
        self.rates.reset();
    }

    /// Counts an error reply to a command that was executed.
    #[cold]
    pub(crate) fn note_failure(&self, lane: usize, command: &'static Command, text: &str) {
        self.statistics.of(lane, command).failed();
        self.note_error(text);
        if command.has(Flags::RESTORES) && text.starts_with("ERR Bad data format") {
            note_bad_payload();
        }
    }

    /// Counts an error reply.
    #[cold]
    pub(crate) fn note_error(&self, text: &str) {
        self.command_errors.fetch_add(1, Ordering::Relaxed);
        if let Some(words) = self.statistics.note_error(text) {
            tracing::warn!(
                "Errorstats stopped adding new errors because their number has reached its limit, \
                 which may be misuse of error_reply in scripts: see INFO errorstats; CONFIG \
                 RESETSTAT counts them again"
            );
            tracing::warn!("Current errors code list: {}", words.join(", "));
        }
    }

    /// Users have changed. Clients that wait with a command that they may run no more get their
    /// refusal now, before anybody can serve them; all others are looked at by their lanes.
    pub(crate) fn tell_users_changed(&self, own_lane: usize) {
        for client in self.clients.list() {
            let Some(waiter) = self.waiting.waiter(client.id) else {
                continue;
            };
            let Some(rules) = client.user.lock().rules() else {
                continue;
            };
            if let Err(denial) = rules.check(waiter.command, waiter.request())
                && let Some(lane) = self.waiting.claim(client.id, &self.keyspace)
            {
                let text = match denial.reason {
                    Reason::Command => no_command_text(&client.user.lock(), waiter.command),
                    _ => NO_KEY.to_owned(),
                };
                let client = client.id;
                self.mailboxes[lane].send(Mail::Denied { client, text });
            }
        }
        for lane in 0..self.config.lanes {
            self.mailboxes[lane].send(Mail::UsersChanged);
        }
        self.access.wait_for_lanes(own_lane);
    }

    /// Whether new users, and selectors, begin with all channels.
    pub(crate) fn begins_with_all_channels(&self) -> bool {
        self.parameters.text("acl-pubsub-default") == "allchannels"
    }
}

/// Logs that RESTORE was given what is no value, or is broken.
#[cold]
fn note_bad_payload() {
    static BAD_PAYLOADS: Seldom = Seldom::new(20, 1);
    if let Some(left_out) = BAD_PAYLOADS.note_now() {
        tracing::warn!(
            left_out,
            "RESTORE: a payload is refused: integrity check failed"
        );
    }
}

/// As Redis remembers it.
pub(crate) const REPLY_PEAK_NS: u64 = 5_000_000_000;
