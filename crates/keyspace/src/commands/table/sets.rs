//! Commands on sets.

use super::super::{Command, Group, Run, scan, sets};
use super::{command, counted_keys, key_spec};

#[rustfmt::skip]
pub(super) const SETS: &[Command] = &[
    command("sadd", -3, "write denyoom fast", Group::Set, "1.0.0", Run::Data(sets::sadd))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("set").element(2)
        .syntax("key:k member+")
        .docs("Adds members.", "O(N) in the number of members given."),
    command("srem", -3, "write fast", Group::Set, "1.0.0", Run::Data(sets::srem))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("set").element(2)
        .syntax("key:k member+")
        .docs("Removes members.", "O(N) in the number of members given."),
    command("sismember", 3, "readonly fast", Group::Set, "1.0.0", Run::Data(sets::sismember))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("set").element(2).syntax("key:k member")
        .docs("Returns whether a member is in a set.", "O(1)"),
    command("smismember", -3, "readonly fast", Group::Set, "6.2.0", Run::Data(sets::smismember))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("set").syntax("key:k member+")
        .docs("Returns whether members are in a set.",
            "O(N) in the number of members given."),
    command("smembers", 2, "readonly", Group::Set, "1.0.0", Run::Data(sets::smembers))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("set")
        .tips("nondeterministic_output_order").syntax("key:k")
        .docs("Returns all members.", "O(N) in the size of the set."),
    command("scard", 2, "readonly fast", Group::Set, "1.0.0", Run::Data(sets::scard))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("set").syntax("key:k")
        .docs("Counts the members.", "O(1)"),
    command("spop", -2, "write fast", Group::Set, "1.0.0", Run::Data(sets::spop))
        .keys(&[key_spec(1, 0, 1, "RW access delete")]).categories("set")
        .tips("nondeterministic_output").syntax("key:k [count:i]")
        .docs("Pops random members.", "O(N) in the number of members taken."),
    command("srandmember", -2, "readonly", Group::Set, "1.0.0", Run::Data(sets::srandmember))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("set").tips("nondeterministic_output")
        .syntax("key:k [count:i]")
        .docs("Returns random members.", "O(N) in the number of members returned."),
    command("smove", 4, "write fast", Group::Set, "1.0.0", Run::Data(sets::smove))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "RW insert")])
        .categories("set").syntax("source:k destination:k1 member")
        .docs("Moves a member to another set.", "O(1)"),
    command("sinter", -2, "readonly", Group::Set, "1.0.0", Run::Data(sets::sinter))
        .keys(&[key_spec(1, -1, 1, "RO access")]).categories("set")
        .tips("nondeterministic_output_order").syntax("key:k+")
        .docs("Returns the intersection of sets.",
            "O(N*M) for the smallest set's N members and M sets."),
    command("sinterstore", -3, "write denyoom", Group::Set, "1.0.0", Run::Data(sets::sinterstore))
        .keys(&[key_spec(1, 0, 1, "OW update"), key_spec(2, -1, 1, "RO access")]).categories("set")
        .syntax("destination:k key:k1+")
        .docs("Stores the intersection of sets.", "O(N*M) for the smallest set's N members and M sets."),
    command("sintercard", -3, "readonly movablekeys", Group::Set, "7.0.0",
        Run::Data(sets::sintercard)).keys(&[counted_keys(1, 2, "RO access")]).categories("set")
        .syntax("numkeys:i key:k+ [LIMIT=limit:i]")
        .docs("Counts the intersection of sets.", "O(N*M) for the smallest set's N members and M sets."),
    command("sunion", -2, "readonly", Group::Set, "1.0.0", Run::Data(sets::sunion))
        .keys(&[key_spec(1, -1, 1, "RO access")]).categories("set")
        .tips("nondeterministic_output_order").syntax("key:k+")
        .docs("Returns the union of sets.", "O(N) in the members of all sets."),
    command("sunionstore", -3, "write denyoom", Group::Set, "1.0.0", Run::Data(sets::sunionstore))
        .keys(&[key_spec(1, 0, 1, "OW update"), key_spec(2, -1, 1, "RO access")]).categories("set")
        .syntax("destination:k key:k1+")
        .docs("Stores the union of sets.", "O(N) in the members of all sets."),
    command("sdiff", -2, "readonly", Group::Set, "1.0.0", Run::Data(sets::sdiff))
        .keys(&[key_spec(1, -1, 1, "RO access")]).categories("set")
        .tips("nondeterministic_output_order").syntax("key:k+")
        .docs("Returns the difference of sets.",
            "O(N*M) for the first set's N members and M sets."),
    command("sdiffstore", -3, "write denyoom", Group::Set, "1.0.0", Run::Data(sets::sdiffstore))
        .keys(&[key_spec(1, 0, 1, "OW update"), key_spec(2, -1, 1, "RO access")]).categories("set")
        .syntax("destination:k key:k1+")
        .docs("Stores the difference of sets.",
            "O(N*M) for the first set's N members and M sets."),
    command("sscan", -3, "readonly", Group::Set, "2.8.0", Run::Data(scan::sscan))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("set").tips("nondeterministic_output")
        .syntax("key:k cursor:i [MATCH=pattern:p] [COUNT=count:i]")
        .docs("Iterates over members, a few per call.", "O(1) per call, O(N) for a whole scan."),
];
