//! Publishing and subscribing.

use super::{Command, Group, Run, SessionCommand, command, key_spec};

pub(super) const PUBSUB: &[Command] = &[
    command(
        "subscribe",
        -2,
        "pubsub noscript loading stale",
        Group::PubSub,
        "2.0.0",
        Run::Session(SessionCommand::Subscribe),
    )
    .docs("Subscribes to channels.", "O(N) in the number of channels."),
    command(
        "unsubscribe",
        -1,
        "pubsub noscript loading stale",
        Group::PubSub,
        "2.0.0",
        Run::Session(SessionCommand::Unsubscribe),
    )
    .docs(
        "Ends subscriptions to channels.",
        "O(N) in the number of channels.",
    ),
    command(
        "psubscribe",
        -2,
        "pubsub noscript loading stale",
        Group::PubSub,
        "2.0.0",
        Run::Session(SessionCommand::Psubscribe),
    )
    .docs("Subscribes to patterns.", "O(N) in the number of patterns."),
    command(
        "punsubscribe",
        -1,
        "pubsub noscript loading stale",
        Group::PubSub,
        "2.0.0",
        Run::Session(SessionCommand::Punsubscribe),
    )
    .docs(
        "Ends subscriptions to patterns.",
        "O(N) in the number of patterns.",
    ),
    command(
        "publish",
        3,
        "pubsub loading stale fast may_replicate",
        Group::PubSub,
        "2.0.0",
        Run::Session(SessionCommand::Publish),
    )
    .docs(
        "Sends a message to a channel.",
        "O(N+M) in subscribers and patterns.",
    ),
    command("pubsub", -2, "", Group::PubSub, "2.8.0", Run::Container)
        .docs("Tells about subscriptions.", "Depends on subcommand.")
        .subcommands(&[
            command(
                "pubsub|channels",
                -2,
                "pubsub loading stale",
                Group::PubSub,
                "2.8.0",
                Run::Session(SessionCommand::PubsubChannels),
            )
            .docs("Lists channels with subscribers.", "O(N)"),
            command(
                "pubsub|help",
                2,
                "loading stale",
                Group::PubSub,
                "6.2.0",
                Run::Session(SessionCommand::PubsubHelp),
            )
            .docs("Lists the subcommands.", "O(N)"),
            command(
                "pubsub|numpat",
                2,
                "pubsub loading stale",
                Group::PubSub,
                "2.8.0",
                Run::Session(SessionCommand::PubsubNumPat),
            )
            .docs("Counts patterns with subscribers.", "O(N)"),
            command(
                "pubsub|numsub",
                -2,
                "pubsub loading stale",
                Group::PubSub,
                "2.8.0",
                Run::Session(SessionCommand::PubsubNumSub),
            )
            .docs("Counts subscribers of channels.", "O(N)"),
            command(
                "pubsub|shardchannels",
                -2,
                "pubsub loading stale",
                Group::PubSub,
                "7.0.0",
                Run::Session(SessionCommand::PubsubShardChannels),
            )
            .docs("Lists shard channels with subscribers.", "O(N)"),
            command(
                "pubsub|shardnumsub",
                -2,
                "pubsub loading stale",
                Group::PubSub,
                "7.0.0",
                Run::Session(SessionCommand::PubsubShardNumSub),
            )
            .docs("Counts subscribers of shard channels.", "O(N)"),
        ]),
    command(
        "ssubscribe",
        -2,
        "pubsub noscript loading stale",
        Group::PubSub,
        "7.0.0",
        Run::Session(SessionCommand::Ssubscribe),
    )
    .keys(&[key_spec(1, -1, 1, "not_key")])
    .docs(
        "Subscribes to shard channels.",
        "O(N) in the number of channels.",
    ),
    command(
        "sunsubscribe",
        -1,
        "pubsub noscript loading stale",
        Group::PubSub,
        "7.0.0",
        Run::Session(SessionCommand::Sunsubscribe),
    )
    .keys(&[key_spec(1, -1, 1, "not_key")])
    .docs(
        "Ends subscriptions to shard channels.",
        "O(N) in the number of channels.",
    ),
    command(
        "spublish",
        3,
        "pubsub loading stale fast may_replicate",
        Group::PubSub,
        "7.0.0",
        Run::Session(SessionCommand::Spublish),
    )
    .keys(&[key_spec(1, 0, 1, "not_key")])
    .docs(
        "Sends a message to a shard channel.",
        "O(N) in the number of subscribers.",
    ),
];
