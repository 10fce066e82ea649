//! Errors for users without permission.

use tidewire_keyspace::Command;

use super::User;

/// Returns the error text for a user who may not run a command.
pub(crate) fn no_command_text(user: &User, command: &Command) -> String {
    let (user, name) = (user.name(), command.full_name);
    format!("User {user} has no permissions to run the '{name}' command")
}

pub(crate) const NO_KEY: &str = "No permissions to access a key";
