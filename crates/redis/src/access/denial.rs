//! Errors for users without permission.

use tidewire_keyspace::Command;

use super::{Reason, User};

/// Returns the error text, without its code, for a user who may not run a command, or not with
/// these arguments.
pub(crate) fn denial_text(reason: Reason, user: &User, command: &Command) -> String {
    match reason {
        Reason::Command => no_command_text(user, command),
        Reason::Database => NO_DATABASE.to_owned(),
        Reason::Key => NO_KEY.to_owned(),
        _ => NO_CHANNEL.to_owned(),
    }
}

/// Returns the error text for a user who may not run a command.
pub(crate) fn no_command_text(user: &User, command: &Command) -> String {
    let (user, name) = (user.name(), command.full_name);
    format!("User {user} has no permissions to run the '{name}' command")
}

pub(crate) const NO_KEY: &str = "No permissions to access a key";
const NO_DATABASE: &str = "No permissions to access database";
const NO_CHANNEL: &str = "No permissions to access a channel";
