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

/// Whether a command's reply tells nothing of keys, or of what was written to them. In a quorum it
/// need not wait then until all that was written is acknowledged.
pub(super) fn needs_no_keys(command: &Command) -> bool {
    const OF_KEYS: Flags = Flags::READONLY
        .with(Flags::WRITE)
        .with(Flags::MAY_REPLICATE)
        .with(Flags::EXECUTES)
        .with(Flags::DEBUGS)
        .with(Flags::RUNS_SCRIPT)
        .with(Flags::BLOCKING);
    // Both flags say that it runs where there are no keys.
    let runs_without = command.has(Flags::LOADING) && command.has(Flags::STALE);
    // Its reply says whether another client found a key empty.
    let tells_of_waits = command.full_name == "client|unblock";
    let is_apart = runs_without || command.has(Flags::TELLS_HEALTH);
    is_apart && !command.has(OF_KEYS) && !tells_of_waits
}

#[cfg(test)]
mod tests {
    use tidewire_keyspace::commands::{lookup, table};

    use super::*;

    #[test]
    fn no_command_on_keys_counts_as_one_that_needs_none() {
        for command in table::with_parts() {
            // WATCH names keys, and its reply tells nothing of them. Channels are no keys.
            let is_channel = command.group == tidewire_keyspace::Group::PubSub;
            let names_keys = !command.keys.is_empty() && command.name != "watch";
            let is_on_keys = names_keys && !is_channel;
            let name = command.full_name;
            assert!(!is_on_keys || !needs_no_keys(command), "{name}");
        }
        for name in [
            "get", "set", "dbsize", "exec", "eval", "fcall_ro", "publish", "wait", "debug", "scan",
            "waitaof", "blpop", "xread",
        ] {
            let command = lookup(name.as_bytes()).expect("a command");
            assert!(!needs_no_keys(command), "{name}");
        }
        let is_unblock = |command: &&Command| command.full_name == "client|unblock";
        let unblock = table::with_parts()
            .iter()
            .find(is_unblock)
            .expect("a command");
        assert!(!needs_no_keys(unblock));
        for name in [
            "ping",
            "info",
            "auth",
            "hello",
            "select",
            "multi",
            "subscribe",
        ] {
            let command = lookup(name.as_bytes()).expect("a command");
            assert!(needs_no_keys(command), "{name}");
        }
        for (name, part) in [("client", "list"), ("config", "set"), ("acl", "setuser")] {
            let command = lookup(name.as_bytes()).expect("a command");
            let command = command.subcommand(part.as_bytes()).expect("a part");
            assert!(needs_no_keys(command), "{name} {part}");
        }
    }
}
