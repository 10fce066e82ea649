//! Commands that iterate over names, fields or members: KEYS, SCAN, HSCAN, SSCAN, ZSCAN.

use tidewire_resp::number::DoubleText;
use tidewire_resp::{Arguments, Mark, Writer};

use super::Call;
use super::options::{Words, integer, is};
use crate::entry::Entry;
use crate::error::{CommandError, Result};
use crate::glob;
use crate::key::SHARDS;

use crate::set::Members;
use crate::sorted_set::Scored;
use crate::table::{ScanPosition, Table};
use crate::value::ValueRef;

pub(super) fn keys(call: &mut Call<'_, '_, '_>) -> Result {
    let pattern = call.argument(1);
    let now_ms = call.view.now_ms;
    let mark = call.reply.array_later();
    let mut count = 0;
    for shard in 0..SHARDS {
        let reply = &mut *call.reply;
        call.view.visit(shard, |dictionary| {
            for entry in dictionary.table.iter() {
                let there = entry.deadline_ms().is_none_or(|deadline| deadline > now_ms);
                if there && glob::matches(pattern, entry.key()) {
                    reply.bulk(entry.key());
                    count += 1;
                }
            }
        });
    }
    let mut name = Vec::new();
    for position in 0..call.view.topics() {
        if call.view.topic_name(position, &mut name) && glob::matches(pattern, &name) {
            call.reply.bulk(&name);
            count += 1;
        }
    }
    call.reply.finish(mark, count);
    Ok(())
}

pub(super) fn scan(call: &mut Call<'_, '_, '_>) -> Result {
    let cursor = parse_cursor(call.argument(1))?;
    let options = ScanOptions::parse(call.arguments, 2, Scanned::Keys)?;
    let mut found = FoundNames::default();
    let mut due = FoundNames::default();
    let next = walk(call, cursor, &options, &mut found, &mut due);
    for name in due.iter() {
        let key = call.view.key(name);
        call.view.remove_if_due(key);
    }
    reply_names(call.reply, next, &found);
    Ok(())
}

pub(super) fn hscan(call: &mut Call<'_, '_, '_>) -> Result {
    let cursor = parse_cursor(call.argument(2))?;
    let key = call.key(1);
    let now_ms = call.view.now_ms;
    let Some(fields) = call.view.read_fields(key)? else {
        reply_names(call.reply, 0, &FoundNames::default());
        return Ok(());
    };
    let options = ScanOptions::parse(call.arguments, 3, Scanned::Fields)?;
    let show = |reply: &mut Writer<'_>, field: &[u8], value: &[u8]| {
        if !options.accepts_name(field) {
            return 0;
        }
        reply.bulk(field);
        if options.no_values {
            return 1;
        }
        reply.bulk(value);
        2
    };
    if let Some(table) = fields.table() {
        walk_table(call.reply, table, cursor, options.count, |reply, entry| {
            let there = entry.deadline_ms().is_none_or(|deadline| deadline > now_ms);
            if there {
                show(reply, entry.key(), entry.bytes())
            } else {
                0
            }
        });
    } else {
        let mark = begin_whole(call.reply);
        let count = fields
            .iter()
            .map(|(field, value)| show(call.reply, field, value))
            .sum();
        call.reply.finish(mark, count);
    }
    Ok(())
}

pub(super) fn sscan(call: &mut Call<'_, '_, '_>) -> Result {
    let cursor = parse_cursor(call.argument(2))?;
    let key = call.key(1);
    let Some(members) = call.view.read_members(key)? else {
        reply_names(call.reply, 0, &FoundNames::default());
        return Ok(());
    };
    let options = ScanOptions::parse(call.arguments, 3, Scanned::Members)?;
    let show = |reply: &mut Writer<'_>, member: &[u8]| {
        let accepted = options.accepts_name(member);
        if accepted {
            reply.bulk(member);
        }
        usize::from(accepted)
    };
    if let Members::Table(table) = members {
        walk_table(call.reply, table, cursor, options.count, |reply, entry| {
            show(reply, entry.key())
        });
    } else {
        let mark = begin_whole(call.reply);
        let members = members.iter();
        let count = members
            .map(|member| show(call.reply, member.as_bytes()))
            .sum();
        call.reply.finish(mark, count);
    }
    Ok(())
}

pub(super) fn zscan(call: &mut Call<'_, '_, '_>) -> Result {
    let cursor = parse_cursor(call.argument(2))?;
    let key = call.key(1);
    let Some(scored) = call.view.read_sorted_set(key)? else {
        reply_names(call.reply, 0, &FoundNames::default());
        return Ok(());
    };
    let options = ScanOptions::parse(call.arguments, 3, Scanned::Members)?;
    let large = matches!(scored, Scored::Large(_));
    // The cursor comes first in the reply but is known last.
    let mut found = FoundNames::default();
    let next = scored.scan(cursor, options.count, |member, score| {
        if options.accepts_name(member) {
            found.push(member);
            if large {
                found.push(long_double_text(score).as_bytes());
            } else {
                found.push(DoubleText::new(score).as_bytes());
            }
        }
    });
    reply_names(call.reply, next, &found);
    Ok(())
}

/// Formats a score as Redis does in a scan of a large sorted set: with 17 digits, like C's
/// `%.17Lg`.
fn long_double_text(score: f64) -> String {
    let scientific = format!("{score:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let decimals = (16 - exponent) as usize;
        return trimmed(&format!("{score:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

/// Removes trailing zeros after the decimal point.
fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}

/// Replies the next cursor and the names found.
fn reply_names(reply: &mut Writer<'_>, next: u64, found: &FoundNames) {
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    reply.array(found.ends.len());
    found.iter().for_each(|name| reply.bulk(name));
}

/// Begins the reply of a scan that returns a small collection at once.
fn begin_whole(reply: &mut Writer<'_>) -> Mark {
    reply.array(2);
    reply.bulk(b"0");
    reply.array_later()
}

/// Replies the next cursor and what `show` writes for each entry of the walk. `show` returns how
/// many elements it wrote.
fn walk_table(
    reply: &mut Writer<'_>,
    table: &Table,
    cursor: u64,
    count_wanted: usize,
    mut show: impl FnMut(&mut Writer<'_>, &Entry) -> usize,
) {
    reply.array(2);
    // The cursor and the count come first in the reply, so this walks twice: once to count.
    let mut at = Some(ScanCursor::parse(cursor).position);
    let (mut seen, mut steps) = (0, 0);
    while let Some(position) = at
        && seen < count_wanted
    {
        at = table.scan_step(position, |_| seen += 1);
        steps += 1;
    }
    let next = at.map_or(0, |position| ScanCursor { shard: 0, position }.text());
    reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    let mark = reply.array_later();
    let mut count = 0;
    let mut at = ScanCursor::parse(cursor).position;
    for _ in 0..steps {
        let next = table.scan_step(at, |entry| count += show(reply, entry));
        at = next.unwrap_or_default();
    }
    reply.finish(mark, count);
}

#[derive(Default)]
struct ScanOptions<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    no_values: bool,
}

/// What a command scans. This decides which options are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scanned {
    Keys,
    Fields,
    Members,
}

impl<'a> ScanOptions<'a> {
    fn parse(arguments: Arguments<'a>, from: usize, what: Scanned) -> Result<Self> {
        let mut options = ScanOptions {
            count: 10,
            ..ScanOptions::default()
        };
        let mut words = Words::new(arguments, from);
        while let Some(option) = words.next() {
            if let Some(count) = words.value_of(option, "count") {
                let count = usize::try_from(integer(count)?).ok();
                let count = count.filter(|&count| count > 0);
                options.count = count.ok_or(CommandError::Syntax)?;
            } else if let Some(pattern) = words.value_of(option, "match") {
                options.pattern = (pattern != b"*").then_some(pattern);
            } else if what == Scanned::Keys
                && let Some(name) = words.value_of(option, "type")
            {
                options.type_name = Some(name);
            } else if is(option, "novalues") {
                if what != Scanned::Fields {
                    return Err(CommandError::Refused(NO_VALUES_OF_HASHES));
                }
                options.no_values = true;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    fn accepts(&self, name: &[u8], value: ValueRef<'_>) -> bool {
        self.accepts_name(name) && self.accepts_type(value.value_type().name())
    }

    fn accepts_name(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn accepts_type(&self, name: &str) -> bool {
        self.type_name.is_none_or(|wanted| is(wanted, name))
    }
}

/// A scan's cursor: `shard << 39
/// depth << 34
/// prefix << 12
/// position`. The mounted topics follow the last shard, by number.
#[derive(Clone, Copy)]
struct ScanCursor {
    shard: usize,
    position: ScanPosition,
}

impl ScanCursor {
    fn parse(number: u64) -> Self {
        ScanCursor {
            shard: (number >> SHARD_SHIFT) as usize,
            position: ScanPosition {
                depth: (number >> 34 & 31) as u8,
                prefix: (number >> 12 & 0x3F_FFFF) as u32,
                position: number as u16 & 4095,
            },
        }
    }

    fn text(self) -> u64 {
        (self.shard as u64) << SHARD_SHIFT
            | u64::from(self.position.depth) << 34
            | u64::from(self.position.prefix) << 12
            | u64::from(self.position.position)
    }
}

/// Continues from a cursor until enough names were visited. Returns the next cursor.
fn walk(
    call: &mut Call<'_, '_, '_>,
    cursor: u64,
    options: &ScanOptions<'_>,
    found: &mut FoundNames,
    due: &mut FoundNames,
) -> u64 {
    let mut at = ScanCursor::parse(cursor);
    let (mut seen, mut steps) = (0, 0);
    let now_ms = call.view.now_ms;
    while at.shard < SHARDS {
        let mut position = Some(at.position);
        call.view.visit(at.shard, |dictionary| {
            while let Some(from) = position
                && seen < options.count
            {
                position = dictionary.table.scan_step(from, |entry| {
                    seen += 1;
                    let there = entry.deadline_ms().is_none_or(|deadline| deadline > now_ms);
                    if !there {
                        due.push(entry.key());
                    } else if options.accepts(entry.key(), ValueRef::new(entry)) {
                        found.push(entry.key());
                    }
                });
            }
        });
        // Empty shards count too, so that a nearly empty database does not hold the lane for long.
        steps += 1;
        match position {
            Some(position) => return ScanCursor { position, ..at }.text(),
            None => {
                at = ScanCursor {
                    shard: at.shard + 1,
                    position: ScanPosition::default(),
                }
            }
        }
        if seen >= options.count || steps >= options.count.max(SHARDS) {
            break;
        }
    }
    let topics = call.view.topics();
    if at.shard < SHARDS || seen >= options.count && topics > 0 {
        return at.text();
    }
    let first = if at.shard > SHARDS || cursor >> SHARD_SHIFT == SHARDS as u64 {
        (cursor & TOPIC_MASK) as usize
    } else {
        0
    };
    let end = topics.min(first.saturating_add(options.count - seen.min(options.count)));
    let mut name = Vec::new();
    for position in first..end {
        if options.accepts_type("hash")
            && call.view.topic_name(position, &mut name)
            && options.accepts_name(&name)
        {
            found.push(&name);
        }
    }
    if end < topics {
        (SHARDS as u64) << SHARD_SHIFT | end as u64
    } else {
        0
    }
}

/// Names, one after another.
#[derive(Default)]
struct FoundNames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FoundNames {
    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }
}

fn parse_cursor(argument: &[u8]) -> Result<u64> {
    // Parses like C's strtoull, except for negative numbers, which Redis refuses earlier.
    let text = argument.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    let number = match digits.as_bytes().first() {
        Some(b'0'..=b'9') => digits.parse().ok(),
        _ => None,
    };
    let number: Option<u64> = number.filter(|&number| !is_negative || number == 0);
    number.ok_or(CommandError::InvalidCursor)
}

const NO_VALUES_OF_HASHES: &str = "ERR NOVALUES option can only be used in HSCAN";

const SHARD_SHIFT: u32 = 39;
const TOPIC_MASK: u64 = (1 << SHARD_SHIFT) - 1;
