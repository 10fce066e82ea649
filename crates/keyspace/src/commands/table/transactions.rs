//! Transactions.

use super::{Command, Group, Run, command, key_spec};

#[rustfmt::skip]
pub(super) const TRANSACTIONS: &[Command] = &[
    command("multi", 1, "noscript loading stale fast allow_busy", Group::Transactions, "1.2.0",
        Run::Session).marks("at_once").categories("transaction")
        .docs("Starts a transaction.", "O(1)"),
    command("exec", 1, "noscript loading stale skip_slowlog", Group::Transactions, "1.2.0",
        Run::Session).marks("executes at_once").categories("transaction")
        .docs("Executes the queued commands atomically.", "Depends on the commands queued."),
    command("discard", 1, "noscript loading stale fast allow_busy", Group::Transactions, "2.0.0",
        Run::Session).marks("at_once").categories("transaction")
        .docs("Discards the transaction.", "O(N) in the commands queued."),
    command("watch", -2, "noscript loading stale fast allow_busy", Group::Transactions, "2.2.0",
        Run::Session).marks("at_once").keys(&[key_spec(1, -1, 1, "RO")]).categories("transaction")
        .syntax("key:k+")
        .docs("Watches keys: the next transaction fails if one changes.", "O(1) a key."),
    command("unwatch", 1, "noscript loading stale fast allow_busy", Group::Transactions, "2.2.0",
        Run::Session).marks("locks_nothing").categories("transaction")
        .docs("Unwatches all keys.", "O(1) a key."),
];
