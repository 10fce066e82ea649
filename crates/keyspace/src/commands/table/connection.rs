//! Commands about the connection itself.

use super::{Command, Group, Run, SessionCommand, command};

pub(super) const CONNECTION: &[Command] = &[
    command(
        "ping",
        -1,
        "fast",
        Group::Connection,
        "1.0.0",
        Run::Session(SessionCommand::Ping),
    )
    .categories("connection")
    .docs("Replies PONG or its argument.", "O(1)"),
    command(
        "echo",
        2,
        "loading stale fast",
        Group::Connection,
        "1.0.0",
        Run::Session(SessionCommand::Echo),
    )
    .categories("connection")
    .docs("Replies its argument.", "O(1)"),
    command(
        "hello",
        -1,
        "noscript loading stale fast no_auth allow_busy",
        Group::Connection,
        "6.0.0",
        Run::Session(SessionCommand::Hello),
    )
    .categories("connection")
    .docs("Agrees on a protocol, and more.", "O(1)"),
    command(
        "auth",
        -2,
        "noscript loading stale fast no_auth allow_busy",
        Group::Connection,
        "1.0.0",
        Run::Session(SessionCommand::Auth),
    )
    .categories("connection")
    .docs("Authenticates the connection.", "O(1)"),
    command(
        "select",
        2,
        "loading stale fast",
        Group::Connection,
        "1.0.0",
        Run::Session(SessionCommand::Select),
    )
    .categories("connection")
    .docs("Chooses the database.", "O(1)"),
    command(
        "quit",
        -1,
        "noscript loading stale fast no_auth allow_busy",
        Group::Connection,
        "1.0.0",
        Run::Session(SessionCommand::Quit),
    )
    .categories("connection")
    .docs("Ends the connection.", "O(1)"),
    command(
        "reset",
        1,
        "noscript loading stale fast no_auth allow_busy",
        Group::Connection,
        "6.2.0",
        Run::Session(SessionCommand::Reset),
    )
    .categories("connection")
    .docs("Makes the connection as new.", "O(1)"),
    command("client", -2, "", Group::Connection, "2.4.0", Run::Container)
        .docs("Looks after connections.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "client|getname",
                2,
                "noscript loading stale",
                Group::Connection,
                "2.6.9",
                Run::Session(SessionCommand::ClientGetName),
            )
            .categories("connection")
            .docs("Tells the name of the connection.", "O(1)"),
            command(
                "client|help",
                2,
                "loading stale",
                Group::Connection,
                "5.0.0",
                Run::Session(SessionCommand::ClientHelp),
            )
            .categories("connection")
            .docs("Lists the subcommands.", "O(1)"),
            command(
                "client|id",
                2,
                "noscript loading stale",
                Group::Connection,
                "5.0.0",
                Run::Session(SessionCommand::ClientId),
            )
            .categories("connection")
            .docs("Tells the number of the connection.", "O(1)"),
            command(
                "client|info",
                2,
                "noscript loading stale",
                Group::Connection,
                "6.2.0",
                Run::Session(SessionCommand::ClientInfo),
            )
            .categories("connection")
            .docs("Describes the connection.", "O(1)"),
            command(
                "client|kill",
                -3,
                "admin noscript loading stale",
                Group::Connection,
                "2.4.0",
                Run::Session(SessionCommand::ClientKill),
            )
            .categories("connection")
            .docs("Ends connections.", "O(1)"),
            command(
                "client|list",
                -2,
                "admin noscript loading stale",
                Group::Connection,
                "2.4.0",
                Run::Session(SessionCommand::ClientList),
            )
            .categories("connection")
            .docs("Describes connections.", "O(1)"),
            command(
                "client|no-evict",
                3,
                "admin noscript loading stale",
                Group::Connection,
                "7.0.0",
                Run::Session(SessionCommand::ClientNoEvict),
            )
            .categories("connection")
            .docs("Spares the connection from eviction.", "O(1)"),
            command(
                "client|no-touch",
                3,
                "noscript loading stale",
                Group::Connection,
                "7.2.0",
                Run::Session(SessionCommand::ClientNoTouch),
            )
            .categories("connection")
            .docs("Leaves the use of keys unmarked.", "O(1)"),
            command(
                "client|pause",
                -3,
                "admin noscript loading stale",
                Group::Connection,
                "3.0.0",
                Run::Session(SessionCommand::ClientPause),
            )
            .categories("connection")
            .docs("Holds commands back.", "O(1)"),
            command(
                "client|reply",
                3,
                "noscript loading stale",
                Group::Connection,
                "3.2.0",
                Run::Session(SessionCommand::ClientReply),
            )
            .categories("connection")
            .docs("Turns replies off and on.", "O(1)"),
            command(
                "client|setinfo",
                4,
                "noscript loading stale",
                Group::Connection,
                "7.2.0",
                Run::Session(SessionCommand::ClientSetInfo),
            )
            .categories("connection")
            .docs("Tells the client library.", "O(1)"),
            command(
                "client|setname",
                3,
                "noscript loading stale",
                Group::Connection,
                "2.6.9",
                Run::Session(SessionCommand::ClientSetName),
            )
            .categories("connection")
            .docs("Names the connection.", "O(1)"),
            command(
                "client|unpause",
                2,
                "admin noscript loading stale",
                Group::Connection,
                "6.2.0",
                Run::Session(SessionCommand::ClientUnpause),
            )
            .categories("connection")
            .docs("Lets commands go on.", "O(1)"),
            command(
                "client|caching",
                3,
                "noscript loading stale",
                Group::Connection,
                "6.0.0",
                Run::Session(SessionCommand::ClientCaching),
            )
            .categories("connection")
            .docs("Chooses whether the next reads are tracked.", "O(1)"),
            command(
                "client|getredir",
                2,
                "noscript loading stale",
                Group::Connection,
                "6.0.0",
                Run::Session(SessionCommand::ClientGetRedir),
            )
            .categories("connection")
            .docs("Tells who gets the invalidations.", "O(1)"),
            command(
                "client|tracking",
                -3,
                "noscript loading stale",
                Group::Connection,
                "6.0.0",
                Run::Session(SessionCommand::ClientTracking),
            )
            .categories("connection")
            .docs("Turns tracking on and off.", "O(1)"),
            command(
                "client|trackinginfo",
                2,
                "noscript loading stale",
                Group::Connection,
                "6.2.0",
                Run::Session(SessionCommand::ClientTrackingInfo),
            )
            .categories("connection")
            .docs("Tells how tracking is set.", "O(1)"),
            command(
                "client|unblock",
                -3,
                "admin noscript loading stale",
                Group::Connection,
                "5.0.0",
                Run::Session(SessionCommand::ClientUnblock),
            )
            .categories("connection")
            .docs("Ends the wait of a connection.", "O(1)"),
        ]),
];
