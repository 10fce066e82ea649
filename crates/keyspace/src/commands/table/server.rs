//! Commands about the server.

use super::{Command, Group, Locks, Run, SessionCommand, command, key_spec};
use crate::commands::{debug, introspection, keys};

pub(super) const SERVER: &[Command] = &[
    command(
        "dbsize",
        1,
        "readonly fast",
        Group::Server,
        "1.0.0",
        Run::Data(keys::dbsize),
    )
    // Counted shard by shard, a key that is renamed meanwhile would count twice, or not at all.
    .locks(Locks::All)
    .categories("keyspace")
    .docs("Counts the keys of the database.", "O(1)"),
    command(
        "flushdb",
        -1,
        "write",
        Group::Server,
        "1.0.0",
        Run::Data(keys::flushdb),
    )
    .locks(Locks::All)
    .categories("keyspace dangerous")
    .docs(
        "Removes all keys of the database.",
        "O(N) in the number of keys.",
    ),
    command(
        "flushall",
        -1,
        "write",
        Group::Server,
        "1.0.0",
        Run::Data(keys::flushall),
    )
    .locks(Locks::All)
    .categories("keyspace dangerous")
    .docs(
        "Removes all keys of all databases.",
        "O(N) in the number of keys.",
    ),
    command(
        "swapdb",
        3,
        "write fast",
        Group::Server,
        "4.0.0",
        Run::Data(keys::swapdb),
    )
    .locks(Locks::All)
    .categories("keyspace dangerous")
    .docs(
        "Exchanges two databases.",
        "O(N) in the number of live keys.",
    ),
    command(
        "time",
        1,
        "loading stale fast",
        Group::Server,
        "2.6.0",
        Run::Data(introspection::time),
    )
    .docs("Tells the time in seconds and microseconds.", "O(1)"),
    command(
        "command",
        -1,
        "loading stale",
        Group::Server,
        "2.8.13",
        Run::Data(introspection::command),
    )
    .categories("connection")
    .docs("Describes the commands.", "O(N) in the number of commands.")
    .subcommands(&[
        command(
            "command|count",
            2,
            "loading stale",
            Group::Server,
            "2.8.13",
            Run::Data(introspection::count),
        )
        .categories("connection")
        .docs("Counts the commands.", "O(N) in the number of commands."),
        command(
            "command|docs",
            -2,
            "loading stale",
            Group::Server,
            "7.0.0",
            Run::Data(introspection::docs),
        )
        .categories("connection")
        .docs("Documents commands.", "O(N) in the number of commands."),
        command(
            "command|getkeys",
            -3,
            "loading stale",
            Group::Server,
            "2.8.13",
            Run::Data(introspection::getkeys),
        )
        .categories("connection")
        .docs(
            "Finds the keys in a whole command.",
            "O(N) in the number of commands.",
        ),
        command(
            "command|getkeysandflags",
            -3,
            "loading stale",
            Group::Server,
            "7.0.0",
            Run::Data(introspection::getkeysandflags),
        )
        .categories("connection")
        .docs(
            "Finds the keys in a whole command, with what is done to them.",
            "O(N) in the number of commands.",
        ),
        command(
            "command|help",
            2,
            "loading stale",
            Group::Server,
            "5.0.0",
            Run::Data(introspection::help),
        )
        .categories("connection")
        .docs("Lists the subcommands.", "O(N) in the number of commands."),
        command(
            "command|info",
            -2,
            "loading stale",
            Group::Server,
            "2.8.13",
            Run::Data(introspection::info),
        )
        .categories("connection")
        .docs(
            "Describes some commands.",
            "O(N) in the number of commands.",
        ),
        command(
            "command|list",
            -2,
            "loading stale",
            Group::Server,
            "7.0.0",
            Run::Data(introspection::list),
        )
        .categories("connection")
        .docs(
            "Lists the names of commands.",
            "O(N) in the number of commands.",
        ),
    ]),
    command("config", -2, "", Group::Server, "2.0.0", Run::Container)
        .docs("Reads and changes settings.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "config|get",
                -3,
                "admin noscript loading stale",
                Group::Server,
                "2.0.0",
                Run::Session(SessionCommand::ConfigGet),
            )
            .docs("Tells settings.", "O(N) in the number of settings."),
            command(
                "config|help",
                2,
                "loading stale",
                Group::Server,
                "5.0.0",
                Run::Session(SessionCommand::ConfigHelp),
            )
            .docs("Lists the subcommands.", "O(N) in the number of settings."),
            command(
                "config|resetstat",
                2,
                "admin noscript loading stale",
                Group::Server,
                "2.0.0",
                Run::Session(SessionCommand::ConfigResetStat),
            )
            .docs("Sets counters to zero.", "O(N) in the number of settings."),
            command(
                "config|rewrite",
                2,
                "admin noscript loading stale",
                Group::Server,
                "2.8.0",
                Run::Session(SessionCommand::ConfigRewrite),
            )
            .docs(
                "Writes settings to the configuration file.",
                "O(N) in the number of settings.",
            ),
            command(
                "config|set",
                -4,
                "admin noscript loading stale",
                Group::Server,
                "2.0.0",
                Run::Session(SessionCommand::ConfigSet),
            )
            .docs("Changes settings.", "O(N) in the number of settings."),
        ]),
    command(
        "info",
        -1,
        "loading stale",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Info),
    )
    .categories("dangerous")
    .docs("Describes the server and its state.", "O(1)"),
    command(
        "shutdown",
        -1,
        "admin noscript loading stale no_multi allow_busy",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Shutdown),
    )
    .docs("Ends the server.", "O(N) when saving."),
    command(
        "debug",
        -2,
        "admin noscript loading stale",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Debug),
    )
    .docs("For tests of the server.", "Depends on subcommand."),
    command("acl", -2, "", Group::Server, "6.0.0", Run::Container)
        .docs("Looks after users.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "acl|cat",
                -2,
                "noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclCat),
            )
            .docs(
                "Lists categories, or the commands of one.",
                "O(N) in the number of commands.",
            ),
            command(
                "acl|deluser",
                -3,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclDelUser),
            )
            .docs("Deletes users and ends their connections.", "O(1) a user."),
            command(
                "acl|dryrun",
                -4,
                "admin noscript loading stale",
                Group::Server,
                "7.0.0",
                Run::Session(SessionCommand::AclDryRun),
            )
            .docs("Tells whether a user may run a command.", "O(1)"),
            command(
                "acl|genpass",
                -2,
                "noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclGenPass),
            )
            .docs("Makes a random password.", "O(1)"),
            command(
                "acl|getuser",
                3,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclGetUser),
            )
            .docs("Tells what a user may do.", "O(N) in the number of rules."),
            command(
                "acl|help",
                2,
                "loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclHelp),
            )
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "acl|list",
                2,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclList),
            )
            .docs(
                "Lists the users as lines of a file.",
                "O(N) in the number of users.",
            ),
            command(
                "acl|load",
                2,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclLoad),
            )
            .docs(
                "Reads the users from the file again.",
                "O(N) in the number of users.",
            ),
            command(
                "acl|log",
                -2,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclLog),
            )
            .docs(
                "Lists what was refused of late.",
                "O(N) in the number of entries.",
            ),
            command(
                "acl|save",
                2,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclSave),
            )
            .docs(
                "Writes the users to the file.",
                "O(N) in the number of users.",
            ),
            command(
                "acl|setuser",
                -3,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclSetUser),
            )
            .docs("Makes or changes a user.", "O(N) in the number of rules."),
            command(
                "acl|users",
                2,
                "admin noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclUsers),
            )
            .docs(
                "Lists the names of the users.",
                "O(N) in the number of users.",
            ),
            command(
                "acl|whoami",
                2,
                "noscript loading stale",
                Group::Server,
                "6.0.0",
                Run::Session(SessionCommand::AclWhoAmI),
            )
            .docs("Names the user of the connection.", "O(1)"),
        ]),
    command("memory", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs("Tells about memory.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "memory|doctor",
                2,
                "",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::MemoryDoctor),
            )
            .docs("Judges the use of memory.", "O(1)"),
            command(
                "memory|help",
                2,
                "loading stale",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::MemoryHelp),
            )
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "memory|malloc-stats",
                2,
                "",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::MemoryMallocStats),
            )
            .docs("Shows what the allocator counts.", "O(1)"),
            command(
                "memory|purge",
                2,
                "",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::MemoryPurge),
            )
            .docs("Gives unused memory back.", "O(1)"),
            command(
                "memory|stats",
                2,
                "",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::MemoryStats),
            )
            .docs("Tells what memory is used for.", "O(1)"),
            command(
                "memory|usage",
                -3,
                "readonly",
                Group::Server,
                "4.0.0",
                Run::Data(debug::memory_usage),
            )
            .keys(&[key_spec(2, 0, 1, "RO")])
            .docs(
                "Estimates the memory of a key.",
                "O(N) in the number of samples.",
            ),
        ]),
    command("latency", -2, "", Group::Server, "2.8.13", Run::Container)
        .docs("Tells about slow moments.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "latency|doctor",
                2,
                "admin noscript loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyDoctor),
            )
            .docs("Judges the slow moments.", "O(1)"),
            command(
                "latency|graph",
                3,
                "admin noscript loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyGraph),
            )
            .docs("Draws the slow moments of an event.", "O(1)"),
            command(
                "latency|help",
                2,
                "loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyHelp),
            )
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "latency|histogram",
                -2,
                "admin noscript loading stale",
                Group::Server,
                "7.0.0",
                Run::Session(SessionCommand::LatencyHistogram),
            )
            .docs(
                "Tells how long commands took.",
                "O(N) in the number of commands.",
            ),
            command(
                "latency|history",
                3,
                "admin noscript loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyHistory),
            )
            .docs("Lists the slow moments of an event.", "O(1)"),
            command(
                "latency|latest",
                2,
                "admin noscript loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyLatest),
            )
            .docs("Lists the latest slow moments.", "O(1)"),
            command(
                "latency|reset",
                -2,
                "admin noscript loading stale",
                Group::Server,
                "2.8.13",
                Run::Session(SessionCommand::LatencyReset),
            )
            .docs("Forgets slow moments.", "O(1)"),
        ]),
    command("slowlog", -2, "", Group::Server, "2.2.12", Run::Container)
        .docs("Tells about slow commands.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "slowlog|get",
                -2,
                "admin loading stale",
                Group::Server,
                "2.2.12",
                Run::Session(SessionCommand::SlowlogGet),
            )
            .docs("Lists slow commands.", "O(N) in the number of entries."),
            command(
                "slowlog|help",
                2,
                "loading stale",
                Group::Server,
                "6.2.0",
                Run::Session(SessionCommand::SlowlogHelp),
            )
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "slowlog|len",
                2,
                "admin loading stale",
                Group::Server,
                "2.2.12",
                Run::Session(SessionCommand::SlowlogLen),
            )
            .docs("Counts slow commands.", "O(1)"),
            command(
                "slowlog|reset",
                2,
                "admin loading stale",
                Group::Server,
                "2.2.12",
                Run::Session(SessionCommand::SlowlogReset),
            )
            .docs("Forgets slow commands.", "O(1)"),
        ]),
    command(
        "monitor",
        1,
        "admin noscript loading stale",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Monitor),
    )
    .docs("Shows every command as it is executed.", "O(1)"),
    command(
        "tidewire.top",
        -1,
        "admin noscript loading stale",
        Group::Server,
        "8.0.0",
        Run::Session(SessionCommand::TidewireTop),
    )
    .docs(
        "Lists the keys and channels that are used most.",
        "O(1), by the bounds of the sketches.",
    ),
    command("module", -2, "", Group::Server, "4.0.0", Run::Container)
        .docs(
            "Looks after modules, of which there are none.",
            "Depends on subcommand.",
        )
        .subcommands(&[
            command(
                "module|help",
                2,
                "loading stale",
                Group::Server,
                "5.0.0",
                Run::Session(SessionCommand::ModuleHelp),
            )
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "module|load",
                -3,
                "admin noscript no_async_loading",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::ModuleLoad),
            )
            .docs("Loads a module.", "O(1)"),
            command(
                "module|loadex",
                -3,
                "admin noscript no_async_loading",
                Group::Server,
                "7.0.0",
                Run::Session(SessionCommand::ModuleLoad),
            )
            .docs("Loads a module, with parameters.", "O(1)"),
            command(
                "module|unload",
                3,
                "admin noscript no_async_loading",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::ModuleUnload),
            )
            .docs("Unloads a module.", "O(1)"),
            command(
                "module|list",
                2,
                "admin noscript",
                Group::Server,
                "4.0.0",
                Run::Session(SessionCommand::ModuleList),
            )
            .docs("Lists the modules.", "O(1)"),
        ]),
    command(
        "role",
        1,
        "noscript loading stale fast",
        Group::Server,
        "2.8.12",
        Run::Session(SessionCommand::Role),
    )
    .categories("admin dangerous")
    .docs("Tells the part of the server in replication.", "O(1)"),
    command(
        "lastsave",
        1,
        "loading stale fast",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::LastSave),
    )
    .categories("admin dangerous")
    .docs("Tells when the data were last saved.", "O(1)"),
    command(
        "save",
        1,
        "admin noscript no_async_loading no_multi",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Save),
    )
    .docs("Saves the data.", "O(N) in the number of keys."),
    command(
        "bgsave",
        -1,
        "admin noscript no_async_loading",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::BgSave),
    )
    .docs("Saves the data in the background.", "O(1)"),
    command(
        "bgrewriteaof",
        1,
        "admin noscript no_async_loading",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::BgRewriteAof),
    )
    .docs("Rewrites the append-only file in the background.", "O(1)"),
    command(
        "replicaof",
        3,
        "admin noscript stale no_async_loading",
        Group::Server,
        "5.0.0",
        Run::Session(SessionCommand::ReplicaOf),
    )
    .docs("Makes the server a replica, or a master.", "O(1)"),
    command(
        "failover",
        -1,
        "admin noscript stale",
        Group::Server,
        "6.2.0",
        Run::Session(SessionCommand::Failover),
    )
    .docs(
        "Makes a replica the master, and this server its replica.",
        "O(1)",
    ),
    command(
        "replconf",
        -1,
        "admin noscript loading stale allow_busy",
        Group::Server,
        "3.0.0",
        Run::Session(SessionCommand::ReplConf),
    )
    .categories("admin dangerous")
    .docs("A replica tells of itself, and how far it is.", "O(1)"),
    command(
        "sync",
        1,
        "admin noscript no_async_loading no_multi",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::Sync),
    )
    .categories("admin dangerous")
    .docs(
        "Begins the stream of changes with all keys.",
        "O(N) in the number of keys.",
    ),
    command(
        "psync",
        -3,
        "admin noscript no_async_loading no_multi",
        Group::Server,
        "2.8.0",
        Run::Session(SessionCommand::Psync),
    )
    .categories("admin dangerous")
    .docs(
        "Goes on with the stream of changes, or begins it with all keys.",
        "O(1) to go on; O(N) in the number of keys to begin.",
    ),
    command(
        "slaveof",
        3,
        "admin noscript stale no_async_loading",
        Group::Server,
        "1.0.0",
        Run::Session(SessionCommand::ReplicaOf),
    )
    .docs("Makes the server a replica, or a master.", "O(1)"),
    command(
        "wait",
        3,
        "blocking",
        Group::Generic,
        "3.0.0",
        Run::Session(SessionCommand::Wait),
    )
    .categories("connection")
    .docs("Waits until replicas have the writes.", "O(1)"),
    command(
        "waitaof",
        4,
        "blocking",
        Group::Generic,
        "7.2.0",
        Run::Session(SessionCommand::WaitAof),
    )
    .categories("connection")
    .docs("Waits until the writes are on disk.", "O(1)"),
    command(
        "lolwut",
        -1,
        "readonly fast",
        Group::Server,
        "5.0.0",
        Run::Session(SessionCommand::Lolwut),
    )
    .docs("Draws something, and tells the version.", "O(1)"),
];
