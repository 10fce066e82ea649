//! The one table of commands.

use super::{
    Command, Finder, Group, KeySpec, Locks, Run, SessionCommand, expiry, finding, hashes, keys,
    scan, strings,
};
use crate::keyspace::{Direct, DirectRead, DirectWrite};

mod bits;
use bits::BITS;

mod blocking_lists;
use blocking_lists::BLOCKING_LISTS;

mod cluster;
use cluster::CLUSTER;

mod connection;
use connection::CONNECTION;

mod dump;
use dump::DUMP;

mod geo;
use geo::GEO;

mod hash_expiry;
use hash_expiry::HASH_EXPIRY;

mod hyperloglog;
use hyperloglog::HYPERLOGLOG;

mod lists;
use lists::LISTS;

mod pubsub;
use pubsub::PUBSUB;

mod scripting;
use scripting::SCRIPTING;

mod server;
use server::SERVER;

mod sets;
use sets::SETS;

mod sort;
use sort::SORT;

mod sorted_sets;
use sorted_sets::SORTED_SETS;

mod streams;
use streams::STREAMS;

mod transactions;
use transactions::TRANSACTIONS;

/// All commands, group by group.
pub fn all() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// The command of this name, in any case.
#[inline]
pub(super) fn lookup(name: &[u8]) -> Option<&'static Command> {
    let mut at = slot(name);
    loop {
        let (group, index) = SLOTS[at]?;
        let command = &GROUPS[usize::from(group)][usize::from(index)];
        if is_named(command, name) {
            return Some(command);
        }
        at = (at + 1) % SLOTS.len();
    }
}

static GROUPS: [&[Command]; GROUP_LIST.len()] = GROUP_LIST;

const GROUP_LIST: [&[Command]; 20] = [
    STRINGS,
    BITS,
    HYPERLOGLOG,
    HASHES,
    HASH_EXPIRY,
    SETS,
    LISTS,
    BLOCKING_LISTS,
    SORTED_SETS,
    GEO,
    STREAMS,
    GENERIC,
    SORT,
    DUMP,
    TRANSACTIONS,
    CLUSTER,
    CONNECTION,
    PUBSUB,
    SCRIPTING,
    SERVER,
];

const GENERIC: &[Command] = &[
    command(
        "del",
        -2,
        "write",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::del),
    )
    .keys(&[key_spec(1, -1, 1, "RM delete")])
    .categories("keyspace")
    .docs(
        "Removes keys.",
        "O(N) in the number of keys; O(M) more for a key of M elements.",
    ),
    command(
        "unlink",
        -2,
        "write fast",
        Group::Generic,
        "4.0.0",
        Run::Data(keys::unlink),
    )
    .keys(&[key_spec(1, -1, 1, "RM delete")])
    .categories("keyspace")
    .docs(
        "Removes keys; their memory may be freed later.",
        "O(1) a key.",
    ),
    command(
        "exists",
        -2,
        "readonly fast",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::exists),
    )
    .keys(&[key_spec(1, -1, 1, "RO")])
    .categories("keyspace")
    .docs("Counts the keys that exist.", "O(N) in the number of keys."),
    command(
        "type",
        2,
        "readonly fast",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::type_of),
    )
    .keys(&[key_spec(1, 0, 1, "RO")])
    .categories("keyspace")
    .docs("Tells the data type of a key.", "O(1)"),
    command(
        "keys",
        2,
        "readonly",
        Group::Generic,
        "1.0.0",
        Run::Data(scan::keys),
    )
    .locks(Locks::All)
    .categories("keyspace dangerous")
    .docs(
        "Lists the names that match a pattern.",
        "O(N) in the number of keys of the database.",
    ),
    command(
        "scan",
        -2,
        "readonly",
        Group::Generic,
        "2.8.0",
        Run::Data(scan::scan),
    )
    .locks(Locks::Sweep)
    .categories("keyspace")
    .docs(
        "Walks the names of the database, a few a call.",
        "O(1) a call, O(N) for a whole scan.",
    ),
    command(
        "randomkey",
        1,
        "readonly",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::randomkey),
    )
    .locks(Locks::All)
    .categories("keyspace")
    .docs("Names a random key.", "O(1)"),
    command(
        "rename",
        3,
        "write",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::rename),
    )
    .keys(&[
        key_spec(1, 0, 1, "RW access delete"),
        key_spec(2, 0, 1, "OW update"),
    ])
    .categories("keyspace")
    .docs("Renames a key and replaces what has the new name.", "O(1)"),
    command(
        "renamenx",
        3,
        "write fast",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::renamenx),
    )
    .keys(&[
        key_spec(1, 0, 1, "RW access delete"),
        key_spec(2, 0, 1, "OW insert"),
    ])
    .categories("keyspace")
    .docs("Renames a key if the new name is free.", "O(1)"),
    command(
        "touch",
        -2,
        "readonly fast",
        Group::Generic,
        "3.2.1",
        Run::Data(keys::touch),
    )
    .keys(&[key_spec(1, -1, 1, "RO")])
    .categories("keyspace")
    .docs(
        "Counts the keys that exist and marks them as used.",
        "O(N) in the number of keys.",
    ),
    command(
        "copy",
        -3,
        "write denyoom",
        Group::Generic,
        "6.2.0",
        Run::Data(keys::copy),
    )
    .keys(&[
        key_spec(1, 0, 1, "RO access"),
        key_spec(2, 0, 1, "OW update"),
    ])
    .categories("keyspace")
    .docs(
        "Copies a value to another key.",
        "O(N) in the size of the value.",
    ),
    command(
        "migrate",
        -6,
        "write movablekeys",
        Group::Generic,
        "2.6.0",
        Run::Session(SessionCommand::Migrate),
    )
    .keys(&[
        KeySpec {
            found_by: Some(finding::migrated_key),
            ..key_spec(3, 0, 1, "RW access delete")
        },
        KeySpec {
            last: -1,
            ..keyword_keys(
                "KEYS",
                6,
                "RW access delete incomplete",
                finding::migrated_keys,
            )
        },
    ])
    .categories("keyspace dangerous")
    .docs(
        "Moves keys to another server.",
        "O(N) in the size of the values.",
    ),
    command(
        "move",
        3,
        "write fast",
        Group::Generic,
        "1.0.0",
        Run::Data(keys::move_to),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("keyspace")
    .docs("Moves a key to another database.", "O(1)"),
    command(
        "expire",
        -3,
        "write fast",
        Group::Generic,
        "1.0.0",
        Run::Data(expiry::expire),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("keyspace")
    .docs("Sets a deadline in seconds from now.", "O(1)"),
    command(
        "pexpire",
        -3,
        "write fast",
        Group::Generic,
        "2.6.0",
        Run::Data(expiry::pexpire),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("keyspace")
    .docs("Sets a deadline in milliseconds from now.", "O(1)"),
    command(
        "expireat",
        -3,
        "write fast",
        Group::Generic,
        "1.2.0",
        Run::Data(expiry::expireat),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("keyspace")
    .docs("Sets a deadline as a UNIX time in seconds.", "O(1)"),
    command(
        "pexpireat",
        -3,
        "write fast",
        Group::Generic,
        "2.6.0",
        Run::Data(expiry::pexpireat),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("keyspace")
    .docs("Sets a deadline as a UNIX time in milliseconds.", "O(1)"),
    command(
        "ttl",
        2,
        "readonly fast",
        Group::Generic,
        "1.0.0",
        Run::Data(expiry::ttl),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("keyspace")
    .docs("Tells the seconds until the deadline.", "O(1)"),
    command(
        "pttl",
        2,
        "readonly fast",
        Group::Generic,
        "2.6.0",
        Run::Data(expiry::pttl),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("keyspace")
    .docs("Tells the milliseconds until the deadline.", "O(1)"),
    command(
        "expiretime",
        2,
        "readonly fast",
        Group::Generic,
        "7.0.0",
        Run::Data(expiry::expiretime),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("keyspace")
    .docs("Tells the deadline as a UNIX time in seconds.", "O(1)"),
    command(
        "pexpiretime",
        2,
        "readonly fast",
        Group::Generic,
        "7.0.0",
        Run::Data(expiry::pexpiretime),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("keyspace")
    .docs("Tells the deadline as a UNIX time in milliseconds.", "O(1)"),
    command(
        "persist",
        2,
        "write fast",
        Group::Generic,
        "2.2.0",
        Run::Data(expiry::persist),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("keyspace")
    .docs("Takes the deadline away.", "O(1)"),
    command("object", -2, "", Group::Generic, "2.2.3", Run::Container)
        .docs("Tells how values are kept.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "object|encoding",
                3,
                "readonly",
                Group::Generic,
                "2.2.3",
                Run::Data(keys::object_encoding),
            )
            .keys(&[key_spec(2, 0, 1, "RO")])
            .categories("keyspace")
            .docs("Tells how a value is encoded.", "O(1)"),
            command(
                "object|freq",
                3,
                "readonly",
                Group::Generic,
                "4.0.0",
                Run::Data(keys::object_freq),
            )
            .keys(&[key_spec(2, 0, 1, "RO")])
            .categories("keyspace")
            .docs(
                "Tells how often a key is used, under an LFU policy.",
                "O(1)",
            ),
            command(
                "object|help",
                2,
                "loading stale",
                Group::Generic,
                "6.2.0",
                Run::Data(keys::object_help),
            )
            .categories("keyspace")
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "object|idletime",
                3,
                "readonly",
                Group::Generic,
                "2.2.3",
                Run::Data(keys::object_idletime),
            )
            .keys(&[key_spec(2, 0, 1, "RO")])
            .categories("keyspace")
            .docs("Tells the seconds since the last use.", "O(1)"),
            command(
                "object|refcount",
                3,
                "readonly",
                Group::Generic,
                "2.2.3",
                Run::Data(keys::object_refcount),
            )
            .keys(&[key_spec(2, 0, 1, "RO")])
            .categories("keyspace")
            .docs("Tells the number of references to a value.", "O(1)"),
        ]),
];

const STRINGS: &[Command] = &[
    command(
        "get",
        2,
        "readonly fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::get),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .reads_directly(strings::get_directly)
    .categories("string")
    .docs("Returns the value of a key.", "O(1)"),
    command(
        "set",
        -3,
        "write denyoom",
        Group::String,
        "1.0.0",
        Run::Data(strings::set),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update variable_flags")])
    .writes_directly(strings::set_directly)
    .categories("string")
    .docs("Sets the value of a key, whatever it held.", "O(1)"),
    command(
        "setnx",
        3,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::setnx),
    )
    .keys(&[key_spec(1, 0, 1, "OW insert")])
    .categories("string")
    .docs("Sets the value of a key that does not exist.", "O(1)"),
    command(
        "setex",
        4,
        "write denyoom",
        Group::String,
        "2.0.0",
        Run::Data(strings::setex),
    )
    .keys(&[key_spec(1, 0, 1, "OW update")])
    .categories("string")
    .docs("Sets value and deadline in seconds.", "O(1)"),
    command(
        "psetex",
        4,
        "write denyoom",
        Group::String,
        "2.6.0",
        Run::Data(strings::psetex),
    )
    .keys(&[key_spec(1, 0, 1, "OW update")])
    .categories("string")
    .docs("Sets value and deadline in milliseconds.", "O(1)"),
    command(
        "getset",
        3,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::getset),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("string")
    .docs("Sets a value and returns the old one.", "O(1)"),
    command(
        "getdel",
        2,
        "write fast",
        Group::String,
        "6.2.0",
        Run::Data(strings::getdel),
    )
    .keys(&[key_spec(1, 0, 1, "RW access delete")])
    .categories("string")
    .docs("Returns a value and removes the key.", "O(1)"),
    command(
        "getex",
        -2,
        "write fast",
        Group::String,
        "6.2.0",
        Run::Data(strings::getex),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("string")
    .docs("Returns a value and changes the deadline.", "O(1)"),
    command(
        "mget",
        -2,
        "readonly fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::mget),
    )
    .keys(&[key_spec(1, -1, 1, "RO access")])
    .categories("string")
    .docs("Returns the values of keys.", "O(N) in the number of keys."),
    command(
        "mset",
        -3,
        "write denyoom",
        Group::String,
        "1.0.1",
        Run::Data(strings::mset),
    )
    .keys(&[key_spec(1, -1, 2, "OW update")])
    .categories("string")
    .docs("Sets the values of keys.", "O(N) in the number of keys."),
    command(
        "msetnx",
        -3,
        "write denyoom",
        Group::String,
        "1.0.1",
        Run::Data(strings::msetnx),
    )
    .keys(&[key_spec(1, -1, 2, "OW insert")])
    .categories("string")
    .docs(
        "Sets the values of keys, if none of them exists.",
        "O(N) in the number of keys.",
    ),
    command(
        "append",
        3,
        "write denyoom fast",
        Group::String,
        "2.0.0",
        Run::Data(strings::append),
    )
    .keys(&[key_spec(1, 0, 1, "RW insert")])
    .categories("string")
    .docs("Appends to a value.", "O(1) amortized"),
    command(
        "strlen",
        2,
        "readonly fast",
        Group::String,
        "2.2.0",
        Run::Data(strings::strlen),
    )
    .keys(&[key_spec(1, 0, 1, "RO")])
    .categories("string")
    .docs("Tells the length of a value.", "O(1)"),
    command(
        "getrange",
        4,
        "readonly",
        Group::String,
        "2.4.0",
        Run::Data(strings::getrange),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("string")
    .docs("Returns a part of a value.", "O(N) in the length returned."),
    command(
        "substr",
        4,
        "readonly",
        Group::String,
        "1.0.0",
        Run::Data(strings::getrange),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("string")
    .docs(
        "Returns a part of a value; the old name of GETRANGE.",
        "O(N) in the length returned.",
    ),
    command(
        "setrange",
        4,
        "write denyoom",
        Group::String,
        "2.2.0",
        Run::Data(strings::setrange),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("string")
    .docs(
        "Overwrites a part of a value.",
        "O(N) in the length written.",
    ),
    command(
        "incr",
        2,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::incr),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .writes_directly(strings::incr_directly)
    .categories("string")
    .docs("Adds one to an integer.", "O(1)"),
    command(
        "decr",
        2,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::decr),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .writes_directly(strings::decr_directly)
    .categories("string")
    .docs("Subtracts one from an integer.", "O(1)"),
    command(
        "incrby",
        3,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::incrby),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .writes_directly(strings::incrby_directly)
    .categories("string")
    .docs("Adds to an integer.", "O(1)"),
    command(
        "decrby",
        3,
        "write denyoom fast",
        Group::String,
        "1.0.0",
        Run::Data(strings::decrby),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("string")
    .docs("Subtracts from an integer.", "O(1)"),
    command(
        "incrbyfloat",
        3,
        "write denyoom fast",
        Group::String,
        "2.6.0",
        Run::Data(strings::incrbyfloat),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("string")
    .docs("Adds to a number.", "O(1)"),
    command(
        "lcs",
        -3,
        "readonly",
        Group::String,
        "7.0.0",
        Run::Data(strings::lcs),
    )
    .keys(&[key_spec(1, 1, 1, "RO access")])
    .categories("string")
    .docs(
        "Finds the longest common subsequence.",
        "O(N*M) in the lengths of the values.",
    ),
];

const HASHES: &[Command] = &[
    command(
        "hset",
        -4,
        "write denyoom fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hset),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("hash")
    .docs("Sets fields.", "O(N) in the number of fields."),
    command(
        "hmset",
        -4,
        "write denyoom fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hset),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("hash")
    .docs(
        "Sets fields; the old name of HSET.",
        "O(N) in the number of fields.",
    ),
    command(
        "hsetnx",
        4,
        "write denyoom fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hsetnx),
    )
    .keys(&[key_spec(1, 0, 1, "RW insert")])
    .categories("hash")
    .docs("Sets a field that does not exist.", "O(1)"),
    command(
        "hget",
        3,
        "readonly fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hget),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs("Returns the value of a field.", "O(1)"),
    command(
        "hmget",
        -3,
        "readonly fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hmget),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs(
        "Returns the values of fields.",
        "O(N) in the number of fields.",
    ),
    command(
        "hgetall",
        2,
        "readonly",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hgetall),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs(
        "Returns all fields and values.",
        "O(N) in the size of the hash.",
    ),
    command(
        "hdel",
        -3,
        "write fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hdel),
    )
    .keys(&[key_spec(1, 0, 1, "RW delete")])
    .categories("hash")
    .docs("Removes fields.", "O(N) in the number of fields."),
    command(
        "hlen",
        2,
        "readonly fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hlen),
    )
    .keys(&[key_spec(1, 0, 1, "RO")])
    .categories("hash")
    .docs("Counts the fields.", "O(1)"),
    command(
        "hexists",
        3,
        "readonly fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hexists),
    )
    .keys(&[key_spec(1, 0, 1, "RO")])
    .categories("hash")
    .docs("Tells whether a field exists.", "O(1)"),
    command(
        "hkeys",
        2,
        "readonly",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hkeys),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs("Returns all fields.", "O(N) in the size of the hash."),
    command(
        "hvals",
        2,
        "readonly",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hvals),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs("Returns all values.", "O(N) in the size of the hash."),
    command(
        "hstrlen",
        3,
        "readonly fast",
        Group::Hash,
        "3.2.0",
        Run::Data(hashes::hstrlen),
    )
    .keys(&[key_spec(1, 0, 1, "RO")])
    .categories("hash")
    .docs("Tells the length of a value.", "O(1)"),
    command(
        "hincrby",
        4,
        "write denyoom fast",
        Group::Hash,
        "2.0.0",
        Run::Data(hashes::hincrby),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("hash")
    .docs("Adds to an integer field.", "O(1)"),
    command(
        "hincrbyfloat",
        4,
        "write denyoom fast",
        Group::Hash,
        "2.6.0",
        Run::Data(hashes::hincrbyfloat),
    )
    .keys(&[key_spec(1, 0, 1, "RW access update")])
    .categories("hash")
    .docs("Adds to a number field.", "O(1)"),
    command(
        "hrandfield",
        -2,
        "readonly",
        Group::Hash,
        "6.2.0",
        Run::Data(hashes::hrandfield),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs(
        "Returns random fields.",
        "O(N) in the number of fields returned.",
    ),
    command(
        "hscan",
        -3,
        "readonly",
        Group::Hash,
        "2.8.0",
        Run::Data(scan::hscan),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("hash")
    .docs(
        "Walks the fields of a hash, a few a call.",
        "O(1) a call, O(N) for a whole scan.",
    ),
];

/// A command with what every one has; the rest is added below.
const fn command(
    full_name: &'static str,
    arity: i16,
    flags: &'static str,
    group: Group,
    since: &'static str,
    run: Run,
) -> Command {
    Command {
        name: own_part(full_name),
        full_name,
        arity,
        flags,
        keys: &[],
        categories: "",
        since,
        group,
        summary: "",
        complexity: "",
        subcommands: &[],
        run,
        locks: Locks::None,
        writes_keys: false,
        may_wait: contains_word(flags, "blocking"),
        element: element_of(full_name),
        touches_any_key: starts_with(full_name, "scan") || starts_with(full_name, "randomkey"),
        direct: None,
    }
}

/// A part of DEBUG that is run as a data command.
pub(super) const fn debug_part(
    full_name: &'static str,
    arity: i16,
    locks: Locks,
    handler: super::Handler,
) -> Command {
    let part = command(
        full_name,
        arity,
        "admin",
        Group::Server,
        "1.0.0",
        Run::Data(handler),
    );
    part.locks(locks)
}

const fn key_spec(first: u16, last: i16, step: u16, flags: &'static str) -> KeySpec {
    KeySpec {
        first,
        last,
        step,
        count_at: 0,
        keyword: "",
        half: false,
        untold: false,
        found_by: None,
        flags,
    }
}

/// Keys that an option names: COMMAND tells of a keyword, looked for from argument `from` on.
const fn keyword_keys(
    keyword: &'static str,
    from: u16,
    flags: &'static str,
    find: Finder,
) -> KeySpec {
    KeySpec {
        keyword,
        found_by: Some(find),
        ..key_spec(from, 0, 1, flags)
    }
}

/// Keys that an option names, of which COMMAND does not tell.
const fn untold_keys(flags: &'static str, find: Finder) -> KeySpec {
    KeySpec {
        untold: true,
        found_by: Some(find),
        ..key_spec(0, 0, 1, flags)
    }
}

/// Keys that only the values of other keys tell.
const fn unknown_keys(flags: &'static str) -> KeySpec {
    KeySpec {
        untold: true,
        ..key_spec(0, 0, 1, flags)
    }
}

/// Keys from `first` on, as many as the argument at `count_at` says.
const fn counted_keys(count_at: u16, first: u16, flags: &'static str) -> KeySpec {
    KeySpec {
        count_at,
        ..key_spec(first, 0, 1, flags)
    }
}

impl Command {
    const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self.locks = Locks::Keys;
        // COPY only reads its first key; it minds mounts itself.
        self.writes_keys = starts_with(self.flags, "write") && !starts_with(self.name, "copy");
        self
    }

    const fn locks(mut self, locks: Locks) -> Self {
        self.locks = locks;
        self
    }

    const fn reads_directly(mut self, read: DirectRead) -> Self {
        self.direct = Some(Direct::Read(read));
        self
    }

    const fn writes_directly(mut self, write: DirectWrite) -> Self {
        self.direct = Some(Direct::Write(write));
        self
    }

    const fn categories(mut self, categories: &'static str) -> Self {
        self.categories = categories;
        self
    }

    const fn docs(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    const fn subcommands(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

/// Where commands name the one element, or the first, that they look up in their first key.
const ELEMENTS: [(&str, u8); 18] = [
    ("hdel", 2),
    ("hexists", 2),
    ("hget", 2),
    ("hincrby", 2),
    ("hmget", 2),
    ("hmset", 2),
    ("hset", 2),
    ("hsetnx", 2),
    ("hstrlen", 2),
    ("sadd", 2),
    ("sismember", 2),
    ("srem", 2),
    ("zadd", 3),
    ("zincrby", 3),
    ("zrank", 2),
    ("zrem", 2),
    ("zrevrank", 2),
    ("zscore", 2),
];

const fn element_of(name: &str) -> u8 {
    let mut at = 0;
    while at < ELEMENTS.len() {
        let (other, element) = ELEMENTS[at];
        if other.len() == name.len() && starts_with(name, other) {
            return element;
        }
        at += 1;
    }
    0
}

/// `encoding` of `object|encoding`.
const fn own_part(full_name: &'static str) -> &'static str {
    let mut at = 0;
    while at < full_name.len() {
        if full_name.as_bytes()[at] == b'|' {
            return full_name.split_at(at + 1).1;
        }
        at += 1;
    }
    full_name
}

const fn starts_with(text: &str, start: &str) -> bool {
    is_at(text, 0, start)
}

const fn contains_word(text: &str, word: &str) -> bool {
    let mut at = 0;
    while at < text.len() {
        if is_at(text, at, word) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_at(text: &str, from: usize, part: &str) -> bool {
    let mut at = 0;
    while at < part.len() {
        if from + at >= text.len() || text.as_bytes()[from + at] != part.as_bytes()[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Open addressing, laid out when this is compiled: group and index of each command.
static SLOTS: [Option<(u8, u8)>; 2048] = lay_out();

const fn lay_out() -> [Option<(u8, u8)>; 2048] {
    let groups = GROUP_LIST;
    let mut slots = [None; 2048];
    let mut group = 0;
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            let mut at = slot(groups[group][index].name.as_bytes());
            while slots[at].is_some() {
                at = (at + 1) % slots.len();
            }
            slots[at] = Some((group as u8, index as u8));
            index += 1;
        }
        group += 1;
    }
    slots
}

/// Whether this is the command's name, in any case.
#[inline]
pub(super) fn is_named(command: &Command, name: &[u8]) -> bool {
    let own = command.name.as_bytes();
    match own.len() == name.len() {
        true if own.len() <= 8 => packed(own) == lower(packed(name)),
        true => own.eq_ignore_ascii_case(name),
        false => false,
    }
}

/// Up to eight bytes in one word; of two names of the same length it is the same word only if they
/// are the same.
#[inline]
fn packed(name: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    match *name {
        [] => 0,
        [only] => u64::from(only),
        [first, .., last] => {
            let middle = name[name.len() / 2];
            u64::from(u32::from_le_bytes([first, middle, last, 0]))
        }
    }
}

/// Eight bytes, the ASCII letters among them in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (EACH * 0x7F);
    // No sum reaches the next byte.
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let behind_z = low + EACH * (0x7F - b'Z' as u64);
    let is_upper = (from_a ^ behind_z) & !word & (EACH * 0x80);
    word | is_upper >> 2
}

/// Four bytes, in lower case, and the length tell nearly all names apart.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let (second, last_but_one) = match length {
        1 => (0, name[0]),
        _ => (name[1], name[length - 2]),
    };
    let bytes = [name[0], second, last_but_one, name[length - 1]];
    let word = u32::from_le_bytes(bytes) | 0x2020_2020;
    let mixed = word.wrapping_add(length as u32).wrapping_mul(0x9E37_79B1);
    ((mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77) >> 21) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case_and_nothing_else_is() {
        let mut probes = 0;
        for command in all() {
            let name = command.name.to_uppercase();
            assert!(
                std::ptr::eq(lookup(name.as_bytes()).unwrap(), command),
                "{name}"
            );
            assert!(std::ptr::eq(
                lookup(command.name.as_bytes()).unwrap(),
                command
            ));
            assert!(lookup(&name.as_bytes()[1..]).is_none_or(|other| other.name != command.name));
            let mut at = slot(name.as_bytes());
            while SLOTS[at].is_some() {
                at = (at + 1) % SLOTS.len();
                probes += 1;
            }
        }
        assert!(probes < all().count() * 3 / 2, "{probes} probes");
        assert!(lookup(b"").is_none() && lookup(b"nonsense").is_none());
    }

    #[test]
    fn a_word_s_letters_become_lower_case_and_nothing_else_does() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, b'Z', byte, b'[', b'@', byte, 0xDA, byte];
            let expected = bytes.map(|byte| byte.to_ascii_lowercase());
            let word = u64::from_le_bytes(bytes);
            assert_eq!(lower(word), u64::from_le_bytes(expected), "{byte:#x}");
        }
    }

    #[test]
    fn declarations_are_complete_and_agree_with_themselves() {
        for command in
            all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
        {
            assert!(!command.summary.is_empty() && !command.complexity.is_empty());
            assert_eq!(command.name, command.name.to_lowercase());
            assert!(command.arity != 0);
            for spec in command.keys {
                let is_found = spec.keyword.is_empty() || spec.found_by.is_some();
                assert!(is_found, "{}", command.full_name);
                assert!(spec.step > 0 && spec.first > 0 || spec.untold);
                let promised = i32::from(spec.first) < i32::from(command.arity.abs());
                // Of further keys, or of those that follow a word, none may be there.
                let open = !spec.keyword.is_empty() || spec.last < 0;
                let named = promised || open || spec.flags == "not_key";
                assert!(
                    named || command.has_flag("no_mandatory_keys"),
                    "{}",
                    command.full_name
                );
            }
            assert!(!(command.has_flag("write") && command.has_flag("readonly")));
        }
    }
}
