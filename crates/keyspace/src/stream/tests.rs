//! Compares streams with a map from ids to fields.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

fn shown(entry: Entry<'_>) -> (StreamId, Fields) {
    let fields = entry
        .fields()
        .map(|(name, value)| (name.to_vec(), value.as_bytes().to_vec()));
    (entry.id(), fields.collect())
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        passed_ms: u64,
        passed: u64,
        fields: Fields,
    },
    Delete(usize),
    TrimTo(usize, bool),
    TrimEach(usize),
    TrimBefore(usize, bool),
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (0u32..64, any::<bool>()).prop_map(|(bits, negative)| {
            let number = if negative { -1i64 } else { 1 } << bits;
            number.to_string().into_bytes()
        }),
        (-5000i64..5000).prop_map(|number| number.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..80),
        prop_oneof![
            Just(63),
            Just(64),
            Just(300),
            Just(4095),
            Just(4096),
            Just(9000)
        ]
        .prop_map(|length| vec![b'x'; length]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![Just(b"bid".to_vec()), Just(b"ask".to_vec()), Just(vec![])];
    let fields = prop::collection::vec((name, value()), 1..4);
    let usual = Just(vec![(b"price".to_vec(), b"101.25".to_vec())]);
    let fields = prop_oneof![3 => usual, 1 => fields];
    let passed_ms = prop_oneof![3 => Just(0), 3 => 0u64..3, 1 => any::<u64>()];
    let passed = prop_oneof![3 => Just(1), 1 => any::<u64>()];
    prop_oneof![
        12 => (passed_ms, passed, fields).prop_map(|(passed_ms, passed, fields)| Step::Append {
            passed_ms, passed, fields
        }),
        4 => any::<usize>().prop_map(Step::Delete),
        1 => (0usize..300, any::<bool>()).prop_map(|(length, whole)| Step::TrimTo(length, whole)),
        1 => (0usize..300).prop_map(Step::TrimEach),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, whole)| Step::TrimBefore(at, whole)),
    ]
}

/// Returns an id that may exist, selected by a number.
fn pick(model: &BTreeMap<StreamId, Fields>, at: usize) -> StreamId {
    let id = model.keys().nth(at % model.len().max(1));
    let id = id.copied().unwrap_or_default();
    match at % 5 {
        0 => id.next().unwrap_or(id),
        1 => id.previous().unwrap_or(id),
        _ => id,
    }
}

fn take(log: &mut EntryLog, model: &mut BTreeMap<StreamId, Fields>, step: Step) {
    let trim = |to, approximate| Trim {
        to,
        approximate,
        limit: 0,
    };
    match step {
        Step::Append {
            passed_ms,
            passed,
            fields,
        } => {
            let last = log.state().last_id;
            let id = match (last.time_ms.checked_add(passed_ms), passed_ms) {
                (Some(time_ms), 0) => StreamId::new(time_ms, last.sequence.saturating_add(passed)),
                (Some(time_ms), _) => StreamId::new(time_ms, passed % 4),
                (None, _) => last,
            };
            let limits = BlockLimits {
                bytes_max: 2000,
                entries_max: 20,
            };
            let added = log.append(id, pairs(&fields), limits);
            assert_eq!(added, id > last);
            if added {
                model.insert(id, fields);
            }
        }
        Step::Delete(at) => {
            let id = pick(model, at);
            assert_eq!(log.delete(id), model.remove(&id).is_some());
        }
        Step::TrimTo(length, whole) => {
            let removed = log.trim(trim(TrimTo::Length(length as u64), whole));
            for _ in 0..removed {
                model.pop_first();
            }
            assert!(model.len() >= length || removed == 0);
            assert!(whole || model.len() <= length);
        }
        Step::TrimEach(length) => {
            let odd = |id: &StreamId| id.sequence % 2 == 1;
            let mut surplus = model.len().saturating_sub(length);
            let removed = log.trim_each(trim(TrimTo::Length(length as u64), false), |id| odd(&id));
            let before = model.len();
            model.retain(|id, _| {
                let goes = surplus > 0 && odd(id);
                surplus -= usize::from(goes);
                !goes
            });
            // The trim ends at a block that must stay whole.
            assert!(removed as usize <= before - model.len());
            *model = log.range(StreamId::MIN, StreamId::MAX).map(shown).collect();
        }
        Step::TrimBefore(at, whole) => {
            let id = pick(model, at);
            let removed = log.trim(trim(TrimTo::Id(id), whole));
            for _ in 0..removed {
                assert!(model.pop_first().is_some_and(|(first, _)| first < id));
            }
            assert!(whole || model.keys().all(|&left| left >= id));
        }
    }
}

proptest! {
    #[test]
    fn a_log_behaves_like_a_sorted_map(
        steps in prop::collection::vec(step(), 0..400),
        bounds in prop::collection::vec((any::<usize>(), any::<usize>()), 8),
    ) {
        let (mut log, mut model) = (EntryLog::default(), BTreeMap::new());
        for step in steps {
            take(&mut log, &mut model, step);
            prop_assert_eq!(log.len(), model.len());
            let first = model.keys().next().copied();
            prop_assert_eq!(log.first_id(), first.unwrap_or_default());
            prop_assert_eq!(log.newest_id(), model.keys().next_back().copied());
        }
        let all: Vec<_> = model.clone().into_iter().collect();
        let whole = log.range(StreamId::MIN, StreamId::MAX).map(shown);
        prop_assert_eq!(&whole.collect::<Vec<_>>(), &all);
        for (from, to) in bounds {
            let (from, to) = (pick(&model, from), pick(&model, to));
            let wanted: Vec<_> = all
                .iter()
                .filter(|(id, _)| (from..=to).contains(id))
                .cloned()
                .collect();
            let range = log.range(from, to).map(shown);
            prop_assert_eq!(range.collect::<Vec<_>>(), wanted.clone());
            let mut reversed: Vec<_> = log.range_reversed(from, to).map(shown).collect();
            reversed.reverse();
            prop_assert_eq!(reversed, wanted);
            let one = model.get(&from).cloned().map(|fields| (from, fields));
            prop_assert_eq!(log.get(from).map(shown), one);
        }
    }

    #[test]
    fn group_and_consumer_agree_about_pending_entries(
        steps in prop::collection::vec((0u8..10, 0u8..6, 0u64..200), 0..600),
    ) {
        let mut group = ConsumerGroup::new(StreamId::MIN, None);
        let mut model: BTreeMap<StreamId, Vec<u8>> = BTreeMap::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (action, name, number) in steps {
            let (id, name) = (StreamId::new(number, 0), vec![b'a' + name]);
            match action {
                0..5 => {
                    let (consumer, new) = group.add_consumer(&name, 7);
                    prop_assert_eq!(new, !names.contains(&name));
                    let pending = PendingEntry { id, delivered_ms: 1, deliveries: 1, consumer };
                    group.set_pending(pending);
                    model.insert(id, name.clone());
                    names.extend(new.then_some(name));
                }
                5..8 => {
                    prop_assert_eq!(group.acknowledge(id), model.remove(&id).is_some());
                }
                8 if number % 8 == 0 => {
                    let before = model.len();
                    model.retain(|_, owner| *owner != name);
                    let there = names.contains(&name);
                    let removed = there.then_some(before - model.len());
                    prop_assert_eq!(group.remove_consumer(&name), removed);
                    names.retain(|known| *known != name);
                }
                _ => prop_assert_eq!(group.find_consumer(&name).is_some(), names.contains(&name)),
            }
        }
        names.sort();
        let consumers: Vec<_> = group.consumers().map(|(_, one)| one.name().to_vec()).collect();
        prop_assert_eq!(&consumers, &names);
        prop_assert_eq!(group.pending_len(), model.len());
        let all = group.pending(StreamId::MIN, StreamId::MAX);
        let all: BTreeMap<_, _> = all
            .map(|pending| (pending.id, group.consumer(pending.consumer).name().to_vec()))
            .collect();
        prop_assert_eq!(&all, &model);
        for (slot, consumer) in group.consumers() {
            let own = group.pending_of(slot, StreamId::MIN, StreamId::MAX);
            let own: Vec<_> = own.map(|pending| pending.id).collect();
            prop_assert_eq!(own.len(), consumer.pending_len());
            let wanted = model.iter().filter(|(_, owner)| **owner == *consumer.name());
            prop_assert!(own.iter().eq(wanted.map(|(id, _)| id)));
        }
    }
}

#[test]
fn a_typical_entry_takes_few_bytes() {
    let mut log = EntryLog::default();
    let limits = BlockLimits {
        bytes_max: 4096,
        entries_max: 100,
    };
    let mut time_ms = 1_750_000_000_000;
    for number in 0..10_000u64 {
        time_ms += number % 3;
        let price = format!("{}.{:02}", 100 + number % 50, number % 100);
        let fields = vec![
            (b"price".to_vec(), price.into_bytes()),
            (b"size".to_vec(), (number % 900).to_string().into_bytes()),
        ];
        let last = log.state().last_id;
        let id = StreamId::generate(last, time_ms as i64).expect("ids left");
        assert!(log.append(id, pairs(&fields), limits));
    }
    let bytes = log.memory_bytes(usize::MAX);
    assert!(bytes < 14 * log.len(), "{bytes}");
}
