//! Generates random commands; the same seed gives the same commands.

use super::forms::{EVERYWHERE, TABLES, WAITING};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The words of a command.
pub(crate) type Words = Vec<Vec<u8>>;

/// Encodes commands as a client sends them.
pub(crate) fn encoded(commands: &[Words]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in commands {
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// A command, or a whole transaction, that one connection sends without interruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The connection that sends it.
    pub(crate) connection: usize,
    /// The group of keys that it uses; `None` for keys of all groups.
    pub(crate) group: Option<usize>,
    pub(crate) commands: Vec<Words>,
}

/// The forms to generate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The version of Redis whose forms are included: its first two numbers.
    pub(crate) version: (u32, u32),
    /// Known commands in lower case; all if empty.
    pub(crate) commands: Rc<BTreeSet<String>>,
}

impl Wanted {
    /// Returns a filter that accepts all forms.
    pub(crate) fn newest() -> Self {
        Self {
            version: (u32::MAX, 0),
            ..Self::default()
        }
    }

    /// Returns the form without its mark, if it is accepted.
    fn of<'a>(&self, form: &'a str) -> Option<&'a str> {
        let (needed, form) = match (form.strip_prefix("8 "), form.strip_prefix("8.6 ")) {
            (Some(form), _) => ((8, 0), form),
            (_, Some(form)) => ((8, 6), form),
            (None, None) => ((0, 0), form),
        };
        if self.version < needed {
            return None;
        }
        let name = form.split(' ').next().unwrap_or_default().to_lowercase();
        (self.commands.is_empty() || self.commands.contains(&name)).then_some(form)
    }
}

/// A generator of steps.
#[derive(Debug)]
pub(crate) struct Generator {
    random: Random,
    wanted: Wanted,
    /// The connection whose turn it is.
    connection: usize,
}

impl Generator {
    pub(crate) fn new(seed: u64, wanted: &Wanted) -> Self {
        Self {
            random: Random::new(seed),
            wanted: wanted.clone(),
            connection: 0,
        }
    }

    pub(crate) fn step(&mut self) -> Step {
        if self.random.is_one_in(TURN_STEPS) {
            self.connection = self.random.below(CONNECTIONS);
        }
        let connection = self.connection;
        if self.random.is_one_in(100) {
            let form = self.random.pick(EVERYWHERE);
            let group = self.random.below(GROUPS);
            return Step {
                connection,
                group: None,
                commands: vec![self.fill(form, "string", group)],
            };
        }
        let group = self.random.below(GROUPS);
        let commands = if self.random.is_one_in(20) {
            self.transaction(group)
        } else {
            vec![self.command(group)]
        };
        Step {
            connection,
            group: Some(group),
            commands,
        }
    }

    fn transaction(&mut self, group: usize) -> Vec<Words> {
        let mut commands = Vec::new();
        if self.random.is_one_in(4) {
            commands.push(self.fill("WATCH K J", "string", group));
            if self.random.is_one_in(3) {
                commands.push(self.command(group));
            }
        }
        commands.push(vec![b"MULTI".to_vec()]);
        for _ in 0..self.random.below(6) {
            let (name, forms) = self.random.pick(WAITING);
            let form = self.wanted.of(self.random.pick(forms));
            let command = match form.filter(|_| self.random.is_one_in(4)) {
                Some(form) => self.fill(form, name, group),
                None => self.command(group),
            };
            commands.push(command);
        }
        if self.random.is_one_in(30) {
            commands.push(vec![b"GET".to_vec()]);
        }
        let last: &[u8] = if self.random.is_one_in(10) {
            b"DISCARD"
        } else {
            b"EXEC"
        };
        commands.push(vec![last.to_vec()]);
        commands
    }

    fn command(&mut self, group: usize) -> Words {
        let (table, form) = loop {
            let table = self.random.pick(TABLES);
            if let Some(form) = self.wanted.of(self.random.pick(table.forms)) {
                break (table, form);
            }
        };
        self.fill(form, table.name, group)
    }

    fn fill(&mut self, form: &str, of: &str, group: usize) -> Words {
        let mut words = Vec::new();
        for token in form.split(' ') {
            let repeated = token
                .rsplit_once('*')
                .and_then(|(letters, count)| Some((letters, count.parse::<usize>().ok()?)));
            let (letters, count) = repeated.unwrap_or((token, 1));
            for _ in 0..count {
                for letter in letters.split(',') {
                    self.word(letter, of, group, count > 1, &mut words);
                }
            }
        }
        words
    }

    fn word(&mut self, letter: &str, of: &str, group: usize, many: bool, words: &mut Words) {
        let random = &mut self.random;
        let word = match letter {
            "K" if !is_alone(of) && random.is_one_in(12) => any_key(random, group),
            "K" => key(random, of, group),
            "J" => any_key(random, group),
            "V" => value(random),
            "F" => member(random, many),
            "S" => random
                .pick(&["0", "1", "2", "3", "5", "-1", "-3"])
                .to_string(),
            "#S" => format!("#{}", random.below(9)),
            "I" => integer(random, many),
            "G" => {
                let longitude = random.below(3_600_000) as f64 / 10_000.0 - 180.0;
                let latitude = random.below(1_700_000) as f64 / 10_000.0 - 85.0;
                words.push(format!("{longitude:.4}").into_bytes());
                format!("{latitude:.4}")
            }
            "D" | "(D" => {
                let prefix = if letter == "D" { "" } else { "(" };
                format!("{prefix}{}-{}", random.below(24), random.below(4))
            }
            "W" => score(random),
            "R" => bound(random),
            "B" => {
                let bits = 1 + random.below(13);
                random.below(1 << bits).to_string()
            }
            "Y" => {
                let sign = random.pick(&["i", "u"]);
                format!("{sign}{}", 1 + random.below(63))
            }
            _ => {
                let choice = CHOICES.iter().find(|(name, _)| *name == letter);
                choice
                    .map_or(letter, |(_, words)| random.pick(words))
                    .to_owned()
            }
        };
        words.push(word.into_bytes());
    }
}

fn any_key(random: &mut Random, group: usize) -> String {
    let name = loop {
        let name = random.pick(TABLES).name;
        if !is_alone(name) {
            break name;
        }
    };
    key(random, name, group)
}

fn is_alone(name: &str) -> bool {
    TABLES.iter().any(|table| table.alone && table.name == name)
}

fn key(random: &mut Random, of: &str, group: usize) -> String {
    format!("{of}:{}", group * KEYS_EACH + random.below(KEYS_EACH))
}

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => integer(random, false),
        1 => score(random),
        // Lengths around the limits of small encodings.
        2 => "v".repeat([1, 11, 12, 43, 44, 45, 63, 64, 65, 200][random.below(10)]),
        _ => random.pick(VALUES).to_string(),
    }
}

/// Returns one of few names, so that commands meet each other's members. With `many` there are
/// enough names for large encodings.
fn member(random: &mut Random, many: bool) -> String {
    if many || random.is_one_in(8) {
        return format!("m{}", random.below(400));
    }
    random
        .pick(&[
            "f", "g", "h", "i", "1", "2", "3", "-7", "007", "", "x y", "70000",
        ])
        .to_string()
}

fn integer(random: &mut Random, many: bool) -> String {
    let number = match random.below(if many { 4 } else { 8 }) {
        0 => random.below(100_000) as i64 - 50_000,
        1..=3 => random.below(600) as i64,
        4..=6 => random.below(6) as i64,
        _ => return random.pick(NUMBERS).to_string(),
    };
    number.to_string()
}

fn score(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.pick(SCORES).to_string(),
        1 => (random.below(2_000) as f64 / 8.0 - 100.0).to_string(),
        _ => (random.below(20) as i64 - 4).to_string(),
    }
}

fn bound(random: &mut Random) -> String {
    let score = match random.below(10) {
        0 => return "-inf".into(),
        1 => return "+inf".into(),
        2 => return "(x".into(),
        _ => score(random),
    };
    let prefix = random.pick(&["", "("]);
    format!("{prefix}{score}")
}

/// The SplitMix64 generator.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Number of connections that take turns.
pub(crate) const CONNECTIONS: usize = 4;
/// Average number of steps in a connection's turn: a pipeline.
const TURN_STEPS: usize = 24;
/// Number of groups of keys. Few commands use keys of two groups, so a history can be shortened by
/// key.
const GROUPS: usize = 12;
/// Keys of each type in a group.
const KEYS_EACH: usize = 3;

const CHOICES: &[(&str, &[&str])] = &[
    ("N", NUMBERS),
    ("X", &["-", "+", "[f", "(g", "[m2", "(m30", "[", "x"]),
    (
        "E",
        &[
            "0",
            "-1",
            "-5",
            "100000000",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "1.5",
        ],
    ),
    ("T", &["4102444800", "4102444801", "5000000000"]),
    ("P", &["4102444800000", "4102444800001", "5000000000000"]),
    ("Q", &["g1", "g2"]),
    ("C", &["alice", "bob"]),
    ("U", &["m", "km", "mi", "ft"]),
    (
        "M",
        &["*", "m?", "*1*", "[a-h]*", "hash:*", "\\*", "nothing"],
    ),
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-5",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "x",
    "1.5",
];
const SCORES: &[&str] = &[
    "0",
    "-0",
    "1e3",
    "-2.5e-3",
    "3.14159",
    "0.1",
    "inf",
    "-inf",
    "1e6",
    "1048576.5",
    "0.30000000000000004",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "10",
    "007",
    "-0",
    "+5",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "3.14",
    "1e3",
    "abc",
    "",
    " 1",
    "nan",
    "inf",
    "a value of seventeen",
    "hello world",
    "line\r\nend",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_steps() {
        let steps = |seed| {
            let mut generator = Generator::new(seed, &Wanted::default());
            (0..2_000).map(|_| generator.step()).collect::<Vec<_>>()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn no_place_of_a_form_is_left_open() {
        let wanted = Wanted::newest();
        let mut generator = Generator::new(1, &wanted);
        for _ in 0..20_000 {
            for words in generator.step().commands {
                for word in &words[1..] {
                    let is_open = word.len() == 1 && word[0].is_ascii_uppercase();
                    assert!(!is_open, "{words:?}");
                }
            }
        }
    }

    #[test]
    fn commands_that_a_server_lacks_are_left_out() {
        let wanted = Wanted {
            version: (7, 2),
            commands: Rc::new(["hset", "hpexpireat"].map(str::to_owned).into()),
        };
        let mut generator = Generator::new(1, &wanted);
        for _ in 0..100 {
            assert_eq!(generator.command(0)[0], b"HSET");
        }
    }
}
