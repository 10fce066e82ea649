//! Feeds with their own threads: ITCH over MoldUDP64 and SoupBinTCP, CME MDP 3.0 ([`mdp`]), and
//! native feeds in datagrams ([`native`]).
//!
//! ```text
//!  lines A, B ─▶ mold::Receiver ─┐
//!                                ├─▶ itch::Books ─▶ ingest::Batch ─▶ slots, journal, publications
//!  TCP ───────▶ soup::Client ────┘
//! ```
//!
//! Each input has its own thread, which waits only for the input's sockets. No Redis client waits
//! for it, and its CPU time is its own (`docs/decisions/0021-a-thread-an-input.md`).

mod config;
mod following;
mod mdp;
mod mold;
mod native;
mod soup;
mod source;
mod status;

pub use config::{Input, InputError, MoldInput, SoupInput};
pub use mdp::MdpInput;
pub use source::{FeedLines, FeedSource};
pub use status::{Figures, Status};

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use tidewire_feed::client::{Gap, Sink};
use tidewire_feed::server::Steps;
use tidewire_itch::sequenced::{SequencedSink, SessionName};
use tidewire_itch::{Books, BooksConfig, midnight_of_unix_ns};
use tracing::{info, warn};

use crate::ingest::certainty::SLICE_STEPS;
use crate::ingest::{Batch, Ingest};
use crate::market::Market;
use tidewire_fanout::Dispatch;
use tidewire_lane::unix_ns;
use tidewire_retry::Seldom;

/// The threads of the hub's inputs. Dropping this ends them.
#[derive(Debug)]
pub struct Inputs {
    market: Arc<Market>,
    threads: Vec<JoinHandle<()>>,
}

impl Inputs {
    /// Starts the inputs of [`MarketConfig::inputs`](crate::MarketConfig::inputs), each on a core
    /// of `cores` if there are enough.
    ///
    /// # Errors
    /// An address cannot be listened on. The text names the input.
    pub fn start(market: &Arc<Market>, cores: &[usize]) -> Result<Self, String> {
        let mut inputs = Self {
            market: market.clone(),
            threads: Vec::new(),
        };
        assert_eq!(
            market.inputs.len(),
            market.config.inputs.len(),
            "a status for each input"
        );
        for (number, input) in market.config.inputs.iter().enumerate() {
            market.inputs[number].lock().kind = input.kind();
            let thread = Thread::new(market.clone(), number, cores.get(number).copied());
            let work: Box<dyn FnOnce() + Send> = match input {
                Input::Mold(mold) => {
                    let sockets = mold::Sockets::open(mold);
                    let sockets = sockets.map_err(|error| format!("--mold: {error}"))?;
                    let mold = mold.clone();
                    Box::new(move || mold::run(thread, &mold, sockets))
                }
                Input::Mdp(mdp) => {
                    let sockets = mdp::Sockets::open(mdp);
                    let sockets = sockets.map_err(|error| format!("--mdp: {error}"))?;
                    let mdp = mdp.clone();
                    Box::new(move || mdp::run(thread, &mdp, sockets))
                }
                Input::Native(source) => {
                    let connector = market.config.connector.clone();
                    let client = native::open(source, &connector);
                    let client = client.map_err(|error| format!("--source {source}: {error}"))?;
                    let source = source.clone();
                    Box::new(move || native::run(thread, &source, client, &connector))
                }
                Input::Soup(soup) => {
                    let soup = soup.clone();
                    Box::new(move || soup::run(thread, &soup))
                }
            };
            let builder = std::thread::Builder::new().name(format!("input-{number}"));
            let thread = builder
                .spawn(work)
                .map_err(|error| format!("cannot start an input: {error}"))?;
            inputs.threads.push(thread);
        }
        Ok(inputs)
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        self.market.inputs_stopped.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The state that all kinds of inputs have.
struct Thread {
    market: Arc<Market>,
    number: usize,
    core: Option<usize>,
    ingest: Ingest,
    books: Books,
    /// Whether a session has been seen.
    has_session: bool,
    /// Whether its topics are marked stale.
    is_stale: bool,
    completeness: Completeness,
    /// Whether the configuration gives the day.
    is_dated: bool,
    following: following::Following,
    busy_ns: u64,
}

impl Thread {
    fn new(market: Arc<Market>, number: usize, core: Option<usize>) -> Self {
        let source = market.next_source_number() as u32;
        let input = &market.config.inputs[number];
        let (name, venue) = match input {
            Input::Native(source) => (source.to_string(), None),
            Input::Mold(mold) => (format!("mold-{number}"), Some(&mold.venue)),
            Input::Soup(soup) => (format!("soup-{number}"), Some(&soup.venue)),
            Input::Mdp(mdp) => (format!("mdp-{number}"), Some(&mdp.venue)),
        };
        let mut ingest = Ingest::new(market.clone(), source, &name);
        if let Some(venue) = venue {
            ingest.name_venue(0, venue);
        }
        Self {
            ingest,
            market,
            number,
            core,
            books: Books::default(),
            has_session: false,
            is_stale: false,
            completeness: Completeness::default(),
            is_dated: false,
            following: following::Following::default(),
            busy_ns: 0,
        }
    }

    /// Begins the day of `midnight`; without one, each session is of the day it begins on.
    fn set_day(&mut self, midnight: Option<u64>) {
        self.is_dated = midnight.is_some();
        self.books = Books::new(BooksConfig {
            midnight_unix_ns: midnight.unwrap_or_else(|| midnight_of_unix_ns(unix_ns())),
            ..BooksConfig::default()
        });
    }

    fn pin(&self) {
        let Some(core) = self.core.filter(|&core| core < CpuSet::MAX_CPU) else {
            return;
        };
        let mut set = CpuSet::new();
        set.set(core);
        if let Err(error) = sched_setaffinity(None, &set) {
            warn!(input = self.number, core, %error, "cannot pin the input to its core");
        }
    }

    fn is_stopped(&self) -> bool {
        self.market.inputs_stopped.load(Ordering::Acquire)
    }

    /// Calls `take` to apply received messages to the books, and publishes the result. A feed that
    /// `is_alive` is no longer stale.
    fn batch(&mut self, is_alive: bool, take: impl FnOnce(&mut Follower<'_, '_>)) {
        let mut batch = self.ingest.begin(unix_ns());
        if is_alive && std::mem::take(&mut self.is_stale) {
            batch.revive();
        }
        let counters = self.books.counters();
        let before = (counters.faults(), counters.definitions);
        let mut follower = Follower {
            batch: &mut batch,
            books: &mut self.books,
            has_session: &mut self.has_session,
            completeness: &mut self.completeness,
            is_dated: self.is_dated,
            is_stale: &mut self.is_stale,
        };
        take(&mut follower);
        follower.look_for_faults(before);
        let news = batch.finish();
        self.publish(news);
    }

    /// Works without books: `take` gets the batch, and whether its topics are stale.
    fn batch_with<T>(&mut self, take: impl FnOnce(&mut Batch<'_>, &mut bool) -> T) -> T {
        let mut batch = self.ingest.begin(unix_ns());
        let result = take(&mut batch, &mut self.is_stale);
        let news = batch.finish();
        self.publish(news);
        result
    }

    /// Marks the topics as stale because the feed has ended or is silent.
    fn lose(&mut self) {
        if !std::mem::replace(&mut self.is_stale, true) {
            let news = self.ingest.lose(unix_ns());
            self.publish(news);
        }
    }

    /// Returns whether [`Thread::sweep`] has something to do. The thread must not wait then.
    fn is_sweeping(&self) -> bool {
        self.ingest.is_sweeping()
    }

    /// Does a slice of what an event of the source does to all its topics. Between two slices other
    /// sources have the journal.
    fn sweep(&mut self) {
        if self.ingest.is_sweeping() {
            let news = self.ingest.sweep(&mut Steps::new(SLICE_STEPS), unix_ns());
            self.publish(news);
        }
    }

    /// Does all of it, where nothing else is to be done.
    fn sweep_all(&mut self) {
        while self.ingest.is_sweeping() && !self.is_stopped() {
            self.sweep();
            std::thread::sleep(self.market.slice_pause());
        }
    }

    /// Returns how long to wait for input that is due after `due_ns`.
    fn wait(&self, due_ns: u64) -> Duration {
        match self.is_sweeping() {
            true => self.market.slice_pause(),
            false => Duration::from_nanos(due_ns).min(WAIT_MAX),
        }
    }

    fn publish(&self, news: Dispatch) {
        self.market.publish_from_thread(news);
    }

    /// Publishes the counters.
    fn show(&mut self, fill: impl FnOnce(&mut Figures)) {
        debug_assert!(
            self.number < self.market.inputs.len(),
            "an input of the configuration"
        );
        self.ingest.publish_latency();
        let counters = self.books.counters();
        let mut figures = self.market.inputs[self.number].lock();
        figures.messages = counters.messages();
        figures.malformed = counters.malformed;
        figures.unknown_orders = counters.unknown_orders;
        figures.refused_orders = counters.refused_orders + counters.senseless_orders;
        figures.busy_ns = self.busy_ns;
        fill(&mut figures);
    }
}

/// Returns an address as the log shows it.
fn shown(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "none".to_owned(), |address| address.to_string())
}

/// Returns why an address cannot be listened on. A group without a route needs an interface.
fn cannot_listen(address: SocketAddr, error: &io::Error) -> String {
    let hint = match address.ip().is_multicast() && error.raw_os_error() == Some(NO_DEVICE) {
        true => " (interface=ADDRESS names the network that has the group)",
        false => "",
    };
    format!("cannot listen on {address}: {error}{hint}")
}

/// Maximum delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Limits the log lines about sessions, of which an exchange may begin one with each packet.
static SESSIONS: Seldom = Seldom::new(20, 10);
/// ENODEV: no such device.
const NO_DEVICE: i32 = 19;

/// Applies a stream's messages to the books and then to the hub.
struct Follower<'a, 'b> {
    batch: &'a mut Batch<'b>,
    books: &'a mut Books,
    has_session: &'a mut bool,
    completeness: &'a mut Completeness,
    is_dated: bool,
    is_stale: &'a mut bool,
}

/// Whether the books are made of all messages of the session.
#[derive(Clone, Copy, Debug, Default)]
struct Completeness {
    /// A message is missing for good: an order may be wrong, or a state, until the next session.
    is_incomplete: bool,
    /// The topics are in doubt.
    in_doubt: bool,
}

impl Follower<'_, '_> {
    /// Marks all topics as in doubt until the session ends.
    fn lose(&mut self) {
        self.completeness.is_incomplete = true;
        if !self.completeness.in_doubt {
            self.doubt();
        }
    }

    /// Notes that the feed is back. The read that brings the answer to a login may bring messages,
    /// and the end of the connection may be next: it must find a feed that is not stale.
    #[cold]
    fn revive(&mut self) {
        *self.is_stale = false;
        self.batch.revive();
    }

    fn doubt(&mut self) {
        self.completeness.in_doubt = true;
        self.batch.values_doubtful();
    }

    /// Compares the books' numbers of faults and definitions with those before the batch. A message
    /// that cannot be applied is as good as lost, and a topic that is new shares the doubt.
    fn look_for_faults(&mut self, (faults, definitions): (u64, u64)) {
        let counters = self.books.counters();
        let has_new = counters.definitions != definitions;
        if counters.faults() != faults && !self.completeness.is_incomplete {
            if let Some(left_out) = SESSIONS.note_now() {
                let text = "messages of the exchange contradict its books or exceed their limits: \
                            all are in doubt now";
                warn!(left_out, "{text}");
            }
            self.lose();
        }
        if self.completeness.in_doubt && has_new {
            self.doubt();
        }
    }
}

impl SequencedSink for Follower<'_, '_> {
    #[inline]
    fn message(&mut self, sequence: u64, message: &[u8]) {
        if *self.is_stale {
            self.revive();
        }
        self.books.apply(sequence, message, self.batch);
    }

    #[inline]
    fn expect(&mut self, frames: &[u8]) {
        self.books.expect(frames, self.batch);
    }

    fn gap(&mut self, gap: Gap) {
        if matches!(gap, Gap::Lost { .. }) {
            // The levels that clients have may be wrong now: they get the whole books again.
            self.books.unfollow_all();
            self.batch.gap(gap);
            return self.lose();
        }
        self.batch.gap(gap);
    }

    fn values_doubtful(&mut self) {
        self.doubt();
    }

    fn values_right(&mut self) {
        if !self.completeness.is_incomplete {
            self.completeness.in_doubt = false;
            self.batch.values_right();
        }
    }

    fn joined_late(&mut self, next_sequence: u64) {
        if let Some(left_out) = SESSIONS.note_now() {
            let text = "the exchange's session is joined late: its books are in doubt";
            warn!(next_sequence, left_out, "{text}");
        }
        self.lose();
    }

    fn session(&mut self, session: SessionName) {
        if let Some(left_out) = SESSIONS.note_now() {
            info!(%session, left_out, "a session of an exchange begins");
        }
        if !self.is_dated {
            self.books.set_midnight(midnight_of_unix_ns(unix_ns()));
        }
        if std::mem::replace(self.has_session, true) {
            self.books.clear();
            self.batch.session_changed(0, 0);
            // Each topic is current again with its first value, and stale at the end of this one.
            *self.is_stale = false;
        }
        if std::mem::take(self.completeness).in_doubt {
            // All topics are stale now. The doubt was about the session before.
            self.batch.values_right();
        }
    }

    fn end_of_session(&mut self, next_sequence: u64) {
        if let Some(left_out) = SESSIONS.note_now() {
            info!(next_sequence, left_out, "the exchange's session has ended");
        }
    }
}
