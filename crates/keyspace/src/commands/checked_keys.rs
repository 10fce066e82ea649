//! Tests that every command touches exactly the keys that access control checks, with random
//! requests generated from the command's syntax.

use std::collections::BTreeMap;

use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};

use super::syntax::generator::request;
use super::{Command, Group, Locks, Run, resolve, sort_patterns, table};
use crate::keyspace::{Keyspace, Options, Outcome};
use crate::observer::NullObserver;
use crate::view::touched::{self, Touched};

#[test]
fn every_command_touches_the_keys_that_are_checked_and_no_others() {
    let mut equal = BTreeMap::<&str, usize>::new();
    let mut beyond = BTreeMap::<&str, String>::new();
    let all = table::with_parts().iter();
    for command in all.filter(|command| matches!(command.run, Run::Data(_))) {
        if command.direct.is_some() {
            assert!(command.keys[0].is_one_key() && command.keys.len() == 1);
        }
        // One generator per command, so that another command in the table changes nothing here.
        let mut random = Random(command.full_name.bytes().fold(0x5EED, |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        }));
        for round in 0..ROUNDS_MAX {
            let is_enough = equal.get(command.full_name).is_some_and(|&times| times > 0);
            if round >= ROUNDS && (is_enough || NEVER_DONE.contains(&command.full_name)) {
                break;
            }
            for &kind in kinds_of(command) {
                let keyspace = filled(kind);
                let words = request(command, KEYS, &mut |below| random.below(below));
                let times = equal.entry(command.full_name).or_default();
                match Trial::new(&keyspace, command, &words).run() {
                    Ok(is_equal) => *times += usize::from(is_equal),
                    Err(text) => drop(beyond.insert(command.full_name, text)),
                }
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
    for name in NEVER_DONE {
        assert_eq!(equal.remove(name), Some(0), "{name}");
    }
    let never: Vec<_> = equal.iter().filter(|(_, times)| **times == 0).collect();
    assert!(
        never.is_empty(),
        "some checked keys of these commands were never touched: {never:?}"
    );
}

/// Regression test: each of these requests got past the check. It has an option twice, and the last
/// one counts.
#[test]
fn the_key_of_an_option_that_comes_twice_is_the_one_that_is_checked() {
    let cases = [
        (
            "GEORADIUS a 1 1 100 km STORE b STORE secret",
            &["a", "secret"][..],
        ),
        (
            "GEORADIUS a 1 1 100 km STORE b STOREDIST secret",
            &["a", "secret"],
        ),
        (
            "GEORADIUS a 1 1 100 km STORE STOREDIST STOREDIST secret",
            &["a", "secret"],
        ),
        (
            "GEORADIUSBYMEMBER a 1 100 km STOREDIST b STORE secret ASC",
            &["a", "secret"],
        ),
        (
            "GEORADIUSBYMEMBER a 1 100 km STORE secret COUNT 1",
            &["a", "secret"],
        ),
        ("SORT a STORE b STORE secret", &["a", "secret"]),
        ("SORT a STORE secret BY store", &["a", "secret"]),
        ("SORT a STORE secret GET store ASC", &["a", "secret"]),
        ("SORT a LIMIT 0 1 STORE secret BY nosort", &["a", "secret"]),
        (
            "XREADGROUP COUNT 5 GROUP streams b STREAMS secret >",
            &["secret"],
        ),
        (
            "XREADGROUP NOACK GROUP streams streams STREAMS secret >",
            &["secret"],
        ),
        (
            "XREAD COUNT 5 STREAMS streams streams 0 0",
            &["streams", "streams"],
        ),
        ("MIGRATE host 1 b 0 1 AUTH keys COPY", &["b"]),
        (
            "MIGRATE host 1 '' 0 1 AUTH2 keys keys KEYS secret keys",
            &["secret", "keys"],
        ),
    ];
    for (line, expected) in cases {
        let request: ArgumentList = line
            .split(' ')
            .map(|word| word.trim_matches('\''))
            .collect();
        let arguments = request.as_arguments();
        let command = resolve(arguments).unwrap();
        let keys = command.keys_with_flags(arguments).into_iter();
        let keys: Vec<_> = keys.map(|(at, _)| arguments[at].to_vec()).collect();
        let keys: Vec<_> = keys
            .iter()
            .map(|key| std::str::from_utf8(key).unwrap())
            .collect();
        assert_eq!(keys, expected, "{line}");
    }
}

struct Trial<'t> {
    keyspace: &'t Keyspace,
    command: &'static Command,
    words: &'t [String],
    request: ArgumentList,
}

impl<'t> Trial<'t> {
    fn new(keyspace: &'t Keyspace, command: &'static Command, words: &'t [String]) -> Self {
        Trial {
            keyspace,
            command,
            words,
            request: words.iter().collect(),
        }
    }

    /// Returns whether the request was valid and touched all checked keys. Returns an error if it
    /// touched another key, or changed a key that was checked for reading.
    fn run(&self) -> Result<bool, String> {
        let arguments = self.request.as_arguments();
        // Without its second word, a request may mean another command.
        if !resolve(arguments).is_ok_and(|command| std::ptr::eq(command, self.command)) {
            return Ok(false);
        }
        touched::take();
        let outcome = execute(self.keyspace, self.command, arguments);
        let touched = touched::take();
        let checked = checked(self.command, arguments);
        if self.walks() {
            return Ok(matches!(outcome, Outcome::Done));
        }
        for (key, is_changed) in &touched {
            let allowed = checked.get(key);
            let (key, words) = (String::from_utf8_lossy(key), &self.words);
            if allowed.is_none() {
                return Err(format!("{words:?} touches '{key}', which is not checked"));
            }
            let keeps_value = KEEP_VALUES.contains(&self.command.name);
            if *is_changed && allowed == Some(&false) && !keeps_value {
                return Err(format!("{words:?} changes '{key}', checked for reading"));
            }
        }
        // A command may stop early, as LMPOP does at the first key with elements, but not every
        // time.
        Ok(matches!(outcome, Outcome::Done) && touched.keys().eq(checked.keys()))
    }

    /// Returns whether it may touch any key: it requires the right to all keys, or returns only
    /// names.
    fn walks(&self) -> bool {
        match self.command.name {
            "sort" | "sort_ro" => sort_patterns(self.request.as_arguments()).names_keys,
            _ => {
                let is_walk = matches!(self.command.locks, Locks::All | Locks::Sweep);
                is_walk && self.command.keys.is_empty()
            }
        }
    }
}

/// Returns the keys that access control checks, and whether for writing.
fn checked(command: &'static Command, arguments: Arguments<'_>) -> Touched {
    let mut keys = Touched::new();
    let with_flags = command.keys_with_flags(arguments);
    if let Some(only) = command.only_key_with_flags(arguments) {
        assert_eq!(with_flags, [only], "{}", command.full_name);
    }
    for (at, flags) in with_flags {
        let writes = |word| matches!(word, "insert" | "delete" | "update");
        *keys.entry(arguments[at].to_vec()).or_default() |= flags.split(' ').any(writes);
    }
    keys
}

fn execute(keyspace: &Keyspace, command: &'static Command, arguments: Arguments<'_>) -> Outcome {
    let mut reply = Vec::new();
    let mut reply = Writer::new(&mut reply, Protocol::Resp3);
    keyspace.execute(command, arguments, 0, NOW_MS, &mut reply, &mut NullObserver)
}

/// Returns the value types with which a command is tried.
fn kinds_of(command: &Command) -> &'static [ValueKind] {
    match (command.name, command.group) {
        ("sort" | "sort_ro", _) => &[ValueKind::List, ValueKind::Set],
        (_, Group::Hash) => &[ValueKind::Hash],
        (_, Group::List) => &[ValueKind::List],
        (_, Group::Set) => &[ValueKind::Set],
        (_, Group::SortedSet | Group::Geo) => &[ValueKind::SortedSet],
        (_, Group::Stream) => &[ValueKind::Stream],
        (_, Group::HyperLogLog) => &[ValueKind::HyperLogLog],
        _ => &[ValueKind::String],
    }
}

#[derive(Clone, Copy)]
enum ValueKind {
    String,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    HyperLogLog,
}

/// Fills half of the keys with a value of this type.
fn filled(kind: ValueKind) -> Keyspace {
    let keyspace = Keyspace::new(Options::default());
    for key in KEYS.iter().step_by(2) {
        let lines: &[&str] = match kind {
            ValueKind::String => &["SET $ 10"],
            ValueKind::Hash => &["HSET $ a 1 1 2 get 3 store 4"],
            ValueKind::List => &["RPUSH $ 1 2 10 5"],
            ValueKind::Set => &["SADD $ 1 2 10 5"],
            ValueKind::SortedSet => &["GEOADD $ 1 1 a 1.1 1.1 1 1.2 1.2 store"],
            ValueKind::HyperLogLog => &["PFADD $ 1 2 10"],
            ValueKind::Stream => &[
                "XADD $ 1-1 f v",
                "XADD $ 2-1 f v",
                "XGROUP CREATE $ streams 0",
                "XGROUP CREATE $ group 0",
                "XREADGROUP GROUP group g COUNT 1 STREAMS $ >",
            ],
        };
        for line in lines {
            let words = line
                .split(' ')
                .map(|word| if word == "$" { key } else { word });
            let request: ArgumentList = words.collect();
            let command = resolve(request.as_arguments()).unwrap();
            let outcome = execute(&keyspace, command, request.as_arguments());
            assert!(matches!(outcome, Outcome::Done), "{line}: {outcome:?}");
        }
    }
    keyspace
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

/// Some are also words of commands: `SORT src STORE secret BY store`.
const KEYS: &[&str] = &[
    "a",
    "b",
    "store",
    "STREAMS",
    "streams",
    "storedist",
    "keys",
    "get",
    "by",
    "count",
    "group",
    "limit",
    "KEYS",
    "STORE",
];
const ROUNDS: usize = 60;
/// Maximum number of rounds until one has touched all of the command's keys.
const ROUNDS_MAX: usize = 2_000;
/// PFCOUNT stores the estimate in the key, and PFDEBUG converts the encoding: neither changes what
/// clients read.
const KEEP_VALUES: [&str; 2] = ["pfcount", "pfdebug"];
/// They require a payload of DUMP, or the ID of an entry that is there. The keys touched before
/// they fail are compared anyway.
const NEVER_DONE: [&str; 3] = ["restore", "restore-asking", "xidmprecord"];
const NOW_MS: i64 = 1_750_000_000_000;
