//! The state shared by all lanes: market data, plant tags and the Redis server, joined by fan-out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidewire_fanout::{
    ChangedNames, FanoutConfig, HubWrites, Post, Publication, SharedKeys, SharedTags, Topics,
};
use tidewire_keyspace::Mount;
use tidewire_lane::{MailSender, Mailboxes};
use tidewire_market::{BarMount, Market, MarketConfig, RemoteBoard, SharedTopics};
use tidewire_plant::{PLANT_PREFIX, Plant, PlantMail, PlantOptions, RemoteTags};
use tidewire_redis::{RedisConfig, RedisMail, Server};
use tidewire_web::websocket::Origins;

use crate::protection::Protection;
use crate::pushes::Pushes;
use crate::session::web::{Web, WebMail};
use crate::web_config::WebConfig;
use crate::zmq_security::ZmqSecurity;

/// Limits and switches of a hub. Every queue has its limit here.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// The Redis server, including the number of lanes.
    pub redis: RedisConfig,
    /// Market data.
    pub market: MarketConfig,
    /// The plant with the mounted tags, if there is one.
    pub plant: Option<PlantOptions>,
    /// Limits of fan-out.
    pub fanout: FanoutConfig,
    /// Maximum length of a frame from a ZeroMQ peer.
    pub zmq_frame_bytes_max: u64,
    /// Maximum length of a topic name that a ZeroMQ peer may publish.
    pub topic_bytes_max: usize,
    /// The user that clients of the Databento gateway are; without one they read everything.
    pub databento_user: Option<String>,
    /// Authentication of ZeroMQ peers.
    pub zmq_security: ZmqSecurity,
    /// The web pages whose scripts may connect to the ZeroMQ ports by WebSocket.
    pub zmq_ws_origins: Arc<Origins>,
    /// The web port.
    pub web: Arc<WebConfig>,
    /// Whether the sends of a turn may leave in one io_uring call, if that is measured as cheaper.
    pub io_uring: bool,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            redis: RedisConfig::default(),
            market: MarketConfig::default(),
            plant: None,
            fanout: FanoutConfig::default(),
            zmq_frame_bytes_max: 64 << 20,
            topic_bytes_max: 1024,
            databento_user: None,
            zmq_security: ZmqSecurity::Null,
            zmq_ws_origins: Arc::default(),
            web: Arc::default(),
            io_uring: true,
        }
    }
}

/// The state that all lanes share.
#[derive(Debug)]
pub struct Hub {
    /// Limits and switches.
    pub config: HubConfig,
    /// Keys and Redis clients.
    pub server: Arc<Server>,
    /// Market data.
    pub market: Arc<Market>,
    /// Plant tags, if a plant is mounted.
    pub plant: Option<Arc<Plant>>,
    /// Live keys that other hubs get, and topics of theirs, if the hub is in a cluster.
    pub shared: Option<SharedTopics>,
    /// Publications on their way to subscribers.
    pub post: Arc<Post>,
    /// Market topics and plant tags.
    pub(crate) topics: Arc<Topics>,
    /// Counters of messages from ZeroMQ pushers.
    pub(crate) pushes: Pushes,
    /// Counters of connections refused in protected mode.
    pub(crate) protection: Protection,
    /// Number of ZeroMQ peers of the PUB, PULL and ROUTER sockets.
    pub(crate) zmq_peers: [AtomicU64; 3],
    /// Those of them that came by WebSocket, with TLS or without.
    pub(crate) zmq_websocket_peers: [AtomicU64; 3],
    /// Logins and counters of web pages.
    pub(crate) web: Web,
    /// Requests that the ROUTER socket has answered, and those that it has refused.
    pub(crate) zmq_requests: [AtomicU64; 2],
    mailboxes: Mailboxes<Mail>,
}

/// Joins keys, tags and the board of other hubs' topics.
fn share(
    server: &Arc<Server>,
    plant: Option<&Arc<Plant>>,
    board: Arc<RemoteBoard>,
) -> SharedTopics {
    let names = Arc::new(ChangedNames::default());
    let writes = Arc::new(HubWrites::default());
    server.share_keys(names.clone(), writes.clone());
    if let Some(plant) = plant {
        plant.share_tags(names.clone(), writes.clone());
    }
    let keys: Arc<dyn SharedKeys> = server.clone();
    board.join(Arc::downgrade(&keys), writes.clone());
    SharedTopics {
        keys,
        tags: plant.map(|plant| plant.clone() as Arc<dyn SharedTags>),
        views: Arc::new(RemoteTags),
        names,
        writes,
        board,
    }
}

/// Messages between lanes.
#[derive(Debug)]
pub enum Mail {
    /// Messages for subscribers of that lane.
    News(Arc<Publication>),
    /// About plant tags.
    Plant(PlantMail),
    /// About Redis clients.
    Redis(RedisMail),
    /// About web pages.
    Web(WebMail),
}

impl From<Arc<Publication>> for Mail {
    fn from(publication: Arc<Publication>) -> Self {
        Mail::News(publication)
    }
}

impl From<PlantMail> for Mail {
    fn from(mail: PlantMail) -> Self {
        Mail::Plant(mail)
    }
}

impl From<RedisMail> for Mail {
    fn from(mail: RedisMail) -> Self {
        Mail::Redis(mail)
    }
}

impl From<WebMail> for Mail {
    fn from(mail: WebMail) -> Self {
        Mail::Web(mail)
    }
}

impl Hub {
    /// Creates a hub whose lanes have these mailboxes.
    pub fn new(config: HubConfig, mailboxes: Mailboxes<Mail>) -> Arc<Self> {
        assert_eq!(config.redis.lanes, mailboxes.len(), "one mailbox a lane");
        let post = Post::new(MailSender::new(mailboxes.clone()), config.fanout);
        let post = Arc::new(post);
        let market = Market::new(config.market.clone(), post.clone());
        let plant = config.plant.clone().map(|options| {
            let sender = MailSender::new(mailboxes.clone());
            Arc::new(Plant::new(options, post.clone(), sender))
        });
        let remote = config.market.cluster.as_ref().map(|cluster| {
            let own = plant.clone().map(|plant| plant as Arc<dyn Mount>);
            let prefixes = config.redis.live_prefixes.iter();
            let prefixes = prefixes.map(|prefix| (prefix.clone(), None));
            let board = RemoteBoard::new(prefixes.chain([(PLANT_PREFIX.to_vec(), own)]).collect());
            if !cluster.receive_hubs.is_empty() {
                board.reserve(&cluster.share);
            }
            board
        });
        // Before the others: a topic of another hub is seen where it claims its name.
        let mut mounts: Vec<Arc<dyn Mount>> = remote.iter().flat_map(RemoteBoard::mounts).collect();
        mounts.push(market.board.clone());
        mounts.extend(BarMount::all(&market.bars).map(|mount| Arc::new(mount) as Arc<dyn Mount>));
        mounts.extend(plant.iter().map(|plant| plant.clone() as Arc<dyn Mount>));
        let topics = Arc::new(Topics {
            market: Some(market.board.clone()),
            plant: plant.as_ref().map(|plant| plant.clone() as _),
            books: Some(market.books.clone()),
            bars: Some(market.bars.clone()),
            seconds: Some(market.seconds.clone()),
        });
        let server = Server::new(
            config.redis.clone(),
            mounts,
            topics.clone(),
            post.clone(),
            MailSender::new(mailboxes.clone()),
        );
        let hub = Arc::new(Self {
            shared: remote.map(|board| share(&server, plant.as_ref(), board)),
            server,
            market: Arc::new(market),
            plant,
            post,
            topics,
            pushes: Pushes::default(),
            protection: Protection::default(),
            zmq_peers: Default::default(),
            zmq_websocket_peers: Default::default(),
            zmq_requests: Default::default(),
            web: Web::default(),
            mailboxes,
            config,
        });
        debug_assert!(
            hub.plant
                .as_ref()
                .is_none_or(|plant| plant.lane() < hub.mailboxes.len()),
            "the plant's lane exists"
        );
        let house: Weak<Self> = Arc::downgrade(&hub);
        hub.server.join(house);
        hub
    }

    /// Returns the mailboxes of the lanes.
    pub fn mailboxes(&self) -> &Mailboxes<Mail> {
        &self.mailboxes
    }

    /// Returns what keeps the hub from being ready, one line each: the load of keys, and every
    /// configured source that is not connected. An empty list means that it is ready.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = self.server.missing();
        missing.extend(self.market.missing());
        if let Some(plant) = &self.plant
            && !plant.counters.connected.load(Ordering::Relaxed)
        {
            let place = &plant.options.endpoint;
            missing.push(format!("plant {place}: not connected"));
        }
        missing
    }
}
