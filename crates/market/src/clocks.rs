//! Sources whose clocks are ahead of ours: their latency is unknown, and looks like 0.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use tidewire_retry::Seldom;
use tracing::warn;

/// Messages whose source time is after the time they were received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Number of messages.
    pub messages: u64,
    /// Longest time that one was ahead, ns.
    pub max_ns: u64,
}

/// What is known of the clocks of all sources.
#[derive(Debug, Default)]
pub struct Clocks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since the start, over all sources.
    total: Ahead,
    /// The sources that exist now, by number.
    sources: BTreeMap<u32, SourceClock>,
}

/// The clock of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceClock {
    /// The source, by its address or number.
    pub name: String,
    /// How far it was ahead of ours.
    pub ahead: Ahead,
}

impl Ahead {
    /// Notes a message that is ahead by `ns`.
    #[cold]
    pub(crate) fn note(&mut self, ns: u64) {
        debug_assert!(ns > 0, "it is ahead");
        self.messages += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    fn add(&mut self, other: Ahead) {
        self.messages += other.messages;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl Clocks {
    /// Notes messages of one source. The log tells once of a source that is far ahead.
    #[cold]
    pub(crate) fn note(&self, source: u32, name: &str, ahead: Ahead) {
        let mut state = self.state.lock();
        state.total.add(ahead);
        let clock = state.sources.entry(source).or_insert_with(|| SourceClock {
            name: name.to_owned(),
            ahead: Ahead::default(),
        });
        let is_known = clock.ahead.max_ns >= TOLD_NS;
        clock.ahead.add(ahead);
        if !is_known
            && ahead.max_ns >= TOLD_NS
            && let Some(left_out) = TOLD.note_now()
        {
            let ahead_ms = ahead.max_ns / 1_000_000;
            let text = "the clock of a source is ahead of ours";
            warn!(source = name, ahead_ms, left_out, "{text}");
        }
    }

    /// Forgets a source that has ended.
    pub(crate) fn remove(&self, source: u32) {
        self.state.lock().sources.remove(&source);
    }

    /// Returns the figures over all sources since the start.
    pub fn total(&self) -> Ahead {
        self.state.lock().total
    }

    /// Returns the sources that were ahead, and still exist.
    pub fn sources(&self) -> Vec<SourceClock> {
        self.state.lock().sources.values().cloned().collect()
    }
}

impl fmt::Display for SourceClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceClock { name, ahead } = self;
        let (messages, max_us) = (ahead.messages, ahead.max_ns / 1_000);
        write!(
            formatter,
            "source={name},messages={messages},max_us={max_us}"
        )
    }
}

/// A clock that is less ahead than this is counted, and not logged: clocks of two machines differ
/// by some milliseconds.
const TOLD_NS: u64 = 10_000_000;
/// Limits the log lines that a publisher causes with each connection.
static TOLD: Seldom = Seldom::new(10, 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_own_maximum_and_leaves_its_part_of_the_total() {
        let clocks = Clocks::default();
        let ahead = |ns: &[u64]| {
            let mut ahead = Ahead::default();
            ns.iter().for_each(|ns| ahead.note(*ns));
            ahead
        };
        clocks.note(1, "a", ahead(&[5_000, 9_000]));
        clocks.note(2, "b", ahead(&[70_000_000]));
        clocks.note(1, "a", ahead(&[7_000]));
        let shown: Vec<_> = clocks.sources().iter().map(ToString::to_string).collect();
        let expected = [
            "source=a,messages=3,max_us=9",
            "source=b,messages=1,max_us=70000",
        ];
        assert_eq!(shown, expected);
        clocks.remove(2);
        assert_eq!(clocks.sources().len(), 1);
        let total = Ahead {
            messages: 4,
            max_ns: 70_000_000,
        };
        assert_eq!(clocks.total(), total);
    }
}
