//! The link to the plant, on the lane that owns it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context, Dialing, unix_ns};
use tidewire_mx::session::{AdviseMode, Event, ItemId, Session, SessionConfig, Stage};
use tidewire_mx::session::{WriteError, WriteOptions};
use tidewire_mx::status::{Category, MxStatus, Quality, Source, StatusError};
use tidewire_mx::subscription::Record;
use tidewire_mx::value::{DataType, Value};
use tracing::{debug, info, warn};

use crate::news::{Batch, TagNews};
use crate::parsing::parse;
use crate::plant::{Plant, PlantCounters, is_name};
use crate::tags::Tag;
use crate::text::{QUALITY_LAST_USABLE, QUALITY_LOST};
use crate::writing::WriteRequest;
use crate::writing::{NO_LINK, NOT_SENT, Writes, no_tag_text, not_sent, refusal_text};
use tidewire_fanout::{Dispatch, Publication};

/// The link to the plant, across all its connections.
#[derive(Debug)]
pub struct PlantLink {
    plant: Arc<Plant>,
    session: Session,
    tags: LinkTags,
    writes: Writes,
    dialing: Dialing,
    /// Time of the last message from the plant.
    heard_ns: u64,
    /// Time of the next check for silent tags.
    sweep_ns: u64,
}

/// The state that the session's events change.
#[derive(Debug, Default)]
struct LinkTags {
    /// Items by index.
    items: Vec<Option<Item>>,
    /// Items by tag number.
    by_tag: Vec<ItemId>,
    news: TagNews,
    /// Items that the session must remove.
    gone: Vec<ItemId>,
    /// Names that the plant has confirmed or refused.
    settled: Vec<Box<str>>,
}

#[derive(Debug)]
struct Item {
    id: ItemId,
    name: Box<str>,
    /// The tag, once the plant has confirmed it.
    tag: Option<Arc<Tag>>,
    /// Whether the tag is configured: it is requested again on every link.
    is_listed: bool,
    /// Time of the plant's last message about the tag.
    changed_ns: u64,
    staleness: Staleness,
}

/// How stale a tag's value is, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Staleness {
    /// No value yet on this link.
    Waiting,
    Live,
    /// Silent long enough to be advised again.
    Refreshed,
    Uncertain,
    Bad,
}

impl PlantLink {
    /// Creates the link to `plant`; its connections carry the tag `port` to the application.
    pub fn new(plant: Arc<Plant>, port: u16) -> Self {
        let options = &plant.options;
        let session = Session::new(SessionConfig {
            write_timeout_ns: options.write_timeout_ns,
            // Requested and refused names come on top.
            items_max: options.tags_max.saturating_mul(2),
            seed: unix_ns(),
            ..SessionConfig::default()
        });
        let mut link = Self {
            session,
            tags: LinkTags::default(),
            writes: Writes::default(),
            dialing: Dialing::new(options.endpoint.clone(), port).with_tls(options.tls.clone()),
            heard_ns: 0,
            sweep_ns: 0,
            plant: plant.clone(),
        };
        let mut seen = HashSet::new();
        for name in plant.options.tags.iter().filter(|name| seen.insert(*name)) {
            link.add(name, true, 0);
        }
        link
    }

    /// Returns the connection, whether established or in progress.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.dialing.connection()
    }

    /// Notes that the connection is established.
    pub fn connected(&mut self, context: &mut Context, id: ConnectionId) {
        self.dialing.connected();
        self.heard_ns = context.now_ns();
        PlantCounters::add(&self.plant.counters.links, 1);
        self.session.connected(context.now_ns());
        self.flush(context, id);
    }

    /// Handles received bytes. Returns the number of bytes used, and the publications.
    pub fn received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> (usize, Dispatch) {
        let now_ns = context.now_ns();
        self.heard_ns = now_ns;
        let (result, news) = self.drive(unix_ns(), now_ns, |session, mut events| {
            session.receive(input, now_ns, &mut events)
        });
        self.settle(now_ns);
        if self.session.is_registered() && self.dialing.answered() {
            info!(plant = %self.plant.options.endpoint, "connected");
        }
        self.flush(context, id);
        match result {
            Ok(taken) => (taken, news),
            Err(error) => {
                self.dialing.close(context, error.to_string());
                (input.len(), news)
            }
        }
    }

    /// Notes the end of the connection. Returns the publications about it.
    pub fn closed(&mut self, context: &Context, reason: CloseReason) -> Dispatch {
        let now_ns = context.now_ns();
        self.dialing.fails(context);
        if !self.dialing.closed(now_ns, reason) {
            return (Publication::default(), 0);
        }
        let ((), news) = self.drive(context.unix_ns(), now_ns, |session, mut events| {
            session.disconnected(&mut events);
        });
        for (_, request) in self.writes.take_waiting() {
            not_sent(&self.plant, request.writer, NO_LINK.to_owned());
        }
        news
    }

    /// Connects if it is time, and does what is due.
    pub fn turn(&mut self, context: &mut Context) -> Dispatch {
        let now_ns = context.now_ns();
        let nothing = (Publication::default(), 0);
        self.writes.expire(&self.plant, now_ns);
        let Some(id) = self.dialing.turn(context) else {
            return nothing;
        };
        if self.session.deadline_ns().min(self.sweep_ns) > now_ns {
            return nothing;
        }
        let ((), news) = self.drive(context.unix_ns(), now_ns, |session, mut events| {
            session.handle_timeout(now_ns, &mut events);
        });
        let silence = self.sweep(context);
        self.flush(context, id);
        if self.is_dead(context, id) {
            self.dialing
                .close(context, "no data from the plant".to_owned());
        }
        merged(news, silence)
    }

    /// Returns when [`PlantLink::turn`] must be called, in monotonic nanoseconds.
    pub fn deadline_ns(&self) -> u64 {
        let link_ns = match self.dialing.standing() {
            Some(_) => self.session.deadline_ns().min(self.sweep_ns),
            None => self.dialing.deadline_ns(),
        };
        link_ns.min(self.writes.deadline_ns())
    }

    /// Takes the names that clients have requested.
    pub fn take_asked(&mut self, context: &mut Context) {
        for name in self.plant.asked.take() {
            self.add(&name, false, context.now_ns());
        }
        if let Some(id) = self.dialing.standing() {
            self.flush(context, id);
        }
    }

    /// Writes to a tag, or tells the client why it cannot.
    pub fn write(&mut self, context: &mut Context, request: WriteRequest) {
        let deadline_ns = context.now_ns() + self.plant.options.write_timeout_ns;
        self.begin_write(context.now_ns(), request, deadline_ns);
        if let Some(id) = self.dialing.standing() {
            self.flush(context, id);
        }
    }
}

impl PlantLink {
    /// Drives the session and handles its events.
    fn drive<R>(
        &mut self,
        unix_ns: u64,
        now_ns: u64,
        work: impl FnOnce(&mut Session, &mut dyn FnMut(Event<'_>)) -> R,
    ) -> (R, Dispatch) {
        let Self {
            plant,
            session,
            tags,
            writes,
            ..
        } = self;
        let mut kept = std::mem::take(&mut tags.news);
        let mut batch = kept.begin(plant, unix_ns);
        let mut updates = 0;
        let result = work(session, &mut |event| match event {
            Event::Update { item, record, .. } => {
                updates += 1;
                tags.update(&mut batch, item, &record, now_ns);
            }
            Event::WriteEnded { write, result, .. } => writes.ended(plant, write, result),
            event => tags.event(plant, &mut batch, event, unix_ns, now_ns),
        });
        PlantCounters::add(&plant.counters.updates, updates);
        let unreadable = session.counters().unreadable;
        plant
            .counters
            .unreadable
            .store(unreadable, Ordering::Relaxed);
        let news = batch.finish();
        tags.news = kept;
        (result, news)
    }

    /// Does the work that the events could not do while the session was in use.
    fn settle(&mut self, now_ns: u64) {
        for id in std::mem::take(&mut self.tags.gone) {
            self.session.remove_item(id);
            if let Some(place) = self.tags.items.get_mut(id.index()) {
                let is_own = place.as_ref().is_none_or(|item| item.id == id);
                debug_assert!(is_own, "an index is given out again after it was settled");
                *place = None;
            }
        }
        for name in std::mem::take(&mut self.tags.settled) {
            for (deadline_ns, request) in self.writes.take(&name) {
                self.begin_write(now_ns, request, deadline_ns);
            }
        }
    }

    fn add(&mut self, name: &str, is_listed: bool, now_ns: u64) {
        let id = match self.session.add_item(name, now_ns) {
            Ok(id) => id,
            Err(error) => {
                warn!(name, %error, "left out");
                return self.plant.asked.refused(name, unix_ns());
            }
        };
        self.session.advise(id, AdviseMode::Supervisory, now_ns);
        let index = id.index();
        if index >= self.tags.items.len() {
            self.tags.items.resize_with(index + 1, || None);
        }
        let place = &self.tags.items[index];
        debug_assert!(place.is_none(), "the last item of this index was settled");
        self.tags.items[index] = Some(Item {
            id,
            name: name.into(),
            tag: None,
            is_listed,
            changed_ns: now_ns,
            staleness: Staleness::Waiting,
        });
    }

    fn begin_write(&mut self, now_ns: u64, request: WriteRequest, deadline_ns: u64) {
        let plant = self.plant.clone();
        let (name, writer) = (&request.name, request.writer);
        if !self.session.is_registered() {
            return not_sent(&plant, writer, NO_LINK.to_owned());
        }
        let Some(tag) = plant.board.find(name) else {
            plant.want(name);
            for name in plant.asked.take() {
                self.add(&name, false, now_ns);
            }
            if !is_name(name) || plant.asked.is_refused(name) {
                return not_sent(&plant, writer, no_tag_text(name));
            }
            return self.writes.wait(request, deadline_ns);
        };
        let (data_type, is_array) = tag.data_type();
        let value = match parse(data_type, is_array, &request.text) {
            Ok(value) => value,
            Err(error) => {
                let text = format!("ERR {name}: {error}: {NOT_SENT}");
                return not_sent(&plant, writer, text);
            }
        };
        let Some(&item) = self.tags.by_tag.get(tag.number as usize) else {
            return not_sent(&plant, writer, no_tag_text(name));
        };
        let options = WriteOptions::default();
        let session = &mut self.session;
        match value.with(|value| session.write(item, value, options, now_ns)) {
            Ok(write) => self.writes.sent(&plant, write, writer),
            // The link is new: the plant has not sent the tag's type yet.
            Err(WriteError::TypeUnknown) => self.writes.wait(request, deadline_ns),
            Err(error) => not_sent(&plant, writer, refusal_text(name, &error)),
        }
    }

    /// Marks tags that have been silent for long.
    fn sweep(&mut self, context: &Context) -> Dispatch {
        let now_ns = context.now_ns();
        if now_ns < self.sweep_ns {
            return (Publication::default(), 0);
        }
        self.sweep_ns = now_ns + SWEEP_INTERVAL_NS;
        let Self {
            plant,
            session,
            tags,
            ..
        } = self;
        if !session.is_registered() {
            return (Publication::default(), 0);
        }
        let limits = StalenessLimits::new(plant);
        let mut kept = std::mem::take(&mut tags.news);
        let mut batch = kept.begin(plant, context.unix_ns());
        let (mut live, mut refreshes) = (0, 0);
        for item in tags.items.iter_mut().flatten() {
            let Some(tag) = &item.tag else { continue };
            let staleness = limits.staleness(now_ns.saturating_sub(item.changed_ns));
            if staleness > item.staleness && item.staleness != Staleness::Waiting {
                match staleness {
                    Staleness::Bad => batch.stale(tag, Quality(QUALITY_LOST), Some(lost().pack())),
                    Staleness::Uncertain => batch.stale(tag, Quality(QUALITY_LAST_USABLE), None),
                    _ if refreshes >= REFRESHES_A_SWEEP => continue,
                    _ => {
                        refreshes += 1;
                        session.un_advise(item.id);
                        session.advise(item.id, AdviseMode::Supervisory, now_ns);
                    }
                }
                item.staleness = staleness;
            }
            live += u64::from(matches!(
                item.staleness,
                Staleness::Live | Staleness::Refreshed
            ));
        }
        PlantCounters::add(&plant.counters.refreshes, refreshes);
        plant.counters.live_tags.store(live, Ordering::Relaxed);
        let news = batch.finish();
        tags.news = kept;
        news
    }

    /// Returns whether the peer is dead although the connection exists: it does not read, or does
    /// not answer a request.
    fn is_dead(&self, context: &Context, id: ConnectionId) -> bool {
        let silent_ns = context.now_ns().saturating_sub(self.heard_ns);
        let patience_ns = match self.plant.options.bad_after_ns {
            0 => u64::MAX,
            patience_ns => patience_ns.max(SILENCE_NS_MIN),
        };
        let is_asked = !self.session.is_registered() || !self.tags.by_tag.is_empty();
        context.out_bytes(id) > UNREAD_BYTES_MAX || is_asked && silent_ns > patience_ns
    }

    fn flush(&mut self, context: &mut Context, id: ConnectionId) {
        let outgoing = self.session.outgoing();
        if !outgoing.is_empty()
            && let Some(out) = context.out(id)
        {
            out.buffer().append(outgoing);
        }
    }
}

impl LinkTags {
    #[inline]
    fn update(&mut self, batch: &mut Batch<'_>, id: ItemId, record: &Record<'_>, now_ns: u64) {
        if let Some(item) = self.item(id)
            && let Some(tag) = &item.tag
        {
            (item.changed_ns, item.staleness) = (now_ns, Staleness::Live);
            let status = record.status.map(|status| status.status);
            batch.value(tag, &record.value, record.quality, record.time, status);
        }
    }

    fn event(
        &mut self,
        plant: &Plant,
        batch: &mut Batch<'_>,
        event: Event<'_>,
        unix_ns: u64,
        now_ns: u64,
    ) {
        match event {
            Event::Registered { .. } => plant.counters.connected.store(true, Ordering::Relaxed),
            Event::RegistrationRefused { error } => warn!(%error, "the plant refuses the hub"),
            Event::LinkLost => self.link_lost(plant, batch),
            Event::ItemAdded {
                item,
                data_type,
                is_array,
            } => self.added(plant, item, (data_type, is_array), unix_ns, now_ns),
            Event::ItemRefused { item, error } => self.refused(plant, batch, item, error, unix_ns),
            Event::Trouble {
                item,
                error,
                record,
            } => self.trouble(batch, item, error, &record, now_ns),
            Event::Overdue {
                stage: Stage::Register,
                ..
            } => warn!("the plant does not answer"),
            event => debug!(?event, "from the plant"),
        }
    }

    fn added(
        &mut self,
        plant: &Plant,
        id: ItemId,
        (data_type, is_array): (DataType, bool),
        unix_ns: u64,
        now_ns: u64,
    ) {
        let Some(item) = self.items.get_mut(id.index()).and_then(Option::as_mut) else {
            return;
        };
        if item.tag.is_none() {
            let Some(tag) = plant.board.define(&item.name) else {
                warn!(name = %item.name, "tag refused: tags-max is reached");
                plant.asked.refused(&item.name, unix_ns);
                self.gone.push(id);
                return;
            };
            let index = tag.number as usize;
            if index >= self.by_tag.len() {
                self.by_tag.resize(index + 1, id);
            }
            debug_assert_eq!(item.id, id, "an item of this index is this one");
            self.by_tag[index] = id;
            item.tag = Some(tag);
        }
        if let Some(tag) = &item.tag {
            tag.set_data_type(data_type, is_array);
        }
        item.changed_ns = now_ns;
        plant.asked.granted(&item.name);
        self.settled.push(item.name.clone());
    }

    fn refused(
        &mut self,
        plant: &Plant,
        batch: &mut Batch<'_>,
        id: ItemId,
        error: StatusError,
        unix_ns: u64,
    ) {
        let Some(item) = self.items.get_mut(id.index()).and_then(Option::as_mut) else {
            return;
        };
        PlantCounters::add(&plant.counters.refused_names, 1);
        plant.asked.refused(&item.name, unix_ns);
        self.settled.push(item.name.clone());
        match &item.tag {
            // The tag existed on an earlier link.
            Some(tag) => {
                let status = status_of(error).pack();
                batch.mark(tag, Quality::BAD, Some(status), None, true);
            }
            None if item.is_listed => {
                warn!(name = %item.name, %error, "the plant does not have this tag");
            }
            None => {
                debug!(name = %item.name, %error, "the plant does not have this tag");
                self.gone.push(id);
            }
        }
    }

    fn trouble(
        &mut self,
        batch: &mut Batch<'_>,
        id: ItemId,
        error: StatusError,
        record: &Record<'_>,
        now_ns: u64,
    ) {
        let Some(item) = self.item(id) else { return };
        let Some(tag) = &item.tag else { return };
        let quality = match record.quality.text() {
            "bad" => record.quality,
            _ => Quality::BAD,
        };
        let status = record.status.map(|status| status.status);
        let status = status.unwrap_or(status_of(error).pack());
        item.changed_ns = now_ns;
        match record.value {
            Value::None => {
                let time = Some(record.time).filter(|time| time.0 != 0);
                batch.mark(tag, quality, Some(status), time, false);
            }
            value => batch.value(tag, &value, quality, record.time, Some(status)),
        }
    }

    fn link_lost(&mut self, plant: &Plant, batch: &mut Batch<'_>) {
        plant.counters.connected.store(false, Ordering::Relaxed);
        plant.counters.live_tags.store(0, Ordering::Relaxed);
        for item in self.items.iter_mut().flatten() {
            if let Some(tag) = &item.tag {
                batch.stale(tag, Quality(QUALITY_LOST), Some(lost().pack()));
                item.staleness = Staleness::Waiting;
            }
        }
    }

    fn item(&mut self, id: ItemId) -> Option<&mut Item> {
        let item = self.items.get_mut(id.index())?.as_mut()?;
        (item.id == id).then_some(item)
    }
}

/// The times of silence after which a tag is refreshed, uncertain or bad.
#[derive(Clone, Copy, Debug)]
struct StalenessLimits {
    refresh_after_ns: u64,
    uncertain_after_ns: u64,
    bad_after_ns: u64,
}

impl StalenessLimits {
    fn new(plant: &Plant) -> Self {
        let never_if_0 = |ns: u64| if ns == 0 { u64::MAX } else { ns };
        let uncertain_after_ns = never_if_0(plant.options.uncertain_after_ns);
        let bad_after_ns = never_if_0(plant.options.bad_after_ns);
        debug_assert!(
            bad_after_ns > 0 && uncertain_after_ns > 0,
            "0 stands for never, and never is the longest time"
        );
        Self {
            // Early enough for the answer: a tag that does not change stays as good as one that
            // does.
            refresh_after_ns: match uncertain_after_ns.min(bad_after_ns) {
                u64::MAX => u64::MAX,
                first_ns => first_ns / 2,
            },
            uncertain_after_ns,
            bad_after_ns,
        }
    }

    fn staleness(&self, silent_ns: u64) -> Staleness {
        debug_assert!(
            self.refresh_after_ns <= self.uncertain_after_ns.min(self.bad_after_ns),
            "a tag is asked for again before it is called worse"
        );
        if silent_ns >= self.bad_after_ns {
            Staleness::Bad
        } else if silent_ns >= self.uncertain_after_ns {
            Staleness::Uncertain
        } else if silent_ns >= self.refresh_after_ns {
            Staleness::Refreshed
        } else {
            Staleness::Live
        }
    }
}

fn lost() -> MxStatus {
    MxStatus::failure(Category::CommunicationError, Source::RequestingNmx, 0)
}

fn status_of(error: StatusError) -> MxStatus {
    let trouble = error.trouble();
    MxStatus::failure(error.category(), trouble.detected_by, trouble.detail)
}

fn merged(mut one: Dispatch, other: Dispatch) -> Dispatch {
    one.0.append(other.0);
    (one.0, one.1 | other.1)
}

/// Interval of the checks for silent tags.
const SWEEP_INTERVAL_NS: u64 = 250_000_000;
/// Maximum tags advised again per check, so that all tags at once are no burst.
const REFRESHES_A_SWEEP: u64 = 2_000;
/// Minimum silence before a link is given up: the plant's first change takes up to 8 s.
const SILENCE_NS_MIN: u64 = 20_000_000_000;
/// Unread bytes after which a plant is given up.
const UNREAD_BYTES_MAX: usize = 64 << 20;
