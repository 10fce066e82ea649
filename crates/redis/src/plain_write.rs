//! Writes of one key's value by a protocol without commands: each counts, and is shown, as a SET.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, CommandError, lookup};
use tidewire_lane::Context;
use tidewire_resp::ArgumentList;

use crate::attention::Obstacles;
use crate::gate::{PlainWrite, Refusal, Verdict};
use crate::live::LiveObserver;
use crate::monitor::Giver;
use crate::server::Server;
use crate::session::{Stopwatch, note_slow};

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// The key has the value.
    Done,
    /// It must be tried again: keys cannot be written just now.
    Waits,
    /// It is refused.
    Refused(Refusal),
}

impl Server {
    /// Sets a key of database 0, and publishes the value under the key's name. `address` is the
    /// peer's, who may do so.
    pub fn write_plain(
        &self,
        context: &mut Context,
        address: &str,
        key: &[u8],
        value: &[u8],
    ) -> Written {
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        if self.is_gated() {
            if self.write_wait(now_ms).is_some() {
                return Written::Waits;
            }
            match self.verdict(context, &PlainWrite) {
                Verdict::Go => {}
                Verdict::Wait(_) => return Written::Waits,
                Verdict::Refused(refusal) => return Written::Refused(refusal),
            }
        }
        let set = set_command();
        let stopwatch = set.map(|set| Stopwatch::start(self, context.lane(), set));
        let mut observer = LiveObserver(self);
        let keyspace = &self.keyspace;
        match keyspace.publish_value(0, key, value, now_ms, &mut observer) {
            Ok(()) => {}
            // They began to be loaded behind the gate.
            Err(CommandError::Loading) => return Written::Waits,
            Err(_) => return Written::Refused(Refusal::Mounted),
        }
        self.commands.fetch_add(1, Ordering::Relaxed);
        let ns = stopwatch.and_then(|stopwatch| stopwatch.stop(self));
        let slow_from_ns = self.parameters.slow_from_ns.load(Ordering::Relaxed);
        let is_slow = ns.is_some_and(|ns| ns >= slow_from_ns);
        let is_shown = self.attention.has(Obstacles::MONITORED);
        if is_slow || is_shown {
            let words = ArgumentList::from_slices(&[b"SET", key, value]);
            let words = words.as_arguments();
            if is_shown {
                self.show_command(Giver::Client(address), 0, words, |_| false);
            }
            if let (true, Some(ns), Some(set)) = (is_slow, ns, set) {
                note_slow(self, set, words, ns, address, String::new);
            }
        }
        Written::Done
    }

    /// Counts a write that was refused.
    pub fn note_plain_refused(&self, lane: usize, refusal: Refusal) {
        self.note_error(refusal.text());
        if let Some(set) = set_command() {
            self.statistics.of(lane, set).rejected();
        }
    }
}

/// The command that each write counts as.
fn set_command() -> Option<&'static Command> {
    thread_local! {
        static SET: Option<&'static Command> = lookup(b"set");
    }
    SET.with(|set| *set)
}
