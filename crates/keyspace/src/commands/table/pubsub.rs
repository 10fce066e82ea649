//! Pub/Sub commands.

use super::{Command, Group, Run, command, key_spec};

#[rustfmt::skip]
pub(super) const PUBSUB: &[Command] = &[
    command("subscribe", -2, "pubsub noscript loading stale", Group::PubSub, "2.0.0", Run::Session)
        .marks("for_subscribers").syntax("channel+")
        .docs("Subscribes to channels.", "O(N) in the number of channels."),
    command("unsubscribe", -1, "pubsub noscript loading stale", Group::PubSub, "2.0.0",
        Run::Session).marks("for_subscribers locks_nothing").syntax("[channel+]")
        .docs("Unsubscribes from channels.", "O(N) in the number of channels."),
    command("psubscribe", -2, "pubsub noscript loading stale", Group::PubSub, "2.0.0",
        Run::Session).marks("patterns for_subscribers").syntax("pattern:p+")
        .docs("Subscribes to patterns.", "O(N) in the number of patterns."),
    command("punsubscribe", -1, "pubsub noscript loading stale", Group::PubSub, "2.0.0",
        Run::Session).marks("for_subscribers locks_nothing").syntax("[pattern:p+]")
        .docs("Unsubscribes from patterns.", "O(N) in the number of patterns."),
    command("publish", 3, "pubsub loading stale fast may_replicate", Group::PubSub, "2.0.0",
        Run::Session).marks("publishes locks_nothing").syntax("channel message")
        .docs("Publishes a message to a channel.", "O(N+M) in subscribers and patterns."),
    command("pubsub", -2, "", Group::PubSub, "2.8.0", Run::Container)
        .docs("Commands on subscriptions.", "Depends on subcommand."),
    command("pubsub|channels", -2, "pubsub loading stale", Group::PubSub, "2.8.0", Run::Session)
        .syntax("[pattern:p]")
        .docs("Lists channels with subscribers.", "O(N)"),
    command("pubsub|help", 2, "loading stale", Group::PubSub, "6.2.0", Run::Session)
        .docs("Lists the subcommands.", "O(N)"),
    command("pubsub|numpat", 2, "pubsub loading stale", Group::PubSub, "2.8.0", Run::Session)
        .docs("Counts patterns with subscribers.", "O(N)"),
    command("pubsub|numsub", -2, "pubsub loading stale", Group::PubSub, "2.8.0", Run::Session)
        .syntax("[channel+]")
        .docs("Counts subscribers of channels.", "O(N)"),
    command("pubsub|shardchannels", -2, "pubsub loading stale", Group::PubSub, "7.0.0",
        Run::Session).syntax("[pattern:p]")
        .docs("Lists shard channels with subscribers.", "O(N)"),
    command("pubsub|shardnumsub", -2, "pubsub loading stale", Group::PubSub, "7.0.0", Run::Session)
        .syntax("[shardchannel+]")
        .docs("Counts subscribers of shard channels.", "O(N)"),
    command("ssubscribe", -2, "pubsub noscript loading stale", Group::PubSub, "7.0.0",
        Run::Session).marks("for_subscribers").keys(&[key_spec(1, -1, 1, "not_key")])
        .syntax("shardchannel+")
        .docs("Subscribes to shard channels.", "O(N) in the number of channels."),
    command("sunsubscribe", -1, "pubsub noscript loading stale", Group::PubSub, "7.0.0",
        Run::Session).marks("for_subscribers locks_nothing").keys(&[key_spec(1, -1, 1, "not_key")])
        .syntax("[shardchannel+]")
        .docs("Unsubscribes from shard channels.", "O(N) in the number of channels."),
    command("spublish", 3, "pubsub loading stale fast may_replicate", Group::PubSub, "7.0.0",
        Run::Session).marks("locks_nothing").keys(&[key_spec(1, 0, 1, "not_key")])
        .syntax("shardchannel message")
        .docs("Publishes a message to a shard channel.", "O(N) in the number of subscribers."),
];
