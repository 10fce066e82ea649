//! Connection commands.

use super::{Command, Group, Run, command};

#[rustfmt::skip]
pub(super) const CONNECTION: &[Command] = &[
    command("ping", -1, "fast", Group::Connection, "1.0.0", Run::Session)
        .marks("tells_health for_subscribers locks_nothing").categories("connection")
        .tips("request_policy:all_shards response_policy:all_succeeded").syntax("[message]")
        .docs("Returns PONG or its argument.", "O(1)"),
    command("echo", 2, "loading stale fast", Group::Connection, "1.0.0", Run::Session)
        .marks("locks_nothing").categories("connection").syntax("message")
        .docs("Returns its argument.", "O(1)"),
    command("hello", -1, "noscript loading stale fast no_auth allow_busy", Group::Connection,
        "6.0.0", Run::Session).categories("connection")
        .syntax("[arguments(protover:i [AUTH=auth(username password)] [SETNAME=clientname])]")
        .docs("Selects the protocol, authenticates and names the connection.", "O(1)"),
    command("auth", -2, "noscript loading stale fast no_auth allow_busy", Group::Connection,
        "1.0.0", Run::Session).categories("connection").syntax("[username] password")
        .docs("Authenticates the connection.", "O(1)"),
    command("select", 2, "loading stale fast", Group::Connection, "1.0.0", Run::Session)
        .marks("locks_nothing").categories("connection").syntax("index:i")
        .docs("Selects the database.", "O(1)"),
    command("quit", -1, "noscript loading stale fast no_auth allow_busy", Group::Connection,
        "1.0.0", Run::Session).marks("at_once for_subscribers").categories("connection")
        .docs("Closes the connection.", "O(1)"),
    command("reset", 1, "noscript loading stale fast no_auth allow_busy", Group::Connection,
        "6.2.0", Run::Session).marks("at_once for_subscribers").categories("connection")
        .docs("Resets the connection.", "O(1)"),
    command("client", -2, "", Group::Connection, "2.4.0", Run::Container)
        .docs("Commands on connections.", "Depends on subcommand."),
    command("client|capa", -3, "noscript loading stale", Group::Connection, "8.0.0",
        Run::Session).marks("locks_nothing").categories("connection").syntax("capability+")
        .docs("Declares what the client can do. From Valkey.", "O(1)"),
    command("client|getname", 2, "noscript loading stale", Group::Connection, "2.6.9",
        Run::Session).marks("locks_nothing").categories("connection")
        .docs("Returns the name of the connection.", "O(1)"),
    command("client|help", 2, "loading stale", Group::Connection, "5.0.0", Run::Session)
        .categories("connection")
        .docs("Lists the subcommands.", "O(1)"),
    command("client|id", 2, "noscript loading stale", Group::Connection, "5.0.0", Run::Session)
        .marks("locks_nothing").categories("connection")
        .docs("Returns the id of the connection.", "O(1)"),
    command("client|info", 2, "noscript loading stale", Group::Connection, "6.2.0", Run::Session)
        .categories("connection").tips("nondeterministic_output")
        .docs("Describes the connection.", "O(1)"),
    command("client|kill", -3, "admin noscript loading stale", Group::Connection, "2.4.0",
        Run::Session).categories("connection")
        .syntax("filter(old-format<ip:port> | new-format([ID=client-id:i] | \
            [TYPE=client-type(NORMAL | MASTER | SLAVE | REPLICA | PUBSUB)] | [USER=username] | \
            [ADDR=addr<ip:port>] | [LADDR=laddr<ip:port>] | [SKIPME=skipme(YES | NO)] | \
            [MAXAGE=maxage:i])+)")
        .docs("Closes connections.", "O(1)"),
    command("client|list", -2, "admin noscript loading stale", Group::Connection, "2.4.0",
        Run::Session).categories("connection").tips("nondeterministic_output")
        .syntax("[TYPE=client-type(NORMAL | MASTER | REPLICA | PUBSUB)] [ID=client-id:i+]")
        .docs("Describes connections.", "O(1)"),
    command("client|no-evict", 3, "admin noscript loading stale", Group::Connection, "7.0.0",
        Run::Session).categories("connection").syntax("enabled(ON | OFF)")
        .docs("Exempts the connection from client eviction.", "O(1)"),
    command("client|no-touch", 3, "noscript loading stale", Group::Connection, "7.2.0",
        Run::Session).categories("connection").syntax("enabled(ON | OFF)")
        .docs("Sets whether the connection's commands mark keys as used.", "O(1)"),
    command("client|pause", -3, "admin noscript loading stale", Group::Connection, "3.0.0",
        Run::Session).categories("connection").syntax("timeout:i [mode(WRITE | ALL)]")
        .docs("Pauses commands of clients.", "O(1)"),
    command("client|reply", 3, "noscript loading stale", Group::Connection, "3.2.0", Run::Session)
        .marks("locks_nothing").categories("connection").syntax("action(ON | OFF | SKIP)")
        .docs("Turns replies off and on.", "O(1)"),
    command("client|setinfo", 4, "noscript loading stale", Group::Connection, "7.2.0",
        Run::Session).marks("locks_nothing").categories("connection")
        .tips("request_policy:all_nodes response_policy:all_succeeded")
        .syntax("attr(LIB-NAME=libname | LIB-VER=libver)")
        .docs("Sets the name and version of the client library.", "O(1)"),
    command("client|setname", 3, "noscript loading stale", Group::Connection, "2.6.9",
        Run::Session).marks("locks_nothing").categories("connection")
        .tips("request_policy:all_nodes response_policy:all_succeeded").syntax("connection-name")
        .docs("Sets the name of the connection.", "O(1)"),
    command("client|unpause", 2, "admin noscript loading stale", Group::Connection, "6.2.0",
        Run::Session).categories("connection")
        .docs("Resumes paused clients.", "O(1)"),
    command("client|caching", 3, "noscript loading stale", Group::Connection, "6.0.0",
        Run::Session).categories("connection").syntax("mode(YES | NO)")
        .docs("Sets whether the keys of the next command are tracked.", "O(1)"),
    command("client|getredir", 2, "noscript loading stale", Group::Connection, "6.0.0",
        Run::Session).categories("connection")
        .docs("Returns the client that receives the invalidations.", "O(1)"),
    command("client|tracking", -3, "noscript loading stale", Group::Connection, "6.0.0",
        Run::Session).categories("connection")
        .syntax("status(ON | OFF) [REDIRECT=client-id:i] [PREFIX=prefix++] [BCAST] [OPTIN] \
            [OPTOUT] [NOLOOP]")
        .docs("Turns tracking on and off.", "O(1)"),
    command("client|trackinginfo", 2, "noscript loading stale", Group::Connection, "6.2.0",
        Run::Session).categories("connection")
        .docs("Returns the tracking mode.", "O(1)"),
    command("client|unblock", -3, "admin noscript loading stale", Group::Connection, "5.0.0",
        Run::Session).categories("connection")
        .syntax("client-id:i [unblock-type(TIMEOUT | ERROR)]")
        .docs("Unblocks a waiting client.", "O(1)"),
];
