//! Time, messages on their way, and faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tidewire_cluster::{
    Destination, EdgeAction, Entry, FrameHeader, FrameId, LeaseAction, OwnerAction, Publication,
};
use tidewire_feed::journal::Filter;
use tidewire_feed::server::Board;
use tidewire_feed::wire::Message;

use super::hub::Hub;
use super::nats::Nats;
use super::source::{Bytes, Histories, Own, Random, Store, say};
use super::viewer::{Viewer, comparable};

const TICK_NS: u64 = 5_000_000;
const FAULTS_UNTIL_NS: u64 = 14_000_000_000;
const SAID_UNTIL_NS: u64 = 16_000_000_000;
const END_NS: u64 = 26_000_000_000;
const LATENCY_NS: u64 = 1_000_000;
const ANSWER_NS: u64 = 1_000_000_000;

/// What goes wrong. Numbers: so many times in a thousand.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) loses: u64,
    pub(crate) duplicates: u64,
    pub(crate) delays: u64,
    pub(crate) corrupts: u64,
    pub(crate) loses_answers: u64,
    pub(crate) outages: bool,
    pub(crate) cuts_edges: bool,
    pub(crate) slows_edges: bool,
    pub(crate) cuts_hubs: bool,
    pub(crate) kills: bool,
    pub(crate) stops: bool,
    pub(crate) truncates: bool,
    pub(crate) forgets: bool,
    pub(crate) small_journal: bool,
}

/// What is on its way.
enum Event {
    AtLog(usize, FrameId, u64, Bytes),
    Logged(usize, FrameId, Option<u64>),
    Unanswered(usize, FrameId),
    AtStore(usize, u64, Destination, Bytes),
    Stored(usize, u64, Destination, bool),
    AskedEnd(usize, u64),
    LogEnd(usize, u64, Option<(u64, Option<FrameHeader>)>),
    AtBucket(usize, u64, LeaseAction),
    Written(usize, u64, u64, Option<u64>),
    EntryRead(usize, u64, u64, Option<(Option<u64>, u64)>),
    LeaseFailed(usize, u64, u64),
    EntryGone(usize),
    SnapshotSeen(usize, Bytes),
    Core(usize, Bytes, Option<u64>),
    HeadSeen(usize, Bytes),
    Asked(usize, EdgeAction),
    Snapshot(usize, u64, Option<(Option<Bytes>, Vec<Bytes>)>),
    Fetched(usize, u64, Fetched),
}

enum Fetched {
    Messages(Vec<(u64, Bytes)>, u64),
    Failed,
    Gone,
}

/// Sums over seeds.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reigns: u64,
    pub(crate) joins: u64,
    pub(crate) gaps: u64,
    pub(crate) fetches: u64,
    pub(crate) corrupt: u64,
    pub(crate) deposed_frames: u64,
    pub(crate) live_frames: u64,
    pub(crate) repeated: u64,
    pub(crate) log_losses: u64,
    pub(crate) messages: u64,
    pub(crate) client_gaps: u64,
    /// The longest time for which an edge that had joined lagged behind the source.
    pub(crate) late_ns: u64,
}

/// Everything.
pub(crate) struct World {
    faults: Faults,
    seed: u64,
    random: Random,
    now_ns: u64,
    nats: Nats,
    hubs: Vec<Hub>,
    edges: Vec<Viewer>,
    said: Vec<Message>,
    said_at_ns: Vec<u64>,
    symbols: u32,
    known: u32,
    histories: Histories,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    numbered: u64,
    sessions: u32,
    reigns_before: u64,
    late_ns: u64,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> World {
        let mut world = World {
            faults,
            seed,
            random: Random(seed),
            now_ns: 0,
            nats: Nats::default(),
            hubs: Vec::new(),
            edges: (0..3).map(|_| Viewer::new(0)).collect(),
            said: Vec::new(),
            said_at_ns: Vec::new(),
            symbols: 0,
            known: 0,
            histories: Histories::default(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbered: 0,
            sessions: 0,
            reigns_before: 0,
            late_ns: 0,
        };
        world.symbols = 5 + world.random.below(400) as u32;
        for number in 0..2 {
            let hub = world.hub(number);
            world.hubs.push(hub);
        }
        world
    }

    pub(crate) fn run(&mut self) {
        while self.now_ns < END_NS {
            self.now_ns += TICK_NS;
            if self.now_ns < FAULTS_UNTIL_NS {
                self.break_something();
            }
            self.speak();
            self.mend();
            self.deliver();
            (0..self.hubs.len()).for_each(|number| self.hub_turn(number));
            (0..self.edges.len()).for_each(|number| self.edge_turn(number));
        }
        self.check();
    }

    fn hub(&mut self, number: usize) -> Hub {
        self.sessions += 1;
        let capacity = if self.faults.small_journal { 64 } else { 8_192 };
        let store = Store::new(self.sessions, 1_000 * self.sessions, capacity);
        Hub::new(
            store,
            number as u64 + 10 * u64::from(self.sessions),
            self.now_ns,
        )
    }

    /// The source speaks, in bursts.
    fn speak(&mut self) {
        if self.now_ns > SAID_UNTIL_NS {
            return;
        }
        let most = match self.random.below(10) {
            0 => 40,
            1..4 => 6,
            _ => 1,
        };
        for _ in 0..self.random.below(most) {
            let message = say(&mut self.random, self.said.len(), self.known, self.symbols);
            self.known += u32::from(matches!(message, Message::Definition(_)));
            self.said.push(message);
            self.said_at_ns.push(self.now_ns);
        }
    }

    fn break_something(&mut self) {
        let (now_ns, faults) = (self.now_ns, self.faults);
        let random = &mut self.random;
        let until = |random: &mut Random, most_ms: u64| now_ns + random.below(most_ms) * 1_000_000;
        if faults.outages && random.below(1_500) == 0 {
            self.nats.outage_until_ns = now_ns + 6_000_000_000;
        }
        if faults.truncates && random.below(300) == 0 {
            let keep = random.below(20);
            self.nats.truncate(keep);
        }
        if faults.forgets && random.below(300) == 0 {
            let count = random.below(20);
            self.nats.forget(count);
        }
        for edge in &mut self.edges {
            if faults.cuts_edges && random.below(500) == 0 {
                edge.cut_until_ns = until(random, 4_000);
            }
            if faults.slows_edges && random.below(500) == 0 {
                edge.slow_until_ns = until(random, 3_000);
            }
        }
        for number in 0..self.hubs.len() {
            let random = &mut self.random;
            let hub = &mut self.hubs[number];
            let is_owner = hub.owner.is_some();
            if faults.cuts_hubs && random.below(800) == 0 {
                hub.cut_until_ns = until(random, 3_000);
            }
            if faults.kills && is_owner && random.below(700) == 0 {
                hub.dead_until_ns = until(random, 5_000);
            }
            if faults.stops && is_owner && random.below(700) == 0 {
                let stopped_until_ns = now_ns + 4_000_000_000 + random.below(3_000) * 1_000_000;
                hub.stopped_until_ns = stopped_until_ns;
                self.hold_back(number, stopped_until_ns);
            }
        }
    }

    /// Keeps what a stopped hub has sent in its socket until it goes on.
    fn hold_back(&mut self, number: usize, until_ns: u64) {
        let relay = self.hubs[number].turn(self.now_ns);
        let before = self.now_ns;
        self.now_ns = until_ns;
        for action in relay.owner {
            self.act(number, action);
        }
        self.now_ns = before;
    }

    fn mend(&mut self) {
        let now_ns = self.now_ns;
        if self.nats.expire(now_ns) && self.seed.is_multiple_of(2) {
            // Else a standby finds out by trying.
            (0..self.hubs.len()).for_each(|hub| self.after(LATENCY_NS, Event::EntryGone(hub)));
        }
        for number in 0..self.hubs.len() {
            let is_dead = now_ns < self.hubs[number].dead_until_ns;
            if is_dead && !self.hubs[number].is_dead {
                self.hubs[number].note_figures(now_ns);
                self.reigns_before += self.hubs[number].reigns;
                let (live_frames, repeated) =
                    (self.hubs[number].live_frames, self.hubs[number].repeated);
                let dead_until_ns = self.hubs[number].dead_until_ns;
                let mut hub = self.hub(number);
                (hub.is_dead, hub.dead_until_ns) = (true, dead_until_ns);
                (hub.live_frames, hub.repeated) = (live_frames, repeated);
                self.hubs[number] = hub;
            }
            let hub = &mut self.hubs[number];
            hub.is_dead = is_dead;
            let is_cut = now_ns < hub.cut_until_ns;
            if let Some(owner) = &mut hub.owner {
                match (hub.is_cut, is_cut) {
                    (false, true) => owner.lost_connection(),
                    (true, false) => owner.connected(now_ns),
                    _ => {}
                }
            }
            hub.is_cut = is_cut;
        }
        for edge in &mut self.edges {
            let is_cut = now_ns < edge.cut_until_ns;
            match (edge.is_cut, is_cut) {
                (false, true) => edge.edge.disconnected(),
                (true, false) => edge.edge.connected(now_ns),
                _ => {}
            }
            edge.is_cut = is_cut;
        }
    }

    fn after(&mut self, delay_ns: u64, event: Event) {
        self.numbered += 1;
        self.queue
            .push(Reverse((self.now_ns + delay_ns, self.numbered)));
        self.events.insert(self.numbered, event);
    }

    fn deliver(&mut self) {
        while let Some(&Reverse((at_ns, number))) = self.queue.peek() {
            if at_ns > self.now_ns {
                break;
            }
            self.queue.pop();
            let event = self.events.remove(&number).unwrap();
            if let Some(hub) = addressed_hub(&event)
                && self.hubs[hub].stopped_until_ns > self.now_ns
            {
                // It lies in the socket of a stopped process.
                let wait_ns = self.hubs[hub].stopped_until_ns - self.now_ns;
                self.after(wait_ns, event);
                continue;
            }
            self.handle(event);
        }
    }

    /// Returns whether an answer to a hub is lost.
    fn loses_answer(&mut self, hub: usize) -> bool {
        let loses = self.now_ns < FAULTS_UNTIL_NS && self.faults.loses_answers > 0;
        loses && self.random.happens(self.faults.loses_answers) || self.hubs[hub].is_cut
    }

    fn handle(&mut self, event: Event) {
        let now_ns = self.now_ns;
        match event {
            Event::AtLog(hub, id, expected_last, bytes) => {
                if !self.nats.is_out(now_ns) {
                    let answer = self.nats.publish(id, expected_last, bytes);
                    if !self.loses_answer(hub) {
                        self.after(LATENCY_NS, Event::Logged(hub, id, answer));
                    }
                }
            }
            Event::AtStore(hub, token, to, bytes) => {
                let is_out = self.nats.is_out(now_ns);
                if !is_out {
                    self.store(to, bytes);
                }
                let is_stored = !is_out && !self.loses_answer(hub);
                let delay_ns = if is_stored { LATENCY_NS } else { ANSWER_NS };
                self.after(delay_ns, Event::Stored(hub, token, to, is_stored));
            }
            Event::AskedEnd(hub, question) => {
                let answers = !self.nats.is_out(now_ns) && !self.loses_answer(hub);
                let answer = answers.then(|| self.nats.log_end());
                let delay_ns = if answers { LATENCY_NS } else { ANSWER_NS };
                self.after(delay_ns, Event::LogEnd(hub, question, answer));
            }
            Event::AtBucket(hub, token, action) => self.at_bucket(hub, token, action),
            Event::Asked(edge, action) => self.asked(edge, action),
            event => self.arrive(event),
        }
    }

    fn store(&mut self, to: Destination, bytes: Bytes) {
        if let Destination::Page(page) = to {
            self.nats.store_page(page, bytes);
        } else {
            self.nats.store_head(bytes.clone());
            for edge in 0..self.edges.len() {
                self.after(LATENCY_NS, Event::HeadSeen(edge, bytes.clone()));
            }
        }
    }

    fn at_bucket(&mut self, hub: usize, token: u64, action: LeaseAction) {
        let (request, is_write, revision) = match action {
            LeaseAction::Create { request } => (request, true, None),
            LeaseAction::Renew { request, revision } => (request, true, Some(revision)),
            LeaseAction::Read { request } => (request, false, None),
            LeaseAction::Delete { revision } => {
                return self.nats.delete_entry(revision, self.now_ns);
            }
        };
        if is_write {
            let written = self.nats.write_entry(token, revision, self.now_ns);
            match self.loses_answer(hub) {
                true => self.after(ANSWER_NS, Event::LeaseFailed(hub, token, request)),
                false => self.after(LATENCY_NS, Event::Written(hub, token, request, written)),
            }
        } else {
            let entry = self.nats.read_entry();
            match self.loses_answer(hub) {
                true => self.after(ANSWER_NS, Event::LeaseFailed(hub, token, request)),
                false => self.after(LATENCY_NS, Event::EntryRead(hub, token, request, entry)),
            }
        }
    }

    fn asked(&mut self, edge: usize, action: EdgeAction) {
        let fails = self.nats.is_out(self.now_ns) || self.edges[edge].is_cut;
        let delay_ns = if fails { ANSWER_NS } else { LATENCY_NS };
        let event = match action {
            EdgeAction::ReadSnapshot { request } => {
                let snapshot = (!fails).then(|| self.nats.snapshot());
                Event::Snapshot(edge, request, snapshot)
            }
            EdgeAction::FetchLog { request, after } => {
                let fetched = match (fails, self.nats.read_log(after)) {
                    (true, _) => Fetched::Failed,
                    (false, None) => Fetched::Gone,
                    (false, Some(messages)) => Fetched::Messages(messages, self.nats.log_last),
                };
                Event::Fetched(edge, request, fetched)
            }
        };
        self.after(delay_ns, event);
    }

    /// Something arrives at a hub or an edge.
    fn arrive(&mut self, event: Event) {
        let now_ns = self.now_ns;
        let hubs = &mut self.hubs;
        match event {
            Event::Logged(hub, id, answer) => {
                if let Some(owner) = &mut hubs[hub].owner {
                    match answer {
                        Some(sequence) => owner.acknowledged(id, sequence),
                        None => owner.refused(id),
                    }
                }
            }
            Event::Unanswered(hub, id) => {
                if let Some(owner) = &mut hubs[hub].owner {
                    owner.timed_out(id);
                }
            }
            Event::Stored(hub, token, to, is_stored) if hubs[hub].token == token => {
                if let Some(owner) = &mut hubs[hub].owner {
                    match (to, is_stored) {
                        (Destination::Page(page), true) => owner.page_stored(page),
                        (Destination::Page(page), false) => owner.page_failed(page),
                        (_, true) => owner.head_stored(),
                        (_, false) => owner.head_failed(),
                    }
                }
            }
            Event::LogEnd(hub, question, answer) => {
                if let Some(owner) = &mut hubs[hub].owner {
                    match answer {
                        Some((sequence, last)) => owner.log_end(question, sequence, last),
                        None => owner.log_end_failed(now_ns),
                    }
                }
            }
            Event::EntryGone(hub) => hubs[hub].lease.entry_is_gone(now_ns),
            Event::SnapshotSeen(hub, bytes) => {
                if let Some(owner) = &mut hubs[hub].owner {
                    owner.snapshot_seen(&bytes);
                }
            }
            Event::Written(hub, token, request, written) if hubs[hub].token == token => {
                match written {
                    Some(revision) => hubs[hub].lease.written(request, revision, now_ns),
                    None => hubs[hub].lease.refused(request, now_ns),
                }
            }
            Event::EntryRead(hub, token, request, entry) if hubs[hub].token == token => {
                let lease = &mut hubs[hub].lease;
                match entry {
                    Some((None, revision)) => lease.read_deletion(request, revision, now_ns),
                    entry => {
                        let entry = entry.map(|(holder, revision)| Entry {
                            revision,
                            is_ours: holder == Some(token),
                        });
                        lease.read(request, entry, now_ns);
                    }
                }
            }
            Event::LeaseFailed(hub, token, request) if hubs[hub].token == token => {
                hubs[hub].lease.failed(request, now_ns);
            }
            event => self.arrive_at_edge(event),
        }
    }

    fn arrive_at_edge(&mut self, event: Event) {
        let now_ns = self.now_ns;
        match event {
            Event::Core(edge, bytes, sequence) if !self.edges[edge].is_cut => {
                self.edges[edge].edge.message(&bytes, sequence, now_ns);
            }
            Event::HeadSeen(edge, bytes) if !self.edges[edge].is_cut => {
                self.edges[edge].edge.head_seen(&bytes, now_ns);
            }
            Event::Snapshot(edge, request, answer) => {
                let edge = &mut self.edges[edge].edge;
                match answer {
                    None => edge.snapshot_failed(request, now_ns),
                    Some((head, pages)) => {
                        if let Some(head) = head {
                            edge.snapshot_head(request, &head, now_ns);
                        }
                        for page in pages {
                            edge.snapshot_page(request, &page, now_ns);
                        }
                        edge.snapshot_end(request, now_ns);
                    }
                }
            }
            Event::Fetched(edge, request, fetched) => {
                let edge = &mut self.edges[edge].edge;
                match fetched {
                    Fetched::Failed => edge.fetch_failed(request, now_ns),
                    Fetched::Gone => edge.log_is_gone(request, now_ns),
                    Fetched::Messages(messages, log_last) => {
                        for (sequence, bytes) in messages {
                            edge.fetched(request, &bytes, sequence, now_ns);
                        }
                        edge.fetch_end(request, log_last, now_ns);
                    }
                }
            }
            _ => {}
        }
    }

    fn hub_turn(&mut self, number: usize) {
        let hub = &mut self.hubs[number];
        if hub.is_dead || hub.stopped_until_ns > self.now_ns {
            return;
        }
        hub.store.hear(&self.said, &mut self.histories);
        let wants = hub.turn(self.now_ns);
        let token = hub.token;
        for action in wants.lease {
            let (request, fails) = match action {
                LeaseAction::Create { request }
                | LeaseAction::Renew { request, .. }
                | LeaseAction::Read { request } => (request, self.hubs[number].is_cut),
                LeaseAction::Delete { .. } => (0, false),
            };
            match fails {
                true => self.after(ANSWER_NS, Event::LeaseFailed(number, token, request)),
                false => self.after(LATENCY_NS, Event::AtBucket(number, token, action)),
            }
        }
        for action in wants.owner {
            self.act(number, action);
        }
    }

    fn act(&mut self, hub: usize, action: OwnerAction) {
        // A stopped hub's bytes are sent later than now, in virtual time.
        match action {
            OwnerAction::AskLogEnd { question } => {
                self.after(LATENCY_NS, Event::AskedEnd(hub, question));
            }
            OwnerAction::Publish(Publication { to, bytes }) => {
                if self.hubs[hub].is_cut {
                    return;
                }
                let token = self.hubs[hub].token;
                match to {
                    Destination::Log { id, expected_last } => {
                        let sequence = Some(expected_last + 1);
                        self.publish(bytes.clone(), sequence);
                        self.after(ANSWER_NS, Event::Unanswered(hub, id));
                        self.after(LATENCY_NS, Event::AtLog(hub, id, expected_last, bytes));
                    }
                    Destination::Live => self.publish(bytes, None),
                    Destination::Page(_) | Destination::Head => {
                        self.after(LATENCY_NS, Event::SnapshotSeen(1 - hub, bytes.clone()));
                        self.after(LATENCY_NS, Event::AtStore(hub, token, to, bytes));
                    }
                }
            }
        }
    }

    /// Publishes to every edge through core NATS.
    fn publish(&mut self, bytes: Bytes, sequence: Option<u64>) {
        for edge in 0..self.edges.len() {
            let is_slow = self.now_ns < self.edges[edge].slow_until_ns;
            let base_ns = if is_slow { 1_500_000_000 } else { LATENCY_NS };
            if self.now_ns >= FAULTS_UNTIL_NS {
                self.after(base_ns, Event::Core(edge, bytes.clone(), sequence));
                continue;
            }
            if self.random.happens(self.faults.loses) {
                continue;
            }
            let copies = 1 + u64::from(self.random.happens(self.faults.duplicates));
            for _ in 0..copies {
                let is_late = self.random.happens(self.faults.delays);
                let late_ns = if is_late {
                    self.random.below(80) * 1_000_000
                } else {
                    0
                };
                let mut bytes = bytes.clone();
                if self.random.happens(self.faults.corrupts) {
                    let mut changed = bytes.to_vec();
                    let at = self.random.below(changed.len() as u64) as usize;
                    changed[at] ^= 1 << self.random.below(8);
                    bytes = changed.into();
                }
                self.after(base_ns + late_ns, Event::Core(edge, bytes, sequence));
            }
        }
    }

    fn edge_turn(&mut self, number: usize) {
        let now_ns = self.now_ns;
        let viewer = &mut self.edges[number];
        if viewer.edge.deadline_ns() <= now_ns {
            viewer.edge.handle_timeout(now_ns);
        }
        viewer.feed(&self.histories, now_ns);
        let actions: Vec<_> = std::iter::from_fn(|| viewer.edge.next_action()).collect();
        let has_joined = viewer.edge.figures().joins > 0;
        let unseen = viewer.seen.newest_said as usize + 1;
        let own = Own { offset: 0 };
        let is_own = |index: &usize| {
            self.said[*index]
                .symbol()
                .is_some_and(|symbol| own.passes(symbol))
        };
        let next = (unseen..self.said.len()).find(is_own);
        if has_joined && let Some(index) = next {
            self.late_ns = self.late_ns.max(now_ns - self.said_at_ns[index]);
        }
        for action in actions {
            self.after(LATENCY_NS, Event::Asked(number, action));
        }
    }

    /// In the end, every edge has what the source has said.
    fn check(&mut self) {
        let owners: Vec<usize> = (0..self.hubs.len())
            .filter(|&number| self.hubs[number].lease.epoch(self.now_ns).is_some())
            .collect();
        assert_eq!(owners.len(), 1, "seed {}", self.seed);
        let store = &self.hubs[owners[0]].store;
        let own = Own {
            offset: store.offset,
        };
        let right: std::collections::HashMap<_, _> = (0..store.board.len())
            .filter_map(|index| {
                let definition = store.board.definition(index)?;
                let value = comparable(&store.board.last_value(index)?);
                let name = definition.name.as_str().to_owned();
                own.passes(definition.symbol).then_some((name, value))
            })
            .collect();
        for (number, viewer) in self.edges.iter().enumerate() {
            let figures = viewer.edge.figures();
            let context = format!("seed {}, edge {number}: {figures:?}", self.seed);
            assert!(viewer.edge.is_current(), "{context}");
            assert!(viewer.client.is_complete(), "{context}");
            assert_eq!(viewer.by_name(), right, "{context}");
        }
    }
}

impl Seen {
    pub(crate) fn add(&mut self, world: &World) {
        self.reigns += world.reigns_before;
        self.late_ns = self.late_ns.max(world.late_ns);
        for hub in &world.hubs {
            self.reigns += hub.reigns;
            self.live_frames += hub.live_frames;
            self.repeated += hub.repeated;
            self.log_losses += hub.log_losses;
            if let Some(owner) = &hub.owner {
                let figures = owner.figures(world.now_ns);
                self.live_frames += figures.live_frames;
                self.repeated += figures.repeated;
                self.log_losses += figures.log_losses;
            }
        }
        for viewer in &world.edges {
            let figures = viewer.edge.figures();
            self.joins += figures.joins;
            self.gaps += figures.gaps;
            self.fetches += figures.fetches;
            self.corrupt += figures.corrupt;
            self.deposed_frames += figures.deposed;
            self.messages += viewer.seen.messages;
            self.client_gaps += viewer.seen.gaps;
        }
    }
}

/// Returns the hub to which an event goes.
fn addressed_hub(event: &Event) -> Option<usize> {
    match event {
        Event::Logged(hub, ..)
        | Event::Unanswered(hub, ..)
        | Event::Stored(hub, ..)
        | Event::LogEnd(hub, ..)
        | Event::Written(hub, ..)
        | Event::EntryRead(hub, ..)
        | Event::LeaseFailed(hub, ..)
        | Event::EntryGone(hub)
        | Event::SnapshotSeen(hub, ..) => Some(*hub),
        _ => None,
    }
}
