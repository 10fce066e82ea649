//! The symbols and schemas that one client has subscribed to.

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
            },
            names,
        };
        self.schemas |= bit;
        self.look(board);
        for topic in board.topics().iter().take(self.topics.len()) {
            if find(&wanted, topic).is_some() {
                self.topics[topic.number as usize].add(wanted.chosen);
            }
        }
        self.subscriptions.push(wanted);
    }

    /// Finds the futures of continuous symbols before their subscription is added.
    pub(super) fn resolve(&mut self, board: &Board, names: &mut Names) {
        self.chains.follow(board, names.roots());
        names.resolve(|root, rank| self.chains.find(root, rank).map(instrument_id));
    }

    /// Takes a topic's message: it may be a new definition, or a future may have expired by its
    /// time. Returns the continuous symbols that stand for other topics from now on.
    #[inline]
    pub(super) fn roll(
        &mut self,
        board: &Board,
        number: u32,
        is_definition: bool,
        time_ns: u64,
    ) -> Vec<Rolled> {
        if self.chains.is_empty() {
            return Vec::new();
        }
        let topic = board.topic(number).filter(|_| is_definition);
        // What the board has may be newer than the message, so the chain's time is the message's.
        let is_defined = topic.is_some_and(|topic| self.chains.note_definition(&topic).is_some());
        if !(self.chains.pass(number, time_ns) | is_defined) {
            return Vec::new();
        }
        let before = self.continuous();
        let chains = &self.chains;
        let mut has_changed = false;
        for wanted in &mut self.subscriptions {
            let find = |root: &str, rank| chains.find(root, rank).map(instrument_id);
            has_changed |= wanted.names.resolve(find);
        }
        if !has_changed {
            return Vec::new();
        }
        self.topics.clear();
        self.look(board);
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
        self.topics.clear();
        self.look(board);
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
            let mut chosen = Chosen::default();
            for wanted in &self.subscriptions {
                if find(wanted, &topic).is_some() {
                    chosen.add(wanted.chosen);
                }
            }
            debug_assert_eq!(
                topic.number as usize,
                self.topics.len(),
                "topics by their numbers"
            );
            self.topics.push(chosen);
        }
        self.topics.len()
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
    fn add(&mut self, other: Self) {
        self.schemas |= other.schemas;
        self.replayed |= other.replayed;
        self.snapshots |= other.snapshots;
        self.named |= other.named;
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
