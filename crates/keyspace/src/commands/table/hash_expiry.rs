//! Commands on the TTLs of hash fields.

use super::super::options::{AT_MILLISECONDS, AT_SECONDS, MILLISECONDS, SECONDS};
use super::super::{Command, Group, Run, hash_expiry};
use super::{command, key_spec};

#[rustfmt::skip]
pub(super) const HASH_EXPIRY: &[Command] = &[
    command("hexpire", -6, "write fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::set_deadlines(call, SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k seconds:i [condition(NX | XX | GT | LT)] FIELDS=fields(numfields:i field+)")
        .docs("Sets the TTLs of fields, in seconds.", "O(N) in the number of fields."),
    command("hpexpire", -6, "write fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::set_deadlines(call, MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k milliseconds:i [condition(NX | XX | GT | LT)] FIELDS=fields(numfields:i \
            field+)")
        .docs("Sets the TTLs of fields, in milliseconds.",
            "O(N) in the number of fields."),
    command("hexpireat", -6, "write fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::set_deadlines(call, AT_SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k unix-time-seconds:t [condition(NX | XX | GT | LT)] \
            FIELDS=fields(numfields:i field+)")
        .docs("Sets the expiry times of fields, as UNIX times in seconds.", "O(N) in the number of fields."),
    command("hpexpireat", -6, "write fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::set_deadlines(call, AT_MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k unix-time-milliseconds:t [condition(NX | XX | GT | LT)] \
            FIELDS=fields(numfields:i field+)")
        .docs("Sets the expiry times of fields, as UNIX times in milliseconds.",
            "O(N) in the number of fields."),
    command("httl", -5, "readonly fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::reply_deadlines(call, SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").tips("nondeterministic_output")
        .syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Returns the TTLs of fields, in seconds.", "O(N) in the number of fields."),
    command("hpttl", -5, "readonly fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::reply_deadlines(call, MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("hash").tips("nondeterministic_output")
        .syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Returns the TTLs of fields, in milliseconds.", "O(N) in the number of fields."),
    command("hexpiretime", -5, "readonly fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::reply_deadlines(call, AT_SECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("hash").syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Returns the expiry times of fields, as UNIX times in seconds.", "O(N) in the number of fields."),
    command("hpexpiretime", -5, "readonly fast", Group::Hash, "7.4.0",
        Run::Data(|call| hash_expiry::reply_deadlines(call, AT_MILLISECONDS)))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("hash").syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Returns the expiry times of fields, as UNIX times in milliseconds.",
            "O(N) in the number of fields."),
    command("hpersist", -5, "write fast", Group::Hash, "7.4.0", Run::Data(hash_expiry::hpersist))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Removes the TTLs of fields.", "O(N) in the number of fields."),
    command("hgetex", -5, "write fast", Group::Hash, "8.0.0", Run::Data(hash_expiry::hgetex))
        .keys(&[key_spec(1, 0, 1, "RW access update")]).categories("hash")
        .syntax("key:k [expiration(EX=seconds:i | PX=milliseconds:i | EXAT=unix-time-seconds:t | \
            PXAT=unix-time-milliseconds:t | PERSIST)] FIELDS=fields(numfields:i field+)")
        .docs("Returns the values of fields and sets or removes their TTLs.",
            "O(N) in the number of fields."),
    command("hsetex", -6, "write denyoom fast", Group::Hash, "8.0.0",
        Run::Data(hash_expiry::hsetex)).keys(&[key_spec(1, 0, 1, "RW update")]).categories("hash")
        .syntax("key:k [condition(FNX | FXX)] [expiration(EX=seconds:i | PX=milliseconds:i | \
            EXAT=unix-time-seconds:t | PXAT=unix-time-milliseconds:t | KEEPTTL)] \
            FIELDS=fields(numfields:i data(field value)+)")
        .docs("Sets fields and their TTL.", "O(N) in the number of fields."),
    command("hgetdel", -5, "write fast", Group::Hash, "8.0.0", Run::Data(hash_expiry::hgetdel))
        .keys(&[key_spec(1, 0, 1, "RW access delete")]).categories("hash")
        .syntax("key:k FIELDS=fields(numfields:i field+)")
        .docs("Returns the values of fields and removes them.", "O(N) in the number of fields."),
];
