//! The symbols and schemas that one client has subscribed to.

use tidewire_dbn::databento::{Names, Parents, Schema, Subscription, Unknown, parse_continuous};

use tidewire_feed::server::Readable;

use super::chains::Chains;
use super::pages::Pages;
use crate::board::{Board, VENUE_SEPARATOR};
use crate::topic::Topic;

/// All subscriptions of a client. A topic is resolved once, when it is first needed.
///
/// Subscriptions of one kind are merged, so the cost of a topic does not depend on how many symbols
/// and lines a client has sent.
#[derive(Debug, Default)]
pub(super) struct Selection {
    subscriptions: Vec<Wanted>,
    topics: Pages<Seen>,
    /// The topics with a subscription, and those that had one.
    followed: Vec<u32>,
    /// By schema: the earliest start time of its replays, ns since the UNIX epoch.
    starts_ns: [Option<u64>; Schema::ALL.len()],
    /// All schemas with a subscription to any topic.
    schemas: u16,
    /// The futures behind continuous symbols.
    chains: Chains,
    /// Parent symbols of which no instrument has been found yet.
    childless: Parents,
    /// New continuous symbols.
    new_continuous: Vec<Box<str>>,
    /// Those of them without a future.
    unresolved: Vec<Box<str>>,
    /// What the client may read. Other topics are as if there were none.
    readable: Readable,
}

/// The topics that a change of the subscriptions may concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Concerned {
    /// All topics of the board.
    All,
    /// These.
    Listed(Vec<u32>),
}

/// What is known of one topic.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    chosen: Chosen,
    is_resolved: bool,
    /// Whether it is among the followed ones.
    is_followed: bool,
    is_mapped: bool,
}

/// The subscriptions to one topic: a bit for each schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) schemas: u16,
    /// Those with a start time in the past.
    pub(super) replayed: u16,
    /// Those that begin with the current value.
    pub(super) snapshots: u16,
    /// Those whose subscription names the topic, and is not only to all symbols.
    pub(super) named: u16,
    /// Those of subscriptions that may come to the topic or continue its values: a continuous
    /// symbol may stand for it later, or the topic of its venue is wanted. Its values are followed
    /// without records.
    pub(super) watched: u16,
}

/// A continuous symbol that stands for another topic than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rolled {
    pub(super) name: Box<str>,
    pub(super) number: u32,
    /// Whether no continuous symbol stood for the topic before.
    pub(super) is_new: bool,
}

/// Subscriptions of one schema and symbology.
#[derive(Debug)]
struct Wanted {
    names: Names,
    /// The client's lines of which symbols are left, at most.
    lines: usize,
    symbol_type: u8,
    chosen: Chosen,
}

impl Selection {
    /// Limits the client to what it may read.
    pub(super) fn restrict(&mut self, readable: Readable) {
        debug_assert!(self.followed.is_empty(), "no topic has been chosen");
        self.readable = readable;
    }

    /// Returns whether the client may read a topic.
    pub(super) fn may_read(&self, topic: &Topic) -> bool {
        let name = || std::str::from_utf8(topic.symbol()).unwrap_or_default();
        let readable = self.readable.as_ref();
        readable.is_none_or(|names| names.contains(name()))
    }

    fn may_read_number(&self, board: &Board, number: u32) -> bool {
        let may = || {
            board
                .topic(number)
                .is_some_and(|topic| self.may_read(&topic))
        };
        self.readable.is_none() || may()
    }

    /// Adds a subscription. Returns the topics that it concerns.
    pub(super) fn add(
        &mut self,
        board: &Board,
        wanted: &Subscription<'_>,
        names: Names,
    ) -> Concerned {
        let bit = wanted.schema.bit();
        debug_assert!(bit.is_power_of_two(), "a schema has a bit of its own");
        debug_assert!(
            (wanted.schema as usize) < self.starts_ns.len(),
            "and a start"
        );
        if let Some(start_ns) = wanted.start_ns {
            let earliest = &mut self.starts_ns[wanted.schema as usize];
            *earliest = Some(earliest.map_or(start_ns, |other| other.min(start_ns)));
        }
        let symbol_type = wanted.symbol_type.number();
        let chosen = Chosen {
            schemas: bit,
            replayed: if wanted.start_ns.is_some() { bit } else { 0 },
            snapshots: if wanted.snapshot { bit } else { 0 },
            named: if names.is_all() { 0 } else { bit },
            watched: bit,
        };
        self.schemas |= bit;
        self.chains.follow(names.roots());
        self.childless.add(names.parents());
        self.new_continuous
            .extend(names.continuous().map(Box::from));
        let concerned = self.concerned_by(board, &names);
        let roots = names.roots();
        let known = roots.filter(|root| self.chains.count_max(root) > 0);
        let known: Vec<Box<str>> = known.map(Box::from).collect();
        let mut all = self.subscriptions.iter();
        let place = all.position(|own| own.symbol_type == symbol_type && own.chosen == chosen);
        let place = place.unwrap_or_else(|| {
            self.subscriptions.push(Wanted {
                names: Names::default(),
                lines: 0,
                symbol_type,
                chosen,
            });
            self.subscriptions.len() - 1
        });
        let own = &mut self.subscriptions[place];
        own.lines += 1;
        own.names.add(names);
        for root in known {
            own.resolve(&root, &self.chains);
        }
        concerned
    }

    /// Returns the topics that have been followed so far, the newest first.
    pub(super) fn followed(&self) -> Vec<u32> {
        self.followed.iter().rev().copied().collect()
    }

    /// Returns the topics that these symbols concern. Futures that are sought come later.
    fn concerned_by(&self, board: &Board, names: &Names) -> Concerned {
        if names.is_all() || !names.parents().is_empty() {
            return Concerned::All;
        }
        let of_venues = names
            .names()
            .filter_map(|name| name.rsplit_once(VENUE_SEPARATOR));
        let named = names.names().chain(of_venues.map(|(symbol, _)| symbol));
        let named = named.filter_map(|name| Some(board.named(name)?.number));
        let ids = names.ids().filter_map(|id| id.checked_sub(1));
        let futures = names.roots().flat_map(|root| self.chains.numbers(root));
        Concerned::Listed(named.chain(ids).chain(futures).collect())
    }

    /// Returns whether futures of continuous symbols are sought on the board.
    pub(super) fn is_seeking(&self) -> bool {
        self.chains.is_seeking()
    }

    /// Takes a topic of the board if it is a future that is sought.
    pub(super) fn seek(&mut self, board: &Board, topic: &Topic) {
        if self.may_read(topic) {
            self.chains.seek(board, topic);
        }
    }

    /// Ends the search for futures.
    pub(super) fn end_seeking(&mut self) {
        self.chains.end_seeking();
    }

    /// Resolves the continuous symbols of one root of which the search has found futures. Returns
    /// these.
    pub(super) fn resolve_found(&mut self) -> Option<Vec<u32>> {
        let root = self.chains.take_found()?;
        for wanted in &mut self.subscriptions {
            wanted.resolve(&root, &self.chains);
        }
        Some(self.chains.numbers(&root).collect())
    }

    /// Looks at some of the new continuous symbols, once the search for their futures is over.
    /// Returns whether more are left.
    pub(super) fn look_at_continuous(&mut self, count_max: usize) -> bool {
        let rest = self.new_continuous.len().saturating_sub(count_max);
        for text in self.new_continuous.drain(rest..) {
            let is_unknown = |(root, rank)| {
                self.chains.find(root, rank).is_none() && !self.chains.comes(root, rank)
            };
            if parse_continuous(&text).is_ok_and(is_unknown) {
                self.unresolved.push(text);
            }
        }
        rest > 0
    }

    /// Takes the text on those new parent and continuous symbols that stand for no topic of the
    /// board, once all topics have been resolved.
    pub(super) fn take_unknown(&mut self) -> Option<String> {
        let childless = std::mem::take(&mut self.childless);
        let unresolved = std::mem::take(&mut self.unresolved);
        let unresolved = unresolved.iter().map(|text| &**text);
        Unknown::of(childless.texts().chain(unresolved)).text()
    }

    /// Returns whether continuous symbols are subscribed.
    #[inline]
    pub(super) fn has_chains(&self) -> bool {
        !self.chains.is_empty()
    }

    /// Takes a topic's message: it may end a new `definition`, or a future may have expired by its
    /// time. Returns the continuous symbols that stand for other topics from now on, and the topics
    /// for which they stood.
    pub(super) fn roll(
        &mut self,
        board: &Board,
        number: u32,
        definition: Option<&[u8]>,
        time_ns: u64,
    ) -> (Vec<Rolled>, Vec<u32>) {
        if definition.is_some() && !self.may_read_number(board, number) {
            return (Vec::new(), Vec::new());
        }
        let root_before = definition.and_then(|_| self.chains.root_of(number).map(Box::from));
        // What the board has may be newer than the message, so both are the message's.
        let is_defined =
            definition.is_some_and(|record| self.chains.note_definition(number, record));
        if !(self.chains.pass(number, time_ns) | is_defined) {
            return (Vec::new(), Vec::new());
        }
        let root: Option<Box<str>> = self.chains.root_of(number).map(Box::from);
        let roots: Vec<Box<str>> = match root_before == root {
            true => root.into_iter().collect(),
            false => root.into_iter().chain(root_before).collect(),
        };
        let before = self.continuous(&roots);
        let mut has_changed = false;
        for root in &roots {
            for wanted in &mut self.subscriptions {
                has_changed |= wanted.resolve(root, &self.chains);
            }
        }
        if is_defined {
            self.resolve_number(board, number);
        }
        if !has_changed {
            return (Vec::new(), Vec::new());
        }
        let now = self.continuous(&roots);
        for (_, number) in before.iter().chain(&now) {
            self.resolve_number(board, *number);
        }
        let is_new = |number: u32| !before.iter().any(|(_, other)| *other == number);
        let rolled = now.into_iter().filter(|pair| !before.contains(pair));
        let rolled = rolled.map(|(name, number)| Rolled {
            name,
            number,
            is_new: is_new(number),
        });
        let rolled = rolled.collect();
        (rolled, before.iter().map(|(_, number)| *number).collect())
    }

    /// Goes back to the time at which a replay starts: the continuous symbols of replays stand for
    /// the futures of then. The replay's first message is `first_sequence`.
    pub(super) fn go_back(&mut self, start_ns: u64, first_sequence: u64) {
        let replays = self.subscriptions.iter();
        let replays = replays.filter(|wanted| wanted.chosen.replayed != 0);
        for root in replays.flat_map(|wanted| wanted.names.roots()) {
            self.chains.go_back(root, start_ns, first_sequence);
        }
    }

    /// Seeks the futures of continuous symbols again, because messages were skipped.
    pub(super) fn catch_up(&mut self) {
        self.chains.catch_up();
    }

    /// Returns the continuous symbols of these roots, and the topics that they stand for; each pair
    /// once.
    fn continuous(&self, roots: &[Box<str>]) -> Vec<(Box<str>, u32)> {
        let mut all: Vec<(Box<str>, u32)> = Vec::new();
        for root in roots {
            let count_max = self.chains.count_max(root);
            let own = self.subscriptions.iter();
            let own = own.flat_map(|wanted| wanted.names.resolved(root, count_max));
            all.extend(own.map(|(name, id)| (name.into(), id - 1)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Removes the subscriptions of this schema and symbology. Returns the topics that it concerns.
    pub(super) fn remove(
        &mut self,
        board: &Board,
        ended: &Subscription<'_>,
        names: &Names,
    ) -> Concerned {
        let (bit, symbol_type) = (ended.schema.bit(), ended.symbol_type.number());
        for wanted in &mut self.subscriptions {
            if wanted.chosen.schemas == bit && wanted.symbol_type == symbol_type {
                wanted.names.remove(names);
                // Each line has a symbol of its own, or was merged with one that has.
                wanted.lines = wanted.lines.min(wanted.names.len().max(1));
            }
        }
        self.childless.remove(names.parents());
        self.subscriptions.retain(|wanted| !wanted.names.is_empty());
        let all = self.subscriptions.iter();
        self.schemas = all.fold(0, |schemas, wanted| schemas | wanted.chosen.schemas);
        self.concerned_by(board, names)
    }

    /// Returns the number of subscriptions.
    pub(super) fn len(&self) -> usize {
        self.subscriptions.iter().map(|wanted| wanted.lines).sum()
    }

    /// Returns the number of symbols in all subscriptions of a schema.
    pub(super) fn names(&self, schema: Schema) -> usize {
        let all = self.subscriptions.iter();
        let own = all.filter(|wanted| wanted.chosen.schemas == schema.bit());
        own.map(|wanted| wanted.names.len()).sum()
    }

    /// Returns the number of lookups that one topic costs.
    pub(super) fn lookups(&self) -> usize {
        let all = self.subscriptions.iter();
        all.map(|wanted| wanted.names.lookups()).sum()
    }

    /// Resolves a topic again. Returns what is wanted of it.
    pub(super) fn resolve(&mut self, topic: &Topic) -> Chosen {
        let name = std::str::from_utf8(topic.symbol()).unwrap_or_default();
        self.childless.remove_of(name);
        let chosen = self.choose(topic);
        let seen = self.topics.get_or(topic.number, Seen::default());
        (seen.chosen, seen.is_resolved) = (chosen, true);
        if chosen.follows(u16::MAX) && !std::mem::replace(&mut seen.is_followed, true) {
            self.followed.push(topic.number);
        }
        chosen
    }

    fn resolve_number(&mut self, board: &Board, number: u32) {
        if let Some(topic) = board.topic(number) {
            self.resolve(&topic);
        }
    }

    /// Returns what all subscriptions want of a topic.
    fn choose(&self, topic: &Topic) -> Chosen {
        let mut chosen = Chosen::default();
        if !self.may_read(topic) {
            return chosen;
        }
        for wanted in &self.subscriptions {
            chosen.add(wanted.choose(topic, &self.chains));
        }
        chosen
    }

    /// Resolves a topic if it is not.
    #[inline]
    pub(super) fn see(&mut self, board: &Board, number: u32) {
        if !self.topics.get(number).is_some_and(|seen| seen.is_resolved) {
            self.resolve_number(board, number);
        }
    }

    /// Returns the subscriptions to a topic; none if it is not resolved.
    #[inline]
    pub(super) fn of(&self, number: u32) -> Chosen {
        let seen = self.topics.get(number);
        seen.map_or_else(Chosen::default, |seen| seen.chosen)
    }

    /// Notes that the client gets a topic's mapping. Returns whether it has got one before.
    pub(super) fn note_mapped(&mut self, number: u32) -> bool {
        let seen = self.topics.get_or(number, Seen::default());
        std::mem::replace(&mut seen.is_mapped, true)
    }

    /// Returns whether any of these schemas has a subscription to any topic.
    #[inline]
    pub(super) fn wants(&self, schemas: u16) -> bool {
        self.schemas & schemas != 0
    }

    /// Returns the symbology and the name by which a topic was subscribed to.
    pub(super) fn asked<'a>(&'a self, topic: &'a Topic) -> Option<(u8, &'a str)> {
        let mut wanted = self.subscriptions.iter();
        wanted.find_map(|wanted| Some((wanted.symbol_type, find(wanted, topic)?)))
    }

    /// Returns the earliest start time of all replays.
    pub(super) fn start_ns(&self) -> Option<u64> {
        self.starts_ns.iter().flatten().min().copied()
    }

    /// Returns the earliest start time of the replays of a schema.
    pub(super) fn start_ns_of(&self, schema: Schema) -> Option<u64> {
        self.starts_ns[schema as usize]
    }

    /// Returns those of these replayed schemas that reach back to `time_ns`.
    pub(super) fn reaching(&self, schemas: u16, time_ns: u64) -> u16 {
        Schema::ALL.iter().fold(0, |reaching, &schema| {
            let reaches = self.starts_ns[schema as usize].is_some_and(|start| start <= time_ns);
            reaching | if reaches { schemas & schema.bit() } else { 0 }
        })
    }
}

impl Chosen {
    /// Returns whether the topic's values are followed for any of these schemas.
    pub(super) fn follows(self, schemas: u16) -> bool {
        (self.schemas | self.watched) & schemas != 0
    }

    /// Returns those of the subscriptions that name the topic.
    pub(super) fn by_name(self) -> Self {
        Self {
            schemas: self.schemas & self.named,
            replayed: self.replayed & self.named,
            snapshots: self.snapshots & self.named,
            ..self
        }
    }

    fn add(&mut self, other: Self) {
        self.schemas |= other.schemas;
        self.replayed |= other.replayed;
        self.snapshots |= other.snapshots;
        self.named |= other.named;
        self.watched |= other.watched;
    }
}

impl Wanted {
    /// Finds out what the continuous symbols of a root stand for. Returns whether one stands for
    /// another topic than before.
    fn resolve(&mut self, root: &str, chains: &Chains) -> bool {
        let count_max = chains.count_max(root);
        let find = |rank| chains.find(root, rank).map(instrument_id);
        self.names.resolve(root, count_max, find)
    }

    /// Returns what this subscription wants of a topic.
    fn choose(&self, topic: &Topic, chains: &Chains) -> Chosen {
        let is_chosen = find(self, topic).is_some();
        let is_watched = || {
            let root = chains.root_of(topic.number);
            let has_root = |root| self.names.has_root(root);
            let name = std::str::from_utf8(topic.symbol()).unwrap_or_default();
            root.is_some_and(has_root) || self.names.has_venue_of(name)
        };
        let none = Chosen::default();
        Chosen {
            watched: if is_watched() { self.chosen.watched } else { 0 },
            ..if is_chosen { self.chosen } else { none }
        }
    }
}

fn find<'a>(wanted: &'a Wanted, topic: &'a Topic) -> Option<&'a str> {
    let name = std::str::from_utf8(topic.symbol()).ok()?;
    wanted.names.find(name, instrument_id(topic.number))
}

/// Returns a topic's number for clients: 0 means "no instrument" in DBN.
pub(super) fn instrument_id(number: u32) -> u32 {
    number + 1
}
