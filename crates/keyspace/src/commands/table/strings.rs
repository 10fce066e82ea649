//! Commands on strings.

use super::super::options::{MILLISECONDS, SECONDS};
use super::super::{Command, Group, KeySpec, Run, comparing, strings};
use super::{command, counted_keys, key_spec};

#[rustfmt::skip]
pub(super) const STRINGS: &[Command] = &[
    command("get", 2, "readonly fast", Group::String, "1.0.0", Run::Data(strings::get))
        .keys(&[key_spec(1, 0, 1, "RO access")]).reads_directly(strings::get_directly)
        .categories("string").syntax("key:k")
        .docs("Returns the value of a key.", "O(1)"),
    command("set", -3, "write denyoom", Group::String, "1.0.0", Run::Data(strings::set))
        .keys(&[key_spec(1, 0, 1, "RW access update variable_flags")])
        .writes_directly(strings::set_directly).categories("string")
        .syntax("key:k value [condition(NX | XX | IFEQ=ifeq-value | IFNE=ifne-value | \
            IFDEQ=ifdeq-digest:i | IFDNE=ifdne-digest:i)] [GET] [expiration(EX=seconds:i | \
            PX=milliseconds:i | EXAT=unix-time-seconds:t | PXAT=unix-time-milliseconds:t | \
            KEEPTTL)]")
        .docs("Sets the value of a key.", "O(1)"),
    command("setnx", 3, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::setnx))
        .keys(&[key_spec(1, 0, 1, "OW insert")]).categories("string").syntax("key:k value")
        .docs("Sets the value of a key that does not exist.", "O(1)"),
    command("setex", 4, "write denyoom", Group::String, "2.0.0",
        Run::Data(|call| strings::set_with_time(call, SECONDS)))
        .keys(&[key_spec(1, 0, 1, "OW update")]).categories("string")
        .syntax("key:k seconds:i value")
        .docs("Sets a value and its TTL in seconds.", "O(1)"),
    command("psetex", 4, "write denyoom", Group::String, "2.6.0",
        Run::Data(|call| strings::set_with_time(call, MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "OW update")]).categories("string")
        .syntax("key:k milliseconds:i value")
        .docs("Sets a value and its TTL in milliseconds.", "O(1)"),
    command("getset", 3, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::getset))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("string").syntax("key:k value")
        .docs("Sets a value and returns the old one.", "O(1)"),
    command("getdel", 2, "write fast", Group::String, "6.2.0", Run::Data(strings::getdel))
        .keys(&[key_spec(1, 0, 1, "RW access delete")]).categories("string").syntax("key:k")
        .docs("Returns a value and removes the key.", "O(1)"),
    command("getex", -2, "write fast", Group::String, "6.2.0", Run::Data(strings::getex))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("string")
        .syntax("key:k [expiration(EX=seconds:i | PX=milliseconds:i | EXAT=unix-time-seconds:t | \
            PXAT=unix-time-milliseconds:t | PERSIST)]")
        .docs("Returns a value and changes its TTL.", "O(1)"),
    command("mget", -2, "readonly fast", Group::String, "1.0.0", Run::Data(strings::mget))
        .keys(&[key_spec(1, -1, 1, "RO access")]).categories("string")
        .tips("request_policy:multi_shard").syntax("key:k+")
        .docs("Returns the values of keys.", "O(N) in the number of keys."),
    command("mset", -3, "write denyoom", Group::String, "1.0.1", Run::Data(strings::mset))
        .keys(&[key_spec(1, -1, 2, "OW update")]).categories("string")
        .tips("request_policy:multi_shard response_policy:all_succeeded")
        .syntax("data(key:k value)+")
        .docs("Sets the values of keys.", "O(N) in the number of keys."),
    command("msetnx", -3, "write denyoom", Group::String, "1.0.1", Run::Data(strings::msetnx))
        .keys(&[key_spec(1, -1, 2, "OW insert")]).categories("string").syntax("data(key:k value)+")
        .docs("Sets the values of keys, if none of them exists.", "O(N) in the number of keys."),
    command("msetex", -4, "write denyoom movablekeys", Group::String, "8.4.0",
        Run::Data(comparing::msetex))
        .keys(&[KeySpec { step: 2, ..counted_keys(1, 2, "OW update") }]).categories("string")
        .tips("request_policy:multi_shard response_policy:all_succeeded")
        .syntax("numkeys:i data(key:k value)+ [condition(NX | XX)] [expiration(EX=seconds:i | \
            PX=milliseconds:i | EXAT=unix-time-seconds:t | PXAT=unix-time-milliseconds:t | \
            KEEPTTL)]")
        .docs("Sets the values of keys and one TTL for all of them.",
            "O(N) in the number of keys."),
    command("delex", -2, "write fast", Group::String, "8.4.0", Run::Data(comparing::delex))
        .keys(&[key_spec(1, 0, 1, "RW delete variable_flags")]).categories("string")
        .syntax("key:k [condition(IFEQ=ifeq-value | IFNE=ifne-value | IFDEQ=ifdeq-digest:i | \
            IFDNE=ifdne-digest:i)]")
        .docs("Removes a key, if its value or the digest of it compares as wanted.",
            "O(1), and O(N) in the length of the value for a digest."),
    command("delifeq", 3, "write fast", Group::String, "9.0.0", Run::Data(comparing::delifeq))
        .keys(&[key_spec(1, 0, 1, "RM delete")]).categories("string").syntax("key:k value")
        .docs("Removes a key, if its value is the given one. From Valkey.", "O(1)"),
    command("digest", 2, "readonly fast", Group::String, "8.4.0", Run::Data(comparing::digest))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("string").syntax("key:k")
        .docs("Returns the XXH3 digest of a value.", "O(N) in the length of the value."),
    command("append", 3, "write denyoom fast", Group::String, "2.0.0", Run::Data(strings::append))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("string").syntax("key:k value")
        .docs("Appends to a value.", "O(1) amortized"),
    command("strlen", 2, "readonly fast", Group::String, "2.2.0", Run::Data(strings::strlen))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("string").syntax("key:k")
        .docs("Returns the length of a value.", "O(1)"),
    command("getrange", 4, "readonly", Group::String, "2.4.0", Run::Data(strings::getrange))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("string").syntax("key:k start:i end:i")
        .docs("Returns a part of a value.", "O(N) in the length returned."),
    command("substr", 4, "readonly", Group::String, "1.0.0", Run::Data(strings::getrange))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("string").syntax("key:k start:i end:i")
        .docs("Returns a part of a value; the old name of GETRANGE.",
            "O(N) in the length returned."),
    command("setrange", 4, "write denyoom", Group::String, "2.2.0", Run::Data(strings::setrange))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("string")
        .syntax("key:k offset:i value")
        .docs("Overwrites a part of a value.", "O(N) in the length written."),
    command("incr", 2, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::incr))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).writes_directly(strings::incr_directly)
        .categories("string").syntax("key:k")
        .docs("Adds one to an integer.", "O(1)"),
    command("decr", 2, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::decr))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).writes_directly(strings::decr_directly)
        .categories("string").syntax("key:k")
        .docs("Subtracts one from an integer.", "O(1)"),
    command("incrby", 3, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::incrby))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).writes_directly(strings::incrby_directly)
        .categories("string").syntax("key:k increment:i")
        .docs("Adds to an integer.", "O(1)"),
    command("decrby", 3, "write denyoom fast", Group::String, "1.0.0", Run::Data(strings::decrby))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("string")
        .syntax("key:k decrement:i")
        .docs("Subtracts from an integer.", "O(1)"),
    command("incrbyfloat", 3, "write denyoom fast", Group::String, "2.6.0",
        Run::Data(strings::incrbyfloat)).keys(&[key_spec(1, 0, 1, "RW access update")])
        .categories("string").syntax("key:k increment:d")
        .docs("Adds to a number.", "O(1)"),
    command("lcs", -3, "readonly", Group::String, "7.0.0", Run::Data(strings::lcs))
        .keys(&[key_spec(1, 1, 1, "RO access")]).categories("string")
        .syntax("key1:k key2:k [LEN] [IDX] [MINMATCHLEN=min-match-len:i] [WITHMATCHLEN]")
        .docs("Finds the longest common subsequence.", "O(N*M) in the lengths of the values."),
];
