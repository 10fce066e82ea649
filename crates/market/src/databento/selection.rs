//! The symbols and schemas that one client has subscribed to.

use std::collections::HashSet;

use tidewire_dbn::databento::{Names, Schema, Subscription};

use super::chains::Chains;
use crate::board::Board;
use crate::topic::Topic;

/// All subscriptions of a client, resolved for each topic of the board.
#[derive(Debug, Default)]
pub(super) struct Selection {
    subscriptions: Vec<Wanted>,
    /// By topic number.
    topics: Vec<Chosen>,
    /// By schema: the earliest start time of its replays, ns since the UNIX epoch.
    starts_ns: [Option<u64>; Schema::ALL.len()],
    /// All schemas with a subscription to any topic.
    schemas: u16,
    /// The futures behind continuous symbols.
    chains: Chains,
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

#[derive(Debug)]
struct Wanted {
    names: Names,
    symbol_type: u8,
    chosen: Chosen,
}

impl Selection {
    /// Adds a subscription.
    pub(super) fn add(&mut self, board: &Board, wanted: &Subscription<'_>, names: Names) {
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
        let wanted = Wanted {
            symbol_type: wanted.symbol_type.number(),
            chosen: Chosen {
                schemas: bit,
                replayed: if wanted.start_ns.is_some() { bit } else { 0 },
                snapshots: if wanted.snapshot { bit } else { 0 },
                named: if names.is_all() { 0 } else { bit },
                watched: bit,
            },
            names,
        };
        self.schemas |= bit;
        self.look(board);
        for topic in board.topics().iter().take(self.topics.len()) {
            let chosen = wanted.choose(topic, &self.chains);
            self.topics[topic.number as usize].add(chosen);
        }
        self.subscriptions.push(wanted);
    }

    /// Finds the futures of continuous symbols before their subscription is added.
    pub(super) fn resolve(&mut self, board: &Board, names: &mut Names) {
        self.chains.follow(board, names.roots());
        names.resolve(|root, rank| self.chains.find(root, rank).map(instrument_id));
    }

    /// Returns whether continuous symbols are subscribed.
    #[inline]
    pub(super) fn has_chains(&self) -> bool {
        !self.chains.is_empty()
    }

    /// Takes a topic's message: it may end a new `definition`, or a future may have expired by its
    /// time. Returns the continuous symbols that stand for other topics from now on.
    pub(super) fn roll(
        &mut self,
        board: &Board,
        number: u32,
        definition: Option<&[u8]>,
        time_ns: u64,
    ) -> Vec<Rolled> {
        // What the board has may be newer than the message, so both are the message's.
        let is_defined =
            definition.is_some_and(|record| self.chains.note_definition(number, record));
        if !(self.chains.pass(number, time_ns) | is_defined) {
            return Vec::new();
        }
        let before = self.continuous();
        if !self.resolve_again() {
            if is_defined && let Some(topic) = board.topic(number) {
                let chosen = self.choose(&topic);
                let known = self.topics.get_mut(number as usize);
                known.into_iter().for_each(|known| *known = chosen);
            }
            return Vec::new();
        }
        self.look_again(board);
        let is_new = |number: u32| !before.iter().any(|(_, other)| *other == number);
        let rolled = self.continuous().into_iter();
        let rolled = rolled.filter(|pair| !before.contains(pair));
        let rolled = rolled.map(|(name, number)| Rolled {
            name,
            number,
            is_new: is_new(number),
        });
        rolled.collect()
    }

    /// Goes back to the time at which a replay starts: the continuous symbols of replays stand for
    /// the futures of then. The replay's first message is `first_sequence`.
    pub(super) fn go_back(&mut self, board: &Board, start_ns: u64, first_sequence: u64) {
        let replays = self.subscriptions.iter();
        let replays = replays.filter(|wanted| wanted.chosen.replayed != 0);
        let roots: HashSet<&str> = replays.flat_map(|wanted| wanted.names.roots()).collect();
        if !roots.is_empty() {
            self.chains.go_back(board, &roots, start_ns, first_sequence);
            self.resolve_again();
            self.look_again(board);
        }
    }

    /// Resolves the continuous symbols as of now, because messages were skipped.
    pub(super) fn catch_up(&mut self, board: &Board) {
        if self.has_chains() {
            self.chains.catch_up(board);
            self.resolve_again();
            self.look_again(board);
        }
    }

    /// Finds out what the continuous symbols stand for. Returns whether one stands for another
    /// topic than before.
    fn resolve_again(&mut self) -> bool {
        let chains = &self.chains;
        let mut has_changed = false;
        for wanted in &mut self.subscriptions {
            let find = |root: &str, rank| chains.find(root, rank).map(instrument_id);
            has_changed |= wanted.names.resolve(find);
        }
        has_changed
    }

    /// Resolves all topics.
    fn look_again(&mut self, board: &Board) {
        self.topics.clear();
        self.look(board);
    }

    /// Returns the continuous symbols, and the topics that they stand for; each pair once.
    fn continuous(&self) -> Vec<(Box<str>, u32)> {
        let all = self.subscriptions.iter();
        let all = all.flat_map(|wanted| wanted.names.resolved());
        let mut all: Vec<_> = all.map(|(name, id)| (name.into(), id - 1)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Removes the subscriptions of this schema and symbology.
    pub(super) fn remove(&mut self, board: &Board, ended: &Subscription<'_>, names: &Names) {
        let (bit, symbol_type) = (ended.schema.bit(), ended.symbol_type.number());
        for wanted in &mut self.subscriptions {
            if wanted.chosen.schemas == bit && wanted.symbol_type == symbol_type {
                wanted.names.remove(names);
            }
        }
        self.subscriptions.retain(|wanted| !wanted.names.is_empty());
        let all = self.subscriptions.iter();
        self.schemas = all.fold(0, |schemas, wanted| schemas | wanted.chosen.schemas);
        self.look_again(board);
    }

    /// Returns the number of subscriptions.
    pub(super) fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Returns the number of symbols in all subscriptions of a schema.
    pub(super) fn names(&self, schema: Schema) -> usize {
        let all = self.subscriptions.iter();
        let own = all.filter(|wanted| wanted.chosen.schemas == schema.bit());
        own.map(|wanted| wanted.names.len()).sum()
    }

    /// Resolves topics added since the last call. Returns how many are known.
    pub(super) fn look(&mut self, board: &Board) -> usize {
        if self.topics.len() == board.slots().len() {
            return self.topics.len();
        }
        for number in self.topics.len()..board.slots().len() {
            // A slot exists slightly earlier than its topic.
            let Some(topic) = board.topic(number as u32) else {
                break;
            };
            let chosen = self.choose(&topic);
            debug_assert_eq!(
                topic.number as usize,
                self.topics.len(),
                "topics by their numbers"
            );
            self.topics.push(chosen);
        }
        self.topics.len()
    }

    /// Returns what all subscriptions want of a topic.
    fn choose(&self, topic: &Topic) -> Chosen {
        let mut chosen = Chosen::default();
        for wanted in &self.subscriptions {
            chosen.add(wanted.choose(topic, &self.chains));
        }
        chosen
    }

    /// Returns a copy of the subscriptions by topic.
    pub(super) fn all(&self) -> Vec<Chosen> {
        self.topics.clone()
    }

    /// Returns the number of topics that are resolved.
    pub(super) fn known(&self) -> usize {
        self.topics.len()
    }

    /// Returns the subscriptions to a topic.
    #[inline]
    pub(super) fn of(&self, number: u32) -> Chosen {
        self.topics
            .get(number as usize)
            .copied()
            .unwrap_or_default()
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

    fn add(&mut self, other: Self) {
        self.schemas |= other.schemas;
        self.replayed |= other.replayed;
        self.snapshots |= other.snapshots;
        self.named |= other.named;
        self.watched |= other.watched;
    }
}

impl Wanted {
    /// Returns what this subscription wants of a topic.
    fn choose(&self, topic: &Topic, chains: &Chains) -> Chosen {
        let is_chosen = find(self, topic).is_some();
        let is_watched = || {
            let root = chains.root_of(topic.number);
            let has_root = |root| self.names.roots().any(|other| other == root);
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
