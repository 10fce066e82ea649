//! The interface that a script requires of its caller.

use std::borrow::Cow;
use std::fmt;

use tidewire_resp::{Arguments, Protocol};

/// Runs a script's commands, and watches over it.
pub trait Host {
    /// Executes a command and appends its reply, an error too. A command that is not executed at
    /// all is refused with a text; the host has counted it.
    fn call(
        &mut self,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>>;

    /// Whether the user may run a command; nothing if there is no such command.
    fn may_run(&mut self, arguments: Arguments<'_>) -> Option<bool>;

    /// `redis.set_repl`: where the changes of the script's next commands are propagated.
    fn set_replication(&mut self, to_replicas: bool, to_file: bool);

    /// Returns whether the script must end. Called at intervals while it runs.
    fn is_killed(&mut self) -> bool;

    /// An error is part of the script's reply; `is_counted` if a command has replied it before.
    fn note_error(&mut self, text: &str, is_counted: bool);
}

/// How a script failed: the text of the error reply, whose code word comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Without the leading `-`.
    pub text: String,
    /// A command has replied it, and it was counted then.
    pub is_counted: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// An error that begins with its code word, or gets `ERR`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure {
            text: text.into(),
            is_counted: false,
        }
    }

    /// The text of an error reply, as scripts see it: a text of one word gets the code `ERR`.
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
