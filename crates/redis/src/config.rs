//! Limits and switches of the Redis server.

use std::path::PathBuf;

use tidewire_files::Disk;
use tidewire_lane::{TlsAcceptor, TlsConnector};

use crate::background::Background;
use crate::quorum::QuorumConfig;

/// Limits and switches of the Redis server. Every queue has its bound here.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// Event loops; at most 64 (lanes are bits of a word).
    pub lanes: usize,
    /// Names under these prefixes are topics: each write is published as well.
    pub live_prefixes: Vec<Vec<u8>>,
    /// Unsent bytes above which a Redis subscriber to plain messages is disconnected at once.
    pub pubsub_hard_bytes: usize,
    /// Unsent bytes above which it is disconnected after `pubsub_soft_seconds`.
    pub pubsub_soft_bytes: usize,
    /// See `pubsub_soft_bytes`.
    pub pubsub_soft_seconds: u64,
    /// Connections at most, over all lanes.
    pub clients_max: usize,
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
    /// The certificate of the listeners with TLS, which the server sets.
    pub tls: TlsAcceptor,
    /// Whether ports of other protocols have that certificate, too.
    pub has_tls_ports: bool,
    /// What links to other servers with TLS are made with, which the server sets.
    pub connector: TlsConnector,
    /// Whether there are such links beside those to a master and of MIGRATE.
    pub has_tls_links: bool,
    /// How keys survive a machine, if they are to.
    pub quorum: Option<QuorumConfig>,
    /// Where snapshots and the append-only file are.
    pub disk: Disk,
    /// What loading, saving and the append-only file's thread run on.
    pub background: Background,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            lanes: 1,
            live_prefixes: vec![b"live:".to_vec()],
            pubsub_hard_bytes: 32 << 20,
            pubsub_soft_bytes: 8 << 20,
            pubsub_soft_seconds: 60,
            clients_max: 10_000,
            parameters: Vec::new(),
            redis_conf: None,
            users: Vec::new(),
            renames: Vec::new(),
            pinned: false,
            tls: TlsAcceptor::default(),
            has_tls_ports: false,
            connector: TlsConnector::default(),
            has_tls_links: false,
            quorum: None,
            disk: Disk::default(),
            background: Background::default(),
        }
    }
}
