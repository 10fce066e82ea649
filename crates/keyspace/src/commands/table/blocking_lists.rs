//! Blocking list commands.

use super::super::{Command, Group, Run, blocking_lists};
use super::{command, counted_keys, key_spec};

#[rustfmt::skip]
pub(super) const BLOCKING_LISTS: &[Command] = &[
    command("blpop", -3, "write blocking", Group::List, "2.0.0",
        Run::Data(|call| blocking_lists::pop(call, true)))
        .keys(&[key_spec(1, -2, 1, "RW access delete")]).categories("list")
        .syntax("key:k+ timeout:d")
        .docs("Pops the first element of the first non-empty list; waits for one.",
            "O(N) in the number of keys."),
    command("brpop", -3, "write blocking", Group::List, "2.0.0",
        Run::Data(|call| blocking_lists::pop(call, false)))
        .keys(&[key_spec(1, -2, 1, "RW access delete")]).categories("list")
        .syntax("key:k+ timeout:d")
        .docs("Pops the last element of the first non-empty list; waits for one.",
            "O(N) in the number of keys."),
    command("blmove", 6, "write denyoom blocking", Group::List, "6.2.0",
        Run::Data(blocking_lists::blmove))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "RW insert")])
        .categories("list")
        .syntax("source:k destination:k1 wherefrom(LEFT | RIGHT) whereto(LEFT | RIGHT) timeout:d")
        .docs("Moves an element from one end of a list to an end of another; waits for one.",
            "O(1)"),
    command("brpoplpush", 4, "write denyoom blocking", Group::List, "2.2.0",
        Run::Data(blocking_lists::brpoplpush))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "RW insert")])
        .categories("list").syntax("source:k destination:k1 timeout:d")
        .docs("Moves the last element to the front of another list; waits for one.",
            "O(1)"),
    command("blmpop", -5, "write blocking movablekeys", Group::List, "7.0.0",
        Run::Data(blocking_lists::blmpop)).keys(&[counted_keys(2, 3, "RW access delete")])
        .categories("list")
        .syntax("timeout:d numkeys:i key:k+ where(LEFT | RIGHT) [COUNT=count:i]")
        .docs("Pops elements from the first non-empty list; waits for some.",
            "O(N+M) for N keys and M elements taken."),
];
