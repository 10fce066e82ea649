//! Commands about the server.

use super::{Command, Group, Locks, Run, command, key_spec};
use crate::commands::{debug, introspection, keys};

#[rustfmt::skip]
pub(super) const SERVER: &[Command] = &[
    // Counted shard by shard, a key that is renamed meanwhile would count twice, or not at all.
    command("dbsize", 1, "readonly fast", Group::Server, "1.0.0", Run::Data(keys::dbsize))
        .locks(Locks::All).categories("keyspace")
        .tips("request_policy:all_shards response_policy:agg_sum")
        .docs("Counts the keys of the database.", "O(1)"),
    command("flushdb", -1, "write", Group::Server, "1.0.0", Run::Data(keys::flushdb))
        .marks("flushes").locks(Locks::All).categories("keyspace dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("[flush-type(ASYNC | SYNC)]")
        .docs("Removes all keys of the database.", "O(N) in the number of keys."),
    command("flushall", -1, "write", Group::Server, "1.0.0", Run::Data(keys::flushall))
        .marks("flushes").locks(Locks::All).categories("keyspace dangerous")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("[flush-type(ASYNC | SYNC)]")
        .docs("Removes all keys of all databases.", "O(N) in the number of keys."),
    command("swapdb", 3, "write fast", Group::Server, "4.0.0", Run::Data(keys::swapdb))
        .locks(Locks::All).categories("keyspace dangerous").syntax("index1:i index2:i")
        .docs("Exchanges two databases.", "O(N) in the number of live keys."),
    command("time", 1, "loading stale fast", Group::Server, "2.6.0",
        Run::Data(introspection::time)).tips("nondeterministic_output")
        .docs("Tells the time in seconds and microseconds.", "O(1)"),
    command("command", -1, "loading stale", Group::Server, "2.8.13",
        Run::Data(introspection::command)).categories("connection")
        .tips("nondeterministic_output_order")
        .docs("Describes the commands.", "O(N) in the number of commands."),
    command("command|count", 2, "loading stale", Group::Server, "2.8.13",
        Run::Data(introspection::count)).categories("connection")
        .docs("Counts the commands.", "O(N) in the number of commands."),
    command("command|docs", -2, "loading stale", Group::Server, "7.0.0",
        Run::Data(introspection::docs)).categories("connection")
        .tips("nondeterministic_output_order").syntax("[command-name+]")
        .docs("Documents commands.", "O(N) in the number of commands."),
    command("command|getkeys", -3, "loading stale", Group::Server, "2.8.13",
        Run::Data(introspection::getkeys)).categories("connection").syntax("command [arg+]")
        .docs("Finds the keys in a whole command.", "O(N) in the number of commands."),
    command("command|getkeysandflags", -3, "loading stale", Group::Server, "7.0.0",
        Run::Data(introspection::getkeysandflags)).categories("connection")
        .syntax("command [arg+]")
        .docs("Finds the keys in a whole command, with what is done to them.",
            "O(N) in the number of commands."),
    command("command|help", 2, "loading stale", Group::Server, "5.0.0",
        Run::Data(introspection::help)).categories("connection")
        .docs("Lists the subcommands.", "O(N) in the number of commands."),
    command("command|info", -2, "loading stale", Group::Server, "2.8.13",
        Run::Data(introspection::info)).categories("connection")
        .tips("nondeterministic_output_order").syntax("[command-name+]")
        .docs("Describes some commands.", "O(N) in the number of commands."),
    command("command|list", -2, "loading stale", Group::Server, "7.0.0",
        Run::Data(introspection::list)).categories("connection")
        .tips("nondeterministic_output_order")
        .syntax("[FILTERBY=filterby(MODULE=module-name | ACLCAT=category | PATTERN=pattern:p)]")
        .docs("Lists the names of commands.", "O(N) in the number of commands."),
    command("config", -2, "", Group::Server, "2.0.0", Run::Container)
        .docs("Reads and changes settings.", "Depends on subcommand."),
    command("config|get", -3, "admin noscript loading stale", Group::Server, "2.0.0", Run::Session)
        .marks("locks_nothing").syntax("parameter+")
        .docs("Tells settings.", "O(N) in the number of settings."),
    command("config|help", 2, "loading stale", Group::Server, "5.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(N) in the number of settings."),
    command("config|resetstat", 2, "admin noscript loading stale", Group::Server, "2.0.0",
        Run::Session).tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Sets counters to zero.", "O(N) in the number of settings."),
    command("config|rewrite", 2, "admin noscript loading stale", Group::Server, "2.8.0",
        Run::Session).tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Writes settings to the configuration file.", "O(N) in the number of settings."),
    command("config|set", -4, "admin noscript loading stale", Group::Server, "2.0.0", Run::Session).marks("sets_parameters")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("data(parameter value)+")
        .docs("Changes settings.", "O(N) in the number of settings."),
    command("info", -1, "loading stale", Group::Server, "1.0.0", Run::Session)
        .categories("dangerous")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .syntax("[section+]")
        .docs("Describes the server and its state.", "O(1)"),
    command("shutdown", -1, "admin noscript loading stale no_multi allow_busy", Group::Server,
        "1.0.0", Run::Session).syntax("[save-selector(NOSAVE | SAVE)] [NOW] [FORCE] [ABORT]")
        .docs("Ends the server.", "O(N) when saving."),
    command("debug", -2, "admin noscript loading stale", Group::Server, "1.0.0", Run::Session)
        .marks("debugs tells_itself")
        .docs("For tests of the server.", "Depends on subcommand."),
    command("acl", -2, "", Group::Server, "6.0.0", Run::Container)
        .docs("Looks after users.", "Depends on subcommand."),
    command("acl|cat", -2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[category]")
        .docs("Lists categories, or the commands of one.", "O(N) in the number of commands."),
    command("acl|deluser", -3, "admin noscript loading stale", Group::Server, "6.0.0",
        Run::Session).marks("changes_users")
        .tips("request_policy:all_nodes response_policy:all_succeeded").syntax("username+")
        .docs("Deletes users and ends their connections.", "O(1) a user."),
    command("acl|dryrun", -4, "admin noscript loading stale", Group::Server, "7.0.0", Run::Session)
        .syntax("username command [arg+]")
        .docs("Tells whether a user may run a command.", "O(1)"),
    command("acl|genpass", -2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[bits:i]")
        .docs("Makes a random password.", "O(1)"),
    command("acl|getuser", 3, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("username")
        .docs("Tells what a user may do.", "O(N) in the number of rules."),
    command("acl|help", 2, "loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("acl|list", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the users as lines of a file.", "O(N) in the number of users."),
    command("acl|load", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .marks("changes_users")
        .docs("Reads the users from the file again.", "O(N) in the number of users."),
    command("acl|log", -2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[operation(count:i | RESET)]")
        .docs("Lists what was refused of late.", "O(N) in the number of entries."),
    command("acl|save", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Writes the users to the file.", "O(N) in the number of users."),
    command("acl|setuser", -3, "admin noscript loading stale", Group::Server, "6.0.0",
        Run::Session).marks("changes_users")
        .tips("request_policy:all_nodes response_policy:all_succeeded").syntax("username [rule+]")
        .docs("Makes or changes a user.", "O(N) in the number of rules."),
    command("acl|users", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the names of the users.", "O(N) in the number of users."),
    command("acl|whoami", 2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Names the user of the connection.", "O(1)"),
    command("memory", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs("Tells about memory.", "Depends on subcommand."),
    command("memory|doctor", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Judges the use of memory.", "O(1)"),
    command("memory|help", 2, "loading stale", Group::Server, "4.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("memory|malloc-stats", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Shows what the allocator counts.", "O(1)"),
    command("memory|purge", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .docs("Gives unused memory back.", "O(1)"),
    command("memory|stats", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Tells what memory is used for.", "O(1)"),
    command("memory|usage", -3, "readonly", Group::Server, "4.0.0", Run::Data(debug::memory_usage))
        .keys(&[key_spec(2, 0, 1, "RO")]).syntax("key:k [SAMPLES=count:i]")
        .docs("Estimates the memory of a key.", "O(N) in the number of samples."),
    command("latency", -2, "", Group::Server, "2.8.13", Run::Container)
        .docs("Tells about slow moments.", "Depends on subcommand."),
    command("latency|doctor", 2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .docs("Judges the slow moments.", "O(1)"),
    command("latency|graph", 3, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("event")
        .docs("Draws the slow moments of an event.", "O(1)"),
    command("latency|help", 2, "loading stale", Group::Server, "2.8.13", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("latency|histogram", -2, "admin noscript loading stale", Group::Server, "7.0.0",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("[command+]")
        .docs("Tells how long commands took.", "O(N) in the number of commands."),
    command("latency|history", 3, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("event")
        .docs("Lists the slow moments of an event.", "O(1)"),
    command("latency|latest", 2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .docs("Lists the latest slow moments.", "O(1)"),
    command("latency|reset", -2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session).tips("request_policy:all_nodes response_policy:agg_sum").syntax("[event+]")
        .docs("Forgets slow moments.", "O(1)"),
    command("slowlog", -2, "", Group::Server, "2.2.12", Run::Container)
        .docs("Tells about slow commands.", "Depends on subcommand."),
    command("slowlog|get", -2, "admin loading stale", Group::Server, "2.2.12", Run::Session)
        .tips("request_policy:all_nodes nondeterministic_output").syntax("[count:i]")
        .docs("Lists slow commands.", "O(N) in the number of entries."),
    command("slowlog|help", 2, "loading stale", Group::Server, "6.2.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("slowlog|len", 2, "admin loading stale", Group::Server, "2.2.12", Run::Session)
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output")
        .docs("Counts slow commands.", "O(1)"),
    command("slowlog|reset", 2, "admin loading stale", Group::Server, "2.2.12", Run::Session)
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Forgets slow commands.", "O(1)"),
    command("monitor", 1, "admin noscript loading stale", Group::Server, "1.0.0", Run::Session)
        .docs("Shows every command as it is executed.", "O(1)"),
    command("tidewire.top", -1, "admin noscript loading stale", Group::Server, "8.0.0",
        Run::Session).syntax("[selection(what([KEYS] [CHANNELS] [COUNT=count:i]) | RESET | HELP)]")
        .docs("Lists the keys and channels that are used most.",
            "O(1), by the bounds of the sketches."),
    command("module", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs("Looks after modules, of which there are none.", "Depends on subcommand."),
    command("module|help", 2, "loading stale", Group::Server, "5.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("module|load", -3, "admin noscript no_async_loading", Group::Server, "4.0.0",
        Run::Session).syntax("path [arg+]")
        .docs("Loads a module.", "O(1)"),
    command("module|loadex", -3, "admin noscript no_async_loading", Group::Server, "7.0.0",
        Run::Session).syntax("path [CONFIG=configs(name value)++] [ARGS=args+]")
        .docs("Loads a module, with parameters.", "O(1)"),
    command("module|unload", 3, "admin noscript no_async_loading", Group::Server, "4.0.0",
        Run::Session).syntax("name")
        .docs("Unloads a module.", "O(1)"),
    command("module|list", 2, "admin noscript", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output_order")
        .docs("Lists the modules.", "O(1)"),
    command("role", 1, "noscript loading stale fast", Group::Server, "2.8.12", Run::Session)
        .marks("locks_nothing").categories("admin dangerous")
        .docs("Tells the part of the server in replication.", "O(1)"),
    command("lastsave", 1, "loading stale fast", Group::Server, "1.0.0", Run::Session)
        .categories("admin dangerous").tips("nondeterministic_output")
        .docs("Tells when the data were last saved.", "O(1)"),
    command("save", 1, "admin noscript no_async_loading no_multi", Group::Server, "1.0.0",
        Run::Session)
        .docs("Saves the data.", "O(N) in the number of keys."),
    command("bgsave", -1, "admin noscript no_async_loading", Group::Server, "1.0.0", Run::Session)
        .syntax("[SCHEDULE]")
        .docs("Saves the data in the background.", "O(1)"),
    command("bgrewriteaof", 1, "admin noscript no_async_loading", Group::Server, "1.0.0",
        Run::Session)
        .docs("Rewrites the append-only file in the background.", "O(1)"),
    command("replicaof", 3, "admin noscript stale no_async_loading", Group::Server, "5.0.0",
        Run::Session).marks("tells_itself").syntax("args(host-port(host port:i) | no-one(NO ONE))")
        .docs("Makes the server a replica, or a master.", "O(1)"),
    command("failover", -1, "admin noscript stale", Group::Server, "6.2.0", Run::Session)
        .marks("tells_itself")
        .syntax("[TO=target(host port:i [FORCE])] [ABORT] [TIMEOUT=milliseconds:i]")
        .docs("Makes a replica the master, and this server its replica.", "O(1)"),
    command("replconf", -1, "admin noscript loading stale allow_busy", Group::Server, "3.0.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .docs("A replica tells of itself, and how far it is.", "O(1)"),
    command("sync", 1, "admin noscript no_async_loading no_multi", Group::Server, "1.0.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .docs("Begins the stream of changes with all keys.", "O(N) in the number of keys."),
    command("psync", -3, "admin noscript no_async_loading no_multi", Group::Server, "2.8.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .syntax("replicationid offset:i")
        .docs("Goes on with the stream of changes, or begins it with all keys.",
            "O(1) to go on; O(N) in the number of keys to begin."),
    command("slaveof", 3, "admin noscript stale no_async_loading", Group::Server, "1.0.0",
        Run::Session).marks("tells_itself").syntax("args(host-port(host port:i) | no-one(NO ONE))")
        .docs("Makes the server a replica, or a master.", "O(1)"),
    command("wait", 3, "blocking", Group::Generic, "3.0.0", Run::Session).categories("connection")
        .tips("request_policy:all_shards response_policy:agg_min")
        .syntax("numreplicas:i timeout:i")
        .docs("Waits until replicas have the writes.", "O(1)"),
    command("waitaof", 4, "blocking", Group::Generic, "7.2.0", Run::Session)
        .categories("connection").tips("request_policy:all_shards response_policy:agg_min")
        .syntax("numlocal:i numreplicas:i timeout:i")
        .docs("Waits until the writes are on disk.", "O(1)"),
    command("lolwut", -1, "readonly fast", Group::Server, "5.0.0", Run::Session)
        .syntax("[VERSION=version:i]")
        .docs("Draws something, and tells the version.", "O(1)"),
];
