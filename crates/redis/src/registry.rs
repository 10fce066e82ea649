//! The form of the table of counters. A counter is declared once: its name in INFO, how it is read,
//! and its name, kind and help on the page of metrics. INFO, the page and `tidewire watch` are
//! made from the declarations; none of them has a list of its own.
//!
//! A table belongs to a [`Source`]: what one look at the source has found is kept in its
//! [`Source::Look`], so that counters that come from one computation agree.

mod page;
pub use page::Page;

use std::fmt::{Debug, Display, Formatter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_lane::LaneCounters;

/// What a table of counters reads.
pub trait Source: 'static {
    /// One look at the source.
    type Look<'a>;

    /// The lanes whose own counters are added up.
    fn lanes<'a>(look: &'a Self::Look<'_>) -> &'a [Arc<LaneCounters>];
}

/// Some counters under a heading of INFO.
pub struct Section<S: Source> {
    /// The heading.
    pub name: &'static str,
    /// When INFO shows it.
    pub shown: Shown,
    /// In the order of INFO.
    pub counters: &'static [Counter<S>],
}

/// When INFO shows a section that is not asked for by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Unless other sections are asked for.
    Default,
    /// If all sections are asked for.
    WithAll,
    /// Never.
    Never,
}

/// A counter, or another figure.
pub struct Counter<S: Source> {
    /// Its name in INFO; empty if INFO does not show it.
    name: &'static str,
    read: Read<S>,
    /// INFO shows it while this holds.
    condition: Option<fn(&S::Look<'_>) -> bool>,
    metric: Option<Metric>,
    /// Its name in the document of `tidewire watch`; empty if that does not show it.
    watched: &'static str,
}

/// How a counter is read, and of what form it is.
enum Read<S: Source> {
    Fixed(&'static str),
    Count(fn(&S::Look<'_>) -> u64),
    Size(fn(&S::Look<'_>) -> usize),
    Signed(fn(&S::Look<'_>) -> i64),
    Atomic(for<'a> fn(&'a S::Look<'_>) -> &'a AtomicU64),
    Flag(fn(&S::Look<'_>) -> bool),
    Status(fn(&S::Look<'_>) -> bool),
    Decimal(usize, fn(&S::Look<'_>) -> f64),
    Bytes(fn(&S::Look<'_>) -> u64),
    Time(Unit, fn(&S::Look<'_>) -> u64),
    Text(fn(&S::Look<'_>) -> String),
    Lanes(fn(&LaneCounters) -> &AtomicU64),
    LanesTime(Unit, fn(&LaneCounters) -> &AtomicU64),
    Lines(fn(&S::Look<'_>, &mut String)),
    Series(fn(&S::Look<'_>, &str, &mut Page)),
}

/// A counter that `tidewire watch` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its section in INFO.
    pub section: &'static str,
    /// Its name in INFO.
    pub name: &'static str,
    /// Its name in the document of `watch`; `a.b` is the part `b` of the object `a`.
    pub shown_as: &'static str,
}

/// In what INFO shows a time. On the page all times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Unit {
    /// As it is read.
    Nanoseconds = 1,
    /// 1,000 ns.
    Microseconds = 1_000,
    /// 1,000,000 ns.
    Milliseconds = 1_000_000,
    /// 1,000,000,000 ns.
    Seconds = 1_000_000_000,
}

/// A series on the page of metrics.
#[derive(Clone, Copy, Debug)]
struct Metric {
    /// Series stand on the page by ascending place, those of all tables together; the series of
    /// one metric follow each other.
    place: u16,
    /// counter, gauge, histogram or summary.
    kind: &'static str,
    name: &'static str,
    /// That of the metric's first series counts.
    help: &'static str,
    label: Option<(&'static str, &'static str)>,
}

impl<S: Source> Counter<S> {
    const fn new(name: &'static str, read: Read<S>) -> Self {
        Self {
            name,
            read,
            condition: None,
            metric: None,
            watched: "",
        }
    }

    /// A field that never changes here, and that tools look for.
    pub const fn fixed(name: &'static str, text: &'static str) -> Self {
        Self::new(name, Read::Fixed(text))
    }

    /// A number that is computed.
    pub const fn count(name: &'static str, read: fn(&S::Look<'_>) -> u64) -> Self {
        Self::new(name, Read::Count(read))
    }

    /// The number of things that are there.
    pub const fn size(name: &'static str, read: fn(&S::Look<'_>) -> usize) -> Self {
        Self::new(name, Read::Size(read))
    }

    /// A number that may be negative.
    pub const fn signed(name: &'static str, read: fn(&S::Look<'_>) -> i64) -> Self {
        Self::new(name, Read::Signed(read))
    }

    /// A word that is counted in.
    pub const fn atomic(
        name: &'static str,
        read: for<'a> fn(&'a S::Look<'_>) -> &'a AtomicU64,
    ) -> Self {
        Self::new(name, Read::Atomic(read))
    }

    /// 1 or 0.
    pub const fn flag(name: &'static str, read: fn(&S::Look<'_>) -> bool) -> Self {
        Self::new(name, Read::Flag(read))
    }

    /// `ok` or `err` in INFO, 1 or 0 on the page.
    pub const fn status(name: &'static str, read: fn(&S::Look<'_>) -> bool) -> Self {
        Self::new(name, Read::Status(read))
    }

    /// A number with `digits` behind the point in INFO.
    pub const fn decimal(name: &'static str, digits: usize, read: fn(&S::Look<'_>) -> f64) -> Self {
        Self::new(name, Read::Decimal(digits, read))
    }

    /// Bytes; INFO shows them a second time, in units of 1,024, under `NAME_human`.
    pub const fn bytes(name: &'static str, read: fn(&S::Look<'_>) -> u64) -> Self {
        Self::new(name, Read::Bytes(read))
    }

    /// A time that is read in nanoseconds; INFO shows whole `unit`s.
    pub const fn time(name: &'static str, unit: Unit, read: fn(&S::Look<'_>) -> u64) -> Self {
        Self::new(name, Read::Time(unit, read))
    }

    /// Something else than a number.
    pub const fn text(name: &'static str, read: fn(&S::Look<'_>) -> String) -> Self {
        Self::new(name, Read::Text(read))
    }

    /// A counter of each lane: added up in INFO, a series each on the page.
    pub const fn lanes(name: &'static str, read: fn(&LaneCounters) -> &AtomicU64) -> Self {
        Self::new(name, Read::Lanes(read))
    }

    /// A time of each lane, which counts nanoseconds.
    pub const fn lanes_time(
        name: &'static str,
        unit: Unit,
        read: fn(&LaneCounters) -> &AtomicU64,
    ) -> Self {
        Self::new(name, Read::LanesTime(unit, read))
    }

    /// Lines of INFO whose number or names depend on what is there.
    pub const fn lines(write: fn(&S::Look<'_>, &mut String)) -> Self {
        Self::new("", Read::Lines(write))
    }

    /// A metric whose series depend on what is there.
    pub const fn series(write: fn(&S::Look<'_>, &str, &mut Page)) -> Self {
        Self::new("", Read::Series(write))
    }

    /// INFO shows it only while `condition` holds.
    pub const fn when(mut self, condition: fn(&S::Look<'_>) -> bool) -> Self {
        assert!(self.condition.is_none(), "a counter has one condition");
        self.condition = Some(condition);
        self
    }

    /// On the page it is a counter.
    pub const fn counter(self, place: u16, name: &'static str) -> Self {
        self.metric(place, "counter", name)
    }

    /// On the page it is a gauge.
    pub const fn gauge(self, place: u16, name: &'static str) -> Self {
        self.metric(place, "gauge", name)
    }

    /// On the page it is at `place`, and of a kind: counter, gauge, histogram or summary.
    pub const fn metric(mut self, place: u16, kind: &'static str, name: &'static str) -> Self {
        assert!(self.metric.is_none(), "a counter has one metric");
        assert!(!name.is_empty(), "a metric has a name");
        self.metric = Some(Metric {
            place,
            kind,
            name,
            help: "",
            label: None,
        });
        self
    }

    /// What the page says of the metric that was named.
    pub const fn help(mut self, help: &'static str) -> Self {
        let Some(metric) = &mut self.metric else {
            panic!("only a metric has a help text");
        };
        metric.help = help;
        self
    }

    /// The label of this series of the metric that was named.
    pub const fn label(mut self, name: &'static str, value: &'static str) -> Self {
        let Some(metric) = &mut self.metric else {
            panic!("only a metric has a label");
        };
        metric.label = Some((name, value));
        self
    }

    /// `tidewire watch` shows it under `name`.
    pub const fn watched(mut self, name: &'static str) -> Self {
        assert!(self.watched.is_empty(), "`watch` shows a counter once");
        assert!(
            !self.name.is_empty(),
            "`watch` finds a counter by its name in INFO"
        );
        self.watched = name;
        self
    }

    fn write_info(&self, look: &S::Look<'_>, out: &mut String) {
        if self.condition.is_some_and(|holds| !holds(look)) {
            return;
        }
        if let Read::Lines(write) = self.read {
            write(look, out);
        }
        let name = self.name;
        if name.is_empty() {
            return;
        }
        match self.read {
            Read::Fixed(text) => line(out, name, text),
            Read::Count(read) => line(out, name, read(look)),
            Read::Size(read) => line(out, name, read(look)),
            Read::Signed(read) => line(out, name, read(look)),
            Read::Atomic(read) => line(out, name, read(look).load(Ordering::Relaxed)),
            Read::Flag(read) => line(out, name, u8::from(read(look))),
            Read::Status(read) => line(out, name, if read(look) { "ok" } else { "err" }),
            Read::Decimal(digits, read) => line(out, name, format!("{:.digits$}", read(look))),
            Read::Bytes(read) => {
                let bytes = read(look);
                line(out, name, bytes);
                line(out, &format!("{name}_human"), human(bytes));
            }
            Read::Time(unit, read) => line(out, name, read(look) / unit as u64),
            Read::Text(read) => line(out, name, read(look)),
            Read::Lanes(read) => line(out, name, sum::<S>(look, read)),
            Read::LanesTime(unit, read) => line(out, name, sum::<S>(look, read) / unit as u64),
            Read::Lines(_) | Read::Series(_) => {}
        }
    }

    fn write_series(&self, metric: &Metric, look: &S::Look<'_>, page: &mut Page) {
        let label = metric.label.as_slice();
        let mut value = |value: &dyn Display| page.value(metric.name, label, value);
        match self.read {
            Read::Count(read) | Read::Bytes(read) => value(&read(look)),
            Read::Size(read) => value(&read(look)),
            Read::Signed(read) => value(&read(look)),
            Read::Atomic(read) => value(&read(look).load(Ordering::Relaxed)),
            Read::Flag(read) | Read::Status(read) => value(&u8::from(read(look))),
            Read::Decimal(_, read) => value(&read(look)),
            Read::Time(_, read) => value(&seconds(read(look))),
            Read::Lanes(read) => {
                for (lane, counters) in S::lanes(look).iter().enumerate() {
                    let count = read(counters).load(Ordering::Relaxed);
                    page.value(metric.name, &[("lane", &lane.to_string())], count);
                }
            }
            Read::LanesTime(_, read) => {
                for (lane, counters) in S::lanes(look).iter().enumerate() {
                    let time_s = seconds(read(counters).load(Ordering::Relaxed));
                    page.value(metric.name, &[("lane", &lane.to_string())], time_s);
                }
            }
            Read::Series(write) => write(look, metric.name, page),
            Read::Fixed(_) | Read::Text(_) | Read::Lines(_) => {
                unreachable!("{} is no number", metric.name)
            }
        }
    }
}

impl<S: Source> Debug for Counter<S> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.metric)
    }
}

impl<S: Source> Debug for Section<S> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.counters)
    }
}

impl<S: Source> Section<S> {
    /// Appends its lines of INFO.
    pub fn write_info(&self, look: &S::Look<'_>, out: &mut String) {
        for counter in self.counters {
            counter.write_info(look, out);
        }
    }

    /// Its counters that `tidewire watch` shows.
    pub fn watched(&self) -> impl Iterator<Item = Watched> {
        let shown = |counter: &&Counter<S>| !counter.watched.is_empty();
        self.counters.iter().filter(shown).map(|counter| Watched {
            section: self.name,
            name: counter.name,
            shown_as: counter.watched,
        })
    }
}

/// Adds the metrics of a table to the page.
pub fn write_page<S: Source>(table: &[Section<S>], look: &S::Look<'_>, page: &mut Page) {
    for counter in table.iter().flat_map(|section| section.counters) {
        if let Some(metric) = &counter.metric {
            page.begin(*metric);
            counter.write_series(metric, look, page);
        }
    }
}

/// Begins a section of INFO.
pub fn write_heading(out: &mut String, name: &str) {
    let before = if out.is_empty() { "" } else { "\r\n" };
    let _ = write!(out, "{before}# {name}\r\n");
}

/// Appends a line of INFO.
pub fn line(out: &mut String, name: &str, value: impl Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

/// Bytes in units of 1,024, as INFO shows them.
pub(crate) fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2}G", bytes as f64 / 1_073_741_824.0),
    }
}

fn sum<S: Source>(look: &S::Look<'_>, read: fn(&LaneCounters) -> &AtomicU64) -> u64 {
    let lanes = S::lanes(look).iter();
    lanes.map(|lane| read(lane).load(Ordering::Relaxed)).sum()
}

fn seconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e9
}
