//! Commands for scripts and functions.

use super::{Command, Group, Run, command, counted_keys};

#[rustfmt::skip]
pub(super) const SCRIPTING: &[Command] = &[
    command("eval", -3, "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys",
        Group::Scripting, "2.6.0", Run::Session).marks("runs_script")
        .keys(&[counted_keys(2, 3, "RW access update")]).categories("scripting")
        .syntax("script numkeys:i [key:k+] [arg+]")
        .docs("Runs a script.", "Depends on the script."),
    command("eval_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting, "7.0.0", Run::Session).marks("runs_script")
        .keys(&[counted_keys(2, 3, "RO access")]).categories("scripting")
        .syntax("script numkeys:i [key:k+] [arg+]")
        .docs("Runs a script that does not write.", "Depends on the script."),
    command("evalsha", -3,
        "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys", Group::Scripting, "2.6.0", Run::Session)
        .marks("by_sha1 runs_script").keys(&[counted_keys(2, 3, "RW access update")])
        .categories("scripting").syntax("sha1 numkeys:i [key:k+] [arg+]")
        .docs("Runs a cached script, by its SHA1 digest.", "Depends on the script."),
    command("evalsha_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting, "7.0.0", Run::Session).marks("by_sha1 runs_script")
        .keys(&[counted_keys(2, 3, "RO access")]).categories("scripting")
        .syntax("sha1 numkeys:i [key:k+] [arg+]")
        .docs("Runs a cached script that does not write.", "Depends on the script."),
    command("fcall", -3, "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys",
        Group::Scripting, "7.0.0", Run::Session).marks("calls_function runs_script")
        .keys(&[counted_keys(2, 3, "RW access update")]).categories("scripting")
        .syntax("function numkeys:i [key:k+] [arg+]")
        .docs("Runs a function of a library.", "Depends on the function."),
    command("fcall_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting, "7.0.0", Run::Session).marks("calls_function runs_script")
        .keys(&[counted_keys(2, 3, "RO access")]).categories("scripting")
        .syntax("function numkeys:i [key:k+] [arg+]")
        .docs("Runs a function that does not write.", "Depends on the function."),
    command("function", -2, "", Group::Scripting, "7.0.0", Run::Container)
        .docs("Commands on function libraries.", "Depends on subcommand."),
    command("function|delete", 3, "write noscript", Group::Scripting, "7.0.0", Run::Session)
        .marks("changes_libraries locks_nothing")
        .categories("scripting").tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("library-name")
        .docs("Removes a library.", "O(1)"),
    command("function|dump", 2, "noscript", Group::Scripting, "7.0.0", Run::Session)
        .categories("scripting")
        .docs("Serialises all libraries.", "O(N) in the number of functions."),
    command("function|flush", -2, "write noscript", Group::Scripting, "7.0.0", Run::Session)
        .marks("changes_libraries locks_nothing")
        .categories("scripting").tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("[flush-type(ASYNC | SYNC)]")
        .docs("Removes all libraries.", "O(N) in the number of functions."),
    command("function|help", 2, "loading stale", Group::Scripting, "7.0.0", Run::Session)
        .categories("scripting")
        .docs("Lists the subcommands.", "O(1)"),
    command("function|kill", 2, "noscript allow_busy", Group::Scripting, "7.0.0", Run::Session)
        .categories("scripting").tips("request_policy:all_shards response_policy:one_succeeded")
        .docs("Kills the running function.", "O(1)"),
    command("function|list", -2, "noscript", Group::Scripting, "7.0.0", Run::Session)
        .categories("scripting").tips("nondeterministic_output_order")
        .syntax("[LIBRARYNAME=library-name-pattern] [WITHCODE]")
        .docs("Lists the libraries.", "O(N) in the number of functions."),
    command("function|load", -3, "write denyoom noscript", Group::Scripting, "7.0.0", Run::Session)
        .marks("changes_libraries locks_nothing")
        .categories("scripting").tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("[REPLACE] function-code")
        .docs("Loads a library of functions.", "O(1)"),
    command("function|restore", -3, "write denyoom noscript", Group::Scripting, "7.0.0",
        Run::Session).marks("changes_libraries locks_nothing")
        .categories("scripting")
        .tips("request_policy:all_shards response_policy:all_succeeded")
        .syntax("serialized-value [policy(FLUSH | APPEND | REPLACE)]")
        .docs("Restores libraries from FUNCTION DUMP.", "O(N) in the number of functions."),
    command("function|stats", 2, "noscript allow_busy", Group::Scripting, "7.0.0", Run::Session).marks("tells_script")
        .categories("scripting")
        .tips("nondeterministic_output request_policy:all_shards response_policy:special")
        .docs("Returns the running function.", "O(1)"),
    command("script", -2, "", Group::Scripting, "2.6.0", Run::Container)
        .docs("Commands on scripts.", "Depends on subcommand."),
    command("script|debug", 3, "noscript", Group::Scripting, "3.2.0", Run::Session)
        .categories("scripting").syntax("mode(YES | SYNC | NO)")
        .docs("Sets the debug mode of scripts.", "O(1)"),
    command("script|exists", -3, "noscript", Group::Scripting, "2.6.0", Run::Session)
        .categories("scripting").tips("request_policy:all_shards response_policy:agg_logical_and")
        .syntax("sha1+")
        .docs("Returns which scripts are cached.", "O(N) in the number of scripts asked for."),
    command("script|flush", -2, "noscript", Group::Scripting, "2.6.0", Run::Session)
        .categories("scripting").tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("[flush-type(ASYNC | SYNC)]")
        .docs("Removes all cached scripts.", "O(N) in the number of scripts."),
    command("script|help", 2, "loading stale", Group::Scripting, "5.0.0", Run::Session)
        .categories("scripting")
        .docs("Lists the subcommands.", "O(1)"),
    command("script|kill", 2, "noscript allow_busy", Group::Scripting, "2.6.0", Run::Session)
        .categories("scripting").tips("request_policy:all_shards response_policy:one_succeeded")
        .docs("Kills the running script.", "O(1)"),
    command("script|load", 3, "noscript stale", Group::Scripting, "2.6.0", Run::Session)
        .categories("scripting").tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("script")
        .docs("Caches a script without running it.", "O(N) in the length of the script."),
];
