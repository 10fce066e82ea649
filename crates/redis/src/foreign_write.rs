//! Commands that other hubs of the cluster run on one live key of this one.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, CommandError, Flags, Outcome, resolve};
use tidewire_lane::Context;
use tidewire_resp::{Arguments, Protocol, Writer};

use crate::attention::Obstacles;
use crate::gate::{GatedRequest, Refusal, Verdict};
use crate::live::LiveObserver;
use crate::monitor::Giver;
use crate::plain_write::Written;
use crate::server::Server;
use crate::session::{Stopwatch, note_slow};

/// The result of another hub's write.
#[derive(Debug)]
#[must_use]
pub(crate) enum Ran {
    /// It was executed; with the reply, unless that is a plain OK.
    Done(Option<Box<[u8]>>),
    /// It must be tried again: keys cannot be written just now.
    Waits,
    /// It is refused.
    Refused(Refusal),
    /// The command has failed, and changed nothing.
    Failed(String),
}

impl From<Written> for Ran {
    fn from(written: Written) -> Self {
        match written {
            Written::Done => Self::Done(None),
            Written::Waits => Self::Waits,
            Written::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

/// A command on one key, at the gate.
struct KeyCommand(&'static Command);

impl GatedRequest for KeyCommand {
    fn writes(&self, _: &Server) -> bool {
        true
    }

    fn needs_disk(&self, _: &Server) -> bool {
        true
    }

    fn needs_memory(&self, _: &Server) -> bool {
        self.0.has(Flags::DENYOOM)
    }

    fn runs_while_loading(&self) -> bool {
        false
    }

    fn runs_while_stale(&self, _: &Server) -> bool {
        false
    }
}

impl Server {
    /// Runs a command on the key `name` of database 0. `from` is the hub that asks; whether it may
    /// has been checked.
    pub(crate) fn run_for_hub(
        &self,
        context: &mut Context,
        (from, name): (&str, &[u8]),
        words: Arguments<'_>,
        protocol: Protocol,
    ) -> Ran {
        let command = match self.command_for_hub(name, words) {
            Ok(command) => command,
            Err(text) => return Ran::Failed(text),
        };
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        if self.is_gated() {
            if self.write_wait(now_ms).is_some() {
                return Ran::Waits;
            }
            match self.verdict(context, &KeyCommand(command)) {
                Verdict::Go => {}
                Verdict::Wait(_) => return Ran::Waits,
                Verdict::Refused(refusal) => {
                    self.note_error(refusal.text());
                    self.statistics.of(context.lane(), command).rejected();
                    return Ran::Failed(refusal.text().to_owned());
                }
            }
        }
        let stopwatch = Stopwatch::start(self, context.lane(), command);
        let mut out = Vec::new();
        let mut reply = Writer::new(&mut out, protocol);
        let mut observer = LiveObserver(self);
        let keyspace = &self.keyspace;
        let outcome = keyspace.execute(command, words, 0, now_ms, &mut reply, &mut observer);
        if let Outcome::Failed(error) = outcome {
            if matches!(*error, CommandError::Loading) {
                // They began to be loaded behind the gate.
                return Ran::Waits;
            }
            let text = error.to_string();
            self.note_failure(context.lane(), command, &text);
            return Ran::Failed(text);
        }
        self.commands.fetch_add(1, Ordering::Relaxed);
        if self.attention.has(Obstacles::MONITORED) {
            self.show_command(Giver::Client(from), 0, words, |_| false);
        }
        let slow_from_ns = self.parameters.slow_from_ns.load(Ordering::Relaxed);
        if let Some(ns) = stopwatch.stop(self)
            && ns >= slow_from_ns
        {
            note_slow(self, command, words, ns, from, String::new);
        }
        Ran::Done(Some(out.into()))
    }

    /// Finds the command of another hub's request.
    fn command_for_hub(
        &self,
        name: &[u8],
        words: Arguments<'_>,
    ) -> Result<&'static Command, String> {
        let command = resolve(words)?;
        let is_off = self
            .renames
            .as_ref()
            .is_some_and(|renames| !renames.offers(command));
        let key = command.key_elsewhere(words);
        match key.is_some_and(|at| &words[at] == name) && !is_off {
            true => Ok(command),
            false => {
                let name = command.full_name;
                Err(format!(
                    "ERR '{name}' is not run for other hubs: nothing was written"
                ))
            }
        }
    }
}
