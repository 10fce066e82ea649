//! A page of many topics: the rows at some positions of an order, found turn by turn.

use std::cmp::Ordering;
use std::collections::HashMap;

use tidewire_rows::json::{text_of, write_text};
use tidewire_rows::request::View as Request;
use tidewire_rows::{Row, RowId, Table};

/// A view of a stream.
#[derive(Debug)]
pub(super) struct View {
    pub(super) number: u64,
    request: Request,
    sort: Sort,
    interval_ns: u64,
    members: Vec<Member>,
    places: HashMap<RowId, u32>,
    /// Members from this one on have the key of another order.
    keyed: usize,
    /// Members that have no value any more.
    gone: usize,
    /// Whether something has changed since the last page.
    has_changed: bool,
    /// Whether the page has asked for the next one.
    wants: bool,
    /// Whether a page was written for this request.
    is_written: bool,
    /// When the view was last looked at, monotonic ns.
    looked_ns: u64,
    search: Option<Search>,
    /// What the last page said.
    order: Vec<u32>,
    total: usize,
}

#[derive(Debug)]
enum Sort {
    Name,
    Updates,
    /// A field, as a JSON string with quotation marks.
    Field(Vec<u8>),
}

/// A topic of the view.
#[derive(Debug)]
struct Member {
    row: RowId,
    key: Key,
    /// Whether it has a value, and its name fits the filter.
    is_shown: bool,
    is_gone: bool,
}

#[derive(Debug)]
enum Key {
    Number(f64),
    Text(Box<[u8]>),
    /// It does not have the field: behind all others.
    Missing,
}

/// The search for the rows of a page.
#[derive(Debug, Default)]
struct Search {
    /// Members looked at.
    at: usize,
    total: usize,
    /// The first ones among them, up to the end of the page.
    found: Vec<u32>,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing to do before this time, monotonic ns; `None` until the page asks.
    Until(Option<u64>),
    /// There is more to do.
    Busy,
    /// A page was written, with so many rows.
    Written(usize),
}

impl View {
    pub(super) fn new(number: u64, request: Request, interval_ns: u64) -> Self {
        Self {
            number,
            sort: Sort::of(&request.sort),
            request,
            interval_ns,
            members: Vec::new(),
            places: HashMap::new(),
            keyed: 0,
            gone: 0,
            has_changed: true,
            wants: true,
            is_written: false,
            looked_ns: 0,
            search: None,
            order: Vec::new(),
            total: 0,
        }
    }

    /// Returns about how many bytes the view takes beside its subscription.
    pub(super) fn memory_bytes(&self) -> usize {
        let member = size_of::<Member>() + size_of::<(RowId, u32)>() + KEY_BYTES;
        let found = self.search.as_ref().map_or(0, |search| search.found.len());
        self.members.len() * member + (found + self.order.len()) * size_of::<u32>()
    }

    /// Returns whether another request for this view needs the same topics and fields.
    pub(super) fn has_topics_of(&self, request: &Request) -> bool {
        let own = &self.request;
        own.topics == request.topics
            && own.fields == request.fields
            && own.is_short == request.is_short
    }

    /// Moves the view to other positions, another order or another filter.
    pub(super) fn move_to(&mut self, request: Request, interval_ns: u64) {
        if self.request.sort != request.sort || self.request.filter != request.filter {
            self.sort = Sort::of(&request.sort);
            self.keyed = 0;
        }
        self.request = request;
        self.interval_ns = interval_ns;
        (self.wants, self.is_written, self.looked_ns) = (true, false, 0);
        self.search = None;
    }

    /// Notes that the page asks for the next one.
    pub(super) fn next(&mut self) {
        self.wants = true;
    }

    /// Does a part of the work. A page is appended to `out`.
    pub(super) fn step(
        &mut self,
        page: usize,
        rows: &mut Table,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Step {
        if !self.wants {
            return Step::Until(None);
        }
        let due_ns = self.looked_ns.saturating_add(self.interval_ns);
        if self.search.is_none() && now_ns < due_ns {
            return Step::Until(Some(due_ns));
        }
        if self.search.is_none() {
            let changed = rows.take_changed((page, self.number), MEMBERS_A_STEP);
            self.has_changed |= !changed.is_empty();
            changed.iter().for_each(|row| self.note(*row, rows));
            if changed.len() == MEMBERS_A_STEP {
                return Step::Busy;
            }
            self.compact();
            if self.key_some(rows) {
                return Step::Busy;
            }
            if self.is_written && !self.has_changed {
                self.looked_ns = now_ns;
                return Step::Until(Some(now_ns.saturating_add(self.interval_ns)));
            }
            self.has_changed = false;
            self.search = Some(Search::default());
        }
        if self.search_some(rows) {
            return Step::Busy;
        }
        let Some(search) = self.search.take() else {
            return Step::Busy;
        };
        self.looked_ns = now_ns;
        self.write(page, rows, &search, out)
    }

    /// Notes a change of a row.
    fn note(&mut self, id: RowId, rows: &Table) {
        let Some(row) = rows.row(id) else {
            return;
        };
        let place = match self.places.get(&id) {
            Some(place) => *place as usize,
            None if !row.exists() => return,
            None => {
                let place = self.members.len();
                self.places.insert(id, place as u32);
                self.members.push(Member {
                    row: id,
                    key: Key::Missing,
                    is_shown: false,
                    is_gone: false,
                });
                if self.keyed == place {
                    self.keyed += 1;
                }
                place
            }
        };
        let member = &mut self.members[place];
        let was_gone = std::mem::replace(&mut member.is_gone, !row.exists());
        self.gone = self.gone + usize::from(member.is_gone) - usize::from(was_gone);
        Self::key(member, row, &self.sort, &self.request.filter);
    }

    fn key(member: &mut Member, row: &Row, sort: &Sort, filter: &[u8]) {
        member.is_shown = row.exists() && has_text(row.name(), filter);
        member.key = match sort {
            Sort::Name => Key::Text(row.name().into()),
            Sort::Updates => Key::Number(row.updates() as f64),
            Sort::Field(name) => row.find(name).map_or(Key::Missing, Key::of),
        };
    }

    /// Gives some members the keys of a new order. Returns whether some are left.
    fn key_some(&mut self, rows: &Table) -> bool {
        let until = self.members.len().min(self.keyed + MEMBERS_A_STEP);
        for member in &mut self.members[self.keyed..until] {
            if let Some(row) = rows.row(member.row) {
                Self::key(member, row, &self.sort, &self.request.filter);
            }
        }
        self.has_changed |= self.keyed < until;
        self.keyed = until;
        self.keyed < self.members.len()
    }

    /// Forgets topics without a value, once they are half of all.
    fn compact(&mut self) {
        if self.gone > self.members.len() / 2 && self.keyed == self.members.len() {
            self.members.retain(|member| !member.is_gone);
            let places = self.members.iter().enumerate();
            self.places = places.map(|(at, one)| (one.row, at as u32)).collect();
            (self.keyed, self.gone) = (self.members.len(), 0);
        }
    }

    /// Looks at some members. Returns whether some are left.
    fn search_some(&mut self, rows: &Table) -> bool {
        let Some(mut search) = self.search.take() else {
            return false;
        };
        let until = self.members.len().min(search.at + MEMBERS_A_STEP);
        for at in search.at..until {
            if self.members[at].is_shown {
                search.found.push(at as u32);
                search.total += 1;
            }
        }
        search.at = until;
        let most = self.request.from.saturating_add(self.request.rows);
        if search.found.len() > most && most > 0 {
            let order = |one: &u32, other: &u32| self.compare(*one, *other, rows);
            search.found.select_nth_unstable_by(most - 1, order);
        }
        search.found.truncate(most);
        let has_more = search.at < self.members.len();
        self.search = Some(search);
        has_more
    }

    fn compare(&self, one: u32, other: u32, rows: &Table) -> Ordering {
        let (one, other) = (&self.members[one as usize], &self.members[other as usize]);
        let by_key = match (&one.key, &other.key) {
            (Key::Number(one), Key::Number(other)) => one.total_cmp(other),
            (Key::Text(one), Key::Text(other)) => one.cmp(other),
            (Key::Missing, Key::Missing) => Ordering::Equal,
            // In both directions: numbers, then texts, then what has no such field.
            (one, other) => return one.rank().cmp(&other.rank()),
        };
        let by_key = match self.request.descending {
            true => by_key.reverse(),
            false => by_key,
        };
        let name = |member: &Member| rows.row(member.row).map(Row::name);
        by_key.then_with(|| name(one).cmp(&name(other)))
    }

    fn write(&mut self, page: usize, rows: &mut Table, search: &Search, out: &mut Vec<u8>) -> Step {
        let mut found = search.found.clone();
        found.sort_unstable_by(|one, other| self.compare(*one, *other, rows));
        let from = self.request.from.min(found.len());
        let ids: Vec<RowId> = found[from..]
            .iter()
            .map(|at| self.members[*at as usize].row)
            .collect();
        let (mut order, mut body) = (Vec::with_capacity(ids.len()), Vec::new());
        let place = (page, self.number);
        let (written, comes_again) = rows.write_view(place, &ids, &mut order, &mut body);
        self.has_changed |= comes_again;
        let is_same = order == self.order && search.total == self.total;
        if self.is_written && is_same && written == 0 {
            return Step::Until(Some(self.looked_ns.saturating_add(self.interval_ns)));
        }
        let (number, total, from) = (self.number, search.total, self.request.from);
        let head = format!("{{\"page\":{number},\"total\":{total},\"from\":{from}");
        out.extend_from_slice(head.as_bytes());
        if !self.is_written || order != self.order {
            let texts: Vec<String> = order.iter().map(u32::to_string).collect();
            out.extend_from_slice(format!(",\"order\":[{}]", texts.join(",")).as_bytes());
        }
        out.extend_from_slice(b",\"rows\":[");
        out.extend_from_slice(&body);
        out.push(b']');
        rows.write_fields(place, out);
        out.push(b'}');
        (self.order, self.total) = (order, total);
        (self.wants, self.is_written) = (false, true);
        Step::Written(written)
    }
}

impl Sort {
    fn of(field: &[u8]) -> Self {
        match field {
            b"name" => Sort::Name,
            b"updates" => Sort::Updates,
            _ => {
                let mut quoted = Vec::new();
                write_text(&mut quoted, field);
                Sort::Field(quoted)
            }
        }
    }
}

impl Key {
    /// Returns the key of a value. A text that is a number counts as one, and `null` as no field:
    /// pages read it so.
    fn of(value: &[u8]) -> Self {
        let text = match value.first() {
            _ if value == b"null" => return Key::Missing,
            Some(b'"') => text_of(value),
            _ => value.to_vec(),
        };
        let number = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse().ok());
        match number {
            Some(number) if f64::is_finite(number) => Key::Number(number),
            _ => Key::Text(text.into()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Number(_) => 0,
            Key::Text(_) => 1,
            Key::Missing => 2,
        }
    }
}

/// Returns whether a name has a text, without case.
fn has_text(name: &[u8], text: &[u8]) -> bool {
    text.is_empty()
        || name
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text))
}

/// About what a member's key takes beside the member, and the room that tables leave.
const KEY_BYTES: usize = 32;
/// Members looked at in one step: about half a millisecond.
const MEMBERS_A_STEP: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_rows::{Selection, Version};

    const SECOND_NS: u64 = 1_000_000_000;

    /// A page with these topics, and a view of it.
    fn view(topics: &[(&str, &str)], request: Request) -> (Table, View) {
        let mut table = Table::new(|_, _| true);
        let selection = Selection::new([&b"*"[..]], None, 10.0);
        table.subscribe_view(0, 2, selection).expect("room");
        for (name, payload) in topics {
            publish(&mut table, name, payload);
        }
        (table, View::new(2, request, SECOND_NS / 10))
    }

    fn publish(table: &mut Table, name: &str, payload: &str) {
        let row = table.update(name.as_bytes(), Version::default(), payload.as_bytes());
        table.mark(0, row);
    }

    fn by(sort: &str, from: usize, rows: usize) -> Request {
        Request {
            topics: vec![b"*".to_vec()],
            sort: sort.into(),
            from,
            rows,
            hz: 10.0,
            ..Request::default()
        }
    }

    /// The next page at this time, if there is one.
    fn page(table: &mut Table, view: &mut View, now_s: u64) -> Option<String> {
        let mut out = Vec::new();
        loop {
            match view.step(0, table, now_s * SECOND_NS, &mut out) {
                Step::Busy => {}
                Step::Until(_) => return None,
                Step::Written(_) => return Some(String::from_utf8(out).expect("UTF-8")),
            }
        }
    }

    #[test]
    fn a_page_is_sorted_and_then_tells_what_has_changed() {
        let topics = [
            ("a", r#"{"v":1}"#),
            ("b", r#"{"v":30}"#),
            ("c", r#"{"v":"4"}"#),
            ("d", "{}"),
        ];
        let (mut table, mut view) = view(&topics, by("v", 0, 2));
        let first = r#"{"page":2,"total":4,"from":0,"order":[1,2],"rows":[[1,"a",{"v":1}],[2,"c",{"v":"4"}]]}"#;
        assert_eq!(page(&mut table, &mut view, 1).as_deref(), Some(first));
        assert_eq!(
            page(&mut table, &mut view, 2),
            None,
            "the page has not asked"
        );
        view.next();
        assert_eq!(page(&mut table, &mut view, 3), None, "nothing has changed");
        publish(&mut table, "b", r#"{"v":2}"#);
        let next = r#"{"page":2,"total":4,"from":0,"order":[1,3],"rows":[[3,"b",{"v":2}]]}"#;
        assert_eq!(page(&mut table, &mut view, 4).as_deref(), Some(next));
        view.next();
        publish(&mut table, "a", r#"{"v":1.5}"#);
        let next = r#"{"page":2,"total":4,"from":0,"rows":[[1,{"v":1.5}]]}"#;
        assert_eq!(page(&mut table, &mut view, 5).as_deref(), Some(next));
    }

    /// It had no fields: they had come with an earlier page.
    #[test]
    fn a_row_that_comes_back_to_the_page_comes_whole() {
        let topics = [("a", r#"{"v":1,"w":"x"}"#), ("b", r#"{"v":2}"#)];
        let (mut table, mut view) = view(&topics, by("name", 0, 1));
        let first = page(&mut table, &mut view, 1).expect("a page");
        assert!(first.ends_with(r#""rows":[[1,"a",{"v":1,"w":"x"}]]}"#));
        for (now_s, from, row) in [
            (2, 1, r#"[2,"b",{"v":2}]"#),
            (3, 0, r#"[1,{"v":1,"w":"x"}]"#),
            (4, 1, r#"[2,{"v":2}]"#),
        ] {
            view.move_to(by("name", from, 1), SECOND_NS / 10);
            let text = page(&mut table, &mut view, now_s).expect("a page");
            assert!(text.ends_with(&format!(r#""rows":[{row}]}}"#)), "{text}");
        }
        view.next();
        publish(&mut table, "b", r#"{"v":3}"#);
        let text = page(&mut table, &mut view, 5).expect("a page");
        assert!(text.ends_with(r#""rows":[[2,{"v":3}]]}"#), "{text}");
    }

    #[test]
    fn the_value_of_a_topic_that_was_gone_between_two_pages_never_came() {
        let (mut table, mut view) = view(&[("a", r#"{"v":1}"#)], by("name", 0, 9));
        page(&mut table, &mut view, 1).expect("a page");
        let row = table.remove(b"a", Version::default());
        table.mark(0, row);
        publish(&mut table, "a", r#"{"w":2}"#);
        view.next();
        let gone = r#"{"page":2,"total":1,"from":0,"rows":[[1,null]]}"#;
        assert_eq!(page(&mut table, &mut view, 2).as_deref(), Some(gone));
        view.next();
        let whole = r#"{"page":2,"total":1,"from":0,"rows":[[1,{"w":2}]]}"#;
        assert_eq!(page(&mut table, &mut view, 3).as_deref(), Some(whole));
        view.next();
        assert_eq!(page(&mut table, &mut view, 4), None, "nothing has changed");
    }

    #[test]
    fn what_lacks_the_field_is_last_in_both_directions() {
        let topics = [
            ("a", "{}"),
            ("b", r#"{"v":1}"#),
            ("c", r#"{"v":"x"}"#),
            ("d", r#"{"v":2}"#),
        ];
        for (descending, expected) in [(false, ["b", "d", "c", "a"]), (true, ["d", "b", "c", "a"])]
        {
            let request = Request {
                descending,
                ..by("v", 0, 9)
            };
            let (mut table, mut view) = view(&topics, request);
            let text = page(&mut table, &mut view, 1).expect("a page");
            let at = expected.map(|name| text.find(&format!("\"{name}\"")).expect("a name"));
            assert!(at.is_sorted(), "{text}");
        }
    }

    #[test]
    fn a_view_moves_and_filters() {
        let topics: Vec<(String, String)> = (0..10_000)
            .map(|n| (format!("T{n:05}"), format!("{{\"v\":{n}}}")))
            .collect();
        let topics: Vec<(&str, &str)> = topics.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        let (mut table, mut view) = view(&topics, by("name", 5_000, 2));
        let text = page(&mut table, &mut view, 1).expect("a page");
        assert!(
            text.contains(r#""total":10000,"from":5000"#)
                && text.contains(r#""T05000",{"v":5000}"#)
        );
        let request = Request {
            filter: b"t0999".to_vec(),
            descending: true,
            ..by("v", 0, 1)
        };
        assert!(view.has_topics_of(&request));
        view.move_to(request, SECOND_NS / 10);
        let text = page(&mut table, &mut view, 1).expect("a page");
        assert!(
            text.contains(r#""total":10,"#) && text.contains(r#""T09999""#),
            "{text}"
        );
        let row = table.remove(b"T09999", Version::default());
        table.mark(0, row);
        view.next();
        let text = page(&mut table, &mut view, 2).expect("a page");
        assert!(
            text.contains(r#""total":9,"#) && text.contains(r#""T09998""#),
            "{text}"
        );
    }

    #[test]
    fn a_field_that_is_null_sorts_as_one_that_is_missing() {
        let topics = [
            ("a", r#"{"v":null}"#),
            ("b", r#"{"v":"null"}"#),
            ("c", r#"{"v":true}"#),
            ("d", r#"{"v":[1]}"#),
            ("e", r#"{"v":7}"#),
            ("f", r#"{"w":1}"#),
            ("g", r#"{"v":9,"v":1}"#),
        ];
        for (descending, names) in [(false, "gedbcaf"), (true, "egcbdaf")] {
            let request = Request {
                descending,
                ..by("v", 0, 9)
            };
            let (mut table, mut view) = view(&topics, request);
            let text = page(&mut table, &mut view, 1).expect("a page");
            let told: String = text
                .split(",\"")
                .skip(1)
                .filter_map(|part| part.get(..2)?.strip_suffix('"'))
                .collect();
            assert_eq!(told, names, "{text}");
        }
    }
}
