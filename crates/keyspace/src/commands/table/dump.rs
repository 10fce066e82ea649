//! DUMP and RESTORE.

use super::super::{Command, Group, Run, dump};
use super::{command, key_spec};

pub(super) const DUMP: &[Command] = &[
    command(
        "dump",
        2,
        "readonly",
        Group::Generic,
        "2.6.0",
        Run::Data(dump::dump),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("keyspace")
    .docs(
        "Serialises a value.",
        "O(1) to find the key, O(N*M) for N elements of M bytes.",
    ),
    command(
        "restore",
        -4,
        "write denyoom",
        Group::Generic,
        "2.6.0",
        Run::Data(dump::restore),
    )
    .keys(&[key_spec(1, 0, 1, "OW update")])
    .categories("keyspace dangerous")
    .docs(
        "Makes a key of a serialised value.",
        "O(1) to make the key, O(N*M) for N elements of M bytes.",
    ),
    command(
        "restore-asking",
        -4,
        "write denyoom asking",
        Group::Server,
        "3.0.0",
        Run::Data(dump::restore),
    )
    .keys(&[key_spec(1, 0, 1, "OW update")])
    .categories("keyspace dangerous")
    .docs(
        "Makes a key of a serialised value, in a cluster whose slot moves.",
        "O(1) to make the key, O(N*M) for N elements of M bytes.",
    ),
];
