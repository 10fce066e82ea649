//! An edge with its client, and a sink that keeps values and checks each of them.

use std::collections::HashMap;

use tidewire_cluster::{Edge, EdgeConfig, EdgeEvent, EdgeOutput};
use tidewire_feed::client::{Client, ClientConfig, Gap, Side, Sink};
use tidewire_feed::wire::{Definition, Figures, LastValue, Message};

use super::source::Histories;

/// The values at an edge.
pub(crate) struct Values<'a> {
    seen: &'a mut Seen,
    histories: &'a Histories,
}

/// What a sink keeps.
#[derive(Default)]
pub(crate) struct Seen {
    epoch: u64,
    session: u32,
    names: HashMap<u32, String>,
    values: HashMap<u32, LastValue>,
    /// By name: the newest epoch and sequence.
    newest: HashMap<String, (u64, u64)>,
    pub(crate) messages: u64,
    pub(crate) gaps: u64,
    /// Number of the newest message of the source that has come.
    pub(crate) newest_said: u64,
}

impl Values<'_> {
    fn note(&mut self, symbol: u32, sequence: u64) {
        let Some(name) = self.seen.names.get(&symbol) else {
            panic!("symbol {symbol} has no name");
        };
        let newest = self.seen.newest.entry(name.clone()).or_default();
        let now = (self.seen.epoch, sequence);
        assert!(
            now >= *newest,
            "{name} went back from {newest:?} to {now:?}"
        );
        *newest = now;
    }

    fn check(&self, sequence: u64, value: &LastValue) {
        let history = &self.histories.0[&self.seen.session];
        let right = history[sequence as usize - 1].as_ref();
        assert_eq!(right, Some(value), "the value at {sequence}");
    }

    fn apply(&mut self, sequence: u64, message: &Message) {
        let Some(symbol) = message.symbol() else {
            return;
        };
        self.seen.messages += 1;
        self.note(symbol, sequence);
        let value = self.seen.values.entry(symbol).or_insert_with(|| LastValue {
            figures: Some(Figures::default()),
            ..LastValue::new(symbol)
        });
        assert!(
            sequence > value.sequence,
            "{sequence} is in {value:?} already"
        );
        assert!(value.apply(sequence, message));
        let value = *value;
        self.seen.newest_said = self.seen.newest_said.max(value.source_time_ns);
        self.check(sequence, &value);
    }
}

impl Sink for Values<'_> {
    fn message(&mut self, sequence: u64, message: &Message) {
        self.apply(sequence, message);
    }

    fn definition(&mut self, sequence: u64, definition: &Definition) {
        let name = definition.name.as_str().to_owned();
        self.seen.names.insert(definition.symbol, name);
        if sequence > 0 {
            self.apply(sequence, &Message::Definition(*definition));
        }
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.note(record.symbol, record.sequence);
        self.check(record.sequence, record);
        self.seen.values.insert(record.symbol, *record);
        self.seen.newest_said = self.seen.newest_said.max(record.source_time_ns);
    }

    fn session_changed(&mut self, _old: u32, new: u32) {
        self.seen.session = new;
        self.seen.names.clear();
        self.seen.values.clear();
    }

    fn gap(&mut self, gap: Gap) {
        self.seen.gaps += u64::from(matches!(gap, Gap::Opened { .. }));
    }
}

/// An edge with its client.
pub(crate) struct Viewer {
    pub(crate) edge: Edge,
    pub(crate) client: Client,
    pub(crate) seen: Seen,
    pub(crate) cut_until_ns: u64,
    pub(crate) slow_until_ns: u64,
    pub(crate) is_cut: bool,
}

impl Viewer {
    pub(crate) fn new(now_ns: u64) -> Viewer {
        let mut client = Client::new(ClientConfig::default());
        client.subscribe("*").unwrap();
        Viewer {
            edge: Edge::new(EdgeConfig::default(), now_ns),
            client,
            seen: Seen::default(),
            cut_until_ns: 0,
            slow_until_ns: 0,
            is_cut: false,
        }
    }

    /// Gives the client what the edge says.
    pub(crate) fn feed(&mut self, histories: &Histories, now_ns: u64) {
        while let Some(output) = self.edge.next_output() {
            match output {
                EdgeOutput::Event(EdgeEvent::Restart { epoch, session }) => {
                    assert!(epoch > self.seen.epoch, "reigns follow each other");
                    if self.seen.session == 0 {
                        self.seen.session = session;
                    }
                    self.seen.epoch = epoch;
                    self.client.disconnected(Side::A);
                    self.client.connected(Side::A, now_ns);
                }
                EdgeOutput::Event(_) => {}
                EdgeOutput::Bytes(bytes) => {
                    let seen = &mut self.seen;
                    let mut sink = Values { seen, histories };
                    let used = self.client.receive(Side::A, &bytes, now_ns, &mut sink);
                    assert_eq!(used, Ok(bytes.len()));
                }
            }
        }
        let seen = &mut self.seen;
        self.client
            .handle_timeout(now_ns, &mut Values { seen, histories });
        // Nothing that the client asks for is needed.
        self.client.drain_outgoing(Side::A, &mut Vec::new());
    }

    /// Returns the values by name, without what differs from hub to hub.
    pub(crate) fn by_name(&self) -> HashMap<String, LastValue> {
        let value = |(symbol, value): (&u32, &LastValue)| {
            (self.seen.names[symbol].clone(), comparable(value))
        };
        self.seen.values.iter().map(value).collect()
    }
}

/// Returns a value without what differs from hub to hub.
pub(crate) fn comparable(value: &LastValue) -> LastValue {
    LastValue {
        symbol: 0,
        sequence: 0,
        ..*value
    }
}
