//! Scripts and functions.

use super::{Command, Group, Run, SessionCommand, command, counted_keys};

pub(super) const SCRIPTING: &[Command] = &[
    command(
        "eval",
        -3,
        "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys",
        Group::Scripting,
        "2.6.0",
        Run::Session(SessionCommand::Eval),
    )
    .keys(&[counted_keys(2, 3, "RW access update")])
    .categories("scripting")
    .docs("Runs a script.", "Depends on the script."),
    command(
        "eval_ro",
        -3,
        "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting,
        "7.0.0",
        Run::Session(SessionCommand::EvalRo),
    )
    .keys(&[counted_keys(2, 3, "RO access")])
    .categories("scripting")
    .docs(
        "Runs a script that does not write.",
        "Depends on the script.",
    ),
    command(
        "evalsha",
        -3,
        "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys",
        Group::Scripting,
        "2.6.0",
        Run::Session(SessionCommand::EvalSha),
    )
    .keys(&[counted_keys(2, 3, "RW access update")])
    .categories("scripting")
    .docs(
        "Runs a script that is known, by its SHA1 digest.",
        "Depends on the script.",
    ),
    command(
        "evalsha_ro",
        -3,
        "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting,
        "7.0.0",
        Run::Session(SessionCommand::EvalShaRo),
    )
    .keys(&[counted_keys(2, 3, "RO access")])
    .categories("scripting")
    .docs(
        "Runs a script that is known and does not write.",
        "Depends on the script.",
    ),
    command(
        "fcall",
        -3,
        "noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys",
        Group::Scripting,
        "7.0.0",
        Run::Session(SessionCommand::Fcall),
    )
    .keys(&[counted_keys(2, 3, "RW access update")])
    .categories("scripting")
    .docs("Runs a function of a library.", "Depends on the function."),
    command(
        "fcall_ro",
        -3,
        "readonly noscript stale skip_monitor no_mandatory_keys movablekeys",
        Group::Scripting,
        "7.0.0",
        Run::Session(SessionCommand::FcallRo),
    )
    .keys(&[counted_keys(2, 3, "RO access")])
    .categories("scripting")
    .docs(
        "Runs a function that does not write.",
        "Depends on the function.",
    ),
    command(
        "function",
        -2,
        "",
        Group::Scripting,
        "7.0.0",
        Run::Container,
    )
    .docs(
        "Looks after libraries of functions.",
        "Depends on subcommand.",
    )
    .subcommands(&[
        command(
            "function|delete",
            3,
            "write noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionDelete),
        )
        .categories("scripting")
        .docs("Removes a library.", "O(1)"),
        command(
            "function|dump",
            2,
            "noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionDump),
        )
        .categories("scripting")
        .docs(
            "Gives all libraries as one value.",
            "O(N) in the number of functions.",
        ),
        command(
            "function|flush",
            -2,
            "write noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionFlush),
        )
        .categories("scripting")
        .docs("Removes all libraries.", "O(N) in the number of functions."),
        command(
            "function|help",
            2,
            "loading stale",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionHelp),
        )
        .categories("scripting")
        .docs("Lists the subcommands.", "O(1)"),
        command(
            "function|kill",
            2,
            "noscript allow_busy",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionKill),
        )
        .categories("scripting")
        .docs("Ends the function that runs.", "O(1)"),
        command(
            "function|list",
            -2,
            "noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionList),
        )
        .categories("scripting")
        .docs("Lists the libraries.", "O(N) in the number of functions."),
        command(
            "function|load",
            -3,
            "write denyoom noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionLoad),
        )
        .categories("scripting")
        .docs("Makes a library of functions.", "O(1)"),
        command(
            "function|restore",
            -3,
            "write denyoom noscript",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionRestore),
        )
        .categories("scripting")
        .docs(
            "Takes libraries from a value of FUNCTION DUMP.",
            "O(N) in the number of functions.",
        ),
        command(
            "function|stats",
            2,
            "noscript allow_busy",
            Group::Scripting,
            "7.0.0",
            Run::Session(SessionCommand::FunctionStats),
        )
        .categories("scripting")
        .docs("Tells which function runs.", "O(1)"),
    ]),
    command("script", -2, "", Group::Scripting, "2.6.0", Run::Container)
        .docs("Looks after scripts.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "script|debug",
                3,
                "noscript",
                Group::Scripting,
                "3.2.0",
                Run::Session(SessionCommand::ScriptDebug),
            )
            .categories("scripting")
            .docs("Chooses whether scripts are debugged.", "O(1)"),
            command(
                "script|exists",
                -3,
                "noscript",
                Group::Scripting,
                "2.6.0",
                Run::Session(SessionCommand::ScriptExists),
            )
            .categories("scripting")
            .docs(
                "Tells which scripts are known.",
                "O(N) in the number of scripts asked for.",
            ),
            command(
                "script|flush",
                -2,
                "noscript",
                Group::Scripting,
                "2.6.0",
                Run::Session(SessionCommand::ScriptFlush),
            )
            .categories("scripting")
            .docs("Forgets all scripts.", "O(N) in the number of scripts."),
            command(
                "script|help",
                2,
                "loading stale",
                Group::Scripting,
                "5.0.0",
                Run::Session(SessionCommand::ScriptHelp),
            )
            .categories("scripting")
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "script|kill",
                2,
                "noscript allow_busy",
                Group::Scripting,
                "2.6.0",
                Run::Session(SessionCommand::ScriptKill),
            )
            .categories("scripting")
            .docs("Ends the script that runs.", "O(1)"),
            command(
                "script|load",
                3,
                "noscript stale",
                Group::Scripting,
                "2.6.0",
                Run::Session(SessionCommand::ScriptLoad),
            )
            .categories("scripting")
            .docs(
                "Makes a script known without running it.",
                "O(N) in the length of the script.",
            ),
        ]),
];
