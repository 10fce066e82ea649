//! The interface that a script requires from its caller.

use std::borrow::Cow;
use std::fmt;

use tidewire_resp::{Arguments, Protocol};

/// The host of a script: runs its commands and can stop it.
pub trait Host {
    /// Executes a command and appends its reply, even an error. A command that cannot be executed
    /// is refused with an error text; the host has counted the error.
    fn call(
        &mut self,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>>;

    /// Returns whether the user may run a command; `None` if there is no such command.
    fn may_run(&mut self, arguments: Arguments<'_>) -> Option<bool>;

    /// Sets where the changes of the script's next commands are propagated (`redis.set_repl`).
    fn set_replication(&mut self, to_replicas: bool, to_file: bool);

    /// Returns whether the script must end. Called at intervals while it runs.
    fn is_killed(&mut self) -> bool;

    /// Records an error in the script's reply. `is_counted` means that a command replied it before.
    fn note_error(&mut self, text: &str, is_counted: bool);
}

/// Why a script failed: the text of the error reply, which begins with the error code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The text without the leading `-`.
    pub text: String,
    /// Whether a command replied it, so that it was counted then.
    pub is_counted: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Creates a failure; a text without an error code gets `ERR`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure {
            text: text.into(),
            is_counted: false,
        }
    }

    /// Converts an error reply to the text that scripts see. A text of one word gets the code
    /// `ERR`.
    pub(crate) fn of_reply(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let text = text.trim_matches(['\r', '\n']);
        let text = match text.split_once(' ') {
            Some((code, rest)) => format!("{code} {}", rest.trim_matches(['\r', '\n'])),
            None => format!("ERR {text}"),
        };
        Failure {
            text,
            is_counted: false,
        }
    }
}
