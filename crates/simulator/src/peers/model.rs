//! What a writer's keys must be: a small Redis of one client.

use std::collections::{BTreeMap, BTreeSet};

use tidewire_resp::Value;

/// The keys of one writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    keys: BTreeMap<Vec<u8>, Key>,
}

/// A key's value, and whether it has a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    item: Item,
    has_deadline: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    SortedSet(BTreeMap<Vec<u8>, i64>),
    Stream(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A command as words.
pub(crate) type Words = Vec<Vec<u8>>;

impl Model {
    /// Executes a command of those that writers use; returns the reply.
    pub(crate) fn execute(&mut self, words: &[Vec<u8>]) -> Value {
        let key = words[1].clone();
        match (words[0].as_slice(), &words[2..]) {
            // Each key has its database: it says nothing of keys.
            (b"SELECT", []) => Value::Simple(b"OK".to_vec()),
            (b"SET", [value]) => {
                let item = Item::Text(value.clone());
                let has_deadline = false;
                self.keys.insert(key, Key { item, has_deadline });
                Value::Simple(b"OK".to_vec())
            }
            (b"DEL", []) => Value::Integer(i64::from(self.keys.remove(&key).is_some())),
            (b"EXPIRE", [_]) => self.set_deadline(&key, true),
            (b"PERSIST", []) => self.set_deadline(&key, false),
            (b"INCRBY", [by]) => {
                let text = self.text(key);
                let sum = number(text) + number(by);
                *text = sum.to_string().into_bytes();
                Value::Integer(sum)
            }
            (b"APPEND", [more]) => {
                let text = self.text(key);
                text.extend_from_slice(more);
                Value::Integer(text.len() as i64)
            }
            (b"GET", []) => match self.keys.get(&key) {
                Some(Key {
                    item: Item::Text(text),
                    ..
                }) => Value::Bulk(text.clone()),
                _ => Value::NullBulk,
            },
            (b"RPUSH", more) => {
                let list = self.list(key);
                list.extend_from_slice(more);
                Value::Integer(list.len() as i64)
            }
            (b"LPOP", []) => self.pop(&key),
            (b"HSET", [field, value]) => {
                let hash = self.hash(key);
                let is_new = hash.insert(field.clone(), value.clone()).is_none();
                Value::Integer(i64::from(is_new))
            }
            (b"HDEL", [field]) => self.remove(&key, field),
            (b"SADD", [member]) => {
                let is_new = self.set(key).insert(member.clone());
                Value::Integer(i64::from(is_new))
            }
            (b"SREM" | b"ZREM", [member]) => self.remove(&key, member),
            (b"ZINCRBY", [by, member]) => {
                let score = self.sorted_set(key).entry(member.clone()).or_default();
                *score += number(by);
                Value::Bulk(score.to_string().into_bytes())
            }
            (b"XADD", [id, _field, value]) => {
                self.stream(key).push((id.clone(), value.clone()));
                Value::Bulk(id.clone())
            }
            (other, _) => unreachable!("no writer uses {}", other.escape_ascii()),
        }
    }

    /// The number that a text holds.
    pub(crate) fn number_of(&self, key: &[u8]) -> Option<u64> {
        match self.keys.get(key) {
            Some(Key {
                item: Item::Text(text),
                ..
            }) => Some(number(text) as u64),
            _ => None,
        }
    }

    /// Takes a key as a query has shown it: its type's query, and its time to live.
    pub(crate) fn note(&mut self, key: &[u8], shown: &Value, deadline: &Value) {
        let item = match (suffix(key), shown) {
            (_, Value::Bulk(text)) => Item::Text(text.clone()),
            (b"list", Value::Array(list)) if !list.is_empty() => Item::List(texts(list)),
            (b"hash", Value::Array(list)) if !list.is_empty() => {
                Item::Hash(pairs(&texts(list)).collect())
            }
            (b"set", Value::Array(list)) if !list.is_empty() => {
                Item::Set(texts(list).into_iter().collect())
            }
            (b"zset", Value::Array(list)) if !list.is_empty() => {
                let texts = texts(list);
                let scores = pairs(&texts).map(|(member, score)| (member, number(&score)));
                Item::SortedSet(scores.collect())
            }
            (b"stream", Value::Array(list)) if !list.is_empty() => {
                Item::Stream(list.iter().map(entry).collect())
            }
            _ => return,
        };
        let has_deadline = matches!(deadline, Value::Integer(0..));
        self.keys.insert(key.to_vec(), Key { item, has_deadline });
    }

    /// In which keys two models differ, for reports.
    pub(crate) fn difference(&self, other: &Model) -> String {
        let keys: BTreeSet<_> = self.keys.keys().chain(other.keys.keys()).collect();
        let differing = keys
            .into_iter()
            .filter(|key| self.keys.get(*key) != other.keys.get(*key));
        let told = differing.map(|key| {
            let (ours, theirs) = (self.keys.get(key), other.keys.get(key));
            format!("{}: {ours:?} against {theirs:?}", key.escape_ascii())
        });
        told.collect::<Vec<_>>().join("; ")
    }

    fn set_deadline(&mut self, key: &[u8], on: bool) -> Value {
        let Some(key) = self.keys.get_mut(key) else {
            return Value::Integer(0);
        };
        let had = std::mem::replace(&mut key.has_deadline, on);
        Value::Integer(i64::from(on || had))
    }

    fn pop(&mut self, key: &[u8]) -> Value {
        let Some(Key {
            item: Item::List(list),
            ..
        }) = self.keys.get_mut(key)
        else {
            return Value::NullBulk;
        };
        let first = list.remove(0);
        if list.is_empty() {
            self.keys.remove(key);
        }
        Value::Bulk(first)
    }

    fn remove(&mut self, key: &[u8], member: &[u8]) -> Value {
        let (was_there, is_empty) = match self.keys.get_mut(key).map(|key| &mut key.item) {
            Some(Item::Hash(hash)) => (hash.remove(member).is_some(), hash.is_empty()),
            Some(Item::Set(set)) => (set.remove(member), set.is_empty()),
            Some(Item::SortedSet(set)) => (set.remove(member).is_some(), set.is_empty()),
            _ => (false, false),
        };
        if is_empty {
            self.keys.remove(key);
        }
        Value::Integer(i64::from(was_there))
    }

    fn item(&mut self, key: Vec<u8>, empty: Item) -> &mut Item {
        let key = self.keys.entry(key).or_insert(Key {
            item: empty,
            has_deadline: false,
        });
        &mut key.item
    }

    fn text(&mut self, key: Vec<u8>) -> &mut Vec<u8> {
        match self.item(key, Item::Text(Vec::new())) {
            Item::Text(text) => text,
            other => unreachable!("a text is {other:?}"),
        }
    }

    fn list(&mut self, key: Vec<u8>) -> &mut Vec<Vec<u8>> {
        match self.item(key, Item::List(Vec::new())) {
            Item::List(list) => list,
            other => unreachable!("a list is {other:?}"),
        }
    }

    fn hash(&mut self, key: Vec<u8>) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        match self.item(key, Item::Hash(BTreeMap::new())) {
            Item::Hash(hash) => hash,
            other => unreachable!("a hash is {other:?}"),
        }
    }

    fn set(&mut self, key: Vec<u8>) -> &mut BTreeSet<Vec<u8>> {
        match self.item(key, Item::Set(BTreeSet::new())) {
            Item::Set(set) => set,
            other => unreachable!("a set is {other:?}"),
        }
    }

    fn sorted_set(&mut self, key: Vec<u8>) -> &mut BTreeMap<Vec<u8>, i64> {
        match self.item(key, Item::SortedSet(BTreeMap::new())) {
            Item::SortedSet(set) => set,
            other => unreachable!("a sorted set is {other:?}"),
        }
    }

    fn stream(&mut self, key: Vec<u8>) -> &mut Vec<(Vec<u8>, Vec<u8>)> {
        match self.item(key, Item::Stream(Vec::new())) {
            Item::Stream(entries) => entries,
            other => unreachable!("a stream is {other:?}"),
        }
    }
}

/// The command that shows a key of a type, which the end of its name tells.
pub(crate) fn query(key: &[u8]) -> Words {
    let words: &[&[u8]] = match suffix(key) {
        b"list" => &[b"LRANGE", key, b"0", b"-1"],
        b"hash" => &[b"HGETALL", key],
        b"set" => &[b"SMEMBERS", key],
        b"zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        b"stream" => &[b"XRANGE", key, b"-", b"+"],
        _ => &[b"GET", key],
    };
    words.iter().map(|word| word.to_vec()).collect()
}

/// The database that a key is in, which the end of its name tells.
pub(crate) fn database(key: &[u8]) -> usize {
    match suffix(key) {
        b"number" | b"hash" | b"stream" => ELSEWHERE,
        _ => 0,
    }
}

fn suffix(key: &[u8]) -> &[u8] {
    key.rsplit(|&byte| byte == b':').next().unwrap_or_default()
}

pub(crate) fn number(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or_default()
}

fn text(value: &Value) -> Vec<u8> {
    match value {
        Value::Bulk(text) => text.clone(),
        other => unreachable!("a text is {other:?}"),
    }
}

fn texts(list: &[Value]) -> Vec<Vec<u8>> {
    list.iter().map(text).collect()
}

fn pairs(list: &[Vec<u8>]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let (pairs, _) = list.as_chunks::<2>();
    pairs
        .iter()
        .map(|[one, other]| (one.clone(), other.clone()))
}

/// The database of keys that are not in the first one.
const ELSEWHERE: usize = 3;

/// Id and value of a stream's entry.
fn entry(shown: &Value) -> (Vec<u8>, Vec<u8>) {
    match shown {
        Value::Array(parts) => match parts.as_slice() {
            [id, Value::Array(fields)] => (text(id), fields.last().map(text).unwrap_or_default()),
            other => unreachable!("an entry is {other:?}"),
        },
        other => unreachable!("an entry is {other:?}"),
    }
}
