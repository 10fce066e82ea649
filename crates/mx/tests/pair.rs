//! A session and a plant, joined by two wires that delay, lose and break, in virtual time.

use std::collections::{BTreeMap, VecDeque};

use tidewire_mx::plant::{Faults, LinkId, Plant, PlantConfig, SCRIPTED_DETAIL};
use tidewire_mx::session::{
    AdviseMode, Doubt, Event, ItemId, Session, SessionConfig, Stage, WriteError, WriteFailure,
    WriteId, WriteOptions,
};
use tidewire_mx::status::{Accepted, Category, Quality, StatusError};
use tidewire_mx::transport::next_message;
use tidewire_mx::value::{DataType, Elements, Texts, Value};
use tidewire_mx::write::SecuredUsers;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// The faults of the wires.
#[derive(Clone, Copy, Default)]
struct Wires {
    /// Lost messages per 1,000.
    lose: u64,
    /// Maximum delay of a message; each has its own, and none overtakes another.
    delay_ns: u64,
    /// Ticks of 100 ms after which the link breaks, per 1,000.
    break_link: u64,
}

struct Pair {
    session: Session,
    plant: Plant,
    link: Option<LinkId>,
    to_plant: VecDeque<(u64, Vec<u8>)>,
    to_session: VecDeque<(u64, Vec<u8>)>,
    wires: Wires,
    now_ns: u64,
    reconnect_ns: u64,
    state: u64,
    seen: Seen,
}

/// The events the application received.
#[derive(Default)]
struct Seen {
    added: BTreeMap<ItemId, (DataType, bool)>,
    refused: BTreeMap<ItemId, StatusError>,
    troubles: Vec<(ItemId, StatusError)>,
    /// Number of updates, the last value as text, and its quality.
    values: BTreeMap<ItemId, (usize, String, Quality)>,
    first_ns: BTreeMap<ItemId, u64>,
    writes: BTreeMap<WriteId, Vec<Result<Accepted, WriteFailure>>>,
    overdue: Vec<Stage>,
    links_lost: usize,
}

impl Seen {
    fn take(&mut self, event: Event<'_>, now_ns: u64) {
        match event {
            Event::ItemAdded {
                item,
                data_type,
                is_array,
            } => {
                self.added.insert(item, (data_type, is_array));
            }
            Event::ItemRefused { item, error } => {
                self.refused.insert(item, error);
            }
            Event::Trouble { item, error, .. } => self.troubles.push((item, error)),
            Event::Update {
                item,
                record,
                received_ns,
                ..
            } => {
                assert_eq!(received_ns, now_ns);
                self.first_ns.entry(item).or_insert(now_ns);
                let entry = self.values.entry(item).or_default();
                *entry = (entry.0 + 1, format!("{:?}", record.value), record.quality);
            }
            Event::WriteEnded { write, result, .. } => {
                self.writes.entry(write).or_default().push(result);
            }
            Event::Overdue { stage, .. } => self.overdue.push(stage),
            Event::LinkLost => self.links_lost += 1,
            Event::Registered { engine } => assert_eq!(engine.galaxy_id, 1),
            other => panic!("{other:?}"),
        }
    }
}

impl Pair {
    fn new(config: PlantConfig, wires: Wires) -> Self {
        let mut pair = Self {
            session: Session::new(SessionConfig::default()),
            state: config.seed,
            plant: Plant::new(config),
            link: None,
            to_plant: VecDeque::new(),
            to_session: VecDeque::new(),
            wires,
            now_ns: 0,
            reconnect_ns: u64::MAX,
            seen: Seen::default(),
        };
        pair.connect();
        pair
    }

    fn quick(faults: Faults) -> Self {
        let config = PlantConfig {
            tags: 28,
            first_change_ns: (10 * MS, 20 * MS),
            faults,
            ..PlantConfig::default()
        };
        Self::new(config, Wires::default())
    }

    fn connect(&mut self) {
        self.link = Some(self.plant.connected());
        self.session.connected(self.now_ns);
        self.reconnect_ns = u64::MAX;
    }

    fn break_link(&mut self) {
        if let Some(link) = self.link.take() {
            self.plant.disconnected(link);
            let (seen, now_ns) = (&mut self.seen, self.now_ns);
            self.session
                .disconnected(&mut |event| seen.take(event, now_ns));
            self.to_plant.clear();
            self.to_session.clear();
            self.reconnect_ns = self.now_ns + SECOND;
        }
    }

    fn random(&mut self, end: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_041);
        (self.state >> 33) % end.max(1)
    }

    /// Puts the output of both sides onto the wires.
    fn post(&mut self) {
        let Some(link) = self.link else {
            return;
        };
        let up = std::mem::take(self.session.outgoing());
        let down = std::mem::take(self.plant.outgoing(link).unwrap());
        for (bytes, is_up) in [(up, true), (down, false)] {
            let mut rest = bytes.as_slice();
            while let Some((_, length)) = next_message(rest).unwrap() {
                let lost = self.random(1_000) < self.wires.lose;
                let mut due_ns = self.now_ns + self.random(self.wires.delay_ns);
                let wire = if is_up {
                    &mut self.to_plant
                } else {
                    &mut self.to_session
                };
                due_ns = due_ns.max(wire.back().map_or(0, |last| last.0));
                if !lost {
                    wire.push_back((due_ns, rest[..length].to_vec()));
                }
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
        }
    }

    fn run_until(&mut self, end_ns: u64) {
        let mut tick_ns = self.now_ns;
        loop {
            self.post();
            let wire = |wire: &VecDeque<(u64, Vec<u8>)>| wire.front().map_or(u64::MAX, |m| m.0);
            let due = [
                wire(&self.to_plant),
                wire(&self.to_session),
                self.session.deadline_ns(),
                self.plant.deadline_ns(),
                self.reconnect_ns,
                tick_ns + 100 * MS,
                end_ns,
            ];
            self.now_ns = due.into_iter().fold(u64::MAX, u64::min).max(self.now_ns);
            if self.now_ns >= end_ns {
                return;
            }
            if self.now_ns >= self.reconnect_ns {
                self.connect();
            }
            self.deliver();
            if self.link.is_some_and(|link| self.plant.wants_close(link)) {
                self.break_link();
            }
            if self.now_ns >= tick_ns + 100 * MS {
                tick_ns = self.now_ns;
                if self.random(1_000) < self.wires.break_link {
                    self.break_link();
                }
            }
        }
    }

    fn deliver(&mut self) {
        let (seen, now_ns) = (&mut self.seen, self.now_ns);
        let due = |wire: &VecDeque<(u64, Vec<u8>)>| wire.front().is_some_and(|m| m.0 <= now_ns);
        while due(&self.to_plant) {
            let (_, bytes) = self.to_plant.pop_front().unwrap();
            if let Some(link) = self.link {
                assert_eq!(self.plant.receive(link, &bytes, now_ns), Ok(bytes.len()));
            }
        }
        while due(&self.to_session) {
            let (_, bytes) = self.to_session.pop_front().unwrap();
            let taken = self
                .session
                .receive(&bytes, now_ns, &mut |event| seen.take(event, now_ns));
            assert_eq!(taken, Ok(bytes.len()));
        }
        self.plant.handle_timeout(now_ns);
        self.session
            .handle_timeout(now_ns, &mut |event| seen.take(event, now_ns));
    }

    fn run_for(&mut self, span_ns: u64) {
        self.run_until(self.now_ns + span_ns);
    }

    fn add(&mut self, definition: &str) -> ItemId {
        let item = self.session.add_item(definition, self.now_ns).unwrap();
        self.session.advise(item, AdviseMode::User, self.now_ns);
        item
    }

    fn write(&mut self, item: ItemId, value: Value<'_>) -> Result<WriteId, WriteError> {
        self.session
            .write(item, value, WriteOptions::default(), self.now_ns)
    }

    /// Writes, and waits for the result.
    fn written(&mut self, item: ItemId, value: Value<'_>) -> Result<Accepted, WriteFailure> {
        let write = self.write(item, value).unwrap();
        self.run_for(15 * SECOND);
        let ends = &self.seen.writes[&write];
        assert_eq!(ends.len(), 1, "exactly once");
        ends[0]
    }
}

#[test]
fn every_tag_is_live_after_three_to_eight_seconds_with_the_plants_values() {
    let mut pair = Pair::new(
        PlantConfig {
            tags: 280,
            ..PlantConfig::default()
        },
        Wires::default(),
    );
    let names: Vec<String> = pair.plant.tags().all_names().collect();
    let items: Vec<ItemId> = names.iter().map(|name| pair.add(name)).collect();
    pair.run_until(10 * SECOND);
    let mut kinds = std::collections::BTreeSet::new();
    for (index, (name, item)) in names.iter().zip(&items).enumerate() {
        if name.starts_with("Troubles") {
            assert!(
                pair.seen.troubles.iter().any(|(of, _)| of == item),
                "{name}"
            );
            continue;
        }
        let first_ns = pair.seen.first_ns[item];
        assert!(
            (3 * SECOND..=8 * SECOND).contains(&first_ns),
            "{name}: {first_ns}"
        );
        let (_, value, _) = &pair.seen.values[item];
        assert_eq!(
            value,
            &pair.plant.tags().value_text(index).unwrap(),
            "{name}"
        );
        kinds.insert(pair.seen.added[item]);
    }
    assert_eq!(kinds.len(), 14, "all types, and arrays of six");
    let (count, _, quality) = &pair.seen.values[&items[0]];
    assert!((15..80).contains(count), "about one in 100 ms: {count}");
    assert_eq!(*quality, Quality::GOOD);
}

#[test]
fn everything_recovers_from_loss_delay_and_broken_links() {
    for seed in 0..12 {
        let faults = "refuse=5%,delay=5%,lose=5%,bad=1%,uncertain=1%,trouble=1%,drop=0.2%";
        let config = PlantConfig {
            tags: 56,
            seed,
            first_change_ns: (100 * MS, SECOND),
            faults: faults.parse().unwrap(),
            ..PlantConfig::default()
        };
        let wires = Wires {
            lose: 20,
            delay_ns: 50 * MS,
            break_link: 5,
        };
        let mut pair = Pair::new(config, wires);
        let items: Vec<ItemId> = (1..=4)
            .flat_map(|tank| {
                ["Setpoint", "Level", "Name", "Trend[]"].map(|of| format!("Tank{tank}.{of}"))
            })
            .map(|name| pair.add(&name))
            .collect();
        let mut sent = Vec::new();
        for round in 0..200 {
            pair.run_for(300 * MS);
            let value = Value::Float64(f64::from(round));
            sent.extend(pair.write(items[0], value));
        }
        // Without faults everything recovers by itself.
        pair.wires = Wires::default();
        pair.run_for(60 * SECOND);
        for item in &items {
            assert!(pair.session.is_live(*item), "seed {seed}: {item:?}");
        }
        assert!(sent.len() > 50, "seed {seed}: {} writes", sent.len());
        let mut unknown = 0;
        for write in &sent {
            let ends = &pair.seen.writes[write];
            assert_eq!(ends.len(), 1, "seed {seed}: each write ends once");
            unknown += usize::from(matches!(ends[0], Err(WriteFailure::Unknown(_))));
        }
        assert!(unknown > 0, "seed {seed}");
        assert!(pair.seen.links_lost > 0 && pair.session.counters().links > 1);
    }
}

#[test]
fn each_category_comes_back_as_its_own_error() {
    let mut pair = Pair::quick(Faults::default());
    for category in Category::ALL {
        let item = pair.add(&format!("Faults.{category}"));
        pair.run_for(SECOND);
        let result = pair.written(item, Value::Int32(5));
        match (category, result) {
            (Category::Ok | Category::Pending, Ok(Accepted::Plainly)) => {}
            (Category::Warning, Ok(Accepted::WithWarning(SCRIPTED_DETAIL))) => {}
            (_, Err(WriteFailure::Refused(error))) => {
                assert_eq!(error.category(), category);
                assert_eq!(error.trouble().detail, SCRIPTED_DETAIL);
            }
            (category, result) => panic!("{category}: {result:?}"),
        }
        let taken = matches!(
            category,
            Category::Ok | Category::Pending | Category::Warning
        );
        assert_eq!(pair.seen.values[&item].1 == "Int32(5)", taken, "{category}");
    }
}

#[test]
fn a_completion_that_does_not_come_leaves_the_outcome_unknown() {
    let mut pair = Pair::quick(Faults {
        delay_ns: 12 * SECOND,
        ..Faults::default()
    });
    let lost = pair.add("Faults.Lost");
    let delayed = pair.add("Faults.Delayed");
    pair.run_for(SECOND);
    let timed_out = Err(WriteFailure::Unknown(Doubt::TimedOut));
    assert_eq!(pair.written(lost, Value::Int32(5)), timed_out);
    let strays = pair.session.counters().strays;
    // The late completion arrives during another write, and is not matched with it.
    let late = pair.write(delayed, Value::Int32(6)).unwrap();
    pair.run_for(11 * SECOND);
    assert_eq!(pair.seen.writes[&late], [timed_out]);
    let other = pair.write(lost, Value::Int32(7)).unwrap();
    pair.run_for(5 * SECOND);
    assert_eq!(pair.session.counters().strays, strays + 1);
    assert!(!pair.seen.writes.contains_key(&other), "still under way");
    pair.run_for(10 * SECOND);
    assert_eq!(pair.seen.writes[&other], [timed_out]);
}

#[test]
fn a_link_lost_in_the_middle_of_a_write_leaves_the_outcome_unknown_and_advises_again() {
    let mut pair = Pair::quick(Faults::default());
    let trap = pair.add("Faults.Disconnect");
    let level = pair.add("Tank1.Level");
    pair.run_for(SECOND);
    let lost = Err(WriteFailure::Unknown(Doubt::LinkLost));
    assert_eq!(pair.written(trap, Value::Int32(5)), lost);
    assert_eq!(
        (pair.seen.links_lost, pair.plant.counters().links_dropped),
        (1, 1)
    );
    assert!(pair.session.is_live(level) && pair.session.is_live(trap));
    let before = pair.seen.values[&level].0;
    pair.run_for(SECOND);
    assert!(pair.seen.values[&level].0 > before + 5);
}

#[test]
fn values_are_checked_before_they_are_sent() {
    let mut pair = Pair::quick(Faults::default());
    let setpoint = pair.session.add_item("Tank1.Setpoint", 0).unwrap();
    let early = pair.write(setpoint, Value::Float64(1.0));
    assert_eq!(early, Err(WriteError::NoLink));
    pair.run_for(SECOND);
    let wrong = WriteError::WrongType {
        data_type: DataType::Double,
        is_array: false,
        given: "Int32",
    };
    assert_eq!(pair.write(setpoint, Value::Int32(1)), Err(wrong));
    assert_eq!(wrong.to_string(), "Int32 given, the attribute is Double");
    let late = pair.session.add_item("Tank1.Level", pair.now_ns).unwrap();
    assert_eq!(
        pair.write(late, Value::Float32(1.0)),
        Err(WriteError::TypeUnknown)
    );
    let nothing = pair.session.add_item("Tank1.Nothing", pair.now_ns).unwrap();
    pair.run_for(SECOND);
    assert!(matches!(
        pair.seen.refused[&nothing],
        StatusError::Configuration(_)
    ));
    assert_eq!(
        pair.write(nothing, Value::Int32(1)),
        Err(WriteError::NoItem)
    );
    let read_only = pair.written(late, Value::Float32(1.0));
    assert!(matches!(
        read_only,
        Err(WriteFailure::Refused(StatusError::Security(_)))
    ));
    assert_eq!(pair.plant.counters().writes_taken, 0);
}

#[test]
fn every_writable_type_is_written_and_read_back() {
    // Tags that rarely change by themselves, so that the written values stay.
    let config = PlantConfig {
        tags: 28,
        first_change_ns: (10 * MS, 20 * MS),
        interval_ns: 3_600 * SECOND,
        ..PlantConfig::default()
    };
    let mut pair = Pair::new(config, Wires::default());
    let cases = [
        ("Tank1.Setpoint", Value::Float64(21.5)),
        ("Faults.Ok", Value::Int32(-7)),
        (
            "Tank1.Recipe[]",
            Value::StringArray(Texts::new(&["água", "水", ""])),
        ),
        (
            "Tank1.History[]",
            Value::Int32Array(Elements::new(&[1, 2, 3])),
        ),
        ("Tank2.Trend[3]", Value::Float64(0.25)),
        ("Tank1.Running", Value::Boolean(true)),
        ("Tank1.Name", Value::text("Тест")),
        ("Tank1.Label", Value::text("Etikett")),
        ("Tank1.Uptime", Value::Int32(1)),
        (
            "Tank1.Profile[]",
            Value::Float32Array(Elements::new(&[1.5])),
        ),
        (
            "Tank1.Alarms[]",
            Value::BooleanArray(Elements::new(&[true, false])),
        ),
    ];
    for (name, value) in cases {
        let item = pair.add(name);
        pair.run_for(SECOND);
        let write = pair.write(item, value).unwrap();
        // The change arrives before the completion.
        pair.run_for(MS);
        assert_eq!(pair.seen.writes[&write], [Ok(Accepted::Plainly)], "{name}");
        assert_eq!(pair.seen.values[&item].1, format!("{value:?}"), "{name}");
    }
    let users = Some(SecuredUsers {
        current_id: 1,
        verifier_id: 2,
    });
    let item = pair.add("Tank2.Setpoint");
    pair.run_for(SECOND);
    let options = WriteOptions { users, time: None };
    let write = pair
        .session
        .write(item, Value::Float64(9.0), options, pair.now_ns)
        .unwrap();
    pair.run_for(MS);
    assert_eq!(pair.seen.writes[&write], [Ok(Accepted::Plainly)]);
}

#[test]
fn array_elements_count_from_one_and_bulk_reads_are_refused() {
    let mut pair = Pair::quick(Faults::default());
    let zero = pair.add("Tank1.Trend[0]");
    let bulk = pair.add("Tank1.Trend");
    let first = pair.add("tank1.trend[1]");
    pair.run_for(SECOND);
    assert!(matches!(
        pair.seen.refused[&zero],
        StatusError::Configuration(_)
    ));
    let (item, error) = pair.seen.troubles[0];
    assert_eq!(
        (item, error.category()),
        (bulk, Category::CommunicationError)
    );
    assert_eq!(error.trouble().detail, 1003);
    assert!(pair.seen.values[&first].1.starts_with("Float64("));
}

#[test]
fn qualities_and_troubles_reach_the_application() {
    let mut pair = Pair::quick(Faults::default());
    let good = pair.add("Quality.Good");
    let uncertain = pair.add("Quality.Uncertain");
    let bad = pair.add("Quality.Bad");
    let security = pair.add("Troubles.SecurityError");
    pair.run_for(2 * SECOND);
    let quality = |item| pair.seen.values[&item].2.text();
    assert_eq!(
        [good, uncertain, bad].map(quality),
        ["good", "uncertain", "bad"]
    );
    let troubles = pair.seen.troubles.clone();
    assert!(matches!(troubles[..], [(item, StatusError::Security(_))] if item == security));
}

#[test]
fn un_advised_removed_and_suspended_items_are_quiet() {
    let mut pair = Pair::quick(Faults::default());
    let items = ["Tank1.Level", "Tank1.Count", "Tank1.Running"].map(|name| pair.add(name));
    pair.run_for(SECOND);
    let counts = |pair: &Pair| items.map(|item| pair.seen.values[&item].0);
    pair.session.un_advise(items[0]);
    pair.session.suspend(items[1], true, pair.now_ns);
    pair.session.remove_item(items[2]);
    pair.run_for(MS);
    let before = counts(&pair);
    pair.run_for(2 * SECOND);
    assert_eq!(counts(&pair), before);
    // The wishes survive a new link: one item is still suspended, another is no longer advised.
    pair.break_link();
    pair.run_for(20 * SECOND);
    assert_eq!(counts(&pair), before);
    pair.session.suspend(items[1], false, pair.now_ns);
    pair.session
        .advise(items[0], AdviseMode::Supervisory, pair.now_ns);
    pair.run_for(2 * SECOND);
    let after = counts(&pair);
    assert!(after[0] > before[0] && after[1] > before[1] && after[2] == before[2]);
    let again = pair.add("Tank1.Name");
    assert_ne!(
        again, items[2],
        "a removed item is not mistaken for a new one"
    );
    assert_eq!(pair.session.definition(items[2]), None);
}

#[test]
fn a_platform_that_does_not_answer_is_asked_again() {
    let mut pair = Pair::quick(Faults::default());
    pair.wires.lose = 1_000;
    let item = pair.add("Tank1.Level");
    pair.run_for(12 * SECOND);
    assert!(!pair.session.is_registered());
    assert_eq!(pair.seen.overdue, [Stage::Register, Stage::Register]);
    pair.wires.lose = 0;
    pair.run_for(10 * SECOND);
    assert!(pair.session.is_live(item));
}

#[test]
fn the_same_seed_gives_the_same_plant() {
    let run = || {
        let faults = "refuse=20%,lose=10%,bad=10%".parse().unwrap();
        let mut pair = Pair::quick(faults);
        let items = ["Tank1.Level", "Tank2.Recipe[]", "Tank1.Setpoint"].map(|name| pair.add(name));
        for round in 0..50 {
            pair.run_for(200 * MS);
            let _ = pair.write(items[2], Value::Float64(f64::from(round)));
        }
        pair.run_for(20 * SECOND);
        (pair.seen.values, pair.seen.writes, *pair.plant.counters())
    };
    let (first, second) = (run(), run());
    assert!(first == second);
    assert!(first.2.writes_refused > 0 && first.2.completions_lost > 0);
}
