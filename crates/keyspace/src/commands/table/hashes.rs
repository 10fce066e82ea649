//! Commands on hashes.

use super::super::{Command, Group, Run, hashes, scan};
use super::{command, key_spec};

#[rustfmt::skip]
pub(super) const HASHES: &[Command] = &[
    command("hset", -4, "write denyoom fast", Group::Hash, "2.0.0", Run::Data(hashes::hset))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash").element(2)
        .syntax("key:k data(field value)+")
        .docs("Sets fields.", "O(N) in the number of fields."),
    command("hmset", -4, "write denyoom fast", Group::Hash, "2.0.0", Run::Data(hashes::hmset))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash").element(2)
        .syntax("key:k data(field value)+")
        .docs("Sets fields; the old name of HSET.", "O(N) in the number of fields."),
    command("hsetnx", 4, "write denyoom fast", Group::Hash, "2.0.0", Run::Data(hashes::hsetnx))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("hash").element(2)
        .syntax("key:k field value")
        .docs("Sets a field that does not exist.", "O(1)"),
    command("hget", 3, "readonly fast", Group::Hash, "2.0.0", Run::Data(hashes::hget))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").element(2)
        .syntax("key:k field")
        .docs("Returns the value of a field.", "O(1)"),
    command("hmget", -3, "readonly fast", Group::Hash, "2.0.0", Run::Data(hashes::hmget))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").element(2)
        .syntax("key:k field+")
        .docs("Returns the values of fields.", "O(N) in the number of fields."),
    command("hgetall", 2, "readonly", Group::Hash, "2.0.0", Run::Data(hashes::hgetall))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash")
        .tips("nondeterministic_output_order").syntax("key:k")
        .docs("Returns all fields and values.", "O(N) in the size of the hash."),
    command("hdel", -3, "write fast", Group::Hash, "2.0.0", Run::Data(hashes::hdel))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("hash").element(2)
        .syntax("key:k field+")
        .docs("Removes fields.", "O(N) in the number of fields."),
    command("hlen", 2, "readonly fast", Group::Hash, "2.0.0", Run::Data(hashes::hlen))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("hash").syntax("key:k")
        .docs("Counts the fields.", "O(1)"),
    command("hexists", 3, "readonly fast", Group::Hash, "2.0.0", Run::Data(hashes::hexists))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("hash").element(2).syntax("key:k field")
        .docs("Returns whether a field exists.", "O(1)"),
    command("hkeys", 2, "readonly", Group::Hash, "2.0.0",
        Run::Data(|call| hashes::reply_list(call, |field, _| field)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash")
        .tips("nondeterministic_output_order").syntax("key:k")
        .docs("Returns all fields.", "O(N) in the size of the hash."),
    command("hvals", 2, "readonly", Group::Hash, "2.0.0",
        Run::Data(|call| hashes::reply_list(call, |_, value| value)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash")
        .tips("nondeterministic_output_order").syntax("key:k")
        .docs("Returns all values.", "O(N) in the size of the hash."),
    command("hstrlen", 3, "readonly fast", Group::Hash, "3.2.0", Run::Data(hashes::hstrlen))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("hash").element(2).syntax("key:k field")
        .docs("Returns the length of a value.", "O(1)"),
    command("hincrby", 4, "write denyoom fast", Group::Hash, "2.0.0", Run::Data(hashes::hincrby))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("hash").element(2)
        .syntax("key:k field increment:i")
        .docs("Adds to an integer field.", "O(1)"),
    command("hincrbyfloat", 4, "write denyoom fast", Group::Hash, "2.6.0",
        Run::Data(hashes::hincrbyfloat)).keys(&[key_spec(1, 0, 1, "RW access update")])
        .categories("hash").syntax("key:k field increment:d")
        .docs("Adds to a number field.", "O(1)"),
    command("hrandfield", -2, "readonly", Group::Hash, "6.2.0", Run::Data(hashes::hrandfield))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").tips("nondeterministic_output")
        .syntax("key:k [options(count:i [WITHVALUES])]")
        .docs("Returns random fields.", "O(N) in the number of fields returned."),
    command("hscan", -3, "readonly", Group::Hash, "2.8.0", Run::Data(scan::hscan))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").tips("nondeterministic_output")
        .syntax("key:k cursor:i [MATCH=pattern:p] [COUNT=count:i] [NOVALUES]")
        .docs("Iterates over the fields of a hash, a few per call.", "O(1) per call, O(N) for a whole scan."),
];
