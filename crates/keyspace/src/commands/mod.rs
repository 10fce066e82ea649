//! Commands: their handlers, the command table, and the lookup of a request's command.

mod bits;
mod blocking_lists;
#[cfg(test)]
mod checked_keys;
mod comparing;
mod debug;
mod dump;
mod expiry;
mod finding;
mod geo;
mod hash_expiry;
mod hash_options;
mod hashes;
mod hyperloglog;
mod introspection;
mod keys;
mod lists;
mod options;
mod popping;
mod scan;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod syntax;
pub mod table;

pub use debug::debug_command;
pub use finding::{SortPatterns, sort_patterns};
pub use introspection::CATEGORIES;
pub(crate) use streams::{DURATION_S_MAX, ENTRIES_MAX};
pub use table::lookup;

use tidewire_resp::Arguments;

pub use crate::command::{Call, Command, Finder, Flags, Group, Handler, KeySpec, Locks, Run};
use crate::command::{check_arity, unknown_subcommand_text};
use crate::error::unknown_command_text;

/// Returns the command or subcommand with this full name, such as `get` or `object
/// encoding`, in any case.
pub fn lookup_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        None => lookup(name),
        Some(at) => lookup(&name[..at])?.subcommand(&name[at + 1..]),
    }
}

/// Finds the command or subcommand of a request and checks its number of arguments. Returns the
/// text of the error reply if that fails.
#[inline]
pub fn resolve(arguments: Arguments<'_>) -> Result<&'static Command, String> {
    match arguments.get(0).and_then(table::lookup) {
        Some(command) => resolve_part(command, arguments),
        None => Err(unknown_command_text(arguments)),
    }
}

/// Does the same for a request that follows one of `previous`: the command is often the same.
#[inline]
pub fn resolve_after(
    last: Option<&'static Command>,
    arguments: Arguments<'_>,
) -> Result<&'static Command, String> {
    if let (Some(last), Some(name)) = (last, arguments.get(0))
        && !last.is_part()
        && table::is_named(last, name)
    {
        if !last.is_container() && last.has_arity(arguments) {
            return Ok(last);
        }
        return resolve_part(last, arguments);
    }
    resolve(arguments)
}

/// Does the same if the caller knows the command of the first argument.
#[inline]
pub fn resolve_part(
    mut command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<&'static Command, String> {
    if command.is_container()
        && let Some(name) = arguments.get(1)
    {
        match command.subcommand(name) {
            Some(subcommand) => command = subcommand,
            None => return Err(unknown_subcommand_text(command, arguments)),
        }
    }
    check_arity(command, arguments).map_err(|error| error.to_string())?;
    Ok(command)
}
