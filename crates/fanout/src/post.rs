//! Delivers publications to the lanes: which lanes get them, the limit on waiting mail, and lanes
//! that are behind.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidewire_lane::MailSender;

use crate::fanout::FanoutCounters;
use crate::limit::FanoutConfig;
use crate::publication::{GONE, Origin, Publication};
use crate::subscriptions::Subscriptions;

/// The part of fan-out that all lanes share.
///
/// A lane that does not keep up with its mail is only marked, and gets no more mail. It gives its
/// subscribers the newest values of last-value topics. Plain messages to it are lost, and
/// counted.
#[derive(Debug)]
pub struct Post {
    /// The subscriptions of all lanes.
    pub subscriptions: Subscriptions,
    /// The counters of fan-out.
    pub counters: FanoutCounters,
    sender: MailSender<Arc<Publication>>,
    /// The limits of fan-out.
    pub config: FanoutConfig,
    lanes: Vec<LaneMail>,
}

/// The mail waiting for one lane.
#[derive(Debug, Default)]
struct LaneMail {
    /// Bytes of the mail.
    waiting_bytes: AtomicUsize,
    /// Whether its mailbox was full: the lane owes its subscribers the newest values.
    is_lagging: AtomicBool,
    renewed: Renewed,
}

/// Topics that a lane must check, because many changed at once or news was lost.
#[derive(Debug, Default)]
struct Renewed {
    is_any: AtomicBool,
    names: Mutex<RenewedNames>,
}

#[derive(Debug, Default)]
struct RenewedNames {
    batches: VecDeque<Arc<Vec<TopicName>>>,
    /// Deleted keys whose news the lane's full mailbox did not take. Keys with a value are found
    /// among the live keys.
    gone: HashSet<TopicName, RandomState>,
    /// Whether there were more of them than the maximum.
    is_lost: bool,
}

type TopicName = Box<[u8]>;

/// Topics that changed by many writes at once, or whose news a lane missed.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// These topics have changed.
    Names(Arc<Vec<TopicName>>),
    /// Some topics have changed, and their names are unknown.
    Lost,
}

impl Post {
    /// Creates a post to the lanes of `sender`.
    pub fn new(sender: MailSender<Arc<Publication>>, config: FanoutConfig) -> Self {
        assert!(
            sender.lanes() <= u64::BITS as usize,
            "a word has a bit for each lane"
        );
        Self {
            subscriptions: Subscriptions::default(),
            counters: FanoutCounters::default(),
            config,
            lanes: (0..sender.lanes()).map(|_| LaneMail::default()).collect(),
            sender,
        }
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Wakes `lane`: its next turn begins at once.
    pub fn wake(&self, lane: usize) {
        self.sender.wake(lane);
    }

    /// Sends `publication` to every lane of `lanes` (one bit each).
    pub fn send(&self, lanes: u64, publication: &Arc<Publication>) {
        for lane in bits(lanes & lane_bits(self.lanes.len())) {
            if self.is_full(lane) {
                if self.set_lagging(lane) {
                    tracing::warn!(lane, "mailbox full: the topics of this lane are conflated");
                }
                self.keep_gone(lane, publication);
                let lost = publication
                    .news()
                    .filter(|news| matches!(news.origin, Origin::Channel | Origin::Shard))
                    .count();
                self.counters
                    .dropped
                    .fetch_add(lost as u64, Ordering::Relaxed);
                continue;
            }
            self.note_sent(lane, publication.memory_bytes());
            self.sender.send(lane, publication.clone());
        }
    }

    /// Reserves `bytes` bytes for mail that a lane may miss if it does not keep up. Returns false
    /// if there is no room; the lane is then marked as lagging.
    pub fn reserve(&self, lane: usize, bytes: usize) -> bool {
        if self.is_full(lane) {
            self.set_lagging(lane);
            return false;
        }
        self.note_sent(lane, bytes);
        true
    }

    /// Notes that `lane` has taken mail of `bytes` bytes out of its mailbox.
    pub fn taken(&self, lane: usize, bytes: usize) {
        let before = self.lanes[lane]
            .waiting_bytes
            .fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "mail is taken that was not sent");
    }

    /// Returns whether `lane` has no counted mail, so that a direct message overtakes nothing.
    pub fn is_idle(&self, lane: usize) -> bool {
        self.lanes[lane].waiting_bytes.load(Ordering::Relaxed) == 0
    }

    /// Returns the bytes of mail waiting for all lanes.
    pub fn waiting_bytes(&self) -> u64 {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| lane.waiting_bytes.load(Ordering::Relaxed) as u64)
            .sum()
    }

    /// Publishes a plain message to the lanes other than `own_lane`. Returns the number of Redis
    /// clients it reaches, and the message itself if the own lane has subscribers and gets it
    /// directly, not by mail.
    pub fn publish(
        &self,
        own_lane: usize,
        name: &[u8],
        payload: &[u8],
        origin: Origin,
        direct: bool,
    ) -> (Option<Arc<Publication>>, u64) {
        let route = match origin {
            Origin::Shard => self.subscriptions.shard_route(name),
            _ => self.subscriptions.route(name),
        };
        if route.lanes == 0 {
            return (None, 0);
        }
        let publication = Arc::new(Publication::single(name, payload, origin));
        // Mail waiting in the own lane's mailbox was published first and must arrive first.
        let direct = direct && self.is_idle(own_lane);
        let own = direct && (route.lanes >> own_lane) & 1 == 1;
        let by_mail = route.lanes & !(u64::from(own) << own_lane);
        debug_assert!(
            !own || by_mail >> own_lane & 1 == 0,
            "no lane gets a message twice"
        );
        self.send(by_mail, &publication);
        (own.then_some(publication), route.receivers)
    }

    /// Notes that the whole keyspace has changed: every subscriber is owed the current values of
    /// all its topics.
    pub fn owe_all_values(&self) {
        for lane in 0..self.lanes.len() {
            self.set_lagging(lane);
        }
    }

    /// Returns whether `lane` owes its subscribers all values since its last call.
    pub fn take_lagging(&self, lane: usize) -> bool {
        let is_lagging = &self.lanes[lane].is_lagging;
        is_lagging.load(Ordering::Relaxed) && is_lagging.swap(false, Ordering::AcqRel)
    }

    /// Makes all lanes check these topics. Wakes the lanes that had none to check.
    pub fn renew(&self, names: impl IntoIterator<Item = TopicName>) {
        let batch = Arc::new(names.into_iter().collect::<Vec<_>>());
        for (lane, own) in self.lanes.iter().enumerate() {
            let mut names = own.renewed.names.lock();
            names.batches.push_back(batch.clone());
            if !own.renewed.is_any.swap(true, Ordering::Relaxed) {
                self.sender.wake(lane);
            }
        }
    }

    /// Returns whether a lane has topics to check, with one relaxed load.
    #[inline]
    pub(crate) fn is_renewed(&self, lane: usize) -> bool {
        self.lanes[lane].renewed.is_any.load(Ordering::Relaxed)
    }

    /// Returns the next topics that a lane must check.
    pub(crate) fn take_renewal(&self, lane: usize) -> Option<Renewal> {
        let renewed = &self.lanes[lane].renewed;
        let mut names = renewed.names.lock();
        if std::mem::take(&mut names.is_lost) {
            return Some(Renewal::Lost);
        }
        if !names.gone.is_empty() {
            let gone = std::mem::take(&mut names.gone);
            return Some(Renewal::Names(Arc::new(gone.into_iter().collect())));
        }
        let next = names.batches.pop_front();
        if next.is_none() {
            debug_assert!(names.gone.is_empty() && !names.is_lost, "those come first");
            renewed.is_any.store(false, Ordering::Relaxed);
        }
        next.map(Renewal::Names)
    }

    /// Marks a lane whose subscribers are owed all values. Returns whether it was not marked
    /// before.
    fn set_lagging(&self, lane: usize) -> bool {
        let is_new = !self.lanes[lane].is_lagging.swap(true, Ordering::AcqRel);
        if is_new {
            // It may have taken its last mail meanwhile and be asleep.
            self.sender.wake(lane);
        }
        is_new
    }

    fn is_full(&self, lane: usize) -> bool {
        self.lanes[lane].waiting_bytes.load(Ordering::Relaxed) > self.config.waiting_bytes_max
    }

    fn note_sent(&self, lane: usize, bytes: usize) {
        self.lanes[lane]
            .waiting_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Keeps the deleted keys of a publication that `lane` does not get.
    #[cold]
    fn keep_gone(&self, lane: usize, publication: &Publication) {
        let is_gone = |origin, payload: &[u8]| origin == Origin::Live && payload == GONE;
        let renewed = &self.lanes[lane].renewed;
        let mut names = renewed.names.lock();
        for news in publication.news() {
            if is_gone(news.origin, news.payload) {
                names.gone.insert(news.name.into());
                renewed.is_any.store(true, Ordering::Relaxed);
            }
        }
        if names.gone.len() > GONE_MAX {
            names.gone = HashSet::default();
            names.is_lost = true;
        }
    }
}

/// Returns a word with one bit per lane.
pub fn lane_bits(lanes: usize) -> u64 {
    debug_assert!(
        (1..=64).contains(&lanes),
        "a word has a bit for each of 64 lanes"
    );
    u64::MAX >> (64 - lanes.clamp(1, 64))
}

/// Returns the numbers of the set bits.
pub fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros() as usize;
        word &= word - 1;
        Some(bit)
    })
}

/// Maximum names of deleted keys kept for a lane whose mailbox is full. Above it the lane's
/// subscribers are disconnected, and read the current state when they reconnect.
const GONE_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_lane::Lanes;

    fn post(lanes: usize, waiting_bytes_max: usize) -> Post {
        let mailboxes = Lanes::<Arc<Publication>>::mailboxes(lanes).unwrap();
        let config = FanoutConfig {
            waiting_bytes_max,
            ..FanoutConfig::default()
        };
        Post::new(MailSender::new(mailboxes), config)
    }

    fn gone(name: &[u8]) -> Arc<Publication> {
        let mut publication = Publication::default();
        publication.push_with(name, Origin::Live, 1, |out| out.extend_from_slice(GONE));
        Arc::new(publication)
    }

    #[test]
    fn a_lane_that_is_behind_is_marked_once_and_keeps_what_is_gone() {
        let post = post(2, 0);
        post.send(0b10, &gone(b"live:a"));
        assert!(!post.take_lagging(1) && !post.is_renewed(1));
        post.send(0b11, &gone(b"live:b"));
        assert!(post.take_lagging(1) && !post.take_lagging(1));
        assert!(!post.take_lagging(0), "the first lane had room");
        let Some(Renewal::Names(names)) = post.take_renewal(1) else {
            panic!("the key that is gone is lost");
        };
        assert_eq!(names[..], [TopicName::from(&b"live:b"[..])]);
        assert!(post.take_renewal(1).is_none() && !post.is_renewed(1));
    }

    #[test]
    fn plain_messages_to_a_lane_that_is_behind_are_counted() {
        let post = post(1, 0);
        post.send(1, &gone(b"live:a"));
        let plain = Publication::single(b"news", b"text", Origin::Channel);
        post.send(1, &Arc::new(plain));
        assert_eq!(post.counters.dropped.load(Ordering::Relaxed), 1);
        assert!(!post.reserve(0, 10));
        let bytes = gone(b"live:a").memory_bytes();
        assert_eq!(post.waiting_bytes(), bytes as u64);
        post.taken(0, bytes);
        assert!(post.is_idle(0) && post.reserve(0, 10));
    }

    #[test]
    fn a_word_has_one_bit_for_each_lane() {
        assert_eq!(lane_bits(1), 1);
        assert_eq!(lane_bits(64), u64::MAX);
        assert_eq!(bits(0b1010).collect::<Vec<_>>(), [1, 3]);
    }
}
