//! The flags that scripts declare, and their effect on the commands that run them.

use tidewire_keyspace::{Command, Flags};
use tidewire_resp::Arguments;
use tidewire_script::ScriptFlags;

use super::scripting::ScriptCommand;
use crate::pause::Pause;
use crate::server::Server;

/// Returns the flags that a command's script declares, if the command runs a known script.
fn declared_flags(
    server: &Server,
    command: &Command,
    arguments: Arguments<'_>,
) -> Option<ScriptFlags> {
    let script = ScriptCommand::of(command)?;
    server.scripting.flags(script.form, arguments.get(1)?)
}

/// Whether a command is a write. A script that says what it does is believed.
pub(super) fn is_write(server: &Server, command: &Command, arguments: Arguments<'_>) -> bool {
    match declared_flags(server, command, arguments) {
        Some(flags) => !flags.has(ScriptFlags::NO_WRITES),
        None => command.has(Flags::WRITE),
    }
}

/// Whether a command is executed by a replica that has lost its master, likewise.
pub(super) fn may_be_stale(server: &Server, command: &Command, arguments: Arguments<'_>) -> bool {
    match declared_flags(server, command, arguments) {
        Some(flags) => flags.has(ScriptFlags::ALLOW_STALE),
        None => command.has(Flags::STALE),
    }
}

/// Whether a command counts as a write, which is anything that replicas must receive. The flags
/// that a script declares decide.
pub(super) fn counts_as_write(
    server: &Server,
    command: &Command,
    arguments: Arguments<'_>,
) -> bool {
    if let Some(flags) = declared_flags(server, command, arguments) {
        return !flags.has(ScriptFlags::NO_WRITES);
    }
    Pause::counts_as_write(command)
}

/// Whether a command is refused while memory is full.
pub(super) fn needs_memory(server: &Server, command: &Command, arguments: Arguments<'_>) -> bool {
    if let Some(script) = ScriptCommand::of(command) {
        let flags = arguments
            .get(1)
            .and_then(|name| server.scripting.flags(script.form, name));
        let frugal = ScriptFlags::ALLOW_OOM.with(ScriptFlags::NO_WRITES);
        return flags.is_some_and(|flags| !flags.has(frugal));
    }
    command.has(Flags::DENYOOM)
}
