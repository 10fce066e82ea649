//! A scripted plant: the platform's side of a link, as a state machine with the platform's
//! habits.
//!
//! Tags have names such as `Tank7.Level`. `tidewire simulate mx` serves them over TCP. The plant
//! deliberately has these habits:
//!
//! | habit | setting |
//! |---|---|
//! | the first change comes 3 to 8 s after Advise | [`PlantConfig::first_change_ns`] |
//! | later changes come about 100 ms apart | [`PlantConfig::interval_ns`] |
//! | writes are refused, completed late, or their completion is lost | [`Faults`] |
//! | the link is dropped | [`Faults::drop_link`] |
//! | qualities are uncertain or bad, items are in trouble | [`Faults`] |
//! | array elements are counted from 1; `[0]` is refused | always |
//! | an array without `[]` answers CommunicationError 1003 | [`PlantConfig::bulk_arrays`] |
//!
//! The tanks follow the settings. Special tags always do the same, for tests: `Faults.*`
//! (writes), `Troubles.*` (data changes) and `Quality.*`; see [`tags`]. The same seed and calls
//! give the same bytes.

mod config;
mod random;
pub mod tags;

pub use config::{Faults, FaultsError, PlantConfig};

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::encode::Encode;
use crate::envelope::{EngineAddress, Envelope, MessageKind};
use crate::guid::Guid;
use crate::item_control::{ItemCommand, ItemControl};
use crate::message::{Body, Message};
use crate::operation::OperationStatus;
use crate::registration::{ClientRegistered, ReferenceRequest, ReferenceResult};
use crate::status::{Category, DETAIL_BULK_ARRAY, MxStatus, Quality, Source};
use crate::subscription::{Record, RecordStatus, SubscriptionKind, SubscriptionMessage};
use crate::time::FileTime;
use crate::transport::{LinkError, next_message, push_message};
use crate::value::Value;
use crate::write::Write;
use random::Random;
use tags::{Element, Place, Script, Tags};

/// The id of a client's link to the plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u32);

/// Counters of a plant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Values sent.
    pub updates: u64,
    /// Writes accepted.
    pub writes_taken: u64,
    /// Writes refused.
    pub writes_refused: u64,
    /// Completions dropped deliberately.
    pub completions_lost: u64,
    /// Links dropped deliberately.
    pub links_dropped: u64,
    /// Links closed because the client did not read.
    pub links_too_slow: u64,
    /// Messages that could not be decoded.
    pub unreadable: u64,
}

/// The plant. See the [module documentation](self).
#[derive(Debug)]
pub struct Plant {
    config: PlantConfig,
    random: Random,
    tags: Tags,
    links: BTreeMap<LinkId, Link>,
    next_link: u32,
    subscriptions: BTreeMap<u64, Subscription>,
    next_subscription: u64,
    /// Tasks in order of time; tasks for the same time in order of planning.
    agenda: BinaryHeap<Reverse<(u64, u64, Task)>>,
    planned: u64,
    /// The category of the next refused write.
    next_refusal: usize,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Link {
    outgoing: Vec<u8>,
    registered: bool,
    closing: bool,
    items: BTreeMap<Guid, Place>,
    subscriptions: BTreeMap<Guid, u64>,
}

#[derive(Debug)]
struct Subscription {
    link: LinkId,
    item_correlation_id: Guid,
    operation_id: Guid,
    place: Place,
    /// Whether the first change was sent.
    live: bool,
    suspended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    FirstChange {
        subscription: u64,
    },
    Change {
        tag: u32,
    },
    Complete {
        link: LinkId,
        token: u32,
        status: u32,
    },
}

impl Plant {
    /// Creates a plant without clients.
    pub fn new(config: PlantConfig) -> Self {
        let mut random = Random::new(config.seed);
        Self {
            tags: Tags::new(config.tags, &mut random),
            random,
            links: BTreeMap::new(),
            next_link: 0,
            subscriptions: BTreeMap::new(),
            next_subscription: 0,
            agenda: BinaryHeap::new(),
            planned: 0,
            next_refusal: 0,
            counters: Counters::default(),
            config,
        }
    }

    /// Handles a new client.
    pub fn connected(&mut self) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link = self.next_link.wrapping_add(1);
        self.links.insert(id, Link::default());
        id
    }

    /// Handles the end of a client's link.
    pub fn disconnected(&mut self, id: LinkId) {
        if let Some(link) = self.links.remove(&id) {
            for subscription in link.subscriptions.into_values() {
                self.end(subscription);
            }
        }
    }

    /// Receives bytes of a client's stream and returns how many were used.
    ///
    /// # Errors
    /// The bytes are not messages: the link must be closed.
    pub fn receive(&mut self, id: LinkId, bytes: &[u8], now_ns: u64) -> Result<usize, LinkError> {
        let mut taken = 0;
        while let Some((message, length)) = next_message(&bytes[taken..])? {
            self.receive_message(id, message, now_ns);
            taken += length;
        }
        Ok(taken)
    }

    /// Receives one whole message of a client. An undecodable message is counted.
    pub fn receive_message(&mut self, id: LinkId, message: &[u8], now_ns: u64) {
        if self.wants_close(id) {
            return;
        }
        let decoded = Message::decode(message)
            .and_then(|message| Ok((message.envelope, Body::decode(message.body)?)));
        let Ok((envelope, body)) = decoded else {
            self.counters.unreadable += 1;
            return;
        };
        match body {
            Body::ClientRegister(_) => self.register(id),
            Body::ClientUnregister(_) => self.unregister(id),
            // A client that is not registered gets no answer.
            _ if !self.links.get(&id).is_some_and(|link| link.registered) => {}
            Body::ReferenceRequest(request) => self.add_item(id, &request),
            Body::ItemControl(control) => self.control(id, &control, now_ns),
            Body::Write(write) => self.write(id, envelope.token(), &write, now_ns),
            _ => self.counters.unreadable += 1,
        }
        self.maybe_drop(id);
    }

    /// Runs the due tasks.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        while let Some(Reverse((due_ns, _, _))) = self.agenda.peek()
            && *due_ns <= now_ns
        {
            let Some(Reverse((due_ns, _, task))) = self.agenda.pop() else {
                return;
            };
            match task {
                Task::FirstChange { subscription } => self.first_change(subscription, now_ns),
                Task::Change { tag } => self.change(tag, due_ns, now_ns),
                Task::Complete {
                    link,
                    token,
                    status,
                } => self.complete(link, token, crate::status::PackedStatus(status).unpack()),
            }
        }
    }

    /// Returns when [`Plant::handle_timeout`] must be called; `u64::MAX` for never.
    pub fn deadline_ns(&self) -> u64 {
        self.agenda.peek().map_or(u64::MAX, |next| next.0.0)
    }

    /// Returns the output for a client as a stream. Remove the bytes you have sent from its
    /// front.
    pub fn outgoing(&mut self, id: LinkId) -> Option<&mut Vec<u8>> {
        Some(&mut self.links.get_mut(&id)?.outgoing)
    }

    /// Returns whether a client's link must be closed now, even with unsent bytes.
    pub fn wants_close(&self, id: LinkId) -> bool {
        self.links.get(&id).is_none_or(|link| link.closing)
    }

    /// Returns the plant's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the tags.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }
}

/// Requests of clients.
impl Plant {
    fn register(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.registered = true;
        }
        let registered = ClientRegistered {
            version: 1,
            status: MxStatus::OK.pack(),
            engine: EngineAddress {
                galaxy_id: 1,
                platform_id: 1,
                engine_id: 1_000 + id.0 as i32 % 30_000,
            },
        };
        self.send(id, MessageKind::Metadata, 0, &registered);
    }

    fn unregister(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.registered = false;
        link.items.clear();
        let subscriptions = core::mem::take(&mut link.subscriptions);
        for subscription in subscriptions.into_values() {
            self.end(subscription);
        }
    }

    fn add_item(&mut self, id: LinkId, request: &ReferenceRequest<'_>) {
        let place = self.tags.resolve(request.definition.chars());
        let (status, handle, data_type) = match place {
            Ok(place) => (
                MxStatus::OK,
                self.tags.handle(place),
                self.tags.data_type(place.tag),
            ),
            Err(status) => (status, Default::default(), crate::value::DataType::Other(0)),
        };
        if let (Ok(place), Some(link)) = (place, self.links.get_mut(&id)) {
            link.items.insert(request.item_correlation_id, place);
        }
        let result = ReferenceResult {
            version: request.version,
            item_correlation_id: request.item_correlation_id,
            item_handle: request.item_handle,
            status: status.pack(),
            handle,
            definition: request.definition,
            data_type,
            context: request.context,
            gap: [0; 6],
            tail: [0; 16],
        };
        self.send(id, MessageKind::Metadata, 0, &result);
    }

    fn control(&mut self, id: LinkId, control: &ItemControl, now_ns: u64) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let key = control.item_correlation_id;
        match control.command {
            ItemCommand::Advise { .. } => {
                let known = link.items.get(&key).copied();
                match known.or_else(|| self.tags.find(&control.handle)) {
                    Some(place) => self.advise(id, key, place, now_ns),
                    None => self.tell_trouble(id, key, NO_SUCH_ITEM),
                }
            }
            ItemCommand::UnAdvise => {
                if let Some(subscription) = link.subscriptions.remove(&key) {
                    self.end(subscription);
                }
            }
            ItemCommand::Suspend { .. } | ItemCommand::Activate { .. } => {
                let Some(number) = link.subscriptions.get(&key).copied() else {
                    return;
                };
                let suspended = matches!(control.command, ItemCommand::Suspend { .. });
                if let Some(subscription) = self.subscriptions.get_mut(&number) {
                    subscription.suspended = suspended;
                }
                if !suspended {
                    self.first_change(number, now_ns);
                }
            }
        }
    }

    fn advise(&mut self, id: LinkId, key: Guid, place: Place, now_ns: u64) {
        if place.element == Element::Bulk && !self.config.bulk_arrays {
            let status = MxStatus::failure(
                Category::CommunicationError,
                Source::RespondingNmx,
                DETAIL_BULK_ARRAY,
            );
            return self.tell_trouble(id, key, status);
        }
        if let Script::Trouble(category) = self.tags.script(place.tag) {
            return self.tell_trouble(id, key, scripted(category));
        }
        let number = self.next_subscription;
        self.next_subscription += 1;
        let subscription = Subscription {
            link: id,
            item_correlation_id: key,
            operation_id: self.random.guid(),
            place,
            live: false,
            suspended: false,
        };
        self.subscriptions.insert(number, subscription);
        self.tags.subscribe(place.tag, number);
        let old = self
            .links
            .get_mut(&id)
            .and_then(|link| link.subscriptions.insert(key, number));
        if let Some(old) = old {
            self.end(old);
        }
        let (least, most) = self.config.first_change_ns;
        let wait_ns = self.random.between(least, most);
        let task = Task::FirstChange {
            subscription: number,
        };
        self.plan(now_ns.saturating_add(wait_ns), task);
    }

    fn write(&mut self, id: LinkId, token: u32, write: &Write<'_>, now_ns: u64) {
        let place = match self.tags.find(&write.handle) {
            Some(place) => place,
            None => return self.refuse(id, token, NO_SUCH_ITEM),
        };
        let delayed_ns = now_ns.saturating_add(self.config.faults.delay_ns);
        let faults = self.config.faults;
        match self.tags.script(place.tag) {
            Script::ReadOnly => return self.refuse(id, token, READ_ONLY),
            Script::Write(Category::Ok) => {}
            Script::Write(category) => {
                return self.answer(id, token, write, place, category, now_ns);
            }
            Script::LoseCompletion => return self.lose(write, place, now_ns),
            Script::DelayCompletion => {
                let status = self.take(write, place, now_ns);
                return self.complete_at(delayed_ns, id, token, status);
            }
            Script::DropLink => return self.drop_link(id),
            Script::Plain | Script::Trouble(_) | Script::Quality(_) => {
                if self.random.chance(faults.lose) {
                    return self.lose(write, place, now_ns);
                }
                if self.random.chance(faults.refuse) {
                    let category = REFUSALS[self.next_refusal % REFUSALS.len()];
                    self.next_refusal += 1;
                    return self.answer(id, token, write, place, category, now_ns);
                }
                if self.random.chance(faults.delay) {
                    let status = self.take(write, place, now_ns);
                    return self.complete_at(delayed_ns, id, token, status);
                }
            }
        }
        let status = self.take(write, place, now_ns);
        self.complete(id, token, status);
    }

    /// Completes a write with a category. A warning accepts the value; a pending write completes
    /// later.
    fn answer(
        &mut self,
        id: LinkId,
        token: u32,
        write: &Write<'_>,
        place: Place,
        category: Category,
        now_ns: u64,
    ) {
        match category {
            Category::Warning => {
                let mut status = self.take(write, place, now_ns);
                if status == MxStatus::OK {
                    status.category = category;
                    status.detail = SCRIPTED_DETAIL;
                }
                self.complete(id, token, status);
            }
            Category::Pending => {
                self.complete(id, token, scripted(category));
                let status = self.take(write, place, now_ns);
                let due_ns = now_ns.saturating_add(self.config.faults.delay_ns);
                self.complete_at(due_ns, id, token, status);
            }
            category => self.refuse(id, token, scripted(category)),
        }
    }

    /// Accepts the value or drops it, and sends no completion.
    fn lose(&mut self, write: &Write<'_>, place: Place, now_ns: u64) {
        self.counters.completions_lost += 1;
        if self.random.chance(0.5) {
            self.take(write, place, now_ns);
        }
    }

    /// Sets the tag to its new value if the type fits, and notifies the subscribers.
    fn take(&mut self, write: &Write<'_>, place: Place, now_ns: u64) -> MxStatus {
        if !self.tags.set(place, &write.value) {
            self.counters.writes_refused += 1;
            return WRONG_TYPE;
        }
        self.counters.writes_taken += 1;
        let time = match write.suffix.time {
            FileTime::NONE => self.file_time(now_ns),
            time => time,
        };
        self.publish(place.tag, time);
        MxStatus::OK
    }

    fn refuse(&mut self, id: LinkId, token: u32, status: MxStatus) {
        self.counters.writes_refused += 1;
        self.complete(id, token, status);
    }

    fn complete_at(&mut self, due_ns: u64, link: LinkId, token: u32, status: MxStatus) {
        let status = status.pack().0;
        self.plan(
            due_ns,
            Task::Complete {
                link,
                token,
                status,
            },
        );
    }

    fn complete(&mut self, id: LinkId, token: u32, status: MxStatus) {
        self.send(id, MessageKind::Write, token, &OperationStatus::new(status));
    }
}

/// Data changes.
impl Plant {
    fn first_change(&mut self, number: u64, now_ns: u64) {
        let Some(subscription) = self.subscriptions.get_mut(&number) else {
            return;
        };
        if subscription.suspended {
            return;
        }
        subscription.live = true;
        let tag = subscription.place.tag;
        let time = self.file_time(now_ns);
        self.tell(number, Some(MxStatus::OK), time);
        if self.tags.begin_changing(tag) {
            self.plan_change(tag, now_ns);
        }
    }

    fn change(&mut self, tag: u32, due_ns: u64, now_ns: u64) {
        if !self.tags.has_subscribers(tag) {
            self.tags.end_changing(tag);
            return;
        }
        let faults = self.config.faults;
        let time = self.file_time(now_ns);
        if self.random.chance(faults.trouble) {
            let category = REFUSALS[self.random.below(REFUSALS.len() as u64) as usize];
            for number in self.tags.subscribers(tag) {
                self.tell(number, Some(scripted(category)), time);
            }
        } else {
            let quality = if self.random.chance(faults.bad) {
                Quality::BAD
            } else if self.random.chance(faults.uncertain) {
                Quality::UNCERTAIN
            } else {
                Quality::GOOD
            };
            if self.tags.change(tag, quality, time, &mut self.random) {
                self.publish(tag, time);
            }
        }
        // Planned from the due time, so that late calls do not slow the plant down. Missed
        // changes are not made up.
        self.plan_change(
            tag,
            due_ns.max(now_ns.saturating_sub(self.config.interval_ns)),
        );
    }

    fn plan_change(&mut self, tag: u32, from_ns: u64) {
        let interval_ns = self.config.interval_ns;
        let wait_ns = self
            .random
            .between(interval_ns / 10 * 9, interval_ns / 10 * 11);
        self.plan(from_ns.saturating_add(wait_ns.max(1)), Task::Change { tag });
    }

    fn publish(&mut self, tag: u32, time: FileTime) {
        for number in self.tags.subscribers(tag) {
            let is_heard = self
                .subscriptions
                .get(&number)
                .is_some_and(|subscription| subscription.live && !subscription.suspended);
            if is_heard {
                self.tell(number, None, time);
            }
        }
    }

    /// Sends a tag's value to one subscription, with a status or as a plain update.
    fn tell(&mut self, number: u64, status: Option<MxStatus>, time: FileTime) {
        let Some(subscription) = self.subscriptions.get(&number) else {
            return;
        };
        let Some(link) = self.links.get_mut(&subscription.link) else {
            return;
        };
        let kind = match status {
            Some(_) => SubscriptionKind::Status {
                item_correlation_id: subscription.item_correlation_id,
            },
            None => SubscriptionKind::Update,
        };
        let is_trouble = status.is_some_and(|status| status.outcome().is_err());
        let quality = if is_trouble {
            Quality::BAD
        } else {
            self.tags.quality(subscription.place.tag)
        };
        let status = status.map(|status| RecordStatus {
            status: status.pack(),
            detail_status: i32::from(status.detail),
        });
        let operation_id = subscription.operation_id;
        self.tags.with_value(subscription.place, |value| {
            let records = [Record {
                status,
                quality,
                time,
                value,
            }];
            let message = SubscriptionMessage::new(kind, operation_id, &records);
            link.push(MessageKind::ItemControl, 0, &message);
        });
        self.counters.updates += 1;
        if link.outgoing.len() > OUTGOING_BYTES_MAX && !link.closing {
            link.closing = true;
            self.counters.links_too_slow += 1;
        }
    }

    /// Sends a status without a value, for an item that gets no subscription.
    fn tell_trouble(&mut self, id: LinkId, item_correlation_id: Guid, status: MxStatus) {
        let operation_id = self.random.guid();
        let records = [Record {
            status: Some(RecordStatus {
                status: status.pack(),
                detail_status: i32::from(status.detail),
            }),
            quality: Quality::BAD,
            time: FileTime::NONE,
            value: Value::None,
        }];
        let kind = SubscriptionKind::Status {
            item_correlation_id,
        };
        let message = SubscriptionMessage::new(kind, operation_id, &records);
        self.send(id, MessageKind::ItemControl, 0, &message);
    }

    fn end(&mut self, number: u64) {
        if let Some(subscription) = self.subscriptions.remove(&number) {
            self.tags.unsubscribe(subscription.place.tag, number);
        }
    }

    fn send(&mut self, id: LinkId, kind: MessageKind, token: u32, body: &impl Encode) {
        if let Some(link) = self.links.get_mut(&id) {
            link.push(kind, token, body);
        }
    }

    fn maybe_drop(&mut self, id: LinkId) {
        if self.random.chance(self.config.faults.drop_link) {
            self.drop_link(id);
        }
    }

    fn drop_link(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id)
            && !link.closing
        {
            link.closing = true;
            self.counters.links_dropped += 1;
        }
    }

    fn plan(&mut self, due_ns: u64, task: Task) {
        self.planned += 1;
        self.agenda.push(Reverse((due_ns, self.planned, task)));
    }

    fn file_time(&self, now_ns: u64) -> FileTime {
        FileTime::from_unix_ns(self.config.unix_ns_at_zero.saturating_add(now_ns))
    }
}

impl Link {
    fn push(&mut self, kind: MessageKind, token: u32, body: &impl Encode) {
        let plant = EngineAddress {
            galaxy_id: 1,
            platform_id: 1,
            engine_id: 1,
        };
        let envelope = Envelope::new(kind, plant, EngineAddress::default()).with_token(token);
        // The client's value came in a message within the length limit.
        let _ = push_message(&mut self.outgoing, &envelope, body);
    }
}

/// The detail of scripted statuses.
pub const SCRIPTED_DETAIL: i16 = 42;

const fn scripted(category: Category) -> MxStatus {
    MxStatus::failure(
        category,
        Source::RespondingAutomationObject,
        SCRIPTED_DETAIL,
    )
}

const NO_SUCH_ITEM: MxStatus =
    MxStatus::failure(Category::ConfigurationError, Source::RespondingNmx, 4);
const READ_ONLY: MxStatus = MxStatus::failure(
    Category::SecurityError,
    Source::RespondingAutomationObject,
    7,
);
const WRONG_TYPE: MxStatus = MxStatus::failure(
    Category::ConfigurationError,
    Source::RespondingAutomationObject,
    8,
);
/// The categories of refused writes, in turn.
const REFUSALS: [Category; 9] = [
    Category::CommunicationError,
    Category::ConfigurationError,
    Category::OperationalError,
    Category::SecurityError,
    Category::SoftwareError,
    Category::OtherError,
    Category::Unknown,
    Category::Pending,
    Category::Warning,
];
/// Unsent bytes above which a client is disconnected.
const OUTGOING_BYTES_MAX: usize = 64 << 20;
