//! Commands: their handlers, the one table, and how a request finds its command.

mod bits;
mod blocking_lists;
#[cfg(test)]
mod checked_keys;
mod debug;
mod dump;
mod expiry;
mod finding;
mod geo;
mod hash_expiry;
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
pub use table::lookup;

use tidewire_resp::Arguments;

pub use crate::command::{Call, Command, Finder, Flags, Group, Handler, KeySpec, Locks, Run};
use crate::command::{check_arity, unknown_subcommand_text};
use crate::error::unknown_command_text;

/// The command or subcommand of this full name, such as `get` or `object|encoding`, in any case.
pub fn lookup_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        None => lookup(name),
        Some(at) => lookup(&name[..at])?.subcommand(&name[at + 1..]),
    }
}

/// The command or subcommand that a request means, its number of arguments checked; or the text
/// of the error reply.
#[inline]
pub fn resolve(arguments: Arguments<'_>) -> Result<&'static Command, String> {
    match arguments.get(0).and_then(table::lookup) {
        Some(command) => resolve_part(command, arguments),
        None => Err(unknown_command_text(arguments)),
    }
}

/// The same of a request that follows one of this command: most often it is the same again.
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

/// The same, where the caller knows the command of the first argument.
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
