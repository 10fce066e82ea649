//! Redis clients' requests at the write gate.

use std::borrow::Cow;

use tidewire_keyspace::{Command, Flags};
use tidewire_resp::{ArgumentList, Arguments};

use super::declared::{is_write, may_be_stale, needs_memory};
use super::{Call, State};
use crate::gate::{GatedRequest, Refusal, Verdict};
use crate::server::Server;

/// A client's command, and what EXEC would run if it is that.
struct Asked<'a> {
    command: &'static Command,
    arguments: Arguments<'a>,
    database: usize,
    queued: &'a [(&'static Command, ArgumentList)],
}

impl Asked<'_> {
    /// Whether it is a write that a mount may take, such as a SET of a plant's tag. That needs
    /// neither our memory nor our disk: plants stay under control while either is full.
    fn is_for_mount(&self, server: &Server) -> bool {
        let key = self.command.key_elsewhere(self.arguments);
        let key = key.and_then(|at| self.arguments.get(at));
        key.is_some_and(|key| server.keyspace.mount_of(self.database, key).is_some())
    }

    fn any_queued(&self, is: impl Fn(&Command, Arguments<'_>) -> bool) -> bool {
        let mut queued = self.queued.iter();
        queued.any(|(command, arguments)| is(command, arguments.as_arguments()))
    }
}

impl GatedRequest for Asked<'_> {
    fn writes(&self, server: &Server) -> bool {
        is_write(server, self.command, self.arguments)
            || self.any_queued(|command, arguments| is_write(server, command, arguments))
    }

    fn needs_disk(&self, server: &Server) -> bool {
        // PING tells whether this server may be used.
        self.command.has(Flags::TELLS_HEALTH) || self.writes(server) && !self.is_for_mount(server)
    }

    fn needs_memory(&self, server: &Server) -> bool {
        needs_memory(server, self.command, self.arguments) && !self.is_for_mount(server)
            || self.any_queued(|command, arguments| needs_memory(server, command, arguments))
    }

    fn runs_while_loading(&self) -> bool {
        self.command.has(Flags::LOADING)
            && !self.any_queued(|command, _| !command.has(Flags::LOADING))
    }

    fn runs_while_stale(&self, server: &Server) -> bool {
        may_be_stale(server, self.command, self.arguments)
            && !self.any_queued(|command, arguments| !may_be_stale(server, command, arguments))
    }
}

impl State {
    /// Refuses a command that the gate does not let through; true then. Pauses are behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn is_stopped_at_gate(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
    ) -> bool {
        let asked = Asked {
            command,
            arguments: call.arguments,
            database: self.database,
            queued: self.queued_by(command),
        };
        let quorum = &call.server.quorum;
        let text = match call.server.verdict(call.context, &asked) {
            Verdict::Go => return false,
            Verdict::Wait(wait) => wait.text().into(),
            Verdict::Refused(Refusal::NotCurrent) => Cow::from(quorum.refusal_text()),
            Verdict::Refused(Refusal::ReadOnly) if quorum.is_on() => quorum.read_only_text().into(),
            Verdict::Refused(refusal) => refusal.text().into(),
        };
        self.refuse_for_now(call, command, &text);
        true
    }
}
