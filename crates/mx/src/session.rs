//! The client's side of a link to the platform, as a machine: bytes and times in, events and bytes
//! out, next deadline out.
//!
//! What an application wants (items, which of them advised) is kept over lost links: after each
//! [`Session::connected`] the session registers again, adds every item again and advises again what
//! was advised. Writes are never repeated by themselves: one whose link was lost, or whose
//! completion did not come in time, ends as [`WriteFailure::Unknown`], for nobody knows whether the
//! plant has it.
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
use item::{Item, Items, State};
use pending::{PendingWrite, Timeouts, Writes};

/// How a session behaves. Times are in ns.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// What the client calls itself.
    pub client_name: String,
    /// The engine that it speaks to.
    pub target: EngineAddress,
    /// Patience for the answer to Register: 5 s.
    pub register_timeout_ns: u64,
    /// Patience for the answer to AddItem: 5 s.
    pub add_timeout_ns: u64,
    /// Patience for the first change after Advise: 15 s; the platform takes 3 to 8.
    pub advise_timeout_ns: u64,
    /// Patience for a write's completion: 10 s.
    pub write_timeout_ns: u64,
    /// AddItems under way at once: 1,024. The others wait, so that 100,000 items are no burst.
    pub adds_in_flight_max: usize,
    /// Writes under way at once: 4,096.
    pub writes_in_flight_max: usize,
    /// Items: 1,048,576.
    pub items_max: usize,
    /// Part of every correlation id; two clients of one platform should differ.
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

/// A write's number; no two writes of a session have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// What a write carries besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// When the value was measured (Write2).
    pub time: Option<FileTime>,
    /// Who writes (WriteSecured).
    pub users: Option<SecuredUsers>,
}

/// One client of the platform. See the [module](self).
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    link: Link,
    /// Links so far: part of every correlation id, so that what is late from an old link is a
    /// stray.
    epoch: u32,
    local: EngineAddress,
    items: Items,
    /// Items that wait for their turn to be added.
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
    /// A session without a link.
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

    /// There is a new link: registers. What was not yet sent over an old one is dropped.
    pub fn connected(&mut self, now_ns: u64) {
        self.forget_link();
        self.epoch = self.epoch.wrapping_add(1);
        self.counters.links += 1;
        self.register(now_ns, 1);
    }

    /// The link is gone: writes under way end as unknown, and every item waits for the next link.
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

    /// Whether the platform has accepted the registration.
    pub fn is_registered(&self) -> bool {
        self.link == Link::Up
    }

    /// Adds an item, now or as soon as there is a link, and after each new one.
    ///
    /// # Errors
    /// An empty or overlong definition, or too many items.
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
        // Without a link it waits with all others for the next.
        if self.link == Link::Up {
            self.to_add.push_back(id.slot);
            self.add_more(now_ns);
        }
        Ok(id)
    }

    /// Forgets an item; it is un-advised first. Writes under way to it still end with an event.
    pub fn remove_item(&mut self, id: ItemId) {
        self.un_advise(id);
        if self
            .items
            .get(id)
            .is_some_and(|item| item.state == State::Adding)
        {
            self.adds.done();
        }
        self.items.remove(id);
    }

    /// Wants data changes of an item, from now on and after each new link.
    pub fn advise(&mut self, id: ItemId, mode: AdviseMode, now_ns: u64) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.wanted = Some(mode);
        match item.state {
            State::Added => self.send_advise(id.slot, now_ns),
            // It may be there by now.
            State::Refused => {
                item.move_to(State::Absent);
                self.to_add.push_back(id.slot);
                self.add_more(now_ns);
            }
            State::Absent | State::Adding | State::Advising | State::Live => {}
        }
    }

    /// Wants no more data changes of an item.
    pub fn un_advise(&mut self, id: ItemId) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.wanted = None;
        item.suspended = false;
        if matches!(item.state, State::Advising | State::Live) {
            item.move_to(State::Added);
            if let Some(operation_id) = item.operation_id.take() {
                self.subscriptions.remove(&operation_id);
            }
            self.send_control(id.slot, ItemCommand::UnAdvise);
        }
    }

    /// Wants an advised item to be quiet (Suspend), or to go on (Activate).
    pub fn suspend(&mut self, id: ItemId, suspended: bool, now_ns: u64) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        if item.suspended == suspended || item.wanted.is_none() {
            return;
        }
        item.suspended = suspended;
        if !matches!(item.state, State::Advising | State::Live) {
            return;
        }
        self.send_suspension(id.slot, suspended);
        if !suspended {
            self.watch_advise(id.slot, now_ns);
        }
    }

    /// Writes to an item. How it ends comes as [`Event::WriteEnded`], always, and exactly once.
    ///
    /// # Errors
    /// Nothing was sent: no link, no such item, a value of another type, too many writes under way.
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

    /// Ends the registration; the link can be closed when [`Session::outgoing`] has been sent.
    pub fn unregister(&mut self) {
        if self.link == Link::Up {
            self.send(MessageKind::Metadata, &ClientUnregister { version: 1 });
        }
    }

    /// Takes bytes of a stream, and returns how many of them; the rest is the begin of a message.
    ///
    /// # Errors
    /// They are no messages: the link must be closed.
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

    /// Takes one whole message, from a transport that keeps messages apart. One that cannot be read
    /// is an event, and changes nothing.
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

    /// Does what is due. Call it at [`Session::deadline_ns`]; earlier or later does no harm.
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
            let overdue = self.items.at_stamp(slot, stamp, State::Adding);
            if let Some((id, item)) = overdue {
                item.move_to(State::Absent);
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
            let overdue = self.items.at_stamp(slot, stamp, State::Advising);
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

    /// When [`Session::handle_timeout`] wants to be called; `u64::MAX` if it need not be.
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

    /// What is to be sent, in the form of a stream; take as much of its front as was sent. For a
    /// transport that keeps messages apart: [`crate::transport::send_all`].
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What an item was added as.
    pub fn definition(&self, id: ItemId) -> Option<&str> {
        self.items.get(id).map(|item| &*item.definition)
    }

    /// Whether an item's values are arriving.
    pub fn is_live(&self, id: ItemId) -> bool {
        self.items
            .get(id)
            .is_some_and(|item| item.state == State::Live)
    }
}

/// From the platform.
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
            // A client's own messages mean nothing here.
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
            // It is tried again when the time for the answer is over.
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
        if item.state != State::Adding {
            self.counters.strays += 1;
            return;
        }
        self.adds.done();
        match result.status.unpack().outcome() {
            Ok(_) => {
                item.move_to(State::Added);
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
                item.move_to(State::Refused);
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
        if !matches!(item.state, State::Advising | State::Live) {
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
            // It is not over yet: another completion follows, or the time runs out.
            Some(Err(StatusError::Pending(_))) => return,
            Some(Ok(accepted)) => Ok(accepted),
            Some(Err(error)) => Err(WriteFailure::Refused(error)),
            None => Err(WriteFailure::Unknown(Doubt::NotUnderstood)),
        };
        let Some(write) = self.writes.take(token) else {
            // Late, or of nobody: it is never taken for another write's.
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

    /// The item that a correlation id of this link stands for.
    fn find(&self, correlation_id: Guid) -> Option<u32> {
        let slot = correlation_id.first();
        let generation = self.items.generation(slot)?;
        (self.correlation_id(slot, generation) == correlation_id).then_some(slot)
    }
}

/// To the platform.
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

    /// Adds items as long as not too many are under way.
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
            if item.state != State::Absent {
                continue;
            }
            item.move_to(State::Adding);
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
        item.move_to(State::Advising);
        self.send_control(slot, command);
        if suspended {
            self.send_suspension(slot, true);
        } else {
            self.watch_advise(slot, now_ns);
        }
    }

    fn watch_advise(&mut self, slot: u32, now_ns: u64) {
        if let Some((_, item)) = self.items.entry(slot)
            && item.state == State::Advising
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
        if is_final && item.state == State::Advising {
            item.move_to(State::Refused);
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
    let is_first = item.state == State::Advising;
    if is_first {
        item.move_to(State::Live);
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

/// Longest definition of an item, in bytes of UTF-8; the platform's own names are far shorter.
pub const DEFINITION_BYTES_MAX: usize = 4_096;
