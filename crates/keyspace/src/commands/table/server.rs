//! Server commands.

use super::{Command, Group, Locks, Run, command, key_spec};
use crate::commands::{debug, introspection, keys};

#[rustfmt::skip]
pub(super) const SERVER: &[Command] = &[
    // Locks all shards: counting shard by shard, a key renamed meanwhile would count twice or
    // never.
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
        .docs("Swaps two databases.", "O(N) in the number of live keys."),
    command("time", 1, "loading stale fast", Group::Server, "2.6.0",
        Run::Data(introspection::time)).tips("nondeterministic_output")
        .docs("Returns the time in seconds and microseconds.", "O(1)"),
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
        .docs("Finds the keys in a full command.", "O(N) in the number of commands."),
    command("command|getkeysandflags", -3, "loading stale", Group::Server, "7.0.0",
        Run::Data(introspection::getkeysandflags)).categories("connection")
        .syntax("command [arg+]")
        .docs("Finds the keys in a full command, with their access flags.",
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
        .docs("Reads and sets parameters.", "Depends on subcommand."),
    command("config|get", -3, "admin noscript loading stale", Group::Server, "2.0.0", Run::Session)
        .marks("locks_nothing").syntax("parameter+")
        .docs("Returns parameters.", "O(N) in the number of settings."),
    command("config|help", 2, "loading stale", Group::Server, "5.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(N) in the number of settings."),
    command("config|resetstat", 2, "admin noscript loading stale", Group::Server, "2.0.0",
        Run::Session).tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Resets the statistics.", "O(N) in the number of settings."),
    command("config|rewrite", 2, "admin noscript loading stale", Group::Server, "2.8.0",
        Run::Session).tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Writes the parameters to the configuration file.", "O(N) in the number of settings."),
    command("config|set", -4, "admin noscript loading stale", Group::Server, "2.0.0", Run::Session).marks("sets_parameters")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("data(parameter value)+")
        .docs("Sets parameters.", "O(N) in the number of settings."),
    command("info", -1, "loading stale", Group::Server, "1.0.0", Run::Session)
        .categories("dangerous")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .syntax("[section+]")
        .docs("Describes the server and its state.", "O(1)"),
    command("shutdown", -1, "admin noscript loading stale no_multi allow_busy", Group::Server,
        "1.0.0", Run::Session).syntax("[save-selector(NOSAVE | SAVE)] [NOW] [FORCE] [ABORT]")
        .docs("Stops the server.", "O(N) when saving."),
    command("debug", -2, "admin noscript loading stale", Group::Server, "1.0.0", Run::Session)
        .marks("debugs tells_itself")
        .docs("Debugging commands for tests of the server.", "Depends on subcommand."),
    command("acl", -2, "", Group::Server, "6.0.0", Run::Container)
        .docs("Commands on users.", "Depends on subcommand."),
    command("acl|cat", -2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[category]")
        .docs("Lists command categories, or the commands of one.", "O(N) in the number of commands."),
    command("acl|deluser", -3, "admin noscript loading stale", Group::Server, "6.0.0",
        Run::Session).marks("changes_users")
        .tips("request_policy:all_nodes response_policy:all_succeeded").syntax("username+")
        .docs("Deletes users and closes their connections.", "O(1) a user."),
    command("acl|dryrun", -4, "admin noscript loading stale", Group::Server, "7.0.0", Run::Session)
        .syntax("username command [arg+]")
        .docs("Returns whether a user may run a command.", "O(1)"),
    command("acl|genpass", -2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[bits:i]")
        .docs("Generates a random password.", "O(1)"),
    command("acl|getuser", 3, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("username")
        .docs("Returns the rules of a user.", "O(N) in the number of rules."),
    command("acl|help", 2, "loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("acl|list", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the users as lines of a file.", "O(N) in the number of users."),
    command("acl|load", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .marks("changes_users")
        .docs("Reloads the users from the file.", "O(N) in the number of users."),
    command("acl|log", -2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .syntax("[operation(count:i | RESET)]")
        .docs("Lists recent refusals.", "O(N) in the number of entries."),
    command("acl|save", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .docs("Writes the users to the file.", "O(N) in the number of users."),
    command("acl|setuser", -3, "admin noscript loading stale", Group::Server, "6.0.0",
        Run::Session).marks("changes_users")
        .tips("request_policy:all_nodes response_policy:all_succeeded").syntax("username [rule+]")
        .docs("Creates or changes a user.", "O(N) in the number of rules."),
    command("acl|users", 2, "admin noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Lists the names of the users.", "O(N) in the number of users."),
    command("acl|whoami", 2, "noscript loading stale", Group::Server, "6.0.0", Run::Session)
        .docs("Returns the user of the connection.", "O(1)"),
    command("memory", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs("Commands on memory.", "Depends on subcommand."),
    command("memory|doctor", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Returns a report on memory use.", "O(1)"),
    command("memory|help", 2, "loading stale", Group::Server, "4.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("memory|malloc-stats", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Shows the allocator's statistics.", "O(1)"),
    command("memory|purge", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .docs("Returns unused memory to the system.", "O(1)"),
    command("memory|stats", 2, "", Group::Server, "4.0.0", Run::Session)
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Returns details of memory use.", "O(1)"),
    command("memory|usage", -3, "readonly", Group::Server, "4.0.0", Run::Data(debug::memory_usage))
        .keys(&[key_spec(2, 0, 1, "RO")]).syntax("key:k [SAMPLES=count:i]")
        .docs("Estimates the memory of a key.", "O(N) in the number of samples."),
    command("latency", -2, "", Group::Server, "2.8.13", Run::Container)
        .docs("Commands on latency.", "Depends on subcommand."),
    command("latency|doctor", 2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .docs("Returns a report on latency.", "O(1)"),
    command("latency|graph", 3, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("event")
        .docs("Returns an ASCII graph of an event's latency.", "O(1)"),
    command("latency|help", 2, "loading stale", Group::Server, "2.8.13", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("latency|histogram", -2, "admin noscript loading stale", Group::Server, "7.0.0",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("[command+]")
        .docs("Returns histograms of command latency.", "O(N) in the number of commands."),
    command("latency|history", 3, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .syntax("event")
        .docs("Lists an event's latency history.", "O(1)"),
    command("latency|latest", 2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session)
        .tips("nondeterministic_output request_policy:all_nodes response_policy:special")
        .docs("Lists the latest latency events.", "O(1)"),
    command("latency|reset", -2, "admin noscript loading stale", Group::Server, "2.8.13",
        Run::Session).tips("request_policy:all_nodes response_policy:agg_sum").syntax("[event+]")
        .docs("Clears latency events.", "O(1)"),
    command("commandlog", -2, "", Group::Server, "8.0.0", Run::Container)
        .docs("Commands on slow and large commands. From Valkey.", "Depends on subcommand."),
    command("commandlog|get", 4, "admin loading stale", Group::Server, "8.0.0", Run::Session)
        .tips("request_policy:all_nodes nondeterministic_output")
        .syntax("count:i type(SLOW | LARGE-REQUEST | LARGE-REPLY)")
        .docs("Lists slow or large commands.", "O(N) in the number of entries."),
    command("commandlog|help", 2, "loading stale", Group::Server, "8.0.0", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("commandlog|len", 3, "admin loading stale", Group::Server, "8.0.0", Run::Session)
        .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output")
        .syntax("type(SLOW | LARGE-REQUEST | LARGE-REPLY)")
        .docs("Counts slow or large commands.", "O(1)"),
    command("commandlog|reset", 3, "admin loading stale", Group::Server, "8.0.0", Run::Session)
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("type(SLOW | LARGE-REQUEST | LARGE-REPLY)")
        .docs("Clears a log of commands.", "O(1)"),
    command("slowlog", -2, "", Group::Server, "2.2.12", Run::Container)
        .docs("Commands on slow commands.", "Depends on subcommand."),
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
        .docs("Clears the slow log.", "O(1)"),
    command("monitor", 1, "admin noscript loading stale", Group::Server, "1.0.0", Run::Session)
        .docs("Streams every executed command.", "O(1)"),
    command("hotkeys", -2, "", Group::Server, "8.6.0", Run::Container)
        .docs("Commands on the keys that are used most.", "Depends on subcommand."),
    command("hotkeys|get", 2, "admin noscript", Group::Server, "8.6.0", Run::Session)
        .tips("nondeterministic_output request_policy:special response_policy:special")
        .docs("Lists the keys with the most processor time and bytes.",
            "O(K) in the number of keys returned."),
    command("hotkeys|help", 2, "loading stale", Group::Server, "8.6.1", Run::Session)
        .docs("Lists the subcommands.", "O(1)"),
    command("hotkeys|reset", 2, "admin noscript", Group::Server, "8.6.0", Run::Session)
        .tips("request_policy:special").docs("Forgets the tracked keys.", "O(1)"),
    command("hotkeys|start", -2, "admin noscript", Group::Server, "8.6.0", Run::Session)
        .tips("request_policy:special")
        .syntax("METRICS=metrics(count:i [CPU] [NET]) [COUNT=k:i] [DURATION=seconds:i] \
            [SAMPLE=ratio:i] [SLOTS=slots(count:i slot:i+)]")
        .docs("Starts to track keys.", "O(1)"),
    command("hotkeys|stop", 2, "admin noscript", Group::Server, "8.6.0", Run::Session)
        .tips("request_policy:special").docs("Stops tracking keys.", "O(1)"),
    command("tidewire.top", -1, "admin noscript loading stale", Group::Server, "8.0.0",
        Run::Session).syntax("[selection(what([KEYS] [CHANNELS] [COUNT=count:i]) | RESET | HELP)]")
        .docs("Lists the most used keys and channels.",
            "O(1), by the bounds of the sketches."),
    command("tidewire.keys", 2, "admin noscript loading stale", Group::Server, "8.0.0",
        Run::Session).syntax("operation(REBUILD | HELP)")
        .docs("Stores the keys of this hub's memory as those of its group.", "O(N) in the keys."),
    command("tidewire.book", -2, "readonly noscript loading stale fast", Group::Server, "8.0.0",
        Run::Session).syntax("symbol [LEVELS=levels:i]")
        .docs("Returns the best price levels of a market topic.", "O(N) in the number of levels."),
    command("module", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs("Commands on modules; modules are not supported.", "Depends on subcommand."),
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
        .docs("Returns the replication role of the server.", "O(1)"),
    command("lastsave", 1, "loading stale fast", Group::Server, "1.0.0", Run::Session)
        .categories("admin dangerous").tips("nondeterministic_output")
        .docs("Returns the time of the last save.", "O(1)"),
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
        .docs("Promotes a replica to master, and makes this server its replica.", "O(1)"),
    command("replconf", -1, "admin noscript loading stale allow_busy", Group::Server, "3.0.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .docs("Reports a replica's state and offset to its master.", "O(1)"),
    command("sync", 1, "admin noscript no_async_loading no_multi", Group::Server, "1.0.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .docs("Starts replication with a full sync.", "O(N) in the number of keys."),
    command("psync", -3, "admin noscript no_async_loading no_multi", Group::Server, "2.8.0",
        Run::Session).marks("locks_nothing").categories("admin dangerous")
        .syntax("replicationid offset:i")
        .docs("Resumes replication, or starts it with a full sync.",
            "O(1) to go on; O(N) in the number of keys to begin."),
    command("slaveof", 3, "admin noscript stale no_async_loading", Group::Server, "1.0.0",
        Run::Session).marks("tells_itself").syntax("args(host-port(host port:i) | no-one(NO ONE))")
        .docs("Makes the server a replica, or a master.", "O(1)"),
    command("wait", 3, "blocking", Group::Generic, "3.0.0", Run::Session).categories("connection")
        .tips("request_policy:all_shards response_policy:agg_min")
        .syntax("numreplicas:i timeout:i")
        .docs("Waits until replicas have acknowledged the writes.", "O(1)"),
    command("waitaof", 4, "blocking", Group::Generic, "7.2.0", Run::Session)
        .categories("connection").tips("request_policy:all_shards response_policy:agg_min")
        .syntax("numlocal:i numreplicas:i timeout:i")
        .docs("Waits until the writes are on disk.", "O(1)"),
    command("lolwut", -1, "readonly fast", Group::Server, "5.0.0", Run::Session)
        .syntax("[VERSION=version:i]")
        .docs("Returns an ASCII drawing and the version.", "O(1)"),
];
