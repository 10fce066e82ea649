//! Transactions.

use super::{Command, Group, Run, SessionCommand, command, key_spec};

pub(super) const TRANSACTIONS: &[Command] = &[
    command(
        "multi",
        1,
        "noscript loading stale fast allow_busy",
        Group::Transactions,
        "1.2.0",
        Run::Session(SessionCommand::Multi),
    )
    .categories("transaction")
    .docs("Begins a transaction.", "O(1)"),
    command(
        "exec",
        1,
        "noscript loading stale skip_slowlog",
        Group::Transactions,
        "1.2.0",
        Run::Session(SessionCommand::Exec),
    )
    .categories("transaction")
    .docs(
        "Executes the queued commands as one.",
        "Depends on the commands queued.",
    ),
    command(
        "discard",
        1,
        "noscript loading stale fast allow_busy",
        Group::Transactions,
        "2.0.0",
        Run::Session(SessionCommand::Discard),
    )
    .categories("transaction")
    .docs("Gives up the transaction.", "O(N) in the commands queued."),
    command(
        "watch",
        -2,
        "noscript loading stale fast allow_busy",
        Group::Transactions,
        "2.2.0",
        Run::Session(SessionCommand::Watch),
    )
    .keys(&[key_spec(1, -1, 1, "RO")])
    .categories("transaction")
    .docs(
        "Lets the next transaction fail if a key changes before it.",
        "O(1) a key.",
    ),
    command(
        "unwatch",
        1,
        "noscript loading stale fast allow_busy",
        Group::Transactions,
        "2.2.0",
        Run::Session(SessionCommand::Unwatch),
    )
    .categories("transaction")
    .docs("Forgets the watched keys.", "O(1) a key."),
];
