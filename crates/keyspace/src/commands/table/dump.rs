//! DUMP and RESTORE.

use super::super::{Command, Group, Run, dump};
use super::{command, key_spec};

#[rustfmt::skip]
pub(super) const DUMP: &[Command] = &[
    command("dump", 2, "readonly", Group::Generic, "2.6.0", Run::Data(dump::dump))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Serialises a value.", "O(1) to find the key, O(N*M) for N elements of M bytes."),
    command("restore", -4, "write denyoom", Group::Generic, "2.6.0", Run::Data(dump::restore)).marks("restores")
        .keys(&[key_spec(1, 0, 1, "OW update")]).categories("keyspace dangerous")
        .syntax("key:k ttl:i serialized-value [REPLACE] [ABSTTL] [IDLETIME=seconds:i] \
            [FREQ=frequency:i]")
        .docs("Restores a key from a serialised value.",
            "O(1) to make the key, O(N*M) for N elements of M bytes."),
    command("restore-asking", -4, "write denyoom asking", Group::Server, "3.0.0",
        Run::Data(dump::restore)).marks("restores")
        .keys(&[key_spec(1, 0, 1, "OW update")]).categories("keyspace dangerous")
        .syntax("key:k ttl:i serialized-value [REPLACE] [ABSTTL] [IDLETIME=seconds:i] \
            [FREQ=frequency:i]")
        .docs("Restores a key from a serialised value, during a slot migration.",
            "O(1) to make the key, O(N*M) for N elements of M bytes."),
];
