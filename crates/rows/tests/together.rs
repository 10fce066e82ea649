//! Pages that share a table are told what each is told by a table of its own, and end with the
//! topics as they are, in any order of subscribing, updates, batches, views and leaving.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tidewire_rows::{RowId, Selection, Snapshot, Table, Version};

const PAGES: usize = 9;
const NAMES: usize = 70;
const SECOND_NS: u64 = 1_000_000_000;

type Fields = BTreeMap<String, Value>;
/// A message: what it tells of each topic.
type Told = BTreeMap<String, Option<Fields>>;

/// A subscription as its page sees it.
struct Seen {
    pattern: String,
    fields: Option<Vec<String>>,
    is_view: bool,
    rows: BTreeMap<String, Fields>,
    /// Names of the fields' numbers.
    numbers: HashMap<String, String>,
}

/// A table with some pages, and what they have been told.
struct Side {
    table: Table,
    pages: std::ops::Range<usize>,
    names: HashMap<(usize, u64), String>,
    subs: BTreeMap<(usize, u64), Seen>,
    /// Rows of views, by name.
    members: HashMap<(usize, u64), BTreeMap<String, RowId>>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        let multiplied = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = multiplied.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    name.starts_with(&pattern[..pattern.len() - 1])
}

impl Side {
    fn new(pages: std::ops::Range<usize>) -> Self {
        Self {
            table: Table::new(matches),
            pages,
            names: HashMap::new(),
            subs: BTreeMap::new(),
            members: HashMap::new(),
        }
    }

    fn take(&mut self, name: &str, value: Option<&str>) -> RowId {
        match value {
            Some(value) => {
                let payload = value.as_bytes();
                self.table
                    .update(name.as_bytes(), Version::default(), payload)
            }
            None => self.table.remove(name.as_bytes(), Version::default()),
        }
    }

    /// Notes a topic's value for pages in this order.
    fn publish(&mut self, name: &str, value: Option<&str>, order: &[usize]) {
        let row = self.take(name, value);
        let order = order.iter().filter(|page| self.pages.contains(page));
        order.for_each(|page| self.table.mark(*page, row));
    }

    fn subscribe(&mut self, place: (usize, u64), seen: Seen, is_short: bool) {
        let fields = seen.fields.as_ref();
        let fields = fields.map(|fields| fields.iter().map(|name| name.as_bytes().to_vec()));
        let fields: Option<Vec<Vec<u8>>> = fields.map(Iterator::collect);
        let selection = Selection::new([seen.pattern.as_bytes()], fields.as_deref(), 10.0);
        let selection = selection.short(is_short);
        let begun = match seen.is_view {
            true => self.table.subscribe_view(place.0, place.1, selection),
            false => self.table.subscribe(place.0, place.1, selection),
        };
        begun.expect("room");
        self.members.remove(&place);
        self.subs.insert(place, seen);
    }

    fn unsubscribe(&mut self, place: (usize, u64)) {
        let was = self.table.unsubscribe(place).is_some();
        assert_eq!(was, self.subs.remove(&place).is_some());
    }

    fn leave(&mut self, page: usize) {
        self.table.leave(page);
        self.subs.retain(|place, _| place.0 != page);
        self.names.retain(|place, _| place.0 != page);
    }

    /// Reads a message as its page does.
    fn read(&mut self, place: (usize, u64), message: &[u8]) -> Told {
        let message: Value = serde_json::from_slice(message).expect("JSON");
        let seen = self.subs.get_mut(&place).expect("a subscription");
        if let Some(Value::Object(numbers)) = message.get("fields") {
            for (number, name) in numbers {
                let name = name.as_str().expect("a name").to_owned();
                let known = seen.numbers.insert(number.clone(), name);
                assert!(known.is_none(), "a number is told once");
            }
        }
        let mut told = Told::new();
        for row in message["rows"].as_array().expect("rows") {
            let row = row.as_array().expect("a row");
            let number = (place.0, row[0].as_u64().expect("a number"));
            if row.len() == 3 {
                let name = row[1].as_str().expect("a name").to_owned();
                let known = self.names.insert(number, name);
                assert!(known.is_none(), "a name is told once");
            }
            let name = &self.names[&number];
            let fields = fields_of(&row[row.len() - 1], &seen.numbers);
            match &fields {
                None => drop(seen.rows.remove(name)),
                Some(fields) => {
                    let known = seen.rows.entry(name.clone()).or_default();
                    known.extend(fields.clone());
                    known.retain(|_, value| !value.is_null());
                }
            }
            let before = told.insert(name.clone(), fields);
            assert!(before.is_none(), "a topic is once in a message");
        }
        told
    }

    fn snapshot(&mut self, page: usize) -> Vec<Told> {
        let places: Vec<(usize, u64)> = self.table.snapping().to_vec();
        let mut told = Vec::new();
        for place in places.into_iter().filter(|place| place.0 == page) {
            let mut out = Vec::new();
            if self.table.write_snapshot(place, true, &mut out) != Snapshot::Nothing {
                told.push(self.read(place, &out));
            }
        }
        told
    }

    /// Asks for batches of one page, and returns those that are due of any.
    fn batches(&mut self, page: usize, now_ns: u64) -> BTreeMap<(usize, u64), Told> {
        for number in self.numbers_of(page) {
            assert!(self.table.next((page, number)));
        }
        self.table.collect_due(now_ns);
        let mut told = BTreeMap::new();
        while let Some(place) = self.table.take_ready() {
            let mut out = Vec::new();
            if self.table.write_batch(place, now_ns, &mut out) > 0 {
                let batch = self.read(place, &out);
                assert!(told.insert(place, batch).is_none(), "one batch");
            }
            self.table.collect_due(now_ns);
        }
        told
    }

    fn numbers_of(&self, page: usize) -> Vec<u64> {
        let places = self.subs.keys().filter(|place| place.0 == page);
        places.map(|place| place.1).collect()
    }

    /// Takes what has changed in a page's views, and shows topics whose names end so.
    fn views(&mut self, page: usize, ending: &str) -> Vec<(Vec<String>, Told)> {
        let mut told = Vec::new();
        for place in self.numbers_of(page).into_iter().map(|one| (page, one)) {
            if !self.subs[&place].is_view {
                continue;
            }
            let members = self.members.entry(place).or_default();
            for row in self.table.take_changed(place, usize::MAX) {
                let name = self.table.row(row).expect("a row").name();
                let name = String::from_utf8(name.to_vec()).expect("a name");
                members.insert(name, row);
            }
            let shown = members.iter().filter(|(name, _)| name.ends_with(ending));
            let (names, rows): (Vec<String>, Vec<RowId>) =
                shown.map(|(name, row)| (name.clone(), *row)).unzip();
            let (mut order, mut out) = (Vec::new(), b"{\"rows\":[".to_vec());
            self.table.write_view(place, &rows, &mut order, &mut out);
            out.push(b']');
            self.table.write_fields(place, &mut out);
            out.push(b'}');
            assert!(order.len() <= rows.len());
            let page = self.read(place, &out);
            told.push((names, page));
        }
        told
    }

    /// Checks that the page's subscriptions have the topics as they are.
    fn check(&self, page: usize, topics: &BTreeMap<String, String>) {
        for (place, seen) in self.subs.iter().filter(|(place, _)| place.0 == page) {
            if seen.is_view {
                continue;
            }
            let matching = topics
                .iter()
                .filter(|(name, _)| matches(seen.pattern.as_bytes(), name.as_bytes()));
            let selected = matching.map(|(name, value)| {
                let mut fields: Fields = serde_json::from_str(value).expect("an object");
                let is_selected =
                    |name: &String| seen.fields.as_ref().is_none_or(|some| some.contains(name));
                fields.retain(|name, _| is_selected(name));
                (name.clone(), fields)
            });
            let expected: BTreeMap<String, Fields> = selected.collect();
            assert_eq!(seen.rows, expected, "{place:?}");
        }
    }
}

/// Reads the fields of a row; `None` if it is gone.
fn fields_of(value: &Value, numbers: &HashMap<String, String>) -> Option<Fields> {
    match value {
        Value::Null => None,
        Value::Object(fields) => Some(fields.clone().into_iter().collect()),
        Value::Array(list) => {
            let pairs = list.chunks_exact(2).map(|pair| {
                let name = &numbers[&pair[0].to_string()];
                (name.clone(), pair[1].clone())
            });
            Some(pairs.collect())
        }
        other => panic!("{other}"),
    }
}

/// The hub's side: the topics, and the values that pages are owed.
struct Scene {
    random: Random,
    topics: BTreeMap<String, String>,
    owed: Vec<(usize, String)>,
    /// One table for each page, and one for all of them.
    alone: Vec<Side>,
    together: Side,
    now_ns: u64,
    messages: usize,
}

impl Scene {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            topics: BTreeMap::new(),
            owed: Vec::new(),
            alone: (0..PAGES).map(|page| Side::new(page..page + 1)).collect(),
            together: Side::new(0..PAGES),
            now_ns: SECOND_NS,
            messages: 0,
        }
    }

    fn both(&mut self, page: usize) -> [&mut Side; 2] {
        [&mut self.alone[page], &mut self.together]
    }

    /// Compares what a page is told by both tables.
    fn tell<T: PartialEq + std::fmt::Debug>(
        &mut self,
        page: usize,
        tell: impl Fn(&mut Side) -> Vec<T>,
    ) {
        let [alone, together] = self.both(page).map(tell);
        assert_eq!(together, alone, "page {page}");
        self.messages += alone.len();
    }

    /// A page asks for batches. Others that have asked before may get theirs.
    fn batches(&mut self, page: usize) {
        let now_ns = self.now_ns;
        let alone = self.alone.iter_mut();
        let alone: BTreeMap<(usize, u64), Told> =
            alone.flat_map(|side| side.batches(page, now_ns)).collect();
        assert_eq!(self.together.batches(page, now_ns), alone);
        self.messages += alone.len();
    }

    fn publish(&mut self) {
        let name = format!("md:{}", self.random.below(NAMES));
        let value = (self.random.below(12) > 0).then(|| {
            let mut fields = vec![format!("\"bid\":{}", self.random.below(4))];
            for name in ["ask", "size"] {
                if self.random.below(8) > 0 {
                    fields.push(format!("\"{name}\":{}", self.random.below(3)));
                }
            }
            format!("{{{}}}", fields.join(","))
        });
        // Mostly in one order; a page that is busy gets the current value later.
        let mut order: Vec<usize> = (0..PAGES).collect();
        if self.random.below(8) == 0 {
            order.rotate_left(self.random.below(PAGES));
            order.swap(0, self.random.below(PAGES));
        }
        if self.random.below(5) == 0 {
            let page = order.remove(self.random.below(PAGES));
            self.owed.push((page, name.clone()));
        }
        if self.random.below(9) == 0 {
            order.push(order[self.random.below(order.len())]);
        }
        for side in self.alone.iter_mut().chain([&mut self.together]) {
            side.publish(&name, value.as_deref(), &order);
        }
        match value {
            Some(value) => drop(self.topics.insert(name, value)),
            None => drop(self.topics.remove(&name)),
        }
    }

    fn subscribe(&mut self, page: usize) {
        let number = 1 + self.random.below(3) as u64;
        let pattern = ["md:*", "md:1*", "md:3*", "md:6*"][self.random.below(4)];
        let fields = (self.random.below(3) == 0).then(|| vec!["bid".to_owned(), "size".to_owned()]);
        let is_view = self.random.below(4) == 0;
        let is_short = self.random.below(2) == 0;
        for side in self.both(page) {
            let seen = Seen {
                pattern: pattern.to_owned(),
                fields: fields.clone(),
                is_view,
                rows: BTreeMap::new(),
                numbers: HashMap::new(),
            };
            side.subscribe((page, number), seen, is_short);
        }
        let names = self.topics.keys();
        let names = names.filter(|name| matches(pattern.as_bytes(), name.as_bytes()));
        self.owed.extend(names.map(|name| (page, name.clone())));
    }

    /// Notes current values that pages are owed.
    fn pay(&mut self, most: usize) {
        for _ in 0..most.min(self.owed.len()) {
            let (page, name) = self.owed.swap_remove(self.random.below(self.owed.len()));
            let value = self.topics.get(&name).cloned();
            for side in self.both(page) {
                side.publish(&name, value.as_deref(), &[page]);
            }
        }
    }

    fn sweep(&mut self) {
        for side in self.alone.iter_mut().chain([&mut self.together]) {
            while side.table.sweep() {}
        }
    }

    fn step(&mut self) {
        self.now_ns += SECOND_NS;
        let page = self.random.below(PAGES);
        let number = 1 + self.random.below(3) as u64;
        match self.random.below(100) {
            0..50 => self.publish(),
            50..55 => self.subscribe(page),
            55..58 => {
                let sides = self.both(page).into_iter();
                sides.for_each(|side| side.unsubscribe((page, number)));
            }
            58 => {
                let sides = self.both(page).into_iter();
                sides.for_each(|side| side.leave(page));
                self.owed.retain(|(owed, _)| *owed != page);
            }
            59..70 => self.pay(20),
            70..75 => self.sweep(),
            75..80 => self.tell(page, |side| side.snapshot(page)),
            80..90 => {
                let ending = self.random.below(10);
                let ending = ending.to_string();
                self.tell(page, |side| side.views(page, &ending));
            }
            _ => self.batches(page),
        }
    }

    /// Tells all pages all that has changed, and compares what they know with the topics.
    fn settle(&mut self) {
        self.pay(usize::MAX);
        self.sweep();
        for page in 0..PAGES {
            self.tell(page, |side| side.snapshot(page));
            for _ in 0..3 {
                self.now_ns += SECOND_NS;
                self.batches(page);
            }
            self.alone[page].check(page, &self.topics);
            self.together.check(page, &self.topics);
            let [one, other] = [&self.alone[page], &self.together];
            assert_eq!(one.table.behind(page), other.table.behind(page));
        }
    }
}

#[test]
fn pages_are_told_the_same_together_and_alone_and_end_with_what_is() {
    let mut messages = 0;
    for seed in 0..20 {
        let mut scene = Scene::new(seed);
        for step in 1..=4_000 {
            scene.step();
            if step % 500 == 0 {
                scene.settle();
            }
        }
        for page in 0..PAGES {
            let sides = scene.both(page).into_iter();
            sides.for_each(|side| side.leave(page));
        }
        scene.sweep();
        for side in scene.alone.iter().chain([&scene.together]) {
            assert!(side.table.is_empty(), "no topic without a page");
            // Texts that pages share are kept for the next ones.
            let kept = if side.pages.len() > 1 { 64 << 10 } else { 0 };
            assert!(side.table.memory_bytes() <= kept);
        }
        messages += scene.messages;
    }
    assert!(messages > 10_000, "{messages} messages");
}

/// The page got a number without a name when the topic came back.
#[test]
fn a_topic_that_went_while_a_view_was_sorted_comes_back_with_its_name() {
    let mut table = Table::new(matches);
    let selection = Selection::new([&b"md:*"[..]], None, 10.0);
    table.subscribe_view(0, 1, selection).expect("room");
    let row = table.update(b"md:A", Version::default(), br#"{"bid":1}"#);
    table.mark(0, row);
    let rows = table.take_changed((0, 1), 9);
    let gone = table.remove(b"md:A", Version::default());
    table.mark(0, gone);
    let (mut order, mut out) = (Vec::new(), Vec::new());
    table.write_view((0, 1), &rows, &mut order, &mut out);
    assert!(order.is_empty() && out.is_empty(), "{order:?}");
    let row = table.update(b"md:A", Version::default(), br#"{"bid":2}"#);
    table.mark(0, row);
    table.write_view((0, 1), &rows, &mut order, &mut out);
    assert_eq!(out, br#"[1,"md:A",{"bid":2}]"#);
    assert_eq!(order, [1]);
}
