//! The market state shared by all lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_fanout::{Post, lane_bits};
use tidewire_feed::faults::FaultPlan;
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::SlowPolicy;
use tidewire_lane::TlsConnector;
use tidewire_lastvalue::{LatencyTracker, Writer};

use crate::bars::Bars;
use crate::board::Board;
use crate::broadcast::BroadcastCounters;
use crate::clocks::Clocks;
use crate::cluster::own::RemoteTopics;
use crate::cluster::{ClusterConfig, ClusterStatus, Reader};
use crate::databento::DatabentoCounters;
use crate::depth::Books;
use crate::feed_session::SlowFeeds;
use crate::handed::HandedTopics;
use crate::ingest::{IngestCounters, LossySessions, ReturningSessions};
use crate::inputs::{FeedLines, FeedSource, Input, Status};
use crate::publishers::Publishers;
use crate::recording::RecordingCounters;
use crate::records::RecordCounters;
use crate::seconds::Seconds;
use crate::session_id::new_session_id;
use crate::venues::CONSOLIDATED_WRITER;

/// Limits and switches of market data. Every queue has its limit here.
#[derive(Clone, Debug)]
pub struct MarketConfig {
    /// Maximum number of topics.
    pub topics_max: usize,
    /// Messages of the hub's own feed kept for retransmission: 64 to 67,108,864, rounded up to a
    /// power of two.
    pub journal_messages: usize,
    /// Id of the session of the hub's own feed, for simulations; 0: a new random one.
    pub session: u32,
    /// Native feeds that the hub reads from.
    pub sources: Vec<FeedSource>,
    /// What links to servers with TLS are made with.
    pub connector: TlsConnector,
    /// The hub's place in a cluster, if it is in one.
    pub cluster: Option<ClusterConfig>,
    /// Addresses to which the hub's own feed is sent in datagrams, if any.
    pub feed_lines: Option<FeedLines>,
    /// Feeds of exchanges that the hub reads ([`crate::Inputs`]).
    pub inputs: Vec<Input>,
    /// Faults in the output to feed clients, for tests.
    pub faults: Option<FaultPlan>,
    /// Seed of the faults.
    pub fault_seed: u64,
    /// Policy for a slow feed client that does not choose one.
    pub feed_slow: SlowPolicy,
    /// The API key of Databento clients. Without one, all of them are refused.
    pub databento_key: Option<String>,
}

impl Default for MarketConfig {
    fn default() -> Self {
        Self {
            topics_max: 1 << 20,
            journal_messages: 1 << 18,
            session: 0,
            sources: Vec::new(),
            connector: TlsConnector::default(),
            cluster: None,
            feed_lines: None,
            inputs: Vec::new(),
            faults: None,
            fault_seed: 1,
            feed_slow: SlowPolicy::Conflate,
            databento_key: None,
        }
    }
}

/// The shared state of market data: last values, the hub's own feed, and counters.
#[derive(Debug)]
pub struct Market {
    /// Limits and switches.
    pub config: MarketConfig,
    /// All topics.
    pub board: Arc<Board>,
    /// Their price levels.
    pub books: Arc<Books>,
    /// Their bars.
    pub bars: Arc<Bars>,
    /// Second names of the topics of symbols with one venue.
    pub seconds: Arc<Seconds>,
    /// The hub's own feed: all applied messages, renumbered.
    pub journal: Mutex<Journal>,
    /// The writer of the topics that are consolidated from several venues. It is used under the
    /// journal's lock, so its own is never waited for.
    pub(crate) consolidated: Mutex<Writer>,
    /// Copy of the journal's next sequence, to detect new messages without the lock.
    pub journal_next: AtomicU64,
    /// Counters of ingest.
    pub ingest: IngestCounters,
    /// Counters of DBN records.
    pub records: RecordCounters,
    /// Counters of recording.
    pub recording: RecordingCounters,
    /// Counters of each input.
    pub inputs: Vec<Status>,
    /// Latency from source time to the last-value cache.
    pub latency: LatencyTracker,
    /// Sources whose clocks are ahead of ours.
    pub clocks: Clocks,
    /// Counters of the Databento gateway.
    pub databento: DatabentoCounters,
    /// Counters of sent datagrams.
    pub broadcast: BroadcastCounters,
    /// Figures of the cluster.
    pub cluster: ClusterStatus,
    /// The cluster's reader of the journal.
    pub(crate) cluster_reader: Reader,
    /// Topics of other hubs of the cluster.
    pub(crate) remote: RemoteTopics,
    /// Counters of slow feed clients.
    pub slow_feeds: SlowFeeds,
    pub(crate) post: Arc<Post>,
    /// Whether the threads of the inputs must end.
    pub(crate) inputs_stopped: AtomicBool,
    /// Sessions of publishers into the hub.
    pub(crate) publishers: Publishers,
    /// Topics that sources got from others.
    pub(crate) handed: HandedTopics,
    /// Sessions of sources that have lost messages.
    pub(crate) lossy_sessions: LossySessions,
    /// Sessions of connected sources that may go on with what they have left.
    pub(crate) returning_sessions: ReturningSessions,
    /// The next number of a source, which is its name as a writer.
    source_numbers: AtomicU64,
    /// Lanes that serve feed clients, one bit each.
    pub(crate) feed_lanes: AtomicU64,
    /// Lanes that have been notified of new messages in the journal and have not read them yet.
    pub(crate) feed_told: Vec<AtomicBool>,
}

impl Market {
    /// Creates the market data of a hub that publishes through `post`.
    pub fn new(config: MarketConfig, post: Arc<Post>) -> Self {
        let session = match config.session {
            0 => new_session_id(),
            session => session,
        };
        let journal = Journal::new(session, config.journal_messages);
        let lanes = lane_bits(post.lanes());
        let board = Arc::new(Board::new(config.topics_max, lanes));
        let consolidated = board.slots().writer(CONSOLIDATED_WRITER);
        let books = Arc::new(Books::new(board.clone(), lanes));
        let bars = Arc::new(Bars::new(board.clone(), lanes, post.clone()));
        let seconds = Seconds::new(board.clone(), books.clone(), bars.clone(), lanes);
        Self {
            consolidated: Mutex::new(consolidated),
            books,
            bars,
            seconds: Arc::new(seconds),
            board,
            journal_next: AtomicU64::new(journal.next_sequence()),
            journal: Mutex::new(journal),
            ingest: IngestCounters::default(),
            records: RecordCounters::default(),
            recording: RecordingCounters::default(),
            inputs: config.inputs.iter().map(|_| Status::default()).collect(),
            latency: LatencyTracker::new(),
            clocks: Clocks::default(),
            databento: DatabentoCounters::default(),
            broadcast: BroadcastCounters::default(),
            cluster: ClusterStatus::default(),
            cluster_reader: Reader::default(),
            remote: RemoteTopics::new(match config.cluster {
                Some(_) => config.topics_max,
                None => 0,
            }),
            slow_feeds: SlowFeeds::default(),
            inputs_stopped: AtomicBool::new(false),
            publishers: Publishers::default(),
            handed: HandedTopics::default(),
            lossy_sessions: LossySessions::default(),
            returning_sessions: ReturningSessions::default(),
            source_numbers: AtomicU64::new(1),
            feed_lanes: AtomicU64::new(0),
            feed_told: (0..post.lanes()).map(|_| AtomicBool::new(false)).collect(),
            post,
            config,
        }
    }

    /// Returns a number that no other source has.
    pub(crate) fn next_source_number(&self) -> u64 {
        self.source_numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how long to wait before the next slice of what an event does to many topics. The
    /// publications of slices must not wait in front of the lanes: a lane takes all of its mail in
    /// one turn.
    pub fn slice_pause(&self) -> Duration {
        match self.post.waiting_bytes() > SLICE_MAIL_BYTES {
            true => SLICE_PAUSE,
            false => Duration::ZERO,
        }
    }

    /// Notes that what clients may read has changed. Clients that were away get all values when
    /// they resume.
    pub fn note_changed_rights(&self) {
        let next = self.journal_next.load(Ordering::Acquire);
        self.board.rights_changed.fetch_max(next, Ordering::AcqRel);
    }

    /// Returns the number of connected feeds: sources that have accepted the hub's login and are
    /// not silent, inputs with a session, and publishers.
    pub fn connected_feeds(&self) -> u64 {
        let inputs = self.inputs.iter();
        let inputs = inputs.filter(|status| status.lock().is_connected).count();
        let sources = self.ingest.standing.lock().len();
        (sources + inputs + self.publishers.count()) as u64
    }

    /// Returns one line for each configured source that is not connected.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        debug_assert_eq!(
            self.inputs.len(),
            self.config.inputs.len(),
            "a status for each input"
        );
        let standing = self.ingest.standing.lock();
        for (number, source) in self.config.sources.iter().enumerate() {
            if !standing.contains(&number) {
                missing.push(format!("source {source}: not connected"));
            }
        }
        drop(standing);
        for (number, status) in self.inputs.iter().enumerate() {
            let figures = status.lock();
            if !figures.is_connected {
                let kind = figures.kind;
                missing.push(format!("input {number} ({kind}): no session yet"));
            }
        }
        missing
    }

    #[cfg(test)]
    pub(crate) fn of_one_lane(config: MarketConfig) -> Arc<Self> {
        use tidewire_fanout::{FanoutConfig, Publication};
        use tidewire_lane::{Lanes, MailSender};

        let news = MailSender::new(Lanes::<Arc<Publication>>::mailboxes(1).unwrap());
        let post = Post::new(news, FanoutConfig::default());
        Arc::new(Self::new(config, Arc::new(post)))
    }
}

/// Mail for all lanes at which the next slice waits: some hundred values.
const SLICE_MAIL_BYTES: u64 = 256 * 1024;
/// Pause between two slices while there is so much mail.
const SLICE_PAUSE: Duration = Duration::from_millis(2);
