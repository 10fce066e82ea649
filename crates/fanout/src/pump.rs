//! Gives subscribers the current values that they are owed, a limited number per turn.
//!
//! A connection can be owed a million values: by one pattern, or because it was slow. Other clients
//! of its lane must not wait for them. So a lane has a [budget](TURN_BUDGET) for each turn. A
//! connection whose values exceed it waits for the next turn, and one whose outbox is full waits
//! until its client has read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context};

use crate::fanout::Fanout;
use crate::frames::{Dialect, How};
use crate::limit::Limits;
use crate::listeners::Target;
use crate::noting::{LIVE, source_of_topic};
use crate::outlet::Outlet;
use crate::pending::PendingTopic;
use crate::publication::{News, Origin};
use crate::scan::{Scan, Stretch};
use crate::topic::{Topic, TopicId, Topics};

/// The progress of a lane with owed values.
#[derive(Debug)]
pub(crate) struct Pumping {
    /// What may still be done in this turn.
    budget: usize,
    /// Connections that wait for the next turn, each once.
    waiting: VecDeque<ConnectionId>,
    /// Connections whose owed values wait until the lane may lock shards.
    put_off: Vec<ConnectionId>,
    /// Topics whose values must be owed to all their subscribers, because the lane missed updates.
    missed: Option<Scan>,
}

/// How a step with one connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing more is owed.
    Done,
    /// The budget is spent.
    Spent,
    /// The connection is full, gone or put off: an event continues it.
    Stopped,
}

impl Default for Pumping {
    fn default() -> Self {
        Self {
            budget: TURN_BUDGET,
            waiting: VecDeque::new(),
            put_off: Vec::new(),
            missed: None,
        }
    }
}

impl Fanout {
    /// Writes the current values owed to a connection, as far as its outbox accepts them and the
    /// turn's budget lasts. The rest follows with [`Fanout::pump_waiting`].
    ///
    /// Values of live keys are in shards. While the lane may not lock shards, they are put off.
    pub fn pump(&mut self, context: &mut Context, connection: ConnectionId) {
        let is_owed = |outlet: &mut Outlet| {
            outlet.is_behind || !outlet.pending.is_empty() || outlet.scans.may_be_unfinished()
        };
        if !self.outlet_of(connection).is_some_and(is_owed) {
            return;
        }
        if self.pump_some(context, connection) == Step::Spent {
            self.pump_next_turn(connection);
        }
    }

    /// Writes the current values owed to a connection with the next [`Fanout::pump_waiting`].
    pub(crate) fn pump_next_turn(&mut self, connection: ConnectionId) {
        if let Some(outlet) = self.outlet_of(connection)
            && !std::mem::replace(&mut outlet.waits_turn, true)
        {
            self.pumping.waiting.push_back(connection);
        }
    }

    /// Returns whether [`Fanout::pump_waiting`] has something to do.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        !self.pumping.waiting.is_empty()
    }

    /// Continues with the connections that wait for this turn. Returns whether there is more to do
    /// in the next one.
    pub fn pump_waiting(&mut self, context: &mut Context) -> bool {
        self.pumping.budget = TURN_BUDGET;
        let has_missed = self.pumping.missed.is_some() && self.owe_missed(context);
        while self.pumping.budget > 0
            && let Some(connection) = self.pumping.waiting.pop_front()
        {
            if let Some(outlet) = self.outlet_of(connection) {
                debug_assert!(outlet.waits_turn, "it is in the list once");
                outlet.waits_turn = false;
                self.pump(context, connection);
            }
        }
        has_missed || !self.pumping.waiting.is_empty()
    }

    /// Writes the values that were put off, because the lane may lock shards again.
    pub fn pump_put_off(&mut self, context: &mut Context) {
        for connection in std::mem::take(&mut self.pumping.put_off) {
            self.pump(context, connection);
        }
    }

    /// Notes that this lane missed updates because its mailbox was full: every subscriber of a
    /// last-value topic is owed the current value.
    pub fn owe_everything(&mut self, context: &mut Context) {
        self.pumping.missed = Some(Scan::of_all(&self.topics));
        let (mut live, mut owed) = (Vec::new(), Vec::new());
        let listeners = &self.listeners;
        self.keys.live_names(&|key| listeners.hear(key), &mut live);
        for name in live {
            let mut targets = Vec::new();
            self.listeners.collect(&name, &mut targets);
            self.owe(&targets, &PendingTopic::Live(name), &mut owed);
        }
        self.pump_all(context, owed);
    }

    pub(crate) fn owe(
        &mut self,
        targets: &[Target],
        topic: &PendingTopic,
        owed: &mut Vec<ConnectionId>,
    ) {
        for target in targets {
            if let Some(outlet) = self.outlet_of(target.connection) {
                outlet.owe((topic.clone(), target.how.clone()));
                owed.push(target.connection);
            }
        }
    }

    /// Pumps each of these connections once.
    pub(crate) fn pump_all(&mut self, context: &mut Context, mut owed: Vec<ConnectionId>) {
        owed.sort_unstable();
        owed.dedup();
        owed.into_iter()
            .for_each(|connection| self.pump(context, connection));
    }

    /// Owes the values of some topics whose updates the lane may have missed. Returns whether there
    /// are more.
    fn owe_missed(&mut self, context: &mut Context) -> bool {
        let Some(mut scan) = self.pumping.missed.take() else {
            return false;
        };
        let watches = self.keys.watches_topics(self.lane);
        let mut owed = Vec::new();
        while self.pumping.budget > 0
            && let Some(stretch) = scan.stretch(STRETCH_TOPICS)
        {
            for topic in find(&self.topics, stretch, &scan) {
                let is_watched = watches && !topic.id().is_second();
                let targets = self.take_route(topic.id(), topic.channel(), is_watched);
                let cost = VALUE_COST * (1 + targets.len());
                self.pumping.budget = self.pumping.budget.saturating_sub(cost);
                self.owe(&targets, &PendingTopic::Topic(topic.id()), &mut owed);
                self.put_route(topic.id(), targets);
            }
            scan.advance(stretch.until, Vec::new(), 0);
        }
        let has_more = !scan.is_done();
        self.pumping.missed = has_more.then_some(scan);
        self.pump_all(context, owed);
        has_more
    }

    fn pump_some(&mut self, context: &mut Context, connection: ConnectionId) -> Step {
        let limits = self.limits();
        let scans = |outlet: &Outlet| outlet.scans.may_be_unfinished();
        // Neither owed updates nor a scan may hold up the other: each gets half.
        let reserved = match self.existing(connection).is_some_and(scans) {
            true => self.pumping.budget / 2,
            false => 0,
        };
        let owed = self.pump_owed(context, connection, &limits, reserved);
        if owed == Step::Stopped {
            return owed;
        }
        match self.pump_scans(context, connection, &limits) {
            Step::Done => owed,
            step => step,
        }
    }

    /// Writes owed values until no more than `reserved` of the budget is left.
    fn pump_owed(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        limits: &Limits,
        reserved: usize,
    ) -> Step {
        let (is_filling, topics) = (self.keys.is_filling(), self.topics.clone());
        loop {
            let budget = self.pumping.budget;
            if !self.keys.may_look(self.lane) {
                if !self.pumping.put_off.contains(&connection) {
                    self.pumping.put_off.push(connection);
                }
                return Step::Stopped;
            }
            let Some(outlet) = self.outlet_of(connection) else {
                return Step::Stopped;
            };
            if outlet.is_behind {
                if !context.is_ending(connection) {
                    self.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
                    context.close(connection, CloseReason::Requested);
                }
                return Step::Stopped;
            }
            let Some(next) = outlet.pending.front() else {
                return Step::Done;
            };
            if is_filling && matches!(next, PendingTopic::Live(_)) {
                self.renewing.is_held = true;
                return Step::Done;
            }
            let writes = outlet.dialect != Dialect::Rows;
            if writes && context.out_bytes(connection) > limits.conflate_bytes {
                context.watch_drain(connection);
                return Step::Stopped;
            }
            if budget <= reserved {
                return Step::Spent;
            }
            let Some((topic, how)) = outlet.pending.pop() else {
                return Step::Done;
            };
            debug_assert_ne!(how, How::Shard, "a shard channel is no topic");
            let is_subscribed = outlet.is_subscribed(&how, &topic, &topics);
            self.pumping.budget = budget.saturating_sub(VALUE_COST);
            if is_subscribed {
                self.write_current(context, connection, &topic, &how);
            }
        }
    }

    /// Continues the connection's scans.
    fn pump_scans(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        limits: &Limits,
    ) -> Step {
        let topics = self.topics.clone();
        loop {
            let budget = self.pumping.budget;
            let Some(outlet) = self.outlet_of(connection) else {
                return Step::Stopped;
            };
            if outlet.scans.unfinished(&topics).is_none() {
                return Step::Done;
            }
            if context.is_ending(connection) {
                return Step::Stopped;
            }
            let writes = outlet.dialect != Dialect::Rows;
            if writes && context.out_bytes(connection) > limits.conflate_bytes {
                context.watch_drain(connection);
                return Step::Stopped;
            }
            if budget == 0 {
                return Step::Spent;
            }
            // All of them may match, and each has its value written.
            let most = (budget / (1 + VALUE_COST)).clamp(1, STRETCH_TOPICS as usize);
            self.scan_stretch(context, connection, limits, most as u32);
        }
    }

    /// Writes the values of one stretch of topics, as far as the outbox accepts them.
    fn scan_stretch(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        limits: &Limits,
        most: u32,
    ) {
        let topics = self.topics.clone();
        let unfinished = |outlet: &mut Outlet| {
            let scan = outlet.scans.unfinished(&topics)?;
            let stretch = scan.stretch(most)?;
            Some((stretch, scan.how(), find(&topics, stretch, scan)))
        };
        let Some((stretch, how, found)) = self.outlet_of(connection).and_then(unfinished) else {
            return;
        };
        let looked_at = (stretch.until - stretch.from) as usize;
        self.pumping.budget = self.pumping.budget.saturating_sub(looked_at);
        if !found.is_empty() {
            // First the interest, then the generation, then the values: see `fence.rs`.
            let lane = self.lane;
            found.iter().for_each(|topic| topic.add_interest(lane));
            self.post.subscriptions.generation().raise();
        }
        let (mut until, mut written) = (stretch.until, Vec::with_capacity(found.len()));
        let is_noted = self.is_noted(connection);
        for topic in &found {
            let (_, number) = topic.id().place();
            if !is_noted && context.out_bytes(connection) > limits.conflate_bytes {
                until = number;
                break;
            }
            self.pumping.budget = self.pumping.budget.saturating_sub(VALUE_COST);
            let version = self.write_topic(context, connection, &**topic, &how);
            // The table of rows remembers what it has.
            written.extend(
                version
                    .filter(|_| !is_noted)
                    .map(|version| (number, version)),
            );
        }
        debug_assert!(
            until > stretch.from,
            "a stretch begins with room in the outbox"
        );
        let now_ns = context.now_ns();
        if let Some(outlet) = self.outlet_of(connection)
            && let Some(scan) = outlet.scans.unfinished(&topics)
        {
            for (number, version) in scan.advance(until, written, now_ns) {
                let topic = PendingTopic::Topic(TopicId::at(stretch.place, number));
                outlet
                    .current
                    .insert((topic, how.clone()), (version, now_ns));
            }
            self.note_current_written(connection);
        }
    }

    /// Writes the current value that is owed of a topic or a live key.
    fn write_current(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        topic: &PendingTopic,
        how: &How,
    ) {
        let found = match topic {
            PendingTopic::Topic(id) => self.topics.topic(*id),
            PendingTopic::Named(name) => self.topics.find(name),
            PendingTopic::Live(_) => None,
        };
        // A topic may have exactly the second name by now.
        let found = found.and_then(|found| match found.id().is_second() {
            true => self.topics.find(found.channel()),
            false => Some(found),
        });
        let owed = found.as_ref().map(|found| PendingTopic::Topic(found.id()));
        let owed = (owed.unwrap_or_else(|| topic.clone()), how.clone());
        let is_owed = |outlet: &mut Outlet| outlet.pending.contains(&owed);
        if owed.0 != *topic && self.outlet_of(connection).is_some_and(is_owed) {
            return;
        }
        let second = found.as_ref().filter(|found| !found.id().is_second());
        let second = second.and_then(|found| self.topics.find_second(found.channel()));
        let second = second.map(|second| second.id());
        let version = match (topic, found) {
            (_, Some(topic)) => self.write_topic(context, connection, &*topic, how),
            (PendingTopic::Live(name), None) => {
                let mut json = std::mem::take(&mut self.json);
                json.clear();
                let version = self.keys.write_live_state(name, &mut json);
                let news = current(name, &json, version);
                let is_written = self.write_value(context, connection, how, &news, LIVE);
                self.json = json;
                is_written.then_some(version)
            }
            (PendingTopic::Topic(_) | PendingTopic::Named(_), None) => None,
        };
        let now_ns = context.now_ns();
        if let Some(version) = version
            && let Some(outlet) = self.outlet_of(connection)
            && outlet.dialect != Dialect::Rows
        {
            outlet.note_current(owed, version, now_ns);
            if let Some(id) = second {
                // What is still on its way under the second name is older.
                let owed = (PendingTopic::Topic(id), how.clone());
                outlet.current.insert(owed, (u64::MAX, now_ns));
            }
            self.note_current_written(connection);
        }
    }

    /// Writes a topic's current value. Returns its version, or `None` if it has no value.
    fn write_topic(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        topic: &dyn Topic,
        how: &How,
    ) -> Option<u64> {
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        let is_marked = !self.is_noted(connection);
        let version = self.topics.write(topic.id(), is_marked, &mut json);
        let source = source_of_topic(topic.id());
        let written = version.filter(|version| {
            let news = current(topic.channel(), &json, *version);
            self.write_value(context, connection, how, &news, source)
        });
        self.json = json;
        written
    }

    /// Writes a current value. Returns false if the connection is gone.
    fn write_value(
        &mut self,
        context: &mut Context,
        connection: ConnectionId,
        how: &How,
        news: &News<'_>,
        source: u64,
    ) -> bool {
        if self.is_noted(connection) {
            let cost = news.payload.len() / COST_BYTES;
            self.pumping.budget = self.pumping.budget.saturating_sub(cost);
            self.note_current(connection, news, source);
            return true;
        }
        let outlet = self.outlets.get_mut(connection.index());
        let (Some(outlet), Some(out)) = (outlet.and_then(Option::as_mut), context.out(connection))
        else {
            return false;
        };
        debug_assert_eq!(outlet.connection, connection, "values are owed to it");
        let cost = news.payload.len() / COST_BYTES;
        self.pumping.budget = self.pumping.budget.saturating_sub(cost);
        if outlet.marks_snapshots {
            self.frames.mark_snapshot(out, outlet, news.name);
        }
        self.frames.begin();
        self.frames.write_to(out, outlet, how, news);
        self.post.counters.delivered.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn note_current_written(&mut self, connection: ConnectionId) {
        if self.current_written.last() != Some(&connection) {
            self.current_written.push(connection);
        }
    }
}

fn current<'a>(name: &'a [u8], payload: &'a [u8], version: u64) -> News<'a> {
    News {
        name,
        payload,
        shared: None,
        origin: Origin::Live,
        version,
        is_final: false,
    }
}

/// Returns the topics of a stretch that the scan wants.
fn find(topics: &Topics, stretch: Stretch, scan: &Scan) -> Vec<Arc<dyn Topic>> {
    let mut found = Vec::new();
    if let Some(source) = topics.at(stretch.place) {
        let numbers = stretch.from..stretch.until;
        let (wants, asks) = (
            |name: &[u8]| scan.wants(name),
            |name: &[u8]| scan.asks(name),
        );
        source.matching(numbers, &wants, &asks, &mut found);
    }
    found
}

/// What a lane may do in a turn: it looks at this many topics, or writes a part of them. The lane
/// then serves its other clients, about half a millisecond later.
const TURN_BUDGET: usize = 4_096;
/// Cost of a value that is written, where a topic that is looked at costs 1.
const VALUE_COST: usize = 8;
/// Bytes of a value whose writing costs as much as a look at a topic.
const COST_BYTES: usize = 64;
/// Maximum topics looked at before the outbox is checked again.
const STRETCH_TOPICS: u32 = 256;
