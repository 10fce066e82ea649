//! The Redis server's state shared by all lanes.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tidewire_fanout::{ChangedNames, HubWrites, Post, Topics, bits};
use tidewire_keyspace::{Audience, Command, Flags, Keyspace, Mount, Options};
use tidewire_lane::{ConnectionId, Context, LaneCounters, MailSender, Peer, unix_ns};
use tidewire_resp::Writer;
use tidewire_retry::Seldom;

use crate::access::AccessControl;
use crate::access::denial_text;
use crate::attention::Attention;
use crate::certificates::Certificates;
use crate::clients::Clients;
use crate::config::RedisConfig;
use crate::durability::state::Durability;
use crate::hot::HotNames;
use crate::hot_keys::HotKeys;
use crate::mail::RedisMail;
use crate::memory::Usage;
use crate::other_clients::OtherClients;
use crate::parameters::{ACL_PUBSUB_DEFAULT, ACLFILE, Parameters, REQUIREPASS};
use crate::parts::Evictions;
use crate::parts::Listening;
use crate::parts::MemoryScore;
use crate::parts::Monitors;
use crate::parts::Sleeping;
use crate::parts::Stopping;
use crate::parts::TopicWatch;
use crate::pause::Pause;
use crate::quorum::Quorum;
use crate::rates::{Rates, Turns};
use crate::registry::Shown;
use crate::renames::Renames;
use crate::replication::state::Replication;
use crate::scripting::Scripting;
use crate::slow_events::SlowEvents;
use crate::slowlog::CommandLogs;
use crate::statistics::Statistics;
use crate::threads::Threads;
use crate::tracked_clients::Tracking;
use crate::waiting::WaitingClients;

/// What the hub around the Redis server adds to it.
pub trait House: Debug + Send + Sync {
    /// Says in the port's own protocol that protected mode refuses a peer, and ends the connection.
    /// False if the peer may stay.
    fn turn_away(&self, context: &mut Context, id: ConnectionId, port: u16, peer: &Peer) -> bool;
    /// Counts a connection over the limit, and returns the error for its peer.
    fn refuse(&self, port: u16) -> Vec<u8>;
    /// Appends the sections of INFO behind the server's own that are shown.
    fn write_info(&self, is_shown: &dyn Fn(&str, Shown) -> bool, out: &mut String);
    /// Replies up to `levels` price levels of each side of a symbol's book. Returns false, and
    /// replies nothing, for an unknown symbol. `unix_ns` is the time now.
    fn write_book(
        &self,
        symbol: &[u8],
        levels: usize,
        unix_ns: u64,
        reply: &mut Writer<'_>,
    ) -> bool;
    /// CONFIG RESETSTAT.
    fn reset_statistics(&self);
}

/// The state that all lanes share.
#[derive(Debug)]
pub struct Server {
    /// Itself, for threads that it starts.
    pub(crate) own: Weak<Server>,
    /// Limits and switches.
    pub config: RedisConfig,
    /// The parameters of CONFIG.
    pub parameters: Parameters,
    /// Keys.
    pub keyspace: Keyspace,
    /// Live sources, whose topics read as keys.
    pub(crate) topics: Arc<Topics>,
    /// News on their way to subscribers.
    pub post: Arc<Post>,
    /// Redis clients.
    pub clients: Clients,
    /// Clients of other protocols.
    pub other_clients: OtherClients,
    /// Counters of the lanes.
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
    /// SHUTDOWN: the program is asked to stop the hub.
    pub stop_asked: AtomicBool,
    /// `oom-score-adj`.
    pub(crate) memory_score: MemoryScore,
    /// DEBUG SLEEP.
    pub(crate) sleeping: Sleeping,
    /// SHUTDOWN that waits for replicas.
    pub(crate) stopping: Stopping,
    /// Clients that were one too many.
    pub rejected_clients: AtomicU64,
    /// Clients cut off because of a request longer than `client-query-buffer-limit`.
    pub(crate) query_cut_off: AtomicU64,
    /// Users, and what they may do.
    pub access: AccessControl,
    /// Commands by other names, if there are any.
    pub(crate) renames: Option<Arc<Renames>>,
    /// Scripts and functions.
    pub(crate) scripting: Scripting,
    /// Replicas of this server.
    pub(crate) replication: Replication,
    /// Keys that survive a machine.
    pub(crate) quorum: Quorum,
    /// Snapshots and the append-only file.
    pub durability: Durability,
    /// Held while the redis.conf is rewritten.
    pub(crate) conf_writing: Mutex<()>,
    /// Where Redis clients connect.
    pub(crate) listening: Listening,
    /// TLS.
    pub(crate) certificates: Certificates,
    /// How full memory has been.
    pub(crate) usage: Usage,
    pub(crate) evictions: Evictions,
    /// Statistics of commands.
    pub(crate) statistics: Statistics,
    /// Statistics of the lanes' turns.
    pub(crate) turns: Vec<Turns>,
    /// Conditions that keep a request from the direct path.
    pub(crate) attention: Arc<Attention>,
    /// Client-side caching.
    pub(crate) tracking: Tracking,
    /// Clients that listen to all commands.
    pub(crate) monitors: Monitors,
    /// Commands that took long.
    pub(crate) command_logs: CommandLogs,
    /// The names that are used most.
    pub(crate) hot: HotNames,
    /// The keys that HOTKEYS tracks.
    pub(crate) hot_keys: HotKeys,
    /// Recent rates per second.
    pub(crate) rates: Rates,
    /// Moments that took long.
    pub(crate) slow_events: SlowEvents,
    /// How long the most that a client's replies took is remembered.
    pub(crate) reply_peak_ns: AtomicU64,
    /// The processor share of each thread.
    pub(crate) threads: Threads,
    /// Whether a client may want changes of market topics and tags as of keys.
    pub(crate) topic_watch: TopicWatch,
    /// Counts changes of live keys.
    pub(crate) live_version: AtomicU64,
    pub(crate) mail: MailSender<RedisMail>,
    /// Names of live keys that have changed, if other hubs are told.
    pub(crate) shared: OnceLock<Arc<ChangedNames>>,
    /// Where the ends of other hubs' writes go, if there are other hubs.
    pub(crate) hub_writes: OnceLock<Arc<HubWrites>>,
    house: OnceLock<Weak<dyn House>>,
}

impl Server {
    /// A server whose keys and `mounts` are read together, and whose news go through `post`.
    /// `topics` are those that the mounts write.
    pub fn new(
        config: RedisConfig,
        mounts: Vec<Arc<dyn Mount>>,
        topics: Arc<Topics>,
        post: Arc<Post>,
        mail: MailSender<RedisMail>,
    ) -> Arc<Self> {
        let mut keyspace = Keyspace::new(Options {
            live_prefixes: config.live_prefixes.clone(),
            ..Options::default()
        });
        mounts.into_iter().for_each(|mount| keyspace.mount(mount));
        let attention = Arc::new(Attention::default());
        let parameters = Parameters::new(&config, attention.clone());
        parameters.tell(&keyspace);
        let follows_valkey = parameters.follows_valkey();
        let access = AccessControl::new(config.lanes, attention.clone(), follows_valkey);
        let password = parameters.read(REQUIREPASS);
        if !password.is_empty() {
            access.set_default_password(password.as_bytes());
        }
        let all_channels = parameters.read(ACL_PUBSUB_DEFAULT) == "allchannels";
        access.configure(&config.users, all_channels);
        let replication = Replication::new(config.lanes);
        let log = keyspace.propagation().log(Audience::Replicas);
        replication.follow(log, &mail);
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            parameters,
            keyspace,
            topics,
            post,
            clients: Clients::default(),
            other_clients: OtherClients::default(),
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
            quorum: Quorum::new(config.quorum.is_some()),
            durability: Durability::new(
                attention.clone(),
                config.disk.clone(),
                config.background.clone(),
            ),
            conf_writing: Mutex::default(),
            listening: Listening::default(),
            certificates: Certificates::new(config.tls.clone(), config.connector.clone()),
            usage: Usage::new(),
            evictions: Evictions::new(config.lanes),
            statistics: Statistics::new(config.lanes),
            turns: (0..config.lanes).map(|_| Turns::default()).collect(),
            attention,
            tracking: Tracking::default(),
            monitors: Monitors::default(),
            hot: HotNames::new(config.lanes),
            hot_keys: HotKeys::default(),
            rates: Rates::default(),
            command_logs: CommandLogs::default(),
            slow_events: SlowEvents::default(),
            reply_peak_ns: AtomicU64::new(REPLY_PEAK_NS),
            threads: Threads::new(),
            topic_watch: TopicWatch::default(),
            live_version: AtomicU64::new(0),
            mail,
            shared: OnceLock::new(),
            hub_writes: OnceLock::new(),
            house: OnceLock::new(),
            config,
        })
    }

    /// Takes the users of `aclfile`, if it is set.
    pub fn load_users(&self) -> Result<(), String> {
        let path = self.parameters.read(ACLFILE);
        if path.is_empty() {
            return Ok(());
        }
        let loaded = self.access.load(&path, self.begins_with_all_channels());
        loaded.map_err(|text| format!("Aborting startup because of ACL errors: {text}"))
    }

    #[cfg(test)]
    pub(crate) fn of_one_lane(config: RedisConfig) -> Arc<Self> {
        use tidewire_fanout::{FanoutConfig, Publication};
        use tidewire_lane::Lanes;

        let news = MailSender::new(Lanes::<Arc<Publication>>::mailboxes(1).unwrap());
        let mail = MailSender::new(Lanes::<RedisMail>::mailboxes(1).unwrap());
        let post = Arc::new(Post::new(news, FanoutConfig::default()));
        Self::new(config, Vec::new(), Arc::default(), post, mail)
    }

    /// Names the house around the server, once, before the lanes start.
    pub fn join(&self, house: Weak<dyn House>) {
        let is_first = self.house.set(house).is_ok();
        debug_assert!(is_first, "the server has a house already");
    }

    /// The house around the server; none in tests of the server alone, and at the very end.
    pub(crate) fn house(&self) -> Option<Arc<dyn House>> {
        self.house.get()?.upgrade()
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
        if let Some(house) = self.house() {
            house.reset_statistics();
        }
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
    /// refusal now, before another client can serve them. Lanes check all others.
    pub(crate) fn tell_users_changed(&self) {
        for client in self.clients.list() {
            let Some(waiter) = self.waiting.waiter(client.id) else {
                continue;
            };
            let Some(rules) = client.user.lock().rules() else {
                continue;
            };
            // It cannot select another one while it waits.
            let database = client.database.load(Ordering::Relaxed) as usize;
            if let Err(denial) = rules.check(waiter.command, waiter.request(), database)
                && let Some(lane) = self.waiting.claim(client.id, &self.keyspace)
            {
                let text = denial_text(denial.reason, &client.user.lock(), waiter.command);
                let client = client.id;
                self.mail.send(lane, RedisMail::Denied { client, text });
            }
        }
        for lane in 0..self.config.lanes {
            self.mail.send(lane, RedisMail::UsersChanged);
        }
    }

    /// Notes that a lane has checked all of its sessions against the users of a generation. Replies
    /// to clients that changed users wait for that.
    pub fn set_users_looked(&self, lane: usize, generation: u64) {
        debug_assert!(lane < self.turns.len(), "a lane that there is");
        let waiting = self.access.set_looked(lane, generation);
        bits(waiting).for_each(|lane| self.mail.wake(lane));
    }

    /// A pause is over: what it has held goes on.
    pub(crate) fn tell_unpaused(&self) {
        for lane in 0..self.mail.lanes() {
            self.mail.send(lane, RedisMail::Unpaused);
        }
    }

    /// Whether Valkey's rules hold where they differ from Redis's.
    #[inline]
    pub(crate) fn follows_valkey(&self) -> bool {
        self.keyspace.follows_valkey()
    }

    /// Whether new users, and selectors, begin with all channels.
    pub(crate) fn begins_with_all_channels(&self) -> bool {
        self.parameters.read(ACL_PUBSUB_DEFAULT) == "allchannels"
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

/// Redis remembers the peak for as long.
pub(crate) const REPLY_PEAK_NS: u64 = 5_000_000_000;
