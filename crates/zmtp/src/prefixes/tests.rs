use super::{Insertion, PrefixTable, Removal};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn matched(table: &PrefixTable<u32>, topic: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    table.matches(topic, &mut |subscriber| found.push(subscriber));
    found.sort_unstable();
    found
}

#[test]
fn a_subscriber_is_matched_once_however_many_of_its_prefixes_match() {
    let mut table = PrefixTable::new();
    assert_eq!(table.insert(b"", 1), Insertion::FirstOfPrefix);
    assert_eq!(table.insert(b"md:", 1), Insertion::FirstOfPrefix);
    assert_eq!(table.insert(b"md:", 2), Insertion::FirstOfSubscriber);
    assert_eq!(table.insert(b"md:AAPL", 1), Insertion::FirstOfPrefix);
    assert_eq!(matched(&table, b"md:AAPL"), [1, 2]);
    assert_eq!(matched(&table, b"md"), [1]);
    assert_eq!(matched(&table, b""), [1]);
    assert_eq!((table.len(), table.prefix_count()), (4, 3));
}

#[test]
fn shorter_prefixes_are_left_out_on_request() {
    let mut table = PrefixTable::new();
    let topic = b"md:A-LONG-SYMBOL-OF-30-BYTES@XNAS";
    for length in 0..=topic.len() {
        table.insert(&topic[..length], length as u32);
        table.insert(&topic[..length], 1_000);
    }
    table.insert(b"md:A-LONG-OTHER", 2_000);
    for length_min in 0..=topic.len() + 1 {
        let mut found = Vec::new();
        table.matches_from(topic, length_min, &mut |subscriber| found.push(subscriber));
        let lengths = length_min as u32..=topic.len() as u32;
        let every = (length_min <= topic.len()).then_some(1_000);
        assert_eq!(found, lengths.chain(every).collect::<Vec<_>>());
        assert_eq!(table.covers_from(topic, length_min), every.is_some());
    }
}

#[test]
fn subscriptions_are_counted() {
    let mut table = PrefixTable::new();
    table.insert(b"A", 1);
    assert_eq!(table.insert(b"A", 1), Insertion::Again);
    assert_eq!(table.remove(b"A", 1), Removal::StillCounted);
    assert_eq!(table.remove(b"A", 2), Removal::NotFound);
    assert_eq!(table.remove(b"AB", 1), Removal::NotFound);
    assert!(table.covers(b"A"));
    assert_eq!(table.remove(b"A", 1), Removal::LastOfPrefix);
    assert!(!table.covers(b"A"));
    table.insert(b"A", 1);
    table.insert(b"A", 1);
    assert_eq!(table.remove_pair(b"A", 1), Removal::LastOfPrefix);
    assert!(table.is_empty());
}

#[test]
fn more_than_eight_nested_prefixes_still_match_each_subscriber_once() {
    let mut table = PrefixTable::new();
    let topic = [b'x'; 100];
    for length in 0..100 {
        table.insert(&topic[..length], 7);
        table.insert(&topic[..length], 1000 - length as u32);
    }
    assert_eq!(matched(&table, &topic).len(), 101);
}

/// libzmq's GHSA-qq65-x72m-9wr8: removal recursed once per byte of the topic.
#[test]
fn a_topic_of_a_million_bytes_does_not_exhaust_the_stack() {
    let topic = vec![b'a'; 1_000_000];
    let mut table = PrefixTable::new();
    for length in (0..topic.len()).step_by(1000) {
        table.insert(&topic[..length], 1);
    }
    assert_eq!(matched(&table, &topic), [1]);
    let mut ended = 0;
    table.remove_subscriber(1, &mut |_| ended += 1);
    assert_eq!((ended, table.len()), (1000, 0));
}

#[test]
fn a_million_subscriptions_are_found_and_leave_with_their_subscribers() {
    let mut table = PrefixTable::new();
    for number in 0..1_000_000u32 {
        table.insert(format!("md:{number:07}").as_bytes(), number % 10);
    }
    assert_eq!(table.prefix_count(), 1_000_000);
    assert_eq!(matched(&table, b"md:0123456:bid"), [6]);
    for subscriber in 0..10 {
        table.remove_subscriber(subscriber, &mut |_| {});
    }
    assert!(table.is_empty());
}

type Model = BTreeMap<Vec<u8>, BTreeMap<u32, u32>>;

#[derive(Debug, Clone)]
enum Action {
    Insert(Vec<u8>, u32),
    Remove(Vec<u8>, u32),
    RemovePair(Vec<u8>, u32),
    RemoveSubscriber(u32),
}

/// Few letters, and lengths close to that of a label, so that prefixes split and join.
fn prefix() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(b'a'..=b'b', 0..5),
        2 => (prop::collection::vec(b'a'..=b'b', 0..3), 10..40usize).prop_map(|(end, length)| {
            let mut bytes = vec![b'z'; length];
            bytes.extend(end);
            bytes
        }),
        2 => any::<u8>().prop_map(|octet| vec![octet]),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (prefix(), 0..6u32).prop_map(|(prefix, who)| Action::Insert(prefix, who)),
        3 => (prefix(), 0..6u32).prop_map(|(prefix, who)| Action::Remove(prefix, who)),
        1 => (prefix(), 0..6u32).prop_map(|(prefix, who)| Action::RemovePair(prefix, who)),
        1 => (0..6u32).prop_map(Action::RemoveSubscriber),
    ]
}

/// Returns the model's result of removing `taken` counts.
fn remove_from(model: &mut Model, prefix: &[u8], who: u32, taken: u32) -> Removal {
    let Some(subscribers) = model.get_mut(prefix) else {
        return Removal::NotFound;
    };
    let Some(count) = subscribers.get_mut(&who) else {
        return Removal::NotFound;
    };
    *count = count.saturating_sub(taken);
    if *count > 0 {
        return Removal::StillCounted;
    }
    subscribers.remove(&who);
    if !subscribers.is_empty() {
        return Removal::LastOfSubscriber;
    }
    model.remove(prefix);
    Removal::LastOfPrefix
}

fn apply(table: &mut PrefixTable<u32>, model: &mut Model, action: Action) {
    match action {
        Action::Insert(prefix, who) => {
            let subscribers = model.entry(prefix.clone()).or_default();
            let expected = match (subscribers.is_empty(), subscribers.contains_key(&who)) {
                (true, _) => Insertion::FirstOfPrefix,
                (_, false) => Insertion::FirstOfSubscriber,
                _ => Insertion::Again,
            };
            *subscribers.entry(who).or_default() += 1;
            assert_eq!(table.insert(&prefix, who), expected);
        }
        Action::Remove(prefix, who) => {
            assert_eq!(
                table.remove(&prefix, who),
                remove_from(model, &prefix, who, 1)
            );
        }
        Action::RemovePair(prefix, who) => {
            let expected = remove_from(model, &prefix, who, u32::MAX);
            assert_eq!(table.remove_pair(&prefix, who), expected);
        }
        Action::RemoveSubscriber(who) => {
            let mut ended = BTreeSet::new();
            table.remove_subscriber(who, &mut |prefix| assert!(ended.insert(prefix.to_vec())));
            let mut expected = BTreeSet::new();
            for prefix in model.keys().cloned().collect::<Vec<_>>() {
                if remove_from(model, &prefix, who, u32::MAX) == Removal::LastOfPrefix {
                    expected.insert(prefix);
                }
            }
            assert_eq!(ended, expected);
        }
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_map(
        actions in prop::collection::vec(action(), 0..120),
        topics in prop::collection::vec(prefix(), 8),
    ) {
        let mut table = PrefixTable::new();
        let mut model = Model::new();
        for action in actions {
            apply(&mut table, &mut model, action);
            prop_assert_eq!(table.prefix_count(), model.len());
            prop_assert_eq!(table.len(), model.values().map(BTreeMap::len).sum::<usize>());
        }
        let mut spelled = BTreeMap::new();
        table.for_each_prefix(&mut |prefix, count| {
            spelled.insert(prefix.to_vec(), count);
        });
        let expected: BTreeMap<_, _> =
            model.iter().map(|(prefix, who)| (prefix.clone(), who.len())).collect();
        prop_assert_eq!(spelled, expected);
        for topic in topics.iter().chain(model.keys()) {
            let wanted: BTreeSet<u32> = model
                .iter()
                .filter(|(prefix, _)| topic.starts_with(prefix))
                .flat_map(|(_, who)| who.keys().copied())
                .collect();
            prop_assert_eq!(matched(&table, topic), wanted.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(table.covers(topic), !wanted.is_empty());
        }
    }
}
