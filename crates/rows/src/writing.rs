//! Messages with rows: snapshots and batches.

use crate::follower::{Follower, Sub};
use crate::row::Row;
use crate::table::{Place, RowId, Snapshot, Table};
use crate::texts::{Look, Texts};

/// What became of a row in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Written,
    /// It is told to be gone, and comes again with the next message.
    Again,
}

impl Table {
    /// Writes the next part of a subscription's first values, up to a limit. `is_last` tells that
    /// all of them are known. Nothing is written while few are known and more may come.
    pub fn write_snapshot(&mut self, place: Place, is_last: bool, out: &mut Vec<u8>) -> Snapshot {
        let as_of = self.clock;
        let Some(sub) = self.sub(place) else {
            return Snapshot::Nothing;
        };
        let is_last = is_last && sub.adopting.is_empty();
        if !sub.is_snapping || !is_last && sub.dirty.len() < PART_ROWS {
            return Snapshot::Nothing;
        }
        out.extend_from_slice(b"{\"snap\":");
        write_number(out, place.1);
        out.extend_from_slice(b",\"as_of\":");
        write_number(out, as_of);
        out.extend_from_slice(b",\"rows\":[");
        self.write_rows(place, PART_ROWS, PART_BYTES, out);
        let is_complete = is_last && self.sub(place).is_none_or(|sub| sub.dirty.is_empty());
        out.push(b']');
        self.write_fields(place, out);
        if is_complete {
            out.push(b'}');
            self.end_snapshot(place);
            return Snapshot::Complete;
        }
        out.extend_from_slice(b",\"more\":true}");
        Snapshot::Part
    }

    /// Writes a batch of what has changed. Returns the number of rows; without any, nothing is
    /// written, and the page still waits.
    pub fn write_batch(&mut self, place: Place, now_ns: u64, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(b"{\"batch\":");
        write_number(out, place.1);
        out.extend_from_slice(b",\"rows\":[");
        let rows = self.write_rows(place, BATCH_ROWS, BATCH_BYTES, out);
        if rows == 0 {
            out.truncate(start);
            // Only fields that the page did not ask for have changed.
            self.wake(place);
            return 0;
        }
        out.push(b']');
        self.write_fields(place, out);
        out.push(b'}');
        if let Some(sub) = self.sub(place) {
            sub.wants = false;
            sub.written_ns = now_ns;
        }
        rows
    }

    /// Appends the member `fields` of a message, if its rows have numbers of fields that the page
    /// has not been told.
    pub fn write_fields(&mut self, place: Place, out: &mut Vec<u8>) {
        if let Some(sub) = self.sub(place) {
            sub.write_fresh(out);
        }
    }

    /// Takes up to `most` rows of a view that have changed or are new, each once.
    pub fn take_changed(&mut self, place: Place, most: usize) -> Vec<RowId> {
        let Some(sub) = self.sub(place) else {
            return Vec::new();
        };
        let count = sub.dirty.len().min(most);
        let changed = (0..count).map_while(|_| {
            let slot = sub.take_dirty()?;
            Some(RowId(sub.told[slot as usize].row))
        });
        changed.collect()
    }

    /// Returns a row.
    pub fn row(&self, row: RowId) -> Option<&Row> {
        self.rows.get(row.0 as usize)?.as_ref()
    }

    /// Writes what the page does not know of these rows of a view, and appends the number of each
    /// row in the page's messages to `order`. A row that has left the page comes whole when it is
    /// there again. Returns the number of rows written, and whether one
    /// of them is told to be gone only to come whole with the next page.
    pub fn write_view(
        &mut self,
        (page, number): Place,
        rows: &[RowId],
        order: &mut Vec<u32>,
        out: &mut Vec<u8>,
    ) -> (usize, bool) {
        let Some(Some(follower)) = self.followers.get_mut(page) else {
            return (0, false);
        };
        let Some(at) = follower.subs.iter().position(|sub| sub.number == number) else {
            return (0, false);
        };
        let mut subs = std::mem::take(&mut follower.subs);
        let sub = &mut subs[at];
        let (mut written, mut comes_again) = (0, false);
        for id in rows {
            let Some(Some(row)) = self.rows.get(id.0 as usize) else {
                continue;
            };
            let Some(slot) = sub.slot(id.0) else {
                continue;
            };
            let before = out.len();
            if written > 0 {
                out.push(b',');
            }
            // A row with a change keeps its mark: its new value may change its place, of which the
            // view is to be told.
            let shared = (self.clock, &mut self.texts);
            let step = write_row(follower, sub, (slot, row), shared, out);
            match step {
                Step::Nothing => out.truncate(before),
                Step::Written | Step::Again => written += 1,
            }
            comes_again |= step == Step::Again;
            // A number is given with the name: a topic that went before the page knew it has none.
            let number = sub.told[slot as usize].number;
            if number != 0 {
                order.push(number);
            }
        }
        sub.show(rows.iter().map(|row| row.0).collect());
        follower.subs = subs;
        (written, comes_again)
    }

    fn write_rows(
        &mut self,
        (page, number): Place,
        rows_max: usize,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(Some(follower)) = self.followers.get_mut(page) else {
            return 0;
        };
        let Some(at) = follower.subs.iter().position(|sub| sub.number == number) else {
            return 0;
        };
        // Out of the page meanwhile, whose numbers the rows need.
        let mut subs = std::mem::take(&mut follower.subs);
        let sub = &mut subs[at];
        let (start, mut rows, mut again) = (out.len(), 0, Vec::new());
        let mut looked_at = 0;
        while rows < rows_max
            && looked_at < LOOKED_AT_MAX
            && out.len() - start < bytes_max
            && let Some(slot) = sub.take_dirty()
        {
            looked_at += 1;
            let id = sub.told[slot as usize].row as usize;
            let row = self.rows.get(id).and_then(Option::as_ref);
            debug_assert!(row.is_some(), "a page keeps its rows");
            let Some(row) = row else { continue };
            let before = out.len();
            if rows > 0 {
                out.push(b',');
            }
            let shared = (self.clock, &mut self.texts);
            match write_row(follower, sub, (slot, row), shared, out) {
                Step::Nothing => out.truncate(before),
                Step::Written => rows += 1,
                Step::Again => {
                    rows += 1;
                    again.push(slot);
                }
            }
        }
        for slot in again {
            sub.mark(slot);
        }
        follower.subs = subs;
        rows
    }
}

fn write_row(
    follower: &mut Follower,
    sub: &mut Sub,
    (slot, row): (u32, &Row),
    (clock, texts): (u64, &mut Texts),
    out: &mut Vec<u8>,
) -> Step {
    let told = &mut sub.told[slot as usize];
    let (seen, id) = (told.seen, told.row);
    let is_forgotten = row.exists && seen != 0 && row.forgotten > seen;
    if !row.exists || is_forgotten {
        told.seen = 0;
        if seen == 0 {
            return Step::Nothing;
        }
        debug_assert!(told.number != 0, "a row that the page knows has a number");
        out.push(b'[');
        write_number(out, told.number.into());
        out.extend_from_slice(b",null]");
        return match is_forgotten {
            true => Step::Again,
            false => Step::Written,
        };
    }
    if seen >= row.changed {
        return Step::Nothing;
    }
    told.seen = clock;
    let start = out.len();
    // It keeps its number as long as a subscription has it.
    let is_new = told.number == 0 && {
        let (number, is_new) = follower.number_of(id);
        told.number = number;
        is_new
    };
    out.push(b'[');
    write_number(out, told.number.into());
    if is_new {
        out.push(b',');
        crate::json::write_text(out, &row.name);
    }
    let has_any = match seen != 0 && row.followers > 1 && row.removed.is_empty() {
        true => write_shared_changes(sub, (id, row), seen, texts, out),
        false => write_changes(sub, row, seen, out),
    };
    if !has_any && seen != 0 {
        out.truncate(start);
        return Step::Nothing;
    }
    Step::Written
}

/// Writes the fields that a page does not know as [`write_changes`] does, with a text that was
/// written for another page, if there is one.
fn write_shared_changes(
    sub: &mut Sub,
    (id, row): (u32, &Row),
    seen: u64,
    texts: &mut Texts,
    out: &mut Vec<u8>,
) -> bool {
    if let Some(text) = texts.find(id, row.changed, seen, sub.look(&row.shape)) {
        out.extend_from_slice(text);
        return !text.is_empty();
    }
    let before = out.len();
    let has_any = write_changes(sub, row, seen, out);
    if !has_any {
        out.truncate(before);
    }
    // The same fields are news to each page that knows a change in this range.
    let changes = row.fields.iter().map(|(_, changed)| *changed);
    let first = changes.clone().filter(|changed| *changed <= seen).max();
    let last = changes.filter(|changed| *changed > seen).min();
    let range = first.unwrap_or(0).max(1)..last.unwrap_or(row.changed);
    debug_assert!(range.contains(&seen), "the text is for this page");
    texts.keep(id, row.changed, range, sub.look(&row.shape), &out[before..]);
    has_any
}

/// Writes the fields of a row that changed behind the change `seen`, as its last member, and ends
/// the row. Returns whether there are any.
fn write_changes(sub: &mut Sub, row: &Row, seen: u64, out: &mut Vec<u8>) -> bool {
    let Look { is_short, columns } = sub.look(&row.shape).clone();
    out.extend_from_slice(if is_short { b",[" } else { b",{" });
    let before = out.len();
    let is_news = |field: usize| row.fields[field].1 > seen;
    match columns {
        None => {
            let fields = (0..row.fields.len()).filter(|field| is_news(*field));
            fields.for_each(|field| write_field(out, row, field, None, before));
        }
        Some(columns) => {
            let columns = columns.iter().filter(|column| is_news(column.at as usize));
            columns.for_each(|column| {
                let number = is_short.then_some(column.number);
                write_field(out, row, column.at as usize, number, before);
            });
        }
    }
    for (name, changed) in &row.removed {
        if seen != 0 && *changed > seen && sub.selects(name) {
            let number = is_short.then(|| sub.number_of(name));
            write_name(out, name, number, before);
            out.extend_from_slice(b"null");
        }
    }
    let has_any = out.len() > before;
    out.extend_from_slice(if is_short { b"]]" } else { b"}]" });
    has_any
}

#[inline]
fn write_field(
    out: &mut Vec<u8>,
    row: &Row,
    field: usize,
    number: Option<Option<u32>>,
    before: usize,
) {
    write_name(out, &row.shape.names[field], number, before);
    out.extend_from_slice(row.value(field));
}

/// Writes what is in front of a value: the field's name, or in a list of short rows its number,
/// or its name there if it has none.
#[inline]
fn write_name(out: &mut Vec<u8>, name: &[u8], number: Option<Option<u32>>, before: usize) {
    if out.len() > before {
        out.push(b',');
    }
    match number {
        None => {
            out.extend_from_slice(name);
            return out.push(b':');
        }
        Some(None) => out.extend_from_slice(name),
        Some(Some(number)) => write_number(out, number.into()),
    }
    out.push(b',');
}

pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Rows of a part of a snapshot.
const PART_ROWS: usize = 1_000;
/// Bytes after which a part of a snapshot ends.
const PART_BYTES: usize = 256 << 10;
/// Maximum rows of a batch; the next one has the others.
const BATCH_ROWS: usize = 4_096;
/// Bytes after which a batch ends.
const BATCH_BYTES: usize = 512 << 10;
/// Rows looked at for one message.
const LOOKED_AT_MAX: usize = 8_192;
