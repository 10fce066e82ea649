//! The client's side of a link to the platform, as a state machine: bytes and times in, events,
//! bytes and the next deadline out.
//!
//! The application's wishes (items, and which are advised) survive lost links. After each
//! [`Session::connected`] the session registers again, adds every item again, and advises the
//! items that were advised. Writes are never repeated. A write whose link was lost or whose
//! completion did not arrive in time ends as [`WriteFailure::Unknown`], because the plant may or
//! may not have the value.
//!
//! ```text
//!            connected           registered        result 0x11        first change
//!  link down ────────▶ registering ───────▶ up:  item adding ───▶ added, advising ───▶ live
//!      ▲                                     │
//!      └──────────── disconnected ───────────┘    (from everywhere; all items begin again)
//! ```

mod event;
mod item;
mod pending;

pub use event::{AddError, Counters, Doubt, Event, Stage, WriteError, WriteFailure};
pub use item::{AdviseMode, ItemId};

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::encode::Encode;
use crate::envelope::{EngineAddress, Envelope, MessageKind};
use crate::error::DecodeError;
use crate::guid::Guid;
use crate::item_control::{ItemCommand, ItemControl};
use crate::message::{Body, Message};
use crate::operation::OperationStatus;
use crate::registration::{
    ClientRegister, ClientRegistered, ClientUnregister, ReferenceRequest, ReferenceResult,
};
use crate::status::StatusError;
use crate::subscription::{Record, SubscriptionKind, SubscriptionMessage};
use crate::time::FileTime;
use crate::transport::{LinkError, next_message, push_message};
use crate::value::{Text, Value};
use crate::write::{SecuredUsers, Write};
use item::{Item, ItemState, Items};
use pending::{PendingWrite, Timeouts, Writes};

/// Settings of a session. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The client's name for itself.
    pub client_name: String,
    /// The engine the client talks to.
    pub target: EngineAddress,
    /// Timeout of Register; default 5 s.
    pub register_timeout_ns: u64,
    /// Timeout of AddItem; default 5 s.
    pub add_timeout_ns: u64,
    /// Timeout of the first change after Advise; default 15 s. The platform takes 3 to 8 s.
    pub advise_timeout_ns: u64,
    /// Timeout of a write's completion; default 10 s.
    pub write_timeout_ns: u64,
    /// Maximum concurrent AddItems; default 1,024. The others wait, so that 100,000 items are no
    /// burst.
    pub adds_in_flight_max: usize,
    /// Maximum concurrent writes; default 4,096.
    pub writes_in_flight_max: usize,
    /// Maximum items; default 1,048,576.
    pub items_max: usize,
    /// Part of every correlation id; should differ between clients of one platform.
    pub seed: u64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            client_name: "tidewire".to_string(),
            target: EngineAddress::default(),
            register_timeout_ns: 5_000_000_000,
            add_timeout_ns: 5_000_000_000,
            advise_timeout_ns: 15_000_000_000,
            write_timeout_ns: 10_000_000_000,
            adds_in_flight_max: 1_024,
            writes_in_flight_max: 4_096,
            items_max: 1 << 20,
            seed: 1,
        }
    }
}

/// The number of a write, unique in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// Options of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Time of measurement of the value (Write2).
    pub time: Option<FileTime>,
    /// The writing users (WriteSecured).
    pub users: Option<SecuredUsers>,
}

/// One client of the platform. See the [module documentation](self).
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    link: Link,
    /// Number of links so far. It is part of every correlation id, so late messages of an old
    /// link are recognised as strays.
    epoch: u32,
    local: EngineAddress,
    items: Items,
    /// Items waiting to be added.
    to_add: VecDeque<u32>,
    adds: Timeouts,
    advises: Timeouts,
    subscriptions: BTreeMap<Guid, u32>,
    writes: Writes,
    outgoing: Vec<u8>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down,
    Registering { deadline_ns: u64, attempts: u32 },
    Up,
}

impl Session {
    /// Creates a session without a link.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            link: Link::Down,
            epoch: 0,
            local: EngineAddress::default(),
            items: Items::default(),
            to_add: VecDeque::new(),
            adds: Timeouts::default(),
            advises: Timeouts::default(),
            subscriptions: BTreeMap::new(),
            writes: Writes::default(),
            outgoing: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Handles a new link: registers. Discards output that an old link did not send.
    pub fn connected(&mut self, now_ns: u64) {
        self.forget_link();
        self.epoch = self.epoch.wrapping_add(1);
        self.counters.links += 1;
        self.register(now_ns, 1);
    }

    /// Handles the end of the link: pending writes end as unknown, and every item waits for the
    /// next link.
    pub fn disconnected(&mut self, events: &mut impl FnMut(Event<'_>)) {
        if self.link == Link::Down {
            return;
        }
        self.forget_link();
        self.writes.end_all(|write| {
            self.counters.writes_unknown += 1;
            events(ended(&write, Err(WriteFailure::Unknown(Doubt::LinkLost))));
        });
        events(Event::LinkLost);
    }

    /// Returns whether the platform has accepted the registration.
    pub fn is_registered(&self) -> bool {
        self.link == Link::Up
    }

    /// Adds an item, now or once there is a link, and again after each new link.
    ///
    /// # Errors
    /// The definition is empty or too long, or there are too many items.
    pub fn add_item(&mut self, definition: &str, now_ns: u64) -> Result<ItemId, AddError> {
        if definition.is_empty() {
            return Err(AddError::Empty);
        }
        if definition.len() > DEFINITION_BYTES_MAX {
            return Err(AddError::TooLong);
        }
        if self.items.len() >= self.config.items_max {
            return Err(AddError::TooMany);
        }
        let id = self.items.insert(definition);
        // Without a link it waits, like all others, for the next link.
        if self.link == Link::Up {
            self.to_add.push_back(id.slot);
            self.add_more(now_ns);
        }
        Ok(id)
    }

    /// Removes an item after un-advising it. Its pending writes still end with an event.
    pub fn remove_item(&mut self, id: ItemId) {
        self.un_advise(id);
        if self
            .items
            .get(id)
            .is_some_and(|item| item.state == ItemState::Adding)
        {
            self.adds.done();
        }
        self.items.remove(id);
    }

    /// Requests data changes of an item, from now on and after each new link.
    pub fn advise(&mut self, id: ItemId, mode: AdviseMode, now_ns: u64) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.wanted = Some(mode);
        match item.state {
            ItemState::Added => self.send_advise(id.slot, now_ns),
            // The item may exist by now.
            ItemState::Refused => {
                item.move_to(ItemState::Absent);
                self.to_add.push_back(id.slot);
                self.add_more(now_ns);
            }
            ItemState::Absent | ItemState::Adding | ItemState::Advising | ItemState::Live => {}
        }
    }

    /// Ends the data changes of an item.
    pub fn un_advise(&mut self, id: ItemId) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.wanted = None;
        item.suspended = false;
        if matches!(item.state, ItemState::Advising | ItemState::Live) {
            item.move_to(ItemState::Added);
            if let Some(operation_id) = item.operation_id.take() {
                self.subscriptions.remove(&operation_id);
            }
            self.send_control(id.slot, ItemCommand::UnAdvise);
        }
    }

    /// Pauses the data changes of an advised item (Suspend), or resumes them (Activate).
    pub fn suspend(&mut self, id: ItemId, suspended: bool, now_ns: u64) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        if item.suspended == suspended || item.wanted.is_none() {
            return;
        }
        item.suspended = suspended;
        if !matches!(item.state, ItemState::Advising | ItemState::Live) {
            return;
        }
        self.send_suspension(id.slot, suspended);
        if !suspended {
            self.watch_advise(id.slot, now_ns);
        }
    }

    /// Writes to an item. The result is always reported, exactly once, as [`Event::WriteEnded`].
    ///
    /// # Errors
    /// Nothing was sent: no link, no such item, a value of the wrong type, or too many pending
    /// writes.
    pub fn write(
        &mut self,
        id: ItemId,
        value: Value<'_>,
        options: WriteOptions,
        now_ns: u64,
    ) -> Result<WriteId, WriteError> {
        if self.link != Link::Up {
            return Err(WriteError::NoLink);
        }
        let item = self.items.get(id).ok_or(WriteError::NoItem)?;
        let handle = item.check_write(&value)?;
        if self.writes.len() >= self.config.writes_in_flight_max {
            return Err(WriteError::TooMany);
        }
        let number = self.writes.next_number();
        let token = number as u32;
        let mut write = Write::new(handle, value).numbered(token, self.counters.writes as u32);
        if let Some(time) = options.time {
            write = write.at(time);
        }
        if let Some(users) = options.users {
            write = write.secured(users);
        }
        let envelope = self.envelope(MessageKind::Write).with_token(token);
        push_message(&mut self.outgoing, &envelope, &write).map_err(WriteError::Encode)?;
        self.counters.writes += 1;
        self.writes.push(PendingWrite {
            id: WriteId(number),
            item: id,
            deadline_ns: now_ns.saturating_add(self.config.write_timeout_ns),
        });
        Ok(WriteId(number))
    }

    /// Ends the registration. The link can be closed once [`Session::outgoing`] has been sent.
    pub fn unregister(&mut self) {
        if self.link == Link::Up {
            self.send(MessageKind::Metadata, &ClientUnregister { version: 1 });
        }
    }

    /// Receives bytes of a stream and returns how many were used. The rest is the beginning of a
    /// message.
    ///
    /// # Errors
    /// The bytes are not messages: the link must be closed.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) -> Result<usize, LinkError> {
        let mut taken = 0;
        while let Some((message, length)) = next_message(&bytes[taken..])? {
            self.receive_message(message, now_ns, events);
            taken += length;
        }
        Ok(taken)
    }

    /// Receives one whole message from a transport that preserves message boundaries. An
    /// undecodable message is reported as an event and changes nothing.
    pub fn receive_message(
        &mut self,
        message: &[u8],
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) {
        self.counters.messages += 1;
        if let Err(error) = self.dispatch(message, now_ns, events) {
            self.counters.unreadable += 1;
            events(Event::Unreadable { error, message });
        }
    }

    /// Runs what is due. Call it at [`Session::deadline_ns`]; calling it earlier or later is
    /// harmless.
    pub fn handle_timeout(&mut self, now_ns: u64, events: &mut impl FnMut(Event<'_>)) {
        if let Link::Registering {
            deadline_ns,
            attempts,
        } = self.link
            && deadline_ns <= now_ns
        {
            events(Event::Overdue {
                stage: Stage::Register,
                item: None,
            });
            self.register(now_ns, attempts.saturating_add(1));
        }
        while let Some((slot, stamp)) = self.adds.pop_due(now_ns) {
            let overdue = self.items.at_stamp(slot, stamp, ItemState::Adding);
            if let Some((id, item)) = overdue {
                item.move_to(ItemState::Absent);
                self.adds.done();
                self.to_add.push_back(slot);
                events(Event::Overdue {
                    stage: Stage::Add,
                    item: Some(id),
                });
            }
        }
        self.add_more(now_ns);
        while let Some((slot, stamp)) = self.advises.pop_due(now_ns) {
            let overdue = self.items.at_stamp(slot, stamp, ItemState::Advising);
            if let Some((id, item)) = overdue
                && !item.suspended
            {
                events(Event::Overdue {
                    stage: Stage::Advise,
                    item: Some(id),
                });
                self.send_advise(slot, now_ns);
            }
        }
        while let Some(write) = self.writes.pop_due(now_ns) {
            self.counters.writes_unknown += 1;
            events(ended(&write, Err(WriteFailure::Unknown(Doubt::TimedOut))));
        }
    }

    /// Returns when [`Session::handle_timeout`] must be called; `u64::MAX` for never.
    pub fn deadline_ns(&self) -> u64 {
        let register_ns = match self.link {
            Link::Registering { deadline_ns, .. } => deadline_ns,
            Link::Down | Link::Up => u64::MAX,
        };
        let deadlines = [
            self.adds.deadline_ns(),
            self.advises.deadline_ns(),
            self.writes.deadline_ns(),
        ];
        deadlines.into_iter().fold(register_ns, u64::min)
    }

    /// Returns the output as a stream. Remove the bytes you have sent from its front. A transport
    /// that preserves message boundaries uses [`crate::transport::send_all`].
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Returns the session's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the definition the item was added with.
    pub fn definition(&self, id: ItemId) -> Option<&str> {
        self.items.get(id).map(|item| &*item.definition)
    }

    /// Returns whether an item's values are arriving.
    pub fn is_live(&self, id: ItemId) -> bool {
        self.items
            .get(id)
            .is_some_and(|item| item.state == ItemState::Live)
    }
}

/// Messages from the platform.
impl Session {
    fn dispatch(
        &mut self,
        message: &[u8],
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) -> Result<(), DecodeError> {
        let message = Message::decode(message)?;
        match Body::decode(message.body)? {
            Body::Subscription(body) => self.values(&body, now_ns, events),
            Body::OperationStatus(status) => {
                self.completion(message.envelope.token(), status, events);
            }
            Body::ReferenceResult(result) => self.added(&result, now_ns, events),
            Body::ClientRegistered(body) => self.registered(&body, now_ns, events),
            // Messages that only clients send are ignored.
            _ => self.counters.strays += 1,
        }
        Ok(())
    }

    fn registered(
        &mut self,
        body: &ClientRegistered,
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) {
        if !matches!(self.link, Link::Registering { .. }) {
            self.counters.strays += 1;
            return;
        }
        match body.status.unpack().outcome() {
            Ok(_) => {
                self.link = Link::Up;
                self.local = body.engine;
                self.to_add.clear();
                self.to_add.extend(self.items.slots());
                events(Event::Registered {
                    engine: body.engine,
                });
                self.add_more(now_ns);
            }
            // The registration is retried after the timeout of the answer.
            Err(error) => events(Event::RegistrationRefused { error }),
        }
    }

    fn added(
        &mut self,
        result: &ReferenceResult<'_>,
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) {
        let Some(slot) = self.find(result.item_correlation_id) else {
            self.counters.strays += 1;
            return;
        };
        let Some((id, item)) = self.items.entry(slot) else {
            return;
        };
        if item.state != ItemState::Adding {
            self.counters.strays += 1;
            return;
        }
        self.adds.done();
        match result.status.unpack().outcome() {
            Ok(_) => {
                item.move_to(ItemState::Added);
                item.handle = result.handle;
                item.data_type = Some(result.data_type);
                let is_wanted = item.wanted.is_some();
                events(Event::ItemAdded {
                    item: id,
                    data_type: result.data_type,
                    is_array: result.handle.projection().attribute_index() == -1,
                });
                if is_wanted {
                    self.send_advise(slot, now_ns);
                }
            }
            Err(error) => {
                item.move_to(ItemState::Refused);
                events(Event::ItemRefused { item: id, error });
            }
        }
        self.add_more(now_ns);
    }

    fn values(
        &mut self,
        message: &SubscriptionMessage<'_>,
        now_ns: u64,
        events: &mut impl FnMut(Event<'_>),
    ) {
        let slot = match message.kind {
            SubscriptionKind::Update => self.subscriptions.get(&message.operation_id).copied(),
            SubscriptionKind::Status {
                item_correlation_id,
            } => self.find(item_correlation_id),
        };
        let entry = slot.and_then(|slot| Some((slot, self.items.entry(slot)?)));
        let Some((slot, (id, item))) = entry else {
            self.counters.strays += 1;
            return;
        };
        if !matches!(item.state, ItemState::Advising | ItemState::Live) {
            self.counters.strays += 1;
            return;
        }
        if item.operation_id != Some(message.operation_id) {
            if let Some(old) = item.operation_id.replace(message.operation_id) {
                self.subscriptions.remove(&old);
            }
            self.subscriptions.insert(message.operation_id, slot);
        }
        let mut records = message.records.iter();
        for record in records.by_ref() {
            let Ok(record) = record else {
                self.counters.unreadable += 1;
                break;
            };
            take_record(id, item, &record, now_ns, &mut self.counters, events);
        }
        self.counters.unreadable += records.left() as u64;
    }

    fn completion(
        &mut self,
        token: u32,
        status: OperationStatus,
        events: &mut impl FnMut(Event<'_>),
    ) {
        let result = match status.status().map(|status| status.outcome()) {
            // The write is still pending: another completion follows, or the write times out.
            Some(Err(StatusError::Pending(_))) => return,
            Some(Ok(accepted)) => Ok(accepted),
            Some(Err(error)) => Err(WriteFailure::Refused(error)),
            None => Err(WriteFailure::Unknown(Doubt::NotUnderstood)),
        };
        let Some(write) = self.writes.take(token) else {
            // A late or unknown completion is never matched with another write.
            self.counters.strays += 1;
            return;
        };
        match result {
            Ok(_) => self.counters.writes_accepted += 1,
            Err(WriteFailure::Refused(_)) => self.counters.writes_refused += 1,
            Err(WriteFailure::Unknown(_)) => self.counters.writes_unknown += 1,
        }
        events(ended(&write, result));
    }

    /// Returns the item of a correlation id of this link.
    fn find(&self, correlation_id: Guid) -> Option<u32> {
        let slot = correlation_id.first();
        let generation = self.items.generation(slot)?;
        (self.correlation_id(slot, generation) == correlation_id).then_some(slot)
    }
}

/// Messages to the platform.
impl Session {
    fn register(&mut self, now_ns: u64, attempts: u32) {
        self.link = Link::Registering {
            deadline_ns: now_ns.saturating_add(self.config.register_timeout_ns),
            attempts,
        };
        let name = core::mem::take(&mut self.config.client_name);
        let register = ClientRegister::new(Text::new(&name));
        self.send(MessageKind::Metadata, &register);
        self.config.client_name = name;
    }

    /// Adds waiting items while fewer than the maximum are pending.
    fn add_more(&mut self, now_ns: u64) {
        if self.link != Link::Up {
            return;
        }
        while self.adds.under_way() < self.config.adds_in_flight_max {
            let Some(slot) = self.to_add.pop_front() else {
                return;
            };
            let Some((id, item)) = self.items.entry(slot) else {
                continue;
            };
            if item.state != ItemState::Absent {
                continue;
            }
            item.move_to(ItemState::Adding);
            let deadline_ns = now_ns.saturating_add(self.config.add_timeout_ns);
            self.adds.push(deadline_ns, slot, item.stamp);
            let definition = core::mem::take(&mut item.definition);
            let correlation_id = self.correlation_id(slot, id.generation);
            let text = Text::new(&definition);
            let request = ReferenceRequest::new(correlation_id, slot as i32, text);
            self.send(MessageKind::Metadata, &request);
            if let Some((_, item)) = self.items.entry(slot) {
                item.definition = definition;
            }
        }
    }

    fn send_advise(&mut self, slot: u32, now_ns: u64) {
        let Some((_, item)) = self.items.entry(slot) else {
            return;
        };
        let command = match item.wanted {
            Some(AdviseMode::User) => ItemCommand::ADVISE,
            Some(AdviseMode::Supervisory) => ItemCommand::ADVISE_SUPERVISORY,
            None => return,
        };
        let suspended = item.suspended;
        item.move_to(ItemState::Advising);
        self.send_control(slot, command);
        if suspended {
            self.send_suspension(slot, true);
        } else {
            self.watch_advise(slot, now_ns);
        }
    }

    fn watch_advise(&mut self, slot: u32, now_ns: u64) {
        if let Some((_, item)) = self.items.entry(slot)
            && item.state == ItemState::Advising
        {
            let deadline_ns = now_ns.saturating_add(self.config.advise_timeout_ns);
            self.advises.push(deadline_ns, slot, item.stamp);
        }
    }

    fn send_suspension(&mut self, slot: u32, suspended: bool) {
        let Some((_, item)) = self.items.entry(slot) else {
            return;
        };
        let (platform_id, engine_id) = (item.handle.platform_id(), item.handle.engine_id());
        let command = if suspended {
            ItemCommand::Suspend {
                platform_id,
                engine_id,
            }
        } else {
            ItemCommand::Activate {
                platform_id,
                engine_id,
            }
        };
        self.send_control(slot, command);
    }

    fn send_control(&mut self, slot: u32, command: ItemCommand) {
        let Some((id, item)) = self.items.entry(slot) else {
            return;
        };
        let projection = item.handle.projection();
        let correlation_id = self.correlation_id(slot, id.generation);
        let control = ItemControl::new(command, correlation_id, projection);
        self.send(command.message_kind(), &control);
    }

    fn send(&mut self, kind: MessageKind, body: &impl Encode) {
        let envelope = self.envelope(kind);
        let sent = push_message(&mut self.outgoing, &envelope, body);
        debug_assert!(sent.is_ok(), "names are bounded");
    }

    fn envelope(&self, kind: MessageKind) -> Envelope {
        Envelope::new(kind, self.local, self.config.target)
    }

    fn correlation_id(&self, slot: u32, generation: u32) -> Guid {
        let [low, high] = [self.epoch as u16, (self.epoch >> 16) as u16];
        let rest = self.config.seed.rotate_left(32) ^ u64::from(generation);
        Guid::from_parts(slot, low, high, rest)
    }

    fn forget_link(&mut self) {
        self.link = Link::Down;
        self.outgoing.clear();
        self.to_add.clear();
        self.adds = Timeouts::default();
        self.advises = Timeouts::default();
        self.subscriptions.clear();
        self.items.forget_link();
    }
}

fn take_record(
    id: ItemId,
    item: &mut Item,
    record: &Record<'_>,
    now_ns: u64,
    counters: &mut Counters,
    events: &mut impl FnMut(Event<'_>),
) {
    let outcome = record.status.map(|status| status.status.unpack().outcome());
    if let Some(Err(error)) = outcome {
        let is_final = matches!(
            error,
            StatusError::Configuration(_) | StatusError::Security(_)
        );
        if is_final && item.state == ItemState::Advising {
            item.move_to(ItemState::Refused);
        }
        events(Event::Trouble {
            item: id,
            error,
            record: *record,
        });
        return;
    }
    if record.value == Value::None {
        return;
    }
    let is_first = item.state == ItemState::Advising;
    if is_first {
        item.move_to(ItemState::Live);
    }
    counters.updates += 1;
    events(Event::Update {
        item: id,
        record: *record,
        is_first,
        received_ns: now_ns,
    });
}

fn ended(
    write: &PendingWrite,
    result: Result<crate::status::Accepted, WriteFailure>,
) -> Event<'static> {
    Event::WriteEnded {
        write: write.id,
        item: write.item,
        result,
    }
}

/// Maximum bytes of an item's definition in UTF-8; the platform's own names are far shorter.
pub const DEFINITION_BYTES_MAX: usize = 4_096;
