//! SORT.

use super::super::{Command, Group, Locks, Run, finding, sort};
use super::{command, hidden_keys, key_spec, unknown_keys};

#[rustfmt::skip]
pub(super) const SORT: &[Command] = &[
    command("sort", -2, "write denyoom movablekeys", Group::Generic, "1.0.0",
        Run::Data(sort::sort))
        .keys(&[key_spec(1, 0, 1, "RO access"), unknown_keys("RO access"),
            hidden_keys("OW update", finding::sort_store)])
        .locks(Locks::AllIf(sort::needs_all_shards)).categories("set sortedset list dangerous")
        .syntax("key:k [BY=by-pattern<pattern>:p1] [LIMIT=limit(offset:i count:i)] \
            [GET=get-pattern<pattern>:p1++] [order(ASC | DESC)] [ALPHA!sorting] \
            [STORE=destination:k2]")
        .docs("Sorts the elements of a list, a set or a sorted set, and optionally stores them.",
            "O(N+M*log(M)) for N elements of which M are shown; O(N) unsorted."),
    command("sort_ro", -2, "readonly movablekeys", Group::Generic, "7.0.0",
        Run::Data(sort::sort_ro))
        .keys(&[key_spec(1, 0, 1, "RO access"), unknown_keys("RO access")])
        .locks(Locks::AllIf(sort::needs_all_shards)).categories("set sortedset list dangerous")
        .syntax("key:k [BY=by-pattern<pattern>:p1] [LIMIT=limit(offset:i count:i)] \
            [GET=get-pattern<pattern>:p1++] [order(ASC | DESC)] [ALPHA!sorting]")
        .docs("Sorts the elements of a list, a set or a sorted set.",
            "O(N+M*log(M)) for N elements of which M are shown; O(N) unsorted."),
];
