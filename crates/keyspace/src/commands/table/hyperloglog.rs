//! HyperLogLog commands.

use super::super::{Command, Group, Run, hyperloglog};
use super::{command, key_spec};

#[rustfmt::skip]
pub(super) const HYPERLOGLOG: &[Command] = &[
    command("pfadd", -2, "write denyoom fast", Group::HyperLogLog, "2.8.9",
        Run::Data(hyperloglog::pfadd)).keys(&[key_spec(1, 0, 1, "RW insert")])
        .categories("hyperloglog").syntax("key:k [element+]")
        .docs("Adds elements to a HyperLogLog.", "O(1) for each element."),
    command("pfcount", -2, "readonly may_replicate", Group::HyperLogLog, "2.8.9",
        Run::Data(hyperloglog::pfcount)).keys(&[key_spec(1, -1, 1, "RW access")])
        .categories("hyperloglog").syntax("key:k+")
        .docs("Estimates how many distinct elements were added.",
            "O(1) for one key, O(N) for N of them."),
    command("pfmerge", -2, "write denyoom", Group::HyperLogLog, "2.8.9",
        Run::Data(hyperloglog::pfmerge))
        .keys(&[key_spec(1, 0, 1, "RW access insert"), key_spec(2, -1, 1, "RO access")])
        .categories("hyperloglog").syntax("destkey:k [sourcekey:k1+]")
        .docs("Merges several HyperLogLogs into one.", "O(N) in the number of keys."),
    command("pfdebug", 3, "write denyoom admin", Group::HyperLogLog, "2.8.9",
        Run::Data(hyperloglog::pfdebug)).keys(&[key_spec(2, 0, 1, "RW access")])
        .categories("hyperloglog").syntax("subcommand key:k")
        .docs("Shows the internals of a HyperLogLog.", "N/A"),
    command("pfselftest", 1, "admin", Group::HyperLogLog, "2.8.9",
        Run::Data(hyperloglog::pfselftest)).categories("hyperloglog")
        .docs("Checks the counts of random elements.", "N/A"),
];
