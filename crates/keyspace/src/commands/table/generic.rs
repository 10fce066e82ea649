//! Commands on keys of any type.

use super::super::options::{AT_MILLISECONDS, AT_SECONDS, MILLISECONDS, SECONDS};
use super::super::{Command, Group, KeySpec, Locks, Run, expiry, finding, keys, scan};
use super::{command, key_spec, keyword_keys};

#[rustfmt::skip]
pub(super) const GENERIC: &[Command] = &[
    command("del", -2, "write", Group::Generic, "1.0.0", Run::Data(keys::del))
        .keys(&[key_spec(1, -1, 1, "RM delete")]).categories("keyspace")
        .tips("request_policy:multi_shard response_policy:agg_sum").syntax("key:k+")
        .docs("Removes keys.", "O(N) in the number of keys; O(M) more for a key of M elements."),
    command("unlink", -2, "write fast", Group::Generic, "4.0.0", Run::Data(keys::unlink))
        .keys(&[key_spec(1, -1, 1, "RM delete")]).categories("keyspace")
        .tips("request_policy:multi_shard response_policy:agg_sum").syntax("key:k+")
        .docs("Removes keys; their memory may be freed later.", "O(1) a key."),
    command("exists", -2, "readonly fast", Group::Generic, "1.0.0", Run::Data(keys::exists))
        .keys(&[key_spec(1, -1, 1, "RO")]).categories("keyspace")
        .tips("request_policy:multi_shard response_policy:agg_sum").syntax("key:k+")
        .docs("Counts the keys that exist.", "O(N) in the number of keys."),
    command("type", 2, "readonly fast", Group::Generic, "1.0.0", Run::Data(keys::type_of))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("keyspace").syntax("key:k")
        .docs("Returns the data type of a key.", "O(1)"),
    command("keys", 2, "readonly", Group::Generic, "1.0.0", Run::Data(scan::keys))
        .locks(Locks::All).categories("keyspace dangerous")
        .tips("request_policy:all_shards nondeterministic_output_order").syntax("pattern:p")
        .docs("Lists the names that match a pattern.",
            "O(N) in the number of keys of the database."),
    command("scan", -2, "readonly", Group::Generic, "2.8.0", Run::Data(scan::scan))
        .marks("touches_any_key")
        .locks(Locks::Sweep).categories("keyspace")
        .tips("nondeterministic_output request_policy:special response_policy:special")
        .syntax("cursor:i [MATCH=pattern:p] [COUNT=count:i] [TYPE=type]")
        .docs("Iterates over the keys of the database, a few per call.",
            "O(1) per call, O(N) for a whole scan."),
    command("randomkey", 1, "readonly", Group::Generic, "1.0.0", Run::Data(keys::randomkey))
        .marks("touches_any_key")
        .locks(Locks::All).categories("keyspace")
        .tips("request_policy:all_shards response_policy:special nondeterministic_output")
        .docs("Returns a random key.", "O(1)"),
    command("rename", 3, "write", Group::Generic, "1.0.0", Run::Data(keys::rename))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "OW update")])
        .categories("keyspace").syntax("key:k newkey:k1")
        .docs("Renames a key and replaces the target.", "O(1)"),
    command("renamenx", 3, "write fast", Group::Generic, "1.0.0", Run::Data(keys::renamenx))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "OW insert")])
        .categories("keyspace").syntax("key:k newkey:k1")
        .docs("Renames a key if the target does not exist.", "O(1)"),
    command("touch", -2, "readonly fast", Group::Generic, "3.2.1", Run::Data(keys::touch))
        .keys(&[key_spec(1, -1, 1, "RO")]).categories("keyspace")
        .tips("request_policy:multi_shard response_policy:agg_sum").syntax("key:k+")
        .docs("Counts the keys that exist and marks them as used.", "O(N) in the number of keys."),
    command("copy", -3, "write denyoom", Group::Generic, "6.2.0", Run::Data(keys::copy))
        .keys(&[key_spec(1, 0, 1, "RO access"), key_spec(2, 0, 1, "OW update")])
        .checks_mounts().categories("keyspace").syntax("source:k destination:k1 [DB=destination-db:i] [REPLACE]")
        .docs("Copies a value to another key.", "O(N) in the size of the value."),
    command("migrate", -6, "write movablekeys", Group::Generic, "2.6.0", Run::Session)
        .marks("tells_itself")
        .keys(&[
            KeySpec { found_by: Some(finding::migrated_key),
                ..key_spec(3, 0, 1, "RW access delete") },
            KeySpec { last: -1,
                ..keyword_keys("KEYS", 6, "RW access delete incomplete", finding::migrated_keys) }])
        .categories("keyspace dangerous").tips("nondeterministic_output")
        .syntax("host port:i key-selector(key:k | ''!empty-string) destination-db:i timeout:i \
            [COPY] [REPLACE] [authentication(AUTH=auth<password> | AUTH2=auth2(username \
            password))] [KEYS=keys<key>:k1+]")
        .docs("Moves keys to another server.", "O(N) in the size of the values."),
    command("move", 3, "write fast", Group::Generic, "1.0.0", Run::Data(keys::move_to))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("keyspace").syntax("key:k db:i")
        .docs("Moves a key to another database.", "O(1)"),
    command("expire", -3, "write fast", Group::Generic, "1.0.0",
        Run::Data(|call| expiry::set_deadline(call, SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("keyspace")
        .syntax("key:k seconds:i [condition(NX | XX | GT | LT)]")
        .docs("Sets a TTL in seconds.", "O(1)"),
    command("pexpire", -3, "write fast", Group::Generic, "2.6.0",
        Run::Data(|call| expiry::set_deadline(call, MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("keyspace")
        .syntax("key:k milliseconds:i [condition(NX | XX | GT | LT)]")
        .docs("Sets a TTL in milliseconds.", "O(1)"),
    command("expireat", -3, "write fast", Group::Generic, "1.2.0",
        Run::Data(|call| expiry::set_deadline(call, AT_SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("keyspace")
        .syntax("key:k unix-time-seconds:t [condition(NX | XX | GT | LT)]")
        .docs("Sets the expiry time as a UNIX time in seconds.", "O(1)"),
    command("pexpireat", -3, "write fast", Group::Generic, "2.6.0",
        Run::Data(|call| expiry::set_deadline(call, AT_MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("keyspace")
        .syntax("key:k unix-time-milliseconds:t [condition(NX | XX | GT | LT)]")
        .docs("Sets the expiry time as a UNIX time in milliseconds.", "O(1)"),
    command("ttl", 2, "readonly fast", Group::Generic, "1.0.0",
        Run::Data(|call| expiry::reply_deadline(call, SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Returns the TTL in seconds.", "O(1)"),
    command("pttl", 2, "readonly fast", Group::Generic, "2.6.0",
        Run::Data(|call| expiry::reply_deadline(call, MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Returns the TTL in milliseconds.", "O(1)"),
    command("expiretime", 2, "readonly fast", Group::Generic, "7.0.0",
        Run::Data(|call| expiry::reply_deadline(call, AT_SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("keyspace").syntax("key:k")
        .docs("Returns the expiry time as a UNIX time in seconds.", "O(1)"),
    command("pexpiretime", 2, "readonly fast", Group::Generic, "7.0.0",
        Run::Data(|call| expiry::reply_deadline(call, AT_MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("keyspace").syntax("key:k")
        .docs("Returns the expiry time as a UNIX time in milliseconds.", "O(1)"),
    command("persist", 2, "write fast", Group::Generic, "2.2.0", Run::Data(expiry::persist))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("keyspace").syntax("key:k")
        .docs("Removes the TTL.", "O(1)"),
    command("object", -2, "", Group::Generic, "2.2.3", Run::Container)
        .docs("Commands on the internals of values.", "Depends on subcommand."),
    command("object|encoding", 3, "readonly", Group::Generic, "2.2.3",
        Run::Data(keys::object_encoding)).keys(&[key_spec(2, 0, 1, "RO")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Returns the encoding of a value.", "O(1)"),
    command("object|freq", 3, "readonly", Group::Generic, "4.0.0", Run::Data(keys::object_freq))
        .keys(&[key_spec(2, 0, 1, "RO")]).categories("keyspace").tips("nondeterministic_output")
        .syntax("key:k")
        .docs("Returns the use frequency of a key, with an LFU policy.", "O(1)"),
    command("object|help", 2, "loading stale", Group::Generic, "6.2.0",
        Run::Data(keys::object_help)).categories("keyspace")
        .docs("Lists the subcommands.", "O(1)"),
    command("object|idletime", 3, "readonly", Group::Generic, "2.2.3",
        Run::Data(keys::object_idletime)).keys(&[key_spec(2, 0, 1, "RO")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Returns the idle time of a key in seconds.", "O(1)"),
    command("object|refcount", 3, "readonly", Group::Generic, "2.2.3",
        Run::Data(keys::object_refcount)).keys(&[key_spec(2, 0, 1, "RO")]).categories("keyspace")
        .tips("nondeterministic_output").syntax("key:k")
        .docs("Returns the reference count of a value.", "O(1)"),
];
