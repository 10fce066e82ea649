//! The state shared by all lanes: market data, plant tags and the Redis server, joined by fan-out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidewire_fanout::{FanoutConfig, Post, Publication, Topics};
use tidewire_keyspace::Mount;
use tidewire_lane::{MailSender, Mailboxes};
use tidewire_market::{Market, MarketConfig, MarketMail};
use tidewire_plant::{Plant, PlantMail, PlantOptions};
use tidewire_redis::{RedisConfig, RedisMail, Server};

use crate::protection::Protection;
use crate::pushes::Pushes;
use crate::zmq_security::ZmqSecurity;

/// Limits and switches of a hub. Every queue has its bound here.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// The Redis server, and how many lanes there are.
    pub redis: RedisConfig,
    /// Market data.
    pub market: MarketConfig,
    /// The plant whose tags are mounted, if there is one.
    pub plant: Option<PlantOptions>,
    /// Limits of fan-out.
    pub fanout: FanoutConfig,
    /// Longest frame that a ZeroMQ peer may send.
    pub zmq_frame_bytes_max: u64,
    /// Longest name of a topic that a ZeroMQ peer may publish.
    pub topic_bytes_max: usize,
    /// What ZeroMQ peers must prove.
    pub zmq_security: ZmqSecurity,
    /// A turn's sends may leave in one call, by io_uring, where that is found to be cheaper.
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
            zmq_security: ZmqSecurity::Null,
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
    /// News on their way to subscribers.
    pub post: Arc<Post>,
    /// Market topics and plant tags.
    pub(crate) topics: Arc<Topics>,
    /// What ZeroMQ peers have pushed.
    pub(crate) pushes: Pushes,
    /// Who was refused under protected mode.
    pub(crate) protection: Protection,
    /// ZeroMQ peers of our PUB, of our PULL and of our ROUTER socket.
    pub(crate) zmq_peers: [AtomicU64; 3],
    /// Requests that the ROUTER socket has answered, and those of them that it has refused.
    pub(crate) zmq_requests: [AtomicU64; 2],
    mailboxes: Mailboxes<Mail>,
}

/// What lanes tell each other.
#[derive(Debug)]
pub enum Mail {
    /// Messages for subscribers of that lane.
    News(Arc<Publication>),
    /// Of market data.
    Market(MarketMail),
    /// Of plant tags.
    Plant(PlantMail),
    /// Of Redis clients.
    Redis(RedisMail),
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

impl From<RedisMail> for Mail {
    fn from(mail: RedisMail) -> Self {
        Mail::Redis(mail)
    }
}

impl Hub {
    /// Makes a hub whose lanes have these mailboxes.
    pub fn new(config: HubConfig, mailboxes: Mailboxes<Mail>) -> Arc<Self> {
        assert_eq!(config.redis.lanes, mailboxes.len(), "one mailbox a lane");
        let post = Post::new(MailSender::new(mailboxes.clone()), config.fanout);
        let post = Arc::new(post);
        let sender = MailSender::new(mailboxes.clone());
        let market = Market::new(config.market.clone(), post.clone(), sender);
        let plant = config.plant.clone().map(|options| {
            let sender = MailSender::new(mailboxes.clone());
            Arc::new(Plant::new(options, post.clone(), sender))
        });
        let mut mounts: Vec<Arc<dyn Mount>> = vec![market.board.clone()];
        mounts.extend(plant.iter().map(|plant| plant.clone() as Arc<dyn Mount>));
        let topics = Arc::new(Topics {
            market: Some(market.board.clone()),
            plant: plant.as_ref().map(|plant| plant.clone() as _),
        });
        let server = Server::new(
            config.redis.clone(),
            mounts,
            topics.clone(),
            post.clone(),
            MailSender::new(mailboxes.clone()),
        );
        let hub = Arc::new(Self {
            server,
            market: Arc::new(market),
            plant,
            post,
            topics,
            pushes: Pushes::default(),
            protection: Protection::default(),
            zmq_peers: Default::default(),
            zmq_requests: Default::default(),
            mailboxes,
            config,
        });
        debug_assert!(
            hub.plant
                .as_ref()
                .is_none_or(|plant| plant.lane() < hub.mailboxes.len()),
            "the link is on a lane that there is"
        );
        let house: Weak<Self> = Arc::downgrade(&hub);
        hub.server.join(house);
        hub
    }

    /// Mailboxes of the lanes.
    pub fn mailboxes(&self) -> &Mailboxes<Mail> {
        &self.mailboxes
    }

    /// What stands in the way of being ready, one line each: keys that are being loaded, and what
    /// this hub is to read from and is not connected to. Nothing: it is ready.
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
